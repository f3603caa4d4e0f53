"""Explain a vector search: results for a query under current or trial settings, and why each other unit was rejected.

A search takes the same path as building a context (`VectorMemoryBlock.recall`, then the context planner) but records
nothing. Deleting a stored turn is here too.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import floor
from typing import Any, cast

import numpy as np
from sqlalchemy import Connection

from memory_core.blocks.base import ReadContext, origin_of, stored_item
from memory_core.blocks.former_marks import NO_MARKS, MarksOf
from memory_core.blocks.unit_cache import StoredUnits
from memory_core.blocks.units import messages_of, words_of
from memory_core.blocks.vector import BOOST_FIELDS, Recall, VectorMemoryBlock
from memory_core.engine.context import Context, build_context, reading_of
from memory_core.engine.session import ImaginedBlocks, Session, SessionBlock
from memory_core.errors import ConfigError, ContextOverflowError, NotFoundError
from memory_core.events import (
    ContextBuilt,
    EventRecord,
    Ref,
    Retrieved,
    VectorsStored,
    numbers,
    spread,
)
from memory_core.history.by_turn import search_of
from memory_core.history.contexts import is_context
from memory_core.messages import content_hash
from memory_core.planning.former_values import FormerMark, stored_marks
from memory_core.planning.retrieval_plan import NO_PLACE, match
from memory_core.retrieval.ranked import OUTCOMES, CandidateOutcome, Ranked, RankedTurn, Scores
from memory_core.store.log_rows import read_events
from memory_core.store.message_rows import DatedMessage, messages_that_hold
from memory_core.store.vector_rows import Node, read_nodes_of
from memory_core.store.writing import read_texts, session_scope

ASKED: tuple[CandidateOutcome, ...] = ("granted", "cut", "no_prompt")
"""Outcomes of the turns that the block requests for the prompt."""

MAX_ELSEWHERE = 50
"""Maximum number of results listed from other sessions of the user."""


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Settings that determine a search, named as in `VectorMemoryBlock`."""

    similarity_top_k: int | None
    """Maximum number of results; None: as many as fit."""
    similarity_threshold: float | None
    vector_weight: float
    keyword_weight: float
    neighbour_weight: float
    episode_weight: float
    speaker_weight: float
    date_weight: float
    informativeness_weight: float
    length_weight: float


@dataclass(frozen=True, slots=True)
class Search:
    """Results of one question, with the outcome of each stored turn."""

    block: str
    query: str | None
    """Text of the question; None if it was erased since."""
    settings: SearchSettings
    weights: tuple[float, float] | None
    """Weights of the vector and the keyword score as used; None if a record does not state them."""
    found: Ranked
    """Stored turns, best first; for a recorded search, the recorded candidates."""
    counts: Mapping[CandidateOutcome, int]
    """Number of stored turns by outcome, including those not in `found`."""
    stored: int | None
    """Total number of stored turns; None if a record does not state it."""
    proposed: int
    """Maximum number of turns that each of the two searches proposes."""
    embedder: str | None
    index: str
    degraded: str | None = None
    """Reason why a search could not run, in words."""
    no_prompt: str | None = None
    """Reason why there is no prompt to include the requested turns; None if there is one."""
    other_embedder: int = 0
    """Number of stored turns that only keyword search can find, as another embedding model made their vectors."""
    context: Context | None = None
    """The prompt as it would be built for this question."""
    token_budget: int | None = None
    """Token budget to fill; None if a number of results is requested instead."""
    elsewhere: tuple["Elsewhere", ...] = ()
    """Results from other sessions of the user, best first; for a recorded search, those it requested."""

    @property
    def candidates(self) -> int:
        return sum(count for outcome, count in self.counts.items() if outcome != "not_proposed")

    @property
    def asked(self) -> int:
        return sum(self.counts[outcome] for outcome in ASKED)

    def one(self, number: int) -> RankedTurn | None:
        """Return the stored turn with this number; None if it is unknown."""
        return self.found.one(number)

    def settings_to_ask_for(self, number: int) -> dict[str, Any]:
        """Return the smallest change to threshold and result count under which a turn would be requested.

        Empty if it is requested already, or if no such change would help: it is not a candidate, is in the queue, or
        has no score.
        """
        turn = self.one(number)
        if turn is None or turn.score <= 0 or turn.outcome not in ("below_threshold", "beyond_top_k"):
            return {}
        changes: dict[str, Any] = {}
        if turn.outcome == "below_threshold":
            # Rounded down to the setting's two decimals; first to six, as 0.29 times 100 is a little below 29.
            changes["similarity_threshold"] = floor(round(turn.score * 100, 6)) / 100
        # Equal scores go to the older turn, as in the plan.
        ahead = sum(
            (-other.score, other.number) < (-turn.score, turn.number)
            for other in self.found.candidates
            if other.outcome not in NO_PLACE and other.outcome != "not_proposed"
        )
        if self.settings.similarity_top_k is not None and ahead >= self.settings.similarity_top_k:
            changes["similarity_top_k"] = ahead + 1
        return changes


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A stored turn of another session of the user, for one question."""

    session_id: str
    turn: int
    words: str
    """Text of the turn; empty if it was erased since."""
    score: float
    outcome: CandidateOutcome


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A stored turn close to another one."""

    number: int
    turn: int
    words: str
    similarity: float
    """Cosine, -1 to 1."""


