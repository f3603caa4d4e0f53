"""The colours keep apart for every eye, read on the page, and are the same in both places they are written."""

import math
import tomllib
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from memory_inspector import palette as theme
from memory_inspector.figures.coding_figures import GROUPS
from memory_inspector.figures.timeline_figures import OUTCOMES

CONFIG = tomllib.loads((Path(__file__).parents[2] / ".streamlit" / "config.toml").read_text(encoding="utf-8"))

# Machado, Oliveira and Fernandes 2009, severity 1.0, applied to linear RGB.
VISION = {
    "normal": np.eye(3),
    "protan": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deutan": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritan": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}

# Linear sRGB to XYZ for the D65 white point (IEC 61966-2-1).
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
WHITE = TO_XYZ @ np.ones(3)


def lab(hex_colour, vision):
    """CIELAB of a colour as an eye with this vision sees it."""
    seen = np.clip(VISION[vision] @ np.array(theme.linear_rgb(hex_colour)), 0, 1)
    ratio = TO_XYZ @ seen / WHITE
    x, y, z = np.where(ratio > (6 / 29) ** 3, np.cbrt(ratio), ratio / (3 * (6 / 29) ** 2) + 4 / 29)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def ciede2000(first, second):
    """The colour difference of two CIELAB values, as in Sharma, Wu and Dalal 2005."""
    (l1, a1, b1), (l2, a2, b2) = first, second
    mean_chroma7 = ((math.hypot(a1, b1) + math.hypot(a2, b2)) / 2) ** 7
    stretch = 1.5 - 0.5 * math.sqrt(mean_chroma7 / (mean_chroma7 + 25**7))
    a1, a2 = a1 * stretch, a2 * stretch
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = math.degrees(math.atan2(b1, a1)) % 360, math.degrees(math.atan2(b2, a2)) % 360
    turn = 0.0 if c1 * c2 == 0 else (h2 - h1 + 180) % 360 - 180
    lightness, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = h1 + h2 if c1 * c2 == 0 else ((h1 + h2) / 2 + (180 if abs(h1 - h2) > 180 else 0)) % 360
    cosine = [math.cos(math.radians(angle)) for angle in (hue - 30, 2 * hue, 3 * hue + 6, 4 * hue - 63)]
    t = 1 - 0.17 * cosine[0] + 0.24 * cosine[1] + 0.32 * cosine[2] - 0.20 * cosine[3]
    weight_l = 1 + 0.015 * (lightness - 50) ** 2 / math.sqrt(20 + (lightness - 50) ** 2)
    weight_c, weight_h = 1 + 0.045 * chroma, 1 + 0.015 * chroma * t
    twist = math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2)))
    rotation = -math.sin(twist) * 2 * math.sqrt(chroma**7 / (chroma**7 + 25**7))
    dl, dc = (l2 - l1) / weight_l, (c2 - c1) / weight_c
    dh = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2)) / weight_h
    return math.sqrt(dl**2 + dc**2 + dh**2 + rotation * dc * dh)


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, 2.5, 0), (73, 25, -18), 27.1492),
        ((60.2574, -34.0099, 36.2677), (60.4626, -34.1751, 39.4387), 1.2644),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
        ((50, 2.49, -0.001), (50, -2.49, 0.0011), 7.2195),
    ],
)
def test_the_colour_difference_gives_the_published_values(first, second, difference):
    assert ciede2000(first, second) == pytest.approx(difference, abs=1e-4)


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize(("mode", "least"), [("light", 14.0), ("dark", 17.0)])
def test_strong_colours_stay_apart_for_every_eye(mode, least, vision):
    seen = {name: lab(theme.colour(name, mode), vision) for name in theme.STRONG}
    too_close = {
        (a, b): round(ciede2000(seen[a], seen[b]), 1)
        for a, b in combinations(seen, 2)
        if ciede2000(seen[a], seen[b]) < least
    }
    assert len(seen) == 8
    assert too_close == {}


