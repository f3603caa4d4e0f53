"""The page Lab, drawn and clicked in this process."""

import json
import threading

import pytest
from models.scripted_server import ScriptedServer, learned, refusal
from pages_driver import button, drawn_until, joined, opened, said

from memory_core import ChatMessage, ConflictError, Memory
from memory_core.planning import curation as plans
from memory_inspector.lab.playing import Player
from memory_inspector.lab.probes import InPrompt, NeverInPrompt, keep_probes, kept_probes
from memory_inspector.lab.variants import VariantChange
from ui.lab import lab_page, sweeping
from ui.tab import services

pytestmark = pytest.mark.slow


def page(**query):
    return ready(opened(page="lab", session="demo", **query))


def ready(app):
    """The page once every configuration was played: the numbers of Compare, or the checks of Tests."""
    played = ("**The prompts", "## **Checks of")
    return drawn_until(app, lambda: app.exception or any(each.value.startswith(played) for each in app.markdown))


@pytest.fixture
def memory(demo_home):
    return services.engine().open("demo")


def knob(app, setting, name="B"):
    return app.number_input(key=f"lab__{name}_{setting}")


def view(app, name):
    """The page in another of its views."""
    return app.segmented_control(key="lab__view").set_value(name).run()


def keys(app):
    return {each.key for each in app.button}


STROKE = "\N{COMBINING LONG STROKE OVERLAY}"


def listed(app):
    """Turn and words of each event that the Timeline lists."""
    rows = next(each.value for each in app.dataframe if "What happened" in each.value)
    return list(zip(rows["Turn"], rows["What happened"], strict=True))


def numbers(app):
    return next(each.value for each in app.dataframe if "Flushes" in each.value).set_index("")


def test_at_first_everything_is_as_it_is(memory):
    app = page()
    assert not app.exception
    assert "**The prompts of A and B are the same in every turn.**" in joined(app)
    assert list(numbers(app).index) == ["A", "B"]
    sent = [turn.built.event.total for turn in memory.log.history().turns.values()]
    assert list(numbers(app).loc["A", "Tokens by turn"]) == sent, "what is played is what was lived"
    assert button(app, "Use B from the next turn").disabled


def test_a_smaller_limit_is_played_and_says_where_it_first_differs_and_why(memory):
    app = page()
    app = ready(knob(app, "token_limit").set_value(500).run())
    words = joined(app)
    assert "**B** Token limit 1,200 → 500" in words
    assert "**The prompts first differ in turn 5.**" in words
    assert numbers(app).loc["B", "Cut"] > numbers(app).loc["A", "Cut"] == 0
    less = numbers(app).loc["A", "Tokens a turn"] - numbers(app).loc["B", "Tokens a turn"]
    more = numbers(app).loc["B", "Cut"]
    assert f"### **B sends {less} tokens a turn less and cuts {more:,} tokens more.**" in words, "the verdict adds up"
    assert memory.session.config.token_limit == 1_200, "nothing is stored"
    app = ready(button(app, "Token limit 500").click().run())
    assert "no change yet" in joined(app)


def test_until_it_is_played_a_change_is_planned_at_once_and_says_what_is_unknown(memory):
    memory.trace.watch("allergic to nuts")
    app = knob(page(), "token_limit").set_value(500).run()
    plan = next(each.value for each in app.dataframe if "Known" in each.value).set_index("")
    assert plan.loc["A", "Known"] == "11 of 11"
    known, turns = plan.loc["B", "Known"].split(" of ")
    assert 0 < int(known) < int(turns) == 11
    assert "can't be estimated; running the replay…" in joined(app)
    assert "**Estimate**" not in joined(ready(app))


def test_a_limit_below_the_flush_size_takes_it_along(memory):
    app = ready(knob(page(), "token_limit").set_value(100).run())
    assert not app.exception
    assert knob(app, "token_flush_size").value == 100


def test_a_tried_configuration_can_be_taken_along_in_three_forms(memory):
    app = page()
    labels = [each.proto.label for each in app.get("download_button")]
    assert labels[-3:] == ["Configuration as JSON", "As Python", "As Python for LlamaIndex"]


