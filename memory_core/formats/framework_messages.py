"""Messages as agent frameworks store them, as entries of OpenAI's form: Pydantic AI, agent-framework, AutoGen, ADK.

Fields by what pydantic-ai 2.68.0, agent-framework-core 1.23.0, autogen-core 0.7.5 and google-adk 2.13.0 write.
"""

from collections.abc import Iterator, Mapping
from typing import Any

Entry = dict[str, Any]

_AUTOGEN = {
    "UserMessage": "user", "SystemMessage": "system", "AssistantMessage": "assistant",
    "FunctionExecutionResultMessage": "tool", "TextMessage": "assistant", "MultiModalMessage": "assistant",
    "ToolCallRequestEvent": "assistant", "ToolCallExecutionEvent": "tool", "ThoughtEvent": "assistant",
    "ToolCallSummaryMessage": "assistant", "StopMessage": "assistant", "HandoffMessage": "assistant",
}  # fmt: skip
"""Role by the type of a message, of a model's context and of a team's thread."""
_FILED = {"id", "timestamp", "metadata", "created_at"}
_READ = {
    "pydantic_ai": _FILED | {
        "kind", "parts", "instructions", "run_id", "conversation_id", "usage", "model_name", "model_id",
        "provider_name", "provider_url", "provider_details", "provider_response_id", "finish_reason", "state",
        "canonical_system", "workspace_ref", "history_digest", "failed_attempts",
    },
    "agent_framework": _FILED | {
        "type", "role", "contents", "author_name", "message_id", "additional_properties", "raw_representation",
    },
    "autogen": _FILED | {"type", "content", "source", "thought", "models_usage"},
    "adk": _FILED | {
        "author", "content", "actions", "invocation_id", "branch", "usage_metadata", "partial", "turn_complete",
        "finish_reason", "long_running_tool_ids", "model_version", "avg_logprobs", "node_info", "output",
    },
}  # fmt: skip
"""Fields of each form that are read, or under which a message is filed."""


def framework_entries(data: Mapping[str, Any]) -> list[Entry] | None:
    """Return what a framework's message says, an entry for each role; None for a message of another form.

    >>> framework_entries({"type": "UserMessage", "content": "Soup?", "source": "user"})
    [{'role': 'user', 'content': ['Soup?'], 'name': None}]
    """
    form = _form(data)
    readers = {"pydantic_ai": _pydantic_ai, "agent_framework": _agent_framework, "autogen": _autogen, "adk": _adk}
    return None if form is None else list(readers[form](data))


def unread_of_framework(data: Mapping[str, Any]) -> list[str] | None:
    """Return the fields with content of a framework's message that are not read; None for another form."""
    form = _form(data)
    if form is None:
        return None
    read = _READ[form]
    # ADK writes its fields in either case.
    return [str(key) for key, value in data.items() if value and key not in read and _snake(str(key)) not in read]


def without_repeated_instructions(message: Any, former: Any) -> tuple[Any, Any]:
    """Return a message without instructions equal to the former, which each request of Pydantic AI's repeats.

    Also the instructions that are now the former.
    """
    instructions = message.get("instructions") if isinstance(message, Mapping) else None
    if instructions is None or instructions != former:
        return message, former if instructions is None else instructions
    return {**message, "instructions": None}, former


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


def _form(data: Mapping[str, Any]) -> str | None:
    match data:
        case {"kind": "request" | "response", "parts": list()} if "role" not in data:
            return "pydantic_ai"
        case {"role": str(), "contents": [{"type": str()}, *_]} if not data.get("content"):
            return "agent_framework"
        case {"type": str(kind), "content": _} if kind in _AUTOGEN and "role" not in data:
            return "autogen"
        case {"author": str(), "content": {"parts": _}} | {"author": str(), "actions": dict()} if "role" not in data:
            return "adk"
    return None


