"""The revisions of a running summary, as the log tells them. Pure: events in, no words."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from memory_core.events import BlockAdded, BlockEdited, BlockRemoved, EventRecord, SummaryRewritten, expand

KINDS = (BlockAdded.kind, BlockEdited.kind, BlockRemoved.kind, SummaryRewritten.kind)
"""What tells of a summary."""


@dataclass(frozen=True, slots=True)
class ToldRevision:
    """One text that a summary had."""

    revision: int
    content: str
    """Hash of the text."""
    actor: str
    turn: int
    at: float
    covers: int = 0
    """Sequence number of the last message that the text takes in; 0: none."""
    turn_covered: int = 0
    messages: int = 0
    """Messages that were read for it."""
    summariser: str | None = None
    """What wrote it; None where a person did."""
    asked_by: str | None = None
    """Who asked for it to be written: `engine` where messages came, `curator` for a rewriting on demand."""
    restored: int | None = None
    """The earlier revision whose words it has again."""
    shortened: int = 0
    """Tokens of whole sentences left out to stay within the bound."""


def told_revisions(records: Iterable[EventRecord], block: str) -> list[ToldRevision]:
    """Every text the block's summary had since it was last emptied, oldest first.

    A text that a person wrote, or brought back, takes in what it took in: restoring an older one
    goes back to what that covered.
    """
    found: list[ToldRevision] = []
    for record in records:
        event = record.event
        if event.about != block:
            continue
        if isinstance(event, BlockAdded | BlockRemoved):
            found = []
        elif isinstance(event, BlockEdited) and event.after and event.after != event.before:
            base = next((each for each in found if each.revision == event.restored), found[-1] if found else None)
            covers, turn = (base.covers, base.turn_covered) if base else (0, 0)
            found.append(
                ToldRevision(
                    event.revision,
                    event.after,
                    record.actor,
                    record.turn,
                    record.at,
                    covers,
                    turn,
                    restored=event.restored,
                )
            )
        elif isinstance(event, SummaryRewritten):
            found = _rewritten(found, record, event)
    return found


def _rewritten(found: list[ToldRevision], record: EventRecord, event: SummaryRewritten) -> list[ToldRevision]:
    """The revisions after a rewriting; the change of the text, if there was one, stands before it in the log."""
    if not found or found[-1].revision != event.revision:
        # Nothing was worth writing down yet: there is no text, and still it covers what was read.
        return [*found, ToldRevision(0, "", "engine", record.turn, record.at, event.covers, event.turn_covered)]
    last = found[-1]
    if not event.covers:  # emptied with the messages it was made of
        return [replace(last, covers=0, turn_covered=0)]
    messages = last.messages + len(expand(event.seqs))
    after = replace(last, covers=event.covers, turn_covered=event.turn_covered, messages=messages)
    if last.actor == "engine" and last.summariser is None:
        after = replace(after, summariser=event.summariser, asked_by=record.actor, shortened=event.shortened)
    return [*found[:-1], after]
