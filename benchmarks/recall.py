"""Evidence recall: does the prompt that memory builds hold the words that answer the question?

    python benchmarks/recall.py FILE [FILE ...] [--audit FILE] [--json FILE] [--budgets 1000,2000]

Files are LoCoMo's (a list of conversations with `qa`) or BEAM's (one conversation with
`probing_questions`). Each conversation is replayed through the public API into a fresh engine, and
every question asked by `build_context` under each token limit. What counts is the whole rendered
prompt, markup included; over the limit by one token scores nothing. No model, no network, and no look
at a question before it is asked.

ER-4 is the mean over the four budgets. Category 5 of LoCoMo (questions about what was never said that
way) stands apart, as a guard. Conversations that `--json` holds already are not measured again.
"""

import argparse
import json
import re
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from memory_core import ChatMessage, Memory
from memory_core.messages import message_text
from memory_core.tokens import default_counter

BUDGETS = (1_000, 2_000, 4_000, 8_000)
GUARD = "5"
"""LoCoMo's adversarial questions: reported apart."""

TOKENS_A_TURN = 30
"""About what a stored turn costs: as many are asked for as a budget may hold."""

GOAL_P95_MS, GOAL_TURNS_A_SECOND = 50.0, 100.0

_EVIDENCE = re.compile(r"D:?(\d+):(\d+)")
_MARK = re.compile(r"\s*->->\s*\d+,\d+\s*$")


@dataclass(frozen=True)
class Question:
    """What is asked, and the texts that a good prompt holds."""

    words: str
    category: str
    evidence: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    name: str
    messages: tuple[ChatMessage, ...]
    questions: tuple[Question, ...]


@dataclass
class Result:
    """One conversation: a score for each question, by budget, and what it took."""

    name: str
    turns: int
    seconds: float
    """Of putting all messages."""
    milliseconds: list[float] = field(default_factory=list)
    """Of each `build_context`."""
    scores: dict[str, list[tuple[str, float]]] = field(default_factory=dict)
    """By budget: category and share of the evidence found, for each question."""
    over: int = 0
    """Prompts above their budget."""
    stable: bool = True
    """Did asking change nothing, and asking again give the same prompt?"""


# -- reading the files ---------------------------------------------------------------------------


def conversations(path: Path, audit: dict[tuple[str, str], tuple[str, ...]]) -> Iterator[Conversation]:
    data = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(data, list):
        yield from (_locomo(entry, number, audit) for number, entry in enumerate(data))
    else:
        yield _beam(data, path.stem)


def _locomo(entry: dict[str, Any], number: int, audit: dict[tuple[str, str], tuple[str, ...]]) -> Conversation:
    told = entry["conversation"]
    texts: dict[str, str] = {}
    messages = []
    sessions = sorted((key for key in told if re.fullmatch(r"session_\d+", key)), key=lambda key: int(key[8:]))
    for session in sessions:
        for line in told[session]:
            texts[line["dia_id"]] = line["text"]
            caption = f" [shares {line['blip_caption']}]" if line.get("blip_caption") else ""
            date = told.get(f"{session}_date_time", "")
            role = "user" if line["speaker"] == told["speaker_a"] else "assistant"
            words = f"[{date}] {line['speaker']}: {line['text']}{caption}"
            messages.append(ChatMessage(role=role, content=words))
    name = str(entry.get("sample_id", number))
    questions = []
    for qa in entry["qa"]:
        cited = audit.get((name, qa["question"])) or tuple(
            f"D{int(a)}:{int(b)}" for given in qa.get("evidence", ()) for a, b in _EVIDENCE.findall(str(given))
        )
        evidence = tuple(texts[id] for id in dict.fromkeys(cited) if id in texts)
        if evidence:
            questions.append(Question(qa["question"], str(qa["category"]), evidence))
    return Conversation(name, tuple(messages), tuple(questions))


def _beam(data: dict[str, Any], name: str) -> Conversation:
    texts, messages = {}, []
    for message in data["messages"]:
        words = _MARK.sub("", message["content"])
        texts[str(message["id"])] = words
        messages.append(ChatMessage(role=message["role"], content=words))
    users = {str(message["id"]) for message in data["messages"] if message["role"] == "user"}
    questions = [
        Question(asked["question"], kind, tuple(texts[id] for id in cited))
        for kind, several in data["probing_questions"].items()
        for asked in several
        if (cited := list(dict.fromkeys(_ids(asked.get("source_chat_ids"))))) and set(cited) <= users
    ]
    return Conversation(name, tuple(messages), tuple(questions))


def _ids(given: Any) -> list[str]:
    """Ids of messages, however deeply they are listed."""
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list):
        return [id for item in given for id in _ids(item)]
    return [str(given)] if given is not None else []


