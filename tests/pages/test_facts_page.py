"""The Facts page: every flow once, in the real app."""

import threading
import zlib
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from pages_driver import button, dialog, joined, opened, press, said, with_toasts
from sqlalchemy import update
from streamlit.testing.v1 import AppTest

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, Services
from memory_core.events import Ref
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.models.protocols import Condensation, CondensedFact, ExtractedFact, Extraction
from memory_core.planning import curation as plans
from memory_core.store.tables import fact_table
from memory_inspector.files.stores.memory_stores import PROGRAMS
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import demo_memory
from ui.facts import fact_tab, review
from ui.facts.fact_tab import FactSnapshot
from ui.tab import services

pytestmark = pytest.mark.slow

HOSTILE = "![x](http://evil.test/x.png) <b>hi</b> $x$ :material/home:"


class Said:
    """Finds what stands after `FACT:` in a message; condenses to what it is told."""

    name = "said"
    offline = True

    def __init__(self, shorter=()):
        self.shorter = shorter

    def extract(self, messages, *, known):
        texts = [(place, message.content.partition("FACT:")[2].strip()) for place, message in enumerate(messages)]
        return Extraction(tuple(ExtractedFact(text, "other", source=place) for place, text in texts if text), ())

    def condense(self, facts, *, pinned, target):
        return Condensation(tuple(CondensedFact(text, "other", stands) for text, stands in self.shorter), ())


def demo(turns=0):
    memory = demo_memory(services.engine().database, services.engine().services)
    if turns:
        play(Job("test"), memory, turns=turns, pace=0)
    return memory


def desk(memory=None, block="Facts"):
    return (memory or services.engine().open("demo")).facts.desk(block)


def fact(text, curation=None):
    return next(each for each in (curation or desk()).facts() if each.text == text)


def learned(*texts, extractor=None, **settings):
    """A session of its own whose block has learned these facts."""
    memory = Memory.from_defaults(
        "mine",
        "sam",
        database_uri=services.engine().settings.database,
        title="Mine",
        services=Services(extractor=extractor or Said()),
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", **settings)],
    )
    for text in texts:
        memory.put(ChatMessage(role="user", content=f"By the way. FACT: {text}"))
        memory.put(ChatMessage(role="assistant", content="I see."))
    memory.flush(all=True)
    return memory


def facts_page(**query):
    app = opened(page="facts", **query)
    assert not app.exception, app.exception
    return app


def show(app, view):
    app.segmented_control[0].set_value(view).run()
    assert not app.exception, app.exception


def shown(app):
    """The words in the list, in order."""
    return list(app.dataframe[0].value["Fact"])


def words(app):
    return joined(app)


def notice(app):
    told = [*app.success, *app.info, *app.warning, *app.error]
    return "\n".join(each.value for each in told).replace("\\", "")


def take_back(app):
    """Take the newest change back; what the button says before that it will do."""
    button = app.button(key="facts__undo")
    said = button.proto.help
    button.click().run()
    assert not app.exception, app.exception
    return said


def select(app, rows=(), cell=None):
    """What the browser reports when the list is clicked."""
    cells = [] if cell is None else [(cell, "Fact")]
    key = app.dataframe[0].proto.id.rpartition("-")[2]
    app.session_state[key] = {"selection": {"rows": list(rows), "columns": [], "cells": cells}}
    app.run()
    return app


# -- the list and the panel ------------------------------------------------------------------------


def test_the_page_opens_with_its_numbers_and_the_newest_fact(demo_home):
    app = facts_page()
    facts = desk().facts(("active",))
    total = sum(each.tokens for each in facts)
    assert f"{len(facts)} active facts, {total} tokens." in words(app)
    assert shown(app) == [each.text for each in reversed(facts)]
    assert f"**{facts[-1].text}**" in words(app)
    assert "Said by the user" in words(app)


def test_a_link_opens_the_fact_it_names_in_its_view(demo_home):
    allergy = fact("Ana is allergic to nuts")
    app = facts_page(fact=str(allergy.id))
    assert "**Ana is allergic to nuts**" in words(app)
    assert "Careful with dessert, :blue-background[Ana is allergic to nuts] and it is serious" in words(app)
    desk().apply(plans.retire([allergy], "private"))
    app = facts_page(fact=str(allergy.id))
    assert shown(app) == ["Ana is allergic to nuts"]
    assert "Restore" in [each.label for each in app.button]


def test_a_link_finds_the_fact_in_whichever_block_holds_it(demo_home):
    services.engine().open("demo").blocks.add(FactExtractionMemoryBlock(name="About Sam", scope="user"))
    desk(block="About Sam").apply(plans.add("Sam sails"))
    app = facts_page(fact=str(fact("Sam sails", desk(block="About Sam")).id))
    assert shown(app) == ["Sam sails"]
    assert app.selectbox(key="facts__block_demo").value == "About Sam"


def test_a_link_to_a_fact_that_waits_shows_it_first(demo_home):
    memory = proposing("Ana likes jazz", "Rui bakes bread", "Teresa sails boats")
    app = facts_page(session="mine", fact=str(fact("Rui bakes bread", desk(memory)).id))
    assert "**Rui bakes bread**" in words(app)
    press(app, "Accept")
    assert "**Ana likes jazz**" in words(app)


