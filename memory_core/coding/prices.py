"""List prices of coding agents' models, to estimate what a session cost. Pure.

US dollars per million tokens, from the providers' public price lists of 2026-02. Models that are not in the list have
no cost. Prompts above 200,000 tokens cost more than is estimated here.
"""

from collections.abc import Mapping

from memory_core.coding.transcript import Usage

PRICES: Mapping[str, tuple[float, float, float, float]] = {
    "claude-opus-4-5": (5, 0.5, 6.25, 25),
    "claude-opus-4-6": (5, 0.5, 6.25, 25),
    "claude-opus-4": (15, 1.5, 18.75, 75),
    "claude-sonnet-4": (3, 0.3, 3.75, 15),
    "claude-3-7-sonnet": (3, 0.3, 3.75, 15),
    "claude-haiku-4": (1, 0.1, 1.25, 5),
    "claude-3-5-haiku": (0.8, 0.08, 1, 4),
    "gpt-5-mini": (0.25, 0.025, 0, 2),
    "gpt-5-nano": (0.05, 0.005, 0, 0.4),
    "gpt-5": (1.25, 0.125, 0, 10),
}
"""Prices by the beginning of a model's name: input, cache read, cache write, output."""


def cost_of(usage: Mapping[str, Usage]) -> float | None:
    """Return the estimated cost of all calls, by model, in US dollars; None if a model's price is not known."""
    total = 0.0
    for model, used in usage.items():
        # The longest name that fits: `gpt-5-mini` is no `gpt-5`.
        prices = next((PRICES[name] for name in sorted(PRICES, key=len, reverse=True) if model.startswith(name)), None)
        if prices is None:
            return None  # a sum without one of its models would be too low
        # A write for an hour costs twice the price of input; as part of `cache_write` it has a price already.
        by_number = (*prices, 2 * prices[0] - prices[2])
        total += sum(price * tokens for price, tokens in zip(by_number, used.numbers, strict=True)) / 1e6
    # A session without a call has cost nothing, which is not what a reader would take 0 for.
    return total if usage else None
