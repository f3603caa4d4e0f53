#!/usr/bin/env bash
# Expect "Ada moved in 3 years ago" to hold a day in the past: "ago" says so.
# Get a day three years ahead: search_dates of dateparser takes "in" (of "moved in") and "ago"
# as one phrase, and "in" wins. A comma or another word between them brings the past back.
# Hits whoever dates facts by the words of a chat: "logged in", "checked in", "handed it in",
# "moved in" stand before most spans of time, and PREFER_DATES_FROM="past" does not help.
# Seen with dateparser 1.5.0 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check dateparser==1.5.0

"$work/venv/bin/python" - <<'PY'
from datetime import datetime
from importlib.metadata import version

from dateparser.search import search_dates

NOW = datetime(2026, 3, 11, 10, 0)
SETTINGS = {"RELATIVE_BASE": NOW, "PREFER_DATES_FROM": "past"}

print("dateparser", version("dateparser"), "- said on", NOW, "with PREFER_DATES_FROM=past")
print("documented: the README of the package lists phrases with 'ago' among relative dates, each")
print("            with a result before now, and search_dates for dates in longer texts")


def found(text):
    return search_dates(text, languages=["en"], settings=SETTINGS)


past = {
    "Ada moved here 3 years ago.": datetime(2023, 3, 11, 10, 0),
    "Ada moved in, 3 years ago.": datetime(2023, 3, 11, 10, 0),
}
future = {
    "Ada moved in 3 years ago.": datetime(2029, 3, 11, 10, 0),
    "Ada checked in 2 days ago.": datetime(2026, 3, 13, 10, 0),
    "Ada logged in 5 minutes ago.": datetime(2026, 3, 11, 10, 5),
}
for text, expected in {**past, **future}.items():
    [(words, day)] = found(text)
    print(f"  {text:32} {words!r:22} {day}  {'FUTURE' if day > NOW else 'past'}")
    assert day == expected, (text, day)
print("seen: 'in' plus 'ago' is the future")
PY
