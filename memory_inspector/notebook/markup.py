"""Markup that cannot hold another's: every text is escaped where it becomes part of an element."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from typing import TypeVar

from memory_inspector.palette import css_variables
from memory_inspector.wording.formatting import short

Thing = TypeVar("Thing")

MAX_CHARACTERS, MAX_ROWS = 400, 100
"""Maximum characters of a text, and maximum rows of a table and items of a list."""

_LIGHT = ":is([data-jp-theme-light=true],.vscode-light,.vscode-high-contrast-light,[theme=light],[data-theme=light])"
_DARK = ":is([data-jp-theme-light=false],.vscode-dark,.vscode-high-contrast,[theme=dark],[data-theme=dark])"
"""Marks of the theme in JupyterLab, VS Code, Colab and others; without any, the system's setting counts."""


class Html(str):
    """Markup made by `tag`, or of numbers and escaped names."""

    __slots__ = ()


def joined(*parts: str) -> Html:
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def tag(name: str, *inside: str, kind: str = "", title: str = "") -> Html:
    """Return an element of the class `mi-<kind>`, texts escaped; nothing if there is nothing inside.

    >>> tag("p", "1 < 2 ", tag("b", "yes"), kind="quiet")
    '<p class="mi-quiet">1 &lt; 2 <b>yes</b></p>'
    """
    contents = joined(*inside)
    attributes = f' class="mi-{kind}"' * bool(kind) + f' title="{escape(title)}"' * bool(title)
    return Html(f"<{name}{attributes}>{contents}</{name}>" if contents else "")


def words(text: str, name: str = "span") -> Html:
    """Return somebody's own words, which keep their line breaks and end at `MAX_CHARACTERS`."""
    return tag(name, short(text, MAX_CHARACTERS), kind="words")


def items(things: Sequence[Thing], draw: Callable[[Thing], str]) -> Html:
    """Return list items, drawn for `MAX_ROWS` things at most; the others are counted."""
    return joined(*(tag("li", draw(thing)) for thing in things[:MAX_ROWS]), _and_more(len(things)))


def table(titles: Sequence[str], things: Sequence[Thing], cells: Callable[[Thing], Iterable[str]]) -> Html:
    """Return a table with a row for each of `MAX_ROWS` things at most; the others are counted."""
    rows = (_row("td", cells(thing)) for thing in things[:MAX_ROWS])
    body = joined(tag("thead", _row("th", titles)), tag("tbody", *rows))
    return joined(tag("table", body, kind="table"), _and_more(len(things)))


def _row(name: str, cells: Iterable[str]) -> Html:
    # Not by `tag`: an empty cell keeps its place.
    return tag("tr", *(Html(f"<{name}>{joined(cell)}</{name}>") for cell in cells))


def _and_more(number: int) -> Html:
    return tag("p", f"and {number - MAX_ROWS:,} more" if number > MAX_ROWS else "", kind="quiet")


def folded(title: str, *inside: str, opened: bool = False) -> Html:
    """Return a section that its reader opens and closes."""
    return joined(Html("<details open>" if opened else "<details>"), tag("summary", title), *inside, Html("</details>"))


def card(body: Html) -> str:
    """Return a whole output: the style, which applies to nothing else in the notebook, and the body."""
    # By the last two classes MathJax leaves alone what stands between dollar signs.
    return f'<style>{_style()}</style><div class="memory-inspector tex2jax_ignore mathjax_ignore">{body}</div>'


@cache
def _style() -> str:
    light, dark = (f"{css_variables(mode)}color-scheme:{mode};" for mode in ("light", "dark"))
    # A light notebook stays light on a dark system.
    in_dark = f".memory-inspector:not({_LIGHT} *){{{dark}}}"
    colours = f".memory-inspector{{{light}}}@media(prefers-color-scheme:dark){{{in_dark}}}{_DARK} {in_dark}"
    return colours + (files(__package__) / "notebook.css").read_text(encoding="utf-8")