# -- searching ------------------------------------------------------------------------------------


def search(
    session: Session, query: str, *, block: str | None = None, settings: Mapping[str, Any] | None = None
) -> Search:
    """See `Memory.retrieval.search`."""
    name = vector_block(session, block).name
    # A copy: trial settings must not reach a prompt that is built meanwhile.
    imagined = session.imagined(session.config, ImaginedBlocks(settings={name: settings or {}}))
    attached, found_in = imagined.block(name), vector_block(imagined, name)
    context, no_prompt = _context(imagined, query, attached)
    token_budget = None
    if found_in.fills_budget:  # without a prompt, as if it were alone
        token_budget = context.token_budgets.get(name) if context is not None else imagined.config.room
    reading = replace(reading_of(imagined, query), token_budget=token_budget)
    recall = found_in.recall(reading)
    used = SearchSettings(**{field.name: getattr(found_in, field.name) for field in fields(SearchSettings)})
    # No question, or nothing stored: all turns are listed without a score.
    if recall is None:
        stored = found_in.stored(reading)
        numbers = stored.order[stored.of(session.id)]
        nothing = np.full(len(numbers), np.nan)  # from both searches; the score is 0
        listed = _ranked(reading, stored, (), Scores(numbers, nothing, nothing, np.zeros(len(numbers))))
        counts = _counts(listed)
        return Search(
            name,
            query,
            used,
            None,
            listed,
            counts,
            len(numbers),
            0,
            None,
            found_in.index(reading.services, reading.database).name,
        )
    ranked, unknown = _rank_turns(found_in, reading, recall, _asked_units(context, name))
    return Search(
        block=name,
        query=query,
        settings=used,
        weights=recall.weights,
        found=ranked,
        counts=_counts(ranked),
        stored=len(recall.stored.of(session.id)),
        proposed=recall.proposed,
        embedder=recall.embedder,
        index=recall.index,
        degraded=recall.degraded,
        no_prompt=no_prompt,
        other_embedder=unknown,
        context=context,
        token_budget=token_budget,
        elsewhere=_elsewhere(reading, recall, context, name),
    )


def vector_block(session: Session, name: str | None) -> VectorMemoryBlock:
    """Return the block of that name, or the first block that stores turns.

    Raises:
        NotFoundError: there is no such block.
        ConfigError: the block stores no turns.
    """
    for attached in session.blocks if name is None else (session.block(name),):
        if isinstance(attached.block, VectorMemoryBlock):
            return attached.block
    if name is None:
        raise NotFoundError("No block stores earlier turns, so there is nothing to search.")
    raise ConfigError(f'"{name}" stores no turns: only vector blocks are searched')


def _context(imagined: Session, query: str, attached: SessionBlock) -> tuple[Context | None, str | None]:
    """Return the prompt for the question, or the reason why none includes this block."""
    if not attached.record.settings.get("enabled", True):
        return None, "The block is switched off: nothing of it is in the prompt."
    try:
        context = build_context(imagined, query, record=False)
    except ContextOverflowError as error:
        return None, str(error)
    failure = context.failures.get(attached.name)
    return (context, None) if failure is None else (None, failure)


