"""Fingerprints of texts, by which a text can be found without being stored.

A fingerprint is the length of a text in bytes and its polynomial hash (Rabin and Karp, 1987) modulo two numbers, with
random bases. All windows of the same length in other bytes can be compared with it at once. Anyone with the bases can
confirm a guess of a text; nobody can recover the text from them.

Bytes are searched as they are, ASCII letters without case, and once more respelled (see `respelled`), in which Unicode
forms, apostrophes, dashes, markup and the escapes of JSON and HTML make no difference.
"""

import html
import json
import re
import secrets
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from memory_core.errors import ConfigError

MODULI = (2**64, 2**61 - 1)
"""Moduli of the two hashes: the first is what 64-bit overflow gives; the second, a prime, confirms matches."""
CHUNK_BYTES = 1_048_576
"""Bytes hashed at a time, which takes some 24 MB of memory."""
ESCAPED = 11
"""Bytes by which escapes make one byte longer, at most: `\\ud83d\\ude00` has 12 for 4, and `&#x000e9;` has 9 for 2."""
MAX_JOINED = 6
"""Maximum words of a text of which each two are also looked for as one word: `lock file` and `lockfile`."""
MIN_CHARACTERS, MAX_CHARACTERS = 4, 10_000
"""Limits of a text's length: a shorter one occurs in other words by chance; of a longer one, give a sentence."""


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Length in bytes and hashes of one form of a text."""

    bytes: int
    hashes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Texts to search for: the bases of all hashes, and for each text the fingerprints of its forms."""

    bases: tuple[int, int]
    texts: tuple[tuple[Fingerprint, ...], ...]
    spellings: tuple[tuple[Fingerprint, ...], ...] = ()
    """Fingerprints to compare with respelled bytes; none for a text of signs, and in receipts of version 1."""

    @property
    def longest(self) -> int:
        """Length of the longest form in bytes."""
        return max(form.bytes for forms in (*self.texts, *self.spellings) for form in forms)


def wanted(texts: Iterable[str]) -> Wanted:
    """Return the fingerprints of these texts under new random bases.

    Raises:
        ConfigError: there is no text, or one is too short or too long to search for.
    """
    lines = [text for line in texts if (text := " ".join(line.split()))]
    if not lines:
        raise ConfigError("There are no words to look for: give at least one line.")
    for number, text in enumerate(lines, start=1):
        if not MIN_CHARACTERS <= len(text) <= MAX_CHARACTERS:
            raise ConfigError(
                f"Text {number} has {len(text):,} characters: give {MIN_CHARACTERS} to {MAX_CHARACTERS:,}, "
                "as shorter ones stand in other words by chance."
            )
    # The first base is odd, so that no power of it becomes 0 modulo 2**64.
    bases = secrets.randbits(63) * 2 + 1, secrets.randbelow(MODULI[1] - 1_000) + 500
    prints = [
        tuple(tuple(_fingerprint(form, bases) for form in written(text)) for text in lines)
        for written in (forms, spellings)
    ]
    return Wanted(bases, *prints)


def forms(text: str) -> list[bytes]:
    """Return the bytes in which a text may be stored: UTF-8, JSON escapes, both UTF-16; ASCII letters in lower case.

    >>> forms("Zoë")[:3]
    [b'zo\\xc3\\xab', b'zo\\xc3\\x8b', b'zo\\\\u00eb']
    """
    written = [text, text.lower(), text.upper()]
    encoded = [one.encode() for one in written]
    encoded += [json.dumps(one)[1:-1].encode() for one in written]
    # In both orders, without the zero byte at either end, so that the same letters are not found twice.
    encoded += [one.encode("utf-16-le").removesuffix(b"\0") for one in written]
    encoded += [one.encode("utf-16-be").removeprefix(b"\0") for one in written]
    # Searched bytes are lowered too. Only bytes of ASCII change, so other letters need their own forms above.
    return list(dict.fromkeys(form.lower() for form in encoded))


def spellings(text: str) -> list[bytes]:
    """Return the forms to look for in respelled bytes: both spellings, and each two words of a short text as one.

    >>> [form.decode() for form in spellings("Zoë's lock-file")]
    ['zoë s lock file', 'zoës lockfile', 'zoëslockfile']
    """
    apart, joined = (spelling.decode() for spelling in respelled(text.encode("utf-8", "replace")))
    words = joined.split()
    pairs = pairwise(words) if len(words) <= MAX_JOINED else ()
    joins = (joined.replace(f"{one} {other}", one + other, 1) for one, other in pairs if min(len(one), len(other)) > 2)
    return [one.encode() for one in dict.fromkeys([apart, joined, *joins]) if len(one) >= MIN_CHARACTERS]


def respelled(data: bytes) -> tuple[bytes, bytes]:
    """Return the letters and digits of bytes, casefolded, with one space for whatever is between them.

    In the second form, signs that may stand within a word are dropped: apostrophes, hyphens and markup. Zero bytes,
    which separate values, stay.
    """
    text = data.decode("utf-8", "replace")
    if "\\" in text:
        text = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if "&" in text:
        text = html.unescape(html.unescape(text))  # of what was escaped already, too
    if "<" in text:
        text = _BREAK.sub(" ", _TAG.sub("", text))
    if "](" in text:
        text = _LINK.sub(r"\1", text)
    text = _THOUSANDS.sub("", unicodedata.normalize("NFKC", text).casefold())
    apart = " ".join(text.translate(_APART).split())
    joined = " ".join(_WRAPPED.sub("", text).translate(_JOINED).split())
    return apart.encode(), _NUMBERED.sub("", joined).encode()


