"""A whole prompt for download: as text for reading, as JSON for sending it again. Pure."""

import json
from typing import Any

from memory_core.formats.openai_message import to_openai
from memory_core.history.prompt import Prompt
from memory_core.messages import ChatMessage, FilePart, ImagePart


def as_text(prompt: Prompt) -> str:
    """All messages in order, each under its role."""
    return "\n\n".join(f"[{message.role}]\n{_message_text(message)}" for message in prompt.messages) + "\n"


def _message_text(message: ChatMessage) -> str:
    # Markers in brackets stand for what is not text: attachments and tool calls.
    lines = [message.content or ""]
    lines += [f"[{part.type}: {part.url}]" for part in message.parts if isinstance(part, ImagePart | FilePart)]
    lines += [f"[tool call] {call.tool_name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(line for line in lines if line)


def as_json(prompt: Prompt) -> str:
    """Return the messages as a chat endpoint accepts them, with the numbers of the plan that chose them."""
    built = prompt.built
    data: dict[str, Any] = {
        "session": prompt.record.session_id,
        "turn": prompt.turn,
        "built_at": prompt.record.at,
        "tokens": {
            "limit": built.token_limit,
            "asked": built.asked,
            "sent": built.total,
            "billed": built.billed,
            "markup": built.markup_tokens,
            "message_overhead": built.overhead_tokens,
            "over_limit_by": built.over_by,
            "counted_by": built.accounting,
        },
        "insert_method": built.insert_method,
        "parts": [
            {"name": p.name, "kind": p.kind, "priority": p.priority, "asked": p.asked, "granted": p.granted}
            for p in prompt.parts
        ],
        "cuts": [
            {
                "part": cut.part.name,
                "rule": cut.rule,
                "over_before": cut.over_before,
                "tokens": cut.tokens,
                "words": [entry.words for entry in cut.entries],
            }
            for cut in prompt.cuts
        ],
        "messages": to_openai(prompt.messages),
    }
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
