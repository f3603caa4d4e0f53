"""The colours and their meanings, for both appearances. Streamlit's own colours are in .streamlit/config.toml.

A colour has one meaning on every page, and is never the only sign of it: a cut is also hatched, a limit is also
a solid line. The eight strong colours were chosen to be distinguishable for colour-blind users; a test verifies it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

Mode = Literal["light", "dark"]
Appearance = Mode | Literal["css"]
"""`css`: every colour is a CSS variable, for HTML that is drawn once and shown in either mode."""


@dataclass(frozen=True, slots=True)
class Palette:
    """Every colour of one appearance, as `#RRGGBB`."""

    queue: str
    static: str
    facts: str
    vector: str
    summary: str
    graph: str
    custom: str
    cut: str
    """Cut, over the limit, failed, lost; nothing else is red."""
    free: str
    line: str
    """The limit (solid), the flush line and the score threshold (dashed)."""
    unknown: str
    """Values that cannot be known without a model; also secondary text."""
    rest: str
    """The sum of the parts, and what belongs to none of them: no grey, as `custom` is one."""
    accent: str
    """Buttons and selection, never data."""
    page: str
    text: str


LIGHT = Palette(
    queue="#4E69EF",
    static="#3D22B4",
    facts="#17A383",
    vector="#D07D1F",
    summary="#7A3459",
    graph="#454D10",
    custom="#77728F",
    cut="#CB274C",
    free="#ECEEF2",
    line="#1A1D24",
    unknown="#667085",
    rest="#7A6652",
    accent="#4F46E5",
    page="#FFFFFF",
    text="#1A1D24",
)

DARK = Palette(
    queue="#609DF9",
    static="#5B50E0",
    facts="#A7F5CB",
    vector="#FFC933",
    summary="#B03E70",
    graph="#6F6D08",
    custom="#B4B7C2",
    cut="#F07173",
    free="#22262F",
    line="#E6E8EC",
    unknown="#98A2B3",
    rest="#A1957D",
    accent="#6860F0",
    page="#101217",
    text="#E6E8EC",
)

_NAMES = tuple(field.name for field in fields(Palette))

_CSS = Palette(**{name: f"var(--mi-{name})" for name in _NAMES})
PALETTES: Mapping[Appearance, Palette] = {"light": LIGHT, "dark": DARK, "css": _CSS}

BLOCK_KINDS = ("queue", "static", "facts", "vector", "summary", "graph", "custom")
"""Kinds of a part of the prompt. A user's own block class is `custom`."""

STRONG = (*BLOCK_KINDS, "cut")
"""The colours that every user must be able to tell apart, on the page and beside each other."""


def css_variables(mode: Mode) -> str:
    """Return the declarations of the variables that the appearance `css` uses, with the ink on each kind of block."""
    inks = {f"on-{kind}": ink_on(colour(kind, mode)) for kind in BLOCK_KINDS}
    values = {name: colour(name, mode) for name in _NAMES} | inks
    return "".join(f"--mi-{name}:{value};" for name, value in values.items())


def colour(name: str, mode: Appearance) -> str:
    """The `#RRGGBB`, or CSS variable, of one meaning, such as `"facts"` or `"cut"`.

    Raises: KeyError, if the palette has no such meaning.
    """
    if name not in _NAMES:
        raise KeyError(f"no colour has the meaning {name!r}")
    value: str = getattr(PALETTES[mode], name)
    return value


def block_colour(kind: str, mode: Appearance) -> str:
    """The colour of a part of the prompt. Unknown kinds are drawn as `custom`."""
    return colour(kind if kind in BLOCK_KINDS else "custom", mode)


def ink_on(background: str) -> str:
    """Near-black or white, whichever has more contrast on `background` (`#RRGGBB`, or the variable of a block)."""
    if background.startswith("var("):
        return background.replace("--mi-", "--mi-on-")
    dark, light = LIGHT.text, LIGHT.page
    return max((dark, light), key=lambda ink: contrast(ink, background))


def contrast(a: str, b: str) -> float:
    """The contrast ratio of two colours, 1 to 21, as defined by WCAG 2."""
    brighter, darker = sorted((luminance(a), luminance(b)), reverse=True)
    # WCAG adds 0.05 for light that the screen reflects, so that black is not infinitely far from white.
    return (brighter + 0.05) / (darker + 0.05)


def luminance(hex_colour: str) -> float:
    """Relative luminance of `#RRGGBB`, 0 to 1 (WCAG 2)."""
    red, green, blue = linear_rgb(hex_colour)
    # Shares of the three colours in the brightness that the eye sees.
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def linear_rgb(hex_colour: str) -> tuple[float, float, float]:
    """`#RRGGBB` as linear light intensities, 0 to 1 each, with the sRGB curve (IEC 61966-2-1) undone."""
    red, green, blue = (int(hex_colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    return _linear(red), _linear(green), _linear(blue)


def _linear(channel: float) -> float:
    # The sRGB curve is a straight line near black.
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
