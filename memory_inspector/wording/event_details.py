"""The numbers behind one event's sentence, and the rule it followed, as rows of a small table. Pure."""

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from memory_core.events import (
    ConfigurationChanged,
    ContextBuilt,
    Event,
    FlushPlanned,
    GraphCurated,
    Ranges,
    RecipeChosen,
    Retrieved,
    expand,
)
from memory_core.planning.context_plan import RESERVED_LABEL
from memory_core.text import capitalised
from memory_core.tracing.rule_words import FLUSHES, SEARCH
from memory_inspector.wording.block_kinds import TURN, stored_plural
from memory_inspector.wording.decision_text import DECISIONS, rule_words
from memory_inspector.wording.event_sentences import seconds
from memory_inspector.wording.formatting import count, short, tokens
from memory_inspector.wording.settings import named, value_words

Row = tuple[str, str]
"""Label and value, plain text."""


def number_rows(event: Event, unit: str = TURN) -> list[Row]:
    """The numbers of an event, in the order of its fields; ids and hashes appear only in the raw record.

    `unit`: noun for the stored units of the event's block.
    """
    if isinstance(event, FlushPlanned):
        return _flush(event)
    if isinstance(event, ContextBuilt):
        return _context(event)
    if isinstance(event, Retrieved):
        return _search(event)
    if isinstance(event, RecipeChosen):
        named = (("Kept", event.kept), ("Added", event.added), ("Removed", event.removed))
        return [(label, _words(", ".join(blocks))) for label, blocks in named if blocks]
    if isinstance(event, ConfigurationChanged):
        return _settings(event.after, event.before)
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    if isinstance(event, GraphCurated):
        del values["number"]  # of the change set
    # 0 is a number worth showing, unlike empty values.
    rows = [
        (label or capitalised(stored_plural(unit)), written(values[name]))
        for name, (label, written) in _LABELS.items()
        if name in values and values[name] not in (None, "", ()) and not _is_hash(name, values[name])
    ]
    settings = values.get("settings")
    return rows + (_settings(settings, {}) if isinstance(settings, dict) else [])


def _is_hash(name: str, value: object) -> bool:
    """Tell whether a field's value is the hash of a quoted text: in `before` and `after`, unless they are counts."""
    return name in ("before", "after") and not isinstance(value, int)


def _flush(event: FlushPlanned) -> list[Row]:
    return [
        ("Messages", f"{tokens(event.messages)}: number {_spans(event.seqs)}"),
        ("Tokens that left", tokens(event.tokens)),
        ("Queue before", tokens(event.queue_before)),
        ("Queue after", tokens(event.queue_after)),
        ("Flush above", tokens(int(event.history_budget))),
        ("Flush size", f"at least {tokens(event.flush_size)}"),
        *([("Still above by", tokens(event.over_by))] if event.over_by else []),
        *[("Rule", FLUSHES[rule]) for rule in event.rules],
    ]


def _context(event: ContextBuilt) -> list[Row]:
    free = event.token_limit - event.total
    rows = [
        ("Requested", tokens(event.asked)),
        ("Sent", f"{tokens(event.total)} of {tokens(event.token_limit)}"),
        # A negative number of free tokens reads better as tokens above the limit.
        ("Free", tokens(free)) if free >= 0 else ("Over the limit by", tokens(-free)),
        ("Queue", _granted(event.queue_asked, event.queue_tokens)),
    ]
    if event.pinned_tokens:
        rows.append(("System messages", tokens(event.pinned_tokens)))
    if event.reserved_tokens:
        origin = "measured" if event.measured else "as the settings say"
        rows.append((RESERVED_LABEL, f"{tokens(event.reserved_tokens)}, {origin}"))
    for part in event.parts:
        rank = f"priority {part['priority']}" if part["priority"] else "never cut"
        rows.append((short(str(part["name"])), f"{_granted(int(part['asked']), int(part['granted']))}, {rank}"))
    if event.over_because:
        rows.append(("Never cut", event.over_because))
    rows.append(("Billed", f"about {tokens(event.billed)}"))
    if event.neutralised:
        rows.append(("Made harmless", count(event.neutralised, "text")))
    return rows


def _granted(asked: int, granted: int) -> str:
    return tokens(granted) if asked == granted else f"{tokens(granted)} of {tokens(asked)}"


def _search(event: Retrieved) -> list[Row]:
    # Gates count every candidate, not only those recorded with their scores.
    # A turn that passed is only recalled: a later event says whether the prompt has it.
    rows = [
        ("Recalled" if outcome == "granted" else SEARCH[outcome].label(), tokens(number))
        for outcome, number in event.gates.items()
    ]
    if event.elsewhere:
        rows.append(("From other sessions", tokens(len(event.elsewhere))))
    rows.append(("Results requested", "as many as fit" if event.top_k is None else tokens(event.top_k)))
    if event.token_budget is not None:
        rows.append(("Token budget", count(event.token_budget, "token")))
    rows.append(("Threshold", "none" if event.threshold is None else f"{event.threshold:.2f}"))
    if event.weights:
        meaning, keywords = event.weights
        rows.append(("Weight of meaning, keywords", f"{meaning:g}, {keywords:g}"))
    if added := {term: weight for term, weight in event.boost_weights.items() if weight}:
        rows.append(("Weights of boosts", ", ".join(f"{term} {weight:g}" for term, weight in added.items())))
    return rows


