"""Build the stages of one carrier's track, each with the sentence, rule and numbers of its event. Pure.

The last stages of facts, relations and units are those of `effects` too, so that both agree.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from memory_core.errors import NotFoundError
from memory_core.events import EventRecord, Ref, Retrieved, expand, spread
from memory_core.history.block_slice import PastBlock
from memory_core.history.by_turn import History, search_of
from memory_core.history.context_pieces import Pieces
from memory_core.history.contexts import context_of, is_context
from memory_core.history.learned_slices import rewords_fact
from memory_core.planning.context_plan import QUEUE
from memory_core.planning.former_values import stored_marks
from memory_core.planning.quarantine import QuarantinedSet
from memory_core.text import count
from memory_core.tracing.item_events import ItemEvents
from memory_core.tracing.rule_words import CUTS, SEARCH, SearchNumbers
from memory_core.tracing.trace_time import Cutting, Moment
from memory_core.tracing.values import SPEAKERS, CutEntry, CutTrace, Knowledge, Stage, StageName, Verdict

SEES_IT = {"flush": "at the next flush", "turn": "once its turn is over", "session_end": "when the session is closed"}
"""Time at which a block receives a queued message, by its setting `deliver_on`."""

AWAY = frozenset({"block_off", "block_removed", "block_failed"})
"""Rules that exclude everything in a block."""


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


def intake(items: ItemEvents, moment: Moment, added: EventRecord, removal: EventRecord | None) -> list[Stage]:
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
        for events in ([one for one in events if one.position <= moment.position] for events in items.deliveries[seq])
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


# -- facts -----------------------------------------------------------------------------------------


def fact_later(items: ItemEvents, moment: Moment, id: int, record: EventRecord) -> Stage:
    """Return the stage of a fact that was created only after the prompt."""
    number = items.number("fact", id)
    text = f"Learned as fact {number:,} of {record.event.about} only in turn {record.turn:,}, after {moment.prompt}."
    return stage("learned", "lost", text, record, rule="learned_later", fact=id, number=number,
                 turn=record.turn)  # fmt: skip


def fact_kept(items: ItemEvents, id: int, records: Sequence[EventRecord]) -> tuple[Stage, int | None]:
    """Return the stage of a fact's state after these events, and the id of the fact that replaced it, if any."""
    state, decided, number = "active", records[0], items.number("fact", id)
    for record in records:
        event: Any = record.event
        if event.operation == "create":
            state, decided = event.state, record
        elif event.becomes is not None or event.operation == "delete":
            state, decided = event.becomes or "erased", record
    turn, event = decided.turn, decided.event
    if state == "active":
        reworded = [record for record in records if rewords_fact(record.event)]
        since = f"Active since turn {turn:,}" if turn else "Active"
        since = f"Reworded {in_turn(reworded[-1])}, and active" if reworded else since
        return stage("kept", "passed", f"{since}.", reworded[-1] if reworded else decided), None
    if state == "proposed":
        since = f" since turn {turn:,}" if turn else ""
        text = f"Waits for approval{since}: until then fact {number:,} is in no prompt."
        return stage("kept", "waiting", text, decided, rule="proposed", fact=id, number=number), None
    if state == "superseded":
        return _superseded(items, id, decided)
    if state == "erased":
        text = f"Fact {number:,} was deleted for good by {author(decided)} {in_turn(decided)}."
        return stage("kept", "lost", text, decided, rule="erased", fact=id, number=number), None
    reason = f": {event.reason.rstrip('.')}" if getattr(event, "reason", "") else ""
    text = f"Fact {number:,} was {state} by {author(decided)} {in_turn(decided)}{reason}."
    return stage("kept", "lost", text, decided, rule=state, fact=id, number=number), None


