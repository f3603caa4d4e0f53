"""What is foretold of the next message is what the engine then does."""

import json

import pytest
from engine_fakes import ShakyExtractor, assistant, open_memory, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    ConflictError,
    FactExtractionMemoryBlock,
    Memory,
    StaticMemoryBlock,
)
from memory_core.planning import curation as wish
from memory_core.recipes import RECIPES
from memory_inspector.demo.conversations import EXAMPLES

WORDS = ["apple", "boat", "cloud", "door", "engine", "field"]


def words(number):
    return " ".join(WORDS[place % len(WORDS)] for place in range(number))


def a_memory(sizes, **options):
    """A session of so many turns, with a text that is never cut, one that is, and facts that learn nothing."""
    memory = open_memory(
        "s",
        token_limit=100_000,
        memory_blocks=[
            StaticMemoryBlock(name="Rules", static_content=words(12)),
            StaticMemoryBlock(name="Notes", static_content=words(30), priority=2),
            FactExtractionMemoryBlock(
                name="Facts", priority=1, facts=["Ana likes tea", "Rui likes soup"], accept_short_term_memory=False
            ),
        ],
        **options,
    )
    for asked, answered in sizes:
        memory.put_messages([user(words(asked)), assistant(words(answered))])
    return memory


SIZES = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 60)), min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    sizes=SIZES,
    limit=st.integers(40, 700),
    ratio=st.sampled_from([0.1, 0.33, 0.6, 0.7, 1.0]),
    flush_size=st.one_of(st.none(), st.integers(1, 300)),
    turns=st.one_of(st.none(), st.integers(1, 4)),
    accounting=st.sampled_from(["content", "billed"]),
    order=st.sampled_from(["largest_first", "smallest_first"]),
    coming=st.integers(1, 80),
)
def test_the_next_flush_and_prompt_are_as_foretold(sizes, limit, ratio, flush_size, turns, accounting, order, coming):
    memory = a_memory(sizes)
    changes = {
        "token_limit": limit,
        "chat_history_token_ratio": ratio,
        "token_flush_size": None if flush_size is None else min(flush_size, limit),
        "queue_turns": turns,
        "accounting": accounting,
        "truncation_order": order,
    }
    message = user(words(coming))
    before = memory.session.status().position
    foretold = memory.preview.next_prompt(changes, message=message)
    assert memory.session.status().position == before, "looking changes nothing"
    memory.configure(**changes)
    receipt = memory.put(message)
    context = memory.build_context()
    flushed = receipt.flushed
    assert [gone.seq for gone in foretold.flush.leave] == ([gone.seq for gone in flushed.leave] if flushed else [])
    assert foretold.flush.tokens_left == receipt.queue_tokens
    assert foretold.context.plan == context.plan
    assert foretold.context.messages == context.messages


@pytest.mark.slow
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(sizes=SIZES, flush_size=st.integers(1, 300))
def test_flushing_now_moves_what_was_planned(sizes, flush_size):
    memory = a_memory(sizes, token_flush_size=flush_size)
    planned = memory.preview.flush()
    flushed = memory.flush().flushed
    assert (flushed or ()) == (planned or ())


@pytest.mark.slow
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(sizes=SIZES, limit=st.integers(60, 400), words_of_it=st.integers(1, 60), coming=st.integers(1, 80))
def test_a_change_of_facts_does_to_the_next_prompt_what_was_foretold(sizes, limit, words_of_it, coming):
    memory = a_memory(sizes)
    memory.configure(token_limit=limit, token_flush_size=20)
    desk, message = memory.facts.desk("Facts"), user(words(coming))
    change = wish.edit(desk.facts()[0], words(words_of_it))
    foretold = memory.preview.next_prompt(message=message, facts={"Facts": desk.after(change)})
    desk.apply(change)
    memory.put(message)
    assert foretold.context.plan == memory.build_context().plan


def test_the_next_message_of_a_recording_is_the_one_that_is_foretold():
    memory = a_memory([(5, 5)])
    memory.session.attach_recording([user("What now?"), assistant("Tea.")], source="test")
    assert memory.preview.next_prompt().message == user("What now?")
    assert memory.preview.next_prompt(message=user("Else")).message == user("Else")
    assert a_memory([(5, 5)]).preview.next_prompt().message is None


def test_pinned_messages_stay_in_front_and_never_leave():
    memory = open_memory("s", token_limit=1_000)
    memory.put_messages([ChatMessage(role="system", content="Be kind."), user(words(50)), assistant(words(50))])
    foretold = memory.preview.next_prompt({"token_limit": 60}, message=user("Hello"))
    memory.configure(token_limit=60)
    memory.put(user("Hello"))
    assert foretold.context.plan == memory.build_context().plan
    assert foretold.context.pinned_seqs == (1,)


def test_settings_that_changed_since_they_were_opened_are_not_overwritten():
    memory = a_memory([(5, 5)])
    memory.configure(token_limit=500)
    with pytest.raises(ConflictError):
        memory.configure(token_limit=300, opened={"token_limit": 100_000})
    memory.configure(token_limit=300, opened={"token_limit": 500})
    assert memory.session.config.token_limit == 300


# -- with blocks that learn ------------------------------------------------------------------------


def as_said(context):
    """A prompt with its numbers, where what was not stored yet goes by its words instead of by an id."""
    plan = context.plan
    parts = [(part.name, part.asked, part.granted, len(part.pieces)) for part in plan.granted]
    cuts = [(cut.part, cut.rule, cut.tokens, sorted(map(str, map(context.words.get, cut.refs)))) for cut in plan.cuts]
    return plan.total, parts, sorted(cuts), [message.to_json() for message in context.messages]


