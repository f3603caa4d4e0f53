"""A vector memory that fills its prompts: as much as fits comes back, and never more."""

import json

import pytest
from engine_fakes import on_file
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, update

from memory_core import ChatMessage, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.blocks.vector import BEFORE_BOOSTS, BOOST_FIELDS
from memory_core.events import expand, numbers
from memory_core.store.database import Database
from memory_core.store.tables import block_table
from memory_core.tokens import default_counter
from memory_core.vectors.exact import ExactIndex

THINGS = ("boats", "violins", "cheese", "chess", "maps", "clocks", "kites", "bridges", "candles", "ferns")
BLOCK = "Earlier turns"


def services():
    return Services(index=ExactIndex(), embedder=FakeEmbedder())


def from_recipe(limit=1_000, *, session_id="s", uri=None, **settings):
    return Memory.from_recipe(
        "vector",
        session_id,
        database_uri=uri,
        token_limit=limit,
        services=services(),
        **{"accounting": "billed"} | settings,
    )


def said(text, role="user", **given):
    return ChatMessage(role=role, content=text, additional_kwargs=given)


def talk(count, *, pasted=False, words=12):
    """Ana and Bob, ten messages a day."""
    for number in range(count):
        name, day = ("Ana", "Bob")[number % 2], 1 + number // 10
        things = " ".join(THINGS[(number * 7 + step * step) % len(THINGS)] for step in range(words))
        text, time = f"note {number}: {things}.", f"{day} May 2023 10:{number % 10:02}"
        if pasted:
            yield said(f"[{time}] {name}: {text}")
        else:
            yield said(text, role=("user", "assistant")[number % 2], name=name, time=time)


def told(memory, messages):
    for message in messages:
        memory.put(message)
    return memory


def retrieved(memory, block=None):
    found = [record.event for record in memory.events(kinds=("retrieved",))]
    return [event for event in found if block in (None, event.block)][-1]


def counted(context):
    """What the rendered messages really cost."""
    return sum(default_counter().message(message).billed for message in context.messages)


def recalled(memory, question):
    context = memory.build_context(question)
    return "\n".join(str(message.content) for message in context.messages)


def answers(memory, question, settings=None):
    """Texts a search would bring back, best first."""
    return [one.words for one in memory.retrieval.search(question, settings=settings).found if one.outcome == "granted"]


# -- the limit ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "limit", [120, pytest.param(200, marks=pytest.mark.slow), pytest.param(350, marks=pytest.mark.slow), 1_000]
)
@pytest.mark.parametrize(("pasted", "words"), [(False, 3), (False, 30), (True, 12)])
def test_a_prompt_is_never_over_its_limit_and_costs_what_was_planned(limit, pasted, words):
    memory = told(from_recipe(limit), talk(60, pasted=pasted, words=words))
    for question in ("Who has boats?", "What did Ana say of chess on 3 May 2023?", "And then?", "你好吗"):
        context = memory.build_context(question)
        assert counted(context) == context.billed_tokens <= context.plan.total <= limit
        assert context.plan.total - context.billed_tokens <= 2
        assert context.plan.over_by == 0


@pytest.mark.slow
@pytest.mark.parametrize("pasted", [False, True])
@pytest.mark.parametrize("insert_method", ["system", "user"])
def test_a_prompt_is_filled_nearly_whole(pasted, insert_method):
    # Pasted lines are shorter in a prompt than as they were stored: what that saves is filled too.
    memory = told(from_recipe(700, insert_method=insert_method), talk(120, pasted=pasted))
    context = memory.build_context("Who has boats and violins?")
    assert 0.95 * 700 <= context.billed_tokens <= 700
    assert context.plan.cuts == ()


def test_what_takes_the_whole_room_for_its_words_alone_leaves_it_to_others():
    # Its words just fit, and with speaker and day they do not.
    memory = from_recipe(400, chat_history_token_ratio=0.1, token_flush_size=1)
    told(memory, talk(12))
    memory.flush(all=True)
    off = {
        "length_weight": 0,
        "neighbour_weight": 0,
        "episode_weight": 0,
        "informativeness_weight": 0,
        "keyword_weight": 0,
    }
    memory.blocks.configure(BLOCK, **off)
    memory.build_context("kites")
    room = retrieved(memory).token_budget
    counter = default_counter()
    text = "kites"
    while counter.text(f"{text} kites") <= room:
        text += " kites"
    memory.put(said(text, name="Ana", time="1 June 2023"))
    memory.flush(all=True)
    memory.build_context("kites kites")
    event = retrieved(memory)
    assert event.token_budget == room
    assert (event.candidates[0][4], event.gates["granted"] > 3) == ("no_room", True)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from(["user", "assistant"]), st.sampled_from(THINGS), st.integers(1, 60)), max_size=14
    ),
    st.integers(60, 400),
    st.sampled_from(["content", "reference", "billed"]),
)
def test_any_conversation_keeps_any_limit(messages, limit, accounting):
    memory = from_recipe(limit, accounting=accounting)
    for number, (role, thing, times) in enumerate(messages):
        memory.put(said(f"{number} " + f"{thing} " * times, role=role, name="Ana", time=f"{1 + number // 4} May 2023"))
    context = memory.build_context("boats and kites")
    # The newest turn is never cut, and the memory never makes it worse.
    newest = context.plan.pinned_tokens + context.plan.queue_granted
    assert context.plan.total <= max(limit, newest)
    if accounting == "billed":
        assert counted(context) <= max(limit, newest)


