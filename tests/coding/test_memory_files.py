"""Memory files of a session's project: where they are found, what they lack, and that nothing is ever written."""

import hashlib
import os
from pathlib import Path

import pytest
from coding_kit import START, ClaudeCode, Codex, call, message
from dulwich import porcelain
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_core.text import words
from memory_inspector.coding.claude_code import ClaudeCodeReader
from memory_inspector.coding.coding_session import Branch, CodingSession
from memory_inspector.coding.memory_files import contradictions, memory_files, suggestion
from memory_inspector.files.notes import MAX_NOTE_BYTES

BEGIN = int(START.timestamp())


def count(text):
    return len(text.split())


@pytest.fixture
def home(tmp_path, monkeypatch):
    """The folders of both programs, empty."""
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "codex"))
    (tmp_path / "claude").mkdir()
    return tmp_path


@pytest.fixture
def project(home):
    """A git repository without files."""
    folder = home / "work" / "shop"
    folder.mkdir(parents=True)
    porcelain.init(folder)
    return folder


def put(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def commit(folder, at, message="Change"):
    porcelain.add(folder)
    who = b"Ann <ann@example.org>"
    porcelain.commit(folder, message=message, author=who, committer=who, commit_timestamp=at, author_timestamp=at)


def session_of(lines, home):
    return lines.session(home / "claude" / "projects" / "p" / "s.jsonl")


def files_below(home, session):
    """The memory files below the test's own folder: what stands above it is the machine's."""
    return [file for file in memory_files(session, count) if file.path.is_relative_to(home)]


def files_of(lines, home):
    return files_below(home, session_of(lines, home))


def fingerprint(folder):
    return {
        path.relative_to(folder).as_posix(): (
            path.lstat().st_mtime_ns,
            hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None,
        )
        for path in sorted(folder.rglob("*"))
    }


# -- where they are found --------------------------------------------------------------------------


def test_claude_code_loads_the_files_of_the_folder_and_its_parents_the_users_and_its_own(home, project):
    put(project / "shop" / "api" / "CLAUDE.md", "Nearest.")
    put(project / "shop" / ".claude" / "rules" / "style.md", "A rule.")
    put(project / "CLAUDE.md", "Of the project.")
    put(project / "CLAUDE.local.md", "Of mine alone.")
    put(project / ".claude" / "CLAUDE.md", "Hidden.")
    put(project.parent / "CLAUDE.md", "Of all projects in this folder.")
    put(project / "other" / "CLAUDE.md", "Of a folder that nothing is read in.")
    put(project / "AGENTS.md", "Of another program.")
    put(home / "claude" / "CLAUDE.md", "The user's.")
    put(home / "claude" / "projects" / "p" / "memory" / "MEMORY.md", "What the program wrote itself.")
    files = files_of(ClaudeCode(folder=project / "shop" / "api").user("Hello there."), home)
    assert [(file.name if file.owner == "project" else file.text, file.owner) for file in files] == [
        ("shop/api/CLAUDE.md", "project"),
        ("shop/.claude/rules/style.md", "project"),
        ("CLAUDE.md", "project"),
        (".claude/CLAUDE.md", "project"),
        ("CLAUDE.local.md", "project"),
        ("Of all projects in this folder.", "folder above"),
        ("The user's.", "user"),
        ("What the program wrote itself.", "program"),
    ]
    assert {(file.when, file.loaded, file.problem) for file in files} == {("start", "observed", "")}
    assert files[2].tokens == 3


def test_files_of_a_folder_below_count_once_the_agent_works_in_it(home, project):
    below = put(project / "db" / "CLAUDE.md", "Never drop a table.")
    assert files_of(ClaudeCode(folder=project).user("Hello there."), home) == []
    (file,) = files_of(ClaudeCode(folder=project).answer(call("t1", file_path=project / "db" / "x" / "a.sql")), home)
    assert (file.path, file.when, file.loaded) == (below, "reading", "observed")
    (file,) = files_of(ClaudeCode(folder=project).memory_file(below, "Never drop a table."), home)
    assert (file.when, file.loaded, [item.line for item in file.items]) == ("reading", "reported", [1])


def test_what_an_attachment_names_is_read_only_as_markdown_inside_of_the_project(home, project):
    secret = put(home / "secret.md", "The key.")
    env = put(project / ".env", "KEY=1")
    lines = ClaudeCode(folder=project)
    for path in (secret, env, f"{project}/../../secret.md"):
        lines.memory_file(path, "x")
    assert files_of(lines, home) == []


def test_rules_that_name_files_are_loaded_with_these(home, project):
    put(project / ".claude" / "rules" / "all.md", "---\ndescription: x\n---\nA rule.\npaths:\n")
    put(project / ".claude" / "rules" / "db" / "sql.md", "---\ndescription: x\npaths:\n  - '*.sql'\n---\nAnother.")
    files = files_of(ClaudeCode(folder=project).user("Hello there."), home)
    assert [(file.path.name, file.when) for file in files] == [("all.md", "start"), ("sql.md", "reading")]


def test_imports_are_loaded_with_their_file_but_for_those_in_code_and_outside_of_the_project(home, project):
    put(project / "AGENTS.md", "Use tabs. See @docs/a.md.")
    put(project / "docs" / "a.md", "@../CLAUDE.md and @../../../outside.md")
    put(project / "docs" / "b.md", "Not loaded.")
    put(home / "outside.md", "The key.")
    put(project / "CLAUDE.md", "@AGENTS.md\n```\n@docs/b.md\n```\nMail ann@docs/b.md, `@docs/b.md`, @docs, @nowhere.md")
    files = files_of(ClaudeCode(folder=project).user("Hello there."), home)
    assert [(file.path.name, file.text != "") for file in files] == [
        ("CLAUDE.md", True),
        ("AGENTS.md", True),
        ("a.md", True),
        ("outside.md", False),
    ]


def test_codex_loads_one_file_a_folder_from_the_top_of_the_repository_down(home, project):
    put(project.parent / "AGENTS.md", "Above.")
    put(project / "AGENTS.md", "Of the project, in some words.")
    put(project / "api" / "AGENTS.md", "Replaced.")
    put(project / "api" / "AGENTS.override.md", "Nearest. @more.md")
    put(project / "api" / "more.md", "It follows no imports.")
    put(project / "api" / "v1" / "AGENTS.md", "Below.")
    put(project / "CLAUDE.md", "Of another program.")
    put(home / "codex" / "AGENTS.override.md", " \n")
    put(home / "codex" / "AGENTS.md", "The user's.")
    told = "# AGENTS.md instructions for x\n\n<INSTRUCTIONS>\nOf the project, in some words.\n</INSTRUCTIONS>"
    lines = Codex(folder=project / "api").line("response_item", message("user", told)).user("Hello there.")
    files = files_below(home, lines.session(home / "codex" / "sessions" / "rollout-1.jsonl"))
    assert [(file.text, file.loaded) for file in files] == [
        ("Nearest. @more.md", "observed"),
        ("Of the project, in some words.", "reported"),
        ("The user's.", "observed"),
    ]


def test_the_folder_is_that_of_the_beginning_although_the_shell_went_elsewhere(home, project):
    put(project / "CLAUDE.md", "At the top.")
    put(project / "sub" / "CLAUDE.md", "Below.")
    written = ClaudeCode(folder=project).user("Hello there.")
    written.folder = project / "sub"
    assert [file.text for file in files_of(written.answer(), home)] == ["At the top."]


def test_of_the_programs_own_index_the_first_lines_are_loaded(home, project):
    put(home / "claude" / "projects" / "p" / "memory" / "MEMORY.md", "one line\n" * 300)
    (file,) = files_of(ClaudeCode(folder=project).user("Hello there."), home)
    assert file.tokens == 400


# -- versions --------------------------------------------------------------------------------------


def test_versions_come_from_git_with_the_one_that_was_valid_when_the_session_began(home, project):
    for at, text in ((BEGIN - 200, "Use npm."), (BEGIN - 100, "Use yarn."), (BEGIN + 100, "Use pnpm.")):
        put(project / "CLAUDE.md", text)
        commit(project, at)
    put(project / "CLAUDE.md", "Use bun.")
    (file,) = files_of(ClaudeCode(folder=project).user("Hello there."), home)
    assert [version.text for version in file.versions] == ["Use npm.", "Use yarn.", "Use pnpm.", "Use bun."]
    assert file.versions[-1].written.note == "not committed"
    assert file.at_start.text == "Use yarn."


def test_a_file_without_history_has_its_present_version_which_may_be_newer_than_the_session(home):
    path = put(home / "work" / "CLAUDE.md", "Use npm.")
    session = session_of(ClaudeCode(folder=path.parent).user("Hello there."), home)
    (file,) = files_below(home, session)
    assert ([version.text for version in file.versions], file.at_start) == (["Use npm."], None)
    os.utime(path, (BEGIN - 1, BEGIN - 1))
    assert files_below(home, session)[0].at_start.text == "Use npm."


def test_a_file_counts_as_reported_if_the_session_has_the_version_of_its_beginning(home, project):
    put(project / "db" / "CLAUDE.md", "Never drop a table of the shop.")
    commit(project, BEGIN - 100)
    put(project / "db" / "CLAUDE.md", "Drop tables as you like, all of them.")
    reminder = "<system-reminder>Contents: Never drop a table of the shop.</system-reminder>"
    written = ClaudeCode(folder=project).answer(call("t1", file_path=project / "db" / "a.sql")).user(reminder)
    (file,) = files_of(written, home)
    assert (file.loaded, len(file.items)) == ("reported", 1)


def test_a_history_that_cannot_be_read_is_said(home, project):
    put(project / "CLAUDE.md", "Use npm.")
    commit(project, BEGIN)
    for path in (project / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(b"rubbish")
    (file,) = files_of(ClaudeCode(folder=project).user("Hello there."), home)
    assert [version.text for version in file.versions] == ["Use npm."]
    assert "cannot be read" in file.note


# -- what anybody may have in a folder -------------------------------------------------------------


def unreadable(path, monkeypatch):
    put(path, "Use npm.")
    opened = Path.open

    def refuse(self, *args, **kwargs):
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *args, **kwargs)

    monkeypatch.setattr(Path, "open", refuse)


HOSTILE = {
    "binary": (lambda path, _: put(path, b"\x00\x01"), "is not UTF-8 text"),
    "another encoding": (lambda path, _: put(path, "é".encode("latin-1")), "is not UTF-8 text"),
    "huge": (lambda path, _: put(path, b"x" * (MAX_NOTE_BYTES + 1)), "larger than 256 KB"),
    "a pipe": (lambda path, _: os.mkfifo(path), "no ordinary file"),
    "a link that leads out": (lambda path, _: path.symlink_to(put(path.parents[1] / "b.md", "x")), "leads out"),
    "not readable": (unreadable, "Permission denied"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_that_cannot_be_read_is_named_with_the_reason_and_costs_no_other(kind, home, project, monkeypatch):
    make, reason = HOSTILE[kind]
    make(project / "CLAUDE.md", monkeypatch)
    put(project / "CLAUDE.local.md", "Use npm.")
    session = session_of(ClaudeCode(folder=project).user("Use npm.").answer(), home)
    bad, good = files_below(home, session)
    assert bad.problem.startswith("CLAUDE.md ")
    assert reason in bad.problem
    assert (bad.text, bad.tokens, bad.versions, good.text) == ("", 0, (), "Use npm.")
    assert contradictions([bad, good], session) == []
    assert suggestion("Use npm.", [bad], session, session.main.branches[0], count).already is None


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("nowhere"),
        lambda path: path.symlink_to(path.name),
        lambda path: path.write_text(" \n"),
    ],
    ids=["a folder", "a link to nothing", "a link to itself", "empty"],
)
def test_what_loads_nothing_is_no_memory_file(make, home, project):
    make(project / "CLAUDE.md")
    assert files_of(ClaudeCode(folder=project).user("Hello there."), home) == []


def test_a_link_inside_of_the_project_is_followed_and_counts_once(home, project):
    put(project / "AGENTS.md", "Use npm.")
    commit(project, BEGIN - 100)
    (project / "CLAUDE.md").symlink_to("AGENTS.md")
    (project / "CLAUDE.local.md").symlink_to("AGENTS.md")
    (file,) = files_of(ClaudeCode(folder=project).user("Hello there."), home)
    assert (file.name, file.text, file.at_start.text) == ("CLAUDE.md", "Use npm.", "Use npm.")


@pytest.mark.parametrize("folder", ["", ".", "srv/shop", "/gone/for/good", "/x\0y", f"/{'x' * 300}", "{file}"])
def test_a_folder_that_is_gone_or_none_at_all_has_no_files_but_the_users(folder, home):
    put(home / "claude" / "CLAUDE.md", "The user's.")
    path = put(home / "file", "x")
    lines = ClaudeCode(folder=folder.replace("{file}", str(path))).answer(call("t1", file_path="a/b.py"))
    assert [file.text for file in files_of(lines.memory_file("a/c.md", "x"), home)] == ["The user's."]


def test_a_folder_that_may_not_be_entered_has_no_files(home, project, monkeypatch):
    stat = Path.stat

    def refuse(self, **kwargs):
        if self.is_relative_to(project):
            raise PermissionError(13, "Permission denied")
        return stat(self, **kwargs)

    monkeypatch.setattr(Path, "stat", refuse)
    assert files_of(ClaudeCode(folder=project).user("Hello there."), home) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from(["../secret.md", "a/../../secret.md", "link.md"]))))
