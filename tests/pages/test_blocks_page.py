"""The Blocks page, drawn and clicked in this process."""

import pytest
from engine_fakes import Counter, ShakyExtractor
from pages_driver import button, dialog, field, joined, opened, press, said, with_toasts
from said_numbers import as_said

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, StaticMemoryBlock
from memory_core.blocks import plugins
from memory_core.blocks.plugins import Plugin
from memory_inspector.palette import DARK, LIGHT
from memory_inspector.server.chat_turns import play
from memory_inspector.server.engine import new_memory
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import demo_memory
from memory_inspector.wording.formatting import plain
from ui.tab import services

pytestmark = pytest.mark.slow

CONFLICT = "Changed in another tab since you opened it. Nothing was saved."

NASTY = "<img src=x onerror=alert(1)> ![x](http://evil.test/a.png) **bold** :red[r] $a$ [l](http://evil.test)"
NASTY_NAME = "![x](http://evil.test/a.png) **bold** :red[r]"


def demo():
    return services.engine().open("demo")


def play_demo(turns):
    """Play the demo on; it opens after turn 11, and the first cut falls in turn 12."""
    shared = services.engine()
    play(Job("test"), demo_memory(shared.database, shared.services), turns=turns, pace=0)


def a_session(*blocks, title="Mine"):
    shared = services.engine()
    memory = new_memory(shared, title=title)
    for name in [attached.name for attached in memory.blocks]:
        memory.blocks.remove(name)
    for block in blocks:
        memory.blocks.add(block)
    return memory


def edit(name="Instructions", session="demo"):
    return dialog("ui.blocks.editor", "edit_dialog", session, name)


def order(session="demo"):
    return dialog("ui.blocks.block_settings", "order_dialog", session)


def settings_of(name, session="demo"):
    return dialog("ui.blocks.block_settings", "settings_of_dialog", session, name)


def texts(name="Instructions"):
    return [revision.text for revision in demo().blocks.revisions(name)]


def priorities(memory=None):
    return {attached.name: attached.record.settings["priority"] for attached in (memory or demo()).blocks}


def click(drawn, key):
    return drawn.button(key=key).click().run()


def labels(app):
    return [each.label for each in app.button]


# -- the page --------------------------------------------------------------------------------------


def test_it_shows_a_card_per_block_from_never_cut_to_cut_first(demo_home):
    app = opened(page="blocks")
    assert not app.exception
    said = joined(app)
    places = [said.index(f"{name}**") for name in ("Instructions", "Facts", "Earlier turns")]
    assert places == sorted(places)
    memory = demo()
    assert app.text[0].value.startswith("You help Sam plan Ana's birthday dinner.")
    assert app.text[1].value == f"6 facts. Newest: {memory.facts.read('Facts')[-1].text}"
    assert (
        app.text[2].value
        == f"{len(memory.retrieval.stored_turns('Earlier turns'))} stored turns, whole turns cut, lowest score first."
    )
    assert [menu.options for menu in app.menu_button][1] == [
        "Settings",
        "Turn off",
        "Cut it whole",
        "Stop giving it messages",
        "Remove",
    ]


def test_its_numbers_are_those_of_the_shown_prompt_and_of_the_log(demo_home):
    play_demo(1)
    app = opened(page="blocks")
    built = demo().events(kinds=("context_built",), limit=1, newest_first=True)[0].event
    parts = {part["name"]: part for part in built.parts}
    said = joined(app)
    assert f"**{parts['Instructions']['granted']}** tokens" in said
    turns = parts["Earlier turns"]
    assert turns["granted"] < turns["asked"]
    assert f"**{turns['granted']}** of {turns['asked']} tokens" in said
    use = demo().log.usage().of("Earlier turns")
    assert f":red[cut in {use.cut_in} of {use.prompts} prompts, last turn\N{NO-BREAK SPACE}12]" in said
    assert f"{round(100 * parts['Facts']['granted'] / 1200)}\N{NO-BREAK SPACE}% of the limit" in said