@pytest.fixture(scope="module")
def real_conversation(data_file):
    """The first 60 messages of a conversation between two people, the second of them as the assistant."""
    told = json.loads(data_file("locomo/locomo5.json").read_text())[0]["conversation"]
    said = [line for number in range(1, 12) for line in told[f"session_{number}"]]
    return [
        ChatMessage(role="user" if line["speaker"] == told["speaker_a"] else "assistant", content=line["text"])
        for line in said[:60]
    ]


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in RECIPES if key != "self_editing"])
def test_what_blocks_learn_from_the_flush_is_in_the_prompt_that_is_foretold(key, real_conversation):
    memory = Memory.from_recipe(key, "s", user_id="sam", token_limit=600)
    flushed = 0
    for number, message in enumerate([*EXAMPLES[key].messages, *real_conversation]):
        if message.role == "user":
            changes = {"token_limit": (600, 350, 800)[number // 10 % 3]}
            foretold = memory.preview.next_prompt(changes, message=message)
            memory.configure(**changes)
        memory.put(message)
        if message.role == "user":
            assert as_said(foretold.context) == as_said(memory.build_context()), number
            assert foretold.unknown == ()
            flushed += bool(foretold.flush)
    assert flushed > 5
    learned = {record.kind for record in memory.events()} & {
        "vectors_stored", "fact_added", "relation_added", "summary_rewritten",
    }  # fmt: skip
    assert bool(learned) == (key not in ("buffer", "window"))


@pytest.mark.slow
def test_vectors_that_follow_are_there_when_the_foretold_prompt_is_built(real_conversation, monkeypatch):
    monkeypatch.setattr("memory_core.blocks.storing.AT_ONCE_TOKENS", 0)
    for patience in ("LOOKING_SECONDS", "PATIENCE_SECONDS"):  # however slow the machine is
        monkeypatch.setattr(f"memory_core.engine.context.{patience}", 20.0)
    memory = Memory.from_recipe("vector", "s", token_limit=600)
    for number, message in enumerate(real_conversation):
        foretold = memory.preview.next_prompt(message=message) if message.role == "user" else None
        memory.put(message)
        if foretold is not None:
            assert as_said(foretold.context) == as_said(memory.build_context()), number
    assert {record.event.follow for record in memory.events(kinds=["vectors_stored"])} == {True}


def test_blocks_of_which_only_a_model_could_tell_are_named():
    class Model:
        name, offline = "gpt-prod", False

        def extract(self, messages, *, known):
            raise AssertionError("nobody asks a model for a preview")

        condense = extract

    class Counting(BaseMemoryBlock[str]):
        seen: int = 0

        def _get(self, messages=None, **kwargs):
            return f"{self.seen} messages"

        def _put(self, messages):
            raise AssertionError("nobody runs code twice that may have effects outside")

    memory = open_memory(
        "s",
        token_limit=100,
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", llm=Model()), Counting(name="Count")],
    )
    memory.put_messages([user(words(10)), assistant(words(10))])
    assert memory.preview.next_prompt(message=user("Hello")).unknown == ()
    assert memory.preview.next_prompt(message=user(words(60))).unknown == ("Facts", "Count")


def test_what_waits_for_a_block_leaves_it_unknown():
    extractor = ShakyExtractor(lambda call: True)
    facts = FactExtractionMemoryBlock(name="Facts", llm=extractor)
    memory = open_memory("s", token_limit=60, memory_blocks=[facts])
    memory.put_messages([user(words(20)), assistant(words(20)), user(words(20))])
    assert memory.session.deliveries(states=("pending",))
    assert memory.preview.next_prompt(message=user("Hello")).unknown == ("Facts",)


def test_an_extractor_that_raises_anything_is_unknown_and_no_error():
    class Broken:
        name, offline = "broken", True

        def extract(self, messages, *, known):
            raise ZeroDivisionError

        condense = extract

    memory = open_memory("s", token_limit=60, memory_blocks=[FactExtractionMemoryBlock(name="Facts", llm=Broken())])
    memory.put(user(words(10)))
    assert memory.preview.next_prompt(message=user(words(60))).unknown == ("Facts",)


@pytest.mark.parametrize("max_facts", [3, 50])
@pytest.mark.parametrize("on_change", ["add", "decide"])
@pytest.mark.slow
def test_facts_that_are_merged_updated_and_condensed_are_foretold(max_facts, on_change):
    memory = Memory.from_defaults(
        "s",
        token_limit=60,
        token_flush_size=10,
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", max_facts=max_facts, on_change=on_change, priority=1)],
    )
    for said in SAID:
        foretold = memory.preview.next_prompt(message=user(said))
        memory.put(user(said))
        assert as_said(foretold.context) == as_said(memory.build_context()), said
        memory.put(assistant("I see, thank you for telling me that about yourself."))
    kinds = {record.kind for record in memory.events()}
    assert {"fact_added", *({"fact_decided"} if on_change == "decide" else ())} <= kinds
    assert ("facts_condensed" in kinds) == (max_facts == 3)


SAID = (
    "My name is Sam and I live in Porto.",
    "I work as a nurse at the Hospital de Santo António.",
    "I am allergic to peanuts.",
    "I live in Lisbon now, I moved last week.",
    "My sister Ana likes jazz.",
    "I am allergic to peanuts and to shellfish.",
    "I do not work as a nurse any more.",
    "My favourite colour is green.",
    "I live in Lisbon.",
    "My dog is called Rex.",
    "I like strong coffee in the morning.",
    "What do you know about me?",
)
