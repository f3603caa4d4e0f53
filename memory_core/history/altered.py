"""Edit a past prompt: leave items out or replace their words, to look at it or to ask a model again. Nothing is planned
again, so the rest stays word for word as sent."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from memory_core.blocks.base import Item
from memory_core.blocks.markup import fact_parts, relation_parts, static_parts
from memory_core.events import EventRecord, Ref, spread
from memory_core.history.pieces import PieceReader, lay_out
from memory_core.history.slices.contexts import context_of
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.rendering import InsertMethod

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
