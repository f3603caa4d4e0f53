"""What this memory costs an agent: the same loop of each real framework with the memory it comes with, and with ours.

    .venv/adapters/bin/python benchmarks/frameworks.py [--rounds 7] [--turns 8] [--mcp SERVER] [NAME ...]

`make adapters` makes that environment. Models are one endpoint on loopback, a process of its own, which answers every
call after 0.2 s: with a tool call to what a user says, with words to what the tool returned. A round is a new session
of some turns with theirs and one with ours, in turn, after a session of each that does not count. Between an answer and
the next question is half a second, which counts for neither. Told are the median of the rounds' slowdowns with their
quartiles, what a turn takes more, the same in processor time of the agent's own process, and how long a trace of what
was said first takes, with reading the log.

`--mcp` is the command of MCP's reference memory server. Of Mem0 the two are its calls straight to the endpoint and
through the recording proxy, a process of its own. Agno's own memory would ask the model once more in every turn, so
ours is compared with none; both have Agno's history.
"""

import argparse
import asyncio
import json
import os
import shlex
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from multiprocessing import Process, Queue, get_context
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
os.environ |= {"MEM0_TELEMETRY": "False", "OPENAI_API_KEY": "x", "OTEL_SDK_DISABLED": "true"}
os.environ.setdefault("MEM0_DIR", tempfile.mkdtemp(prefix="mem0-"))

from memory_core import Database, FactExtractionMemoryBlock, Memory, Services, VectorMemoryBlock  # noqa: E402

ANSWERS_AFTER = 0.2
PAUSE = 0.5
"""Seconds between an answer and the next question, which count for nobody: people read, and type."""
GOAL = 5.0
"""Percent."""
SAID = (
    "I live in Faro and work as a nurse. How is the weather?",
    "My sister Ana is allergic to nuts. Is it warm enough to eat outside?",
    "We want to walk along the coast on Saturday. How is the wind?",
    "I do not like crowds, so the market is out. And on Sunday?",
    "My train leaves at seven in the morning. Will it rain by then?",
    "I am learning Portuguese with a teacher called Rui. How warm is it in Lisbon?",
    "My dog is called Pixel and hates thunder. Is there any?",
    "Where do I live, and what should I pack?",
)
RESULT = "sunny, twenty degrees, and hardly any wind from the west at all"
Ask = Callable[[str], Awaitable[Any]]


@dataclass
class Place:
    """Where one session runs: with our memory if it has blocks, with the framework's own if not."""

    url: str
    """Of the endpoint; with ours, of the proxy for those that are attached."""
    folder: Path
    uri: str
    stack: AsyncExitStack
    blocks: tuple[str, ...] | None
    session: str = "agent"
    """The session that is traced."""

    def made(self) -> dict[str, Any]:
        """The settings of our memory: some flushes in a session, so that it learns."""
        kinds = {"facts": FactExtractionMemoryBlock, "turns": VectorMemoryBlock}
        blocks = [kinds[name](name=name, priority=number) for number, name in enumerate(self.blocks or (), 1)]
        return {"database_uri": self.uri, "token_limit": 600, "token_flush_size": 200, "memory_blocks": blocks}

    def memory(self) -> Memory:
        return Memory.from_defaults(self.session, **self.made())


def forecast(place: str) -> str:
    """The weather of a place."""
    return RESULT


# -- the frameworks ----------------------------------------------------------------------------------


