"""Forget a phrase, a message, a fact or an entity, with what was learned only from it, or a user with all sessions;
or put the rows of such an impact into quarantine, and release them again."""

import json
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from sqlalchemy import Connection, delete, select

from memory_core.access import needs
from memory_core.blocks import WITH_TEXT
from memory_core.blocks.static import texts_in_content
from memory_core.engine.delivery import scope_key
from memory_core.engine.session import Session
from memory_core.errors import MessageError, NotFoundError
from memory_core.events import Ref, is_ref
from memory_core.history.fact_evidence import is_supported
from memory_core.messages import MessageRole, content_hash, message_text
from memory_core.planning.fact_merging import relevance
from memory_core.planning.graph_rules import Entity
from memory_core.planning.impact import TELLING, Affected, Impact, Kind, Target, texts_in
from memory_core.planning.quarantine import PROMPT_KINDS, Quarantine, QuarantinedSet, quarantine_of
from memory_core.planning.running_summary import sentences
from memory_core.retrieval.retrieval import forget_copies
from memory_core.sessions.overview import Status, list_sessions, origin_of
from memory_core.sessions.recorded_conversation import recording_of
from memory_core.store.block_rows import read_blocks
from memory_core.store.database import Database, chunks
from memory_core.store.erasing import bury, erase_facts, erase_remains
from memory_core.store.fact_rows import read_by_ids, read_facts, read_history
from memory_core.store.graph_rows import read_graph
from memory_core.store.message_rows import MessageCache, read_messages
from memory_core.store.phrase_forgetting import counted, forget_phrase, read_impact
from memory_core.store.quarantine_rows import read_all_sets, read_targets
from memory_core.store.tables import (
    content_table,
    event_table,
    fact_revision_table,
    fact_source_table,
    fact_table,
    lease_table,
    session_table,
)
from memory_core.store.text_erasing import erase_unneeded
from memory_core.store.vector_rows import collections_of, drop_lonely_vectors
from memory_core.store.writing import (
    Clock,
    OnePiece,
    SessionState,
    Writing,
    read_session,
    read_sessions,
    read_texts,
    session_scope,
    user_scope,
)
from memory_core.text import stems
from memory_core.vectors import forget_copies as forget_indexed
from memory_core.vectors.vector_index import VectorIndex

SHORTEST = 3
"""Minimum characters of a phrase: a shorter one occurs within other words by chance."""

SAME_SHARE = 0.6
"""Minimum share (0 to 1) of a statement's stems that a fact must contain to count as saying the same."""

Forgettable = str | Ref | Entity
"""A phrase, the ref of a message (`m3`) or of a fact (`f12`), or an entity with all its names."""


def impact_of(
    session: Session, what: Forgettable, keep: Collection[Affected] = (), *, everywhere: bool = False
) -> Impact:
    """Return the rows that forgetting something would erase, without those in `keep`.

    `everywhere`: with a fact that the user's sessions share, the rows of all these sessions. An entity is not erased if
    a relation that is not erased needs it.

    Raises:
        MessageError: the phrase or a name has under 3 characters.
        NotFoundError: the session has no such message or fact.
    """
    session.open()
    with session.database.read() as connection:
        target = _target(session, connection, what)
        others = _in_others(session, connection, target) if everywhere else ()
        heard = {(other.session, seq) for other in others for seq in other.ids("message")}
        impact = read_impact(connection, session.id, session.user_id, session.services.messages, target, heard=heard)
        ticked = (other.without(keep) for other in others)
        going = tuple(counted(connection, other.session, other) for other in ticked if other.rows)
        listed = {other.session for other in going}
        impact = impact.without([row for row in impact.rows if row.kind == "session" and row.id in listed])
        here = counted(connection, session.id, _of_these_alone(session, connection, impact).without(keep))
        units, prompts = (sum(getattr(one, name) for one in (here, *going)) for name in ("stored_units", "prompts"))
        program = _program(connection, session.id)
        return replace(here, others=going, stored_units=units, prompts=prompts, program=program)


def _program(connection: Connection, session_id: str) -> str:
    """Return that the memory of the program that a session shows is not changed; empty for other sessions."""
    origin = origin_of(connection, session_id)
    if origin.kind == "opened":
        return f"{origin.source or 'The file'} is not changed: the program that it belongs to still has it."
    if origin.kind == "attached":
        return "The agent's own memory is not changed: its program builds its prompts, which may still have it."
    return ""


