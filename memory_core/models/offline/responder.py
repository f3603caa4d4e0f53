"""A responder without a language model: it answers from the context it is given, by rules, or says it does not know.

The responder has no knowledge of its own. Every answer repeats a fact of the memory section or something the user said,
and says which; if nothing in the context answers a question, the reply is "I don't know".
"""

import math
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice

from memory_core.errors import ConfigError, ModelRequestError
from memory_core.messages import ChatMessage, MessageRole, ToolCallPart
from memory_core.models.offline.clauses import sentences
from memory_core.models.offline.extractor import facts_in
from memory_core.models.offline.grammar import BASE, RELATION, strip_lead_in, word_set
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.tool_calls import MEMORY, reply_about_tool_calls, tool_calls
from memory_core.models.protocols import Answer, ModelCall, ToolSpec
from memory_core.text import shortened, similarity, stems

NAME = "Offline: rules, not a language model"
ENOUGH = 0.4
"""Minimum fraction of a question's words, weighted by rarity, that an answer must contain. Set by hand."""
MANY_CHARACTERS = 100_000
"""Maximum characters that are read of one message or memory section; nobody types more."""

_ITEM = pattern(
    r"<fact>(?P<fact>.*?)</fact>|<relation>(?P<relation>.*?)</relation>|"
    r"<message role='(?P<role>\w+)'>(?P<said>.*?)</message>|(?P<line>[^<\n]{2,})",
    re.DOTALL,
)
_FORMER = pattern(r"^.*<former>.*$", re.MULTILINE)
_ADMITS = pattern(
    r"\b(?:I (?:don't|do not|can't|cannot) (?:\w+ )?(?:know|have|remember|recall|find)|"
    r"I have (?:nothing|no (?:\w+ )?(?:information|record|note|memory|idea|details?))|I(?:'m| am) not (?:sure|aware)|"
    r"you (?:haven't|have not|never|didn't|did not) (?:\w+ )?(?:told|tell|mention|said|say|share|specif)\w*|"
    r"(?:was|were|been) (?:not|never) mentioned)\b",
    re.IGNORECASE,
)
_GREETING = pattern(
    r"(?:hi|hello|hey|good (?:morning|afternoon|evening)|greetings)\b(?:[ ,]+\w{2,20}){0,3}[.! ]*", re.I
)
_THANKS = pattern(r"(?:(?:ok|okay|great|perfect|wonderful),? )?(?:many )?(?:thanks|thank you)\b[^?]{0,60}", re.I)
_QUESTION = pattern(
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|am|was|were|do|does|did|can|could|will|would|"
    r"should|has|have|"
    r"any|tell me|remind me|do you|what's|who's|when's|where's)\b",
    re.IGNORECASE,
)
_ORDER = pattern(
    r"(?:please )?(?:suggest|recommend|book|find|make|write|plan|list|give|show|help|summari[sz]e|draft|"
    r"check|send|create|"
    r"order|call me back|look|search|propose|pick|choose|explain|describe|translate)\b",
    re.IGNORECASE,
)
_TOLD_TO_ASSISTANT = pattern(r"(?:you|your|never|always|do not|don't|be|answer|help|use|reply)\b", re.IGNORECASE)
_EMPTY_WORDS = """
    know remember tell say remind anything something again please think thing mind keep idea exactly now
    currently today supposed going let much many still sure good best happen mention told said like
"""
"""Words of a question that no answer needs to repeat."""
_CONCEPTS = (
    "budget spend cost price money limit afford pay expensive euros dollars pounds",
    "eat food diet vegetarian vegan allergic allergy allergies meal dish menu avoid meat gluten",
    "live home house address move moved lives",
    "job work employer company profession",
    "date day time when start begin",
    "birthday born turns",
    "name called",
    "hobby hobbies enjoy free fun love likes interests",
    "guest guests people come coming invited attend",
)
"""Everyday words that count as synonyms when a question is matched."""
_WHEN = pattern(r"\b(?:when|what (?:date|day|time)|which (?:date|day)|how soon)\b", re.IGNORECASE)
_AMOUNT = pattern(r"\bhow (?:much|many|old|long|big)\b", re.IGNORECASE)
_WHERE = pattern(r"\bwhere\b", re.IGNORECASE)
_PLACED = pattern(r"\b(?:in|at|from|near|to) (?:the )?[A-ZÀ-Þ]|\b(?:behind|near|next to|opposite) ")
_WHO = pattern(r"\bwho\b", re.IGNORECASE)
_DATED = pattern(
    r"\b(?:january|february|march|april|may|june|july|august|september|october|november|december|\w+day|"
    r"tomorrow|tonight|"
    r"noon|midnight|next \w+|\d{1,2}[:.]\d\d|\d{1,2} ?[ap]\.?m|\d{4})\b",
    re.IGNORECASE,
)
_SELF = pattern(r"\b(?:do|am|did|have|can|should|was|will|would) I\b|\babout me\b")
_FIRST = pattern(r"\b(?:I|my|me|we|our|us|mine|I'm|I've)\b|\bthe user\b", re.IGNORECASE)
_SECOND = {
    "i": "you", "i'm": "you are", "i've": "you have", "i'll": "you will", "i'd": "you would", "my": "your", "me": "you",
    "mine": "yours", "myself": "yourself", "am": "are", "we": "you", "we're": "you are", "we've": "you have",
    "our": "your", "us": "you", "ours": "yours", "ourselves": "yourselves",
}  # fmt: skip


