"""A search in words and rows: the funnel's stages, the table, explanations of outcomes. Pure; no Streamlit.

Sentences are markdown; quoted words are escaped.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from memory_core import Context
from memory_core.blocks.vector import DATABASE_COPY, KEYWORD_ONLY
from memory_core.events import Ref
from memory_core.retrieval.explain import ASKED, Search, compared
from memory_core.retrieval.found_by import FoundBy
from memory_core.retrieval.ranked import CandidateOutcome, Ranked, RankedTurn
from memory_inspector.reading.excerpt import excerpt, matches
from memory_inspector.reading.search_scores import boosts_shown, term_columns
from memory_inspector.wording.formatting import count, plain, tokens
from memory_inspector.wording.unit_names import TURN, beginning, from_turn, stored

Stage = Literal["stored", "candidates", "below", "queued", "beyond", "postprocessed", "no_room", "asked", "granted"]
"""Stage that the table can be filtered by."""

CELL_CHARACTERS = 300
"""Maximum characters of a turn's words in a table row; selecting the row shows the whole text below."""

ROWS = 200
"""Rows drawn per page."""

NAMED = 3
"""Maximum number of turns named in one sentence; the rest are counted."""

_STAGES: dict[Stage, tuple[CandidateOutcome, ...] | None] = {
    "stored": None,
    "candidates": (*ASKED, "no_room", "postprocessed", "beyond_top_k", "in_queue", "below_threshold"),
    "below": ("below_threshold",),
    "queued": ("in_queue",),
    "beyond": ("beyond_top_k",),
    "postprocessed": ("postprocessed",),
    "no_room": ("no_room",),
    "asked": ASKED,
    "granted": ("granted",),
}


def stages(search: Search) -> dict[Stage, str]:
    """The funnel: each stage with its count. A record does not state how many turns were stored."""
    counts, fitted = search.counts, search.counts["granted"]
    found: dict[Stage, str] = {}
    if search.stored is not None:
        found["stored"] = f"Stored {tokens(search.stored)}"
    found["candidates"] = f"Candidates {tokens(search.candidates)}"
    threshold = search.settings.similarity_threshold
    if threshold is not None:
        found["below"] = f"Below {score(threshold)}: {tokens(counts['below_threshold'])}"
    found["queued"] = f"In the queue: {tokens(counts['in_queue'])}"
    if counts["beyond_top_k"]:
        found["beyond"] = f"{_beyond(search)}: {tokens(counts['beyond_top_k'])}"
    if counts["postprocessed"]:
        found["postprocessed"] = f"Left out by postprocessors: {tokens(counts['postprocessed'])}"
    if counts["no_room"]:
        room = f"No room in {count(search.token_budget, 'token')}" if search.token_budget is not None else "No room"
        found["no_room"] = f"{room}: {tokens(counts['no_room'])}"
    found["asked"] = f"Recalled {tokens(search.asked)}"
    found["granted"] = f"Fit {tokens(fitted)}"
    return found


def _beyond(search: Search) -> str:
    top_k = search.settings.similarity_top_k
    return "Beyond the results" if top_k is None else f"Beyond {count(top_k, 'result')}"


def left(search: Search) -> int | None:
    """Unused tokens in the budget of a block that fills it; None if unknown."""
    part = next((p for p in search.context.plan.granted if p.name == search.block), None) if search.context else None
    return None if search.token_budget is None or part is None else max(0, search.token_budget - part.asked)


def _no_room(found: RankedTurn, search: Search) -> str:
    """Size and free space: `41 tokens, 12 left`; the rest is omitted if it seems sufficient, as it ignores markup."""
    free = left(search)
    more = f", {tokens(free)} left" if free is not None and free < found.tokens else ""
    return f"{count(found.tokens, 'token')}{more}"


def within(search: Search, stage: Stage) -> Ranked:
    """The turns of a stage, best first."""
    outcomes = _STAGES[stage]
    return search.found if outcomes is None else search.found.only(*outcomes)


def holding(search: Search, words: str) -> Ranked:
    """The turns whose text contains each of these words or word beginnings, best first."""
    return search.found.holding(words.split())


