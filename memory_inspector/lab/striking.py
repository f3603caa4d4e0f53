"""Counterfactuals: replay a conversation as if some of its events had not happened.

Such an event is called struck. A message is then not stored, a flush or condensing is suppressed until the next one,
and an agent's memory edit or a person's change of facts is skipped. A setting or text that a person changed gets its
former value, as a change of the configuration.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from memory_core.errors import ConfigError
from memory_core.events import EventRecord, expand
from memory_core.history.by_turn import History, flush_of
from memory_core.history.learned_slices import condenses
from memory_core.history.message_slice import adds_message, is_flush
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.curation import words_for
from memory_inspector.lab.script import Held, Script, ScriptStep
from memory_inspector.lab.variants import VariantChange, block_values, variant_of

MAX_STRUCK = 20
"""Maximum number of events left out of one replay."""

_PLAYED = ("message_added", "flush_planned", "facts_condensed", "tool_called", "facts_curated")
SET_BY_PEOPLE = ("block_edited", "configuration_changed")
"""Event kinds caused by people; struck by restoring the former value."""


def may_be_struck(record: EventRecord) -> bool:
    """Return whether a conversation can be replayed without this event."""
    if record.kind in SET_BY_PEOPLE or record.kind == "facts_curated":
        return record.actor == "user"
    return record.kind in _PLAYED


def words_of(record: EventRecord) -> str:
    """Describe a struck event briefly: `turn 12's flush of 4 messages`. Plain text."""
    of = f"turn {record.turn:,}'s" if record.turn else "the"
    if adds_message(record.event):
        return f"{of} message {getattr(record.event, 'seq', '')}"
    if is_flush(record.event):
        messages = len(expand(flush_of(record).seqs))
        return f"{of} flush of {messages:,} {'message' if messages == 1 else 'messages'}"
    if record.kind == "facts_curated":
        rows = getattr(record.event, "facts", ())
        added = sum(before == 0 for _, before, _ in rows)
        changed = len(rows) - added
        return f"{of} change: {words_for(getattr(record.event, 'action', ''), changed=changed, added=added)}"
    if condenses(record.event):
        return f"{of} condensing of {getattr(record.event, 'before', 0):,} facts"
    return f"{of} call of {record.event.called_tool or 'a tool'}"


def without(script: Script, history: History, positions: Iterable[int]) -> Script:
    """Return a script without some events, given by log position.

    Raises:
        ConfigError: An event cannot be struck, or there are too many.
    """
    wanted = sorted(set(positions))
    if len(wanted) > MAX_STRUCK:
        raise ConfigError(f"{MAX_STRUCK} events are struck at a time; these are {len(wanted)}.")
    steps = list(script.steps)
    # By log position rather than by index, as striking one event may delete a step.
    for position in wanted:
        record = next((entry for entry in history.after(position - 1)[:1] if entry.position == position), None)
        if record is None or record.kind not in _PLAYED:
            raise ConfigError(f"There is nothing at position {position} of the log that could be struck.")
        _strike(steps, record, history)
    return replace(script, steps=tuple(steps))


def changes_without(memory: Memory, record: EventRecord) -> tuple[VariantChange, ...]:
    """Return changes that revert a person's edit, where its values are still in force.

    Empty for other events, and for values changed again since.
    """
    if record.kind not in SET_BY_PEOPLE or record.actor != "user":
        return ()
    now, event, history = variant_of(memory), record.event, memory.log.history()
    reset: list[VariantChange] = []
    if event.about is None:  # settings of the session
        settings = now.config.model_dump(mode="json")
        before, after = getattr(event, "before", {}), getattr(event, "after", {})
        # Only where the new value is still in force: a later change of the setting would be lost with this one.
        reset = [
            VariantChange(name, value, before.get(name)) for name, value in after.items() if settings.get(name) == value
        ]
        # These name the origin of other settings and have no effect of their own.
        return tuple(change for change in reset if change.setting not in ("recipe", "recipe_parameters"))
    name = str(getattr(event, "block", ""))
    then = next((block for block in history.blocks_at(record.position - 1) if block.name == name), None)
    block = next((block for block in now.blocks if block.name == name), None)
    # The block did not exist before the edit, or was removed since.
    if then is None or block is None:
        return ()
    values = block_values(block)
    for setting, value in getattr(event, "settings", {}).items():
        if values.get(setting) == value and setting in then.settings:
            reset.append(VariantChange(f"{name}.{setting}", value, then.settings[setting]))
    keys = [key for key in (getattr(event, "before", None), getattr(event, "after", None)) if key]
    texts = memory.log.texts(keys)
    # Both texts must still be readable: one that was erased cannot be restored or compared.
    if len(texts) == 2 and values["text"] == texts[keys[1]] and block.type == "static":
        reset.append(VariantChange(f"{name}.text", texts[keys[1]], texts[keys[0]]))
    return tuple(reset)


def _strike(steps: list[ScriptStep], record: EventRecord, history: History) -> None:
    """Change the steps so that an event does not happen."""
    if adds_message(record.event):
        number = _step_with(steps, record.position)
        step = steps[number]
        at = step.positions.index(record.position)
        gone = _with_results(step.messages, at)
        remaining = [n for n in range(len(step.messages)) if n not in gone]
        steps[number] = replace(
            step,
            messages=tuple(step.messages[n] for n in remaining),
            positions=tuple(step.positions[n] for n in remaining),
        )
        # A step without messages would be a put of nothing.
        if not remaining:
            del steps[number]
        return
    # A person's or a program's own flush is a step; a flush over budget is the effect of a put and is held back below.
    if record.kind == "facts_curated" or (is_flush(record.event) and flush_of(record).trigger != "over_budget"):
        del steps[_step_with(steps, record.position)]
        return
    if record.event.called_tool is not None:
        # The log records a tool call before the message that makes it, so the next step has the message.
        later = (n for n, step in enumerate(steps) if step.positions and step.positions[0] > record.position)
        number = next(later, -1)
        if number < 0:
            raise ConfigError(f"The call at position {record.position} of the log is in no message yet.")
        calls = [call.tool_name for message in steps[number].messages for call in message.tool_calls]
        tool = record.event.called_tool
        before = max((p for step in steps[:number] for p in step.positions), default=0)
        made = [r for r in history.after(before) if r.event.called_tool is not None and r.position < record.position]
        # Calls do not carry their place in the message: it is counted among the calls of the same tool.
        place = sum(other.event.called_tool == tool for other in made)
        same = [n for n, name in enumerate(calls) if name == tool]
        if place >= len(same):
            raise ConfigError(f"The call at position {record.position} of the log is in no message any more.")
        steps[number] = replace(steps[number], unmade=steps[number].unmade | {same[place]})
        return
    # Suppressed until the next event of its kind: otherwise the very next put would repeat it.
    until = next((later.position for later in history.after(record.position) if later.kind == record.kind), None)
    held: Held = "flush" if is_flush(record.event) else "condensing"
    begun = _last_before(steps, record.position)
    ended = len(steps) if until is None else _last_before(steps, until)
    # At least one step, also if both events were caused by the same put.
    for number in range(begun, max(begun + 1, ended)):
        steps[number] = replace(steps[number], held=steps[number].held | {held})


def _last_before(steps: Sequence[ScriptStep], position: int) -> int:
    """Return the index of the step that led to an event."""
    before = [
        n
        for n, step in enumerate(steps)
        if step.does not in ("ask", "curate") and step.positions and step.positions[0] < position
    ]
    if not before:
        raise ConfigError(f"What led to position {position} of the log is not there any more.")
    return before[-1]


def _with_results(messages: Sequence[ChatMessage], at: int) -> set[int]:
    """Return the indexes of a message and of its tool results, which would be orphaned without it."""
    calls = {call.tool_call_id for call in messages[at].tool_calls if call.tool_call_id}
    answers = (n for n, m in enumerate(messages) if m.role is MessageRole.TOOL and m.tool_call_id in calls)
    return {at, *answers}


def _step_with(steps: Sequence[ScriptStep], position: int) -> int:
    index = next((n for n, step in enumerate(steps) if position in step.positions), None)
    if index is None:
        raise ConfigError(f"The event at position {position} is not part of the replay, so it cannot be left out.")
    return index
