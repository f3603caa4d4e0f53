"""Facts from messages by rules, without a language model, and what rules do with known facts.

A rule reads one `ParsedClause` (or one clause of a fixed shape, such as "keep it under 300 euros") and
gives facts about the user and the people and plans they name, in one form: "The user lives in Porto",
"Ana is allergic to nuts", "The dinner is on 14 March". Only English is read.
Where no rule is sure, nothing is learned: a missed fact can be added by hand, but a fact that was never said should
not exist.
"""

import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from heapq import nlargest
from itertools import chain

from memory_core.messages import ChatMessage, MessageRole, TextPart, message_text
from memory_core.models.offline.fact_rules import (
    aiming,
    being,
    budget,
    called,
    doing,
    having,
    living,
    naming,
    relatives,
    standing_instruction,
    tasting,
)
from memory_core.models.offline.grammar import (
    BASE,
    FILLER_AIM,
    GROUP,
    NAME,
    NUMBER,
    USER,
    ParsedClause,
    pattern,
    strip_lead_in,
)
from memory_core.models.offline.relative_dates import relative_words, resolved
from memory_core.models.offline.sentence_rules import described, has_verb, restated, with_specifics
from memory_core.models.offline.sentences import (
    Antecedents,
    Heard,
    clauses,
    only_asks,
    other_language,
    sentences,
    statement_of,
)
from memory_core.models.offline.wording import YOU, StatedFact, clean, concrete, in_third_person, stands_alone
from memory_core.models.protocols import (
    Condensation,
    CondensedFact,
    ExtractedFact,
    Extraction,
    LearnsInContext,
    NothingFound,
    RuleBased,
)
from memory_core.planning.fact_merging import Fact, relevance
from memory_core.planning.learning_outcomes import unread
from memory_core.planning.slots import STATUS, Slot, comes_back, single_slot
from memory_core.planning.speakers import parse_message
from memory_core.text import agreement_key, similarity, stems

# -- doubts ----------------------------------------------------------------------------------------
# Facts here make sense alone but leave a question open: which project, which tour. A person can answer it, or reject
# the fact, before a model sees it.

_NAMED = pattern(r"(?<!^)\b(?!I\b)[A-ZÀ-Þ][\w'’-]+|[\"“\d]")
"""A name, title or number after the first word: the fact can be found by it."""

_THINGS = (
    "stuff|things?|projects?|leads?|items?|essentials|places?|tours?|trips?|road trips?|books?|movies?|films?|shows?|"
    "games?|card games?|events?|snacks?|series|pieces?|ideas?|plans?|techniques|lessons|skills|"
    "(?:programming )?languages?"
)
_OF_NO_HELP = (
    "new|newly released|old|good|great|nice|cool|fun|interesting|amazing|awesome|possible|pretty|really|short|long|big"
)
_WHICH = pattern(
    rf"\b(?:an?|some|any|several|a few|a couple of|lots of|a lot of|abstract) (?:(?:{_OF_NO_HELP}) ){{0,2}}"
    rf"(?P<what>{_THINGS})(?: (?:in the works|lately|recently|today|yesterday|(?:last|this) \w+|\w+ \w+ ago))?$",
    re.IGNORECASE,
)
_SOME_PLACE = pattern(r"\b(?:went to|visited|was at|has been to) (?:a|some) (?P<what>places?)\b")
_THE_GROUP = pattern(r"\b(?:for|on|in|to|with) the (?P<what>team|group|company|class|band|project|club|event)$")
_PLAYED = pattern(
    r"\bplay(?:s|ed|ing)? (?:professionally|competitively|regularly|together|for (?:just |about |over )?\w+)\b"
)
_PRAISE = pattern(r"(?!The user\b)(?P<of>\S.*?) (?:is|are|was|were) an? (?:must\b|must-\w+|treat\b|blast\b|classic\b)")
PLANNED_PAST = pattern(
    r"\b(?:decided|plans?|planning|going|wants?|hopes?|intends?) to\b.*\b(?:yesterday|last (?:week|month|night|year))\b"
)
TENTATIVE = pattern(
    r"\b(?:thinking (?:of|about)|considering|toying with|debating|leaning towards?) (?:just |maybe |also )?"
    r"(?:becom|mov|switch|chang|leav|quit|push|postpon|renam|replac|sell|cancel|giv|retir|return|go)\w*ing\b"
    r"|\b(?:might|may) (?!\d)"
)
"""Changes that are only considered: the former value holds until the change is decided."""


