"""The rules of the house that no linter knows: who may import whom, and what a page may draw with.

Each check is a function from source text to findings and is itself shown to find what it is for.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.capabilities import CAPABILITIES, capability_of, matches
from tests.house import MAP, PRODUCT, ROOT, files, handled, module_map, numbers, parsed, public_members

APP = (
    "app.py",
    "serve.py",
    "pages",
    "ui",
    *(
        f"memory_inspector/{room}"
        for room in ("commands", "demo", "figures", "notebook", "reading", "server", "wording")
    ),
)
UNTRACKED = {
    ".git", ".venv", "__pycache__", ".mypy_cache", ".ruff_cache", ".hypothesis", ".pytest_cache", ".home", "site",
}  # fmt: skip
TEXT = {".py", ".toml", ".md", ".txt", ".svg", ".yml", ".yaml", ".json", ".jsonl", ".cfg", ".ini", ".sh", ""}

MARKDOWN = {
    "badge", "button", "caption", "error", "expander", "header", "info", "link_button", "markdown", "page_link",
    "popover", "status", "subheader", "success", "table", "title", "toast", "toggle", "warning",
}  # fmt: skip
"""Streamlit calls that read their first argument as markdown."""

WORDS_OF_OTHERS = {
    "answer", "body", "content", "error", "exc", "failure", "fact", "label", "message", "name", "prompt", "reply",
    "text",
}  # fmt: skip
"""Names under which a user's, a model's or an exception's own words travel."""

SAFE = {"ago", "count", "plain", "quoted", "tokens", "len", "int"}
"""Calls whose result holds no markup, whatever goes in."""


def findings(check, places):
    """`file:line: what` for everything `check` finds there."""
    return [f"{file}:{line}: {what}" for file in files(*places) for line, what in check(parsed(file), file)]


def imported(tree, file):
    """(line, dotted module) of every import, also inside functions and under TYPE_CHECKING."""
    package = file.with_suffix("").parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(part for part in (base, node.module) if part)
            yield node.lineno, module
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def imports_of(*forbidden):
    def check(tree, file):
        for line, module in imported(tree, file):
            if any(module == name or module.startswith(name + ".") for name in forbidden):
                yield line, f"imports {module}"

    return check


def calls(tree):
    """(call, name of what is called): `st.html(x)` and `html(x)` are both `html`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = node.func
            yield node, function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def keyword(call, name):
    return next((given.value for given in call.keywords if given.arg == name), None)


def calls_of(*names):
    def check(tree, file):
        yield from ((call.lineno, f"calls {name}") for call, name in calls(tree) if name in names)

    return check


def html_elsewhere(tree, file):
    if file.as_posix() not in ("ui/parts/budget_card.py", "ui/parts/components.py"):
        yield from calls_of("html", "iframe")(tree, file)


def keywords_of(*names):
    def check(tree, file):
        for call, _ in calls(tree):
            yield from ((call.lineno, f"passes {name}=") for name in names if keyword(call, name) is not None)

    return check


def foreign_page_icon(tree, file):
    for call, _ in calls(tree):
        icon = keyword(call, "page_icon")
        if isinstance(icon, ast.Constant) and str(icon.value).startswith((":material", "http")):
            yield call.lineno, f"page_icon={icon.value!r}"


def chart_without_name(tree, file):
    for call, name in calls(tree):
        if name == "plotly_chart":
            missing = [given for given in ("key", "alt") if keyword(call, given) is None]
            if missing:
                yield call.lineno, f"plotly_chart without {' and '.join(missing)}"


def unguarded_page(tree, file):
    """A page whose first statement after its docstring and imports is not `require_shell()`."""
    body = tree.body[1:] if ast.get_docstring(tree) else tree.body
    first = next((node for node in body if not isinstance(node, ast.Import | ast.ImportFrom)), None)
    if first is None or ast.unparse(first) != "require_shell()":
        yield getattr(first, "lineno", 1), "does not begin with require_shell()"


def unescaped_words(tree, file):
    """Someone's own words given to a call that reads markdown, without `plain` around them."""
    for call, name in calls(tree):
        if name in MARKDOWN and isinstance(call.func, ast.Attribute) and call.args:
            yield from ((call.lineno, f"{name} of unescaped {word}") for word in bare_words(call.args[0]))


def bare_words(node):
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called in SAFE:
            return
    own = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    if own in WORDS_OF_OTHERS:
        yield own
        return
    for child in ast.iter_child_nodes(node):
        yield from bare_words(child)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "places"),
    [
        pytest.param(imports_of("streamlit", "plotly", "ui", "pages"), ["memory_core"], id="the engine knows no app"),
        pytest.param(
            imports_of(*(f"memory_core.{name}" for name in ("store", "models", "blocks", "memory"))),
            ["memory_core/planning"],
            id="planning knows no store, model or block",
        ),
        pytest.param(imports_of("pages"), ["ui"], id="what pages share knows no page"),
        pytest.param(imports_of("pages", "ui"), ["memory_inspector"], id="what needs no Streamlit knows no page"),
        pytest.param(imports_of("asyncio"), APP, id="pages do not touch asyncio"),
        pytest.param(keywords_of("unsafe_allow_html", "unsafe_allow_javascript"), APP, id="no raw HTML in markdown"),
        pytest.param(keywords_of("use_container_width"), APP, id="no deprecated width"),
        pytest.param(html_elsewhere, APP, id="HTML only where it is built of numbers"),
        pytest.param(calls_of("write", "write_stream"), APP, id="nothing guesses how to draw a value"),
        pytest.param(unescaped_words, APP, id="nobody's words become markdown"),
        pytest.param(unguarded_page, ["pages"], id="every page is a good first request"),
        pytest.param(foreign_page_icon, APP, id="the favicon is a local file"),
        pytest.param(chart_without_name, APP, id="every chart has a key and words"),
    ],
)
def test_the_house_rule_holds(check, places):
    assert findings(check, places) == []