@pytest.mark.parametrize(("theme", "palette"), [("light", LIGHT), ("dark", DARK)])
def test_the_strip_wears_the_colours_of_the_theme(demo_home, theme, palette):
    app = opened(page="blocks", theme=theme)
    strip = next(each.value for each in app.markdown if "Cut in this order" in each.value)
    assert [strip.index(colour) for colour in (palette.vector, palette.facts, palette.static)] == sorted(
        strip.index(colour) for colour in (palette.vector, palette.facts, palette.static)
    )


def test_looking_at_it_changes_nothing(demo_home):
    before = demo().session.status().position
    opened(page="blocks")
    edit()
    order()
    settings_of("Facts")
    dialog("ui.blocks.editor", "remove_dialog", "demo", "Facts")
    assert demo().session.status().position == before


def test_it_follows_what_is_written_elsewhere_but_not_over_an_open_drawer(demo_home, monkeypatch):
    followed = []
    monkeypatch.setattr("ui.tab.drawing.follow", lambda news, seen, *, running: followed.append((*news.args, *seen)))
    app = opened(page="blocks")
    assert followed[-1] == ("demo", demo().session.status().position, None, (), None)
    followed.clear()
    for key in ("blocks__edit_Instructions", "blocks__order", "blocks__add"):
        app.button(key=key).click().run()
        assert not app.exception
        assert followed == []
        app.run()
        assert len(followed) == 1
        followed.clear()
    past = opened(page="blocks", turn="3")
    followed.clear()
    past.run()
    assert followed == []


def test_a_session_without_blocks_says_what_that_means_and_offers_three(demo_home):
    memory = a_session()
    app = opened(page="blocks", session=memory.session_id)
    assert not app.exception
    said = joined(app)
    assert "**No blocks yet.**" in said
    assert "Messages that leave the queue are kept, but never reach the prompt again." in said
    assert [label for label in labels(app) if label.startswith("Add ")] == [
        "Add instructions",
        "Add facts",
        "Add earlier turns",
    ]


def test_names_and_texts_are_shown_as_they_were_typed(demo_home):
    memory = a_session(StaticMemoryBlock(name=NASTY_NAME, static_content=NASTY))
    app = opened(page="blocks", session=memory.session_id)
    assert not app.exception
    assert app.text[0].value == NASTY
    drawn = [each.value for each in app.markdown]
    assert all("![x](" not in value and ":red[r]" not in value and "**bold**" not in value for value in drawn)
    assert any(plain(NASTY_NAME[:20]) in value for value in drawn)
    for opened_dialog in (edit(NASTY_NAME, memory.session_id), order(memory.session_id)):
        assert not opened_dialog.exception
        assert all("![x](" not in each.value for each in opened_dialog.markdown)


def test_blocks_of_one_place_stand_side_by_side(demo_home):
    demo().blocks.configure("Facts", priority=2)
    strip = next(each.value for each in opened(page="blocks").markdown if "Cut in this order" in each.value)
    first = strip.split("→")[0]
    assert first.index("Facts") < first.index("Earlier turns")


def test_a_block_that_this_process_cannot_make_says_so_and_shows_what_it_last_held(demo_home):
    shared = services.engine()
    agent = Memory.from_defaults("agents", database_uri=shared.settings.database, memory_blocks=[Counter(count=3)])
    agent.put(ChatMessage(role="user", content="note 1"))
    agent.build_context()
    app = opened(page="blocks", session="agents")
    assert not app.exception
    assert app.text[0].value == "3 messages"
    assert "Not available here: this app cannot load engine_fakes.Counter." in joined(app)


# -- the past --------------------------------------------------------------------------------------