LONG = 200
"""Maximum characters of a fact that rules find without a doubt: longer statements are mostly stories."""


def doubt(text: str) -> str | None:
    """Return an open question about a fact as a sentence; None if there is none.

    >>> doubt("The user got some possible leads")
    'Does not say which leads.'
    >>> doubt("The user got a lead at Meta") is None
    True
    """
    # Order of the checks: no fact at all, then not true yet, then incomplete.
    if praised := _PRAISE.match(text):
        return f"An opinion on {praised['of']}, told as a fact."
    if TENTATIVE.search(text):
        return "Only considered so far, not decided."
    if PLANNED_PAST.search(text):
        return "A plan for a time that is past."
    if day := relative_words(text):
        return f'Does not say which day "{day}" is.'
    if len(text) > LONG:
        return "Long: more a story than a fact."
    # "Went to a place" is vague even with a name elsewhere in the sentence.
    match = _SOME_PLACE.search(text)
    if match is None and _NAMED.search(text):
        return None
    match = match or _WHICH.search(text) or _THE_GROUP.search(text)
    if match is not None:
        return f"Does not say which {match['what'].lower()}."
    return "Does not say what is played." if _PLAYED.search(text) else None


# -- extraction ------------------------------------------------------------------------------------

_BARE_LIMIT = pattern(
    r"(?:at most|at least|no more than|no later than|not later than|no earlier than|maximum|max|up to) .{1,80}",
    re.IGNORECASE,
)
_REMEMBER = pattern(
    r"(?:please )?(?:remember|do not forget|don't forget|note|keep in mind|bear in mind|make a note|"
    r"for the record|mind)"
    r"(?: that|,|:| -)? (?P<what>.{3,220})",
    re.IGNORECASE,
)


_TOGETHER = pattern(r"(?:^| )together(?! with\b)(?= |$)")


class RuleExtractor(RuleBased, LearnsInContext):
    """Extractor by rules: deterministic, from the user's own words only, and in linear time."""

    def extract(self, messages: Sequence[ChatMessage], *, known: Sequence[str]) -> Extraction:
        """Return the facts that the user states in `messages`, in order, without repetitions and the `known` ones.

        A value that returns after another value in its slot is no repetition: it holds again. A reply only shows what
        the user's words before it are about; it is no source.
        """
        seen: dict[tuple[str, ...], NothingFound] = {_key(text): NothingFound("known", text) for text in known}
        last: dict[Slot, Hashable] = {}
        facts: list[ExtractedFact] = []
        negated: list[bool] = []
        nothing: dict[int, NothingFound] = {}
        heard = Heard()
        # Earlier messages are read for the person alone whom they name: their facts are dropped.
        for earlier in (message for before, message in self.context.lines if before == 0):
            if (antecedents := heard.hear(earlier)) is not None:
                for _ in facts_in(message_text(earlier), antecedents):
                    continue
        for index, message in enumerate(messages):
            antecedents = heard.hear(message)
            if antecedents is None:
                nothing[index] = why_nothing(message)
                continue
            before, again = len(facts), None
            texts = [part.text for part in message.parts if isinstance(part, TextPart)]
            direct = [fact for text in texts for fact in facts_in(text, antecedents)]
            at = parse_message(message).time
            for stated in (*direct, *_restated(messages[index : index + 2])):
                whole = f"{stated.text} {stated.day}".rstrip()
                # A plan for "yesterday" was misread, which a date would hide.
                text = None if PLANNED_PAST.search(whole) else resolved(whole, at)
                if text is None:
                    again = again or NothingFound("undated")
                    continue
                key = _key(text)
                if comes_back(last, stated.slot, key) or key not in seen:
                    seen.setdefault(key, NothingFound("repeated"))
                    facts.append(
                        ExtractedFact(
                            text,
                            stated.category,
                            index,
                            None if stated.slot is None else str(stated.slot),
                            doubtful=doubt(text) is not None,
                        )
                    )
                    negated.append(stated.negated)
                else:
                    again = again or seen[key]
            if len(facts) == before:
                nothing[index] = again or why_nothing(message)
        return Extraction(spare_statements(facts, negated), nothing=nothing)

    def condense(self, facts: Sequence[str], *, pinned: Sequence[int], target: int) -> Condensation:
        """Return at most `target` facts (or the pinned ones, if more) in place of `facts`; see `condense_by_rules`."""
        return condense_by_rules(facts, pinned=pinned, target=target)


