"""A search in words and rows: the funnel's stages, the table, explanations of outcomes, excerpts. Pure; no Streamlit.

Sentences are markdown; quoted words are escaped.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from memory_core import Context
from memory_core.blocks.vector import BOOST_FIELDS, DATABASE_COPY, KEYWORD_ONLY, KEYWORD_WEIGHT, VECTOR_WEIGHT
from memory_core.events import Ref
from memory_core.planning.retrieval_plan import BOOSTS, BoostWeights, GateOutcome
from memory_core.retrieval.explain import ASKED, FoundBy, Search, compared
from memory_core.retrieval.ranked import CandidateOutcome, Ranked, RankedTurn
from memory_core.text import capitalised, stems
from memory_core.tracing.rule_words import SEARCH, SearchNumbers
from memory_inspector.wording.block_kinds import TURN, from_turn, stored
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.marked_text import Span

_GATES: tuple[CandidateOutcome, ...] = get_args(GateOutcome)[1:]

Stage = CandidateOutcome | Literal["stored", "candidates", "asked"]
"""Stage that the table can be filtered by."""

CELL_CHARACTERS = 300
"""Maximum characters of a turn's words in a table row; selecting the row shows the whole text below."""

ROWS = 200
"""Rows drawn per page."""

NAMED = 3
"""Maximum number of turns named in one sentence; the rest are counted."""


def stages(search: Search) -> dict[Stage, str]:
    """Labels of the search's stages, each with its number of turns. Recorded searches lack the stage `stored`."""
    counts, fitted = search.counts, search.counts["granted"]
    numbers: dict[Stage, str] = {}
    if search.stored is not None:
        numbers["stored"] = f"Stored {tokens(search.stored)}"
    numbers["candidates"] = f"Candidates {tokens(search.candidates)}"
    for code in _GATES:
        # Rare outcomes are listed only if they occurred, so that the funnel stays short.
        always = code == "in_queue" or (code == "below_threshold" and search.settings.similarity_threshold is not None)
        if counts[code] or always:
            numbers[code] = f"{SEARCH[code].label(_numbers(search))}: {tokens(counts[code])}"
    numbers["asked"] = f"Recalled {tokens(search.asked)}"
    numbers["granted"] = f"Fit {tokens(fitted)}"
    return numbers


def unused_tokens(search: Search) -> int | None:
    """Unused tokens of the budget that the block fills with turns; None if it has none, or its use is unknown."""
    part = next((p for p in search.context.plan.granted if p.name == search.block), None) if search.context else None
    return None if search.token_budget is None or part is None else max(0, search.token_budget - part.asked)


def _numbers(search: Search, turn: RankedTurn | None = None) -> SearchNumbers:
    """Return the numbers of a search and of a turn in it, with the block's name as markdown."""
    settings, free = search.settings, unused_tokens(search)
    numbers = SearchNumbers(
        plain(search.block),
        settings.similarity_threshold,
        settings.similarity_top_k,
        search.token_budget,
        proposed=search.proposed or None,
    )
    if turn is None:
        return numbers
    # Free tokens do not count markup, so there may be enough of them for a turn that does not fit.
    less = free if turn.outcome == "no_room" and free is not None and free < turn.tokens else None
    return replace(numbers, score=turn.score, rank=turn.rank, tokens=turn.tokens, free=less)


def within(search: Search, stage: Stage) -> Ranked:
    """The turns of a stage, best first."""
    if stage == "stored":
        return search.found
    groups = {"candidates": ("granted", "cut", "no_prompt", *_GATES), "asked": ASKED}
    return search.found.only(*groups.get(stage, (stage,)))


def holding(search: Search, words: str) -> Ranked:
    """The turns whose text contains each of these words or word beginnings, best first."""
    return search.found.holding(words.split())


def score(value: float) -> str:
    """A score with two decimal places."""
    return f"{value:.2f}"


def outcome(turn: RankedTurn, search: Search) -> str:
    """The outcome of a turn, in a few words."""
    if turn.outcome == "not_proposed" and not search.proposed:
        return "Stored"  # Nothing is proposed until a question is asked.
    # The budget is the same for all turns.
    return SEARCH[turn.outcome].label(replace(_numbers(search, turn), token_budget=None))


def why(turn: RankedTurn, search: Search) -> str:
    """Explanation of a turn's outcome, with the rule and the numbers."""
    if turn.outcome == "not_proposed" and not search.proposed:
        return "It is stored. Ask a question to see how near it is."
    sentence = _numbers(search, turn).filled(SEARCH[turn.outcome].sentence)
    cause = search.no_prompt if turn.outcome == "no_prompt" else None
    return f"{sentence} {plain(cause)}" if cause else sentence


