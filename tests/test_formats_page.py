"""`docs/reference/formats.md` says of each form what is read, kept and left out, as these samples come out.

`python tests/test_formats_page.py` writes its table anew.
"""

import json
import sys
from pathlib import Path

import pytest

from memory_core.formats.any_message import read_messages
from memory_core.formats.llamaindex_message import message_from_llamaindex
from memory_core.formats.openai_message import OTHER
from memory_inspector.files.files import read_file
from memory_inspector.files.openai_items import messages_from_items
from memory_inspector.recorder.prompt_messages import messages_of
from memory_inspector.recorder.wire import Answered, read_exchange

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "formats.md"
BEGIN, END = "<!-- made by tests/test_formats_page.py -->", "<!-- end -->"

COLUMNS = ("text", "reasoning", "picture", "file", "call", "result", "unknown")
PNG, PDF = "data:image/png;base64,AA==", "data:application/pdf;base64,AA=="
UNKNOWN = {"type": "hologram", "beam": 1}


def user(part):
    return {"role": "user", "content": [part]}


def assistant(part):
    return {"role": "assistant", "content": [part]}


CHAT_CALL = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
CHAT_RESULT = {"role": "tool", "tool_call_id": "c", "content": "blue"}
OPENAI = {
    "text": user({"type": "text", "text": "Hi"}),
    "reasoning": {"role": "assistant", "content": "x", "reasoning_content": "Hm."},
    "picture": user({"type": "image_url", "image_url": {"url": PNG}}),
    "file": user({"type": "file", "file": {"file_data": PDF, "filename": "a.pdf"}}),
    "call": CHAT_CALL,
    "result": CHAT_RESULT,
    "unknown": assistant(UNKNOWN),
}
RESPONSES = {
    "text": user({"type": "input_text", "text": "Hi"}),
    "reasoning": {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]},
    "picture": user({"type": "input_image", "image_url": PNG}),
    "file": user({"type": "input_file", "file_data": PDF, "filename": "a.pdf"}),
    "call": {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
    "result": {"type": "function_call_output", "call_id": "c", "output": "blue"},
    "unknown": {"type": "hologram_call", "id": "h", "status": "completed"},
}
ANTHROPIC = {
    "text": user({"type": "text", "text": "Hi"}),
    "reasoning": assistant({"type": "thinking", "thinking": "Hm.", "signature": "s"}),
    "picture": user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
    "file": user({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}),
    "call": assistant({"type": "tool_use", "id": "c", "name": "f", "input": {}}),
    "result": user({"type": "tool_result", "tool_use_id": "c", "content": "blue"}),
    "unknown": assistant({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}),
}
GEMINI = {
    column: {"role": role, "parts": [part]}
    for column, role, part in (
        ("text", "user", {"text": "Hi"}),
        ("reasoning", "model", {"text": "Hm.", "thought": True}),
        ("picture", "user", {"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
        ("file", "user", {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://a.pdf"}}),
        ("call", "model", {"functionCall": {"name": "f", "args": {}}}),
        ("result", "user", {"functionResponse": {"name": "f", "response": {"result": "blue"}}}),
        ("unknown", "model", {"executableCode": {"code": "1 + 1", "language": "PYTHON"}}),
    )
}
MISTRAL = {
    **OPENAI,
    "reasoning": assistant({"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}),
    "file": user({"type": "document_url", "document_url": "https://a.test/a.pdf"}),
    "unknown": assistant({"type": "reference", "reference_ids": [1]}),
}
BEDROCK = {
    "text": user({"text": "Hi"}),
    "reasoning": assistant({"reasoningContent": {"reasoningText": {"text": "Hm."}}}),
    "picture": user({"image": {"format": "png", "source": {"bytes": "AA=="}}}),
    "file": user({"document": {"format": "pdf", "name": "a", "source": {"bytes": "AA=="}}}),
    "call": assistant({"toolUse": {"toolUseId": "c", "name": "f", "input": {}}}),
    "result": user({"toolResult": {"toolUseId": "c", "content": [{"text": "blue"}]}}),
    "unknown": assistant({"cachePoint": {"type": "default"}}),
}


def langchain(kind, content, **fields):
    return {"type": kind, "data": {"content": content, **fields}}


LANGCHAIN = {
    "text": langchain("human", "Hi"),
    "reasoning": langchain("ai", [{"type": "reasoning", "reasoning": "Hm."}]),
    "picture": langchain("human", [{"type": "image", "base64": "AA==", "mime_type": "image/png"}]),
    "file": langchain("human", [{"type": "file", "base64": "AA==", "mime_type": "application/pdf"}]),
    "call": langchain("ai", "", tool_calls=[{"id": "c", "name": "f", "args": {}}]),
    "result": langchain("tool", "blue", tool_call_id="c"),
    "unknown": langchain("ai", [{"type": "non_standard", "value": UNKNOWN}]),
}
LLAMAINDEX = {
    column: {"role": role, "blocks": [block], "additional_kwargs": kwargs}
    for column, role, block, kwargs in (
        ("text", "user", {"block_type": "text", "text": "Hi"}, {}),
        ("reasoning", "assistant", {"block_type": "thinking", "content": "Hm."}, {}),
        ("picture", "user", {"block_type": "image", "image": "AA==", "image_mimetype": "image/png"}, {}),
        ("file", "user", {"block_type": "document", "data": "AA==", "document_mimetype": "application/pdf"}, {}),
        (
            "call",
            "assistant",
            {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "f", "tool_kwargs": {}},
            {},
        ),
        ("result", "tool", {"block_type": "text", "text": "blue"}, {"tool_call_id": "c"}),
        ("unknown", "assistant", {"block_type": "hologram", "beam": 1}, {}),
    )
}
VERCEL = {
    "text": user({"type": "text", "text": "Hi"}),
    "reasoning": assistant({"type": "reasoning", "text": "Hm."}),
    "picture": user({"type": "image", "image": PNG}),
    "file": user({"type": "file", "mediaType": "application/pdf", "data": "AA=="}),
    "call": assistant({"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}),
    "result": {
        "role": "tool",
        "content": [{"type": "tool-result", "toolCallId": "c", "output": {"type": "text", "value": "blue"}}],
    },
    "unknown": assistant({"type": "tool-approval-request", "approvalId": "a"}),
}


def chatgpt(role, kind, *, recipient="all", **content):
    return {"author": {"role": role}, "recipient": recipient, "content": {"content_type": kind, **content}}


CHATGPT = {
    "text": chatgpt("user", "text", parts=["Hi"]),
    "reasoning": chatgpt("assistant", "thoughts", thoughts=[{"summary": "S", "content": "Hm."}]),
    "picture": chatgpt("user", "multimodal_text", parts=[{"content_type": "image_asset_pointer", "asset_pointer": "file-service://f"}]),
    "call": chatgpt("assistant", "code", text="1 + 1", recipient="python"),
    "result": chatgpt("tool", "execution_output", text="2"),
    "unknown": chatgpt("user", "multimodal_text", parts=[{"content_type": "audio_asset_pointer", "asset": "a"}]),
}  # fmt: skip
CLAUDE = {
    "text": {"sender": "human", "text": "Hi"},
    "reasoning": {"sender": "assistant", "content": [ANTHROPIC["reasoning"]["content"][0]]},
    "file": {"sender": "human", "text": "Hi", "attachments": [{"extracted_content": "pasted"}]},
    "call": {"sender": "assistant", "content": [ANTHROPIC["call"]["content"][0]]},
    "result": {"sender": "assistant", "content": [ANTHROPIC["result"]["content"][0]]},
    "unknown": {"sender": "assistant", "content": [UNKNOWN]},
}
SHAREGPT = {
    "text": {"from": "human", "value": "Hi"},
    "call": {"from": "function_call", "value": '{"name": "f", "arguments": {}}'},
    "result": {"from": "observation", "value": "blue"},
}
GENAI = {
    column: {"role": role, "parts": [part]}
    for column, role, part in (
        ("text", "user", {"type": "text", "content": "Hi"}),
        ("reasoning", "assistant", {"type": "reasoning", "content": "Hm."}),
        ("picture", "user", {"type": "blob", "modality": "image", "mime_type": "image/png", "content": "AA=="}),
        ("file", "user", {"type": "uri", "modality": "document", "uri": "https://a.test/a.pdf"}),
        ("call", "assistant", {"type": "tool_call", "id": "c", "name": "f", "arguments": {}}),
        ("result", "tool", {"type": "tool_call_response", "id": "c", "response": "blue"}),
        ("unknown", "assistant", UNKNOWN),
    )
}


def from_file(name, whole):
    """Reads a message as a file of its own, by the app's import."""

    return lambda message: read_file(name, json.dumps(whole(message)).encode()).conversation(0).messages


def from_call(endpoint, field):
    """Reads a message as the prompt of a recorded call."""
    return lambda message: (
        read_exchange(endpoint, json.dumps({"model": "m", field: [message]}).encode(), Answered(200, b"{}")).messages
    )


def chatgpt_export(message):
    return [{"title": "t", "current_node": "a", "mapping": {"a": {"id": "a", "parent": None, "message": message}}}]


ROWS = {
    "OpenAI chat completions, in Python and files": (OPENAI, read_messages),
    "OpenAI Responses: items of a list or of the Agents SDK": (RESPONSES, lambda item: messages_from_items([item])),
    "Anthropic": (ANTHROPIC, read_messages),
    "Gemini": (GEMINI, read_messages),
    "Mistral": (MISTRAL, read_messages),
    "Bedrock": (BEDROCK, read_messages),
    "LangChain and LangGraph": (LANGCHAIN, from_file("l.json", lambda message: [message])),
    "LlamaIndex": (LLAMAINDEX, lambda message: [message_from_llamaindex(message)[0]]),
    "Vercel AI SDK": (VERCEL, read_messages),
    "export of ChatGPT": (CHATGPT, from_file("c.json", chatgpt_export)),
    "export of Claude": (CLAUDE, from_file("c.json", lambda message: [{"name": "t", "chat_messages": [message]}])),
    "ShareGPT": (SHAREGPT, from_file("s.json", lambda message: [{"conversations": [message]}])),
    "spans: GenAI conventions": (GENAI, lambda message: messages_of([message], "user")),
    "spans: Vercel AI SDK": (VERCEL, lambda message: messages_of([message], "user")),
    "proxy: `/chat/completions`": (OPENAI, from_call("chat/completions", "messages")),
    "proxy: `/responses`": (RESPONSES, from_call("responses", "input")),
    "proxy: `/messages`": (ANTHROPIC, from_call("messages", "messages")),
    "proxy: `generateContent`": (GEMINI, from_call("generateContent", "contents")),
}
WANTED = {"text": ("text",), "reasoning": ("thinking",), "picture": ("image",), "file": ("document", "text")}


def outcome(column, read, message):
    """What became of one kind of content: `read`, `kept` beside the words, `as JSON`, `as a call`, `left out`."""
    found = read(message)
    parts = [part for each in found for part in each.parts]
    if column == "call":
        return "read" if any(each.tool_calls for each in found) else "left out"
    if column == "result":
        return "read" if any(each.role == "tool" and each.content for each in found) else "left out"
    if column != "unknown":
        return "read" if any(part.type in WANTED[column] for part in parts) else kept(found)
    if any(each.tool_calls for each in found):
        return "as a call"
    return "as JSON" if any(part.type == "text" and part.text.startswith("{") for part in parts) else kept(found)


def kept(found):
    beside = any(each.additional_kwargs.get(OTHER) or each.additional_kwargs.get("openai_items") for each in found)
    return "kept" if beside else "left out"


def table():
    lines = [f"| form | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 1) + "|"]
    for name, (samples, read) in ROWS.items():
        cells = [outcome(column, read, samples[column]) if column in samples else "–" for column in COLUMNS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_the_page_of_formats_says_what_the_samples_become():
    page = PAGE.read_text(encoding="utf-8")
    assert page.partition(BEGIN)[2].partition(END)[0].strip() == table()


@pytest.mark.parametrize("name", ROWS)
def test_nothing_that_a_form_has_a_place_for_is_left_out(name):
    samples, read = ROWS[name]
    assert {column: outcome(column, read, message) for column, message in samples.items()} == {
        column: found for column, message in samples.items() if (found := outcome(column, read, message)) != "left out"
    }


if __name__ == "__main__":
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{table()}\n\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    sys.stdout.write(table() + "\n")
