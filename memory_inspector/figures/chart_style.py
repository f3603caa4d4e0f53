"""Common settings of all figures: fonts, colours, no decoration. Pure: pages build the figures themselves."""

from typing import Any

# Plotly uses the pandas in sys.modules, which may be half imported if another thread is just loading it.
import pandas  # noqa: F401
import plotly.graph_objects as go

from memory_inspector.palette import PALETTES, Mode, colour
from memory_inspector.wording.formatting import plain, short

CONFIG: dict[str, Any] = {"displayModeBar": False, "scrollZoom": False, "doubleClick": False, "showTips": False}
"""Configuration for `st.plotly_chart(config=)`: no buttons over the figure, no zooming, no tips."""

FONT = "Inter, sans-serif"

BETWEEN = "\N{EM SPACE}"
"""Separator of legend entries: Markdown collapses several spaces into one."""


def blank(mode: Mode, height: int) -> go.Figure:
    """An empty figure in the theme's fonts and colours: transparent, without legend, zoom or grid.

    `height` in pixels. Titles, axes and legends use text colours; block colours are reserved for data.
    """
    palette = PALETTES[mode]
    axis = {
        "fixedrange": True,
        "showgrid": False,
        "zeroline": False,
        "color": palette.unknown,
        "linecolor": palette.free,
        "ticks": "",
    }
    return go.Figure(
        layout={
            "height": height,
            "margin": {"l": 8, "r": 8, "t": 8, "b": 8},
            "font": {"family": FONT, "size": 12, "color": palette.text},
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "showlegend": False,
            "dragmode": False,
            "hovermode": "closest",
            "hoverlabel": {
                "bgcolor": palette.page,
                "bordercolor": palette.unknown,
                "font": {"family": FONT, "color": palette.text},
            },
            # The decimal point, then the separator of thousands, as in the texts of the pages.
            "separators": ".,",
            "xaxis": axis,
            "yaxis": axis,
            "template": None,
        }
    )


def hatch(mode: Mode, meaning: str = "cut") -> dict[str, Any]:
    """Hatching (`marker.pattern`) of lost or, with `"unknown"`, unknown data: a second sign beside colour."""
    return {"shape": "/", "size": 5, "solidity": 0.35, "fgcolor": colour(meaning, mode), "bgcolor": "rgba(0,0,0,0)"}


def shown(words: str, most: int = 60) -> str:
    """Text for a figure's label or hover text, shortened, with markup characters escaped."""
    line = short(" ".join(words.split()), most)
    # Plotly renders a subset of HTML, and LaTeX between dollar signs: both would change a user's words.
    return line.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("$", "&#36;")


def legend_entry(name: str, paint: str) -> str:
    """A coloured square and its label, as Markdown; several wrap on a phone, where Plotly's legend would scroll."""
    label = plain(name).replace(" ", "\N{NO-BREAK SPACE}")
    return f':color[■]{{foreground="{paint}"}}\N{NO-BREAK SPACE}{label}'
