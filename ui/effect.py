"""Effect of a change on the next prompt and on the flush before it. Pure: predicted prompts in, words out.

The sentences are markdown in which block names are escaped.
"""

from memory_core import Context
from memory_core.engine.next_prompt import NextPrompt
from memory_core.planning.context import QUEUE
from ui.telling.line import listed
from ui.text import count, plain, short, tokens


def size_line(before: NextPrompt, after: NextPrompt) -> str:
    """Size of the next prompt under the change and without it, and the tokens that parts would lose.

    `Next prompt: **632** of 700 tokens (so far 852 of 1,200). Left out: Facts 51, oldest messages 169.`
    """
    old, new = before.context.plan, after.context.plan
    same = (old.total, old.token_limit) == (new.total, new.token_limit)
    so_far = ", as it is" if same else f" (so far {tokens(old.total)} of {tokens(old.token_limit)})"
    cuts = _cuts(after.context)
    lost = [f"{_OLDEST if name == QUEUE else plain(short(name))} {tokens(size)}" for name, size in cuts.items()]
    left_out = f"Left out: {', '.join(lost)}." if lost else "Nothing is left out."
    return f"Next prompt: **{tokens(new.total)}** of {count(new.token_limit, 'token')}{so_far}. {left_out}"


_OLDEST = "oldest messages"


def flush_line(before: NextPrompt, after: NextPrompt, budget: int) -> str:
    """Sentence on what leaves the queue before that prompt; `budget`: tokens above which it is flushed."""
    if not after.flush:
        ends = " any more" if before.flush else ""
        return f"No flush before it{ends}: queue {tokens(after.queue_tokens)}, flushes above {tokens(budget)}."
    said = f"Before it, {_moved(after)} leave the queue: {tokens(after.queue_tokens)} is above {tokens(budget)}"
    if _leaving(before) == _leaving(after):
        return f"{said}, as without the change."
    return f"{said} (so far {_moved(before)})." if before.flush else f"{said} (so far none)."


def over_line(after: NextPrompt) -> str | None:
    """Warning that the next prompt would still be over the limit, with the reason; None if it is not."""
    plan = after.context.plan
    if not plan.over_by:
        return None
    why = plain(plan.over_because or "what is never cut")
    return f"**{tokens(plan.over_by)} over the limit of {tokens(plan.token_limit)}**: {why} cannot be cut."


def unknown_line(after: NextPrompt, *, asked: bool = False) -> str:
    """Caveat of the figures: words that are unknown yet, and what only a model could predict that blocks learn.

    `asked`: the next message is the question being tried.
    """
    if asked:
        said = "Counted with this question as the next message."
    elif after.message:
        said = "Counted with the next message of the recording."
    else:
        said = "Your next message comes on top."
    if not after.unknown:
        return said
    names = listed([plain(short(name)) for name in after.unknown])
    return f"{said} What {names} will learn before it is not known yet, and may push other parts out."


def effect_lines(before: NextPrompt, after: NextPrompt, budget: int, *, asked: bool = False) -> str:
    """Markdown: the next prompt before and after a change, the flush before it, and what cannot be predicted."""
    lines = [effect_sentence(before.context, after.context)]
    if before.flush or after.flush:
        lines.append(flush_line(before, after, budget))
    return f":small[{'  '.join(lines)}]  \n:small[:gray[{unknown_line(after, asked=asked)}]]"


def _leaving(foretold: NextPrompt) -> list[int]:
    return [message.seq for message in foretold.flush.leave]


def _moved(foretold: NextPrompt) -> str:
    plan = foretold.flush
    return f"{count(len(plan.leave), 'message')} with {count(plan.tokens, 'token')}"


def effect_sentence(before: Context, after: Context) -> str:
    """The next prompt before and after a change, and what else would be cut or would fit again.

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
    """Sentence on parts that lose more or less of what they request."""
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
