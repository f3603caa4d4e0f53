"""Frame of the programs here: each goes through the conversations, and writes what is known after them."""

import json
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from conversations import CONVERSATIONS, Conversation

Known = dict[str, list[str]]
"""Texts that a system holds after a conversation, by part."""
LIMIT, BUDGET = 300, 9
"""Tokens, which are words here: of a prompt, and of the messages that a queue keeps."""
Run = Callable[[Conversation, str], Known]
"""Function that plays a conversation, with the model at an address."""


def line(role: str, text: str | None) -> str:
    """Return a message as it is compared."""
    return f"{role}: {text}" if text else f"{role} calls a tool"


def run_all(run: Run, url: str, name: str) -> dict[str, Known]:
    """Return what is known after each conversation, by its name; `name` is the run's own."""
    return {
        conversation.name: run(conversation, f"{url}/{number}/{name}/v1")
        for number, conversation in enumerate(CONVERSATIONS)
    }


def main(run: Run, *packages: str) -> None:
    """Run as a program: the model's address and the file for the results are its arguments."""
    url, place = sys.argv[1:]
    known = run_all(run, url, "real")
    written = {"versions": {package: version(package) for package in packages}, "known": known}
    Path(place).write_text(json.dumps(written, ensure_ascii=False), encoding="utf-8")