async def llamaindex(to: Place) -> Ask:
    from llama_index.core.agent.workflow import FunctionAgent
    from llama_index.core.base.llms.types import ChatMessage, TextBlock, ToolCallBlock
    from llama_index.core.llms.mock import MockFunctionCallingLLM
    from llama_index.core.memory import Memory as Own
    from openai import OpenAI

    from memory_inspector.adapters.llamaindex import InspectedMemory

    client = to.stack.enter_context(OpenAI(base_url=to.url))

    def answered(messages: Any, **_: Any) -> Any:
        sent = [{"role": message.role.value, "content": message.content or ""} for message in messages]
        said = client.chat.completions.create(model="m", messages=sent).choices[0].message
        calls = [ToolCallBlock(tool_call_id=c.id, tool_name="forecast", tool_kwargs={"place": "Faro"})
                 for c in said.tool_calls or ()]  # fmt: skip
        return ChatMessage(role="assistant", blocks=calls or [TextBlock(text=said.content or "")])

    memory = InspectedMemory(to.memory()) if to.blocks else Own.from_defaults("own", token_limit=600)
    agent = FunctionAgent(tools=[forecast], llm=MockFunctionCallingLLM(response_generator=answered, is_chat_model=True))

    async def ask(said: str) -> None:
        await agent.run(said, memory=memory)

    return ask


async def openai_agents(to: Place) -> Ask:
    import agents
    from openai import AsyncOpenAI

    from memory_inspector.adapters.openai_agents import InspectedSession

    client = await to.stack.enter_async_context(AsyncOpenAI(base_url=to.url))
    model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
    agent = agents.Agent(name="weather", model=model, tools=[agents.function_tool(forecast)])
    config = agents.RunConfig(tracing_disabled=True)
    own = {"session": agents.SQLiteSession("s", to.folder / "own.db"), "run_config": config}
    given: Any = InspectedSession(to.memory()).for_run(config) if to.blocks else own
    return lambda said: agents.Runner.run(agent, said, **given)


async def langchain(to: Place) -> Ask:
    from langchain.agents import create_agent
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver

    from memory_inspector.adapters.langchain import InspectedMiddleware

    own = {"middleware": [InspectedMiddleware(to.memory())]} if to.blocks else {"checkpointer": InMemorySaver()}
    agent: Any = create_agent(ChatOpenAI(model="m", base_url=to.url), [tool(forecast)], **own)
    thread = {"configurable": {"thread_id": "own"}}
    return lambda said: agent.ainvoke({"messages": [("user", said)]}, thread)


async def langgraph(to: Place) -> Ask:
    """Its store, which the tool writes and searches."""
    from langchain.agents import create_agent
    from langchain.tools import ToolRuntime
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.store.memory import InMemoryStore

    from memory_inspector.adapters.langgraph import InspectedStore

    @tool("forecast")
    def noted(place: str, runtime: ToolRuntime) -> str:
        """Keep what was said, and find what is known of a place."""
        said = str(runtime.state["messages"][-2].content)
        runtime.store.put(("users", "ada"), said[:40], {"text": said})
        runtime.store.search(("users", "ada"), query=place)
        return RESULT

    to.session = "langgraph"
    store = InspectedStore(database_uri=to.uri) if to.blocks else InMemoryStore()
    agent: Any = create_agent(ChatOpenAI(model="m", base_url=to.url), [noted], store=store)
    return lambda said: agent.ainvoke({"messages": [("user", said)]})


async def agno(to: Place) -> Ask:
    from agno.agent import Agent
    from agno.db.sqlite import SqliteDb
    from agno.models.openai import OpenAIChat

    from memory_inspector.adapters.agno import InspectedMemoryManager

    model, given = OpenAIChat(id="m", base_url=to.url), {}
    if to.blocks:
        manager = InspectedMemoryManager(database_uri=to.uri)
        model = manager.recorded(model)
        manager.of("ada")  # a new database is made once
        given = {"memory_manager": manager, "update_memory_on_run": True, "add_memories_to_context": True}
        to.session = "agno:ada:s"
    history = {"db": SqliteDb(db_file=str(to.folder / "own.db")), "add_history_to_context": True}
    agent: Any = Agent(model=model, tools=[forecast], telemetry=False, **history, **given)
    return lambda said: agent.arun(said, user_id="ada", session_id="s")


