"""The tables of `recall.py`: recall by limit and category, side conditions, one line a rival."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence

from recall_data import LOCOMO
from recall_measure import Long, Result, Score

GUARD = "5"
"""LoCoMo's adversarial questions: they ask about what was not said that way, and count nowhere else."""

CATEGORIES = {"1": "1 multi-hop", "2": "2 temporal", "3": "3 open-domain", "4": "4 single-hop", "5": "5 (guard)"}

GOAL_P95_MS = 50.0
LONG_P95_MS = 100
GOAL_NAMED = 0.99
GOAL_TURNS_A_SECOND, GOAL_TURNS_A_SECOND_STATIC = 100.0, 500.0

Read = Callable[[Score, int], float | None]
"""One number of a question under a limit."""


def original(score: Score, budget: int) -> float | None:
    """Recall of the evidence as it came; nothing over the limit."""
    return score.original if score.original is None or score.tokens <= budget else 0.0


def audited(score: Score, budget: int) -> float | None:
    """Recall of the corrected evidence; nothing over the limit."""
    return score.audited if score.audited is None or score.tokens <= budget else 0.0


def supported(score: Score, budget: int) -> float | None:
    """Answer support; nothing over the limit."""
    return score.support if score.support is None or score.tokens <= budget else 0.0


def at_any_size(score: Score, budget: int) -> float | None:
    """Recall as if there were no limit for the prompt."""
    return score.original


def over(score: Score, budget: int) -> float | None:
    """Is the prompt over the limit?"""
    return float(score.tokens > budget)


def size(score: Score, budget: int) -> float | None:
    """Of the prompt, as a share of the limit."""
    return score.tokens / budget


def _all(share: float | None) -> float | None:
    """Is everything there?"""
    return None if share is None else float(share == 1)


def values(results: Iterable[Result], budget: int, read: Read, category: str | None = None) -> list[float]:
    """One number of every question of a category; None: of all but the guard's."""
    read_ones = (
        read(score, budget)
        for result in results
        for score in result.scores[str(budget)]
        if (score.category == category if category else score.category != GUARD or result.suite != LOCOMO)
    )
    return [value for value in read_ones if value is not None]


def means(results: Sequence[Result], budgets: Sequence[int], read: Read, category: str | None = None) -> list[float]:
    """The mean under each limit, in percent; nan where there is nothing to measure."""
    found = [values(results, budget, read, category) for budget in budgets]
    return [100 * statistics.fmean(several) if several else float("nan") for several in found]


def er(results: Sequence[Result], budgets: Sequence[int], read: Read, category: str | None = None) -> float:
    """The mean over the limits, in percent: ER-4 for the four of the protocol."""
    return statistics.fmean(means(results, budgets, read, category))


def print_suite(
    suite: str, results: Sequence[Result], budgets: Sequence[int], *, with_audit: bool, title: str = ""
) -> None:
    """Recall and answer support by category."""
    golds: list[tuple[str, Read]] = [(title or suite, original)]
    if with_audit and suite == LOCOMO:
        golds = [(f"{title or suite}, original gold", original), (f"{title or suite}, audited gold", audited)]
    found = {score.category for result in results for several in result.scores.values() for score in several}
    mean = "ER-4" if len(budgets) == 4 else "mean"
    for gold, read in golds:
        print(f"\n{gold}: mean evidence recall in percent (questions with all evidence)")
        print(f"{'':<28}{'asked':>7}" + "".join(f"{budget:>9,}{'':8}" for budget in budgets) + f"{mean:>9}")
        for category in (None, *sorted(found)):
            asked = len(values(results, budgets[0], read, category))
            if not asked:
                continue
            label = CATEGORIES.get(category, category) if category and suite == LOCOMO else category
            complete = means(results, budgets, lambda score, budget, read=read: _all(read(score, budget)), category)
            cells = "".join(
                f"{average:9.1f} ({whole:5.1f})"
                for average, whole in zip(means(results, budgets, read, category), complete, strict=True)
            )
            print(f"{label or 'everything':<28}{asked:>7}{cells}{er(results, budgets, read, category):9.1f}")
    answered = len(values(results, budgets[0], supported))
    if answered:
        cells = "".join(f"{value:9.1f}{'':8}" for value in means(results, budgets, supported))
        print(f"{'answer support':<28}{answered:>7}{cells}{er(results, budgets, supported):9.1f}")