def _superseded(items: ItemEvents, id: int, decided: EventRecord) -> tuple[Stage, int | None]:
    by: int | None = getattr(decided.event, "by", None)
    number = items.number("fact", id)
    # The event of condensing follows the changes that it made.
    after = bisect_left(items.condensed, decided.position, key=lambda record: record.position)
    for record in islice(items.condensed, after, None):
        event: Any = record.event
        if event.block != decided.event.about:
            continue
        merged = next((into for sources, into in event.merged if id in sources and into != id), None)
        if record.turn != decided.turn or not (merged or id in event.vanished):  # it was changed by an event of its own
            break
        counts = f"{event.before:,} facts became {event.after:,}"
        if id in event.vanished:
            text = f"Condensed away {in_turn(record)}: {counts}, and fact {number:,} was left out."
            numbers = {"fact": id, "number": number, "before": event.before, "after": event.after}
            return stage("kept", "lost", text, record, rule="condensed", **numbers), None
        if merged is not None:
            into = items.number("fact", merged)
            text = f"Merged into fact {into:,} when facts were condensed {in_turn(record)}: {counts}."
            numbers = {"fact": id, "number": number, "by": merged, "before": event.before, "after": event.after}
            return stage("kept", "lost", text, record, rule="merged", **numbers), merged
    if by is None:
        text = f"Fact {number:,} was superseded {in_turn(decided)}: it was reported as no longer true."
        return stage("kept", "lost", text, decided, rule="superseded", fact=id, number=number), None
    text = f"Superseded {in_turn(decided)} by fact {items.number('fact', by):,}."
    return stage("kept", "lost", text, decided, rule="superseded", fact=id, number=number, by=by), by


def fact_shown(items: ItemEvents, moment: Moment, block: str, id: int) -> Stage:
    """Return the stage saying whether an active fact is in the prompt, or which rule excluded it."""
    end = granted(moment, block, Ref.of("fact", id), f"as fact {items.number('fact', id):,} of {block}")
    if end is not None:
        return end
    if (withheld := in_quarantine(moment, lambda one: id in one.facts)) is not None:
        return withheld
    settings = moment.blocks[block].settings
    show, top_k = settings.get("show", "all"), settings.get("top_k")
    if show == "none":
        text = f"{block} puts no facts into the prompt: its facts are searched with a tool."
        return stage("found", "lost", text, moment.record, rule="show_none")
    if show == "all" and settings.get("former_values") == "leave_out":
        text = f"{block} leaves out facts whose value something later contradicts, until a person decides."
        return stage("found", "lost", text, moment.record, rule="contradicted", fact=id)
    if show == "relevant" and isinstance(top_k, int):
        best = "the fact" if top_k == 1 else f"among the {top_k} facts"
        text = f"Not {best} of {block} that {'fits' if top_k == 1 else 'fit'} the question best."
        return stage("found", "lost", text, moment.record, rule="not_relevant", top_k=top_k)
    text = f"{block} did not request fact {items.number('fact', id):,}; no reason is recorded."
    return stage("found", "lost", text, moment.record, rule="no_reason", knowledge="observed", fact=id)


# -- relations -------------------------------------------------------------------------------------


def relation_later(moment: Moment, id: int, record: EventRecord) -> Stage:
    """Return the stage of a relation that was created only after the prompt."""
    text = f"Learned as a relation of {record.event.about} only in turn {record.turn:,}, after {moment.prompt}."
    return stage("learned", "lost", text, record, rule="learned_later", relation=id)


def relation_gone(items: ItemEvents, id: int, records: Sequence[EventRecord]) -> Stage | None:
    """Return the stage of the event that deactivated a relation; None if it is active."""
    # The latest change of state decides; other events only reword the relation.
    for record in reversed(records):
        event: Any = record.event
        state = event.becomes or getattr(event, "after", {}).get("state")
        if event.operation == "delete":
            state = state or "erased"
        if state == "active":
            return None
        if state is not None:
            by = f" by relation {items.number('relation', event.by):,}" if getattr(event, "by", None) else ""
            text = f"Relation {items.number('relation', id):,} was {state} {in_turn(record)}{by}."
            return stage("kept", "lost", text, record, rule=state, relation=id)
    return None


def relation_shown(moment: Moment, block: str, id: int) -> Stage:
    """Return the stage saying whether an active relation is in the prompt, or which rule excluded it."""
    end = granted(moment, block, Ref.of("relation", id), f"as a relation of {block}")
    if end is not None:
        return end
    if (withheld := in_quarantine(moment, lambda one: id in one.relations)) is not None:
        return withheld
    hops = moment.blocks[block].settings.get("hops")
    text = f"{block} did not recall it: it recalls relations up to {hops} steps from what the question names."
    return stage("found", "lost", text, moment.record, rule="not_near", knowledge="observed")


# -- stored units ----------------------------------------------------------------------------------


