"""Conversations in JSON of agent frameworks: lists of their messages, states of agents and teams, and sessions.

Also what readers of their tables share: values to messages, each alone, so that an unreadable one costs itself.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from memory_core.errors import MessageError
from memory_core.formats.any_message import langchain_fields, read_messages, unread_notes
from memory_core.formats.framework_messages import unread_of_framework, without_repeated_instructions
from memory_core.messages import ChatMessage
from memory_inspector.files.openai_format import is_conversation
from memory_inspector.files.openai_items import messages_from_items
from memory_inspector.files.stored import StoredConversation

Read = ChatMessage | MessageError
"""A message, or the reason it cannot be read."""

_ITEM_TYPES = ("reasoning", "compaction", "item_reference", "mcp_list_tools")
_ITEM_ENDINGS = ("_call", "_output", "_request", "_response")
"""Responses API item types besides messages, and suffixes of the remaining ones."""


def conversations_in(value: Any) -> tuple[StoredConversation, ...]:
    """Return the conversations of a JSON value in a framework's form; none for other values."""
    if isinstance(value, dict):
        # What the general reader reads is left to it.
        return () if is_conversation(value) else tuple(one for one in _states(value) if one.messages)
    if not isinstance(value, list) or not value or not all(isinstance(entry, dict) for entry in value):
        return ()
    if all(langchain_fields(entry) is not None for entry in value) or unread_of_framework(value[0]) is not None:
        return (_conversation("Conversation", value),)
    # Messages of the Responses API look like any others; one typed item identifies the format.
    if any("role" not in entry and _is_item(str(entry.get("type"))) for entry in value):
        return (StoredConversation("Conversation", tuple(read_items(value))),)
    return ()


def read_each(rows: Sequence[Any]) -> list[Read]:
    """Convert messages of any form, one by one; an unreadable one becomes a `MessageError`."""
    messages: list[Read] = []
    instructions: Any = None
    for row in rows:
        value, instructions = without_repeated_instructions(row, instructions)
        messages += read_or_error(read_messages, value)
    return messages


def read_or_error(read: Callable[[Any], list[ChatMessage]], value: Any) -> list[Read]:
    """Return what a value is read as, or the reason that it cannot be."""
    try:
        return list(read(value))
    except MessageError as error:
        return [error]
    except (AttributeError, TypeError):
        return [MessageError("it is not an object")]


def read_items(rows: Sequence[Any]) -> list[Read]:
    """Convert items of the Responses API to messages; an invalid item becomes a `MessageError`."""
    read: list[Read] = []
    good: list[Mapping[str, Any]] = []
    for row in rows:
        try:
            # Tested alone, but converted with its neighbours: several items may make one message.
            messages_from_items([row])
        except MessageError:
            encrypted = isinstance(row, dict) and "__enc__" in row
            reason = (
                "it is encrypted by the program that stored it" if encrypted else "it is no item of the Responses API"
            )
            read += [*messages_from_items(good), MessageError(reason)]
            good = []
        else:
            good.append(row)
    return [*read, *messages_from_items(good)]


def _is_item(kind: str) -> bool:
    return kind in _ITEM_TYPES or kind.endswith(_ITEM_ENDINGS)


def _conversation(title: Any, messages: Sequence[Any]) -> StoredConversation:
    title = title if isinstance(title, str) and title else "Conversation"
    return StoredConversation(title, tuple(read_each(messages)), notes=tuple(unread_notes(messages)))


def _states(value: Mapping[str, Any]) -> Iterator[StoredConversation]:
    match value:
        case {"state": dict(state), "type": "session"}:  # of agent-framework, by the name of what holds its history
            for inner in state.values():
                if isinstance(inner, dict) and isinstance(messages := inner.get("messages"), list):
                    yield _conversation(value.get("session_id"), messages)
        case {"events": list(events)} if "appName" in value or "app_name" in value:  # of ADK
            yield adk_conversation(str(value.get("id") or "Conversation"), events)
        case {"agent_states": dict(members)}:  # a team of AutoGen: first what it said, then what each model is given
            states = [(str(name), state) for name, state in members.items() if isinstance(state, dict)]
            for name, state in sorted(states, key=lambda named: "message_thread" not in named[1]):
                # AutoGen 0.4 wrote an id behind each name.
                yield from _of_member(
                    name.partition("/")[0], state, frozenset(name.partition("/")[0] for name in members)
                )
        case {"llm_context": dict()} | {"message_thread": list()}:
            yield from _of_member("Conversation", value)


