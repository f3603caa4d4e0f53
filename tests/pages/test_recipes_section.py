"""Choosing a recipe: the section on Blocks, the drawer, a new session; labels and decisions of facts."""

from zlib import crc32

import pytest
from pages_driver import button, dialog, drawn_until, field, joined, opened, press, said

from memory_core import ChatMessage, ConfigError, FactExtractionMemoryBlock, Memory, Services, list_sessions
from memory_core.models.protocols import Condensation, ExtractedFact, Extraction
from memory_core.recipes import RECIPES
from memory_inspector.demo.conversations import EXAMPLES
from memory_inspector.server.engine import new_memory
from memory_inspector.wording.event_sentences import Words, describe
from ui.lab import tried_variants
from ui.tab import services

pytestmark = pytest.mark.slow

HOSTILE = "![x](http://evil.test/x.png) **hi**"


class Said:
    """Finds the facts that a message lists after `FACT:`."""

    name = "said"
    offline = True

    def extract(self, messages, *, known):
        texts = [(place, message.content.partition("FACT:")[2].strip()) for place, message in enumerate(messages)]
        return Extraction(tuple(ExtractedFact(text, "plan", place, None, ("life",)) for place, text in texts if text))

    def condense(self, facts, *, pinned, target):
        return Condensation(())


def demo():
    return services.engine().open("demo")


def recipes_page(**query):
    app = opened(page="blocks", view="recipes", **query)
    assert not app.exception, app.exception
    return app


def table(app):
    return app.dataframe[0].value


def learned(*texts, **settings):
    """A session whose block decides on what it finds."""
    given = {"on_change": "decide", "deliver_on": "turn"} | settings
    memory = Memory.from_defaults(
        "mine",
        "sam",
        database_uri=services.engine().settings.database,
        title="Mine",
        services=Services(extractor=Said(), embedder=services.engine().services.embedder),
        memory_blocks=[FactExtractionMemoryBlock(name="Facts", **given)],
    )
    for text in texts:
        memory.put(ChatMessage(role="user", content=f"By the way. FACT: {text}"))
        memory.put(ChatMessage(role="assistant", content="I see."))
    memory.flush(all=True)
    return memory


def fact_id():
    return services.engine().open("mine").facts.desk("Facts").facts()[0].id


# -- the section -----------------------------------------------------------------------------------


def test_the_recipes_are_a_view_of_the_blocks_page_with_an_address(demo_home):
    app = opened(page="blocks")
    assert "Cut in this order" in joined(app)
    app.segmented_control(key="blocks__view").set_value("recipes").run()
    assert app.query_params["view"] in ("recipes", ["recipes"])
    assert list(table(app)["Recipe"].str.removeprefix("✓ ")) == [recipe.title for recipe in RECIPES.values()]
    app.segmented_control(key="blocks__view").set_value("blocks").run()
    assert "view" not in app.query_params
    assert "Cut in this order" in joined(app)


def test_the_section_says_what_the_session_runs_on_and_changes_nothing_by_looking(demo_home):
    position = demo().session.status().position
    app = recipes_page()
    assert "This session runs on **Short-term + blocks**: 3 blocks, 11 turns so far." in joined(app)
    assert demo().session.status().position == position


def tried_in_the_lab(recipe):
    """The Lab as it is drawn once the conversation was played with a recipe."""
    app = press(recipes_page(recipe=recipe), "Try it in the Lab")
    app.switch_page("pages/lab.py").run()  # where the button leads, too; a later drawing would be of Blocks again
    played = "**The prompts"
    return drawn_until(app, lambda: app.exception or any(each.value.startswith(played) for each in app.markdown))


