"""Where one piece of information went: each rule that can lose it, by the engine's own record of what it did."""

import json
import re
import threading

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, assistant, on_file, user
from fakes import FakeExtractor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import create_engine
from test_schema_upgrade import back_to_version_1, played

from memory_core import (
    FactExtractionMemoryBlock,
    Memory,
    MessageError,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.errors import ModelUnreachableError
from memory_core.events import Ref
from memory_core.models.embedding import MiniLMEmbedder
from memory_core.planning import curation
from memory_core.planning.context_plan import QUEUE
from memory_core.planning.phrase_matching import Phrase
from memory_core.store.database import Database
from memory_core.tracing.tracer import MAX_TRACKS
from memory_core.tracing.words import carrier_name

NUTS = "I am allergic to nuts"


def memory_of(*blocks, extractor=None, embedder=None, **given):
    """A session whose facts are found by a fake; unless an embedder is given, vectors tell nothing of meaning."""
    services = Services(embedder=embedder or HashEmbedder(), extractor=extractor or FakeExtractor())
    return Memory.from_defaults("s", memory_blocks=list(blocks), services=services, **{"token_limit": 4000} | given)


def facts(**given):
    return FactExtractionMemoryBlock(name="facts", priority=1, **given)


def turns(**given):
    return VectorMemoryBlock(name="turns", priority=2, **{"similarity_threshold": None, "layout": "messages"} | given)


def said_and_flushed(memory, *texts):
    """Each text a turn of its own, then all of them out of the queue but the newest question."""
    for text in texts:
        memory.put_messages([user(text), assistant("Noted.")])
    memory.flush(all=True)
    memory.put(user("What may the guests eat?"))
    return memory


def asked(memory, question="What may the guests eat?"):
    """The memory, once a prompt was built for a question."""
    memory.build_context(question)
    return memory


# -- what a phrase is ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("phrase", "text", "says"),
    [
        ("allergic to nuts", "Careful, Ana is ALLERGIC to all nuts!", True),
        ("allergic to nuts", "I am allergic to cats. Bring nuts.", False),
        ("Ana is here. She is allergic", "She is allergic, sadly. Ana is here now.", True),
        ("not allergic", "I am allergic", False),
        ("to the", "Go to the river", True),
        ("14 March", "on 14 March 2024", True),
        ("", "anything", False),
    ],
)
def test_a_phrase_is_said_where_one_sentence_has_all_its_stems(phrase, text, says):
    assert Phrase.of(phrase).said_in(text) is says


@given(st.text(max_size=200), st.text(max_size=200))
def test_whatever_is_looked_for_is_found_in_itself_and_never_in_an_error(phrase, text):
    wanted = Phrase.of(phrase)
    assert wanted.said_in(text) in (True, False)
    if wanted.sentences:
        assert wanted.said_in(phrase)


# -- the way to the prompt ---------------------------------------------------------------------------


def test_what_is_in_the_queue_is_in_the_prompt_and_the_answer_is_compared_by_its_words():
    memory = memory_of(facts())
    memory.put(user(NUTS))
    memory.build_context(NUTS)
    memory.put(assistant("No nuts then: you are allergic."))
    trace = memory.trace("allergic to nuts")
    assert trace.sentence == "In the prompt of turn 1, as a message of the queue. The answer uses its words."
    assert [stage.name for stage in trace.tracks[0].stages] == ["said", "queue", "prompt", "answer"]
    assert trace.tracks[0].stages[-1].knowledge == "observed"
    assert (trace.tracks[1].decisive.rule, trace.tracks[1].decisive.verdict) == ("queued", "waiting")


def test_a_fact_and_a_stored_message_are_two_carriers_beside_the_message():
    memory = asked(said_and_flushed(memory_of(facts(), turns()), NUTS))
    trace = memory.trace("allergic to nuts")
    assert {(track.carrier.kind, track.reached) for track in trace.tracks} == {
        ("fact", True),
        ("unit", True),
        ("message", False),
    }
    assert trace.sentence == "In the prompt of turn 2, as fact 1 of facts."
    assert [said.matched for said in trace.said] == ["words"]


# -- the rules that lose it ----------------------------------------------------------------------------