async def pydantic_ai(to: Place) -> Ask:
    """Its own memory is the list of messages that each run is given."""
    from pydantic_ai import Agent, messages
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    from memory_inspector.adapters.pydantic_ai import InspectedMemory

    provider = OpenAIProvider(base_url=to.url, api_key="x")
    given = {"capabilities": [InspectedMemory(to.memory())]} if to.blocks else {}
    agent: Any = Agent(OpenAIChatModel("m", provider=provider), tools=[forecast], **given)
    history: list[messages.ModelMessage] = []

    async def ask(said: str) -> Any:
        result = await agent.run(said, message_history=None if to.blocks else history)
        history[:] = result.all_messages()
        return result

    return ask


async def google_adk(to: Place) -> Ask:
    from google.adk.agents import LlmAgent
    from google.adk.apps import App
    from google.adk.memory import InMemoryMemoryService
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import Runner
    from google.adk.sessions import InMemorySessionService
    from google.adk.tools.preload_memory_tool import PreloadMemoryTool
    from google.genai import types
    from openai import AsyncOpenAI

    from memory_inspector.adapters.google_adk import InspectedMemoryService

    client, asked = await to.stack.enter_async_context(AsyncOpenAI(base_url=to.url)), cycle(("user", "tool"))

    class Endpoint(BaseLlm):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            sent: list[Any] = []
            for content in llm_request.contents:
                for part in content.parts:
                    sent.append({"role": "user", "content": part.text or RESULT})
            sent[-1]["role"] = next(asked)  # what is preloaded may come last
            said = (await client.chat.completions.create(model="m", messages=sent)).choices[0].message
            call = types.FunctionCall(id="c1", name="forecast", args={"place": "Faro"})
            part = types.Part(function_call=call) if said.tool_calls else types.Part(text=said.content)
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    made = {name: value for name, value in to.made().items() if name != "memory_blocks" or len(to.blocks or ()) > 1}
    service: Any = InspectedMemoryService(**made) if to.blocks else InMemoryMemoryService()
    if to.blocks:
        service.of("app", "ada")
    agent = LlmAgent(name="weather", model=Endpoint(model="m"), tools=[forecast, PreloadMemoryTool()])
    app = App(name="app", root_agent=agent, plugins=[service.prompts()] if to.blocks else [])
    store = InMemorySessionService()
    runner = Runner(app=app, session_service=store, memory_service=service)
    await store.create_session(app_name="app", user_id="ada", session_id="s")
    to.session = "adk:app:ada:s"

    async def ask(said: str) -> None:
        content = types.Content(role="user", parts=[types.Part(text=said)])
        async for _ in runner.run_async(user_id="ada", session_id="s", new_message=content):
            pass
        session = await store.get_session(app_name="app", user_id="ada", session_id="s")
        await service.add_session_to_memory(session)

    return ask


async def mem0(to: Place) -> Ask:
    from mem0 import AsyncMemory
    from openai import AsyncOpenAI

    own = {"openai_base_url": to.url.replace("/v1", "-mem0/v1") if to.blocks else to.url}
    store = {"path": str(to.folder / "qdrant"), "on_disk": True, "embedding_model_dims": 64}
    memory: Any = AsyncMemory.from_config(
        {
            "llm": {"provider": "openai", "config": own},
            "embedder": {"provider": "openai", "config": own},
            "vector_store": {"provider": "qdrant", "config": store},
            "history_db_path": str(to.folder / "history.db"),
        }
    )
    to.stack.callback(memory.close)
    client = await to.stack.enter_async_context(AsyncOpenAI(base_url=to.url))

    async def ask(said: str) -> None:
        found = (await memory.search(said, filters={"user_id": "ada"}))["results"]
        known = "\n".join(each["memory"] for each in found)
        sent: list[Any] = [{"role": "system", "content": known}, {"role": "user", "content": said}]
        await client.chat.completions.create(model="m", messages=sent)
        await memory.add(sent[1:], user_id="ada")

    return ask


