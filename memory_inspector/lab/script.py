"""An agent's actions on a memory as replayable steps: puts, flushes, prompts, and people's changes of facts.

These are matched to the replay's facts by text, as ids differ. A logged change set names each fact's version before and
after it; the log has the values of both.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

from memory_core.errors import MemoryInspectorError
from memory_core.events import EventRecord
from memory_core.history.by_turn import flush_of
from memory_core.history.contexts import context_of
from memory_core.history.learned_slices import FactSlice, PastFact
from memory_core.memory import Memory
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.curation import VALUES, ChangeSet, FactChange, FactDraft, FactValues, Step
from memory_core.planning.fact_merging import Fact
from memory_core.planning.quarantine import changes_quarantine

# -- people's changes of facts ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CuratedFact:
    """Change of one fact in a change set; `by` is the index of its successor's change, None without a successor."""

    before: Fact | None
    """Fact before the change; None if the fact was added."""
    after: Fact | None
    """Fact after the change; None if the fact was removed by undoing its addition."""
    touched: bool
    """True if the fact got a new version; an undo also names facts that it leaves unchanged."""
    by: int | None = None


@dataclass(frozen=True, slots=True)
class CuratedFacts:
    """A person's change set on one block's facts."""

    block: str
    action: str
    reason: str
    changes: tuple[CuratedFact, ...]
    inherits_sources: bool
    """True if successors inherit the source messages of the facts they replace. A replayed undo removes no sources."""


_REPEATED = tuple(sorted(VALUES - {"metadata"}))
"""Values of a fact that a replayed change sets."""

_Version = tuple[int, int]
"""Fact id and version."""


@dataclass(frozen=True, slots=True)
class _Versions:
    """A log's facts at each version."""

    facts: Mapping[_Version, PastFact]
    taken_by: Mapping[_Version, int]
    """Id of the successor, by the version in which a fact was superseded."""


def curated_facts(memory: Memory, records: Sequence[EventRecord]) -> Mapping[int, CuratedFacts]:
    """Return people's replayable change sets by log position.

    Change sets on facts missing from the log (another session's) or erased are skipped.
    """
    wanted = [record for record in records if record.kind == "facts_curated" and record.actor == "user"]
    if not wanted:
        return {}
    versions = _versions(records)
    texts = memory.log.texts({fact.text for fact in versions.facts.values()})
    by_position = {}
    for record in wanted:
        made = _change_set(record, versions, texts)
        if made is not None:
            by_position[record.position] = made
    return by_position


def _versions(records: Iterable[EventRecord]) -> _Versions:
    versions: dict[_Version, PastFact] = {}
    taken_by: dict[_Version, int] = {}
    facts = FactSlice()
    for record in records:
        if record.event.family != "facts":
            continue
        facts.apply(record)
        fact = facts.by_id.get(getattr(record.event, "fact", None) or 0)
        if fact is None:
            continue
        at = fact.id, fact.version
        versions[at] = fact
        if record.event.becomes == "superseded" and (by := getattr(record.event, "by", None)) is not None:
            taken_by[at] = by
    return _Versions(versions, taken_by)


def _change_set(record: EventRecord, versions: _Versions, texts: Mapping[str, str]) -> CuratedFacts | None:
    event, taken_by = record.event, versions.taken_by
    rows: Sequence[tuple[int, int, int]] = getattr(event, "facts", ())
    places = {id: place for place, (id, _, _) in enumerate(rows)}
    changes = []
    for id, before, after in rows:
        then, now = (_worded(versions.facts.get((id, version)), texts) for version in (before, after))
        # Only versions that this change set made count: another event may have superseded the fact as well.
        by = next(
            (taken_by[id, version] for version in range(before + 1, after + 1) if (id, version) in taken_by), None
        )
        # A set that can be repeated only in part is skipped whole, as its changes belong together.
        if (after and now is None) or (before and then is None) or (by is not None and by not in places):
            return None
        place = places[by] if by is not None else None
        changes.append(CuratedFact(then, now, before != after, place))
    block, action, reason = (str(getattr(event, name)) for name in ("block", "action", "reason"))
    # Sources are inherited when a merge or split is made or made again, not when it is undone.
    done = getattr(event, "undoes", None) is None or getattr(event, "again", False)
    return CuratedFacts(block, action, reason, tuple(changes), done and action in ("merge", "split"))


def _worded(fact: PastFact | None, texts: Mapping[str, str]) -> Fact | None:
    return None if fact is None or fact.text not in texts else replace(fact, text=texts[fact.text])