def read_audit(path: Path | None, files: Sequence[Path]) -> dict[tuple[str, str], tuple[str, ...]]:
    """Corrected evidence, by conversation and question."""
    if path is None:
        return {}
    names: list[str] = []
    for file in files:
        data = json.loads(file.read_text(encoding="utf-8"))
        names += (
            [str(entry.get("sample_id", number)) for number, entry in enumerate(data)] if isinstance(data, list) else []
        )
    found = {}
    for entry in json.loads(path.read_text(encoding="utf-8")):
        correct = tuple(
            f"D{int(a)}:{int(b)}" for given in entry.get("correct_evidence") or () for a, b in _EVIDENCE.findall(given)
        )
        found.update({(name, entry["question"]): correct for name in names if correct})
    return found


# -- measuring -----------------------------------------------------------------------------------


def measure(conversation: Conversation, budgets: Sequence[int], folder: Path) -> Result:
    """Replay a conversation, and ask it everything under every budget."""
    memory = Memory.from_recipe(
        "vector", conversation.name, database_uri=f"sqlite:///{folder}/{conversation.name}.db", accounting="billed"
    )
    start = time.perf_counter()
    for place in range(0, len(conversation.messages), 200):
        memory.put_messages(conversation.messages[place : place + 200])
    memory.flush(all=True)
    memory.deliver()
    result = Result(conversation.name, len(conversation.messages), time.perf_counter() - start)
    counter = default_counter("cl100k_base")
    for budget in budgets:
        memory.configure(token_limit=budget, chat_history_token_ratio=0.1)
        memory.configure_block(
            memory.blocks[0].name, similarity_top_k=max(1, budget // TOKENS_A_TURN), retrieval_context_window=1
        )
        position = memory.status().position
        for number, question in enumerate(conversation.questions):
            start = time.perf_counter()
            context = memory.build_context(question.words, record=False)
            result.milliseconds.append(1000 * (time.perf_counter() - start))
            prompt = "\n".join(message_text(message) for message in context.messages)
            score = 0.0
            if counter.text(prompt) <= budget:
                score = share(question.evidence, prompt)
            else:
                result.over += 1
            result.scores.setdefault(str(budget), []).append((question.category, score))
            if number == 0:
                again = memory.build_context(question.words, record=False)
                result.stable &= again.messages == context.messages
        result.stable &= memory.status().position == position
        print(f"\r  {conversation.name}: {budget:,} tokens done", end="", file=sys.stderr, flush=True)
    memory.database.close()
    return result


def share(evidence: Sequence[str], prompt: str) -> float:
    """How much of the evidence stands in the prompt word for word, white space aside."""
    held = _one_space(prompt)
    return sum(_one_space(text) in held for text in evidence) / len(evidence)


def _one_space(text: str) -> str:
    return " ".join(text.replace("&lt;", "<").split())


# -- telling -------------------------------------------------------------------------------------


def report(results: Sequence[Result], budgets: Sequence[int]) -> None:
    """The tables: recall by budget, by category, and what it took."""
    print(f"\n{'questions about':<28}{'asked':>7}" + "".join(f"{budget:>16,}" for budget in budgets) + f"{'ER-4':>9}")
    rows: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        for budget in budgets:
            for category, score in result.scores[str(budget)]:
                rows[category][budget].append(score)
                if category != GUARD:
                    rows["all"][budget].append(score)
    for category in ["all", *sorted(rows.keys() - {"all"})]:
        name = {"all": "everything", GUARD: "5 (guard)"}.get(category, category)
        scores = [rows[category][budget] for budget in budgets]
        cells = "".join(
            f"{100 * statistics.mean(s):9.1f} ({100 * sum(v == 1 for v in s) / len(s):.1f})" for s in scores
        )
        mean = statistics.mean(statistics.mean(s) for s in scores)
        print(f"{name:<28}{len(scores[0]):>7}{cells}{100 * mean:9.1f}")
    times = sorted(ms for result in results for ms in result.milliseconds)
    p95 = times[int(0.95 * (len(times) - 1))]
    rate = sum(result.turns for result in results) / sum(result.seconds for result in results)
    print()
    for what, value, passed in (
        ("p95 of build_context, ms", f"{p95:.0f}", p95 < GOAL_P95_MS),
        ("messages ingested a second", f"{rate:.0f}", rate >= GOAL_TURNS_A_SECOND),
        ("prompts over their budget", str(sum(result.over for result in results)), not any(r.over for r in results)),
        ("asking changes nothing", "", all(result.stable for result in results)),
    ):
        print(f"{what:<34}{value:>8}  {'pass' if passed else 'miss'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--audit", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    options = parser.parse_args()
    budgets = [int(budget) for budget in options.budgets.split(",")]
    audit = read_audit(options.audit, options.files)
    known = json.loads(options.json.read_text()) if options.json and options.json.exists() else {}
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for file in options.files:
            for conversation in conversations(file, audit):
                if conversation.name not in known:
                    known[conversation.name] = asdict(measure(conversation, budgets, Path(folder)))
                    if options.json:
                        options.json.write_text(json.dumps(known))
                results.append(Result(**known[conversation.name]))
    print("\r" + " " * 60, end="\r", file=sys.stderr)
    report(results, budgets)


if __name__ == "__main__":
    main()
