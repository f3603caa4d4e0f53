"""Answers that admit not to know what the user had said, found by rules in any conversation."""

import pytest
from engine_fakes import HashEmbedder, assistant, user
from fakes import FakeExtractor
from hypothesis import given
from hypothesis import strategies as st

from memory_core import FactExtractionMemoryBlock, Memory, Services
from memory_core.models.offline.responder import answering
from memory_inspector.reading.forgotten import Forgotten, admits, forgotten
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job


def imported(*talk, token_limit=40):
    memory = Memory.from_defaults(
        "s",
        token_limit=token_limit,
        token_flush_size=10,
        tokenizer_fn=str.split,
        services=Services(embedder=HashEmbedder(), extractor=FakeExtractor()),
        memory_blocks=[FactExtractionMemoryBlock(name="facts")],
    )
    memory.session.attach_recording(
        [(user if place % 2 == 0 else assistant)(text) for place, text in enumerate(talk)], source="a file"
    )
    return memory


FILLER = (
    "Tell me something about the long way from Porto to Lisbon by train, please.",
    "It takes three hours or so.",
) * 3
SAID = ("My cat Mila eats only salmon.", "Noted.")


@pytest.mark.parametrize(
    ("answer", "missed"),
    [
        ("I don't know what Mila eats.", Forgotten("My cat Mila eats only salmon.", 1)),
        ("Sorry, you haven’t told me that.", Forgotten("My cat Mila eats only salmon.", 1)),
        ("As for food, I have nothing about Mila.", Forgotten("My cat Mila eats only salmon.", 1)),
        ("Mila eats salmon.", None),
    ],
)
def test_an_answer_that_admits_not_to_know_lacks_what_was_said_and_left_the_prompt(answer, missed):
    memory = imported(*SAID, *FILLER, "What does my cat Mila eat?", answer)
    play(Job("j"), memory, turns=None, pace=0)
    assert forgotten(memory, last=1) == missed
    assert forgotten(memory, last=20) == missed


@pytest.mark.parametrize(
    ("talk", "limit"),
    [((*SAID, *FILLER), 4000), (("I have a cat.", "Nice."), 4000), (("Who eats salmon?", "I don't know."), 40)],
    ids=["in the prompt", "never said", "only asked"],
)
def test_who_does_not_know_what_the_prompt_said_or_nobody_did_has_forgotten_nothing(talk, limit):
    memory = imported(*talk, "What does my cat Mila eat?", "I don't know what Mila eats.", token_limit=limit)
    play(Job("j"), memory, turns=None, pace=0)
    assert forgotten(memory, last=20) is None


@given(st.text(max_size=200))
def test_no_text_breaks_the_rules(text):
    assert admits(text) in (True, False)
    said = [user(f"My cat Mila eats only salmon. {text}"), user(text)]
    assert all(isinstance(sentence, str) for sentence in answering(said))