def curate(memory: Memory, curated: CuratedFacts) -> bool:
    """Apply a change set again; return False if one of its facts has no match (nothing changes), or it is refused."""
    try:
        desk = memory.facts.desk(curated.block)
        # Facts are looked up before anything is changed, so that a missing one leaves the memory as it is.
        matches = _match_facts(curated, desk.facts())
        if matches is None:
            return False
        # An undone addition removes the fact for good, which is no step of a change set.
        if gone := [matches[place] for place, change in enumerate(curated.changes) if change.after is None]:
            desk.erase(gone)
        if steps := _steps(curated, matches):
            desk.apply(ChangeSet(curated.action, tuple(steps), curated.reason))  # type: ignore[arg-type]  # of the log
        return True
    except MemoryInspectorError:  # the block is missing here, or another fact has this text by now
        return False


def _match_facts(curated: CuratedFacts, facts: Sequence[Fact]) -> dict[int, Fact] | None:
    """Match a change set's facts by text; return them by index, or None if one is missing."""
    matches: dict[int, Fact] = {}
    for place, change in enumerate(curated.changes):
        if (before := change.before) is None:
            continue
        same = [fact for fact in facts if (fact.text, fact.state) == (before.text, before.state)]
        if not (unused := [fact for fact in same if fact not in matches.values()]):
            return None
        # Several facts may have the same text; each is matched once.
        matches[place] = unused[-1]
    return matches


def _steps(curated: CuratedFacts, matches: Mapping[int, Fact]) -> list[Step]:
    """Build the steps for changed facts, then those for added ones."""
    added = [place for place, change in enumerate(curated.changes) if change.before is None]

    def handed(place: int) -> tuple[tuple[str, int], ...]:
        """Return the sources that an added fact inherits from those it replaces; each part of a split fact inherits
        all."""
        if not curated.inherits_sources:
            return ()
        replaced = [n for n, change in enumerate(curated.changes) if n in matches and change.by is not None]
        mine = [n for n in replaced if curated.changes[n].by == place or (curated.action == "split" and place in added)]
        current = matches[place].sources if place in matches else ()
        return tuple(sorted({source for n in mine for source in matches[n].sources}.difference(current)))

    steps: list[Step] = []
    for place, change in enumerate(curated.changes):
        now, by, fact = change.after, change.by, matches.get(place)
        if now is None or not change.touched:
            continue
        if fact is None:
            new = FactDraft(now.text, now.state, now.pinned, now.category, origin=now.origin, topics=now.topics)
            steps.append(replace(new, sources=handed(place)))
            continue
        # A fact added by the set has no id yet: -1 is the first one added, -2 the second.
        taker = None if by is None else matches[by].id if by in matches else -1 - added.index(by)
        values = cast(FactValues, {name: getattr(now, name) for name in _REPEATED})
        steps.append(FactChange(fact, values, by=taker, sources=handed(place)))
    return steps


# -- scripts ----------------------------------------------------------------------------------------

Held = Literal["flush", "condensing"]
"""Actions that may be suppressed at a step."""


@dataclass(frozen=True, slots=True)
class ScriptStep:
    """An action of an agent."""

    does: Literal["put", "ask", "flush", "close", "curate"]
    at: float = 0.0
    """Seconds since the epoch; recency is computed from it."""
    messages: tuple[ChatMessage, ...] = ()
    """Messages appended by a put, in one transaction."""
    input: str | None = None
    """Prompt input that is not in the queue yet."""
    positions: tuple[int, ...] = ()
    """Log positions of the step's events, for a put one per message; empty for added steps."""
    unmade: frozenset[int] = frozenset()
    """Indexes of tool calls to skip."""
    held: frozenset[Held] = frozenset()
    """Actions to suppress."""
    reserved_tokens: int | None = None
    """Tokens of the agent's own system prompt and tools, if measured for a prompt; None: those of the settings."""
    curated: CuratedFacts | None = None
    """A person's change of facts."""


@dataclass(frozen=True, slots=True)
class Script:
    """A conversation as steps."""

    steps: tuple[ScriptStep, ...]
    by_people: int = 0
    """Number of changes to memory by people that are not replayed. Their changes of facts are, and do not count."""
    learners: tuple[str, ...] = ()
    """Names of the models that learned in the conversation."""
    editing: bool = False
    """True if the agent had memory tools; then its recorded calls are complete."""

    @property
    def messages(self) -> list[ChatMessage]:
        return [message for step in self.steps for message in step.messages]

    @property
    def turns(self) -> int:
        return sum(message.role is MessageRole.USER for message in self.messages)


