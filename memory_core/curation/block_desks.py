"""Management of a session's blocks: reading, adding, removing, configuring and editing them."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, overload

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.curation import settings as editing
from memory_core.curation.change_sets import OnlyTriedError
from memory_core.curation.graph_desk import GraphAndFacts, GraphDesk
from memory_core.curation.summary_desk import SummaryDesk
from memory_core.engine import delivery
from memory_core.engine.context import Context, build_context
from memory_core.engine.delivery import Served
from memory_core.engine.queue import fill
from memory_core.engine.session import ImaginedBlocks, Session, SessionBlock
from memory_core.errors import NotFoundError
from memory_core.events import Actor
from memory_core.store.block_rows import Holding, TextRevision, read_holding, read_revision, read_revisions


class SessionBlocks(Sequence[SessionBlock]):
    """`Memory.blocks`: the session's blocks in order, read afresh at each access."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @overload
    def __getitem__(self, place: int) -> SessionBlock: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[SessionBlock, ...]: ...
    def __getitem__(self, place: int | slice) -> SessionBlock | tuple[SessionBlock, ...]:
        return self._session.blocks[place]

    def __len__(self) -> int:
        return len(self._session.blocks)

    def settings(self, name: str) -> dict[str, Any]:
        """Return the settings of a block that are in effect.

        Raises:
            NotFoundError: there is no such block.
        """
        return self._session.block(name).settings

    def holding(self, name: str) -> Holding:
        """Return the counts of a block's stored contents.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        scope = delivery.scope_key(self._session, attached)
        with self._session.database.read() as connection:
            return read_holding(connection, self._session.id, scope, name, attached.kind)

    def revisions(self, name: str) -> list[TextRevision]:
        """Return all versions of a static block's or a summary's text, oldest first."""
        with self._session.database.read() as connection:
            return read_revisions(connection, self._session.id, name)

    @property
    def editable_by_agents(self) -> bool:
        """True if an agent may edit any of the blocks; its model then gets tools (see `memory_core.agent.tools`)."""
        return any(editing.agent_may_edit(attached) for attached in self._session.blocks)

    def add(self, block: BaseMemoryBlock[Any], *, actor: Actor = "user") -> None:
        """Add a block to a session. `fill` delivers the messages flushed before.

        Raises:
            ConfigError: the name is taken, or the block has the scope `user` and the session has no user.
        """
        with self._session.changing() as w:
            editing.add_block(self._session, w, block, actor)

    def fill(self, name: str, *, wait: bool = True) -> dict[str, Served]:
        """Deliver existing messages that were never due to a block: the archive, or every complete turn.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        with self._session.writing() as w:
            fill(self._session, w, attached)
        # After the commit, as learning may take minutes.
        return delivery.serve_put(self._session, wait)

    def remove(self, name: str, *, actor: Actor = "user") -> None:
        """Remove a block and its stored units; facts stay in the database, and return with a block of that name.

        Raises:
            NotFoundError: there is no such block.
        """
        self._session.block(name)
        with self._session.writing() as w:
            editing.remove_block(self._session, w, name, actor)

    def configure(
        self, name: str, *, opened: Mapping[str, Any] | None = None, actor: Actor = "user", **settings: Any
    ) -> None:
        """Change a block's settings (priority, truncation, enabled, top-k, ...). See `configure_all`."""
        self.configure_all({name: settings}, opened={name: opened} if opened else {}, actor=actor)

    def configure_all(
        self,
        changes: Mapping[str, Mapping[str, Any]],
        *,
        order: Sequence[str] | None = None,
        opened: Mapping[str, Mapping[str, Any]] | None = None,
        actor: Actor = "user",
    ) -> None:
        """Change settings of several blocks, and their order (see `order`) with them: all or nothing.

        `opened` are the settings that the change started from, by block: if any of them has changed meanwhile, nothing
        is saved.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: a value is impossible; nothing was changed.
            ConflictError: a block was changed or removed elsewhere meanwhile.
        """
        session = self._session
        with session.changing() as w:
            editing.check_unchanged(session, opened or {})
            changed = [editing.write_settings(session, w, name, settings, actor) for name, settings in changes.items()]
            if order is not None:
                changed.append(editing.write_order(session, w, order, actor))
            # Once for all changes: every process loads the blocks again at each new revision.
            if any(changed):
                editing.take_over(session, w)

    def order(self, names: Sequence[str], *, opened: Sequence[str] | None = None, actor: Actor = "user") -> None:
        """Change the order of blocks: their order in the prompt, and the order of cutting among those of equal
        priority.

        Raises:
            ConfigError: not every block is named once.
            ConflictError: the order is no longer that of `opened`.
        """
        with self._session.changing() as w:
            if opened is not None and list(opened) != [attached.name for attached in self]:
                raise editing.changed_elsewhere("The blocks were")
            if editing.write_order(self._session, w, names, actor):
                editing.take_over(self._session, w)

    @overload
    def edit(
        self, name: str, text: str, *, revision: int | None = None, preview: Literal[False] = False, actor: Actor = ...
    ) -> int: ...
    @overload
    def edit(
        self, name: str, text: str, *, revision: int | None = None, preview: Literal[True], actor: Actor = ...
    ) -> Context: ...
    def edit(
        self, name: str, text: str, *, revision: int | None = None, preview: bool = False, actor: Actor = "user"
    ) -> int | Context:
        """Change the text of a static block or a summary; return the new revision.

        `revision` is the version that the edit started from: if it is no longer the newest, nothing is saved. With
        `preview` nothing is saved, and the next prompt with the new text is returned.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block has no text of its own, or the text exceeds a summary's token limit.
            ConflictError: the text was changed elsewhere meanwhile.
        """
        with suppress(OnlyTriedError), self._session.changing() as w:
            attached = editing.with_text(self._session, w, name, revision)
            saved = editing.write_block_text(self._session, w, attached, text, actor)
            # Raised only after writing, so that a preview fails wherever the edit would.
            if preview:
                raise OnlyTriedError
            return saved
        self._session.open()
        imagined = self._session.imagined(self._session.config, ImaginedBlocks(texts={name: text}))
        return build_context(imagined, record=False)

    def undo(self, name: str) -> int:
        """Restore the text that a static block or a summary had before the newest one; return the new revision.

        Raises:
            NotFoundError: there is no such block, or no earlier text.
        """
        revisions = self.revisions(name)
        if len(revisions) < 2:
            raise NotFoundError(f'"{name}" has no earlier text.')
        # Pass the newest revision as read here, so that an edit made in between raises and is not undone unseen.
        return self.restore(name, revisions[-2].revision, revision=revisions[-1].revision)

    def restore(self, name: str, earlier: int, *, revision: int | None = None, actor: Actor = "user") -> int:
        """Restore an earlier text of a static block or a summary; return the new revision. See `edit`.

        Raises:
            NotFoundError: there is no such block, or it never had that revision.
            ConflictError: the text was changed elsewhere since `revision`.
        """
        with self._session.changing() as w:
            attached = editing.with_text(self._session, w, name, revision)
            text = read_revision(w.connection, self._session.id, name, earlier)
            if text is None:
                raise NotFoundError(f'"{name}" has no version {earlier}.')
            return editing.write_block_text(self._session, w, attached, text, actor, restored=earlier)

    def graph(self, block: str | None = None) -> GraphDesk:
        """Return the desk of a graph block (None: the first): relations, paths, changes with undo.

        Raises:
            NotFoundError: there is no such block, or none that holds a graph.
            ConfigError: the block holds no graph.
        """
        return GraphDesk(self._session, block)

    def graph_and_facts(self, graph: str, facts: str) -> GraphAndFacts:
        """Return a desk for a graph and a facts block together: read at one moment, changed in one transaction.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: `graph` holds no graph, or `facts` no facts.
        """
        return GraphAndFacts(self._session, graph, facts)

    def summary(self, block: str | None = None) -> SummaryDesk:
        """Return the desk of a summary block (None: the first): its state, all versions, rewriting on demand.

        Raises:
            NotFoundError: there is no such block, or none that keeps a summary.
            ConfigError: the block keeps no summary.
        """
        return SummaryDesk(self._session, block)
