"""The Sessions page and its dialogs, drawn and clicked in this process."""

import io
import json
import re
import threading
import zipfile

import pytest
from pages_driver import button, dialog, drawn_until, joined, opened, opened_by, press, read
from running_agent import running_agent
from streamlit.testing.v1 import AppTest

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    Memory,
    StaticMemoryBlock,
    StoreError,
    delete_session,
)
from memory_core.bundles.bundle import write_bundle
from memory_core.engine.session import Session
from memory_core.events import ModelCalled
from memory_core.planning import curation as plans
from memory_core.sessions.forgetting import data_of_user
from memory_core.sessions.overview import overview
from memory_core.store import writing
from memory_inspector.files.files import export_chat_store, export_configuration
from memory_inspector.recorder.attaching import refused_spans
from memory_inspector.recorder.recording import attach, record_exchange
from memory_inspector.recorder.wire import Exchange
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory
from memory_inspector.server.jobs import Job
from memory_inspector.upkeep.health import size_of
from ui.parts import forgetting
from ui.sessions import health
from ui.sessions.session_files import exports
from ui.tab import services

pytestmark = pytest.mark.slow

NASTY = "<img src=x onerror=alert(1)> ![x](http://evil.test/a.png) **bold** :red[r] $a$ [l](http://evil.test)"


def page(**query):
    """The page once health is known."""
    app = opened(page="sessions", **query)
    assert not app.exception
    health.watch().wait("offline", 30)
    app.run()
    assert not app.exception
    return app


def database():
    return services.engine().database


def sessions():
    return {found.status.title: found for found in overview(database())}


def a_session(*messages, title="Mine", user=None):
    memory = new_memory(services.engine(), title=title, user_id=user)
    for message in messages:
        memory.put(ChatMessage(role="user", content=message))
    return memory


def listed(app):
    return app.dataframe[0].value.to_dict("records")


def select(app, session_id):
    """What selecting a row leaves behind; the table itself cannot be clicked here."""
    app.session_state["sessions__picked"] = (app.session_state["session"], session_id)
    return app.run()


def labels(app):
    return [each.label for each in app.button]


def told(app):
    """What is said when the rebuilding has ended: at once, or on the drawing after it."""
    for _ in range(2):
        if app.success or any("rebuilt" in each.value for each in app.error):
            break
        assert services.engine().job(health.INDEX).wait(30)
        app.run()
    assert not app.exception
    return [each.value.replace("\\", "") for each in [*app.success, *app.error]]


def said(app):
    return [each.value for each in app.error] + [each.value for each in app.warning]


def uploaded(name, data):
    drawn = dialog("ui.sessions.session_files", "import_dialog")
    read(drawn.file_uploader[0].set_value((name, data, "application/octet-stream")).run())
    assert not drawn.exception
    return drawn


# -- the list ------------------------------------------------------------------------------------


def test_the_demo_is_listed_with_its_numbers_and_what_can_be_done(demo_home):
    app = page()
    found = sessions()["Birthday dinner"]
    (row,) = listed(app)
    assert row.pop("Last activity").endswith(("ago", "now"))
    assert row == {
        "Session": "Birthday dinner",
        "User": "sam",
        "Turns": 11,
        "All tokens": found.tokens,
        "Flushes": found.status.flushes,
        "Facts": found.facts,
        "From": "demo",
    }
    shown = joined(app)
    assert "1 session · all systems OK" in shown
    assert f"11 turns, 22 messages, {found.tokens} tokens, {found.facts} facts. The demo." in shown
    for says in ("Import a conversation", "New", "Open", "Rename", "Branch…", "Export", "Reset demo", "Check again"):
        assert says in labels(app)
    assert "Delete" not in labels(app)


def test_the_page_has_one_primary_button_and_no_turn_picker(demo_home):
    app = page()
    assert [each.label for each in app.button if each.proto.type == "primary"] == ["Import a conversation"]
    assert "Turn before" not in labels(app)


def test_it_draws_in_the_dark_and_with_a_turn_in_the_address(demo_home):
    assert "1 session · " in joined(page(theme="dark", session="demo", turn="3"))


@pytest.mark.slow
def test_a_session_of_a_running_agent_is_live_with_its_whole_name_and_one_click_from_its_chat(demo_home):
    """The agent is another process, on the same database."""
    app = page()
    with running_agent(services.engine().database.url, "an-agent-of-mine") as agent:
        agent.say("note 1 of the day")
        app.run()
        assert (listed(app)[0]["Session"], listed(app)[0]["Last activity"]) == ("an-agent-of-mine", "live")
        (link,) = [each for each in app.get("page_link") if "is :green" in each.proto.label]
        assert "agent" in link.proto.label
        assert link.proto.query_string == "session=an-agent-of-mine"
        assert "Listening" not in joined(app)
    app.run()
    assert listed(app)[0]["Last activity"] != "live"
    assert not [each for each in app.get("page_link") if "is :green" in each.proto.label]


