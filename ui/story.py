"""What memory did in one turn, as a few sentences. Pure: events and words in, lines out.

Every sentence says what happened, how much, and by which rule, in numbers that an event holds.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from memory_core.events import (
    BlockFailed,
    CondensingRefused,
    ContextBuilt,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    EventRecord,
    FactAdded,
    FactConfirmed,
    FactsCondensed,
    FlushPlanned,
    MemoryStripped,
    QueueRecounted,
    Retrieved,
    VectorsStored,
    expand,
    spread,
)
from ui.text import count, short, tokens

Tone = Literal["plain", "loss", "waiting"]


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence of the story."""

    icon: str
    """A Material icon's name."""
    text: str
    """Plain text; whoever draws it escapes it."""
    tone: Tone = "plain"
    details: tuple[str, ...] = ()
    """Words that the sentence counts, such as the facts learned."""
    more: tuple[str, ...] = ()
    """Words for who asks further, such as the turns recalled."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A turn in one line under its reply."""

    flushed: int = 0
    learned: int = 0
    cut: int = 0
    sent: int | None = None
    limit: int | None = None

    def in_short(self, turn: int) -> str:
        """`Turn 12 · flushed 4 · learned 3 · cut 56`, or the prompt's size when nothing happened."""
        parts = [
            f"{name} {tokens(number)}"
            for name, number in (("flushed", self.flushed), ("learned", self.learned), ("cut", self.cut))
            if number
        ]
        if not parts and self.sent is not None and self.limit is not None:
            parts = [f"{tokens(self.sent)} of {tokens(self.limit)} tokens"]
        return " · ".join([f"Turn {turn}", *parts])


@dataclass(frozen=True, slots=True)
class Words:
    """The words that events only name."""

    facts: Mapping[int, str]
    """By fact id."""
    turns: Mapping[int, int]
    """By stored turn: the number of the conversation's turn."""
    previews: Mapping[int, str]
    """By stored turn: how it begins."""
    due: frozenset[int] = frozenset()
    """Deliveries that are not done yet; one may be done in a later turn than it was queued in."""


def summaries(events: Sequence[EventRecord]) -> dict[int, Summary]:
    """One summary a turn."""
    by_turn: dict[int, list[EventRecord]] = {}
    for record in events:
        by_turn.setdefault(record.turn, []).append(record)
    return {turn: _summary(records) for turn, records in by_turn.items()}


def _summary(records: Sequence[EventRecord]) -> Summary:
    built = _last_context(records)
    return Summary(
        flushed=sum(r.event.messages for r in records if isinstance(r.event, FlushPlanned)),
        learned=sum(isinstance(r.event, FactAdded) for r in records),
        cut=sum(cut["tokens"] for cut in built.cuts) if built else 0,
        sent=built.total if built else None,
        limit=built.token_limit if built else None,
    )


def story(events: Sequence[EventRecord], words: Words) -> list[Line]:
    """What happened in one turn, in the order of the stages: flushed, learned, recalled, cut."""
    values = [record.event for record in events]
    lines = [_flushed(event) for event in values if isinstance(event, FlushPlanned)]
    lines += [_recounted(event) for event in values if isinstance(event, QueueRecounted)]
    lines += _learned(values, words)
    lines += _deliveries(values, words)
    built = _last_context(events)
    if built is not None:
        recalled = [event for event in values if isinstance(event, Retrieved)]
        lines += _recalled(recalled, words)
        lines += [_cut(cut, recalled, words) for cut in built.cuts]
        if built.over_by:
            lines.append(
                Line(
                    "error",
                    f"Sent {tokens(built.total)} of {tokens(built.token_limit)}: {tokens(built.over_by)} over. "
                    f"{built.over_because} cannot be cut",
                    "loss",
                )
            )
    lines += [
        Line("error", f"{short(event.block)} could not be read: {event.error}", "loss")
        for event in values
        if isinstance(event, BlockFailed)
    ]
    if any(isinstance(event, MemoryStripped) for event in values):
        lines.append(Line("remove", "Took memory's own text out of a message that brought it back"))
    return lines


def _flushed(event: FlushPlanned) -> Line:
    moved = f"Flushed {count(event.messages, 'message')}, {count(event.tokens, 'token')}"
    why = {
        "over_budget": f"queue {tokens(event.queue_before)} was above {tokens(int(event.history_budget))}",
        "asked": "you asked for it",
        "closed": "the session was closed",
    }[event.trigger]
    if "long_turn" in event.rules:
        why += ", and the newest turn alone is too long"
    still = f". Still {tokens(event.over_by)} above it" if event.over_by else ""
    return Line("keyboard_tab", f"{moved}: {why}{still}")


def _recounted(event: QueueRecounted) -> Line:
    return Line(
        "calculate", f"Counted the queue again: {tokens(event.tokens_before)} is now {tokens(event.tokens_after)}"
    )


