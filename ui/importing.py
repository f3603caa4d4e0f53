"""The import dialog: a file becomes a session with a player, after a look at what it holds and would cost."""

import streamlit as st

from memory_core import FormatError, MemoryConfig, MemoryInspectorError
from memory_core.analysis.cost import PlayCost, play_cost
from memory_core.interop.openai_format import Conversation, list_conversations, read_conversation
from memory_core.tokens import default_counter
from ui import model, state
from ui.components import closing_button, error_inside
from ui.new_session import TOKEN_LIMIT, recorded_session
from ui.services import engine
from ui.text import count, plain, tokens

SHOWN_SKIPPED = 5


@st.dialog("Import a conversation", width="medium", icon=":material/upload_file:")
@error_inside
def import_dialog() -> None:
    """Choose a file, see what it holds, import it."""
    upload = st.file_uploader(
        "OpenAI-format JSON or JSONL", type=["json", "jsonl", "txt"], max_upload_size=20, key="import__file"
    )
    if upload is None:
        st.markdown(":small[:gray[A list of messages, an object with “messages”, or one message a line.]]")
        return
    data = upload.getvalue()
    try:
        listed = list_conversations(data, filename=upload.name)
        pick = None
        if len(listed) > 1:
            pick = st.selectbox(
                f"The file holds {len(listed)} conversations",
                range(len(listed)),
                format_func=lambda i: f"{i + 1}: {listed[i].title}, {count(listed[i].messages, 'message')}",
            )
        conversation = read_conversation(data, filename=upload.name, pick=pick)
    except FormatError as error:
        st.error(plain(str(error)))
        return
    _preview(conversation)
    closing_button("Import", _import, (conversation,), disabled=not conversation.messages, kind="primary")


def _preview(conversation: Conversation) -> None:
    counter = default_counter()
    sizes = [counter.message(message).content for message in conversation.messages]
    lines = [f"{count(len(sizes), 'message')}, {count(conversation.turns, 'turn')}, about {tokens(sum(sizes))} tokens."]
    if conversation.skipped:
        where = ", ".join(
            str(s.line if s.line is not None else s.index + 1) for s in conversation.skipped[:SHOWN_SKIPPED]
        )
        more = ", ..." if len(conversation.skipped) > SHOWN_SKIPPED else ""
        lines.append(f"{len(conversation.skipped)} will be skipped: lines {where}{more} have no text.")
    st.markdown(f"**{plain(conversation.title)}**")
    st.markdown(plain(" ".join(lines)))
    for note in conversation.notes[:SHOWN_SKIPPED]:
        where = f"Line {note.line}: " if note.line is not None else ""
        st.markdown(f":small[:gray[{plain(where + note.text)}]]")
    cost = play_cost(conversation.messages, sizes, MemoryConfig(token_limit=TOKEN_LIMIT))
    st.markdown(plain(_cost_sentence(cost)))


def _cost_sentence(cost: PlayCost) -> str:
    """What playing it would cost, said before it is played."""
    flushes = f"Playing it makes {count(cost.flushes, 'flush')} at the default settings."
    if model.chosen_model().offline:
        return f"{flushes} No model is called: rules learn, and the recorded replies are used."
    return (
        f"{flushes} That is about {count(cost.calls, 'model call')} and {tokens(cost.input_tokens)} input tokens "
        "for learning facts. The recorded replies are used, so no reply is paid for."
    )


def _import(conversation: Conversation) -> None:
    try:
        memory = recorded_session(
            engine(), conversation.messages, title=conversation.title, skipped=len(conversation.skipped)
        )
    except MemoryInspectorError as error:
        state.say("error", str(error))
        return
    state.select_session(memory.session_id)
