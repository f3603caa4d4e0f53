"""Age of facts: what confirms them, what is shown of it, and which expire."""

import pytest
from fakes import FakeEmbedder
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import update

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, Services
from memory_core.errors import ConfigError, MessageError
from memory_core.planning import curation
from memory_core.planning.fact_merging import DAY, Expiry, Fact
from memory_core.store.tables import fact_table

PORTO, JAZZ = "The user lives in Porto", "The user likes jazz"


def memory_of(*said, **settings):
    memory = Memory.from_defaults(
        "s", token_limit=2_000, memory_blocks=[FactExtractionMemoryBlock(name="Facts", priority=1, **settings)],
        services=Services(embedder=FakeEmbedder()),
    )  # fmt: skip
    say(memory, *said)
    return memory


def say(memory, *texts):
    for text in texts:
        memory.put(ChatMessage(role="user", content=text))
    memory.flush(all=True)


def aged(memory, days):
    """Facts as if they had last been confirmed so many days before."""
    with memory.session.database.write() as connection:
        connection.execute(update(fact_table).values(confirmed_at=fact_table.c.confirmed_at - days * DAY))


def dates(memory):
    return {fact.text: fact.confirmed_at for fact in memory.facts.read("Facts")}


def states(memory):
    return {fact.text: fact.state for fact in memory.facts.read("Facts", states=None)}


def prompt(memory, question="Hi"):
    return memory.get(question)[0].content


# -- confirming --------------------------------------------------------------------------------------


def test_a_prompt_or_a_search_confirms_nothing():
    memory = memory_of("I live in Porto.", "I like jazz.")
    before = dates(memory)
    memory.get("Where do I live?")
    memory.facts.search("Porto")
    assert dates(memory) == before


@pytest.mark.parametrize("on_change", ["add", "decide"])
def test_what_is_said_again_is_confirmed(on_change):
    memory = memory_of("I live in Porto.", "I like jazz.", on_change=on_change)
    before = dates(memory)
    say(memory, "As you know, I live in Porto.")
    after = dates(memory)
    assert after[PORTO] > before[PORTO]
    assert after[JAZZ] == before[JAZZ]


def test_a_person_confirms_and_takes_it_back_exactly():
    memory = memory_of("I live in Porto.", "I like jazz.")
    aged(memory, 50)
    before = dates(memory)
    memory.facts.confirm(*memory.facts.read("Facts"))
    confirmed = dates(memory)
    assert all(confirmed[text] > before[text] + 40 * DAY for text in before)
    memory.facts.undo()
    assert dates(memory) == before
    memory.facts.undo(memory.facts.desk().changes()[0].undone_by)
    assert all(dates(memory)[text] >= confirmed[text] for text in before)


def test_an_undo_keeps_what_the_user_said_since():
    memory = memory_of("I live in Porto.")
    aged(memory, 50)
    memory.facts.confirm(*memory.facts.read("Facts"))
    say(memory, "I live in Porto.")
    said = dates(memory)
    memory.facts.undo()
    assert dates(memory) == said


def test_the_log_alone_gives_the_same_dates():
    memory = memory_of("I live in Porto.")
    memory.facts.confirm(*memory.facts.read("Facts"))
    memory.facts.undo()
    memory.facts.confirm(*memory.facts.read("Facts"))
    branch = memory.branch(memory.session.status().turns)
    assert dates(branch) == dates(memory)


def test_only_active_facts_can_be_confirmed():
    memory = memory_of("I live in Porto.")
    memory.facts.retire(*memory.facts.read("Facts"))
    with pytest.raises(MessageError):
        memory.facts.confirm(*memory.facts.read("Facts", states=None))


# -- asking ------------------------------------------------------------------------------------------


def test_the_agent_is_asked_to_ask_until_the_user_says_it():
    memory = memory_of("I live in Porto.", "I like jazz.")
    [porto, jazz] = memory.facts.read("Facts")
    asked = memory.facts.ask(porto, preview=True)
    assert prompt(memory).count("ask if this is still true") == 0
    memory.facts.ask(porto)
    assert f"{PORTO} (ask if this is still true)" in prompt(memory)
    assert f"{JAZZ}<" in prompt(memory)
    assert memory.build_context("Hi", record=False).billed_tokens == asked.prompt.billed_tokens
    say(memory, "I live in Porto.")
    assert f"{PORTO}<" in prompt(memory)
    [fact, _] = memory.facts.read("Facts")
    assert (dict(fact.metadata), fact.tokens) == ({}, porto.tokens)
    assert jazz.id in {fact.id for fact in memory.facts.read("Facts")}