def _in_others(session: Session, connection: Connection, target: Target) -> tuple[Impact, ...]:
    """Return the impacts of forgetting shared facts in the user's other sessions; empty for any other target."""
    facts = [fact for fact in read_by_ids(connection, target.facts) if fact.scope != session_scope(session.id)]
    states = read_sessions(connection, user_id=session.user_id) if facts and session.user_id else ()
    impacts = []
    for state in (state for state in states if state.id != session.id):
        seqs = tuple(seq for fact in facts for session_id, seq in fact.sources if session_id == state.id)
        local_target, cache = replace(target, seqs=seqs), session.services.messages
        impact = read_impact(connection, state.id, None, cache, local_target, names_others=False)
        # The fact itself is a row of this session.
        rows = tuple(replace(row, session=state.id) for row in impact.rows if row.why != "chosen")
        impact = replace(impact, rows=rows, session=state.id, title=state.title or state.id)
        impacts.append(_of_these_alone(session, connection, impact))
    return tuple(impact for impact in impacts if impact.rows)


def _of_these_alone(session: Session, connection: Connection, impact: Impact) -> Impact:
    """Return the impact without what its messages taught that is no part of the target, or that others say too."""
    target = impact.target
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
        stale, session_id = stale_sentences(session, connection, impact), impact.session or session.id
        keys = {record.name: record.text or "" for record in read_blocks(connection, session_id)}
        texts = read_texts(connection, session_scope(session_id), keys.values())
        parts = {row.id: sentences(texts.get(keys[str(row.id)], "")) for row in read}
        impact = impact.without([row for row in read if not any(map(stale, parts[row.id]))])
    return impact


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
        return Target((text,) if len(text) >= TELLING else (), seqs=(what.number,), whole_words=True)
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


@needs("owner")
def forget(session: Session, impact: Impact) -> None:
    """Erase the rows of an impact; see `SessionHandle.forget`."""
    if not impact.erased:
        return
    with session.writing() as w:
        session.refresh(w)
        # Before anything is erased.
        stale = stale_sentences(session, w.connection, impact)
        # Before the stored turns are erased, whose rows name the collections.
        ids = [session.id, *(other.session for other in impact.others)]
        copies = {copy for id in ids for copy in collections_of(w.connection, id)}
        # Locked before anything is erased: a delivery there may wait for a row of a fact.
        others = [(_locked(w, other), other) for other in sorted(impact.others, key=lambda other: other.session)]
        forget_phrase(w, impact, stale)
        for writing, other in others:
            if writing is not None:
                forget_phrase(writing, other, stale_sentences(session, w.connection, other))
                writing.save()
        # Blocks of this process hold the texts that were just shortened.
        session.load(w.connection, w.session)
    # After the commit: until then the write-ahead log contains the erased texts once more.
    session.database.forget_log()
    if any(
        row.kind == "message" for row in impact.erased
    ):  # at its next search, an index copies the remaining rows again
        forget_copies(session, copies)


def _locked(w: Writing, impact: Impact) -> Writing | None:
    """Lock the session of an impact for the same transaction; None if it was deleted since."""
    state = read_session(w.connection, impact.session, lock=not w.database.is_sqlite)
    return Writing(w.database, w.connection, state, w.now) if state and state.deleted_at is None else None


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
    """Return the texts of the messages of the impact's session that are erased, or of all others."""
    gone = set(impact.ids("message"))
    messages = read_messages(connection, impact.session or session.id, session.services.messages)
    return [message_text(message.message) for message in messages if (message.seq in gone) is erased]


def _said_in(statement: str, texts: Collection[str]) -> bool:
    """Return whether one of the texts has enough of a statement's words."""
    return any(is_supported(statement, [text]) for text in texts)


# -- a user with all their sessions ---------------------------------------------------------------


MOST_SEARCHED = 200
"""Maximum number of a user's texts to search for in files after erasing, longest first; more would take longer."""

_NOTHING = 'Nothing is stored of the user "{}".'


@dataclass(frozen=True, slots=True)
class UserData:
    """Sessions, messages and facts of a user, counted and named."""

    user_id: str
    sessions: tuple[Status, ...]
    facts: tuple[str, ...]
    """Texts of the facts, in any state, that the user's sessions share."""
    searched: tuple[str, ...] = ()
    """Texts to search files for, to find what is left: the longest of the user's messages and facts."""

    @property
    def messages(self) -> int:
        return sum(status.queue_messages + status.archived_messages for status in self.sessions)


def outliving_users(database: Database) -> list[str]:
    """Return the users of whom facts are left, but no session, in alphabetical order."""
    prefix = user_scope("")
    with database.read() as connection:
        of_facts = select(fact_table.c.scope).where(fact_table.c.scope.startswith(prefix, autoescape=True)).distinct()
        scopes = set(connection.execute(of_facts).scalars())
        return sorted({scope.removeprefix(prefix) for scope in scopes} - {s.user_id for s in read_sessions(connection)})


