"""Make three calls of a model with a library, whose spans go to an address. Run in the library's own environment.

    python instrumented_visits.py KIND MODEL COLLECTOR

Each kind is a function below. It names the conversation `ada` in the way that its library has for it.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from types import SimpleNamespace
from typing import Any

SYSTEM, ASKED, MORE = "Answer in one sentence.", "What is the weather in Oslo?", "Should I take an umbrella?"
WEATHER, ADA = "grey, 7 degrees", "ada"
KIND, MODEL, COLLECTOR = sys.argv[1:]
V1 = f"{MODEL}/v1"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "Weather of a city.", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": TOOL}]


def weather(city: str) -> str:
    """Weather of a city.

    Args:
        city: Name of the city.
    """
    return WEATHER


# -- visits by client ------------------------------------------------------------------------------


def by_openai(client: Any = None) -> None:
    from openai import OpenAI

    ask = (client or OpenAI(base_url=V1, api_key="none")).chat.completions.create
    said: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": ASKED}]
    for _ in range(2):
        message = ask(model="gpt-test", messages=said, tools=TOOLS).choices[0].message
        said.append(message.model_dump(exclude_none=True))
        said += [{"role": "tool", "tool_call_id": call.id, "content": WEATHER} for call in message.tool_calls or ()]
    said.append({"role": "user", "content": MORE})
    stream = {"stream": True, "stream_options": {"include_usage": True}}
    list(ask(model="gpt-test", messages=said, tools=TOOLS, **stream))


def by_anthropic() -> None:
    from anthropic import Anthropic

    ask = Anthropic(base_url=MODEL, api_key="none").messages.create
    fixed: Any = {"model": "claude-test", "max_tokens": 100, "system": SYSTEM}
    fixed["tools"] = [{"name": "weather", "description": "Weather of a city.", "input_schema": SCHEMA}]
    said: list[Any] = [{"role": "user", "content": ASKED}]
    said.append({"role": "assistant", "content": ask(messages=said, **fixed).model_dump(exclude_none=True)["content"]})
    result = {"type": "tool_result", "tool_use_id": said[-1]["content"][0]["id"], "content": WEATHER}
    said.append({"role": "user", "content": [result]})
    said.append({"role": "assistant", "content": ask(messages=said, **fixed).model_dump(exclude_none=True)["content"]})
    list(ask(messages=[*said, {"role": "user", "content": MORE}], stream=True, **fixed))


def by_google() -> None:
    from google import genai
    from google.genai import types

    client = genai.Client(api_key="none", http_options={"base_url": MODEL})
    tool = types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", parameters_json_schema=SCHEMA)])
    config = types.GenerateContentConfig(system_instruction=SYSTEM, tools=[tool])
    fixed: Any = {"model": "gemini-test", "config": config}
    said: list[Any] = [types.Content(role="user", parts=[types.Part(text=ASKED)])]
    said.append(client.models.generate_content(contents=said, **fixed).candidates[0].content)
    result = types.Part.from_function_response(name="weather", response={"result": WEATHER})
    said.append(types.Content(role="user", parts=[result]))
    said.append(client.models.generate_content(contents=said, **fixed).candidates[0].content)
    said.append(types.Content(role="user", parts=[types.Part(text=MORE)]))
    list(client.models.generate_content_stream(contents=said, **fixed))


def by_litellm() -> None:
    import litellm

    def ask(model: str, **given: Any) -> Any:
        return litellm.completion(f"openai/{model}", api_base=V1, api_key="none", **given)

    by_openai(SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=ask))))


def by_langchain() -> None:
    from langchain.agents import create_agent
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    model = ChatOpenAI(model="gpt-test", base_url=V1, api_key="none", stream_usage=True)
    agent = create_agent(model, [weather], system_prompt=SYSTEM, checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": ADA}, "metadata": {"session_id": ADA}}
    agent.invoke({"messages": [("user", ASKED)]}, config)
    list(agent.stream({"messages": [("user", MORE)]}, config, stream_mode="messages"))


def by_llamaindex() -> None:
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    from llama_index.llms.openai_like import OpenAILike

    llm = OpenAILike(model="gpt-test", api_base=V1, api_key="none", is_chat_model=True, is_function_calling_model=True)
    tool = FunctionTool.from_defaults(weather)
    said = [ChatMessage(role="system", content=SYSTEM), ChatMessage(role="user", content=ASKED)]
    said.append(llm.chat_with_tools([tool], chat_history=said).message)
    (call,) = said[-1].additional_kwargs.get("tool_calls") or [None]
    said.append(ChatMessage(role="tool", content=WEATHER, additional_kwargs={"tool_call_id": call.id}))
    said.append(llm.chat_with_tools([tool], chat_history=said).message)
    said.append(ChatMessage(role="user", content=MORE))
    list(llm.stream_chat(said, stream_options={"include_usage": True}))


async def by_agents() -> None:
    from agents import Agent, OpenAIProvider, RunConfig, Runner, SQLiteSession, function_tool

    agent = Agent(name="guide", instructions=SYSTEM, tools=[function_tool(weather)], model="gpt-test")
    provider = OpenAIProvider(base_url=V1, api_key="none", use_responses=True)
    rest: Any = {"session": SQLiteSession(ADA), "run_config": RunConfig(model_provider=provider, group_id=ADA)}
    await Runner.run(agent, ASKED, **rest)
    async for _ in Runner.run_streamed(agent, MORE, **rest).stream_events():
        pass


def by_agno() -> None:
    from agno.agent import Agent
    from agno.db.in_memory import InMemoryDb
    from agno.models.openai import OpenAIChat

    model = OpenAIChat(id="gpt-test", base_url=V1, api_key="none")
    agent = Agent(
        model=model, instructions=SYSTEM, tools=[weather], db=InMemoryDb(), session_id=ADA, add_history_to_context=True
    )
    agent.run(ASKED)
    list(agent.run(MORE, stream=True))


def by_smolagents() -> None:
    from smolagents import ChatMessage, OpenAIModel, tool

    model, one = OpenAIModel("gpt-test", api_base=V1, api_key="none"), tool(weather)
    said = [ChatMessage(role="system", content=SYSTEM), ChatMessage(role="user", content=ASKED)]
    (call,) = model.generate(said, tools_to_call_from=[one]).tool_calls
    # As its agents write both.
    said.append(ChatMessage(role="tool-call", content=f"Calling tools: {call.function.name}"))
    said.append(ChatMessage(role="tool-response", content=f"Observation: {WEATHER}"))
    said += [model.generate(said, tools_to_call_from=[one]), ChatMessage(role="user", content=MORE)]
    list(model.generate_stream(said, tools_to_call_from=[one]))


async def by_pydantic_ai() -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("gpt-test", provider=OpenAIProvider(base_url=V1, api_key="none"))
    agent: Any = Agent(model, instructions=SYSTEM, tools=[weather])
    first = await agent.run(ASKED, conversation_id=ADA)
    history = {"message_history": first.all_messages(), "conversation_id": ADA}
    async with agent.run_stream(MORE, **history) as result:
        async for _ in result.stream_text(debounce_by=None):
            pass


def by_strands() -> None:
    from strands import Agent, tool
    from strands.models.openai import OpenAIModel

    model = OpenAIModel(client_args={"base_url": V1, "api_key": "none"}, model_id="gpt-test")
    attributes = {"session.id": ADA}
    agent = Agent(
        model=model, system_prompt=SYSTEM, tools=[tool(weather)], callback_handler=None, trace_attributes=attributes
    )
    agent(ASKED)
    agent(MORE)


async def by_adk() -> None:
    from google.adk.agents import LlmAgent
    from google.adk.agents.run_config import RunConfig, StreamingMode
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    os.environ |= {"GOOGLE_GEMINI_BASE_URL": MODEL, "GOOGLE_API_KEY": "none"}
    agent = LlmAgent(name="guide", model="gemini-test", instruction=SYSTEM, tools=[weather])
    runner = InMemoryRunner(agent, app_name="program")
    await runner.session_service.create_session(app_name="program", user_id="u", session_id=ADA)
    for text, mode in ((ASKED, StreamingMode.NONE), (MORE, StreamingMode.SSE)):
        asked = types.Content(role="user", parts=[types.Part(text=text)])
        config = RunConfig(streaming_mode=mode)
        async for _ in runner.run_async(user_id="u", session_id=ADA, new_message=asked, run_config=config):
            pass


async def by_agent_framework() -> None:
    from agent_framework import Agent
    from agent_framework.openai import OpenAIChatCompletionClient

    client = OpenAIChatCompletionClient(model="gpt-test", base_url=V1, api_key="none")
    agent = Agent(client, SYSTEM, tools=[weather])
    session = agent.create_session(session_id=ADA)
    await agent.run(ASKED, session=session)
    async for _ in agent.run(MORE, session=session, stream=True):
        pass


# -- kinds: what is instrumented, and the visit ------------------------------------------------------


def exporting() -> Any:
    """Return a new provider, the global one, whose spans go to the collector in batches."""
    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{COLLECTOR}/v1/traces")))
    trace.set_tracer_provider(provider)
    return provider


def around() -> Any:
    """Return a span of the program around its calls, which names the conversation."""
    from opentelemetry import trace

    return trace.get_tracer("program").start_as_current_span("visit", attributes={"session.id": ADA})


def run(visit: Callable[[], Any], inside: Any = None) -> None:
    with inside or nullcontext():
        if asyncio.iscoroutinefunction(visit):
            asyncio.run(visit())
        else:
            visit()


def own(visit: Callable[[], Any], *, named: bool = True, prepare: Callable[[], Any] = lambda: None) -> None:
    """Run with a library that makes spans itself; `named`: it names the conversation in them."""
    provider = exporting()
    prepare()
    run(visit, None if named else around())
    provider.shutdown()


def instrumented(path: str, visit: Callable[[], Any], *, named: bool = False) -> None:
    """Run with a package that instruments a library; `named`: the library names the conversation."""
    module, name = path.split(":")
    provider = exporting()
    getattr(import_module(module), name)().instrument(tracer_provider=provider)
    inside = None if named else around()
    if not named and module.startswith("openinference"):
        inside = import_module("openinference.instrumentation").using_session(ADA)
    run(visit, inside)
    provider.shutdown()


def langfuse() -> None:
    from langfuse import Langfuse, propagate_attributes
    from langfuse.openai import OpenAI

    provider = exporting()
    client = Langfuse(public_key="none", secret_key="none", base_url=COLLECTOR, tracer_provider=provider)
    with client.start_as_current_observation(name="visit"), propagate_attributes(session_id=ADA):
        by_openai(OpenAI(base_url=V1, api_key="none"))
    provider.shutdown()


def langsmith() -> None:
    from langchain_core.tracers.langchain import wait_for_all_tracers

    os.environ |= {"LANGSMITH_TRACING": "true", "LANGSMITH_OTEL_ENABLED": "true", "LANGSMITH_OTEL_ONLY": "true"}
    provider = exporting()
    by_langchain()
    wait_for_all_tracers()
    provider.shutdown()


def logfire(visit: Callable[[], Any], instrument: str) -> None:
    library = import_module("logfire")
    library.configure(send_to_logfire=False, console=False)  # it exports to the address of the environment
    getattr(library, instrument)()
    run(visit, library.span("visit", **{"gen_ai.conversation.id": ADA}))
    library.shutdown()


def agent_framework() -> None:
    prepare = import_module("agent_framework.observability").enable_instrumentation
    own(by_agent_framework, named=False, prepare=lambda: prepare(enable_sensitive_data=True))


def mlflow() -> None:
    os.environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] = f"{COLLECTOR}/v1/traces"
    library = import_module("mlflow")
    library.openai.autolog()
    with library.start_span("visit") as span:
        span.set_attribute("session.id", ADA)
        by_openai()
    library.flush_trace_async_logging(terminate=True)


OI, OT = "openinference.instrumentation", "opentelemetry.instrumentation"
KINDS: dict[str, Callable[[], None]] = {
    "openinference-openai": lambda: instrumented(f"{OI}.openai:OpenAIInstrumentor", by_openai),
    "openinference-anthropic": lambda: instrumented(f"{OI}.anthropic:AnthropicInstrumentor", by_anthropic),
    "openinference-google-genai": lambda: instrumented(f"{OI}.google_genai:GoogleGenAIInstrumentor", by_google),
    "openinference-litellm": lambda: instrumented(f"{OI}.litellm:LiteLLMInstrumentor", by_litellm),
    "openinference-langchain": lambda: instrumented(f"{OI}.langchain:LangChainInstrumentor", by_langchain, named=True),
    "openinference-llama-index": lambda: instrumented(f"{OI}.llama_index:LlamaIndexInstrumentor", by_llamaindex),
    "openinference-openai-agents": lambda: instrumented(f"{OI}.openai_agents:OpenAIAgentsInstrumentor", by_agents),
    "openinference-agno": lambda: instrumented(f"{OI}.agno:AgnoInstrumentor", by_agno, named=True),
    "openinference-smolagents": lambda: instrumented(f"{OI}.smolagents:SmolagentsInstrumentor", by_smolagents),
    "openllmetry-openai": lambda: instrumented(f"{OT}.openai:OpenAIInstrumentor", by_openai),
    "openllmetry-anthropic": lambda: instrumented(f"{OT}.anthropic:AnthropicInstrumentor", by_anthropic),
    "openai-v2": lambda: instrumented(f"{OT}.openai_v2:OpenAIInstrumentor", by_openai),
    "langfuse": langfuse,
    "langsmith": langsmith,
    "logfire-openai": lambda: logfire(by_openai, "instrument_openai"),
    "logfire-pydantic-ai": lambda: logfire(by_pydantic_ai, "instrument_pydantic_ai"),
    "pydantic-ai": lambda: own(by_pydantic_ai, prepare=lambda: import_module("pydantic_ai").Agent.instrument_all()),
    "google-adk": lambda: own(by_adk),
    "strands": lambda: own(by_strands),
    "agent-framework": agent_framework,
    "mlflow": mlflow,
}

if __name__ == "__main__":
    KINDS[KIND]()