def test_a_link_to_a_fact_that_is_not_there_says_so_and_opens_the_list(demo_home):
    app = facts_page(fact="99999")
    assert "This fact is not in the session any more, or never was. Showing the list." in notice(app)
    assert len(shown(app)) == 6


def test_a_search_without_a_hit_says_so_and_can_be_cleared(demo_home):
    app = facts_page()
    app.text_input[0].set_value("boat").run()
    assert 'No active fact contains "boat".' in words(app)
    press(app, "Clear")
    assert len(shown(app)) == 6


# -- editing ---------------------------------------------------------------------------------------


def test_saved_words_are_in_the_next_prompt_and_the_page_says_what_they_take(demo_home):
    jazz = fact("Ana likes jazz")
    app = facts_page(fact=str(jazz.id))
    app.text_area[0].set_value("Ana likes jazz and old films").run()
    assert "nothing more cut" in words(app)
    assert fact("Ana likes jazz").version == jazz.version
    press(app, "Save")
    assert "+3 tokens" in notice(app)
    context = services.engine().open("demo").build_context(record=False)
    assert "Ana likes jazz and old films" in context.messages[0].content
    assert take_back(app).endswith(": edited a fact")
    assert "Undone: edited a fact." in notice(app)
    assert "Ana likes jazz" in shown(app)


@pytest.mark.slow
def test_a_toast_takes_back_what_it_tells_of_and_nothing_else(demo_home):
    app = facts_page(fact=str(fact("Ana likes jazz").id))
    app.text_area[0].set_value("Ana likes jazz and old films").run()
    press(app, "Save")
    app.button(key="toast__undo_1").click().run()
    assert fact("Ana likes jazz")
    assert "Undone." in notice(app)
    app.text_area[0].set_value("Ana likes fado").run()
    press(app, "Save")
    desk().apply(plans.retire([fact("Ana is allergic to nuts")]))  # in another tab, after it
    app.button(key="toast__undo_3").click().run()
    assert "Undone." in notice(app)
    assert fact("Ana likes jazz")
    assert fact("Ana is allergic to nuts").state == "retired"


def test_a_toast_says_who_changed_since_what_it_tells_of_and_leaves_that_alone(demo_home):
    app = facts_page(fact=str(fact("Ana likes jazz").id))
    app.text_area[0].set_value("Ana likes fado").run()
    press(app, "Save")
    desk().apply(plans.pin([fact("Ana likes fado")]))  # in another tab, after it
    app.button(key="toast__undo_1").click().run()
    assert 'The fact "Ana likes fado" was changed since by a person in turn 11: pinned a fact.' in notice(app)
    assert fact("Ana likes fado").pinned


def listed(app):
    """The changes that the drawer lists, each with the button beside it."""
    buttons = [each for each in app.button if (each.key or "").startswith("changes__")]
    told = [each.value.replace("\\", "") for each in app.markdown if ":small[:gray[Turn" in each.value]
    return [(said, button.label, button.disabled) for said, button in zip(told, buttons, strict=True)]


def test_an_older_change_is_undone_from_the_list_and_done_again_and_what_cannot_be_says_why(demo_home):
    jazz, nuts = fact("Ana likes jazz"), fact("Ana is allergic to nuts")
    desk().apply(plans.edit(jazz, "Ana likes fado"))
    desk().apply(plans.pin([nuts]))
    desk().apply(plans.pin([fact("Ana likes fado")]))
    assert "Changes" in facts_page().menu_button(key="facts__more").options  # AppTest cannot choose from it
    shown = FactSnapshot(memory=services.engine().open("demo"), block="Facts", rows=())
    app = dialog("ui.parts.listing", "changes_dialog", partial(fact_tab.listed, shown), partial(fact_tab.undo, shown))
    (last, pinned, edited) = listed(app)
    assert [said.partition(".")[0] for said, *_ in (last, pinned, edited)] == [
        "Pinned a fact: Ana likes fado",
        "Pinned a fact: Ana is allergic to nuts",
        "Edited a fact: Ana likes fado",
    ]
    assert last[1:] == pinned[1:] == ("Undo", False)
    assert edited[1:] == ("Undo", True)
    assert 'The fact "Ana likes fado" was changed since by a person in turn 11: pinned a fact.' in edited[0]
    app.button(key=f"changes__{desk().changes()[1].number}").click().run()
    assert app.session_state["toast"].text.startswith("Undone: pinned a fact.")
    assert not fact("Ana is allergic to nuts").pinned
    assert fact("Ana likes fado").pinned
    assert listed(app)[1][1:] == ("Redo", False)
    app.button(key=f"changes__{desk().changes()[1].number}").click().run()
    assert app.session_state["toast"].text.startswith("Redone: pinned a fact.")
    assert fact("Ana is allergic to nuts").pinned


def test_a_page_that_is_drawn_anew_keeps_the_words_that_are_half_written(demo_home):
    jazz = fact("Ana likes jazz")
    app = facts_page(fact=str(jazz.id))
    app.text_area[0].set_value("Ana loves jazz").run()
    demo(turns=1)  # another process goes on with the conversation, and learns
    app.run()
    assert app.text_area[0].value == "Ana loves jazz"
    desk().apply(plans.edit(jazz, "Ana hates jazz"))
    app.run()
    assert app.text_area[0].value == "Ana loves jazz"
    assert "changed elsewhere" in notice(app)


