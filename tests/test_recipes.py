"""Recipes: each in one line, run on a real conversation, and switched from one to another."""

import json

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder
from sqlalchemy import select, update

from memory_core import ChatMessage, Memory, Services, StaticMemoryBlock
from memory_core.errors import ConfigError, EmbedderError
from memory_core.events import RecipeChosen
from memory_core.recipes import RECIPES, recipe
from memory_core.store.tables import block_table
from memory_inspector.demo.conversations import EXAMPLES, MESSAGES
from memory_inspector.lab.comparing import outcome_of
from memory_inspector.lab.playing import Player
from memory_inspector.lab.script import script_of
from memory_inspector.lab.variants import variant_after_switch
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job

KEYS = list(RECIPES)
FLOWERS = ("roses", "lilies", "tulips", "asters", "poppies", "irises", "dahlias", "peonies")


@pytest.fixture
def services():
    return Services(embedder=FakeEmbedder())


def made(key, services, **given):
    options = {"token_limit": 300, "user_id": "sam"} | given
    return Memory.from_recipe(key, "s", services=services, **options)


def talk(memory, turns=FLOWERS):
    for flower in turns:
        memory.put(user(f"My favourite flowers in spring are {flower}, and I love {flower} more than anything else."))
        memory.put(assistant(f"Noted: {flower}. I will think of {flower} when spring comes and the shop has them."))


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_every_recipe_is_one_line_and_keeps_its_limit(key, services):
    memory = made(key, services)
    talk(memory)
    context = memory.build_context("Which flowers do I love?")
    assert memory.session.config.recipe == key
    assert context.plan.total <= 300
    assert context.failures == {}
    assert not memory.session.deliveries(states=("parked", "pending"))


@pytest.mark.parametrize("key", KEYS)
def test_every_recipe_says_when_to_use_it(key):
    each = recipe(key)
    assert each.key == key
    for words in (each.title, each.tagline, each.when, each.strengths, each.limits):
        assert words
        assert words == words.strip()
    assert max(len(each.tagline), len(each.strengths), len(each.limits)) < 100


def test_a_buffer_holds_all_that_fits_and_not_a_message_more(services):
    memory = made("buffer", services)
    talk(memory)
    context = memory.build_context()
    assert context.plan.cuts == ()
    oldest_gone = [message for message in memory.session.messages("archived") if message.message.role == "user"][-1]
    turn = sum(m.tokens.content for m in memory.session.messages() if m.turn == oldest_gone.turn)
    assert context.plan.total + turn > 300


def test_a_window_holds_its_turns_and_no_more(services):
    memory = made("window", services, turns=3, token_limit=10_000)
    talk(memory)
    said = [message.content for message in memory.get() if message.role == "user"]
    assert [next(f for f in FLOWERS if f in text) for text in said] == list(FLOWERS[-3:])
    flushed = memory.events(kinds=("flush_planned",))
    assert {record.event.rules for record in flushed} == {("window",)}
    assert {record.event.queue_turns for record in flushed} == {3}


def test_a_recipes_settings_yield_to_what_is_given(services):
    memory = made("window", services, turns=2, chat_history_token_ratio=0.5)
    assert (memory.session.config.queue_turns, memory.session.config.chat_history_token_ratio) == (2, 0.5)


