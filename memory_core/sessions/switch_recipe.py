"""Switching a session to another recipe: what stays, what comes, what goes, said before and done at once.

Fixed texts and blocks of somebody's own stay. A block that learns stays where the recipe has one
of its kind that keeps the same things; it takes over the recipe's settings and keeps its name.
What comes is filled from the messages that are there already.
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
from memory_core.events import Actor, RecipeChosen, ranges
from memory_core.messages import MessageStatus
from memory_core.planning.flush import complete_turns
from memory_core.recipes import Made, Recipe, recipe
from memory_core.store.blocks import Holding, read_holding
from memory_core.store.deliveries import given_seqs
from memory_core.store.erasing import message_seqs
from memory_core.store.messages import sizes_between
from memory_core.store.writing import Writing

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
"""What a recipe settles for a block that stays even where it is the default: another recipe may have set it."""

_LEAVES_ROOM = ("chat_history_token_ratio", "token_flush_size")
"""How a queue leaves room for blocks. Where it does already, a recipe that needs room takes it as it is."""


@dataclass(frozen=True, slots=True)
class NewBlock:
    """A block that comes."""

    name: str
    kind: str
    fills: int
    """Messages of the session that it is given at once."""


@dataclass(frozen=True, slots=True)
class LeftBlock:
    """A block that goes."""

    name: str
    kind: str
    holds: Holding
    note: str
    """What becomes of what it holds, in a sentence."""


@dataclass(frozen=True)
class SwitchPlan:
    """What switching to a recipe would do. Nothing in it: the session is as the recipe has it."""

    recipe: Recipe
    kept: tuple[str, ...]
    """Names of the blocks that stay."""
    added: tuple[NewBlock, ...]
    removed: tuple[LeftBlock, ...]
    changed: Mapping[str, Mapping[str, tuple[Any, Any]]]
    """By block that stays: each setting that changes, before and after."""
    settings: Mapping[str, tuple[Any, Any]]
    """Settings of the memory that change, before and after; the recipe's name aside."""
    order: tuple[str, ...]
    """The blocks afterwards, in the order of the prompt."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """What the recipe is given beside its defaults."""
    blocks: Sequence[Block] = field(default=(), repr=False)
    """Those that come."""

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed or self.settings)


def plan_switch(session: Session, key: str, parameters: Mapping[str, Any]) -> SwitchPlan:
    """See `Memory.switch_plan`."""
    with session.database.read() as connection:
        session.keep_up(connection)
        chosen = recipe(key)
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
        learners = [block for block in new if _learns(block)]
        fills = {block.name: len(_due(session, connection, block.deliver_on)) for block in learners}
        return SwitchPlan(
            recipe=chosen,
            kept=tuple(attached.name for attached in stay),
            added=tuple(NewBlock(block.name, block.kind, fills.get(block.name, 0)) for block in new),
            removed=tuple(_left(session, connection, attached) for attached in gone),
            changed=_changes(stay, matches),
            settings=_settings(session.config, made),
            order=_order(stay, matches, made, new),
            parameters=made.settings["recipe_parameters"],
            blocks=tuple(new),
        )


def switch(session: Session, key: str, parameters: Mapping[str, Any], actor: Actor) -> SwitchPlan:
    """See `Memory.switch`."""
    plan = plan_switch(session, key, parameters)
    with session.writing() as w:
        session.refresh(w)
        if {a.name for a in session.blocks} != {*plan.kept, *(block.name for block in plan.removed)}:
            raise editing.changed_elsewhere("The blocks were")
        before = session.config.recipe
        named = {"recipe": key, "recipe_parameters": dict(plan.parameters)}
        editing.write_configuration(session, w, {n: v for n, (_, v) in plan.settings.items()} | named, actor)
        for left in plan.removed:
            editing.take_out(session, w, left.name, actor)
        for name, changes in plan.changed.items():
            editing.write_settings(session, w, name, {n: after for n, (_, after) in changes.items()}, actor)
        for block in plan.blocks:
            editing.put_in(session, w, block, actor)
        editing.write_order(session, w, plan.order, actor)
        session.load(w.connection, w.session)
        for attached in session.blocks:
            if attached.name in {block.name for block in plan.blocks}:
                fill(session, w, attached)
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
        queue.flush_queue(session, w, "over_budget")
    return plan


def fill(session: Session, w: Writing, attached: SessionBlock) -> int:
    """Owe a block what is there and was never due to it; how many messages that is."""
    if not attached.learns:
        return 0
    if attached.deliver_on == "turn":
        queue.queue_turns(session, w)  # so that nobody who learns each turn misses one
    given = given_seqs(w.connection, session.id, attached.name)
    due = [seq for seq in _due(session, w.connection, attached.deliver_on) if seq not in given]
    trigger = "turn" if attached.deliver_on == "turn" else "archive"
    for first, last in ranges(due):
        queue.queue_for(session, w, attached, trigger, range(first, last + 1))
    if attached.deliver_on == "turn" and due:
        w.session.turn_delivered = max(w.session.turn_delivered, due[-1])
    return len(due)


def _due(session: Session, connection: Connection, deliver_on: str) -> list[int]:
    """What a new block is given at once: what left the queue, or every turn that is complete."""
    if deliver_on == "turn":
        return [message.seq for message in complete_turns(sizes_between(connection, session.id, after=0))]
    return message_seqs(connection, session.id, MessageStatus.ARCHIVED) if deliver_on == "flush" else []


def _key(block: Block | SessionBlock) -> tuple[Any, ...]:
    """What decides whether one block may go on as another: they keep the same things in the same place."""
    settings = block.settings if isinstance(block, SessionBlock) else block.settings()
    if block.kind == "static":
        return block.kind, block.name
    return block.kind, settings.get("scope", "session"), settings.get("accept_short_term_memory", True)


def _matched(present: Sequence[SessionBlock], made: Made) -> tuple[dict[str, Block], list[Block]]:
    """Which present block goes on as which of the recipe's, and those of the recipe that are new."""
    matches: dict[str, Block] = {}
    new: list[Block] = []
    for block in made.blocks:
        alike = [a for a in present if _key(a) == _key(block) and a.name not in matches]
        alike.sort(key=lambda attached: attached.name != block.name)  # one of the same name first
        if alike:
            matches[alike[0].name] = block
        else:
            new.append(block)
    return matches, new


