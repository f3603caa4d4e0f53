"""Ask a memory questions under token limits, and score its prompts (`recall.py`).

A hit is an evidence message whose words stand in the rendered prompt, white space aside. A prompt over
the limit by one token scores nothing.
"""

import hashlib
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from recall_data import Conversation, Question

from memory_core import Memory
from memory_core.blocks.vector import BOOST_FIELDS
from memory_core.engine.context import Context
from memory_core.messages import message_text
from memory_core.models.protocols import Embedder
from memory_core.services import Services
from memory_core.text import stems
from memory_core.tokens import DEFAULT_ENCODING, default_counter

RECIPE = "vector"
HISTORY_RATIO = 0.1
"""Share of the limit that is kept for recent messages while questions are asked."""

AT_ONCE = 200
"""Messages put together: bulk."""

MAX_ASKED_AGAIN = 12
"""Questions of a conversation that are asked a second time, in reversed order, under each limit."""


class Score(NamedTuple):
    """One question under one limit."""

    category: str
    tokens: int
    """Of the whole rendered prompt, in cl100k."""
    original: float | None
    """Share of the evidence in the prompt, whatever its size; None: the question has none in this gold."""
    audited: float | None
    support: float | None
    """Share of the answer's content stems in the prompt; None: no answer is given."""


@dataclass
class Result:
    """One conversation under one configuration."""

    name: str
    suite: str
    scores: dict[str, list[Score]] = field(default_factory=dict)
    """By limit, in the order of the questions."""
    turns: int = 0
    seconds: float = 0.0
    """Of putting all messages until every block has learned them."""
    milliseconds: list[float] = field(default_factory=list)
    """Of each `build_context`."""
    digests: dict[str, str] = field(default_factory=dict)
    """Of all prompts, by limit."""
    unchanged: bool = True
    """Is every stored row as it was before the questions?"""
    any_order: bool = True
    """Do the questions get the same prompts in another order?"""
    hits: int = 0
    named: int = 0
    """Hits whose source message the plan leads to."""

    @classmethod
    def stored(cls, values: Mapping[str, Any]) -> "Result":
        """From JSON."""
        scores = {budget: [Score(*score) for score in several] for budget, several in values["scores"].items()}
        return cls(**{**values, "scores": scores})


class Scorer:
    """Scores the prompts of one conversation."""

    def __init__(self, conversation: Conversation) -> None:
        self._held = [_one_space(line.words) for line in conversation.lines]
        self._counter = default_counter(DEFAULT_ENCODING)

    def score(self, question: Question, prompt: str) -> Score:
        words = _one_space(prompt)
        return Score(
            question.category,
            self._counter.text(prompt),
            self._share(question.evidence, words),
            self._share(question.audited, words),
            support(question.answer, prompt),
        )

    def found(self, question: Question, prompt: str) -> list[str]:
        """The evidence that the prompt holds, white space normalised."""
        words = _one_space(prompt)
        places = dict.fromkeys((*question.evidence, *question.audited))
        return [self._held[place] for place in places if self._held[place] in words]

    def _share(self, places: Sequence[int], words: str) -> float | None:
        held = [text for place in places if (text := self._held[place])]
        return sum(text in words for text in held) / len(held) if held else None


def support(answer: str, prompt: str) -> float | None:
    """Share of the answer's content stems that the prompt has anywhere; None: it has none itself."""
    wanted = set(stems(answer))
    if not wanted:
        return None
    return len(wanted & _stems_of(prompt)) / len(wanted)


def _stems_of(prompt: str) -> set[str]:
    return set().union(*(_line_stems(line) for line in prompt.splitlines()))


@lru_cache(maxsize=20_000)
def _line_stems(line: str) -> frozenset[str]:
    return frozenset(stems(line))


def _one_space(text: str) -> str:
    # `neutralise` writes `<` so where it could open an element of the memory section.
    return " ".join(text.replace("&lt;", "<").split())


def rendered(context: Context) -> str:
    """What would go into the prompt."""
    return "\n".join(message_text(message) for message in context.messages)


# -- this engine ---------------------------------------------------------------------------------


