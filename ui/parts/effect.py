"""Preview of a change: its effect on the next prompt and on the flush before it, in words and in a drawer.

The sentences quote only the names of blocks. They are markdown with escaped names; sentences about single facts and
relations are plain text, which notices and captions escape.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any

import streamlit as st

from memory_core import ChatMessage, ConfigError, Context, Memory, MemoryInspectorError
from memory_core.engine.next_prompt import NextPrompt
from memory_core.events import numbers
from memory_core.history.prompt import MARKUP, PART_NAMES, PINNED, RESERVED
from memory_core.messages import message_text
from memory_core.planning.context_plan import QUEUE
from memory_core.text import listed
from memory_inspector.wording.formatting import count, plain, short, tokens


def size_line(before: NextPrompt, after: NextPrompt) -> str:
    """Size of the next prompt under the change and without it, the parts whose size changes, and what is left out.

    `Next prompt: **632** of 700 tokens (so far 852 of 1,200). Earlier turns 220 → 51, queue 400 → 349.`
    """
    old, new = before.context.plan, after.context.plan
    # Total and limit belong together: the same size under another limit is a change.
    same = (old.total, old.token_limit) == (new.total, new.token_limit)
    so_far = ", as it is" if same else f" (so far {tokens(old.total)} of {tokens(old.token_limit)})"
    sentences = [f"Next prompt: **{tokens(new.total)}** of {count(new.token_limit, 'token')}{so_far}."]
    if changed := _changed_sizes(before.context, after.context):
        sentences.append(f"{', '.join(_sized(changed))}.")
    cuts = _cuts(after.context)
    # A part that shrinks stands with both sizes above: a cut beside them would be a second number for the same loss.
    lost = [f"{plain(short(part[0]))} {tokens(size)}" for part, size in cuts.items() if not _shrinks(part, changed)]
    if lost or not cuts:
        sentences.append(f"Left out: {', '.join(lost)}." if lost else "Nothing is left out.")
    return " ".join(sentences)


def flush_line(before: NextPrompt, after: NextPrompt, budget: int) -> str:
    """Return a sentence on what leaves the queue before the next prompt; `budget`: tokens above which that happens."""
    if not after.flush:
        ends = " any more" if before.flush else ""
        return f"No flush before it{ends}: queue {tokens(after.queue_tokens)}, flushes above {tokens(budget)}."
    # By message, not by size: two flushes of equal size can move different messages.
    if _leaving(before) == _leaving(after):
        return f"Before it, {_moved(after)} leave the queue, with or without the change."
    sentence = f"Before it, {_moved(after)} leave the queue: {tokens(after.queue_tokens)} is above {tokens(budget)}"
    return f"{sentence} (so far {_moved(before)})." if before.flush else f"{sentence} (so far none)."


def over_line(after: NextPrompt) -> str | None:
    """Warning that the next prompt would still be over the limit, with the reason; None if it is not."""
    plan = after.context.plan
    if not plan.over_by:
        return None
    why = plain(plan.over_because or "what is never cut")
    return f"**{tokens(plan.over_by)} over the limit of {tokens(plan.token_limit)}**: {why} cannot be cut."


def unknown_line(after: NextPrompt, *, asked: bool = False) -> str:
    """Return the caveat of a preview: the next message is unknown, and so is what blocks will learn before it.

    `asked`: the next message is the question being tried.
    """
    if asked:
        sentence = "Counted with this question as the next message."
    elif after.message:
        sentence = "Counted with the next message of the recording."
    else:
        sentence = "Your next message will be added to it."
    if after.read_elsewhere:
        names = listed([plain(short(name)) for name in after.read_elsewhere])
        sentence += f" The agent's own postprocessors may leave out parts of {names}."
    if not after.unknown:
        return sentence
    names = listed([plain(short(name)) for name in after.unknown])
    return f"{sentence} What {names} will learn before it is not known yet, and may push other parts out."


def effect_lines(before: NextPrompt, after: NextPrompt, budget: int, *, asked: bool = False) -> str:
    """Markdown: the next prompt before and after a change, the flush before it, and what cannot be predicted."""
    # The flush is described only where there is one, with the change or without it.
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

    `Next prompt: 1,178 → 1,195 tokens, 22 → 5 free. Facts 40 → 118, Earlier turns 743 → 682.`
    """
    old, new = before.plan, after.plan
    # Above the limit there is no free room to compare.
    if new.over_by:
        room = f"**{tokens(new.over_by)} over the limit**: {plain(new.over_because or '')} cannot be cut"
    elif old.free == new.free:
        room = f"{tokens(new.free)} free"
    else:
        room = f"{tokens(old.free)} → {tokens(new.free)} free"
    size = tokens(new.total) if old.total == new.total else f"{tokens(old.total)} → **{tokens(new.total)}**"
    changed = _changed_sizes(before, after)
    sentences = [", ".join(_sized(changed)), *_unseen_cuts(before, after)]
    if not _more_cut(before, after):
        sentences.append("Nothing more is cut")
    return " ".join(f"{sentence}." for sentence in (f"Next prompt: {size} tokens, {room}", *sentences) if sentence)


