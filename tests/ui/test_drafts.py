"""What a drawer's callbacks find of its draft: what was typed last may come after the drawer has closed."""

import pytest

from ui.blocks import editor
from ui.parts import fields
from ui.parts.fields import Draft, draft, forget_draft, keep_draft, leave, open_draft


@pytest.fixture(autouse=True)
def session_state(monkeypatch):
    state = {"box": "typed"}
    monkeypatch.setattr(fields.st, "session_state", state)
    return state


def test_a_drawer_that_was_left_still_takes_what_was_typed_last_and_begins_anew_when_it_is_opened_again():
    draft("edit", Draft(3), "box")
    leave()
    assert open_draft("edit").revision == 3
    assert draft("edit", Draft(4), "box") == Draft(4)
    assert open_draft("edit") == Draft(4)


def test_what_a_discarded_edit_left_in_its_fields_is_not_in_the_next_one(session_state):
    draft("edit", Draft(3), "box", "limit")
    session_state |= {"box": "typed", "limit": 7, "other": 1}  # of a run that ended before Streamlit dropped them
    assert draft("edit", Draft(3), "box", "limit") == Draft(3)
    assert session_state["box"] == "typed"
    forget_draft("edit")
    draft("edit", Draft(4), "box", "limit")
    assert not {"box", "limit"} & session_state.keys()
    assert session_state["other"] == 1


@pytest.mark.parametrize("drawn", [False, True])
def test_one_that_was_saved_or_discarded_takes_nothing_more_whether_it_was_drawn_since_or_not(drawn):
    draft("edit", Draft(3), "box")
    keep_draft("edit", Draft(3, saved=True))
    if drawn:
        forget_draft("edit")
    assert open_draft("edit") is None


def test_keys_that_come_after_a_text_was_saved_and_a_second_click_on_save_do_nothing(monkeypatch):
    monkeypatch.setattr(editor, "engine", lambda: pytest.fail("there is nothing to keep or to save"))
    editor._keep_unsaved("s", "rules")
    editor._save("s", "rules", "edit_s_rules", "blocks__edit_s_rules_text")
    assert open_draft("edit_s_rules") is None
