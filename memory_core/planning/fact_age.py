"""Age of facts: which expire, and which the agent is to ask about. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core.planning.fact_merging import Fact

DAY = 86_400
"""Seconds of a day."""

ASK = "ask_if_true"
"""Key in a fact's metadata: the agent is to ask the user whether the fact still holds."""


def to_ask(metadata: Mapping[str, Any]) -> bool:
    """Return whether the agent is to ask about a fact with this metadata."""
    return metadata.get(ASK) is True


def without_ask(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata without the mark to ask, as for a fact that was confirmed or changed."""
    return {key: value for key, value in metadata.items() if key != ASK}


def prompt_words(text: str, metadata: Mapping[str, Any]) -> str:
    """Return a fact's text as a prompt shows it, with a note if the agent is to ask about the fact.

    >>> prompt_words("The user lives in Porto", {"ask_if_true": True})
    'The user lives in Porto (ask if this is still true)'
    """
    return f"{text} (ask if this is still true)" if to_ask(metadata) else text


@dataclass(frozen=True, slots=True)
class Expiry:
    """Rule by which facts expire."""

    days: int
    now: float
    """Time of the last known message, in seconds since 1970."""
    categories: Sequence[str] = ()
    """Categories whose facts expire; empty: all."""

    @property
    def reason(self) -> str:
        """The rule in words: `not confirmed for 90 days`."""
        return f"not confirmed for {self.days:,} {'day' if self.days == 1 else 'days'}"

    def covers(self, fact: Fact) -> bool:
        """Return whether this rule expires a fact: confirmed too long ago, not pinned, of one of the categories."""
        # A fact that the present delivery confirms has an infinite time until it is stored, so it is never old.
        old = fact.confirmed_at < self.now - self.days * DAY
        return old and not fact.pinned and (not self.categories or fact.category in self.categories)