@pytest.mark.slow
def test_whatever_paths_a_session_names_only_files_of_the_project_are_read(tmp_path_factory, paths):
    home = tmp_path_factory.mktemp("named")
    project = home / "shop"
    put(project / "CLAUDE.md", "Use npm.")
    put(home / "secret.md", "The key.")
    (project / "link.md").symlink_to(home / "secret.md")
    lines = ClaudeCode(folder=project).user("Hello there.")
    for path in paths:
        lines.answer(call("t1", file_path=path)).memory_file(path, "x")
    assert {file.text for file in files_of(lines, home)} <= {"Use npm.", ""}


def test_nothing_is_ever_written(home, project):
    put(project / "CLAUDE.md", "Use npm.")
    commit(project, BEGIN - 100)
    put(project / "CLAUDE.md", "Use yarn.")
    session = session_of(ClaudeCode(folder=project).user("Use pnpm, not npm.").answer(), home)
    before = fingerprint(home)
    files = files_below(home, session)
    contradictions(files, session)
    suggestion("Use pnpm, not npm.", files, session, session.main.branches[0], count)
    assert fingerprint(home) == before


# -- what a session contradicted -------------------------------------------------------------------

CONTRADICTING = [
    ("Always use npm.", "Use pnpm, not npm."),
    ("Keep lines below 100 characters.", "Lines may have at most 120 characters."),
    ("Indent with 2 spaces.", "Please indent with four spaces."),
    ("Run the full test suite before each commit.", "Do not run the full test suite any more, just the unit tests."),
    ("Use Python 3.11.", "We use Python 3.12 now."),
    ("Never push to main.", "Push to main directly."),
    ("Write comments that say why.", "Don’t write comments."),
    ("Store dates in UTC.", "Dates must not be stored in UTC."),
    ("No emojis in commits.", "Use emojis in commits."),
    ("Use mocks for the database.", "Use fakes instead of mocks for the database."),
]
AGREEING = [
    ("Use tabs.", "Use tabs in Python files."),
    ("Run the tests.", "Don't forget to run the tests."),
    ("Run the unit tests before committing.", "Do not run the integration tests before committing."),
    ("Use the database for sessions.", "Do not use the cache for sessions."),
    ("Indent Python with 4 spaces.", "Indent JavaScript with 2 spaces."),
    ("Use pnpm, not npm.", "Use pnpm."),
    ("Commit when tests pass.", "If tests fail, do not commit."),
    ("Run the tests.", "You did not run the tests."),
    ("Run tests with pytest.", "Why do you not run tests with pytest?"),
    ("Never push without asking.", "Always ask before pushing."),
    ("Step 2: write the tests.", "Step 3: write the tests."),
    ("Never edit generated files.", "Generated files are never edited."),
    ("Open the settings tab.", "No tabs."),
    ("Set the request timeout to 30 seconds.", "The request took 60 seconds."),
    ("Never modify files in vendor.", "I modified the files in vendor and it broke."),
    ("Deploy with make deploy.", "Do not deploy."),
    ("Never log secrets.", "Log requests, hide secrets, and never log secrets."),
    ("Validate input on the server.", "Validate the input on the client, not only on the server."),
    ("Add 3 tests for the parser.", "Add tests for the parser."),
    ("```\nUse 2 spaces.\n```", "Use 4 spaces."),
]


