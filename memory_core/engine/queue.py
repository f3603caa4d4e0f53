"""Queue operations within one transaction: append messages, flush the oldest, schedule their delivery to blocks.

The planner decides (`planning.flush`); here its decision is applied and recorded.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from sqlalchemy import Connection

from memory_core.config import MemoryConfig
from memory_core.engine.session import Session, SessionBlock
from memory_core.errors import MessageError
from memory_core.events import FlushPlanned, QueueReplaced, ranges
from memory_core.formats.any_message import GivenMessage, as_messages
from memory_core.messages import ChatMessage, MessageStatus, TextPart, ThinkingPart, message_text, unstorable
from memory_core.planning.flush import FlushPlan, Queue, SizedMessage, Trigger, complete_turns, plan_flush
from memory_core.planning.impact import texts_in
from memory_core.planning.rendering import strip_memory
from memory_core.store.delivery_rows import given_seqs, last_turn_heard, queue_delivery, read_deliveries
from memory_core.store.erasing import message_seqs, remove_messages
from memory_core.store.log_rows import section_went_out
from memory_core.store.message_rows import (
    NewMessage,
    add_messages,
    archive,
    known_ids,
    oldest_queued,
    queued_turns,
    read_messages,
    sizes_between,
)
from memory_core.store.quarantine_rows import join_sets
from memory_core.store.writing import Writing

LOOKED_BACK = 4
"""Number of stored messages, for each of a list, among which the list's beginning is looked for."""

_log = logging.getLogger(__name__)


def prepare(session: Session, messages: Sequence[GivenMessage], ids: Sequence[str]) -> list[NewMessage]:
    """Check and count messages; store nothing.

    An entry that holds several messages, such as tool results, gives its id to the first and `id:2`, … to the others.

    Raises:
        MessageError: one of them is not a message, or cannot be stored.
    """
    for id in ids:
        if problem := unstorable(id):
            raise MessageError(f"the id of a message {problem}")
    counter = session.counter
    return [
        NewMessage(id if number == 1 else f"{id}:{number}", message, message.to_json(), counter.message(message))
        for id, new_message in zip(ids, messages, strict=True)
        for number, message in enumerate(as_messages(new_message), 1)
    ]


def put(
    session: Session, w: Writing, new: Sequence[NewMessage], *, named: bool, whole: bool, end_turn: bool
) -> tuple[list[int], FlushPlan]:
    """Append messages, flush, and schedule what became due.

    All in one transaction, so that a crash leaves all of a put or nothing. `named`: the caller gave the ids, so that
    some may be stored already. `whole` and `end_turn`: see `Memory.put_messages`.

    Returns:
        The sequence numbers of all messages, known ones included, and the plan of the flush.
    """
    # 1. Ids that were just made are new: no look-up.
    stored = known_ids(w.connection, session.id, [message.id for message in new]) if named else {}
    if whole or not named:
        new = _without_history(session, w, new, stored, whole=whole)
    # 2. Append what is new, without memory sections that this engine had added.
    fresh = without_sections(session, w, [message for message in new if message.id not in stored])
    places = stored | dict(zip((message.id for message in fresh), add(session, w, fresh), strict=True))
    # 3. Flush at most once, when all of them are counted.
    plan = flush_queue(session, w, "over_budget")
    queue_turns(session, w, closing=end_turn)
    # A message that was nothing but a memory section was dropped and has no number.
    return [places[message.id] for message in new if message.id in places], plan


def _without_history(
    session: Session, w: Writing, prepared: Sequence[NewMessage], seq_by_id: Mapping[str, int], *, whole: bool
) -> Sequence[NewMessage]:
    """Return the messages that go on from what is stored, of a list that may begin with the history.

    Left out is a beginning that is the whole history, if more follows. With `whole` the list is known to be a whole
    conversation, perhaps with messages edited or left out by its front end: new is what follows the last stored one.
    """
    if len(prepared) < 2 or not w.session.messages:
        return prepared
    if stored_places := [place for place, new in enumerate(prepared) if new.id in seq_by_id]:
        return prepared[stored_places[-1] + 1 :] if whole else prepared
    if not whole and w.session.messages >= len(prepared):
        return prepared
    history = read_messages(w.connection, session.id, session.services.messages, last=LOOKED_BACK * len(prepared))
    stored, listed = [_compared(one.message) for one in history], [_compared(new.message) for new in prepared]
    if stored == listed[: len(stored)] and (whole or len(stored) < len(listed)):
        return prepared[len(stored) :]
    if not whole:
        return prepared
    *blocks, _ = SequenceMatcher(None, stored, listed, autojunk=False).get_matching_blocks()
    # A single equal message, such as "yes", is shared history only at an end of it.
    if not blocks or (sum(b.size for b in blocks) == 1 and blocks[0].a + 1 < len(stored) and any(blocks[0][:2])):
        return prepared
    _log.info("%r: a history was sent that differs from the stored one; what follows it was kept.", session.id)
    stored_to, sent_to = (start + blocks[-1].size for start in blocks[-1][:2])
    # All of it is stored, and was answered since: the last message is asked once more.
    return prepared[sent_to - (sent_to == len(listed) and stored_to < len(stored)) :]


