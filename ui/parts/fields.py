"""Fields that change what is stored: the widget of a setting, and drawers whose unsaved values outlive them.

A drawer's values are applied only if the stored values have not changed since. Its widget keys disappear when it is
closed, however that happens; a draft without its widget is left over from an earlier opening and is not used again. The
last keystrokes may arrive after the drawer was closed: an abandoned draft still takes them, a saved or discarded one
does not.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import streamlit as st
from pydantic import BaseModel
from streamlit.delta_generator import DeltaGenerator

from memory_core import ConflictError, MemoryInspectorError
from memory_inspector.server.engine import Place
from memory_inspector.wording.formatting import ago, plain, tokens
from memory_inspector.wording.settings import Setting
from ui.parts import toasts
from ui.parts.components import drawer_actions, give_while_typing, limits
from ui.tab.services import engine

# -- a setting: its widget, the same wherever it can be changed, and its change with undo ---------


MAX_CHARACTERS = 1_000
"""Maximum characters of a text setting."""


def draw_setting(
    setting: Setting,
    model: type[BaseModel],
    key: str,
    *,
    on_change: Callable[..., object],
    args: tuple[object, ...] = (),
    empty: str | None = None,
    where: DeltaGenerator | None = None,
    **more: Any,
) -> Any:
    """Draw the widget of a setting with the bounds that `model` declares; its value is in the session state.

    `empty`: placeholder of a number field that is empty; the meaning of None by default. `more` replaces arguments of
    the widget, such as `help`, `step` or `max_value`.
    """
    place = where if where is not None else st
    usual: dict[str, Any] = {"key": key, "help": setting.help, "on_change": on_change, "args": args}
    if setting.sort == "toggle":
        return place.toggle(setting.title, **usual | more)
    if setting.sort == "text":
        return place.text_area(setting.title, max_chars=MAX_CHARACTERS, height=100, **usual | more)
    if setting.sort == "labels":
        return place.multiselect(
            setting.title,
            # Every chosen label must be among the options, whether it is suggested or was typed.
            list(dict.fromkeys((*st.session_state[key], *setting.offered))),
            accept_new_options=True,
            placeholder=setting.without,
            **usual | more,
        )
    if setting.choices is not None:
        choices = setting.choices
        return place.selectbox(
            setting.title, list(choices), format_func=lambda value: choices.get(value, value), **usual | more
        )
    number: type[int] | type[float] = float if setting.sort == "share" else int
    # Streamlit wants value, bounds and step of one number type.
    bounds = {"min_value": 1, "max_value": 100} if setting.sort == "percent" else limits(model, setting.name, number)
    return place.number_input(
        setting.title,
        **usual
        | bounds
        | {
            "value": None,  # only a field that begins empty can be emptied
            "step": 0.01 if number is float else setting.step,
            "placeholder": empty if empty is not None else setting.without if setting.optional else None,
        }
        | more,
    )


def change_settings(
    session_id: str, block: str | None, before: Mapping[str, Any], after: Mapping[str, Any]
) -> Callable[[], object]:
    """Change settings of a block, or of the session (None), and return the function that changes them back.

    Raises:
        ConflictError: they are not as `before` any more: a later change by somebody else is not undone either.
        MemoryInspectorError: a value is impossible, or the block was removed; nothing was changed.
    """
    memory = engine().open(session_id)
    if block is None:
        memory.configure(opened=before, **after)
    else:
        memory.blocks.configure(block, opened=before, **after)
    return partial(change_settings, session_id, block, after, before)


# -- drafts: the unsaved values of a drawer -------------------------------------------------------


_DRAFTS = "blocks_drafts"


@dataclass(frozen=True, slots=True)
class Draft:
    """An edit in progress."""

    revision: int = 0
    """Revision of the text that the edit started from."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Settings that the edit started from, by name."""
    conflict: bool = False
    """True if saving failed because another revision was stored meanwhile."""
    saved: bool = False
    """True if the edit was saved or discarded, so that the drawer closes."""
    abandoned: bool = False
    """True if the drawer was closed without saving or discarding the edit."""
    since: float | None = None
    """Time of the last keystroke of an edit that was left unsaved and is reopened, in seconds since 1970; or None."""
    message: str | None = None
    """Message on an action in the drawer, which stays open."""
    problem: str | None = None
    """Error that prevented saving."""
    theirs: str | None = None
    """Text that somebody else stored, while the user goes on editing; None without a conflict."""
    mine: str | None = None
    """The user's unsaved text, while another one is shown in its place; otherwise None."""