def test_below_the_threshold():
    memory = asked(said_and_flushed(memory_of(turns(similarity_threshold=0.95)), NUTS))
    lost = memory.trace("allergic to nuts").decisive
    (found,) = [r.event for r in memory.events(kinds=("retrieved",))]
    score = next(score for number, _, _, score, outcome in found.candidates if outcome == "below_threshold")
    assert (lost.name, lost.rule, lost.numbers["threshold"]) == ("found", "below_threshold", 0.95)
    assert lost.numbers["score"] in [candidate[3] for candidate in found.candidates]
    assert score < 0.95


def test_beyond_the_results():
    memory = said_and_flushed(memory_of(turns(similarity_top_k=1)), NUTS, *(f"note {n} of the day" for n in range(6)))
    asked(memory)
    lost = [memory.trace(Ref.of("unit", unit.number)).decisive for unit in memory.retrieval.stored_turns("turns")]
    assert lost.count(None) == 6  # equal answers take one place: six of seven are not lost, but shown by the seventh
    lost = [stage for stage in lost if stage is not None and stage.verdict == "lost"]
    assert {stage.rule for stage in lost} == {"beyond_top_k"}
    assert len(lost) > 3
    assert all("Beyond the 1 result of turns" in stage.text for stage in lost)


def test_cut_by_priority():
    memory = said_and_flushed(memory_of(facts(), token_limit=4000), NUTS)
    memory.configure(token_limit=40)
    memory.put(user("And " + "so on " * 40))
    context = memory.build_context()
    (cut,) = [cut for cut in context.plan.cuts if cut.part == "facts"]
    trace = memory.trace(Ref.of("fact", 1))
    assert trace.sentence == (f"Cut in turn 3: the prompt was {cut.over_before} tokens over, and facts is cut first.")


def test_the_oldest_turns_of_the_queue():
    memory = memory_of(token_limit=4000)
    for text in (NUTS, "And " + "so on " * 30, "What now?"):
        memory.put_messages([user(text), assistant("Yes.")])
    memory.configure(token_limit=30, chat_history_token_ratio=1.0)
    context = memory.build_context()
    (cut,) = [cut for cut in context.plan.cuts if cut.part == QUEUE]
    lost = memory.trace("allergic to nuts").decisive
    assert (lost.rule, lost.numbers) == ("oldest_turns", {"over_before": cut.over_before})


def test_no_block_takes_what_leaves_the_queue():
    memory = asked(said_and_flushed(memory_of(StaticMemoryBlock(name="core", static_content="Be kind.")), NUTS))
    trace = memory.trace("allergic to nuts")
    assert (trace.decisive.name, trace.decisive.rule) == ("flush", "no_block")
    assert trace.sentence.endswith("No block receives what leaves the queue.")


def test_a_failed_delivery():
    class Fails(FakeExtractor):
        def extract(self, messages, *, known):
            raise ModelUnreachableError("Nothing answers at the model's address.")

    memory = asked(said_and_flushed(memory_of(facts(), extractor=Fails()), NUTS))
    lost = memory.trace("allergic to nuts").decisive
    (event,) = [r.event for r in memory.events(kinds=("delivery_failed",))]
    assert (lost.rule, lost.numbers["attempt"]) == ("delivery_failed", event.attempt)
    assert "Nothing answers at the model's address." in lost.text


def test_what_no_learner_found_ends_in_the_recorded_reason():
    memory = said_and_flushed(memory_of(facts(), extractor=None), "Are you allergic to nuts?")
    lost = asked(memory).trace("allergic to nuts").decisive
    assert (lost.name, lost.rule, lost.knowledge) == ("learned", "no_rule", "decided")
    assert lost.text == "Not learned as a fact: no rule matched."


