"""Numbers of one session on several pages: equal wherever they stand, and parts add up to their whole."""

import re

import pytest
from pages_driver import as_read, dialog, field, joined, opened
from said_numbers import all_of, found, growth

from memory_core import FactExtractionMemoryBlock, Memory
from memory_core.planning import curation
from memory_core.planning.curation import ChangeSet, FactDraft
from ui.tab import services

LONG = "A session whose name goes on and on " * 9
"""More than 300 characters."""


@pytest.fixture
def demo(demo_home):
    """The demo under a long name, with a smaller limit, a fact that a person wrote and one that was retired."""
    memory = services.engine().open("demo")
    desk = memory.facts.desk("Facts")
    desk.apply(curation.add("The wine is from Rui"))
    desk.apply(curation.retire(desk.facts(("active",))[:1], "no"))
    memory.blocks.configure("Facts", max_facts=2)
    memory.session.rename(LONG[:300])
    memory.configure(token_limit=1_100, reserved_tokens=40)
    memory.build_context("Where does Ana work?")
    return memory


def test_every_page_shows_the_same_numbers_of_one_prompt(demo):
    page, chat = opened(page="context"), opened()
    context = joined(page)
    total, limit = found("# of # tokens sent", context)
    labels = [as_read(each.label) for each in page.expander]
    parts = re.findall(r"\} ([^*\n]+) \*\*([\d,]+)(?: of [\d,]+)?\*\*", "\n".join(labels))
    assert sum(int(size.replace(",", "")) for _, size in parts) == total
    budget = next(line for line in joined(chat).splitlines() if re.fullmatch("[0-9,]+ of [0-9,]+", line))
    assert found("^# of #$", budget) == [total, limit]
    blocks = joined(opened(page="blocks"))
    sizes = dict(parts)
    for name in ("Instructions", "Facts", "Earlier turns"):
        assert f"**{sizes[name]}**" in blocks
    assert not [page for page in (context, blocks, joined(chat)) if re.search(r"turn 0\b", page)]


def test_the_facts_page_counts_what_it_lists(demo):
    page = opened(page="facts")
    active = demo.facts.read("Facts")
    line = next(each.value for each in page.markdown if "active fact" in each.value)
    assert found("^# active facts", line) == [len(active)]
    assert found(": # facts, limit 2", joined(page)) == [len(active)]
    assert f"Active {len(active)}" in [each for control in page.get("button_group") for each in control.options]


def test_the_settings_drawer_explains_every_token(demo):
    drawn = dialog("ui.settings_drawer", "settings_dialog", "demo")
    for label, value in (("Token limit", 800), ("System prompt and tools", 300), ("History share, %", 20)):
        field(drawn, label).set_value(value).run()
        line = next(as_read(each.value) for each in drawn.markdown if "Next prompt" in each.value).replace("*", "")
        total, limit = found("Next prompt: # of # tokens", line)
        so_far, before = found("so far # of #", line)
        assert (limit, before) == (800, 1_100)
        assert growth(line.partition("\n")[0]) == total - so_far, line


def test_cuts_of_the_queue_are_said_beside_those_of_blocks(demo):
    demo.configure(token_limit=400, reserved_tokens=0)
    demo.build_context("Where does Ana work?")
    page = joined(opened(page="blocks"))
    turns, of = found("The queue was cut in # of # turns", page)
    assert (turns, of) == (1, len(demo.log.history().turns))
    assert all_of("cut in # of", page)


def test_a_fact_is_traced_before_anything_is_said(demo_home):
    shared = services.engine()
    facts = FactExtractionMemoryBlock(name="Facts")
    curated = Memory.from_defaults("curated", database=shared.database, services=shared.services, memory_blocks=[facts])
    curated.facts.desk("Facts").apply(ChangeSet("import", (FactDraft("Ana is allergic to nuts"),)))
    page = opened(page="trace", session="curated", follow=f"f{curated.facts.read('Facts')[0].id}")
    assert "No prompt was built yet." in joined(page)
    assert {"Quarantine", ":red[Forget]"} <= {each.label for each in page.button}
    assert not re.search(r"turn 0\b", joined(page) + joined(opened(page="facts", session="curated")))
