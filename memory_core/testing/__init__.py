"""Helpers for the tests of programs that use a memory: assertions on prompts, and promises of your own parts."""

from memory_core.testing.adapter_promises import check_adapter
from memory_core.testing.block_promises import check_block
from memory_core.testing.conformance import Conformance
from memory_core.testing.index_promises import check_vector_index
from memory_core.testing.prompt_assertions import (
    assert_block_tokens,
    assert_evidence_in_prompt,
    assert_fact_cites,
    assert_in_prompt,
    assert_not_in_prompt,
)
from memory_core.testing.reader_promises import StoreItem, check_store_reader

__all__ = [
    "Conformance",
    "StoreItem",
    "assert_block_tokens",
    "assert_evidence_in_prompt",
    "assert_fact_cites",
    "assert_in_prompt",
    "assert_not_in_prompt",
    "check_adapter",
    "check_block",
    "check_store_reader",
    "check_vector_index",
]