def test_a_fact_cannot_be_edited_to_nothing(demo_home):
    app = facts_page()
    app.text_area[0].set_value("  ").run()
    press(app, "Save")
    assert "cannot be empty" in notice(app)


def test_who_is_second_is_told_and_keeps_the_words(demo_home):
    jazz = fact("Ana likes jazz")
    app = facts_page(fact=str(jazz.id))
    app.text_area[0].set_value("Ana loves jazz").run()
    desk().apply(plans.edit(jazz, "Ana hates jazz"))
    press(app, "Save")
    assert "Nothing was overwritten." in notice(app)
    assert "Your text is kept below" in notice(app)
    assert "Theirs: Ana hates jazz" in words(app)
    assert app.text_area[0].value == "Ana loves jazz"
    assert fact("Ana hates jazz").id == jazz.id
    press(app, "Keep editing")
    press(app, "Save")
    assert fact("Ana loves jazz").id == jazz.id


def test_showing_theirs_lets_the_own_words_go(demo_home):
    jazz = fact("Ana likes jazz")
    app = facts_page(fact=str(jazz.id))
    app.text_area[0].set_value("Ana loves jazz").run()
    desk().apply(plans.edit(jazz, "Ana hates jazz"))
    app.run()
    press(app, "Show theirs")
    assert app.text_area[0].value == "Ana hates jazz"


def test_pinning_keeps_what_is_half_written(demo_home):
    jazz = fact("Ana likes jazz")
    app = facts_page(fact=str(jazz.id))
    app.text_area[0].set_value("Ana loves jazz").run()
    press(app, "Pin")
    assert fact("Ana likes jazz").pinned
    assert app.text_area[0].value == "Ana loves jazz"
    press(app, "Save")
    assert fact("Ana loves jazz").pinned


def test_a_fact_is_retired_with_a_reason_restored_and_its_history_tells_it(demo_home):
    jazz = fact("Ana likes jazz")
    app = facts_page(fact=str(jazz.id))
    app.pills[0].set_value("Outdated").run()
    # Its message is marked from now on, which takes more tokens than the fact did.
    assert "without it: +2 tokens" in notice(app)
    assert "Ana likes jazz" not in shown(app)
    show(app, "retired")
    press(app, "Restore")
    assert fact("Ana likes jazz").state == "active"
    app = facts_page(fact=str(jazz.id))
    app.session_state[f"facts__history_{jazz.id}"] = True
    app.session_state[f"facts__made_{jazz.id}"] = True
    app.run()
    assert "**Retired: outdated** · :gray[a person, turn 11" in words(app)
    assert "Learned in turn 10 by offline rules: 6 facts found in 6 messages." in words(app)
    assert "No model was called." in words(app)


def test_several_are_changed_at_once_and_undone_at_once(demo_home):
    app = facts_page()
    names = shown(app)
    select(app, rows=[0, 1])
    assert "**2 facts selected," in words(app)
    app.pills[0].set_value("Wrong").run()
    assert desk().changes()[0].words == "retired 2 facts"
    assert len(shown(app)) == len(names) - 2
    assert take_back(app).endswith(": retired 2 facts")
    assert shown(app) == names


@pytest.mark.slow
def test_ticked_facts_are_merged_into_the_words_in_the_field(demo_home):
    app = facts_page()
    select(app, rows=[0, 1])
    app.text_area[0].set_value("One fact of two").run()
    press(app, "Merge")
    assert "Merged." in notice(app)
    assert "One fact of two" in shown(app)


def test_facts_that_say_different_things_are_merged_into_what_a_person_types(demo_home):
    desk().apply(plans.add("Ana likes jazz a lot"))
    app = facts_page()
    names = shown(app)
    select(app, rows=[names.index("Ana likes jazz"), names.index("Ana is allergic to nuts")])
    assert app.text_area[0].value == ""
    button(app, "Merge").click().run()
    assert shown(app) == names, "without a sentence nothing is merged"
    assert app.error
    select(app, rows=[names.index("Ana likes jazz"), names.index("Ana likes jazz a lot")])
    assert app.text_area[0].value == "Ana likes jazz a lot", "near copies become the longer one"


def test_a_search_says_how_many_match_and_columns_that_say_nothing_are_left_out(demo_home):
    app = facts_page()
    of = len(shown(app))
    assert list(app.dataframe[0].value) == ["Fact", "Turn", "Tokens", "Prompts", "Category"], "all are active"
    app = app.text_input[0].set_value("ana").run()
    assert f"{len(shown(app))} of {of} match" in words(app)
    assert 0 < len(shown(app)) < of
    desk().apply(plans.pin([fact("Ana likes jazz")], True))
    assert "State" in list(app.run().dataframe[0].value)


def test_clicking_the_words_opens_that_fact(demo_home):
    app = facts_page()
    select(app, cell=3)
    assert f"**{shown(app)[3]}**" in words(app)


# -- review ----------------------------------------------------------------------------------------


def states(curation=None):
    """The two facts of the demo that contradict each other, the older first."""
    facts = {each.text: each.state for each in (curation or desk()).facts()}
    return facts["The user lives in Porto"], facts["The user lives in Lisbon"]


def marked(app):
    rows = app.dataframe[0].value.to_dict("records")
    return [row["Fact"] for row in rows if "Conflict" in row.get("State", ())]


