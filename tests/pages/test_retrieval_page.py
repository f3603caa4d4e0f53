"""The Retrieval page, drawn and clicked in this process."""

from dataclasses import replace

import pytest
from fakes import FakeEmbedder
from pages_driver import button, dialog, joined, message_texts, opened, press, said

from memory_core import ChatMessage, EmbedderError, Memory, VectorIndexError, VectorMemoryBlock
from memory_inspector.demo.conversations import FORGOTTEN_QUESTION, FORGOTTEN_WORDS
from memory_inspector.reading.search_rows import in_prompt
from memory_inspector.server.chat_turns import play
from ui.retrieval.tried_search import SearchPageState
from ui.tab import services

pytestmark = pytest.mark.slow

QUESTION = "What can Rui eat?"


def page(**query):
    return opened(page="retrieval", **{"session": "demo", **query})


def played(turns):
    """The demo, played on by so many turns."""
    shared = services.engine()
    job = shared.start("demo", f"played-{turns}", lambda job: play(job, shared.open("demo"), turns=turns, pace=0))
    assert job.wait(60)
    assert job.error is None
    return shared.open("demo")


@pytest.fixture
def memory(demo_home):
    """The demo at turn 16, whose question finds what turn 4 said below the threshold."""
    return played(5)


def listed(app):
    """The list's rows."""
    table = next(each.value for each in app.dataframe if {"Text", "Outcome"} <= set(each.value.columns))
    return table.to_dict("records")


def pick(app, number, session_id="demo"):
    """Pick a stored turn, as its row or mark would: what is marked by hand does not call back in AppTest."""
    known = {}
    if "retrieval_asked" in app.session_state:
        known.update(app.session_state["retrieval_asked"])
    asked = replace(known.get(session_id, SearchPageState()), number=number)
    app.session_state["retrieval_asked"] = {**known, session_id: asked}
    return app.run()


def number_of(memory, turn):
    """Of the stored turn that is from this turn of the conversation."""
    return next(each.number for each in memory.retrieval.stored_turns("Earlier turns") if each.turn == turn)


def stage(app):
    return next(each for each in app.segmented_control if each.key == "retrieval__stage")


def knob(app, label):
    return next(each for each in app.number_input if each.label == label)


def new_session(name, *blocks, **options):
    shared = services.engine()
    return Memory.from_defaults(
        name,
        database_uri=shared.settings.database,
        services=shared.services,
        title=name,
        memory_blocks=list(blocks) or None,
        **options,
    )


def fill(memory, turns=8):
    for turn in range(turns):
        memory.put(ChatMessage(role="user", content=f"Turn {turn} speaks of the boat number {turn} at the river"))
        memory.put(ChatMessage(role="assistant", content="The boat, then."))


# -- now -------------------------------------------------------------------------------------------


def test_it_opens_on_the_latest_question_with_what_it_finds(memory):
    app = page()
    assert not app.exception
    asked = [stored.message.content for stored in memory.session.messages() if stored.message.role == "user"][-1]
    assert app.text_input(key="retrieval__query").value == asked
    search = memory.retrieval.search(asked)
    assert f"Searched **{search.stored} stored turns**" in joined(app)
    assert [row["Turn"] for row in listed(app)] == [one.turn for one in search.found]
    assert "changes nothing" in joined(app)


def test_looking_records_nothing(memory):
    before = memory.session.status().position
    app = page()
    pick(app, number_of(memory, 4))
    stage(app).set_value("below_threshold").run()
    knob(app, "Threshold").set_value(0.1).run()
    assert not app.exception
    assert memory.session.status().position == before


def test_a_question_of_one_s_own_is_searched_and_stands_in_the_address(memory):
    app = page()
    app.text_input(key="retrieval__query").set_value(QUESTION)
    press(app, "Search")
    assert [row["Turn"] for row in listed(app)] == [one.turn for one in memory.retrieval.search(QUESTION).found]
    assert app.query_params["query"] == QUESTION


def test_a_link_asks_its_question(memory):
    app = page(query=QUESTION)
    assert app.text_input(key="retrieval__query").value == QUESTION
    assert [row["Turn"] for row in listed(app)] == [one.turn for one in memory.retrieval.search(QUESTION).found]


def test_a_stage_of_the_funnel_narrows_the_list(memory):
    app = page(query=QUESTION)
    below = [one.turn for one in memory.retrieval.search(QUESTION).found if one.outcome == "below_threshold"]
    assert f"Below 0.31: {len(below)}" in stage(app).options
    stage(app).set_value("below_threshold").run()
    assert [row["Turn"] for row in listed(app)] == below
    stage(app).set_value("in_queue").run()
    assert not app.exception
    assert "at this stage." in joined(app)


