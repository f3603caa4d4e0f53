"""The Timeline page, drawn and clicked in this process."""

import json
import re
from types import SimpleNamespace

import pytest
from engine_fakes import NoteExtractor
from pages_driver import button, joined, message_texts, opened, press, session_picker, turn_picked

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, delete_session
from memory_core.curation.known_facts import FactsAsked
from memory_core.events import ContextBuilt, DeliveryDone, FactAdded, FlushPlanned, ModelCalled, Retrieved, UnknownEvent
from memory_core.planning.curation import FactDraft
from memory_inspector.palette import DARK, LIGHT
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import plain, short
from ui.tab import services
from ui.timeline import event_drawer

pytestmark = pytest.mark.slow

NASTY = "<img src=x onerror=alert(1)> ![x](http://evil.test/a.png) **bold** :red[r] $a$"
"""Markup of every sort that must come out as it was typed."""


def timeline(**query):
    return opened(page="timeline", **query)


def demo():
    return services.engine().open("demo")


def play_on(turns):
    """Play the demo further: its first cut falls in turn 12."""
    play(Job("test"), demo(), turns=turns, pace=0)
    return demo()


def of_kind(memory, kind):
    return [record for record in memory.events() if isinstance(record.event, kind)]


def rows(app):
    """The event list as it is shown, without its times."""
    return app.dataframe[0].value[["Turn", "What happened", "By"]].values.tolist()


def sentences(app):
    return [row[1] for row in rows(app)]


def with_drawer(app, session_id, position):
    """The page with the drawer of one event, as a click on it leaves it."""
    app.session_state["timeline_opened"] = (session_id, position)
    return app.run()


def first_sentence(app):
    return next(each.value for each in app.markdown if " in " in each.value and each.value.endswith("."))


# -- what is on it -------------------------------------------------------------------------------


def test_it_opens_with_its_numbers_in_one_sentence(demo_home):
    app = timeline(session="demo")
    assert not app.exception
    memory = demo()
    flushes, facts = len(of_kind(memory, FlushPlanned)), len(of_kind(memory, FactAdded))
    assert first_sentence(app) == f"{flushes} flush, 0 cuts, {facts} facts in 11 turns."
    assert [each.value for each in app.title] == ["Timeline"]


def test_every_event_is_listed_newest_first_in_plain_words(demo_home):
    app = timeline(session="demo")
    app.toggle(key="timeline__bookkeeping").set_value(True).run()
    events = demo().events()
    listed = rows(app)
    assert len(listed) == len(events)
    assert f"{len(events)} events, newest first" in joined(app)
    assert listed[0][0] == 11
    assert listed[0][1].startswith("The assistant said “Eight people")
    assert {row[2] for row in listed} == {"engine", "user"}
    assert "Learned “Ana is allergic to nuts”" in sentences(app)
    assert not any("newer version" in sentence for sentence in sentences(app))


def test_bookkeeping_is_left_out_until_it_is_asked_for(demo_home):
    app = timeline(session="demo")
    events = demo().events()
    done = sum(isinstance(record.event, DeliveryDone) for record in events)
    assert done
    assert not [sentence for sentence in sentences(app) if " updated in " in sentence]
    shown = len(rows(app))
    assert f"{shown} events, {len(events) - shown} routine ones hidden, newest first" in joined(app)
    app.text_input(key="timeline__text").input("updated in").run()
    assert len(rows(app)) == done
    app.text_input(key="timeline__text").input("").run()
    app.selectbox(key="timeline__group").select("Deliveries").run()
    assert len([sentence for sentence in sentences(app) if " updated in " in sentence]) == done


def test_looking_changes_nothing(demo_home):
    app = timeline(session="demo")
    before = demo().session.status().position
    with_drawer(app, "demo", of_kind(demo(), FlushPlanned)[0].position)
    assert demo().session.status().position == before


def test_an_empty_session_says_what_will_be_here(home):
    memory = new_memory(services.engine(), title="Mine")
    app = timeline(session=memory.session_id)
    assert not app.exception
    assert "Nothing has happened yet." in joined(app)
    assert "Every decision memory makes will be listed here." in joined(app)
    assert list(app.dataframe) == []