_Part = tuple[str, bool]
"""Name of a part, and whether it is a block, which may have the name of a part that is none."""


def _sizes(context: Context) -> Counter[_Part]:
    """Tokens of the prompt by part; they add up to its size."""
    plan = context.plan
    beside = {QUEUE: plan.queue_granted, PINNED: plan.pinned_tokens, RESERVED: plan.reserved_tokens}
    sizes: Counter[_Part] = Counter({(PART_NAMES[kind], False): size for kind, size in beside.items()})
    for part in plan.granted:
        sizes[part.name, True] += part.granted
    sizes[MARKUP, False] = plan.total - sizes.total()
    return sizes


def _changed_sizes(before: Context, after: Context) -> dict[_Part, tuple[int, int]]:
    """Return the sizes of parts that change, the largest change first; together they change the prompt by as much."""
    old, new = _sizes(before), _sizes(after)
    changed = [part for part in old | new if old[part] != new[part]]
    return {part: (old[part], new[part]) for part in sorted(changed, key=lambda part: -abs(new[part] - old[part]))}


def _sized(changed: Mapping[_Part, tuple[int, int]], shown: Callable[[str], str] = plain) -> list[str]:
    """Return parts with their sizes: `Earlier turns 743 → 0`, in which no line breaks at the arrow."""
    arrow = "\N{NO-BREAK SPACE}→\N{NO-BREAK SPACE}"
    return [f"{shown(short(name))} {tokens(old)}{arrow}{tokens(new)}" for (name, _), (old, new) in changed.items()]


def _more_cut(before: Context, after: Context) -> dict[_Part, int]:
    """Return how many tokens more each part loses of what it asks for."""
    old, new = _cuts(before), _cuts(after)
    return {part: new[part] - old[part] for part in new if new[part] > old[part]}


def _unseen_cuts(before: Context, after: Context, shown: Callable[[str], str] = plain) -> list[str]:
    """Sentences on parts that lose more although they do not shrink: they ask for more than there is room for."""
    changed = _changed_sizes(before, after)
    return [
        f"{shown(short(name))} would lose {tokens(size)} more"
        for (name, block), size in _more_cut(before, after).items()
        if not _shrinks((name, block), changed)
    ]


def _shrinks(part: _Part, changed: Mapping[_Part, tuple[int, int]]) -> bool:
    return part in changed and changed[part][0] > changed[part][1]


def _cuts(context: Context) -> Counter[_Part]:
    """Tokens cut, by part."""
    # One part can be cut by several rules: their tokens are added up.
    total: Counter[_Part] = Counter()
    for cut in context.plan.cuts:
        total[(PART_NAMES[QUEUE], False) if cut.part == QUEUE else (cut.part, True)] += cut.tokens
    return total


# -- single facts and relations: plain text --------------------------------------------------------


def describe(done: str, before: Context, after: Context, facts: Collection[int]) -> str:
    """Return the sentence for a stored change: `Saved. The next prompt will hold it: +14 tokens, 13 still free.`

    `facts`: ids of the facts that were changed.
    """
    # 1. Facts that the next prompt asks for and gets, and those that it asks for and cuts.
    inside, asked = _inside(after) & set(facts), _asked(after) & set(facts)
    them = "it" if len(facts) == 1 else "them"
    if asked and inside == asked:
        holds = f"The next prompt will hold {'it' if len(asked) == 1 else 'them'}"
    elif inside:
        holds = f"The next prompt will hold {len(inside)} of {len(asked)}, the rest is cut"
    elif asked:
        return f"{done} The model will not see {them} in the next prompt: cut by the limit.{_others(before, after)}"
    else:
        # 2. Not even asked for: retired or replaced, and gone on purpose.
        holds = f"The next prompt will go without {them}"
    return f"{done} {holds}: {_numbers(before, after)}.{_others(before, after)}"


