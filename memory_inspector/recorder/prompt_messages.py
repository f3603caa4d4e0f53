"""Messages of a prompt as the model read them: from requests of the model APIs, and from span attributes. Pure.

Nothing is refused; values that a message cannot hold, and unknown parts, become JSON text in it. Unlike those of
`openai_items`, these messages cannot be converted back.

A prompt after an agent's compaction is recognised by a text that stands in place of earlier messages. Seen 2026-11-29
in Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, Qwen Code 0.24.4, OpenCode 1.18.33 and pi 0.73.1: a call asks
for the summary, and the next prompt holds its words. Of a prompt that merely left messages out, as a sliding window
does, nothing is claimed.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.any_message import langchain_fields, read_messages
from memory_core.formats.content import Unread, first_text
from memory_core.formats.openai_message import messages_from_openai
from memory_core.messages import ChatMessage, MessageRole, Part, TextPart, ThinkingPart

_FRAME = frozenset({"type", "id", "call_id", "name", "status"})
"""Fields of an item other than its content."""
NOBODYS_WORDS = frozenset({"additional_tools", "configuration_update", "compaction_trigger", "item_reference"})
"""Items of the Responses API that nobody says: definitions of tools, settings, and requests to the endpoint."""
_SPOKEN = frozenset({"message", "reasoning", "compaction"})
_OF_TOOLS = re.compile(r"^(mcp|input)_|_(call|output|response)$")
"""Types of items of tools, and of a user's words, all of whose fields are kept."""
_WORDS = frozenset({"text", "content", "summary", "message", "input", "output", "arguments", "refusal"})
"""Fields with words in an item of an unknown type."""
_SEALABLE = {"thinking": "thinking", "redacted_thinking": "thinking", "compaction": "content"}
"""Field with the words of a block, by the type of the block."""


def read_message(data: Any) -> list[ChatMessage]:
    """Return the messages of an entry. An entry that is no message becomes a user message with the JSON as its text."""
    # An entry with content but no role was not written by the model: it is read as a user's.
    if isinstance(data, Mapping) and "role" not in data and "content" in data:
        data = {"role": "user", **data}
    try:
        return messages_from_openai(data, any_role=True, other_as_text=True)
    except MessageError:
        return [ChatMessage(data if isinstance(data, str) else Unread(data).text)]


def read_blocks(data: Any) -> list[ChatMessage]:
    """Return the messages of one of Anthropic's, in which calls and results of hosted tools are as those of others.

    Marks for caching are dropped, because they move with each call, and so are sealed blocks.
    """
    content = data.get("content") if isinstance(data, Mapping) else None
    if not isinstance(content, list):
        return read_message(data)
    blocks = [_plain_block(block) for block in content if not _is_sealed(block)]
    return read_message({**data, "content": blocks}) if blocks or not content else []


def _plain_block(block: Any) -> Any:
    if not isinstance(block, Mapping):
        return block
    kind = next((name for name in ("tool_use", "tool_result") if str(block.get("type")).endswith(f"_{name}")), None)
    plain = {key: value for key, value in block.items() if key != "cache_control"}
    return {**plain, "type": kind} if kind else plain


def _is_sealed(block: Any) -> bool:
    """Return whether a block has words that only the endpoint can read, or none: reasoning, a failed compaction."""
    words = _SEALABLE.get(str(block.get("type"))) if isinstance(block, Mapping) else None
    return words is not None and not block.get(words)


def read_items(items: Iterable[Any]) -> list[ChatMessage]:
    """Return the messages of a list of Responses API items.

    Left out are items that are nobody's words, and sealed ones: reasoning and compactions without text.
    """
    messages: list[ChatMessage] = []
    for item in items:
        for message in _read_item(item):
            # One answer is several items of the API, and one message.
            if messages and message.role is messages[-1].role is MessageRole.ASSISTANT:
                message = messages[-1].with_parts([*messages.pop().parts, *message.parts])
            messages.append(message)
    return messages


def is_nobodys(item: Any) -> bool:
    """Return whether an item says nothing: it is of `NOBODYS_WORDS`, or of an unknown type and without words."""
    kind = item.get("type") if isinstance(item, Mapping) else None
    if not isinstance(kind, str) or kind in _SPOKEN or _OF_TOOLS.search(kind):
        return False
    return kind in NOBODYS_WORDS or _WORDS.isdisjoint(item)


