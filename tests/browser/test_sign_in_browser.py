"""People sign in at a real OpenID Connect server: they see their tenant, and their role decides what they change."""

import re
import sqlite3

import httpx
import pytest
from app_server import AppServer, eventually, healthy, idle, running
from engine_fakes import note
from playwright.sync_api import expect
from sign_in_kit import person, sign_in_server, write_secrets

from memory_core import Database, Memory, Services, list_sessions
from memory_core.store.tenants import sqlite_file

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*(deprecated|JWT|jwt):DeprecationWarning"),  # of the sign-in server's packages
]

PEOPLE = (
    person("Ana", "acme", "owner"),
    person("Vera", "acme", "viewer"),
    person("Ben", "acme", None),
    person("Gus", "globex", "owner"),
    person("Nora", "nowhere", "owner", org=None),
)
BEN = '[memory_inspector.people."ben@acme.test"]\nrole = "{role}"\n'


class Team:
    """The app with its sign-in, and a browser for each person."""

    def __init__(self, server, browser, port):
        self.server, self.browser, self.port = server, browser, port

    def configure(self, role, more=""):
        write_secrets(self.server.home, self.server.url, self.port, more + BEN.format(role=role))

    def visit(self, path="/"):
        tab = self.browser.new_context().new_page()
        tab.goto(f"{self.server.url}{path}")
        return tab

    def sign_in(self, email):
        tab = self.visit()
        tab.get_by_role("button", name="Sign in").click()
        tab.get_by_role("button", name=email).click()
        tab.wait_for_url(f"{self.server.url}/**")
        return tab

    def database(self, tenant):
        url = self.server.environment.get("MEMORY_INSPECTOR_DATABASE_URL") or self.server.database_url
        database = Database.open(url, tenant=tenant)
        database.for_agents = False
        return database

    def session(self, tenant, id):
        memory = Memory.from_defaults(id, database=self.database(tenant), services=Services())
        memory.put(note(1))
        return memory


def team_on(home, chromium, **environment):
    with sign_in_server(*PEOPLE) as port:
        server = AppServer("serve.py", home, **environment)
        server.environment["STREAMLIT_SECRETS_FILES"] = str(home / "secrets.toml")
        team = Team(server, chromium, port)
        team.configure("curator")
        for _ in running(server):
            yield team


@pytest.fixture(scope="module")
def team(tmp_path_factory, chromium):
    yield from team_on(tmp_path_factory.mktemp("team"), chromium)


@pytest.fixture(autouse=True)
def closed_tabs(chromium):
    """Close each test's tabs: pages that are left open follow their sessions, and take the machine from later tests."""
    yield
    for context in chromium.contexts:
        context.close()


@pytest.fixture
def team_on_postgresql(tmp_path, chromium, url):
    yield from team_on(tmp_path, chromium, MEMORY_INSPECTOR_DATABASE_URL=url)


def write(tab, words, sent=True):
    field = tab.get_by_test_id("stChatInputTextArea")
    expect(field).to_be_enabled()
    field.fill(words)
    if sent:
        field.press("Enter")


def messages(team, tenant, session="demo"):
    return [m.content for m in Memory.open(session, team.database(tenant), services=Services()).get_all()]


def two_tenants(team):
    """Two people write in sessions of the same id, and delete others of the same id, at once."""
    for tenant in ("acme", "globex"):
        team.session(tenant, "doomed")
    ana, gus = team.sign_in("ana@acme.test"), team.sign_in("gus@globex.test")
    for tab, words in ((ana, "The heron is ours."), (gus, "The otter is ours.")):
        write(tab, words)
    for tenant, words, other in (("acme", "The heron is ours.", "otter"), ("globex", "The otter is ours.", "heron")):
        eventually(lambda tenant=tenant, words=words: words in messages(team, tenant))
        assert other not in str(messages(team, tenant))
    expect(ana.get_by_text("The heron is ours.").first).to_be_visible()
    assert ana.get_by_text("otter").count() == 0
    assert gus.get_by_text("heron").count() == 0
    ana.goto(f"{team.server.url}/chat?session=doomed")
    idle(ana)
    ana.get_by_text("More", exact=True).click()
    ana.get_by_role("menuitem", name="Delete").click()
    ana.get_by_role("dialog").get_by_role("button", name=re.compile("Delete")).click()
    eventually(lambda: "doomed" not in {status.session_id for status in list_sessions(team.database("acme"))})
    assert "doomed" in {status.session_id for status in list_sessions(team.database("globex"))}
    healthy(ana)
    healthy(gus)
    events = Memory.open("demo", team.database("acme"), services=Services()).events(kinds=["message_added"])
    assert "Ana <ana@acme.test>" in {event.person for event in events}


