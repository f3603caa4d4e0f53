"""Every event as one sentence. Pure: an event and words in, a line out.

A sentence says in the past tense what happened, how much, and by which rule, in numbers that the event holds. This is
the one place where events become words: the story of a turn and the timeline are both made of these lines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from typing import Any, Literal

from memory_core.events import (
    BlockAdded,
    BlockEdited,
    BlockFailed,
    BlockRemoved,
    BlocksOrdered,
    BlockStateSaved,
    CondensingRefused,
    ConfigurationChanged,
    ContextBuilt,
    DeliveryDone,
    DeliveryFailed,
    DeliveryParked,
    DeliveryQueued,
    DeliveryRetried,
    DeliverySkipped,
    EntityAdded,
    EntityChanged,
    EntityErased,
    Event,
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
    FactSuperseded,
    FlushPlanned,
    GraphCurated,
    MemoryStripped,
    MessageAdded,
    ModelCalled,
    ProposalRefused,
    QueueRecounted,
    QueueReplaced,
    RecipeChosen,
    RelationAdded,
    RelationChanged,
    RelationConfirmed,
    RelationEnded,
    RelationErased,
    RelationsExtracted,
    ReplyEnded,
    ReplyStarted,
    Retrieved,
    SessionBranched,
    SessionClosed,
    SessionCreated,
    SessionImported,
    SessionRenamed,
    SessionReset,
    SummaryRewritten,
    ToolCalled,
    VectorsRemoved,
    VectorsStored,
    expand,
    spread,
)
from memory_core.planning.context import QUEUE
from memory_core.recipes import RECIPES
from ui.deciding import compared, decided_by
from ui.text import count, short, tokens
from ui.tool_calls import arguments_of, log_line

Tone = Literal["plain", "loss", "waiting"]

QUOTED = 60
"""Characters of a fact or a question that are quoted in a sentence."""

SAID = 40
"""Characters of a message: who said it and how long it is stand beside them."""

ERASED = "an erased fact"

ERASED_RELATION = "an erased relation"

ERASED_NAME = "an erased name"


@dataclass(frozen=True, slots=True)
class Line:
    """One sentence."""

    icon: str
    """A Material icon's name."""
    text: str
    """Plain text; whoever draws it escapes it."""
    tone: Tone = "plain"
    details: tuple[str, ...] = ()
    """Words that the sentence counts, such as the facts learned."""
    more: tuple[str, ...] = ()
    """Words for who asks further, such as the turns recalled."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words that events only name."""

    facts: Mapping[int, str]
    """By fact id."""
    turns: Mapping[int, int]
    """By stored turn: the number of the conversation's turn."""
    previews: Mapping[int, str]
    """By stored turn: how it begins."""
    due: frozenset[int] = frozenset()
    """Deliveries that are not done yet; one may be done in a later turn than it was queued in."""
    said: Mapping[str, str] = field(default_factory=dict)
    """By hash in the content store: a message's text, a fact's former words, a question."""
    relations: Mapping[int, str] = field(default_factory=dict)
    """By relation id: `Ana → lives in → Lisbon`, as it reads now."""
    entities: Mapping[int, str] = field(default_factory=dict)
    """By entity id: its name, as it reads now."""


@singledispatch
def tell(event: Event, words: Words) -> Line:
    """What happened. An event that only a newer version knows is told without details."""
    return Line("help", "Something that only a newer version knows: shown without details")


# -- the session ---------------------------------------------------------------------------------


@tell.register
def _(event: SessionCreated, words: Words) -> Line:
    return Line("flag", f"Started the session{_named(event.title)}")


@tell.register
def _(event: SessionRenamed, words: Words) -> Line:
    return Line("edit", f"Renamed the session from “{short(event.before)}” to “{short(event.after)}”")


@tell.register
def _(event: SessionClosed, words: Words) -> Line:
    return Line("lock", "Closed the session: everything left the queue")


@tell.register
def _(event: SessionReset, words: Words) -> Line:
    what = {None: "everything", "active": "the queue", "archived": "what had left the queue"}.get(event.status, "")
    gone = [
        count(number, noun)
        for number, noun in ((event.messages, "message"), (event.facts, "fact"), (event.vectors, "stored turn"))
    ]
    return Line("delete", f"Forgot {what}: {', '.join(gone)}", "loss")


@tell.register
def _(event: SessionImported, words: Words) -> Line:
    skipped = f", {tokens(event.skipped)} skipped" if event.skipped else ""
    source = f" from {short(event.source, QUOTED)}" if event.source else ""
    return Line("upload_file", f"Imported {count(event.messages, 'message')}{source}{skipped}")