@pytest.mark.parametrize(
    ("check", "source", "file"),
    [
        (imports_of("streamlit"), "def f():\n    import streamlit.runtime", "memory_core/a.py"),
        (imports_of("memory_core.store"), "from ..store import tables", "memory_core/planning/flush.py"),
        (imports_of("memory_core.store"), "from .. import store", "memory_core/planning/flush.py"),
        (imports_of("memory_core.memory"), "from memory_core import memory", "memory_core/planning/flush.py"),
        (keywords_of("unsafe_allow_html"), "st.markdown(x, unsafe_allow_html=True)", "pages/a.py"),
        (html_elsewhere, "column.html(x)", "pages/a.py"),
        (calls_of("write", "write_stream"), "st.write_stream(job.follow())", "pages/a.py"),
        (unescaped_words, "st.markdown(message.text)", "pages/a.py"),
        (unescaped_words, "column.error(f'Failed: {error}')", "ui/a.py"),
        (unescaped_words, "st.caption('Turn ' + str(block.label))", "pages/a.py"),
        (unguarded_page, "import streamlit as st\n\nst.title('Chat')\nrequire_shell()", "pages/a.py"),
        (foreign_page_icon, "st.set_page_config(page_icon=':material/forum:')", "app.py"),
        (chart_without_name, "st.plotly_chart(figure, key='a')", "pages/a.py"),
    ],
)
def test_each_check_finds_what_it_is_for(check, source, file):
    assert len(list(check(ast.parse(source), Path(file)))) >= 1


@pytest.mark.parametrize(
    ("check", "source", "file"),
    [
        (imports_of("ui"), "import uitools", "memory_core/a.py"),
        (imports_of("memory_core.memory"), "from memory_core.messages import Message", "memory_core/planning/flush.py"),
        (unguarded_page, "'''Chat.'''\nfrom ui.tab.nav import require_shell\nrequire_shell()", "pages/a.py"),
        (html_elsewhere, "st.html(x)", "ui/parts/components.py"),
        (unescaped_words, "st.markdown(f'{plain(message.text)} {tokens(n)}')\nst.text(message.text)", "pages/a.py"),
        (chart_without_name, "st.plotly_chart(figure, key='a', alt='b')", "pages/a.py"),
    ],
)
def test_no_check_finds_what_is_allowed(check, source, file):
    assert list(check(ast.parse(source), Path(file))) == []


def texts():
    """(path, text) of every text file that belongs to the project."""
    for path in sorted(ROOT.rglob("*")):
        inside = path.relative_to(ROOT)
        ours = not any(part in UNTRACKED or part.endswith(".egg-info") for part in inside.parts)
        if ours and path.is_file() and path.suffix in TEXT:
            yield inside, path.read_text(encoding="utf-8", errors="replace")


# Put together here, so that this file does not hold what it looks for.
MACHINE_PATHS = re.compile(r"(?<![\w.])(/(home|Users|root|work)" + r"/\w|[A-Z]:\\Users)")
REGISTRIES = re.compile("|".join((r"pypi\." + "org", "python" + "hosted", "npm" + "js", r"deb\.deb" + "ian")))


@pytest.mark.slow
@pytest.mark.parametrize("pattern", [MACHINE_PATHS, REGISTRIES], ids=["developer's machine", "package registry"])
def test_no_file_names_a_place_only_its_author_has(pattern):
    assert [f"{path}: {found.group()}" for path, text in texts() for found in pattern.finditer(text)] == []


def test_words_have_one_spelling():
    spelling = "learn" + "t"
    wrong = [
        str(file)
        for file in files("ui", "pages", "memory_core", "memory_inspector")
        if re.search(rf"\b{spelling}\b", (ROOT / file).read_text(encoding="utf-8"), re.IGNORECASE)
    ]
    assert wrong == []


def test_the_frame_stays_short():
    assert len((ROOT / "app.py").read_text(encoding="utf-8").splitlines()) < 60


def test_the_map_is_the_one_that_the_docstrings_give():
    assert MAP.read_text(encoding="utf-8") == module_map(), "run python -m tests.house map"


@pytest.mark.slow
def test_the_house_keeps_its_numbers():
    # All in one test: parameters would be measured wherever tests are collected, which took 7 s in each process.
    assert {what: (number, most) for what, (number, most) in numbers().items() if number > most} == {}


def test_every_pattern_of_a_capability_names_a_module_of_it():
    modules = [(file, capability_of(file)) for file in files(*PRODUCT)]
    for capability, (_, patterns) in CAPABILITIES.items():
        its = [file for file, name in modules if name == capability]
        assert [pattern for pattern in patterns.split() if not any(matches(file, pattern) for file in its)] == []


def test_what_is_measured_is_found():
    tree = ast.parse(
        "class A(B):\n    def one(self): self.two = isinstance(x, (C, D))\n    def _no(self): self._three = 1"
    )
    assert list(handled(tree, {"C", "D", "E"})) == ["C", "D"]
    members, bases = public_members(tree, "A")
    assert members == {"one", "two"}
    assert len(bases) == 1
