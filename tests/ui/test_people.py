"""Tenant and role of a person: from the claims of a sign-in, and the people named in secrets.toml."""

import asyncio

import httpx
import pytest
from starlette.applications import Starlette

from memory_core import AccessError, ConfigError
from memory_core.access import Person, person_name
from memory_inspector.server.people import SignIn, person_of, read_sign_in
from ui.server.security import ALLOW_NO_SIGN_IN, NO_SIGN_IN, ThisMachineOnly

NOW = 1_000_000.0
CLAIMS = {"is_logged_in": True, "iat": NOW - 60, "sub": "17", "email": "ana@acme.test", "name": "Ana", "org": "acme"}


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


def test_an_unverified_address_is_nobodys(tmp_path):
    text = '[memory_inspector.people."ana@acme.test"]\ntenant = "globex"\nrole = "owner"\n'
    person = person_of(CLAIMS | {"email_verified": False}, settings(tmp_path, text), NOW)
    assert (person.id, person.tenant, person.role) == ("17", "acme", "viewer")


@pytest.mark.parametrize(
    ("claims", "sentence"),
    [
        ({"is_logged_in": False}, "Sign in first."),
        ({"iat": NOW - 13 * 3600}, "Your sign-in has expired. Sign out, and in again."),
        ({"iat": None}, "Your sign-in has expired. Sign out, and in again."),
        ({"org": None}, "You signed in as ana@acme.test, but belong to no tenant here. Ask whoever runs this app."),
        ({"org": ["a", "b"]}, "You signed in as ana@acme.test, but belong to no tenant here. Ask whoever runs this app."),
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
