"""The settings drawer: what can be changed in place, and what the change would do to the next prompt."""

from typing import Any

import streamlit as st

from memory_core import Context, Memory, MemoryInspectorError, lint
from ui import state
from ui.components import closing_button, error_inside
from ui.services import engine
from ui.text import plain, tokens

_ORDERS = {"largest_first": "Largest priority number", "smallest_first": "Smallest priority number"}
_COUNTING = {"content": "Content", "billed": "Billed", "reference": "As LlamaIndex does"}
_INSERT = {"system": "System message", "user": "User message"}


@st.dialog("Settings", width=440, position="right", icon=":material/tune:", on_dismiss="rerun")
@error_inside
def settings_dialog(session_id: str) -> None:
    """Change limits and counting of a session, applied from the next turn. Priorities are the Blocks page's."""
    memory = engine().open(session_id)
    config = memory.config
    left, right = st.columns(2)
    limit = left.number_input(
        "Token limit",
        min_value=1,
        value=config.token_limit,
        step=100,
        help="`token_limit`: queue and blocks together must fit in this many tokens.",
    )
    share = right.number_input(
        "History share, %",
        min_value=1,
        max_value=100,
        value=round(config.chat_history_token_ratio * 100),
        help="`chat_history_token_ratio`: when the queue grows above this share of the limit, the oldest leave.",
    )
    flush_size = left.number_input(
        "Flush size",
        min_value=1,
        max_value=int(limit),
        value=min(config.flush_size, int(limit)),
        help="`token_flush_size`: a flush moves at least this many tokens.",
    )
    order = right.selectbox(
        "Cut first",
        list(_ORDERS),
        index=list(_ORDERS).index(config.truncation_order),
        format_func=lambda value: _ORDERS[value],
        help="`truncation_order`: which priority is cut first. 0 is never cut.",
    )
    insert = st.segmented_control(
        "Insert memory into",
        list(_INSERT),
        default=str(config.insert_method),
        format_func=lambda value: _INSERT[value],
        required=True,
        help="`insert_method`",
    )
    counting = st.segmented_control(
        "Count with",
        list(_COUNTING),
        default=config.accounting,
        format_func=lambda value: _COUNTING[value],
        required=True,
        help="`accounting`: billed adds markup and what an endpoint adds per message.",
    )
    changes = {
        "token_limit": int(limit),
        "chat_history_token_ratio": share / 100,
        "token_flush_size": int(flush_size),
        "insert_method": insert,
        "truncation_order": order,
        "accounting": counting,
    }
    if int(flush_size) == config.flush_size and config.token_flush_size is None and limit == config.token_limit:
        del changes["token_flush_size"]  # untouched: it goes on following the limit
    if share == round(config.chat_history_token_ratio * 100):
        changes["chat_history_token_ratio"] = config.chat_history_token_ratio
    possible = _effect(memory, changes)
    closing_button(
        "Apply from the next turn",
        _apply,
        (session_id, changes),
        width="stretch",
        kind="primary",
        disabled=not possible,
    )


def _effect(memory: Memory, changes: dict[str, Any]) -> bool:
    """The next prompt now and with the changes, in one line; whether the changes are possible."""
    st.markdown("**Effect on the next prompt**")
    try:
        before = memory.build_context(record=False)
        after = memory.preview(changes)
        config = memory.config.changed(**changes)
    except MemoryInspectorError as error:
        st.error(plain(str(error)))
        return False
    queue = memory.status().queue_tokens
    st.markdown(
        f"sent {_change(before.plan.total, after.plan.total)} · cut {_change(_cut(before), _cut(after))}  \n"
        f"queue {tokens(queue)}, flushed above "
        f"{_change(int(memory.config.history_budget), int(config.history_budget))}"
    )
    if queue > config.history_budget:
        st.markdown(
            f":small[The next message flushes the queue: it is {tokens(queue - int(config.history_budget))} above.]"
        )
    for warning in lint(config):
        st.warning(plain(warning), icon=":material/warning:")
    return True


def _apply(session_id: str, changes: dict[str, Any]) -> None:
    try:
        engine().open(session_id).configure(**changes)
    except MemoryInspectorError as error:
        state.say("error", str(error))


def _cut(context: Context) -> int:
    return sum(cut.tokens for cut in context.plan.cuts)


def _change(before: int, after: int) -> str:
    return tokens(before) if before == after else f"{tokens(before)} → **{tokens(after)}**"
