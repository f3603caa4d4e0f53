#!/usr/bin/env bash
# Expect "I met Bob two Fridays ago" to be one day in the past, as "two weeks ago" is.
# Get a rule without an end: every second Friday from now on. recurrent reads "two Fridays" as
# an interval and drops "ago"; is_recurring is True, so a caller cannot tell it from a habit.
# Hits whoever sorts facts into events and habits with it: one meeting becomes a standing
# appointment, and the date of the meeting is lost.
# Seen with recurrent 0.4.1 (parsedatetime 2.6, python-dateutil 2.9.0.post0) on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check \
    recurrent==0.4.1 parsedatetime==2.6 python-dateutil==2.9.0.post0

"$work/venv/bin/python" - <<'PY'
from datetime import datetime
from importlib.metadata import version

from dateutil.rrule import rrulestr
from recurrent import RecurringEvent

NOW = datetime(2026, 3, 11, 10, 0)

print("recurrent", version("recurrent"), "- read on", NOW)
print("documented: the README on GitHub (kvh/recurrent) gives a datetime for a phrase that names")
print("            one time, and a rule (RRULE) for one that names a repetition")

for phrase in ("two weeks ago", "I met Bob last Friday"):
    event = RecurringEvent(now_date=NOW)
    day = event.parse(phrase)
    print(f"  {phrase:28} {day}")
    assert isinstance(day, datetime) and day < NOW and not event.is_recurring

rules = {
    "I met Bob two Fridays ago": "RRULE:BYDAY=FR;INTERVAL=2;FREQ=WEEKLY",
    "I met Bob 3 Mondays ago": "RRULE:BYDAY=MO;INTERVAL=3;FREQ=WEEKLY",
    "two weekends ago": "RRULE:BYDAY=SA,SU;INTERVAL=2;FREQ=WEEKLY",
}
for phrase, expected in rules.items():
    event = RecurringEvent(now_date=NOW)
    rule = event.parse(phrase)
    ahead = rrulestr(rule, dtstart=NOW)[:2]
    print(f"  {phrase:28} {rule}  next: {', '.join(f'{day:%Y-%m-%d}' for day in ahead)}")
    assert event.is_recurring and rule == expected, (phrase, rule)
    assert min(ahead) > NOW
print("seen: a past weekday that is counted becomes a rule for the future")
PY
