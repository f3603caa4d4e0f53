"""Tenants with equal ids that use one server through all of its doors, and return everything that they then see."""

import asyncio
import contextlib
import http.client
import http.server
import io
import json
import re
import threading
import zipfile

import mcp
import psycopg
import pytest
from engine_fakes import HashEmbedder, NoteExtractor, note, number_of, user
from proxy_kit import KEY, Attached
from span_kit import JSON, PROTOBUF, _value, as_protobuf, chat
from span_kit import memory as memory_span
from starlette.applications import Starlette
from streamlit.runtime.pages_manager import PagesManager

from memory_core.access import Person, look_up_people
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.bundles.bundle import import_bundle, read_bundle, write_bundle
from memory_core.engine.session import Session
from memory_core.memory import Memory
from memory_core.models.protocols import ExtractedFact, Extraction, FoundRelation, ModelCall, RelationsFound
from memory_core.services import Services
from memory_core.sessions.forgetting import forget_user
from memory_core.sessions.overview import delete_session, list_sessions, overview
from memory_core.store.database import Database
from memory_core.store.tenants import PROTECTED
from memory_core.systems.knowledge_graph import KnowledgeGraph
from memory_inspector.adapters.graph_tools import RESOURCE, GraphTools
from memory_inspector.adapters.mcp_server import InspectingTools, graph_server, inspecting_server
from memory_inspector.reading.event_rows import remembered
from memory_inspector.recorder.receiving import Receiver
from memory_inspector.recorder.recording_proxy import UPSTREAM
from memory_inspector.recorder.span_receiver import SpanReceiver
from memory_inspector.server.metrics import PATH, Metrics
from memory_inspector.upkeep.agents import new_token, tenant_of
from memory_inspector.wording.prompt_text import as_text

WORDS = {"acme": "heron", "globex": "otter", "initech": "badger"}
"""A word by tenant that only its own texts hold. Ids of sessions, users, messages and spans are the same in all."""


class Words(NoteExtractor):
    """Learns one fact and one relation a message, of its number and its last word."""

    def extract(self, messages, *, known):
        facts = [
            ExtractedFact(f"note {number_of(message.content)} was {message.content.split()[-1]}", source=index)
            for index, message in enumerate(messages)
            if message.role == "user"
        ]
        return Extraction(tuple(facts), (ModelCall("extract", self.name, 10, 2, 0.0),))

    def relations(self, messages, *, known):
        found = [
            FoundRelation(f"Note {number_of(message.content)}", "names", message.content.split()[-1], source=index)
            for index, message in enumerate(messages)
            if message.role == "user"
        ]
        return RelationsFound(tuple(found))


SERVICES = Services(embedder=HashEmbedder(), extractor=Words())
"""Server process of all tenants: what it keeps of a session must not be taken for another tenant's."""

MOST_MESSAGES, MOST_CALLS = 12, 6
"""Messages and recorded calls after which a session is deleted, so that an operation stays cheap."""

PAGES = ("blocks", "context", "facts", "graph", "retrieval", "sessions", "timeline", "trace")


def opened(session, database):
    return Memory.from_defaults(
        session,
        database=database,
        services=SERVICES,
        tokenizer_fn=str.split,
        token_limit=60,
        token_flush_size=28,
        memory_blocks=[
            FactExtractionMemoryBlock(name="facts", llm=Words(), max_facts=1_000_000),
            VectorMemoryBlock(name="turns", embed_model=HashEmbedder(), scope="user"),
            GraphMemoryBlock(name="graph", llm=Words()),
        ],
        user_id="ana",
    )


def filled(database, word):
    memory = opened("s", database)
    for number in range(8):
        memory.put(user(f"{note(number).content} {word}"))
    return memory


