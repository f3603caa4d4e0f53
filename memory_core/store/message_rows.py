"""Messages in the database: the queue and the archive of a session.

A message's text is in the content store; its row has the values that planning needs.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple
from unicodedata import normalize

from sqlalchemy import ColumnElement, Connection, LargeBinary, and_, bindparam, cast, func, or_, select, true, update

from memory_core.events import MemoryStripped, MessageAdded
from memory_core.messages import ChatMessage, MessageRole, MessageStatus, TextPart, content_hash, independent
from memory_core.planning.flush import SizedMessage
from memory_core.store.database import chunks
from memory_core.store.tables import content_table, message_table
from memory_core.store.writing import Writing, read_texts, session_scope
from memory_core.tokens import Accounting, MessageTokens, TokenCounter, total_tokens

_m = message_table.c
# Built once, as the others below: making a statement costs as much as running it.
_KNOWN = select(_m.id, _m.seq).where(_m.session_id == bindparam("session"), _m.id.in_(bindparam("ids", expanding=True)))

_OF_SEQS = (
    select(message_table)
    .where(_m.session_id == bindparam("session"), _m.seq.in_(bindparam("seqs", expanding=True)))
    .order_by(_m.seq)
)
_DATED = _OF_SEQS.with_only_columns(_m.seq, _m.turn, _m.at, _m.content)

PAGE = 64
"""Number of messages read at a time from the front of the queue while a flush is planned."""


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be stored: checked, counted, and in its canonical form."""

    id: str
    message: ChatMessage
    json: str
    tokens: MessageTokens
    stripped: bool = False
    """True if an echoed memory section was removed from the message."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message with its number and status in the session."""

    session_id: str
    seq: int
    id: str
    status: MessageStatus
    pinned: bool
    turn: int
    tokens: MessageTokens
    flush: int | None
    """Number of the flush in which the message left the queue; None if no flush moved it."""
    at: float
    message: ChatMessage


class DatedMessage(NamedTuple):
    """A message with its session, number, turn and time."""

    session_id: str
    seq: int
    turn: int
    at: float
    message: ChatMessage


HeardMessage = StoredMessage | DatedMessage
"""A message as searches and prompts need it: with session, number, turn and time."""


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A message of the queue, with the values a context needs."""

    sized: SizedMessage
    tokens: MessageTokens
    pinned: bool
    message: ChatMessage
    plain: bool
    """True if the message can be sent unchanged: it has no markup to escape and no mutable parts."""


class MessageCache:
    """Cache of decoded messages by hash; those loaded first are dropped first. A hash's text never changes."""

    def __init__(self, size: int = 16_384) -> None:
        self._size = size
        self._messages: OrderedDict[str, ChatMessage] = OrderedDict()
        self._lock = Lock()

    def load(self, connection: Connection, session_id: str, hashes: Sequence[str]) -> dict[str, ChatMessage]:
        """Return the messages with these hashes, by hash; erased ones are missing."""
        with self._lock:
            result = {key: self._messages[key] for key in hashes if key in self._messages}
        # Read and decoded outside of the lock: two threads may do the same work, but none waits for the database.
        missing = [key for key in hashes if key not in result]
        if missing:
            texts = read_texts(connection, session_scope(session_id), missing)
            fresh = {key: ChatMessage.from_json(text) for key, text in texts.items()}
            result.update(fresh)
            with self._lock:
                self._messages.update(fresh)
                while len(self._messages) > self._size:
                    self._messages.popitem(last=False)
        return result


