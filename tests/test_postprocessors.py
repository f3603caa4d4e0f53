"""LlamaIndex's node postprocessors on a vector block: they order and leave out, on record."""

from typing import ClassVar

import pytest
from engine_fakes import NoteExtractor, open_memory, user
from fakes import FakeEmbedder
from llama_index.core.postprocessor import LongContextReorder, SimilarityPostprocessor
from llama_index.core.postprocessor.types import BaseNodePostprocessor

from memory_core import Memory, Services, VectorMemoryBlock
from memory_core.events import Retrieved

FOUND = ("I like tea in the morning.", "I like tea at noon.", "I like tea at night.")


class Later(BaseNodePostprocessor):
    """Keeps what is said of noon and night, the last first, as a reranker might."""

    asked: ClassVar[list] = []

    def _postprocess_nodes(self, nodes, query_bundle=None):
        self.asked.append(query_bundle.query_str)
        return [node for node in reversed(nodes) if "morning" not in node.node.get_content()]


class Failing(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        raise RuntimeError("no model here")


class Rewriting(BaseNodePostprocessor):
    def _postprocess_nodes(self, nodes, query_bundle=None):
        for node in nodes:
            node.node.set_content("[removed]")
        return nodes


def remembering(*postprocessors, **settings):
    """A session whose vector block holds what was said of tea."""
    block = VectorMemoryBlock(name="turns", priority=1, node_postprocessors=list(postprocessors), **settings)
    memory = open_memory(
        token_limit=200,
        token_flush_size=5,
        services=Services(embedder=FakeEmbedder(), extractor=NoteExtractor()),
        memory_blocks=[block],
    )
    for text in FOUND:
        memory.put(user(text))
    memory.flush(all=True)
    return memory


def asked(memory):
    """The prompt's words for a question about tea, and its record."""
    text = "\n".join(message.content for message in memory.get("When do I like tea?"))
    *_, record = memory.events(kinds=[Retrieved.kind])
    return text, record.event


@pytest.mark.parametrize("top_k", [None, 5])
def test_it_leaves_out_and_orders_and_the_record_says_which(top_k):
    plain, before = asked(remembering(similarity_top_k=top_k))
    assert all(said in plain for said in FOUND)
    assert before.postprocessors == ()
    text, event = asked(remembering(Later(), similarity_top_k=top_k))
    assert "morning" not in text
    assert "noon" in text
    assert event.postprocessors == ("Later",)
    assert event.gates["postprocessed"] == 1
    outcomes = {number: outcome for number, *_, outcome in event.candidates}
    granted = [number for number, outcome in outcomes.items() if outcome == "granted"]
    assert granted == [number for number, *_, outcome in reversed(before.candidates) if number in granted]
    assert event.degraded is None
    assert Later.asked[-1] == "When do I like tea?"


def test_best_first_is_the_order_of_the_postprocessor():
    memory = remembering(Later(), similarity_top_k=3, layout="messages")
    text, event = asked(memory)
    granted = [number for number, *_, outcome in event.candidates if outcome == "granted"]
    words = {turn.number: turn.messages[0].message.content for turn in memory.retrieval.stored_turns("turns")}
    places = [text.index(words[number]) for number in granted]
    assert places == sorted(places)


def test_those_of_llamaindex_work_as_they_are():
    _, event = asked(remembering(SimilarityPostprocessor(similarity_cutoff=5.0), LongContextReorder()))
    assert (event.gates["granted"], event.gates["postprocessed"]) == (0, 3)


@pytest.mark.parametrize(
    ("postprocessor", "said"),
    [
        (Failing(), "Not postprocessed: Failing failed: RuntimeError: no model here"),
        (Rewriting(), "Rewriting wrote other words, which were not used."),
    ],
)
def test_what_was_not_done_as_asked_is_on_record_and_nothing_found_is_lost(postprocessor, said):
    text, event = asked(remembering(postprocessor))
    assert all(words in text for words in FOUND)
    assert event.degraded == said
    assert event.gates["granted"] == 3


def test_a_process_without_them_says_so(tmp_path):
    memory = remembering(Later())
    services = Services(embedder=FakeEmbedder(), extractor=NoteExtractor())
    app = Memory.open("s", memory.session.database, services=services, tokenizer_fn=str.split)
    text, event = asked(app)
    assert "morning" in text
    assert event.degraded == "Not postprocessed: only the agent's program has Later."
    assert asked(memory)[1].gates["postprocessed"] == 1


def test_where_it_went_says_that_a_postprocessor_left_it_out():
    memory = remembering(Later())
    memory.put(user("When do I like tea?"))
    memory.build_context()
    traced = memory.trace("tea in the morning")
    assert traced.decisive.text.endswith("and left out by Later.")


def test_a_process_without_them_foretells_nothing_of_what_they_leave():
    memory = remembering(Later())
    memory.put(user("When do I like tea?"))
    memory.build_context()
    services = Services(embedder=FakeEmbedder(), extractor=NoteExtractor())
    app = Memory.open("s", memory.session.database, services=services, tokenizer_fn=str.split)
    assert app.preview.next_prompt().read_elsewhere == ("turns",)
    assert memory.preview.next_prompt().read_elsewhere == ()
    assert app.trace.fixes(app.trace("tea in the morning")).held is False