def test_what_is_never_cut_and_too_large_leaves_the_memory_out():
    core = StaticMemoryBlock(name="core", static_content="Be kind and brief. " * 30, priority=0)
    memory = told(from_recipe(500), talk(40))
    memory.blocks.add(core)
    memory.configure(token_limit=160)
    context = memory.build_context("Who has boats?")
    (part,) = (part for part in context.plan.granted if part.name == BLOCK)
    assert part.granted == 0
    assert retrieved(memory).token_budget == 16


# -- what comes back ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_in_the_queue_is_not_repeated():
    block = VectorMemoryBlock(name=BLOCK, deliver_on="turn")
    memory = Memory.from_defaults("s", token_limit=600, memory_blocks=[block], services=services(), accounting="billed")
    told(memory, talk(60))
    context = memory.build_context("notes of boats")
    assert retrieved(memory).gates["in_queue"] > 0
    for line in (f"note {number}:" for number in range(60)):
        assert sum(str(message.content).count(line) for message in context.messages) <= 1


@pytest.mark.slow
def test_every_candidate_has_one_of_the_outcomes():
    memory = told(from_recipe(400), talk(80))
    memory.build_context("Who has boats?")
    event = retrieved(memory)
    assert (event.top_k, event.gates["beyond_top_k"]) == (None, 0)
    assert event.gates["no_room"] > 0
    assert sum(event.gates.values()) == len(memory.retrieval.stored_turns(BLOCK))


@pytest.mark.slow
def test_a_search_fills_the_room_that_a_prompt_has():
    memory = told(from_recipe(400), talk(80))
    found = memory.retrieval.search("Who has boats?")
    memory.build_context("Who has boats?")
    event = retrieved(memory)
    assert found.token_budget == event.token_budget
    granted = {candidate[0] for candidate in event.candidates if candidate[4] == "granted"}
    assert {one.number for one in found.found if one.outcome == "granted"} == granted


def test_a_conversation_of_one_speaker_is_found_like_any_other():
    memory = told(from_recipe(300), (said(f"note {n}: {THINGS[n % 10]} {n}", name="Ana") for n in range(60)))
    assert "Ana: note 3: chess 3" in recalled(memory, "What does Ana know of chess 3?")
    assert "Ana: note 3: chess 3" in recalled(memory, "chess 3")


def test_a_question_in_another_language_finds_what_was_said_in_it():
    memory = from_recipe(200)
    told(memory, [said("Meine Katze heißt Mimi.", name="Jürgen"), said("我住在里斯本。", name="安娜"), *talk(30)])
    assert "Jürgen: Meine Katze heißt Mimi." in recalled(memory, "Wie heißt die Katze von Jürgen?")
    assert "安娜: 我住在里斯本。" in recalled(memory, "安娜 我住在里斯本。")


@pytest.mark.parametrize("question", ["", "   ", None])
def test_without_a_question_nothing_is_looked_for(question):
    memory = from_recipe(300)
    for message in talk(3):
        memory.put(message)
    context = memory.build_context(question if question is not None else said("", role="assistant"))
    assert memory.events(kinds=("retrieved",)) == []
    assert context.plan.total <= 300


def test_a_huge_turn_is_stored_and_found_by_keyword_but_put_into_no_prompt_that_it_does_not_fit():
    memory = from_recipe(400)
    told(memory, [said("begin xylophone " + "rain and wind " * 6_700, name="Ana"), *talk(30)])
    assert max(turn.tokens for turn in memory.retrieval.stored_turns(BLOCK)) > 20_000
    found = memory.retrieval.search("xylophone")
    (huge,) = (one for one in found.found if "xylophone" in one.words)
    assert huge.keyword > 0
    assert huge.outcome == "no_room"
    context = memory.build_context("xylophone")
    assert context.billed_tokens <= 400
    assert not any("rain and wind" in str(message.content) for message in context.messages)
    assert retrieved(memory).gates["granted"] > 0


# -- blocks beside each other ------------------------------------------------------------------------------


def two(first, second, **settings):
    blocks = [
        VectorMemoryBlock(name="near", **first),
        VectorMemoryBlock(name="far", **second),
    ]
    return Memory.from_defaults(
        "s", token_limit=600, memory_blocks=blocks, services=services(), accounting="billed", **settings
    )


