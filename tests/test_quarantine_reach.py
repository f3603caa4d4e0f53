"""Quarantine reaches custom blocks, what is put or mirrored later, and says what it cannot reach."""

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field
from sqlalchemy import event

from memory_core import ChatMessage, Database, FactExtractionMemoryBlock, Memory, Services, VectorMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.engine.session import Session
from memory_core.events import Ref
from memory_core.messages import TextPart
from memory_core.planning.graph_changes import NamedRelation
from memory_inspector.files.mirroring import (
    MirroredBlock,
    MirroredFact,
    TextVersion,
    mirror,
    mirror_facts,
    mirror_relations,
)
from memory_inspector.recorder.recording import attach, record_exchange
from memory_inspector.recorder.wire import Exchange

FIRST, SECOND = "My name is Clara and I live in Tucson.", "I am allergic to nuts."


class Notebook(BaseMemoryBlock[str]):
    """A custom block that shows all it was given, in one of four forms."""

    lines: list[str] = Field(default_factory=list)
    form: str = "text"

    def _get(self, messages=None, **kwargs):
        if self.form == "asked":
            return "\n".join(message.content or "" for message in messages)
        if self.form == "messages":
            return [ChatMessage(role="user", content=line) for line in self.lines]
        if self.form == "parts":
            return [TextPart(text=line) for line in self.lines]
        return "\n".join(f"- {line}" for line in self.lines)

    def _put(self, messages):
        self.lines.extend(message.content for message in messages if message.role == "user")

    def truncate(self, content, tokens_to_truncate):
        return "\n".join(self.lines[:3])


def opened(*blocks, id="s", database=None, **values):
    return Memory.from_defaults(
        id,
        "ana",
        database=database or Database.open(),
        memory_blocks=list(blocks),
        services=Services(embedder=FakeEmbedder()),
        **{"token_limit": 3_000, **values},
    )


def say(memory, *texts):
    for text in texts:
        memory.put(user(text))
        memory.put(assistant("All right."))
    memory.flush(all=True)
    memory.deliver()


def noted(*texts, form="text", **values):
    memory = opened(FactExtractionMemoryBlock(name="Facts"), Notebook(name="Notes", form=form), **values)
    say(memory, *texts)
    return memory


def prompt(memory, question="Hello"):
    return "\n".join(message.content or "" for message in memory.preview.context(input=question).messages)


def state(memory, name="Notes"):
    memory.session.refresh()
    return next(block.state for block in memory.blocks if block.name == name)


# -- custom blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["text", "messages", "parts"])
def test_a_custom_block_loses_the_sentences_in_prompts_and_its_fields_stay(form):
    memory = noted(FIRST, SECOND, form=form)
    before, fields = prompt(memory), state(memory)
    assert "Tucson" in before
    rows = memory.session.quarantine("Tucson").rows
    assert ("fields", "Notes") in [(row.kind, row.id) for row in rows]
    assert "Tucson" not in prompt(memory)
    assert SECOND in prompt(memory)
    assert state(memory) == fields
    memory.session.release(1)
    assert prompt(memory) == before


def test_a_custom_block_loses_what_only_the_messages_in_quarantine_say():
    memory = noted("I live in Tucson. I have been a carpenter for years.", "I like green tea. I am allergic to nuts.")
    memory.session.quarantine("Tucson")
    assert "carpenter" not in prompt(memory)
    assert "green tea" in prompt(memory)
    again = noted("I live in Tucson. I am allergic to nuts.", "I am allergic to nuts.")
    again.session.quarantine("Tucson")
    assert SECOND in prompt(again)


def test_a_message_or_a_fact_in_quarantine_leaves_a_custom_block_too():
    memory = noted("My dentist is Doctor Vale.", SECOND)
    memory.session.quarantine(Ref.of("message", 1))
    assert "Vale" not in prompt(memory)
    assert "nuts" in prompt(memory)
    memory.session.release(1)
    [fact] = [fact for fact in memory.facts.read("Facts") if "Vale" in fact.text]
    memory.session.quarantine(Ref.of("fact", fact.id))
    assert "Vale" not in prompt(memory)
    assert "nuts" in prompt(memory)


def test_an_unticked_custom_block_still_says_it():
    memory = noted(FIRST, SECOND)
    fields = [row for row in memory.session.quarantine("Tucson", preview=True).rows if row.kind == "fields"]
    memory.session.quarantine("Tucson", keep=fields)
    assert prompt(memory).count("Tucson") == 1
    [one] = memory.session.quarantined()
    assert "fields" not in [row.kind for row in memory.session.quarantined_rows(one)]


