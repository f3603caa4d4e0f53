"""Fates of a statement at a compaction: kept, reworded, said or read again, with a subagent, or gone."""

from datetime import timedelta

import pytest
from coding_kit import START, ClaudeCode, Codex, call, message
from hypothesis import given
from hypothesis import strategies as st

from memory_core.planning.phrase_matching import Phrase
from memory_core.text import words
from memory_inspector.coding.coding_session import CodingSession
from memory_inspector.coding.statement_fates import follow_phrase, statements_at
from memory_inspector.wording.coding_text import kept_words

RULE = "Never push to the main branch."
SUMMARY = "The user wants a harbour page. The tests pass."


def before(text=RULE) -> ClaudeCode:
    """A session up to its compaction, with one statement of the user."""
    lines = ClaudeCode()
    lines.user(text)
    lines.answer("I will keep that in mind.", prompt=2_000)
    return lines


def session_of(lines, tmp_path) -> CodingSession:
    return lines.session(tmp_path / "session.jsonl")


def fate(session, phrase=RULE):
    (compaction,) = follow_phrase(session, phrase).fates
    return compaction.fate


def statement(session, kinds=("user",), number=0):
    branch = session.main.branches[0]
    return statements_at(session, branch, branch.compactions[number], kinds)[0]


def kept(lines, path):
    lines.compact(f"{SUMMARY} NEVER push to the main branch!")


def reworded(lines, path):
    lines.compact(f"{SUMMARY} The main branch is one that the agent must never be pushing to.")


def said_again(lines, path):
    lines.compact(SUMMARY)
    lines.user("As I said: never push to the main branch.")
    lines.answer("Sorry.", prompt=2_000)


def said_again_in_a_call(lines, path):
    lines.compact(SUMMARY)
    lines.answer(call("t1", "Write", content="# Rules\nNever push to the main branch\n"), prompt=2_000)


def read_again(lines, path):
    lines.compact(SUMMARY)
    lines.answer(call("t1"), prompt=2_000)
    lines.result("t1", "1→# Rules\n2→Never push to the main branch.")
    lines.answer("I see.", prompt=2_100)


def subagent(lines, path):
    lines.compact(SUMMARY)
    lines.answer(call("t1", "Task"), prompt=2_000)
    other = ClaudeCode(START + timedelta(hours=1), side=True)
    other.user("Push nothing: never push to the main branch.")
    other.subagent(path, "a1")


def earlier_subagent(lines, path):
    other = ClaudeCode(START - timedelta(hours=1), side=True)
    other.user(RULE)
    other.subagent(path, "a1")
    lines.compact(SUMMARY)


def gone(lines, path):
    lines.compact(SUMMARY)
    lines.user("Never push without a test.")


def without_summary(lines, path):
    lines.compact(None)
    lines.user("Go on.")


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (kept, "kept"),
        (reworded, "reworded"),
        (said_again, "said_again"),
        (said_again_in_a_call, "said_again"),
        (read_again, "read_again"),
        (subagent, "subagent"),
        (earlier_subagent, "gone"),
        (gone, "gone"),
        (without_summary, "gone"),
    ],
)
def test_a_statement_has_the_fate_that_the_file_shows(after, expected, tmp_path):
    lines = before()
    after(lines, tmp_path / "session.jsonl")
    session = session_of(lines, tmp_path)
    assert fate(session) == statement(session).fate == expected


def test_the_sentence_of_the_summary_is_quoted(tmp_path):
    lines = before()
    reworded(lines, None)
    session = session_of(lines, tmp_path)
    sentence = "The main branch is one that the agent must never be pushing to."
    assert statement(session).quote == follow_phrase(session, RULE).fates[0].quote == sentence


def test_of_what_is_gone_the_nearest_sentence_is_quoted(tmp_path):
    lines = before()
    lines.compact("Tests pass. The main page is done. It has a branch of a tree.")
    (compaction,) = follow_phrase(session_of(lines, tmp_path), RULE).fates
    assert (compaction.fate, compaction.quote, compaction.shared) == ("gone", "The main page is done.", 1)


