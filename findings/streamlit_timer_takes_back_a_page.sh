#!/usr/bin/env bash
# Expect the page that was clicked last to be the one that is shown.
# Get, now and then, the page that was left: a fragment with run_every asks for its run with the page that
# the browser still shows, and where the run of the clicked page has not begun, both requests become one
# run of the whole app, on the page of the newer request. The click is lost, and nothing says so.
# Hits apps whose fragments look for news often, while something else keeps the server busy. Here a client
# sends what a browser sends, to a real server: a click on B, and behind it the timer of page A.
# Seen with streamlit 1.67.0 on 2026-12-01, about once in twenty clicks.
set -euo pipefail
work=$(mktemp -d)
server=""
trap '[ -z "$server" ] || kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check streamlit==1.67.0 websockets==16.1.1

cat >"$work/app.py" <<'PY'
import threading

import streamlit as st


def work():
    while True:
        sum(range(1_000))


@st.cache_resource
def job():
    threading.Thread(target=work, daemon=True).start()


def page(title):
    def draw():
        st.title(title)
        st.fragment(lambda: st.caption("looked for news"), run_every=1)()

    return st.Page(draw, title=title, url_path=title.lower())


job()
st.navigation([page("A"), page("B")]).run()
PY
cat >"$work/client.py" <<'PY'
import asyncio
import sys
from importlib.metadata import version

import websockets
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

MOST = 400


def run_of(page, fragment=""):
    message = BackMsg()
    message.rerun_script.page_script_hash = page
    message.rerun_script.fragment_id = fragment
    message.rerun_script.is_auto_rerun = bool(fragment)
    return message.SerializeToString()


async def shown(tab, state, *requests):
    """Send requests, and read what the server sends until a run has ended and nothing more comes."""
    for request in requests:
        await tab.send(request)
    ended = False
    while True:
        try:
            data = await asyncio.wait_for(tab.recv(), 0.3 if ended else 20)
        except TimeoutError:
            return state
        message = ForwardMsg.FromString(data)
        kind = message.WhichOneof("type")
        ended = ended or kind == "script_finished"
        if kind == "navigation":
            state["pages"] = {page.url_pathname: page.page_script_hash for page in message.navigation.app_pages}
        elif kind == "auto_rerun":
            state["fragment"] = message.auto_rerun.fragment_id
        elif kind == "delta" and message.delta.new_element.WhichOneof("type") == "heading":
            state["title"] = message.delta.new_element.heading.body


async def main(port):
    print("streamlit", version("streamlit"))
    print("documented: a fragment with run_every reruns itself; a page link shows its page")
    for click in range(1, MOST + 1):
        async with websockets.connect(
            f"ws://127.0.0.1:{port}/_stcore/stream", subprotocols=["streamlit"], max_size=None
        ) as tab:
            state = await shown(tab, {}, run_of(""))
            assert state["title"] == "A", state
            b, a = state["pages"].pop("b"), *state["pages"].values()
            await shown(tab, state, run_of(b), run_of(a, state["fragment"]))
            if state["title"] == "A":
                print(f"seen: of {click} clicks on B, the last was followed by page A, and no error")
                return
    raise SystemExit(f"changed: after {MOST} clicks, page B was always shown")


asyncio.run(main(sys.argv[1]))
PY
port=$("$work/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
"$work/venv/bin/streamlit" run "$work/app.py" --server.port "$port" --server.address 127.0.0.1 --server.headless true \
    --browser.gatherUsageStats false >"$work/server.log" 2>&1 &
server=$!
for _ in $(seq 100); do
    "$work/venv/bin/python" - "$port" <<'PY' && break || sleep 0.3
import sys, urllib.request
urllib.request.urlopen(f"http://127.0.0.1:{sys.argv[1]}/_stcore/health", timeout=2)
PY
done 2>/dev/null
"$work/venv/bin/python" "$work/client.py" "$port"
