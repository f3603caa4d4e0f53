"""Facts as CSV and JSON, out and in."""

import csv
import io
import json

import pytest
from engine_fakes import fact_row
from hypothesis import given
from hypothesis import strategies as st

from memory_core import FactExtractionMemoryBlock, FormatError, Memory
from memory_core.limits import MAX_FILE_BYTES
from memory_core.planning.curation import ChangeSet, FactDraft
from memory_core.planning.fact_merging import STATES
from memory_inspector.files.facts_file import (
    MAX_FACTS,
    Problem,
    facts_to_csv,
    facts_to_json,
    plan_import,
    read_facts_file,
)


def fact(id, text, **values):
    return fact_row(id, text, **{"sources": (("s", 4), ("s", 5), ("gone", 1)), **values})


TURNS = {("s", 4): 2, ("s", 5): 3}


def read(text, filename="facts.csv"):
    return read_facts_file(text, filename=filename)


# -- out -----------------------------------------------------------------------------------------


def test_csv_has_a_heading_and_one_line_a_fact():
    written = facts_to_csv([fact(1, "likes tea, and jazz", pinned=True), fact(2, "lives here", state="retired")], TURNS)
    assert written == (
        "\ufefftext,state,pinned,category,topics,turns,created,tokens\r\n"
        '"likes tea, and jazz",active,yes,other,,2 3,1970-01-01T00:00:00+00:00,3\r\n'
        "lives here,retired,no,other,,2 3,1970-01-01T00:00:00+00:00,3\r\n"
    )


def test_what_excel_saves_of_the_csv_is_known_again():
    facts = [fact(1, "mag Grüßkohl")]
    opened = facts_to_csv(facts, TURNS).encode().decode("utf-8-sig")
    with_semicolons = opened.replace(",", ";")
    forms = opened.encode("utf-16"), with_semicolons.encode("utf-8-sig"), f"sep=;\r\n{with_semicolons}".encode()
    for saved in forms:
        plan = plan_import(read(saved, "f.csv"), facts)
        assert (plan.importable, len(plan.duplicates)) == (0, 1)


@pytest.mark.parametrize(
    "value",
    [
        {"results": [{"id": "1", "memory": "grows figs", "user_id": "pia"}]},
        [{"memory": "grows figs", "topics": ["garden"], "memory_id": "1"}],
        {"memory": "grows figs"},
        [{"uuid": "1", "fact": "grows figs", "valid_at": "2026-03-01T10:00:00Z"}],
    ],
)
def test_memories_of_mem0_agno_and_zep_are_facts(value):
    assert [found.text for _, found in read(json.dumps(value).encode(), "memories.json").facts] == ["grows figs"]


def test_json_says_the_same():
    assert json.loads(facts_to_json([fact(1, "likes tea")], TURNS)) == {
        "facts": [
            {
                "text": "likes tea",
                "state": "active",
                "pinned": False,
                "category": "other",
                "topics": [],
                "turns": [2, 3],
                "created": "1970-01-01T00:00:00+00:00",
                "tokens": 3,
            }
        ]
    }


@pytest.mark.parametrize(("write", "name"), [(facts_to_csv, "f.csv"), (facts_to_json, "f.json")])
def test_topics_come_back(write, name):
    written = write([fact(1, "likes tea", topics=("green tea", "=drinks"))], TURNS)
    ((_, found),) = read(written.encode(), name).facts
    assert found.topics == ("green tea", "=drinks")
    (new,) = plan_import(read(written.encode(), name), []).change.steps
    assert new.topics == ("green tea", "=drinks")


def test_topics_that_are_no_texts_are_a_problem():
    found = read(b'[{"text": "likes tea", "topics": [1]}, {"text": "a dog", "topics": {"a": 1}}]', "f.json")
    assert [problem.what for problem in found.problems] == ["topics must be texts"] * 2


@pytest.mark.parametrize(
    "start",
    [
        "=",
        "+",
        "-",
        "@",
        "\t",
        "\r",
        "'=",
        "\n=",
        " =",
        "\ufeff=",
        "\x00=",
        "\xad=",
        "\u202e=",
        "\u180e=",
        "＝",
        "＋",
        " ＠",
    ],
)
def test_no_cell_is_a_formula(start):
    text = f'{start}HYPERLINK("http://x")'
    written = facts_to_csv([fact(1, text, category=f"{start}1")], {})
    (_, row) = csv.reader(io.StringIO(written, newline=""))
    assert (row[0], row[3]) == (f"'{text}", f"'{start}1")
    assert read(written).facts[0][1].text == " ".join(text.split()).replace("\x00", "\N{REPLACEMENT CHARACTER}")


words = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=30).map(
    lambda text: " ".join(text.split())
)
rows = st.lists(
    st.tuples(words.filter(bool), st.sampled_from(STATES), st.booleans()), min_size=1, max_size=5
)  # fmt: skip


@pytest.mark.slow
@given(rows)
def test_what_was_exported_is_read_as_it_was(rows):
    facts = [fact(id, text, state=state, pinned=pinned) for id, (text, state, pinned) in enumerate(rows)]
    for written in (facts_to_csv(facts, TURNS), facts_to_json(facts, TURNS)):
        found = read_facts_file(written.encode(), filename="facts")
        assert found.problems == ()
        assert [(f.text, f.state, f.pinned) for _, f in found.facts] == rows


# -- in ------------------------------------------------------------------------------------------


def test_only_the_text_is_needed():
    assert read("Text\nlikes tea\n\n likes  jazz \n").facts == (
        (2, FactDraft("likes tea")),
        (4, FactDraft("likes jazz")),
    )


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_spreadsheets_separate_differently(separator):
    text = separator.join(["state", "text", "pinned"]) + "\r\n" + separator.join(["Retired", "likes tea", "YES"])
    assert read(text).facts == ((2, FactDraft("likes tea", "retired", pinned=True)),)


