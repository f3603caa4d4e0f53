"""Somebody's words on screen, whole on demand: the beginning of a long text, and JSON folded, in a fixed-width face."""

import json

import streamlit as st

from ui.text import count, plain, short

NAME_CHARACTERS = 60


def draw_text(text: str, *, most: int, key: str) -> None:
    """A text as it is; of one longer than `most` characters the beginning, and the rest once it is asked for."""
    st.text(text[:most])
    if len(text) > most:
        rest = st.expander(
            f"Show all ({count(len(text) - most, 'more character')})", key=key, on_change="rerun", type="compact"
        )
        if rest.open:
            rest.text(text[most:])


def draw_json(title: str, text: str, *, key: str) -> None:
    """JSON behind a line that says what it is, indented; it can be copied. `title` is plain text."""
    folded = st.expander(
        f":material/data_object: {plain(short(title, NAME_CHARACTERS))} :small[:gray[{count(len(text), 'character')}]]",
        key=key,
        on_change="rerun",
        type="compact",
    )
    if folded.open:
        folded.code(indented(text) or text, language="json", wrap_lines=True)


def indented(text: str) -> str | None:
    """JSON with its lines indented; None where the text is no JSON object or list.

    >>> print(indented('{"seats": 2}'))
    {
      "seats": 2
    }
    """
    try:
        decoded = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return json.dumps(decoded, ensure_ascii=False, indent=2) if isinstance(decoded, dict | list) else None
