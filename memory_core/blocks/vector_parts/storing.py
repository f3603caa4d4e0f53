"""Store units with their vectors; without them if the embedding model fails, or if they are too long to embed at once.

Keyword search finds units without vectors. Long ones are embedded in the background (`background_embedding`), others
along with the next units once the model answers again, or by `Memory.retrieval.reembed`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from memory_core.blocks.base import Batch, PendingWrite
from memory_core.blocks.vector_parts.background_embedding import AT_ONCE_TOKENS, Following
from memory_core.blocks.vector_parts.units import node_words, parse_unit, search_words, words_of
from memory_core.errors import EmbedderError, user_message
from memory_core.events import VectorsReplaced, VectorsStored, ranges
from memory_core.models.protocols import Embedder, embedded
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.store.derived_files import DerivedFile
from memory_core.store.message_rows import StoredMessage
from memory_core.store.vector_rows import (
    NO_EMBEDDER,
    NO_VECTOR,
    DatabaseVectors,
    NewNode,
    add_nodes,
    collection_name,
    read_nodes_of,
    read_nodes_without_vector,
    replace_vectors,
)
from memory_core.store.writing import Writing, user_scope
from memory_core.vectors.vector_index import Vector

MAX_CAUGHT_UP = 200
"""Maximum number of units without a vector that are embedded along with new ones, the oldest first."""


@dataclass(slots=True)
class LearnedUnits(PendingWrite):
    """Pending write of a vector block: units and vectors."""

    block: str
    embedder: str
    """Embedder id; `NO_EMBEDDER` if the model failed."""
    nodes: Sequence[NewNode]
    earlier: Mapping[int, Vector] = field(default_factory=dict)
    """New vectors of stored units that had none, or an unusable one, by id."""
    unusable: set[int] = field(default_factory=set)
    """Ids of stored units whose vector has a wrong length or values that are no numbers, as far as searches found."""
    error: str | None = None
    """Reason why the units are stored without vectors."""
    then: Callable[[], None] | None = None
    """Called after the commit; starts background embedding."""

    def save(self, w: Writing) -> None:
        numbers = add_nodes(w, self.block, self.embedder, self.nodes)
        stored = tuple((n, ranges(node.seqs), node.tokens) for n, node in zip(numbers, self.nodes, strict=True))
        follow = self.then is not None
        w.record(VectorsStored(self.block, self.embedder, stored, error=self.error, follow=follow))
        replaced = replace_vectors(w, self.block, self.embedder, self.earlier, unusable=self.unusable)
        if replaced:
            w.record(VectorsReplaced(self.block, self.embedder, tuple(replaced)))

    def committed(self) -> None:
        # After the commit only: searches of this process share the set.
        self.unusable.difference_update(self.earlier)
        if self.then is not None:
            self.then()


def learn_units(batch: Batch, block: str, embedder: Embedder, units: Sequence[Sequence[StoredMessage]]) -> LearnedUnits:
    """Embed units, each of at least one message with words; return the pending write. `block`: the block's name."""
    if embedder.offline and _long(batch, block, units):
        without = _nodes(batch, units, [NO_VECTOR] * len(units))
        following = vectors_that_follow(batch.database, batch.services, batch.session_id, block)
        then = partial(following.start, batch.services, batch.database, batch.session_id, block, embedder)
        return LearnedUnits(block, NO_EMBEDDER, without, then=then)
    try:
        vectors = embedded(embedder, [search_words(unit) for unit in units])
        name = embedder.id
    except EmbedderError as error:  # every search reports it, too, while it lasts
        without = _nodes(batch, units, [NO_VECTOR] * len(units))
        return LearnedUnits(block, NO_EMBEDDER, without, error=user_message(error))
    unusable = unusable_vectors(batch.database, batch.services, batch.session_id, block, embedder)
    earlier = _caught_up(batch, block, embedder, sorted(unusable)[:MAX_CAUGHT_UP])
    return LearnedUnits(block, name, _nodes(batch, units, list(vectors)), earlier, unusable)


def unusable_vectors(
    database: Database, services: Services, session_id: str, block: str, embedder: Embedder
) -> set[int]:
    """Return ids of stored units whose vectors of this embedder are unusable, as far as searches have found them."""
    collection = collection_name(database, session_id, block, embedder.id)
    return services.cached(("unusable", collection), set[int])


def vectors_that_follow(database: Database, services: Services, session_id: str, block: str) -> Following:
    """Return the background embedding of a block."""
    return services.cached(("following", database.id, session_id, block), Following)


def vectors_of(
    database: Database, services: Services, session_id: str, block: str, embedder: Embedder
) -> DatabaseVectors:
    """Return the vectors of a block's stored units under this embedder."""
    unusable = unusable_vectors(database, services, session_id, block, embedder)
    collection = collection_name(database, session_id, block, embedder.id)
    file = DerivedFile(database, session_id, f"vectors of {collection}")
    return DatabaseVectors(database, collection, embedder.dimensions, unusable, file=file)


def vectors_of_user(
    database: Database, services: Services, user_id: str, sessions: Sequence[str], block: str, embedder: Embedder
) -> DatabaseVectors:
    """Return the vectors of a block's stored units in all of these sessions of a user, under this embedder."""
    owner = user_scope(user_id)
    unusable = unusable_vectors(database, services, owner, block, embedder)
    joined = [collection_name(database, session_id, block, embedder.id) for session_id in sessions]
    collection = collection_name(database, owner, block, embedder.id)
    return DatabaseVectors(database, collection, embedder.dimensions, unusable, joined)


def _long(batch: Batch, block: str, units: Sequence[Sequence[StoredMessage]]) -> bool:
    """Return whether these units, with earlier ones without a vector, are too long to embed at once."""
    with batch.database.read() as connection:
        before = read_nodes_without_vector(connection, batch.database, batch.session_id, block, limit=MAX_CAUGHT_UP)
    # Units that wait count too: embedding the new ones would embed these along with them.
    tokens = sum(message.tokens.content for unit in units for message in unit) + sum(node.tokens for node in before)
    return tokens > AT_ONCE_TOKENS


def _caught_up(batch: Batch, block: str, embedder: Embedder, unusable: Sequence[int]) -> dict[int, Vector]:
    """Embed stored units without a vector, and the `unusable` ones; return the new vectors by id."""
    with batch.database.read() as connection:
        nodes = read_nodes_without_vector(connection, batch.database, batch.session_id, block, limit=MAX_CAUGHT_UP)
        nodes += read_nodes_of(connection, batch.session_id, block, unusable)
        words = node_words(connection, batch.session_id, batch.services.messages, nodes)
    if not nodes:
        return {}
    try:
        return dict(zip((node.number for node in nodes), embedded(embedder, words), strict=True))
    except EmbedderError:  # an old unit that cannot be embedded must not hold up new ones
        return {}


def _nodes(batch: Batch, units: Sequence[Sequence[StoredMessage]], vectors: Sequence[Vector]) -> list[NewNode]:
    return [
        NewNode(
            tuple(message.seq for message in unit),
            batch.counter.text(words_of(unit)),
            vector,
            parse_unit(unit).to_json(),
        )
        for unit, vector in zip(units, vectors, strict=True)
    ]
