"""Pack stored units into a prompt: choose which fit, lay them out, and let LlamaIndex's postprocessors reorder them.

The layout `lines` has conversation order, with a date line for each episode; the layout `messages` is best first.
In both, a blank line stands where the next unit is of another turn.
"""

import json
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from memory_core.blocks.base import Item, ReadContext, item_tokens, stored_item
from memory_core.blocks.former_marks import Marks
from memory_core.blocks.unit_cache import StoredUnits, text_number
from memory_core.blocks.units import Unit, mark_texts, messages_of, search_words
from memory_core.errors import ConfigError, user_message
from memory_core.events import Ranges, Ref, expand
from memory_core.messages import ChatMessage, MessageRole, TextPart, content_hash
from memory_core.planning.fact_merging import same_words
from memory_core.planning.former_values import FormerMark, Source
from memory_core.planning.rendering import UNDATED, Layout, line_parts, turn_parts, unit_words
from memory_core.planning.retrieval_plan import Head, Repeats, RetrievalPlan, fill
from memory_core.planning.speakers import parse_message
from memory_core.process import collector_paused
from memory_core.store.message_rows import DatedMessage, HeardMessage

MIN_UNIT = 8
"""Minimum token budget worth filling; hardly any unit fits below it."""

LOOKED_AT_AGAIN = 64
"""Maximum number of left-out units whose real sizes are computed to fill the remaining tokens."""

UNSAID = 40
"""Tokens by which a unit may be shorter in a prompt than stored: speaker and time before its words."""


