"""Tenant and role of a person: from the claims of a sign-in, and the people named in secrets.toml."""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from sign_in_kit import person, sign_in_server
from starlette.applications import Starlette

from memory_core import AccessError, ConfigError
from memory_core.access import Person, person_name
from memory_inspector.server.people import SignIn, person_of, present_claims, read_sign_in
from ui.server.security import ALLOW_NO_SIGN_IN, NO_SIGN_IN, ThisMachineOnly

loopback = pytest.mark.filterwarnings("ignore:.*(deprecated|JWT|jwt):DeprecationWarning")  # of the server's packages

NOW = 1_000_000.0
CLAIMS = {"is_logged_in": True, "iat": NOW - 60, "sub": "17", "email": "ana@acme.test", "name": "Ana", "org": "acme"}
CLAIMS["email_verified"] = True


def settings(folder, text):
    file = folder / "secrets.toml"
    file.write_text(text, encoding="utf-8")
    return read_sign_in([folder / "missing.toml", file])


def test_claims_give_tenant_and_role():
    assert person_of(CLAIMS | {"role": "owner"}, SignIn(), NOW) == Person("ana@acme.test", "Ana", "owner", "acme")
    assert person_of(CLAIMS, SignIn(), NOW).role == "viewer"
    assert person_of(CLAIMS | {"role": ["staff", "curator", "viewer"]}, SignIn(), NOW).role == "curator"
    assert person_of(CLAIMS | {"role": "admin"}, SignIn(), NOW).role == "viewer"


def test_an_empty_claim_is_not_the_default_tenant():
    with pytest.raises(AccessError):
        person_of(CLAIMS | {"org": ""}, SignIn(), NOW)
    assert person_of(CLAIMS | {"org": ""}, SignIn(default_tenant=""), NOW).tenant == ""


def test_people_in_the_file_overrule_their_claims(tmp_path):
    text = '[memory_inspector.people."ana@acme.test"]\ntenant = "globex"\nrole = "curator"\n'
    assert person_of(CLAIMS | {"role": "owner"}, settings(tmp_path, text), NOW) == Person(
        "ana@acme.test", "Ana", "curator", "globex"
    )


@pytest.mark.parametrize("verified", [False, "false", "False", 0, 1, None, "", "yes", ["true"]])
def test_an_unverified_address_is_nobodys(tmp_path, verified):
    text = '[memory_inspector.people."ana@acme.test"]\ntenant = "globex"\nrole = "owner"\n'
    unverified = person_of(CLAIMS | {"email_verified": verified}, settings(tmp_path, text), NOW)
    assert (unverified.id, unverified.tenant, unverified.role) == ("17", "acme", "viewer")
    with pytest.raises(AccessError, match=r"as 17, as ana@acme\.test is not proven to be yours"):
        person_of(CLAIMS | {"email_verified": verified, "org": None}, settings(tmp_path, text), NOW)


@pytest.mark.parametrize("verified", [True, "true", "TRUE"])
def test_a_verified_address_may_be_said_in_a_text(verified):
    assert person_of(CLAIMS | {"email_verified": verified}, SignIn(), NOW).id == "ana@acme.test"


@pytest.mark.parametrize("address", ["ana@acme.test", "Ana@acme.test", "ANA@ACME.TEST"])
@pytest.mark.parametrize("verified", [True, None])
@pytest.mark.parametrize("name", ["ana@acme.test", "aNA@acme.test", "17"])
def test_what_takes_away_holds_in_every_letter_case_and_for_an_unverified_address(address, verified, name):
    claims = CLAIMS | {"email": address, "email_verified": verified, "role": "owner"}
    demoted = SignIn(people={name: {"role": "viewer"}})
    assert person_of(claims, demoted, NOW).role == "viewer"
    ended = SignIn(people={name: {"signed_in_after": datetime.fromtimestamp(NOW, UTC)}})
    with pytest.raises(AccessError, match="was ended"):
        person_of(claims, ended, NOW)


