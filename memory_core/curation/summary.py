"""The desk of a summary block: how fresh the summary is, every text it had, and writing it anew on demand.

It gathers and stores; what a text lost is decided in `memory_core.planning.summaries`.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.engine.delivery import MAX_CONFLICTS, call_events
from memory_core.engine.session import Session
from memory_core.errors import ConfigError, ConflictError, ModelError, NotFoundError
from memory_core.events import Actor, ModelCalled
from memory_core.history.summaries import KINDS, ToldRevision, told_revisions
from memory_core.messages import MessageStatus
from memory_core.models.base import Summariser
from memory_core.planning.summaries import losses
from memory_core.store.blocks import read_revisions
from memory_core.store.deliveries import given_seqs, read_deliveries, still_there, undelivered_seqs
from memory_core.store.log import read_events
from memory_core.store.messages import StoredMessage, read_messages
from memory_core.store.summaries import StoredSummary, read_summary, write_summary
from memory_core.store.writing import read_session


@dataclass(frozen=True, slots=True)
class SummaryState:
    """A summary as it stands."""

    text: str
    tokens: int
    max_tokens: int
    revision: int
    """0: nothing was written yet."""
    covers_turn: int | None
    """The turn of the last message that it takes in; None: none yet."""
    latest_turn: int
    behind: int
    """Turns that it does not take in yet, those that are whole in the queue counted."""
    waiting: int
    """Messages that are due to it and not taken in, because a delivery waits or failed."""

    @property
    def over(self) -> bool:
        """Is the text longer than it may be? So it stands after the bound was lowered, until it is next written."""
        return self.tokens > self.max_tokens


@dataclass(frozen=True, slots=True)
class SummaryRevision:
    """One text that a summary had."""

    revision: int
    text: str
    actor: str
    """Whose words they are: `engine` (a summariser), `user` or `agent`."""
    turn: int
    at: float
    covers_turn: int | None
    lost: tuple[str, ...]
    """Names, numbers and dates of the text before that are not in this one."""
    messages: int = 0
    """Messages that were read for it."""
    summariser: str | None = None
    asked_by: str | None = None
    """`user` where a person asked for it to be rewritten."""
    restored: int | None = None
    """The earlier revision whose words these are."""
    shortened: int = 0
    """Tokens of whole sentences left out to stay within `max_tokens`."""


class SummaryDesk:
    """One summary block under a person's hands. See `Memory.blocks.summary`."""

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
        """What writes it."""
        return self._block.summariser(self._session.services)

    def state(self) -> SummaryState:
        """The summary as it stands, and how far it is behind.

        Raises:
            NotFoundError: the session or the block was removed.
        """
        with self._session.database.read() as connection:
            session = read_session(connection, self._session.id)
            summary = self._existing(read_summary(connection, self._session.id, self.block))
            due = read_deliveries(connection, self._session.id, states=("pending", "parked"))
        told = self._told()
        covers = told[-1].turn_covered if told else 0
        latest = session.turns if session is not None else 0
        return SummaryState(
            text=summary.text,
            tokens=self._session.counter.text(summary.text),
            max_tokens=self._max_tokens(summary),
            revision=summary.record.revision,
            covers_turn=covers or None,
            latest_turn=latest,
            behind=max(0, latest - covers),
            waiting=sum(delivery.messages for delivery in due if delivery.block == self.block),
        )

    def revisions(self) -> list[SummaryRevision]:
        """Every text the summary had, oldest first, each with what it lost of the one before."""
        with self._session.database.read() as connection:
            texts = {each.revision: each for each in read_revisions(connection, self._session.id, self.block)}
        found: list[SummaryRevision] = []
        for told in self._told():
            if told.revision not in texts:
                continue
            text = texts[told.revision].text
            found.append(
                SummaryRevision(
                    revision=told.revision,
                    text=text,
                    actor=told.actor,
                    turn=told.turn,
                    at=told.at,
                    covers_turn=told.turn_covered or None,
                    lost=losses(found[-1].text, text) if found else (),
                    messages=told.messages,
                    summariser=told.summariser,
                    asked_by=told.asked_by,
                    restored=told.restored,
                    shortened=told.shortened,
                )
            )
        return found

    def rewrite_cost(self, from_messages: bool = False) -> tuple[int, int]:
        """What a rewriting would read: messages, and tokens of these or of the text."""
        if from_messages:
            messages = self._messages()
            return len(messages), sum(message.tokens.content for message in messages)
        with self._session.database.read() as connection:
            summary = self._existing(read_summary(connection, self._session.id, self.block))
        return 0, self._session.counter.text(summary.text)

    def rewrite(self, from_messages: bool = False, *, actor: Actor = "user") -> SummaryState:
        """Write the summary anew, now: out of its own text, or out of the messages that it was made of.

        Raises:
            NotFoundError: there is nothing to write it from.
            ConflictError: it was changed again and again meanwhile; nothing was saved.
            ModelError: the summariser failed; the former text stays.
        """
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
            failed = ModelCalled("summarise", summariser.name, None, None, took, None, self.block, str(error))
            with self._session.writing() as w:
                w.record(failed, actor=actor)
            raise
        covers, turn = (messages[-1].seq, messages[-1].turn) if messages else (before.covers, before.turn_covered)
        calls = call_events(written.calls, self.block)
        try:
            with self._session.writing() as w:
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
            if calls:  # what was written is thrown away, what it cost is not
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

    def _max_tokens(self, summary: StoredSummary) -> int:
        return int(summary.record.settings.get("max_tokens", self._block.max_tokens))

    def _told(self) -> list[ToldRevision]:
        with self._session.database.read() as connection:
            return told_revisions(read_events(connection, self._session.id, kinds=KINDS, block=self.block), self.block)

    def _messages(self) -> Sequence[StoredMessage]:
        """What it was given, and what left the queue before it was there; not what it still waits for."""
        with self._session.database.read() as connection:
            archived = read_messages(
                connection, self._session.id, self._session.services.messages, status=MessageStatus.ARCHIVED
            )
            given = given_seqs(connection, self._session.id, self.block)
            held = undelivered_seqs(connection, self._session.id, self.block)
            seqs = sorted(({message.seq for message in archived} | given) - held)
            found = read_messages(connection, self._session.id, self._session.services.messages, seqs=seqs)
        return [message for message in found if not message.pinned]
