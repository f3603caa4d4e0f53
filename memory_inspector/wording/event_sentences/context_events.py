"""Retrieval, contexts and model calls in sentences."""

from collections.abc import Mapping, Sequence
from typing import Any

from memory_core.events import (
    ContextBuilt,
    Event,
    ModelCalled,
    Ref,
    Retrieved,
    VectorsRemoved,
    VectorsReplaced,
    VectorsStored,
    expand,
    numbers,
    spread,
)
from memory_core.planning.context_plan import QUEUE
from memory_core.text import listed
from memory_core.tracing.rule_words import CUTS, SEARCH, SearchNumbers
from memory_inspector.wording.block_kinds import TURN, by_score, common, from_turn, stored
from memory_inspector.wording.event_sentences.event_words import (
    ERASED,
    ERASED_RELATION,
    NOT_CAPTURED,
    Line,
    Words,
    clause,
    describe,
    seconds,
    turn_words,
)
from memory_inspector.wording.formatting import count, short, tokens

KNOWN = {
    "built": "built here",
    "observed": "as observed on the way to the model",
    "reported": "as a span of the agent reports it",
}
"""Phrase on the origin of a recorded prompt, for the end of a sentence, by `ContextBuilt.known`."""

MAX_NAMED = 12
"""Maximum number of turns that are named; the others are counted."""

# -- retrieval -----------------------------------------------------------------------------------


@describe.register
def _(event: VectorsStored, words: Words) -> Line:
    line = f"Stored {count(len(event.nodes), stored_as(event, words))} in {short(event.block)}"
    if event.embedder:
        return Line("inventory_2", line)
    if event.follow:
        return Line("inventory_2", f"{line} for keyword search; their vectors follow")
    why = tuple([event.error] if event.error else [])
    # With neither an embedder nor vectors to follow, the model failed: only keywords find these units.
    return Line("warning", f"{line} for keyword search only: the embedding model failed", "waiting", why)


def stored_as(event: Event, words: Words) -> str:
    """Return the noun for what an event's block stores, such as message: as the event shows, else from `words`."""
    block = getattr(event, "block", None)
    if block is None:
        return common(words.units.values())
    if not isinstance(event, VectorsStored):
        return words.units.get(block, TURN)
    # The event shows whether its units have several messages, whatever the block stores now.
    alone = all(len(expand(seqs)) == 1 for _, seqs, _ in event.nodes)
    unit = words.units.get(block, "message" if alone else TURN)
    return TURN if unit == "message" and not alone else unit


@describe.register
def _(event: VectorsRemoved, words: Words) -> Line:
    gone = stored(len(event.numbers), stored_as(event, words))
    return Line("delete", f"Deleted {gone} of {short(event.block)}: the messages stay", "loss")


@describe.register
def _(event: VectorsReplaced, words: Words) -> Line:
    renewed = stored(len(event.numbers), stored_as(event, words))
    return Line("refresh", f"Embedded {renewed} of {short(event.block)} again with {short(event.embedder)}")


@describe.register
def _(event: Retrieved, words: Words) -> Line:
    unit = stored_as(event, words)
    # The fields of a candidate are number, vector score, keyword score, score and outcome.
    granted = [candidate for candidate in event.candidates if candidate[4] == "granted"]
    if granted:
        best = max(candidate[3] for candidate in granted)
        shown = [
            f"Turn {turn_words(number, words)} ({score:.2f}): {words.previews.get(number, 'erased since')}"
            for number, _, _, score, _ in granted[:MAX_NAMED]
        ]
        many = max(len(granted), event.gates.get("granted", 0))  # the best are listed, see `MAX_RECORDED`
        shown += [f"and {tokens(many - len(shown))} more"] if many > len(shown) else []
        line = Line("search", f"Recalled {count(many, f'earlier {unit}')}, best {best:.2f}", more=tuple(shown))
    elif not event.candidates:
        line = Line("search_off", f"Recalled nothing from {short(event.block)}: no stored {unit} fits")
    else:
        line = Line("search_off", f"Recalled nothing: {_why_nothing(event)}")
    if event.elsewhere:
        others = f"{stored(len(event.elsewhere), unit)} of the user's other sessions"
        highest = f", best {max(score for _, score in event.elsewhere):.2f}"
        also = f"{line.text}, and {others}" if granted else f"Recalled {others}{highest}"
        # Turns of other sessions are added, or are the only ones if this session has none.
        line = Line("search", also, more=line.more)
    if event.degraded:
        return Line("warning", f"{line.text}. {clause(event.degraded)}", "waiting", more=line.more)
    return line


def _why_nothing(event: Retrieved) -> str:
    # Candidates are recorded best first.
    _, _, _, best, outcome = event.candidates[0]
    numbers = SearchNumbers.recorded(event, best, 1)
    return numbers.filled(f"what fits best ({{score}}) is {SEARCH[outcome].phrase}")


# -- contexts and model calls --------------------------------------------------------------------


@describe.register
def _(event: ContextBuilt, words: Words) -> Line:
    if event.known != "built":
        # A prompt observed on its way has neither a limit nor cuts, so it is only measured.
        many = count(len(expand(event.pinned)) + len(expand(event.queue)), "message")
        return Line("article", f"Sent {many}, {count(event.total, 'token')}, {KNOWN[event.known]}")
    if event.cuts:
        line = Line("content_cut", _cuts(event), "loss")
    else:
        sent, free = f"{tokens(event.total)} of {tokens(event.token_limit)}", max(0, event.token_limit - event.total)
        line = Line("article", f"Built the prompt: {sent} tokens, {tokens(free)} free")
    if event.over_by:
        return Line("error", f"{line.text}. {too_large(event).text}", "loss")
    return line


