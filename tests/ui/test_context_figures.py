"""What the Context page says and draws, from prompts made in the engine."""

import json

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, assistant, note, open_memory, user

from memory_core.blocks.base import BaseMemoryBlock
from memory_core.blocks.facts import FactExtractionMemoryBlock
from memory_core.blocks.static import StaticMemoryBlock
from memory_core.blocks.vector import VectorMemoryBlock
from memory_core.events import ModelCalled
from memory_core.history.prompt import diff_prompts
from memory_core.messages import ChatMessage, ImagePart, TextPart, ToolCallPart
from memory_inspector.figures.prompt_figure import describe, waterfall
from memory_inspector.palette import PALETTES, colour
from memory_inspector.wording import prompt_text as words
from memory_inspector.wording.prompt_text import as_json, as_text


def prompt_of(memory):
    memory.build_context()
    return memory.log.prompt(memory.log.history().turns[memory.session.status().turns].built)


def session(*blocks, notes=0, **settings):
    memory = open_memory(memory_blocks=list(blocks), **settings)
    for number in range(notes):
        memory.put(note(number))
    return memory


def static(name, words, **settings):
    return StaticMemoryBlock(name=name, static_content=" ".join(["word"] * words), **settings)


def facts(**settings):
    return FactExtractionMemoryBlock(name="Facts", llm=NoteExtractor(), **{"priority": 1} | settings)


def turns(**settings):
    return VectorMemoryBlock(name="Earlier", embed_model=HashEmbedder(), **{"priority": 2} | settings)


@pytest.fixture
def cut():
    """The queue 28, Rules 5, Facts 4 of 8, Earlier 0 of 14; the limit is 40."""
    return prompt_of(session(static("Rules", 5), facts(), turns(similarity_top_k=3), notes=6))


def bars(figure):
    """Of each bar: row, start, end, hatched or its colour."""
    drawn = []
    for trace in figure.to_dict()["data"]:
        marker = trace["marker"]
        look = "hatched" if marker.get("pattern") else marker["color"]
        drawn.append((trace["y"][0], trace["base"][0], trace["base"][0] + trace["x"][0], look))
    return drawn


# -- the figure -------------------------------------------------------------------------------------


def test_every_part_begins_where_the_one_above_ends_and_what_was_cut_is_hatched(cut):
    figure, light = waterfall(cut, "light"), PALETTES["light"]
    assert bars(figure) == [
        (0, 0, 28, light.queue),
        (1, 28, 33, light.static),
        (2, 33, 37, light.facts),
        (2, 37, 41, "hatched"),
        (3, 37, 51, "hatched"),
        (4, 0, 37, light.rest),
        (4, 37, 40, light.free),
    ]
    assert [row.rstrip("\N{NO-BREAK SPACE}") for row in figure.layout.yaxis.ticktext] == [
        "Queue", "Rules", "Facts", "Earlier", "<b>Sent</b>",
    ]  # fmt: skip
    assert [note.text for note in figure.layout.annotations] == ["28", "5", "4 of 8", "0 of 14", "37", "limit 40"]
    (line,) = figure.layout.shapes
    assert (line.x0, line.x1, line.line.dash) == (40, 40, "solid")


def test_what_is_over_the_limit_is_hatched_beyond_its_line():
    over = prompt_of(session(static("Rules", 50), notes=1))
    assert bars(waterfall(over, "dark"))[-2:] == [
        (2, 0, 40, colour("rest", "dark")),
        (2, 40, 57, "hatched"),
    ]


def test_all_bars_and_their_numbers_have_room(cut):
    figure = waterfall(cut, "light")
    first, last = figure.layout.xaxis.range
    assert (first, last > 51) == (0, True)
    assert (figure.layout.xaxis.fixedrange, figure.layout.yaxis.fixedrange) == (True, True)


