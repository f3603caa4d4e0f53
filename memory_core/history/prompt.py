"""Exact prompt of a turn, part by part: sizes, cuts and their reasons, warnings, and its difference from another.

Rebuilt from a recorded context, the surrounding log and the content store; no current table is read. Sizes are in
tokens, in the accounting used at the time.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import pairwise, takewhile
from threading import Lock
from typing import Any, Literal, cast

from memory_core.blocks import BUILT_IN
from memory_core.blocks.base import Item, item_tokens, origin_of
from memory_core.engine.session import Session
from memory_core.events import (
    ContextBuilt,
    EventRecord,
    MessageAdded,
    ModelCalled,
    Ref,
    Retrieved,
    expand,
    numbers,
    spread,
)
from memory_core.history.block_slice import PastBlock
from memory_core.history.by_turn import History, search_of
from memory_core.history.context_pieces import Layout, PieceReader, Pieces, Words, lay_out
from memory_core.history.contexts import context_of, is_call, is_context
from memory_core.history.learned_slices import FactWords
from memory_core.history.log import pieces_of_session
from memory_core.messages import ChatMessage, MessageRole, Part, TextPart, ThinkingPart, message_text
from memory_core.planning.context_plan import QUEUE, RESERVED_LABEL, CutRule, Truncation
from memory_core.planning.former_values import stored_marks
from memory_core.planning.rendering import InsertMethod, fact_parts, relation_parts, static_parts
from memory_core.store.log_rows import fact_words_at
from memory_core.text import listed
from memory_core.tokens import MESSAGE_OVERHEAD, Accounting, MessageTokens, TokenCounter

PINNED = "pinned"
"""Kind of the part that holds the system messages in front of a conversation."""
RESERVED = "reserved"
"""Kind of the part that memory does not write: the agent's own system prompt and its definitions of tools."""
MARKUP = "Markup"
"""Name of what belongs to no part: the markup around all blocks, and the message added to carry it."""
PART_NAMES = {QUEUE: "Queue", PINNED: "System messages", RESERVED: RESERVED_LABEL}
"""Names of the parts that are no block, by kind."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Item of a prompt that is kept or cut as a whole."""

    ref: Ref
    words: str | None
    """Text without markup; None if it was erased since."""
    tokens: int | None
    """Size in tokens; None if it can no longer be determined."""
    cut: bool = False
    turn: int | None = None
    """Conversation turn, for messages and stored turns."""
    role: str | None = None
    """Role, for messages."""
    score: float | None = None
    """Relevance of a stored turn to the question, 0 to 1."""
    messages: tuple[ChatMessage, ...] = ()
    """Messages that the item consists of, if any."""
    stands_for: int = 0
    """Number of messages that an agent's compaction replaced by this summary; 0: it is none."""
    attached: tuple[str, ...] = ()
    """Types of the item's non-text parts: `image`, `audio`, ..."""
    origin: tuple[str, int] | None = None
    """Session and turn of a stored turn from another session of the user; otherwise None."""
    unmarked: str | None = None
    """Text without a note or the mark of a former value (`planning.former_values`) after it; None if it has neither."""


@dataclass(frozen=True, slots=True)
class PromptPart:
    """The queue, the pinned system messages, what memory does not write, or one block."""

    name: str
    kind: str
    """`queue`, `pinned`, `reserved`, or the kind of the block."""
    priority: int | None
    """0: never cut. None for the queue, and for every part of a prompt that another program built."""
    asked: int
    granted: int
    entries: tuple[Entry, ...]
    """Items that were included, in reading order, then those that were cut."""
    truncation: Truncation = "trim"
    failure: str | None = None
    """Error that prevented reading the block; None if it was read."""
    degraded: str | None = None
    """Sentence on what the block's search could not use; None: nothing failed."""
    observed: bool = False
    """True in a prompt that another program built."""

    @property
    def title(self) -> str:
        """Name of a block as it was typed, of any other part as it is shown; another program's prompt has no queue."""
        return "Messages" if self.observed and self.kind == QUEUE else PART_NAMES.get(self.kind, self.name)

    @property
    def included(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if not entry.cut)

    @property
    def left_out(self) -> tuple[Entry, ...]:
        return tuple(entry for entry in self.entries if entry.cut)