@pytest.mark.parametrize(
    ("chosen", "become", "goes"),
    [
        (
            "Keep this, retire “The user lives in Porto”",
            ("superseded", "active"),
            "“The user lives in Porto” is superseded.",
        ),
        ("Keep the other", ("active", "superseded"), "“The user lives in Lisbon” is superseded."),
        ("Keep both", ("active", "active"), "Both stay."),
    ],
)
@pytest.mark.parametrize("where", ["review", pytest.param("active", marks=pytest.mark.slow)])
def test_of_a_contradiction_it_is_asked_which_fact_holds_and_undo_asks_again(demo_home, chosen, become, goes, where):
    demo(turns=3)
    app = facts_page(fact=str(fact("The user lives in Lisbon").id))
    assert "1 to review." in words(app)
    assert marked(app) == ["The user lives in Lisbon", "The user lives in Porto"]
    show(app, where)
    assert "**The user lives in Lisbon**" in words(app)
    assert 'Contradicts "The user lives in Porto".' in words(app)
    if where == "review":
        assert f"{goes} Next prompt" in words(app)
    assert not [each for each in app.button if each.label == "Accept"]  # it would not say which of both holds
    press(app, chosen)
    assert states() == become
    assert "Nothing to review." in words(app)
    show(app, "active")
    assert marked(app) == []
    take_back(app)
    assert states() == ("active", "active")
    assert "1 to review." in words(app)
    assert len(marked(app)) == 2


def test_each_choice_of_review_retires_at_most_one_fact_which_it_names(demo_home):
    memory = learned("Ana eats fish on Fridays", "Ana eats fish at sea", "Ana does not eat fish")
    app = facts_page(session="mine")
    show(app, "review")
    buttons = {
        each.label.replace("\\", ""): each for each in app.button if each.key and each.key.startswith("facts__choice")
    }
    assert list(buttons) == [
        "Keep this, retire “Ana eats fish on Fridays”",
        "Keep “Ana eats fish on Fridays”, retire this",
        "Keep this, retire “Ana eats fish at sea”",
        "Keep “Ana eats fish at sea”, retire this",
        "Keep all",
    ]
    assert [label for label, each in buttons.items() if each.proto.type == "primary"] == ["Keep all"]
    buttons["Keep this, retire “Ana eats fish on Fridays”"].click().run()
    left = {each.text for each in memory.facts.read("Facts")}
    assert left == {"Ana eats fish at sea", "Ana does not eat fish"}


def test_review_says_which_of_the_waiting_facts_is_shown_and_since_when(demo_home):
    memory = proposing("Ana likes jazz", "Rui bakes bread")
    app = facts_page(session="mine")
    show(app, "review")
    assert "1 of 2" in words(app)
    press(app, "Skip")
    assert "2 of 2" in words(app)
    assert "Proposed in turn 2" in words(app)
    imported_fact = replace(memory.facts.desk("Facts").facts()[0], turn=0, state="active", origin="written")
    assert review.when_new(imported_fact) == "Added before the first turn"


def test_two_ticked_facts_that_contradict_each_other_can_be_settled_at_once(demo_home):
    demo(turns=3)
    app = facts_page()
    texts = shown(app)
    select(app, rows=[texts.index("The user lives in Porto"), texts.index("The user lives in Lisbon")])
    press(app, "Keep the other")
    assert states() == ("active", "superseded")


def test_a_contradiction_that_is_edited_away_is_marked_no_more(demo_home):
    demo(turns=3)
    app = facts_page(fact=str(fact("The user lives in Porto").id))
    app.text_area[0].set_value("The user lived in Porto until May").run()
    press(app, "Save")
    assert marked(app) == []
    assert "Nothing to review." in words(app)


@pytest.mark.slow
def test_saving_other_words_in_review_leaves_a_contradiction_that_still_stands(demo_home):
    demo(turns=3)
    app = facts_page()
    show(app, "review")
    press(app, "Edit")
    app.text_area[0].set_value("The user lives in Lisbon, in Alfama").run()
    press(app, "Save")
    assert "1 to review." in words(app)
    assert "**The user lives in Lisbon, in Alfama**" in words(app)


def test_a_key_that_is_pressed_again_before_the_page_is_drawn_does_nothing_more(demo_home, monkeypatch):
    proposing("Ana likes jazz", "Rui bakes bread")
    make = fact_tab.make
    monkeypatch.setattr(fact_tab, "make", lambda *args, **options: [make(*args, **options) for _ in range(2)])
    app = facts_page(session="mine")
    show(app, "review")
    press(app, "Accept")
    assert "**Rui bakes bread**" in words(app)
    assert not app.warning
    press(app, "Undo")
    states = {each.text: each.state for each in desk(services.engine().open("mine")).facts()}
    assert set(states.values()) == {"proposed"}


# -- still true? -----------------------------------------------------------------------------------


def grown_old(*texts, days=40):
    """A session whose facts were learned, and last confirmed, so many days ago."""
    memory = learned(*texts)
    with memory.session.database.write() as connection:
        connection.execute(update(fact_table).values(confirmed_at=fact_table.c.confirmed_at - days * 86_400))
    return memory


