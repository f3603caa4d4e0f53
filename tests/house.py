"""The house in numbers: `python -m tests.house` prints them, and tests/test_house.py holds them to their limits."""

import ast
from collections import Counter
from functools import cache
from pathlib import Path

from memory_core.events import KINDS

ROOT = Path(__file__).resolve().parent.parent
PRODUCT = ("app.py", "serve.py", "memory_core", "ui", "pages")


def files(*places):
    """The Python files of these places, as paths from the root, in order."""
    paths = [ROOT / place for place in places]
    found = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))]
    return sorted(file.relative_to(ROOT) for file in found)


@cache
def parsed(file):
    """Its syntax tree, read once for all that ask."""
    return ast.parse((ROOT / file).read_text(encoding="utf-8"))


def handled(tree, kinds):
    """Names of the event classes that a module asks for with `isinstance`."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "isinstance" and len(call.args) == 2:
            yield from (node.id for node in ast.walk(call.args[1]) if isinstance(node, ast.Name) and node.id in kinds)


def events_and_modules():
    """Every (event class, engine module that asks for it)."""
    kinds = {event.__name__ for event in KINDS.values()}
    return {(kind, file) for file in files("memory_core") for kind in handled(parsed(file), kinds)}


def public_members(tree, name):
    """Public methods, properties and attributes of a class; and its bases."""
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    methods = {node.name for node in found.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    attributes = {
        target.attr
        for node in ast.walk(found)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self"
    }
    return {each for each in methods | attributes if not each.startswith("_")}, found.bases


def numbers():
    """What is measured, and the most it may be; None where there is no limit."""
    pairs = events_and_modules()
    modules = Counter(kind for kind, _ in pairs)
    members, bases = public_members(parsed("memory_core/memory.py"), "Memory")
    return {
        "files at memory_core's top": (len(list((ROOT / "memory_core").glob("*.py"))) - 1, 12),
        "public members of Memory": (len(members), 31),
        "classes that Memory inherits from": (len(bases), 0),
        "engine modules that handle MessageAdded": (modules["MessageAdded"], 2),
        "engine modules that handle FactAdded": (modules["FactAdded"], 4),
        "pairs of event and engine module": (len(pairs), 95),
        "lines of the product": (
            sum(len((ROOT / file).read_text(encoding="utf-8").splitlines()) for file in files(*PRODUCT)),
            None,
        ),
    }


if __name__ == "__main__":
    for what, (number, most) in numbers().items():
        print(f"{number:>7,}  {what}" + (f" (at most {most})" if most is not None else ""))