@dataclass(frozen=True, slots=True)
class PromptCut:
    """Decision to leave something out."""

    part: PromptPart
    rule: CutRule
    tokens: int
    """Tokens that the cut freed."""
    over_before: int
    """Tokens above the limit when the cut was decided."""
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class BillLine:
    """Tokens of one category: as counted against the limit, and as billed by an endpoint."""

    what: Literal["content", "tool_calls", "markup", "overhead", "reserved"]
    counted: int
    billed: int


@dataclass(frozen=True, slots=True)
class Prompt:
    """Prompt as it was sent, with the decisions behind it."""

    record: EventRecord
    built: ContextBuilt
    parts: tuple[PromptPart, ...]
    """The queue, pinned system messages, `reserved_tokens`, then the blocks from never cut to cut first."""
    cuts: tuple[PromptCut, ...]
    """Cuts, in the order they were made."""
    layout: Layout
    tool_call_tokens: int
    """Tokens of the tool calls in the messages as sent."""
    call: ModelCalled | None
    """The model call that sent the prompt, if it was recorded."""
    question: str | None
    """The input that the prompt was built for; None if none was given."""
    missing: tuple[str, ...]
    """Hashes of the prompt's words that were erased since."""

    @property
    def turn(self) -> int:
        return self.record.turn

    @property
    def free(self) -> int:
        return max(0, self.built.token_limit - self.built.total)

    @property
    def cut_tokens(self) -> int:
        """Tokens requested and not granted."""
        return self.built.asked - self.built.total

    @property
    def insert_method(self) -> InsertMethod:
        return InsertMethod(self.built.insert_method)

    @property
    def messages(self) -> tuple[ChatMessage, ...]:
        """The messages exactly as sent, except for words erased since."""
        return self.layout.messages(self.insert_method)

    @property
    def around(self) -> int:
        """Tokens that belong to no part: the surrounding markup, and the message added to carry it, if counted."""
        return self.built.total - sum(part.granted for part in self.parts)

    @property
    def around_asked(self) -> int:
        """Tokens of that markup if nothing were cut: with the last block it goes as well."""
        return self.built.asked - sum(part.asked for part in self.parts)

    @property
    def bill(self) -> tuple[BillLine, ...]:
        """Breakdown of the difference between counted and billed tokens; each column adds up to its total."""
        built, calls = self.built, self.tool_call_tokens
        content = built.billed - built.markup_tokens - built.overhead_tokens - built.reserved_tokens - calls
        total = built.total - built.reserved_tokens
        overhead = built.overhead_tokens if built.accounting == "billed" else 0
        # The reference accounting does not count tool calls that are parts of a message.
        counted_calls = 0 if built.accounting == "reference" else calls
        # Counted content equals billed content, unless the reference accounting leaves something out.
        counted = min(content, total - overhead - counted_calls)
        return (
            BillLine("content", counted, content),
            BillLine("tool_calls", counted_calls, calls),
            BillLine("markup", total - overhead - counted_calls - counted, built.markup_tokens),
            BillLine("overhead", overhead, built.overhead_tokens),
            *([BillLine("reserved", *(built.reserved_tokens,) * 2)] if built.reserved_tokens else []),
        )


