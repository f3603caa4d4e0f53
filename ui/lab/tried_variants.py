"""State of the Lab in a tab: up to three configurations beside the session's own."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from memory_core import Memory, MemoryInspectorError
from memory_core.events import EventRecord
from memory_core.recipes import RECIPES
from memory_inspector.lab.striking import MAX_STRUCK, changes_without, may_be_struck
from memory_inspector.lab.variants import Variant, VariantChange, differences, variant_after_switch, variant_of
from ui.tab import state
from ui.tab.view import memory_of

OWN = "A"
"""The session's own configuration."""

NAMES = ("B", "C", "D")
_FLUSH_SIZE = "token_flush_size"


@dataclass(frozen=True, slots=True)
class Tried:
    """A configuration: the session's own, or that of a recipe, with some settings changed."""

    name: str
    recipe: str | None = None
    knobs: tuple[tuple[str, Any], ...] = ()
    """Changed settings as `VariantChange` names them, with their values."""
    struck: tuple[int, ...] = ()
    """Log positions of the events that are left out."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The configurations of one session in one tab."""

    tried: tuple[Tried, ...] = (Tried(NAMES[0]),)
    shown: str = NAMES[0]
    """Name of the configuration whose settings and prompts are shown."""
    asked: bool = False
    """True if the conversation is to be played; until then nothing runs."""
    upto: int | None = None
    """Log position up to which the conversation is tried; later turns are announced, and tried on request. None: set to
    the end of the log at the next drawing."""

    @property
    def current(self) -> Tried:
        return next((variant for variant in self.tried if variant.name == self.shown), self.tried[0])


_BEGUN = Desk()
_DESKS = state.ByPlace("lab", _BEGUN)

VIEW = "lab__view"
"""Key of the view that is shown; see `ui.lab.lab_page.VIEWS`."""

TRYING = "try"
"""URL parameter of the Lab: what is tried, as JSON."""

MAX_ADDRESS = 1_500
"""Maximum characters of this parameter; configurations with long texts are not in the URL."""


def desk(session_id: str) -> Desk:
    return _DESKS.at(session_id)


def take_address(session_id: str) -> None:
    """Restore the configurations from the URL, in a tab that was reloaded or opened by a link."""
    asked = st.query_params.get(TRYING)
    # Only where nothing was tried yet in this tab: otherwise the tab's own state is newer than its address.
    if asked and _DESKS.at(session_id) is _BEGUN and (restored := _decoded(asked, session_id)) is not None:
        _DESKS.put(session_id, restored)


def write_address(session_id: str) -> None:
    """Write the configurations to the URL, unless they are too long for it."""
    now = desk(session_id)
    encoded = json.dumps(
        {
            "tried": [[variant.name, variant.recipe, dict(variant.knobs), variant.struck] for variant in now.tried],
            "session": session_id,
            "shown": now.shown,
            "asked": now.asked,
        },
        separators=(",", ":"),
        default=str,
    )
    # The held position is not in the address: a reloaded tab begins with the conversation as it is then.
    begun = replace(now, upto=None) == _BEGUN
    state.write_address(TRYING, encoded if not begun and len(encoded) <= MAX_ADDRESS else None)


def hold(session_id: str, newest: int) -> Desk:
    """Return the desk with `upto` set; `newest`: position of the log's end."""
    held = desk(session_id).upto
    if held is None or held > newest:  # of a session that was emptied since
        _DESKS.change(session_id, upto=newest)
    return desk(session_id)