def test_of_two_entries_for_one_person_the_strictest_holds():
    later, address = {"signed_in_after": datetime.fromtimestamp(NOW, UTC)}, {"role": "owner", "tenant": "acme"}
    with pytest.raises(AccessError, match="was ended"):
        person_of(CLAIMS, SignIn(people={"ana@acme.test": address, "17": later}), NOW)
    both = SignIn(people={"ana@acme.test": address, "17": {"role": "curator"}})
    assert person_of(CLAIMS | {"role": "viewer"}, both, NOW).role == "curator"
    two = SignIn(people={"ana@acme.test": address, "17": {"tenant": "globex"}})
    with pytest.raises(AccessError, match="but belong to more than one tenant here"):
        person_of(CLAIMS, two, NOW)


def test_letters_that_only_look_alike_are_another_address():
    kelvin = CLAIMS | {"email": "\N{KELVIN SIGN}im@acme.test"}
    assert person_of(kelvin, SignIn(people={"kim@acme.test": {"role": "owner"}}), NOW).role == "viewer"


ODD = [
    None,
    True,
    False,
    0,
    17,
    -1,
    1.5,
    float("nan"),
    float("inf"),
    10**400,
    "",
    "17",
    "\ud800",
    [],
    ["17"],
    {},
    {"a": 1},
]


@pytest.mark.parametrize("claim", ["iat", "sub", "email", "email_verified", "name", "org", "role"])
def test_a_claim_of_an_odd_type_is_refused_in_a_sentence_or_says_nothing(claim):
    for odd in ODD:
        with suppress(AccessError):
            somebody = person_of(CLAIMS | {claim: odd}, SignIn(), NOW)
            assert somebody.id in {"17", "ana@acme.test", str(odd)}
            assert {type(part) for part in (somebody.id, somebody.name, somebody.role, somebody.tenant)} == {str}
            assert somebody.role == "viewer"


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"is_logged_in": False}, "Sign in first."),
        ({"iat": NOW - 13 * 3600}, "Your sign-in has expired. Sign in again."),
        *(
            ({"iat": odd}, "Your sign-in has an impossible time. Ask whoever runs this app to compare the clocks.")
            for odd in (None, True, float("nan"), str(NOW), [NOW], NOW + 31_536_000, 10**400)
        ),
        ({"org": None}, "You signed in as ana@acme.test, but belong to no tenant here. Ask whoever runs this app."),
        (
            {"org": ["a", "b"]},
            "You signed in as ana@acme.test, but belong to no tenant here. Ask whoever runs this app.",
        ),
        (
            {"email": None, "sub": None},
            "You signed in as nobody, but belong to no tenant here. Ask whoever runs this app.",
        ),
    ],
)
def test_who_is_not_let_in_is_told_why_in_a_sentence(claims, sentence):
    with pytest.raises(AccessError) as refused:
        person_of(CLAIMS | claims, SignIn(), NOW)
    assert str(refused.value) == sentence


def test_a_changed_file_applies_at_once(tmp_path):
    assert settings(tmp_path, "[memory_inspector]\nhours = 1\n").hours == 1
    assert (
        settings(tmp_path, '[memory_inspector]\ndefault_tenant = ""\ndefault_role = "curator"\n').default_tenant == ""
    )


@pytest.mark.parametrize("table", ["", '.people."ana@acme.test"'])
def test_a_sign_in_before_a_time_can_be_ended(tmp_path, table):
    text = f"[memory_inspector{table}]\nsigned_in_after = {{}}\n"
    ended, others = CLAIMS | {"iat": NOW - 60}, CLAIMS | {"iat": NOW - 60, "email": "ben@acme.test"}
    at = datetime.fromtimestamp(NOW - 30, UTC).isoformat()
    with pytest.raises(AccessError, match="was ended"):
        person_of(ended, settings(tmp_path, text.format(at)), NOW)
    assert person_of(ended | {"iat": NOW - 20}, settings(tmp_path, text.format(at)), NOW).role == "viewer"
    if table:
        assert person_of(others, settings(tmp_path, text.format(at)), NOW).role == "viewer"


