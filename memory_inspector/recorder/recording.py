"""Record an attached agent's model calls in its session: new messages, the prompt, and the answer.

An agent sends its whole prompt each time. Messages shared with an earlier prompt are matched, so each is stored once;
those that the agent drops are missing from the prompt but stay in the session.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Literal, cast
from uuid import uuid4

from sqlalchemy import Connection

from memory_core.config import MAX_TOKENS
from memory_core.engine import queue
from memory_core.engine.reconcile import create_or_join
from memory_core.engine.session import Session
from memory_core.errors import ConfigError
from memory_core.events import AgentAttached, ContextBuilt, Event, ModelCalled, Ranges
from memory_core.history.contexts import is_call, is_context, places_of
from memory_core.history.message_slice import adds_message
from memory_core.messages import ChatMessage, MessageRole, MessageStatus, ThinkingPart, ToolCallPart, content_hash
from memory_core.store.erasing import message_seqs
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import NewMessage, hashes_by_seq, read_messages
from memory_core.store.writing import Writing, read_session
from memory_core.tokens import MessageTokens, total_tokens
from memory_inspector.files.mirroring import archive_elsewhere
from memory_inspector.recorder.prompt_messages import MAX_SUMMARIES, SUMMARISE, summaries_in
from memory_inspector.recorder.wire import Exchange

LOOKBACK_EVENTS = 64
"""Number of recent events searched for earlier prompts: about fifteen calls, so that agents may alternate."""

MAX_JOINED = 20
"""Maximum parts of a message in which several answers are looked for; agents join two or three."""

MAX_SIZES = 20_000
"""Maximum cached message sizes; an agent resends the same messages with each prompt."""

Source = Literal["proxy", "adapter", "spans"]
"""Means by which an agent is attached."""

_RECORDED = {
    "file": "shows an opened store, which is only read",
    "proxy": "is recorded by the proxy",
    "adapter": "is recorded by an adapter",
    "spans": "is recorded from spans",
}


def check_free(session: Session, source: Source = "proxy") -> None:
    """Check that calls seen by `source` may be recorded in this session.

    Raises:
        ConfigError: The name belongs to an ordinary session, to an opened store, or to another source.
        StoreError: The database cannot be reached.
    """
    with session.database.read() as connection:
        state = read_session(connection, session.id)
        if state is None or state.deleted_at is not None:
            return
    if (begun := attachment_of(session)) is None:
        whose = "is a session of its own"
    elif begun.source != source:
        whose = _RECORDED[begun.source]
    else:
        return
    raise ConfigError(f'"{session.id}" {whose}: attach the agent under another name.')


def attachment_of(session: Session) -> AgentAttached | None:
    """Return the event that began the session of an attached agent; None for any other session, or none.

    Raises:
        StoreError: The database cannot be reached.
    """
    with session.database.read() as connection:
        begun = next(iter(read_events(connection, session.id, kinds=("agent_attached",), limit=1)), None)
    # An event of a newer version has no fields.
    return cast(AgentAttached, begun.event) if begun is not None and hasattr(begun.event, "source") else None


def attach(session: Session, *, source: Source = "proxy", conversation: str = "", begins: str = "") -> None:
    """Create or open the session of an attached agent. `source`: the observer of its calls; the others: see the event.

    Raises:
        ConfigError: See `check_free`.
    """
    check_free(session, source)
    # Nothing is flushed or cut here: the agent builds its own prompts.
    settings = {"token_limit": MAX_TOKENS, "chat_history_token_ratio": 1.0}
    create_or_join(
        session,
        title=session.id,
        user_id=None,
        config=settings,
        blocks=None,
        begun=AgentAttached(source=source, conversation=conversation, begins=begins),
    )


def record_exchange(session: Session, exchange: Exchange) -> None:
    """Record one call in one transaction: new messages, prompt, call and answer.

    Raises:
        MessageError: A message cannot be stored; nothing was stored.
        NotFoundError: The session was deleted.
        StoreError: The database cannot be reached.
    """
    with recording(session) as to:
        to.exchange(exchange)


class CachedPast:
    """Cached past of a session; callers that record many calls keep it between transactions."""

    def __init__(self) -> None:
        self.sent: _Sent | None = None


@contextmanager
def recording(session: Session, past: CachedPast | None = None) -> Iterator["CallRecorder"]:
    """Open a transaction that records an agent's calls and events.

    Raises:
        NotFoundError: The session was deleted.
        StoreError: The database cannot be reached; nothing was stored.
    """
    past = past or CachedPast()
    sent, past.sent = past.sent, None  # restored after the commit
    with session.changing() as w:
        to = CallRecorder(session, w, sent)
        yield to
    past.sent = to.sent


@dataclass(slots=True)
class _Sent:
    """Messages and prompts that an agent has sent, as stored."""

    state: tuple[float, int, int]
    """Version of the session that the cache was read at (see `_state`); any change invalidates the cache."""
    hashes: dict[int, str]
    """Hash of every message, by sequence number."""
    recent: list[list[int]]
    """Recent prompts, each followed by its answer, newest first."""
    compacted: bool = False
    """True if a compaction was reported, and no prompt since then has left messages out."""
    summaries: list[int] = field(default_factory=list)
    """Recent answers to requests for a summary that no later prompt has as an answer, newest first."""

    def summaries_in(self, prompt: Iterable[int]) -> set[int]:
        return set(self.summaries).intersection(prompt)


class CallRecorder:
    """Records calls within one transaction; reads the past once."""

    def __init__(self, session: Session, w: Writing, sent: _Sent | None = None) -> None:
        self._session, self.w = session, w
        self._sizes: dict[str, MessageTokens] = session.services.cached(("sizes", session.counter.id), dict)
        self._sent = sent if sent is not None and sent.state == _state(w) else None

    @property
    def sent(self) -> _Sent | None:
        """Return the past including what was recorded here; None if it was never read."""
        if self._sent is not None:
            self._sent.state = _state(self.w)
        return self._sent

    def _past(self) -> _Sent:
        if self._sent is None:
            hashes = hashes_by_seq(self.w.connection, self._session.id)
            recent, summaries = _recent(self.w.connection, self._session.id, hashes)
            self._sent = _Sent(_state(self.w), hashes, recent, summaries=summaries)
        return self._sent

    def exchange(self, exchange: Exchange, meanwhile: Iterable[Event] = (), *, called: bool = True) -> None:
        """Record a call; `meanwhile` are the agent's events between the newest message and the prompt.

        `called=False`: the call itself is recorded already, without its prompt and its answer.

        Raises:
            MessageError: A message cannot be stored.
        """
        # 1. Convert before anything is written: an unstorable message refuses the whole call.
        w, prompt = self.w, [self._new(part) for message in exchange.messages for part in split_reasoning(message)]
        answer = [self._new(part) for part in split_reasoning(exchange.answer)] if exchange.answer is not None else []
        # 2. New messages of the prompt come first, so that the events in between belong to their turn.
        prompt = self._as_stored(prompt)
        places, front = self._placed(prompt)
        if prompt:
            self._compact(exchange, prompt, places)
        w.record(*meanwhile, actor="agent")
        if prompt:
            w.record(_seen(self._session, prompt, places, front, exchange, self._beside(exchange.tools)))
        # 3. The answer directly follows its call, or the prompt of a call that was recorded before, and its reasoning
        # the prompt, so that `_recent` can tell both from messages of the next prompt.
        answer_seqs = self._add(answer[:-1])
        if called:
            w.record(_call(exchange))
        answer_seqs += self._add(answer[-1:])
        if prompt:
            recent = self._past().recent
            recent.insert(0, [*places, *answer_seqs])
            # A call leaves about four events, so this looks back as far as `_recent` does.
            del recent[LOOKBACK_EVENTS // 4 :]
            if exchange.purpose == SUMMARISE:
                self._past().summaries = [*answer_seqs[-1:], *self._past().summaries][:MAX_SUMMARIES]

    def _compact(self, exchange: Exchange, prompt: Sequence[NewMessage], places: list[int]) -> None:
        """Let the messages leave that a compaction left out, if one was reported or the prompt shows it."""
        past = self._past()
        # A summary may stand in the prompt as the answer that it was: that its call shares it tells nothing.
        recent = [[seq for seq in former_prompt if seq not in past.summaries] for former_prompt in past.recent]
        former = _most_alike(places, recent)
        if not former and recent and (exchange.compacted or exchange.summaries or past.summaries):
            former = recent[0]
        reported = exchange.compacted or past.compacted
        if gone := set(former).difference(places):
            stored = self._stored({*gone, *past.summaries})
            written = [stored[seq].content or "" for seq in past.summaries if seq in stored]
            sent = dict(zip(places, (new.message for new in prompt), strict=True))
            absent = {seq: stored[seq] for seq in gone if seq in stored}
            summary = summaries_in(former, sent, absent, [*exchange.summaries, *written], reported=reported)
            # Reported: what the prompt left out leaves, whatever stands in its place.
            if reported:
                past.compacted = not self._leave_behind(former, places, summary)
            elif summary:
                # The request for the summary, and what it was written from, leave with the conversation; so does what
                # earlier prompts of it had and this agent wrote anew.
                replies = self._replies(former)
                leaving = (
                    former_prompt
                    for former_prompt in past.recent
                    if not past.summaries_in(former_prompt).issubset(places) or not replies.isdisjoint(former_prompt)
                )
                leaving_seqs = (seq for former_prompt in leaving for seq in former_prompt)
                self._leave_behind([*former, *leaving_seqs], places, summary)
        elif reported:
            past.compacted = True
        past.summaries = [seq for seq in past.summaries if seq not in places]

    def _replies(self, prompt: Iterable[int]) -> set[int]:
        """Return the assistant's messages of a prompt: two conversations may share a system prompt or a greeting."""
        return {seq for seq, message in self._stored(prompt).items() if message.role is MessageRole.ASSISTANT}

    def _stored(self, seqs: Iterable[int]) -> dict[int, ChatMessage]:
        """Return stored messages by their sequence numbers."""
        cache = self._session.services.messages
        rows = read_messages(self.w.connection, self._session.id, cache, seqs=sorted(set(seqs)))
        return {row.seq: row.message for row in rows}

    def compacted(self) -> None:
        """Record a compaction that no call reports: its messages left with a recent prompt, or leave with the next."""
        past = self._past()
        for n, prompt in enumerate(past.recent):
            former = _most_alike(prompt, past.recent[n + 1 :])
            if gone := set(former).difference(prompt):
                stored = self._stored({*gone, *prompt})
                sent = {seq: stored[seq] for seq in prompt if seq in stored}
                summary = summaries_in(
                    former, sent, {seq: stored[seq] for seq in gone if seq in stored}, (), reported=True
                )
                if self._leave_behind(former, prompt, summary):
                    past.compacted = False
                    return
        past.compacted = True

    def _leave_behind(self, former: Sequence[int], places: Sequence[int], summary: Sequence[int] = ()) -> bool:
        """Archive the messages of a former prompt that are not in this one; return whether there are any.

        `summary`: messages of this prompt that stand in their place.
        """
        if not (missing := set(former).difference(places)):
            return False
        missing.intersection_update(message_seqs(self.w.connection, self._session.id, MessageStatus.ACTIVE))
        archive_elsewhere(self._session, self.w, missing, "compacted", summary)
        return bool(missing)

    def _placed(self, prompt: Sequence[NewMessage]) -> tuple[list[int], int]:
        """Return the sequence number of each prompt message, adding new ones, and the number of leading system
        messages."""
        front = next((n for n, new in enumerate(prompt) if new.message.role is not MessageRole.SYSTEM), len(prompt))
        if not prompt:
            return [], 0
        past = self._past()
        places = aligned(past.recent, past.hashes, [content_hash(new.json) for new in prompt])
        # Leading system messages are pinned when they are added, others are not.
        for span, opening in ((range(front), True), (range(front, len(prompt)), False)):
            fresh = [n for n in span if places[n] is None]
            for n, seq in zip(fresh, self._add([prompt[n] for n in fresh], opening=opening), strict=True):
                places[n] = seq
        return [seq for seq in places if seq is not None], front

    def _as_stored(self, prompt: Sequence[NewMessage]) -> list[NewMessage]:
        """Return a prompt with its messages in the form that the session has them in.

        Answers that an agent joined into one message stand apart, and a call that got its id from the agent is the
        one that the endpoint made without.
        """
        if all(new.message.role is not MessageRole.ASSISTANT for new in prompt):
            return list(prompt)
        hashes = set(self._past().hashes.values())
        return [part for new in prompt for part in self._known_form(new, hashes) or [new]]

    def _known_form(self, new: NewMessage, hashes: set[str]) -> list[NewMessage]:
        """Return the known messages that an assistant's message is made of; empty if a part of it is not known."""
        message = new.message
        if message.role is not MessageRole.ASSISTANT:
            return [new]

        def stored_form(some: ChatMessage) -> ChatMessage | None:
            forms = (some, *((_without_ids(some),) if some.tool_calls else ()))
            return next((form for form in forms if content_hash(form.to_json()) in hashes), None)

        if (whole := stored_form(message)) is not None:
            return [self._new(whole)]
        # Known messages that the first parts are made of, by the number of these parts: each stretch of parts is
        # looked up once.
        made_of: dict[int, list[ChatMessage]] = {0: []}
        for end in range(1, len(message.parts) + 1 if len(message.parts) <= MAX_JOINED else 0):
            for start in sorted(made_of):
                if (piece := stored_form(message.with_parts(message.parts[start:end]))) is not None:
                    made_of[end] = [*made_of[start], piece]
                    break
        return [self._new(piece) for piece in made_of.get(len(message.parts), [])]

    def _beside(self, tools: str) -> int:
        """Return the tokens of the definitions of tools; cached, as an agent sends the same with each prompt."""
        sizes: dict[str, int] = self._session.services.cached(("definitions", self._session.counter.id), dict)
        key = content_hash(tools)
        if key not in sizes:
            sizes.clear()
            sizes[key] = self._session.counter.text(tools)
        return sizes[key]

    def _add(self, messages: Sequence[NewMessage], *, opening: bool = False) -> list[int]:
        seqs = queue.add(self._session, self.w, messages, opening=opening)
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


