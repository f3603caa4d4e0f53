"""What a change would do to the next prompt, drawn in a drawer before it is saved."""

from typing import Any

import streamlit as st

from memory_core import ConfigError, Context, Memory
from ui.effect import effect_sentence
from ui.text import plain

_SHOWN = {"when_over": "return"}
"""For looking only: a prompt that is over the limit is shown with by how much, where the session would refuse it."""


def draw_effect(memory: Memory, **change: Any) -> bool:
    """One line: the next prompt now and after the change, as `Memory.preview` takes it; whether it is possible."""
    try:
        before, after = imagined(memory), imagined(memory, **change)
    except ConfigError as error:
        st.error(plain(str(error)))
        return False
    st.markdown(f":small[{effect_sentence(before, after)}]")
    for name, problem in after.failures.items():
        if name not in before.failures:
            st.warning(f"{plain(name)} could not be read: {plain(problem)}", icon=":material/warning:")
    return True


def imagined(memory: Memory, **change: Any) -> Context:
    """The next prompt with a change.

    Raises:
        ConfigError: the change is impossible.
    """
    changes = _SHOWN if memory.config.when_over == "raise" else {}
    return memory.preview(changes, **change)
