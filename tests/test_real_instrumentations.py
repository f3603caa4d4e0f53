"""The part of `make real` on instrumentations that can be tried without them: its model, and what it calls right."""

import json
import re
import sys
import urllib.request
from pathlib import Path

import pytest
from span_kit import as_protobuf, chat

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks" / "real"))

from instrumentations import INSTRUMENTATIONS, PAGE, VISIT, compared, one_by_one
from visit_model import GREY, Call, visited

from memory_inspector.recorder.otlp import PROTOBUF, read_export

ASKED = ("user", "Open?")
FORMS = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Open?"}]},
    "/v1/responses": {"input": "Open?"},
    "/v1/messages": {"messages": [{"role": "user", "content": "Open?"}]},
    "/v1beta/models/m:generateContent": {"contents": [{"role": "user", "parts": [{"text": "Open?"}]}]},
}


@pytest.mark.parametrize("path", FORMS)
def test_the_model_calls_the_tool_in_each_form_and_keeps_what_it_was_sent(path):
    with visited() as (url, calls):
        request = urllib.request.Request(url + path, json.dumps(FORMS[path]).encode())
        with urllib.request.urlopen(request) as response:
            assert "Oslo" in response.read().decode()
    assert [call.prompt for call in calls] == [(ASKED,)]


def test_a_row_tells_what_a_session_shows_otherwise():
    sent = [Call((ASKED,), ("assistant", GREY), (11, 7, 0))] * 3
    spans = [chat([ASKED], GREY, conversation="ada", began=n) for n in range(3)]
    whole = [read_export(as_protobuf(*spans), PROTOBUF)]
    assert compared(sent[:1], whole)[1:] == ["right", "right", "right"]
    assert compared(sent, one_by_one(whole))[0] == "yes"
    other = [read_export(as_protobuf(chat([ASKED], "No.", conversation="bob", tokens=(12, 7))), PROTOBUF)]
    assert compared(sent, other) == ["1 for 3", "answer of call 1 differs", "in 12 for 11 in call 1", "bob"]


def test_each_instrumentation_has_a_visit_and_a_row():
    visits = VISIT.read_text(encoding="utf-8")
    assert re.findall(r'^    "([\w-]+)": ', visits.partition("KINDS: ")[2], re.MULTILINE) == list(INSTRUMENTATIONS)
    rows = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    assert len(rows) == len(INSTRUMENTATIONS) + 2
