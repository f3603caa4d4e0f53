"""Invariants of a stored session, checked by reading it: totals, deliveries, the limit, and the log against tables."""

from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.history.rebuild import SessionSnapshot, rebuild
from memory_core.memory import Memory
from memory_core.planning.graph_rules import Graph
from memory_core.sessions.overview import list_sessions
from memory_core.store.log_rows import read_events
from memory_core.store.tables import content_table
from memory_core.store.writing import read_existing

REARRANGING = ("block_edited", "block_removed", "recipe_chosen", "session_reset", "session_imported")
"""Kinds of events after which a block may rightly not have learned from everything that left the queue."""


def check_session(memory: Memory) -> SessionSnapshot:
    """Assert that a session is whole, and return it as rebuilt from its log.

    Totals equal the sums over the messages; no message was passed to a block twice, and each that left the queue was or
    is due to every block that learns from flushes; the context is within its limit; the log replays to the tables.
    """
    snapshot = rebuilt(memory)
    _check_totals(memory)
    _check_log(memory, snapshot)
    _check_deliveries(memory, snapshot)
    plan = memory.build_context(record=False).plan
    assert plan.total <= plan.token_limit + plan.over_by, f"The context has {plan.total} of {plan.token_limit} tokens."
    return snapshot


def rebuilt(memory: Memory) -> SessionSnapshot:
    """Return the session as rebuilt from its log and the content store, with the facts of its user's sessions."""
    database, user_id = memory.session.database, memory.session.user_id
    ids = {memory.session_id} | {s.session_id for s in list_sessions(database, user_id=user_id) if user_id is not None}
    with database.read() as connection:
        events = [record for id in sorted(ids) for record in read_events(connection, id)]
        words = {key: data for _, key, data in connection.execute(content_table.select())}
    return rebuild(events, words.get, session_id=memory.session_id)


def _check_totals(memory: Memory) -> None:
    with memory.session.database.read() as connection:
        state = read_existing(connection, memory.session_id)
    rows = memory.session.messages()
    queue = [row for row in rows if row.status == "active" and not row.pinned]
    totals = (state.queue_messages, state.queue_content, state.queue_reference, state.archived_messages)
    counted = (
        len(queue),
        sum(row.tokens.content for row in queue),
        sum(row.tokens.reference for row in queue),
        sum(row.status == "archived" for row in rows),
    )
    assert totals == counted, f"The totals are {totals}, and the messages sum up to {counted}."


def _check_log(memory: Memory, snapshot: SessionSnapshot) -> None:
    for status, logged in (("active", snapshot.queue), ("archived", snapshot.archived)):
        stored = [(row.seq, row.message) for row in memory.session.messages(status)]
        assert stored == [(row.seq, row.message) for row in logged], f"The log has other {status} messages."
    for attached in memory.blocks:
        name = attached.name
        if isinstance(attached.block, FactExtractionMemoryBlock):
            tables, log = (
                sorted((f.id, f.text, f.state, f.pinned, tuple(sorted(f.sources))) for f in facts if f.block == name)
                for facts in (memory.facts.read(name, states=None), snapshot.facts)
            )
            assert tables == log, f"The log has other facts of {name!r} than the tables: {log}, not {tables}."
        if isinstance(attached.block, GraphMemoryBlock):
            graph = memory.blocks.graph(name).graph()
            assert graph == snapshot.graphs.get(name, Graph({}, {})), f"The log has another graph of {name!r}."


def _check_deliveries(memory: Memory, snapshot: SessionSnapshot) -> None:
    states = {delivery.id: delivery.state for delivery in memory.session.deliveries()}
    received: dict[str, set[int]] = {}
    for seq, outcome in snapshot.outcomes.items():
        for handed in outcome.handed:
            state = states.get(handed.delivery, handed.state)
            assert state == handed.state, f"Delivery {handed.delivery} is {state}, and {handed.state} by the log."
            if state != "skipped":
                seqs = received.setdefault(handed.block, set())
                assert seq not in seqs, f"Message {seq} was passed to {handed.block!r} twice."
                seqs.add(seq)
    if memory.events(kinds=REARRANGING, limit=1):
        return
    flushed = {seq for seq, outcome in snapshot.outcomes.items() if outcome.flush and outcome.place == "archived"}
    for attached in memory.blocks:
        if attached.learns and attached.deliver_on == "flush" and attached.name in received:
            first = min(received[attached.name])
            missed = {seq for seq in flushed if seq >= first} - received[attached.name]
            assert not missed, f"Messages {sorted(missed)} left the queue and are not due to {attached.name!r}."
