"""Re-embed turns stored with another embedding model, or without a vector, using the current model.

Vectors of two models are never compared, so until then those turns are found by keyword only.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from time import monotonic

from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.blocks.vector_parts.storing import unusable_vectors, vectors_of, vectors_that_follow
from memory_core.blocks.vector_parts.units import node_words
from memory_core.engine.session import Session
from memory_core.errors import VectorIndexError
from memory_core.events import Actor, VectorsReplaced
from memory_core.models.protocols import embedded
from memory_core.retrieval.explain import vector_block
from memory_core.store.vector_rows import (
    Node,
    collections_of,
    count_of_others,
    count_without_vector,
    read_nodes_of,
    read_nodes_of_others,
    replace_vectors,
)

BATCH = 200
"""Turns embedded and stored per batch: a few seconds of work, the most that an interruption can lose."""

Progress = Callable[[int, int], None]
"""Called with the number of turns done and the total."""


def stored_under_others(session: Session, name: str | None) -> int:
    """See `Memory.retrieval.under_other_embedders`."""
    block = vector_block(session, name)
    present = block.embedder(session.services).id
    with session.database.read() as connection:
        others = count_of_others(connection, session.id, block.name, present)
    return others + len(_unusable(session, block))


def reembed(session: Session, name: str | None, progress: Progress | None, actor: Actor) -> int:
    """See `Memory.retrieval.reembed`."""
    block = vector_block(session, name)
    embedder = block.embedder(session.services)
    present = embedder.id
    with session.database.read() as connection:
        before = collections_of(connection, session.id)
        total = count_of_others(connection, session.id, block.name, present)
    for _ in vectors_of(session.database, session.services, session.id, block.name, embedder).vectors():
        pass  # iterating detects every unusable vector
    unusable = _unusable(session, block)
    total += len(unusable)
    done = 0
    # In order of their ids, so that an interrupted run goes on where it stopped.
    nodes, words = _next(session, block.name, present, 0, unusable)
    while nodes:
        vector_of = dict(zip((node.number for node in nodes), embedded(embedder, words), strict=True))
        with session.writing() as w:
            numbers = replace_vectors(w, block.name, present, vector_of, unusable=unusable)
            if numbers:
                w.record(VectorsReplaced(block.name, present, tuple(numbers)), actor=actor)
        unusable.difference_update(vector_of)
        done += len(numbers)
        if progress is not None:
            progress(done, max(total, done))  # more may have been stored meanwhile
        nodes, words = _next(session, block.name, present, nodes[-1].number, unusable)
    unusable.clear()  # the remaining ones were removed meanwhile
    with session.database.read() as connection:
        emptied = before - collections_of(connection, session.id)
    _forget_copies(session, block, sorted(collection for name, collection in emptied if name == block.name))
    return done


def settled(session: Session, timeout: float | None) -> None:
    """Wait until every stored unit has its vector, for at most `timeout` seconds (None: no limit)."""
    until = None if timeout is None else monotonic() + timeout
    for attached in session.blocks:
        if isinstance(attached.block, VectorMemoryBlock):
            following = vectors_that_follow(session.database, session.services, session.id, attached.name)
            following.wait(None if until is None else max(0.0, until - monotonic()))


def follow(session: Session, name: str) -> bool:
    """Return whether vectors for a block's units are still being computed."""
    return not vectors_that_follow(session.database, session.services, session.id, name).settled


def take_up(session: Session) -> None:
    """Compute vectors in the background for stored units that an ended process left without one.

    Only if all other vectors are of the current model; units of another program's model wait for that program.
    """
    for attached in session.blocks:
        block = attached.block
        if not isinstance(block, VectorMemoryBlock) or not (embedder := block.embedder(session.services)).offline:
            continue
        with session.database.read() as connection:
            theirs = count_of_others(connection, session.id, block.name, embedder.id)
            none = count_without_vector(connection, session.database, session.id, block.name)
        # Units without a vector count as of another model; a real other model would make more.
        if none and theirs == none:
            following = vectors_that_follow(session.database, session.services, session.id, block.name)
            following.start(session.services, session.database, session.id, block.name, embedder)


def _next(
    session: Session, block: str, embedder: str, after: int, unusable: Collection[int]
) -> tuple[list[Node], list[str]]:
    """Return the next stored turns of other models, then those with unusable vectors, each with the text to embed."""
    with session.database.read() as connection:
        nodes = read_nodes_of_others(connection, session.id, block, embedder, after=after, limit=BATCH)
        nodes = nodes or read_nodes_of(connection, session.id, block, sorted(unusable)[:BATCH])
        return nodes, node_words(connection, session.id, session.services.messages, nodes)


def _unusable(session: Session, block: VectorMemoryBlock) -> set[int]:
    return unusable_vectors(
        session.database, session.services, session.id, block.name, block.embedder(session.services)
    )


def _forget_copies(session: Session, block: VectorMemoryBlock, collections: list[str]) -> None:
    index = block.index(session.services, session.database)
    for collection in collections:
        session.services.exact.forget(collection)
        with suppress(VectorIndexError):  # unreachable: that copy is never requested again
            index.forget(collection)