def print_conditions(
    results: Sequence[Result], budgets: Sequence[int], *, identical: bool | None, static: bool = False
) -> None:
    """What must hold beside the recall, each with pass or miss.

    `identical`: whether a second run gave the same prompts; None: not tried.
    """
    times = sorted(ms for result in results for ms in result.milliseconds)
    p95 = times[int(0.95 * (len(times) - 1))] if times else float("nan")
    rate = sum(result.turns for result in results) / sum(result.seconds for result in results)
    goal = GOAL_TURNS_A_SECOND_STATIC if static else GOAL_TURNS_A_SECOND
    hits, named = sum(result.hits for result in results), sum(result.named for result in results)
    too_large = sum(
        score.tokens > budget for result in results for budget in budgets for score in result.scores[str(budget)]
    )
    rows = [
        ("prompts over their limit", f"{too_large}", too_large == 0),
        ("asking changes nothing stored", "", all(result.unchanged for result in results)),
        ("the order of questions does not matter", "", all(result.any_order for result in results)),
        ("hits whose plan names the source message", f"{named:,} of {hits:,}", named >= GOAL_NAMED * hits),
        (f"p95 of build_context under {GOAL_P95_MS:.0f} ms", f"{p95:.1f} ms", p95 < GOAL_P95_MS),
        (f"at least {goal:.0f} turns a second ingested", f"{rate:.0f}", rate >= goal),
    ]
    if identical is not None:
        rows.insert(3, ("a second run gives the same prompts", "", identical))
    print(f"\n{'side conditions':<48}{'':>18}")
    for what, value, met in rows:
        print(f"{what:<48}{value:>18}  {'pass' if met else 'miss'}")
    if times:
        print(f"{'median of build_context':<48}{f'{statistics.median(times):.1f} ms':>18}")


def print_rows(title: str, rows: Mapping[str, Sequence[Result]], budgets: Sequence[int]) -> None:
    """One line a memory: recall under each limit, answer support, and the size of the prompts.

    `size` is the mean share of the limit, `over` the share of prompts above it, `any size` the recall as if there
    were no limit.
    """
    mean = "ER-4" if len(budgets) == 4 else "mean"
    print(f"\n{title}: mean evidence recall in percent; prompts over the limit score nothing")
    head = "".join(f"{budget:>8,}" for budget in budgets)
    print(f"{'':<34}{head}{mean:>8}{'support':>9}{'size':>8}{'over':>8}{'any size':>10}")
    for name, results in rows.items():
        cells = "".join(f"{value:8.1f}" for value in means(results, budgets, original))
        print(
            f"{name:<34}{cells}{er(results, budgets, original):8.1f}{er(results, budgets, supported):9.1f}"
            f"{er(results, budgets, size):7.0f}%{er(results, budgets, over):7.0f}%"
            f"{er(results, budgets, at_any_size):10.1f}"
        )


def print_ablations(
    title: str, default: Sequence[Result], rows: Mapping[str, Sequence[Result]], budgets: Sequence[int]
) -> None:
    """One line a switched-off signal, with what it costs."""
    mean = "ER-4" if len(budgets) == 4 else "mean"
    print(f"\n{title}: mean evidence recall in percent with one setting changed")
    print(f"{'':<34}" + "".join(f"{budget:>8,}" for budget in budgets) + f"{mean:>8}{'change':>9}{'guard':>8}")
    base = er(default, budgets, original)
    for name, results in {"default": default, **rows}.items():
        cells = "".join(f"{value:8.1f}" for value in means(results, budgets, original))
        value, guard = er(results, budgets, original), er(results, budgets, original, GUARD)
        change = "" if results is default else f"{value - base:+.1f}"
        print(f"{name:<34}{cells}{value:8.1f}{change:>9}{f'{guard:.1f}' if guard == guard else '-':>8}")


def print_ranks(rows: Mapping[str, Sequence[int]]) -> None:
    """Of `memory.search` on questions in other words, by row: a rank of 0 is not found at all."""
    asked = max(len(ranks) for ranks in rows.values())
    print(f"\n{f'questions in other words, {asked} asked by memory.search':<58}{'R@1':>7}{'R@5':>7}{'MRR':>7}")
    for row, ranks in rows.items():
        first, five = (sum(0 < rank <= most for rank in ranks) / len(ranks) for most in (1, 5))
        reciprocal = sum(1 / rank for rank in ranks if rank) / len(ranks)
        print(f"{row:<58}{first:7.3f}{five:7.3f}{reciprocal:7.3f}")


def print_long(long: Long) -> None:
    """A prompt among many stored messages."""
    verdict = "pass" if long.p95 < LONG_P95_MS else "miss"
    print(
        f"\namong {long.stored:,} stored messages ({long.rate:,.0f} taken in a second, first prompt {long.first:.1f} s)"
    )
    print(f"build_context, median {long.median:.0f} ms, p95 under {LONG_P95_MS} ms: {long.p95:.0f} ms  {verdict}")
