"""Operations: is what memory holds still true? Replaced, tentative and forgotten values, without a judge.

    python benchmarks/operations.py [FILE ...] [--generate N] [--seed N] [--recipes A,B] [--sample N] [--json FILE]
    python benchmarks/operations.py FILE --endpoint URL --model NAME

Files are MemOps' (JSON lines) and FactConsolidation's (JSON). Each scenario is put message by message into a fresh
engine through the public API; then every value is looked for among the active facts, and its evidence in a prompt of
2,000 tokens for its name. Values are compared by content words: 60 percent of them count as the value, 80 percent of
a former one as that. This is coarse: `--examples N` prints cases of each kind to judge by.

Four bounds stand beside the recipes: everything kept, nothing kept, the newest messages only, and an oracle that
holds exactly the current values. What `--json` holds already is not measured again.
"""

import argparse
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from operations_data import Scenario, Statements, Target, generate, read, user_messages
from recall import Book, in_a_folder

from memory_core import Memory
from memory_core.messages import ChatMessage, message_text
from memory_core.services import Services
from memory_core.systems.user_memories import UserMemories
from memory_core.text import stems
from memory_core.tokens import DEFAULT_ENCODING, default_counter

RECIPES = ("consolidating", "blocks", "vector", "hybrid", "user_memories")
BOUNDS = ("keep everything", "keep nothing", "newest only", "oracle")
PROMPT_TOKENS = 2_000
STATEMENT_TOKENS = 1_000
"""Token limit of a prompt among the statements of FactConsolidation."""
HISTORY_RATIO = 0.1
"""Share of the limit for recent messages while questions are asked."""
HELD, WAS_HELD = 0.6, 0.8
"""Share of a value's words in a fact from which the fact holds the value; of a former or tentative value."""

_MARK = re.compile(r"\b(?:former(?:ly)?|superseded|until|later:|no longer|was replaced)\b", re.IGNORECASE)
MEASURES = (
    "current value known", "current value in the prompt", "old value still active", "stale in the prompt",
    "tentative applied", "forgotten still active", "forgotten in the prompt",
)  # fmt: skip
STATEMENT_MEASURES = ("statements learned", "first hit right", "gold in the prompt", "replaced and unmarked")


class Holder(Protocol):
    """A memory with a conversation in it."""

    def facts(self, *, active: bool = True) -> list[str] | None:
        """Return the active facts, or those in any state; None if it holds no facts."""

    def prompt(self, question: str, limit: int) -> str:
        """Return what would go into the prompt for a question."""

    def first_hit(self, question: str) -> str:
        """Return the fact that a search puts first; empty if there is none."""


# -- measures, pure ------------------------------------------------------------------------------


def share(value: str, text: str) -> float:
    """Share of a value's content words that a text has, 0 to 1; stop words count only where there are no others.

    >>> share("Senior Data Analyst", "The user is a data analyst")
    0.6666666666666666
    """
    wanted = set(stems(value)) or set(stems(value, stop=False))
    return len(wanted & set(stems(text, stop=False))) / len(wanted) if wanted else 0.0


def held(value: str, facts: Iterable[str], least: float, without: str = "") -> bool:
    """Return whether one fact has at least this share of a value's words, and not the value `without`."""
    return any(share(value, fact) >= least and not (without and share(without, fact) >= HELD) for fact in facts)


def unmarked(quote: str, prompt: str) -> bool:
    """Return whether a prompt has these words on a line that does not say they are out of date."""
    words = " ".join(quote.split())
    return any(words in " ".join(line.split()) and not _MARK.search(line) for line in prompt.splitlines())