def found(text, statement, home):
    folder = home / "work"
    put(folder / "CLAUDE.md", text)
    session = session_of(ClaudeCode(folder=folder).user(statement).answer(), home)
    return contradictions(files_below(home, session), session)


@pytest.mark.parametrize(("text", "statement"), CONTRADICTING)
def test_a_sentence_that_the_user_contradicts_is_found_with_both_sides(text, statement, home):
    (one,) = found(f"# Rules\n\n1. {text}\n2. Something else entirely.\n", f"{statement}\nAnd go on.", home)
    assert (one.sentence, one.statement, one.item.line, one.file.name) == (text, statement, 1, "CLAUDE.md")


@pytest.mark.parametrize(("text", "statement"), [*AGREEING, *((text, text) for text, _ in CONTRADICTING)])
def test_a_sentence_about_something_else_or_with_the_same_meaning_is_none(text, statement, home):
    assert found(f"A list:\n\n{text}", statement, home) == []


def test_only_what_the_user_said_counts(home):
    put(home / "work" / "CLAUDE.md", "Always use npm.")
    opposite = "Never use npm."
    written = ClaudeCode(folder=home / "work").user("Hello there.").answer(opposite)
    written.user(opposite, isSidechain=True).user(f"<system-reminder>{opposite}</system-reminder>")
    session = session_of(written.compact(opposite), home)
    assert contradictions(files_below(home, session), session) == []


