"""Every event as one sentence. Pure: an event and words in, a line out.

A sentence says in the past tense what happened, how much, and by which rule, in numbers that the event holds. This is
the one place where events become words: the story of a turn and the timeline are both made of these lines.
"""

from ui.event_sentences import blocks, contexts, facts, graphs, queue, stores
from ui.event_sentences.contexts import KNOWN, PURPOSES, one_cut, stored_as, too_large
from ui.event_sentences.facts import CURATED, contradiction
from ui.event_sentences.graphs import GRAPH_CURATED
from ui.event_sentences.line import ERASED, NOT_CAPTURED, QUOTED, SAID, Line, Tone, Words, describe, seconds
from ui.event_sentences.queue import still_learning
from ui.event_sentences.settings import SETTINGS, setting_words, value_words
from ui.event_sentences.stores import unsent_words

SENTENCES = (blocks, contexts, facts, graphs, queue, stores)
"""The modules that hold the sentences: importing them makes `describe` know every kind of event."""

__all__ = [
    "CURATED",
    "ERASED",
    "GRAPH_CURATED",
    "KNOWN",
    "NOT_CAPTURED",
    "PURPOSES",
    "QUOTED",
    "SAID",
    "SENTENCES",
    "SETTINGS",
    "Line",
    "Tone",
    "Words",
    "contradiction",
    "describe",
    "one_cut",
    "seconds",
    "setting_words",
    "still_learning",
    "stored_as",
    "too_large",
    "unsent_words",
    "value_words",
]
