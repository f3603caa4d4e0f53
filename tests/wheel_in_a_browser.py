"""The wheel as a new user meets it, for `make wheel-test`; the wheel is in the folder that is the only argument.

The engine alone runs without the app's packages; the app starts from an empty folder, on the demo and on an agent's
database; Chromium sees both; a host name that is not allowed gets 403.
"""

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import sync_playwright

HEAVY = ("streamlit", "plotly", "pandas", "chromadb", "openai")
ENGINE = f"""
import sys
from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, VectorMemoryBlock
blocks = [FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns", priority=2)]
memory = Memory.from_defaults("agent", database_uri="sqlite:///agent.db", title="An agent", memory_blocks=blocks)
memory.put_messages([ChatMessage("I live in Faro."), ChatMessage("Noted.", role="assistant")])
memory.flush(all=True)
memory.put(ChatMessage("Where do I live?"))
assert "lives in Faro" in str(memory.build_context().openai())
assert not [name for name in {HEAVY!r} if name in sys.modules]
"""


def installed(folder, wheel, extra=""):
    """The Python of a clean environment with the wheel."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", f"{wheel}{extra}"]
    subprocess.run(command, check=True)
    return python


@contextmanager
def running(python, folder, *options, **environment):
    """The app's address; started from `folder`, as nobody's project."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MEMORY_INSP"))}
    given = {**kept, "MEMORY_INSPECTOR_HOME": str(folder / "home"), **environment}
    command = [python.with_name("memory-inspector"), "--port", str(port), "--no-browser", *options]
    server = subprocess.Popen(command, cwd=folder, env=given)
    try:
        for _ in range(600):
            time.sleep(0.1)
            assert server.poll() is None, "the app ended"
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=1).close()
                break
            except OSError:
                continue
        yield port
    finally:
        server.terminate()
        server.wait(20)


def seen(port, words, where=""):
    """Wait until Chromium shows these words."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{port}/{where}")
        page.get_by_text(words).first.wait_for(timeout=60_000)
        chromium.close()


def handshake(port, host):
    """Status of a socket's opening under a host name."""
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        key = base64.b64encode(bytes(16)).decode()
        lines = [
            "GET /_stcore/stream HTTP/1.1",
            f"Host: {host}",
            f"Origin: https://{host}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {key}",
            "\r\n",
        ]
        connection.sendall("\r\n".join(lines).encode())
        return int(connection.recv(200).split()[1])


def main():
    [wheel] = Path(sys.argv[1]).resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        empty = folder / "empty"
        empty.mkdir()
        engine = installed(folder / "engine", wheel)
        subprocess.run([engine, "-c", ENGINE], cwd=empty, check=True)
        refused = subprocess.run([engine.with_name("memory-inspector")], cwd=empty, capture_output=True, text=True)
        assert (refused.returncode, "[app]" in refused.stderr) == (2, True), refused
        print("engine alone: runs, and names the extra of the app")
        python = installed(folder / "app", wheel, "[app]")
        with running(python, empty) as port:
            seen(port, "Next message")
            assert handshake(port, "memory.example.org") == 403
        print("app on the demo: seen; a host name that is not allowed: 403")
        allowed = {"STREAMLIT_SERVER_ALLOWED_HOSTS": "127.0.0.1 memory.example.org"}
        with running(python, empty, "--database", "agent.db", **allowed) as port:
            seen(port, "I live in Faro.", "?session=agent")
            assert handshake(port, "memory.example.org") == 101
        print("app on an agent's database: seen; an allowed host name: 101")


if __name__ == "__main__":
    main()
