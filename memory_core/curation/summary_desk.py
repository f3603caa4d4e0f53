"""Interface to a summary block: its state, its versions, rewriting on demand.

Reads and stores; `memory_core.planning.running_summary` finds the names, numbers and dates that a version lost.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.engine.delivery import MAX_CONFLICTS, call_events
from memory_core.engine.session import Session
from memory_core.errors import ConfigError, ConflictError, ModelError, NotFoundError, user_message
from memory_core.events import KINDS as EVENTS
from memory_core.events import Actor, EventRecord, ModelCalled, SummaryRewritten, expand
from memory_core.history.block_slice import edits_text, is_rewriting
from memory_core.messages import MessageStatus
from memory_core.models.protocols import Summariser
from memory_core.planning.running_summary import losses
from memory_core.store.block_rows import StoredSummary, read_revisions, read_summary, write_summary
from memory_core.store.delivery_rows import given_seqs, read_deliveries, still_there, undelivered_seqs
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import StoredMessage, read_messages
from memory_core.store.writing import read_session

KINDS = tuple(kind for kind, event in EVENTS.items() if event.family in ("blocks", "summaries"))
"""Event kinds that concern a summary."""


@dataclass(frozen=True, slots=True)
class SummaryState:
    text: str
    tokens: int
    max_tokens: int
    revision: int
    """Revision of the text; 0: nothing was written yet."""
    covers_turn: int | None
    """Turn of the last message that the summary covers; None: it covers none yet."""
    latest_turn: int
    behind: int
    """Number of turns that the summary does not cover yet, including those in the queue."""
    waiting: int
    """Number of messages due to the summary whose delivery waits or failed."""

    @property
    def over(self) -> bool:
        """True if the text exceeds its limit; possible after the limit was lowered, until the next write."""
        return self.tokens > self.max_tokens


@dataclass(frozen=True, slots=True)
class SummaryRevision:
    revision: int
    text: str
    """Empty where the log alone was read."""
    actor: str
    """Author of the words: `engine` (a summariser), `user` or `agent`."""
    turn: int
    at: float
    covers_turn: int | None = None
    """Turn of the last message that the text covers; None: it covers none."""
    lost: tuple[str, ...] = ()
    """Names, numbers and dates of the previous version that are missing in this one."""
    messages: int = 0
    """Number of messages read to write this version."""
    summariser: str | None = None
    asked_by: str | None = None
    """Actor that requested the rewrite: `engine` when messages arrived, else `user` or `agent`; None: no rewrite."""
    restored: int | None = None
    """Number of the earlier revision that this one restored; None if it restored none."""
    shortened: int = 0
    """Tokens of whole sentences left out to stay within `max_tokens`."""
    person: str | None = None
    """Person on record for this version (`access.Person.label`); None without a sign-in."""


def recorded_revisions(records: Iterable[EventRecord], block: str) -> list[SummaryRevision]:
    """Return the versions of a summary since it was last emptied, oldest first, without their words.

    A text that a person wrote covers the messages of the previous text; a restored text, those it covered at first.
    """
    revisions: list[SummaryRevision] = []
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
            made = SummaryRevision(event.revision, "", record.actor, record.turn, record.at, restored=event.restored)
            revisions.append(replace(made, covers_turn=base.covers_turn) if base else made)
        elif is_rewriting(event):
            revisions = _rewritten(revisions, record, event)
    return revisions


def _rewritten(revisions: list[SummaryRevision], record: EventRecord, event: SummaryRewritten) -> list[SummaryRevision]:
    """Return the revisions after a rewrite; the change of the text, if any, precedes it in the log."""
    if not revisions or revisions[-1].revision != event.revision:
        # The summariser found nothing worth recording: no text, but the messages count as covered.
        return [*revisions, SummaryRevision(0, "", "engine", record.turn, record.at, event.turn_covered or None)]
    last = revisions[-1]
    if not event.covers:  # emptied with the messages it was made of
        return [replace(last, covers_turn=None)]
    messages = last.messages + len(expand(event.seqs))
    after = replace(last, covers_turn=event.turn_covered or None, messages=messages)
    # The first rewrite recorded after the change of text is the one that made it.
    if last.actor == "engine" and last.summariser is None:
        after = replace(after, summariser=event.summariser, asked_by=record.actor, shortened=event.shortened)
    return [*revisions[:-1], after]


class SummaryDesk:
    """Desk of one summary block. See `Memory.blocks.summary`."""

    def __init__(self, session: Session, block: str | None = None) -> None:
        if block is None:
            block = next((attached.name for attached in session.blocks if attached.kind == "summary"), None)
            if block is None:
                raise NotFoundError("This session has no block that keeps a summary.")
        if not isinstance(session.block(block).block, SummaryMemoryBlock):
            raise ConfigError(f'the block "{block}" keeps no summary')
        self._session = session
        self.block = block

    @property
    def summariser(self) -> Summariser:
        return self._block.summariser(self._session.services)

    def state(self) -> SummaryState:
        """Return the present state of the summary, and how far it is behind the conversation.

        Raises:
            NotFoundError: the session or the block was removed.
        """
        with self._session.database.read() as connection:
            session = read_session(connection, self._session.id)
            summary = self._existing(read_summary(connection, self._session.id, self.block))
            due = read_deliveries(connection, self._session.id, states=("pending", "parked"))
        logged = self._logged()
        covers = logged[-1].covers_turn if logged else None
        latest = session.turns if session is not None else 0
        return SummaryState(
            text=summary.text,
            tokens=self._session.counter.text(summary.text),
            max_tokens=int(summary.record.settings.get("max_tokens", self._block.max_tokens)),
            revision=summary.record.revision,
            covers_turn=covers,
            latest_turn=latest,
            behind=max(0, latest - (covers or 0)),
            waiting=sum(delivery.messages for delivery in due if delivery.block == self.block),
        )

    def revisions(self) -> list[SummaryRevision]:
        """Return all versions of the summary, oldest first, each with the losses against the one before."""
        with self._session.database.read() as connection:
            texts = {
                revision.revision: revision for revision in read_revisions(connection, self._session.id, self.block)
            }
        found_revisions: list[SummaryRevision] = []
        for logged in self._logged():
            # Erasing a message deletes all versions of the summary; the log still lists them.
            if (stored := texts.get(logged.revision)) is None:
                continue
            lost = losses(found_revisions[-1].text, stored.text) if found_revisions else ()
            found_revisions.append(replace(logged, text=stored.text, lost=lost, person=stored.person))
        return found_revisions

    def rewrite_cost(self, from_messages: bool = False) -> tuple[int, int]:
        """Return the number of messages a rewrite would read (0: only the summary), and the tokens to read."""
        if from_messages:
            messages = self._messages()
            return len(messages), sum(message.tokens.content for message in messages)
        with self._session.database.read() as connection:
            summary = self._existing(read_summary(connection, self._session.id, self.block))
        return 0, self._session.counter.text(summary.text)

    def rewrite(self, from_messages: bool = False, *, actor: Actor = "user") -> SummaryState:
        """Rewrite the summary now, from its own text or from its source messages.

        Raises:
            NotFoundError: there is no text, or no message, to write the summary from.
            ConflictError: the summary was changed repeatedly meanwhile; nothing was saved.
            ModelError: the summariser failed; the former text stays.
        """
        # Each attempt starts from the newest text, as a delivery may have changed it while the model wrote.
        for attempt in range(MAX_CONFLICTS):
            try:
                self._rewrite(from_messages, actor)
                break
            except ConflictError:
                if attempt == MAX_CONFLICTS - 1:
                    raise
        self._session.open()
        return self.state()

    def _rewrite(self, from_messages: bool, actor: Actor) -> None:
        with self._session.database.read() as connection:
            before = self._existing(read_summary(connection, self._session.id, self.block))
        messages = self._messages() if from_messages else []
        if from_messages and not messages:
            raise NotFoundError("No message was given to the summary yet: there is nothing to write it from.")
        if not from_messages and not before.text:
            raise NotFoundError("The summary is empty: there is nothing to rewrite.")
        counter, summariser = self._session.counter, self.summariser
        started = time.monotonic()
        try:
            written = self._block.write("" if from_messages else before.text, messages, summariser, counter)
        except ModelError as error:
            took = round(time.monotonic() - started, 3)
            failed = ModelCalled("summarise", summariser.name, None, None, took, None, self.block, user_message(error))
            # In a transaction of its own: nothing else of a failed rewriting is stored.
            with self._session.writing() as w:
                w.record(failed, actor=actor)
            raise
        # Rewritten from its own text, the summary covers the same messages as before.
        covers, turn = (messages[-1].seq, messages[-1].turn) if messages else (before.covers, before.turn_covered)
        calls = call_events(written.calls, self.block)
        try:
            with self._session.writing() as w:
                # Messages erased meanwhile must not stay in the summary.
                if not still_there(w.connection, self._session.id, [message.seq for message in messages]):
                    raise ConflictError("Messages were removed while the summary was being rewritten.")
                w.record(*calls)
                write_summary(
                    w,
                    before,
                    written.text,
                    summariser=summariser.name,
                    covers=covers,
                    turn_covered=turn,
                    seqs=[message.seq for message in messages],
                    max_tokens=self._block.max_tokens,
                    count=counter.text,
                    shortened=written.shortened,
                    broken=written.broken,
                    actor=actor,
                )
        except ConflictError:
            if calls:  # the text is discarded, but its cost is recorded
                with self._session.writing() as w:
                    w.record(*calls)
            raise

    # -- inside -----------------------------------------------------------------------------------

    @property
    def _block(self) -> SummaryMemoryBlock:
        block = self._session.block(self.block).block
        if not isinstance(block, SummaryMemoryBlock):
            raise ConfigError(f'the block "{self.block}" keeps no summary')
        return block

    def _existing(self, summary: StoredSummary | None) -> StoredSummary:
        if summary is None:
            raise NotFoundError(f'This session has no block called "{self.block}".')
        return summary

    def _logged(self) -> list[SummaryRevision]:
        with self._session.database.read() as connection:
            return recorded_revisions(
                read_events(connection, self._session.id, kinds=KINDS, block=self.block), self.block
            )

    def _messages(self) -> Sequence[StoredMessage]:
        """Return the source messages: those delivered to the block, and those flushed before it was added."""
        with self._session.database.read() as connection:
            archived = read_messages(
                connection, self._session.id, self._session.services.messages, status=MessageStatus.ARCHIVED
            )
            delivered = given_seqs(connection, self._session.id, self.block)
            # Messages that wait are left out, as their delivery would add them a second time, and so are skipped ones.
            held = undelivered_seqs(connection, self._session.id, self.block)
            seqs = sorted(({message.seq for message in archived} | delivered) - held)
            messages = read_messages(connection, self._session.id, self._session.services.messages, seqs=seqs)
        return [message for message in messages if not message.pinned]