def test_the_offline_rules_say_that_it_is_a_question():
    memory = Memory.from_defaults("s", memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    said_and_flushed(memory, "Are you allergic to nuts?")
    assert asked(memory).trace("allergic to nuts").sentence == "Not learned as a fact: the message is a question."


@pytest.mark.parametrize(
    ("change", "rule", "sentence"),
    [
        (
            lambda fact, _: curation.retire([fact], "wrong"),
            "retired",
            "Fact 1 was retired by the user in turn 3: wrong.",
        ),
        (lambda fact, other: curation.supersede(fact, other), "superseded", "Superseded in turn 3 by fact 2."),
    ],
)
def test_a_fact_that_a_person_put_away(change, rule, sentence):
    memory = said_and_flushed(memory_of(facts()), NUTS, "I like jazz")
    desk = memory.facts.desk("facts")
    desk.apply(change(*desk.facts()))
    track = next(t for t in asked(memory).trace(Ref.of("fact", 1)).tracks if t.carrier.ref == "f1")
    assert (track.decisive.rule, track.decisive.text) == (rule, sentence)


def test_a_proposed_fact_waits_and_a_rejected_one_holds_its_like_back():
    memory = said_and_flushed(memory_of(facts(approval=True)), NUTS)
    waits = asked(memory).trace(Ref.of("fact", 1)).tracks
    assert next(t for t in waits if t.carrier.kind == "fact").decisive.rule == "proposed"
    desk = memory.facts.desk("facts")
    desk.apply(curation.reject(desk.facts(), "wrong"))
    memory.put_messages([user(NUTS), assistant("Yes.")])
    memory.flush(all=True)
    asked(memory)
    seq = max(said.seq for said in memory.trace("allergic to nuts").said)
    assert memory.trace(Ref.of("message", seq)).decisive.rule == "suppressed"


def test_condensed_away():
    memory = memory_of(facts(max_facts=2), extractor=FakeExtractor(condensed=[("The user likes jazz", 1)]))
    said_and_flushed(memory, NUTS, "I like jazz", "I like tea")
    (event,) = [r.event for r in memory.events(kinds=("facts_condensed",))]
    lost = next(t for t in asked(memory).trace("allergic to nuts").tracks if t.carrier.ref == "f1").decisive
    assert 1 in event.vanished
    assert (lost.rule, lost.numbers["before"], lost.numbers["after"]) == ("condensed", event.before, event.after)


def test_a_summary_that_left_it_out_is_observed_and_not_called_a_rule():
    memory = memory_of(SummaryMemoryBlock(name="summary", max_tokens=12))
    said_and_flushed(
        memory, NUTS, *("The 14th of May at Casa Lume in Lisbon with Rui is what we want" for _ in range(3))
    )
    track = next(t for t in asked(memory).trace("allergic to nuts").tracks if t.carrier.block == "summary")
    assert track.reached or track.decisive.knowledge == "observed"


def test_a_block_that_came_later_was_never_given_it():
    memory = memory_of(turns())
    said_and_flushed(memory, NUTS)
    memory.blocks.add(facts())
    asked(memory)
    rules = {
        t.carrier.block: t.decisive.rule for t in memory.trace("allergic to nuts").tracks if t.carrier.kind == "block"
    }
    assert rules == {"facts": "added_later"}


# -- what is not there -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_nothing_is_invented_of_what_nobody_said(data_file):
    lines = json.loads(data_file("memorybank/memory_bank_en.json").read_text(encoding="utf-8"))
    person = next(iter(lines.values()))
    said = [entry["query"] for day in person["history"].values() for entry in day][:40]
    memory = memory_of(facts(), turns(), embedder=MiniLMEmbedder(), token_limit=600)
    for text in said:
        memory.put_messages([user(text), assistant("I see.")])
    memory.build_context("What do you know?")
    for number in range(100):
        trace = memory.trace(f"quetzal {number} zeppelin")
        assert (trace.sentence, trace.tracks) == ("Never said in this session.", ())


def test_bad_input_is_refused_or_followed_as_words():
    memory = memory_of(facts())
    memory.put(user(NUTS))
    with pytest.raises(MessageError):
        memory.trace("  ")
    with pytest.raises(NotFoundError):
        memory.trace(NUTS, turn=7)
    for ref in ("m99", "f99", "v99", "r99"):
        with pytest.raises(NotFoundError):
            memory.trace(Ref(ref))
    assert memory.trace("nuts " * 2_000).tracks
    assert memory.trace("<b>nuts</b> zebra").tracks == ()
    assert memory.trace("allergisch gegen Nüsse").tracks == ()


def test_an_empty_session_and_a_reset_say_what_is_not_known():
    assert memory_of().trace("nuts").sentence == "Never said in this session."
    memory = memory_of(facts())
    memory.put(user(NUTS))
    memory.reset()
    memory.put(user("Hello"))
    trace = memory.trace("allergic to nuts")
    assert trace.known_from is not None
    assert trace.sentence == "Never said in this session. What was said before the last reset is no longer known."


def test_said_three_times_and_by_the_assistant_only():
    memory = memory_of()
    for _ in range(3):
        memory.put(user(NUTS))
    assert len(memory.trace("allergic to nuts").said) == 3
    memory.put(assistant("Peanuts are legumes"))
    assert {said.role for said in memory.trace("peanuts legumes").said} == {"assistant"}


@pytest.mark.slow
def test_of_very_many_carriers_the_furthest_are_told_and_the_others_counted():
    memory = memory_of(facts(max_facts=10_000), token_limit=100_000)
    said_and_flushed(memory, ". ".join(f"I saw a zebra and {number} zebra foals" for number in range(260)))
    asked(memory)
    memory.configure(token_limit=400)
    memory.put(user("And which zebra?"))
    memory.build_context()
    trace = memory.trace("zebra")
    assert len(trace.tracks) == MAX_TRACKS
    carriers = len(trace.said) + len(memory.facts.read("facts"))
    assert carriers <= len(trace.tracks) + trace.more <= carriers + len(memory.blocks) * len(trace.said)
    assert trace.reached
    assert [track.progress for track in trace.tracks] == sorted((t.progress for t in trace.tracks), reverse=True)


def test_what_was_erased_since_is_known_by_its_number_and_not_by_its_words():
    memory = said_and_flushed(memory_of(facts()), NUTS)
    asked(memory)
    desk = memory.facts.desk("facts")
    desk.erase(desk.facts())
    memory.put(user("And now?"))
    memory.build_context()
    erased = memory.trace(Ref.of("fact", 1))
    assert (erased.asked, erased.decisive.rule) == ("(erased)", "erased")
    assert {t.carrier.ref: t.carrier.words for t in erased.tracks}["f1"] == ""


def test_a_phrase_in_markup_or_of_ten_thousand_characters_is_followed_as_words():
    memory = memory_of(facts())
    memory.put(user(NUTS))
    assert memory.trace("**allergic** to `nuts`").tracks
    assert memory.trace("x" * 10_000).sentence == "Never said in this session."
    assert memory.trace(f"{NUTS} " * 500).tracks


def test_a_trace_while_another_process_writes_is_of_what_was_read(tmp_path):
    uri = f"sqlite:///{tmp_path / 'memory.db'}"
    memory = memory_of(facts(), database_uri=uri)
    memory.put(user(NUTS))
    memory.build_context()
    other = memory_of(facts(), database_uri=uri)
    stop = threading.Event()

    def write():
        while not stop.is_set():
            other.put(user(NUTS))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(20):
            trace = memory.trace("allergic to nuts")
            assert trace.reached
            assert all(track.decisive is None or track.decisive.position for track in trace.tracks)
    finally:
        stop.set()
        writer.join()


def test_a_session_of_an_older_schema_version_is_followed_as_before(tmp_path):
    uri = on_file(tmp_path)
    memory = played(uri)
    before = memory.trace("note 3").sentence
    memory.session.database.close()
    back_to_version_1(uri)
    services = Services(embedder=HashEmbedder(), extractor=NoteExtractor())
    anew = Database(create_engine(uri))  # as another process would: nothing is shared
    again = Memory.open("s", anew, services=services, tokenizer_fn=str.split)
    assert again.trace("note 3").sentence == before
    again.session.database.close()


# -- the engine and the trace agree --------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    said=st.lists(
        st.sampled_from(["I like tea", "I like jazz a lot", "Who is there?", "So on and so on " * 6]),
        min_size=1,
        max_size=8,
    ),
    limit=st.integers(60, 400),
    threshold=st.sampled_from([None, 0.3, 0.9]),
    top_k=st.sampled_from([1, 3, None]),
)
def test_whatever_is_in_a_prompt_is_traced_there_and_nothing_else(said, limit, threshold, top_k):
    memory = memory_of(facts(), turns(similarity_threshold=threshold, similarity_top_k=top_k), token_limit=limit)
    for text in said:
        memory.put(user(text))
        memory.build_context(text)
        memory.put(assistant("Yes."))
    history = memory.log.history()
    for turn in {1, history.latest_turn // 2 + 1, history.latest_turn}:
        record = history.turns[turn].built
        prompt = memory.log.prompt(record)
        inside = {entry.ref for part in prompt.parts for entry in part.included}
        cut = {entry.ref for part in prompt.parts for entry in part.left_out}
        refs = [Ref.of("message", n) for n in range(1, 2 * turn)] + [
            Ref.of("fact", f.id) for f in memory.facts.read("facts", states=None)
        ]
        for ref in refs:
            tracks = memory.trace(ref, turn=turn).tracks
            own = next(track for track in tracks if track.carrier.ref == ref)
            assert own.reached is (ref in inside)
            assert (own.decisive is not None and own.decisive.rule in CUTS) is (ref in cut)
            assert any(track.reached for track in tracks) is bool({t.carrier.ref for t in tracks} & inside)
            for stage in own.stages:
                _in_the_log(memory, stage)


CUTS = ("trimmed", "dropped", "own_truncation", "oldest_turns")


def _in_the_log(memory, stage):
    """Every number of a sentence is one of its event, or of its record."""
    if stage.position is None:
        return
    record = next(r for r in memory.log.history().records if r.position == stage.position)
    known = set(re.findall(r"\d+", f"{record.turn} {record.event.to_json()}")) | {
        f"{value:.0f}" for value in stage.numbers.values()
    }
    known |= {part for value in stage.numbers.values() for part in f"{value:.2f}".split(".")}
    text = stage.text.replace("facts", "")
    assert set(re.findall(r"\d+", text)) - {str(n) for n in range(1, 40)} <= known, stage.text


# -- what would have to be different ---------------------------------------------------------------------


def lost_below_the_threshold():
    return asked(said_and_flushed(memory_of(turns(similarity_threshold=0.95), facts(show="none")), NUTS))


def lost_as_retired():
    memory = said_and_flushed(memory_of(facts()), NUTS)
    desk = memory.facts.desk("facts")
    desk.apply(curation.retire(desk.facts(), "wrong"))
    return asked(memory)


def lost_beyond_the_results():
    notes = [f"note {n} of the day" for n in range(6)]
    return asked(said_and_flushed(memory_of(turns(similarity_top_k=1)), NUTS, *notes))


def never_extracted():
    return asked(said_and_flushed(memory_of(facts()), "Nobody here is allergic to nuts"))


@pytest.mark.slow
@pytest.mark.parametrize("made", [lost_below_the_threshold, lost_as_retired, lost_beyond_the_results, never_extracted])
def test_every_fix_that_is_offered_brings_it_into_the_next_prompt_and_is_taken_back(made):
    offered = made().trace.fixes(made().trace("allergic to nuts")).offered
    if made is not lost_beyond_the_results:
        assert offered
    for place in range(len(offered)):
        memory = made()
        trace = memory.trace("allergic to nuts")
        fixes = memory.trace.fixes(trace)
        if fixes.held:
            return
        before = memory.preview.next_prompt().context.plan
        undo = memory.trace.fix(fixes.offered[place])
        assert memory.trace.fixes(trace).held, fixes.offered[place].label
        assert undo is not None
        undo()
        assert memory.preview.next_prompt().context.plan.total == before.total


def test_facts_are_numbered_as_they_came_in_their_own_session_whatever_their_ids():
    services = Services(embedder=HashEmbedder(), extractor=NoteExtractor())
    first = Memory.from_defaults("first", memory_blocks=[facts()], services=services)
    blocks = [facts(), FactExtractionMemoryBlock(name="more", priority=1)]
    other = Memory.from_defaults("other", database=first.session.database, services=services, memory_blocks=blocks)
    first.facts.desk("facts").apply(curation.add("Sam lives in Porto."))
    for block, text in (("facts", "Ana likes jazz."), ("more", "Rui likes tea."), ("facts", "Ana likes fado.")):
        other.facts.desk(block).apply(curation.add(text))
    other.put(user("Hello."))
    other.build_context()
    ids = [fact.id for fact in other.facts.read("facts")]
    assert ids == [2, 4]
    numbered = [("Ana likes jazz", 1, "facts"), ("Ana likes fado", 2, "facts"), ("Rui likes tea", 1, "more")]
    for text, number, block in numbered:
        trace = other.trace(text)
        assert trace.tracks[0].carrier.number == number
        assert f"as fact {number} of {block}." in trace.sentence
        assert carrier_name(trace.tracks[0].carrier) == f"Fact {number} of {block}"
    effect = other.trace.effects().of(Ref.of("fact", 4))
    assert "as fact 2 of facts" in effect.stage.text
