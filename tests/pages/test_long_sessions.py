"""Many turns under a small limit, by every recipe: each page draws, now and at an earlier turn."""

import pytest
import streamlit as st
from fakes import FakeEmbedder
from pages_driver import joined, opened

from memory_core import ChatMessage, Memory, Services
from memory_core.events import ContextBuilt, Retrieved, numbers
from memory_core.recipes import RECIPES
from memory_inspector.reading.event_rows import remembered
from memory_inspector.wording import prompt_text
from ui.tab import services

pytestmark = pytest.mark.slow

TURNS, FOUND = 24, 40
PAGES = ("chat", "context", "timeline", "blocks", "facts", "graph", "trace", "retrieval", "lab", "sessions")
NOW_AND_THEN = tuple(page for page in PAGES if page not in ("lab", "sessions"))
"""What is tried and the list of sessions are of no turn."""
PEOPLE = ("Ana", "Rui", "Marta", "Tiago", "Ines", "Pedro")
PLACES = ("Lisbon", "Porto", "Faro", "Braga", "Evora")
WISHES = ("fish", "bread and olives", "a long walk", "the blue vase", "old maps", "quiet evenings", "a new bicycle")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    """A data folder with one long session of each recipe."""
    with pytest.MonkeyPatch.context() as patch:
        st.cache_resource.clear()
        patch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path_factory.mktemp("long")))
        for name in ("MEMORY_INSPECTOR_DATABASE_URL", "MEMORY_INSPECTOR_CHROMA_URL", "OPENAI_API_KEY"):
            patch.delenv(name, raising=False)
        shared = Services(embedder=FakeEmbedder())
        patch.setattr("memory_inspector.server.engine.Services", lambda index=None: shared)
        made = services.engine()
        for key in RECIPES:
            talk(begun(made, key, key, token_limit=260))
        chat(begun(made, "vector", "many", token_limit=300, top_k=40))
        yield made
        st.cache_resource.clear()
        shared.close()


def begun(made, recipe, session_id, **given):
    options = {"database_uri": made.settings.database, "services": made.services, "token_flush_size": 20} | given
    return Memory.from_recipe(recipe, session_id, "sam", **options)


def chat(memory):
    """In messages so short that a search finds more of them than it records."""
    for turn in range(FOUND):
        memory.put(ChatMessage(role="user", content=f"{turn}: I like {WISHES[turn % len(WISHES)]}"))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content=f"Yes {turn}."))


def talk(memory):
    for turn in range(TURNS):
        person, place, wish = (of[turn % len(of)] for of in (PEOPLE, PLACES, WISHES))
        said = f"My friend {person} lives in {place}. I like {wish}, and I like {place} in spring."
        memory.put(ChatMessage(role="user", content=said))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content=f"{person} in {place}: I will remember {wish}."))


@pytest.mark.parametrize(
    "key", [pytest.param(key, marks=() if key == "blocks" else pytest.mark.slow) for key in RECIPES]
)
def test_every_page_of_a_long_session_draws_now_and_in_the_past(engine, key):
    app = opened(page="chat", session=key)
    assert not app.exception, app.exception
    for turn in ("", "11"):
        for page in PAGES if not turn else NOW_AND_THEN:
            app.switch_page(f"pages/{page}.py")
            app.query_params["session"] = key
            if page == "trace":
                app.query_params["words"] = WISHES[0]
            if turn:
                app.query_params["turn"] = turn
            app.run()
            assert not app.exception, (page, turn, app.exception)
            assert not app.error, (page, turn, app.error)


@pytest.mark.parametrize("key", RECIPES)
def test_every_prompt_of_a_long_session_can_be_told(engine, key):
    memory = engine.open(key)
    for turn in memory.log.history().turns.values():
        prompt = memory.log.prompt(turn.built)
        told = [prompt_text.headline(prompt), *(line for cut in prompt.cuts for line in prompt_text.cut_lines(cut))]
        told += [prompt_text.cut_note(entry) for cut in prompt.cuts for entry in cut.entries]
        assert all(told)
    timeline = remembered(memory)
    assert len(timeline.lines(memory.log.history().records, memory)) == len(memory.log.history().records)


def test_a_cut_turn_whose_score_was_not_recorded_is_told_as_such(engine):
    record = cut_without_a_score(engine.open("many"))
    app = opened(page="context", session="many", turn=str(record.turn))
    assert not app.exception
    assert "score not recorded" in joined(app)
    app.switch_page("pages/timeline.py")
    app.query_params["session"] = "many"
    app.session_state["timeline_opened"] = ("many", record.position)
    app.run()
    assert not app.exception
    assert "not recorded)" in joined(app)


def cut_without_a_score(memory):
    """The last prompt that lost a stored turn which is not among the candidates that its search recorded."""
    scored = set()
    found = None
    for record in memory.log.history().records:
        if isinstance(record.event, Retrieved):
            scored = {candidate[0] for candidate in record.event.candidates}
        elif isinstance(record.event, ContextBuilt):
            cut = {number for each in record.event.cuts for number in numbers(each["refs"], "unit")}
            found = record if cut - scored else found
    assert found is not None
    return found
