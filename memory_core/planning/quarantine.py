"""Quarantine: items that a person keeps out of all prompts until they are released. Pure.

Nothing is changed or erased: readers of memory leave these items out, so that a release gives back exactly what was
there.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_core.events import Event, EventRecord, QuarantineChanged, expand
from memory_core.messages import PARTS_MARK, content_hash
from memory_core.planning.impact import ERASED, Target, json_in, texts_in, without_sentences
from memory_core.planning.running_summary import sentences

PROMPT_KINDS = ("message", "fact", "relation", "summary", "text", "fields", "recording")
"""Kinds of rows of an impact that a prompt may hold."""

Source = tuple[str, int]
"""Session and sequence number of a message."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Items that no prompt may hold."""

    messages: frozenset[Source] = frozenset()
    facts: frozenset[int] = frozenset()
    relations: frozenset[int] = frozenset()
    sentences: frozenset[str] = frozenset()
    """Hashes of sentences of static texts and summaries."""
    sets: tuple["QuarantinedSet", ...] = ()
    """Sets of these items, oldest first."""

    def __bool__(self) -> bool:
        return bool(self.sets)

    def seqs(self, session_id: str) -> frozenset[int]:
        """Return the messages of a session, by sequence number."""
        return frozenset(seq for session, seq in self.messages if session == session_id)

    def sets_without(self, part: str, session_id: str) -> tuple["QuarantinedSet", ...]:
        """Return the sets of a session whose words a part of its prompts must not say: a custom block, or the queue."""
        return tuple(one for one in self.sets if one.session_id == session_id and part not in one.spared)

    def shown(self, text: str) -> str:
        """Return a text without its sentences in quarantine; content stored as parts loses them in each text part."""
        if not self.sentences:
            return text
        parts = json_in(text.removeprefix(PARTS_MARK)) if text.startswith(PARTS_MARK) else None
        if parts is None:
            return without_sentences(text, self._holds)
        rest = [part | {"text": self.shown(part["text"])} if part["type"] == "text" else part for part in parts]
        stored = json.dumps([part for part in rest if part.get("text") != ""], ensure_ascii=False)
        return PARTS_MARK + stored if stored != "[]" else ""

    def held_back(self, text: str) -> list[str]:
        """Return the sentences of a text that are in quarantine, in order."""
        return [sentence for sentence in sentences(text) if self._holds(sentence)]

    def _holds(self, sentence: str) -> bool:
        return content_hash(sentence) in self.sentences


NOTHING_IN_QUARANTINE = Quarantine()


@dataclass(frozen=True, slots=True)
class QuarantinedSet:
    """Items that were put into quarantine in one action, and are released in one."""

    session_id: str
    number: int
    """Number of the set among those of its session, from 1."""
    turn: int
    at: float
    """Time, in seconds since 1970."""
    seqs: tuple[int, ...] = ()
    facts: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()
    sentences: tuple[str, ...] = ()
    """Hashes of sentences."""
    phrases: tuple[str, ...] = ()
    """Phrase or names that were chosen; empty for a message or a fact, and after the phrase was forgotten."""
    whole_words: bool = False
    spared: tuple[str, ...] = ()
    """Parts of a prompt, custom blocks or the queue, that may say the set's words nevertheless."""

    @property
    def key(self) -> tuple[str, int]:
        return self.session_id, self.number


def sets_in_force(records: Iterable[EventRecord]) -> list[QuarantinedSet]:
    """Return the sets that were not released, oldest first; `records` are in the order of the log."""
    sets: dict[tuple[str, int], QuarantinedSet] = {}
    for record in records:
        event = record.event
        if not isinstance(event, QuarantineChanged):
            continue
        key = record.session_id, event.number
        if event.released:
            sets.pop(key, None)
        elif not event.joined:
            items = tuple(expand(event.messages)), event.facts, event.relations, event.sentences
            phrases = () if event.phrase == ERASED else tuple(filter(None, event.phrase.split("\n")))
            words = phrases, event.whole_words, event.spared
            sets[key] = QuarantinedSet(record.session_id, event.number, record.turn, record.at, *items, *words)
        elif (one := sets.get(key)) is not None:
            sets[key] = replace(
                one,
                seqs=(*one.seqs, *expand(event.messages)),
                facts=one.facts + event.facts,
                relations=one.relations + event.relations,
                sentences=one.sentences + event.sentences,
            )
    return list(sets.values())


def changes_quarantine(event: Event) -> bool:
    """Return whether an event puts something into quarantine or releases it."""
    return isinstance(event, QuarantineChanged)


def quarantine_of(sets: Sequence[QuarantinedSet]) -> Quarantine:
    """Return all items that are in any of the sets."""
    return Quarantine(
        messages=frozenset((one.session_id, seq) for one in sets for seq in one.seqs),
        facts=frozenset(fact for one in sets for fact in one.facts),
        relations=frozenset(relation for one in sets for relation in one.relations),
        sentences=frozenset(sentence for one in sets for sentence in one.sentences),
        sets=tuple(sets),
    )


def removing(targets: Sequence[Target]) -> Callable[[str], str]:
    """Return a function that returns a text without its sentences that say one of the targets."""

    def removed(text: str) -> str:
        for target in targets:
            text = target.removed_from(text) if target.said_in(text) else text
        return text

    return removed


def shown_content(stored: str, removed: Callable[[str], str]) -> str:
    """Return a custom block's content, as JSON of its messages or parts, without withheld text; empty if none is left.

    Texts lose sentences; a message or part that says it elsewhere, such as in a tool call, is left out.
    """
    data = json.loads(stored)
    if "messages" in data:
        rest: dict[str, list[Any]] = {
            "messages": [shown for text in data["messages"] if (shown := _shown_message(text, removed))]
        }
    else:
        rest = {"parts": _shown_parts(data["parts"], removed)}
    if rest == data:
        return stored
    return json.dumps(rest, ensure_ascii=False) if any(rest.values()) else ""


def _shown_message(text: str, removed: Callable[[str], str]) -> str:
    message = json.loads(text)
    parts = _shown_parts(message["parts"], removed)
    if _is_said(message.get("kwargs", {}), removed) or (not parts and message["parts"]):
        return ""
    # In the form of `ChatMessage.to_json`.
    return json.dumps(message | {"parts": parts}, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _shown_parts(parts: Sequence[dict[str, Any]], removed: Callable[[str], str]) -> list[dict[str, Any]]:
    shown = [part | {"text": removed(part["text"])} if part["type"] == "text" else part for part in parts]
    return [part for part in shown if part.get("text") != "" and not _is_said(part, removed)]


def _is_said(value: dict[str, Any], removed: Callable[[str], str]) -> bool:
    return any(removed(text) != text for text in texts_in(json.dumps(value)))