def test_a_recipe_can_be_where_a_configuration_begins(memory):
    app = page()
    app = ready(app.selectbox(key="lab__recipe_B").set_value("buffer").run())
    assert not app.exception
    assert "Facts removed" in joined(app)
    assert not [each for each in app.button if each.label == "Use B from the next turn"], "blocks change by a switch"


def test_three_configurations_stand_beside_the_sessions_own(memory):
    app = ready(knob(page(), "token_limit").set_value(700).run())
    app = ready(app.button(key="lab__add").click().run())
    app = ready(knob(app, "token_limit", "C").set_value(900).run())
    app = ready(app.button(key="lab__add").click().run())
    assert list(numbers(app).index) == ["A", "B", "C", "D"]
    assert knob(app, "token_limit", "D").value == 900
    assert not [each for each in app.button if each.key == "lab__add"]
    app = ready(app.button(key="lab__remove").click().run())
    assert list(numbers(app).index) == ["A", "B", "C"]


def test_what_is_watched_is_followed_under_every_configuration_and_the_smallest_limit_is_found(memory):
    memory.trace.watch("allergic to nuts")
    app = page()
    assert numbers(app).loc["A", "Watched"] == "1 of 1"
    app = ready(view(app, "tests"))
    app = button(app, "Find the smallest limit that keeps it").click().run()
    app = drawn_until(app, lambda: "Smallest limit of B" in joined(app))
    app = ready(view(button(app, "Try Token limit").click().run(), "compare"))
    found = knob(app, "token_limit").value
    assert 50 < found < 1_200


def test_a_probe_is_added_shows_where_it_fails_and_is_removed_again(memory):
    keep_probes(memory, [NeverInPrompt(phrase="boat")])
    app = page(view="tests")
    app = app.text_input(key="lab__probe_phrase").set_value("allergic to nuts").run()
    app = app.number_input(key="lab__probe_from_turn").set_value(1).run()
    app = ready(app.button(key="lab__probe_add").click().run())
    assert kept_probes(memory) == (NeverInPrompt(phrase="boat"), InPrompt(phrase="allergic to nuts", from_turn=1))
    grid = next(each.value for each in app.dataframe if "Test" in each.value)
    assert list(grid["A"]) == ["✓ holds", "✗ first fails in turn 1"]
    assert "**A** Said by the user in turn 2\\, after the prompt of turn 1\\." in "".join(
        each.value for each in app.markdown
    )
    assert "### **A passes 1 of 2 tests and B passes 1 of 2 tests.**" in joined(app), "the verdict comes first"
    app = ready(app.button(key="lab__probe_remove_1").click().run())
    assert kept_probes(memory) == (NeverInPrompt(phrase="boat"),)


def test_the_examples_of_tests_work_with_one_click_each(memory):
    app = page(view="tests")
    app = ready(app.button(key="lab__watch_example").click().run())
    (words,) = memory.trace.watched
    assert memory.trace(words).reached
    app = ready(app.button(key="lab__probe_example").click().run())
    grid = next(each.value for each in app.dataframe if "Test" in each.value)
    assert list(grid["A"]) == ["✓ holds"]
    assert not {"lab__watch_example", "lab__probe_example"} & keys(app), "they are for whoever has none"


def test_a_probe_of_no_words_is_refused_in_a_sentence(memory):
    app = page(view="tests").button(key="lab__probe_add").click().run()
    assert "Enter a phrase for the test." in [each.value.replace("\\", "") for each in app.error]
    assert kept_probes(memory) == ()


def test_probes_that_are_none_are_a_sentence_not_a_traceback(memory):
    memory.session.keep_probes("[1]")
    app = page()
    assert not app.exception
    assert app.warning[0].value.startswith("This session holds no probes")


