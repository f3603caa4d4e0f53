"""A play with a model: nothing is asked twice, new calls are counted before they are made, and no more than agreed."""

import re
import threading

import pytest
from engine_fakes import Clock, assistant, user
from fakes import FakeEmbedder
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from test_playing import SAID, prompts

from memory_core import FactExtractionMemoryBlock, Memory, Services
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.errors import ModelAnswerError, ModelUnreachableError
from memory_core.messages import content_hash
from memory_core.models.extraction import ModelExtractor
from memory_core.models.protocols import ModelCall
from memory_core.sessions.overview import delete_session
from memory_core.store.tables import model_output_table
from memory_inspector.lab.comparing import outcome_of
from memory_inspector.lab.playing import CallCount, CountedModel, KeptOutputs, PlayedModel, Player
from memory_inspector.lab.script import script_of
from memory_inspector.lab.variants import variant_of

OFTEN = 1_000


class Model:
    """A chat model whose answer is made of everything it is asked, so that another question has another answer."""

    name = "gpt-fake"
    offline = False

    def __init__(self, *, unreadable=False, breaks_at=None):
        self.asked = []
        self.unreadable = unreadable
        self.breaks_at = breaks_at
        self.lock = threading.Lock()

    def ask(self, messages, answer, *, purpose):
        text = "\n".join(message.content for message in messages)
        with self.lock:
            self.asked.append(text)
            if self.breaks_at is not None and len(self.asked) >= self.breaks_at:
                raise ModelUnreachableError("The model at this address does not answer.")
        if self.unreadable:
            raise ModelAnswerError("The model's answer is not in the asked form.")
        return answer.model_validate(self.answer(answer.__name__, text)), ModelCall(purpose, self.name, 10, 2, 0.0, 0.5)

    def answer(self, form, text):
        said = f"Something about {content_hash(text)[:6]}"
        if form == "Summary":
            return {"summary": f"{said}."}
        if form == "Relations":
            return {"relations": [{"subject": "The user", "predicate": "knows", "object": said, "message": 1}]}
        if form == "DecidedFacts":
            return {
                "decisions": [{"found": int(number), "act": "add"} for number in re.findall(r"(\d+)\. .*\(known", text)]
            }
        return {"facts": [{"text": said, "category": "other", "message": 1, "stands_for": [1, 2]}]}

    def stream(self, messages, tools=()):
        text = "\n".join(message.content for message in messages)
        self.asked.append(text)
        said = f"Something about {content_hash(text)[:6]}."
        return Told(f'<fact category="other" source="1">{said}</fact><summary>{said}</summary>')


class Told:
    tool_calls = ()

    def __init__(self, text):
        self.text, self.call = text, None

    def __iter__(self):
        yield self.text
        self.call = ModelCall("reply", Model.name, 10, 2, 0.0)

    def close(self):
        return None


BLOCKS = {
    "facts": lambda: FactExtractionMemoryBlock(name="facts", max_facts=3, priority=1),
    "decided": lambda: FactExtractionMemoryBlock(name="decided", on_change="decide", priority=1),
    "summary": lambda: SummaryMemoryBlock(name="summary", priority=2),
    "graph": lambda: GraphMemoryBlock(name="graph", priority=3),
}


def services():
    return Services(embedder=FakeEmbedder())


def lived(turns, *, model=None, blocks=("facts", "summary", "graph"), limit=400):
    """A conversation in which a model learned, or the rules."""
    learning = services() if model is None else services().with_chat(model)
    clock = Clock()
    memory = Memory.from_defaults(
        "s", token_limit=limit, token_flush_size=40, chat_history_token_ratio=0.3, clock=clock, services=learning,
        memory_blocks=[BLOCKS[name]() for name in blocks],
    )  # fmt: skip
    for number in range(turns):
        clock.pass_by(1)
        memory.put(user(f"{number}: {SAID[number % len(SAID)]}"))
        memory.build_context()
        memory.put(assistant("Noted."))
    return memory


