"""What is none of the things that can be given is refused where it is given, in words that help."""

import math
import re
from collections.abc import Callable

import pytest
from fakes import FakeChat, FakeEmbedder, FakeExtractor
from llama_index.core.embeddings import MockEmbedding
from llama_index.core.llms import MockLLM
from llama_index.core.vector_stores import SimpleVectorStore
from pydantic import Field

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    ConfigError,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    MemoryConfig,
    Services,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.argument_checks import bounds
from memory_core.models.embedding import OpenAIEmbedder
from memory_core.models.openai_client import OpenAIChat
from memory_core.systems import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from ui.parts.components import limits


class Counter(BaseMemoryBlock[str]):
    name: str = "Counter"
    mention_count: int = 0


class Nameless(BaseMemoryBlock[str]):
    pass


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: VectorMemoryBlock(similarity_topk=3),
            'VectorMemoryBlock has no argument "similarity_topk": did you mean "similarity_top_k"?',
        ),
        (
            lambda: VectorMemoryBlock(node_postprocessors=[len]),
            "node_postprocessors must be postprocessors of LlamaIndex, not builtin_function_or_method",
        ),
        (
            lambda: VectorMemoryBlock(format_template="{{ text }}"),
            'VectorMemoryBlock has no argument "format_template": layout says how what is found is laid out',
        ),
        (lambda: Memory.from_defaults(table_name="chats"), 'there is no setting "table_name": all sessions share'),
        (
            lambda: Memory.from_defaults(memory_blocks_template="{{ memory_blocks }}"),
            'there is no setting "memory_blocks_template": the engine lays the blocks out itself',
        ),
        (lambda: MemoryConfig(token_limits=3), 'there is no setting "token_limits": did you mean "token_limit"?'),
        (
            lambda: FactExtractionMemoryBlock(fact_extraction_prompt_template=" "),
            "a prompt must be a text, or a prompt template of LlamaIndex, and not be empty",
        ),
        (
            lambda: FactExtractionMemoryBlock(llm=FakeExtractor(), fact_condense_prompt_template="Shorter!"),
            "fact_condense_prompt_template is for a chat model, and llm takes no prompt",
        ),
        (
            lambda: Memory.from_defaults(
                memory_blocks=[FactExtractionMemoryBlock(fact_extraction_prompt_template="Only names.")]
            ),
            'the block "ExtractedFacts" has a fact_extraction_prompt_template, and no model that could follow it',
        ),
        (lambda: ChatMemoryBuffer.from_defaults(chat_store=object()), "give database_uri"),
        (lambda: ChatSummaryMemoryBuffer.from_defaults(summarize_prompt="Shorter!"), "summarize_prompt: the engine's"),
        (
            lambda: StaticMemoryBlock(name="a", static_content="b", priorty=3),
            'StaticMemoryBlock has no argument "priorty": did you mean "priority"?',
        ),
        (
            lambda: SummaryMemoryBlock(max_token=3),
            'SummaryMemoryBlock has no argument "max_token": did you mean "max_tokens"?',
        ),
        (
            lambda: Counter(mention_counts=3),
            'Counter has no argument "mention_counts": did you mean "mention_count"?',
        ),
        (lambda: Nameless(), "Nameless needs name"),
        (
            lambda: FactExtractionMemoryBlock(llm="gpt-4o"),
            "FactExtractionMemoryBlock: llm must be a chat model or an extractor of facts, not the text "
            '"gpt-4o": OpenAIChat("gpt-4o") makes one of a name',
        ),
        (
            lambda: GraphMemoryBlock(llm=MockEmbedding(embed_dim=3)),
            "GraphMemoryBlock: llm must be a chat model or an extractor of relations, not "
            "llama_index.core.embeddings.mock_embed_model.MockEmbedding: it has no name, stream, ask",
        ),
        (
            lambda: SummaryMemoryBlock(llm=OpenAIChat),
            "SummaryMemoryBlock: llm must be a chat model or a summariser, not the class OpenAIChat: "
            "give an object of it",
        ),
        (
            lambda: VectorMemoryBlock(embed_model="text-embedding-3-small"),
            'VectorMemoryBlock: embed_model must be an embedding model, not the text "text-embedding-3-small": '
            'OpenAIEmbedder("text-embedding-3-small") makes one of a name',
        ),
        (
            lambda: VectorMemoryBlock(embed_model=MockLLM()),
            "VectorMemoryBlock: embed_model must be an embedding model, not llama_index.core.llms.mock.MockLLM",
        ),
        (
            lambda: VectorMemoryBlock(vector_store=SimpleVectorStore()),
            "VectorMemoryBlock: vector_store must be a vector index, not "
            "llama_index.core.vector_stores.simple.SimpleVectorStore: it has no name, search, forget, check",
        ),
        (
            lambda: Memory.from_recipe("blocks", chat="gpt-4o"),
            'chat must be a chat model, not the text "gpt-4o": OpenAIChat("gpt-4o") makes one of a name',
        ),
        (lambda: Services(embedder=5), "embedder must be an embedding model, not int: it has no id, dimensions"),
        (lambda: Services(extractor=FakeEmbedder()), "extractor must be an extractor of facts, not fakes.FakeEmbedder"),
    ],
)
def test_what_cannot_be_used_is_refused_where_it_is_given(make, said):
    with pytest.raises(ConfigError) as refused:
        make()
    assert said in str(refused.value)


