"""What a trace says, held against the events of the log, which are read here once more and by other code.

`MEMORY_INSPECTOR_TRACED_LIVES=10000` lets that many random conversations be traced instead of a few dozen.
"""

import copy
import json
import os
import re
from contextlib import suppress

import pytest
from engine_fakes import Clock, assistant, user
from fakes import FakeEmbedder
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from memory_core import Memory, MemoryInspectorError, Services, StaticMemoryBlock, VectorMemoryBlock
from memory_core.errors import EmbedderError, ModelUnreachableError
from memory_core.events import Ref, expand, spread
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.planning import curation
from memory_core.recipes import RECIPES

LIVES = int(os.environ.get("MEMORY_INSPECTOR_TRACED_LIVES", "30"))

SAID = (
    "My name is Ana.", "I live in Porto.", "I am allergic to nuts.", "I moved to Lisbon.", "I like jazz.",
    "I no longer like jazz.", "Rui works at Acme.", "Rui manages the Atlas project. I live in Porto.", "My dog is Bo.",
    "Where does Rui work?", "Is anybody allergic to nuts?", "So on and so on " * 12, "I might like tea.",
)  # fmt: skip
REPLIES = ("Noted.", "Rui works at Acme, and you live in Porto.", "Nuts " * 20)
STEPS = (
    *("turn",) * 10,
    "say",
    "reply",
    "ask",
    "flush",
    "limit",
    "ratio",
    "threshold",
    "results",
    "show",
    "fails",
    "deliver",
    "retire",
    "reject",
    "restore",
    "supersede",
    "merge",
    "reword",
    "pin",
    "erase",
    "accept",
    "write",
    "undo",
    "approval",
    "few facts",
    "end relation",
    "retire relation",
    "forget unit",
    "off",
    "remove",
    "add",
    "text",
    "set",
    "reset",
    "archive away",
    "no vectors",
    "priority",
)
CUTS = ("trimmed", "dropped", "own_truncation")
LATER = ("said_later", "learned_later", "added_later")


# -- lives -------------------------------------------------------------------------------------------


class Models:
    """An extractor and an embedder that fail while they are told to."""

    name, offline, id, dimensions = "shaky rules", True, "fake-64", 64

    def __init__(self):
        self.fails = self.no_vectors = False
        self._rules, self._embedder = RuleExtractor(), FakeEmbedder()

    def extract(self, messages, *, known):
        if self.fails:
            raise ModelUnreachableError("Nothing answers at the model's address.")
        return self._rules.extract(messages, known=known)

    def condense(self, facts, *, pinned, target):
        return self._rules.condense(facts, pinned=pinned, target=target)

    def embed(self, texts):
        if self.no_vectors:
            raise EmbedderError("The embedder does not answer.")
        return self._embedder.embed(texts)


