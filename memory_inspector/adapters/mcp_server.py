"""MCP servers over stdio: the inspector's tools (`memory-inspector mcp`), and the reference memory server's tools over
a knowledge graph (`memory-inspector mcp-memory`)."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from memory_core.errors import MemoryInspectorError, NotFoundError
from memory_inspector.adapters import framework
from memory_inspector.adapters.graph_tools import RESOURCE, TOOLS, GraphTools
from memory_inspector.reading_tools import ReadingTools

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
