"""Mirror another store's state into a session: queue, archive, all versions of its memory blocks, facts and relations.

No conversation is replayed and no block learns: the state is recorded in one transaction. Mirroring again records the
changes since, so a session can follow a store that an agent still uses. The store's ids are unrelated to the session's:
a fact is matched by the newest of its texts that exists here, or else by the store's id in its metadata.
"""

import logging
import uuid
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import groupby
from typing import Any

from memory_core.blocks import FactExtractionMemoryBlock, GraphMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.curation import settings as editing
from memory_core.curation.fact_desk import Curation
from memory_core.curation.graph_desk import GraphDesk
from memory_core.curation.settings import add_block
from memory_core.engine import queue
from memory_core.engine.session import Session
from memory_core.events import FlushPlanned, ranges
from memory_core.messages import ChatMessage, MessageRole, MessageStatus, content_hash, storable
from memory_core.planning import curation as plans
from memory_core.planning.curation import ChangeSet, FactChange, FactDraft, FactValues, Step
from memory_core.planning.fact_merging import Fact, metadata_text, same_words
from memory_core.planning.graph_changes import NamedRelation
from memory_core.planning.graph_rules import normal_name, normal_predicate
from memory_core.planning.running_summary import sentences
from memory_core.store.block_rows import TextOrigin, TextRevision, read_revisions
from memory_core.store.erasing import message_seqs
from memory_core.store.message_rows import archive, hashes_by_seq, sizes_between
from memory_core.store.quarantine_rows import join_sets
from memory_core.store.writing import Writing


@dataclass(frozen=True, slots=True)
class TextVersion:
    text: str
    written: TextOrigin | None = None


