"""Words of the trade are explained where they stand; the words of others are left alone."""

import re
from html import unescape

import pytest

from memory_inspector.wording.formatting import plain
from memory_inspector.wording.terms import HELP, marked, marked_html

LINK = re.compile(r"\[([^\]]*)\]\(#(\w+) \"([^\"]*)\"\)")


def links(line):
    return [(word, key) for word, key, _ in LINK.findall(line)]


def test_each_word_is_explained_once_and_by_its_own_sentence():
    line = marked("Flushed 4 messages, 171 tokens: queue 732 was above 720")
    assert LINK.findall(line) == [("Flushed", "flush", HELP["flush"])]
    assert links(marked("Cut 83 tokens of two blocks, and cut again")) == [("Cut", "cut"), ("blocks", "block")]


def test_the_sentence_reads_as_before():
    said = "Cut 83 of 379 tokens from the queue, priority 2: *gone*"
    told = LINK.sub(lambda found: found[1], marked(said))
    assert re.sub(r"\\(.)", r"\1", told) == said


@pytest.mark.parametrize(
    "line",
    [
        "Ended “The queue at the block was cut”",
        "Learned 3 facts: the queue is long",
        "Replaced “a queue” by “a priority queue”",
        "Emptied Cut flowers: it was a flush",
    ],
)
def test_words_of_others_are_never_marked(line):
    assert links(marked(line, names=("Cut flowers",))) == []


def test_nothing_after_the_name_of_a_block_is_marked():
    assert links(marked("Cut 5 tokens from Flush queue", names=("Flush queue",))) == [("Cut", "cut")]


def test_markup_in_a_sentence_stays_text():
    said = " [x](http://a.b) and <b>"
    assert marked("Cut" + said) == marked("Cut") + " " + plain(said)


def test_the_priority_is_explained_by_the_order_in_which_blocks_are_cut():
    for smallest_first, key in ((False, "priority"), (True, "priority_smallest")):
        html = marked_html("priority 2 & <i>", smallest_first=smallest_first)
        assert unescape(re.search('title="(.*?)"', html)[1]) == HELP[key]
        assert html.endswith("2 &amp; &lt;i&gt;")