class Life:
    """A session of a recipe, and steps applied to it."""

    def __init__(self, recipe, limit):
        self.models, self.clock = Models(), Clock()
        services = Services(embedder=self.models, extractor=self.models)
        given = {"token_limit": limit, "delivery_attempts": 2, "clock": self.clock, "services": services}
        self.memory = Memory.from_recipe(recipe, "s", "u", **given)

    def do(self, step, number):
        memory = self.memory
        self.clock.pass_by(1)
        if step in ("turn", "say"):
            memory.put(user(SAID[number % len(SAID)]))
        if step in ("turn", "ask"):
            memory.build_context(SAID[(number // 3) % len(SAID)] if number % 3 else None)
        if step in ("turn", "reply"):
            memory.put(assistant(REPLIES[number % len(REPLIES)]))
        elif step == "flush":
            memory.flush(all=True)
        elif step == "limit":
            memory.configure(token_limit=40 + 7 * (number % 40))
        elif step == "ratio":
            memory.configure(chat_history_token_ratio=0.1 + 0.2 * (number % 5))
        elif step == "fails":
            self.models.fails = not self.models.fails
        elif step == "no vectors":
            self.models.no_vectors = not self.models.no_vectors
        elif step == "deliver":
            self.clock.pass_by(10_000)
            memory.deliver()
        elif step == "set":
            memory.set([user(SAID[number % len(SAID)])])
        elif step in ("reset", "archive away"):
            memory.reset(None if step == "reset" and number % 5 == 0 else "archived" if number % 2 else "active")
        else:
            self._change_a_block(step, number)

    def _change_a_block(self, step, number):
        memory, there = self.memory, list(self.memory.blocks)
        of_kind = {kind: [b.name for b in there if b.kind == kind] for kind in ("vector", "facts", "graph", "static")}
        for name in of_kind["vector"]:
            if step == "threshold":
                memory.blocks.configure(name, similarity_threshold=[None, 0.2, 0.5, 0.9][number % 4])
            elif step == "results":
                memory.blocks.configure(name, similarity_top_k=[None, 1, 3][number % 3])
            elif step == "forget unit" and (units := memory.retrieval.stored_turns(name)):
                memory.retrieval.forget(name, units[number % len(units)].number)
        if step == "off" and there:
            chosen = there[number % len(there)]
            memory.blocks.configure(chosen.name, enabled=not chosen.settings.get("enabled", True))
        elif step == "remove" and there:
            memory.blocks.remove(there[number % len(there)].name)
        elif step == "priority" and there:
            memory.blocks.configure(there[number % len(there)].name, priority=number % 4)
        elif step == "add" and not of_kind["vector"]:
            memory.blocks.add(VectorMemoryBlock(name="Added", priority=3))
        elif step == "text" and not of_kind["static"]:
            memory.blocks.add(StaticMemoryBlock(name="Core", static_content="Ana is allergic to nuts."))
        elif step == "text":
            memory.blocks.edit(of_kind["static"][0], SAID[number % len(SAID)])
        for name in of_kind["facts"]:
            self._change_facts(step, number, name)
        for name in of_kind["graph"]:
            desk = memory.blocks.graph(name)
            if relations := desk.relations(ended=False):
                chosen = relations[number % len(relations)]
                if step == "end relation":
                    desk.end([chosen])
                elif step == "retire relation":
                    desk.retire([chosen])

    def _change_facts(self, step, number, name):
        blocks, desk = self.memory.blocks, self.memory.facts.desk(name)
        if step == "show":
            blocks.configure(name, show=["all", "relevant", "none"][number % 3], top_k=1 + number % 3)
        elif step == "approval":
            blocks.configure(name, approval=number % 2 == 0)
        elif step == "few facts":
            blocks.configure(name, max_facts=2 + number % 3)
        elif step == "write":
            desk.apply(curation.add(f"The user owns {number} bicycles"))
        elif step == "undo":
            desk.undo()
        else:
            active, waiting = desk.facts(("active",)), desk.facts(("proposed",))
            gone = desk.facts(("retired", "rejected", "superseded"))
            one, other = (active * 2)[number % len(active)] if active else None, active[-1] if active else None
            if step == "restore" and gone:
                desk.apply(curation.restore(gone[:1]))
            elif step == "accept" and waiting:
                desk.apply(curation.accept(waiting[:1]))
            elif step == "erase" and active:
                desk.erase([one])
            elif active and step in ("retire", "reject"):
                desk.apply(getattr(curation, step)([one], "wrong"))
            elif active and step in ("pin",):
                desk.apply(curation.pin([one], not one.pinned))
            elif active and step == "reword":
                desk.apply(curation.edit(one, f"{one.text}, they say"))
            elif len(active) > 1 and one != other and step == "supersede":
                desk.apply(curation.supersede(one, other))
            elif len(active) > 1 and step == "merge":
                desk.apply(curation.merge(active[:2], f"{active[0].text} and more"))


# -- the log, read once more --------------------------------------------------------------------------


class Told:
    """The log up to one prompt, as its raw events tell it."""

    def __init__(self, records, position):
        self.all = {record.position: record for record in records}
        self.records = [record for record in records if record.position <= position]
        self.position, self.built = position, self.all[position].event
        parts = {ref: part["name"] for part in self.built.parts for ref in spread(part["refs"])}
        queued = [*expand(self.built.queue), *expand(self.built.pinned)]
        self.inside = {**parts, **dict.fromkeys((Ref.of("message", seq) for seq in queued), "queue")}
        self.cuts = {ref: cut for cut in self.built.cuts for ref in spread(cut["refs"]) if cut["part"] != "queue"}
        self.queue_cut = [cut for cut in self.built.cuts if cut["part"] == "queue"]

    def of(self, *kinds):
        return [record for record in self.records if record.kind in kinds]

    def learned_from(self, seq):
        """Facts, relations and units made of a message."""
        made = set()
        for record in self.records:
            event = record.event
            sources = expand(getattr(event, "sources", ()))
            if record.kind in ("fact_added", "fact_confirmed") and seq in sources:
                made.add(Ref.of("fact", event.fact))
            elif (record.kind in ("relation_added", "relation_confirmed") and seq in sources) or (
                record.kind == "relation_changed" and seq in expand(event.after.get("sources", ()))
            ):
                made.add(Ref.of("relation", event.relation))
            elif record.kind == "vectors_stored":
                made |= {Ref.of("unit", number) for number, seqs, _ in event.nodes if seq in expand(seqs)}
            elif record.kind == "facts_condensed":
                made |= {Ref.of("fact", into) for ids, into in event.merged if made & {f"f{id}" for id in ids}}
            elif record.kind == "facts_curated" and (event.undoes is None or event.again):
                made |= {Ref.of("fact", id) for id, _, seqs in event.support if seq in expand(seqs)}
            elif record.kind == "facts_curated":
                made -= {Ref.of("fact", id) for id, _, seqs in event.support if seq in expand(seqs)}
        return made

    def left(self, seq):
        """What took a message out of the queue."""
        reset = ("session_reset",)
        for record in self.records:
            if record.kind == "flush_planned" and seq in expand(record.event.seqs):
                return record
            if record.kind == "queue_replaced" and seq in expand(record.event.removed):
                return record
            forgets = record.kind in reset and record.event.status in (None, "active")
            if forgets and self.added(seq) is not None and self.added(seq).position < record.position:
                return record
        return None

    def added(self, seq):
        return next((r for r in self.records if r.kind == "message_added" and r.event.seq == seq), None)

    def fate_of_fact(self, number):
        """The last event that gave a fact its state."""
        last = None
        for record in self.records:
            if getattr(record.event, "fact", None) != number:
                continue
            if record.kind == "fact_added" or record.event.becomes is not None or record.kind == "fact_erased":
                last = record
        return last

    def deliveries(self, seq, block):
        """Kinds of the last event of each delivery of a message to a block."""
        last = {}
        for record in self.of("delivery_queued"):
            if record.event.block == block and seq in expand(record.event.seqs):
                last[record.event.delivery] = record
        for record in self.records:
            for number in getattr(record.event, "deliveries", ()) if record.event.family == "deliveries" else ():
                if number in last:
                    last[number] = record
        return list(last.values())

    def search(self, block):
        """The search of a block that the prompt was built from."""
        for record in reversed(self.records[:-1]):
            if record.kind not in ("retrieved", "block_failed"):
                return None
            if record.kind == "retrieved" and record.event.block == block:
                return record
        return None

    def blocks(self):
        """Settings of the blocks of that time, by name."""
        there = {}
        for record in self.of("block_added", "block_removed", "block_edited"):
            event = record.event
            if record.kind == "block_removed":
                there.pop(event.block, None)
            elif record.kind == "block_added":
                there[event.block] = {**event.settings, "kind": event.type}
            elif event.block in there:
                there[event.block] |= event.settings
        return there


# -- what a verdict must rest on -----------------------------------------------------------------------


def holds(told, track):
    """Whether the rule that a track ends in is what the log tells of it."""
    stage, carrier = track.decisive, track.carrier
    rule, ref, seq, name = stage.rule, carrier.ref, carrier.seq, carrier.block
    record = told.all.get(stage.position)
    event = record.event if record is not None else None
    kind = record.kind if record is not None else ""
    there = told.blocks()
    neither = ref not in told.inside and ref not in told.cuts
    if track.reached:
        return ref in told.inside
    if rule in LATER:
        after = told.left(seq).position if rule == "added_later" else told.position
        return record.position > after
    if rule == "oldest_turns":
        return bool(told.queue_cut) and ref not in told.inside and told.left(seq) is None
    if rule in CUTS:
        return told.cuts[ref]["rule"] == rule and told.cuts[ref]["over_before"] == stage.numbers["over_before"]
    if rule in ("replaced", "forgotten", "no_block"):
        kinds = {"replaced": "queue_replaced", "forgotten": "session_reset", "no_block": "flush_planned"}
        due = rule == "no_block" and any(seq in expand(r.event.seqs) for r in told.of("delivery_queued"))
        return record == told.left(seq) and kind == kinds[rule] and not due
    if rule == "queued":
        return told.left(seq) is None
    if rule in ("delivery_failed", "delivery_parked", "delivery_skipped", "pending"):
        ends = told.deliveries(seq, name)
        return record in ends and not any(end.kind == "delivery_done" for end in ends) and (
            kind == rule if rule != "pending" else kind in ("delivery_queued", "delivery_retried")
        )  # fmt: skip
    if rule == "not_due":
        return not told.deliveries(seq, name)
    if kind == "nothing_learned":
        return event.block == name and event.reason_for(seq)[0] == rule
    if rule == "suppressed":
        return kind == "fact_held_back" and seq in expand(event.sources)
    if rule in ("proposed", "superseded", "retired", "rejected", "erased") and ref.kind == "fact":
        fate = told.fate_of_fact(ref.number)
        state = getattr(fate.event, "state", None) or fate.event.becomes or "erased"
        return record == fate and state == rule
    if rule in ("condensed", "merged"):
        gone = event.vanished if rule == "condensed" else [id for ids, _ in event.merged for id in ids]
        return ref.number in gone and told.fate_of_fact(ref.number).kind == "fact_superseded"
    if rule in ("ended", "retired", "erased") and ref.kind == "relation":
        return event.relation == ref.number and record in told.records
    if rule == "deleted":
        return ref.number in event.numbers
    if rule in ("below_threshold", "beyond_top_k", "no_room"):
        score = next(score for n, _, _, score, outcome in event.candidates if (n, outcome) == (ref.number, rule))
        return record == told.search(name) and stage.numbers["score"] == score
    if rule == "no_vector":
        here = [r for r in told.of("vectors_stored", "vectors_replaced") if ref.number in _units_of(r.event)]
        searched = record == told.search(name)
        return searched and (here[-1].event.embedder != event.embedder or bool(getattr(here[-1].event, "error", None)))
    if rule == "not_proposed":
        return record == told.search(name) and ref.number not in [candidate[0] for candidate in event.candidates]
    if rule == "in_queue":
        return all(told.left(s) is None or ref in told.inside for s in _messages_of(told, ref.number))
    if rule == "no_search":
        return told.search(name) is None and neither
    if rule == "show_none":
        return there[name]["show"] == "none" and neither
    if rule == "not_relevant":
        return there[name]["show"] == "relevant" and there[name]["top_k"] == stage.numbers["top_k"] and neither
    if rule == "not_near":
        return there[name]["kind"] == "graph" and neither
    if rule == "block_off":
        return there[name]["enabled"] is False and name not in told.inside.values()
    if rule == "block_removed":
        return name not in there
    if rule == "block_failed":
        return kind == "block_failed" and event.block == name
    if rule == "session_open":
        return there[name]["deliver_on"] == "session_end" and not told.deliveries(seq, name)
    if rule == "no_reason":
        given = [r for r in told.of("nothing_learned") if r.event.block == name and seq is not None]
        return stage.knowledge == "observed" and neither and not any(r.event.reason_for(seq) for r in given)
    if rule == "not_asked":
        return neither and name not in told.inside.values()
    if rule in ("left_out", "reworded", "other_words"):  # seen by comparing words, and said to be
        return stage.knowledge == "observed" and record is not None
    raise AssertionError(f"no event is known to rest {rule!r} on: {stage.text}")


def _units_of(event):
    return getattr(event, "numbers", None) or [number for number, _, _ in event.nodes]


def _messages_of(told, unit):
    return [seq for r in told.of("vectors_stored") for n, seqs, _ in r.event.nodes if n == unit for seq in expand(seqs)]


def numbers_hold(told, trace, track, stage):
    """Whether each number of a sentence is one of its event, of the settings of its block, or a turn of the trace."""
    record = told.all.get(stage.position)
    text = re.sub(r'"[^"]*"', "", stage.text).replace(str(track.carrier.block), "")
    text = text.replace(str(getattr(record and record.event, "embedder", None)), "")
    turns = {trace.turn, trace.prompt_turn, *(each.turn for each in track.stages)}
    if record is not None:
        turns.add(record.turn)
    if track.carrier.seq:
        turns |= {r.turn for r in (told.added(track.carrier.seq), told.left(track.carrier.seq)) if r is not None}
    for turn in re.findall(r"turns? (\d+)(?: to (\d+))?", text):
        assert {int(number) for number in turn if number} <= turns, stage.text
    rest = re.sub(r"(turns?) \d+( to \d+)?", "", text)
    known = [*_numbers(json.loads(record.event.to_json()))] if record is not None else []
    known += _numbers(told.blocks().get(track.carrier.block, {}))
    known += [track.carrier.ref.number] if track.carrier.ref is not None and track.carrier.kind != "text" else []
    known += [track.carrier.seq or 0, _history_budget(told)]
    known += [r.event.revision for r in told.of("block_edited") if r.event.block == track.carrier.block]
    if record is not None and record.kind == "retrieved":
        places = [n for n, *_ in record.event.candidates]
        known += [len(places), *(i for i, n in enumerate(places, 1) if n == track.carrier.ref.number)]
    if stage.rule == "queued":  # the queue at the end of the turn
        end = max(position for position, each in told.all.items() if each.turn <= trace.turn)
        then = copy.copy(told)
        then.records = [each for position, each in sorted(told.all.items()) if position <= end]
        stay = [each.event for each in then.of("message_added") if then.left(each.event.seq) is None]
        known.append(sum(event.tokens for event in stay if not event.pinned))
    for said in re.findall(r"-?\d+(?:\.\d+)?", rest):
        places = len(said.partition(".")[2])
        assert any(f"{value:.{places}f}" == said for value in known), (stage.text, said)


def _numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for each in value:
            yield from _numbers(each)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield value


def _history_budget(told):
    config = {}
    for record in told.of("configuration_changed"):
        config |= record.event.after
    limit = min(config.get("token_limit", 30_000), config.get("context_window") or 10**9)
    return limit * config.get("chat_history_token_ratio", 0.7)


def agrees(effect, own, ref):
    """Whether what is marked without effect ends as its own track does: in the same stage, its sentence included."""
    if ref.kind == "message" or (ref.kind == "unit" and effect is None):  # no search of the prompt named it
        return not own.reached or ref.kind == "message"
    later = effect.stage.rule == "learned_later"  # its track may say before it where the message was still waiting
    ends = effect.stage in own.stages and (later or own.decisive in (effect.stage, None))
    return ends and effect.shown is own.reached and effect.block == own.carrier.block


def check(memory, records, told, ref, turn, effects):
    trace = memory.trace(ref, turn=turn, upto=told.position)
    assert trace.prompt_position == told.position
    carried = {track.carrier.ref for track in trace.tracks}
    if ref.kind == "message":
        made = told.learned_from(ref.number) | {ref}
        lived = told.added(ref.number) is not None
        assert not lived or made <= carried, (made, carried)
        by_words = {track.carrier.ref for track in trace.tracks if track.carrier.matched == "words"}
        assert {each for each in carried - {None} if each not in made | by_words} <= _later(trace), trace
        left_out = {track.carrier.ref for track in trace.tracks if track.decisive and track.decisive.rule == "left_out"}
        assert trace.reached is bool((made | by_words - left_out) & told.inside.keys()), trace.sentence
    own = next(track for track in trace.tracks if track.carrier.ref == ref)
    assert own.reached is (ref in told.inside), own.stages[-1].text
    assert agrees(effects.of(ref), own, ref), (effects.of(ref), own.decisive)
    for track in trace.tracks:
        decided = track.decisive
        if decided is not None:
            assert decided.position in told.all, (decided.rule, decided.text)
            assert decided.rule in LATER or decided.position <= told.position, decided.text
            assert holds(told, track), (decided.rule, decided.text, track.carrier)
        for stage in track.stages:
            numbers_hold(told, trace, track, stage)


def check_cut(memory, told, ref, cut):
    trace = memory.trace(ref)
    assert trace.prompt_position == told.position
    assert (trace.cut.part, trace.cut.rule, trace.cut.tokens) == (cut["part"], cut["rule"], cut["tokens"])
    assert trace.cut.stage.numbers["over_before"] == cut["over_before"]
    entries = {entry.ref for entry in trace.cut.entries}
    assert {each for each in spread(cut["refs"]) if each.kind != "day"} <= entries
    assert not entries & told.inside.keys()
    for entry in trace.cut.entries:
        assert not entry.own.reached
        held = any(track.carrier.ref in told.inside for track in entry.others)
        assert held is any(track.reached for track in entry.others) is entry.otherwise.startswith("In the prompt")


def _later(trace):
    return {track.carrier.ref for track in trace.tracks if any(stage.rule in LATER for stage in track.stages)}


LIFE = st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 119)), min_size=6, max_size=22)


