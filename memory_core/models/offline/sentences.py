"""Split text into sentences and clauses, detect its language, and resolve "she" and "it". Pure, in linear time.

Sentences and clauses that state nothing are dropped: questions, suppositions ("if I lived in Rome"), quotations and
reported speech. `grammar.py` decides which clauses hold a fact.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.models.offline.grammar import (
    GROUP,
    RELATION,
    USER,
    ParsedClause,
    parse,
    pattern,
    strip_lead_in,
    word_set,
)
from memory_core.text import STOP_WORDS, words

SENTENCE_CHARACTERS = 600
"""Maximum characters read of a sentence, which bounds the work of the patterns."""
_ABBREVIATIONS = word_set(
    """
    mr mrs ms dr prof st jr sr no vs etc e.g i.e approx dept inc ltd co jan feb mar apr jun jul aug sep sept
    oct nov dec mon tue tues wed thu thur thurs fri sat sun a.m p.m min max tel
    """
)
_MAY_NOT_END = frozenset(["mr", "mrs", "ms", "dr", "prof", "st", "no", "vs", "e.g", "i.e", "approx", "dept", "tel"])
"""Abbreviations before a name or number, which never end a sentence; others end it if a capital follows."""
_END = pattern(r"[.!?…]{1,9}[\"”')\]]{0,3}(?=\s)|\n")
_OPENS = pattern(r"\s{1,3}(?:I|I'\w+|It|It's|That|That's|This|The|My|We|He|She|They|So|And|But)\b")
"""Openings of a sentence that no surname has: the letter before them is no initial."""
_QUOTED = pattern(r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|(?<![\w'])'[^'\n]{2,300}'(?!\w)|«[^»\n]{1,300}»")
_CODE = pattern(r"```.*?(?:```|\Z)", re.DOTALL)
_NAME_START = r"[A-Z][a-z]{1,30}"
_CLAUSE = pattern(
    r"\s{0,3}[;–—]\s{0,3}| -{1,2} "
    r"|,? (?:and|but|so|because|yet) (?:then |also |now )?"
    rf"(?=(?:I|I'm|I've|my|we|we're|we've|he|she|it|he's|she's|it's|they|they're|(?:the(?: [\w'-]{{1,25}}){{1,4}}?|"
    rf"{_NAME_START}) (?:is|are|was|were|has|had|starts|begins|costs|takes|likes|loves|hates))\b)"
    rf"|, (?=(?:(?:I|I'm|I've|my|we|we're|we've)|{_NAME_START} (?:is|has|likes|loves|hates))\b)"
)
_ASKED = pattern(
    r", (?:and |but |so )?(?=(?:do|does|did|can|could|would|will|are|is|have|has|should|what|which|how|"
    r"where|when|who|any)\b)"
)
_IN_FULL = {"gonna": "going to", "wanna": "want to", "gotta": "have to"}
_SPOKEN = pattern(r"\b(?:gonna|wanna|gotta)\b", re.IGNORECASE)
_SUPPOSED_SENTENCE = pattern(
    r"\b(?:if|unless|imagine|suppose|supposing|pretend|wish|assuming|let's say|hypothetically|as though)\b",
    re.IGNORECASE,
)
_SUPPOSED_CLAUSE = pattern(
    r"\b(?:would|wouldn't|could|couldn't|might|maybe|perhaps|possibly|probably|should)\b|\b\w{1,6}'d\b", re.IGNORECASE
)
_FRONTED = pattern(r"(?:during|when|whenever|while|after|before|on|at|every|each) ", re.IGNORECASE)
_HABIT = pattern(r"\b(?:always|usually|often|sometimes|normally|rarely|never)\b", re.IGNORECASE)
"""Words for a habit, which holds only at the time named before them: "during Thanksgiving, we usually watch films"."""
_REPORTED = pattern(
    r"(?:[\w',]{1,25} ){0,5}(?:said|says|told|tells|asked|asks|wrote|writes|claims|claimed|heard|according to)\b|"
    r".{0,600}, (?:she|he|they|[A-Z][a-z]{1,25}) (?:said|says|told me|wrote)$",
    re.IGNORECASE,
)


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of `text`; quotations are not cut, code and lines quoted with `>` are left out.

    >>> list(sentences('Dr. Lee costs 3.50 euros. "Go. Now." is a film'))
    ['Dr. Lee costs 3.50 euros.', '"Go. Now." is a film']
    """
    # One kind of apostrophe and line break from here on, so that the patterns need no variants.
    text = _CODE.sub("\n", text.replace("’", "'").replace("\r", "\n"))
    quotes = [match.span() for match in _QUOTED.finditer(text)]
    quote = start = 0
    for end in _END.finditer(text):
        # Both lists are in order of place, so one pass over each is enough.
        while quote < len(quotes) and quotes[quote][1] <= end.start():
            quote += 1
        # A full stop inside a quotation ends the sentence only if the quotation ends there, too.
        if quote < len(quotes) and quotes[quote][0] < end.start():
            following = text[end.end() : end.end() + 3].strip()[:1]
            # A lower-case letter continues the sentence around the quotation.
            if end.end() < quotes[quote][1] or following.islower():
                continue
        if _is_abbreviation(text, start, end):
            continue
        yield from _clean_sentence(text[start : end.end()])
        start = end.end()
    yield from _clean_sentence(text[start:])


