#!/usr/bin/env bash
# Expect "2 days after June 3", read in March 2026, to be 5 June 2026.
# Get 5 June 2027, and "2 days before June 3" is 1 June 2025: behind after, from and before a month
# in words moves by a year, even if the year is named. Days in figures (6/3/2026) do not.
# Hits whoever dates facts by such words: the date is off by a year, or by two when the day has
# passed, and looks right as long as only the day and the month are checked.
# Seen with parsedatetime 2.6 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check parsedatetime==2.6

"$work/venv/bin/python" - <<'PY'
from datetime import date, datetime
from importlib.metadata import version

import parsedatetime

NOW = datetime(2026, 3, 11, 10, 0)
calendar = parsedatetime.Calendar()

print("parsedatetime", version("parsedatetime"), "- read on", NOW)
print("documented: the docstring of Calendar.parse: the result is computed from sourceTime")

seen = {
    "June 3": date(2026, 6, 3),
    "2 days after 6/3/2026": date(2026, 6, 5),
    "2 days after next Friday": date(2026, 3, 22),
    "2 days after June 3": date(2027, 6, 5),
    "2 days from June 3": date(2027, 6, 5),
    "2 days before June 3": date(2025, 6, 1),
    "2 days after June 3, 2026": date(2027, 6, 5),
    "2 days after March 3": date(2028, 3, 5),
}
for phrase, expected in seen.items():
    moment, flag = calendar.parseDT(phrase, sourceTime=NOW)
    print(f"  {phrase:26} {moment:%Y-%m-%d}")
    assert flag == 1 and moment.date() == expected, (phrase, moment, flag)
print("seen: a named month behind after, from or before is a year off")
PY
