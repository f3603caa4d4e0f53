"""Does memory help? Ask the same questions with the memory, without it, and with each of its blocks alone.

Without a model the prompts are scored: by the evidence they contain, or by the words of the recorded answers (support).
With a model its answers are scored. Each arm answers the same questions, so their scores are compared in pairs.

Ablation asks a model the same prompt again with one item removed or reworded. Nothing is stored and no event recorded;
token counts are known before the calls. A model that edits its memory is offered its tools as usual; tool calls are
reported, not executed.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import comb
from statistics import mean
from typing import Literal, NamedTuple

import numpy as np

from memory_core.agent.tools import MemoryTools, definition_tokens
from memory_core.errors import ConfigError
from memory_core.events import EventRecord, Ref
from memory_core.history.prompt import EDITABLE, PART_NAMES, PINNED, Prompt, PromptPart
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole, ToolCallPart, message_text
from memory_core.models.protocols import ChatModel, ToolSpec, whole_reply
from memory_core.planning.context_plan import QUEUE
from memory_core.planning.phrase_matching import Phrase
from memory_core.planning.rendering import InsertMethod
from memory_core.text import printable, stems
from memory_core.tokens import counter_for
from memory_inspector.lab.failure_patterns import Case, Patterns, case_of, compare
from memory_inspector.lab.playing import Played, Player
from memory_inspector.lab.probes import Question
from memory_inspector.lab.script import Script
from memory_inspector.lab.variants import Variant, block_values

MIN_SAVING = 0.05
"""Minimum share of the uncached tokens that a proposed change saves."""


class _Piece(NamedTuple):
    key: Hashable
    tokens: int
    part: str


@dataclass(frozen=True, slots=True)
class Move:
    """A change of the layout that leaves more of the prompt unchanged."""

    block: str | None
    """Block to move behind all others; None to insert the memory section in the latest user message."""
    saving: float
    """Share of the uncached tokens saved, 0 to 1."""

    @property
    def words(self) -> str:
        """Plain-text sentence; may contain a block's name."""
        place = "the memory section into the latest user message" if self.block is None else f"{self.block} last"
        return f"Move {place}: {self.saving:.0%} fewer uncached tokens."


@dataclass(frozen=True, slots=True)
class CachePrice:
    """Uncached tokens of a session's prompts after the first."""

    prompts: int
    tokens: int
    """Tokens of these prompts."""
    uncached: int
    """Tokens behind the beginning that each shares with the prompt before."""
    by_part: dict[str, int]
    """Tokens that were in the prompt before and are read again, by the first part that changed; messages that left the
    queue count for `queue`."""
    sent: dict[str, int]
    """Tokens of each part in all prompts, the first included."""
    move: Move | None
    """Change of the layout that saves most; None if none saves `MIN_SAVING`."""


def cache_price(memory: Memory, *, upto: int | None = None) -> CachePrice:
    """Measure the last prompt of each turn, up to a turn; reads all of these prompts."""
    turns = sorted(memory.log.history().turns.items())
    built = [turn.built for number, turn in turns if turn.built is not None and (upto is None or number <= upto)]
    prompts = [memory.log.prompt(record) for record in built]
    order = [block.name for block in memory.blocks]
    method = memory.session.config.insert_method
    uncached, by_part = _uncached(prompts, order, method)
    moved = {name: [*(other for other in order if other != name), name] for name in order[:-1] if by_part[name]}
    layouts: list[tuple[str | None, list[str], InsertMethod]] = [(name, moved[name], method) for name in moved]
    if method is InsertMethod.SYSTEM:
        layouts.append((None, order, InsertMethod.USER))
    moves = [
        Move(block, 1 - _uncached(prompts, other_order, other_method)[0] / uncached)
        for block, other_order, other_method in layouts
        if uncached
    ]
    best = max(moves, key=lambda move: move.saving, default=None)
    sent = Counter[str]()
    for part in (part for prompt in prompts for part in prompt.parts):
        sent[part.name] += part.granted
    return CachePrice(
        prompts=max(0, len(prompts) - 1),
        tokens=sum(_size(_pieces(prompt, order, method)) for prompt in prompts[1:]),
        uncached=uncached,
        by_part=dict(by_part),
        sent=dict(sent),
        move=best if best is not None and best.saving >= MIN_SAVING else None,
    )


