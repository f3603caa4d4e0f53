"""Parts of the prompt of each call: the API's number of tokens, shared out over the items of the session. Pure.

The API counts a prompt as a whole. Between two calls of a window it grows by the items in between, so their sizes are
known; within them the growth is shared out by our own count. What is in no item (system prompt, tools, memory files
that are loaded at the start) is the remainder: `UNSEEN`. Where a prompt was read as it was sent, nothing remains. The
parts of a call always add up to the API's number.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from memory_inspector.coding.coding_session import Branch, Call, Window
from memory_inspector.coding.transcript import TranscriptItem

UNSEEN = "System, tools, other"
"""Part of a prompt that no item explains."""

SUBAGENTS = frozenset({"Task", "Agent"})
"""Tools that start a subagent."""

MIN_RATIO, MAX_RATIO = 0.5, 2.0
"""Least and most tokens of the API for one token of ours: outside of these, something else came or went."""

USUAL_RATIO = 1.2
"""Tokens of the API for one of ours, where a window has too few calls to tell."""

FRAMES = {"tool_call": 50, "tool_result": 25}
"""Tokens around a call of a tool and its result, beside their texts: ids, names, JSON. Measured as the growth of
prompts by calls with next to no text, in sessions of Claude Code 2.1."""

MAX_COUNTED = 4_000
"""Characters of an item that are counted, of its beginning and its end; the rest counts in proportion."""

MIN_CALLS = 3
"""Calls of a window that tell its ratio."""

Count = Callable[[str], int]
"""Counter of a text's tokens."""


@dataclass(frozen=True, slots=True)
class CallParts:
    """The prompt of one call by parts."""

    call: Call
    parts: Mapping[str, int]
    """Tokens by part, `UNSEEN` included unless the prompt is exact; they add up to the prompt's."""


@dataclass(frozen=True, slots=True)
class SizedItem:
    """An item with its size, and whether anything refers to it."""

    item: TranscriptItem
    part: str
    tokens: int
    calls: int
    """Calls that it was sent with."""
    referred: bool | None
    """False if no later answer or call has a word that this result was the first to bring; None for other items."""


MAX_KNOWN = 200_000, 1_000_000
"""Context windows of the models, in tokens, the usual one first."""


def model_limit(calls: Sequence[Call], reported: str | None) -> int:
    """Return the context window in tokens: as the program reports it, else the least usual one that fits all calls."""
    if reported:
        return int(reported)
    largest = max((call.usage.prompt for call in calls), default=0)
    return next((size for size in MAX_KNOWN if size >= largest), largest)


def part_of(item: TranscriptItem) -> str:
    """Return the part of a prompt that an item is in."""
    match item.kind:
        case "user":
            return "User"
        case "assistant":
            return "Assistant"
        case "summary":
            return "Summary"
        case "tool_call":
            return "Tool calls"
        case "tool_result" if item.tool in SUBAGENTS:
            return "Results of subagents"
        case "tool_result":
            return f"Results of {item.tool or 'tools'}"
        case "thinking":
            return "Thinking"
        case _ if item.in_each_call:
            return "Tools" if item.tool else "System prompt"
        case _:
            return "Memory files" if item.path.endswith(".md") else "Added by the program"


