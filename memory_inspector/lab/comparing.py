"""Compare replayed conversations: the cost of each, and the first difference between two with its cause."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from memory_core.events import FactsExtracted, RelationsExtracted, expand
from memory_core.history.by_turn import TurnRecord, flush_of
from memory_core.history.contexts import context_of
from memory_core.history.prompt import Difference, Prompt, PromptCut, diff_prompts, shared_prefix_tokens
from memory_core.memory import Memory
from memory_core.text import listed
from memory_core.tokens import counter_for
from memory_inspector.lab.playing import Played

QUOTED = 60
"""Maximum characters of quoted text in a sentence."""

LOST, WON = (True, False), (False, True)
"""Outcomes of a watched item or a test under two configurations: only the first keeps it, or only the second."""


@dataclass(frozen=True, slots=True)
class PlayedTurn:
    """A turn under a configuration. Sizes are tokens in the session's accounting."""

    turn: int
    sent: int
    """Tokens of the turn's last prompt."""
    cut: int
    flushed: int
    """Number of messages flushed from the queue."""
    calls: int
    """Number of calls of a learning model in this turn."""


@dataclass(frozen=True, slots=True)
class PlayOutcome:
    """Totals of a conversation under one configuration."""

    turns: tuple[PlayedTurn, ...]
    flushes: int
    facts: int
    """Number of active facts at the end."""
    calls: int
    """Number of calls that a learning model would need; in a replay without a model, rules replace it at no cost."""
    call_tokens: int
    """Tokens of the messages that a learning model would read in its calls, without instructions."""

    @property
    def average(self) -> int:
        """Average tokens per prompt over the turns."""
        return average(self.turns)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first turn in which two configurations' prompts differ."""

    turn: int
    causes: tuple[str, ...]
    """Causes as whole plain-text sentences, root cause first: another flush, another cut, other contents."""


def verdict(
    names: tuple[str, str],
    one: PlayOutcome,
    other: PlayOutcome,
    watched: Sequence[tuple[bool, bool]],
    tests: Sequence[tuple[bool, bool]],
) -> str:
    """Say in one sentence what the second configuration saves, and what it loses.

    `watched`: for each watched item, if the last prompt has it under either; `tests`: for each test, if it holds.

    >>> a, b = (PlayOutcome((PlayedTurn(1, sent, cut, 0, 0),), 0, 0, 0, 0) for sent, cut in ((900, 0), (688, 40)))
    >>> verdict(("A", "B"), a, b, [(True, False)] * 3 + [(True, True)] * 7, [])
    'B sends 212 tokens a turn less and loses 3 of 10 watched items.'
    >>> verdict(("B", "A"), b, a, [], [(False, True), (True, True)])
    'A sends 212 tokens a turn more and passes 1 of 2 tests that B fails.'
    >>> verdict(("A", "B"), a, b, [(True, True)], [])
    'B is better by your tests: it sends 212 tokens a turn less and loses no watched item that A keeps.'
    >>> verdict(("A", "B"), a, b, [], [])
    'B sends 212 tokens a turn less and cuts 40 tokens more.'
    """
    first, second = names
    saved = one.average - other.average
    clauses = [_by(saved, "sends", "a turn ")]
    for pairs, noun, lose, win in ((watched, "watched item", "loses", "keeps"), (tests, "test", "fails", "passes")):
        lost, won = (sum(pair == changed for pair in pairs) for changed in (LOST, WON))
        of = f"of {len(pairs):,} {noun}{'s' * (len(pairs) > 1)}"
        clauses += [f"{lose} {lost} {of}"] * bool(lost) + [f"{win} {won} {of} that {first} {lose}"] * bool(won)
        clauses += [f"{lose} no {noun} that {first} {win}"] if pairs and not lost and not won else []
    judged = [*watched, *tests]
    if not judged:
        clauses.append(_by(sum(t.cut for t in one.turns) - sum(t.cut for t in other.turns), "cuts"))
    # Fewer tokens alone are no gain: they count only beside something that a person wants to keep.
    better = judged and LOST not in judged and saved >= 0 and (WON in judged or saved)
    worse = judged and WON not in judged and saved <= 0 and (LOST in judged or saved)
    subject = f"{second} is {'better' if better else 'worse'} by your tests: it" if better or worse else second
    return f"{subject} {listed(clauses)}."


def _by(less: int, verb: str, when: str = "") -> str:
    if not less:
        return f"{verb} as many tokens {when}".rstrip()
    return f"{verb} {abs(less):,} token{'s' * (abs(less) > 1)} {when}{'less' if less > 0 else 'more'}"


def average(turns: Sequence[PlayedTurn]) -> int:
    """Return the average tokens per prompt; 0 without turns."""
    return round(sum(turn.sent for turn in turns) / len(turns)) if turns else 0


def outcome_of(memory: Memory) -> PlayOutcome:
    """Return the totals of a replayed or live conversation."""
    called = model_calls(memory)
    turns = memory.log.history().turns
    return PlayOutcome(
        turns=tuple(
            PlayedTurn(
                number,
                context_of(turn.built).total,
                turn.cut_tokens,
                sum(len(flush) for flush in _flushed(turn)),
                len(called.get(number, ())),
            )
            for number, turn in sorted(turns.items())
            if turn.built is not None
        ),
        flushes=sum(len(turn.flushes) for turn in turns.values()),
        facts=sum(len(memory.facts.read(block.name)) for block in memory.blocks if block.kind == "facts"),
        calls=sum(map(len, called.values())),
        call_tokens=sum(map(sum, called.values())),
    )


