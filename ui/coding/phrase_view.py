"""The view Follow a phrase: its way over compactions, forks and subagents to each call."""

import streamlit as st

from memory_core.tracing.showing.replacements import mask_keys
from memory_inspector.coding.coding_session import Branch, CodingSession
from memory_inspector.coding.session_answers import phrase_stages
from memory_inspector.coding.statement_fates import follow_phrase
from memory_inspector.server.coding_sessions import OpenSession
from memory_inspector.wording.coding_text import OBSERVED, conclusion, stage_name, stage_text
from memory_inspector.wording.formatting import count, plain, short
from memory_inspector.wording.trace_text import ICONS
from ui.coding import keep_dialog
from ui.parts.components import chart, empty, heading, open_view
from ui.tab import appearance, state

WORDS = "words"
"""URL parameter with the phrase."""

MAX_CHARACTERS = 300

_FIELD = "code__phrase"


def draw(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw the field for a phrase, and its way."""
    # The address wins where it was changed by a button or a person, else the field.
    asked = st.query_params.get(WORDS, "")
    if asked != st.session_state.get(f"{_FIELD}_written"):
        st.session_state[_FIELD] = asked[:MAX_CHARACTERS]
    phrase = st.text_input(
        "Phrase",
        key=_FIELD,
        max_chars=MAX_CHARACTERS,
        placeholder="never touch the lockfile",
        label_visibility="collapsed",
        icon=":material/search:",
    )
    st.session_state[f"{_FIELD}_written"] = phrase
    state.write_address(WORDS, phrase or None)
    if not phrase.strip():
        empty("Which words?", "Type what somebody said in this session, in their words.")
        return
    trail = opened.once(("phrase", branch.number, phrase), lambda: follow_phrase(session, phrase, branch))
    # Only the user's words are worth a line in a memory file, and not what the agent said in passing.
    lost = not trail.reached and any(one.item.instructs and not one.in_other_words for one in trail.occurrences)
    ended = conclusion(trail)
    heading(plain(f"{ended[0].upper()}{ended[1:]}"), level=3)
    if trail.in_prompt and trail.occurrences:
        from memory_inspector.figures.coding_figures import strip_figure  # loads slowly

        compactions = [window.calls[0].number for window in branch.compactions if window.calls]
        had = [(call.number, has) for call, has in trail.in_prompt]
        chart(
            strip_figure(had, compactions, appearance.mode()),
            key="code__strip",
            alt=f"{count(sum(has for _, has in had), 'call')} of {len(had):,} were sent it",
        )
    for number, stage in enumerate(phrase_stages(trail)):
        with st.container(horizontal=True, gap="small", key=f"code__stage_{number}_{stage.verdict}"):
            st.markdown(f":material/{ICONS[stage.verdict]}: **{plain(stage_name(stage))}**", width=170)
            st.markdown(plain(stage_text(stage)), width="stretch")
    st.markdown(f":small[:gray[{OBSERVED}]]")
    if lost:
        keep_dialog.draw_button(phrase, "followed", opened, branch)


def follow_button(text: str, key: str) -> None:
    """Draw the button that follows a statement here; none for one with a key, which the address would show."""
    if mask_keys(text) != text:
        return
    st.button(
        "Follow",
        icon=":material/route:",
        key=f"code__follow_{key}",
        type="tertiary",
        on_click=_follow,
        args=(text,),
    )


def _follow(text: str) -> None:
    # Cut, as browsers limit the length of an address.
    state.write_address(WORDS, short(" ".join(text.split()), MAX_CHARACTERS))
    open_view("code__view", "follow")
