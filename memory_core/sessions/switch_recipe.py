"""Switch a session to another recipe: preview which blocks stay, are added or removed, then apply all at once.

Fixed texts and custom blocks stay. A learning block stays if the recipe has one of its kind with the same scope and
input; it takes over the recipe's settings and keeps its name. Added blocks learn from the messages already stored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from memory_core.blocks import BUILT_IN, BaseMemoryBlock
from memory_core.config import MemoryConfig
from memory_core.curation import settings as editing
from memory_core.engine import delivery, queue
from memory_core.engine.session import Session, SessionBlock
from memory_core.errors import ConfigError
from memory_core.events import Actor, RecipeChosen
from memory_core.recipes import Recipe, RecipeSpec, recipe
from memory_core.store.block_rows import Holding, read_holding

Block = BaseMemoryBlock[Any]

_SETTLED = (
    "accept_short_term_memory",
    "categories",
    "deliver_on",
    "enabled",
    "limit",
    "on_change",
    "priority",
    "read_only",
    "show",
)
"""Settings that a recipe applies to a kept block even at their default: another recipe may have changed them."""

_LEAVES_ROOM = ("chat_history_token_ratio", "token_flush_size")
"""Settings by which the queue leaves room for blocks; they are kept if the queue leaves room already."""


@dataclass(frozen=True, slots=True)
class NewBlock:
    """A block that the switch adds."""

    name: str
    kind: str
    fills: int
    """Number of the session's messages that the block receives at once."""


@dataclass(frozen=True, slots=True)
class LeftBlock:
    """A block that the switch removes."""

    name: str
    kind: str
    holds: Holding
    note: str
    """Sentence that says what happens to the block's contents."""


@dataclass(frozen=True)
class SwitchPlan:
    """Effects of switching to a recipe. If it is empty, the session already matches the recipe."""

    recipe: Recipe
    kept: tuple[str, ...]
    """Names of the blocks that stay."""
    added: tuple[NewBlock, ...]
    removed: tuple[LeftBlock, ...]
    changed: Mapping[str, Mapping[str, tuple[Any, Any]]]
    """Settings that change, by kept block, each with its value before and after."""
    settings: Mapping[str, tuple[Any, Any]]
    """Settings of the memory that change, before and after, except the recipe's name."""
    order: tuple[str, ...]
    """Names of the blocks afterwards, in prompt order."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Recipe parameters that differ from their defaults."""
    blocks: Sequence[Block] = field(default=(), repr=False)
    """The added blocks."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.settings)


def plan_switch(session: Session, key: str, parameters: Mapping[str, Any]) -> SwitchPlan:
    """See `Memory.preview.switch`."""
    with session.database.read() as connection:
        session.keep_up(connection)
        chosen = recipe(key)
        # Switching to the recipe in use repairs its blocks and keeps the parameters chosen for it.
        stored = session.config.recipe_parameters if key == session.config.recipe else {}
        made = chosen.made(**{**stored, **parameters})
        matches, new = _matched(session.blocks, made)
        if chosen.of_user and not session.user_id:
            raise ConfigError(f'"{chosen.title}" belongs to a user, and this session has none: start one for a user')
        stay = [a for a in session.blocks if a.name in matches or a.kind in ("static", "custom")]
        gone = [a for a in session.blocks if a not in stay]
        names = {a.name for a in stay}
        for block in new:
            block.name = _free(block.name, names)
            names.add(block.name)
        # New blocks learn from stored messages; the preview says from how many.
        learners = [block for block in new if block.kind_learns and block.accept_short_term_memory and block.enabled]
        fills = {block.name: len(queue.due_at_once(session, connection, block.deliver_on)) for block in learners}
        return SwitchPlan(
            recipe=chosen,
            kept=tuple(attached.name for attached in stay),
            added=tuple(NewBlock(block.name, block.kind, fills.get(block.name, 0)) for block in new),
            removed=tuple(_removed_block(session, connection, attached) for attached in gone),
            changed=_changes(stay, matches, same=session.config.recipe in (None, key)),
            settings=_settings(session.config, made),
            order=_order(stay, matches, made, new),
            parameters=made.settings["recipe_parameters"],
            blocks=tuple(new),
        )


def switch(session: Session, key: str, parameters: Mapping[str, Any], actor: Actor) -> SwitchPlan:
    """See `Memory.session.switch`."""
    plan = plan_switch(session, key, parameters)
    with session.changing() as w:
        # Planned outside of the transaction: another process may have changed the blocks since.
        if {a.name for a in session.blocks} != {*plan.kept, *(block.name for block in plan.removed)}:
            raise editing.changed_elsewhere("The blocks were")
        before = session.config.recipe
        named = {"recipe": key, "recipe_parameters": dict(plan.parameters)}
        editing.write_configuration(session, w, {n: v for n, (_, v) in plan.settings.items()} | named, actor)
        for removed in plan.removed:
            editing.remove_block(session, w, removed.name, actor)
        for name, changes in plan.changed.items():
            editing.write_settings(session, w, name, {n: after for n, (_, after) in changes.items()}, actor)
        for block in plan.blocks:
            editing.add_block(session, w, block, actor)
        editing.write_order(session, w, plan.order, actor)
        # The blocks as they now are in the database, before messages are queued for them.
        session.load(w.connection, w.session)
        for attached in session.blocks:
            if attached.name in {block.name for block in plan.blocks}:
                queue.fill(session, w, attached)
        if plan or before != key:
            w.record(
                RecipeChosen(
                    recipe=key,
                    before=before,
                    kept=plan.kept,
                    added=tuple(block.name for block in plan.added),
                    removed=tuple(block.name for block in plan.removed),
                ),
                actor=actor,
            )
        # Another recipe may leave less room for recent messages.
        queue.flush_queue(session, w, "over_budget")
    return plan


def _key(block: Block | SessionBlock) -> tuple[Any, ...]:
    """Return a key that a block shares with those it may continue as: kind, scope and input, or a fixed text's name."""
    settings = block.settings if isinstance(block, SessionBlock) else block.settings()
    if block.kind == "static":
        return block.kind, block.name
    return block.kind, settings.get("scope", "session"), settings.get("accept_short_term_memory", True)