def _read_item(item: Any) -> list[ChatMessage]:
    if is_nobodys(item) or (isinstance(item, Mapping) and item.get("encrypted_content") and _is_sealed(item)):
        return []
    kind = item.get("type", "message") if isinstance(item, Mapping) else "message"
    if kind == "message" or not isinstance(kind, str):
        return read_message(item)
    if kind == "reasoning":
        thought = read_message({"role": "assistant", "content": [item]})
        # Encrypted reasoning has no words, and is the only item that is left out.
        return [message for message in thought if isinstance(next(iter(message.parts), None), ThinkingPart)]
    answers = first_text(item, "call_id", "approval_request_id", "id")
    if kind.endswith("_output"):
        output = item.get("output")
        # Some results have fields of their own in place of `output`: all but the frame is kept as text.
        rest = {key: value for key, value in item.items() if key not in _FRAME} if output is None else output
        return read_message({"role": "tool", "tool_call_id": answers, "content": rest})
    if kind.endswith("_call"):
        picture = _picture(kind, item)
        # The bytes of the picture must not be counted once more as text of the call.
        remaining = {key: value for key, value in item.items() if key != "result"} if picture else item
        return read_message({"role": "assistant", "content": picture, "tool_calls": [_called(kind, remaining)]})
    from_user = kind.startswith("input_") or kind.endswith("_response")
    return read_message({"role": "user" if from_user else "assistant", "content": [item]})


def _picture(kind: str, item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the picture of an image generation call as content, so that its bytes do not count as text."""
    if kind != "image_generation_call" or not (data := first_text(item, "result")):
        return []
    return [{"type": "image", "data": data, "mime_type": f"image/{first_text(item, 'output_format') or 'png'}"}]


def _called(kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item's tool call; if the tool ran at the endpoint, the arguments include its result."""
    call = {
        "call_id": first_text(item, "call_id", "id"),
        "name": first_text(item, "name") or kind.removesuffix("_call"),
    }
    if kind in ("function_call", "custom_tool_call"):
        return {**call, "arguments": item.get("arguments", item.get("input"))}
    return {**call, "arguments": {key: value for key, value in item.items() if key not in _FRAME}}


# -- from span attributes, in any form of the conventions -----------------------------------------


EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "assistant",
}
"""Role by event name; in the conventions before version 1.37, each message was an event."""

MAX_STEPS = 16
"""Maximum depth of a flattened attribute name; OpenInference has eight."""

_CUT_OFF = re.compile(r"""\s*(\[\s*[\[{"]|\{\s*")""")
"""Matches the start of JSON, but not of texts such as `[INST]`, `{{name}}` and `[laughs]`."""
_SAYS = ("role", "message", "parts", "contents", "content", "tool_calls")
"""Fields of a message; an object with none of them is taken as message content."""
_LISTS = ("messages", "message", "input", "contents", "generations", "choices", "output")
"""Keys under which an attribute's object holds messages: a list of them, or a text."""
_INSTRUCTIONS = ("instructions", "system")
"""Keys of a system prompt beside the messages."""
_ROLES = {"tool-response": "tool", "tool-call": "assistant"}
"""Role of a message by a name that only smolagents has: an observation is nobody's words."""
_ITEM = re.compile(r"reasoning|(?!tool_)\w+_call(_output)?")
"""Types of items of the Responses API that have no role."""


def decoded(value: Any) -> Any:
    """Decode a value that may be JSON text; other text is returned as is.

    Raises:
        MessageError: The JSON is truncated, for example by an exporter's limit.
    """
    if not isinstance(value, str) or value.lstrip()[:1] not in ("[", "{"):
        return value
    try:
        return json.loads(value)
    except json.JSONDecodeError as error:
        # An error at the end of what looks like JSON is a value that was cut off; any other is text in brackets.
        at_end = error.pos >= len(value.rstrip()) - 1 or error.msg.startswith("Unterminated string")
        if not (at_end and _CUT_OFF.match(value)):
            return value
        raise MessageError("is JSON that was cut off: leave OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT unset") from None
    except RecursionError:
        raise MessageError("is nested too deep") from None
    except ValueError:  # an integer with more digits than Python parses
        return value


def messages_of(value: Any, role: str) -> list[ChatMessage]:
    """Parse the messages in an attribute's value; a message without a role gets `role`.

    Raises:
        MessageError: It holds no messages.
    """
    entries = _entries(value, "messages")
    if any(isinstance(entry, Mapping) and entry.get("event.name") in EVENTS for entry in entries):
        # Logfire puts all events of the older conventions into one attribute.
        events = [(str(entry.get("event.name")), entry) for entry in entries if isinstance(entry, Mapping)]
        return messages_of_events(_with_choice(events), said=role == MessageRole.ASSISTANT)
    if any(_is_item(entry) for entry in entries):
        return read_items(entries)
    return [message for entry in entries for message in _messages(entry, role)]


