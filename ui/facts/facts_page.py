"""The Facts page: review and edit what a facts block has learned."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from zlib import crc32

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.events import ContextBuilt
from memory_core.history.change_log import AppliedChangeSet, next_undo
from memory_core.history.fact_evidence import Rewrite
from memory_core.planning.former_values import stored_marks
from memory_inspector.reading.fact_rows import (
    CHECK_AFTER,
    FactFilter,
    Picked,
    ShownFact,
    View,
    in_view,
    opening,
    to_check,
    view_labels,
)
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.facts import fact_dialogs, fact_tab
from ui.facts.fact_decisions import draw_decisions, draw_rewrites
from ui.facts.fact_list import draw_list, draw_search
from ui.facts.fact_panel import draw_panel, draw_selection
from ui.facts.fact_tab import FactSnapshot, read_desk, read_past
from ui.facts.review import chosen_age, draw_check, draw_review
from ui.parts.components import empty, give_while_typing, unseen_heading
from ui.parts.facts_limit import draw_limit, reduced
from ui.parts.flushing import start_flush
from ui.parts.listing import changes_dialog
from ui.tab import nav, state
from ui.tab.model import chosen_model
from ui.tab.view import View as Shown

PAST_VIEWS: tuple[View, ...] = ("active", "retired", "decisions")


def draw(view: Shown) -> None:
    """Draw the facts of one block of the session, now or at a past turn."""
    blocks = view.blocks_of("facts")
    if not blocks:
        when = "yet" if view.past else "in this session"
        empty(
            f"No facts block {when}.",
            "It learns facts from messages when they leave the queue.",
            icon="fact_check",
            act=None if view.read_only else lambda: nav.link("blocks", "Add facts", icon=":material/add:"),
        )
        return
    read = read_past if view.past else read_desk
    desk = read(view, _block(view, blocks))
    give_while_typing("facts")
    _take_link(desk)
    past_turn = view.turn if view.past else None
    st.markdown(plain(opening(desk.rows, past_turn=past_turn) + _in_prompt(view, desk)))
    if not view.read_only and desk.runs_here:
        draw_limit(desk.memory, desk.block, desk.curation.limit_effect(), key="facts")
    shown = _head(view, desk, blocks)
    # Active and Retired are lists beside a panel; only these have an open fact in the address.
    if in_view(desk.rows, shown) and shown in PAST_VIEWS:
        _list_and_panel(view, desk, shown)
        return
    fact_tab.link.put(None, place=desk.place)
    if shown == "decisions":
        draw_decisions(desk)
        return
    if shown == "review":
        draw_review(desk)
    elif shown == "check":
        draw_check(desk)
    elif shown == "rewrites":
        draw_rewrites(desk)
    else:
        _nothing(view, shown)


def _in_prompt(view: Shown, desk: FactSnapshot) -> str:
    """Say what the facts take in the prompt shown, where that is another number than that of the facts alone."""
    event = view.contexts[-1].event if view.contexts else None
    parts = event.parts if isinstance(event, ContextBuilt) else ()
    part = next((part for part in parts if part["name"] == desk.block), None)
    alone = sum(row.fact.tokens for row in in_view(desk.rows, "active"))
    if part is None or int(part["granted"]) == alone:
        return ""
    noted = " with notes on former values" if stored_marks(part) else ""
    return f" In the prompt of turn {tokens(view.contexts[-1].turn)}: {count(int(part['granted']), 'token')}{noted}."


def _block(view: Shown, blocks: Sequence[str]) -> str:
    """The block to show. With several: that of the fact in the URL, else the one chosen last, else the first."""
    session_id = view.memory.session_id
    # A link names a fact by id only; with several blocks, the one that has it is looked for.
    for name in blocks if len(blocks) > 1 else ():
        (asked,) = fact_tab.link.asked((session_id, name))
        if asked is not None and state.address_number(asked) in _ids(view, name):
            fact_tab.blocks.choose(session_id, name)
    return fact_tab.blocks.shown(session_id, blocks)


def _ids(view: Shown, block: str) -> set[int]:
    if view.past:
        return set(read_past(view, block).facts)
    return {fact.id for fact in view.memory.facts.read(block, states=None)}


def _take_link(desk: FactSnapshot) -> None:
    """Open the fact named by the URL, in the view that lists it."""
    (address,) = fact_tab.link.take(desk.place)
    asked = state.address_number(address)
    row = desk.row(asked)
    if row is None:
        if asked is not None:
            when = "at this turn" if desk.past else "any more, or never was"
            st.warning(plain(f"This fact is not in the session {when}. Showing the list."))
        return
    # Every state is listed in one of these views, so that old links keep working.
    view: View = "active" if row.fact.state == "active" else "review" if row.waits else "retired"
    fact_tab.change(desk.place, view=view, picked=Picked(row.id))
    # Review shows one fact at a time: the one of the link goes first there.
    fact_tab.keep(desk.place, "asked_for", row.id)
    fact_tab.redraw(desk.place)


def _head(view: Shown, desk: FactSnapshot, blocks: Sequence[str]) -> View:
    """Draw the views, the search and the buttons in one row; return the view shown."""
    place = desk.place
    age = CHECK_AFTER[chosen_age(place)]
    old = len(to_check(desk.rows, now=time.time(), older=age))
    # The view is there once something is old, or when it was opened from the menu.
    checks = old if old or fact_tab.at(place).view == "check" else None
    decided = len(desk.decisions.decided) if desk.decides else None
    labels = view_labels(desk.rows, len(desk.rewrites), decided, checks)
    # Review, Rewrites and Still true? are there to decide something, so that a read-only page goes without them.
    offered = [label for label in labels if not view.read_only or label in PAST_VIEWS]
    shown = fact_tab.at(place).view if fact_tab.at(place).view in offered else "active"
    key = fact_tab.key(place, "past_view" if view.read_only else "view")
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="facts__head"):
        st.segmented_control(
            "View",
            offered,
            default=shown,
            required=True,
            key=key,
            format_func=lambda label: labels[label],
            label_visibility="collapsed",
            on_change=lambda: fact_tab.change(place, view=st.session_state[key]),
            width="content",
        )
        fact_tab.blocks.draw(view.memory.session_id, blocks)
        if in_view(desk.rows, shown) and shown in PAST_VIEWS:
            draw_search(place, desk.rows, shown, elsewhere=desk.elsewhere)
        else:
            st.space("stretch")
        if not view.read_only:
            _undo(desk)
            _add(desk, primary=shown != "review")
        # A running agent's session: its facts can be read, tried and exported, and not changed.
        elif not view.past:
            _more(desk, ["Try extraction", "Export"])
    return shown


def _undo(desk: FactSnapshot) -> None:
    """Draw the button that undoes the newest change; repeated use undoes earlier ones."""
    newest = next_undo(desk.changes)
    help = "Nothing to undo" if newest is None else newest.obstacle or f"Undo: {plain(newest.words)}"
    undo: Callable[..., None] = fact_tab.undo
    what: AppliedChangeSet | Rewrite | None = newest
    disabled = newest is None or bool(newest.obstacle)
    # Condensing is no change set of a person, and has an undo of its own: the newer of the two is offered.
    condensed = next((rewrite for rewrite in desk.rewrites if rewrite.vanished and not rewrite.refused), None)
    if condensed is not None and (newest is None or newest.number < condensed.position):
        undo, what, help, disabled = fact_tab.refuse, condensed, f"Undo: {reduced(condensed)}", False
    st.button(
        "Undo",
        key="facts__undo",
        type="tertiary",
        icon=":material/undo:",
        help=help,
        disabled=disabled,
        on_click=undo,
        args=(desk, what),
    )


def _add(desk: FactSnapshot, *, primary: bool) -> None:
    if st.button("Add", key="facts__add", type="primary" if primary else "secondary", icon=":material/add:"):
        fact_dialogs.add_dialog(desk)
    _more(desk, ["Still true?", "Changes", "Try extraction", "Edit as table", "Import", "Export"])


def _more(desk: FactSnapshot, offered: Sequence[str]) -> None:
    chosen = st.menu_button(
        "More for these facts",
        offered,
        key="facts__more",
        icon=":material/more_horiz:",
        type="tertiary",
        help="More for these facts",
    )
    if chosen == "Still true?":
        fact_tab.change(desk.place, view="check")
        fact_tab.redraw(desk.place)
        # The control of the views is drawn already in this run, with the previous view.
        st.rerun()
    elif chosen == "Changes":
        changes_dialog(partial(fact_tab.listed, desk), partial(fact_tab.undo, desk))
    elif chosen == "Try extraction":
        fact_dialogs.try_dialog(desk)
    elif chosen == "Edit as table":
        fact_dialogs.open_table(desk)
    elif chosen == "Import":
        fact_dialogs.import_dialog(desk)
    elif chosen == "Export":
        fact_dialogs.export_dialog(desk)


def _list_and_panel(view: Shown, desk: FactSnapshot, shown: View) -> None:
    table, detail = st.columns([0.58, 0.42], gap="medium")
    with table:
        unseen_heading("List of facts")
        rows = draw_list(desk.place, desk.rows, shown, view.effects, several=not desk.read_only)
        if not desk.past:
            draw_meanings(desk, fact_tab.at(desk.place).wanted.words.strip())
    picked = fact_tab.at(desk.place).picked
    ticked = [row for row in rows if row.id in picked.ticked]
    fact_tab.link.put(picked.open, place=desk.place)
    with detail:
        # One ticked fact is shown like an open one, with all that can be done with it.
        if len(ticked) > 1 and not desk.read_only:
            draw_selection(desk, ticked)
        elif (row := _open_row(rows, ticked, picked)) is not None:
            draw_panel(view, desk, row)


def _open_row(rows: Sequence[ShownFact], ticked: Sequence[ShownFact], picked: Picked) -> ShownFact | None:
    opened = next((row for row in rows if row.id == picked.open), None)
    return opened or next(iter(ticked), None)


def _nothing(view: Shown, shown: View) -> None:
    """Draw the message of an empty view."""
    if shown == "retired":
        empty("Nothing retired.", "Facts that are retired, rejected or replaced are kept here, and can be restored.")
        return
    if view.past:
        empty("No facts yet.", "Nothing had been learned by then.")
        return
    status = view.status
    room = f"{count(status.to_next_flush, 'token')} to the next flush."
    empty(
        "No facts yet.",
        f"Facts are learned when messages leave the queue. {room}",
        icon="fact_check",
        act=(lambda: _flush_button(view)) if status.queue_messages and not view.read_only else None,
    )


def _flush_button(view: Shown) -> None:
    # The position is part of the job's id: a second click joins the flush that the first one started.
    memory, position = view.memory, view.status.position

    st.button(
        "Flush now",
        key="facts__flush",
        icon=":material/keyboard_tab:",
        disabled=view.running is not None,
        on_click=lambda: start_flush(memory, position, chosen_model()),
        help="Move one batch out of the queue by the usual rules",
    )


# -- facts similar in meaning to the search, with their scores ------------------------------------


HITS = 8

SHOWN_CHARACTERS = 120


def draw_meanings(desk: FactSnapshot, words: str) -> None:
    """Draw the results under the list; searches only when expanded."""
    if not words:
        return
    offline = desk.memory.session.services.embedder.offline
    says = "Nearest in meaning" if offline else "Nearest in meaning (one embedding call)"
    # The search is part of the key: another one starts folded, and costs no embedding call unasked.
    opened = st.expander(says, key=f"facts__meaning_{crc32(words.encode())}", on_change="rerun", type="compact")
    if not opened.open:
        return
    with opened:
        try:
            hits = desk.memory.facts.search(words, block=desk.block, top_k=HITS)
        except MemoryInspectorError as error:
            st.error(plain(str(error)))
            return
        if not hits:
            st.markdown(":small[:gray[No active fact matches.]]")
        for hit in hits:
            st.button(
                f"{hit.score:.2f}\N{EN SPACE}{plain(short(hit.fact.text, SHOWN_CHARACTERS))}",
                key=f"facts__hit_{hit.fact.id}",
                type="tertiary",
                on_click=_open,
                args=(desk.place, hit.fact.id),
            )


def _open(place: fact_tab.ListPosition, fact: int) -> None:
    """Open a fact, and clear the search that may hide it."""
    fact_tab.change(place, wanted=FactFilter(), view="active", picked=Picked(fact))
    fact_tab.redraw(place)
