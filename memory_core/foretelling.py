"""What the next message will do: the flush it causes, then the prompt that is built. Changes nothing.

The flush is planned by the planner that `put` uses, on the queue with that message in it; the prompt is built of what
the flush leaves. What blocks will learn and store of the messages that leave is not in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.context import Context, build_context
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.flush import FlushPlan, Queue, SizedMessage, Trigger, plan_flush
from memory_core.session import Session
from memory_core.store.messages import QueueRow, plain_message
from memory_core.store.writing import read_session


@dataclass(frozen=True, slots=True)
class NextPrompt:
    """The next prompt, and the flush before it. Sizes are tokens of the accounting that decides."""

    message: ChatMessage | None
    """The message it is planned with; None: one whose words are not known yet, of no tokens."""
    queue_tokens: int
    """The queue with that message, before the flush."""
    flush: FlushPlan
    context: Context


def next_prompt(session: Session, message: ChatMessage | None) -> NextPrompt:
    """What the next user message will do; a session under other settings may be given (`Session.imagined`)."""
    with session.database.read() as connection:
        rows = list(session.queue(connection))
        state = read_session(connection, session.id)
    place = state.next_seq if state is not None else 1
    if message is None:
        newest = SizedMessage(place, MessageRole.USER, 0)
    else:
        tokens = session.counter.message(message)
        newest = SizedMessage(place, MessageRole.USER, tokens.by(session.config.accounting))
        rows.append(QueueRow(newest, tokens, False, message, plain_message(message)))
    queued = [row.sized for row in rows if not row.pinned]
    if message is None:
        queued.append(newest)
    plan = _planned(session, queued, "over_budget")
    left = {gone.seq for gone in plan.leave}
    after = session.with_queue([row for row in rows if row.sized.seq not in left])
    return NextPrompt(message, sum(each.tokens for each in queued), plan, build_context(after, record=False))


def flush_now(session: Session) -> FlushPlan:
    """What `Memory.flush` would move out of the queue."""
    with session.database.read() as connection:
        rows = session.queue(connection)
    return _planned(session, [row.sized for row in rows if not row.pinned], "asked")


def _planned(session: Session, queued: Sequence[SizedMessage], trigger: Trigger) -> FlushPlan:
    config = session.config
    turns = [message.seq for message in queued if message.role is MessageRole.USER]
    beyond = 0 if config.queue_turns is None else max(0, len(turns) - config.queue_turns)
    total = sum(message.tokens for message in queued)
    return plan_flush(
        Queue(total, len(queued), newest_turn=turns[-1] if turns else None),
        queued,
        history_budget=config.history_budget,
        token_flush_size=config.flush_size,
        split_long_turns=config.split_long_turns,
        turns_over=beyond,
        trigger=trigger,
    )
