"""What has no effect on the shown prompt, marked on the pages on which it stands."""

import re

import pytest
from pages_driver import as_read, joined, opened

from memory_core import ChatMessage
from memory_core.events import Ref
from memory_core.planning import curation as plans
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from ui.tab import services
from ui.tab.view import View

pytestmark = pytest.mark.slow

JAZZ = "Ana likes jazz"


def fact(memory, text):
    return next(each for each in memory.facts.desk("Facts").facts() if each.text == text)


@pytest.fixture
def memory(demo_home):
    """The demo at turn 14, whose prompt lacks a retired fact and all but three of the others."""
    memory = services.engine().open("demo")
    play(Job("on"), memory, turns=2, pace=0)
    desk = memory.facts.desk("Facts")
    desk.apply(plans.retire([fact(memory, JAZZ)], "Outdated"))
    memory.blocks.configure("Facts", show="relevant", top_k=3)
    memory.put(ChatMessage(role="user", content="Does Rui eat meat?"))
    memory.build_context()
    return memory


def page(name, **query):
    app = opened(page=name, session="demo", **query)
    assert not app.exception
    return app


def listed(app):
    """State of each listed fact by its words, and the words of those that are grey."""
    table = app.dataframe[0]
    rows = table.value.to_dict("records")
    styles = table.proto.arrow_data.styler.styles
    grey = {rows[int(row)]["Fact"] for row in re.findall(r"_row(\d+)_col1", styles)}
    return {row["Fact"]: list(row.get("State", ())) for row in rows}, grey


def tooltips(app):
    """Label and tooltip of each link that follows something, as they are read."""
    links = [each.proto for each in app.get("page_link") if "follow=" in each.proto.query_string]
    return {as_read(link.label): as_read(link.help) for link in links}


def panel_title(app):
    return next(each for each in app.markdown if each.value.startswith("## **") and "Ana likes jazz" in each.value)


def test_listed_facts_that_are_not_in_the_prompt_are_grey_and_their_state_says_why(memory):
    states, grey = listed(page("facts"))
    effects = memory.trace.effects()
    gone = {f.text for f in memory.facts.read("Facts") if not effects.of(Ref.of("fact", f.id)).shown}
    assert grey == gone
    assert len(states) - len(grey) == 3
    assert {states[text][0] for text in grey} == {"Beyond the 3 best"}
    assert {tuple(states[text]) for text in states.keys() - grey} <= {(), ("Conflict",)}


def test_a_retired_fact_is_struck_with_its_reason_and_stands_as_it_was_at_a_turn_that_had_it(memory):
    retired = fact(memory, JAZZ).id
    app = page("facts", fact=str(retired))
    assert listed(app) == ({JAZZ: ["Retired in turn 13"]}, {JAZZ})
    reason = f"Fact {retired} was retired by the user in turn 13: Outdated."
    assert panel_title(app).value == "## **:gray[~~Ana likes jazz~~]**"
    assert as_read(panel_title(app).help) == reason
    assert tooltips(app)[f":small[{reason}]"] == reason
    before = page("facts", fact=str(retired), turn="12")
    states, grey = listed(before)
    assert grey == set()
    assert states[JAZZ] == []
    assert panel_title(before).value == "## **Ana likes jazz**"
    assert not panel_title(before).help


def test_a_state_that_changed_after_the_prompt_stands_beside_why_the_prompt_has_it_not(memory):
    desk, effects = memory.facts.desk("Facts"), memory.trace.effects()
    not_sent = next(f for f in desk.facts(("active",)) if not effects.of(Ref.of("fact", f.id)).shown)
    desk.apply(plans.restore([fact(memory, JAZZ)]))
    desk.apply(plans.retire([not_sent]))
    assert listed(page("facts"))[0][JAZZ][:2] == ["Retired in turn 13", "Active"]
    states, grey = listed(page("facts", fact=str(not_sent.id)))
    assert states == {not_sent.text: ["Beyond the 3 best", "Retired"]}
    assert grey == {not_sent.text}