def test_a_phrase_that_only_a_custom_block_says_is_listed_and_released():
    memory = opened(Notebook(name="Notes", lines=[FIRST, SECOND]))
    before = prompt(memory)
    memory.session.quarantine("Tucson")
    [one] = memory.session.quarantined()
    assert [(row.kind, row.id) for row in memory.session.quarantined_rows(one)] == [("fields", "Notes")]
    assert "Tucson" not in prompt(memory)
    released = memory.session.release(1)
    assert prompt(memory) == before
    memory.session.quarantine_again(released)
    assert "Tucson" not in prompt(memory)


def test_what_a_custom_block_makes_of_a_shorter_content_or_of_the_question_does_not_say_it():
    shortened = opened(Notebook(name="Notes", lines=[FIRST, SECOND] * 40, priority=1), token_limit=200)
    shortened.session.quarantine("Tucson")
    assert shortened.preview.context().plan.cuts
    assert "nuts" in prompt(shortened)
    assert "Tucson" not in prompt(shortened)
    asked = noted(FIRST, form="asked")
    asked.session.quarantine("Tucson")
    assert "Tucson" not in prompt(asked, "Where is Tucson?")


def test_a_block_whose_class_is_missing_shows_its_last_content_without_it():
    memory = noted(FIRST, SECOND)
    memory.get("Hello")
    elsewhere = Memory.open("s", memory.session.database, services=Services(embedder=FakeEmbedder()))
    before = prompt(elsewhere)
    assert "Tucson" in before
    elsewhere.session.quarantine("Tucson")
    assert "Tucson" not in prompt(elsewhere)
    assert "nuts" in prompt(elsewhere)
    elsewhere.session.release(1)
    assert prompt(elsewhere) == before


def test_a_recorded_prompt_without_a_custom_blocks_sentences_is_rebuilt_exactly():
    memory = noted(FIRST, SECOND)
    memory.session.quarantine("Tucson")
    sent = memory.get("Hello")
    rebuilt = memory.log.prompt(memory.events(kinds=("context_built",))[-1])
    assert [m.content for m in rebuilt.messages] == [m.content for m in sent]


def test_a_trace_names_the_quarantine_for_a_custom_block():
    memory = noted(FIRST, SECOND)
    memory.session.quarantine("Tucson")
    memory.get("Hello")
    [track] = [track for track in memory.trace("Tucson").tracks if track.carrier.block == "Notes"]
    assert track.stages[-1].rule == "quarantined"


def test_forgetting_the_phrase_erases_it_from_the_log_of_quarantine():
    memory = noted(FIRST, SECOND)
    memory.session.quarantine("Tucson")
    memory.session.forget("Tucson")
    assert all("Tucson" not in str(record.event) for record in memory.events())
    memory.put(user("Something was (erased) here."))
    assert "(erased)" in prompt(memory)


# -- what is put later -----------------------------------------------------------------------------


def test_a_recording_that_is_played_on_does_not_bring_it_back():
    memory = opened(FactExtractionMemoryBlock(name="Facts"), VectorMemoryBlock(name="Earlier"))
    said_later = [user("I moved from Tucson to Porto."), assistant("Porto is nice."), user(SECOND), assistant("Noted.")]
    memory.session.attach_recording([user(FIRST), assistant("Hello."), *said_later], source="notes")
    play(memory, 1)
    preview = memory.session.quarantine("Tucson", preview=True)
    assert [row.words for row in preview.rows if row.kind == "recording"] == ["1 message that is still to be played"]
    memory.session.quarantine("Tucson")
    foretold = memory.preview.next_prompt().context.messages
    assert "Tucson" not in str(foretold)
    play(memory, 2)
    assert "Tucson" not in prompt(memory)
    assert "Porto is nice." in prompt(memory)
    assert SECOND in prompt(memory)
    [one] = memory.session.quarantined()
    assert one.seqs == (1, 3)
    say(memory)
    assert "Tucson" not in prompt(memory, "Where is Tucson?")
    assert not [fact for fact in memory.facts.read("Facts", states=None) if "Porto" in fact.text]
    memory.session.release(1)
    assert "I moved from Tucson to Porto." in prompt(memory, "Where is Tucson?")


def play(memory, turns):
    for _ in range(turns):
        recording = memory.session.recording()
        for number, message in enumerate(recording.next_turn, recording.played):
            memory.put(message, message_id=recording.message_id(number))


