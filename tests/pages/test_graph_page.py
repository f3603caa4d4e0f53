"""The Graph page, drawn and clicked in this process."""

import pytest
from engine_fakes import assistant, user
from pages_driver import button, dialog, joined, menu, opened, press

from memory_core import GraphMemoryBlock, Memory, StaticMemoryBlock
from memory_core.curation.graph_desk import NamedRelation
from memory_inspector.files.graph_files import write_graph
from memory_inspector.reading.event_rows import remembered
from memory_inspector.wording.event_sentences.event_words import words_in_log
from memory_inspector.wording.story import story
from ui.chat.chat_page import STORY_KINDS
from ui.graph import graph_dialogs, graph_tab
from ui.sessions.session_files import exports
from ui.tab import services
from ui.tab.view import View

pytestmark = pytest.mark.slow

HOSTILE = "![x](http://evil.test/x.png) <b>hi</b> $x$ :material/home:"

FAMILY = (
    ("Ana", "brother", "Rui"),
    ("Ana", "works at", "Acme"),
    ("Ana", "manages", "Project Alpha"),
    ("Project Alpha", "deadline", "March 2026"),
    ("Rui", "allergic to", "fish"),
)


def session(name="family", *, blocks=None, **options):
    shared = services.engine()
    return Memory.from_defaults(
        name,
        database_uri=shared.settings.database,
        services=shared.services,
        title=name,
        memory_blocks=[GraphMemoryBlock(name="Relations")] if blocks is None else blocks,
        **options,
    )


def wrote(memory, *relations):
    return memory.blocks.graph().add_many([NamedRelation(*each) for each in relations])


@pytest.fixture
def family(home):
    """A session with a graph written by hand, in its first turn."""
    memory = session()
    memory.put(user("Hello"))
    memory.put(assistant("Hi"))
    wrote(memory, *FAMILY)
    return memory


def page(session_id="family", **query):
    return opened(page="graph", session=session_id, **query)


def chosen(app, label):
    return next(each for each in app.selectbox if each.label == label)


def filled(app, subject, predicate, object):
    """Choose the three parts of a relation among what is known: AppTest cannot type into a list."""
    for label, words in (("From", subject), ("Relation", predicate), ("To", object)):
        chosen(app, label).set_value(words).run()


def id_of(memory, name):
    return memory.blocks.graph().entity(name).id


def relation(memory, words):
    graph = memory.blocks.graph().graph()
    return next(each for each in graph.relations.values() if graph.describe(each) == words)


def looked(app, memory):
    return app.session_state["graph"][memory.session_id, "Relations"]


def desk(memory):
    graph = memory.blocks.graph()
    return graph_tab.GraphSnapshot(memory, "Relations", graph.graph(), changes=tuple(graph.changes()))


# -- looking ---------------------------------------------------------------------------------------


def test_it_opens_on_the_most_mentioned_entity_with_its_relations_in_words(family):
    app = page()
    assert not app.exception
    text = joined(app)
    assert "6 entities, 5 relations." in text
    assert chosen(app, "Focus").value == id_of(family, "Ana")
    assert "Ana → brother → Rui" in text
    assert "written in turn 1" in text
    assert "Rui → allergic to → fish" not in text  # two steps away
    assert app.query_params["entity"] == str(id_of(family, "Ana"))


def test_looking_records_nothing(family):
    before = family.session.status().position
    app = page()
    chosen(app, "Path to").set_value(id_of(family, "fish")).run()
    press(app, "Ana → brother → Rui")
    assert not app.exception
    assert family.session.status().position == before


def test_a_link_names_an_entity_or_a_relation(family):
    assert chosen(page(entity="project alpha"), "Focus").value == id_of(family, "Project Alpha")
    told = relation(family, "Rui → allergic to → fish")
    app = page(relation=str(told.id))
    assert chosen(app, "Focus").value == id_of(family, "Rui")
    assert looked(app, family).relation == told.id
    app = page(entity="Nobody")
    assert ["Nobody" in each.value for each in app.warning] == [True]
    assert chosen(app, "Focus").value == id_of(family, "Ana")


def test_a_path_is_said_in_words_and_none_is_said_too(family):
    app = page()
    chosen(app, "Path to").set_value(id_of(family, "March 2026")).run()
    assert "Ana → manages → Project Alpha → deadline → March 2026: 2 steps." in joined(app)
    assert "1. Ana → manages → Project Alpha" in joined(app)
    wrote(family, ("Zoe", "likes", "jazz"))
    app.run()
    chosen(app, "Path to").set_value(id_of(family, "Zoe")).run()
    assert not app.exception
    assert "No path of at most 4 steps." in joined(app)


