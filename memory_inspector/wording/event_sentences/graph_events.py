"""Entities and relations in sentences."""

from collections.abc import Mapping
from typing import Any

from memory_core.events import (
    EntityAdded,
    EntityChanged,
    EntityErased,
    GraphCurated,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    RelationsExtracted,
    expand,
)
from memory_core.text import listed
from memory_inspector.wording.event_sentences.line import (
    ERASED_NAME,
    QUOTED,
    Line,
    Words,
    context_of,
    describe,
    entity_words,
    relation_words,
)
from memory_inspector.wording.formatting import count, short, tokens


@describe.register
def _(event: RelationsExtracted, words: Words) -> Line:
    heard = count(len(expand(event.seqs)), "message")
    more = f", {tokens(event.ended)} ended" if event.ended else ""
    more += f", {tokens(event.refused)} left out" if event.refused else ""
    numbers = f"{count(event.found, 'relation')}, {tokens(event.added)} new, {tokens(event.confirmed)} known{more}"
    return Line("manage_search", f"{short(event.block)} read {heard}{context_of(event)} and found {numbers}")


@describe.register
def _(event: EntityAdded, words: Words) -> Line:
    done = "Added" if event.origin == "written" else "Learned of"
    return Line("hub", f"{done} “{entity_words(event.entity, words)}” ({short(event.type)}) in {short(event.block)}")


@describe.register
def _(event: EntityChanged, words: Words) -> Line:
    name, after = entity_words(event.entity, words), event.after
    # A change of state says more than the fields that change with it, so it comes first.
    if after.get("state") == "merged":
        into = after.get("merged_into")
        return Line("merge", f"Merged “{name}” into “{entity_words(into, words) if into is not None else ERASED_NAME}”")
    if after.get("state") == "retired":
        return Line("archive", f"Removed “{name}” from {short(event.block)}")
    if after.get("state") == "active":
        return Line("unarchive", f"Restored “{name}” in {short(event.block)}")
    if "name" in after:
        old, new = (words.texts.get(str(values.get("name")), ERASED_NAME) for values in (event.before, after))
        return Line("edit", f"Renamed “{short(old, QUOTED)}” to “{short(new, QUOTED)}”")
    if "type" in after:
        was = short(str(event.before.get("type", "other")))
        return Line("edit", f"Changed what “{name}” is: {was}, now {short(str(after['type']))}")
    # Neither state, name nor type: the aliases are what changed.
    others = [f"“{short(words.texts.get(str(alias), ERASED_NAME))}”" for alias in after.get("aliases", ())]
    return Line("edit", f"“{name}” is also called {listed(others)}" if others else f"“{name}” has no other name now")


@describe.register
def _(event: EntityErased, words: Words) -> Line:
    return Line("delete_forever", f"Deleted an entity of {short(event.block)} for good", "loss")


@describe.register
def _(event: RelationAdded, words: Words) -> Line:
    done = "Added" if event.origin == "written" else "Learned"
    return Line("hub", f"{done} “{relation_words(event.relation, words)}”")


@describe.register
def _(event: RelationConfirmed, words: Words) -> Line:
    return Line("check", f"Already known: “{relation_words(event.relation, words)}”")


@describe.register
def _(event: RelationEnded, words: Words) -> Line:
    by = f": “{relation_words(event.by, words)}” took its place" if event.by is not None else ""
    return Line("history", f"Ended “{relation_words(event.relation, words)}”{by}")


@describe.register
def _(event: RelationChanged, words: Words) -> Line:
    sentence, after = relation_words(event.relation, words), event.after
    if after.get("state") == "retired":
        return Line("archive", f"Removed “{sentence}” from {short(event.block)}")
    if after.get("state") == "active":
        return Line("unarchive", f"“{sentence}” holds again")
    if after.get("state") == "ended":
        return Line("history", f"Ended “{sentence}”")
    # Otherwise a part was corrected; the sentence shows the relation as it is after it.
    was = [_part(name, event.before, words) for name in ("subject", "predicate", "object") if name in event.before]
    return Line("edit", f"Changed “{sentence}”" + (f": before, {listed(was)}" if was else ""))


def _part(name: str, before: Mapping[str, Any], words: Words) -> str:
    """Return the text of one of the three parts of a relation."""
    if name == "predicate":
        return f"it was called “{short(words.texts.get(str(before[name]), ERASED_NAME), QUOTED)}”"
    return f"it {'began' if name == 'subject' else 'ended'} at “{entity_words(int(before[name]), words)}”"


@describe.register
def _(event: RelationErased, words: Words) -> Line:
    return Line("delete_forever", f"Deleted a relation of {short(event.block)} for good", "loss")


@describe.register
def _(event: GraphCurated, words: Words) -> Line:
    held = ((len(event.entities), "entity"), (len(event.relations), "relation"))
    touched = listed([count(number, noun) for number, noun in held if number]) or "nothing"
    if event.undoes is not None:
        return Line("undo", f"{'Redid' if event.again else 'Undid'} a change of {touched} of {short(event.block)}")
    done = GRAPH_CURATED.get(event.action, event.action)
    return Line("hub", f"{done}: {touched} of {short(event.block)}")


GRAPH_CURATED = {
    "add": "Added",
    "edit": "Changed",
    "end": "Ended",
    "hold": "Made current again",
    "retire": "Removed",
    "merge": "Merged",
    "rename": "Renamed",
    "import": "Imported",
}
"""Beginning of a sentence on a change set of a graph."""