def test_a_past_turn_shows_the_blocks_as_they_stood_and_changes_nothing(demo_home):
    before = texts()[0]
    held = len(demo().facts.read("Facts"))
    demo().blocks.edit("Instructions", "Be brief.")
    play_demo(2)
    demo().blocks.configure("Facts", priority=7)
    app = opened(page="blocks", turn="11")
    assert not app.exception
    assert ":gray[Be brief\\.]" in [each.value for each in app.markdown]  # edited in turn 11, after its prompt
    past = opened(page="blocks", turn="10")
    assert past.text[0].value.startswith(before[:20])
    assert past.text[1].value.startswith(f"{held} facts.")
    assert ":gray[1]" in next(each.value for each in past.markdown if "Cut in this order" in each.value)
    assert [menu.key for menu in past.menu_button if menu.key.startswith("blocks__")] == []
    assert not {"Edit", "Change order", "Add block", "Try now"} & set(labels(past))


def test_before_the_first_block_a_past_turn_has_none(demo_home):
    memory = a_session()
    for turn in range(3):
        memory.put(ChatMessage(role="user", content=f"turn {turn}"))
    memory.blocks.add(StaticMemoryBlock(name="late", static_content="text"))
    app = opened(page="blocks", session=memory.session_id, turn="1")
    assert not app.exception
    assert "**No blocks" in joined(app)


# -- editing ---------------------------------------------------------------------------------------


def test_an_edit_says_its_size_and_its_effect_before_it_is_saved(demo_home):
    drawn = edit()
    drawn.text_area[0].set_value("Be brief.").run()
    assert "→ **3 tokens**" in joined(drawn)
    before, after = (
        demo().preview.next_prompt(**change).context for change in ({}, {"texts": {"Instructions": "Be brief."}})
    )
    assert f"{before.plan.total:,} → **{after.plan.total:,}** tokens" in joined(drawn)
    assert len(texts()) == 1
    press(drawn, "Save")
    assert texts()[-1] == "Be brief."


def test_an_edit_that_is_too_long_says_what_would_be_lost(demo_home):
    drawn = edit()
    drawn.text_area[0].set_value(texts()[0] + " word" * 200).run()
    assert "Earlier turns 310 → " in as_said(joined(drawn))


def test_an_edit_is_possible_in_a_session_that_refuses_prompts_over_the_limit(demo_home):
    demo().configure(when_over="raise")
    demo().blocks.edit("Instructions", "word " * 2_000)
    drawn = edit()
    drawn.text_area[0].set_value("word " * 1_900).run()
    assert not drawn.error
    assert "over the limit" in joined(drawn)


def test_a_text_changed_in_another_tab_is_not_overwritten_and_can_be_taken(demo_home):
    drawn = edit()
    drawn.text_area[0].set_value("Mine.").run()
    demo().blocks.edit("Instructions", "Theirs.")
    press(drawn, "Save")
    assert [each.value for each in drawn.warning] == [CONFLICT]
    assert (texts()[-1], drawn.text_area[0].value) == ("Theirs.", "Mine.")
    press(drawn, "Show theirs")
    assert not drawn.warning
    assert drawn.text_area[0].value == "Theirs."
    assert drawn.text[0].value == "Mine."
    press(drawn, "Edit yours")
    assert drawn.text_area[0].value == "Mine."
    press(drawn, "Save")
    assert texts()[-2:] == ["Theirs.", "Mine."]


def test_a_text_changed_in_another_tab_can_be_replaced_knowingly(demo_home):
    drawn = edit()
    drawn.text_area[0].set_value("Mine.").run()
    demo().blocks.edit("Instructions", "Theirs.")
    press(drawn, "Save")
    press(drawn, "Keep editing")
    assert drawn.text_area[0].value == "Mine."
    assert drawn.code[0].value == "-Theirs.\n+Mine."
    demo().blocks.edit("Instructions", "Theirs again.")
    press(drawn, "Save")
    assert [each.value for each in drawn.warning] == [CONFLICT]
    assert texts()[-1] == "Theirs again."


def test_an_editor_of_a_block_that_was_removed_says_so(demo_home):
    drawn = edit()
    demo().blocks.remove("Instructions")
    drawn.run()
    assert ["removed elsewhere" in each.value for each in drawn.warning] == [True]


