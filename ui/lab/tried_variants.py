"""Configurations that the Lab tries in a tab, up to three beside the session's own, and fields that change them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import streamlit as st

from memory_core import ConfigError, Memory, MemoryConfig, MemoryInspectorError
from memory_core.blocks import BUILT_IN
from memory_core.config import MAX_TOKENS
from memory_core.events import EventRecord
from memory_core.recipes import RECIPES
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.striking import MAX_STRUCK, changes_without, may_be_struck, words_of
from memory_inspector.lab.variants import Variant, VariantChange, differences, variant_after_switch, variant_of
from memory_inspector.wording import settings
from memory_inspector.wording.block_kinds import kind_of, settings_of
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.settings import SETTINGS, Setting, setting_of, value_words
from ui.parts.fields import draw_setting
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


# -- the fields; each change is a chip that can be taken back -------------------------------------


LEAST_LIMIT = 50
"""Smallest token limit that can be tried; below it a prompt holds only its question."""


def chip(change: VariantChange) -> str:
    """Return a change in a few words, as markdown: `Token limit 1,200 → 800`."""
    return plain(described(change))


def described(change: VariantChange) -> str:
    """Return a change in a few words, as plain text: `Token limit 1,200 → 800`."""
    place, _, setting = change.setting.rpartition(".")
    if isinstance(change.before, StoredBlock) or isinstance(change.after, StoredBlock):
        return change.words
    name = named(place, setting)
    if setting == "text":
        return f"{name} reworded"
    return f"{name} {value_words(setting, change.before)} → {value_words(setting, change.after)}"


def value_named(knob: str, value: Any) -> str:
    """Return a setting with its value as plain text: `Token limit 1,600`, `Facts: learning → after each turn`."""
    place, _, setting = knob.rpartition(".")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{named(place, setting)} {'' if number else '→ '}{value_words(setting, value)}"


def draw_fields(memory: Memory, tried: Tried) -> None:
    """Draw the settings of a tried configuration as fields."""
    session_id = memory.session_id
    try:
        own_config = own_variant(memory)
        # 1. What a field returns to when it is emptied: the session's own configuration, or that of the recipe.
        base = own_config if tried.recipe is None else variant(memory, Tried(tried.name, tried.recipe))
        now = variant(memory, tried)
    except ConfigError:  # the page says which value is impossible
        _draw_chips(memory, tried)
        st.button("Begin again", key="lab__again", on_click=take_recipe, args=(session_id, tried.name, None))
        return
    _draw_chips(memory, tried)
    _draw_recipe(session_id, tried)
    _draw_memory(memory, tried, base.config, now.config)
    # 2. Both have the same blocks: knobs change settings, and never add a block.
    for block, stored in zip(now.blocks, base.blocks, strict=True):
        _draw_block(session_id, tried, block, stored)


def _draw_chips(memory: Memory, tried: Tried) -> None:
    session_id = memory.session_id
    with st.container(horizontal=True, gap="xsmall", key="lab__chips"):
        for knob, value in tried.knobs:
            st.button(
                plain(value_named(knob, value)),
                key=f"lab__chip_{tried.name}_{knob}",
                icon=":material/close:",
                help="Take this change back",
                on_click=take_back,
                args=(session_id, tried.name, knob),
            )
        for position in tried.struck:
            st.button(
                f"~~{plain(struck_words(memory, position))}~~",
                key=f"lab__struck_{tried.name}_{position}",
                icon=":material/close:",
                help="Put this event back",
                on_click=strike,
                args=(session_id, position),
            )


def struck_words(memory: Memory, position: int) -> str:
    """Return a struck event in a few words, as plain text."""
    # The position may be of an event that a reset has erased.
    record = next(iter(memory.log.history().after(position - 1)[:1]), None)
    unchanged = record is not None and record.position == position
    return words_of(record) if record is not None and unchanged else "an event that is not in the log any more"


def named(place: str, setting: str) -> str:
    """Return a setting in words, with its block: `Facts: priority`."""
    name = setting_of(setting).noun.removeprefix("the ")
    return f"{short(place)}: {name}" if place else settings.named(setting)


def _draw_recipe(session_id: str, tried: Tried) -> None:
    key = f"lab__recipe_{tried.name}"
    # Set at every drawing: a link or another configuration in sight changes it too.
    st.session_state[key] = tried.recipe or ""
    st.selectbox(
        "Begin with",
        ["", *RECIPES],
        key=key,
        format_func=lambda recipe: RECIPES[recipe].title if recipe else "This session's configuration",
        on_change=lambda: take_recipe(session_id, tried.name, st.session_state[key] or None),
    )


def effective_limit(memory: Memory, limit: int) -> int:
    """Return a token limit, or for an attached agent's session, which has none, twice the tokens of its queue."""
    # `MAX_TOKENS` stands for no limit: sweeping around it would tell nothing.
    return limit if limit < MAX_TOKENS else max(2 * memory.session.status().queue_tokens, 2 * LEAST_LIMIT)