def test_a_program_that_keeps_facts_without_a_conversation_is_seen(demo_home):
    database = services.engine().database
    block = FactExtractionMemoryBlock(name="items")
    memory = Memory.from_defaults("store", database=database, memory_blocks=[block])
    metadata = {"text": NASTY, "n": 3}
    memory.facts.desk("items").put({f"users/{NASTY}": FactDraft(NASTY, metadata=metadata)})
    memory.facts.record_reads("items", [FactsAsked(memory.facts.read("items"), query=NASTY), FactsAsked((), key="x")])
    app = timeline(session="store")
    assert "4 events about facts, kept by a program: no conversation yet." in joined(app)
    assert sentences(app)[:2] == [
        "items was asked under x, and found nothing",
        f"items was asked for “{short(NASTY, 60)}”: 1 fact",
    ]
    facts = opened(page="facts", session="store")
    assert f":small[:gray[Under the key] {plain('users/' + NASTY)}]" in [each.value for each in facts.markdown]
    assert metadata in [json.loads(code.value) for code in facts.code]


def test_the_first_cut_is_told_by_its_rule(demo_home):
    memory = play_on(1)
    app = timeline(session="demo")
    built = of_kind(memory, ContextBuilt)[-1].event
    cut = built.cuts[0]
    asked = next(part["asked"] for part in built.parts if part["name"] == "Earlier turns")
    assert f"Cut {cut['tokens']} of {asked} tokens from Earlier turns: priority 2 goes first" in sentences(app)
    assert "1 cut," in first_sentence(app)


def test_the_figure_and_its_table_hold_the_events_own_numbers(demo_home):
    memory = play_on(1)
    app = timeline(session="demo")
    app.session_state["timeline__numbers"] = True
    app.run()
    built = of_kind(memory, ContextBuilt)[-1].event
    newest = app.dataframe[0].value.to_dict("records")[0]
    assert newest["Turn"] == 12
    assert newest["Sent"] == built.total
    assert newest["Queue"] + sum(newest[part["name"]] for part in built.parts) == built.total
    assert newest["Flushed"] == of_kind(memory, FlushPlanned)[-1].event.tokens
    assert len(app.get("plotly_chart")) == 3


def test_the_calls_of_the_shown_turn_stand_with_their_times_and_cost(demo_home):
    demo().log.record(
        ModelCalled("extract", "gpt-x", 1000, 50, 1.25, 0.001, "Facts"),
        ModelCalled("reply", "gpt-x", None, None, 3.0, None, None, "It did not answer."),
    )
    app = timeline(session="demo")
    app.session_state["timeline__turn_calls_numbers"] = True
    app.run()
    assert "**Calls of turn 11**" in joined(app)
    assert "4.2 s in models, $0.0010, 1 failed." in joined(app)
    calls = next(each.value for each in app.dataframe if "Milliseconds" in each.value).to_dict("records")
    failed, learned = [row for row in calls if row["Of"] == "gpt-x"]
    assert (failed["Milliseconds"], failed["Failed"]) == (3000, "yes")
    assert (learned["Milliseconds"], learned["Cost"], learned["Failed"]) == (1250, "$0.0010", "")
    assert "**Calls of turn 1**" not in joined(timeline(session="demo", turn="1"))


def test_every_message_has_a_outcome(demo_home):
    memory = play_on(1)
    app = timeline(session="demo")
    status = memory.session.status()
    assert f"{status.queue_messages} in the queue".replace(" ", "\N{NO-BREAK SPACE}") in joined(app)
    app.session_state["timeline__fate_numbers"] = True
    app.run()
    outcomes = app.dataframe[0].value.to_dict("records")
    assert sum(outcome["Number"] for outcome in outcomes) == status.queue_messages + status.archived_messages
    assert {outcome["Outcome"] for outcome in outcomes} >= {"flushed, recalled", "in the queue"}


def test_the_dark_page_draws_in_dark_colours(demo_home):
    app = timeline(session="demo", theme="dark")
    figure = app.get("plotly_chart")[0].proto.spec
    assert DARK.queue in figure
    assert LIGHT.queue not in figure


def test_a_session_that_is_gone_is_one_sentence(demo_home):
    memory = new_memory(services.engine(), title="Mine")
    app = timeline(session=memory.session_id)
    delete_session(services.engine().database, memory.session_id)
    app.run()
    assert not app.exception


# -- the past ------------------------------------------------------------------------------------


