"""What a change to facts does to the next prompt, in the words of this page. Pure: two contexts in, a sentence out.

`ui.effect` says the same for any change; here it is about single facts. None of it holds anybody's words but the names
of blocks, and nothing is escaped: notices and captions escape it.
"""

from collections.abc import Collection

from memory_core.engine.context import Context
from memory_core.engine.next_prompt import NextPrompt
from memory_core.events import numbers
from ui.telling.line import listed
from ui.text import count, short, tokens


def told(done: str, before: Context, after: Context, facts: Collection[int]) -> str:
    """What to say when a change is stored: `Saved. The next prompt will hold it: +14 tokens, 13 still free.`

    `facts` are those that were touched.
    """
    inside, asked = _inside(after) & set(facts), _asked(after) & set(facts)
    them = "it" if len(facts) == 1 else "them"
    if asked and inside == asked:
        holds = f"The next prompt will hold {'it' if len(asked) == 1 else 'them'}"
    elif inside:
        holds = f"The next prompt will hold {len(inside)} of {len(asked)}, the rest is cut"
    elif asked:
        return f"{done} The model will not see {them} yet: cut from the next prompt.{_others(before, after)}"
    else:
        holds = f"The next prompt will go without {them}"
    return f"{done} {holds}: {_numbers(before, after)}.{_others(before, after)}"


def foreseen(before: NextPrompt, after: NextPrompt) -> str:
    """What a change would do: `Next prompt +11 tokens, nothing more cut.`, and the flush that comes before it."""
    old, new = before.context, after.context
    change = new.plan.total - old.plan.total
    size = f"{_signed(change)} tokens" if change else "stays the same size"
    over = [f"{tokens(new.plan.over_by)} over the limit"] if new.plan.over_by else []
    said = "; ".join([*_lost(old, new), *over]) or "nothing more cut"
    if not after.flush:
        return f"Next prompt {size}, {said}."
    leave = count(len(after.flush.leave), "message")
    unknown = (
        f" What {listed([short(name) for name in after.unknown])} will learn is not in it." if after.unknown else ""
    )
    return f"Next prompt {size}, {said}. Before it {leave} are flushed.{unknown}"


def _numbers(before: Context, after: Context) -> str:
    if after.plan.over_by:
        room = f"{tokens(after.plan.over_by)} over the limit"
    elif after.plan.total > before.plan.total:
        room = f"{tokens(after.plan.free)} still free"
    else:
        room = f"{tokens(after.plan.free)} free"
    return f"{_signed(after.plan.total - before.plan.total)} tokens, {room}"


def _others(before: Context, after: Context) -> str:
    lost = _lost(before, after)
    return f" {'; '.join(lost)}." if lost else ""


def _lost(before: Context, after: Context) -> list[str]:
    """Parts that lose more than before, the queue included."""
    old, new = _cut(before), _cut(after)
    more = {name: size - old.get(name, 0) for name, size in new.items()}
    return [
        f"{'the queue' if name == 'queue' else short(name)} would lose {tokens(size)} more"
        for name, size in more.items()
        if size > 0
    ]


def _cut(context: Context) -> dict[str, int]:
    cut: dict[str, int] = {}
    for each in context.plan.cuts:
        cut[each.part] = cut.get(each.part, 0) + each.tokens
    return cut


def _inside(context: Context) -> set[int]:
    """Facts that stand in a prompt."""
    return set(numbers((piece.ref for part in context.plan.granted for piece in part.pieces), "fact"))


def _asked(context: Context) -> set[int]:
    """Facts that a prompt was asked to hold, those that were cut included."""
    return set(numbers(context.words, "fact"))


def _signed(change: int) -> str:
    return f"{'+' if change >= 0 else '−'}{tokens(abs(change))}"