def _compared(message: ChatMessage) -> tuple[str, ...]:
    """Return what is equal for two copies of a message: role, text and tool calls, but not a client's own fields."""
    others = (part for part in message.parts if not isinstance(part, TextPart | ThinkingPart))
    return message.role, message_text(message).strip(), *(part.model_dump_json() for part in others)


def add(session: Session, w: Writing, prepared: Sequence[NewMessage], *, opening: bool = False) -> list[int]:
    """Store messages, those that say what is in quarantine within it; return their sequence numbers.

    `opening`: see `add_messages`.
    """
    seqs = add_messages(w, prepared, counter=session.counter.id, opening=opening)
    # False: nothing ever was. None: not known yet, which `join_sets` then finds out.
    if w.session.quarantined is not False:
        texts = {seq: tuple(texts_in(new.json)) for seq, new in zip(seqs, prepared, strict=True)}
        join_sets(w, session.services.messages, messages=texts)
    return seqs


def without_sections(session: Session, w: Writing, messages: Sequence[NewMessage]) -> list[NewMessage]:
    """Remove memory sections that this engine had added; drop messages that contained nothing else."""
    remaining_messages = []
    for new in messages:
        message = strip_memory(new.message, lambda key: section_went_out(w.connection, session.id, key))
        if message is new.message:
            remaining_messages.append(new)
        # Without text it may still carry tool calls, whose results follow.
        elif message.parts or message.additional_kwargs:
            tokens = session.counter.message(message)
            remaining_messages.append(NewMessage(new.id, message, message.to_json(), tokens, stripped=True))
    return remaining_messages


def drop(w: Writing, seqs: Sequence[int], tokens: int) -> None:
    """Remove messages from the queue for good; no block receives them."""
    remove_messages(w, seqs)
    w.record(QueueReplaced(removed=ranges(seqs), tokens=tokens))


def plan_under(
    config: MemoryConfig, queue: Queue, oldest: Iterable[SizedMessage], turns: int, trigger: Trigger
) -> FlushPlan:
    """Plan a flush under a session's settings; `turns` is the number of turns in the queue."""
    return plan_flush(
        queue,
        oldest,
        history_budget=config.history_budget,
        token_flush_size=config.flush_size,
        split_long_turns=config.split_long_turns,
        turns_over=0 if config.queue_turns is None else max(0, turns - config.queue_turns),
        trigger=trigger,
    )


def flush_queue(session: Session, w: Writing, trigger: Trigger) -> FlushPlan:
    """Plan a flush and apply it: archive the messages, record the plan, schedule deliveries."""
    config = session.config
    queue = w.session.queue(config.accounting)
    # Counting turns takes a query, which only a limit of turns needs.
    turns = queued_turns(w.connection, session.id) if config.queue_turns is not None else 0
    plan = plan_under(config, queue, oldest_queued(w, config.accounting), turns, trigger)
    if not plan.leave:
        return plan
    w.session.flushes += 1
    archive(w, plan.leave, flush=w.session.flushes)
    seqs = [message.seq for message in plan.leave]
    w.record(
        FlushPlanned(
            flush=w.session.flushes,
            trigger=trigger,
            rules=plan.rules,
            seqs=ranges(seqs),
            messages=len(seqs),
            tokens=plan.tokens,
            queue_before=queue.tokens,
            queue_after=plan.tokens_left,
            history_budget=config.history_budget,
            flush_size=config.flush_size,
            over_by=plan.over_by,
            queue_turns=config.queue_turns,
        )
    )
    # In the same transaction as the flush, so that no message leaves the queue without being due to someone.
    for attached in session.blocks:
        if attached.learns and attached.deliver_on == "flush":
            _queue_flushed(session, w, attached, seqs)
    return plan


