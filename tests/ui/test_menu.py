"""The browser's tab and the addresses behind the menu."""

import pytest

from ui.tab.nav import tab_title


@pytest.mark.parametrize(
    ("given", "title"),
    [
        (("Sessions",), "Sessions · Memory Inspector"),
        (("Context", "Birthday dinner"), "Context · Birthday dinner · Memory Inspector"),
        (("Facts", "Birthday dinner", 1200), "Facts, turn 1,200 · Birthday dinner · Memory Inspector"),
        (("Chat", "<b>*a*</b>"), "Chat · <b>*a*</b> · Memory Inspector"),  # the tab shows plain text
    ],
)
def test_a_tab_is_called_after_its_page_session_and_turn(given, title):
    assert tab_title(*given) == title


def test_a_long_name_leaves_room_for_the_rest():
    assert tab_title("Chat", "x" * 200) == f"Chat · {'x' * 39}… · Memory Inspector"
