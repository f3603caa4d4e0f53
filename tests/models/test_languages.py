"""Languages: which one a text is in, what the rules learn in it, and what keyword search finds."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import ChatMessage, Memory
from memory_core.models.embedding import MiniLMEmbedder
from memory_core.models.offline.extractor import RuleExtractor
from memory_core.models.offline.languages.detection import language_of
from memory_core.models.offline.languages.readers import LANGUAGES
from memory_core.models.offline.slot_reading import slot_in
from memory_core.text import keyword_terms, stems
from memory_core.vectors.keyword import KeywordIndex

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SAMPLE = json.loads((BENCHMARKS / "languages.json").read_text(encoding="utf-8"))
NAMES = {"en": "English", "es": "Spanish", "de": "German", "zh": "Chinese", "ja": "Japanese"}
OTHERS = ["es", "de", "zh", "ja"]


def learned(text):
    return RuleExtractor().extract([ChatMessage(role="user", content=text)], known=[])


def facts(text):
    return [(fact.text, fact.category, fact.slot) for fact in learned(text).facts]


@pytest.mark.parametrize("code", NAMES)
def test_the_language_of_a_sentence_is_told(code):
    texts = [row[code] for part in SAMPLE.values() for row in part]
    wrong = [text for text in texts if language_of(text) not in (NAMES[code], None)]
    undecided = [text for text in texts if language_of(text) is None]
    assert not wrong
    assert len(undecided) <= 0.03 * len(texts)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Je vis à Paris avec ma femme", "French"),
        ("Io abito a Roma con mia moglie", "Italian"),
        ("Eu moro em Lisboa com a minha mulher", "Portuguese"),
        ("Ik woon in Amsterdam met mijn vrouw", "Dutch"),
        ("서울에 살고 있어요", "Korean"),
        ("Я живу в Москве", "Russian or Ukrainian"),
        ("Ana", None),
        ("Die hard fans in Los Angeles", None),
        ("$12 per bowl", None),
        ("I moved to São Paulo as a nurse", "English"),
        ("Israel was founded by David Ben-Gurion", "English"),
        ("", None),
    ],
)
def test_borrowed_words_and_names_are_no_language(text, language):
    assert language_of(text) == language


@pytest.mark.parametrize("code", OTHERS)
def test_rules_learn_nearly_as_much_as_in_english(code):
    english = sum(bool(facts(row["en"])) for row in SAMPLE["statements"])
    assert sum(bool(facts(row[code])) for row in SAMPLE["statements"]) >= 0.95 * english


@pytest.mark.parametrize("code", OTHERS)
def test_questions_suppositions_and_small_talk_teach_nothing(code):
    assert [row[code] for row in SAMPLE["nothing"] if facts(row[code])] == []


@pytest.mark.parametrize("code", OTHERS)
def test_a_stored_fact_gives_the_slot_it_was_learned_with(code):
    for row in SAMPLE["statements"]:
        for text, _, slot in facts(row[code]):
            assert slot_in(text) == slot, text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ya no vivo en Oporto", ("El usuario ya no vive en Oporto", "personal", "user.home")),
        ("Mi hijo tiene seis años y me encanta el mar", ("Al usuario le encanta el mar", "preference", None)),
        ("Seit Mai wohne ich in Porto", ("Der Nutzer wohnt in Porto seit Mai", "personal", "user.home")),
        ("Ich esse gern Fisch mit meinem Bruder", ("Der Nutzer isst gern Fisch mit seinem Bruder", "preference", None)),
        ("我最好的朋友住在隔壁", ("用户的最好的朋友住在隔壁", "personal", "user.最好的朋友.home")),
        ("私は田舎に住んでいますが、海が好きです", ("ユーザーは田舎に住んでいます", "personal", "user.home")),
    ],
)
def test_a_fact_is_about_the_user_in_the_language_of_the_message(text, expected):
    assert expected in facts(text)


@pytest.mark.parametrize(
    "text",
    [
        "Mi hermana dice que vivo en Oporto", "Si tengo tiempo, vivo en Oporto", "Tengo una pregunta", "Tengo hambre",
        "Ich habe eine Frage", "Vielleicht wohne ich bald in Rom", "Mein Bruder sagt, ich wohne in Porto",
        "Ich habe Hunger",
        "我有一个问题", "我想他们以前在那儿玩过", "听说我住在北京", "我要走了",
        "質問があります", "彼らもロックが好きです", "もっと教えてください", "東京に住んでいると言っていました",
    ],
)  # fmt: skip
def test_what_is_not_said_of_the_user_for_good_is_not_learned(text):
    assert facts(text) == []


def test_a_message_in_another_language_says_that_only_a_model_reads_it():
    nothing = learned("Je vis à Paris avec ma femme et mes deux enfants").nothing
    assert (nothing[0].code, nothing[0].said) == ("language", "French")
    assert learned("¿Dónde vives?").nothing[0].code == "question"
    assert learned("Eso es muy bonito").nothing[0].code == "no_rule"


@given(st.text(alphabet="我在的是有住私はのがをel la yo tengo ich habe mein.。,、？ ", max_size=300))
def test_any_text_gives_facts_of_bounded_length_or_none(text):
    for rules in LANGUAGES.values():
        for fact in rules.facts_in(text):
            assert 0 < len(fact.text) <= 200
            assert fact.text.strip() == fact.text


def test_thousands_with_a_comma_are_no_age():
    assert facts("Our budget is 1,500 euros.") == [("The budget is 1,500 euros", "constraint", "budget")]
    assert facts("My cat is 3.") == [("The user's cat is 3 years old", "personal", "user.cat.age")]


# -- search ----------------------------------------------------------------------------------------


def test_characters_without_spaces_are_searched_in_pairs():
    assert keyword_terms("我 住 在 北 京 porto") == ["我住", "住在", "在北", "北京", "住", "北", "京", "porto"]
    assert keyword_terms("서울에 집 있다") == ["서울", "울에", "집", "있다"]
    assert keyword_terms("porto dog") == ["porto", "dog"]


def test_a_name_is_found_before_a_text_with_the_same_characters_apart():
    index = KeywordIndex()
    index.add({1: "京都的北边有山", 2: "他去了北京", 3: "今天天气好"})
    assert [hit.number for hit in index.search("北京", 3)] == [2, 1]
    index.add({4: "我住在东京"})
    assert index.search("东京", 1)[0].number == 4


@given(
    st.lists(st.text(alphabet="北京东住在猫 ab", max_size=12), max_size=6), st.text(alphabet="北京东ab ", max_size=6)
)
def test_texts_added_together_are_found_as_if_one_by_one(texts, query):
    together, one_by_one = KeywordIndex(), KeywordIndex()
    together.add(dict(enumerate(texts)))
    for number, text in enumerate(texts):
        one_by_one.add({number: text})
    also = {number: " ".join(stems(text)) for number, text in enumerate(texts)}
    assert together.search(query, 9) == one_by_one.search(query, 9) == KeywordIndex().scores(query, also=also).best(9)


def test_the_built_in_model_of_meaning_reads_latin_script_alone():
    embedder = MiniLMEmbedder()
    texts = ["Where is Zoë?", "我住在哪里", "Где я живу", "Ana 王 says hello", ""]
    assert [embedder.reads(text) for text in texts] == [True, False, False, True, True]


@pytest.mark.slow
def test_evidence_is_found_in_every_language_as_in_english(tmp_path):
    sys.path.insert(0, str(BENCHMARKS))
    import recall_measure
    from recall_data import Conversation, Line, Question

    found = {}
    for code in NAMES:
        lines = [row[code] for row in SAMPLE["statements"]]
        for place, row in enumerate(SAMPLE["nothing"]):
            lines.insert(3 * place + 1, row[code])
        questions = []
        for row in SAMPLE["questions"]:
            place = lines.index(SAMPLE["statements"][row["answered_by"]][code])
            questions.append(Question(row[code], "1", (place,), (place,)))
        talk = Conversation("languages", code, tuple(Line("user", line) for line in lines), tuple(questions))
        scores = recall_measure.measure(talk, [70], tmp_path).scores["70"]
        found[code] = sum(score.original or 0 for score in scores if score.tokens <= 70) / len(scores)
    assert all(found[code] >= 0.9 * found["en"] for code in OTHERS), found
    assert found["en"] > 0.9


def test_another_script_is_searched_by_words_alone():
    memory = Memory.from_recipe("vector", token_limit=200)
    memory.put_messages([ChatMessage(role="user", content=row["zh"]) for row in SAMPLE["statements"]])
    memory.flush(all=True)
    memory.deliver()
    assert memory.retrieval.search("我对什么过敏？").weights[0] == 0
    assert memory.retrieval.search("What am I allergic to?").weights[0] > 0
