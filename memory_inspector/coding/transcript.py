"""Values of a coding agent's session: the records of its file, their items, and what they say of calls. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from operator import add
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

from memory_core.text import shortened
from memory_core.tracing.replacements import mask_keys
from memory_inspector.coding.record_file import SourceOpener

ItemKind = Literal["user", "assistant", "thinking", "tool_call", "tool_result", "summary", "injected"]
"""`injected`: text that the program put before the model and nobody said, such as a hook's output or a memory file;
`summary`: what a compaction left of the conversation before it."""

ENCRYPTED = "(encrypted: it cannot be read)"
"""Text of items that only the provider of the model can read."""

MAX_CHARACTERS = 20_000
"""Characters of an item's text that are held; the whole is read from the file when it is needed."""

MAX_AMOUNT = 10**15
"""Numbers from here on are no amounts: a whole number of a file may be larger than any float."""

MAX_SECONDS = 253_402_300_800
"""Seconds from 1970 to the year 10,000, which no date has."""

MEMORY_ATTACHMENTS = frozenset({"nested_memory", "instructions"})
"""Attachments by which Claude Code reports the memory files that it loads."""

QUOTED = 300
"""Characters of a text that is quoted."""


@dataclass(frozen=True, slots=True)
class TranscriptItem:
    """A text that the model reads or writes, or that a tool gives it."""

    kind: ItemKind
    text: str
    """Once it is held in a session, at most `MAX_CHARACTERS` characters of it."""
    characters: int
    """Characters of the whole text."""
    tool: str = ""
    """Name of the tool, of calls and results."""
    tool_id: str = ""
    """Id that a call and its result share."""
    path: str = ""
    """File that a tool was asked to read or write, or that an injected text comes from."""
    images: int = 0
    line: int = 0
    """Line of the record in its file, from 1."""
    file: int = 0
    """Place of that file among those that its lane is read from."""
    part: int = 0
    """Place in the record, from 0."""
    at: float | None = None
    """Seconds since 1970."""
    lane: str = ""
    """Id of the subagent; empty for the session itself."""
    in_each_call: bool = False
    """True if the program sends it with every call, also after a compaction; with a `tool`, the tool's definition."""
    carried: bool = False
    """True if it stayed in the prompt at the compaction that its window begins with."""

    @property
    def key(self) -> tuple[str, int, str]:
        """Tool's id, length and text: the same for items with the same words."""
        return self.tool_id, self.characters, self.text

    @property
    def instructs(self) -> bool:
        """Return whether it may tell the agent how to work: the user's words, and a memory file that was loaded."""
        loaded = self.tool in MEMORY_ATTACHMENTS or self.text.startswith("# AGENTS.md instructions")
        return self.kind == "user" or (self.kind == "injected" and loaded)

    @property
    def cut(self) -> bool:
        """Return whether the file has more text than is held."""
        return self.characters > len(self.text)

    def held(self, most: int) -> "TranscriptItem":
        """Return the item with at most so many characters of its text."""
        return self if len(self.text) <= most else replace(self, text=self.text[:most])


@dataclass(frozen=True, slots=True)
class CallUsage:
    """Tokens of one call as the model's API reported them."""

    input: int = 0
    """Tokens of the prompt that were neither read from a cache nor written to it."""
    cache_read: int = 0
    cache_write: int = 0
    output: int = 0
    cache_write_hour: int = 0
    """Tokens of `cache_write` that are kept for an hour and not for five minutes."""
    dollars: float = 0.0
    """US dollars that the program wrote down for it; 0 if it did not."""

    @property
    def prompt(self) -> int:
        return self.input + self.cache_read + self.cache_write

    @property
    def tokens(self) -> int:
        return self.prompt + self.output

    @property
    def numbers(self) -> tuple[int, ...]:
        """The tokens in the order of their fields."""
        return self.input, self.cache_read, self.cache_write, self.output, self.cache_write_hour

    def latest(self, other: "CallUsage") -> "CallUsage":
        """Return the larger of each number: pieces of a streamed answer repeat them, and output grows."""
        return replace(CallUsage(*map(max, self.numbers, other.numbers)), dollars=max(self.dollars, other.dollars))

    def __add__(self, other: "CallUsage") -> "CallUsage":
        return replace(CallUsage(*map(add, self.numbers, other.numbers)), dollars=self.dollars + other.dollars)

    def beyond(self, other: "CallUsage") -> "CallUsage":
        """Return what each number has more than another's."""
        return CallUsage(*(max(0, mine - theirs) for mine, theirs in zip(self.numbers, other.numbers, strict=True)))


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens and cost of a session so far, as its program counted: also of calls without a record (compactions)."""

    usage: Mapping[str, CallUsage]
    """Tokens by model."""
    dollars: float | None
    """US dollars; None if the program did not know a model's price."""

    def since(self, earlier: "Spent | None") -> "Spent | None":
        """Return what was added to an earlier count; None if there is none."""
        if earlier is None:
            return None
        usage = {model: used.beyond(earlier.usage.get(model, CallUsage())) for model, used in self.usage.items()}
        if self.dollars is None or earlier.dollars is None:
            return Spent(usage, None)
        return Spent(usage, max(0.0, self.dollars - earlier.dollars))