def test_the_markup_around_memory_has_a_row_where_it_counts():
    billed = prompt_of(session(static("Rules", 3), notes=1, accounting="billed", token_limit=100))
    names = [row.rstrip("\N{NO-BREAK SPACE}") for row in waterfall(billed, "light").layout.yaxis.ticktext]
    assert names == ["Queue", "Rules", "Markup", "<b>Sent</b>"]
    ends = {row: end for row, _, end, _ in bars(waterfall(billed, "light"))}
    assert ends[2] == billed.built.total


def test_names_of_blocks_are_no_markup_in_the_figure():
    memory = session(static("**a** & $x$", 1, priority=1), notes=1)
    figure = waterfall(prompt_of(memory), "light")
    assert figure.layout.yaxis.ticktext[1].rstrip("\N{NO-BREAK SPACE}") == "**a** &amp; &#36;x&#36;"


def test_the_figure_is_told_in_words(cut):
    assert describe(cut) == "Queue 28, Rules 5, Facts 4 of 8, Earlier 0 of 14. Sent 37 of 40 tokens, 3 free."
    over = prompt_of(session(static("Rules", 50), notes=1))
    assert describe(over).endswith("Sent 57 of 40 tokens, 17 over the limit.")


# -- sentences --------------------------------------------------------------------------------------


def test_the_first_sentence_says_what_was_sent_asked_for_and_cut(cut):
    assert words.headline(cut) == (
        "**37 of 40 tokens sent.** Parts asked for 55, 15 over the limit, so 14 were cut from Earlier and 4 from Facts."
    )


def test_the_first_sentence_of_a_prompt_that_fitted_says_what_was_free():
    fitted = prompt_of(session(static("Rules", 3), notes=1))
    assert words.headline(fitted) == "**10 of 40 tokens sent.** Everything fitted. 30 tokens were free."
    assert words.billed_beside(fitted) == (
        "22 billed, with markup and message overhead, which the limit does not count."
    )
    assert words.never_cut(fitted) == "Never cut: Rules."


def test_a_cut_of_the_queue_is_said_to_be_from_the_queue():
    memory = session(static("Rules", 20), token_limit=100, notes=5)
    memory.configure(token_limit=40)
    prompt = prompt_of(memory)
    assert words.headline(prompt).endswith("so 21 were cut from the queue.")
    assert words.cut_lines(prompt.cuts[0]) == [
        "asked 35, granted 14",
        "oldest turns first: 3 turns, 3 messages, 21 tokens",
        "15 too many; 21 removed, because turns are cut whole.",
    ]
    assert words.cut_title(1, prompt.cuts[0]) == "**1 Queue**"


def test_each_cut_says_its_rule_its_numbers_and_what_went(cut):
    earlier, known = cut.cuts
    assert words.cut_title(1, earlier) == "**1 Earlier** · priority 2"
    asked, went, proportion = words.cut_lines(earlier)
    scored = sorted(earlier.entries, key=lambda entry: entry.score)
    listed = ", ".join(f"message of turn {entry.turn} ({entry.score:.2f})" for entry in scored)
    assert (asked, went) == ("asked 14, granted 0", f"lowest score first: {listed}, 14 tokens")
    assert proportion == "15 too many; 14 removed: the rest had to come from elsewhere."
    asked, went, proportion = words.cut_lines(known)
    assert (asked, proportion) == ("asked 8, granted 4", "1 too many; 4 removed, because facts are cut whole.")
    assert went == f"least relevant first: “{known.entries[0].words}”, 4 tokens"


def test_a_block_that_is_cut_whole_says_so():
    prompt = prompt_of(session(static("Rules", 20, priority=1), notes=4))
    assert words.cut_lines(prompt.cuts[0])[1:] == [
        "the whole block, 20 tokens",
        "8 too many; 20 removed, because this block is cut whole.",
    ]