@tell.register
def _(event: SessionBranched, words: Words) -> Line:
    erased = f", {count(event.missing, 'thing')} of then erased since" if event.missing else ""
    return Line("call_split", f"Branched from another session at the end of turn {tokens(event.turn)}{erased}")


@tell.register
def _(event: ConfigurationChanged, words: Words) -> Line:
    if not event.after:
        lost = _listed([setting_words(name, value) for name, value in event.ignored.items()])
        return Line("tune", f"Kept the stored settings against the code's: {lost}")
    changed = [
        setting_words(name, value, event.before.get(name, _MISSING), begun=name in event.before)
        for name, value in event.after.items()
    ]
    return Line("tune", f"{'Changed' if event.before else 'Set'} {_listed(changed)}")


# -- the queue -----------------------------------------------------------------------------------


@tell.register
def _(event: MessageAdded, words: Words) -> Line:
    said = words.said.get(event.content)
    quoted = "something that was erased since" if said is None else f"“{short(said, SAID)}”"
    if said == "":
        quoted = "something without text"
    who = {"user": "The user said", "assistant": "The assistant said", "tool": "A tool answered"}
    pinned = ", pinned: it never leaves the queue" if event.pinned else ""
    begins = who.get(event.role, "The system message is")
    return Line("chat_bubble", f"{begins} {quoted}, {count(event.tokens, 'token')}{pinned}")


@tell.register
def _(event: MemoryStripped, words: Words) -> Line:
    return Line("remove", "Took memory's own text out of a message that brought it back")


@tell.register
def _(event: FlushPlanned, words: Words) -> Line:
    moved = f"Flushed {count(event.messages, 'message')}, {count(event.tokens, 'token')}"
    why = {
        "over_budget": f"queue {tokens(event.queue_before)} was above {tokens(int(event.history_budget))}",
        "asked": "you asked for it",
        "closed": "the session was closed",
    }.get(event.trigger, event.trigger)
    if "window" in event.rules and event.queue_turns is not None:
        window = f"the queue holds {count(event.queue_turns, 'turn')} at most"
        why = window if event.rules == ("window",) else f"{window}, and {why}"
    if "long_turn" in event.rules:
        why += ", and the newest turn alone is too long"
    still = f". Still {tokens(event.over_by)} above it" if event.over_by else ""
    return Line("keyboard_tab", f"{moved}: {why}{still}")


@tell.register
def _(event: QueueReplaced, words: Words) -> Line:
    gone = count(len(expand(event.removed)), "message")
    return Line("swap_horiz", f"Replaced the queue: {gone}, {count(event.tokens, 'token')}, left it for good", "loss")


@tell.register
def _(event: QueueRecounted, words: Words) -> Line:
    return Line(
        "calculate", f"Counted the queue again: {tokens(event.tokens_before)} is now {tokens(event.tokens_after)}"
    )


# -- deliveries ----------------------------------------------------------------------------------


@tell.register
def _(event: DeliveryQueued, words: Words) -> Line:
    why = {
        "flush": "they left the queue",
        "turn": "the turn was complete",
        "session_end": "the session was closed",
        "archive": "it came later than they did",
    }.get(event.trigger, event.trigger)
    what = f"{count(len(expand(event.seqs)), 'message')}, {count(event.tokens, 'token')}"
    return Line("outbox", f"Handed {what}, to {short(event.block)}: {why}")


def still_learning(event: DeliveryQueued) -> Line:
    """The same while it is not done."""
    messages = count(len(expand(event.seqs)), "message")
    return Line("schedule", f"{short(event.block)} is learning from {messages}", "waiting")


@tell.register
def _(event: DeliveryDone, words: Words) -> Line:
    tries = f" at try {event.attempt}" if event.attempt > 1 else ""
    what = count(len(event.deliveries), "delivery")
    return Line("check", f"Brought {short(event.block)} up to date{tries}: {what} in {seconds(event.seconds)}")


@tell.register
def _(event: DeliveryFailed, words: Words) -> Line:
    again = ", and will be tried again" if event.retry_in_seconds else ""
    return Line("refresh", f"{short(event.block)} could not be updated{again}: {_clause(event.error)}", "waiting")


@tell.register
def _(event: DeliveryParked, words: Words) -> Line:
    given_up = f"given up after {count(event.attempts, 'try')}: {_clause(event.error)}"
    return Line("error", f"{short(event.block)} could not be updated, {given_up}", "loss")