def test_what_the_search_missed_is_found_by_its_words_with_the_gate_where_it_fell(memory):
    app = page()
    app.text_input(key="retrieval__missed").set_value("meat").run()
    (row,) = listed(app)
    assert (row["Turn"], row["Outcome"]) == (4, "Below 0.31")
    assert "**below the threshold 0.31**." in joined(app)
    text = joined(app)
    assert "below the threshold 0.31" in text
    assert "0.85 ×" in text
    assert "Rui stays off :blue-background[meat]" in text
    assert row["Text"].startswith("…")
    assert "Rui stays off meat" in row["Text"][:60]
    assert "Then turn 4 is" in text
    assert "Next prompt:" in text


def test_a_link_lands_on_the_words_that_were_forgotten(memory):
    app = page(query=FORGOTTEN_QUESTION, find=FORGOTTEN_WORDS)
    assert not app.exception
    assert app.text_input(key="retrieval__missed").value == FORGOTTEN_WORDS
    text = joined(app)
    assert f":blue-background[{FORGOTTEN_WORDS}]" in text
    assert "Below the threshold of Earlier turns: 0.23 < 0.31." in text
    assert button(app, "Lower the threshold to 0.23")
    order = [each.value.replace("\\", "") for each in app.markdown]
    shown = next(place for place, value in enumerate(order) if FORGOTTEN_WORDS in value and "lue-back" in value)
    assert shown < next(place for place, value in enumerate(order) if "are the stored settings" in value)
    app.text_input(key="retrieval__missed").set_value("").run()
    assert "find" not in app.query_params
    assert len(listed(app)) == len(memory.retrieval.search(FORGOTTEN_QUESTION).found)


@pytest.mark.slow
def test_a_turn_that_the_limit_cut_is_brought_back_by_the_limit_that_is_offered(memory):
    memory.blocks.configure("Earlier turns", similarity_threshold=None)
    memory.configure(token_limit=1000)
    search = memory.retrieval.search(QUESTION)
    cut = next(one for one in search.found if one.outcome == "cut")
    app = pick(page(query=QUESTION), cut.number)
    offered = button(app, "Raise the limit to")
    limit = int(offered.label.rpartition(" ")[2].replace(",", ""))
    assert limit > 1000
    offered.click().run()
    assert not app.exception
    memory.session.refresh()
    assert memory.session.config.token_limit == limit
    assert memory.retrieval.search(QUESTION).one(cut.number).outcome == "granted"
    assert listed(app)
    press(app, "Undo")
    memory.session.refresh()
    assert memory.session.config.token_limit == 1000
    memory.configure(token_limit=limit)
    memory.put(ChatMessage(role="user", content=QUESTION))
    assert in_prompt(memory.build_context(), cut.number), "as it was offered"


def test_words_that_are_stored_nowhere_are_looked_for_in_the_rest_of_the_session(memory):
    newest = memory.session.messages(last=1)[0]
    word = max(newest.message.content.replace(".", " ").replace("?", " ").split(), key=len)
    app = page()
    app.text_input(key="retrieval__missed").set_value(f"{newest.message.content[:30]}").run()
    assert f"Turn {newest.turn} contains it and is still in the queue" in joined(app), word
    app.text_input(key="retrieval__missed").set_value("zeppelin").run()
    assert "No message in this session contains it." in joined(app)


@pytest.mark.slow
def test_the_offered_change_is_tried_and_then_applied(memory):
    app = page()
    pick(app, number_of(memory, 4))
    asked = memory.retrieval.search(app.text_input(key="retrieval__query").value)
    number = next(one.number for one in asked.found if one.turn == 4)
    changes = asked.settings_to_ask_for(number)
    press(app, "Lower the threshold to")
    assert knob(app, "Threshold").value == changes["similarity_threshold"]
    assert "With these: **turn 4 is" in joined(app)
    assert memory.blocks[2].record.settings["similarity_threshold"] == 0.31
    press(app, "Apply from the next turn")
    memory.session.refresh()
    stored = memory.blocks[2].record.settings
    assert {name: stored[name] for name in changes} == changes
    assert "are the stored settings" in joined(app)
    assert said(app)[0].startswith("Saved.")
    press(app, "Undo")
    memory.session.refresh()
    assert memory.blocks[2].record.settings["similarity_threshold"] == 0.31