@dataclass(frozen=True, slots=True)
class Request:
    """Prompt of a call as its file has it: the beginning of an earlier one, and what follows, each by its hash."""

    id: str
    frame: str
    """Hash of the system prompt and tools."""
    base: str
    """Id of the earlier request; empty if there is none."""
    keep: int
    """Messages of the earlier request that it begins with."""
    tail: tuple[str, ...]
    """Hashes of the messages after them."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """A compaction: the prompt before it is replaced by a summary, and by items that are carried over."""

    trigger: str = ""
    """The cause, as the program names it: `auto` or `manual`; empty if it does not say."""
    tokens_before: int | None = None
    continues: str = ""
    """Id of the record before it, where the file says so."""
    carries: tuple[str, str] | None = None
    """Ids of the first and last record that stay in the prompt beside the summary."""
    keeps: tuple[str, ...] = ()
    """Ids of all records that stay, where they are known one by one."""
    kept_first: bool = False
    """True if what stays is sent before the summary, and not after it."""
    replaces_end: bool = False
    """True if it may replace the end of the conversation alone, and `continues` what came before that end."""
    clears: frozenset[str] = frozenset()
    """Ids of tools whose results are taken out of the prompt, or of the program's own messages, while all else stays;
    then there is no summary."""


@dataclass(frozen=True, slots=True)
class Record:
    """A line of a session's file."""

    line: int
    kind: str
    """Its type as the program names it, such as `progress hook_progress`."""
    id: str = ""
    parent: str | None = None
    at: float | None = None
    items: tuple[TranscriptItem, ...] = ()
    answer: str = ""
    """Id of the answer that this is a piece of."""
    model: str = ""
    usage: CallUsage | None = None
    boundary: Boundary | None = None
    goes_back: bool = False
    """True if the session was taken back to its parent, also if nothing was said since."""
    side: bool = False
    """True in a subagent's part of the session's own file, as earlier versions wrote it."""
    lane: str = ""
    """Id of the subagent that a record of the session's own file belongs to."""
    left_out: str = ""
    """Reason why nothing of it is shown; empty if something is."""
    hash: Callable[[], str] | None = None
    """Works out the hash by which requests send it, or the answer of which it is a piece, up to here."""
    aside: bool = False
    """True if it has a place in no branch: its items are sent by the requests that have its hash."""
    request: Request | None = None
    answers: str = ""
    """Id of the request that it is an answer to."""
    spent: Spent | None = None
    file: int = 0
    """Place of its file among those that its lane is read from."""
    about: Mapping[str, str] = field(default_factory=dict)
    """Facts about its session: `folder`, `version`, `branch`, `title`, `limit` (tokens), `deleted` (what the file
    lost), and `lane NAME`, the id of the tool call that started a subagent."""


