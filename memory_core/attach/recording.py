"""Calls of an attached agent's model as its session: what is new in each prompt, the prompt itself, and the answer.

An agent sends its whole prompt each time. What it shares with an earlier one keeps its place, so that a message stands
once in the session however often it was sent, and what the agent leaves out is missing from the prompt and not from the
session.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Literal, cast
from uuid import uuid4

from sqlalchemy import Connection

from memory_core.attach.wire import Exchange
from memory_core.config import MAX_TOKENS
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.errors import ConfigError
from memory_core.events import AgentAttached, ContextBuilt, Event, MessageAdded, ModelCalled, Ranges
from memory_core.history.slices.contexts import is_context, places_of
from memory_core.messages import ChatMessage, MessageRole, ThinkingPart, content_hash
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import NewMessage, add_messages, hashes_by_seq
from memory_core.store.writing import Writing, read_session
from memory_core.tokens import MessageTokens, total_tokens

LOOKED_BACK = 64
"""Events among which the earlier prompts are looked for: some fifteen calls, so that agents may take turns."""

MAX_SIZES = 20_000
"""Messages whose size is remembered: an agent sends the same ones with each prompt."""

Source = Literal["proxy", "adapter", "spans"]
"""By what an agent is attached."""

_RECORDED = {
    "file": "shows an opened store, which is only read",
    "proxy": "is recorded by the proxy",
    "adapter": "is recorded by an adapter",
    "spans": "is recorded from spans",
}


def check_free(session: Session, source: Source = "proxy") -> None:
    """Check that what `source` sees may be recorded in this session.

    Raises:
        ConfigError: there is a session of this name that is a user's own, shows an opened store, or is recorded by
            another source.
        StoreError: the database cannot be reached.
    """
    with session.database.read() as connection:
        state = read_session(connection, session.id)
        gone = state is None or state.deleted_at is not None
        if gone:
            return
        begun = next(iter(read_events(connection, session.id, kinds=("agent_attached",), limit=1)), None)
        if begun is None:
            whose = "is a session of its own"
        elif (recorded := getattr(begun.event, "source", source)) != source:
            whose = _RECORDED[recorded]
        else:
            return
        raise ConfigError(f'"{session.id}" {whose}: attach the agent under another name.')


def attach(session: Session, *, source: Source = "proxy") -> None:
    """Make the session of an attached agent, or open the one there is. `source`: who sees its calls.

    Raises:
        ConfigError: see `check_free`.
    """
    check_free(session, source)
    # Nothing is ever flushed or cut here: the agent decides about its prompts.
    settings = {"token_limit": MAX_TOKENS, "chat_history_token_ratio": 1.0}
    create_or_join(
        session,
        title=session.id,
        user_id=None,
        config=settings,
        blocks=None,
        begun=AgentAttached(source=source),
    )


def record_exchange(session: Session, exchange: Exchange) -> None:
    """Record one call in one transaction: the messages that are new, the prompt, the call, and its answer.

    Raises:
        MessageError: a message cannot be stored; nothing was.
        NotFoundError: the session was deleted.
        StoreError: the database cannot be reached.
    """
    with recording(session) as to:
        to.exchange(exchange)


class Past:
    """What was read of a session's past, kept between its transactions by who records many."""

    def __init__(self) -> None:
        self.sent: _Sent | None = None


@contextmanager
def recording(session: Session, past: Past | None = None) -> Iterator["Recording"]:
    """Open a transaction in which calls and events of an agent are recorded.

    Raises:
        NotFoundError: the session was deleted.
        StoreError: the database cannot be reached; nothing was stored.
    """
    past = past or Past()
    sent, past.sent = past.sent, None  # until it is committed
    with session.changing() as w:
        to = Recording(session, w, sent)
        yield to
    past.sent = to.sent


@dataclass(slots=True)
class _Sent:
    """What an agent sent before, as its session has it."""

    state: tuple[float, int, int]
    """As of when: with every message that comes or goes, by whomever, the session has another."""
    hashes: dict[int, str]
    """Of every message, by sequence number."""
    recent: list[list[int]]
    """The last prompts, each with its answer, the newest first."""


