"""The recipe selected in this tab, by a click or by a URL."""

import streamlit as st

from memory_core.recipes import RECIPES
from ui.tab import state

RECIPE = "recipe"
"""URL parameter that names a recipe."""

_PICKED: state.ByPlace[str | None] = state.ByPlace("recipes_picked", None)
_WRITTEN = "recipes_written"
_DRAWN = "recipes_generation"


def picked(session_id: str) -> str | None:
    """Key of the selected recipe."""
    return _PICKED.at(session_id)


def pick(session_id: str, key: str | None) -> None:
    _PICKED.put(session_id, key)


def generation() -> int:
    """Counter that increases when the table must be redrawn with a selection made by a link."""
    return int(st.session_state.get(_DRAWN, 0))


def take_link(session_id: str) -> None:
    """Select the recipe that the URL requests, unless this page wrote it there itself."""
    asked = st.query_params.get(RECIPE)
    # A selection that is passed in counts for a new table only, so that the table gets another key.
    if asked in RECIPES and asked != st.session_state.get(_WRITTEN):
        pick(session_id, asked)
        st.session_state[_WRITTEN] = asked
        st.session_state[_DRAWN] = generation() + 1


def write_link(key: str | None) -> None:
    """Put the selected recipe in the URL, so that the page can be reloaded and linked to."""
    st.session_state[_WRITTEN] = key
    state.write_address(RECIPE, key)
