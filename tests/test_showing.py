"""A session as a page to show: what stands on it, what is replaced in it, and that nothing in it can run."""

import json
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path

import pytest
from engine_fakes import HashEmbedder, assistant, user
from fakes import FakeExtractor
from hypothesis import assume, given
from hypothesis import strategies as st

from memory_core import (
    ChatMessage,
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
from memory_core.tracing.showing.contents import MAX_CHARACTERS, shortened
from memory_core.tracing.showing.html import page_html, safe_json
from memory_core.tracing.showing.page import Page
from memory_core.tracing.showing.pseudonyms import MAX_CHARACTERS as MAX_TYPED
from memory_core.tracing.showing.pseudonyms import Pseudonyms, find_originals, invent
from ui.theme import PALETTES

NUTS = "I am allergic to nuts"
STYLE = Path(__file__).parent.parent / "memory_core/tracing/showing/page.css"


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
    page.to_html(page.pseudonyms)
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
    "{{script}}{{policy}}",
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


def originals(*texts, **known):
    return {(each.text, each.kind) for each in find_originals(texts, **known)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Write to ana.lopes+x@mail.example.pt, please", {("ana.lopes+x@mail.example.pt", "mail")}),
        ("Call +351 912 345 678 now", {("351 912 345 678", "number")}),
        ("card 4111 1111 1111 1111.", {("4111 1111 1111 1111", "number")}),
        ("to PT50 0002 0123 1234 5678 9015 4", {("PT50 0002 0123 1234 5678 9015 4", "number")}),
        ("order 12345678", {("12345678", "number")}),
        ("on 2024-03-14 at 14:05, 1,500 of 3.14159265 since 1998-2004, turn 123456", set()),
        ("my key sk-proj-abc123def456ghi", {("sk-proj-abc123def456ghi", "key")}),
        ("token ghp_16C7e42F292c6912E7710c838347Ae178B4a!", {("ghp_16C7e42F292c6912E7710c838347Ae178B4a", "key")}),
        ("AKIAIOSFODNN7EXAMPLE", {("AKIAIOSFODNN7EXAMPLE", "key")}),
        ("password: hunter22, ok", {("hunter22", "key")}),
        ("the secret is that it rains", set()),
        ("id 123e4567-e89b-12d3-a456-426614174000", {("123e4567-e89b-12d3-a456-426614174000", "key")}),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", {("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln", "key")}),
    ],
)
def test_mails_numbers_and_keys_are_found(text, found):
    assert originals(text, said=()) == found


def test_names_are_those_of_people_of_what_is_known_and_words_with_a_capital_inside_a_sentence():
    found = originals(
        "We met Teresa on Monday. Yesterday it rained. The API is down. Lume has music. Rose likes a rose.",
        "Rui stays off meat. ana said so",
        "Likes roses",
        people=["ana Lopes"],
        known=["Casa Lume"],
        facts=["Rui stays off meat", "Likes roses", "The user likes roses"],
    )
    assert found == {(name, "name") for name in ("ana", "Lume", "Teresa", "Rui")}


def test_a_name_is_replaced_in_any_case_with_or_without_accents_and_nowhere_inside_a_word():
    replaced = Pseudonyms({"José": "Name1", "Ana": "Name2", "李雷": "Name3"})
    assert replaced.replace("JOSÉ, jose, Jose\u0301! Banana, ANA's, ana_lopes, anagram") == (
        "Name1, Name1, Name1! Banana, Name2's, Name2_lopes, anagram"
    )
    assert replaced.replace("李雷去了Ana") == "Name3去了Name2"


def test_a_number_is_the_same_however_it_is_grouped():
    replaced = Pseudonyms({"912 345 678": "Number1"})
    assert replaced.replace("912345678 and 912-345.678, not 9123456789") == "Number1 and Number1, not 9123456789"


WORD = st.text(st.characters(whitelist_categories=("Lu", "Ll", "Nd"), max_codepoint=0x24F), min_size=1, max_size=8)
SIGN = st.sampled_from([" ", ", ", "-", "_", "'s ", "\n", ". ", "(", "@", "é", "7"])
ORIGINAL = st.one_of(
    WORD,
    st.builds("{} {}".format, WORD, WORD),
    st.builds("{}@{}.pt".format, WORD, WORD),
    st.integers(1_000_000, 10**12).map(str),
    st.sampled_from(["Name1", "Word2", "name", "Ana", "ana lopes", "1", "Straße", "İpek", "Işık", "ﬁn", "李雷"]),
)


def in_word(character):
    return character.isalnum() or unicodedata.category(character or " ") == "Mn"


def holds(text, original):
    """Whether a text holds an original as a word of its own, by a comparison of another kind than the code's."""
    for written in {original, original.lower(), original.upper(), original.casefold(), original.title()}:
        for folded in {text, text.casefold()}:
            for found in re.finditer(re.escape(written), folded):
                around = folded[: found.start()][-1:], folded[found.end() :][:1]
                inside = (in_word(around[0]) and in_word(written[0])), (in_word(around[1]) and in_word(written[-1]))
                if not any(inside) and found.group():
                    return True
    return False


