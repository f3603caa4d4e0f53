"""What `Memory.trace` says of a phrase: "never said" only of what no message, fact or text holds in any order."""

import json
import random
import re
from unicodedata import normalize

import pytest
from engine_fakes import assistant, user

from memory_core import ChatMessage, FactExtractionMemoryBlock, Memory, StaticMemoryBlock, SummaryMemoryBlock
from memory_core.blocks.base import BaseMemoryBlock
from memory_core.messages import TextPart, ToolCallPart
from memory_core.planning import curation
from memory_core.planning.phrase_matching import Phrase
from memory_core.text import words

ARGUMENTS = {
    "passengers": [{"first_name": "Mei", "note": "aisle\nwheelchair"}],
    "seats": "7,9,11",
    "paymentMethod": "gift_card_4421",
}
TEXTS = [
    "Our son's birthday-dinner is on Friday at Luigi's, with 12 guests and a budget of 1,500 euros.",
    "**Flight Option 2:**\n- First Leg:\n  - Flight Number: HAT229\n  - Departs: *07:30*\n- Price: `$350`",
    "## Packing\n1. Sunscreen\n2. ~~Umbrella~~ **rain**coat\n3. Passport (expires 2031-04-09)",
    "Вчера мы купили билеты на поезд в Казань, а завтра поедем к бабушке.",
    "我们的生日晚餐很好吃。東京タワーの近くのホテルを予約しました。",
    "حجزنا غرفة في الفندق القديم قرب الميناء.",
    "ฉันแพ้ถั่วลิสงและอาหารทะเล",
    "우리는 내일 부산에서 할머니의 생일을 축하해요.",
    "Le café d'Émile à Orléans ferme tôt; l'avion part à midi.",
    "हम कल दिल्ली जाएँगे और पुराना किला देखेंगे।",
    "I can't eat shellfish 🦐, but I love mangoes 🥭!",
    "Die Straße nach Köln ist gesperrt, wir nehmen die Brücke.",
    "Das Geburtstagsessen (kein Kindergeburtstagskuchen) ist beim Schwiegervater, danach Kinderbetreuung. "
    "Bring your swimwear and the toothbrush.",
]


class Custom(BaseMemoryBlock[str]):
    name: str = "custom"

    def _get(self, messages=None, **kwargs):
        return "The custom block remembers a lighthouse in Stavanger."

    def _put(self, messages):
        return None


@pytest.fixture(scope="module")
def memory():
    memory = Memory.from_defaults(
        "words",
        token_limit=1_000,
        memory_blocks=[
            StaticMemoryBlock(
                name="core", static_content="The user prefers window seats.\nNever book red-eye flights."
            ),
            FactExtractionMemoryBlock(name="facts"),
            SummaryMemoryBlock(name="summary"),
            Custom(),
        ],
    )
    for number, text in enumerate(TEXTS):
        memory.put(user(text))
        memory.put(assistant(f"Noted, number {number}."))
        memory.build_context("What next?")
    call = ToolCallPart(tool_call_id="c1", tool_name="book_reservation", tool_kwargs=ARGUMENTS)
    memory.put(user("Book it, please."))
    memory.put(ChatMessage(role="assistant", parts=[TextPart(text="Booking."), call]))
    result = json.dumps({"status": "confirmed", "carrier": "Lufthansä\nCityLine", "gate": "B14"})
    memory.put(ChatMessage(role="tool", content=result, additional_kwargs={"tool_call_id": "c1"}))
    memory.put(assistant("It is booked."))
    desk = memory.facts.desk("facts")
    desk.apply(curation.add("Rui collects vinyl records from Lisbon."))
    memory.build_context("What next?")
    return memory


SPOKEN = [
    *TEXTS,
    "first_name Mei note aisle wheelchair seats 7 9 11 paymentMethod gift_card_4421 book_reservation",
    "status confirmed carrier Lufthansä CityLine gate B14",
    "Rui collects vinyl records from Lisbon",
    "The custom block remembers a lighthouse in Stavanger",
    "The user prefers window seats. Never book red-eye flights.",
]
NONSENSE = ["quetzalcoatl", "zzyzx", "брандмауэр", "麒麟", "غواصة", "🦖", "zeppelins", "HAT230", "9931", "ßqx"]


FORMS = [
    " ".join,
    lambda kept: " ".join(f"**{word}**" for word in kept),
    lambda kept: "\n".join(f"- {word}" for word in kept),
    json.dumps,
    lambda kept: normalize("NFD", " ".join(kept)),
    lambda kept: ", ".join(kept) + "!",
    lambda kept: kept[0],
]


PARTS = ["Geburtstag", "Essen", "Schwieger", "Vater", "Kinder", "Betreuung", "swim", "wear", "tooth", "brush", "Kuchen"]


