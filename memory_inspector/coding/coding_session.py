"""A coding agent's session from its records: branches, windows between compactions, subagents, and what is left out.

Records form a tree: one that names an earlier parent begins a fork (a rewind, an edited prompt). A *branch* is a way
from the root to an end of this tree, and a *window* the part of a branch between two compactions, from which the
prompts of its calls are taken. Pieces of one streamed answer, and results of tools, belong to their answer wherever
they stand in the file.

A program may store each request by the hashes of its messages: so many of an earlier request, and those that follow.
The items of a window are put in this order. Where a message is also a record, the record's item stands for it, as it
names who wrote it; what only a request has becomes an item of its own, and what no request has is not sent.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import takewhile
from math import inf
from pathlib import Path
from typing import cast

from memory_core.errors import FormatError
from memory_inspector.coding.codex import CodexReader, Rollouts, ThreadFile, head_of, rollouts_near
from memory_inspector.coding.prices import all_spent
from memory_inspector.coding.record_file import BadLine, RecordSource
from memory_inspector.coding.transcript import (
    MAX_CHARACTERS,
    Boundary,
    CallUsage,
    ContinuingReader,
    ItemKind,
    Record,
    RecordReader,
    Request,
    Spent,
    TranscriptItem,
    as_count,
    lane_of,
)

Piece = int | TranscriptItem
"""A place among a window's items, or an item that has none yet."""


@dataclass(slots=True)
class StoredPrompts:
    """Requests of a file, and their messages by hash; beginnings that requests share are held once."""

    requests: dict[str, Request] = field(default_factory=dict)
    messages: dict[str, tuple[TranscriptItem, ...]] = field(default_factory=dict)

    def hashes(self, request: Request) -> list[str]:
        """Return the hash of a request's frame and of its messages, in order; an empty one if its base is missing."""
        later = [request]
        # A damaged file may have requests that are based on each other.
        while (base := self.requests.get(later[-1].base)) and len(later) <= len(self.requests):
            later.append(base)
        hashes = [""] if later[-1].base else []
        for one in reversed(later):
            del hashes[one.keep :]
            hashes += one.tail
        return [request.frame, *([""] if later[-1].base else []), *hashes]


