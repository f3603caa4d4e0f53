"""`Memory` as Google ADK's memory service, with a plugin that records the prompts of its agents.

    service = InspectedMemoryService(database_uri="sqlite:///agent.db")
    runner = Runner(app=App(name="app", root_agent=agent, plugins=[service.prompts()]), memory_service=service, ...)

All sessions of a user in an app share one session here, so a search covers them all. ADK builds its own
prompts; the plugin records them, in one session per ADK session.

The agent waits for neither learning nor recording. Sessions are stored before the call returns and learned from in the
background; a search waits for learning. To wait for pending work, close the `Runner` (with the plugin) or call
`service.wait()` (without it); interpreter exit waits, too.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from math import inf
from typing import Any

from memory_core.blocks import FactExtractionMemoryBlock, VectorMemoryBlock
from memory_core.formats.any_message import read_messages
from memory_core.formats.openai_message import other_kinds
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole
from memory_core.models.embedding import LocalEmbedder, MeasuredEmbedder
from memory_core.models.protocols import LimitedEmbedder
from memory_core.store.log_rows import last_position
from memory_core.text import UNSPACED_CHARACTER, keyword_terms, stems
from memory_inspector.adapters import framework
from memory_inspector.adapters.prompts import harmless, keep, record_prompt, session_name
from memory_inspector.files.located_json import storable_value
from memory_inspector.recorder.wire import Exchange

with framework("Google ADK", "google-adk"):
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.events import Event
    from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.sessions import Session
    from google.genai import types

AGENT_GOES_ON_SECONDS = 0.05
"""Seconds between an answer and recording its prompt. Recording competes with the agent for the interpreter; after
the delay, the agent mostly waits for a tool, a model or a person."""
CALL_RETURNS_SECONDS = 0.005
"""Seconds between storing a session and learning from it, so that the call returns to the agent first."""
LEAST_COSINE = 0.38
"""Least cosine similarity of what answers a question without a word in common. Measured with the local embedder:
"What should I drink?" and "I prefer jasmine tea." have 0.39, "Java" and "I like to code in Python." 0.36."""
_NOT_EMBEDDED = "What the user said was not embedded"


class InspectedMemoryService(BaseMemoryService):
    """ADK's memory service with one `Memory` per app and user. `settings` are those of `Memory.from_defaults`."""

    def __init__(self, *, database_uri: str | None = None, **settings: Any) -> None:
        self._made = {"database_uri": database_uri, **settings}
        self._memories: dict[tuple[str, str], Memory] = {}
        self._learners = ThreadPoolExecutor(thread_name_prefix="adk-learning")
        self._learning: dict[str, Future[Any]] = {}
        """The latest learning task of each memory, by session id."""
        self._put_before: dict[tuple[str, str, str], tuple[int, str]] = {}
        """Number of stored events, and the id of the last of them, by app, user and ADK session."""
        self._answered: dict[str, tuple[tuple[int | None, str], list[MemoryEntry]]] = {}
        """The latest search per memory: log position, question and results."""
        self._said: dict[tuple[str, str], str] = {}
        """The latest user message per app and user, as the plugin receives it."""

    def of(self, app_name: str, user_id: str) -> Memory:
        """Return the memory of a user in an app."""
        key = app_name, user_id
        if key not in self._memories:
            blocks = [FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns", priority=2)]
            made = {"memory_blocks": blocks, **self._made}
            self._memories[key] = Memory.from_defaults(session_name("adk", app_name, user_id), **made)
        return self._memories[key]

    def prompts(self) -> "RecordedPrompts":
        """Return the app plugin that records each prompt of its agents."""
        return RecordedPrompts(self)

    def wait(self) -> None:
        """Wait for pending learning; if a model hangs, for up to `delivery_timeout` seconds."""
        for memory in list(self._memories.values()):
            self._wait_for_learning(memory)

    async def add_session_to_memory(self, session: Session) -> None:
        """Store the new events of a session, each once, and learn from them."""
        key, events = (session.app_name, session.user_id, session.id), session.events
        count, last = self._put_before.get(key, (0, ""))
        # ADK passes the whole history of a session each time.
        new = events[count:] if 0 < count <= len(events) and events[count - 1].id == last else events
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=new, session_id=session.id
        )
        if events:
            self._put_before[key] = len(events), events[-1].id

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
        """Return matching facts, then matching turns, best first: they share a word with the question, or its meaning.
        Nothing is returned to a question that nothing matches.
        """
        return SearchMemoryResponse(
            memories=await asyncio.to_thread(self._search_once, self.of(app_name, user_id), query),
        )

    def user_said(self, app_name: str, user_id: str, words: str) -> None:
        """Start embedding a user message while ADK prepares the turn.

        Does so only if the last search used the user message as its question, as ADK's `PreloadMemoryTool` does.
        """
        key = app_name, user_id
        before, self._said[key] = self._said.get(key), words
        if (memory := self._memories.get(key)) and memory.session_id in self._answered:
            (_, asked), _ = self._answered[memory.session_id]
            if asked == before:
                self._learners.submit(_embed, memory, words)

    def _put(self, memory: Memory, events: Sequence[Event], session_id: str) -> None:
        # The ids are deterministic, so that events passed again are not stored again.
        named = ((session_name(session_id, event.id), _ours(event)) for event in events)
        items = [(f"{name}:{number}", message) for name, messages in named for number, message in messages]
        if items:
            self._wait_for_learning(memory)
            ids = [id for id, _ in items]
            keep(memory, [message for _, message in items], message_ids=ids, end_turn=True, wait=False)
            # ADK only passes finished events: they are ready to be learned and searched.
            self._learning[memory.session_id] = self._learners.submit(_learn, memory)

    def _search_once(self, memory: Memory, query: str) -> list[MemoryEntry]:
        self._wait_for_learning(memory)
        asked = _position(memory), query
        before, entries = self._answered.get(memory.session_id, (None, []))
        if asked != before or asked[0] is None:  # ADK repeats the search before each call of a turn
            entries = _search(memory, query)
            self._answered[memory.session_id] = asked, entries
        # Copies: the caller may change what it gets, and the same search is answered from here again.
        return [entry.model_copy(deep=True) for entry in entries]

    def _wait_for_learning(self, memory: Memory) -> None:
        if (learning := self._learning.get(memory.session_id)) is not None:
            wait([learning])


