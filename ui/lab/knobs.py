"""The settings that are tried, as fields; each change is a chip that can be taken back."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import streamlit as st

from memory_core import ConfigError, Memory, MemoryConfig
from memory_core.blocks import BUILT_IN
from memory_core.config import MAX_TOKENS
from memory_core.interop.configuration import StoredBlock
from memory_core.lab.striking import words_of
from memory_core.lab.variants import Change
from memory_core.recipes import RECIPES
from memory_inspector.wording.block_kinds import Field, fields_of, kind_of
from memory_inspector.wording.event_sentences.setting_values import SETTINGS, value_words
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.terms import HELP
from ui.lab import tried_variants
from ui.lab.tried_variants import Tried
from ui.parts.components import limits

LEAST_LIMIT = 50
"""Smallest token limit that can be tried; below it a prompt holds only its question."""

_ORDERS = {"largest_first": "Largest priority number", "smallest_first": "Smallest priority number"}
_PRIORITY = Field("priority", "Priority", "0 is never cut; of the others, the largest number is cut first.", "whole")
_ENABLED = Field("enabled", "In use", "Off: it receives nothing and is in no prompt.", "toggle")


def chip(change: Change) -> str:
    """Return a change in a few words, as markdown: `Token limit 1,200 → 800`."""
    return plain(described(change))


def described(change: Change) -> str:
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
    name = SETTINGS.get(setting, setting.replace("_", " ")).removeprefix("the ")
    return f"{short(place)}: {name}" if place else name[:1].upper() + name[1:]


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
    draw = partial(_draw_number, memory.session_id, tried.name)
    draw(
        "token_limit", "Token limit", own_config.token_limit, now.token_limit, (LEAST_LIMIT, MAX_TOKENS), HELP["limit"]
    )
    share = round(now.chat_history_token_ratio * 100)
    ratio, about = own_config.chat_history_token_ratio, HELP["flush_line"]
    draw("chat_history_token_ratio", "History share, %", ratio, share, (1, 100), about)
    if now.token_limit < MAX_TOKENS:
        st.markdown(f":small[:gray[Flushes above {tokens(int(now.history_budget))} tokens.]]")
    largest = (1, now.token_limit)
    draw("token_flush_size", "Flush size", own_config.token_flush_size, now.flush_size, largest, HELP["flush_size"])
    own_value, value, bounds = own_config.reserved_tokens, now.reserved_tokens, (0, MAX_TOKENS)
    draw("reserved_tokens", "System prompt and tools", own_value, value, bounds, HELP["reserved"])
    own_value, value = own_config.learning_context, now.learning_context
    draw("learning_context", "Context for learning", own_value, value, bounds, HELP["learning_context"])


def _draw_number(
    session_id: str,
    name: str,
    setting: str,
    label: str,
    own_value: float | None,
    now: int,
    within: tuple[int, int],
    help: str,
) -> None:
    """Draw a field for one of the memory's settings, in whole numbers: a share is typed as percent.

    Clearing the field reverts the change.
    """
    key = f"lab__{name}_{setting}"
    is_share = setting == "chat_history_token_ratio"

    def keep() -> None:
        value = st.session_state[key]
        if value == now:  # a browser may send the value it was given: that is no change
            return
        # Percent on screen, a fraction in the configuration.
        taken = own_value if value is None else value / 100 if is_share else value
        tried_variants.turn_knob(session_id, name, setting, taken, own_value)
        # A flush size above the limit would make the configuration impossible.
        if setting == "token_limit" and taken is not None:
            tried_variants.lower_flush_size(session_id, name, int(taken))

    limited = now < MAX_TOKENS
    # Streamlit refuses a value outside the bounds of a field; a missing limit is an empty field.
    st.session_state[key] = max(within[0], min(within[1], now)) if limited else None
    st.number_input(
        label,
        min_value=within[0],
        max_value=within[1],
        value=None,
        step=5 if is_share else 10 ** (len(str(now)) - 2) if limited and now >= 100 else 1,
        key=key,
        placeholder="none",
        help=help,
        on_change=keep,
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
        shown = [_ENABLED, _PRIORITY, *(f for f in fields_of(block.type, has_user=True) if not f.group)]
        for field in shown:
            if field.setting in base and field.sort in ("whole", "share", "toggle", "choice") and _applies(field, now):
                _draw_field(session_id, tried, block, field, now[field.setting], base[field.setting])


def _applies(field: Field, settings: Mapping[str, Any]) -> bool:
    return field.setting != "scope" and (field.when is None or settings.get(field.when[0]) == field.when[1])


def _draw_field(session_id: str, tried: Tried, block: StoredBlock, field: Field, now: Any, own_value: Any) -> None:
    knob = f"{block.name}.{field.setting}"
    key = f"lab__{tried.name}_{knob}"
    st.session_state[key] = now

    def keep() -> None:
        tried_variants.turn_knob(session_id, tried.name, knob, st.session_state[key], own_value)

    if field.sort == "toggle":
        st.toggle(field.title, key=key, help=field.help, on_change=keep)
    elif field.choices is not None:
        choices = field.choices
        st.selectbox(
            field.title,
            list(choices),
            key=key,
            format_func=lambda value: choices.get(value, value),
            help=field.help,
            on_change=keep,
        )
    else:
        # Streamlit wants value, bounds and step of one number type.
        number, step = (float, 0.01) if field.sort == "share" else (int, 1)
        st.session_state[key] = None if now is None else number(now)
        st.number_input(
            field.title,
            **limits(BUILT_IN[kind_of(block.type).key], field.setting, number),
            value=None,
            step=step,
            key=key,
            placeholder=field.without if field.optional else None,
            help=field.help,
            on_change=keep,
        )
