"""The fate of phrases of the real sessions, judged a second time from the raw files.

The judge reads JSON and compares words, and shares nothing with the code that it judges but the stemmer.
"""

import json
import random
import re
import unicodedata
from collections import Counter

import pytest
from shared_data import shared

from memory_core.text import stems
from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.statement_fates import follow_phrase

SESSIONS = "4d5611e5-241a-462a-8d15-5122611a9569", "8463c716-a2ea-4c14-9efa-87158ebd9f20"
PHRASES, SEED = 100, 20260212
"""Phrases of each session."""

WORD = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_][^\W_]*(?:'[^\W_]+)*")
"""A number with its decimals, or a word with its apostrophes."""


def normalised(text):
    return unicodedata.normalize("NFKC", text).replace("’", "'")


def run(text):
    """The words of a text between spaces."""
    return f" {' '.join(WORD.findall(normalised(text).lower()))} "


def strings(value):
    """Every text in a JSON value, however deep."""
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(inner)


def texts(record):
    """The texts of a message, each with `tool` if a tool's result has it."""
    content = record.get("message", {}).get("content", [])
    for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
        match part["type"]:
            case "text":
                yield "said", part["text"]
            case "thinking":
                yield "thought", part["thinking"]
            case "tool_use":
                yield from (("called", text) for text in strings(part["input"]))
            case "tool_result":
                yield "tool", "\n".join(text for text in strings(part["content"]) if text not in ("text", "image"))


class Judge:
    def __init__(self, name):
        path = shared(f"claude-code/{name}.jsonl")
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        (boundary,) = [n for n, record in enumerate(records) if record.get("subtype") == "compact_boundary"]
        messages = [record for record in records if record["type"] in ("user", "assistant")]
        position = {id(record): n for n, record in enumerate(records)}
        self.before = [
            text
            for record in messages
            if position[id(record)] < boundary
            for kind, text in texts(record)
            if kind in ("said", "tool")
        ]
        ((_, self.summary),) = texts(records[boundary + 1])
        assert records[boundary + 1]["isCompactSummary"]
        self.kept = run(self.summary)
        later = [pair for record in messages if position[id(record)] > boundary + 1 for pair in texts(record)]
        self.said = [run(text) for kind, text in later if kind != "tool"]
        self.tools = [run(text) for kind, text in later if kind == "tool"]
        self.subagents = [
            run(text)
            for file in path.with_suffix("").glob("subagents/*.jsonl")
            for record in map(json.loads, file.read_text(encoding="utf-8").splitlines())
            if record["type"] in ("user", "assistant") and record["timestamp"] >= records[boundary]["timestamp"]
            for _, text in texts(record)
        ]
        self.sentences = [set(stems(s)) for s in re.split(r"(?<=[.!?…])[\"'”’»)\]]*\s|\n", self.summary)]

    def phrases(self, count, seed):
        """Runs of 4 to 12 words from texts before the compaction, as they stand there."""
        chance = random.Random(seed)
        long_enough = [text for text in self.before if len(WORD.findall(text)) >= 4]
        for _ in range(count):
            text = chance.choice(long_enough)
            words = list(WORD.finditer(text))
            size = chance.randint(4, min(12, len(words)))
            first = chance.randint(0, len(words) - size)
            yield text[words[first].start() : words[first + size - 1].end()]

    def fate(self, phrase):
        wanted = run(phrase)
        if wanted in self.kept:
            return "kept"
        if self.in_one_sentence(phrase):
            return "reworded"
        for fate, where in (("said_again", self.said), ("read_again", self.tools), ("subagent", self.subagents)):
            if any(wanted in text for text in where):
                return fate
        return "gone"

    def in_one_sentence(self, phrase):
        wanted = set(stems(phrase))
        return len(wanted) > 1 and any(wanted <= sentence for sentence in self.sentences)


@pytest.fixture(scope="module")
def judged():
    """Each phrase with our verdict, the judge's, and whether one sentence of the summary has all of its words."""
    result = []
    for name in SESSIONS:
        judge = Judge(name)
        session = CodingSession(shared(f"claude-code/{name}.jsonl"), ClaudeCodeReader)
        session.follow()
        for phrase in judge.phrases(PHRASES, SEED):
            (compaction,) = follow_phrase(session, phrase).fates
            result.append((phrase, compaction.fate, judge.fate(phrase), judge.in_one_sentence(phrase)))
    return result


@pytest.mark.data
def test_at_least_98_of_100_verdicts_are_those_of_the_judge(judged):
    assert len(judged) == 2 * PHRASES
    assert len({its for _, _, its, _ in judged}) >= 4, Counter(its for _, _, its, _ in judged)
    wrong = [(phrase, ours, its) for phrase, ours, its, _ in judged if ours != its]
    assert len(wrong) <= 0.02 * len(judged), wrong


@pytest.mark.data
def test_reworded_is_claimed_only_where_one_sentence_of_the_summary_has_all_words(judged):
    claims = [in_one_sentence for _, ours, _, in_one_sentence in judged if ours == "reworded"]
    assert claims
    assert all(claims)
