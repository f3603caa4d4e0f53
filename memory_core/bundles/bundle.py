"""A session as a single file that can be opened here or in another database.

A bundle is a zip of JSONL members for the session, its blocks with all their texts, messages, facts with their history,
entities and relations, stored turns with vectors, deliveries, texts and the log, plus `manifest.json`: format, version,
and checksum and number of lines of every member. API keys, paths and database addresses are left out, and blanked where
logged errors quote them.

Facts of the user, not the session, are included if this session learned or showed them, or would show them next. An
import adds those that the user lacks and leaves existing ones, in any state, unchanged.
"""

import json
import re
import time
import uuid
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field, ValidationError

from memory_core.access import needs
from memory_core.blocks.units import parse_unit
from memory_core.bundles.archive import MAX_LINES, Packing, check_complete, unpacking
from memory_core.bundles.bundle_checks import RowChecks, WrongRowError, WrongRowsError, first_problem
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError, FormatError, StoreError, problem
from memory_core.events import Ranges, SessionImported, expand
from memory_core.limits import MAX_VALUES, Budget, check_size
from memory_core.process import collector_paused
from memory_core.sessions.branch import rows_at
from memory_core.store.copying.copies import (
    BlockCopy,
    DeliveryCopy,
    EntityCopy,
    EventCopy,
    FactCopy,
    MessageCopy,
    RelationCopy,
    Rows,
    SessionCopy,
    Stream,
    VectorCopy,
    WordsCopy,
    event_copy,
    moved,
    streamed,
)
from memory_core.store.copying.session_copying import insert_rows, read_rows, store_session
from memory_core.store.copying.staging import NotUniqueError, Staging
from memory_core.store.database import Database
from memory_core.store.log_rows import read_events
from memory_core.store.writing import OnePiece, PieceWriter, Step, read_existing, read_session

FORMAT = "memory-inspector-session"
VERSION = 2

LINES_AT_ONCE, BYTES_AT_ONCE = 500, 16 * 1024 * 1024
"""Maximum lines and bytes read from a bundle before they are staged, which bounds memory use."""

MAX_BYTES = 500 * 1024 * 1024
"""Maximum bytes of a bundle, equal to the limit of the app's file picker. A session of 100,000 messages has 30 MB."""

_MANIFEST = "manifest.json"
_MEMBERS: dict[str, tuple[str, type[BaseModel]]] = {
    # In the order of checking: the session first, the log last, so that what it names is known by then.
    "session": ("the session", SessionCopy),
    "blocks": ("the blocks", BlockCopy),
    "messages": ("the messages", MessageCopy),
    "facts": ("the facts", FactCopy),
    "entities": ("the entities", EntityCopy),
    "relations": ("the relations", RelationCopy),
    "vectors": ("the stored turns", VectorCopy),
    "deliveries": ("the deliveries", DeliveryCopy),
    "words": ("the words", WordsCopy),
    "events": ("the events", EventCopy),
}
"""Description and row model of each member, by field of `Rows`."""
_SINCE_2 = ("entities.jsonl", "relations.jsonl")
"""Members missing from version 1 bundles."""
_LABELS = {_MANIFEST: "the manifest"} | {f"{name}.jsonl": label for name, (label, _) in _MEMBERS.items()}

_QUOTING = ("error", "degraded", "index")
"""Event fields that may quote errors and service names."""
_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://[^\s\"']*", re.IGNORECASE)
_PATH = re.compile(r"(?<![\w.)/\\])(?:[a-z]:[\\/]|[\\/~])[^\s\"'/\\]+[/\\][^\s\"']*", re.IGNORECASE)


class Keep(Enum):
    """Marker for `user_id`: import for the user named in the bundle."""

    KEEP = "keep"


KEEP: Final = Keep.KEEP


class _Member(BaseModel, strict=True):
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    lines: Annotated[int, Field(ge=0)]


class _Manifest(BaseModel, strict=True):
    format: Literal["memory-inspector-session"]
    version: Annotated[int, Field(ge=1)]
    members: dict[str, _Member]


