"""Fill the store of a framework as its users do, with the framework itself; run by `stores.py` in its environment.

    python store_programs.py NAME FOLDER

Each makes the same conversation with a model of the framework's own test kit, or one written here: a question, a call
of a tool, its result, the answer; then a question with an answer. What it makes is under FOLDER/NAME.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

QUESTION, CALL, RESULT, ANSWER, SECOND, LAST = (
    "Is it cold in Oslo?", {"city": "Oslo"}, "4 degrees", "Rather.", "I like tea.", "Noted.",
)  # fmt: skip


def look(city: str) -> str:
    """Return the weather of a city."""
    return RESULT


def step(text: Any, has_result: bool) -> str | None:
    """Return what the model says to a last message; None for a call of the tool."""
    return ANSWER if has_result else LAST if SECOND in str(text) else None


def pydantic_ai(folder: Path) -> None:
    from pydantic_ai import Agent, messages
    from pydantic_ai.models.function import FunctionModel

    def answer(history: Any, info: Any) -> Any:
        last = history[-1].parts[-1]
        words = step(last.content, last.part_kind == "tool-return")
        part = messages.ToolCallPart("look", CALL, tool_call_id="c1") if words is None else messages.TextPart(words)
        return messages.ModelResponse(parts=[part])

    agent = Agent(FunctionModel(answer), tools=[look], instructions="Be brief.")
    first = agent.run_sync(QUESTION)
    second = agent.run_sync(SECOND, message_history=first.all_messages())
    (folder / "messages.json").write_bytes(second.all_messages_json())


def strands(folder: Path) -> None:
    from strands import Agent, tool
    from strands.models.model import Model
    from strands.session.file_session_manager import FileSessionManager

    class Scripted(Model):
        def update_config(self, **_: Any) -> None: ...
        def get_config(self) -> Any: ...
        def structured_output(self, *_: Any, **__: Any) -> Any: ...

        async def stream(self, messages: Any, *_: Any, **__: Any) -> Any:
            last = messages[-1]["content"][-1]
            words = step(last.get("text"), "toolResult" in last)
            start = {} if words else {"toolUse": {"toolUseId": "c1", "name": "look"}}
            delta = {"text": words} if words else {"toolUse": {"input": json.dumps(CALL)}}
            yield {"messageStart": {"role": "assistant"}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": delta}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn" if words else "tool_use"}}

    manager = FileSessionManager("s1", storage_dir=str(folder))
    agent = Agent(model=Scripted(), tools=[tool(look)], session_manager=manager, callback_handler=None)
    agent(QUESTION)
    agent(SECOND)


def agent_framework(folder: Path) -> None:
    from agent_framework import Agent, BaseChatClient, ChatResponse, Content, FunctionInvocationLayer, Message, tool

    class Scripted(FunctionInvocationLayer, BaseChatClient):
        def _inner_get_response(self, *, messages: Any, **_: Any) -> Any:
            async def answer() -> Any:
                words = step(messages[-1].text, messages[-1].role == "tool")
                called = Content.from_function_call("c1", "look", arguments=json.dumps(CALL))
                return ChatResponse(messages=[Message("assistant", [called if words is None else words])])

            return answer()

    async def talk() -> Any:
        agent = Agent(Scripted(), name="guide", tools=[tool(look)])
        session = agent.create_session(session_id="s1")
        for question in (QUESTION, SECOND):
            await agent.run(question, session=session)
        return session.to_dict()

    (folder / "session.json").write_text(json.dumps(asyncio.run(talk())))


def autogen(folder: Path) -> None:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core import FunctionCall
    from autogen_core.models import CreateResult, RequestUsage
    from autogen_ext.models.replay import ReplayChatCompletionClient

    called = [FunctionCall(id="c1", name="look", arguments=json.dumps(CALL))]
    first = CreateResult(finish_reason="function_calls", content=called, usage=RequestUsage(1, 1), cached=False)
    info: Any = {"vision": False, "function_calling": True, "json_output": True, "family": "x"}
    client = ReplayChatCompletionClient([first, ANSWER, LAST], model_info={**info, "structured_output": False})

    async def talk() -> Any:
        agent = AssistantAgent("guide", client, tools=[look], reflect_on_tool_use=True)
        for question in (QUESTION, SECOND):
            await agent.run(task=question)
        return await agent.save_state()

    (folder / "state.json").write_text(json.dumps(asyncio.run(talk())))


def haystack(folder: Path) -> None:
    from haystack.dataclasses import ChatMessage, ToolCall

    called = ToolCall("look", CALL, id="c1")
    messages = [
        ChatMessage.from_user(QUESTION),
        ChatMessage.from_assistant(tool_calls=[called]),
        ChatMessage.from_tool(RESULT, origin=called),
        *(ChatMessage.from_assistant(ANSWER), ChatMessage.from_user(SECOND), ChatMessage.from_assistant(LAST)),
    ]
    (folder / "messages.json").write_text(json.dumps([message.to_dict() for message in messages]))


def google_adk(folder: Path) -> None:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import DatabaseSessionService
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            last = llm_request.contents[-1].parts[-1]
            words = step(last.text, last.function_response is not None)
            called = types.FunctionCall(id="c1", name="look", args=CALL)
            part = types.Part(text=words) if words else types.Part(function_call=called)
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    async def talk() -> None:
        try:
            service = DatabaseSessionService(f"sqlite+aiosqlite:///{folder}/adk.db")
        except Exception:  # a release before the service was asynchronous
            service = DatabaseSessionService(f"sqlite:///{folder}/adk.db")
        agent = LlmAgent(name="guide", model=Scripted(model="scripted"), tools=[look])
        runner = Runner(app_name="shop", agent=agent, session_service=service)
        await service.create_session(app_name="shop", user_id="ada", session_id="s1")
        for question in (QUESTION, SECOND):
            new = types.Content(role="user", parts=[types.Part(text=question)])
            async for _ in runner.run_async(user_id="ada", session_id="s1", new_message=new):
                pass

    asyncio.run(talk())


def openai_agents(folder: Path) -> None:
    from agents import SQLiteSession

    called = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": json.dumps(CALL)}
    items: Any = [
        {"role": "user", "content": QUESTION},
        called,
        {"type": "function_call_output", "call_id": "c1", "output": RESULT},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": SECOND},
        {"role": "assistant", "content": LAST},
    ]

    async def store() -> None:
        await SQLiteSession("s1", folder / "agents.db").add_items(items)

    asyncio.run(store())


def langgraph(folder: Path) -> None:
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.graph import MessagesState, StateGraph

    def answer(state: Any) -> Any:
        last = state["messages"][-1]
        words = step(last.content, last.type == "tool")
        calls: Any = [] if words else [{"id": "c1", "name": "look", "args": CALL}]
        message = AIMessage(words or "", tool_calls=calls)
        return {"messages": [message, ToolMessage(RESULT, tool_call_id="c1"), AIMessage(ANSWER)] if calls else message}

    graph = StateGraph(MessagesState)
    graph.add_node("model", answer)
    graph.set_entry_point("model")
    with SqliteSaver.from_conn_string(str(folder / "checkpoints.db")) as saver:
        compiled = graph.compile(checkpointer=saver)
        for question in (QUESTION, SECOND):
            compiled.invoke({"messages": [("user", question)]}, {"configurable": {"thread_id": "s1"}})


if __name__ == "__main__":
    place = Path(sys.argv[2]) / sys.argv[1]
    place.mkdir(parents=True)
    globals()[sys.argv[1]](place)