def _cuts(event: ContextBuilt) -> str:
    """Describe the cuts of a prompt: `Cut 56 of 335 tokens from Earlier turns: priority 2 goes first`."""
    parts = {str(part["name"]): part for part in event.parts}
    blocks = [cut for cut in event.cuts if cut["part"] != QUEUE]
    sentences = []
    for index, cut in enumerate(blocks):
        part = parts.get(str(cut["part"]), {})
        asked = f" of {tokens(int(part['asked']))}" if "asked" in part else ""
        sentences.append(f"{tokens(int(cut['tokens']))}{asked}{' tokens' * (not index)} from {short(str(cut['part']))}")
    left_out = [_left_out(cut) for cut in event.cuts if cut["part"] == QUEUE]
    if not sentences:
        return f"Left {listed(left_out)} out of the prompt: what is never cut is over the limit"
    # Cuts are in the order in which they were made.
    chosen = [cut for cut in blocks if CUTS[cut["rule"]].by_priority]
    if not chosen:
        why = CUTS[str(blocks[0]["rule"])].removed
    elif len(chosen) == 1:
        why = f"priority {parts.get(str(chosen[0]['part']), {}).get('priority', '?')} goes first"
    else:
        which = "largest" if event.truncation_order == "largest_first" else "smallest"
        why = f"the {which} priority number goes first"
    return f"Cut {listed(sentences)}: {why}" + (f". Left {listed(left_out)} out as well" if left_out else "")


def _left_out(cut: Mapping[str, Any]) -> str:
    return f"{count(len(spread(cut['refs'])), 'oldest turn')}, {count(int(cut['tokens']), 'token')},"


def one_cut(cut: Mapping[str, Any], recalled: Sequence[Retrieved], words: Words) -> Line:
    """Describe a single cut: how far the prompt was over the limit, and what was left out."""
    # Runs of refs are stored as one, so they are spread before they are counted.
    refs = spread(cut["refs"])
    part, size = str(cut["part"]), count(int(cut["tokens"]), "token")
    why = f"The prompt was {count(int(cut['over_before']), 'token')} over, so"
    if part == QUEUE:
        what = f"its {count(len(refs), 'oldest turn')} ({size})" if len(refs) > 1 else f"its oldest turn ({size})"
        return Line("content_cut", f"{why} {what} {_queue_cut(len(refs))}", "loss")
    if left_out := CUTS[cut["rule"]].left_out:
        what = left_out.format(part=short(part), tokens=size)
        return Line("content_cut", f"{why} {what}", "loss", _cut_words(refs, words))
    scores = {number: score for event in recalled for number, _, _, score, _ in event.candidates}
    # Lowest score first, as they were cut; a score that was not recorded is below all recorded ones.
    gone = sorted(numbers(refs, "unit"), key=lambda number: scores.get(number, 0))
    if not gone:
        # Pieces that are no stored turns: facts, relations or sentences.
        far = ", farthest from the question first" if any(ref.kind == "relation" for ref in refs) else ""
        return Line("content_cut", f"{why} {size} of {short(part)} were left out{far}", "loss", _cut_words(refs, words))
    unit = words.units.get(part, TURN)
    names = [from_turn(unit, turn_words(number, words)) for number in gone[:MAX_NAMED]]
    if len(gone) == 1:
        score = f", lowest score {scores[gone[0]]:.2f}" if gone[0] in scores else ""
        return Line("content_cut", f"{why} {names[0]} ({size}{score}) {_queue_cut(1)}", "loss")
    more = f" and {tokens(len(gone) - MAX_NAMED)} more" if len(gone) > MAX_NAMED else ""
    scored = by_score([(name, scores.get(number)) for name, number in zip(names, gone, strict=False)])
    return Line("content_cut", f"{why} {size} {_queue_cut(2)}, lowest score first: {scored}{more}", "loss")


def _queue_cut(many: int) -> str:
    return f"{'was' if many == 1 else 'were'} left out"


def _cut_words(refs: Sequence[Ref], words: Words) -> tuple[str, ...]:
    """Texts of the facts and relations that were cut."""
    named = {"fact": (words.facts, ERASED), "relation": (words.relations, ERASED_RELATION)}
    return tuple(named[ref.kind][0].get(ref.number, named[ref.kind][1]) for ref in refs if ref.kind in named)


def too_large(event: ContextBuilt) -> Line:
    """Describe a prompt that is over the limit although everything that may be cut was cut."""
    return Line(
        "error",
        f"Sent {tokens(event.total)} of {tokens(event.token_limit)}: {tokens(event.over_by)} over. "
        f"{event.over_because} cannot be cut",
        "loss",
    )


@describe.register
def _(event: ModelCalled, words: Words) -> Line:
    purpose = f"to {PURPOSES.get(event.purpose, event.purpose)}"
    if event.error:
        return Line("error", f"Asked {short(event.model)} {purpose}, and it failed: {clause(event.error)}", "waiting")
    cached = "" if event.cached_tokens is None else f" ({tokens(event.cached_tokens)} cached)"
    counted = ((event.input_tokens, f"in{cached}"), (event.output_tokens, "out"))
    sizes = [f"{count(number, 'token')} {way}" for number, way in counted if number is not None]
    parts = [*sizes, seconds(event.seconds), *([] if event.captured else [NOT_CAPTURED])]
    return Line("smart_toy", f"Asked {short(event.model)} {purpose}: {', '.join(parts)}")


PURPOSES = {
    "reply": "reply",
    "extract": "find facts",
    "condense": "shorten the list of facts",
    "summarise": "write the summary",
    "answer": "answer",
    "embed": "embed texts",
    "title": "write a title",
    "memory": "learn for its own memory",
}
"""Purpose of a model call, to follow "asked to"."""