def test_facts_that_nobody_confirmed_for_long_are_listed_and_leave_with_each_answer(demo_home):
    grown_old("Ana likes jazz", "Rui bakes bread", "Eva sells honey")
    app = facts_page(session="mine")
    show(app, "check")
    assert "**Ana likes jazz**" in words(app)
    assert "1 of 3" in words(app)
    press(app, "Still true")
    assert "**Rui bakes bread**" in words(app)
    press(app, "Retire")
    assert "**Eva sells honey**" in words(app)
    press(app, "Ask")
    mine = desk(services.engine().open("mine"))
    assert {each.text: each.state for each in mine.facts()} == {
        "Ana likes jazz": "active", "Rui bakes bread": "retired", "Eva sells honey": "active",
    }  # fmt: skip
    assert "Eva sells honey (ask if this is still true)" in services.engine().open("mine").get("?")[0].content
    assert app.button(key="facts__ask").disabled
    for _ in range(3):
        take_back(app)
    assert "1 of 3" in words(app)


def test_fresh_facts_are_not_asked_about_until_a_shorter_time_is_chosen(demo_home):
    grown_old("Ana likes jazz", days=10)
    app = facts_page(session="mine")
    assert "check" not in app.segmented_control[0].options
    with services.engine().database.write() as connection:
        connection.execute(update(fact_table).values(confirmed_at=fact_table.c.confirmed_at - 25 * 86_400))
    app.run()
    show(app, "check")
    app.segmented_control[1].set_value("90 days").run()
    assert "Nothing to check." in words(app)


def proposing(*texts):
    return learned(*texts, approval=True)


def test_proposed_facts_are_accepted_edited_skipped_and_rejected(demo_home):
    proposing("Ana likes jazz", "Rui bakes bread", "Teresa sails boats")
    app = facts_page(session="mine")
    assert "3 to review." in words(app)
    show(app, "review")
    press(app, "Skip")
    assert "**Rui bakes bread**" in words(app)
    press(app, "Accept")
    assert "**Teresa sails boats**" in words(app)
    press(app, "Edit")
    app.text_area[0].set_value("Teresa sails").run()
    press(app, "Save and accept")
    assert "**Ana likes jazz**" in words(app)
    press(app, "Reject")
    press(app, "Not about the user")
    assert "**All reviewed.**" in words(app)
    states = {each.text: each.state for each in desk(services.engine().open("mine")).facts()}
    assert states == {"Ana likes jazz": "rejected", "Rui bakes bread": "active", "Teresa sails": "active"}


def test_a_held_back_fact_names_the_rejection_and_can_be_allowed(demo_home):
    memory = learned("Ana likes jazz")
    curation = desk(memory)
    curation.apply(plans.reject(curation.facts(), "wrong"))
    memory.put(ChatMessage(role="user", content="FACT: Ana likes jazz."))
    memory.flush(all=True)
    app = facts_page(session="mine")
    show(app, "review")
    assert "Held back: you rejected a near copy just now (1.00)" in words(app)
    press(app, "Allow")
    assert [each.state for each in curation.facts()] == ["rejected", "active"]


# -- rewrites --------------------------------------------------------------------------------------


@pytest.fixture
def rewritten(demo_home):
    shorter = [("Ana likes jazz and films", (0, 1)), ("Rui bakes bread", (2,))]
    return learned(
        "Ana likes jazz", "Ana likes films", "Rui bakes bread", "Sam parks behind the church", extractor=Said(shorter),
        max_facts=3,
    )  # fmt: skip


def test_a_rewrite_shows_what_was_lost_and_gives_it_back_pinned(rewritten):
    app = facts_page(session="mine")
    show(app, "rewrites")
    assert "4 facts became 2" in words(app)
    assert "kept 1 · merged 2 → 1 · dropped 1 · unsupported 0" in words(app)
    assert "~~Sam parks behind the church~~" in words(app)
    press(app, "Restore it, pinned")
    church = fact("Sam parks behind the church", desk(rewritten))
    assert (church.state, church.pinned) == ("active", True)
    assert "Restored" in words(app)


def test_a_whole_rewrite_can_be_refused(rewritten):
    app = facts_page(session="mine")
    show(app, "rewrites")
    press(app, "Refuse the rewrite")
    texts = {each.text for each in desk(rewritten).facts(("active",))}
    assert texts == {"Ana likes jazz", "Ana likes films", "Rui bakes bread", "Sam parks behind the church"}


# -- empty, past, errors -----------------------------------------------------------------------------


def test_a_new_session_says_when_facts_come(demo_home):
    memory = new_memory(services.engine(), title="New")
    app = facts_page(session=memory.session_id)
    assert "**No facts yet.**" in words(app)
    assert "Facts are learned when messages leave the queue." in words(app)
    show(app, "review")
    assert "**All reviewed.**" in words(app)
    show(app, "rewrites")
    assert "**No rewrites yet.**" in words(app)


def test_flushing_learns_from_what_leaves_the_queue(demo_home):
    memory = new_memory(services.engine(), title="New")
    for text in ("Ana likes jazz.", "Fine.", "Rui is my brother.", "Good."):
        memory.put(ChatMessage(role="assistant" if text in ("Fine.", "Good.") else "user", content=text))
    app = facts_page(session=memory.session_id)
    press(app, "Flush now")
    assert services.engine().job(memory.session_id).wait(30)
    app.run()
    assert "Ana likes jazz" in shown(app)


