"""The tables. Only `memory_core.store` reads and writes them.

Times are seconds since the epoch, for people; order is always by an integer key. Sizes are tokens. References between
rows are foreign keys where they always hold, checked when a transaction ends. A database made by an earlier version has
none, as SQLite would have to rewrite its tables: nothing relies on them. References that may outlive their target are
not foreign keys: the source messages of facts and relations, the entity another was merged into, the relation that
ended another. Nor are hashes of texts: `text_erasing.py` decides when these are erased. `scope` is `session:<id>` or
`user:<id>`: the owner of the rows.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    String,
    Table,
    Text,
    TypeDecorator,
)
from sqlmodel import Field, SQLModel

# To be raised with every new column, table or index, each with a revision in `store/migrations/versions`.
SCHEMA_VERSION = 9

COMPATIBLE_FROM = 7
"""Lowest schema version whose programs lose nothing when they use a database of `SCHEMA_VERSION`."""

_BigKey = BigInteger().with_variant(Integer, "sqlite")  # SQLite assigns ids only to INTEGER keys


class _Actor(TypeDecorator[str]):
    """Author of a change. Earlier versions stored the user as `curator`, which is read as `user` (in SQL: `USERS`)."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: str | None, dialect: Any) -> str | None:
        return "user" if value == FORMER_USER else value


FORMER_USER = "curator"
USERS = ("user", FORMER_USER)
"""Stored names of the user; the conversion on reading does not reach comparisons in SQL."""

_NEVER_REUSED = {"sqlite_autoincrement": True}
"""Table option; without it SQLite reuses the id of a deleted newest row, so references could point to another row."""


class SchemaRow(SQLModel, table=True):
    __tablename__ = "mi_schema"
    version: int = Field(primary_key=True)
    database_id: str
    """Random id assigned when the tables are created; identifies the database in an index shared by several."""
    compatible_from: int = Field(sa_column=Column(Integer, nullable=False, server_default=str(COMPATIBLE_FROM)))
    """Lowest schema version whose programs may use this database."""


class TenantRow(SQLModel, table=True):
    """Tenant of a PostgreSQL database; the default one has an empty id. See `store.tenants`."""

    __tablename__ = "mi_tenant"
    id: str = Field(primary_key=True)
    created_at: float


class TokenRow(SQLModel, table=True):
    """Token of an agent. Read before the tenant is known, so that row-level security does not apply."""

    __tablename__ = "mi_token"
    hash: str = Field(primary_key=True)
    """SHA-256 of the token, in hexadecimal; the token itself is not stored."""
    name: str
    tenant: str
    created_at: float
    expires_at: float | None = None
    revoked_at: float | None = None


class SessionRow(SQLModel, table=True):
    """Conversation, with running totals of its queue so that a put need not read it."""

    __tablename__ = "mi_session"
    id: str = Field(primary_key=True)
    user_id: str | None = Field(default=None, index=True)
    title: str = ""
    created_at: float
    updated_at: float
    deleted_at: float | None = None
    """Time of deletion. The row then only marks the deletion: everything else of the session is erased."""
    next_seq: int = 1
    turns: int = 0
    newest_turn: int | None = None
    """`seq` of the newest user message in the queue."""
    queue_messages: int = 0
    queue_content: int = 0
    queue_reference: int = 0
    pinned_messages: int = 0
    pinned_content: int = 0
    pinned_reference: int = 0
    archived_messages: int = 0
    flushes: int = 0
    turn_delivered: int = 0
    """`seq` up to which completed turns are scheduled for the blocks that learn each turn."""
    counter: str = ""
    """Id of the tokenizer used for the totals."""
    config: str = Field(default="{}", sa_column=Column(Text, nullable=False))
    constructor: str = Field(default="{}", sa_column=Column(Text, nullable=False))
    """Values that a program last passed to the constructor, as JSON: a stored edit wins until they change."""
    recording: str | None = None
    """Hash of the recorded conversation being replayed into the session."""
    watched: str | None = Field(default=None, sa_type=Text)
    """Watched phrases, messages and facts, as JSON; None: none."""
    probes: str | None = Field(default=None, sa_type=Text)
    """Probes (conditions on the session's prompts), as JSON; None: none."""
    opened_from: str | None = Field(default=None, sa_type=Text)
    """Location, as JSON, of the file that the session follows; None: it follows none. Not in bundles and branches."""
    quarantined: bool | None = None
    """False if nothing was ever put into quarantine here; None: not looked up yet."""
    revision: int = 1
    """Number that grows with every change of configuration or blocks, and when messages are removed."""


