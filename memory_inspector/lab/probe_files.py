"""Probe files: a conversation, a configuration and the probes to check on them, named in one JSON file.

    {"version": 1, "conversation": "dinner.zip", "configuration": "config.json",
     "probes": [{"expect": "in_prompt", "phrase": "allergic to nuts", "from_turn": 4}]}

Paths are relative to the file. Without `configuration` and `probes`, those of the conversation's bundle apply.
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from memory_core.bundles.bundle_checks import first_problem
from memory_core.errors import FormatError
from memory_inspector.lab.probes import MAX_PROBES, AnyProbe, Probe

SUFFIX = ".probes.json"
"""End of a probe file's name; tests and CI servers find the files of a folder by it."""

VERSION = 1
"""Version of the format that this release reads."""


@dataclass(frozen=True, slots=True)
class ProbeFile:
    """A parsed probe file."""

    path: Path
    conversation: Path
    configuration: Path | None
    """Path of the configuration; None: that of the bundle."""
    probes: tuple[Probe, ...]
    """The probes to check; empty: those of the bundle."""


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: int
    conversation: str
    configuration: str | None = None
    probes: list[AnyProbe] = []


def is_probe_file(path: Path) -> bool:
    """Return whether a path has the name of a probe file."""
    return path.name.endswith(SUFFIX)


def find_probe_files(path: Path) -> list[Path]:
    """Return the probe files of a folder and its subfolders in alphabetical order, or the given file itself.

    Raises:
        FormatError: There is no such file or folder, or the folder has no probe file.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FormatError(f"{path.name} cannot be read: there is no such file or folder.")
    files = sorted(file for file in path.rglob(f"*{SUFFIX}") if file.is_file())
    if not files:
        raise FormatError(f"{path.name or path} has no probe file: none of its files ends in {SUFFIX}.")
    return files


def read_probe_file(path: Path, text: str) -> ProbeFile:
    """Parse a probe file.

    Raises:
        FormatError: The text is not a probe file, or has another version.
    """
    try:
        stored = _Stored.model_validate_json(text)
    except ValidationError as error:
        if text.lstrip().startswith("["):
            raise FormatError(
                f"{path.name} is a list of probes. Name their conversation: "
                f'{{"version": {VERSION}, "conversation": "session.zip", "probes": [...]}}.'
            ) from error
        raise FormatError(f"{path.name} is not a probe file ({first_problem(error)}).") from error
    if stored.version != VERSION:
        raise FormatError(
            f"{path.name} has version {stored.version} of probe files, and this release reads version {VERSION}."
            + (" Install a newer release of memory-inspector." if stored.version > VERSION else "")
        )
    if len(stored.probes) > MAX_PROBES:
        raise FormatError(f"{path.name} holds {len(stored.probes):,} probes; {MAX_PROBES} are the most.")
    folder = path.parent
    configuration = folder / stored.configuration if stored.configuration is not None else None
    return ProbeFile(path, folder / stored.conversation, configuration, tuple(stored.probes))
