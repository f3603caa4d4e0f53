"""What a change would do to the next prompt, in one sentence. Pure: two contexts in, words out.

The sentences are markdown in which block names are escaped.
"""

from memory_core import Context
from memory_core.planning.context import QUEUE
from ui.text import plain, short, tokens


def effect_sentence(before: Context, after: Context) -> str:
    """The next prompt before and after a change, and what else would be cut or fit again.

    `Next prompt: 1,178 → 1,195 tokens, 22 → 5 free. Earlier turns would lose 61 more.`
    """
    old, new = before.plan, after.plan
    if new.over_by:
        room = f"**{tokens(new.over_by)} over the limit**: {plain(new.over_because or '')} cannot be cut"
    elif old.free == new.free:
        room = f"{tokens(new.free)} free"
    else:
        room = f"{tokens(old.free)} → {tokens(new.free)} free"
    size = tokens(new.total) if old.total == new.total else f"{tokens(old.total)} → **{tokens(new.total)}**"
    more = _other_cuts(before, after)
    return f"Next prompt: {size} tokens, {room}.{' ' + more if more else ''}"


def _other_cuts(before: Context, after: Context) -> str:
    """What parts lose more or less of what they ask for."""
    lost, again = [], []
    old, new = _cuts(before), _cuts(after)
    for name in dict.fromkeys((*new, *old)):
        change = new.get(name, 0) - old.get(name, 0)
        shown = "The queue" if name == QUEUE else plain(short(name))
        if change > 0:
            lost.append(f"{shown} would lose {tokens(change)}{' more' if old.get(name) else ''}")
        elif change < 0:
            again.append(f"{shown} would get {tokens(-change)} more")
    return " ".join(f"{sentence}." for sentence in (*lost, *again)) or "Nothing more is cut."


def _cuts(context: Context) -> dict[str, int]:
    """Tokens cut by part."""
    total: dict[str, int] = {}
    for cut in context.plan.cuts:
        total[cut.part] = total.get(cut.part, 0) + cut.tokens
    return total