def test_the_ways_to_connect_are_folded_once_there_is_a_second_session(demo_home):
    assert "OPENAI_BASE_URL" in "".join(each.value for each in page().code)
    a_session("Hello there", title="Mine")
    assert [each.value for each in page().code] == []


def test_another_session_can_be_selected_and_opened(demo_home):
    mine = a_session("Hello there", title="Mine")
    app = page(session="demo")
    assert [row["Session"] for row in listed(app)] == ["Mine", "Birthday dinner"]
    select(app, mine.session_id)
    assert "1 turn, 1 message" in joined(app)
    assert "Delete" in labels(app)
    press(app, "Open")
    assert not app.exception
    assert app.session_state["session"] == mine.session_id


def test_hostile_titles_and_users_are_shown_as_they_were_typed(demo_home):
    mine = a_session(title=NASTY, user="**sam** ![x](http://evil.test/b.png)")
    app = page(session=mine.session_id)
    assert listed(app)[0]["Session"] == NASTY
    values = [each.value for each in app.markdown]
    assert not [value for value in values if "![x](http" in value or "**bold**" in value]
    drawn = dialog("ui.sessions.session_dialogs", "delete_dialog", mine.session_id)
    assert 'Delete "<img src=x onerror=alert(1)> ' in joined(drawn).replace("\N{WORD JOINER}", "")


def test_the_filter_shows_one_users_sessions(demo_home):
    a_session(title="Ana's", user="ana")
    a_session(title="Nobody's")
    app = page()
    assert app.selectbox(key="sessions__user").options == ["All users", "ana", "sam", "No user"]
    shown = {}
    for choice in ("ana", "sam", "\x00"):
        app.selectbox(key="sessions__user").set_value(choice).run()
        shown[choice] = [row["Session"] for row in listed(app)]
    assert shown == {"ana": ["Ana's"], "sam": ["Birthday dinner"], "\x00": ["Nobody's"]}


def test_many_sessions_are_found_by_words_source_and_what_they_lost_and_put_in_order(demo_home):
    shared = services.engine()
    assert "sessions__find" not in {each.key for each in page().text_input}
    for number in range(8):
        memory = a_session(f"note {number}", title=f"Trip {number}")
        memory.log.record(ModelCalled("reply", "m", 10, 1, 0.5, number / 100, error="away" if number == 3 else None))
    agent = Session(shared.database, "agent", services=shared.services)
    attach(agent)
    said, asked = (ChatMessage(role="user", content=words) for words in ("I live in Oslo.", "And now?"))
    answer = ChatMessage(role="assistant", content="Hm.")
    for prompt in ((said,), (asked,)):
        record_exchange(agent, Exchange("reply", "gpt-5-mini", prompt, answer, 1_000_000))
    app = page()
    rows = {row["Session"]: row for row in listed(app)}
    named = ("Lost", "Errors", "Cost", "From")
    assert [rows["agent"][name] for name in named if name != "Errors"] == ["2 messages left out", 0.5, "attached"]
    assert [rows["Trip 3"][name] for name in named] == ["", 1, 0.03, "new"]

    def names(widget, value):
        widget.set_value(value).run()
        assert not app.exception
        return [row["Session"] for row in listed(app)]

    assert names(app.selectbox(key="sessions__sort"), "cost")[:3] == ["agent", "Trip 7", "Trip 6"]
    assert names(app.selectbox(key="sessions__sort"), "errors")[0] == "Trip 3"
    assert names(app.toggle(key="sessions__lost"), True) == ["agent"]
    assert len(names(app.toggle(key="sessions__lost"), False)) == 10
    assert names(app.selectbox(key="sessions__from"), "demo") == ["Birthday dinner"]
    assert len(names(app.selectbox(key="sessions__from"), "anywhere")) == 10
    assert names(app.text_input(key="sessions__find"), "trip 5") == ["Trip 5"]


def test_a_name_of_three_hundred_characters_is_cut_wherever_it_stands_alone(demo_home):
    memory = a_session("note", title="long " * 60)
    app = select(page(), memory.session_id)
    assert max(len(each.value) for each in app.markdown if "long long" in each.value) < 200
    for name in ("rename_dialog", "delete_dialog", "branch_dialog"):
        drawn = dialog("ui.sessions.session_dialogs", name, memory.session_id)
        assert not drawn.exception
        assert all(len(each.value) < 200 for each in drawn.markdown)


def test_a_user_of_whom_only_facts_are_left_is_offered_and_forgotten(demo_home):
    mine = Memory.from_defaults(
        "mine", "ana", database=database(), memory_blocks=[FactExtractionMemoryBlock(name="Facts", scope="user")]
    )
    mine.put(ChatMessage(role="user", content="I am allergic to nuts."))
    mine.flush(all=True)
    mine.deliver()
    delete_session(database(), mine.session_id)
    app = page()
    assert app.selectbox(key="sessions__user").options == ["All users", "ana (only facts)", "sam"]
    app.selectbox(key="sessions__user").set_value("ana").run()
    assert not app.exception
    assert not app.dataframe
    assert "No session matches." in joined(app)
    assert button(app, "Forget this user")
    drawn = dialog("ui.parts.forgetting", "forget_user_dialog", "ana")
    assert drawn.dataframe[0].value.to_dict("records") == [{"Shared fact": "The user is allergic to nuts"}]
    assert button(drawn, "Forget 1 fact")


