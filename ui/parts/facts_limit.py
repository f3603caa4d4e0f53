"""The limit of a facts block: what it will do, with a button that raises it, and what condensing dropped, with Undo."""

from functools import partial

import streamlit as st

from memory_core import Memory
from memory_core.curation.fact_desk import Curation
from memory_core.events import BlockEdited
from memory_core.history.fact_evidence import Rewrite
from memory_core.planning.fact_merging import LimitEffect
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts import toasts
from ui.parts.components import error_noticed
from ui.parts.fields import change_settings
from ui.tab.people import allowed
from ui.tab.services import engine
from ui.tab.view import View

_ANNOUNCED = "condensing_announced"
"""Log position of the last condensing that this tab announced or found, by session."""


def limit_line(block: str, effect: LimitEffect) -> str | None:
    """Describe what `max_facts` does to the list next, as plain text; None if the list is far from it.

    >>> limit_line("Facts", LimitEffect(facts=60, protected=15, max_facts=50))
    'Facts: 60 facts, limit 50. The next flush merges or drops 20 of the 45 that nobody wrote or confirmed.'
    """
    # `target` is what condensing reduces a list to: up to there the limit changes nothing.
    if effect.facts <= effect.target:
        return None
    beside = f" and {tokens(effect.keyed)} of a program" if effect.keyed else ""
    head = f"{short(block)}: {tokens(effect.facts)} facts{beside}, limit {tokens(effect.max_facts)}."
    # 1. Protected facts alone fill the list, so that nothing may be condensed.
    if effect.filled:
        whose = "All" if effect.protected == effect.facts else f"{tokens(effect.protected)} of them"
        return f"{head} {whose} were written or confirmed by people, so none is dropped."
    loose = f"{tokens(effect.facts - effect.protected)} that nobody wrote or confirmed"
    # 2. Above the limit already: the next flush condenses.
    if effect.exceeded:
        return f"{head} The next flush merges or drops {tokens(effect.surplus)} of the {loose}."
    # 3. Between target and limit: only a warning of what comes.
    return f"{head} Above it, the list is reduced to {tokens(effect.target)}: only the {loose} are merged or dropped."


def draw_limit(memory: Memory, block: str, effect: LimitEffect, *, key: str, changeable: bool = True) -> None:
    """Draw the line with a button that raises the limit; nothing if the list is far from it."""
    line = limit_line(block, effect)
    if line is None:
        return
    tone = "orange" if effect.exceeded else "gray"
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.markdown(f":small[:{tone}[:material/compress: {plain(line)}]]", width="content")
        if changeable:
            st.button(
                f":small[Raise the limit to {tokens(effect.proposed)}]",
                key=f"{key}__raise_limit",
                type="tertiary",
                on_click=_raise,
                args=(memory.session_id, block, effect.proposed),
                **allowed(BlockEdited),
            )


def draw_limits(memory: Memory, *, key: str) -> None:
    """Draw the line of each facts block that a flush hands messages to."""
    for attached in memory.blocks:
        if attached.kind == "facts" and attached.learns and attached.block is not None:
            effect = memory.facts.desk(attached.name).limit_effect()
            draw_limit(memory, attached.name, effect, key=f"{key}_{attached.name}")


def announce(view: View) -> None:
    """Show a toast with Undo on what condensing dropped since this tab last drew the session."""
    if view.past:
        return
    memory, seen = view.memory, st.session_state.setdefault(_ANNOUNCED, {})
    newest = memory.events(kinds=["facts_condensed"], limit=1, newest_first=True)
    position = newest[0].position if newest else 0
    before = seen.get(memory.session_id)
    seen[memory.session_id] = position
    # The first look at a session only notes what there is: old condensings are no news.
    if before is None or position <= before or view.read_only:
        return
    # Events of this kind name their block; `getattr`, because a record's event is typed as any of them.
    desk = memory.facts.desk(str(getattr(newest[0].event, "block", "")))
    rewrite = next((rewrite_made for rewrite_made in desk.rewrites() if rewrite_made.position == position), None)
    if rewrite is not None and rewrite.vanished:
        toasts.done(reduced(rewrite), undo=partial(undo_condensing, desk, rewrite))


def reduced(rewrite: Rewrite) -> str:
    """Return a sentence on a condensing: `230 facts reduced to 40: 189 dropped.`"""
    dropped = f": {tokens(len(rewrite.vanished))} dropped" if rewrite.vanished else ""
    return f"{count(rewrite.before, 'fact')} reduced to {tokens(rewrite.after)}{dropped}."


def undo_condensing(desk: Curation, rewrite: Rewrite) -> None:
    """Restore what a condensing dropped or merged, and retire what it wrote.

    Raises:
        MemoryInspectorError: the condensing was undone before, or a fact was changed elsewhere.
    """
    desk.apply(desk.refuse(rewrite))


@error_noticed
def _raise(session_id: str, block: str, limit: int) -> None:
    before = int(engine().open(session_id).blocks.settings(block)["max_facts"])
    # A conflict if somebody else changed the limit between reading and writing.
    undo = change_settings(session_id, block, {"max_facts": before}, {"max_facts": limit})
    toasts.done(f"{short(block)} keeps up to {count(limit, 'fact')}.", undo=undo)
