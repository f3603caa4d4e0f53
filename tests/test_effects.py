"""What has no effect on a prompt, and why: of everything a session keeps, at every turn, as a trace says it."""

from engine_fakes import HashEmbedder, assistant, user
from fakes import FakeExtractor

from memory_core import FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.events import Ref
from memory_core.planning import curation

SERVICES = {"embedder": HashEmbedder(), "extractor": FakeExtractor()}


def memory_of(*blocks, session="s", **given):
    settings = {"token_limit": 4000, "services": Services(**SERVICES)} | given
    return Memory.from_defaults(session, memory_blocks=list(blocks), **settings)


def knowing(*texts, **block):
    """A session that knows these facts, written by a person."""
    memory = memory_of(FactExtractionMemoryBlock(name="Facts", **block))
    for text in texts:
        memory.facts.desk("Facts").apply(curation.add(text))
    return memory


def turn(memory, said="Go on."):
    memory.put(user(said))
    memory.build_context(said)
    memory.put(assistant("I see."))


def facts(memory):
    """By its words: the fact."""
    return {fact.text: fact for fact in memory.facts.desk("Facts").facts()}


def told(memory, text, **given):
    """Sentence of the effect of a fact, and whether something overruled it."""
    effect = memory.trace.effects(**given).of(Ref.of("fact", facts(memory)[text].id))
    return effect.stage.text, effect.overruled


def test_without_a_prompt_nothing_is_told():
    memory = knowing("Ana likes jazz", "Ana likes tea")
    memory.facts.desk("Facts").apply(curation.retire([facts(memory)["Ana likes tea"]]))
    effects = memory.trace.effects()
    assert effects.turn is None
    assert effects.without("Facts") == []
    assert effects.of(Ref.of("fact", facts(memory)["Ana likes tea"].id)) is None
    assert effects.of_text(memory.log.history().blocks_at(9_999)[0]) is None
    assert memory_of(session="new").trace.effects().without("Facts") == []


def test_a_superseded_fact_is_overruled_by_the_one_that_took_its_place_and_was_in_the_prompt_before():
    memory = knowing("Ana lives in Porto", "Ana lives in Lisbon")
    turn(memory)
    porto, lisbon = (facts(memory)[f"Ana lives in {place}"] for place in ("Porto", "Lisbon"))
    memory.facts.desk("Facts").apply(curation.supersede(porto, lisbon))
    assert told(memory, "Ana lives in Porto") == (f"In the prompt of turn 1, as fact {porto.id} of Facts.", False)
    turn(memory)
    assert told(memory, "Ana lives in Porto") == (f"Superseded in turn 1 by fact {lisbon.id}.", True)
    assert told(memory, "Ana lives in Lisbon") == (f"In the prompt of turn 2, as fact {lisbon.id} of Facts.", False)
    assert [effect.ref for effect in memory.trace.effects().without("Facts")] == [Ref.of("fact", porto.id)]
    assert memory.trace.effects(turn=1).without("Facts") == []


def test_a_fact_that_is_put_aside_after_a_prompt_was_in_it_and_one_restored_after_it_was_not():
    memory = knowing("Ana likes jazz", "Ana likes tea")
    desk = memory.facts.desk("Facts")
    desk.apply(curation.retire([facts(memory)["Ana likes tea"]], "Wrong"))
    turn(memory)
    desk.apply(curation.retire([facts(memory)["Ana likes jazz"]]))
    desk.apply(curation.restore([facts(memory)["Ana likes tea"]]))
    effects = memory.trace.effects()
    jazz, tea = (effects.of(Ref.of("fact", facts(memory)[f"Ana likes {what}"].id)) for what in ("jazz", "tea"))
    assert (jazz.shown, tea.shown) == (True, False)
    assert tea.stage.text.endswith("was retired by the user before the first turn: Wrong.")


def test_what_is_not_chosen_is_not_overruled_and_what_came_after_the_prompt_is_said_to():
    memory = knowing("Ana likes jazz", "Bo likes tea", "Cleo likes chess", show="relevant", top_k=1)
    turn(memory, "Who likes jazz?")
    memory.facts.desk("Facts").apply(curation.add("Dino likes rain"))
    not_sent = memory.trace.effects().without("Facts")[1:]
    assert [(effect.stage.text, effect.overruled) for effect in not_sent] == [
        ("Not the fact of Facts that fits the question best.", False)
    ] * 2
    added = facts(memory)["Dino likes rain"].id
    assert told(memory, "Dino likes rain") == (
        f"Learned as fact {added} of Facts only in turn 1, after the prompt of turn 1.",
        False,
    )
    end = memory.log.history().turns[1].contexts[0].position
    then = memory.trace.effects(upto=end)
    assert Ref.of("fact", added) not in [effect.ref for effect in then.without("Facts")], "nobody knew it by then"


