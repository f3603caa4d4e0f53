#!/usr/bin/env bash
# Expect system_prompt in a session's messages file to be the system prompt of that session.
# Get it without the workspace's rules (AGENTS.md): they were the end of the system message that
# was sent, and stand nowhere in the messages file.
# Hits whoever asks from the session what the agent knew: it answers that the rules were never sent,
# although the model was given them with every call.
# Seen with cline 3.0.65 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
model=""
stop() {
    [ -z "$model" ] || kill "$model"
    # A run leaves its hub in the background.
    for _ in {1..20}; do
        hub=$(pgrep -f -- "--cline-hub-daemon --cwd $work/project") || break
        kill $hub
        sleep 0.5
    done
    rm -rf "$work"
}
trap stop EXIT
mkdir "$work/home" "$work/project"
npm install --prefix "$work" --silent --no-audit --no-fund cline@3.0.65

cat >"$work/model.py" <<'PY'
import json
import sys
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.rfile.read(int(self.headers["content-length"]))
        with open(sys.argv[2], "ab") as sent:
            sent.write(asked + b"\n")
        usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for delta, end in ({"role": "assistant", "content": "Understood."}, None), ({}, "stop"):
            choice = {"index": 0, "delta": delta, "finish_reason": end}
            chunk = {"id": "c", "object": "chat.completion.chunk", "model": "scripted"}
            chunk |= {"created": 1, "choices": [choice]} | ({"usage": usage} if end else {})
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *args): ...


server = ThreadingTCPServer(("127.0.0.1", 0), Model)
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_address[1]))
server.serve_forever()
PY
"${PYTHON:-python3}" "$work/model.py" "$work/port" "$work/sent" &
model=$!
until [ -s "$work/port" ]; do sleep 0.1; done
echo "Never use tabs in the yard files." >"$work/project/AGENTS.md"

cline() {
    (cd "$work/project" && env -i HOME="$work/home" PATH="$work/node_modules/.bin:$PATH" \
        CLINE_TELEMETRY_DISABLED=1 timeout 300 cline "$@" </dev/null >>"$work/out" 2>&1) ||
        { cat "$work/out"; exit 1; }
}
cline auth -p openai -k x -m scripted -b "http://127.0.0.1:$(cat "$work/port")/v1"
cline "The code is BLUE."
node -p "'cline ' + require('$work/node_modules/cline/package.json').version"
"${PYTHON:-python3}" - "$work" <<'PY'
import json
import sys
from pathlib import Path

RULE = "Never use tabs in the yard files."
work = Path(sys.argv[1])
print("expected: system_prompt, beside the messages, is what the model was given as system message")
requests = [json.loads(line) for line in (work / "sent").read_text().splitlines()]
for request in requests:
    system, user = request["messages"][:2]
    assert (system["role"], user["role"]) == ("system", "user")
    assert system["content"].count(RULE) == 1 and RULE not in json.dumps(user)
[path] = (work / "home/.cline/data/sessions").glob("*/*.messages.json")
text = path.read_text()
kept, sent = json.loads(text)["system_prompt"].strip(), system["content"].strip()
print(f"  sent: {len(sent):,} characters, the rule {sent.count(RULE)} time")
print(f"  kept: {len(kept):,} characters, the rule {kept.count(RULE)} times")
print(f"  messages file, {len(text):,} characters: the rule {text.count(RULE)} times")
assert RULE not in text and "The code is BLUE." in text
assert sent.startswith(kept) and sent.endswith(RULE)
print(f"seen: the rules, {len(sent) - len(kept)} characters of the system prompt, are not kept")
PY