_ESCAPE = re.compile(r"(?<!\\)\\+(?:u([0-9a-fA-F]{4})|[bfnrt])")
_TAG = re.compile(
    r"<!--.{0,200}?-->|</?(?:b|i|em|strong|u|s|code|mark|span|a|font|small|sub|sup|del|ins)(?:\s[^<>]{0,300})?>",
    re.IGNORECASE,
)
_BREAK = re.compile(r"</?(?:br|p|li|div|td|tr)(?:\s[^<>]{0,300})?/?>", re.IGNORECASE)
_LINK = re.compile(r"\[([^\[\]]{0,300})\]\([^()\s]{0,2000}\)")
_WRAPPED = re.compile(r"(?<=\w)[-\u2010]\r?\n[ \t]{0,20}(?=\w)")
"""A hyphen at the end of a line."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_NUMBERED = re.compile(r"(?<=[^\W\d]) (?=\d)|(?<=\d) (?=[^\W\d])")
"""The space in `room 5`."""


class _Letters(dict[int, str | None]):
    """Table for `str.translate` that keeps letters and digits, drops what is invisible, makes spaces of all else."""

    def __init__(self, dropped: str) -> None:
        super().__init__({ord(sign): None for sign in dropped} | {0: "\0", 0x307: None, 0x640: None})

    def __missing__(self, code: int) -> str | None:
        sign, kind = chr(code), unicodedata.category(chr(code))
        # Vowel marks of Hebrew and Arabic are left out by most people; those of other scripts are letters.
        optional = kind == "Cf" or 0x591 <= code <= 0x5C7 or 0x64B <= code <= 0x65F or 0xFE00 <= code <= 0xFE0F
        self[code] = None if optional else sign if sign.isalnum() or kind[0] == "M" else " "
        return self[code]


_APART, _JOINED = _Letters(""), _Letters("'’‘‛ʼʹ´′`*~-‐‑‒–—―−")


def count(chunks: Iterable[bytes], wanted: Wanted) -> list[int]:
    """Count the occurrences of each text in consecutive chunks of bytes, including those across two chunks."""
    totals = [0] * len(wanted.texts)
    # A text that ends in the next chunk begins at most this many bytes before it; escapes make it longer.
    overlap = wanted.longest - 1 + (ESCAPED * wanted.longest if any(wanted.spellings) else 0)
    before, earlier = b"", [0] * len(wanted.texts)
    for chunk in _split(chunks):
        data = before + chunk
        window_sums = _WindowSums(data.lower(), wanted.bases)
        # Matches that end in the overlap were counted with the chunk before.
        as_is = [sum(end > len(before) for end in window_sums.ends(forms_of)) for forms_of in wanted.texts]
        spelled = _spelled(data, wanted)
        for index in range(len(totals)):
            totals[index] += max(as_is[index], spelled[index] - earlier[index])
        before = data[-overlap:] if overlap else b""
        earlier = _spelled(before, wanted)
    return totals


def _spelled(data: bytes, wanted: Wanted) -> list[int]:
    """Count the occurrences of each text in respelled bytes."""
    if not data or not any(wanted.spellings):
        return [0] * len(wanted.texts)
    sums = [_WindowSums(spelling, wanted.bases) for spelling in respelled(data)]
    return [max(len(one.ends(forms_of)) for one in sums) for forms_of in wanted.spellings]


def _split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    for chunk in chunks:
        for start in range(0, len(chunk), CHUNK_BYTES):
            yield chunk[start : start + CHUNK_BYTES]


class _WindowSums:
    """Prefix sums of some bytes, computed once for all texts: the difference of two of them gives a window's hash."""

    def __init__(self, data: bytes, bases: tuple[int, int]) -> None:
        self.data = data
        self._bases = bases
        self._powers = np.full(len(data) + 1, bases[0], dtype=np.uint64)
        self._powers[0] = 1
        np.multiply.accumulate(self._powers, out=self._powers)
        self._sums = np.zeros(len(data) + 1, dtype=np.uint64)
        # Overflow is wanted: it is the modulus.
        np.cumsum(np.frombuffer(data, dtype=np.uint8) * self._powers[:-1], out=self._sums[1:])

    def ends(self, forms_of: Sequence[Fingerprint]) -> set[int]:
        """Return the end positions of all matches of these forms."""
        ends: set[int] = set()
        for form in forms_of:
            # A window's sum still carries the power of its start; multiplying the wanted hash avoids a division.
            windows = self._sums[form.bytes :] - self._sums[: -form.bytes or None]
            starts = np.flatnonzero(windows == np.uint64(form.hashes[0]) * self._powers[: len(windows)])
            for start in starts.tolist():
                end = start + form.bytes
                # The first modulus alone can collide, and a receipt must not report words that are not there.
                if _hash(self.data[start:end], self._bases[1], MODULI[1]) == form.hashes[1]:
                    ends.add(end)
        return ends


def _fingerprint(form: bytes, bases: tuple[int, int]) -> Fingerprint:
    first, second = (_hash(form, base, modulus) for base, modulus in zip(bases, MODULI, strict=True))
    return Fingerprint(len(form), (first, second))


def _hash(data: bytes, base: int, modulus: int) -> int:
    """Return the sum of each byte times `base` to the power of its index, modulo `modulus`."""
    result = 0
    # Horner's rule from the end, so that the first byte has the power 0 as in the prefix sums.
    for value in reversed(data):
        result = (result * base + value) % modulus
    return result
