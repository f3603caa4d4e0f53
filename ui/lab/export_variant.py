"""Use a tried configuration in the session, or export it as a file or as Python for this engine or LlamaIndex."""

from collections.abc import Callable

import streamlit as st

from memory_core.events import BlockEdited, ConfigurationChanged
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.variants import (
    Variant,
    VariantChange,
    variant_json,
    variant_llamaindex_python,
    variant_python,
)
from memory_inspector.wording.formatting import plain
from ui.tab import nav
from ui.tab.people import allowed
from ui.tab.view import View

_PYTHON = "text/x-python"


def draw_taking(
    view: View, variant: Variant, changes: tuple[VariantChange, ...], *, recipe: str | None, apply: Callable[[], None]
) -> None:
    """Draw the buttons that use or export a tried configuration. `recipe`: the one that it begins with."""
    memory, read_only = view.memory, view.read_only
    # Whole blocks come or go with a recipe: only the switch on Blocks plans what becomes of what they hold.
    blocks = any(isinstance(value, StoredBlock) for change in changes for value in (change.before, change.after))
    if blocks:
        query = {"view": "recipes"} | ({"recipe": recipe} if recipe else {})
        nav.link("blocks", "Switch the recipe on Blocks", icon=":material/arrow_forward:", turn=..., **query)
    else:
        st.button(
            f"Use {plain(variant.name)} from the next turn",
            key="lab__use",
            type="primary",
            on_click=apply,
            **allowed(
                ConfigurationChanged,
                BlockEdited,
                disabled=not changes or read_only is not None,
                help=read_only.sentence if read_only else None if changes else "Nothing is changed yet.",
            ),
        )
    with st.popover("Export", icon=":material/download:", type="tertiary", key="lab__export"):
        files: tuple[tuple[str, Callable[[], str], str, str], ...] = (
            ("Configuration as JSON", lambda: variant_json(variant), "config.json", "application/json"),
            ("As Python", lambda: variant_python(variant, user_id=memory.session.user_id), "memory.py", _PYTHON),
            ("As Python for LlamaIndex", lambda: variant_llamaindex_python(variant), "memory.llamaindex.py", _PYTHON),
        )
        for label, text, name, mime in files:
            st.download_button(
                label, text, file_name=name, mime=mime, icon=":material/download:", type="tertiary",
                on_click="ignore", key=f"lab__{name}",
            )  # fmt: skip
