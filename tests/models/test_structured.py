"""Reading what a model wrote, whatever that is: in linear time, with whole characters."""

import pytest
from pydantic import BaseModel

from memory_core.errors import ModelAnswerError
from memory_core.models.structured import parse_answer, without_thinking

LONG = 1_000_000
"""Characters: in quadratic time, each of these answers would take from minutes to hours."""


class Word(BaseModel):
    word: str


@pytest.mark.parametrize(
    "answer",
    [
        "<think>" * (LONG // 7),
        "<think></think>" * (LONG // 15) + "<think>" * (LONG // 7),
        "</think>" * (LONG // 8),
        "{" * LONG,
        "[" * LONG,
        '{"word":' * (LONG // 8),
        '{"word":[' * (LONG // 9),
        '{"' * (LONG // 2),
        "\\" * LONG,
        "{}" * (LONG // 2),
        '{"word": 1}' * (LONG // 11),
    ],
    ids=lambda answer: answer[:16],
)
def test_a_hostile_answer_of_a_megabyte_is_refused_in_linear_time(answer):
    with pytest.raises(ModelAnswerError):
        parse_answer(answer, Word)


def test_thoughts_are_left_out_wherever_they_stand():
    assert parse_answer('<think>{"word": "no"}</think> {"word": "yes"}', Word).word == "yes"
    assert parse_answer('{"word": "yes"} <think>', Word).word == "yes"
    assert without_thinking("a<think>b</think>c<think>d</think>e") == "ace"
    assert without_thinking("a<think>b<think>c</think>d") == "ad"


def test_half_a_character_in_an_answer_is_replaced():
    assert parse_answer('{"word": "a\\ud83d b \\ud83d\\ude00"}', Word).word == "a\ufffd b \U0001f600"
    assert parse_answer('{"word": "a\ud83d"}', Word).word == "a\ufffd"