def test_while_a_flush_learns_the_page_is_drawn_to_its_end_and_says_so(demo_home):
    memory, go_on = new_memory(services.engine(), title="New"), threading.Event()
    memory.put(ChatMessage(role="user", content="Ana likes jazz."))
    job = services.engine().start(memory.session_id, "flush-slow", lambda job: go_on.wait(60))
    app = facts_page(session=memory.session_id)  # ends, though the job does not
    assert ":shimmer[Waiting to flush]" in words(app)
    assert button(app, "Flush now").disabled
    go_on.set()
    assert job.wait(60)
    app.run()
    assert "shimmer" not in words(app)
    assert not button(app, "Flush now").disabled


def test_a_session_without_a_fact_block_says_where_to_get_one(demo_home):
    services.engine().open("demo").blocks.remove("Facts")
    app = facts_page()
    assert "**No facts block in this session.**" in words(app)


def test_a_past_turn_shows_the_facts_of_then_and_nothing_to_press(demo_home):
    jazz = fact("Ana likes jazz")
    desk().apply(plans.edit(jazz, "Ana hates jazz"))
    demo(turns=1)
    app = facts_page(turn="10")
    assert "10: 6 active facts" in words(app)
    assert "Ana likes jazz" in shown(app)
    said = {each.label for each in app.button}
    assert not said & {"Add", "Save", "Pin", "Accept", "Clear selection"}
    assert not app.text_area
    app = facts_page(turn="9")
    assert "**No facts yet.**" in words(app)


def test_a_past_turn_names_the_sources_that_the_log_has_after_a_message_was_forgotten(demo_home):
    memory = learned("Ana likes jazz", "Rui bakes bread")
    memory.put(ChatMessage(role="user", content="Once more: FACT: Ana likes jazz"))  # not the same message again
    memory.flush(all=True)
    memory.session.forget(Ref.of("message", 1))
    history = memory.log.history()
    view = SimpleNamespace(memory=memory, position=history.position, history=history)
    past = {each.id: each.sources for each in fact_tab._facts_at(view, "Facts")}
    assert past == {each.id: each.sources for each in memory.facts.read("Facts", states=None)}
    assert sorted(past.values()) == [(("mine", 3),), (("mine", 5),)]


def test_the_users_facts_of_another_session_are_there_in_the_past_too(demo_home):
    engine = services.engine()
    for session_id, text in (("first", "Ana likes jazz"), ("second", "Rui bakes bread")):
        memory = Memory.from_defaults(
            session_id,
            "sam",
            database_uri=engine.settings.database,
            services=Services(extractor=Said()),
            memory_blocks=[FactExtractionMemoryBlock(name="About Sam", scope="user")],
        )
        for words_said in (f"FACT: {text}", "And more.", "And even more."):
            memory.put(ChatMessage(role="user", content=words_said))
            memory.put(ChatMessage(role="assistant", content="I see."))
        memory.flush(all=True)
    app = facts_page(session="second")
    assert shown(app) == ["Rui bakes bread", "Ana likes jazz"]
    app = facts_page(session="second", turn="1")
    assert shown(app) == ["Ana likes jazz"]
    assert "Learned in another session." in words(app)


def test_a_fact_of_markup_is_text_wherever_it_stands(demo_home):
    curation = desk()
    curation.apply(plans.add(HOSTILE))
    app = facts_page()
    assert shown(app)[0] == HOSTILE
    drawn = "\n".join(each.value for each in app.markdown)
    assert f"**:gray[{HOSTILE}]**" in drawn.replace("\\", "").replace("\u2060", "")
    for part in ("![x](", "<b>", "$x$", ":material/home:"):
        assert part not in drawn
    curation.apply(plans.retire([fact(HOSTILE)], HOSTILE))
    app = facts_page(fact=str(fact(HOSTILE).id))
    assert not app.exception
    assert "![x](" not in "\n".join(each.value for each in app.markdown)


def test_the_page_draws_in_the_dark(demo_home):
    app = facts_page(theme="dark")
    assert len(shown(app)) == 6


def test_looking_at_every_view_writes_nothing(demo_home):
    demo(turns=3)
    before = services.engine().open("demo").session.status().position
    app = facts_page()
    for view in ("review", "retired", "rewrites", "active"):
        show(app, view)
    assert services.engine().open("demo").session.status().position == before


# -- dialogs ---------------------------------------------------------------------------------------


def opened_dialog(module, name, *args, session="demo"):
    """One dialog by itself, on the desk of a session."""
    memory = services.engine().open(session)
    return dialog(f"ui.facts.{module}", name, FactSnapshot(memory=memory, block="Facts", rows=()), *args)


def test_a_fact_is_added_with_its_effect_shown_first(demo_home):
    app = opened_dialog("fact_dialogs", "add_dialog")
    app.text_area[0].set_value("Rui sails").run()
    assert "Next prompt +" in words(app)
    assert len(desk().facts()) == 6
    press(app, "Add fact")
    assert fact("Rui sails").origin == "written"


def test_a_fact_to_add_says_that_another_will_be_marked_because_of_it(demo_home):
    session = learned(extractor=RuleExtractor())
    session.put(ChatMessage(role="user", content="I live in Porto."))
    session.put(ChatMessage(role="assistant", content="I see."))
    session.flush(all=True)
    app = opened_dialog("fact_dialogs", "add_dialog", session=session.session_id)
    app.text_area[0].set_value("The user likes pears").run()
    assert "marked" not in words(app)
    app.text_area[0].set_value("The user lives in Faro").run()
    assert "1 more item is marked" in words(app)
    press(app, "Add fact")
    assert str(session.get("Where?")).count("<former>") == 1