def _queue_flushed(session: Session, w: Writing, attached: SessionBlock, seqs: Sequence[int]) -> None:
    """Schedule delivery of flushed messages to a block, except those it already received turn by turn."""
    heard = last_turn_heard(w.connection, session.id, attached.name) if w.session.turn_delivered else 0
    # A whole flush is named by its number: its messages need not be consecutive, as a split turn keeps its first.
    if heard < seqs[0]:
        queue_for(session, w, attached, "flush", seqs, flush=w.session.flushes)
        return
    # A part of a flush has no number, and a delivery without one covers one range: schedule one per range.
    for first, last in ranges(seq for seq in seqs if seq > heard):
        queue_for(session, w, attached, "flush", range(first, last + 1))


def begin_turns(session: Session, w: Writing, attached: SessionBlock) -> None:
    """Switch a block from flushes to turns: schedule the complete turns in the queue, once."""
    queue_turns(session, w)  # so that blocks that already learn each turn miss none
    complete = complete_turns(sizes_between(w.connection, session.id, after=0))
    if not complete:
        return
    delivered = given_seqs(w.connection, session.id, attached.name)
    # Messages that left the queue earlier were delivered to the block by their flush.
    queued = {message.seq for message in oldest_queued(w, session.config.accounting)}
    due = [message.seq for message in complete if message.seq in queued - delivered] if attached.learns else []
    for first, last in ranges(due):
        queue_for(session, w, attached, "turn", range(first, last + 1))
    # Never backwards: `queue_turns` may have noted more just now.
    w.session.turn_delivered = max(w.session.turn_delivered, complete[-1].seq)


def queue_turns(session: Session, w: Writing, *, closing: bool = False) -> None:
    """Schedule completed turns for the blocks that learn each turn. Disabled blocks never receive them."""
    # Disabled blocks count, so that `turn_delivered` moves on: turns they missed are not due later.
    each_turn = [attached for attached in session.blocks if attached.deliver_on == "turn"]
    if not each_turn:
        return
    unheard = sizes_between(w.connection, session.id, after=w.session.turn_delivered)
    # Closing: the last turn will get no answer any more and counts as complete.
    complete = unheard if closing else complete_turns(unheard)
    if complete:
        for attached in each_turn:
            if attached.learns:
                queue_for(session, w, attached, "turn", [message.seq for message in complete])
        w.session.turn_delivered = complete[-1].seq


def queue_session_end(session: Session, w: Writing) -> None:
    """Schedule undelivered messages for the blocks that learn at the end of the session."""
    for attached in session.blocks:
        if attached.learns and attached.deliver_on == "session_end":
            done = [d for d in read_deliveries(w.connection, session.id) if d.block == attached.name]
            # A session may be closed again after more messages: what an earlier closing covered is not due twice.
            heard = max((d.last_seq for d in done if d.trigger == "session_end"), default=0)
            seqs = [message.seq for message in sizes_between(w.connection, session.id, after=heard)]
            if seqs:
                queue_for(session, w, attached, "session_end", seqs)


def queue_for(
    session: Session, w: Writing, attached: SessionBlock, trigger: str, seqs: Sequence[int], *, flush: int | None = None
) -> None:
    """Schedule messages for a block."""
    sizes = sizes_between(w.connection, session.id, after=min(seqs) - 1, upto=max(seqs))
    wanted = frozenset(seqs)
    tokens = sum(message.tokens for message in sizes if message.seq in wanted)
    queue_delivery(w, attached.name, trigger=trigger, seqs=ranges(seqs), messages=len(seqs), tokens=tokens, flush=flush)


def fill(session: Session, w: Writing, attached: SessionBlock) -> int:
    """Schedule delivery of existing messages that were never due to a block; return their number."""
    if not attached.learns:
        return 0
    if attached.deliver_on == "turn":
        queue_turns(session, w)  # so that blocks that already learn each turn miss none
    delivered = given_seqs(w.connection, session.id, attached.name)
    # Skipped deliveries are not counted as given, so filling brings them back.
    due = [seq for seq in due_at_once(session, w.connection, attached.deliver_on) if seq not in delivered]
    trigger = "turn" if attached.deliver_on == "turn" else "archive"
    for first, last in ranges(due):
        queue_for(session, w, attached, trigger, range(first, last + 1))
    # So that the next completed turn does not deliver these again.
    if attached.deliver_on == "turn" and due:
        w.session.turn_delivered = max(w.session.turn_delivered, due[-1])
    return len(due)


def due_at_once(session: Session, connection: Connection, deliver_on: str) -> list[int]:
    """Return the message numbers a new block receives at once: those archived, or those of all complete turns."""
    if deliver_on == "turn":
        return [message.seq for message in complete_turns(sizes_between(connection, session.id, after=0))]
    return message_seqs(connection, session.id, MessageStatus.ARCHIVED) if deliver_on == "flush" else []
