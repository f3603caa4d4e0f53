"""Forget a phrase: the impact first, then one transaction, and a search by code that erases nothing."""

import io
import json
import random
import re
import zipfile
from threading import Thread
from unicodedata import normalize

import pytest
from engine_fakes import HeldExtractor, open_memory, user
from fakes import FakeEmbedder
from hypothesis import given, settings
from hypothesis import strategies as st
from rewritings import REWRITINGS

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
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.bundles.bundle import write_bundle
from memory_core.errors import MessageError, NotFoundError
from memory_core.events import Ref
from memory_core.messages import ToolCallPart
from memory_core.planning.impact import Target
from memory_inspector.lab.probes import InPrompt, keep_probes, kept_probes
from memory_inspector.lab.script import script_of
from memory_inspector.verification.fingerprints import wanted
from memory_inspector.verification.receipts import receipt_of

SAID = ["My name is Clara and I live in Tucson.", "I am allergic to nuts.", "I was told that Tucson is hot."]
CORE = "Be brief. She was born in Tucson.\nNo emoji."


def say(memory, *texts):
    for text in texts:
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="All right."))
    memory.flush(all=True)
    memory.deliver()


def filled(folder, *said, id="s", user="ana", **values):
    memory = Memory.from_defaults(
        id,
        user,
        database_uri=f"sqlite:///{folder / 'memory.db'}",
        token_limit=3_000,
        memory_blocks=[
            FactExtractionMemoryBlock(name="Facts", **values),
            VectorMemoryBlock(name="Earlier"),
            SummaryMemoryBlock(name="Summary"),
            GraphMemoryBlock(name="Graph"),
            StaticMemoryBlock(name="Core", static_content=CORE),
        ],
        services=Services(embedder=FakeEmbedder()),
    )
    say(memory, *(said or SAID))
    return memory


def facts(memory):
    return [fact.text for fact in memory.facts.read("Facts", states=None)]


def rows(impact, kind):
    return [(row.why, row.words) for row in impact.rows if row.kind == kind]


def clean(folder, *texts):
    receipt = receipt_of(folder, wanted(texts))
    assert receipt.clean, receipt.page()


def test_the_impact_names_what_says_it_and_what_was_learned_from_it_alone_and_changes_nothing(tmp_path):
    memory = filled(tmp_path)
    memory.build_context("Where is Tucson?")
    before = memory.events()
    impact = memory.session.forget("tucson", preview=True)
    assert rows(impact, "message") == [("says it", SAID[0]), ("says it", SAID[2])]
    assert rows(impact, "fact") == [
        ("learned from it alone", "The user's name is Clara"),
        ("says it", "The user lives in Tucson"),
    ]
    assert rows(impact, "text") == [("says it", CORE)]
    assert [row.why for row in impact.rows if row.kind == "summary"] == ["says it"]
    assert (impact.stored_units, impact.prompts) == (2, 1)
    assert [r.position for r in memory.events()] == [r.position for r in before]