# -- what to add -----------------------------------------------------------------------------------


def suggested(statement, written, home, program=ClaudeCodeReader.program):
    session = session_of(written, home)
    files = files_below(home, session)
    session.program = program
    return suggestion(statement, files, session, session.main.branches[0], count)


def test_the_line_is_what_the_user_said_with_its_cost_in_every_call_after_it(home, project):
    put(project / "CLAUDE.md", "Use tabs.")
    written = ClaudeCode(folder=project).user("Hello there.").answer().user("Also: never\n touch  the schema!").answer()
    written.compact("We talked.").answer().answer()
    line = suggested("never touch the schema!", written, home)
    assert (line.line, line.name, line.tokens, line.calls) == ("- never touch the schema!", "CLAUDE.md", 5, 3)
    assert line.dollars == pytest.approx(3 * 5 * 0.5 / 1e6)
    assert line.already is None


def test_calls_count_since_whoever_said_it_and_however_late_in_a_long_message(home, project):
    spoken = ClaudeCode(folder=project).user("Hello there.").answer("I never touch it.").answer().answer()
    assert suggested("I never touch it.", spoken, home).calls == 2
    pasted = ClaudeCode(folder=project).user("word " * 9_000 + "Never touch the schema.").answer().answer()
    assert suggested("Never touch the schema.", pasted, home).calls == 2


