"""Find the fate of a statement at each compaction, and in each call's prompt. Pure; texts are only compared.

A program that compacts does not say what it left out, so every verdict is *observed*: a statement is *kept* if its
words stand in the summary in their order, *reworded* if one sentence of the summary has all its stems, and else *gone*.
What is gone may come back: somebody says it again, or a tool reads it from a file.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import Literal

from memory_core.planning.phrase_matching import Phrase, squeezed
from memory_core.planning.running_summary import sentences
from memory_core.text import words
from memory_inspector.coding.coding_session import Branch, Call, CodingSession, Lane, Window
from memory_inspector.coding.transcript import ENCRYPTED, TranscriptItem

Fate = Literal["kept", "reworded", "said_again", "read_again", "subagent", "gone"]
"""`said_again`: gone from the summary, and said once more after it; `read_again`: a tool's result has it; `subagent`:
since then only a subagent has it."""

LACKING = "messages that its calls were sent"
"""Texts that a damaged file lacks, where its prompts name them."""

MIN_WORDS = 3
"""Words of a sentence that counts as a statement."""

_RULE = re.compile(
    r"\b(?:never|always|don'?t|do not|must(?:n'?t)?|should(?:n'?t)?|only|make sure|remember|from now on|instead of|"
    r"prefer|avoid|without|ensure|keep in mind|important|nie|immer|nicht|jamais|toujours|nunca|siempre|sempre)\b",
    re.IGNORECASE,
)
"""Words of a sentence that tells the agent how to work, and not only what to do next."""


class IndexedTexts:
    """Texts in which many phrases are looked for, indexed by their letters."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = texts
        # Each reading of a text has a line.
        letters = [squeezed(text) for text in texts]
        self._letters = "\n\n".join(letters)
        self._starts = list(accumulate((len(row) + 2 for row in letters), initial=0))

    def first(self, wanted: Phrase) -> int | None:
        """Return the place of the first text that has a phrase word for word; None if none has."""
        for row in filter(None, wanted.rows):
            start = 0
            while (begin := self._letters.find(row, start)) >= 0:
                place = bisect_right(self._starts, begin) - 1
                if wanted.verbatim_in(self._texts[place]):
                    return place
                start = self._starts[place + 1]
        return None


def has_summary(window: Window) -> bool:
    """Return whether a window's summary can be read: some files have none, or an encrypted one."""
    return any(item.text != ENCRYPTED for item in window.of("summary"))


def _summary(lane: Lane, window: Window) -> str:
    return "\n".join(lane.whole(item) for item in window.of("summary"))


@dataclass(frozen=True, slots=True)
class Occurrence:
    """An item that has a phrase."""

    item: TranscriptItem
    call: int | None
    """Number of the first call that was sent it; None if none was yet, and for subagents."""
    in_other_words: str = ""
    """The sentence, if it has the phrase's stems in other words; empty if word for word."""


@dataclass(frozen=True, slots=True)
class CompactionFate:
    """The fate of a phrase at one compaction."""

    window: Window
    """The window after it."""
    fate: Fate
    quote: str = ""
    """Sentence of the summary that has it, or shares most with it."""
    shared: int = 0
    """Stems that the quoted sentence shares with the phrase."""
    again: tuple[Occurrence, ...] = ()
    """Items after it that have the phrase."""


@dataclass(frozen=True, slots=True)
class PhraseTrail:
    """A phrase through a session."""

    wanted: Phrase
    occurrences: tuple[Occurrence, ...]
    """In the session's own lane."""
    fates: tuple[CompactionFate, ...]
    """The compactions after it was first said."""
    in_prompt: tuple[tuple[Call, bool], ...]
    """Each call of the branch, and True if it was sent the phrase."""
    subagents: tuple[Occurrence, ...] = ()
    other_branches: tuple[tuple[int, Occurrence], ...] = ()
    """Items that stand only in other branches, with the number of the branch."""
    unread: int = 0
    """Compactions whose summary is not in the file, or is encrypted: what they kept is unknown."""
    unseen: str = ""
    """Texts that its prompts have and its file has not."""
    deletes: bool = False
    """True if something was taken back, and the program deleted it from the file."""

    @property
    def is_unknown(self) -> bool:
        """Return whether prompts may have it though nothing in the file has."""
        return bool(self.unseen) and not self.occurrences and not self.other_branches

    @property
    def reached(self) -> bool:
        """Return whether the last call was sent it."""
        return bool(self.in_prompt) and self.in_prompt[-1][1]


