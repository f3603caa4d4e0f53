"""Contexts: the messages sent to the model for one turn, with the plan that produced them.

Gather (read the queue and the blocks), plan (`planning.context_plan`), render (`planning.rendering`), record. Reading
changes no memory and no counter that a later reading depends on.
"""

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core.blocks.base import (
    BaseMemoryBlock,
    Content,
    Item,
    ReadContext,
    content_out_of_quarantine,
    frame_tokens,
    item_tokens,
    spaced_parts,
)
from memory_core.blocks.storing import LOOKING_SECONDS, PATIENCE_SECONDS
from memory_core.config import MemoryConfig
from memory_core.engine.session import Session, SessionBlock
from memory_core.errors import ContextOverflowError, NotFoundError, StoreError, user_message
from memory_core.events import BlockFailed, ContextBuilt, Event, Ref, compact, ranges
from memory_core.formats.notebooks import repr_html
from memory_core.formats.openai_message import to_openai
from memory_core.messages import ChatMessage, MessageRole, TextPart, independent, message_text
from memory_core.planning.context_plan import ContextPlan, Part, Piece, TruncationOrder, Truncator, plan_context
from memory_core.planning.quarantine import Quarantine
from memory_core.planning.rendering import (
    InsertMethod,
    Section,
    insert_memory,
    neutralise_message,
    render_memory,
    section_hash,
)
from memory_core.planning.retrieval_plan import budget_for
from memory_core.process import per_process
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import QueueRow
from memory_core.store.writing import read_texts, session_scope
from memory_core.tokens import MESSAGE_OVERHEAD, Accounting, TokenCounter

READERS = 256
"""Maximum number of blocks read concurrently. Threads are created on demand; a read that hangs keeps its thread."""