@dataclass(frozen=True, slots=True)
class Bundle:
    """A validated bundle, before its import."""

    name: str
    """File name."""
    title: str
    user_id: str | None
    created_at: float
    """Seconds since the epoch."""
    turns: int
    messages: int
    """Number of messages in queue and archive."""
    queue_tokens: int
    tokens: int
    """Total tokens of all messages."""
    facts: int
    """Number of the session's own facts, in every state."""
    user_facts: int
    """Number of the user's facts that the session learned or showed."""
    stored_turns: int
    entities: int
    """Number of entities in the session's graphs, in every state."""
    relations: int
    events: int
    blocks: tuple[BlockCopy, ...]
    token_limit: int
    lines: int
    """Number of rows of all kinds; the histories of facts and texts are not counted."""
    warnings: tuple[str, ...]
    """Warnings to show before the import, as whole sentences."""
    staged: Staging = field(repr=False)

    @property
    def rows(self) -> Rows:
        """Read the rows lazily, in one thread at a time; see `Staging.lock`."""
        return self.staged.rows()


@collector_paused()
def write_bundle(database: Database, session_id: str, *, upto: int | None = None) -> bytes:
    """Serialise a session, now or as of log position `upto`, to a bundle.

    Equal sessions give equal bytes. Rows are streamed in one read transaction.

    Raises:
        NotFoundError: The session does not exist.
        FormatError: The bundle is too large.
    """
    with closing(Packing()) as packing, database.read() as connection:
        rows = read_rows(connection, read_existing(connection, session_id))
        if upto is not None:
            rows = rows_at(rows, read_events(connection, session_id), upto).rows
        # Before anything is written: the manifest holds checksums of the blanked rows.
        rows = _without_places(rows)
        members: dict[str, dict[str, Any]] = {}
        for name in _MEMBERS:
            copies = [rows.session] if name == "session" else getattr(rows, name)
            digest, number = packing.add(f"{name}.jsonl", (copy.model_dump_json().encode() + b"\n" for copy in copies))
            members[f"{name}.jsonl"] = {"sha256": digest, "lines": number}
        manifest = {"format": FORMAT, "version": VERSION, "members": members}
        packing.add(_MANIFEST, [json.dumps(manifest, indent=1).encode()])
    data = packing.packed()
    # The limits of reading, checked at export: a bundle that cannot be opened again is no backup.
    if len(data) > MAX_BYTES or sum(member["lines"] for member in members.values()) > MAX_LINES:
        raise FormatError(
            f"The session is too large for a bundle: it would have {len(data) // 1_000_000:,} MB, and could not be "
            f"opened again. The most is {MAX_BYTES // (1024 * 1024)} MB."
        )
    return data


@collector_paused()
def read_bundle(data: bytes, name: str) -> Bundle:
    """Validate a bundle line by line. Nothing is stored.

    Raises:
        FormatError: The file is not a complete, valid bundle; the message is one sentence.
    """
    check_size(len(data), MAX_BYTES)
    staged = Staging()
    checks = RowChecks(staged)
    lines = dict.fromkeys(_MEMBERS, 0)
    # The version is in the manifest, so members that depend on it are optional until that is read.
    with unpacking(data, _LABELS, filename=name, optional=_SINCE_2) as archive:
        manifest = _manifest(b"".join(archive.lines(_MANIFEST)), name)
        # A bundle of version 1 has no graph, so members of these names in one are not read.
        left_out = _SINCE_2 if manifest.version == 1 else ()
        check_complete([m for m in _LABELS if m in archive or m in left_out], _LABELS, filename=name)
        for field_name, (label, model) in _MEMBERS.items():
            member = f"{field_name}.jsonl"
            if member in left_out:
                continue
            expected, wrong, unread = manifest.members.get(member), None, archive.lines(member)
            try:
                lines[field_name] = _stage(unread, model, member, staged, checks, name)
            except WrongRowsError as error:
                wrong = error
                archive.by_line = False
                deque(unread, maxlen=0)  # reads the rest, to verify checksums
            # The checksum before the wrong row: a damaged file is called damaged, whatever row the damage hit.
            if expected is None or expected.sha256 != archive.digests[member]:
                raise problem(name, f"is damaged: {label} were changed since it was written.")
            if wrong is None and field_name == "session" and lines["session"] != 1:
                raise problem(name, f"holds {lines['session']} sessions. A bundle has one.")
            if wrong is not None:
                raise problem(name, f"cannot be opened: {wrong}.") from wrong
    try:
        checks.finish()
    except WrongRowsError as error:
        raise problem(name, f"cannot be opened: {error}.") from error
    return _previewed(name, staged, checks, lines)


