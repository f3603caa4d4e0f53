"""The settings drawer: settings that can be changed in place, and their effect on the next message."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from memory_core import ConfigError, Memory, MemoryConfig
from memory_inspector.reading.recipe_rows import running_on, title_of
from memory_inspector.wording.event_sentences import setting_words
from memory_inspector.wording.event_sentences.line import listed
from memory_inspector.wording.formatting import plain, tokens
from memory_inspector.wording.terms import HELP
from ui.parts.components import error_inside, limits
from ui.parts.drafts import leave
from ui.parts.drawer import NOTHING, Done, Drawer
from ui.parts.effect import flush_line, over_line, shown_when_over, size_line, unknown_line
from ui.recipes import picked
from ui.tab.services import engine

if TYPE_CHECKING:
    from memory_core.lab.variants import Change

_ORDERS = {"largest_first": "Largest priority number", "smallest_first": "Smallest priority number"}
_COUNTING = {"content": "Content", "billed": "Billed", "reference": "As LlamaIndex does"}
_INSERT = {"system": "System message", "user": "User message"}

_FIELDS = (
    "token_limit",
    "chat_history_token_ratio",
    "token_flush_size",
    "queue_turns",
    "reserved_tokens",
    "learning_context",
    "truncation_order",
    "insert_method",
    "accounting",
)
"""The settings that can be changed here."""


@st.dialog("Settings", width=440, position="right", icon=":material/tune:", on_dismiss=leave)
@error_inside
def settings_dialog(session_id: str) -> None:
    """Change limits and counting of a session, applied from the next turn. Priorities are on the Blocks page."""
    memory = engine().open(session_id)
    # In the form in which they are stored, so that the comparison with the draft is of plain values.
    stored = memory.session.config.model_dump(mode="json")
    drawer = Drawer(
        "settings__", ("settings", session_id), {name: stored[name] for name in _FIELDS}, shown=_shown, meant=_meant
    )
    _draw_fields(drawer)
    changes = drawer.changes()
    _recipe(memory)
    possible = _effect(memory, changes, drawer)
    drawer.end(partial(_apply, session_id, drawer), changed=bool(changes), ready=bool(changes) and possible)


def _draw_fields(drawer: Drawer) -> None:
    keep = drawer.keep
    first_column, second_column = st.columns(2)
    first_column.number_input(
        "Token limit",
        **limits(MemoryConfig, "token_limit"),
        step=100,
        value=None,
        key=drawer.field("token_limit", needed=True),
        placeholder=drawer.stays("token_limit"),
        help=HELP["limit"],
        on_change=keep,
    )
    # Read back at once: the placeholder of the flush size below follows the limit that was just typed.
    limit = drawer.chosen()["token_limit"]
    second_column.number_input(
        "History share, %",
        min_value=1,
        max_value=100,
        value=None,
        key=drawer.field("chat_history_token_ratio", needed=True),
        placeholder=drawer.stays("chat_history_token_ratio"),
        help=HELP["flush_line"],
        on_change=keep,
    )
    first_column, second_column = st.columns(2)
    first_column.number_input(
        "Flush size",
        **limits(MemoryConfig, "token_flush_size"),
        value=None,
        key=drawer.field("token_flush_size"),
        placeholder=f"a tenth: {tokens(MemoryConfig(token_limit=int(limit)).flush_size)}",
        help=f"{HELP['flush_size']} Empty: a tenth of the limit.",
        on_change=keep,
    )
    second_column.number_input(
        "Turns in the queue",
        **limits(MemoryConfig, "queue_turns"),
        value=None,
        key=drawer.field("queue_turns"),
        placeholder="no limit",
        help="Maximum number of turns in the queue, however short they are (`queue_turns`). Empty: only its tokens "
        "count.",
        on_change=keep,
    )
    st.number_input(
        "System prompt and tools",
        **limits(MemoryConfig, "reserved_tokens"),
        value=None,
        key=drawer.field("reserved_tokens", needed=True),
        placeholder=drawer.stays("reserved_tokens"),
        help=HELP["reserved"],
        on_change=keep,
    )
    st.number_input(
        "Context for learning",
        **limits(MemoryConfig, "learning_context"),
        step=100,
        value=None,
        key=drawer.field("learning_context", needed=True),
        placeholder=drawer.stays("learning_context"),
        help=HELP["learning_context"],
        on_change=keep,
    )
    order = st.session_state[drawer.field("truncation_order")]
    st.selectbox(
        "Cut first",
        list(_ORDERS),
        key=drawer.field("truncation_order"),
        format_func=lambda value: _ORDERS[value],
        help=HELP["priority" if order == "largest_first" else "priority_smallest"],
        on_change=keep,
    )
    st.segmented_control(
        "Insert memory into",
        list(_INSERT),
        key=drawer.field("insert_method"),
        format_func=lambda value: _INSERT[value],
        required=True,
        help="Where the blocks are put in the prompt: into the system message, or into the newest user message "
        "(`insert_method`).",
        on_change=keep,
    )
    st.segmented_control(
        "Count with",
        list(_COUNTING),
        key=drawer.field("accounting"),
        format_func=lambda value: _COUNTING[value],
        required=True,
        help="Content counts the tokens of the texts alone; billed adds markup, and what an endpoint adds for each "
        "message (`accounting`).",
        on_change=keep,
    )


def _recipe(memory: Memory) -> None:
    """Show the session's recipe. It is switched on Blocks, where the plan of a switch is shown."""
    current, changed = running_on(memory)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(
            f"Recipe: **{plain(title_of(current, changed=changed))}**",
            help="A named set of settings and blocks: the memory design of this session. Apply does not change it.",
            width="content",
        )
        if st.button("Compare and switch", key="settings__recipe", type="tertiary", icon=":material/arrow_forward:"):
            picked.go(current)


