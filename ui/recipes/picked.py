"""Which recipe is picked in this tab, by a click or by an address."""

from typing import NoReturn

import streamlit as st

from memory_core.recipes import RECIPES
from ui import nav

RECIPE = "recipe"
"""Parameter of the address that names a recipe."""

_PICKED = "recipes_picked"
_WRITTEN = "recipes_written"
_DRAWN = "recipes_generation"


def go(key: str | None) -> NoReturn:
    """Go to the recipes, with one of them picked."""
    nav.go("blocks", turn=..., view="recipes", **({RECIPE: key} if key else {}))


def picked(session_id: str) -> str | None:
    """The key of the recipe that is picked."""
    known: dict[str, str | None] = st.session_state.get(_PICKED, {})
    return known.get(session_id)


def pick(session_id: str, key: str | None) -> None:
    known: dict[str, str | None] = st.session_state.get(_PICKED, {})
    st.session_state[_PICKED] = {**known, session_id: key}


def generation() -> int:
    """Grows when the table is to be drawn anew, with what a link picked."""
    return int(st.session_state.get(_DRAWN, 0))


def take_link(session_id: str) -> None:
    """Pick what the address asks for, when it was not this page that wrote it there."""
    asked = st.query_params.get(RECIPE)
    if asked in RECIPES and asked != st.session_state.get(_WRITTEN):
        pick(session_id, asked)
        st.session_state[_WRITTEN] = asked
        st.session_state[_DRAWN] = generation() + 1


def write_link(key: str | None) -> None:
    """Put the picked recipe in the address, so that the page can be reloaded and linked to."""
    st.session_state[_WRITTEN] = key
    if key is None:
        st.query_params.pop(RECIPE, None)
    elif st.query_params.get(RECIPE) != key:
        st.query_params[RECIPE] = key
