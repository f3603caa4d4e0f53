"""What is foretold of the next message is what the engine then does."""

import pytest
from engine_fakes import assistant, open_memory, user
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_core import ChatMessage, ConflictError, FactExtractionMemoryBlock, StaticMemoryBlock
from memory_core.planning import curation as wish

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
    before = memory.status().position
    foretold = memory.next_prompt(changes, message=message)
    assert memory.status().position == before, "looking changes nothing"
    memory.configure(**changes)
    receipt = memory.put(message)
    context = memory.build_context()
    flushed = receipt.flushed
    assert [gone.seq for gone in foretold.flush.leave] == ([gone.seq for gone in flushed.leave] if flushed else [])
    assert foretold.flush.tokens_left == receipt.queue_tokens
    assert foretold.context.plan == context.plan
    assert foretold.context.messages == context.messages


@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(sizes=SIZES, flush_size=st.integers(1, 300))
def test_flushing_now_moves_what_was_planned(sizes, flush_size):
    memory = a_memory(sizes, token_flush_size=flush_size)
    planned = memory.flush_plan()
    flushed = memory.flush().flushed
    assert (flushed or ()) == (planned or ())


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(sizes=SIZES, limit=st.integers(60, 400), words_of_it=st.integers(1, 60), coming=st.integers(1, 80))
def test_a_change_of_facts_does_to_the_next_prompt_what_was_foretold(sizes, limit, words_of_it, coming):
    memory = a_memory(sizes)
    memory.configure(token_limit=limit, token_flush_size=20)
    desk, message = memory.curation("Facts"), user(words(coming))
    change = wish.edit(desk.facts()[0], words(words_of_it))
    foretold = memory.next_prompt(message=message, facts={"Facts": desk.after(change)})
    desk.apply(change)
    memory.put(message)
    assert foretold.context.plan == memory.build_context().plan


def test_the_next_message_of_a_recording_is_the_one_that_is_foretold():
    memory = a_memory([(5, 5)])
    memory.attach_recording([user("What now?"), assistant("Tea.")], source="test")
    assert memory.next_prompt().message == user("What now?")
    assert memory.next_prompt(message=user("Else")).message == user("Else")
    assert a_memory([(5, 5)]).next_prompt().message is None


def test_pinned_messages_stay_in_front_and_never_leave():
    memory = open_memory("s", token_limit=1_000)
    memory.put_messages([ChatMessage(role="system", content="Be kind."), user(words(50)), assistant(words(50))])
    foretold = memory.next_prompt({"token_limit": 60}, message=user("Hello"))
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
    assert memory.config.token_limit == 300
