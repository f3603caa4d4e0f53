"""Ways through a knowledge graph, found by the database: one recursive query on SQLite and PostgreSQL alike."""

from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Connection,
    Text,
    and_,
    bindparam,
    case,
    cast,
    func,
    literal,
    or_,
    select,
)

from memory_core.planning.graph import Path, Step
from memory_core.store.tables import relation_table

_r = relation_table.c


def find_paths(connection: Connection, start: int, end: int, *, hops: int, most: int) -> list[Path]:
    """Ways over active relations between two entities, walked in either direction, shortest first.

    No entity is visited twice. Only steps from which the end can still be reached in time are taken,
    and longer ways are looked for only where there are fewer than `most` shorter ones.
    """
    if start == end:
        return []
    given = {"start": start, "end": end}
    shortest = connection.execute(_DISTANCE, {**given, "hops": hops}).scalar()
    found: list[Path] = []
    for length in range(hops + 1 if shortest is None else int(shortest), hops + 1):
        rows = connection.execute(_PATHS, {**given, "hops": length, "most": most - len(found)}).scalars()
        paths = [Path(start, tuple(_step(text) for text in steps.split())) for steps in rows]
        found += sorted(paths, key=lambda path: [step.relation for step in path.steps])
        if len(found) == most:
            break
    return found


def _step(text: str) -> Step:
    """`-12` is relation 12 against its direction."""
    return Step(abs(int(text)), forward=not text.startswith("-"))


def _joins(node: ColumnElement[Any]) -> ColumnElement[bool]:
    """Active relations that touch an entity.

    Those of a block touch entities of that block only. To ask for scope and block as well misleads
    SQLite into reading all of the block's relations at every step.
    """
    return and_(or_(_r.subject == node, _r.object == node), _r.state == "active")


def _other(node: ColumnElement[Any]) -> ColumnElement[int]:
    """The other end of a relation that touches an entity."""
    return case((_r.subject == node, _r.object), else_=_r.subject)


def _near() -> CTE:
    """Every entity from which the end is reached within `hops`, with its distance."""
    end = cast(bindparam("end"), BigInteger)
    near = select(end.label("node"), literal(0, BigInteger).label("depth")).cte("near", recursive=True)
    further = select(_other(near.c.node), near.c.depth + 1).where(
        _joins(near.c.node), near.c.depth < bindparam("hops", type_=BigInteger)
    )
    near = near.union(further)
    return select(near.c.node, func.min(near.c.depth).label("depth")).group_by(near.c.node).cte("away")


def _paths() -> Any:
    away = _near()
    start = cast(bindparam("start"), BigInteger)
    walk = select(
        start.label("node"),
        literal(0, BigInteger).label("depth"),
        (literal(",") + cast(start, Text) + literal(",")).label("visited"),
        cast(literal(""), Text).label("steps"),
    ).cte("walk", recursive=True)
    there = _other(walk.c.node)
    sign = case((_r.subject == walk.c.node, literal(" ")), else_=literal(" -"))
    visited = walk.c.visited.contains(literal(",") + cast(there, Text) + literal(","))
    further = (
        select(
            there,
            walk.c.depth + 1,
            walk.c.visited + cast(there, Text) + literal(","),
            walk.c.steps + sign + cast(_r.id, Text),
        )
        .select_from(walk)
        .join(relation_table, _joins(walk.c.node))
        .join(away, away.c.node == there)
        .where(
            walk.c.node != bindparam("end", type_=BigInteger),
            walk.c.depth + 1 + away.c.depth <= bindparam("hops", type_=BigInteger),
            ~visited,
        )
    )
    walk = walk.union_all(further)
    arrived = (walk.c.node == bindparam("end", type_=BigInteger)) & (
        walk.c.depth == bindparam("hops", type_=BigInteger)
    )
    # Without an order: both databases then walk no further than is asked for.
    return select(walk.c.steps).where(arrived).limit(bindparam("most", type_=BigInteger))


def _distance() -> Any:
    away = _near()
    return select(away.c.depth).where(away.c.node == bindparam("start", type_=BigInteger))


_DISTANCE = _distance()
_PATHS = _paths()
