"""`SelfEditingMemory`: an agent that keeps its own memory through tools, under the names of Letta's server.

    agent = SelfEditingMemory("monday", human="Sam lives in Lisbon.")
    agent.reply("I moved to Porto.")
    agent.block("Human")

A thin layer over `Memory` with the recipe `self_editing`: labelled core blocks that are always in the prompt, an
archive that is searched, and the conversation. Every edit is a version of its block, with a diff and an undo.
"""

import asyncio
import uuid
from collections.abc import Callable
from typing import Any

from memory_core.agent import loop
from memory_core.agent.tools import MemoryTools
from memory_core.errors import NotFoundError
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole
from memory_core.models.offline.responder import OfflineResponder
from memory_core.models.openai_client import OpenAIChat
from memory_core.models.protocols import ChatModel


class SelfEditingMemory:
    """An agent's memory with the tools to edit it.

    Args:
        chat: the model that answers and calls the tools; None: the one that `OPENAI_...` variables name,
            else the offline rules, which are no language model and edit by fixed patterns.
        settings: parameters of the recipe (`human`, `persona`, `limit` in characters) and what
            `Memory.from_recipe` takes.
    """

    def __init__(
        self,
        session_id: str | None = None,
        user_id: str | None = None,
        *,
        chat: ChatModel | None = None,
        **settings: Any,
    ) -> None:
        self.memory = Memory.from_recipe("self_editing", session_id, user_id, **settings)
        self.tools = MemoryTools(self.memory)
        self.chat: ChatModel = chat or OpenAIChat.from_environment() or OfflineResponder()

    @property
    def blocks(self) -> dict[str, str]:
        """The text of every core block, by its label."""
        # Another process, or a person in the app, may have edited a block.
        self.memory.session.refresh()
        return {attached.name: attached.state or "" for attached in self.tools.core_blocks}

    def block(self, label: str) -> str:
        """Return the text of a core block.

        Raises:
            NotFoundError: no core block that the agent may edit has this label.
        """
        if label not in self.blocks:
            raise NotFoundError(f'There is no core block "{label}": there are {", ".join(self.blocks) or "none"}.')
        return self.blocks[label]

    def reply(self, text: str, *, on_text: Callable[[str], None] = loop.nothing) -> str:
        """Send a message to the agent; return its answer after its tool calls. `on_text` receives streamed text.

        Raises:
            ModelError: the model failed; the user's message and the edits of its tools are stored.
        """
        # One id for the turn, from which the ids of all its messages derive.
        turn = uuid.uuid4().hex
        loop.put(self.memory, [ChatMessage(role=MessageRole.USER, content=text)], [f"{turn}-user"])
        return loop.reply(self.memory, self.chat, turn, loop.ReplyCallbacks(text=on_text)).text

    async def areply(self, text: str) -> str:
        """Run `reply` in a worker thread."""
        return await asyncio.to_thread(self.reply, text)
