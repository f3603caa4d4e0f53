"""A track as a row of stages; only the stage where the information was lost is red."""

import streamlit as st

from memory_core.tracing.values import STAGES as ORDER
from memory_core.tracing.values import Stage, Track
from memory_core.tracing.words import KNOWLEDGE, KNOWLEDGE_HELP, STAGES, brief, carrier_name, end_of
from memory_inspector.wording.formatting import plain
from memory_inspector.wording.trace_text import ICONS, rows, title
from ui.tab import nav
from ui.timeline.opened_event import EVENT


def draw_track(track: Track, place: int, *, without: int = 0) -> None:
    """Draw the stages of a track, except the first `without`, which another track has shown already."""
    shown = track.stages[without:]
    with st.container(horizontal=True, gap="small", key=f"trace__track_{place}"):
        for number, stage in enumerate(shown):
            _draw_stage(stage, f"{place}_{number}")
        # A row that ends in red before the prompt would look unfinished.
        if shown[-1].verdict == "lost" and shown[-1].name != "prompt":
            _draw_never(f"{place}_end")


def _draw_stage(stage: Stage, place: str) -> None:
    with st.container(border=True, gap=None, key=f"trace__{stage.verdict}_{place}"):
        st.markdown(title(stage))
        st.markdown(f":small[{plain(brief(stage))}]")
        if stage.knowledge == "reported":
            st.markdown(f":small[:gray[{KNOWLEDGE[stage.knowledge]}]]")


def _draw_never(place: str) -> None:
    """Draw the stage of the prompt, which a lost track does not reach."""
    with st.container(border=True, gap=None, key=f"trace__not_reached_{place}"):
        st.markdown(f":material/{ICONS['not_reached']}: **{STAGES['prompt']}**")
        st.markdown(":small[no]")


def draw_others(tracks: tuple[Track, ...], first: Track) -> None:
    """Draw the other carriers below the first, each with its name, how it ended, and the stages it does not share."""
    for place, track in enumerate(tracks, start=1):
        with st.container(gap="xsmall", key=f"trace__other_{place}"):
            words = f" :gray[“{plain(track.carrier.words[:90])}”]" if track.carrier.words else ""
            st.markdown(f"**{plain(carrier_name(track.carrier))}**{words}")
            st.markdown(f":small[{plain(end_of(track))}]")
            draw_track(track, place, without=_shared(track, first))


def _shared(track: Track, first: Track) -> int:
    """Return the number of first stages that two tracks share, at most all but one of `track`'s."""
    alike = 0
    for one, other in zip(track.stages, first.stages, strict=False):
        # From the delivery on, stages belong to a block, even where they look alike.
        if one != other or ORDER.index(one.name) >= ORDER.index("delivery"):
            break
        alike += 1
    return min(alike, len(track.stages) - 1)


def draw_details(track: Track) -> None:
    """Draw a toggle for every stage in words, and a link to the event that decided."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        shown = st.toggle("Every stage in words", key="trace__in_words")
        if track.decisive is not None:
            _draw_event_link(track.decisive)
    if shown:
        st.dataframe(
            rows(track),
            hide_index=True,
            height="content",
            key="trace__rows",
            column_config={
                "Stage": st.column_config.TextColumn(width=90),
                "Verdict": st.column_config.TextColumn(width=90),
                "What happened": st.column_config.TextColumn(width="large"),
                "Turn": st.column_config.NumberColumn(width=60),
                "Known": st.column_config.TextColumn(width=130, help=KNOWLEDGE_HELP),
            },
            alt="Every stage of the first track, with what happened there",
        )


def _draw_event_link(stage: Stage) -> None:
    if stage.position is not None and stage.turn:
        nav.link(
            "timeline", "The event on the Timeline", icon=":material/timeline:", turn=stage.turn,
            **{EVENT: str(stage.position)},
        )  # fmt: skip
