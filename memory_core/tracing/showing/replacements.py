"""Replace user-chosen words and mask keys in a page's texts. Pure.

Whole words are replaced in any letter case; of overlapping matches, the longer one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from memory_core.errors import FormatError
from memory_core.text import UNSPACED

MAX_CHARACTERS = 200
"""Maximum characters of a replacement."""

KEY_MASK = "[key]"

_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[\w+/=\s-]{0,8000}?-----END [A-Z ]{0,30}PRIVATE KEY-----"
    r"|\beyJ[\w-]{8,2000}\.[\w-]{8,4000}(?:\.[\w-]{0,2000})?"
    r"|\b(?:sk|pk|rk|gh[posu]|github_pat|glpat|xox[abeprs]|hf|npm)[-_](?=[\w-]{0,200}\d)[\w-]{12,4000}"
    r"|\b(?:AKIA|ASIA|AIza)[\w-]{12,4000}"
    r"|\b(?=[A-Za-z]{0,80}\d)(?=\d{0,80}[A-Za-z])[A-Za-z0-9]{20,4000}\b"
    r"|\b(?i:pass ?word|passwd|passphrase|passcode|pin|secret|token|api[ _-]?key|access[ _-]?key)\b[\"']?"
    r"(?: is|:| ?=)[ \"'`]{0,3}(?P<named>(?=[^\s\"'`,;]{0,80}\d)[^\s\"'`,;]{3,4000}[^\s\"'`,;.)\]}])"
)
"""Private keys, signed tokens, keys by their usual prefixes, long alphanumeric runs, and values labelled as keys.

Every repetition is bounded, so the time is linear in the length of the text.
"""

_LETTER = rf"(?:(?![{UNSPACED}])[^\W_])"
"""A letter or digit in scripts that separate words by spaces."""


def mask_keys(text: str) -> str:
    """Return the text with `[key]` in place of each key, password and token.

    >>> mask_keys("my token: abc123, and sk-proj-abc123def456ghi")
    'my token: [key], and [key]'
    """
    if not any(map(str.isdigit, text)) and "-----BEGIN " not in text:
        return text
    return _KEY.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    # The label stays readable: only the value is secret.
    named: str | None = match["named"]
    return match.group().removesuffix(named) + KEY_MASK if named else KEY_MASK


class Replacements:
    """Replaces words by others."""

    def __init__(self, words: Mapping[str, str]) -> None:
        """Validate the words and their replacements.

        Raises:
            FormatError: A word is repeated or has no letter, or a replacement is empty or too long.
        """
        self.words = dict(words)
        spelled: dict[str, str] = {}
        for word, other in words.items():
            # Compared without case and spacing, as texts are.
            same = spelled.setdefault(" ".join(word.casefold().split()), word)
            if not re.search(r"[^\W_]", word):
                raise FormatError(f"“{word}” cannot be replaced: it has no letter or digit.")
            if not other.strip():
                raise FormatError(f"Enter a replacement for “{word}”.")
            if len(other) > MAX_CHARACTERS:
                raise FormatError(f"The replacement for “{word}” may have at most {MAX_CHARACTERS} characters.")
            if same != word:
                raise FormatError(f"“{same}” and “{word}” are the same word. Keep one of them.")
        # Of alternatives, a pattern takes the first that matches, so the longest word comes first.
        self._order = sorted(words, key=len, reverse=True)
        self._pattern = re.compile("|".join(f"({_whole(word)})" for word in self._order) or r"(?!)", re.IGNORECASE)

    def count(self, texts: Iterable[str]) -> Counter[str]:
        """Count the replacements of each word in some texts."""
        return Counter(self._word(match) for text in texts for match in self._pattern.finditer(text))

    def replace(self, text: str) -> str:
        """Return the text with each word replaced."""
        return self._pattern.sub(lambda match: self.words[self._word(match)], text)

    def replace_all(self, texts: Iterable[str]) -> list[str]:
        """Return texts with each word replaced.

        Raises:
            FormatError: A word is still readable, because a replacement contains or recreates it.
        """
        replaced = [self.replace(text) for text in texts]
        # Counted again after replacing: what was put in may contain another word that was to disappear.
        if remaining := self.count(replaced):
            word = next(iter(remaining))
            raise FormatError(f"“{word}” could still be read. Choose other replacements.")
        return replaced

    def _word(self, match: re.Match[str]) -> str:
        return self._order[(match.lastindex or 1) - 1]


def _whole(word: str) -> str:
    """Build a pattern that matches a word only as a whole.

    If the word begins or ends with a sign, Kana or Han, another word may be directly next to that end.
    """
    parts = word.split()
    before = rf"(?<!{_LETTER})" if re.match(_LETTER, parts[0]) else ""
    behind = rf"(?!{_LETTER})" if re.match(_LETTER, parts[-1][-1]) else ""
    return before + r"\s+".join(map(re.escape, parts)) + behind
