"""Attribute names of spans, one table per telemetry convention ("dialect"). Pure data.

Sources: OpenTelemetry's conventions for generative AI, status Development (semantic-conventions-genai, gen-ai-spans.md
and its JSON schemas); OpenInference's semantic conventions; the emitters named at each table. A name that ends in `.*`
is a flattened list: `llm.input_messages.0.message.role`. `event:attribute` is an attribute of a span event, and what
follows a `/` is a key of the JSON object in an attribute.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

MemoryKind = Literal["create", "update", "upsert", "search", "delete", "create_store", "delete_store"]
Operation = Literal["reply", "embed"] | MemoryKind
"""Operation of a span: a model call, as in `ModelCalled.purpose`, or a memory operation."""

Field = Literal[
    "model", "input_tokens", "output_tokens", "cached_tokens", "input", "output", "calls", "system", "response",
    "store", "record", "records", "ids", "texts", "query", "count", "best",
]  # fmt: skip
"""Values read from a span. `records` have ids and text together, `ids` and `texts` are parallel lists; `best` is the
highest score; `calls` are tool calls stored apart from the answer's text; `response` is the id of the answer."""


SPAN_NAME = "(name of the span)"


@dataclass(frozen=True, slots=True)
class Dialect:
    """A convention for span attributes."""

    named_by: str
    """Attribute that names the operation; `SPAN_NAME`: the span's own name does."""
    operations: Mapping[str, Operation]
    """Operation by attribute value. Other values are ignored."""
    fields: Mapping[Field, tuple[str, ...]]
    """Attribute names by field; the first one present is used."""


_CALLS: Mapping[Field, tuple[str, ...]] = {
    "model": ("gen_ai.request.model", "gen_ai.response.model"),
    "input_tokens": ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    "output_tokens": ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    "cached_tokens": (
        "gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens",
        "langsmith.metadata.usage_metadata/input_token_details/cache_read",
    ),
    "input": ("gen_ai.input.messages", "gen_ai.prompt", "gen_ai.prompt.*", "events", "request_data"),
    "output": ("gen_ai.output.messages", "gen_ai.completion", "gen_ai.completion.*", "events", "response_data"),
    "system": ("gen_ai.system_instructions",),
    "response": ("gen_ai.response.id",),
}  # fmt: skip
"""Message attributes of the conventions since 1.37, then of earlier ones, nested or flattened; `events` is Pydantic
AI's and Logfire's, `request_data` that of Logfire 4. LangSmith writes cached tokens as LangChain names them."""

# OpenTelemetry's own; also written by Google ADK and Latitude
GENAI = Dialect(
    "gen_ai.operation.name",
    {
        "chat": "reply",
        "generate_content": "reply",
        "text_completion": "reply",
        "embeddings": "embed",
        "create_memory": "create",
        "update_memory": "update",
        "upsert_memory": "upsert",
        "search_memory": "search",
        "delete_memory": "delete",
        "create_memory_store": "create_store",
        "delete_memory_store": "delete_store",
        "retrieval": "search",
    },
    {
        **_CALLS,
        # names in the final convention come first, then those of its drafts
        "store": ("gen_ai.memory.store.id", "gen_ai.memory.store.name", "gen_ai.data_source.id"),
        "record": ("gen_ai.memory.record.id", "gen_ai.memory.id"),
        "records": ("gen_ai.memory.records", "gen_ai.retrieval.documents"),
        "texts": ("gen_ai.memory.record.content", "gen_ai.memory.content"),
        "query": ("gen_ai.memory.query.text", "gen_ai.memory.query", "gen_ai.retrieval.query.text"),
        "count": ("gen_ai.memory.record.count", "gen_ai.memory.search.result.count"),
    },
)

# n8n-io/n8n, packages/@n8n/agents
N8N = Dialect(
    "gen_ai.operation.name",
    {"query_memory": "search", "save_memory": "upsert"},
    {
        "store": ("gen_ai.memory.store.names",),
        "ids": ("gen_ai.memory.ids",),
        "texts": ("gen_ai.memory.descriptions",),
    },
)

