"""Words for the rules that decide what reaches a prompt: one row for each code that a log holds. Pure.

Traces, events, searches and figures read these tables, so that a rule has the same words wherever it is shown. A text
is a template: `{score}` is a number of the case, and a part in square brackets is left out if its number is unknown.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeVar

from memory_core.events import Retrieved
from memory_core.text import capitalised, count, told_apart
from memory_core.tracing.values import Verdict

Remedy = Literal["search", "room", "release"]
"""Kind of change that would help: of the search's settings, of the room in the prompt, or of the quarantine."""

_Row = TypeVar("_Row")


class _Rows(dict[str, _Row]):
    """Rows by code. Logs of other versions may hold other codes: they have the row `other`."""

    def __init__(self, rows: Mapping[str, _Row], other: _Row) -> None:
        super().__init__(rows)
        self.other = other

    def __missing__(self, code: str) -> _Row:
        return self.other


# -- searches ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SearchNumbers:
    """Numbers of a search and of one of its candidates; None where they are unknown, or not to be shown."""

    block: str = ""
    threshold: float | None = None
    top_k: int | None = None
    token_budget: int | None = None
    postprocessors: tuple[str, ...] = ()
    score: float | None = None
    rank: int | None = None
    tokens: int | None = None
    free: int | None = None
    """Unused tokens of the budget."""
    proposed: int | None = None
    """Maximum number of candidates that each of the two searches proposes."""

    @classmethod
    def recorded(cls, event: Retrieved, score: float, rank: int) -> "SearchNumbers":
        """Return the numbers of a recorded candidate."""
        return cls(event.block, event.threshold, event.top_k, event.token_budget, event.postprocessors, score, rank)

    def filled(self, template: str) -> str:
        """Fill the numbers into a template.

        >>> SearchNumbers(token_budget=300).filled("No room[ in {token_budget}][, {free} left]")
        'No room in 300 tokens'
        """
        score, threshold = self.score, self.threshold
        scores = (("score", score), ("threshold", threshold))
        values = {name: f"{value:.2f}" for name, value in scores if value is not None}
        # Rounded alike, a score just below the threshold would look equal to it.
        if score is not None and threshold is not None and score < threshold:
            values["score"], values["threshold"] = told_apart(score, threshold)
        for name, noun in (("top_k", "result"), ("token_budget", "token"), ("tokens", "token")):
            if (size := getattr(self, name)) is not None:
                values[name] = count(size, noun)
        for name in ("rank", "free", "proposed"):
            if (number := getattr(self, name)) is not None:
                values[name] = f"{number:,}"
        if self.postprocessors:
            values["postprocessors"] = ", ".join(self.postprocessors)
        shown = _OPTIONAL.sub(lambda part: part[1] if set(_NAMES.findall(part[1])) <= values.keys() else "", template)
        return shown.format_map({**_UNKNOWN, "block": self.block, **values})


_OPTIONAL, _NAMES = re.compile(r"\[([^]]*)]"), re.compile(r"{(\w+)}")

_UNKNOWN = {"threshold": "the threshold", "top_k": "results", "token_budget": "available tokens",
            "postprocessors": "a postprocessor"}  # fmt: skip
"""Words for unknown numbers outside square brackets."""

UNKNOWN = SearchNumbers()


@dataclass(frozen=True, slots=True)
class SearchRule:
    """Words for an outcome of a stored unit in a search."""

    phrase: str
    """Continues "it is", or a number of units."""
    sentence: str
    title: str = ""
    """Name of the outcome, as in a table; empty if it is the phrase."""
    phrase_of_many: str = ""
    """Phrase behind a number other than 1; empty if it is the same."""
    verdict: Verdict = "lost"
    remedy: Remedy | None = None

    def label(self, numbers: SearchNumbers = UNKNOWN) -> str:
        """Return the name of the outcome with those of its numbers that are known."""
        return capitalised(numbers.filled(self.title or self.phrase))

    def counted(self, many: int, numbers: SearchNumbers = UNKNOWN) -> str:
        """Return the phrase behind a number of units: `3 still in the queue`."""
        return f"{many:,} {numbers.filled((self.phrase_of_many if many != 1 else '') or self.phrase)}"

    def decisive(self, numbers: SearchNumbers) -> dict[str, float]:
        """Return the numbers that the sentence has, by name."""
        named = {name: getattr(numbers, name) for name in _NAMES.findall(self.sentence)}
        return {name: value for name, value in named.items() if isinstance(value, int | float)}


_FOUND = "Found by {block} with a score of {score}, and left out"