class BaselineRow(SQLModel, table=True):
    """Figures of a session that an earlier version stored. Nothing reads or writes them; erased with the session."""

    __tablename__ = "mi_baseline"
    id: str = Field(primary_key=True)
    session_id: str = Field(index=True)
    name: str
    """Settings that differed from the session's."""
    numbers: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """Compressed JSON: a turn has some 400 characters, of which a tenth are new."""
    at: float


class MessageRow(SQLModel, table=True):
    __tablename__ = "mi_message"
    session_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True)
    id: str
    role: str
    status: str
    pinned: bool = False
    turn: int
    tokens: int
    reference_tokens: int
    counter: str
    calls: str | None = None
    """Ids of the message's tool calls, as JSON; None without any."""
    answers: str | None = None
    flush: int | None = None
    content: str
    at: float


class ContentRow(SQLModel, table=True):
    """A text, stored once per scope under its hash."""

    __tablename__ = "mi_content"
    scope: str = Field(primary_key=True)
    hash: str = Field(primary_key=True)
    data: str = Field(sa_column=Column(Text, nullable=False))


class EventRow(SQLModel, table=True):
    __tablename__ = "mi_event"
    id: int | None = Field(default=None, sa_column=Column(_BigKey, primary_key=True, autoincrement=True))
    session_id: str
    turn: int
    at: float
    actor: str = Field(sa_type=_Actor)
    kind: str
    block: str | None = None
    data: str = Field(sa_column=Column(Text, nullable=False))
    person: str | None = None
    """Person whose change recorded the event (`access.Person.label`); None without a sign-in or for a server's own."""


class DeliveryRow(SQLModel, table=True):
    """A span of messages due to one block."""

    __tablename__ = "mi_delivery"
    __table_args__ = _NEVER_REUSED
    id: int | None = Field(default=None, sa_column=Column(_BigKey, primary_key=True, autoincrement=True))
    session_id: str
    block: str
    trigger: str
    flush: int | None = None
    """Number of the flush that moved the messages; None: the messages from `first_seq` to `last_seq`."""
    first_seq: int
    last_seq: int
    messages: int
    tokens: int
    turn: int
    state: str = "pending"
    """`pending`, `done`, `parked` or `skipped`."""
    attempts: int = 0
    next_attempt_at: float = 0.0
    error: str | None = Field(default=None, sa_column=Column(Text))
    created_at: float
    done_at: float | None = None


class LeaseRow(SQLModel, table=True):
    """Lease on one block of one scope: its owner, and when it expires unless renewed."""

    __tablename__ = "mi_lease"
    key: str = Field(primary_key=True)
    owner: str
    until: float


class BlockRow(SQLModel, table=True):
    __tablename__ = "mi_block"
    session_id: str = Field(primary_key=True)
    name: str = Field(primary_key=True)
    position: int
    type: str
    """A built-in kind such as `static`, or the import path of a custom class."""
    settings: str = Field(sa_column=Column(Text, nullable=False))
    constructor: str = Field(sa_column=Column(Text, nullable=False))
    state: str | None = None
    """Hash of a custom block's fields in the content store."""
    revision: int = 0
    """Revision of the text of a static block or a summary."""
    text: str | None = None
    """Hash of the text of a static block or a summary."""


class BlockRevisionRow(SQLModel, table=True):
    """Version of the text of a static block or a summary."""

    __tablename__ = "mi_block_revision"
    session_id: str = Field(primary_key=True)
    block: str = Field(primary_key=True)
    revision: int = Field(primary_key=True)
    content: str
    actor: str = Field(sa_type=_Actor)
    turn: int
    at: float


class FactRow(SQLModel, table=True):
    __tablename__ = "mi_fact"
    __table_args__ = _NEVER_REUSED
    id: int | None = Field(default=None, sa_column=Column(_BigKey, primary_key=True, autoincrement=True))
    scope: str
    block: str
    content: str
    tokens: int
    category: str
    slot: str | None = None
    state: str = "active"
    pinned: bool = False
    origin: str = "extracted"
    turn: int
    created_at: float
    confirmed_at: float
    updated_at: float
    version: int = 1
    topics: str = Field(default="[]", sa_column=Column(Text, nullable=False, server_default="[]"))
    """Topics as JSON."""
    key: str | None = None
    """Hash of the caller's key."""
    metadata_: str | None = Field(default=None, sa_column=Column("metadata", String))  # SQLModel reserves the name
    """Hash of the caller's metadata, as JSON; None without any."""


class FactSourceRow(SQLModel, table=True):
    __tablename__ = "mi_fact_source"
    fact_id: int = Field(sa_column=Column(_BigKey, primary_key=True, autoincrement=False))
    session_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True)