class PackedUnits:
    """Granted units as prompt items, each created once."""

    def __init__(self, reading: ReadContext, stored: StoredUnits, layout: Layout, marks: Marks) -> None:
        self._reading, self._stored, self._layout = reading, stored, layout
        self.former = marks
        """Marks of former values, of any unit."""
        self._borrowed_texts: dict[int, str] = {}
        self._read: dict[int, list[DatedMessage] | None] = {}
        self._how = (layout, reading.names, reading.counter.id, reading.accounting)
        self._of_session = ("", reading.session_id)
        self._alone = len(stored.of(reading.session_id)) == len(stored.order)

    def filled(self, plan: RetrievalPlan, token_budget: int) -> RetrievalPlan:
        """Return the plan with as many granted units as fit into the budget."""
        # 1. Only units whose stored size fits are read and laid out, which costs much more than adding sizes.
        sized = self._units(self._may_fit(plan, token_budget))
        # 2. Their real sizes decide, with the date lines above them.
        filled, remaining = self._fill(plan, token_budget, sized)
        # 3. A unit left out for its stored size may fit without speaker and time, or into the tokens that remain. Fill
        #    once more from the beginning, as a better unit takes precedence over one already included.
        small = [n for n in plan.granted if n not in sized and self._stored.nodes[n].tokens <= remaining + UNSAID]
        if remaining < MIN_UNIT or not small:
            return filled
        return self._fill(plan, token_budget, sized | self._units(small[:LOOKED_AT_AGAIN]))[0]

    def _fill(self, plan: RetrievalPlan, token_budget: int, sized: Mapping[int, Item]) -> tuple[RetrievalPlan, int]:
        """Return the plan filled with these units, and the tokens left of the budget."""
        sizes = {number: self._tokens(item) for number, item in sized.items()}
        heads = self._heads(sized)
        any_of = {head: number for number, head in heads.items()}
        head_sizes = {head: self._tokens(self._day(number)) for head, number in any_of.items()}
        filled = fill(plan, token_budget, sizes, heads, head_sizes)
        present = {heads[number] for number in filled.granted if number in heads}
        return filled, token_budget - sum(sizes[n] for n in filled.granted) - sum(head_sizes[head] for head in present)

    def content(self, plan: RetrievalPlan) -> tuple[tuple[Item, ...], tuple[int, ...]]:
        """Return the items of the granted units in prompt order, and their indexes in the order of cutting."""
        units = self._units(plan.granted)
        best_first = [number for number in plan.granted if number in units]
        if self._layout == "messages":  # best first in the prompt, so the last is cut first
            return tuple(units[number] for number in best_first), tuple(reversed(range(len(best_first))))
        # 1. The prompt is in the order of the conversation; each date line is above its first unit.
        items: list[Item] = []
        lines: dict[Head, Item] = {}
        heads = self._heads(best_first)
        for number in sorted(best_first, key=self._place):
            head = heads.get(number)
            if head is not None and head not in lines:
                lines[head] = self._day(number)
                items.append(lines[head])
            items.append(units[number])
        # 2. The order of cutting is by score, worst first. A date line is cut right after the best unit under it,
        #    which is cut last: earlier would leave units undated, later would leave the line above nothing.
        best_under = {heads.get(number): number for number in reversed(best_first)}
        cut: list[Ref] = []
        for number in reversed(best_first):
            cut.append(units[number].ref)
            head = heads.get(number)
            if head is not None and best_under[head] == number:
                cut.append(lines[head].ref)
        # 3. As indexes into the prompt's order, which plans use for cuts.
        at = {item.ref: index for index, item in enumerate(items)}
        return tuple(items), tuple(at[ref] for ref in cut)

    def words(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the words of units; those without messages are missing."""
        return {number: item.words for number, item in self._units(numbers).items()}

    def _place(self, number: int) -> tuple[bool, int, Ranges, int]:
        """Return the sort key of the prompt: other sessions before this one, each in chronological order."""
        node, of_session = self._stored.nodes[number], not self.elsewhere(number)
        return of_session, 0 if of_session else self._stored.places[number], node.seqs, number

    @cached_property
    def _dated(self) -> bool:
        """Return whether any unit of this session has a time."""
        return self._stored.has_days(self._reading.session_id)

    def borrowed(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the stored text of each unit of another session, by unit id (see `blocks.base.stored_item`)."""
        self._units([number for number in numbers if self.elsewhere(number)])
        return {number: text for number in numbers if (text := self._borrowed_texts.get(number)) is not None}

    def elsewhere(self, number: int) -> bool:
        """Return whether another session stored a unit."""
        return not self._alone and self._stored.nodes[number].session_id not in self._of_session

    def _may_fit(self, plan: RetrievalPlan, token_budget: int) -> list[int]:
        """Return the best units whose stored sizes fit together."""
        result, remaining = [], token_budget
        for number in plan.granted:
            tokens = self._stored.nodes[number].tokens
            if tokens <= remaining:
                result.append(number)
                remaining -= tokens
        return result

    def _tokens(self, item: Item) -> int:
        return item_tokens(item, self._reading.counter, self._reading.accounting)

    def _heads(self, numbers: Iterable[int]) -> dict[int, Head]:
        """Return the key of each unit's date line, shared by all units of its episode and day; none without such lines.

        If some units have a time, the others get an undated line, so that they do not seem to be of the same day.
        """
        if self._layout != "lines" or not self._dated:
            return {}
        day, traits = self._stored.day, self._stored.traits
        own = [number for number in numbers if not self.elsewhere(number)]
        return {number: (traits[number].episode, (day(number) or (number, UNDATED))[1]) for number in own}

    @collector_paused()
    def _units(self, numbers: Sequence[int]) -> dict[int, Item]:
        """Return the units as items; those without messages are missing."""
        rendered: dict[int, Item] = {}
        missing: list[int] = []
        marks_of_unit = self._marks_by_unit(numbers)
        keys = {number: self._key(number, marks_of_unit.get(number, ())) for number in numbers}
        for number in numbers:
            stored_item = self._stored.rendered.get(keys[number])
            if stored_item is None:
                missing.append(number)
                continue
            rendered[number], text = stored_item
            if text:
                self._borrowed_texts[number] = text
        units = self.messages(missing) if missing else {}
        marks_of = self.former.of_messages((m.session_id, m.seq) for unit in units.values() for m in unit)
        for number, unit in units.items():
            if self.elsewhere(number):
                rendered[number], text = self._of_other(unit, marks_of)
                self._borrowed_texts[number] = text
                self._stored.rendered.keep(keys[number], rendered[number], text)
                continue
            parts_of = line_parts if self._layout == "lines" else turn_parts
            messages, marks = [message.message for message in unit], mark_texts(unit, marks_of)
            # The stored size is that of the messages alone.
            tokens = None if any(marks) else self._stored.nodes[number].tokens
            parts = parts_of(messages, self._reading.safe, marks)
            first, last = (("", message.turn, message.seq) for message in (unit[0], unit[-1]))
            words = unit_words(messages, marks)
            item = Item(Ref.of("unit", number), words, parts, tokens=tokens, span=(first, last))
            rendered[number] = self._counted(item)
            self._stored.rendered.keep(keys[number], rendered[number])
        return rendered

    def _key(self, number: int, marks: Iterable[tuple[int, FormerMark]]) -> tuple[Hashable, ...]:
        """Return the cache key of a rendered unit, which looks different in the session that stored it."""
        return (number, self.elsewhere(number), *marks, *self._how)

    def marks(self, numbers: Iterable[int]) -> list[tuple[int, FormerMark]]:
        """Return the sequence numbers of the marked messages of units, with their marks."""
        return [mark for _, marks in sorted(self._marks_by_unit(numbers).items()) for mark in marks]

    def marked(self, numbers: Iterable[int]) -> set[int]:
        """Return the units that have a marked message."""
        return set(self._marks_by_unit(numbers))

    def _marks_by_unit(self, numbers: Iterable[int]) -> dict[int, list[tuple[int, FormerMark]]]:
        """Return the marks of each unit with any, read together, by the sequence number of the message."""
        if not self.former:
            return {}
        session, nodes = self._reading.session_id, self._stored.nodes
        sources = [(n, (nodes[n].session_id or session, seq)) for n in numbers for seq in expand(nodes[n].seqs)]
        marks, result = self.former.of_messages(source for _, source in sources), defaultdict(list)
        for number, source in sources:
            if source in marks:
                result[number].append((source[1], marks[source]))
        return result

    def _of_other(self, unit: Sequence[HeardMessage], marks: Mapping[Source, FormerMark]) -> tuple[Item, str]:
        """Return a unit of another session as an item, and its text. This session's log lacks it, so it is named by
        its text's hash, and the prompt keeps the text even if the other session is deleted."""
        first, texts = unit[0], [message.message.to_json() for message in unit]
        span = [(message.turn, message.seq) for message in (first, unit[-1])]
        origin: dict[str, object] = {"session": first.session_id, "turn": first.turn, "span": span}
        # Without the words of a fact or relation: this text is kept even after they are erased.
        wordless = {source: replace(mark, words="") for source, mark in marks.items()}
        if any(beside := mark_texts(unit, wordless)):
            origin["marks"] = beside
        stored = json.dumps({"unit": texts, "layout": self._layout, **origin}, ensure_ascii=False)
        item = stored_item(Ref.of("content", content_hash(stored)), stored, self._reading.safe)
        return self._counted(item), stored

    @collector_paused()
    def messages(self, numbers: Sequence[int]) -> dict[int, list[DatedMessage]]:
        """Return the messages of units; those whose messages are gone are missing. Each unit is read once."""
        reading, new = self._reading, [number for number in numbers if number not in self._read]
        if new:
            self._read |= dict.fromkeys(new)
            nodes = [self._stored.nodes[number] for number in new]
            with reading.database.read() as connection:
                self._read |= messages_of(connection, reading.session_id, reading.services.messages, nodes)
        return {number: unit for number in numbers if (unit := self._read[number]) is not None}

    def _day(self, number: int) -> Item:
        """Return the date line above a unit."""
        source, day = self._stored.day(number) or (number, UNDATED)
        line = TextPart(text=self._reading.safe(day))
        return self._counted(Item(Ref.of("day", source), "", (line,), tokens=0, heading=True))

    def _counted(self, item: Item) -> Item:
        """Return the item with its billed size, which is needed several times."""
        return replace(item, billed=self._tokens(item)) if self._reading.accounting == "billed" else item


# -- texts that repeat the question, or each other -------------------------------------------------


STEPS = 8
"""Maximum number of units after a question among which its answer is looked for."""


@dataclass(frozen=True, slots=True)
class RepeatedTexts:
    """Compares the texts of the units of one search; `unsaved` are those of a preview, by number."""

    reading: ReadContext
    stored: StoredUnits
    laid_out: PackedUnits
    unsaved: Mapping[int, Sequence[HeardMessage]]

    def answers(self, candidates: Iterable[int]) -> dict[int, int | None]:
        """Return the units that repeat the question, each with the last unit of its turn; None if it has no answer."""
        texts = self._texts([self.reading.question])
        numbers = list(candidates)
        alike = [n for n, key in zip(numbers, self.stored.text_numbers(numbers), strict=True) if key in texts]
        copies = self._saying(texts, alike)
        after = {number: self.stored.following(number, STEPS) for number in copies}
        units = self._messages({*copies, *(other for several in after.values() for other in several)})
        return {number: _answer(number, after[number], units) for number in copies}

    def plan(self, candidates: Collection[int], answers: Mapping[int, int | None], queued: Iterable[str]) -> Repeats:
        """Leave out all copies of the question, and of other equal texts all but one.

        An answer takes the place of its question. `queued`: texts of the queue, which are no news from another session.
        """
        groups: defaultdict[int, list[int]] = defaultdict(list)
        numbers = list(candidates)
        for number, key in zip(numbers, self.stored.text_numbers(numbers), strict=True):
            groups[key].append(number)
        # 1. Texts with equal stems may be equal: only these are read.
        queue_texts = self._texts(queued)
        similar = {n for key, group in groups.items() if len(group) > 1 or key in queue_texts for n in group}
        answered_by = self.stored.answered_by(list(similar))
        units = self._messages({*similar, *answered_by.values()})
        # The question of a search that is for no prompt stands nowhere, so one copy of it is a result.
        present = set(answers) if self.reading.for_prompt else set()
        alike = [n for key in queue_texts for n in groups.get(key, ())]
        present |= {n for n in self._saying(queue_texts, alike) if self.laid_out.elsewhere(n)}
        # 2. Of equal texts of one speaker, the one in the queue is shown, else one with an answer, else the newest.
        by_text: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
        for number in similar - present:
            if unit := units.get(number):
                by_text[self.stored.traits[number].speakers, same_words(search_words(unit))].append(number)

        def worth(number: int) -> tuple[bool, bool, bool, int]:
            of_session = not self.laid_out.elsewhere(number)
            in_queue = of_session and self.stored.nodes[number].covers(self.reading.queue_seqs)
            after = answered_by.get(number)
            answered = after is not None and _answer(number, (after,), units) is not None
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

    def _messages(self, numbers: Iterable[int]) -> dict[int, Sequence[HeardMessage]]:
        saved = sorted(set(numbers) - self.unsaved.keys())
        previewed = {number: unit for number in numbers if (unit := self.unsaved.get(number)) is not None}
        return {**(self.laid_out.messages(saved) if saved else {}), **previewed}


def _answer(number: int, after: Sequence[int], units: Mapping[int, Sequence[HeardMessage]]) -> int | None:
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


# -- LlamaIndex's node postprocessors -------------------------------------------------------------


NOT_APPLIED = "Not postprocessed:"
"""Beginning of the sentence on a postprocessor that failed, or is missing in this process."""


@dataclass(frozen=True, slots=True)
class PostprocessedUnit:
    """A stored unit, as postprocessors see it."""

    number: int
    words: str
    score: float


@dataclass(frozen=True, slots=True)
class Postprocessed:
    """Units that remain after the postprocessors, in their order."""

    kept: tuple[int, ...]
    problem: str | None = None
    """Sentence on a postprocessor that was not applied."""


def check(postprocessors: Sequence[Any]) -> list[str]:
    """Return the names of the postprocessors.

    Raises:
        ConfigError: an object is no postprocessor.
    """
    for item in postprocessors:
        if isinstance(item, type) or not callable(getattr(item, "postprocess_nodes", None)):
            name = item.__name__ if isinstance(item, type) else type(item).__name__
            raise ConfigError(f"node_postprocessors must be postprocessors of LlamaIndex, not {name}")
    return [type(postprocessor).__name__ for postprocessor in postprocessors]


def postprocess(postprocessors: Sequence[Any], question: str, nodes: Sequence[PostprocessedUnit]) -> Postprocessed:
    """Apply postprocessors in order. If one fails, the units stay unchanged."""
    from llama_index.core.schema import NodeWithScore, TextNode  # loaded already, as the postprocessors need it

    by_id = {str(node.number): node for node in nodes}
    passed = [NodeWithScore(node=TextNode(id_=id, text=node.words), score=node.score) for id, node in by_id.items()]
    problem = None
    for item in postprocessors:
        name = type(item).__name__
        try:
            passed = list(item.postprocess_nodes(passed, query_str=question))
            reworded = any(
                by_id.get(one.node.node_id) is None or one.node.get_content() != by_id[one.node.node_id].words
                for one in passed
            )
        except Exception as error:  # foreign code, which may call a model
            # Return the units as granted: nobody asked for the result of only some of the postprocessors.
            return Postprocessed(
                tuple(node.number for node in nodes), f"{NOT_APPLIED} {name} failed: {user_message(error)}"
            )
        if reworded:
            problem = f"{name} wrote other words, which were not used."
    passed_numbers = dict.fromkeys(by_id[one.node.node_id].number for one in passed if one.node.node_id in by_id)
    return Postprocessed(tuple(passed_numbers), problem)
