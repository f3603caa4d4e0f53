"""The list of sessions as it is shown, and the watch that remembers health: without a screen."""

import threading
import time

import pytest

from memory_core.sessions.overview import Losses, Origin, Overview, RunningTotals, Status
from memory_inspector.files.openai_format import Conversation, Skipped
from memory_inspector.reading.event_rows import session_cost
from memory_inspector.upkeep.health import Check, Health
from memory_inspector.wording.formatting import file_stem, milliseconds, size
from ui.sessions.health import Watch
from ui.sessions.session_files import Sized, conversation_sentence, skipped_sentences
from ui.sessions.session_rows import (
    EVERYONE,
    NOBODY,
    branch_title,
    delete_question,
    of_user,
    origin,
    origin_in_words,
    rows,
    totals,
    users,
)


def status(session_id="one", title="Trip", user_id=None, **more):
    values = {
        "created_at": 0.0,
        "updated_at": 1_000.0,
        "turns": 12,
        "queue_messages": 16,
        "queue_tokens": 603,
        "pinned_tokens": 0,
        "archived_messages": 8,
        "flushes": 2,
        "history_budget": 720.0,
        "token_limit": 1200,
        "flush_size": 120,
        "in_transit_messages": 0,
        "in_transit_tokens": 0,
        "position": 0,
    }
    return Status(session_id=session_id, title=title, user_id=user_id, **{**values, **more})


NEW = Origin("new")


def session(session_id="one", *, facts=9, user_facts=0, reads=True, origin=NEW, totals=None, **more):
    return Overview(
        status(session_id, **more),
        messages=24,
        tokens=1938,
        facts=facts,
        user_facts=user_facts,
        reads_user_facts=reads,
        origin=origin,
        totals=totals or RunningTotals(),
    )


def test_a_row_holds_the_session_as_it_was_typed():
    found = session(title="<b>Trip</b> ![x](http://evil.test)", user_id="sam", user_facts=2)
    assert rows([found], now=1_120.0) == [
        {
            "Session": "<b>Trip</b> ![x](http://evil.test)",
            "User": "sam",
            "Turns": 12,
            "All tokens": 1938,
            "Flushes": 2,
            "Facts": 11,
            "Last activity": "2 min ago",
            "From": "new",
        }
    ]


def test_facts_of_the_user_count_where_the_session_reads_them():
    assert rows([session(user_id="sam", facts=1, user_facts=4)], now=0)[0]["Facts"] == 5
    assert rows([session(user_id="sam", facts=1, user_facts=4, reads=False)], now=0)[0]["Facts"] == 1


def test_without_any_user_there_is_no_column_of_users():
    assert "User" not in rows([session()], now=0)[0]
    assert rows([session(), session("two", user_id="sam")], now=0)[0]["User"] == ""


def test_a_column_that_nothing_would_fill_is_left_out():
    assert not {"Lost", "Errors", "Cost"} & rows([session()], now=0)[0].keys()
    failed = session("two", totals=RunningTotals(errors=1, dollars=0.25, losses=Losses(cut=56, parked=1)))
    first, second = rows([session(), failed], now=0)
    assert (first["Lost"], first["Errors"], first["Cost"]) == ("", None, None)
    assert (second["Lost"], second["Errors"], second["Cost"]) == ("1 delivery given up, cut 56 tokens", 1, 0.25)


def test_calls_without_a_recorded_cost_have_that_of_a_list_where_their_model_is_known():
    def cost(**more):
        return session_cost(RunningTotals(**more))

    assert cost() is None
    assert cost(unpriced={"house-model": (1_000, 0, 0)}) is None
    assert cost(dollars=0.5, unpriced={"house-model": (1_000, 0, 0)}) == 0.5
    assert cost(dollars=0.5, unpriced={"gpt-5-mini": (1_000_000, 1_000_000, 1_000_000)}) == pytest.approx(2.775)


def test_a_session_without_a_title_is_called_by_the_start_of_its_id():
    assert rows([session("0123456789ab", title="")], now=0)[0]["Session"] == "0123456789ab"


@pytest.mark.parametrize(
    ("found", "word", "sentence"),
    [
        (session("demo", origin=Origin("import", "demo")), "demo", "The demo."),
        (session(), "new", ""),
        (session(origin=Origin("import", "talk")), "import", "Imported from “talk”."),
        (
            session(origin=Origin("branch", "parent", 1200)),
            "branch at turn 1,200",
            "Branched from “Birthday dinner” at turn 1,200.",
        ),
        (
            session(origin=Origin("branch", "gone", 3)),
            "branch at turn 3",
            "Branched from a session that has been deleted since at turn 3.",
        ),
    ],
)
def test_it_says_where_a_session_came_from(found, word, sentence):
    assert origin(found) == word
    assert origin_in_words(found, {"parent": "Birthday dinner"}) == sentence


def test_what_a_session_holds_is_said_in_numbers_with_its_users_facts_apart():
    assert totals(session()) == "12 turns, 24 messages, 1,938 tokens, 9 facts."
    assert totals(session(user_id="sam", facts=1, user_facts=4)) == (
        "12 turns, 24 messages, 1,938 tokens, 1 fact. sam has 4 facts across sessions."
    )


def test_deleting_names_what_goes_and_what_stays():
    assert delete_question(session(title="Birthday dinner", user_id="Sam")) == (
        'Delete "Birthday dinner" with 24 messages and 9 facts? Facts that belong to Sam stay.'
    )
    assert delete_question(session(facts=1)) == 'Delete "Trip" with 24 messages and 1 fact?'