def play(memory, model, *, variant=None, calls=OFTEN):
    """A play with a model, and what of it was paid for."""
    played_by = PlayedModel(model, KeptOutputs(memory), calls=calls)
    return Player(services()).play(script_of(memory), variant or variant_of(memory), by=played_by), played_by


def count(memory, *variants):
    counted = CountedModel(Model.name, KeptOutputs(memory), encoding=memory.session.config.encoding)
    found = []
    for variant in variants or (variant_of(memory),):
        Player(services()).play(script_of(memory), variant, by=counted)
        found.append(counted.counted())
    return found


def kept(memory):
    with memory.session.database.read() as connection:
        return len(connection.execute(model_output_table.select()).all())


@pytest.mark.slow
@settings(
    max_examples=6, deadline=None, phases=(Phase.explicit, Phase.generate), suppress_health_check=list(HealthCheck)
)
@given(st.integers(4, 14), st.sets(st.sampled_from(sorted(BLOCKS)), min_size=1), st.integers(200, 500), st.booleans())
def test_what_was_played_once_is_played_again_without_a_call_and_comes_to_the_same(turns, blocks, limit, unreadable):
    memory, model = lived(turns, blocks=sorted(blocks), limit=limit), Model(unreadable=unreadable)
    first, _ = play(memory, model)
    before = len(model.asked)
    second, again = play(memory, model)
    assert len(model.asked) == before
    assert again.made == []
    assert prompts(second.memory) == prompts(first.memory)
    assert outcome_of(second.memory).calls == outcome_of(first.memory).calls
    assert [each.new for each in count(memory)] == [0]


@pytest.mark.slow
def test_what_a_session_learned_in_its_life_is_not_asked_again():
    model = Model()
    memory = lived(10, model=model)
    asked = len(model.asked)
    assert asked
    again, paid = play(memory, model)
    assert (len(model.asked), paid.made) == (asked, [])
    assert prompts(again.memory) == prompts(memory)
    assert again.unknown == (
        "gpt-fake may answer differently another time: its first answers are kept and used again.",
    )


@pytest.mark.slow
def test_a_configuration_with_the_same_flushes_costs_nothing_and_another_only_what_is_new():
    model = Model()
    memory = lived(12, model=model)
    own = variant_of(memory)
    asked = len(model.asked)
    cut = own.changed("B", **{"facts.priority": 0, "graph.priority": 1, "insert_method": "user"})
    other, paid = play(memory, model, variant=cut)
    assert (len(model.asked), paid.made) == (asked, [])
    assert prompts(other.memory) != prompts(memory)

    flushed = own.changed("C", token_flush_size=90)
    (ours, theirs) = count(memory, own, flushed)
    assert (ours.new, ours.kept) == (0, asked)
    assert theirs.new > 0
    assert len(model.asked) == asked, "counting calls nothing"
    _, paid = play(memory, model, variant=flushed, calls=theirs.new)
    assert len(paid.made) <= theirs.new
    assert paid.cost == 0.5 * len(paid.made)


@pytest.mark.slow
def test_what_one_configuration_would_ask_is_counted_once_for_all():
    memory = lived(12)
    own = variant_of(memory)
    first, second = count(memory, own, own.changed("B", insert_method="user"))
    assert first.new > 0 == first.kept
    assert second == CallCount(0, 0, 0)
    assert first.input_tokens > 100 * first.new  # each with its instructions
    assert kept(memory) == 0


@pytest.mark.slow
def test_no_more_is_called_than_was_agreed_and_what_was_paid_for_is_kept():
    memory, model = lived(12), Model()
    played, paid = play(memory, model, calls=3)
    assert played is None
    assert paid.stopped == "3 calls were made, as agreed, and the play needs more. The answers are kept."
    assert (len(model.asked), kept(memory)) == (3, 3)
    assert count(memory)[0].kept >= 3
    whole, rest = play(memory, model)
    assert whole is not None
    assert len(rest.made) == len(model.asked) - 3
    assert play(memory, Model(), calls=0)[0] is not None, "all is known: nothing needs to be agreed to"