def read_prompt(
    history: History,
    record: EventRecord,
    pieces: Pieces,
    words: Words,
    counter: TokenCounter,
    *,
    facts: Mapping[int, FactWords] | None = None,
) -> Prompt:
    """Read the prompt of a recorded context that belongs to `history`.

    `pieces` must have applied the log already; `counter` counts sizes that the log does not record. `facts`: texts, as
    of that time, of facts that the user's other sessions learned or changed.
    """
    event = context_of(record)
    blocks = {block.name: block for block in history.blocks_at(record.position)}
    reader = PieceReader(pieces, record.position, tuple(blocks), words, facts or {})
    layout = lay_out(event, reader)
    around = _Around.of(history, record)
    reading = _Reading(event, reader, around, counter)
    queue = reading.queue(pieces.left_out(record))
    pinned = reading.pinned()
    beside = PromptPart(RESERVED, RESERVED, pinned.priority, event.reserved_tokens, event.reserved_tokens, ())
    parts = [reading.block(part, blocks.get(part["name"])) for part in event.parts]
    smallest = event.truncation_order == "smallest_first"
    by_name = {part.name: part for part in [queue, *parts]}
    sent = layout.messages(InsertMethod(event.insert_method))
    return Prompt(
        record=record,
        built=event,
        parts=(
            queue,
            *([pinned] if pinned.entries else []),
            *([beside] if beside.granted else []),
            *cut_last_first(parts, smallest_first=smallest),
        ),
        cuts=tuple(_cut(cut, by_name[cut["part"]]) for cut in event.cuts),
        layout=layout,
        tool_call_tokens=sum(counter.part(call) for message in sent for call in message.tool_calls),
        call=around.call,
        question=reader.text(event.input) if event.input else None,
        missing=tuple(reader.missing),
    )


def cut_last_first(parts: Sequence[PromptPart], *, smallest_first: bool) -> list[PromptPart]:
    """Return the blocks from never cut to cut first; of equal priority, the first in session order is cut first."""
    sign = -1 if smallest_first else 1
    # Priority 0 and prompts of other programs (no priority at all) are never cut.
    never = [part for part in parts if not part.priority]
    # Blocks that are cut first come last; equal priorities are reversed, as the first of them is cut first.
    return never + sorted([part for part in reversed(parts) if part.priority], key=lambda p: sign * (p.priority or 0))


