"""One stored turn beneath the list: its words, why it ended where it did, what would change that, what lies near it."""

from typing import Any

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.searching import Found, Search
from ui import state
from ui.components import closing_button, error_inside
from ui.effect import effect_sentence
from ui.frame import View
from ui.retrieval import asking, knobs
from ui.retrieval.reading import change_label, changed_sentence, earlier, earlier_line, place, terms, why
from ui.services import engine
from ui.text import count, plain, short, tokens

NEIGHBOURS = 4
EARLIER = 5
"""Recorded searches that are listed, the newest ones."""

LONG_TEXT = 900
"""Characters above which a turn's words scroll in a box of their own."""


def draw_detail(view: View, search: Search, number: int) -> None:
    """The picked turn."""
    found = search.one(number)
    if found is None:
        st.markdown(":small[:gray[The turn that was picked is not stored any more.]]")
        return
    with st.container(border=True, key="retrieval__detail"):
        left, right = st.columns([0.55, 0.45], gap="medium")
        with left:
            _draw_words(view, search, found)
        with right:
            st.markdown(why(found, search))
            said = terms(found, search)
            if said is not None and search.candidates:
                of = count(search.stored, "stored turn") if search.stored else count(search.candidates, "candidate")
                st.markdown(f":small[Score: {said}. It is {place(found)} of {of}.]")
            if not view.past:
                _draw_fix(view, search, found)
            _draw_earlier(view, search, found)


def _draw_words(view: View, search: Search, found: Found) -> None:
    title = (
        f"**Turn {tokens(found.turn)}** · {count(found.tokens, 'token')}" if found.turn else "**A turn since erased**"
    )
    st.markdown(title)
    with st.container(height=220 if len(found.words) > LONG_TEXT else "content", border=False):
        st.text(found.words or "(erased)")
    if view.past:
        return
    near = view.memory.neighbours(search.block, found.number, limit=NEIGHBOURS)
    if near:
        st.markdown(":small[:gray[Nearest stored turns]]")
        st.dataframe(
            [
                {"Turn": each.turn, "Text": " ".join(each.words.split())[:200], "Nearness": each.similarity}
                for each in near
            ],
            hide_index=True,
            column_config={
                "Turn": st.column_config.NumberColumn(width=52),
                "Text": st.column_config.TextColumn(width="medium"),
                "Nearness": st.column_config.NumberColumn(
                    format="%.2f", width=80, help="Cosine similarity, at most 1."
                ),
            },
            key="retrieval__near",
            alt="The stored turns nearest to this one by meaning",
        )
    if st.button("Delete stored turn", icon=":material/delete:", key="retrieval__delete", type="tertiary"):
        delete_dialog(view.memory.session_id, search.block, found.number, found.turn, found.words)


def _draw_fix(view: View, search: Search, found: Found) -> None:
    """The smallest change of settings that would ask for the turn, with its effect, before anything is done."""
    changes = search.settings_to_ask_for(found.number)
    if not changes:
        return
    session_id = view.memory.session_id
    whole: dict[str, Any] = {**asking.asked(session_id).tried.get(search.block, {}), **changes}
    after = asking.searched(view.memory, view.status.position, search.block, search.query or "", whole)
    st.button(
        change_label(changes),
        key="retrieval__fix",
        wrap=True,
        on_click=_try,
        args=(session_id, search.block, changes),
        help="Sets the knobs above. Nothing is stored before you apply it.",
    )
    sentence = f"Then {changed_sentence(search, after, first=found.number)}."
    if search.context is not None and after.context is not None:
        sentence += f" {effect_sentence(search.context, after.context)}"
    st.markdown(f":small[{sentence}]")


def _try(session_id: str, block: str, changes: dict[str, Any]) -> None:
    knobs.set_tried(session_id, block, **changes)


def _draw_earlier(view: View, search: Search, found: Found) -> None:
    """Which recorded questions had this turn among their candidates."""
    before = earlier(view.history.upto(view.position), search.block, found.number)
    if not before:
        st.markdown(":small[:gray[No prompt so far had it among its candidates.]]")
        return
    newest = before[: -EARLIER - 1 : -1]
    words = view.memory.words({one.query for one in newest})
    lines = "\n".join(f"- :small[{earlier_line(one, words.get(one.query))}]" for one in newest)
    more = f", the newest {tokens(EARLIER)}" if len(before) > EARLIER else ""
    st.markdown(f":small[:gray[Candidate in {count(len(before), 'prompt')}{more}]]\n\n{lines}")


@st.dialog("Delete stored turn", icon=":material/delete:", on_dismiss="rerun")
@error_inside
def delete_dialog(session_id: str, block: str, number: int, turn: int, words: str) -> None:
    """Ask before a stored turn is deleted."""
    st.markdown(
        f"Delete turn {tokens(turn)} from “{plain(short(block))}”? It will not be found again, and no later flush "
        "brings it back. Its messages stay in the archive."
    )
    st.text(short(" ".join(words.split()), 200))
    with st.container(horizontal=True):
        closing_button("Delete stored turn", _delete, (session_id, block, number, turn), kind="primary")
        closing_button("Keep", _keep)


def _keep() -> None:
    return None


def _delete(session_id: str, block: str, number: int, turn: int) -> None:
    try:
        engine().open(session_id).forget_turn(block, number)
    except MemoryInspectorError as error:
        state.say("error", str(error))
    else:
        asking.ask(session_id, number=None)
        state.say("info", f"Deleted. Turn {tokens(turn)} is not found any more; its messages are in the archive.")
