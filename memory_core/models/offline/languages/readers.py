"""Find the rules for the language of a text."""

from memory_core.models.offline.languages.chinese import CHINESE
from memory_core.models.offline.languages.detection import ENGLISH, language_of
from memory_core.models.offline.languages.german import GERMAN
from memory_core.models.offline.languages.japanese import JAPANESE
from memory_core.models.offline.languages.reading import Language
from memory_core.models.offline.languages.spanish import SPANISH

LANGUAGES = {"Spanish": SPANISH, "German": GERMAN, "Chinese": CHINESE, "Japanese": JAPANESE}
"""Languages with rules, besides English."""


def other_language(text: str) -> str | None:
    """Return a text's language if it is not English; None if it is English or cannot be detected.

    >>> other_language("Ich wohne in Porto"), other_language("I live in Porto")
    ('German', None)
    """
    language = language_of(text)
    return None if language == ENGLISH else language


def rules_for(text: str) -> Language | None:
    """Return the rules for a text's language; None for English and languages without rules."""
    return LANGUAGES.get(other_language(text) or "")