def test_a_key_in_a_foreign_model_is_not_shown():
    class Foreign:
        def __repr__(self):
            return "Foreign(api_key='sk-secret')"

    with pytest.raises(ConfigError) as refused:
        FactExtractionMemoryBlock(llm=Foreign())
    assert "sk-secret" not in str(refused.value)


def test_models_are_taken_without_being_asked_anything():
    nobody = "http://127.0.0.1:9/v1"  # to know its dimensions, the endpoint would have to be asked
    assert VectorMemoryBlock(embed_model=OpenAIEmbedder(base_url=nobody, api_key="k")).embed_model.offline is False
    assert FactExtractionMemoryBlock(llm=OpenAIChat("m", nobody, "k")).llm.name == "m"
    assert SummaryMemoryBlock(llm=FakeChat()).llm.name


@pytest.mark.parametrize(
    ("model", "field", "says", "limited"),
    [
        (FactExtractionMemoryBlock, "max_facts", "at least 1", {"min_value": 1, "max_value": None}),
        (GraphMemoryBlock, "hops", "at least 1 and at most 4", {"min_value": 1, "max_value": 4}),
        (GraphMemoryBlock, "priority", "at least 0", {"min_value": 0, "max_value": None}),
        (
            MemoryConfig,
            "queue_turns",
            "at least 1 and at most 1,000,000,000",
            {"min_value": 1, "max_value": 1_000_000_000},
        ),
        (MemoryConfig, "chat_history_token_ratio", "above 0 and at most 1", {"min_value": None, "max_value": 1}),
    ],
)
def test_the_bounds_of_a_setting_stand_on_its_field_for_code_and_forms_alike(model, field, says, limited):
    assert str(bounds(model, field)) == says
    assert limits(model, field) == limited


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e300, 10**400, 10**5000, True, "10"], ids=range(8))
@pytest.mark.parametrize(
    "name", [name for name, field in MemoryConfig.model_fields.items() if re.search("int|float", str(field.annotation))]
)
def test_a_number_that_is_none_is_refused_by_constructor_and_configure_alike(name, value):
    memory = Memory.from_defaults("numbers")
    refusals = []
    for change in (lambda: Memory.from_defaults("more", **{name: value}), lambda: memory.configure(**{name: value})):
        with pytest.raises(ConfigError) as refused:
            change()
        refusals.append(str(refused.value))

    assert refusals[0] == refusals[1]
    assert name in refusals[0]
    assert len(refusals[0]) < 200


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 10**400, True, "10"], ids=range(6))
@pytest.mark.parametrize(
    "name", [name for name, field in VectorMemoryBlock.model_fields.items() if "float" in str(field.annotation)]
)
def test_a_block_refuses_the_same_numbers_when_it_is_made_and_when_it_is_changed(name, value):
    memory = Memory.from_defaults("numbers", memory_blocks=[VectorMemoryBlock(name="v")])
    refusals = []
    changed = {name: value}
    for change in (
        lambda: VectorMemoryBlock(name="v", **changed),
        lambda: memory.blocks.configure("v", **changed),
    ):
        with pytest.raises(ConfigError) as refused:
            change()
        refusals.append(str(refused.value))

    assert refusals[0] == refusals[1]
    assert len(refusals[0]) < 200


@pytest.mark.parametrize("value", [1, 0, "yes", "False"])
def test_what_is_neither_true_nor_false_is_refused(value):
    with pytest.raises(ConfigError, match=f"split_long_turns must be True or False, not {value!r}"):
        MemoryConfig(split_long_turns=value)
    with pytest.raises(ConfigError, match=f"StaticMemoryBlock: enabled must be True or False, not {value!r}"):
        StaticMemoryBlock(static_content="Be kind.", enabled=value)


class Flagged(BaseMemoryBlock[str]):
    name: str = "Flagged"
    flags: list[bool] = Field(default_factory=list)
    counted: Callable[[str], int] = len


def test_fields_that_hold_lists_and_functions_are_left_to_their_types():
    block = Flagged(flags=[True, False], counted=str.__len__)
    assert (block.flags, block.counted("abc")) == ([True, False], 3)


def test_to_wait_for_ever_for_deliveries_is_possible():
    memory = Memory.from_defaults("numbers", memory_blocks=[VectorMemoryBlock(name="v", deliver_on="turn")])
    memory.put(ChatMessage(content="I like tea."))

    assert memory.deliver(timeout=math.inf).keys() <= {"v"}


def test_an_error_shows_no_api_key():
    key = "sk-proj-4f9aB7c2D8e1F6a3B5c9"
    with pytest.raises(ConfigError, match="must be a chat model") as raised:
        Memory.from_recipe("summary", chat=key)
    assert "4f9a" not in str(raised.value)