class OfflineResponder:
    """Responder that answers from the memory section and the recent messages, without a language model.

    Args:
        pace_seconds: pause between the words of a streamed reply.
    """

    name = NAME
    offline = True

    def __init__(self, pace_seconds: float = 0.0) -> None:
        if not 0 <= pace_seconds < 60:
            raise ConfigError(f"must be between 0 and 60: {pace_seconds=}")
        self._pace_seconds = pace_seconds

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> "OfflineStream":
        """Start a reply; with `tools` offered and something to write down or look up, it consists of tool calls."""
        started = time.monotonic()
        calls = tool_calls(messages, tools) if tools else ()
        return OfflineStream("" if calls else compose_reply(messages), self._pace_seconds, started, calls)

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> tuple[Answer, ModelCall]:
        """Refuse: a structured answer is not possible by rules.

        Raises:
            ModelRequestError: always.
        """
        raise ModelRequestError("Structured answers need a language model. Set OPENAI_API_KEY or OPENAI_BASE_URL.")


class OfflineStream:
    """Stream of one reply's words. Closing it ends a pause between them at once."""

    def __init__(self, text: str, pace_seconds: float, started: float, calls: tuple[ToolCallPart, ...] = ()) -> None:
        self.call: ModelCall | None = None
        self.tool_calls: tuple[ToolCallPart, ...] = ()
        self._calls = calls
        self._text = text
        self._pace_seconds = pace_seconds
        self._started = started
        self._closed = threading.Event()

    def close(self) -> None:
        self._closed.set()

    def __iter__(self) -> Iterator[str]:
        for number, match in enumerate(re.finditer(r"\S+\s*", self._text)):
            # The pause comes between words, and ends at once when the stream is closed.
            if self._pace_seconds and number:
                self._closed.wait(self._pace_seconds)
            if self._closed.is_set():
                return
            yield match.group()
        # Only after the last word, as for a model: a stopped reply makes no calls.
        self.tool_calls = self._calls
        self.call = ModelCall("reply", NAME, None, None, time.monotonic() - self._started)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """Candidate sentence for an answer."""

    text: str
    said: bool
    """True for the user's own words, False for a fact."""


def compose_reply(messages: Sequence[ChatMessage]) -> str:
    """Return the reply to the last user message; after tool calls, a reply about their results."""
    # Results of tools come first, or the same request would be answered anew.
    if reported := reply_about_tool_calls(messages):
        return reported
    memory_sentences, last = _read(messages)
    # More than 200 sentences are no question of a person; the bound keeps the answer quick.
    asked = list(islice(sentences(last), 200))
    questions = [sentence for sentence in asked if _is_question(sentence)]
    statements = [sentence for sentence in asked if sentence not in questions]
    if questions:
        # The other sentences of the message may hold the answer, as the newest thing said.
        memory_sentences += [
            _Sentence(sentence, said=True) for sentence in statements if not _GREETING.fullmatch(sentence)
        ]
        return _answer(questions[-1], memory_sentences)
    content = [
        sentence for sentence in statements if not _GREETING.fullmatch(sentence) and not _THANKS.fullmatch(sentence)
    ]
    if not content:
        if any(_THANKS.fullmatch(sentence) for sentence in statements):
            return "You're welcome."
        return f"Hello{_name_of_user(memory_sentences)}. What would you like to talk about?"
    return _acknowledge(content)


