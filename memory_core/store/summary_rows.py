"""Running summaries in the database: the text is versioned like a static block's; the log records its coverage."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete

from memory_core.errors import ConflictError
from memory_core.events import Actor, BlockAdded, SummaryRewritten, expand, ranges
from memory_core.planning.running_summary import losses
from memory_core.store.block_rows import BlockRecord, read_blocks, write_text
from memory_core.store.log_rows import read_events
from memory_core.store.tables import block_revision_table
from memory_core.store.writing import Writing, read_texts, session_scope


@dataclass(frozen=True, slots=True)
class StoredSummary:
    """A summary as stored at one moment."""

    record: BlockRecord
    text: str
    covers: int
    """Number of the last message that the summary covers; 0 if it covers none."""
    turn_covered: int
    rewritten: int
    """Log position of the last rewriting; 0 if there was none."""

    @property
    def stamp(self) -> tuple[int, int]:
        """Value that changes with the text, and with the messages that the summary covers."""
        return self.record.revision, self.rewritten


def read_summary(connection: Connection, session_id: str, block: str) -> StoredSummary | None:
    """Return a block's summary; None if the session no longer has the block."""
    record = next(
        (stored_block for stored_block in read_blocks(connection, session_id) if stored_block.name == block), None
    )
    if record is None:
        return None
    text = read_texts(connection, session_scope(session_id), [record.text]).get(record.text, "") if record.text else ""
    kinds = (BlockAdded.kind, SummaryRewritten.kind)  # a removed block of the same name covered other messages
    records = read_events(connection, session_id, kinds=kinds, block=block, limit=1, newest_first=True)
    event = records[0].event if records else None
    # The block was added after the last rewriting, or never rewritten: it covers nothing.
    if not isinstance(event, SummaryRewritten):
        return StoredSummary(record, text, 0, 0, 0)
    return StoredSummary(record, text, event.covers, event.turn_covered, records[0].position)


def write_summary(
    w: Writing,
    before: StoredSummary,
    text: str,
    *,
    summariser: str,
    covers: int,
    turn_covered: int,
    seqs: Sequence[int],
    max_tokens: int,
    count: Callable[[str], int],
    shortened: int,
    broken: int,
    actor: Actor = "engine",
) -> None:
    """Store a new text and the messages it covers. The text's author is the engine; `actor` asked for the rewriting.

    Raises:
        ConflictError: somebody changed the summary since it was read.
    """
    now = read_summary(w.connection, w.session.id, before.record.name)
    if now is None or now.stamp != before.stamp:
        raise ConflictError(f'"{before.record.name}" was changed while it was being rewritten. Nothing was saved.')
    # An unchanged text makes no version, but the messages that it covers now are recorded.
    revision = now.record.revision
    if text != now.text:
        revision = write_text(w, now.record, text, actor="engine")
        w.session.revision += 1  # so that open sessions load the text again
    w.record(
        SummaryRewritten(
            block=now.record.name,
            revision=revision,
            summariser=summariser,
            covers=covers,
            turn_covered=turn_covered,
            seqs=ranges(seqs),
            tokens_before=count(now.text),
            tokens=count(text),
            max_tokens=max_tokens,
            lost=len(losses(now.text, text)),
            shortened=shortened,
            broken=broken,
        ),
        actor=actor,
    )


def empty_summaries(w: Writing, gone: Collection[int]) -> None:
    """Clear the summaries that cover any of these messages, and delete all their versions.

    A summary mixes all its sources: nothing can be removed from it alone.
    """
    wanted = set(gone)
    for record in read_blocks(w.connection, w.session.id):
        if record.type != "summary" or not wanted:
            continue
        # Each rewriting reads only new messages: all since the block was added or last emptied are in the text.
        read: set[int] = set()
        last = None
        for logged in read_events(
            w.connection, w.session.id, kinds=(BlockAdded.kind, SummaryRewritten.kind), block=record.name
        ):
            last = logged.event if isinstance(logged.event, SummaryRewritten) else None
            read = read | set(expand(last.seqs)) if last is not None and last.covers else set()
        if last is None or not read & wanted:
            continue
        text = read_texts(w.connection, w.session.scope, [record.text]).get(record.text, "") if record.text else ""
        revisions = block_revision_table.c
        where = (revisions.session_id == w.session.id) & (revisions.block == record.name)
        # Former versions contain the text as well.
        w.connection.execute(delete(block_revision_table).where(where))
        revision = write_text(w, record, "", actor="engine")
        w.session.revision += 1
        w.record(
            SummaryRewritten(
                block=record.name,
                revision=revision,
                summariser=last.summariser,
                covers=0,
                turn_covered=0,
                seqs=(),
                tokens_before=last.tokens,
                tokens=0,
                max_tokens=last.max_tokens,
                lost=len(losses(text, "")),
            )
        )
