"""Small screen components shared by several pages."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

import streamlit as st
from pydantic import BaseModel
from streamlit.delta_generator import DeltaGenerator

from memory_core import ConflictError, MemoryInspectorError
from memory_inspector.wording.formatting import plain, tokens
from ui.tab import state

if TYPE_CHECKING:
    import plotly.graph_objects as go

Given = ParamSpec("Given")

STYLES = Path(__file__).resolve().parents[2] / "static" / "app.css"
"""The app's own style sheet: what the theme and Streamlit's parameters cannot express."""

ROW_PIXELS = 33
"""Height of a table row in pixels; the header is two pixels higher."""
SIDE_PIXELS = 440
"""Width of a dialog at the side, in pixels: beside it the page can still be read."""
PHONE_PIXELS = 640
"""Maximum width of a phone's window, in pixels: columns are below each other there."""


def draw_styles() -> None:
    """Put the app's style sheet on the page; takes no space."""
    st.html(STYLES)


_typing = st.components.v2.component("typing", js=(STYLES.parent / "typing.js").read_text(encoding="utf-8"))


def give_while_typing(name: str = "dialog") -> None:
    """Send the text of a field to the server while the user is typing, and before Esc closes the dialog: in the open
    dialog, or on the Facts page. `name`: part of the widget key; must be unique within a run of the page."""
    # The key of the container becomes a CSS class, by which the style sheet takes its space away.
    with st.container(key=f"typing_{name}"):
        _typing(key=f"typing-watch-{name}")


def drawer_actions(name: str) -> DeltaGenerator:
    """The row of a drawer's buttons: always visible at a fixed place, however long the drawer is."""
    return st.container(horizontal=True, key=f"drawer_actions_{name}")


def heading(title: str, about: str = "", *, level: Literal[2, 3] = 2, **options: Any) -> None:
    """Draw a section's title and the text beside it, both markdown: a heading styled as bold text.

    `options` are those of `st.markdown`.
    """
    st.markdown(f"{'#' * level} **{title}**{about}", anchors=False, **options)


def conclusion(sentence: str) -> None:
    """Draw the verdict of a page or view, plain text, larger than what stands below it. Once a page."""
    with st.container(key="conclusion"):
        heading(plain(sentence), level=3)


def unseen_heading(title: str) -> None:
    """A section title for screen readers only; takes no space."""
    with st.container(key=f"unseen_{title.replace(' ', '_').lower()}"):
        heading(title)


def filled(
    key: str, *, minus: int, least: int, most: int | None = None, narrow: int = 0, **options: Any
) -> DeltaGenerator:
    """A container as high as the window less `minus` pixels, but at least `least`; `most`: what its content needs.

    `narrow`: additional pixels to subtract on a phone, where other elements take more lines. `options` are those of
    `st.container`. A table inside takes `height="stretch"`.
    """

    def rule(minus: int) -> str:
        height = f"max({least}px, 100dvh - {minus}px)"
        if most is not None:
            height = f"min({most}px, {height})"
        # Streamlit gives the pixels to the container and to a wrapper.
        return (
            f"[data-testid=stLayoutWrapper]:has(> .st-key-{key}) {{ flex-basis: {height} !important }}"
            f".st-key-{key} {{ height: {height} !important }}"
        )

    # `key` is the app's own and the rest are numbers.
    phone = f"@media (max-width: {PHONE_PIXELS}px) {{ {rule(minus + narrow)} }}" if narrow else ""
    st.html(f"<style>{rule(minus)}{phone}</style>")
    # The style may come after the container: until then it is no higher than its content needs.
    return st.container(key=key, height=least if most is None else min(least, most), **options)


def filled_rows(key: str, rows: int, *, minus: int, least: int) -> DeltaGenerator:
    """A container for a table of this many rows: as high as the rows, if the window allows it."""
    return filled(key, minus=minus, least=least, most=ROW_PIXELS * (rows + 1) + 3, border=False)


def closing_button(
    says: str,
    on_click: Callable[..., None] | None = None,
    args: tuple[Any, ...] = (),
    *,
    kind: Literal["primary", "secondary"] = "secondary",
    disabled: bool = False,
    key: str | None = None,
    help: str | None = None,
) -> None:
    """Draw a button that calls `on_click`, if any, and closes its dialog; see `dialog`.

    `on_click` runs once per click, before the page is redrawn.
    """

    def close() -> None:
        if on_click is not None:
            on_click(*args)
        # A mark closes the dialog, as the action may leave nothing from which it could draw this button again.
        state.close_dialog()

    st.button(plain(says), type=kind, on_click=close, disabled=disabled, key=key, help=help)


def closing_buttons(
    says: str,
    on_click: Callable[..., None],
    args: tuple[Any, ...] = (),
    *,
    on_cancel: Callable[[], None] | None = None,
    row: DeltaGenerator | None = None,
    keys: tuple[str, str] | tuple[None, None] = (None, None),
    **options: Any,
) -> None:
    """Draw the button that makes a dialog's change, and Cancel beside it; both close the dialog.

    `row`: where they stand, by default below what is drawn; `keys`: of both. `options` are those of `closing_button`.
    """
    with row or st.container(horizontal=True):
        closing_button(says, on_click, args, kind="primary", key=keys[0], **options)
        closing_button("Cancel", on_cancel, key=keys[1])


