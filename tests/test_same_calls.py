"""A call that several spans report is recorded once, under the name that any span around it gives its conversation."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from span_kit import Attached, chat, memory, message, sent

from memory_core import Memory, StoreError, list_sessions
from memory_inspector.recorder import receiving
from memory_inspector.recorder.receiving import SpanTree

HELLO = [("user", "Name a bridge.")]
ANSWER = "The old one."


def bare(tokens=(115, 20), **times):
    """A client's own span: a call without words."""
    return chat(None, conversation=None, tokens=tokens, **times)


def with_words(tokens=(115, 20), **times):
    """A framework's span around it."""
    return chat(HELLO, ANSWER, tokens=tokens, **times)


def answered(span, id="r1"):
    """The same span with the id of its answer."""
    return {**span, "attributes": [*span["attributes"], {"key": "gen_ai.response.id", "value": {"stringValue": id}}]}


@pytest.fixture
def attached():
    return Attached()


def calls(attached, session="c1"):
    """Input and output tokens of the calls of a session."""
    events = [record.event for record in attached.log(session).records if record.kind == "model_called"]
    return [(event.input_tokens, event.output_tokens) for event in events]


def names(attached):
    return {status.session_id for status in list_sessions(attached.database)}


def take(attached, requests):
    for request in requests:
        assert attached.take(*request) == []


NESTED = {
    "a client's own span without words in that of a framework": (bare(id=2, parent=1), with_words(id=1, seconds=2)),
    "a span between the two": (bare(id=2, parent=3), sent("chain", id=3, parent=1), with_words(id=1, seconds=2)),
    "words inside, tokens outside": (
        chat(HELLO, ANSWER, tokens=(115, 20), id=2, parent=1),
        chat(None, tokens=(115, 20), id=1, seconds=2),
    ),
    "words in both": (with_words(id=2, parent=1), with_words(id=1, seconds=2)),
    "the same id of an answer in another trace": (answered(bare(id=2, trace=2)), answered(with_words(id=1))),
}


@pytest.mark.parametrize("spans", NESTED.values(), ids=NESTED)
@pytest.mark.parametrize("requests", ["one", "one each"])
def test_two_spans_of_one_call_are_one_call(spans, requests, attached):
    take(attached, [spans] if requests == "one" else [[span] for span in spans])
    take(attached, [spans, *([span] for span in spans)])  # sent again
    assert (calls(attached), attached.prompts("c1")) == ([(115, 20)], [HELLO])
    assert [m.content for m in attached.memory("c1").get_all()] == [HELLO[0][1], ANSWER]


def test_of_a_framework_that_makes_three_spans_for_one_call_the_empty_one_is_none(attached):
    empty = sent("prepare", {"openinference.span.kind": "LLM", "llm.model_name": "m"}, id=3, parent=1)
    take(attached, [[empty, bare(id=2, parent=1), with_words(id=1, seconds=2)]])
    assert calls(attached) == [(115, 20)]


def test_a_span_around_several_calls_with_words_is_none_of_its_own(attached):
    inside = [chat(HELLO, f"Answer {n}.", tokens=(n, 1), id=n, parent=9, began=n) for n in (1, 2)]
    take(attached, [[*inside, with_words(tokens=(3, 2), id=9, seconds=5)]])
    assert calls(attached) == [(1, 1), (2, 1)]


def test_what_a_call_lacks_comes_from_the_other_span(attached):
    inner = chat(HELLO, None, tokens=(115, 20), conversation=None, id=2, parent=1)
    answer = flat("output", "assistant", ANSWER)
    outer = sent("llm", {"openinference.span.kind": "LLM", "session.id": "c1", **answer}, id=1, seconds=2)
    take(attached, [[inner, outer]])
    assert calls(attached) == [(115, 20)]
    assert [m.content for m in attached.memory("c1").get_all()] == [HELLO[0][1], ANSWER]


def flat(which, role, words):
    first = f"llm.{which}_messages.0.message"
    return {f"{first}.role": role, f"{first}.content": words}


def test_a_search_inside_a_search_is_one(attached):
    query = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": "bridge", "session.id": "c1"}
    inner = memory("search_memory", query="bridge", records=[("1", ANSWER)], id=2, parent=1)
    take(attached, [[inner, sent("query", query, id=1, seconds=2)]])
    assert attached.kinds("c1").count("memory_searched") == 1


# -- streams ------------------------------------------------------------------------------------------