def test_a_phrase_that_only_the_rest_of_a_recording_says_can_be_put_into_quarantine():
    memory = opened()
    memory.session.attach_recording([user(SECOND), assistant("Noted."), user(FIRST), assistant("Hello.")], source="x")
    play(memory, 1)
    row = memory.session.quarantine("Tucson", preview=True).rows
    assert [one.kind for one in row] == ["recording"]
    memory.session.quarantine("Tucson")
    play(memory, 1)
    assert "Tucson" not in prompt(memory)
    memory.session.release(1)
    assert FIRST in prompt(memory)
    memory.session.quarantine("Tucson", keep=row)
    assert memory.session.quarantine("Hello.", preview=True).rows[-1].kind == "message"


def test_an_unticked_recording_is_played_into_prompts():
    memory = opened()
    memory.session.attach_recording(
        [user(FIRST), assistant("Hi."), user(f"Again. {FIRST}"), assistant("Hm.")], source="x"
    )
    play(memory, 1)
    rows = [row for row in memory.session.quarantine("Tucson", preview=True).rows if row.kind == "recording"]
    memory.session.quarantine("Tucson", keep=rows)
    play(memory, 1)
    assert prompt(memory).count("Tucson") == 1


def test_what_is_put_later_joins_the_set_of_a_message_an_entity_or_a_phrase_and_the_log_says_so():
    memory = noted("My dentist is Doctor Vale.", "My sister Ana works at Nordlicht.")
    memory.session.quarantine(Ref.of("message", 1))
    memory.put(user("As I said: My dentist is Doctor Vale."))
    memory.put(user("I ate a banana."))
    [one] = memory.session.quarantined()
    assert one.seqs == (1, 5)
    assert "Vale" not in prompt(memory)
    assert "banana" in prompt(memory)
    event = memory.events(kinds=("quarantine_changed",))[-1].event
    assert (event.joined, event.number, event.messages) == (True, 1, ((5, 5),))
    memory.put(ChatMessage(role="tool", content="Ana is here", additional_kwargs={"tool_call_id": "1"}))
    assert memory.session.quarantined()[0].seqs == (1, 5)


def test_a_branch_before_the_repetition_has_the_set_without_it():
    memory = noted(FIRST)
    memory.session.quarantine("Tucson")
    say(memory, SECOND, "Tucson again.")
    branch = memory.branch(2)
    assert branch.session.quarantined()[0].seqs == (1,)
    branch.put(user("I am back in Tucson."))
    assert "Tucson" not in prompt(branch)


# -- stores of other programs ----------------------------------------------------------------------


def test_facts_and_relations_that_are_mirrored_later_are_withheld():
    memory = opened()
    facts = [MirroredFact(("Clara lives in Tucson",)), MirroredFact(("Clara has a dog",))]
    related = [NamedRelation("Clara", "lives in", "Tucson"), NamedRelation("Clara", "has", "a dog")]
    mirror_facts(memory._session, facts)
    mirror_relations(memory._session, related)
    asked = "Where does Clara live, Tucson?"
    assert "Tucson" in prompt(memory, asked)
    memory.session.quarantine("Tucson")
    assert "Tucson" not in prompt(memory, asked)
    mirror_facts(memory._session, [*facts, MirroredFact(("Clara was born in Tucson",)), MirroredFact(("Clara sings",))])
    mirror_relations(memory._session, [*related, NamedRelation("Clara", "flies to", "Tucson")])
    shown = prompt(memory, asked)
    assert "Tucson" not in shown
    assert "Clara sings" in shown
    # A text that changes there, and a set that says it anew once it was lost.
    mirror_facts(memory._session, [MirroredFact(("Clara has a dog", "Clara has a dog in Tucson"))])
    mirror_facts(memory._session, facts)
    assert "Tucson" not in prompt(memory, asked)
    memory.session.release(1)
    assert "Clara lives in Tucson" in prompt(memory, asked)


def test_a_text_that_is_mirrored_later_loses_its_new_sentences_that_say_it():
    memory = opened()
    mirror(
        memory._session, [user(FIRST)], blocks=[MirroredBlock("human", (TextVersion("She lives in Tucson. Be kind."),))]
    )
    memory.session.quarantine("Tucson")
    newer = TextVersion("Be kind. She moved away from Tucson. She has a dog.")
    mirror(memory._session, [user(FIRST), user("Tucson is hot.")], blocks=[MirroredBlock("human", (newer,))])
    shown = prompt(memory)
    assert "Tucson" not in shown
    assert "She has a dog." in shown
    memory.session.release(1)
    assert "She moved away from Tucson." in prompt(memory)


