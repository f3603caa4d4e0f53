"""Sessions of six coding agents, written in the form of their versions of 2026-11-29, with our own words.

In each the user states a rule and a task, the agent reads a file, and a compaction keeps the task alone.
"""

import json
import sqlite3
from contextlib import closing

RULE = "Never touch the lockfile of the harbour."
TASK = "Paint the pier in light green."
AFTER = "Go on with the mooring posts."
SUMMARY = f"The user wants this: {TASK}"
AT = "2026-11-29T10:00:{:02}.000Z"
MS = 1_795_000_000_000


def lines(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def pi_records(rule=RULE):
    used = {"input": 700, "cacheRead": 300, "cacheWrite": 0, "output": 20, "cost": {"total": 0.5}}

    def message(id, parent, role, content, **more):
        said = {"role": role, "content": content, "timestamp": MS, **more}
        return {"type": "message", "id": id, "parentId": parent, "timestamp": AT.format(1), "message": said}

    text = lambda words: [{"type": "text", "text": words}]  # noqa: E731
    call = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "pier.py"}}
    compaction = {"summary": SUMMARY, "firstKeptEntryId": "s", "tokensBefore": 1_100, "fromHook": False}
    return [
        {"type": "session", "version": 3, "id": "x", "timestamp": AT.format(0), "cwd": "/srv/boats"},
        {"type": "model_change", "id": "m", "parentId": None, "timestamp": AT.format(0), "modelId": "m-1"},
        message("a", "m", "user", text(f"{rule} {TASK}")),
        message(
            "b", "a", "assistant", [{"type": "thinking", "thinking": "Let me see."}, call], usage=used, model="m-1"
        ),
        message("c", "b", "toolResult", text("pier = 1"), toolCallId="t1", toolName="read"),
        message("d", "c", "assistant", text("I read it."), usage=used, model="m-1"),
        {"type": "label", "id": "s", "parentId": "d", "timestamp": AT.format(2), "label": "kept"},
        message("e", "s", "user", text("The tide turns at noon.")),
        message("f", "e", "assistant", text("Noted."), usage=used, model="m-1"),
        {"type": "compaction", "id": "k", "parentId": "f", "timestamp": AT.format(3), **compaction},
        message("g", "k", "user", text(AFTER)),
        message("h", "g", "assistant", text("Done."), usage=used, model="m-1"),
    ]


def pi(folder, **more):
    return lines(folder / "--srv-boats--" / "2026-11-29T10-00-00-000Z_0123.jsonl", pi_records(**more))


def gemini_records(rule=RULE):
    tokens = {"input": 1_000, "cached": 300, "output": 15, "thoughts": 5, "tool": 0, "total": 1_020}

    def said(id, kind, content, **more):
        return {"id": id, "timestamp": AT.format(1), "type": kind, "content": content, **more}

    user = lambda id, words: said(id, "user", [{"text": words}])  # noqa: E731
    answer = lambda id, words, **more: said(id, "gemini", words, thoughts=[], tokens=tokens, model="g-1", **more)  # noqa: E731
    context = user("ctx", "<session_context>\n- **Workspace Directories:**\n  - /srv/boats\n</session_context>")
    head = {"sessionId": "x", "projectHash": "h", "startTime": AT.format(0), "kind": "main"}
    told = {"functionResponse": {"id": "t1", "name": "read_file", "response": {"output": "pier = 1"}}}
    calls = [{"id": "t1", "name": "read_file", "args": {"file_path": "pier.py"}, "result": [told], "agentId": "sub"}]
    again = [
        context,
        user("a", f"{rule} {TASK}"),
        said("b", "gemini", [{"text": "I look."}, {"functionCall": {"id": "t1", "name": "read_file", "args": {}}}]),
        said("b_response", "user", [told]),
        said("d", "gemini", [{"text": "I read it."}]),
    ]
    new = [
        context,
        user("k1", f"<state_snapshot>\n{SUMMARY}\n</state_snapshot>"),
        said("k2", "gemini", [{"text": "Got it. Thanks for the additional context!"}]),
        user("k3", "The tide turns at noon."),
    ]
    return [
        head,
        {"$set": {"messages": [context], "lastUpdated": AT.format(0)}},
        user("a", f"{rule} {TASK}"),
        answer("b", "I look."),
        {"$set": {"lastUpdated": AT.format(1)}},
        answer("b", "I look.", toolCalls=calls),
        said("c", "user", [told]),
        answer("d", "I read it."),
        head,
        {"$set": {"messages": [context], "lastUpdated": AT.format(2)}},
        {"$set": {"sessionId": "x"}},
        {"$set": {"messages": again, "lastUpdated": AT.format(2)}},
        user("e", "The tide turns at noon."),
        answer("f", "Noted."),
        {"$set": {"messages": new, "lastUpdated": AT.format(3)}},
        user("g", AFTER),
        answer("h", "Done."),
    ]