def add_messages(w: Writing, messages: Sequence[NewMessage], *, counter: str, opening: bool = False) -> list[int]:
    """Append messages to the queue and update its totals; return their sequence numbers.

    `opening`: the messages start the queue, although the session may have had turns before.
    """
    session = w.session
    # The session has no user message yet.
    opening = opening or session.turns == 0
    seqs = []
    for new in messages:
        seq, role = session.next_seq, new.message.role
        session.next_seq += 1
        if role is MessageRole.USER:
            session.turns += 1
            session.newest_turn = seq
            opening = False
        # System messages before the first user message are the agent's instructions: they stay.
        pinned = role is MessageRole.SYSTEM and opening
        if pinned:
            session.pinned_messages += 1
            session.pinned_content += new.tokens.content
            session.pinned_reference += new.tokens.reference
        else:
            session.queue_messages += 1
            session.queue_content += new.tokens.content
            session.queue_reference += new.tokens.reference
        content = content_hash(new.json)
        # Ids of calls and results are kept in columns, so that planning a flush reads no texts.
        calls = [call.tool_call_id for call in new.message.tool_calls if call.tool_call_id]
        row = {
            "session_id": session.id,
            "seq": seq,
            "id": new.id,
            "role": str(role),
            "status": str(MessageStatus.ACTIVE),
            "pinned": pinned,
            "turn": session.turns,
            "tokens": new.tokens.content,
            "reference_tokens": new.tokens.reference,
            "counter": counter,
            "calls": json.dumps(calls) if calls else None,
            "answers": new.message.tool_call_id if role is MessageRole.TOOL else None,
            "content": content,
            "at": w.now,
        }
        added = MessageAdded(
            seq=seq,
            message_id=new.id,
            role=str(role),
            tokens=new.tokens.content,
            reference_tokens=new.tokens.reference,
            counter=counter,
            content=content,
            pinned=pinned,
        )
        w.add_message(row, new.json, added, *([MemoryStripped(seq=seq)] if new.stripped else ()))
        seqs.append(seq)
    return seqs


def known_ids(connection: Connection, session_id: str, ids: Sequence[str]) -> dict[str, int]:
    """Return the sequence numbers of the messages that the session already has, by message id."""
    result: dict[str, int] = {}
    for chunk in chunks(ids):
        result.update((key, seq) for key, seq in connection.execute(_KNOWN, {"session": session_id, "ids": chunk}))
    return result


def hashes_by_seq(connection: Connection, session_id: str) -> dict[int, str]:
    """Return the hash of every message's text by its sequence number, in order."""
    rows = connection.execute(select(_m.seq, _m.content).where(_m.session_id == session_id).order_by(_m.seq))
    return {row.seq: row.content for row in rows}


def oldest_queued(w: Writing, accounting: Accounting) -> Iterator[SizedMessage]:
    """Yield the queue without pinned messages, oldest first, reading `PAGE` rows at a time.

    Nothing is read before the first is asked for, as most puts need no flush: their message is stored with the rest.
    """
    after = 0
    while True:
        rows = w.connection.execute(_OLDEST, {"session": w.session.id, "after": after}).all()
        for row in rows:
            yield _sized(row, accounting)
        if len(rows) < PAGE:
            return
        after = rows[-1][0]


def queued_turns(connection: Connection, session_id: str) -> int:
    """Return the number of user messages in the queue."""
    where = (_m.session_id == session_id) & (_m.status == str(MessageStatus.ACTIVE)) & (_m.role == MessageRole.USER)
    return int(connection.execute(select(func.count()).select_from(message_table).where(where)).scalar_one())


def read_queue(
    connection: Connection, session_id: str, accounting: Accounting, cache: MessageCache, *, after: int = 0
) -> list[QueueRow]:
    """Return the queue after a sequence number, oldest first, pinned messages included; erased ones are missing."""
    rows = connection.execute(_QUEUED_AFTER, {"session": session_id, "after": after}).all()
    words = cache.load(connection, session_id, [row[-1] for row in rows])
    return [
        QueueRow(
            _sized(row[:-2], accounting),
            MessageTokens(row[2], row[3]),
            row[-2],
            words[row[-1]],
            plain_message(words[row[-1]]),
        )
        for row in rows
        if row[-1] in words
    ]


def plain_message(message: ChatMessage) -> bool:
    """Return whether a message has no markup to escape and no mutable parts."""
    texts = (part.text for part in message.parts if isinstance(part, TextPart))
    return independent(message) is message and not any("<" in text for text in texts)


def sizes_between(
    connection: Connection,
    session_id: str,
    *,
    after: int,
    upto: int | None = None,
    accounting: Accounting = "content",
) -> list[SizedMessage]:
    """Return the sizes of the messages in a span, queued or archived, without their text; pinned ones left out."""
    query = select(*_SIZED).where(_m.session_id == session_id, _m.seq > after, _m.pinned.is_(False))
    if upto is not None:
        query = query.where(_m.seq <= upto)
    return [_sized(row, accounting) for row in connection.execute(query.order_by(_m.seq))]


