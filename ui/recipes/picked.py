"""Which recipe is picked in this tab, by a click or by an address."""

from typing import NoReturn

import streamlit as st

from memory_core.recipes import RECIPES
from ui import nav, state

RECIPE = "recipe"
"""Parameter of the address that names a recipe."""

_PICKED: state.ByPlace[str | None] = state.ByPlace("recipes_picked", None)
_WRITTEN = "recipes_written"
_DRAWN = "recipes_generation"


def go(key: str | None) -> NoReturn:
    """Go to the recipes, with one of them picked."""
    nav.go("blocks", turn=..., view="recipes", **({RECIPE: key} if key else {}))


def picked(session_id: str) -> str | None:
    """The key of the recipe that is picked."""
    return _PICKED.at(session_id)


def pick(session_id: str, key: str | None) -> None:
    _PICKED.put(session_id, key)


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
    state.write_address(RECIPE, key)
