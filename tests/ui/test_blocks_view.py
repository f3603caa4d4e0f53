"""What cards, the strip, differences and kinds say, without a screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.blocks import BUILT_IN
from memory_core.blocks.plugins import Plugin
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError
from memory_core.history.usage import BlockUse, Write
from memory_core.planning.context_plan import CutOrder
from memory_core.store.block_rows import Holding
from memory_inspector.palette import LIGHT
from memory_inspector.wording.block_kinds import STATIC, free_name, kinds, make, settings_of
from memory_inspector.wording.block_text import GrantedInPrompt, Standing, State, card, card_order, clipped, strip
from memory_inspector.wording.formatting import plain
from memory_inspector.wording.marked_text import MAX_LINES, difference
from memory_inspector.wording.settings import SETTINGS
from ui.blocks.block_settings import DROP, STOP, TRIM, TURN_OFF, TURN_ON, changes_for

NASTY = "**b** :red[r] ![x](http://evil.test/a.png)"
PER_CENT = "\N{NO-BREAK SPACE}%"


def static(**changes):
    values = {"name": "rules", "kind": "static", "type": "static", "settings": {"priority": 0}, "text": "Be brief."}
    return Standing(**{**values, **changes})


def facts(**settings):
    return Standing("facts", "facts", "facts", {"priority": 1, **settings})


def turns(**settings):
    return Standing("turns", "vector", "vector", {"priority": 2, **settings})


def said(standing, part=None, use=None, holding=None):
    return card(standing, part, use or BlockUse(), holding or Holding())


# -- cards -----------------------------------------------------------------------------------------


def test_the_card_of_a_fixed_text_shows_it_with_its_share_and_its_last_edit():
    drawn = said(static(), GrantedInPrompt(212, 212, 1200), BlockUse(prompts=3, last_write=Write(4, "user")))
    assert (drawn.size, drawn.holds) == ("**212** tokens", "Be brief.")
    assert drawn.lines == f"18{PER_CENT} of the limit · edited in turn 4 · never cut"
    assert drawn.states == ()
    new = BlockUse(last_write=Write(4, "user"))
    assert said(static(), use=new, holding=Holding(texts=1)).lines == "written in turn 4 · never cut"
    assert "unchanged since the start" in said(static(), use=BlockUse(last_write=Write(0, "engine"))).lines


def test_a_text_that_the_agent_edits_says_how_much_of_its_limit_is_used_and_who_wrote_last():
    mine = static(settings={"priority": 0, "read_only": False, "limit": 2000})
    drawn = card(mine, None, BlockUse(last_write=Write(4, "agent")), Holding(texts=2), with_tools=True)
    assert drawn.lines == "edited in turn 4 by the agent · 9 of 2,000 characters · never cut"
    assert drawn.states == ()
    free = static(settings={"priority": 0, "read_only": False, "limit": None})
    assert "9 characters · never cut" in said(free).lines
    tight = static(settings={"priority": 0, "read_only": False, "limit": 4})
    assert said(tight).states == (State("block", "Above its limit: the agent can only shorten it.", "waiting"),)


def test_what_the_agent_may_not_edit_says_so_only_where_it_may_edit_something():
    locked = (State("lock", "Read only for the agent."),)
    assert card(static(), None, BlockUse(), Holding(), with_tools=True).states == locked
    assert said(static()).states == ()
    assert card(facts(), None, BlockUse(), Holding(), with_tools=True).states == ()
    archive = card(facts(accept_short_term_memory=False), None, BlockUse(), Holding(), with_tools=True)
    assert archive.states[-1].says == "The agent's archive: it writes here and searches it through tools."
    from_python = static(text="\x01[]", settings={"priority": 0, "read_only": False})
    assert card(from_python, None, BlockUse(), Holding(), with_tools=True).states == locked


def test_a_cut_block_says_what_it_asked_for_and_how_often_it_was_cut():
    use = BlockUse(prompts=3, cut_in=1, last_cut_turn=12, last_write=Write(12, "engine"))
    drawn = said(turns(), GrantedInPrompt(335, 279, 1200), use, Holding(turns=5))
    assert drawn.size == "**279** of 335 tokens"
    assert drawn.holds == "5 stored turns, whole turns cut, lowest score first."
    by_message = said(turns(unit="message"), holding=Holding(turns=5))
    assert by_message.holds == "5 stored messages, whole messages cut, lowest score first."
    assert said(turns(unit="batch")).holds == "No stored batches yet. Batches are stored when they leave the queue."
    assert drawn.lines.endswith(":red[cut in 1 of 3 prompts, last turn\N{NO-BREAK SPACE}12]")


def test_facts_are_counted_with_the_newest_and_those_that_wait():
    held = Holding(facts={"active": 9, "retired": 2}, newest="Dinner is\non 14 March")
    assert said(facts(), holding=held).holds == "9 facts. Newest: Dinner is on 14 March"
    assert said(facts(), holding=Holding(facts={"proposed": 3})).holds == "No facts yet. 3 to review."
    assert said(facts()).holds == "No facts yet. They are learned when messages leave the queue."


@pytest.mark.parametrize(
    ("standing", "use", "holding", "state"),
    [
        (facts(enabled=False), {}, {}, State("toggle_off", "Off. It receives nothing and is not in the prompt.")),
        (
            facts(),
            {},
            {"waiting": 1, "flushes": 1},
            State("hourglass_top", "Waiting: 1 flush not delivered.", "waiting"),
        ),
        (
            facts(),
            {"parked": (7,), "delivery_error": "No *answer*."},
            {"waiting": 2, "flushes": 1},
            State(
                "hourglass_top",
                f"Waiting: 2 deliveries. 1 delivery given up for now. {plain('No *answer*.')}",
                "waiting",
            ),
        ),
        (facts(), {"read_error": "no"}, {}, State("error", "Could not be read for the last prompt: no", "loss")),
        (
            facts(accept_short_term_memory=False),
            {},
            {},
            State("input_circle", "Receives no flushed messages, so it learns nothing new."),
        ),
        (facts(truncation="drop"), {}, {}, State("content_cut", "Dropped as a whole if it must be cut.")),
        (facts(deliver_on="turn"), {}, {}, State("speed", "Learns after every turn.")),
        (facts(deliver_on="session_end"), {}, {}, State("event", "Learns when the session ends.")),
    ],
)
def test_what_is_not_as_usual_stands_in_a_line_of_its_own(standing, use, holding, state):
    assert said(standing, None, BlockUse(**use), Holding(**holding)).states == (state,)


def test_a_block_that_cannot_be_made_here_is_shown_as_it_last_was():
    other = Standing("echo", "custom", "their.package.Echo", {"priority": 0}, text="5 messages", made_here=False)
    drawn = said(other)
    assert drawn.holds == "5 messages"
    says = "Not available here: this app cannot load their.package.Echo. Its last state is shown."
    assert [state.says.replace("\\", "") for state in drawn.states] == [says]


def test_a_text_edited_since_the_prompt_says_its_new_size():
    edited = static(text_ref="sNEW", text_tokens=240)
    assert said(edited, GrantedInPrompt(212, 212, 1200, ("sOLD",))).states == (
        State("update", "Edited since: 240 tokens from the next prompt on."),
    )
    assert said(edited, GrantedInPrompt(240, 240, 1200, ("sNEW",))).states == ()


def test_a_block_outside_the_prompt_has_no_size_and_no_share():
    assert said(static(), None).size == ":gray[in no prompt yet]"
    assert said(static(), None, BlockUse(prompts=2)).size == ":gray[not in this prompt]"
    off = said(static(settings={"enabled": False}), GrantedInPrompt(212, 212, 1200))
    assert (off.size, "limit" in off.lines) == (":gray[off]", False)


def test_a_small_share_is_not_nothing():
    assert said(static(), GrantedInPrompt(2, 2, 1200)).lines.startswith(f"under 1{PER_CENT}")
    assert said(static(), GrantedInPrompt(0, 0, 1200)).lines.startswith(f"0{PER_CENT}")
    assert said(static(), GrantedInPrompt(1, 1, 1200)).size == "**1** token"


def test_only_the_beginning_of_a_long_text_is_shown():
    assert clipped("one\n\ntwo\n  three  \nfour") == "one\ntwo\n  three …"
    assert clipped("x" * 500) == "x" * 180 + " …"
    assert clipped(" short ") == "short"


def test_parts_that_are_no_text_are_named():
    assert said(static(text="\x01[]")).holds == "Images or files, given from Python."
    assert said(static(text="")).holds == "No text."


# -- the strip -------------------------------------------------------------------------------------


def square(colour):
    return f':color[■]{{foreground="{colour}"}}\N{NO-BREAK SPACE}'


KINDS = {"rules": "static", "facts": "facts", "turns": "vector", "more": "custom"}


def test_the_strip_goes_from_cut_first_to_never_and_shared_places_stand_side_by_side():
    order = CutOrder((("turns", "more"), ("facts",)), ("rules",))
    priorities = {"rules": 0, "facts": 1, "turns": 2, "more": 2}
    assert strip(order, priorities, KINDS, "light") == (
        f":material/content_cut: Cut in this order: {square(LIGHT.vector)}turns {square(LIGHT.custom)}more :gray[2]"
        f" → {square(LIGHT.facts)}facts :gray[1]. Never: {square(LIGHT.static)}rules."
    )
    assert card_order(order) == ("rules", "facts", "more", "turns")


def test_the_strip_without_anything_to_cut_and_with_blocks_that_are_off():
    only = strip(CutOrder((), ("rules",)), {"rules": 0}, KINDS, "light")
    assert only == f"Never cut: {square(LIGHT.static)}rules."
    order, priorities = CutOrder((("facts",),), ("rules",)), {"rules": 0, "facts": 1}
    off = strip(order, priorities, KINDS, "light", off=["facts"])
    assert off == f"Never cut: {square(LIGHT.static)}rules. Off: {square(LIGHT.facts)}facts."
    assert strip(order, priorities, KINDS, "light", off=["facts", "rules"]).startswith("Off: ")


def test_names_are_no_markup():
    drawn = strip(CutOrder((), (NASTY,)), {NASTY: 0}, {}, "light")
    assert "**" not in drawn
    assert ":red[" not in drawn


# -- differences -----------------------------------------------------------------------------------


def test_a_difference_shows_removed_and_added_lines_with_their_neighbours():
    before, after = "one\ntwo\nthree\nfour\nfive\nsix", "one\nzwei\nthree\nfour\nfive\nsix"
    assert difference(before, after) == " one\n-two\n+zwei\n three\n four"
    far = difference("\n".join("abcdefghij"), "\n".join("abcdefghiX"))
    assert far == " …\n h\n i\n-j\n+X"


def test_lines_left_out_before_the_tenth_are_shown_as_left_out():
    lines = [str(number) for number in range(30)]
    later = difference("\n".join(lines), "\n".join([*lines[:15], "x", *lines[16:]]))
    assert later is not None
    assert later.startswith(" …")


@given(st.text())
def test_nothing_differs_from_itself(text):
    assert difference(text, text) == ""


def test_texts_that_are_too_long_are_not_compared():
    assert difference("a\n" * (MAX_LINES + 1), "b") is None


# -- kinds and settings ----------------------------------------------------------------------------


class Mentions(BaseMemoryBlock[str]):
    """Counts mentions."""

    def _get(self, messages=None, **kwargs):
        return "0"


PLUGIN = Plugin("mentions", "their-package 1.0", "tests:Mentions", Mentions)


def test_every_kind_makes_a_block_of_its_class():
    made = [make(kind, "X", 3, "text") for kind in (*kinds([PLUGIN]).values(),)]
    assert [type(block) for block in made] == [*BUILT_IN.values(), Mentions]
    assert {(block.name, block.priority) for block in made} == {("X", 3)}
    with pytest.raises(ConfigError):
        make(STATIC, " ", 0)


def test_a_plug_in_says_who_offers_it_and_a_broken_one_is_not_offered():
    broken = Plugin("broken", "", "x:Y", None, "no")
    offered = kinds([PLUGIN, broken])
    assert list(offered) == [*BUILT_IN, "tests:Mentions"]
    assert offered["tests:Mentions"].help == "Counts mentions. Offered by their-package 1.0."


def test_a_name_that_is_taken_gets_a_number():
    assert free_name("Facts", []) == "Facts"
    assert free_name("Facts", ["Facts", "Facts 2"]) == "Facts 3"


def test_only_a_session_with_a_user_can_choose_whose_facts():
    names = [[setting.name for setting in settings_of("facts", has_user=user)] for user in (True, False)]
    assert ("scope" in names[0], "scope" in names[1]) == (True, False)
    assert [setting.name for setting in settings_of("static", has_user=True)] == ["read_only", "description", "limit"]


@pytest.mark.parametrize("kind", [FactExtractionMemoryBlock, VectorMemoryBlock, Mentions])
def test_every_setting_on_screen_is_one_that_the_block_has(kind):
    settings = kind(name="X").settings()
    offered = settings_of(kind.kind, has_user=True)
    assert {setting.name for setting in offered} <= set(settings)
    for setting in offered:
        assert setting.choices is None or settings[setting.name] in setting.choices


def test_every_own_setting_of_a_vector_block_is_on_screen():
    own = set(VectorMemoryBlock(name="X").settings()) - set(BaseMemoryBlock.model_fields) - {"postprocessed_by"}
    offered = {setting.name: setting for setting in settings_of("vector", has_user=True)}
    assert own <= set(offered)
    assert (offered["similarity_top_k"].optional, offered["similarity_top_k"].without) == (True, "as many as fit")
    assert all(f"`{name}`" in setting.help for name, setting in offered.items())


def test_every_setting_of_a_session_and_of_a_built_in_block_has_its_words():
    assert set(MemoryConfig.model_fields) <= set(SETTINGS)
    for key, block in BUILT_IN.items():
        text = {"static_content": "Be brief."} if key == "static" else {}
        assert set(block(name="X", **text).settings()) - {"name"} <= set(SETTINGS)


@given(st.sampled_from([setting for setting in SETTINGS.values() if setting.is_number]), st.integers(0, 100))
def test_a_number_comes_back_from_its_field_as_it_was_stored(setting, number):
    stored = number if setting.sort == "whole" else number / 100
    assert setting.from_field(setting.in_field(stored)) == stored


def test_the_menu_offers_the_other_side_of_each_switch():
    assert changes_for("static", {"enabled": True}) == (TURN_OFF,)
    assert changes_for("facts", {"enabled": True, "truncation": "trim"}) == (TURN_OFF, DROP, STOP)
    off = changes_for("facts", {"enabled": False, "truncation": "drop", "accept_short_term_memory": False})
    assert off[:2] == (TURN_ON, TRIM)