def test_what_is_cut_comes_first_then_what_was_not_sent_then_what_was_put_aside():
    memory = knowing(*(f"Guest {n} likes the colour {n}" for n in range(12)), priority=1)
    memory.facts.desk("Facts").apply(curation.retire([facts(memory)["Guest 11 likes the colour 11"]]))
    memory.configure(token_limit=60)
    turn(memory, "Which colour?")
    memory.facts.desk("Facts").apply(curation.add("Dino likes rain"))
    without = memory.trace.effects().without("Facts")
    cut = [effect.stage.rule for effect in without].count("trimmed")
    assert 0 < cut < 11
    assert [(effect.stage.rule, effect.overruled) for effect in without] == [
        *[("trimmed", True)] * cut,
        ("learned_later", False),
        ("retired", True),
    ]


def test_found_units_are_told_with_the_rule_of_their_search():
    vector = VectorMemoryBlock(name="turns", similarity_threshold=0.99, similarity_top_k=2)
    memory = memory_of(vector, token_limit=60, token_flush_size=20)
    for number in range(6):
        turn(memory, f"I like place number {number}")
    effects, trace = memory.trace.effects(), memory.trace
    left_out = effects.without("turns")
    assert {effect.ref.kind for effect in left_out} == {"unit"}
    for effect in left_out:
        own = next(track for track in trace(effect.ref).tracks if track.carrier.ref == effect.ref)
        assert own.decisive == effect.stage
    assert effects.of(Ref.of("unit", 9_999)) is None


def test_a_text_is_told_as_a_whole_and_one_written_after_the_prompt_was_not_in_it():
    memory = memory_of(StaticMemoryBlock(name="Core", static_content="Be brief."))

    def core():
        return memory.trace.effects().of_text(memory.log.history().blocks_at(memory.log.history().position)[0])

    turn(memory)
    assert (core().shown, core().stage.text) == (True, "In the prompt of turn 1, in the text of Core.")
    memory.blocks.edit("Core", "Be very brief.")
    assert not core().shown
    assert (
        core().stage.text
        == f"Version {core().stage.numbers['revision']} of Core came in turn 1, after the prompt of turn 1."
    )
    memory.blocks.configure("Core", enabled=False)
    turn(memory)
    assert core().stage.text == "Core was switched off for the prompt of turn 2."


def test_facts_of_the_users_other_sessions_are_told_too(tmp_path):
    given = {"user_id": "ana", "database_uri": f"sqlite:///{tmp_path}/memory.db"}
    first = memory_of(FactExtractionMemoryBlock(name="Facts", scope="user"), **given)
    first.facts.desk("Facts").apply(curation.add("Ana likes jazz"))
    first.facts.desk("Facts").apply(curation.add("Ana likes tea"))
    first.facts.desk("Facts").apply(curation.retire([facts(first)["Ana likes tea"]], "Wrong"))
    second = memory_of(FactExtractionMemoryBlock(name="Facts", scope="user"), session="t", **given)
    turn(second)
    assert told(second, "Ana likes jazz")[0].startswith("In the prompt of turn 1, as fact")
    assert told(second, "Ana likes tea") == (
        f"Fact {facts(second)['Ana likes tea'].id} was retired by the user before the first turn: Wrong.",
        True,
    )
    turn(first)
    first.facts.desk("Facts").apply(curation.add("Ana likes rain"))
    assert told(second, "Ana likes rain")[0].endswith("after the prompt of turn 1.")


def test_words_are_read_together_and_those_erased_are_missing():
    vector = VectorMemoryBlock(name="turns", similarity_threshold=None)
    memory = memory_of(FactExtractionMemoryBlock(name="Facts"), vector)
    memory.facts.desk("Facts").apply(curation.add("Ana likes jazz"))
    memory.facts.desk("Facts").apply(curation.add("Ana likes tea"))
    jazz, tea = (Ref.of("fact", facts(memory)[f"Ana likes {what}"].id) for what in ("jazz", "tea"))
    turn(memory, "I like place number 0")
    memory.flush(all=True)
    memory.facts.desk("Facts").erase([facts(memory)["Ana likes tea"]])
    stored = memory.retrieval.stored_turns("turns")[0].number
    message, unit, nobody = Ref.of("message", 1), Ref.of("unit", stored), Ref.of("fact", 9_999)
    words = memory.trace.words([jazz, tea, message, unit, nobody, Ref.of("text", "0" * 64)])
    assert words == {
        jazz: "Ana likes jazz",
        message: "I like place number 0",
        unit: "I like place number 0",
    }


def test_reading_on_tells_what_reading_anew_would_and_erased_words_start_it_anew():
    memory = knowing("Ana likes jazz", "Ana likes tea")
    turn(memory)
    assert memory.trace.effects().without("Facts") == []
    memory.facts.desk("Facts").apply(curation.retire([facts(memory)["Ana likes tea"]]))
    turn(memory)
    grown = [effect.stage for effect in memory.trace.effects().without("Facts")]
    assert [stage.rule for stage in grown] == ["retired"]
    memory.facts.desk("Facts").erase([facts(memory)["Ana likes tea"]])
    turn(memory)
    assert memory.trace.effects().without("Facts") == [], "what was erased has no words to strike"
    assert memory.trace.effects().of(Ref.of("fact", grown[0].numbers["fact"])).stage.rule == "erased"
