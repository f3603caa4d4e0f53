"""A session's event log: by turn, its past prompts, and how often stored items were used."""

from collections.abc import Callable, Collection, Iterable, Mapping

from memory_core.engine.session import Session
from memory_core.events import Actor, Event, EventRecord
from memory_core.history.by_turn import History
from memory_core.history.context_pieces import Pieces
from memory_core.history.log import Folded, Query, Result, history_of_session, pieces_of_session, session_log
from memory_core.history.prompt import Prompt
from memory_core.history.prompt_store import Prompts
from memory_core.history.usage import Usage, usage_of
from memory_core.messages import ChatMessage
from memory_core.planning.rendering import InsertMethod
from memory_core.retrieval.explain import read_ahead
from memory_core.store.writing import read_texts, session_scope, user_scope


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