@pytest.mark.slow
@settings(
    max_examples=LIVES,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    phases=[phase for phase in Phase if phase is not Phase.explain],
)
@example("user_memories", 40, [("turn", 0), ("turn", 0), ("turn", 1), ("turn", 68), ("turn", 0), ("merge", 0)])
@example("user_memories", 40, [("turn", 1), ("turn", 0), ("turn", 0), ("turn", 0), ("reset", 1), ("turn", 0)])
@example("summary", 40, [("turn", 0), ("turn", 1), ("turn", 0), ("turn", 0), ("turn", 0), ("reset", 1)])
@given(recipe=st.sampled_from(sorted(RECIPES)), limit=st.integers(40, 400), steps=LIFE)
def test_the_verdict_on_every_message_and_fact_is_what_the_engine_did_for_every_prompt(recipe, limit, steps):
    life = Life(recipe, limit)
    for step, number in [*steps, ("turn", 3)]:
        with suppress(MemoryInspectorError):  # it is refused as the session stands
            life.do(step, number)
    memory = life.memory
    records = memory.events()
    for prompt in [record for record in records if record.kind == "context_built"]:
        there = memory.log.history().turns.get(prompt.turn)
        if there is None or prompt not in there.contexts:
            continue  # turns are counted from the beginning again once nothing is left
        told = Told(records, prompt.position)
        seqs = [record.event.seq for record in told.of("message_added")]
        facts = [record.event.fact for record in told.of("fact_added")]
        relations = [record.event.relation for record in told.of("relation_added")]
        units = [number for record in told.of("vectors_stored") for number, _, _ in record.event.nodes]
        texts = [ref for ref in [*told.inside, *told.cuts] if ref.kind == "text"]
        refs = [*texts] + [
            Ref.of(kind, n) for kind, all_ in zip(KINDS, (seqs, facts, relations, units), strict=True) for n in all_
        ]
        effects = memory.trace.effects(turn=prompt.turn, upto=told.position)
        for ref in refs:
            check(memory, records, told, ref, prompt.turn, effects)
        assert effects.turn == prompt.turn
        left_out = {effect.ref for block in told.blocks() for effect in effects.without(block)}
        assert not left_out & told.inside.keys()
        assert {ref for ref in told.cuts if ref.kind != "day"} <= left_out
        for number, cut in enumerate(prompt.event.cuts, start=1):
            check_cut(memory, told, Ref.of_cut(prompt.position, number), cut)


KINDS = ("message", "fact", "relation", "unit")
