"""The numbers of each turn of a session, as its pages show them, so that two sessions can be compared. Pure."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from memory_core.events import Event, MessageAdded, expand, spread
from memory_core.history.by_turn import History, TurnRecord, flush_of, search_of
from memory_core.history.slices.contexts import context_of
from memory_core.history.slices.projection import Projection
from memory_core.tokens import total_tokens


@dataclass(frozen=True, slots=True)
class BlockNumbers:
    """One block at the end of a turn. Sizes are tokens; None: there is no such number."""

    requested: int | None = None
    """In the turn's last prompt."""
    granted: int | None = None
    facts: int | None = None
    """Active ones. None if the block is no facts block, or belongs to a user: other sessions add to it."""
    fact_tokens: int | None = None
    entities: int | None = None
    relations: int | None = None
    """Those that hold, and those that have ended."""
    candidates: int | None = None
    """Stored turns that the turn's last search considered."""
    recalled: int | None = None
    """Stored turns that it returned."""
    fitted: int | None = None
    """Stored turns that were in the prompt."""


@dataclass(frozen=True, slots=True)
class TurnNumbers:
    """One turn of a session, and all that came before it. Sizes are tokens of the session's accounting.

    None: the turn has no prompt, and so no such number.
    """

    turn: int
    sent: int | None
    """The turn's last prompt."""
    requested: int | None
    cut: int | None
    billed: int | None
    queue_requested: int | None
    queue_sent: int | None
    queue: int
    """In the queue at the end of the turn."""
    flushed: int
    """Messages that left the queue in it."""
    learned: int
    """Facts and relations that were learned from messages in it."""
    flushes: int
    """Until its end, as are those that follow."""
    cuts: int
    """Turns whose prompt was cut."""
    facts_added: int
    relations_added: int
    said: int
    """Tokens of all messages."""
    facts: int
    """Active facts of blocks that do not belong to a user."""
    blocks: Mapping[str, BlockNumbers] = field(default_factory=dict)
    """By name."""


def is_learned(event: Event) -> bool:
    """Whether it adds something learned from messages that is in use: not written by hand, rewritten or unreviewed."""
    if event.adds is None:
        return False
    return getattr(event, "origin", "") == "extracted" and getattr(event, "state", "active") == "active"


def turn_numbers(history: History) -> dict[int, TurnNumbers]:
    """The numbers of every turn, from one pass over the log."""
    found: dict[int, TurnNumbers] = {}
    past, totals, said, place = Projection(), Counter[str](), Counter[str](), 0
    for number, turn in sorted(history.turns.items()):
        learned = 0
        while place < len(history.records) and history.records[place].position <= turn.last_position:
            record = history.records[place]
            place += 1
            first = past.messages.next_seq
            replaced = expand(getattr(record.event, "removed", ())) if record.kind == "queue_replaced" else ()
            gone = [*past.apply(record), *replaced]
            learned += record.turn == number and is_learned(record.event)
            for seq in gone:
                said.subtract(_sizes(past.messages.by_seq[seq].added))
            for seq in range(first, past.messages.next_seq):
                said.update(_sizes(past.messages.by_seq[seq].added))
        totals.update(
            flushes=len(turn.flushes),
            cuts=bool(turn.cut_tokens),
            facts_added=turn.facts_added,
            relations_added=turn.relations_added,
        )
        accounting = history.config_at(turn.last_position).accounting
        tokens = total_tokens(said["content"], said["reference"], said["messages"], accounting)
        found[number] = _numbers(turn, past, learned, totals, tokens)
    return found


def _sizes(added: MessageAdded) -> dict[str, int]:
    return {"content": added.tokens, "reference": added.reference_tokens, "messages": 1}


def _numbers(turn: TurnRecord, past: Projection, learned: int, totals: Mapping[str, int], said: int) -> TurnNumbers:
    built = context_of(turn.built) if turn.built is not None else None
    blocks = _blocks(turn, past)
    return TurnNumbers(
        turn=turn.turn,
        sent=built.total if built else None,
        requested=built.asked if built else None,
        cut=turn.cut_tokens if built else None,
        billed=built.billed if built else None,
        queue_requested=built.queue_asked if built else None,
        queue_sent=built.queue_tokens if built else None,
        queue=turn.queue_tokens,
        flushed=sum(flush_of(record).messages for record in turn.flushes),
        learned=learned,
        said=said,
        facts=sum(block.facts or 0 for block in blocks.values()),
        blocks=blocks,
        **totals,
    )


def _blocks(turn: TurnRecord, past: Projection) -> dict[str, BlockNumbers]:
    facts, sizes = Counter[str](), Counter[str]()
    for fact in past.facts.by_id.values():
        if fact.state == "active":
            facts[fact.added.block] += 1
            sizes[fact.added.block] += fact.tokens
    there = {id: each.block for id, each in past.graph.entities.items() if each.state == "active"}
    entities = Counter(there.values())
    relations = Counter(
        each.block
        for each in past.graph.relations.values()
        if each.state != "retired" and each.subject in there and each.object in there
    )
    parts = {part["name"]: part for part in context_of(turn.built).parts} if turn.built is not None else {}
    searches = {found.block: found for record in turn.searches if (found := search_of(record)) is not None}
    made = {}
    for block in past.blocks.now:
        part, search = parts.get(block.name), searches.get(block.name)
        own_facts, graph = block.kind == "facts" and block.scope != "user", block.kind == "graph"
        made[block.name] = BlockNumbers(
            requested=int(part["asked"]) if part else None,
            granted=int(part["granted"]) if part else None,
            facts=facts[block.name] if own_facts else None,
            fact_tokens=sizes[block.name] if own_facts else None,
            entities=entities[block.name] if graph else None,
            relations=relations[block.name] if graph else None,
            candidates=sum(search.gates.values()) if search else None,
            recalled=search.gates.get("granted", 0) if search else None,
            fitted=sum(ref.kind == "unit" for ref in spread(part["refs"])) if search and part else None,
        )
    return made
