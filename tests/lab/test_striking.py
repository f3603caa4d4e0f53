"""What is struck did not happen: played without it, the rest is as if it had never been."""

import pytest
from engine_fakes import assistant, user
from fakes import FakeEmbedder
from test_playing import lived, player, prompts

from memory_core import FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock
from memory_core.errors import ConfigError
from memory_core.events import expand
from memory_core.planning import curation as plans
from memory_inspector.lab.comparing import divergence
from memory_inspector.lab.script import script_of
from memory_inspector.lab.striking import changes_without, may_be_struck, without, words_of
from memory_inspector.lab.variants import variant_of


@pytest.fixture
def memory():
    blocks = [
        StaticMemoryBlock(name="rules", static_content="Be kind.", priority=0),
        FactExtractionMemoryBlock(name="facts", priority=1, max_facts=2),
    ]
    services = Services(embedder=FakeEmbedder())
    memory = Memory.from_defaults("s", token_limit=90, token_flush_size=20, memory_blocks=blocks, services=services)
    for words in (
        "I am allergic to nuts.",
        "I live in Porto.",
        "I like jazz.",
        "My dog is Bo.",
        "I play chess.",
        "Hm.",
    ):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted, and thank you for telling me about all of that."))
    return memory


def records(memory, kind):
    return [record for record in memory.events() if record.kind == kind]


def played(memory, *struck):
    script = without(script_of(memory), memory.log.history(), [record.position for record in struck])
    return player().play(script, variant_of(memory))


def test_nothing_struck_is_what_was_lived(memory):
    assert prompts(played(memory).memory) == prompts(memory)


def test_a_struck_message_was_never_said(memory):
    second = records(memory, "message_added")[2]
    assert may_be_struck(second)
    assert words_of(second) == "turn 2's message 3"
    other = played(memory, second).memory
    assert [message.content for message in other.get_all()] == [
        message.content for message in memory.get_all() if message.content != "I live in Porto."
    ]
    assert len(memory.get_all()) == 12, "the session itself is as it was"


def test_a_struck_flush_leaves_its_messages_in_the_queue_until_the_next_flush(memory):
    first, *_ = records(memory, "flush_planned")
    one, other = played(memory), played(memory, first)
    flushes = [(record.turn, expand(record.event.seqs)) for record in records(other.memory, "flush_planned")]
    assert flushes[0] != (first.turn, expand(first.event.seqs))
    assert set(expand(first.event.seqs)) <= set(flushes[0][1]), "they leave with the next ones"
    found = divergence(one, other, ("A", "B"))
    assert found.turn >= first.turn
    assert "out of the queue" in found.causes[0]


def test_a_struck_condensing_leaves_the_facts_as_they_were_until_the_next(memory):
    first, *_ = records(memory, "facts_condensed")
    assert words_of(first).startswith(f"turn {first.turn}'s condensing of ")
    other = played(memory, first).memory
    later = records(other, "facts_condensed")
    assert not later or later[0].position > first.position
    assert other.blocks.settings("facts")["max_facts"] == 2


def test_a_struck_call_of_an_agent_is_not_made():
    memory = lived("self_editing", 900, [("turn", 0), ("turn", 1), ("turn", 2)])
    first, *rest = records(memory, "tool_called")
    other = played(memory, first).memory
    assert len(records(other, "tool_called")) == len(rest)
    assert len(other.get_all()) == len(memory.get_all())


def test_what_a_person_set_or_wrote_is_struck_by_what_was_there_before(memory):
    memory.configure(token_limit=120)
    memory.blocks.edit("rules", "Be brief.")
    memory.blocks.configure("facts", priority=2)
    found = [changes_without(memory, r) for r in memory.events() if r.actor == "user"]
    assert [[change.words for change in changes] for changes in found if changes] == [
        ["token_limit 120 → 90"],
        ["rules.text Be brief. → Be kind."],
        ["facts.priority 2 → 1"],
    ]
    memory.configure(token_limit=150)
    assert changes_without(memory, next(r for r in memory.events() if r.actor == "user")) == (), "set again since"


def texts(memory, states=("active",)):
    facts = memory.facts.read("facts", states=states)
    return [(fact.text, fact.pinned, [seq for _, seq in fact.sources]) for fact in facts]


@pytest.mark.slow
def test_what_a_person_changed_among_facts_is_made_again_and_not_where_it_is_struck():
    services = Services(embedder=FakeEmbedder())
    blocks = [FactExtractionMemoryBlock(name="facts", deliver_on="turn")]
    memory = Memory.from_defaults("s", token_limit=200, token_flush_size=20, memory_blocks=blocks, services=services)
    desk = memory.facts.desk("facts")
    desk.apply(plans.add("Wants short answers"))
    for words in ("I am allergic to nuts.", "I live in Porto.", "I like jazz.", "My dog is Bo.", "I play chess."):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted."))

    def fact(words):
        return next(each for each in desk.facts() if words in each.text)

    desk.apply(plans.edit(fact("jazz"), "Sings jazz in a choir"))
    desk.apply(plans.merge([fact("Porto"), fact("chess")], "Plays chess in Porto"))
    desk.apply(plans.retire([fact("nuts")], "Private"))
    memory.put(user("Hm."))
    memory.build_context()
    desk.apply(plans.pin([fact("choir")]))
    desk.apply(plans.split(fact("chess in Porto"), ["Plays chess", "Lives in Porto"]))
    memory.put(user("Well."))
    memory.build_context()
    one = played(memory)
    assert prompts(one.memory) == prompts(memory)
    assert texts(one.memory, None) == texts(memory, None)
    assert one.unknown == ()

    def struck(action):
        return next(r for r in records(memory, "facts_curated") if r.event.action == action)

    assert [may_be_struck(r) for r in records(memory, "facts_curated")] == [True] * 6
    assert words_of(struck("merge")) == "turn 5's change: merged 2 facts into one"
    without_retiring = [text for text, *_ in texts(played(memory, struck("retire")).memory)]
    assert any("nuts" in text for text in without_retiring)
    other = played(memory, struck("merge"))
    there = [text for text, *_ in texts(other.memory)]
    assert {"Plays chess in Porto", "Lives in Porto"}.isdisjoint(there)
    assert "Sings jazz in a choir" in there, "the others are made all the same"
    assert other.unknown == ("1 change of facts could not be repeated: the replay has no fact with the same text.",)


@pytest.mark.slow
def test_what_was_undone_or_deleted_by_hand_is_no_step_that_could_go_wrong(memory):
    desk = memory.facts.desk("facts")
    desk.apply(plans.add("A passing thought"))
    desk.undo()
    desk.apply(plans.pin(desk.facts(("active",))[:1]))
    desk.undo()
    memory.put(user("Go on."))
    memory.build_context()
    again = played(memory).memory
    assert texts(again) == texts(memory)
    desk.erase(desk.facts(("active",))[:1])
    memory.put(user("And on."))
    memory.build_context()
    assert "were not made again." in " ".join(played(memory).unknown), "what was deleted is learned again, and said"


def test_what_cannot_be_struck_is_refused_in_a_sentence(memory):
    with pytest.raises(ConfigError, match="nothing at position 999999"):
        without(script_of(memory), memory.log.history(), [999_999])
    with pytest.raises(ConfigError, match="20 events"):
        without(script_of(memory), memory.log.history(), range(30))
