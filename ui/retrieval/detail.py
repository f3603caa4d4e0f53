"""The details of a stored turn: its words, the reason for its outcome, the terms of its score, settings that would
change the outcome, similar turns, and the questions that found it."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from memory_core import ChatMessage
from memory_core.events import ConfigurationChanged, Ref
from memory_core.retrieval.explain import FoundBy, Search
from memory_core.retrieval.ranked import RankedTurn
from memory_core.text import capitalised
from memory_inspector.reading.search_rows import (
    change_label,
    changed_sentence,
    in_prompt,
    limit_to_keep,
    matches,
    nothing_from,
    place,
    question_rows,
    score_words,
    sum_rows,
    why,
)
from memory_inspector.wording.block_kinds import from_turn, stored, stored_plural
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.marked_text import Span, markdown, markdown_lines, source_pieces
from ui.parts import toasts
from ui.parts.components import closing_buttons, dialog, error_noticed, heading
from ui.parts.effect import draw_effect
from ui.parts.fields import change_settings
from ui.parts.listing import pick_row
from ui.retrieval import tried_search
from ui.tab import nav, state
from ui.tab.people import allowed
from ui.tab.services import engine
from ui.tab.view import View

NEIGHBOURS = 4
QUESTIONS = 5
"""Number of questions listed initially, newest first; a toggle shows the others."""
MAX_LINES = 12
"""Maximum number of rows of the list of questions before it scrolls."""
LINE_PIXELS = 33

AROUND = 110
"""Characters around the matching words in the line that shows them."""

LONG_PIXELS = 220
LONG_TEXT = 900
"""Characters above which a turn's words scroll in a box of their own."""


def draw_detail(view: View, search: Search, number: int, unit: str, *, sought: str = "") -> None:
    """Draw the selected unit: a turn, message or batch, as the block stores; `sought`: words that were looked up."""
    ranked = search.one(number)
    if ranked is None:
        st.markdown(f":small[:gray[The {unit} that was picked is not stored any more.]]")
        return
    with st.container(border=True, key="retrieval__detail"):
        text_column, score_column = st.columns([0.55, 0.45], gap="medium")
        with text_column:
            _draw_words(view, search, ranked, unit, sought)
        with score_column:
            st.markdown(why(ranked, search))
            _draw_score(search, ranked, unit)
            if not view.past:
                _draw_fix(view, search, ranked, unit)
        _draw_questions(view, search, ranked, unit)


def _draw_words(view: View, search: Search, ranked: RankedTurn, unit: str, sought: str) -> None:
    if ranked.turn:
        heading(capitalised(from_turn(unit, ranked.turn)), f" · {count(ranked.tokens, 'token')}")
    else:
        heading(f"A {unit} since erased")
    _draw_text(ranked.words, matches(ranked.words, search.query or "", sought))
    nav.follow_link(Ref.of("unit", ranked.number), ":small[Where did it go?]")
    if view.past:
        return
    # Vectors are those of now; of an earlier moment only scores were recorded.
    near = view.memory.retrieval.neighbours(search.block, ranked.number, limit=NEIGHBOURS)
    if near:
        st.markdown(f":small[:gray[Nearest {stored_plural(unit)}]]")
        st.dataframe(
            [
                {
                    "Turn": neighbour.turn,
                    "Text": " ".join(neighbour.words.split())[:200],
                    "Nearness": neighbour.similarity,
                }
                for neighbour in near
            ],
            hide_index=True,
            column_config={
                "Turn": st.column_config.NumberColumn(width=52, pinned=True),
                "Nearness": st.column_config.NumberColumn(
                    format="%.2f", width=80, pinned=True, help="Cosine similarity, at most 1."
                ),
            },
            key="retrieval__near",
            alt=f"The {stored_plural(unit)} nearest to this one by meaning",
        )
    if view.read_only:
        return
    if st.button(f"Delete stored {unit}", icon=":material/delete:", key="retrieval__delete", type="tertiary"):
        delete_dialog(view.memory.session_id, search.block, ranked.number, ranked.turn, ranked.words, unit)


