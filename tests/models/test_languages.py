"""Languages: which one a text is in, that rules learn from English alone, and what keyword search finds."""

import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_core import ChatMessage, FactExtractionMemoryBlock, GraphMemoryBlock, Memory
from memory_core.models.embedding import MiniLMEmbedder
from memory_core.models.offline.fact_extraction import RuleExtractor
from memory_core.models.offline.sentences import language_of
from memory_core.models.relating import RuleRelations
from memory_core.text import keyword_terms, stems
from memory_core.vectors.keyword import KeywordIndex
from memory_inspector.wording.event_sentences.event_words import describe, present_words

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
SAMPLE = json.loads((BENCHMARKS / "languages.json").read_text(encoding="utf-8"))
NAMES = {"en": "English", "es": "Spanish", "de": "German", "zh": "Chinese", "ja": "Japanese"}
OTHERS = ["es", "de", "zh", "ja"]


def facts(text):
    found = RuleExtractor().extract([ChatMessage(role="user", content=text)], known=[]).facts
    return [(fact.text, fact.category, fact.slot) for fact in found]


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
        ("Soy vegano", "Spanish"),
        ("Ich wohne in Porto", "German"),
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


IN_OTHERS = {
    "Spanish": "Vivo en Oporto con mi hermana y mis hijos.",
    "German": "Ich wohne mit meiner Schwester in Porto.",
    "Chinese": "我住在北京，对花生过敏。",
    "Japanese": "私は東京に住んでいます。",
    "French": "Je vis à Paris avec ma femme et mes deux enfants.",
    "Russian or Ukrainian": "Я живу в Москве.",
}


@pytest.mark.parametrize(
    ("learn", "what"), [(RuleExtractor().extract, "facts"), (RuleRelations().relations, "relations")]
)
@pytest.mark.parametrize("code", OTHERS)
def test_rules_learn_nothing_in_another_language_and_name_it(learn, what, code):
    messages = [ChatMessage(role="user", content=row[code]) for part in SAMPLE.values() for row in part]
    found = learn(messages, known=[])
    assert not getattr(found, what)
    reasons = [(found.nothing[place].code, found.nothing[place].said) for place in range(len(messages))]
    assert reasons.count(("language", NAMES[code])) >= 0.97 * len(messages)


@pytest.mark.parametrize(("language", "text"), IN_OTHERS.items())
@pytest.mark.parametrize("block", [FactExtractionMemoryBlock, GraphMemoryBlock])
def test_the_log_and_the_trace_say_that_only_a_model_reads_it(block, language, text):
    memory = Memory.from_defaults("s", memory_blocks=[block(name="Learner")])
    for words in (text, f"{text[:-1]}?"):
        memory.put_messages([ChatMessage(role="user", content=words)])
    memory.flush(all=True)
    events = memory.events(kinds=["nothing_learned"])
    sentences = [describe(record.event, present_words(memory, events)).text for record in events]
    assert sentences == ["Learner learned nothing from 2 messages: 2 in a language that only a model reads"]
    memory.put(ChatMessage(role="user", content="What now?"))
    memory.build_context()
    lost = memory.trace(text).decisive
    assert (lost.name, lost.rule) == ("learned", "language")
    assert lost.text.endswith(f": the message is in {language}, which only a model reads.")


@pytest.mark.parametrize("text", IN_OTHERS.values())
def test_what_only_a_model_reads_is_stored_and_found(text):
    memory = Memory.from_recipe("vector", token_limit=200)
    for words in (text, "Nice weather today.", "The train was late."):
        memory.put_messages([ChatMessage(role="user", content=words)])
    memory.flush(all=True)
    memory.deliver()
    assert text in memory.retrieval.search(text).found[0].words


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
