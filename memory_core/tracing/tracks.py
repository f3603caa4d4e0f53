"""Build one track per carrier: the message itself, what blocks made of it, and an attached agent's records. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core.blocks.base import origin_of
from memory_core.events import EventRecord, Ref, expand
from memory_core.history.block_slice import PastBlock
from memory_core.history.by_turn import History
from memory_core.history.context_pieces import Words
from memory_core.history.learned_slices import state_at
from memory_core.history.stores import Store, StoreRecord, is_store_search, store_name, stores_of
from memory_core.messages import content_hash
from memory_core.planning.phrase_matching import Phrase, answered_with
from memory_core.planning.quarantine import quarantine_of
from memory_core.tracing.item_events import ItemEvents
from memory_core.tracing.overlooked import SentPrompts
from memory_core.tracing.rule_words import NOTHING
from memory_core.tracing.stages import (
    author,
    delivery,
    fact_kept,
    fact_later,
    fact_shown,
    granted,
    in_prompt,
    in_quarantine,
    in_turn,
    intake,
    no_prompt,
    relation_gone,
    relation_later,
    relation_shown,
    stage,
    text_shown,
    unit_shown,
)
from memory_core.tracing.texts import (
    Version,
    carrying,
    content_text,
    first_version,
    kept_in,
    plain_text,
    read_into,
    written_into,
)
from memory_core.tracing.trace_time import Moment
from memory_core.tracing.values import Carrier, Matched, Stage, Track

MAX_SUCCESSORS = 20
"""Maximum chain of superseding facts that is followed."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A traced target, and how it was matched."""

    phrase: Phrase
    """Search phrase; for a picked ref, its own text."""
    messages: Mapping[int, tuple[EventRecord, Matched]]
    """`MessageAdded` of each matching message, by sequence number."""
    removals: Mapping[int, EventRecord]
    """Event that removed each message from the queue."""
    facts: Mapping[int, Matched] = field(default_factory=dict)
    """Facts whose own text says the phrase, by id."""
    relations: Mapping[int, Matched] = field(default_factory=dict)
    units: Mapping[int, Matched] = field(default_factory=dict)
    texts: Mapping[tuple[str, Ref], Matched] = field(default_factory=dict)
    """Matching pieces of texts with their block: a static text, a summary sentence."""
    read: tuple[EventRecord, ...] = ()
    """`MessageAdded` of a sentence's source messages, if none has the sentence's words."""
    all_of_it: bool = False
    """True if a whole message was picked: all items derived from it are carriers; False: only items with its words."""
    parts: bool = False
    """True if some words of an item were picked: derived items that match a part of these words also count."""