def foreseen(before: NextPrompt, after: NextPrompt) -> str:
    """Return the effect of a change: `Next prompt +11 tokens, nothing more cut.`, and the flush before it."""
    # The words are plain text here, so that block names are escaped by whoever draws the sentence.
    old, new = before.context, after.context
    change = new.plan.total - old.plan.total
    size = _signed(change) if change else "stays the same size"
    over = [f"{tokens(new.plan.over_by)} over the limit"] if new.plan.over_by else []
    cut = [] if _more_cut(old, new) or over else ["nothing more cut"]
    sentence = "; ".join([*_lost(old, new), *over, *cut])
    sentence = f"Next prompt {size}, {sentence}.{_marked(old, new)}"
    if not after.flush:
        return sentence
    leave = count(len(after.flush.leave), "message")
    unknown = (
        f" What {listed([short(name) for name in after.unknown])} will learn is not counted." if after.unknown else ""
    )
    return f"{sentence} Before it {leave} are flushed.{unknown}"


def _marked(before: Context, after: Context) -> str:
    """Return a sentence on how many more items are marked as former values; empty for none."""
    # No text in the memory section can imitate the element, and what the queue holds is the same in both.
    old, new = (sum(message_text(m).count("<former>") for m in context.messages) for context in (before, after))
    more = count(new - old, "more item")
    return f" {more} {'is' if new - old == 1 else 'are'} marked as contradicted or former." if new > old else ""


def _numbers(before: Context, after: Context) -> str:
    if after.plan.over_by:
        room = f"{tokens(after.plan.over_by)} over the limit"
    elif after.plan.total > before.plan.total:
        room = f"{tokens(after.plan.free)} still free"
    else:
        room = f"{tokens(after.plan.free)} free"
    return f"{_signed(after.plan.total - before.plan.total)}, {room}"


def _others(before: Context, after: Context) -> str:
    lost = _lost(before, after)
    return f" {'; '.join(lost)}." if lost else ""


def _lost(before: Context, after: Context) -> list[str]:
    """Return the parts that change if they are several, and those that lose more of what they ask for."""
    changed = _changed_sizes(before, after)
    # One part alone grows as much as the prompt.
    named = len(changed) > 1 or _more_cut(before, after)
    sizes = ", ".join(_sized(changed, str)) if named else ""
    return [*filter(None, [sizes]), *_unseen_cuts(before, after, str)]


def _inside(context: Context) -> set[int]:
    """Return the ids of the facts that are in a prompt."""
    return set(numbers((piece.ref for part in context.plan.granted for piece in part.pieces), "fact"))


def _asked(context: Context) -> set[int]:
    """Return the ids of the facts that blocks requested for a prompt, including those that were cut."""
    return set(numbers(context.words, "fact"))


def _signed(change: int) -> str:
    return f"{'+' if change >= 0 else '−'}{count(abs(change), 'token')}"


def effect_of(memory: Memory, **change: Any) -> str:
    """Return the effect of a change on the next prompt; `change` as for `preview.next_prompt`.

    Raises:
        MemoryInspectorError: the change cannot be made.
    """
    # Both previews come from the same planner and state, so that their difference is the effect of this change alone.
    shown = shown_when_over(memory)
    return foreseen(memory.preview.next_prompt(shown), memory.preview.next_prompt(shown, **change))


# -- in a drawer -----------------------------------------------------------------------------------


def shown_when_over(memory: Memory) -> dict[str, Any]:
    """Return settings for a preview: a prompt over the limit is returned, even if the session would refuse it."""
    return {"when_over": "return"} if memory.session.config.when_over == "raise" else {}


def next_prompt(memory: Memory) -> NextPrompt | None:
    """Return the next prompt without a change, after the flush before it; None if it cannot be built."""
    try:
        return memory.preview.next_prompt(shown_when_over(memory))
    except MemoryInspectorError:
        return None


def draw_effect(
    memory: Memory, changes: Mapping[str, Any] | None = None, *, ask: str | None = None, **how: Any
) -> bool:
    """Draw the next prompt without and with a change (see `preview.next_prompt`); return whether it is possible.

    Both include the flush that the next message causes. `ask`: a question in place of the next message.
    """
    shown = shown_when_over(memory)
    message = ChatMessage(role="user", content=ask) if ask is not None else None
    try:
        # Both are planned the same way, so that their difference is the change alone.
        before = memory.preview.next_prompt(shown, message=message)
        after = memory.preview.next_prompt({**(changes or {}), **shown}, message=message, **how)
    except ConfigError as error:
        st.error(plain(str(error)))
        return False
    st.markdown(effect_lines(before, after, int(memory.session.config.history_budget), asked=ask is not None))
    for name, problem in after.context.failures.items():
        # A block that fails without the change as well is no effect of it.
        if name not in before.context.failures:
            st.warning(f"{plain(name)} could not be read: {plain(problem)}", icon=":material/warning:")
    return True
