"""Assertions about a memory's prompts. A failure names the deciding rule, and the smallest change that would mend it.

    memory.put({"role": "user", "content": "I am allergic to nuts."})
    memory.build_context()
    assert_in_prompt(memory, "allergic to nuts")

Each function checks the last prompt that was built, or the last one of `turn`, and raises `AssertionError`.
"""

from collections.abc import Sequence

from pydantic import ValidationError

from memory_core.bundles.bundle_checks import first_problem
from memory_core.errors import ConfigError
from memory_core.memory import Memory
from memory_inspector.lab.failure_patterns import explain_failure
from memory_inspector.lab.probes import (
    BlockTokens,
    EvidenceInPrompt,
    FactCites,
    InPrompt,
    NeverInPrompt,
    Probe,
    Verdict,
    evaluate,
)


class PromptAssertionError(AssertionError):
    """A prompt is not as asserted; the message explains why."""

    def __init__(self, memory: Memory, verdict: Verdict) -> None:
        failure = explain_failure(memory, verdict)
        super().__init__(str(failure))
        self.failed_prompt = memory, failure


def assert_in_prompt(memory: Memory, phrase: str, *, turn: int | None = None) -> None:
    """Assert that a phrase is in the prompt: literally, or in a fact or summary made of it."""
    __tracebackhide__ = True
    number = _turn(memory, turn)
    _check(memory, InPrompt, phrase=phrase, from_turn=number, to_turn=number)


def assert_not_in_prompt(memory: Memory, phrase: str, *, turn: int | None = None) -> None:
    """Assert that no sentence of the prompt contains all words of a phrase."""
    __tracebackhide__ = True
    number = _turn(memory, turn)
    _check(memory, NeverInPrompt, phrase=phrase, from_turn=number, to_turn=number)


def assert_evidence_in_prompt(memory: Memory, messages: Sequence[int], *, turn: int | None = None) -> None:
    """Assert that the prompt covers these messages, by number from 1: in its queue, or as something learned from
    them."""
    __tracebackhide__ = True
    _check(memory, EvidenceInPrompt, messages=tuple(messages), turn=_turn(memory, turn))


def assert_block_tokens(memory: Memory, block: str, at_least: int, *, turn: int | None = None) -> None:
    """Assert that the prompt grants a block at least so many tokens."""
    __tracebackhide__ = True
    number = _turn(memory, turn)
    _check(memory, BlockTokens, block=block, at_least=at_least, from_turn=number, to_turn=number)


def assert_fact_cites(memory: Memory, message: int) -> None:
    """Assert that an active fact was learned from a message, by number from 1."""
    __tracebackhide__ = True
    _check(memory, FactCites, message=message)


def _turn(memory: Memory, turn: int | None) -> int:
    """Return the turn to look at; the last one with a prompt by default."""
    __tracebackhide__ = True
    turns = memory.log.history().turns
    if turn is not None:
        assert turn in turns, f"There is no turn {turn} in session {memory.session_id!r}: it has {len(turns)}."
        return turn
    built = [number for number, record in turns.items() if record.built is not None]
    assert built, "No prompt was built yet: call `memory.build_context()` or `memory.get()` first."
    return max(built)


def _check(memory: Memory, kind: type[Probe], **fields: object) -> None:
    __tracebackhide__ = True
    try:
        probe = kind.model_validate(fields)
    except ValidationError as error:
        raise ConfigError(f"{kind.__name__}: {first_problem(error)}") from None
    (verdict,) = evaluate(memory, [probe])
    if not verdict.held:
        raise PromptAssertionError(memory, verdict)
