"""`memory-inspector check` on a pull request: the comment, the report, and the scripts of action.yml as they are."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from probe_kit import NUTS, write_configuration, write_probe_file

from memory_inspector.__main__ import main

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
TRICK = "Ask @octocat about <img src=x> and #12 | `code`"


def write(folder, *, enabled=True, more=()):
    """Write a folder of one probe file; `more` are further probes."""
    write_probe_file(folder, [NUTS, {"expect": "evidence_in_prompt", "messages": [1], "turn": 4}, *more])
    write_configuration(folder, enabled=enabled)
    return folder


@pytest.mark.slow
def test_a_worse_configuration_is_explained_beside_the_one_before(tmp_path, capsys):
    before, now = write(tmp_path / "before"), write(tmp_path / "now", enabled=False)
    comment, report = tmp_path / "comment.md", tmp_path / "report.html"
    arguments = ["check", str(now), "--before", str(before), "--markdown", str(comment), "--html", str(report)]
    assert main([*arguments, "--page-url", "https://ci.example/7"]) == 1
    assert "0 of 2 probes held over 4 turns" in capsys.readouterr().out
    text = comment.read_text(encoding="utf-8")
    assert text.startswith("<!-- memory-inspector -->\n### Memory: 2 of 2 probes fail\n")
    rows = re.findall(r"^\| ❌ \| (.*) \| (\d*) \| (.*) \|$", text, re.MULTILINE)
    assert [(turn, cause.replace("\\", "")) for _, turn, cause in rows] == [
        (turn, "facts.enabled True → False") for turn in "34"
    ]
    assert "| probes that hold | 2 of 2 | 0 of 2 |" in text
    assert "| prompts with their evidence | 5 of 5 | 2 of 5 |" in text
    assert "Flushed in turn 3" in text
    assert "(https://ci.example/7)" in text
    assert report.read_text(encoding="utf-8").count("<iframe") == 2


@pytest.mark.slow
def test_probe_files_of_subfolders_are_compared_with_those_of_the_same_path(tmp_path):
    write(tmp_path / "before" / "a")
    write(tmp_path / "now" / "a", enabled=False)
    write(tmp_path / "now" / "b")
    comment = tmp_path / "comment.md"
    assert main(["check", str(tmp_path / "now"), "--before", str(tmp_path / "before"), "--markdown", str(comment)]) == 1
    text = comment.read_text(encoding="utf-8")
    assert (text.count("| probes that hold | 2 of 2 | 0 of 2 |"), text.count("| probes that hold | 2 of 2 |\n")) == (
        1,
        1,
    )


@pytest.mark.slow
def test_without_an_earlier_configuration_the_first_bad_turn_is_named(tmp_path):
    now = write(tmp_path / "now", enabled=False)
    comment = tmp_path / "comment.md"
    assert main(["check", str(now), "--markdown", str(comment)]) == 1
    text = comment.read_text(encoding="utf-8").replace("\\", "")
    assert "| 3 | turn 3: flush planned in turn 3 |" in text
    assert "| | now |" in text


def test_what_holds_says_so_and_has_no_report_to_link(tmp_path):
    now = write(tmp_path / "now")
    comment, report = tmp_path / "comment.md", tmp_path / "report.html"
    arguments = [
        "check",
        str(now),
        "--markdown",
        str(comment),
        "--html",
        str(report),
        "--page-url",
        "https://ci.example",
    ]
    assert main(arguments) == 0
    assert "### Memory: all 2 probes hold" in comment.read_text(encoding="utf-8")
    assert "ci.example" not in comment.read_text(encoding="utf-8")
    assert "No failed probe" in report.read_text(encoding="utf-8")


@pytest.mark.slow
def test_words_of_a_conversation_stay_words_in_the_comment(tmp_path):
    trick = {"expect": "in_prompt", "phrase": TRICK, "from_turn": 1}
    now = write(tmp_path / "now", more=[trick])
    comment = tmp_path / "comment.md"
    assert main(["check", str(now), "--markdown", str(comment)]) == 1
    text = comment.read_text(encoding="utf-8")
    assert "@octocat" not in text
    assert "#12" not in text
    assert not re.search(r"(?<!\\)<img", text)
    assert "| `code`" not in text


@pytest.mark.slow
def test_a_comment_stays_within_what_github_takes(tmp_path):
    probes = [{"expect": "in_prompt", "phrase": f"{n} {'never said ' * 26}", "from_turn": 1} for n in range(98)]
    now = write(tmp_path / "now", more=probes)
    comment = tmp_path / "comment.md"
    assert main(["check", str(now), "--markdown", str(comment)]) == 1
    text = comment.read_text(encoding="utf-8")
    assert len(text) < 65_536
    assert text.endswith("The rest is in the report.\n")


# -- the action ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(find_spec("check_jsonschema") is None, reason="check-jsonschema is not installed")
def test_the_action_and_the_workflow_to_copy_fit_githubs_schemas(tmp_path):
    page = (ROOT / "docs/how-to/check-a-configuration.md").read_text(encoding="utf-8")
    (workflow,) = re.findall(r"^```yaml\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    file = tmp_path / "memory.yml"
    file.write_text(workflow, encoding="utf-8")
    for schema, path in (("vendor.github-actions", ROOT / "action.yml"), ("vendor.github-workflows", file)):
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def script(name):
    """The shell script of a step of the action."""
    (step,) = [step for step in ACTION["runs"]["steps"] if step.get("name") == name]
    return step["run"]


def git(folder, *arguments):
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def runner(tmp_path):
    """A shell like a runner's: this package as the installed command, and a `gh` that keeps what it was asked."""
    programs = tmp_path / "bin"
    programs.mkdir()
    programs.joinpath("memory-inspector").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m memory_inspector "$@"\n')
    programs.joinpath("gh").write_text(
        f'#!/bin/sh\necho "$@" >> "{tmp_path}/gh.log"\n'
        '[ -z "$GH_REFUSES" ] || { echo "HTTP 403: Resource not accessible by integration" >&2; exit 1; }\n'
        'case "$*" in *--jq*) echo "$GH_COMMENT" ;; esac\n'
    )
    for program in programs.iterdir():
        program.chmod(0o755)
    environment = {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "RUNNER_TEMP": str(tmp_path / "temp"),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "GITHUB_OUTPUT": str(tmp_path / "output"),
    }
    (tmp_path / "temp").mkdir()

    def run(step, cwd, **values):
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script(step)],
            cwd=cwd,
            env=environment | values,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="runs a shell")