@pytest.mark.slow
@pytest.mark.parametrize("order", ["largest_first", "smallest_first"])
def test_two_blocks_that_fill_share_the_limit_and_the_one_that_is_cut_last_fills_first(order):
    memory = told(two({"priority": 1}, {"priority": 2}, truncation_order=order), talk(80))
    context = memory.build_context("Who has boats?")
    assert context.billed_tokens <= 600
    last, first = ("near", "far") if order == "largest_first" else ("far", "near")
    rooms = {name: retrieved(memory, name).token_budget for name in ("near", "far")}
    granted = {part.name: part.granted for part in context.plan.granted}
    assert rooms[first] == 60 < rooms[last]
    assert granted[last] > granted[first]


@pytest.mark.slow
def test_a_block_that_fills_leaves_one_with_a_number_of_results_its_tokens():
    memory = told(two({"priority": 2, "similarity_top_k": 3}, {"priority": 1}), talk(80))
    context = memory.build_context("Who has boats?")
    assert (retrieved(memory, "near").token_budget, retrieved(memory, "near").gates["granted"]) == (None, 3)
    (near,) = (part for part in context.plan.granted if part.name == "near")
    assert near.granted == near.asked
    assert context.plan.cuts == ()
    assert 0.9 * 600 <= context.billed_tokens <= 600


@pytest.mark.slow
def test_a_number_of_results_is_kept_however_much_room_there_is():
    memory = told(from_recipe(2_000, chat_history_token_ratio=0.1, token_flush_size=1), talk(60))
    memory.blocks.configure(BLOCK, similarity_top_k=4)
    context = memory.build_context("Who has boats?")
    assert (retrieved(memory).gates["granted"], retrieved(memory).gates["no_room"]) == (4, 0)
    (part,) = (part for part in context.plan.granted if part.name == BLOCK)
    assert len(numbers((piece.ref for piece in part.pieces), "unit")) == 4


# -- settings of older versions ----------------------------------------------------------------------------


def as_stored_before(memory, name, **older):
    """Let a block's settings be those that a version without terms stored."""
    new = {"layout", *BOOST_FIELDS.values()}
    with memory._session.writing() as w:
        where = (block_table.c.session_id == memory.session_id) & (block_table.c.name == name)
        row = w.connection.execute(select(block_table).where(where)).one()
        kept = {key: value for key, value in json.loads(row.settings).items() if key not in new} | older
        constructor = json.loads(row.constructor)
        constructor["settings"] = {k: v for k, v in constructor["settings"].items() if k not in new} | older
        values = {"settings": json.dumps(kept), "constructor": json.dumps(constructor)}
        w.connection.execute(update(block_table).where(where).values(**values))


OLDER = {"unit": "turn", "similarity_top_k": 3, "vector_weight": 0.85, "keyword_weight": 0.15}


def test_a_block_that_an_older_version_stored_goes_on_as_it_did(tmp_path):
    memory = told(from_recipe(500, uri=on_file(tmp_path)), talk(30))
    as_stored_before(memory, BLOCK, **OLDER)
    again = Memory.open("s", Database.open(on_file(tmp_path)), services=services())
    (block,) = again.memory_blocks
    assert block.settings().items() >= (BEFORE_BOOSTS | OLDER).items()
    text = recalled(again, "Who has boats?")
    assert text.count("<message role='") == 3
    event = retrieved(again)
    assert (event.boosts, event.boost_weights, event.top_k) == ((), {}, 3)
    again.blocks.configure(BLOCK, layout="lines")
    assert "<message" not in recalled(again, "Who has boats?")
    assert retrieved(again).boosts == ()


def test_a_change_of_one_setting_leaves_the_layout_of_a_new_block():
    memory = told(from_recipe(500), talk(20))
    memory.blocks.configure(BLOCK, unit="turn")
    (block,) = memory.memory_blocks
    assert (block.layout, block.unit, block.episode_weight > 0) == ("lines", "turn", True)


def test_settings_of_a_search_change_the_search_alone():
    memory = told(from_recipe(500), talk(40))
    off = dict.fromkeys(BOOST_FIELDS.values(), 0.0)
    plain = memory.retrieval.search("Who has boats?", settings={**off, "similarity_top_k": 2})
    assert all(one.boosts == () for one in plain.found)
    assert (plain.token_budget, len(answers(memory, "Who has boats?", {**off, "similarity_top_k": 2}))) == (None, 2)
    assert memory.retrieval.search("Who has boats?").settings.similarity_top_k is None


def test_a_unit_stays_in_the_order_in_which_it_was_said_wherever_its_number_is():
    memory = told(from_recipe(600, chat_history_token_ratio=0.1, token_flush_size=1), talk(30))
    context = memory.build_context("Who has boats and chess?")
    (part,) = (part for part in context.plan.granted if part.name == BLOCK)
    found = numbers((piece.ref for piece in part.pieces), "unit")
    units = {turn.number: turn for turn in memory.retrieval.stored_turns(BLOCK)}
    seqs = [[message.seq for message in units[number].messages] for number in found]
    assert seqs == sorted(seqs)
    assert not {seq for unit in seqs for seq in unit} & set(expand(memory_queue(memory)))


def memory_queue(memory):
    return memory.events(kinds=("context_built",))[-1].event.queue