RECORDING_SECONDS = 5.0
"""Seconds to wait for other writers before a prompt is recorded. After that the caller gets the prompt without a log
entry, and `Context.unrecorded` holds the reason."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, repr=False)
class Context:
    """Messages for the model, and the plan that chose them. Sizes in `plan` are tokens counted by `accounting`."""

    messages: tuple[ChatMessage, ...]
    """Messages for the model: memory section and queue."""
    plan: ContextPlan
    words: Mapping[str, str]
    """Text of every requested piece by its `ref`, cut ones included."""
    kinds: Mapping[str, str]
    """Kind of each block (`static`, `facts`, `vector`, `custom`) by name."""
    insert_method: InsertMethod
    accounting: Accounting
    content_tokens: int
    markup_tokens: int
    overhead_tokens: int
    """Tokens an endpoint adds per message."""
    neutralised: int
    """Number of texts in which forged markup was escaped."""
    failures: Mapping[str, str]
    """Reason in one sentence for each block that could not be read."""
    queue_seqs: tuple[int, ...]
    pinned_seqs: tuple[int, ...]
    token_budgets: Mapping[str, int] = field(default_factory=dict)
    """Tokens available to each block that fills its budget, by name."""
    unrecorded: str | None = None
    """Reason in one sentence why the context is missing from the log; None: it is logged, or need not be."""

    @property
    def billed_tokens(self) -> int:
        """Tokens an endpoint would count: content, markup and overhead, and `reserved_tokens`."""
        return self.content_tokens + self.markup_tokens + self.overhead_tokens + self.plan.reserved_tokens

    _repr_html_ = repr_html

    def __str__(self) -> str:
        return self.explain()

    def __repr__(self) -> str:
        return f"<Context: {self.plan.total:,} of {self.plan.token_limit:,} tokens, {len(self.messages):,} messages>"

    def openai(self) -> list[dict[str, Any]]:
        """The messages as `client.chat.completions.create(messages=...)` takes them, tool calls with results."""
        return to_openai(self.messages)

    def explain(self) -> str:
        """Return the plan in words and numbers, for a notebook or a log."""
        plan = self.plan
        lines = [f"{plan.total:,} of {plan.token_limit:,} tokens sent, {plan.free:,} free."]
        if plan.over_by:
            lines = [f"{plan.total:,} of {plan.token_limit:,} tokens sent: {plan.over_by:,} over the limit."]
            lines.append(f"Never cut and too large alone: {plan.over_because}.")
        lines.append(_row("part", "requested", "granted", "priority"))
        if plan.reserved_tokens:
            lines.append(_row("system prompt and tools", plan.reserved_tokens, plan.reserved_tokens, "never cut"))
        if self.pinned_seqs:
            lines.append(_row("pinned system messages", plan.pinned_tokens, plan.pinned_tokens, "never cut"))
        lines.append(_row("queue", plan.queue_asked, plan.queue_granted, f"{len(plan.queue)} messages"))
        for part in plan.granted:
            lines.append(_row(part.name, part.asked, part.granted, part.priority or "never cut"))
        for number, cut in enumerate(plan.cuts, start=1):
            what = ", ".join(cut.refs[:8]) + (", ..." if len(cut.refs) > 8 else "")
            lines.append(
                f"cut {number}: {cut.tokens:,} tokens of {cut.part} ({cut.rule.replace('_', ' ')}, "
                f"{cut.over_before:,} over): {what}"
            )
        for name, problem in self.failures.items():
            lines.append(f"{name} could not be read: {problem}")
        if self.unrecorded is not None:
            lines.append(f"not in the log: {self.unrecorded}")
        lines.append(
            f"billed: {self.billed_tokens:,} (content {self.content_tokens:,}, markup {self.markup_tokens:,}, "
            f"message overhead {self.overhead_tokens:,}"
            + (f", system prompt and tools {plan.reserved_tokens:,})" if plan.reserved_tokens else ")")
        )
        return "\n".join(lines)


def build_context(
    session: Session,
    input: str | ChatMessage | Sequence[ChatMessage] | None = None,
    *,
    record: bool = True,
    reserved_tokens: int | None = None,
    arguments: Mapping[str, Any] | None = None,
) -> Context:
    """Read the queue and the blocks, grant what fits, lay it out, and record the result.

    `reserved_tokens`: tokens of the agent's own system prompt and tools, measured for this context; None: those of the
    settings, and for a look (`record=False`) those last measured.

    Raises:
        ConfigError: `reserved_tokens` is impossible.
        ContextOverflowError: the context is over the limit and `when_over` is `"raise"`; it is recorded nevertheless.
        StoreError: the database cannot be read. A failed write is reported in `Context.unrecorded` instead.
        NotFoundError: the session was deleted meanwhile.
    """
    # 1. The queue before the blocks: its size leaves the rest of the limit to blocks that fill a budget, and its
    #    messages need not be recalled.
    rows, quarantine = _shown(session)
    measured = reserved_tokens if reserved_tokens is not None or record else last_measured(session)
    config = session.config if measured is None else session.config.changed(reserved_tokens=measured)
    reading = reading_for(session, rows, input, dict(arguments or {}), quarantine)
    # A preview waits less for vectors that are still being computed, as a screen is redrawn often.
    reading = replace(reading, patience=PATIENCE_SECONDS if record else LOOKING_SECONDS)
    roles = {row.message.role for row in rows} if config.accounting == "billed" else ()
    frame = outer_frame(config, session.counter, roles)
    # Lists, here and below: of a queue of a thousand messages each generator takes twice as long.
    taken = frame + sum([row.sized.tokens for row in rows])
    read, failures, token_budgets = _read_blocks(session, reading, room=config.room, taken=taken)

    # 2. Plan once everything is read: cuts depend on all sizes together.
    layout = _Layout(session, read, reading, config.room)
    pinned = [row for row in rows if row.pinned]
    queue = [row for row in rows if not row.pinned] if pinned else rows
    plan = plan_context(
        layout.parts(),
        [row.sized for row in queue],
        token_limit=config.limit,
        pinned_tokens=sum(row.sized.tokens for row in pinned),
        reserved_tokens=config.reserved_tokens,
        frame=frame,
        truncation_order=config.truncation_order,
        when_over=config.when_over,
        truncators=layout.truncators(),
    )
    # 3. Failures of truncation come with the plan, so the list is complete only now.
    failures |= layout.failures
    reasons = {name: user_message(error) for name, error in failures.items()}
    context, section = _laid_out(session, plan, layout, pinned, queue, reasons, token_budgets)
    # 4. Record before raising, so that a context over the limit can be inspected in the log.
    if record:
        try:
            _record(session, context, layout, section, measured=measured is not None)
            _warn(session, layout, failures)
        # The session was deleted meanwhile: the caller must know, and it is not a failed write.
        except NotFoundError:
            raise
        except Exception as error:  # a full disk, or an event that cannot be stored, must not stop an agent
            shown = error if isinstance(error, StoreError) else type(error).__name__  # others may quote messages
            _log.warning("A prompt was built that is not in the log. %s", shown)
            context = replace(context, unrecorded=user_message(error))
    if plan.over_by and config.when_over == "raise":
        raise ContextOverflowError(
            f"The context is {plan.over_by:,} tokens over the limit of {plan.token_limit:,}: "
            f"{plan.over_because} cannot be cut. Raise the limit or shorten them.",
            over_by=plan.over_by,
        )
    return context


def last_measured(session: Session) -> int | None:
    """Return the `reserved_tokens` measured for the newest recorded context; None if they were not measured."""
    with session.database.read() as connection:
        newest = read_events(connection, session.id, kinds=("context_built",), limit=1, newest_first=True)
    event = newest[0].event if newest else None
    return event.reserved_tokens if isinstance(event, ContextBuilt) and event.measured else None


class _Layout:
    """Contents of the blocks, by block and by piece, for planning and laying out one context."""

    def __init__(self, session: Session, read: Mapping[str, Content], reading: ReadContext, room: int) -> None:
        self._room = room
        self.reading = reading
        self.read = read
        self.items = {item.ref: item for content in read.values() for item in content.items}
        self.keep = [words for content in read.values() for words in content.keep]
        self.failures: dict[str, BaseException] = {}
        """Errors of blocks' own truncation, by block; such a block is left out."""
        self._counter = session.counter
        self._accounting = session.config.accounting
        self._attached = {attached.name: attached for attached in session.blocks}

    def parts(self) -> list[Part]:
        return [self._part(self._attached[name], content) for name, content in self.read.items()]

    def _part(self, attached: SessionBlock, content: Content) -> Part:
        return Part(
            name=attached.name,
            priority=attached.priority,
            pieces=tuple(Piece(item.ref, self._size(item), item.heading) for item in content.items),
            cut_order=content.cut_order,
            truncation=attached.record.settings.get("truncation", "trim"),
            frame=frame_tokens(attached.name, self._counter, self._accounting),
            share=share_tokens(attached.record.settings, self._room),
        )

    def _size(self, item: Item) -> int:
        return item_tokens(item, self._counter, self._accounting)

    def truncators(self) -> dict[str, Truncator]:
        """Return the truncation functions of blocks that shorten themselves, by block name."""
        return {
            name: self._truncator(block, self._attached[name].state, content)
            for name, content in self.read.items()
            if (block := self._attached[name].block) is not None and block.shortens
        }

    def _truncator(self, block: BaseMemoryBlock[Any], state: str | None, content: Content) -> Truncator:
        def shorten(part: Part, over: int) -> Part | None:
            try:
                shorter = block.shorten(content, over, self.reading, state)
            # Ctrl+C ends the program and says nothing about the block.
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a custom block may raise anything; it is recorded and shown
                self.failures[block.name] = error
                return None
            # The block may have made new items, such as a shortened text; the plan names them by `ref`.
            self.items.update((item.ref, item) for item in shorter.items)
            self.keep += shorter.keep
            return replace(part, pieces=tuple(Piece(item.ref, self._size(item)) for item in shorter.items))

        return shorten


