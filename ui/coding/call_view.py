"""The view Prompts: each call's prompt by part, from the API's own numbers, and the largest things in it."""

import streamlit as st

from memory_inspector.coding.coding_session import Branch, CodingSession
from memory_inspector.coding.context_parts import CallParts, SizedItem, model_limit, parts_over_calls, sized_items
from memory_inspector.figures.coding_figures import item_name, largest_figure, prompts_figure, prompts_legend
from memory_inspector.server.coding_sessions import OpenSession
from memory_inspector.wording.formatting import count, tokens
from ui.parts.components import chart, empty, heading, numbers_table
from ui.tab import appearance

MAX_ROWS = 100


def draw(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw the prompts of a branch."""
    if not branch.calls:
        empty("No call of a model yet.", "The file has no answer with its tokens so far.")
        return
    # Worked out once for each revision: a rerun of the page only draws.
    sizes = opened.sizes(branch)
    calls = opened.once(("parts", branch.number), lambda: parts_over_calls(branch, sizes))
    items = opened.once(("items", branch.number), lambda: sized_items(branch, sizes))
    compactions = [window.calls[0].number for window in branch.compactions if window.calls]
    chosen = _call(len(calls), compactions)
    limit = model_limit(branch.calls, session.main.about.get("limit"))
    chart(
        prompts_figure(calls, appearance.mode(), limit=limit, chosen=chosen, compactions=compactions),
        key="code__prompts",
        alt=f"Prompts of {count(len(calls), 'call')} by part, the largest with "
        f"{tokens(max(call.usage.prompt for call in branch.calls))} tokens",
    )
    st.markdown(f":small[{prompts_legend(calls, appearance.mode())}]")
    parts, largest = st.columns([2, 3], gap="large")
    with parts:
        _parts(calls[chosen - 1])
    with largest:
        _largest(items)


def _call(last: int, compactions: list[int]) -> int:
    """Draw the choice of a call; at first the fullest one before a compaction, or the last."""
    if last == 1:  # a slider needs two ends
        return 1
    # The fullest prompt is the one that a person asks about.
    first = compactions[0] - 1 if compactions and compactions[0] > 1 else last
    return int(st.slider("Call", 1, last, first, key="code__call"))


def _parts(parts: CallParts) -> None:
    usage = parts.call.usage
    heading(f"Call {tokens(parts.call.number)}", f"\n:small[:gray[{tokens(usage.prompt)} tokens, as the API counted]]")
    total = max(usage.prompt, 1)  # some endpoints report no tokens
    st.dataframe(
        [
            {"Part": part, "Tokens": size, "Share": size / total}
            for part, size in sorted(parts.parts.items(), key=lambda part: -part[1])
        ],
        hide_index=True,
        key="code__parts",
        column_config={
            "Part": st.column_config.TextColumn(help="Other: what the session's file does not hold"),
            "Tokens": st.column_config.NumberColumn(format="localized", width="small"),
            "Share": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1, width="small"),
        },
    )
    st.markdown(
        f":small[:gray[Cache: {tokens(usage.cache_read)} read, {tokens(usage.cache_write)} written, "
        f"{tokens(usage.input)} neither. Answer: {tokens(usage.output)} tokens.]]"
    )
    if parts.call.lacks_messages:
        st.markdown(":small[:gray[Put together from its records: the file does not have the whole request.]]")


def _largest(items: list[SizedItem]) -> None:
    unused = [one for one in items if one.referred is False]
    heading(
        "Largest",
        f"\n:small[:gray[Hatched: {count(len(unused), 'result')} with {tokens(sum(one.tokens for one in unused))} "
        "tokens that nothing refers to later, judged by words that only they brought]]",
    )
    chart(
        largest_figure(items, appearance.mode()),
        key="code__largest",
        alt=f"The largest of {count(len(items), 'item')}, by part",
    )
    numbers_table(lambda: [_row(one) for one in items[:MAX_ROWS]], "code__largest_table")


def _row(one: SizedItem) -> dict[str, object]:
    return {
        "Item": item_name(one),
        "Part": one.part,
        "Tokens": one.tokens,
        "Calls": one.calls,
        "Referred to": {None: "", True: "yes", False: "never"}[one.referred],
        "Line": one.item.line,
    }
