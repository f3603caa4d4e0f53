"""A session as a page to show: what stands on it, what is replaced in it, and that nothing in it can run."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from engine_fakes import HashEmbedder, assistant, user
from fakes import FakeExtractor
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_core import (
    FactExtractionMemoryBlock,
    FormatError,
    Memory,
    MessageError,
    NotFoundError,
    Services,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.events import Ref
from memory_core.tracing.exported_page import MAX_CHARACTERS, Page, page_html, safe_json, shortened
from memory_core.tracing.replacements import MAX_CHARACTERS as MAX_TYPED
from memory_core.tracing.replacements import Replacements, mask_keys
from memory_inspector.palette import PALETTES

NUTS = "I am allergic to nuts"
STYLE = Path(__file__).parent.parent / "memory_core/tracing/page.css"


def memory_of(*blocks, **given):
    services = Services(embedder=HashEmbedder(), extractor=FakeExtractor())
    return Memory.from_defaults("s", memory_blocks=list(blocks), services=services, **{"token_limit": 4000} | given)


def turn(memory, text, answer="Noted."):
    memory.put(user(text))
    memory.build_context(text)
    memory.put(assistant(answer))


class Elements(HTMLParser):
    """The elements of a file, with their attributes and the text directly in each."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes), []))

    def handle_data(self, data):
        if self.found:
            self.found[-1][2].append(data)

    def data(self):
        """The value that the page's script reads."""
        (block,) = [words for tag, given, words in self.found if given.get("id") == "data"]
        return json.loads("".join(block))


def read(html):
    return Elements(html).data()


# -- what stands on it -------------------------------------------------------------------------------


def test_a_page_holds_the_turns_with_budget_parts_cuts_and_what_was_said():
    memory = memory_of(StaticMemoryBlock(name="rules", static_content="Be kind.", priority=0), title="Dinner")
    turn(memory, NUTS, "No nuts then.")
    turn(memory, "What may I eat?")
    page = read(memory.trace.page().to_html())
    texts = page["texts"]
    assert (texts[page["title"]], page["asked"], page["start"]) == ("Dinner", None, 1)
    assert [each["turn"] for each in page["turns"]] == [1, 2]
    first, second = page["turns"]
    assert [(texts[page["entries"][place][0]], page["entries"][place][3]) for place in first["said"]] == [
        (NUTS, "user"),
        ("No nuts then.", "assistant"),
    ]
    built = memory.log.history().turns[2].built.event
    prompt = second["prompt"]
    assert (prompt["limit"], prompt["sent"], prompt["asked"]) == (built.token_limit, built.total, built.asked)
    assert [(texts[part["name"]], part["kind"], part["priority"]) for part in prompt["parts"]] == [
        ("Queue", "queue", None),
        ("rules", "static", 0),
    ]
    assert [texts[page["entries"][place][0]] for place in prompt["parts"][1]["kept"]] == ["Be kind."]
    assert prompt["cuts"] == []
    assert second["trace"] is None


def test_a_text_stands_once_however_many_prompts_hold_it():
    memory = memory_of()
    for number in range(6):
        turn(memory, f"A sentence that stands in every prompt after number {number}.")
    html = memory.trace.page().to_html()
    assert html.count("A sentence that stands in every prompt after number 0.") == 1


def test_what_was_cut_stands_on_the_page_with_its_rule():
    memory = memory_of(
        StaticMemoryBlock(name="notes", static_content="word " * 300, priority=1),
        token_limit=200,
        chat_history_token_ratio=0.9,
    )
    turn(memory, NUTS)
    page = read(memory.trace.page().to_html())
    (cut,) = page["turns"][0]["prompt"]["cuts"]
    part = page["turns"][0]["prompt"]["parts"][cut["part"]]
    assert (page["texts"][part["name"]], cut["rule"], part["granted"]) == ("notes", "dropped", 0)
    assert page["texts"][page["entries"][cut["entries"][0]][0]].startswith("word word")