def _asked_units(context: Context | None, name: str) -> dict[int, CandidateOutcome] | None:
    """Return the outcome of each stored turn that the block asked for, by number; None without a prompt."""
    if context is None:
        return None
    cut = [ref for cut in context.plan.cuts if cut.part == name for ref in cut.refs]
    granted = [piece.ref for part in context.plan.granted if part.name == name for piece in part.pieces]
    return _outcomes(cut, granted)


def _outcomes(cut: Iterable[str], granted: Iterable[str]) -> dict[int, CandidateOutcome]:
    outcomes: dict[int, CandidateOutcome] = dict.fromkeys(numbers(cut, "unit"), "cut")
    return outcomes | dict.fromkeys(numbers(granted, "unit"), "granted")


def _counts(ranked: Ranked) -> dict[CandidateOutcome, int]:
    return {**dict.fromkeys(OUTCOMES, 0), **ranked.counts}


def _rank_turns(
    block: VectorMemoryBlock, reading: ReadContext, recall: Recall, asked: Mapping[int, CandidateOutcome] | None
) -> tuple[Ranked, int]:
    """Return all stored turns with scores and outcome, best first, and the number without a vector of this embedder."""
    # Sorted, so that `searchsorted` finds the places of the scores.
    numbers = np.sort(recall.stored.order[recall.stored.of(reading.session_id)])
    vectors = np.full(len(numbers), np.nan)
    by_meaning = recall.query is not None and recall.weights[0] > 0
    if recall.query is not None and by_meaning:
        unit_numbers, cosines = reading.services.exact.scores(block.source(reading), recall.query)
        ranked_here = np.isin(unit_numbers, numbers)
        vectors[np.searchsorted(numbers, unit_numbers[ranked_here])] = cosines[ranked_here]
    keywords = np.full(len(numbers), np.nan)
    if recall.weights[1] > 0:
        keywords = recall.keyword.of(numbers)
    scores = match(np.maximum(np.nan_to_num(vectors), 0), np.maximum(np.nan_to_num(keywords), 0), *recall.weights)
    candidates = []
    for scored in recall.plan.candidates:
        if recall.elsewhere(scored.number):
            continue
        outcome: CandidateOutcome = scored.outcome
        if outcome == "granted":
            # A turn missing from the second search was deleted in between: it is in no prompt.
            outcome = "no_prompt" if asked is None else asked.get(scored.number, "no_prompt")
        scores_of = scored.vector, scored.keyword, scored.score
        candidates.append(
            RankedTurn(scored.number, 0, 0, "", recall.nodes[scored.number].tokens, *scores_of, outcome, scored.boosts)
        )
    # Kept as arrays: up to 100,000 turns that were no candidates become rows only when they are looked at.
    rest = ~np.isin(numbers, [candidate.number for candidate in candidates])
    others = Scores(numbers[rest], vectors[rest], keywords[rest], scores[rest])
    unknown = int(np.isnan(vectors).sum()) if by_meaning else 0
    return _ranked(reading, recall.stored, candidates, others, recall.laid_out.former.of_messages), unknown


def _elsewhere(reading: ReadContext, recall: Recall, context: Context | None, name: str) -> tuple[Elsewhere, ...]:
    """Return the best results from other sessions of the user; none of these can be opened from here."""
    # A branch repeats its original: what is here already is no result from there.
    outsiders = (c for c in recall.plan.candidates if recall.elsewhere(c.number) and c.outcome != "repeated")
    candidates = list(outsiders)[:MAX_ELSEWHERE]
    texts = _texts(reading, [recall.nodes[outsider.number] for outsider in candidates])
    plan = context.plan if context is not None else None
    cut = [ref for cut in plan.cuts if cut.part == name for ref in cut.refs] if plan is not None else []
    parts = [part for part in plan.granted if part.name == name] if plan is not None else []
    asked = _text_outcomes(cut, [piece.ref for part in parts for piece in part.pieces])
    # Units of other sessions have no number here: the prompt names them by the hash of their words.
    stored = recall.laid_out.borrowed(recall.plan.granted)
    listed = []
    for candidate in candidates:
        outcome: CandidateOutcome = candidate.outcome
        if outcome == "granted":
            text = stored.get(candidate.number)
            outcome = asked.get(content_hash(text), "no_prompt") if text is not None else "no_prompt"
        turn, words = texts.get(candidate.number, (0, ""))
        session_id = recall.nodes[candidate.number].session_id
        listed.append(Elsewhere(session_id, turn, words, candidate.score, outcome))
    return tuple(listed)


