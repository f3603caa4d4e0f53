"""Put what an impact lists into quarantine, and release it again."""

from sqlalchemy import Connection

from memory_core.blocks.static import texts_in_content
from memory_core.engine.session import Session
from memory_core.errors import NotFoundError
from memory_core.events import Actor
from memory_core.messages import content_hash
from memory_core.planning.impact import Impact, Kind
from memory_core.planning.quarantine import QuarantinedSet
from memory_core.planning.running_summary import sentences
from memory_core.sessions.erase_phrase import stale_sentences
from memory_core.store.block_rows import read_blocks
from memory_core.store.quarantine_rows import add_set, end_set, read_sets
from memory_core.store.writing import read_texts, session_scope

KINDS_WITH_IDS: tuple[Kind, ...] = ("message", "fact", "relation")


def quarantine(session: Session, impact: Impact, actor: Actor = "user") -> QuarantinedSet | None:
    """Keep what an impact lists out of all prompts; None if no prompt could hold any of it."""
    with session.writing() as w:
        withheld = _sentences(session, w.connection, impact)
        seqs, facts, relations = (impact.ids(kind) for kind in KINDS_WITH_IDS)
        if not (seqs or facts or relations or withheld):
            return None
        hashes = [content_hash(sentence) for sentence in withheld]
        return add_set(w, seqs=seqs, facts=facts, relations=relations, sentences=hashes, actor=actor)


def release(session: Session, number: int, actor: Actor = "user") -> None:
    """Let prompts hold the items of a set again.

    Raises:
        NotFoundError: no set of this number is in quarantine.
    """
    with session.writing() as w:
        if number not in [one.number for one in read_sets(w.connection, session.id)]:
            raise NotFoundError(f"No set {number} is in quarantine in this session.")
        end_set(w, number, actor=actor)


def sets_of(session: Session) -> list[QuarantinedSet]:
    """Return the sets of this session that are in quarantine, oldest first."""
    with session.database.read() as connection:
        return read_sets(connection, session.id)


def _sentences(session: Session, connection: Connection, impact: Impact) -> list[str]:
    """Return the sentences of texts and summaries that say the phrase, or that only the listed messages say."""
    stale = stale_sentences(session, connection, impact)
    withheld: list[str] = []
    for record in read_blocks(connection, session.id):
        if record.text is None or record.name not in (*impact.names("summary"), *impact.names("text")):
            continue
        stored = read_texts(connection, session_scope(session.id), [record.text]).get(record.text, "")
        for text in texts_in_content(stored):
            parts = sentences(text)
            said_in = impact.target.said_in
            held = [s for s in parts if said_in(s) or (record.type == "summary" and stale(s))]
            # A phrase that begins in one sentence and ends in the next is in none of them.
            whole = said_in(text) and not any(map(said_in, parts))
            withheld += parts if whole else held
    return list(dict.fromkeys(withheld))