def _restated(pair: Sequence[ChatMessage]) -> Iterator[StatedFact]:
    """Yield the facts of a user's message that the assistant's reply directly after it, if any, restates."""
    if len(pair) == 2 and pair[1].role is MessageRole.ASSISTANT:
        yield from restated(message_text(pair[0]), message_text(pair[1]))


def spare_statements(facts: Sequence[ExtractedFact], negated: Sequence[bool]) -> tuple[ExtractedFact, ...]:
    """Return the facts, the denials without a slot that a statement has: a denial must not displace a statement."""
    both = list(zip(facts, negated, strict=True))
    held = {fact.slot for fact, no in both if not no}
    return tuple(replace(fact, slot=None) if no and fact.slot in held else fact for fact, no in both)


def _key(text: str) -> tuple[str, ...]:
    return tuple(sorted(stems(text, stop=False)))


def why_nothing(message: ChatMessage) -> NothingFound:
    """Return the reason why the rules find nothing in a message."""
    if message.role is not MessageRole.USER:
        return NothingFound(unread(message).code)
    text = message_text(message)
    if language := other_language(text):
        return NothingFound("language", said=language)
    return NothingFound("question" if only_asks(text) else "no_rule")


def facts_in(text: str, antecedents: Antecedents | None = None) -> Iterator[StatedFact]:
    """Yield the facts that one text of a user states, in order; none of a text in another language than English."""
    if other_language(text):
        return
    antecedents = antecedents or Antecedents()
    for sentence in sentences(text):
        person = antecedents.person
        facts: list[StatedFact] = []
        for clause in clauses(sentence):
            facts += relatives(clause)
            facts += _facts_of_clause(strip_lead_in(clause), antecedents.read(clause))
        # Names hold words such as "and", so a description of somebody else is read as a whole sentence.
        whole = described(sentence)
        if whole is not None and (not facts or (whole.slot and not any(fact.slot for fact in facts))):
            facts = [whole]
        yield from with_specifics(sentence, facts, person)


def _facts_of_clause(clause: str, statement: ParsedClause | None) -> Iterator[StatedFact]:
    """Yield the facts of one clause: by the rules for fixed shapes, else by the rules for statements."""
    # Fixed shapes first: the grammar would read them differently, or not at all.
    for rule in (budget, _remembered, standing_instruction, called):
        if (fact := rule(clause)) is not None:
            yield fact
            return
    # Without subject and verb only a limit is clear enough: "at most 300 euros".
    if statement is None:
        if _BARE_LIMIT.fullmatch(clause) and NUMBER.search(clause) and not YOU.search(clause):
            limit = clean(clause)
            if limit:
                yield StatedFact(f"The limit is {limit[0].lower()}{limit[1:]}", "constraint")
        return
    if statement.subject == GROUP and statement.verb != "be":
        # what a group does, its members do, but not together
        statement = replace(statement, subject=USER, rest=_TOGETHER.sub("", statement.rest).strip())
    # In this order, as the general rules at the end would take what the exact ones read better.
    for judge in (naming, being, having, tasting, living, aiming, doing):
        if (fact := judge(statement)) is not None:
            yield fact
            return


def _remembered(clause: str) -> StatedFact | None:
    match = _REMEMBER.fullmatch(clause)
    if (
        not match
        or FILLER_AIM.match(match["what"])
        or re.match(rf"(?:to|me|when|the time|how|it)\b|{NAME}, ", match["what"])
    ):
        return None
    # The clause to be remembered may state a fact, and then gets its slot and category.
    what = match["what"]
    inner = next(_facts_of_clause(what, statement_of(what)), None)
    if inner is not None:
        return inner
    text = in_third_person(what)
    # "Remember the milk" states nothing.
    if text and not has_verb(text):
        return None
    return (
        StatedFact(text[0].upper() + text[1:], "other")
        if text and concrete(text) and stands_alone(USER, text)
        else None
    )


# -- slots of known facts, read back from their words ----------------------------------------------

_MOST_READ = 200
"""Maximum number of known facts whose slots are read for one found fact; reading one takes about half a millisecond."""