class Recording:
    """Records calls within one transaction; what the agent sent before is read once."""

    def __init__(self, session: Session, w: Writing, sent: _Sent | None = None) -> None:
        self._session, self.w = session, w
        self._sizes: dict[str, MessageTokens] = session.services.cached(("sizes", session.counter.id), dict)
        self._sent = sent if sent is not None and sent.state == _state(w) else None

    @property
    def sent(self) -> _Sent | None:
        """What is known of the past with what was recorded; None if none of it was read."""
        if self._sent is not None:
            self._sent.state = _state(self.w)
        return self._sent

    def _past(self) -> _Sent:
        if self._sent is None:
            hashes = hashes_by_seq(self.w.connection, self._session.id)
            recent = _recent(self.w.connection, self._session.id, hashes)
            self._sent = _Sent(_state(self.w), hashes, recent)
        return self._sent

    def exchange(self, exchange: Exchange, meanwhile: Iterable[Event] = ()) -> None:
        """Record one call; `meanwhile` is what the agent did after the newest message, and before it sent the prompt.

        Raises:
            MessageError: a message cannot be stored.
        """
        w, prompt = self.w, [self._new(part) for message in exchange.messages for part in _apart(message)]
        answer = [self._new(_apart(exchange.answer)[-1])] if exchange.answer is not None else []
        places, front = self._placed(prompt)
        w.record(*meanwhile, actor="agent")
        if prompt:
            w.record(_seen(self._session, prompt, places, front, exchange))
        w.record(
            ModelCalled(
                purpose=exchange.purpose,
                model=exchange.model,
                input_tokens=exchange.input_tokens,
                output_tokens=exchange.output_tokens,
                seconds=round(exchange.seconds, 3),
                cost=None,
                error=exchange.error,
                span=exchange.span,
                captured=exchange.captured,
            )
        )
        said = self._add(answer)
        if prompt:
            recent = self._past().recent
            recent.insert(0, [*places, *said])
            del recent[LOOKED_BACK // 4 :]

    def _placed(self, prompt: Sequence[NewMessage]) -> tuple[list[int], int]:
        """The place of each message of a prompt, new ones added; and the number of system messages in front."""
        front = next((n for n, new in enumerate(prompt) if new.message.role is not MessageRole.SYSTEM), len(prompt))
        if not prompt:
            return [], 0
        past = self._past()
        places = aligned(past.recent, past.hashes, [content_hash(new.json) for new in prompt])
        for span, opening in ((range(front), True), (range(front, len(prompt)), False)):
            fresh = [n for n in span if places[n] is None]
            for n, seq in zip(fresh, self._add([prompt[n] for n in fresh], opening=opening), strict=True):
                places[n] = seq
        return [seq for seq in places if seq is not None], front

    def _add(self, messages: Sequence[NewMessage], *, opening: bool = False) -> list[int]:
        seqs = add_messages(self.w, messages, counter=self._session.counter.id, opening=opening)
        if messages:
            self._past().hashes.update((seq, content_hash(new.json)) for seq, new in zip(seqs, messages, strict=True))
        return seqs

    def _new(self, message: ChatMessage) -> NewMessage:
        json = message.to_json()
        key = content_hash(json)
        if key not in self._sizes:
            if len(self._sizes) > MAX_SIZES:
                self._sizes.clear()
            self._sizes[key] = self._session.counter.message(message)
        return NewMessage(uuid4().hex, message, json, self._sizes[key])


def _apart(message: ChatMessage) -> list[ChatMessage]:
    """A message behind its reasoning, which is a message of its own.

    Answers are recorded without it, and agents send it back or leave it out: the words around it stand once all the
    same, and each prompt as it was sent.
    """
    thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
    if len(thoughts) in (0, len(message.parts)):
        return [message]
    words = [part for part in message.parts if not isinstance(part, ThinkingPart)]
    return [ChatMessage(role=message.role, parts=thoughts), message.with_parts(words)]


def _state(w: Writing) -> tuple[float, int, int]:
    return w.session.created_at, w.session.next_seq, w.session.revision


def aligned(recent: Sequence[Sequence[int]], hashes: Mapping[int, str], asked: Sequence[str]) -> list[int | None]:
    """The place of each message of a prompt in the session; None for one that is new.

    `recent` are earlier prompts with their answers, as sequence numbers in the order sent, the newest first; `hashes`
    are those of all messages of the session, `asked` those of the prompt. No place is given twice.

    A message at the end is new, whatever was said before: "yes" is said again, and not repeated. One in front of what
    was sent before, as a system message that came back, is the one it was.
    """
    places: list[int | None] = [None] * len(asked)
    best = 0
    for base in recent:
        if len(base) <= best:
            continue
        if [hashes[seq] for seq in base] == asked[: len(base)]:  # as most prompts do, it goes on where this one ended
            best, places = len(base), [*base, *[None] * (len(asked) - len(base))]
            continue
        # Backwards: of two that say the same, the later one is meant.
        backwards = [hashes[seq] for seq in reversed(base)]
        blocks = SequenceMatcher(None, backwards, asked[::-1], autojunk=False).get_matching_blocks()
        if (size := sum(block.size for block in blocks)) > best:
            best, places = size, [None] * len(asked)
            for block in blocks:
                for n in range(block.size):
                    places[len(asked) - 1 - block.b - n] = base[len(base) - 1 - block.a - n]
    last = max((n for n, seq in enumerate(places) if seq is not None), default=-1)
    if None not in places[: last + 1]:
        return places
    used = set(places)
    unused: dict[str, list[int]] = {}
    for seq, key in hashes.items():
        if seq not in used:
            unused.setdefault(key, []).append(seq)
    for n in range(last):
        if places[n] is None and (found := unused.get(asked[n])):
            places[n] = found.pop()
    return places


def _recent(connection: Connection, session_id: str, hashes: Mapping[int, str]) -> list[list[int]]:
    """The last prompts of a session, each with its answer, the newest first."""
    kinds = ("context_built", "model_called", "message_added")
    found: list[list[int]] = []
    before = ""
    for record in reversed(read_events(connection, session_id, kinds=kinds, limit=LOOKED_BACK, newest_first=True)):
        if is_context(record.event):
            found.append([seq for seq in places_of(record.event) if seq in hashes])
        elif before == "model_called" and record.kind == "message_added" and found:  # an answer follows its call
            found[-1].append(cast(MessageAdded, record.event).seq)
        before = record.kind
    return found[::-1]


def _seen(
    session: Session, prompt: Sequence[NewMessage], places: Sequence[int], front: int, exchange: Exchange
) -> ContextBuilt:
    accounting = session.config.accounting
    pinned, queue = (
        total_tokens(sum(n.tokens.content for n in part), sum(n.tokens.reference for n in part), len(part), accounting)
        for part in (prompt[:front], prompt[front:])
    )
    content = sum(new.tokens.content for new in prompt)
    overhead = sum(new.tokens.billed for new in prompt) - content
    return ContextBuilt(
        pinned=_in_order(places[:front]),
        queue=_in_order(places[front:]),
        queue_asked=queue,
        queue_tokens=queue,
        pinned_tokens=pinned,
        parts=(),
        cuts=(),
        asked=pinned + queue,
        total=pinned + queue,
        token_limit=pinned + queue,
        over_by=0,
        over_because=None,
        markup_tokens=0,
        overhead_tokens=overhead,
        billed=content + overhead,
        insert_method=str(session.config.insert_method),
        truncation_order=session.config.truncation_order,
        accounting=accounting,
        section=None,
        input=None,
        known=exchange.known,
        sent=exchange.sent,
        span=exchange.span,
    )


def _in_order(seqs: Iterable[int]) -> Ranges:
    """Sequence numbers as ranges that spread to the same order: (4, 2, 3) is ((4, 4), (2, 3))."""
    found: list[tuple[int, int]] = []
    for seq in seqs:
        if found and seq == found[-1][1] + 1:
            found[-1] = (found[-1][0], seq)
        else:
            found.append((seq, seq))
    return tuple(found)