def admits(reply: str) -> bool:
    """Tell whether a reply, of rules or a model, says that it does not know something.

    >>> admits("As for the menu, I have nothing about what Rui eats."), admits("Rui eats no meat.")
    (True, False)
    """
    return bool(_ADMITS.search(reply[:MANY_CHARACTERS].replace("’", "'")))


def answering(messages: Sequence[ChatMessage]) -> list[str]:
    """Return the user's earlier sentences that answer the last user message, by the rules of a reply."""
    statements, last = _read(messages)
    questions = [sentence for sentence in islice(sentences(last), 200) if _is_question(sentence)]
    return [item.text for item in _choose(questions[-1], statements) if item.said] if questions else []


def _read(messages: Sequence[ChatMessage]) -> tuple[list[_Sentence], str]:
    """Return known statements, oldest first (memory before recent messages), and the last user message by itself."""
    memory: list[_Sentence] = []
    recent: list[_Sentence] = []
    last = ""
    users = [index for index, message in enumerate(messages) if message.role is MessageRole.USER]
    for index, message in enumerate(messages):
        if message.role not in (MessageRole.SYSTEM, MessageRole.USER):
            continue
        text = message.content or ""
        for section in MEMORY.finditer(text):
            memory += _remembered(section[1][-MANY_CHARACTERS:])
        text = MEMORY.sub("", text)
        if users and index == users[-1]:
            last = text[:MANY_CHARACTERS]
        elif message.role is MessageRole.USER:
            recent += [_Sentence(sentence, said=True) for sentence in sentences(text[:MANY_CHARACTERS])]
    # Earlier questions of the user would match a repeated question best, and answer nothing.
    statements = [item for item in memory + recent if not (item.said and _is_question(item.text))]
    # The newest, as later statements correct earlier ones.
    return statements[-2000:], last


def _remembered(section: str) -> Iterator[_Sentence]:
    """Yield a memory section's sentences: facts, relations, the user's words, and lines that are no instructions."""
    # Values marked as former are no answer; the present value is in the section as well.
    items = list(_ITEM.finditer(_FORMER.sub("", section)))
    related = [item["relation"].strip() for item in items if item["relation"] is not None]
    # Chains first: of equally good sentences the later one wins, so that single facts come before chains.
    yield from (_Sentence(text, said=False) for text in joined(related))
    for item in items:
        if item["fact"] is not None:
            yield _Sentence(item["fact"].strip(), said=False)
        elif item["relation"] is not None:
            yield _Sentence(item["relation"].strip(), said=False)
        elif item["role"] is not None:
            # What the assistant said is no evidence for an answer.
            if item["role"] == "user":
                yield from (_Sentence(sentence, said=True) for sentence in sentences(item["said"]))
        else:
            for sentence in sentences(item["line"]):
                if re.search(r"\w", sentence) and not _TOLD_TO_ASSISTANT.match(sentence):
                    yield _Sentence(sentence, said=False)


def _is_question(sentence: str) -> bool:
    bare = strip_lead_in(sentence)
    return sentence.rstrip("\"”') ").endswith("?") or bool(_QUESTION.match(bare) or _ORDER.match(bare))


def _name_of_user(statements: Sequence[_Sentence]) -> str:
    for item in reversed(statements):
        if match := re.match(r"The user's name is (.+?)\.?$", item.text):
            return f", {match[1]}"
    return ""


# --- answering


def _answer(question: str, statements: Sequence[_Sentence]) -> str:
    chosen = _choose(question, statements)
    if not chosen:
        if _ORDER.match(strip_lead_in(question)):
            return "I cannot do that: I answer by rules, without a language model, and only from what I remember."
        return f'I don\'t know. Nothing I remember answers "{shortened(question, 160).strip()}"'
    facts = [second_person(item.text) for item in chosen if not item.said]
    quoted = [item.text.rstrip(" .") for item in chosen if item.said]
    parts = []
    if facts:
        parts.append(f"From what I remember: {'; '.join(facts)}.")
    if quoted:
        parts.append(f"{'You also' if facts else 'Earlier you'} said: {' '.join(f'“{text}.”' for text in quoted)}")
    return " ".join(parts)


