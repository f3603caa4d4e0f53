"""Sentences of summaries, cuts, and single words of a prompt: who said them, in which turn, and what became of them."""

import re
from contextlib import suppress

import pytest
from engine_fakes import HashEmbedder, assistant, user
from fakes import FakeExtractor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from summary_fakes import Scribe

from memory_core import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    Memory,
    MemoryInspectorError,
    MessageError,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.events import Ref, expand, is_target, spread
from memory_core.messages import content_hash
from memory_core.planning.running_summary import sentences
from memory_core.recipes import RECIPES

SAID = (
    "My name is Ana and I live in Porto.", "I am allergic to nuts.", "We want a dinner on 14 March for 12 guests.",
    "Rui stays off meat.", "The budget is 800 euros.", "Casa Lume has a terrace. It is by the river.",
    "We moved the dinner to 15 March.", "Where does Rui work?", "Rui works at Acme.",
)  # fmt: skip


def memory_of(*blocks, **given):
    services = Services(embedder=HashEmbedder(), extractor=FakeExtractor())
    return Memory.from_defaults("s", memory_blocks=list(blocks), services=services, **{"token_limit": 4000} | given)


def summary(**given):
    return SummaryMemoryBlock(name="Summary", priority=2, **given)


def took_in(memory, *texts):
    """Each text a turn of its own, all of it flushed but the newest question, and a prompt built for that."""
    for text in texts:
        memory.put_messages([user(text), assistant("Noted.")])
        memory.flush(all=True)
    memory.put(user("What may the guests eat?"))
    memory.build_context()
    return memory


def named(sentence):
    return Ref.of("text", content_hash(sentence))


def own(trace):
    return next(track for track in trace.tracks if track.carrier.ref == trace.target)


def stage(trace, name):
    return own(trace).stage(name).text


# -- a sentence of a summary -----------------------------------------------------------------------


def test_a_sentence_says_who_said_it_from_which_messages_it_was_written_and_that_it_is_in_the_prompt():
    memory = took_in(memory_of(summary(llm=Scribe())), "I am allergic to nuts", "Rui stays off meat")
    trace = memory.trace(named("I am allergic to nuts."))
    assert trace.asked == "I am allergic to nuts."
    assert trace.origin == "Said by the user in turn 1."
    assert trace.sentence == "In the prompt of turn 3, in the text of Summary."
    assert stage(trace, "learned") == "Read into Summary in turn 1, version 1, from messages 1 to 2."
    assert stage(trace, "kept") == "In each version of Summary from 1 to 2."


def test_a_sentence_in_other_words_than_its_messages_names_them_and_does_not_follow_them():
    memory = took_in(memory_of(summary(llm=Scribe(lambda *_: "Peanuts would be dangerous."))), "I am allergic to nuts")
    trace = memory.trace(named("Peanuts would be dangerous."))
    assert [(said.seq, said.matched) for said in trace.said] == [(2, "read"), (1, "read")]
    assert trace.origin == (
        "Written into Summary in turn 1, version 1, from messages 1 to 2. "
        "Written from messages by the user and the assistant in turn 1."
    )
    assert [track.carrier.kind for track in trace.tracks] == ["text"]


def test_a_sentence_that_a_later_version_words_otherwise_or_leaves_out_ends_there():
    told = iter(["The dinner is on 14 March. Rui eats no meat.", "The dinner is on 15 March. Ana comes."])
    memory = took_in(memory_of(summary(llm=Scribe(lambda *_: next(told)))), "14 March", "15 March")
    moved, gone = (memory.trace(named(each)) for each in ("The dinner is on 14 March.", "Rui eats no meat."))
    text = 'Reworded in turn 2, version 2 of Summary: "The dinner is on 15 March."'
    assert (own(moved).decisive.rule, own(moved).decisive.text) == ("reworded", text)
    assert gone.sentence == "Left out in turn 2: version 2 of Summary does not have its words."
    earlier = memory.trace(named("Ana comes."), turn=1)
    assert "after a prompt" in earlier.sentence
    assert own(earlier).decisive.rule == "learned_later"


def test_a_sentence_that_a_person_wrote_was_said_by_nobody_and_one_cut_is_not_in_the_prompt_by_another():
    memory = took_in(memory_of(summary(llm=Scribe())), "I am allergic to nuts")
    memory.blocks.edit("Summary", "I am allergic to nuts. The guests may eat cheese.")
    memory.configure(token_limit=memory.build_context().plan.total - 1)
    memory.build_context()
    (cut,) = memory.log.history().turns[2].built.event.cuts
    (left,) = spread(cut["refs"])
    assert left == named("I am allergic to nuts.")
    trace = memory.trace("allergic to nuts")
    assert trace.sentence == "Cut in turn 2: the prompt was 1 token over, and Summary is cut first."
    written = memory.trace(named("The guests may eat cheese."))
    assert written.said == ()
    assert written.origin == "Written into Summary by the user in turn 2, version 2."
    assert written.reached