def streamed(template, output=None, **times):
    """A span of Logfire's; the two of a stream lie beside each other."""
    words = {"gen_ai.input.messages": json.dumps([message(*HELLO[0])])}
    if output is not None:
        words["gen_ai.output.messages"] = json.dumps([message("assistant", output)])
        words |= {"gen_ai.usage.input_tokens": 11, "gen_ai.usage.output_tokens": 3}
    named = {"gen_ai.operation.name": "chat", "gen_ai.conversation.id": "c1", "logfire.msg_template": template}
    return sent("chat", {**named, **words}, parent=7, **times)


@pytest.mark.parametrize("requests", ["one", "one each"])
def test_the_two_spans_of_a_streamed_call_are_one_call_with_its_answer(requests, attached):
    first = streamed("Chat Completion with {request_data[model]!r}", id=1)
    second = streamed("streaming response from {request_data[model]!r} took {duration:.2f}s", ANSWER, id=2, began=3)
    take(attached, [[first, second]] if requests == "one" else [[first], [second]])
    take(attached, [[first], [second]])  # sent again, as by a program with two exporters
    attached.receiver = attached.restarted()
    take(attached, [[first], [second]])
    assert (calls(attached), attached.prompts("c1")) == ([(11, 3)], [HELLO])
    assert [m.content for m in attached.memory("c1").get_all()] == [HELLO[0][1], ANSWER]


def pieces(*texts, last="stop"):
    reasons = [*[""] * (len(texts) - 1), last]
    return [
        {**message("assistant", text), "finish_reason": reason} for text, reason in zip(texts, reasons, strict=True)
    ]


@pytest.mark.parametrize("texts", [("Yes, ", "inde", "ed."), ("Yes, ", "indeed.", "Yes, indeed.")])
def test_pieces_of_a_streamed_answer_are_one_answer(texts, attached):
    call = chat(HELLO)
    call["attributes"].append({"key": "gen_ai.output.messages", "value": {"stringValue": json.dumps(pieces(*texts))}})
    take(attached, [[call]])
    assert attached.memory("c1").get_all()[-1].content == "Yes, indeed."


# -- names --------------------------------------------------------------------------------------------


def run(*, parent=9, **times):
    return chat(HELLO, ANSWER, conversation=None, parent=parent, **times)


AGENT = sent("Agent.run", {"session.id": "visit 1"}, id=9, seconds=9)


@pytest.mark.parametrize("requests", [[[run(id=1), AGENT]], [[run(id=1)], [AGENT]], [[AGENT], [run(id=1)]]])
def test_a_name_on_a_span_around_a_call_is_its_conversations_whenever_it_comes(requests, attached):
    take(attached, requests)
    assert names(attached) == {"visit 1"}
    assert calls(attached, "visit 1") == [(11, 7)]
    take(attached, requests)
    assert (names(attached), calls(attached, "visit 1")) == ({"visit 1"}, [(11, 7)])


def test_a_second_visit_of_the_same_name_joins_the_first(attached):
    take(attached, [[run(id=1)], [AGENT]])
    again = sent("Agent.run", {"session.id": "visit 1"}, id=19, trace=2, began=20)
    take(attached, [[run(id=11, parent=19, trace=2, began=20)], [again]])
    assert names(attached) == {"visit 1"}
    assert len(calls(attached, "visit 1")) == 2


def test_a_session_that_somebody_has_worked_with_keeps_its_name(attached):
    take(attached, [[run(id=1)]])
    (name,) = names(attached)
    attached.memory(name).session.rename("Bridges")
    take(attached, [[AGENT]])
    assert name in names(attached)
    assert calls(attached, name) == [(11, 7)]


def test_of_a_long_unnamed_conversation_nothing_is_moved(attached, monkeypatch):
    monkeypatch.setattr(receiving, "MAX_UNNAMED_REPORTS", 2)
    take(attached, [[run(id=n, began=n)] for n in (1, 2, 3)])
    (name,) = names(attached)
    take(attached, [[AGENT]])
    assert name in names(attached)
    assert len(calls(attached, name)) == 3


@pytest.mark.parametrize(
    ("attribute", "value"),
    [("session.id", "[Scrubbed due to 'session']"), ("gen_ai.conversation.id", f"resp_{10:048x}")],
)
def test_what_a_secret_filter_left_of_a_name_and_the_id_of_an_answer_are_none(attribute, value, attached):
    words = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": json.dumps([message(*HELLO[0])])}
    for trace in (1, 2):
        take(attached, [[sent("chat", {**words, attribute: value}, trace=trace)]])
    assert names(attached) == {"shop 00000001", "shop 00000002"}


# -- whatever comes -----------------------------------------------------------------------------------