def test_a_model_that_does_not_answer_ends_the_play_at_once():
    memory, model = lived(12), Model(breaks_at=3)
    played, paid = play(memory, model)
    assert played is None
    assert paid.stopped == "The model at this address does not answer."
    assert kept(memory) == 2
    assert len(model.asked) <= 2 + 3, "one question of each block may have been on its way"


def test_a_played_session_does_not_hold_the_model_nor_its_key():
    memory, model = lived(8), Model()
    played, paid = play(memory, model)
    paid.close()
    with pytest.raises(AttributeError):
        _ = played.memory.session.services.extractor.chat._chat.asked
    played.memory.put_messages([user("More. " * 60), assistant("x " * 60), user("And more. " * 60)])
    assert len(paid.made) == len(model.asked), "nothing is called any more"


# -- what was answered goes with the words it was made of ------------------------------------------


@pytest.mark.parametrize("forget", ["reset", "fact", "archive"])
def test_what_was_answered_goes_when_any_words_of_the_session_are_erased(forget):
    memory = lived(10, model=Model())
    assert kept(memory)
    if forget == "reset":
        memory.reset()
    elif forget == "archive":
        memory.reset("archived")
    else:
        desk = memory.facts.desk("facts")
        desk.erase(desk.facts()[:1])
    assert kept(memory) == 0


def test_a_play_that_runs_while_messages_are_erased_brings_none_of_their_words_back():
    memory, model = lived(12), Model()
    outputs = KeptOutputs(memory)
    memory.reset()
    memory.put(user("Something else."))
    played_by = PlayedModel(model, outputs, calls=OFTEN)
    ModelExtractor(played_by).extract([user("I live in Porto.")], known=())
    assert played_by.stopped == "Messages of the session were removed while it was played: nothing more was asked."
    assert kept(memory) == 0


def test_a_users_fact_that_is_erased_takes_what_was_answered_in_all_sessions_of_the_user(tmp_path):
    url, model = f"sqlite:///{tmp_path}/m.db", Model()
    made = []
    for name in ("one", "two"):
        memory = Memory.from_defaults(
            name, "ana", token_limit=200, token_flush_size=40, chat_history_token_ratio=0.3, database_uri=url,
            memory_blocks=[FactExtractionMemoryBlock(name="facts", scope="user")],
            services=services().with_chat(model),
        )  # fmt: skip
        for number in range(6):
            memory.put(user(f"{name} {number}: {SAID[number]}"))
            memory.put(assistant("Noted."))
        made.append(memory)
    assert kept(made[0]) > 1
    desk = made[0].facts.desk("facts")
    desk.erase(desk.facts()[:1])
    assert kept(made[0]) == 0


def test_a_branch_and_a_bundle_take_no_answers_along():
    memory = lived(10, model=Model())
    before = kept(memory)
    memory.branch(8)
    import_bundle(memory.session.database, read_bundle(write_bundle(memory.session.database, "s"), "s.zip"))
    assert kept(memory) == before > 0, "of the session itself alone"


def test_a_deleted_session_leaves_no_answer_and_a_play_of_it_ends_with_the_first():
    memory, model = lived(10, model=Model(), blocks=("facts",)), Model()
    script, variant = script_of(memory), variant_of(memory).changed("B", token_flush_size=90)
    played_by = PlayedModel(model, KeptOutputs(memory), calls=OFTEN)
    delete_session(memory.session.database, "s")
    assert kept(memory) == 0
    assert Player(services()).play(script, variant, by=played_by) is None
    assert (played_by.stopped, len(model.asked)) == ("This session does not exist any more.", 1)
    assert kept(memory) == 0


def test_an_extractor_that_counts_still_counts_once_it_was_given_prompts_and_categories():
    counted = CountedModel("m", KeptOutputs(Memory.from_defaults("s")), encoding="cl100k_base")
    extractor = counted.learning(Services()).extractor.with_prompts(extract="Facts!", condense=None).under(["food"])
    found = extractor.extract([user("I live in Oslo.")], known=[])
    assert [fact.text for fact in found.facts] == ["The user lives in Oslo"]  # by rules, as nothing is called
    assert (counted.counted().new, extractor.categories) == (1, ("food",))
