"""What a change would do to the next prompt, drawn in a drawer before it is saved."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from memory_core import ChatMessage, ConfigError, Memory, MemoryInspectorError
from memory_core.engine.next_prompt import NextPrompt
from ui.effect import effect_lines
from ui.text import plain


def shown_when_over(memory: Memory) -> dict[str, Any]:
    """For looking only: a prompt over the limit is shown with by how much, where the session would refuse it."""
    return {"when_over": "return"} if memory.config.when_over == "raise" else {}


def next_prompt(memory: Memory) -> NextPrompt | None:
    """The next prompt as it is, after the flush before it; None when it cannot be built, which its pages say."""
    try:
        return memory.next_prompt(shown_when_over(memory))
    except MemoryInspectorError:
        return None


def next_prompt(memory: Memory) -> NextPrompt | None:
    """The next prompt as it is, after the flush before it; None when it cannot be built, which its pages say."""
    try:
        return memory.next_prompt(shown_when_over(memory))
    except MemoryInspectorError:
        return None


def draw_effect(
    memory: Memory, changes: Mapping[str, Any] | None = None, *, ask: str | None = None, **how: Any
) -> bool:
    """The next prompt now and after the change, as `Memory.next_prompt` takes it; whether it is possible.

    The flush that the next message causes is in both. `ask`: that message is this question.
    """
    shown = shown_when_over(memory)
    message = ChatMessage(role="user", content=ask) if ask is not None else None
    try:
        before = memory.next_prompt(shown, message=message)
        after = memory.next_prompt({**(changes or {}), **shown}, message=message, **how)
    except ConfigError as error:
        st.error(plain(str(error)))
        return False
    st.markdown(effect_lines(before, after, int(memory.config.history_budget), asked=ask is not None))
    for name, problem in after.context.failures.items():
        if name not in before.context.failures:
            st.warning(f"{plain(name)} could not be read: {plain(problem)}", icon=":material/warning:")
    return True
