"""Helpers for tests of programs that use a memory: assertions on prompts, promises of own parts, simulated failures."""

from memory_core.testing.adapter_promises import check_adapter
from memory_core.testing.block_promises import check_block
from memory_core.testing.conformance import Conformance
from memory_core.testing.index_promises import check_vector_index
from memory_core.testing.invariants import check_session
from memory_core.testing.prompt_assertions import (
    assert_block_tokens,
    assert_evidence_in_prompt,
    assert_fact_cites,
    assert_in_prompt,
    assert_not_in_prompt,
)
from memory_core.testing.reader_promises import StoreItem, check_store_reader
from memory_core.testing.simulation import SimulatedCrash, Simulation, simulate

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