def test_half_of_a_statement_in_the_summary_does_not_keep_it(tmp_path):
    lines = before("Never push to the main branch. Always run the tests first.")
    lines.compact("Never push to the main branch. Tests exist.")
    session = session_of(lines, tmp_path)
    assert fate(session, "Never push to the main branch. Always run the tests first.") == "gone"
    branch = session.main.branches[0]
    fates = {one.text: one.fate for one in statements_at(session, branch, branch.compactions[0])}
    assert fates == {"Never push to the main branch.": "kept", "Always run the tests first.": "gone"}


def test_words_that_stand_in_several_sentences_of_the_summary_are_not_reworded(tmp_path):
    lines = before()
    lines.compact("Never mind. The push went to a branch. The main thing is done.")
    assert fate(session_of(lines, tmp_path)) == "gone"


def test_a_negation_is_part_of_what_was_said(tmp_path):
    lines = before()
    lines.compact("The agent should push to the main branch.")
    assert fate(session_of(lines, tmp_path)) == "gone"


def test_a_summary_in_another_language_keeps_nothing_word_for_word(tmp_path):
    lines = before()
    lines.compact("Der Nutzer will, dass nie auf den Hauptzweig geschoben wird.")
    assert fate(session_of(lines, tmp_path)) == "gone"


@pytest.mark.parametrize(
    ("phrase", "text"),
    [
        ("die Straße zum Hafen", "Immer DIE STRASSE? Nein: die Straße zum Hafen!"),
        ("don't touch the quay", "Don’t touch the quay."),
        ("at most 1,500 boats", "There are at most 1500 boats."),
        ("ship the final file", "Ship the ﬁnal ﬁle."),
        ("船を港に入れる", "いつも船を港に入れること。"),
        ("user_id of the boat", "the USER ID of the boat"),
    ],
)
def test_case_punctuation_and_spelling_of_characters_make_no_difference(phrase, text, tmp_path):
    assert Phrase.of(phrase).verbatim_in(text)
    lines = before(phrase)
    lines.compact(SUMMARY)
    lines.user(text)
    session = session_of(lines, tmp_path)
    assert (fate(session, phrase), statement(session).fate) == ("said_again", "said_again")


@pytest.mark.parametrize(("phrase", "text"), [("push to main", "push to mainland"), ("a quay", "qua y")])
def test_half_a_word_is_another_word(phrase, text):
    assert not Phrase.of(phrase).verbatim_in(text)


@given(st.text("ab ß'’_1,.-ſﬁİ港\n", max_size=8), st.text("abSß'’_1,.-ſﬁİ港 \n", max_size=24))
def test_a_phrase_is_in_a_text_if_its_words_are(phrase, text):
    if words(phrase) and f" {' '.join(words(phrase))} " in f" {' '.join(words(text))} ":
        assert Phrase.of(phrase).verbatim_in(text)


def test_a_phrase_without_words_is_compared_as_it_is():
    assert Phrase.of("=> {").verbatim_in("x => { }")
    assert not Phrase.of("=> {").verbatim_in("x => }")
    assert not Phrase.of("  ").verbatim_in("anything")


def test_a_single_word_is_followed_in_its_other_forms_as_in_a_trace(tmp_path):
    lines = before("Pushing is done by hand.")
    trail = follow_phrase(session_of(lines, tmp_path), "push")
    assert [occurrence.in_other_words for occurrence in trail.occurrences] == ["Pushing is done by hand."]


# -- where it stands ------------------------------------------------------------------------------------


def test_a_phrase_is_in_the_prompts_that_were_sent_it(tmp_path):
    lines = ClaudeCode()
    lines.user("Hello.")
    lines.answer("Hello.", prompt=1_000)
    lines.user(RULE)
    lines.answer("Noted.", prompt=1_100)
    lines.compact(SUMMARY)
    lines.answer("On.", prompt=900)
    lines.user(RULE)
    lines.answer("Noted.", prompt=1_000)
    trail = follow_phrase(session_of(lines, tmp_path), RULE)
    assert [(c.number, is_there) for c, is_there in trail.in_prompt] == [(1, False), (2, True), (3, False), (4, True)]
    assert [occurrence.call for occurrence in trail.occurrences] == [2, 4]
    assert trail.reached