def test_the_cost_is_unknown_for_an_unknown_model_and_of_no_call(home, project):
    written = ClaudeCode(folder=project).user("Never touch it.").answer(model="none-1")
    assert suggested("Never touch it.", written, home).dollars is None
    nothing = suggested("It was never said at all.", written, home)
    assert (nothing.calls, nothing.dollars) == (0, None)


@pytest.mark.parametrize(
    ("present", "program", "name"),
    [
        ([], "Claude Code", "CLAUDE.md"),
        ([], "Codex", "AGENTS.md"),
        (["CLAUDE.local.md", ".claude/rules/a.md"], "Claude Code", "CLAUDE.md"),
        ([".claude/CLAUDE.md"], "Claude Code", ".claude/CLAUDE.md"),
        (["CLAUDE.md", "api/CLAUDE.md"], "Claude Code", "api/CLAUDE.md"),
    ],
)
def test_it_goes_to_the_nearest_file_of_the_project_else_to_the_usual_one(present, program, name, home, project):
    for path in present:
        put(project / path, "Use tabs.")
    put(home / "claude" / "CLAUDE.md", "The user's.")
    written = ClaudeCode(folder=project / "api").user("Never touch it.").answer()
    assert suggested("Never touch it.", written, home, program=program).name == name


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("# Rules\n* **Never** touch the `schema`.\n", "**Never** touch the `schema`."),
        ("Never touch any part of the schema!", "Never touch any part of the schema!"),
        ("- Never\n  touch the schema.", "Never touch the schema."),
        ("Touch the schema. Never touch the schema.", "Never touch the schema."),
        ("Touch the schema.", None),
        ("Never touch it. The schema is old.", None),
        ("```\nNever touch the schema.\n```", None),
    ],
)
def test_a_file_that_says_it_already_is_named_with_its_sentence(text, quote, home, project):
    put(project / "CLAUDE.md", text)
    already = suggested("Never touch the schema.", ClaudeCode(folder=project).user("Hello there."), home).already
    assert (already and already[1]) == quote


def test_a_sentence_with_all_its_words_that_forbids_it_does_not_say_it(home, project):
    put(project / "CLAUDE.md", "Never touch the schema.")
    session = ClaudeCode(folder=project).user("Hello there.")
    assert suggested("Touch the schema.", session, home).already is None
    put(project / "CLAUDE.md", "Never touch the schema. Touch the schema, please.")
    assert suggested("Touch the schema.", session, home).already[1] == "Touch the schema, please."


def test_the_version_is_the_first_since_which_the_file_says_it(home, project):
    for at, text in enumerate(("Never touch it.", "Use tabs.", "Use tabs. Never touch it.", "Never touch it!")):
        put(project / "CLAUDE.md", text)
        commit(project, BEGIN + at)
    _, quote, version = suggested("Never touch it.", ClaudeCode(folder=project).user("Hello there."), home).already
    assert (quote, version.written.at) == ("Never touch it!", BEGIN + 2)


@given(st.text(max_size=200))
def test_a_line_has_the_words_of_the_statement_and_no_other(statement):
    line = suggestion(statement, [], CodingSession(Path("none"), ClaudeCodeReader), Branch(1, (), ()), count).line
    assert words(line) == words(statement)
    assert line.startswith("- ")
    assert "\n" not in line
