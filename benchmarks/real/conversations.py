"""Twelve short conversations, and the one script of what a model learns from them.

Read by the scripted model and by every program that is run, in whichever environment: the standard library alone.
"""

import json
from dataclasses import dataclass
from typing import Any

Message = dict[str, Any]
"""A message as chat completions have it."""


@dataclass(frozen=True)
class Statement:
    """Fact that a model learns from a user's words."""

    words: str
    fact: str
    needs: str = ""
    """Words that the model must see beside these, to know what is meant."""
    replaces: str = ""
    """Fact that this one takes the place of, where a model is shown what is known."""
    about: str = "The user"
    """Entity that the fact is observed of."""
    relation: tuple[str, str] | None = None
    """Relation of that entity, and the other entity."""
    fails: bool = False
    """True if the first request to learn from these words fails."""


@dataclass(frozen=True)
class Conversation:
    name: str
    turns: tuple[tuple[Message, ...], ...]
    statements: tuple[Statement, ...] = ()

    @property
    def messages(self) -> list[Message]:
        return [message for turn in self.turns for message in turn]


def _turn(*texts: str) -> tuple[Message, ...]:
    """Return a user's message and the answer to it."""
    roles = ("user", "assistant")
    return tuple({"role": role, "content": text} for role, text in zip(roles, texts, strict=True))


def _tool_turn(question: str, place: str, result: str, answer: str) -> tuple[Message, ...]:
    function = {"name": "forecast", "arguments": json.dumps({"place": place})}
    call = {"id": "call_1", "type": "function", "function": function}
    user, reply = _turn(question, answer)
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    return user, asks, {"role": "tool", "tool_call_id": "call_1", "content": result}, reply


FORECAST = "sunny and twenty degrees"
_SISTER = Statement("My sister Ana visited me.", "The user has a sister called Ana", relation=("has sister", "Ana"))
_BO = "The user's dog is called Bo"
_STORY = " ".join(
    f"In {year} I moved to {town}, where I worked as a {trade} and shared a flat with {friend}."
    for year, town, trade, friend in (
        (2011, "Porto", "cook", "Rui"),
        (2013, "Turin", "gardener", "Paola"),
        (2015, "Ghent", "bookbinder", "Joris"),
        (2017, "Bergen", "ferry pilot", "Solveig"),
        (2019, "Gdansk", "carpenter", "Ewa"),
        (2021, "Lyon", "baker", "Colette"),
        (2023, "Faro", "nurse", "Teresa"),
    )
)
STORY = _STORY.replace(" I ", " the user ")

CONVERSATIONS = (
    Conversation(
        "an answer to a question",
        (_turn("What shall I cook tonight?", "Do you eat fish?"), _turn("No, never.", "Then lentils.")),
        (Statement("No, never.", "The user never eats fish", needs="Do you eat fish?"),),
    ),
    Conversation(
        "she",
        (_turn(_SISTER.words, "How nice."), _turn("She lives in Oslo.", "A fine city.")),
        (_SISTER, Statement("She lives in Oslo.", "Ana lives in Oslo", "Ana", about="Ana", relation=("is in", "Oslo"))),
    ),
    Conversation(
        "a contradiction",
        (_turn("I live in Porto.", "Noted."), _turn("I live in Faro.", "Noted, too.")),
        (
            Statement("I live in Porto.", "The user lives in Porto", relation=("lives in", "Porto")),
            Statement("I live in Faro.", "The user lives in Faro", relation=("lives in", "Faro")),
        ),
    ),
    Conversation(
        "a duplicate in other case",
        (_turn("I like tea.", "So do I."), _turn("yes, i like TEA.", "Green or black?")),
        (
            Statement("I like tea.", "The user likes tea", relation=("likes", "tea")),
            Statement("i like TEA.", "the user likes TEA", about="the user", relation=("likes", "TEA")),
        ),
    ),
    Conversation(
        "a failed model call",
        (_turn("My train leaves at seven.", "Early."), _turn("My dog is called Bo.", "Ah."), _turn("Thanks.", "Bye.")),
        (
            Statement("My train leaves at seven.", "The user's train leaves at seven", fails=True),
            Statement("My dog is called Bo.", _BO, relation=("has dog", "Bo")),
        ),
    ),
    Conversation(
        "a long fact",
        (_turn(f"My life in short: {_STORY}", "So many towns."), _turn("Yes.", "I see.")),
        (Statement(_STORY, STORY),),
    ),
    Conversation(
        "a tool call in a turn",
        (
            _tool_turn("I live in Faro. How is the weather?", "Faro", FORECAST, "It is sunny."),
            _turn("I burn easily, by the way.", "Take a hat."),
        ),
        (
            Statement("I live in Faro.", "The user lives in Faro", relation=("lives in", "Faro")),
            Statement("I burn easily", "The user burns easily in the sun", needs="sunny"),
        ),
    ),
    Conversation(
        "two facts in one message",
        (_turn("I am a nurse, and my dog is called Bo.", "Hello, Bo."),),
        (Statement("I am a nurse", "The user is a nurse"), Statement("my dog is called Bo", _BO)),
    ),
    Conversation(
        "a changed preference",
        (_turn("I prefer tea.", "Noted."), _turn("I drink no tea any more, I prefer coffee now.", "Changed.")),
        (
            Statement("I prefer tea.", "The user prefers tea"),
            Statement("I prefer coffee now.", "The user prefers coffee", replaces="The user prefers tea"),
        ),
    ),
    Conversation("a question without facts", (_turn("What is the capital of Norway?", "It is Oslo."),)),
    Conversation(
        "another language",
        (_turn("Ich wohne in Lübeck und habe zwei Katzen.", "Schön!"), _turn("Ja.", "Gut.")),
        (
            Statement("wohne in Lübeck", "Wohnt in Lübeck", relation=("wohnt in", "Lübeck")),
            Statement("habe zwei Katzen", "Hat zwei Katzen"),
        ),
    ),
    Conversation(
        "a fact stated twice",
        (
            _turn("My dog is called Bo.", "Ah."),
            _turn("Is it warm?", "It is."),
            _turn("And my dog is called Bo.", "Yes."),
        ),
        (Statement("My dog is called Bo.", _BO), Statement("my dog is called Bo.", _BO)),
    ),
)
