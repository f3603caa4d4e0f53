"""Mutated files of every kind, spans, and calls of a proxy: each is read, or refused in one sentence."""

import gc
import json
import os
import random
import resource
import sqlite3
import zipfile
from contextlib import closing
from io import BytesIO
from pathlib import Path

import own_data
import pytest
from span_kit import as_json, as_protobuf, chat, memory

from memory_core import Memory, MemoryInspectorError
from memory_core.bundles.bundle import write_bundle
from memory_core.formats.any_message import read_messages
from memory_inspector.files.facts_file import read_facts_file
from memory_inspector.files.files import read_file
from memory_inspector.files.graph_files import read_graph_file
from memory_inspector.files.reference_memory import read_reference_memory
from memory_inspector.files.stores.memory_stores import facts_of
from memory_inspector.recorder.otlp import JSON, PROTOBUF, read_export, read_logs
from memory_inspector.recorder.spans import read_span
from memory_inspector.recorder.wire import Answered, read_exchange

pytestmark = pytest.mark.slow

MUTATIONS = int(os.environ.get("MEMORY_INSPECTOR_MUTATIONS", "2000"))
"""Of each kind of input; half of them in a database or an archive, which take longer to write than to read."""

MAX_GROWTH_BYTES = 200 * 2**20
"""Memory that reading all mutations of a kind may take in addition."""

VALUES = [
    None,
    True,
    -1,
    10**400,
    1e308,
    "",
    "x",
    "\x00",
    "\ud83d",
    "[",
    [],
    {},
    [[]],
    {"type": "later"},
    ["x"],
    "9" * 5_000,
]


def random_value(chosen):
    """A value of another type, at times nested deep."""
    if chosen.random() < 0.1:
        deep = "x"
        for _ in range(chosen.choice([50, 150, 900])):
            deep = [deep] if chosen.random() < 0.5 else {"content": deep}
        return deep
    return chosen.choice(VALUES)


def mutated_value(chosen, value):
    """A JSON value of which one place is another."""
    if isinstance(value, dict) and value and chosen.random() < 0.9:
        key = chosen.choice(list(value))
        if chosen.random() < 0.2:
            return {
                (chosen.choice(["type", "role", "content", "id", "x"]) if k == key else k): v for k, v in value.items()
            }
        if chosen.random() < 0.1:
            return {k: v for k, v in value.items() if k != key}
        return {**value, key: mutated_value(chosen, value[key])}
    if isinstance(value, list) and value and chosen.random() < 0.9:
        at = chosen.randrange(len(value))
        if chosen.random() < 0.1:
            return value[:at] + value[at + 1 :]
        return [*value[:at], mutated_value(chosen, value[at]), *value[at + 1 :]]
    if isinstance(value, str) and value[:1] in ("[", "{") and chosen.random() < 0.7:
        return mutated_json(chosen, value)
    return random_value(chosen)


def mutated_json(chosen, text):
    """JSON, or JSON a line, with one place changed; any other text as it is."""
    try:
        return json.dumps(mutated_value(chosen, json.loads(text)))
    except ValueError:
        lines = text.splitlines() or [""]
        at = chosen.randrange(len(lines))
        try:
            lines[at] = json.dumps(mutated_value(chosen, json.loads(lines[at])))
        except ValueError:
            return text
        return "\n".join(lines)


def mutated_bytes(chosen, data):
    """Bytes flipped, cut, doubled or put in between."""
    for _ in range(chosen.randint(1, 4)):
        start = chosen.randrange(len(data) + 1)
        end = min(len(data), start + chosen.choice([1, 1, 3, 40, len(data)]))
        between = chosen.choice(
            [b"", bytes([chosen.randrange(256)]), data[start:end] * 2, b"{", b'"', b"\n", b"\xff\xfe"]
        )
        data = data[:start] + between + data[end:]
    return data