def reading_for(
    session: Session,
    rows: Sequence[QueueRow],
    input: str | ChatMessage | Sequence[ChatMessage] | None,
    arguments: dict[str, Any],
    quarantine: Quarantine,
) -> ReadContext:
    """Return the inputs for reading blocks; `rows` are the messages of the queue that are not in quarantine."""
    extra: tuple[ChatMessage, ...]
    if input is None:
        extra, text = (), None
    elif isinstance(input, str):
        extra, text = (ChatMessage(role=MessageRole.USER, content=input),), input
    else:
        extra = (input,) if isinstance(input, ChatMessage) else tuple(input)
        # Only a user's message is a question to search for; of several, the last.
        users = [message_text(message) for message in extra if message.role is MessageRole.USER]
        text = users[-1] if users else None
    for message in extra:
        message.to_json()  # raises MessageError for text that cannot be stored
    # Pinned messages are no part of what blocks search with, but need not be recalled either (`queue_seqs`).
    queue = tuple([row.message for row in rows if not row.pinned])
    return ReadContext(
        session_id=session.id,
        user_id=session.user_id,
        database=session.database,
        counter=session.counter,
        services=session.services,
        queue=queue,
        queue_seqs=frozenset([row.sized.seq for row in rows]),
        input=text,
        messages=(*(queue if len(queue) == len(rows) else [row.message for row in rows]), *extra),
        names=tuple(attached.name for attached in session.blocks),
        arguments=arguments,
        accounting=session.config.accounting,
        imagined=tuple(one for a in session.blocks if a.block is not None for one in a.block.imagined_statements),
        quarantine=quarantine,
    )