def test_a_block_that_shortens_itself_says_so():
    class Shrinking(BaseMemoryBlock[str]):
        name: str = "Diary"
        priority: int = 1

        def _get(self, messages=None, **kwargs):
            return "one two three four five six seven eight"

        def truncate(self, content, tokens_to_truncate):
            return " ".join(content.split()[: -tokens_to_truncate - 1])

    prompt = prompt_of(session(Shrinking(), static("Rules", 10), notes=4))
    (cut,) = prompt.cuts
    assert words.cut_lines(cut) == [
        "asked 8, granted 1",
        "the block shortened itself, 7 tokens",
        "6 too many; 7 removed, because the block shortens itself.",
    ]
    assert [(entry.words, entry.cut) for entry in prompt.parts[-1].entries] == [
        ("one", False),
        ("one two three four five six seven eight", True),
    ]


def test_words_of_others_are_escaped_in_every_sentence():
    class Shouting(NoteExtractor):
        def extract(self, messages, *, known):
            found = super().extract(messages, known=known)
            return type(found)(tuple(type(f)(f"**{f.text}** :red[x]", source=f.source) for f in found.facts))

    known = FactExtractionMemoryBlock(name="*F*", llm=Shouting(), priority=1)
    prompt = prompt_of(session(known, static("# R", 10), notes=7))
    said = [words.headline(prompt), words.cut_title(1, prompt.cuts[0]), *words.cut_lines(prompt.cuts[0])]
    assert ["\\*F\\*" in said[0], "\\*F\\*" in said[1], "\\*\\*note" in said[3]] == [True, True, True]
    assert words.never_cut(prompt) == "Never cut: \\# R."
    assert "\\*F\\*" in words.part_label(prompt.parts[-1], "light")


def test_a_part_is_opened_by_a_line_that_says_what_it_holds(cut):
    labels = [words.part_label(part, "light") for part in cut.parts]
    assert [label.partition(" ")[2] for label in labels] == [
        "Queue **28** :small[:gray[4 messages]]",
        "Rules **5** :small[:gray[text · never cut]]",
        "Facts **4 of 8** :small[:gray[1 fact · priority 1] · :red[cut 4]]",
        "Earlier **0 of 14** :small[:gray[0 messages · priority 2] · :red[cut 14]]",
    ]


def test_the_table_of_numbers_adds_up(cut):
    rows = words.number_rows(cut)
    assert rows[2] == {"Part": "Facts", "Priority": "1", "Requested": 8, "Sent": 4, "Cut": 4, "Of the limit": "10 %"}
    assert rows[-1] == {"Part": "Sent", "Priority": "", "Requested": 55, "Sent": 37, "Cut": 18, "Of the limit": "92 %"}
    for column in ("Requested", "Sent", "Cut"):
        assert sum(row[column] for row in rows[:-1]) == rows[-1][column]


def test_counted_and_billed_stand_beside_each_other():
    memory = session(static("Rules", 3), notes=1)
    prompt = prompt_of(memory)
    assert words.bill_rows(prompt) == [
        {"": "Content", "Counted": 10, "Billed": 10},
        {"": "Tool calls", "Counted": 0, "Billed": 0},
        {"": "Markup of the memory section", "Counted": None, "Billed": 4},
        {"": "Message overhead", "Counted": None, "Billed": 8},
        {"": "Total", "Counted": 10, "Billed": 22},
        {"": "Reported by provider", "Counted": None, "Billed": None},
    ]
    assert words.bill_sentence(prompt) == (
        "The limit is compared with the content alone, tool calls included. "
        "Markup and message overhead are added: 12 more, 120 % of what was counted."
    )
    memory.log.record(ModelCalled("reply", "m", 23, 5, 0.1, None))
    assert words.bill_rows(memory.log.prompt(prompt.record))[-1]["Billed"] == 23


def test_the_common_start_is_one_line():
    said = words.same_start_sentence(11, 104, 1305, 640, in_user=False)
    assert said == (
        "Prompt cache: **104** of 1,305 billed tokens (8 %) can be reused from turn 11. "
        "With memory in the user message instead: 640."
    )
    assert words.same_start_sentence(1, 0, 10, None, in_user=True).endswith("from turn 1.")