def test_a_recipe_is_tried_in_the_lab_which_leads_back_to_its_switch(demo_home):
    position = demo().session.status().position
    app = tried_in_the_lab("window")
    assert not app.exception, app.exception
    assert app.selectbox(key="lab__recipe_B").value == "window"
    assert app.selectbox(key="lab__recipe_B").options[1:] == [recipe.title for recipe in RECIPES.values()]
    rows = next(each.value for each in app.dataframe if "Flushes" in each.value).set_index("")
    assert list(rows.index) == ["A", "B"]
    assert list(rows["Begins with"]) == ["This session", "Sliding window"]
    assert rows.loc["B", "Calls to learn"] == 0 < rows.loc["A", "Calls to learn"]
    (back,) = [link.proto for link in app.get("page_link") if link.proto.label == "Switch the recipe on Blocks"]
    assert "recipe=window" in back.query_string
    assert demo().session.status().position == position


def test_recipes_are_tried_beside_each_other_and_none_twice(demo_home):
    session_id = "demo"

    def tried(*recipes):
        for recipe in recipes:
            tried_variants.begin_with(session_id, recipe)
        desk = tried_variants.desk(session_id)
        return [(each.name, each.recipe) for each in desk.tried], desk.shown

    assert tried("window") == ([("B", "window")], "B")
    assert tried("graph", "window") == ([("B", "window"), ("C", "graph")], "B")
    tried_variants.turn_knob(session_id, "B", "token_limit", 700, 1_200)
    assert tried("window") == ([("B", "window"), ("C", "graph"), ("D", "window")], "D"), "what was changed stays"
    assert tried("buffer") == ([("B", "window"), ("C", "graph"), ("D", "buffer")], "D")


def test_what_a_switch_does_is_said_before_the_button_that_does_it(demo_home):
    facts = sum(demo().blocks.holding("Facts").facts.values())
    archived = demo().session.status().archived_messages
    app = recipes_page(recipe="summary")
    words = joined(app)
    assert "**Keeps** Instructions." in words
    assert f"**Adds** Summary (filled from {archived} messages)." in words
    assert f"Facts (its {facts} facts stay stored)" in words
    assert [attached.name for attached in demo().blocks] == ["Instructions", "Facts", "Earlier turns"]
    app = press(app, "Switch to Summary buffer")
    assert [attached.name for attached in demo().blocks] == ["Instructions", "Facts", "Earlier turns"], "it asks first"
    assert "This cannot be undone" in joined(app)
    assert f"{len(demo().retrieval.stored_turns('Earlier turns'))} stored turns are deleted" in joined(app)
    app = app.button(key="recipes__switch_do").click().run()
    assert not app.exception, app.exception
    assert any("runs on Summary buffer." in each.replace("\\", "") for each in said(app))
    assert [attached.name for attached in demo().blocks] == ["Instructions", "Summary"]
    assert demo().session.config.recipe == "summary"
    assert "runs on **Summary buffer**" in joined(app)
    assert "**In use.**" in joined(app)
    demo().deliver()
    assert "being filled" not in joined(recipes_page(recipe="summary"))


def test_a_hybrid_keeps_older_turns_as_a_summary_where_that_is_chosen(demo_home):
    app = recipes_page(recipe="hybrid")
    assert "Keeps** Instructions and Earlier turns." in joined(app)
    app.segmented_control(key="recipes__overflow_hybrid").set_value("summarised").run()
    assert "Summary (filled from 6 messages)" in joined(app)
    press(app, "Switch to Composable").button(key="recipes__switch_do").click().run()
    assert not app.exception
    assert [attached.kind for attached in demo().blocks] == ["static", "graph", "summary"]
    assert demo().session.config.recipe_parameters == {"overflow": "summarised"}
    assert "**In use.**" in joined(recipes_page(recipe="hybrid"))


def test_a_recipe_that_was_changed_since_says_so_and_can_be_gone_back_to(demo_home):
    memory = new_memory(services.engine(), title="Mine", recipe="window")
    memory.configure(queue_turns=2)
    app = recipes_page(session=memory.session_id, recipe="window")
    assert "**Sliding window, changed since**" in joined(app)
    press(app, "Go back to Sliding window").button(key="recipes__switch_do").click().run()
    assert services.engine().open(memory.session_id).session.config.queue_turns == 6


