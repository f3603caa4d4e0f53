"""MCP servers over stdio: the inspector's tools (`memory-inspector mcp`), and the reference memory server's tools over
a knowledge graph (`memory-inspector mcp-memory`)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from memory_core.errors import MemoryInspectorError, NotFoundError
from memory_core.history.contexts import context_of
from memory_core.memory import Memory
from memory_core.services import Services
from memory_core.sessions.overview import list_sessions
from memory_core.store.database import Database
from memory_inspector.adapters import framework
from memory_inspector.adapters.graph_tools import RESOURCE, TOOLS, GraphTools
from memory_inspector.reading_tools import NUMBER, PHRASE, TEXT, ReadingTools, tool_spec

with framework("MCP", "mcp"):
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

Called = tuple[str, dict[str, Any] | None]
"""Result of a tool: text, and structured values if any."""


def inspecting_server(*sets: ReadingTools) -> Server[Any]:
    """Return a server with the inspector's read-only tools, of one set or more."""
    hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
    listed = [
        types.Tool(name=spec.name, description=spec.description, input_schema=dict(spec.parameters), annotations=hints)
        for tools in sets
        for spec in tools.specs
    ]
    tools_of = {spec.name: tools for tools in sets for spec in tools.specs}

    def called(name: str, arguments: dict[str, Any]) -> Called:
        return tools_of.get(name, sets[0]).call(name, arguments), None

    return _server("memory-inspector", listed, called)


def graph_server(tools: GraphTools) -> Server[Any]:
    """Return a server with the nine reference tools and their resource."""
    listed = [
        types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=types.ToolAnnotations(
                read_only_hint=tool.reads,
                destructive_hint=tool.destroys,
                idempotent_hint=tool.reads or tool.destroys,
                open_world_hint=False,
            ),
        )
        for tool in TOOLS
    ]
    graph = types.Resource(
        name="knowledge-graph",
        title="Knowledge Graph",
        uri=RESOURCE,
        description="The full knowledge graph with all entities and relations",
        mime_type="application/json",
    )

    def called(name: str, arguments: dict[str, Any]) -> Called:
        answer = tools.call(name, arguments)
        return answer.text, answer.structured

    async def resources(_context: Any, _request: Any) -> types.ListResourcesResult:
        return types.ListResourcesResult(resources=[graph])

    async def read(_context: Any, request: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        if str(request.uri) != RESOURCE:
            raise NotFoundError(f"There is no resource {str(request.uri)[:80]}: {RESOURCE} is the graph.")
        text = await asyncio.to_thread(tools.graph)
        content = types.TextResourceContents(uri=RESOURCE, mime_type="application/json", text=text)
        return types.ReadResourceResult(contents=[content])

    return _server("memory-server", listed, called, on_list_resources=resources, on_read_resource=read)


def serve(server: Server[Any]) -> None:
    """Serve over stdio until the client disconnects."""

    async def run() -> None:
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(run())


def _server(
    name: str, tools: Sequence[types.Tool], call: Callable[[str, dict[str, Any]], Called], **handlers: Any
) -> Server[Any]:
    """Build an MCP server; a tool's failure becomes a result marked as an error."""

    async def listed(_context: Any, _request: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(tools))

    async def called(_context: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            # In a thread: a search must not keep the client's other requests waiting.
            text, values = await asyncio.to_thread(call, request.name, request.arguments or {})
        except MemoryInspectorError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=values)

    return Server(name, on_list_tools=listed, on_call_tool=called, **handlers)


# -- the inspector as read-only MCP tools ---------------------------------------------------------


_SESSION = {"session": TEXT | {"description": "id of a session; the one used last without it"}}
_TURN = {"turn": NUMBER | {"description": "turn of the prompt looked at; the latest without it"}}


SPECS = (
    tool_spec("list_sessions", "Sessions of this memory, the one used last first.", {}),
    tool_spec(
        "why",
        "Why a prompt held or did not hold something, in one sentence with rule and number.",
        PHRASE,
        _TURN,
        _SESSION,
    ),
    tool_spec(
        "trace", "Every stage that something went through, from who said it to the prompt.", PHRASE, _TURN, _SESSION
    ),
    tool_spec("prompt_at", "The prompt of a turn, word for word, with what was cut from it.", {}, _TURN, _SESSION),
    tool_spec("search_facts", "Facts that fit a question, best first.", {"query": TEXT}, _SESSION),
)


class InspectingTools(ReadingTools):
    """The inspector's tools over one database."""

    specs = SPECS

    def __init__(self, database: Database, services: Services) -> None:
        self._database = database
        self._services = services
        self._tools = {
            "list_sessions": self._list_sessions,
            "why": self._why,
            "trace": self._trace,
            "prompt_at": self._prompt_at,
            "search_facts": self._search_facts,
        }

    def _memory(self, session: str | None) -> Memory:
        session_ids = [status.session_id for status in list_sessions(self._database)]
        if not session_ids:
            raise NotFoundError("This database holds no session yet.")
        if session is not None and session not in session_ids:
            raise NotFoundError(f'There is no session "{session[:60]}": list_sessions names them.')
        return Memory.open(session or session_ids[0], self._database, services=self._services)

    def _list_sessions(self) -> str:
        return "\n".join(
            f"{status.session_id}: {status.title or 'untitled'}, {status.turns} turns"
            for status in list_sessions(self._database)
        )

    def _why(self, phrase: str, turn: int | None = None, session: str | None = None) -> str:
        trace = self._memory(session).trace(phrase, turn=turn)
        return " ".join(filter(None, [trace.origin, trace.sentence]))

    def _trace(self, phrase: str, turn: int | None = None, session: str | None = None) -> str:
        trace = self._memory(session).trace(phrase, turn=turn)
        prompt = "" if trace.prompt_turn is None else f"As of the prompt of turn {trace.prompt_turn}. "
        lines = [f"{prompt}{trace.origin}".strip()]
        for number, track in enumerate(trace.tracks, 1):
            lines.append(f"{number}. {track.carrier.kind} {track.carrier.block or ''}".rstrip() + ":")
            lines += [f"   {stage.name}: {stage.text}" for stage in track.stages]
        return "\n".join([*lines, trace.sentence]).strip()

    def _prompt_at(self, turn: int | None = None, session: str | None = None) -> str:
        memory = self._memory(session)
        turns = memory.log.history().turns
        built = [number for number, record in turns.items() if record.built is not None and turn in (None, number)]
        if not built:
            raise NotFoundError(f"No prompt of turn {turn} is on record." if turn else "No prompt is on record yet.")
        record = turns[max(built)].built
        assert record is not None
        prompt = memory.log.prompt(record)
        event = context_of(record)
        head = f"Turn {max(built)}: {event.total:,} of {event.token_limit:,} tokens."
        cuts = [f"cut from {cut['part']}: {cut['tokens']:,} tokens, {cut['rule']}" for cut in event.cuts]
        return "\n".join([head, *cuts, *(str(message) for message in prompt.messages)])

    def _search_facts(self, query: str, session: str | None = None) -> str:
        hits = self._memory(session).facts.search(query)
        lines = [f"{hit.score:.2f} {hit.fact.text} (turn {hit.fact.turn})" for hit in hits]
        return "\n".join(lines) or "No fact fits."