def test_nothing_of_it_is_left_in_any_prompt_page_of_the_file_or_bundle(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    memory = filled(folder)
    memory.build_context("Where is Tucson?")
    memory.session.attach_recording([ChatMessage(role="user", content="Tucson, still to be played")], source="a file")
    memory.put(ChatMessage(role="user", content="Back to Tucson soon"))
    memory.session.forget("Tucson")
    assert memory.session.forget("Tucson", preview=True).rows == ()
    prompt = memory.get("Where do I live?")[0].content
    assert "Tucson" not in prompt
    assert "Be brief.\nNo emoji." in prompt
    assert facts(memory) == ["The user is allergic to nuts"]
    assert "The user is allergic to nuts." in prompt
    assert "Clara" not in prompt  # learned from a message that is gone, in the summary too
    bundle = write_bundle(memory.session.database, "s")
    clean(folder, "Tucson", SAID[0], "born in Tucson")
    for text in zipfile.ZipFile(io.BytesIO(bundle)).infolist():
        assert b"tucson" not in zipfile.ZipFile(io.BytesIO(bundle)).read(text).lower()
    assert b"tucson" not in b"".join(file.read_bytes() for file in folder.iterdir()).lower()


def test_a_session_goes_on_after_it_and_its_log_alone_gives_the_same(tmp_path):
    memory = filled(tmp_path)
    memory.session.forget("Tucson")
    say(memory, "I like tea.")
    assert facts(memory) == ["The user is allergic to nuts", "The user likes tea"]
    memory.build_context("What do I drink?")
    assert memory.trace("tea").reached
    branch = memory.branch(max(memory.log.history().turns))
    assert facts(branch) == facts(memory)
    assert [m.content for m in branch.get_all()] == [m.content for m in memory.get_all()]
    database = Database.open(f"sqlite:///{tmp_path / 'memory.db'}")
    again = Memory.open("s", database, services=memory.session.services)
    assert again.session.status().position == memory.session.status().position


def test_what_is_unticked_stays(tmp_path):
    memory = filled(tmp_path)
    impact = memory.session.forget("Tucson", preview=True)
    kept = [row for row in impact.rows if row.kind in ("text", "fact")]
    memory.session.forget("Tucson", keep=kept)
    assert CORE in memory.get("Hi")[0].content
    assert facts(memory) == ["The user's name is Clara", "The user lives in Tucson", "The user is allergic to nuts"]
    assert [message.content for message in memory.session.messages() if "Tucson" in str(message)] == []


def test_an_unticked_relation_keeps_its_entities_and_the_numbers_follow_the_ticks(tmp_path):
    memory = filled(tmp_path)
    memory.build_context("Where is Tucson?")
    impact = memory.session.forget("Tucson", preview=True)
    relations = [row for row in impact.rows if row.kind == "relation"]
    assert relations
    going = memory.session.forget("Tucson", keep=relations, preview=True)
    assert rows(going, "entity") == []
    messages = [row for row in impact.rows if row.kind in ("message", "fact")]
    without = memory.session.forget("Tucson", keep=messages, preview=True)
    assert (without.stored_units, without.prompts) == (0, 0)
    done = memory.session.forget("Tucson", keep=relations)
    assert done == going
    again = memory.session.forget("Tucson", preview=True)
    assert rows(again, "relation") == [("says it", row.words) for row in relations if row.why == "says it"]


def test_relations_and_entities_learned_from_it_alone_are_listed_before_they_go(tmp_path):
    memory = filled(tmp_path, "I work at Acme, by the river Quarn.", "I like tea.")
    graph = memory.graph.graph()
    impact = memory.session.forget("river Quarn", preview=True)
    memory.session.forget("river Quarn")
    after = memory.graph.graph()
    assert graph.relations
    assert set(impact.ids("relation")) == graph.relations.keys() - after.relations.keys()
    assert set(impact.ids("entity")) == graph.entities.keys() - after.entities.keys()


@pytest.mark.parametrize(
    "phrase", ["user", "text", "role", "content", "session", "facts", "active", "flush", "extracted", "parts", "engine"]
)
@pytest.mark.slow
def test_a_word_of_the_program_erases_no_more_than_what_people_said(tmp_path, phrase):
    memory = filled(tmp_path, "I like tea.", "I work at Acme.")
    memory.build_context("What do I drink?")
    memory.facts.add("Clara likes figs")
    before = memory.events()
    settings = [dict(block.settings) for block in memory.blocks]
    impact = memory.session.forget(phrase, preview=True)
    assert all(phrase[:4] in row.words.casefold() for row in impact.erased if row.why == "says it"), impact
    memory.session.forget(phrase, keep=impact.erased[1:])
    assert [str(record.event) for record in memory.events()[: len(before)]] == [str(record.event) for record in before]
    assert [dict(block.settings) for block in memory.blocks] == settings
    assert memory.get("What do I drink?")
    assert "I like tea." in [message.message.content for message in memory.session.messages()]


def test_a_watched_phrase_and_a_probe_go_each_by_itself(tmp_path):
    memory = filled(tmp_path)
    memory.trace.watch("Tucson is hot")
    memory.trace.watch("nuts")
    keep_probes(memory, [InPrompt(phrase="Tucson", from_turn=1), InPrompt(phrase="nuts", from_turn=1)])
    impact = memory.session.forget("Tucson")
    assert rows(impact, "watched") == [("says it", "Tucson is hot")]
    assert rows(impact, "probe") == [("says it", "Tucson")]
    assert memory.trace.watched == ("nuts",)
    assert [probe.phrase for probe in kept_probes(memory)] == ["nuts"]


def test_a_phrase_over_two_lines_and_in_a_tools_arguments_is_found(tmp_path):
    memory = filled(tmp_path, "We moved to San\n  Juan.")
    call = ToolCallPart(tool_call_id="c1", tool_name="look_up", tool_kwargs={"where": ["San Juan"], "Old Ghent": 1})
    memory.put(ChatMessage(role="assistant", parts=[call]))
    assert [row.id for row in memory.session.forget("san juan", preview=True).rows if row.kind == "message"] == [1, 3]
    assert memory.session.forget("old ghent", preview=True).ids("message") == [3]


def test_what_other_messages_say_as_well_stays(tmp_path):
    memory = filled(tmp_path, SAID[0], "My name is Clara, as I said.")
    assert rows(memory.session.forget("Tucson", preview=True), "fact") == [("says it", "The user lives in Tucson")]
    memory.session.forget("Tucson")
    assert "The user's name is Clara" in facts(memory)


def test_what_a_person_wrote_goes_only_where_it_says_it(tmp_path):
    memory = filled(tmp_path)
    memory.facts.add("Clara likes figs")
    memory.facts.add("Clara was born in Tucson")
    memory.session.forget("Tucson")
    assert facts(memory) == ["The user is allergic to nuts", "Clara likes figs"]


def test_a_fact_that_said_it_once_goes_with_its_history(tmp_path):
    memory = filled(tmp_path, "I like tea.")
    memory.facts.add("The user lives in Tucson")
    memory.facts.edit(memory.facts.read("Facts")[-1], "The user lives in the desert")
    impact = memory.session.forget("Tucson")
    assert rows(impact, "fact") == [("said it before", "The user lives in the desert")]
    clean(tmp_path, "lives in Tucson")


def test_other_sessions_are_named_and_left_alone_and_so_are_other_users_facts(tmp_path):
    memory = filled(tmp_path, scope="user")
    other = filled(tmp_path, SAID[0], id="other", user="ben", scope="user")
    impact = memory.session.forget("Tucson")
    assert [row.id for row in impact.rows if row.kind == "session"] == ["other"]
    assert "The user lives in Tucson" in facts(other)
    assert SAID[0] in [message.message.content for message in other.session.messages()]


def test_a_phrase_that_nothing_says_records_nothing(tmp_path):
    memory = filled(tmp_path)
    before = memory.session.status().position
    assert memory.session.forget("Reykjavik").rows == ()
    assert memory.session.status().position == before


@pytest.mark.parametrize("phrase", ["", "  ", "ab", " a b "])
def test_a_phrase_that_stands_anywhere_by_chance_is_refused(tmp_path, phrase):
    memory = filled(tmp_path, "I like tea.")
    if len(" ".join(phrase.split())) < 3:
        with pytest.raises(MessageError):
            memory.session.forget(phrase)


def test_what_is_being_learned_while_it_is_forgotten_is_not_stored():
    extractor = HeldExtractor()
    memory = open_memory(memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=extractor)])
    memory.put(ChatMessage(role="user", content="note 17 of Tucson"))
    learning = Thread(target=memory.flush, kwargs={"all": True})
    learning.start()
    assert extractor.begun.wait(20)
    memory.session.forget("Tucson")
    extractor.evict.set()
    learning.join(20)
    memory.deliver()
    assert memory.facts.read("facts", states=None) == []
    assert memory.session.forget("Tucson", preview=True).rows == ()