def _draw_text(words: str, fits: Sequence[Span]) -> None:
    """Draw the whole text with matching words highlighted; for a long one, the matching passage first."""
    # 1. Nothing to highlight: the text as it is, without markdown. A long one scrolls, to keep the page short.
    if not fits:
        with st.container(height=LONG_PIXELS if len(words) > LONG_TEXT else "content", border=False):
            st.text(words or "(erased)")
    elif len(words) <= LONG_TEXT:
        st.markdown(markdown_lines(words, fits))
    else:
        # 2. In a long text the match would be out of sight, so that its passage stands first.
        st.markdown(markdown(source_pieces(words, fits, around=AROUND)))
        with st.expander("The whole text", type="compact"), st.container(height=LONG_PIXELS, border=False):
            st.text(words)


def _draw_fix(view: View, search: Search, ranked: RankedTurn, unit: str) -> None:
    """Draw a button for the smallest change of settings that would request the turn, with the effect of the change."""
    if ranked.outcome == "cut":
        _draw_larger_limit(view, search, ranked)
    # None if no setting of the block would request the turn.
    changes = search.settings_to_ask_for(ranked.number)
    if not changes:
        return
    session_id = view.memory.session_id
    # On top of what is tried already, since a click adds to it.
    whole: dict[str, Any] = {**tried_search.asked(session_id).tried.get(search.block, {}), **changes}
    after = tried_search.searched(view.memory, view.status.position, search.block, search.query or "", whole)
    st.button(
        change_label(changes),
        key="retrieval__fix",
        wrap=True,
        on_click=lambda: tried_search.set_tried(session_id, search.block, **changes),
        help="Changes the settings below. Nothing is stored before you apply them.",
    )
    st.markdown(f":small[Then {changed_sentence(search, after, first=ranked.number, unit=unit)}.]")
    if search.context is not None and search.query:
        draw_effect(view.memory, blocks={search.block: whole}, ask=search.query)


_LIMITS_TRIED = 4


def _draw_larger_limit(view: View, search: Search, ranked: RankedTurn) -> None:
    """Draw a token limit under which the turn would be in the next prompt for this question, with its effect."""
    limit = limit_to_keep(search, ranked.number)
    # While a job runs, the next prompt is not the one that could be previewed here.
    if limit is None or search.context is None or view.running is not None or view.read_only:
        return
    asked = ChatMessage(role="user", content=search.query or "")
    for _ in range(_LIMITS_TRIED):  # under a larger limit less is flushed before the prompt, so more is requested
        context = view.memory.preview.next_prompt({"token_limit": limit}, message=asked).context
        if in_prompt(context, ranked.number):
            break
        # At least what the parts ask for, and always more than before, so that the loop makes headway.
        limit = max(limit + 1, context.plan.asked)
    else:
        return
    session_id, before = view.memory.session_id, view.memory.session.config
    st.button(
        f"Raise the limit to {tokens(limit)}",
        key="retrieval__limit",
        on_click=_raise_limit,
        args=(session_id, before.token_limit, limit),
        **allowed(ConfigurationChanged, help="From the next turn on."),
    )
    draw_effect(view.memory, {"token_limit": limit}, ask=search.query)


@error_noticed
def _raise_limit(session_id: str, before: int | None, limit: int) -> None:
    undo = change_settings(session_id, None, {"token_limit": before}, {"token_limit": limit})
    toasts.done(f"The token limit is {tokens(limit)} from the next turn on.", undo=undo)


def _draw_score(search: Search, ranked: RankedTurn, unit: str) -> None:
    """Draw the terms of the score, and the resulting rank."""
    sentence = score_words(ranked, search)
    # Without a question there is no score.
    if sentence is None or not search.candidates:
        return
    of = stored(search.stored, unit) if search.stored else count(search.candidates, "candidate")
    placed = f"It is {place(ranked)} of {of}."
    summed = sum_rows(ranked, search)
    if not summed:
        st.markdown(f":small[Score: {sentence}. {placed}]")
        return
    st.table(summed, border=False, hide_header=True, hide_index=True)
    nothing = nothing_from(ranked, search)
    more = f" Nothing from {', '.join(nothing)}." if nothing else ""
    st.markdown(f":small[:gray[{placed}{more}]]")


