"""Read facts from sentences by the rules of one language. Pure, in linear time.

A `Language` holds patterns for the ends of sentences and clauses and for text that states nothing, and rules that are
tried in order on each clause. The facts stay in the language of the conversation ("Der Nutzer wohnt in Porto"), so that
questions in that language find them; categories and slots are the same in all languages.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from memory_core.models.offline.clauses import SENTENCE_CHARACTERS
from memory_core.models.offline.wording import StatedFact
from memory_core.planning.slots import Slot

VALUE_CHARACTERS = 80
"""Maximum characters of a value. Longer ones are stories, not facts."""

Rule = Callable[[str], StatedFact | None]


@dataclass(frozen=True)
class Language:
    """Patterns and rules of one language."""

    rules: tuple[Rule, ...]
    """Rules for a clause, tried in order until one gives a fact."""
    sentence_end: re.Pattern[str]
    question: re.Pattern[str]
    """Matches within a question."""
    unsure: re.Pattern[str]
    """Matches in a sentence that supposes, considers, or repeats what others say: nothing is learned from it."""
    joint: re.Pattern[str]
    """Matches between two clauses of a sentence."""
    lead_in: re.Pattern[str]
    """Words at the beginning of a clause that state nothing: "well", "by the way"."""
    first_person: Callable[[str], str]
    """Turn a fact about the user back into the first person, so that the rules can read it again."""
    inherit: Callable[[str, str], str] = lambda clause, before: clause
    """Complete a clause without a subject by the subject of the clause before it."""

    def facts_in(self, text: str) -> Iterator[StatedFact]:
        """Yield the facts that a text states, in order."""
        for sentence in self.sentences(text):
            # Whole sentences: a question mark or a word of doubt may be in another clause than the statement.
            if self.question.search(sentence) or self.unsure.search(sentence):
                continue
            before = ""
            for part in self.joint.split(sentence):
                # The subject holds from clause to clause, so the completed clause is passed to the next.
                clause = self.inherit(self.lead_in.sub("", part.strip(" ,;:，、；：")), before)
                before = clause
                if fact := next(filter(None, (rule(clause) for rule in self.rules)), None):
                    yield fact

    def only_asks(self, text: str) -> bool:
        """Return whether every sentence of a text asks; True for a text without sentences."""
        return all(self.question.search(sentence) for sentence in self.sentences(text))

    def sentences(self, text: str) -> Iterator[str]:
        """Yield the sentences of a text, with the mark that ends them, cut after 600 characters."""
        start = 0
        for end in self.sentence_end.finditer(text):
            yield from _bounded(text[start : end.end()])
            start = end.end()
        yield from _bounded(text[start:])


def _bounded(sentence: str) -> Iterator[str]:
    sentence = " ".join(sentence[: 2 * SENTENCE_CHARACTERS].split())[:SENTENCE_CHARACTERS].strip(" .。!！¡")
    if sentence and not sentence.startswith(">"):
        yield sentence


def pattern_rule(
    said: re.Pattern[str],
    text: str,
    category: str,
    attribute: str | None = None,
    subject: str = "user",
    *,
    reworded: Callable[[str], str] = str,
) -> Rule:
    """Make a rule of a pattern for a whole clause. Its named groups fill `text` and, in lower case, the slot."""

    def rule(clause: str) -> StatedFact | None:
        match = said.fullmatch(clause)
        if match is None or any(len(value or "") > VALUE_CHARACTERS for value in match.groupdict().values()):
            return None
        values = {name: reworded((value or "").strip(" ,.")) for name, value in match.groupdict().items()}
        lowered = {name: value.lower() for name, value in values.items()}
        slot = None if attribute is None else Slot(subject.format(**lowered), attribute.format(**lowered))
        return StatedFact(" ".join(text.format(**values).split()), category, slot)

    return rule
