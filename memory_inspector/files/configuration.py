"""A memory configuration as a file: settings, blocks and fixed texts, but nothing that was learned."""

import json
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError

from memory_core.blocks import BUILT_IN, BaseMemoryBlock, StaticMemoryBlock
from memory_core.blocks.plugins import offered
from memory_core.blocks.static import decode, encode
from memory_core.bundles.bundle_checks import first_problem
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError, problem, user_message
from memory_core.events import current_settings
from memory_core.limits import Budget
from memory_core.messages import storable
from memory_core.store.block_rows import BlockRecord
from memory_inspector.files.located_json import read_text

FORMAT = "memory-inspector-configuration"
VERSION = 1

PROMPTS = ("fact_extraction_prompt_template", "fact_condense_prompt_template")
"""Settings of facts blocks that require a model."""

Block = BaseMemoryBlock[Any]


class StoredBlock(BaseModel, strict=True, extra="forbid", frozen=True):
    """A block as stored in a configuration, without anything it learned."""

    name: str
    type: str
    settings: dict[str, Any]
    text: str | None = None
    """Stored content of a static block."""

    @classmethod
    def of(cls, record: BlockRecord, text: str | None) -> "StoredBlock":
        """Convert a session's block; `text` is the stored content of a static block."""
        settings = {name: value for name, value in record.settings.items() if name != "name"}
        return cls(
            name=record.name, type=record.type, settings=settings, text=text or "" if record.type == "static" else None
        )

    def make(self) -> Block | None:
        """Create the block; None if this process lacks its class.

        Raises:
            ConfigError: A setting is invalid.
        """
        values = {**current_settings(self.settings), "name": self.name}
        if self.type == StaticMemoryBlock.kind:
            return StaticMemoryBlock(**{**values, "static_content": decode(self.text or "")})
        block_class = BUILT_IN.get(self.type)
        if block_class is not None:
            return block_class(**values)
        plugin = offered(self.type)
        return plugin.make(**values) if plugin is not None else None


