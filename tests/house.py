"""The house in numbers: `python -m tests.house` prints them, and tests/test_house.py holds them to their limits."""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

from memory_core.events import KINDS
from tests.walks import stays, walk

ROOT = Path(__file__).resolve().parent.parent
DOCSTRINGS, VAGUE_NAMES, VAGUE_VARIABLES, REPEATED_MODULES = 0, 0, 35, 0
PAIRS, LINES_PER_COMMENT, SHARED_CLASSES, ROOMS, ENGINE_LINES, FILES = 88, 17, 2, 15, 54_670, 459
"""The numbers that were reached: a change that lowers one lowers it here, and none raises it."""

KINDS_BY_NAME = {event.__name__: kind for kind, event in KINDS.items()}
PRODUCT = ("app.py", "serve.py", "memory_core", "memory_inspector", "ui", "pages")


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
    """Names of the event classes that a module tells apart: by type, as keys of a table, or by their kind."""
    by_kind = {KINDS_BY_NAME.get(name): name for name in kinds}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance" and len(node.args) == 2:
            asked = list(ast.walk(node.args[1]))
        elif isinstance(node, ast.Dict):
            asked = [part for key in node.keys for part in (key.elts if isinstance(key, ast.Tuple) else [key])]
        elif isinstance(node, ast.Compare):
            asked = [part for side in (node.left, *node.comparators) for part in getattr(side, "elts", [side])]
        elif isinstance(node, ast.Attribute) and node.attr == "kind":
            asked = [node.value]
        else:
            asked = [node.cls] if isinstance(node, ast.MatchClass) else []
        names = {part.id for part in asked if isinstance(part, ast.Name)}
        words = {by_kind.get(part.value) for part in asked if isinstance(part, ast.Constant)}
        yield from sorted(kinds & (names | words))


def events_and_modules():
    """Every (event class, engine module that asks for it)."""
    kinds = set(KINDS_BY_NAME)
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


OPENINGS = frozenset(
    (
        "What",
        "Whether",
        "Of",
        "By",
        "Why",
        "One",
        "Who",
        "Whose",
        "Which",
        "How",
        "Where",
        "When",
        "That",
        "As",
        "Is",
        "Are",
    )
)
"""Words with which no docstring opens: a docstring opens with a verb or with what the thing is."""

VAGUE = frozenset(
    ("told", "said", "standing", "known", "given", "each", "found", "there", "unsent", "own", "kept", "left")
)
"""Names that say nothing of what they hold."""


def definitions():
    """Every module, class and function, as its name and its syntax tree."""
    for file in files(*PRODUCT):
        yield file.stem, parsed(file)
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield node.name, node


def opening(tree):
    """The first word of a docstring; empty where there is none."""
    return (ast.get_docstring(tree) or "").partition(" ")[0].rstrip(",:")


def attribute_openings():
    """The first word of every docstring that stands below an attribute or a constant."""
    for file in files(*PRODUCT):
        for node in ast.walk(parsed(file)):
            body = node.body if isinstance(getattr(node, "body", None), list) else []
            for place, below in pairwise(body):
                text = getattr(getattr(below, "value", None), "value", None)
                if (
                    isinstance(place, ast.Assign | ast.AnnAssign)
                    and isinstance(below, ast.Expr)
                    and isinstance(text, str)
                ):
                    yield text.partition(" ")[0].rstrip(",:")


def assigned():
    """The name of every variable that is assigned or looped over."""
    for file in files(*PRODUCT):
        for node in ast.walk(parsed(file)):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def repeated_modules():
    """Module names that stand more than once in a shelf."""
    for shelf in ("memory_core", "memory_inspector", "ui", "pages"):
        names = Counter(file.stem for file in files(shelf) if file.stem != "__init__")
        yield from (name for name, count in names.items() if count > 1)


def documents():
    """The documents, as paths from the root."""
    patterns = ("*.md", "docs/**/*.md", "benchmarks/**/*.md", "memory_core/**/*.md", "examples/*.md")
    return sorted(file.relative_to(ROOT).as_posix() for pattern in patterns for file in ROOT.glob(pattern))


def comments_per_100_lines(*places):
    """Comments per 100 lines of code: lines that are neither blank nor of a docstring, a comment's own included."""
    comments = code = 0
    for file in files(*places):
        text = (ROOT / file).read_text(encoding="utf-8")
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        comments += sum(token.type == tokenize.COMMENT for token in tokens)
        strings = (node.value for node in ast.walk(parsed(file)) if isinstance(node, ast.Expr))
        docstrings = (node for node in strings if isinstance(node, ast.Constant) and isinstance(node.value, str))
        code += sum(map(bool, map(str.strip, text.splitlines())))
        code -= sum(node.end_lineno - node.lineno + 1 for node in docstrings)
    return 100 * comments / code


def largest_folder():
    """The most Python files in one folder of the product."""
    return max(Counter(file.parent for file in files(*PRODUCT)).values())


