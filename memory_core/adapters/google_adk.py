"""`Memory` as the memory service of Google ADK: `Runner(..., memory_service=InspectedMemoryService())`.

A user's sessions in an app are remembered together, as one session here: what was said in one is found from another.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from memory_core.adapters import framework
from memory_core.blocks import FactExtractionMemoryBlock, VectorMemoryBlock
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, FilePart, ImagePart, MessageRole, Part, TextPart, ToolCallPart

with framework("Google ADK", "google-adk"):
    from google.adk.events import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai import types


class InspectedMemoryService(BaseMemoryService):
    """ADK's memory service over one `Memory` for each app and user. `settings` are those of `Memory.from_defaults`."""

    def __init__(self, *, database_uri: str | None = None, **settings: Any) -> None:
        self._made = {"database_uri": database_uri, **settings}
        self._memories: dict[tuple[str, str], Memory] = {}

    def of(self, app_name: str, user_id: str) -> Memory:
        """The memory of a user in an app."""
        key = app_name, user_id
        if key not in self._memories:
            blocks = [FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns", priority=2)]
            made = {"memory_blocks": blocks, **self._made}
            self._memories[key] = Memory.from_defaults(f"adk:{app_name}:{user_id}", **made)
        return self._memories[key]

    async def add_session_to_memory(self, session: Session) -> None:
        """Put what is new of a session, each event once, and learn from it."""
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        await asyncio.to_thread(self._put, self.of(app_name, user_id), events, session_id or "")

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Facts that fit a question, then the turns that do, best first."""
        return SearchMemoryResponse(
            memories=await asyncio.to_thread(_found, self.of(app_name, user_id), query),
        )

    def _put(self, memory: Memory, events: Sequence[Event], session_id: str) -> None:
        said = [(f"{session_id}:{event.id}:{number}", message) for event in events for number, message in _ours(event)]
        if said:
            memory.put_messages([message for _, message in said], message_ids=[id for id, _ in said], end_turn=True)
            memory.flush(all=True)  # what ADK hands over is said and done: it is to be learned, and found


def _found(memory: Memory, query: str) -> list[MemoryEntry]:
    entries = [
        MemoryEntry(id=f"fact-{hit.fact.id}", content=_content("model", hit.fact.text), author="memory")
        for hit in memory.facts.search(query, block="facts")
    ]
    for turn in memory.retrieval.recall(query, block="turns"):
        entries += [
            MemoryEntry(
                id=f"message-{stored.seq}",
                content=_content("user" if stored.message.role == "user" else "model", stored.message.content),
                author=str(stored.message.additional_kwargs.get("author") or stored.message.role),
            )
            for stored in turn.messages
            if stored.message.content
        ]
    return entries


def _content(role: str, text: str) -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def _ours(event: Event) -> list[tuple[int, ChatMessage]]:
    """The messages of an event: what was said and called, then each result, numbered."""
    if event.content is None or event.partial:
        return []
    kwargs = {"author": event.author}
    parts: list[Part] = []
    results: list[ChatMessage] = []
    for part in event.content.parts or ():
        if part.text and not part.thought:
            parts.append(TextPart(text=part.text))
        elif call := part.function_call:
            parts.append(ToolCallPart(tool_call_id=call.id, tool_name=call.name or "", tool_kwargs=call.args or {}))
        elif result := part.function_response:
            named = {**kwargs, "tool_call_id": result.id, "name": result.name}
            text = str((result.response or {}).get("result", result.response))
            results.append(ChatMessage(text, role=MessageRole.TOOL, additional_kwargs=named))
        elif (file := part.file_data) and file.file_uri:
            picture = (file.mime_type or "").startswith("image/")
            parts.append(ImagePart(url=file.file_uri) if picture else FilePart(type="document", url=file.file_uri))
    role = MessageRole.USER if event.author == "user" else MessageRole.ASSISTANT
    said = [ChatMessage(parts=parts, role=role, additional_kwargs=kwargs)] if parts else []
    return list(enumerate([*said, *results]))
