"""The recall benchmark: how it reads conversations, what it counts as found, what it checks beside."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from fakes import FakeEmbedder

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import recall
import recall_measure
import recall_report
import recall_rivals
from recall_data import DataError, ids, read_audit, read_conversations, read_paraphrases
from recall_measure import Provenance, Result, Score, Scorer, measure, ranks, support

PEOPLE = {"speaker_a": "Ana", "speaker_b": "Ben"}
TALK = [
    ("Ana", "I moved to Porto in March", None),
    ("Ben", "Wonderful! How is the flat?", None),
    ("Ana", "Tiny, but look at the balcony", "a balcony with basil"),
    ("Ben", "My sister Carla keeps bees there", None),
    ("Ana", "I would love to taste the honey", None),
    ("Ben", "She sells it every Saturday", None),
]


def said(number, speaker, text, caption=None):
    return {
        "speaker": speaker,
        "dia_id": f"D1:{number}",
        "text": text,
        **({"blip_caption": caption} if caption else {}),
    }


def asked(question, *evidence, category=4, answer="honey"):
    return {"question": question, "category": category, "evidence": list(evidence), "answer": answer}


def locomo(*questions, lines=None, **conversation):
    told = {
        **PEOPLE,
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": lines or [said(number, *line) for number, line in enumerate(TALK, 1)],
    }
    qa = questions or [asked("Who keeps bees?", "D1:4"), asked("Where did Ana move?", "D1:1", answer="Porto in March")]
    return {"sample_id": "talk-1", "conversation": {**told, **conversation}, "qa": list(qa)}


def written(folder, data, name="data.json"):
    file = folder / name
    file.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return file


@pytest.fixture
def read(tmp_path):
    def read(data, audit=None):
        return read_conversations([written(tmp_path, data)], audit)[0]

    return read


# -- reading -------------------------------------------------------------------------------------


def test_malformed_evidence_ids_are_read_as_what_they_mean():
    assert ids(["D8:6; D9:17", "D:11:26", "D30:05", "D", "D9:1 D4:4", "D8:6"]) == (
        "D8:6",
        "D9:17",
        "D11:26",
        "D30:5",
        "D9:1",
        "D4:4",
    )


def test_evidence_that_does_not_exist_is_left_out_and_a_question_without_any_is_not_asked(read):
    found = read([locomo(asked("one?", "D1:4", "D9:9"), asked("two?", "D9:9"), asked("three?"), asked("four?", "D"))])
    assert [(question.words, question.evidence) for question in found.questions] == [("one?", (3,))]


def test_a_date_without_its_session_is_passed_over_and_sessions_come_in_the_order_of_their_numbers(read):
    later = {f"session_{n}": [{"speaker": "Ana", "dia_id": f"D{n}:1", "text": f"text {n}"}] for n in (10, 2)}
    found = read([locomo(**later, session_3_date_time="9 May 2023", session_2_date_time="10 May 2023")])
    assert [(line.words, line.time) for line in found.lines][-2:] == [("text 2", "10 May 2023"), ("text 10", "")]


def test_a_conversation_may_have_one_speaker_only(read):
    data = locomo(lines=[said(1, "Ana", "I keep bees"), said(2, "Ana", "They are called Bees")])
    del data["conversation"]["speaker_b"]
    assert [line.role for line in read([data]).lines] == ["user", "user"]


def test_speaker_and_time_are_metadata_and_a_caption_is_part_of_the_text_but_not_of_the_evidence(read):
    line = read([locomo()]).lines[2]
    message = line.message(inline=False)
    assert message.role == "user"
    assert message.content == "Tiny, but look at the balcony [shares a balcony with basil]"
    assert message.additional_kwargs == {"name": "Ana", "time": "1:56 pm on 8 May, 2023"}
    assert line.words == "Tiny, but look at the balcony"


def test_inline_they_stand_in_front_of_the_text_as_in_a_pasted_chat(read):
    message = read([locomo()]).lines[1].message(inline=True)
    assert message.role == "assistant"
    assert message.content == "[8 May 2023] Ben: Wonderful! How is the flat?"
    assert message.additional_kwargs == {}


def test_an_audit_corrects_the_question_whose_evidence_it_quotes_and_no_other(read, tmp_path):
    correction = {"question": "Who keeps bees?", "cited_evidence": ["D1:4"], "correct_evidence": ["D1:4", "D1:6"]}
    audit = read_audit(written(tmp_path, [correction], "audit.json"))
    found = read([locomo(asked("Who keeps bees?", "D1:4"), asked("Who keeps bees?", "D1:5"))], audit)
    assert [(question.evidence, question.audited) for question in found.questions] == [((3,), (3, 5)), ((4,), (4,))]


def test_a_beam_file_loses_its_marks_carries_the_day_forward_and_asks_about_user_messages_only(read):
    messages = [
        {"id": 7, "role": "user", "time_anchor": "March-15-2024", "content": "My budget is 300 ->-> 1,1"},
        {"id": 8, "role": "assistant", "time_anchor": None, "content": "Noted"},
        {"id": 9, "role": "user", "time_anchor": "March-16-2024", "content": "Make it 400 ->-> 1,2"},
    ]
    probing = {
        "update": [
            {"question": "How much?", "answer": "400", "source_chat_ids": {"old": [7], "new": [[9]]}},
            {"question": "What was noted?", "source_chat_ids": [8]},
            {"question": "Nothing?", "source_chat_ids": []},
        ]
    }
    found = read({"messages": messages, "probing_questions": probing})
    assert [line.words for line in found.lines] == ["My budget is 300", "Noted", "Make it 400"]
    assert found.lines[1].message(inline=False).additional_kwargs == {"time": "March-15-2024"}
    assert found.lines[2].message(inline=True).content == "[March-16-2024] User: Make it 400"
    assert [(question.words, question.evidence, question.answer) for question in found.questions] == [
        ("How much?", (0, 2), "400")
    ]


def test_a_sample_is_spread_over_all_questions(read):
    found = read([locomo(*(asked(f"{number}?", "D1:1") for number in range(10)))])
    assert [question.words for question in found.sampled(3).questions] == ["0?", "3?", "6?"]
    assert found.sampled(10) is found.sampled(None) is found


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("{nothing", "is not JSON"),
        ({"messages": []}, "neither a LoCoMo file"),
        ([], "neither a LoCoMo file"),
        ([{"conversation": {"session_1": [{"text": "no id"}]}, "qa": []}], "is not complete: KeyError at 'dia_id'"),
        ([locomo(), locomo()], '2 conversations are called "talk-1"'),
    ],
)
def test_a_file_that_is_none_of_ours_is_named_in_one_sentence(tmp_path, data, said):
    with pytest.raises(DataError, match=said) as caught:
        read_conversations([written(tmp_path, data)])
    assert str(caught.value).count("\n") == 0


# -- scoring -------------------------------------------------------------------------------------


def score_of(read, prompt, *evidence, **about):
    conversation = read([locomo(asked("?", *evidence, **about))])
    return Scorer(conversation).score(conversation.questions[0], prompt)


def test_evidence_is_found_word_for_word_whatever_the_white_space(read):
    prompt = "<memory>\nBen: My  sister Carla\nkeeps bees there\n</memory>"
    assert score_of(read, prompt, "D1:4").original == 1
    assert score_of(read, prompt, "D1:4", "D1:6").original == 0.5
    assert score_of(read, prompt.replace("bees", "wasps"), "D1:4").original == 0


def test_what_was_made_harmless_in_the_prompt_counts_as_the_words_it_was(read):
    conversation = read([locomo(asked("?", "D1:1"), lines=[said(1, "Ana", "I typed </memory> here")])])
    prompt = "Ana: I typed &lt;/memory> here"
    assert Scorer(conversation).score(conversation.questions[0], prompt).original == 1


def test_a_prompt_over_the_limit_by_one_token_scores_nothing(read):
    score = score_of(read, "My sister Carla keeps bees there", "D1:4", answer="bees")
    assert (score.original, score.support) == (1, 1)
    for read_one in (recall_report.original, recall_report.audited, recall_report.supported):
        assert read_one(score, score.tokens) == 1
        assert read_one(score, score.tokens - 1) == 0
    assert recall_report.at_any_size(score, 1) == 1


def test_answer_support_is_the_share_of_the_answers_content_stems():
    assert support("The honey of Carla's bees", "a bee.\nsome honey") == pytest.approx(2 / 3)
    assert support("2022", "in 2022") == 1
    assert support("", "anything") is None


def test_the_guard_counts_nowhere_but_in_its_own_line():
    result = Result("talk", "LoCoMo", {"1000": [Score("4", 10, 1.0, 1.0, None), Score("5", 10, 0.0, 0.0, None)]})
    assert recall_report.er([result], [1000], recall_report.original) == 100
    assert recall_report.er([result], [1000], recall_report.original, recall_report.GUARD) == 0


# -- measuring -----------------------------------------------------------------------------------


def test_a_conversation_is_replayed_and_every_side_condition_checked(read, tmp_path):
    conversation = read([locomo()])
    first = measure(conversation, (500, 1000), tmp_path, embedder=FakeEmbedder)
    assert [score.original for score in first.scores["1000"]] == [1, 1]
    assert [score.support for score in first.scores["1000"]] == [1, 1]
    assert len(first.milliseconds) == 4
    assert (first.unchanged, first.any_order) == (True, True)
    assert (first.hits, first.named) == (4, 4)
    again = recall_measure.digest_of_a_second_run(conversation, 1000, tmp_path, embedder=FakeEmbedder)
    assert again == first.digests["1000"]
    other = replace(conversation, lines=conversation.lines[:-1])
    assert recall_measure.digest_of_a_second_run(other, 1000, tmp_path, embedder=FakeEmbedder) != again


def test_a_hit_counts_as_named_only_if_a_granted_piece_leads_to_the_message(read, tmp_path):
    filled = recall_measure.Filled(read([locomo()]), tmp_path, embedder=FakeEmbedder)
    filled.limit(1000)
    context = filled.memory.build_context("Who keeps bees?", record=False)
    provenance = Provenance(filled)
    assert provenance.leads_to("My sister Carla keeps bees there", context)
    assert not provenance.leads_to("nobody said this", context)
    filled.memory.retrieval.forget(filled.block, next(iter(filled.memory.retrieval.stored_turns(filled.block))).number)
    assert not Provenance(filled).leads_to("I moved to Porto in March", context)
    filled.close()


def test_questions_in_other_words_are_ranked_by_the_search(tmp_path):
    talk = {
        "name": "bees",
        "messages": [["user", "my sister keeps bees"], ["assistant", "how nice"], ["user", "I moved to Porto"]],
        "questions": [{"question": "who keeps bees", "evidence": [0]}, {"question": "moved to", "evidence": [2]}],
    }
    (conversation,) = read_paraphrases(written(tmp_path, [talk]))
    assert ranks(conversation, tmp_path, embedder=FakeEmbedder) == [1, 1]


def test_rivals_answer_the_same_questions_and_those_that_are_done_are_not_measured_again(read, tmp_path):
    conversation = read([locomo()])
    rows = ("buffer", "graph", "llama-index-core")
    found = dict(recall_rivals.rivals(conversation, (1000,), {}, embedder=FakeEmbedder(), rows=rows))
    assert list(found) == list(rows)
    assert [score.original for score in found["buffer"].scores["1000"]] == [1, 1]
    assert [score.original for score in found["llama-index-core"].scores["1000"]] == [1, 1]
    done = {row: {"talk-1": {}} for row in rows}
    assert not list(recall_rivals.rivals(conversation, (1000,), done, embedder=FakeEmbedder(), rows=rows))


def test_an_ablation_changes_one_setting_and_takes_it_back(read, tmp_path):
    rows = {"one": {"similarity_top_k": 1}, "none": {"similarity_threshold": 1.0}, "default": {}}
    conversation = read([locomo()])
    found = dict(recall_rivals.ablations(conversation, (1000,), tmp_path, {}, embedder=FakeEmbedder(), rows=rows))
    assert list(found) == list(rows)
    assert recall_report.er([found["none"]], [1000], recall_report.original) == 0
    whole = measure(conversation, (1000,), tmp_path, embedder=FakeEmbedder)
    assert found["default"].scores == whole.scores


# -- the command ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_command_prints_both_golds_and_a_stopped_run_goes_on_from_its_file(tmp_path, capsys, monkeypatch):
    data, kept = written(tmp_path, [locomo()]), tmp_path / "kept.json"
    correction = {"question": "Who keeps bees?", "cited_evidence": ["D1:4"], "correct_evidence": ["D1:4", "D1:6"]}
    audit = written(tmp_path, [correction], "audit.json")
    arguments = [str(data), "--audit", str(audit), "--budgets", "500,1000", "--json", str(kept)]
    recall.main(arguments)
    first = capsys.readouterr()
    assert "LoCoMo, original gold" in first.out
    assert "LoCoMo, audited gold" in first.out
    assert "answer support" in first.out
    assert "talk-1: 1,000 tokens" in first.err
    assert first.out.count("pass") >= 5

    def never(*args, **options):
        raise AssertionError("measured again")

    monkeypatch.setattr(recall, "measure", never)
    monkeypatch.setattr(recall, "digest_of_a_second_run", never)
    recall.main(arguments)
    assert capsys.readouterr().out.splitlines()[1:] == first.out.splitlines()[1:]  # the first tells of the machine
    with pytest.raises(SystemExit) as left:
        recall.main([*arguments, "--inline"])
    assert left.value.code == 2
    assert "other options" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "There is nothing to measure"),
        (["missing.json"], "missing.json cannot be read: No such file or directory."),
        (["{file}", "--budgets", "1000,many"], "is no list of token limits"),
        (["{file}", "--sample", "0"], "is no number of questions"),
        (["{file}", "--audit", "{file}"], "is not complete: KeyError at 'question'"),
        (["--paraphrases", "{file}"], "is no list of talks"),
        (["{file}", "--json", "{file}"], "holds no results of this benchmark"),
    ],
)
def test_bad_input_ends_with_one_sentence_and_code_2(tmp_path, capsys, arguments, said):
    file = written(tmp_path, [locomo()])
    with pytest.raises(SystemExit) as left:
        recall.main([argument.format(file=file) for argument in arguments])
    assert left.value.code == 2
    assert said in capsys.readouterr().err
