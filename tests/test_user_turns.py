"""Stored turns across the sessions of a user: found in each, kept with the prompts that had them."""

import pytest
from engine_fakes import Clock, HashEmbedder, assistant, user
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core import ConfigError, Database, Memory, Services, VectorMemoryBlock, delete_session
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.events import ContextBuilt, Retrieved
from memory_core.vectors.chroma import ChromaIndex
from memory_core.vectors.exact import ExactIndex
from memory_inspector.lab.playing import Player
from memory_inspector.lab.replanning import Replanner
from memory_inspector.lab.script import script_of
from memory_inspector.lab.sizes import sizes_of
from memory_inspector.lab.variants import variant_of


def turns(**values):
    given = {"name": "turns", "embed_model": HashEmbedder(), "vector_weight": 0.0, "keyword_weight": 1.0}
    return VectorMemoryBlock(**given | {"scope": "user", "deliver_on": "turn"} | values)


def session(database, session_id, user_id="ana", *, clock=None, index=None, **values):
    return Memory.from_defaults(
        session_id,
        user_id,
        database=database,
        memory_blocks=[turns(**values)],
        token_limit=2_000,
        tokenizer_fn=str.split,
        services=Services(embedder=HashEmbedder(), index=index),
        clock=clock or Clock(),
    )


def say(memory, *texts):
    for text in texts:
        memory.put_messages([user(text), assistant("Noted.")], end_turn=True)
    memory.deliver()


@pytest.fixture
def database():
    return Database.open()


def prompt_words(context):
    return "\n".join(message.content for message in context.messages)


def rebuilt(memory):
    """Every recorded prompt as it is read from the log."""
    history = memory.log.history()
    built = [record for record in history.records if isinstance(record.event, ContextBuilt)]
    return [
        [m.to_json() for m in memory.log.prompt(record).layout.messages(memory.log.prompt(record).insert_method)]
        for record in built
    ]


def as_sent(context):
    return [message.to_json() for message in context.messages]


def test_a_turn_is_found_in_the_users_other_sessions_and_in_nobody_elses(database):
    first = session(database, "first")
    say(first, "My sister keeps lanterns in the attic.")
    second, stranger = session(database, "second"), session(database, "third", "ben")
    own = session(database, "fourth", scope="session")
    for memory in (second, stranger, own):
        memory.put(user("Where are the lanterns?"))
    assert "lanterns in the attic" in prompt_words(second.build_context())
    for memory in (stranger, own, session(database, "fifth", scope="session")):
        assert "attic" not in prompt_words(memory.build_context())
    assert "attic" not in prompt_words(first.build_context("Where are the lanterns?")).replace(
        "My sister keeps lanterns in the attic.", "", 1
    )


def test_a_search_says_from_which_session_and_turn_it_is_now_and_as_recorded(database):
    first, second = session(database, "first"), session(database, "second")
    say(first, "The weather is fine.", "My sister keeps lanterns in the attic.")
    second.put(user("Where are the lanterns?"))
    second.build_context()
    now = second.retrieval.search("Where are the lanterns?")
    (recorded,) = second.retrieval.recorded(1, "turns")
    for search in (now, recorded):
        best = search.elsewhere[0]
        assert (best.session_id, best.turn, best.words, best.outcome) == (
            "first",
            2,
            "My sister keeps lanterns in the attic.",
            "granted",
        )
        assert not search.found.candidates
    assert now.stored == 0
    (event,) = [record.event for record in second.events(kinds=("retrieved",))]
    assert isinstance(event, Retrieved)
    assert (event.candidates, sum(event.gates.values())) == ((), 0)
    assert [score for _, score in event.elsewhere] == [round(each.score, 4) for each in now.elsewhere]


def test_what_was_sent_can_be_read_when_the_other_session_is_reset_or_deleted_and_is_found_no_more(database):
    first, second = session(database, "first"), session(database, "second")
    say(first, "My sister keeps lanterns in the attic.")
    second.put(user("Where are the lanterns?"))
    sent = second.build_context()
    first.reset()
    assert rebuilt(second) == [as_sent(sent)]
    assert "attic" not in prompt_words(second.build_context())
    say(first, "My sister keeps lanterns in the cellar.")
    again = second.build_context()
    assert "cellar" in prompt_words(again)
    delete_session(database, "first")
    assert "cellar" not in prompt_words(second.build_context())
    prompts = rebuilt(second)
    assert (prompts[0], prompts[2]) == (as_sent(sent), as_sent(again))


def test_a_branch_and_a_queue_that_say_the_same_bring_it_once(database):
    first = session(database, "first")
    say(first, "My sister keeps lanterns in the attic.", "The weather is fine.")
    branch = first.branch(1)
    branch.put(user("Where are the lanterns?"))
    assert prompt_words(branch.build_context()).count("attic") == 1
    second, third = session(database, "second"), session(database, "third")
    say(second, "My sister keeps lanterns in the attic.")
    third.put(user("Where are the lanterns?"))
    assert prompt_words(third.build_context()).count("attic") == 1


def test_a_trace_of_words_from_another_session_reaches_the_prompt_that_has_them(database):
    first, second = session(database, "first"), session(database, "second")
    say(first, "My sister keeps lanterns in the attic.")
    say(second, "Hello there.")
    second.put(user("Where are the lanterns?"))
    second.build_context()
    trace = second.trace("lanterns in the attic")
    assert trace.reached
    assert [stage.verdict for stage in trace.tracks[0].stages][:2] == ["passed", "passed"]
    said, sent = trace.tracks[0].stages[:2]
    assert said.text == "Said in turn 1 of another session of the user, and stored by turns there."
    assert sent.text.startswith("In the prompt of turn 2, recalled by turns")
    assert [cell.state for cell in second.trace.presence("lanterns in the attic").turns] == ["none", "prompt"]


