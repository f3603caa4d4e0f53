"""Rows of a session in a form that is the same wherever the session is: what a database counted is counted from 1."""

import json
from dataclasses import fields, replace

from memory_core.store.copying.copies import referred, renumbered
from memory_core.store.copying.session_copying import read_rows
from memory_core.store.writing import read_session


def rows_of(memory):
    with memory.session.database.read() as connection:
        return as_tuples(read_rows(connection, read_session(connection, memory.session_id)))


def as_tuples(rows):
    """Rows that compare equal if all they hold is equal."""
    return replace(rows, **{field.name: tuple(getattr(rows, field.name)) for field in fields(rows)[2:]})


def plain(rows, *, events=None):
    """Everything a session holds as plain values; `events` leaves out those of other kinds at the end of the log."""
    log = list(rows.events)
    while events is not None and log and log[-1].kind in events:
        log.pop()
    numbers = {"facts": {f.id for f in rows.facts}, "vectors": {v.id for v in rows.vectors}}
    numbers["deliveries"] = {delivery.id for delivery in rows.deliveries}
    numbers["entities"] = {entity.id for entity in rows.entities}
    numbers["relations"] = {relation.id for relation in rows.relations}
    for event in log:
        for thing, number in referred(event.kind, event.data):
            numbers[thing].add(number)
    order = {thing: {number: place for place, number in enumerate(sorted(of), 1)} for thing, of in numbers.items()}

    def to(thing, number):
        return order[thing][number]

    def of(thing, row, **named):
        values = row.model_dump()
        named = {name: values[name] and to(other, values[name]) for name, other in named.items()}
        return {**values, "id": to(thing, row.id), **named}

    session = rows.session.model_dump(exclude={"title", "created_at", "updated_at"})
    blocks = [block.model_dump() for block in sorted(rows.blocks, key=lambda block: (block.position, block.name))]
    for place, block in enumerate(blocks):
        block["position"] = place
        block["constructor"] = block["constructor"] and json.loads(block["constructor"])
    return json.loads(
        json.dumps(
            {
                "session": session,
                "blocks": blocks,
                "messages": [message.model_dump() for message in rows.messages],
                "facts": [{**fact.model_dump(), "id": to("facts", fact.id)} for fact in rows.facts],
                "entities": [of("entities", entity, merged_into="entities") for entity in rows.entities],
                "relations": [
                    of("relations", relation, subject="entities", object="entities", ended_by="relations")
                    for relation in rows.relations
                ],
                "vectors": [
                    {**vector.model_dump(), "id": to("vectors", vector.id), "embedding": vector.embedding.hex()}
                    for vector in rows.vectors
                ],
                "deliveries": [{**row.model_dump(), "id": to("deliveries", row.id)} for row in rows.deliveries],
                "events": [{**event.model_dump(), "data": renumbered(event.kind, event.data, to)} for event in log],
            }
        )
    )


def words_of(rows):
    return {(word.owner, word.hash): word.data for word in rows.words}