@pytest.mark.parametrize(
    "text",
    [
        '[memory_inspector]\ndefault_role = "admin"\n',
        "[memory_inspector]\nroles = 1\n",
        '[memory_inspector.people."a@b"]\nrole = "boss"\n',
        "memory_inspector = 3\n",
        "[memory_inspector\n",
    ],
)
def test_an_impossible_setting_is_one_sentence_without_a_secret(tmp_path, text):
    with pytest.raises(ConfigError, match=r"secrets\.toml") as refused:
        settings(tmp_path, f'password = "hunter2"\n{text}')
    assert "hunter2" not in str(refused.value)


CHECKED = SignIn(recheck_minutes=5)


@pytest.fixture
def server():
    """A sign-in server with Ana, an owner; its address, her claims and her access token."""
    with sign_in_server(person("Ana", "acme", "owner")) as port:
        yield Server(f"http://localhost:{port}")


class Server:
    def __init__(self, url):
        self.url, self.claims = url, CLAIMS | {"sub": "ana@acme.test", "role": "owner"}
        back, client = "https://memory.test/oauth2callback", ("memory-inspector", "of-no-use")
        asked = {"client_id": client[0], "redirect_uri": back, "response_type": "code", "scope": "openid email"}
        sent = httpx.post(f"{url}/oauth2/authorize", params=asked, data={"sub": "ana@acme.test"})
        code = parse_qs(urlsplit(sent.headers["location"]).query)["code"][0]
        given = {"grant_type": "authorization_code", "code": code, "redirect_uri": back}
        self.token = httpx.post(f"{url}/oauth2/token", data=given, auth=client).json()["access_token"]

    def ask(self, at, url=None):
        metadata = f"{url or self.url}/.well-known/openid-configuration"
        return person_of(present_claims(self.claims, self.token, metadata, CHECKED, at), CHECKED, at)

    def change(self, **claims):
        httpx.put(f"{self.url}/users/ana@acme.test", json=claims).raise_for_status()


@pytest.mark.slow
@loopback
def test_a_role_that_changes_at_the_sign_in_server_applies_after_some_minutes(server):
    assert server.ask(NOW).role == "owner"
    server.change(org="acme", role="curator")
    assert server.ask(NOW + 299).role == "owner"
    assert server.ask(NOW + 300).role == "curator"
    server.change(org="acme")  # the role was taken away
    assert server.ask(NOW + 600).role == "viewer"


@loopback
def test_a_token_that_was_revoked_ends_the_sign_in(server):
    server.ask(NOW)
    httpx.post(f"{server.url}/users/ana@acme.test/revoke-tokens").raise_for_status()
    with pytest.raises(AccessError, match="has ended at the sign-in server"):
        server.ask(NOW + 300)


@pytest.mark.slow
@loopback
def test_the_last_answer_applies_while_the_server_does_not_answer(server):
    server.change(org="acme", role="viewer")
    assert server.ask(NOW).role == "viewer"
    assert server.ask(NOW + 300, url="http://127.0.0.1:1").role == "viewer"
    server.change(org="acme", role="curator")
    assert server.ask(NOW + 600).role == "curator"


@loopback
def test_claims_of_somebody_else_are_refused(server):
    server.claims |= {"sub": "somebody else"}
    with pytest.raises(AccessError):
        server.ask(NOW)


def test_a_name_is_read_from_its_label():
    assert person_name(Person("ana@acme.test", "Ana <3 tea").label) == "Ana <3 tea"
    assert person_name(Person("ana@acme.test").label) == "ana@acme.test"


def ask(client):
    transport = httpx.ASGITransport(ThisMachineOnly(Starlette()), client=(client, 1))

    async def send():
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as session:
            return await session.get("/")

    return asyncio.run(send())


def test_without_a_sign_in_other_machines_are_refused(monkeypatch):
    monkeypatch.delenv(ALLOW_NO_SIGN_IN, raising=False)
    refused = ask("192.0.2.7")
    assert (refused.status_code, refused.text) == (403, NO_SIGN_IN)
    assert [ask(address).status_code for address in ("127.0.0.1", "::1")] == [404, 404]  # reached the app
    monkeypatch.setenv(ALLOW_NO_SIGN_IN, "1")
    assert ask("192.0.2.7").status_code == 404