def place(turn: RankedTurn) -> str:
    """Rank of a turn as an ordinal: `1st`, `2nd`, `13th`."""
    return place_of(turn.rank)


def place_of(rank: int) -> str:
    """A rank as an ordinal: `1st`, `2nd`, `13th`."""
    last = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if rank % 100 in (11, 12, 13) else last.get(rank % 10, "th")
    return f"{tokens(rank)}{ending}"


def rows(
    turns: Sequence[RankedTurn], search: Search, *, each_term: bool = False, sought: str = ""
) -> list[dict[str, Any]]:
    """The table rows. Texts are plain cells, without markup, and begin at the passage that best matches the question.

    `each_term`: include the terms of the score. `sought`: words that should have been found.
    """
    # Without a question nothing was scored; a record has its scores even if it does not state the weights.
    scored = search.weights is not None or search.stored is None
    shown = boosts_shown(search)
    split = term_columns(turns, search) if shown else [{} for _ in turns]
    return [
        {
            # The words of an erased turn are gone, and its turn number with them.
            "Turn": turn.turn if turn.words else None,
            "Score": turn.score if scored else None,
            "Outcome": outcome(turn, search),
            "Text": excerpt(turn.words, matches(turn.words, search.query or "", sought), CELL_CHARACTERS)
            if turn.words.strip()
            else "(erased)",
            **(_scores(turn, values) if each_term else {}),
        }
        for turn, values in zip(turns, split, strict=True)
    ]


def without_effect(turns: Sequence[RankedTurn], search: Search) -> list[int]:
    """Return the indexes in `turns` of those that are not in the prompt for this question; empty without a question."""
    return [place for place, turn in enumerate(turns) if search.query and turn.outcome != "granted"]


def _scores(turn: RankedTurn, split: dict[str, Any]) -> dict[str, Any]:
    """The match and each boost if there are boosts, otherwise the two search scores."""
    return split or {"Vector": turn.vector, "Keyword": turn.keyword}


def _cell(words: str) -> str:
    line = " ".join(words.split())
    if not line:
        return "(erased)"
    return short(line, CELL_CHARACTERS)


def headline(search: Search, *, past: bool = False, unit: str = TURN) -> str:
    """The result of the search in numbers; `unit`: noun for a stored unit."""
    counts = search.counts
    # A record does not state how many turns were stored, only how many were candidates.
    sentence = f"Searched **{stored(search.candidates if search.stored is None else search.stored, unit)}**"
    if not search.asked:
        return f"{sentence}. {_hindrance(search, unit, past=past)}."
    recalled = f"{sentence}: {tokens(search.asked)} {'' if past else 'would be '}recalled"
    if counts["no_prompt"]:
        return f"{recalled}, for no prompt."
    granted = f"**{tokens(counts['granted'])} {'fitted' if past else 'fit'} in the prompt**"
    cut = sum(turn.tokens for turn in search.found.candidates if turn.outcome == "cut")
    if not cut:
        return f"{recalled}, {granted}."
    lost = f"{tokens(counts['cut'])} ({count(cut, 'token')}) {_was(counts['cut']) if past else 'would be'} cut"
    return f"{recalled}, {granted}; {lost}."


def _was(n: int) -> str:
    return "was" if n == 1 else "were"


def _hindrance(search: Search, unit: str, *, past: bool) -> str:
    """Reason why nothing is recalled, as a sentence without its full stop."""
    counts = search.counts
    so = "so nothing was recalled" if past else "so nothing would be recalled"
    # If all failed for this one reason, the sentence names the score they missed.
    if counts["below_threshold"] and counts["below_threshold"] == search.candidates:
        return f"None scored {score(search.settings.similarity_threshold or 0)} or more, {so}"
    numbers = _numbers(search)
    reasons = [SEARCH[code].counted(counts[code], numbers) for code in _GATES if counts[code]]
    if not reasons:
        return f"No stored {unit} has a word or a meaning in common with it, {so}"
    return f"None {'was' if past else 'would be'} recalled: {' and '.join(reasons)}"


UNREAD_SCRIPT = (
    "By words only: the embedding model does not read this script. Questions in other words will miss. "
    "An embedding model of your own can read it."
)


