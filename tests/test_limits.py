"""What is read from outside is read within one budget of bytes, items and seconds."""

import gzip
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core.errors import FormatError, LimitError
from memory_core.limits import BYTES_PER_VALUE, MAX_VALUES, Budget, values_in
from memory_inspector.files.configuration import read_configuration
from memory_inspector.files.facts_file import read_facts_file
from memory_inspector.files.files import read_file
from memory_inspector.files.graph_files import read_graph_file

MANY = b"{}," * MAX_VALUES + b"{}"


def test_a_budget_says_what_is_exceeded_and_counts_nothing_that_is_refused():
    budget = Budget("a/b.zip", bytes=3 << 20, items=2)
    budget.take(bytes=2 << 20, items=1)
    with pytest.raises(LimitError, match=r"^b\.zip unpacks to more than 3 MB, which is the most\. Nothing was"):
        budget.take(bytes=2 << 20)
    with pytest.raises(LimitError, match="holds more than 2 items"):
        budget.take(items=2)
    budget.take(bytes=1 << 20, items=1)
    with pytest.raises(LimitError, match="takes more than -1 seconds"):
        Budget("b.zip", seconds=-1).take()


def test_what_unpacks_is_read_no_further_than_its_budget():
    read = []
    with pytest.raises(LimitError), gzip.open(io.BytesIO(gzip.compress(bytes(9 << 20)))) as file:
        read.extend(Budget("a.gz", bytes=3 << 20).pieces(file))
    assert len(read) <= 3


json_values = st.recursive(
    st.text(max_size=60) | st.integers() | st.none(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text('a,[{"\\\\', max_size=9), inner),
)


def inside(value):
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return len(inner) + sum(map(inside, inner))


@given(json_values)
@pytest.mark.slow
def test_no_text_holds_more_values_than_are_counted(value):
    text = json.dumps(value, ensure_ascii=False)
    assert inside(value) <= values_in(text) == values_in(text.encode()) or len(text.encode()) >= BYTES_PER_VALUE
    assert inside(value) <= values_in(text)


def test_marks_inside_of_texts_are_no_values():
    assert values_in(json.dumps(['{[,\\"' * 100_000])) == 1
    assert values_in('"' + '\\"' * 1_000_000) == 0
    assert values_in('"' * 1_000_001 + "," * 100_000) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("list.json", b"[%s]"),
        ("lines.jsonl", MANY.replace(b",", b"\n,[],\n").replace(b",[],", b"[]")),
        ("talk.json", b'{"messages": [%s]}'),
        ("store.json", b'{"store": {"a": [%s]}}'),
        ("agents.af", b'{"agents": [%s]}'),
        ("settings.json", b'{"format": "memory-inspector-configuration", "blocks": [%s]}'),
        ("keys.json", b"{" + b'"a":0,' * MAX_VALUES + b'"b":0}'),
    ],
)
def test_json_of_more_values_than_are_read_is_refused_before_it_is_parsed(name, data):
    data = data.replace(b"%s", MANY)
    for read in (read_graph_file, read_configuration, lambda data, name: read_facts_file(data, filename=name)):
        with pytest.raises(FormatError, match=r"Nothing was imported\.$"):
            read(data, name)
    with pytest.raises(LimitError, match=f"^{name} holds more than {MAX_VALUES:,} items, which is the most"):
        read_file(name, data)