def gemini(folder, **more):
    chats = folder / "boats" / "chats"
    sub = [{"sessionId": "sub", "projectHash": "h", "kind": "subagent", "directories": ["/srv/boats"]}]
    sub.append({"id": "z", "timestamp": AT.format(1), "type": "user", "content": [{"text": "Look for ropes."}]})
    lines(chats / "01234567-89ab" / "sub.jsonl", sub)
    return lines(chats / "session-2026-11-29T10-00-01234567.jsonl", gemini_records(**more))


def qwen_records(rule=RULE):
    used = {"promptTokenCount": 1_000, "candidatesTokenCount": 20, "cachedContentTokenCount": 300}
    records = []

    def record(kind, parts=None, **more):
        id = f"u{len(records)}"
        about = {"sessionId": "x", "timestamp": AT.format(1), "cwd": "/srv/boats", "version": "0.24.4"}
        by = {"user": "real_user", "assistant": "assistant_output"}.get(kind, kind)
        said = {"message": {"role": "model" if kind == "assistant" else "user", "parts": parts}} if parts else {}
        tokens = {"usageMetadata": used, "model": "q-1"} if kind == "assistant" else {}
        parent = records[-1]["uuid"] if records else None
        records.append(
            {"uuid": id, "parentUuid": parent, "type": kind, "provenance": by, **about, **said, **tokens, **more}
        )

    args = {"file_path": "pier.py", "subagent_type": "Explore"}
    record("user", [{"text": f"{rule} {TASK}"}])
    record("system", subtype="ui_telemetry", systemPayload={})
    record(
        "assistant", [{"text": "Hm.", "thought": True}, {"functionCall": {"id": "t1", "name": "agent", "args": args}}]
    )
    record("tool_result", [{"functionResponse": {"id": "t1", "name": "agent", "response": {"output": "pier = 1"}}}])
    record("assistant", [{"text": "I read it."}])
    record("user", [{"text": "The tide turns at noon."}])
    record("assistant", [{"text": "Noted."}])
    info = {"originalTokenCount": 1_100, "newTokenCount": 500, "triggerReason": "manual"}
    history = [
        {"role": "user", "parts": [{"text": f"<state_snapshot>\n{SUMMARY}\n</state_snapshot>"}]},
        {"role": "model", "parts": [{"text": "Got it. Thanks for the additional context!"}]},
        {"role": "user", "parts": [{"text": "The tide turns at noon."}]},
    ]
    record("system", subtype="chat_compression", systemPayload={"info": info, "compressedHistory": history})
    record("user", [{"text": AFTER}])
    record("assistant", [{"text": "Done."}])
    return records


def qwen(folder, **more):
    project = folder / "-srv-boats"
    sub = {"uuid": "z", "parentUuid": None, "type": "user", "agentId": "Explore-t1", "isSidechain": True}
    sub |= {"message": {"role": "user", "parts": [{"text": "Look for ropes."}]}}
    lines(project / "subagents" / "0123" / "agent-Explore-t1.jsonl", [sub])
    return lines(project / "chats" / "0123.jsonl", qwen_records(**more))


def copilot_records(rule=RULE):
    records = []
    used = {"inputTokens": 1_000, "outputTokens": 20, "cacheReadTokens": 300, "cacheWriteTokens": 0, "model": "c-1"}

    def event(kind, agent="", **data):
        parent = records[-1]["id"] if records else None
        more = {"agentId": agent} if agent else {}
        id = f"e{len(records)}"
        records.append({"type": kind, "id": id, "parentId": parent, "timestamp": AT.format(1), "data": data, **more})

    def answer(number, words, calls=(), agent=""):
        event("session.usage_record", agent, usage={**used, "apiCallId": f"call {number}", "maxPromptTokens": 9_000})
        event("assistant.message", agent, apiCallId=f"call {number}", content=words, toolRequests=[*calls], model="c-1")

    event("session.start", sessionId="x", copilotVersion="1.0.102", context={"cwd": "/srv/boats"})
    event("user.message", content=f"{rule} {TASK}", transformedContent=f"<now>noon</now>\n\n{rule} {TASK}")
    event("system.message", role="system", content="You are a harbour master.")
    answer(1, "I look.", [{"toolCallId": "t1", "name": "task", "arguments": {"prompt": "Look for ropes."}}])
    event("subagent.started", "sub", toolCallId="t1", agentName="explore")
    event("user.message", "sub", content="Look for ropes.", source="agent-x")
    answer(9, "Ropes found.", agent="sub")
    event("tool.execution_complete", toolCallId="t1", success=True, result={"content": "Ropes found."})
    answer(2, "I read it.")
    event("user.message", content="The tide turns at noon.", transformedContent="The tide turns at noon.")
    answer(3, "Noted.")
    event("session.compaction_start", trigger="manual", currentTokens=1_100)
    totals = {"preCompactionTokens": 1_100, "trigger": "manual", "compactionTokensUsed": used}
    event("session.compaction_complete", success=True, summaryContent=SUMMARY, **totals)
    event("user.message", content=AFTER, transformedContent=AFTER)
    answer(4, "Done.")
    return records


def copilot(folder, **more):
    return lines(folder / "0123" / "events.jsonl", copilot_records(**more))