def _clean_sentence(sentence: str) -> Iterator[str]:
    # Cut twice: first to bound the work, with room for the blanks that are then joined.
    sentence = " ".join(sentence[: SENTENCE_CHARACTERS * 2].split())[:SENTENCE_CHARACTERS]
    sentence = re.sub(r"^(?:[-*•#]{1,6} |\d{1,2}[.)] )", "", sentence)
    if sentence and not sentence.startswith(">"):
        yield sentence


def _is_abbreviation(text: str, start: int, end: re.Match[str]) -> bool:
    """Return whether the full stop at `end` belongs to the word before it: `Dr.`, `e.g.`, or an initial."""
    if end.group() != ".":
        return False
    before = text[max(start, end.start() - 12) : end.start()].split()
    word = before[-1].lstrip("(\"'") if before else ""
    if word.isdigit() and not text[start : end.start() - len(word)].strip():
        return True  # the number of a list
    # An initial, as in "J. Smith".
    if len(word) == 1 and word.isalpha() and word.isupper() and word != "I":
        return not _OPENS.match(text[end.end() :])
    if word.lower() not in _ABBREVIATIONS:
        return False
    following = text[end.end() : end.end() + 3].strip()[:1]
    # At the end of the text the full stop ends the sentence as well.
    return bool(following) and (word.lower() in _MAY_NOT_END or not following.isupper())


def clauses(text: str) -> Iterator[str]:
    """Yield the clauses of `text` that state something, each without the conjunction before it.

    >>> list(clauses("I live in Porto, do you know it? If I were rich, I would move."))
    ['I live in Porto']
    """
    for sentence in sentences(text):
        sentence = _SPOKEN.sub(lambda word: _IN_FULL[word[0].lower()], sentence)
        # One "if" puts the whole sentence in doubt, not only its clause.
        if _SUPPOSED_SENTENCE.search(sentence):
            continue
        stated = sentence
        if _asks(sentence):  # a statement may come before the question that ends it
            asked = next(_ASKED.finditer(sentence), None)
            stated = sentence[: asked.start()] if asked else ""
        fronted = False
        for clause in _parts(stated):
            # Words of habit or doubt inside a quotation say nothing about the clause.
            plain = _QUOTED.sub(" ", clause)
            if fronted and _HABIT.search(plain):
                continue
            fronted = bool(_FRONTED.match(plain))
            if clause[:1] in "\"“«'" or _SUPPOSED_CLAUSE.search(plain) or _REPORTED.match(plain):
                continue
            yield clause


