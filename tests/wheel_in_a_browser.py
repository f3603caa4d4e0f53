"""The wheel as a new user meets it, for `make wheel-test`; the wheel is in the folder that is the only argument.

The engine alone runs without the app's packages, and type checkers see its fields; the app starts from an empty folder,
on the demo, on an agent's database, and as an agent's `OPENAI_BASE_URL`; Chromium sees all three; a host name that is
not allowed gets 403.
"""

import base64
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from models.scripted_server import ScriptedServer, completion
from playwright.sync_api import sync_playwright

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
HEAVY = ("streamlit", "plotly", "pandas", "chromadb", "openai")
ENGINE = f"""
from importlib.util import find_spec
from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, VectorMemoryBlock
blocks = [FactExtractionMemoryBlock(name="facts", priority=1), VectorMemoryBlock(name="turns", priority=2)]
memory = Memory.from_defaults("agent", database_uri="sqlite:///agent.db", title="An agent", memory_blocks=blocks)
memory.put_messages([ChatMessage("I live in Faro."), ChatMessage("Noted.", role="assistant")])
memory.flush(all=True)
memory.put(ChatMessage("Where do I live?"))
assert "lives in Faro" in str(memory.build_context().openai())
assert not [name for name in {HEAVY!r} if find_spec(name) is not None]
"""
AGENT = """
from openai import OpenAI
answer = OpenAI().chat.completions.create(model="m", messages=[{"role": "user", "content": "Where do I live?"}])
assert answer.choices[0].message.content == "You live in Faro."
"""


def installed(folder, *wanted):
    """The Python of a clean environment with what pip is told."""
    venv.create(folder, with_pip=True, upgrade_deps=True)
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wanted], check=True)
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


def seen(port, *words, where=""):
    """Wait until Chromium shows each of these."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = chromium.new_page()
        page.goto(f"http://127.0.0.1:{port}/{where}")
        for said in words:
            page.get_by_text(said).first.wait_for(timeout=60_000)
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


def megabytes(python):
    """Size of what an environment has installed."""
    [packages] = python.parent.parent.glob("lib/python*/site-packages") or python.parent.parent.glob(
        "Lib/site-packages"
    )
    return sum(path.stat().st_size for path in packages.rglob("*") if path.is_file()) / 1e6


def engine_alone(python, empty):
    """It runs without the app's packages, which are not there, and the command says what brings them."""
    subprocess.run([python, "-c", ENGINE], cwd=empty, check=True)
    refused = subprocess.run([python.with_name("memory-inspector")], cwd=empty, capture_output=True, text=True)
    assert (refused.returncode, "[app]" in refused.stderr) == (2, True), refused
    print(f"engine alone, {megabytes(python):.0f} MB: runs, and names the extra of the app")


PYRIGHT = {
    "include": ["program.py"],
    "typeCheckingMode": "strict",
    "enableTypeIgnoreComments": False,  # those are mypy's
    "reportUnnecessaryTypeIgnoreComment": "error",
}


def types(python, folder, pyright):
    """Strict mypy and pyright on a user's program: every mistake marked in it is found, and there is no other."""
    program = shutil.copy(Path(__file__).with_name("typed_user_program.py"), folder / "program.py")
    (folder / "pyrightconfig.json").write_text(json.dumps(PYRIGHT), encoding="utf-8")
    for name, *checker in (
        (
            "mypy",
            sys.executable,
            "-m",
            "mypy",
            "--strict",
            "--python-executable",
            python,
            "--cache-dir",
            folder / "types",
            program,
        ),
        ("pyright", pyright.with_name("basedpyright"), "--pythonpath", python),
    ):
        checked = subprocess.run(checker, cwd=folder, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        print(f"types, in strict {name}: every misspelt argument of a user's program is found")


def attached(python, empty):
    """The command, and an agent of the openai client that knows nothing of it but its `OPENAI_BASE_URL`."""
    started = time.monotonic()
    with (
        ScriptedServer(completion("You live in Faro.")) as endpoint,
        running(python, empty, "--upstream", endpoint.url) as port,
    ):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        address = {"OPENAI_BASE_URL": f"http://127.0.0.1:{port}/record/my-agent/v1", "OPENAI_API_KEY": "sk-secret"}
        subprocess.run([python, "-c", AGENT], cwd=empty, env=kept | address, check=True)
        seen(port, "Where do I live?", "You live in Faro.", where="?session=my-agent")
    [(path, headers, _)] = endpoint.requests
    sent = {name.lower(): value for name, value in headers.items()}
    assert (path, sent["authorization"]) == ("/v1/chat/completions", "Bearer sk-secret")
    print(f"an agent attached by OPENAI_BASE_URL: seen {time.monotonic() - started:.0f} s after the command was given")


def main():
    [wheel] = Path(sys.argv[1]).resolve().glob("*.whl")
    with tempfile.TemporaryDirectory() as temporary, ThreadPoolExecutor() as beside:
        folder = Path(temporary)
        empty = folder / "empty"
        empty.mkdir()
        app = beside.submit(installed, folder / "app", f"{wheel}[app]")  # it mostly waits for the network
        pyright = beside.submit(installed, folder / "pyright", "basedpyright", "-c", CONSTRAINTS)
        engine = installed(folder / "engine", wheel)
        engine_alone(engine, empty)
        typed = beside.submit(types, engine, folder, pyright.result())
        python = app.result()
        print(f"app: {megabytes(python):.0f} MB")
        with running(python, empty) as port:
            seen(port, "Next message")
            assert handshake(port, "memory.example.org") == 403
        print("app on the demo: seen; a host name that is not allowed: 403")
        allowed = {"STREAMLIT_SERVER_ALLOWED_HOSTS": "127.0.0.1 memory.example.org"}
        with running(python, empty, "--database", "agent.db", **allowed) as port:
            seen(port, "I live in Faro.", where="?session=agent")
            assert handshake(port, "memory.example.org") == 101
        print("app on an agent's database: seen; an allowed host name: 101")
        attached(python, empty)
        typed.result()


if __name__ == "__main__":
    main()
