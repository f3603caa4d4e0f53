"""Forget a phrase, a message, a fact or an entity, with what was learned only from the messages that say it."""

from collections.abc import Callable, Collection

from sqlalchemy import Connection

from memory_core.engine.session import Session
from memory_core.errors import MessageError, NotFoundError
from memory_core.events import Ref, is_ref
from memory_core.history.fact_evidence import is_supported
from memory_core.messages import message_text
from memory_core.planning.fact_merging import relevance
from memory_core.planning.graph_rules import Entity
from memory_core.planning.impact import TELLING, Affected, Impact, Target
from memory_core.planning.running_summary import sentences
from memory_core.retrieval import recall
from memory_core.store.erasing.phrase_forgetting import counted, forget_phrase, read_impact
from memory_core.store.fact_rows import read_by_ids, read_history
from memory_core.store.message_rows import read_messages
from memory_core.store.vector_rows import collections_of
from memory_core.text import stems

SHORTEST = 3
"""Minimum characters of a phrase: a shorter one occurs within other words by chance."""

SAME_SHARE = 0.6
"""Minimum share (0 to 1) of a statement's stems that a fact must contain to count as saying the same."""

Forgettable = str | Ref | Entity
"""A phrase, the ref of a message (`m3`) or of a fact (`f12`), or an entity with all its names."""


def impact_of(session: Session, what: Forgettable, keep: Collection[Affected] = ()) -> Impact:
    """Return the rows that forgetting something would erase, without those in `keep`.

    An entity is not erased if a relation that is not erased needs it.

    Raises:
        MessageError: the phrase or a name has under 3 characters.
        NotFoundError: the session has no such message or fact.
    """
    session.open()
    with session.database.read() as connection:
        target = _target(session, connection, what)
        impact = read_impact(connection, session.id, session.user_id, session.services.messages, target)
        alone = [row for row in impact.rows if row.why == "learned from it alone"]
        # Of everything learned from a fact's messages, only what says the same is erased with the fact.
        if target.facts:
            impact = impact.without([row for row in alone if row.kind != "summary" and not _same(row.words, target)])
        facts = [row for row in alone if row.kind == "fact"]
        if facts:
            others = _texts(session, connection, impact, erased=False)
            # A fact that was said twice in one delivery has one source only, so another message may still state it.
            impact = impact.without([row for row in facts if _said_in(row.words, others)])
        # A summary that read a message may have taken nothing from it.
        read = [row for row in alone if row.kind == "summary"]
        if read:
            stale, texts = stale_sentences(session, connection, impact), {b.name: b.state or "" for b in session.blocks}
            impact = impact.without([row for row in read if not any(map(stale, sentences(texts[str(row.id)])))])
        return counted(connection, session.id, impact.without(keep))


def _target(session: Session, connection: Connection, what: Forgettable) -> Target:
    if isinstance(what, Entity):
        return Target(tuple(_phrase(name) for name in (what.name, *what.aliases)), whole_words=True)
    if not isinstance(what, Ref):
        return Target((_phrase(what),))
    if not is_ref(what) or what.kind not in ("message", "fact"):
        raise NotFoundError(f"{what} is neither a message nor a fact.")
    if what.kind == "message":
        messages = read_messages(connection, session.id, session.services.messages, seqs=[what.number])
        if not messages:
            raise NotFoundError(f"This session has no message {what.number}.")
        text = message_text(messages[0].message).strip()
        return Target((text,) if len(text) >= TELLING else (), seqs=(what.number,))
    fact = read_by_ids(connection, [what.number])[0]
    if fact.scope not in session.scopes:
        raise NotFoundError(f"This session has no fact {what.number}.")
    wordings = dict.fromkeys(one.text for one in read_history(connection, fact.scope, fact.id) if one.text)
    seqs = tuple(seq for session_id, seq in fact.sources if session_id == session.id)
    return Target(tuple(wordings), seqs=seqs, facts=(fact.id,))


def _phrase(text: str) -> str:
    # Line breaks and double spaces of a pasted phrase are not searched for.
    phrase = " ".join(text.split())
    if len(phrase) < SHORTEST:
        raise MessageError(f"Give at least {SHORTEST} characters: shorter ones stand in other words by chance.")
    return phrase


def forget(session: Session, impact: Impact) -> None:
    """Erase the rows of an impact; see `SessionHandle.forget`."""
    if not impact.erased:
        return
    with session.writing() as w:
        session.refresh(w)
        # Before anything is erased.
        stale = stale_sentences(session, w.connection, impact)
        # Before the stored turns are erased, whose rows name the collections.
        copies = collections_of(w.connection, session.id)
        forget_phrase(w, impact, stale)
        # Blocks of this process hold the texts that were just shortened.
        session.load(w.connection, w.session)
    # After the commit: until then the write-ahead log contains the erased texts once more.
    session.database.forget_log()
    if impact.ids("message"):  # at its next search, an index copies the remaining rows again
        recall.forget_copies(session, copies)


def stale_sentences(session: Session, connection: Connection, impact: Impact) -> Callable[[str], bool]:
    """Return a function that is true for a sentence that only the erased messages of an impact say."""
    listed, others = (_texts(session, connection, impact, erased=either) for either in (True, False))

    def is_stale(sentence: str) -> bool:
        if impact.target.facts and not _same(sentence, impact.target):
            return False
        return _said_in(sentence, listed) and not _said_in(sentence, others)

    return is_stale


def _same(statement: str, target: Target) -> bool:
    """Return whether a wording of the chosen fact has most of a statement's stems, and so says the same."""
    return any(relevance(statement, frozenset(stems(wording))) >= SAME_SHARE for wording in target.phrases)


def _texts(session: Session, connection: Connection, impact: Impact, *, erased: bool) -> list[str]:
    """Return the texts of the messages that are erased, or of all others."""
    gone = set(impact.ids("message"))
    messages = read_messages(connection, session.id, session.services.messages)
    return [message_text(message.message) for message in messages if (message.seq in gone) is erased]


def _said_in(statement: str, texts: Collection[str]) -> bool:
    """Return whether one of the texts has enough of a statement's words."""
    return any(is_supported(statement, [text]) for text in texts)