def _draw_questions(view: View, search: Search, ranked: RankedTurn, unit: str) -> None:
    """Draw the questions that found this turn so far; a selected one opens the recorded search."""
    asked = view.memory.retrieval.found_by(ranked.number, block=search.block, upto=view.position)
    if not asked:
        st.markdown(f":small[:gray[No question has found this {unit} yet.]]")
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        title = f"**Found by {count(len(asked), 'question')}**"
        st.markdown(f":small[{title} :gray[newest first; pick one to see that search]]", width="content")
        all_ = len(asked) > QUESTIONS and st.toggle(f"Show all {tokens(len(asked))}", key="retrieval__all_questions")
    listed = asked if all_ else asked[:QUESTIONS]
    # Only the questions that are listed are read.
    words = view.memory.log.texts({one.query for one in listed})
    pick_row(
        question_rows(listed, words),
        listed,
        f"retrieval__questions_{ranked.number}_{view.position}",  # another unit or moment is another table
        lambda one: show_search(view, ranked.number, one, words.get(one.query)) if one is not None else None,
        height="content" if len(listed) <= MAX_LINES else LINE_PIXELS * (MAX_LINES + 1) + 2,
        column_config={
            "Turn": st.column_config.NumberColumn(
                width=52, pinned=True, help="Turn of the conversation in which it was asked."
            ),
            "Place": st.column_config.TextColumn(width=66, help=f"Rank of this stored {unit} among candidates then."),
            "Score": st.column_config.NumberColumn(format="%.2f", width=66),
            "Outcome": st.column_config.TextColumn(width=150, help=f"What became of this stored {unit} then."),
        },
        alt=f"The questions that found this stored {unit}, newest first",
    )


def show_search(view: View, number: int, one: FoundBy, question: str | None) -> None:
    """Show a recorded search with a stored turn selected; the latest question is searched again. For callbacks."""
    session_id = view.memory.session_id
    # 1. An earlier search is shown as it was recorded, on a page of the past.
    if one.turn < view.status.turns:
        tried_search.ask(session_id, place=(one.turn, one.place), number=number)
        state.show_turn(one.turn)
    elif question is not None:
        # 2. The latest is asked again, so that its settings can be changed. An erased question cannot be asked.
        tried_search.ask(session_id, query=question.strip() or None, sent=True, number=number)
        state.show_turn(None)


def delete_dialog(session_id: str, block: str, number: int, turn: int, words: str, unit: str) -> None:
    """Ask before a stored unit is deleted."""
    # Made at the call, as the title names what this block stores: a decorator would fix it for all.
    dialog(f"Delete stored {unit}", "delete")(_draw_delete)(session_id, block, number, turn, words, unit)


def _draw_delete(session_id: str, block: str, number: int, turn: int, words: str, unit: str) -> None:
    st.markdown(
        f"Delete {from_turn(unit, turn, 'the')} from “{plain(short(block))}”? It will not be found again, and no "
        f"later flush brings it back. {capitalised(_stays(unit))} in the archive."
    )
    st.text(short(" ".join(words.split()), 200))
    closing_buttons(f"Delete stored {unit}", _delete, (session_id, block, number, turn, unit))


def _stays(unit: str) -> str:
    return "it stays" if unit == "message" else "its messages stay"


@error_noticed
def _delete(session_id: str, block: str, number: int, turn: int, unit: str) -> None:
    engine().open(session_id).retrieval.forget(block, number)
    # The details would be of a turn that is not stored any more.
    tried_search.ask(session_id, number=None)
    what = capitalised(from_turn(unit, turn, "the"))
    toasts.done(f"Deleted. {what} is no longer found; {_stays(unit)} in the archive.")