def reading_of(session: Session, query: str) -> ReadContext:
    """Return the inputs for reading a block by a query alone."""
    rows, quarantine = _shown(session)
    return reading_for(session, rows, query, {}, quarantine)


def _shown(session: Session) -> tuple[Sequence[QueueRow], Quarantine]:
    """Return the messages of the queue that are not in quarantine, and the quarantine."""
    with session.database.read() as connection:
        state = session.keep_up(connection)
        rows, quarantine = session.queue(connection, state), session.quarantine(connection, state)
    if not quarantine.messages:
        return rows, quarantine
    withheld = quarantine.seqs(session.id)
    return [row for row in rows if row.sized.seq not in withheld], quarantine


def _read_blocks(
    session: Session, reading: ReadContext, *, room: int, taken: int
) -> tuple[dict[str, Content], dict[str, BaseException], dict[str, int]]:
    """Read all enabled blocks; return contents and failures in block order, and the token budgets that were filled.

    Blocks are read concurrently, except those that fill a budget: these are read last, in turn, in the order of
    `_cut_last`, each with the tokens left of `room`.
    """
    enabled = [a for a in session.blocks if a.record.settings.get("enabled", True)]
    # 1. Split the blocks: those that fill a budget, those slow to read, and static texts, which are in memory.
    filling = [attached for attached in enabled if attached.block is not None and attached.block.fills_budget]
    slow = [attached for attached in enabled if attached.kind != "static" and attached not in filling]
    # 2. Read the slow ones at the same time, as each may wait for a model or an index. One alone needs no thread.
    if len(slow) > 1:
        pool = session.services.executor or _pool()
        futures = {attached.name: pool.submit(_read, attached, reading) for attached in slow}
        outcomes = {name: future.result() for name, future in futures.items()}
    else:
        outcomes = {attached.name: _read(attached, reading) for attached in slow}
    outcomes |= {a.name: _read(a, reading) for a in enabled if a not in slow and a not in filling}
    # 3. Read those that fill a budget in turn, as each takes tokens that the next could use. What other blocks ask
    #    for counts, not what they will be granted: cuts are planned only once all sizes are known.
    token_budgets: dict[str, int] = {}
    for attached in _cut_last(filling, session.config.truncation_order):
        asked = sum(_asked(a, outcomes[a.name], reading, room) for a in enabled if a.name in outcomes)
        token_budget = budget_for(room, taken + asked + _frame(attached.name, reading))
        token_budgets[attached.name] = token_budget
        outcomes[attached.name] = _read(attached, replace(reading, token_budget=token_budget))
    # 4. Put the outcomes back in the order of the blocks, which decides ties between cuts and the layout.
    read: dict[str, Content] = {}
    failures: dict[str, BaseException] = {}
    for attached in enabled:
        outcome = outcomes[attached.name]
        if isinstance(outcome, Content):
            read[attached.name] = outcome
        else:
            # Empty rather than missing, so that the block keeps its row in the plan and in the log.
            read[attached.name] = Content()
            failures[attached.name] = outcome
    return read, failures, token_budgets


def _cut_last(attached: Sequence[SessionBlock], order: TruncationOrder) -> list[SessionBlock]:
    """Sort blocks in reverse order of cutting: first those that are never cut, last the one that is cut first."""
    # The largest priority number is cut first by default, so the smallest comes first here.
    sign = 1 if order == "largest_first" else -1
    return sorted(attached, key=lambda one: (one.priority > 0, sign * one.priority))


def _asked(attached: SessionBlock, content: Content | BaseException, reading: ReadContext, room: int) -> int:
    """Return the tokens that a block asks for, at most its share of the room; 0 if it could not be read."""
    if not isinstance(content, Content) or not content.items:
        return 0
    sizes = (item_tokens(item, reading.counter, reading.accounting) for item in content.items)
    asked = sum(sizes) + _frame(attached.name, reading)
    share = share_tokens(attached.record.settings, room)
    return asked if share is None else min(asked, share)