def test_where_no_prompt_was_built_nothing_is_marked(demo_home):
    memory = services.engine().open("demo")
    new = memory.branch(1, title="New")
    assert new.trace.effects(turn=0).turn is None
    fresh = services.engine().open(new.session_id)
    fresh.reset()
    fresh.facts.desk("Facts").apply(plans.add("Ana likes rain"))
    app = opened(page="facts", session=new.session_id)
    states, grey = listed(app)
    assert (states["Ana likes rain"], grey) == ([], set())
    cards = opened(page="blocks", session=new.session_id)
    assert "Not in this prompt" not in joined(cards)
    assert ":gray[~~" not in joined(cards)


def test_while_a_turn_runs_the_marks_are_those_of_the_last_prompt_until_its_own_is_built(memory):
    kept = next(f for f in memory.facts.read("Facts") if memory.trace.effects().of(Ref.of("fact", f.id)).shown)

    def seen():
        view = View(memory, memory.log.history(), memory.session.status(), None, Job("a turn of its own"))
        return view.effects.turn, view.effects.of(Ref.of("fact", kept.id)).shown

    memory.put(ChatMessage(role="user", content="And Ana?"))
    memory.facts.desk("Facts").apply(plans.retire([kept]))
    assert seen() == (14, True)
    memory.build_context()
    assert seen() == (15, False)


def test_a_card_lists_what_the_prompt_has_not_with_the_reason_as_a_tooltip(memory):
    told = tooltips(page("blocks"))
    effects = memory.trace.effects()
    counts = {name: len(effects.without(name)) for name in ("Facts", "Earlier turns")}
    assert all(counts.values())
    lines = joined(page("blocks"))
    assert all(f"Not in this prompt: {count}" in lines for count in counts.values())
    words = memory.trace.words([effect.ref for effect in effects.without("Facts")[:3]])
    for effect in effects.without("Facts")[:3]:
        assert told[f":small[:gray[{words[effect.ref]}]]"] == effect.stage.text


def test_a_card_of_a_text_that_was_written_after_the_prompt_or_switched_off_is_marked_as_a_whole(memory):
    memory.blocks.edit("Instructions", "Be brief.")
    app = page("blocks")
    text = next(each for each in app.markdown if "Be brief" in each.value)
    assert as_read(text.value) == ":gray[Be brief.]"
    assert as_read(text.help).endswith("of Instructions came in turn 14, after the prompt of turn 14.")
    memory.blocks.configure("Facts", enabled=False)
    memory.build_context()
    held = next(each for each in page("blocks").markdown if " facts" in each.value and each.help)
    assert as_read(held.help) == "Facts was switched off for the prompt of turn 14."


def test_a_part_of_the_prompt_ends_in_what_was_found_or_kept_and_not_sent(memory):
    app = page("context")
    for expander in app.expander:
        app.session_state[expander.key] = True
    app.run()
    assert not app.exception
    effects = memory.trace.effects()
    found = [effect for effect in effects.without("Earlier turns") if effect.stage.name == "found"]
    kept = [effect for effect in effects.without("Facts") if effect.stage.name == "found"]
    assert f"Found, not sent: {len(found)}" in joined(app)
    assert f"Kept, not sent: {len(kept)}" in joined(app)
    assert {effect.stage.text for effect in (*found, *kept)} <= set(tooltips(app).values())


def test_rows_of_a_search_that_are_not_in_its_prompt_are_grey(memory):
    search = memory.trace.effects(turn=13)
    app = page("retrieval", turn="13")
    table = app.dataframe[0]
    grey = {int(row) for row in re.findall(r"_row(\d+)_col2", table.proto.arrow_data.styler.styles)}
    outcomes = table.value["Outcome"].tolist()
    assert {place for place, outcome in enumerate(outcomes) if not outcome.startswith("In the prompt")} == grey
    assert len(grey) == len(search.without("Earlier turns"))


def test_what_is_marked_at_each_turn_of_the_demo_ends_as_its_trace_does(memory):
    history = memory.log.history()
    marked = 0
    for turn in history.turns:
        effects = memory.trace.effects(turn=turn, upto=history.position_at(turn))
        for effect in (*effects.without("Facts"), *effects.without("Earlier turns")):
            trace = memory.trace(effect.ref, turn=turn, upto=history.position_at(turn))
            own = next(track for track in trace.tracks if track.carrier.ref == effect.ref)
            assert effect.stage in own.stages
            assert own.decisive in (effect.stage, None) or effect.stage.rule == "learned_later"
            marked += 1
    assert marked > 10
