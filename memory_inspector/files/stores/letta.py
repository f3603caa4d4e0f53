"""Letta's agent files (`.af`): agents with memory blocks, messages, and which messages are in context.

Only the names of tools are read, not their code.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from memory_core.config import MAX_TOKENS
from memory_core.errors import MessageError, problem
from memory_core.formats.openai_message import message_from_openai
from memory_core.messages import ChatMessage, seconds_of, storable
from memory_inspector.files.mirroring import MirroredBlock, TextVersion
from memory_inspector.files.stored import BlockNames, StoredConversation, counted

_FIELDS = ("role", "name", "tool_calls", "tool_call_id")
_ROLES = {"approval": "assistant", "summary": "system"}
"""Letta's additional roles: a call awaiting approval, and a summary of messages that left the context."""
_UNREADABLE = ("redacted_reasoning", "omitted_reasoning")
"""Content types without readable text."""


def is_agent_file(value: Any) -> bool:
    """Return whether a JSON value is an agent file, of this or an earlier version."""
    if not isinstance(value, dict):
        return False
    return isinstance(value.get("agents"), list) or ("core_memory" in value and "messages" in value)


def read_agent_file(value: Mapping[str, Any], *, filename: str) -> tuple[StoredConversation, ...]:
    """Parse the agents of an agent file, each as a conversation with its blocks.

    Raises:
        FormatError: The file is of an earlier version, has no agent, or is malformed.
    """
    if "agents" not in value:
        raise problem(
            filename,
            "is an agent file of an earlier version of Letta. Import it into Letta 0.11 or later and export it there.",
        )
    for name in ("agents", "blocks", "tools"):
        entries = value.get(name) or []
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise problem(filename, f'cannot be imported: "{name}" is not a list of objects.')
    if not value["agents"]:
        raise problem(filename, "is an agent file without agents.")
    return tuple(_agent(agent, value) for agent in value["agents"])


def _agent(agent: Mapping[str, Any], file: Mapping[str, Any]) -> StoredConversation:
    raw = agent.get("messages")
    entries = [entry for entry in raw if isinstance(entry, dict)] if isinstance(raw, list) else []
    in_context = agent.get("in_context_message_ids")
    # Without the list, every message counts as in context.
    current = {str(id) for id in in_context} if isinstance(in_context, list) else None
    archived = {n for n, entry in enumerate(entries) if current is not None and str(entry.get("id")) not in current}
    instructions = storable(agent.get("system"))[0]
    # The compiled message repeats the blocks, which would then be in the prompt twice.
    compiled = _compiled(entries, archived) if isinstance(instructions, str) and instructions.strip() else None
    messages = [
        ChatMessage(role="system", content=instructions) if n == compiled else _message(entry)
        for n, entry in enumerate(entries)
    ]
    return StoredConversation(
        str(agent.get("name") or "Agent"),
        tuple(messages),
        frozenset(archived),
        tuple(None if n == compiled else seconds_of(entry.get("created_at")) for n, entry in enumerate(entries)),
        tuple(_blocks(agent, file)),
        tuple(_left_out(agent, file, compiled=compiled is not None)),
        _context_window(agent),
    )


def _compiled(entries: Sequence[Mapping[str, Any]], archived: set[int]) -> int | None:
    """Return the index of the system message that Letta compiled from instructions and blocks."""
    candidates = (n for n, entry in enumerate(entries) if entry.get("role") == "system" and n not in archived)
    return next(candidates, None)


def _message(entry: Mapping[str, Any]) -> ChatMessage | MessageError:
    fields = {name: entry[name] for name in _FIELDS if entry.get(name) is not None}
    content = entry.get("content")
    parts = [*_parts(content)] if isinstance(content, list) else content
    try:
        role = _ROLES.get(str(fields.get("role")), fields.get("role"))
        message, _ = storable({**fields, "role": role, "content": parts})
        return message_from_openai(message)
    except MessageError as error:
        return error


def _parts(content: Sequence[Any]) -> Iterator[Any]:
    """Convert content parts to OpenAI's format; calls are read from the message's own list."""
    for part in content:
        match part:
            case {"type": "tool_return", "content": str(text)}:
                yield {"type": "text", "text": text}
            case {"type": "tool_call"}:
                continue
            case {"type": str(kind)} if kind in _UNREADABLE:
                continue
            case _:
                yield part


def _blocks(agent: Mapping[str, Any], file: Mapping[str, Any]) -> Iterator[MirroredBlock]:
    """Yield the blocks named by the agent, in its order, then those embedded in it."""
    by_id = {str(block.get("id")): block for block in file.get("blocks") or []}
    blocks = [by_id[str(id)] for id in agent.get("block_ids") or [] if str(id) in by_id]
    blocks += [block for block in agent.get("memory_blocks") or [] if isinstance(block, dict)]
    names = BlockNames()
    for block in blocks:
        limit, described = block.get("limit"), block.get("description")
        text, _ = storable(block.get("value"))
        yield MirroredBlock(
            names.free(block.get("label")),
            (TextVersion(text if isinstance(text, str) else ""),),
            description=described if isinstance(described, str) and described.strip() else None,
            # A `bool` is an `int` in Python.
            limit=limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None,
            read_only=block.get("read_only") is True,
        )


def _left_out(agent: Mapping[str, Any], file: Mapping[str, Any], *, compiled: bool) -> Iterator[str]:
    if compiled:
        yield (
            "its system message is compiled of instructions and blocks: the instructions come as a pinned message, "
            "the blocks as blocks"
        )
    ids = {str(id) for id in agent.get("tool_ids") or []}
    tools = [str(tool.get("name")) for tool in file.get("tools") or [] if not ids or str(tool.get("id")) in ids]
    if tools:
        yield (
            f"{'1 tool is' if len(tools) == 1 else f'{len(tools)} tools are'} not carried over ({counted(tools)}): "
            "here an agent edits its blocks with this app’s own tools"
        )
    model = agent.get("llm_config")
    if isinstance(model, dict) and model.get("model"):
        yield f"its model ({str(model['model'])[:60]}), rules for tools and secrets are not carried over"
    if file.get("files") or file.get("sources"):
        yield "its files and sources are not carried over"
    yield "what it had put into archival memory is not in an agent file"


def _context_window(agent: Mapping[str, Any]) -> int | None:
    model = agent.get("llm_config")
    limit = agent.get("context_window_limit") or (model.get("context_window") if isinstance(model, dict) else None)
    return limit if isinstance(limit, int) and 0 < limit <= MAX_TOKENS else None