def unit_shown(
    moment: Moment, block: str, number: int, embedder: str | None, seqs: Iterable[int] = ()
) -> Iterator[Stage]:
    """Yield the stage of the search for a stored unit and, if it was retrieved, the stage of the prompt.

    `embedder`: model of its vector; None without a vector. `seqs`: the unit's messages.
    """
    past_block = moment.blocks.get(block)
    # Before the search: a block that is off, gone or unreadable makes every search result irrelevant.
    end = granted(moment, block, Ref.of("unit", number), f"recalled by {block}", seqs)
    away = end is not None and end.rule in AWAY
    if past_block is not None and moment.record is not None and not away:
        search = search_stage(moment, past_block, number, embedder)
        yield search
        if search.verdict != "passed":
            return
    if end is None:
        text = f"{block} found it, and it is not in {moment.prompt}."
        end = stage("prompt", "unknown", text, moment.record, knowledge="observed")
    yield end


# -- texts -----------------------------------------------------------------------------------------


def text_ref(moment: Moment, block: PastBlock) -> Ref | None:
    """Return the ref by which a prompt holds or cuts a block's text; the first if several."""
    refs = [ref for ref, name in moment.held.items() if name == block.name]
    refs += [ref for ref, cut in moment.cut.items() if cut.part == block.name]
    # A summary is in the prompt by its sentences, so the hash of the whole text is the last resort.
    text_ref = Ref.of("text", block.text) if block.text else None
    return next((ref for ref in refs if ref.kind == "text"), text_ref)


def text_shown(moment: Moment, block: PastBlock) -> Stage:
    """Return the stage saying whether a block's text is in the prompt, or which rule excluded it."""
    ref = text_ref(moment, block)
    end = granted(moment, block.name, ref, f"in the text of {block.name}") if ref is not None else None
    if end is None:
        end = stage("prompt", "lost", f"{block.name} had nothing for {moment.prompt}.", moment.record, rule="not_asked")
    return end


# -- a recorded cut --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundCut:
    """A cut of a recorded prompt."""

    record: EventRecord
    """Log record of the prompt."""
    part: str
    rule: str
    tokens: int
    refs: tuple[Ref, ...]
    """Refs that were cut; for the queue, one per message."""
    stage: Stage

    def trace(self, entries: tuple[CutEntry, ...], prompt: str, *, its_own: bool) -> CutTrace:
        """Return the cut with its entries; `prompt` names the viewed prompt; `its_own`: True if that prompt was cut."""
        more = len(self.refs) - len(entries)
        return CutTrace(self.part, self.rule, self.tokens, self.stage, entries, prompt, its_own, more)


def find_cut(history: History, pieces: Pieces, ref: Ref) -> FoundCut:
    """Find the cut that a ref names.

    Raises:
        NotFoundError: The log lacks the prompt, or the prompt lacks the cut.
    """
    position, number = ref.cut
    record = next((entry for entry in history.after(position - 1)[:1] if entry.position == position), None)
    cuts = context_of(record).cuts if record is not None and is_context(record.event) else ()
    if record is None or not 1 <= number <= len(cuts):
        raise NotFoundError(f"There is no cut {number} of a prompt at position {position} of this session's log.")
    cut: Mapping[str, Any] = cuts[number - 1]
    refs = [ref for ref in spread(cut["refs"]) if ref.kind != "day"]  # a date line carries no information by itself
    if cut["part"] == QUEUE:  # turns of the queue are named by their first message
        refs = [Ref.of("message", seq) for seq in pieces.left_out(record)]
    return FoundCut(record, cut["part"], cut["rule"], int(cut["tokens"]), tuple(refs), _decided(record, cut))


def _decided(record: EventRecord, cut: Mapping[str, Any]) -> Stage:
    over = int(cut["over_before"])
    if cut["part"] == QUEUE:
        text = CUTS["oldest_turns"].sentence.format(turn=record.turn, over=count(over))
        return stage("prompt", "lost", text, record, rule=cut["rule"], over_before=over, tokens=int(cut["tokens"]))
    priority = next((int(part["priority"]) for part in context_of(record).parts if part["name"] == cut["part"]), 0)
    later = cut["part"] != context_of(record).cuts[0]["part"]
    text = cut_text(record.turn, Cutting(cut["part"], cut["rule"], priority, over, later))
    return stage("prompt", "lost", text, record, rule=cut["rule"], priority=priority, over_before=over,
                 tokens=int(cut["tokens"]))  # fmt: skip