def score(value: float) -> str:
    """A score with two decimal places."""
    return f"{value:.2f}"


def apart(value: float, threshold: float) -> tuple[str, str]:
    """A score and the threshold above it, with as many decimal places as needed to tell them apart."""
    for places in range(2, 7):
        one, other = f"{value:.{places}f}", f"{threshold:.{places}f}"
        if one != other:
            break
    return one, other


def outcome(found: RankedTurn, search: Search) -> str:
    """The outcome of a turn, in a few words."""
    settings = search.settings
    words = {
        "granted": f"In the prompt, {count(found.tokens, 'token')}",
        "cut": f"Cut, {count(found.tokens, 'token')}",
        "no_prompt": "Recalled, in no prompt",
        "no_room": f"No room: {_no_room(found, search)}",
        "postprocessed": "Left out by a postprocessor",
        "beyond_top_k": f"Beyond the best {_results(search)}".strip(),
        "in_queue": "In the queue",
        "below_threshold": f"Below {score(settings.similarity_threshold or 0)}",
        "not_proposed": f"Not among the nearest {tokens(search.proposed)}" if search.proposed else "Stored",
    }
    return words[found.outcome]


def _results(search: Search) -> str:
    """Number of results requested; empty if the block fills its budget and the budget is unknown."""
    top_k = search.settings.similarity_top_k
    return "" if top_k is None else tokens(top_k)


def why(found: RankedTurn, search: Search) -> str:
    """Explanation of a turn's outcome, with the rule and the numbers."""
    settings = search.settings
    if found.outcome == "granted":
        return f"It is in the prompt, with {count(found.tokens, 'token')}."
    if found.outcome == "cut":
        return (
            f"Recalled, then cut: its {count(found.tokens, 'token')} did not fit under the token limit, "
            "and the lowest score is cut first."
        )
    if found.outcome == "no_prompt":
        return f"It was requested. {plain(search.no_prompt)}" if search.no_prompt else "It was requested, in no prompt."
    if found.outcome == "no_room":
        room = f" the {tokens(search.token_budget)} tokens there were" if search.token_budget is not None else ""
        return (
            f"It was found, but better ones filled{room or ' the room there was'}: "
            f"**no room for its {_no_room(found, search)}**."
        )
    if found.outcome == "postprocessed":
        return "It was found, and left out by a postprocessor of the agent's program."
    if found.outcome == "beyond_top_k":
        best = " ".join(["the best", _results(search)]).strip()
        return f"It passed the threshold, but only {best} are asked for, and it is {place(found)}."
    if found.outcome == "in_queue":
        return "It was found and left out: its messages are still in the queue, so the prompt has them already."
    if found.outcome == "below_threshold":
        low, threshold = apart(found.score, settings.similarity_threshold or 0)
        return f"It was found, but **{low} is below the threshold {threshold}**."
    if search.proposed:
        return f"Neither search names it among its nearest {tokens(search.proposed)}: it was never a candidate."
    return "It is stored. Ask a question to see how near it is."


def place(found: RankedTurn) -> str:
    """Rank of a turn in words: `1st`, `2nd`, `13th`."""
    return place_of(found.rank)


def place_of(rank: int) -> str:
    """A rank in words: `1st`, `2nd`, `13th`."""
    last = {1: "st", 2: "nd", 3: "rd"}
    ending = "th" if rank % 100 in (11, 12, 13) else last.get(rank % 10, "th")
    return f"{tokens(rank)}{ending}"


def rows(
    found: Sequence[RankedTurn], search: Search, *, each_term: bool = False, sought: str = ""
) -> list[dict[str, Any]]:
    """The table rows. Texts are plain cells, without markup, and begin at the passage that best matches the question.

    `each_term`: include the terms of the score. `sought`: words that should have been found.
    """
    known = search.weights is not None or search.stored is None
    shown = boosts_shown(search)
    split = term_columns(found, search) if shown else [{} for _ in found]
    return [
        {
            "Turn": each.turn if each.words else None,
            "Score": each.score if known else None,
            "Outcome": outcome(each, search),
            "Text": excerpt(each.words, matches(each.words, search.query or "", sought), CELL_CHARACTERS)
            if each.words.strip()
            else "(erased)",
            **(_scores(each, values) if each_term else {}),
        }
        for each, values in zip(found, split, strict=True)
    ]


