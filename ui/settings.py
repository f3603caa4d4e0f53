"""The settings drawer: what can be changed in place, and what the change would do to the next prompt."""

from typing import Any

import streamlit as st

from memory_core import Context, Memory, MemoryInspectorError, lint
from memory_core.recipes import RECIPES
from ui import state
from ui.components import closing_button, error_inside
from ui.recipes import picked
from ui.recipes.reading import plan_for, plan_lines, running_on, title_of
from ui.services import engine
from ui.stored import units
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
    # Only a field that begins empty can be emptied again, so what is set is put in by hand.
    turns_key = f"settings__turns_{session_id}_{config.queue_turns}"
    st.session_state.setdefault(turns_key, config.queue_turns)
    most_turns = left.number_input(
        "Turns in the queue",
        min_value=1,
        value=None,
        key=turns_key,
        placeholder="no limit",
        help="`queue_turns`: most turns the queue holds, however short they are. Empty: only its tokens count.",
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
        "queue_turns": None if most_turns is None else int(most_turns),
    }
    if int(flush_size) == config.flush_size and config.token_flush_size is None and limit == config.token_limit:
        del changes["token_flush_size"]  # untouched: it goes on following the limit
    if share == round(config.chat_history_token_ratio * 100):
        changes["chat_history_token_ratio"] = config.chat_history_token_ratio
    _recipe(memory)
    possible = _effect(memory, changes)
    closing_button(
        "Apply from the next turn",
        _apply,
        (session_id, changes),
        width="stretch",
        kind="primary",
        disabled=not possible,
    )


def _recipe(memory: Memory) -> None:
    """Which recipe the session runs on, and what another would keep and rebuild; it is switched on Blocks."""
    current, changed = running_on(memory)
    chosen = st.selectbox(
        "Recipe",
        list(RECIPES),
        index=list(RECIPES).index(current) if current else None,
        placeholder="None: its own settings and blocks",
        format_func=lambda key: title_of(key, changed=changed and key == current),
        help="A named set of settings and blocks: which memory system this session is.",
    )
    if chosen is None:
        return
    plan, refused = plan_for(memory, chosen)
    if refused is not None:
        st.markdown(f":small[:orange[:material/person_off: {plain(refused)}]]")
    elif plan is not None and (plan or chosen != current):
        lines = plan_lines(plan, units(memory)) or ["Settings and blocks are already so."]
        st.markdown(":small[" + "  \n".join(lines) + "]")
    switching = refused is None and bool(plan or chosen != current)
    says = "Switch on Blocks" if switching else "Compare recipes on Blocks"
    if st.button(says, key="settings__recipe", type="tertiary", icon=":material/arrow_forward:"):
        picked.go(chosen)


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
    for warning in lint(config, blocks=any(attached.kind != "static" for attached in memory.blocks)):
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
