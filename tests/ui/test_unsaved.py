"""Drafts of one process: the newest of each place, and not without end."""

from memory_inspector.server import engine
from memory_inspector.server.engine import UnsavedDrafts


def test_a_place_holds_its_newest_draft_until_it_is_forgotten():
    drafts = UnsavedDrafts()
    drafts.keep(("text", "s", "A"), "one", 1)
    drafts.keep(("text", "s", "A"), "two", 1)
    assert (drafts.at(("text", "s", "A")).value, drafts.at(("text", "s", "B"))) == ("two", None)
    drafts.forget(("text", "s", "A"))
    drafts.forget(("text", "s", "A"))
    assert drafts.at(("text", "s", "A")) is None


def test_the_least_recently_typed_go_first(monkeypatch):
    monkeypatch.setattr(engine, "MAX_DRAFTS", 2)
    drafts = UnsavedDrafts()
    for name in ("A", "B", "A", "C"):
        drafts.keep((name,), name, 0)
    assert [name for name in "ABC" if drafts.at((name,))] == ["A", "C"]
