"""What has no effect on one prompt, and why: of everything that blocks keep, in one go. Pure.

It says of each what `Memory.trace` would, because both take the last stage from `ends`; only the way there is left out.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from memory_core.events import Ref
from memory_core.history.slices.block_slice import PastBlock
from memory_core.tracing.final_stages import (
    fact_kept,
    fact_later,
    fact_shown,
    relation_gone,
    relation_later,
    relation_shown,
    text_shown,
    unit_shown,
)
from memory_core.tracing.life import Life, Records
from memory_core.tracing.moment import Moment
from memory_core.tracing.stages import CUT_RULES, granted, stage
from memory_core.tracing.values import Stage


@dataclass(frozen=True, slots=True)
class Effect:
    """What became of one thing that a block keeps, as of one prompt."""

    ref: Ref
    block: str
    stage: Stage
    """The stage that ended its way: its sentence, rule and numbers are those of a trace."""

    @property
    def shown(self) -> bool:
        return self.stage.name == "prompt" and self.stage.verdict == "passed"

    @property
    def overruled(self) -> bool:
        """Whether something else took its place or its room: it was put aside, or cut. Otherwise it was not sent."""
        put_aside = self.stage.name == "kept" and self.stage.verdict == "lost"
        return put_aside or self.stage.rule in CUT_RULES


class Effects:
    """Of what a session keeps, what is in one prompt, and why the rest is not. Without a prompt, nothing is told."""

    def __init__(self, life: Life, moment: Moment, upto: int) -> None:
        """`life`: that of all facts and relations. `upto`: log position after which nothing is told."""
        self._life, self._moment, self._upto = life, moment, upto
        self._known: dict[Ref, Effect | None] = {}
        cut = {ref: cut.part for ref, cut in moment.cut.items()}
        self._in: dict[Ref, str] = {**moment.candidates, **cut, **moment.held}
        """Block of each ref that was found, cut or granted."""

    @property
    def turn(self) -> int | None:
        """Turn of the prompt; None if none was built."""
        return self._moment.record.turn if self._moment.record is not None else None

    def of(self, ref: Ref) -> Effect | None:
        """What became of a fact, a relation, or of anything that was found, cut or granted.

        None where nothing is told: without a prompt, and of what neither the log nor the prompt names.
        """
        if ref not in self._known:
            self._known[ref] = self._effect(ref) if self._moment.record is not None else None
        return self._known[ref]

    def of_text(self, block: PastBlock) -> Effect | None:
        """What became of the text that a block has now, as a whole; None without a text, or without a prompt."""
        moment, then = self._moment, self._moment.blocks.get(block.name)
        if moment.record is None or not block.text:
            return None
        ref = Ref.of("text", block.text)
        if then is not None and then.text == block.text:
            return Effect(ref, block.name, text_shown(moment, then))
        edited = self._life.revisions.get((block.name, block.revision))
        since = f" in turn {edited.turn}" if edited is not None else ""
        text = f"Version {block.revision} of {block.name} came{since}, after {moment.prompt}."
        later = stage("learned", "lost", text, edited, rule="learned_later", revision=block.revision)
        return Effect(ref, block.name, later)

    def without(self, block: str) -> list[Effect]:
        """What a block keeps and the prompt has not, what was erased aside.

        What was cut first, then what was not sent, then what was put aside; the newest first, and found units best
        first.
        """
        facts = [Ref.of("fact", id) for id in self._of_block(self._life.facts, block)]
        relations = [Ref.of("relation", id) for id in self._of_block(self._life.relations, block)]
        found = [ref for ref, name in self._in.items() if name == block and ref.kind != "day"]
        refs = dict.fromkeys((*found, *reversed(facts), *reversed(relations)))
        effects = [effect for ref in refs if (effect := self.of(ref)) is not None]
        left_out = [effect for effect in effects if not effect.shown and effect.stage.rule != "erased"]
        return sorted(left_out, key=lambda effect: (effect.stage.rule not in CUT_RULES, effect.overruled))

    def _of_block(self, known: Mapping[int, Records], block: str) -> list[int]:
        """Facts or relations of a block by then, in the order in which they came."""
        return [
            id
            for id, records in tuple(known.items())  # another thread may read on
            if records[0].event.about == block and records[0].position <= self._upto
        ]

    def _effect(self, ref: Ref) -> Effect | None:
        ended = {"fact": self._learned, "relation": self._learned, "unit": self._unit}.get(ref.kind, self._other)(ref)
        return None if ended is None else Effect(ref, *ended)

    def _learned(self, ref: Ref) -> tuple[str, Stage] | None:
        moment, id, of_fact = self._moment, ref.number, ref.kind == "fact"
        records = (self._life.facts if of_fact else self._life.relations).get(id)
        if not records:
            return None
        block = records[0].event.about or ""
        if records[0].position > moment.position:
            later = (
                fact_later(self._life, moment, id, records[0]) if of_fact else relation_later(moment, id, records[0])
            )
            return block, later
        then = [record for record in records if record.position <= moment.position]
        if of_fact:
            kept, _ = fact_kept(self._life, id, then)
            return block, fact_shown(self._life, moment, block, id) if kept.verdict == "passed" else kept
        return block, relation_gone(self._life, id, then) or relation_shown(moment, block, id)

    def _unit(self, ref: Ref) -> tuple[str, Stage] | None:
        block = self._in.get(ref)
        if block is None:
            return None
        *_, end = unit_shown(self._moment, block, ref.number, None)  # whoever made its vector: the search named it
        return block, end

    def _other(self, ref: Ref) -> tuple[str, Stage] | None:
        block = self._in.get(ref)
        end = granted(self._moment, block, ref, f"in the text of {block}") if block is not None else None
        return None if block is None or end is None else (block, end)
