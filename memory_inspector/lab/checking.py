"""Headless probe runs: replay a conversation under a configuration and report a table or JUnit XML.

def test_the_memory_keeps_what_it_must():
    checked = check("conversation.zip", "config.json", "probes.json")
    assert checked.passed, checked.table()
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from memory_core.bundles.bundle import Bundle, import_bundle
from memory_core.errors import ConfigError, FormatError
from memory_core.memory import Memory
from memory_core.services import Services
from memory_core.store.database import Database
from memory_core.text import printable
from memory_inspector.files.configuration import read_configuration
from memory_inspector.files.files import read_file
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import (
    Probe,
    Verdict,
    evaluate,
    is_probe_file,
    kept_probes,
    read_probe_file,
    read_probes,
)
from memory_inspector.lab.script import Script, script_from, script_of
from memory_inspector.lab.variants import Variant, variant_from, variant_of


@dataclass(frozen=True, slots=True)
class Checked:
    """Verdicts of probes under one configuration."""

    variant: Variant
    turns: int
    verdicts: tuple[Verdict, ...]
    unknown: tuple[str, ...]
    """Caveats as whole sentences: ways in which a live session may differ."""
    memory: Memory = field(repr=False, compare=False)
    """The replayed session, in this process only."""

    @property
    def passed(self) -> bool:
        return all(verdict.held for verdict in self.verdicts)

    def table(self) -> str:
        """Format a line per probe, with the reasons of failures, for a terminal."""
        held = sum(verdict.held for verdict in self.verdicts)
        name = printable(self.variant.name)
        lines = [f"{name}: {held} of {len(self.verdicts)} probes held over {self.turns:,} turns."]
        for verdict in self.verdicts:
            mark = "ok  " if verdict.held else "FAIL"
            at = f" (turn {verdict.turn})" if verdict.turn is not None else ""
            lines.append(f"  {mark}  {printable(str(verdict.probe))}{at}")
            if not verdict.held:
                lines.append(f"        {printable(verdict.why)}")
        return "\n".join([*lines, *(f"  Note: {printable(sentence)}" for sentence in self.unknown)])

    def junit(self) -> ElementTree.Element:
        """Return the run as a test suite of JUnit XML."""
        failures = sum(not verdict.held for verdict in self.verdicts)
        suite = ElementTree.Element(
            "testsuite", name=f"memory: {self.variant.name}", tests=str(len(self.verdicts)), failures=str(failures)
        )
        for verdict in self.verdicts:
            case = ElementTree.SubElement(
                suite, "testcase", classname=f"probes.{verdict.probe.expect}", name=_xml(str(verdict.probe))
            )
            if not verdict.held:
                where = f"turn {verdict.turn}" if verdict.turn is not None else "at the end"
                ElementTree.SubElement(case, "failure", message=where).text = _xml(verdict.why)
        return suite


def junit(runs: Sequence[Checked]) -> str:
    """Format probe runs as JUnit XML, with one test suite for each run."""
    suites = [run.junit() for run in runs]
    root = suites[0] if len(suites) == 1 else ElementTree.Element("testsuites")
    if len(suites) > 1:
        root.extend(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


@dataclass(frozen=True, slots=True)
class RecordedSession:
    """A conversation from a file, with its configuration and probes."""

    script: Script
    variant: Variant | None
    """Configuration of the session; None if the file holds only messages."""
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedCheck:
    """Inputs of a probe run."""

    script: Script
    variant: Variant
    probes: tuple[Probe, ...]


def check(
    conversation: str | Path,
    configuration: str | Path | None = None,
    probes: str | Path | Sequence[Probe] = (),
    *,
    services: Services | None = None,
) -> Checked:
    """Replay a conversation under a configuration and check probes.

    `conversation` is a bundle, a file of messages or a probe file; `configuration` and `probes` are files as the app
    exports them. Without them, those of the probe file apply, or those of the bundle. No model is called, nothing is
    stored.

    Raises:
        FormatError: A file is not in its format, or there is no probe.
        ConfigError: The configuration is invalid.
    """
    services = services or Services()
    prepared = prepare(conversation, configuration, probes, services=services)
    return check_variant(Player(services), prepared.script, prepared.variant, prepared.probes)


def prepare(
    conversation: str | Path,
    configuration: str | Path | None = None,
    probes: str | Path | Sequence[Probe] = (),
    *,
    services: Services,
) -> PreparedCheck:
    """Read the files of a probe run; arguments and errors as in `check`."""
    if is_probe_file(Path(conversation)):
        file = read_probe_file(Path(conversation), _text(Path(conversation)))
        conversation, configuration = file.conversation, configuration or file.configuration
        probes = probes or file.probes
    recorded = read_recorded(conversation, services)
    variant = _variant(configuration, recorded, Path(conversation).name)
    # A file of probes replaces those of the bundle even if it is empty; an empty sequence does not.
    from_file = isinstance(probes, str | Path)
    wanted = tuple(read_probes_file(probes) if isinstance(probes, str | Path) else probes or recorded.probes)
    # Refused, as a run without probes would pass in a test suite without having checked anything.
    if not wanted and from_file:
        raise FormatError(f"There is no probe to check: {Path(str(probes)).name} has none.")
    if not wanted:
        raise FormatError(f"There is no probe to check: {Path(conversation).name} has none, and none was given.")
    return PreparedCheck(recorded.script, variant, wanted)


def check_variant(player: Player, script: Script, variant: Variant, probes: Sequence[Probe]) -> Checked:
    """Replay a script under a configuration and check probes.

    Raises:
        ConfigError: The configuration is invalid.
    """
    played = player.play(script, variant)
    assert played is not None  # never None: it cannot be cancelled
    return Checked(variant, script.turns, tuple(evaluate(played.memory, probes)), played.unknown, played.memory)


def read_recorded(path: str | Path, services: Services) -> RecordedSession:
    """Read a conversation from a session's bundle, or from messages in any importable format.

    Raises:
        FormatError: The file cannot be read, or has no user message.
    """
    file = Path(path)
    preview = read_file(file.name, _bytes(file))
    if preview.bundle is not None:
        memory = _opened(preview.bundle, services)
        recorded = RecordedSession(script_of(memory), variant_of(memory, file.name), kept_probes(memory))
    elif preview.configuration is not None:
        raise FormatError(f"{file.name} is a configuration. A conversation is needed here: a bundle, or messages.")
    else:
        recorded = RecordedSession(script_from(preview.conversation().messages), None)
    if not recorded.script.turns:
        raise FormatError(f"{file.name} has no message of a user: nothing would be asked of its memory.")
    return recorded


def read_opened(path: str | Path) -> Memory:
    """Open the recorded session of a bundle.

    Raises:
        FormatError: The file is not a bundle.
    """
    file = Path(path)
    bundle = read_file(file.name, _bytes(file)).bundle
    if bundle is None:
        raise FormatError(f"{file.name} is no session bundle. Only a bundle records what happened, turn by turn.")
    return _opened(bundle, Services())


def _opened(bundle: Bundle, services: Services) -> Memory:
    # In memory: a check stores nothing.
    database = Database.open(None)
    return Memory.open(import_bundle(database, bundle), database, services=services)


def read_probes_file(path: str | Path) -> tuple[Probe, ...]:
    """Read probes from a list of probes, see `read_probes`, or from a probe file."""
    file = Path(path)
    if is_probe_file(file):
        return read_probe_file(file, _text(file)).probes
    return read_probes(_text(file), file.name)


def read_variant(path: str | Path) -> Variant:
    """Read a configuration from a file.

    Raises:
        FormatError: The file is not a configuration.
    """
    file = Path(path)
    return variant_from(read_configuration(_bytes(file), file.name), file.name)


def _variant(configuration: str | Path | None, recorded: RecordedSession, name: str) -> Variant:
    if configuration is not None:
        return read_variant(configuration)
    if recorded.variant is None:
        raise ConfigError(f"{name} holds only messages: say with which configuration they are to be played")
    return recorded.variant


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise FormatError(f"{file.name} cannot be read: {error.strerror or error}.") from error


def _text(file: Path) -> str:
    try:
        # Editors on Windows write a byte order mark, which is no part of the JSON.
        return _bytes(file).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError(f"{file.name} is not a text in UTF-8.") from error


def _xml(text: str) -> str:
    """Remove characters that XML forbids."""
    return "".join(
        c for c in text if c in "\t\n" or 0x20 <= ord(c) < 0xD800 or 0xE000 <= ord(c) < 0xFFFE or ord(c) > 0xFFFF
    )
