"""Quarantine: out of all prompts in one action, and back exactly as it was."""

from threading import Thread

import pytest
from engine_fakes import HeldExtractor
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from memory_core import (
    ChatMessage,
    Database,
    FactExtractionMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.agent.tools import MemoryTools
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.errors import MessageError, NotFoundError
from memory_core.events import Ref

SAID = ["My name is Clara and I live in Tucson.", "I am allergic to nuts.", "My sister Ana works at Nordlicht."]
CORE = "Be brief. She was born in Tucson.\nNo emoji."


class Heard(BaseMemoryBlock[str]):
    """A custom block that repeats all it was given."""

    texts: list[str] = Field(default_factory=list)

    def _get(self, messages=None, **kwargs):
        return ""

    def _put(self, messages):
        self.texts.extend(message.content for message in messages)


def say(memory, *texts):
    for text in texts:
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="All right."))
    memory.flush(all=True)
    memory.deliver()


def filled(*said, id="s", user="ana", database=None, more=(), extractor=None, **values):
    services = Services(embedder=FakeEmbedder(), **({"extractor": extractor} if extractor else {}))
    memory = Memory.from_defaults(
        id,
        user,
        database=database or Database.open(),
        token_limit=3_000,
        memory_blocks=[
            FactExtractionMemoryBlock(name="Facts", **values),
            VectorMemoryBlock(name="Earlier"),
            SummaryMemoryBlock(name="Summary"),
            GraphMemoryBlock(name="Graph"),
            StaticMemoryBlock(name="Core", static_content=CORE),
            *more,
        ],
        services=services,
    )
    say(memory, *said)
    return memory


def prompt(memory, question="Tell me about Tucson, nuts and my sister Ana."):
    return "\n".join(message.content or "" for message in memory.preview.context(input=question).messages)


def rows_of(memory):
    """Every row of the database but for the log."""
    with memory.session.database.read() as connection:
        names = (
            "message",
            "fact",
            "fact_revision",
            "relation",
            "entity",
            "block",
            "block_revision",
            "vector",
            "content",
        )
        return {name: sorted(map(repr, connection.exec_driver_sql(f"select * from mi_{name}"))) for name in names}


def test_an_item_and_all_that_came_of_it_leave_the_prompt_and_a_release_gives_it_back_exactly():
    memory = filled(*SAID)
    before, stored = prompt(memory), rows_of(memory)
    assert before.count("Tucson") >= 4  # a fact, the message, the summary, the text
    withheld = memory.session.quarantine("Tucson")
    assert {row.kind for row in withheld.rows} == {"message", "fact", "relation", "summary", "text"}
    after = prompt(memory)
    assert "Tucson" not in after
    assert "Clara" not in after
    assert "allergic to nuts" in after
    assert "Be brief." in after
    assert "No emoji." in after
    assert rows_of(memory) == stored
    [one] = memory.session.quarantined()
    memory.session.release(one.number)
    assert (prompt(memory), rows_of(memory), memory.session.quarantined()) == (before, stored, [])
    with pytest.raises(NotFoundError):
        memory.session.release(one.number)


def test_a_preview_changes_nothing_and_an_unticked_row_stays():
    memory = filled(*SAID)
    before = prompt(memory)
    rows = memory.session.quarantine("Tucson", preview=True).rows
    assert prompt(memory) == before
    assert memory.session.quarantined() == []
    text = [row for row in rows if row.kind == "text"]
    memory.session.quarantine("Tucson", keep=text)
    assert "She was born in Tucson." in prompt(memory)
    with pytest.raises(MessageError):
        memory.session.quarantine("Tu")
    assert memory.session.quarantine("nobody said this").rows == ()
    assert len(memory.session.quarantined()) == 1


def test_a_message_of_the_queue_leaves_it_and_nothing_is_learned_from_it():
    heard = Heard(name="Heard")
    memory = filled(more=[heard])
    memory.put(ChatMessage(role="user", content="My sister Ana works at Nordlicht."))
    memory.put(ChatMessage(role="assistant", content="Good."))
    memory.put(ChatMessage(role="user", content="I am allergic to nuts."))
    memory.session.quarantine(Ref.of("message", 1))
    assert "Nordlicht" not in prompt(memory, "Hello")
    assert "allergic" in prompt(memory, "Hello")
    memory.flush(all=True)
    memory.deliver()
    assert [fact.text for fact in memory.facts.read("Facts", states=None)] == ["The user is allergic to nuts"]
    assert "Nordlicht" not in prompt(memory)
    assert heard.texts == ["Good.", "I am allergic to nuts."]
    nothing = [record.event for record in memory.events(kinds=("nothing_learned",)) if record.event.about == "Facts"]
    assert ("quarantined", ((1, 1),)) in [reason[:2] for event in nothing for reason in event.reasons]
    memory.session.release(1)
    assert "Nordlicht" in prompt(memory)  # the stored message; a fact was never learned