@dataclass(frozen=True, slots=True)
class _Around:
    """Events recorded with a context, and the model call that followed it."""

    retrieved: Mapping[str, Retrieved]
    failed: Mapping[str, str]
    call: ModelCalled | None

    @classmethod
    def of(cls, history: History, record: EventRecord) -> "_Around":
        searches, failures = history.recorded_with(record)
        retrieved = {name: search for name, event in searches.items() if (search := search_of(event)) is not None}
        failed = {name: str(getattr(event.event, "error", "")) for name, event in failures.items()}
        call = None
        for later in history.after(record.position):
            # A call after another context, or in another turn, was made with another prompt.
            if is_context(later.event) or later.turn != record.turn:
                break
            # Calls of a block are those of learners, not of the reply.
            if is_call(later.event) and later.event.block is None:
                call = later.event
                break
        return cls(retrieved, failed, call)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads the parts of one prompt."""

    event: ContextBuilt
    reader: PieceReader
    around: _Around
    counter: TokenCounter

    @property
    def accounting(self) -> Accounting:
        return cast(Accounting, self.event.accounting)

    def queue(self, left_out: Sequence[int]) -> PromptPart:
        event = self.event
        kept_entries = [self._message(seq, cut=False) for seq in expand(event.queue)]
        cut = [self._message(seq, cut=True) for seq in left_out]
        sizes = event.queue_asked, event.queue_tokens
        return PromptPart(QUEUE, QUEUE, None, *sizes, (*kept_entries, *cut), observed=event.known != "built")

    def pinned(self) -> PromptPart:
        entries = tuple(self._message(seq, cut=False) for seq in expand(self.event.pinned))
        priority = 0 if self.event.known == "built" else None
        return PromptPart(PINNED, PINNED, priority, self.event.pinned_tokens, self.event.pinned_tokens, entries)

    def block(self, part: Mapping[str, Any], block: PastBlock | None) -> PromptPart:
        name = str(part["name"])
        retrieved = self.around.retrieved.get(name)
        scores = {candidate[0]: candidate[3] for candidate in retrieved.candidates} if retrieved else {}
        refs = [(ref, False) for ref in spread(part["refs"])]
        # Date lines are markup. Cut items are not among the part's refs: the event lists them once, with the cut.
        refs += [(ref, True) for cut in self.event.cuts if cut["part"] == name for ref in spread(cut["refs"])]
        return PromptPart(
            name=name,
            kind=block.kind if block else "custom",
            priority=int(part["priority"]),
            asked=int(part["asked"]),
            granted=int(part["granted"]),
            entries=tuple(self._piece(ref, cut, scores, part) for ref, cut in refs if ref.kind != "day"),
            truncation=block.settings.get("truncation", "trim") if block else "trim",
            failure=self.around.failed.get(name),
            degraded=retrieved.degraded if retrieved else None,
        )

    def _piece(self, ref: Ref, cut: bool, scores: Mapping[int, float], part: Mapping[str, Any]) -> Entry:
        item = self.reader.item(ref, part)
        unit = self.reader.pieces.unit(ref.number) if ref.kind == "unit" else None
        seqs = expand(unit.seqs) if unit else []
        return Entry(
            ref=ref,
            words=item.words if item else None,
            # An erased unit keeps its size, which is in the log.
            tokens=item_tokens(item, self.counter, self.accounting) if item else unit.tokens if unit else None,
            cut=cut,
            turn=self.reader.pieces.turn_of(seqs[0]) if seqs else None,
            score=scores.get(ref.number) if unit else None,
            messages=tuple(self.reader.messages(seqs)) if seqs else item.messages if item else (),
            attached=_attached(item) if item else (),
            origin=self._origin(ref),
            unmarked=self._unmarked(ref, part),
        )

    def _unmarked(self, ref: Ref, part: Mapping[str, Any]) -> str | None:
        changed = ref in stored_marks(part) or self.reader.note(ref, part)
        item = self.reader.item(ref, {}) if changed else None
        return None if item is None else item.words

    def _origin(self, ref: Ref) -> tuple[str, int] | None:
        # Units of other sessions are stored as content with their origin in front.
        stored = self.reader.words(ref.hash) if ref.kind == "content" else None
        return None if stored is None else origin_of(stored)

    def _message(self, seq: int, *, cut: bool) -> Entry:
        added, message = self.reader.pieces.added(seq), self.reader.message(seq)
        return Entry(
            ref=Ref.of("message", seq),
            words=None if message is None else message_text(message),
            tokens=self._size(added, message),
            cut=cut,
            turn=self.reader.pieces.turn_of(seq),
            role=added.role if added else None,
            messages=() if message is None else (message,),
            stands_for=self.reader.pieces.stands_for(seq),
            attached=() if message is None else _no_text(message),
        )

    def _size(self, added: MessageAdded | None, message: ChatMessage | None) -> int | None:
        """Return the size as counted when stored, or counted again if another tokenizer was in use for the prompt."""
        if added is not None and added.counter == self.reader.pieces.counter(self.reader.position):
            return MessageTokens(added.tokens, added.reference_tokens).by(self.accounting)
        return None if message is None else self.counter.message(message).by(self.accounting)


def _cut(cut: Mapping[str, Any], part: PromptPart) -> PromptCut:
    refs = set(spread(cut["refs"]))
    # A cut of the queue names only the first message of each turn, so all that is left out belongs to it.
    left_out = part.left_out if part.kind == QUEUE else tuple(entry for entry in part.left_out if entry.ref in refs)
    return PromptCut(
        part=part,
        rule=cut["rule"],
        tokens=int(cut["tokens"]),
        over_before=int(cut["over_before"]),
        entries=left_out,
    )


def _attached(item: Item) -> tuple[str, ...]:
    parts = tuple(part.type for part in item.parts if not isinstance(part, TextPart))
    return parts + tuple(kind for message in item.messages for kind in _no_text(message))


def _no_text(message: ChatMessage) -> tuple[str, ...]:
    return tuple(part.type for part in message.parts if part.type in ("image", "audio", "video", "document"))


# -- warnings about a prompt ----------------------------------------------------------------------


Rule = Literal["over_limit", "dropped_whole", "unreadable", "degraded", "erased", "neutralised"]

OUT_OF_PROPORTION = 2
"""Report a block dropped whole if it freed more than this many times the tokens needed."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Warning, with the block it concerns."""

    rule: Rule
    text: str
    """Plain text; it may contain block names and a block's error message."""
    block: str | None = None