class FactRevisionRow(SQLModel, table=True):
    __tablename__ = "mi_fact_revision"
    fact_id: int = Field(sa_column=Column(_BigKey, primary_key=True, autoincrement=False))
    version: int = Field(primary_key=True)
    content: str
    state: str
    pinned: bool
    actor: str = Field(sa_type=_Actor)
    reason: str | None = None
    turn: int
    at: float
    topics: str = Field(default="[]", sa_column=Column(Text, nullable=False, server_default="[]"))
    category: str | None = None
    """Category at that version; None in rows of schema version 1, where a fact's category could not change."""
    metadata_: str | None = Field(default=None, sa_column=Column("metadata", String))


class EntityRow(SQLModel, table=True):
    """A person or thing of a graph block."""

    __tablename__ = "mi_entity"
    __table_args__ = _NEVER_REUSED
    id: int | None = Field(default=None, sa_column=Column(_BigKey, primary_key=True, autoincrement=True))
    scope: str
    block: str
    name: str
    """Hash of the name."""
    aliases: str = Field(default="[]", sa_column=Column(Text, nullable=False))
    """Hashes of other names, as JSON."""
    type: str = "other"
    state: str = "active"
    """`active`, `merged` or `retired`."""
    merged_into: int | None = Field(default=None, sa_column=Column(_BigKey, nullable=True))
    origin: str = "extracted"
    turn: int
    created_at: float
    updated_at: float
    version: int = 1


class RelationRow(SQLModel, table=True):
    """A present or former relation between two entities."""

    __tablename__ = "mi_relation"
    __table_args__ = _NEVER_REUSED
    id: int | None = Field(default=None, sa_column=Column(_BigKey, primary_key=True, autoincrement=True))
    scope: str
    block: str
    subject: int = Field(sa_column=Column(_BigKey, nullable=False))
    predicate: str
    """Hash of the predicate."""
    object: int = Field(sa_column=Column(_BigKey, nullable=False))
    state: str = "active"
    """`active`, `ended` or `retired` (never true)."""
    origin: str = "extracted"
    turn: int
    """Turn since which the relation holds."""
    ended_turn: int | None = None
    ended_by: int | None = Field(default=None, sa_column=Column(_BigKey, nullable=True))
    """Id of the relation that ended this one by contradicting it; None if none did."""
    created_at: float
    confirmed_at: float
    updated_at: float
    version: int = 1


class RelationSourceRow(SQLModel, table=True):
    __tablename__ = "mi_relation_source"
    relation_id: int = Field(sa_column=Column(_BigKey, primary_key=True, autoincrement=False))
    session_id: str = Field(primary_key=True)
    seq: int = Field(primary_key=True)


class WordVectorRow(SQLModel, table=True):
    """Vector of a fact's text, stored so that each text is embedded once."""

    __tablename__ = "mi_word_vector"
    scope: str = Field(primary_key=True)
    hash: str = Field(primary_key=True)
    """Hash of the text in the content store; the row is erased together with the text."""
    embedder: str = Field(primary_key=True)
    embedding: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """float32, little-endian, unit length."""


class SpanRow(SQLModel, table=True):
    """Ids of a recorded span, to recognise it when it is sent again. Erased only with its session."""

    __tablename__ = "mi_span"
    trace: str = Field(primary_key=True)
    """Trace id, as hex digits."""
    span: str = Field(primary_key=True)
    session_id: str = Field(index=True)


class CollectionRow(SQLModel, table=True):
    """Count of a collection's removed vectors, by which an index notices removals."""

    __tablename__ = "mi_collection"
    name: str = Field(primary_key=True)
    deleted: int = 0


class VectorRow(SQLModel, table=True):
    """A stored turn: its messages, and the vector of their text."""

    __tablename__ = "mi_vector"
    __table_args__ = _NEVER_REUSED
    id: int | None = Field(default=None, sa_column=Column(_BigKey, primary_key=True, autoincrement=True))
    collection: str
    session_id: str
    block: str
    embedder: str
    seqs: str
    """Sequence ranges of the turn's messages, as JSON."""
    first_seq: int
    tokens: int
    embedding: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    """float32, little-endian, unit length."""
    turn: int
    created_at: float
    heard: str | None = Field(default=None, sa_column=Column(Text))
    """Search metadata of the messages (`blocks.units.UnitMetadata`) as JSON, so that a new process need
    not read all messages; None: not stored."""


class ModelOutputRow(SQLModel, table=True):
    """A model's answer while a session learned or was played in the Lab; erased with any text of the session."""

    __tablename__ = "mi_model_output"
    session_id: str = Field(primary_key=True)
    key: str = Field(primary_key=True)
    """Hash of the model's name and of its input."""
    at: float
    data: str = Field(sa_column=Column(Text, nullable=False))
    """Answer and cost of the call (`store.delivery_rows.StoredOutput`), as JSON."""