def _draw_memory(memory: Memory, tried: Tried, own_config: MemoryConfig, now: MemoryConfig) -> None:
    def draw(name: str, value: float | None = None) -> None:
        stored = getattr(now, name) if value is None else value
        _draw_number(memory.session_id, tried.name, SETTINGS[name], getattr(own_config, name), stored, now)

    draw("token_limit")
    draw("chat_history_token_ratio")
    if now.token_limit < MAX_TOKENS:
        st.markdown(f":small[:gray[Flushes above {tokens(int(now.history_budget))} tokens.]]")
    draw("token_flush_size", now.flush_size)
    draw("reserved_tokens")
    draw("learning_context")


def _draw_number(
    session_id: str, name: str, setting: Setting, own_value: float | None, stored: float, config: MemoryConfig
) -> None:
    """Draw a field for one of the memory's settings, in whole numbers: a share is typed as percent.

    Clearing the field reverts the change.
    """
    key, value = f"lab__{name}_{setting.name}", setting.in_field(stored)

    def keep() -> None:
        typed = st.session_state[key]
        if typed == value:  # a browser may send the value it was given: that is no change
            return
        taken = own_value if typed is None else setting.from_field(typed)
        turn_knob(session_id, name, setting.name, taken, own_value)
        # A flush size above the limit would make the configuration impossible.
        if setting.name == "token_limit" and taken is not None:
            lower_flush_size(session_id, name, int(taken))

    least = {"token_limit": LEAST_LIMIT, "token_flush_size": 1, "chat_history_token_ratio": 1}.get(setting.name, 0)
    most = {"token_flush_size": config.token_limit, "chat_history_token_ratio": 100}.get(setting.name, MAX_TOKENS)
    limited = value < MAX_TOKENS
    # Streamlit refuses a value outside the bounds of a field; a missing limit is an empty field.
    st.session_state[key] = max(least, min(most, value)) if limited else None
    draw_setting(
        setting,
        MemoryConfig,
        key,
        on_change=keep,
        empty="none",
        min_value=least,
        max_value=most,
        step=5 if setting.sort == "percent" else 10 ** (len(str(value)) - 2) if limited and value >= 100 else 1,
    )


def _draw_block(session_id: str, tried: Tried, block: StoredBlock, own_block: StoredBlock) -> None:
    made, before = block.make(), own_block.make()
    # A block of a class that is not installed here: its settings are not known, and it stays as it is.
    if made is None or before is None:
        return
    # The class's defaults first, for settings that the stored block may lack.
    now, base = {**made.settings(), **block.settings}, {**before.settings(), **own_block.settings}
    opened = st.expander(plain(short(block.name, 40)), key=f"lab__block_{tried.name}_{block.name}", type="compact")
    with opened:
        offered = (s for s in settings_of(block.type, has_user=True) if not s.group)
        for setting in (SETTINGS["enabled"], SETTINGS["priority"], *offered):
            if setting.name in base and setting.sort not in ("labels", "text") and _applies(setting, now):
                _draw_of_block(session_id, tried, block, setting, now[setting.name], base[setting.name])


def _applies(setting: Setting, settings: Mapping[str, Any]) -> bool:
    return setting.name != "scope" and (setting.when is None or settings.get(setting.when[0]) == setting.when[1])


def _draw_of_block(
    session_id: str, tried: Tried, block: StoredBlock, setting: Setting, now: Any, own_value: Any
) -> None:
    knob = f"{block.name}.{setting.name}"
    key = f"lab__{tried.name}_{knob}"

    def keep() -> None:
        turn_knob(session_id, tried.name, knob, st.session_state[key], own_value)

    st.session_state[key] = setting.in_field(now)
    draw_setting(setting, BUILT_IN[kind_of(block.type).key], key, on_change=keep)