def test_another_focus_two_steps_and_kinds_change_the_list(family):
    app = page()
    chosen(app, "Focus").set_value(id_of(family, "Rui")).run()
    assert "Rui → allergic to → fish" in joined(app)
    assert "Ana → works at → Acme" not in joined(app)
    next(each for each in app.segmented_control if each.label == "Around the focus").set_value(2).run()
    assert "Ana → works at → Acme" in joined(app)
    app.multiselect[0].set_value(["brother"]).run()
    assert not app.exception
    assert "Ana → works at → Acme" not in joined(app)
    assert "Ana → brother → Rui" in joined(app)


def test_over_forty_neighbours_it_says_how_many_are_shown(home):
    memory = session()
    wrote(memory, *(("Acme", "knows", f"Somebody {n}") for n in range(60)))
    app = page()
    assert not app.exception
    assert "Showing the 40 most mentioned of 60." in joined(app)
    assert "1 to 12 of 60" in joined(app)


def test_the_source_words_of_a_relation_are_shown(home):
    memory = session(blocks=[GraphMemoryBlock(name="Relations", deliver_on="turn")])
    memory.put(user("Ana lives in Lisbon."))
    memory.put(assistant("I see."))
    memory.put(user("And now?"))
    memory.deliver()
    app = page()
    press(app, "Ana → lives in → Lisbon")
    assert not app.exception
    text = joined(app)
    assert "said in turn 1 by the user · holds now" in text
    assert "Said by the user in turn 1:" in text


def test_others_words_stay_words(home):
    memory = session()
    wrote(memory, (HOSTILE, "knows", "Rui"))
    app = page()
    assert not app.exception
    press(app, "knows")
    assert not app.exception
    shown = [each.value for each in app.markdown] + [each.label for each in app.button]
    assert not any("![x]" in value or "<b>hi" in value for value in shown)
    assert "x](http://evil.test/x.png)" in joined(app).replace("\N{WORD JOINER}", "")


# -- when there is none ----------------------------------------------------------------------------


def test_without_a_block_it_says_what_one_learns_and_offers_it(home):
    session("plain", blocks=[StaticMemoryBlock(name="Instructions", static_content="Be brief.")])
    app = page("plain")
    assert not app.exception
    assert "No graph block in this session." in joined(app)
    assert "It learns who is related to what." in joined(app)
    press(app, "Add a graph block")
    app.button(key="blocks__add_apply").click().run()
    assert [each.kind for each in services.engine().open("plain").blocks] == ["static", "graph"]


def test_an_empty_graph_says_when_it_will_learn(home):
    memory = session()
    app = page()
    assert "No relations yet." in joined(app)
    assert f"{memory.session.status().to_next_flush:,} tokens to the next flush." in joined(app)


def test_the_menu_has_the_page_only_where_there_is_a_graph(family):
    session("plain", blocks=[])
    assert "Graph" not in menu(opened(session="plain"))
    assert "Graph" in menu(opened(session="family"))


# -- changing --------------------------------------------------------------------------------------


def test_a_relation_is_ended_and_holds_again_and_both_can_be_undone(family):
    app = page()
    press(app, "Ana → works at → Acme")
    press(app, "End")
    assert relation(family, "Ana → works at → Acme").state == "ended"
    text = joined(app)
    assert "5 relations, 1 ended." in text
    assert "ended in turn 1" in text
    press(app, "Undo: Ended")
    assert relation(family, "Ana → works at → Acme").state == "active"
    assert not app.exception


def test_an_older_change_is_undone_from_the_list_of_all_and_later_ones_stay(family):
    family.blocks.graph().end([relation(family, "Ana → works at → Acme")])
    family.blocks.graph().retire([relation(family, "Rui → allergic to → fish")])
    app = press(page(), "All changes")
    text = joined(app).replace("\\", "")
    assert "Retired Rui → allergic to → fish." in text
    assert "Imported 5 relations and 6 entities." in text
    assert '"Ana → works at → Acme" was changed since by a person in turn 1: ended Ana → works at → Acme.' in text
    assert [each.disabled for each in app.button if each.label == "Undo"] == [False, False, True]
    app.button(key=f"changes__{family.blocks.graph().changes()[1].number}").click().run()
    assert app.session_state["toast"].text.startswith("Undone: ended Ana → works at → Acme. Next prompt")
    assert relation(family, "Ana → works at → Acme").state == "active"
    assert relation(family, "Rui → allergic to → fish").state == "retired"


