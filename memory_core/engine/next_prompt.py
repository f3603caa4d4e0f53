"""Preview of the next message: the flush it causes, the learning of blocks, and the resulting prompt.

Changes nothing. The flush is planned by the planner of `put`, on the queue with the message in it; blocks learn from
the flushed messages in memory only (`BaseMemoryBlock.imagined`); then the prompt is built. Models and
custom code are not called: `NextPrompt.unknown` names the blocks that would need them.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count

from sqlalchemy import Connection

from memory_core.blocks.base import Imagined
from memory_core.engine.context import Context, build_context
from memory_core.engine.delivery import model_waited_for
from memory_core.engine.queue import plan_under
from memory_core.engine.session import Session, SessionBlock
from memory_core.formats.notebooks import repr_html
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.context_plan import QUEUE
from memory_core.planning.flush import FlushPlan, Queue, SizedMessage, Trigger, complete_turns
from memory_core.planning.impact import texts_in
from memory_core.store.delivery_rows import last_turn_heard, pending_by_block
from memory_core.store.message_rows import QueueRow, plain_message, read_messages, sizes_between
from memory_core.store.quarantine_rows import read_targets
from memory_core.store.writing import SessionState, read_session

MAX_LEARNED = 200
"""Maximum messages a block learns from in a preview: embedding more is too slow while a slider moves."""

NOT_STORED = 2**40
"""First id for facts, relations and units that exist only in a preview."""


@dataclass(frozen=True, slots=True)
class NextPrompt:
    """The next prompt, and the flush before it. Sizes are tokens in the session's accounting."""

    message: ChatMessage | None
    """The message the preview is planned with; None: its text is not known yet, and it counts as 0 tokens."""
    queue_tokens: int
    """Tokens of the queue with `message`, before the flush."""
    flush: FlushPlan
    context: Context
    unknown: tuple[str, ...] = ()
    """Blocks whose learning cannot be predicted: the prompt shows them in their present state."""
    read_elsewhere: tuple[str, ...] = ()
    """Blocks that the agent's program reads with its own code, which the preview does not run."""

    _repr_html_ = repr_html


def next_prompt(session: Session, message: ChatMessage | None) -> NextPrompt:
    """Preview the effect of the next user message; accepts a session under other settings (`Session.imagined`)."""
    with session.database.read() as connection:
        rows = list(session.queue(connection))
        state = read_session(connection, session.id)
    place = state.next_seq if state is not None else 1
    if message is None:
        # Without its text it still begins a turn, which decides where the queue may be cut.
        newest = SizedMessage(place, MessageRole.USER, 0)
    else:
        tokens = session.counter.message(message)
        newest = SizedMessage(place, MessageRole.USER, tokens.by(session.config.accounting))
        rows.append(QueueRow(newest, tokens, False, message, plain_message(message)))
    queued = [row.sized for row in rows if not row.pinned]
    # Counted in the plan only: without its text there is nothing to show in the prompt.
    if message is None:
        queued.append(newest)
    plan = _planned(session, queued, "over_budget")
    flushed = {gone.seq for gone in plan.leave}
    after = session.with_queue([row for row in rows if row.sized.seq not in flushed])
    if message is not None:
        after = _joined(after, message, place)
    unknown: tuple[str, ...] = ()
    if state is not None:
        after, unknown = _learned(after, state, newest, flushed)
    tokens_queued = sum(sized.tokens for sized in queued)
    elsewhere = tuple(block.name for block in session.blocks if block.block is not None and block.block.read_elsewhere)
    return NextPrompt(message, tokens_queued, plan, build_context(after, record=False), unknown, elsewhere)


def flush_now(session: Session) -> FlushPlan:
    """Plan of the flush that `Memory.flush` would make."""
    with session.database.read() as connection:
        rows = session.queue(connection)
    return _planned(session, [row.sized for row in rows if not row.pinned], "asked")


def _joined(session: Session, message: ChatMessage, seq: int) -> Session:
    """Return the session with the message in quarantine if it says what is in it, as when it is put."""
    with session.database.read() as connection:
        quarantine = session.quarantine(connection)
        sets = quarantine.sets_without(QUEUE, session.id)
        targets = read_targets(connection, session.id, session.services.messages, sets)
    if not any(target.said_in(text) for target in targets for text in texts_in(message.to_json())):
        return session
    return session.with_quarantine(replace(quarantine, messages=quarantine.messages | {(session.id, seq)}))


def _learned(
    session: Session, state: SessionState, newest: SizedMessage, flushed: Collection[int]
) -> tuple[Session, tuple[str, ...]]:
    """Return the session with its blocks after learning, and the names of blocks whose learning is unpredictable."""
    # One counter for all blocks, so that no two invented items share an id.
    numbers, unknown, blocks = count(NOT_STORED), [], []
    with session.database.read() as connection:
        waiting = pending_by_block(connection, session.id)
        due = {block.name: _due(session, connection, state, block, newest, flushed) for block in session.blocks}
    for attached in session.blocks:
        seqs = due[attached.name]
        # Waiting deliveries are learned before these messages, with an unknown outcome.
        waits = attached.learns and attached.name in waiting
        imagined = _imagined(session, attached, seqs, numbers) if seqs and not waits else None
        if imagined is not None:
            attached = replace(attached, block=imagined.block, state=imagined.state)
        elif seqs or waits:
            unknown.append(attached.name)
        blocks.append(attached)
    return session.with_blocks(blocks), tuple(unknown)


def _due(
    session: Session,
    connection: Connection,
    state: SessionState,
    attached: SessionBlock,
    newest: SizedMessage,
    flushed: Collection[int],
) -> list[int]:
    """Return the sequence numbers of the messages that will be due for delivery to a block, as in `engine.queue`."""
    if not attached.learns:
        return []
    if attached.deliver_on == "turn":
        unheard = sizes_between(connection, session.id, after=state.turn_delivered)
        return [message.seq for message in complete_turns([*unheard, newest])]
    if attached.deliver_on != "flush" or not flushed:
        return []
    heard = last_turn_heard(connection, session.id, attached.name) if state.turn_delivered else 0
    return sorted(seq for seq in flushed if seq > heard)


def _imagined(session: Session, attached: SessionBlock, seqs: Sequence[int], numbers: Iterator[int]) -> Imagined | None:
    """Return the block after learning from these messages; None if the result cannot be predicted."""
    if attached.block is None or model_waited_for(session, attached) is not None or len(seqs) > MAX_LEARNED:
        return None
    with session.database.read() as connection:
        messages = read_messages(connection, session.id, session.services.messages, seqs=seqs)
    try:
        return attached.block.imagined(session.batch(messages, attached.state), numbers)
    except Exception:  # an extractor may raise anything; the delivery itself will record the error
        return None


def _planned(session: Session, queued: Sequence[SizedMessage], trigger: Trigger) -> FlushPlan:
    turns = [message.seq for message in queued if message.role is MessageRole.USER]
    total = sum(message.tokens for message in queued)
    queue = Queue(total, len(queued), newest_turn=turns[-1] if turns else None)
    return plan_under(session.config, queue, queued, len(turns), trigger)
