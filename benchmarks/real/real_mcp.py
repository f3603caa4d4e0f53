"""The conversations through an agent whose memory is an MCP server: the reference's, or ours, over standard input.

The server's command stands in the variable `MCP_SERVER`, as JSON.
"""

import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.error import HTTPError

from conversations import Conversation, Message
from results import Known


class Client:
    """Client of an MCP server over stdio: one request after another, a line each."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process, self.sent = process, 0
        client = {"name": "comparison", "version": "1"}
        self.ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=client)
        self._send(method="notifications/initialized")

    def ask(self, method: str, **params: Any) -> Any:
        self.sent += 1
        self._send(id=self.sent, method=method, params=params)
        assert self.process.stdout is not None
        for text in self.process.stdout:
            if (answer := json.loads(text)).get("id") == self.sent:
                return answer["result"]
        raise RuntimeError("the server has ended")

    def call(self, tool: str, arguments: Any) -> Any:
        return self.ask("tools/call", name=tool, arguments=arguments)

    def _send(self, **message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self.process.stdin.flush()


@contextmanager
def connected() -> Iterator[Client]:
    """Start the server on an empty memory."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [part.replace("FOLDER", folder) for part in json.loads(os.environ["MCP_SERVER"])]
        environment = {**os.environ, "MEMORY_FILE_PATH": str(Path(folder) / "memory.jsonl")}
        pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, text=True, encoding="utf-8", env=environment, **pipes)
        try:
            yield Client(process)
        finally:
            process.terminate()
            process.communicate()


def run(conversation: Conversation, url: str) -> Known:
    with connected() as server:
        listed = server.ask("tools/list")["tools"]
        tools = [
            {"type": "function", "function": {"name": tool["name"], "parameters": tool["inputSchema"]}}
            for tool in listed
        ]
        thread: list[Message] = []
        for turn in conversation.turns:
            thread.append(turn[0])
            with suppress(HTTPError):  # as an agent that goes on all the same
                _remember(server, url, [*thread], tools)
            thread += turn[1:]
        graph = json.loads(server.call("read_graph", {})["content"][0]["text"])
    return {
        "entities": sorted(f"{one['name']}: {'; '.join(sorted(one['observations']))}" for one in graph["entities"]),
        "relations": sorted(f"{one['from']} {one['relationType']} {one['to']}" for one in graph["relations"]),
    }


def _remember(server: Client, url: str, thread: list[Message], tools: list[dict[str, Any]]) -> None:
    """Let the model call the server's tools until it has nothing more to note."""
    while True:
        body = json.dumps({"model": "m", "messages": thread, "tools": tools}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/chat/completions", body)) as response:
            message = json.load(response)["choices"][0]["message"]
        thread.append(message)
        if not message.get("tool_calls"):
            return
        for call in message["tool_calls"]:
            function = call["function"]
            result = server.call(function["name"], json.loads(function["arguments"]))
            text = "\n".join(part["text"] for part in result["content"])
            thread.append({"role": "tool", "tool_call_id": call["id"], "content": text})
