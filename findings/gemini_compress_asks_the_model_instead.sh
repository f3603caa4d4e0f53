#!/usr/bin/env bash
# Expect gemini -p "/compress" to put a summary in the place of the history, as in a terminal.
# Get the history kept in full: the summary is begun, not waited for, and thrown away when the
# program ends, which is once the model has answered the word "/compress", sent to it as a prompt.
# Hits whoever keeps long sessions small from a script: two calls more are paid, the prompt grows
# by the model's answer, and in the session file the user says "/compress".
# Seen with @google/gemini-cli 0.61.0 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
model=""
trap '[ -z "$model" ] || kill "$model"; rm -rf "$work"' EXIT
mkdir -p "$work/home/.gemini" "$work/project"
npm install --prefix "$work" --silent --no-audit --no-fund node@26.10.0 @google/gemini-cli@0.61.0

cat >"$work/model.py" <<'PY'
import json
import sys
import time
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.rfile.read(int(self.headers["content-length"]))
        with open(sys.argv[2], "ab") as sent:
            sent.write(asked + b"\n")
        said = json.dumps(json.loads(asked)["contents"][-1])
        text = "Understood."
        if "<state_snapshot>" in said:
            text = "<state_snapshot>The code has a colour.</state_snapshot>"
            time.sleep(3)
        content = {"role": "model", "parts": [{"text": text}]}
        answer = json.dumps(
            {
                "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 9000, "candidatesTokenCount": 9},
            }
        )
        stream = "streamGenerateContent" in self.path
        self.send_response(200)
        self.send_header("content-type", "text/event-stream" if stream else "application/json")
        self.end_headers()
        self.wfile.write((f"data: {answer}\n\n" if stream else answer).encode())

    def log_message(self, *args): ...


server = ThreadingTCPServer(("127.0.0.1", 0), Model)
server.handle_error = lambda *args: None  # whom the answer to a summary is for is gone
with open(sys.argv[1], "w") as file:
    file.write(str(server.server_address[1]))
server.serve_forever()
PY
"${PYTHON:-python3}" "$work/model.py" "$work/port" "$work/sent" &
model=$!
until [ -s "$work/port" ]; do sleep 0.1; done
cat >"$work/home/.gemini/settings.json" <<'JSON'
{
  "security": {"auth": {"selectedType": "gemini-api-key"}},
  "privacy": {"usageStatisticsEnabled": false}
}
JSON

gemini() {
    (cd "$work/project" && env -i HOME="$work/home" PATH="$work/node_modules/.bin:$PATH" \
        GEMINI_API_KEY=x GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:$(cat "$work/port")" \
        NO_BROWSER=1 GEMINI_CLI_TRUST_WORKSPACE=true GEMINI_CLI_NO_RELAUNCH=true \
        timeout 300 gemini -m gemini-2.5-pro "$@" </dev/null >>"$work/out" 2>&1) ||
        { cat "$work/out"; exit 1; }
}

package=$work/node_modules/@google/gemini-cli/package.json
node -p "'@google/gemini-cli ' + require('$package').version"
echo "documented: /compress replaces the entire chat context with a summary, to save tokens"
gemini -p "The code is BLUE. $(printf 'It is %d. ' {1..1500})"
gemini --resume latest -p "/compress"
gemini --resume latest -p "Go on."
"${PYTHON:-python3}" - "$work" <<'PY'
import json
import sys
from pathlib import Path

calls = []
for number, line in enumerate((Path(sys.argv[1]) / "sent").read_text().splitlines(), 1):
    messages = json.loads(line)["contents"]
    texts = ["".join(part.get("text", "") for part in message["parts"]) for message in messages]
    talk = "\n".join(texts)
    says = texts[-1].strip()
    kind = says if says in ("/compress", "Go on.") else "The code is BLUE. ..."
    kind = "a request for a summary" if "<state_snapshot>" in says else kind
    summary, full = "The code has a colour" in talk, "BLUE" in talk
    calls.append((kind, full, summary))
    holds = f"{len(talk):,} characters, BLUE {'in' if full else 'not in'} them"
    print(f"  call {number}: {holds}, a summary {'in' if summary else 'not in'} them; last: {kind}")
kinds = [kind for kind, _, _ in calls]
assert kinds[0] == "The code is BLUE. ..." and kinds[-1] == "Go on."
assert set(kinds[1:-1]) == {"/compress", "a request for a summary"}
assert kinds.count("/compress") == 1 and talk.count("Understood.") == 2
assert all(full and not summary for _, full, summary in calls)
print("seen: the model was asked to answer /compress, and nothing was compressed")
PY
