"""No page offers a curator or a viewer an enabled control whose action their role refuses."""

import os
import re

import pytest
from pages_driver import opened, settled
from streamlit.testing.v1.element_tree import ButtonGroup

from memory_core import (
    AccessError,
    ChatMessage,
    FactExtractionMemoryBlock,
    Memory,
    StaticMemoryBlock,
    StoreError,
    SummaryMemoryBlock,
)
from memory_core.access import RIGHTS, Person, acting_person, look_up_people
from memory_core.blocks.graph import GraphMemoryBlock
from memory_core.curation.graph_desk import NamedRelation
from memory_core.events import BlockEdited, ConfigurationChanged
from memory_core.planning import curation as plans
from memory_core.store import database
from memory_inspector.demo.conversations import FORGOTTEN_WORDS
from memory_inspector.lab.probes import InPrompt, keep_probes
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from ui.sessions.health import MAINTENANCE
from ui.tab import people, services

PRESSES = int(os.environ.get("MEMORY_INSPECTOR_PRESSES", "3"))
"""Maximum length of a way."""

PEOPLE = [Person("ben@acme.test", "Ben", "curator"), Person("vera@acme.test", "Vera", "viewer")]

PLACES = {
    "chat": ({}, set()),
    "chat of an empty session": ({"session": "empty"}, {"Start with"}),
    "chat at a past turn": ({"turn": "3"}, set()),
    "context": ({}, {"context__limit"}),
    "timeline": ({}, set()),
    "timeline of an event": ({"event": "12"}, set()),
    "blocks": ({}, {"blocks__add", "blocks__order", "blocks__menu_Facts"}),
    "blocks, recipes": ({"view": "recipes", "recipe": "summary"}, {"recipes__switch"}),
    "blocks of an empty session": ({"session": "empty"}, {"blocks__empty_static"}),
    "blocks of a session with a summary": ({"session": "family"}, {"blocks_Facts__raise_limit"}),
    "facts": ({}, set()),
    "facts of a session above its limit": ({"session": "family"}, {"facts__raise_limit"}),
    "facts, one put away": ({"fact": "retired"}, set()),
    "graph": ({"session": "family"}, {"graph__entity__forget"}),
    "graph without a block": ({}, {"graph__add_block"}),
    "trace": ({"words": "nuts", "trace_probe": True}, {"trace__forget"}),
    "trace of what was forgotten": ({"words": FORGOTTEN_WORDS}, {"trace__forget"}),
    "retrieval": ({"query": "What can I eat?"}, set()),
    "lab": ({}, set()),
    "lab, tests": ({"view": "tests"}, set()),
    "sessions": ({MAINTENANCE: True}, {"sessions__import", "sessions__reset", "sessions__rebuild_index"}),
    "sessions, one of a user": ({"session": "family", "sessions__user": "sam"}, {"sessions__forget_user"}),
}
"""Pages by name: the parameters of the address and the state of widgets; some controls that only owners may use."""

WIDGETS = {MAINTENANCE, "trace_probe", "sessions__user"}
"""Keys of widgets among the parameters: popovers that are open, the chosen user."""

FRAME = ("frame__", "session__", "goto__", "sign_out", "scrubber")
"""Beginnings of the keys of what stands on every page; pressed on the first alone."""


@pytest.fixture
def refusals(demo_home, monkeypatch):
    """Sessions with all that pages offer something for, and a list of what is refused from then on.

    What a role allows is not stored either, so that every control is pressed in the same state.
    """
    prepare()
    refused, init, check = [], AccessError.__init__, database.require

    def noted(self, *given):
        refused.append(given[0])
        init(self, *given)

    def roll_back(least, tenant=None):
        check(least, tenant)
        if acting_person() is not None:
            raise StoreError("Nothing is stored here.")

    monkeypatch.setattr(AccessError, "__init__", noted)
    monkeypatch.setattr(database, "require", roll_back)
    # Pressed by the words on the screen: a test cannot know the values behind them.
    shown = ButtonGroup.formatted_values.fget
    monkeypatch.setattr(
        ButtonGroup,
        "formatted_values",
        property(lambda group: group._value if isinstance(group._value, Pressed) else shown(group)),
    )
    yield refused
    look_up_people(people.visitor)


def prepare():
    opened()  # stores the demo
    demo = services.engine().open("demo")
    play(Job("test"), demo, turns=1, pace=0)  # to the turn whose prompt is cut
    demo.session.quarantine("jazz")
    demo.trace.watch("dessert")
    keep_probes(demo, [InPrompt(phrase="dessert", from_turn=1)])
    desk = demo.facts.desk("Facts")
    desk.apply(plans.retire(desk.facts()[:1]))
    uri = services.engine().settings.database
    Memory.from_defaults("empty", database_uri=uri).session.database.close()
    family = Memory.from_defaults(
        "family",
        "sam",
        database_uri=uri,
        token_limit=2_000,
        memory_blocks=[
            StaticMemoryBlock(name="Style", static_content="Be brief."),
            StaticMemoryBlock(name="Rules", static_content="Be kind."),
            FactExtractionMemoryBlock(name="Facts", max_facts=4),
            SummaryMemoryBlock(name="Summary"),
            GraphMemoryBlock(name="Relations"),
        ],
    )
    family.put(ChatMessage(role="user", content="My sister Ana works at Acme."))
    family.facts.desk("Facts").apply(plans.together("add", *(plans.add(f"Sam has cat {n}") for n in range(6))))
    family.blocks.graph().add_many([NamedRelation("Ana", "works at", "Acme")])
    family.blocks.edit("Style", "Be very brief.")
    family.session.database.close()


