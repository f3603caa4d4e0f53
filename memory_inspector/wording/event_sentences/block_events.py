"""Blocks, recipes and tools in sentences; an attached agent's own memory, as its spans report it."""

from memory_core.events import (
    BlockAdded,
    BlockEdited,
    BlockFailed,
    BlockRemoved,
    BlocksOrdered,
    BlockStateSaved,
    MemoryDeleted,
    MemorySearched,
    MemoryStoreChanged,
    MemoryWritten,
    RecipeChosen,
    ToolCalled,
)
from memory_core.history.stores import store_name
from memory_core.text import listed
from memory_core.tracing.overlooked import OmittedResults
from memory_inspector.wording.event_sentences.event_words import NOT_CAPTURED, QUOTED, Line, Words, clause, describe
from memory_inspector.wording.formatting import count, short, tokens
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


# -- an attached agent's stores --------------------------------------------------------------------

MAX_NAMED = 3
"""Maximum records named in a sentence, the first ones."""

ERASED_RECORD = "an erased record"

_WROTE = {"create": "Created", "update": "Updated", "upsert": "Wrote"}


@describe.register
def _(event: MemoryWritten, words: Words) -> Line:
    store, number = short(store_name(event)), event.count if event.count is not None else len(event.records)
    what = count(number, "record") if number else "records"
    if event.error:
        return Line("error", f"Could not write {what} into {store}: {event.error}", "waiting")
    # A record without a hash has no captured words.
    texts = [words.texts.get(key, ERASED_RECORD) for _, key, _ in event.records if key is not None]
    if not texts:
        ids = [short(id) for id, _, _ in event.records[:MAX_NAMED] if id is not None]
        named = f" {listed(ids)}" if ids else ""
        return Line("edit_note", f"{_WROTE[event.how]} {what}{named} in {store}, {NOT_CAPTURED}")
    first = f"“{short(texts[0], QUOTED)}”"
    more = f" and {tokens(len(texts) - 1)} more" if len(texts) > 1 else ""
    return Line("edit_note", f"{_WROTE[event.how]} {what} in {store}: {first}{more}", details=tuple(texts))


@describe.register
def _(event: MemorySearched, words: Words) -> Line:
    question = f" for “{short(words.texts.get(event.query, 'an erased question'), QUOTED)}”" if event.query else ""
    asked = f"Searched {short(store_name(event))}{question}"
    if event.error:
        return Line("error", f"{asked}: {event.error}", "waiting")
    texts = [words.texts.get(key, ERASED_RECORD) for _, key, _, _ in event.results if key is not None]
    if event.count is None:
        return Line("search", f"{asked}: how much was found is not reported", details=tuple(texts))
    if event.count == 0:
        return Line("search_off", f"{asked}: found nothing")
    best = f", best {event.best:.2f}" if event.best is not None else ""
    unseen = "" if texts else f", {NOT_CAPTURED}"
    return Line("search", f"{asked}: {count(event.count, 'record')} found{best}{unseen}", details=tuple(texts))


@describe.register
def _(event: MemoryDeleted, words: Words) -> Line:
    store, ids = short(store_name(event)), [short(id) for id in event.records[:MAX_NAMED]]
    more = f" and {tokens(len(event.records) - MAX_NAMED)} more" if len(event.records) > MAX_NAMED else ""
    # A deletion without ids deletes everything.
    what = f"{'record' if len(event.records) == 1 else 'records'} {listed(ids)}{more}" if ids else "every record"
    if event.error:
        return Line("error", f"Could not delete {what} of {store}: {event.error}", "waiting")
    return Line("delete", f"Deleted {what} of {store}", "loss")


@describe.register
def _(event: MemoryStoreChanged, words: Words) -> Line:
    store, gone = short(store_name(event)), event.change == "deleted"
    if event.error:
        done = "delete" if gone else "create"
        return Line("error", f"Could not {done} the store {store}: {event.error}", "waiting")
    return (
        Line("delete", f"Deleted the store {store} with its records", "loss")
        if gone
        else Line("add", f"Created the store {store}")
    )


def omitted_words(omitted: OmittedResults | None) -> str:
    """Return how many results of a search are missing from the prompt, as a prefix; empty for none."""
    if omitted is None:
        return ""
    event = omitted.search.event
    number = len(event.results) if isinstance(event, MemorySearched) else 0
    return f"Found, not in the prompt: {tokens(len(omitted.missing))} of {tokens(number)}. "