SEARCH = _Rows({
    "granted": SearchRule(
        "in the prompt", "It is in the prompt[, with {tokens}].", "In the prompt[, {tokens}]", verdict="passed"),
    "cut": SearchRule(
        "cut by the token limit",
        "Recalled, then cut: its {tokens} did not fit under the token limit, and the lowest score is cut first.",
        "Cut[, {tokens}]"),
    "no_prompt": SearchRule("recalled, in no prompt", "Recalled, in no prompt."),
    "quarantined": SearchRule(
        "in quarantine", f"{_FOUND}: it is in quarantine until you release it.", remedy="release"),
    "below_threshold": SearchRule(
        "below the threshold[ {threshold}]", "Below the threshold of {block}: {score} < {threshold}.",
        "Below {threshold}", remedy="search"),
    "in_queue": SearchRule(
        "still in the queue", f"{_FOUND}: it is still in the queue, which the prompt has anyway.",
        verdict="not_reached"),
    "replaced": SearchRule(
        "left out as a former value", f"{_FOUND}: it states a former value, which another one has replaced.",
        phrase_of_many="left out as former values"),
    "repeated": SearchRule(
        "left out as repeated", f"{_FOUND}: it repeats the question or another result, and each text takes one place.",
        verdict="not_reached"),
    "beyond_top_k": SearchRule(
        "beyond the {top_k}", "Beyond the {top_k} of {block}: it was number {rank}, with score {score}.",
        remedy="search"),
    "postprocessed": SearchRule("left out by {postprocessors}", f"{_FOUND} by {{postprocessors}}."),
    "no_room": SearchRule(
        "left out for lack of room[ in {token_budget}]",
        "No room[ for its {tokens}][, {free} left]: better results took the {token_budget} of {block}. "
        "It was number {rank}, score {score}.",
        "No room[ in {token_budget}][: {tokens}][, {free} left]", remedy="room"),
    "not_proposed": SearchRule(
        "not among the[ {proposed}] nearest",
        "Not among the[ {proposed}] nearest of either search, so it was never a candidate.", remedy="search"),
}, SearchRule("left out by an unknown rule", "Left out by a rule of {block} that is not known here."))  # fmt: skip
"""Words by `retrieval.ranked.CandidateOutcome`; events record those that are a `GateOutcome`, too."""

# -- cuts ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CutRule:
    """Words for a rule by which a prompt is cut."""

    sentence: str
    """Template with the turn, the tokens over the limit, the part, and its order: first or next."""
    removed: str
    """Clause on what was removed, behind numbers."""
    whole: str = ""
    """Reason why more was removed than needed; empty where pieces are cut."""
    label: str = "Cut, priority {priority}"
    left_out: str = ""
    """Template of what was left out, with the part and its tokens; empty where the pieces are named."""
    by_priority: bool = True
    """True if the part was chosen by its priority."""


_OVER = "the prompt was {over} over, and"
_TRIMMED = CutRule(f"Cut in turn {{turn:,}}: {_OVER} {{part}} is cut {{order}}.", "piece by piece")

CUTS = _Rows({
    "over_share": CutRule(
        f"Cut in turn {{turn:,}}: {_OVER} {{part}} asked for more than its share.",
        "above the block's share", label="Above the block's share",
        left_out="{tokens} that {part} asked for above its share were left out", by_priority=False),
    "trimmed": _TRIMMED,
    "dropped": CutRule(
        f"Cut in turn {{turn:,}}: {_OVER} {{part}} is cut {{order}}, as a whole.",
        "the whole block", "this block is cut whole", left_out="all of {part} ({tokens}) was left out"),
    "own_truncation": CutRule(
        f"Cut in turn {{turn:,}} by {{part}} itself: {_OVER} it is cut {{order}}.",
        "the block shortened itself", "the block shortens itself"),
    "oldest_turns": CutRule(
        "Cut in turn {turn:,}: the prompt was {over} over, so the queue's oldest turns were left out.",
        "oldest turns first", "turns are cut whole", "Cut with the oldest turns", by_priority=False),
}, _TRIMMED)  # fmt: skip
"""Words by `planning.context_plan.CutRule`."""

REMEDIES: Mapping[str, Remedy | None] = {
    **{code: rule.remedy for code, rule in SEARCH.items()},
    **dict.fromkeys(CUTS, "room"),
}
"""Remedy by the rule of a trace's stage."""

# -- nothing learned -----------------------------------------------------------------------------

NOTHING = _Rows({
    "question": ("the message is a question", "question{s}"),
    "assistant": ("the assistant said it", "by the assistant"),
    "not_read": ("messages of this role are not read", "of a tool or the system"),
    "repeats_memory": ("it repeats what memory itself had put into the prompt", "only repeating memory"),
    "known": ("it was known already as fact {fact}", "known already"),
    "repeated": ("another message of the delivery says the same", "repeating another one"),
    "no_rule": ("no rule matched", "that no rule matched"),
    "model_found_none": ("the model found nothing in it", "in which the model found nothing"),
    "suppressed": ("it is like fact {fact}, which was rejected or is in quarantine", "like a rejected fact"),
    "refused": ("what was found in it was invalid and was refused", "refused as invalid"),
    "quarantined": ("the message was in quarantine", "in quarantine"),
    "undated": ("it depends on a day that cannot be told exactly from the message and its time",
                "about a day that cannot be told exactly"),
    "language": ("the message is in {said}, which only a model reads", "in a language that only a model reads"),
}, ("the reason is not known here", "for an unknown reason"))  # fmt: skip
"""Reasons why nothing was learned, by `events.NothingReason`: of one message, and behind a number of messages."""

# -- flushes -------------------------------------------------------------------------------------

FLUSHES = _Rows({
    "window": "turns beyond the queue's window leave, whatever their size",
    "whole_turns": "oldest first, whole turns; the newest turn stays",
    "long_turn": "the newest turn alone is too long: its oldest steps leave",
    "no_user_message": "no user message in the queue: the oldest steps leave",
    "everything": "everything leaves",
}, "a rule that is not known here")  # fmt: skip
"""Words by `planning.flush.Rule`."""
