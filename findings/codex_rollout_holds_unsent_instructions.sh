#!/usr/bin/env bash
# Expect base_instructions of a rollout to be the instructions that the model was given.
# Get 3,772 characters more: two sections about the tool update_plan, which Codex cuts out before
# sending, as it does not offer the tool. What was sent instead stands in no record.
# Hits whoever shows or counts an agent's prompt from its rollouts, where this field is the only
# copy of the system prompt: a fifth of it was never sent. So it is for models that Codex has no
# metadata of, as those of another provider; with its own gpt-6.2-sol the two are the same.
# Seen with @openai/codex 0.171.0 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
model=""
trap '[ -z "$model" ] || kill "$model"; rm -rf "$work"' EXIT
mkdir -p "$work/home/.codex" "$work/project"
npm install --prefix "$work" --silent --no-audit --no-fund @openai/codex@0.171.0

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
        part = {"type": "output_text", "text": "Understood.", "annotations": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
        usage = {"input_tokens": 9, "output_tokens": 2, "total_tokens": 11}
        events = [
            {"type": "response.created", "response": {"id": "resp_1"}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": {"id": "resp_1", "usage": usage}},
        ]
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    def log_message(self, *args): ...


server = ThreadingTCPServer(("127.0.0.1", 0), Model)
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_address[1]))
server.serve_forever()
PY
"${PYTHON:-python3}" "$work/model.py" "$work/port" "$work/sent" &
model=$!
until [ -s "$work/port" ]; do sleep 0.1; done
cat >"$work/home/.codex/config.toml" <<TOML
model = "scripted"
model_provider = "scripted"
[model_providers.scripted]
name = "scripted"
base_url = "http://127.0.0.1:$(cat "$work/port")/v1"
env_key = "SCRIPTED_KEY"
wire_api = "responses"
TOML

(cd "$work/project" && env -i HOME="$work/home" PATH="$work/node_modules/.bin:$PATH" \
    SCRIPTED_KEY=x timeout 300 codex exec -s read-only --skip-git-repo-check "The code is BLUE." \
    </dev/null >"$work/out" 2>&1) || { cat "$work/out"; exit 1; }
"${PYTHON:-python3}" - "$work" <<'PY'
import json
import sys
from difflib import SequenceMatcher
from pathlib import Path

work = Path(sys.argv[1])
[rollout] = (work / "home/.codex/sessions").rglob("rollout-*.jsonl")
records = [json.loads(line) for line in rollout.read_text().splitlines()]
meta = records[0]["payload"]
[request] = [json.loads(line) for line in (work / "sent").read_text().splitlines()]
first = request["input"][0]
kept, sent = meta["base_instructions"]["text"], first["content"][0]["text"]
print("@openai/codex", meta["cli_version"])
print("expected: session_meta.base_instructions, the one system prompt in a rollout, was sent")
assert "instructions" not in request and first["role"] == "developer"

kept_lines, sent_lines = kept.splitlines(), sent.splitlines()
steps = SequenceMatcher(None, kept_lines, sent_lines, autojunk=False).get_opcodes()
cut = [kept_lines[start:end] for what, start, end, _, _ in steps if what != "equal"]
assert {what for what, *_ in steps} == {"equal", "delete"} and len(cut) == 2
print(f"  in the rollout: {len(kept):,} characters in {len(kept_lines)} lines")
print(f"  in the request: {len(sent):,} characters in {len(sent_lines)} lines")
for lines in cut:
    about = sum("update_plan" in line for line in lines)
    print(f"    cut: {len(lines)} lines, {about} of them about update_plan")
    assert about
offered = [tool.get("name") for tool in request["tools"]]
print(f"  update_plan: offered {offered.count('update_plan')} times, named", end=" ")
print(f"{sent.count('update_plan')} times as sent and {kept.count('update_plan')} as kept")
assert "update_plan" not in offered and "update_plan" not in sent and "update_plan" in kept
assert sent not in kept and json.dumps(sent)[1:-1] not in json.dumps(records)
assert len(kept) - len(sent) > 3000
print(f"seen: {len(kept) - len(sent):,} characters of the rollout's instructions were never sent")
PY
