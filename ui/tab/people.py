"""The visitor: who signed in in this browser, and what their role allows."""

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

import streamlit as st
from streamlit.auth_util import get_secrets_auth_section
from streamlit.runtime.scriptrunner import get_script_run_ctx

from memory_core import AccessError, ConfigError
from memory_core.access import Person, acting_person, least_role, look_up_people
from memory_inspector.server.people import person_of, present_claims, read_sign_in

_looked_up: ContextVar[tuple[object, bool] | None] = ContextVar("sign_in", default=None)
"""The tab's script thread, and whether people have to sign in: each button of a page asks."""


def sign_in_configured() -> bool:
    """Return whether people have to sign in: `secrets.toml` has a table `auth`."""
    context, before = get_script_run_ctx(suppress_warning=True), _looked_up.get()
    # Other threads have no tab, and ask each time.
    if context is None or before is None or before[0] is not context:
        before = context, bool(get_secrets_auth_section())
        _looked_up.set(before)
    return before[1]


def visitor() -> Person | None:
    """Return who signed in in the browser that this code draws for; None without a sign-in, and in other threads.

    Raises:
        AccessError: they are not signed in, or belong to no tenant.
        ConfigError: the settings of the sign-in are impossible.
    """
    if get_script_run_ctx(suppress_warning=True) is None or not sign_in_configured():
        return None
    claims: Mapping[str, Any] = st.user.to_dict()
    settings, now = read_sign_in(st.get_option("secrets.files")), time.time()
    if settings.recheck_minutes is not None and claims.get("is_logged_in"):
        auth = get_secrets_auth_section()
        provider = auth.get(str(claims.get("provider")), auth)
        token = st.user.tokens.get("access")
        if token is None:
            raise ConfigError('The setting recheck_minutes needs expose_tokens = "access" in the table auth.')
        claims = present_claims(claims, token, provider["server_metadata_url"], settings, now)
    return person_of(claims, settings, now)


def obstacle(*changes: Callable[..., object]) -> str | None:
    """Return why the visitor's role does not allow to store these changes, as a tooltip; None if it does.

    `changes`: members of `memory_core.access.RIGHTS`; without any, whatever a curator may store.
    """
    least = least_role(*changes)
    try:
        person = acting_person()
    except AccessError as error:  # the sign-in expired while the page was open
        return str(error)
    return None if person is None or person.may(least) else f"Only for the role {least}: yours is {person.role}."


def allowed(*changes: Callable[..., object], disabled: bool = False, help: str | None = None) -> dict[str, Any]:
    """Return the options `disabled` and `help` of a control that makes these changes; see `obstacle`."""
    refused = obstacle(*changes)
    return {"disabled": disabled or refused is not None, "help": refused or help}


look_up_people(visitor)
