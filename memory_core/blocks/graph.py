"""A block that keeps entities and the relations between them, and recalls the neighbourhood of what is mentioned."""

from typing import Any, ClassVar

from pydantic import Field

from memory_core.blocks.base import BaseMemoryBlock, Batch, Content, Learned, Nothing, Reading
from memory_core.errors import ConfigError

MOST_HOPS = 4


class GraphMemoryBlock(BaseMemoryBlock[str]):
    """Entities and typed, directed relations, found by a model or by the offline rules.

    `llm` is a chat model, or any `RelationExtractor`; without one the memory's own relates.
    """

    kind: ClassVar[str] = "graph"

    name: str = "Relations"
    llm: Any = Field(default=None, exclude=True)
    hops: int = 2
    """How far from what the question mentions a relation may be, in steps."""
    most_relations: int = 20
    """Most relations brought into one context, the nearest first."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._check_settings()

    @property
    def type(self) -> str:
        return self.kind

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"hops": self.hops, "most_relations": self.most_relations}

    def apply(self, settings: dict[str, Any]) -> None:
        super().apply(settings)
        self._check_settings()

    def _check_settings(self) -> None:
        if not 1 <= self.hops <= MOST_HOPS:
            raise ConfigError(f"hops must be 1 to {MOST_HOPS}, not {self.hops} (block {self.name!r})")
        if self.most_relations < 1:
            raise ConfigError(f"most_relations must be at least 1, not {self.most_relations} (block {self.name!r})")

    def read(self, reading: Reading, state: str | None) -> Content:
        return Content()

    def learn(self, batch: Batch) -> Learned:
        return Nothing()
