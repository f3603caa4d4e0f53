"""pytest plugin: fixtures with a memory, probe files as tests, and a report of their failures.

Installed with the package. The engine is imported only when a fixture or an option asks for it, so that other test
runs start as quickly as without the plugin.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from memory_core import Memory
    from memory_inspector.lab.checking import Checked

PROPERTY = "memory_inspector_failure"
"""Name of the test report's property that holds a failure's page, as texts, which can pass between processes."""

_pages: list[list[str]] = []
"""Failures of this run: name of the test, explanation, and page as HTML."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("memory-inspector", "memory of LLM agents")
    group.addoption(
        "--memory", action="append", metavar="PATH", help="a probe file, or a folder of them, to run as tests"
    )
    group.addoption("--memory-config", metavar="FILE", help="play all probe files under this configuration")
    group.addoption("--memory-report", metavar="FILE", help="write the prompts and traces of failures as one HTML file")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "memory(recipe=None, **settings): settings of the fixture `memory`, as of `Memory.from_defaults`"
    )
    _pages.clear()
    # The files of the option are collected beside those of the command line, or alone if it names none.
    for place in config.getoption("--memory") or ():
        path = (config.invocation_params.dir / place).resolve()
        if not path.exists():
            raise pytest.UsageError(f"--memory: there is no file or folder {place}")
        if config.args_source is not pytest.Config.ArgsSource.ARGS:
            config.args = []
            config.args_source = pytest.Config.ArgsSource.ARGS
        # A worker of pytest-xdist already has it, from the process that started it.
        if str(path) not in config.args:
            config.args.append(str(path))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> "ProbeFileItems | None":
    if not parent.config.getoption("--memory"):
        return None
    from memory_inspector.lab.probes import is_probe_file

    if not is_probe_file(file_path):
        return None
    collector: ProbeFileItems = ProbeFileItems.from_parent(parent, path=file_path)
    return collector


class ProbeFileItems(pytest.File):
    """A probe file; its conversation is played once, when its first probe runs."""

    _checked: "Checked | None" = None

    def collect(self) -> Iterator[pytest.Item]:
        from memory_core.text import printable

        for number, probe in enumerate(self.prepared().probes):
            yield ProbeItem.from_parent(self, name=printable(str(probe)), number=number)

    def prepared(self) -> Any:
        from memory_core.errors import MemoryInspectorError
        from memory_core.services import Services
        from memory_core.text import printable
        from memory_inspector.lab.checking import prepare

        try:
            return prepare(self.path, _config_file(self.config), services=Services())
        except MemoryInspectorError as error:
            raise self.CollectError(printable(str(error))) from None

    def checked(self) -> "Checked":
        """Return the results of all probes of this file."""
        if self._checked is None:
            from memory_core.services import Services
            from memory_inspector.lab.checking import check_variant
            from memory_inspector.lab.playing import Player

            prepared = self.prepared()
            self._checked = check_variant(Player(Services()), prepared.script, prepared.variant, prepared.probes)
        return self._checked

    def teardown(self) -> None:
        if self._checked is not None:
            self._checked.memory.session.database.close()
            self._checked = None


class ProbeItem(pytest.Item):
    """Test of a single probe."""

    parent: ProbeFileItems

    def __init__(self, *, number: int, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.number = number

    def runtest(self) -> None:
        from memory_core.text import printable

        checked = self.parent.checked()
        for sentence in checked.unknown:
            self.add_report_section("call", "note", printable(sentence))
        # Seen although all probes hold: another memory was tested than the one that is configured.
        for sentence in checked.variant.left_out if self.number == 0 else ():
            warnings.warn(pytest.PytestWarning(printable(sentence)), stacklevel=1)
        verdict = checked.verdicts[self.number]
        if not verdict.held:
            from memory_inspector.checks.prompt_assertions import PromptAssertionError

            raise PromptAssertionError(checked.memory, verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if hasattr(excinfo.value, "failed_prompt"):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, self.name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Any:
    """Keep the page of a failed probe or prompt assertion, while its memory is still open."""
    report = yield
    failed = getattr(call.excinfo.value, "failed_prompt", None) if call.excinfo is not None else None
    if call.when == "call" and item.config.getoption("--memory-report") and failed is not None:
        from memory_inspector.lab.failure_patterns import failure_page

        memory, failure = failed
        page = failure_page(memory, failure.verdict).to_html()
        report.user_properties.append((PROPERTY, [item.nodeid, str(failure), page]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call":
        _pages.extend([str(text) for text in value] for name, value in report.user_properties if name == PROPERTY)  # type: ignore[attr-defined]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Write the report of failed probes and prompt assertions, if `--memory-report` is given; workers of pytest-xdist
    leave it to the main process."""
    name = config.getoption("--memory-report")
    if not name or hasattr(config, "workerinput"):
        return
    from memory_inspector.wording.check_report import html_report

    path = config.invocation_params.dir / name
    path.write_text(html_report(_pages), encoding="utf-8")
    terminalreporter.write_line(f"{len(_pages)} failed prompt{'s' * (len(_pages) != 1)} in {name}")


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> "Iterator[Memory]":
    """Return a new memory in this process, without a model; the marker `memory` sets its recipe and settings."""
    from memory_core import Database, Memory, Services

    marker = request.node.get_closest_marker("memory")
    recipe = marker.args[0] if marker is not None and marker.args else None
    # Set explicitly, so that no environment variable puts a test's memory into a file or on a server.
    database = Database.open(None)
    settings: dict[str, Any] = {"session_id": "test", "database": database, "services": Services()}
    settings |= marker.kwargs if marker is not None else {}
    with Memory.from_recipe(recipe, **settings) if recipe else Memory.from_defaults(**settings) as made:
        yield made
    database.close()


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> "Iterator[Callable[..., Memory]]":
    """Return a function that replays a conversation and returns its memory.

        memory = replay("session.zip", config={"token_limit": 2000, "facts.enabled": False})

    `session.zip` is a bundle or a file of messages, in the folder of the test. `config` is a configuration file, or
    a dict of changes to the bundle's configuration. Messages without a configuration are played with the defaults.
    """
    from memory_core.services import Services
    from memory_core.text import printable
    from memory_inspector.lab.checking import read_recorded, read_variant
    from memory_inspector.lab.playing import Player
    from memory_inspector.lab.variants import Variant

    services, folder = Services(), request.path.parent
    player = Player(services)
    with ExitStack() as closing:

        def played(conversation: str | Path, config: str | Path | Mapping[str, Any] | None = None) -> "Memory":
            recorded = read_recorded(folder / conversation, services)
            variant = recorded.variant or Variant("defaults", {}, ())
            if isinstance(config, Mapping):
                variant = variant.changed("changed", **config)
            elif config is not None:
                variant = read_variant(folder / config)
            for sentence in variant.left_out:
                request.node.warn(pytest.PytestWarning(printable(sentence)))
            result = player.play(recorded.script, variant)
            assert result is not None  # never None: it cannot be cancelled
            closing.callback(result.close)
            return result.memory

        yield played


def _config_file(config: pytest.Config) -> Path | None:
    name = config.getoption("--memory-config")
    return config.invocation_params.dir / name if name else None
