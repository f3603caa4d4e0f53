"""Find the fate of a statement at each compaction, and in each call's prompt. Pure; texts are only compared.

A program that compacts does not say what it left out, so every verdict is *observed*: a statement is *kept* if its
words stand in the summary in their order, *reworded* if one sentence of the summary has all its stems, and else *gone*.
What is gone may come back: somebody says it again, or a tool reads it from a file.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from memory_core.coding.coding_session import Branch, Call, CodingSession, Lane, Window
from memory_core.coding.transcript import Item
from memory_core.planning.running_summary import sentences
from memory_core.text import stems, words

Fate = Literal["kept", "reworded", "said_again", "read_again", "subagent", "gone"]
"""`said_again`: gone from the summary, and said once more after it; `read_again`: a tool's result has it; `subagent`:
since then only a subagent has it."""

MIN_WORDS = 3
"""Words of a sentence that counts as a statement."""

_RULE = re.compile(
    r"\b(?:never|always|don'?t|do not|must(?:n'?t)?|should(?:n'?t)?|only|make sure|remember|from now on|instead of|"
    r"prefer|avoid|without|ensure|keep in mind|important|nie|immer|nicht|jamais|toujours|nunca|siempre|sempre)\b",
    re.IGNORECASE,
)
"""Words of a sentence that tells the agent how to work, and not only what to do next."""

WholeText = Callable[[Item], str]
"""Reads an item's whole text."""


class Wanted:
    """A phrase that is looked for in many texts."""

    def __init__(self, phrase: str) -> None:
        self.text = " ".join(phrase.split())
        self._words = words(self.text)
        self._run = f" {' '.join(self._words)} "
        self._longest = sorted(set(self._words), key=len)[-4:]
        self.stems = frozenset(stems(self.text))
        self._sentences = [wanted for sentence in sentences(self.text) if (wanted := frozenset(stems(sentence)))]

    def word_for_word(self, text: str) -> bool:
        """Return whether a text has the words in their order; case and punctuation make no difference."""
        folded = text.casefold()
        # Splitting a text into words takes long, and most texts lack one of them.
        if not self._words or not all(word in folded for word in self._longest):
            return not self._words and bool(self.text) and self.text in text
        return self._run in f" {' '.join(words(text))} "

    def in_other_words(self, text: "SplitText") -> str:
        """Return the sentences of a text that have all stems of this phrase, one for each of its own; else empty."""
        quotes = [next((s for s, has in text.sentences if wanted <= has), "") for wanted in self._sentences]
        return " … ".join(dict.fromkeys(quotes)) if quotes and all(quotes) and len(self.stems) > 1 else ""

    def nearest(self, text: "SplitText") -> tuple[str, int]:
        """Return the sentence that shares most stems with this phrase, and how many of them."""
        best = max(text.sentences, key=lambda sentence: len(self.stems & sentence[1]), default=("", frozenset()))
        shared = len(self.stems & best[1])
        return (best[0], shared) if shared else ("", 0)


class SplitText:
    """A text with the stems of its sentences, for many phrases."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def sentences(self) -> list[tuple[str, frozenset[str]]]:
        return [(sentence, frozenset(stems(sentence))) for sentence in sentences(self.text)]


@dataclass(frozen=True, slots=True)
class Sighting:
    """An item that has a phrase."""

    item: Item
    call: int | None
    """Number of the first call that was sent it; None if none was yet, and for subagents."""
    in_other_words: str = ""
    """The sentence, if it has the phrase's stems in other words; empty if word for word."""


@dataclass(frozen=True, slots=True)
class Crossing:
    """The fate of a phrase at one compaction."""

    window: Window
    """The window after it."""
    fate: Fate
    quote: str = ""
    """Sentence of the summary that has it, or shares most with it."""
    shared: int = 0
    """Stems that the quoted sentence shares with the phrase."""
    again: tuple[Sighting, ...] = ()
    """Items after it that have the phrase."""


@dataclass(frozen=True, slots=True)
class Trail:
    """A phrase through a session."""

    wanted: Wanted
    sightings: tuple[Sighting, ...]
    """In the session's own lane."""
    crossings: tuple[Crossing, ...]
    """The compactions after it was first said."""
    in_prompt: tuple[tuple[Call, bool], ...]
    """Each call of the branch, and True if it was sent the phrase."""
    subagents: tuple[Sighting, ...] = ()
    other_branches: tuple[tuple[int, Sighting], ...] = ()
    """Items that stand only in other branches, with the number of the branch."""
    unread: int = 0
    """Summaries that are missing: compactions of which the file has none."""

    @property
    def reached(self) -> bool:
        """Return whether the last call was sent it."""
        return bool(self.in_prompt) and self.in_prompt[-1][1]


