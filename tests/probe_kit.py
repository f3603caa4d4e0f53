"""A recorded conversation with a probe file, as a user's repository has it."""

import json
from functools import cache

from memory_core import FactExtractionMemoryBlock, Memory
from memory_core.bundles.bundle import write_bundle
from memory_inspector.files.files import export_configuration

NUTS = {"expect": "in_prompt", "phrase": "allergic to nuts", "from_turn": 1}


@cache
def recorded():
    """A bundle and its configuration: what is said first leaves the queue, and only the block `facts` keeps it."""
    blocks = [FactExtractionMemoryBlock(name="facts")]
    memory = Memory.from_defaults(session_id="dinner", token_limit=60, token_flush_size=10, memory_blocks=blocks)
    for said in ("I am allergic to nuts.", *(f"We talk about the weather of day {day} again." for day in range(1, 4))):
        memory.put({"role": "user", "content": said})
        memory.build_context()
        memory.put({"role": "assistant", "content": "Noted, in an answer of some length."})
    return write_bundle(memory.session.database, "dinner"), json.loads(export_configuration(memory))


def write_configuration(folder, *, enabled=True, more=()):
    """Write config.json into a folder, with the block `facts` on or off; `more` are further blocks."""
    configuration = recorded()[1]
    blocks = [{**block, "settings": {**block["settings"], "enabled": enabled}} for block in configuration["blocks"]]
    folder.joinpath("config.json").write_text(
        json.dumps({**configuration, "blocks": [*blocks, *more]}), encoding="utf-8"
    )


def write_probe_file(folder, probes, **changes):
    """Write a conversation, a configuration and a probe file into a folder; `changes` are other fields of that file."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("dinner.zip").write_bytes(recorded()[0])
    file = {"version": 1, "conversation": "dinner.zip", "configuration": "config.json", "probes": probes} | changes
    folder.joinpath("dinner.probes.json").write_text(json.dumps(file), encoding="utf-8")