class Pressed(list):
    """The words of the options that are pressed in a choice."""


def controls(app):
    """Controls that can be pressed: kind, key or label, and the option of a choice."""
    found = []
    for kind in ("button", "toggle", "checkbox", "menu_button", "button_group", "chat_input"):
        for each in app.get(kind):
            if not each.disabled:
                options = getattr(each, "options", (None,))
                found += [(kind, each.key or each.label, option) for option in options]
    return found


def press(app, control):
    kind, name, option = control
    element = next(each for each in app.get(kind) if (each.key or each.label) == name)
    if kind == "button":
        return element.click().run()
    if kind == "menu_button":
        return element.click_index(element.options.index(option)).run()
    if kind == "button_group":
        return element.set_value(Pressed([option])).run()
    return element.set_value("Hello" if kind == "chat_input" else not element.value).run()


def sorts(found):
    """Controls by what they do: without the numbers of facts, turns and the like."""
    return {re.sub(r"\d+", "#", f"{kind} {name} {option}") for kind, name, option in found}


def page_of(place):
    return re.split("[ ,]", place)[0]


def start(place):
    """The page of a place, as it opens."""
    given = dict(PLACES[place][0])
    if given.get("fact") == "retired":
        facts = services.engine().open("demo").facts.desk("Facts").facts()
        given["fact"] = str(next(fact.id for fact in facts if fact.state == "retired"))
    widgets = {name: given.pop(name) for name in WIDGETS & given.keys()}
    app = opened(page=page_of(place), **{"session": "demo", **given})
    for name, value in widgets.items():
        app.session_state[name] = value
    if widgets:
        app.run()
    assert not app.exception, app.exception
    return app


def refused_paths(page, refusals):
    """The ways, of up to `PRESSES`, that end in a refusal: at all places of a page, each control once."""
    refused, seen = [], {"button sign_out None"}
    for place in (place for place in PLACES if page_of(place) == page):
        first = controls(start(place))
        ways = [(control,) for control in first if page == "chat" or not control[1].startswith(FRAME)]
        for way in ways:
            if sorts(way[-1:]) <= seen:
                continue
            seen |= sorts(way[-1:])
            app = start(place)
            for control in way:
                if control in controls(app):  # a job that is over cannot be cancelled
                    app = press(app, control)
            offered = controls(app)
            settled(app)
            if refusals:
                refused.append((place, way, refusals[0]))
                refusals.clear()
            if len(way) < PRESSES:
                ways += [(*way, control) for control in offered if control not in first]
    assert len(seen) > 2
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({page_of(place) for place in PLACES}))
@pytest.mark.parametrize("person", PEOPLE, ids=lambda person: person.role)
def test_no_control_that_is_enabled_ends_in_a_refusal(refusals, person, page):
    look_up_people(lambda: person)
    assert refused_paths(page, refusals) == []


@pytest.mark.slow
def test_what_only_owners_may_use_is_there_and_disabled_for_others(refusals):
    for place, (_, owners) in PLACES.items():
        enabled = []
        for person in (None, *PEOPLE):
            look_up_people(lambda person=person: person)
            enabled.append({name for _, name, _ in controls(start(place))})
        assert owners <= enabled[0], place
        assert not owners & (enabled[1] | enabled[2]), place


@pytest.mark.slow
def test_a_control_that_is_enabled_and_refused_would_be_found(refusals, monkeypatch):
    monkeypatch.setattr(people, "obstacle", lambda *changes: None)
    monkeypatch.setitem(globals(), "PRESSES", 2)  # the first opens the drawer
    look_up_people(lambda: PEOPLE[0])
    refused = refused_paths("graph", refusals)
    assert [way[0][1] for _, way, _ in refused] == ["graph__add_block"]


@pytest.mark.parametrize("person", PEOPLE, ids=lambda person: person.role)
def test_a_control_is_enabled_by_the_table_that_is_checked_when_something_is_stored(person):
    look_up_people(lambda: person)
    try:
        for change in RIGHTS:
            assert people.allowed(change)["disabled"] != person.may(RIGHTS[change])
        refused = people.allowed(ConfigurationChanged, BlockEdited, help="Save")
        assert (refused["disabled"], refused["help"].split(":")[0]) == (True, "Only for the role owner")
        assert people.allowed(disabled=True, help="Save") == {
            "disabled": True,
            "help": "Save" if person.role == "curator" else "Only for the role curator: yours is viewer.",
        }
    finally:
        look_up_people(people.visitor)
