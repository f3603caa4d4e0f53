"""A configuration taken to LlamaIndex runs there as pasted, cuts in the same order, and names what is not taken."""

import asyncio
import functools
import re
import subprocess
import sys

import pytest
from engine_fakes import Counter, assistant, open_memory, user
from fakes import FakeChat
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from llama_index.core.base.llms.types import ChatMessage as TheirMessage
from llama_index.core.storage.chat_store.base_db import MessageStatus

from memory_core import (
    FactExtractionMemoryBlock,
    ImagePart,
    Memory,
    MemoryConfig,
    StaticMemoryBlock,
    TextPart,
    VectorMemoryBlock,
    tokens,
)
from memory_core.recipes import RECIPES
from memory_core.tokens import default_counter
from memory_inspector.files import llamaindex_python
from memory_inspector.files.configuration import PROMPTS, write_configuration, write_python
from memory_inspector.files.files import (
    export_configuration,
    export_llamaindex_python,
    export_python,
    stored_blocks,
)
from memory_inspector.files.llamaindex_python import write_llamaindex_python
from memory_inspector.lab.variants import variant_json, variant_llamaindex_python, variant_of, variant_python

THERE = ("static", "facts", "vector")
ODD = "Be kind.\n\"Quoted\" \\ ''' {braces} {{ jinja }} antidisestablishmentarianism 🎈"


