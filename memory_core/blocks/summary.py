"""A block that keeps one running summary of what left the queue."""

from typing import Any, ClassVar

from pydantic import Field

from memory_core.blocks.base import BaseMemoryBlock, Batch, Content, Learned, Nothing, Reading
from memory_core.errors import ConfigError


class SummaryMemoryBlock(BaseMemoryBlock[str]):
    """Recent turns stay whole in the queue; what leaves it is taken into one text of bounded size.

    `llm` is a chat model, or any `Summariser`; without one the memory's own summarises.
    """

    kind: ClassVar[str] = "summary"

    name: str = "Summary"
    llm: Any = Field(default=None, exclude=True)
    max_tokens: int = 300
    """Most tokens of the text."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)
        self._check_size()

    @property
    def type(self) -> str:
        return self.kind

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"max_tokens": self.max_tokens}

    def apply(self, settings: dict[str, Any]) -> None:
        super().apply(settings)
        self._check_size()

    def _check_size(self) -> None:
        if self.max_tokens < 1:
            raise ConfigError(f"max_tokens must be at least 1 token, not {self.max_tokens} (block {self.name!r})")

    def read(self, reading: Reading, state: str | None) -> Content:
        return Content()

    def learn(self, batch: Batch) -> Learned:
        return Nothing()
