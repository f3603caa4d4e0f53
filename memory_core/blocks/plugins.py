"""Block classes that other packages offer by Python entry points.

    [project.entry-points."memory_inspector.blocks"]
    mentions = "my_package.blocks:MentionCounter"

Such a class can be added in the app, and is created again from its stored settings in any process with the package. A
class that cannot be loaded is listed with the reason.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.errors import ConfigError, user_message

GROUP = "memory_inspector.blocks"

Block = BaseMemoryBlock[Any]

FORMER_NAMES = {
    "meant_before": "legacy_defaults",
    "learn": "prepare_write",
    "fills": "fills_budget",
    "learns": "kind_learns",
    "has_text": "kind_has_text",
    "in_pieces": "kind_in_pieces",
    "model_calls": "kind_model_calls",
    "when_removed": "kind_when_removed",
}
"""Present names of `BaseMemoryBlock` attributes, by their names in earlier versions."""

FORMER_MODULES = {
    "blocks.markup": "planning.rendering",
    "blocks.vector_parts": "blocks.vector",
    "curation.blocks": "curation.block_desks",
    "curation.facts": "curation.fact_desk",
    "curation.graph": "curation.graph_desk",
    "curation.summary": "curation.block_desks",
    "durations": "process",
    "engine.durations": "process",
    "formats.message_times": "messages",
    "history.facts": "history.fact_evidence",
    "history.pieces": "history.context_pieces",
    "history.prompt_store": "history.prompt",
    "history.rows_at": "sessions.branch",
    "history.slices": "history.projection",
    "models.base": "models.protocols",
    "models.llamaindex": "models.llamaindex_models",
    "planning.boosts": "planning.retrieval_plan",
    "planning.context": "planning.context_plan",
    "planning.facts": "planning.fact_merging",
    "planning.graph": "planning.graph_rules",
    "planning.pasted": "planning.speakers",
    "planning.reasons": "planning.learning_outcomes",
    "planning.retrieval": "planning.retrieval_plan",
    "planning.speech": "planning.speakers",
    "planning.statements": "planning.statement_relation",
    "planning.summaries": "planning.running_summary",
    "sessions.log": "sessions.handle",
    "sessions.quarantining": "sessions.forgetting",
    "sessions.recording": "sessions.recorded_conversation",
    "sessions.session_log": "sessions.handle",
    "store.blocks": "store.block_rows",
    "store.copying.references": "store.copying.copies",
    "store.deliveries": "store.delivery_rows",
    "store.facts": "store.fact_rows",
    "store.graph": "store.graph_rows",
    "store.log": "store.log_rows",
    "store.messages": "store.message_rows",
    "store.model_outputs": "store.delivery_rows",
    "store.pieces": "store.writing",
    "store.references": "store.copying.copies",
    "store.summaries": "store.block_rows",
    "store.vectors": "store.vector_rows",
    "store.words": "store.text_erasing",
    "systems.chat_buffers": "systems.llamaindex_memories",
    "systems.vector_memory": "systems.llamaindex_memories",
    "vectors.base": "vectors.vector_index",
}
"""Present names of modules that were renamed; a module that only moved to another folder is found by its name."""

FORMER_ROOMS = {
    "adapters": "memory_inspector.adapters",
    "attach": "memory_inspector.recorder",
    "coding": "memory_inspector.coding",
    "formats.json_values": "memory_inspector.files.located_json",
    "history.rebuild": "memory_inspector.checks.simulation",
    "history.replay": "memory_inspector.lab.sizes",
    "interop": "memory_inspector.files (bundles: memory_core.bundles)",
    "lab": "memory_inspector.lab",
    "testing": "memory_inspector.checks",
    "verification": "memory_inspector.verification",
}
"""Present names of packages and modules that left `memory_core`."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """Entry point of a block class, usable or not."""

    name: str
    """Name of the entry point."""
    package: str
    """Name and version of the package that offers the class; empty if unknown."""
    target: str
    """Place of the class, as `module:class`."""
    block: type[Block] | None
    """The class; None if it cannot be used, with the reason in `error`."""
    error: str | None = None

    @property
    def description(self) -> str:
        """First line of the class's own docstring; empty without one."""
        written = (self.block.__dict__.get("__doc__") or "") if self.block else ""
        return written.strip().partition("\n")[0]

    def make(self, name: str, **settings: Any) -> Block:
        """Create a block of this class.

        Raises:
            ConfigError: the class cannot be used, refuses a setting, or fails.
        """
        if self.block is None:
            raise ConfigError(f'the plug-in "{self.name}" cannot be used: {self.error}')
        try:
            return self.block(name=name, **settings)
        except ConfigError:
            raise
        except Exception as error:  # a foreign class may raise anything
            raise ConfigError(f'the plug-in "{self.name}" could not make a block: {user_message(error)}') from error


