"""Tokens of agents: whoever has one is recorded into its tenant, from any machine, until it expires or is revoked."""

import http.client
import http.server
import json
import logging
import threading

import httpx
import pytest
from engine_fakes import Clock
from proxy_kit import KEY, Attached
from span_kit import as_protobuf, chat
from starlette.applications import Starlette

from memory_core import AccessError, ConfigError, Database, Memory, NotFoundError, Services, StoreError
from memory_core.access import Person, acting_as
from memory_core.engine.session import Session
from memory_core.sessions.overview import list_sessions
from memory_inspector.__main__ import main
from memory_inspector.recorder.receiving import Receiver
from memory_inspector.recorder.recording_proxy import UPSTREAM
from memory_inspector.recorder.span_receiver import PROTOBUF, SpanReceiver
from memory_inspector.upkeep.agents import new_token, revoke, seconds_of, tenant_of, tokens_of

ASKED = json.dumps({"model": "m", "messages": [{"role": "user", "content": "I like tea."}], "stream": True}).encode()
PIECE = b'data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Noted"}}]}\n\n'


class Doors:
    """The tokens of a database, at a time that is set."""

    def __init__(self, database, signed_in=False):
        self.database, self.signed_in, self.clock = database, signed_in, Clock()

    def required(self):
        return self.signed_in

    def tenant_of(self, token):
        return tenant_of(self.database, token, now=self.clock())


class Slow:
    """An endpoint that ends its streamed answer when it is let go."""

    def __init__(self):
        slow = self
        self.go_on, self.headers = threading.Event(), []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                slow.headers.append({name.lower(): value for name, value in self.headers.items()})
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                self.wfile.write(PIECE)
                self.wfile.flush()
                slow.go_on.wait(20)
                self.wfile.write(b"data: [DONE]\n\n")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()


@pytest.fixture
def doors(tmp_path):
    return Doors(Database.open(f"sqlite:///{tmp_path}/memory.db"))


@pytest.fixture
def acme(tmp_path, doors):
    return Database.open(f"sqlite:///{tmp_path}/memory.db", tenant="acme")


@pytest.fixture
def endpoint(monkeypatch):
    slow = Slow()
    monkeypatch.setenv(UPSTREAM, f"http://127.0.0.1:{slow.server.server_port}/v1")
    yield slow
    slow.go_on.set()
    slow.server.shutdown()
    slow.server.server_close()


@pytest.fixture
def attached(doors, acme):
    services = Services()

    def receiver(tenant):
        database = {"": doors.database, "acme": acme}[tenant]
        return Receiver(lambda: database, lambda id: Session(database, id, services=services))

    spans = SpanReceiver(Starlette(), receiver, tokens=doors)
    with Attached(doors.database, doors, {"acme": acme}, spans) as running:
        yield running


def post(attached, path, body, **headers):
    host, port = attached.socket.getsockname()
    return httpx.post(f"http://{host}:{port}{path}", content=body, headers=headers, timeout=30)


def sessions(database):
    return {status.session_id for status in list_sessions(database)}


def made(doors, **how):
    return new_token(doors.database, "agent", now=doors.clock(), **{"tenant": "acme", **how})


def test_a_token_is_stored_only_as_a_hash(doors, tmp_path):
    token = made(doors)
    assert token.startswith("mi_")
    assert len(token) == 46
    doors.database.forget_log()
    assert token.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob("memory.db*"))
    [kept] = tokens_of(doors.database)
    assert (kept.name, kept.tenant, token in repr(kept)) == ("agent", "acme", False)
    assert doors.tenant_of(token) == "acme"


def test_a_token_ends_when_it_expires_or_is_revoked(doors):
    token = made(doors, seconds=60)
    with pytest.raises(ConfigError, match="There is a token agent"):
        made(doors)
    doors.clock.pass_by(60)
    with pytest.raises(AccessError, match=r"^The token agent has expired\. Ask the owner of the app for a new one"):
        doors.tenant_of(token)
    second = made(doors)  # the name is free again
    revoke(doors.database, "agent", now=doors.clock())
    with pytest.raises(AccessError, match="was revoked"):
        doors.tenant_of(second)
    with pytest.raises(AccessError, match="unknown"):
        doors.tenant_of("mi_" + "x" * 43)
    with pytest.raises(NotFoundError, match="no token agent to revoke"):
        revoke(doors.database, "agent")


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a" * 81])
def test_a_tokens_name_is_checked(doors, name):
    with pytest.raises(ConfigError, match="1 to 80 characters"):
        new_token(doors.database, name)


def test_only_an_owner_makes_and_revokes_tokens(doors):
    made(doors)
    with acting_as(Person("ben", role="curator")):
        for refused in (lambda: new_token(doors.database, "more"), lambda: revoke(doors.database, "agent")):
            with pytest.raises(AccessError, match="needs the role owner"):
                refused()
    assert [token.revoked_at for token in tokens_of(doors.database)] == [None]


def test_durations_are_read():
    assert [seconds_of(text) for text in ("90d", "12h", "30m", "never")] == [7_776_000, 43_200, 1_800, None]
    for text in ("", "90", "0d", "-1d", "1w", "1.5h", "999999d"):
        with pytest.raises(ConfigError, match="is no duration"):
            seconds_of(text)


