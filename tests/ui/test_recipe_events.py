"""The event of a switch to a recipe can be opened: it names blocks, where other events count."""

from memory_core.events import EventRecord, RecipeChosen
from memory_inspector.reading.event_rows import followable
from memory_inspector.wording.event_details import number_rows

SWITCH = RecipeChosen(
    recipe="hybrid", before="blocks", kept=("Instructions",), added=("Relations",), removed=("Facts",)
)


def test_a_switch_of_recipes_names_the_blocks_that_stay_come_and_go():
    assert number_rows(SWITCH) == [("Kept", "Instructions"), ("Added", "Relations"), ("Removed", "Facts")]


def test_a_switch_of_recipes_offers_nothing_to_follow():
    record = EventRecord(position=1, session_id="s", turn=1, at=0.0, actor="user", event=SWITCH)
    assert followable(record) == []