def test_a_reason_that_a_person_typed_is_cleared(tmp_path):
    memory = filled(tmp_path, "I like tea.")
    memory.facts.retire(memory.facts.read("Facts")[0], reason="that was before Tucson")
    memory.put(ChatMessage(role="user", content="Tucson!"))
    memory.session.forget("Tucson")
    assert "Tucson" not in json.dumps([str(record.event) for record in memory.events()])
    clean(tmp_path, "before Tucson")


@given(st.lists(st.sampled_from(["Ana sings", "No emoji", "Ben lives in Ghent", "ghent is wet"]), max_size=6))
def test_a_text_without_the_phrase_has_its_other_sentences_in_order(parts):
    text = " ".join(f"{part}." for part in parts)
    remaining = Target(("Ghent",)).removed_from(text)
    assert "ghent" not in remaining.casefold()
    assert remaining == " ".join(f"{part}." for part in parts if "hent" not in part)


@given(st.text(max_size=40), st.text(min_size=1, max_size=10))
@settings(max_examples=200)
def test_no_text_says_a_phrase_after_it_was_taken_out(text, phrase):
    target = Target((phrase,))
    assert not " ".join(phrase.split()) or not target.said_in(target.removed_from(text))


def words_of(text):
    return re.sub(r"[\W_]+", " ", normalize("NFKC", text).casefold()).strip()


