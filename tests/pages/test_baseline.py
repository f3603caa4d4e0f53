"""A pinned baseline: by how much the numbers of every page differ from its own."""

import pytest
from pages_driver import button, drawn_until, joined, menu, opened, table

from memory_core import delete_session
from memory_core.lab.baselines import keep_baseline, kept_baseline, numbers_of
from memory_core.lab.playing import Player
from memory_core.lab.script import script_of
from memory_core.lab.variants import variant_of
from ui import services
from ui.text import difference

PAGES = ("chat", "context", "timeline", "blocks", "facts", "retrieval", "sessions")


@pytest.fixture
def memory(demo_home):
    return services.engine().open("demo")


@pytest.fixture
def kept(memory):
    """The demo as played under half its limit."""
    played = Player(memory.session.services).play(script_of(memory), variant_of(memory).changed("B", token_limit=600))
    return keep_baseline(memory, played, "Token limit 1,200 → 600", at=1.0)


def told(app):
    """All words of a page: markdown, labels of expanders and of choices, the budget's rows, cells of tables."""
    html = [each.proto.body for each in app.get("html")]
    options = [option.content for each in app.get("button_group") for option in each.proto.options]
    labels = [each.label for each in app.expander]
    cells = [str(value) for each in app.dataframe for value in each.value.to_numpy().ravel()]
    return "\n".join([joined(app), *html, *options, *labels, *cells]).replace("\\", "")


def beside(memory, kept, turn):
    """Differences by name, of the prompt and its blocks at a turn."""
    own, other = numbers_of(memory).turns[turn], kept_baseline(memory.session.database, kept).numbers.turns[turn]

    def of(name, block=None):
        one, two = (each if block is None else each.blocks[block] for each in (own, other))
        return f"({difference(getattr(one, name), getattr(two, name))})"

    return of


def test_each_page_shows_by_how_much_its_numbers_differ_at_the_latest_turn_and_at_an_earlier_one(memory, kept):
    latest = memory.log.history().latest_turn
    for turn in (latest, 8):
        of = beside(memory, kept, turn)
        shown = {
            "chat": [of("sent"), of("queue_sent"), of("queue"), of("granted", "Facts"), of("granted", "Earlier turns")],
            "context": [of("sent"), of("queue_sent"), of("granted", "Facts")],
            "timeline": [of("flushes"), of("cuts"), of("facts_added")],
            "blocks": [of("granted", "Instructions"), of("granted", "Facts"), of("granted", "Earlier turns")],
            "facts": [of("facts", "Facts")],
            "retrieval": [of("recalled", "Earlier turns"), of("fitted", "Earlier turns")] if turn == latest else [],
        }
        for name, differences in shown.items():
            app = opened(
                page=name, session="demo", baseline=f"played:{kept}", **({} if turn == latest else {"turn": "8"})
            )
            assert not app.exception
            words = told(app)
            assert [each for each in differences if each not in words] == [], (name, turn)
            assert button(app, "Baseline: Token limit 1,200 → 600"), "it is plain that something is pinned"


def test_the_pin_is_kept_in_the_address_from_page_to_page_until_it_is_unpinned(memory, kept):
    app = opened(page="facts", session="demo", baseline=f"played:{kept}")
    for name in ("chat", "sessions", "blocks"):
        app.switch_page(f"pages/{name}.py")
        del app.query_params["baseline"]  # the menu's links drop it
        app.run()
        assert app.query_params["baseline"] == f"played:{kept}"
        assert all(f"baseline=played%3A{kept}" in query for query in menu(app).values()), "a new tab has it too"
    app.button(key="frame__baseline").click().run()
    assert "baseline" not in app.query_params
    assert "(" not in "".join(each.value for each in app.markdown if "tokens" in each.value)


def test_a_session_is_pinned_and_others_are_compared_with_it_and_it_not_with_itself(memory):
    shared = services.engine()
    early = memory.branch(5, title="Early")
    app = opened(page="sessions", session="demo")
    app = app.button(key="sessions__pin").click().run()
    assert app.query_params["baseline"] == "session:demo"
    rows = next(each.value for each in app.dataframe if "Session" in each.value).set_index("Session")
    assert rows.loc["Early", "Turns"] == "5 (−6)"
    assert rows.loc["Birthday dinner", "Turns"] == "11"
    assert "(" not in joined(opened(page="facts", session="demo", baseline="session:demo")).split("Baseline")[0]
    app = opened(page="context", session=early.session_id, baseline="session:demo")
    assert "tokens counted (±0)" in told(app), "at the same turn they are the same"
    delete_session(shared.database, early.session_id)
    app = opened(session="demo", baseline=f"session:{early.session_id}")
    assert "baseline was deleted" in app.warning[0].value
    assert "baseline" not in app.query_params


@pytest.mark.parametrize("broken", ["", "session:", "played:1", "played:" + "0" * 400, "played:\x00", "[]", "demo"])
def test_an_address_that_names_no_baseline_is_a_sentence_and_nothing_is_compared(memory, broken):
    app = opened(page="facts", session="demo", baseline=broken)
    assert not app.exception
    assert "baseline" not in app.query_params
    assert not [each for each in app.button if each.key == "frame__baseline"]


def test_a_turn_that_the_baseline_does_not_have_is_not_compared(memory):
    early = memory.branch(5, title="Early")
    app = opened(page="chat", session="demo", baseline=f"session:{early.session_id}")
    assert all("(" not in row["name"] for row in table(app))
    assert "**32 to the next flush.**" in joined(app)
    assert "Queue (" not in joined(app)


def test_the_lab_pins_what_it_played_and_compares_everything_with_it(memory):
    app = opened(page="lab", session="demo")

    def ready(app):
        return drawn_until(app, lambda: any(each.value.startswith("**The prompts") for each in app.markdown))

    def numbers():
        return next(each.value for each in app.dataframe if "Flushes" in each.value).set_index("")

    app = ready(app)
    app = ready(app.number_input(key="lab__B_token_limit").set_value(500).run())
    was = numbers()["Tokens a turn"]
    app = ready(app.button(key="lab__pin").click().run())
    assert numbers().loc["B", "Tokens a turn"] == f"{was['B']:,} (±0)"
    assert numbers().loc["A", "Tokens a turn"] == f"{was['A']:,} (+{was['A'] - was['B']:,})"
    app = ready(app.button(key="lab__pin_session").click().run())
    assert numbers().loc["A", "Tokens a turn"] == f"{was['A']:,} (±0)"
    app = ready(app.button(key="frame__baseline").click().run())
    assert numbers().loc["B", "Tokens a turn"] == was["B"]
