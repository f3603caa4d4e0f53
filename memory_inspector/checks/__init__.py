"""Helpers for tests of programs that use a memory: assertions on prompts, promises of own parts, simulated failures."""

from memory_inspector.checks.promises import (
    Conformance,
    StoreItem,
    check_adapter,
    check_block,
    check_store_reader,
    check_vector_index,
)
from memory_inspector.checks.prompt_assertions import (
    assert_block_tokens,
    assert_evidence_in_prompt,
    assert_fact_cites,
    assert_in_prompt,
    assert_not_in_prompt,
)
from memory_inspector.checks.simulation import SimulatedCrash, Simulation, check_session, simulate

__all__ = [
    "Conformance",
    "SimulatedCrash",
    "Simulation",
    "StoreItem",
    "assert_block_tokens",
    "assert_evidence_in_prompt",
    "assert_fact_cites",
    "assert_in_prompt",
    "assert_not_in_prompt",
    "check_adapter",
    "check_block",
    "check_session",
    "check_store_reader",
    "check_vector_index",
    "simulate",
]