def degraded(search: Search) -> tuple[Literal["warning", "error"], str] | None:
    """Message on what could not be searched: the consequence first, then the cause."""
    reason = search.degraded
    if reason is None:
        # Turns have vectors, but their weight is 0: the model does not read the script of the question.
        unread = (
            search.weights is not None
            and not search.weights[0]
            and any(turn.vector is not None for turn in search.found)
        )
        return ("warning", UNREAD_SCRIPT) if unread else None
    # The reason begins with a fixed text, followed by the cause of the failure.
    if reason.startswith(DATABASE_COPY):
        cause = reason.removeprefix(DATABASE_COPY)
        return "error", f"The vector store did not answer. {DATABASE_COPY}{_escaped(cause)}"
    if reason.startswith(KEYWORD_ONLY):
        cause = reason.removeprefix(KEYWORD_ONLY)
        return (
            "warning",
            "No embedding model: keyword search only. Questions in other words will miss." + _escaped(cause),
        )
    return "error", plain(reason)


def _escaped(cause: str) -> str:
    return f" {plain(cause)}" if cause.strip() else ""


def missed(turns: Sequence[RankedTurn], words: str, search: Search, *, unit: str = TURN) -> str:
    """Return how many stored units contain the sought words, and the rank and outcome of the best-ranked of them."""
    # Only the beginning is quoted: somebody may have pasted a whole message.
    quoted = f"“{plain(words.strip()[:60])}”"
    if not turns:
        return f"No stored {unit} says {quoted}."
    best = turns[0]
    of = stored(search.stored or len(search.found), unit)
    many = f"{tokens(len(turns))} of {of} {'says' if len(turns) == 1 else 'say'} {quoted}."
    # Without weights nothing was ranked, so none is the nearest.
    if search.weights is None:
        return many
    result = f"{{score}}: **{SEARCH[best.outcome].phrase}**"
    which = f"The nearest, {from_turn(unit, best.turn, 'a')},"
    if len(turns) == 1:
        which = capitalised(from_turn(unit, best.turn, "the"))
    return f"{many} {which} is {place(best)} with {_numbers(search, best).filled(result)}."


def changed_sentence(before: Search, after: Search, *, first: int | None = None, unit: str = TURN) -> str:
    """Turns whose outcome changes under other settings: `turn 4 is granted, turn 9 is cut`.

    `first`: number of a stored turn that is named before the others; `unit`: noun for a stored unit.
    """
    # The sort is stable: only the named turn moves to the front.
    pairs = sorted(compared(before, after), key=lambda pair: pair[0].number != first)
    # Turns that enter or leave the prompt come first; changes among those left out are omitted.
    telling = [(one, other) for one, other in pairs if one.outcome in ASKED or other.outcome in ASKED]
    named = [f"{from_turn(unit, other.turn, 'a')} is {_becomes(other, after)}" for _, other in telling[:NAMED]]
    if len(telling) > NAMED:
        named.append(f"{tokens(len(telling) - NAMED)} more change")
    return ", ".join(named) or "nothing changes for this question"


def _becomes(turn: RankedTurn, search: Search) -> str:
    return _numbers(search, turn).filled(SEARCH[turn.outcome].phrase)


def change_label(changes: dict[str, Any]) -> str:
    """Button label for a change of settings: `Lower the threshold to 0.27`."""
    parts = []
    if "similarity_threshold" in changes:
        parts.append(f"lower the threshold to {score(changes['similarity_threshold'])}")
    if "similarity_top_k" in changes:
        parts.append(f"raise the results to {tokens(changes['similarity_top_k'])}")
    return capitalised(" and ".join(parts))


def limit_to_keep(search: Search, number: int) -> int | None:
    """Token limit under which a cut turn would stay in the prompt, while those cut before it may still be cut."""
    turn = search.one(number)
    if turn is None or search.context is None:
        return None
    plan = search.context.plan
    # Those with lower scores are cut before it, and may stay cut.
    sooner = sum(other.tokens for other in search.found.only("cut") if other.rank > turn.rank)
    # Above the present limit in any case: under that limit the turn was cut.
    return max(plan.token_limit + 1, plan.asked - sooner)


def in_prompt(context: Context, number: int) -> bool:
    """Tell whether a stored turn is in a prompt."""
    return any(piece.ref == Ref.of("unit", number) for part in context.plan.granted for piece in part.pieces)


def question_rows(questions: Sequence[FoundBy], words: Mapping[str, str]) -> list[dict[str, Any]]:
    """The questions that found a stored turn, as table rows; `words` by the questions' hashes."""
    return [
        {
            "Turn": one.turn or None,
            "Question": _cell(words.get(one.query, "")),
            "Place": place_of(one.rank) if one.rank is not None else "",
            "Score": one.score,
            "Outcome": SEARCH[one.outcome].label(),
        }
        for one in questions
    ]