def _decoded(asked: str, session_id: str) -> Desk | None:
    """Decode the configurations in a URL; None if it is not valid: people edit URLs."""
    try:
        decoded = json.loads(asked)
        if decoded["session"] != session_id:  # another session was chosen since
            return None
        tried = tuple(
            Tried(
                name,
                recipe if recipe in RECIPES else None,
                tuple((knob, _plain(knob, value)) for knob, value in knobs.items()),
                tuple(int(position) for position in struck)[:MAX_STRUCK],
            )
            for name, recipe, knobs, struck in decoded["tried"]
            if name in NAMES
        )
        names = [variant.name for variant in tried]
        # Two configurations under one name could not be told apart.
        if not names or len(set(names)) < len(names):
            return None
        return Desk(tried, decoded["shown"] if decoded["shown"] in names else names[0], bool(decoded["asked"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def own_variant(memory: Memory) -> Variant:
    return variant_of(memory, OWN)


def variant(memory: Memory, tried: Tried) -> Variant:
    """Return a tried configuration with all of its settings and blocks.

    Raises:
        ConfigError: a value is impossible, perhaps since the session was changed.
    """
    # With a recipe: as the session would be after a switch to it, with the blocks that the switch keeps.
    base = own_variant(memory) if tried.recipe is None else variant_after_switch(memory, tried.recipe)
    made = base.with_changes(tried.name, [VariantChange(knob, None, value) for knob, value in tried.knobs])
    return replace(made, struck=tried.struck)


def changes(memory: Memory, tried: Tried) -> tuple[VariantChange, ...]:
    """Return the differences from the session's own configuration."""
    return differences(own_variant(memory), variant(memory, tried))


def _plain(knob: str, value: Any) -> Any:
    """Return a setting's value from a URL. Raises `ValueError` if its type is not allowed."""
    if not isinstance(value, str | int | float | bool | None) or (
        knob.endswith(".text") and not isinstance(value, str)
    ):
        raise ValueError(f"{knob} cannot be {value!r}")
    return value


# -- callbacks ---------------------------------------------------------------------------------------


def go_on(session_id: str) -> None:
    """Try the conversation up to the present end of the log."""
    _DESKS.change(session_id, upto=None)


def ask(session_id: str) -> None:
    _DESKS.change(session_id, asked=True)


def show(session_id: str, name: str) -> None:
    _DESKS.change(session_id, shown=name)


def add(session_id: str) -> None:
    """Add a copy of the shown configuration."""
    now = desk(session_id)
    # The first free name: after B was removed, it is given again.
    free = next((name for name in NAMES if name not in {variant.name for variant in now.tried}), None)
    if free is not None:
        _DESKS.change(session_id, tried=(*now.tried, replace(now.current, name=free)), shown=free)


def remove(session_id: str, name: str) -> None:
    now = desk(session_id)
    remaining = tuple(variant for variant in now.tried if variant.name != name)
    _DESKS.change(session_id, tried=remaining or (Tried(NAMES[0]),), shown=(remaining or (Tried(NAMES[0]),))[0].name)


def turn_knob(session_id: str, name: str, knob: str, value: Any, own_value: Any) -> None:
    """Change one setting of a configuration; with the session's own value, take the change back."""
    now = desk(session_id)
    chosen = next(chosen for chosen in now.tried if chosen.name == name)
    knobs = dict(chosen.knobs)
    # Taken out first, so that the knob turned last is the last chip.
    knobs.pop(knob, None)
    if value != own_value:
        knobs[knob] = value
    _put(session_id, replace(chosen, knobs=tuple(knobs.items())))


def set_limit(memory: Memory, name: str, limit: int) -> None:
    turn_knob(memory.session_id, name, "token_limit", limit, own_variant(memory).config.token_limit)
    lower_flush_size(memory.session_id, name, limit)


def mend(session_id: str, name: str, mending: Sequence[VariantChange]) -> None:
    """Make the changes that fix a finding in a configuration, like any tried setting."""
    chosen = next(chosen for chosen in desk(session_id).tried if chosen.name == name)
    knobs = {**dict(chosen.knobs), **{change.setting: change.after for change in mending}}
    _put(session_id, replace(chosen, knobs=tuple(knobs.items())))


def lower_flush_size(session_id: str, name: str, limit: int) -> None:
    """Lower the flush size to the token limit if it makes the configuration impossible; counts as a change."""
    chosen = next(chosen for chosen in desk(session_id).tried if chosen.name == name)
    try:
        # Tried out, as the flush size can come from the session, from a recipe or from a knob.
        variant(memory_of(session_id), chosen)
    except MemoryInspectorError:
        _put(
            session_id, replace(chosen, knobs=(*(k for k in chosen.knobs if k[0] != _FLUSH_SIZE), (_FLUSH_SIZE, limit)))
        )


def take_recipe(session_id: str, name: str, recipe: str | None) -> None:
    """Begin with a recipe (None: the session's own configuration); changes made before are discarded."""
    # Without the former knobs: they may name blocks that the recipe does not have.
    _put(session_id, Tried(name, recipe))


def begin_with(session_id: str, recipe: str) -> None:
    """Show and play a configuration that begins with a recipe; others in which something was changed stay beside it."""
    now = desk(session_id)
    made = next((tried for tried in now.tried if tried == Tried(tried.name, recipe)), None)
    if made is not None:
        show(session_id, made.name)
    else:
        # Nothing is lost where nothing was changed. With three configurations, the shown one begins again.
        if now.current != Tried(now.shown):
            add(session_id)
        take_recipe(session_id, desk(session_id).shown, recipe)
    ask(session_id)


def strike(session_id: str, position: int) -> None:
    """Strike an event in the shown configuration, or put it back."""
    now = desk(session_id)
    current = now.current
    remaining = tuple(struck for struck in current.struck if struck != position)
    _put(session_id, replace(current, struck=remaining if position in current.struck else (*current.struck, position)))
    # An event after the held moment would be struck from nothing.
    if now.upto is not None and position > now.upto:
        go_on(session_id)


def is_struck(tried: Tried, record: EventRecord, before: Sequence[VariantChange]) -> bool:
    """Tell whether an event is struck in a configuration. `before`: changes that revert the event's settings."""
    # A setting made by a person is struck by setting it back, which is kept as a knob.
    taken_back = bool(before) and {(change.setting, change.after) for change in before} <= set(tried.knobs)
    return taken_back or record.position in tried.struck


def struck_in(memory: Memory, records: Iterable[EventRecord]) -> frozenset[int]:
    """Return the positions of the records that are struck in the shown configuration."""
    tried = desk(memory.session_id).current
    if not tried.struck and not tried.knobs:
        return frozenset()  # most of the time; the check below may read the log for each record
    return frozenset(
        record.position
        for record in records
        if may_be_struck(record) and is_struck(tried, record, changes_without(memory, record))
    )


def take_back(session_id: str, name: str, knob: str) -> None:
    chosen = next(chosen for chosen in desk(session_id).tried if chosen.name == name)
    _put(session_id, replace(chosen, knobs=tuple(pair for pair in chosen.knobs if pair[0] != knob)))


def _put(session_id: str, tried: Tried) -> None:
    now = desk(session_id)
    _DESKS.change(session_id, tried=tuple(tried if variant.name == tried.name else variant for variant in now.tried))
