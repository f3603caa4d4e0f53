"""Expandable texts on screen: the beginning of a long text, and JSON collapsed, in a fixed-width font."""

import json

import streamlit as st

from memory_inspector.wording.formatting import count, plain, short

NAME_CHARACTERS = 60


def draw_text(text: str, *, most: int, key: str) -> None:
    """Draw a text literally; of one longer than `most` characters the beginning, with the rest in an expander."""
    st.text(text[:most])
    if len(text) > most:
        # The rest is sent to the browser only once it is opened: such texts can be very long.
        rest = st.expander(
            f"Show all ({count(len(text) - most, 'more character')})", key=key, on_change="rerun", type="compact"
        )
        if rest.open:
            rest.text(text[most:])


def draw_json(title: str, text: str, *, key: str) -> None:
    """Draw JSON indented in an expander with a title; it can be copied. `title` is plain text."""
    folded = st.expander(
        f":material/data_object: {plain(short(title, NAME_CHARACTERS))} :small[:gray[{count(len(text), 'character')}]]",
        key=key,
        on_change="rerun",
        type="compact",
    )
    if folded.open:
        folded.code(indented(text) or text, language="json", wrap_lines=True)


def indented(text: str) -> str | None:
    """JSON with its lines indented; None if the text is not a JSON object or list.

    >>> print(indented('{"seats": 2}'))
    {
      "seats": 2
    }
    """
    try:
        decoded = json.loads(text)
    # Nested deep enough, JSON exhausts the parser; such text is shown as it came.
    except (ValueError, RecursionError):
        return None
    # A number or a string is valid JSON too, and gains nothing from indenting.
    return json.dumps(decoded, ensure_ascii=False, indent=2) if isinstance(decoded, dict | list) else None
