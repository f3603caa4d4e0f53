"""Facts, summaries, entities and relations in sentences."""

from collections.abc import Mapping
from typing import Any

from memory_core.events import (
    CondensingRefused,
    EntityAdded,
    EntityChanged,
    EntityErased,
    FactAccepted,
    FactAdded,
    FactChanged,
    FactConfirmed,
    FactDecided,
    FactErased,
    FactHeldBack,
    FactLabelled,
    FactPinned,
    FactProposed,
    FactRejected,
    FactRestored,
    FactRetired,
    FactsCondensed,
    FactsCurated,
    FactsExtracted,
    FactsRead,
    FactSuperseded,
    GraphCurated,
    ProposalRefused,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    RelationsExtracted,
    SummaryRewritten,
    expand,
)
from memory_core.planning.curation import past_tense
from memory_core.text import listed
from memory_inspector.wording.decision_text import compared, decided_by
from memory_inspector.wording.event_sentences.event_words import (
    ERASED,
    ERASED_NAME,
    QUOTED,
    Line,
    Words,
    because,
    clause,
    context_of,
    describe,
    entity_words,
    fact_words,
    relation_words,
)
from memory_inspector.wording.formatting import count, short, tokens

MARKS = {"pinned": ("Pinned", "Unpinned", "keep")}
"""Label, word for the removal and icon of each mark, by the field of a fact that holds it."""


@describe.register
def _(event: FactsExtracted, words: Words) -> Line:
    heard = count(len(expand(event.seqs)), "message")
    held = f", {tokens(event.held_back)} held back as rejected before" if event.held_back else ""
    held += f", {tokens(event.recalled)} only repeated from memory" if event.recalled else ""
    held += f", {tokens(event.long)} kept whole though long" if event.long else ""
    numbers = f"{count(event.found, 'fact')}, {tokens(event.added)} new, {tokens(event.confirmed)} known{held}"
    return Line("manage_search", f"{short(event.block)} read {heard}{context_of(event)} and found {numbers}")


@describe.register
def _(event: FactDecided, words: Words) -> Line:
    quoted = f"“{short(words.texts.get(event.content, ERASED), QUOTED)}”"
    target = "another found fact" if event.fact is None else f"“{fact_words(event.fact, words)}”"
    target = "a known fact" if target == quoted else target  # it was updated to these words
    decided = {
        "add": f"Took {quoted} as new",
        "update": f"Took {quoted} as an update of {target}",
        "delete": f"Took {quoted} as the end of {target}",
        "none": f"Found nothing new in {quoted} beside {target}",
    }[event.decision]
    return Line("balance", f"{decided}, {decided_by(event)}; {compared(event)}")


@describe.register
def _(event: FactLabelled, words: Words) -> Line:
    topics = f", topics {listed(event.topics)}" if event.topics else ""
    return Line("sell", f"Put “{fact_words(event.fact, words)}” under {short(event.category)}{topics}")


@describe.register
def _(event: ProposalRefused, words: Words) -> Line:
    what = count(event.number, event.what or "proposal")
    return Line("block", f"Left out {what} proposed for {short(event.block)}{because(event.reason)}", "waiting")


@describe.register
def _(event: FactAdded, words: Words) -> Line:
    begins = {"written": "Added", "condensed": "Condensed facts to"}.get(event.origin, "Learned")
    waits = event.state == "proposed"
    line = f"{'Proposed' if waits else begins} “{fact_words(event.fact, words)}”{', to be reviewed' * waits}"
    if event.conflicts_with:
        return Line("warning", f"{line}. It contradicts “{fact_words(event.conflicts_with[0], words)}”", "waiting")
    return Line("inbox", line, "waiting") if waits else Line("lightbulb", line)


def contradiction(event: FactAdded, words: Words) -> Line:
    """Describe only the contradiction, where the fact itself is described elsewhere."""
    # In full, because the reader has to decide between the two.
    old, new = words.facts.get(event.conflicts_with[0], ERASED), words.facts.get(event.fact, ERASED)
    return Line("warning", f"“{new}” contradicts “{old}”", "waiting")


@describe.register
def _(event: FactConfirmed, words: Words) -> Line:
    if event.restores is not None:
        return Line("undo", f"Withdrew a confirmation: “{fact_words(event.fact, words)}”")
    if event.former is not None:
        return Line("check", f"Confirmed that it still holds: “{fact_words(event.fact, words)}”")
    return Line("check", f"Already known: “{fact_words(event.fact, words)}” ({event.similarity:.2f} alike)")


@describe.register
def _(event: FactChanged, words: Words) -> Line:
    before, after = (words.texts.get(key, ERASED) for key in (event.before, event.after))
    return Line("edit", f"Changed “{short(before, QUOTED)}” to “{short(after, QUOTED)}”")