def _of_member(
    name: str, state: Mapping[str, Any], members: frozenset[str] = frozenset()
) -> Iterator[StoredConversation]:
    """Yield the conversation of an agent of AutoGen; what other members of its team say to it is no user's."""
    inner = state.get("agent_state")
    context = (inner if isinstance(inner, dict) else state).get("llm_context")
    messages = context.get("messages") if isinstance(context, dict) else state.get("message_thread")
    if isinstance(messages, list) and messages:
        yield _conversation(name, [_by_speaker(message, members) for message in messages])


def _by_speaker(message: Any, members: frozenset[str]) -> Any:
    """Return a message with the type that says whether it is a user's: the source alone tells it in a team."""
    if not members or not isinstance(message, dict) or message.get("type") not in ("UserMessage", "TextMessage"):
        return message
    source = message.get("source")
    return {**message, "type": "TextMessage" if isinstance(source, str) and source in members else "UserMessage"}


def adk_conversation(title: str, events: Sequence[Any]) -> StoredConversation:
    """Return the conversation in the events of a session of Google's ADK, as later events leave it.

    What a rewind took back is left out, and what a compaction replaced has left the queue.
    """
    in_force = _in_force(events)
    taken_back = len(events) - len(in_force) - sum(_rewinds_to(event) is not None for event in events)
    spans = sorted(span for event in in_force if (span := _compacted(event)) is not None)
    begins = [begin for begin, _ in spans]
    ends = [*accumulate((end for _, end in spans), max)]
    messages: list[Read] = []
    archived: set[int] = set()
    for event in in_force:
        if not isinstance(event, dict):
            messages.append(MessageError("it is damaged, or no event"))
            continue
        read = read_or_error(read_messages, event)
        at = event.get("timestamp")
        if isinstance(at, int | float) and _compacted(event) is None:
            place = bisect_right(begins, at)
            # The latest end of all that begin before it: two that overlap replace what lies between them, too.
            if place and at <= ends[place - 1]:
                archived |= {*range(len(messages), len(messages) + len(read))}
        messages += read
    notes = [*unread_notes(event for event in in_force if isinstance(event, dict))]
    if taken_back:
        of_rewind = "event that a rewind took back is" if taken_back == 1 else "events that a rewind took back are"
        notes.append(f"{taken_back:,} {of_rewind} left out")
    return StoredConversation(title, tuple(messages), frozenset(archived), notes=tuple(notes))


def _in_force(events: Sequence[Any]) -> list[Any]:
    """Return the events that no rewind took back; one that itself was taken back takes nothing."""
    first: dict[Any, int] = {}
    for place, event in enumerate(events):
        if isinstance(event, dict) and isinstance(id := event.get("invocation_id") or event.get("invocationId"), str):
            first.setdefault(id, place)
    stay: list[Any] = []
    place = len(events) - 1
    while place >= 0:
        target = _rewinds_to(events[place])
        if target is None:
            stay.append(events[place])
        elif first.get(target, place) < place:
            place = first[target]
        place -= 1
    return stay[::-1]


def _rewinds_to(event: Any) -> str | None:
    """Return the invocation before which an event takes a session back; None for other events."""
    actions = event.get("actions") if isinstance(event, dict) else None
    target = None
    if isinstance(actions, dict):
        target = actions.get("rewind_before_invocation_id") or actions.get("rewindBeforeInvocationId")
    return target if isinstance(target, str) else None


def _compacted(event: Any) -> tuple[float, float] | None:
    """Return the first and last time of the events that a compaction replaced; None for other events."""
    actions = event.get("actions") if isinstance(event, dict) else None
    span = actions.get("compaction") if isinstance(actions, dict) else None
    if not isinstance(span, dict) or not (span.get("compacted_content") or span.get("compactedContent")):
        return None
    begin, end = (span.get(f"{name}_timestamp") or span.get(f"{name}Timestamp") for name in ("start", "end"))
    return (begin, end) if isinstance(begin, int | float) and isinstance(end, int | float) else None