def test_a_text_that_was_replaced_says_by_which_version():
    memory = took_in(memory_of(StaticMemoryBlock(name="Core", static_content="Ana likes tea.")), "Ana likes tea.")
    memory.blocks.edit("Core", "Nothing to see here.")
    memory.build_context()
    trace = memory.trace(named("Ana likes tea."))
    assert own(trace).decisive.text == "Left out in turn 2: version 2 of Core does not have its words."
    assert trace.origin == "In Core from the beginning, version 1."
    assert memory.trace(named("Nothing to see here.")).origin == "Written into Core by the user in turn 2, version 2."


@pytest.mark.slow
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["say", "say", "say", "flush", "prompt", "edit", "rewrite"]), st.integers(0, 89)),
        min_size=4,
        max_size=16,
    ),
    way=st.sampled_from(["rules", "all of it", "the last of it", "in other words"]),
    max_tokens=st.integers(8, 80),
)
def test_every_sentence_of_every_summary_is_traced_to_messages_of_its_stretch(steps, way, max_tokens):
    ways = {
        "all of it": None,
        "the last of it": lambda before, texts: f"{texts[-1] if texts else before} Noted in {len(texts)} words.",
        "in other words": lambda before, texts: f"{len(before)} things of {len(texts)} matter.",
    }
    memory = memory_of(summary(llm=None if way == "rules" else Scribe(ways[way]), max_tokens=max_tokens))
    for step, number in [*steps, ("say", 1), ("flush", 0), ("prompt", 0)]:
        with suppress(MemoryInspectorError):  # it is refused as the session stands
            if step == "say":
                memory.put_messages([user(SAID[number % len(SAID)]), assistant(f"Noted, {number}.")])
            elif step == "flush":
                memory.flush(all=True)
            elif step == "prompt":
                memory.build_context()
            elif step == "edit":
                memory.blocks.edit("Summary", f"{SAID[number % len(SAID)]} By hand {number}.")
            else:
                memory.blocks.summary("Summary").rewrite(from_messages=number % 2 == 0)
    history = memory.log.history()
    prompt = history.turns[history.latest_turn].built.event
    held = {ref for part in prompt.parts for ref in spread(part["refs"])}
    read, came, by_hand, newest = set(), {}, set(), ()
    for record in history.records:
        if record.kind == "block_edited" and record.event.after:
            newest = sentences(memory.log.texts([record.event.after])[record.event.after])
            fresh = [each for each in newest if each not in came]
            by_hand |= {*fresh} if record.actor == "user" else set()
        elif record.kind == "summary_rewritten":
            read |= {*expand(record.event.seqs)}
        for each in newest:
            if record.kind == "summary_rewritten" or each in by_hand:
                came.setdefault(each, frozenset(read))
    for sentence, could in came.items():
        trace = memory.trace(named(sentence))
        assert trace.asked == sentence
        said = {each.seq for each in trace.said}
        assert said <= could if sentence not in by_hand else not said
        assert said or sentence in by_hand or not could
        assert trace.origin
        assert own(trace).reached is (named(sentence) in held)
        kept = own(trace).stage("kept")
        assert (kept.verdict == "passed") is (sentence in newest), (kept.text, newest)


# -- a cut ------------------------------------------------------------------------------------------


def cut_of(memory, number=1, turn=None):
    """The name of a cut of a turn's last prompt."""
    history = memory.log.history()
    return Ref.of_cut(history.turns[turn or history.latest_turn].built.position, number)


def cut_memory():
    """Turns whose prompt has no room for one stored message, of which there is a fact."""
    turns = VectorMemoryBlock(
        name="turns", priority=2, similarity_threshold=None, similarity_top_k=2, layout="messages"
    )
    memory = memory_of(FactExtractionMemoryBlock(name="facts", priority=1), turns)
    took_in(memory, "I am allergic to nuts", "The river is high this year")
    memory.configure(token_limit=memory.build_context().plan.total - 1)
    memory.build_context()
    return memory