def split_reasoning(message: ChatMessage) -> list[ChatMessage]:
    """Split a message into its reasoning and the rest.

    Agents may resend reasoning or omit it. Once split, the rest is stored only once, and each prompt is still recorded
    as it was sent.
    """
    thoughts = [part for part in message.parts if isinstance(part, ThinkingPart)]
    if len(thoughts) in (0, len(message.parts)):
        return [message]
    words = [part for part in message.parts if not isinstance(part, ThinkingPart)]
    return [ChatMessage(role=message.role, parts=thoughts), message.with_parts(words)]


def _without_ids(message: ChatMessage) -> ChatMessage:
    parts = [
        part.model_copy(update={"tool_call_id": None}) if isinstance(part, ToolCallPart) else part
        for part in message.parts
    ]
    return message.with_parts(parts)


def _state(w: Writing) -> tuple[float, int, int]:
    return w.session.created_at, w.session.next_seq, w.session.revision


def aligned(recent: Sequence[Sequence[int]], hashes: Mapping[int, str], asked: Sequence[str]) -> list[int | None]:
    """Return the sequence number of each message of a prompt; None for a message that is new to the session.

    `recent` are earlier prompts with answers, as sequence numbers in the order sent, newest prompt first; `hashes` has
    the hash of each message of the session, `asked` those of the prompt's messages. No message is matched twice.

    The prompt is aligned with the earlier prompt that shares most messages with it. Messages after the last shared one
    are new, even if their text occurred before (a second "yes"). Messages before it that are not in that prompt, such
    as a returning system message, are matched with any equal, unused message of the session.
    """
    places: list[int | None] = [None] * len(asked)
    best = 0
    for base in recent:
        # A shorter prompt cannot match more than the best one so far.
        if len(base) <= best:
            continue
        if [hashes[seq] for seq in base] == asked[: len(base)]:  # usual case: the prompt extends an earlier one
            best, places = len(base), [*base, *[None] * (len(asked) - len(base))]
            continue
        # backwards, as the later of two equal messages is meant
        backwards = [hashes[seq] for seq in reversed(base)]
        blocks = SequenceMatcher(None, backwards, asked[::-1], autojunk=False).get_matching_blocks()
        if (size := sum(block.size for block in blocks)) > best:
            best, places = size, [None] * len(asked)
            for block in blocks:
                for n in range(block.size):
                    places[len(asked) - 1 - block.b - n] = base[len(base) - 1 - block.a - n]
    last = max((n for n, seq in enumerate(places) if seq is not None), default=-1)
    # No gap before the last shared message, and what follows is new.
    if None not in places[: last + 1]:
        return places
    used = set(places)
    unused: dict[str, list[int]] = {}
    for seq, key in hashes.items():
        if seq not in used:
            unused.setdefault(key, []).append(seq)
    for n in range(last):
        if places[n] is None and (candidates := unused.get(asked[n])):
            places[n] = candidates.pop()
    return places


