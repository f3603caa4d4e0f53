"""The Rewrites view: results of condensing the list, with undo."""

from functools import partial

import streamlit as st

from memory_core.history.rewrites import Merged, Rewrite, RewrittenLine
from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_inspector.wording.formatting import plain, short, tokens
from ui.facts import fact_changes
from ui.facts.fact_snapshot import FactSnapshot
from ui.parts.components import empty, more_line

SHOWN = 10
"""Maximum number of rewrites drawn."""

LINES = 30
"""Maximum number of facts of one kind drawn for one rewrite."""

LONGEST = 160


def headline(rewrite: Rewrite) -> str:
    """Return the title of a condensing: `31 facts became 24 in turn 28`"""
    return f"{tokens(rewrite.before)} facts became {tokens(rewrite.after)} in turn {tokens(rewrite.turn)}"


def sums(rewrite: Rewrite) -> str:
    """Return the totals of a condensing: `kept 20 · merged 9 → 4 · dropped 2 · unsupported 0`"""
    into = len(rewrite.merged)
    merged = sum(len(merge.sources) for merge in rewrite.merged)
    unsupported = sum(line.unsupported for line in _written(rewrite))
    parts = [f"kept {tokens(len(rewrite.kept))}", f"merged {tokens(merged)} → {tokens(into)}"]
    parts.append(f"dropped {tokens(len(rewrite.vanished))}")
    parts += [f"new {tokens(len(rewrite.new))}"] if rewrite.new else []
    parts.append(f"unsupported {tokens(unsupported)}")
    return " · ".join(parts)


def lost(rewrite: Rewrite) -> list[Fact]:
    """Facts that a condensing dropped, as far as they can be restored."""
    # An erased fact is None here; one that a person restored or retired since is not superseded any more.
    return [line.fact for line in rewrite.vanished if line.fact is not None and line.replaced]


def draw_rewrites(desk: FactSnapshot) -> None:
    """Draw the newest condensings, each with the facts it dropped, merged and wrote."""
    if not desk.rewrites:
        block = next((a for a in desk.memory.blocks if a.name == desk.block), None)
        # 50 is the default of `max_facts`, for a block that was removed.
        most = block.record.settings.get("max_facts", 50) if block is not None else 50
        empty(
            "No rewrites yet.",
            f"Above {tokens(int(most))} active facts the list is condensed. Facts kept, merged or lost appear here.",
            icon="compress",
        )
        return
    st.markdown(":small[:gray[Each time the list was condensed: what was kept, merged and dropped.]]")
    for rewrite in desk.rewrites[:SHOWN]:
        with st.container(border=True, gap="small", key=f"facts__rewrite_{rewrite.position}"):
            _draw(desk, rewrite)


def _draw(desk: FactSnapshot, rewrite: Rewrite) -> None:
    st.markdown(f"**{headline(rewrite)}**  \n:small[{sums(rewrite)}]")
    if rewrite.refused:
        st.markdown(":small[:gray[Refused: the earlier list applies again.]]")
    gone = lost(rewrite)
    with st.container(horizontal=True, gap="small"):
        if gone and not rewrite.refused:
            st.button(
                "Restore it, pinned" if len(gone) == 1 else f"Restore all {tokens(len(gone))}, pinned",
                key=f"facts__restore_all_{rewrite.position}",
                icon=":material/keep:",
                on_click=fact_changes.make,
                args=(desk, partial(plans.restore_vanished, gone, True)),
            )
        if not rewrite.refused:
            st.button(
                "Refuse the rewrite",
                key=f"facts__refuse_{rewrite.position}",
                icon=":material/undo:",
                help="Restores the longer list; later changes stay.",
                on_click=fact_changes.refuse,
                args=(desk, rewrite),
            )
    before, after = st.columns(2, gap="medium")
    with before, st.container(gap="xxsmall"):
        for line in rewrite.vanished[:LINES]:
            _vanished(desk, rewrite, line)
        if not rewrite.vanished:
            st.markdown(":small[:gray[Nothing was dropped.]]")
        more_line(len(rewrite.vanished) - LINES)
    with after, st.container(gap="xsmall"):
        for merge in rewrite.merged[:LINES]:
            _merged(merge)
        for line in rewrite.new[:LINES]:
            st.markdown(f":small[:blue[**+**] {_words(line)}{_doubt(line)}]")
        more_line(max(0, len(rewrite.merged) - LINES) + max(0, len(rewrite.new) - LINES))


def _vanished(desk: FactSnapshot, rewrite: Rewrite, line: RewrittenLine) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        # A restored fact is not lost any more, and "words erased" is no text that could be struck out.
        struck = _words(line) if line.restored or not line.text else f":red[~~{_words(line)}~~]"
        st.markdown(f":small[:red[:material/content_cut:] {struck}]", width="content")
        if line.restored:
            st.markdown(":small[:gray[Restored]]", width="content")
        elif line.fact is not None and line.replaced and not rewrite.refused:
            st.button(
                "Restore",
                key=f"facts__restore_{rewrite.position}_{line.id}",
                type="tertiary",
                on_click=fact_changes.make,
                args=(desk, partial(plans.restore_vanished, [line.fact], False)),
            )


def _merged(merge: Merged) -> None:
    # One of the merged facts may have been kept as the result; it is not listed as gone.
    sources = "  \n".join(f":gray[−] {_words(line)}" for line in merge.sources if line.id != merge.into.id)
    st.markdown(f":small[{sources}  \n:blue[**→**] {_words(merge.into)}{_doubt(merge.into)}]")


def _doubt(line: RewrittenLine) -> str:
    return " :orange[:material/warning: unsupported]" if line.unsupported else ""


def _words(line: RewrittenLine) -> str:
    return plain(short(line.text, LONGEST)) if line.text else ":gray[words erased]"


def _written(rewrite: Rewrite) -> list[RewrittenLine]:
    """Facts whose text the rewrite wrote itself."""
    return [*(merge.into for merge in rewrite.merged), *rewrite.new]
