"""The effects of one turn on memory, as a few sentences. Pure: events and words in, lines out.

The sentences are those of `event_sentences`; here they are selected, summarised and ordered by stage.
"""

import math
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
    Event,
    EventRecord,
    FactAdded,
    FactConfirmed,
    FactDecided,
    FactsCondensed,
    FlushPlanned,
    MemoryStripped,
    ProposalRefused,
    QueueRecounted,
    RecipeChosen,
    RelationAdded,
    RelationConfirmed,
    RelationEnded,
    Retrieved,
    SummaryRewritten,
    ToolCalled,
    VectorsStored,
)
from memory_core.messages import MEMORY_TOOLS
from memory_inspector.wording.event_sentences import (
    ERASED,
    Line,
    Words,
    contradiction,
    describe,
    one_cut,
    still_learning,
    too_large,
)
from memory_inspector.wording.event_sentences.event_words import ERASED_RELATION
from memory_inspector.wording.formatting import count, tokens

WRITING = MEMORY_TOOLS - {"archival_memory_search", "conversation_search"}
"""Tools that change memory."""


STORY_KINDS = (
    "recipe_chosen",
    "tool_called",
    "flush_planned",
    "queue_recounted",
    "fact_added",
    "fact_confirmed",
    "fact_decided",
    "proposal_refused",
    "relation_added",
    "relation_confirmed",
    "relation_ended",
    "facts_condensed",
    "condensing_refused",
    "summary_rewritten",
    "vectors_stored",
    "delivery_queued",
    "delivery_done",
    "delivery_failed",
    "delivery_parked",
    "delivery_skipped",
    "delivery_retried",
    "retrieved",
    "context_built",
    "block_failed",
    "memory_stripped",
)
"""Kinds of the events that a turn's story consists of."""


def is_learned(event: Event) -> bool:
    """Tell whether an event adds something learned from messages that is in use: not written by hand or unreviewed."""
    return (
        event.adds is not None
        and getattr(event, "origin", "") == "extracted"
        and getattr(event, "state", "active") == "active"
    )


@dataclass(frozen=True, slots=True)
class TurnLine:
    """A turn in one line below its reply."""

    flushed: int = 0
    learned: int = 0
    cut: int = 0
    sent: int | None = None
    limit: int | None = None
    """Token limit of the prompt; None for a prompt built by another program, whose limit is not known."""
    relations: int = 0
    """Number of relations among what was learned."""
    edited: int = 0
    """Number of times the agent wrote to its memory."""

    def in_short(self, turn: int) -> str:
        """The prompt's size, then what happened.

        `Turn 12 · 1,178 of 1,200 tokens · flushed 4 messages · learned 3 facts · cut 56 tokens`.
        """
        parts = []
        if self.sent is not None:
            limit = self.limit
            sent = count(self.sent, "token") if limit is None else f"{tokens(self.sent)} of {count(limit, 'token')}"
            parts = [sent]
        facts = self.learned - self.relations
        # Facts are left out only where relations alone were learned.
        kinds = [count(facts, "fact")] if facts or not self.relations else []
        kinds += [count(self.relations, "relation")] if self.relations else []
        for name, number, says in (
            ("edited", self.edited, count(self.edited, "time")),
            ("flushed", self.flushed, count(self.flushed, "message")),
            ("learned", self.learned, " and ".join(kinds)),
            ("cut", self.cut, count(self.cut, "token")),
        ):
            if number:
                parts.append(f"{name} {says}")
        return " · ".join([f"Turn {turn}", *parts])


def summaries(events: Sequence[EventRecord]) -> dict[int, TurnLine]:
    """Return a summary per turn."""
    by_turn: dict[int, list[EventRecord]] = {}
    for record in events:
        by_turn.setdefault(record.turn, []).append(record)
    return {turn: _summary(records) for turn, records in by_turn.items()}


def _summary(records: Sequence[EventRecord]) -> TurnLine:
    built = _last_context(records)
    return TurnLine(
        flushed=sum(r.event.messages for r in records if isinstance(r.event, FlushPlanned)),
        learned=sum(is_learned(record.event) for record in records),
        relations=sum(is_learned(record.event) and isinstance(record.event, RelationAdded) for record in records),
        cut=sum(cut["tokens"] for cut in built.cuts) if built else 0,
        sent=built.total if built else None,
        # Another program's prompt was recorded, not planned: its limit is unknown.
        limit=built.token_limit if built and built.known == "built" else None,
        edited=sum(isinstance(r.event, ToolCalled) and _wrote(r.event) for r in records),
    )


