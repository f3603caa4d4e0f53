"""Name files that hold no conversation that is read here, so that nobody looks for a fault in them."""

from typing import Any

_NOT_READ = (
    ({"chat_metadata"}, "a chat of SillyTavern"),
    ({"mes", "is_user"}, "a chat of SillyTavern"),
    ({"internal", "visible"}, "a chat of text-generation-webui"),
    ({"chat", "title"}, "an export of Open WebUI"),
    ({"guild", "channel"}, "an export of Discord"),
    ({"type", "user", "ts"}, "an export of Slack"),
    ({"from_id"}, "an export of Telegram"),
    ({"fragments"}, "an export of DeepSeek"),
    ({"conversation", "responses"}, "an export of Grok"),
    ({"versions", "currentlySelected"}, "a chat of LM Studio"),
    ({"chunkedPrompt"}, "a prompt of AI Studio"),
    ({"requests", "responderUsername"}, "a chat of VS Code"),
    ({"eval", "samples"}, "a log of Inspect"),
    ({"observations"}, "a trace of Langfuse"),
    ({"inputs", "outputs"}, "a run of LangSmith"),
    ({"sender_id", "events"}, "a tracker of Rasa"),
    ({"Role", "Items"}, "a history of Semantic Kernel"),
    ({"object", "choices"}, "a chat completion"),
    ({"preferred_output"}, "a file for preference tuning"),
    ({"history", "folders"}, "an export of chatbot-ui"),
)
"""Fields of a file's object or first entry that identify a tool of which files are not read, and what the file is."""
CODING_SESSION = "this is a session of a coding agent. Open it with memory-inspector code."
_READ_ELSEWHERE = (
    ({"resourceSpans"}, "these are spans of OpenTelemetry. Send them to the app's receiver."),
    ({"nodes", "edges"}, "this is a graph. Import it on the page Graph."),
    ({"nodes", "links"}, "this is a graph. Import it on the page Graph."),
    ({"entities", "relations"}, "this is a graph. Open it with memory-inspector open."),
    ({"type", "entityType"}, "this is a memory file of MCP's server. Open it with memory-inspector open."),
    ({"type", "relationType"}, "this is a memory file of MCP's server. Open it with memory-inspector open."),
    ({"results"}, "this is an answer with results. Import memories on the page Facts."),
    ({"memory"}, "these are memories. Import them on the page Facts."),
    ({"fact"}, "these are facts. Import them on the page Facts."),
    ({"cells", "nbformat"}, "this is a notebook."),
    ({"custom_id"}, "these are requests or answers of a batch. Import the messages of one of them."),
    ({"sessionId", "uuid"}, CODING_SESSION),
    ({"payload", "timestamp"}, CODING_SESSION),
)
"""Fields that identify other files, with the page or command that takes them."""
_SENTENCES = (*((fields, f"this is {kind}, which is not read here.") for fields, kind in _NOT_READ), *_READ_ELSEWHERE)


def other_kind(value: Any) -> str | None:
    """Return what a value is that is no conversation, as the end of a sentence; None if it is of no known kind.

    >>> other_kind({"nodes": [], "edges": []})
    'this is a graph. Import it on the page Graph.'
    """
    fields = set(value) if isinstance(value, dict) else set()
    return next((sentence for wanted, sentence in _SENTENCES if wanted <= fields), None)
