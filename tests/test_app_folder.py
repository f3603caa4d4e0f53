"""Where the app keeps its data when nobody names a folder."""

import logging
from pathlib import Path

import pytest

from memory_core.config import Settings


@pytest.fixture
def places(tmp_path, monkeypatch):
    home, here = tmp_path / "home", tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.delenv("MEMORY_INSPECTOR_HOME", raising=False)
    return home, here


def test_it_is_in_the_users_home_and_only_the_users(places, caplog):
    home, _ = places
    folder = Settings.of_the_app().home
    assert folder == home / ".memory-inspector"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert not caplog.records


def test_where_that_cannot_be_made_it_is_in_the_working_directory_and_both_are_named(places, caplog):
    home, here = places
    home.write_text("This is no folder.")
    with caplog.at_level(logging.WARNING):
        assert Settings.of_the_app().home == here / ".memory-inspector"
    [record] = caplog.records
    assert str(home) in record.getMessage()
    assert str(here) in record.getMessage()


def test_a_folder_that_is_named_is_taken_as_it_is(places, monkeypatch, tmp_path):
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path / "named"))
    assert Settings.of_the_app().home == tmp_path / "named"
    assert not (tmp_path / "named").exists()
