"""The Retrieval page of a session whose block fills its room: terms, switches, questions that found a turn; and what
other pages show of date lines.
"""

from dataclasses import replace

import pytest
from fakes import FakeEmbedder
from pages_driver import dialog, joined, message_texts, opened, press

from memory_core import ChatMessage, EmbedderError, Memory, NotFoundError
from memory_core.events import ContextBuilt, Retrieved, numbers
from memory_core.planning.retrieval_plan import BOOSTS, BoostWeights
from ui.retrieval import detail, tried_search
from ui.retrieval.tried_search import SearchPageState
from ui.tab import services, state

pytestmark = pytest.mark.slow

QUESTION = "What did Ana say about the pottery class on 19 May 2023?"
BLOCK = "Earlier turns"
USUAL = BoostWeights()
DAYS = {
    "8 May 2023": ("I adopted a small dog from the shelter today", "How old is she?", "Two, and afraid of the rain"),
    "19 May 2023": ("I made a blue bowl in the pottery class", "How did it turn out?", "Fine, only the glaze cracked"),
    "2 June 2023": ("We drive to the coast in July", "Where will you stay?", "In a house near the lighthouse"),
}


@pytest.fixture
def memory(home):
    """Two people on three days; most of it stored, and two questions asked since."""
    shared = services.engine()
    memory = Memory.from_recipe(
        "vector",
        "ana",
        database_uri=shared.settings.database,
        services=shared.services,
        token_limit=90,
        chat_history_token_ratio=0.5,
        token_flush_size=10,
    )
    for day, lines in DAYS.items():
        for place, text in enumerate((*lines, "Tell me more of it", "There is nothing more to be told of that day")):
            told = {"time": f"{day} 1{place}:05", "name": "Rui" if place % 2 else "Ana"}
            role = "assistant" if place % 2 else "user"
            memory.put(ChatMessage(role=role, content=text, additional_kwargs=told))
    for question in ("What about the dog?", QUESTION):
        memory.put(ChatMessage(role="user", content=question))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content="I see."))
    return memory


def page(**query):
    app = opened(page="retrieval", **{"session": "ana", "query": QUESTION, **query})
    assert not app.exception, app.exception
    return app


def listed(app):
    return app.dataframe[0].value.to_dict("records")


def number_of(memory, words):
    turns = memory.retrieval.stored_turns(BLOCK)
    return next(turn.number for turn in turns if words in str(turn.messages[0].message.content))


def ask_with(app, **changes):
    """As a click that AppTest does not call back leaves it."""
    known = dict(app.session_state["retrieval_asked"]) if "retrieval_asked" in app.session_state else {}
    app.session_state["retrieval_asked"] = {**known, "ana": replace(known.get("ana", SearchPageState()), **changes)}
    return app.run()


def signals(app):
    return app.pills(key="retrieval__signals")


# -- terms ---------------------------------------------------------------------------------------------


def test_what_a_score_is_made_of_has_columns_when_it_is_asked_for(memory):
    app = page()
    assert list(listed(app)[0]) == ["Turn", "Score", "Outcome", "Text"]
    app.toggle(key="retrieval__each_term").set_value(True).run()
    columns = list(listed(app)[0])
    assert columns[4] == "Match"
    assert {"Neighbours", "Same session", "Speaker", "Date", "Informative"} < set(columns)
    assert "Length" not in columns  # no message is that long
    for row in listed(app):
        parts = [row[name] for name in columns if name not in ("Turn", "Text", "Score", "Outcome")]
        assert round(sum(parts), 2) == pytest.approx(row["Score"], abs=0.0051)


def test_the_score_of_a_picked_turn_is_written_out_as_a_sum(memory):
    app = ask_with(page(), number=number_of(memory, "blue bowl"))
    rows = app.table[0].value.to_dict("records")
    assert [row["what"] for row in rows][:1] == ["Match"]
    said = {row["what"]: row["means"] for row in rows}
    assert "0.40 ×" in said["Match"]
    assert "Said by the person the question is about." in said["Speaker"]
    assert "Said on a date that the question names." in said["Date"]
    assert "Nothing from length." in joined(app)


def test_a_block_without_terms_shows_none(memory):
    memory.blocks.configure(
        BLOCK, **{f"{name}_weight": 0.0 for name in ("neighbour", "episode", "speaker", "date")},
        informativeness_weight=0.0, length_weight=0.0,
    )  # fmt: skip
    app = ask_with(page(), number=number_of(memory, "blue bowl"))
    app.toggle(key="retrieval__each_term").set_value(True).run()
    assert list(listed(app)[0]) == ["Turn", "Score", "Outcome", "Text", "Vector", "Keyword"]
    assert "Score: 0.40 ×" in joined(app)


def test_what_found_no_room_is_a_stage_of_its_own(memory):
    search = memory.retrieval.search(QUESTION)
    assert search.counts["no_room"]
    app = page()
    stage = app.segmented_control(key="retrieval__stage")
    label = f"No room in {search.token_budget} tokens: {search.counts['no_room']}"
    assert label in stage.options
    stage.set_value("no_room").run()
    assert len(listed(app)) == search.counts["no_room"]
    assert all(row["Outcome"].startswith("No room: ") for row in listed(app))