async def mcp(to: Place) -> Ask:
    import mcp as client_of
    from openai import AsyncOpenAI

    command = [sys.executable, "-m", "memory_inspector", "mcp-memory", "--session", "agent"]
    command = [*command, "--database", str(to.folder / "agent.db")] if to.blocks else shlex.split(os.environ["MCP"])
    environment = dict(os.environ) | {"MEMORY_FILE_PATH": str(to.folder / "memory.jsonl")}
    given = client_of.StdioServerParameters(command=command[0], args=command[1:], cwd=ROOT, env=environment)
    server = await to.stack.enter_async_context(client_of.Client(given))
    client = await to.stack.enter_async_context(AsyncOpenAI(base_url=to.url))

    async def ask(said: str) -> None:
        sent: list[Any] = [{"role": "user", "content": said}]
        await client.chat.completions.create(model="m", messages=sent)
        await server.call_tool(
            "create_entities", {"entities": [{"name": said[:20], "entityType": "x", "observations": [said]}]}
        )
        await server.call_tool("search_nodes", {"query": "live"})
        await client.chat.completions.create(model="m", messages=[*sent, {"role": "tool", "content": RESULT}])

    return ask


FRAMEWORKS = {
    made.__name__: made
    for made in (llamaindex, openai_agents, langchain, langgraph, agno, pydantic_ai, google_adk, mem0, mcp)
}
BLOCKS = {"facts": ("facts",), "facts and turns": ("facts", "turns")}
AS_IT_IS = {"langgraph", "mem0", "mcp", "agno"}
"""Those in which our memory is made in one way."""

# -- the endpoint and the proxy ------------------------------------------------------------------------


class Endpoint(BaseHTTPRequestHandler):
    """Answers every call after a while."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        began = time.monotonic()
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        data = json.dumps(_embedded(asked) if "input" in asked else _completed(asked)).encode()
        time.sleep(max(0.0, ANSWERS_AFTER - (time.monotonic() - began)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _embedded(asked: dict[str, Any]) -> dict[str, Any]:
    texts = [asked["input"]] if isinstance(asked["input"], str) else asked["input"]
    data = [{"object": "embedding", "index": n, "embedding": [1.0] * 64} for n in range(len(texts))]
    return {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def _completed(asked: dict[str, Any]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "It is sunny, so pack something light."}
    if asked.get("response_format"):
        message["content"] = json.dumps({"memory": [{"text": asked["messages"][-1]["content"][-200:]}]})
    elif asked["messages"][-1]["role"] == "user":
        function = {"name": "forecast", "arguments": '{"place": "Faro"}'}
        message = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": f"c{time.time_ns()}", "type": "function", "function": function}],
        }
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    choice = {"index": 0, "finish_reason": "tool_calls" if message["content"] is None else "stop", "message": message}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def _serve(said: "Queue[str]") -> None:
    Endpoint.disable_nagle_algorithm = True  # type: ignore[attr-defined]
    server = _Server(("127.0.0.1", 0), Endpoint)
    said.put(f"http://127.0.0.1:{server.server_port}/v1")
    server.serve_forever()


def _record(upstream: str, uri: str, said: "Queue[str]") -> None:
    import socket

    import uvicorn
    from starlette.applications import Starlette

    from memory_core.engine.session import Session
    from memory_inspector.recorder.recording_proxy import UPSTREAM, RecordingProxy

    os.environ[UPSTREAM] = upstream
    database, services = Database.open(uri), Services()
    proxy = RecordingProxy(Starlette(), lambda id, tenant: Session(database, id, services=services))
    bound = socket.socket()
    bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as it comes to be in the app's own server
    bound.bind(("127.0.0.1", 0))
    said.put(f"http://127.0.0.1:{bound.getsockname()[1]}")
    uvicorn.Server(uvicorn.Config(proxy, interface="asgi3", log_config=None, lifespan="off")).run(sockets=[bound])


@contextmanager
def beside(run: Callable[..., None], *given: Any) -> Iterator[str]:
    """Another process that serves; its address."""
    context = get_context("spawn")
    said: Any = context.Queue()
    process: Process = context.Process(target=run, args=(*given, said), daemon=True)  # type: ignore[assignment]
    process.start()
    try:
        yield said.get(timeout=60)
    finally:
        process.terminate()
        process.join()


# -- measuring -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Servers:
    endpoint: str
    proxy: str
    uri: str
    """Database of the proxy."""


@dataclass
class Ran:
    seconds: float
    processor: float
    trace: float = 0.0


async def ran(name: str, servers: Servers, blocks: tuple[str, ...] | None, turns: int) -> Ran:
    """One session."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Place(servers.endpoint, Path(folder), f"sqlite:///{folder}/agent.db", AsyncExitStack(), blocks)
        if blocks and name == "mem0":
            place.session = f"agent-{time.time_ns()}"
            place.url, place.uri = f"{servers.proxy}/record/{place.session}/v1", servers.uri
        took = await _talk(name, place, turns)
        if blocks:
            await asyncio.sleep(0.5 if name == "mem0" else 0)  # the proxy records beside it
            memory = Memory.open(place.session, Database.open(place.uri), services=Services())
            began = time.perf_counter()
            memory.trace("live in Faro")
            took.trace = time.perf_counter() - began
        return took