def test_what_was_tried_is_used_from_the_next_turn_and_taken_back(memory):
    app = ready(knob(page(), "token_limit").set_value(900).run())
    app = app.expander[1].number_input(key="lab__B_Facts.priority").set_value(3).run()
    app = ready(app)
    app = button(app, "Use B from the next turn").click().run()
    memory.session.refresh()
    assert memory.session.config.token_limit == 900
    assert memory.blocks.settings("Facts")["priority"] == 3
    app = button(app, "Undo").click().run()
    memory.session.refresh()
    assert memory.session.config.token_limit == 1_200
    assert memory.blocks.settings("Facts")["priority"] == 1


def test_of_what_was_tried_nothing_is_used_if_a_part_was_changed_elsewhere_meanwhile(memory, monkeypatch):
    monkeypatch.setattr(lab_page, "memory_of", lambda session_id: memory)
    limit, name = memory.session.config.token_limit, memory.blocks[0].name
    changes = (VariantChange("token_limit", limit, limit + 100), VariantChange(f"{name}.priority", 99, 3))
    with pytest.raises(ConflictError):
        lab_page._set(memory.session_id, changes)
    assert memory.session.config.token_limit == limit


def test_an_earlier_turn_shows_that_turns_prompts_and_changes_nothing(memory):
    app = ready(knob(page(turn="5"), "token_limit").set_value(500).run())
    assert "**The prompt of turn 5**" in joined(app)
    assert button(app, "Use B from the next turn").disabled


def test_an_event_is_struck_on_the_timeline_played_without_in_the_lab_and_let_happen_again(memory):
    flush = next(record for record in memory.events() if record.kind == "flush_planned")
    app = opened(page="timeline", session="demo", event=str(flush.position))
    app = app.button(key="timeline__strike").click().run()
    assert "is struck in the Lab's B" in joined(app)
    assert [turn for turn, words in listed(app) if STROKE in words] == [flush.turn]
    app.switch_page("pages/lab.py")
    app = ready(app.run())
    assert not app.exception
    assert f"without turn {flush.turn}'s flush of" in joined(app)
    assert "**The prompts first differ in turn" in joined(app)
    app = ready(app.button(key=f"lab__struck_B_{flush.position}").click().run())
    assert "no change yet" in joined(app)


def test_what_a_person_changed_among_facts_is_struck_like_any_event(memory):
    desk = memory.facts.desk("Facts")
    desk.apply(plans.retire([next(fact for fact in desk.facts() if "nuts" in fact.text)], "Private"))
    memory.put(ChatMessage(role="user", content="And the dessert?"))
    memory.build_context()
    change = next(record for record in memory.events() if record.kind == "facts_curated")
    app = opened(page="timeline", session="demo", event=str(change.position))
    app = app.button(key="timeline__strike").click().run()
    app.switch_page("pages/lab.py")
    app = ready(app.run())
    assert "without turn 11's change: retired a fact" in joined(app)
    assert "Only B has “Ana is allergic to nuts”" in joined(app)
    assert "not made again" not in joined(app)


def test_what_is_tried_survives_a_reload_and_a_broken_address_begins_anew(memory):
    app = ready(knob(page(), "token_limit").set_value(700).run())
    address = app.query_params["try"]
    again = page(**{"try": address[0] if isinstance(address, list) else address})
    assert knob(again, "token_limit").value == 700
    other = (address[0] if isinstance(address, list) else address).replace('"demo"', '"elsewhere"')
    for broken in (other, "{", '{"tried":[["B",null,{"Facts.text":3},[]]],"session":"demo","shown":"B","asked":true}'):
        assert knob(page(**{"try": broken}), "token_limit").value == 1_200


def played_out(app):
    """The page once nothing of a sweep is on its way."""
    return drawn_until(
        app,
        lambda: app.exception or ("Click a result to try it" in joined(app) and "lab__sweep_cancel" not in keys(app)),
    )


def numbers_of(memory):
    """Mean tokens of the session's own prompts."""
    sent = [turn.built.event.total for turn in memory.log.history().turns.values()]
    return round(sum(sent) / len(sent))


