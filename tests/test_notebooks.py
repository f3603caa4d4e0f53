"""Objects of the engine in notebooks: who draws them, and that no words of a conversation become markup."""

import gc
import re
import sys
from html.parser import HTMLParser
from importlib.metadata import EntryPoint

import pytest
from engine_fakes import HashEmbedder, NoteExtractor, blocks, note, open_memory, until
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_core import (
    ChatMessage,
    ConfigError,
    Database,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    Memory,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.events import AgentAttached, Ref
from memory_core.formats import notebooks
from memory_core.models.protocols import ExtractedFact, Extraction
from memory_inspector.notebook import cells
from memory_inspector.notebook.cells import render
from memory_inspector.palette import PALETTES

HOSTILE = """x <script>alert(1)</script></style><memory> <img src=x onerror=alert(1)> "a" 'b' &amp;"""
NAME = 'up" onclick="alert()'


class Page(HTMLParser):
    """The elements and attributes of an output, and its texts by the class of the element that holds them."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.attributes, self.texts, self.style, self.open = [], [], [], "", []
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.attributes += attrs
        self.open.append((tag, dict(attrs).get("class")))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        if self.open[-1][0] == "style":
            self.style += data
        else:
            self.texts.append((*self.open[-1], data))

    @property
    def text(self):
        return "".join(text for *_, text in self.texts).strip()

    def of(self, tag, kind=None):
        return [text for name, of, text in self.texts if name == tag and (kind is None or of == kind)]


@pytest.fixture(autouse=True)
def forgotten():
    """Functions are looked up once per process, so a test begins and ends without."""
    notebooks.functions.cache_clear()
    yield
    notebooks.functions.cache_clear()


def offer(monkeypatch, **functions):
    """Offer these functions as installed packages do."""

    def entry_points(*, group, name):
        assert group == "memory_core.html"
        return [functions[name]] if name in functions else []

    monkeypatch.setattr(notebooks, "entry_points", entry_points)


def point(target):
    return EntryPoint("name", target, "memory_core.html")


def talk(memory, *turns):
    for said, answered in turns:
        memory.put({"role": "user", "content": said})
        memory.build_context()
        memory.put({"role": "assistant", "content": answered})


def dinner():
    """A conversation of which two turns have left the queue, and that asks a question."""
    memory = Memory.from_defaults(
        "dinner",
        token_limit=80,
        token_flush_size=20,
        memory_blocks=[
            StaticMemoryBlock(name="instructions", static_content="You help Sam plan a dinner.", priority=0),
            FactExtractionMemoryBlock(name="facts", priority=1),
            VectorMemoryBlock(name="earlier_turns", priority=2),
        ],
        database=Database.open(None),
        services=Services(),
    )
    for said, answered in [
        ("Ana is allergic to nuts.", "Noted, no nuts."),
        ("The dinner is in Paris at eight.", "Then we have three days to shop and to cook."),
        ("Rui brings the wine, two bottles of red.", "That leaves bread, cheese and the cake to us."),
        ("Somebody has to pick up the chairs.", "I will ask the neighbours."),
    ]:
        memory.put({"role": "user", "content": said})
        memory.put({"role": "assistant", "content": answered})
    memory.put({"role": "user", "content": "What can Ana eat?"})
    return memory


class Verbatim(NoteExtractor):
    """Every message of the user is a fact, word for word."""

    def extract(self, messages, *, known):
        return Extraction(tuple(ExtractedFact(m.content, source=n) for n, m in enumerate(messages) if m.role == "user"))


def hostile():
    """A conversation whose words, title and block names are markup, in whatever is shown of it."""
    memory = Memory.from_defaults(
        "<b>id</b>",
        title="<i>title</i>",
        token_limit=200,
        token_flush_size=20,
        memory_blocks=[
            StaticMemoryBlock(name="rules&lt;", static_content=f"Be brief. {HOSTILE}", priority=0),
            FactExtractionMemoryBlock(name=NAME, priority=1, llm=Verbatim(), deliver_on="turn"),
        ],
        database=Database.open(None),
        services=Services(),
    )
    talk(memory, *[(f"My friend Ana{n} lives in Lisbon. {HOSTILE}", f"Noted. {HOSTILE}") for n in range(4)])
    memory.facts.add(f"A fact. {HOSTILE}")
    memory.put({"role": "user", "content": f"Who lives in Lisbon? {HOSTILE}"})
    memory.build_context()
    return memory


def shown(memory):
    """Every kind of object that is drawn, from one memory."""
    context = memory.build_context(record=False)
    built = memory.log.history().turns.get(memory.session.status().turns)
    cuts = [Ref.of_cut(built.built.position, 1)] if built is not None and built.cut_tokens else []
    facts = [attached.name for attached in memory.blocks if attached.kind == "facts"]
    return [
        memory,
        context,
        context.plan,
        memory.preview.flush(),
        memory.preview.next_prompt(message=ChatMessage(role="user", content=HOSTILE)),
        memory.preview.context({"token_limit": 60}),
        memory.trace(f"Lisbon. {HOSTILE}"),
        memory.trace("Lisbon"),
        memory.trace("never said by anybody"),
        *map(memory.trace, cuts),
        *(memory.facts.read(name, states=None) for name in facts),
        *(memory.facts.add(HOSTILE, preview=True) for _ in facts),
    ]


def checked(html):
    """Parse an output: no script, no handler, nothing that is loaded, and no element that its words opened."""
    page = Page(html)
    assert set(page.elements) <= {
        "style", "div", "p", "b", "s", "span", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td", "details",
        "summary",
    }  # fmt: skip
    allowed = {"class", "title", "style", "role", "aria-label", "aria-hidden", "open"}
    assert {name for name, _ in page.attributes} <= allowed
    styles = [page.style, *(value for name, value in page.attributes if name == "style")]
    assert [style for style in styles if re.search(r"url\(|@import|expression", style)] == []
    assert page.open == []
    return page


# -- who draws ------------------------------------------------------------------------------------


def test_without_a_package_that_draws_plain_text_is_shown(monkeypatch):
    offer(monkeypatch)
    memory = dinner()
    context = memory.build_context()
    drawn = [memory, context, context.plan, memory.trace("Ana"), memory.preview.flush(), memory.facts.read("facts")]
    assert [value._repr_html_() for value in drawn] == [None] * len(drawn)
    assert repr(memory).startswith("<Memory 'dinner': limit 80 tokens")
    with pytest.raises(ConfigError, match="pip install memory-inspector"):
        memory.watch()


def test_an_installed_package_draws_and_is_looked_up_once(monkeypatch):
    offer(monkeypatch, render=point("memory_inspector.notebook.cells:render"))
    memory = dinner()
    context = memory.build_context()
    drawn = [memory, context, context.plan, memory.trace("Ana"), memory.preview.flush(), memory.facts.read("facts"),
             memory.preview.next_prompt(), memory.facts.add("Ana likes tea", preview=True)]  # fmt: skip
    assert [value._repr_html_() for value in drawn] == [render(value) for value in drawn]
    offer(monkeypatch)
    assert memory._repr_html_() is not None


@pytest.mark.parametrize("target", ["no_such_package:render", "memory_core:nothing"])
def test_a_package_that_cannot_be_loaded_is_one_warning_and_plain_text(target, monkeypatch, caplog):
    offer(monkeypatch, render=point(target))
    assert dinner()._repr_html_() is None
    warned = [record for record in caplog.records if record.name == "memory_core.formats.notebooks"]
    assert [record.levelname for record in warned] == ["WARNING"]


def test_a_closed_memory_is_plain_text(monkeypatch):
    offer(monkeypatch, render=point("memory_inspector.notebook.cells:render"))
    memory = dinner()
    memory.close()
    assert memory._repr_html_() is None
    assert "queue" not in repr(memory)


def test_another_object_is_not_drawn():
    assert render("text") is None
    assert render([1, 2]) is None


def test_facts_that_are_read_are_a_list_like_any_other():
    facts = dinner().facts.read("facts")
    assert facts == list(facts)
    assert isinstance(facts, list)
    assert repr(facts) == repr(list(facts))


# -- what is drawn --------------------------------------------------------------------------------


def test_a_memory_shows_its_budget_its_blocks_and_its_last_turn():
    memory = dinner()
    memory.build_context()
    page = checked(render(memory))
    assert "Sent 75" in page.text
    assert "limit 80" in page.text
    assert "Queue now 42" in page.text
    cells = page.of("td")
    assert cells == ["42", "7", "12", "14"]
    assert "What memory did in turn 5" in page.text
    assert "Recalled 2 earlier messages" in page.text


def test_the_story_names_what_was_flushed_learned_and_stored():
    memory = dinner()
    memory.flush(all=True)
    lines = checked(render(memory)).of("span")
    assert "Flushed 5 messages, 42 tokens: the session was closed" in lines
    assert "Learned 1 fact" in lines
    assert ": Rui brings the wine, two bottles of red" in lines


def test_blocks_are_listed_before_any_prompt():
    page = checked(render(dinner()))
    assert "No prompt yet" in page.text
    assert page.of("td").count("–") == 3


def test_what_is_cut_is_struck_through_and_what_is_granted_is_not():
    memory = dinner()
    page = checked(render(memory.preview.context({"token_limit": 60})))
    assert "The dinner is in Paris at eight" in page.of("s")
    assert "Ana is allergic to nuts" not in page.of("s")
    assert "Ana is allergic to nuts" in page.of("span", "mi-words")
    assert page.of("li", "mi-loss") == [
        "Cut 7 tokens (piece by piece): the prompt was 1 over",
        "Cut 6 tokens (piece by piece): the prompt was 7 over",
    ]


def test_a_trace_shows_its_sentence_and_a_chip_a_stage():
    memory = dinner()
    memory.build_context()
    trace = memory.trace("allergic to nuts")
    page = checked(render(trace))
    assert page.of("p", "mi-lead") == [trace.sentence]
    for track in trace.tracks:
        assert len(track.stages) >= 4
    names = [text for text in page.of("b") if text[:2] in ("✓ ", "✕ ", "– ", "… ", "? ")]
    assert len(names) == sum(len(track.stages) for track in trace.tracks)
    assert names[:7] == ["✓ Said", "✓ Queue", "✓ Flushed", "✓ Delivered", "✓ Learned", "✓ Kept", "✓ Prompt"]


def test_a_cut_is_followed_with_the_words_that_were_struck():
    memory = dinner()
    memory.configure(token_limit=60)
    memory.build_context()
    built = memory.log.history().turns[5].built
    trace = memory.trace(Ref.of_cut(built.position, 1))
    page = checked(render(trace))
    assert page.of("s") == [entry.words for entry in trace.cut.entries] != []


def test_what_nobody_said_shows_what_comes_closest():
    memory = dinner()
    trace = memory.trace("nuts and chairs")
    page = checked(render(trace))
    assert trace.sentence in page.text
    assert trace.nearest is None or trace.nearest.words in page.text


def test_a_flush_plan_lists_what_leaves_or_says_that_nothing_does():
    memory = dinner()
    page = checked(render(memory.preview.flush()))
    assert page.of("td") == ["5", "user", "11", "6", "assistant", "11"]
    assert "Rule: oldest first, whole turns; the newest turn stays." in page.text
    memory.flush(all=True)
    assert checked(render(memory.preview.flush())).text == "Nothing leaves the queue, which has 0 tokens."


def test_a_preview_of_a_change_says_that_nothing_is_stored_and_shows_the_prompt():
    memory = dinner()
    page = checked(render(memory.facts.add("Ana likes tea", preview=True)))
    assert "a preview: nothing is stored" in page.text
    assert "Ana likes tea" in page.of("span", "mi-words")
    stored = memory.facts.add("Ana likes tea")
    assert checked(render(stored)).text == stored.sentence


def test_the_next_prompt_shows_the_message_and_the_flush_before_it():
    page = checked(render(dinner().preview.next_prompt(message=ChatMessage(role="user", content="And the cake? " * 8))))
    assert "And the cake?" in page.text
    assert "leave the queue" in page.text
    assert "tokens sent" in page.text


def test_facts_are_a_table_with_what_a_change_needs_to_name_them():
    memory = dinner()
    memory.facts.add("Ana likes tea", pinned=True, topics=["drinks"])
    facts = memory.facts.read("facts")
    page = checked(render(facts))
    assert page.of("td")[::3] == [str(fact.id) for fact in facts]
    assert page.of("span", "mi-words") == [fact.text for fact in facts]
    assert page.of("span", "mi-quiet")[-1] == "pinned, by hand, drinks"


def test_the_prompt_of_another_program_has_no_lanes():
    memory = open_memory(memory_blocks=[])
    memory.log.record(AgentAttached(source="spans", name="agent"))
    page = checked(render(memory))
    assert "Sent" not in page.text
    assert "limit" not in page.text


def test_a_graph_is_told_in_the_names_of_its_entities():
    memory = open_memory(memory_blocks=[GraphMemoryBlock(name="relations", deliver_on="turn")], token_limit=400)
    memory.put_messages([{"role": "user", "content": "Alice works at Lume."}, {"role": "assistant", "content": "Ok."}],
                        end_turn=True)  # fmt: skip
    assert "Alice → works at → Lume" in checked(render(memory)).text


@pytest.mark.parametrize("make", [hostile, dinner])
def test_words_stay_text_and_nothing_is_loaded(make):
    drawn = [render(value) for value in shown(make())]
    assert len(drawn) >= 11
    for html in drawn:
        checked(html)
        assert "<script" not in html.lower()


def test_markup_in_words_names_and_titles_is_shown_as_it_was_written():
    memory = hostile()
    page = checked(render(memory))
    assert "<i>title</i>" in page.of("b")
    assert any(NAME in text for text in page.of("span"))
    assert any("<script>alert(1)</script></style><memory>" in text for text in page.of("span", "mi-quiet"))
    context = checked(render(memory.build_context(record=False)))
    assert any(HOSTILE in text for text in context.of("span", "mi-words"))
    facts = checked(render(memory.facts.read(NAME)))
    assert any(HOSTILE in text for text in facts.of("span", "mi-words"))


class Shape(HTMLParser):
    """The elements of a file or an output with the names of their attributes, and whatever else is no text."""

    def __init__(self, html):
        super().__init__()
        self.parts, self.text = [], ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.parts.append((tag, *(name for name, _ in attrs)))

    def handle_endtag(self, tag):
        self.parts.append(f"/{tag}")

    def handle_comment(self, data):
        self.parts.append("comment")

    def handle_pi(self, data):
        self.parts.append("instruction")

    def handle_data(self, data):
        self.text += data


PLAIN = str.maketrans('<>&"', "{}+^")
"""The signs by which a text could become markup, and others that cannot."""
PIECES = st.sampled_from(
    ["</script>", "</span>", "<b", "<!--", "<?", "]]>", "&lt;", "{{ 7 * 7 }}", "{#", '" title="', " "]
)


def outputs(words):
    """Cards of a conversation with these words in every place, and its saved page."""
    memory = Memory.from_defaults(
        "s",
        title=words,
        token_limit=4_000,
        memory_blocks=[
            StaticMemoryBlock(name="rules", static_content=words, priority=0),
            FactExtractionMemoryBlock(name="facts", priority=1, llm=Verbatim(), deliver_on="turn"),
        ],
        database=Database.open(None),
        services=Services(),
    )
    talk(memory, (words, words), (f"Again: {words}", "Yes."))
    memory.put({"role": "user", "content": words})
    message = Ref.of("message", 1)
    drawn = [memory, memory.build_context(), memory.trace(message), memory.facts.read("facts")]
    return [*map(render, drawn), memory.trace.page(message).to_html()]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.lists(PIECES | st.text(max_size=12), min_size=1, max_size=6).map(" ".join).filter(str.strip))
@example(HOSTILE)
def test_any_words_of_a_conversation_are_text_and_nothing_else_wherever_they_are_shown(words):
    shapes = [Shape(html) for html in outputs(f"Ana says {words}")]
    assert [shape.parts for shape in shapes] == [
        Shape(html).parts for html in outputs(f"Ana says {words}".translate(PLAIN))
    ]
    written = "".join(words.split())
    _, *whole, _ = shapes  # a memory's card quotes the beginning
    assert [written in "".join(shape.text.split()) for shape in whole] == [True] * 3


def test_formulas_in_words_are_left_alone():
    # MathJax, which notebooks run over outputs, skips elements of these classes.
    page = checked(render(dinner()))
    assert ("class", "memory-inspector tex2jax_ignore mathjax_ignore") in page.attributes


@pytest.mark.parametrize("recipe", ["buffer", "window", "blocks", "vector", "summary", "hybrid", "graph"])
def test_everything_of_an_empty_memory_is_drawn(recipe):
    memory = Memory.from_recipe(recipe, "empty", database=Database.open(None), services=Services())
    for value in shown(memory):
        checked(render(value))


@pytest.mark.slow
def test_everything_of_a_long_memory_is_drawn_in_a_bounded_size():
    memory = open_memory(memory_blocks=blocks(), token_limit=20_000)
    for start in range(0, 1000, 100):
        memory.put_messages([note(number) for number in range(start, start + 100)])
    memory.flush(all=True)
    memory.put_messages([note(number) for number in range(1000)])
    drawn = [render(value) for value in shown(memory)]
    assert [len(html) < 60_000 for html in drawn] == [True] * len(drawn)
    facts = memory.facts.read("facts")
    page = checked(render(facts))
    assert page.elements.count("tr") == 1 + cells.MAX_ROWS
    assert f"and {len(facts) - cells.MAX_ROWS:,} more" in page.text


def test_a_long_text_is_cut_short():
    memory = open_memory(memory_blocks=[], token_limit=4_000)
    memory.put(ChatMessage(role="user", content="word " * 2_000))
    page = checked(render(memory.build_context()))
    assert max(map(len, page.of("span", "mi-words"))) == cells.MAX_CHARACTERS


# -- the style ------------------------------------------------------------------------------------


def test_every_rule_of_the_style_applies_to_the_output_alone():
    style = checked(render(dinner())).style
    selectors = re.findall(r"(?:^|[{}])\s*([^{}@]+)\{", re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL))
    assert len(selectors) > 20
    single = [one for selector in selectors for one in re.split(r",(?![^(]*\))", selector)]
    assert [one for one in single if ".memory-inspector" not in one] == []


def test_both_themes_have_the_colours_of_the_app():
    style = checked(render(dinner())).style
    for mode in ("light", "dark"):
        assert f"--mi-facts:{PALETTES[mode].facts};" in style
        assert f"color-scheme:{mode};" in style


# -- watching -------------------------------------------------------------------------------------


class Shell:
    kernel = object()


class Cell:
    """A cell of a notebook: what it shows now, and how often that changed."""

    def __init__(self):
        self.shown, self.updates, self.broken = {}, 0, False

    def display(self, output, *, raw, display_id):
        assert (raw, display_id) == (True, True)
        self.shown = output
        return self

    def update(self, output, *, raw):
        if self.broken:
            raise OSError("the front end is gone")
        self.shown, self.updates = output, self.updates + 1


@pytest.fixture
def cell(monkeypatch):
    """A notebook's cell, in a process that is none: the looks are quick."""
    import IPython

    made = Cell()
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    monkeypatch.setattr("IPython.display.display", made.display)
    monkeypatch.setattr(cells, "SECONDS", 0.01)
    offer(monkeypatch, watch=point("memory_inspector.notebook.cells:watch"))
    return made


def small():
    return Memory.from_defaults("s", database=Database.open(None), services=Services(embedder=HashEmbedder()))


def ended(watcher):
    until(lambda: not watcher._thread.is_alive())


def test_a_watched_memory_is_drawn_anew_when_it_changes_and_only_then(cell):
    memory = small()
    watcher = memory.watch()
    assert "No turn yet." in checked(cell.shown["text/html"]).text
    assert cell.shown["text/plain"] == repr(memory)
    memory.put(note(1))
    until(lambda: "1 turn, 1 message" in cell.shown["text/html"])
    assert cell.shown["text/plain"] == repr(memory)
    seen = cell.updates
    assert watcher._thread.daemon
    watcher.stop()
    assert not watcher._thread.is_alive()
    assert cell.updates == seen + 1
    assert "Not watched any more." in checked(cell.shown["text/html"]).text
    memory.put(note(2))
    watcher.stop()
    assert cell.updates == seen + 1


def test_watching_ends_with_the_memory(cell):
    memory = small()
    watcher = memory.watch()
    memory.put(note(1))
    until(lambda: cell.updates == 1)
    memory.close()
    ended(watcher)
    page = checked(cell.shown["text/html"])
    assert "1 turn, 1 message" in page.text
    assert "Not watched any more." in page.text


@pytest.mark.slow
def test_watching_keeps_no_memory_alive(cell):
    memory = small()
    watcher = memory.watch()
    del memory
    gc.collect()
    ended(watcher)


def test_a_second_cell_takes_over(cell):
    memory = small()
    first = memory.watch()
    second = memory.watch()
    assert not first._thread.is_alive()
    assert second._thread.is_alive()
    second.stop()


def test_a_front_end_that_is_gone_ends_the_watch_with_a_warning_and_no_error(cell, caplog):
    memory = small()
    watcher = memory.watch()
    cell.broken = True
    memory.put(note(1))
    ended(watcher)
    assert [record.levelname for record in caplog.records if record.name == cells.__name__] == ["WARNING"]
    memory.put(note(2))
    watcher.stop()


@pytest.mark.parametrize("shell", [None, object()], ids=["no IPython", "IPython in a terminal"])
def test_outside_a_notebook_watching_is_one_sentence(shell, cell, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: shell)
    with pytest.raises(ConfigError, match="notebook"):
        small().watch()


def test_without_ipython_watching_is_the_same_sentence(cell, monkeypatch):
    monkeypatch.delitem(sys.modules, "IPython")
    with pytest.raises(ConfigError, match="notebook"):
        small().watch()