@tell.register
def _(event: DeliveryRetried, words: Words) -> Line:
    what = count(len(event.deliveries), "delivery")
    return Line("refresh", f"Asked {short(event.block)} to try {what} again", "waiting")


@tell.register
def _(event: DeliverySkipped, words: Words) -> Line:
    what = count(len(event.deliveries), "delivery")
    return Line("block", f"Gave up {what} to {short(event.block)}: the messages stay in the archive", "loss")


# -- facts ---------------------------------------------------------------------------------------


@tell.register
def _(event: FactsExtracted, words: Words) -> Line:
    heard = count(len(expand(event.seqs)), "message")
    held = f", {tokens(event.held_back)} held back as rejected before" if event.held_back else ""
    held += f", {tokens(event.recalled)} only repeated from memory" if event.recalled else ""
    found = f"{count(event.found, 'fact')}, {tokens(event.added)} new, {tokens(event.confirmed)} known{held}"
    return Line("manage_search", f"{short(event.block)} read {heard} and found {found}")


@tell.register
def _(event: FactDecided, words: Words) -> Line:
    found = f"“{short(words.said.get(event.content, ERASED), QUOTED)}”"
    known = "what was found with it" if event.fact is None else f"“{_fact(event.fact, words)}”"
    known = "a known fact" if known == found else known  # it was updated to these words
    decided = {
        "add": f"Took {found} as new",
        "update": f"Took {found} as an update of {known}",
        "delete": f"Took {found} as the end of {known}",
        "none": f"Found nothing new in {found} beside {known}",
    }[event.decision]
    return Line("balance", f"{decided}, {decided_by(event)}; {compared(event)}")


@tell.register
def _(event: FactLabelled, words: Words) -> Line:
    topics = f", topics {_listed(event.topics)}" if event.topics else ""
    return Line("sell", f"Put “{_fact(event.fact, words)}” under {short(event.category)}{topics}")


@tell.register
def _(event: ProposalRefused, words: Words) -> Line:
    what = count(event.number, event.what or "proposal")
    return Line("block", f"Left out {what} proposed for {short(event.block)}{_because(event.reason)}", "waiting")


@tell.register
def _(event: FactAdded, words: Words) -> Line:
    begins = {"written": "Added", "condensed": "Condensed facts to"}.get(event.origin, "Learned")
    waits = event.state == "proposed"
    line = f"{'Proposed' if waits else begins} “{_fact(event.fact, words)}”{', to be reviewed' * waits}"
    if event.conflicts_with:
        return Line("warning", f"{line}. It contradicts “{_fact(event.conflicts_with[0], words)}”", "waiting")
    return Line("inbox", line, "waiting") if waits else Line("lightbulb", line)


def contradiction(event: FactAdded, words: Words) -> Line:
    """The same where what was learned is told already."""
    old, new = words.facts.get(event.conflicts_with[0], ERASED), words.facts.get(event.fact, ERASED)
    return Line("warning", f"“{new}” contradicts “{old}”", "waiting")


@tell.register
def _(event: FactConfirmed, words: Words) -> Line:
    return Line("check", f"Heard “{_fact(event.fact, words)}” again ({event.similarity:.2f} alike), stored once")


@tell.register
def _(event: FactChanged, words: Words) -> Line:
    before, after = (words.said.get(key, ERASED) for key in (event.before, event.after))
    return Line("edit", f"Changed “{short(before, QUOTED)}” to “{short(after, QUOTED)}”")


@tell.register
def _(event: FactSuperseded, words: Words) -> Line:
    old = _fact(event.fact, words)
    if event.by is None:
        return Line("history", f"Put “{old}” aside: nothing replaced it", "loss")
    return Line("history", f"Replaced “{old}” by “{_fact(event.by, words)}”")


@tell.register
def _(event: FactRetired, words: Words) -> Line:
    return Line("archive", f"Retired “{_fact(event.fact, words)}”{_because(event.reason)}")


@tell.register
def _(event: FactRestored, words: Words) -> Line:
    return Line("unarchive", f"Restored “{_fact(event.fact, words)}”")


@tell.register
def _(event: FactPinned, words: Words) -> Line:
    return Line("keep", f"{'Pinned' if event.pinned else 'Unpinned'} “{_fact(event.fact, words)}”")


@tell.register
def _(event: FactRejected, words: Words) -> Line:
    return Line("block", f"Rejected “{_fact(event.fact, words)}”{_because(event.reason)}")


