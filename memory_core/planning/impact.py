"""Impact of forgetting something: the items that say it, and those learned only from such messages. Pure."""

import json
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from memory_core.planning.phrase_matching import MIN_PART, Grade, Phrase, spaced
from memory_core.planning.running_summary import sentences

Kind = Literal[
    "message", "fact", "relation", "entity", "summary", "text", "fields", "recording", "probe", "watched", "title",
    "session",
]  # fmt: skip
Why = Literal["chosen", "says it", "said it before", "states it", "learned from it alone", "in another session"]
Match = Grade | Literal["part"]
"""Ways in which an item says a phrase: a grade, or as part of longer words, where a search of files finds it, too."""

ERASED = "(erased)"
"""Replacement for a sentence in the log that may have quoted erased text."""

TELLING = 20
"""Minimum characters of a text that identifies a message; shorter texts such as "Yes, please." occur in many."""

LONGEST_SEARCHED = 1_000
"""Maximum characters of a line of text that is searched for in files; longer lines are shortened."""


@dataclass(frozen=True, slots=True)
class Affected:
    """An item that would be erased, or would lose the sentences that say the phrase."""

    kind: Kind
    id: int | str
    """Number of a message, id of a fact, relation or entity, name of a block, id of another session."""
    words: str
    why: Why
    turn: int | None = None
    session: str = ""
    """Id of another session of the user that has the item; empty for the session in question."""
    match: Match | None = None
    """Way in which the item's own words say the phrase; None if they do not."""

    @property
    def stays(self) -> bool:
        """True for another session, which is only listed: the target has to be forgotten in that session, too."""
        return self.kind == "session"


@dataclass(frozen=True, slots=True)
class Target:
    """Something to forget, or to keep out of prompts: a phrase, a message, a fact or an entity."""

    phrases: tuple[str, ...]
    """Texts to look for: a phrase, the text of a message, the wordings of a fact, the names of an entity.
    Empty for a message that is too short to be unique."""
    seqs: tuple[int, ...] = ()
    """Numbers of the messages that are included whatever they say."""
    facts: tuple[int, ...] = ()
    """Ids of the chosen facts. Other items learned from their messages are included only if they say the same."""
    whole_words: bool = False
    """True for names and messages, which have to be there word for word: "Ana" is not said in "banana"."""

    def said_in(self, text: str) -> bool:
        """Return whether a text says one of the phrases."""
        return self.match_in(text) is not None

    def match_in(self, text: str) -> Match | None:
        """Return how a text says one of the phrases, the closest of several; None if it says none.

        >>> [Target(("nut allergy",)).match_in(text) for text in ("Nut-allergy!", "an allergy to nuts", "nut allergyX")]
        ['verbatim', 'reworded', 'part']
        """
        wanted = [Phrase.of(phrase) for phrase in self.phrases]
        if any(phrase.verbatim_in(text) for phrase in wanted):
            return "verbatim"
        if self.whole_words:
            return None
        if any(phrase.reworded_in(text) for phrase in wanted):
            return "reworded"
        within = (part for phrase in self.phrases for part in spaced(phrase) if len(part) >= MIN_PART)
        return "part" if any(part in read for part in within for read in spaced(text)) else None

    @property
    def searched(self) -> list[str]:
        """Texts to search for in files: lines of at least `TELLING` characters; if none, the one-line phrases."""
        lines = [line.strip() for phrase in self.phrases for line in phrase.split("\n")]
        telling = [line[:LONGEST_SEARCHED] for line in lines if len(line) >= TELLING]
        return telling or [phrase for phrase in self.phrases if "\n" not in phrase]

    def removed_from(self, text: str) -> str:
        """Return a text without the sentences that say a phrase, or of a longer phrase one of its sentences.

        Empty if a phrase is still said, because its words span two sentences.
        """
        remaining = without_sentences(text, self.said_in)
        if self.said_in(remaining):
            single = replace(self, phrases=tuple(part for phrase in self.phrases for part in sentences(phrase)))
            remaining = without_sentences(remaining, single.said_in)
        return "" if self.said_in(remaining) else remaining