def _effect(memory: Memory, changes: Mapping[str, Any], drawer: Drawer) -> bool:
    """Show the effect of the changes on the next message; return whether they are possible."""
    try:
        config = memory.session.config.changed(**changes)
    except ConfigError as error:
        _refused(str(error), changes, memory.session.config, drawer)
        return False
    # 1. Preview before and after by the same planner, so that their difference is the change and nothing else.
    shown = shown_when_over(memory)
    before = memory.preview.next_prompt(shown)
    after = memory.preview.next_prompt({**changes, **shown}) if changes else before
    st.markdown(
        f"{size_line(before, after)}  \n{flush_line(before, after, int(config.history_budget))}  \n"
        f":small[:gray[{unknown_line(after)}]]"
    )
    # 2. A prompt above the limit is possible, as some parts are never cut: warn, and let it be applied.
    over = over_line(after)
    if over is not None:
        st.warning(f"The next prompt would be {over}", icon=":material/warning:")
    _findings(memory, changes, drawer)
    return True


def _findings(memory: Memory, changes: Mapping[str, Any], drawer: Drawer) -> None:
    """Show the problems of the configuration, each with a button if this drawer has a field that fixes it."""
    from memory_core.lab.linting import findings  # with all of the lab, which the first page does without
    from memory_core.lab.variants import Change, variant_of

    wanted = [Change(name, drawer.opened[name], value) for name, value in changes.items()]
    variant = variant_of(memory).with_changes("changed", wanted)
    # Only changes that this drawer has a field for get a button; the others are sentences.
    for number, finding in enumerate(findings(variant, tokenizer_fn=memory.session.tokenizer_fn)):
        if finding.severity == "note":
            st.markdown(f":small[:gray[{plain(finding.sentence)}]]")
        else:
            shown = st.error if finding.severity == "error" else st.warning
            shown(plain(finding.sentence), icon=f":material/{finding.severity}:")
        if finding.changes and all(_has_field(change) for change in finding.changes):
            meant = listed([setting_words(change.setting, change.after) for change in finding.changes])
            st.button(
                f"Set {meant}",
                key=f"settings__mend_{number}",
                type="tertiary",
                icon=":material/build:",
                on_click=_mend,
                args=(drawer, finding.changes),
            )


def _has_field(change: "Change") -> bool:
    """Return whether a field of this drawer can hold exactly the new value."""
    name, value = change.setting, change.after
    # A share of 62.5 % has no field value: the button would set another one than it names.
    return name in _FIELDS and _meant(name, _shown(name, value)) == value


def _mend(drawer: Drawer, changes: Sequence["Change"]) -> None:
    for change in changes:
        drawer.set(change.setting, _shown(change.setting, change.after))


def _refused(problem: str, changes: Mapping[str, Any], config: MemoryConfig, drawer: Drawer) -> None:
    """Show why the changes are impossible; a flush size above the limit can be lowered with it by a button."""
    limit = int(changes.get("token_limit", config.token_limit))
    size = changes.get("token_flush_size", config.token_flush_size)
    # Only this conflict can be solved by one click; every other sentence of the engine is shown as it is.
    if size is None or size <= limit:
        st.error(plain(problem))
        return
    st.error(f"The flush size of {tokens(size)} is above the limit of {tokens(limit)}: lower it too, or empty it.")
    st.button(
        f"Set the flush size to {tokens(limit)}",
        key="settings__lower_flush_size",
        on_click=drawer.set,
        args=("token_flush_size", limit),
    )


def _shown(name: str, value: Any) -> Any:
    """A setting in widget form: the share in whole percent."""
    return round(value * 100) if name == "chat_history_token_ratio" else value


def _meant(name: str, value: Any) -> Any:
    return value / 100 if name == "chat_history_token_ratio" else value


def _apply(session_id: str, drawer: Drawer) -> Done:
    # Read at the click: the last keystroke may be newer than the drawn drawer.
    changes = drawer.changes()
    if not changes:
        return NOTHING
    # Only changed settings are compared with what is stored, so that two people can change different ones.
    before = {name: drawer.opened[name] for name in changes}
    engine().open(session_id).configure(opened=before, **changes)
    sentence = listed([setting_words(name, changes[name], before[name], begun=True) for name in changes])
    return f"From the next turn: {sentence}.", partial(_take_back, session_id, before, changes)


def _take_back(session_id: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    # Refused unless the changed values are still stored: a later change by somebody else is not undone.
    engine().open(session_id).configure(opened=after, **before)