def _uncached(prompts: Sequence[Prompt], order: Sequence[str], method: InsertMethod) -> tuple[int, Counter[str]]:
    """Return the uncached tokens of all prompts but the first, and those read again by the part that changed."""
    total, by_part = 0, Counter[str]()
    for before, after in pairwise([_pieces(prompt, order, method) for prompt in prompts]):
        same = next((i for i, (old, new) in enumerate(zip(before, after, strict=False)) if old.key != new.key), None)
        start = min(len(before), len(after)) if same is None else same
        rest = after[start:]
        total += _size(rest)
        had = {piece.key for piece in before}
        again = sum(piece.tokens for piece in rest if piece.key in had)
        if again:
            # What stood there either left the prompt, or something new was inserted in front of it.
            gone = start < len(before) and before[start].key not in {piece.key for piece in after}
            by_part[before[start].part if gone else rest[0].part] += again
    return total, by_part


def _pieces(prompt: Prompt, order: Sequence[str], method: InsertMethod) -> list[_Piece]:
    """Return a prompt's pieces in rendering order: system messages, memory section and queue."""
    parts = {part.name: part for part in prompt.parts if part.kind not in PART_NAMES}
    section = [piece for name in order if name in parts for piece in _of_part(parts[name])]
    pinned = [piece for part in prompt.parts if part.kind == PINNED for piece in _of_part(part)]
    queue = [piece for part in prompt.parts if part.kind == QUEUE for piece in _of_part(part)]
    if method is InsertMethod.SYSTEM:
        # In front of the first system message, or a system message of its own.
        return [*section, *pinned, *queue]
    users = [place for part in prompt.parts if part.kind == QUEUE for place in _user_places(part)]
    place = users[-1] if users else len(queue)
    return [*pinned, *queue[:place], *section, *queue[place:]]


def _of_part(part: PromptPart) -> list[_Piece]:
    return [_Piece((entry.ref, entry.words), entry.tokens or 0, part.name) for entry in part.included]


def _user_places(part: PromptPart) -> Iterable[int]:
    return (place for place, entry in enumerate(part.included) if entry.role == "user")


def _size(pieces: Iterable[_Piece]) -> int:
    return sum(piece.tokens for piece in pieces)


Measure = Literal["evidence", "support", "answers"]
"""`evidence`: 1 if the prompt has a question's evidence. `support`: share of the recorded answer's content words in the
prompt. `answers`: share of the evidence's content words in a model's answer."""

WITH, WITHOUT = "with memory", "without memory"

SURE, FEWEST = 0.05, 6
"""Chance below which a difference counts as measured, and the fewest questions that can go below it in a sign test."""

RESAMPLES, SEED = 2_000, 7
"""Resamples of the bootstrap for the interval of a difference, and its seed."""


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """Scores of an arm compared with those of the whole memory, question by question."""

    mean: float
    """Mean of the arm's scores minus those of the whole memory."""
    low: float
    high: float
    """`low` and `high` are the ends of the 95 % interval of the mean, by bootstrap."""
    p: float
    """Two-sided sign test: probability of at least so uneven a split of better and worse questions by chance."""
    changed: int
    """Answers that differ; of prompts, scores that differ."""


@dataclass(frozen=True, slots=True)
class Arm:
    """Result of one configuration."""

    name: str
    scores: tuple[float, ...]
    """Score of each question, 0 to 1."""
    tokens: float
    """Mean tokens of a prompt."""
    price: CachePrice
    difference: ScoreDifference | None
    """None for the whole memory."""
    answers: tuple[str, ...] = ()
    """Answers of the model; empty without one."""

    @property
    def score(self) -> float:
        return mean(self.scores)