def test_the_action_compares_with_the_base_and_comments_once(tmp_path, runner):
    repository = tmp_path / "repository"
    write(repository / "probes")
    git(repository, "init", "--quiet")
    git(repository, "add", "-A")
    git(repository, "commit", "--quiet", "-m", "Base")
    base = git(repository, "rev-parse", "HEAD")
    write(repository / "probes", enabled=False)

    done = runner("Check", repository, PROBES="probes", BASE=base, RUN_URL="https://ci.example/7")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "output").read_text() == "status=1\n"
    assert "facts" in (tmp_path / "summary.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in (tmp_path / "temp/memory").iterdir()) == [
        "comment.md",
        "probes.xml",
        "report.html",
    ]
    assert runner("Result", repository, STATUS="1").returncode == 1

    places = {"COMMENTS": "repos/a/b/issues/3/comments", "EDITED": "repos/a/b/issues/comments"}
    asked = tmp_path / "gh.log"
    runner("Comment", repository, **places)
    assert asked.read_text().splitlines()[-1].startswith("api --silent repos/a/b/issues/3/comments -F body=@")
    runner("Comment", repository, **places, GH_COMMENT="77")
    assert "-X PATCH repos/a/b/issues/comments/77" in asked.read_text().splitlines()[-1]
    forked = runner("Comment", repository, **places, GH_REFUSES="yes")
    assert forked.returncode == 0
    assert "::notice::" in forked.stdout


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="runs a shell")
def test_the_action_fails_where_its_files_are_wrong(tmp_path, runner):
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "--quiet")
    done = runner("Check", repository, PROBES="probes", BASE="", RUN_URL="")
    assert "probes cannot be read" in done.stderr
    assert (tmp_path / "output").read_text() == "status=2\n"
    assert runner("Comment", repository, COMMENTS="x", EDITED="y").returncode == 0
    assert runner("Result", repository, STATUS="2").returncode == 2