def remarks(prompt: Prompt, *, named: Callable[[str], str] = str) -> tuple[Remark, ...]:
    """Warnings about a prompt, most severe first. `named` formats the name of a block."""
    return (
        *_over_limit(prompt, named),
        *(remark for cut in prompt.cuts for remark in _dropped(cut, named)),
        *_unreadable(prompt, named),
        *_words(prompt),
    )


def _over_limit(prompt: Prompt, named: Callable[[str], str]) -> Iterator[Remark]:
    built = prompt.built
    if not built.over_by:
        return
    # Only parts that are never cut leave a prompt over the limit: these, and the queue or its newest turn.
    never = [part for part in prompt.parts if part.priority == 0 and part.granted]
    names = [PART_NAMES.get(part.kind) or named(part.name) for part in never]
    blocks = [named(part.name) for part in never if part.kind not in PART_NAMES]
    needed = sum(part.granted for part in never)
    if needed > built.token_limit:
        verb = "exceeds" if len(never) == 1 else "exceed"
        alone = f"{listed(names)} (priority 0) alone {verb} the limit by {needed - built.token_limit:,}"
    elif names:
        alone = f"{listed(names)} (priority 0) and the queue alone need it, and neither is ever cut"
    else:
        alone = "The newest turn alone needs it, and it is never cut"
    sent = f"Sent {built.total:,} of {built.token_limit:,}: {built.over_by:,} over."
    yield Remark("over_limit", f"{sent} {alone}. Raise the limit or shorten {listed(blocks) or 'the messages'}.")


def _dropped(cut: PromptCut, named: Callable[[str], str]) -> Iterator[Remark]:
    # A drop of about the size that was needed is no waste.
    if cut.rule != "dropped" or cut.tokens <= OUT_OF_PROPORTION * cut.over_before:
        return
    name, kind = named(cut.part.name), BUILT_IN.get(cut.part.kind)
    # Only a setting drops a block with pieces whole; a text cannot be cut in part.
    if cut.part.truncation == "drop" and kind is not None and kind.kind_in_pieces:
        end = f"{name} is dropped whole; trim instead?"
    else:
        end = f"{name} can only be cut whole. Shorten it, or give it a priority that is cut later."
    yield Remark("dropped_whole", f"{cut.over_before:,} tokens over, {cut.tokens:,} removed: {end}", cut.part.name)


def _unreadable(prompt: Prompt, named: Callable[[str], str]) -> Iterator[Remark]:
    for part in prompt.parts:
        if part.failure is not None:
            what = f"{named(part.name)} could not be read, and the prompt went out without it: {part.failure}"
            yield Remark("unreadable", what, part.name)
    for part in prompt.parts:
        if part.degraded is not None:
            yield Remark("degraded", f"{named(part.name)}: {part.degraded}", part.name)


def _words(prompt: Prompt) -> Iterator[Remark]:
    if count := len(prompt.missing):
        texts = "1 text of this prompt was" if count == 1 else f"{count:,} texts of this prompt were"
        yield Remark("erased", f"{texts} erased since, and cannot be shown.")
    if count := prompt.built.neutralised:
        texts = "1 text" if count == 1 else f"{count:,} texts"
        yield Remark("neutralised", f"In {texts}, words that posed as memory's own markup were made harmless.")


