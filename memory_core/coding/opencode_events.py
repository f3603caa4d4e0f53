"""Read what was taken back in OpenCode: messages that wait to be deleted, and deleted ones from its log of events."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from memory_core.coding.transcript import as_mapping, as_text
from memory_core.interop.stores.sqlite_file import decoded, tables_with

Row = Mapping[str, Any]

_EVENTS = "SELECT type, data FROM event WHERE aggregate_id = ? AND type GLOB ? ORDER BY seq"


def with_taken_back(connection: sqlite3.Connection, session: str, messages: Sequence[Row]) -> Iterator[Row]:
    """Yield the messages with the deleted ones among them, each run of these followed by `{"back_before": ID}`."""
    logs = "event" in tables_with(connection, ("aggregate_id", "seq", "type", "data"))
    deletes = logs and connection.execute(_EVENTS, (session, "message.removed*")).fetchone()
    yield from _replayed(connection, session, messages) if deletes else messages
    if "session" in tables_with(connection, ("revert",)):
        for (text,) in connection.execute("SELECT revert FROM session WHERE id = ?", (session,)):
            if id := as_text(as_mapping(decoded(text)).get("messageID")):
                yield {"back_before": id}


def _replayed(connection: sqlite3.Connection, session: str, messages: Sequence[Row]) -> Iterator[Row]:
    kept = {as_text(row["id"]): row for row in messages}
    infos: dict[str, Row] = {}  # by the id of a message, in the order in which they were begun
    parts: dict[str, dict[str, Row]] = {}
    order: list[tuple[bool, str]] = []
    for kind, text in connection.execute(_EVENTS, (session, "message.*")):
        data = as_mapping(decoded(text))
        info, part = as_mapping(data.get("info")), as_mapping(data.get("part"))
        id = as_text(info.get("id")) or as_text(part.get("messageID")) or as_text(data.get("messageID"))
        is_removed = str(kind).startswith("message.removed")
        if is_removed or id not in infos:
            order.append((is_removed, id))
        infos[id] = info or infos.get(id, {})
        if part and id not in kept:
            parts.setdefault(id, {})[as_text(part.get("id"))] = part
    removed, places = {id for gone, id in order if gone}, list(infos)
    yield from (row for id, row in kept.items() if id not in infos)  # from before the log began
    for gone, run in groupby(order, key=lambda entry: entry[0]):
        ids = [id for _, id in run]
        if gone:
            yield {"back_before": min(ids, key=places.index)}
            continue
        for id in ids:
            if id in kept:
                yield kept[id]
            elif id in removed:
                yield {"id": id, "info": infos[id], "parts": [part for _, part in sorted(parts.get(id, {}).items())]}
