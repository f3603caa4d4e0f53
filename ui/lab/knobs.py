"""The settings that are tried, as fields; each change is a chip that can be taken back."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from memory_core import ConfigError, Memory, MemoryConfig
from memory_core.blocks import BUILT_IN
from memory_core.config import MAX_TOKENS
from memory_core.recipes import RECIPES
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.striking import words_of
from memory_inspector.lab.variants import VariantChange
from memory_inspector.wording import settings
from memory_inspector.wording.block_kinds import kind_of, settings_of
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.settings import SETTINGS, Setting, setting_of, value_words
from ui.lab import tried_variants
from ui.lab.tried_variants import Tried
from ui.parts.fields import draw_setting

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


def draw(memory: Memory, tried: Tried) -> None:
    """Draw the settings of a tried configuration as fields."""
    session_id = memory.session_id
    try:
        own_config = tried_variants.own_variant(memory)
        # 1. What a field returns to when it is emptied: the session's own configuration, or that of the recipe.
        base = own_config if tried.recipe is None else tried_variants.variant(memory, Tried(tried.name, tried.recipe))
        now = tried_variants.variant(memory, tried)
    except ConfigError:  # the page says which value is impossible
        _draw_chips(memory, tried)
        st.button(
            "Begin again", key="lab__again", on_click=tried_variants.take_recipe, args=(session_id, tried.name, None)
        )
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
                on_click=tried_variants.take_back,
                args=(session_id, tried.name, knob),
            )
        for position in tried.struck:
            st.button(
                f"~~{plain(struck_words(memory, position))}~~",
                key=f"lab__struck_{tried.name}_{position}",
                icon=":material/close:",
                help="Put this event back",
                on_click=tried_variants.strike,
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
        on_change=lambda: tried_variants.take_recipe(session_id, tried.name, st.session_state[key] or None),
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
        tried_variants.turn_knob(session_id, name, setting.name, taken, own_value)
        # A flush size above the limit would make the configuration impossible.
        if setting.name == "token_limit" and taken is not None:
            tried_variants.lower_flush_size(session_id, name, int(taken))

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
        tried_variants.turn_knob(session_id, tried.name, knob, st.session_state[key], own_value)

    st.session_state[key] = setting.in_field(now)
    draw_setting(setting, BUILT_IN[kind_of(block.type).key], key, on_change=keep)
