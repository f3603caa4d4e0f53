#!/usr/bin/env bash
# Expect a resumed session to send what the user said, as its file holds it.
# Get a prompt without whatever began with "/" or "?", be it a path: it was sent and answered when
# it was said; once resumed, only the answer to it is still there.
# Hits whoever takes the session file for what the model knows: the folder that the user named is
# in the file and in no later prompt, and two answers of the model follow one another.
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
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer


class Model(BaseHTTPRequestHandler):
    def do_POST(self):
        asked = self.rfile.read(int(self.headers["content-length"]))
        with open(sys.argv[2], "ab") as sent:
            sent.write(asked + b"\n")
        content = {"role": "model", "parts": [{"text": "Understood."}]}
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
echo "documented: resuming continues the conversation with all prior context restored"
gemini -p "Good morning."
gemini --resume latest -p "/srv/yard is the folder to clean. Leave the BLUE boxes."
gemini --resume latest -p "Which folder?"
"${PYTHON:-python3}" - "$work" <<'PY'
import json
import sys
from pathlib import Path

SAID = "/srv/yard is the folder to clean. Leave the BLUE boxes."
work = Path(sys.argv[1])
talks = []
for number, line in enumerate((work / "sent").read_text().splitlines(), 1):
    parts = [part for message in json.loads(line)["contents"] for part in message["parts"]]
    texts = [part["text"] for part in parts if not part["text"].startswith("<session_context>")]
    talks.append(texts)
    print(f"  prompt {number}: {texts}")
files = (work / "home/.gemini/tmp").glob("*/chats/session-*.jsonl")
count = sum(path.read_text().count(SAID) for path in files)
print(f"  the session's files hold the user's second message {count} times")
assert [texts[-1] for texts in talks] == ["Good morning.", SAID, "Which folder?"]
assert talks[2] == ["Good morning.", "Understood.", "Understood.", "Which folder?"]
assert count
print("seen: of the second turn the resumed prompt has the answer, and not what the user said")
PY