def is_supposed(text: str) -> bool:
    """Return whether a sentence supposes something: "if I lived in Rome", "it might rain"."""
    return bool(_SUPPOSED_SENTENCE.search(text) or _SUPPOSED_CLAUSE.search(text))


def is_reported(text: str) -> bool:
    """Return whether a sentence reports what somebody said."""
    return _REPORTED.match(text) is not None


def only_asks(text: str) -> bool:
    """Return whether every sentence is a question and none states something first; False for an empty text.

    >>> only_asks("Where is Porto? How far?"), only_asks("I live in Porto, do you know it?")
    (True, False)
    """
    all_sentences = list(sentences(text))
    return bool(all_sentences) and all(map(_asks, all_sentences)) and next(clauses(text), None) is None


def _asks(sentence: str) -> bool:
    return sentence.rstrip("\"”')").endswith("?")


def _parts(sentence: str) -> Iterator[str]:
    quotes = [match.span() for match in _QUOTED.finditer(sentence)]
    start = 0
    for joint in _CLAUSE.finditer(sentence):
        if any(begin < joint.start() < end for begin, end in quotes):
            continue
        yield from filter(None, [sentence[start : joint.start()].strip(" ,.;!")])
        start = joint.end()
    yield from filter(None, [sentence[start:].strip(" ,.;!…")])


# -- languages -------------------------------------------------------------------------------------
# By a text's script, else by its most frequent short words. A list of those per language is enough for whole
# sentences ("vivo en Oporto con mi hermana"). It does not work for single words and names, which are left undecided.

ENGLISH = "English"