# -- switches ------------------------------------------------------------------------------------------


def test_every_signal_can_be_switched_off_and_on_again_and_applied(memory):
    app = page()
    assert signals(app).value == ["vector", "keyword", *BOOSTS]
    signals(app).set_value(["keyword", "date"]).run()
    tried = memory.retrieval.search(
        QUESTION,
        settings={"vector_weight": 0, "keyword_weight": 0.6, "date_weight": USUAL.date}
        | dict.fromkeys(
            ("neighbour_weight", "episode_weight", "speaker_weight", "informativeness_weight", "length_weight"), 0
        ),
    )
    assert [row["Turn"] for row in listed(app)] == [one.turn for one in tried.found if one.outcome != "not_proposed"]
    assert "With these: **" in joined(app)
    press(app, "Apply from the next turn")
    memory.session.refresh()
    settings = memory.blocks.settings(BLOCK)
    assert (settings["vector_weight"], settings["date_weight"], settings["speaker_weight"]) == (0, USUAL.date, 0)
    signals(app).set_value(["vector", "keyword", "speaker"]).run()
    assert asked_of(app)["vector_weight"] == 0.4  # the usual one, where the block has it off
    assert asked_of(app)["speaker_weight"] == USUAL.speaker


def asked_of(app):
    return app.session_state["retrieval_asked"]["ana"].tried[BLOCK]


def test_one_of_the_two_searches_stays_on(memory):
    app = page()
    signals(app).set_value(["date"]).run()
    assert not app.exception
    assert signals(app).value == ["vector", "keyword", *BOOSTS]
    assert "One of the two searches must stay on" in app.info[0].value


def test_a_switch_gives_the_block_s_own_weight_or_the_usual_one():
    stored = {"vector": 0.85, "keyword": 0.0, **dict.fromkeys(BOOSTS, 0.0), "date": 0.3}
    weights = tried_search.switched({"vector", "keyword", "date", "length"}, stored)
    assert (weights["vector_weight"], weights["keyword_weight"]) == (0.85, 0.6)
    assert (weights["date_weight"], weights["length_weight"], weights["episode_weight"]) == (0.3, USUAL.length, 0.0)


def test_results_are_a_number_or_as_many_as_fit(memory):
    app = page()
    field = next(each for each in app.number_input if each.label == "Results")
    assert (field.value, field.placeholder) == (None, "as many as fit")
    field.set_value(2).run()
    outcomes = [row["Outcome"] for row in listed(app) if row["Outcome"] != "Left out as repeated"]
    assert outcomes.count("Beyond the 2 results") == len(outcomes) - 2
    assert not any("No room" in label for label in app.segmented_control(key="retrieval__stage").options)
    next(each for each in app.number_input if each.label == "Results").set_value(None).run()
    assert "are the stored settings." in joined(app)


# -- which question found this turn --------------------------------------------------------------------


def test_the_questions_that_found_a_turn_are_listed_newest_first(memory):
    app = ask_with(page(), number=number_of(memory, "small dog"))
    table = app.dataframe[-1].value.to_dict("records")
    assert [row["Question"] for row in table] == [QUESTION, "What about the dog?"]
    assert table[1]["Place"] == "1st"
    assert "Found by 2 questions" in joined(app)


def test_a_block_that_stores_messages_counts_and_deletes_messages(memory):
    number = number_of(memory, "small dog")
    app = ask_with(page(), number=number)
    assert f"Searched **{len(memory.retrieval.stored_turns(BLOCK))} stored messages**" in joined(app)
    assert "**Message of turn" in joined(app)
    press(app, "Delete stored message")
    asked = dialog("ui.retrieval.detail", "delete_dialog", "ana", BLOCK, number, 1, "words", "message")
    assert "Delete the message of turn 1" in joined(asked)
    assert "It stays in the archive." in joined(asked)
    press(asked, "Delete stored message")
    assert "The message of turn 1 is no longer found" in asked.session_state["toast"].text
    with pytest.raises(NotFoundError, match="This stored message is not in"):
        memory.retrieval.forget(BLOCK, number)


def test_a_turn_that_no_question_found_says_so(memory):
    app = ask_with(page(turn="1"), number=1)
    assert not app.exception
    memory.put_messages([ChatMessage(role="user", content="The cellar is full of apples")])
    memory.flush(all=True)
    app = ask_with(page(), number=number_of(memory, "cellar"))
    assert "No question has found this message yet." in joined(app)


