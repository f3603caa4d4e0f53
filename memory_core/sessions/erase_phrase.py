"""Forget a phrase: what says it, and what was learned only from the messages that do, in one transaction."""

from collections.abc import Collection

from sqlalchemy import Connection

from memory_core.engine.session import Session
from memory_core.errors import MessageError
from memory_core.history.fact_evidence import is_supported
from memory_core.messages import message_text
from memory_core.planning.impact import Affected, Impact
from memory_core.retrieval import recall
from memory_core.store.erasing.phrase_forgetting import counted, forget_phrase, read_impact
from memory_core.store.message_rows import read_messages
from memory_core.store.vector_rows import collections_of

SHORTEST = 3
"""Characters of a phrase: a shorter one stands in other words by chance."""


def impact_of(session: Session, phrase: str, keep: Collection[Affected] = ()) -> Impact:
    """Return what forgetting a phrase would erase, with these rows left alone.

    An entity stays where a relation needs it that is left alone.

    Raises:
        MessageError: the phrase has under 3 characters.
    """
    # Line breaks and double spaces of a pasted phrase are no part of what is looked for.
    phrase = " ".join(phrase.split())
    if len(phrase) < SHORTEST:
        raise MessageError(f"Give at least {SHORTEST} characters: shorter ones stand in other words by chance.")
    session.open()
    with session.database.read() as connection:
        impact = read_impact(connection, session.id, session.user_id, session.services.messages, phrase)
        alone = [row for row in impact.rows if row.kind == "fact" and row.why == "learned from it alone"]
        if alone:
            others = _texts(session, connection, impact, erased=False)
            # A fact that was said twice in one delivery has one source only, so another message may still state it.
            impact = impact.without([row for row in alone if _said_in(row.words, others)])
        return counted(connection, session.id, impact.without(keep))


def forget(session: Session, impact: Impact) -> None:
    """Erase what an impact lists; see `SessionHandle.forget`."""
    if not impact.erased:
        return
    with session.writing() as w:
        session.refresh(w)
        # Both before anything is erased: a sentence goes only if the erased messages say it, and no others do.
        erased, others = (_texts(session, w.connection, impact, erased=either) for either in (True, False))

        def stale(sentence: str) -> bool:
            return _said_in(sentence, erased) and not _said_in(sentence, others)

        # Before the units are gone, by which the collections are known.
        copies = collections_of(w.connection, session.id)
        forget_phrase(w, impact, stale)
        # Blocks of this process hold the texts that were just shortened.
        session.load(w.connection, w.session)
    # After the commit: until then the write-ahead log has the words once more.
    session.database.forget_log()
    if impact.ids("message"):  # an index copies what is left again, at its next search
        recall.forget_copies(session, copies)


def _texts(session: Session, connection: Connection, impact: Impact, *, erased: bool) -> list[str]:
    """Return the texts of the messages that are erased, or of all others."""
    gone = set(impact.ids("message"))
    messages = read_messages(connection, session.id, session.services.messages)
    return [message_text(message.message) for message in messages if (message.seq in gone) is erased]


def _said_in(statement: str, texts: list[str]) -> bool:
    """Return whether any one of the texts has enough of a statement's words."""
    return any(is_supported(statement, [text]) for text in texts)