def test_a_phrase_that_only_a_cleared_result_has_is_in_no_later_prompt(tmp_path):
    lines = ClaudeCode()
    lines.answer(call("t1"), prompt=1_000)
    lines.result("t1", RULE)
    lines.answer("Seen.", prompt=1_100)
    lines.clear("t1")
    lines.answer("On.", prompt=1_000)
    trail = follow_phrase(session_of(lines, tmp_path), RULE)
    assert [is_there for _, is_there in trail.in_prompt] == [False, True, False]
    assert not trail.reached


def test_a_phrase_of_another_branch_is_named_with_it(tmp_path):
    lines = before("Build it.")
    first = lines.last
    lines.user(RULE)
    lines.last = first
    lines.user("Paint it.")
    lines.compact(SUMMARY)
    session = session_of(lines, tmp_path)
    trail = follow_phrase(session, RULE)
    assert (trail.occurrences, trail.fates) == ((), ())
    ((number, occurrence),) = trail.other_branches
    assert (number, occurrence.item.text) == (2, RULE)
    own = follow_phrase(session, RULE, session.main.branches[1])
    assert (len(own.occurrences), own.other_branches) == (1, ())


def test_two_compactions_are_two_crossings(tmp_path):
    lines = before()
    lines.compact(f"{SUMMARY} {RULE}")
    lines.user("Go on.")
    lines.compact(SUMMARY)
    lines.user("Go on.")
    lines.compact(f"{SUMMARY} {RULE}")
    trail = follow_phrase(session_of(lines, tmp_path), RULE)
    assert [compaction.fate for compaction in trail.fates] == ["kept", "gone", "kept"]
    assert [compaction.window.number for compaction in trail.fates] == [1, 2, 3]


def test_what_was_first_said_after_a_compaction_did_not_cross_it(tmp_path):
    lines = before("Build it.")
    lines.compact(SUMMARY)
    lines.user(RULE)
    assert follow_phrase(session_of(lines, tmp_path), RULE).fates == ()


@pytest.mark.parametrize("end", ["tail", "elsewhere"])
def test_what_is_carried_over_is_kept_though_the_summary_lacks_it(end, tmp_path):
    lines = before()
    tail = lines.last
    first = lines.lines[0]["uuid"]
    segment = {"headUuid": first, "anchorUuid": "x", "tailUuid": tail if end == "tail" else "lost"}
    lines.compact(SUMMARY, preservedSegment=segment)
    session = session_of(lines, tmp_path)
    expected = "kept" if end == "tail" else "gone"
    assert (fate(session), statement(session).fate) == (expected, expected)


def test_what_a_replaced_history_repeats_is_kept(tmp_path):
    summary = "Another language model started to solve this problem: a page."
    lines = Codex()
    lines.user(RULE)
    lines.user("Build a page.")
    lines.answer("Built.")
    lines.tokens(9_000)
    lines.compacted(summary, [message("user", RULE), message("user", summary)])
    lines.user("Build a page.")
    lines.compacted(summary, [message("user", RULE), message("user", summary)])
    session = session_of(lines, tmp_path)
    assert [compaction.fate for compaction in follow_phrase(session, RULE).fates] == ["kept", "kept"]
    assert [c.fate for c in follow_phrase(session, "Build a page.").fates] == ["said_again", "gone"]
    assert [statement(session, number=number).fate for number in (0, 1)] == ["kept", "kept"]


def test_summaries_that_cannot_be_read_are_counted(tmp_path):
    lines = Codex()
    lines.user(RULE)
    lines.compacted("", [{"type": "compaction", "encrypted_content": "gAA"}])
    lines.compacted("", [])
    lines.compacted("A page.", None)
    assert follow_phrase(session_of(lines, tmp_path), RULE).unread == 2
    claude = before()
    claude.compact(None)
    assert follow_phrase(claude.session(tmp_path / "other.jsonl"), RULE).unread == 1


def test_an_empty_session_has_no_trail(tmp_path):
    trail = follow_phrase(session_of(ClaudeCode(), tmp_path), RULE)
    assert (trail.occurrences, trail.fates, trail.in_prompt, trail.reached) == ((), (), (), False)


# -- lists of statements --------------------------------------------------------------------------------