def drawn(app, what):
    """What a sweep's figure writes in its cells, or tells of them under the pointer."""
    return [
        words for trace in json.loads(app.get("plotly_chart")[0].proto.spec)["data"] for words in trace.get(what, ())
    ]


def test_a_sweep_opens_around_the_present_values_and_is_played_without_a_click(memory):
    app = played_out(opened(page="lab", session="demo", view="sweep"))
    assert not app.exception
    spans = [app.number_input(key=f"lab__sweep_{part}_x_token_limit").value for part in ("from", "to", "n")]
    assert spans == [600, 2_400, 4], "1,200 is the present limit"
    written = drawn(app, "text")
    assert len(written) == 16
    assert "?" not in written, "what a plan cannot know was played"
    assert [words for words in written if "◆" in words] == [f"◆ {numbers_of(memory)}"], "the own values are marked"
    assert "Outlined" not in joined(app), "fewest tokens are not the best by themselves"
    assert "### **Fewer tokens are no gain by themselves. Test a phrase, and the best for it is named." in joined(app)
    assert not {"lab__sweep_go", "lab__sweep_play"} & keys(app), "there is nothing left to ask for"
    app = ready(view(app, "compare"))
    app = played_out(view(app, "sweep"))
    assert "lab__sweep_go" not in keys(app), "the same map stands there again"


def test_a_sweep_names_what_keeps_the_watched_with_fewest_tokens_beside_the_own_values(memory, monkeypatch):
    memory.trace.watch("allergic to nuts")
    app = ready(knob(page(), "token_limit").set_value(500).run())
    app = played_out(view(app, "sweep"))
    cells = {}
    for words in drawn(app, "hovertext"):
        setting, _, found = words.partition(": ")
        value, sent = found.split("<br>")
        cells[tuple(setting.split(" × "))] = int(value), int(sent.removesuffix(" tokens a turn"))
    assert ("1,200", "60 %") in cells, "the session's own values, whatever is tried"
    most = max(value for value, _ in cells.values())
    (limit, share), (_, sent) = min((item for item in cells.items() if item[1][0] == most), key=lambda item: item[1][1])
    own = cells["1,200", "60 %"]
    assert (
        f"### **Best: Token limit {limit}, History share {share}: {most} of 1 watched item with {sent} tokens a turn. "
        f"Yours: {own[0]} with {own[1]}."
    ) in joined(app)
    app = app.number_input(key="lab__sweep_from_x_token_limit").set_value(700).run()
    app = played_out(app.button(key="lab__sweep_go").click().run())
    assert any(words.startswith("1,200 × ") for words in drawn(app, "hovertext")), "it is always in the grid"


def test_no_cell_is_called_the_best_before_all_are_known(memory, monkeypatch):
    monkeypatch.setattr(sweeping, "PLAYED_UNASKED_SECONDS", 0.0)
    app = played_out(opened(page="lab", session="demo", view="sweep"))
    app = played_out(app.selectbox(key="lab__sweep_measure").set_value("stable").run())
    assert "of 16 combinations known. The best is named once all are." in joined(app)
    assert "Outlined" not in joined(app)
    app = played_out(app.button(key="lab__sweep_play").click().run())
    assert "Outlined: best for its tokens." in joined(app)
    assert "### **Best: " in joined(app) or "### **Your setting is the best: " in joined(app)


def test_cells_that_no_time_was_left_for_are_played_when_somebody_asks(memory, monkeypatch):
    monkeypatch.setattr(sweeping, "PLAYED_UNASKED_SECONDS", 0.0)
    app = played_out(opened(page="lab", session="demo", view="sweep"))
    app = app.selectbox(key="lab__sweep_measure").set_value("stable").run()
    app = played_out(app)  # one more is played: what is known of the others are sizes
    (play,) = [each for each in app.button if each.key == "lab__sweep_play"]
    assert play.label.startswith("Play the 1"), "one play at a time was begun, the rest waits"
    assert "no model call" in joined(app)
    app = played_out(play.click().run())
    assert "lab__sweep_play" not in keys(app)


