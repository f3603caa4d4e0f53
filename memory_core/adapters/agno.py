"""`UserMemories` as the memory manager of Agno's agents: `Agent(memory_manager=InspectedMemoryManager(...))`.

Agno puts what is known of the user into its own system prompt; its conversation is its own. What the user says becomes
a run of the user's session here, and every memory names the words it came from.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from memory_core.adapters import framework
from memory_core.errors import NotFoundError
from memory_core.messages import ChatMessage, MessageRole
from memory_core.models.base import ChatModel
from memory_core.planning.facts import Fact
from memory_core.systems.user_memories import RetrievalMethod, UserMemories

with framework("Agno", "agno"):
    from agno.db.schemas.memory import UserMemory
    from agno.memory import MemoryManager
    from agno.models.message import Message


class InspectedMemoryManager(MemoryManager):
    """Agno's memory manager over one `UserMemories` a user. With `chat` a model learns, without it rules do."""

    def __init__(self, *, database_uri: str | None = None, chat: ChatModel | None = None, **settings: Any) -> None:
        super().__init__()
        self._made = {"database_uri": database_uri, "chat": chat, "summaries": False, **settings}
        self._users: dict[str, UserMemories] = {}

    def of(self, user_id: str | None) -> UserMemories:
        """The memories of a user; Agno's own name for nobody is `default`."""
        user = user_id or "default"
        if user not in self._users:
            self._users[user] = UserMemories(user, f"agno:{user}", **self._made)
        return self._users[user]

    def get_user_memories(self, user_id: str | None = None) -> list[UserMemory]:
        return [_theirs(fact, user_id) for fact in self.of(user_id).get_user_memories()]

    async def aget_user_memories(self, user_id: str | None = None) -> list[UserMemory]:
        return await asyncio.to_thread(self.get_user_memories, user_id)

    def get_user_memory(self, memory_id: str, user_id: str | None = None) -> UserMemory | None:
        return next((each for each in self.get_user_memories(user_id) if each.memory_id == memory_id), None)

    def create_user_memories(
        self,
        message: str | None = None,
        messages: Sequence[Message] | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        user_id: str | None = None,
        run_metrics: Any = None,
    ) -> str:
        """Learn from what the user said; what became of it, in words."""
        said = [ChatMessage(message)] if message else []
        said += [
            ChatMessage(each.get_content_string(), role=MessageRole.ASSISTANT if each.role == "model" else each.role)
            for each in messages or ()
            if each.role in ("user", "assistant", "model")
        ]
        if not any(each.role is MessageRole.USER for each in said):
            return "Nothing to remember: the user said nothing."
        acts = self.of(user_id).create_user_memories(said)
        return "\n".join(f"{act.act}: {act.text}" for act in acts) or "Nothing to remember."

    async def acreate_user_memories(
        self,
        message: str | None = None,
        messages: Sequence[Message] | None = None,
        agent_id: str | None = None,
        team_id: str | None = None,
        user_id: str | None = None,
        run_metrics: Any = None,
    ) -> str:
        return await asyncio.to_thread(self.create_user_memories, message, messages, agent_id, team_id, user_id)

    def update_memory_task(self, task: str, user_id: str | None = None) -> str:
        """Agno's tool `update_user_memory`: the task is learned as if the user had said it."""
        return self.create_user_memories(task, user_id=user_id)

    async def aupdate_memory_task(self, task: str, user_id: str | None = None) -> str:
        return await asyncio.to_thread(self.update_memory_task, task, user_id)

    def search_user_memories(
        self,
        query: str | None = None,
        limit: int | None = None,
        retrieval_method: str | None = None,
        user_id: str | None = None,
    ) -> list[UserMemory]:
        """Agno's `agentic` is the semantic search here: no model is asked."""
        methods: dict[str | None, RetrievalMethod] = {"agentic": "semantic", "first_n": "first_n"}
        found = self.of(user_id).search_user_memories(query, limit, methods.get(retrieval_method, "last_n"))
        return [_theirs(fact, user_id) for fact in found]

    def add_user_memory(self, memory: UserMemory, user_id: str | None = None) -> str:
        user = user_id or memory.user_id
        return str(self.of(user).add_user_memory(memory.memory, memory.topics or (), actor="agent").id)

    def replace_user_memory(self, memory_id: str, memory: UserMemory, user_id: str | None = None) -> str:
        user = user_id or memory.user_id
        replaced = self.of(user).replace_user_memory(_number(memory_id), memory.memory, memory.topics, actor="agent")
        return str(replaced.id)

    def delete_user_memory(self, memory_id: str, user_id: str | None = None) -> None:
        """Put a memory away; it can be restored in the app."""
        self.of(user_id).delete_user_memory(_number(memory_id), actor="agent")

    def clear_user_memories(self, user_id: str | None = None) -> None:
        user = self.of(user_id)
        for fact in user.get_user_memories():
            user.delete_user_memory(fact.id, actor="agent")

    async def aclear_user_memories(self, user_id: str | None = None) -> None:
        await asyncio.to_thread(self.clear_user_memories, user_id)


def _theirs(fact: Fact, user_id: str | None) -> UserMemory:
    return UserMemory(
        memory=fact.text,
        memory_id=str(fact.id),
        topics=list(fact.topics),
        user_id=user_id or "default",
        created_at=int(fact.created_at),
        updated_at=int(fact.updated_at),
    )


def _number(memory_id: str) -> int:
    if not memory_id.isdigit():
        raise NotFoundError(f"This user has no memory with the id {memory_id}.")
    return int(memory_id)
