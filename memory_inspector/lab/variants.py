"""Memory configurations as values: edit, compare and export them. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from memory_core.blocks import BaseMemoryBlock, StaticMemoryBlock
from memory_core.blocks.static import encode
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError
from memory_core.events import current_settings
from memory_core.memory import Memory
from memory_inspector.files.configuration import Configuration, StoredBlock, write_configuration, write_python
from memory_inspector.files.llamaindex_python import write_llamaindex_python

_NAMES = ("recipe", "recipe_parameters")
"""Settings that only record the recipe from which other settings come."""


@dataclass(frozen=True, slots=True)
class VariantChange:
    """A setting in which two configurations differ."""

    setting: str
    """`token_limit` of the memory, `facts.priority` of a block; a block's name alone if it is added or removed."""
    before: Any
    after: Any

    @property
    def words(self) -> str:
        """Short text of the change, as for a chip on screen.

        >>> VariantChange("token_limit", 4000, 2000).words
        'token_limit 4000 → 2000'
        """
        if isinstance(self.after, StoredBlock) or isinstance(self.before, StoredBlock):
            return (
                f"{self.setting} {'added' if self.before is None else 'removed' if self.after is None else 'replaced'}"
            )
        return f"{self.setting} {_value_text(self.before)} → {_value_text(self.after)}"


@dataclass(frozen=True, slots=True)
class Variant:
    """A named configuration: settings and blocks with fixed texts, nothing learned."""

    name: str
    settings: Mapping[str, Any]
    """Arguments of `MemoryConfig`."""
    blocks: tuple[StoredBlock, ...]
    left_out: tuple[str, ...] = ()
    """Whole sentences on blocks that cannot be created here and are omitted."""
    struck: tuple[int, ...] = ()
    """Log positions of the events to leave out of a replay (see `striking`)."""

    @property
    def config(self) -> MemoryConfig:
        return MemoryConfig(**self.settings)

    @property
    def of_user(self) -> bool:
        """Return whether any block belongs to a user."""
        return any(block.settings.get("scope") == "user" for block in self.blocks)

    def make_blocks(self) -> list[BaseMemoryBlock[Any]]:
        """Create new block objects, as each object belongs to one session.

        Raises:
            ConfigError: A value is invalid.
        """
        return [made for block in self.blocks if (made := block.make()) is not None]

    def changed(self, name: str, **knobs: Any) -> "Variant":
        """Return a copy with other values: `token_limit=2000`, or `**{"facts.priority": 1}` for a block.

        Raises:
            ConfigError: A value is invalid, or the setting or block is unknown.
        """
        return self.with_changes(name, [VariantChange(knob, None, value) for knob, value in knobs.items()])

    def with_changes(self, name: str, changes: Iterable[VariantChange]) -> "Variant":
        """Return a copy with changes applied; see `changed`."""
        settings, blocks = dict(self.settings), list(self.blocks)
        for change in changes:
            place, dot, setting = change.setting.partition(".")
            at = next((i for i, block in enumerate(blocks) if block.name == place), None)
            if isinstance(change.after, StoredBlock):
                # A block added under a taken name replaces that block in its place; otherwise it comes last.
                blocks[len(blocks) if at is None else at : len(blocks) if at is None else at + 1] = [change.after]
            elif isinstance(change.before, StoredBlock):
                blocks = [block for block in blocks if block.name != place]
            elif not dot:
                if place not in MemoryConfig.model_fields:
                    raise ConfigError(f"there is no setting called {place!r}")
                settings[place] = change.after
            elif at is None:
                raise ConfigError(f"there is no block called {place!r}")
            else:
                blocks[at] = _with(blocks[at], setting, change.after)
        made = replace(self, name=name, settings=settings, blocks=tuple(blocks))
        made.config, made.make_blocks()  # validate now rather than in the middle of a replay
        return made


def variant_of(memory: Memory, name: str = "now") -> Variant:
    """Return a memory's current configuration; texts edited by its agent are as people last wrote them."""
    blocks, left_out = [], []
    for attached in memory.blocks:
        if attached.kind == "custom":  # custom blocks may have external side effects, which a trial must not trigger
            left_out.append(f'The block "{attached.name}" takes no part: only built-in blocks are tried.')
            continue
        text = _written_by_people(memory, attached.name) if attached.kind == "static" else None
        blocks.append(_stored(attached.name, attached.record.type, attached.settings, text))
    settings = memory.session.config.model_dump(mode="json", exclude_defaults=True)
    return Variant(name, settings, tuple(blocks), tuple(left_out))


