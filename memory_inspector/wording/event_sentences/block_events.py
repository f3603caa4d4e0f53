"""Blocks, recipes and tools in sentences."""

from memory_core.events import (
    BlockAdded,
    BlockEdited,
    BlockFailed,
    BlockRemoved,
    BlocksOrdered,
    BlockStateSaved,
    RecipeChosen,
    ToolCalled,
)
from memory_core.text import listed
from memory_inspector.wording.event_sentences.line import Line, Words, clause, describe
from memory_inspector.wording.formatting import short
from memory_inspector.wording.settings import recipe_title, setting_words
from memory_inspector.wording.tool_call_text import arguments_of, log_line


@describe.register
def _(event: BlockAdded, words: Words) -> Line:
    priority = event.settings.get("priority")
    rank = "" if priority is None else f", priority {priority}" if priority else ", never cut"
    return Line("add", f"Added the block {short(event.block)}{rank}")


@describe.register
def _(event: BlockRemoved, words: Words) -> Line:
    return Line("delete", f"Removed the block {short(event.block)}")


@describe.register
def _(event: BlocksOrdered, words: Words) -> Line:
    return Line("swap_vert", f"Ordered the blocks: {listed([short(name) for name in event.names])}")


@describe.register
def _(event: BlockEdited, words: Words) -> Line:
    block = short(event.block)
    if event.settings:
        changed = listed([setting_words(name, value) for name, value in event.settings.items()])
        return Line("tune", f"Changed {block}: {changed}")
    if event.restored is not None:
        again = f"version {event.restored} of the text of {block}, as version {event.revision}"
        return Line("settings_backup_restore", f"Restored {again}")
    # Equal texts before and after mean that the text stayed, and only the code's one was ignored.
    if event.after is not None and event.after != event.before:
        began = event.before is None
        note = words.texts.get(event.note) if event.note else None
        why = f": {short(note)}" if note else ""
        return Line("edit_note", f"{'Wrote' if began else 'Edited'} the text of {block}, version {event.revision}{why}")
    lost = "text" if event.ignored else "settings"
    return Line("edit_note", f"Kept the stored {lost} of {block} and ignored the {lost} passed by the program")


@describe.register
def _(event: RecipeChosen, words: Words) -> Line:
    former = f" from {recipe_title(event.before)}" if event.before else ""
    done = [
        f"{says} {listed([short(name) for name in names])}"
        for says, names in (("kept", event.kept), ("added", event.added), ("removed", event.removed))
        if names
    ]
    effects = f": {', '.join(done)}" if done else ""
    return Line("swap_horiz", f"Switched to {recipe_title(event.recipe)}{former}{effects}")


@describe.register
def _(event: BlockStateSaved, words: Words) -> Line:
    if event.unsaved_fields:
        # Fields of the class that JSON cannot hold are lost when the process ends.
        lost = listed(list(event.unsaved_fields))
        return Line("save", f"Saved what {short(event.block)} learned, but it cannot keep {lost}", "waiting")
    return Line("save", f"Saved what {short(event.block)} learned")


@describe.register
def _(event: BlockFailed, words: Words) -> Line:
    return Line("error", f"{short(event.block)} could not be read: {clause(event.error)}", "loss")


@describe.register
def _(event: ToolCalled, words: Words) -> Line:
    # Arguments and results are named by hash, and may be erased.
    arguments, result = arguments_of(words.texts.get(event.arguments)), words.texts.get(event.result)
    sentence = log_line(event.tool, event.block, arguments, result, refused=event.outcome == "refused")
    return Line(sentence.icon, sentence.text, "waiting" if sentence.refused else "plain")