def test_each_turn_has_the_trace_to_its_own_prompt():
    memory = memory_of(VectorMemoryBlock(name="turns", priority=2, similarity_threshold=0.99))
    turn(memory, "Hello there")
    turn(memory, NUTS)
    memory.flush(all=True)
    turn(memory, "What is for dinner?")
    page = read(memory.trace.page("allergic to nuts").to_html())
    texts = page["texts"]
    assert texts[page["asked"]] == "allergic to nuts"
    for each in page["turns"]:
        trace = memory.trace("allergic to nuts", turn=each["turn"])
        assert texts[each["trace"]["sentence"]] == trace.sentence
        assert len(each["trace"]["tracks"]) == len(trace.tracks)
    assert [each["trace"]["state"] for each in page["turns"]] == ["before", "prompt", "memory"]
    first = page["turns"][2]["trace"]["tracks"][0]
    lost = page["stages"][first["stages"][first["decisive"]]]
    decisive = memory.trace("allergic to nuts").decisive
    assert (lost[0], lost[1], lost[4], lost[6]) == (decisive.name, "lost", decisive.rule, decisive.knowledge)
    assert lost[5] == {name: round(number, 4) for name, number in decisive.numbers.items()}


def test_only_the_turns_that_are_asked_for_are_in_the_file():
    memory = memory_of(token_limit=300, token_flush_size=30, chat_history_token_ratio=0.2)
    for number in range(12):
        turn(memory, f"Number {number} is a secret of turn {number + 1}.")
    html = memory.trace.page(turns=[12]).to_html()
    assert "is a secret of turn 12." in html
    assert "is a secret of turn 1." not in html
    page = read(memory.trace.page(turns=range(3, 6), start=4).to_html())
    assert [each["turn"] for each in page["turns"]] == [3, 4, 5]
    assert page["start"] == 1


def test_a_page_of_an_earlier_moment_knows_nothing_of_what_came_after():
    memory = memory_of()
    turn(memory, NUTS, "First answer.")
    end = memory.log.history().position
    turn(memory, "And later?", "Second answer.")
    html = memory.trace.page(upto=end).to_html()
    assert "First answer." in html
    assert "Second answer." not in html
    assert len(read(html)["turns"]) == 1
    page = read(memory.trace.page("and later", upto=end).to_html())
    sentence = page["texts"][page["turns"][0]["trace"]["sentence"]]
    assert sentence == memory.trace("and later", turn=1, upto=end).sentence
    assert "after the prompt of turn 1" in sentence


def test_bad_questions_end_in_one_sentence():
    memory = memory_of()
    with pytest.raises(NotFoundError, match="Nothing was said"):
        memory.trace.page()
    turn(memory, NUTS)
    with pytest.raises(NotFoundError, match="no turn 7"):
        memory.trace.page(turns=[1, 7])
    with pytest.raises(MessageError, match="Type what"):
        memory.trace.page("  ")
    with pytest.raises(NotFoundError):
        memory.trace.page(Ref.of("message", 99))


def test_showing_changes_nothing():
    memory = memory_of(FactExtractionMemoryBlock(name="facts", priority=1))
    turn(memory, NUTS)
    before = memory.log.history().position
    page = memory.trace.page("nuts")
    page.to_html({"nuts": "figs"})
    assert memory.log.history().position == before


def test_a_very_long_text_says_how_much_is_not_there():
    assert shortened("a b") == "a b"
    long = shortened("word " * 10_000)
    assert len(long) < MAX_CHARACTERS + 60
    assert long.endswith("more characters are not on this page.)")


# -- nothing in it can run ----------------------------------------------------------------------------