def _choose(question: str, statements: Sequence[_Sentence]) -> list[_Sentence]:
    """Return the one to three sentences that answer `question`; none when nothing matches well enough."""
    asked = _Asked(question, statements)
    scored = [
        (score, place) for place, item in enumerate(statements) if (score := asked.score(item, place)) is not None
    ]
    if not scored:
        return []
    # Of equal scores the later statement wins, as it is more current.
    scored.sort(key=lambda pair: (-pair[0], -pair[1]))
    most = 3 if asked.open else 2
    # A question about a name alone is open: everything about the name answers it, so more is allowed.
    margin = 1.0 if asked.open else 0.12
    chosen: list[_Sentence] = []
    for score, place in scored:
        if len(chosen) == most or score < scored[0][0] - margin:
            break
        # A closed answer does not mix facts and quotations: it has the kind of the best sentence.
        alike = not chosen or asked.open or statements[place].said == chosen[0].said
        if alike and not any(_repeats(statements[place].text, other.text) for other in chosen):
            chosen.append(statements[place])
    return chosen


def _repeats(text: str, other: str) -> bool:
    joined_alike = not set(text.split("; ")).isdisjoint(other.split("; "))
    return joined_alike or similarity(text, other) >= 0.5


class _Asked:
    """Parsed question, to score sentences against."""

    def __init__(self, question: str, statements: Sequence[_Sentence]) -> None:
        self._question = question
        bags = [_concepts(set(stems(item.text))) for item in statements]
        self._bags = bags
        counts = Counter(stem for bag in bags for stem in bag)
        # Capitals at the beginning of the question or of a sentence are no names.
        capitals = re.findall(r"(?<!^)(?<![.!?] )\b[A-ZÀ-Þ][\w'’-]+", question)
        names = {stem for word in capitals for stem in stems(word)}
        words = [stem for stem in dict.fromkeys(stems(question)) if stem not in _empty()]
        relatives = self._relatives(question, statements)
        if relatives:
            names |= {stem for name in relatives.values() for stem in stems(name)}
            # The name stands for the relative: a fact about Ana need not say "sister".
            words = [word for word in words if word not in {stem for what in relatives for stem in stems(what)}]
        self._names = names
        self._terms = {word: _weight(counts, word, len(statements)) for word in words if word not in names}
        self.open = not self._terms
        self._about_self = bool(_SELF.search(question)) and not names
        self._number = max(1, len(statements))

    @staticmethod
    def _relatives(question: str, statements: Sequence[_Sentence]) -> dict[str, str]:
        """Return the names of the user's relatives that the question mentions: `{"sister": "Ana"}`."""
        result = {}
        for what in re.findall(rf"\bmy ({RELATION})\b", question, re.IGNORECASE):
            for item in statements:
                named = re.match(rf"(\w+) is the user's (?:\w+ )?{re.escape(what)}\b", item.text, re.IGNORECASE)
                if named:
                    result[what] = named[1]
        return result

    def score(self, item: _Sentence, place: int) -> float | None:
        """Score how well `item`, at index `place`, answers the question; None if it does not."""
        bag = self._bags[place]
        if self._names and not any(bag & _with_concept(name) for name in self._names):
            return None
        # A question about the user is not answered by facts about others.
        if self._about_self and not _FIRST.search(item.text):
            return None
        # Nothing is left to match: any sentence would fit, so none does.
        if not self._terms and not self._names and not self._about_self:
            return None
        total = sum(self._terms.values())
        matched = sum(weight for term, weight in self._terms.items() if bag & _with_concept(term))
        coverage = matched / total if total else 1.0
        # Better no answer than one about something else.
        if coverage < ENOUGH:
            return None
        exact = sum(1 for term in self._terms if term in bag) / len(self._terms) if self._terms else 0.0
        fits = self._fits(item.text)
        if fits is None:
            return None
        # At most a tenth of a point, so that newness decides only between equal matches.
        recent = 0.1 * place / self._number
        return coverage + 0.3 * exact + fits + recent

    def _fits(self, text: str) -> float | None:
        """Return a bonus for the kind of answer asked for; None if `text` cannot hold it."""
        if _WHEN.search(self._question):
            return 0.3 if _DATED.search(text) else None
        if _AMOUNT.search(self._question):
            return (
                0.3 if re.search(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b", text) else None
            )
        if _WHERE.search(self._question):
            return 0.3 if _PLACED.search(text) else 0.0
        if _WHO.search(self._question):
            return 0.2 if re.search(r"\bis (?:the user's|\w+'s|my|a|an)\b", text) else 0.0
        return 0.0


def _weight(counts: Counter[str], word: str, total: int) -> float:
    """Return the weight of a word: about 1 if every statement holds it, up to 2 if none does."""
    count = max((counts[stem] for stem in _with_concept(word)), default=0)
    return 2.0 if count == 0 else 1 + math.log((total + 1) / count) / math.log(total + 2)


@cache
def _empty() -> frozenset[str]:
    """Return the stems of `_EMPTY_WORDS`."""
    return frozenset(stems(_EMPTY_WORDS))


@cache
def _groups() -> tuple[frozenset[str], ...]:
    """Return the stems of each group of `_CONCEPTS`."""
    return tuple(frozenset(stems(row)) for row in _CONCEPTS)


def _with_concept(stem: str) -> frozenset[str]:
    """Return a stem, and a marker for every group of `_CONCEPTS` that it belongs to."""
    return frozenset([stem, *(f"#{number}" for number, group in enumerate(_groups()) if stem in group)])


def _concepts(bag: set[str]) -> set[str]:
    return bag | {f"#{number}" for number, group in enumerate(_groups()) if bag & group}


# --- wording


def _acknowledge(statements: Sequence[str]) -> str:
    """Return a short "noted" with the understood facts, or with the first words if no rule matched."""
    facts = list(islice((fact.text for fact in facts_in(" ".join(statements))), 3))
    if facts:
        return f"Noted: {'; '.join(second_person(fact) for fact in facts)}."
    first = strip_lead_in(statements[0]).strip(" .!…")
    # Words to the assistant read oddly when turned around.
    if re.search(r"\byou(?:r|rs|'re|'ve)?\b", first, re.IGNORECASE) or len(first) > 160:
        return "Noted."
    return f"Noted: {_lower_start(_turned(first))}."


def _turned(text: str) -> str:
    """Return the user's words in the second person: "I park there" becomes "you park there"."""
    return re.sub(r"\b[A-Za-z]+(?:'[a-z]+)?", lambda match: _SECOND.get(match[0].lower(), match[0]), text)


def second_person(fact: str) -> str:
    """Return a fact in the second person, to follow a colon.

    >>> second_person("The user lives in Porto")
    'you live in Porto'
    """
    text = re.sub(r"\b[Tt]he user's\b", "your", fact.strip(" ."))
    text = re.sub(
        r"\b[Tt]he user (?P<adverbs>(?:(?:always|usually|often|sometimes|still|never|only|normally|rarely|"
        r"no longer) )*)"
        r"(?P<verb>\w+)",
        _second_verb,
        text,
    )
    return _lower_start(re.sub(r"\b[Tt]he user\b", "you", text))


def _second_verb(match: re.Match[str]) -> str:
    forms = {"is": "are", "was": "were", "has": "have", "does": "do"} | BASE
    return f"you {match['adverbs']}{forms.get(match['verb'], match['verb'])}"


def _lower_start(text: str) -> str:
    first = text.split(" ", 1)[0]
    ordinary = first.lower() in _OPENERS or (first[:1].isupper() and first.lower() in BASE)
    return text[0].lower() + text[1:] if ordinary else text


_OPENERS = word_set(
    """
    the a an this that these those there here it you your he she they we my our keep please at no in on for
    from with everyone nobody dinner lunch budget one two three four five all some most both
    """
)
"""Words that are capitalised only because a sentence begins with them."""


# -- relations that continue each other --------------------------------------------------------

MAX_JOINED = 300
"""Maximum number of joined sentences."""


def joined(relations: Sequence[str]) -> list[str]:
    """Return sentences of two or three relations each, wherever one continues another; sentences of three first.

    >>> joined(["Alice manages Project Alpha", "Project Alpha deadline March 2026"])
    ['Alice manages Project Alpha; Project Alpha deadline March 2026']
    """
    # Relations by their first word, so that no pair is compared that cannot follow.
    first_words: dict[str, list[str]] = {}
    for relation in dict.fromkeys(relations):
        if relation.strip():
            first_words.setdefault(relation.split()[0], []).append(relation)
    pairs = [
        (one, other) for several in first_words.values() for one in several for other in _following(one, first_words)
    ][:MAX_JOINED]
    # A relation may not occur twice in a chain, or two that name each other would go in a circle.
    triples = [
        (one, two, three) for one, two in pairs for three in _following(two, first_words) if three not in (one, two)
    ]
    return ["; ".join(chain) for chain in (*triples, *pairs)][:MAX_JOINED]


def _following(relation: str, first_words: dict[str, list[str]]) -> Iterator[str]:
    """Yield the relations that begin with the last words of `relation`."""
    words = relation.split()
    for length in range(len(words) - 2, 0, -1):  # subject and predicate precede the shared part
        for other in first_words.get(words[-length], ()):
            if other != relation and len(other.split()) > length and other.split()[:length] == words[-length:]:
                yield other