def _text_outcomes(cut: Iterable[Ref], granted: Iterable[Ref]) -> dict[str, CandidateOutcome]:
    """Return the outcome of each text of another session that the block asked for, by its hash."""
    outcomes: dict[str, CandidateOutcome] = {ref.hash: "cut" for ref in cut if ref.kind == "content"}
    return outcomes | {ref.hash: "granted" for ref in granted if ref.kind == "content"}


def read_ahead(session: Session) -> None:
    """See `Memory.log.read_ahead`."""
    reading = reading_of(session, "")
    for attached in session.blocks:
        if isinstance(attached.block, VectorMemoryBlock):
            attached.block.read_ahead(reading)


# -- texts of stored turns, and their neighbours -----------------------------------------------------


def _ranked(
    reading: ReadContext,
    stored: StoredUnits,
    candidates: Sequence[RankedTurn],
    rest: Scores,
    marks_of: MarksOf = NO_MARKS.of_messages,
) -> Ranked:
    """Rank candidates and the rest; their texts are read on demand, with the marks of former values."""

    def texts(numbers: Sequence[int]) -> dict[int, tuple[int, str]]:
        return _texts(reading, [stored.nodes[number] for number in numbers], marks_of)

    def holding(words: Sequence[str]) -> list[int]:
        with reading.database.read() as connection:
            # By one word alone: the others may stand in another message of the same unit.
            seqs = messages_that_hold(connection, reading.session_id, words[:1])
        # The database names more messages than hold the words, so the text of each turn is compared again.
        texts = _texts(reading, stored.holding(reading.session_id, seqs))
        return [number for number, (_, text) in texts.items() if all(word in text.casefold() for word in words)]

    return Ranked(candidates, rest, tokens=lambda number: stored.nodes[number].tokens, texts=texts, holding=holding)


def _texts(
    reading: ReadContext, nodes: Iterable[Node], marks_of: MarksOf = NO_MARKS.of_messages
) -> dict[int, tuple[int, str]]:
    """Return turn number and words of stored turns, by number; those with deleted messages are omitted."""
    with reading.database.read() as connection:
        units = messages_of(connection, reading.session_id, reading.services.messages, nodes)
    return _worded(units, marks_of)  # after the transaction, as marks are read in one of their own


def _worded(units: Mapping[int, Sequence[DatedMessage]], marks_of: MarksOf) -> dict[int, tuple[int, str]]:
    marks = marks_of((message.session_id, message.seq) for unit in units.values() for message in unit)
    return {number: (unit[0].turn, words_of(unit, marks)) for number, unit in units.items()}


def neighbours(session: Session, name: str, number: int, *, limit: int) -> tuple[Neighbour, ...]:
    """See `Memory.retrieval.neighbours`."""
    block, reading = vector_block(session, name), reading_of(session, "")
    nodes = block.stored(reading).nodes
    own = ("", session.id)
    if number not in nodes or nodes[number].session_id not in own:
        raise NotFoundError(f'This stored {block.unit} is not in "{name}" any more.')
    source = block.source(reading)
    own_vectors = source.some([number])
    if not own_vectors:  # another embedding model made its vector
        return ()
    # One more, as the turn itself is its own nearest.
    hits = reading.services.exact.search(source, own_vectors[0].vector, limit=limit + 1)
    near = [
        hit for hit in hits if hit.number != number and hit.number in nodes and nodes[hit.number].session_id in own
    ][:limit]
    texts = _texts(reading, [nodes[hit.number] for hit in near])
    return tuple(Neighbour(hit.number, *texts.get(hit.number, (0, "")), hit.score) for hit in near)


# -- recorded searches ----------------------------------------------------------------------------


