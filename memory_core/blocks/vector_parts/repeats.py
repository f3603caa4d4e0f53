"""Candidates whose text repeats the question, or that of another candidate: each text takes one place in a prompt."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from memory_core.blocks.base import ReadContext
from memory_core.blocks.vector_parts.packing import PackedUnits
from memory_core.blocks.vector_parts.unit_cache import StoredUnits, text_number
from memory_core.blocks.vector_parts.units import Unit, search_words
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.fact_merging import same_words
from memory_core.planning.retrieval_plan import Repeats
from memory_core.planning.speakers import parse_message
from memory_core.store.message_rows import StoredMessage

STEPS = 8
"""Maximum number of units after a question among which its answer is looked for."""


@dataclass(frozen=True, slots=True)
class RepeatedTexts:
    """Compares the texts of the units of one search; `unsaved` are those of a preview, by number."""

    reading: ReadContext
    stored: StoredUnits
    laid_out: PackedUnits
    unsaved: Mapping[int, Sequence[StoredMessage]]

    def answers(self, candidates: Iterable[int]) -> dict[int, int | None]:
        """Return the units that repeat the question, each with the last unit of its turn; None if it has no answer."""
        texts = self._texts([self.reading.question])
        copies = self._saying(texts, [n for n in candidates if self.stored.text_number(n) in texts])
        after = {number: self.stored.following(number, STEPS) for number in copies}
        units = self._messages({*copies, *(other for several in after.values() for other in several)})
        return {number: _answer(number, after[number], units) for number in copies}

    def plan(self, candidates: Collection[int], answers: Mapping[int, int | None], queued: Iterable[str]) -> Repeats:
        """Leave out all copies of the question, and of other equal texts all but one.

        An answer takes the place of its question. `queued`: texts of the queue, which are no news from another session.
        """
        groups: defaultdict[int, list[int]] = defaultdict(list)
        for number in candidates:
            groups[self.stored.text_number(number)].append(number)
        # 1. Texts with equal stems may be equal: only these are read.
        queue_texts = self._texts(queued)
        similar = {n for key, group in groups.items() if len(group) > 1 or key in queue_texts for n in group}
        units = self._messages({*similar, *(after for n in similar for after in self.stored.following(n, 1))})
        # The question of a search that is for no prompt stands nowhere, so one copy of it is a result.
        present = set(answers) if self.reading.for_prompt else set()
        alike = [n for n in similar if self.stored.text_number(n) in queue_texts]
        present |= {n for n in self._saying(queue_texts, alike) if self.laid_out.elsewhere(n)}
        # 2. Of equal texts of one speaker, the one in the queue is shown, else one with an answer, else the newest.
        by_text: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for number in similar - present:
            if unit := units.get(number):
                by_text[self.stored.traits[number].speakers, same_words(search_words(unit))].append(number)

        def worth(number: int) -> tuple[bool, bool, bool, int]:
            of_session = not self.laid_out.elsewhere(number)
            in_queue = of_session and self.stored.nodes[number].covers(self.reading.queue_seqs)
            answered = _answer(number, self.stored.following(number, 1), units) is not None
            return in_queue, of_session, answered, self.stored.places[number]

        best = ((max(group, key=worth), group) for group in by_text.values())
        shown = {number: one for one, group in best for number in group}
        # 3. The score of what is left out goes to what takes its place.
        places: defaultdict[int, list[int]] = defaultdict(list)
        takers = {number: shown.get(answer, answer) for number, answer in answers.items() if answer is not None}
        for number, other in (*shown.items(), *takers.items()):
            if other != number and other in candidates:
                places[other].append(number)
        return Repeats(frozenset(present | {number for number, other in shown.items() if other != number}), places)

    def _texts(self, texts: Iterable[str]) -> dict[int, str]:
        return {text_number(text): same_words(text) for text in texts}

    def _saying(self, texts: Mapping[int, str], numbers: Iterable[int]) -> list[int]:
        """Return the units with one of these texts."""
        units, words = self._messages(numbers), set(texts.values())
        return [number for number, unit in units.items() if same_words(search_words(unit)) in words]

    def _messages(self, numbers: Iterable[int]) -> dict[int, Sequence[StoredMessage]]:
        saved = sorted(set(numbers) - self.unsaved.keys())
        previewed = {number: unit for number in numbers if (unit := self.unsaved.get(number)) is not None}
        return {**(self.laid_out.messages(saved) if saved else {}), **previewed}


def _answer(number: int, after: Sequence[int], units: Mapping[int, Sequence[StoredMessage]]) -> int | None:
    """Return the last of the units after one that belongs to its turn, if that is no user's message; else None."""
    turns = {n: units[n][-1].turn for n in (number, *after) if n in units}
    answer = next((n for n in reversed(after) if n in turns and turns[n] == turns.get(number)), None)
    return None if answer is None or units[answer][0].message.role is MessageRole.USER else answer


def queued_texts(queue: Sequence[ChatMessage], unit: Unit) -> list[str]:
    """Return the text of each unit that the queue's messages would form."""
    units: list[list[str]] = []
    for message in queue:
        if unit == "message" or not units or (unit == "turn" and message.role is MessageRole.USER):
            units.append([])
        units[-1].append(parse_message(message).words)
    return ["\n".join(text for text in several if text) for several in units]