@pytest.fixture(scope="module", autouse=True)
def encodings_are_here():
    """A pasted program may ask tiktoken for an encoding, which would be downloaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TIKTOKEN_CACHE_DIR", str(tokens._seeded_cache()))
        yield


@functools.cache
def made_by(recipe):
    """What a recipe makes, as a value."""
    texts = {"instructions": ODD} if recipe == "blocks" else {}
    return variant_of(Memory.from_recipe(recipe, user_id="u", **texts))


def pasted(code):
    """The memory that a pasted program makes."""
    names = {"__name__": "pasted"}
    exec(compile(code, "pasted.py", "exec"), names)
    return names["memory"]


def notes(code):
    """The notes, each in one line."""
    told = re.findall(r"^# note: .*\n(?:#   .*\n)*", code, re.MULTILINE)
    return [re.sub(r"\n#  ", "", note).removeprefix("# note: ").rstrip("\n") for note in told]


def cut_first(blocks, sign):
    """Names of blocks in the order in which they are cut."""
    return [block.name for block in sorted(blocks, key=lambda block: sign * block.priority) if block.priority]


configurations = st.fixed_dictionaries(
    {
        "token_limit": st.integers(20, 50_000),
        "chat_history_token_ratio": st.sampled_from((0.1, 0.35, 0.7, 1.0)),
        "token_flush_size": st.sampled_from((None, 1, 17)),
        "insert_method": st.sampled_from(("system", "user")),
        "truncation_order": st.sampled_from(("largest_first", "smallest_first")),
        "encoding": st.sampled_from(("cl100k_base", "o200k_base")),
        "image_token_size_estimate": st.sampled_from((256, 99)),
        "audio_token_size_estimate": st.sampled_from((256, 98)),
        "video_token_size_estimate": st.sampled_from((256, 97)),
        "document_token_size_estimate": st.sampled_from((2048, 96)),
    }
)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
@settings(max_examples=10, deadline=None)
@given(given=configurations, priorities=st.lists(st.integers(0, 9), min_size=5, max_size=5))
def test_what_is_pasted_is_the_same_memory_there(recipe, given, priorities):
    variant = made_by(recipe)
    changes = {f"{block.name}.priority": number for block, number in zip(variant.blocks, priorities, strict=False)}
    variant = variant.changed("tuned", **given, **changes)
    theirs, config = pasted(write_llamaindex_python(variant.config, variant.blocks)), variant.config
    assert (theirs.token_limit, theirs.chat_history_token_ratio, theirs.token_flush_size) == (
        config.token_limit, config.chat_history_token_ratio, config.flush_size,
    )  # fmt: skip
    assert theirs.insert_method.value == str(config.insert_method)
    for kind in ("image", "audio", "video", "document"):
        assert getattr(theirs, f"{kind}_token_size_estimate") == getattr(config, f"{kind}_token_size_estimate")
    assert len(theirs.tokenizer_fn(ODD)) == default_counter(config.encoding).text(ODD)
    ours = [block for block in variant.make_blocks() if block.kind in THERE]
    assert [(type(block).__name__, block.name) for block in theirs.memory_blocks] == [
        (type(block).__name__, block.name) for block in ours
    ]
    sign = -1 if config.truncation_order == "largest_first" else 1
    assert cut_first(theirs.memory_blocks, 1) == cut_first(ours, sign)
    assert {b.name for b in theirs.memory_blocks if b.priority == 0} == {b.name for b in ours if b.priority == 0}


def test_blocks_keep_their_words_models_and_numbers():
    memory = open_memory(
        memory_blocks=[
            StaticMemoryBlock(name="core", static_content=ODD, description="Who."),
            StaticMemoryBlock(
                name="seen",
                static_content=(TextPart(text="a"), ImagePart(url="https://example.org/cat.png"),
                                ImagePart(url="data:image/png;base64,aGVsbG8=")),
            ),
            FactExtractionMemoryBlock(name="facts", max_facts=7, accept_short_term_memory=False),
            VectorMemoryBlock(name="earlier", similarity_top_k=3, retrieval_context_window=2),
        ]
    )  # fmt: skip
    core, seen, facts, earlier = pasted(export_llamaindex_python(memory)).memory_blocks
    assert [block.text for block in core.static_content] == [ODD]
    assert core.description == "Who."
    assert [block.block_type for block in seen.static_content] == ["text", "image", "image"]
    assert str(seen.static_content[1].url) == "https://example.org/cat.png"
    assert seen.static_content[2].resolve_image().read() == b"hello"
    assert (facts.max_facts, facts.accept_short_term_memory) == (7, False)
    assert (earlier.similarity_top_k, earlier.retrieval_context_window) == (3, 2)


def test_priorities_are_turned_round_where_they_mean_the_opposite_and_only_there():
    memory = open_memory(
        memory_blocks=[
            FactExtractionMemoryBlock(name="first", priority=1),
            FactExtractionMemoryBlock(name="last", priority=10),
            FactExtractionMemoryBlock(name="never", priority=0),
            FactExtractionMemoryBlock(name="also first", priority=1),
        ]
    )
    code = export_llamaindex_python(memory)
    assert [block.priority for block in pasted(code).memory_blocks] == [10, 1, 0, 10]
    assert (
        "LlamaIndex cuts the smallest priority number first, so priorities are turned round: 1 is 10 there, 10 is 1 "
        "there." in notes(code)
    )
    memory.configure(truncation_order="smallest_first")
    code = export_llamaindex_python(memory)
    assert [block.priority for block in pasted(code).memory_blocks] == [1, 10, 0, 1]
    assert not [note for note in notes(code) if "turned round" in note]


def test_every_setting_is_an_argument_there_or_a_note():
    taken = {
        "token_limit", "chat_history_token_ratio", "token_flush_size", "insert_method", "encoding",
        "truncation_order", "image_token_size_estimate", "audio_token_size_estimate",
        "video_token_size_estimate", "document_token_size_estimate",
    }  # fmt: skip
    assert taken | set(llamaindex_python._SETTINGS) == set(MemoryConfig.model_fields)
    dependent = set(llamaindex_python._DEPENDENT)
    for block, arguments in (
        (StaticMemoryBlock(static_content=""), {"deliver_on", "truncation"}),  # it learns nothing and is cut whole
        (FactExtractionMemoryBlock(), {"max_facts", *PROMPTS}),
        (VectorMemoryBlock(), {"similarity_top_k", "retrieval_context_window"}),
    ):
        shared = {"name", "description", "priority", "accept_short_term_memory", "enabled"}
        told = set(llamaindex_python._BLOCKS[block.kind])
        assert told | shared | arguments == set(block.settings()) - dependent


def test_what_has_no_counterpart_is_named_with_its_value():
    memory = open_memory(
        token_limit=4000, queue_turns=5, context_window=3000, reply_reserve=100,
        memory_blocks=[
            FactExtractionMemoryBlock(name="facts", on_change="decide", nearest=3, show="relevant", top_k=4,
                                      categories=["pets"], approval=True, deliver_on="turn"),
            VectorMemoryBlock(name="earlier", similarity_threshold=0.3, retrieval_context_window=1),
            Counter(),
            StaticMemoryBlock(name="off", static_content="x", enabled=False),
            StaticMemoryBlock(name="core", static_content="x", read_only=False, limit=20),
        ],
    )  # fmt: skip
    told = "\n".join(notes(export_llamaindex_python(memory)))
    for part in (
        "queue_turns=5 has no", "context_window=3000 has no", "reply_reserve=100 has no",
        "when_over='shrink_queue' has", "split_long_turns=True", "accounting='content'", "delivery_timeout=",
        "delivery_attempts=5", "'facts': deliver_on='turn'", "'facts': approval=True",
        "on_change='decide', nearest=3 have", "categories=['pets']", "show='relevant', top_k=4 have",
        "'earlier': similarity_top_k=None", "similarity_threshold=0.3", "'earlier': with retrieval_context_window=1",
        "The block 'counter' is left out", "The block 'off' is left out", "'core': read_only=False, limit=20 have",
    ):  # fmt: skip
        assert part in told, part
    plain = open_memory(
        memory_blocks=[FactExtractionMemoryBlock(name="facts", truncation="drop", former_values="show")]
    )
    waits = plain.session.config.delivery_timeout
    plain.configure(when_over="return", split_long_turns=False, accounting="reference", learning_context=0)
    assert notes(export_llamaindex_python(plain)) == [
        f"delivery_timeout={waits} has no counterpart: put waits there until every block has learned.",
        "delivery_attempts=5 has no counterpart: what a block fails to learn is lost to it there.",
    ]


def test_a_summary_and_a_graph_are_left_out_with_their_settings():
    code = export_llamaindex_python(Memory.from_recipe("hybrid", overflow="summarised"))
    told = "\n".join(notes(code))
    assert "The block 'Relations' (graph) has no counterpart and is left out: " in told
    assert "hops=2, most_relations=20." in told
    assert "The block 'Summary' (summary) has no counterpart and is left out: " in told
    assert "max_tokens=300, former_values='mark'." in told
    assert pasted(code).memory_blocks == []


def test_no_name_or_text_becomes_code():
    odd = "a\r\x85\u2028import os; raise SystemExit"
    memory = open_memory(
        memory_blocks=[
            StaticMemoryBlock(name=odd, static_content=f"'''\n{odd}\n\"\"\"", enabled=True),
            StaticMemoryBlock(name=f"{odd} 2", static_content="x", enabled=False),
            FactExtractionMemoryBlock(name=f"{odd} 3", categories=[f"\n{odd}"]),
        ]
    )
    assert [block.name for block in pasted(export_llamaindex_python(memory)).memory_blocks] == [odd, f"{odd} 3"]


@pytest.mark.slow
def test_it_runs_as_a_program_without_a_key_and_recalls_what_left_the_queue(tmp_path):
    memory = Memory.from_recipe("blocks", token_limit=400, instructions="Be kind.")
    memory.blocks.configure("Earlier turns", similarity_top_k=1)
    program = tmp_path / "pasted.py"
    program.write_text(
        export_llamaindex_python(memory)
        + "from llama_index.core.llms import ChatMessage\n"
        + "for number in range(30):\n"
        + "    memory.put(ChatMessage(role='user', content=f'Message {number} about my dog Bo.'))\n"
        + "    memory.put(ChatMessage(role='assistant', content='Noted.'))\n"
        + "facts = memory.memory_blocks[1].facts\n"
        + "print(facts, memory.get()[0].content)\n",
        encoding="utf-8",
    )
    ran = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(
        "[] <memory>\n<Instructions>\nBe kind.\n</Instructions>\n<Earlier turns>\n<message role='user'>Message "
    )


def test_a_variant_and_a_session_are_written_by_the_same_functions():
    memory = Memory.from_recipe("blocks", token_limit=900, instructions="Be kind.")
    config, blocks = memory.session.config, stored_blocks(memory)
    assert write_configuration(config, blocks) == export_configuration(memory)
    assert write_python(config, blocks) == export_python(memory)
    tuned = variant_of(memory).changed("tuned", token_limit=700, **{"Facts.max_facts": 9})
    assert "token_limit=700" in variant_python(tuned)
    assert "max_facts=9" in variant_llamaindex_python(tuned)
    assert '"max_facts": 9' in variant_json(tuned)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    limit=st.integers(20, 120),
    ratio=st.sampled_from((0.3, 0.7, 1.0)),
    flush=st.sampled_from((None, 1, 12)),
    words=st.lists(st.integers(1, 9), min_size=1, max_size=24),
)
@pytest.mark.slow
def test_the_same_conversation_leaves_the_same_queue_in_both(limit, ratio, flush, words):
    same = {"split_long_turns": False, "when_over": "return", "accounting": "reference"}
    ours = Memory.from_recipe("blocks", token_limit=limit, **same)
    ours.configure(chat_history_token_ratio=ratio, token_flush_size=flush)
    theirs = pasted(export_llamaindex_python(ours))
    spoken = [(user if place % 2 == 0 else assistant)(f"m{place} " + "so " * n) for place, n in enumerate(words)]

    async def drive():
        for message in spoken:
            await theirs.aput(TheirMessage(role=message.role.value, content=message.content))
        queue = await theirs.aget_all(status=MessageStatus.ACTIVE)
        await theirs.sql_store._async_engine.dispose()
        return [message.content for message in queue]

    for message in spoken:
        ours.put(message)
    assert asyncio.run(drive()) == [message.content for message in ours.get_all("active")]


def test_prompts_of_ones_own_are_templates_there():
    prompt = 'Drinks, as {"a": 1}, not {{ existing_facts }}.'
    llm = FakeChat()
    memory = open_memory(
        memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=llm, fact_extraction_prompt_template=prompt)]
    )
    [block] = pasted(export_llamaindex_python(memory)).memory_blocks
    [said] = block.fact_extraction_prompt_template.format_messages(existing_facts="- tea")
    assert said.content == 'Drinks, as {"a": 1}, not - tea.'
