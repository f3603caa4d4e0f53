"""The budget card: two lanes, what they say in one sentence, and the numbers as a small table."""

from collections.abc import Mapping

import streamlit as st

from memory_core import Status
from memory_core.events import ContextBuilt, FlushPlanned
from ui.budget import Lanes, Segment, lanes_html, legend_rows
from ui.text import count, tokens
from ui.theme import mode


def lanes_of(status: Status, built: ContextBuilt | None, kinds: Mapping[str, str]) -> Lanes:
    """The lanes of the last prompt and of the queue now; before any prompt, of the queue alone."""
    limit = built.token_limit if built else status.token_limit
    segments = [
        Segment(
            label="Queue",
            kind="queue",
            tokens=built.queue_tokens if built else 0,
            priority=None,
            asked=built.queue_asked if built else 0,
        )
    ]
    if built and built.pinned_tokens:
        pinned = built.pinned_tokens
        segments.append(Segment("System messages", "custom", pinned, 0, pinned, note="pinned, never cut"))
    for part in built.parts if built else ():
        segments.append(
            Segment(
                label=str(part["name"]),
                kind=kinds.get(str(part["name"]), "custom"),
                tokens=int(part["granted"]),
                priority=int(part["priority"]),
                asked=int(part["asked"]),
            )
        )
    smallest = built is not None and built.truncation_order == "smallest_first"
    return Lanes(
        limit=limit,
        flush_line=int(status.history_budget),
        sent=tuple(segments),
        free=max(0, limit - (built.total if built else 0)),
        queue_now=status.queue_tokens,
        cut=sum(int(cut["tokens"]) for cut in built.cuts) if built else 0,
        cut_first="smallest" if smallest else "largest",
    )


def draw_budget(lanes: Lanes, sentence: str, *, turn: int | None) -> None:
    """The card's content: `sentence`, markdown without words of others, says how the queue stands.

    Which turn the prompt is of stands in its title.
    """
    with st.container(horizontal=True, horizontal_alignment="distribute"):
        st.markdown(f"**Token budget**{f' of turn {turn}' if turn else ''}")
        st.markdown(f"{tokens(lanes.total)} of {tokens(lanes.limit)}", width="content")
    st.html(lanes_html(lanes, mode()))
    st.markdown(f":small[{sentence}]")
    st.table(legend_rows(lanes, mode()), border=False, hide_header=True, hide_index=True)


def queue_sentence(status: Status, *, name: str = "Queue now") -> str:
    """How far the next flush is, in words; markdown without any words of others."""
    line = int(status.history_budget)
    over = status.queue_tokens - line
    if over > 0:
        ending = f"{tokens(over)} above the flush line: the next message flushes it."
    else:
        ending = f"**{tokens(status.to_next_flush)} to the next flush.**"
    moving = ""
    if status.in_transit_messages:
        moving = f" {count(status.in_transit_messages, 'message')} in transit to the blocks."
    return f"{name} {tokens(status.queue_tokens)}. {ending}{moving}"


def overflow_sentence(flush: FlushPlanned) -> str:
    """The queue at the moment it was flushed, in words; markdown without any words of others."""
    over = flush.queue_before - int(flush.history_budget)
    return f"Queue {tokens(flush.queue_before)}, **{tokens(over)} above the flush line.**"
