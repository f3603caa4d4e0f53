"""Split text into sentences and clauses, and drop those that state nothing. Pure, in linear time.

Dropped are questions, suppositions ("if I lived in Rome"), quotations and reported speech. `grammar.py` decides which
clauses hold a fact.
"""

import re
from collections.abc import Iterator

from memory_core.models.offline.grammar import word_set
from memory_core.models.offline.patterns import pattern

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
        if _asks(sentence):
            stated = _before_the_question(sentence)
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


def _before_the_question(sentence: str) -> str:
    """Return the statement before the question that ends a sentence; empty when it is all question."""
    asked = list(_ASKED.finditer(sentence))
    return sentence[: asked[0].start()] if asked else ""


def _parts(sentence: str) -> Iterator[str]:
    quotes = [match.span() for match in _QUOTED.finditer(sentence)]
    start = 0
    for joint in _CLAUSE.finditer(sentence):
        if any(begin < joint.start() < end for begin, end in quotes):
            continue
        yield from filter(None, [sentence[start : joint.start()].strip(" ,.;!")])
        start = joint.end()
    yield from filter(None, [sentence[start:].strip(" ,.;!…")])