def test_two_settings_are_swept_and_too_many_configurations_are_refused_in_a_sentence(memory):
    memory.trace.watch("allergic to nuts")
    app = played_out(opened(page="lab", session="demo", view="sweep"))
    app = app.number_input(key="lab__sweep_n_x_token_limit").set_value(2).run()
    app = app.number_input(key="lab__sweep_n_y_chat_history_token_ratio").set_value(2).run()
    app = played_out(app.button(key="lab__sweep_go").click().run())
    assert not app.exception
    app = played_out(app.selectbox(key="lab__sweep_measure").set_value("flushes").run())
    assert "**Flushes**" in joined(app)
    app = played_out(app.selectbox(key="lab__sweep_measure").set_value("stable").run())
    assert not app.exception
    assert "**Stable beginning of a prompt**" in joined(app)
    app = app.segmented_control(key="lab__sweep_as").set_value("Front").run()
    assert "On the line: best for its tokens." in joined(app)
    app = app.selectbox(key="lab__sweep_measure").set_value("cost").run()
    assert "Enter a price to see the cost" in joined(app)
    app = app.number_input(key="lab__sweep_price").set_value(0.15).run()
    assert "**Cost of what models read**" in joined(app)
    app = app.text_area(key="lab__sweep_questions_demo").set_value("no arrow").run()
    assert "Line 1 has no arrow" in "".join(each.value.replace("\\", "") for each in app.error)
    app = app.text_area(key="lab__sweep_questions_demo").set_value("Who is allergic? → allergic to nuts").run()
    app = app.selectbox(key="lab__sweep_measure").set_value("recall").run()
    app = played_out(app.button(key="lab__sweep_go").click().run())
    assert any(": 100%" in words for words in drawn(app, "hovertext"))
    app = app.number_input(key="lab__sweep_n_x_token_limit").set_value(1_000).run()
    app = app.number_input(key="lab__sweep_n_y_chat_history_token_ratio").set_value(900).run()
    assert any("configurations are too many to sweep" in each.value for each in app.error)


def test_new_turns_are_announced_and_tried_when_somebody_asks(memory):
    app = ready(knob(page(), "token_limit").set_value(600).run())
    before, played = numbers(app), memory.log.history().latest_turn
    for words in ("And flowers?", "Tulips, please."):
        memory.put(ChatMessage(role="user", content=words))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content="Noted."))
    app = app.run()
    assert "2 new turns since." in joined(app)
    assert numbers(app).equals(before), "nothing is played again by itself"
    assert f"Turn {played + 2} came after the played turns." in joined(app)
    app = ready(knob(app, "token_limit").set_value(700).run())
    assert numbers(app).loc["A"].equals(before.loc["A"]), "another setting is tried on the same conversation"
    app = ready(app.button(key="lab__go_on").click().run())
    assert "since." not in joined(app)
    assert len(numbers(app).loc["B", "Tokens by turn"]) == played + 2


def test_two_browsers_in_one_lab_each_try_their_own(memory):
    one, other = page(), page()
    one = ready(knob(one, "token_limit").set_value(500).run())
    other = ready(knob(other, "token_limit").set_value(900).run())
    assert "Token limit 1,200 → 500" in joined(ready(one.run()))
    assert "Token limit 1,200 → 900" in joined(other)
    assert numbers(one).loc["B", "Tokens a turn"] < numbers(other).loc["B", "Tokens a turn"]
    assert numbers(one).loc["A"].equals(numbers(other).loc["A"])


def test_words_that_are_watched_and_never_occur_are_lost_under_every_configuration(memory):
    memory.trace.watch("a submarine in the bath")
    app = ready(knob(page(), "token_limit").set_value(700).run())
    assert not app.exception
    assert list(numbers(app)["Watched"]) == ["0 of 1", "0 of 1"]
    assert "tokens a turn less and loses no watched item that A keeps." in joined(app)
    app = ready(view(app, "tests"))
    app = button(app, "Find the smallest limit that keeps it").click().run()
    app = drawn_until(app, lambda: app.exception or "Not even 700 tokens keep what is watched" in joined(app))
    assert not app.exception