@dataclass(frozen=True, slots=True)
class Impact:
    """Everything that forgetting a target would erase."""

    target: Target
    rows: tuple[Affected, ...]
    stored_units: int = 0
    """Number of stored turns of vector blocks that are erased with their messages."""
    prompts: int = 0
    """Number of recorded prompts that will show erased words. Both numbers are those of `others`, too."""
    others: tuple["Impact", ...] = ()
    """Impacts in the user's other sessions."""
    session: str = ""
    title: str = ""
    """Id and title of the session, if it is one of `others`."""
    spared: tuple[str, ...] = ()
    """Custom blocks that were left out; `queue` if the recording was."""
    program: str = ""
    """Sentence on the other program whose memory the session shows, which is not changed; empty for other sessions."""

    def without(self, kept: Collection[Affected]) -> "Impact":
        """Return the impact without these rows, which are not to be erased."""
        others = tuple(other.without(kept) for other in self.others)
        return replace(self, rows=tuple(row for row in self.rows if row not in kept), others=others)

    def sparing(self, kept: Collection[Affected]) -> "Impact":
        """Return the impact without these rows, with the parts of prompts in `spared` that they are about."""
        left_out = [row for row in self.rows if row in kept and row.kind in ("fields", "recording")]
        spared = tuple("queue" if row.kind == "recording" else str(row.id) for row in left_out)
        return replace(self.without(kept), spared=spared)

    def ids(self, kind: Kind) -> list[int]:
        """Return the numeric ids of the rows of one kind."""
        return [row.id for row in self.rows if row.kind == kind and isinstance(row.id, int)]

    def names(self, kind: Kind) -> list[str]:
        """Return the ids of the rows of one kind that are texts, such as block names."""
        return [row.id for row in self.rows if row.kind == kind and isinstance(row.id, str)]

    @property
    def erased(self) -> tuple[Affected, ...]:
        """Rows that are erased, those of other sessions last."""
        return tuple(row for one in (self, *self.others) for row in one.rows if not row.stays)

    def __str__(self) -> str:
        lines = [
            f"{row.kind:<10} {row.id:>6}  {row.why:<22} {row.match or '':<8} {row.words}"
            + (f" (in {one.title})" if one.title else "")
            for one in (self, *self.others)
            for row in one.rows
        ]
        beside = f"{self.stored_units:,} stored units, {self.prompts:,} recorded prompts"
        return "\n".join([f"{len(self.erased):,} things, {beside}", *lines, *filter(None, [self.program])])


_NO_TEXT = frozenset({"role", "type", "id", "tool_call_id"})
"""Keys whose values are names of the program, not text."""
_FIELDS = frozenset({"text", "url", "detail", "title", "tool_name", "tool_kwargs"})
"""Fields of a message's parts."""


def texts_in(data: str) -> Iterator[str]:
    """Yield the texts of a stored text: itself, or the texts, numbers and inner keys of a JSON object or list.

    The outer keys of an object are field names of the program, so they are no texts, nor are roles, types and ids.

    >>> list(texts_in('{"role": "user", "parts": [{"type": "text", "text": "I live in Ghent"}]}'))
    ['I live in Ghent']
    """
    values = json_in(data)
    return iter((data,)) if values is None else _texts(values, outer=True)


def json_in(data: str) -> Any:
    """Return the object or list that a text holds as JSON; None for any other text."""
    # Only objects and lists: a text that is a number or in quotes is valid JSON too, but nobody meant it as such.
    if data[:1] not in ("{", "["):
        return None
    try:
        return json.loads(data)
    except ValueError:
        return None


def _texts(value: object, *, outer: bool = False) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key not in _NO_TEXT:
                # Keys in a caller's own JSON may be words about a person; the program's names for fields never are.
                yield from () if outer or key in _FIELDS else (key,)
                yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            # A recording lists messages, each as JSON.
            yield from texts_in(item) if outer and isinstance(item, str) else _texts(item)
    elif isinstance(value, str):
        yield value
    # A phrase may be a number; `bool` is a kind of `int` in Python.
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def without_sentences(text: str, goes: Callable[[str], bool]) -> str:
    """Return a text without the sentences for which `goes` is true; lines that lose none stay as they are.

    >>> without_sentences("Be brief. Ana lives in Ghent.\\nNo emoji.", lambda sentence: "Ghent" in sentence)
    'Be brief.\\nNo emoji.'
    """
    lines = []
    for line in text.split("\n"):
        staying = [sentence for sentence in sentences(line) if not goes(sentence)]
        # A line that loses nothing keeps its indentation and spaces, which joining its sentences would change.
        if len(staying) == len(sentences(line)):
            lines.append(line)
        elif staying:
            lines.append(" ".join(staying))
    return "\n".join(lines)