# strands-agents/harness-sdk, strands/telemetry/tracer.py
STRANDS = Dialect(
    "gen_ai.operation.name",
    {"memory.search": "search", "memory.add": "create"},
    {
        "store": ("memory.store.names",),
        "records": ("memory.results:content",),
        "texts": ("memory.content:content",),
        "query": ("memory.query:content",),
        "count": ("memory.result.count",),
    },
)

# memory-semconv 0.1.0, as its emitters for Mem0, Cognee, MemOS, memU and kagent write it
MEMORY_SEMCONV = Dialect(
    "memory.operation",
    {
        "add": "upsert",
        "write": "upsert",
        "cognify": "upsert",
        "update": "update",
        "search": "search",
        "retrieve": "search",
        "read": "search",
        "prefetch": "search",
        "get": "search",
        "get_all": "search",
        "list": "search",
        "delete": "delete",
        "delete_all": "delete",
        "forget": "delete",
    },
    {
        "store": ("memory.store.id", "memory.scope.user_id", "memory.tenant", "memory.store_backend"),
        "record": ("memory.id",),
        "query": ("memory.query.text",),
        "count": ("memory.result.count", "memory.results.count", "memory.item.count"),
        "best": ("memory.top_similarity",),
    },
)

OPENINFERENCE = Dialect(
    "openinference.span.kind",
    {"LLM": "reply", "EMBEDDING": "embed", "RETRIEVER": "search"},
    {
        # a refused call has its model only among its parameters
        "model": ("llm.model_name", "embedding.model_name", "llm.invocation_parameters/model"),
        "input_tokens": ("llm.token_count.prompt",),
        "output_tokens": ("llm.token_count.completion",),
        "cached_tokens": ("llm.token_count.prompt_details.cache_read",),
        "input": ("llm.input_messages.*",),
        # a streamed answer of the Agents SDK is in the value alone
        "output": ("llm.output_messages.*", "output.value"),
        "response": ("output.value/id",),
        "records": ("retrieval.documents.*",),
        "query": ("input.value",),
    },
)

# OpenLLMetry before it wrote `gen_ai.operation.name`
OPENLLMETRY = Dialect(
    "llm.request.type",
    {"chat": "reply", "completion": "reply", "embedding": "embed"},
    _CALLS,
)

