"""Past prompts of one session, read from its log and the content store."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock
from typing import Any

from memory_core.blocks.base import Item
from memory_core.blocks.markup import fact_parts, relation_parts, static_parts
from memory_core.engine.session import Session
from memory_core.events import ContextBuilt, EventRecord, Ref, numbers, spread
from memory_core.history.by_turn import History
from memory_core.history.context_pieces import PieceReader, lay_out
from memory_core.history.contexts import context_of
from memory_core.history.learned_slices import FactWords
from memory_core.history.log import pieces_of_session
from memory_core.history.prompt import Prompt, read_prompt, shared_prefix_tokens
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.former_values import stored_marks
from memory_core.planning.rendering import InsertMethod
from memory_core.store.log_rows import fact_words_at

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