class PromptReading:
    """Reads the prompts of a window's calls, one after the other."""

    def __init__(self, stored: StoredPrompts, whole: Callable[[TranscriptItem], str]) -> None:
        self._stored, self._whole = stored, whole
        self._before: Request | None = None
        self._places: list[list[int]] = []  # of the items of each message, the frame first
        self._gap: int | None = None  # place of the first message, or frame, that is not in the file
        self._unmatched: list[int] = []  # places of items that no request has had since

    def put_in_order(
        self, request: Request, items: list[TranscriptItem], start: int, cleared: dict[int, int]
    ) -> int | None:
        """Sort the items from `start` on as a request has them; return the number sent, None if it is not whole.

        `items` before `start` were sent by earlier calls, but for those in `cleared`; what the request leaves out
        of them is added there. If a message is not in the file, all items count as sent.
        """
        before = self._before
        goes_on = before is not None and (request.base, request.frame) == (before.id, before.frame)
        if goes_on and (self._gap is None or self._gap <= request.keep):
            # It goes on from the request before: only what it drops and adds is looked at.
            hashes: Sequence[str] = request.tail
            dropped = [place for places in self._places[request.keep + 1 :] for place in places] + self._unmatched
            del self._places[request.keep + 1 :]
        else:
            hashes = self._stored.hashes(request)
            dropped, self._places, self._gap = [place for place in range(start) if place not in cleared], [], None
        messages = [self._stored.messages.get(hash) for hash in hashes]
        if self._gap is None and None in messages:
            self._gap = len(self._places) + messages.index(None)
        self._before = request
        pieces_by_message = self._pieces(
            [message or () for message in messages], items, [*dropped, *range(start, len(items))]
        )
        order: list[TranscriptItem] = []
        moved: set[int] = set()
        for pieces in pieces_by_message:
            places = []
            for piece in pieces:
                if isinstance(piece, int) and piece < start:
                    places.append(piece)
                    continue
                if isinstance(piece, int):
                    moved.add(piece)
                places.append(start + len(order))
                order.append(items[piece] if isinstance(piece, int) else piece)
            self._places.append(places)
        items[start:] = [*order, *(item for place, item in enumerate(items[start:], start) if place not in moved)]
        still = {piece for pieces in pieces_by_message for piece in pieces if isinstance(piece, int)}
        if self._gap is not None:
            rest = range(start + len(order), len(items))
            self._unmatched = [*(place for place in dropped if place not in still), *rest]
            return None
        # What it left out of the earlier items is not sent from here on.
        self._unmatched = []
        cleared.update((place, start + 1) for place in dropped if place not in still)
        return start + len(order)

    def _pieces(
        self, messages: Sequence[Sequence[TranscriptItem]], items: Sequence[TranscriptItem], places: Sequence[int]
    ) -> list[list[Piece]]:
        """Return the pieces of each message: places that have its texts, as far as there are any."""
        free: dict[tuple[str, int, str], list[int]] = {}
        for place in reversed(places):
            free.setdefault(items[place].key, []).append(place)
        same = [[some.pop() if (some := free.get(one.key)) else one for one in message] for message in messages]
        # The program joins several of its own texts to one, and may add words around them.
        unmatched = sorted(
            place for some in free.values() for place in some if items[place].kind in ("user", "injected")
        )
        return [[part for piece in pieces for part in self._parts(piece, items, unmatched)] for pieces in same]

    def _parts(self, piece: Piece, items: Sequence[TranscriptItem], unmatched: list[int]) -> list[Piece]:
        """Return the places whose texts a sent text has, and what is between them; those are `unmatched` no more."""
        if isinstance(piece, int) or piece.kind != "injected":
            return [piece]
        parts: list[int | str] = [self._whole(piece)]
        for place in list(unmatched):
            text = self._whole(items[place])
            for number, part in enumerate(parts):
                if isinstance(part, str) and text and text in part:
                    before, _, after = part.partition(text)
                    parts[number : number + 1] = before, place, after
                    unmatched.remove(place)
                    break
        if len(parts) == 1:
            return [piece]
        words = (part if isinstance(part, int) else part.strip() for part in parts)
        return [replace(piece, text=w, characters=len(w)) if isinstance(w, str) else w for w in words if w != ""]


MAX_HELD = 200_000_000
"""Characters of items that a file's lane holds; of later items only the beginning is held."""

MAX_BEGINNING = 400
"""Characters of an item's beginning."""