def test_of_an_earlier_turn_the_whole_stays_and_the_list_ends_with_it(demo_home):
    app = timeline(session="demo", turn="8")
    assert not app.exception
    assert first_sentence(app).endswith("in 11 turns. Up to turn 8: 0 flushes, 0 cuts, 0 facts.")
    assert rows(app)[0][0] == 8
    assert "end of turn 8" in joined(app)
    assert "16 in the queue".replace(" ", "\N{NO-BREAK SPACE}") in joined(app)
    assert "flushed," not in joined(app)
    app.toggle(key="timeline__upto").set_value(False).run()
    assert rows(app)[0][0] == 11


def test_an_event_can_set_the_clock_for_every_page(demo_home):
    flush = of_kind(demo(), FlushPlanned)[0]
    app = with_drawer(timeline(session="demo"), "demo", flush.position)
    press(app, "Show turn 10 everywhere")
    assert turn_picked(app) == 10
    assert "timeline_opened" not in app.session_state
    assert rows(app)[0][0] == 10
    app = with_drawer(app, "demo", demo().session.status().position)
    press(app, "Back to the latest turn")
    assert turn_picked(app) is None


# -- finding -------------------------------------------------------------------------------------


def test_the_list_can_be_narrowed_by_kind_actor_block_and_words(demo_home):
    app = timeline(session="demo")
    app.selectbox(key="timeline__group").select("Facts").run()
    assert sentences(app)[0].startswith("Learned") or "found" in sentences(app)[0]
    assert all(word in ("Learned", "Facts") for word in {sentence.split()[0] for sentence in sentences(app)})
    app.text_input(key="timeline__text").input("ANA allergic").run()
    assert sentences(app) == ["Learned “Ana is allergic to nuts”"]
    app.selectbox(key="timeline__block").select("Earlier turns").run()
    assert "No event matches." in joined(app)
    press(app, "Clear filters")
    assert f"{len(rows(app))} events, " in joined(app)
    app.selectbox(key="timeline__actor").select("user").run()
    assert sentences(app)[0].startswith("Imported 36 messages")


def test_a_long_list_is_paged_and_other_filters_begin_at_their_first_page(demo_home):
    memory = new_memory(services.engine(), title="Long")
    for number in range(130):
        memory.put(ChatMessage(role="user", content=f"message number {number}"))
    total = len(memory.events())
    app = timeline(session=memory.session_id)
    assert not app.exception
    assert len(rows(app)) == 100
    assert f"Page 1 of 2, {total} events" in joined(app)
    assert sentences(app)[0].startswith("The user said “message number 129”")
    app.pagination[0].set_value(2).run()
    assert len(rows(app)) == total - 100
    app.text_input(key="timeline__text").input("user said 12").run()
    assert len(rows(app)) == 12  # 12, 112, 120 to 129
    assert "12 events, newest first" in joined(app)


def test_a_new_event_is_in_the_list_at_the_next_drawing(demo_home):
    app = timeline(session="demo")
    demo().put(ChatMessage(role="user", content="Something new from elsewhere"))
    app.run()
    assert sentences(app)[0].startswith("The user said “Something new from elsewhere”")


def test_events_of_a_newer_version_are_counted(demo_home):
    demo().log.record(UnknownEvent("dreamed", {"of": NASTY}), UnknownEvent("woke", {}))
    app = timeline(session="demo")
    said = [each.value for each in app.warning]
    assert said == ["2 events were written by a newer version and are shown without details."]
    position = demo().session.status().position
    app.session_state["timeline__raw"] = True
    app = with_drawer(app, "demo", position - 1)
    assert "dreamed" in app.code[0].value
    assert NASTY in app.code[0].value


def test_words_that_were_erased_are_not_shown_any_more(demo_home):
    memory = new_memory(services.engine(), title="Mine")
    memory.put(ChatMessage(role="user", content="The password is swordfish"))
    app = timeline(session=memory.session_id)
    assert any("swordfish" in sentence for sentence in sentences(app))
    memory.reset()
    app.run()
    assert not app.exception
    assert not any("swordfish" in sentence for sentence in sentences(app))
    assert any("something that has been erased since" in sentence for sentence in sentences(app))
    app.text_input(key="timeline__text").input("swordfish").run()
    assert "No event matches." in joined(app)


