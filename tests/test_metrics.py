"""`/metrics` on a real loopback server: what agents did and what waits, in Prometheus' format."""

import socket
import threading
import time
import urllib.error
import urllib.request

import httpx
import pytest
import uvicorn
from engine_fakes import NoteExtractor, blocks, note, on_file, open_memory
from prometheus_client.parser import text_string_to_metric_families
from starlette.applications import Starlette

from memory_core import Database, Memory, MessageError, Services
from memory_inspector.server.metrics import PATH, STREAMLITS_PATH, Metrics
from memory_inspector.upkeep.agents import new_token, tenant_of


class FailingExtractor(NoteExtractor):
    def extract(self, *_, **__):
        raise RuntimeError("the model is away")


@pytest.fixture
def serve():
    """Return a function that serves the metrics of a database's tenants and returns the address."""
    servers = []

    def started(url, tokens=None):
        def databases():
            with Database.open(url) as root:
                names = root.tenants()
            for name in names:
                yield Database.open(url, tenant=name)

        port = socket.socket()
        port.bind(("127.0.0.1", 0))
        app = Metrics(Starlette(), databases, tokens=tokens)
        server = uvicorn.Server(uvicorn.Config(app, interface="asgi3", log_config=None, lifespan="off", loop="asyncio"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [port]}, daemon=True)
        thread.start()
        servers.append((server, thread, port))
        while not server.started:
            time.sleep(0.01)
        return f"http://127.0.0.1:{port.getsockname()[1]}{PATH}"

    yield started
    for server, thread, port in servers:
        server.should_exit = True
        thread.join(10)
        port.close()


def scraped(address, tenant="", **headers):
    """Return the values of a tenant by name; those of a quantile or kind of event under `name:quantile`."""
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        ":".join([sample.name.removeprefix("memory_inspector_"), *sorted(set(sample.labels.values()) - {tenant})]): (
            sample.value
        )
        for family in families
        for sample in family.samples
        if sample.labels["tenant"] == tenant
    }


@pytest.mark.slow
def test_what_other_processes_do_is_counted_from_the_first_request_on(tmp_path, serve):
    url = on_file(tmp_path)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    address = serve(url)
    first = scraped(address)
    assert first["sessions"] == 1
    assert not [name for name in first if name.startswith("events_total")]
    for number in range(1, 13):
        memory.put(note(number))
    memory.build_context("What was note 3?")
    second = scraped(address)
    assert (second["events_total:message_added"], second["events_total:context_built"]) == (12, 1)
    assert (second["deliveries_waiting"], second["learning_lag_seconds"]) == (0, 0)
    assert 0 <= second["learning_seconds:0.5"] <= second["learning_seconds:0.95"]
    assert scraped(address) == second  # nothing happened in between


def test_durations_are_those_of_this_process_since_the_first_request(tmp_path, serve):
    url = on_file(tmp_path)
    memory = open_memory(database_uri=url, memory_blocks=blocks())
    memory.put(note(0))
    address = serve(url)
    assert not [name for name in scraped(address) if name.startswith("operation_seconds")]
    memory.put(note(1))
    memory.put_messages([note(2), note(3)])
    memory.build_context("What was note 3?")
    memory.build_context("What was note 3?", record=False)  # a look, which is not counted
    with pytest.raises(MessageError):
        memory.put_messages([note(4)], message_ids=["a", "b"])
    figures = scraped(address)
    assert (figures["operation_seconds_count:put"], figures["operation_seconds_count:context"]) == (2, 1)
    assert figures["operation_seconds_sum:put"] > 0
    assert figures["operation_seconds_bucket:+Inf:put"] == 2


def test_what_is_not_learned_waits_and_gets_older(tmp_path, serve):
    url = on_file(tmp_path)
    memory = Memory.from_defaults(
        "s",
        database_uri=url,
        memory_blocks=blocks(FailingExtractor()),
        token_limit=40,
        token_flush_size=14,
        tokenizer_fn=str.split,
        services=Services(),
        clock=lambda: time.time() - 3_600,  # an hour ago
    )
    for number in range(12):
        memory.put(note(number))
    load = scraped(serve(url))
    assert load["deliveries_waiting"] >= 1
    assert load["learning_lag_seconds"] >= 3_600


def test_tenants_have_figures_of_their_own(tmp_path, serve):
    url = on_file(tmp_path)
    for tenant, sessions in (("", 1), ("acme", 2)):
        for number in range(sessions):
            Memory.from_defaults(f"s{number}", database_uri=url, tenant=tenant).session.database.close()
    address = serve(url)
    assert (scraped(address)["sessions"], scraped(address, "acme")["sessions"]) == (1, 2)


def test_a_page_in_a_browser_and_any_host_name_but_this_machines_are_refused(tmp_path, serve):
    open_memory(database_uri=on_file(tmp_path))
    address = serve(on_file(tmp_path))
    for header, value in (("Host", "evil.example"), ("Origin", "http://evil.example")):
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(address, headers={header: value}))
        assert refused.value.code == 403
        refused.value.close()


def test_a_database_that_is_away_is_one_status(tmp_path, serve):
    url = on_file(tmp_path)
    open_memory(database_uri=url).session.database.close()
    address = serve("postgresql://ana@127.0.0.1:1/none?connect_timeout=1")
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(address)
    assert refused.value.code == 503
    refused.value.close()


class TeamTokens:
    """The tokens of an app that people sign in to."""

    def __init__(self, database):
        self.database = database

    def required(self):
        return True

    def tenant_of(self, token):
        return tenant_of(self.database, token)


def status(address, **headers):
    return httpx.get(address, headers=headers).status_code


@pytest.mark.slow
def test_while_people_sign_in_a_token_gets_its_own_tenants_figures(tmp_path, serve):
    url = on_file(tmp_path)
    for tenant in ("", "acme", "globex"):
        Memory.from_defaults("s", database_uri=url, tenant=tenant, services=Services()).put(note(1))
    root = Database.open(url)
    address = serve(url, TeamTokens(root))
    # As a reverse proxy on this machine passes on what a visitor asked for.
    assert status(address) == 401
    assert status(address, Host="127.0.0.1") == 401
    assert status(address, Authorization="Bearer mi_unknown") == 401
    assert status(address.replace(PATH, STREAMLITS_PATH)) == 403
    token = {"Authorization": f"Bearer {new_token(root, 'prometheus', tenant='acme')}"}
    assert status(address.replace(PATH, STREAMLITS_PATH), **token) == 403
    scraped(address, "acme", **token)
    for tenant in ("acme", "globex"):
        Memory.from_defaults("s2", database_uri=url, tenant=tenant, services=Services()).put(note(1))
    assert scraped(address, "acme", **token)["sessions"] == 2
    assert any(name.startswith("operation_seconds") for name in scraped(address, "acme", **token))
    assert scraped(address, "globex", **token) == scraped(address, "", **token) == {}


def test_a_tenant_that_was_made_again_is_counted_from_its_beginning(tmp_path, serve):
    url = on_file(tmp_path)
    with Memory.from_defaults("s", database_uri=url, tenant="acme", services=Services()) as memory:
        memory.put_messages([note(number) for number in range(20)])
    address = serve(url)
    scraped(address, "acme")
    Database.open(url, tenant="acme").delete_tenant()
    again = Memory.from_defaults("s", database_uri=url, tenant="acme", services=Services())
    scraped(address, "acme")
    again.put(note(1))
    assert scraped(address, "acme")["events_total:message_added"] == 1
