"""A block of fixed text. The block learns nothing and is cut as a whole."""

import json
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import Field, TypeAdapter, ValidationError

from memory_core.blocks.base import BaseMemoryBlock, Batch, Content, Item, PendingWrite, ReadContext
from memory_core.events import Ref
from memory_core.messages import PARTS_MARK, Part, TextPart, content_hash
from memory_core.planning.rendering import Safe, static_parts

_PARTS: TypeAdapter[tuple[Part, ...]] = TypeAdapter(tuple[Part, ...])


class StaticMemoryBlock(BaseMemoryBlock[str]):
    """Text, or parts, included in every context.

    The text is versioned per session: the version last saved by the app or by `Memory.blocks.edit` is read.
    """

    kind: ClassVar[str] = "static"
    kind_is_built_in: ClassVar[bool] = True
    kind_learns: ClassVar[bool] = False
    kind_has_text: ClassVar[bool] = True

    name: str = "StaticContent"
    static_content: str | tuple[Part, ...]
    read_only: bool = True
    """True if an agent's tools may not change it. People always may."""
    limit: int | None = Field(default=None, ge=1)
    """Maximum characters an agent may write; None: no limit."""

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"read_only": self.read_only, "limit": self.limit}

    @classmethod
    def make_empty(cls, **values: Any) -> "StaticMemoryBlock":
        # The one field without a default.
        return cls(**{"static_content": "", **values})

    @property
    def text(self) -> str:
        """The content as one text, in its stored form (see `encode`)."""
        return encode(self.static_content)

    def read(self, reading: ReadContext, state: str | None) -> Content:
        content, stored = self.static_content if state is None else decode(state), state or self.text
        if not reading.quarantine.sentences:
            return static_content(content, stored, reading.safe)
        rest = reading.quarantine.shown(stored)
        if not rest:
            return Content()
        # The remaining text is no stored version of the block, so the recorded prompt has to keep it.
        return replace(static_content(decode(rest), rest, reading.safe), keep=() if rest == stored else (rest,))

    def _get(self, messages: Any = None, **kwargs: Any) -> Any:
        content = self.static_content
        return [TextPart(text=content)] if isinstance(content, str) else list(content)

    def _put(self, messages: Any) -> None:
        """Learn nothing."""

    def prepare_write(self, batch: Batch) -> PendingWrite:
        return PendingWrite()

    def _declared(self) -> list[str]:
        # Text and settings are stored separately, so no field is saved as state.
        return []


def static_content(content: str | tuple[Part, ...], stored: str, safe: Safe) -> Content:
    """Return the text as one item, named by its hash."""
    texts = texts_in_content(stored)
    parts = static_parts(content, safe)
    return Content(items=(Item(ref=Ref.of("text", content_hash(stored)), words="\n".join(texts), parts=parts),))


def texts_in_content(stored: str) -> list[str]:
    """Return the texts of static content in its stored form: the whole text, or the text of each text part."""
    content = decode(stored)
    return [content] if isinstance(content, str) else [part.text for part in content if isinstance(part, TextPart)]


def encode(content: str | tuple[Part, ...]) -> str:
    """Serialise static content as one text: text unchanged, parts as JSON after `PARTS_MARK`."""
    if isinstance(content, str):
        return content
    return PARTS_MARK + json.dumps(_PARTS.dump_python(content, mode="json", exclude_none=True), ensure_ascii=False)


def decode(stored: str) -> str | tuple[Part, ...]:
    """Reverse `encode`; a text that begins with `PARTS_MARK` and holds no list of parts is plain text."""
    if not stored.startswith(PARTS_MARK):
        return stored
    try:
        return _PARTS.validate_json(stored[1:])
    except ValidationError:
        return stored
