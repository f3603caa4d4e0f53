"""A folder of notes is a session of static blocks with every version that git has, and is never changed or run."""

import hashlib
import io
import os
import re
import stat
import zipfile

import pytest
from dulwich import porcelain

from memory_core import Database, FormatError
from memory_core.services import Services
from memory_inspector.files import git_history, notes
from memory_inspector.files.files import read_file
from memory_inspector.files.notes import read_folder
from memory_inspector.files.stored import import_with_state, read_stored

FIRST, SECOND = 1_700_000_000, 1_710_000_000


def commit(folder, message, at, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    porcelain.add(folder)
    who = b"Ann <ann@example.org>"
    porcelain.commit(folder, message=message, author=who, committer=who, commit_timestamp=at, author_timestamp=at)


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "memory"
    folder.mkdir()
    porcelain.init(folder)
    commit(folder, "Begin\n\nlong reason", FIRST, CLAUDE_md="Use tabs.\n", people__mira_md="Lives in Ghent.\n")
    commit(folder, "Mira moved", SECOND, people__mira_md="Lives in Lisbon.\n")
    return folder


def fingerprint(folder):
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def zipped(folder, **more):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                archive.write(path, f"{folder.name}/{path.relative_to(folder).as_posix()}")
        for name, data in more.items():
            archive.writestr(name, data)
    return packed.getvalue()


def archive_of(*members):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for info, data in members:
            archive.writestr(info, data)
    return packed.getvalue()


def versions(conversation):
    return {
        block.name: [(version.text, version.written.at, version.written.note) for version in block.versions]
        for block in conversation.blocks
    }


def notes_of(conversation):
    return [note if isinstance(note, str) else note.text for note in conversation.notes]


def test_each_commit_that_changes_a_note_is_a_version_with_its_time_author_and_reason(repository):
    before = fingerprint(repository)
    from_path = read_folder(repository)
    assert fingerprint(repository) == before
    from_zip = read_file("memory.zip", zipped(repository))
    assert (from_zip.kind, from_zip.label) == ("notes", "Folder of notes")
    for found in (from_path, from_zip.conversation()):
        had = versions(found)
        assert list(had) == ["CLAUDE.md", "people/mira.md"]
        assert [(text, at) for text, at, _ in had["people/mira.md"]] == [
            ("Lives in Ghent.\n", FIRST),
            ("Lives in Lisbon.\n", SECOND),
        ]
        assert [note[: len("Ann, ")] + note[len("Ann, ") + 7 :] for *_, note in had["people/mira.md"]] == [
            "Ann, : Begin",
            "Ann, : Mira moved",
        ]
        assert len(had["CLAUDE.md"]) == 1
        assert "example.org" not in str(had)


def test_what_is_not_committed_is_the_last_version(repository):
    (repository / "CLAUDE.md").write_text("Use spaces.\n")
    (repository / "new.md").write_text("New.\n")
    had = versions(read_folder(repository))
    assert [text for text, *_ in had["CLAUDE.md"]] == ["Use tabs.\n", "Use spaces.\n"]
    assert had["CLAUDE.md"][1][2] == "not committed"
    assert [(text, note) for text, _, note in had["new.md"]] == [("New.\n", None)]


def test_a_folder_inside_a_repository_has_its_part_of_the_history(repository):
    had = versions(read_folder(repository / "people"))
    assert [text for text, *_ in had["mira.md"]] == ["Lives in Ghent.\n", "Lives in Lisbon.\n"]


def test_a_hidden_folder_inside_a_repository_has_its_history_too(repository):
    commit(repository, "Notes", SECOND + 60, **{".claude/mem/n_md": "Likes tea.\n"})
    commit(repository, "More", SECOND + 120, **{".claude/mem/n_md": "Likes mint tea.\n"})
    had = versions(read_folder(repository / ".claude"))
    assert [text for text, *_ in had["mem/n.md"]] == ["Likes tea.\n", "Likes mint tea.\n"]


def test_a_linked_worktree_has_the_history_of_its_branch(repository, tmp_path):
    linked = tmp_path / "linked"
    porcelain.worktree_add(repository, linked, branch="other")
    assert versions(read_folder(linked)) == versions(read_folder(repository))
    (admin,) = (repository / ".git" / "worktrees").iterdir()
    (admin / "gitdir").write_text(f"{os.path.relpath(linked / '.git', admin)}\n")  # as git writes it on request
    assert versions(read_folder(linked)) == versions(read_folder(repository))
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "me.md").write_text("Somebody's own words.")
    (tmp_path / "claims" / ".git").write_text((linked / ".git").read_text())
    assert "it has no git history" in notes_of(read_folder(tmp_path / "claims"))


