"""Explain for every item in memory why it is or is not in a prompt, in one pass. Pure.

Results agree with `Memory.trace`, as both take the last stage from `stages`; earlier stages are omitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from memory_core.events import Ref
from memory_core.history.block_slice import PastBlock
from memory_core.tracing.item_events import ItemEvents, Records
from memory_core.tracing.rule_words import CUTS
from memory_core.tracing.stages import (
    fact_kept,
    fact_later,
    fact_shown,
    granted,
    relation_gone,
    relation_later,
    relation_shown,
    stage,
    text_shown,
    unit_shown,
)
from memory_core.tracing.trace_time import Moment
from memory_core.tracing.values import Stage


@dataclass(frozen=True, slots=True)
class Effect:
    """Outcome for one item of memory in one prompt: in the prompt, cut, not retrieved, set aside, ..."""

    ref: Ref
    block: str
    stage: Stage
    """Last stage of the item on its way to the prompt, with sentence, rule and numbers as in a trace."""

    @property
    def shown(self) -> bool:
        return self.stage.name == "prompt" and self.stage.verdict == "passed"

    @property
    def overruled(self) -> bool:
        """Return whether the item was set aside (superseded, retired, erased) or cut, rather than not retrieved."""
        put_aside = self.stage.name == "kept" and self.stage.verdict == "lost"
        return put_aside or self.stage.rule in CUTS


class Effects:
    """Outcomes for a session's items: in a prompt, or absent for a recorded reason. Empty without a prompt."""

    def __init__(self, items: ItemEvents, moment: Moment, upto: int) -> None:
        """`items`: events of all facts and relations. `upto`: log position. Outcomes are computed on demand."""
        self._items, self._moment, self._upto = items, moment, upto
        self._known: dict[Ref, Effect | None] = {}
        cut = {ref: cut.part for ref, cut in moment.cut.items()}
        # Later entries win: a granted ref belongs to the part that has it.
        self._in: dict[Ref, str] = {**moment.candidates, **cut, **moment.held}
        """Block of each retrieved, cut or granted ref."""

    @property
    def turn(self) -> int | None:
        """Return the prompt's turn; None without a prompt."""
        return self._moment.record.turn if self._moment.record is not None else None

    def of(self, ref: Ref) -> Effect | None:
        """Return the outcome for a fact, a relation, or anything retrieved, cut or granted.

        None without a prompt, or for a ref in neither the log nor the prompt.
        """
        if ref not in self._known:
            self._known[ref] = self._effect(ref) if self._moment.record is not None else None
        return self._known[ref]

    def of_text(self, block: PastBlock) -> Effect | None:
        """Return the outcome for a block's current text as a whole; None without a text or a prompt."""
        moment, then = self._moment, self._moment.blocks.get(block.name)
        if moment.record is None or not block.text:
            return None
        ref = Ref.of("text", block.text)
        if then is not None and then.text == block.text:
            return Effect(ref, block.name, text_shown(moment, then))
        edited = self._items.revisions.get((block.name, block.revision))
        since = f" in turn {edited.turn}" if edited is not None else ""
        text = f"Version {block.revision} of {block.name} came{since}, after {moment.prompt}."
        later = stage("learned", "lost", text, edited, rule="learned_later", revision=block.revision)
        return Effect(ref, block.name, later)

    def without(self, block: str) -> list[Effect]:
        """Return a block's items that the prompt lacks, except erased ones.

        Cut items first, then items not sent, then those set aside; in each group units best first, others newest first.
        """
        facts = [Ref.of("fact", id) for id in self._of_block(self._items.facts, block)]
        relations = [Ref.of("relation", id) for id in self._of_block(self._items.relations, block)]
        block_refs = [ref for ref, name in self._in.items() if name == block and ref.kind != "day"]
        refs = dict.fromkeys((*block_refs, *reversed(facts), *reversed(relations)))
        effects = [effect for ref in refs if (effect := self.of(ref)) is not None]
        left_out = [effect for effect in effects if not effect.shown and effect.stage.rule != "erased"]
        return sorted(left_out, key=lambda effect: (effect.stage.rule not in CUTS, effect.overruled))

    def _of_block(self, records_of: Mapping[int, Records], block: str) -> list[int]:
        """Return the ids of a block's facts or relations at the position, in order of creation."""
        return [
            id
            for id, records in tuple(records_of.items())  # copied, as another thread may extend it
            if records[0].event.about == block and records[0].position <= self._upto
        ]

    def _effect(self, ref: Ref) -> Effect | None:
        ended = {"fact": self._learned, "relation": self._learned, "unit": self._unit}.get(ref.kind, self._other)(ref)
        return None if ended is None else Effect(ref, *ended)

    def _learned(self, ref: Ref) -> tuple[str, Stage] | None:
        moment, id, of_fact = self._moment, ref.number, ref.kind == "fact"
        records = (self._items.facts if of_fact else self._items.relations).get(id)
        if not records:
            return None
        block = records[0].event.about or ""
        if records[0].position > moment.position:
            later = (
                fact_later(self._items, moment, id, records[0]) if of_fact else relation_later(moment, id, records[0])
            )
            return block, later
        then = [record for record in records if record.position <= moment.position]
        if of_fact:
            state, _ = fact_kept(self._items, id, then)
            return block, fact_shown(self._items, moment, block, id) if state.verdict == "passed" else state
        return block, relation_gone(self._items, id, then) or relation_shown(moment, block, id)

    def _unit(self, ref: Ref) -> tuple[str, Stage] | None:
        block = self._in.get(ref)
        if block is None:
            return None
        *_, end = unit_shown(self._moment, block, ref.number, None)  # the search named it: any embedder
        return block, end

    def _other(self, ref: Ref) -> tuple[str, Stage] | None:
        block = self._in.get(ref)
        end = granted(self._moment, block, ref, f"in the text of {block}") if block is not None else None
        return None if block is None or end is None else (block, end)