def test_a_question_that_is_picked_opens_its_recorded_search(memory, monkeypatch):
    number = number_of(memory, "small dog")
    newest, before = memory.retrieval.found_by(number)
    app = page()
    view = type("View", (), {"memory": memory, "status": memory.session.status()})()
    shown = {}
    monkeypatch.setattr(state, "show_turn", lambda turn: shown.update(turn=turn))
    monkeypatch.setattr(detail.tried_search, "ask", lambda session_id, **changes: shown.update(changes))
    detail.show_search(view, number, before, "What about the dog?")
    assert shown == {"place": (before.turn, before.place), "number": number, "turn": before.turn}
    shown.clear()
    detail.show_search(view, number, newest, QUESTION)  # of the latest turn: asked again
    assert shown == {"query": QUESTION, "sent": True, "number": number, "turn": None}
    monkeypatch.undo()
    app.session_state["turn"] = before.turn
    app = ask_with(app, place=(before.turn, before.place), number=number)
    assert "What about the dog?" in message_texts(app)
    assert "Found by 1 question" in joined(app)


def test_of_several_searches_of_a_turn_one_is_picked(memory):
    turn = memory.session.status().turns
    memory.build_context("And the boat?")
    memory.put(ChatMessage(role="user", content="Thanks"))
    app = page(turn=str(turn))
    picker = next(each for each in app.selectbox if each.label == "Searches of this turn")
    assert "And the boat?" in message_texts(app)
    picker.set_value(0).run()
    assert QUESTION in message_texts(app)
    assert not app.exception


def test_questions_beyond_a_handful_are_shown_on_demand(memory):
    for number in range(6):
        memory.build_context(f"Dog question {number}?")
    app = ask_with(page(), number=number_of(memory, "small dog"))
    assert len(app.dataframe[-1].value) == detail.QUESTIONS
    app.toggle(key="retrieval__all_questions").set_value(True).run()
    assert len(app.dataframe[-1].value) == 8


# -- date lines ----------------------------------------------------------------------------------------


def test_a_date_line_is_no_entry_of_a_prompt_and_breaks_no_page(memory):
    built = [record for record in memory.events() if isinstance(record.event, ContextBuilt)][-1]
    (part,) = built.event.parts
    assert numbers(part["refs"], "day")
    stored = len(numbers(part["refs"], "unit"))
    app = opened(page="context", session="ana")
    assert not app.exception
    (label,) = [each.label for each in app.expander if BLOCK in each.label]
    assert f"{stored} message" in label
    next(each for each in app.expander if BLOCK in each.label).open = True
    prompt = memory.log.prompt(built)
    (entries,) = [each.entries for each in prompt.parts if each.kind == "vector"]
    assert len(entries) == stored
    assert all(entry.words and entry.tokens for entry in entries)
    chat = opened(session="ana")
    assert not chat.exception
    assert f"Recalled {stored} earlier message" in joined(chat)


def test_every_event_of_it_has_a_drawer_with_its_numbers(memory):
    memory.blocks.configure(BLOCK, similarity_threshold=0.2)
    app = opened(page="timeline", session="ana")
    for record in memory.events(kinds=("retrieved", "context_built", "vectors_stored")):
        app.session_state["timeline_opened"] = ("ana", record.position)
        app.run()
        assert not app.exception, record
        if isinstance(record.event, Retrieved) and record.event.token_budget is not None:
            cells = " ".join(value for table in app.table for value in table.value["value"]).replace("\\", "")
            assert "as many as fit" in cells
            assert f"{record.event.token_budget} tokens" in cells
            assert f"neighbours {USUAL.neighbours:g}, episode {USUAL.episode:g}" in cells


def test_the_same_where_date_lines_are_cut(memory):
    from memory_core import StaticMemoryBlock

    memory.blocks.add(StaticMemoryBlock(name="Rules", priority=0, static_content="Be brief and kind. " * 34))
    memory.build_context("What about the dog?")
    built = [record for record in memory.events() if isinstance(record.event, ContextBuilt)][-1]
    assert any(numbers(cut["refs"], "day") for cut in built.event.cuts)
    assert not opened(page="context", session="ana").exception
    assert not opened(session="ana").exception
    app = opened(page="timeline", session="ana")
    app.session_state["timeline_opened"] = ("ana", built.position)
    assert not app.run().exception


# -- without an embedding model ------------------------------------------------------------------------


class Unplugged(FakeEmbedder):
    gone = True

    def embed(self, texts):
        if self.gone:
            raise EmbedderError("The embedding model is missing. Install it again.")
        return super().embed(texts)


def test_what_was_stored_while_no_embedding_model_answered_is_found_and_embedded_later(home, monkeypatch):
    shared = services.engine()
    embedder = Unplugged()
    monkeypatch.setattr(shared.services, "_embedder", embedder)
    memory = Memory.from_recipe("vector", "ana", database_uri=shared.settings.database, services=shared.services)
    memory.put_messages([ChatMessage(role="user", content=lines[0]) for lines in DAYS.values()])
    memory.flush(all=True)
    app = page()
    assert app.warning[0].value.startswith("No embedding model: keyword")
    assert any("pottery" in row["Text"] for row in listed(app))
    embedder.gone = False
    memory.retrieval.reembed()
    monkeypatch.setattr(Unplugged, "id", "another")
    app = page()
    assert "3 stored messages" in app.warning[0].value
    press(app, "Embed them again")
    app.run()
    assert not app.exception
    assert not app.warning
    assert memory.retrieval.under_other_embedders() == 0