def test_the_users_facts_are_named_wherever_they_were_learned(demo_home):
    """A fact of another session is confirmed in this one; erased over there, its words are gone here as well."""
    shared = services.engine()
    note = "note 17"
    uri, llm = f"sqlite:///{shared.settings.home}/memory.db", NoteExtractor()
    learned = [
        Memory.from_defaults(
            name,
            "sam",
            database_uri=uri,
            memory_blocks=[FactExtractionMemoryBlock(name="About Sam", priority=1, scope="user", llm=llm)],
        )
        for name in ("bees-one", "bees-two")
    ]
    for memory in learned:
        memory.put(ChatMessage(role="user", content=note))
        memory.flush(all=True)
    (fact,) = learned[0].facts.read("About Sam")
    app = timeline(session="bees-two")
    assert any(sentence.startswith(f"Already known: “{fact.text}”") for sentence in sentences(app))
    learned[0].facts.desk("About Sam").erase([fact])
    app.run()
    assert any(sentence.startswith("Already known: “an erased fact”") for sentence in sentences(app))
    for memory in learned:
        memory.session.database.close()


def test_a_filter_stays_while_events_come_in_and_goes_with_what_it_asked_for(demo_home):
    app = timeline(session="demo")
    app.selectbox(key="timeline__group").select("Messages").run()
    demo().put(ChatMessage(role="user", content="Something new from elsewhere"))
    app.run()
    assert sentences(app)[0].startswith("The user said “Something new from elsewhere”")
    assert all(" said “" in sentence for sentence in sentences(app))
    app.selectbox(key="timeline__group").select("Flushes").run()
    other = new_memory(services.engine(), title="Other")
    other.put(ChatMessage(role="user", content="hello"))
    app.run()
    session_picker(app).select(other.session_id).run()
    assert not app.exception
    assert sentences(app)[0].startswith("The user said “hello”")


# -- one event -----------------------------------------------------------------------------------


def test_a_flush_tells_what_left_and_what_every_block_made_of_it(demo_home):
    memory = demo()
    flush = of_kind(memory, FlushPlanned)[0]
    app = with_drawer(timeline(session="demo"), "demo", flush.position)
    assert not app.exception
    text = joined(app)
    left = app.dataframe[-1].value
    assert len(left) == flush.event.messages
    assert sum(left["Tokens"]) == flush.event.tokens
    assert left["Message"][0].startswith("Hello, my name is Sam")
    learned = memory.facts.read("Facts")
    assert f"**Facts**: learned {len(learned)} facts" in text
    assert all(fact.text in text for fact in learned)
    assert f"**Earlier turns**: stored {len(memory.retrieval.stored_turns('Earlier turns'))} turns" in text
    assert button(app, "Context of turn 10")


def test_a_cut_tells_what_was_left_out(demo_home):
    memory = play_on(1)
    built = of_kind(memory, ContextBuilt)[-1]
    app = with_drawer(timeline(session="demo"), "demo", built.position)
    text = joined(app)
    assert "1. The prompt was 38 tokens over, so turn 4" in text
    assert f"({built.event.cuts[0]['tokens']} tokens, lowest score" in text
    cells = app.table[0].value.values.tolist()
    assert [":gray[Sent]", f"{built.event.total:,} of 1,200".replace(",", "\\,")] in [list(row) for row in cells]


def test_a_search_tells_its_question_and_the_turns_it_brought_back(demo_home):
    memory = demo()
    search = of_kind(memory, Retrieved)[-1]
    app = with_drawer(timeline(session="demo"), "demo", search.position)
    granted = [candidate for candidate in search.event.candidates if candidate[4] == "granted"]
    assert f"Recalled {len(granted)} earlier turn" in joined(app)
    assert "Hello, my name is Sam" in joined(app) or "Careful with dessert" in joined(app)
    assert message_texts(app)[-1].startswith("Asked with: ")


@pytest.mark.parametrize("position", [0, 10_000])
def test_a_position_that_is_not_in_the_log_is_said(demo_home, position):
    app = with_drawer(timeline(session="demo"), "demo", position)
    assert [each.value for each in app.warning] == ["This event is not in the log any more."]


def test_the_raw_record_is_there_when_it_is_asked_for(demo_home):
    flush = of_kind(demo(), FlushPlanned)[0]
    app = timeline(session="demo")
    app = with_drawer(app, "demo", flush.position)
    assert list(app.code) == []
    app.session_state["timeline__raw"] = True
    app.run()
    assert '"kind": "flush_planned"' in app.code[0].value
    assert '"queue_before": ' in app.code[0].value


