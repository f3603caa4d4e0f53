"""Final stages of stored facts, relations and units on their way into a prompt. Pure.

Shared by the tracks of a trace and by `effects`, so that both agree.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from memory_core.events import EventRecord, Ref
from memory_core.history.slices.block_slice import PastBlock
from memory_core.history.slices.fact_slice import rewords_fact
from memory_core.tracing.item_events import ItemEvents
from memory_core.tracing.stages import author, granted, in_quarantine, in_turn, search_stage, stage
from memory_core.tracing.trace_time import Moment
from memory_core.tracing.values import Stage

AWAY = frozenset({"block_off", "block_removed", "block_failed"})
"""Rules that exclude everything in a block."""

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
