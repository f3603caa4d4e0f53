#!/usr/bin/env bash
# Expect "Monday to Friday" to be a span whose end follows its start.
# Get, on a Wednesday, next Monday to this Friday: timefhuman moves each weekday to its next
# occurrence alone. Spans of hours across midnight and of days across New Year are right.
# Hits whoever stores "Ada is away Monday to Friday" as valid from and until: the fact holds at no
# moment and is never recalled, and whether it happens depends on the weekday of the message.
# Seen with timefhuman 0.1.5 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check timefhuman==0.1.5

"$work/venv/bin/python" - <<'PY'
from datetime import datetime
from importlib.metadata import version

from timefhuman import tfhConfig, timefhuman

SUNDAY, WEDNESDAY = datetime(2026, 3, 8, 10, 0), datetime(2026, 3, 11, 10, 0)


def span(phrase, now):
    [(start, end)] = timefhuman(phrase, config=tfhConfig(now=now))
    order = "end first" if end < start else "start first"
    print(f"  on {now:%A %d %B}: {phrase:42} {start:%d %b %H:%M} .. {end:%d %b %H:%M}  {order}")
    return start, end


print("timefhuman", version("timefhuman"))
print("documented: the README gives ranges as a pair (start, end), and says that what is missing")
print("            is inferred from the other half of the range")

for phrase, now in (
    ("Ada is away Monday to Friday", SUNDAY),
    ("Ada is away Thursday to Saturday", WEDNESDAY),
    ("The shop is open 10pm to 2am", WEDNESDAY),
    ("Ada is away December 30 to January 2", WEDNESDAY),
):
    start, end = span(phrase, now)
    assert start < end, phrase

start, end = span("Ada is away Monday to Friday", WEDNESDAY)
assert (start, end) == (datetime(2026, 3, 16), datetime(2026, 3, 13))
start, end = span("Ada is away Tue to Thu", WEDNESDAY)
assert (start, end) == (datetime(2026, 3, 17), datetime(2026, 3, 12))
print("seen: a span of weekdays that today lies in ends before it starts")
PY