# vercel/ai, packages/ai/src/telemetry; the outer spans (`ai.generateText`) repeat these inner ones
VERCEL = Dialect(
    "ai.operationId",
    {
        "ai.generateText.doGenerate": "reply",
        "ai.streamText.doStream": "reply",
        "ai.generateObject.doGenerate": "reply",
        "ai.streamObject.doStream": "reply",
        "ai.embed.doEmbed": "embed",
        "ai.embedMany.doEmbed": "embed",
    },
    {
        "model": ("gen_ai.request.model", "ai.model.id", "gen_ai.response.model"),
        "input_tokens": ("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens"),
        "output_tokens": ("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
        "cached_tokens": ("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
        "input": ("ai.prompt.messages", "ai.prompt"),
        "output": ("ai.response.text", "ai.response.object", "ai.result.text", "ai.result.object"),
        "calls": ("ai.response.toolCalls", "ai.result.toolCalls"),
        "response": ("ai.response.id", "gen_ai.response.id"),
    },
)

STREAMED = "streaming response from"
"""Start of Logfire's span of a streamed answer, which it writes beside that of the request."""

# pydantic/logfire, its integrations of model clients before they wrote `gen_ai.operation.name`
LOGFIRE = Dialect(
    "logfire.msg_template",
    {
        f"{STREAMED} {{request_data[model]!r}} took {{duration:.2f}}s": "reply",
        "Chat Completion with {request_data[model]!r}": "reply",
        "Message with {request_data[model]!r}": "reply",
        "Completion with {request_data[model]!r}": "reply",
        "Embedding Creation with {request_data[model]!r}": "embed",
    },
    _CALLS,
)

# langfuse/langfuse-python 5.0.4, langfuse/_client/attributes.py and langfuse/openai.py
_USAGE = "langfuse.observation.usage_details"
LANGFUSE = Dialect(
    "langfuse.observation.type",
    {"generation": "reply", "embedding": "embed"},
    {
        "model": ("langfuse.observation.model.name",),
        "input_tokens": tuple(f"{_USAGE}/{name}" for name in ("prompt_tokens", "input_tokens", "input")),
        "output_tokens": tuple(f"{_USAGE}/{name}" for name in ("completion_tokens", "output_tokens", "output")),
        "cached_tokens": tuple(
            f"{_USAGE}/{name}/cached_tokens" for name in ("prompt_tokens_details", "input_tokens_details")
        ),
        "input": ("langfuse.observation.input",),
        "output": ("langfuse.observation.output",),
    },
)

# google/adk-python 1.14.1, google/adk/telemetry.py, before it named its operations
ADK = Dialect(
    SPAN_NAME,
    {"call_llm": "reply"},
    {
        "model": ("gen_ai.request.model",),
        "input_tokens": ("gen_ai.usage.input_tokens",),
        "output_tokens": ("gen_ai.usage.output_tokens",),
        "cached_tokens": ("gcp.vertex.agent.llm_response/usage_metadata/cached_content_token_count",),
        "input": ("gcp.vertex.agent.llm_request/contents",),
        "output": ("gcp.vertex.agent.llm_response/content",),
        "system": ("gcp.vertex.agent.llm_request/config/system_instruction",),
    },
)

# mlflow/mlflow 3.17.2, mlflow/tracing/constant.py, run with OpenAI's and Anthropic's clients; each value is JSON
MLFLOW = Dialect(
    "mlflow.spanType",
    {'"CHAT_MODEL"': "reply", '"LLM"': "reply", '"EMBEDDING"': "embed"},
    {
        "model": ("mlflow.spanOutputs/model", "mlflow.spanInputs/model"),
        "input_tokens": ("mlflow.chat.tokenUsage/input_tokens",),
        "output_tokens": ("mlflow.chat.tokenUsage/output_tokens",),
        "cached_tokens": ("mlflow.chat.tokenUsage/cache_read_input_tokens",),
        "input": ("mlflow.spanInputs/messages", "mlflow.spanInputs/input", "mlflow.spanInputs"),
        "output": ("mlflow.spanOutputs",),
        "system": ("mlflow.spanInputs/system", "mlflow.spanInputs/instructions"),
        "response": ("mlflow.spanOutputs/id",),
    },
)

DIALECTS = (GENAI, N8N, STRANDS, MEMORY_SEMCONV, OPENINFERENCE, OPENLLMETRY, VERCEL, LOGFIRE, LANGFUSE, ADK, MLFLOW)
"""Dialects in order of precedence; the first that knows a span's operation reads it."""

COMPACTED = "gen_ai.conversation.compacted"
"""Attribute, or name of an event, with which a span reports a compaction: a summary in place of earlier messages."""

SESSION = (
    "gen_ai.conversation.id",
    "session.id",
    "gcp.vertex.agent.session_id",
    "agent.session.id",
    "langfuse.session.id",
    *(
        f"{prefix}{name}"
        for prefix in ("traceloop.association.properties.", "ai.telemetry.metadata.", "langsmith.metadata.")
        for name in ("session_id", "sessionId", "thread_id", "threadId", "conversation_id", "conversationId", "chatId")
    ),
)
"""Attributes that name the conversation, on the span, on one around it, or else on its resource."""

NO_NAME = re.compile(r"\[Scrubbed due to |resp_\w{32}")
"""Start of a value that names nothing: what Logfire scrubbed, and the id of an answer, which Agent Framework gives."""
