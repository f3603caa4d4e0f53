"""Receipt of a search for forgotten words: what was searched, what was found, and what may remain elsewhere.

A receipt has fingerprints in place of the words, so that the search can be repeated without them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memory_core.errors import FormatError
from memory_inspector.verification.fingerprints import MODULI, Fingerprint, Wanted
from memory_inspector.verification.searching import TENANT, Searched, is_server, search, search_chroma, search_server

VERSION = 2
"""Version 1 had no spellings: its search knows fewer forms of the same texts."""
ELSEWHERE = (
    "backups and snapshots of the folder, and the free space of its disk",
    "bundles and reports that were exported to other folders",
    "the provider of a model that was sent these words",
    "servers and databases that are not named above",
    "a Chroma server's files, where deleted rows may stay",
    "a PostgreSQL server's files: deleted rows until VACUUM FULL, its write-ahead log, its replicas",
    "other wordings: a summary may say the same in other words",
)
"""Places that no search of a folder or a database can reach; those of one search are in `ForgetReceipt.elsewhere`."""


@dataclass(frozen=True, slots=True)
class ForgetReceipt:
    """Outcome of a search at one time."""

    made: str
    """Time in UTC, as ISO 8601."""
    wanted: Wanted
    searched: tuple[Searched, ...]

    @property
    def hits(self) -> int:
        """Return the number of matches of all texts, in raw bytes and in unpacked contents."""
        return sum(part.hits for part in self.searched)

    @property
    def problems(self) -> list[Searched]:
        return [part for part in self.searched if part.problem is not None]

    @property
    def clean(self) -> bool:
        """True if everything could be searched and nothing was found."""
        return not self.hits and not self.problems

    @property
    def elsewhere(self) -> tuple[str, ...]:
        """Places that this search cannot have reached."""
        servers: dict[str, list[str]] = {}
        for part in self.searched:
            if part.part.startswith(TENANT) and part.problem is None:
                servers.setdefault(part.file, []).append(part.part.removeprefix(TENANT))
        tenants = (
            f"tenants of {server} other than {', '.join(names)}: only these were searched, as a server lists none"
            for server, names in servers.items()
        )
        return (*ELSEWHERE, *tenants)

    def to_json(self) -> str:
        content = {
            "receipt": VERSION,
            "made": self.made,
            "clean": self.clean,
            "bases": self.wanted.bases,
            "texts": [[[form.bytes, *form.hashes] for form in forms] for forms in self.wanted.texts],
            "spellings": [[[form.bytes, *form.hashes] for form in forms] for forms in self.wanted.spellings],
            "searched": [asdict(part) for part in self.searched],
            "elsewhere": self.elsewhere,
        }
        return json.dumps(content, indent=1)

    def page(self) -> str:
        """Return the receipt as one page of text to print."""
        files = {part.file for part in self.searched}
        read = {part.file for part in self.searched if part.part == "bytes"}
        # A server's database has no bytes of its own here: its size is that of its values.
        size = sum(part.bytes for part in self.searched if part.part == "bytes" or part.file not in read)
        # The other parts are columns and members: each file already counts by its own bytes.
        inside = sum(part.part not in ("bytes", "name", "contents") for part in self.searched)
        texts = len(self.wanted.texts)
        lines = [
            f"Search for {texts} forgotten {'text' if texts == 1 else 'texts'}, {self.made}",
            f"Searched: {len(files):,} files and databases with {size:,} bytes, {inside:,} columns and members in them",
            f"Found: {self.hits:,} times" if self.hits else "Found: nothing",
            *(f"  {part.file}, {part.part}: {part.hits:,}" for part in self.searched if part.hits),
            *(f"Not searched: {part.file}, {part.part} {part.problem}" for part in self.problems),
            "What may remain elsewhere:",
            *(f"  {place}" for place in self.elsewhere),
        ]
        return "\n".join(lines)


def receipt_of(place: Path | str, wanted: Wanted) -> ForgetReceipt:
    """Search a folder or file, or a PostgreSQL database or Chroma server given by its URL; return the receipt.

    Raises:
        ConfigError: PostgreSQL is to be searched, but psycopg is not installed.
        NotFoundError: there is no such folder or file.
        StoreError: the PostgreSQL server cannot be reached.
    """
    server = isinstance(place, str) and is_server(place)
    if isinstance(place, str) and place.startswith(("http://", "https://")):
        parts = search_chroma(place, wanted)
    else:
        parts = search_server(str(place), wanted) if server else search(Path(place), wanted)
    return ForgetReceipt(datetime.now(UTC).isoformat(timespec="seconds"), wanted, tuple(parts))


def read_receipt(text: str, name: str) -> ForgetReceipt:
    """Read a receipt from JSON.

    Raises:
        FormatError: the text is not a receipt; the message names the file.
    """
    try:
        content: dict[str, Any] = json.loads(text)
        # Another version may compute hashes differently, and a clean result would prove nothing.
        if content["receipt"] not in (1, VERSION):
            raise FormatError(f"{name} is a receipt of version {content['receipt']}; this program reads 1 and 2.")
        texts, spellings = (
            tuple(tuple(_fingerprint(form) for form in forms) for forms in of_texts)
            for of_texts in (content["texts"], content["spellings"] if content["receipt"] == VERSION else ())
        )
        bases = _pair(content["bases"])
        # A receipt without texts would search for nothing and then call every folder clean.
        if not texts or not all(texts) or len(spellings) not in (0, len(texts)):
            raise ValueError("no texts")
        searched = tuple(Searched(**part) for part in content["searched"])
        return ForgetReceipt(str(content["made"]), Wanted(bases, texts, spellings), searched)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, FormatError):
            raise
        raise FormatError(f"{name} is no receipt of `memory-inspector verify`.") from error


def _fingerprint(values: Sequence[int]) -> Fingerprint:
    length, *hashes = values
    # A window of no bytes hashes to 0 everywhere, and a negative length would slice from the end.
    if not isinstance(length, int) or length < 1:
        raise ValueError("a length below 1")
    return Fingerprint(length, _pair(hashes))


def _pair(values: Sequence[int]) -> tuple[int, int]:
    first, second = values
    # A number outside its modulus can match no window, and the search would wrongly be clean.
    if not all(isinstance(value, int) and 0 <= value < modulus for value, modulus in zip(values, MODULI, strict=True)):
        raise ValueError("numbers out of range")
    return first, second
