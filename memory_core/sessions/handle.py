"""Session of a memory: owner, database and services, messages, deliveries, recording,
and its event log: by turn, its past prompts, and how often stored items were used."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import monotonic
from typing import Any

from memory_core.blocks.storing import vectors_that_follow
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.config import MAX_TOKENS, MemoryConfig
from memory_core.engine import delivery
from memory_core.engine.context import last_measured
from memory_core.engine.delivery import Served
from memory_core.engine.session import Session
from memory_core.errors import NotFoundError
from memory_core.events import (
    Actor,
    Event,
    EventRecord,
    SessionHandedBack,
    SessionImported,
    SessionRenamed,
    SessionTakenOver,
)
from memory_core.history.by_turn import History
from memory_core.history.context_pieces import Pieces
from memory_core.history.log import Folded, Query, Result, history_of_session, pieces_of_session, session_log
from memory_core.history.prompt import Prompt, Prompts
from memory_core.history.usage import Usage, usage_of
from memory_core.messages import ChatMessage, MessageRole, MessageStatus
from memory_core.planning.impact import Affected, Impact
from memory_core.planning.quarantine import Quarantine, QuarantinedSet
from memory_core.planning.rendering import InsertMethod
from memory_core.retrieval.explain import read_ahead
from memory_core.services import Services
from memory_core.sessions import forgetting, switch_recipe
from memory_core.sessions.forgetting import Forgettable
from memory_core.sessions.overview import Status, status_of
from memory_core.sessions.recorded_conversation import Recording, encode, recording_of
from memory_core.sessions.switch_recipe import SwitchPlan
from memory_core.store.database import Database
from memory_core.store.delivery_rows import Delivery, in_transit, read_deliveries
from memory_core.store.log_rows import last_position
from memory_core.store.message_rows import StoredMessage, read_messages
from memory_core.store.quarantine_rows import add_set, end_set, read_sets
from memory_core.store.writing import read_existing, read_texts, session_scope, user_scope
from memory_core.tokens import Tokenizer


class SessionLog:
    """`Memory.log`: cached in this process and updated before each read."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def history(self) -> History:
        """Return the whole log by turn, cached in this process: each call reads only new events."""
        return history_of_session(self._session)

    def unread(self) -> int:
        """Return the number of events that this process has not read yet; `history` and most methods read them."""
        return session_log(self._session).unread(self._session.database, self._session.id)

    def read_ahead(self, progress: Callable[[int], None] | None = None) -> None:
        """Read the log and the contents of vector blocks into this process, if not yet done.

        `progress` receives the number of events read so far, finally the total.
        """
        session_log(self._session).catch_up(self._session.database, self._session.id, progress)
        read_ahead(self._session)

    def texts(self, hashes: Iterable[str]) -> dict[str, str]:
        """Return the texts of these hashes, by hash; erased ones are missing."""
        # The texts of a user's facts are in the user's scope, but this session's log names them too.
        scopes = [
            session_scope(self._session.id),
            *([user_scope(self._session.user_id)] if self._session.user_id else ()),
        ]
        wanted = set(hashes)
        with self._session.database.read() as connection:
            return {key: text for scope in scopes for key, text in read_texts(connection, scope, wanted).items()}

    def prompt(self, context: EventRecord) -> Prompt:
        """Return a past prompt part by part, word for word; `context` is its event (`history().turns[12].built`)."""
        return self._prompts().read(self._session, self.history(), context, self.texts)

    def altered_prompt(
        self, context: EventRecord, *, without: Collection[str] = (), edited: Mapping[str, str] | None = None
    ) -> tuple[ChatMessage, ...]:
        """Return the messages of a past prompt without some items (`without`), or with other texts (`edited`), by ref.

        Everything else is word for word as it was sent.
        """
        return self._prompts().altered(self._session, self.history(), context, self.texts, without, edited or {})

    def pieces(self) -> Pieces:
        """Return the hashes of all texts of the log; later events are added to the same object."""
        return pieces_of_session(self._session)

    def follow(self, make: Callable[[], Folded]) -> Folded:
        """Return the object that `make` began and that follows the log: each event is applied to it once.

        All callers share it; later events are added to the same object until words of the log are erased.
        """
        return session_log(self._session).follow(self._session.database, self._session.id, make)

    def query(self, query: Query[Result], upto: int | None = None) -> Result:
        """Return the result of a pure function of the session's state at a log position or now; cached for a while."""
        return session_log(self._session).query(self._session.database, self._session.id, query, upto)

    def shared_prefix_tokens(self, before: EventRecord, after: EventRecord, *, insert_method: str | None = None) -> int:
        """Count the billed tokens of the common beginning of two recorded prompts, which a prompt cache can reuse.

        The prompts are compared as sent, or as if the memory section had been inserted by `insert_method`.
        """
        method = None if insert_method is None else InsertMethod(insert_method)
        return self._prompts().shared_prefix_tokens(self._session, self.history(), before, after, self.texts, method)

    def usage(self, upto: int | None = None) -> Usage:
        """Count how often each block, fact and stored turn was in prompts or cut, up to a log position or now."""
        return self.query(usage_of, upto)

    def record(self, *events: Event, actor: Actor = "engine") -> None:
        """Add events of the caller to the log, such as an agent's model calls."""
        with self._session.writing() as w:
            w.record(*events, actor=actor)

    def _prompts(self) -> Prompts:
        key = "prompts", self._session.database.id, self._session.id
        return self._session.services.cached(key, Prompts)