@pytest.mark.parametrize(
    ("drawer", "named", "filling"),
    [
        ("add_dialog", None, ("Rui", "manages", "Acme")),
        ("edit_dialog", "Ana → brother → Rui", ("Ana", "brother", "fish")),
        ("merge_dialog", "Ana", None),
        ("remove_dialog", "Rui", None),
    ],
)
def test_every_drawer_says_in_a_line_what_the_change_does_to_the_next_prompt(family, drawer, named, filling):
    family.put(user("What does Ana do, and Rui?"))
    wrote(family, ("Anna", "likes", "jazz"))
    given = [] if named is None else [relation(family, named).id if "→" in named else id_of(family, named)]
    app = dialog("ui.graph.graph_dialogs", drawer, desk(family), *given)
    if filling:
        filled(app, *filling)
    assert "Next prompt" in joined(app), [each.value for each in app.markdown]
    assert ", nothing more cut." in joined(app).replace("\\", "") or "stays the same size" in joined(app)


def test_a_removed_relation_leaves_the_list_until_it_is_undone(family):
    app = page()
    press(app, "Ana → works at → Acme")
    press(app, "Remove")
    assert relation(family, "Ana → works at → Acme").state == "retired"
    assert "Ana → works at → Acme" not in {each.label for each in app.button}
    press(app, "Undo: ")
    assert relation(family, "Ana → works at → Acme").state == "active"


def test_what_was_changed_elsewhere_is_said_and_left_alone(family):
    app = page()
    press(app, "Ana → works at → Acme")
    family.blocks.graph().edit(relation(family, "Ana → works at → Acme"), object="Globex")
    press(app, "End")
    assert not app.exception
    assert app.warning
    assert relation(family, "Ana → works at → Globex").state == "active"


def test_a_relation_is_added_by_hand(family):
    app = dialog("ui.graph.graph_dialogs", "add_dialog", desk(family))
    assert button(app, "Add relation").disabled
    filled(app, "Rui", "manages", "Acme")
    press(app, "Add relation")
    assert not app.exception
    assert relation(family, "Rui → manages → Acme").state == "active"
    assert app.session_state["toast"].text.startswith("Added Rui → manages → Acme.")


def test_a_name_that_is_new_is_added_with_what_it_is(family):
    graph_dialogs._add(desk(family), "Ana", "likes", "Jazz", ("other", "thing"))
    assert relation(family, "Ana → likes → Jazz").state == "active"
    assert family.blocks.graph().entity("Jazz").type == "thing"


def test_a_relation_needs_two_different_entities(family):
    app = dialog("ui.graph.graph_dialogs", "add_dialog", desk(family))
    filled(app, "Ana", "manages", "Ana")
    assert ["different entities" in each.value for each in app.error] == [True]
    assert button(app, "Add relation").disabled


def test_a_relation_that_takes_anothers_place_says_so_before(family):
    app = dialog("ui.graph.graph_dialogs", "add_dialog", desk(family))
    filled(app, "Ana", "works at", "fish")
    assert "Ana → works at → Acme will end." in joined(app)
    press(app, "Add relation")
    assert relation(family, "Ana → works at → Acme").state == "ended"


def test_a_relation_is_edited_in_place(family):
    told = relation(family, "Ana → brother → Rui")
    app = dialog("ui.graph.graph_dialogs", "edit_dialog", desk(family), told.id)
    assert button(app, "Save").disabled
    chosen(app, "To").set_value("fish").run()
    press(app, "Save")
    assert not app.exception
    assert relation(family, "Ana → brother → fish").id == told.id


def test_an_entity_is_renamed_and_its_former_name_stays(family):
    app = dialog("ui.graph.graph_dialogs", "entity_dialog", desk(family), id_of(family, "Acme"))
    app.text_input[0].set_value("Acme Corporation").run()
    assert "another name" in joined(app)
    press(app, "Save")
    assert not app.exception
    assert family.blocks.graph().entity("acme").name == "Acme Corporation"


def test_two_entities_are_merged_and_the_undo_parts_them(family):
    wrote(family, ("Anna", "likes", "jazz"))
    app = dialog("ui.graph.graph_dialogs", "merge_dialog", desk(family), id_of(family, "Ana"))
    assert chosen(app, "Ana is the same as").value == id_of(family, "Anna")  # the most alike
    assert "another name of Ana" in joined(app).replace("**", "")
    press(app, "Merge")
    assert not app.exception
    assert family.blocks.graph().entity("Anna").name == "Ana"
    app.session_state["toast"].undo()
    assert family.blocks.graph().entity("Anna").name == "Anna"


def test_an_entity_is_removed_with_its_relations(family):
    app = dialog("ui.graph.graph_dialogs", "remove_dialog", desk(family), id_of(family, "Rui"))
    assert "**Rui** with 2 relations" in joined(app)
    press(app, "Remove")
    assert "Rui" not in [
        each.name for each in family.blocks.graph().graph().entities.values() if each.state == "active"
    ]


