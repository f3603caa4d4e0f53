"""Reading what a model wrote, whatever that is: in linear time, with whole characters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from memory_core.errors import ModelAnswerError
from memory_core.models.extraction import Facts
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
@pytest.mark.slow
def test_a_hostile_answer_of_a_megabyte_is_refused_in_linear_time(answer):
    with pytest.raises(ModelAnswerError):
        parse_answer(answer, Word)


def test_thoughts_are_left_out_wherever_they_stand():
    assert parse_answer('<think>{"word": "no"}</think> {"word": "yes"}', Word).word == "yes"
    assert parse_answer('{"word": "yes"} <think>', Word).word == "yes"
    assert without_thinking("a<think>b</think>c<think>d</think>e") == "ace"
    assert without_thinking("a<think>b<think>c</think>d") == "ad"


DRAFT, ANSWER = '{"word": "draft"}', '{"word": "answer"}'


@pytest.mark.parametrize(
    "text",
    [
        "Hm: {draft} But wait.\n</think>\n{answer}",
        "think>\n{draft}\n</think>{answer}",
        "<think>One <think>two {draft}</think> {draft}</think>{answer}",
        "<THINK>{draft}</Think>{answer}",
        "<thinking>{draft}</thinking>\n{answer}",
        "< think >{draft}</ think >{answer}",
        "<reasoning>{draft}</reasoning>{answer}",
        "[THINK]{draft}[/THINK]{answer}",
        "{draft}[/THINK]{answer}",
        "◁think▷{draft}◁/think▷{answer}",
        "<|begin_of_thought|>{draft}<|end_of_thought|><|begin_of_solution|>{answer}<|end_of_solution|>",
        "<|channel|>analysis<|message|>{draft}<|end|><|start|>assistant<|channel|>final<|message|>{answer}",
        "<|channel|>analysis<|message|>{draft}<|end|><|channel|>final <|constrain|>json<|message|>{answer}",
        "<seed:think>{draft}</seed:think>{answer}",
        "I begin with {draft}, and the answer is {answer}.",
        "{draft}\n```json\n{answer}\n```",
        "{answer} <think>{draft}</think>",
        "{answer} <think>{draft}",
        "<think>{draft}</think>{answer}<think>{draft}",
        '<think>{draft}</think>{answer} {{"other": 1}}',
    ],
)
def test_the_last_answer_behind_all_thinking_counts(text):
    assert parse_answer(text.format(draft=DRAFT, answer=ANSWER), Word).word == "answer"


@pytest.mark.parametrize(
    "text", ["<think>{draft}", "<think>{draft}</think>", "{draft}</think>I cannot.", "[THINK]{draft}"]
)
def test_a_draft_alone_is_no_answer(text):
    with pytest.raises(ModelAnswerError):
        parse_answer(text.format(draft=DRAFT), Word)


@pytest.mark.parametrize("mark", ["\n", "\t", "\r\n"])
def test_raw_line_breaks_and_tabs_in_texts_are_read(mark):
    assert parse_answer(f'{{"word": "one{mark}two"}}', Word).word == f"one{mark}two"


@given(st.lists(st.sampled_from(["<think>", "</think>", "[THINK]", "[/THINK]", DRAFT, "Hm. ", "{", "\n"]), max_size=12))
def test_whatever_was_thought_the_answer_behind_it_counts(thoughts):
    assert parse_answer("".join([*thoughts, "</think>", ANSWER]), Word).word == "answer"


def test_facts_given_as_texts_or_by_another_name_are_facts():
    for given_facts in (
        ["Has a boat."],
        [{"fact": "Has a boat."}],
        [{"memory": "Has a boat."}],
        [{"text": "Has a boat."}],
    ):
        answer = parse_answer(json.dumps({"facts": given_facts}), Facts)
        assert [fact.text for fact in answer.facts] == ["Has a boat."]


def test_half_a_character_in_an_answer_is_replaced():
    assert parse_answer('{"word": "a\\ud83d b \\ud83d\\ude00"}', Word).word == "a\ufffd b \U0001f600"
    assert parse_answer('{"word": "a\ud83d"}', Word).word == "a\ufffd"