def _changes(stay: Sequence[SessionBlock], matches: Mapping[str, Block]) -> dict[str, dict[str, tuple[Any, Any]]]:
    changes = {}
    for attached in stay:
        block = matches.get(attached.name)
        if block is not None:
            wanted = _wanted(block)
        elif attached.kind == "static" and not attached.settings["read_only"]:
            wanted = {"read_only": True}  # no recipe's agent edits it any more; what it wrote stays
        else:
            continue
        had = attached.settings
        differ = {name: (had[name], value) for name, value in wanted.items() if name in had and had[name] != value}
        if differ:
            changes[attached.name] = differ
    return changes


def _wanted(block: Block) -> dict[str, Any]:
    """The settings that a recipe cares about: what is not the default, and what it settles in any case."""
    defaults = BUILT_IN[block.kind].make_empty(name=block.name).settings()
    return {
        name: value
        for name, value in block.settings().items()
        if name not in ("name", "description") and (name in _SETTLED or defaults[name] != value)
    }


def _settings(config: MemoryConfig, made: Made) -> dict[str, tuple[Any, Any]]:
    now = config.model_dump(mode="json")
    wanted = {name: value for name, value in made.settings.items() if not name.startswith("recipe")}
    if wanted["chat_history_token_ratio"] < 1 and config.chat_history_token_ratio < 1:
        wanted = {name: value for name, value in wanted.items() if name not in _LEAVES_ROOM}
    return {name: (now[name], value) for name, value in wanted.items() if now[name] != value}


def _order(
    stay: Sequence[SessionBlock], matches: Mapping[str, Block], made: Made, new: Sequence[Block]
) -> tuple[str, ...]:
    """Fixed texts, then the recipe's blocks in its order, then what is somebody's own."""
    places = {id(block): name for name, block in matches.items()} | {id(block): block.name for block in new}
    of_recipe = [places[id(block)] for block in made.blocks]
    fixed = [a.name for a in stay if a.kind == "static" and a.name not in of_recipe]
    own = [a.name for a in stay if a.kind != "static" and a.name not in of_recipe]
    return (*fixed, *of_recipe, *own)


def _left(session: Session, connection: Connection, attached: SessionBlock) -> LeftBlock:
    scope = delivery.scope_key(session, attached)
    holds = read_holding(connection, session.id, scope, attached.name, attached.kind)
    return LeftBlock(attached.name, attached.kind, holds, BUILT_IN[attached.kind].kind_when_removed)


def _learns(block: Block) -> bool:
    return block.kind_learns and block.accept_short_term_memory and block.enabled


def _free(name: str, taken: set[str]) -> str:
    """The name, with a number behind it where it is taken."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name} {number}"
    return free