def test_a_fact_takes_the_messages_that_state_it_but_not_what_else_they_say():
    memory = filled("I live in Tucson. My dentist is Doctor Vale.", "I am allergic to nuts.")
    facts = {fact.text: fact.id for fact in memory.facts.read("Facts")}
    dentist = next(id for text, id in facts.items() if "Vale" in text)
    impact = memory.session.quarantine(Ref.of("fact", dentist))
    assert [(row.id, row.why) for row in impact.rows if row.kind == "fact"] == [(dentist, "chosen")]
    assert [(row.id, row.why) for row in impact.rows if row.kind == "message"] == [(1, "states it")]
    shown = prompt(memory)
    assert "Vale" not in shown
    assert any("Tucson" in fact.text for fact in memory.facts.read("Facts"))


def test_a_fact_does_not_take_another_one_about_the_same_person_from_its_message():
    memory = filled("My sister Ana works at Nordlicht.")
    fact = next(fact for fact in memory.facts.read("Facts") if "Nordlicht" in fact.text)
    rows = memory.session.quarantine(Ref.of("fact", fact.id), preview=True).rows
    assert [row.words for row in rows if row.kind in ("fact", "relation")] == [fact.text, "Ana works at Nordlicht"]


def test_an_entity_goes_by_all_its_names_as_whole_words():
    memory = filled("My sister Ana works at Nordlicht.", "I ate a banana.")
    graph = memory.graph.graph()
    ana = next(entity for entity in graph.entities.values() if entity.name == "Ana")
    impact = memory.session.quarantine(ana)
    assert [row.id for row in impact.rows if row.kind == "message"] == [1]
    assert "Nordlicht" not in prompt(memory, "Who is Ana?")
    assert "banana" in prompt(memory, "What did I eat?")


def test_what_says_the_same_again_is_not_learned_while_it_is_in_quarantine():
    memory = filled("My dentist is Doctor Vale.")
    [fact] = memory.facts.read("Facts")
    memory.session.quarantine(Ref.of("fact", fact.id))
    say(memory, "My dentist is Doctor Vale.")
    assert memory.facts.read("Facts") == []
    assert [one.id for one in memory.facts.read("Facts", states=None)] == [fact.id]


def test_what_is_put_into_quarantine_while_it_is_learned_is_not_learned():
    extractor = HeldExtractor()
    memory = filled(extractor=extractor)
    memory.put(ChatMessage(role="user", content="My dentist is Doctor Vale."))
    memory.put(ChatMessage(role="assistant", content="Noted."))
    worker = Thread(target=lambda: (memory.flush(all=True), memory.deliver()))
    worker.start()
    extractor.begun.wait(20)
    memory.session.quarantine("Vale")
    extractor.evict.set()
    worker.join(30)
    memory.deliver()
    assert memory.facts.read("Facts", states=None) == []


def test_a_summary_keeps_withheld_sentences_unread_until_they_are_released():
    memory = filled(*SAID)
    memory.session.quarantine("Tucson")
    say(memory, "I work as a carpenter.")
    memory.session.refresh()
    text = next(block.state for block in memory.blocks if block.name == "Summary")
    assert "Tucson" in text
    assert "carpenter" in text
    assert "Tucson" not in prompt(memory, "Hello")
    assert "carpenter" in prompt(memory, "Hello")
    memory.session.release(1)
    assert "Tucson" in prompt(memory, "Hello")


def test_a_summary_that_takes_nothing_new_keeps_its_version_while_sentences_are_withheld():
    memory = filled("I live in Porto.", "My sister Ana works at Nordlicht.")
    memory.session.quarantine("Nordlicht")
    memory.session.refresh()
    before = next(block.record.revision for block in memory.blocks if block.name == "Summary")
    say(memory, "Thanks.")
    memory.session.refresh()
    assert next(block.record.revision for block in memory.blocks if block.name == "Summary") == before


def test_tools_and_searches_of_an_agent_do_not_find_it():
    memory = filled(*SAID)
    tools = MemoryTools(memory)
    say(memory, "Good night.")
    assert "Tucson" in tools.call("conversation_search", query="Tucson").text
    memory.session.quarantine("Tucson")
    assert "Tucson" not in tools.call("conversation_search", query="Tucson").text
    assert all("Tucson" not in hit.fact.text for hit in memory.facts.search("Where in Tucson?", threshold=0))
    found = memory.retrieval.search("Tucson", block="Earlier").found.candidates
    assert {one.outcome for one in found if one.number == 1} <= {"quarantined", "not_proposed"}


def test_a_trace_names_the_quarantine_for_every_carrier():
    memory = filled(*SAID)
    memory.session.quarantine("Nordlicht")
    memory.get("Where does Ana work?")
    trace = memory.trace("Nordlicht")
    assert not trace.reached
    rules = {track.carrier.kind: track.stages[-1].rule for track in trace.tracks if track.carrier.kind != "message"}
    assert rules == dict.fromkeys(("fact", "text", "relation", "unit"), "quarantined")


