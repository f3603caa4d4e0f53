"""The settings drawer: settings that can be changed in place, and their effect on the next message."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import streamlit as st

from memory_core import ConfigError, Memory, MemoryConfig
from memory_core.text import listed
from memory_inspector.reading.recipe_rows import running_on, title_of
from memory_inspector.wording.formatting import plain, tokens
from memory_inspector.wording.settings import SETTINGS, setting_words
from memory_inspector.wording.terms import HELP
from ui.parts.components import dialog
from ui.parts.effect import flush_line, over_line, shown_when_over, size_line, unknown_line
from ui.parts.fields import NOTHING, Done, Drawer, change_settings, draw_setting, leave
from ui.tab import nav
from ui.tab.services import engine

if TYPE_CHECKING:
    from memory_inspector.lab.variants import VariantChange

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


@dialog("Settings", "tune", side=True, on_dismiss=leave)
def settings_dialog(session_id: str) -> None:
    """Change limits and counting of a session, applied from the next turn. Priorities are on the Blocks page."""
    memory = engine().open(session_id)
    # In the form in which they are stored, so that the comparison with the draft is of plain values.
    stored = memory.session.config.model_dump(mode="json")
    drawer = Drawer(
        "settings__",
        ("settings", session_id),
        {name: stored[name] for name in _FIELDS},
        shown=lambda name, value: SETTINGS[name].in_field(value),
        meant=lambda name, value: SETTINGS[name].from_field(value),
    )
    _draw_fields(drawer)
    changes = drawer.changes()
    _recipe(memory)
    possible = _effect(memory, changes, drawer)
    drawer.end(partial(_apply, session_id, drawer), changed=bool(changes), ready=bool(changes) and possible)


def _draw_fields(drawer: Drawer) -> None:
    first_column, second_column = st.columns(2)
    _draw(drawer, "token_limit", where=first_column)
    # Read back at once: the placeholder of the flush size below follows the limit that was just typed.
    limit = drawer.chosen()["token_limit"]
    _draw(drawer, "chat_history_token_ratio", where=second_column)
    first_column, second_column = st.columns(2)
    tenth = f"a tenth: {tokens(MemoryConfig(token_limit=int(limit)).flush_size)}"
    _draw(drawer, "token_flush_size", where=first_column, empty=tenth)
    _draw(drawer, "queue_turns", where=second_column)
    _draw(drawer, "reserved_tokens")
    _draw(drawer, "learning_context")
    order = st.session_state[drawer.field("truncation_order")]
    _draw(drawer, "truncation_order", help=HELP["priority" if order == "largest_first" else "priority_smallest"])
    for name in ("insert_method", "accounting"):
        setting = SETTINGS[name]
        labels = setting.choices or {}
        st.segmented_control(
            setting.title,
            list(labels),
            key=drawer.field(name),
            format_func=labels.__getitem__,
            required=True,
            help=setting.help,
            on_change=drawer.keep,
        )


def _draw(drawer: Drawer, name: str, **more: Any) -> None:
    setting = SETTINGS[name]
    needed = setting.is_number and not setting.optional
    key = drawer.field(name, needed=needed)
    more = {"empty": drawer.stays(name)} | more if needed else more
    draw_setting(setting, MemoryConfig, key, on_change=drawer.keep, **more)


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
            nav.go("blocks", turn=..., view="recipes", **({"recipe": current} if current else {}))


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
    from memory_inspector.lab.linting import findings  # with all of the lab, which the first page does without
    from memory_inspector.lab.variants import VariantChange, variant_of

    wanted = [VariantChange(name, drawer.opened[name], value) for name, value in changes.items()]
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


def _has_field(change: "VariantChange") -> bool:
    """Return whether a field of this drawer can hold exactly the new value."""
    name, value = change.setting, change.after
    # A share of 62.5 % has no field value: the button would set another one than it names.
    return name in _FIELDS and SETTINGS[name].from_field(SETTINGS[name].in_field(value)) == value


def _mend(drawer: Drawer, changes: Sequence["VariantChange"]) -> None:
    for change in changes:
        drawer.set(change.setting, SETTINGS[change.setting].in_field(change.after))


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


def _apply(session_id: str, drawer: Drawer) -> Done:
    # Read at the click: the last keystroke may be newer than the drawn drawer.
    changes = drawer.changes()
    if not changes:
        return NOTHING
    # Only changed settings are compared with what is stored, so that two people can change different ones.
    before = {name: drawer.opened[name] for name in changes}
    undo = change_settings(session_id, None, before, changes)
    sentence = listed([setting_words(name, changes[name], before[name]) for name in changes])
    return f"From the next turn: {sentence}.", undo
