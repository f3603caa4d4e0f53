"""Texts and data of the recipes section: rows, sentences, the effects of a switch. Pure.

Sentences are markdown in which quoted words are escaped, unless said otherwise.
"""

from collections.abc import Mapping
from typing import Any

from memory_core import ConfigError, Holding, Memory
from memory_core.blocks import WITH_TEXT
from memory_core.recipes import RECIPES, Recipe
from memory_core.sessions.switch_recipe import LeftBlock, NewBlock, SwitchPlan
from memory_core.text import listed
from memory_inspector.wording.block_kinds import TURN, stored
from memory_inspector.wording.formatting import count, plain, short
from memory_inspector.wording.settings import setting_of, value_words

NO_RECIPE = "a custom setup"
"""Name for the setup of a session that no recipe made."""

NAMED_CHANGES = 3
"""Maximum number of changed settings of a block listed by name; beyond it they are counted."""


def title_of(key: str | None, *, changed: bool = False) -> str:
    """Display name of a recipe: `Short-term + blocks, changed since`. Plain text."""
    if key is None:
        return NO_RECIPE
    recipe_chosen = RECIPES.get(key)
    title = recipe_chosen.title if recipe_chosen is not None else short(key)
    return f"{title}, changed since" if changed else title


# -- the recipes ---------------------------------------------------------------------------------


def opening(running: str, turns: int, blocks: int) -> str:
    """The section's opening sentence. `running` is plain text: the name of the session's setup."""
    size = f"{count(turns, 'turn')} so far" if turns else "nothing said yet"
    return f"This session runs on **{plain(running)}**: {count(blocks, 'block')}, {size}."


def rows_in_words(current: str | None) -> list[dict[str, str]]:
    """Return a row per recipe of the table."""
    return [
        {
            "Recipe": _row_name(recipe, current),
            "In one line": recipe.tagline,
            "Good at": recipe.strengths,
            "Weak at": recipe.limits,
        }
        for recipe in RECIPES.values()
    ]


def _row_name(recipe: Recipe, current: str | None) -> str:
    return f"✓ {recipe.title}" if recipe.key == current else recipe.title


def running_on(memory: Memory) -> tuple[str | None, bool]:
    """The recipe that the session names or else matches (None: neither), and whether the session was changed since."""
    named = memory.session.config.recipe
    if named in RECIPES:
        # If a switch to the same recipe would change something, the session was changed since.
        return named, bool(plan_for(memory, named)[0])
    # A session that names no recipe may still be set up exactly like one.
    return next((key for key in RECIPES if _fits(memory, key)), None), False


def _fits(memory: Memory, key: str) -> bool:
    plan, refused = plan_for(memory, key)
    return refused is None and not plan


def plan_for(memory: Memory, key: str, **parameters: Any) -> tuple[SwitchPlan | None, str | None]:
    """The plan of a switch, or the reason why it is impossible."""
    try:
        return memory.preview.switch(key, **parameters), None
    except ConfigError as error:
        return None, str(error)


# -- the switch ----------------------------------------------------------------------------------


def plan_lines(plan: SwitchPlan, units: Mapping[str, str]) -> list[str]:
    """Lines on what a switch keeps, adds, removes and changes; empty categories are omitted.

    `units`: nouns for the stored units of vector blocks, from `memory_inspector.wording.block_kinds.units`.
    """
    lines = []
    if plan.kept:
        lines.append(f"**Keeps** {listed([plain(short(name)) for name in plan.kept])}.")
    if plan.added:
        lines.append(f"**Adds** {listed([_added(block) for block in plan.added])}.")
    if plan.removed:
        lines.append(f"**Removes** {listed([_removed(block, units.get(block.name, TURN)) for block in plan.removed])}.")
    lines += [f"**Changes** {plain(short(name))}: {_changes(changes)}." for name, changes in plan.changed.items()]
    if plan.settings:
        lines.append(f"**Changes** {_changes(plan.settings)}.")
    return lines


def _added(block: NewBlock) -> str:
    filled = f" (filled from {count(block.fills, 'message')})" if block.fills else ""
    return f"{plain(short(block.name))}{filled}"


def _removed(block: LeftBlock, unit: str) -> str:
    return f"{plain(short(block.name))} ({stays(block.kind, block.holds, unit)})"


def stays(kind: str, holds: Holding, unit: str = TURN) -> str:
    """Clause on what becomes of the contents of a removed block: `its 9 facts stay stored`.

    `unit`: noun for the stored units of a vector block.
    """
    if kind == "facts":
        facts = sum(holds.facts.values())
        return (
            f"its {count(facts, 'fact')} {'stays' if facts == 1 else 'stay'} stored" if facts else "it holds no facts"
        )
    if kind == "vector":
        goes = "is deleted" if holds.turns == 1 else "are deleted"
        return f"its {stored(holds.turns, unit)} {goes}; the messages stay" if holds.turns else "nothing is stored"
    if kind == "graph":
        return "its relations stay stored"
    if kind in WITH_TEXT:
        return "its text is deleted; the messages stay"
    return "its contents are deleted"


def _changes(changes: Mapping[str, tuple[Any, Any]]) -> str:
    parts = [_setting(name, before, after) for name, (before, after) in list(changes.items())[:NAMED_CHANGES]]
    # The first few by name, the others as a number, so that the line stays short.
    more = len(changes) - NAMED_CHANGES
    return ", ".join([*parts, *([count(more, "other setting")] if more > 0 else [])])


def _setting(name: str, before: object, after: object) -> str:
    return f"{plain(setting_of(name).noun)} {plain(value_words(name, before))} → {plain(value_words(name, after))}"


def switched(plan: SwitchPlan) -> str:
    """Message shown after the switch. Plain text."""
    filling = [block for block in plan.added if block.fills]
    done = f"The session now runs on {plan.recipe.title}."
    if not filling:
        return done
    names = " and ".join(short(block.name) for block in filling)
    verb = "is" if len(filling) == 1 else "are"
    # Blocks read the same messages, so their numbers overlap and are not added up.
    return f"{done} {names} {verb} being filled from {count(max(block.fills for block in filling), 'message')}."