@dataclass(slots=True)
class SessionStep:
    """A node of the tree: a message, an answer with all its pieces and results, or a compaction."""

    id: str
    line: int
    parent: str | None
    items: list[TranscriptItem] = field(default_factory=list)
    at: float | None = None
    usage: CallUsage | None = None
    """Tokens of an answer, as the API counted them; None for other steps."""
    model: str = ""
    boundary: Boundary | None = None
    side: bool = False
    """True for a subagent in the session's own file."""
    file: int = 0
    """Place of its file among those of the lane."""
    request: str = ""
    """Id of the request that it is an answer to."""

    @property
    def has_results(self) -> bool:
        """Return whether it ends with a result of a tool, or with what the program added to one."""
        return self.usage is not None and bool(self.items) and self.items[-1].kind in ("tool_result", "injected")


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the model, with what the API counted."""

    number: int
    """From 1, in its branch."""
    step: SessionStep
    usage: CallUsage
    window: "Window"
    sent: int
    """Items of the window that were sent: those before this place."""
    exact: bool = False
    """True if the prompt was read as it was sent, with system prompt and tools; else it was put together."""

    @property
    def prompt(self) -> list[TranscriptItem]:
        """The items that were sent, without those that had been taken out."""
        return [item for place, item in enumerate(self.window.items[: self.sent]) if self.sends(place)]

    @property
    def lacks_messages(self) -> bool:
        """Return whether its file should have all that was sent, and has not."""
        return bool(self.step.request) and not self.exact

    def sends(self, place: int) -> bool:
        """Return whether the item at a place of the window was sent."""
        return place < self.sent and self.window.cleared_at(place) > self.sent


@dataclass(eq=False, slots=True)
class Window:
    """The part of a branch from one compaction to the next."""

    number: int
    """From 0."""
    boundary: SessionStep | None = None
    """The compaction that it begins with; None for the first."""
    items: list[TranscriptItem] = field(default_factory=list)
    """In the order in which they are sent."""
    calls: list[Call] = field(default_factory=list)
    cleared: dict[int, int] = field(default_factory=dict)
    """Places of items that were taken out of the prompt, such as cleared results, with the place from which on."""

    def cleared_at(self, place: int) -> float:
        """Return the place from which on the item at another is not sent any more; infinite if it always is."""
        return self.cleared.get(place, inf)

    def calls_before(self, place: int) -> int:
        """Return the number of calls before the first that was sent the item at a place."""
        return bisect_right(self.calls, place, key=lambda call: call.sent)

    def calls_with(self, place: int) -> int:
        """Return the number of calls that were sent the item at a place."""
        return bisect_left(self.calls, self.cleared_at(place), key=lambda call: call.sent) - self.calls_before(place)

    def of(self, *kinds: ItemKind) -> list[TranscriptItem]:
        """Return the items of some kinds, without those that were carried over."""
        return [item for item in self.items if item.kind in kinds and not item.carried]


@dataclass(frozen=True)
class Branch:
    """A way through the tree of a session's records."""

    number: int
    """From 1; the first is the one that was written to last."""
    steps: tuple[SessionStep, ...]
    windows: tuple[Window, ...]

    @cached_property
    def calls(self) -> list[Call]:
        return [call for window in self.windows for call in window.calls]

    @property
    def compactions(self) -> list[Window]:
        """The windows that begin with a compaction."""
        return [window for window in self.windows if window.boundary is not None]