def lines_of(document):
    """The lines of a document."""
    return (ROOT / document).read_text(encoding="utf-8").splitlines()


def uncommented(file):
    """Count the lines of a file that are no comments."""
    return sum(not line.lstrip().startswith("#") for line in lines_of(file))


def shared_class_names():
    """Names that more than one class of the product has."""
    classes = Counter(name for name, node in definitions() if isinstance(node, ast.ClassDef))
    return sorted(name for name, number in classes.items() if number > 1)


def numbers():
    """Return every measure of the house with the most it may be."""
    from tests.capabilities import budgets  # which asks this module for the files

    pairs = events_and_modules()
    modules = Counter(kind for kind, _ in pairs)
    members, bases = public_members(parsed("memory_core/memory.py"), "Memory")
    return {
        "files at memory_core's top": (len(list((ROOT / "memory_core").glob("*.py"))) - 1, 13),
        "public members of Memory": (len(members), 35),
        "classes that Memory inherits from": (len(bases), 0),
        "engine modules that handle MessageAdded": (modules["MessageAdded"], 5),
        "engine modules that handle FactAdded": (modules["FactAdded"], 4),
        "pairs of event and engine module": (len(pairs), PAIRS),
        "docstrings that open with a word that none opens with": (
            sum(opening(tree) in OPENINGS for _, tree in definitions()),
            DOCSTRINGS,
        ),
        "docstrings of attributes that open with such a word": (
            sum(map(OPENINGS.__contains__, attribute_openings())),
            0,
        ),
        "modules, classes and functions with a name that says nothing": (
            sum(name.strip("_") in VAGUE for name, _ in definitions()),
            VAGUE_NAMES,
        ),
        "variables with a name that says nothing": (sum(name in VAGUE for name in assigned()), VAGUE_VARIABLES),
        "module names that stand twice in a shelf": (len(list(repeated_modules())), REPEATED_MODULES),
        "lines of code per comment": (round(100 / comments_per_100_lines(*PRODUCT)), LINES_PER_COMMENT),
        "files in the largest folder": (largest_folder(), 24),
        "words of the README": (sum(len(line.split()) for line in lines_of("README.md")), 1_400),
        "lines of the changelog": (len(lines_of("CHANGELOG.md")), 120),
        "characters of its longest line": (max(map(len, lines_of("CHANGELOG.md"))), 150),
        "rows of the glossary": (sum(line.startswith("| ") for line in lines_of("docs/glossary.md")) - 1, 60),
        "class names that stand twice": (len(shared_class_names()), SHARED_CLASSES),
        "rooms of the engine": (len(list((ROOT / "memory_core").glob("*/__init__.py"))), ROOMS),
        # Comments are asked for, so they do not count: a limit on them would be met by leaving them out.
        "lines of the engine without those of comments": (sum(map(uncommented, files("memory_core"))), ENGINE_LINES),
        "files of the product": (len(files(*PRODUCT)), FILES),
        **walks(),
        **budgets(),
    }


def walks():
    """The length of a reader's walk through one call, and the number of its modules."""
    measured = {}
    for name in ("put", "context"):
        way = stays(walk(name))
        measured[f"stays of a walk through {name}"] = (len(way), 40)
        measured[f"modules of a walk through {name}"] = (len(set(way)), 14)
    return measured


def caption(file):
    """The first phrase of a module's docstring, without its full stop: up to a colon, if that leaves five words."""
    first = (ast.get_docstring(parsed(file)) or "").partition("\n\n")[0].replace("\n", " ")
    sentence = re.split(r"[.;](?:\s|$)", first)[0]
    phrase = re.split(r":(?:\s|$)", sentence)[0]
    return phrase if len(phrase.split()) >= 5 else sentence


def module_map():
    """Every folder of the product with its rule, and every module with its caption, as markdown."""
    lines = ["# Modules", "", "Written by `python -m tests.house map` from the docstrings; a test holds it to them."]
    folder = None
    for file in sorted(files("memory_core", "memory_inspector", "ui", "pages"), key=lambda file: (file.parent, file)):
        if file.parent != folder:
            folder = file.parent
            rule = caption(folder / "__init__.py") if (ROOT / folder / "__init__.py").exists() else "One file a page"
            lines += ["", f"## `{folder.as_posix()}/`", "", f"{rule}.", ""]
        if file.stem != "__init__":
            lines.append(f"- `{file.stem}`: {caption(file)}")
    return "\n".join(lines) + "\n"


MAP = ROOT / "docs" / "modules.md"

if __name__ == "__main__":
    if sys.argv[1:] == ["map"]:
        MAP.write_text(module_map(), encoding="utf-8")
    measured = numbers()
    for what, (number, most) in measured.items():
        print(f"{number:>7,}  {what} (at most {most:,})")
    sys.exit(any(number > most for number, most in measured.values()))