def _wrote(event: ToolCalled) -> bool:
    return event.tool in WRITING and event.outcome == "done"


Stage = Literal["flushed", "learned", "recalled", "cut"]
"""A kind of effect that a turn has on memory, in the order of cause."""

_STAGES: Mapping[str, Stage] = {
    **dict.fromkeys((RecipeChosen.kind, FlushPlanned.kind, QueueRecounted.kind), "flushed"),
    **dict.fromkeys((Retrieved.kind, BlockFailed.kind, MemoryStripped.kind), "recalled"),
    ContextBuilt.kind: "cut",
}
"""Stage by kind of event; all others are learning."""


@dataclass(frozen=True, slots=True)
class Passage:
    """The lines of one stage, before or after the turn's last prompt."""

    stage: Stage
    lines: tuple[Line, ...]
    begins: int
    """Log position of the first event of the stage."""


def story(events: Sequence[EventRecord], words: Words) -> list[Line]:
    """Lines on what happened in one turn, in the order of cause: flushed, learned, recalled, cut; then what the reply
    caused after the prompt."""
    return [line for passage in passages(events, words) for line in passage.lines]


def passages(events: Sequence[EventRecord], words: Words) -> list[Passage]:
    """The story of one turn by stage; stages without a line are left out."""
    built = max((record.position for record in events if isinstance(record.event, ContextBuilt)), default=math.inf)
    parts = [[r for r in events if r.position <= built], [r for r in events if r.position > built]]
    # An unfinished delivery is told once, by its last event.
    waiting = _deliveries([record.event for record in events], words)
    later = _deliveries([record.event for record in parts[1]], words)
    made = []
    for part, due in zip(parts, ([line for line in waiting if line not in later], later), strict=True):
        for stage, lines in _by_stage(part, words, due).items():
            begins = [record.position for record in part if _STAGES.get(record.kind, "learned") == stage]
            if lines:
                made.append(Passage(stage, tuple(lines), min(begins)))
    return made


def _by_stage(events: Sequence[EventRecord], words: Words, waiting: Sequence[Line]) -> dict[Stage, list[Line]]:
    # What the agent archived is reported by its tool call.
    values = [r.event for r in events if not (r.actor == "agent" and isinstance(r.event, FactAdded))]
    built = _last_context(events)
    recalls = [event for event in values if isinstance(event, Retrieved)]
    # Of several searches the last one's results are in the prompt that counts.
    recalled = [
        describe(event, words) for event in recalls[-1:] if event.candidates or event.elsewhere or event.degraded
    ]
    cut = [one_cut(cut, recalls, words) for cut in built.cuts] if built is not None else []
    return {
        "flushed": _lines_of(values, words, RecipeChosen, FlushPlanned) + _lines_of(values, words, QueueRecounted),
        "learned": [
            *_lines_of(values, words, ToolCalled),
            *_learned(values, words),
            *_related(values, words),
            *waiting,
        ],
        # The sentence on text that was taken out is always the same, so one line is enough.
        "recalled": recalled + _lines_of(values, words, BlockFailed) + _lines_of(values, words, MemoryStripped)[:1],
        "cut": [*cut, *([too_large(built)] if built is not None and built.over_by else [])],
    }


def happened(events: Sequence[EventRecord]) -> frozenset[Stage]:
    """The stages in which something was flushed, learned, recalled or cut."""
    values = [record.event for record in events]
    in_stage: dict[Stage, bool] = {
        "flushed": any(isinstance(event, FlushPlanned) for event in values),
        "learned": any(is_learned(event) for event in values),
        "recalled": any(
            isinstance(event, Retrieved) and any(outcome == "granted" for *_, outcome in event.candidates)
            for event in values
        ),
        "cut": any(isinstance(event, ContextBuilt) and event.cuts for event in values),
    }
    return frozenset(stage for stage, did in in_stage.items() if did)