@pytest.mark.slow
@pytest.mark.parametrize("phrase", ["O'Brien's lock-file", "Zoé at the tree-house"])
def test_however_a_phrase_was_written_forgetting_lists_what_a_trace_finds_and_leaves_none(tmp_path, phrase):
    memory = filled(tmp_path, *(f"Number {n}: {write(phrase)}, so." for n, write in enumerate(REWRITINGS.values())))
    tracks = memory.trace(phrase).tracks
    impact = memory.session.forget(phrase, preview=True)
    assert tracks
    assert {track.carrier.seq for track in tracks if track.carrier.kind == "message"} <= set(impact.ids("message"))
    assert len(impact.ids("message")) == len(REWRITINGS)
    memory.session.forget(phrase)
    assert memory.trace(phrase).tracks == ()
    assert memory.session.forget(phrase, preview=True).rows == ()
    clean(tmp_path, phrase, *(write(phrase) for write in REWRITINGS.values()))


@pytest.mark.slow
@given(
    st.sampled_from(["O'Brien's lock-file", "tree-house of Zoé", "allergic to nuts"]),
    st.lists(
        st.tuples(st.sampled_from(sorted(REWRITINGS)), st.booleans(), st.text(max_size=20)), min_size=1, max_size=4
    ),
)
@settings(max_examples=15, deadline=None)
def test_between_any_words_a_rewritten_phrase_is_found_and_forgotten(phrase, sayings):
    memory = Memory.from_defaults("s", token_limit=3_000)
    for name, says_it, around in sayings:
        memory.put(user(f"{around} {REWRITINGS[name](phrase) if says_it else 'Nothing'} {around}"))
    found = {track.carrier.seq for track in memory.trace(phrase).tracks if track.carrier.kind == "message"}
    impact = memory.session.forget(phrase)
    assert found <= set(impact.ids("message"))
    assert set(impact.ids("message")) >= {n for n, (_, says_it, _) in enumerate(sayings, 1) if says_it}
    assert memory.trace(phrase).tracks == ()


SPELLED = {
    "apostrophe": ("O'Brien Street", "I live at O’Brien Street 12."),
    "accent": ("Zoé Ltd", "I work for Zoe\u0301 Ltd."),
    "markup": ("Social Security number", "My **Social Security** number is 1234."),
    "other words": ("allergic to nuts", "I am allergic to all nuts."),
}


@pytest.mark.parametrize(("phrase", "text"), SPELLED.values(), ids=SPELLED)
def test_what_is_said_in_another_spelling_is_kept_out_of_prompts_now_and_later(tmp_path, phrase, text):
    memory = filled(tmp_path, text)
    assert [row.match for row in memory.session.quarantine(phrase, preview=True).rows if row.kind == "message"]
    memory.session.quarantine(phrase)
    memory.put(user(f"As I said: {text}"))
    prompt = "\n".join(message.content or "" for message in memory.get("And now?"))
    assert words_of(phrase) not in words_of(prompt)
    assert "As I said" not in prompt


def test_the_rows_of_an_impact_name_how_each_says_the_phrase(tmp_path):
    memory = filled(tmp_path, "I am allergic to nuts.", "Allergic I am, to all nuts.", "The nut-allergic cook sings.")
    impact = memory.session.forget("allergic to nuts", preview=True)
    grades = {row.id: row.match for row in impact.rows if row.kind == "message"}
    assert grades == {1: "verbatim", 3: "reworded", 5: "reworded"}


def test_forgetting_a_message_takes_what_repeats_it_in_another_spelling(tmp_path):
    memory = filled(
        tmp_path, "I live at O’Brien Street 12, Porto.", "I live at O'Brien Street 12, **Porto**!", "I like tea."
    )
    impact = memory.session.forget(Ref.of("message", 1), preview=True)
    assert impact.ids("message") == [1, 3]


def test_a_forgotten_message_leaves_no_version_of_a_summary_that_read_it(tmp_path):
    memory = filled(tmp_path, "I live in Porto.", "I like tea.")
    memory.session.forget(Ref.of("message", 1))
    assert memory.trace("Porto").tracks == ()
    clean(tmp_path, "Porto")


def test_a_message_is_not_forgotten_for_sharing_words_with_another(tmp_path):
    memory = filled(tmp_path, "What is the plan for today?", "My plan for today is to rest.")
    assert memory.session.forget(Ref.of("message", 1), preview=True).ids("message") == [1]


def test_a_static_text_in_decomposed_letters_loses_its_sentence(tmp_path):
    memory = filled(tmp_path)
    memory.blocks.edit("Core", "Be brief. Mr Mu\u0308ller is the boss.\nNo emoji.")
    memory.session.forget("Müller")
    assert "Be brief.\nNo emoji." in memory.get("Hi")[0].content