def recorded_searches(session: Session, turn: int, name: str, upto: int | None) -> list[Search]:
    """See `Memory.retrieval.recorded`."""
    scope = session_scope(session.id)
    with session.database.read() as connection:
        records = read_events(connection, session.id, turn=turn, kinds=("retrieved", "context_built"))
        records = [record for record in records if upto is None or record.position <= upto]
        pairs = [(one, _built_after(one, records)) for one in records if one.event.about == name]
        searches = [(search, built) for one, built in pairs if (search := search_of(one)) is not None]
        if not searches:
            return []
        hashes = {key for event, _ in searches for key, _ in event.elsewhere}
        queries = read_texts(connection, scope, {event.query for event, _ in searches} | hashes)
        nodes = _nodes_ever(connection, session.id, name, {c[0] for event, _ in searches for c in event.candidates})
        marks = {(session.id, seq): mark for _, built in searches for seq, mark in _recorded_marks(built, name)}
        units = messages_of(connection, session.id, session.services.messages, nodes.values())
    texts = _worded(units, lambda sources: marks)
    return [_recorded(event, built, queries, nodes, texts) for event, built in searches]


def _recorded_marks(built: ContextBuilt | None, name: str) -> Iterable[tuple[int, FormerMark]]:
    """Return the marks of former values in a block's part of a recorded prompt, by message."""
    parts = [part for part in built.parts if part["name"] == name] if built is not None else []
    return [(beside.number, mark) for part in parts for beside, mark in stored_marks(part).items()]


def _built_after(record: EventRecord, records: Sequence[EventRecord]) -> ContextBuilt | None:
    """Return the context that a search was made for: the next one in the log."""
    later = (r.event for r in records if r.position > record.position)
    return next((event for event in later if is_context(event)), None)


def _nodes_ever(connection: Connection, session_id: str, name: str, numbers: Collection[int]) -> dict[int, Node]:
    """Return stored turns by number, including deleted ones, which only the log still lists."""
    nodes = {node.number: node for node in read_nodes_of(connection, session_id, name, numbers)}
    if missing := set(numbers) - nodes.keys():
        for record in read_events(connection, session_id, kinds=("vectors_stored",), block=name):
            if isinstance(record.event, VectorsStored):
                for number, seqs, tokens in record.event.nodes:
                    if number in missing:
                        nodes[number] = Node(number, seqs, tokens, record.turn)
    return nodes


def _recorded(
    event: Retrieved,
    built: ContextBuilt | None,
    words_of_hash: Mapping[str, str],
    nodes: Mapping[int, Node],
    texts: Mapping[int, tuple[int, str]],
) -> Search:
    outcomes: dict[int, CandidateOutcome] = {}
    if built is not None:
        cut = [ref for cut_made in built.cuts if cut_made["part"] == event.block for ref in cut_made["refs"]]
        outcomes = _outcomes(cut, [ref for part in built.parts if part["name"] == event.block for ref in part["refs"]])
    turns = []
    for rank, (number, vector, keyword, score, recorded) in enumerate(event.candidates, start=1):
        outcome = cast(CandidateOutcome, recorded)  # a later version may have recorded another one
        if outcome == "granted":
            outcome = outcomes.get(number, "no_prompt")
        turn, words = texts.get(number, (0, ""))
        tokens = nodes[number].tokens if number in nodes else 0
        boosts = event.boosts[rank - 1] if event.boosts else ()
        turns.append(RankedTurn(number, rank, turn, words, tokens, vector, keyword, score, outcome, boosts))
    counts = cast(dict[CandidateOutcome, int], {**dict.fromkeys(OUTCOMES, 0), **event.gates})
    # For turns that passed the gates, the prompt determines the outcome.
    in_prompt = Counter(outcomes.values())
    counts |= {"granted": in_prompt["granted"], "cut": in_prompt["cut"]}
    counts["no_prompt"] = max(0, event.gates.get("granted", 0) - in_prompt.total())
    vector_weight, keyword_weight = event.weights or (0.0, 0.0)
    weights = {BOOST_FIELDS[term]: weight for term, weight in event.boost_weights.items() if term in BOOST_FIELDS}
    return Search(
        block=event.block,
        query=words_of_hash.get(event.query),
        settings=SearchSettings(
            event.top_k,
            event.threshold,
            vector_weight,
            keyword_weight,
            **{field: weights.get(field, 0.0) for field in BOOST_FIELDS.values()},
        ),
        weights=event.weights,
        found=Ranked(turns),
        counts=counts,
        stored=None,
        proposed=0,
        embedder=event.embedder,
        index=event.index,
        degraded=event.degraded,
        token_budget=event.token_budget,
        elsewhere=_recorded_elsewhere(event, built, words_of_hash),
    )


