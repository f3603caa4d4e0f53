"""Differences between two prompts, part by part, and the length of their common beginning.

Pure. An item cut from a prompt is not in it, so it counts as removed like any other missing item.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import takewhile

from memory_core.history.prompt import MARKUP, Entry, Prompt, PromptPart
from memory_core.messages import ChatMessage, Part, TextPart, ThinkingPart
from memory_core.tokens import MESSAGE_OVERHEAD, TokenCounter


@dataclass(frozen=True, slots=True)
class Difference:
    """Something present in only one of two prompts: a message, a fact, a stored turn, or a line of text."""

    words: str | None
    """Text; None if it was erased since."""
    turn: int | None = None
    role: str | None = None
    cut: bool = False
    """True for a removed item that the later prompt requested, but that was cut."""


@dataclass(frozen=True, slots=True)
class PartDiff:
    """Part of the later prompt compared with the same part of the earlier one."""

    part: PromptPart
    """The later prompt's part; the earlier prompt's if the later has none."""
    before: int
    """Tokens granted in the earlier prompt."""
    after: int
    removed: tuple[Difference, ...]
    added: tuple[Difference, ...]
    reordered: bool
    """True if the items that both prompts have are in a different order."""

    @property
    def changed(self) -> bool:
        return bool(self.removed or self.added or self.reordered)


def diff_prompts(before: Prompt, after: Prompt) -> tuple[PartDiff, ...]:
    """Compare every part of two prompts: the later one's parts in order, then parts only in the earlier one.

    Markup that belongs to no part is the last of them where its size differs, so that all add up to the prompts.
    """
    earlier = {(part.kind, part.name): part for part in before.parts}
    pairs = [(earlier.pop((part.kind, part.name), None), part) for part in after.parts]
    gone = [_diff(part, None) for part in earlier.values()]
    around = PromptPart(MARKUP, "markup", None, after.around_asked, after.around, ())
    markup = PartDiff(around, before.around, after.around, (), (), reordered=False)
    return (*(_diff(old, new) for old, new in pairs), *gone, *([markup] if markup.before != markup.after else []))


def _diff(before: PromptPart | None, after: PromptPart | None) -> PartDiff:
    part = after or before
    assert part is not None
    old, new = before.included if before else (), after.included if after else ()
    asked = {_identity(entry) for entry in after.left_out} if after else set()
    # Such a block is one text: compared as a whole, a changed line would remove and add all of it.
    if part.kind in ("static", "custom"):
        removed, added = _lines(old, new)
        reordered = False
    else:
        had, has = {_identity(entry) for entry in old}, {_identity(entry) for entry in new}
        removed = tuple(_whole(e, cut=_identity(e) in asked) for e in old if _identity(e) not in has)
        added = tuple(_whole(e) for e in new if _identity(e) not in had)
        both = had & has
        reordered = [_identity(e) for e in old if _identity(e) in both] != [
            _identity(e) for e in new if _identity(e) in both
        ]
    return PartDiff(part, before.granted if before else 0, after.granted if after else 0, removed, added, reordered)


def _identity(entry: Entry) -> tuple[str, str | None]:
    # Both count: a fact keeps its ref when it is reworded, and two pieces may have equal words.
    return entry.ref, entry.words


def _whole(entry: Entry, *, cut: bool = False) -> Difference:
    return Difference(entry.words, entry.turn, entry.role, cut)


def _lines(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Return the removed and the added lines of a text."""
    # Refs of texts are hashes, so equal refs are equal texts.
    if [entry.ref for entry in old] == [entry.ref for entry in new]:
        return (), ()
    before, after = _text(old), _text(new)
    removed: list[Difference] = []
    added: list[Difference] = []
    # By default, `SequenceMatcher` ignores lines that are frequent in a long text.
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += [Difference(line) for line in before[a:b]]
            added += [Difference(line) for line in after[c:d]]
    return tuple(removed), tuple(added)


def _text(entries: Sequence[Entry]) -> list[str | None]:
    lines: list[str | None] = []
    for entry in entries:
        lines += [None] if entry.words is None else entry.words.splitlines()
    return lines


def shared_prefix_tokens(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], counter: TokenCounter, in_front: Sequence[int] = (0, 0)
) -> int:
    """Return the billed tokens of the common beginning of two message lists, which a prompt cache can reuse.

    Counts whole messages, then the first parts of the first message that differs, then the first tokens of the first
    part that differs. The overhead of a message is counted if its role is the same. `in_front` are the tokens before
    each list that memory does not write; if they differ, nothing is shared.
    """
    tokens = in_front[0]
    if tokens != in_front[1]:
        return 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            return tokens + _same_start_within(old, new, counter)
        tokens += counter.message(new).billed
    return tokens


def _same_start_within(old: ChatMessage, new: ChatMessage, counter: TokenCounter) -> int:
    if old.role is not new.role:
        return 0
    tokens = MESSAGE_OVERHEAD
    for before, after in zip(old.parts, new.parts, strict=False):
        if before != after:
            return tokens + _same_tokens(before, after, counter)
        tokens += counter.part(after)
    return tokens


def _same_tokens(old: Part, new: Part, counter: TokenCounter) -> int:
    # An image or a call is sent whole or not at all: it has no beginning to share.
    if not (isinstance(old, TextPart | ThinkingPart) and isinstance(new, TextPart | ThinkingPart)):
        return 0
    if old.type != new.type:
        return 0
    pairs = zip(counter.tokenizer(old.text), counter.tokenizer(new.text), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