def test_two_tenants_with_a_file_each_see_change_and_delete_at_once(team):
    two_tenants(team)


@pytest.mark.postgres
def test_two_tenants_on_one_postgresql_see_change_and_delete_at_once(team_on_postgresql):
    two_tenants(team_on_postgresql)


@pytest.mark.parametrize("path", ["/", "/chat?session=demo", "/timeline", "/sessions", "/lab"])
def test_nobody_sees_a_page_before_they_sign_in(team, path):
    tab = team.visit(path)
    expect(tab.get_by_role("button", name="Sign in")).to_be_visible()
    assert tab.get_by_test_id("stSidebar").count() == 0
    assert tab.get_by_text("Birthday dinner").count() == 0


def test_a_person_without_a_tenant_is_told_so_and_sees_nothing(team):
    tab = team.sign_in("nora@nowhere.test")
    expect(tab.get_by_text("but belong to no tenant here. Ask whoever runs this app.")).to_be_visible()
    assert tab.get_by_test_id("stSidebar").count() == 0
    assert "nowhere" not in team.database("").tenants()


def test_a_viewer_reads_and_cannot_change_anything(team):
    team.session("acme", "seen")
    vera = team.sign_in("vera@acme.test")
    expect(vera.get_by_test_id("stSidebar").get_by_text("Vera · viewer · acme")).to_be_visible()
    idle(vera)
    file = sqlite_file(Database.open(team.server.database_url).engine.url, "acme").database
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        before = list(connection.iterdump())
    for page in ("chat", "context", "timeline", "blocks", "facts", "trace", "retrieval", "lab", "sessions"):
        vera.goto(f"{team.server.url}/{page}?session=seen")
        idle(vera)
        healthy(vera)
        if page != "sessions":
            expect(vera.get_by_role("button", name="Settings")).to_be_disabled()
    vera.goto(f"{team.server.url}/chat?session=seen")
    idle(vera)
    expect(vera.get_by_test_id("stChatInputTextArea")).to_be_disabled()
    expect(vera.get_by_role("button", name="New", exact=True)).to_be_disabled()
    vera.get_by_text("More", exact=True).click()
    assert vera.get_by_role("menuitem").all_inner_texts() == ["Export", "Keys"]
    with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as connection:
        assert list(connection.iterdump()) == before
    connection.close()


def test_a_role_that_changes_while_a_page_is_open_applies_to_the_next_click(team):
    team.session("acme", "shared")
    ben = team.sign_in("ben@acme.test")
    ben.goto(f"{team.server.url}/chat?session=shared")
    write(ben, "As a curator.")
    eventually(lambda: "As a curator." in messages(team, "acme", "shared"))
    expect(ben.get_by_text("I only answer questions, from memory.")).to_be_visible()
    idle(ben)
    field = ben.get_by_test_id("stChatInputTextArea")
    field.fill("As a viewer.")
    team.configure("viewer")
    try:
        field.press("Enter")
        refusal = "Only for the role curator: yours is viewer. This was not sent: As a viewer."
        expect(ben.get_by_text(refusal)).to_be_visible()
        healthy(ben)
        assert "As a viewer." not in messages(team, "acme", "shared")
    finally:
        team.configure("curator")


