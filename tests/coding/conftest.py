"""Fixtures of the tests of coding agents' sessions."""

import os
from pathlib import Path

import pytest


@pytest.fixture
def forbidden(monkeypatch):
    """Let a file be forbidden, also to the superuser, who may read any."""
    names = set()
    is_open = os.open

    def refuse(path, *arguments, **more):
        if Path(os.fsdecode(path)).name in names:
            raise PermissionError(13, "Permission denied", str(path))
        return is_open(path, *arguments, **more)

    monkeypatch.setattr(os, "open", refuse)
    return names