def test_a_worktree_whose_way_back_is_a_pipe_has_no_history(repository, tmp_path):
    linked = tmp_path / "linked"
    porcelain.worktree_add(repository, linked, branch="other")
    (admin,) = (repository / ".git" / "worktrees").iterdir()
    (admin / "gitdir").unlink()
    os.mkfifo(admin / "gitdir")
    assert "it has no git history" in notes_of(read_folder(linked))


def test_a_folder_without_git_has_one_version_each(tmp_path):
    (tmp_path / "a.md").write_text("Alone.")
    os.utime(tmp_path / "a.md", (FIRST, FIRST))
    found = read_folder(tmp_path)
    assert versions(found) == {"a.md": [("Alone.", FIRST, None)]}
    assert notes_of(found) == ["it has no git history"]


def test_as_a_session_its_notes_are_blocks_whose_versions_can_be_looked_at(repository):
    conversation = read_file("memory.zip", zipped(repository)).conversation()
    memory = import_with_state(conversation, Database.open(None), services=Services(), source="a folder")
    had = memory.blocks.revisions("people/mira.md")
    assert [(each.text, each.at) for each in had] == [("Lives in Ghent.\n", FIRST), ("Lives in Lisbon.\n", SECOND)]
    assert had[1].note.endswith(": Mira moved")
    assert "Lives in Lisbon." in str(memory.get("Where does Mira live?"))


def test_notes_that_are_larger_than_the_default_get_a_limit_that_holds_them(tmp_path):
    (tmp_path / "a.md").write_text("word " * 20_000)
    conversation = read_stored(read_folder(tmp_path), filename="x")
    memory = import_with_state(conversation, Database.open(None), services=Services(), source="a folder")
    assert memory.build_context("Hello").plan.total < memory.session.config.token_limit


# -- what anybody may send -------------------------------------------------------------------------


def test_hooks_and_configuration_of_a_repository_are_never_run(repository, tmp_path):
    run = tmp_path / "run"
    script = f"#!/bin/sh\ntouch {run}\n"
    for hook in ("post-checkout", "pre-commit", "fsmonitor-watchman", "post-index-change"):
        path = repository / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(script)
        path.chmod(0o755)
    with (repository / ".git" / "config").open("a") as config:
        config.write(f'[core]\n fsmonitor = "touch {run}"\n pager = "touch {run}"\n[include]\n path = /dev/zero\n')
        config.write(f'[filter "x"]\n smudge = "touch {run}"\n clean = "touch {run}"\n')
    (repository / ".gitattributes").write_text("* filter=x\n")
    assert len(versions(read_folder(repository))["people/mira.md"]) == 2
    assert len(versions(read_file("m.zip", zipped(repository)).conversation())["people/mira.md"]) == 2
    assert not run.exists()


def test_paths_that_lead_out_links_binaries_and_huge_files_are_left_out_and_said(tmp_path):
    link = zipfile.ZipInfo("link.md")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    data = archive_of(
        ("../../evil.md", "x"),
        ("/etc/evil.md", "x"),
        ("C:\\evil.md", "x"),
        (link, "/etc/passwd"),
        ("binary.md", b"\x00\x01"),
        ("latin.md", b"\xe9\xe8"),
        ("huge.md", "x" * (notes.MAX_NOTE_BYTES + 1)),
        ("code.py", "x = 1"),
        ("node_modules/readme.md", "x"),
        ("good.md", "Good."),
    )
    found = read_file("notes.zip", data).conversation()
    assert [block.name for block in found.blocks] == ["good.md"]
    assert set(notes_of(found)) == {
        "it has no git history",
        "3 files are left out: its path leads out of the folder",
        "1 file is left out: a link, or no ordinary file",
        "2 files are left out: not UTF-8 text, or larger than it says",
        "1 file is left out: larger than 256 KB",
        "1 file is left out: by its ending no note",
    }


def test_a_link_in_a_folder_is_not_followed(tmp_path):
    secret = tmp_path / "secret.md"
    secret.write_text("Secret.")
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "link.md").symlink_to(secret)
    (folder / "folder").symlink_to(tmp_path)
    (folder / "a.md").write_text("Mine.")
    assert list(versions(read_folder(folder))) == ["a.md"]


