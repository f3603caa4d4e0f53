"""Does a memory help: the same questions with it, without it, and with each block alone; and what a cache pays."""

import json

import pytest
from engine_fakes import HashEmbedder, assistant, user
from models.scripted_server import ScriptedServer, streamed

from memory_core import FactExtractionMemoryBlock, Memory, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.bundles.bundle import write_bundle
from memory_core.errors import ConfigError
from memory_core.history.contexts import context_of
from memory_inspector.__main__ import main
from memory_inspector.lab.comparing import stable_share
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import Question
from memory_inspector.lab.script import script_of
from memory_inspector.lab.value import WITH, WITHOUT, Arm, CachePrice, Value, _difference, cache_price, value_of
from memory_inspector.lab.variants import variant_of

CHATTER = "We talked about the weather of the coming week and about nothing else at all."
QUESTIONS = (
    Question("What may I not eat?", "allergic to nuts"),
    Question("Where do I live?", "live in Porto"),
    Question("Who sings?", "Ana sings in a choir"),
)


@pytest.fixture(scope="module")
def services():
    return Services(embedder=HashEmbedder())


def made(services, **settings):
    """A conversation whose beginning only facts keep."""
    blocks = [
        StaticMemoryBlock(name="rules", static_content="Always be kind.", priority=0),
        FactExtractionMemoryBlock(name="facts", priority=1),
        VectorMemoryBlock(name="turns", priority=2, similarity_top_k=1),
    ]
    memory = Memory.from_defaults(
        **{"token_limit": 200, "token_flush_size": 40, "memory_blocks": blocks, "services": services} | settings
    )
    for words in ("I am allergic to nuts.", "I live in Porto.", *(f"{CHATTER} {number}" for number in range(8))):
        memory.put(user(words))
        memory.build_context()
        memory.put(assistant("Noted, it rains."))
    return memory


@pytest.fixture(scope="module")
def memory(services):
    return made(services)


@pytest.mark.slow
def test_each_question_is_asked_with_the_memory_without_it_and_with_each_block_alone(memory, services):
    value = value_of(Player(services), script_of(memory), variant_of(memory), QUESTIONS)
    scores = {arm.name: arm.scores for arm in value.arms}
    assert list(scores) == ["with memory", "without memory", "only rules", "only facts", "only turns"]
    assert scores["with memory"] == scores["only facts"] == (1, 1, 0)
    assert scores["without memory"] == scores["only rules"] == (0, 0, 0)
    without = value.arms[1].difference
    assert (without.mean, without.changed, without.p) == (pytest.approx(-2 / 3), 2, 0.5)
    assert without.low <= without.mean <= without.high <= 0
    assert value.arms[0].difference is None
    assert (value.measure, value.model) == ("evidence", None)


@pytest.mark.slow
def test_evidence_in_several_lines_is_one_question(memory, services):
    both = (QUESTIONS[0], Question(QUESTIONS[0].words, "Ana sings in a choir"))
    value = value_of(Player(services), script_of(memory), variant_of(memory), both)
    assert value.arms[0].scores == (0.5,)


@pytest.mark.slow
def test_without_questions_recorded_answers_are_looked_for(services):
    memory = made(services)
    memory.put(user("What may I not eat?"))
    memory.build_context()
    memory.put(assistant("You are allergic to nuts."))
    value = value_of(Player(services), script_of(memory), variant_of(memory))
    assert value.measure == "support"
    assert value.arms[0].scores[-1] == 1
    assert value.arms[1].scores[-1] < 1


def test_nothing_to_ask_is_said(services):
    memory = Memory.from_defaults(services=services)
    memory.put(user("Hello"))
    with pytest.raises(ConfigError, match="name questions"):
        value_of(Player(services), script_of(memory), variant_of(memory))


@pytest.mark.slow
def test_measuring_changes_nothing_and_can_be_cancelled(memory, services):
    position = memory.session.status().position
    assert value_of(Player(services), script_of(memory), variant_of(memory), QUESTIONS, cancelled=lambda: True) is None
    value_of(Player(services), script_of(memory), variant_of(memory), QUESTIONS)
    assert memory.session.status().position == position


@pytest.mark.slow
def test_a_model_answers_every_question_once_for_each_arm_in_rotation(memory, services):
    variant = variant_of(memory)
    told = []

    class Model:
        name = "scripted"

        def stream(self, messages, tools=()):
            told.append(messages)
            return Stream(["You are allergic to nuts."])

    class Stream(list):
        tool_calls = ()

        def close(self):
            pass

    value = value_of(Player(services), script_of(memory), variant, QUESTIONS[:2], model=Model())
    assert len(told) == 2 * len(value.arms)
    assert [messages[-1].content for messages in told] == ["What may I not eat?"] * 5 + ["Where do I live?"] * 5
    # The second question begins with the second arm, which has no memory section.
    assert "allergic" in str(told[0])
    assert "allergic" not in str(told[5])
    assert value.arms[0].scores == (1, 0)
    assert [arm.difference.changed for arm in value.arms[1:]] == [0, 0, 0, 0]


# -- the cache ---------------------------------------------------------------------------------------