def mutated_database(chosen, data):
    """A SQLite database with another value in one of its cells."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.deserialize(data)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        table = chosen.choice([name for name in tables if not name.startswith("sqlite_")])
        column = chosen.choice([row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')])
        rows = connection.execute(f'SELECT rowid, "{column}" FROM "{table}"').fetchall()
        if rows:
            row, value = chosen.choice(rows)
            new = (
                mutated_json(chosen, value) if isinstance(value, str) else chosen.choice([None, "x", -1, b"\xff", 2.5])
            )
            if isinstance(value, bytes):
                new = mutated_bytes(chosen, value)
            try:
                connection.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE rowid = ?', (new, row))
            except (sqlite3.IntegrityError, UnicodeEncodeError):
                return data
        connection.commit()
        return connection.serialize()


def mutated_archive(chosen, data):
    """A zip of which one member is mutated, left out, renamed or there twice."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        members = [(each.filename, archive.read(each)) for each in archive.infolist()]
    at = chosen.randrange(len(members))
    name, content = members[at]
    text = content.decode("utf-8", "replace")
    members[at] = chosen.choice(
        [
            (name, mutated_bytes(chosen, content)),
            (name, mutated_json(chosen, text).encode("utf-8", "replace") if text.strip() else content),
            (f"../{name}", content),
        ]
    )
    if chosen.random() < 0.1:
        members.pop(at)
    if chosen.random() < 0.1:
        members.append((name.upper(), content))
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return written.getvalue()


def mutated(chosen, data):
    if data.startswith(b"SQLite") and chosen.random() < 0.7:
        return mutated_database(chosen, data)
    if data.startswith(b"PK") and chosen.random() < 0.7:
        return mutated_archive(chosen, data)
    if data[:1] in (b"[", b"{") and chosen.random() < 0.7:
        return mutated_json(chosen, data.decode()).encode("utf-8", "surrogatepass")
    return mutated_bytes(chosen, data)


def read_whole(name):
    """Reads a file as the app's import does, with the first of its conversations."""

    def read(data):
        preview = read_file(name, data)
        for number in range(min(3, len(preview.conversations))):
            for message in preview.conversation(number).messages:
                message.to_json()

    return read


def read_call(data):
    """Reads a recorded call: the request before the line of equal signs, the answer behind it."""
    request, _, answer = data.partition(b"=====")
    for endpoint in ("chat/completions", "responses"):
        read_exchange(endpoint, request, Answered(200, answer))


def read_spans(form):
    def read(data):
        for span in read_export(data, form).spans:
            read_span(span)

    return read


def sample_notes():
    written = BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr("people/ana.md", "# Ana\n\nLikes tea. See [[ben]].\n")
        archive.writestr("people/ben.md", "---\ntags: [friend]\n---\nRows on Sundays.\n")
    return written.getvalue()


def sample_bundle():
    with Memory.from_recipe("blocks", "s") as made:
        made.put_messages([{"role": "user", "content": "I like tea."}, {"role": "assistant", "content": "Noted."}])
        made.build_context("Tea?")
        return write_bundle(made.session.database, "s")


ASKED = {
    "model": "m",
    "messages": [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Open?"}, {"type": "image_url", "image_url": {"url": "a:b"}}],
        },
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "six"},
    ],
    "input": [{"role": "user", "content": "Open?"}, {"type": "reasoning", "summary": []}],
}
ANSWERED = {
    "choices": [{"message": {"role": "assistant", "content": "Until six."}}],
    "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Until six."}]}],
    "usage": {"prompt_tokens": 3},
}
STREAM = "".join(
    f"data: {json.dumps(chunk)}\n\n"
    for chunk in (
        {"choices": [{"delta": {"role": "assistant", "content": "Until"}}]},
        {
            "choices": [
                {"delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{"}}]}}
            ]
        },
        {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": "}"}}]}}]},
        {"type": "response.output_text.delta", "delta": "Until"},
        {"type": "response.completed", "response": ANSWERED},
    )
)
MCP = "\n".join(
    map(
        json.dumps,
        [
            {"type": "entity", "name": "Ana", "entityType": "person", "observations": ["likes tea"]},
            {"type": "relation", "from": "Ana", "to": "Ben", "relationType": "knows"},
        ],
    )
).encode()
EXPORT = [{"title": "t", "current_node": "b", "mapping": {
    "a": {"id": "a", "parent": None, "children": ["b"], "message": None},
    "b": {"id": "b", "parent": "a", "children": [], "message": {
        "author": {"role": "user"}, "create_time": 1_700_000_000, "recipient": "all",
        "content": {"content_type": "text", "parts": ["Hi"]}}}}}]  # fmt: skip
CLAUDE = [{"name": "t", "chat_messages": [{"sender": "human", "text": "Hi", "content": [{"type": "text", "text": "Hi"}],
                                           "attachments": [{"extracted_content": "x"}]}]}]  # fmt: skip