def _most_alike(places: Sequence[int], recent: Iterable[list[int]]) -> list[int]:
    """Return the prompt that shares most messages with this one, the newest of several; empty if none shares any."""
    prompt = set(places)
    alike = max(recent, key=lambda former: len(prompt.intersection(former)), default=[])
    return [] if prompt.isdisjoint(alike) else alike


def _recent(connection: Connection, session_id: str, hashes: Mapping[int, str]) -> tuple[list[list[int]], list[int]]:
    """Return a session's recent prompts, each followed by its answer, and those answers that are summaries.

    Both are newest first.
    """
    kinds = ("context_built", "model_called", "message_added")
    prompts: list[list[int]] = []
    summaries: list[int] = []
    answered = summarised = False
    for record in reversed(read_events(connection, session_id, kinds=kinds, limit=LOOKBACK_EVENTS, newest_first=True)):
        if is_context(record.event):
            prompts.append([seq for seq in places_of(record.event) if seq in hashes])
            summaries = [seq for seq in summaries if seq not in prompts[-1]]
        elif answered and adds_message(record.event) and prompts and record.event.seq in hashes:
            prompts[-1].append(record.event.seq)
            summaries += [record.event.seq] if summarised else []
        # An answer follows its call, or its prompt where that came later than the call.
        answered = is_call(record.event) or is_context(record.event)
        summarised = is_call(record.event) and record.event.purpose == SUMMARISE
    return prompts[::-1], summaries[: -MAX_SUMMARIES - 1 : -1]