def test_a_past_prompt_stays_as_it_was_and_one_in_quarantine_is_rebuilt_exactly():
    memory = filled(*SAID)
    memory.get("Where do I live?")
    memory.session.quarantine("Tucson")
    memory.get("Where do I live?")
    with_it, without = (memory.log.prompt(record) for record in memory.events(kinds=("context_built",))[-2:])
    assert "Tucson" in str(with_it.messages)
    assert "Tucson" not in str(without.messages)
    memory.session.forget("allergic to nuts")  # erases what no row needs, and not what a past prompt shows
    again = memory.log.prompt(memory.events(kinds=("context_built",))[-1])
    assert "Be brief.\\nNo emoji." in str(again.messages)


@pytest.mark.slow
def test_a_branch_and_a_bundle_take_it_with_them():
    memory = filled(*SAID)
    memory.session.quarantine("Tucson")
    branch = memory.branch(memory.session.status().turns)
    assert "Tucson" not in prompt(branch, "Hello")
    assert len(branch.session.quarantined()) == 1
    branch.session.release(1)
    assert "Tucson" in prompt(branch, "Hello")
    assert "Tucson" not in prompt(memory, "Hello")
    bundle = read_bundle(write_bundle(memory.session.database, "s"), "s.zip")
    database = Database.open()
    opened = Memory.open(import_bundle(database, bundle), database, services=Services(embedder=FakeEmbedder()))
    assert "Tucson" not in prompt(opened, "Hello")


def test_a_users_fact_is_out_of_the_prompts_of_all_their_sessions():
    database = Database.open()
    first = filled("I live in Tucson.", database=database, scope="user")
    second = filled("I have a dog.", id="t", database=database, scope="user")
    other = filled("I have a cat.", id="u", user="bo", database=database, scope="user")
    assert "lives in Tucson" in prompt(second, "Hello")
    assert "lives in Tucson" not in prompt(other, "Hello")
    [fact] = [fact for fact in first.facts.read("Facts") if "Tucson" in fact.text]
    first.session.quarantine(Ref.of("fact", fact.id))
    assert "lives in Tucson" not in prompt(second, "Hello")
    first.session.release(1)
    assert "lives in Tucson" in prompt(second, "Hello")


@given(st.lists(st.sampled_from(["Tucson", "nuts", "Ana", "release"]), max_size=6))
@settings(max_examples=15, deadline=None)
@pytest.mark.slow
def test_whatever_is_put_in_and_released_the_prompt_has_only_what_is_not_in_it(steps):
    memory = filled(*SAID)
    whole = prompt(memory, "Hello")
    for step in steps:
        sets = memory.session.quarantined()
        if step != "release":
            memory.session.quarantine(step)
        elif sets:
            memory.session.release(sets[0].number)
    phrases = [step for step in steps if step != "release"]
    # Released in the order in which they were put in.
    alive = []
    for step in steps:
        if step == "release":
            alive = alive[1:]
        else:
            alive.append(step)
    shown = prompt(memory, "Hello")
    for phrase in phrases:
        assert (phrase in shown) == (phrase not in alive), (steps, phrase)
    for one in memory.session.quarantined():
        memory.session.release(one.number)
    assert prompt(memory, "Hello") == whole


def test_what_a_preview_foretells_of_quarantine_and_release_is_what_happens():
    memory = filled(*SAID)
    impact = memory.session.quarantine("Tucson", preview=True)
    foretold = memory.preview.quarantine(impact).context
    assert foretold.messages != memory.preview.next_prompt().context.messages
    memory.session.quarantine("Tucson")
    assert memory.preview.next_prompt().context.messages == foretold.messages
    back = memory.preview.release(1).context
    memory.session.release(1)
    assert memory.preview.next_prompt().context.messages == back.messages


def test_a_trace_offers_the_release_with_its_effect_and_takes_it_back():
    memory = filled(*SAID)
    memory.session.quarantine("Nordlicht")
    memory.get("Where does Ana work?")
    trace = memory.trace("Nordlicht")
    fix = next(fix for fix in memory.trace.fixes(trace).offered if fix.kind == "release")
    assert fix.number == 1
    assert fix.foretold is not None
    undo = memory.trace.fix(fix)
    assert memory.session.quarantined() == []
    undo()
    assert [one.seqs for one in memory.session.quarantined()] == [(5,)]


def test_a_set_is_listed_in_words_without_what_was_erased_since():
    memory = filled(*SAID)
    memory.session.quarantine("Tucson")
    [one] = memory.session.quarantined()
    rows = memory.session.quarantined_rows(one)
    assert {row.kind for row in rows} == {"message", "fact", "relation", "summary", "text"}
    assert any(row.words == "She was born in Tucson." for row in rows)
    memory.session.forget("Tucson")
    assert all("Tucson" not in row.words for row in memory.session.quarantined_rows(one))
