"""Management of a session's blocks: reading, adding, removing, configuring and editing them, and their summaries.

`memory_core.planning.running_summary` finds the names, numbers and dates that a version of a summary lost.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.summary import SummaryMemoryBlock
from memory_core.curation import settings as editing
from memory_core.curation.change_sets import OnlyTriedError
from memory_core.curation.graph_desk import GraphAndFacts, GraphDesk
from memory_core.engine import delivery
from memory_core.engine.context import Context, build_context
from memory_core.engine.delivery import MAX_CONFLICTS, Served, call_events
from memory_core.engine.queue import fill
from memory_core.engine.session import ImaginedBlocks, Session, SessionBlock
from memory_core.errors import ConfigError, ConflictError, ModelError, NotFoundError, user_message
from memory_core.events import KINDS as EVENTS
from memory_core.events import Actor, EventRecord, ModelCalled, SummaryRewritten, expand
from memory_core.history.block_slice import edits_text, is_rewriting
from memory_core.messages import MessageStatus
from memory_core.models.protocols import Summariser
from memory_core.planning.running_summary import losses
from memory_core.store.block_rows import (
    Holding,
    StoredSummary,
    TextRevision,
    read_holding,
    read_revision,
    read_revisions,
    read_summary,
    write_summary,
)
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


# -- all blocks -----------------------------------------------------------------------------------


class SessionBlocks(Sequence[SessionBlock]):
    """`Memory.blocks`: the session's blocks in order, read afresh at each access."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @overload
    def __getitem__(self, place: int) -> SessionBlock: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[SessionBlock, ...]: ...
    def __getitem__(self, place: int | slice) -> SessionBlock | tuple[SessionBlock, ...]:
        return self._session.blocks[place]

    def __len__(self) -> int:
        return len(self._session.blocks)

    def settings(self, name: str) -> dict[str, Any]:
        """Return the settings of a block that are in effect.

        Raises:
            NotFoundError: there is no such block.
        """
        return self._session.block(name).settings

    def holding(self, name: str) -> Holding:
        """Return the counts of a block's stored contents.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        scope = delivery.scope_key(self._session, attached)
        with self._session.database.read() as connection:
            return read_holding(connection, self._session.id, scope, name, attached.kind)

    def revisions(self, name: str) -> list[TextRevision]:
        """Return all versions of a static block's or a summary's text, oldest first."""
        with self._session.database.read() as connection:
            return read_revisions(connection, self._session.id, name)

    @property
    def editable_by_agents(self) -> bool:
        """True if an agent may edit any of the blocks; its model then gets tools (see `memory_core.agent.tools`)."""
        return any(editing.agent_may_edit(attached) for attached in self._session.blocks)

    def add(self, block: BaseMemoryBlock[Any], *, actor: Actor = "user") -> None:
        """Add a block to a session. `fill` delivers the messages flushed before.

        Raises:
            ConfigError: the name is taken, or the block has the scope `user` and the session has no user.
        """
        with self._session.changing() as w:
            editing.add_block(self._session, w, block, actor)

    def fill(self, name: str, *, wait: bool = True) -> dict[str, Served]:
        """Deliver existing messages that were never due to a block: the archive, or every complete turn.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        with self._session.writing() as w:
            fill(self._session, w, attached)
        # After the commit, as learning may take minutes.
        return delivery.serve_put(self._session, wait)

    def remove(self, name: str, *, actor: Actor = "user") -> None:
        """Remove a block and its stored units; facts stay in the database, and return with a block of that name.

        Raises:
            NotFoundError: there is no such block.
        """
        self._session.block(name)
        with self._session.writing() as w:
            editing.remove_block(self._session, w, name, actor)

    def configure(
        self, name: str, *, opened: Mapping[str, Any] | None = None, actor: Actor = "user", **settings: Any
    ) -> None:
        """Change a block's settings (priority, truncation, enabled, top-k, ...). See `configure_all`."""
        self.configure_all({name: settings}, opened={name: opened} if opened else {}, actor=actor)

    def configure_all(
        self,
        changes: Mapping[str, Mapping[str, Any]],
        *,
        order: Sequence[str] | None = None,
        opened: Mapping[str, Mapping[str, Any]] | None = None,
        actor: Actor = "user",
    ) -> None:
        """Change settings of several blocks, and their order (see `order`) with them: all or nothing.

        `opened` are the settings that the change started from, by block: if any of them has changed meanwhile, nothing
        is saved.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: a value is impossible; nothing was changed.
            ConflictError: a block was changed or removed elsewhere meanwhile.
        """
        session = self._session
        with session.changing() as w:
            editing.check_unchanged(session, opened or {})
            changed = [editing.write_settings(session, w, name, settings, actor) for name, settings in changes.items()]
            if order is not None:
                changed.append(editing.write_order(session, w, order, actor))
            # Once for all changes: every process loads the blocks again at each new revision.
            if any(changed):
                editing.take_over(session, w)

    def order(self, names: Sequence[str], *, opened: Sequence[str] | None = None, actor: Actor = "user") -> None:
        """Change the order of blocks: their order in the prompt, and the order of cutting among those of equal
        priority.

        Raises:
            ConfigError: not every block is named once.
            ConflictError: the order is no longer that of `opened`.
        """
        with self._session.changing() as w:
            if opened is not None and list(opened) != [attached.name for attached in self]:
                raise editing.changed_elsewhere("The blocks were")
            if editing.write_order(self._session, w, names, actor):
                editing.take_over(self._session, w)

    @overload
    def edit(
        self, name: str, text: str, *, revision: int | None = None, preview: Literal[False] = False, actor: Actor = ...
    ) -> int: ...
    @overload
    def edit(
        self, name: str, text: str, *, revision: int | None = None, preview: Literal[True], actor: Actor = ...
    ) -> Context: ...
    def edit(
        self, name: str, text: str, *, revision: int | None = None, preview: bool = False, actor: Actor = "user"
    ) -> int | Context:
        """Change the text of a static block or a summary; return the new revision.

        `revision` is the version that the edit started from: if it is no longer the newest, nothing is saved. With
        `preview` nothing is saved, and the next prompt with the new text is returned.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block has no text of its own, or the text exceeds a summary's token limit.
            ConflictError: the text was changed elsewhere meanwhile.
        """
        with suppress(OnlyTriedError), self._session.changing() as w:
            attached = editing.with_text(self._session, w, name, revision)
            saved = editing.write_block_text(self._session, w, attached, text, actor)
            # Raised only after writing, so that a preview fails wherever the edit would.
            if preview:
                raise OnlyTriedError
            return saved
        self._session.open()
        imagined = self._session.imagined(self._session.config, ImaginedBlocks(texts={name: text}))
        return build_context(imagined, record=False)

    def undo(self, name: str) -> int:
        """Restore the text that a static block or a summary had before the newest one; return the new revision.

        Raises:
            NotFoundError: there is no such block, or no earlier text.
        """
        revisions = self.revisions(name)
        if len(revisions) < 2:
            raise NotFoundError(f'"{name}" has no earlier text.')
        # Pass the newest revision as read here, so that an edit made in between raises and is not undone unseen.
        return self.restore(name, revisions[-2].revision, revision=revisions[-1].revision)

    def restore(self, name: str, earlier: int, *, revision: int | None = None, actor: Actor = "user") -> int:
        """Restore an earlier text of a static block or a summary; return the new revision. See `edit`.

        Raises:
            NotFoundError: there is no such block, or it never had that revision.
            ConflictError: the text was changed elsewhere since `revision`.
        """
        with self._session.changing() as w:
            attached = editing.with_text(self._session, w, name, revision)
            text = read_revision(w.connection, self._session.id, name, earlier)
            if text is None:
                raise NotFoundError(f'"{name}" has no version {earlier}.')
            return editing.write_block_text(self._session, w, attached, text, actor, restored=earlier)

    def graph(self, block: str | None = None) -> GraphDesk:
        """Return the desk of a graph block (None: the first): relations, paths, changes with undo.

        Raises:
            NotFoundError: there is no such block, or none that holds a graph.
            ConfigError: the block holds no graph.
        """
        return GraphDesk(self._session, block)

    def graph_and_facts(self, graph: str, facts: str) -> GraphAndFacts:
        """Return a desk for a graph and a facts block together: read at one moment, changed in one transaction.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: `graph` holds no graph, or `facts` no facts.
        """
        return GraphAndFacts(self._session, graph, facts)

    def summary(self, block: str | None = None) -> SummaryDesk:
        """Return the desk of a summary block (None: the first): its state, all versions, rewriting on demand.

        Raises:
            NotFoundError: there is no such block, or none that keeps a summary.
            ConfigError: the block keeps no summary.
        """
        return SummaryDesk(self._session, block)
