"""Message texts on screen: plain and expandable; JSON collapsed, in a fixed-width font.

Nothing in a message is fetched or run: a reply's markdown stays text.
"""

import streamlit as st

from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.tool_call_text import pretty_json
from ui.tab import state

LONGEST_SHOWN = 4_000
LONGEST_ASIDE = 600
"""Characters of a message drawn initially; `LONGEST_ASIDE` applies to system messages and tool results."""

LONGEST_COLOURED = 20_000
"""Maximum characters of highlighted JSON; a browser takes seconds to highlight more."""

PREVIEW_CHARACTERS = 60


def draw_text(text: str, key: str, longest: int = LONGEST_SHOWN) -> None:
    """Draw a text as plain text, shortened at first; `key` identifies it within the conversation."""
    more = len(text) - longest
    # The page redraws for each new event, and must not close what was opened.
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
    """Draw JSON in an expander labelled with its beginning; False if the text is not JSON."""
    pretty = pretty_json(text)
    if pretty is None:
        return False
    begins = plain(short(" ".join(text.split()), PREVIEW_CHARACTERS))
    # JSON is not formatted before somebody opens it.
    box = st.expander(f":small[{says}: {begins}]", key=f"chat__data_{key}", on_change="rerun", type="compact")
    if box.open:
        box.code(pretty, language="json" if len(pretty) <= LONGEST_COLOURED else None, wrap_lines=True)
    return True