@pytest.mark.parametrize("change", ["confirm", "edit", "undo"])
def test_an_answer_of_a_person_ends_the_asking(change):
    memory = memory_of("I live in Porto.")
    memory.facts.ask(*memory.facts.read("Facts"))
    [fact] = memory.facts.read("Facts")
    if change == "confirm":
        memory.facts.confirm(fact)
    elif change == "edit":
        memory.facts.edit(fact, "The user lives in Lisbon")
    else:
        memory.facts.undo()
    assert "ask if" not in prompt(memory)
    [fact] = memory.facts.read("Facts")
    assert fact.tokens == memory.session.count_tokens(fact.text)


def test_metadata_of_a_program_is_left_alone():
    memory = memory_of("I live in Porto.")
    memory.facts.desk().apply(curation.add("The user likes figs", key="figs", metadata={"ripe": True}))
    with pytest.raises(MessageError):
        memory.facts.ask(memory.facts.read("Facts")[-1])


# -- dates in the prompt -----------------------------------------------------------------------------


def test_a_fact_in_the_prompt_can_carry_the_day_it_was_confirmed():
    memory = memory_of("I live in Porto.", show_dates=True)
    with memory.session.database.write() as connection:
        connection.execute(update(fact_table).values(confirmed_at=1_777_777_777))
    assert f"{PORTO} (confirmed 3 May 2026)" in prompt(memory)
    context = memory.build_context("Hi", record=False)
    assert context.billed_tokens > memory.facts.read("Facts")[0].tokens + 5


# -- expiry ------------------------------------------------------------------------------------------


def test_nothing_expires_by_default():
    memory = memory_of("I live in Porto.")
    aged(memory, 5_000)
    say(memory, "I like jazz.")
    assert states(memory) == {PORTO: "active", JAZZ: "active"}


def test_what_nobody_confirmed_for_so_long_is_retired_with_its_reason_and_can_be_restored():
    memory = memory_of("I live in Porto.", expire_after_days=90)
    aged(memory, 91)
    say(memory, "I like jazz.")
    assert states(memory) == {PORTO: "retired", JAZZ: "active"}
    [event] = memory.events(kinds=["fact_retired"])
    assert (event.event.reason, event.actor) == ("not confirmed for 90 days", "engine")
    memory.facts.restore(memory.facts.read("Facts", states=("retired",))[0])
    aged(memory, 91)
    say(memory, "I like tea.")
    assert states(memory)[PORTO] == "active"  # a person took it back


def test_what_is_said_again_in_the_same_delivery_does_not_expire():
    memory = memory_of("I live in Porto.", expire_after_days=90)
    aged(memory, 91)
    say(memory, "I live in Porto.")
    assert states(memory) == {PORTO: "active"}


@pytest.mark.parametrize("keep", ["pin", "confirm", "edit", "add"])
def test_what_a_person_wrote_or_changed_never_expires(keep):
    memory = memory_of("I live in Porto.", expire_after_days=90)
    [fact] = memory.facts.read("Facts")
    if keep == "edit":
        memory.facts.edit(fact, "The user lives in Porto, in Foz")
    elif keep == "add":
        memory.facts.add("The user has two sons")
        memory.facts.pin(fact)
    else:
        getattr(memory.facts, keep)(fact)
    aged(memory, 500)
    say(memory, "I like jazz.")
    assert set(states(memory).values()) == {"active"}


def test_only_the_named_categories_expire():
    memory = memory_of("I live in Porto.", "I like jazz.", expire_after_days=90, expire_categories=["preference"])
    aged(memory, 91)
    say(memory, "I like tea.")
    assert states(memory)[JAZZ] == "retired"
    assert states(memory)[PORTO] == "active"


def test_a_preview_foretells_what_expires():
    memory = memory_of("I live in Porto.", expire_after_days=90)
    memory.configure(queue_turns=1)
    aged(memory, 91)
    memory.put(ChatMessage(role="user", content="I like jazz."))
    message = ChatMessage(role="user", content="Where do I live?")
    foretold = memory.preview.next_prompt(message=message).context
    memory.put(message)
    assert states(memory) == {PORTO: "retired", JAZZ: "active"}
    context = memory.build_context(message.content, record=False)
    assert [part.granted for part in foretold.plan.granted] == [part.granted for part in context.plan.granted]


def test_an_age_of_no_days_is_refused():
    with pytest.raises((ConfigError, ValueError)):
        FactExtractionMemoryBlock(name="Facts", expire_after_days=0)


@given(
    age=st.floats(0, 1_000), days=st.integers(1, 500), pinned=st.booleans(), category=st.sampled_from(["work", "plan"]),
    categories=st.sets(st.sampled_from(["work", "plan", "health"])),
)  # fmt: skip
def test_a_fact_expires_by_age_category_and_pin_alone(age, days, pinned, category, categories):
    now = 1_000 * DAY
    fact = Fact(1, "s", "b", "x", 1, category, None, "active", pinned, "extracted", 0, 0.0, now - age * DAY, 0.0, 1, ())
    expected = age > days and not pinned and (not categories or category in categories)
    assert Expiry(days, now, tuple(categories)).covers(fact) == expected