def test_a_selected_session_that_was_deleted_elsewhere_is_told_and_another_shown(demo_home):
    mine = a_session(title="Mine")
    app = select(page(session="demo"), mine.session_id)
    delete_session(database(), mine.session_id)
    app.run()
    assert not app.exception
    assert ["deleted elsewhere" in each for each in said(app)] == [True]
    assert "**Birthday dinner**" in joined(app)


def test_with_no_row_selected_the_page_says_what_a_selection_is_for(demo_home):
    app = select(page(), None)
    assert "Select a session to open, rename, branch, export or delete it." in joined(app)
    assert "Rename" not in labels(app)


def test_a_stale_link_shows_the_list(demo_home):
    app = page(session="gone")
    assert not app.exception
    assert [row["Session"] for row in listed(app)] == ["Birthday dinner"]


def test_a_database_that_is_away_is_said_in_one_sentence(demo_home, monkeypatch):
    app = page()

    def refuse():
        raise StoreError("The database at sqlite:///x did not do what was asked: disk I/O error.")

    monkeypatch.setattr(database(), "read", refuse)
    app.run()
    assert not app.exception
    assert any("disk I/O error" in each.value.replace("\\", "") for each in app.error)
    app.button(key="sessions__check").click().run()
    health.watch().wait("offline", 30)
    app.run()
    assert not app.exception
    assert any(each.value.startswith("Database: The database at sqlite") for each in app.error)
    assert glance() == "('database_off', 'Database not reachable')"


def test_an_empty_session_cannot_be_branched(demo_home):
    mine = a_session(title="Empty")
    app = page(session=mine.session_id)
    assert button(app, "Branch…").disabled


# -- making, renaming, deleting ------------------------------------------------------------------


def test_a_new_session_may_belong_to_a_user(demo_home):
    drawn = dialog("ui.sessions.session_dialogs", "new_dialog")
    drawn.text_input(key="new__title").set_value("Trip to Lisbon").run()
    drawn.selectbox(key="new__user").set_value("sam").run()
    button(drawn, "Start session").click().run()
    assert sessions()["Trip to Lisbon"].status.user_id == "sam"
    assert opened_by(drawn) == sessions()["Trip to Lisbon"].status.session_id


@pytest.mark.parametrize(("shared", "own", "of_user"), [(True, 0, 1), (False, 1, 0)])
def test_facts_of_a_new_session_are_its_users_or_its_own(demo_home, shared, own, of_user):
    drawn = dialog("ui.sessions.session_dialogs", "new_dialog")
    drawn.selectbox(key="new__user").set_value("sam").run()
    drawn.checkbox(key="new__shared").set_value(shared).run()
    button(drawn, "Start session").click().run()
    memory = services.engine().open(opened_by(drawn))
    memory.put(ChatMessage(role="user", content="I am allergic to nuts."))
    memory.flush(all=True)
    found = sessions()["New session"]
    assert (found.facts, found.user_facts) == (own, of_user)
    other = next(found for title, found in sessions().items() if title == "Birthday dinner")
    assert other.user_facts == of_user  # the demo is sam's too


def test_two_clicks_start_one_session(demo_home, monkeypatch):
    from ui.sessions import session_dialogs

    begin = session_dialogs.begin_making
    monkeypatch.setattr(session_dialogs, "begin_making", lambda work: (begin(work), begin(work)))
    drawn = dialog("ui.sessions.session_dialogs", "new_dialog")
    button(drawn, "Start session").click().run()
    assert [found.status.title for found in overview(database())] == ["New session", "Birthday dinner"]


def test_what_cannot_be_made_is_said_and_can_be_tried_again(demo_home, monkeypatch):
    from ui.sessions import session_dialogs

    real = session_dialogs.new_memory

    def refuse(*given, **named):
        raise StoreError("The disk is full.")

    monkeypatch.setattr(session_dialogs, "new_memory", refuse)
    drawn = dialog("ui.sessions.session_dialogs", "new_dialog")
    button(drawn, "Start session").click().run()
    assert said(drawn) == ["The disk is full\\."]
    monkeypatch.setattr(session_dialogs, "new_memory", real)
    button(drawn, "Start session").click().run()
    assert sessions()["New session"].status.session_id == opened_by(drawn)


def test_a_session_needs_a_title(demo_home):
    drawn = dialog("ui.sessions.session_dialogs", "new_dialog")
    drawn.text_input(key="new__title").set_value("   ").run()
    assert button(drawn, "Start session").disabled


