"""After a switch of recipe and after the removal of a block, the past reads as it did before."""

import json
import re

import pytest
from pages_driver import opened, story

from memory_core import ChatMessage
from memory_core.events import FactAdded
from memory_core.planning.curation import edit
from memory_inspector.palette import block_colour
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import demo_memory
from memory_inspector.wording.event_sentences.event_words import lines_in_log, named_in_log, words_in_log
from ui.tab import services

pytestmark = pytest.mark.slow


@pytest.fixture
def demo(demo_home):
    """The demo at turn 12: its first cut."""
    engine = services.engine()
    memory = demo_memory(engine.database, engine.services)
    play(Job("on"), memory, turns=1, pace=0)
    return memory


def on_chat():
    app = opened(session="demo")
    (legend,) = [each.proto.body for each in app.get("html") if each.proto.body.startswith("<table")]
    return story(app), [colour.upper() for colour in re.findall(r"#[0-9a-fA-F]{6}", legend)]


def on_timeline():
    app = opened(page="timeline", session="demo")
    figure = json.loads(app.get("plotly_chart")[0].proto.spec)
    colours = {trace["name"]: trace["marker"]["color"] for trace in figure["data"] if trace["type"] == "bar"}
    return list(app.dataframe[0].value["What happened"]), colours


def on_context():
    app = opened(page="context", session="demo", turn="12")
    return [each.value for each in app.markdown if "**1 Earlier turns**" in each.value], [e.label for e in app.expander]


def test_a_switch_of_recipe_takes_no_word_and_no_colour_from_the_past(demo):
    before = on_chat(), on_timeline(), on_context()
    told = "\n".join(before[0][0])
    assert "Learned 3 facts" in told
    assert "contradicts" in told
    events = len(demo.log.history().records)
    demo.session.switch("graph")
    new = sum(not record.event.bookkeeping for record in demo.log.history().records[events:])
    after = on_chat(), on_timeline()
    assert [line for line in after[0][0] if line in before[0][0]] == before[0][0]  # beside what the switch did
    assert after[0][1] == before[0][1]
    assert block_colour("vector", "light") in before[0][1]
    assert after[1][0][new:] == before[1][0][: len(after[1][0]) - new]  # newest first
    assert after[1][1] == before[1][1]
    assert after[1][1]["Facts"] == block_colour("facts", "light")
    demo.put(ChatMessage(role="user", content="And now?"))
    assert on_context() == before[2]
    lines = lines_in_log(demo, demo.log.history().records)
    assert not [line.text for line in lines if "erased" in line.text or "turn ?" in line.text]


def test_a_removed_block_leaves_its_words_in_the_log(demo):
    records = [record for record in demo.log.history().records if isinstance(record.event, FactAdded)]
    before = words_in_log(demo, records).facts
    demo.blocks.remove("Facts")
    assert words_in_log(demo, records).facts == before
    assert len(before) == len(records)


def test_only_what_was_erased_is_called_so(demo):
    records = [record for record in demo.log.history().records if isinstance(record.event, FactAdded)]
    curation = demo.facts.desk("Facts")
    gone = curation.facts()[0]
    curation.erase([gone])
    facts = words_in_log(demo, records).facts
    assert gone.id not in facts
    assert len(facts) == len(records) - 1


def test_a_fact_is_told_as_it_was_when_it_was_learned(demo):
    record = next(record for record in demo.log.history().records if isinstance(record.event, FactAdded))
    learned = words_in_log(demo, [record]).facts[record.event.fact]
    fact = next(fact for fact in demo.facts.read("Facts", states=None) if fact.id == record.event.fact)
    demo.facts.desk("Facts").apply(edit(fact, "Something else altogether"))
    assert words_in_log(demo, [record]).facts == {record.event.fact: learned}
    last = demo.log.history().records[-1]
    assert named_in_log(demo, last, facts=[fact.id]).facts == {fact.id: "Something else altogether"}
