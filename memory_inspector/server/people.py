"""People who sign in: from the claims of a sign-in to tenant and role.

Settings are in the table `memory_inspector` of Streamlit's `secrets.toml`, beside its `auth`. They are read again
whenever the file changes, so that a changed role applies to the next click.
"""

import logging
import threading
import tomllib
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from memory_core import AccessError, ConfigError
from memory_core.access import ROLES, Person, Role

TABLE = "memory_inspector"

CLOCK_SECONDS = 300
"""Maximum seconds by which the sign-in server's clock may be ahead of this one."""


_signed_out: set[str] = set()
"""Sign-ins that ended in this process: the next one has none of their tabs, and the browser's cookie is gone."""


class _PersonEntry(BaseModel):
    model_config = ConfigDict(extra="forbid")
    tenant: str | None = None
    role: Role | None = None
    signed_in_after: datetime | None = None


class SignIn(BaseModel):
    """Claims that say what a person may do, and the people who have none."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    tenant_claim: str = "org"
    role_claim: str = "role"
    default_tenant: str | None = None
    """Tenant of people without one; empty: the default tenant. None: they are refused."""
    default_role: Role = "viewer"
    hours: float = Field(default=12, gt=0)
    """Hours after which a person has to sign in again."""
    recheck_minutes: float | None = Field(default=None, gt=0)
    """Minutes after which the sign-in server is asked again for a person's tenant and role; None: never."""
    signed_in_after: datetime | None = None
    """Sign-ins before this time have ended; also for one of the people."""
    people: Mapping[str, _PersonEntry] = {}
    """Tenant and role by e-mail address, in any letter case, or by subject; they overrule the claims."""


def read_sign_in(files: Sequence[str | Path]) -> SignIn:
    """Read the settings from those of the files that exist; a later file overrules an earlier one.

    Raises:
        ConfigError: a file is no TOML, or a setting is impossible.
    """
    values: dict[str, Any] = {}
    for file in map(Path, files):
        if file.is_file():
            values |= _table(file, file.stat().st_mtime_ns)
    try:
        return SignIn(**values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (TABLE, *first["loc"])))
        raise ConfigError(f"The setting {place} in secrets.toml is impossible: {first['msg']}.") from None


@lru_cache(maxsize=8)
def _table(file: Path, changed_at: int) -> dict[str, Any]:
    try:
        table = tomllib.loads(file.read_text(encoding="utf-8")).get(TABLE, {})
    except (OSError, ValueError):  # not quoted, as the file holds secrets
        raise ConfigError("The file secrets.toml cannot be read: it must be TOML in UTF-8.") from None
    if not isinstance(table, dict):
        raise ConfigError(f"{TABLE} in secrets.toml must be a table.")
    return table


def sign_out(claims: Mapping[str, Any]) -> None:
    """End a sign-in in all tabs of its browser, each of which keeps the claims it began with."""
    _signed_out.add(_sign_in(claims))


def _sign_in(claims: Mapping[str, Any]) -> str:
    return repr([claims.get(name) for name in ("iss", "sub", "iat", "nonce")])


def person_of(claims: Mapping[str, Any], settings: SignIn, now: float) -> Person:
    """Return the person whom a sign-in server vouched for; `now` in seconds since 1970.

    Raises:
        AccessError: they are not signed in, or too long ago, or that was ended, or they belong to no tenant.
    """
    if not claims.get("is_logged_in"):
        raise AccessError("Sign in first.")
    if _sign_in(claims) in _signed_out:
        raise AccessError("You signed out. Sign in again.")
    issued = claims.get("iat")
    # In this order: NaN compares as false, and an integer may be too large to subtract from.
    if not isinstance(issued, int | float) or isinstance(issued, bool) or not 0 < issued <= now + CLOCK_SECONDS:
        raise AccessError("Your sign-in has an impossible time. Ask whoever runs this app to compare the clocks.")
    if now - issued > settings.hours * 3600:
        raise AccessError("Your sign-in has expired. Sign in again.")
    email, proven = _text(claims, "email"), str(claims.get("email_verified")).lower() == "true"
    subject = _text(claims, "sub")
    id = email if email and proven else subject
    named = {name: entry for name, entry in settings.people.items() if name == subject or _same_address(name, email)}
    # Whoever enters an address that is not proven to be theirs can only lose by it.
    giving = [entry for name, entry in named.items() if proven or name == subject]
    ended = [entry.signed_in_after for entry in named.values()] + [settings.signed_in_after]
    if issued <= max((at.timestamp() for at in ended if at is not None), default=0):
        raise AccessError("Your sign-in was ended. Sign in again.")
    # An empty claim names no tenant: only these settings let people into the default one.
    claimed_tenant = claims.get(settings.tenant_claim) or None
    tenants = {entry.tenant for entry in giving if entry.tenant is not None}
    tenant = next(
        (tenant for tenant in (*tenants, claimed_tenant, settings.default_tenant) if tenant is not None), None
    )
    if not id or not isinstance(tenant, str) or len(tenants) > 1:
        who = f"{id}, as {email} is not proven to be yours" if email and not proven else id or "nobody"
        which = "more than one tenant" if len(tenants) > 1 else "no tenant"
        raise AccessError(f"You signed in as {who}, but belong to {which} here. Ask whoever runs this app.")
    claimed = claims.get(settings.role_claim)
    roles = claimed if isinstance(claimed, list) else [claimed]
    most: Role = next((role for role in reversed(ROLES) if role in roles), settings.default_role)
    overruled = any(entry.role is not None for entry in giving)
    limits = [entry.role for entry in named.values() if entry.role is not None]
    role = min(limits if overruled else [most, *limits], key=ROLES.index)
    return Person(id, _text(claims, "name"), role, tenant)


def _text(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim as text; empty where the server sends none, or something else."""
    claim = claims.get(name)
    return str(claim) if isinstance(claim, str | int) and not isinstance(claim, bool) else ""


def _same_address(name: str, email: str) -> bool:
    # Only ASCII letters have a case here: elsewhere different letters become the same one.
    return name.encode("utf-8", "surrogatepass").lower() == email.encode("utf-8", "surrogatepass").lower()


# -- present claims of a person who signed in, from the sign-in server's userinfo -----------------


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