def test_a_session_is_renamed_to_anything(demo_home):
    drawn = dialog("ui.sessions.session_dialogs", "rename_dialog", "demo")
    drawn.text_input[0].set_value("**Party** <b>").run()
    button(drawn, "Save").click().run()
    assert "**Party** <b>" in sessions()


def test_deleting_asks_with_numbers_and_keeps_what_is_the_users(demo_home):
    mine = a_session("I like tea", "I like bread", title="Mine", user="Sam")
    drawn = dialog("ui.sessions.session_dialogs", "delete_dialog", mine.session_id)
    assert 'Delete "Mine" with 2 messages and 0 facts? Facts that belong to Sam stay.' in joined(drawn)
    drawn.session_state["session"] = mine.session_id
    button(drawn, "Delete session").click().run()
    assert not drawn.exception
    assert list(sessions()) == ["Birthday dinner"]
    assert drawn.session_state["session"] == "demo"


def delete_by_dialog(memory):
    button(dialog("ui.sessions.session_dialogs", "delete_dialog", memory.session_id), "Delete session").click().run()


def forget_by_dialog(memory):
    forgetting._user_forgotten(
        data_of_user(database(), "ana")
    )  # the button draws a fragment again, which AppTest cannot


@pytest.mark.parametrize("delete", [delete_by_dialog, forget_by_dialog])
def test_copies_of_vectors_go_with_what_is_deleted(demo_home, delete):
    mine = a_session("I like tea", "I like bread", user="ana")
    mine.flush(all=True)
    mine.deliver()
    index = services.engine().services.index
    before = index.copied_collections()
    mine.retrieval.search("What do I like?")
    assert len(index.copied_collections() - before) == 1
    delete(mine)
    assert list(sessions()) == ["Birthday dinner"]
    assert index.copied_collections() == before


def test_a_session_that_is_deleted_twice_is_told_and_nothing_fails(demo_home):
    mine = a_session(title="Mine")
    drawn = dialog("ui.sessions.session_dialogs", "delete_dialog", mine.session_id)
    delete_session(database(), mine.session_id)
    button(drawn, "Delete session").click().run()
    assert not drawn.exception
    assert "Deleted" not in joined(drawn)


def test_keeping_deletes_nothing(demo_home):
    mine = a_session(title="Mine")
    drawn = dialog("ui.sessions.session_dialogs", "delete_dialog", mine.session_id)
    button(drawn, "Cancel").click().run()
    assert "Mine" in sessions()


@pytest.mark.parametrize("name", ["rename_dialog", "delete_dialog", "reset_dialog", "branch_dialog", "export_dialog"])
def test_a_dialog_of_a_session_deleted_elsewhere_says_so(demo_home, name):
    mine = a_session("Hello", title="Mine")
    delete_session(database(), mine.session_id)
    place = "session_files" if name == "export_dialog" else "session_dialogs"
    drawn = dialog(f"ui.sessions.{place}", name, mine.session_id)
    assert not drawn.exception
    assert said(drawn) == ["This session was deleted elsewhere\\."]


def as_shipped(memory):
    """All that a reset must give back, without ids and times."""
    recording = memory.session.recording()
    return {
        "configuration": json.loads(export_configuration(memory)),
        "messages": [stored.message.content for stored in memory.session.messages()],
        "facts": [(fact.text, fact.state, fact.pinned) for fact in memory.facts.read("Facts", states=None)],
        "stored": [[m.seq for m in turn.messages] for turn in memory.retrieval.stored_turns("Earlier turns")],
        "recording": (recording.played, len(recording.messages), recording.next_turn),
        "title": memory.session.status().title,
        "turns": sorted(memory.log.history().turns),
        "kinds": [record.kind for record in memory.events()],
    }


def test_resetting_the_demo_gives_the_shipped_one_whatever_was_changed(demo_home):
    shared = services.engine()
    shipped = as_shipped(shared.open("demo"))
    demo = shared.open("demo")
    demo.configure(token_limit=300, chat_history_token_ratio=0.3)
    demo.blocks.edit("Instructions", "Always answer in rhyme.")
    demo.blocks.configure("Facts", priority=0)
    demo.blocks.remove("Earlier turns")
    demo.blocks.add(StaticMemoryBlock(name="Notes", static_content="Mine"))
    curation = demo.facts.desk("Facts")
    curation.apply(plans.retire(curation.facts()[:3]))
    demo.session.rename("Mine")
    demo.session.attach_recording([ChatMessage(role="user", content="Something else")], source="other")
    assert as_shipped(shared.open("demo")) != shipped
    drawn = dialog("ui.sessions.session_dialogs", "reset_dialog", "demo")
    words = joined(drawn)
    assert 'Reset "Mine"? Deletes everything in it: 22 messages and 3 facts' in words
    assert "as shipped, at turn 11 of 18." in words
    assert shared.open("demo").session.status().title == "Mine"  # it says so before it does it
    button(drawn, "Reset demo").click().run()
    assert as_shipped(shared.open("demo")) == shipped
    assert "turn 11 of 18" in drawn.session_state["toast"].text
    assert [found.status.title for found in overview(database())] == ["Birthday dinner"]