def test_the_line_of_a_fact_is_where_it_begins():
    found = read('text,state\n"likes\ntea",active\n,active\n')
    assert (found.facts, found.problems) == (((2, FactDraft("likes tea")),), (Problem(4, "no text"),))


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ('["likes tea", {"text": "x", "pinned": true}]', [("[0]", "likes tea", False), ("[1]", "x", True)]),
        ('{\n "facts": [\n  {"text": "likes tea"}\n ]\n}', [("facts[0]", "likes tea", False)]),
        ('{"text": "likes tea"}\n{"text": "x", "state": null}', [(1, "likes tea", False), (2, "x", False)]),
        ('{"text": "likes tea"}', [(1, "likes tea", False)]),
    ],
)  # fmt: skip
def test_json_comes_as_a_list_an_object_or_line_by_line(text, facts):
    found = read(text, "facts.json")
    assert ([(place, f.text, f.pinned) for place, f in found.facts], found.problems) == (facts, ())


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"text": " "}, "no text"),
        ({}, "no text"),
        (7, "this is neither a text nor an object with a text"),
        ({"text": 7}, "text, state and category must be texts"),
        ({"text": "x", "state": "gone"},
         'state "gone" is not known, use proposed, active, superseded, retired or rejected'),
        ({"text": "x", "pinned": "maybe"}, 'pinned is "maybe", use yes or no'),
        ({"text": "x" * 2001}, "2,001 characters, and a fact has at most 2,000"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_fact_is_said(row, what):
    assert read(json.dumps([row]), "facts.json").problems == (Problem("[0]", what),)


def test_a_row_longer_than_the_heading_is_a_problem():
    assert read("text,state\na,active,b\n").problems == (Problem(2, "3 columns, the heading has 2"),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "facts.csv is empty. Nothing was imported."),
        (b"name\nlikes tea", 'facts.csv is not a list of facts: no column of its first line is called "text". '
                             "Nothing was imported."),
        (b"text\n", "facts.csv holds no facts. Nothing was imported."),
        (b'text\n"likes tea', "facts.csv, line 2: this is not valid CSV (unexpected end of data). "
                              "Nothing was imported."),
        (b"PK\x03\x04...", "facts.csv is not a list of facts: it is a zip archive or a spreadsheet. Save it as CSV. "
                           "Nothing was imported."),
        (b'{"messages": []}', 'facts.csv is not a list of facts: the object has no list called "facts". '
                              "Nothing was imported."),
        (b"x" * (MAX_FILE_BYTES + 1), "File is 20.1 MB. The most is 20 MB. Nothing was imported."),
        (b"text\n" + b"a\n" * (MAX_FACTS + 1), "facts.csv holds more than 10,000 facts, the most that can be imported "
                                                "at once. Nothing was imported."),
        (b"text\n" + b"\n" * 2_000_000, "facts.csv holds more than 1,048,576 items, which is the most. "
                                       "Nothing was imported."),
        (b"text\n" + b"," * 2_000_000, "facts.csv holds more than 1,048,576 items, which is the most. "
                                       "Nothing was imported."),
    ],
)  # fmt: skip
def test_a_file_that_is_not_a_list_of_facts_is_refused_in_one_sentence(data, said):
    with pytest.raises(FormatError) as caught:
        read(data)
    assert str(caught.value) == said


def test_a_file_called_json_must_be_json():
    with pytest.raises(FormatError, match=r"starts with neither \[ nor \{"):
        read("text\nlikes tea", "facts.json")


# -- the plan ------------------------------------------------------------------------------------


def test_the_plan_says_what_can_be_imported_and_why_the_rest_cannot():
    known = [fact(7, "Likes tea", state="retired")]
    plan = plan_import(read("text,pinned\nlikes  tea,no\nlikes jazz,yes\n,no\nLikes jazz,no\n,yes\nAna,no\n"), known)
    assert plan.change == ChangeSet("import", (FactDraft("likes jazz", pinned=True), FactDraft("Ana")))
    assert [(d.place, d.fact and d.fact.id, d.of_place) for d in plan.duplicates] == [(2, 7, None), (5, None, 3)]
    assert (plan.importable, plan.total) == (2, 6)
    assert plan.sentence == (
        "facts.csv, line 4: no text. 1 more line has a problem. 1 is there already. 1 repeats line 3 of the file. "
        "2 of 6 can be imported."
    )


def test_a_file_without_problems_is_said_shortly():
    assert plan_import(read("text\na\nb\n"), []).sentence == "2 facts can be imported."
    assert plan_import(read("text\na\n"), []).sentence == "1 fact can be imported."


def test_a_file_of_known_facts_changes_nothing():
    plan = plan_import(read("text\nlikes tea\n"), [fact(1, "likes tea")])
    assert (plan.change, plan.sentence) == (None, "1 is there already. 0 of 1 can be imported.")


def test_an_import_is_one_change_set():
    memory = Memory.from_defaults(memory_blocks=[FactExtractionMemoryBlock(name="facts")])
    desk = memory.facts.desk("facts")
    plan = plan_import(read("text,state\nlikes tea,\nlikes jazz,rejected\n"), desk.facts())
    desk.apply(plan.change)
    assert [(f.text, f.state, f.origin) for f in desk.facts()] == [
        ("likes tea", "active", "written"),
        ("likes jazz", "rejected", "written"),
    ]
    assert [c.words for c in desk.changes()] == ["imported 2 facts"]
    desk.undo()
    assert desk.facts() == []