CHARTS = {
    "parts of a prompt, their sum": (*theme.BLOCK_KINDS, "rest"),
    "calls of a coding agent": [name for _, name in GROUPS.values()],
    # Lost messages have no fill: they are hatched on the page.
    "outcomes of messages": [name for _, name in OUTCOMES.values() if name != "cut"],
}
"""The fills of each chart, any two of which can be neighbours."""


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize("chart", CHARTS)
def test_neighbours_in_a_chart_stay_apart_for_every_eye(chart, mode, vision):
    seen = {name: lab(theme.colour(name, mode), vision) for name in CHARTS[chart]}
    pairs = {(a, b): ciede2000(seen[a], seen[b]) for a, b in combinations(seen, 2)}
    assert len(seen) == len(CHARTS[chart])
    assert {pair: round(apart, 1) for pair, apart in pairs.items() if apart < 14.5} == {}


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_strong_colours_and_lines_read_on_the_page(mode):
    page, names = theme.PALETTES[mode].page, (*theme.STRONG, "line", "unknown", "rest")
    faint = [name for name in names if theme.contrast(theme.colour(name, mode), page) < 3.0]
    assert faint == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_the_name_inside_a_block_reads_on_its_colour(mode):
    backgrounds = [theme.block_colour(kind, mode) for kind in theme.BLOCK_KINDS]
    least = 4.2  # the light queue's; the table beneath repeats every name in the text colour
    assert [b for b in backgrounds if theme.contrast(theme.ink_on(b), b) < least] == []


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_streamlits_theme_has_the_same_colours(mode):
    palette, section = theme.PALETTES[mode], CONFIG["theme"][mode]
    assert {
        "primaryColor": palette.accent,
        "backgroundColor": palette.page,
        "textColor": palette.text,
        "redColor": palette.cut,
        "grayColor": palette.unknown,
    }.items() <= section.items()
    blocks = [theme.block_colour(kind, mode) for kind in theme.BLOCK_KINDS]
    assert section["chartCategoricalColors"][: len(blocks)] == blocks


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_charts_have_ten_colours_and_never_take_the_red_of_loss(mode):
    colours = CONFIG["theme"][mode]["chartCategoricalColors"]
    assert len(set(colours)) == len(colours) >= 10
    assert theme.PALETTES[mode].cut not in colours


def test_both_appearances_have_a_sidebar_of_their_own():
    assert CONFIG["theme"]["light"]["sidebar"].keys() == CONFIG["theme"]["dark"]["sidebar"].keys() != set()


def test_fonts_come_from_this_server_with_their_licences():
    static = Path(__file__).parents[2] / "static"
    urls = [face["url"] for face in CONFIG["theme"]["fontFaces"]]
    assert [(static / Path(url).name).exists() for url in urls] == [True, True]
    assert all(url.startswith("app/static/") for url in urls)
    assert sorted(path.name for path in static.glob("*OFL.txt")) == ["inter-OFL.txt", "jetbrains-mono-OFL.txt"]


def test_the_server_is_for_this_machine_and_tells_nobody():
    server = CONFIG["server"]
    assert (server["address"], server["allowedHosts"]) == ("127.0.0.1", ["localhost", "127.0.0.1"])
    assert CONFIG["browser"]["gatherUsageStats"] is False
    assert CONFIG["client"]["showErrorDetails"] == "type"


def test_a_kind_of_block_the_app_does_not_know_is_drawn_as_custom():
    assert theme.block_colour("weather", "light") == theme.LIGHT.custom


def test_a_meaning_without_a_colour_is_an_error():
    with pytest.raises(KeyError, match="mauve"):
        theme.colour("mauve", "dark")


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_words_on_buttons_lanes_and_grounds_read_well(mode):
    """At least 4.5 : 1, which WCAG 2 asks of small text (AA)."""
    palette = theme.PALETTES[mode]
    pairs = {
        "a primary button": ("#FFFFFF", palette.accent),
        "secondary text": (palette.unknown, palette.page),
        "a loss": (palette.cut, palette.page),
        **{kind: (theme.ink_on(theme.colour(kind, mode)), theme.colour(kind, mode)) for kind in theme.BLOCK_KINDS},
    }
    low = {what: theme.contrast(*pair) for what, pair in pairs.items() if theme.contrast(*pair) < 4.5}
    assert low == {}