def follow_phrase(session: CodingSession, phrase: str, branch: Branch | None = None) -> PhraseTrail:
    """Follow a phrase over a branch, by default the latest, and look for it in subagents and other branches."""
    lane = session.main
    branches = lane.branches
    branch = branch or (branches[0] if branches else Branch(1, (), (Window(0),)))
    wanted = Phrase.of(phrase)
    by_window = [_occurrences(window, wanted, lane) for window in branch.windows]
    of_subagents = ((item, other.whole(item)) for other, item in _of_subagents(session))
    subagents = tuple(occurrence for item, text in of_subagents if (occurrence := _occurrence(item, text, wanted)))
    in_prompt = [
        (call, any(call.sends(place) for place in seen))
        for window, seen in zip(branch.windows, by_window, strict=True)
        for call in window.calls
    ]
    elsewhere = []
    done = {step.id for step in branch.steps}
    for other in branches:
        steps = [step for step in other.steps if step.id not in done]
        done.update(step.id for step in steps)
        having = (_occurrence(item, lane.whole(item), wanted) for step in steps for item in step.items)
        elsewhere += [(other.number, occurrence) for occurrence in having if occurrence]
    return PhraseTrail(
        wanted,
        tuple(occurrence for seen in by_window for occurrence in seen.values()),
        tuple(_fates(branch, by_window, wanted, subagents, lane)),
        tuple(in_prompt),
        subagents,
        tuple(elsewhere),
        sum(not has_summary(window) for window in branch.compactions),
        session.unseen or (LACKING if any(call.lacks_messages for call in branch.calls) else ""),
        "deleted" in lane.about,
    )


def _of_subagents(session: CodingSession) -> Iterator[tuple[Lane, TranscriptItem]]:
    """Yield what was said to and by subagents, and what they read, each with its lane."""
    for lane in session.lanes.values():
        # The agent by which Claude Code compacts answers with the summary, which the session has.
        if not lane.name.startswith("acompact-"):
            for item in session.items(lane, "user", "assistant", "tool_call", "tool_result", "injected"):
                yield lane, item


def _is_after(item: TranscriptItem, window: Window) -> bool:
    """Return whether a subagent's item is from after a compaction: one started earlier may still work on it."""
    return window.boundary is not None and (item.at or 0) >= (window.boundary.at or 0)


def _occurrences(window: Window, wanted: Phrase, lane: Lane) -> dict[int, Occurrence]:
    """Return the items of a window that have a phrase, by their place."""
    occurrences = {}
    for place, item in enumerate(window.items):
        if occurrence := _occurrence(item, lane.whole(item), wanted):
            before = window.calls_before(place)
            call = window.calls[before].number if before < len(window.calls) else None
            occurrences[place] = replace(occurrence, call=call)
    return occurrences


def _occurrence(item: TranscriptItem, text: str, wanted: Phrase) -> Occurrence | None:
    """Return that an item has a phrase, None if it has not.

    Other words count where a text stands for what was said before; elsewhere they may be about anything, but for the
    inflected forms of a single word.
    """
    if wanted.verbatim_in(text):
        return Occurrence(item, None)
    if item.kind != "summary" and len(wanted.stems) > 1:
        return None
    quote = wanted.reworded_in(text) if len(wanted.sentences) == 1 else ""
    return Occurrence(item, None, quote) if quote else None


def _fates(
    branch: Branch,
    by_window: Sequence[Mapping[int, Occurrence]],
    wanted: Phrase,
    subagents: Sequence[Occurrence],
    lane: Lane,
) -> Iterator[CompactionFate]:
    for number, window in enumerate(branch.windows):
        if window.boundary is None or not any(by_window[:number]):
            continue
        stays = any(occurrence.item.carried for occurrence in by_window[number].values())
        seen = [occurrence for occurrence in by_window[number].values() if not occurrence.item.carried]
        in_summary = [s for s in seen if s.item.kind == "summary"]
        again = tuple(s for s in seen if s.item.kind != "summary")
        quote, shared = wanted.nearest(_summary(lane, window))
        if stays or any(not occurrence.in_other_words for occurrence in in_summary):
            fate: Fate = "kept"
        elif in_summary:
            fate, quote = "reworded", in_summary[0].in_other_words
        elif any(s.item.kind != "tool_result" for s in again):
            fate = "said_again"
        elif again:
            fate = "read_again"
        else:
            fate = "subagent" if any(_is_after(s.item, window) for s in subagents) else "gone"
        yield CompactionFate(window, fate, quote, shared, again)


@dataclass(frozen=True, slots=True)
class UserStatement:
    """A sentence that was said before a compaction, and what became of it there."""

    text: str
    item: TranscriptItem
    fate: Fate
    quote: str
    is_rule: bool
    """True if it tells the agent how to work, judged by who said it and by its words."""
    back_after: int | None = None
    """Calls after the compaction until it was in a prompt again; 0 if it was never out, None if it never came back."""