def data_of_user(database: Database, user_id: str) -> UserData:
    """Return the data that forgetting a user would erase.

    Raises:
        NotFoundError: nothing is stored of this user.
    """
    sessions = tuple(list_sessions(database, user_id=user_id))
    with database.read() as connection:
        facts = tuple(fact.text for fact in read_by_ids(connection, _fact_ids(connection, user_id)))
    if not sessions and not facts:
        raise NotFoundError(_NOTHING.format(user_id))
    return UserData(user_id, sessions, facts)


@needs("owner")
def forget_user(
    database: Database, user_id: str, *, clock: Clock = time.time, index: VectorIndex | None = None
) -> UserData:
    """Erase all sessions of a user and the facts that these share; return what was erased. No undo.

    All in one transaction: if it fails, nothing was erased. A process that works in one of these sessions gets an error
    at its next call, as the session was deleted. Calls for one user wait for each other: the later one finds nothing.
    `index`: see `delete_session`.

    Raises:
        NotFoundError: nothing is stored of this user.
        AccessError: the acting person is no owner.
    """
    data, scope = data_of_user(database, user_id), user_scope(user_id)
    data = replace(data, searched=_telling_texts(database, data))
    with database.write() as connection:
        # Before any row: calls that lock different sessions first could otherwise wait for each other in a circle.
        database.lock_name(connection, f"forget {scope}")
        sessions = [
            Writing(database, connection, state, clock()) for state in _lock_sessions(database, connection, user_id)
        ]
        facts, copies = _fact_ids(connection, user_id), set[str]()
        # Another call has erased all while this one waited.
        if not sessions and not facts:
            raise NotFoundError(_NOTHING.format(user_id))
        if sessions:
            # The facts first: their events are in the sessions' logs, and no session is theirs once all are deleted.
            _erase_tombstones(connection, facts)
            erase_facts(sessions[0], read_by_ids(connection, facts), actor="user")
            erase_unneeded(sessions[0], scope)
            _erase_leases(connection, scope)
            for w in sessions:
                joined = bury(w)
                w.save()  # pending rows first, so that they are erased with the rest
                copies.update(erase_remains(OnePiece(database, connection), w.session.id, joined=joined))
        else:
            _erase_outliving(connection, user_id)
    database.forget_log()
    forget_indexed(index, copies)
    return data


def _lock_sessions(database: Database, connection: Connection, user_id: str) -> list[SessionState]:
    """Lock and return a user's sessions, new ones included; every writer locks a session before its rows."""
    ids = sorted(state.id for state in read_sessions(connection, user_id=user_id))
    locked = (read_session(connection, id, lock=not database.is_sqlite) for id in ids)
    return [session for session in locked if session is not None and session.deleted_at is None]


def _erase_outliving(connection: Connection, user_id: str) -> None:
    """Erase the facts of a user whose sessions were all deleted before."""
    scope, facts = user_scope(user_id), _fact_ids(connection, user_id)
    _erase_tombstones(connection, facts)
    for some in chunks(facts):
        for table, column in ((fact_revision_table, "fact_id"), (fact_source_table, "fact_id"), (fact_table, "id")):
            connection.execute(delete(table).where(table.c[column].in_(some)))
    connection.execute(delete(content_table).where(content_table.c.scope == scope))
    drop_lonely_vectors(connection, scope)
    _erase_leases(connection, scope)


def _erase_tombstones(connection: Connection, facts: Collection[int]) -> None:
    """Erase the logs of deleted sessions that name these facts: reasons in them, for example, were written by a person.

    A session belongs to one user: if its log names one of the facts, all that is left of it is about this user's facts.
    """
    e, s = event_table.c, session_table.c
    deleted = select(s.id).where(s.deleted_at.is_not(None))
    about = select(e.session_id, e.data).where(e.session_id.in_(deleted), e.kind.like("fact%"))
    ids = frozenset(facts)
    sessions = {row.session_id for row in connection.execute(about) if json.loads(row.data).get("fact") in ids}
    for some in chunks(sorted(sessions)):
        connection.execute(delete(event_table).where(e.session_id.in_(some)))


def _erase_leases(connection: Connection, scope: str) -> None:
    # The keys of leases contain the user's id.
    of_user = lease_table.c.key.startswith(f"[{json.dumps(scope)},", autoescape=True)
    connection.execute(delete(lease_table).where(of_user))


def _fact_ids(connection: Connection, user_id: str) -> list[int]:
    query = select(fact_table.c.id).where(fact_table.c.scope == user_scope(user_id))
    return list(connection.execute(query).scalars())