def test_a_conversation_that_only_grows_reads_nothing_again(services):
    memory = Memory.from_defaults(token_limit=4_000, services=services)
    for number in range(4):
        memory.put(user(f"{CHATTER} {number}"))
        memory.build_context()
    price = cache_price(memory)
    assert (price.prompts, price.by_part, price.move) == (3, {}, None)
    assert price.uncached == price.tokens - sum(range(1, 4)) * price.sent["queue"] // 10


def test_a_block_that_changes_in_front_of_the_queue_pays_for_all_behind_it(services):
    rules = StaticMemoryBlock(name="rules", static_content="Always be kind.")
    clock = StaticMemoryBlock(name="clock", static_content="It is one.")
    memory = Memory.from_defaults(token_limit=4_000, memory_blocks=[clock, rules], services=services)
    for number in range(6):
        memory.put(user(f"{CHATTER} {number}"))
        memory.build_context()
        memory.blocks.edit("clock", f"It is {number} now.")
    price = cache_price(memory)
    assert set(price.by_part) == {"clock"}
    assert price.move is not None
    assert price.move.block is None  # behind the queue, nothing but the section itself is read again
    assert 0.4 < price.move.saving < 0.5
    assert cache_price(memory, upto=1).uncached == 0


@pytest.mark.slow
def test_a_move_that_is_proposed_saves_what_it_says(services):
    """Measured by tokens of the prompts as sent, markup included, when the conversation is played with the move."""
    facts = FactExtractionMemoryBlock(name="facts", deliver_on="turn")
    memory = Memory.from_defaults(token_limit=4_000, memory_blocks=[facts], services=services)
    for drink in ("tea", "coffee", "milk", "juice", "water", "wine", "beer", "cocoa"):
        memory.put(user(f"I like {drink}. {CHATTER}"))
        memory.build_context()
        memory.put(assistant("Noted, it rains."))
    move = cache_price(memory).move
    assert move.block is None

    def uncached(method):
        played = Player(services).play(script_of(memory), variant_of(memory).changed(method, insert_method=method))
        built = [turn.built for _, turn in sorted(played.memory.log.history().turns.items())]
        return (1 - stable_share(played.memory)) * sum(context_of(record).billed for record in built[1:])

    assert 1 - uncached("user") / uncached("system") == pytest.approx(move.saving, abs=0.1)


@pytest.mark.parametrize(
    ("whole", "none", "tokens", "verdict"),
    [
        ([1.0] * 6, [0.0] * 6, (100, 40), "Memory helped in 6 questions (100 against 0 %) and cost 60 tokens a turn."),
        (
            [0.0] * 6,
            [1.0] * 6,
            (40, 100),
            "Memory did harm in 6 questions (0 against 100 %) and saved 60 tokens a turn.",
        ),
        (
            [0.75] * 9 + [0.85],
            [0.75] * 10,
            (456, 100),
            "Memory made no measurable difference in 10 questions (76 against 75 %) and cost 356 tokens a turn.",
        ),
        (
            [1.0],
            [0.0],
            (9, 9),
            "1 question cannot show a difference (100 against 0 %); 6 can. Memory cost 0 tokens a turn.",
        ),
        (
            [0.5, 0.5],
            [0.5, 0.5],
            (9, 8),
            "Memory made no measurable difference in 2 questions (50 against 50 %) and cost 1 token a turn.",
        ),
    ],
)
def test_the_verdict_says_what_memory_changed_if_that_can_be_told_from_chance(whole, none, tokens, verdict):
    price = CachePrice(prompts=1, tokens=0, uncached=0, by_part={}, sent={}, move=None)
    arms = (
        Arm(WITH, tuple(whole), tokens[0], price, None),
        Arm(WITHOUT, tuple(none), tokens[1], price, _difference(whole, none, None)),
    )
    assert Value("support", None, arms).verdict == verdict


@pytest.mark.slow
def test_the_command_prints_the_table_and_asks_a_model_at_an_endpoint(memory, tmp_path, capsys, monkeypatch):
    bundle, questions, out = (tmp_path / name for name in ("talk.zip", "questions.txt", "value.json"))
    bundle.write_bytes(write_bundle(memory.session.database, memory.session_id))
    questions.write_text("What may I not eat? -> allergic to nuts\n", encoding="utf-8")
    assert main(["value", str(bundle), "--questions", str(questions)]) == 0
    assert "1 question, scored by the evidence in the prompt; no model was asked." in capsys.readouterr().out
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    answers = [streamed(words) for words in ("Nuts, you are allergic.", "I do not know.")]
    with ScriptedServer(*answers, *answers[1:] * 3) as server:
        arguments = ["value", str(bundle), "--questions", str(questions), "--json", str(out)]
        assert main([*arguments, "--endpoint", server.url, "--model", "m"]) == 0, capsys.readouterr().err
    assert "-1.00 (-1.00 to -1.00), p 1.000, 1 answers differ" in capsys.readouterr().out
    assert json.loads(out.read_text(encoding="utf-8"))["arms"][0]["answers"] == ["Nuts, you are allergic."]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["value", "gone.zip"], "gone.zip cannot be read"),
        (["value", "gone.zip", "--endpoint", "http://localhost:1/v1"], "Give both --endpoint and --model"),
        (["value", "gone.zip", "--questions", "lost.txt"], "lost.txt cannot be read"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(arguments, sentence, capsys):
    assert main(arguments) == 2
    assert sentence in capsys.readouterr().err
