"""Forget a user: their sessions and shared facts, and nothing of anybody else."""

import pytest
from fakes import FakeEmbedder

from memory_core import (
    ChatMessage,
    Database,
    FactExtractionMemoryBlock,
    Memory,
    NotFoundError,
    Services,
    VectorMemoryBlock,
    delete_session,
    forget_user,
    list_sessions,
)
from memory_core.sessions import forgetting as forget_module
from memory_core.sessions.forgetting import data_of_user, outliving_users
from memory_core.store.erasing import erase_remains
from memory_inspector.verification.fingerprints import wanted
from memory_inspector.verification.receipts import receipt_of

ANA = ["My dentist in Coimbra is Doctor Vantongeren.", "I work as a carpenter at Holzmann."]


def talked(database, session_id, user_id, *texts):
    memory = Memory.from_defaults(
        session_id,
        user_id,
        database=database,
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", scope="user"), VectorMemoryBlock(name="Earlier")],
        services=Services(embedder=FakeEmbedder()),
    )
    for text in texts:
        memory.put(ChatMessage(role="user", content=text))
        memory.put(ChatMessage(role="assistant", content="Noted."))
    memory.flush(all=True)
    memory.deliver()
    memory.get("Who is my dentist?")
    return memory


def test_all_sessions_and_shared_facts_of_a_user_go_and_no_byte_of_their_words_stays(tmp_path):
    database = Database.open(f"sqlite:///{tmp_path / 'memory.db'}")
    talked(database, "one", "ana-costa", ANA[0])
    talked(database, "two", "ana-costa", ANA[1])
    other = talked(database, "three", "rui", "I live in Porto.")
    data = data_of_user(database, "ana-costa")
    assert ({status.session_id for status in data.sessions}, data.messages) == ({"one", "two"}, 4)
    assert len(data.facts) >= 2
    gone = forget_user(database, "ana-costa")
    assert set(ANA) <= set(gone.searched)
    assert [status.session_id for status in list_sessions(database)] == ["three"]
    receipt = receipt_of(tmp_path, wanted([*gone.searched, *gone.facts, "ana-costa", "Vantongeren"]))
    assert receipt.clean, receipt.page()
    assert [fact.text for fact in other.facts.read("Facts")] == ["The user lives in Porto"]
    with pytest.raises(NotFoundError):
        forget_user(database, "ana-costa")


@pytest.mark.slow
@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_failure_in_the_middle_erases_nothing_and_a_second_call_erases_all(tmp_path, monkeypatch, failing):
    database = Database.open(f"sqlite:///{tmp_path / 'memory.db'}")
    for session, text in (("one", ANA[0]), ("two", ANA[1]), ("three", "I like figs.")):
        talked(database, session, "ana-costa", text)
    before, calls = data_of_user(database, "ana-costa"), []

    def failing_once(pieces, session_id, **named):
        calls.append(session_id)
        if len(calls) == failing:
            raise OSError("the disk is full")
        return erase_remains(pieces, session_id, **named)

    monkeypatch.setattr("memory_core.sessions.forgetting.erase_remains", failing_once)
    with pytest.raises(OSError, match="the disk is full"):
        forget_user(database, "ana-costa")
    assert data_of_user(database, "ana-costa") == before
    again = Memory.open("two", database, services=Services(embedder=FakeEmbedder()))
    assert again.get_all()[0].content == ANA[1]
    gone = forget_user(database, "ana-costa")
    assert list_sessions(database) == []
    receipt = receipt_of(tmp_path, wanted([*gone.searched, *gone.facts, "ana-costa", "Vantongeren"]))
    assert receipt.clean, receipt.page()


@pytest.mark.parametrize("remaining", [False, True])
def test_facts_that_outlived_sessions_go_with_what_deleted_logs_say_of_them(tmp_path, remaining):
    database = Database.open(f"sqlite:///{tmp_path / 'memory.db'}")
    first = talked(database, "one", "ana-costa", *ANA)
    first.facts.retire(first.facts.read("Facts")[0], reason="Doctor Zwiebelhuber asked for it")
    other = talked(database, "two", "rui", "I live in Porto.")
    other.facts.edit(other.facts.read("Facts")[0], "The user lives in Faro")
    talked(database, "rest", "ana-costa", "Good morning.") if remaining else None
    delete_session(database, "one")
    assert data_of_user(database, "ana-costa").facts != ()
    kept = [record.kind for record in other.events()]
    gone = forget_user(database, "ana-costa")
    receipt = receipt_of(tmp_path, wanted([*gone.searched, *gone.facts, "ana-costa", "Vantongeren", "Zwiebelhuber"]))
    assert receipt.clean, receipt.page()
    assert [fact.text for fact in other.facts.read("Facts")] == ["The user lives in Faro"]
    assert [record.kind for record in other.events()] == kept
    with pytest.raises(NotFoundError, match="Nothing is stored of the user"):
        forget_user(database, "ana-costa")


def test_users_of_whom_only_facts_are_left_are_listed():
    database = Database.open(None)
    for number, user in enumerate(("zoe_", "ana%", "rui")):
        talked(database, f"s{number}", user, ANA[0])
    assert outliving_users(database) == []
    delete_session(database, "s0")
    delete_session(database, "s1")
    assert outliving_users(database) == ["ana%", "zoe_"]
    forget_user(database, "zoe_")
    assert outliving_users(database) == ["ana%"]


@pytest.mark.slow
def test_a_session_begun_while_a_user_is_being_forgotten_goes_too(tmp_path, monkeypatch):
    database = Database.open(f"sqlite:///{tmp_path / 'memory.db'}")
    talked(database, "one", "ana", ANA[0])
    texts = forget_module._telling_texts

    def meanwhile(database, data):
        talked(database, "a later one", "ana", ANA[1])
        return texts(database, data)

    monkeypatch.setattr(forget_module, "_telling_texts", meanwhile)
    forget_user(database, "ana")
    assert list_sessions(database) == []
    assert receipt_of(tmp_path, wanted(ANA)).clean


def test_a_session_of_that_user_that_is_open_elsewhere_is_told():
    database = Database.open()
    memory = talked(database, "one", "ana", ANA[0])
    forget_user(database, "ana")
    with pytest.raises(NotFoundError):
        memory.put(ChatMessage(role="user", content="Hello"))


def test_a_user_whose_name_begins_alike_keeps_theirs():
    database = Database.open()
    talked(database, "one", "ana", ANA[0])
    other = talked(database, "two", "ana-maria", ANA[1])
    forget_user(database, "ana")
    assert other.facts.read("Facts") != []
    assert [status.session_id for status in list_sessions(database, user_id="ana-maria")] == ["two"]
