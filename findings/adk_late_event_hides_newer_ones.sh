#!/usr/bin/env bash
# Expect GetSessionConfig(after_timestamp=t) to give every event at or after t.
# Get none when the event appended last is older: the in-memory sessions walk back from the end and
# stop there. The sessions on a database give all, and order by time instead of by arrival.
# Hits whoever reads an agent's recent past by time: one late event (an import, a slow clock)
# empties the window, and a test in memory and the real store disagree.
# Seen with google-adk 2.13.0 on 2026-11-29.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check \
    google-adk==2.13.0 "sqlalchemy[asyncio]==2.1.9" aiosqlite==0.22.1

"$work/venv/bin/python" -W ignore - <<'PY'
import asyncio
from importlib.metadata import version

from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

NOON = 1_772_000_000.0
SAID = [("morning", NOON - 60), ("noon", NOON), ("evening", NOON + 60), ("late import", NOON - 90)]


def texts(session):
    return [event.content.parts[0].text for event in session.events]


async def read(service):
    where = {"app_name": "app", "user_id": "ada"}
    session = await service.create_session(**where)
    for text, moment in SAID:
        content = types.Content(role="user", parts=[types.Part(text=text)])
        event = Event(author="user", content=content, timestamp=moment)
        await service.append_event(session, event)
    where["session_id"] = session.id
    everything = await service.get_session(**where)
    recent = await service.get_session(**where, config=GetSessionConfig(after_timestamp=NOON))
    print(f"  {type(service).__name__:24} all: {texts(everything)}")
    print(f"  {'':24} since noon: {texts(recent)}")
    return texts(everything), texts(recent)


print("google-adk", version("google-adk"))
print("documented: the docstring of GetSessionConfig: events with a timestamp >= the given one")
everything, recent = asyncio.run(read(InMemorySessionService()))
assert everything == ["morning", "noon", "evening", "late import"], everything
assert recent == [], recent
everything, recent = asyncio.run(read(DatabaseSessionService("sqlite+aiosqlite:///:memory:")))
assert everything == ["late import", "morning", "noon", "evening"], everything
assert recent == ["noon", "evening"], recent
print("seen: two services, two orders, and two answers to one question")
PY