def test_the_history_shows_what_changed_and_restores_a_version_with_its_effect(demo_home):
    first = texts()[0]
    demo().blocks.edit("Instructions", first.replace("Be brief.", "Be long."))
    drawn = dialog("ui.blocks.block_text", "history_dialog", "demo", "Instructions")
    assert "-Be brief. Ask before you book anything.\n+Be long." in drawn.code[0].value
    drawn.selectbox[0].set_value(1).run()
    assert "Next prompt:" in joined(drawn)
    press(drawn, "Restore version 1")
    assert texts()[-1] == first


def test_a_version_is_not_restored_over_what_another_tab_wrote(demo_home):
    demo().blocks.edit("Instructions", "Second.")
    drawn = dialog("ui.blocks.block_text", "history_dialog", "demo", "Instructions")
    drawn.selectbox[0].set_value(1).run()
    restore = button(drawn, "Restore version 1")
    demo().blocks.edit("Instructions", "Third.")
    restore.click().run()
    assert "was changed since by a person" in drawn.error[0].value
    assert texts()[-1] == "Third."


def test_what_was_typed_is_there_when_the_editor_is_opened_again_until_it_is_discarded(demo_home):
    stored = texts()[-1]
    edit().text_area[0].set_value("Half a thou").run()
    again = edit()  # as after Esc or a reload: nothing of the first drawer is left
    assert again.text_area[0].value == "Half a thou"
    assert "Your draft, just now" in joined(again)
    press(again, "Discard changes")
    assert edit().text_area[0].value == stored
    assert texts() == [stored]


def test_a_draft_of_a_text_that_changed_meanwhile_overwrites_nothing(demo_home):
    edit().text_area[0].set_value("Mine.").run()
    demo().blocks.edit("Instructions", "Theirs.")
    again = edit()
    assert again.text_area[0].value == "Mine."
    press(again, "Save")
    assert [each.value for each in again.warning] == [CONFLICT]
    assert texts()[-1] == "Theirs."


def test_saving_what_was_not_changed_writes_no_version(demo_home):
    before = texts()
    press(edit(), "Save")
    assert texts() == before


def test_a_version_restored_in_the_editor_is_the_stored_text_and_can_be_edited_on(demo_home):
    first = texts()[0]
    demo().blocks.edit("Instructions", "Second.")
    drawn = edit()
    drawn.session_state["blocks__edit_demo_Instructions_history"] = True
    drawn.run()
    drawn.selectbox[0].set_value(1).run()
    press(drawn, "Restore version 1")
    assert drawn.text_area[0].value == first
    assert ["version 1 of Instructions" in each.value for each in drawn.success] == [True]
    assert "→" not in joined(drawn)
    drawn.text_area[0].set_value("Fourth.").run()
    press(drawn, "Save")
    assert not drawn.warning
    assert texts() == [first, "Second.", first, "Fourth."]


def test_words_typed_before_a_restore_are_kept_beside_it(demo_home):
    demo().blocks.edit("Instructions", "Second.")
    drawn = edit()
    drawn.text_area[0].set_value("Typed.").run()
    drawn.session_state["blocks__edit_demo_Instructions_history"] = True
    drawn.run()
    drawn.selectbox[0].set_value(1).run()
    press(drawn, "Restore version 1")
    assert drawn.text[0].value == "Typed."


@pytest.mark.parametrize("since", [None, "Theirs."])
def test_a_save_is_said_and_undone_unless_it_was_changed_since(demo_home, since):
    first = texts()[0]
    drawn = with_toasts("ui.blocks.editor", "edit_dialog", "demo", "Instructions")
    drawn.text_area[0].set_value("Mine.").run()
    press(drawn, "Save")
    assert said(drawn) == ["Saved Instructions. The next prompt has it."]
    if since:
        demo().blocks.edit("Instructions", since)
    press(drawn, "Undo")
    assert texts()[-1] == (since or first)
    assert said(drawn) == (
        ['"Instructions" was changed since by a person in turn 11. Nothing was saved.'] if since else ["Undone."]
    )


# -- the order -------------------------------------------------------------------------------------


def priority_of(drawn, name):
    return field(drawn, f"Priority of {name}")