def test_a_message_and_a_stored_turn_say_who_when_and_how_large(cut):
    message, turn = cut.parts[0].included[0], cut.parts[-1].left_out[0]
    assert words.entry_note(message).replace("\\", "") == "message 3 · user · turn 3 · 7 tokens"
    assert words.cut_note(turn) == f"turn {turn.turn} · cut, 7 tokens, score {turn.score:.2f}"
    recalled = recalled_of("turn")
    assert words.entry_words(recalled).splitlines() == [
        f"user: note {recalled.turn - 1} of the day is here",
        f"assistant: noted {recalled.turn - 1}",
    ]


def recalled_of(unit, **told):
    """What a block that stores such units brings back of four short turns."""
    memory = session(turns(similarity_top_k=1, unit=unit), token_limit=60, chat_history_token_ratio=0.3)
    for number in range(4):
        memory.put(ChatMessage(content=note(number).content, additional_kwargs=told))
        memory.put(assistant(f"noted {number}"))
    (recalled,) = prompt_of(memory).parts[-1].included
    return recalled


def test_a_message_that_was_stored_by_itself_says_who_said_it():
    assert words.entry_note(recalled_of("message")).startswith("user · turn")
    named = recalled_of("message", name="Ana", time="8 May 2023")
    assert words.entry_note(named).startswith("Ana · turn")
    assert words.entry_words(named).startswith("note")


# -- to take along ----------------------------------------------------------------------------------


def agent():
    memory = session(static("Rules", 2), token_limit=500)
    memory.put(ChatMessage(content=[TextPart(text="Look"), ImagePart(url="https://example.com/a.png")]))
    call = ToolCallPart(tool_call_id="c1", tool_name="weather", tool_kwargs={"city": "Lisbon"})
    memory.put(ChatMessage(role="assistant", parts=[call]))
    memory.put(ChatMessage(role="tool", content="Rain", additional_kwargs={"tool_call_id": "c1"}))
    return prompt_of(memory)


def test_a_prompt_as_text_holds_every_word_under_its_role():
    assert as_text(agent()) == (
        "[system]\n<memory>\n<Rules>\nword word\n</Rules>\n</memory>\n\n"
        "[user]\nLook\n[image: https://example.com/a.png]\n\n"
        '[assistant]\n[tool call] weather({"city": "Lisbon"})\n\n'
        "[tool]\nRain\n"
    )


def test_a_prompt_as_json_can_be_sent_again_and_holds_its_numbers(cut):
    data = json.loads(as_json(agent()))
    assert [message["role"] for message in data["messages"]] == ["system", "user", "assistant", "tool"]
    assert data["messages"][2]["tool_calls"][0]["function"] == {"name": "weather", "arguments": '{"city": "Lisbon"}'}
    data = json.loads(as_json(cut))
    assert (data["turn"], data["tokens"]["sent"], data["tokens"]["asked"], data["tokens"]["limit"]) == (6, 37, 55, 40)
    assert [(c["part"], c["tokens"], len(c["words"])) for c in data["cuts"]] == [("Earlier", 14, 2), ("Facts", 4, 1)]


def test_a_prompt_of_nothing_but_a_message_has_no_differences_with_itself():
    prompt = prompt_of(session(notes=1))
    assert [change.changed for change in diff_prompts(prompt, prompt)] == [False]
    assert as_text(prompt) == "[user]\nnote 0 of the day is here\n"


def test_what_was_searched_with_is_the_latest_user_message():
    memory = session(turns())
    memory.put(user("What does\nRui eat?"))
    memory.put(assistant("Let me see"))
    assert words.asked(prompt_of(memory)) == "What does Rui eat?"
    memory.build_context("Who is Rui?")
    assert words.asked(memory.log.prompt(memory.log.history().turns[1].built)) == "Who is Rui?"