class RecordReader(Protocol):
    """Reads a program's records; one instance a file, as what a record says may depend on those before it."""

    program: str
    """Name of the program, as people know it."""
    unseen: ClassVar[str]
    """Texts that its prompts have and its files have not, such as `the system prompt`; empty if there are none."""
    source: ClassVar[SourceOpener]
    """Opens a session's file."""

    @staticmethod
    def knows(record: Mapping[str, Any]) -> bool:
        """Return whether a record has the program's form, which no other program's has."""
        ...

    @staticmethod
    def sessions(path: Path) -> Iterable[tuple[Path, int, float]]:
        """Yield the path, the size and the time of the last write of each session that a file holds.

        Raises:
            OSError, FormatError: the file cannot be read.
        """
        ...

    @staticmethod
    def subagents(session: Path, named: Sequence[str]) -> Mapping[str, Path]:
        """Return the files of a session's subagents by id; `named` are the ids that its records name.

        The file of one that writes into the session's own file is the session's.
        """
        ...

    @staticmethod
    def is_for_list(line: bytes) -> bool:
        """Return whether a line may have a title, a prompt, tokens or a compaction: what a list of sessions shows."""
        ...

    def read(self, record: Mapping[str, Any], line: int) -> Sequence[Record]:
        """Return the values of one parsed line; never raises, whatever its fields hold."""
        ...


class ContinuingReader(RecordReader, Protocol):
    """Reads the records of a program that goes on in other files."""

    def go_on(self, file: int) -> RecordReader:
        """Return a reader of the file at a place, which goes on from what was read so far."""
        ...


def reasons_by_name(names: Mapping[str, str]) -> dict[str, str]:
    """Return the reason for each name, given the names for each reason, separated by spaces."""
    return {name: reason for reason, several in names.items() for name in several.split()}


def item(kind: ItemKind, text: str, **more: Any) -> TranscriptItem:
    """Return an item with its whole text."""
    return TranscriptItem(kind, text, len(text), **more)


def lane_of(key: str) -> str:
    """Return the subagent that a fact about a session is on; empty for any other fact."""
    return key.removeprefix("lane ") if re.fullmatch(r"lane [\w-]{1,80}", key) else ""


def quotable(text: str, most: int = QUOTED) -> str:
    """Return a text on one line, with at most so many characters, without keys and passwords."""
    # Masked before it is cut, as the half of a key is not recognised as one; a text may be a whole file, whose
    # beginning ends in a half: its last word goes.
    words = mask_keys(beginning := text[: 20 * most]).split()
    return shortened(" ".join(words if len(beginning) == len(text) else words[:-1] or words[:1]), most)


def as_text(value: Any) -> str:
    """Return a field if it is a text, else an empty one."""
    return value if isinstance(value, str) else ""


def as_count(value: Any) -> int:
    """Return a field if it is a number of tokens below 10^15, else 0."""
    # JSON has no booleans that count, but Python takes `true` for 1.
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MAX_AMOUNT else 0


def as_amount(value: Any) -> float:
    """Return a field if it is a number above 0 and below 10^15, else 0."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and 0 < value < MAX_AMOUNT else 0.0


def as_usage(fields: Any, names: str, *, whole: bool, dollars: Any = 0) -> CallUsage | None:
    """Return the tokens of a call from its fields; None without a prompt.

    `names` are those of prompt, cache read, cache write and output, some as a sum, `output+thoughts`; a `whole` prompt
    has its cached tokens within.
    """
    prompt, cached, stored, output = (
        sum(as_count(as_mapping(fields).get(name)) for name in several.split("+")) for several in names.split()
    )
    if whole:
        cached = min(cached, prompt)
        stored = min(stored, prompt - cached)
        prompt -= cached + stored
    usage = CallUsage(prompt, cached, stored, output, dollars=as_amount(dollars))
    return usage if usage.prompt else None


def as_mapping(value: Any) -> Mapping[str, Any]:
    """Return a field if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_time(value: Any) -> float | None:
    """Return a time in ISO 8601 as seconds since 1970; None if it is none."""
    try:
        return datetime.fromisoformat(value).timestamp()
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def as_milliseconds(value: Any) -> float | None:
    """Return a time in milliseconds since 1970 as seconds; None if it is none, or after the year 9999."""
    seconds = as_amount(value) / 1000
    return seconds if 0 < seconds < MAX_SECONDS else None


def objects(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield the objects of a field that is a list, each with its place in it."""
    return ((place, one) for place, one in enumerate(value if isinstance(value, list) else ()) if isinstance(one, dict))
