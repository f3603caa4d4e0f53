"""Blocks: those present at each position, with their settings and texts, and the last state of custom ones."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from memory_core.blocks import BUILT_IN
from memory_core.events import (
    BlockAdded,
    BlockEdited,
    BlockRemoved,
    BlocksOrdered,
    BlockStateSaved,
    Event,
    EventRecord,
    SessionReset,
    SummaryRewritten,
)

BLOCK_EVENTS = frozenset({BlockAdded, BlockEdited, BlockRemoved, BlocksOrdered, BlockStateSaved, SessionReset})

INITIAL = "initial"
"""Placeholder for a custom block's fields as given by its constructor, which the log does not record."""


def edits_text(event: Event) -> TypeGuard[BlockEdited]:
    """Return whether an event gives its block another text; an edit of settings alone does not."""
    return isinstance(event, BlockEdited) and event.writes


def is_rewriting(event: Event) -> TypeGuard[SummaryRewritten]:
    """Return whether an event gives a summary another text."""
    return isinstance(event, SummaryRewritten)


@dataclass(frozen=True, slots=True)
class PastBlock:
    """A block at one position."""

    name: str
    type: str
    settings: Mapping[str, Any]
    text: str | None = None
    """Hash of a static block's text in the content store."""
    revision: int = 0

    @property
    def kind(self) -> str:
        """`static`, `facts`, `vector`, ...; `custom` for any class that is not built in."""
        return self.type if self.type in BUILT_IN else "custom"

    @property
    def priority(self) -> int:
        return int(self.settings.get("priority", 0))

    @property
    def scope(self) -> str:
        """Owner of the block's contents: `session` or `user`."""
        return str(self.settings.get("scope", "session"))


States = tuple[tuple[int, tuple[PastBlock, ...]], ...]
"""The blocks present, with the position from which each list was in effect."""


class Blocks:
    """The blocks of a session, up to the last record applied."""

    def __init__(self) -> None:
        self.states: list[tuple[int, tuple[PastBlock, ...]]] = []
        self.users: set[str] = set()
        """Names of the blocks that were user-scoped at any time."""
        self.ever: set[str] = set()
        """Names of all blocks that ever existed."""
        self.fields: dict[str, str] = {}
        """Hash of each block's last saved fields, or `INITIAL`."""
        self.added_at: dict[str, int] = {}
        """Position at which each present block was added."""

    @property
    def now(self) -> tuple[PastBlock, ...]:
        return self.states[-1][1] if self.states else ()

    def apply(self, record: EventRecord) -> str | None:
        """Apply an event and return the name of the block it removed, if any."""
        event = record.event
        if isinstance(event, BlockAdded):
            # A block that is added again under its name replaces the former one, at the end of the order.
            others = (block for block in self.now if block.name != event.block)
            self._stand(record, (*others, PastBlock(event.block, event.type, event.settings)))
            self.fields[event.block], self.added_at[event.block] = INITIAL, record.position
        elif isinstance(event, BlockRemoved):
            self._stand(record, tuple(block for block in self.now if block.name != event.block))
            self.fields.pop(event.block, None)
            self.added_at.pop(event.block, None)
            return event.block
        elif isinstance(event, BlocksOrdered):
            # Blocks that the event does not name keep their order behind those that it names.
            places = {name: place for place, name in enumerate(event.names)}
            self._stand(record, tuple(sorted(self.now, key=lambda block: places.get(block.name, len(places)))))
        elif isinstance(event, BlockEdited):
            self._stand(record, tuple(_edited(block, event) for block in self.now))
        elif isinstance(event, BlockStateSaved):
            self.fields[event.block] = event.content
        # A reset of the status alone keeps what blocks have learned.
        elif isinstance(event, SessionReset) and event.empties_session:
            self.fields.clear()
        return None

    def _stand(self, record: EventRecord, blocks: tuple[PastBlock, ...]) -> None:
        self.states.append((record.position, blocks))
        self.ever |= {block.name for block in blocks}
        self.users |= {block.name for block in blocks if block.scope == "user"}


def _edited(block: PastBlock, event: BlockEdited) -> PastBlock:
    if block.name != event.block:
        return block
    settings = {**block.settings, **event.settings}
    # `after` is None where only settings were changed.
    return replace(block, settings=settings, text=event.after or block.text, revision=event.revision)