@given(st.data(), st.lists(ORIGINAL, min_size=1, max_size=5))
def test_no_original_that_was_chosen_is_left_in_the_file_and_each_has_one_pseudonym_of_its_own(data, chosen):
    pieces = st.one_of(WORD, SIGN, *(st.sampled_from([each, each.upper(), each.lower()]) for each in chosen))
    texts = data.draw(st.lists(st.lists(pieces, max_size=12).map("".join), min_size=1, max_size=4))
    invented = invent([(each, "other") for each in dict.fromkeys(chosen)], texts)
    assert len(set(invented.values())) == len(invented)
    try:
        replaced = Pseudonyms.checked(invented).replace_all(texts)
    except FormatError as error:
        assume("are the same word" not in str(error))
        raise
    html = page_html({"texts": replaced})
    assert read(html)["texts"] == replaced
    for original in chosen:
        assert not any(holds(text, original) for text in replaced), (original, replaced)


@given(st.lists(st.sampled_from(["Ana", "ANA", "ana", "Rui", "rui", "Ana Lopes", "x"]), max_size=20))
def test_the_same_original_is_always_the_same_pseudonym(words):
    text = ", ".join(words)
    replaced = Pseudonyms({"Ana": "A1", "Rui": "B2", "Lopes": "C3"}).replace(text)
    meant = {"ana": "A1", "rui": "B2", "ana lopes": "A1 C3", "x": "x"}
    assert replaced == ", ".join(meant[word.lower()] for word in words)


SECRET = st.sampled_from(
    [
        "ana@lume.pt", "+351 912 345 678", "912345678", "sk-proj-abc123def456ghi", "password: hunter22", "Teresa",
        "TERESA", " met Rui", "key=" + "a1" * 900, "eyJhbGciOiJIUzI1NiJ9." + "eyJ1" * 300, "PT50 0002 0123 1234 5678",
    ]
)  # fmt: skip


@given(st.lists(st.lists(SECRET | SIGN | st.text(max_size=6), max_size=10).map("".join), min_size=1, max_size=4))
def test_whatever_is_found_can_be_replaced_and_is_then_gone(texts):
    page = Page({"texts": texts, "entries": [[place] for place in range(len(texts))]}, frozenset(("Ana Lopes",)))
    replaced = page.replaced(page.pseudonyms)["texts"]
    for original in page.pseudonyms:
        assert not any(holds(text, original) for text in replaced), (original, replaced)


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({"Ana": "Rui", "Eva": "rui"}, "would both read"),
        ({"Ana": "Anna or Ana"}, "can still read “Ana”"),
        ({"Ana": "Eva", "Eva": "Bea"}, "can still read “Eva”"),
        ({"Ana": "  "}, "Write what should stand"),
        ({"!!": "x"}, "no letter or digit"),
        ({"Ana": "x", "ANA": "y"}, "are the same word"),
        ({"Ana": "x" * (MAX_TYPED + 1)}, "at most"),
        ({"912345678": "call 912-345-678"}, "can still read"),
    ],
)
def test_what_would_give_an_original_away_is_refused(chosen, says):
    with pytest.raises(FormatError, match=says):
        Pseudonyms.checked(chosen)


def test_words_that_become_an_original_beside_others_are_refused():
    with pytest.raises(FormatError, match="“Casa Lume” could still be read"):
        Pseudonyms.checked({"Casa Lume": "X1", "Bar": "Casa"}).replace_all(["Bar Lume"])


def test_a_page_finds_what_is_on_it_and_replaces_it_everywhere():
    memory = memory_of(FactExtractionMemoryBlock(name="facts", priority=1), title="Dinner with Teresa")
    memory.put(ChatMessage(role="user", content="I asked Teresa: teresa@lume.pt", additional_kwargs={"name": "Rui"}))
    memory.build_context("Where is Teresa?")
    memory.put(assistant("Rui, TERESA is in Porto."))
    page = memory.trace.page("asked Teresa")
    assert set(page.pseudonyms) == {"Teresa", "Rui", "Porto", "teresa@lume.pt"}
    html = page.to_html(page.pseudonyms)
    for original in page.pseudonyms:
        assert not re.search(rf"(?<!\w){re.escape(original)}(?!\w)", html, re.IGNORECASE), original
    found = read(html)
    assert found["texts"][found["title"]] == f"Dinner with {page.pseudonyms['Teresa']}"
    assert found["texts"][found["asked"]] == f"asked {page.pseudonyms['Teresa']}"
    assert found["replaced"] == 4
    kept = page.to_html({"Porto": "Faro"})
    assert "Teresa" in kept
    assert "Porto" not in kept
    assert "is in Faro." in kept


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
