"""Watched phrases: a strip with a cell per turn on three pages, and a toast when one drops out of the prompt.

The engine keeps what is watched with the session; every cell is a trace to that turn's prompt, so a strip and the page
Where did it go? show the same.
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from memory_core import MemoryInspectorError, NotFoundError
from memory_core.events import Ref
from memory_core.tracing.watched import Presence
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts import toasts
from ui.parts.components import error_noticed
from ui.tab import nav, state
from ui.tab.people import allowed
from ui.tab.view import View, memory_of, opened

LETTERS = {"prompt": "p", "memory": "m", "lost": "l", "before": "b", "none": "n", "out": "o", "unknown": "u"}
"""Sign of each state of a cell; `unknown` occurs in plans only."""

LABEL_CHARACTERS = 60

_TOLD = "watching_told"
"""Session-state key of the last `Presence` computed for each watched item, by session and target."""

_HTML = '<div class="presence" role="button" tabindex="0"></div>'

_row = st.components.v2.component(
    "presence",
    html=_HTML,
    css=(nav.STATIC / "presence.css").read_text(encoding="utf-8"),
    js=(nav.STATIC / "presence.js").read_text(encoding="utf-8"),
)


def look(view: View) -> None:
    """Warn in a toast of watched items that dropped out of the prompt since this tab last drew the session."""
    if view.past:
        return
    lost: list[str] = []
    for target in view.memory.trace.watched:
        # In this order: `_presence` stores its answer as the last one.
        before, now = _last_presence(view, target), _presence(view, target)
        if before is None or now is None or now.position <= before.position:
            continue
        # A turn that was seen as lost before is no news; one that was not seen, or had the words, is.
        states = {at.turn: at.state for at in before.turns}
        dropped = [at for at in now.dropped() if states.get(at.turn) in (None, "none", "prompt")]
        if dropped:
            where = (
                f"“{short(now.words, LABEL_CHARACTERS)}” dropped out of the prompt of turn {tokens(dropped[-1].turn)}."
            )
            lost.append(f"{where} {dropped[-1].sentence}")
    if lost:
        more = count(len(lost) - 1, "other watched item")
        toasts.warn(lost[0] if len(lost) == 1 else f"{lost[0]} {more} dropped out as well.")


def draw_watched(view: View) -> None:
    """Draw the strip of everything watched, with what happened at the shown turn; nothing if nothing is watched."""
    targets = view.memory.trace.watched
    if not targets:
        return
    with st.container(border=True, gap="xsmall", key="watched"):
        for number, target in enumerate(targets):
            _draw_row(view, target, number)


def draw_strip(key: str, name: str, presence: Presence, view: View) -> None:
    """Draw one strip under a name; a click shows that turn."""
    draw_cells(key, name, [(at.turn, at.state) for at in presence.turns], view)


def draw_cells(key: str, name: str, cells: Sequence[tuple[int, str]], view: View) -> None:
    """Draw a strip from pairs of turn and state; a click shows that turn."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small", wrap=False):
        st.markdown(f":small[**{plain(name)}**]", width=20)
        _row(
            key=key,
            data={
                "session": view.memory.session_id,
                "target": name,
                "first": cells[0][0],
                "shown": view.shown_turn,
                "states": "".join(LETTERS[state] for _, state in cells),
            },
            height=22,
            on_turn_change=lambda: _show(key, view.latest_turn),
        )


def draw_button(view: View, target: str | Ref, menu: str) -> None:
    """Draw the button that starts or stops watching `target`, and closes the menu of this key."""
    watched = target in view.memory.trace.watched
    st.button(
        "Stop watching" if watched else "Watch it turn by turn",
        key="watching__toggle",
        type="tertiary",
        icon=":material/visibility_off:" if watched else ":material/visibility:",
        on_click=_toggle,
        args=(view.memory.session_id, target, menu),
        **allowed(help="In the prompt, only in memory, or lost, for each turn. You are told when it drops out."),
    )


