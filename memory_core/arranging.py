"""What a person, or an agent's tool, arranges in a session: its settings, blocks and recipe, and what blocks hold."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory_core import delivery, editing, reembedding, searching, switching
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.config import MemoryConfig
from memory_core.curation import Curation
from memory_core.delivery import Served
from memory_core.events import Actor
from memory_core.graphs import GraphDesk
from memory_core.opened import Opened
from memory_core.summaries import SummaryDesk
from memory_core.switching import SwitchPlan


class Arranged(Opened):
    """A session whose settings and blocks can be changed."""

    def configure(
        self, *, opened: Mapping[str, Any] | None = None, actor: Actor = "curator", **changes: Any
    ) -> MemoryConfig:
        """Change settings; a lowered limit acts at the next put.

        `opened` are the settings that the change started from: if any of them is another meanwhile, nothing is saved.

        Raises:
            ConfigError: a value is impossible; nothing was changed.
            ConflictError: a setting was changed elsewhere meanwhile.
        """
        editing.configure(self._session, changes, opened or {}, actor)
        return self.config

    def rename(self, title: str, *, actor: Actor = "curator") -> None:
        """Give the session another title."""
        editing.rename(self._session, title, actor)

    # -- blocks ------------------------------------------------------------------------------------

    def add_block(self, block: BaseMemoryBlock[Any], *, actor: Actor = "curator") -> None:
        """Add a block in mid-session. `fill_block` gives it what left the queue before.

        Raises:
            ConfigError: the name is taken, or the block is the user's and there is no user.
        """
        editing.add_block(self._session, block, actor)

    def fill_block(self, name: str, *, wait: bool = True) -> dict[str, Served]:
        """Deliver to a block that came later what was never due to it: the archive, or every complete turn.

        Raises:
            NotFoundError: there is no such block.
        """
        attached = self._session.block(name)
        with self._session.writing() as w:
            switching.fill(self._session, w, attached)
        return self._serve(wait)

    def remove_block(self, name: str, *, actor: Actor = "curator") -> None:
        """Remove a block and its stored turns; facts stay in the database, and return with a block of that name.

        Raises:
            NotFoundError: there is no such block.
        """
        editing.remove_block(self._session, name, actor)

    def configure_block(
        self, name: str, *, opened: Mapping[str, Any] | None = None, actor: Actor = "curator", **settings: Any
    ) -> None:
        """Change a block's settings (priority, truncation, enabled, top-k, ...). See `configure_blocks`."""
        editing.configure_blocks(self._session, {name: settings}, None, {name: opened} if opened else {}, actor)

    def configure_blocks(
        self,
        changes: Mapping[str, Mapping[str, Any]],
        *,
        order: Sequence[str] | None = None,
        opened: Mapping[str, Mapping[str, Any]] | None = None,
        actor: Actor = "curator",
    ) -> None:
        """Change settings of several blocks, and their order (see `order_blocks`) with them: all or nothing.

        `opened` are the settings that the change started from, by block: if any of them is another
        meanwhile, nothing is saved.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: a value is impossible; nothing was changed.
            ConflictError: a block was changed or removed elsewhere meanwhile.
        """
        editing.configure_blocks(self._session, changes, order, opened or {}, actor)

    def order_blocks(
        self, names: Sequence[str], *, opened: Sequence[str] | None = None, actor: Actor = "curator"
    ) -> None:
        """Put the blocks into another order: that of the prompt, and of blocks with one priority, first cut first.

        Raises:
            ConfigError: not every block is named once.
            ConflictError: they are no longer as `opened` has them.
        """
        editing.order_blocks(self._session, names, opened, actor)

    def edit_block(self, name: str, text: str, *, revision: int | None = None, actor: Actor = "curator") -> int:
        """Give a static block or a summary other words; the new revision.

        `revision` is the one the edit started from: if it is no longer the newest, nothing is saved.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: the block has no text of its own, or a summary would be longer than it may be.
            ConflictError: it was changed elsewhere meanwhile.
        """
        return editing.edit_block(self._session, name, text, revision, actor)

    def restore_block(self, name: str, earlier: int, *, revision: int | None = None, actor: Actor = "curator") -> int:
        """Give a static block or a summary the words of an earlier revision again; the new revision. See `edit_block`.

        Raises:
            NotFoundError: there is no such block, or it never had that revision.
            ConflictError: it was changed elsewhere since `revision`.
        """
        return editing.restore_block(self._session, name, earlier, revision, actor)

    def forget_turn(self, block: str, number: int, *, actor: Actor = "curator") -> None:
        """Delete a stored turn from a vector block: it is found no more. Its messages stay in the archive.

        Raises:
            NotFoundError: there is no such block, or no such stored turn any more.
        """
        searching.forget_turn(self._session, block, number, actor)

    def embed_again(
        self,
        block: str | None = None,
        *,
        progress: Callable[[int, int], None] | None = None,
        actor: Actor = "curator",
    ) -> int:
        """Give what a vector block (None: the first) stored under other embedding models, or while one failed,
        vectors of the present one; how many stored turns got one.

        They keep their numbers. Each 200 are stored at once, and `progress` is told how many are done, and of how
        many; what is done stays done, so after an error, or a stop half way, the next call goes on from there.

        Raises:
            NotFoundError: there is no such block, or none that stores turns.
            ConfigError: the block stores no turns.
            EmbedderError: the embedding model cannot be loaded or does not answer.
        """
        return reembedding.embed_again(self._session, block, progress, actor)

    def take_up_vectors(self) -> None:
        """Go on, in the background, with the vectors that a process which ended left to follow."""
        reembedding.take_up(self._session)

    # -- recipes -----------------------------------------------------------------------------------

    def switch_plan(self, recipe: str, **parameters: Any) -> SwitchPlan:
        """What switching to a recipe would keep, add, remove and change. Changes nothing.

        Raises:
            ConfigError: there is no such recipe, a parameter is impossible, or it needs a user.
        """
        return switching.plan_switch(self._session, recipe, parameters)

    def switch(self, recipe: str, *, wait: bool = True, actor: Actor = "curator", **parameters: Any) -> SwitchPlan:
        """Switch the session to a recipe: all or nothing. What comes is filled from the messages that are there.

        Raises:
            ConfigError: see `switch_plan`; nothing was changed.
            ConflictError: the blocks were changed elsewhere meanwhile.
        """
        plan = switching.switch(self._session, recipe, parameters, actor)
        self._serve(wait)
        return plan

    # -- desks: what a person does to what blocks hold ---------------------------------------------

    def curation(self, block: str) -> Curation:
        """The curation desk of a facts block: change sets with undo, what waits for review, rewrites.

        Raises:
            NotFoundError: there is no such block.
            ConfigError: it holds no facts.
        """
        return Curation(self._session, block)

    def graph(self, block: str | None = None) -> GraphDesk:
        """The desk of a graph block (None: the first): relations, paths, changes with undo.

        Raises:
            NotFoundError: there is no such block, or none that holds a graph.
            ConfigError: the block holds no graph.
        """
        return GraphDesk(self._session, block)

    def summary(self, block: str | None = None) -> SummaryDesk:
        """The desk of a summary block (None: the first): how fresh it is, every text it had, rewriting on demand.

        Raises:
            NotFoundError: there is no such block, or none that keeps a summary.
            ConfigError: the block keeps no summary.
        """
        return SummaryDesk(self._session, block)

    # -- inside ------------------------------------------------------------------------------------

    def _serve(self, wait: bool) -> dict[str, Served]:
        if not any(attached.learns for attached in self.blocks):
            return {}
        return delivery.serve(self._session, timeout=self.config.delivery_timeout if wait else 0)