_FIRST_PERSON = (
    (pattern(r"\b[Tt]he user's\b"), "my"),
    (pattern(r"\b[Tt]he user is\b"), "I am"),
    (pattern(r"\b[Tt]he user does\b"), "I do"),
    (pattern(r"\b[Tt]he user has\b"), "I have"),
)
_THIRD_VERB = pattern(
    r"\b[Tt]he user (?P<adverb>(?:always|usually|often|still|never|only|now|currently|"
    r"recently|just|also|no longer) )?(?P<verb>\w+)"
)
_ALSO_DOES = pattern(r"\band (?:also )?(?P<verb>\w+)")
"""A second verb of one subject: "lives in Porto and works at Acme"."""


def slot_in(line: str) -> str | None:
    """Return the slot of a fact, read as if the user had said it; None where the rules find none.

    >>> slot_in("The user lives in Porto"), slot_in("The user likes jazz")
    ('user.home', None)
    """
    return next((str(fact.slot) for fact in _read_back(line) if fact.slot is not None), None)


def sole_statement(line: str) -> StatedFact | None:
    """Return the statement of a fact that says one thing; None if it says several, considers one, or is not readable.

    A fact with a slot is replaced as a whole, so whatever else it says would be lost.

    >>> sole_statement("The user now lives in Porto").text, sole_statement("Ana lives in Rome and works at Acme")
    ('The user lives in Porto', None)
    """
    facts = list(_read_back(line))
    several = len(facts) > 1 or any(match["verb"] in BASE for match in _ALSO_DOES.finditer(line))
    return facts[0] if facts and not several and not TENTATIVE.search(line) else None


@lru_cache(maxsize=16_384)
def sole_slot(line: str) -> str | None:
    """Return the slot of a fact that says one thing, as it is stored with it; None if it denies it or has no slot."""
    stated = sole_statement(line)
    return None if stated is None or stated.slot is None or stated.negated else str(stated.slot)


def slots_of(known: Sequence[Fact], found: Iterable[tuple[str, str | None]]) -> dict[int, str | None]:
    """Return the slots of known facts by id, to compare them with found facts, which are pairs of text and slot.

    Facts were once stored without a slot, and a marital status as any status: it is read from their words, if a found
    fact has one to compare it with, and only for those nearest in wording. What a program stores under a key has none.
    """
    slots = {fact.id: fact.slot for fact in known}
    without = [
        fact
        for fact in known
        if fact.key is None
        and fact.state != "rejected"
        and (fact.slot is None or Slot.read(fact.slot).attribute == STATUS)
    ]
    words = [stems(text) for text, slot in found if single_slot(slot) is not None] if without else []
    query = frozenset(chain(*words))
    # Of equally near ones the oldest, which come first in `known`.
    for fact in nlargest(_MOST_READ * len(words), without, key=lambda fact: relevance(fact.text, query)):
        slots[fact.id] = sole_slot(fact.text) or fact.slot
    return slots


def _read_back(line: str) -> Iterator[StatedFact]:
    """Return the facts in the words of a stored fact."""
    spoken = line
    for third, words in _FIRST_PERSON:
        spoken = third.sub(words, spoken)
    # Put the verb back in its base form, as the grammar expects it after "I".
    return facts_in(_THIRD_VERB.sub(lambda m: f"I {m['adverb'] or ''}{BASE.get(m['verb'], m['verb'])}", spoken))


# -- shortening a list of facts --------------------------------------------------------------------
# Duplicates become one fact. Then, while the list is above the target, what one subject likes (has, visited, ...) is
# joined into one sentence. Only then are facts left out: the least specific first, and of equally specific ones the
# oldest. Pinned facts are never changed or left out.

SAME = 0.85
"""Minimum `similarity` of two facts that say the same (see `memory_core.text.similarity`)."""
LIST_CHARACTERS = 240
"""Maximum characters of a joined sentence."""
_JOINABLE = {
    "is allergic to": "health",
    "is intolerant to": "health",
    "cannot eat": "health",
    "does not eat": "health",
    "does not like": "preference",
    "is interested in": "preference",
    "is fond of": "preference",
    "likes": "preference",
    "loves": "preference",
    "enjoys": "preference",
    "prefers": "preference",
    "hates": "preference",
    "dislikes": "preference",
    "is learning": "other",
    "has been learning": "other",
    "speaks": "personal",
    "plays": "preference",
    "collects": "preference",
    "has": "personal",
    "owns": "personal",
    "visited": "other",
    "went to": "other",
    "wants to": "plan",
    "plans to": "plan",
}
"""Predicates that take a list, with the category of the joined fact."""
_LIST = pattern(rf"(?P<subject>[A-Z].{{0,60}}?) (?P<verb>{'|'.join(_JOINABLE)}) (?P<object>.+)")


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    stands_for: tuple[int, ...]
    pinned: bool
    category: str = "other"


