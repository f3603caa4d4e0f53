"""Usage of every block, fact, relation and stored turn: number of prompts, number of cuts, last write.

Pure: read from a session's projection.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from memory_core.events import RefKind
from memory_core.history.contexts import BlockCounts, Write
from memory_core.history.projection import Projection


@dataclass(frozen=True, slots=True)
class Use:
    """Usage of one fact, relation or stored turn: in how many prompts it was, and from how many it was cut."""

    carried: int = 0
    """Number of prompts that included the item."""
    cut: int = 0
    """Number of prompts that the item was cut from."""

    @property
    def asked(self) -> int:
        """Number of prompts that the item was requested for; of a stored turn, how often it was retrieved."""
        return self.carried + self.cut


@dataclass(frozen=True, slots=True)
class BlockUse:
    """Usage of one block. Counts restart when a block is removed and added again, and after a full reset."""

    prompts: int = 0
    """Number of prompts that the block requested tokens for."""
    cut_in: int = 0
    """Number of prompts in which the block was cut."""
    cut_tokens: int = 0
    """Total tokens cut from the block."""
    last_cut_turn: int | None = None
    last_write: Write | None = None
    """Last write of a fact, relation or stored turn, or of the block's text or fields; None: never."""
    waiting: tuple[int, ...] = ()
    """Ids of deliveries due to the block that are not done."""
    parked: tuple[int, ...] = ()
    """Ids of deliveries due to the block that are parked."""
    delivery_error: str | None = None
    """Error of the last failed delivery attempt; None if nothing is due to the block."""
    read_error: str | None = None
    """Error from reading the block for the last prompt; None if there was none."""
    facts: int = 0
    """Number of active facts in this session's log; a user-scoped block may have more from other sessions."""
    newest_fact: str | None = None
    """Hash of the newest active fact's text."""
    stored_turns: int = 0
    entities: int = 0
    """Number of active entities, for a graph."""
    relations: int = 0
    """Number of active relations, for a graph."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage counts of a session's blocks, facts, relations and stored turns."""

    position: int = 0
    """Position of the last event counted."""
    blocks: Mapping[str, BlockUse] = field(default_factory=dict)
    facts: Mapping[int, Use] = field(default_factory=dict)
    """Use of facts by id; facts that were in no prompt are omitted."""
    turns: Mapping[int, Use] = field(default_factory=dict)
    """Use of stored turns by number; those never retrieved are omitted."""
    relations: Mapping[int, Use] = field(default_factory=dict)
    """Use of relations by id; relations that were in no prompt are omitted."""
    kept: Mapping[RefKind, AbstractSet[int]] = field(
        default_factory=lambda: {"fact": set(), "unit": set(), "relation": set()}
    )
    """Ids of active facts, stored turns and active relations, whether or not they were in a prompt."""

    def of(self, block: str) -> BlockUse:
        """Return the usage of a block; all zero if the log does not mention it."""
        return self.blocks.get(block, BlockUse())


def usage_of(past: Projection) -> Usage:
    """Count the usage in the part of a log that was applied."""
    carried, cut = past.prompts.carried(), past.prompts.cut()
    return Usage(
        past.position,
        _block_uses(past),
        _uses(carried["fact"], cut["fact"]),
        _uses(carried["unit"], cut["unit"]),
        _uses(carried["relation"], cut["relation"]),
        {
            "fact": {id for id, fact in past.facts.by_id.items() if fact.state == "active"},
            "unit": set(past.vectors.there),
            "relation": {id for id, relation in past.graph.relations.items() if relation.state == "active"},
        },
    )


def _block_uses(past: Projection) -> dict[str, BlockUse]:
    due, facts = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    for number, delivery in past.deliveries.due.items():
        due[delivery.queued.block].append(number)
    for id, fact in past.facts.by_id.items():
        if fact.state == "active":
            facts[fact.added.block].append(id)
    entities = Counter(entity.block for entity in past.graph.entities.values() if entity.state == "active")
    relations = Counter(relation.block for relation in past.graph.relations.values() if relation.state == "active")
    counts = past.prompts.by_block
    # A log that starts in the middle, as in a test, mentions blocks without recording that they were added.
    others = {name for name, _ in counts} | {*due, *facts, *entities, *relations, *past.vectors.counts}
    names = [*(block.name for block in past.blocks.now), *sorted(others - past.blocks.ever)]
    blocks = {name: counts.get(past.prompts.key(name), BlockCounts()) for name in names}
    return {
        name: BlockUse(
            prompts=block.prompts,
            cut_in=block.cut_in,
            cut_tokens=block.cut_tokens,
            last_cut_turn=block.last_cut_turn,
            last_write=block.last_write,
            waiting=tuple(due[name]),
            parked=tuple(sorted(n for n in due[name] if past.deliveries.due[n].state == "parked")),
            delivery_error=past.deliveries.errors.get(name) if due[name] else None,
            read_error=block.read_error,
            facts=len(facts[name]),
            newest_fact=past.facts.by_id[max(facts[name])].content if facts[name] else None,
            stored_turns=past.vectors.counts.get(name, 0),
            entities=entities[name],
            relations=relations[name],
        )
        for name, block in blocks.items()
    }


def _uses(carried: Mapping[int, int], cut: Mapping[int, int]) -> dict[int, Use]:
    return {number: Use(carried.get(number, 0), cut.get(number, 0)) for number in sorted({*carried, *cut})}
