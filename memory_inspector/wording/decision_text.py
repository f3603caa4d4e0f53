"""Words for a decision about a found fact: what was decided, by whom, by which rule, compared with what. Pure.

The sentences of the timeline, a fact's history and the list of decisions use these words.
"""

from collections.abc import Mapping

from memory_core.events import FactDecided
from memory_inspector.wording.formatting import count, short

RULES: Mapping[str, str] = {
    "new": "no known fact relates to it",
    "same": "the same in other words",
    "less": "the known fact already says it",
    "more": "it says the same and more",
    "negation": "it says that the known fact no longer holds",
    "opposite": "it says the opposite",
    "same_slot": "another value of the same attribute",
    "other_number": "the same with another number",
    "preference": "a changed preference",
    "protected": "a fact that a person wrote, confirmed or pinned is not changed",
    "pinned": "a pinned fact is not changed",  # In logs written before `protected`.
    "repeated": "it was found twice at once",
    "earlier": "the known fact was said later",
    "approval": "changes need approval",
    "model": "the model's own answer",
}
"""Rules of a decision in words; a rule without an entry is shown by its name."""

NOTHING_KNOWN = "no fact to compare with"

DECISIONS: Mapping[str, str] = {"add": "Added", "update": "Updated", "delete": "Deleted", "none": "Nothing new"}
"""Labels of decisions."""


def decided_by(event: FactDecided) -> str:
    """Decider and rule: `by rules: it says the opposite`, `by gpt-4o-mini`."""
    # A model gives no rule: its name says who decided.
    if event.rule == "model":
        return f"by {short(event.decider, 40)}"
    who = "rules" if "rules" in event.decider else short(event.decider, 40)
    return f"by {who}: {rule_words(event.rule)}"


def rule_words(rule: str) -> str:
    return RULES.get(rule, rule.replace("_", " "))


def compared(event: FactDecided) -> str:
    """The comparison in words: `compared with 3 facts, nearest 0.82`, or a note that no fact was known."""
    if not event.candidates:
        return NOTHING_KNOWN
    return f"compared with {count(len(event.candidates), 'fact')}, nearest {event.candidates[0][1]:.2f}"


def scores(event: FactDecided) -> str:
    """All similarities: `compared with 3: 0.82, 0.41, 0.40`."""
    if not event.candidates:
        return NOTHING_KNOWN
    listed = ", ".join(f"{score:.2f}" for _, score in event.candidates)
    return f"compared with {len(event.candidates)}: {listed}"