@pytest.mark.slow
@pytest.mark.parametrize("chroma", [False, True])
def test_sessions_that_begin_or_cease_to_share_are_searched_by_meaning_from_the_next_question_on(tmp_path, chroma):
    """The vectors of all are one collection to an index, which notices when it is made of others."""
    index = ChromaIndex(path=tmp_path / "chroma") if chroma else ExactIndex()
    database, by_meaning = Database.open(), {"index": index, "vector_weight": 1.0, "keyword_weight": 0.0}
    first, late, second = (
        session(database, "first", **by_meaning),
        session(database, "late", scope="session", **by_meaning),
        session(database, "second", **by_meaning),
    )

    def found():
        second.build_context("Which?")
        return {each.words for each in second.retrieval.search("Which?").elsewhere}

    say(late, "Boats.")
    say(first, "Lanterns.")
    say(second, "Anything else.")
    assert found() == {"Lanterns."}
    late.blocks.configure("turns", scope="user")
    assert found() == {"Lanterns.", "Boats."}
    first.reset()
    say(late, "Harbours.")
    assert found() == {"Boats.", "Harbours."}
    delete_session(database, "late")
    assert found() == set()
    index.close()


def test_it_needs_a_user_as_facts_do(database):
    with pytest.raises(ConfigError, match="belongs to the user: give the memory a user_id"):
        session(database, "nobody", None)
    memory = session(database, "nobody", None, scope="session")
    with pytest.raises(ConfigError, match="give the memory a user_id"):
        memory.blocks.configure("turns", scope="user")
    with pytest.raises(ConfigError, match="give the memory a user_id"):
        memory.blocks.add(turns(name="more"))


def carried(memory, database):
    """The session in another database, where the user's other sessions are not."""
    bundle = read_bundle(write_bundle(memory.session.database, memory.session_id), "s.zip")
    services = Services(embedder=HashEmbedder())
    return Memory.open(import_bundle(database, bundle), database, services=services, tokenizer_fn=str.split)


def test_a_bundle_has_what_the_prompts_had_and_a_play_says_what_it_has_not(database):
    first, second = session(database, "first"), session(database, "second")
    say(first, "My sister keeps lanterns in the attic.")
    second.put(user("Where are the lanterns?"))
    sent = second.build_context()
    elsewhere = Database.open()
    moved = carried(second, elsewhere)
    assert rebuilt(moved) == [as_sent(sent)]
    (search,) = moved.retrieval.recorded(1, "turns")
    assert (search.elsewhere[0].session_id, search.elsewhere[0].outcome) == ("first", "granted")
    assert "attic" not in prompt_words(moved.build_context())  # nor do they answer there
    player = Player(Services(embedder=HashEmbedder()), tokenizer_fn=str.split)
    played = player.play(script_of(second), variant_of(second))
    assert "Facts learned in the user's other sessions are missing." in played.unknown


def test_a_larger_search_is_not_planned_from_a_log_that_cannot_tell_of_other_sessions(database):
    first = session(database, "first", similarity_top_k=1)
    say(first, "My sister keeps lanterns in the attic.", "The weather is fine.", "I have a boat.")
    first.build_context("Where are the lanterns?")
    replanned = Replanner(sizes_of(first)).plan(variant_of(first).changed("A", **{"turns.similarity_top_k": 3}))
    assert [prompt.sent for prompt in replanned.prompts] == [None]


WORDS = ("lanterns", "attic", "sister", "boat", "harbour", "Lisbon")
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
STEPS = st.lists(
    st.tuples(st.sampled_from(("say", "say", "ask", "ask", "flush", "reset", "delete")), st.integers(0, 2), SENTENCES),
    min_size=3,
    max_size=14,
)


@settings(max_examples=12, deadline=None)
@given(steps=STEPS, unit=st.sampled_from(("message", "turn", "batch")), layout=st.sampled_from(("lines", "messages")))
@pytest.mark.slow
def test_whatever_becomes_of_the_others_every_prompt_of_a_session_is_read_as_it_was_sent(steps, unit, layout):
    database = Database.open()
    clock = Clock()
    open_ones = {n: session(database, f"s{n}", clock=clock, unit=unit, layout=layout) for n in range(3)}
    sent = {n: [] for n in open_ones}
    for step, number, words in steps:
        memory = open_ones.get(number)
        clock.pass_by(60)
        if memory is None:
            continue
        if step == "say":
            say(memory, words)
        elif step == "ask":
            sent[number].append(as_sent(memory.build_context(f"What about {words}?")))
        elif step == "flush":
            memory.flush()
            memory.deliver()
        elif step == "reset" and number:
            memory.reset()
            sent[number] = []  # the words of its own prompts were erased
        elif step == "delete" and number:
            delete_session(database, f"s{number}")
            del open_ones[number]
    assert rebuilt(open_ones[0]) == sent[0]
    status = open_ones[0].session.status()
    if status.turns:
        assert rebuilt(open_ones[0].branch(status.turns)) == sent[0]
    assert rebuilt(carried(open_ones[0], Database.open())) == sent[0]