def empty(title: str, text: str, *, icon: str | None = None, act: Callable[[], None] | None = None) -> None:
    """Placeholder for an empty page: a bold line, a line saying what will be here, and what can be done about it, drawn
    by `act`."""
    with st.container(border=True, horizontal_alignment="center", gap="xsmall"):
        st.space("small")
        if icon:
            with st.container(key=f"empty_icon_{icon}", horizontal_alignment="center"):
                st.markdown(f":gray[:material/{icon}:]", text_alignment="center")
        heading(plain(title), text_alignment="center")
        st.markdown(f":gray[{plain(text)}]", text_alignment="center")
        if act is not None:
            act()
        st.space("small")


def more_line(hidden: int) -> None:
    """Draw how many further items a list has that are not shown; nothing if there are none."""
    if hidden > 0:
        st.markdown(f":small[:gray[and {tokens(hidden)} more]]")


def choose_view(views: Mapping[str, str], key: str) -> str:
    """Draw the choice between a page's views, by name with their titles, and return the one shown.

    The URL parameter `view` names it, for reloads and links, except the first view. `open_view` chooses another.
    """
    # Three sources, the strongest first: a button of this page, an address that was changed from outside, the control.
    first, written = next(iter(views)), f"{key}_written"
    asked = st.session_state.pop(f"{key}_next", None) or st.query_params.get("view")
    if key not in st.session_state or asked != st.session_state.get(written):
        st.session_state[key] = asked if asked in views else first
    chosen = str(
        st.segmented_control(
            "Show",
            list(views),
            required=True,
            key=key,
            format_func=lambda view: views[view],
            label_visibility="collapsed",
            width="content",
        )
    )
    # Remembers what this page wrote, so that its own address does not count as a new wish.
    st.session_state[written] = None if chosen == first else chosen
    state.write_address("view", st.session_state[written])
    return chosen


def open_view(key: str, view: str) -> None:
    """Choose a view for the next drawing of the page. For callbacks, also those of a fragment."""
    st.session_state[f"{key}_next"] = view


def chart(figure: "go.Figure", key: str, alt: str, on_pick: Callable[[], object] | None = None, **options: Any) -> None:
    """Draw a figure with the app's own colours; `on_pick` is called when one of its points is clicked.

    `alt`: description for screen readers. `options` are those of `st.plotly_chart`.
    """
    from memory_inspector.figures.chart_style import CONFIG  # here, as the first page is drawn without figures

    if on_pick is not None:
        options |= {"on_select": on_pick, "selection_mode": "points"}
    st.plotly_chart(figure, key=key, alt=alt, config=CONFIG, theme=None, **options)


def numbers_table(rows: Callable[[], Sequence[Mapping[str, Any]]], key: str) -> None:
    """A figure's numbers as a table, built only when it is opened."""
    opened = st.expander("Numbers as a table", key=key, on_change="rerun", type="compact")
    if opened.open:
        # Numbers are written with the separators of the browser's language.
        table = list(rows())
        numbers = {name for row in table for name, value in row.items() if isinstance(value, int)}
        opened.dataframe(
            table,
            hide_index=True,
            key=f"{key}_rows",
            placeholder="–",
            column_config={name: st.column_config.NumberColumn(format="localized") for name in numbers},
        )


def dialog(
    title: str,
    icon: str,
    *,
    width: Literal["small", "medium", "large"] | int = "small",
    side: bool = False,
    on_dismiss: Literal["ignore", "rerun"] | Callable[[], None] = "rerun",
) -> Callable[[Callable[Given, None]], Callable[Given, None]]:
    """Decorator for a dialog's body: shows an engine error as one sentence instead of a traceback.

    After `closing_button` it closes the dialog instead. `side`: it stands at the right, beside what it is about.

    A dialog is redrawn by itself, outside the page that opened it: the session may be gone by then.
    """
    place: dict[str, Any] = {"width": SIDE_PIXELS, "position": "right"} if side else {"width": width}

    def decorated(draw: Callable[Given, None]) -> Callable[Given, None]:
        @st.dialog(title, icon=f":material/{icon}:", on_dismiss=on_dismiss, **place)
        @functools.wraps(draw)
        def guarded(*args: Given.args, **kwargs: Given.kwargs) -> None:
            state.open_dialog()
            if state.take_closing():
                st.rerun()  # the rerun of the whole page leaves the dialog out
            try:
                draw(*args, **kwargs)
            except MemoryInspectorError as error:
                st.error(plain(str(error)))

        return guarded

    return decorated


@contextmanager
def noticed() -> Iterator[None]:
    """Show an engine error as a notice on the next drawing, a change made elsewhere meanwhile as a warning."""
    try:
        yield
    except MemoryInspectorError as error:
        state.say("warning" if isinstance(error, ConflictError) else "error", str(error))


def error_noticed(callback: Callable[Given, None]) -> Callable[Given, None]:
    """Decorator for a callback: shows an engine error as a notice on the next drawing, as a callback cannot draw."""

    @functools.wraps(callback)
    def guarded(*args: Given.args, **kwargs: Given.kwargs) -> None:
        try:
            callback(*args, **kwargs)
        except MemoryInspectorError as error:
            state.say("error", str(error))

    return guarded


def limits(model: type[BaseModel], setting: str, number: type[int] | type[float] = int) -> dict[str, Any]:
    """`min_value` and `max_value` of a number field: the bounds that the engine declares for the setting."""
    from memory_core.argument_checks import bounds  # loads numpy

    within = bounds(model, setting)
    limits = {"min_value": within.least, "max_value": within.most}
    return {name: None if value is None else number(value) for name, value in limits.items()}