def test_a_recipe_that_needs_a_user_says_so(demo_home):
    memory = new_memory(services.engine(), title="Nobody's")
    app = recipes_page(session=memory.session_id, recipe="user_memories")
    assert any("belongs to a user" in each.value for each in app.warning)
    assert not [each for each in app.button if each.label.startswith("Switch to")]


def test_in_the_past_recipes_are_read_only(demo_home):
    app = recipes_page(turn="5", recipe="summary")
    assert not [each for each in app.button if each.label.startswith(("Switch", "Try"))]
    assert "at the latest turn." in joined(app)


def test_with_a_model_the_calls_of_filling_are_said_first(demo_home, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    archived = demo().session.status().archived_messages
    app = recipes_page(recipe="summary")
    assert f"to read {archived} messages." in joined(app)
    assert not [each for each in demo().events(kinds=("model_called",)) if each.event.purpose == "summarise"]


def test_names_of_blocks_are_shown_as_typed(demo_home):
    memory = new_memory(services.engine(), title="Odd")
    memory.blocks.add(FactExtractionMemoryBlock(name=HOSTILE, priority=3, scope="session"))
    app = recipes_page(session=memory.session_id, recipe="window")
    assert not [each.value for each in app.markdown if "![x]" in each.value]


# -- the settings drawer and a new session ---------------------------------------------------------


def test_the_drawer_sets_the_turns_of_the_queue_and_empties_them_again(demo_home):
    drawn = dialog("ui.settings_drawer", "settings_dialog", "demo")
    assert field(drawn, "Turns in the queue").value is None
    field(drawn, "Turns in the queue").set_value(4).run()
    press(drawn, "Apply from the next turn")
    assert demo().session.config.queue_turns == 4
    drawn = dialog("ui.settings_drawer", "settings_dialog", "demo")
    field(drawn, "Turns in the queue").set_value(None).run()
    press(drawn, "Apply from the next turn")
    assert demo().session.config.queue_turns is None


def test_the_drawer_says_which_recipe_it_is_and_leaves_the_choice_to_the_page_that_shows_its_plan(demo_home):
    drawn = dialog("ui.settings_drawer", "settings_dialog", "demo")
    assert not drawn.exception, drawn.exception
    assert "Recipe: **Short-term + blocks**" in joined(drawn)
    assert not [each for each in drawn.selectbox if each.label == "Recipe"], "what Apply would not apply is not chosen"
    assert "Compare and switch" in [each.label for each in drawn.button]


def test_a_new_session_can_begin_as_any_recipe(home):
    for key in RECIPES:
        memory = new_memory(services.engine(), title="New", user_id="sam", recipe=key)
        assert memory.session.config.recipe == key
        assert not memory.preview.switch(key), f"it begins as {key} has it"


def test_the_new_dialog_asks_for_a_user_where_the_recipe_needs_one(demo_home):
    drawn = dialog("ui.sessions.session_dialogs", "new_dialog")
    recipe = next(each for each in drawn.selectbox if each.label == "Recipe")
    assert recipe.value == "blocks"
    recipe.set_value("user_memories").run()
    assert any("for a user" in each.value for each in drawn.warning)
    assert button(drawn, "Start session").disabled
    with pytest.raises(ConfigError, match="belongs to a user"):
        new_memory(services.engine(), title="x", recipe="user_memories")


def test_a_new_session_can_begin_with_an_example_of_its_recipe(demo_home):
    before = {status.session_id for status in list_sessions(services.engine().database)}
    drawn = dialog("ui.sessions.session_dialogs", "new_dialog")
    next(each for each in drawn.selectbox if each.label == "Recipe").set_value("graph").run()
    next(each for each in drawn.checkbox if each.label.startswith("With a short")).check().run()
    button(drawn, "Start session").click().run()
    made = {status.session_id for status in list_sessions(services.engine().database)} - before
    memory = services.engine().open(made.pop())
    assert memory.session.config.recipe == "graph"
    assert memory.session.recording().messages == EXAMPLES["graph"].messages
    assert memory.session.config.token_limit == EXAMPLES["graph"].token_limit


# -- the settings of a block of facts --------------------------------------------------------------


def test_a_block_of_facts_can_be_made_to_decide_and_to_show_the_relevant_ones(demo_home):
    drawn = dialog("ui.blocks.block_settings", "settings_of_dialog", "demo", "Facts")
    assert not drawn.exception, drawn.exception
    choices = {each.label: each for each in drawn.selectbox}
    assert "Known facts to compare with" not in [each.label for each in drawn.number_input]
    choices["Compare new facts with known ones"].set_value("decide").run()
    choices["Facts in the prompt"].set_value("relevant").run()
    field(drawn, "Known facts to compare with").set_value(3).run()
    field(drawn, "Maximum facts in one prompt").set_value(4).run()
    next(each for each in drawn.multiselect if each.label == "Categories").set_value(["semantic"]).run()
    press(drawn, "Apply from the next turn")
    settings = demo().blocks.settings("Facts")
    assert {name: settings[name] for name in ("on_change", "show", "nearest", "top_k", "categories")} == {
        "on_change": "decide", "show": "relevant", "nearest": 3, "top_k": 4, "categories": ["semantic"],
    }  # fmt: skip
    line = demo().events(kinds=("block_edited",), limit=1, newest_first=True)[0].event
    assert describe(line, Words({}, {}, {})).text.startswith("Changed Facts: ")


# -- facts -----------------------------------------------------------------------------------------


def test_decisions_are_listed_with_what_they_were_compared_with(demo_home):
    memory = learned("Sam prefers light mode", "Sam prefers dark mode", "Ana likes jazz")
    assert len(memory.events(kinds=("fact_decided",))) == 3
    app = opened(page="facts", session="mine")
    control = next(each for each in app.segmented_control if "Decisions 3" in each.options)
    control.set_value("decisions").run()
    assert not app.exception, app.exception
    said = joined(app)
    assert "3 decisions: " in said
    assert "decided by rules" in said
    rows = table(app)
    assert list(rows["Found"]) == ["Ana likes jazz", "Sam prefers dark mode", "Sam prefers light mode"]


def test_a_fact_shows_its_category_and_topics_and_can_be_put_under_others(demo_home):
    learned("Ana likes jazz")
    app = opened(page="facts", session="mine")
    assert not app.exception, app.exception
    curation = services.engine().open("mine").facts.desk("Facts")
    fact = curation.facts()[0]
    assert fact.topics == ("life",)
    assert ":gray[plan]" in joined(app)
    app.session_state[f"facts__label_{fact.id}_{fact.version}_0"] = True
    app.run()
    topics = next(each for each in app.multiselect if each.label == "Topics")
    topics.set_value([]).run()
    press(app, "Apply labels")
    assert curation.facts()[0].topics == ()
    assert any(each.value.startswith("Labelled") for each in app.success)


def test_the_history_of_a_fact_says_how_it_was_decided(demo_home):
    learned("Sam prefers light mode", "Sam prefers dark mode")
    app = opened(page="facts", session="mine")
    app.session_state[f"facts__history_{fact_id()}"] = True
    app.run()
    said = joined(app)
    assert "**Updated**" in said
    assert "decided by rules: a changed preference; compared with 1:" in said


def test_a_search_offers_what_is_nearest_in_meaning_with_its_score(demo_home):
    learned("Sam is allergic to nuts", "Ana likes jazz")
    app = opened(page="facts", session="mine")
    next(each for each in app.text_input if each.label == "Search facts").set_value("which music").run()
    assert not app.exception, app.exception
    app.session_state[f"facts__meaning_{crc32(b'which music')}"] = True
    app.run()
    hit = next(each for each in app.button if each.key.startswith("facts__hit_"))
    assert hit.label.endswith("Ana likes jazz")
    hit.click().run()
    assert "**Ana likes jazz**" in joined(app)
