"""What the commands print of others' words: no line acts on a terminal or on a CI server."""

import json
import re
import time

import pytest
from engine_fakes import note
from hypothesis import given
from hypothesis import strategies as st

from memory_core import Memory
from memory_core.bundles.bundle import write_bundle
from memory_core.text import printable
from memory_inspector.__main__ import main
from memory_inspector.files.files import export_configuration
from memory_inspector.wording.check_report import _literal

pytest_plugins = ["pytester"]

HOSTILE = "one\r\n::warning::two \x1b]0;title\x07\x1b[31mred ##[group]x ##vso[task]y\u2028::notice::z\x85\u202e"


def acting(text):
    """Parts of a log that a terminal or a CI server would act on."""
    lines = re.split(r"[\r\n\u2028\x85]", text)
    commands = [line for line in lines if line.strip().startswith("::") or re.search(r"##\w*\[", line)]
    return commands + re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)


@given(st.lists(st.sampled_from([*":#[]x \n\r\t\x1b\x07\u2028", "::", "##", "vso[", HOSTILE])).map("".join))
def test_a_printed_text_has_no_command(text):
    line = printable(text)
    assert acting(line) == []
    assert "\n" not in line
    assert printable(line) == line
    assert re.sub(r"\s", "", line) == re.sub(r"\s", "", "".join(sign for sign in text if sign.isprintable()))


@pytest.fixture
def probes(tmp_path):
    """A probe file, a phrase of which is nobody's friend."""
    words = [{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": "Yes."}]
    (tmp_path / "conversation.json").write_text(json.dumps(words), encoding="utf-8")
    (tmp_path / "config.json").write_text(export_configuration(Memory.from_defaults("s")), encoding="utf-8")
    expected = [
        {"expect": "never_in_prompt", "phrase": HOSTILE},
        {"expect": "in_prompt", "phrase": f"not said: {HOSTILE}", "from_turn": 1},
    ]
    content = {"version": 1, "conversation": "conversation.json", "configuration": "config.json", "probes": expected}
    path = tmp_path / "x.probes.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_the_table_of_a_check_has_no_command(probes, capsys):
    assert main(["check", str(probes), "--patterns"]) == 1
    shown = capsys.readouterr().out
    assert "FAIL" in shown
    assert "warning" in shown
    assert acting(shown) == []


def test_the_tables_of_value_and_of_bisect_have_no_command(probes, capsys):
    memory = Memory.from_defaults("s")
    memory.put_messages([{"role": "user", "content": "Good day."}, {"role": "assistant", "content": "Good day."}])
    memory.put_messages([{"role": "user", "content": HOSTILE}, {"role": "assistant", "content": "Yes."}])
    bundle, questions = probes.parent / "session.zip", probes.parent / "questions.txt"
    bundle.write_bytes(write_bundle(memory.session.database, memory.session_id))
    questions.write_text(f"Is it {HOSTILE[28:48]}? -> one\n", encoding="utf-8")
    main(["value", str(bundle), "--questions", str(questions)])
    main(["bisect", str(bundle), "--probes", str(probes), "--number", "1"])
    shown = "".join(capsys.readouterr())
    assert "two" in shown
    assert acting(shown) == []


def test_the_plan_of_maintain_has_no_command(tmp_path, capsys):
    database = f"sqlite:///{tmp_path / 'memory.db'}"
    long_ago = time.time() - 400 * 86_400
    Memory.from_defaults("old", database_uri=database, title=HOSTILE, clock=lambda: long_ago).put(note(1))
    assert main(["maintain", "--database", database, "--older-than", "180d"]) == 0
    shown = capsys.readouterr().out
    assert "red" in shown
    assert acting(shown) == []


@pytest.mark.slow
def test_names_and_failures_of_the_plugin_have_no_command(probes, pytester):
    result = pytester.runpytest_inprocess("--memory", str(probes), "-v", "-p", "no:cacheprovider", "-p", "no:randomly")
    shown = str(result.stdout)
    assert "FAILED" in shown
    assert "warning" in shown
    assert acting(shown) == []


def test_an_error_has_no_command(tmp_path, capsys):
    assert main(["check", str(tmp_path / f"x {HOSTILE[:14]}.json")]) == 2
    assert acting(capsys.readouterr().err) == []


@pytest.mark.parametrize("text", ["0123456789abcdef" * 2 + "01234567", "see GH-1 and gh-22", "a1b2c3d"])
def test_a_comment_links_no_commit_and_no_issue(text):
    shown = _literal(text).replace("\\", "")
    assert not re.search(r"\b[0-9a-f]{7,40}\b|\bGH-\d", shown, re.IGNORECASE)
    assert shown.replace("\N{WORD JOINER}", "") == text
