"""Build the stages of one carrier's track, each with the sentence, rule and numbers of its event. Pure."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from memory_core.events import EventRecord, Ref, Retrieved, expand
from memory_core.history.by_turn import History, search_of
from memory_core.history.slices.block_slice import PastBlock
from memory_core.history.slices.contexts import context_of
from memory_core.planning.former_values import stored_marks
from memory_core.planning.quarantine import QuarantinedSet
from memory_core.text import count
from memory_core.tracing.item_events import ItemEvents
from memory_core.tracing.rule_words import CUTS, SEARCH, SearchNumbers
from memory_core.tracing.trace_time import Cutting, Moment
from memory_core.tracing.values import SPEAKERS, Knowledge, Stage, StageName, Verdict

SEES_IT = {"flush": "at the next flush", "turn": "once its turn is over", "session_end": "when the session is closed"}
"""Time at which a block receives a queued message, by its setting `deliver_on`."""


def stage(
    name: StageName,
    verdict: Verdict,
    text: str,
    record: EventRecord | None = None,
    *,
    rule: str = "",
    knowledge: Knowledge = "decided",
    **numbers: float,
) -> Stage:
    """Build a stage decided by a record."""
    position, turn = (record.position, record.turn) if record is not None else (None, None)
    return Stage(name, verdict, text, position, turn, rule, numbers, knowledge)


def author(record: EventRecord) -> str:
    """Name the author of a change, for the middle of a sentence."""
    return {"engine": "the engine", "agent": "the agent"}.get(record.actor, SPEAKERS["user"])


def in_turn(record: EventRecord) -> str:
    """Describe when a change happened, for the end of a sentence; turn 0 is before the first turn."""
    return f"in turn {record.turn:,}" if record.turn else "before the first turn"


def no_prompt(turn: int, built: str = "built") -> str:
    return f"No prompt was {built} up to turn {turn:,}." if turn else f"No prompt was {built} yet."


# -- the message ---------------------------------------------------------------------------------


def intake(
    history: History, items: ItemEvents, moment: Moment, added: EventRecord, removal: EventRecord | None
) -> list[Stage]:
    """Return a message's stages `said`, `queue` and `flush`. `removal`: event that took it out of the queue.

    For an attached agent, only the stage `said` is known.
    """
    event: Any = added.event
    who = SPEAKERS.get(event.role, event.role)
    knowledge: Knowledge = (
        moment.seen_by if moment.observed else "reported" if items.imported is not None else "decided"
    )
    if added.position > moment.position:
        late = f"Said by {who} {in_turn(added)}, after {moment.prompt}."
        return [stage("said", "lost", late, added, rule="said_later", turn=added.turn)]
    first = stage("said", "passed", f"Said by {who} {in_turn(added)}, {count(event.tokens)}.", added,
                  knowledge=knowledge, turn=added.turn, tokens=event.tokens)  # fmt: skip
    if moment.observed:  # an attached agent's queue is unknown
        return [first]
    if event.pinned:
        return [first, stage("queue", "passed", "At the start of every prompt, as a system message.", added)]
    begun = f"turn {added.turn:,}" if added.turn else "the beginning"
    if removal is None or removal.position > moment.position:
        return [first, stage("queue", "passed", f"In the queue since {begun}.", added, turn=added.turn)]
    queued = stage("queue", "passed", f"In the queue from {begun} to {removal.turn or 'the first turn'}.", added)
    gone: Any = removal.event
    flush = getattr(gone, "flush", None)
    # A reset names its messages only where it forgets a phrase.
    if gone.forgets:
        when = "when the queue was reset" if gone.seqs is None else "with a phrase that it contains"
        text = f"Forgotten {in_turn(removal)}, {when}: blocks receive nothing that leaves it this way."
        return [first, queued, stage("flush", "lost", text, removal, rule="forgotten", turn=removal.turn)]
    if flush is None:
        text = f"Taken out of the queue {in_turn(removal)}, when it was replaced: no block receives such messages."
        return [first, queued, stage("flush", "lost", text, removal, rule="replaced", turn=removal.turn)]
    text = (
        f"Flushed {in_turn(removal)}: the queue had {gone.queue_before:,} tokens of {gone.history_budget:,.0f}, "
        f"and {count(gone.messages, 'message')} with {count(gone.tokens)} left it."
    )
    if gone.trigger != "over_budget":
        whys = {
            "elsewhere": "by the store that it comes from",
            "compacted": "by the agent's compaction, which left it out",
        }
        why = whys.get(gone.trigger, "on request")
        text = f"Flushed {in_turn(removal)} {why}: {count(gone.messages, 'message')} with {count(gone.tokens)} left."
    flushed = stage("flush", "passed", text, removal, turn=removal.turn, flush=flush, tokens=gone.tokens,
                    queue_before=gone.queue_before, history_budget=gone.history_budget)  # fmt: skip
    return [first, queued, flushed]


def in_prompt(moment: Moment, seq: int, removal: EventRecord | None) -> Stage:
    """Return the stage saying whether a message is in the prompt, as part of its queue. `removal`: see `intake`."""
    if moment.record is None:
        return stage("prompt", "waiting", no_prompt(moment.turn), rule="no_prompt")
    if moment.observed and seq in moment.queue:
        text = f"In {moment.prompt}, as one of its messages."
        if any(seq in one.seqs for one in moment.quarantine):
            text = f"{text} It is in quarantine here, but the agent's own program still has it."
        return stage("prompt", "passed", text, moment.record, knowledge=moment.seen_by, turn=moment.record.turn)
    if moment.observed:
        text = f"Not in {moment.prompt}: the agent sent the prompt without it. The reason is not known."
        # Only a compaction says why a message is gone: the agent's queue is its own.
        gone: Any = removal.event if removal is not None and removal.position <= moment.position else None
        if removal is not None and getattr(gone, "trigger", None) == "compacted":
            summary = ", ".join(f"{one:,}" for one in expand(gone.summary))
            text = f"Not in {moment.prompt}: the agent's compaction left it out {in_turn(removal)}"
            text += f", with message {summary} in its place." if summary else "."
        return stage("prompt", "lost", text, moment.record, rule="not_sent", knowledge=moment.seen_by)
    if seq in moment.queue:
        text = f"In {moment.prompt}, as a message of the queue."
        return stage("prompt", "passed", text, moment.record, turn=moment.record.turn)
    if (withheld := in_quarantine(moment, lambda one: seq in one.seqs)) is not None:
        return withheld
    text = CUTS["oldest_turns"].sentence.format(turn=moment.record.turn, over=count(moment.queue_over))
    return stage("prompt", "lost", text, moment.record, rule="oldest_turns", over_before=moment.queue_over)


# -- deliveries ----------------------------------------------------------------------------------


def delivery(
    history: History,
    items: ItemEvents,
    moment: Moment,
    block: PastBlock,
    added: EventRecord,
    removal: EventRecord | None,
) -> Stage:
    """Return the stage saying whether a message was delivered to a block."""
    message: Any = added.event
    seq, name = message.seq, block.name
    due = [
        events
        for events in (_until(events, moment.position) for events in items.deliveries[seq])
        if events and events[0].event.about == name
    ]
    if not due:
        return _not_due(history, items, moment, block, added, removal)
    # A message may have been due to a block more than once: one delivery that was made is enough.
    done = [events for events in due if events[-1].event.delivery_status == "done"]
    events = (done or due)[-1]
    last = events[-1]
    event: Any = last.event
    if event.delivery_status == "done":
        tries = "at the first try" if event.attempt == 1 else f"at try {event.attempt}"
        return stage("delivery", "passed", f"Given to {name} {in_turn(last)}, {tries}.", last,
                     turn=last.turn, attempt=event.attempt)  # fmt: skip
    if event.delivery_status == "failed":
        text = f"Delivery to {name} failed {in_turn(last)}, try {event.attempt}: {_clause(event.error)}."
        return stage("delivery", "lost", text, last, rule="delivery_failed", attempt=event.attempt)
    if event.delivery_status == "parked":
        text = f"Delivery to {name} failed {event.attempts} times and is parked: {_clause(event.error)}."
        return stage("delivery", "lost", text, last, rule="delivery_parked", attempts=event.attempts)
    if event.delivery_status == "skipped":
        text = f"Delivery to {name} was skipped {in_turn(last)}."
        return stage("delivery", "lost", text, last, rule="delivery_skipped")
    since = f" since turn {events[0].turn:,}" if events[0].turn else ""
    text = f"Due to {name}{since}; not delivered yet."
    return stage("delivery", "waiting", text, last, rule="pending")


def _not_due(
    history: History,
    items: ItemEvents,
    moment: Moment,
    block: PastBlock,
    statement: EventRecord,
    removal: EventRecord | None,
) -> Stage:
    name, sees_it = block.name, SEES_IT.get(block.settings.get("deliver_on", "flush"), SEES_IT["flush"])
    if removal is None or removal.position > moment.position:
        text = f"Still in the queue: {name} sees the message {sees_it}."
        if moment.built is None or sees_it != SEES_IT["flush"]:
            return stage("delivery", "waiting", text, moment.record or statement, rule="queued")
        # At the end of the shown turn, if still queued then: the prompt precedes the turn's answer.
        turn = history.turns.get(moment.turn)
        stays = turn is not None and (removal is None or removal.turn > moment.turn)
        tokens = turn.queue_tokens if turn is not None and stays else moment.built.queue_asked
        budget = history.config_at(moment.position).history_budget
        return stage("delivery", "waiting", f"{text} The queue has {tokens:,} tokens of {budget:,.0f}.", moment.record,
                     rule="queued", queue_tokens=tokens, history_budget=budget)  # fmt: skip
    made = (record for record in items.blocks[name] if record.event.operation == "create_store")
    added = [record for record in made if record.position > removal.position]
    if added:
        text = f"Never given to {name}: the block was added in turn {added[0].turn}, after the message left the queue."
        return stage("delivery", "lost", text, added[0], rule="added_later")
    if sees_it == SEES_IT["session_end"]:
        return stage("delivery", "waiting", f"Kept until the session ends: {name} sees it {sees_it}.", removal,
                     rule="session_open")  # fmt: skip
    text = f"Never given to {name}: not due to the block when the message left the queue {in_turn(removal)}."
    return stage("delivery", "lost", text, removal, rule="not_due")


def _until(events: Sequence[EventRecord], position: int) -> list[EventRecord]:
    return [record for record in events if record.position <= position]


def _clause(error: str) -> str:
    return error.strip().rstrip(".")


# -- in the prompt -------------------------------------------------------------------------------


def cut_text(turn: int, cut: Cutting) -> str:
    """Describe a cut of a block's part in one sentence."""
    return CUTS[cut.rule].sentence.format(
        turn=turn, part=cut.part, over=count(cut.over_before), order="next" if cut.later else "first"
    )


