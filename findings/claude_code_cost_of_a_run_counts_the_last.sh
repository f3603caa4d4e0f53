#!/usr/bin/env bash
# Expect the cost of three runs to be the sum of what each run says it cost: so the documentation.
# Get it twice: a run that resumes or forks a session starts at that session's total, in its result
# (total_cost_usd, modelUsage) and in the cost-state of its file. usage alone is the run's own.
# Hits whoever adds up results or session files: the first run is paid for again in each that goes
# on from it. Answers, counted once each, can be told: a copy has requestSessionId, its origin.
# Seen with @anthropic-ai/claude-code 2.1.332 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
model=""
trap '[ -z "$model" ] || kill "$model"; rm -rf "$work"' EXIT
mkdir "$work/home" "$work/project"
npm install --prefix "$work" --silent --no-audit --no-fund @anthropic-ai/claude-code@2.1.332

cat >"$work/model.py" <<'PY'
import json
import sys
from http.server import BaseHTTPRequestHandler
from itertools import count
from socketserver import ThreadingTCPServer

TEXT = {"type": "text", "text": "Understood."}
END = {"stop_reason": "end_turn", "stop_sequence": None}
USAGE = {"input_tokens": 1000, "output_tokens": 100}
numbers = count(1)


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"id": f"msg_{next(numbers)}", "type": "message", "role": "assistant"}
        message |= {"model": asked["model"], "content": [TEXT], "usage": USAGE, **END}
        delta = {"type": "text_delta", "text": TEXT["text"]}
        events = [
            {"type": "message_start", "message": message | {"content": [], "stop_reason": None}},
            {"type": "content_block_start", "index": 0, "content_block": TEXT | {"text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": END, "usage": {"output_tokens": 100}},
            {"type": "message_stop"},
        ]
        text = json.dumps(message)
        if asked.get("stream"):
            text = "".join(f"event: {e['type']}\ndata: {json.dumps(e)}\n\n" for e in events)
        self.send_response(200)
        kind = "text/event-stream" if asked.get("stream") else "application/json"
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args): ...


server = ThreadingTCPServer(("127.0.0.1", 0), Model)
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_address[1]))
server.serve_forever()
PY
"${PYTHON:-python3}" "$work/model.py" "$work/port" &
model=$!
until [ -s "$work/port" ]; do sleep 0.1; done

claude() {
    (cd "$work/project" && env -i HOME="$work/home" PATH="$work/node_modules/.bin:$PATH" \
        ANTHROPIC_BASE_URL="http://127.0.0.1:$(cat "$work/port")" ANTHROPIC_API_KEY=x \
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 DISABLE_ERROR_REPORTING=1 \
        DISABLE_AUTOUPDATER=1 timeout 300 claude "$@" </dev/null)
}

echo "@anthropic-ai/claude-code $(claude --version)"
claude -p "The code is BLUE." --output-format json >"$work/first"
id=$(sed -n 's/.*"session_id":"\([^"]*\)".*/\1/p' "$work/first")
claude -p "Go on." --output-format json --resume "$id" >"$work/resumed"
claude -p "Go on." --output-format json --resume "$id" --fork-session >"$work/forked"
"${PYTHON:-python3}" - "$work" <<'PY'
import json
import sys
from pathlib import Path

work = Path(sys.argv[1])
print("documented: each call within a session reports its own cost independently (Agent SDK, Track")
print("            cost and usage), so whoever wants a total adds them up")
costs = []
for name in ("first", "resumed", "forked"):
    result = json.loads((work / name).read_text())
    [models] = result["modelUsage"].values()
    costs.append(result["total_cost_usd"])
    own, all_of_them = result["usage"]["input_tokens"], models["inputTokens"]
    print(f"  {name + ':':8} total_cost_usd {costs[-1]:.3f};", end=" ")
    print(f"tokens in: {all_of_them} in modelUsage, {own} in usage")
    assert own == 1000
    assert all_of_them == 1000 * len(costs)
states, asked, copies = [], set(), 0
for path in (work / "home/.claude/projects").glob("*/*.jsonl"):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    states.append([r["totalCostUSD"] for r in records if r["type"] == "cost-state"][-1])
    answers = [record for record in records if record["type"] == "assistant"]
    asked |= {answer["message"]["id"] for answer in answers}
    copies += sum("requestSessionId" in answer for answer in answers)
print(f"  cost-state of the session files: {sorted(round(state, 3) for state in states)}")
print(f"  answers in them, each counted once: {len(asked)}; copies of another session's: {copies}")
one = costs[0]
assert one > 0 and len(asked) == 3 and copies == 2
assert [round(cost / one, 6) for cost in costs] == [1, 2, 3]
assert sorted(round(state / one, 6) for state in states) == [2, 3]
results, files = sum(costs) / one, sum(states) / one
print(f"seen: {len(asked)} answers; the results add up to {results:.0f}, the files to {files:.0f}")
PY
