"""Texts of messages as they are drawn: plain, whole on demand; JSON folded and in a fixed-width face.

Nothing in them is fetched or run: a reply's markdown stays text.
"""

import streamlit as st

from ui import state
from ui.text import plain, short, tokens
from ui.tool_calls import pretty_json

LONGEST_SHOWN = 4_000
LONGEST_ASIDE = 600
"""Characters of one message that are drawn at first; the second for system messages and tool results."""

LONGEST_COLOURED = 20_000
"""Characters; a browser takes seconds to colour more."""

PREVIEW_CHARACTERS = 60


def draw_text(text: str, key: str, longest: int = LONGEST_SHOWN) -> None:
    """A text as it is; `key` names it within the conversation."""
    more = len(text) - longest
    whole = more > 0 and state.whole(key)
    st.text(text if whole or more <= 0 else text[:longest])
    if more > 0:
        st.button(
            "Show less" if whole else f"Show all ({tokens(more)} more characters)",
            key=f"chat__whole_{key}",
            type="tertiary",
            icon=":material/unfold_less:" if whole else ":material/unfold_more:",
            on_click=state.show_whole,
            args=(key, not whole),
        )


def draw_data(says: str, text: str, key: str) -> bool:
    """JSON under a line with its beginning, drawn when it is opened; False where the text is none."""
    pretty = pretty_json(text)
    if pretty is None:
        return False
    begins = plain(short(" ".join(text.split()), PREVIEW_CHARACTERS))
    box = st.expander(f":small[{says}: {begins}]", key=f"chat__data_{key}", on_change="rerun", type="compact")
    if box.open:
        box.code(pretty, language="json" if len(pretty) <= LONGEST_COLOURED else None, wrap_lines=True)
    return True
