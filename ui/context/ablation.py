"""The form *Did this memory matter?*, on Context and below an answer in Chat: ask again without an item of the prompt,
or with the item reworded."""

import json
import uuid
from collections.abc import Sequence

import streamlit as st

from memory_core import ConfigError, MemoryInspectorError
from memory_core.events import Ref
from memory_core.history.prompt import EDITABLE, Entry, Prompt
from memory_core.models.protocols import ChatModel
from memory_inspector.lab.value import AlteredPrompt, ask_both, question_without
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain, short, tokens
from memory_inspector.wording.prompt_text import part_name
from ui.tab import state
from ui.tab.model import chosen_model
from ui.tab.services import engine
from ui.tab.view import View

TITLE, ICON = "Did this memory matter?", ":material/balance:"
LOOK_SECONDS = 0.3
MOST_CHARACTERS = 4_000

_ASKED = state.ByPlace[str]("context_ablation", "")
"""Id of the job last started in this tab, by session, prompt, item, words and model."""


def draw(view: View, sent: Prompt) -> None:
    """Draw the form in a closed expander."""
    box = st.expander(TITLE, key="context__matter", icon=ICON, on_change="rerun")
    # The form plans the prompt anew, so it is drawn only while it is open.
    if box.open:
        with box:
            draw_form(view, sent)


def draw_form(view: View, sent: Prompt) -> None:
    """Draw the form, and the two answers side by side."""
    # Items without words, such as erased ones, cannot be asked about.
    entries = {
        str(entry.ref): (part_name(part), entry) for part in sent.parts for entry in part.included if entry.words
    }
    if not entries:
        st.markdown("There is nothing in this prompt that could be left out.")
        return
    chosen: str = st.selectbox(
        "Ask again without",
        list(entries),
        # The position is in the key, so that another prompt begins with its own first item.
        key=f"context__matter_item_{sent.record.position}",
        format_func=lambda ref: _label(*entries[ref]),
    )
    entry = entries[chosen][1]
    words = _draw_words(sent, entry)
    try:
        # Built before the button is drawn: its size is shown as the price.
        question = question_without(view.memory, sent.record, entry.ref, words)
        model = chosen_model().model
    except ConfigError as error:
        st.markdown(f":small[:gray[{plain(str(error))}]]")
        return
    if view.history.attached:
        st.markdown(":small[:gray[The agent’s own tools are not recorded, so it is asked without them.]]")
    _draw_asking(view.memory.session_id, sent, entry.ref, words, question, model)


def _label(part: str, entry: Entry) -> str:
    return f"{part}: {short(' '.join((entry.words or '').split()), 90)}"


def _draw_words(sent: Prompt, entry: Entry) -> str | None:
    """Draw the choice to leave out or reword the item; return the text that replaces it, or None to leave it out."""
    if entry.ref.kind not in EDITABLE:
        return None
    key = f"{sent.record.position}_{entry.ref}"
    how = st.segmented_control(
        "How", ["Leave it out", "Reword it"], default="Leave it out", required=True,
        key=f"context__matter_how_{key}", label_visibility="collapsed",
    )  # fmt: skip
    if how == "Leave it out":
        return None
    text: str = st.text_area(
        "New words",
        entry.unmarked or entry.words or "",
        max_chars=MOST_CHARACTERS,
        key=f"context__matter_words_{key}",
    )
    return text


def _draw_asking(
    session_id: str, sent: Prompt, ref: Ref, words: str | None, question: AlteredPrompt, model: ChatModel
) -> None:
    before, after = question.tokens
    other = "without it" if words is None else "reworded"
    cost = "Rules answer, at no cost." if model.offline else f"{plain(model.name)} is called twice."
    offered = " Memory tools are offered to the model; calls are shown, not carried out." if question.tools else ""
    st.markdown(f":small[{cost} {tokens(before)} tokens with it, {tokens(after)} {other}.{offered} Nothing is stored.]")
    place = (session_id, sent.record.position, ref, words, model.name)
    st.button(
        "Ask again", key="context__matter_ask", icon=":material/replay:", on_click=_ask, args=(place, question, model)
    )
    # Another item, other words or another model is another question, which was not asked yet.
    key = _ASKED.at(place)
    job = engine().reading(key) if key else None
    if job is None:
        return
    if not job.done:
        _follow(job)
    elif job.error is not None:
        st.warning(plain(job.error))
    elif job.text:
        _draw_answers(**json.loads(job.text), reworded=words is not None)


def _ask(place: tuple[object, ...], question: AlteredPrompt, model: ChatModel) -> None:
    """Ask in the background. Asking again calls the model again, because its answers vary."""
    # A new key each time: a job that has ended is not started again under its own.
    key = f"matter/{uuid.uuid4().hex}"
    # Kept by this tab alone: answers are stored nowhere.
    _ASKED.put(place, key)

    def work(job: Job) -> None:
        answers = ask_both(model, question, progress=job.add_progress, cancelled=job.cancel.is_set)
        if answers is None:
            raise MemoryInspectorError("Cancelled. No more calls were made.")
        calls = [[f"{call.tool_name} {call.arguments}" for call in made] for made in answers.calls]
        result = {"answers": [answers.before, answers.after], "calls": calls, "same": answers.same}
        job.add_text(json.dumps(result))

    engine().read(key, work)


@st.fragment(run_every=LOOK_SECONDS)
def _follow(job: Job) -> None:
    if job.done:
        # The answers are outside this fragment, so the whole page is drawn again.
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(f":shimmer[{plain(job.progress[-1]) if job.progress else 'Asking'}]", width="content")
        st.button("Cancel", key="context__matter_cancel", on_click=job.cancel.set)


def _draw_answers(answers: Sequence[str], calls: Sequence[Sequence[str]], *, same: bool, reworded: bool) -> None:
    verdict = (
        "**The answer is the same, word for word.** Here it did not matter." if same else "**The answers differ.**"
    )
    st.markdown(verdict)
    before, after = st.columns(2, border=True)
    titles = ("With it", "Reworded" if reworded else "Without it")
    for column, title, words, made in zip((before, after), titles, answers, calls, strict=True):
        with column:
            st.markdown(f":small[**{title}**]")
            # A message of calls alone has no words, which is not worth a line.
            if words or not made:
                st.text(words or "(no words)")
            for call in made:
                st.markdown(":small[:gray[:material/build: It would call]]")
                st.code(call, language=None, wrap_lines=True)