def _recorded_elsewhere(
    event: Retrieved, built: ContextBuilt | None, words_of_hash: Mapping[str, str]
) -> tuple[Elsewhere, ...]:
    cuts, parts = (built.cuts, built.parts) if built is not None else ((), ())
    cut = [ref for cut_made in cuts if cut_made["part"] == event.block for ref in spread(cut_made["refs"])]
    granted = [ref for part in parts if part["name"] == event.block for ref in spread(part["refs"])]
    asked = _text_outcomes(cut, granted)
    results = []
    for key, score in event.elsewhere:
        stored = words_of_hash.get(key)
        outcome = asked.get(key, "no_prompt")
        origin = origin_of(stored) if stored is not None else None
        words = stored_item(Ref.of("content", key), stored, str).words if stored is not None else ""
        session_id, turn = origin or ("", 0)
        results.append(Elsewhere(session_id, turn, words, score, outcome))
    return tuple(results)


def compared(before: Search, after: Search) -> tuple[tuple[RankedTurn, RankedTurn], ...]:
    """Return stored turns whose outcome differs, best first, as pairs (before, after)."""
    either = {one.number for search in (before, after) for one in search.found.candidates}
    was = {turn.number: turn for turn in before.found.some(either)}
    pairs = ((was[later.number], later) for later in after.found.some(either) if later.number in was)
    return tuple((one, other) for one, other in pairs if one.outcome != other.outcome)


# -- questions that found a stored turn -----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FoundBy:
    """Recorded search that had a stored turn among its candidates."""

    turn: int
    """Conversation turn in which the question was asked."""
    place: int
    """Index of the search in `Memory.retrieval.recorded(turn, block)`, from 0."""
    query: str
    """Hash of the question; `Memory.log.texts` returns its words."""
    outcome: CandidateOutcome
    rank: int | None
    """Rank by score, 1 is best; None if the turn was not among the recorded candidates."""
    score: float | None


def found_by(records: Sequence[EventRecord], block: str, number: int) -> tuple[FoundBy, ...]:
    """Return a block's searches in these records that had a stored turn among their candidates, newest first."""
    questions: list[FoundBy] = []
    built: tuple[int, ContextBuilt] | None = None
    searches = Counter(r.turn for r in records if (search := search_of(r)) is not None and search.block == block)
    # Backwards, so that the prompt a search was made for is met before the search.
    for record in reversed(records):
        event = record.event
        if is_context(event):
            built = record.turn, event
        elif (search := search_of(record)) is not None and search.block == block:
            # Counted down from all searches of the turn: what is left is the index of this one.
            searches[record.turn] -= 1
            prompt = built[1] if built is not None and built[0] == record.turn else None
            found_here = _found_by(record.turn, searches[record.turn], search, prompt, number)
            questions += [found_here] if found_here is not None else []
    return tuple(questions)


def _found_by(turn: int, place: int, event: Retrieved, prompt: ContextBuilt | None, number: int) -> FoundBy | None:
    for rank, (candidate, _, _, score, ended) in enumerate(event.candidates, start=1):
        if candidate == number:
            outcome = cast(CandidateOutcome, ended)  # a later version may have recorded another one
            if outcome == "granted":
                outcome = _in_prompt(prompt, event.block, number) or "no_prompt"
            return FoundBy(turn, place, event.query, outcome, rank, score)
    # An event lists only the best candidates; the prompt has the rest of what was asked for.
    listed = sum(candidate[4] == "granted" for candidate in event.candidates)
    if event.gates.get("granted", 0) > listed:
        unlisted = _in_prompt(prompt, event.block, number)
        return FoundBy(turn, place, event.query, unlisted, None, None) if unlisted is not None else None
    return None


def _in_prompt(prompt: ContextBuilt | None, block: str, number: int) -> CandidateOutcome | None:
    """Return whether a requested stored turn was granted or cut in a prompt; None if the prompt does not list it."""
    if prompt is None:
        return None
    if any(cut["part"] == block and number in numbers(cut["refs"], "unit") for cut in prompt.cuts):
        return "cut"
    granted = any(part["name"] == block and number in numbers(part["refs"], "unit") for part in prompt.parts)
    return "granted" if granted else None
