"""Replace user-chosen words and mask keys in a page's texts. Pure.

Whole words are replaced in any letter case; of overlapping matches, the longer one.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping

from memory_core.errors import FormatError
from memory_core.text import UNSPACED
from memory_core.tracing.showing.key_masking import key_spans

MAX_CHARACTERS = 200
"""Maximum characters of a replacement."""

KEY_MASK = "[key]"

_LETTER = rf"(?:(?![{UNSPACED}])[^\W_])"
"""A letter or digit in scripts that separate words by spaces."""


def mask_keys(text: str) -> str:
    """Return the text with `[key]` in place of each key, password and token.

    >>> mask_keys("my token: abc123, DB_PASSWORD=swordfish and sk-proj-abc123def456ghi")
    'my token: [key], DB_PASSWORD=[key] and [key]'
    """
    pieces, end = [], 0
    for start, stop in key_spans(text):
        pieces += [text[end:start], KEY_MASK]
        end = stop
    return "".join([*pieces, text[end:]])


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
