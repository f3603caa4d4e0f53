"""The Context page: what exactly the model got, and what was left out of it."""

import pytest
from pages_driver import button, drawn_until, joined, message_texts, opened, press

from memory_core import (
    ChatMessage,
    FactExtractionMemoryBlock,
    Memory,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.agent.loop import reply
from memory_core.messages import ToolCallPart
from memory_core.models.offline.responder import OfflineResponder
from memory_inspector.figures.budget_lanes import describe, lanes_of
from memory_inspector.figures.prompt_figure import waterfall
from memory_inspector.files.openai_format import read_conversation
from memory_inspector.server.chat_turns import play
from memory_inspector.server.jobs import Job
from memory_inspector.server.shipped_demo import demo_memory
from memory_inspector.wording.prompt_text import number_rows
from ui.tab import services

pytestmark = pytest.mark.slow


def page(**query):
    app = opened(page="context", **query)
    assert not app.exception, app.exception
    return app


def session(session_id, *blocks, **settings):
    engine = services.engine()
    return Memory.from_defaults(
        session_id,
        database_uri=engine.settings.database,
        services=engine.services,
        memory_blocks=list(blocks),
        **settings,
    )


def say(memory, *texts):
    """Each text a message of the user's, a prompt made for it, and a reply."""
    for text in texts:
        memory.put(ChatMessage(role="user", content=text))
        memory.build_context()
        memory.put(ChatMessage(role="assistant", content="I see."))


def labels(app):
    """The lines that open the parts, escapes and squares taken out."""
    shown = [each.label.replace("\\", "") for each in app.expander]
    return [label.partition("]{")[2].partition("} ")[2] for label in shown if label.startswith(":color")]


def opener(app, words):
    """The state of the expander with these words on it."""
    return next(each for each in app.expander if words in each.label.replace("\\", ""))


def show(app, what):
    app.segmented_control(key="context__show").set_value(what).run()
    assert not app.exception, app.exception
    return app


@pytest.fixture
def played(demo_home):
    """The demo, played to turn 12: the first cut."""
    engine = services.engine()
    memory = demo_memory(engine.database, engine.services)
    play(Job("on"), memory, turns=1, pace=0)
    return memory


# -- why was something cut --------------------------------------------------------------------------


def test_a_prompt_that_fitted_says_so_first_and_how_much_was_free(demo_home):
    app = page(session="demo")
    first = app.markdown[0].value
    assert " of 1,200 tokens sent.** Everything fitted." in first
    assert first.endswith(" tokens were free.")
    text = joined(app)
    assert "Nothing was cut." in text
    assert "Never cut: Instructions." in text
    assert [label.partition(" **")[0] for label in labels(app)] == ["Queue", "Instructions", "Facts", "Earlier turns"]


def test_at_turn_12_the_page_says_which_block_lost_what_and_by_which_rule(played):
    built = played.log.history().turns[12].built
    prompt = played.log.prompt(built)
    (cut,) = prompt.cuts
    (gone,) = cut.entries
    app = page(session="demo")
    assert app.markdown[0].value == (
        f"**{prompt.built.total:,} of 1,200 tokens sent.** "
        f"Parts asked for {prompt.built.asked:,}, "
        f"{prompt.built.asked - 1200} over the limit, so {cut.tokens} were cut from Earlier turns."
    )
    text = joined(app)
    assert "**1 Earlier turns** · priority 2" in text
    assert f"lowest score first: turn {gone.turn} ({gone.score:.2f}), {cut.tokens} tokens" in text
    assert f"{cut.over_before} too many; {cut.tokens} removed, because turns are cut whole." in text
    # Open without a click, its words struck through.
    for message in gone.messages:
        assert f"~~{message.role}: {message.content}~~" in text
    assert labels(app)[-1].endswith(f":red[cut {cut.tokens}]]")
    assert button(app, "Change the limit")


def test_a_past_turn_reads_the_same_and_offers_no_change(played):
    later = page(session="demo").markdown[0].value
    play(Job("more"), played, turns=2, pace=0)
    app = page(session="demo", turn="12")
    sentence = next(each.value for each in app.markdown if " tokens sent.**" in each.value)
    assert sentence == later
    assert not [each for each in app.button if "Change the limit" in each.label]
    assert "Edit" not in " ".join(each.label for each in app.get("page_link"))


def test_a_prompt_over_the_limit_is_an_error_that_says_what_to_do(home):
    rules = StaticMemoryBlock(name="Rules", static_content="Be careful. " * 60, priority=0)
    memory = session("over", rules, token_limit=100)
    say(memory, "Hello")
    app = page(session="over")
    (error,) = (each.value.replace("\\", "") for each in app.error)
    over = memory.log.history().turns[1].built.event.over_by
    assert f": {over} over. Rules (priority 0) alone exceeds the limit by" in error
    assert error.endswith("Raise the limit or shorten Rules.")
    assert "Nothing could be cut." in joined(app)


def test_a_block_dropped_whole_for_a_little_is_worth_a_word(home):
    notes = StaticMemoryBlock(name="Notes", static_content="A long note. " * 30, priority=1)
    memory = session("drop", notes, token_limit=125)
    say(memory, "Hello there, how are you")
    text = joined(page(session="drop"))
    assert "removed: Notes can only be cut whole. Shorten it, or give it a priority that is cut later." in text


# -- part by part -----------------------------------------------------------------------------------


def test_a_part_shows_its_words_once_it_is_opened(demo_home):
    app = page(session="demo")
    assert message_texts(app) == []
    app.session_state[next(e.key for e in app.expander if "Queue" in e.label)] = True
    app.run()
    memory = services.engine().open("demo")
    prompt = memory.log.prompt(memory.log.history().turns[11].built)
    assert message_texts(app) == [entry.words for entry in prompt.parts[0].included][: len(message_texts(app))]
    assert len(message_texts(app)) == min(20, len(prompt.parts[0].included))


def test_every_kind_of_part_can_be_opened(played):
    app = page(session="demo")
    for expander in app.expander:
        app.session_state[expander.key] = True
    app.run()
    assert not app.exception, app.exception
    text = joined(app)
    facts = played.log.prompt(played.log.history().turns[12].built).parts[2].included
    assert all(fact.words in text for fact in facts)
    (whole,) = [code.value for code in app.code]
    assert whole.startswith("[system]\n<memory>\n<Instructions>\n")


def test_a_long_part_is_paged(home):
    memory = session("long", token_limit=30_000)
    for number in range(25):
        memory.put(ChatMessage(role="user", content=f"Message number {number}"))
    memory.build_context()
    app = page(session="long")
    app.session_state[next(e.key for e in app.expander if "Queue" in e.label)] = True
    app.run()
    assert message_texts(app) == [f"Message number {number}" for number in range(20)]
    assert "1 to 20 of 25" in joined(app)


def test_a_fact_that_was_cut_is_struck_through_and_leads_to_its_place(home):
    memory = session("facts", FactExtractionMemoryBlock(name="Facts", priority=1), token_limit=120, token_flush_size=20)
    say(memory, "Hello, my name is Sam and I live in Porto.", "Ana is allergic to nuts and it is serious.")
    say(memory, *(f"Let us talk about number {n} and see what that does to the queue" for n in range(10)))
    memory.configure(token_limit=memory.build_context().plan.total - 5)
    memory.build_context()
    prompt = memory.log.prompt(memory.log.history().turns[12].built)
    gone = next(cut for cut in prompt.cuts if cut.part.kind == "facts").entries
    app = page(session="facts")
    text = joined(app)
    assert all(f"~~{fact.words}~~" in text for fact in gone)
    assert "least relevant first: " in text
    assert [link.label for link in app.get("page_link")].count(":small[Edit]") == len(prompt.parts[-1].entries)


def test_nobodys_words_become_markup(home):
    rules = StaticMemoryBlock(name="**R** :red[x]", static_content="<script>alert(1)</script> ![a](http://evil/x.png)")
    facts = StaticMemoryBlock(name="# Cut", static_content="~~x~~ **bold** </memory> " * 40, priority=1)
    memory = session("hostile", rules, facts, token_limit=150)
    say(memory, "<b>Hello</b> ![](http://evil/y.png) $x$ :material/delete:")
    app = page(session="hostile")
    for expander in app.expander:
        app.session_state[expander.key] = True
    app.run()
    assert not app.exception
    assert "<b>Hello</b> ![](http://evil/y.png) $x$ :material/delete:" in message_texts(app)
    drawn = [each.value for each in app.markdown] + [each.label for each in app.expander]
    for markup in ("**R**", ":red[x]", " # Cut", "**bold**", "![", "</memory>"):
        assert [text for text in drawn if markup in text] == []


# -- two prompts ------------------------------------------------------------------------------------


def test_changes_since_another_turn_are_told_part_by_part(played):
    app = show(page(session="demo"), "Changes")
    history = played.log.history()
    before, after = (played.log.prompt(history.turns[turn].built) for turn in (11, 12))
    text = joined(app)
    left = {entry.ref for entry in before.parts[0].included} - {entry.ref for entry in after.parts[0].included}
    gone = [entry for entry in before.parts[0].included if entry.ref in left]
    for entry in gone:
        assert f":orange[−] :small[:gray[{entry.role} · turn {entry.turn}]] {entry.words}" in text
    newest = after.parts[0].included[-1]
    assert f":blue[+] :small[:gray[user · turn 12]] {newest.words}" in text
    picker = app.selectbox(key="context__since_12")
    assert picker.value == 11
    picker.set_value(3).run()
    assert not app.exception
    assert "reused from turn 3." in joined(app)


def test_what_a_prompt_cache_can_reuse_is_a_line_of_the_changes_with_the_other_insert_method(played):
    history = played.log.history()
    built = [history.turns[turn].built for turn in (11, 12)]
    same, other = played.log.shared_prefix_tokens(*built), played.log.shared_prefix_tokens(*built, insert_method="user")
    billed = built[1].event.billed
    share = round(100 * same / billed)
    assert (
        f"Prompt cache: **{same}** of {billed:,} billed tokens ({share} %) can be reused from turn 11. "
        f"With memory in the user message instead: {other}."
    ) in joined(show(page(session="demo"), "Changes"))


def test_counted_and_billed_are_a_table_that_adds_up(played):
    app = show(page(session="demo"), "Counted, billed")
    built = played.log.history().turns[12].built.event
    rows = {row[""]: row for row in app.dataframe[0].value.to_dict("records")}
    assert (rows["Total"]["Counted"], rows["Total"]["Billed"]) == (built.total, built.billed)
    assert rows["Message overhead"]["Billed"] == built.overhead_tokens
    assert rows["Message overhead"]["Counted"] != rows["Message overhead"]["Counted"]  # not counted: no number
    assert sum(row["Billed"] for name, row in rows.items() if name not in ("Total", "Reported by provider")) == (
        built.billed
    )


def test_a_link_may_open_the_changes(played):
    app = page(session="demo", show="changes")
    assert app.segmented_control(key="context__show").value == "Changes"
    assert app.selectbox(key="context__since_12").value == 11
    show(app, "Prompt")
    app.run()
    assert app.segmented_control(key="context__show").value == "Prompt"
    assert page(session="demo", show="nonsense").segmented_control(key="context__show").value == "Prompt"


def test_calls_of_tools_are_folded_json_and_long_words_are_whole_on_demand(home):
    memory = session("tools", token_limit=20_000)
    memory.put(ChatMessage(role="user", content="x" * 6_000 + " and the end of it"))
    call = ToolCallPart(tool_call_id="c1", tool_name="find_seats", tool_kwargs={"by": "window", "seats": 2})
    memory.put(ChatMessage(role="assistant", parts=[call]))
    memory.put(ChatMessage(role="tool", content='{"free": [4, 7]}', additional_kwargs={"tool_call_id": "c1"}))
    memory.build_context()
    app = page(session="tools")
    app.session_state[opener(app, "Queue").key] = True
    app.run()
    assert message_texts(app) == ["x" * 6_000]
    for words in ("Show all (18 more characters)", "Call of find_seats", "Result"):
        app.session_state[opener(app, words).key] = True
    app.run()
    assert not app.exception
    assert message_texts(app)[1] == "and the end of it"
    assert [(code.language, code.value) for code in app.code] == [
        ("json", '{\n  "by": "window",\n  "seats": 2\n}'),
        ("json", '{\n  "free": [\n    4,\n    7\n  ]\n}'),
    ]


def test_a_first_prompt_has_nothing_to_be_compared_with(home):
    memory = session("first")
    say(memory, "Hello")
    app = page(session="first")
    assert app.segmented_control(key="context__show").options == ["Prompt", "Counted, billed"]
    assert "Prompt cache" not in joined(app)


# -- sessions of other kinds ------------------------------------------------------------------------


def test_a_session_without_a_prompt_says_what_will_be_here(home):
    session("empty")
    app = page(session="empty")
    text = joined(app)
    assert "**No prompt yet.**" in text
    assert "everything the model gets is kept here" in text
    assert "Go to Chat" in [link.label for link in app.get("page_link")]


def test_a_turn_without_a_prompt_shows_the_one_before_and_says_so(home):
    memory = session("quiet")
    say(memory, "Hello")
    memory.put(ChatMessage(role="user", content="Nobody answers"))
    assert "No prompt was built in turn 2. This is the prompt of turn 1." in joined(page(session="quiet"))


@pytest.mark.slow
def test_an_agents_turn_with_several_prompts_shows_the_last_and_lets_one_pick(home, data_file):
    file = data_file("tau-bench/one_conversation.json")
    conversation = read_conversation(file.read_bytes(), filename=file.name)
    memory = session("agent", VectorMemoryBlock(name="Earlier", priority=1), token_limit=3000, token_flush_size=300)
    for message in conversation.messages:
        if message.role == "assistant":
            memory.build_context()
        memory.put(message)
    turn, several = next((n, t.contexts) for n, t in memory.log.history().turns.items() if len(t.contexts) > 2)
    app = page(session="agent", turn=str(turn))
    picker = next(each for each in app.selectbox if each.key.startswith("context__which"))
    assert picker.value == len(several)
    last, first = (memory.log.prompt(context).built.total for context in (several[-1], several[0]))
    assert f"**{last:,} of 3,000 tokens sent" in joined(app)
    picker.set_value(1).run()
    assert not app.exception
    assert f"**{first:,} of 3,000 tokens sent" in joined(app)
    for expander in app.expander:
        app.session_state[expander.key] = True
    app.run()
    assert not app.exception


def test_words_erased_since_are_said_to_be_missing(home):
    facts = FactExtractionMemoryBlock(name="Facts", priority=1)
    memory = session("gone", facts, token_limit=200, token_flush_size=20)
    say(memory, *(f"My cat number {n} is called Tom {n} and is {n} years old" for n in range(12)))
    memory.reset("archived")
    app = page(session="gone", turn="6")
    (warning,) = (each.value.replace("\\", "") for each in app.warning)
    assert warning.endswith("of this prompt were erased since, and cannot be shown.")
    for expander in app.expander:
        app.session_state[expander.key] = True
    app.run()
    assert any("have been erased since" in text for text in message_texts(app))


def test_looking_writes_nothing(played):
    before = played.session.status().position
    app = page(session="demo", theme="dark")
    for what in ("Changes", "Counted, billed", "Prompt"):
        show(app, what)
    press(app, "Change the limit")
    assert played.session.status().position == before


def test_a_prompt_is_asked_again_without_an_item_and_the_answers_stand_side_by_side(demo_home):
    memory = services.engine().open("demo")
    events = len(memory.events())
    app = page(session="demo", turn="10")
    assert not [each for each in app.button if each.key == "context__matter_ask"], "closed, it costs nothing"
    app.session_state["context__matter"] = True
    app = app.run()
    assert "Rules answer, at no cost." in joined(app)
    app = press(app, "Ask again")
    app = drawn_until(app, lambda: app.exception or "Without it" in joined(app))
    assert not app.exception
    assert len(memory.events()) == events, "nothing is stored"


def test_what_an_agent_would_call_in_its_memory_stands_beside_the_answers_and_is_not_done(demo_home):
    shared = services.engine()
    memory = Memory.from_recipe("self_editing", "own", "ana", database=shared.database, services=shared.services)
    memory.put(ChatMessage(role="user", content="I live in Porto and I work at Acme."))
    reply(memory, OfflineResponder(), "r")
    events = len(memory.events())
    app = page(session="own")
    app.session_state["context__matter"] = True
    app = app.selectbox(key="context__which_1_2").set_value(1).run()  # the prompt that led to the calls
    app = press(app, "Ask again")
    app = drawn_until(app, lambda: app.exception or "Without it" in joined(app))
    assert not app.exception
    assert "core_memory_append" in " ".join(each.value for each in app.code)
    assert len(memory.events()) == events


def test_what_the_agent_sends_beside_memory_is_a_row_of_the_figure_and_a_part_of_the_prompt(home):
    memory = session(
        "agent", StaticMemoryBlock(name="Rules", static_content="Be careful.", priority=1), token_limit=400
    )
    memory.put(ChatMessage(role="user", content="Hello"))
    memory.build_context(reserved_tokens=120)
    app = page(session="agent")
    (label,) = (label for label in labels(app) if label.startswith("System prompt and tools **120**"))
    assert "not written by memory · never cut" in label
    assert "Never cut: System prompt and tools." in joined(app)
    built = memory.log.history().turns[1].built.event
    drawn = waterfall(memory.log.prompt(memory.log.history().turns[1].built), "light")
    assert [name.rstrip("\N{NO-BREAK SPACE}") for name in drawn.layout.yaxis.ticktext] == [
        "Queue", "System prompt and…", "Rules", "<b>Sent</b>",
    ]  # fmt: skip
    rows = number_rows(memory.log.prompt(memory.log.history().turns[1].built))
    assert {row["Part"]: row["Sent"] for row in rows}["System prompt and tools"] == 120
    assert sum(row["Sent"] for row in rows[:-1]) == rows[-1]["Sent"] == built.total
    bill = show(app, "Counted, billed").dataframe[0].value.to_dict("records")
    assert {row[""]: row["Billed"] for row in bill}["System prompt and tools"] == 120
    assert sum(row["Billed"] for row in bill[:-2]) == built.billed


def test_the_budget_bar_has_what_the_agent_sends_beside_memory_and_adds_up(home):
    memory = session("agent", token_limit=400)
    memory.put(ChatMessage(role="user", content="Hello"))
    memory.build_context(reserved_tokens=120)
    event = memory.log.history().turns[1].built.event
    lanes = lanes_of(memory.session.status(), event, {})
    assert [(segment.label, segment.tokens) for segment in lanes.sent] == [
        ("Queue", event.queue_tokens), ("System prompt and tools", 120),
    ]  # fmt: skip
    assert lanes.total + lanes.free == lanes.limit == 400
    assert "System prompt and tools 120;" in describe(lanes)