def _telling_texts(database: Database, data: UserData) -> tuple[str, ...]:
    """Return the longest texts of a user's messages and facts."""
    texts, cache = set(data.facts), MessageCache()
    with database.read() as connection:
        for status in data.sessions:
            for stored in read_messages(connection, status.session_id, cache):
                if stored.message.role is MessageRole.USER:
                    texts.update(Target((message_text(stored.message),)).searched)
    telling = sorted((text for text in texts if len(text) >= TELLING), key=len, reverse=True)
    return tuple(telling[:MOST_SEARCHED])


def impact_on_prompts(session: Session, what: Forgettable, keep: Collection[Affected]) -> Impact:
    """Return what prompts may hold of something, now or when a recording is played on, without the rows in `keep`.

    Raises: as `impact_of`.
    """
    impact = impact_of(session, what, [row for row in keep if row.kind not in ("fields", "recording")])
    recording = recording_of(session)
    said_in = impact.target.said_in
    coming = recording.messages[recording.played :] if recording is not None else ()
    ahead = sum(any(map(said_in, texts_in(message.to_json()))) for message in coming)
    words = "1 message that is still to be played" if ahead == 1 else f"{ahead:,} messages that are still to be played"
    rows = [replace(row, words=words) if row.kind == "recording" else row for row in impact.rows]
    shown = (row for row in rows if row.kind in PROMPT_KINDS and (row.kind != "recording" or ahead))
    return replace(impact, rows=tuple(shown)).sparing(keep)


def session_with(session: Session, impact: Impact) -> Session:
    """Return a copy of the session with the rows of an impact in quarantine. Read-only."""
    with session.database.read() as connection:
        planned = planned_set(session, connection, impact)
        sets = session.quarantine(connection).sets
    return session.with_quarantine(quarantine_of([*sets, *([planned] if planned is not None else [])]))


def session_without(session: Session, number: int) -> Session:
    """Return a copy of the session in which this set is released. Read-only."""
    with session.database.read() as connection:
        sets = read_all_sets(connection, session.id, session.user_id)
    return session.with_quarantine(quarantine_of([one for one in sets if one.key != (session.id, number)]))


def rows_of(session: Session, withheld: QuarantinedSet) -> list[Affected]:
    """Return the items of a set with their texts; items that were erased since are missing."""
    session.open()
    rows: list[Affected] = []
    with session.database.read() as connection:
        for message in read_messages(connection, session.id, session.services.messages, seqs=withheld.seqs):
            rows.append(Affected("message", message.seq, message_text(message.message), "chosen", message.turn))
        for attached in session.blocks:
            if attached.kind == "facts":
                facts = read_facts(connection, scope_key(session, attached), attached.name, states=None)
                rows += [Affected("fact", f.id, f.text, "chosen", f.turn) for f in facts if f.id in withheld.facts]
            elif attached.kind == "graph":
                graph = read_graph(connection, session_scope(session.id), attached.name)
                relations = (graph.relations[id] for id in withheld.relations if id in graph.relations)
                rows += [Affected("relation", r.id, graph.sentence(r), "chosen", r.turn) for r in relations]
            elif attached.kind in WITH_TEXT:
                kind: Kind = "summary" if attached.kind == "summary" else "text"
                only = Quarantine(sentences=frozenset(withheld.sentences))
                texts = texts_in_content(attached.state or attached.initial or "")
                rows += [
                    Affected(kind, attached.name, words, "chosen") for text in texts for words in only.held_back(text)
                ]
            elif attached.kind == "custom" and attached.name not in withheld.spared:
                targets = read_targets(connection, session.id, session.services.messages, [withheld], parts=True)
                if any(target.said_in(text) for target in targets for text in texts_in(attached.state or "")):
                    rows.append(Affected("fields", attached.name, f"what {attached.name} says of it", "chosen"))
    return rows


def planned_set(session: Session, connection: Connection, impact: Impact) -> QuarantinedSet | None:
    """Return the set of an impact's rows, not stored yet; None if no prompt could hold any."""
    target, ids = impact.target, impact.ids
    # The words of a chosen message or fact are stored with it. A phrase is stored nowhere else.
    phrases = () if target.seqs or target.facts else target.phrases
    seqs, facts, relations = (tuple(ids(kind)) for kind in ("message", "fact", "relation"))
    hashes = tuple(content_hash(sentence) for sentence in _sentences(session, connection, impact))
    if not (seqs or facts or relations or hashes or impact.names("fields") or impact.names("recording")):
        return None
    words = phrases, bool(phrases) and target.whole_words, impact.spared
    return QuarantinedSet(session.id, 0, 0, 0.0, seqs, facts, relations, hashes, *words)


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