def test_a_conversation_without_a_user_is_a_sentence(memory):
    shared = services.engine()
    alone = Memory.from_defaults("alone", database=shared.database, services=shared.services)
    alone.put(ChatMessage(role="assistant", content="Is anybody there?"))
    app = opened(page="lab", session="alone")
    assert not app.exception
    assert "No turn yet." in joined(app)


def test_a_session_without_a_word_says_what_will_be_here(demo_home):
    shared = services.engine()
    Memory.from_defaults("silent", database=shared.database, services=shared.services)
    app = opened(page="lab", session="silent")
    assert "No turn yet." in joined(app)


def test_what_goes_wrong_under_a_configuration_is_said_with_what_mends_it(memory):
    app = ready(knob(page(), "chat_history_token_ratio").set_value(100).run())
    app = ready(app.button(key="lab__to_checks").click().run())
    (fill,) = [each for each in app.button if each.key == "lab__mend_0"]
    assert "priority" in joined(app)
    assert fill.label.startswith("Try History share "), "the button says which change it tries"
    app = ready(view(fill.click().run(), "compare"))
    assert knob(app, "chat_history_token_ratio").value < 100


# -- with a model ------------------------------------------------------------------------------------

KEY = "sk-secret-lab"


@pytest.fixture
def server(memory, monkeypatch):
    with ScriptedServer(learned) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_MODEL", "tiny")
        yield server


def offered(app):
    return drawn_until(app, lambda: any(each.key == "lab__play_model" for each in app.button))


def shown_by_model(app):
    return drawn_until(app, lambda: "Learned by **tiny**" in joined(app))


def calls_to_agree(app):
    return next(each for each in app.number_input if each.label == "Calls, at most")


def test_with_a_model_calls_are_counted_made_once_and_never_again_for_equal_stages(memory, server):
    app = offered(page())
    assert "With tiny, **A** needs about" in joined(app)
    assert server.requests == []
    by_rules = numbers(app).loc["A", "Facts"]

    app = shown_by_model(app.button(key="lab__play_model").click().run())
    made = len(server.requests)
    assert made == numbers(app).loc["A", "Calls to learn"] > 0
    assert f"Learned by **tiny**: {made} call" in joined(app)
    assert numbers(app).loc["A", "Facts"] != by_rules
    assert "**The prompts of A and B are the same in every turn.**" in joined(app)

    app = ready(knob(app, "token_limit").set_value(1_190).run())
    app = shown_by_model(app)  # the same messages leave: it is played with the model at once, and nothing is asked
    assert "**B** Token limit 1,200 → 1,190" in joined(app)
    assert len(server.requests) == made
    app = ready(app.button(key="lab__by_rules").click().run())
    assert numbers(app).loc["A", "Facts"] == by_rules

    again = offered(page())  # another tab
    assert "tiny answered all of this before: a play with it needs no calls." in joined(again)
    assert not [each for each in again.number_input if each.label == "Calls, at most"]
    shown_by_model(again.button(key="lab__play_model").click().run())
    with memory.session.database.read() as connection:
        rows = connection.exec_driver_sql("SELECT data FROM mi_model_output").scalars().all()
    assert len(server.requests) == made == len(rows)
    assert not [row for row in rows if KEY in row]


def test_a_play_ends_at_the_number_of_calls_that_was_agreed_and_where_the_model_refuses(memory, server):
    app = offered(ready(knob(page(), "token_limit").set_value(300).run()))  # it flushes more often
    needed = calls_to_agree(app).value
    assert needed > 1
    app = calls_to_agree(app).set_value(1).run()
    app = app.button(key="lab__play_model").click().run()
    app = drawn_until(app, lambda: "1 call was made, as agreed, and the play needs more." in " ".join(said(app)))
    assert len(server.requests) == 1
    app = offered(app)
    assert calls_to_agree(app).value < needed
    assert "kept already." in joined(app)
    assert numbers(app).loc["A", "Flushes"] > 0, "what the rules learned is there all the time"

    server.script = lambda body: refusal(401, "Incorrect API key provided")
    app = app.button(key="lab__play_model").click().run()
    app = drawn_until(app, lambda: "The key was refused by" in " ".join(said(app)))
    assert not app.exception
    assert len(server.requests) == 2, "the first question that is refused ends it"