def _draw_row(view: View, target: str | Ref, number: int) -> None:
    now = _presence(view, target)
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", wrap=False, key=f"watched__row_{number}"
    ):
        words = now.words if now is not None else str(target)
        with st.container(width=230):
            nav.follow_link(target, f":small[“{plain(short(words, LABEL_CHARACTERS))}”]")
        if now is not None and now.turns:
            _row(
                key=f"watched-{number}",
                data={
                    "session": view.memory.session_id,
                    "target": str(target),
                    "first": now.turns[0].turn,
                    "shown": view.shown_turn,
                    "states": "".join(LETTERS[at.state] for at in now.turns),
                },
                height=22,
                on_turn_change=lambda: _take_turn(number, target),
            )
        st.button(
            "Stop watching",
            key=f"watched__stop_{number}",
            type="tertiary",
            icon=":material/close:",
            on_click=_stop,
            args=(view.memory.session_id, target),
            **allowed(),
        )
    st.markdown(f":small[:gray[{plain(_sentence(now, view.shown_turn))}]]")


def _sentence(now: Presence | None, turn: int) -> str:
    """Return a sentence on a watched item's state in a turn, and on when it leaves the prompt or was last in it."""
    shown = now.at(turn) if now is not None else None
    if now is None or shown is None:
        return "Not in this session any more."
    if shown.state == "prompt":
        dropped = now.dropped_after(turn)
        after = f" It drops out in turn {tokens(dropped.turn)}: {dropped.sentence}" if dropped is not None else ""
        return f"In the prompt of turn {tokens(turn)}.{after}"
    last = now.last_in(turn)
    since = f" Last in the prompt of turn {tokens(last.turn)}." if last is not None else ""
    sentences = {"none": f"Turn {tokens(turn)} has no prompt.", "before": "Nobody had said it yet."}
    return f"{sentences.get(shown.state, shown.sentence)}{since}"


# -- presence --------------------------------------------------------------------------------------


def _last_presence(view: View, target: str | Ref) -> Presence | None:
    presences: dict[tuple[str, str], Presence] = st.session_state.get(_TOLD, {})
    return presences.get((view.memory.session_id, str(target)))


def _presence(view: View, target: str | Ref) -> Presence | None:
    """Return the presence of an item in all turns up to the latest shown; None if the session no longer has it."""
    before, upto = _last_presence(view, target), view.newest
    # Each cell is a trace: nothing new in the log, nothing to trace.
    if before is not None and before.position == upto:
        return before
    try:
        # `earlier` lets the engine reuse the finished turns.
        now = view.memory.trace.presence(target, upto=upto, earlier=before)
    except NotFoundError:
        return None
    st.session_state.setdefault(_TOLD, {})[view.memory.session_id, str(target)] = now
    return now


# -- callbacks ---------------------------------------------------------------------------------------


@error_noticed
def start(session_id: str, target: str | Ref) -> None:
    """Start watching `target`. For callbacks."""
    memory_of(session_id).trace.watch(target)


@error_noticed
def _toggle(session_id: str, target: str | Ref, menu: str) -> None:
    st.session_state[menu] = False
    (_stop if target in memory_of(session_id).trace.watched else start)(session_id, target)


@error_noticed
def _stop(session_id: str, target: str | Ref) -> None:
    memory_of(session_id).trace.unwatch(target)


def _show(key: str, latest: int) -> None:
    asked: Any = getattr(st.session_state.get(key), "turn", None)
    if asked is not None and asked["session"] == state.selected_session():
        # The latest turn is shown as None, so that the page goes on following.
        turn = int(asked["turn"])
        state.show_turn(turn if 0 < turn < latest else None)


def _take_turn(number: int, target: str | Ref) -> None:
    """Show the last turn up to the clicked one whose prompt had the item; if there is none, the clicked turn."""
    asked: Any = getattr(st.session_state.get(f"watched-{number}"), "turn", None)
    session_id = state.selected_session()
    if asked is None or session_id is None or (asked["session"], asked["target"]) != (session_id, str(target)):
        return  # the row shows another item by now
    try:
        view = opened(session_id)
        now = _presence(view, target)
    except MemoryInspectorError:  # the page reports the error
        return
    # A cell without it asks where it was seen last; a cell with it is its own answer.
    last = now.last_in(int(asked["turn"])) if now is not None else None
    turn = last.turn if last is not None else int(asked["turn"])
    state.show_turn(turn if 0 < turn < view.latest_turn else None)