def granted(moment: Moment, block: str, ref: Ref, as_what: str, seqs: Iterable[int] = ()) -> Stage | None:
    """Return the prompt stage of a block's ref: held, cut or lost with the block; None if the block did not request it.

    `seqs`: messages of a stored unit; if the prompt marks one of them as a former value, the stage says so.
    """
    if moment.record is None:
        return stage("prompt", "waiting", no_prompt(moment.turn), rule="no_prompt")
    if ref in moment.held:
        parts = [part for part in context_of(moment.record).parts if part["name"] == block]
        marks = stored_marks(parts[0]) if parts else {}
        marked_refs = [ref] if ref.kind in ("fact", "relation", "text") else [Ref.of("message", seq) for seq in seqs]
        beside = [marks[one] for one in marked_refs if one in marks]
        marked = f" It is marked there: {beside[0].text()}." if beside else ""
        text = f"In {moment.prompt}, {as_what}.{marked}"
        return stage("prompt", "passed", text, moment.record, turn=moment.record.turn)
    cut = moment.cut.get(ref)
    if cut is not None:
        text = cut_text(moment.record.turn, cut)
        return stage("prompt", "lost", text, moment.record, rule=cut.rule, priority=cut.priority,
                     over_before=cut.over_before)  # fmt: skip
    failed = moment.failed.get(block)
    if failed is not None:
        error: Any = failed.event
        text = f"{block} could not be read for {moment.prompt}: {_clause(error.error)}."
        return stage("prompt", "lost", text, failed, rule="block_failed")
    past_block = moment.blocks.get(block)
    if past_block is None:
        text = f"{block} was not in the session for {moment.prompt}."
        return stage("prompt", "lost", text, moment.record, rule="block_removed")
    if not past_block.settings.get("enabled", True):
        text = f"{block} was switched off for {moment.prompt}."
        return stage("prompt", "lost", text, moment.record, rule="block_off")
    # The block was read and did not ask for it; callers explain this by its settings or its search.
    return None