def _stage(
    unread: Iterator[bytes], model: type[BaseModel], member: str, staged: Staging, checks: RowChecks, filename: str
) -> int:
    """Validate a member's lines and stage them in batches; return their number.

    Raises:
        WrongRowsError: A row is invalid.
        LimitError: A row holds too many values.
    """
    number, copies, size = 0, list[BaseModel](), 0

    def stage() -> None:
        try:
            staged.add(copies)
        except NotUniqueError as error:
            what = f"{error.columns}: another line says the same"
            # The batch ends at line `number`, and the error counts within the batch.
            place = number - len(copies) + error.number + 1
            raise WrongRowsError(f"line {place} of {member} is wrong ({what})") from error
        copies.clear()

    for number, line in enumerate(unread, 1):
        # Counted before parsing: one line of many empty objects would fill memory. A shorter one cannot hold so many.
        if len(line) > MAX_VALUES:
            Budget(filename).take_json(line)
        try:
            copies.append(model.model_validate_json(line))
            checks.check(copies[-1])
        except (ValidationError, WrongRowError) as error:
            what = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise WrongRowsError(f"line {number} of {member} is wrong ({what})") from error
        size += len(line)
        # Bounded by bytes too: one row may be as large as a whole batch of others.
        if len(copies) == LINES_AT_ONCE or size > BYTES_AT_ONCE:
            stage()
            size = 0
    stage()
    return number


@needs("owner")
def import_bundle(
    database: Database,
    bundle: Bundle,
    *,
    title: str | None = None,
    user_id: str | Keep | None = KEEP,
    user_facts: bool = True,
    now: float | None = None,
    step: Step | None = None,
) -> str:
    """Store a bundle as a new session; return its id. All or nothing, but other writers are not blocked.

    With `user_facts`, user-scoped facts that the user lacks are added, otherwise skipped. `step` receives the number of
    rows stored; an exception from it aborts and rolls back the import.

    Raises:
        ConfigError: A block belongs to the user, but there is no user.
        AccessError: The acting person is no owner.
        StoreError: The database cannot be reached.
    """
    user = bundle.user_id if isinstance(user_id, Keep) else user_id
    # Staged rows are read lazily below, and their connection serves one thread at a time.
    with bundle.staged.lock:
        rows = bundle.rows
        for block in bundle.blocks:
            if block.settings.get("scope") == "user" and user is None:
                raise ConfigError(f'The block "{block.name}" belongs to the user: choose whose session this is to be.')
        # A new id each time: the same bundle may be imported twice, or beside the session it was written from.
        session_id, at = str(uuid.uuid4()), time.time() if now is None else now
        imported = SessionImported(source=bundle.name, messages=bundle.messages, skipped=0)
        copy = event_copy(imported, bundle.turns, at, "user")
        pieces = PieceWriter(database, step)
        store_session(
            pieces,
            replace(rows, events=streamed(rows.events).followed_by([copy])),
            session_id,
            title=bundle.title if title is None else title,
            user_id=user,
            now=at,
            user_facts=user_facts,
            # Metadata of stored turns is not taken from a bundle, which may claim anything, but built from the
            # messages.
            heard=lambda some: _heard(bundle.staged, some, pieces),
        )
    return session_id


def _heard(staged: Staging, turns: Mapping[int, Ranges], pieces: PieceWriter) -> dict[int, str]:
    """Return the JSON of stored units by number, built from their messages."""
    pieces.count(0)  # a chance for `step` to abort
    seqs = {number: expand(spans) for number, spans in turns.items()}
    messages = staged.messages({seq for several in seqs.values() for seq in several})
    sources = {number: [messages[seq] for seq in several if seq in messages] for number, several in seqs.items()}
    return {number: parse_unit(parts).to_json() for number, parts in sources.items() if parts}


