"""Facts and summaries in sentences."""

from memory_core.events import (
    CondensingRefused,
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
    ProposalRefused,
    SummaryRewritten,
    expand,
)
from memory_core.text import listed
from memory_inspector.wording.decision_text import compared, decided_by
from memory_inspector.wording.event_sentences.line import (
    ERASED,
    QUOTED,
    Line,
    Words,
    because,
    clause,
    context_of,
    describe,
    fact_words,
)
from memory_inspector.wording.formatting import count, short, tokens


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
    return Line("keep", f"{'Pinned' if event.pinned else 'Unpinned'} “{fact_words(event.fact, words)}”")


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
    done = CURATED.get(event.action, event.action)
    return Line("fact_check", f"{done} {facts}{because(event.reason)}")


CURATED = {
    "add": "Added",
    "edit": "Changed",
    "merge": "Merged",
    "split": "Split",
    "pin": "Pinned",
    "unpin": "Unpinned",
    "retire": "Retired",
    "restore": "Restored",
    "reject": "Rejected",
    "accept": "Accepted",
    "supersede": "Replaced",
    "keep_both": "Kept both:",
    "allow": "Allowed",
    "import": "Imported",
    "refuse": "Refused a rewrite of",
    "label": "Labelled",
    "put": "Kept under keys:",
    "confirm": "Confirmed",
    "ask": "Marked to ask about:",
}
"""Beginning of a sentence on a change set of facts."""


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