def archive(w: Writing, leave: Sequence[SizedMessage], *, flush: int) -> None:
    """Move messages from the queue to the archive by id, and update the queue's totals."""
    seqs = [message.seq for message in leave]
    for chunk in chunks(seqs):
        where = (_m.session_id == w.session.id) & _m.seq.in_(chunk)
        # Both sums come from the rows, as the plan has the tokens of one accounting only.
        sums = w.connection.execute(select(func.sum(_m.tokens), func.sum(_m.reference_tokens)).where(where)).one()
        w.connection.execute(update(message_table).where(where).values(status=str(MessageStatus.ARCHIVED), flush=flush))
        w.session.queue_content -= int(sums[0])
        w.session.queue_reference -= int(sums[1])
    w.session.queue_messages -= len(seqs)
    w.session.archived_messages += len(seqs)
    # The newest turn leaves only after all others, so no user message is left.
    if w.session.newest_turn in set(seqs):
        w.session.newest_turn = None


def recount(w: Writing, counter: TokenCounter, cache: MessageCache) -> None:
    """Count the tokens of active messages again, and their totals. Archived messages keep their counts."""
    session = w.session
    # Summed anew from 0, which also corrects totals that were wrong.
    session.queue_content = session.queue_reference = session.pinned_content = session.pinned_reference = 0
    for stored in read_messages(w.connection, session.id, cache, status=MessageStatus.ACTIVE):
        tokens = counter.message(stored.message)
        if stored.pinned:
            session.pinned_content += tokens.content
            session.pinned_reference += tokens.reference
        else:
            session.queue_content += tokens.content
            session.queue_reference += tokens.reference
        where = (_m.session_id == session.id) & (_m.seq == stored.seq)
        values = {"tokens": tokens.content, "reference_tokens": tokens.reference, "counter": counter.id}
        w.connection.execute(update(message_table).where(where).values(values))


def last_said(connection: Connection, sources: Sequence[tuple[str, int]]) -> float:
    """Return the time of the latest of these messages, given as session and number; 0 without any."""
    by_session: dict[str, list[int]] = {}
    for session, seq in sources:
        by_session.setdefault(session, []).append(seq)
    latest = func.coalesce(func.max(_m.at), 0.0)
    queries = (
        select(latest).where(_m.session_id == session, _m.seq.in_(chunk))
        for session, seqs in by_session.items()
        for chunk in chunks(seqs)
    )
    return max((float(connection.execute(query).scalar_one()) for query in queries), default=0.0)


def read_messages(
    connection: Connection,
    session_id: str,
    cache: MessageCache,
    *,
    status: MessageStatus | None = None,
    role: MessageRole | None = None,
    flush: int | None = None,
    seqs: Sequence[int] | None = None,
    after: int = 0,
    upto: int | None = None,
    last: int | None = None,
) -> list[StoredMessage]:
    """Return the messages of a session in order, filtered by the arguments; `last`: only that many, the newest.

    `seqs`: only these, whatever the other arguments.
    """
    query = select(message_table).where(_m.session_id == session_id)
    if status is not None:
        query = query.where(_m.status == str(status))
    if role is not None:
        query = query.where(_m.role == str(role))
    if flush is not None:
        query = query.where(_m.flush == flush)
    if after:
        query = query.where(_m.seq > after)
    if upto is not None:
        query = query.where(_m.seq <= upto)
    if last is not None:
        rows = list(reversed(connection.execute(query.order_by(_m.seq.desc()).limit(last)).all()))
    elif seqs is not None:
        rows = _in_chunks(connection, _OF_SEQS, session_id, seqs)
    else:
        rows = list(connection.execute(query.order_by(_m.seq)).all())
    words = cache.load(connection, session_id, [row.content for row in rows])
    return [stored_message(session_id, row, words[row.content]) for row in rows if row.content in words]


def read_dated(
    connection: Connection, session_id: str, cache: MessageCache, seqs: Collection[int]
) -> list[DatedMessage]:
    """Return these messages of a session; deleted ones are missing. A fifth of the work of `read_messages`."""
    rows = _in_chunks(connection, _DATED, session_id, seqs)
    words = cache.load(connection, session_id, [key for *_, key in rows])
    return [DatedMessage(session_id, seq, turn, at, words[key]) for seq, turn, at, key in rows if key in words]