def share_tokens(settings: Mapping[str, Any], room: int) -> int | None:
    """Return the tokens that a block with these settings keeps when a prompt is full; None if it has no share."""
    # A share limits cuts of single pieces: priority 0 is never cut, and `drop` leaves out the whole block.
    share, priority = settings.get("prompt_share"), settings.get("priority", 0)
    return None if share is None or not priority or settings.get("truncation") == "drop" else max(1, int(share * room))


def outer_frame(config: MemoryConfig, counter: TokenCounter, roles: Collection[MessageRole]) -> int:
    """Return the tokens of the markup around all blocks, and of an extra message if no message can carry the memory.

    `roles`: roles of the messages in the queue, pinned ones included.
    """
    # The other accountings count the content without its markup.
    if config.accounting != "billed":
        return 0
    # The section joins an existing message of this role; without one it needs a message of its own.
    role = MessageRole.SYSTEM if config.insert_method is InsertMethod.SYSTEM else MessageRole.USER
    return frame_tokens("memory", counter, config.accounting) + (MESSAGE_OVERHEAD if role not in roles else 0)


def _frame(name: str, reading: ReadContext) -> int:
    return frame_tokens(name, reading.counter, reading.accounting)


def _read(attached: SessionBlock, reading: ReadContext) -> Content | BaseException:
    """Return a block's content, or the exception that reading it raised; the context is then built without it."""
    try:
        # This process lacks the block's class: its last contribution is shown rather than nothing.
        if attached.block is None:
            return _last_recorded(attached, reading)
        return attached.block.read(reading, attached.state)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # a custom block may raise anything; it is recorded and shown
        return error


def _last_recorded(attached: SessionBlock, reading: ReadContext) -> Content:
    """Return a block's content from the last recorded context, for a class that this process lacks."""
    with reading.database.read() as connection:
        built = read_events(connection, reading.session_id, kinds=("context_built",), limit=50, newest_first=True)
        refs: Iterable[str] = ()
        for record in built:
            event = record.event
            assert isinstance(event, ContextBuilt)
            # The block may be cut from the newest contexts: the last context with refs of it counts.
            asked = [part for part in event.parts if part["name"] == attached.name and part["refs"]]
            if asked:
                refs = asked[0]["refs"]
                break
        hashes = {ref: ref.hash for ref in map(Ref, refs) if ref.kind == "content"}
        words = read_texts(connection, session_scope(reading.session_id), hashes.values())
    contents = [
        content_out_of_quarantine(words[key], reading, attached.name) for key in hashes.values() if key in words
    ]
    return Content(
        items=tuple(item for content in contents for item in content.items),
        keep=tuple(text for content in contents for text in content.keep),
    )


def _laid_out(
    session: Session,
    plan: ContextPlan,
    layout: _Layout,
    pinned: Sequence[QueueRow],
    queue: Sequence[QueueRow],
    failures: Mapping[str, str],
    token_budgets: Mapping[str, int],
) -> tuple[Context, str | None]:
    names = layout.reading.names
    queue_seqs = tuple([message.seq for message in plan.queue])
    rows = queue
    if len(queue_seqs) < len(queue):
        in_queue = set(queue_seqs)
        rows = [row for row in queue if row.sized.seq in in_queue]
    if pinned:
        rows = sorted([*pinned, *rows], key=lambda row: row.sized.seq)
    history, changed = [row.message for row in rows], 0
    for place in [place for place, row in enumerate(rows) if not row.plain]:
        message = history[place]
        safe = neutralise_message(message, names)
        # It is the message itself if there is nothing to escape, so identity shows what changed.
        changed += safe is not message
        # Stored messages are shared between contexts, so mutable ones are copied.
        history[place] = independent(safe)
    sections, in_front = [], []
    for part in plan.granted:
        items = [layout.items[piece.ref] for piece in part.pieces]
        if parts := spaced_parts(items):
            sections.append(Section(part.name, parts))
        # Whole messages that a block returned go before the queue, not into the memory section.
        for message in (message for item in items for message in item.messages):
            in_front.append(neutralise_message(message, names))
            changed += in_front[-1] is not message
    memory = render_memory(sections)
    messages = insert_memory([*in_front, *history], memory, session.config.insert_method)

    counter = session.counter
    granted = [layout.items[piece.ref] for part in plan.granted for piece in part.pieces]
    # Counted as `content` under any accounting: `billed_tokens` is always what an endpoint would count.
    content = sum(item_tokens(item, counter, "content") for item in granted)
    content += sum([row.tokens.content for row in rows])
    section_tokens = sum(counter.part(part) for part in memory)
    # Markup is the section's tokens beyond those of its items; items that are whole messages are not in it.
    in_section = sum(item_tokens(item, counter, "content") for item in granted if item.parts)
    context = Context(
        messages=tuple(messages),
        plan=plan,
        words={ref: item.words for ref, item in layout.items.items()},
        kinds={attached.name: attached.kind for attached in session.blocks},
        insert_method=session.config.insert_method,
        accounting=session.config.accounting,
        content_tokens=content,
        markup_tokens=section_tokens - in_section,
        overhead_tokens=len(messages) * MESSAGE_OVERHEAD,
        neutralised=changed + sum(_was_neutralised(item) for item in granted),
        failures=failures,
        queue_seqs=queue_seqs,
        pinned_seqs=tuple(row.sized.seq for row in pinned),
        token_budgets=token_budgets,
    )
    return context, section_hash(memory) if memory else None