@pytest.mark.parametrize(
    ("key", "given", "sentence"),
    [
        ("bufer", {}, "there is no recipe called 'bufer': choose one of buffer, window"),
        ("window", {"turns": 0}, "queue_turns must be at least 1 and at most 1,000,000,000, not 0"),
        ("hybrid", {"overflow": "lost"}, "overflow must be 'verbatim' or 'summarised', not 'lost'"),
        ("summary", {"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ("user_memories", {"user_id": None}, "belongs to the user: give the memory a user_id"),
    ],
)
def test_an_impossible_recipe_is_refused_in_one_sentence(key, given, sentence, services):
    with pytest.raises(ConfigError, match=sentence):
        made(key, services, **given)


def test_a_hybrid_keeps_overflow_word_for_word_or_as_a_summary(services):
    assert [a.kind for a in made("hybrid", services).blocks] == ["graph", "vector"]
    other = Memory.from_recipe("hybrid", overflow="summarised", services=services)
    assert [a.kind for a in other.blocks] == ["graph", "summary"]


# -- switching -----------------------------------------------------------------------------------


def test_what_a_switch_keeps_adds_and_removes_is_said_before(services):
    memory = made("blocks", services, instructions="Be brief.")
    talk(memory)
    archived = len(memory.session.messages("archived"))
    plan = memory.preview.switch("summary")
    assert plan.kept == ("Instructions",)
    assert [(block.name, block.kind, block.fills) for block in plan.added] == [("Summary", "summary", archived)]
    assert {left.name: left.kind for left in plan.removed} == {"Facts": "facts", "Earlier turns": "vector"}
    assert plan.order == ("Instructions", "Summary")
    assert memory.session.config.recipe == "blocks"
    assert [attached.name for attached in memory.blocks] == ["Instructions", "Facts", "Earlier turns"]


def test_a_switch_does_what_was_said_and_fills_what_comes(services):
    memory = made("blocks", services)
    talk(memory)
    facts = {fact.text for fact in memory.facts.read("Facts")}
    memory.session.switch("vector")
    assert (memory.session.config.recipe, [a.name for a in memory.blocks]) == ("vector", ["Earlier turns"])
    memory.session.switch("blocks")
    assert {fact.text for fact in memory.facts.read("Facts")} == facts
    chosen = memory.events(kinds=("recipe_chosen",))
    assert [(r.event.before, r.event.recipe, r.actor) for r in chosen] == [
        ("blocks", "vector", "user"),
        ("vector", "blocks", "user"),
    ]
    assert isinstance(chosen[0].event, RecipeChosen)


def test_a_block_that_learns_each_turn_is_given_every_turn_once(services):
    memory = made("buffer", services, token_limit=3_000)
    talk(memory)
    memory.session.switch("user_memories")
    talk(memory, ["orchids"])
    given = [
        seq
        for d in memory.session.deliveries(states=("done",))
        if d.block == "User memories"
        for seq in range(d.first_seq, d.last_seq + 1)
    ]
    assert given == list(range(1, 19))
    assert any("orchids" in fact.text for fact in memory.facts.read("User memories"))
    assert any("roses" in fact.text for fact in memory.facts.read("User memories"))


def test_the_room_for_blocks_that_a_person_set_stays(services):
    memory = made("blocks", services, chat_history_token_ratio=0.5)
    assert "chat_history_token_ratio" not in memory.preview.switch("summary").settings
    memory.session.switch("buffer")
    assert memory.session.config.chat_history_token_ratio == 1.0
    assert memory.preview.switch("summary").settings["chat_history_token_ratio"] == (1.0, 0.7)


def test_notes_that_an_agent_wrote_stay_and_are_edited_no_more(services):
    memory = made("self_editing", services)
    memory.blocks.edit("Human", "Sam lives in Porto.")
    plan = memory.preview.switch("blocks")
    assert plan.changed["Human"] == {"read_only": (False, True)}
    memory.session.switch("blocks")
    assert "Sam lives in Porto." in memory.get()[0].content


def test_a_session_that_is_as_its_recipe_has_it_switches_to_nothing(services):
    for key in KEYS:
        memory = Memory.from_recipe(key, user_id="sam", services=services)
        assert not memory.preview.switch(key), key


def test_a_name_that_is_taken_gets_a_number(services):
    memory = Memory.from_recipe("blocks", services=services, instructions="x")
    memory.blocks.add(StaticMemoryBlock(name="Summary", static_content="Mine."))
    assert [block.name for block in memory.session.switch("summary").added] == ["Summary 2"]


def test_a_recipe_of_a_user_needs_one(services):
    memory = Memory.from_recipe("buffer", services=services)
    with pytest.raises(ConfigError, match="belongs to a user, and this session has none"):
        memory.session.switch("user_memories")
    assert memory.session.config.recipe == "buffer"


@pytest.mark.slow
@pytest.mark.parametrize("before", KEYS)
def test_any_recipe_can_be_switched_to_any_other_and_back(before, services):
    memory = Memory.from_recipe(before, user_id="sam", services=services, token_limit=400)
    talk(memory, FLOWERS[:4])
    for key in [*KEYS, before]:
        memory.session.switch(key)
        assert memory.session.config.recipe == key
        assert not memory.preview.switch(key)
        assert memory.build_context("flowers").failures == {}
    assert len(memory.get_all()) == 8


# -- tried in the Lab ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_any_recipe_is_tried_on_the_conversation_without_touching_it(key, services):
    memory = made("blocks", services, instructions="Be brief.")
    talk(memory)
    position = memory.session.status().position
    tried = Player(services).play(script_of(memory), variant_after_switch(memory, key))
    assert memory.session.status().position == position
    assert tried.turns() == list(range(1, len(FLOWERS) + 1))
    assert all(0 < turn.sent <= 300 for turn in outcome_of(tried.memory).turns)
    assert "Be brief." in tried.prompt(len(FLOWERS)).messages[0].content
    assert bool(outcome_of(tried.memory).calls) == (key not in ("buffer", "window", "vector"))


def test_the_present_recipe_is_tried_as_it_really_ran(services):
    memory = made("summary", services)
    sent = []
    for flower in FLOWERS:
        memory.put(user(f"My favourite flowers in spring are {flower}, and I love {flower} more than anything else."))
        sent.append(memory.build_context().plan.total)
        memory.put(assistant(f"Noted: {flower}. I will think of {flower} when spring comes and the shop has them."))
    tried = Player(services).play(script_of(memory), variant_after_switch(memory, "summary"))
    turns = outcome_of(tried.memory).turns
    assert [turn.sent for turn in turns] == sent
    assert sum(turn.flushed for turn in turns) == len(memory.session.messages("archived"))


def test_a_recipe_that_cannot_be_tried_says_why(services):
    memory = Memory.from_recipe("buffer", services=services)
    talk(memory)
    with pytest.raises(ConfigError, match="belongs to a user"):
        variant_after_switch(memory, "user_memories")


# -- on real conversations -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def real_conversation(data_file):
    """The first 60 messages of a conversation between two people, the second of them as the assistant."""
    told = json.loads(data_file("locomo/locomo5.json").read_text())[0]["conversation"]
    said = [line for number in (1, 2, 3, 4) for line in told[f"session_{number}"]]
    return [
        ChatMessage(role="user" if line["speaker"] == told["speaker_a"] else "assistant", content=line["text"])
        for line in said[:60]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_every_recipe_runs_on_a_real_conversation(key, real_conversation, services):
    memory = made(key, services, token_limit=800)
    for message in real_conversation:
        memory.put(message)
        if message.role == "user":
            context = memory.build_context()
            assert context.plan.total <= 800
            assert context.failures == {}
    assert memory.get_all() == real_conversation
    assert not memory.session.deliveries(states=("parked", "pending"))
    log = [(record.kind, record.event) for record in memory.events()]
    assert not [event for kind, event in log if kind in ("delivery_failed", "block_failed", "unknown_event")]


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_every_recipe_plays_the_demo_and_its_own_example(key, services):
    for messages, limit in ((MESSAGES, 1_200), (EXAMPLES[key].messages, EXAMPLES[key].token_limit)):
        memory = Memory.from_recipe(key, user_id="sam", services=services, token_limit=limit)
        memory.session.attach_recording(messages, source="example")
        play(Job("play"), memory, turns=None, pace=0)
        said = [message for message in memory.get_all() if message.role != "tool" and not message.tool_calls]
        assert said == list(messages)
        assert memory.log.history().latest_turn == sum(message.role == "user" for message in messages)
        assert memory.build_context().failures == {}


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS)
def test_in_every_example_the_queue_or_a_block_does_something(key, services):
    memory = Memory.from_recipe(key, user_id="sam", services=services, token_limit=EXAMPLES[key].token_limit)
    memory.session.attach_recording(EXAMPLES[key].messages, source="example")
    play(Job("play"), memory, turns=None, pace=0)
    kinds = {record.kind for record in memory.events()}
    assert kinds & {"flush_planned", "fact_added", "relation_added", "tool_called"}


def test_a_recipe_whose_blocks_did_not_learn_says_so():
    broken = Services(embedder=BrokenEmbedder())
    memory = made("vector", broken)
    talk(memory)
    tried = Player(broken).play(script_of(memory), variant_after_switch(memory, "vector"))
    assert tried.unknown[-1].endswith("stored pieces are found by keyword alone: the embedding model failed.")


class BrokenEmbedder(FakeEmbedder):
    """A model whose file is missing."""

    def embed(self, texts):
        raise EmbedderError("The embedding model is missing.")


def test_what_a_recipe_was_given_is_remembered_and_goes_with_the_next_one(services):
    memory = Memory.from_recipe("window", turns=4, services=services)
    assert memory.session.config.recipe_parameters == {"turns": 4}
    assert not memory.preview.switch("window")
    assert memory.preview.switch("window", turns=6).settings == {"queue_turns": (4, 6)}
    memory.session.switch("hybrid", overflow="summarised")
    assert memory.session.config.recipe_parameters == {"overflow": "summarised"}
    assert not memory.preview.switch("hybrid")
    memory.session.switch("summary")
    assert memory.session.config.recipe_parameters == {}
    made_of_words = Memory.from_recipe("blocks", instructions="Be brief.", services=services)
    assert made_of_words.session.config.recipe_parameters == {}


def given_to(memory, block):
    """The messages a block was given, each as often as it was."""
    memory.deliver()
    done = [delivery for delivery in memory.session.deliveries(states=("done",)) if delivery.block == block]
    flushes = {delivery.flush for delivery in done if delivery.flush is not None}
    given = [message.seq for message in memory.session.messages("archived") if message.flush in flushes]
    spans = [(delivery.first_seq, delivery.last_seq) for delivery in done if delivery.flush is None]
    return sorted([*given, *(seq for first, last in spans for seq in range(first, last + 1))])


def test_a_block_that_stays_is_given_no_message_twice_when_it_learns_at_another_time(services):
    memory = Memory.from_recipe("summary", user_id="sam", services=services, token_limit=300)
    talk(memory, FLOWERS[:5])
    memory.session.switch("user_memories")  # the summary stays, and learns each turn from here on
    assert [attached.name for attached in memory.blocks if attached.kind == "summary"] == ["Summary"]
    talk(memory, FLOWERS[5:7])
    assert given_to(memory, "Summary") == list(range(1, 15))
    memory.session.switch("summary")  # and again when messages leave the queue
    talk(memory, (*FLOWERS[7:], "violets", "orchids", "jasmine"))
    given = given_to(memory, "Summary")
    assert given == sorted(set(given))
    assert set(given) >= {message.seq for message in memory.session.messages("archived")}


@pytest.mark.slow
def test_in_a_full_prompt_facts_leave_room_for_earlier_turns(services):
    memory = Memory.from_recipe("blocks", "s", services=services, token_limit=400, accounting="billed")
    for number in range(40):
        memory.put(user(f"My cousin number {number} is called Ana{number} and lives in Porto on street {number}."))
    memory.flush(all=True)
    facts = memory.facts.read("Facts")
    memory.facts.pin(facts[0].id)
    made = memory.build_context("Where does Ana35 live?")
    granted = {part.name: part for part in made.plan.granted}
    largest = max(piece.tokens for piece in granted["Facts"].pieces)
    assert 0.3 * 400 - largest < granted["Facts"].granted <= 0.3 * 400
    assert granted["Earlier turns"].granted > 200
    shown = [made.words[piece.ref] for piece in granted["Facts"].pieces]
    assert facts[0].text in shown
    assert any("Ana35" in text for text in shown)
    assert [cut.rule for cut in made.plan.cuts if cut.part == "Facts"] == ["over_share"]


def test_a_session_of_a_version_without_a_setting_is_still_as_its_recipe_has_it(services):
    memory = Memory.from_recipe("blocks", "s", services=services)
    database = memory.session.database
    with database.engine.begin() as connection:
        rows = connection.execute(select(block_table.c.name, block_table.c.settings)).all()
        for name, settings in rows:
            stored = json.loads(settings) if isinstance(settings, str) else dict(settings)
            stored.pop("prompt_share", None)
            value = json.dumps(stored) if isinstance(settings, str) else stored
            connection.execute(update(block_table).where(block_table.c.name == name).values(settings=value))
    again = Memory.open("s", database, services=services)
    assert again.blocks.settings("Facts")["prompt_share"] is None
    assert not again.preview.switch("blocks")
    assert again.preview.switch("vector")