def phrases(seed, number):
    """Phrases that were said, each worded otherwise: dropped, reordered, marked up, in JSON, in another form."""
    chosen = random.Random(seed)
    for _ in range(number):
        own = words(chosen.choice(SPOKEN))
        kept = [word for word in own if chosen.random() < chosen.choice((0.3, 0.6, 0.9))] or [chosen.choice(own)]
        if chosen.random() < 0.6:
            chosen.shuffle(kept)
        kept = kept[:8]
        if chosen.random() < 0.2:
            kept = [word.upper() if word.upper().lower() == word else word for word in kept]
        if chosen.random() < 0.1:  # half of a compound
            kept = [word[: len(word) // 2 + 1] if word.isalpha() and len(word) >= 8 else word for word in kept]
        yield chosen.choice(FORMS)(kept)


@pytest.mark.slow
def test_what_was_said_is_never_said_not_to_be(memory):
    missed = [phrase for phrase in phrases(27, 1_000) if not memory.trace(phrase).tracks]

    assert missed == []


@pytest.mark.slow
def test_what_has_a_word_that_occurs_nowhere_is_not_found(memory):
    chosen = random.Random(72)
    found = []
    for phrase in phrases(28, 400):
        split = phrase.split()
        split.insert(chosen.randrange(len(split) + 1), chosen.choice(NONSENSE))
        trace = memory.trace(" ".join(split))
        if trace.tracks and not trace.scattered.startswith("Never said in these words"):
            found.append(trace.asked)

    assert found == []


@pytest.mark.parametrize(
    ("phrase", "seq"),
    [
        ("Flight Option 2 HAT229", 2),
        ("HAT229 option", 2),
        ("raincoat passport", 3),
        ("dinner birthday Luigi", 1),
        ("бабушке Казань", 4),
        ("부산 할머니", 8),
        ("Koln".replace("o", "o\u0308") + " Bru\u0308cke", 12),
    ],
)
def test_all_words_in_one_message_give_the_trace_of_that_message(memory, phrase, seq):
    trace = memory.trace(phrase)
    message = next(each for each in memory.session.messages() if each.seq == 2 * seq - 1)

    assert {said.seq for said in trace.said} == {message.seq}
    if trace.scattered:
        assert trace.target is not None
        assert trace.target.number == message.seq
        assert f"one message of turn {message.turn}" in trace.origin
        assert trace.asked == message.message.content


@pytest.mark.parametrize(
    ("phrase", "where"),
    [
        ("Lisbon vinyl Rui", "fact"),
        ("seats never red-eye", "core"),
        ("Stavanger lighthouse", "custom"),
    ],
)
def test_words_that_no_message_has_are_found_in_what_has_them(memory, phrase, where):
    trace = memory.trace(phrase)

    assert trace.tracks
    assert where in (trace.tracks[0].carrier.block, trace.tracks[0].carrier.kind)


@pytest.mark.parametrize("part", PARTS)
def test_half_of_a_compound_is_found_as_a_part(memory, part):
    for phrase in (part, part.upper(), f"**{part}**", f"the {part}", f"danach {part}"):
        trace = memory.trace(phrase)
        assert trace.target is not None
        assert trace.asked == TEXTS[12]
        assert "longer word" in trace.origin


@pytest.mark.parametrize("phrase", ["trush", "able", "tags", "hair brush", "Geburtstag zebra", "eiter", "swims"])
def test_letters_within_a_word_are_not_a_part_of_it(memory, phrase):
    assert memory.trace(phrase).tracks == ()


def test_words_spread_over_several_messages_were_never_said_together(memory):
    trace = memory.trace("sunscreen shellfish mangoes")

    assert trace.tracks == ()
    assert trace.sentence.startswith("Never said together")
    assert trace.nearest.held == (2, 3)
    assert trace.nearest.seq == 21


@pytest.mark.parametrize("phrase", ["z", "🦖", "zebra", "x" * 10_000, "never " * 1_666 + "zebra", "?", "\u200b", "***"])
def test_what_nobody_said_is_never_found(memory, phrase):
    assert memory.trace(phrase).tracks == ()


@pytest.mark.parametrize("phrase", ["in " * 2_500, "a", "🦐", "🥭!", "$350", "B14", "11", "l'avion", "4421", "L’AVION"])
def test_short_phrases_are_found(memory, phrase):
    assert memory.trace(phrase).tracks


def test_every_word_of_a_long_phrase_counts():
    text = " ".join(f"word{number}" for number in range(1_500))
    assert Phrase.of(text).said_in(text)
    assert not Phrase.of(f"{text} zebra").said_in(text)
    assert not Phrase.of(f"{text} zebra").scattered.said_in(text)


def test_the_trace_of_what_was_not_said_word_for_word_has_fixes_about_its_message(memory):
    trace = memory.trace("HAT229 option")
    same = memory.trace(trace.target)

    assert trace.tracks == same.tracks
    assert trace.sentence == same.sentence
    assert [fix.label for fix in memory.trace.fixes(trace).offered] == [
        fix.label for fix in memory.trace.fixes(same).offered
    ]
    assert re.match("Not word for word; all these words are in one message of turn 2", trace.origin)
