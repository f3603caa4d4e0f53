"""Every event as one sentence. Pure: an event and words in, a line out.

A sentence says in the past tense what happened, how much, and by which rule, in numbers taken from the event. This is
the one place where events become words: the story of a turn and the timeline are both made of these lines.
"""

from memory_inspector.wording.event_sentences import (
    block_events,
    context_events,
    fact_events,
    queue_events,
)
from memory_inspector.wording.event_sentences.block_events import omitted_words
from memory_inspector.wording.event_sentences.context_events import KNOWN, PURPOSES, one_cut, stored_as, too_large
from memory_inspector.wording.event_sentences.event_words import (
    ERASED,
    NOT_CAPTURED,
    QUOTED,
    SAID,
    Line,
    Tone,
    Words,
    describe,
    seconds,
)
from memory_inspector.wording.event_sentences.fact_events import GRAPH_CURATED, MARKS, contradiction
from memory_inspector.wording.event_sentences.queue_events import still_learning

SENTENCES = (block_events, context_events, fact_events, queue_events)
"""The modules that hold the sentences: importing them makes `describe` know every kind of event."""

__all__ = [
    "ERASED",
    "GRAPH_CURATED",
    "KNOWN",
    "MARKS",
    "NOT_CAPTURED",
    "PURPOSES",
    "QUOTED",
    "SAID",
    "SENTENCES",
    "Line",
    "Tone",
    "Words",
    "contradiction",
    "describe",
    "omitted_words",
    "one_cut",
    "seconds",
    "still_learning",
    "stored_as",
    "too_large",
]