@dataclass
class Score:
    """Cases of each measure: those in which it holds, of how many."""

    hits: Counter[str] = field(default_factory=Counter)
    cases: Counter[str] = field(default_factory=Counter)
    examples: list[tuple[str, bool, str]] = field(default_factory=list)
    """Measure, outcome, and what was looked for and found."""

    def note(self, measure: str, hit: bool, example: str = "") -> None:
        self.cases[measure] += 1
        self.hits[measure] += hit
        self.examples.append((measure, hit, example))

    def as_json(self) -> dict[str, Any]:
        return {"hits": dict(self.hits), "cases": dict(self.cases), "examples": self.examples}

    @classmethod
    def total(cls, several: Iterable[dict[str, Any]]) -> "Score":
        score = cls()
        for one in several:
            score.hits.update(one["hits"])
            score.cases.update(one["cases"])
            score.examples += [(measure, hit, text) for measure, hit, text in one["examples"]]
        return score


def judge(target: Target, holder: Holder, score: Score) -> None:
    """Note every measure that applies to a target."""
    done = target.confirmed
    if not done:
        return
    facts, last = holder.facts(), done[-1]
    prompt = holder.prompt(target.name, PROMPT_TOKENS)
    learned = f"{last.new or last.old} | " + " / ".join(_nearest(last.new or last.old, facts or ()))

    def note(measure: str, hit: bool, example: str = learned) -> None:
        score.note(measure, hit, f"{target.name}: {example}")

    if last.type in ("remember", "update"):
        if facts is not None:
            note("current value known", held(last.new, facts, HELD))
        note("current value in the prompt", " ".join(last.quote.split()) in " ".join(prompt.split()))
    former = [earlier for earlier in done[:-1] if earlier.new and share(earlier.new, last.new) < 1]
    if last.type == "update":
        if facts is not None:
            note("old value still active", held(last.old, facts, WAS_HELD, without=last.new))
        if former:
            note("stale in the prompt", any(unmarked(earlier.quote, prompt) for earlier in former), former[-1].quote)
    for maybe in target.operations:
        if maybe.type == "update" and not maybe.confirmed and facts is not None:
            note("tentative applied", held(maybe.new, facts, WAS_HELD), maybe.quote)
    if last.type == "forget":
        if facts is not None:
            note("forgotten still active", held(last.old, facts, HELD))
        note("forgotten in the prompt", any(unmarked(earlier.quote, prompt) for earlier in done[:-1]))


def _nearest(value: str, facts: Iterable[str]) -> list[str]:
    return sorted((fact for fact in facts if share(value, fact)), key=lambda fact: -share(value, fact))[:2]


def judge_statements(data: Statements, holder: Holder, score: Score) -> None:
    """Note the measures of FactConsolidation: the gold answer of a question is in the last statement about it."""
    facts = holder.facts(active=False)
    if facts is not None:
        joined = {tuple(stems(fact, stop=False)) for fact in facts}
        for statement in data.statements:
            score.note("statements learned", tuple(stems(statement, stop=False)) in joined, statement)
    for question, answers in data.questions:
        gold = [s for s in data.statements if any(answer in s for answer in answers) and _about(question, s)]
        if facts is not None:
            hit = holder.first_hit(question)
            right = any(answer.casefold() in hit.casefold() for answer in answers)
            score.note("first hit right", right, f"{question} {hit}")
        if gold:
            prompt = holder.prompt(question, STATEMENT_TOKENS)
            current = max(gold, key=data.statements.index)
            score.note("gold in the prompt", current.rstrip(".") in prompt, question)
            replaced = [s for s in data.statements if s != current and _frame(s) == _frame(current)]
            if replaced:
                score.note("replaced and unmarked", any(unmarked(s.rstrip("."), prompt) for s in replaced), question)


def _about(question: str, statement: str) -> bool:
    """Return whether a statement has most of a question's words."""
    return share(question, statement) >= 0.5


def _frame(statement: str) -> tuple[str, ...]:
    """A statement without its last words, which are the value: two of the same frame are about the same thing."""
    words = statement.rstrip(".").split()
    ends = [n for n, word in enumerate(words) if word in ("is", "of", "to", "by", "in", "was", "as", "language")]
    return tuple(words[: ends[-1] + 1]) if ends else tuple(words)