def deliver(session: Session, *, timeout: float | None = None, force: bool = True) -> dict[str, Served]:
    """Attempt waiting deliveries; with `force`, also wait for vectors that are computed later. See `Memory.deliver`."""
    served = delivery.serve(session, timeout=timeout, force=force)
    # Vectors that follow a delivery are waited for only by a caller who asked for everything now.
    if force:
        until = None if timeout is None else monotonic() + timeout
        for attached in session.blocks:
            if isinstance(attached.block, VectorMemoryBlock):
                following = vectors_that_follow(session.database, session.services, session.id, attached.name)
                following.wait(None if until is None else max(0.0, until - monotonic()))
    return served


class SessionHandle:
    """`Memory.session`: messages, deliveries, recipe, forgetting, quarantine and recording of a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def user_id(self) -> str | None:
        return self._session.user_id

    @property
    def config(self) -> MemoryConfig:
        return self._session.config

    @property
    def database(self) -> Database:
        return self._session.database

    @property
    def services(self) -> Services:
        return self._session.services

    @property
    def tokenizer_fn(self) -> Tokenizer | None:
        """Tokenizer passed to the memory; None if tokens are counted with the encoding in the settings."""
        return self._session.tokenizer_fn

    @property
    def counter_id(self) -> str:
        """Name of the token counter: a tiktoken encoding, or a tokenizer function."""
        return self._session.counter_id

    def count_tokens(self, text: str) -> int:
        """Return the tokens of a text as this session counts them."""
        return self._session.counter.text(text)

    def measured_tokens(self) -> int | None:
        """Return the tokens of the agent's system prompt and tools in the newest prompt; None if not measured."""
        return last_measured(self._session)

    @contextmanager
    def holding(self, what: Collection[str]) -> Iterator[None]:
        """Suspend this object's flushes of the queue (`flush`) or condensing of facts (`condensing`) in the context.

        For a memory that is replayed and discarded; the change is not recorded.
        """
        # In this object only: nothing is stored, and other processes are not affected.
        session, config, blocks = self._session, self._session.config, self._session.blocks
        if "flush" in what:
            session.config = config.changed(token_limit=MAX_TOKENS, chat_history_token_ratio=1.0, queue_turns=None)
        if "condensing" in what:
            session.blocks = tuple(
                # A limit that is never reached; a copy, as the block object may be the program's.
                replace(block, block=block.block.model_copy(update={"max_facts": MAX_TOKENS}))
                if block.kind == "facts" and block.block is not None
                else block
                for block in blocks
            )
        try:
            yield
        finally:
            # The blocks may have been reloaded meanwhile; only those replaced here are put back.
            session.config, session.blocks = config, blocks if "condensing" in what else session.blocks

    def refresh(self) -> None:
        """Reload the configuration and blocks if another process changed them."""
        self._session.open()

    def status(self) -> Status:
        """Return the totals of the session.

        Raises:
            NotFoundError: the session was deleted.
        """
        with self._session.database.read() as connection:
            state = read_existing(connection, self._session.id)
            # One connection, so that all numbers are of one moment.
            moving = in_transit(connection, self._session.id)
            position = last_position(connection, self._session.id)
        return status_of(state, self._session.config, in_transit=moving, position=position)

    def messages(
        self,
        status: MessageStatus | str | None = None,
        *,
        role: MessageRole | str | None = None,
        after: int = 0,
        upto: int | None = None,
        last: int | None = None,
    ) -> list[StoredMessage]:
        """Return the messages with their places, sizes and states; `last` keeps the newest n."""
        with self._session.database.read() as connection:
            return read_messages(
                connection,
                self._session.id,
                self._session.services.messages,
                status=MessageStatus(status) if status else None,
                role=MessageRole(role) if role else None,
                after=after,
                upto=upto,
                last=last,
            )

    def deliveries(self, *, states: Sequence[str] | None = None, last: int | None = None) -> list[Delivery]:
        """Return the deliveries in order, by state (`pending`, `done`, `parked`, `skipped`) or all."""
        with self._session.database.read() as connection:
            return read_deliveries(connection, self._session.id, states=states, last=last)

    def switch(self, recipe: str, *, wait: bool = True, actor: Actor = "user", **parameters: Any) -> SwitchPlan:
        """Switch the session to a recipe, all or nothing. Added blocks learn from the messages already stored.

        Raises:
            ConfigError: see `Memory.preview.switch`; nothing was changed.
            ConflictError: the blocks were changed elsewhere meanwhile.
        """
        plan = switch_recipe.switch(self._session, recipe, parameters, actor)
        delivery.serve_put(self._session, wait)
        return plan

    def rename(self, title: str, *, actor: Actor = "user") -> None:
        """Give the session another title."""
        with self._session.writing() as w:
            w.record(SessionRenamed(before=w.session.title, after=title), actor=actor)
            w.session.title = title

    def take_over(self) -> None:
        """Record that a person changes the session from now on, even while an agent works in it; the app requests it.

        The agent continues: its next prompt includes the changes.
        """
        with self._session.writing() as w:
            w.record(SessionTakenOver(), actor="user")

    def hand_back(self) -> None:
        """Record that the session is left to its agent again."""
        with self._session.writing() as w:
            w.record(SessionHandedBack(), actor="user")

    def learn_here(self, blocks: Collection[str] | None = None) -> dict[str, Served]:
        """Learn from deliveries that wait for an unavailable model, with this process's rules or model.

        `blocks` by name; None: all that wait. Any process then learns for these blocks, until a program opens the
        session with a model for them.
        """
        self._session.open()
        # Only waiting blocks: others are left to the program that serves them.
        waits = {block.name for block in self._session.blocks if block.waits_for(self._session.services) is not None}
        delivery.free(self._session, waits if blocks is None else waits & set(blocks))
        return deliver(self._session)

    def retry(self, ids: Sequence[int] | None = None) -> dict[str, Served]:
        """Attempt parked deliveries again (None: all of them)."""
        delivery.retry(self._session, ids)
        return deliver(self._session)

    def skip(self, ids: Sequence[int]) -> None:
        """Give deliveries up; their messages stay in the archive."""
        delivery.skip(self._session, ids)

    @property
    def probes(self) -> str | None:
        """Expectations on the session's prompts, as `memory_inspector.lab.probes` writes them; None if none are stored.

        Raises:
            NotFoundError: the session was deleted.
        """
        with self._session.database.read() as connection:
            return read_existing(connection, self._session.id).probes

    def keep_probes(self, text: str | None) -> None:
        """Keep probes with the session, in its bundles and branches too; no event is recorded."""
        with self._session.writing() as w:
            w.session.probes = text

    def forget(self, what: Forgettable, *, keep: Collection[Affected] = (), preview: bool = False) -> Impact:
        """Erase what says a phrase, and what was learned only from messages that say it. No undo.

        `what` is the phrase, the ref of a message or a fact (`Ref.of("fact", 12)`), or an entity of a graph, which
        stands for all its names. With a fact, messages that state it are erased, in all sessions of the user if these
        share it; with a message, what repeats it word for word. Each row names how it says a phrase (`Affected.match`).

        Returns what was erased; with `preview=True` what would be, without any change. Rows in `keep` are left alone.
        Texts and summaries lose the sentences that say it; past prompts show its words as erased.

        Raises:
            MessageError: the phrase or a name has under 3 characters.
            NotFoundError: the session has no such message or fact.
            VectorIndexError: everything was erased, except copies of vectors in an index that cannot be reached.
        """
        impact = forgetting.impact_of(self._session, what, keep, everywhere=True)
        if not preview:
            forgetting.forget(self._session, impact)
        return impact

    def quarantine(
        self, what: Forgettable, *, keep: Collection[Affected] = (), preview: bool = False, actor: Actor = "user"
    ) -> Impact:
        """Keep what contains a phrase, and what was learned only from messages that contain it, out of all prompts.

        `what` is as for `forget`. Nothing is erased: `release` gives back exactly what was there. Nothing is
        learned from these messages while they are in quarantine. Returns what was put into quarantine; with
        `preview=True` what would be, without any change. What is put or mirrored later and says the same joins the set,
        and custom blocks lose the sentences that say it in prompts alone. Past prompts, and the memory of another
        program that the session shows, are not covered.

        Raises:
            MessageError: the phrase or a name has under 3 characters.
            NotFoundError: the session has no such message or fact.
        """
        impact = forgetting.impact_on_prompts(self._session, what, keep)
        if not preview:
            with self._session.writing() as w:
                planned = forgetting.planned_set(self._session, w.connection, impact)
                if planned is not None:
                    add_set(w, planned, actor=actor)
        return impact

    def withheld(self) -> Quarantine:
        """Return everything kept out of this session's prompts: its own sets and those of the user's other sessions."""
        with self._session.database.read() as connection:
            return self._session.quarantine(connection)

    def quarantined(self) -> list[QuarantinedSet]:
        """Return the sets of items in quarantine, oldest first."""
        with self._session.database.read() as connection:
            return read_sets(connection, self._session.id)

    def quarantined_rows(self, withheld: QuarantinedSet) -> list[Affected]:
        """Return the items of a set with their texts; items that were erased since are missing."""
        return forgetting.rows_of(self._session, withheld)

    def quarantine_again(self, released: QuarantinedSet, *, actor: Actor = "user") -> QuarantinedSet:
        """Put the items of a released set into quarantine again, and return the new set."""
        with self._session.writing() as w:
            return add_set(w, released, actor=actor)

    def release(self, number: int, *, actor: Actor = "user") -> QuarantinedSet:
        """Let prompts hold the items of a set again, by its number, and return the set.

        Raises:
            NotFoundError: no set of this number is in quarantine.
        """
        with self._session.writing() as w:
            sets = {one.number: one for one in read_sets(w.connection, self._session.id)}
            if number not in sets:
                raise NotFoundError(f"No set {number} is in quarantine in this session.")
            end_set(w, number, actor=actor)
            return sets[number]

    def recording(self, *, upto: int | None = None) -> Recording | None:
        """Return the recorded conversation and how far it has been played; None when there is none.

        With `upto`, how far it had been played by the message of that sequence number.
        """
        return recording_of(self._session, upto=upto)

    def attach_recording(self, messages: Sequence[ChatMessage], *, source: str, skipped: int = 0) -> None:
        """Keep a recorded conversation with the session, to be played into it turn by turn."""
        with self._session.writing() as w:
            # The hash names the recording and is part of its messages' ids, so attaching the same one again goes on
            # where it was.
            w.session.recording = w.store_text(encode(messages))
            w.record(SessionImported(source=source, messages=len(messages), skipped=skipped), actor="user")

    def foresee(self, messages: Sequence[ChatMessage]) -> None:
        """Let blocks prepare in the background for messages that will be put, such as a recording's. Stores nothing."""
        for attached in self._session.blocks:
            if attached.block is not None and attached.learns:
                attached.block.foresee(messages, self._session.services)