def draft(key: str, begun: Draft, *widgets: str) -> Draft:
    """The draft of this key; `begun` if there is none, or its drawer was closed since (its first widget has no state).

    `widgets`: keys of the drawer's fields; emptied when a draft begins, so that they show its values.
    """
    drafts = _drafts()
    # Streamlit drops a widget's key once a run does not draw it: without the key, the drawer was closed meanwhile.
    if widgets[0] not in st.session_state or key not in drafts or drafts[key].abandoned:
        drafts[key] = begun
        # A run that ends early drops no key: the drawer would show the text that was discarded.
        for widget in widgets:
            st.session_state.pop(widget, None)
    return drafts[key]


def open_draft(key: str) -> Draft | None:
    """The draft of this key, in a callback of its drawer; None: it was saved or discarded before."""
    draft = _drafts().get(key)
    return None if draft is None or draft.saved else draft


def keep_draft(key: str, changed: Draft) -> None:
    """Store a new state of the draft. For callbacks."""
    _drafts()[key] = changed


def forget_draft(key: str, *widgets: str) -> None:
    """Remove a draft and the keys of its widgets."""
    _drafts().pop(key, None)
    for widget in widgets:
        st.session_state.pop(widget, None)


def leave() -> None:
    """Mark every draft as abandoned, because a drawer was closed."""
    drafts = _drafts()
    drafts.update({key: replace(draft, abandoned=True) for key, draft in drafts.items()})


def _drafts() -> dict[str, Draft]:
    drafts: dict[str, Draft] = st.session_state.setdefault(_DRAFTS, {})
    return drafts


# -- the drawer ------------------------------------------------------------------------------------

Convert = Callable[[str, Any], Any]
"""Function that converts the value of the named field from stored to widget form, or back."""

Done = tuple[str, Callable[[], object] | None]
"""Message about a write, and the function that undoes it."""

NOTHING: Done = ("Nothing was changed.", None)
"""Result if a change was reverted right before the click."""


def draw_conflict(prefix: str, show_theirs: Callable[[], None], keep_editing: Callable[[], None]) -> None:
    """Draw that another tab saved meanwhile, and the choice between both values; `prefix` begins the keys."""
    st.warning("Changed in another tab since you opened it. Nothing was saved.", icon=":material/warning:")
    with st.container(horizontal=True):
        st.button("Show theirs", key=f"{prefix}theirs", on_click=show_theirs)
        st.button("Keep editing", key=f"{prefix}keep", on_click=keep_editing)