def condense_by_rules(facts: Sequence[str], *, pinned: Sequence[int], target: int) -> Condensation:
    """Condense `facts` into at most `target` sentences, or as many as are pinned.

    `stands_for` lists every fact whose words went into a sentence; omitted facts are not listed. An unchanged fact has
    the neutral category `other`, as the engine knows its category.

    >>> [fact.text for fact in condense_by_rules(["Ana likes jazz", "Ana likes tea"], pinned=[], target=1).facts]
    ['Ana likes jazz and tea']
    """
    fixed = set(pinned)
    # 1. Each fact for itself; 2. duplicates as one; 3. lists of one subject; 4. the least specific left out.
    entries = [_Entry(text, (index,), index in fixed) for index, text in enumerate(facts)]
    entries = _without_duplicates(entries)
    entries = _joined(entries, target)
    entries = _most_specific(entries, target)
    return Condensation(tuple(CondensedFact(entry.text, entry.category, entry.stands_for) for entry in entries))


def _without_duplicates(entries: list[_Entry]) -> list[_Entry]:
    """Merge each group of near-duplicates into one fact: the pinned one, else the fullest, else the newest."""
    kept_entries: list[_Entry] = []
    # Only entries that agree in numbers and negations and share a stem can be this similar.
    places: dict[tuple[object, str], set[int]] = {}
    for entry in entries:
        agreement = agreement_key(entry.text)
        keys = [(agreement, stem) for stem in {*stems(entry.text)} or {""}]
        candidates = sorted(set().union(*(places.get(key, ()) for key in keys)))
        twin = next((i for i in candidates if similarity(entry.text, kept_entries[i].text) >= SAME), None)
        # Two pinned facts stay two, whatever they say.
        if twin is None or (entry.pinned and kept_entries[twin].pinned):
            kept_entries.append(entry)
            for key in keys:
                places.setdefault(key, set()).add(len(kept_entries) - 1)
            continue
        # The twin is found by the words of both from now on, whichever of them was kept.
        for key in keys:
            places.setdefault(key, set()).add(twin)
        other = kept_entries[twin]
        newer = not other.pinned and (entry.pinned or len(stems(entry.text)) >= len(stems(other.text)))
        winner = entry if newer else other
        kept_entries[twin] = _Entry(winner.text, other.stands_for + entry.stands_for, winner.pinned)
    return kept_entries


def _joined(entries: list[_Entry], target: int) -> list[_Entry]:
    """Join facts of the same subject and verb into lists, in their order, until `target` is reached."""
    remaining: list[_Entry] = []
    places: dict[tuple[str, str], int] = {}
    # Every join shortens the list by one, so no more are made than are needed.
    surplus = len(entries) - target
    for entry in entries:
        match = None if entry.pinned else _LIST.fullmatch(entry.text)
        if match is None:
            remaining.append(entry)
            continue
        key = (match["subject"], match["verb"])
        place = places.get(key)
        if surplus > 0 and place is not None:
            text = _one_more(remaining[place].text, match["object"])
            # When the list would be too long, a new one starts at this fact.
            if len(text) <= LIST_CHARACTERS:
                remaining[place] = _Entry(
                    text, remaining[place].stands_for + entry.stands_for, False, _JOINABLE[match["verb"]]
                )
                surplus -= 1
                continue
        places[key] = len(remaining)
        remaining.append(entry)
    return remaining


def _one_more(text: str, item: str) -> str:
    """Add an item to the list at the end of `text`: "jazz and tea" becomes "jazz, tea and opera"."""
    head, joint, last = text.rpartition(" and ")
    # Only the last joint is an "and", so that the list stays a list.
    return f"{head}, {last} and {item}" if joint else f"{text} and {item}"


def _most_specific(entries: list[_Entry], target: int) -> list[_Entry]:
    surplus = len(entries) - target
    loose = [place for place, entry in enumerate(entries) if not entry.pinned]
    # Of equally specific facts the older one goes.
    dropped = set(sorted(loose, key=lambda place: (_specificity(entries[place].text), place))[: max(0, surplus)])
    return [entry for place, entry in enumerate(entries) if place not in dropped]