def load(points: Iterable[EntryPoint]) -> tuple[Plugin, ...]:
    """Load the plug-ins of these entry points, broken ones included, sorted by name."""
    plugins = {(point.name, point.value): _loaded(point) for point in points}
    return tuple(plugins[key] for key in sorted(plugins))


@cache
def plugins() -> tuple[Plugin, ...]:
    """Plug-ins of the installed packages, loaded once per process."""
    return load(entry_points(group=GROUP))


def offered(block_type: str) -> Plugin | None:
    """Return the plug-in whose blocks are stored under this type; None if no installed package has it."""
    return next((p for p in plugins() if p.block is not None and p.block.stored_type() == block_type), None)


def made(block_type: str, name: str) -> Block | None:
    """Create a plug-in's block without settings and state; None if its class is not available here."""
    plugin = offered(block_type)
    try:
        return plugin.make(name) if plugin is not None else None
    except ConfigError:  # the app shows the block as it last was
        return None


def _loaded(point: EntryPoint) -> Plugin:
    package = f"{point.dist.name} {point.dist.version}" if point.dist is not None else ""
    try:
        loaded = point.load()
    except (Exception, SystemExit) as error:  # importing a foreign module may raise anything; the error is shown
        reason = user_message(error) if isinstance(error, Exception) else "it ended the process when it was imported"
        missing = (getattr(error, "name", None) or "").removeprefix("memory_core.")
        if isinstance(error, ImportError) and (present := _present_module(missing)):
            reason = f"it was written for an earlier version: memory_core.{missing} is now {present}"
        return Plugin(point.name, package, point.value, None, reason)
    problem = _problem(loaded)
    return Plugin(point.name, package, point.value, None if problem else loaded, problem)


def _present_module(former: str) -> str | None:
    """Present name of a module of `memory_core` that was renamed or moved; None if there is none."""
    # A missing package is named without its modules.
    if former in FORMER_ROOMS:
        return FORMER_ROOMS[former]
    if former in FORMER_MODULES:
        return f"memory_core.{FORMER_MODULES[former]}"
    parent, name = Path(__file__).parents[2], former.rpartition(".")[2]
    packages = [parent / "memory_core", parent / "memory_inspector"] if former else []
    moved = [file for package in packages for file in sorted(package.rglob(f"{name}.py"))]
    return ".".join(moved[0].relative_to(parent).with_suffix("").parts) if moved else None


def _problem(loaded: object) -> str | None:
    """Reason why an object cannot be a plug-in; None if it can."""
    if not isinstance(loaded, type) or not issubclass(loaded, BaseMemoryBlock):
        return "it is no subclass of BaseMemoryBlock"
    # The kind decides how a block is stored and shown, so a plug-in of a built-in kind would be taken for that kind.
    if loaded.kind_is_built_in or loaded.kind != BaseMemoryBlock.kind:
        return "it is a built-in kind of block under another name"
    if renamed := _renamed(loaded):
        return f"it was written for an earlier version: {renamed}"
    # `made` knows only the name; stored settings and state are applied to the block afterwards.
    needed = [name for name, field in loaded.model_fields.items() if field.is_required() and name != "name"]
    if needed:
        return f"it cannot be made from a name alone: {needed[0]!r} has no default"
    return None


def _renamed(block: type[Block]) -> str:
    """Former names that a class defines, each with its present one; names of its own fields are not checked."""
    # Up to the base class, whose own attributes may have any of these names.
    defined = {name for cls in block.__mro__[: block.__mro__.index(BaseMemoryBlock)] for name in vars(cls)}
    if defined & {"_put", "_aput"}:  # it learns by a current hook, so its `learn` may mean anything
        defined.discard("learn")
    # A class that defines both names works with either version.
    renamed = [
        f"{former} is now {name}" for former, name in FORMER_NAMES.items() if former in defined and name not in defined
    ]
    return ", ".join(renamed)