def _table(row: type[SQLModel]) -> Table:
    table: Table = row.__table__  # type: ignore[attr-defined]
    return table


session_table = _table(SessionRow)
baseline_table = _table(BaselineRow)
message_table = _table(MessageRow)
content_table = _table(ContentRow)
event_table = _table(EventRow)
delivery_table = _table(DeliveryRow)
lease_table = _table(LeaseRow)
block_table = _table(BlockRow)
block_revision_table = _table(BlockRevisionRow)
fact_table = _table(FactRow)
fact_source_table = _table(FactSourceRow)
fact_revision_table = _table(FactRevisionRow)
entity_table = _table(EntityRow)
relation_table = _table(RelationRow)
relation_source_table = _table(RelationSourceRow)
word_vector_table = _table(WordVectorRow)
collection_table = _table(CollectionRow)
span_table = _table(SpanRow)
vector_table = _table(VectorRow)
model_output_table = _table(ModelOutputRow)
schema_table = _table(SchemaRow)
tenant_table = _table(TenantRow)
token_table = _table(TokenRow)


def _refers(table: Table, columns: list[str], to: Table, keys: list[str]) -> None:
    """Declare a foreign key. Checked at commit, so the order of statements within a transaction is free."""
    names = [f"{to.name}.{key}" for key in keys]
    table.append_constraint(ForeignKeyConstraint(columns, names, deferrable=True, initially="DEFERRED"))


_of_sessions = (message_table, event_table, delivery_table, block_table, vector_table)
for _of_session in (*_of_sessions, baseline_table, model_output_table, span_table):
    _refers(_of_session, ["session_id"], session_table, ["id"])
_refers(block_revision_table, ["session_id", "block"], block_table, ["session_id", "name"])
_refers(fact_source_table, ["fact_id"], fact_table, ["id"])
_refers(fact_revision_table, ["fact_id"], fact_table, ["id"])
_refers(relation_table, ["subject"], entity_table, ["id"])
_refers(relation_table, ["object"], entity_table, ["id"])
_refers(relation_source_table, ["relation_id"], relation_table, ["id"])

# Planning a flush reads the queue from its oldest message on.
Index("mi_message_status", message_table.c.session_id, message_table.c.status, message_table.c.seq)
# Unique, which also keeps two processes from storing one id twice.
Index("mi_message_id", message_table.c.session_id, message_table.c.id, unique=True)
_flushed = message_table.c.flush.is_not(None)  # flushed messages only: a put does not write to this index
_message_flush = Index("mi_message_flush", message_table.c.session_id, message_table.c.flush, sqlite_where=_flushed)
# The whole log of a session in order, and one kind of its events from either end.
Index("mi_event_session", event_table.c.session_id, event_table.c.id)
Index("mi_event_kind", event_table.c.session_id, event_table.c.kind, event_table.c.id)
Index("mi_delivery_due", delivery_table.c.session_id, delivery_table.c.state, delivery_table.c.block)
Index("mi_fact_scope", fact_table.c.scope, fact_table.c.block, fact_table.c.state)
Index("mi_entity_scope", entity_table.c.scope, entity_table.c.block, entity_table.c.state)
Index("mi_relation_scope", relation_table.c.scope, relation_table.c.block, relation_table.c.state)
Index("mi_relation_subject", relation_table.c.subject)
Index("mi_relation_object", relation_table.c.object)
# A vector index copies what it lacks: ids above its last.
Index("mi_vector_collection", vector_table.c.collection, vector_table.c.id)
Index("mi_vector_session", vector_table.c.session_id, vector_table.c.first_seq)
_vectors_of_a_block = Index("mi_vector_block", vector_table.c.session_id, vector_table.c.block, vector_table.c.id)

TABLES = [table for name, table in SQLModel.metadata.tables.items() if name.startswith("mi_")]
"""Tables of this package: a program may have tables of its own in the same metadata."""

NEW_COLUMNS = {
    2: (fact_table.c.topics, fact_revision_table.c.topics, fact_revision_table.c.category),
    4: (vector_table.c.heard,),
    5: (session_table.c.watched,),
    6: (session_table.c.probes,),
    7: (fact_table.c.key, fact_table.c.metadata, fact_revision_table.c.metadata, session_table.c.opened_from),
}
"""Columns added by each schema version to existing tables, before Alembic."""

SINCE_3 = (_vectors_of_a_block,)
"""Indexes that version 3 added to existing tables."""


def prepare_for_postgresql() -> None:
    """Adapt the tables to PostgreSQL. Done on demand, as loading the dialect takes 30 ms."""
    _message_flush.dialect_options["postgresql"]["where"] = _flushed
