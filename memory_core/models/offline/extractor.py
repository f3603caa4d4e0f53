"""Facts from messages by rules, without a language model.

A rule reads one `Statement` (or one clause of a fixed shape, such as "keep it under 300 euros") and
gives facts about the user and the people and plans they name, in one form: "The user lives in Porto",
"Ana is allergic to nuts", "The dinner is on 14 March". Only English is read.
Where no rule is sure, nothing is learned: a missed fact can be added by hand, but a fact that was never said should
not exist.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace

from memory_core.messages import ChatMessage, MessageRole, TextPart, message_text
from memory_core.models.learners import LearnsInContext, RuleBased
from memory_core.models.offline.clauses import clauses, only_asks, sentences
from memory_core.models.offline.condensing import condense_by_rules
from memory_core.models.offline.coreference import Antecedents, Heard, statement_of
from memory_core.models.offline.descriptions import described
from memory_core.models.offline.doubts import PLANNED_PAST, doubt
from memory_core.models.offline.fact_rules import aiming, being, doing, having, living, naming, tasting
from memory_core.models.offline.grammar import GROUP, NAME, USER, Statement, strip_lead_in
from memory_core.models.offline.language_detection import other_language
from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.phrases import budget, called, relatives, standing_instruction
from memory_core.models.offline.relative_dates import resolved
from memory_core.models.offline.restating import restated
from memory_core.models.offline.sense import stands_alone
from memory_core.models.offline.specifics import has_verb, with_specifics
from memory_core.models.offline.vocabulary import FILLER_AIM, NUMBER
from memory_core.models.offline.wording import YOU, StatedFact, clean, concrete, in_third_person
from memory_core.models.protocols import Condensation, ExtractedFact, Extraction, NothingFound
from memory_core.planning.reasons import unread
from memory_core.planning.slots import Slot, comes_back
from memory_core.planning.speech import parse_message
from memory_core.text import stems

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
        facts = [fact for clause in clauses(sentence) for fact in _read_clause(clause, antecedents)]
        # Names hold words such as "and", so a description of somebody else is read as a whole sentence.
        whole = described(sentence)
        if whole is not None and (not facts or (whole.slot and not any(fact.slot for fact in facts))):
            facts = [whole]
        yield from with_specifics(sentence, facts, person)


def _read_clause(clause: str, antecedents: Antecedents) -> Iterator[StatedFact]:
    yield from relatives(clause)
    yield from _facts_of_clause(strip_lead_in(clause), antecedents.read(clause))


def _facts_of_clause(clause: str, statement: Statement | None) -> Iterator[StatedFact]:
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