@tell.register
def _(event: FactAccepted, words: Words) -> Line:
    return Line("check", f"Accepted “{_fact(event.fact, words)}”")


@tell.register
def _(event: FactProposed, words: Words) -> Line:
    return Line("inbox", f"Put “{_fact(event.fact, words)}” back to be reviewed", "waiting")


@tell.register
def _(event: FactHeldBack, words: Words) -> Line:
    found, near = words.said.get(event.content, ERASED), _fact(event.near, words)
    alike = f"{event.similarity:.2f} like “{near}”, which was rejected"
    return Line("block", f"Held back “{short(found, QUOTED)}”: {alike}", "waiting")


@tell.register
def _(event: FactsCurated, words: Words) -> Line:
    facts = f"{count(len(event.facts), 'fact')} of {short(event.block)}"
    if event.undoes is not None:
        return Line("undo", f"Undid a change of {facts}")
    done = CURATED.get(event.action, event.action)
    return Line("fact_check", f"{done} {facts}{_because(event.reason)}")


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
    "allow": "Allowed",
    "import": "Imported",
    "refuse": "Refused a rewrite of",
    "label": "Labelled",
}
"""What a person did to facts at once, as a sentence begins."""


@tell.register
def _(event: FactErased, words: Words) -> Line:
    if event.undone:
        return Line("undo", f"Took back a fact that had been added to {short(event.block)}")
    return Line("delete_forever", f"Deleted a fact of {short(event.block)} for good", "loss")


@tell.register
def _(event: FactsCondensed, words: Words) -> Line:
    return Line(
        "compress",
        f"Condensed {tokens(event.before)} facts to {tokens(event.after)}: kept {len(event.kept)}, "
        f"merged {len(event.merged)}, vanished {len(event.vanished)}, new {len(event.new)}",
        "loss" if event.vanished else "plain",
        tuple(words.facts.get(fact, ERASED) for fact in event.vanished),
    )


@tell.register
def _(event: CondensingRefused, words: Words) -> Line:
    return Line("block", f"A shorter list of facts was refused: {_clause(event.reason)}", "waiting")


@tell.register
def _(event: SummaryRewritten, words: Words) -> Line:
    block = short(event.block)
    if not event.covers:
        return Line("delete", f"Emptied {block}: messages that it was made of were forgotten", "loss")
    taken = count(len(expand(event.seqs)), "message")
    done = f"Took {taken} into {block}" if event.seqs else f"Rewrote {block}"
    size = f"{tokens(event.tokens_before)} → {count(event.tokens, 'token')}"
    if event.lost:
        what = "name, number or date" if event.lost == 1 else "names, numbers or dates"
        size += f"; {tokens(event.lost)} {what} went"
    if event.shortened:
        size += f"; {count(event.shortened, 'token')} left out to stay within {tokens(event.max_tokens)}"
    return Line("notes", f"{done}: {size}", "loss" if event.lost else "plain")


# -- graphs --------------------------------------------------------------------------------------


@tell.register
def _(event: RelationsExtracted, words: Words) -> Line:
    heard = count(len(expand(event.seqs)), "message")
    more = f", {tokens(event.ended)} ended" if event.ended else ""
    more += f", {tokens(event.refused)} left out" if event.refused else ""
    found = f"{count(event.found, 'relation')}, {tokens(event.added)} new, {tokens(event.confirmed)} known{more}"
    return Line("manage_search", f"{short(event.block)} read {heard} and found {found}")


@tell.register
def _(event: EntityAdded, words: Words) -> Line:
    done = "Added" if event.origin == "written" else "Learned of"
    return Line("hub", f"{done} “{_entity(event.entity, words)}” ({short(event.type)}) in {short(event.block)}")


@tell.register
def _(event: EntityChanged, words: Words) -> Line:
    name, after = _entity(event.entity, words), event.after
    if after.get("state") == "merged":
        into = after.get("merged_into")
        return Line("merge", f"Merged “{name}” into “{_entity(into, words) if into is not None else ERASED_NAME}”")
    if after.get("state") == "retired":
        return Line("archive", f"Removed “{name}” from {short(event.block)}")
    if after.get("state") == "active":
        return Line("unarchive", f"Brought “{name}” back to {short(event.block)}")
    if "name" in after:
        old, new = (words.said.get(str(values.get("name")), ERASED_NAME) for values in (event.before, after))
        return Line("edit", f"Renamed “{short(old, QUOTED)}” to “{short(new, QUOTED)}”")
    if "type" in after:
        was = short(str(event.before.get("type", "other")))
        return Line("edit", f"Changed what “{name}” is: {was}, now {short(str(after['type']))}")
    others = [f"“{short(words.said.get(str(alias), ERASED_NAME))}”" for alias in after.get("aliases", ())]
    return Line("edit", f"“{name}” is also called {_listed(others)}" if others else f"“{name}” has no other name now")


