"""Present claims of a person who signed in, from the sign-in server's userinfo: a changed role applies within minutes.

Streamlit keeps no refresh token, so a sign-in that is checked again ends with its access token.
"""

import logging
import threading
from collections.abc import Mapping
from typing import Any

from memory_core import AccessError
from memory_inspector.server.people import SignIn

PATIENCE_SECONDS = 5.0
"""Maximum seconds to wait for the sign-in server."""

MAX_REMEMBERED = 1_000
"""Maximum number of sign-ins whose last answer is kept."""

Claims = Mapping[str, Any]

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_answers: dict[str, tuple[float, Claims | None]] = {}
"""Time of the last question and the last answer by access token; None: the token was refused."""


def present_claims(claims: Claims, token: str, metadata_url: str, settings: SignIn, now: float) -> Claims:
    """Return the claims of a sign-in with the present tenant and role, asked for at most once in `recheck_minutes`.

    While the server does not answer, its last answer applies, or else the claims of the sign-in.

    Raises:
        AccessError: the server refuses the access token: it ended, was revoked, or belongs to somebody else.
    """
    with _lock:
        asked_at, answer = _answers.pop(token, (0.0, claims))
        due = now - asked_at >= 60 * (settings.recheck_minutes or 0)
        # Before the question, so that nobody else asks meanwhile.
        _answers[token] = (now if due else asked_at, answer)
        if len(_answers) > MAX_REMEMBERED:
            del _answers[next(iter(_answers))]  # used longest ago
    if due:
        answer = _ask(claims, token, metadata_url, settings, answer)
        with _lock:
            _answers[token] = (now, answer)
    if answer is None:
        raise AccessError("Your sign-in has ended at the sign-in server. Sign in again.")
    return answer


def _ask(claims: Claims, token: str, metadata_url: str, settings: SignIn, before: Claims | None) -> Claims | None:
    import httpx  # only where people sign in

    try:
        endpoint = httpx.get(metadata_url, timeout=PATIENCE_SECONDS).raise_for_status().json()["userinfo_endpoint"]
        response = httpx.get(endpoint, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_SECONDS)
        if response.is_client_error and response.status_code not in (408, 429):  # too slow, or asked too often
            return None
        present = dict(response.raise_for_status().json())
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
        ValueError,
        KeyError,
        TypeError,
    ) as error:  # not quoted, as its text may hold the token
        _log.warning("the sign-in server did not say what somebody may do now: %s", type(error).__name__)
        return before
    if present.get("sub") != claims.get("sub"):
        return None
    # A role that was taken away is in no answer: the one of the sign-in must not stay.
    return {**claims, **{name: present.get(name) for name in (settings.tenant_claim, settings.role_claim)}}
