"""A model on loopback that follows the script of the conversations, in the form that each request asks for.

Its address is `/CONVERSATION/RUN/v1`: which script, and whose requests fail once together. What is learned never
depends on who asks: a statement is learned if its words are new to the request, and if what it needs is in sight.
"""

import json
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from conversations import CONVERSATIONS, Conversation, Message, Statement
from visit_model import listening

DIMENSIONS = 64
Request = dict[str, Any]


class Refusal(Exception):
    """The request fails, as the script says."""


class ScriptedModel:
    """One conversation's model, for one run."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.failed: set[str] = set()

    def answer(self, request: Request) -> Message:
        """Return the message that answers a request for a chat completion.

        Raises:
            Refusal: the script says that it fails.
        """
        return next(form for asks, form in _FORMS if asks(request))(self, request)

    def learned(self, new: str, seen: str) -> list[Statement]:
        """Return what is stated in `new`, and can be understood from all that is `seen`.

        Raises:
            Refusal: words are among it that fail the first time.
        """
        found = [statement for statement in self.conversation.statements if statement.words in new]
        for statement in found:
            if statement.fails and statement.words not in self.failed:
                self.failed.add(statement.words)
                raise Refusal
        return [statement for statement in found if statement.needs in seen]

    # -- the forms --------------------------------------------------------------------------------

    def our_facts(self, request: Request) -> Message:
        lines = re.findall(r"^\[(\d+)\] (.*(?:\n    .*)*)", _text(request), re.MULTILINE)
        new = {int(number): line for number, line in lines if not re.match(r"\w+ \(context\)", line)}
        facts = [
            {"text": one.fact, "message": next(number for number, line in new.items() if one.words in line)}
            for one in self.learned("\n".join(new.values()), _text(request))
        ]
        return _said(json.dumps({"facts": facts}))

    def our_decisions(self, request: Request) -> Message:
        known, found = _text(request).rpartition("<known>")[2].split("</known>")
        numbers = {text: int(number) for number, text in re.findall(r"^(\d+)\. (.*)$", known, re.MULTILINE)}
        decisions: list[dict[str, Any]] = []
        for number, text in re.findall(r"^(\d+)\. (.*) \(known: [\d, ]+\)$", found, re.MULTILINE):
            target = numbers.get(self._replaced_by(text))
            act = {"act": "add"} if target is None else {"act": "update", "known": target, "text": text}
            decisions.append({"found": int(number), **act})
        return _said(json.dumps({"decisions": decisions}))

    def our_summary(self, request: Request) -> Message:
        return _said(json.dumps({"summary": self._summary(request)}))

    def mem0_memories(self, request: Request) -> Message:
        seen = _text(request).partition("## Last k Messages")[2]
        new = seen.partition("## New Messages")[2].partition("## Observation Date")[0]
        memories = [{"text": one.fact, "attributed_to": "user"} for one in self.learned(new, seen)]
        return _said(json.dumps({"memory": memories}))

    def agno_tools(self, request: Request) -> Message:
        if request["messages"][-1]["role"] == "tool":
            return _said("The memories are up to date.")
        known = {text: id for id, text in re.findall(r"^ID: (.*)\nMemory: (.*)$", _text(request), re.MULTILINE)}
        new = "\n".join(_content(message) for message in request["messages"] if message["role"] == "user")
        calls: list[tuple[str, dict[str, Any]]] = []
        for one in self.learned(new, _text(request)):
            target = known.get(one.replaces)
            to = {} if target is None else {"memory_id": target}
            calls.append(("update_memory" if to else "add_memory", {**to, "memory": one.fact}))
        return _called(calls) if calls else _said("There is nothing to remember.")

    def mcp_tools(self, request: Request) -> Message:
        if request["messages"][-1]["role"] == "tool":
            return _said("It is noted.")
        calls: list[tuple[str, dict[str, Any]]] = []
        for one in self.learned(_content(request["messages"][-1]), _text(request)):
            names = [one.about, *([one.relation[1]] if one.relation else [])]
            entities = [{"name": name, "entityType": "thing", "observations": []} for name in names]
            calls.append(("create_entities", {"entities": entities}))
            if one.relation:
                relation = {"from": one.about, "relationType": one.relation[0], "to": one.relation[1]}
                calls.append(("create_relations", {"relations": [relation]}))
            if one.replaces:
                old = {"entityName": one.about, "observations": [one.replaces]}
                calls.append(("delete_observations", {"deletions": [old]}))
            observed = {"entityName": one.about, "contents": [one.fact]}
            calls.append(("add_observations", {"observations": [observed]}))
        return _called(calls) if calls else _said("There is nothing to note.")

    def llamaindex_facts(self, request: Request) -> Message:
        new = "\n".join(map(_content, request["messages"][:-1]))
        facts = "".join(f"<fact>{one.fact}</fact>" for one in self.learned(new, _text(request)))
        return _said(f"<facts>{facts}</facts>")

    def summary(self, request: Request) -> Message:
        return _said(self._summary(request))

    def reply(self, request: Request) -> Message:
        """Return the conversation's own next message, as the agent's model gives it."""
        texts = [message["content"] for message in self.conversation.messages]
        return self.conversation.messages[texts.index(_content(request["messages"][-1])) + 1]

    def _summary(self, request: Request) -> str:
        """Return the facts of what is to be summed up, with those of the summary so far, a sentence each."""
        text = _text(request)
        learned = {one.fact for one in self.learned(text, text)}
        kept = [one.fact for one in self.conversation.statements if one.fact in learned or one.fact in text]
        return " ".join(f"{fact.rstrip('.')}." for fact in dict.fromkeys(kept)) or "Nothing is known yet."

    def _replaced_by(self, fact: str) -> str:
        return next((one.replaces for one in self.conversation.statements if one.fact == fact), "")


def _content(message: Message) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def _text(request: Request) -> str:
    return "\n".join(map(_content, request["messages"]))


def _said(text: str) -> Message:
    return {"role": "assistant", "content": text}


def _called(calls: Sequence[tuple[str, dict[str, Any]]]) -> Message:
    made = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(calls)
    ]
    return {"role": "assistant", "content": None, "tool_calls": made}


def _offers(name: str) -> Callable[[Request], bool]:
    return lambda request: any(tool["function"]["name"] == name for tool in request.get("tools") or ())


def _wants(schema: str) -> Callable[[Request], bool]:
    return lambda request: (request.get("response_format") or {}).get("json_schema", {}).get("name") == schema


def _has(*marks: str) -> Callable[[Request], bool]:
    return lambda request: any(mark in _text(request) for mark in marks)


_FORMS: tuple[tuple[Callable[[Request], bool], Callable[[ScriptedModel, Request], Message]], ...] = (
    (_wants("Facts"), ScriptedModel.our_facts),
    (_wants("DecidedFacts"), ScriptedModel.our_decisions),
    (_wants("Summary"), ScriptedModel.our_summary),
    (_offers("add_memory"), ScriptedModel.agno_tools),
    (_offers("create_entities"), ScriptedModel.mcp_tools),
    (_has("## New Messages"), ScriptedModel.mem0_memories),
    (_has("<existing_facts>"), ScriptedModel.llamaindex_facts),
    (_has("Transcript so far", "<messages>"), ScriptedModel.summary),
    (lambda request: True, ScriptedModel.reply),
)
"""How a request is known, and what answers it; the first that fits."""


def embedded(text: str) -> list[float]:
    """Return a vector of a text by its words: what shares words is near."""
    vector = [0.001] * DIMENSIONS
    for word in re.findall(r"\w+", text.lower()):
        vector[zlib.crc32(word.encode()) % DIMENSIONS] += 1
    return vector


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    models: dict[str, ScriptedModel]
    lock: threading.Lock

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        number, run = self.path.split("/")[1:3]
        try:
            with self.lock:
                model = self.models.setdefault(f"{number}/{run}", ScriptedModel(CONVERSATIONS[int(number)]))
                body = _embeddings(request) if "input" in request else _completion(model.answer(request))
            self._send(200, body)
        except Refusal:
            self._send(503, {"error": {"message": "The script says that this request fails.", "type": "scripted"}})

    def _send(self, status: int, body: Any) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("x-should-retry", "false")  # one request is one attempt, whatever a client's default is
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


def _embeddings(request: Request) -> dict[str, Any]:
    texts = [request["input"]] if isinstance(request["input"], str) else request["input"]
    data = [{"object": "embedding", "index": index, "embedding": embedded(text)} for index, text in enumerate(texts)]
    return {"object": "list", "model": "m", "data": data, "usage": {"prompt_tokens": 1, "total_tokens": 1}}


def _completion(message: Message) -> dict[str, Any]:
    finish = "tool_calls" if message.get("tool_calls") else "stop"
    usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
    choice = {"index": 0, "finish_reason": finish, "message": message}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}


@contextmanager
def serving() -> Iterator[str]:
    """Serve the model; its address, to which a conversation's number and a run's name are appended."""
    with listening(_Handler, models={}, lock=threading.Lock()) as url:
        yield url