class _File(BaseModel, strict=True, extra="forbid"):
    format: Literal["memory-inspector-configuration"]
    version: Annotated[int, Field(ge=1, le=VERSION)]
    settings: dict[str, Any]
    blocks: list[StoredBlock]


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings and blocks, as arguments of `Memory.from_defaults(memory_blocks=[*blocks], **settings)`."""

    settings: dict[str, Any]
    blocks: tuple[Block, ...]
    skipped: tuple[str, ...] = ()
    """Whole sentences on blocks whose classes are missing in this process."""
    stored: tuple[StoredBlock, ...] = ()
    """Blocks as stored, to create more objects from."""

    @property
    def of_user(self) -> tuple[str, ...]:
        """Return the names of user-scoped blocks, which require a `user_id`."""
        return tuple(block.name for block in self.blocks if block.settings().get("scope") == "user")


def is_configuration(value: Any) -> bool:
    return isinstance(value, dict) and value.get("format") == FORMAT


def write_configuration(config: MemoryConfig, blocks: Iterable[StoredBlock]) -> str:
    entries = [block.model_dump(mode="json", exclude={"text"} if block.text is None else None) for block in blocks]
    file = {"format": FORMAT, "version": VERSION, "settings": config.model_dump(mode="json"), "blocks": entries}
    return json.dumps(file, ensure_ascii=False, indent=2) + "\n"


def read_configuration(data: bytes | str, name: str) -> Configuration:
    """Parse a file of `write_configuration`. Only block classes already loaded are used; nothing is imported.

    Raises:
        FormatError: The file is not a valid configuration.
    """
    text = read_text(data, filename=name)
    Budget(name).take_json(text)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise problem(name, "is not a configuration: it is not valid JSON.") from error
    if not is_configuration(value):
        raise problem(name, "is not a configuration of Memory Inspector.")
    version = value.get("version")
    # Before the strict model, whose error would not say what to do about it.
    if isinstance(version, int) and version > VERSION:
        raise problem(name, "was written by a newer Memory Inspector. Update Memory Inspector.")
    try:
        file = _File.model_validate_json(text)
    except ValidationError as error:
        raise problem(name, f"is not a configuration ({first_problem(error)}).") from error
    # Refused rather than replaced: a setting with another character is another setting.
    if storable(value)[1]:
        raise problem(name, "holds characters that cannot be stored.")
    blocks, stored, skipped = [], [], []
    try:
        # Made only for its checks; the settings are returned as they are in the file.
        MemoryConfig(**file.settings)
        for entry in file.blocks:
            block = entry.make()
            if block is None:
                skipped.append(f'The block "{entry.name}" is left out: no package here offers {entry.type}.')
            else:
                blocks.append(block)
                stored.append(entry)
    except (ConfigError, TypeError) as error:
        raise problem(name, f"is an impossible configuration: {error}.") from error
    if len({block.name for block in blocks}) != len(blocks):
        raise problem(name, "is an impossible configuration: two blocks have one name.")
    return Configuration(file.settings, tuple(blocks), tuple(skipped), tuple(stored))


def write_python(config: MemoryConfig, blocks: Iterable[StoredBlock], *, user_id: str | None = None) -> str:
    """Return the configuration as Python source with non-default values only.

    Bundles are untrusted: classes unknown to this process become a comment. `user_id` is included if a block belongs to
    the user.
    """
    listed = list(blocks)
    imports, foreign, made = {"Memory"}, set[str](), []
    for block in listed:
        block_class = BUILT_IN.get(block.type) or _own_class(block.type)
        problem = _left_out(block, block_class)
        # A bundle may name any class, and importing a module runs its code: only a class that is loaded already is
        # written.
        if block_class is None or problem:
            made.append(f"# The block {block.name!r} is left out: {problem}.")
            continue
        if block.type in BUILT_IN:
            imports.add(block_class.__name__)
        else:
            foreign.add(f"from {block_class.__module__} import {block_class.__name__}")
        arguments = _arguments(block, block_class)
        # Without a model, the constructor refuses these prompts, and the source must run as pasted.
        if "llm" in block_class.model_fields and (prompts := [name for name in PROMPTS if name in arguments]):
            keywords = ", ".join(f"{name}={arguments.pop(name)}" for name in prompts)
            made.append(f"# With llm=... for the block {block.name!r}, also: {keywords}")
        made.append(call(block_class.__name__, arguments) + ",")
    of_user = any(block.settings.get("scope") == "user" for block in listed)
    arguments = {"user_id": repr(user_id)} if of_user and user_id is not None else {}
    different = config.model_dump(mode="json", exclude_defaults=True)
    arguments |= {name: repr(value) for name, value in different.items()}
    inside = textwrap.indent("\n".join(made), "    ")
    arguments["memory_blocks"] = f"[\n{inside}\n]" if made else "[]"
    head = [f"from memory_core import {', '.join(sorted(imports))}", *sorted(foreign)]
    return "\n".join(head) + f"\n\nmemory = {call('Memory.from_defaults', arguments)}\n"


def _own_class(type_name: str) -> type[Block] | None:
    """Return the loaded block class of this name, such as `my_package.blocks.Tally`."""
    classes = list(BaseMemoryBlock.__subclasses__())
    for candidate in classes:  # grows during iteration
        if f"{candidate.__module__}.{candidate.__qualname__}" == type_name:
            return candidate
        classes += candidate.__subclasses__()
    return None


def _left_out(block: StoredBlock, block_class: type[Block] | None) -> str:
    """Return the reason a block cannot be written as Python; empty if it can."""
    if not all(part.isidentifier() and not iskeyword(part) for part in block.type.split(".")):
        return "its class has no name to import"
    if block_class is None:
        return f"this program has no block class {block.type}"
    try:
        if block.type in BUILT_IN:
            block.make()
    except (ConfigError, TypeError, ValueError) as error:
        return f"its settings are impossible ({user_message(error)!r})"
    return ""


def _arguments(block: StoredBlock, block_class: type[Block] | None) -> dict[str, str]:
    arguments = {"name": repr(block.name)}
    if block_class is StaticMemoryBlock:
        content = decode(block.text or "")
        shown = content if isinstance(content, str) else encode(content)
        arguments["static_content"] = repr(shown)
    defaults = (block_class or BaseMemoryBlock).model_fields
    for name, value in block.settings.items():
        # Settings of a newer version have no field here and would be refused as arguments.
        if name in defaults and defaults[name].get_default(call_default_factory=True) != value:
            arguments[name] = repr(value)
    return arguments


def call(name: str, arguments: Mapping[str, str]) -> str:
    """Format a Python call with one argument per line."""
    inside = ",\n".join(f"{key}={value}" for key, value in arguments.items())
    return f"{name}(\n{textwrap.indent(inside, '    ')},\n)"