def _settings(after: Mapping[str, Any], before: Mapping[str, Any]) -> list[Row]:
    rows = []
    for name, value in after.items():
        former = f"{value_words(name, before[name])} → " if name in before else ""
        rows.append((named(name), f"{former}{value_words(name, value)}"))
    return rows


def _spans(spans: Ranges) -> str:
    """Ranges in words: `1 to 4, 9`."""
    return ", ".join(tokens(first) if first == last else f"{tokens(first)} to {tokens(last)}" for first, last in spans)


def _messages(spans: Ranges) -> str:
    return f"{count(len(expand(spans)), 'message')}: number {_spans(spans)}"


def _length(items: tuple[Any, ...]) -> str:
    return tokens(len(items))


def _words(text: str) -> str:
    return short(text, 80)


_LABELS: Mapping[str, tuple[str, Callable[[Any], str]]] = {
    "seq": ("Message", tokens),
    "role": ("Role", _words),
    "messages": ("Messages", tokens),
    "seqs": ("Messages", _messages),
    "removed": ("Messages", _messages),
    "facts": ("Facts", lambda facts: tokens(facts) if isinstance(facts, int) else tokens(len(facts))),
    "vectors": ("", tokens),
    "nodes": ("", _length),
    "numbers": ("", _length),
    "skipped": ("Skipped", tokens),
    "missing": ("Missing", tokens),
    "tokens": ("Tokens", tokens),
    "reference_tokens": ("Tokens as LlamaIndex counts", tokens),
    "tokens_before": ("Tokens before", tokens),
    "tokens_after": ("Tokens after", tokens),
    "counter": ("Counted with", _words),
    "sources": ("Said in", _messages),
    "category": ("About", _words),
    "found": ("Found", tokens),
    "added": ("New", tokens),
    "confirmed": ("Already known", tokens),
    "held_back": ("Held back", tokens),
    "ended": ("Ended", tokens),
    "refused": ("Left out", tokens),
    "entities": ("Entities", _length),
    "relations": ("Relations", _length),
    "recalled": ("Repeated from memory", tokens),
    "decision": ("Decided", lambda decision: DECISIONS.get(decision, decision)),
    "rule": ("Rule", rule_words),
    "decider": ("Decided by", _words),
    "candidates": ("Compared with", lambda pairs: ", ".join(f"{score:.2f}" for _, score in pairs)),
    "topics": ("Topics", lambda topics: _words(", ".join(topics))),
    "what": ("What", _words),
    "number": ("Number", tokens),
    "extractor": ("Found by", _words),
    "similarity": ("Similarity", lambda share: f"{share:.2f}"),
    "before": ("Facts before", tokens),
    "after": ("Facts after", tokens),
    "kept": ("Kept", _length),
    "merged": ("Merged", _length),
    "vanished": ("Vanished", _length),
    "new": ("New, unsupported", _length),
    "max_facts": ("Maximum facts", tokens),
    "summariser": ("Written by", _words),
    "turn_covered": ("Covers up to turn", tokens),
    "max_tokens": ("Maximum tokens", tokens),
    "lost": ("Names, numbers and dates gone", tokens),
    "shortened": ("Left out to fit, tokens", tokens),
    "broken": ("Sentences broken off", tokens),
    "reason": ("Reason", _words),
    "deliveries": ("Deliveries", _length),
    "attempt": ("Attempt", tokens),
    "attempts": ("Attempts", tokens),
    "seconds": ("Duration", seconds),
    "retry_in_seconds": ("Next attempt in", seconds),
    "purpose": ("For", _words),
    "model": ("Model", _words),
    "input_tokens": ("Tokens in", tokens),
    "cached_tokens": ("Tokens in, cached", tokens),
    "output_tokens": ("Tokens out", tokens),
    "cost": ("Cost", lambda dollars: f"about ${dollars:.4f}"),
    "embedder": ("Embeddings", _words),
    "revision": ("Version", tokens),
    "restored": ("Restored", lambda revision: f"version {tokens(revision)}"),
    "error": ("Error", _words),
    "store": ("Store", _words),
    "count": ("Records", tokens),
    "best": ("Best score", lambda score: f"{score:.2f}"),
    "span": ("Trace and span id", str),
}
"""Fields shown to users: label and formatter. An empty label is replaced by the noun for stored units."""