def statements_at(
    session: CodingSession, branch: Branch, window: Window, kinds: Iterable[str] = ("user",)
) -> list[UserStatement]:
    """Return what was said by some kinds of items in the window before a compaction, rules first, each with its fate.

    `window` begins with the compaction. A sentence that was said more than once counts once.
    """
    lane = session.main
    summary = _summary(lane, window)
    places = [place for place, item in enumerate(window.items) if item.kind != "summary"]
    texts = IndexedTexts([lane.whole(window.items[place]) for place in places])

    @cache  # only where a statement is gone from the session: its subagents may have read much
    def of_subagents() -> IndexedTexts:
        return IndexedTexts([other.whole(item) for other, item in _of_subagents(session) if _is_after(item, window)])

    statements: dict[str, UserStatement] = {}
    for item in branch.windows[window.number - 1].items:
        if item.kind not in kinds:
            continue
        for sentence in sentences(lane.whole(item)):
            key = " ".join(words(sentence))
            if key not in statements and key.count(" ") >= MIN_WORDS - 1:
                wanted = Phrase.of(sentence)
                # Items after the compaction in their order: the first that has it decides.
                first = texts.first(wanted)
                place = None if first is None else places[first]
                statement = _statement(sentence, wanted, item, summary, window, place)
                if statement.fate == "gone" and of_subagents().first(wanted) is not None:
                    statement = replace(statement, fate="subagent")
                statements[key] = statement
    return sorted(
        statements.values(), key=lambda one: (not one.is_rule, one.fate in ("kept", "reworded"), one.item.line)
    )


def _statement(
    sentence: str, wanted: Phrase, item: TranscriptItem, summary: str, window: Window, place: int | None
) -> UserStatement:
    """Return a statement with its fate; `place` is that of the first item of the window that has it."""
    is_rule = item.instructs and bool(_RULE.search(sentence))
    if (place is not None and window.items[place].carried) or wanted.verbatim_in(summary):
        return UserStatement(sentence, item, "kept", "", is_rule, 0)
    # A single stem, such as that of "Do it now.", may be about anything.
    if len(wanted.stems) > 1 and (quote := wanted.reworded_in(summary)):
        return UserStatement(sentence, item, "reworded", quote, is_rule, 0)
    quote, _ = wanted.nearest(summary)
    if place is None:
        return UserStatement(sentence, item, "gone", quote, is_rule)
    fate: Fate = "read_again" if window.items[place].kind == "tool_result" else "said_again"
    return UserStatement(sentence, item, fate, quote, is_rule, window.calls_before(place))


def lost_statements(session: CodingSession, branch: Branch) -> list[tuple[UserStatement, Window]]:
    """Return the user's statements that the latest window lacks, rules first, each with the window that lost it.

    A compaction whose summary cannot be read loses nothing here.
    """

    @cache  # whole texts may have to be read from the file
    def texts(number: int) -> tuple[IndexedTexts, str]:
        window = branch.windows[number]
        whole = [(item.kind, session.main.whole(item)) for item in window.items]
        return IndexedTexts([text for _, text in whole]), "\n".join(text for kind, text in whole if kind == "summary")

    def has(window: Window, wanted: Phrase) -> bool:
        items, summary = texts(window.number)
        return items.first(wanted) is not None or (len(wanted.stems) > 1 and bool(wanted.reworded_in(summary)))

    latest = {
        " ".join(words(statement.text)): (statement, window, Phrase.of(statement.text))
        for window in branch.compactions
        for statement in statements_at(session, branch, window)
    }
    losses = []
    for statement, first, wanted in latest.values():
        if has(branch.windows[-1], wanted):
            continue
        after = [window for window in branch.windows[first.number :] if has_summary(window)]
        gone = first if statement.fate in ("gone", "subagent") and first in after else None
        if lost := gone or next((window for window in after if not has(window, wanted)), None):
            losses.append((statement, lost))
    return sorted(losses, key=lambda loss: (not loss[0].is_rule, loss[0].item.line))


def nearest_said(session: CodingSession, wanted: Phrase, branch: Branch) -> tuple[TranscriptItem, str, int] | None:
    """Return the item and the sentence that shares most stems with a phrase, and their number; None without any."""
    items = (item for window in branch.windows for item in window.of("user", "assistant", "summary", "injected"))
    near = [(item, *wanted.nearest(session.main.whole(item))) for item in items]
    return max(filter(lambda one: one[2], near), key=lambda one: one[2], default=None)