def test_an_attached_agent_is_only_reported_and_the_impact_and_the_trace_say_so():
    memory = opened(id="other")
    assert not memory.session.quarantine("nothing here", preview=True).program
    database = memory.session.database
    session = Session(database, "agent", services=Services(embedder=FakeEmbedder()))
    attach(session)
    record_exchange(session, Exchange("reply", "m", (user(FIRST),), assistant("Hello, Clara.")))
    agent = Memory.open("agent", database, services=Services(embedder=FakeEmbedder()))
    impact = agent.session.quarantine("Tucson")
    assert "own memory is not changed" in impact.program
    assert impact.program in str(impact)
    record_exchange(session, Exchange("reply", "m", (user(FIRST), assistant("Hello, Clara."), user("And now?"))))
    [track] = [t for t in agent.trace("Tucson").tracks if t.carrier.kind == "message"]
    assert "the agent's own program still has it" in track.stages[-1].text
    assert agent.branch(1).session.quarantine("Clara", preview=True).program == ""
    store = Session(database, "store", services=Services(embedder=FakeEmbedder()))
    attach(store, source="file")
    followed = Memory.open("store", database, services=Services(embedder=FakeEmbedder()))
    assert "the program that it belongs to still has it" in followed.session.quarantine("Tucson", preview=True).program


# -- promises --------------------------------------------------------------------------------------

WORDS = st.sampled_from(["Tucson", "nuts", "dog", "green tea", "Nordlicht"])
SENTENCE = st.builds("I think of {} {}.".format, WORDS, st.sampled_from(["often", "today", "and of Porto"]))
TEXT = st.lists(SENTENCE, min_size=1, max_size=2).map(" ".join)


@given(
    st.lists(TEXT, min_size=1, max_size=3),
    WORDS,
    st.lists(TEXT, max_size=3),
    st.sampled_from(["text", "messages", "asked"]),
)
@settings(max_examples=25, deadline=None)
@pytest.mark.slow
def test_no_prompt_after_quarantine_says_the_phrase_and_a_release_restores_the_prompt(before, phrase, after, form):
    memory, twin = (noted(*before, form=form) for _ in range(2))
    if not memory.session.quarantine(phrase).rows:
        return
    rows = prompt(memory, "Hello")
    assert phrase not in rows
    memory.session.release(1)
    assert prompt(memory) == prompt(twin)
    memory.session.quarantine(phrase)
    for text in after:
        memory.put(user(text))
        assert phrase not in prompt(memory, f"What about {phrase}?")
        twin.put(user(text))
    memory.session.release(2)
    assert prompt(memory) == prompt(twin)


@pytest.mark.slow
@given(st.lists(TEXT, max_size=3), WORDS, st.lists(TEXT, max_size=3))
@settings(max_examples=15, deadline=None)
def test_whatever_is_mirrored_no_prompt_says_the_phrase(before, phrase, after):
    memory, twin = opened(), opened()
    texts = [list(dict.fromkeys(before)), list(dict.fromkeys([*before, *after]))]
    for one in (memory, twin):
        mirror_facts(one._session, [MirroredFact((text,)) for text in texts[0]])
    if not memory.session.quarantine(phrase).rows:
        return
    for one in (memory, twin):
        mirror_facts(one._session, [MirroredFact((text,)) for text in texts[1]])
    assert phrase not in prompt(memory)
    memory.session.release(1)
    assert prompt(memory) == prompt(twin)


def test_a_put_and_a_prompt_read_no_log_where_nothing_was_ever_in_quarantine(tmp_path):
    memory = Memory.from_defaults("s", database_uri=f"sqlite:///{tmp_path / 'memory.db'}")
    memory.put(user(FIRST))
    statements = []
    event.listen(
        memory.session.database.engine, "before_cursor_execute", lambda _c, _cur, sql, *_: statements.append(sql)
    )
    memory.put(user(SECOND))
    memory.get()
    assert not [sql for sql in statements if "FROM mi_event" in sql]
    with Database.open(f"sqlite:///{tmp_path / 'memory.db'}") as elsewhere:
        Memory.open("s", elsewhere, services=Services()).session.quarantine("Tucson")
    memory.put(user("I am back in Tucson."))
    assert "Tucson" not in str(memory.get())