def test_statements_are_listed_once_rules_first_and_then_what_was_lost(tmp_path):
    lines = ClaudeCode()
    lines.user("Build a harbour page.\nThe quay is long and grey.\nOk.\nAlways use tabs.")
    lines.user("Build a harbour page!\nNever push to main.")
    lines.compact("Build a harbour page. Always use tabs.")
    session = session_of(lines, tmp_path)
    branch = session.main.branches[0]
    listed = [(one.text, one.is_rule, one.fate) for one in statements_at(session, branch, branch.compactions[0])]
    assert listed == [
        ("Never push to main.", True, "gone"),
        ("Always use tabs.", True, "kept"),
        ("The quay is long and grey.", False, "gone"),
        ("Build a harbour page.", False, "kept"),
    ]


def test_only_the_user_and_memory_files_make_rules(tmp_path):
    lines = ClaudeCode().user("Build a harbour page.").answer("I will never push to main.")
    lines.attachment("nested_memory", path="/srv/ana/boats/CLAUDE.md", content="Always use tabs, please.")
    lines.attachment("hook_context", content="Never mind the hook.").compact("We talked.")
    session = session_of(lines, tmp_path)
    branch = session.main.branches[0]
    listed = statements_at(session, branch, branch.compactions[0], ("user", "assistant", "injected"))
    assert {one.text: one.is_rule for one in listed} == {
        "Build a harbour page.": False,
        "I will never push to main.": False,
        "Always use tabs, please.": True,
        "Never mind the hook.": False,
    }


@pytest.mark.parametrize(
    ("said", "summary", "after", "verdict"),
    [
        ("Ok.", "We talked.", "", "You said no sentence of at least three words before it."),
        ("Always use tabs.", "Always use tabs.", "", "Kept: your only sentence."),
        ("Always use tabs.", "We talked.", "", "Lost: your only sentence, a rule."),
        ("The quay is grey.", "We talked.", "", "Lost: your only sentence."),
        ("One is red. Two is blue.", "One is red. Two is blue.", "", "Kept: both of your sentences."),
        ("One is red. Two is up. Use tabs only.", "One is red.", "", "Lost: 2 of your 3 sentences, 1 of them a rule."),
        (
            "One is red. Two is blue. Use tabs only.", "One is red. Two is blue.", "Use tabs only.",
            "Kept: 2 of your 3 sentences. 1 was left out and came back later.",
        ),
    ],
)  # fmt: skip
def test_a_compaction_is_told_by_what_it_did_to_the_users_sentences(said, summary, after, verdict, tmp_path):
    lines = ClaudeCode().user(said).answer("Hm.").compact(summary)
    session = session_of(lines.user(after or "Go on."), tmp_path)
    branch = session.main.branches[0]
    assert kept_words(statements_at(session, branch, branch.compactions[0])) == verdict


def test_a_statement_tells_after_how_many_calls_it_came_back(tmp_path):
    lines = before()
    lines.compact(SUMMARY)
    lines.answer("On.", prompt=1_000)
    lines.answer(call("t1"), prompt=1_000)
    lines.result("t1", RULE)
    lines.answer("Seen.", prompt=1_200)
    session = session_of(lines, tmp_path)
    one = statement(session)
    assert (one.fate, one.back_after) == ("read_again", 2)
    trail = follow_phrase(session, RULE)
    assert [is_there for _, is_there in trail.in_prompt][1:] == [False, False, True]


def test_a_list_of_statements_agrees_with_following_every_one_of_them(tmp_path):
    lines = ClaudeCode()
    for number in range(12):
        lines.user(f"Rule number {number} is about boats and quays.")
    lines.compact("Rule number 3 is about boats and quays. Quays and boats: the rule of number 5 is about both.")
    lines.user("Rule number 7 is about boats and quays.")
    lines.answer(call("t1"), prompt=1_000)
    lines.result("t1", "Rule number 7 is about boats and quays. Rule number 9 is about boats and quays.")
    lines.answer("Seen.", prompt=1_200)
    session = session_of(lines, tmp_path)
    branch = session.main.branches[0]
    listed = {one.text: one.fate for one in statements_at(session, branch, branch.compactions[0])}
    assert listed == {text: fate(session, text) for text in listed}
    assert sorted(set(listed.values())) == ["gone", "kept", "read_again", "reworded", "said_again"]