# -- differences between two prompts --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """Something present in only one of two prompts: a message, a fact, a stored turn, or a line of text."""

    words: str | None
    """Text; None if it was erased since."""
    turn: int | None = None
    role: str | None = None
    cut: bool = False
    """True for a removed item that the later prompt requested, but that was cut."""


@dataclass(frozen=True, slots=True)
class PartDiff:
    """Part of the later prompt compared with the same part of the earlier one."""

    part: PromptPart
    """The later prompt's part; the earlier prompt's if the later has none."""
    before: int
    """Tokens granted in the earlier prompt."""
    after: int
    removed: tuple[Difference, ...]
    added: tuple[Difference, ...]
    reordered: bool
    """True if the items that both prompts have are in a different order."""

    @property
    def changed(self) -> bool:
        return bool(self.removed or self.added or self.reordered)


def diff_prompts(before: Prompt, after: Prompt) -> tuple[PartDiff, ...]:
    """Compare every part of two prompts: the later one's parts in order, then parts only in the earlier one.

    Markup that belongs to no part is the last of them where its size differs, so that all add up to the prompts.
    """
    earlier = {(part.kind, part.name): part for part in before.parts}
    pairs = [(earlier.pop((part.kind, part.name), None), part) for part in after.parts]
    gone = [_diff(part, None) for part in earlier.values()]
    around = PromptPart(MARKUP, "markup", None, after.around_asked, after.around, ())
    markup = PartDiff(around, before.around, after.around, (), (), reordered=False)
    return (*(_diff(old, new) for old, new in pairs), *gone, *([markup] if markup.before != markup.after else []))


def _diff(before: PromptPart | None, after: PromptPart | None) -> PartDiff:
    part = after or before
    assert part is not None
    old, new = before.included if before else (), after.included if after else ()
    asked = {_identity(entry) for entry in after.left_out} if after else set()
    # Such a block is one text: compared as a whole, a changed line would remove and add all of it.
    if part.kind in ("static", "custom"):
        removed, added = _lines(old, new)
        reordered = False
    else:
        had, has = {_identity(entry) for entry in old}, {_identity(entry) for entry in new}
        removed = tuple(_whole(e, cut=_identity(e) in asked) for e in old if _identity(e) not in has)
        added = tuple(_whole(e) for e in new if _identity(e) not in had)
        both = had & has
        reordered = [_identity(e) for e in old if _identity(e) in both] != [
            _identity(e) for e in new if _identity(e) in both
        ]
    return PartDiff(part, before.granted if before else 0, after.granted if after else 0, removed, added, reordered)


def _identity(entry: Entry) -> tuple[str, str | None]:
    # Both count: a fact keeps its ref when it is reworded, and two pieces may have equal words.
    return entry.ref, entry.words


def _whole(entry: Entry, *, cut: bool = False) -> Difference:
    return Difference(entry.words, entry.turn, entry.role, cut)


def _lines(old: Sequence[Entry], new: Sequence[Entry]) -> tuple[tuple[Difference, ...], tuple[Difference, ...]]:
    """Return the removed and the added lines of a text."""
    # Refs of texts are hashes, so equal refs are equal texts.
    if [entry.ref for entry in old] == [entry.ref for entry in new]:
        return (), ()
    before, after = _text(old), _text(new)
    removed: list[Difference] = []
    added: list[Difference] = []
    # By default, `SequenceMatcher` ignores lines that are frequent in a long text.
    for tag, a, b, c, d in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag != "equal":
            removed += [Difference(line) for line in before[a:b]]
            added += [Difference(line) for line in after[c:d]]
    return tuple(removed), tuple(added)


def _text(entries: Sequence[Entry]) -> list[str | None]:
    lines: list[str | None] = []
    for entry in entries:
        lines += [None] if entry.words is None else entry.words.splitlines()
    return lines