def _in_chunks(connection: Connection, query: Any, session_id: str, seqs: Collection[int]) -> list[Any]:
    # Sorted before they are split, so that rows are in order across the chunks.
    parts = ({"session": session_id, "seqs": chunk} for chunk in chunks(sorted(seqs)))
    return [row for values in parts for row in connection.execute(query, values).all()]


def messages_that_hold(connection: Connection, session_id: str, words: Sequence[str]) -> set[int]:
    """Return the numbers of all messages with all of these casefolded words, and possibly of some others."""
    texts = texts_that_hold(connection, session_id, words)
    query = select(_m.seq, _m.content).where(_m.session_id == session_id)
    return {seq for seq, key in connection.execute(query) if key in texts} if texts else set()


def texts_that_hold(
    connection: Connection, session_id: str, words: Sequence[str], may_hold: Callable[[str], bool] | None = None
) -> set[str]:
    """Return the hashes of all texts with all of these casefolded words, and possibly of some others.

    Searches the stored text, which is much faster than decoding it. `may_hold`: a check in place of the words' own
    letters, for words that signs or spaces may divide in the text.
    """
    # The words as they are written in stored JSON, where quotes and line breaks are escaped.
    written = [json.dumps(_folded(word), ensure_ascii=False)[1:-1] for word in words]
    data = content_table.c.data
    # The database knows upper and lower case of ASCII only: texts with more than that are all compared here.
    stored = func.length(cast(data, LargeBinary)) if connection.dialect.name == "sqlite" else func.octet_length(data)
    # The same holds for escaped characters, tags and links, which may occur within a word.
    marked = [data.contains(sign, autoescape=True) for sign in ("\\u", "&", "<", "](") if may_hold]
    joined: ColumnElement[str] = data
    for sign in _DIVIDING if may_hold else ():
        joined = func.replace(joined, sign, "")
    plain = [joined.icontains(word, autoescape=True) for word in written if word.isascii()]
    query = select(content_table.c.hash, data).where(content_table.c.scope == session_scope(session_id))
    # `true()` because `and_` needs a condition, and there may be no ASCII word.
    rows = connection.execute(query.where(or_(stored != func.length(data), *marked, and_(true(), *plain))))
    holds = may_hold or (lambda text: all(word in _folded(text) for word in written))
    return {key for key, text in rows if holds(text)}


_DIVIDING = ("\\n", "*", "`", "~", "'", "-", "_", ".", " ")
"""Signs that may stand within a word or between the halves of a compound, as they are written in stored JSON."""


def _folded(text: str) -> str:
    return (text if text.isascii() else normalize("NFKC", text)).casefold()


_SIZED = (_m.seq, _m.role, _m.tokens, _m.reference_tokens, _m.calls, _m.answers)
_QUEUED_AFTER = (
    select(*_SIZED, _m.pinned, _m.content)
    .where(_m.session_id == bindparam("session"), _m.status == str(MessageStatus.ACTIVE), _m.seq > bindparam("after"))
    .order_by(_m.seq)
)
_OLDEST = _QUEUED_AFTER.with_only_columns(*_SIZED).where(_m.pinned.is_(False)).limit(PAGE)
_ROLES = {str(role): role for role in MessageRole}


def _sized(row: Sequence[Any], accounting: Accounting) -> SizedMessage:
    seq, role, content, reference, calls, answers = row
    tokens = total_tokens(content, reference, 1, accounting)
    return SizedMessage(seq, _ROLES[role], tokens, tuple(json.loads(calls)) if calls else (), answers)


def stored_message(session_id: str, row: Any, message: ChatMessage) -> StoredMessage:
    """Join a row with its text; `row` has the columns of `MessageRow` as attributes."""
    return StoredMessage(
        session_id=session_id,
        seq=row.seq,
        id=row.id,
        status=MessageStatus(row.status),
        pinned=row.pinned,
        turn=row.turn,
        tokens=MessageTokens(row.tokens, row.reference_tokens),
        flush=row.flush,
        at=row.at,
        message=message,
    )