@dataclass(frozen=True, slots=True)
class MirroredBlock:
    """A memory block or note of another store, mirrored as a static block."""

    name: str
    versions: tuple[TextVersion, ...]
    """All versions of the text, oldest first; never empty."""
    description: str | None = None
    limit: int | None = None
    """Maximum characters that an agent may write."""
    read_only: bool = True

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the corresponding static block."""
        return {"description": self.description, "limit": self.limit, "read_only": self.read_only}


def mirror(
    session: Session,
    messages: Sequence[ChatMessage],
    *,
    archived: Collection[int] = (),
    blocks: Sequence[MirroredBlock] = (),
) -> bool:
    """Update a session to the passed state in one transaction; return whether anything changed.

    `archived`: indexes of the messages that have left the queue. Messages that the store lost leave the queue, or stay
    in the archive if they were there; lost blocks are removed.

    Raises:
        MessageError: A message cannot be stored; nothing was stored.
        ConfigError: A block cannot be made; nothing was stored.
        NotFoundError: The session was deleted.
        StoreError: The database cannot be reached.
    """
    # 1. Before the transaction, which makes other writers wait: counting tokens takes long.
    prepared = queue.prepare(session, messages, [uuid.uuid4().hex for _ in messages])
    with session.changing() as w:
        before = w.session.next_seq, w.session.archived_messages, w.session.revision
        # 2. Match by content, as the store's ids mean nothing here.
        hashes = hashes_by_seq(w.connection, session.id)
        places = aligned(list(hashes.values()), [content_hash(new.json) for new in prepared])
        existing = list(hashes)
        seqs = [None if place is None else existing[place] for place in places]
        # 3. What the store lost leaves the queue; its archived messages stay, as an archive only grows.
        queued = set(message_seqs(w.connection, session.id, MessageStatus.ACTIVE))
        _remove(session, w, sorted(queued.difference(seq for seq in seqs if seq is not None)))
        fresh = [n for n, seq in enumerate(seqs) if seq is None]
        # Leading system messages are the agent's instructions, which stay pinned.
        opening = all(message.role is MessageRole.SYSTEM for message in messages[: fresh[0]]) if fresh else False
        added = queue.add(session, w, [prepared[n] for n in fresh], opening=opening)
        for n, new in zip(fresh, added, strict=True):
            seqs[n] = new
        # 4. After adding, as a new message may be archived in the store already. Messages archived here before are not
        # archived again.
        archive_elsewhere(session, w, queued.union(added).intersection(seqs[n] or 0 for n in archived))
        for name in {block.name for block in session.blocks} - {block.name for block in blocks}:
            editing.remove_block(session, w, name, "user")
        for block in blocks:
            _write(session, w, block)
        return before != (w.session.next_seq, w.session.archived_messages, w.session.revision)


def aligned(have: Sequence[str], want: Sequence[str]) -> list[int | None]:
    """Return the index in `have` of each item in `want`; None for new items. Both are hashes in order.

    >>> aligned("abc", "bcd")
    [1, 2, None]
    """
    same = 0
    while same < min(len(have), len(want)) and have[same] == want[same]:
        same += 1
    places: list[int | None] = [*range(same), *[None] * (len(want) - same)]
    if same < len(have):  # fast path for lists that only grew, the usual case
        for block in SequenceMatcher(None, have[same:], want[same:], autojunk=False).get_matching_blocks():
            for n in range(block.size):
                places[same + block.b + n] = same + block.a + n
    return places


def _remove(session: Session, w: Writing, gone: Sequence[int]) -> None:
    """Remove messages from the queue that the store no longer has."""
    if gone:
        sizes = sizes_between(w.connection, session.id, after=0, accounting=session.config.accounting)
        queue.drop(w, gone, sum(message.tokens for message in sizes if message.seq in set(gone)))


def archive_elsewhere(
    session: Session, w: Writing, seqs: Collection[int], trigger: str = "elsewhere", summary: Collection[int] = ()
) -> None:
    """Archive queued messages, recorded as a decision of another program under an unknown rule.

    `summary`: messages that this program put in their place.
    """
    config, accounting = session.config, session.config.accounting
    sizes = sizes_between(w.connection, session.id, after=0, accounting=accounting)
    leave = [message for message in sizes if message.seq in seqs]
    if not leave:
        return
    held = w.session.queue(accounting).tokens
    w.session.flushes += 1
    archive(w, leave, flush=w.session.flushes)
    w.record(
        FlushPlanned(
            flush=w.session.flushes,
            trigger=trigger,
            rules=(),
            seqs=ranges(message.seq for message in leave),
            messages=len(leave),
            tokens=sum(message.tokens for message in leave),
            queue_before=held,
            queue_after=w.session.queue(accounting).tokens,
            history_budget=config.history_budget,
            flush_size=config.flush_size,
            over_by=0,
            summary=ranges(sorted(summary)),
        )
    )


def _write(session: Session, w: Writing, block: MirroredBlock) -> None:
    """Write a block's new versions and its settings."""
    versions: Sequence[TextVersion] = block.versions
    former: tuple[str, ...] = ()
    if any(attached.name == block.name for attached in session.blocks):
        former = sentences(session.block(block.name).state or "")
        # Changed settings make a new block object, whose text the next lines write.
        if editing.write_settings(session, w, block.name, block.settings, "user"):
            editing.take_over(session, w)
        versions = _after(versions, read_revisions(w.connection, session.id, block.name))
    else:
        first, versions = versions[0], versions[1:]
        made = StaticMemoryBlock(name=block.name, static_content=first.text, **block.settings)
        editing.add_block(session, w, made, "user", first.written)
    for version in versions:
        editing.write_block_text(session, w, session.block(block.name), version.text, "user", written=version.written)
    # Sentences that it had before are in quarantine already, or were left out of it.
    new = "\n".join(s for s in sentences(block.versions[-1].text) if s not in former)
    join_sets(w, session.services.messages, text=new)


def _after(versions: Sequence[TextVersion], revisions: Sequence[TextRevision]) -> Sequence[TextVersion]:
    """Return the versions after the last known one; if the store rewrote its history, only the last."""
    last = revisions[-1].text if revisions else None
    # From the newest, as a text may have been changed back to an earlier one.
    for n in range(len(versions) - 1, -1, -1):
        if versions[n].text == last:
            return versions[n + 1 :]
    return versions[-1:]