def shared_prefix_tokens(
    before: Sequence[ChatMessage], after: Sequence[ChatMessage], counter: TokenCounter, in_front: Sequence[int] = (0, 0)
) -> int:
    """Return the billed tokens of the common beginning of two message lists, which a prompt cache can reuse.

    Counts whole messages, then the first parts of the first message that differs, then the first tokens of the first
    part that differs. The overhead of a message is counted if its role is the same. `in_front` are the tokens before
    each list that memory does not write; if they differ, nothing is shared.
    """
    tokens = in_front[0]
    if tokens != in_front[1]:
        return 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            return tokens + _same_start_within(old, new, counter)
        tokens += counter.message(new).billed
    return tokens


def _same_start_within(old: ChatMessage, new: ChatMessage, counter: TokenCounter) -> int:
    if old.role is not new.role:
        return 0
    tokens = MESSAGE_OVERHEAD
    for before, after in zip(old.parts, new.parts, strict=False):
        if before != after:
            return tokens + _same_tokens(before, after, counter)
        tokens += counter.part(after)
    return tokens


def _same_tokens(old: Part, new: Part, counter: TokenCounter) -> int:
    # An image or a call is sent whole or not at all: it has no beginning to share.
    if not (isinstance(old, TextPart | ThinkingPart) and isinstance(new, TextPart | ThinkingPart)):
        return 0
    if old.type != new.type:
        return 0
    pairs = zip(counter.tokenizer(old.text), counter.tokenizer(new.text), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


MAX_REMEMBERED = 256
"""Maximum number of cached prompt comparisons; each is a few numbers."""

ReadWords = Callable[[Iterable[str]], Mapping[str, str]]
"""Function that reads words by hash from the content store; erased ones are omitted."""


class Prompts:
    """Reads a session's past prompts; caches comparisons of two, never words. Thread-safe."""

    def __init__(self) -> None:
        self._same: dict[tuple[int, int, InsertMethod | None], int] = {}
        self._lock = Lock()

    def read(self, session: Session, history: History, record: EventRecord, words: ReadWords) -> Prompt:
        """Read the prompt of a recorded context that belongs to `history`."""
        pieces = pieces_of_session(session)
        facts = _facts_of_the_user(session, history, record)
        texts = words(pieces.hashes(record, facts))
        return read_prompt(history, record, pieces, texts.get, session.counter, facts=facts)

    def altered(
        self,
        session: Session,
        history: History,
        record: EventRecord,
        words: ReadWords,
        without: Collection[str],
        edited: Mapping[str, str],
    ) -> tuple[ChatMessage, ...]:
        """Return the messages of a recorded context without some items, or with other words in them."""
        pieces = pieces_of_session(session)
        facts = _facts_of_the_user(session, history, record)
        texts = words(pieces.hashes(record, facts))
        names = tuple(block.name for block in history.blocks_at(record.position))
        reader = AlteredReader(pieces, record.position, names, texts.get, facts, without=without, edited=edited)
        return altered_messages(reader, record)

    def shared_prefix_tokens(
        self,
        session: Session,
        history: History,
        before: EventRecord,
        after: EventRecord,
        words: ReadWords,
        method: InsertMethod | None,
    ) -> int:
        """See `Memory.log.shared_prefix_tokens`. Cached: reading two prompts and counting them takes a while."""
        key = (before.position, after.position, method)
        if key not in self._same:
            old, new = (self.read(session, history, record, words) for record in (before, after))
            number = shared_prefix_tokens(
                old.layout.messages(method or old.insert_method),
                new.layout.messages(method or new.insert_method),
                session.counter,
                (old.built.reserved_tokens, new.built.reserved_tokens),
            )
            with self._lock:
                while len(self._same) >= MAX_REMEMBERED:
                    # The oldest comparison goes: a dictionary keeps the order of insertion.
                    self._same.pop(next(iter(self._same)))
                self._same[key] = number
            return number
        return self._same[key]


def _facts_of_the_user(session: Session, history: History, record: EventRecord) -> Mapping[int, FactWords]:
    """Return the facts of user-scoped blocks: any of the user's sessions may have learned or changed them."""
    event = context_of(record)
    # Facts of the session have their words in its own log; those of the user may have been changed in another.
    users = {b.name for b in history.blocks_at(record.position) if b.settings.get("scope") == "user"}
    # Cut pieces are named only by their cuts, and are shown with their words as well.
    parts = [part for part in (*event.parts, *_cut_parts(event)) if part["name"] in users]
    ids = {number for part in parts for number in numbers(part["refs"], "fact")}
    if users:  # a mark names a fact of any block
        marks = [mark for part in event.parts for mark in stored_marks(part).values()]
        ids |= {mark.now.number for mark in marks if mark.now is not None and mark.now.kind == "fact"}
    if not ids:
        return {}
    with session.database.read() as connection:
        wordings = fact_words_at(connection, ids, record.at)
    # The size at that time is in another session's log, so it is counted again if needed.
    return {id: FactWords(content, None) for id, content in wordings.items()}


def _cut_parts(event: ContextBuilt) -> Iterable[Mapping[str, object]]:
    return ({"name": cut["part"], "refs": cut["refs"]} for cut in event.cuts)


# -- edit a past prompt ---------------------------------------------------------------------------


EDITABLE = ("fact", "relation", "text", "message")
"""Kinds of items whose words can be replaced; a stored turn consists of messages and has no words of its own."""


@dataclass(slots=True)
class AlteredReader(PieceReader):
    """Reader of the pieces of one context, without the refs in `without`, and with the texts in `edited` (by ref)."""

    without: Collection[str] = ()
    edited: Mapping[str, str] = field(default_factory=dict)

    def item(self, ref: Ref, part: Mapping[str, Any]) -> Item | None:
        if ref in self.without:
            return None
        item = PieceReader.item(self, ref, part)
        words = self.edited.get(ref)
        if item is None or words is None or ref.kind not in EDITABLE:
            return item
        parts_of = {"fact": fact_parts, "relation": relation_parts}.get(ref.kind, static_parts)
        # Other words have another size, so they are counted again.
        return replace(item, words=words, parts=parts_of(words, self._safe), tokens=None)

    def messages(self, seqs: Sequence[int]) -> list[ChatMessage]:  # type: ignore[override]
        found_messages = []
        for seq in seqs:
            message, ref = self.message(seq), Ref.of("message", seq)
            if message is not None and ref not in self.without:
                words = self.edited.get(ref)
                found_messages.append(message if words is None else _reworded(message, words))
        return _answering(found_messages)


def altered_messages(reader: AlteredReader, record: EventRecord) -> tuple[ChatMessage, ...]:
    """Return the messages of a recorded context as the reader reads it, without date lines that nothing follows."""
    event = context_of(record)
    parts = [{**part, "refs": _dated(spread(part["refs"]), reader.without)} for part in event.parts]
    return lay_out(replace(event, parts=tuple(parts)), reader).messages(InsertMethod(event.insert_method))


def _dated(refs: Sequence[Ref], without: Collection[str]) -> tuple[str, ...]:
    remaining = [ref for ref in refs if ref not in without]
    # A date line stays only if a stored turn follows; a dummy date after the last ref ends the comparison.
    return tuple(ref for ref, after in pairwise([*remaining, Ref("d0")]) if ref.kind != "day" or after.kind != "day")


def _reworded(message: ChatMessage, words: str) -> ChatMessage:
    # The new words replace attachments and tool calls too; results of such calls are dropped below.
    return ChatMessage(role=message.role, content=words, additional_kwargs=message.additional_kwargs)


def _answering(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Drop tool results whose call was removed, as endpoints reject them."""
    calls = {call.tool_call_id for message in messages for call in message.tool_calls}
    return [m for m in messages if m.role is not MessageRole.TOOL or m.tool_call_id in calls]