def _learned(values: Sequence[object], words: Words) -> list[Line]:
    lines = []
    added = [event for event in values if isinstance(event, FactAdded)]
    if added:
        known = tuple(words.facts.get(event.fact, "a fact that was erased since") for event in added)
        lines.append(Line("lightbulb", f"Learned {count(len(added), 'fact')}", details=known))
    for fact in (event for event in added if event.conflicts_with):
        old = words.facts.get(fact.conflicts_with[0], "an erased fact")
        new = words.facts.get(fact.fact, "an erased fact")
        lines.append(Line("warning", f"“{new}” contradicts “{old}”", "waiting"))
    again = [event for event in values if isinstance(event, FactConfirmed)]
    if again:
        known = tuple(words.facts.get(event.fact, "a fact that was erased since") for event in again)
        lines.append(Line("check", f"Heard {count(len(again), 'fact')} again, stored once", details=known))
    for event in values:
        if isinstance(event, FactsCondensed):
            lines.append(
                Line(
                    "compress",
                    f"Condensed {tokens(event.before)} facts to {tokens(event.after)}: kept {len(event.kept)}, "
                    f"merged {len(event.merged)}, vanished {len(event.vanished)}, new {len(event.new)}",
                    "loss" if event.vanished else "plain",
                    tuple(words.facts.get(fact, "an erased fact") for fact in event.vanished),
                )
            )
        elif isinstance(event, CondensingRefused):
            lines.append(Line("block", f"A shorter list of facts was refused: {event.reason}", "waiting"))
        elif isinstance(event, VectorsStored):
            lines.append(Line("inventory_2", f"Stored {count(len(event.nodes), 'turn')} in {short(event.block)}"))
    return lines


def _deliveries(values: Sequence[object], words: Words) -> list[Line]:
    """What is still due, by the last thing this turn said of each delivery."""
    queued: dict[int, Line] = {}
    said: dict[int, Line] = {}
    for event in values:
        if isinstance(event, DeliveryQueued):
            messages = count(len(expand(event.seqs)), "message")
            queued[event.delivery] = Line("schedule", f"{short(event.block)} is learning from {messages}", "waiting")
            said[event.delivery] = queued[event.delivery]
        elif isinstance(event, DeliveryFailed):
            what = f"{short(event.block)} could not be updated, and will be tried again: {event.error}"
            said |= dict.fromkeys(event.deliveries, Line("refresh", what, "waiting"))
        elif isinstance(event, DeliveryParked):
            tries = count(event.attempts, "try")
            what = f"{short(event.block)} could not be updated, given up after {tries}: {event.error}"
            said |= dict.fromkeys(event.deliveries, Line("error", what, "loss"))
        elif isinstance(event, DeliveryRetried):
            said |= {delivery: queued[delivery] for delivery in event.deliveries if delivery in queued}
    return list(dict.fromkeys(line for delivery, line in said.items() if delivery in words.due))


def _recalled(recalled: Sequence[Retrieved], words: Words) -> list[Line]:
    lines = []
    for event in recalled[-1:]:
        granted = [candidate for candidate in event.candidates if candidate[4] == "granted"]
        if granted:
            best = max(candidate[3] for candidate in granted)
            shown = tuple(
                f"Turn {words.turns.get(number, '?')} ({score:.2f}): {words.previews.get(number, 'erased since')}"
                for number, _, _, score, _ in granted
            )
            turns = count(len(granted), "earlier turn")
            lines.append(Line("search", f"Recalled {turns}, best {best:.2f}", more=shown))
        elif event.candidates and event.threshold is not None:
            best, threshold = event.candidates[0][3], event.threshold
            places = 2 if f"{best:.2f}" != f"{threshold:.2f}" else 4  # as many as show that it is less
            below = f"best {best:.{places}f} is below the threshold {threshold:.2f}"
            lines.append(Line("search_off", f"Recalled nothing: {below}"))
        if event.degraded:
            lines.append(Line("warning", event.degraded, "waiting"))
    return lines


def _cut(cut: Mapping[str, object], recalled: Sequence[Retrieved], words: Words) -> Line:
    refs = spread(cut["refs"])  # type: ignore[arg-type]
    freed, over = int(str(cut["tokens"])), int(str(cut["over_before"]))
    part = str(cut["part"])
    if part == "queue":
        turns = count(len(refs), "oldest turn")
        text = f"Left {turns} out of this prompt, {count(freed, 'token')}: asked {tokens(over)} over the limit"
        return Line("content_cut", text, "loss")
    scores = {number: score for event in recalled for number, _, _, score, _ in event.candidates}
    gone = [int(ref[1:]) for ref in refs if ref[0] == "v"]
    lowest = ""
    if gone:
        names = ", ".join(f"turn {words.turns.get(number, '?')} ({scores.get(number, 0):.2f})" for number in gone)
        lowest = f". Lowest score first: {names}"
    facts = tuple(words.facts.get(int(ref[1:]), "an erased fact") for ref in refs if ref[0] == "f")
    whole = ", the whole block" if cut["rule"] == "dropped" else ""
    text = f"Cut {count(freed, 'token')} from {short(part)}{whole}: asked {tokens(over)} over the limit{lowest}"
    return Line("content_cut", text, "loss", facts)


def _last_context(events: Sequence[EventRecord]) -> ContextBuilt | None:
    built = [record.event for record in events if isinstance(record.event, ContextBuilt)]
    return built[-1] if built else None