def test_a_cut_says_its_rule_and_numbers_and_where_what_it_said_is_otherwise():
    memory = cut_memory()
    (cut,) = memory.log.history().turns[3].built.event.cuts
    trace = memory.trace(cut_of(memory))
    (entry,) = trace.cut.entries
    assert [entry.ref] == [*cut["refs"]]
    assert trace.sentence == (
        "Cut in turn 3: the prompt was 1 token over, and turns is cut first. "
        f"Left out: 1 entry with {cut['tokens']} tokens; the prompt of turn 3 says it elsewhere."
    )
    assert (entry.words, entry.own.decisive.rule) == ("I am allergic to nuts", "trimmed")
    assert entry.otherwise == "In the prompt of turn 3, as fact 1 of facts."
    assert trace.origin == "Said by the user in turn 1."


def test_a_cut_can_be_followed_to_the_prompt_of_another_turn():
    memory = cut_memory()
    ref = cut_of(memory)
    memory.configure(token_limit=4000)
    memory.put(user("And now?"))
    memory.build_context()
    assert memory.trace(ref).prompt_turn == 3
    later = memory.trace(ref, turn=4)
    assert later.prompt_turn == 4
    assert later.sentence.endswith("tokens; the prompt of turn 4 says it.")


def test_of_the_queue_each_message_of_the_turns_left_out_is_an_entry():
    memory = memory_of()
    for number in range(4):
        memory.put_messages([user(f"Number {number} of my plans"), assistant("I see.")])
    memory.configure(token_limit=30, chat_history_token_ratio=1.0)
    memory.build_context()
    trace = memory.trace(cut_of(memory))
    assert [entry.ref.kind for entry in trace.cut.entries] == ["message"] * len(trace.cut.entries)
    assert trace.cut.part == "queue"
    assert trace.sentence.startswith(
        "Cut in turn 4: the prompt was 6 tokens over, so the queue's oldest turns were left out. "
    )
    assert all(entry.own.decisive.rule == "oldest_turns" for entry in trace.cut.entries)


def test_a_cut_that_never_was_is_refused_and_none_is_watched():
    memory = cut_memory()
    position, _ = cut_of(memory).cut
    for wrong in (Ref.of_cut(position, 2), Ref.of_cut(position, 0), Ref.of_cut(1, 1), Ref.of_cut(10**9, 1)):
        with pytest.raises(NotFoundError, match="There is no cut"):
            memory.trace(wrong)
    with pytest.raises(MessageError, match="A cut belongs to one prompt"):
        memory.trace.watch(cut_of(memory))
    with pytest.raises(MessageError, match="A cut belongs to one prompt"):
        memory.trace.presence(cut_of(memory))
    assert memory.trace.watched == ()


@pytest.mark.parametrize(
    ("text", "one"),
    [("f1", True), ("x12.3", True), ("s" + "0a" * 16, True), ("f1-f2", False), ("x12", False), ("x1.1-x1.2", False)],
)
def test_what_can_be_followed_is_one_thing(text, one):
    assert is_target(text) is one


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    recipe=st.sampled_from(sorted(RECIPES)),
    said=st.lists(st.integers(0, len(SAID) - 1), min_size=3, max_size=10),
    less=st.integers(1, 60),
)
@pytest.mark.slow
def test_every_cut_of_a_prompt_names_what_its_event_names_and_claims_nothing_that_is_not_in_the_prompt(
    recipe, said, less
):
    memory = Memory.from_recipe(recipe, "s", "u", token_limit=300, services=Services(embedder=HashEmbedder()))
    for number in said:
        memory.put_messages([user(SAID[number]), assistant("Noted.")])
    memory.flush(all=True)
    memory.put(user("What may the guests of Rui eat?"))
    total = memory.build_context().plan.total
    with suppress(MemoryInspectorError):
        memory.configure(token_limit=max(10, total - less))
    memory.build_context()
    built = memory.log.history().turns[memory.log.history().latest_turn].built
    held = {ref for part in built.event.parts for ref in spread(part["refs"])}
    held |= {Ref.of("message", seq) for seq in expand(built.event.queue)}
    for number, cut in enumerate(built.event.cuts, start=1):
        trace = memory.trace(Ref.of_cut(built.position, number))
        entries = [entry.ref for entry in trace.cut.entries]
        assert {ref for ref in spread(cut["refs"]) if ref.kind != "day"} <= {*entries}
        assert (trace.cut.tokens, trace.cut.stage.numbers["over_before"]) == (cut["tokens"], cut["over_before"])
        for entry in trace.cut.entries:
            assert not entry.own.reached
            reached = {track.carrier.ref for track in entry.others if track.reached}
            assert reached <= held
            assert entry.otherwise.startswith("In the prompt") is bool(reached)


# -- some words of something ------------------------------------------------------------------------