def variant_after_switch(memory: Memory, recipe: str) -> Variant:
    """Return a memory's configuration after a switch to a recipe.

    Raises:
        ConfigError: The recipe is unknown, or needs a user.
    """
    plan, now = memory.preview.switch(recipe), variant_of(memory)
    made = {block.name: block for block in now.blocks if block.name in plan.kept}
    for name, changes in plan.changed.items():
        for setting, (_, after) in changes.items():
            made[name] = _with(made[name], setting, after)
    for block in plan.blocks:
        text = encode(block.static_content) if isinstance(block, StaticMemoryBlock) else None
        made[block.name] = _stored(block.name, block.type, block.settings(), text)
    # The former recipe's name and parameters do not describe the settings after the switch.
    settings = {name: value for name, value in now.settings.items() if name not in _NAMES}
    settings |= {name: after for name, (_, after) in plan.settings.items()}
    return Variant(recipe, settings, tuple(made[name] for name in plan.order if name in made), now.left_out)


def _stored(name: str, type: str, settings: Mapping[str, Any], text: str | None) -> StoredBlock:
    return StoredBlock(name=name, type=type, settings={k: v for k, v in settings.items() if k != "name"}, text=text)


def _written_by_people(memory: Memory, name: str) -> str | None:
    """Return a block's last stored text not written by its agent, or None."""
    by_people = [revision.text for revision in memory.blocks.revisions(name) if revision.actor != "agent"]
    return by_people[-1] if by_people else None


def variant_from(configuration: Configuration, name: str) -> Variant:
    """Return a variant from a parsed configuration file."""
    return Variant(name, configuration.settings, configuration.stored, configuration.skipped)


def variant_json(variant: Variant) -> str:
    """Serialise a configuration to JSON that `read_configuration` reads."""
    return write_configuration(variant.config, variant.blocks)


def variant_python(variant: Variant, *, user_id: str | None = None) -> str:
    """Return a configuration as Python source."""
    return write_python(variant.config, variant.blocks, user_id=user_id)


def variant_llamaindex_python(variant: Variant) -> str:
    """Return a configuration as Python source for LlamaIndex."""
    return write_llamaindex_python(variant.config, variant.blocks)


def differences(before: Variant, after: Variant) -> tuple[VariantChange, ...]:
    """Return the settings in which two configurations differ: the memory's, then each block's."""
    changes = _between("", before.config.model_dump(mode="json"), after.config.model_dump(mode="json"))
    old, new = ({block.name: block for block in variant.blocks} for variant in (before, after))
    for name in dict.fromkeys([*old, *new]):
        one, other = old.get(name), new.get(name)
        # Blocks of different types share no settings, so the whole block counts as the change.
        if one is None or other is None or one.type != other.type:
            changes.append(VariantChange(name, one, other))
        else:
            changes += _between(f"{name}.", block_values(one), block_values(other))
    return tuple(changes)


def _with(block: StoredBlock, setting: str, value: Any) -> StoredBlock:
    if setting == "text":
        return block.model_copy(update={"text": value})
    return block.model_copy(update={"settings": {**block.settings, setting: value}})


def block_values(block: StoredBlock) -> dict[str, Any]:
    """Return a block's settings including defaults, and its text."""
    made = block.make()
    # Defaults first, so that a stored value overrides them; names of settings in older versions are translated.
    return {**(made.settings() if made is not None else {}), **current_settings(block.settings), "text": block.text}


def agents_may_edit(block: StoredBlock) -> bool:
    """Return whether a block is a static text that the agent may edit with tools."""
    return block.type == "static" and not block_values(block).get("read_only", True)


def _between(prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[VariantChange]:
    names = [name for name in dict.fromkeys([*before, *after]) if name not in _NAMES and name != "name"]
    return [
        VariantChange(prefix + name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


def _value_text(value: Any) -> str:
    return "none" if value is None else str(value)