# -- the past --------------------------------------------------------------------------------------


def test_in_the_past_the_graph_is_as_it_was_and_nothing_can_be_changed(family):
    family.put(user("And now?"))
    family.put(assistant("Now."))
    family.blocks.graph().end([relation(family, "Ana → works at → Acme")])
    wrote(family, ("Ana", "likes", "jazz"))
    app = page(turn="1")
    assert not app.exception
    text = joined(app)
    assert "6 entities, 5 relations." in text
    assert "Ana → likes → jazz" not in text
    press(app, "Ana → works at → Acme")
    assert not {"End", "Edit", "Remove", "Add a relation"} & {each.label for each in app.button}
    assert not [each for each in app.button if each.label.startswith("Undo")]


def test_the_past_of_the_latest_turn_is_the_present(family):
    view = View(memory=family, history=family.log.history(), status=family.session.status(), turn=None, running=None)
    now = graph_tab.read_desk(view, "Relations").graph
    then = graph_tab.past_graph(view, "Relations")
    assert {each.id: each.state for each in then.relations.values()} == {
        each.id: each.state for each in now.relations.values()
    }
    assert {each.name for each in then.entities.values()} == {each.name for each in now.entities.values()}


# -- files -----------------------------------------------------------------------------------------


def test_a_session_with_a_graph_exports_it_in_every_form(family):
    made = {each.label: each for each in exports("family", "family") if each.label.startswith("Graph")}
    assert {each.file_name for each in made.values()} == {"family.graph.json", "family.graph.cypher"}
    assert all("Project Alpha" in each.make().decode() for each in made.values())
    session("plain", blocks=[])
    assert not [each for each in exports("plain", "plain") if each.label.startswith("Graph")]


def test_a_graph_is_imported_with_a_preview_as_one_change(family):
    data = write_graph(family.blocks.graph().graph(), "json").encode()
    other = session("other", blocks=[GraphMemoryBlock(name="Relations")])
    wrote(other, FAMILY[0])
    app = dialog("ui.graph.graph_dialogs", "import_dialog", desk(other))
    app.file_uploader[0].set_value(("family.json", data, "application/json")).run()
    assert not app.exception
    assert "6 entities, 5 relations." in joined(app)
    assert "1 relation already exists" in joined(app)
    press(app, "Import 4 relations")
    assert relation(other, "Rui → allergic to → fish").state == "active"
    assert len(other.blocks.graph().changes()) == 2


def test_a_broken_file_is_refused_in_one_sentence(family):
    app = dialog("ui.graph.graph_dialogs", "import_dialog", desk(family))
    app.file_uploader[0].set_value(("graph.json", b'{"entities": [', "application/json")).run()
    assert not app.exception
    assert app.error[0].value.endswith("Nothing was imported.")
    assert not [each for each in app.button if each.label.startswith("Import")]


# -- elsewhere in the app --------------------------------------------------------------------------


def timeline_lines(memory):
    log, history = remembered(memory), memory.log.history()
    return [line.text for line in log.lines(history.records, memory)]


def test_the_timeline_tells_what_was_done_to_a_graph_in_its_words(family):
    graph = family.blocks.graph()
    graph.rename(graph.entity("Acme"), "Globex")
    graph.end([relation(family, "Ana → works at → Globex")])
    graph.edit(relation(family, "Rui → allergic to → fish"), object="nuts")
    told = timeline_lines(family)
    assert "Renamed “Acme” to “Globex”" in told
    assert "Ended “Ana → works at → Globex”" in told
    assert "Changed “Rui → allergic to → nuts”: before, it ended at “fish”" in told
    assert not any("erased" in line for line in told)


def test_chat_tells_what_a_turn_learned_of_relations(home):
    memory = session(blocks=[GraphMemoryBlock(name="Relations", deliver_on="turn")])
    memory.put(user("Ana lives in Lisbon."))
    memory.put(assistant("I see."))
    memory.put(user("And now?"))
    memory.deliver()
    learned = memory.events(kinds=("relation_added",))[0].turn
    events = memory.events(turn=learned, kinds=STORY_KINDS)
    lines = [(line.text, line.details) for line in story(events, words_in_log(memory, events))]
    assert ("Learned 1 relation", ("Ana → lives in → Lisbon",)) in lines


def test_blocks_and_context_lead_to_the_graph(family):
    family.build_context("Where does Ana work?")
    app = opened(page="blocks", session="family")
    assert not app.exception
    assert any("6 entities, 5 relations." in each.value for each in app.text)
    assert app.button(key="blocks__open_Relations")
    app = opened(page="context", session="family")
    assert not app.exception
    assert "relations" in "".join(each.label for each in app.expander)