class Filled:
    """This engine on a SQLite file of its own, with a conversation in it."""

    def __init__(
        self,
        conversation: Conversation,
        folder: Path,
        *,
        inline: bool = False,
        embedder: Callable[[], Embedder] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        """`embedder` makes one with nothing in its caches; `settings` are the block's, before anything is stored."""
        self.file = Path(tempfile.mkdtemp(dir=folder)) / "memory.db"
        self._embedder = embedder
        self.memory = Memory.from_recipe(
            RECIPE,
            conversation.name,
            database_uri=f"sqlite:///{self.file}",
            accounting="billed",
            services=self._services(),
        )
        self.block = self.memory.blocks[0].name
        if settings:
            self.memory.blocks.configure(self.block, **settings)
        messages = [line.message(inline=inline) for line in conversation.lines]
        start = time.perf_counter()
        for place in range(0, len(messages), AT_ONCE):
            self.memory.put_messages(messages[place : place + AT_ONCE])
        self.memory.flush(all=True)
        self.memory.deliver()
        self.seconds = time.perf_counter() - start

    def limit(self, budget: int) -> None:
        self.memory.configure(token_limit=budget, chat_history_token_ratio=HISTORY_RATIO)

    def reopen(self) -> None:
        """The same session with empty caches: a question is embedded when it is first asked."""
        self.memory = Memory.open(self.memory.session_id, self.memory.session.database, services=self._services())
        self.memory.build_context("Hello", record=False)

    def ask(self, question: str) -> str:
        return rendered(self.memory.build_context(question, record=False))

    def rows(self) -> str:
        """A hash of all that is stored."""
        connection = sqlite3.connect(self.file)
        try:
            return _digest(connection.iterdump())
        finally:
            connection.close()

    def close(self) -> None:
        self.memory.session.database.close()

    def _services(self) -> Services:
        return Services(embedder=self._embedder() if self._embedder else None)


@dataclass(frozen=True, slots=True)
class Long:
    """Many stored messages, and how long a prompt takes among them."""

    stored: int
    rate: float
    """Messages taken in a second."""
    first: float
    """Seconds of the first prompt, which reads all of them."""
    median: float
    p95: float
    """Milliseconds of the others."""


def measure_long(
    conversations: Sequence[Conversation], count: int, folder: Path, embedder: Callable[[], Embedder], budget: int
) -> Long:
    """The conversations' messages one after the other, told over and over until there are so many; then questions."""
    told = [line for conversation in conversations for line in conversation.lines]
    lines = tuple(replace(told[n % len(told)], words=f"{told[n % len(told)].words} ({n})") for n in range(count))
    filled = Filled(replace(conversations[0], name=f"{count} messages", lines=lines), folder, embedder=embedder)
    filled.limit(budget)
    questions = [question.words for conversation in conversations for question in conversation.questions]
    seconds = []
    for question in questions[:: max(1, len(questions) // 100)]:
        start = time.perf_counter()
        filled.ask(question)
        seconds.append(time.perf_counter() - start)
    filled.close()
    first, others = seconds[0], sorted(seconds[1:])
    middle, high = (1_000 * others[int(share * (len(others) - 1))] for share in (0.5, 0.95))
    return Long(count, count / filled.seconds, first, middle, high)


class Provenance:
    """From the refs of a granted piece (`v12`) to the messages it was made of: `Memory.retrieval.stored_turns`."""

    def __init__(self, filled: Filled) -> None:
        turns = filled.memory.retrieval.stored_turns(filled.block)
        self._texts = {
            f"v{turn.number}": [_one_space(message_text(m.message)) for m in turn.messages] for turn in turns
        }
        self._queued = {m.seq: _one_space(message_text(m.message)) for m in filled.memory.session.messages("active")}

    def leads_to(self, text: str, context: Context) -> bool:
        """Is there a granted piece, or a message of the queue, that shows these words and names where they are from?"""
        if any(text in self._queued.get(seq, "") for seq in context.queue_seqs):
            return True
        refs = [piece.ref for part in context.plan.granted for piece in part.pieces]
        return any(
            any(text in words for words in self._texts.get(ref, ())) and text in _one_space(context.words[ref])
            for ref in refs
        )


def measure(
    conversation: Conversation,
    budgets: Sequence[int],
    folder: Path,
    *,
    inline: bool = False,
    embedder: Callable[[], Embedder] | None = None,
) -> Result:
    """Replay a conversation into a fresh engine, and ask it everything under every limit, side conditions checked."""
    filled = Filled(conversation, folder, inline=inline, embedder=embedder)
    scorer, provenance = Scorer(conversation), Provenance(filled)
    result = Result(conversation.name, conversation.suite, turns=len(conversation.lines), seconds=filled.seconds)
    step = max(1, len(conversation.questions) // MAX_ASKED_AGAIN)
    for budget in budgets:
        filled.limit(budget)
        filled.reopen()
        before = filled.rows()
        prompts, scores = [], []
        for question in conversation.questions:
            start = time.perf_counter()
            context = filled.memory.build_context(question.words, record=False)
            result.milliseconds.append(round(1000 * (time.perf_counter() - start), 3))
            prompts.append(rendered(context))
            scores.append(scorer.score(question, prompts[-1]))
            found = scorer.found(question, prompts[-1])
            result.hits += len(found)
            result.named += sum(provenance.leads_to(text, context) for text in found)
        for number in range(0, len(prompts), step)[::-1]:
            result.any_order &= filled.ask(conversation.questions[number].words) == prompts[number]
        result.unchanged &= filled.rows() == before
        result.scores[str(budget)] = scores
        result.digests[str(budget)] = _digest(prompts)
        progress(f"{conversation.name}: {budget:,} tokens")
    filled.close()
    return result


def digest_of_a_second_run(
    conversation: Conversation,
    budget: int,
    folder: Path,
    *,
    inline: bool = False,
    embedder: Callable[[], Embedder] | None = None,
) -> str:
    """What `Result.digests` has for this limit, of another fresh engine."""
    filled = Filled(conversation, folder, inline=inline, embedder=embedder)
    filled.limit(budget)
    filled.reopen()
    digest = _digest(filled.ask(question.words) for question in conversation.questions)
    filled.close()
    return digest


def _digest(texts: Any) -> str:
    sha = hashlib.sha256()
    for text in texts:
        sha.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return sha.hexdigest()


# -- anything that answers with a prompt ---------------------------------------------------------


class Asks(Protocol):
    """A memory with a conversation in it."""

    def limit(self, budget: int) -> None:
        """Answer under this limit from now on."""

    def ask(self, question: str) -> str:
        """The prompt for a question."""


def measure_row(row: str, conversation: Conversation, budgets: Sequence[int], memory: Asks) -> Result:
    """The scores alone."""
    scorer = Scorer(conversation)
    result = Result(conversation.name, conversation.suite, turns=len(conversation.lines))
    for budget in budgets:
        memory.limit(budget)
        result.scores[str(budget)] = [
            scorer.score(question, memory.ask(question.words)) for question in conversation.questions
        ]
        progress(f"{row}, {conversation.name}: {budget:,} tokens")
    return result


_NO_TERMS = dict.fromkeys(BOOST_FIELDS.values(), 0.0)
IN_OTHER_WORDS: dict[str, dict[str, float]] = {
    "as it is": {},
    "own words alone": _NO_TERMS,
    "own words alone, by vectors": {**_NO_TERMS, "vector_weight": 1.0, "keyword_weight": 0.0},
    "own words alone, by keyword": {**_NO_TERMS, "vector_weight": 0.0, "keyword_weight": 1.0},
}
"""Settings under which the questions in other words are asked."""


def ranks(
    conversation: Conversation,
    folder: Path,
    *,
    inline: bool = False,
    embedder: Callable[[], Embedder] | None = None,
    settings: Mapping[str, float] | None = None,
) -> list[int]:
    """Of each question: where `memory.search` ranks the first message that answers it, from 1; 0: nowhere."""
    filled = Filled(conversation, folder, inline=inline, embedder=embedder)
    places = {message.seq: place for place, message in enumerate(filled.memory.session.messages())}
    stored = {
        turn.number: {places[message.seq] for message in turn.messages}
        for turn in filled.memory.retrieval.stored_turns(filled.block)
    }
    found = []
    for question in conversation.questions:
        order = filled.memory.retrieval.search(question.words, settings=settings).found
        hits = (rank for rank, one in enumerate(order, 1) if stored[one.number].intersection(question.evidence))
        found.append(next(hits, 0))
    filled.close()
    progress(f"paraphrases: {conversation.name}")
    return found


def progress(text: str) -> None:
    print(f"\r  {text:<70}", end="", file=sys.stderr, flush=True)
