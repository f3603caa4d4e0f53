"""The sign-in in place of a page, and who is signed in, in the sidebar."""

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.access import acting_person
from memory_inspector.reading.write_access import ROLE_MEANS
from memory_inspector.server.people import sign_out
from memory_inspector.wording.formatting import plain, short
from ui.tab.services import engine, engine_of

CARD_PIXELS = 440


def require_person() -> None:
    """Draw the sign-in in place of every page until the visitor is signed in and belongs to a tenant."""
    problem = _problem() if st.user.is_logged_in else None
    if st.user.is_logged_in and problem is None:
        return
    with st.container(horizontal_alignment="center"), st.container(border=True, width=CARD_PIXELS, key="sign_in_card"):
        st.title("Memory Inspector")
        if problem is None:
            st.markdown("See, debug and curate what an agent remembers.")
        else:
            st.error(plain(problem), icon=":material/error:")
        with st.container(horizontal=True):
            says = "Sign in" if problem is None else "Sign in again"
            st.button(says, type="primary", icon=":material/login:", key="sign_in", on_click=st.login)
            if problem is not None:
                st.button("Sign out", icon=":material/logout:", key="sign_out", on_click=_sign_out)
    st.stop()


def _sign_out() -> None:
    sign_out(st.user.to_dict())  # for the other tabs: Streamlit ends this one alone
    st.logout()


def _problem() -> str | None:
    """Return why a visitor who signed in is not let in; None if they are."""
    try:
        person = acting_person()
        engine()  # creates a new tenant
        if person is None or person.tenant in engine_of("").database.tenants():
            return None
    except MemoryInspectorError as error:
        return str(error)
    return f"The tenant {person.tenant} was deleted. Nothing more can be read or stored in it."


def draw_person() -> None:
    """Draw name, role and tenant of the visitor, with the way out; nothing where nobody signs in."""
    person = acting_person()
    if person is None:
        return
    words = filter(None, (short(person.name or person.id, 40), person.role, person.tenant))
    with st.container(gap="xxsmall"):
        st.markdown(f":small[{plain(' · '.join(words))}]", help=f"{plain(person.id)}  \n{ROLE_MEANS[person.role]}")
        st.button("Sign out", type="tertiary", icon=":material/logout:", key="sign_out", on_click=_sign_out)