def test_a_reset_says_how_much_goes_and_then_how_much_went(demo_home):
    mine = services.engine().open("demo").branch(11, title="Mine")
    messages, facts = len(mine.session.messages()), len(mine.facts.read("Facts", states=None))
    turns = len(mine.retrieval.stored_turns("Earlier turns"))
    drawn = dialog("ui.sessions.session_dialogs", "reset_dialog", mine.session_id)
    active = len(mine.facts.read("Facts"))
    assert f"Removes {messages} messages" in joined(drawn)
    assert f"(the session has {active} facts)." in joined(drawn)
    assert "This cannot be undone." in joined(drawn)
    button(drawn, "Reset session").click().run()
    went = f"{messages} messages, {facts} facts, {turns} stored turns"
    assert drawn.session_state["toast"].text == f"Forgot everything: {went}."


def test_a_deletion_says_what_went(demo_home):
    mine = a_session("Hello", title="Mine")
    drawn = dialog("ui.sessions.session_dialogs", "delete_dialog", mine.session_id)
    button(drawn, "Delete session").click().run()
    assert drawn.session_state["toast"].text == 'Deleted "Mine" with 1 message and 0 facts.'


def test_the_demo_can_be_reset_again_and_played_on(demo_home):
    shared = services.engine()
    for _ in range(2):
        button(dialog("ui.sessions.session_dialogs", "reset_dialog", "demo"), "Reset demo").click().run()
    memory = shared.open("demo")
    play(Job("on"), memory, turns=1, pace=0)
    assert memory.session.status().turns == 12
    assert memory.log.prompt(memory.log.history().turns[12].built).layout


def test_a_demo_that_plays_is_stopped_before_it_is_reset(demo_home):
    shared = services.engine()
    memory = shared.open("demo")
    playing = shared.start("demo", "playing", lambda job: play(job, memory, turns=None, pace=1))
    button(dialog("ui.sessions.session_dialogs", "reset_dialog", "demo"), "Reset demo").click().run()
    assert playing.done
    assert shared.open("demo").session.status().turns == 11


@pytest.mark.parametrize("name", ["reset_dialog", "delete_dialog"])
def test_a_session_in_which_a_turn_is_being_written_is_left_alone(demo_home, monkeypatch, name):
    mine, go_on = a_session("hello"), threading.Event()
    shared = services.engine()
    monkeypatch.setattr("memory_inspector.server.engine.STOP_SECONDS", 0.05)
    shared.start(mine.session_id, "slow", lambda job: go_on.wait(30))
    drawn = dialog("ui.sessions.session_dialogs", name, mine.session_id)
    button(drawn, "Reset session" if name == "reset_dialog" else "Delete session").click().run()
    go_on.set()
    assert "still being written" in drawn.session_state["notice"].text
    assert len(shared.open(mine.session_id).session.messages()) == 1


# -- branching -----------------------------------------------------------------------------------


def test_a_branch_is_described_made_and_opened_and_the_original_stays(demo_home, monkeypatch):
    monkeypatch.setattr("ui.sessions.session_dialogs.SHOWN_AFTER_SECONDS", 20)  # however busy the machine is
    before = sessions()["Birthday dinner"]
    drawn = dialog("ui.sessions.session_dialogs", "branch_dialog", "demo", 5)
    assert drawn.text_input[0].value == "Birthday dinner B"
    assert "5 turns: 10 messages," in joined(drawn)
    assert "12 messages said later" in joined(drawn)
    button(drawn, "Branch").click().run()
    made = sessions()["Birthday dinner B"]
    assert (made.status.turns, made.messages, made.origin.turn) == (5, 10, 5)
    assert opened_by(drawn) == made.status.session_id
    assert sessions()["Birthday dinner"] == before
    app = page(session=made.status.session_id)
    assert listed(app)[0]["From"] == "branch at turn 5"
    assert "“Birthday dinner” at turn 5." in joined(app)


def test_a_branch_can_be_cancelled_and_nothing_of_it_is_kept(demo_home, monkeypatch):
    half, go_on = threading.Event(), threading.Event()
    count = writing.PieceWriter.count

    def held(self, rows):
        if rows:
            half.set()
            assert go_on.wait(20)
        count(self, rows)

    monkeypatch.setattr(writing.PieceWriter, "count", held)
    drawn = dialog("ui.sessions.session_dialogs", "branch_dialog", "demo", 5)
    button(drawn, "Branch").click().run()
    assert half.wait(20)
    assert "Branching" in joined(drawn)
    button(drawn, "Cancel").click().run()
    go_on.set()
    drawn_until(drawn, lambda: drawn.info)
    assert not drawn.error
    assert list(sessions()) == ["Birthday dinner"]


# -- exporting and importing ---------------------------------------------------------------------