def test_the_order_is_given_by_numbers_with_its_effect_before_it_is_applied(demo_home):
    drawn = order()
    rows = [each.label for each in drawn.number_input if each.label.startswith("Priority")]
    assert drawn.button(key="blocks__order_apply").disabled
    priority_of(drawn, "Facts").set_value(2).run()
    assert "Next prompt:" in joined(drawn)
    assert "Of blocks with the same number, the first in the prompt is cut first." in joined(drawn)
    priority_of(drawn, "Earlier turns").set_value(1).run()
    assert [each.label for each in drawn.number_input if each.label.startswith("Priority")] == rows, "no row moves"
    assert priorities() == {"Instructions": 0, "Facts": 1, "Earlier turns": 2}
    foretold = (
        demo().preview.next_prompt(blocks={"Facts": {"priority": 2}, "Earlier turns": {"priority": 1}}).context.plan
    )
    click(drawn, "blocks__order_apply")
    assert priorities() == {"Instructions": 0, "Facts": 2, "Earlier turns": 1}
    assert demo().preview.next_prompt().context.plan == foretold


def test_a_block_of_priority_0_is_never_cut_and_may_be_cut_again(demo_home):
    drawn = order()
    priority_of(drawn, "Facts").set_value(0).run()
    priority_of(drawn, "Instructions").set_value(1).run()
    click(drawn, "blocks__order_apply")
    assert priorities() == {"Instructions": 1, "Facts": 0, "Earlier turns": 2}


@pytest.mark.parametrize(
    ("name", "place", "after"),
    [
        ("Earlier turns", 2, ["Instructions", "Earlier turns", "Facts"]),
        ("Earlier turns", 1, ["Earlier turns", "Instructions", "Facts"]),
        ("Instructions", 3, ["Facts", "Earlier turns", "Instructions"]),
    ],
)
def test_the_place_in_the_prompt_is_changed(demo_home, name, place, after):
    drawn = order()
    field(drawn, f"Place of {name} in the prompt").set_value(place).run()
    assert f"In the prompt: {', '.join(after)}." in joined(drawn)
    click(drawn, "blocks__order_apply")
    assert [attached.name for attached in demo().blocks] == after


@pytest.mark.parametrize("since", [None, 9])
def test_an_order_is_said_and_undone_unless_it_was_changed_since(demo_home, since):
    drawn = with_toasts("ui.blocks.block_settings", "order_dialog", "demo")
    priority_of(drawn, "Facts").set_value(3).run()
    field(drawn, "Place of Facts in the prompt").set_value(1).run()
    click(drawn, "blocks__order_apply")
    assert said(drawn) == ["From the next turn: priority of Facts 1 → 3 and a new order in the prompt."]
    assert [attached.name for attached in demo().blocks] == ["Facts", "Instructions", "Earlier turns"]
    if since:
        demo().blocks.configure("Facts", priority=since)
    press(drawn, "Undo")
    assert priorities()["Facts"] == (since or 1)
    assert (list(priorities()) == ["Instructions", "Facts", "Earlier turns"]) == (since is None)


def test_an_order_made_from_what_another_tab_changed_is_not_saved(demo_home):
    drawn = order()
    priority_of(drawn, "Facts").set_value(2).run()
    demo().blocks.configure("Facts", priority=9)
    click(drawn, "blocks__order_apply")
    assert [each.value for each in drawn.warning] == [CONFLICT]
    assert priorities()["Facts"] == 9
    press(drawn, "Show theirs")
    assert not drawn.warning
    assert priority_of(drawn, "Facts").value == 9
    assert drawn.button(key="blocks__order_apply").disabled


def test_an_order_is_kept_over_a_block_that_was_removed_and_one_that_came(demo_home):
    drawn = order()
    priority_of(drawn, "Facts").set_value(7).run()
    demo().blocks.remove("Instructions")
    demo().blocks.add(StaticMemoryBlock(name="Rules", static_content="text", priority=5))
    click(drawn, "blocks__order_apply")
    assert [each.value for each in drawn.warning] == [CONFLICT]
    press(drawn, "Keep editing")
    click(drawn, "blocks__order_apply")
    assert not drawn.exception
    assert priorities() == {"Facts": 7, "Earlier turns": 2, "Rules": 5}