class RecordedPrompts(BasePlugin):
    """Records each model call when it answers or fails, in order of completion."""

    def __init__(self, service: InspectedMemoryService) -> None:
        super().__init__(name="memory_inspector")
        self._service = service
        self._recorder = ThreadPoolExecutor(1, thread_name_prefix="adk-prompts")
        self._asked: dict[tuple[str, str], tuple[float, LlmRequest]] = {}
        """Start time and request of each pending model call, by invocation and agent."""

    async def on_user_message_callback(
        self, *, invocation_context: InvocationContext, user_message: types.Content
    ) -> None:
        session = invocation_context.session
        with harmless(session.id, _NOT_EMBEDDED):
            words = " ".join(part.text for part in user_message.parts or () if part.text and not part.thought)
            self._service.user_said(session.app_name, session.user_id, words)

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        self._asked[_asking(callback_context)] = time.perf_counter(), llm_request

    async def after_model_callback(self, *, callback_context: CallbackContext, llm_response: LlmResponse) -> None:
        # The complete answer follows the partial ones of a stream.
        if not llm_response.partial:
            self._record(callback_context, llm_response, llm_response.error_code)

    async def on_model_error_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest, error: Exception
    ) -> None:
        self._record(callback_context, None, type(error).__name__)  # the error's text may quote the conversation

    async def close(self) -> None:
        """Wait until every prompt is recorded and every stored session is learned from."""
        # The recorder has one thread, so this task runs after all prompts submitted before it.
        await asyncio.to_thread(self._recorder.submit(self._service.wait).result)

    def _record(self, context: CallbackContext, answer: LlmResponse | None, error: str | None) -> None:
        # The entry is removed, so that an error after an answer does not record the call twice.
        if (asked := self._asked.pop(_asking(context), None)) is None:
            return
        (began, request), session = asked, context.session
        memory = partial(self._service.of, session.app_name, session.user_id)
        with harmless(session.id):
            # Copy now: the agent continues to mutate these objects.
            now = time.perf_counter()
            made = _exchange(request, answer, now - began, error)
            record = partial(record_prompt, memory, session.id, lambda: made)
            self._recorder.submit(_call_at, now + AGENT_GOES_ON_SECONDS, record)


def _call_at(moment: float, call: Callable[[], None]) -> None:
    time.sleep(max(0.0, moment - time.perf_counter()))
    call()


def _asking(context: CallbackContext) -> tuple[str, str]:
    return context.invocation_id, context.agent_name