def test_the_filter_lets_one_users_sessions_through_or_those_of_nobody():
    all_of_them = [session("a", user_id="sam"), session("b"), session("c", user_id="ana")]
    shown = {
        user: [each.status.session_id for each in of_user(all_of_them, user)] for user in (EVERYONE, NOBODY, "sam")
    }
    assert shown == {EVERYONE: ["a", "b", "c"], NOBODY: ["b"], "sam": ["a"]}
    assert users(all_of_them) == ["ana", "sam"]


def test_a_branch_gets_the_next_free_letter():
    assert branch_title("Birthday dinner", {"Birthday dinner"}) == "Birthday dinner B"
    assert branch_title("Birthday dinner", {"Birthday dinner", "Birthday dinner B"}) == "Birthday dinner C"
    assert branch_title("Birthday dinner B", {"Birthday dinner B"}) == "Birthday dinner C"
    assert branch_title("Plan B", {f"Plan {chr(letter)}" for letter in range(ord("B"), ord("Z") + 1)}) == "Plan B B"


@pytest.mark.parametrize(
    ("title", "stem"),
    [
        ("Birthday dinner", "Birthday dinner"),
        ("a/b\\c:d*e", "a b c d e"),
        ("../../etc/passwd", "etc passwd"),
        ("\x00\n", "session"),
        ("...", "session"),
        ("con", "_con"),
        ("CON.zip", "_CON.zip"),
        ("nul", "_nul"),
        ("Com1 .txt", "_Com1 .txt"),
        ("console", "console"),
        ("-rf", "rf"),
        ("- -", "session"),
        ("\u202egpj.exe", "gpj.exe"),
        ("a\u2066b\u200e\xadc", "a b c"),
        ("x" * 200, "x" * 80),
    ],
)
def test_a_title_becomes_the_name_of_a_file_anywhere(title, stem):
    assert file_stem(title) == stem


def test_latencies_and_sizes_are_rounded_for_people():
    assert [milliseconds(each) for each in (0.0002, 0.0071, 0.9994, 1.24)] == ["under 1 ms", "7 ms", "999 ms", "1.2 s"]
    assert [size(each) for each in (10, 80 * 1024, 1_500_000, 65_011_712)] == ["1 KB", "80 KB", "1.4 MB", "62 MB"]


def test_what_is_skipped_is_said_with_its_places_and_why():
    skipped = tuple(Skipped(line, index, "no text") for index, line in enumerate((17, 44, 90)))
    conversation = Conversation(messages=(), skipped=skipped, notes=(), title="talk")
    assert conversation_sentence(Sized(conversation, (18_300,))) == (
        "1 message, 0 turns, about 18,300 tokens. 3 will be skipped: lines 17, 44, 90 have no text."
    )


def test_each_reason_for_skipping_is_a_sentence_of_its_own():
    skipped = (
        Skipped(None, 0, "no text"),
        *(Skipped(line, line, "unknown role") for line in range(1, 8)),
    )
    assert skipped_sentences(skipped) == [
        "7 will be skipped: lines 1, 2, 3, 4, 5, … (unknown role).",
        "1 will be skipped: message 1 has no text.",
    ]


# -- the watch -----------------------------------------------------------------------------------


def health(at=None, **states):
    checks = tuple(Check(part, state, "", 0.0) for part, state in states.items())
    return Health(checks, time.time() if at is None else at)


@pytest.mark.slow
def test_a_result_is_remembered_and_not_asked_for_again_while_it_is_young():
    watch, asked = Watch(), []

    def look():
        asked.append(1)
        return health(database="ok")

    for _ in range(3):
        watch.look("a", look, older_than=30)
        watch.wait("a", 10)
    assert (len(asked), watch.latest("a").problems) == (1, ())
    watch.look("a", look)
    watch.wait("a", 10)
    assert len(asked) == 2


@pytest.mark.slow
def test_an_old_result_stands_until_the_next_one_is_there():
    watch, go_on = Watch(), threading.Event()
    old, new = health(at=0.0, database="failed"), health(database="ok")
    watch.look("a", lambda: old)
    watch.wait("a", 10)

    def slow():
        assert go_on.wait(10)
        return new

    watch.look("a", slow, older_than=30)
    watch.look("a", pytest.fail)  # one look at a time
    assert (watch.latest("a"), watch.looking("a")) == (old, True)
    go_on.set()
    watch.wait("a", 10)
    assert (watch.latest("a"), watch.looking("a")) == (new, False)


def test_results_of_two_models_are_apart_and_the_oldest_go(monkeypatch):
    monkeypatch.setattr("ui.sessions.health.keep_loaded", lambda: None)  # half a second of a test process, 40 times
    watch = Watch()
    for number in range(40):
        watch.look(str(number), lambda: health(database="ok"))
        watch.wait(str(number), 10)
    assert watch.latest("0") is None
    assert watch.latest("39") is not None
    assert watch.latest("somebody else's") is None


@pytest.mark.slow
def test_closing_waits_for_what_is_being_looked_at():
    watch, go_on, ended = Watch(), threading.Event(), []

    def look():
        assert go_on.wait(10)
        ended.append(1)
        return health()

    watch.look("a", look)
    threading.Timer(0.05, go_on.set).start()
    watch.close()
    assert ended == [1]