def _pydantic_ai(message: Mapping[str, Any]) -> Iterator[Entry]:
    if message["kind"] == "request" and message.get("instructions"):
        yield {"role": "system", "content": message["instructions"]}
    contents: list[Any] = []
    role = "user" if message["kind"] == "request" else "assistant"
    for part in message["parts"]:
        if not isinstance(part, Mapping):
            contents.append(part)
            continue
        content, time, kind = part.get("content"), {"timestamp": part.get("timestamp")}, str(part.get("part_kind"))
        if part.get("tool_name") and not kind.endswith("-call") and contents:  # what was said before a result
            yield {"role": role, "content": contents}
            contents = []
        match kind:
            case "user-prompt":
                items = content if isinstance(content, list) else [content]
                yield {"role": "user", "content": [_pydantic_ai_content(item) for item in items], **time}
            case "text":
                contents.append(content)
            case "thinking":
                contents.append({"type": "thinking", "thinking": content})
            case "speech":
                contents.append(part.get("transcript"))
            case "file":
                contents.append(_pydantic_ai_content(content))
            case _ if kind.endswith("-call") and part.get("tool_name"):
                contents.append({"type": "tool_call", **part, "id": part.get("tool_call_id")})
            case _ if part.get("tool_name"):  # a result, or the reason that the call has to be made again
                yield {"role": "tool", "content": content, "tool_call_id": part.get("tool_call_id"), **time} | {
                    "name": part["tool_name"]
                }
            case _ if content:  # a system prompt, a summary of what was left out, or what the program asks for again
                yield {"role": "system", "content": content, **time}
    if contents:
        yield {"role": role, "content": contents}


def _pydantic_ai_content(item: Any) -> Any:
    if not isinstance(item, Mapping) or not isinstance(kind := item.get("kind"), str):
        return item
    if kind == "text-content":
        return item.get("content")
    kind = "file" if kind in ("binary", "uploaded-file") else kind
    return [] if kind == "cache-point" else {"type": kind, **item}


def _agent_framework(message: Mapping[str, Any]) -> Iterator[Entry]:
    contents = [
        {**item, "type": "reasoning"} if isinstance(item, Mapping) and item.get("type") == "text_reasoning" else item
        for item in message["contents"]
        if not isinstance(item, Mapping) or item.get("type") != "usage"
    ]
    yield {"role": message["role"], "content": contents, "name": message.get("author_name")}


def _autogen(message: Mapping[str, Any]) -> Iterator[Entry]:
    kind, content = str(message["type"]), message["content"]
    contents = content if isinstance(content, list) else [content]
    # In a team's thread the user is known by the name of the source alone.
    may_be_users = kind in ("TextMessage", "MultiModalMessage", "StopMessage", "HandoffMessage")
    role = "user" if may_be_users and message.get("source") == "user" else _AUTOGEN[kind]
    if role == "tool":
        for result in contents:
            if not isinstance(result, Mapping):
                result = {"content": result}
            yield {"role": role, "content": result.get("content"), "tool_call_id": result.get("call_id")} | {
                "name": result.get("name")
            }
        return
    calls = [item for item in contents if isinstance(item, Mapping) and "arguments" in item]
    words = [
        {"type": "image", **item} if isinstance(item, Mapping) and "data" in item else item
        for item in contents
        if not (isinstance(item, Mapping) and "arguments" in item)
    ]
    if kind == "ThoughtEvent":
        words = [{"type": "thinking", "thinking": content}]
    # Beside calls, what the model thought is the text of its answer.
    if thought := message.get("thought"):
        words = [thought if calls else {"type": "thinking", "thinking": thought}, *words]
    source = message.get("source") if role == "assistant" else None
    yield {"role": role, "content": words, "name": source} | ({"tool_calls": calls} if calls else {})


def _adk(event: Mapping[str, Any]) -> Iterator[Entry]:
    actions, content = event.get("actions"), event.get("content")
    compaction = actions.get("compaction") if isinstance(actions, Mapping) else None
    if isinstance(compaction, Mapping):
        summary = compaction.get("compacted_content") or compaction.get("compactedContent")
        if isinstance(summary, Mapping):
            yield {"role": "system", "content": summary.get("parts")}
    # The pieces of a stream come again in the whole answer.
    if isinstance(content, Mapping) and content.get("parts") and not event.get("partial"):
        author = str(event["author"])
        by_user = author == "user" or content.get("role") == "user"
        yield {"role": "user" if by_user else "assistant", "content": content["parts"]} | (
            {} if by_user else {"name": author}
        )