@tell.register
def _(event: EntityErased, words: Words) -> Line:
    return Line("delete_forever", f"Deleted an entity of {short(event.block)} for good", "loss")


@tell.register
def _(event: RelationAdded, words: Words) -> Line:
    done = "Added" if event.origin == "written" else "Learned"
    return Line("hub", f"{done} “{_relation(event.relation, words)}”")


@tell.register
def _(event: RelationConfirmed, words: Words) -> Line:
    return Line("check", f"Heard “{_relation(event.relation, words)}” again, stored once")


@tell.register
def _(event: RelationEnded, words: Words) -> Line:
    by = f": “{_relation(event.by, words)}” took its place" if event.by is not None else ""
    return Line("history", f"Ended “{_relation(event.relation, words)}”{by}")


@tell.register
def _(event: RelationChanged, words: Words) -> Line:
    said, after = _relation(event.relation, words), event.after
    if after.get("state") == "retired":
        return Line("archive", f"Removed “{said}” from {short(event.block)}")
    if after.get("state") == "active":
        return Line("unarchive", f"“{said}” holds again")
    if after.get("state") == "ended":
        return Line("history", f"Ended “{said}”")
    was = [_part(name, event.before, words) for name in ("subject", "predicate", "object") if name in event.before]
    return Line("edit", f"Changed “{said}”" + (f": before, {_listed(was)}" if was else ""))


def _part(name: str, before: Mapping[str, Any], words: Words) -> str:
    """What one of the three parts of a relation was."""
    if name == "predicate":
        return f"it was called “{short(words.said.get(str(before[name]), ERASED_NAME), QUOTED)}”"
    return f"it {'began' if name == 'subject' else 'ended'} at “{_entity(int(before[name]), words)}”"


@tell.register
def _(event: RelationErased, words: Words) -> Line:
    return Line("delete_forever", f"Deleted a relation of {short(event.block)} for good", "loss")


@tell.register
def _(event: GraphCurated, words: Words) -> Line:
    held = ((len(event.entities), "entity"), (len(event.relations), "relation"))
    touched = _listed([count(number, noun) for number, noun in held if number]) or "nothing"
    if event.undoes is not None:
        return Line("undo", f"Undid a change of {touched} of {short(event.block)}")
    done = GRAPH_CURATED.get(event.action, event.action)
    return Line("hub", f"{done} by hand: {touched} of {short(event.block)}")


def relations_of(event: Event) -> tuple[int, ...]:
    """The relations whose words its sentence needs."""
    if getattr(event, "relation", None) is None:
        return ()
    named = (getattr(event, name, None) for name in ("relation", "by"))
    return tuple(each for each in named if isinstance(each, int))


GRAPH_CURATED = {
    "add": "Added",
    "edit": "Changed",
    "end": "Ended",
    "hold": "Held again",
    "retire": "Removed",
    "merge": "Merged",
    "rename": "Renamed",
    "import": "Imported",
}
"""What a person did to a graph at once, as a sentence begins."""


# -- retrieval -----------------------------------------------------------------------------------


@tell.register
def _(event: VectorsStored, words: Words) -> Line:
    return Line("inventory_2", f"Stored {count(len(event.nodes), 'turn')} in {short(event.block)}")


@tell.register
def _(event: VectorsRemoved, words: Words) -> Line:
    gone = count(len(event.numbers), "stored turn")
    return Line("delete", f"Deleted {gone} of {short(event.block)}: the messages stay", "loss")


@tell.register
def _(event: Retrieved, words: Words) -> Line:
    granted = [candidate for candidate in event.candidates if candidate[4] == "granted"]
    if granted:
        best = max(candidate[3] for candidate in granted)
        shown = tuple(
            f"Turn {_turn(number, words)} ({score:.2f}): {words.previews.get(number, 'erased since')}"
            for number, _, _, score, _ in granted
        )
        line = Line("search", f"Recalled {count(len(granted), 'earlier turn')}, best {best:.2f}", more=shown)
    elif not event.candidates:
        line = Line("search_off", f"Recalled nothing from {short(event.block)}: no stored turn fits")
    else:
        line = Line("search_off", f"Recalled nothing: {_why_nothing(event)}")
    if event.degraded:
        return Line("warning", f"{line.text}. {_clause(event.degraded)}", "waiting", more=line.more)
    return line