@pytest.mark.slow
def test_the_knobs_try_and_go_back(memory):
    app = page(query=QUESTION)
    knob(app, "Results").set_value(1).run()
    knob(app, "Threshold").set_value(None).run()
    app.pills(key="retrieval__signals").set_value(["vector"]).run()
    settings = {"similarity_top_k": 1, "similarity_threshold": None, "keyword_weight": 0.0}
    search = memory.retrieval.search(QUESTION, settings=settings)
    assert [row["Turn"] for row in listed(app)] == [one.turn for one in search.found]
    assert [row["Outcome"] for row in listed(app)].count("Beyond the 1 result") == search.counts["beyond_top_k"]
    assert not any("Below" in label for label in stage(app).options)
    press(app, "Discard changes")
    assert knob(app, "Threshold").value == 0.31
    assert [row["Turn"] for row in listed(app)] == [one.turn for one in memory.retrieval.search(QUESTION).found]


def test_settings_that_were_changed_elsewhere_are_not_overwritten(memory):
    app = page(query=QUESTION)
    knob(app, "Results").set_value(2).run()
    memory.blocks.configure("Earlier turns", similarity_top_k=7)
    press(app, "Apply from the next turn")
    memory.session.refresh()
    assert memory.blocks[2].record.settings["similarity_top_k"] == 7
    assert "in another tab" in app.warning[0].value


@pytest.mark.slow
def test_a_stored_turn_is_deleted_behind_a_question(memory):
    number = memory.retrieval.stored_turns("Earlier turns")[3].number
    app = page()
    pick(app, number_of(memory, 4))
    press(app, "Delete stored turn")
    assert number in {turn.number for turn in memory.retrieval.stored_turns("Earlier turns")}
    asked = dialog("ui.retrieval.detail", "delete_dialog", "demo", "Earlier turns", number, 4, "words", "turn")
    assert "stay in the archive." in joined(asked)
    press(asked, "Cancel")
    assert number in {turn.number for turn in memory.retrieval.stored_turns("Earlier turns")}
    press(asked, "Delete stored turn")
    assert number not in {turn.number for turn in memory.retrieval.stored_turns("Earlier turns")}
    asked = dialog("ui.retrieval.detail", "delete_dialog", "demo", "Earlier turns", number, 4, "words", "turn")
    press(asked, "Delete stored turn")
    assert asked.session_state["notice"].text.endswith("Nothing was deleted.")
    app.run()
    assert not app.exception
    assert "not stored any more" in joined(app)


def test_an_address_that_asks_for_a_view_there_is_not_opens_the_list(memory):
    app = opened(page="retrieval", session="demo", query=QUESTION, view="map")
    assert not app.exception
    assert listed(app) == listed(page(query=QUESTION))


# -- then ------------------------------------------------------------------------------------------


def test_a_past_turn_shows_what_was_searched_then_and_offers_no_change(memory):
    app = page(turn="14")
    assert not app.exception
    (then,) = memory.retrieval.recorded(14, "Earlier turns")[-1:]
    assert [row["Turn"] for row in listed(app)] == [one.turn for one in then.found]
    assert then.query in message_texts(app)
    assert "Questions can be tried on the latest turn." in joined(app)
    pick(app, number_of(memory, 4))
    text = joined(app)
    assert "Below the threshold" in text
    for word in ("Search", "Apply", "Delete stored turn", "Lower the threshold"):
        assert not any(word in each.label for each in app.button)


def test_a_past_turn_without_a_search_says_so(memory):
    app = page(turn="2")
    assert not app.exception
    assert "Nothing was searched in turn 2." in joined(app)


def test_a_stage_that_a_past_search_does_not_have_is_left(memory):
    app = page()
    stage(app).set_value("stored").run()
    app.session_state["turn"] = 14
    app.run()
    assert not app.exception
    assert stage(app).value == "candidates"


# -- empty, degraded, wrong ------------------------------------------------------------------------


def test_nothing_stored_yet_says_when_something_will_be(home):
    new_session("young", VectorMemoryBlock(name="Earlier turns"))
    app = page(session="young")
    assert not app.exception
    assert "Nothing is stored yet." in joined(app)
    assert "Messages are stored when they leave the queue." in joined(app)


def test_without_a_block_that_stores_turns_it_says_what_to_add(home):
    new_session("bare")
    app = page(session="bare")
    assert not app.exception
    assert "No block stores earlier turns." in joined(app)


