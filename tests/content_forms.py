"""Parts of messages in the forms of other libraries, with what each becomes; and parts of no known form."""

from memory_core.messages import FilePart, ImagePart, TextPart, ThinkingPart, ToolCallPart

PNG = "data:image/png;base64,AA=="
CALL = ToolCallPart(tool_call_id="c", tool_name="look", tool_kwargs={"at": "sky"})
THOUGHT = ThinkingPart(text="Hm.")

CONTENT = {
    "chat image": ({"type": "image_url", "image_url": {"url": PNG}}, ImagePart(url=PNG)),
    "anthropic image": (
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}},
        ImagePart(url=PNG),
    ),
    "anthropic image by address": (
        {"type": "image", "source": {"type": "url", "url": "https://a.test/a.png"}},
        ImagePart(url="https://a.test/a.png"),
    ),
    "anthropic text document": (
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Once."}},
        TextPart(text="Once."),
    ),
    "anthropic pdf": (
        {"type": "document", "title": "A", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA"}},
        FilePart(type="document", url="data:application/pdf;base64,AA", title="A"),
    ),
    "anthropic thinking": ({"type": "thinking", "thinking": "Hm.", "signature": "s"}, THOUGHT),
    "anthropic call": ({"type": "tool_use", "id": "c", "name": "look", "input": {"at": "sky"}}, CALL),
    "gemini image": ({"inlineData": {"mimeType": "image/png", "data": "AA=="}}, ImagePart(url=PNG)),
    "gemini file": (
        {"fileData": {"fileUri": "gs://a/b.mp4", "mimeType": "video/mp4"}},
        FilePart(type="video", url="gs://a/b.mp4"),
    ),
    "gemini thought": ({"text": "Hm.", "thought": True}, THOUGHT),
    "gemini call": ({"functionCall": {"id": "c", "name": "look", "args": {"at": "sky"}}}, CALL),
    "mistral thinking": ({"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, THOUGHT),
    "mistral document": (
        {"type": "document_url", "document_url": "https://a.test/a.pdf", "document_name": "A"},
        FilePart(type="document", url="https://a.test/a.pdf", title="A"),
    ),
    "mistral audio": ({"type": "input_audio", "input_audio": "AA"}, FilePart(type="audio", url="data:;base64,AA")),
    "langchain image": ({"type": "image", "base64": "AA==", "mime_type": "image/png"}, ImagePart(url=PNG)),
    "langchain reasoning": ({"type": "reasoning", "reasoning": "Hm."}, THOUGHT),
    "langchain call": ({"type": "tool_call", "id": "c", "name": "look", "args": {"at": "sky"}}, CALL),
    "responses reasoning": (
        {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]},
        THOUGHT,
    ),
    "responses call": (
        {"type": "function_call", "id": "fc", "call_id": "c", "name": "look", "arguments": '{"at": "sky"}'},
        CALL,
    ),
    "bedrock reasoning": ({"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}}, THOUGHT),
    "bedrock call": ({"toolUse": {"toolUseId": "c", "name": "look", "input": {"at": "sky"}}}, CALL),
    "bedrock image": ({"image": {"format": "png", "source": {"bytes": "AA=="}}}, ImagePart(url=PNG)),
    "vercel call": ({"type": "tool-call", "toolCallId": "c", "toolName": "look", "input": {"at": "sky"}}, CALL),
    "vercel file": ({"type": "file", "mediaType": "image/png", "data": "AA=="}, ImagePart(url=PNG)),
    "assistants text": ({"type": "text", "text": {"value": "Hi", "annotations": []}}, TextPart(text="Hi")),
    "text without a type": ({"text": "Hi"}, TextPart(text="Hi")),
}

UNREAD = [
    {"type": "redacted_thinking", "data": "AA"},
    {"type": "reasoning", "summary": [], "encrypted_content": "AA"},
    {"type": "web_search_call", "id": "w", "status": "completed"},
    {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "q"}},
    {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
    {"cachePoint": {"type": "default"}},
    {"type": "video_url"},
    {"type": ["text"]},
]

HALF, DEEP = "\ud83d", []
for _ in range(200):
    DEEP = [DEEP]
UNSTORABLE = [
    {"type": "later", "x": object()},
    {"type": "later", "x": float("nan")},
    {"type": "later", "x": DEEP},
    {"type": "text", "text": f"Half {HALF}"},
    {"type": "tool_use", "id": "c", "name": "look", "input": {"at": [HALF, float("inf"), DEEP]}},
]
"""Parts that no store takes as they are, as a program's objects or a model's characters may be."""

PARTS = [*(entry for entry, _ in CONTENT.values()), *UNREAD, *UNSTORABLE]