@pytest.mark.slow
def test_markup_in_messages_names_and_facts_is_shown_as_it_was_typed(demo_home):
    name = "![x](http://evil.test/a.png) **bold** :red[r]"
    memory = new_memory(services.engine(), title="Mine")
    memory.blocks.add(FactExtractionMemoryBlock(name=name, priority=3, facts=[NASTY]))
    memory.put(ChatMessage(role="user", content=NASTY))
    memory.build_context()
    memory.flush(all=True)
    app = timeline(session=memory.session_id)
    assert not app.exception
    assert any(NASTY[:30] in sentence for sentence in sentences(app))
    for record in memory.events():
        app = with_drawer(app, memory.session_id, record.position)
        assert not app.exception, record
        shown = [each.value for each in app.markdown]
        assert not [value for value in shown if re.search(r"(?<!\\)(!\[x\]|<img|:red\[r\]|\*\*bold)", value)], record
    assert plain(name[:23]) in "".join(each.value for each in app.markdown)


@pytest.mark.slow
def test_every_event_of_the_demo_has_a_drawer(demo_home):
    memory = play_on(7)
    app = timeline(session="demo")
    seen = set()
    for record in memory.events():
        if record.kind not in seen:
            seen.add(record.kind)
            app = with_drawer(app, "demo", record.position)
            assert not app.exception, record
    assert len(seen) >= 12


# -- model calls ---------------------------------------------------------------------------------


def test_without_model_calls_the_ledger_says_why(demo_home):
    app = timeline(session="demo")
    app.segmented_control(key="timeline__view").set_value("Model calls").run()
    assert "No model was called" in joined(app)


def test_model_calls_are_listed_by_turn_with_their_sums(demo_home):
    demo().log.record(
        ModelCalled("extract", "gpt-x", 1000, 50, 1.25, 0.001, "Facts"),
        ModelCalled("extract", "gpt-x", 500, 25, 0.75, 0.0005, "Facts"),
        ModelCalled("reply", "gpt-x", None, None, 3.0, None, None, "It did not answer."),
    )
    app = timeline(session="demo")
    app.segmented_control(key="timeline__view").set_value("Model calls").run()
    assert not app.exception
    assert "3 calls, 1,500 tokens in, 75 out, 5.0 s, about $0.0015, 1 failed." in joined(app)
    listed = app.dataframe[0].value.to_dict("records")
    found = [(row["For"], row["Model"], row["Calls"], row["Tokens in"]) for row in listed]
    assert found[0] == ("find facts", "gpt-x", 2, 1500)


# -- clicks --------------------------------------------------------------------------------------


@pytest.fixture
def tab(monkeypatch):
    """One tab's memory, with a session selected."""
    remembered = {"session": "demo"}
    monkeypatch.setattr(event_drawer, "st", SimpleNamespace(session_state=remembered))
    monkeypatch.setattr(event_drawer.state, "st", SimpleNamespace(session_state=remembered))
    return remembered


def test_a_row_opens_its_event_and_closing_takes_the_click_back(tab):
    tab[event_drawer.LIST] = {"selection": {"rows": [1], "columns": [], "cells": []}}
    event_drawer.take_row((30, 20, 10))
    assert event_drawer.opened_event() == 20
    event_drawer.close()
    assert event_drawer.opened_event() is None
    event_drawer.take_row((30, 20, 10))
    assert event_drawer.opened_event() is None


@pytest.mark.parametrize("point", [{"x": 3, "y": 400}, {"x": 3, "y": 400, "customdata": 0}])
def test_what_stands_for_no_event_opens_nothing(tab, point):
    key = event_drawer.figure_key()
    tab[key] = {"selection": {"points": [point]}}
    event_drawer.take_mark(key)
    assert event_drawer.opened_event() is None


def test_a_mark_opens_its_event(tab):
    key = event_drawer.figure_key()
    tab[key] = {"selection": {"points": [{"x": 3, "y": 1300, "customdata": 42}]}}
    event_drawer.take_mark(key)
    assert event_drawer.opened_event() == 42
    event_drawer.close()
    assert event_drawer.figure_key() != key


def test_a_drawer_is_open_in_its_own_session_only(tab):
    event_drawer.open_event(42)
    tab["session"] = "other"
    assert event_drawer.opened_event() is None