FACTS, GRAPH = "Memories", "Graph"
"""Names of the mirrored blocks."""
ID = "memory_id"
"""Field of a fact's metadata with the id that its store has for it."""
GONE = "no longer in the store"
_log = logging.getLogger(__name__)
_MAX_FACTS = 10_000
"""Maximum active facts: so high that a mirrored session never condenses them."""


@dataclass(frozen=True, slots=True)
class MirroredFact:
    """A fact of a store, with every text it has had."""

    texts: tuple[str, ...]
    """All texts that the fact has had, oldest first; never empty."""
    active: bool = True
    topics: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    id: str = ""
    """Id in the store; empty where the store has none that lasts."""


def mirror_facts(session: Session, facts: Sequence[MirroredFact]) -> bool:
    """Update a session's facts to match a store; return whether anything changed.

    Changed texts become edits of one fact. Facts that the store deleted or lost are retired, and restored when they
    are back. Under `approval`, new and changed texts and facts that are back wait for a person, and the former texts
    stay until then. What a person rejected stays rejected.

    Raises:
        StoreError: The database cannot be reached.
    """
    _with_block(session, FactExtractionMemoryBlock(name=FACTS, accept_short_term_memory=False, max_facts=_MAX_FACTS))
    desk = Curation(session, FACTS)
    approval = bool(session.block(FACTS).settings.get("approval"))
    changed, wanted = False, distinct(facts)
    # One text per round: a fact has an id only once its first text is stored. At most two more change the state.
    for _ in range(max((len(fact.texts) for fact in wanted), default=0) + 2):
        if not (steps := plan_facts(desk.facts(), wanted, approval=approval)):
            return changed
        # The reason is recorded with every step of its change set, and holds for what is retired alone.
        for retired, reason in ((False, ""), (True, GONE)):
            if part := tuple(step for step in steps if _retires(step) == retired):
                desk.apply(ChangeSet("import", part, reason), actor="agent")
        changed = True
    if plan_facts(desk.facts(), wanted, approval=approval):
        _log.warning("%r: some facts are stored otherwise than their store has them", session.id)
    return changed


def distinct(facts: Iterable[MirroredFact]) -> list[MirroredFact]:
    """Normalise texts for storage, and make each text belong to one fact only.

    Comparison ignores case, as for every fact. A fact that shares a text with another keeps only its last text.
    """
    listed = [replace(fact, texts=texts) for fact in facts if (texts := _as_stored(fact.texts))]
    uses = Counter(key for fact in listed for key in {same_words(text) for text in fact.texts})
    by_text: dict[str, MirroredFact] = {}
    for fact in listed:
        # Facts are matched by their texts, so a shared text could match either fact when it is mirrored next.
        if any(uses[same_words(text)] > 1 for text in fact.texts):
            fact = replace(fact, texts=fact.texts[-1:])
        key = same_words(fact.texts[-1])
        same = by_text.get(key)
        by_text[key] = fact if same is None or not same.active else same
    return list(by_text.values())


def _as_stored(texts: Sequence[str]) -> tuple[str, ...]:
    """Normalise texts to single lines of storable characters; drop consecutive duplicates."""
    written = (" ".join(str(storable(text)[0]).split()) for text in texts)
    return tuple(text for text, _ in groupby(filter(None, written)))