def cline_files(rule=RULE):
    """The three objects of a session: messages, what is known of it, and its compaction."""
    used = {"inputTokens": 1_000, "outputTokens": 20, "cacheReadTokens": 300, "cacheWriteTokens": 0}

    def said(id, role, *parts):
        more = {"metrics": used, "modelInfo": {"id": "l-1"}} if role == "assistant" else {}
        return {"id": id, "role": role, "content": [*parts], "ts": MS, **more}

    text = lambda words: {"type": "text", "text": words}  # noqa: E731
    typed = lambda words: text(f'<user_input mode="act">{words}</user_input>')  # noqa: E731
    told = {"type": "tool_result", "tool_use_id": "t1", "name": "read_files", "content": [{"result": "pier = 1"}]}
    messages = [
        said("a", "user", typed(f"{rule} {TASK}")),
        said("b", "assistant", {"type": "tool_use", "id": "t1", "name": "read_files", "input": {"path": "pier.py"}}),
        said("c", "user", told),
        said("d", "assistant", text("I read it.")),
        said("e", "user", typed("The tide turns at noon.")),
        said("f", "assistant", text("Noted.")),
        said("g", "user", typed(AFTER)),
        said("h", "assistant", text("Done.")),
    ]
    about = {"kind": "compaction_summary", "tokensBefore": 1_100, "generatedAt": MS}
    summary = {"role": "user", "content": [text(f"Context summary:\n\n{SUMMARY}")], "metadata": about}
    head = {"version": 1, "agent": "lead", "sessionId": "0123", "origin": {"version": "3.0.65"}}
    return (
        {**head, "messages": messages, "system_prompt": "You are a harbour master."},
        {"cwd": "/srv/boats", "metadata": {"title": "The pier"}},
        {"source_message_count": 6, "messages": [summary, *messages[4:6]]},
    )


def cline(folder, **more):
    path = folder / "0123" / "0123.messages.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    own, about, compaction = cline_files(**more)
    path.write_text(json.dumps(own, indent=1))
    path.with_name("0123.json").write_text(json.dumps(about))
    path.with_name("0123.compaction.json").write_text(json.dumps(compaction))
    sub = {
        "agent": "subagent",
        "sessionId": "0123__agent_1",
        "messages": [{"role": "user", "content": "Look for ropes."}],
    }
    path.with_name("agent_1.messages.json").write_text(json.dumps(sub))
    return path


TABLES = """CREATE TABLE session (id text PRIMARY KEY, parent_id text, directory text NOT NULL, title text NOT NULL,
    version text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL);
CREATE TABLE part (id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL);"""


def opencode_messages(rule=RULE):
    """Each message of the session with its parts."""
    tokens = {"input": 700, "output": 15, "reasoning": 5, "cache": {"read": 300, "write": 0}}

    def said(role, *parts, **more):
        used = {"tokens": tokens, "cost": 0.5, "modelID": "o-1", "finish": "stop"} if role == "assistant" else {}
        return {"role": role, **used, **more}, [*parts]

    text = lambda words, **more: {"type": "text", "text": words, **more}  # noqa: E731
    state = {"status": "completed", "input": {"filePath": "pier.py"}, "output": "pier = 1"}
    state["metadata"] = {"sessionId": "ses_sub"}
    return [
        said("user", text(f"{rule} {TASK}")),
        said("assistant", {"type": "step-start"}, {"type": "tool", "tool": "task", "callID": "t1", "state": state}),
        said("assistant", text("I read it.")),
        said("user", text("The tide turns at noon.")),
        said("assistant", text("Noted.")),
        said("user", {"type": "compaction", "auto": True, "overflow": False, "tail_start_id": "msg_3"}),
        said("assistant", text(SUMMARY), summary=True, parentID="msg_5"),
        said("user", text("Continue.", synthetic=True)),
        said("user", text(AFTER)),
        said("assistant", text("Done.")),
    ]


def write_messages(connection, session, messages):
    for number, (info, parts) in enumerate(messages):
        at, id = MS + 1_000 * number, f"msg_{number}" + ("" if session == "ses_0123" else session)
        data = json.dumps({**info, "time": {"created": at}} if isinstance(info, dict) else info)
        connection.execute("INSERT OR REPLACE INTO message VALUES (?, ?, ?, ?, ?)", (id, session, at, at, data))
        for place, part in enumerate(parts):
            row = (f"prt_{id}_{place}", id, session, at, at, json.dumps(part))
            connection.execute("INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?, ?)", row)


def opencode(folder, **more):
    folder.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "opencode.db")) as connection, connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(TABLES)
        for id, parent, title in (("ses_0123", None, "The pier"), ("ses_sub", "ses_0123", "Ropes")):
            row = (id, parent, "/srv/boats", title, "1.18.33", MS, MS)
            connection.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        write_messages(connection, "ses_0123", opencode_messages(**more))
        write_messages(connection, "ses_sub", [({"role": "user"}, [{"type": "text", "text": "Look for ropes."}])])
    connection.close()
    return folder / "opencode.db" / "ses_0123"


AGENTS = {"pi": pi, "gemini": gemini, "opencode": opencode, "copilot": copilot, "cline": cline, "qwen": qwen}
"""Writes a session of each program into a folder of its sessions; returns its path."""
