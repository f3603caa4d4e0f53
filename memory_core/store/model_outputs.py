"""Model outputs by a hash of the input, so that a play in the Lab need not pay for them again.

Outputs are derived from a session's messages and its user's facts, and only cached: any erasure deletes all of them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete, insert, select

from memory_core.store.database import chunks
from memory_core.store.tables import model_output_table, session_table

MAX_KEPT = 2_000
"""Maximum outputs kept for one session, the latest: some years of conversation, or a hundred plays."""

MAX_CHARACTERS = 100_000
"""Maximum characters of a stored output: a longer one is no fact, summary or relation."""

_o = model_output_table.c


@dataclass(frozen=True, slots=True)
class StoredOutput:
    """A model's answer with the cost of its call; None for values that the endpoint did not report."""

    key: str
    text: str
    readable: bool
    """True if the answer could be read; if not, `text` says why."""
    purpose: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    seconds: float
    cost: float | None


def read_output(connection: Connection, session_id: str, key: str) -> StoredOutput | None:
    """Return the last answer to an input; None if none was kept."""
    query = select(_o.data).where(_o.session_id == session_id, _o.key == key)
    data = connection.execute(query).scalar()
    return StoredOutput(key, **json.loads(data)) if data is not None else None


def keep_outputs(connection: Connection, session_id: str, outputs: Sequence[StoredOutput], *, now: float) -> None:
    """Store answers; a new answer to an input replaces the earlier one. Delete the oldest answers beyond `MAX_KEPT`."""
    short_outputs = {output.key: output for output in outputs if len(output.text) <= MAX_CHARACTERS}
    if not short_outputs:
        return
    of_session = _o.session_id == session_id
    # Deleted first, as an answer to the same input is replaced by the newer one.
    connection.execute(delete(model_output_table).where(of_session, _o.key.in_(sorted(short_outputs))))
    rows = []
    for key, output in short_outputs.items():
        values = asdict(output)
        del values["key"]
        rows.append({"session_id": session_id, "key": key, "at": now, "data": json.dumps(values)})
    connection.execute(insert(model_output_table), rows)
    # The key orders outputs of one call, which have the same time.
    beyond = select(_o.key).where(of_session).order_by(_o.at.desc(), _o.key).offset(MAX_KEPT)
    for chunk in chunks(list(connection.execute(beyond).scalars())):
        connection.execute(delete(model_output_table).where(of_session, _o.key.in_(chunk)))


def forget_outputs(connection: Connection, scope: str) -> None:
    """Delete the outputs of a session, or of all sessions of a user: a user's facts may be in each of them."""
    kind, _, id = scope.partition(":")
    sessions = select(session_table.c.id).where(session_table.c.user_id == id)
    where = _o.session_id == id if kind == "session" else _o.session_id.in_(sessions)
    connection.execute(delete(model_output_table).where(where))