def _specificity(text: str) -> int:
    """Return the number of content words, with numbers and names inside the sentence counted twice."""
    return len(stems(text)) + len(re.findall(r"\d+|(?<=\s)[A-Z]\w+", text))


# -- requests to forget, and the facts that they name ----------------------------------------------

MAX_FORGOTTEN = 25
"""A request that names more facts than this is too vague to follow: a person decides."""

# The lookaheads refuse words that name nothing: "forget it and go on", and "forget that, please", but not "forget that
# trip". A fact that is named by mistake is retired, so missing a request is the smaller mistake.
_REQUEST = re.compile(
    r"(?:\b(?:forget|remove|delete|erase|drop|scratch|discard)\b"
    r"|\bdon't (?:keep|store|track|need you to (?:keep|track))\b)"
    r"(?! (?:it|them|me)\b)"
    r"(?! (?:that|this|all|to|by|off|out|in|on)\b(?! (?!(?:and|but|or|for|please|then|too|okay|ok)\b)[a-z]))"
    r"(?: (?:about|anything about|everything about|anything related to|everything related to|the information about|"
    r"any record of|track of|what))* (?P<what>[^.?!;\n]{3,160})",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:please|can you|could you|you can|go ahead|i'd like you to|i want you to|want you to)\b|"
    r"^(?:actually,? )?(?:forget|remove|delete|erase|scratch|don't keep)\b",
    re.IGNORECASE,
)
# "Don't forget the milk" asks for the opposite.
_NOT = re.compile(
    r"\b(?:never|don't|do not|can't|won't|didn't) (?:ever )?(?:forget|remove|delete|drop)\b", re.IGNORECASE
)
# Reasons and circumstances after the named thing: as words of the request they would lower every fact's share.
_END = re.compile(
    r" (?:from (?:your|my|the|what|anything|any)\b.*|at all.*|entirely.*|completely.*|anymore.*|because .*|since .*|"
    r"so .*|now.*|i mentioned.*|on file.*)$|[,—–] ?(?:i|it|that|because|since|so|my|all|just)\b.*$|[—–].*$",
    re.IGNORECASE,
)
_EMPTY = "detail details info information thing stuff fact data note notes bit part memory record list whole that one"
"""Words that name nothing by themselves, such as "detail" in "the Tucson detail"."""


def forget_requests(text: str) -> list[str]:
    """Return the things that a message asks to forget, in its own words; empty if it has no such request.

    >>> forget_requests("Please forget the Tucson detail. I moved.")
    ['the Tucson detail']
    >>> forget_requests("Don't forget the Tucson trip.")
    []
    """
    requests = []
    # Sentence by sentence, so that "please" in one does not turn another into a request.
    for sentence in re.split(r"(?<=[.?!])\s+|\n", text):
        if _ASKS.search(sentence) and not _NOT.search(sentence):
            match = _REQUEST.search(sentence)
            if match is not None and (what := _END.sub("", match["what"]).strip(" ,")):
                requests.append(what)
    return requests


def named_facts(request: str, facts: Iterable[tuple[int, str]]) -> list[int]:
    """Return the ids of the facts that a request names; none if it names more than `MAX_FORGOTTEN`."""
    named = [id for id, text in facts if names_fact(request, text)]
    return named if len(named) <= MAX_FORGOTTEN else []


def names_fact(request: str, fact: str) -> bool:
    """Return whether a fact has over 60 % of a request's content words, or half with a name or number among them."""
    wanted = set(stems(request)) - set(stems(_EMPTY))
    shared = wanted & set(stems(fact))
    share = len(shared) / len(wanted) if wanted else 0.0
    # Names and numbers are in few facts, so fewer shared words suffice if one of them is among these.
    return share > 0.6 or (share >= 0.5 and not shared.isdisjoint(_exact(request)))


def _exact(request: str) -> set[str]:
    """Return the stems of the names and numbers in a request."""
    # The first word is left out: it may have a capital only because it begins the sentence.
    words: Sequence[str] = re.findall(r"(?<!^)\b(?:[A-ZÀ-Þ][\w'-]+|\d[\w.,/]*)", request)
    return set(stems(" ".join(words)))