def test_a_fact_is_split_one_a_line(demo_home):
    app = opened_dialog("fact_dialogs", "split_dialog", fact("Ana likes jazz").id)
    app.text_area[0].set_value("Ana likes jazz music\n\nAna likes jazz bars").run()
    press(app, "Split")
    active = [each.text for each in desk().facts(("active",))]
    assert {"Ana likes jazz music", "Ana likes jazz bars"} < set(active)
    assert fact("Ana likes jazz").state == "superseded"


def test_merging_offers_the_most_alike_first(demo_home):
    desk().apply(plans.add("Ana likes jazz a lot"))
    app = opened_dialog("fact_dialogs", "merge_dialog", fact("Ana likes jazz").id)
    assert app.selectbox[0].value == fact("Ana likes jazz a lot").id
    press(app, "Merge")
    assert fact("Ana likes jazz").state == "superseded"


def test_rejecting_asks_for_the_reason(demo_home):
    app = opened_dialog("fact_dialogs", "reject_dialog", fact("Ana likes jazz").id)
    press(app, "Private")
    assert desk().changes()[0].event.reason == "private"
    assert fact("Ana likes jazz").state == "rejected"


def test_deleting_for_good_names_the_fact_and_waits_for_a_yes(demo_home):
    jazz = fact("Ana likes jazz")
    app = opened_dialog("fact_dialogs", "delete_dialog", [jazz.id])
    assert "Delete **Ana likes jazz** with its history?" in words(app)
    assert fact("Ana likes jazz") == jazz
    press(app, "Delete for good")
    assert "Ana likes jazz" not in [each.text for each in desk().facts()]


def test_a_fact_is_copied_to_the_users_block(demo_home):
    memory = services.engine().open("demo")
    memory.blocks.add(FactExtractionMemoryBlock(name="About Sam", scope="user"))
    app = opened_dialog("fact_dialogs", "copy_dialog", fact("Ana likes jazz").id, "About Sam")
    press(app, "Copy")
    assert [each.text for each in desk(block="About Sam").facts()] == ["Ana likes jazz"]
    app = facts_page()
    app.selectbox(key="facts__block_demo").set_value("About Sam").run()
    assert shown(app) == ["Ana likes jazz"]


def test_extraction_is_tried_without_storing_and_ticked_facts_are_taken(demo_home):
    desk().apply(plans.reject([fact("Ana likes jazz")], "wrong"))
    app = opened_dialog("fact_dialogs", "try_dialog")
    app.text_area[0].set_value("I live in Faro. Ana likes jazz.").run()
    press(app, "Try")
    found = app.dataframe[0].value if app.dataframe else app.get("arrow_data_frame")[0].value
    assert list(found["Fact"]) == ["The user lives in Faro", "Ana likes jazz"]
    assert list(found["Take"]) == [True, False]
    assert list(found["Outcome"]) == [
        "New, contradicts: The user lives in Porto",
        "Held back: rejected before (1.00): Ana likes jazz",
    ]
    assert len(desk().facts()) == 6
    press(app, "Add 1 fact")
    assert "The user lives in Faro" in [each.text for each in desk().facts()]


def test_a_file_is_shown_before_it_is_imported_as_one_change(demo_home):
    app = opened_dialog("fact_dialogs", "import_dialog")
    data = b"text,pinned\nBob sails,true\nAna likes jazz,false\n,false\n"
    app.file_uploader[0].upload("facts.csv", data, "text/csv").run()
    assert "facts.csv, line 4: no text. 1 is there already. 1 of 3 can be imported." in words(app)
    assert len(desk().facts()) == 6
    press(app, "Import 1")
    assert fact("Bob sails").pinned
    assert desk().changes()[0].words == "imported a fact"


def test_a_file_that_is_not_what_its_name_says_is_refused(demo_home):
    app = opened_dialog("fact_dialogs", "import_dialog")
    app.file_uploader[0].upload("facts.json", b"\x00\xff not json", "application/json").run()
    assert len(app.error) == 1
    assert not [each for each in app.button if each.label.startswith("Import")]


def test_the_help_of_the_import_names_each_program_whose_facts_are_read(demo_home):
    [uploader] = opened_dialog("fact_dialogs", "import_dialog").file_uploader
    assert [store.name for store in PROGRAMS if f"{store.name} ({store.file})" not in uploader.proto.help] == []


def table():
    """Edit as table on the demo."""

    def script():
        from ui.facts import fact_dialogs, fact_tab
        from ui.facts.fact_tab import FactSnapshot
        from ui.tab.services import engine

        desk = FactSnapshot(memory=engine().open("demo"), block="Facts", rows=())
        if fact_tab.remembered(desk.place, "table") is None:
            fact_dialogs.open_table(desk)
        else:
            fact_dialogs.table_dialog(desk)

    return AppTest.from_function(script, default_timeout=60).run()


def grid_key():
    return f"facts__table_1_{zlib.crc32(repr(('demo', 'Facts')).encode())}_0"