def test_a_role_that_changes_at_the_sign_in_server_applies_to_an_open_page(team):
    vera = team.sign_in("vera@acme.test")
    expect(vera.get_by_role("button", name="New", exact=True)).to_be_disabled()
    team.configure("curator", "recheck_minutes = 0.01\n")
    account = f"http://localhost:{team.port}/users/vera@acme.test"
    try:
        claims = {"name": "Vera", "email": "vera@acme.test", "email_verified": True, "org": "acme", "role": "curator"}
        httpx.put(account, json=claims).raise_for_status()
        vera.wait_for_timeout(1_000)  # longer than recheck_minutes
        vera.get_by_role("link", name="Timeline").click()
        expect(vera.get_by_test_id("stSidebar").get_by_text("Vera · curator · acme")).to_be_visible()
        expect(vera.get_by_role("button", name="New", exact=True)).to_be_enabled()
        httpx.post(f"{account}/revoke-tokens").raise_for_status()
        vera.wait_for_timeout(1_000)
        vera.goto(f"{team.server.url}/blocks?session=demo")
        expect(vera.get_by_text("Your sign-in has ended at the sign-in server.")).to_be_visible()
        assert vera.get_by_test_id("stSidebar").count() == 0
        vera.get_by_role("button", name="Sign in again").click()
        vera.get_by_role("button", name="vera@acme.test").click()
        expect(vera.get_by_test_id("stSidebar").get_by_text("Vera · curator · acme")).to_be_visible()
        healthy(vera)
    finally:
        httpx.put(account, json=claims | {"role": "viewer"}).raise_for_status()
        team.configure("curator")


def test_who_signs_out_sees_nothing_more(team):
    tab = team.sign_in("ana@acme.test")
    tab.get_by_role("button", name="Sign out").click()
    tab.wait_for_url(f"http://localhost:{team.port}/**")
    tab.goto(f"{team.server.url}/chat?session=demo")
    expect(tab.get_by_role("button", name="Sign in")).to_be_visible()


def test_who_signs_out_in_one_tab_reads_and_writes_in_none(team):
    team.session("acme", "quiet")
    first = team.sign_in("ana@acme.test")
    idle(first)
    second = first.context.new_page()
    second.goto(f"{team.server.url}/chat?session=quiet")
    idle(second)
    field = second.get_by_test_id("stChatInputTextArea")
    field.fill("Written after the sign-out.")
    first.get_by_role("button", name="Sign out").click()
    first.wait_for_url(f"http://localhost:{team.port}/**")
    # Where the page has noticed by itself, the field is gone.
    second.keyboard.press("Enter")
    expect(second.get_by_text("You signed out. Sign in again.")).to_be_visible()
    # A sidebar that was open stays, with nothing in it.
    expect(second.get_by_text("Ana · owner · acme")).to_have_count(0)
    assert second.get_by_text(note(1).content).count() == 0
    healthy(second)
    assert "Written after the sign-out." not in messages(team, "acme", "quiet")
    second.get_by_role("button", name="Sign in again").click()
    second.get_by_role("button", name="ana@acme.test").click()
    expect(second.get_by_test_id("stSidebar").get_by_text("Ana · owner · acme")).to_be_visible()
    healthy(second)


def test_a_download_is_sent_to_people_who_are_signed_in_only(team):
    team.session("acme", "sent")
    ana = team.sign_in("ana@acme.test")
    ana.goto(f"{team.server.url}/chat?session=sent")
    idle(ana)
    ana.get_by_text("More", exact=True).click()
    ana.get_by_role("menuitem", name="Export").click()
    with ana.expect_download() as download:
        ana.get_by_role("dialog").get_by_role("button", name="Whole session").click()
    address, cookies = download.value.url, {each["name"]: each["value"] for each in ana.context.cookies()}
    assert "/media/" in address
    assert httpx.get(address, cookies=cookies).status_code == 200
    assert httpx.get(address).status_code == 403
    beside = ana.context.new_page()
    beside.goto(team.server.url)
    beside.get_by_role("button", name="Sign out").click()
    beside.wait_for_url(f"http://localhost:{team.port}/**")
    assert httpx.get(address, cookies=cookies).status_code == 403


@pytest.mark.postgres
def test_a_tenant_that_is_deleted_while_a_page_is_open(team_on_postgresql):
    team = team_on_postgresql
    gus = team.sign_in("gus@globex.test")
    idle(gus)
    write(gus, "Too late.", sent=False)
    team.database("globex").delete_tenant()
    gus.keyboard.press("Enter")  # not in the field, which is gone where the page has noticed by itself
    expect(gus.get_by_text("The tenant globex was deleted.")).to_be_visible()
    healthy(gus)
    assert team.database("").tenants() == [""]