# -- holders -------------------------------------------------------------------------------------


class Engine:
    """Recipe of this engine that was given a conversation, on a database of its own."""

    def __init__(self, recipe: str, messages: Iterable[tuple[str, str]], folder: Path, services: Services) -> None:
        file = Path(tempfile.mkdtemp(dir=folder)) / "memory.db"
        uri = f"sqlite:///{file}"
        if recipe == "user_memories":
            self.memory = UserMemories("ana", "scenario", database_uri=uri, services=services).memory
        else:
            self.memory = Memory.from_recipe(recipe, "scenario", database_uri=uri, services=services)
        for role, text in messages:
            self.memory.put(ChatMessage(role=role, content=text))
        self.memory.flush(all=True)
        self.memory.deliver()
        self._blocks = [block.name for block in self.memory.blocks if block.kind == "facts"]

    def facts(self, *, active: bool = True) -> list[str] | None:
        if not self._blocks:
            return None
        states = ("active",) if active else None
        return [fact.text for block in self._blocks for fact in self.memory.facts.read(block, states=states)]

    def prompt(self, question: str, limit: int) -> str:
        self.memory.configure(token_limit=limit, chat_history_token_ratio=HISTORY_RATIO)
        context = self.memory.build_context(question, record=False)
        return "\n".join(message_text(message) for message in context.messages)

    def first_hit(self, question: str) -> str:
        hits = self.memory.facts.search(question, block=self._blocks[0], top_k=1, threshold=0)
        return hits[0].fact.text if hits else ""

    def close(self) -> None:
        self.memory.session.database.close()


class Bound:
    """A memory that needs no engine: fixed facts, and a prompt of the same texts, newest first until it is full."""

    def __init__(self, facts: Sequence[str], shown: Sequence[str]) -> None:
        self._facts, self._shown = list(facts), list(shown)
        self._counter = default_counter(DEFAULT_ENCODING)

    def facts(self, *, active: bool = True) -> list[str]:
        return self._facts

    def prompt(self, question: str, limit: int) -> str:
        lines: list[str] = []
        for text in reversed(self._shown):
            limit -= self._counter.text(text) + 1
            if limit < 0:
                break
            lines.append(" ".join(text.split()))
        return "\n".join(reversed(lines))

    def first_hit(self, question: str) -> str:
        return max(reversed(self._facts), key=lambda fact: share(question, fact), default="")

    def close(self) -> None:
        return None


def bound(name: str, scenario: Scenario) -> Bound:
    """Return the memory of a bound for a scenario."""
    everything = list(user_messages(scenario))
    if name == "keep everything":
        return Bound(everything, everything)
    if name == "keep nothing":
        return Bound([], [])
    if name == "newest only":
        newest = everything[-len(scenario.targets) :]
        return Bound(newest, newest)
    current = [target.confirmed[-1] for target in scenario.targets if target.confirmed]
    return Bound([op.new for op in current if op.new], [op.quote for op in current if op.new])


def bound_of_statements(name: str, data: Statements) -> Bound:
    if name == "keep everything":
        return Bound(data.statements, data.statements)
    if name == "keep nothing":
        return Bound([], [])
    if name == "newest only":
        newest = data.statements[-len(data.questions) :]
        return Bound(newest, newest)
    last = {_frame(statement): statement for statement in data.statements}
    return Bound(list(last.values()), list(last.values()))


# -- the run -------------------------------------------------------------------------------------