def script_from(messages: Iterable[ChatMessage], *, at: float = 0.0) -> Script:
    """Build a script that stores each message separately and prompts after each user message."""
    steps: list[ScriptStep] = []
    for message in messages:
        steps.append(ScriptStep("put", at, (message,)))
        if message.role is MessageRole.USER:
            steps.append(ScriptStep("ask", at))
    return Script(tuple(steps))


def script_of(memory: Memory, upto: int | None = None) -> Script:
    """Read an agent's actions since the last reset from the log, optionally up to a position.

    Turns without a prompt get one, after the user's message.
    """
    turns = memory.log.history().turns.values()
    pairs = sorted((pair for pair in _recorded_steps(memory) if upto is None or _position(pair) <= upto), key=_position)
    # Events of single facts have the time of their change set. Those of a replayed set do not count as left out.
    again = {record.at for record, step in pairs if step is not None and step.curated is not None}
    learners = dict.fromkeys(attached.learner for attached in memory.blocks if attached.learner)
    return Script(
        steps=tuple(_with_prompts(_together(pairs))),
        by_people=sum(
            (upto is None or record.position <= upto)
            and not (record.event.family == "facts" and record.at in again)
            # Importing or renaming a session changes no memory.
            and (record.event.family != "session" or changes_quarantine(record.event))
            for turn in turns
            for record in turn.edited
        ),
        learners=tuple(learners),
        editing=memory.blocks.editable_by_agents,
    )


def _recorded_steps(memory: Memory) -> Iterator[tuple[EventRecord, ScriptStep | None]]:
    """Yield each message, prompt, flush and change set of facts with the step that replays it; None for a flush that a
    put triggered."""
    history = memory.log.history()
    pieces = memory.log.pieces() if history.records else None
    for stored in memory.session.messages():
        state = pieces.message(stored.seq) if pieces is not None else None
        if state is not None:
            yield (
                state.record,
                ScriptStep("put", state.record.at, (stored.message,), positions=(state.record.position,)),
            )
    curated = curated_facts(memory, history.records)
    for record in history.after(
        max((record.position for record in history.records if record.event.empties_session), default=0)
    ):
        if record.position in curated:
            place = (record.position,)
            yield record, ScriptStep("curate", record.at, positions=place, curated=curated[record.position])
    for turn in history.turns.values():
        for record in turn.contexts:
            built = context_of(record)
            asked = memory.log.texts([built.input]).get(built.input) if built.input else None
            measured = built.reserved_tokens if built.measured else None
            yield (
                record,
                ScriptStep("ask", record.at, input=asked, positions=(record.position,), reserved_tokens=measured),
            )
        for record in turn.flushes:
            here = (record.position,)
            steps = {
                "asked": ScriptStep("flush", record.at, positions=here),
                "closed": ScriptStep("close", record.at, positions=here),
            }
            # A flush over budget is no step: the put that is replayed decides again, under the new settings.
            yield record, steps.get(flush_of(record).trigger)


def _position(pair: tuple[EventRecord, ScriptStep | None]) -> int:
    return pair[0].position


def _together(pairs: Iterable[tuple[EventRecord, ScriptStep | None]]) -> list[ScriptStep]:
    """Join the messages of one put, recognised by equal time and actor, as they share a transaction."""
    steps: list[ScriptStep] = []
    before: EventRecord | None = None
    for record, step in pairs:
        if (
            step is not None
            and step.messages
            and before is not None
            and (before.at, before.actor) == (record.at, record.actor)
        ):
            steps[-1] = replace(
                steps[-1],
                messages=(*steps[-1].messages, *step.messages),
                positions=(*steps[-1].positions, *step.positions),
            )
        elif step is not None:
            steps.append(step)
        # A flush ends the put before it, so a message of the same time after it begins another put.
        before = record if step is not None and step.messages else None
    return steps


def _with_prompts(steps: Sequence[ScriptStep]) -> list[ScriptStep]:
    """Insert a prompt after the first put of each turn that has none."""
    made: list[ScriptStep] = []
    for number, step in enumerate(steps):
        made.append(step)
        if any(message.role is MessageRole.USER for message in step.messages) and not _asked(steps[number + 1 :]):
            # Before the answer, when an agent would have asked for it.
            made.append(ScriptStep("ask", step.at))
    return made


def _asked(later: Sequence[ScriptStep]) -> bool:
    """Return whether a prompt comes before the next user message."""
    for step in later:
        if step.does == "ask":
            return True
        if any(message.role is MessageRole.USER for message in step.messages):
            return False
    return False
