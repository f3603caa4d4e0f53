"""The section *Why do these fail?* of the Lab: a table and a figure of what failures have in common."""

from functools import partial
from typing import Any

import streamlit as st

from memory_inspector.figures.lab_figures import MAX_PATTERNS, pattern_figure
from memory_inspector.lab.failure_patterns import Patterns
from memory_inspector.wording.formatting import plain, tokens
from ui.parts.components import chart, heading
from ui.tab.appearance import mode


def draw_patterns(patterns: Patterns, what: str, key: str) -> None:
    """Draw what distinguishes failures from the rest; nothing if all fail or none. `what`: plural noun of the cases."""
    if not 0 < patterns.failed < patterns.cases or not patterns.patterns:
        return
    share = f"{tokens(patterns.failed)} of {tokens(patterns.cases)} {what} fail"
    heading("Why do these fail?", f" :small[:gray[{share}. Dot: cases with the property; ring: all others.]]")
    chart(
        pattern_figure(patterns.patterns, mode()),
        f"{key}_figure",
        "Failure rate of the cases with each property, and of all other cases",
    )
    rate: Any = partial(st.column_config.TextColumn, width=90)
    st.dataframe(
        [
            {
                "Property": pattern.name,
                "Value": pattern.value,
                "Fail": f"{pattern.failed} of {pattern.cases}",
                "Others": f"{pattern.others_failed} of {pattern.others}",
                "p": pattern.p,
            }
            for pattern in patterns.patterns[:MAX_PATTERNS]
        ],
        hide_index=True,
        key=f"{key}_table",
        column_config={
            "Fail": rate(),
            "Others": rate(),
            "p": st.column_config.NumberColumn(
                format="%.3f", width=70, help="Fisher's exact test, corrected for the number of properties compared"
            ),
        },
        alt="One row for each property: failures among its cases, failures among all others, p",
    )
    if patterns.rules:
        lost = ", ".join(f"{rule.replace('_', ' ')} ({tokens(number)})" for rule, number in patterns.rules)
        st.markdown(f":small[:gray[Lost by: {plain(lost)}]]")