@pytest.mark.slow
def test_of_200_forgotten_phrases_no_byte_is_left(tmp_path):
    """Said, learned, summarised, related, written and prompted; half of them in one session."""
    pick = random.Random(31)
    forms = ["I live in {0}.", "My sister {0} works at Acme.", "Please remember the code {0}.", "I like {0} and tea."]
    words = [f"Quarn{chr(97 + n % 26)}{chr(97 + n // 26)}ville{n:03}" for n in range(200)]
    memories = [filled(tmp_path, "I drink tea.", id=f"s{n}", user=f"u{n}") for n in range(4)]
    for number, word in enumerate(words):
        memory = memories[0 if number % 2 else number // 2 % 4]
        memory.put(ChatMessage(role="user", content=pick.choice(forms).format(word)))
        if number % 7 == 0:
            memory.facts.add(f"Clara has been to {word}")
        if number % 11 == 0:
            memory.blocks.edit("Core", f"Be brief. Think of {word}. No emoji.")
    for memory in memories:
        memory.flush(all=True)
        memory.deliver()
        memory.build_context("Where do I live?")
    want = wanted(words)
    assert receipt_of(tmp_path, want).hits > 400
    for word in words:
        for memory in memories:
            memory.session.forget(word)
    receipt = receipt_of(tmp_path, want)
    assert receipt.clean, receipt.page()
    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()).lower()
    assert [word for word in words if word.lower().encode() in left] == []
    assert all("The user drinks tea" in facts(memory) for memory in memories)


def test_a_message_goes_with_what_was_learned_from_it_and_what_repeats_it(tmp_path):
    memory = filled(tmp_path, *SAID, "As I said: My name is Clara and I live in Tucson.")
    impact = memory.session.forget(Ref.of("message", 1))
    assert [(row.id, row.why) for row in impact.rows if row.kind == "message"] == [(1, "chosen"), (7, "says it")]
    assert memory.facts.read("Facts", states=None) != []
    assert not any("Clara" in fact.text for fact in memory.facts.read("Facts", states=None))
    with pytest.raises(NotFoundError):
        memory.session.forget(Ref.of("message", 1))


def test_a_short_message_goes_alone(tmp_path):
    memory = filled(tmp_path, *SAID, "Yes, please.", "Yes, please.")
    impact = memory.session.forget(Ref.of("message", 7))
    assert [(row.kind, row.id) for row in impact.rows] == [("message", 7)]


def test_a_fact_goes_with_the_messages_that_state_it_and_other_facts_of_these_stay(tmp_path):
    memory = filled(tmp_path, "I live in Tucson. My dentist is Doctor Vale.", user=None)
    fact = next(fact for fact in memory.facts.read("Facts") if "Vale" in fact.text)
    rows = memory.session.forget(Ref.of("fact", fact.id)).rows
    assert [(row.id, row.why) for row in rows if row.kind in ("fact", "message")] == [
        (1, "states it"),
        (fact.id, "chosen"),
    ]
    assert [fact.text for fact in memory.facts.read("Facts", states=None)] == ["The user lives in Tucson"]
    found = receipt_of(tmp_path, wanted(["Doctor Vale"]))
    assert found.clean, found.page()


def test_an_entity_goes_by_all_its_names_as_whole_words(tmp_path):
    memory = filled(tmp_path, "My sister Ana works at Nordlicht.", "I ate a banana.")
    ana = next(entity for entity in memory.graph.graph().entities.values() if entity.name == "Ana")
    memory.session.forget(ana)
    assert [message.message.content for message in memory.session.messages(role="user")] == ["I ate a banana."]
    assert not any(entity.name == "Ana" for entity in memory.graph.graph().entities.values())


def test_a_message_or_fact_of_another_session_is_refused(tmp_path):
    first = filled(tmp_path, *SAID, user=None)
    other = filled(tmp_path, "I have a cat.", id="t", user=None)
    [fact] = other.facts.read("Facts")
    for ref in (Ref.of("fact", fact.id), Ref.of("message", 99), Ref.of("unit", 1)):
        with pytest.raises(NotFoundError):
            first.session.forget(ref, preview=True)


def test_what_was_said_before_a_phrase_was_forgotten_is_played_again_in_the_lab(tmp_path):
    memory = filled(tmp_path, *SAID, user=None)
    memory.session.forget("Tucson")
    said = [message.content for message in script_of(memory).messages if message.role == "user"]
    assert said == ["I am allergic to nuts."]