def test_an_archive_whose_repository_points_elsewhere_reads_nothing_there(repository, tmp_path):
    elsewhere = tmp_path / "memory2"
    elsewhere.mkdir()
    (elsewhere / "CLAUDE.md").write_text("Use tabs.\n")
    git = elsewhere / ".git"
    (git / "objects" / "info").mkdir(parents=True)
    (git / "objects" / "info" / "alternates").write_text(f"{repository}/.git/objects\n")
    head = next((repository / ".git" / "refs" / "heads").iterdir())
    (git / "HEAD").write_bytes(head.read_bytes())
    found = read_file("m.zip", zipped(elsewhere)).conversation()
    assert [text for text, *_ in versions(found)["CLAUDE.md"]] == ["Use tabs.\n"]
    assert notes_of(found) == ["its git repository has no commits"]


def test_a_repository_that_is_damaged_leaves_the_notes_and_a_note(repository):
    for path in (repository / ".git" / "objects").rglob("*"):
        if path.is_file():
            path.chmod(0o644)
            path.write_bytes(path.read_bytes()[:10])
    found = read_folder(repository)
    assert [len(each) for each in versions(found).values()] == [1, 1]
    assert "cannot be read" in notes_of(found)[0]


def test_an_archive_without_notes_or_cut_in_half_is_one_sentence(repository):
    whole = zipped(repository)
    for data, says in (
        (whole[: len(whole) // 2], "it is a damaged zip archive"),
        (archive_of(("a.py", "x")), "but not a bundle of Memory Inspector"),
        (archive_of(("node_modules/a.md", "x"), ("b.py", "x")), "holds no notes: files that end in .markdown, .md"),
    ):
        with pytest.raises(FormatError) as error:
            read_file("m.zip", data)
        assert says in str(error.value)
        assert str(error.value).endswith("Nothing was imported.")


def test_without_the_library_the_notes_come_without_history_and_the_extra_is_named(repository, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "dulwich.object_store", None)
    found = read_folder(repository)
    assert [len(each) for each in versions(found).values()] == [1, 1]
    assert "memory-inspector[stores]" in notes_of(found)[0]


REFS = "notes/.git/refs/heads"


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([(f"{REFS}/a", "1"), (f"{REFS}/a/b", "2")], f"holds {REFS}/a as a file and as a folder"),
        ([(f"{REFS}/a/b", "1"), (f"{REFS}/a-c", "2"), (f"{REFS}/a", "3")], f"holds {REFS}/a as a file and as a folder"),
        ([(f"{REFS}/a", "1"), (f"{REFS}/a", "2")], f"holds {REFS}/a twice"),
        ([("notes/b.md", "1"), ("notes\\b.md", "2")], "holds notes/b.md twice"),
        ([("notes/b.md", "1"), ("notes/b.md/c.md", "2")], "holds notes/b.md as a file and as a folder"),
        ([("notes/.git/packed-refs", "1" * (17 << 20))], ".git/packed-refs, which is larger than 16 MB"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_whose_paths_clash_is_one_sentence(members, why):
    data = archive_of(("notes/a.md", "# A"), *members)
    with pytest.raises(FormatError, match=re.escape(why)) as error:
        read_file("notes.zip", data)
    assert str(error.value).startswith("notes.zip ")
    assert str(error.value).endswith("Nothing was imported.")


def test_refs_that_differ_in_case_or_contradict_packed_ones_are_read_as_git_does(repository):
    head = (repository / ".git/refs/heads/master").read_text()
    packed = f"{'1' * 40} refs/heads/master\n"
    data = zipped(repository, **{"memory/.git/packed-refs": packed, "memory/.git/refs/heads/MASTER": "2" * 40})
    assert len(versions(read_file("m.zip", data).conversation())["people/mira.md"]) == 2
    assert head.strip() != "1" * 40


def test_an_archive_of_more_files_than_are_read_is_refused_before_they_are_listed():
    data = archive_of(("a.md", "# A")) + b"PK\x01\x02" * 50_000
    with pytest.raises(FormatError, match="holds more than 50,000 items"):
        read_file("notes.zip", data)


@pytest.mark.parametrize("place", ["HEAD", "packed-refs", "refs/heads/x", "objects/pack/pack-1.idx", "objects/ab/c"])
def test_a_pipe_in_a_repository_leaves_the_history_out_and_the_notes_are_read(repository, place):
    (repository / ".git" / place).unlink(missing_ok=True)
    (repository / ".git" / place).parent.mkdir(exist_ok=True)
    os.mkfifo(repository / ".git" / place)
    found = read_folder(repository)
    assert "its git history cannot be read: a file of it is a pipe or a device" in found.notes
    assert {block.name for block in found.blocks} >= {"CLAUDE.md"}


def test_a_history_that_takes_too_long_ends_early(repository, monkeypatch):
    monkeypatch.setattr(git_history, "MAX_SECONDS", -1)
    assert "the newest 0 commits are read" in read_folder(repository).notes