@dataclass(frozen=True, slots=True)
class Tracing:
    """Builds the tracks of one trace."""

    history: History
    items: ItemEvents
    moment: Moment
    followed: Followed
    words: Words
    fact_words: Mapping[int, list[tuple[int, str]]]
    """Text hashes of each fact by its id, with the log positions they apply from."""
    message_words: Callable[[int], str | None]
    relation_words: Callable[[int, int], str | None]
    """Function that returns a relation's text at a log position."""
    versions: Callable[[str], Sequence[Version]]
    """Function that returns all versions of a block's text with their words, oldest first."""
    answers: tuple[tuple[EventRecord, str], ...]
    """Assistant messages after the prompt, in its turn."""

    def tracks(self) -> tuple[Track, ...]:
        """Return all tracks, unordered."""
        made: dict[object, Track] = {}
        for track in self._all_tracks():
            key = track.carrier.key
            later = track.decisive is not None and track.decisive.rule == "learned_later"
            if key not in made or (made[key].progress < track.progress and not later):  # it may have been added twice
                made[key] = track
        return tuple(made.values())

    def _all_tracks(self) -> Iterable[Track]:
        followed = self.followed
        for seq in followed.messages:
            yield from self._of_message(seq)
        for id, matched in followed.facts.items():
            yield from self._facts([id], None, matched)
        for id, matched in followed.relations.items():
            yield self._relation(id, None, matched)
        for number, matched in followed.units.items():
            yield self._unit(number, next(reversed(self.items.stored[number]), None), None, matched)
        for (name, ref), matched in followed.texts.items():
            yield self._text(name, ref, matched)

    # -- a message -------------------------------------------------------------------------------

    def _of_message(self, seq: int) -> Iterable[Track]:
        added, matched = self.followed.messages[seq]
        removal = self.followed.removals.get(seq)
        way = intake(self.items, self.moment, added, removal)
        carrier = Carrier("message", None, Ref.of("message", seq), self.message_words(seq) or "", matched, seq)
        if way[-1].rule == "said_later":
            yield Track(carrier, tuple(way))
            return
        event: Any = added.event
        # A pinned message never leaves the queue by a flush, so no block is given it.
        learners = [] if event.pinned else self._learners(seq)
        if way[-1].verdict == "lost":  # removed from the queue; a block may have received it before
            yield Track(carrier, tuple(way))
            learners, way = [block for block in learners if self._was_due(block, seq)], way[:-1]
        elif way[-1].name in ("said", "queue"):
            yield Track(carrier, (*way, *self._with_answer(in_prompt(self.moment, seq, removal), carrier)))
        elif not learners:
            text = f"{way[-1].text} No block receives what leaves the queue."
            yield Track(carrier, (*way[:-1], replace(way[-1], verdict="lost", text=text, rule="no_block")))
        else:
            gone = stage("prompt", "not_reached", "No longer sent: it left the queue.", removal)
            yield Track(carrier, (*way, gone))
        for block in learners:
            yield from self._of_block(block, seq, way, removal)

    def _learners(self, seq: int) -> list[PastBlock]:
        """Return blocks that learn now, and those that were due message `seq` before they were disabled or removed."""
        blocks = self.moment.blocks
        ever = self.history.blocks_ever(self.moment.position) | dict(blocks)
        return [
            block for block in ever.values() if self._was_due(block, seq) or (block.name in blocks and _learns(block))
        ]

    def _was_due(self, block: PastBlock, seq: int) -> bool:
        due = (events[0] for events in self.items.deliveries[seq])
        return any(r.event.about == block.name and r.position <= self.moment.position for r in due)

    def _of_block(self, block: PastBlock, seq: int, way: list[Stage], removal: EventRecord | None) -> Iterable[Track]:
        added, _ = self.followed.messages[seq]
        delivered = delivery(self.history, self.items, self.moment, block, added, removal)
        before = [*way, delivered]
        carrier = Carrier("block", block.name, None, seq=seq)
        if block.kind == "vector":
            stored = [(number, self.items.stored[number][-1]) for number in self.items.units(seq)]
            units = [(number, record) for number, record in stored if record.event.about == block.name]
            for number, record in units:
                yield self._unit(number, record, seq, "id", before)
            if units:
                return
        elif block.kind == "facts":
            # Copied, as another thread may add to them.
            learned, undone = (tuple(by[seq].items()) for by in (self.items.learned, self.items.unsupported))
            taken_back = {id for id, r in undone if r.position <= self.moment.position}
            facts = [id for id, r in learned if r.event.about == block.name and id not in taken_back]
            tracks = list(self._facts(facts, seq, "id", before))
            carrying = [track for track in tracks if self._carries(track)]
            yield from carrying
            by_then = [id for id in facts if self.items.learned[seq][id].position <= self.moment.position]
            if by_then and not carrying:
                yield Track(carrier, (*before, self._others_learned(block, seq, by_then)))
            if by_then or carrying:
                return
        elif block.kind == "graph":
            related = tuple(self.items.related[seq].items())
            relations = [id for id, record in related if record.event.about == block.name]
            tracks = [self._relation(id, seq, "id", before) for id in relations]
            carrying = [track for track in tracks if self._carries(track)]
            # If no relation has the words, the first one shows what was made of the message.
            yield from carrying or tracks[:1]
            if tracks:
                return
        elif block.kind == "summary":
            if any(record.event.about == block.name for record in self.items.summarised[seq]):
                yield from self._of_summary(block, seq, before)
                return
        elif delivered.verdict == "passed":
            yield self._custom(block, carrier, before)
            return
        if delivered.verdict != "passed":
            yield Track(carrier, tuple(before))
            return
        yield Track(carrier, (*before, self._nothing(block, seq, delivered)))

    def _carries(self, track: Track) -> bool:
        followed, words = self.followed, track.carrier.words
        made_of_it = followed.parts and Phrase.of(words).carried_by(followed.phrase.text)
        return followed.all_of_it or made_of_it or followed.phrase.carried_by(words)

    def _others_learned(self, block: PastBlock, seq: int, facts: list[int]) -> Stage:
        record = self.items.learned[seq][facts[-1]]
        others = "another fact" if len(facts) == 1 else f"{len(facts)} other facts"
        text = f"Not learned as a fact: {block.name} learned {others} from the message, none with these words."
        return stage("learned", "lost", text, record, rule="other_words", knowledge="observed", facts=len(facts))

    def _nothing(self, block: PastBlock, seq: int, delivered: Stage) -> Stage:
        """Explain why a block derived nothing from a message it received."""
        kinds = {"vector": "Not stored", "facts": "Not learned as a fact", "graph": "Not learned as a relation"}
        lost = kinds.get(block.kind, "Not taken")
        # The newest reason first: a repeated delivery may have found another one.
        for record in reversed(self.items.nothing[seq]):
            event: Any = record.event
            if event.block == block.name and record.position <= self.moment.position:
                code, fact, text_hash = event.reason_for(seq)
                reason, _ = NOTHING[code]
                quoted = self.words(text_hash) if text_hash else None
                number = None if fact is None else self.items.number("fact", fact)
                text = f"{lost}: {reason.format(fact=number, said=quoted or 'another language')}."
                if quoted and code != "language":
                    text = f'{text[:-1]}; it said: "{quoted}".'
                return stage(
                    "learned",
                    "lost",
                    text,
                    record,
                    rule=code,
                    **({} if fact is None else {"fact": fact, "number": number or fact}),
                )
        for record in reversed(self.items.suppressed[seq]):
            held: Any = record.event
            if held.block == block.name and record.position <= self.moment.position:
                number = self.items.number("fact", held.near)
                alike = f"it is like fact {number:,}, which was rejected"
                text = f"Not learned as a fact: {alike} (similarity {held.similarity:.2f})."
                return stage("learned", "lost", text, record, rule="suppressed", fact=held.near, number=number,
                             similarity=held.similarity)  # fmt: skip
        text = f"{lost}: {block.name} received the message and learned nothing; no reason is recorded."
        return replace(
            delivered, name="learned", verdict="lost", text=text, rule="no_reason", knowledge="observed", numbers={}
        )

    def _custom(self, block: PastBlock, carrier: Carrier, before: list[Stage]) -> Track:
        """Build a custom block's track: its contents are visible only if the words recur in the prompt."""
        for ref, name in self.moment.held.items():
            if name == block.name and ref.kind == "content":
                text = content_text(ref, self.words(ref.hash))
                if self.followed.phrase.carried_by(text):
                    end = granted(self.moment, block.name, ref, f"in the content of {block.name}, by its words")
                    assert end is not None
                    carrier = Carrier("block", block.name, ref, text, "words", carrier.seq)
                    return Track(carrier, (*before, *self._with_answer(end, carrier)))
        if withheld := in_quarantine(self.moment, lambda one: carrier.seq in one.seqs and block.name not in one.spared):
            return Track(carrier, (*before, withheld))
        text = f"{block.name} got the message; what it keeps is unknown. The words are not in {self.moment.prompt}."
        return Track(carrier, (*before, stage("learned", "lost", text, rule="custom", knowledge="observed")))

    # -- facts -----------------------------------------------------------------------------------

    def _facts(
        self, ids: Iterable[int], seq: int | None, matched: Matched, before: list[Stage] | None = None
    ) -> Iterable[Track]:
        """Yield the tracks of facts, of facts they were merged into, and of successors with most of their words. Other
        successors are only named in a stage."""
        todo: list[tuple[int, Matched]] = [(id, matched) for id in ids]
        seen: set[int] = set()
        # A chain of merges or rewordings can be long, so the number of successors is bounded.
        most = len(todo) + MAX_SUCCESSORS
        while todo and len(seen) < most:
            id, how = todo.pop(0)
            if id in seen:
                continue
            seen.add(id)
            track, successor = self._fact(id, seq, how, before)
            yield track
            if successor is None or track.decisive is None:
                continue
            if track.decisive.rule == "merged":
                todo.append((successor, how))
            elif Phrase.of(track.carrier.words).carried_by(self._words_of_fact(successor)):
                todo.append((successor, "words"))

    def _fact(self, id: int, seq: int | None, matched: Matched, before: list[Stage] | None) -> tuple[Track, int | None]:
        records = self.items.facts[id]
        if before is None:
            before, seq = self._sourced(records)
        then = self.moment.position
        learned = self._learned(id, seq, records)
        name = records[0].event.about or ""
        number = self.items.number("fact", id)
        carrier = Carrier("fact", name, Ref.of("fact", id), self._words_of_fact(id), matched, seq, number=number)
        stages = [*before, learned]
        if learned.verdict == "lost":
            return Track(carrier, tuple(stages)), None
        state, successor = fact_kept(self.items, id, [record for record in records if record.position <= then])
        stages.append(state)
        if state.verdict != "passed":
            return Track(carrier, tuple(stages)), successor
        end = fact_shown(self.items, self.moment, name, id)
        return Track(carrier, (*stages, *self._with_answer(end, carrier))), None

    def _words_of_fact(self, id: int) -> str:
        """Return a fact's text at the moment, or its first text if created later; empty if erased."""
        worded = self.fact_words.get(id, [])
        key = state_at(worded, self.moment.position) or (worded[0][1] if worded else None)
        return (self.words(key) if key is not None else None) or ""

    def _sourced(self, records: list[EventRecord]) -> tuple[list[Stage], int | None]:
        """Return stages and sequence number of a fact's first traced source message; `([], None)` if none is traced."""
        first = records[0]
        event: Any = first.event
        sources = expand(getattr(event, "sources", ()))
        for seq in sources:
            if seq in self.followed.messages:
                added, _ = self.followed.messages[seq]
                removal = self.followed.removals.get(seq)
                way = intake(self.items, self.moment, added, removal)
                # Learned before the message was removed from the queue, so the removal did not lose it.
                return way[:-1] if way[-1].name == "flush" and way[-1].verdict == "lost" else way, seq
        return [], None

    def _learned(self, id: int, seq: int | None, records: list[EventRecord]) -> Stage:
        record = self.items.learned[seq].get(id, records[0]) if seq is not None else records[0]
        event: Any = record.event
        name, turn, number = event.block, record.turn, self.items.number("fact", id)
        if record.position > self.moment.position:
            return fact_later(self.items, self.moment, id, record)
        if event.confirms:
            text = f"Already known as fact {number:,} of {name}, confirmed {in_turn(record)}."
        elif event.support:
            text = f"Part of fact {number:,} of {name} since {author(record)} changed the facts {in_turn(record)}."
        elif getattr(event, "origin", "") == "written":
            text = f"Written as fact {number:,} of {name} by {author(record)} {in_turn(record)}."
        elif getattr(event, "origin", "") == "condensed":
            text = f"Created as fact {number:,} of {name} when facts were condensed {in_turn(record)}."
        elif record.session_id != self.items.session_id:
            # A position or turn of another session's log means nothing here, so the stage has no record.
            text = f"Learned as fact {number:,} of {name} in another session of the user."
            return stage("learned", "passed", text, fact=id, number=number)
        else:
            text = f"Extracted as fact {number:,} of {name} {in_turn(record)}."
        return stage("learned", "passed", text, record, fact=id, number=number, turn=turn)

    # -- relations, stored units, texts ----------------------------------------------------------

    def _relation(self, id: int, seq: int | None, matched: Matched, before: list[Stage] | None = None) -> Track:
        records = [record for record in self.items.relations[id] if record.position <= self.moment.position]
        name = self.items.relations[id][0].event.about or ""
        words = self.relation_words(id, self.moment.position) or ""
        number = self.items.number("relation", id)
        carrier = Carrier("relation", name, Ref.of("relation", id), words, matched, seq, number=number)
        stages = list(before or [])
        first = self.items.relations[id][0] if seq is None else self.items.related[seq][id]
        if first.position > self.moment.position:
            return Track(carrier, (*stages, relation_later(self.moment, id, first)))
        text = f"Learned as relation {number:,} of {name} {in_turn(first)}."
        if first.event.confirms:
            text = f"Already known as relation {number:,} of {name}, confirmed {in_turn(first)}."
        stages.append(stage("learned", "passed", text, first, relation=id))
        gone = relation_gone(self.items, id, records)
        if gone is not None:
            return Track(carrier, (*stages, gone))
        end = relation_shown(self.moment, name, id)
        return Track(carrier, (*stages, *self._with_answer(end, carrier)))

    def _unit(
        self, number: int, stored: EventRecord | None, seq: int | None, matched: Matched,
        before: list[Stage] | None = None,
    ) -> Track:  # fmt: skip
        name = (stored.event.about if stored is not None else None) or ""
        words = (self.message_words(seq) if seq is not None else None) or ""
        carrier = Carrier("unit", name, Ref.of("unit", number), words, matched, seq)
        stages = list(before or [])
        if stored is None or stored.position > self.moment.position:
            turn = f" {in_turn(stored)}" if stored is not None else ""
            text = f"Stored by {name} only{turn}, after {self.moment.prompt}."
            return Track(carrier, (*stages, stage("learned", "lost", text, stored, rule="learned_later")))
        event: Any = stored.event
        with_vector = "" if event.error is None else f", without a vector: {event.error.rstrip('.')}"
        text = f"Stored by {name} {in_turn(stored)}{with_vector}."
        stages.append(stage("learned", "passed", text, stored, unit=number, turn=stored.turn))
        removed = self.items.removed.get(number)
        if removed is not None and removed.position <= self.moment.position:
            text = f"Deleted from {name} by {author(removed)} {in_turn(removed)}."
            return Track(carrier, (*stages, stage("kept", "lost", text, removed, rule="deleted")))
        *searched, end = unit_shown(
            self.moment,
            name,
            number,
            self.items.embedder(number, self.moment.position),
            () if seq is None else (seq,),
        )
        return Track(carrier, (*stages, *searched, *self._with_answer(end, carrier)))

    def _of_summary(self, block: PastBlock, seq: int, before: list[Stage]) -> Iterable[Track]:
        """Yield a track per sentence that a summary made of a message; of former sentences if none remain."""
        read = next(record for record in self.items.summarised[seq] if record.event.about == block.name)
        carrier = Carrier("text", block.name, None, "", "words", seq)
        if read.position > self.moment.position:
            sentence = f"Read into {block.name} only {in_turn(read)}, after {self.moment.prompt}."
            yield Track(carrier, (*before, stage("learned", "lost", sentence, read, rule="learned_later")))
            return
        history = self._versions_then(block.name)
        learned = read_into(block, read)
        reads = {record.position for record in self.items.summarised[seq]}
        whole = self.followed.all_of_it or self.followed.parts
        # The text of the moment first, then older ones, newest first, that were written when the message was read.
        for version in (*history[-1:], *(older for older in reversed(history[:-1]) if older.record.position in reads)):
            refs = carrying(self.followed.phrase, version.pieces, all_of_it=whole)
            for ref in refs:
                piece = replace(carrier, ref=ref, words=version.pieces[ref])
                yield self._sentence(block, piece, [*before, learned])
            if refs:
                return
        record = self.items.revisions.get((block.name, block.revision), read)
        sentence = f"Left out: version {block.revision} of {block.name} does not have its words."
        if history and not history[-1].readable:
            sentence = f"No longer known: the words of version {block.revision} of {block.name} were erased."
        lost = stage("kept", "lost", sentence, record, rule="left_out", knowledge="observed", revision=block.revision)
        if all(version.readable for version in history):  # read, but no version ever had any of it
            yield Track(carrier, (*before, replace(lost, name="learned")))
        else:
            yield Track(carrier, (*before, replace(learned, verdict="unknown"), lost))

    def _text(self, name: str, ref: Ref, matched: Matched) -> Track:
        """Build the track of a static text, a summary sentence, or a custom block's content."""
        block = self.moment.blocks.get(name) or self.history.blocks_ever(self.history.position)[name]
        came = first_version(self.versions(name), ref)
        if ref.kind == "content":
            stored = self.words(ref.hash)
            carrier = Carrier("block", name, ref, content_text(ref, stored), matched)
            origin = origin_of(stored) if stored is not None else None
            sentence = f"From {name}: only the block knows what it was made from."
            learned = stage("learned", "passed", sentence, knowledge="observed")
            if origin is not None:
                sentence = f"Said in turn {origin[1]} of another session of the user, and stored by {name} there."
                learned = stage("learned", "passed", sentence)
            end = self._text_stage(name, ref, "recalled by" if origin is not None else "in the text of")
            return Track(carrier, (learned, *self._with_answer(end, carrier)))
        words = came.pieces[ref] if came is not None else plain_text(self.words(ref.hash))
        carrier = Carrier("text", name, ref, words, matched)
        if came is None and words and self.moment.quarantine:
            rest = stage("kept", "passed", f"The rest of {name}, without its sentences in quarantine.")
            return Track(carrier, (rest, *self._with_answer(self._text_stage(name, ref), carrier)))
        asked_for = ref in self.moment.held or ref in self.moment.cut  # by an erased version
        if came is not None and came.record.position > self.moment.position and not asked_for:
            sentence = f"Written into {name} only {in_turn(came.record)}, after {self.moment.prompt}."
            return Track(carrier, (stage("learned", "lost", sentence, came.record, rule="learned_later"),))
        return self._sentence(block, carrier, [written_into(block, self._versions_then(name), ref)])

    def _sentence(self, block: PastBlock, carrier: Carrier, before: list[Stage]) -> Track:
        """Build the track of a piece of text, from its first version."""
        ref = carrier.ref or Ref("")
        kept_stage = kept_in(block, self._versions_then(block.name), ref)
        stages = [*before, *([kept_stage] if kept_stage is not None else [])]
        if kept_stage is not None and kept_stage.verdict == "lost":
            return Track(carrier, tuple(stages))
        return Track(carrier, (*stages, *self._with_answer(self._text_stage(block.name, ref), carrier)))

    def _text_stage(self, name: str, ref: Ref, how: str = "in the text of") -> Stage:
        """Return the stage saying whether the prompt has a piece of text, or which rule excluded it."""
        end = granted(self.moment, name, ref, f"{how} {name}")
        if end is None and self.moment.quarantine:
            end = self._text_with_quarantine(name, ref)
        block = self.moment.blocks.get(name)
        if end is None and block is not None and block.settings.get("former_values") == "leave_out":
            text = f"{name} leaves out sentences with values that were replaced since."
            return stage("prompt", "lost", text, self.moment.record, rule="replaced")
        return end or stage(
            "prompt", "lost", f"{name} had nothing for {self.moment.prompt}.", self.moment.record, rule="not_asked"
        )

    def _text_with_quarantine(self, name: str, ref: Ref) -> Stage | None:
        """Return the stage of a text that has sentences in quarantine; None if it has none."""
        text, quarantine = plain_text(self.words(ref.hash)), quarantine_of(self.moment.quarantine)
        # A sentence of a summary is named by its hash; of a static text, sentences may be withheld.
        withheld = {ref.hash} & quarantine.sentences or set(map(content_hash, quarantine.held_back(text)))
        block = self.moment.blocks.get(name)
        # The rest of a static text is in the prompt, under the hash of what is left of it.
        if withheld and block is not None and self.followed.phrase.said_in(quarantine.shown(text)):
            return text_shown(self.moment, block)
        return in_quarantine(self.moment, lambda one: not withheld.isdisjoint(one.sentences))

    def _versions_then(self, name: str) -> list[Version]:
        return [version for version in self.versions(name) if version.record.position <= self.moment.position]

    # -- the answer ------------------------------------------------------------------------------

    def _with_answer(self, end: Stage, carrier: Carrier) -> tuple[Stage, ...]:
        """Return the prompt's stage, and the answer's if there is one."""
        # A carrier may say only part of a whole message, so answers are compared with its own words.
        phrase = Phrase.of(carrier.words) if self.followed.all_of_it and carrier.words else self.followed.phrase
        if end.name != "prompt" or end.verdict != "passed" or not self.answers:
            return (end,)
        record = self.answers[-1][0]
        if answered_with(phrase, [text for _, text in self.answers]):
            return end, stage("answer", "passed", "The answer uses its words.", record, knowledge="observed")
        text = "The answer does not use its words."
        return end, stage("answer", "unknown", text, record, rule="not_used", knowledge="observed")


