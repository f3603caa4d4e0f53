"""LlamaIndex's own models, passed where this engine's are: they learn, embed and reply, and their errors are ours."""

import json

import pytest
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.llms import CompletionResponse, CustomLLM, LLMMetadata
from llama_index.core.llms.callbacks import llm_completion_callback

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, ModelError, Services, VectorMemoryBlock
from memory_core.errors import EmbedderError
from memory_core.models.llamaindex_models import _their_errors, wrapped
from memory_core.models.protocols import ChatModel, Embedder, ToolSpec


class Scripted(CustomLLM):
    """Answers every question with one text; fails where there is none."""

    answer: str = ""
    api_key: str = "sk-secret"

    @property
    def metadata(self):
        return LLMMetadata(model_name="scripted")

    @llm_completion_callback()
    def complete(self, prompt, formatted=False, **kwargs):
        if not self.answer:
            raise RuntimeError(f"401 for {self.api_key}")
        return CompletionResponse(text=self.answer)

    @llm_completion_callback()
    def stream_complete(self, prompt, formatted=False, **kwargs):
        for end in range(1, len(self.answer) + 1):
            yield CompletionResponse(text=self.answer[:end], delta=self.answer[end - 1])


class Counting(BaseEmbedding):
    """Counts letters: two texts of the same letters are near."""

    model_name: str = "letters"
    broken: bool = False

    def _get_text_embedding(self, text):
        if self.broken:
            raise RuntimeError("out of order")
        return [float(text.lower().count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"]

    _get_query_embedding = _get_text_embedding

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


FACT = json.dumps({"facts": [{"text": "The user lives in Faro", "category": "personal", "source": 1}]})


def test_a_block_learns_and_embeds_with_llamaindex_models():
    blocks = [
        FactExtractionMemoryBlock(name="facts", llm=Scripted(answer=FACT)),
        VectorMemoryBlock(name="turns", embed_model=Counting()),
    ]
    memory = Memory.from_defaults(memory_blocks=blocks)
    memory.put_messages([ChatMessage.from_str("I live in Faro"), ChatMessage("Nice.", role="assistant")])
    memory.flush(all=True)
    assert [fact.text for fact in memory.facts.read("facts")] == ["The user lives in Faro"]
    [learned] = memory.events(kinds=["facts_extracted"])
    assert learned.event.extractor == "scripted"
    memory.deliver()
    assert [record.event.embedder for record in memory.events(kinds=["vectors_stored"])] == ["letters:26"]


def test_they_fit_the_protocols_and_reply():
    chat, embedder = wrapped(Scripted(answer="Hello.")), wrapped(Counting())
    assert isinstance(chat, ChatModel)
    assert isinstance(embedder, Embedder)
    assert (chat.name, embedder.id, embedder.embed(["a", ""]).shape) == ("scripted", "letters:26", (2, 26))
    reply = chat.stream([ChatMessage("Hi")])
    assert "".join(reply) == "Hello."
    assert reply.call.model == "scripted"
    assert Services(embedder=Counting()).embedder.id == "letters:26"
    assert wrapped("text") == "text"


def test_what_goes_wrong_there_is_an_error_of_ours_without_the_key():
    with pytest.raises(ModelError, match="no tools"):
        wrapped(Scripted(answer="x")).stream([], [ToolSpec("t", "d", {})])
    with pytest.raises(ModelError, match="401") as failed:
        wrapped(Scripted()).ask([ChatMessage("Hi")], type(Scripted()), purpose="extract")
    assert "sk-secret" not in str(failed.value)
    # A long error is cut, and half a key would no longer be recognised.
    with pytest.raises(ModelError) as cut, _their_errors(Scripted(), "scripted"):
        raise RuntimeError("word " * 54 + "sk-secret")
    assert "sk-" not in str(cut.value)
    with pytest.raises(EmbedderError, match="out of order"):
        wrapped(Counting(broken=True)).embed(["a"])


def test_a_message_is_made_and_shown_as_there():
    assert str(ChatMessage.from_str("Hello")) == "user: Hello"
    assert ChatMessage.from_str("Hi", role="assistant") == ChatMessage("Hi", role="assistant")
