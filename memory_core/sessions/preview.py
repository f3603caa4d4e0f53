"""Previews: other settings, other blocks, the next message, a flush or a switch of recipe."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.engine.context import Context, build_context
from memory_core.engine.next_prompt import NextPrompt, flush_now, next_prompt
from memory_core.engine.session import ImaginedBlocks, Session
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.fact_merging import Fact
from memory_core.planning.flush import FlushPlan
from memory_core.planning.graph_rules import Graph
from memory_core.planning.impact import Impact
from memory_core.sessions import forgetting
from memory_core.sessions.recorded_conversation import recording_of
from memory_core.sessions.switch_recipe import SwitchPlan, plan_switch


class SessionPreview:
    """`Memory.preview`: dry runs with the planners that the session itself uses. Changes nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def context(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        blocks: Mapping[str, Mapping[str, Any]] | None = None,
        texts: Mapping[str, str] | None = None,
        facts: Mapping[str, Sequence[Fact]] | None = None,
        without: Collection[str] = (),
        added: Sequence[BaseMemoryBlock[Any]] = (),
        input: str | None = None,
    ) -> Context:
        """Return the context as it would be under other settings, or with other blocks. Changes nothing.

        `blocks` are changed settings by block, `texts` other texts of static blocks, `facts` the active
        facts of a block in place of those stored, `without` blocks left out, `added` new blocks.

        Raises:
            ConfigError: a value is impossible.
        """
        wanted = ImaginedBlocks(blocks or {}, texts or {}, facts or {}, without, added)
        return build_context(self._imagined(changes, wanted), input, record=False)

    def next_prompt(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        message: ChatMessage | None = None,
        blocks: Mapping[str, Mapping[str, Any]] | None = None,
        texts: Mapping[str, str] | None = None,
        facts: Mapping[str, Sequence[Fact]] | None = None,
        without: Collection[str] = (),
        added: Sequence[BaseMemoryBlock[Any]] = (),
        graphs: Mapping[str, Graph] | None = None,
    ) -> NextPrompt:
        """Preview the next user message: the flush it causes, then the prompt. Changes nothing.

        `message` is that message; default: the next one of a recording, else an empty one. The rest is as in `context`:
        settings and blocks to try. The prompt includes what blocks learn from the flush, except those that need a
        model to learn (`NextPrompt.unknown`).

        Raises:
            ConfigError: a value is impossible.
        """
        wanted = ImaginedBlocks(blocks or {}, texts or {}, facts or {}, without, added, graphs or {})
        return next_prompt(self._imagined(changes, wanted), message or self._coming())

    def quarantine(self, impact: Impact, *, message: ChatMessage | None = None) -> NextPrompt:
        """Preview the next prompt with the rows of an impact in quarantine (see `Memory.session.quarantine`)."""
        self._session.open()
        return next_prompt(forgetting.session_with(self._session, impact), message or self._coming())

    def release(self, number: int, *, message: ChatMessage | None = None) -> NextPrompt:
        """Preview the next prompt as if a set were released from quarantine."""
        self._session.open()
        return next_prompt(forgetting.session_without(self._session, number), message or self._coming())

    def flush(self) -> FlushPlan:
        """Preview the messages that `Memory.flush` would move out of the queue now. Changes nothing."""
        self._session.open()
        return flush_now(self._session)

    def switch(self, recipe: str, **parameters: Any) -> SwitchPlan:
        """Preview what switching to a recipe would keep, add, remove and change. Changes nothing.

        Raises:
            ConfigError: there is no such recipe, a parameter is impossible, or it needs a user.
        """
        return plan_switch(self._session, recipe, parameters)

    def _coming(self) -> ChatMessage | None:
        """Return the next message of a recording, if there is one."""
        # From the session itself: a trial has other settings, but the same recording.
        recorded = recording_of(self._session)
        coming = recorded.next_turn if recorded is not None else ()
        # A step may begin with the end of an earlier turn; the message that is planned with is a user's.
        return next((candidate for candidate in coming if candidate.role is MessageRole.USER), None)

    def _imagined(self, changes: Mapping[str, Any] | None, blocks: ImaginedBlocks) -> Session:
        self._session.open()
        return self._session.imagined(self._session.config.changed(**(changes or {})), blocks)