def test_an_order_under_way_is_there_when_the_drawer_is_opened_again(demo_home):
    priority_of(order(), "Facts").set_value(7).run()
    again = order()
    assert priority_of(again, "Facts").value == 7
    click(again, "blocks__order_discard")
    assert priority_of(order(), "Facts").value == 1


# -- settings and switches -------------------------------------------------------------------------


def test_a_number_takes_what_the_engine_takes(demo_home):
    drawn = settings_of("Earlier turns")
    assert (field(drawn, "Threshold").min, field(drawn, "Threshold").max, field(drawn, "Results").min) == (0, 1, 1)


def test_settings_of_a_kind_say_their_effect_before_they_are_applied(demo_home):
    demo().blocks.configure("Earlier turns", similarity_threshold=None)
    drawn = settings_of("Earlier turns")
    assert field(drawn, "Threshold").value is None
    field(drawn, "Results").set_value(1).run()
    assert "Next prompt:" in joined(drawn)
    field(drawn, "Threshold").set_value(0.2).run()
    press(drawn, "Apply from the next turn")
    settings = demo().blocks.settings("Earlier turns")
    assert (settings["similarity_top_k"], settings["similarity_threshold"]) == (1, 0.2)
    assert settings["retrieval_context_window"] == 1


def test_what_may_be_missing_can_be_emptied(demo_home):
    drawn = settings_of("Earlier turns")
    assert field(drawn, "Results").value == 5
    field(drawn, "Results").set_value(None).run()
    field(drawn, "Threshold").set_value(None).run()
    field(drawn, "Weight of the speaker").set_value(0.25).run()
    press(drawn, "Apply from the next turn")
    settings = demo().blocks.settings("Earlier turns")
    assert (settings["similarity_top_k"], settings["similarity_threshold"], settings["speaker_weight"]) == (
        None,
        None,
        0.25,
    )
    assert (settings["unit"], settings["layout"], settings["date_weight"]) == ("turn", "messages", 0.0)


def test_facts_wait_for_approval_once_that_is_set(demo_home):
    drawn = settings_of("Facts")
    drawn.toggle[0].set_value(True).run()
    press(drawn, "Apply from the next turn")
    assert demo().blocks.settings("Facts")["approval"] is True


def test_settings_changed_in_another_tab_are_not_overwritten(demo_home):
    drawn = settings_of("Earlier turns")
    field(drawn, "Results").set_value(1).run()
    demo().blocks.configure("Earlier turns", similarity_top_k=9)
    press(drawn, "Apply from the next turn")
    assert [each.value for each in drawn.warning] == [CONFLICT]
    press(drawn, "Keep editing")
    press(drawn, "Apply from the next turn")
    assert demo().blocks.settings("Earlier turns")["similarity_top_k"] == 1
    demo().blocks.configure("Earlier turns", similarity_top_k=9)
    field(drawn, "Results").set_value(2).run()
    press(drawn, "Apply from the next turn")
    press(drawn, "Show theirs")
    assert field(drawn, "Results").value == 9


def test_a_block_is_turned_off_and_on_with_its_effect_before(demo_home):
    from ui.blocks.block_settings import TURN_OFF, TURN_ON

    drawn = dialog("ui.blocks.block_settings", "change_dialog", "demo", "Instructions", TURN_OFF)
    assert "Next prompt:" in joined(drawn)
    press(drawn, "Turn off")
    app = opened(page="blocks")
    assert "not in the prompt" in joined(app)
    assert app.menu_button[0].options == ["History", "Settings", "Turn on", "Remove"]
    press(dialog("ui.blocks.block_settings", "change_dialog", "demo", "Instructions", TURN_ON), "Turn on")
    assert demo().blocks.settings("Instructions")["enabled"] is True


# -- adding and removing ---------------------------------------------------------------------------


