"""Search for forgotten words: found wherever they are, named nowhere, and repeated from the receipt."""

import gzip
import io
import json
import lzma
import os
import sqlite3
import tarfile
import zipfile
import zlib
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import Memory
from memory_core.errors import ConfigError, FormatError, NotFoundError
from memory_core.messages import ChatMessage
from memory_core.sessions.overview import delete_session
from memory_inspector.__main__ import main as command
from memory_inspector.verification import receipts
from memory_inspector.verification.fingerprints import CHUNK_BYTES, count, forms, wanted
from memory_inspector.verification.receipts import read_receipt, receipt_of

SECRET = "Ana's number is 555-0199"


def found_in(folder, text=SECRET):
    return {(part.file, part.part) for part in receipt_of(folder, wanted([text])).searched if part.hits}


@pytest.mark.slow
@given(st.binary(max_size=400), st.binary(max_size=400), st.text(st.characters(codec="utf-8"), min_size=4, max_size=40))
def test_every_form_of_a_text_is_found_between_any_bytes(before, after, text):
    text = " ".join(text.split())
    if len(text) < 4:
        return
    for form in forms(text):
        assert count([before.lower() + form + after.lower()], wanted([text]))[0] >= 1


@pytest.mark.parametrize("text", ["Ana's number", "Zoé Šmid", "魚が嫌いです"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_a_text_in_utf_16_is_found_once_in_either_order_of_bytes(encoding, text):
    assert count([f"before {text} after".encode(encoding)], wanted([text])) == [1]


SPELLINGS = {
    "apostrophe": "O’Brien’s lock-file at Zoé’s",
    "decomposed": "O'Brien's lock-file at Zoe\u0301's",
    "full width": "Ｏ'Brien's lock-file at Zoé's",
    "JSON": "O\\u2019Brien\\u2019s lock-file at Zo\\u00e9\\u2019s",
    "JSON in JSON": "O\\\\u2019Brien's lock-file at\\\\nZo\\\\u00E9's",
    "entities": "O&#39;Brien&rsquo;s lock-file at Zo&eacute;&#x27;s",
    "markup": "**O'Brien's** *lock-file* at `Zoé's`",
    "tags": "<b>O'Brien</b>'s lock-file at <i>Zo</i>é's",
    "dash and lines": "O'Brien's lock\u2011file\n  at\tZOÉ'S",
    "one word": "OBriens lockfile at Zoés",
    "invisible": "O'Brien's lock\u00ad-file at Z\u200boé's",
    "line break in HTML": "O'Brien's<br>lock-file<p class='x'>at Zoé's",
    "escaped twice": "O&amp;#39;Brien's lock-file at Zo&amp;eacute;'s",
    "link": "[O'Brien's](https://site.example) lock-file at Zoé's",
    "end of a line": "O'Bri-\nen's lock-file at Zoé's",
}
"""Spellings of one text that none of its own forms has."""


@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_another_spelling_of_a_text_is_found_once_and_across_chunks(spelling):
    want = wanted(["O'Brien's lock-file at Zoé's"])
    data = b"\x00\xff before " + spelling.encode() + b" after \xfe\x00"
    assert count([data], want) == [1]
    assert count([data[n : n + 5] for n in range(0, len(data), 5)], want) == [1]


@pytest.mark.parametrize(
    ("text", "spelling"), [("Room 5", "Room5"), ("Room5", "room 5"), ("1000 euros", "1,000 euros")]
)
def test_numbers_are_found_however_they_are_written(text, spelling):
    assert count([spelling.encode()], wanted([text])) == [1]


def test_a_run_of_backslashes_is_searched_in_linear_time():
    assert count([b"\\" * 200_000], wanted(["allergic to nuts"])) == [0]


def test_words_of_two_values_and_letters_across_words_are_no_match():
    want = wanted(["heart attack", "Porto"])
    assert count([b"the art attack, trans-port of goods, heart\x00\x00attack"], want) == [0, 0]


def test_a_receipt_of_version_1_searches_again_for_the_forms_that_it_has(tmp_path):
    (tmp_path / "a.txt").write_text("O'Brien Street and O’Brien Street")
    receipt = receipt_of(tmp_path, wanted(["O'Brien Street"]))
    old = json.loads(receipt.to_json()) | {"receipt": 1}
    del old["spellings"]
    assert receipt.hits == 2
    assert receipt_of(tmp_path, read_receipt(json.dumps(old), "old.json").wanted).hits == 1


@pytest.mark.slow
@given(st.lists(st.binary(max_size=30), max_size=8), st.integers(0, 30))
def test_how_bytes_are_cut_into_chunks_changes_nothing(pieces, place):
    data = b"".join(pieces)[:place] + SECRET.encode() + b"".join(pieces)[place:]
    want = wanted([SECRET])
    assert count([data[n : n + 7] for n in range(0, len(data), 7)], want) == count([data], want)


def test_words_across_the_border_of_two_large_chunks_are_found():
    data = b"x" * (CHUNK_BYTES - 9) + SECRET.upper().encode() + b"x" * 50
    assert count([data], wanted([SECRET, "not in there"])) == [1, 0]


@pytest.mark.parametrize("texts", [[], ["  "], ["abc"], ["x" * 10_001]])
def test_words_that_cannot_be_searched_for_are_refused(texts):
    with pytest.raises(ConfigError):
        wanted(texts)


def test_tables_free_pages_archives_and_compressed_values_are_searched(tmp_path):
    connection = sqlite3.connect(tmp_path / "a.db")
    connection.execute("PRAGMA secure_delete = OFF")
    connection.execute("CREATE TABLE notes (words TEXT, packed BLOB)")
    connection.execute("INSERT INTO notes VALUES (?, ?)", (SECRET, zlib.compress(SECRET.encode() * 3)))
    connection.commit()
    with zipfile.ZipFile(tmp_path / "b.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.json", json.dumps({"text": SECRET}))
    (tmp_path / "below").mkdir()
    with gzip.open(tmp_path / "below" / "c.gz", "wt") as stream:
        stream.write(SECRET * 2)
    (tmp_path / "harmless.txt").write_text("nothing here")
    assert found_in(tmp_path) == {
        ("a.db", "bytes"),
        ("a.db", "notes.words"),
        ("a.db", "notes.packed"),
        ("b.zip", "inside.json"),
        ("below/c.gz", "unpacked"),
    }
    connection.execute("DELETE FROM notes")
    connection.commit()
    connection.close()
    assert ("a.db", "bytes") in found_in(tmp_path), "SQLite leaves deleted words in the page"


def test_archives_in_archives_and_databases_in_them_are_searched(tmp_path):
    with closing(sqlite3.connect(tmp_path / "inner.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE notes (packed BLOB)")
        connection.execute("INSERT INTO notes VALUES (?)", (zlib.compress(SECRET.encode() * 9),))
        connection.commit()
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(tmp_path / "inner.db", "memory.db")
        archive.writestr("words.xz", lzma.compress(SECRET.encode() * 9))
        archive.writestr("broken.zip", b"PK\x03\x04 no archive")
    with zipfile.ZipFile(tmp_path / "outer.zip", "w") as archive:
        archive.writestr("inner.zip", gzip.compress(inner.getvalue()))
        archive.writestr("other.7z", b"7z\xbc\xaf\x27\x1c packed")
    (tmp_path / "inner.db").unlink()
    within = "inner.zip/unpacked/"
    assert found_in(tmp_path) == {
        ("outer.zip", f"{within}memory.db/notes.packed"),
        ("outer.zip", f"{within}words.xz/unpacked"),
    }
    problems = {part.part for part in receipt_of(tmp_path, wanted([SECRET])).problems}
    assert problems == {f"{within}broken.zip", "other.7z"}


def test_an_archive_too_deep_in_others_is_named_as_not_searched(tmp_path):
    data = SECRET.encode()
    for _ in range(receipts.MAX_NESTED + 2):
        data = gzip.compress(data)
    (tmp_path / "deep.gz").write_bytes(data)
    (problem,) = receipt_of(tmp_path, wanted([SECRET])).problems
    assert "more than 5 others" in problem.problem


@pytest.mark.parametrize("packed", ["zip after a program", "tar", "tar.gz"])
def test_a_zip_behind_other_bytes_and_a_tar_are_searched(packed, tmp_path):
    value = zlib.compress(SECRET.encode() * 9)
    with closing(sqlite3.connect(tmp_path / "inner.db")) as connection:
        connection.execute("CREATE TABLE notes (packed BLOB)")
        connection.execute("INSERT INTO notes VALUES (?)", (value,))
        connection.commit()
    file = tmp_path / "backup"
    if packed == "zip after a program":
        file.write_bytes(b"#!/bin/sh\nexit 0\n")
        with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
            archive.write(tmp_path / "inner.db", "memory.db")
    else:
        with tarfile.open(file, "w:gz" if packed == "tar.gz" else "w") as archive:
            archive.add(tmp_path / "inner.db", "memory.db")
            archive.addfile(tarfile.TarInfo("a folder"))
    (tmp_path / "inner.db").unlink()
    receipt = receipt_of(tmp_path, wanted([SECRET]))
    within = "unpacked/" if packed == "tar.gz" else ""
    assert [part.part for part in receipt.searched if part.hits] == [f"{within}memory.db/notes.packed"]
    assert not receipt.problems


def test_bytes_that_only_look_like_the_end_of_a_zip_are_no_archive(tmp_path):
    (tmp_path / "log").write_bytes(b"a line\nPK\x05\x06 and more of it\n" + bytes(30))
    receipt = receipt_of(tmp_path, wanted([SECRET]))
    assert [(part.part, part.problem) for part in receipt.searched] == [("bytes", None)]


def test_a_linked_file_is_searched_and_a_linked_folder_is_named(tmp_path):
    data, elsewhere = tmp_path / "data", tmp_path / "elsewhere"
    data.mkdir()
    elsewhere.mkdir()
    with closing(sqlite3.connect(elsewhere / "real.db")) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("CREATE TABLE notes (words TEXT)")
        connection.execute("INSERT INTO notes VALUES (?)", (SECRET,))
        connection.commit()
        (data / "memory.db").symlink_to(elsewhere / "real.db")
        (data / "more").symlink_to(elsewhere)
        (data / "same").symlink_to(data)
        receipt = receipt_of(data, wanted([SECRET]))
    found = {(part.file, part.part) for part in receipt.searched if part.hits}
    assert {("memory.db", "notes.words"), ("memory.db-wal", "bytes")} <= found
    assert [(part.file, part.problem) for part in receipt.problems] == [("more", "is a link to another folder")]


def test_a_folder_that_cannot_be_read_is_named_and_the_search_is_not_clean(tmp_path, monkeypatch):
    (tmp_path / "closed").mkdir()
    scandir = os.scandir

    def refusing(path):  # as for a user without the right to, which tests as root have
        if os.fspath(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", os.fspath(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    receipt = receipt_of(tmp_path, wanted([SECRET]))
    assert [(part.file, part.problem) for part in receipt.problems] == [("closed", "cannot be read: Permission denied")]
    assert not receipt.clean


def test_a_file_that_cannot_be_read_is_named_and_the_search_is_not_clean(tmp_path):
    (tmp_path / "broken.zip").write_bytes(b"PK\x03\x04 no archive")
    receipt = receipt_of(tmp_path, wanted([SECRET]))
    assert [part.file for part in receipt.problems] == ["broken.zip"]
    assert (receipt.hits, receipt.clean) == (0, False)


def test_a_receipt_holds_no_word_and_searches_again(tmp_path):
    (tmp_path / f"{SECRET}.txt").write_text(SECRET)
    receipt = receipt_of(tmp_path, wanted([SECRET, "another text"]))
    written = receipt.to_json()
    assert receipt.hits == 2
    assert count([written.encode(), receipt.page().encode()], wanted(["555-0199", "Ana's", "another"])) == [0, 0, 0]
    again = read_receipt(written, "receipt.json")
    assert again == receipt
    assert receipt_of(tmp_path, again.wanted).hits == 2
    (tmp_path / f"{SECRET}.txt").unlink()
    assert receipt_of(tmp_path, again.wanted).clean


def test_names_and_errors_that_hold_the_words_are_not_in_the_receipt(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(f"{SECRET}.txt", "nothing")
    (tmp_path / f"{SECRET}.gz").write_bytes(b"\x1f\x8b broken")
    receipt = receipt_of(tmp_path, wanted([SECRET]))
    assert receipt.hits >= 2
    assert len(receipt.problems) == 1
    assert count([receipt.to_json().encode(), receipt.page().encode()], wanted(["555-0199"])) == [0]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"receipt": 2}', '{"receipt": 3}', "[" * 5_000, '{"receipt": 1, "texts": [[]], "bases": [1, 2]}'],
)
def test_what_is_no_receipt_is_refused_by_its_name(text):
    with pytest.raises(FormatError, match=r"other\.json"):
        read_receipt(text, "other.json")


@pytest.mark.slow
def test_erased_facts_and_sessions_leave_no_byte_behind(tmp_path):
    uri = f"sqlite:///{tmp_path / 'memory.db'}"
    memory = Memory.from_recipe("blocks", "s", database_uri=uri)
    memory.facts.add("Ana lives at 14 Quincewood Lane")
    memory.put(ChatMessage(role="user", content="My dentist is Doctor Vantongeren in Porto."))
    memory.flush(all=True)
    memory.deliver()
    memory.build_context("Who is my dentist?")
    assert found_in(tmp_path, "Quincewood")
    assert found_in(tmp_path, "Vantongeren")
    memory.facts.erase(*(fact for fact in memory.facts.read("Facts") if "Quincewood" in fact.text))
    assert not found_in(tmp_path, "Quincewood")
    delete_session(memory.session.database, "s")
    memory.session.database.close()
    assert not found_in(tmp_path, "Vantongeren")


def test_the_command_searches_writes_a_receipt_and_searches_again(tmp_path, capsys):
    data, words, out = tmp_path / "data", tmp_path / "words.txt", tmp_path / "receipt.json"
    data.mkdir()
    (data / "notes.txt").write_text(f"I know that {SECRET}.")
    words.write_text(SECRET)
    assert command(["verify", "--words", str(words), "--place", str(data), "--out", str(out)]) == 1
    assert "notes.txt" in capsys.readouterr().out
    (data / "notes.txt").unlink()
    assert command(["verify", str(out), "--place", str(data)]) == 0
    assert "555-0199" not in out.read_text() + capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["a.json", "--words", "b.txt"], ["missing.json"]])
def test_a_command_that_cannot_search_says_so_and_ends_with_2(arguments, capsys):
    assert command(["verify", *arguments]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_place_that_is_not_there_is_named(tmp_path):
    with pytest.raises(NotFoundError, match="nowhere"):
        receipt_of(tmp_path / "nowhere", wanted([SECRET]))


@pytest.mark.slow
def test_of_30_erased_facts_and_30_deleted_sessions_no_byte_is_left(tmp_path):
    uri = f"sqlite:///{tmp_path / 'memory.db'}"
    facts = [f"Quincewood Lane {number:03} is where Ana{number:03} lives" for number in range(30)]
    said = [f"My dentist is Doctor Vantongeren{number:03} in Porto." for number in range(30)]
    kept = Memory.from_recipe("blocks", "kept", database_uri=uri)
    for text in facts:
        kept.facts.add(text)
    kept.facts.edit(kept.facts.read("Facts")[0], "Quincewood Lane 000 was sold")
    for number, text in enumerate(said):
        with Memory.from_recipe("blocks", f"s{number}", database_uri=uri) as memory:
            memory.put(ChatMessage(role="user", content=text))
            memory.flush(all=True)
            memory.deliver()
            memory.build_context("Who is my dentist?")
    want = wanted([*facts, "Quincewood Lane 000 was sold", *said])
    assert receipt_of(tmp_path, want).hits > 60
    kept.facts.erase(*kept.facts.read("Facts"))
    for number in range(30):
        delete_session(kept.session.database, f"s{number}")
    receipt = receipt_of(tmp_path, want)
    assert receipt.clean, receipt.page()
    left = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert (b"Quincewood" in left, b"Vantongeren" in left) == (False, False)


def test_a_broken_member_of_an_archive_costs_that_archive_alone(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("notes.txt", "words " * 200)
    broken = bytearray((tmp_path / "a.zip").read_bytes())
    broken[50:70] = b"\xff" * 20
    (tmp_path / "a.zip").write_bytes(broken)
    (tmp_path / "b.txt").write_text(SECRET)
    receipt = receipt_of(tmp_path, wanted([SECRET]))
    assert [part.file for part in receipt.searched if part.problem] == ["a.zip"]
    assert found_in(tmp_path) == {("b.txt", "bytes")}


def test_a_compressed_value_that_is_too_large_is_named_as_not_searched(tmp_path, monkeypatch):
    monkeypatch.setattr(receipts, "MAX_UNPACKED_BYTES", 1_000)
    with closing(sqlite3.connect(tmp_path / "m.db")) as connection:
        connection.execute("CREATE TABLE t (v BLOB)")
        connection.execute("INSERT INTO t VALUES (?)", (zlib.compress(b"x" * 2_000),))
        connection.commit()
    receipt = receipt_of(tmp_path, wanted([SECRET]))
    assert [part.part for part in receipt.searched if part.problem] == ["t.v"]
    assert not receipt.clean
