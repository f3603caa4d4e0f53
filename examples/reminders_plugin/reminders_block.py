"""A custom block in a package: its entry point, in pyproject.toml, makes it known to every process and to the app.

pip install ./reminders_plugin
"""

import re
from typing import Any

from memory_core import BaseMemoryBlock, ChatMessage

ASKED = re.compile(r"\bremind me to ([^.!?\n]+)", re.IGNORECASE)


class RemindersBlock(BaseMemoryBlock[str]):
    """Keeps what the user wants to be reminded of."""

    reminders: tuple[str, ...] = ()  # fields are state: the engine stores them with the session

    def _put(self, messages: list[ChatMessage]) -> None:
        for message in messages:
            if message.role == "user":
                self.reminders += tuple(ASKED.findall(message.content or ""))

    def _get(self, messages: list[ChatMessage] | None = None, **kwargs: Any) -> str:
        return "\n".join(f"- {reminder}" for reminder in self.reminders)

    def truncate(self, content: str, tokens_to_truncate: int) -> str | None:
        lines, characters = content.splitlines(), 0
        while lines and characters < 6 * tokens_to_truncate:  # enough, as a token has about four characters
            characters += len(lines.pop(0))  # the oldest first
        return "\n".join(lines) or None