_SCRIPTS = (
    ("Japanese", pattern(r"[\u3040-\u30ff]")),  # before Chinese, whose characters Japanese uses too
    ("Chinese", pattern(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("Korean", pattern(r"[\uac00-\ud7af]")),
    ("Russian or Ukrainian", pattern(r"[\u0400-\u04ff]")),
    ("Greek", pattern(r"[\u0370-\u03ff]")),
    ("Arabic or Persian", pattern(r"[\u0600-\u06ff]")),
    ("Hebrew", pattern(r"[\u0590-\u05ff]")),
    ("Hindi", pattern(r"[\u0900-\u097f]")),
    ("Thai", pattern(r"[\u0e00-\u0e7f]")),
)
_SCRIPT_SHARE = 0.3
"""Fraction of a text's letters above which their script decides its language: names may be in another script."""

_SHORT_WORDS = {
    ENGLISH: STOP_WORDS | {"not", "no", "don't", "i'm", "it's", "isn't", "please", "thanks", "hello", "yes"},
    "Spanish": word_set(
        """
        a el la los las un una unos unas de del al en con por para que y o pero mi mis tu tus su sus me te se lo le les
        nos es soy eres somos está estoy estás están estamos fue era ser estar ha han hemos tengo tiene tienes tenemos
        hay muy más también no sí ya como cuando donde dónde adónde qué quién cuál cuántos cuándo cómo porque si este
        esta esto ese esa eso yo tú él ella nosotros ellos nuestro nuestra gusta gustan encanta ahora antes todas todos
        desde hasta sin sobre quiero puedo vivo trabajo hola gracias llamo quizás quizá
        hablo odio prefiero conduzco corro toco busco compré tomo vivimos aquí
        """
    ),
    "German": word_set(
        """
        der die das den dem des ein eine einen einem einer eines und oder aber ich du er sie es wir ihr mein meine
        meinen meinem meiner dein deine unser unsere ist sind bin bist war waren habe hat hast haben nicht kein keine
        keinen mit von zu zum zur im am in an auf für bei nach aus um über als auch noch schon nur sehr wie was wer wo
        wann warum dass wenn weil mir mich dir dich sich wird werden kann möchte heißt heiße jetzt jeden wohne arbeite
        wohnt magst mag guten liebe spiele esse trinke komme suche lerne fahre
        bitte danke hallo gern gerne
        """
    ),
    "French": word_set(
        """
        le la les un une des du de et ou mais je j'ai tu il elle nous vous ils mon ma mes ton ta son sa ses notre est
        suis sont était ai as avons ne pas que qui dans sur avec pour par au aux en ce cette c'est où quand comment
        très plus aussi à chez j'aime j'habite
        """
    ),
    "Italian": word_set(
        """
        il lo la gli le un una di del della e o ma io tu lui lei noi mio mia miei tuo suo sono è sei siamo ho hai ha
        non che chi con per da in su al alla nel nella mi ti si ci dove quando come perché molto più anche questo
        """
    ),
    "Portuguese": word_set(
        """
        o a os as um uma de do da dos das em no na nos nas e ou mas eu você ele ela nós meu minha meus minhas seu sua é
        sou são estou está tenho tem não que com por para se ao à onde quando como muito mais também isso moro
        """
    ),
    "Dutch": word_set(
        """
        de het een en of maar ik jij hij zij wij we mijn jouw zijn haar ons onze is ben bent was heb heeft hebben niet
        geen met van naar in op voor bij uit te dat die wie wat waar wanneer hoe ook nog al heel mij me je woon werk
        """
    ),
    "Swedish": word_set("jag du han hon vi ett och men är var har inte med av till på för om som min mitt mina i det"),
    "Polish": word_set("ja ty on ona my i oraz ale jest jestem są nie w na z do od za mój moja moje się że to mam"),
    "Turkish": word_set("ben sen o biz bir ve ama için ile benim bu şu var yok değil çok ne nerede adım da de mi"),
}
"""Frequent short words by language; a word of several languages counts for each."""

_SHARE = 0.2
"""Minimum fraction of a text's words that must be frequent short words of its language."""

_WORDS_READ = 300
"""Maximum words of a text that are looked at."""

_BY_ONE_WORD = ("Spanish", "German")
"""Languages whose lists hold the verbs of short sentences, so that a single word is enough: "soy vegano"."""
_ALSO_ENGLISH = word_set(
    "a am an as con de mi ya del die el en es gern hat hay in las los me no para se son so war was y"
)
"""Short words that are also English words, or occur in names: alone they are no sign of a language."""

_LETTER = re.compile(r"[^\W\d_]")


def language_of(text: str) -> str | None:
    """Return the English name of a text's language; None where it cannot be detected.

    >>> language_of("Vivo en Oporto con mi hermana"), language_of("我住在北京"), language_of("Ana")
    ('Spanish', 'Chinese', None)
    """
    # About eight characters a word, so that a long document costs no more than a short one.
    read = text[: _WORDS_READ * 8]
    # ASCII text is in none of the scripts, so they need not be counted.
    if not read.isascii():
        letters = len(_LETTER.findall(read))
        for language, script in _SCRIPTS:
            if len(script.findall(read)) > _SCRIPT_SHARE * letters:
                return language
    terms = words(read)[:_WORDS_READ]
    hits = {language: [term for term in terms if term in short] for language, short in _SHORT_WORDS.items()}
    best = max(hits, key=lambda language: len(hits[language]))  # of equals the first, so English before all others
    if best != ENGLISH:
        foreign = set(hits[best]) - _SHORT_WORDS[ENGLISH]
        # One foreign word may be a name or a loan, so most languages need two.
        if len(foreign) < 2 and (not foreign - _ALSO_ENGLISH or best not in _BY_ONE_WORD):
            return None
    return best if len(hits[best]) >= max(1, _SHARE * len(terms)) else None


def other_language(text: str) -> str | None:
    """Return a text's language if it is not English; None if it is English or cannot be detected.

    >>> other_language("Ich wohne in Porto"), other_language("I live in Porto")
    ('German', None)
    """
    language = language_of(text)
    return None if language == ENGLISH else language


# -- she and it ------------------------------------------------------------------------------------

_BARE_EVENT = pattern(
    r"(?:Dinner|Lunch|Brunch|Breakfast|Budget|Check-in|Check-out|Departure|Deadline)(?= (?:is|was|will|has|"
    r"starts|moved|begins)\b)"
)


def statement_of(clause: str, antecedent: str | None = None, thing: str | None = None) -> ParsedClause | None:
    """Return the statement of a clause, None if it has none; "he" and "she" mean `antecedent`, "it" means `thing`."""
    bare = strip_lead_in(clause)
    # A bare "Dinner is at eight" means the one dinner, as "The dinner" would.
    if event := _BARE_EVENT.match(bare):
        bare = f"The {event.group().lower()}{bare[event.end() :]}"
    return parse(bare, antecedent=antecedent, thing=thing)


_HE_OR_SHE = pattern(r"\s*(?:(?P<he>he)|she)\b", re.IGNORECASE)
_WOMAN = pattern(
    r"\b(?:sister|mother|mom|mum|wife|daughter|aunt|niece|girlfriend|grandmother|grandma)\b", re.IGNORECASE
)
_MAN = pattern(r"\b(?:brother|father|dad|husband|son|uncle|nephew|boyfriend|grandfather|grandpa)\b", re.IGNORECASE)
_NAMED = pattern(r"(?<=[\w,] )[A-ZÀ-Þ][a-zß-ÿ]+")


@dataclass(slots=True)
class Antecedents:
    """Referents of "she" and "it" in one text: the only person, and the only thing, named so far."""

    before: str | None = None
    """The only person of the message before, whom "she" means while this one names nobody; None if there is none."""
    people: list[str] = field(default_factory=list)
    things: list[str] = field(default_factory=list)

    def of_next(self, text: str, before: str, reply: str) -> "Antecedents":
        """Return those of the next message of the user: one that begins with "he" or "she" goes on about the person.

        Not if the words `before` call that person by the other, or the `reply` to them names somebody else.
        """
        match, person = _HE_OR_SHE.match(text), self.person
        other = match and (_WOMAN if match["he"] else _MAN).search(before)
        if not match or not person or other or any(name not in person for name in _NAMED.findall(reply)):
            return Antecedents()
        return Antecedents(person)

    @property
    def person(self) -> str | None:
        """The only person named so far; None if none or several are."""
        # With two people named, "she" could be either, and a wrong guess would be a false fact.
        return self.people[0] if len(self.people) == 1 else None if self.people else self.before

    def read(self, clause: str) -> ParsedClause | None:
        """Return the statement of the next clause (None: it has none), and note its subject."""
        antecedent = self.person
        thing = self.things[0] if len(self.things) == 1 else None
        statement = statement_of(clause, antecedent, thing)
        if statement is not None:
            self._note(statement.subject)
        return statement

    def meet(self, person: str) -> None:
        """Note a person who was named beside the subject of a clause."""
        if person not in self.people:
            self.people.append(person)

    def _note(self, subject: str) -> None:
        # The user and their group are never "she" or "it".
        if subject in (USER, GROUP):
            return
        somebody = not subject.startswith(("The ", "Project ")) or re.fullmatch(rf"{USER}'s {RELATION}", subject)
        # A possession such as "Ana's car" may be anything, so it is counted as a thing.
        if "'s" in subject.removeprefix(USER + "'s") and not re.search(rf"'s {RELATION}$", subject):
            somebody = None
        place = self.people if somebody else self.things
        if subject not in place:
            place.append(subject)


@dataclass(slots=True)
class Heard:
    """Last words of the user and the reply to them, for the antecedents of the user's next message."""

    antecedents: Antecedents = field(default_factory=Antecedents)
    text: str = ""
    reply: str = ""

    def hear(self, message: ChatMessage) -> Antecedents | None:
        """Note a message; return the antecedents to read it with, None unless it is the user's."""
        text = message_text(message)
        if message.role is not MessageRole.USER:
            self.reply += f" {text}"
            return None
        self.antecedents = self.antecedents.of_next(text, self.text, self.reply)
        self.text, self.reply = text, ""
        return self.antecedents