def test_words_of_a_message_are_followed_to_what_was_made_of_them_and_to_who_said_them():
    memory = memory_of(FactExtractionMemoryBlock(name="facts"), StaticMemoryBlock(name="Core", static_content="Hello."))
    memory.put_messages([user("I am allergic to nuts. Rui stays off meat."), assistant("Rui eats no meat, then.")])
    trace = memory.trace(Ref.of("message", 1), words="Rui stays off meat")
    assert (trace.asked, trace.origin) == ("Rui stays off meat", "Said by the user in turn 1.")
    with pytest.raises(NotFoundError, match="does not contain these words"):
        memory.trace(Ref.of("message", 1), words="purple elephants")
    with pytest.raises(NotFoundError, match="does not contain these words"):
        memory.trace(Ref.of("message", 1), words="")


def test_words_of_a_text_that_a_message_says_too_are_one_thing_with_two_carriers():
    memory = memory_of(StaticMemoryBlock(name="Core", static_content="Be kind.\nAna is allergic to nuts."))
    memory.put(user("Careful: Ana is allergic to nuts."))
    memory.build_context()
    (block,) = memory.log.history().blocks_at(memory.log.history().position)
    trace = memory.trace(Ref.of("text", block.text), words="Ana is allergic to nuts.")
    assert {track.carrier.kind for track in trace.tracks if track.reached} == {"text", "message"}
    assert trace.origin == "In Core from the beginning, version 1. Said by the user in turn 1."


def test_a_stored_line_is_followed_with_the_name_in_front_of_it_and_leads_to_who_said_it():
    memory = memory_of(VectorMemoryBlock(name="turns", similarity_threshold=None))
    took_in(memory, "The river is high this year")
    (unit, *_) = memory.retrieval.stored_turns("turns")
    trace = memory.trace(Ref.of("unit", unit.number), words="user: The river is high this year")
    assert (trace.asked, trace.origin) == ("The river is high this year", "Said by the user in turn 1.")


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    recipe=st.sampled_from(sorted(RECIPES)),
    said=st.lists(st.integers(0, len(SAID) - 1), min_size=2, max_size=8),
    flushed=st.booleans(),
)
def test_every_word_of_a_prompt_leads_to_a_carrier_that_has_it(recipe, said, flushed):
    memory = Memory.from_recipe(recipe, "s", "u", token_limit=600, services=Services(embedder=HashEmbedder()))
    for number in said:
        memory.put_messages([user(SAID[number]), assistant("Noted, and I will keep it in mind.")])
    if flushed:
        memory.flush(all=True)
    memory.put(user("What may Rui and Ana eat in March?"))
    memory.build_context()
    prompt = memory.log.prompt(memory.log.history().turns[memory.log.history().latest_turn].built)
    for entry in (entry for part in prompt.parts for entry in part.included):
        for sentence in sentences(entry.words or ""):
            trace = memory.trace(entry.ref, words=sentence)
            there = " ".join(track.carrier.words for track in trace.tracks if track.reached)
            assert trace.reached, (entry, trace.sentence)
            assert {*re.findall(r"\w+", sentence)} <= {*re.findall(r"\w+", there)}, (entry, there)
            assert trace.origin


def test_content_of_a_custom_block_and_its_cut_are_followed_by_their_words():
    class Diary(BaseMemoryBlock[str]):
        name: str = "Diary"
        priority: int = 1

        def _get(self, messages=None, **kwargs):
            return "one two three four five six seven eight"

        def truncate(self, content, tokens_to_truncate):
            return " ".join(content.split()[: -tokens_to_truncate - 1])

    memory = memory_of(Diary(), token_limit=20)
    memory.put(user("Hello there, what is it that we wanted to know today of all days?"))
    memory.build_context()
    (part,) = memory.log.history().turns[1].built.event.parts
    trace = memory.trace(Ref(part["refs"][0]), words="one two")
    assert (trace.asked, trace.sentence) == ("one two", "In the prompt of turn 1, in the text of Diary.")
    assert trace.origin == "From Diary: only the block knows what it was made from."
    cut = memory.trace(cut_of(memory))
    assert [entry.words for entry in cut.cut.entries] == ["one two three four five six seven eight"]
    assert cut.sentence.startswith("Cut in turn 1 by Diary itself: the prompt was 4 tokens over, and it is cut first.")


def test_every_version_of_a_text_that_says_a_phrase_carries_it():
    versions = ["Ana eats no nuts.", "Ana eats no nuts. She lives in Porto.", "She lives in Porto."]
    memory = Memory.from_defaults("s", memory_blocks=[StaticMemoryBlock(name="Human", static_content=versions[0])])
    memory.put(user("Hello"))
    for version in versions[1:]:
        memory.blocks.edit("Human", version)
    carriers = {Ref.of("text", content_hash(version)) for version in versions[:2]}
    assert memory.trace.carriers("eats no nuts") == carriers