def test_of_several_blocks_one_is_picked(home):
    blocks = [VectorMemoryBlock(name="near", similarity_top_k=1), VectorMemoryBlock(name="*far*", similarity_top_k=9)]
    memory = new_session("two", *blocks, token_limit=160, token_flush_size=10)
    fill(memory)
    app = page(session="two", query="boat")
    picker = next(each for each in app.segmented_control if each.label == "Block")
    assert knob(app, "Results").value == 1
    picker.set_value("*far*").run()
    assert not app.exception
    assert knob(app, "Results").value == 9


def test_a_block_without_threshold_has_an_empty_knob(home):
    memory = new_session("open", VectorMemoryBlock(name="turns"), token_limit=160, token_flush_size=10)
    fill(memory)
    app = page(session="open", query="boat")
    assert not app.exception
    assert knob(app, "Threshold").value is None


class Unplugged(FakeEmbedder):
    def embed(self, texts):
        raise EmbedderError("The embedding model is missing. Install it again.")


def test_without_an_embedding_model_it_says_that_keywords_alone_are_searched(memory, monkeypatch):
    monkeypatch.setattr(services.engine().services, "_embedder", Unplugged())
    app = page(query=QUESTION)
    assert not app.exception
    assert app.warning[0].value.startswith("No embedding model: keyword search only.")
    assert listed(app)


class Gone:
    name = "Chroma at localhost:8000"

    def search(self, source, query, *, limit):
        raise VectorIndexError("Nothing answers at localhost:8000.")


def test_a_vector_store_that_does_not_answer_is_said_and_the_database_searched(memory, monkeypatch):
    monkeypatch.setattr(services.engine().services, "_index", Gone())
    app = page(query=QUESTION)
    assert not app.exception
    assert app.error[0].value.startswith(
        "The vector store did not answer. Searched the database copy instead (slower)."
    )
    app.toggle(key="retrieval__each_term").set_value(True).run()
    assert [row["Vector"] for row in listed(app)] == [one.vector for one in memory.retrieval.search(QUESTION).found]


class Remote(FakeEmbedder):
    offline = False
    calls = 0

    def embed(self, texts):
        Remote.calls += 1
        return super().embed(texts)


def test_a_remote_embedding_model_is_called_only_by_the_button(memory, monkeypatch):
    monkeypatch.setattr(services.engine().services, "_embedder", Remote())
    monkeypatch.setattr(Remote, "calls", 0)
    app = page(query=QUESTION)
    assert not app.exception
    assert Remote.calls == 0
    assert "Makes one embedding call" in joined(app)
    press(app, "Search")
    assert Remote.calls > 0
    calls = Remote.calls
    app.run()
    assert Remote.calls == calls


def test_others_words_are_shown_as_text(home):
    block = VectorMemoryBlock(name="turns", similarity_top_k=3)
    memory = new_session("hostile", block, token_limit=160, token_flush_size=10)
    words = "<img src=x onerror=alert(1)> **bold** :red[x] $a$ the boat"
    memory.put(ChatMessage(role="user", content=words))
    fill(memory)
    app = page(session="hostile", query="<b>boat</b> **x**")
    app.text_input(key="retrieval__missed").set_value("onerror").run()
    (row,) = listed(app)
    assert row["Text"].startswith(words)
    number = memory.retrieval.stored_turns("turns")[0].number
    pick(app, number, "hostile")
    assert not app.exception
    assert "onerror]=alert(1)> **bold** :red[x]" in joined(app)
    for each in app.markdown:
        assert "<img" not in each.value.replace("\\<", "")
        assert "**bold**" not in each.value


def test_a_long_list_is_paged(home, monkeypatch):
    monkeypatch.setattr("ui.retrieval.retrieval_page.ROWS", 4)
    memory = new_session("long", VectorMemoryBlock(name="turns"), token_limit=160, token_flush_size=10)
    fill(memory, 16)
    app = page(session="long", query="boat")
    assert not app.exception
    assert len(listed(app)) == 4
    assert "1 to 4 of" in joined(app)


def test_a_question_stays_with_its_session(memory):
    other = new_session("other", VectorMemoryBlock(name="turns"), token_limit=160, token_flush_size=10)
    fill(other)
    app = page(query=QUESTION)
    app.session_state["session"] = "other"
    app.run()
    assert not app.exception
    assert app.text_input(key="retrieval__query").value.startswith("Turn 7 speaks")
    assert "query" not in app.query_params
    app.session_state["session"] = "demo"
    app.run()
    assert app.text_input(key="retrieval__query").value == QUESTION


def test_a_button_that_is_not_for_now_is_off(memory):
    assert button(page(query=QUESTION), "Apply from the next turn").disabled