SPANS = [chat([("user", "Hi")], "Yes"), memory("search_memory", records=[("r", "t", 0.5)])]
LOG = {"traceId": "ab" * 16, "spanId": "cd" * 8, "eventName": "e", "body": {"stringValue": "x"}}
LOGS = {"resourceLogs": [{"scopeLogs": [{"logRecords": [LOG]}]}]}

INPUTS = {
    "facts as CSV": (b"text,category,pinned\nLikes tea,preference,true\nRows,other,false\n", None),
    "facts as JSON": (json.dumps([{"text": "Likes tea", "topics": ["tea"]}, {"text": "Rows"}]).encode(), None),
    "a graph as JSON": (
        json.dumps({"entities": [{"id": 1, "name": "Ana"}, {"id": 2, "name": "Ben"}],
                    "relations": [{"subject": 1, "predicate": "knows", "object": 2}]}).encode(),
        lambda data: read_graph_file(data, "g.json"),
    ),
    "a memory file of MCP": (MCP, lambda data: read_reference_memory(data.decode("utf-8", "replace"))),
    "an export of ChatGPT": (json.dumps(EXPORT).encode(), read_whole("c.json")),
    "an export of Claude": (json.dumps(CLAUDE).encode(), read_whole("c.json")),
    "notes": (sample_notes(), read_whole("notes.zip")),
    "spans in JSON": (as_json(*SPANS), read_spans(JSON)),
    "spans in protobuf": (as_protobuf(*SPANS), read_spans(PROTOBUF)),
    "logs in JSON": (json.dumps(LOGS).encode(), lambda data: read_logs(data, JSON)),
    "a call": (json.dumps(ASKED).encode() + b"=====" + json.dumps(ANSWERED).encode(), read_call),
    "a streamed call": (json.dumps(ASKED).encode() + b"=====" + STREAM.encode(), read_call),
}  # fmt: skip
OWN = ["stores/agno.db", "stores/customer_service.af", "stores/lc_history.db", "stores/lc_messages.json",
       "stores/lg_checkpoints.db", "stores/oa_items.json", "stores/oa_session.db", "tau-bench/one_conversation.json",
       "tau-bench/one_conversation.jsonl"]  # fmt: skip


def outcome(read, data):
    """Reads one input; anything but an answer and a refusal in one sentence passes through."""
    try:
        read(data)
    except MemoryInspectorError as error:
        refused = str(error)
        assert refused.strip()
        assert "\n" not in refused.strip(), refused


def try_all(name, data, read):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    chosen = random.Random(name)
    outcome(read, data)
    for number in range(MUTATIONS // 2 if data[:2] in (b"SQ", b"PK") else MUTATIONS):
        changed = mutated(chosen, data)
        if number % 100 == 0:
            gc.collect()  # the suite collects rarely
        try:
            outcome(read, changed)
        except Exception as error:
            raise AssertionError(f"mutation {number} of {name}: {type(error).__name__}: {changed[:2_000]!r}") from error
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < MAX_GROWTH_BYTES


def read_facts(name):
    return lambda data: read_facts_file(data, filename="f.csv" if "CSV" in name else "f.json")


@pytest.mark.parametrize("name", INPUTS)
def test_mutated_input_is_read_or_refused_in_one_sentence(name):
    data, read = INPUTS[name]
    try_all(name, data, read or read_facts(name))


@pytest.mark.parametrize("name", OWN)
def test_a_mutated_file_of_a_conversation_is_read_or_refused_in_one_sentence(name, tmp_path):
    own_data.write(tmp_path)
    try_all(name, (tmp_path / name).read_bytes(), read_whole(Path(name).name))


def test_mutated_facts_of_mem0_are_read_or_refused_in_one_sentence(tmp_path):
    own_data.write(tmp_path)
    data = (tmp_path / "stores/mem0_history.db").read_bytes()
    try_all("mem0", data, lambda changed: facts_of(changed, filename="h.db"))


def test_a_mutated_bundle_is_read_or_refused_in_one_sentence():
    try_all("bundle", sample_bundle(), read_whole("s.zip"))


def test_mutated_messages_are_read_or_refused_in_one_sentence():
    data = json.dumps(ASKED["messages"]).encode()

    def read(changed):
        try:
            value = json.loads(changed)
        except (ValueError, RecursionError):
            return
        for message in value if isinstance(value, list) else [value]:
            for found in read_messages(message):
                found.to_json()

    try_all("messages", data, read)
