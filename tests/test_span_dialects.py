"""An example of each way in which tools of November 2026 write a model's call, with words of our own."""

import json

import pytest
from span_kit import Attached, as_json, sent

from memory_inspector.recorder.otlp import JSON, read_export
from memory_inspector.recorder.spans import read_span

ASKED = [{"role": "system", "content": "Be calm."}, {"role": "user", "content": "Is it cold?"}]
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": "Oslo"}'}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
GENAI = {
    "gen_ai.operation.name": "chat",
    "gen_ai.request.model": "small",
    "gen_ai.usage.input_tokens": 11,
    "gen_ai.usage.output_tokens": 3,
}


def dumped(name, **fields):
    """A message as LangChain dumps it."""
    return {"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": fields}


def gemini(role, *parts):
    """Content as ADK 1 writes it, with a null for each field that a part has not."""
    fields = ("file_data", "function_call", "function_response", "inline_data", "text", "thought")
    return {"role": role, "parts": [dict.fromkeys(fields) | part for part in parts]}


LANGFUSE = {
    "langfuse.observation.type": "generation",
    "langfuse.observation.model.name": "small",
    "langfuse.observation.input": {"messages": ASKED, "tools": []},
    "langfuse.observation.output": CALLS,
    "langfuse.observation.usage_details": {"prompt_tokens": 11, "completion_tokens": 3},
}
MLFLOW = {
    "mlflow.spanType": '"CHAT_MODEL"',
    "mlflow.llm.model": '"small"',
    "mlflow.spanInputs": {"model": "small", "messages": ASKED, "tools": []},
    "mlflow.spanOutputs": {"id": "r1", "model": "small", "choices": [{"index": 0, "message": CALLS}]},
    "mlflow.chat.tokenUsage": {"input_tokens": 11, "output_tokens": 3, "total_tokens": 14},
}
LANGSMITH = GENAI | {
    "langsmith.span.kind": "llm",
    "gen_ai.prompt": {
        "messages": [[dumped("SystemMessage", content="Be calm."), dumped("HumanMessage", content="Is it cold?")]]
    },
    "gen_ai.completion": {
        "generations": [
            [
                {
                    "type": "ChatGeneration",
                    "message": dumped(
                        "AIMessage", content="", tool_calls=[{"id": "c1", "name": "look", "args": {"at": "Oslo"}}]
                    ),
                }
            ]
        ],
    },
}
LOGFIRE = GENAI | {
    "logfire.msg_template": "Chat Completion with {request_data[model]!r}",
    "request_data": {"model": "small", "messages": ASKED},
    "response_data": {"message": CALLS, "usage": {"prompt_tokens": 11, "completion_tokens": 3}},
}
LOGFIRE_AGENTS = GENAI | {
    "logfire.msg_template": "Responses API with {gen_ai.request.model!r}",
    "events": [
        {"event.name": "gen_ai.system.message", **ASKED[0]},
        {"event.name": "gen_ai.user.message", **ASKED[1]},
        {"event.name": "gen_ai.assistant.message", **CALLS},
    ],
}
ADK_1 = {
    "gen_ai.request.model": "small",
    "gen_ai.usage.input_tokens": 11,
    "gen_ai.usage.output_tokens": 3,
    "gcp.vertex.agent.llm_request": {
        "config": {"system_instruction": "Be calm."},
        "contents": [gemini("user", {"text": "Is it cold?"})],
    },
    "gcp.vertex.agent.llm_response": {
        "content": gemini("model", {"function_call": {"id": "c1", "name": "look", "args": {"at": "Oslo"}}})
    },
}
OPENINFERENCE = {
    "openinference.span.kind": "LLM",
    "llm.model_name": "small",
    "llm.token_count.prompt": 11,
    "llm.token_count.completion": 3,
    **{
        f"llm.input_messages.{n}.message.{field}": message[field]
        for n, message in enumerate(ASKED)
        for field in ("role", "content")
    },
    "output.value": [
        {
            "object": "response",
            "output": [{"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}],
        }
    ],
}
DIALECTS = {
    "langfuse 5": ("OpenAI-generation", LANGFUSE),
    "mlflow 3": ("Completions", MLFLOW),
    "langsmith": ("ChatOpenAI", LANGSMITH),
    "logfire 4": ("Chat Completion with 'small'", LOGFIRE),
    "logfire, openai-agents": ("Responses API", LOGFIRE_AGENTS),
    "google-adk 1": ("call_llm", ADK_1),
    "openinference, answer as a value": ("generation", OPENINFERENCE),
}


def written(attributes):
    """Attributes with objects as JSON text, as exporters write them."""
    return {name: value if isinstance(value, str | int) else json.dumps(value) for name, value in attributes.items()}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_in_each_dialect_has_its_prompt_its_answer_and_its_tokens(dialect):
    name, attributes = DIALECTS[dialect]
    (span,) = read_export(as_json(sent(name, written(attributes))), JSON).spans
    call = read_span(span).what
    assert [(str(message.role), message.content) for message in call.messages] == [
        ("system", "Be calm."), ("user", "Is it cold?"),
    ]  # fmt: skip
    assert [(called.tool_call_id, called.tool_name) for called in call.answer.tool_calls] == [("c1", "look")]
    assert not call.answer.content
    assert (call.model, call.input_tokens, call.output_tokens) == ("small", 11, 3)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_in_each_dialect_is_recorded_in_the_session_that_it_names(dialect):
    name, attributes = DIALECTS[dialect]
    attached = Attached()
    assert attached.take(sent(name, written(attributes | {"session.id": "visit-7"}))) == []
    said = attached.memory("visit-7").get_all()
    assert [str(message.role) for message in said] == ["system", "user", "assistant"]


def test_events_of_adk_1_hold_the_roles_and_calls_of_their_content():
    events = [
        ("gen_ai.user.message", {"content": gemini("user", {"text": "Is it cold?"})}),
        (
            "gen_ai.user.message",
            {"content": gemini("model", {"function_call": {"name": "look", "args": {"at": "Oslo"}}})},
        ),
        (
            "gen_ai.user.message",
            {"content": gemini("user", {"function_response": {"name": "look", "response": {"result": "4 degrees"}}})},
        ),
        ("gen_ai.choice", {"content": gemini("model", {"text": "Rather."}), "index": 0}),
    ]
    (span,) = read_export(as_json(sent("generate_content", GENAI, events=events)), JSON).spans
    call = read_span(span).what
    assert [(str(message.role), message.content) for message in call.messages] == [
        ("user", "Is it cold?"), ("assistant", None), ("tool", "4 degrees"),
    ]  # fmt: skip
    assert call.answer.content == "Rather."


def test_pieces_of_a_stream_are_one_answer_and_a_system_prompt_stands_once():
    def piece(words, reason=""):
        return {"role": "assistant", "parts": [{"type": "text", "content": words}], "finish_reason": reason}

    spoken = [{"role": message["role"], "parts": [{"type": "text", **message}]} for message in ASKED]
    attributes = GENAI | {
        "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be calm."}]),
        "gen_ai.input.messages": json.dumps(spoken),
        "gen_ai.output.messages": json.dumps([piece("Rather, "), piece("I think."), piece("", "stop")]),
    }
    (span,) = read_export(as_json(sent("chat", attributes)), JSON).spans
    call = read_span(span).what
    assert [str(message.role) for message in call.messages] == ["system", "user"]
    assert call.answer.content == "Rather, I think."


@pytest.mark.parametrize(
    "outputs",
    [
        {"role": "assistant", "content": [{"type": "text", "text": "Rather."}]},
        "Rather.",
        {"message": {"role": "assistant", "content": "Rather."}},
    ],
)
def test_mlflow_s_spans_of_other_clients_have_their_answer_and_system_prompt(outputs):
    attributes = {
        "mlflow.spanType": '"CHAT_MODEL"',
        "mlflow.spanInputs": {"system": "Be calm.", "messages": ASKED[1:]},
        "mlflow.spanOutputs": json.dumps(outputs),
    }
    (span,) = read_export(as_json(sent("messages", written(attributes))), JSON).spans
    call = read_span(span).what
    assert [message.content for message in call.messages] == ["Be calm.", "Is it cold?"]
    assert call.answer.content == "Rather."
