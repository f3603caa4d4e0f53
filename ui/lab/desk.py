"""What is being tried in one tab: up to three configurations beside the session's own."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_core import Memory, MemoryInspectorError
from memory_core.lab.variants import Change, Variant, differences, variant_after_switch, variant_of
from ui import state
from ui.view import memory_of

OWN = "A"
"""The session's own configuration."""

NAMES = ("B", "C", "D")
_FLUSH_SIZE = "token_flush_size"


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration: the session's own, or that of a recipe, with some settings changed."""

    name: str
    recipe: str | None = None
    knobs: tuple[tuple[str, Any], ...] = ()
    """Changed settings as `Change` names them, with their values."""


@dataclass(frozen=True, slots=True)
class Desk:
    """The configurations of one session in one tab."""

    tried: tuple[Tried, ...] = (Tried(NAMES[0]),)
    shown: str = NAMES[0]
    """The one whose settings and prompts are in sight."""
    asked: bool = False
    """Whether the conversation is to be played; until then nothing runs."""

    @property
    def current(self) -> Tried:
        return next((each for each in self.tried if each.name == self.shown), self.tried[0])


_DESKS = state.ByPlace("lab", Desk())


def desk(session_id: str) -> Desk:
    return _DESKS.at(session_id)


def own_variant(memory: Memory) -> Variant:
    return variant_of(memory, OWN)


def variant(memory: Memory, tried: Tried) -> Variant:
    """The configuration that is tried.

    Raises:
        ConfigError: a value is impossible, or no longer: the session may have been changed meanwhile.
    """
    base = own_variant(memory) if tried.recipe is None else variant_after_switch(memory, tried.recipe)
    return base.with_changes(tried.name, [Change(knob, None, value) for knob, value in tried.knobs])


def changes(memory: Memory, tried: Tried) -> tuple[Change, ...]:
    """In what it differs from the session's own configuration."""
    return differences(own_variant(memory), variant(memory, tried))


# -- callbacks ---------------------------------------------------------------------------------------


def ask(session_id: str) -> None:
    _DESKS.change(session_id, asked=True)


def show(session_id: str, name: str) -> None:
    _DESKS.change(session_id, shown=name)


def add(session_id: str) -> None:
    """Another configuration, a copy of the one in sight."""
    now = desk(session_id)
    free = next((name for name in NAMES if name not in {each.name for each in now.tried}), None)
    if free is not None:
        _DESKS.change(session_id, tried=(*now.tried, replace(now.current, name=free)), shown=free)


def remove(session_id: str, name: str) -> None:
    now = desk(session_id)
    left = tuple(each for each in now.tried if each.name != name)
    _DESKS.change(session_id, tried=left or (Tried(NAMES[0]),), shown=(left or (Tried(NAMES[0]),))[0].name)


def turn_knob(session_id: str, name: str, knob: str, value: Any, own: Any) -> None:
    """Set one value; the session's own value is no change."""
    now = desk(session_id)
    each = next(each for each in now.tried if each.name == name)
    knobs = dict(each.knobs)
    knobs.pop(knob, None)
    if value != own:
        knobs[knob] = value
    _put(session_id, replace(each, knobs=tuple(knobs.items())))


def mend(session_id: str, name: str, mending: Sequence[Change]) -> None:
    """Set what mends a finding; it counts as changed like anything else that is tried."""
    each = next(each for each in desk(session_id).tried if each.name == name)
    knobs = {**dict(each.knobs), **{change.setting: change.after for change in mending}}
    _put(session_id, replace(each, knobs=tuple(knobs.items())))


def lower_flush_size(session_id: str, name: str, limit: int) -> None:
    """A flush size above the limit is none: it goes down with it, which is a change of its own."""
    each = next(each for each in desk(session_id).tried if each.name == name)
    try:
        variant(memory_of(session_id), each)
    except MemoryInspectorError:
        _put(session_id, replace(each, knobs=(*(k for k in each.knobs if k[0] != _FLUSH_SIZE), (_FLUSH_SIZE, limit))))


def take_recipe(session_id: str, name: str, recipe: str | None) -> None:
    """Begin with a recipe, None: with the session's own configuration; changed settings are those of another design."""
    _put(session_id, Tried(name, recipe))


def take_back(session_id: str, name: str, knob: str) -> None:
    each = next(each for each in desk(session_id).tried if each.name == name)
    _put(session_id, replace(each, knobs=tuple(pair for pair in each.knobs if pair[0] != knob)))


def _put(session_id: str, tried: Tried) -> None:
    now = desk(session_id)
    _DESKS.change(session_id, tried=tuple(tried if each.name == tried.name else each for each in now.tried))
