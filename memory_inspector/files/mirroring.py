"""Mirror another store's state into a session: queue, archive, and all versions of its memory blocks.

No conversation is replayed and no block learns: the state is recorded in one transaction. Mirroring again records the
changes since, so a session can follow a store that an agent still uses.
"""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from memory_core.blocks.static import StaticMemoryBlock
from memory_core.curation import settings as editing
from memory_core.engine import queue
from memory_core.engine.session import Session
from memory_core.events import FlushPlanned, ranges
from memory_core.messages import ChatMessage, MessageRole, MessageStatus, content_hash
from memory_core.planning.running_summary import sentences
from memory_core.store.block_rows import TextOrigin, TextRevision, read_revisions
from memory_core.store.erasing import message_seqs
from memory_core.store.message_rows import archive, hashes_by_seq, sizes_between
from memory_core.store.quarantine_rows import join_sets
from memory_core.store.writing import Writing


@dataclass(frozen=True, slots=True)
class TextVersion:
    text: str
    written: TextOrigin | None = None


@dataclass(frozen=True, slots=True)
class MirroredBlock:
    """A memory block or note of another store, mirrored as a static block."""

    name: str
    versions: tuple[TextVersion, ...]
    """All versions of the text, oldest first; never empty."""
    description: str | None = None
    limit: int | None = None
    """Maximum characters that an agent may write."""
    read_only: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the corresponding static block."""
        return {"description": self.description, "limit": self.limit, "read_only": self.read_only}


def mirror(
    session: Session,
    messages: Sequence[ChatMessage],
    *,
    archived: Collection[int] = (),
    blocks: Sequence[MirroredBlock] = (),
) -> bool:
    """Update a session to the passed state in one transaction; return whether anything changed.

    `archived`: indexes of the messages that have left the queue. Messages that the store lost leave the queue, or stay
    in the archive if they were there; lost blocks are removed.

    Raises:
        MessageError: A message cannot be stored; nothing was stored.
        ConfigError: A block cannot be made; nothing was stored.
        NotFoundError: The session was deleted.
        StoreError: The database cannot be reached.
    """
    # 1. Before the transaction, which makes other writers wait: counting tokens takes long.
    prepared = queue.prepare(session, messages, [uuid.uuid4().hex for _ in messages])
    with session.changing() as w:
        before = w.session.next_seq, w.session.archived_messages, w.session.revision
        # 2. Match by content, as the store's ids mean nothing here.
        hashes = hashes_by_seq(w.connection, session.id)
        places = aligned(list(hashes.values()), [content_hash(new.json) for new in prepared])
        existing = list(hashes)
        seqs = [None if place is None else existing[place] for place in places]
        # 3. What the store lost leaves the queue; its archived messages stay, as an archive only grows.
        queued = set(message_seqs(w.connection, session.id, MessageStatus.ACTIVE))
        _remove(session, w, sorted(queued.difference(seq for seq in seqs if seq is not None)))
        fresh = [n for n, seq in enumerate(seqs) if seq is None]
        # Leading system messages are the agent's instructions, which stay pinned.
        opening = all(message.role is MessageRole.SYSTEM for message in messages[: fresh[0]]) if fresh else False
        added = queue.add(session, w, [prepared[n] for n in fresh], opening=opening)
        for n, new in zip(fresh, added, strict=True):
            seqs[n] = new
        # 4. After adding, as a new message may be archived in the store already. Messages archived here before are not
        # archived again.
        archive_elsewhere(session, w, queued.union(added).intersection(seqs[n] or 0 for n in archived))
        for name in {block.name for block in session.blocks} - {block.name for block in blocks}:
            editing.remove_block(session, w, name, "user")
        for block in blocks:
            _write(session, w, block)
        return before != (w.session.next_seq, w.session.archived_messages, w.session.revision)


def aligned(have: Sequence[str], want: Sequence[str]) -> list[int | None]:
    """Return the index in `have` of each item in `want`; None for new items. Both are hashes in order.

    >>> aligned("abc", "bcd")
    [1, 2, None]
    """
    same = 0
    while same < min(len(have), len(want)) and have[same] == want[same]:
        same += 1
    places: list[int | None] = [*range(same), *[None] * (len(want) - same)]
    if same < len(have):  # fast path for lists that only grew, the usual case
        for block in SequenceMatcher(None, have[same:], want[same:], autojunk=False).get_matching_blocks():
            for n in range(block.size):
                places[same + block.b + n] = same + block.a + n
    return places


def _remove(session: Session, w: Writing, gone: Sequence[int]) -> None:
    """Remove messages from the queue that the store no longer has."""
    if gone:
        sizes = sizes_between(w.connection, session.id, after=0, accounting=session.config.accounting)
        queue.drop(w, gone, sum(message.tokens for message in sizes if message.seq in set(gone)))


def archive_elsewhere(
    session: Session, w: Writing, seqs: Collection[int], trigger: str = "elsewhere", summary: Collection[int] = ()
) -> None:
    """Archive queued messages, recorded as a decision of another program under an unknown rule.

    `summary`: messages that this program put in their place.
    """
    config, accounting = session.config, session.config.accounting
    sizes = sizes_between(w.connection, session.id, after=0, accounting=accounting)
    leave = [message for message in sizes if message.seq in seqs]
    if not leave:
        return
    held = w.session.queue(accounting).tokens
    w.session.flushes += 1
    archive(w, leave, flush=w.session.flushes)
    w.record(
        FlushPlanned(
            flush=w.session.flushes,
            trigger=trigger,
            rules=(),
            seqs=ranges(message.seq for message in leave),
            messages=len(leave),
            tokens=sum(message.tokens for message in leave),
            queue_before=held,
            queue_after=w.session.queue(accounting).tokens,
            history_budget=config.history_budget,
            flush_size=config.flush_size,
            over_by=0,
            summary=ranges(sorted(summary)),
        )
    )


def _write(session: Session, w: Writing, block: MirroredBlock) -> None:
    """Write a block's new versions and its settings."""
    versions: Sequence[TextVersion] = block.versions
    former: tuple[str, ...] = ()
    if any(attached.name == block.name for attached in session.blocks):
        former = sentences(session.block(block.name).state or "")
        # Changed settings make a new block object, whose text the next lines write.
        if editing.write_settings(session, w, block.name, block.settings, "user"):
            editing.take_over(session, w)
        versions = _after(versions, read_revisions(w.connection, session.id, block.name))
    else:
        first, versions = versions[0], versions[1:]
        made = StaticMemoryBlock(name=block.name, static_content=first.text, **block.settings)
        editing.add_block(session, w, made, "user", first.written)
    for version in versions:
        editing.write_block_text(session, w, session.block(block.name), version.text, "user", written=version.written)
    # Sentences that it had before are in quarantine already, or were left out of it.
    new = "\n".join(s for s in sentences(block.versions[-1].text) if s not in former)
    join_sets(w, session.services.messages, text=new)


def _after(versions: Sequence[TextVersion], revisions: Sequence[TextRevision]) -> Sequence[TextVersion]:
    """Return the versions after the last known one; if the store rewrote its history, only the last."""
    last = revisions[-1].text if revisions else None
    # From the newest, as a text may have been changed back to an earlier one.
    for n in range(len(versions) - 1, -1, -1):
        if versions[n].text == last:
            return versions[n + 1 :]
    return versions[-1:]
