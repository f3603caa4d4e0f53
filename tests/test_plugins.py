"""Block classes from entry points: what works is offered, what is broken is named with its reason."""

import importlib.util
import re
from importlib.metadata import EntryPoint
from typing import ClassVar

import pytest

from memory_core.blocks import StaticMemoryBlock, plugins
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.plugins import GROUP, Plugin, load
from memory_core.errors import ConfigError


class Mentions(BaseMemoryBlock[str]):
    """Counts how often somebody is mentioned.

    More of it below.
    """

    count: int = 0

    def _get(self, messages=None, **kwargs):
        return f"{self.count} mentions"

    def _put(self, messages):
        self.count += len(messages)


class Quiet(Mentions):
    pass


class Needy(BaseMemoryBlock[str]):
    address: str


class Failing(BaseMemoryBlock[str]):
    def __init__(self, **values):
        raise RuntimeError("no network")


class Renamed(StaticMemoryBlock):
    pass


class Earlier(BaseMemoryBlock[str]):
    in_pieces: ClassVar[bool] = True

    def learn(self, batch):
        return None

    def meant_before(self, settings):
        return {}


class Teacher(Mentions):
    """Its put hook is of today, and its field and its helper are its own affair."""

    has_text: str = "messages"

    def learn(self, lesson):
        return lesson


def point(target, name="mentions"):
    return EntryPoint(name, f"{__name__}:{target}", GROUP)


def only(target):
    (found,) = load([point(target)])
    return found


def test_a_class_is_offered_under_its_name_with_what_it_says_of_itself():
    assert only("Mentions") == Plugin("mentions", "", f"{__name__}:Mentions", Mentions)
    assert only("Mentions").description == "Counts how often somebody is mentioned."
    assert only("Quiet").description == ""
    made = only("Mentions").make("People", priority=3)
    assert (type(made), made.name, made.priority) == (Mentions, "People", 3)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("Nothing", f"AttributeError: module '{__name__}' has no attribute 'Nothing'"),
        ("point", "it is no subclass of BaseMemoryBlock"),
        ("Needy", "it cannot be made from a name alone: 'address' has no default"),
        ("Renamed", "it is a built-in kind of block under another name"),
        (
            "Earlier",
            "it was written for an earlier version: meant_before is now legacy_defaults, learn is now prepare_write, "
            "in_pieces is now kind_in_pieces",
        ),
    ],
)
def test_one_that_cannot_be_used_says_why(target, reason):
    found = only(target)
    assert (found.block, found.error) == (None, reason)
    with pytest.raises(ConfigError, match='the plug-in "mentions" cannot be used'):
        found.make("People")


def test_a_plug_in_may_use_a_former_name_for_something_of_its_own():
    assert only("Teacher").error is None


@pytest.mark.parametrize(
    ("former", "says"),
    [
        ("models.base", "memory_core.models.base is now memory_core.models.protocols"),
        ("store.vector_index", "memory_core.store.vector_index is now memory_core.vectors.vector_index"),
        ("sessions.retention", "memory_core.sessions.retention is now memory_inspector.upkeep.retention"),
        ("history.replay", "memory_core.history.replay is now memory_inspector.lab.sizes"),
        ("durations", "memory_core.durations is now memory_core.process"),
        ("testing.block_promises", "memory_core.testing is now memory_inspector.checks"),
        ("interop.bundle", "memory_core.interop is now memory_inspector.files (bundles: memory_core.bundles)"),
    ],
    ids=["renamed", "moved", "moved out", "merged elsewhere", "merged", "moved with its package", "split"],
)
def test_a_plug_in_that_imports_a_module_by_its_former_name_is_told_the_new_one(former, says, tmp_path, monkeypatch):
    name = former.replace(".", "_")
    (tmp_path / f"{name}.py").write_text(f"from memory_core.{former} import anything")
    monkeypatch.syspath_prepend(tmp_path)
    (found,) = load([EntryPoint("a", f"{name}:Block", GROUP)])
    assert found.error == f"it was written for an earlier version: {says}"


def is_gone(name):
    """Whether nothing is left of a module; Git leaves the folder of a package where Python compiled it."""
    spec = importlib.util.find_spec(f"memory_core.{name}")
    return spec is None or spec.origin is None


def test_every_module_that_moved_is_where_it_is_said_to_be():
    for former, name in plugins.FORMER_MODULES.items():
        assert is_gone(former)
        assert importlib.util.find_spec(f"memory_core.{name}") is not None
    for former, names in plugins.FORMER_ROOMS.items():
        assert is_gone(former)
        assert all(importlib.util.find_spec(name) for name in re.findall(r"[\w.]*_[\w.]+", names))


def test_a_module_that_is_missing_or_ends_the_process_does_no_harm(tmp_path, monkeypatch):
    (tmp_path / "ending_blocks.py").write_text("raise SystemExit(3)")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("a", "missing_blocks:Block", GROUP), EntryPoint("b", "ending_blocks:Block", GROUP)]
    assert [found.error for found in load(points)] == [
        "ModuleNotFoundError: No module named 'missing_blocks'",
        "it ended the process when it was imported",
    ]


def test_the_same_entry_point_twice_is_one():
    assert len(load([point("Mentions"), point("Mentions"), point("Quiet", "b")])) == 2


def test_a_class_that_fails_while_a_block_is_made_says_so():
    with pytest.raises(ConfigError, match='"mentions" could not make a block: RuntimeError: no network'):
        only("Failing").make("People")
    with pytest.raises(ConfigError, match="priority must be at least 0, not -1"):
        only("Mentions").make("People", priority=-1)


def test_a_stored_type_finds_its_plug_in(monkeypatch):
    points = [point("Mentions"), point("Needy", "needy"), point("Failing", "failing")]
    monkeypatch.setattr(plugins, "plugins", lambda: load(points))
    assert plugins.made(Mentions(name="x").type, "People") == Mentions(name="People")
    assert plugins.made(f"{__name__}.Failing", "People") is None
    assert plugins.made("their.package.Echo", "People") is None
    assert plugins.offered(Mentions(name="x").type) == only("Mentions")
    assert plugins.offered(Needy(name="x", address="y").type) is None
    assert plugins.offered("static") is None


def test_the_packages_of_this_process_are_looked_through_once():
    assert plugins.plugins() is plugins.plugins()