def answers_of(value: Any) -> list[ChatMessage]:
    """Parse the answers in an attribute's value; the pieces of a streamed answer, one entry each, are one message.

    Raises:
        MessageError: It holds no messages.
    """
    answers = messages_of(value, MessageRole.ASSISTANT)
    entries = _entries(value, "messages")
    *pieces, last = [entry.get("finish_reason") if isinstance(entry, Mapping) else None for entry in entries] or [None]
    if not 2 <= len(answers) <= len(entries) or any(reason != "" for reason in pieces) or last is None:
        return answers
    # Some clients give the whole answer once more behind its pieces.
    *streamed, whole = answers
    text = "".join(answer.content or "" for answer in streamed)
    if text and (whole.content or "") == text:
        return [whole]
    return [whole.with_parts(_joined([part for answer in answers for part in answer.parts]))]


def answers_in_value(value: Any) -> list[ChatMessage]:
    """Return the answers in a whole response, alone or in a list; none in anything else."""
    response = decoded(value)
    response = response[0] if isinstance(response, list) and len(response) == 1 else response
    if not isinstance(response, Mapping) or not any(
        isinstance(response.get(key), list) for key in ("output", "choices")
    ):
        return []
    return messages_of(response, MessageRole.ASSISTANT)


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Return the parts with texts that follow each other as one."""
    result: list[Part] = []
    for part in parts:
        if isinstance(part, TextPart) and result and isinstance(before := result[-1], TextPart):
            result[-1] = TextPart(text=before.text + part.text)
        else:
            result.append(part)
    return result


def _is_item(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "role" not in entry and bool(_ITEM.fullmatch(str(entry.get("type"))))


def _with_choice(events: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, Mapping[str, Any]]]:
    """Return events in which the answer is named as one: some emitters name it as they name those of the prompt."""
    if any(name == "gen_ai.choice" for name, _ in events):
        return list(events)
    # The model answers what the user, a tool or the system said last.
    ends = [place for place, (name, _) in enumerate(events, 1) if EVENTS.get(name) not in (None, "assistant")]
    answer = max(ends, default=0)
    return [(name if place < answer else "gen_ai.choice", entry) for place, (name, entry) in enumerate(events)]


def instructions(value: Any) -> list[ChatMessage]:
    """Return instructions sent beside the messages as a list of one system message; empty for empty instructions.

    Raises:
        MessageError: They are neither text nor parts.
    """
    return list(_messages({"content": _entries(value, "instructions")}, MessageRole.SYSTEM))


def calls_of(value: Any) -> list[ChatMessage]:
    """Return a message with the tool calls that are stored apart from the answer's text; empty without calls."""
    return list(_messages({"tool_calls": value}, MessageRole.ASSISTANT))


def _entries(value: Any, what: str) -> list[Any]:
    """Return the entries of an attribute's value as a list; a text or a single message is a list of one."""
    entries, before = decoded(value), list[Any]()
    if isinstance(entries, Mapping) and "role" not in entries:
        before = [{"role": "system", "content": entries[name]} for name in _INSTRUCTIONS if entries.get(name)]
        inside = next((entries[name] for name in _LISTS if isinstance(entries.get(name), list | str)), None)
        entries, before = (entries, []) if inside is None else (inside, before)
    if isinstance(entries, str | Mapping):
        return [*before, entries]
    if not isinstance(entries, list):
        raise MessageError(f"holds no {what}")
    # Of several prompts that were sent at once, the first.
    return [*before, *(entries[0] if entries and isinstance(entries[0], list) else entries)]


def messages_of_events(events: Iterable[tuple[str, Mapping[str, Any]]], *, said: bool) -> list[ChatMessage]:
    """Parse messages stored one per event: those of the answer if `said`, else those of the prompt."""
    return [
        message
        for name, attributes in events
        if name in EVENTS and (name == "gen_ai.choice") == said
        for message in _messages(_of_event(attributes), EVENTS[name])
    ]


def _of_event(attributes: Mapping[str, Any]) -> Any:
    """Parse an event's message; its body is flattened to attributes, with objects as JSON."""
    body = {name: _objects(value) for name, value in attributes.items()}
    inner = body.get("message")
    if isinstance(content := body.get("content"), Mapping) and "parts" in content:  # Gemini's, with its own role
        return content
    return inner if isinstance(inner, Mapping) else body if inner is None else {**body, "content": inner}