@dataclass(frozen=True, slots=True)
class Value:
    """Value of a memory on one conversation."""

    measure: Measure
    model: str | None
    arms: tuple[Arm, ...]
    """The whole memory, none, then each block alone."""
    patterns: Patterns | None = None
    """Comparison of questions whose evidence is missing with the others; None without questions."""

    @property
    def questions(self) -> int:
        return len(self.arms[0].scores)

    @property
    def verdict(self) -> str:
        """The gain of the whole memory, if it can be told from chance, and its price, in one sentence."""
        whole, none = self.arms[:2]
        assert none.difference is not None
        number = "1 question" if self.questions == 1 else f"{self.questions:,} questions"
        scores = f"{percent(whole.score)} against {percent(none.score)} %"
        more = round(whole.tokens) - round(none.tokens)
        price = f"{'cost' if more >= 0 else 'saved'} {abs(more):,} token{'s' * (abs(more) != 1)} a turn"
        # The arm without memory is compared with the whole: its loss is the memory's gain.
        if none.difference.p < SURE:
            effect = "helped" if none.difference.mean < 0 else "did harm"
            return f"Memory {effect} in {number} ({scores}) and {price}."
        if none.difference.mean and self.questions < FEWEST:
            return f"{number[0].upper()}{number[1:]} cannot show a difference ({scores}); {FEWEST} can. Memory {price}."
        return f"Memory made no measurable difference in {number} ({scores}) and {price}."

    def table(self) -> str:
        """Format as text for a terminal."""
        how = {
            "evidence": "by the evidence in the prompt; no model was asked",
            "support": "by the words of the recorded answers in the prompt; no model was asked",
            "answers": f"by the words of the evidence in the answers of {self.model}",
        }[self.measure]
        width = max(len(printable(arm.name)) for arm in self.arms)
        number = "1 question" if self.questions == 1 else f"{self.questions:,} questions"
        lines = [
            self.verdict,
            f"{number}, scored {how}.",
            "",
            f"{'':<{width}}  score  tokens  uncached  compared with the whole memory",
        ]
        for arm in self.arms:
            line = f"{printable(arm.name):<{width}}  {arm.score:5.2f}  {arm.tokens:6,.0f}  {arm.price.uncached:8,}"
            if (change := arm.difference) is not None:
                what = "answers" if self.model else "scores"
                line += (
                    f"  {change.mean:+.2f} ({change.low:+.2f} to {change.high:+.2f}), p {change.p:.3f}, "
                    f"{change.changed} {what} differ"
                )
            lines.append(line)
        whole = self.arms[0].price
        lines += ["", f"Tokens read again over {whole.prompts:,} prompts, by the part that changed:"]
        by_part = sorted(whole.by_part.items(), key=lambda item: -item[1])
        lines += [f"  {printable(part)}: {tokens:,}" for part, tokens in by_part]
        if whole.move is not None:
            lines.append(printable(whole.move.words))
        if self.patterns is not None and self.patterns.failed:
            lines += ["", "Questions without their evidence:", self.patterns.table()]
        return "\n".join(lines)


def percent(score: float) -> int:
    """Return a score, 0 to 1, in whole percent."""
    return round(100 * score)