def stable_share(memory: Memory) -> float | None:
    """Return the share (0 to 1) of billed tokens in a prefix shared with the previous prompt, which caches reuse.

    None with fewer than two prompts. Reads all prompts; 30 ms per prompt of 8,000 tokens.
    """
    built = [turn.built for _, turn in sorted(memory.log.history().turns.items()) if turn.built is not None]
    config = memory.session.config
    counter = config.counting(counter_for(memory.session.tokenizer_fn, encoding=config.encoding))
    # Lazily, as each prompt holds the whole queue.
    prompts = ((memory.log.prompt(record).messages, context_of(record).reserved_tokens) for record in built)
    # The first prompt has none before it, so neither sum counts it.
    same = sum(shared_prefix_tokens(old, new, counter, (m, n)) for (old, m), (new, n) in pairwise(prompts))
    billed = sum(context_of(record).billed for record in built[1:])
    return same / billed if billed else None


def model_calls(memory: Memory) -> dict[int, list[int]]:
    """Return the tokens read by each call of a learning model, by turn."""
    costs = {  # comparing extracted facts with known ones takes a second call
        a.name: (a.block.kind_model_calls if a.block else 0) + (a.settings.get("on_change") == "decide")
        for a in memory.blocks
    }
    # Sizes are stored with the delivery; its event only names it.
    sizes = {delivery.id: delivery.tokens for delivery in memory.session.deliveries(states=("done",))}
    called: dict[int, list[int]] = {}
    beside: dict[str, int] = {}
    for record in memory.log.history().records:
        event: Any = record.event
        if isinstance(event, FactsExtracted | RelationsExtracted):
            beside[event.block] = event.context_tokens
        elif event.delivery_status == "done":
            # One attempt may serve several deliveries: the model reads all of them in one call.
            read = sum(sizes.get(id, 0) for id in event.deliveries)
            # Context is read by the call that extracts, which is the first.
            reads = [read] * costs.get(event.block, 0)
            called.setdefault(record.turn, []).extend([n + beside.pop(event.block, 0) for n in reads])
        # An edit by an agent's tool reads no delivery.
        elif event.called_tool is not None:
            called.setdefault(record.turn, []).append(0)
    return called


def divergence(one: Played, other: Played, names: tuple[str, str] | None = None) -> Divergence | None:
    """Return the first difference between two configurations' prompts; None if they never differ.

    `names` label the two in the causes; default: the variants' names.
    """
    for turn in one.turns():
        before, after = one.prompt(turn), other.prompt(turn)
        # Sizes alone may agree by accident, so messages are compared.
        if before is not None and after is not None and before.messages != after.messages:
            names = names or (one.variant.name, other.variant.name)
            turns = one.memory.log.history().turns, other.memory.log.history().turns
            # Flushes cause cuts, and both cause other contents.
            causes = [
                *_other_flushes(names, turns, turn),
                *_other_cuts(names, before.cuts, after.cuts),
                *_other_contents(names, before, after),
            ]
            return Divergence(turn, tuple(causes))
    return None


def _flushed(turn: TurnRecord) -> list[list[int]]:
    """Return the messages removed by each flush of a turn."""
    return [expand(flush_of(record).seqs) for record in turn.flushes]


def _other_flushes(
    names: tuple[str, str], turns: tuple[Mapping[int, TurnRecord], Mapping[int, TurnRecord]], upto: int
) -> list[str]:
    """Describe the first turn in which the two flushed different messages."""
    for turn in range(1, upto + 1):
        gone = [[seq for flush in _flushed(log[turn]) for seq in flush] if turn in log else [] for log in turns]
        # Only the first difference: the queues differ from then on, so later flushes differ because of it.
        if gone[0] != gone[1]:
            texts = [f"{name} moved {_messages(seqs)} out of the queue" for name, seqs in zip(names, gone, strict=True)]
            return [f"In turn {turn} {texts[0]}, {texts[1]}."]
    return []


def _other_cuts(names: tuple[str, str], before: Sequence[PromptCut], after: Sequence[PromptCut]) -> list[str]:
    """Describe the cuts that only one of two prompts has."""
    texts = []
    # Tokens are left out of the key: a cut is the same if it took the same pieces by the same rule.
    keys = [
        {(cut.part.name, cut.rule, tuple(entry.ref for entry in cut.entries)) for cut in cuts}
        for cuts in (before, after)
    ]
    for name, cuts, others in ((names[0], before, keys[1]), (names[1], after, keys[0])):
        for cut in cuts:
            if (cut.part.name, cut.rule, tuple(entry.ref for entry in cut.entries)) not in others:
                part = "the queue" if cut.part.priority is None else cut.part.name
                texts.append(f"{name} cut {cut.tokens:,} tokens of {part}, as {cut.over_before:,} were over the limit.")
    return texts


def _other_contents(names: tuple[str, str], before: Prompt, after: Prompt) -> list[str]:
    """Describe the contents that only one of two prompts has, one sentence per part."""
    sentences = []
    for diff in diff_prompts(before, after):
        part = "the queue" if diff.part.kind == "queue" else diff.part.name
        for name, only in ((names[0], diff.removed), (names[1], diff.added)):
            if only:
                sentences.append(f"Only {name} has {_quoted(only)} in {part}.")
    return sentences


def _quoted(only: Sequence[Difference]) -> str:
    words = " ".join((only[0].words or "words that were erased").split())
    shown = f"“{words[:QUOTED].rstrip()}{'…' if len(words) > QUOTED else ''}”"
    return shown if len(only) == 1 else f"{shown} and {len(only) - 1:,} more"


def _messages(seqs: Sequence[int]) -> str:
    if not seqs:
        return "nothing"
    return f"message {seqs[0]}" if len(seqs) == 1 else f"{len(seqs):,} messages"
