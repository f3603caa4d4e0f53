#!/usr/bin/env bash
# Expect a session to stay for 30 days: that is the default of general.sessionRetention.
# Get it deleted minutes later: resuming leaves a second file of the same id that holds no message.
# The next new session takes that one for a broken file, and removes every file with its id.
# Hits whoever reads or backs up sessions: what was said before and after the resume is gone, with
# no word about it. Not so if session and resume fall into one minute, which is in the files' names.
# Reported as google-gemini/gemini-cli#27368, which is open.
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
        self.rfile.read(int(self.headers["content-length"]))
        content = {"role": "model", "parts": [{"text": "Understood."}]}
        answer = json.dumps(
            {
                "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
                "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 2},
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
"${PYTHON:-python3}" "$work/model.py" "$work/port" &
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
files() {
    (cd "$work"/home/.gemini/tmp/*/chats && for file in session-*; do
        blue=$(grep -c BLUE "$file" || true)
        green=$(grep -c GREEN "$file" || true)
        echo "    ${file%%.*}: BLUE in $blue lines, GREEN in $green"
    done)
}
wait_for_next_minute() { sleep $((61 - 10#$(date +%S))); }

package=$work/node_modules/@google/gemini-cli/package.json
node -p "'@google/gemini-cli ' + require('$package').version"
echo "documented: general.sessionRetention deletes chats older than maxAge, by default 30d"
gemini -p "The code is BLUE."
wait_for_next_minute
gemini --resume latest -p "The code is GREEN."
echo "  a session, and a minute later one more turn by --resume latest:"
files | tee "$work/resumed"
[ "$(wc -l <"$work/resumed")" = 2 ]
grep -q "BLUE in 0 lines, GREEN in 0" "$work/resumed"
grep -q "BLUE in [1-9].*GREEN in [1-9]" "$work/resumed"
wait_for_next_minute
gemini -p "Good morning."
echo "  a new session, without a word of the old one:"
files | tee "$work/new"
[ "$(wc -l <"$work/new")" = 1 ]
grep -q "BLUE in 0 lines, GREEN in 0" "$work/new"
if grep -rqE "BLUE|GREEN" "$work/home"; then exit 1; fi
echo "seen: both files of the resumed session were deleted, and nothing in HOME holds its words"