@describe.register
def _(event: FactSuperseded, words: Words) -> Line:
    old = fact_words(event.fact, words)
    if event.by is None:
        return Line("history", f"Superseded “{old}” without a replacement", "loss")
    return Line("history", f"Replaced “{old}” by “{fact_words(event.by, words)}”")


@describe.register
def _(event: FactRetired, words: Words) -> Line:
    return Line("archive", f"Retired “{fact_words(event.fact, words)}”{because(event.reason)}")


@describe.register
def _(event: FactRestored, words: Words) -> Line:
    return Line("unarchive", f"Restored “{fact_words(event.fact, words)}”")


@describe.register
def _(event: FactPinned, words: Words) -> Line:
    label, removed, icon = MARKS["pinned"]
    return Line(icon, f"{label if event.pinned else removed} “{fact_words(event.fact, words)}”")


@describe.register
def _(event: FactRejected, words: Words) -> Line:
    return Line("block", f"Rejected “{fact_words(event.fact, words)}”{because(event.reason)}")


@describe.register
def _(event: FactAccepted, words: Words) -> Line:
    return Line("check", f"Accepted “{fact_words(event.fact, words)}”")


@describe.register
def _(event: FactProposed, words: Words) -> Line:
    return Line("inbox", f"Put “{fact_words(event.fact, words)}” back to be reviewed", "waiting")


@describe.register
def _(event: FactHeldBack, words: Words) -> Line:
    text, near = words.texts.get(event.content, ERASED), fact_words(event.near, words)
    alike = f"{event.similarity:.2f} like “{near}”, which was rejected"
    return Line("block", f"Held back “{short(text, QUOTED)}”: {alike}", "waiting")


@describe.register
def _(event: FactsRead, words: Words) -> Line:
    # None: the facts were not read by key, or not by query. An erased text shows as an ellipsis.
    key, query = (None if text is None else words.texts.get(text, "…") for text in (event.key, event.query))
    by = f" for “{short(query, QUOTED)}”" if query is not None else ""
    by += f" under {short(key, QUOTED)}" if key else ""
    asked = f"{short(event.block)} was asked{by or ' for everything'}"
    details = tuple(fact_words(fact, words) for fact in event.facts)
    if not event.found:
        return Line("search_off", f"{asked}, and found nothing", "waiting")
    return Line("search", f"{asked}: {count(event.found, 'fact')}", details=details)


@describe.register
def _(event: FactsCurated, words: Words) -> Line:
    facts = f"{count(len(event.facts), 'fact')} of {short(event.block)}"
    if event.undoes is not None:
        return Line("undo", f"{'Redid' if event.again else 'Undid'} a change of {facts}")
    done = CURATED.get(event.action) or past_tense(event.action)
    return Line("fact_check", f"{done} {facts}{because(event.reason)}")


CURATED = {
    "edit": "Changed",
    "keep_both": "Kept both:",
    "refuse": "Refused a rewrite of",
    "put": "Kept under keys:",
    "ask": "Marked to ask about:",
}
"""Beginnings of a sentence on a change set of facts, where it is not the verb alone."""


@describe.register
def _(event: FactErased, words: Words) -> Line:
    if event.undone:
        return Line("undo", f"Took back a fact that had been added to {short(event.block)}")
    return Line("delete_forever", f"Deleted a fact of {short(event.block)} for good", "loss")


@describe.register
def _(event: FactsCondensed, words: Words) -> Line:
    return Line(
        "compress",
        f"{count(event.before, 'fact')} reduced to {tokens(event.after)}: {tokens(len(event.vanished))} dropped",
        "loss" if event.vanished else "plain",
        rewrites=event.block,
    )


@describe.register
def _(event: CondensingRefused, words: Words) -> Line:
    size = f"{count(event.facts, 'fact')} not condensed (limit {tokens(event.max_facts)})"
    return Line("block", f"{size}: {clause(event.reason)}", "waiting")


@describe.register
def _(event: SummaryRewritten, words: Words) -> Line:
    block = short(event.block)
    # A summary that covers nothing any more was emptied, as its messages are gone.
    if not event.covers:
        return Line("delete", f"Emptied {block}: messages that it was written from were forgotten", "loss")
    taken = count(len(expand(event.seqs)), "message")
    done = f"Took {taken} into {block}" if event.seqs else f"Rewrote {block}"
    size = f"{tokens(event.tokens_before)} → {count(event.tokens, 'token')}"
    if event.lost:
        what = "name, number or date" if event.lost == 1 else "names, numbers or dates"
        size += f"; {tokens(event.lost)} {what} lost"
    if event.shortened:
        size += f"; {count(event.shortened, 'token')} left out to stay within {tokens(event.max_tokens)}"
    if event.broken:
        size += f"; {count(event.broken, 'sentence')} broken off, longer than the whole summary may be"
    return Line("notes", f"{done}: {size}", "loss" if event.lost else "plain")


# -- entities and relations ------------------------------------------------------------------------


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