def run(options: argparse.Namespace, folder: Path) -> None:
    book = Book(options.json, {"model": options.model or "", "seed": options.seed})
    sources: list[list[Scenario] | Statements] = [read(path) for path in options.files]
    if options.generate:
        print(f"seed {options.seed}")
        sources.append(generate(options.generate, options.seed))
    services = _services(options)
    for source in sources:
        parts: list[Scenario | Statements] = [source] if isinstance(source, Statements) else [*source]
        step = max(1, len(parts) // options.sample) if options.sample else 1
        rows = {
            row: [_kept(book, row, part, folder, services) for part in parts[::step]]
            for row in (*options.recipes, *BOUNDS)
        }
        _print(source, rows, options.examples)


def _kept(book: Book, row: str, part: Scenario | Statements, folder: Path, services: Services) -> dict[str, Any]:
    """Return the scores of one scenario, measured unless the file has them."""
    results = book.rows.setdefault(row, {})
    if part.name not in results:
        results[part.name] = _scored(row, part, folder, services).as_json()
        book.save()
        print(f"{row}: {part.name}", file=sys.stderr)
    return results[part.name]


def _scored(row: str, part: Scenario | Statements, folder: Path, services: Services) -> Score:
    score = Score()
    if isinstance(part, Statements):
        messages = [("user", statement) for statement in part.statements]
        holder = bound_of_statements(row, part) if row in BOUNDS else Engine(row, messages, folder, services)
        judge_statements(part, holder, score)
    else:
        holder = bound(row, part) if row in BOUNDS else Engine(row, part.messages, folder, services)
        for target in part.targets:
            judge(target, holder, score)
    holder.close()
    return score


def _services(options: argparse.Namespace) -> Services:
    if options.endpoint is None:
        return Services()
    from memory_core.models.openai_client import OpenAIChat

    return Services().with_chat(OpenAIChat(options.model, options.endpoint))


def _print(source: list[Scenario] | Statements, rows: dict[str, list[dict[str, Any]]], examples: int) -> None:
    measures = STATEMENT_MEASURES if isinstance(source, Statements) else MEASURES
    title = source.name if isinstance(source, Statements) else f"{len(next(iter(rows.values())))} scenarios"
    print(f"\n{title}\n{'':28}" + "".join(f"{row[:14]:>16}" for row in rows))
    totals = {row: Score.total(results) for row, results in rows.items()}
    for measure in measures:
        cells = [_cell(total, measure) for total in totals.values()]
        print(f"{measure:28}" + "".join(f"{cell:>16}" for cell in cells))
    for row, total in totals.items() if examples else ():
        for measure in measures:
            for outcome in (True, False):
                texts = [text for what, hit, text in total.examples if what == measure and hit is outcome]
                for text in texts[:examples]:
                    print(f"  {row}, {measure}, {'yes' if outcome else 'no'}: {text}")


def _cell(score: Score, measure: str) -> str:
    cases = score.cases[measure]
    return f"{100 * score.hits[measure] / cases:.0f} ({score.hits[measure]}/{cases})" if cases else "-"


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("files", nargs="*", type=Path, metavar="FILE", help="MemOps (.jsonl) and FactConsolidation files")
    made.add_argument("--generate", type=int, default=0, metavar="N", help="N scenarios of our own as well")
    made.add_argument("--seed", type=int, default=1, metavar="N", help="seed of those (default 1)")
    made.add_argument("--recipes", type=lambda text: tuple(text.split(",")), default=RECIPES, metavar="A,B")
    made.add_argument("--sample", type=int, metavar="N", help="N scenarios of each file, evenly spread (default: all)")
    made.add_argument("--examples", type=int, default=0, metavar="N", help="print N cases of each kind")
    made.add_argument("--endpoint", metavar="URL", help="learn with a model behind an OpenAI-compatible endpoint")
    made.add_argument("--model", metavar="NAME", help="the model's name there")
    made.add_argument("--json", type=Path, metavar="FILE", help="keep all numbers there; a stopped run goes on from it")
    return made


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    problem = None
    if options.endpoint and not options.model:
        problem = "Name the model at the endpoint: --model NAME."
    elif not (options.files or options.generate):
        problem = "There is nothing to measure: name a file, or give --generate N."
    in_a_folder(run, options, problem)


if __name__ == "__main__":
    main()
