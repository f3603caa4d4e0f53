"""What two prompts differ in, as it is drawn."""

import pytest
from streamlit.testing.v1 import AppTest

from memory_core.history.prompt import Difference, PartDiff, PromptPart

PART = PromptPart("Earlier turns", "vector", 2, 30, 30, ())


def drawn(**changes):
    def script(diff):
        from ui.context.parts import draw_changes

        draw_changes([diff], 11, "light")

    given = {"before": 20, "after": 30, "removed": (), "added": (), "reordered": True, **changes}
    app = AppTest.from_function(script, args=(PartDiff(PART, **given),)).run()
    assert not app.exception
    return " ".join(each.value for each in app.markdown)


@pytest.mark.parametrize("side", ["added", "removed"])
def test_items_are_called_the_same_only_where_none_came_or_went(side):
    assert "same items" in drawn()
    assert "same items" not in drawn(**{side: (Difference("turn five", 5, "user"),)})