def _objects(value: Any) -> Any:
    """Decode objects written as JSON; leave other text alone."""
    try:
        parsed = decoded(value)
    except MessageError:
        return value
    inside = parsed if isinstance(parsed, list) else [parsed]
    return parsed if inside and all(isinstance(item, Mapping) for item in inside) else value


def _messages(entry: Any, role: str) -> Iterator[ChatMessage]:
    """Parse one entry; several tool results become a message each, as their ids distinguish them."""
    inner = entry.get("message") if isinstance(entry, Mapping) else None
    entry = inner if isinstance(inner, Mapping) else entry
    if isinstance(entry, Mapping) and langchain_fields(entry) is not None:
        yield from read_messages(entry, other_as_text=True)
        return
    # An object without a message's fields is itself the content.
    if isinstance(entry, Mapping) and not any(name in entry for name in _SAYS):
        entry = json.dumps(entry, ensure_ascii=False)
    if isinstance(entry, str):
        entry = {"content": entry}
    if not isinstance(entry, Mapping):
        raise MessageError("holds no messages")
    named = str(entry.get("role") or role)
    named = _ROLES.get(named, named)
    content, calls = _without_calls(_content(entry), _objects(entry.get("tool_calls")))
    # On a tool result, a bare `id` is that of the call; on other messages it is ignored.
    answers = entry.get("tool_call_id") or (entry.get("id") if named in ("tool", "function") else None)
    chat = {
        "role": named,
        "name": entry.get("name") if named not in ("tool", "function") else None,
        "content": content,
        "tool_calls": calls,
        "tool_call_id": answers,
    }
    for message in read_messages(chat, other_as_text=True):
        if message.parts or message.role is MessageRole.TOOL:
            yield message


def _content(entry: Mapping[str, Any]) -> Any:
    """Return a message's parts from whichever field holds them, decoded from JSON if necessary."""
    return next(
        (_objects(entry[name]) for name in ("parts", "contents", "content") if entry.get(name) is not None), None
    )


def _without_calls(content: Any, calls: Any) -> tuple[Any, Any]:
    """Return a message's content without the calls that OpenInference writes in it, and its calls with them."""
    if not isinstance(content, list) or not any(isinstance(part, Mapping) and "tool_call" in part for part in content):
        return content, calls
    # OpenInference for Anthropic writes a call at its place in the content and once more among the calls.
    inside = [part["tool_call"] for part in content if isinstance(part, Mapping) and "tool_call" in part]
    rest = [part for part in content if not (isinstance(part, Mapping) and "tool_call" in part)]
    return rest, calls or [{"tool_call": call} for call in inside]


def flattened_list(values: Mapping[str, Any], prefix: str) -> list[Any] | None:
    """Return a list flattened into attributes such as `prefix.0.role`; None if absent."""
    tree: dict[str, Any] = {}
    for name, value in values.items():
        if name.startswith(prefix) and name.count(".") < MAX_STEPS:
            at, *path = tree, *name[len(prefix) :].split(".")
            for step in path[:-1]:
                inner = at.setdefault(step, {})
                # If a name is also the prefix of another one, its value is kept and the deeper value dropped.
                at = inner if isinstance(inner, dict) else {}
            at[path[-1]] = value
    return _lists(tree) if tree and all(key.isdigit() for key in tree) else None


def _lists(tree: dict[str, Any]) -> Any:
    """Convert objects with integer keys to lists."""
    inner = {key: _lists(value) if isinstance(value, dict) else value for key, value in tree.items()}
    if inner and all(key.isdigit() for key in inner):
        return [inner[key] for key in sorted(inner, key=int)]
    return inner


SUMMARISE = "summarise"
"""Purpose of a call that asks for a summary, as in `ModelCalled`."""
MAX_SUMMARIES = 4
"""Number of recent summaries that a prompt may hold in place of earlier messages."""
READ_CHARACTERS = 8_000
"""Characters at each end of a text in which a request for a summary is looked for."""
OPENING_CHARACTERS = 400
"""Characters at the beginning of a text that says of itself that it is a summary."""
LEAST_CHARACTERS = 8
"""Shorter lines of a summary say nothing: any text may hold them."""
LEAST_GONE = 3
"""Least messages that a text stands for, where only the place of the text shows it."""

