"""People and their roles: who may change what, checked where a change is stored.

Without a person everything is allowed, as for a program, or for one person on their own machine. A viewer stores
nothing. A curator writes messages and corrects what was learned. An owner also changes settings, deletes, forgets and
imports.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from types import EllipsisType
from typing import Literal, ParamSpec, TypeVar, get_args

from memory_core.errors import AccessError

Role = Literal["viewer", "curator", "owner"]
"""Role of a person; each may do what the one before it may."""

ROLES: tuple[Role, ...] = get_args(Role)
"""All roles, the least first."""

STORING: Role = "curator"
"""Least role of a person who stores anything."""

RIGHTS: dict[Callable[..., object], Role] = {}
"""Least role by change: a kind of event, or a function that changes what no event records.

What is stored is checked against it, and the app takes from it which controls a person may use.
"""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Person:
    """A person who signed in."""

    id: str
    """Identifier at the sign-in server, an e-mail address say."""
    name: str = ""
    """Name to display; empty: the identifier."""
    role: Role = "viewer"
    tenant: str = ""
    """Tenant whose sessions the person sees; see `memory_core.store.tenants`."""

    @property
    def label(self) -> str:
        """Name and identifier, as recorded with changes: `Ana <ana@acme.test>`."""
        return f"{self.name} <{self.id}>" if self.name and self.name != self.id else self.id

    def may(self, least: Role) -> bool:
        """Return whether the person's role is at least this one."""
        return ROLES.index(self.role) >= ROLES.index(least)


_acting: ContextVar[Person | EllipsisType | None] = ContextVar("acting person", default=...)
_lookup: list[Callable[[], Person | None]] = []


def look_up_people(lookup: Callable[[], Person | None]) -> None:
    """Set the function that returns the person behind code outside of `acting_as`: a page's visitor, say.

    It may raise `AccessError` for a visitor who is not signed in.
    """
    _lookup[:] = [lookup]


def acting_person() -> Person | None:
    """Return the person on whose behalf the current code runs; None for a program, and for a server's own work.

    Raises:
        AccessError: a visitor who is not signed in.
    """
    person = _acting.get()
    if person is not ...:
        return person
    return _lookup[0]() if _lookup else None


@contextmanager
def acting_as(person: Person | None) -> Iterator[None]:
    """Run code on behalf of a person, or of nobody: a server's own work."""
    token = _acting.set(person)
    try:
        yield
    finally:
        _acting.reset(token)


def bind_person(work: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that it acts as the present person in another thread, too."""
    person = acting_person()

    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with acting_as(person):
            return work(*args, **kwargs)

    return run


def require(least: Role, tenant: str | None = None) -> None:
    """Check that the acting person, if any, has at least this role, and belongs to this tenant (None: to any).

    Raises:
        AccessError: the role is less, or the tenant is another.
    """
    person = acting_person()
    if person is not None and tenant is not None and person.tenant != tenant:
        raise AccessError(
            f"Your tenant is {person.tenant or 'the default one'}, and this is another's. Nothing was stored."
        )
    if person is not None and not person.may(least):
        raise AccessError(
            f"This needs the role {least}, and yours is {person.role}. Nothing was stored: ask an owner of your tenant."
        )


def needs(least: Role) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let only people of this role, or a higher one, call the decorated function; see `require`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            require(least)
            return function(*args, **kwargs)

        RIGHTS[checked] = least
        return checked

    return decorate


def least_role(*changes: Callable[..., object]) -> Role:
    """Return the least role that may make all of these changes, each of `RIGHTS`."""
    return max((STORING, *(RIGHTS[change] for change in changes)), key=ROLES.index)


def person_name(label: str) -> str:
    """Return the name to display from `Person.label`: `Ana` for `Ana <ana@acme.test>`."""
    return label.rpartition(" <")[0] or label
