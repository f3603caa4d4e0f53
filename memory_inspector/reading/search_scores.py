"""The composition of a score, in rows and words: the match of a stored turn's own words, and each boost. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.blocks.vector import BOOST_FIELDS, KEYWORD_WEIGHT, VECTOR_WEIGHT
from memory_core.planning.boosts import BOOSTS, BoostWeights
from memory_core.retrieval.explain import Search
from memory_core.retrieval.ranked import RankedTurn

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