def test_the_table_stores_all_its_edits_as_one_change(demo_home):
    edits = {"edited_rows": {4: {"Fact": "Ana loves jazz"}}, "added_rows": [{"Fact": "Bob sails"}], "deleted_rows": [0]}
    app = table()
    app.session_state[grid_key()] = edits
    app.run()
    assert "3 unsaved changes" in words(app)
    press(app, "Save")
    states = {each.text: each.state for each in desk().facts()}
    assert (states["Ana loves jazz"], states["Bob sails"], states["The user's name is Sam"]) == (
        "active", "active", "retired",
    )  # fmt: skip
    assert len(desk().changes()) == 1


def test_the_table_names_what_others_changed_and_keeps_its_edits(demo_home):
    app = table()
    app.session_state[grid_key()] = {
        "edited_rows": {4: {"Fact": "Ana loves jazz"}}, "added_rows": [], "deleted_rows": [],
    }  # fmt: skip
    app.run()
    desk().apply(plans.edit(fact("Ana likes jazz"), "Ana hates jazz"))
    press(app, "Save")
    assert "Fact 5 was changed" in notice(app)
    assert "Your text is kept below" in notice(app)
    assert "Fact 5 now says: Ana hates jazz" in words(app)
    assert fact("Ana hates jazz").state == "active"
    press(app, "Overwrite theirs")
    assert fact("Ana loves jazz").state == "active"


# -- the limit -------------------------------------------------------------------------------------


def imported(count):
    """The import dialog with a file of this many facts, in a session that has learned none."""
    memory = learned()
    app = opened_dialog("fact_dialogs", "import_dialog", session="mine")
    data = "text\n" + "\n".join(f"Guest {number} sits at table {number}" for number in range(count))
    app.file_uploader[0].upload("facts.csv", data.encode(), "text/csv").run()
    return memory, app


def test_an_import_says_what_the_limit_will_do_and_raises_it_with_undo(demo_home):
    memory, app = imported(227)
    assert "227 facts, limit 50" in words(app)
    press(app, ":small[Raise the limit to 290]")
    assert services.engine().open("mine").blocks.settings("Facts")["max_facts"] == 290
    assert "limit 50" not in words(app)
    press(app, "Import 227")
    assert len(desk(memory).facts()) == 227


def test_an_import_says_how_many_facts_wait_for_review(demo_home):
    memory = learned()
    app = with_toasts("ui.facts.fact_dialogs", "import_dialog", FactSnapshot(memory=memory, block="Facts", rows=()))
    data = b"text\nRui lives in Oslo\nRui lives in Madrid\nSam pays the bill\n"
    app.file_uploader[0].upload("facts.csv", data, "text/csv").run()
    press(app, "Import 3")
    assert "3 facts, 1 of them waits under Review" in said(app)[0]
    assert len(desk(memory).review().facts) == 1


def test_more_facts_than_the_limit_are_named_on_the_page_and_on_the_card(demo_home):
    memory = learned("Ana likes jazz", max_facts=5)
    desk(memory).apply(plans.ChangeSet("import", tuple(plans.FactDraft(f"Guest {n} comes") for n in range(7))))
    for page in ("facts", "blocks"):
        app = opened(page=page, session="mine")
        assert not app.exception, app.exception
        assert "8 facts, limit 5" in joined(app)
        assert any("Raise the limit to 20" in each.label for each in app.button)


def test_a_condensing_that_drops_facts_is_told_with_undo(rewritten):
    facts_page(session="mine")
    app = facts_page(session="mine")
    for text in ("Ana bakes cakes", "Leo plays chess", "Sam has a boat"):
        rewritten.put(ChatMessage(role="user", content=f"By the way. FACT: {text}"))
        rewritten.put(ChatMessage(role="assistant", content="I see."))
    rewritten.flush(all=True)
    app.run()
    dropped = desk(rewritten).rewrites()[0]
    assert dropped.vanished
    assert f"{dropped.before} facts reduced to {dropped.after}: {len(dropped.vanished)} dropped." in notice(app)
    app.button(key=next(each.key for each in app.button if (each.key or "").startswith("toast__undo"))).click().run()
    texts = {each.text for each in desk(rewritten).facts(("active",))}
    assert {"Ana bakes cakes", "Leo plays chess", "Sam has a boat"} <= texts


def test_undo_takes_the_newest_condensing_back(rewritten):
    app = facts_page(session="mine")
    assert "4 facts reduced to 2: 1 dropped" in take_back(app)
    texts = {each.text for each in desk(rewritten).facts(("active",))}
    assert texts == {"Ana likes jazz", "Ana likes films", "Rui bakes bread", "Sam parks behind the church"}


def test_every_page_says_how_many_facts_wait_and_leads_to_the_first(demo_home):
    proposing("Ana likes jazz", "Rui bakes bread")
    first = min(fact.id for fact in desk(services.engine().open("mine")).facts())

    def waiting(app):
        return [each.proto for each in app.main.get("page_link") if "to approve" in each.proto.label]

    app = opened(session="mine")
    (link,) = waiting(app)
    assert "2 to approve" in link.label
    assert f"fact={first}" in link.query_string
    app = facts_page(session="mine", fact=str(first))
    assert "**Ana likes jazz**" in words(app)
    press(app, "Accept")
    press(app, "Accept")
    assert waiting(app) == []
    assert waiting(facts_page()) == []