@settings(max_examples=60)
@given(st.data())
def test_however_calls_are_nested_and_sent_each_is_recorded_once_with_its_tokens(data):
    """Each call in up to two spans, below spans of an agent, in any requests, children first."""
    spans, expected = [], []
    for number in range(1, data.draw(st.integers(1, 6)) + 1):
        at, tokens = number * 10, (number, 100 + number)
        agent = data.draw(st.sampled_from([1000, 1001]))
        words = [("user", f"Question {number}?")]
        form = data.draw(st.sampled_from(["one", "bare inside", "words in both"]))
        outer = chat(words, f"Answer {number}.", tokens=tokens, id=number, parent=agent, began=at, seconds=5)
        spans.append((at + 5, outer))
        if form != "one":
            inside = words if form == "words in both" else None
            times = {"id": 100 + number, "parent": number, "began": at, "seconds": 4}
            spans.append((at + 4, chat(inside, conversation=None, tokens=tokens, **times)))
        expected.append(tokens)
    spans += [
        (1_000 + id, sent("run", id=id, parent=data.draw(st.sampled_from([0, 1000, 1001])))) for id in (1000, 1001)
    ]
    ordered = [span for _, span in sorted(spans, key=lambda pair: pair[0])]
    attached = Attached()
    while ordered:
        size = data.draw(st.integers(1, len(ordered)))
        request, ordered = ordered[:size], ordered[size:]
        take(attached, [request] * data.draw(st.integers(1, 2)))
    assert names(attached) == {"c1"}
    assert sorted(calls(attached)) == expected
    assert len(attached.memory("c1").get_all()) == 2 * len(expected)


@pytest.mark.parametrize("parents", [{1: 1}, {1: 2, 2: 1}, {1: 2, 2: 3, 3: 1}])
def test_parents_in_a_circle_and_parents_that_never_come_end_nowhere(parents, attached):
    take(attached, [[run(id=id, parent=parent, began=id) for id, parent in parents.items()]])
    take(attached, [[run(id=50, parent=77, began=50)]])
    (name,) = names(attached)
    assert 1 <= len(calls(attached, name)) <= 1 + len(parents)


def test_the_tree_of_ten_thousand_spans_holds_no_more_than_its_limit(monkeypatch):
    monkeypatch.setattr(receiving, "MAX_SPANS", 1_000)
    tree = SpanTree()
    for number in range(10_000):
        tree.add(f"t:{number}", f"t:{number + 1}" if number % 3 else "", "a name" if number % 7 == 0 else None)
    assert len(tree._around) == 1_000
    assert len(tree._inside) <= 1_000
    assert len(tree._names) <= 1_000


def test_under_the_name_of_a_session_of_ours_nothing_is_moved_and_nothing_lost(attached):
    Memory.from_defaults("visit 1", database=attached.database, services=attached.services)
    take(attached, [[run(id=1)], [AGENT]])
    assert names(attached) == {"visit 1", "shop 00000001"}
    assert calls(attached, "shop 00000001") == [(11, 7)]


def test_a_move_that_ends_half_way_loses_no_word(attached, monkeypatch):
    take(attached, [[run(id=1)]])

    def gone(*given, **named):
        raise StoreError("The database cannot be reached.")

    monkeypatch.setattr(receiving, "delete_session", gone)
    with pytest.raises(StoreError):
        attached.take(AGENT)
    assert calls(attached, "visit 1") == [(11, 7)]
    take(attached, [[run(id=1)], [AGENT]])
    assert calls(attached, "visit 1") == [(11, 7)]


@pytest.mark.parametrize("spans", NESTED.values(), ids=NESTED)
def test_a_request_that_is_sent_again_after_the_database_was_gone_loses_nothing(spans, attached, monkeypatch):
    def gone(*given, **named):
        raise StoreError("The database cannot be reached.")

    for lost in (1, 2):
        with monkeypatch.context() as patch:
            patch.setattr(receiving, "record_reports", gone)
            with pytest.raises(StoreError):
                attached.take(*map(answered, spans[:lost]))
    take(attached, [list(map(answered, spans))])
    assert (calls(attached), attached.prompts("c1")) == ([(115, 20)], [HELLO])
    assert [m.content for m in attached.memory("c1").get_all()] == [HELLO[0][1], ANSWER]


def test_a_streamed_answer_that_is_sent_again_after_the_database_was_gone_is_one_call(attached, monkeypatch):
    first = streamed("Chat Completion with {request_data[model]!r}", id=1)
    second = streamed("streaming response from {request_data[model]!r} took {duration:.2f}s", ANSWER, id=2, began=3)
    take(attached, [[first]])

    def gone(*given, **named):
        raise StoreError("The database cannot be reached.")

    with monkeypatch.context() as patch:
        patch.setattr(receiving, "record_late", gone)
        with pytest.raises(StoreError):
            attached.take(second)
    take(attached, [[second], [second]])
    assert (calls(attached), attached.prompts("c1")) == ([(11, 3)], [HELLO])