def test_every_export_is_made_under_a_name_that_any_system_takes(demo_home):
    files = {export.file_name: export.make() for export in exports("demo", 'a/b: "c"')}
    assert list(files) == [
        "a b c.zip",
        "a b c.messages.jsonl",
        "a b c.chat_store.json",
        "a b c.configuration.json",
        "a b c.py",
        "a b c.llamaindex.py",
    ]
    assert files["a b c.zip"].startswith(b"PK")
    assert len(files["a b c.messages.jsonl"].splitlines()) == 22
    assert json.loads(files["a b c.configuration.json"])
    compile(files["a b c.py"], "export.py", "exec")
    there = {}
    exec(compile(files["a b c.llamaindex.py"], "export.py", "exec"), there)
    assert there["memory"].token_limit == 1200
    assert [block.name for block in there["memory"].memory_blocks] == [
        attached.name for attached in services.engine().open("demo").blocks
    ]


def test_the_export_dialog_offers_them_all(demo_home):
    drawn = dialog("ui.sessions.session_files", "export_dialog", "demo")
    assert not drawn.exception
    labels = [each.proto.label for each in drawn.get("download_button")]
    assert len(labels) == 6
    assert labels[-2:] == ["As Python", "As Python for LlamaIndex"]


def test_a_bundle_opens_as_a_session_with_everything(demo_home, monkeypatch):
    monkeypatch.setattr("ui.sessions.session_dialogs.SHOWN_AFTER_SECONDS", 20)  # however busy the machine is
    before = sessions()["Birthday dinner"]
    drawn = uploaded("party.zip", write_bundle(database(), "demo"))
    assert "11 turns, 22 messages," in joined(drawn)
    assert f"{before.tokens} tokens, {before.facts} facts," in joined(drawn)
    assert "3 stored turns," in joined(drawn)
    drawn.text_input(key="import__title").set_value("The same party").run()
    button(drawn, "Import").click().run()
    found = sessions()["The same party"]
    assert (found.status.turns, found.messages, found.tokens, found.facts, found.status.flushes) == (
        before.status.turns,
        before.messages,
        before.tokens,
        before.facts,
        before.status.flushes,
    )
    assert opened_by(drawn) == found.status.session_id
    assert found.origin.kind == "import"


def test_a_bundle_that_is_cut_off_imports_nothing(demo_home):
    drawn = uploaded("bundle.zip", write_bundle(database(), "demo")[:3_000])
    (sentence,) = said(drawn)
    assert "bundle" in sentence
    assert "Nothing was imported" in sentence
    assert len(sessions()) == 1