async def _talk(name: str, place: Place, turns: int) -> Ran:
    async with place.stack:
        ask = await FRAMEWORKS[name](place)
        await asyncio.sleep(0)
        seconds, processor = 0.0, time.process_time()
        for number in range(turns):
            began = time.perf_counter()
            await ask(SAID[number % len(SAID)])
            seconds += time.perf_counter() - began
            await asyncio.sleep(PAUSE)
        return Ran(seconds, time.process_time() - processor)


async def measure(name: str, label: str, blocks: tuple[str, ...], servers: Servers, rounds: int, turns: int) -> None:
    for each in (None, blocks):
        await ran(name, servers, each, turns)  # loads what is loaded once
    pairs = [(await ran(name, servers, None, turns), await ran(name, servers, blocks, turns)) for _ in range(rounds)]
    slower = [100 * (ours.seconds / theirs.seconds - 1) for theirs, ours in pairs]
    low, middle, high = statistics.quantiles(slower, n=4) if rounds > 1 else slower * 3
    turn = statistics.median(theirs.seconds for theirs, _ in pairs) / turns
    more = statistics.median(ours.seconds - theirs.seconds for theirs, ours in pairs) / turns
    processor = statistics.median(ours.processor - theirs.processor for theirs, ours in pairs) / turns
    trace = statistics.median(ours.trace for _, ours in pairs)
    print(
        f"| {name} | {label} | {turn:.3f} | {1000 * more:+.0f} | {1000 * processor:+.0f} "
        f"| {middle:+.1f} ({low:+.1f} to {high:+.1f}) | {'yes' if middle < GOAL else 'MISSED'} | {trace:.3f} |",
        flush=True,
    )


async def measured(names: list[str], servers: Servers, rounds: int, turns: int) -> None:
    """All of them in one event loop: clients are kept from session to session, as in a program that lives long."""
    for name in names:
        for label, blocks in BLOCKS.items():
            if name not in AS_IT_IS:
                await measure(name, label, blocks, servers, rounds, turns)
            elif label == "facts":
                await measure(name, "as it is", blocks, servers, rounds, turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FRAMEWORKS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--turns", type=int, default=8)
    parser.add_argument("--mcp", help="command of the reference memory server")
    options = parser.parse_args()
    if options.mcp:
        os.environ["MCP"] = options.mcp
    names = options.names or [name for name in FRAMEWORKS if name != "mcp" or options.mcp]
    warnings.simplefilter("ignore")
    print("| framework | our memory | a turn, s | more a turn, ms | processor, ms | slowdown, % | < 5 % | a trace, s |")
    print("|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, beside(_serve) as endpoint:
        uri = f"sqlite:///{folder}/proxy.db"
        with beside(_record, endpoint, uri) as proxy:
            asyncio.run(measured(names, Servers(endpoint, proxy, uri), options.rounds, options.turns))


if __name__ == "__main__":
    main()