# -- the passage that matches a question -----------------------------------------------------------

REACH = 90
"""Characters within which matching words count as one passage."""

BEFORE = 28
"""Characters kept before the first matching word of an excerpt."""

_WORD = re.compile(r"\w+(?:['’]\w+)*")


def matches(text: str, query: str, sought: str = "") -> list[Span]:
    """The matching words of the best passage in `text`, in order.

    If `text` contains `sought` literally, that is the passage. Otherwise it is the passage with the most different
    words of `sought`, or of the question, by stem and without stop words; of several, the first.
    """
    # Words may be separated by other white space in the text, such as a line break.
    exact = re.search(r"\s+".join(re.escape(word) for word in sought.split()), text, re.IGNORECASE) if sought else None
    # Sought words of only spaces make an empty pattern, which is found at the very start.
    if exact is not None and exact.end() > exact.start():
        return [exact.span()]
    # Words that were sought matter more than those of the question.
    return _best(text, sought) or _best(text, query)


def _best(text: str, query: str) -> list[Span]:
    wanted = set(stems(query, stop=True))
    if not wanted:
        return []
    matches = [(match.span(), shared) for match in _WORD.finditer(text) if (shared := wanted & _stems(match.group()))]
    best: list[Span] = []
    most = 0
    for place, ((start, _), _) in enumerate(matches):
        near = [later for later in matches[place:] if later[0][1] - start <= REACH]
        different = len(set[str]().union(*(shared for _, shared in near)))
        # Only more different words win, so that the first of equal passages stays.
        if different > most:
            most, best = different, [span for span, _ in near]
    return best


# Words repeat across stored turns, so their stems are kept.
@lru_cache(maxsize=20_000)
def _stems(word: str) -> frozenset[str]:
    return frozenset(stems(word))


def excerpt(text: str, spans: list[Span], characters: int) -> str:
    """Return a line of text from shortly before the matching words on; from the beginning if they are there.

    >>> excerpt("We looked at flats in town all day. Rui stays off meat these days.", [(36, 39), (50, 54)], 40)
    '…at flats in town all day. Rui stays off…'
    """
    first = spans[0][0] if spans else 0
    start = 0
    if first > BEFORE:
        # An excerpt begins with a whole word, if a space comes before the first match.
        space = text.find(" ", first - BEFORE)
        start = space + 1 if 0 <= space < first else first
    line = " ".join(text[start:].split())
    return f"{'…' if start else ''}{short(line, characters)}"


# -- the composition of a score --------------------------------------------------------------------


PLACES = 2
"""Decimal places of scores on screen."""


@dataclass(frozen=True, slots=True)
class Signal:
    """A component of the score that a switch enables or disables."""

    label: str
    means: str
    """Meaning of the component, in one sentence."""
    setting: str
    """Name of the block's setting for the component's weight."""
    usual: float
    """Weight used when the component is enabled and the block's own weight is 0."""
    brief: str = ""
    """Explanation shown for a stored turn that the component boosts."""


SEARCHES: Mapping[str, Signal] = {
    "vector": Signal("Vector search", "Nearness in meaning.", "vector_weight", VECTOR_WEIGHT),
    "keyword": Signal("Keyword search", "Shared words, rare ones most.", "keyword_weight", KEYWORD_WEIGHT),
}
_USUAL = BoostWeights()
ADDED: Mapping[str, Signal] = {
    term: Signal(label, means, BOOST_FIELDS[term], getattr(_USUAL, term), brief)
    for term, label, brief, means in (
        (
            "neighbours",
            "Neighbours",
            "Messages around it match too.",
            "Messages just before and after it match too, and add part of their score.",
        ),
        (
            "episode",
            "Same session",
            "Others of the same session match too.",
            "The best matches of the same episode, without a long pause, add part of their score.",
        ),
        (
            "speaker",
            "Speaker",
            "Said by the person the question is about.",
            "It was said by the person the question is about; otherwise, people score before assistants.",
        ),
        (
            "date",
            "Date",
            "Said on a date that the question names.",
            "It was said on a date that the question names, or near it.",
        ),
        (
            "informativeness",
            "Informative",
            "Informative by itself.",
            "It is informative by itself: many words, people about themselves, no questions.",
        ),
        (
            "length",
            "Length",
            "Longer than 100 tokens.",
            "Long texts score less: a deduction for each doubling beyond 100 tokens.",
        ),
    )
}
SIGNALS: Mapping[str, Signal] = {**SEARCHES, **ADDED}


