"""Calls of coding agents as they were seen on the wire on 2026-11-29: whose they are, and what a compaction left."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from span_kit import Attached, chat, sent

from memory_core import Database, Memory, Services, list_sessions
from memory_core.engine.session import Session
from memory_core.messages import ChatMessage, TextPart, content_hash
from memory_inspector.reading.event_rows import ledger
from memory_inspector.recorder import recording
from memory_inspector.recorder.callers import NAMES, Caller, Conversations, caller_of
from memory_inspector.recorder.recording import attach, record_exchange
from memory_inspector.recorder.recording_proxy import _headers
from memory_inspector.recorder.wire import Answered, Exchange, read_exchange
from memory_inspector.wording.attach_lines import ANY, LINES, lines_for
from memory_inspector.wording.event_sentences.event_words import describe, present_words
from memory_inspector.wording.prompt_text import entry_note

SYSTEM = ("system", "You are a coding agent of a test, and help people with their repositories.")
TALK = [
    ("user", "Please never touch the lockfile."),
    ("assistant", "Understood."),
    ("user", "Fix the build."),
    ("assistant", "Done, it is green."),
]
ASKED = ("user", "Create a detailed summary of the conversation so far.")
SUMMARY = "The build was mended and is green."


class Wire:
    """Sessions of one name, and what was recorded in them."""

    def __init__(self):
        self.database, self.services, self.conversations = Database.open(), Services(), Conversations()

    def opened(self, name):
        return Session(self.database, name, services=self.services)

    def call(self, prompt, answer, headers=(), tools="[]"):
        messages = tuple(ChatMessage(role=role, content=content) for role, content in prompt)
        asked = read_exchange("chat/completions", b'{"messages": []}', Answered(200)).purpose
        exchange = Exchange(asked, "m", messages, ChatMessage(role="assistant", content=answer), tools=tools)
        self.conversations.record(self.opened, "agent", exchange, caller_of(dict(headers)))

    def put(self, *calls):
        """Record calls in one session, each as (messages, answer), as the proxy reads them."""
        session = self.opened("agent")
        attach(session)
        for prompt, answer in calls:
            body = {"messages": [{"role": role, "content": content} for role, content in prompt]}
            answered = {"choices": [{"message": {"role": "assistant", "content": answer}}]}
            whole = Answered(200, json.dumps(answered).encode())
            record_exchange(session, read_exchange("chat/completions", json.dumps(body).encode(), whole))

    def memory(self, name="agent"):
        return Memory.open(name, self.database, services=self.services)

    def words(self, status=None, name="agent"):
        return [message.content for message in self.memory(name).get_all(status=status)]

    def names(self):
        return {each.session_id for each in list_sessions(self.database)}


BEFORE = [([SYSTEM, *TALK[:1]], "Understood."), ([SYSTEM, *TALK[:3]], "Done, it is green.")]
REQUEST = ([SYSTEM, *TALK, ASKED], f"<analysis>Draft</analysis><summary>\n{SUMMARY}\n</summary>")
GO_ON = ("user", "Go on.")
COMPACTED = {
    "the summary alone is left": [REQUEST, ([SYSTEM, ("user", f"Continued. {SUMMARY}"), GO_ON], "Fine.")],
    "the summary is an answer, after a question of the agent": [
        ([("system", "Summarize."), ("user", f"<conversation>…</conversation> {ASKED[1]}")], SUMMARY),
        ([SYSTEM, ("user", "What did we do?"), ("assistant", SUMMARY), GO_ON], "Fine."),
    ],
    "the end is kept behind a text": [([SYSTEM, ("user", "A digest."), TALK[3], GO_ON], "Fine.")],
    "the beginning is kept, and a text says what it is": [
        (
            [
                SYSTEM,
                ("user", "The conversation before this point was compacted into a summary: all went well."),
                GO_ON,
            ],
            "Ok.",
        )
    ],
}


def test_conversations_whose_ids_end_alike_stand_apart():
    wire = Wire()
    for id in ("first", "noon-00000001", "dusk-00000001", "noon-00000001"):
        wire.call([SYSTEM, ("user", f"I am of {id}.")], "Fine.", {"session-id": id})
    assert wire.names() == {"agent", "agent 00000001", "agent dusk-00000001"}
    assert [words for words in wire.words(name="agent 00000001") if "dusk" in words] == []


@pytest.mark.parametrize("calls", COMPACTED.values(), ids=COMPACTED)
def test_what_a_compaction_left_out_leaves_the_queue(calls):
    wire = Wire()
    wire.put(*BEFORE, *calls)
    assert TALK[0][1] in wire.words("archived")
    assert TALK[0][1] not in wire.words("active")
    assert SYSTEM[1] in wire.words("active")
    assert [message[1] for message in calls[-1][0] if message[1] not in wire.words("active")] == []
    assert ASKED[1] not in wire.words("active")


def test_a_first_message_that_the_agent_wrote_anew_leaves_with_the_compaction_too():
    """Qwen Code 0.24.4 writes its first message anew at each start, as the date is in it."""
    wire = Wire()
    first, anew = ("user", f"Sunday. {TALK[0][1]}"), ("user", f"Monday. {TALK[0][1]}")
    wire.put(([SYSTEM, first], "Understood."), ([SYSTEM, anew, *TALK[1:3]], "Done, it is green."))
    assert first[1] in wire.words("active")
    wire.put(([SYSTEM, anew, *TALK[1:], ASKED], SUMMARY), ([SYSTEM, ("user", f"Go on with this: {SUMMARY}")], "Fine."))
    assert [words for words in wire.words("active") if TALK[0][1] in words] == []


def test_a_compaction_leaves_another_conversation_with_the_same_system_prompt_and_greeting_alone():
    wire = Wire()
    greeting = ("user", "Good morning.")
    wire.put(([SYSTEM, greeting], "To you."), ([SYSTEM, greeting, ("assistant", "To you."), TALK[0]], "Noted."))
    other = [SYSTEM, greeting, ("assistant", "What is next?"), *TALK[2:]]
    wire.put((other[:2], "What is next?"), (other[:4], "Done, it is green."))
    wire.put(([*other, ASKED], SUMMARY), ([SYSTEM, ("user", f"Go on with this: {SUMMARY}")], "Fine."))
    assert "What is next?" in wire.words("archived")
    assert {TALK[0][1], "Noted.", "To you."} <= set(wire.words("active"))


UNCLAIMED = {
    "a window that slid": ([SYSTEM, *TALK[2:], GO_ON], "Fine."),
    "another conversation of the agent": ([SYSTEM, ("user", "How do I bake bread?")], "With flour."),
    "an answer of an ordinary call, quoted": ([SYSTEM, ("user", "You said: Done, it is green. Why?")], "So."),
    "another agent": ([("system", "Search."), ("user", "Summary of the conversation: build. Find it."), GO_ON], "No."),
    "an earlier message that was changed": ([SYSTEM, ("user", "Edited."), *TALK[1:], GO_ON], "Fine."),
    "an output that was cleared": ([SYSTEM, *TALK[:3], ("tool", "[cleared]"), GO_ON], "Fine."),
    "a window that slid, and a wish for a summary": (
        [SYSTEM, *TALK[2:], ("user", "Put a summary of this conversation in the README."), ("user", "Now: noon.")],
        "Fine.",
    ),
    "another conversation, in a folder of a telling name": (
        [SYSTEM, ("user", "This is the context of our chat. Folder: /srv/compact-app."), GO_ON],
        "Fine.",
    ),
    "messages that were joined": ([SYSTEM, ("user", "\n".join(text for _, text in TALK[:3])), TALK[3], GO_ON], "Fine."),
    "a request for a summary": ([SYSTEM, ("user", f"{ASKED[1]} The conversation: …")], SUMMARY),
}


@pytest.mark.parametrize("call", UNCLAIMED.values(), ids=UNCLAIMED)
def test_nothing_is_claimed_where_the_prompts_do_not_show_a_compaction(call):
    wire = Wire()
    wire.put(*BEFORE, call)
    assert wire.words("archived") == []


def test_a_summary_explains_one_compaction_and_not_what_a_window_drops_later():
    wire = Wire()
    wire.put(*BEFORE, *COMPACTED["the summary alone is left"])
    left = wire.words("archived")
    kept = [SYSTEM, ("user", f"Continued. {SUMMARY}")]
    wire.put(([*kept, ("assistant", "Fine."), ("user", "More."), ("assistant", "Yes."), ("user", "And?")], "Well."))
    assert wire.words("archived") == left


SESSION, OTHER = "5f2b9c1e-0000-4000-8000-0000aaaa1111", "5f2b9c1e-0000-4000-8000-0000bbbb2222"
NAMED = {
    "Claude Code": ({"x-claude-code-session-id": SESSION}, {"x-claude-code-agent-id": "a93549367c5e5e55a"}),
    "Codex": ({"session-id": SESSION, "thread-id": SESSION}, {"thread-id": "01a2281e-cccc-7000-8000-36cdb25a5308"}),
    "OpenCode": ({"x-session-id": SESSION}, {"x-session-id": "ses_dd7e0116", "x-parent-session-id": SESSION}),
}


@pytest.mark.parametrize(("main", "agent"), NAMED.values(), ids=NAMED)
def test_headers_name_the_conversation_and_the_agent_in_it(main, agent):
    wire = Wire()
    wire.call([SYSTEM, TALK[0]], "Yes.", main)
    wire.call([SYSTEM, ("user", "Look for the zebra.")], "Here.", {**main, **agent})
    wire.call([SYSTEM, *TALK[:3]], "Done.", main)
    wire.call([SYSTEM, ("user", "Something else.")], "Well.", dict.fromkeys(main, OTHER))
    [subagent] = [name for name in wire.names() if name.startswith("agent agent-")]
    assert wire.names() == {"agent", subagent, "agent bbbb2222"}
    assert "Look for the zebra." not in wire.words()
    assert "Look for the zebra." in wire.words(name=subagent)


def test_calls_without_headers_are_told_apart_by_how_their_system_prompts_begin():
    wire = Wire()
    wire.call([SYSTEM, TALK[0]], "Yes.")
    wire.call([("system", "You are a title generator. You output only a title, nothing else."), TALK[0]], "Lockfile")
    wire.call([("system", "You are an exploration agent, and look things up in files."), ("user", "Zebra?")], "No.")
    wire.call([("system", SYSTEM[1] + " Today is the 30th."), *TALK[:3]], "Done.")
    [explorer] = wire.names() - {"agent", "agent title"}
    assert wire.words(name="agent title")[1:] == [TALK[0][1], "Lockfile"]
    assert wire.words(name=explorer)[1:] == ["Zebra?", "No."]
    purposes = [record.event.purpose for record in wire.memory("agent title").events(kinds=["model_called"])]
    assert purposes == ["title"]


@pytest.mark.parametrize("headers", [(), {"session-id": "noon"}.items()])
def test_a_first_call_that_makes_a_title_does_not_begin_the_conversation(headers):
    wire = Wire()
    titler = ("system", "You are a title generator. You output only a title, nothing else.")
    wire.call([titler, ("user", "Generate a title for this conversation:"), TALK[0]], "Lockfile", headers, tools="")
    wire.call([SYSTEM, TALK[0]], "Understood.", headers, tools='[{"name": "look"}]')
    assert wire.names() == {"agent", "agent title"}
    assert wire.words() == [SYSTEM[1], TALK[0][1], "Understood."]


def test_a_summary_that_was_written_beside_the_conversation_is_known_in_it():
    wire = Wire()
    for prompt, answer in BEFORE:
        wire.call(prompt, answer)
    wire.call([("system", "You are a context summarization assistant for conversations."), ASKED], SUMMARY, tools="")
    wire.call([SYSTEM, ("user", "What did we do?"), ("assistant", SUMMARY), GO_ON], "Fine.")
    assert TALK[0][1] in wire.words("archived")


def test_an_agent_with_tools_whose_new_system_prompt_speaks_of_compaction_stays_in_its_session():
    wire = Wire()
    wire.call([SYSTEM, TALK[0]], "Understood.")
    planning = ("system", "You are in the planning mode of a test. The conversation may be compacted to a summary.")
    wire.call([planning, *TALK[:3]], "Done.", tools='[{"name": "look"}]')
    assert wire.names() == {"agent"}


def test_of_headers_only_those_that_name_a_conversation_are_held():
    headers = [(b"X-Session-Token", b"secret"), (b"authorization", b"Bearer x"), (b"Session-Id", b"noon")]
    assert _headers(headers) == {"session-id": "noon"}
    assert all(name == name.lower() for name in NAMES)


@settings(max_examples=50)
@given(st.dictionaries(st.sampled_from(["session-id", "thread-id", "x-codex-turn-metadata", "x"]), st.text()))
def test_headers_may_hold_anything(headers):
    caller = caller_of(headers)
    assert isinstance(caller, Caller)
    assert all(len(id) <= 80 and not set(id) & set("/\\. ") for id in (caller.conversation, caller.agent))


def gemini(*contents):
    body = {"contents": [{"role": role, "parts": parts} for role, parts in contents]}
    return json.dumps(body).encode()


def test_a_call_without_an_id_is_the_one_that_comes_back_with_one_and_joined_answers_stand_once():
    wire, look = Wire(), {"name": "look", "args": {"at": "gate"}}
    session = wire.opened("agent")
    attach(session)

    def ask(parts, *contents):
        answered = Answered(200, json.dumps({"candidates": [{"content": {"parts": parts}}]}).encode())
        record_exchange(session, read_exchange("generateContent", gemini(*contents), answered))

    first = ("user", [{"text": "Look."}])
    called = ("model", [{"text": "I look."}, {"functionCall": {**look, "id": "look_1"}}])
    result = ("user", [{"functionResponse": {"name": "look", "id": "look_1", "response": {"output": "blue"}}}])
    ask([{"text": "I look."}, {"functionCall": look}], first)
    ask([{"text": "Blue."}], first, called, result)
    ask([{"text": "Still."}], first, called, result, ("model", [{"text": "Blue."}]), ("user", [{"text": "Sure?"}]))
    joined = ("model", [{"text": "Blue."}, {"text": "Still."}])
    ask([{"text": "Bye."}], first, called, result, joined, ("user", [{"text": "Thanks."}]))
    words = wire.words()
    assert [words.count(text) for text in ("I look.", "Blue.", "Still.")] == [1, 1, 1]


def test_a_message_of_many_parts_is_compared_with_known_ones_in_a_few_hundred_looks(monkeypatch):
    looks = []
    monkeypatch.setattr(recording, "content_hash", lambda json: looks.append(1) or content_hash(json))
    parts = [TextPart(text=f"Part {number}.") for number in range(recording.MAX_JOINED)]
    known = [ChatMessage(role="assistant", parts=[part]) for part in parts]
    wire = Wire()
    session = wire.opened("agent")
    attach(session)
    for unknown, prompt in ((parts[-1:], known[:-1]), ([], [ChatMessage(role="assistant", parts=parts)])):
        record_exchange(session, Exchange("reply", "m", (ChatMessage(role="user", content=f"Hi {unknown}"), *prompt)))
    assert len(looks) < 500


def test_reasoning_stands_before_its_answer_also_that_of_the_last():
    wire = Wire()
    session = wire.opened("agent")
    attach(session)
    for n, prompt in enumerate(([TALK[0]], TALK[:3])):
        message = {"role": "assistant", "content": TALK[2 * n + 1][1], "reasoning_content": f"Thought {n}."}
        messages = [{"role": role, "content": content} for role, content in prompt]
        if n:
            messages[1]["reasoning_content"] = "Thought 0."
        answered = Answered(200, json.dumps({"choices": [{"message": message}]}).encode())
        record_exchange(
            session, read_exchange("chat/completions", json.dumps({"messages": messages}).encode(), answered)
        )
    texts = [part.text for message in wire.memory().get_all() for part in message.parts]
    assert texts == [TALK[0][1], "Thought 0.", TALK[1][1], TALK[2][1], "Thought 1.", TALK[3][1]]


CACHED = {
    "messages": {"type": "message", "content": [], "usage": {"input_tokens": 2, "cache_read_input_tokens": 7}},
    "responses": {"output": [], "usage": {"input_tokens": 9, "input_tokens_details": {"cached_tokens": 7}}},
    "chat/completions": {"choices": [], "usage": {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 7}}},
    "generateContent": {"candidates": [], "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 7}},
}


@pytest.mark.parametrize(("endpoint", "body"), CACHED.items(), ids=CACHED)
def test_tokens_of_a_cache_are_counted_in_every_dialect(endpoint, body):
    asked = json.dumps({"messages": [], "contents": [{"parts": [{"text": "Hi"}]}]}).encode()
    exchange = read_exchange(endpoint, asked, Answered(200, json.dumps(body).encode()))
    assert (exchange.input_tokens, exchange.cached_tokens) == (9, 7)


def test_definitions_of_tools_are_counted_and_are_no_message():
    wire, tools = Wire(), [{"type": "function", "name": "exec", "parameters": {"type": "object"}}]
    items = [
        {"type": "additional_tools", "role": "developer", "tools": tools},
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": "Hi"},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "compaction_trigger"},
        {"type": "compaction", "encrypted_content": "b3BhcXVl"},
    ]
    session = wire.opened("agent")
    attach(session)
    record_exchange(session, read_exchange("responses", json.dumps({"input": items}).encode(), Answered(200)))
    [built] = [record.event for record in wire.memory().events(kinds=["context_built"])]
    assert wire.words() == ["Be brief.", "Hi"]
    assert built.reserved_tokens > 10
    assert built.total == built.pinned_tokens + built.queue_tokens + built.reserved_tokens
    assert built.pinned


@pytest.mark.parametrize("program", LINES)
def test_every_program_has_lines_with_the_session_s_address_and_a_row_in_the_document(program):
    _, lines = lines_for(program, "http://127.0.0.1:8501/record/my-agent")
    document = Path("docs/how-to/attach.md").read_text(encoding="utf-8")
    [*_, address] = re.findall(r"http://[\w.:/-]+", lines)
    assert (address in document, "{url}" in lines) == (True, False)
    assert program == ANY or f"| {program} |" in document


def test_cached_tokens_are_told_and_priced():
    wire = Wire()
    session = wire.opened("agent")
    attach(session)
    asked = (ChatMessage(role="user", content="Hi"),)
    record_exchange(session, Exchange("reply", "gpt-5", asked, None, 1000, 100, 400))
    [record] = wire.memory().events(kinds=["model_called"])
    [row] = ledger([record])
    assert (row.cached_tokens, row.cost) == (400, pytest.approx(0.0018))
    assert (
        "1,000 tokens in (400 cached), 100 tokens out"
        in describe(record.event, present_words(wire.memory(), [record])).text
    )


def test_a_span_tells_of_cached_tokens():
    attached, span = Attached(), chat([("user", "one")], "two")
    span["attributes"] += sent("", {"gen_ai.usage.cache_read.input_tokens": 30})["attributes"]
    assert attached.take(span) == []
    assert [record.event.cached_tokens for record in attached.memory().events(kinds=["model_called"])] == [30]


@pytest.mark.parametrize("calls", COMPACTED.values(), ids=COMPACTED)
def test_the_summary_in_a_recorded_prompt_is_marked_as_one(calls):
    wire = Wire()
    wire.put(*BEFORE, *calls)
    memory = wire.memory()
    sent = memory.log.prompt(memory.events(kinds=["context_built"])[-1])
    [marked] = [entry for part in sent.parts for entry in part.entries if entry.stands_for]
    assert marked.words in {words for _, words in calls[-1][0]}.difference(
        {GO_ON[1]}, {words for _, words in BEFORE[1][0]}
    )
    [flush] = [record.event for record in memory.events(kinds=["flush_planned"])]
    assert f"summary in place of {flush.messages} messages" in entry_note(marked)
    assert f"message {marked.ref.number}" in describe(flush, present_words(memory, [])).text


def test_the_trace_says_which_summary_stands_in_place_of_a_message():
    wire = Wire()
    wire.put(*BEFORE, *COMPACTED["the summary alone is left"])
    memory = wire.memory()
    [track] = [track for track in memory.trace(TALK[0][1]).tracks if track.decisive is not None]
    assert "compaction left it out in turn" in track.decisive.text
    assert track.decisive.text.endswith("in its place.")
    # A prompt that merely left messages out has no such reason.
    wire.call([SYSTEM, GO_ON], "Yes.", {})
    sentence = wire.memory().trace(SUMMARY).sentence
    assert "compaction" not in sentence
