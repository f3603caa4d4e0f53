"""The Facts page: review and edit what a facts block has learned, and the decisions it made itself."""

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from zlib import crc32

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.events import ContextBuilt
from memory_core.history.change_log import AppliedChangeSet, next_undo
from memory_core.history.fact_evidence import Merged, Rewrite, RewrittenLine
from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_core.planning.former_values import stored_marks
from memory_inspector.reading.fact_history import BlockDecisions, Decided, refusals, rows, summed, why
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
from memory_inspector.wording.decision_text import DECISIONS
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.marked_text import diff_pieces, markdown
from ui.facts import fact_dialogs, fact_tab
from ui.facts.fact_list import BESIDE_PIXELS, CHIP_COLOURS, MIN_PIXELS, draw_list, draw_search
from ui.facts.fact_panel import draw_panel, draw_selection
from ui.facts.fact_tab import FactSnapshot, read_desk, read_past
from ui.facts.review import chosen_age, draw_check, draw_review
from ui.parts.components import empty, filled_rows, give_while_typing, more_line, unseen_heading
from ui.parts.facts_limit import draw_limit, reduced
from ui.parts.flushing import start_flush
from ui.parts.listing import changes_dialog, pick_row
from ui.tab import drawing, nav, state
from ui.tab.model import chosen_model
from ui.tab.view import View as Shown

# -- the decision on each found fact, the existing facts it was compared with, and the reason -----


MOST = 200
"""Maximum number of decisions listed, the newest."""

REFUSALS = 5

FOUND_PIXELS = 260

COLOURS = {"Added": "green", "Updated": "blue", "Deleted": "orange", "Nothing new": "gray"}

_PICKED = "decision"


def draw_decisions(desk: FactSnapshot) -> None:
    """Draw the decisions of the block, newest first, with the details of the selected one."""
    decisions = desk.decisions
    if not decisions.decided:
        empty(
            "No decisions yet.",
            "Each found fact is compared with similar known facts. The decisions are listed here.",
            icon="balance",
        )
        _refused(decisions)
        return
    table, detail = st.columns([0.6, 0.4], gap="medium")
    shown = list(reversed(decisions.decided))[:MOST]
    facts = {row.id: row.fact.text for row in desk.rows}
    with table:
        st.markdown(f":small[:gray[{summed(decisions)}]]")
        picked = _list(desk, decisions, shown)
        _refused(decisions)
    with detail:
        _detail(decisions, picked, facts)


def _list(desk: FactSnapshot, decisions: BlockDecisions, shown: Sequence[Decided]) -> Decided:
    """Draw the table; return the selected decision, by default the newest."""
    # Remembered by log position, which stays the same when newer decisions move the rows down.
    before = fact_tab.remembered(desk.place, _PICKED)
    picked = next((decision for decision in shown if decision.position == before), shown[0])
    fact_tab.keep(desk.place, _PICKED, picked.position)
    pick_row(
        rows(decisions, shown),
        [decision.position for decision in shown],
        fact_tab.key(desk.place, "decisions"),
        partial(fact_tab.keep, desk.place, _PICKED),
        picked=picked.position,
        slot=filled_rows("facts__decided", len(shown), minus=BESIDE_PIXELS, least=MIN_PIXELS),
        height="stretch",
        column_config={
            "Turn": st.column_config.NumberColumn(width=48, format="localized", pinned=True),
            "Found": st.column_config.TextColumn(width=FOUND_PIXELS),
            "Decision": st.column_config.MultiselectColumn(
                options=list(COLOURS),
                color=[CHIP_COLOURS[drawing.mode()][decision] for decision in COLOURS.values()],
                width=108,
                pinned=True,
            ),
            "Score": st.column_config.NumberColumn(
                format="%.2f", width=60, help="Similarity, 0 to 1, of the found fact to the known fact decided on"
            ),
        },
        placeholder="–",
        alt=f"{tokens(len(shown))} decisions about found facts",
    )
    return picked


def _detail(decisions: BlockDecisions, picked: Decided, facts: dict[int, str]) -> None:
    event = picked.event
    label = DECISIONS[event.decision]
    when = f"turn {tokens(picked.turn)}" if picked.turn else "before the first turn"
    with st.container(border=True, gap="xsmall", key="facts__decision"):
        st.markdown(f"**{plain(short(decisions.describe(event.content), 160))}**")
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            st.badge(plain(label), color=_BADGES[event.decision], icon=f":material/{_ICONS[event.decision]}:")
            st.markdown(f":small[:gray[{when}]]", width="content")
        # 1. The words of an updated fact before and after; of a deleted one, what it said.
        if picked.before is not None:
            change = markdown(diff_pieces(decisions.describe(picked.before), decisions.describe(picked.after)))
            st.markdown(f":small[{change}]")
        elif event.decision == "delete" and event.fact is not None:
            st.markdown(f":small[:orange[~~{plain(facts.get(event.fact, 'words erased'))}~~]]")
        st.markdown(f":small[:gray[{plain(why(picked))}]]")
        # 2. The facts it was compared with; the one that was decided about is bold.
        if event.candidates:
            st.markdown(":small[**Compared with**]")
            near = [
                {"score": f"{score:.2f}", "fact": _candidate(fact, facts, bold=fact == event.fact)}
                for fact, score in event.candidates
            ]
            st.table(near, border=False, hide_header=True, hide_index=True)


_ICONS = {"add": "add", "update": "edit", "delete": "history", "none": "check"}

_BADGES: dict[str, Any] = {"add": "green", "update": "blue", "delete": "orange", "none": "gray"}


def _candidate(fact: int, facts: dict[int, str], *, bold: bool) -> str:
    label = plain(short(facts.get(fact, "words erased"), 120))
    return f"**{label}**" if bold else label


def _refused(decisions: BlockDecisions) -> None:
    """Draw the refused proposals."""
    lines = refusals(decisions)
    if not lines:
        return
    st.markdown(":small[**Left out**]")
    for line in lines[:REFUSALS]:
        st.markdown(f":small[:orange[:material/block:] {plain(line)}]")
    more_line(len(lines) - REFUSALS)


# -- results of condensing the list, with undo ----------------------------------------------------


SHOWN_REWRITES = 10
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
    for rewrite in desk.rewrites[:SHOWN_REWRITES]:
        with st.container(border=True, gap="small", key=f"facts__rewrite_{rewrite.position}"):
            _draw_rewrite(desk, rewrite)


def _draw_rewrite(desk: FactSnapshot, rewrite: Rewrite) -> None:
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
                on_click=fact_tab.make,
                args=(desk, partial(plans.restore_vanished, gone, True)),
            )
        if not rewrite.refused:
            st.button(
                "Refuse the rewrite",
                key=f"facts__refuse_{rewrite.position}",
                icon=":material/undo:",
                help="Restores the longer list; later changes stay.",
                on_click=fact_tab.refuse,
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
                on_click=fact_tab.make,
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
