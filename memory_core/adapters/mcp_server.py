"""The inspector's tools as an MCP server over standard input and output: `memory-inspector mcp --database agent.db`."""

import asyncio
from typing import Any

from memory_core.adapters import framework
from memory_core.adapters.inspecting import SPECS, InspectingTools
from memory_core.errors import MemoryInspectorError

with framework("MCP", "mcp"):
    from mcp import types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server


def server_of(tools: InspectingTools) -> Server[Any]:
    """An MCP server with these tools; what one refuses is its answer, marked as an error."""

    async def listed(_context: Any, _request: Any) -> types.ListToolsResult:
        hints = types.ToolAnnotations(read_only_hint=True, open_world_hint=False)
        return types.ListToolsResult(
            tools=[
                types.Tool(
                    name=spec.name,
                    description=spec.description,
                    input_schema=dict(spec.parameters),
                    annotations=hints,
                )
                for spec in SPECS
            ]
        )

    async def called(_context: Any, request: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            text = await asyncio.to_thread(tools.call, request.name, request.arguments or {})
        except MemoryInspectorError as error:
            return types.CallToolResult(content=[types.TextContent(type="text", text=str(error))], is_error=True)
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    return Server("memory-inspector", on_list_tools=listed, on_call_tool=called)


def serve(tools: InspectingTools) -> None:
    """Serve until the client closes its end."""

    async def run() -> None:
        server = server_of(tools)
        async with stdio_server() as (read, write):
            await server.run(read, write, server.create_initialization_options())

    asyncio.run(run())
