"""Cost of coding agents' sessions: as their files have it, else estimated from list prices. Pure.

US dollars per million tokens. The prices of Claude are those by which Claude Code 2.1.332 counts (2026-11-29), those of
older models and of GPT from the providers' public lists of 2026-02. Models that are not in the list have no cost.
Prompts above 200,000 tokens cost more than is estimated here.
"""

import re
from collections.abc import Mapping

from memory_inspector.coding.transcript import CallUsage, Spent

_CLAUDE = {
    (10, 1): "claude-fable-5",
    (8, 0.2): "claude-fable-5-2",
    (15, 1.5): "claude-opus-4 claude-opus-4-1",
    (5, 0.5): "claude-opus-4-5 claude-opus-4-6 claude-opus-4-7 claude-opus-4-8 claude-opus-5",
    (4, 0.2): "claude-opus-5-5",
    (3, 0.3): "claude-3-7-sonnet claude-sonnet-4 claude-sonnet-4-5 claude-sonnet-4-6",
    (2, 0.2): "claude-sonnet-5",
    (2, 0.1): "claude-sonnet-5-5",
    (1, 0.1): "claude-haiku-4-5",
    (0.8, 0.08): "claude-3-5-haiku",
}
"""Models by their prices of input and cache read; a cache write costs 1.25 times the input, output 5 times."""

PRICES: Mapping[str, tuple[float, float, float, float]] = {
    **{name: (i, read, 1.25 * i, 5 * i) for (i, read), names in _CLAUDE.items() for name in names.split()},
    "gpt-5-mini": (0.25, 0.025, 0, 2),
    "gpt-5-nano": (0.05, 0.005, 0, 0.4),
    "gpt-5": (1.25, 0.125, 0, 10),
    "gpt-5-codex": (1.25, 0.125, 0, 10),
}
"""Prices by a model's name without its date: input, cache read, cache write, output."""

_DATED = re.compile(r"(.+?)(?:[-@](?:\d{8}|\d{4}-\d\d-\d\d|latest))?(?:\[\w+\])?")
"""A model's name, with the date of its release and the size of its context window."""


def price_of(model: str) -> tuple[float, float, float, float] | None:
    """Return the prices of a model; None if they are not known: a newer model may cost more or less."""
    match = _DATED.fullmatch(model)
    return PRICES.get(match[1]) if match else None


def cost_of(usage: Mapping[str, CallUsage]) -> float | None:
    """Return the estimated cost of all calls, by model, in US dollars; None if a model's price is not known."""
    total = 0.0
    for model, used in usage.items():
        # What the program wrote down itself is no estimate.
        if used.dollars:
            total += used.dollars
            continue
        prices = price_of(model)
        if prices is None:
            return None  # a sum without one of its models would be too low
        # A write for an hour costs twice the price of input; as part of `cache_write` it has a price already.
        by_number = (*prices, 2 * prices[0] - prices[2])
        total += sum(price * tokens for price, tokens in zip(by_number, used.numbers, strict=True)) / 1e6
    # A session without a call has cost nothing, which is not what a reader would take 0 for.
    return total if usage else None


def all_spent(
    spent: Spent | None, before: Mapping[str, CallUsage], after: Mapping[str, CallUsage]
) -> tuple[dict[str, CallUsage], float | None]:
    """Return tokens by model and US dollars of a session: as its program counted, and the calls after its count.

    `before` has the calls that the count includes: more than it only where the program did not count tokens.
    """
    counted = spent.usage if spent is not None else {}
    usage = {
        model: max(counted.get(model, CallUsage()), before.get(model, CallUsage()), key=lambda used: used.tokens)
        + after.get(model, CallUsage())
        for model in {**counted, **before, **after}
    }
    if spent is None or spent.dollars is None:
        return usage, cost_of(usage)
    later = cost_of(after) if after else 0.0
    return usage, None if later is None else spent.dollars + later