def test_a_block_is_added_with_its_effect_before(demo_home):
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    drawn.text_area[0].set_value("Speak Portuguese.").run()
    before = demo().preview.next_prompt().context.plan.total
    assert f"Next prompt: {before:,} → **{before + demo().session.count_tokens('Speak Portuguese.'):,}**" in joined(
        drawn
    )
    press(drawn, "Add block")
    assert [attached.name for attached in demo().blocks][-1] == "Instructions 2"
    assert texts("Instructions 2") == ["Speak Portuguese."]


def test_a_name_that_is_taken_is_said_before_and_refused_after(demo_home):
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    drawn.text_input[0].set_value("Facts").run()
    assert [each.value for each in drawn.error] == ["“Facts” is taken. Choose another name."]
    assert button(drawn, "Add block").disabled


def test_a_name_that_cannot_be_a_blocks_is_refused(demo_home):
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    drawn.text_input[0].set_value("<b>").run()
    assert "choose a name without" in drawn.error[0].value.replace("\\", "")


def test_a_name_taken_meanwhile_is_said_and_what_was_typed_stays(demo_home):
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    drawn.text_input[0].set_value("Extra").run()
    demo().blocks.add(FactExtractionMemoryBlock(name="Extra"))
    press(drawn, "Add block")
    assert '"Extra" is taken. Choose another name.' in [each.value.replace("\\", "") for each in drawn.error]
    assert drawn.text_input[0].value == "Extra"


@pytest.mark.slow
def test_a_block_that_is_not_added_yet_is_there_when_the_drawer_is_opened_again(demo_home):
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    drawn.text_input[0].set_value("Tone").run()
    drawn.text_area[0].set_value("Be kind.").run()
    again = dialog("ui.blocks.editor", "add_dialog", "demo")
    assert (again.text_input[0].value, again.text_area[0].value) == ("Tone", "Be kind.")
    assert "It is not added." in joined(again)
    assert dialog("ui.blocks.editor", "add_dialog", "demo", "facts").segmented_control[0].value == "facts"
    again.segmented_control[0].set_value("vector").run()
    third = dialog("ui.blocks.editor", "add_dialog", "demo")
    assert (third.text_input[0].value, third.segmented_control[0].value) == ("Tone", "vector")
    press(third, "Discard changes")
    fresh = dialog("ui.blocks.editor", "add_dialog", "demo")
    assert (fresh.text_input[0].value, fresh.text_area[0].value) == ("", "")


def test_settings_under_way_are_there_when_the_drawer_is_opened_again(demo_home):
    before = demo().blocks.settings("Earlier turns")["similarity_top_k"]
    field(settings_of("Earlier turns"), "Results").set_value(2).run()
    again = settings_of("Earlier turns")
    assert field(again, "Results").value == 2
    assert "It is not applied." in joined(again)
    press(again, "Discard changes")
    assert field(settings_of("Earlier turns"), "Results").value == before


def test_blocks_of_other_packages_are_offered_and_broken_ones_named(demo_home, monkeypatch):
    offered = (
        Plugin("counter", "their-package 1.0", "engine_fakes:Counter", Counter),
        Plugin("broken", "other 2.0", "other:Block", None, "ImportError: no *torch*"),
    )
    monkeypatch.setattr(plugins, "plugins", lambda: offered)
    monkeypatch.setattr("ui.blocks.editor.plugins", lambda: offered)
    drawn = dialog("ui.blocks.editor", "add_dialog", "demo")
    assert drawn.warning[0].value.replace("\\", "") == "“broken” of other 2.0 cannot be used: ImportError: no *torch*"
    drawn.segmented_control[0].set_value("engine_fakes:Counter").run()
    assert not drawn.exception
    press(drawn, "Add block")
    assert demo().blocks[-1].record.type == "engine_fakes.Counter"


def test_removing_says_what_goes_and_what_stays(demo_home):
    said = {
        name: joined(dialog("ui.blocks.editor", "remove_dialog", "demo", name))
        for name in ("Instructions", "Facts", "Earlier turns")
    }
    stored = len(demo().retrieval.stored_turns("Earlier turns"))
    assert "Deleted: its settings, its text with 1 version." in said["Instructions"]
    assert f"Deleted: its settings, {stored} stored turns." in said["Earlier turns"]
    assert "Kept: 6 facts, which return with a block of this name, the 6 messages that left the queue." in said["Facts"]
    assert all("Next prompt:" in words for words in said.values())