def _matched(present: Sequence[SessionBlock], made: RecipeSpec) -> tuple[dict[str, Block], list[Block]]:
    """Return the present blocks that continue as one of the recipe's, by name, and the recipe's blocks that are new."""
    matches: dict[str, Block] = {}
    new: list[Block] = []
    for block in made.blocks:
        # Each present block continues as one block at most.
        alike = [a for a in present if _key(a) == _key(block) and a.name not in matches]
        alike.sort(key=lambda attached: attached.name != block.name)  # prefer one of the same name
        if alike:
            matches[alike[0].name] = block
        else:
            new.append(block)
    return matches, new


def _changes(
    stay: Sequence[SessionBlock], matches: Mapping[str, Block], *, same: bool
) -> dict[str, dict[str, tuple[Any, Any]]]:
    """Return the settings that change, by kept block; `same`: True if the session already uses this recipe, or none."""
    changes = {}
    for attached in stay:
        block = matches.get(attached.name)
        if block is not None:
            wanted = _wanted(block)
        elif attached.kind == "static" and not attached.settings["read_only"]:
            wanted = {"read_only": True}  # no recipe's agent edits it from now on; its text stays
        else:
            continue
        # A version that did not know a setting has not changed it: its sessions stay as their recipe made them.
        had, stored = attached.settings, attached.record.settings if same else attached.settings
        differ = {name: (had[name], value) for name, value in wanted.items() if name in stored and had[name] != value}
        if differ:
            changes[attached.name] = differ
    return changes


def _wanted(block: Block) -> dict[str, Any]:
    """Return the settings that a recipe determines: those that are not the default, and those it always applies."""
    defaults = BUILT_IN[block.kind].make_empty(name=block.name).settings()
    return {
        name: value
        for name, value in block.settings().items()
        if name not in ("name", "description") and (name in _SETTLED or defaults[name] != value)
    }


def _settings(config: MemoryConfig, made: RecipeSpec) -> dict[str, tuple[Any, Any]]:
    now = config.model_dump(mode="json")
    wanted = {name: value for name, value in made.settings.items() if not name.startswith("recipe")}
    if wanted["chat_history_token_ratio"] < 1 and config.chat_history_token_ratio < 1:
        wanted = {name: value for name, value in wanted.items() if name not in _LEAVES_ROOM}
    return {name: (now[name], value) for name, value in wanted.items() if now[name] != value}


def _order(
    stay: Sequence[SessionBlock], matches: Mapping[str, Block], made: RecipeSpec, new: Sequence[Block]
) -> tuple[str, ...]:
    """Return the blocks' order: fixed texts, then the recipe's blocks in its order, then custom blocks."""
    places = {id(block): name for name, block in matches.items()} | {id(block): block.name for block in new}
    of_recipe = [places[id(block)] for block in made.blocks]
    fixed = [a.name for a in stay if a.kind == "static" and a.name not in of_recipe]
    not_of_recipe = [a.name for a in stay if a.kind != "static" and a.name not in of_recipe]
    return (*fixed, *of_recipe, *not_of_recipe)


def _removed_block(session: Session, connection: Connection, attached: SessionBlock) -> LeftBlock:
    scope = delivery.scope_key(session, attached)
    holds = read_holding(connection, session.id, scope, attached.name, attached.kind)
    return LeftBlock(attached.name, attached.kind, holds, BUILT_IN[attached.kind].kind_when_removed)


def _free(name: str, taken: set[str]) -> str:
    """Return the name, with a number appended if it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
