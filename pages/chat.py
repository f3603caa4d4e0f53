"""Chat: what is memory doing right now?"""

import streamlit as st

from memory_core import MemoryInspectorError, StoreError
from ui import chat, state
from ui.demo import DEMO_SESSION, being_made
from ui.nav import require_shell
from ui.services import engine
from ui.text import plain

require_shell()

with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
    st.title("Chat")
    settings_slot = st.container(width="content")

with st.container():  # there in any case, so that what follows keeps its place
    if notice := state.take_notice():
        {"error": st.error, "warning": st.warning, "info": st.info}[notice.kind](plain(notice.text))

try:
    shared = engine()
    session_id = state.selected_session()
    preparing = being_made(shared)
    if session_id == DEMO_SESSION and preparing is not None:
        chat.draw_preparing(preparing)
    elif session_id is None:
        chat.draw_no_session()
    else:
        chat.draw(session_id, settings_slot)
except StoreError as error:
    st.error(f"{plain(str(error))} Messages you already sent are safe. Check that it runs, then reload.")
except MemoryInspectorError as error:
    st.error(plain(str(error)))