def boosts_shown(search: Search) -> tuple[str, ...]:
    """The enabled terms that change the score of at least one candidate, in their order."""
    # Candidates of a search without boosts carry no terms.
    added = [one.boosts for one in search.found.candidates if one.boosts]
    return tuple(
        term
        for place, term in enumerate(BOOSTS)
        if getattr(search.settings, BOOST_FIELDS[term]) and any(boosts[place] for boosts in added)
    )


def split(turn: RankedTurn) -> tuple[float, dict[str, float]]:
    """The match and each boost, rounded to two places so that they add up to the rounded score."""
    exact = [turn.match, *(turn.boosts or (0.0,) * len(BOOSTS))]
    # Rounding the running sums instead of the parts keeps the sum of the parts shown equal to the score shown.
    sums = [round(sum(exact[: place + 1]), PLACES) for place in range(len(BOOSTS))] + [round(turn.score, PLACES)]
    # Adding 0.0 turns -0.0 into 0.0, which would be shown with a minus sign.
    parts = [round(after - before, PLACES) + 0.0 for before, after in zip([0.0, *sums], sums, strict=False)]
    return parts[0], dict(zip(BOOSTS, parts[1:], strict=True))


def match_words(turn: RankedTurn, search: Search) -> str | None:
    """The match as a weighted mean; None if its weights are unknown."""
    if search.weights is None or not sum(search.weights):
        return None
    signals = zip(("vector", "keyword"), search.weights, (turn.vector, turn.keyword), strict=True)
    total = sum(search.weights)
    # Negative similarities count as 0 in the match, so they are shown as 0.
    return " + ".join(
        f"{weight / total:.2f} × {max(0.0, value or 0.0):.2f} {name}" for name, weight, value in signals if weight
    )


def score_words(turn: RankedTurn, search: Search) -> str | None:
    """The score as a weighted mean, for turns without boosts; None if its weights are unknown."""
    match = match_words(turn, search)
    return None if match is None else f"{match} = **{turn.score:.2f}**"


def sum_rows(turn: RankedTurn, search: Search) -> list[dict[str, str]]:
    """The score as a sum: amount, label, explanation. Markdown; empty if there are no boosts."""
    match = match_words(turn, search)
    shown = boosts_shown(search) if turn.boosts else ()
    if match is None or not shown:
        return []
    own_score, added = split(turn)
    rows = [_row(f"{own_score:.2f}", "Match", match)]
    rows += [_row(_signed(added[term]), ADDED[term].label, _means(term, turn, search)) for term in shown if added[term]]
    return [*rows, _row(f"**{turn.score:.2f}**", "**Score**", "")]


def _signed(value: float) -> str:
    return f"{'−' if value < 0 else '+'}{abs(value):.2f}"


def _means(term: str, turn: RankedTurn, search: Search) -> str:
    """Explanation of a boost for this stored turn."""
    # A tenth of tolerance: the signal is 1 for a full match and clearly less for a partial one.
    whole = turn.boosts[BOOSTS.index(term)] > 0.9 * getattr(search.settings, BOOST_FIELDS[term])
    if term == "speaker" and not whole:
        return "Said by a person, not by an assistant."
    if term == "date" and not whole:
        return "Said near a date that the question names."
    return ADDED[term].brief


def _row(amount: str, what: str, means: str) -> dict[str, str]:
    return {"amount": amount, "what": what, "means": f":small[:gray[{means}]]" if means else ""}


def nothing_from(turn: RankedTurn, search: Search) -> list[str]:
    """The enabled terms that add nothing to this turn."""
    if not turn.boosts or not boosts_shown(search):
        return []
    added = split(turn)[1]
    # Judged by the rounded amounts: a boost that is shown as 0.00 adds nothing to what is seen.
    return [term for term in BOOSTS if getattr(search.settings, BOOST_FIELDS[term]) and not added[term]]


def term_columns(turns: Sequence[RankedTurn], search: Search) -> list[dict[str, Any]]:
    """For each turn, its match and each shown boost, by column title."""
    shown = boosts_shown(search)
    rows: list[dict[str, Any]] = []
    for one in turns:
        match, added = split(one)
        values: dict[str, Any] = {ADDED[term].label: added[term] if one.boosts else None for term in shown}
        rows.append({"Match": match, **values})
    return rows