def in_quarantine(moment: Moment, holds: Callable[[QuarantinedSet], bool]) -> Stage | None:
    """Return the stage of an item in quarantine; None if no set of the moment holds it."""
    held_in = next(filter(holds, moment.quarantine), None)
    if held_in is None:
        return None
    since = f" since turn {held_in.turn:,}" if held_in.turn else ""
    text = f"In quarantine{since}: no prompt has it until you release it."
    return stage("prompt", "lost", text, moment.record, rule="quarantined", number=held_in.number, since=held_in.turn)


def search_stage(moment: Moment, block: PastBlock, number: int, embedder: str | None) -> Stage:
    """Return the stage of a vector search for a stored unit; `embedder`: model of its vector, None without one."""
    record = moment.retrieved.get(block.name)
    ref = Ref.of("unit", number)
    asked_for = ref in moment.held or ref in moment.cut
    event = search_of(record) if record is not None else None
    if record is None or event is None:
        if asked_for:
            return stage("found", "passed", f"{block.name} asked for it.", moment.record)
        text = f"{block.name} made no search for {moment.prompt}."
        return stage("found", "lost", text, moment.record, rule="no_search")
    for rank, (candidate, _, _, score, outcome) in enumerate(event.candidates, start=1):
        if candidate == number:
            return _outcome(event, record, score, outcome, rank, asked_for)
    if asked_for:
        return stage("found", "passed", f"{block.name} found it, below the best candidates that were recorded.", record)
    listed = len(event.candidates)
    if embedder != event.embedder and event.embedder is not None:
        text = (
            f"Not found: it has no vector of {event.embedder}, and is found by words alone until it is embedded again."
        )
        return stage("found", "lost", text, record, rule="no_vector")
    text = f"Not found: it is not among the {listed} best candidates of {block.name} that were recorded."
    # If every candidate is listed, nothing else was proposed; otherwise it may be among those only counted.
    if listed == sum(event.gates.values()):
        text = f"Not found: neither search of {block.name} proposed it among its {listed} candidates."
    return stage("found", "lost", text, record, rule="not_proposed", candidates=listed)


def _outcome(event: Retrieved, record: EventRecord, score: float, outcome: str, rank: int, asked_for: bool) -> Stage:
    if outcome == "granted" or asked_for:
        text = f"Found by {event.block} with a score of {score:.2f}, number {rank} of its candidates."
        return stage("found", "passed", text, record, score=score, rank=rank)
    rule, numbers = SEARCH[outcome], SearchNumbers.recorded(event, score, rank)
    text = numbers.filled(rule.sentence)
    return stage("found", rule.verdict, text, record, rule=outcome, knowledge="decided", **rule.decisive(numbers))