def _exchange(request: LlmRequest, answer: LlmResponse | None, seconds: float, error: str | None) -> Exchange:
    instructed = request.config.system_instruction
    text = instructed if isinstance(instructed, str) else _all_text(instructed)
    sent = [ChatMessage(text, role=MessageRole.SYSTEM)] if text else []
    for content in request.contents:
        sent += _messages(content, MessageRole.USER if content.role == "user" else MessageRole.ASSISTANT)
    answered = list(_messages(answer.content, MessageRole.ASSISTANT)) if answer and answer.content else []
    usage = answer.usage_metadata if answer else None
    return Exchange(
        purpose="reply",
        model=request.model or "unknown",
        messages=tuple(sent),
        answer=answered[0] if answered else None,
        input_tokens=usage.prompt_token_count if usage else None,
        output_tokens=usage.candidates_token_count if usage else None,
        seconds=seconds,
        error=error,
    )


def _all_text(value: Any) -> str:
    """Return the text of an instruction in any form ADK accepts."""
    parts = value.parts if isinstance(value, types.Content) else value if isinstance(value, list) else [value]
    texts = [part if isinstance(part, str) else getattr(part, "text", None) for part in parts or ()]
    return "\n".join(text for text in texts if text)


def _embed(memory: Memory, words: str) -> None:
    with harmless(memory.session_id, _NOT_EMBEDDED):  # the search embeds it later, or reports the failure
        embedder = memory.session.services.embedder
        if isinstance(embedder, LocalEmbedder | MeasuredEmbedder):  # only these cache embeddings
            embedder.embed([words])


def _learn(memory: Memory) -> None:
    time.sleep(CALL_RETURNS_SECONDS)
    with harmless(memory.session_id, "What was handed over was not flushed"):  # the next hand-over flushes it
        served = memory.flush(all=True).served.values()
        if any(delivery.outcome == "waiting" and delivery.error is None for delivery in served):
            # Another worker still makes the deliveries of an earlier put: wait for it, then make those of this one.
            memory.deliver(timeout=memory.session.config.delivery_timeout)
        _search(memory, "What is new?")  # embeds the new facts in the background


def _position(memory: Memory) -> int | None:
    """Return the position in the log; None if a block has the scope `user`, as other sessions change it too."""
    if any(block.settings.get("scope") == "user" for block in memory.blocks):
        return None
    with memory.session.database.read() as connection:
        return last_position(connection, memory.session_id)


def _matching(memory: Memory, query: str) -> Callable[[Iterable[str], float | None], bool]:
    """Return a function that says whether texts with this cosine similarity match the question."""
    embedder = memory.session.services.embedder
    least_cosine = LEAST_COSINE if not isinstance(embedder, LimitedEmbedder) or embedder.reads(query) else inf
    asked = _terms(query)
    unspaced = {term for term in asked if UNSPACED_CHARACTER.match(term)}
    pairs = {term for term in unspaced if len(term) > 1} or unspaced

    def matches(texts: Iterable[str], cosine: float | None) -> bool:
        terms = _terms(" ".join(texts))
        # Without spaces, a pair of characters is less than a word: half of the question's pairs stand for one.
        shared = not terms.isdisjoint(asked - unspaced) or 2 * len(terms & pairs) >= max(1, len(pairs))
        return shared or (cosine is not None and cosine >= least_cosine)

    return matches


def _terms(text: str) -> set[str]:
    return set(keyword_terms(" ".join(stems(text))))


def _search(memory: Memory, query: str) -> list[MemoryEntry]:
    matches = _matching(memory, query)
    entries = [
        MemoryEntry(id=f"fact-{hit.fact.id}", content=_content("model", hit.fact.text), author="memory")
        for hit in memory.facts.search(query)
        if matches([hit.fact.text], hit.vector)
    ]
    stores = [block.name for block in memory.blocks if block.kind == "vector" and block.settings.get("enabled", True)]
    for turn in (turn for name in stores for turn in memory.retrieval.recall(query, block=name)):
        if not matches([stored.message.content or "" for stored in turn.messages], turn.cosine):
            continue
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
    """Return the messages of an event, numbered."""
    if event.content is None or event.partial:
        return []
    role = MessageRole.USER if event.author == "user" else MessageRole.ASSISTANT
    return list(enumerate(_messages(event.content, role, author=event.author)))


def _messages(content: types.Content, role: MessageRole, **kwargs: str) -> list[ChatMessage]:
    """Convert one author's content: text and tool calls become one message, each tool result a separate one."""
    parts = [part.model_dump(mode="json", exclude_none=True, fallback=str) for part in content.parts or ()]
    words = [part for part in parts if not part.get("thought")]
    messages = read_messages(storable_value({"role": str(role), "parts": words}))
    return [
        message.model_copy(update={"additional_kwargs": {**kwargs, **message.additional_kwargs}})
        for message in messages
        if message.parts or message.role is MessageRole.TOOL or other_kinds(message)
    ]