def test_a_block_is_removed(demo_home):
    press(dialog("ui.blocks.editor", "remove_dialog", "demo", "Earlier turns"), "Remove block")
    assert [attached.name for attached in demo().blocks] == ["Instructions", "Facts"]


def test_every_change_of_a_block_is_said_and_can_be_undone_where_that_brings_all_back(demo_home):
    from ui.blocks.block_settings import TURN_OFF

    drawn = with_toasts("ui.blocks.block_settings", "change_dialog", "demo", "Facts", TURN_OFF)
    press(drawn, "Turn off")
    assert said(drawn) == ["Facts: turned off."]
    press(drawn, "Undo")
    assert demo().blocks.settings("Facts")["enabled"] is True
    drawn = with_toasts("ui.blocks.block_settings", "settings_of_dialog", "demo", "Earlier turns")
    field(drawn, "Results").set_value(2).run()
    press(drawn, "Apply")
    assert demo().blocks.settings("Earlier turns")["similarity_top_k"] == 2
    press(drawn, "Undo")
    assert demo().blocks.settings("Earlier turns")["similarity_top_k"] != 2
    drawn = with_toasts("ui.blocks.editor", "add_dialog", "demo")
    drawn.text_input[0].set_value("Tone").run()
    press(drawn, "Add block")
    assert said(drawn) == ["Added Tone."]
    press(drawn, "Undo")
    assert "Tone" not in priorities()


def test_removing_says_that_it_cannot_be_undone_before_and_offers_no_undo_after(demo_home):
    drawn = with_toasts("ui.blocks.editor", "remove_dialog", "demo", "Facts")
    assert "This cannot be undone." in joined(drawn)
    press(drawn, "Remove block")
    kept = "6 facts, which return with a block of this name and the 6 messages that left the queue"
    assert said(drawn)[0] == f"Removed Facts. Deleted: its settings. Kept: {kept}."
    assert "Undo" not in labels(drawn)


# -- deliveries ------------------------------------------------------------------------------------


def test_what_waits_for_a_block_can_be_tried_again(demo_home, monkeypatch):
    from memory_core.errors import ModelUnreachableError
    from memory_core.models.offline.fact_extraction import RuleExtractor

    def fail(self, messages, *, known):
        raise ModelUnreachableError("The model did not answer.")

    with monkeypatch.context() as broken:
        broken.setattr(RuleExtractor, "extract", fail)
        demo().flush()
        app = opened(page="blocks")
    assert "1 flush not delivered." in joined(app)
    press(app, "Try now")
    assert services.engine().job("demo").wait(30)
    app.run()
    assert "Waiting" not in joined(app)


def test_what_waits_for_an_agents_model_says_so_and_is_learned_by_rules_only_when_asked(demo_home):
    class Model(ShakyExtractor):
        name, offline = "gpt-prod", False

    agent = Memory.from_defaults(
        "agents",
        token_limit=40,
        token_flush_size=14,
        memory_blocks=[FactExtractionMemoryBlock(name="facts", llm=Model(lambda call: True))],
        database_uri=services.engine().settings.database,
    )
    for words in ("I am allergic to nuts.", "I live in Porto.", "I like jazz.", "What shall I cook tonight?") * 2:
        agent.put(ChatMessage(role="user", content=words))
    services.engine().open("agents").deliver(force=False)  # as the app does every two seconds
    app = opened(page="blocks", session="agents")
    assert "Waits for gpt-prod, which learns for it." in joined(app)
    assert "Try now" not in labels(app)
    assert not agent.facts.read("facts")
    press(app, "Learn with rules instead")
    assert services.engine().job("agents").wait(30)
    app.run()
    assert "Waiting" not in joined(app)
    assert "The user is allergic to nuts" in {fact.text for fact in agent.facts.read("facts")}