def _why_nothing(event: Retrieved) -> str:
    _, _, _, best, fate = event.candidates[0]
    if fate == "in_queue":
        return f"what fits best ({best:.2f}) is still in the queue"
    if event.threshold is None:
        return f"none of {count(len(event.candidates), 'candidate')} was granted"
    places = 2 if f"{best:.2f}" != f"{event.threshold:.2f}" else 4  # as many as show that it is less
    return f"best {best:.{places}f} is below the threshold {event.threshold:.2f}"


# -- contexts and model calls --------------------------------------------------------------------


@tell.register
def _(event: ContextBuilt, words: Words) -> Line:
    if event.cuts:
        line = Line("content_cut", _cuts(event), "loss")
    else:
        sent, free = f"{tokens(event.total)} of {tokens(event.token_limit)}", max(0, event.token_limit - event.total)
        line = Line("article", f"Built the prompt: {sent} tokens, {tokens(free)} free")
    if event.over_by:
        return Line("error", f"{line.text}. {too_large(event).text}", "loss")
    return line


def _cuts(event: ContextBuilt) -> str:
    """`Cut 56 of 335 tokens from Earlier turns: priority 2 goes first`."""
    parts = {str(part["name"]): part for part in event.parts}
    blocks = [cut for cut in event.cuts if cut["part"] != QUEUE]
    said = []
    for index, cut in enumerate(blocks):
        part = parts.get(str(cut["part"]), {})
        asked = f" of {tokens(int(part['asked']))}" if "asked" in part else ""
        said.append(f"{tokens(int(cut['tokens']))}{asked}{' tokens' * (not index)} from {short(str(cut['part']))}")
    left = [_left_out(cut) for cut in event.cuts if cut["part"] == QUEUE]
    if not said:
        return f"Left {_listed(left)} out of the prompt: what is never cut is over the limit"
    first = parts.get(str(blocks[0]["part"]), {}).get("priority", "?")
    which = "largest" if event.truncation_order == "largest_first" else "smallest"
    why = f"priority {first} goes first" if len(said) == 1 else f"the {which} priority number goes first"
    return f"Cut {_listed(said)}: {why}" + (f". Left {_listed(left)} out as well" if left else "")


def _left_out(cut: Mapping[str, Any]) -> str:
    return f"{count(len(spread(cut['refs'])), 'oldest turn')}, {count(int(cut['tokens']), 'token')},"


def one_cut(cut: Mapping[str, Any], recalled: Sequence[Retrieved], words: Words) -> Line:
    """A single cut, with by how much the prompt was over the limit and what went."""
    refs = spread(cut["refs"])
    freed, over = int(cut["tokens"]), int(cut["over_before"])
    part = str(cut["part"])
    if part == QUEUE:
        turns = count(len(refs), "oldest turn")
        text = f"Left {turns} out of this prompt, {count(freed, 'token')}: asked {tokens(over)} over the limit"
        return Line("content_cut", text, "loss")
    scores = {number: score for event in recalled for number, _, _, score, _ in event.candidates}
    gone = sorted((int(ref[1:]) for ref in refs if ref[0] == "v"), key=lambda number: scores.get(number, 0))
    lowest = ""
    if gone:
        names = ", ".join(f"turn {_turn(number, words)} ({scores.get(number, 0):.2f})" for number in gone)
        lowest = f". Lowest score first: {names}"
    whole = ", the whole block" if cut["rule"] == "dropped" else ""
    if any(ref[0] == "r" for ref in refs) and not whole:
        lowest = ". Farthest from the question first"
    text = f"Cut {count(freed, 'token')} from {short(part)}{whole}: asked {tokens(over)} over the limit{lowest}"
    named = {"f": (words.facts, ERASED), "r": (words.relations, ERASED_RELATION)}
    gone_words = tuple(named[ref[0]][0].get(int(ref[1:]), named[ref[0]][1]) for ref in refs if ref[0] in named)
    return Line("content_cut", text, "loss", gone_words)


def too_large(event: ContextBuilt) -> Line:
    """A prompt that is over the limit all the same."""
    return Line(
        "error",
        f"Sent {tokens(event.total)} of {tokens(event.token_limit)}: {tokens(event.over_by)} over. "
        f"{event.over_because} cannot be cut",
        "loss",
    )