def _was_neutralised(item: Item) -> bool:
    return "&lt;" not in item.words and any(isinstance(p, TextPart) and "&lt;" in p.text for p in item.parts)


def _record(session: Session, context: Context, layout: _Layout, section: str | None, *, measured: bool) -> None:
    plan, reading, read = context.plan, layout.reading, layout.read
    with session.writing(patience=RECORDING_SECONDS) as w:
        # 1. Texts first: the events name them by hash.
        for words in layout.keep:
            w.store_text(words)
        # 2. Searches and failures before the context that they led to, as a reader of the log expects causes first.
        events: list[Event] = [event for content in read.values() for event in content.events]
        events += [BlockFailed(block=name, error=error) for name, error in context.failures.items()]
        events.append(
            ContextBuilt(
                pinned=ranges(context.pinned_seqs),
                queue=ranges(context.queue_seqs),
                queue_asked=plan.queue_asked,
                queue_tokens=plan.queue_granted,
                pinned_tokens=plan.pinned_tokens,
                parts=tuple(
                    {
                        "name": part.name,
                        "priority": part.priority,
                        "asked": part.asked,
                        "granted": part.granted,
                        "refs": compact(piece.ref for piece in part.pieces),
                    }
                    | ({"layout": read[part.name].layout} if read[part.name].layout else {})
                    | ({"marks": read[part.name].marks} if read[part.name].marks else {})
                    | ({"notes": _stored_notes(read[part.name].notes)} if read[part.name].notes else {})
                    for part in plan.granted
                ),
                cuts=tuple(
                    {
                        "part": cut.part,
                        "rule": cut.rule,
                        "refs": compact(cut.refs),
                        "tokens": cut.tokens,
                        "over_before": cut.over_before,
                    }
                    for cut in plan.cuts
                ),
                asked=plan.asked,
                total=plan.total,
                token_limit=plan.token_limit,
                over_by=plan.over_by,
                over_because=plan.over_because,
                markup_tokens=context.markup_tokens,
                overhead_tokens=context.overhead_tokens,
                billed=context.billed_tokens,
                insert_method=str(context.insert_method),
                truncation_order=session.config.truncation_order,
                accounting=context.accounting,
                section=section,
                input=w.store_text(reading.input) if reading.input is not None else None,
                neutralised=context.neutralised,
                reserved_tokens=plan.reserved_tokens,
                measured=measured,
            )
        )
        w.record(*events)


def _stored_notes(notes: Mapping[Ref, str]) -> list[tuple[str, tuple[str, ...]]]:
    """Return each note once, with the items that have it."""
    refs: dict[str, list[Ref]] = {}
    for ref, note in notes.items():
        refs.setdefault(note, []).append(ref)
    return [(note, compact(noted)) for note, noted in refs.items()]


def _warn(session: Session, layout: _Layout, failures: Mapping[str, BaseException]) -> None:
    """Log a warning for each recorded failure, by exception type only, as the text may quote messages."""
    for name, error in failures.items():
        kind = type(error).__name__
        _log.warning(
            "Session %r, block %r: left out of a prompt, as reading it failed with %s.", session.id, name, kind
        )
    for name, content in layout.read.items():
        if any(getattr(event, "degraded", None) is not None for event in content.events):
            _log.warning("Session %r, block %r: a search was done without its index or its embedder.", session.id, name)


def _row(*cells: object) -> str:
    name, asked, granted, rest = (f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
    return f"  {name:<28}{asked:>10}{granted:>10}  {rest}"


@per_process
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="memory-read")