def restore_bundle(database: Database, bundle: Bundle, session_id: str, *, now: float | None = None) -> bool:
    """Store a bundle under a given id, dated now; return whether it was stored.

    Nothing is stored if the id is or was in use. The log does not mention the bundle, so a session shipped with an app
    looks native. All or nothing, in one transaction.

    Raises:
        StoreError: The database cannot be reached.
    """
    at = time.time() if now is None else now
    try:
        with bundle.staged.lock, database.write() as connection:
            # True for a deleted session too, so that a demo that somebody deleted does not come back.
            if read_session(connection, session_id) is not None:
                return False
            rows = bundle.rows
            # Shifted so that the newest event happens now; the distances between times stay.
            rows = moved(rows, at - max((event.at for event in rows.events), default=at))
            title, user_id = bundle.title, bundle.user_id
            whole = OnePiece(database, connection)
            insert_rows(whole, rows, session_id, title=title, user_id=user_id, now=at)
    except StoreError:
        with database.read() as connection:
            if read_session(connection, session_id) is None:
                raise
        return False  # another process stored it first
    return True


def _previewed(name: str, staged: Staging, checks: RowChecks, lines: Mapping[str, int]) -> Bundle:
    rows, totals = staged.rows(), staged.session()
    session = rows.session
    config = MemoryConfig(**session.config)
    warnings = []
    if unknown := checks.unknown_events:
        are = "1 event is" if unknown == 1 else f"{unknown:,} events are"
        warnings.append(f"{are} of a newer version and shown without details.")
    return Bundle(
        name=name,
        title=session.title,
        user_id=session.user_id,
        created_at=session.created_at,
        turns=session.turns,
        messages=lines["messages"],
        queue_tokens=totals.queue(config.accounting).tokens,
        tokens=staged.tokens(),
        facts=lines["facts"] - checks.user_facts,
        user_facts=checks.user_facts,
        stored_turns=lines["vectors"],
        entities=lines["entities"],
        relations=lines["relations"],
        events=lines["events"],
        blocks=rows.blocks,
        token_limit=config.limit,
        lines=sum(lines.values()),
        warnings=tuple(warnings),
        staged=staged,
    )


# -- members -------------------------------------------------------------------------------------


def _manifest(data: bytes, filename: str) -> _Manifest:
    Budget(filename).take_json(data)
    try:
        parsed: Any = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise problem(filename, "is not a conversation: its manifest cannot be read.") from error
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        raise problem(filename, "is not a conversation: it is a zip archive, but not a bundle of Memory Inspector.")
    version = parsed.get("version")
    if isinstance(version, int) and version > VERSION:
        # A hostile number may have hundreds of digits, which would fill the sentence.
        shown = version if version < 10_000 else "from far ahead"
        raise problem(
            filename,
            f"was written by a newer Memory Inspector (bundle version {shown}; this one reads up to {VERSION}). "
            "Update Memory Inspector.",
        )
    try:
        return _Manifest.model_validate_json(data)
    except ValidationError as error:
        raise problem(filename, f"cannot be opened: its manifest is wrong ({first_problem(error)}).") from error


# -- anonymising -----------------------------------------------------------------------------------


def _without_places(rows: Rows) -> Rows:
    """Blank the addresses and paths that errors and service names quote."""

    def events() -> Iterator[EventCopy]:
        return (event.model_copy(update={"data": _blanked(event)}) for event in rows.events)

    def deliveries() -> Iterator[DeliveryCopy]:
        for delivery in rows.deliveries:
            error = blank_places(delivery.error) if delivery.error else delivery.error
            yield delivery.model_copy(update={"error": error})

    return replace(rows, events=Stream(events), deliveries=Stream(deliveries))


def _blanked(event: EventCopy) -> dict[str, Any]:
    # Only an import names a file in `source`: in other events it is an id or a fixed word.
    quoting = (*_QUOTING, "source") if event.kind == "session_imported" else _QUOTING
    return {
        name: blank_places(value) if name in quoting and isinstance(value, str) else value
        for name, value in event.data.items()
    }


def blank_places(text: str) -> str:
    """Blank addresses and paths in a sentence.

    >>> blank_places("The database at sqlite:////data/m.db is away. Chroma in /data/chroma")
    'The database at (address) is away. Chroma in (path)'
    """
    # Addresses first, as an address ends in something that looks like a path.
    return _PATH.sub("(path)", _ADDRESS.sub("(address)", text))
