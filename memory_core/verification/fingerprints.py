"""Fingerprints of texts, by which a text can be found without being stored.

A fingerprint is the length of a text in bytes and its polynomial hash (Rabin and Karp, 1987) modulo two numbers, with
random bases. All windows of the same length in other bytes can be compared with it at once. ASCII letters are
compared without case. Anyone with the bases can confirm a guess of a text; nobody can recover the text from them.
"""

import json
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from memory_core.errors import ConfigError

MODULI = (2**64, 2**61 - 1)
"""Moduli of the two hashes: the first is what 64-bit overflow gives; the second, a prime, confirms matches."""
CHUNK_BYTES = 1_048_576
"""Bytes hashed at a time, which takes some 24 MB of memory."""
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

    @property
    def longest(self) -> int:
        """Length of the longest form in bytes."""
        return max(form.bytes for forms in self.texts for form in forms)


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
    return Wanted(bases, tuple(tuple(_fingerprint(form, bases) for form in forms(text)) for text in lines))


def forms(text: str) -> list[bytes]:
    """Return the bytes in which a text may be stored: UTF-8, JSON escapes, UTF-16; ASCII letters in lower case.

    >>> forms("Zoë")[:3]
    [b'zo\\xc3\\xab', b'zo\\xc3\\x8b', b'zo\\\\u00eb']
    """
    written = [text, text.lower(), text.upper()]
    encoded = [one.encode() for one in written]
    encoded += [json.dumps(one)[1:-1].encode() for one in written]
    encoded += [one.encode("utf-16-le") for one in written]
    # Searched bytes are lowered too. Only bytes of ASCII change, so other letters need their own forms above.
    return list(dict.fromkeys(form.lower() for form in encoded))


def count(chunks: Iterable[bytes], wanted: Wanted) -> list[int]:
    """Count the occurrences of each text in consecutive chunks of bytes, including those across two chunks."""
    totals = [0] * len(wanted.texts)
    # A text that ends in the next chunk begins at most this many bytes before it.
    overlap = wanted.longest - 1
    before = b""
    for chunk in _split(chunks):
        window_sums = _WindowSums((before + chunk).lower(), wanted.bases)
        for index, forms_of in enumerate(wanted.texts):
            # Matches that end in the overlap were counted with the chunk before.
            totals[index] += sum(end > len(before) for end in window_sums.ends(forms_of))
        before = window_sums.data[-overlap:] if overlap else b""
    return totals


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
