"""The revisions of a running summary, as recorded in the log. Pure: reads events, not texts."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from memory_core.events import KINDS as EVENTS
from memory_core.events import EventRecord, SummaryRewritten, expand
from memory_core.history.slices.block_slice import edits_text, is_rewriting

KINDS = tuple(kind for kind, event in EVENTS.items() if event.family in ("blocks", "summaries"))
"""Event kinds that concern a summary."""


@dataclass(frozen=True, slots=True)
class RecordedRevision:
    """Revision of a summary's text."""

    revision: int
    content: str
    """Content hash of the text."""
    actor: str
    turn: int
    at: float
    covers: int = 0
    """Sequence number of the last message covered by the text; 0: none."""
    turn_covered: int = 0
    messages: int = 0
    """Number of messages read to write the text."""
    summariser: str | None = None
    """Name of the summariser; None if a person wrote the text."""
    asked_by: str | None = None
    """Actor that requested the text: `engine` when messages arrived, `user` for a rewrite on demand."""
    restored: int | None = None
    """The earlier revision whose words were restored; None if none was."""
    shortened: int = 0
    """Tokens of whole sentences dropped to stay within the limit."""


def recorded_revisions(records: Iterable[EventRecord], block: str) -> list[RecordedRevision]:
    """Return the texts of a summary since it was last emptied, oldest first.

    A text that a person wrote covers the messages of the previous text; a restored text, those it covered at first.
    """
    revisions: list[RecordedRevision] = []
    for record in records:
        event = record.event
        if event.about != block:
            continue
        if event.operation in ("create_store", "delete_store"):
            # A block that was added or removed starts its summary anew.
            revisions = []
        # An edit of settings alone leaves the text, and with it the revision, as it is.
        elif edits_text(event) and event.after is not None:
            # A restored text covers what it covered when it was first written.
            last = revisions[-1] if revisions else None
            base = next((revision for revision in revisions if revision.revision == event.restored), last)
            covers, turn = (base.covers, base.turn_covered) if base else (0, 0)
            revisions.append(
                RecordedRevision(
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
        elif is_rewriting(event):
            revisions = _rewritten(revisions, record, event)
    return revisions


def _rewritten(
    revisions: list[RecordedRevision], record: EventRecord, event: SummaryRewritten
) -> list[RecordedRevision]:
    """Return the revisions after a rewrite; the change of the text, if any, precedes it in the log."""
    if not revisions or revisions[-1].revision != event.revision:
        # The summariser found nothing worth recording: no text, but the messages count as covered.
        return [*revisions, RecordedRevision(0, "", "engine", record.turn, record.at, event.covers, event.turn_covered)]
    last = revisions[-1]
    if not event.covers:  # emptied with the messages it was made of
        return [replace(last, covers=0, turn_covered=0)]
    messages = last.messages + len(expand(event.seqs))
    after = replace(last, covers=event.covers, turn_covered=event.turn_covered, messages=messages)
    # The first rewrite recorded after the change of text is the one that made it.
    if last.actor == "engine" and last.summariser is None:
        after = replace(after, summariser=event.summariser, asked_by=record.actor, shortened=event.shortened)
    return [*revisions[:-1], after]
