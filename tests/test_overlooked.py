"""What nobody asked about: questions that found nothing, memory in no prompt, facts back and forth, found and cut."""

from engine_fakes import HashEmbedder, assistant, user
from fakes import FakeExtractor

from memory_core import FactExtractionMemoryBlock, Memory, Services, VectorMemoryBlock
from memory_core.events import ContextBuilt, Ref, Retrieved
from memory_core.planning import curation


def memory_of(*blocks, **given):
    services = Services(embedder=HashEmbedder(), extractor=FakeExtractor())
    return Memory.from_defaults("s", memory_blocks=list(blocks), services=services, **{"token_limit": 4000} | given)


def played(memory, turns):
    for number in range(turns):
        memory.put(user(f"I like place number {number}"))
        memory.build_context(f"place number {number}")
        memory.put(assistant("I see."))
    return memory


def events(memory, kind):
    return [record.event for record in memory.log.history().records if isinstance(record.event, kind)]


def test_nothing_is_overlooked_in_an_empty_session():
    found = memory_of().trace.overlooked()
    assert not found
    assert found.kept == {"fact": 0, "unit": 0, "relation": 0}


def test_a_question_that_brought_nothing_is_listed_with_the_best_it_had():
    turns = VectorMemoryBlock(name="turns", similarity_threshold=0.99)
    memory = played(memory_of(turns, token_limit=60, token_flush_size=20), 6)
    searches = memory.trace.overlooked().empty_searches
    nothing = [each for each in events(memory, Retrieved) if not each.gates["granted"]]
    assert len(searches) == len(nothing) > 0
    assert [each.turn for each in searches] == sorted((each.turn for each in searches), reverse=True)
    with_any = [each for each in searches if each.best is not None]
    assert with_any[0].score < with_any[0].threshold == 0.99
    assert with_any[0].outcomes == {"below_threshold": with_any[0].outcomes["below_threshold"]}


def test_what_is_kept_and_was_in_no_prompt_is_listed_by_what_the_prompts_held():
    turns = VectorMemoryBlock(name="turns", similarity_threshold=None, similarity_top_k=1)
    memory = played(memory_of(turns, FactExtractionMemoryBlock(name="facts"), token_limit=90, token_flush_size=20), 8)
    found = memory.trace.overlooked()
    held = {
        ref for built in events(memory, ContextBuilt) for part in built.parts for ref in part["refs"] if "-" not in ref
    }
    assert found.kept["unit"] > len(found.unused["unit"]) > 0
    assert not held & set(found.unused["unit"])
    assert found.unused["fact"] == tuple(
        Ref.of("fact", fact.id)
        for fact in sorted(memory.facts.desk("facts").facts(), key=lambda fact: -fact.id)
        if fact.state == "active" and memory.log.usage().facts.get(fact.id) is None
    )


def test_a_fact_that_is_put_aside_and_taken_back_is_counted_each_time():
    memory = memory_of(FactExtractionMemoryBlock(name="facts"))
    memory.put(user("Hello"))
    desk = memory.facts.desk("facts")
    desk.apply(curation.add("Ana lives in Porto"))
    desk.apply(curation.add("Ana likes jazz"))
    assert memory.trace.overlooked().flipped == ()
    for _ in range(2):
        desk.apply(curation.retire([fact for fact in desk.facts() if fact.text == "Ana lives in Porto"]))
        desk.apply(curation.restore([fact for fact in desk.facts() if fact.text == "Ana lives in Porto"]))
    (fact,) = [fact for fact in desk.facts() if fact.text == "Ana lives in Porto"]
    assert memory.trace.overlooked().flipped == ((Ref.of("fact", fact.id), 2),)
    desk.apply(curation.retire([fact]))
    assert memory.trace.overlooked().flipped == ((Ref.of("fact", fact.id), 2),)


def test_what_was_found_and_cut_is_counted_by_prompts():
    turns = VectorMemoryBlock(name="turns", similarity_threshold=None, similarity_top_k=8, priority=1)
    memory = played(memory_of(turns, token_limit=70, token_flush_size=20), 12)
    cut = memory.trace.overlooked().cut
    usage = memory.log.usage().turns
    assert cut
    assert {ref: (asked, gone) for ref, asked, gone in cut} == {
        Ref.of("unit", number): (use.asked, use.cut) for number, use in usage.items() if use.cut
    }


def test_of_an_earlier_moment_only_what_was_so_then():
    turns = VectorMemoryBlock(name="turns", similarity_threshold=0.99)
    memory = played(memory_of(turns, token_limit=60, token_flush_size=20), 6)
    middle = memory.log.history().position_at(4)
    then = memory.trace.overlooked(upto=middle)
    assert all(each.turn <= 4 for each in then.empty_searches)
    assert then.kept["unit"] < memory.trace.overlooked().kept["unit"]
