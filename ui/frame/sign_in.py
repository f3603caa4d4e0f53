"""The sign-in in place of a page, and who is signed in, in the sidebar."""

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.access import acting_person
from memory_inspector.wording.formatting import plain, short
from ui.tab.services import engine, engine_of


def require_person() -> None:
    """Draw the sign-in in place of every page until the visitor is signed in and belongs to a tenant."""
    if not st.user.is_logged_in:
        st.title("Memory Inspector")
        st.button("Sign in", type="primary", icon=":material/login:", key="sign_in", on_click=st.login)
        st.stop()
    try:
        person = acting_person()
        engine()  # creates a new tenant
        if person is None or person.tenant in engine_of("").database.tenants():
            return
        st.error(f"The tenant {plain(person.tenant)} was deleted. Nothing more can be read or stored in it.")
    except MemoryInspectorError as error:
        st.error(plain(str(error)))
    st.button("Sign out", icon=":material/logout:", key="sign_out", on_click=st.logout)
    st.stop()


def draw_person() -> None:
    """Draw name, role and tenant of the visitor, with the way out; nothing where nobody signs in."""
    person = acting_person()
    if person is None:
        return
    words = filter(None, (short(person.name or person.id, 40), person.role, person.tenant))
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.markdown(f":small[{plain(' · '.join(words))}]", help=plain(person.id))
        st.button("Sign out", type="tertiary", icon=":material/logout:", key="sign_out", on_click=st.logout)