def test_the_proxy_records_into_the_tokens_tenant_and_passes_no_token_on(attached, doors, acme, endpoint, caplog):
    endpoint.go_on.set()
    token = made(doors)
    ways = [("/record/by-header/v1/chat/completions", {"X-Memory-Inspector-Token": token})]
    ways.append((f"/record/{token}/by-path/v1/chat/completions", {}))
    with caplog.at_level(logging.DEBUG):
        for path, headers in ways:  # under another host name, as from another machine
            answer = post(attached, path, ASKED, Host="memory.example.org", Authorization=f"Bearer {KEY}", **headers)
            assert answer.status_code == 200
        attached.settle()
    assert sessions(acme) == {"by-header", "by-path"}
    assert not sessions(doors.database)
    assert all(token not in str(headers) for headers in endpoint.headers)
    assert [headers["authorization"] for headers in endpoint.headers] == [f"Bearer {KEY}"] * 2
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("memory_")]
    assert token not in "".join(ours)


def test_spans_are_stored_in_the_tokens_tenant(attached, doors, acme):
    token = made(doors)
    body = as_protobuf(chat([("user", "I like tea.")], "Noted."))
    bearer = {"content-type": PROTOBUF, "Authorization": f"Bearer {token}", "Host": "memory.example.org"}
    assert post(attached, "/v1/traces", body, **bearer).status_code == 200
    assert post(attached, "/v1/traces", body, **{"content-type": PROTOBUF}).status_code == 200  # on this machine
    assert (sessions(acme), sessions(doors.database)) == ({"c1"}, {"c1"})


def test_a_stream_is_finished_when_its_token_expires_and_the_next_request_is_refused(attached, doors, acme, endpoint):
    token = made(doors, seconds=60)
    connection = http.client.HTTPConnection(*attached.socket.getsockname(), timeout=20)
    path, headers = "/record/agent/v1/chat/completions", {"X-Memory-Inspector-Token": token}
    connection.request("POST", path, ASKED, headers)
    answer = connection.getresponse()
    first = answer.read(len(PIECE))
    doors.clock.pass_by(61)
    endpoint.go_on.set()
    assert first + answer.read() == PIECE + b"data: [DONE]\n\n"
    connection.close()
    attached.settle()
    assert "Noted" in [message.content for message in Memory.open("agent", acme, services=Services()).get_all()]
    refused = post(attached, path, ASKED, **headers)
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert refused.json()["error"]["message"].startswith("The token agent has expired.")
    assert len(endpoint.headers) == 1


@pytest.mark.parametrize("path", ["/record/agent/v1/chat/completions", "/v1/traces"])
def test_where_people_sign_in_this_machine_needs_a_token_too(attached, doors, endpoint, path):
    doors.signed_in = True
    refused = post(attached, path, b"{}", **{"content-type": "application/json"})
    assert (refused.status_code, refused.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "Send a token: `memory-inspector token new` makes one." in refused.text
    assert not endpoint.headers


def test_a_page_in_a_browser_may_use_no_token(attached, doors):
    token = made(doors)
    for name in ("origin", "sec-fetch-site"):
        headers = {"X-Memory-Inspector-Token": token, name: "null"}
        assert post(attached, "/record/agent/v1/chat/completions", ASKED, **headers).status_code == 403


def test_while_the_database_does_not_answer_an_exporter_is_told_to_retry(attached, doors, monkeypatch):
    def down(token):
        raise StoreError("down")

    monkeypatch.setattr(doors, "tenant_of", down)
    headers = {"content-type": PROTOBUF, "Authorization": "Bearer mi_x"}
    answer = post(attached, "/v1/traces", b"", **headers)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


def test_another_receivers_bearer_is_not_taken_for_a_token(attached, doors):
    body = as_protobuf(chat([("user", "I like tea.")], "Noted."))
    headers = {"content-type": PROTOBUF, "Authorization": "Bearer of-another-backend"}
    assert post(attached, "/v1/traces", body, **headers).status_code == 200


def test_an_owner_makes_sees_and_revokes_tokens_of_their_own_tenant_only(doors):
    theirs = new_token(doors.database, "theirs", tenant="globex")
    with acting_as(Person("ana@acme.test", "Ana", "owner", "acme")):
        with pytest.raises(AccessError, match="Your tenant is acme, and this is another's"):
            new_token(doors.database, "ci", tenant="globex")
        new_token(doors.database, "ours", tenant="acme")
        assert [token.name for token in tokens_of(doors.database)] == ["ours"]
        with pytest.raises(NotFoundError):
            revoke(doors.database, "theirs")
        revoke(doors.database, "ours")
    assert tenant_of(doors.database, theirs) == "globex"


def test_the_command_makes_lists_and_revokes(tmp_path, capsys):
    file = tmp_path / "memory.db"
    Database.open(f"sqlite:///{file}").close()
    command = ["--database", str(file), "token"]
    assert main([*command, "new", "--name", "ci", "--tenant", "acme", "--expires", "1h"]) == 0
    token = capsys.readouterr().out.strip()
    assert tenant_of(Database.open(f"sqlite:///{file}"), token) == "acme"
    assert main([*command, "list"]) == 0
    listed = capsys.readouterr().out
    assert listed.startswith("ci\tacme\tuntil 2")
    assert token not in listed
    assert main([*command, "revoke", "--name", "ci"]) == 0
    assert main([*command, "new", "--name", "x", "--expires", "soon"]) == 2
    assert "soon is no duration" in capsys.readouterr().err


@pytest.mark.postgres
def test_on_postgresql_a_deleted_tenants_tokens_are_gone(url):
    root, acme = Database.open(url), Database.open(url, tenant="acme")
    token, other = new_token(root, "a", tenant="acme"), new_token(root, "b", tenant="globex")
    assert tenant_of(root, token) == "acme"
    acme.delete_tenant()
    with pytest.raises(AccessError, match="unknown"):
        tenant_of(root, token)
    assert tenant_of(root, other) == "globex"