HOSTILE = [
    "</script><script>alert(1)</script>",
    "<!-- <script>",
    "<!--<script></script>-->",
    "]]>&lt;b&gt;&amp;",
    "line\u2028and\u2029paragraph",
    "{{ script }}{{ 7 * 7 }}{% raw %}{# not read #}",
    "\x00\x1f\r\n\ufeff\ufffe",
    "half \ud83d and \udc00",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_stay_words(text):
    html = page_html({"texts": [text]})
    elements = Elements(html)
    assert [tag for tag, _, _ in elements.found].count("script") == 2
    assert elements.data() == {"texts": [text]}
    assert html.encode("utf-8")


@pytest.mark.slow
@given(st.lists(st.text(st.characters(), max_size=60) | st.sampled_from(HOSTILE), max_size=8))
def test_whatever_is_said_the_file_is_read_as_it_was_written(texts):
    plain = page_html({"texts": []})
    html = page_html({"texts": texts})
    assert html.encode("utf-8").decode("utf-8") == html
    elements = Elements(html)
    assert [tag for tag, _, _ in elements.found] == [tag for tag, _, _ in Elements(plain).found]
    assert elements.data() == {"texts": texts}
    written = safe_json(texts)
    assert not re.search("[<>&\u2028\u2029]", written)


def test_the_policy_allows_the_own_script_and_style_and_nothing_else():
    elements = Elements(page_html({"texts": []}))
    (policy,) = [given["content"] for _, given, _ in elements.found if given.get("http-equiv")]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "*" not in policy
    for tag, attributes, _ in elements.found:
        assert not {"src", "href", "style", "action"} & attributes.keys(), tag
        assert not any(name.startswith("on") for name in attributes), tag
    assert "innerHTML" not in page_html({})
    assert "eval(" not in page_html({})


# -- what is replaced ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("my key sk-proj-abc123def456ghi.", "my key [key]."),
        ("token ghp_16C7e42F292c6912E7710c838347Ae178B4a!", "token [key]!"),
        ("AKIAIOSFODNN7EXAMPLE7", "[key]"),
        ("(password: hunter22), ok", "(password: [key]), ok"),
        ('{"api_key": "abc123"}', '{"api_key": "[key]"}'),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "[key]"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE+/=\n-----END PRIVATE KEY-----", "[key]"),
        ("the secret is that it rains in 2024", "the secret is that it rains in 2024"),
        ("on 2024-03-14, turn 123456, 123e4567-e89b-12d3-a456-426614174000, order 12345678901234567890", None),
        ("task-2024-abcdefghijkl of my-sk-list", None),
    ],
)
def test_keys_are_masked_and_nothing_else_is(text, masked):
    masked = text if masked is None else masked
    assert mask_keys(text) == masked
    assert read(Page({"texts": [text]}).to_html())["texts"] == [masked]


@pytest.mark.slow
def test_keys_are_masked_in_time_that_grows_with_the_text():
    """Each of these would take hours if a search began again at every place."""
    for piece in ("a1", "password: ", "sk-", "eyJaaaaaaaa.", "-----BEGIN PRIVATE KEY-----", "token=1"):
        mask_keys(piece * 20_000)


def test_a_word_is_replaced_in_any_case_and_nowhere_inside_a_word():
    replaced = Replacements({"Ana": "Eva", "ana  lopes": "Eva Dias", "李雷": "Li", "+351 912": "number"})
    assert (
        replaced.replace("ANA, ana's Banana, ana_b, anagram; Ana\nLopes")
        == "Eva, Eva's Banana, Eva_b, anagram; Eva Dias"
    )
    assert replaced.replace("李雷去了Ana") == "Li去了Eva"
    assert replaced.replace("Call+351 912, not +351 9123") == "Callnumber, not +351 9123"
    assert replaced.count(["Ana and ANA LOPES", "ana"]) == {"Ana": 2, "ana  lopes": 1}
    assert Replacements({}).replace_all(["as it was"]) == ["as it was"]


WORD = st.text(st.characters(whitelist_categories=("Lu", "Ll", "Nd"), max_codepoint=0x24F), min_size=1, max_size=8)
SIGN = st.sampled_from([" ", ", ", "-", "_", "'s ", "\n", ". ", "(", "@", "é", "7", "李"])


