"""Reasons why nothing was learned from messages: each message of a batch without any effect has exactly one.

Pure. A learner gives reasons for finding nothing in a message; what it finds may still have no effect.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_core.events import NothingReason, Ranges, ranges
from memory_core.messages import ChatMessage, MessageRole, recites_memory
from memory_core.planning.consolidation import Settled
from memory_core.planning.fact_merging import Confirmation, Fact, same_words


@dataclass(frozen=True, slots=True)
class Reason:
    """Reason why nothing was learned from a message."""

    code: NothingReason
    fact: int | None = None
    """Id of the fact that the reason names; None if it names none."""
    said: str = ""
    """The model's own words for the reason; empty if there are none."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a fact or relation that was found in a batch of messages."""

    sources: tuple[int, ...]
    """Numbers of the messages that state the fact or relation; all messages read if the learner names none."""
    reason: Reason | None = None
    """Reason why the fact or relation had no effect; None if it was stored, or confirmed or changed something."""


def plan_reasons(
    messages: Iterable[int], outcomes: Sequence[Outcome], recorded: Mapping[int, Reason], otherwise: Reason
) -> dict[int, Reason]:
    """Return the reason for each message without effect, by its number.

    The surest reason is taken: the outcome of something found in that message alone, then the learner's own reason
    (`recorded`), then the outcome of something found in several messages, then `otherwise`.

    >>> plan_reasons([1, 2], [Outcome((1,))], {}, Reason("no_rule"))
    {2: Reason(code='no_rule', fact=None, said='')}
    """
    # One find with an effect is enough: such a message needs no reason, whatever became of its other finds.
    fruitful = {seq for outcome in outcomes if outcome.reason is None for seq in outcome.sources}
    by_message: dict[int, Reason] = {}
    somewhere: dict[int, Reason] = {}
    for outcome in outcomes:
        if outcome.reason is not None:
            # With several sources the learner could not tell which message says it, which is weak evidence about each.
            into = by_message if len(outcome.sources) == 1 else somewhere
            for seq in outcome.sources:
                into.setdefault(seq, outcome.reason)
    by_rank = (by_message, recorded, somewhere)
    return {
        seq: next((reasons[seq] for reasons in by_rank if seq in reasons), otherwise)
        for seq in messages
        if seq not in fruitful
    }


def fact_outcomes(
    found: Sequence[tuple[str, tuple[int, ...]]],
    steps: Iterable[Settled],
    held_back: Iterable[Confirmation],
    known: Iterable[Fact],
    doubtful: Collection[int] = (),
) -> list[Outcome]:
    """Return the outcome of each found fact, which is passed as its text and the numbers of the messages that say it.

    `doubtful`: indexes of found facts that must not confirm known ones, as others than the user may have said them.
    """
    settled = {step.index: step for step in steps}
    near = {alike.index: alike.fact for alike in held_back}
    ids = {same_words(fact.text): fact.id for fact in known if fact.state != "rejected"}
    outcomes = []
    for index, (text, sources) in enumerate(found):
        step = settled.get(index)
        # "none" with a target says a known fact again.
        if step is not None and step.target is not None and step.act == "none" and index in doubtful:
            reason = Reason("known", step.target)  # it confirms nothing
        elif step is not None and (step.act != "none" or step.target is not None):
            reason = None
        elif index in near:
            reason = Reason("suppressed", near[index])
        elif same_words(text) in ids:
            reason = Reason("known", ids[same_words(text)])
        else:
            reason = Reason("repeated")
        outcomes.append(Outcome(sources, reason))
    return outcomes


def unread(message: ChatMessage) -> Reason:
    """Return the reason for a message that a learner does not read: it repeats memory, or its role is not read."""
    if recites_memory(message):
        return Reason("repeats_memory")
    return Reason("assistant" if message.role is MessageRole.ASSISTANT else "not_read")


def grouped(reasons: Mapping[int, Reason]) -> list[tuple[Reason, Ranges]]:
    """Return each reason with the numbers of its messages, in the order in which the reasons first occur."""
    seqs: dict[Reason, list[int]] = {}
    for seq, reason in reasons.items():
        seqs.setdefault(reason, []).append(seq)
    return [(reason, ranges(some)) for reason, some in seqs.items()]