_SUMMARY = re.compile(
    r"(?<![/\\])(?:summar|condens|compact|distil|checkpoint|snapshot|hand-?off)|<overview>|continued from",
    re.IGNORECASE,
)
"""Words of a summary's introduction, where they begin no folder's name."""
_ASKS = re.compile(
    r"\b(?:create|write|produce|generate|provide|prepare|perform\w*|give)\b[^.\n]{0,80}"
    r"(?:summar|snapshot|checkpoint|hand-?off)"
    r"|\bsummari[sz]es?\b|\b(?:condens|distil)\w*|\bcompact(?:ion|ing|s)?\b",
    re.IGNORECASE,
)
_OF_A_TALK = re.compile(
    r"\b(conversation|history|context|session|chat|transcript|dialog(ue)?)\b|so far|state_snapshot"
    r"|(another|other) (language )?(llm|model|agent)",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"<analysis>.*?</analysis>|</?[\w-]+>", re.DOTALL)
"""Parts of an answer that an agent takes off to make it its summary: the draft before it, and tags."""


def is_about_summary(text: str) -> bool:
    """Return whether a text speaks of the summary of a conversation, as the introduction of one does."""
    return bool(_SUMMARY.search(text) and _OF_A_TALK.search(text))


def asks_for_summary(prompt: Sequence[ChatMessage]) -> bool:
    """Return whether the last message of a prompt asks for a summary of the conversation."""
    if not prompt or prompt[-1].role is not MessageRole.USER:
        return False
    text = prompt[-1].content or ""
    ends = text if len(text) <= 2 * READ_CHARACTERS else text[:READ_CHARACTERS] + text[-READ_CHARACTERS:]
    return bool(_ASKS.search(ends) and _OF_A_TALK.search(ends))


def holds_summary(text: str, summary: str) -> bool:
    """Return whether a text holds the words of a summary: its lines, without tags and what was drafted before it."""
    lines = [" ".join(line.split()) for line in _ASIDE.sub("\n", summary).splitlines()]
    lines = [line for line in lines if len(line) >= LEAST_CHARACTERS]
    whole = " ".join(_ASIDE.sub(" ", text).split())
    return 2 * sum(len(line) for line in lines if line in whole) > sum(map(len, lines))


def summaries_in(
    former: Sequence[int],
    prompt: Mapping[int, ChatMessage],
    by_seq: Mapping[int, ChatMessage],
    summaries: Iterable[str],
    *,
    reported: bool = False,
) -> list[int]:
    """Return the messages that a prompt has in place of what it left out of the former one; none: it has no such text.

    `former` and `prompt`: the messages of both in order, by sequence number; `by_seq` has those that the prompt left
    out, and `summaries` are answers to requests for one. `reported`: the agent said that it compacted the prompt.
    """
    if asks_for_summary(messages := list(prompt.values())):
        return []
    front = next((n for n, message in enumerate(messages) if message.role is not MessageRole.SYSTEM), len(messages))
    fresh = [
        (n, seq, message.content or "")
        for n, (seq, message) in enumerate(prompt.items())
        if seq not in former and n >= front and message.role is not MessageRole.TOOL
    ]
    written = list(summaries)
    if holding := [seq for _, seq, text in fresh if any(holds_summary(text, summary) for summary in written)]:
        return holding
    places = list(prompt)
    last = max((n for n, seq in enumerate(places) if seq in former), default=-1)
    roles = {message.role for message in by_seq.values()}
    if not reported and (last < 0 or not {MessageRole.USER, MessageRole.ASSISTANT} <= roles):
        return []
    # A text that introduces itself as a summary. As the last message it may be a request for one, and so it may be
    # behind the former prompt's end: it stands for nothing there.
    end = places.index(former[-1]) if former[-1] in prompt else len(places) - 1
    if about := [seq for n, seq, text in fresh if n < end and is_about_summary(text[:OPENING_CHARACTERS])]:
        return about
    # The agent said so: what is new before the last known message stands for the rest.
    if reported:
        return [seq for n, seq, _ in fresh if n < last]
    return _standing_between(former, places, {seq: by_seq.get(seq, prompt.get(seq)) for seq in {*by_seq, *prompt}})


def _standing_between(former: Sequence[int], places: list[int], by_seq: Mapping[int, ChatMessage | None]) -> list[int]:
    """Return the new texts that stand in a former prompt for a stretch of it, with the former's end behind them."""
    if former[-1] not in places:
        return []
    for kind, start, end, place, until in SequenceMatcher(None, former, places, autojunk=False).get_opcodes():
        gone, new = (
            [message for seq in part if (message := by_seq.get(seq))]
            for part in (former[start:end], places[place:until])
        )
        if kind == "replace" and until < len(places) and len(gone) >= max(LEAST_GONE, len(new) + 1):
            texts = "\n".join(message.content or "" for message in new if message.role is not MessageRole.TOOL)
            # Messages that were joined into one are still there.
            joined = sum((message.content or "") in texts for message in gone)
            if texts and 2 * joined < len(gone):
                return places[place:until]
    return []