def test_counting_that_was_cancelled_is_begun_again_when_it_is_asked_for(memory, server, monkeypatch):
    held, play = threading.Event(), Player.play

    def hold(self, script, variant, *, by=None, **given):
        assert by is None or held.wait(60)
        return play(self, script, variant, by=by, **given)

    monkeypatch.setattr(Player, "play", hold)
    app = page()
    app = app.button(key="lab__count_cancel").click().run()
    held.set()
    app = drawn_until(app, lambda: any(each.key == "lab__count" for each in app.button))
    app.run()
    assert "Learned by rules. To learn with tiny, count its calls first." in joined(app)
    assert "Play with tiny" not in joined(app)
    offered(app.button(key="lab__count").click().run())


def test_where_nothing_is_learned_nothing_is_offered(memory, server):
    memory.blocks.configure("Facts", enabled=False)
    app = page()
    app = drawn_until(app, lambda: not any(each.key == "lab__count_cancel" for each in app.button))
    assert "Play with tiny" not in joined(app)


# -- value -------------------------------------------------------------------------------------------


def test_value_shows_each_block_alone_and_what_facts_cost(demo_home):
    app = view(page(), "value")
    drawn_until(app, lambda: app.exception or any("Score alone" in each.value for each in app.dataframe))
    arms = next(each.value for each in app.dataframe if "Difference" in each.value).set_index("")
    assert list(arms.index) == [
        "with memory",
        "without memory",
        "only Instructions",
        "only Facts",
        "only Earlier turns",
    ]
    scores = [round(arms["Score"][name]) for name in ("with memory", "without memory")]
    assert scores[1] < scores[0]
    assert arms["Difference"]["without memory"].startswith(f"−{scores[0] - scores[1]} ("), "in the unit of the score"
    price = arms["Tokens a turn"]["with memory"] - arms["Tokens a turn"]["without memory"]
    verdict = f"Memory helped in 11 questions ({scores[0]} against {scores[1]} %) and cost {price} tokens a turn."
    assert f"### **{verdict}**" in joined(app)
    blocks = next(each.value for each in app.dataframe if "Score alone" in each.value).set_index("")
    assert blocks["Cache lost"]["Earlier turns"] > blocks["Cache lost"]["Facts"] == 0
    facts = next(each.value for each in app.dataframe if "Tokens sent" in each.value)
    assert "Ana is allergic to nuts" in list(facts["Fact"])
    assert list(facts["Tokens sent"]) == sorted(facts["Tokens sent"], reverse=True)


def test_value_asks_the_questions_of_the_view(demo_home, memory):
    app = view(page(), "value")
    app.text_area(key="lab__sweep_questions_demo").set_value("Who is allergic? -> Ana is allergic to nuts").run()
    drawn_until(app, lambda: "1 question cannot show a difference" in joined(app))
    arms = next(each.value for each in app.dataframe if "Difference" in each.value).set_index("")
    assert (arms["Score"]["with memory"], arms["Score"]["without memory"]) == (100, 0)


def test_probes_that_fail_are_compared_with_those_that_hold(demo_home, memory):
    phrases = ("allergic to nuts", "likes jazz", "lives in Porto", "credit card", "passport", "a train to Faro")
    keep_probes(memory, [InPrompt(phrase=words, from_turn=11) for words in phrases])
    app = view(page(), "tests")
    drawn_until(app, lambda: any("Why do these fail?" in each.value for each in app.markdown))
    tables = [each.value for each in app.dataframe if "Property" in each.value]
    assert len(tables) == 2  # of A and of B
    assert {"Property", "Value", "Fail", "Others", "p"} <= set(tables[0])