def plan_facts(existing: Sequence[Fact], wanted: Sequence[MirroredFact], *, approval: bool = False) -> list[Step]:
    """Return the next step of each fact towards `wanted` (see `distinct`); up-to-date facts need none."""
    # Of several with the same words the last one is matched: the active one, or what a person has to decide or decided.
    rank = ("superseded", "retired", "rejected", "proposed", "active").index
    free = {same_words(fact.text): fact for fact in sorted(existing, key=lambda fact: rank(fact.state))}
    numbers = [next((n for n in range(len(m.texts) - 1, -1, -1) if same_words(m.texts[n]) in free), -1) for m in wanted]
    matched = {same_words(mirrored.texts[n]) for mirrored, n in zip(wanted, numbers, strict=True) if n >= 0}
    by_id = {
        id: words
        for words, fact in free.items()
        if words not in matched and (id := fact.metadata.get(ID)) and isinstance(id, str)
    }
    steps: list[Step] = []
    undecided: list[MirroredFact] = []
    for mirrored, number in zip(wanted, numbers, strict=True):
        metadata = {**mirrored.metadata, ID: mirrored.id} if mirrored.id else mirrored.metadata
        words = same_words(mirrored.texts[number]) if number >= 0 else by_id.pop(mirrored.id, None)
        if words is None:
            # A deleted fact goes through its texts first and is retired with the last one.
            state = "active" if mirrored.active or len(mirrored.texts) > 1 else "retired"
            steps.append(FactDraft(mirrored.texts[0], state=state, topics=mirrored.topics, metadata=metadata))
            continue
        fact = free.pop(words)
        # If only upper and lower case differ, the matched text itself is written again; all, if the id was matched.
        same = number >= 0 and fact.text == mirrored.texts[number]
        following = mirrored.texts[number + 1 :] if same else mirrored.texts[max(number, 0) :]
        state = "active" if mirrored.active or following else "retired"
        # Only a person makes a proposed or rejected fact active, and under `approval` any that is back.
        if state == "active" and (fact.state in ("proposed", "rejected") or (approval and fact.state != "active")):
            state = "proposed"
            undecided.append(mirrored)
        if fact.state == "rejected":
            continue
        values: FactValues = {}
        if state != (fact.state if fact.state in ("active", "proposed") else "retired"):
            values["state"] = state
        # A proposal may be reworded, but not what is put away: first it is proposed.
        following = () if values.get("state") == "proposed" else following
        # Stores without these fields leave those of the fact as they are.
        if mirrored.topics not in ((), fact.topics):
            values["topics"] = mirrored.topics
        if metadata and metadata_text(metadata) != metadata_text(fact.metadata):
            values["metadata"] = metadata
        if following:
            values["text"] = following[0]
        if values:
            steps.append(FactChange(fact, values))
    # What an undecided fact is instead of stays until a person has decided.
    texts, ids = {same_words(text) for m in undecided for text in m.texts}, {m.id for m in undecided if m.id}
    stays = {words for words, fact in free.items() if words in texts or str(fact.metadata.get(ID)) in ids}
    gone = [fact for words, fact in free.items() if fact.state in ("active", "proposed") and words not in stays]
    return [*steps, *(plans.retire(gone, GONE).steps if gone else ())]


def _retires(step: Step) -> bool:
    return (step.values.get("state") if isinstance(step, FactChange) else step.state) == "retired"


def mirror_relations(session: Session, relations: Sequence[NamedRelation]) -> bool:
    """Update a session's graph to match a store; return whether anything changed. Missing relations are ended.

    Raises:
        StoreError: The database cannot be reached.
    """
    _with_block(session, GraphMemoryBlock(name=GRAPH, accept_short_term_memory=False))
    desk = GraphDesk(session, GRAPH)
    changed = desk.add_many(relations, actor="agent") is not None
    wanted = {_key(relation.subject, relation.predicate, relation.object) for relation in relations}
    graph = desk.graph()
    now = {_key(graph.name(r.subject), r.predicate, graph.name(r.object)): r for r in desk.relations()}
    gone = [relation for key, relation in now.items() if relation.state == "active" and key not in wanted]
    back = [relation for key, relation in now.items() if relation.state == "ended" and key in wanted]
    if gone:
        desk.end(gone, actor="agent")
    if back:
        desk.reactivate(back, actor="agent")
    return bool(changed or gone or back)


def _key(subject: str, predicate: str, object: str) -> tuple[str, str, str]:
    return normal_name(subject), normal_predicate(predicate), normal_name(object)


def _with_block(session: Session, block: BaseMemoryBlock[str]) -> None:
    if all(attached.name != block.name for attached in session.blocks):
        with session.changing() as w:
            # Again within the transaction: another process may have added it in between.
            if all(attached.name != block.name for attached in session.blocks):
                add_block(session, w, block, "user")