@tell.register
def _(event: ModelCalled, words: Words) -> Line:
    purpose = f"to {PURPOSES.get(event.purpose, event.purpose)}"
    if event.error:
        return Line("error", f"Asked {short(event.model)} {purpose}, and it failed: {_clause(event.error)}", "waiting")
    counted = ((event.input_tokens, "in"), (event.output_tokens, "out"))
    sizes = [f"{count(number, 'token')} {way}" for number, way in counted if number is not None]
    return Line("smart_toy", f"Asked {short(event.model)} {purpose}: {', '.join([*sizes, seconds(event.seconds)])}")


PURPOSES = {
    "reply": "reply",
    "extract": "find facts",
    "condense": "shorten the list of facts",
    "summarise": "write the summary",
    "answer": "answer",
}
"""What a model is called for, as it follows "asked to"."""


# -- blocks --------------------------------------------------------------------------------------


@tell.register
def _(event: BlockAdded, words: Words) -> Line:
    priority = event.settings.get("priority")
    rank = "" if priority is None else f", priority {priority}" if priority else ", never cut"
    return Line("add", f"Added the block {short(event.block)}{rank}")


@tell.register
def _(event: BlockRemoved, words: Words) -> Line:
    return Line("delete", f"Removed the block {short(event.block)}")


@tell.register
def _(event: BlocksOrdered, words: Words) -> Line:
    return Line("swap_vert", f"Ordered the blocks: {_listed([short(name) for name in event.names])}")


@tell.register
def _(event: BlockEdited, words: Words) -> Line:
    block = short(event.block)
    if event.settings:
        changed = _listed([setting_words(name, value) for name, value in event.settings.items()])
        return Line("tune", f"Changed {block}: {changed}")
    if event.restored is not None:
        again = f"version {event.restored} of the text of {block}, as version {event.revision}"
        return Line("settings_backup_restore", f"Brought back {again}")
    if event.after is not None and event.after != event.before:
        began = event.before is None
        return Line("edit_note", f"{'Wrote' if began else 'Edited'} the text of {block}, version {event.revision}")
    lost = "text" if event.ignored else "settings"
    return Line("edit_note", f"Kept the stored {lost} of {block} against the code's")


@tell.register
def _(event: RecipeChosen, words: Words) -> Line:
    former = f" from {recipe_title(event.before)}" if event.before else ""
    done = [
        f"{says} {_listed([short(name) for name in names])}"
        for says, names in (("kept", event.kept), ("added", event.added), ("removed", event.removed))
        if names
    ]
    told = f": {', '.join(done)}" if done else ""
    return Line("swap_horiz", f"Switched to {recipe_title(event.recipe)}{former}{told}")


@tell.register
def _(event: BlockStateSaved, words: Words) -> Line:
    if event.unsaved_fields:
        lost = _listed(list(event.unsaved_fields))
        return Line("save", f"Saved what {short(event.block)} learned, but it cannot keep {lost}", "waiting")
    return Line("save", f"Saved what {short(event.block)} learned")


@tell.register
def _(event: BlockFailed, words: Words) -> Line:
    return Line("error", f"{short(event.block)} could not be read: {_clause(event.error)}", "loss")


@tell.register
def _(event: ToolCalled, words: Words) -> Line:
    arguments, result = arguments_of(words.said.get(event.arguments)), words.said.get(event.result)
    told = log_line(event.tool, event.block, arguments, result, refused=event.outcome == "refused")
    return Line(told.icon, told.text, "waiting" if told.refused else "plain")


# -- replies -------------------------------------------------------------------------------------


@tell.register
def _(event: ReplyStarted, words: Words) -> Line:
    return Line("forum", f"Began a reply with {short(event.model)}")


@tell.register
def _(event: ReplyEnded, words: Words) -> Line:
    if event.outcome == "failed":
        return Line("error", f"The reply failed{_because(event.error or '')}", "loss")
    ended = {"done": "is complete", "stopped": "was stopped", "interrupted": "was interrupted"}
    return Line("forum", f"The reply {ended.get(event.outcome, event.outcome)}")


# -- words ---------------------------------------------------------------------------------------