def test_a_file_above_the_limit_is_named_with_both_sizes(demo_home):
    drawn = uploaded("big.txt", b"word " * (62 * 1024 * 1024 // 5))
    assert said(drawn)[0].replace("\\", "").startswith("File is 62 MB. The most is 20 MB.")


def as_jsonl(messages):
    return "\n".join(json.dumps({"role": role, "content": text}) for role, text in messages).encode()


def tool_calls(data_file):
    """62 messages with tool calls, and a system message before them."""
    return "airline.json", data_file("tau-bench/one_conversation.json").read_bytes()


def long_talk(data_file):
    """The first 120 messages of two people's talk over months."""
    conversation = json.loads(data_file("locomo/locomo5.json").read_text())[0]["conversation"]
    said = [each for number in range(1, 40) for each in conversation.get(f"session_{number}", [])]
    roles = {conversation["speaker_a"]: "user", conversation["speaker_b"]: "assistant"}
    return "talk.jsonl", as_jsonl([(roles[each["speaker"]], each["text"]) for each in said[:120]])


@pytest.mark.slow
@pytest.mark.parametrize("file", [tool_calls, long_talk])
def test_what_an_import_foretells_is_what_happens_when_it_is_opened_as_already_played(demo_home, file, data_file):
    drawn = uploaded(*file(data_file))
    words = joined(drawn)
    (foretold,) = [line for line in words.splitlines() if line.startswith("Playing it makes ")]
    (counted,) = [line for line in words.splitlines() if " messages, " in line and "tokens." in line]
    button(drawn, "Play it all now").click().run()
    made = next(id for id in (found.status.session_id for found in overview(database())) if id != "demo")
    job = services.engine().job(made)
    assert job.wait(90)
    assert job.error is None
    drawn.run()
    assert opened_by(drawn) == made
    memory = services.engine().open(made)
    recording, status = memory.session.recording(), memory.session.status()
    assert not recording.next_turn
    assert f"{len(recording.messages)} messages, {status.turns} turns, " in counted
    assert foretold.startswith(f"Playing it makes {status.flushes} flush")
    prompts = [turn for turn in memory.log.history().turns.values() if turn.built]
    assert len(prompts) >= status.turns - 1  # a turn that nobody answered has none


def test_playing_an_import_can_be_cancelled_and_what_was_played_stays(demo_home, data_file):
    drawn = uploaded(*long_talk(data_file))
    button(drawn, "Play it all now").click().run()
    played = re.compile(r"Playing without pauses: [1-9]\d* of 120 messages")
    drawn_until(drawn, lambda: any(played.search(each.proto.text) for each in drawn.get("progress")))
    made = next(id for id in (found.status.session_id for found in overview(database())) if id != "demo")
    button(drawn, "Cancel").click().run()
    assert services.engine().job(made).wait(30)
    drawn.run()
    assert opened_by(drawn) == made
    recording = services.engine().open(made).session.recording()
    assert 0 < recording.played < 120
    assert len(services.engine().open(made).session.messages()) == recording.played


def test_a_dialog_that_is_closed_in_the_middle_loses_nothing_and_doubles_nothing(demo_home, data_file):
    name, data = long_talk(data_file)
    drawn = uploaded(name, b"\n".join(data.split(b"\n")[:40]))
    button(drawn, "Play it all now").click().run()
    drawn_until(drawn, lambda: len(overview(database())) == 2)
    made = next(id for id in (found.status.session_id for found in overview(database())) if id != "demo")
    app = opened(session=made)  # somebody opens it meanwhile, and presses what there is to press
    assert not app.exception
    assert services.engine().job(made).wait(60)
    memory = services.engine().open(made)
    assert [stored.message.content for stored in memory.session.messages()] == [
        message.content for message in memory.session.recording().messages
    ]
    assert len(overview(database())) == 2


def test_of_a_chat_store_with_several_keys_one_is_chosen(demo_home):
    a = json.loads(export_chat_store(services.engine().open("demo")))
    a["store"]["other"] = [{"role": "user", "content": "Only this"}]
    drawn = uploaded("whatever.json", json.dumps(a).encode())
    assert "LlamaIndex chat store" in joined(drawn)
    (choice,) = drawn.selectbox
    assert len(choice.options) == 2
    choice.set_value(1).run()
    assert "1 message, 1 turn," in joined(drawn)
    button(drawn, "Step through").click().run()
    memory = services.engine().open(opened_by(drawn))
    assert [message.content for message in memory.session.recording().messages] == ["Only this"]


def test_what_will_be_skipped_is_said_before_it_is_imported(demo_home):
    lines = [{"role": "user", "content": "" if number in (1, 4) else f"word {number}"} for number in range(6)]
    drawn = uploaded("talk.jsonl", "\n".join(json.dumps(line) for line in lines).encode())
    assert "4 messages, 4 turns, about 12 tokens. 2 will be skipped: lines 2, 5 have no text." in joined(drawn)


def test_a_configuration_starts_an_empty_session_with_its_settings(demo_home):
    drawn = uploaded("settings.json", export_configuration(services.engine().open("demo")).encode())
    assert "3 blocks. Token limit 1,200." in joined(drawn)
    drawn.text_input(key="import__title").set_value("Same settings").run()
    button(drawn, "Start a session with it").click().run()
    opened_by(drawn)
    found = sessions()["Same settings"]
    memory = services.engine().open(found.status.session_id)
    assert (found.messages, found.facts, memory.session.config.token_limit) == (0, 0, 1200)
    assert [attached.name for attached in memory.blocks] == ["Instructions", "Facts", "Earlier turns"]


def test_nothing_is_read_twice_however_often_the_dialog_is_drawn(demo_home, monkeypatch):
    from ui.sessions import session_files

    read, real = [], session_files.read_file
    noting = lambda name, *rest, **more: read.append(name) or real(name, *rest, **more)  # noqa: E731
    monkeypatch.setattr(session_files, "read_file", noting)
    drawn = uploaded("party.zip", write_bundle(database(), "demo"))
    drawn.text_input(key="import__title").set_value("Another title").run()
    assert read == ["party.zip"]


# -- health --------------------------------------------------------------------------------------


def badges(app):
    return [each.value for each in app.markdown if "-badge[" in each.value]


def glance():
    """What the sidebar says of a server that has drawn its first pages."""

    def script():
        import streamlit as st

        from ui.sessions import health
        from ui.sessions.health import at_a_glance

        health.watch()._began -= 2 * health.QUIET_SECONDS

        st.text(repr(at_a_glance()))

    return AppTest.from_function(script, default_timeout=60).run().text[0].value


def test_every_part_shows_how_it_is_and_how_fast(demo_home):
    app = page()
    shown = "\n".join(badges(app)).replace("\\", "")
    for words in ("Database ", "Vectors ", "Embeddings local, ", "Chat model: offline rules"):
        assert words in shown
    assert shown.count(":material/check:") == 3
    assert glance() == "None"


def test_before_the_first_look_the_line_says_that_it_is_being_checked(demo_home, monkeypatch):
    monkeypatch.setattr(health.Watch, "look", lambda self, key, check, older_than=0.0: None)
    monkeypatch.setattr(health.Watch, "looking", lambda self, key: True)
    app = opened(page="sessions")
    assert ":small[:shimmer[Checking]]" in [each.value for each in app.markdown]
    assert "1 session" in joined(app)
    assert "working" not in joined(app)


def test_a_vector_server_that_is_down_is_said_with_what_to_do(demo_home, monkeypatch):
    monkeypatch.setenv("MEMORY_INSPECTOR_CHROMA_URL", "http://127.0.0.1:9")
    app = page()
    assert any(
        "Vectors: no answer at 127.0.0.1:9. Start the server or unset the address. "
        "Messages are kept and will be indexed later." in each.value.replace("\\", "").replace("\N{WORD JOINER}", "")
        for each in app.error
    )
    assert "not working: vectors" in joined(app)
    assert glance() == "('error', 'Vector index not reachable')"
    app.button(key="sessions__rebuild_failed").click().run()
    assert told(app)[0].startswith("The index was not rebuilt: Nothing answers at 127.0.0.1:9.")


def test_an_impossible_model_address_is_a_failed_part_and_never_shows_the_key(demo_home, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "ftp://models")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-123")
    app = opened(page="sessions")
    health.watch().wait("wrong address", 30)
    app.run()
    shown = "\n".join([*joined(app).splitlines(), *(each.value for each in app.error)]).replace("\\", "")
    assert "Chat model: the address of the model must start with http" in shown.replace("\N{WORD JOINER}", "")
    assert "sk-secret-123" not in shown


def test_checking_again_asks_every_part_anew(demo_home, embedder, monkeypatch):
    app = page()
    before = health.watch().latest("offline")
    app.button(key="sessions__check").click().run()
    health.watch().wait("offline", 30)
    app.run()
    assert not app.exception
    assert health.watch().latest("offline").at > before.at


def test_the_index_is_rebuilt_and_that_is_told(demo_home):
    app = page()
    app.session_state["sessions__maintenance"] = True
    app.run()
    shown = joined(app)
    assert "Database: " in shown
    assert "Oldest session: used " in shown
    assert "memory-inspector maintain" in shown
    assert "Vectors: Chroma in " in shown
    app.button(key="sessions__rebuild_index").click().run()
    assert ["rebuilt: 3 vectors." in each for each in told(app)] == [True]


def test_the_file_gives_back_the_space_of_what_was_erased(demo_home, monkeypatch):
    monkeypatch.setattr(health, "MIN_FREE_BYTES", 1)
    delete_session(database(), services.engine().open("demo").branch(11).session_id)
    total, free = size_of(database())
    assert free > 50_000
    app = page()
    app.session_state["sessions__maintenance"] = True
    app.run()
    app.button(key="sessions__compact").click().run()
    assert told(app)[0].startswith("The database takes ")
    after, left = size_of(database())
    assert (after <= total - free, left) == (True, 0)


def test_a_database_that_cannot_be_opened_is_seen_at_a_glance(home):
    home.mkdir()
    (home / "memory.db").mkdir()
    assert glance() == "('database_off', 'Database not reachable')"


def test_an_agent_file_is_imported_as_it_stands_after_what_comes_and_what_does_not_was_said(demo_home, data_file):
    drawn = uploaded("loop.af", data_file("stores/loop.af").read_bytes())
    told_before = joined(drawn).replace("\\", "")
    assert "3 messages in the queue, 0 archived. 9 memory blocks: about_user, " in told_before
    assert "Token limit 90,000." in told_before
    assert "9 tools are not carried over" in told_before
    assert len(sessions()) == 1
    button(drawn, "Import as it stands").click().run()
    memory = services.engine().open(opened_by(drawn))
    assert memory.session.status().queue_messages == 2
    blocks = opened(page="blocks", session=memory.session_id)
    assert not blocks.exception
    assert "241 of 20,000 characters" in joined(blocks)


def test_a_folder_of_notes_opens_on_its_blocks_and_its_past_is_on_the_timeline(demo_home):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("memory/people/mira.md", "Lives in Lisbon.")
        archive.writestr("memory/tool.py", "x = 1")
    drawn = uploaded("memory.zip", packed.getvalue())
    told_before = joined(drawn).replace("\\", "")
    assert "1 memory block: people/mira.md." in told_before
    assert "It has no git history" in told_before
    assert "1 file is left out: by its ending no note" in told_before
    assert button(drawn, "Step through").disabled
    button(drawn, "Import as it stands").click().run()
    made = opened_by(drawn)
    timeline = opened(page="timeline", session=made)
    assert not timeline.exception
    assert any("Wrote the text of people/mira.md" in str(frame.value) for frame in timeline.dataframe)


def test_what_agents_sent_and_could_not_be_recorded_is_told_until_somebody_has_read_it(demo_home):
    refused_spans.add("", NASTY, ["gen_ai.prompt holds no messages"])
    try:
        app = page()
        (warning,) = [each.value for each in app.warning]
        assert "Not recorded of what agents sent" in warning
        assert NASTY in warning.replace("\\", "").replace("\N{WORD JOINER}", "")
        app = press(app, "Dismiss")
        assert not app.warning
    finally:
        refused_spans.forget("")
