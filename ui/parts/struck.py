"""Marks for what has no effect on the shown prompt: struck through or greyed, with the reason as a tooltip."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from memory_core.events import Ref
from memory_core.tracing.effects import Effect
from memory_core.tracing.rule_words import CUTS, SEARCH
from memory_core.tracing.values import Stage
from memory_inspector.palette import colour
from memory_inspector.reading.fact_rows import PUT_AWAY, STATES
from memory_inspector.wording.formatting import plain, short, tokens
from ui.parts.components import more_line
from ui.tab import nav
from ui.tab.drawing import mode

WordsOf = Callable[[Sequence[Ref]], Mapping[Ref, str]]
"""Function that returns the text of each reference; erased ones are missing."""

DONE = {
    **{state: STATES[state] for state in PUT_AWAY},
    "merged": "Merged",
    "condensed": "Condensed",
    "ended": "Ended",
    "erased": "Deleted",
}
"""Labels of the rules that put a fact or a relation aside."""

BRIEF = {
    "proposed": "Waits for approval",
    **{code: rule.label() for code, rule in SEARCH.items()},
    **{code: rule.label for code, rule in CUTS.items()},
    "learned_later": "Learned later, {turn}",
    "not_relevant": "Beyond the {top_k} best",
    "show_none": "Searched with a tool",
    "block_off": "Block switched off",
    "block_removed": "Block not there",
    "block_failed": "Block not read",
}
"""Labels of other rules that keep facts out of a prompt; numbers are filled in from the stage."""

LONGEST = 90
"""Maximum characters of an item in a list."""


def struck(words: str, effect: Effect | None) -> str:
    """Return words as markdown: struck through if something else replaced or displaced them, grey if left out.

    Plain if their effect is not known (None), or if they are in the prompt.
    """
    if effect is None or effect.shown:
        return plain(words)
    return f":gray[~~{plain(words)}~~]" if effect.overruled else f":gray[{plain(words)}]"


def reason(effect: Effect | None) -> str:
    """Return why an item is not in the shown prompt, as plain text; empty if it is, or if that is not known (None)."""
    return "" if effect is None or effect.shown else effect.stage.text


def brief(stage: Stage) -> str:
    """Return why an item is not in the prompt, in a few words of plain text: the rule with its turn or number.

    >>> brief(Stage("kept", "lost", "Superseded in turn 31 by fact 9.", turn=31, rule="superseded"))
    'Superseded in turn 31'
    """
    turn = f"in turn {tokens(stage.turn)}" if stage.turn is not None else ""
    if stage.name == "kept" and stage.rule in DONE:
        return f"{DONE[stage.rule]} {turn}"
    # A rule without words here, one of a plug-in say, still gets a chip.
    numbers = {name: tokens(int(number)) for name, number in stage.numbers.items()}
    return BRIEF.get(stage.rule, "Not sent").format_map(numbers | {"turn": turn})


def draw_without(effects: Sequence[Effect], words: WordsOf, *, most: int) -> None:
    """Draw a line for each effect, at most `most`, with the reason as a tooltip and a link to the trace.

    Erased items are left out.
    """
    texts = words([effect.ref for effect in effects[:most]])
    # In the order of the effects; `words` answers without those that were erased.
    for effect in effects[:most]:
        if effect.ref in texts:
            line = short(" ".join(texts[effect.ref].split()), LONGEST)
            nav.follow_link(effect.ref, f":small[{struck(line, effect)}]", help=plain(reason(effect)))
    more_line(len(effects) - most)


def crossed_out(words: str) -> str:
    """Words struck through without markup, each with a stroke over it, for the cells of a table.

    >>> len(crossed_out("a flush"))
    14
    """
    return "".join(f"{letter}\N{COMBINING LONG STROKE OVERLAY}" for letter in words)


def greyed(rows: Sequence[Mapping[str, Any]], places: Collection[int], *columns: str) -> Any:
    """Return rows for a table, with the text of `columns` grey in the rows whose numbers are in `places`.

    For 1,000 rows pandas would write a whole page of HTML, in 50 ms or more. Streamlit reads only
    the style rules of its cells, so only these are made.
    """
    if not places:
        return rows
    from pandas import DataFrame  # both here, because the server answers before they are loaded
    from pandas.io.formats.style import Styler

    table = DataFrame(rows)
    numbers = [table.columns.get_loc(column) for column in columns]
    rule = {
        "props": [("color", colour("unknown", mode()))],
        "selectors": [f"row{row}_col{column}" for row in places for column in numbers],
    }
    # Streamlit calls just these two private methods of a Styler before it reads the rules of the cells.
    styler = Styler(table)
    styler._compute = lambda: styler
    styler._translate = lambda *_: {"cellstyle": [rule]}
    return styler