SETTINGS = {
    "token_limit": "the token limit",
    "chat_history_token_ratio": "the history share",
    "token_flush_size": "the flush size",
    "insert_method": "where memory is inserted",
    "truncation_order": "what is cut first",
    "when_over": "what happens over the limit",
    "split_long_turns": "splitting long turns",
    "accounting": "how tokens are counted",
    "queue_turns": "the turns in the queue",
    "recipe": "the recipe",
    "encoding": "the tokenizer",
    "context_window": "the model's window",
    "reply_reserve": "the room kept for the reply",
    "image_token_size_estimate": "the size of an image",
    "audio_token_size_estimate": "the size of a sound",
    "video_token_size_estimate": "the size of a video",
    "document_token_size_estimate": "the size of a document",
    "delivery_timeout": "how long a delivery is waited for",
    "delivery_attempts": "the tries of a delivery",
    "priority": "the priority",
    "truncation": "cutting",
    "enabled": "use in prompts",
    "accept_short_term_memory": "learning from flushed messages",
    "deliver_on": "learning",
    "max_facts": "the most facts",
    "approval": "waiting for approval",
    "on_change": "what a new fact does to known ones",
    "nearest": "the facts a new one is compared with",
    "categories": "the categories",
    "show": "the facts in the prompt",
    "top_k": "the most facts in the prompt",
    "scope": "the owner of its facts",
    "similarity_top_k": "the number of results",
    "similarity_threshold": "the threshold",
    "retrieval_context_window": "the messages a search asks with",
    "keyword_weight": "the weight of keywords",
    "vector_weight": "the weight of meaning",
    "unit": "what is stored as one",
    "hops": "the steps from what is mentioned",
    "most_relations": "the most relations in the prompt",
    "read_only": "read only for the agent",
    "limit": "the most characters",
    "description": "what it is for",
}
"""Settings as they stand in a sentence."""

VALUES = {
    "largest_first": "the largest priority number",
    "smallest_first": "the smallest priority number",
    "shrink_queue": "leave out the oldest turns",
    "return": "send it all the same",
    "raise": "stop with an error",
    "system": "the system message",
    "user": "the user message",
    "content": "content only",
    "reference": "as LlamaIndex does",
    "billed": "as billed",
    "trim": "piece by piece",
    "drop": "whole",
    "flush": "at each flush",
    "turn": "after each turn",
    "session_end": "at the end of the session",
    "session": "the session",
    "add": "keep them",
    "decide": "compare and decide",
    "relevant": "the most relevant",
}
"""Values of settings as they stand in a sentence."""

_MISSING = object()


def setting_words(name: str, value: object, before: object = _MISSING, *, begun: bool = False) -> str:
    """`the token limit to 1,240`, with `begun` `the token limit from 1,200 to 1,240`."""
    known = SETTINGS.get(name, name.replace("_", " "))
    former = f" from {value_words(name, before)}" if begun and before is not _MISSING else ""
    return f"{known}{former} to {value_words(name, value)}"


def value_words(name: str, value: object) -> str:
    """A setting's value: numbers with separators, shares as percent, choices in words."""
    if name == "scope" and value == "user":
        return "the user"
    if name == "recipe":
        return recipe_title(str(value)) if value else "none"
    if name in ("queue_turns", "limit") and value is None:
        return "no limit"
    if isinstance(value, list | tuple):
        return _listed([short(str(item)) for item in value]) or "its own"
    if value is None:
        return "the default"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return tokens(value)
    if isinstance(value, float):
        return f"{100 * value:g} %" if name == "chat_history_token_ratio" else f"{value:g}"
    return VALUES.get(str(value), short(str(value)))


def recipe_title(key: str) -> str:
    """A recipe as it is called on screen; one that this version does not know by its name."""
    known = RECIPES.get(key)
    return known.title if known is not None else short(key.replace("_", " "))


def seconds(duration: float) -> str:
    """How long something took, with as many places as tell anything: `0.04 s`, `1.3 s`, `21 s`."""
    places = 0 if duration >= 10 else 1 if duration >= 0.1 else 2
    return f"{duration:,.{places}f} s"


def _fact(fact: int, words: Words) -> str:
    return short(words.facts.get(fact, ERASED), QUOTED)


def _relation(relation: int, words: Words) -> str:
    return short(words.relations.get(relation, ERASED_RELATION), QUOTED)


def _entity(entity: int, words: Words) -> str:
    return short(words.entities.get(entity, ERASED_NAME), QUOTED)


def _turn(stored: int, words: Words) -> str:
    """The conversation's turn that a stored turn is."""
    return tokens(words.turns[stored]) if stored in words.turns else "?"


def _named(title: str) -> str:
    return f" “{short(title)}”" if title else ""


def _because(reason: str) -> str:
    return f": {_clause(reason)}" if reason else ""


def _clause(sentence: str) -> str:
    """Somebody else's sentence as the end of one of ours."""
    return sentence.strip().removesuffix(".")


def _listed(items: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)