class Lane:
    """The records of a session, or of a subagent: one file, or several that go on from each other. Follows them.

    Not thread-safe.
    """

    def __init__(self, path: Path, reader: type[RecordReader], name: str = "", *, shared: bool = False) -> None:
        self.path = path
        self.name = name
        self._part = name if shared else ""  # of a file that it shares with others
        self._reader = reader
        self.parts: tuple[ThreadFile, ...] = ()
        self.read_from((ThreadFile(path),))

    def read_from(self, parts: tuple[ThreadFile, ...]) -> None:
        """Take the files to read; if they are others than before, all is read again."""
        if parts == self.parts:
            return
        self.parts = parts
        self._restart()

    def _restart(self) -> None:
        self.files = [self._reader.source(part.path) for part in self.parts]
        self._readers: dict[int, RecordReader] = {}  # by the place of the file
        self._began: dict[int, str] = {}  # first record of a file
        self.problems: list[str] = []
        """Sentences on files that cannot be read, beside its own."""
        self.steps: dict[str, SessionStep] = {}
        self.about: dict[str, str] = {}
        self.shown = 0
        """Number of records of which something is shown."""
        self.left_out: Counter[str] = Counter()
        """Number of other records, by the reason."""
        self.bad_lines: list[BadLine] = []
        self.orphans = 0
        """Number of records whose parent is not in the file."""
        self.first_at: float | None = None
        self.last_at: float | None = None
        # Step of each record; of one that is left out, the step before it.
        self._step_of: dict[str, str | None] = {}
        self._caller: dict[str, str] = {}  # step that called a tool, by the tool's id
        self._held = 0  # characters
        self._texts: dict[str, str] = {}  # each held once, as requests repeat those of records
        self._stored = StoredPrompts()
        self._last: str | None = None
        self.spent: tuple[int, float | None, Spent] | None = None
        """Line and time of the program's latest count of what the session took, and the count."""
        self._branches: list[Branch] | None = None

    @property
    def file(self) -> RecordSource:
        """Return its own file."""
        return next(
            (file for file, part in zip(self.files, self.parts, strict=True) if part.path == self.path), self.files[-1]
        )

    @property
    def records(self) -> int:
        """Number of lines that are not empty."""
        return self.shown + self.left_out.total() + len(self.bad_lines)

    def follow(self) -> int:
        """Read what was written since the last call; return the number of new lines.

        Raises:
            FormatError: its own file is gone, or may not be read. Another costs what it held, and has a problem.
        """
        self.problems = []
        # A program that rewrites its file may have changed any line of it.
        if any(map(self._starts_again, self.files)):
            self._restart()
            for file in self.files:
                self._starts_again(file)
        count = 0
        for place, file in enumerate(self.files):
            with self._costing_itself(file):
                count += self._follow(place)
        if count:
            self._branches = None
        return count

    def _starts_again(self, file: RecordSource) -> bool:
        with self._costing_itself(file):
            return file.starts_again()
        return False

    @contextmanager
    def _costing_itself(self, file: RecordSource) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            if file is self.file:
                raise
            self.problems = [*(one for one in self.problems if one != str(error)), str(error)]

    def _reader_of(self, place: int, before: RecordReader | None = None) -> RecordReader:
        """Return the reader of a file, which begins where another file has been read to if it goes on from that."""
        if place not in self._readers:
            reader = before or self._reader()
            self._readers[place] = cast(ContinuingReader, reader).go_on(place) if place else reader
        return self._readers[place]

    def _follow(self, place: int) -> int:
        reader, inherited, count = self._reader_of(place), self.parts[place].inherited, 0
        waiting = [n for n, part in enumerate(self.parts) if part.after == place and n not in self._readers]
        if inherited and not waiting:
            return 0
        for number, line in self.files[place].new_records():
            if isinstance(line, BadLine):
                self.bad_lines.append(line)
                count += 1
                continue
            if waiting:
                ordinal = as_count(line.get("ordinal")) or number - 1
                for other in [n for n in waiting if self.parts[n].until <= ordinal]:
                    self._reader_of(other, reader)
                    waiting.remove(other)
                if inherited and not waiting:
                    break
            count += 1
            read = reader.read(line, number)
            if any(record.lane != self._part for record in read):
                self.left_out["record of a subagent" if not self._part else "record of another lane"] += 1
                continue
            if any(record.id in self._step_of for record in read):
                self.left_out["repeated record"] += 1
                continue
            if reason := next((record.left_out for record in read if record.left_out), ""):
                self.left_out[reason] += 1
            else:
                self.shown += 1
            for record in read:
                self._add(record)
                self._began.setdefault(place, record.id)
        for other in waiting:
            self._reader_of(other, reader)
        return count

    def whole(self, item: TranscriptItem) -> str:
        """Return an item's whole text, from the file if only its beginning is held."""
        if item.cut:
            for record in self._reader().read(self.files[item.file].record(item.line), item.line):
                for other in record.items:
                    if other.part == item.part:
                        return other.text
        return item.text

    @property
    def branches(self) -> list[Branch]:
        """The ways through the tree, the one written to last first; those of subagents in the same file last."""
        if self._branches is None:
            parents = {step.parent for step in self.steps.values()}
            ends = [(step, *self._last_line(step)) for step in self.steps.values() if step.id not in parents]
            ends += self._rewound(parents)
            ends.sort(key=lambda end: (end[0].side, -end[1], -end[2]))
            self._branches = [self._branch(number, self._way_to(end[0])) for number, end in enumerate(ends, 1)]
        return self._branches

    def _rewound(self, parents: set[str | None]) -> Iterator[tuple[SessionStep, int, int]]:
        """Yield the steps to which the session was taken back without a word since, each with a file and a line."""
        written = {step.file for step in self.steps.values()}
        for place, id in self._began.items():
            before = self._step_of.get(id)
            if place not in written and not self.parts[place].inherited and before in parents and before is not None:
                yield self.steps[before], place, 0

    @staticmethod
    def _last_line(step: SessionStep) -> tuple[int, int]:
        return max(((item.file, item.line) for item in step.items), default=(step.file, step.line))

    def _back_from(self, end: SessionStep) -> Iterator[SessionStep]:
        seen: set[str] = set()
        step: SessionStep | None = end
        while step is not None and step.id not in seen:  # a file may have a circle
            seen.add(step.id)
            yield step
            step = self.steps.get(step.parent) if step.parent is not None else None

    def _way_to(self, end: SessionStep) -> list[SessionStep]:
        return list(self._back_from(end))[::-1]

    def _comes_after(self, end: SessionStep, start: SessionStep) -> bool:
        # A step is made after the one before it, so nothing earlier than the start leads back to it.
        way = takewhile(lambda step: step.file != start.file or step.line >= start.line, self._back_from(end))
        return any(step is start for step in way)

    def _branch(self, number: int, way: Sequence[SessionStep]) -> Branch:
        # A step is sent with the calls after it, so a call gets the items that are there when its answer begins.
        windows = [Window(0)]
        calls = 0
        waiting: list[TranscriptItem] = []  # by a compaction whose summary has not come yet
        reading = PromptReading(self._stored, self.whole)
        for step in way:
            window = windows[-1]
            if step.usage is not None or step.boundary is not None:
                window.items += waiting
                waiting = []
            if step.boundary is not None and step.boundary.clears:
                for place, item in enumerate(window.items):
                    if item.kind in ("tool_result", "injected") and item.tool_id in step.boundary.clears:
                        window.cleared.setdefault(place, len(window.items))
            elif step.boundary is not None:
                # What the compaction itself repeats, beside its summary, stays as well.
                repeated = [item for item in step.items if item.kind != "summary"]
                always = [item for p, item in enumerate(window.items) if item.in_each_call and p not in window.cleared]
                waiting = [replace(item, carried=True) for item in (*self._carried(way, step), *repeated)]
                window = Window(len(windows), step, [replace(item, carried=True) for item in always])
                windows.append(window)
                summary = [item for item in step.items if item.kind == "summary"]
                if summary or repeated or step.boundary.kept_first:
                    window.items += waiting + summary
                    waiting = []
                reading = PromptReading(self._stored, self.whole)
                continue
            if step.usage is not None:
                calls += 1
                start = window.calls[-1].sent if window.calls else 0
                request = self._stored.requests.get(step.request)
                sent = request and reading.put_in_order(request, window.items, start, window.cleared)
                window.calls.append(Call(calls, step, step.usage, window, sent or len(window.items), sent is not None))
            window.items += step.items
            if any(item.kind == "summary" for item in step.items):
                window.items += waiting
                waiting = []
        windows[-1].items += waiting
        return Branch(number, tuple(way), tuple(windows))

    def _carried(self, way: Sequence[SessionStep], compaction: SessionStep) -> Iterator[TranscriptItem]:
        """Yield the items that a compaction leaves in the prompt as they are."""
        boundary = compaction.boundary or Boundary()
        ids = [step.id for step in way]
        # What stays may stand on another branch, or be written again after the boundary.
        stays = [id for id in dict.fromkeys(map(self._step_of.get, boundary.keeps)) if id is not None]
        if boundary.carries is not None and not stays:
            first, last = (self._step_of.get(id) for id in boundary.carries)
            if first in ids and last in ids:
                stays = ids[ids.index(first) : ids.index(last) + 1]
        again = set(ids[ids.index(compaction.id) :])
        for id in stays:
            if id in self.steps and id not in again:
                yield from self.steps[id].items

    def _add(self, record: Record) -> None:
        self.about.update(record.about)
        if record.request is not None:
            self._stored.requests[record.request.id] = record.request
        if record.spent is not None:
            self.spent = record.line, self.last_at, record.spent
        hash = record.hash() if record.hash is not None else ""
        if record.aside:
            if hash:
                self._stored.messages.setdefault(hash, tuple(map(self._held_item, record.items)))
            return
        if record.at is not None:
            self.first_at = record.at if self.first_at is None else self.first_at
            self.last_at = record.at
        before = self._before(record)
        if not (record.items or record.usage or record.boundary or record.goes_back):
            if record.id:
                self._step_of[record.id] = before
            return
        id = record.answer or record.id or f"line {record.line}"
        # Tools that run at the same time have results whose parents are not on the way to the next answer. What the
        # program adds to one of them is on no way at all.
        kinds = {item.kind for item in record.items}
        if kinds == {"tool_result"}:
            id = self._caller.get(record.items[0].tool_id, id)
        elif kinds == {"injected"} and before is not None and self.steps[before].has_results:
            id = before
        step = self.steps.get(id)
        if step is None:
            parent = before if before != id else None
            step = SessionStep(id, record.line, parent, at=record.at, side=record.side, file=record.file)
            self.steps[id] = step
        items = tuple(map(self._held_item, record.items))
        step.items += items
        for item in items:
            if item.kind == "tool_call" and item.tool_id:
                self._caller[item.tool_id] = id
        if hash:
            pieces = (item for item in step.items if item.kind not in ("tool_result", "injected"))
            self._stored.messages.setdefault(hash, tuple(pieces) if record.answer else items)
        step.request = record.answers or step.request
        if record.usage is not None:
            step.usage = record.usage if step.usage is None else step.usage.latest(record.usage)
            step.model = record.model or step.model
        step.boundary = record.boundary or step.boundary
        if record.id:
            self._step_of[record.id] = id
        self._last = id

    def _held_item(self, item: TranscriptItem) -> TranscriptItem:
        held = item.held(MAX_CHARACTERS if self._held < MAX_HELD else MAX_BEGINNING)
        if (text := self._texts.setdefault(held.text, held.text)) is held.text:
            self._held += len(text)
            return replace(held, lane=self.name) if self.name else held
        return replace(held, text=text, lane=self.name)

    def _before(self, record: Record) -> str | None:
        """Return the step before a record, None for a root."""
        if (boundary := record.boundary) is not None and not boundary.clears:
            # Its file may begin after the record that it continues.
            before = self._step_of.get(boundary.continues, self._last)
            # Where a part of the conversation was chosen, its end is that of what stays, or of what is summarised.
            ends = [*map(self._step_of.get, boundary.keeps[-1:]), *([self._last] if boundary.replaces_end else ())]
            steps = [self.steps[id] for id in ends if id in self.steps and id != before]
            start = self.steps.get(before) if before is not None else None
            return next((end.id for end in steps if start is not None and self._comes_after(end, start)), before)
        if record.parent is None or record.parent in self._step_of:
            return self._step_of[record.parent] if record.parent is not None else None
        self.orphans += 1
        return self._last