def follow_phrase(session: CodingSession, phrase: str, branch: Branch | None = None) -> Trail:
    """Follow a phrase over a branch, by default the latest, and look for it in subagents and other branches."""
    lane = session.main
    branches = lane.branches
    branch = branch or (branches[0] if branches else Branch(1, (), (Window(0),)))
    wanted = Wanted(phrase)
    by_window = [_sightings(window, wanted, lane) for window in branch.windows]
    subagents = tuple(
        Sighting(item, None)
        for other in session.lanes.values()
        # The agent by which Claude Code compacts answers with the summary, which the session has.
        if not other.name.startswith("acompact-")
        for item in session.items(other, "user", "assistant", "tool_call", "tool_result", "injected")
        if wanted.word_for_word(other.whole(item))
    )
    in_prompt = []
    for window, seen in zip(branch.windows, by_window, strict=True):
        for call in window.calls:
            sent = {(item.line, item.part) for item in call.prompt} if seen else set()
            in_prompt.append((call, any((s.item.line, s.item.part) in sent for s in seen)))
    here = {(sighting.item.line, sighting.item.part) for seen in by_window for sighting in seen}
    elsewhere = [
        (other.number, Sighting(item, None))
        for other in branches
        if other.number != branch.number
        for step in other.steps
        for item in step.items
        if (item.line, item.part) not in here and wanted.word_for_word(lane.whole(item))
    ]
    return Trail(
        wanted,
        tuple(sighting for seen in by_window for sighting in seen),
        tuple(_crossings(branch, by_window, wanted, subagents)),
        tuple(in_prompt),
        subagents,
        tuple({(s.item.line, s.item.part): (number, s) for number, s in elsewhere}.values()),
        sum(not window.of("summary") for window in branch.compactions),
    )


def _sightings(window: Window, wanted: Wanted, lane: Lane) -> list[Sighting]:
    sightings = []
    for place, item in enumerate(window.items):
        text = lane.whole(item)
        exact = wanted.word_for_word(text)
        # Other words count where a text stands for what was said before; elsewhere they may be about anything.
        other = "" if exact or item.kind != "summary" else wanted.in_other_words(SplitText(text))
        if exact or other:
            call = next((call.number for call in window.calls if call.sent > place), None)
            sightings.append(Sighting(item, call, other))
    return sightings


def _crossings(
    branch: Branch, by_window: Sequence[Sequence[Sighting]], wanted: Wanted, subagents: Sequence[Sighting]
) -> Iterator[Crossing]:
    for number, window in enumerate(branch.windows):
        if window.boundary is None or not any(by_window[:number]):
            continue
        seen = by_window[number]
        summary = SplitText("\n".join(item.text for item in window.of("summary")))
        in_summary = [s for s in seen if s.item.kind == "summary"]
        carried = {(item.line, item.part) for item in window.items[: window.carried]}
        stays = [s for s in seen if (s.item.line, s.item.part) in carried]
        again = tuple(s for s in seen if s.item.kind != "summary" and s not in stays)
        quote, shared = wanted.nearest(summary)
        if stays or any(not sighting.in_other_words for sighting in in_summary):
            fate: Fate = "kept"
        elif in_summary:
            fate, quote = "reworded", in_summary[0].in_other_words
        elif any(s.item.kind in ("user", "assistant", "tool_call", "injected") for s in again):
            fate = "said_again"
        elif again:
            fate = "read_again"
        else:
            # A subagent that was started earlier may still work on it.
            after = window.boundary.at or 0
            later = any((s.item.at or 0) >= after for s in subagents)
            fate = "subagent" if later else "gone"
        yield Crossing(window, fate, quote, shared, again)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence that was said before a compaction, and what became of it there."""

    text: str
    item: Item
    fate: Fate
    quote: str
    is_rule: bool
    """True if it tells the agent how to work, judged by its words."""
    back_after: int | None = None
    """Calls after the compaction until it was in a prompt again; 0 if it was never out, None if it never came back."""


def statements_at(
    session: CodingSession, branch: Branch, window: Window, kinds: Iterable[str] = ("user",)
) -> list[Statement]:
    """Return what was said by some kinds of items in the window before a compaction, rules first, each with its fate.

    `window` begins with the compaction. A sentence that was said more than once counts once.
    """
    before = branch.windows[window.number - 1]
    summary = SplitText("\n".join(session.main.whole(item) for item in window.of("summary")))
    carried = {(item.line, item.part) for item in window.items[: window.carried]}
    later = [
        (place, item, session.main.whole(item)) for place, item in enumerate(window.items) if item.kind != "summary"
    ]
    statements: dict[str, Statement] = {}
    for item in before.items:
        if item.kind not in kinds:
            continue
        for sentence in sentences(session.main.whole(item)):
            key = " ".join(words(sentence))
            if key not in statements and key.count(" ") >= MIN_WORDS - 1:
                stays = (item.line, item.part) in carried
                statements[key] = _statement(sentence, item, stays, summary, later, window)
    return sorted(
        statements.values(), key=lambda one: (not one.is_rule, one.fate in ("kept", "reworded"), one.item.line)
    )


def _statement(
    sentence: str,
    item: Item,
    stays: bool,
    summary: SplitText,
    later: Sequence[tuple[int, Item, str]],
    window: Window,
) -> Statement:
    wanted, is_rule = Wanted(sentence), bool(_RULE.search(sentence))
    if stays or wanted.word_for_word(summary.text):
        return Statement(sentence, item, "kept", "", is_rule, 0)
    if quote := wanted.in_other_words(summary):
        return Statement(sentence, item, "reworded", quote, is_rule, 0)
    quote, _ = wanted.nearest(summary)
    # Items after the compaction in their order: the first that has it decides.
    for place, other, text in later:
        if wanted.word_for_word(text):
            fate: Fate = "read_again" if other.kind == "tool_result" else "said_again"
            calls = sum(call.sent <= place for call in window.calls)
            return Statement(sentence, item, fate, quote, is_rule, calls)
    return Statement(sentence, item, "gone", quote, is_rule)
