"""Watched items of a session: phrases and refs whose presence in each prompt is shown by turn."""

import json
from collections.abc import Iterable

from memory_core.engine.session import Session
from memory_core.errors import MessageError
from memory_core.events import Ref
from memory_core.store.writing import read_session

MAX_WATCHED = 6
"""Maximum watched items; each has its own strip on the screen."""

MAX_CHARACTERS = 300
"""Maximum characters of a watched phrase."""


def watched(session: Session) -> tuple[str | Ref, ...]:
    """Return a session's watched items, oldest first; empty for one without messages."""
    with session.database.read() as connection:
        state = read_session(connection, session.id)
    return _decoded(state.watched) if state is not None else ()


def watch(session: Session, target: str | Ref) -> None:
    """Watch one more item.

    Raises:
        MessageError: The target is a cut, the phrase is empty or too long, or the limit is reached.
    """
    if isinstance(target, Ref) and target.kind == "cut":
        raise MessageError("A cut belongs to one prompt. Watch what was cut instead.")
    # Normalised to single spaces, so that one phrase is not watched twice.
    wanted = target if isinstance(target, Ref) else " ".join(target.split())
    if not wanted or len(wanted) > MAX_CHARACTERS:
        raise MessageError(f"A watched phrase has 1 to {MAX_CHARACTERS} characters; this one has {len(wanted)}.")
    with session.writing() as w:
        before = _decoded(w.session.watched)
        if wanted in before:
            return
        if len(before) >= MAX_WATCHED:
            raise MessageError(f"{MAX_WATCHED} items are watched already. Stop watching one of them first.")
        w.session.watched = _encoded([*before, wanted])


def unwatch(session: Session, target: str | Ref) -> None:
    """Stop watching an item; no error if it was not watched."""
    unwanted = target if isinstance(target, Ref) else " ".join(target.split())
    with session.writing() as w:
        w.session.watched = _encoded(other for other in _decoded(w.session.watched) if other != unwanted)


def _encoded(targets: Iterable[str | Ref]) -> str | None:
    pairs = [["ref" if isinstance(target, Ref) else "words", str(target)] for target in targets]
    return json.dumps(pairs, ensure_ascii=False) if pairs else None


def _decoded(stored: str | None) -> tuple[str | Ref, ...]:
    return tuple(Ref(text) if kind == "ref" else text for kind, text in json.loads(stored or "[]"))
