"""Where a record of an attached agent's memory went: reported by its spans, observed in its prompts."""

import pytest
from span_kit import Attached, chat, memory

from memory_core.history.stores import stores_of
from memory_core.planning.phrase_matching import Phrase
from memory_core.tracing.words import carrier_name

NUTS = ("allergy", "Ana is allergic to nuts. She carries a pen.", 0.58)
HOME = ("home", "Ana lives in Porto.", 0.61)


@pytest.fixture
def attached():
    return Attached()


def verdicts(track):
    return [(stage.name, stage.verdict, stage.rule, stage.knowledge) for stage in track.stages]


def first_track(attached, phrase, **options):
    return attached.memory().trace(phrase, **options).tracks[0]


def written(*records, began=1.0):
    return memory("upsert_memory", records=[each[:2] for each in records], began=began)


def test_found_and_yet_not_in_the_prompt_is_the_verdict(attached):
    attached.take(
        written(NUTS, HOME),
        memory("search_memory", query="dinner restrictions", records=[HOME, NUTS], began=2),
        chat([("system", "Known: Ana lives in Porto."), ("user", "Book a dinner.")], "Satay.", began=3),
    )
    trace = attached.memory().trace("allergic to nuts")
    assert not trace.reached
    assert verdicts(trace.tracks[0]) == [
        ("learned", "passed", "", "reported"),
        ("found", "passed", "", "reported"),
        ("prompt", "lost", "found_not_sent", "observed"),
    ]
    assert trace.sentence.startswith('Found by the search of notes for "dinner restrictions", but not in the prompt')
    assert carrier_name(trace.tracks[0].carrier) == "Record allergy of notes"
    assert (trace.tracks[0].stage("found").numbers, trace.said) == ({"score": 0.58}, ())
    (search,) = attached.stores()["notes"].searches
    (unsent,) = attached.memory().trace.omitted_results([search]).values()
    assert unsent.missing == (1,)
    reached = attached.memory().trace("lives in Porto")
    assert reached.reached
    own = next(track for track in reached.tracks if track.carrier.kind == "record")
    assert verdicts(own)[1:] == [("found", "passed", "", "reported"), ("prompt", "passed", "", "observed")]


def test_what_no_search_returned_or_looked_for_is_told_apart(attached):
    attached.take(
        written(NUTS, HOME),
        memory("search_memory", query="where", records=[HOME], began=2),
        chat([("user", "Where do I live?")], began=3),
        chat([("user", "And now?")], began=9),
    )
    lost = first_track(attached, "allergic to nuts", turn=1)
    assert verdicts(lost)[-1] == ("found", "lost", "not_returned", "reported")
    assert verdicts(first_track(attached, "allergic to nuts", turn=2))[-1][2] == "no_search"


def test_what_was_overwritten_deleted_or_came_later_is_told(attached):
    attached.take(
        written(NUTS, ("home", "Ana lives in Lisbon."), ("seat", "Window seats.")), chat([("user", "Hi")], began=2)
    )
    attached.take(
        written(HOME, began=3), memory("delete_memory", record="seat", began=4), chat([("user", "Hello")], began=5)
    )
    assert verdicts(first_track(attached, "lives in Lisbon"))[-1] == ("kept", "lost", "overwritten", "reported")
    assert verdicts(first_track(attached, "window seats"))[-1] == ("kept", "lost", "deleted", "reported")
    assert verdicts(first_track(attached, "lives in Porto", turn=1)) == [
        ("learned", "lost", "learned_later", "reported")
    ]
    # As of the first prompt what was written then was kept.
    assert len(first_track(attached, "lives in Lisbon", turn=1).stages) == 2


def test_the_prompt_that_followed_is_the_one_of_the_search_s_trace(attached):
    attached.take(
        memory("search_memory", query="q", records=[NUTS], began=1, trace=1),
        chat([("user", "Another agent’s.")], began=2, trace=2),
        chat([("system", NUTS[1]), ("user", "Its own.")], began=3, trace=1),
    )
    searches = attached.stores()["notes"].searches
    assert attached.memory().trace.omitted_results(searches) == {}
    # A search whose own trace has no prompt is compared with the session's next one.
    attached.take(memory("search_memory", query="q", records=[NUTS], began=1.5, trace=3))
    searches = attached.stores()["notes"].searches
    assert [unsent.missing for unsent in attached.memory().trace.omitted_results(searches).values()] == [(0,)]


def test_a_record_that_is_only_found_is_followed_too(attached):
    attached.take(memory("search_memory", query="q", records=[NUTS], began=1), chat([("user", "Hi")], began=2))
    track = first_track(attached, "allergic to nuts")
    assert "no span reports its write" in track.stages[0].text
    assert track.decisive.rule == "found_not_sent"


def test_without_content_nothing_is_claimed(attached):
    attached.take(
        memory("search_memory", records=None, count=2, began=1),
        memory("search_memory", query="q", records=[("r1", None)], began=2),
        chat([("user", "Hi")], began=3),
    )
    memory_of = attached.memory()
    searches = stores_of(memory_of.log.history().records)["notes"].searches
    assert memory_of.trace.omitted_results(searches) == {}


@pytest.mark.parametrize(
    ("text", "words", "told"),
    [
        ("- Ana is allergic to nuts.\n- Lives in Porto", "Ana is ALLERGIC\nto nuts.", True),
        ("Remember: all nuts; Ana is allergic", "Ana is allergic to nuts.", True),
        ("Ana is allergic.", "Ana is allergic to nuts.", False),
        ("Likes tea.", "Likes tea. Has a cat.", False),
        ("Has a cat. Also likes tea.", "Likes tea. Has a cat.", True),
    ],
)
def test_words_are_in_a_prompt_where_each_sentence_of_them_is(text, words, told):
    assert Phrase.of(words).said_in(text) is told