def _learns(block: PastBlock) -> bool:
    settings = block.settings
    return bool(
        block.kind != "static" and settings.get("enabled", True) and settings.get("accept_short_term_memory", True)
    )


# -- records in an attached agent's memory --------------------------------------------------------


QUOTED = 80
"""Maximum characters of a quoted question."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records of a session's stores, traced to the prompt of one moment."""

    history: History
    moment: Moment
    words: Words
    said_in: Callable[[EventRecord], str]
    """Return a prompt's whole text."""

    def tracks(self, phrase: Phrase) -> Iterator[Track]:
        """Yield a track per record that was written or retrieved with the phrase."""
        then = self.history.upto(self.moment.position)
        stores = stores_of(then)
        prompts, prompt = SentPrompts(then), self.moment.record
        searches = [  # those whose next prompt is the traced one
            record
            for record in then
            if prompt is not None and is_store_search(record.event) and prompts.after(record.event) is prompt
        ]
        for store in stores_of(self.history.records).values():
            for ever in store.records:
                if any(self._says(phrase, key) for key in _words_of(ever)):
                    record = _same(stores.get(store.name), ever)
                    yield self._track(phrase, record, ever, searches)

    def _track(
        self, phrase: Phrase, record: StoreRecord | None, ever: StoreRecord, searches: list[EventRecord]
    ) -> Track:
        words = self.words((record or ever).words or "") or ""
        carrier = Carrier("record", ever.store, words=words, matched="words", record=ever.id)
        stages = [*self._before(phrase, record, ever)]
        if stages[-1].verdict == "passed" and record is not None:
            stages += self._end(record, words, searches)
        return Track(carrier, tuple(stages))

    def _before(self, phrase: Phrase, record: StoreRecord | None, ever: StoreRecord) -> Iterator[Stage]:
        """Yield the stages written and kept. `record`: its state at the moment, `ever`: its latest state."""
        name = f"record {ever.id} of {ever.store}" if ever.id else f"a record of {ever.store}"
        first = self._first(phrase, record)
        if first is None:
            came = self._first(phrase, ever) or ever.found[0]
            text = f"Written as {name} only in turn {came.turn:,}, after {self.moment.prompt}."
            yield _reported("learned", "lost", text, came, "learned_later")
            return
        if record is None or not record.versions:
            yield _reported("learned", "passed", f"Known as {name}: no span reports its write.", first)
            return
        yield _reported("learned", "passed", f"Written as {name} {in_turn(first)}.", first)
        if record.deleted is not None:
            text = f"Deleted from {ever.store} in turn {record.deleted.turn:,}."
            yield _reported("kept", "lost", text, record.deleted, "deleted")
        elif not self._says(phrase, record.versions[-1].words):
            over = record.versions[-1].record
            text = f"Overwritten in turn {over.turn:,}: {name} has other words since."
            yield _reported("kept", "lost", text, over, "overwritten")

    def _first(self, phrase: Phrase, record: StoreRecord | None) -> EventRecord | None:
        """Return the first write with the phrase, or the first search of a record whose writes were not observed."""
        if record is None:
            return None
        # If no span reports its writes, a record is known only from searches.
        if not record.versions:
            return record.found[0] if self._says(phrase, record.found_words) else None
        return next((version.record for version in record.versions if self._says(phrase, version.words)), None)

    def _end(self, record: StoreRecord, words: str, searches: list[EventRecord]) -> Iterator[Stage]:
        """Yield the stages retrieved before the prompt, and in the prompt."""
        moment = self.moment
        if moment.record is None:
            yield stage("prompt", "waiting", no_prompt(moment.turn, "seen"), rule="no_prompt")
            return
        of_store = [search for search in searches if store_name(search.event) == record.store]
        # The newest search first: it is the closest one before the prompt.
        hit = next((search for search in reversed(of_store) if search in record.found), None)
        # Its words may be in the prompt without any search, for example as a message.
        if Phrase.of(words).said_in(self.said_in(moment.record)):
            if hit is not None:
                yield self._found_stage(record, hit)
            text = f"In {moment.prompt}, by its words."
            yield stage("prompt", "passed", text, moment.record, knowledge="observed", turn=moment.record.turn)
        elif hit is not None:
            yield self._found_stage(record, hit)
            where = f"the search of {record.store}{self._question(hit)}"
            text = f"Found by {where}, but not in {moment.prompt}: no message has its words. The reason is not known."
            yield stage("prompt", "lost", text, moment.record, rule="found_not_sent", knowledge="observed")
        elif of_store:
            missed: Any = of_store[-1].event
            number = "nothing" if missed.count == 0 else "other records" if missed.results else "unknown results"
            text = f"Not found: the search of {record.store}{self._question(of_store[-1])} returned {number}."
            yield _reported("found", "lost", text, of_store[-1], "not_returned")
        else:
            text = f"Not searched: no search of {record.store} was reported before {moment.prompt}."
            yield _reported("found", "lost", text, moment.record, "no_search")

    def _found_stage(self, record: StoreRecord, search: EventRecord) -> Stage:
        event: Any = search.event
        place = next((n for n, (id, *_) in enumerate(event.results) if id is not None and id == record.id), None)
        score = event.results[place][3] if place is not None else None
        rank = f", number {place + 1} of {len(event.results)}" if place is not None else ""
        scored = f" with a score of {score:.2f}" if score is not None else ""
        text = f"Found by the search of {record.store}{self._question(search)}{scored}{rank}."
        numbers = {} if score is None else {"score": score}
        return stage("found", "passed", text, search, knowledge="reported", **numbers)

    def _question(self, search: EventRecord) -> str:
        key: str | None = getattr(search.event, "query", None)
        words = " ".join((self.words(key) or "").split()) if key is not None else ""
        return f' for "{words[:QUOTED]}{"…" * (len(words) > QUOTED)}"' if words else ""

    def _says(self, phrase: Phrase, key: str | None) -> bool:
        return key is not None and phrase.said_in(self.words(key) or "")


def _reported(name: Any, verdict: Any, text: str, record: EventRecord | None, rule: str = "") -> Stage:
    return stage(name, verdict, text, record, rule=rule, knowledge="reported")


def _words_of(record: StoreRecord) -> Iterable[str]:
    keys = [version.words for version in record.versions] or [record.found_words]
    return [key for key in keys if key is not None]


def _same(store: Store | None, ever: StoreRecord) -> StoreRecord | None:
    """Return the record's state at the moment; None before its first event. Records without ids are matched by their
    writes."""
    for other in store.records if store is not None else ():
        if other.id == ever.id and (other.id is not None or other.versions[0].record is ever.versions[0].record):
            return other
    return None