def value_of(
    player: Player,
    script: Script,
    variant: Variant,
    questions: Sequence[Question] = (),
    *,
    model: ChatModel | None = None,
    progress: Callable[[str], object] = lambda line: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Value | None:
    """Measure a configuration on a conversation; None once `cancelled`.

    `questions` are asked after the conversation; without any, each of the user's turns is a question, and the recorded
    answer is what its prompt should support. With `model`, every question costs one call for each arm.

    Raises:
        ConfigError: The configuration is invalid, or there is no question.
        ModelError: The model did not answer.
    """
    played: list[tuple[str, Played]] = []
    for name, arm in _arms(variant):
        progress(f"Playing {name}")
        play = player.play(script, arm, cancelled=cancelled)
        if play is None:
            return None
        played.append((name, play))
    memories = [play.memory for _, play in played]
    prices = [cache_price(memory) for memory in memories]  # before the questions add prompts of their own
    cases: list[Case] = []
    asked = [
        _asked(memory, questions, cases if place == 0 else None) if questions else _recorded(memory)
        for place, memory in enumerate(memories)
    ]
    if not asked[0]:
        raise ConfigError("no turn of this conversation was answered with anything new to its question: name questions")
    measure: Measure = "answers" if model else "evidence" if questions else "support"
    answers: list[list[str]] = [[] for _ in played]
    if model is not None:
        for number, prompts in enumerate(zip(*asked, strict=True)):
            # The order of the arms rotates, so that a model that changes over time favours none of them.
            for place in (*range(number % len(played), len(played)), *range(number % len(played))):
                if cancelled():
                    return None
                progress(f"Asking question {number + 1}, {played[place][0]}")
                answers[place].append(_answer(model, prompts[place]))
    scores = [
        tuple(_answer_score(prompt, text) for prompt, text in zip(prompts, texts, strict=True))
        if model is not None
        else tuple(prompt.score for prompt in prompts)
        for prompts, texts in zip(asked, answers, strict=True)
    ]
    arms = [
        Arm(
            name=name,
            scores=scores[place],
            tokens=mean(prompt.tokens for prompt in asked[place]),
            price=prices[place],
            difference=None
            if place == 0
            else _difference(scores[0], scores[place], (answers[0], answers[place]) if model else None),
            answers=tuple(answers[place]),
        )
        for place, (name, _) in enumerate(played)
    ]
    for _, play in played:
        play.close()
    return Value(measure, model.name if model is not None else None, tuple(arms), compare(cases) if cases else None)


def _arms(variant: Variant) -> list[tuple[str, Variant]]:
    """Return the configurations to compare: the whole, none of its blocks, and each enabled block alone."""
    blocks = [block for block in variant.blocks if block_values(block)["enabled"]]
    alone = [(f"only {block.name}", replace(variant, blocks=(block,))) for block in blocks]
    return [(WITH, variant), (WITHOUT, replace(variant, blocks=())), *(alone if len(blocks) > 1 else [])]


@dataclass(frozen=True, slots=True)
class _AskedQuestion:
    """Prompt of one question under one configuration."""

    messages: tuple[ChatMessage, ...]
    tokens: int
    score: float
    """Score of the prompt itself."""
    wanted: frozenset[str]
    """Stems that a good answer has."""


def _asked(memory: Memory, questions: Sequence[Question], cases: list[Case] | None) -> list[_AskedQuestion]:
    """Ask each question after the conversation; all evidence of a question counts together.

    `cases` receives each question, with the properties of its first missing evidence, else of its first one.
    """
    evidence: dict[str, list[str]] = {}
    for question in questions:
        evidence.setdefault(question.words, []).append(question.evidence)
    asked = []
    for words, phrases in evidence.items():
        context = memory.build_context(words, reserved_tokens=memory.session.measured_tokens())
        texts = [message_text(message) for message in context.messages]
        hits = [any(Phrase.of(phrase).said_in(text) for text in texts) for phrase in phrases]
        messages = (*context.messages, ChatMessage(role=MessageRole.USER, content=words))
        wanted = frozenset(stem for phrase in phrases for stem in stems(phrase)) - set(stems(words))
        asked.append(_AskedQuestion(messages, context.plan.total, mean(hits), wanted))
        if cases is not None:
            followed = phrases[hits.index(False)] if False in hits else phrases[0]
            cases.append(case_of(memory, memory.trace(followed), failed=False in hits))
    return asked


def _recorded(memory: Memory) -> list[_AskedQuestion]:
    """Return the prompts of the user's turns that were answered with something new to the question."""
    history, replies = memory.log.history(), dict[int, str]()
    for stored in memory.session.messages():
        if stored.message.role is MessageRole.ASSISTANT:
            replies[stored.turn] = f"{replies.get(stored.turn, '')} {message_text(stored.message)}"
    asked = []
    for number, turn in sorted(history.turns.items()):
        if turn.built is None or number not in replies:
            continue
        prompt = memory.log.prompt(turn.built)
        messages = tuple(prompt.messages)
        question = next((message_text(m) for m in reversed(messages) if m.role is MessageRole.USER), "")
        wanted = frozenset(stems(replies[number])) - set(stems(question))
        if not wanted:
            continue
        present = {stem for message in messages for stem in stems(message_text(message))}
        asked.append(_AskedQuestion(messages, prompt.built.total, len(wanted & present) / len(wanted), wanted))
    return asked


def _answer(model: ChatModel, prompt: _AskedQuestion) -> str:
    return message_text(whole_reply(model, prompt.messages)).strip()


def _answer_score(prompt: _AskedQuestion, answer: str) -> float:
    """Return the share of the wanted stems that an answer has; 1 if nothing is wanted."""
    return len(prompt.wanted & set(stems(answer))) / len(prompt.wanted) if prompt.wanted else 1.0


def _difference(
    whole: Sequence[float], arm: Sequence[float], answers: tuple[Sequence[str], Sequence[str]] | None
) -> ScoreDifference:
    """Compare two arms in pairs.

    >>> _difference([1.0] * 6, [0.0] * 6, None)
    ScoreDifference(mean=-1.0, low=-1.0, high=-1.0, p=0.03125, changed=6)
    """
    differences = np.array(arm) - np.array(whole)
    better, worse = int((differences > 0).sum()), int((differences < 0).sum())
    draws = np.random.default_rng(SEED).integers(len(differences), size=(RESAMPLES, len(differences)))
    low, high = np.quantile(differences[draws].mean(axis=1), (0.025, 0.975))
    changed = better + worse if answers is None else sum(a.split() != b.split() for a, b in zip(*answers, strict=True))
    return ScoreDifference(float(differences.mean()), float(low), float(high), _sign_test(better, worse), changed)


def _sign_test(better: int, worse: int) -> float:
    """Return the two-sided p-value of a split of changed pairs, under even odds; ties are left out.

    >>> _sign_test(0, 0), _sign_test(9, 1)
    (1.0, 0.021484375)
    """
    n, most = better + worse, max(better, worse)
    if n == 0:
        return 1.0
    return min(1.0, sum(comb(n, k) for k in range(most, n + 1)) / (1 << (n - 1)))


@dataclass(frozen=True, slots=True)
class AlteredPrompt:
    """A past prompt in two versions: as sent, and with one item removed or reworded."""

    before: tuple[ChatMessage, ...]
    after: tuple[ChatMessage, ...]
    tokens: tuple[int, int]
    """Tokens that the calls with `before` and `after` send, tool definitions included."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools offered to the model; empty unless agents may edit the memory."""


@dataclass(frozen=True, slots=True)
class Answers:
    """A model's answers to both prompts."""

    model: str
    before: str
    after: str
    calls: tuple[tuple[ToolCallPart, ...], tuple[ToolCallPart, ...]] = ((), ())
    """Tool calls of both answers."""

    @property
    def same(self) -> bool:
        """Return whether the answers are identical, text and tool calls."""
        # Runs of whitespace do not count as a difference.
        called = [[(call.tool_name, call.arguments) for call in calls] for calls in self.calls]
        return self.before.split() == self.after.split() and called[0] == called[1]


def question_without(memory: Memory, context: EventRecord, ref: Ref, words: str | None = None) -> AlteredPrompt:
    """Return a recorded prompt as sent, and without an item or with `words` in the item's place.

    Raises:
        ConfigError: The prompt lacks the item, or its text cannot be replaced.
    """
    if words is not None and ref.kind not in EDITABLE:
        raise ConfigError("A stored turn is made of several messages: it can be left out, but not reworded.")
    before = memory.log.altered_prompt(context)
    after = memory.log.altered_prompt(
        context, without=() if words is not None else (ref,), edited={} if words is None else {ref: words}
    )
    # Checked before any call: two equal prompts would be paid for and show no difference.
    if before == after:
        raise ConfigError("The prompt is the same with and without it: there is nothing to ask.")
    config = memory.session.config
    counter = config.counting(counter_for(memory.session.tokenizer_fn, encoding=config.encoding))
    tools = tuple(MemoryTools(memory).specs()) if memory.blocks.editable_by_agents else ()
    # Definitions of tools are sent with both calls, beside the messages.
    beside = definition_tokens(tools, memory.session.count_tokens)
    sizes = [beside + sum(counter.message(message).billed for message in messages) for messages in (before, after)]
    return AlteredPrompt(before, after, (sizes[0], sizes[1]), tools)


def ask_both(
    model: ChatModel,
    question: AlteredPrompt,
    *,
    progress: Callable[[str], object] = lambda line: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Answers | None:
    """Ask a model both prompts; return None once `cancelled`.

    Raises:
        ModelError: The model did not answer.
    """
    answers: list[str] = []
    called: list[tuple[ToolCallPart, ...]] = []
    for line, messages in (("Asking with it", question.before), ("Asking without it", question.after)):
        progress(line)
        stream = model.stream(messages, question.tools)
        try:
            words = []
            for piece in stream:
                if cancelled():
                    return None
                words.append(piece)
        # Also after a cancellation: closing ends the request.
        finally:
            stream.close()
        answers.append("".join(words).strip())
        # The calls are complete only once the stream has ended.
        called.append(stream.tool_calls)
    return Answers(model.name, answers[0], answers[1], (called[0], called[1]))