def _call(exchange: Exchange) -> ModelCalled:
    return ModelCalled(
        purpose=exchange.purpose,
        model=exchange.model,
        input_tokens=exchange.input_tokens,
        output_tokens=exchange.output_tokens,
        seconds=round(exchange.seconds, 3),
        cost=None,
        error=exchange.error,
        span=exchange.span,
        captured=exchange.captured,
        cached_tokens=exchange.cached_tokens,
    )


def _seen(
    session: Session, prompt: Sequence[NewMessage], places: Sequence[int], front: int, exchange: Exchange, beside: int
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
        asked=pinned + queue + beside,
        total=pinned + queue + beside,
        # The agent's limit is unknown; what it sent did fit.
        token_limit=pinned + queue + beside,
        over_by=0,
        over_because=None,
        markup_tokens=0,
        overhead_tokens=overhead,
        billed=content + overhead + beside,
        insert_method=str(session.config.insert_method),
        truncation_order=session.config.truncation_order,
        accounting=accounting,
        section=None,
        input=None,
        known=exchange.known,
        sent=exchange.sent,
        span=exchange.span,
        reserved_tokens=beside,
        measured=beside > 0,
    )


def _in_order(seqs: Iterable[int]) -> Ranges:
    """Encode sequence numbers as ranges in the same order: (4, 2, 3) is ((4, 4), (2, 3))."""
    ranges: list[tuple[int, int]] = []
    for seq in seqs:
        if ranges and seq == ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], seq)
        else:
            ranges.append((seq, seq))
    return tuple(ranges)