@pytest.mark.slow
@given(st.data(), st.lists(WORD | st.builds("{} {}".format, WORD, WORD), min_size=1, max_size=5))
def test_no_word_that_was_typed_is_left_in_the_file(data, typed):
    pieces = st.one_of(WORD, SIGN, st.sampled_from(typed))
    texts = data.draw(st.lists(st.lists(pieces, max_size=12).map("".join), min_size=1, max_size=4))
    try:
        page = read(Page({"texts": texts}).to_html({word: f"({number})" for number, word in enumerate(typed)}))
    except FormatError as error:
        assume(not re.search("same word|still be read", str(error)))
        raise
    for word in typed:
        whole = rf"(?<![^\W_]){re.escape(word)}(?![^\W_])"
        assert not any(re.search(whole, text) for text in page["texts"]), (word, page["texts"])


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ({"Ana": "Anna or Ana"}, "“Ana” could still be read"),
        ({"Casa Lume": "X1", "Bar": "Casa"}, "“Casa Lume” could still be read"),
        ({"Ana": "  "}, "Enter a replacement for “Ana”"),
        ({"!!": "x"}, "no letter or digit"),
        ({"Ana": "x", "ANA": "y"}, "are the same word"),
        ({"Ana": "x" * (MAX_TYPED + 1)}, "at most 200 characters"),
    ],
)
def test_words_that_cannot_be_replaced_are_refused_in_one_sentence(typed, says):
    with pytest.raises(FormatError, match=says):
        Replacements(typed).replace_all(["Ana met Bar Lume"])


def test_a_word_is_replaced_everywhere_on_a_page():
    memory = memory_of(FactExtractionMemoryBlock(name="facts", priority=1), title="Dinner with Teresa")
    memory.put(user("I asked Teresa: teresa@lume.pt"))
    memory.build_context("Where is Teresa?")
    memory.put(assistant("TERESA is in Porto."))
    html = memory.trace.page("asked Teresa").to_html({"Teresa": "Eva", "Porto": "Faro"})
    assert not re.search("teresa|porto", html, re.IGNORECASE)
    page = read(html)
    assert page["texts"][page["title"]] == "Dinner with Eva"
    assert page["texts"][page["asked"]] == "asked Eva"
    assert page["replaced"] == 2
    assert "Eva is in Faro." in page["texts"]


# -- its size and its looks ---------------------------------------------------------------------------


@pytest.mark.slow
def test_two_hundred_turns_with_a_trace_in_each_are_less_than_two_megabytes():
    memory = memory_of(
        StaticMemoryBlock(name="Instructions", static_content="Help with the dinner. " * 40, priority=0),
        FactExtractionMemoryBlock(name="Facts", priority=1),
        VectorMemoryBlock(name="Earlier turns", priority=2, similarity_threshold=None),
        token_limit=3000,
        token_flush_size=300,
        chat_history_token_ratio=0.6,
    )
    for number in range(200):
        words = f"I am on day {number} of the walk, have {number * 7} km behind me and like village {number}. " * 3
        turn(memory, words, f"Day {number}: well done, rest your feet and drink enough water. " * 4)
    html = memory.trace.page("the walk").to_html()
    assert len(read(html)["turns"]) == 200
    assert len(html.encode()) < 2_000_000


def test_its_colours_are_those_of_the_app():
    style = STYLE.read_text(encoding="utf-8")
    found = re.findall(r"--(\w+): light-dark\((#\w+), (#\w+)\)", style)
    pairs = {name: (light, dark) for name, light, dark in found}
    meant = {"ground": "page", "red": "cut"}
    for name in ("queue", "static", "facts", "vector", "summary", "graph", "custom", "free", "line", "text", *meant):
        wanted = tuple(getattr(PALETTES[mode], meant.get(name, name)) for mode in ("light", "dark"))
        assert pairs[name] == wanted, name