class CodingSession:
    """A session with its subagents, each in a lane of its own. Follows all of its files. Not thread-safe."""

    def __init__(self, path: Path, reader: type[RecordReader]) -> None:
        self.path = path
        self.program = reader.program
        self.unseen = reader.unseen
        self.main = Lane(path, reader)
        self.lanes: dict[str, Lane] = {}
        """The subagents, by id, in the order in which they began."""
        self.problems: dict[str, str] = {}
        """Files of subagents that cannot be read: the sentence, by id."""
        self.missing: list[str] = []
        """Ids of the sessions that it goes on from, and that are not on this machine."""
        self._reader = reader

    def follow(self) -> int:
        """Read what was written since the last call; return the number of new lines.

        Raises:
            FormatError: the session's own file is gone, or may not be read. A subagent's file costs that one alone.
        """
        rollouts = rollouts_near(self.path) if self.program == CodexReader.program else None
        if rollouts is not None:
            parts, self.missing = rollouts.parts(head_of(self.path))
            self.main.read_from(parts)
        count = self.main.follow()
        for name, parts in self._subagents(rollouts).items():
            shared = parts[-1].path == self.path
            lane = self.lanes.get(name) or Lane(parts[-1].path, self._reader, name, shared=shared)
            try:
                lane.read_from(parts)
                count += lane.follow()
            except FormatError as error:
                self.problems[name] = str(error)
                continue
            self.problems.pop(name, None)
            self.lanes[name] = lane
        self.lanes = dict(sorted(self.lanes.items(), key=lambda named: named[1].first_at or 0))
        return count

    @property
    def last_at(self) -> float:
        """Time of the last record, in seconds since 1970; 0 if none has one."""
        return max(lane.last_at or 0 for lane in (self.main, *self.lanes.values()))

    def _subagents(self, rollouts: Rollouts | None) -> dict[str, tuple[ThreadFile, ...]]:
        """Return the files of each subagent, by its id."""
        if rollouts is not None:
            # A subagent names its parent; in some versions only the parent names it.
            parent = head_of(self.path)
            named = [head for name in self._named_lanes() if (head := rollouts.by_id.get(name)) and not head.parent]
            heads = [head for head in [*rollouts.subagents(parent), *named] if head.thread != parent.thread]
            return {Path(head.thread).name: rollouts.parts(head)[0] for head in heads}
        # The main file names them, as that folder has the subagents of all sessions.
        paths = self._reader.subagents(self.path, self._named_lanes())
        return {name: (ThreadFile(path),) for name, path in paths.items()}

    def _named_lanes(self) -> list[str]:
        return [lane for key in self.main.about if (lane := lane_of(key))]

    @property
    def gaps(self) -> list[str]:
        """Sentences on what it goes on from and this machine has not, or cannot read."""
        gone = [f"What it began with is in session {id[:60]}, which is not on this machine." for id in self.missing]
        return [*gone, *self.main.problems]

    @property
    def all_lanes(self) -> list[Lane]:
        return [self.main, *self.lanes.values()]

    def started_by(self, lane: Lane) -> TranscriptItem | None:
        """Return the call of a tool that started a subagent, if the session has it."""
        return next(self._of_subagent(lane, "tool_call"), None)

    def given_back(self, lane: Lane) -> TranscriptItem | None:
        """Return the result that a subagent gave to the session, if it has come."""
        # In Codex the call's own result names the subagent only; what it gives back comes as a message.
        kind: ItemKind = "injected" if self.program == CodexReader.program else "tool_result"
        return next(self._of_subagent(lane, kind), None)

    def _of_subagent(self, lane: Lane, kind: ItemKind) -> Iterator[TranscriptItem]:
        """Yield the items of a kind that belong to the call that started a subagent, which another may have made."""
        for other in self.all_lanes:
            if tool_id := other.about.get(f"lane {lane.name}"):
                yield from (item for item in self.items(other, kind) if item.tool_id == tool_id)

    @staticmethod
    def items(lane: Lane, *kinds: ItemKind) -> Iterator[TranscriptItem]:
        """Yield a lane's items of some kinds, in all branches."""
        return (item for step in lane.steps.values() for item in step.items if item.kind in kinds)

    def usage(self) -> Mapping[str, CallUsage]:
        """Return what all calls took, subagents included, by model; what a fork inherited counts in its origin."""
        return self.usage_and_cost()[0]

    def usage_and_cost(self) -> tuple[Mapping[str, CallUsage], float | None]:
        """Return what all calls took, by model, and its cost in US dollars; None if a model's price is not known."""
        line, at, spent = self.main.spent or (0, None, None)
        before: dict[str, CallUsage] = {}
        after: dict[str, CallUsage] = {}
        for lane in self.all_lanes:
            for step in lane.steps.values():
                if step.usage is not None and not lane.parts[step.file].inherited:
                    is_later = step.line > line if lane is self.main else (step.at or 0) > (at or 0)
                    totals = after if is_later else before
                    totals[step.model] = totals.get(step.model, CallUsage()) + step.usage
        return all_spent(spent, before, after)