class Drawer:
    """The fields of an open drawer, by name.

    A field's widget takes `key=drawer.field(name)` and `on_change=drawer.keep`. It is seeded with the draft that was
    left here, otherwise with the stored value.
    """

    def __init__(
        self,
        prefix: str,
        place: Place,
        stored: Mapping[str, Any],
        *,
        shown: Convert = lambda name, value: value,
        meant: Convert = lambda name, value: value,
    ) -> None:
        """Open the drawer, or close it if its edit is finished. Reserves the place of its messages.

        `prefix` begins the keys of its widgets; `stored` are the current values; `shown` converts stored values to
        widget values, `meant` converts them back.
        """
        self._prefix, self._place, self._stored = prefix, place, stored
        self._shown, self._meant = shown, meant
        self._key = "_".join(place)
        self._fields: list[str] = []
        self._needed: set[str] = set()
        self._unsaved = engine().unsaved.at(place)
        begun = Draft(values=stored)
        if self._unsaved is not None:
            # What was left is compared with the values it began from, so that saving finds a change made meanwhile.
            begun = Draft(values=self._unsaved.began, since=self._unsaved.at)
        self._draft = draft(self._key, begun, *map(self.widget, stored))
        if self._draft.saved:  # before its widgets are drawn once more, which would keep their values
            forget_draft(self._key)
            st.rerun()
        self.opened = self._draft.values
        """Stored values when the drawer was opened; changes are relative to them."""
        # Above the fields, though it is filled last: only `end` knows whether something is unsaved.
        self._said = st.container()
        give_while_typing()

    def widget(self, name: str) -> str:
        """The key of a field's widget."""
        return f"{self._prefix}{'_'.join(self._place[1:])}_{name}"

    def field(self, name: str, *, needed: bool = False) -> str:
        """The key of a field's widget, to be drawn now; its session state is seeded with the field's value.

        `needed`: if emptied, the field keeps the value the drawer was opened with, as its placeholder (`stays`) says.
        """
        if needed:
            self._needed.add(name)
        key = self.widget(name)
        value = self._was(name)
        # Only the first drawing seeds the field: later the widget holds what was typed.
        st.session_state.setdefault(key, value if self._unsaved is None else self._unsaved.value.get(name, value))
        if name not in self._fields:
            self._fields.append(name)
        return key

    def stays(self, name: str) -> str:
        """Placeholder of an emptied required field: `empty: stays 1,200`."""
        value = self._was(name)
        return f"empty: stays {tokens(value) if isinstance(value, int) else value}"

    def _was(self, name: str) -> Any:
        """Value the field was opened with, in widget form."""
        return self._shown(name, self.opened.get(name, self._stored[name]))

    def chosen(self) -> dict[str, Any]:
        """Current values of the widgets drawn so far; in a callback, the new values."""
        # A field that is hidden by another's choice has no value, and counts as unchanged.
        held = {name: st.session_state[key] for name in self._fields if (key := self.widget(name)) in st.session_state}
        return {
            name: self._was(name) if value is None and name in self._needed else value for name, value in held.items()
        }

    def changes(self) -> dict[str, Any]:
        """The changed fields only, in stored form."""
        return {name: self._meant(name, value) for name, value in self.chosen().items() if value != self._was(name)}

    def keep(self) -> None:
        """Keep the current values beyond the drawer's lifetime. For the callbacks of its widgets."""
        if opened := open_draft(self._key):
            engine().unsaved.keep(self._place, self.chosen(), dict(opened.values))

    def set(self, name: str, value: Any) -> None:
        """Put a value into a field. For callbacks."""
        st.session_state[self.widget(name)] = value
        self.keep()

    def end(
        self,
        save: Callable[[], Done],
        *,
        changed: bool,
        ready: bool,
        says: str = "Apply from the next turn",
        state: str = "applied",
    ) -> None:
        """Show the result of the last save, and draw the buttons. `save` is the only engine call; `state` completes "It
        is not ...".

        `save` reads `chosen` or `changes` itself: a click right after a keystroke arrives before the page was redrawn
        with it. If it raises `ConflictError`, the stored values are not those the drawer was opened with.
        """
        # Typed back to what is stored: no draft is worth keeping.
        if not changed and self._unsaved is not None:
            engine().unsaved.forget(self._place)
        with self._said:
            if self._draft.conflict:
                draw_conflict(self._prefix, self._show_theirs, self._keep_editing)
            elif self._draft.problem is not None:
                st.error(plain(self._draft.problem))
            elif self._draft.since is not None and changed:
                when = ago(self._draft.since, time.time())
                st.markdown(f":small[:material/edit_note: Your draft, {when}. It is not {state}.]")
        with drawer_actions(self._place[0]):
            st.button(
                says,
                key=f"{self._prefix}apply",
                type="primary",
                disabled=not ready,
                on_click=self._apply,
                args=(save,),
            )
            st.button("Discard changes", key=f"{self._prefix}discard", on_click=self._close)

    def _apply(self, save: Callable[[], Done]) -> None:
        try:
            sentence, undo = save()
        except ConflictError:
            # The fields keep their values; the person decides which side wins.
            keep_draft(self._key, Draft(values=self.opened, conflict=True))
        except MemoryInspectorError as error:
            keep_draft(self._key, Draft(values=self.opened, problem=str(error)))
        else:
            self._close()
            toasts.done(sentence, undo=undo)

    def _close(self) -> None:
        engine().unsaved.forget(self._place)
        # The next drawing finds the mark before any field is drawn, and closes.
        keep_draft(self._key, Draft(values=self.opened, saved=True))

    def _show_theirs(self) -> None:
        engine().unsaved.forget(self._place)
        for name in self._fields:
            st.session_state[self.widget(name)] = self._shown(name, self._stored[name])
        keep_draft(self._key, Draft(values=self._stored))

    def _keep_editing(self) -> None:
        """Keep the user's values as changes to what is stored now."""
        keep_draft(self._key, Draft(values=self._stored))
        self.keep()