class PartSizes:
    """Sizes of all items of a branch, in tokens of the model's API."""

    def __init__(self, branch: Branch, count: Count) -> None:
        self._count = count
        self._counted: dict[tuple[str, int, int, int, int], int] = {}
        self.of_window = {window.number: self._sizes(window) for window in branch.windows}

    def counted(self, item: TranscriptItem) -> int:
        """Return an item's size as we count it."""
        key = item.lane, item.file, item.line, item.part, item.characters
        if key not in self._counted:
            text = item.text
            if len(text) > MAX_COUNTED:
                text = text[: MAX_COUNTED // 2] + text[-MAX_COUNTED // 2 :]
            tokens = self._count(text) * item.characters / len(text) if text else 0
            self._counted[key] = round(tokens) + FRAMES.get(item.kind, 0)
        return self._counted[key]

    def _sizes(self, window: Window) -> list[float]:
        counts = [self.counted(item) for item in window.items]
        growths = [
            (before.sent, after.sent, after.usage.prompt - before.usage.prompt)
            for before, after in zip(window.calls, window.calls[1:], strict=False)
        ]
        ratios = [
            growth / ours
            for first, end, growth in growths
            if (ours := sum(counts[first:end])) and MIN_RATIO <= growth / ours <= MAX_RATIO
        ]
        # The median: single calls also carry reminders and other text that the file does not hold.
        usual = sorted(ratios)[len(ratios) // 2] if len(ratios) >= MIN_CALLS else USUAL_RATIO
        sizes = [usual * tokens for tokens in counts]
        for first, end, growth in growths:
            # Where the growth cannot come from these items, the remainder takes it.
            ours = sum(counts[first:end])
            if ours and MIN_RATIO <= growth / ours <= MAX_RATIO:
                sizes[first:end] = [tokens * growth / ours for tokens in counts[first:end]]
        return sizes


def parts_over_calls(branch: Branch, sizes: PartSizes) -> list[CallParts]:
    """Return the parts of every call's prompt, in order."""
    result = []
    for window in branch.windows:
        sized = sizes.of_window[window.number]
        totals: dict[str, float] = {}
        done = 0
        cleared = sorted((at, place) for place, at in window.cleared.items())
        for call in window.calls:
            for place in range(done, call.sent):
                part = part_of(window.items[place])
                totals[part] = totals.get(part, 0) + sized[place]
            done = call.sent
            # What a program took out, such as cleared results, was in earlier prompts only.
            while cleared and cleared[0][0] <= call.sent:
                _, place = cleared.pop(0)
                totals[part_of(window.items[place])] -= sized[place]
            result.append(CallParts(call, _adding_up(totals, call)))
    return result


def _adding_up(totals: Mapping[str, float], call: Call) -> dict[str, int]:
    """Round the parts, and add the remainder; if they exceed the prompt, or are all of it, they are scaled alike."""
    # Our sizes may exceed the API's where a program shortened results before it sent them.
    prompt, explained = call.usage.prompt, sum(totals.values())
    scale = prompt / explained if explained and (call.exact or explained > prompt) else 1.0
    parts = {part: rounded for part, tokens in totals.items() if (rounded := int(tokens * scale))}
    rest = prompt - sum(parts.values())
    if call.exact and parts:
        parts[max(parts, key=parts.__getitem__)] += rest
        return parts
    return {UNSEEN: rest, **parts}


_TERM = re.compile(r"[A-Za-z_][\w./-]{4,}")
"""A word that can tell one result from another: names of files, functions and variables."""


def sized_items(branch: Branch, sizes: PartSizes) -> list[SizedItem]:
    """Return every item of a branch with its size, the largest first.

    A result of a tool is referred to if a later answer, or a later call of a tool, has a word that nothing before this
    result had. Inferred from words alone: a model may use a text without repeating a word of it.
    """
    result = []
    for window in branch.windows:
        referred = _referred(window.items)
        sized = sizes.of_window[window.number]
        for place, item in enumerate(window.items):
            calls = window.calls_with(place)
            if calls and not item.carried:
                result.append(SizedItem(item, part_of(item), round(sized[place]), calls, referred[place]))
    return sorted(result, key=lambda one: -one.tokens)


def _referred(items: Sequence[TranscriptItem]) -> list[bool | None]:
    # Two passes: a word belongs to the first item that has it.
    terms = [set(_TERM.findall(item.text)) for item in items]
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for place, item in enumerate(items):
        for term in terms[place]:
            first.setdefault(term, place)
        if item.kind in ("assistant", "tool_call"):
            last.update(dict.fromkeys(terms[place], place))
    return [
        any(first[term] == place < last.get(term, -1) for term in terms[place]) if item.kind == "tool_result" else None
        for place, item in enumerate(items)
    ]
