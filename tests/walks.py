"""A reader's walk through the engine: `python -m tests.walks put` (or `context`) prints the way of one call.

The reader follows a call into each function and method of the engine the first time it is made. A *stay* is a time in
one module: going into another is a stay, and so is coming back for the next call that is followed. Modules at
`memory_core`'s top, `memory` excepted, are not gone into: values and words that all rooms share, such as messages,
tokens and events. What a block does with its part of a call is a road of its own, so the session has no blocks.
"""

import sys
from pathlib import Path

import memory_core
from memory_core import ChatMessage, Memory

ENGINE = Path(memory_core.__file__).parent


def room(file):
    """The module of a file as a path in the engine; None for one that is not gone into."""
    path = Path(file)
    if not path.is_relative_to(ENGINE):
        return None
    module = path.relative_to(ENGINE).with_suffix("").as_posix()
    return module if "/" in module or module == "memory" else None


def walked(call):
    """The functions that a call enters for the first time: for each its depth, its module and its name."""
    seen, way, frames = set(), [], []

    def entered(frame, event, _):
        code = frame.f_code
        module = room(code.co_filename)
        if module is None:
            return
        if event == "call":
            # A comprehension belongs to the function it stands in.
            if code not in seen and not code.co_name.startswith("<"):
                seen.add(code)
                caller = frames[-1][1] if frames else None
                way.append((len(frames), caller, module, code.co_qualname))
            frames.append((frame, module))
        elif event == "return" and frames and frames[-1][0] is frame:
            frames.pop()

    sys.setprofile(entered)
    try:
        call()
    finally:
        sys.setprofile(None)
    return way


def stays(way):
    """The modules that a reader of this way is in, one after the other."""
    found = []
    for _, caller, module, _ in way:
        found += [place for place in (caller, module) if place is not None]
    return [place for number, place in enumerate(found) if number == 0 or place != found[number - 1]]


def walk(name):
    """The way of a `put` that flushes, or of a `build_context`, of a session that has been used before."""
    with Memory.from_defaults("s", token_limit=300, chat_history_token_ratio=0.5, token_flush_size=60) as memory:
        for number in range(30):
            memory.put(ChatMessage(content=f"I live in town {number} and like tea number {number} very much."))
        memory.build_context()
        if name == "context":
            return walked(memory.build_context)
        receipts = []
        while not receipts or not receipts[-1].flushed:
            way = walked(lambda: receipts.append(memory.put(ChatMessage(content="I like long walks."))))
        return way


if __name__ == "__main__":
    for depth, _, module, function in walk(sys.argv[1]):
        print("  " * depth, module, function)