def without_effect(found: Sequence[RankedTurn], search: Search) -> list[int]:
    """Places of the turns that are not in the prompt for this question; none before there is a question."""
    return [place for place, each in enumerate(found) if search.query and each.outcome != "granted"]


def _scores(found: RankedTurn, split: dict[str, Any]) -> dict[str, Any]:
    """The match and each boost if there are boosts, otherwise the two search scores."""
    return split or {"Vector": found.vector, "Keyword": found.keyword}


def _cell(words: str) -> str:
    line = " ".join(words.split())
    if not line:
        return "(erased)"
    return line if len(line) <= CELL_CHARACTERS else line[: CELL_CHARACTERS - 1].rstrip() + "…"


def headline(search: Search, *, past: bool = False, unit: str = TURN) -> str:
    """The result of the search in numbers; `unit`: noun for what the block stores as one."""
    counts = search.counts
    found = f"Searched **{stored(search.candidates if search.stored is None else search.stored, unit)}**"
    if not search.asked:
        return f"{found}. {_hindrance(search, unit, past=past)}."
    recalled = f"{found}: {tokens(search.asked)} {'' if past else 'would be '}recalled"
    if counts["no_prompt"]:
        return f"{recalled}, for no prompt."
    granted = f"**{tokens(counts['granted'])} {'fitted' if past else 'fit'} in the prompt**"
    cut = sum(each.tokens for each in search.found.candidates if each.outcome == "cut")
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
    if counts["below_threshold"] and counts["below_threshold"] == search.candidates:
        return f"None scored {score(search.settings.similarity_threshold or 0)} or more, {so}"
    reasons = []
    if counts["below_threshold"]:
        reasons.append(f"{tokens(counts['below_threshold'])} below the threshold")
    if counts["in_queue"]:
        reasons.append(f"{tokens(counts['in_queue'])} still in the queue")
    if counts["postprocessed"]:
        reasons.append(f"{tokens(counts['postprocessed'])} left out by a postprocessor")
    if counts["no_room"]:
        room = f" of {count(search.token_budget, 'token')}" if search.token_budget is not None else ""
        reasons.append(f"{tokens(counts['no_room'])} too long for the room{room}")
    if not reasons:
        return f"No stored {unit} has a word or a meaning in common with it, {so}"
    return f"None {'was' if past else 'would be'} recalled: {' and '.join(reasons)}"


def degraded(search: Search) -> tuple[Literal["warning", "error"], str] | None:
    """Message on what could not be searched: the consequence first, then the cause."""
    said = search.degraded
    if said is None:
        return None
    if said.startswith(DATABASE_COPY):
        cause = said.removeprefix(DATABASE_COPY)
        return "error", f"The vector store did not answer. {DATABASE_COPY}{_escaped(cause)}"
    if said.startswith(KEYWORD_ONLY):
        cause = said.removeprefix(KEYWORD_ONLY)
        return (
            "warning",
            "No embedding model: keyword search only. Questions in other words will miss." + _escaped(cause),
        )
    return "error", plain(said)


def _escaped(cause: str) -> str:
    return f" {plain(cause)}" if cause.strip() else ""


def missed(found: Sequence[RankedTurn], words: str, search: Search, *, unit: str = TURN) -> str:
    """Sentence on the stored units that contain the sought words, and on the outcome of the nearest."""
    said = f"“{plain(words.strip()[:60])}”"
    if not found:
        return f"No stored {unit} says {said}."
    best = found[0]
    of = stored(search.stored or len(search.found), unit)
    many = f"{tokens(len(found))} of {of} {'says' if len(found) == 1 else 'say'} {said}."
    if search.weights is None:
        return many
    which = f"The nearest, {from_turn(unit, best.turn, 'a')},"
    if len(found) == 1:
        which = beginning(from_turn(unit, best.turn, "the"))
    return f"{many} {which} is {place(best)} with {score(best.score)}: {_gate(best, search)}"