def _lines_of(values: Sequence[Event], words: Words, *kinds: type[Event]) -> list[Line]:
    return [describe(event, words) for event in values if isinstance(event, kinds)]


def _learned(values: Sequence[Event], words: Words) -> list[Line]:
    """Facts summarised by name, contradictions one by one, then changes to the lists."""
    lines = []
    added = [event for event in values if isinstance(event, FactAdded)]
    learned = [event.fact for event in added if is_learned(event)]
    if learned:
        lines.append(Line("lightbulb", f"Learned {count(len(learned), 'fact')}", details=_named(learned, words)))
    proposed = [event.fact for event in added if event.state == "proposed"]
    if proposed:
        waiting = f"Proposed {count(len(proposed), 'fact')}, to be reviewed"
        lines.append(Line("inbox", waiting, "waiting", _named(proposed, words)))
    written = [event.fact for event in added if event.origin == "written"]
    if written:
        lines.append(Line("edit", f"Added {count(len(written), 'fact')} by hand", details=_named(written, words)))
    # Each by itself: a person has to decide between two named facts.
    lines += [contradiction(event, words) for event in added if event.conflicts_with]
    again = [
        event.fact
        for event in values
        # A confirmation by a person, or its withdrawal, is not news from the conversation.
        if isinstance(event, FactConfirmed) and event.former is None and event.restores is None
    ]
    if again:
        lines.append(Line("check", "Already known", details=_named(again, words)))
    lines += _decided(values, words)
    kinds = (FactsCondensed, CondensingRefused, ProposalRefused, SummaryRewritten, VectorsStored)
    return lines + _lines_of(values, words, *kinds)


def _decided(values: Sequence[Event], words: Words) -> list[Line]:
    """Existing facts changed by decisions on new ones, summarised by decision."""
    lines = []
    for decision, says, icon in (("update", "Updated", "edit"), ("delete", "Ended", "history")):
        facts = [e.fact for e in values if isinstance(e, FactDecided) and e.decision == decision and e.fact is not None]
        if facts:
            lines.append(Line(icon, f"{says} {count(len(facts), 'fact')}", details=_named(facts, words)))
    return lines


def _related(values: Sequence[Event], words: Words) -> list[Line]:
    """Relations summarised: learned, added by hand, known before, ended."""
    added = [event for event in values if isinstance(event, RelationAdded)]
    chapters = (
        ("hub", "Learned {}", [event.relation for event in added if event.origin != "written"]),
        ("edit", "Added {} by hand", [event.relation for event in added if event.origin == "written"]),
        ("check", "Already known", [event.relation for event in values if isinstance(event, RelationConfirmed)]),
        ("history", "Ended {}", [event.relation for event in values if isinstance(event, RelationEnded)]),
    )
    return [
        Line(
            icon,
            says.format(count(len(set(items)), "relation")),
            # Each relation once, in the order of its first event.
            details=tuple(words.relations.get(id, ERASED_RELATION) for id in dict.fromkeys(items)),
        )
        for icon, says, items in chapters
        if items
    ]


def _named(facts: Sequence[int], words: Words) -> tuple[str, ...]:
    return tuple(words.facts.get(fact, ERASED) for fact in facts)


def _deliveries(values: Sequence[Event], words: Words) -> list[Line]:
    """Unfinished deliveries, by this turn's last event on each."""
    queued: dict[int, Line] = {}
    lines: dict[int, Line] = {}
    for event in values:
        if isinstance(event, DeliveryQueued):
            queued[event.delivery] = still_learning(event)
            lines[event.delivery] = queued[event.delivery]
        elif isinstance(event, DeliveryFailed | DeliveryParked):
            lines |= dict.fromkeys(event.deliveries, describe(event, words))
        elif isinstance(event, DeliveryRetried):
            # A retried delivery is learning again, if it was queued in this turn.
            lines |= {delivery: queued[delivery] for delivery in event.deliveries if delivery in queued}
    # One failure can concern several deliveries, and is shown once.
    return list(dict.fromkeys(line for delivery, line in lines.items() if delivery in words.due))


def _last_context(events: Sequence[EventRecord]) -> ContextBuilt | None:
    built = [record.event for record in events if isinstance(record.event, ContextBuilt)]
    return built[-1] if built else None