def counts(url, tenant):
    """Rows by table, read as the tenant, past this package."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT set_config('memory.tenant', %s, false)", [tenant])
        return {
            table.name: connection.execute(f"SELECT count(*) FROM {table.name}").fetchone()[0] for table in PROTECTED
        }


class Echo(http.server.BaseHTTPRequestHandler):
    """An endpoint that answers with the last message."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        message = {"role": "assistant", "content": f"Noted: {asked['messages'][-1]['content']}"}
        body = json.dumps({"id": "1", "model": "m", "choices": [{"index": 0, "message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Doors(contextlib.ExitStack):
    """One server for all tenants: recording proxy, span receiver and metrics on a port, and the app's pages."""

    def __init__(self, url, home):
        super().__init__()
        self.url, self.default = url, Database.open(url)
        self.tokens = {name: new_token(self.default, name, tenant=name) for name in WORDS}
        self.patch = self.enter_context(pytest.MonkeyPatch.context())
        endpoint = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Echo)
        endpoint.daemon_threads = True
        threading.Thread(target=endpoint.serve_forever, args=(0.02,), daemon=True).start()
        self.callback(endpoint.server_close)
        self.callback(endpoint.shutdown)
        self.patch.setenv(UPSTREAM, f"http://127.0.0.1:{endpoint.server_port}/v1")
        self.databases = {name: Database.open(url, tenant=name) for name in WORDS}
        spans = SpanReceiver(Metrics(Starlette(), self._opened), self._receiver, tokens=self)
        self.attached = self.enter_context(Attached(self.default, self, self.databases, spans))
        self._set_up_pages(home)

    def required(self):
        return True

    def tenant_of(self, token):
        return tenant_of(self.default, token)

    def _opened(self):
        for name in WORDS:
            yield Database.open(self.url, tenant=name)

    def _receiver(self, tenant):
        database = self.databases[tenant]
        return Receiver(lambda: database, lambda id: Session(database, id, services=SERVICES))

    def ask(self, method, path, body=None, **headers):
        """Return the answer to a request as text; it must succeed."""
        with contextlib.closing(http.client.HTTPConnection(*self.attached.socket.getsockname(), timeout=60)) as server:
            server.request(method, path, body, {name.replace("_", "-"): text for name, text in headers.items()})
            answer = server.getresponse()
            text = answer.read().decode("utf-8", "replace")
            assert answer.status == 200, text
            return text

    def _set_up_pages(self, home):
        from ui.tab import people, services

        self.patch.setenv("MEMORY_INSPECTOR_HOME", str(home))
        self.patch.setenv("MEMORY_INSPECTOR_DATABASE_URL", self.url)
        self.patch.delenv("MEMORY_INSPECTOR_CHROMA_URL", raising=False)
        self.patch.setattr("memory_inspector.server.engine.Services", lambda index=None: SERVICES)
        self.patch.setattr("ui.sessions.health.keep_loaded", lambda: None)
        begin = PagesManager.__init__

        def begin_again(manager, *given, **named):  # see tests/pages/conftest.py
            PagesManager.uses_pages_directory = False
            begin(manager, *given, **named)

        self.patch.setattr(PagesManager, "__init__", begin_again)
        self.callback(look_up_people, people.visitor)
        self.callback(services.engine_of.clear)

    def page(self, tenant, page, session):
        """Return everything that a page of the app shows to an owner of a tenant."""
        from pages_driver import opened as open_page

        look_up_people(lambda: Person("ana@example.org", "Ana", "owner", tenant))
        try:
            app = open_page(page=page, session=session)
        finally:
            look_up_people(lambda: None)
        assert not app.exception, app.exception
        return " ".join(str(element.proto) for block in (app.main, app.sidebar) for element in block)


class Tenant:
    """A tenant that does random things and returns everything that it then sees."""

    def __init__(self, doors, name):
        self.doors, self.name, self.word, self.token = doors, name, WORDS[name], doors.tokens[name]
        self.database = doors.databases[name]
        self.seen = dict.fromkeys(STEPS, 0)
        """By operation, how often it showed the own word."""
        self.calls = dict.fromkeys(("agent", "c1", "kg", *(f"shop {trace:08x}" for trace in (1, 2, 3))), 0)
        """Calls recorded, by session."""
        self.generation = self.spans_sent = 0
        self._begin()

    def _begin(self):
        self.generation += 1
        self.messages = {f"s1-{self.generation}": 0, f"s2-{self.generation}": 0}
        """Messages put, by session."""
        self.open = {}

    def step(self, random, name=None):
        name = name or random.choices([*STEPS], STEPS.values())[0]
        text = str(getattr(self, name)(random.choice([*self.messages]), random)).lower()
        self.seen[name] += self.word in text
        return text

    def memory(self, session):
        if session not in self.open:
            self.open[session] = opened(session, self.database)
        return self.open[session]

    def put(self, session, random):
        memory = self.memory(session)
        memory.put(user(f"{note(random.randrange(50)).content} {self.word}"))
        self.messages[session] += 1
        seen = memory.get_all()
        if self.messages[session] == MOST_MESSAGES:
            self.delete(session, random)
        return seen

    def reopen(self, session, _):
        self.open.pop(session, None)
        return self.memory(session).get_all()

    def messages_of(self, session, _):
        return self.memory(session).get_all()

    def prompt(self, session, random):
        memory = self.memory(session)
        context = memory.build_context(f"What was note {random.randrange(50)}?")
        return context, self._last_prompt(memory)

    def _last_prompt(self, memory):
        """The last recorded prompt, as the app exports it."""
        turns = memory.log.history().turns.values()
        built = [turn.built for turn in turns if turn.built is not None]
        return as_text(memory.log.prompt(built[-1])) if built else ""

    def facts(self, session, _):
        return self.memory(session).facts.read("facts", states=None)

    def graph(self, session, _):
        desk = self.memory(session).blocks.graph("graph")
        return desk.graph(), desk.relations()

    def search(self, session, random):
        question = f"note {random.randrange(50)} {' '.join(WORDS.values())}"
        return str(self.memory(session).retrieval.search(question)).replace(question, "")

    def find(self, session, random):
        question = f"note {random.randrange(50)} {' '.join(WORDS.values())}"
        return str(self.memory(session).facts.search(question)).replace(question, "")

    def timeline(self, session, _):
        """Return the words of the Timeline page for every event."""
        memory = self.memory(session)
        history, timeline = memory.log.history(), remembered(memory)
        return timeline.lines(history.records, memory)

    def bundle(self, session, _):
        self.memory(session)
        with zipfile.ZipFile(io.BytesIO(write_bundle(self.database, session))) as archive:
            return [archive.read(name).decode() for name in archive.namelist()]

    def list(self, *_):
        listed = list_sessions(self.database)
        counted = {status.session_id: status.queue_messages + status.archived_messages for status in listed}
        assert {id: counted.get(id, 0) for id in self.messages} == self.messages, f"{self.name} counts others' messages"
        return listed

    def overview(self, *_):
        return overview(self.database)

    def metrics(self, *_):
        text = self.doors.ask("GET", PATH)
        counted = re.search(rf'^memory_inspector_sessions{{tenant="{self.name}"}} (\d+)', text, re.MULTILINE)
        assert int(counted[1]) == len(list_sessions(self.database)), f"{self.name} counts others' sessions"
        return text

    # -- agents ------------------------------------------------------------------------------------

    def proxy(self, _, random):
        """Call a model through the recording proxy, with the token in a header or in the path."""
        asked = {"model": "m", "messages": [{"role": "user", "content": f"{note(random.randrange(50)).content}"}]}
        asked["messages"][0]["content"] += f" {self.word}"
        in_path = random.random() < 0.5
        path = f"/record/{self.token}/agent" if in_path else "/record/agent"
        headers = {} if in_path else {"X_Memory_Inspector_Token": self.token}
        answer = self.doors.ask(
            "POST", f"{path}/v1/chat/completions", json.dumps(asked), Authorization=f"Bearer {KEY}", **headers
        )
        self.doors.attached.settle()
        return answer, self._recorded("agent")

    def spans(self, _, random):
        """Send a call and an operation of a memory as spans, at times with their words ahead in log records."""
        self.spans_sent += 1
        number, logged = self.spans_sent, random.random() < 0.3
        conversation = random.choice(["c1", None])
        words, ids = f"{note(number % 50).content} {self.word}", {"trace": number % 3 + 1, "id": 2 * number}
        span = chat(None if logged else [("user", words)], None, conversation=conversation, began=number, **ids)
        bearer = {"Authorization": f"Bearer {self.token}"}
        if logged:
            record = {"traceId": span["traceId"], "spanId": span["spanId"], "eventName": "gen_ai.user.message"}
            records = [{**record, "attributes": [], "body": _value({"content": words})}]
            logs = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]})
            self.doors.ask("POST", "/v1/logs", logs, content_type=JSON, **bearer)
        spans = [span]
        if conversation is not None:
            found = memory_span(
                "search_memory",
                conversation=conversation,
                query=words,
                records=[("1", f"a record of {self.word}")],
                trace=ids["trace"],
                id=2 * number + 1,
                began=number,
            )
            spans.append(found)
        answer = self.doors.ask("POST", "/v1/traces", as_protobuf(*spans), content_type=PROTOBUF, **bearer)
        return answer, self._recorded(conversation or f"shop {ids['trace']:08x}")

    def _recorded(self, session):
        """Return messages, Timeline and last prompt of a recorded session, which is deleted after some calls."""
        if session not in {status.session_id for status in list_sessions(self.database)}:
            return ""  # it was deleted, and its receiver notices with the first request after that
        memory = Memory.open(session, self.database, services=SERVICES)
        history = memory.log.history()
        timeline = remembered(memory)
        seen = memory.get_all(), timeline.lines(history.records, memory), self._last_prompt(memory)
        self._count_call(session)
        return seen

    def _count_call(self, session):
        self.calls[session] += 1
        if self.calls[session] == MOST_CALLS:
            self._delete(session)
            self.calls[session] = 0

    # -- MCP ---------------------------------------------------------------------------------------

    def mcp(self, session, random):
        """Ask the inspector's tools, as the server of MCP calls them."""
        self.memory(session)
        tool, arguments = random.choice(
            [
                ("list_sessions", {}),
                ("search_facts", {"query": "note", "session": session}),
                ("why", {"phrase": f"is here {self.word}", "session": session}),
                ("trace", {"phrase": f"is here {self.word}", "session": session}),
            ]
        )
        return InspectingTools(self.database, SERVICES).call(tool, arguments)

    def mcp_client(self, session, random):
        """Ask through a client of MCP: the inspector's tools, and the memory server's."""
        self.memory(session)
        graph = KnowledgeGraph("kg", database=self.database, services=SERVICES)
        entity = {"name": f"note {random.randrange(50)}", "entityType": "note", "observations": [f"a {self.word}"]}

        async def asked():
            async with mcp.Client(inspecting_server(InspectingTools(self.database, SERVICES))) as client:
                listed = await client.call_tool("search_facts", {"query": "note", "session": session})
            async with mcp.Client(graph_server(GraphTools(graph))) as client:
                await client.call_tool("create_entities", {"entities": [entity]})
                return listed, await client.call_tool("read_graph", {}), await client.read_resource(RESOURCE)

        seen = asyncio.run(asked())
        self._count_call("kg")
        return seen

    # -- pages -------------------------------------------------------------------------------------

    def page(self, session, random):
        self.memory(session)
        return self.doors.page(self.name, random.choice(PAGES), session)

    # -- rarely ------------------------------------------------------------------------------------

    def delete(self, session, _):
        self.memory(session)
        self._delete(session)
        self.messages[session] = 0
        self.open.pop(session, None)
        return ""

    def _delete(self, session):
        delete_session(self.database, session, reusable=True, index=SERVICES.index_of(self.database))

    def forget(self, session, _):
        self.memory(session)
        forget_user(self.database, "ana", index=SERVICES.index_of(self.database))
        self._begin()  # with other ids: a forgotten session's is not free
        return ""

    def branch(self, session, _):
        memory = self.memory(session)
        bundle = read_bundle(write_bundle(self.database, session), "s.zip")
        self.messages[import_bundle(self.database, bundle)] = self.messages[session]
        return memory.get_all()


STEPS = {
    "put": 90,
    "messages_of": 200,
    "facts": 200,
    "graph": 40,
    "list": 250,
    "overview": 10,
    "reopen": 10,
    "timeline": 20,
    "prompt": 6,
    "search": 6,
    "find": 8,
    "metrics": 3,
    "proxy": 18,
    "spans": 18,
    "mcp": 8,
    "mcp_client": 1,
    "bundle": 2,
    "delete": 2,
    "forget": 1,
    "branch": 1,
    "page": 0.4,
}
"""Weight of each operation: those that take long are rarer."""

SILENT = {"delete", "forget", "list", "overview", "metrics"}
"""Operations that show no words."""
