"""What has no effect on the shown prompt, where it stands: struck through or greyed, the reason one hover away."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import streamlit as st

from memory_core.events import Ref
from memory_core.tracing.effects import Effect
from ui import nav
from ui.text import plain, short, tokens
from ui.theme import colour, mode

WordsOf = Callable[[Sequence[Ref]], Mapping[Ref, str]]
"""The words of what refs name, without those that were erased."""

LONGEST = 90
"""Characters of one thing in a list."""


def struck(words: str, effect: Effect | None) -> str:
    """Words as markdown: struck through where something else took their place or room, greyed where they were not sent.

    As they are where nothing is told of them, or they are in the prompt.
    """
    if effect is None or effect.shown:
        return plain(words)
    return f":gray[~~{plain(words)}~~]" if effect.overruled else f":gray[{plain(words)}]"


def reason(effect: Effect | None) -> str:
    """Why it is not in the shown prompt, as a trace says it; empty where it is, or nothing is told. Plain text."""
    return "" if effect is None or effect.shown else effect.stage.text


def draw_without(effects: Sequence[Effect], words: WordsOf, *, most: int) -> None:
    """A line for each of these, at most so many: its reason as a tooltip, its trace as a link.

    What was erased since has no words, and no line.
    """
    said = words([effect.ref for effect in effects[:most]])
    for effect in effects[:most]:
        if effect.ref in said:
            line = short(" ".join(said[effect.ref].split()), LONGEST)
            nav.follow_link(effect.ref, f":small[{struck(line, effect)}]", help=plain(reason(effect)))
    if len(effects) > most:
        st.markdown(f":small[:gray[and {tokens(len(effects) - most)} more]]")


def greyed(rows: Sequence[Mapping[str, Any]], places: Collection[int]) -> Any:
    """Rows for a table whose words at these places are grey. The table is a canvas, which strikes nothing through.

    For 1,000 rows pandas writes a whole page of HTML to say so, 50 ms and more. Streamlit reads no more of it than the
    rules of the cells and the words in them, and is given just these.
    """
    if not places:
        return rows
    from pandas import DataFrame  # both here, because the server answers before they are loaded
    from pandas.io.formats.style import Styler

    table = DataFrame(rows)
    cells = [f"row{row}_col{column}" for row in sorted(places) for column in range(len(table.columns))]
    styler = Styler(table)
    styler._compute = lambda: styler
    styler._translate = lambda *_, **__: {
        "cellstyle": [{"props": [("color", colour("unknown", mode()))], "selectors": cells}]
    }
    return styler