def _gate(found: RankedTurn, search: Search) -> str:
    settings = search.settings
    if found.outcome == "below_threshold":
        return "**{} < {}**, below the threshold.".format(*apart(found.score, settings.similarity_threshold or 0))
    return {
        "granted": "it is in the prompt.",
        "cut": "asked for, and cut by the token limit.",
        "no_prompt": "asked for, in no prompt.",
        "no_room": f"no room for its {_no_room(found, search)}.",
        "postprocessed": "left out by a postprocessor.",
        "beyond_top_k": " ".join(["beyond the best", _results(search)]).strip() + ".",
        "in_queue": "left out, because it is still in the queue.",
        "not_proposed": f"neither search names it among its nearest {tokens(search.proposed)}.",
    }[found.outcome]


def changed_sentence(before: Search, after: Search, *, first: int | None = None, unit: str = TURN) -> str:
    """Turns whose outcome changes under other settings: `turn 4 is granted, turn 9 is cut`.

    `first` is the number of a stored turn that is named before the others; `unit`: noun for what the block stores as
    one.
    """
    pairs = sorted(compared(before, after), key=lambda pair: pair[0].number != first)
    # Turns that enter or leave the prompt come first; changes among those left out are omitted.
    telling = [(one, other) for one, other in pairs if one.outcome in ASKED or other.outcome in ASKED]
    named = [f"{from_turn(unit, other.turn, 'a')} is {_becomes(other, after)}" for _, other in telling[:NAMED]]
    if len(telling) > NAMED:
        named.append(f"{tokens(len(telling) - NAMED)} more change")
    return ", ".join(named) or "nothing changes for this question"


def _becomes(found: RankedTurn, search: Search) -> str:
    return {
        "granted": "in the prompt",
        "cut": "cut",
        "no_prompt": "recalled, in no prompt",
        "no_room": "left out for lack of room",
        "postprocessed": "left out by a postprocessor",
        "beyond_top_k": "beyond the results",
        "in_queue": "in the queue",
        "below_threshold": f"below {score(search.settings.similarity_threshold or 0)}",
        "not_proposed": "no candidate any more",
    }[found.outcome]


def change_label(changes: dict[str, Any]) -> str:
    """Button label for a change of settings: `Lower the threshold to 0.27`."""
    parts = []
    if "similarity_threshold" in changes:
        parts.append(f"lower the threshold to {score(changes['similarity_threshold'])}")
    if "similarity_top_k" in changes:
        parts.append(f"raise the results to {tokens(changes['similarity_top_k'])}")
    says = " and ".join(parts)
    return says[:1].upper() + says[1:]


def limit_to_keep(search: Search, number: int) -> int | None:
    """Token limit under which a cut turn would stay in the prompt, while those cut before it may still be cut."""
    found = search.one(number)
    if found is None or search.context is None:
        return None
    plan = search.context.plan
    sooner = sum(each.tokens for each in search.found.only("cut") if each.rank > found.rank)
    return max(plan.token_limit + 1, plan.asked - sooner)


def in_prompt(context: Context, number: int) -> bool:
    """Tell whether a stored turn is in a prompt."""
    return any(piece.ref == Ref.of("unit", number) for part in context.plan.granted for piece in part.pieces)


THEN: dict[CandidateOutcome, str] = {
    "granted": "In the prompt",
    "cut": "Cut",
    "no_prompt": "Recalled, in no prompt",
    "no_room": "No room",
    "postprocessed": "Left out by a postprocessor",
    "beyond_top_k": "Beyond the results",
    "in_queue": "In the queue",
    "below_threshold": "Below the threshold",
}


def question_rows(found: Sequence[FoundBy], words: Mapping[str, str]) -> list[dict[str, Any]]:
    """The questions that found a stored turn, as table rows; `words` by the questions' hashes."""
    return [
        {
            "Turn": one.turn or None,
            "Question": _cell(words.get(one.query, "")),
            "Place": place_of(one.rank) if one.rank is not None else "",
            "Score": one.score,
            "Outcome": THEN.get(one.outcome, one.outcome),
        }
        for one in found
    ]
