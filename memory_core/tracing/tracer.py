"""`Memory.trace`: gathers the log, the words and the prompt, and lets the pure parts follow."""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from heapq import merge
from typing import Any

from memory_core.blocks import WITH_TEXT
from memory_core.blocks.base import origin_of, stored_item
from memory_core.engine.session import Session
from memory_core.errors import MemoryInspectorError, MessageError, NotFoundError
from memory_core.events import KINDS, EventRecord, Ref, RefKind, expand, spread
from memory_core.history.by_turn import History, history_of
from memory_core.history.pieces import Pieces
from memory_core.history.slices.contexts import context_of, places_of
from memory_core.history.slices.fact_slice import HANDLED as FACT_EVENTS
from memory_core.history.slices.message_slice import MessageState
from memory_core.history.slices.states import state_at
from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.planning.context_plan import QUEUE
from memory_core.retrieval import explain
from memory_core.sessions.session_log import SessionLog
from memory_core.store.fact_rows import read_scope_events
from memory_core.store.message_rows import texts_that_hold
from memory_core.store.writing import user_scope
from memory_core.text import stems
from memory_core.tracing import watched
from memory_core.tracing.cuts import FoundCut, find_cut
from memory_core.tracing.effects import Effects
from memory_core.tracing.fixes import Fix, Fixes, apply_fix, find_fixes
from memory_core.tracing.life import GrowingLife, Life, read_life, with_others
from memory_core.tracing.matching import MAX_NEEDLES, Phrase, folded
from memory_core.tracing.moment import Moment, moment_at
from memory_core.tracing.omitted_results import Unsent, unsent
from memory_core.tracing.overlooked import Overlooked, overlooked
from memory_core.tracing.presence import MAX_TURNS, Presence, TurnPresence, presence_in
from memory_core.tracing.records import Records
from memory_core.tracing.showing.page import Page
from memory_core.tracing.shown import shown_page
from memory_core.tracing.texts import (
    Version,
    came_in,
    content_text,
    made_of,
    pieces_of,
    plain_text,
    saying,
    versions,
    with_words,
)
from memory_core.tracing.tracks import Followed, Tracing
from memory_core.tracing.values import CutEntry, Matched, Nearest, Said, Trace, Track, ranked

MAX_SAID = 12
"""Messages followed of those that say a phrase: the newest up to the prompt first."""

MAX_SAID_EVER = 300
"""The same for a strip, which follows to every turn's prompt those said by then."""

MEANT = 0.8
"""Cosine from which a message in other words is taken to say a phrase; below it, it is only suggested."""

SUGGESTED = 0.3
"""Cosine from which a message is suggested where nobody said a phrase."""

MAX_SPREAD, MAX_COMPARED = 12, 1_000
"""Words of a phrase that are looked for one by one where no text has all of them, and messages compared for each."""

MAX_CHARACTERS = 2_000
"""Characters of a phrase that are looked for by meaning."""

MAX_CARRIERS = 200
"""Facts, and relations, that are followed of those that say a phrase: "the" is said by 10,000 of a long session, and to
follow each of them takes two seconds. Those in the prompt or cut from it first, then the newest."""

MAX_ENTRIES = 50
"""Entries of a cut that are followed, in the order in which they were cut."""

MAX_READ = 300
"""Messages of a summary that are looked through for the words of one of its sentences: the newest."""

MAX_TRACKS = 50
"""Tracks of one trace, the furthest first: more are no help to whoever reads them, and a page draws each stage."""

_FACT_KINDS = tuple(kind for kind, event in KINDS.items() if event in FACT_EVENTS)

_ERASING = frozenset({"session_reset", "fact_erased", "entity_erased", "relation_erased", "vectors_removed"})
"""Events after which words of earlier turns may be gone."""

_BEST = 50
"""Stored units among which the nearest in meaning is looked for, best score first."""


class SessionTracer:
    """`Memory.trace`."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._log = SessionLog(session)

    def __call__(
        self, target: str | Ref, *, words: str | None = None, turn: int | None = None, upto: int | None = None
    ) -> Trace:
        """Follow one piece of information through every stage to a prompt, or to the rule that lost it.

        `target` is a phrase, or names a message, fact, relation, stored unit, text, sentence of a summary or cut as
        `Ref` does: `Ref.of("fact", 7)`; `words` are those of it that matter, None: all. `turn` is that of the prompt,
        None the latest, of a cut its own; `upto` a position of the log at which it ends. Changes nothing.

        Raises:
            MessageError: the phrase is empty.
            NotFoundError: there is no such turn, message, fact, relation, unit, text or cut, or it has no such words.
        """
        history = self._log.history()
        if turn is not None and turn not in history.turns:
            raise NotFoundError(f"There is no turn {turn:,} in this session.")
        end = history.position if upto is None else upto
        ref = target if isinstance(target, Ref) else None
        cut = self._cut(history, ref) if ref is not None and ref.kind == "cut" else None
        if cut is not None and turn in (None, cut.record.turn):  # a turn may have several prompts
            turn, end = cut.record.turn, min(end, cut.record.position)
        moment = moment_at(history, history.latest_turn if turn is None else turn, end)
        gathering = _Gathering(self._session, self._log, history, moment)
        if ref is not None and cut is not None:
            return gathering.cut(ref, cut)
        nearest = None
        if ref is not None:
            followed = gathering.picked(ref) if words is None else gathering.picked_words(ref, words)
            asked = gathering.asked
        else:
            followed, nearest = gathering.said(_typed(target))
            asked, ref = gathering.asked or followed.phrase.text, gathering.instead
        return gathering.trace(followed, asked, ref, nearest, gathering.life(followed))

    def _cut(self, history: History, ref: Ref) -> FoundCut:
        if not history.records:
            raise NotFoundError("Nothing was said in this session yet.")
        return find_cut(history, self._log.pieces(), ref)

    @property
    def watched(self) -> tuple[str | Ref, ...]:
        """What a person watches in this session, the oldest first."""
        return watched.watched(self._session)

    def watch(self, target: str | Ref) -> None:
        """Watch a phrase, or what a ref names, from now on, in every process; no event is recorded.

        Raises:
            MessageError: it is a cut, the phrase is empty or too long, or enough is watched already.
        """
        watched.watch(self._session, target)

    def unwatch(self, target: str | Ref) -> None:
        """Watch it no longer."""
        watched.unwatch(self._session, target)

    def presence(self, target: str | Ref, *, upto: int | None = None, known: Presence | None = None) -> Presence:
        """What became of something in each turn's prompt, up to a position of the log. Changes nothing.

        `known` is that of an earlier position: turns before its last are taken from it, unless something was erased.

        Raises:
            MessageError: the phrase is empty, or it is a cut.
            NotFoundError: nothing in the log has this ref.
        """
        history = self._log.history()
        end = history.position if upto is None else upto
        turns = sorted(number for number, turn in history.turns.items() if turn.first_position <= end)[-MAX_TURNS:]
        asked, trace = self._through(target, history, turns, end)
        cells, found = _still_valid(history, known, end), []
        for turn in turns:
            if turn not in cells:
                cells[turn] = presence_in(trace(turn), turn)
            found.append(cells[turn])
        return Presence(target, asked, tuple(found), end)

    def carriers(self, target: str | Ref) -> frozenset[Ref]:
        """Every message, fact, relation, stored unit and text that ever carried something, as of now.

        Raises:
            MessageError: the phrase is empty, or it is a cut.
            NotFoundError: nothing in the log has this ref.
        """
        gathering = self._gathering(self._log.history())
        followed = gathering.ever(target)
        tracks = gathering.tracks(followed, None, gathering.life(followed))
        found = {track.carrier.ref for track in tracks if track.carrier.ref is not None}
        versions = gathering.versions_saying(_typed(target)) if isinstance(target, str) else set()
        return frozenset(found | versions | {Ref.of("message", seq) for seq in followed.messages})

    def page(
        self,
        target: str | Ref | None = None,
        *,
        turns: Iterable[int] | None = None,
        start: int | None = None,
        upto: int | None = None,
    ) -> Page:
        """Some turns, None: all, to show to others as one file of HTML; with what is followed in each. Changes nothing.

        `start` is the turn the page opens at, None: the last; `upto` a position of the log at which it ends.

            Path("nuts.html").write_text(memory.trace.page("allergic to nuts").to_html(), encoding="utf-8")

        Raises:
            MessageError: the phrase is empty.
            NotFoundError: there is no such turn, or nothing was said, or nothing in the log has this ref.
        """
        self._session.open()
        whole = history = self._log.history()
        if upto is not None and upto < whole.position:
            history = history_of(whole.upto(upto))
        wanted = sorted(history.turns if turns is None else set(turns))
        missing = next((turn for turn in wanted if turn not in history.turns), None)
        if missing is not None:
            raise NotFoundError(f"There is no turn {missing} in this session.")
        if not wanted:
            raise NotFoundError("Nothing was said in this session yet.")
        # What was said only later is followed too: a trace says so, as `__call__` does.
        trace = None if target is None else self._through(target, whole, wanted, history.position)[1]
        return shown_page(self._session, self._log, history, wanted, trace, start)

    def _through(
        self, target: str | Ref, history: History, turns: Sequence[int], end: int
    ) -> tuple[str, Callable[[int], Trace]]:
        """The words of what is followed, and its trace to the prompt of each of these turns, which ascend.

        What is read for one turn is there for the others.
        """
        gathering = _Gathering(self._session, self._log, history, moment_at(history, turns[-1] if turns else 0, end))
        followed = gathering.ever(target)
        asked, ref = gathering.asked or followed.phrase.text, gathering.instead
        ref = target if isinstance(target, Ref) else ref
        life = gathering.life(followed)

        def trace(turn: int) -> Trace:
            then = gathering.at(moment_at(history, turn, end))
            return then.trace(then.narrowed(followed), asked, ref, None, life)

        return asked, trace

    def _gathering(self, history: History, upto: int | None = None) -> "_Gathering":
        """Reads for the latest prompt, up to a position of the log."""
        end = history.position if upto is None else upto
        return _Gathering(self._session, self._log, history, moment_at(history, history.latest_turn, end))

    def overlooked(self, *, upto: int | None = None) -> Overlooked:
        """Questions that found nothing, memory in no prompt, facts back and forth, and what was found and cut.

        Up to a position of the log, None: now. Changes nothing.
        """
        history = self._log.history()
        return overlooked(history, history.position if upto is None else upto, self._log.usage(upto))

    def effects(self, *, turn: int | None = None, upto: int | None = None) -> Effects:
        """Of all facts, relations and found units: what is in the prompt that a trace would look at, and why not.

        `turn` and `upto` as in a trace. Changes nothing. In a session of 10,000 messages it takes 3 ms, and to ask of
        1,000 facts 13 more, the first time for a prompt.
        """
        history = self._log.history()
        end = history.position if upto is None else upto
        moment = moment_at(history, history.latest_turn if turn is None else turn, end)
        session, services = self._session, self._session.services
        life = services.cached(("life", session.database.id, session.id), GrowingLife).catch_up(history, session.id)
        if elsewhere := _elsewhere(session, moment):  # which grow without this session's log
            return Effects(with_others(life, elsewhere), moment, end)
        key = "effects", session.database.id, session.id, moment.position, end, history.position
        return services.cached(key, lambda: Effects(life, moment, end))

    def unsent(
        self, searches: Iterable[EventRecord], *, upto: int | None = None, prompt: EventRecord | None = None
    ) -> Mapping[int, Unsent]:
        """Of searches of an attached agent's memory, those with something that the prompt that followed has not.

        By the search's position, with `prompt` only those that it followed; as of a position of the log, None: now.
        Changes nothing.
        """
        history = self._log.history()
        gathering, end = self._gathering(history, upto), history.position if upto is None else upto
        return unsent(history.upto(end), searches, gathering.words, gathering.all_said, prompt=prompt)

    def words(self, refs: Iterable[Ref], *, upto: int | None = None) -> dict[Ref, str]:
        """The words of what refs name, at a position of the log or now; without those that were erased."""
        history = self._log.history()
        return self._gathering(history, upto).words_at(refs, history.position if upto is None else upto)

    def words_of(self, ref: Ref) -> str:
        """The words of what a ref names, as of now; empty if they were erased.

        Raises:
            NotFoundError: nothing in the log has this ref.
        """
        gathering = self._gathering(self._log.history())
        gathering.picked(ref)
        return gathering.asked

    def fixes(self, trace: Trace, *, words: str | None = None) -> Fixes:
        """What would bring it into the next prompt, for the question of the traced one, each with that prompt.

        `words` are what to teach as a fact, None: what was asked for. Changes nothing.
        """
        self._session.open()
        return find_fixes(self._session, trace, words=words)

    def fix(self, fix: Fix) -> Callable[[], object] | None:
        """Do what a fix says; return what takes it back, None where nothing can.

        Raises:
            MemoryInspectorError: it is not possible any more; nothing was changed.
        """
        self._session.open()
        return apply_fix(self._session, fix)


def _typed(phrase: str) -> str:
    if not phrase.strip():
        raise MessageError("Type what the agent should have known.")
    return phrase


def _still_valid(history: History, known: Presence | None, end: int) -> dict[int, TurnPresence]:
    """Turns of an earlier one that still hold: all but its last turn's, unless something was erased since."""
    if known is None or known.position > end or any(each.kind in _ERASING for each in history.after(known.position)):
        return {}
    return {cell.turn: cell for cell in known.turns[:-1]}


def _elsewhere(session: Session, moment: Moment) -> list[EventRecord]:
    """Events of the user's other sessions about facts in blocks that this session shares."""
    names = [block.name for block in moment.blocks.values() if block.kind == "facts" and block.scope == "user"]
    if not names or session.user_id is None:
        return []
    scope = user_scope(session.user_id)
    with session.database.read() as connection:
        found = [record for name in names for record in read_scope_events(connection, scope, name, _FACT_KINDS)]
    others = [record for record in found if record.session_id != session.id]
    return sorted(others, key=lambda record: record.position)


class _Gathering:
    """Reads what one trace needs."""

    def __init__(self, session: Session, log: SessionLog, history: History, moment: Moment) -> None:
        self._session, self._log, self._history, self._moment = session, log, history, moment
        self._pieces: Pieces | None = log.pieces() if history.records else None
        self._texts: dict[str, str | None] = {}
        self._versions: dict[str, list[Version]] = {}
        self.asked = ""
        self.instead: Ref | None = None
        """What has all words of a phrase that was said nowhere, and is followed instead."""
        self._scattered = ""
        self._beyond: set[Ref] = set()
        """Carriers of a phrase that are not followed."""

    def at(self, moment: Moment) -> "_Gathering":
        """The same at another moment; what was read stays read."""
        other = copy.copy(self)
        other._moment = moment
        return other

    # -- words -----------------------------------------------------------------------------------

    def words(self, key: str) -> str | None:
        """Words by hash; None if they were erased."""
        if key not in self._texts:
            self._load([key])
        return self._texts[key]

    def _load(self, keys: Iterable[str]) -> None:
        wanted = {key for key in keys if key not in self._texts}
        found = self._log.texts(wanted) if wanted else {}
        self._texts.update((key, found.get(key)) for key in wanted)

    def words_at(self, refs: Iterable[Ref], position: int) -> dict[Ref, str]:
        """Words of many refs, read together; of a unit, those of its messages."""
        keys = {ref: self._keys(ref, position) for ref in refs}
        self._load(key for each in keys.values() for key in each)
        found = {
            ref: self._joined(ref, [text for key in each if (text := self.words(key))]) for ref, each in keys.items()
        }
        return {ref: words for ref, words in found.items() if words}

    def _keys(self, ref: Ref, position: int) -> list[str]:
        """Hashes of the words of a ref."""
        if ref.kind in ("text", "content"):
            return [ref.hash]
        if ref.kind == "fact":
            key = state_at(self._worded.get(ref.number, []), position)
            return [] if key is None else [key]
        if self._pieces is None:
            return []
        if ref.kind == "relation":
            words = self._pieces.relation(ref.number, position)
            return [] if words is None else [words.subject, words.predicate, words.object]
        unit = self._pieces.unit(ref.number) if ref.kind == "unit" else None
        seqs = [ref.number] if ref.kind == "message" else expand(unit.seqs) if unit is not None else []
        return [state.added.content for seq in seqs if (state := self._state(seq)) is not None]

    def _joined(self, ref: Ref, texts: list[str]) -> str:
        if ref.kind in ("unit", "message"):
            return "\n".join(message_text(ChatMessage.from_json(text)) for text in texts)
        if ref.kind == "content":
            return " ".join(stored_item(ref, text, str).words for text in texts)
        return " ".join(plain_text(text) if ref.kind == "text" else text for text in texts)

    def _message(self, seq: int) -> str | None:
        """Text of a message; None if it was erased."""
        state = self._state(seq)
        text = self.words(state.added.content) if state is not None else None
        return None if text is None else message_text(ChatMessage.from_json(text))

    def all_said(self, prompt: EventRecord) -> str:
        """The text of all messages of a prompt."""
        states = [state for seq in places_of(context_of(prompt)) if (state := self._state(seq)) is not None]
        self._load(state.added.content for state in states)
        return "\n".join(self._message(state.added.seq) or "" for state in states)

    def _state(self, seq: int) -> MessageState | None:
        """A message; None where there is none, or it was put after the log was read for this trace."""
        state = self._pieces.message(seq) if self._pieces is not None else None
        return state if state is not None and state.record.position <= self._history.position else None

    def _relation(self, id: int, position: int) -> str | None:
        words = self._pieces.relation(id, position) if self._pieces is not None else None
        if words is None:
            return None
        parts = [self.words(key) for key in (words.subject, words.predicate, words.object)]
        return " ".join(part for part in parts if part) or None

    def versions(self, name: str) -> list[Version]:
        """Every text that a block had, with its pieces."""
        if name not in self._versions:
            kind = self._history.kinds(self._history.position).get(name, "custom")
            found = versions(self._history.records, name)
            self._load(version.text for version in found)
            self._versions[name] = with_words(found, kind, self.words)
        return self._versions[name]

    def versions_saying(self, phrase: str) -> set[Ref]:
        """Return the pieces of all versions of the blocks' texts that say a phrase."""
        wanted, names = Phrase.of(phrase), self._history.blocks_ever(self._history.position)
        return {ref for name in names for each in self.versions(name) for ref in saying(wanted, each.pieces)}

    # -- what is followed ------------------------------------------------------------------------

    def ever(self, target: str | Ref) -> Followed:
        """What a ref names, or all that says a phrase, whenever it was said."""
        if isinstance(target, Ref):
            return self.picked(target)
        return self.said(_typed(target), most=MAX_SAID_EVER)[0]

    def said(self, phrase: str, *, most: int = MAX_SAID) -> tuple[Followed, Nearest | None]:
        """Everything that says a phrase (most: messages); else what has all its words, or a message close to it."""
        wanted = Phrase.of(phrase)
        followed = self._matching(wanted, most)
        if self._carries(followed):
            return followed, None
        for looser in (wanted.scattered, wanted.in_compounds):
            if (all_words := self._with_all_words(looser)) is not None:
                return all_words, None
        nearest = self._nearest(wanted.text)
        if nearest is not None and (nearest.similarity or 0.0) >= MEANT:
            close = f"close to them in meaning ({nearest.similarity:.2f})"
            self._scattered = f"Never said in these words; a message of turn {nearest.turn:,} is {close}."
            self.asked = nearest.words
            return self._followed(wanted, {nearest.seq: "meaning"}), None
        return followed, self._nearest_by_words(wanted) or nearest

    def _carries(self, followed: Followed) -> bool:
        found = followed.messages or followed.facts or followed.relations or followed.texts
        return bool(found) or any(True for _ in self._record_tracks(followed))

    def _with_all_words(self, wanted: Phrase) -> Followed | None:
        """One thing that has all words of a phrase, in any order: the newest message up to the prompt before others."""
        if self._pieces is None:
            return None
        ref, block = self._piece_with_all_words(wanted)
        if ref is not None:
            followed, self.instead = self.picked(ref, block), ref
            where = f"the text of {block}" if block is not None else f"one {ref.kind}"
            if ref.kind == "message" and (state := self._state(ref.number)) is not None:
                where += f" of turn {state.record.turn:,}"
        else:
            followed, where = self._followed(wanted, {}), "one record of the agent's memory"
            if not self._carries(followed):
                return None
        as_parts = ", some only as part of a longer word" if wanted.parts else ""
        self._scattered = f"Not word for word; all these words are in {where}{as_parts}."
        return followed

    def _piece_with_all_words(self, wanted: Phrase) -> tuple[Ref | None, str | None]:
        """The same as a ref, with the block of a text."""
        if saying_it := self._saying(wanted, 1):
            return Ref.of("message", saying_it[0]), None
        kinds: Mapping[RefKind, list[int]] = {
            "fact": self._facts_saying(wanted), "relation": self._relations_saying(wanted)
        }  # fmt: skip
        for kind, ids in kinds.items():
            if best := next(iter(self._nearest_to_prompt(kind, dict.fromkeys(ids, "words"))), None):
                return Ref.of(kind, best), None
        for name in self._history.blocks_ever(self._history.position):
            for version in reversed(self.versions(name)):
                if refs := saying(wanted, version.pieces):
                    return refs[0], name
        given = {
            ref: str(part["name"])
            for turn in self._history.turns.values()
            for record in turn.contexts
            for part in context_of(record).parts
            for ref in spread(part["refs"])
            if ref.kind == "content"
        }
        self._load(ref.hash for ref in given)
        holding = (ref for ref in reversed(given) if wanted.said_in(content_text(ref, self.words(ref.hash))))
        ref = next(holding, None)
        return ref, given[ref] if ref is not None else None

    def _nearest_by_words(self, wanted: Phrase) -> Nearest | None:
        """The message with most words of a phrase, where each of them is in some message; None where one is in none."""
        words = sorted(wanted.all_words, key=len, reverse=True)  # long ones are rare: most often the first decides
        if self._pieces is None or not 2 <= len(words) <= MAX_SPREAD:
            return None
        common: Counter[int] = Counter()
        for word in words:
            saying_it = self._saying(Phrase.of(word).scattered, MAX_COMPARED)
            if not saying_it:
                return None
            common.update(saying_it)
        best = max(common, key=lambda seq: (common[seq], seq))
        state = self._state(best)
        assert state is not None
        return Nearest(best, state.record.turn, self._message(best) or "", None, (common[best], len(words)))

    def _matching(self, wanted: Phrase, most: int) -> Followed:
        """Everything that says a phrase by its words."""
        if self._pieces is None:
            return self._followed(wanted, {})
        messages: dict[int, Matched] = dict.fromkeys(self._saying(wanted, most), "words")
        facts = dict.fromkeys(self._facts_saying(wanted), "words")
        relations = dict.fromkeys(self._relations_saying(wanted), "words")
        few, related = self._nearest_to_prompt("fact", facts), self._nearest_to_prompt("relation", relations)
        self._beyond = {Ref.of("fact", id) for id in facts.keys() - few.keys()}
        self._beyond |= {Ref.of("relation", id) for id in relations.keys() - related.keys()}
        texts = self._texts_saying(wanted)
        return self._followed(wanted, messages, facts=few, relations=related, texts=texts)  # type: ignore[arg-type]

    def narrowed(self, followed: Followed) -> Followed:
        """What was found at another moment, as it would be found at this one."""
        then = self._moment.position
        order = sorted(followed.messages.items(), key=lambda each: (each[1][0].position > then, -each[1][0].position))
        by_id: dict[tuple[str, Ref], Matched] = {piece: how for piece, how in followed.texts.items() if how == "id"}
        texts = by_id or self._texts_saying(followed.phrase)
        return replace(followed, messages=dict(order[:MAX_SAID]), texts=texts)

    def _texts_saying(self, wanted: Phrase) -> dict[tuple[str, Ref], Matched]:
        """Pieces of the blocks' texts of the time that say a phrase, and what was asked for of other sessions."""
        found: dict[tuple[str, Ref], Matched] = {
            (block.name, ref): "words"
            for block in self._moment.blocks.values()
            if block.text
            for ref in saying(wanted, pieces_of(block.kind, block.text, self.words(block.text)))
        }
        given = {ref: name for ref, name in self._moment.held.items() if ref.kind == "content"}
        given |= {ref: cut.part for ref, cut in self._moment.cut.items() if ref.kind == "content"}
        self._load(ref.hash for ref in given)
        for ref, name in given.items():
            stored = self.words(ref.hash)
            if stored is not None and origin_of(stored) is not None and wanted.said_in(content_text(ref, stored)):
                found[name, ref] = "words"
        return found

    def _nearest_to_prompt(self, kind: RefKind, matched: Mapping[int, str]) -> dict[int, str]:
        """At most `MAX_CARRIERS` of these: those in the prompt, then those cut from it, then the newest."""
        moment = self._moment

        def place(id: int) -> tuple[bool, bool, int]:
            ref = Ref.of(kind, id)
            return ref in moment.held, ref in moment.cut, id

        return {id: matched[id] for id in sorted(matched, key=place, reverse=True)[:MAX_CARRIERS]}

    def picked_words(self, ref: Ref, words: str) -> Followed:
        """The same, of what a ref names only these words.

        Raises:
            NotFoundError: nothing in the log has this ref, or it does not say so.
        """
        whole = self.picked(ref)
        read = (words, words.partition(": ")[2])  # a stored line of a prompt begins with who said it
        wanted = next((each for each in map(Phrase.of, read) if each.said_in(self.asked)), None)
        if wanted is None:
            raise NotFoundError("What is followed does not say these words.")
        self.asked = wanted.text
        if ref.kind == "content" or (ref.kind == "text" and not (whole.messages or whole.read)):
            copies = self._matching(wanted, MAX_SAID)
            return replace(copies, texts={**copies.texts, **whole.texts})
        saying = {seq: each for seq, each in whole.messages.items() if wanted.said_in(self._message(seq) or "")}
        messages = saying or whole.messages
        return replace(whole, phrase=wanted, messages=messages, all_of_it=False, parts=True)

    def picked(self, ref: Ref, part: str | None = None) -> Followed:
        """What a ref names, with the messages it comes from; `part` is the block of a piece, if it is known.

        Raises:
            MessageError: it names a cut.
            NotFoundError: nothing in the log has this ref.
        """
        pieces = self._pieces
        if pieces is None:
            raise NotFoundError("Nothing was said in this session yet.")
        if ref.kind == "cut":
            raise MessageError("A cut belongs to one prompt. Follow what was cut instead.")
        if ref.kind in ("text", "content"):
            return self._text(ref, part)
        number = ref.number
        if ref.kind == "message":
            state = pieces.message(number)
            if state is None:
                raise NotFoundError(f"There is no message {number} in this session.")
            self.asked = self._message(number) or "(erased)"
            return self._followed(Phrase.of(self.asked), {number: "id"}, all_of_it=True)
        if ref.kind in ("unit", "day"):
            unit = pieces.unit(number)
            if unit is None:
                raise NotFoundError("There is no such stored unit in this session.")
            seqs = expand(unit.seqs)
            self.asked = "\n".join(text for seq in seqs if (text := self._message(seq))) or "(erased)"
            messages: dict[int, Matched] = dict.fromkeys(seqs, "id")
            return self._followed(Phrase.of(self.asked), messages, units={number: "id"}, all_of_it=True)
        if ref.kind == "fact":
            return self._fact(number)
        if number not in pieces.relations:
            raise NotFoundError("There is no such relation in this session.")
        self.asked = self._relation(number, self._moment.position) or self._relation(number, 2**62) or "(erased)"
        sources = self._sources("relation", number)
        return self._followed(Phrase.of(self.asked), dict.fromkeys(sources, "id"), relations={number: "id"})

    def _fact(self, number: int) -> Followed:
        worded = self._worded
        if number not in worded:
            raise NotFoundError("There is no such fact in this session.")
        then = [words for position, words in worded[number] if position <= self._moment.position]
        self.asked = self.words((then or [words for _, words in worded[number]])[-1]) or "(erased)"
        sources = self._sources("fact", number)
        return self._followed(Phrase.of(self.asked), dict.fromkeys(sources, "id"), facts={number: "id"})

    def _sources(self, name: str, number: int) -> set[int]:
        """Messages that a fact or a relation was learned from by then; where it was learned later, those."""
        records = [record for record in self._history.records if getattr(record.event, name, None) == number]
        then = [record for record in records if record.position <= self._moment.position]
        return {seq for record in then or records for seq in expand(getattr(record.event, "sources", ()))}

    def _text(self, ref: Ref, part: str | None) -> Followed:
        """A piece of a block's text: of a summary's sentence also the messages that it was made of."""
        here = part or self._moment.held.get(ref) or getattr(self._moment.cut.get(ref), "part", None)
        name = here if ref.kind == "content" else self._holder(ref, here)
        if name is None:
            raise NotFoundError("This text is in no block of this session.")
        came = came_in(self.versions(name), ref)
        stored = None if came is not None else self.words(ref.hash)
        words = came.pieces[ref] if came is not None else plain_text(stored)
        if ref.kind == "content":
            words = content_text(ref, stored)
        self.asked = words or "(erased)"
        phrase = Phrase.of(self.asked)
        texts: dict[tuple[str, Ref], Matched] = {(name, ref): "id"}
        stretches = list(made_of(self.versions(name), ref)) if words else []
        for seqs in stretches:
            if saying := self._carried(phrase, seqs[-MAX_READ:]):
                return replace(self._followed(phrase, dict.fromkeys(saying, "words"), texts=texts), parts=True)
        states = [state for seq in stretches[0][-MAX_SAID:] if (state := self._state(seq))] if stretches else []
        followed = self._followed(phrase, {}, texts=texts)
        return replace(followed, read=tuple(state.record for state in states))

    def _holder(self, ref: Ref, here: str | None) -> str | None:
        """The block that has a text or a sentence: in the prompt, then at that time, then ever."""
        if here is not None:
            return here
        now, ever = self._moment.blocks, self._history.blocks_ever(self._history.position)
        named = [*(name for name, block in now.items() if block.text == ref.hash), *now, *ever]
        with_text = (name for name in dict.fromkeys(named) if ever[name].kind in WITH_TEXT)
        return next((name for name in with_text if came_in(self.versions(name), ref) is not None), None)

    def _carried(self, phrase: Phrase, seqs: Sequence[int]) -> list[int]:
        """Messages whose words a sentence has, those that share most of them first."""
        states = [state for seq in seqs if (state := self._state(seq)) is not None]
        self._load(state.added.content for state in states)
        texts = {state.added.seq: self._message(state.added.seq) or "" for state in states}
        found = [seq for seq, text in texts.items() if phrase.carried_by(text)]
        return sorted(found, key=lambda seq: -len(phrase.stems & set(stems(texts[seq]))))[:MAX_SAID]

    def _saying(self, wanted: Phrase, most: int) -> list[int]:
        """Messages that say a phrase, at most so many: those up to the prompt first, newest first."""
        signs = () if wanted.sentences else tuple(dict.fromkeys(wanted.text.casefold().split()))[:MAX_NEEDLES]
        needles = wanted.needles or signs
        with self._session.database.read() as connection:
            fold = folded if wanted.any_order else None
            holding = texts_that_hold(connection, self._session.id, needles, fold)
        then = self._moment.position
        states = [] if self._pieces is None else self._pieces.messages_with(holding)
        states.sort(key=lambda state: (state.record.position > then, -state.record.position))
        found: list[int] = []
        for start in range(0, len(states), 200):
            part = [state.added for state in states[start : start + 200]]
            self._load(added.content for added in part)
            for added in part:
                if wanted.said_in(self._message(added.seq) or ""):
                    found.append(added.seq)
                    if len(found) == most:
                        return found
        return found

    @cached_property
    def _worded(self) -> dict[int, list[tuple[int, str]]]:
        """Hash of the words of every fact, of the user's in other sessions too, by the position they applied from."""
        own = self._pieces.fact_words if self._pieces is not None else {}
        found = {id: [(position, words.content) for position, words in worded] for id, worded in own.items()}
        for record in self._elsewhere:
            words = getattr(record.event, "after", None) or getattr(record.event, "content", None)
            if record.kind in ("fact_added", "fact_changed") and isinstance(words, str):
                fact: int = getattr(record.event, "fact", 0)
                found.setdefault(fact, []).append((record.position, words))
        return found

    def _facts_saying(self, wanted: Phrase) -> list[int]:
        worded = self._worded
        self._load(key for words in worded.values() for _, key in words)
        return [id for id, words in worded.items() if any(self._says(wanted, key) for _, key in words)]

    def _relations_saying(self, wanted: Phrase) -> list[int]:
        known = tuple(self._pieces.relations) if self._pieces is not None else ()  # another thread may read on
        then, ever = self._moment.position, 2**62
        return [id for id in known if wanted.said_in(self._relation(id, then) or self._relation(id, ever) or "")]

    def _says(self, wanted: Phrase, key: str) -> bool:
        """Whether a text says a phrase. Most lack the beginning of a word, which is seen without their stems."""
        text = self.words(key) or ""
        searched = folded(text)
        return all(needle in searched for needle in wanted.needles) and wanted.said_in(text)

    @cached_property
    def _elsewhere(self) -> list[EventRecord]:
        return _elsewhere(self._session, self._moment)

    def _nearest(self, phrase: str) -> Nearest | None:
        """The message closest in meaning; None where nothing is stored, or no vector can be made."""
        if self._pieces is None:
            return None
        try:
            search = explain.search(self._session, phrase[:MAX_CHARACTERS])
        except MemoryInspectorError:  # no vector block, or no embedder: there is nothing to compare meanings with
            return None
        close = max(search.found[:_BEST], key=lambda found: found.vector or 0.0, default=None)
        unit = self._pieces.unit(close.number) if close is not None else None
        if close is None or unit is None or (close.vector or 0.0) < SUGGESTED:
            return None
        return Nearest(expand(unit.seqs)[0], close.turn, close.words, round(close.vector or 0.0, 2))

    def _followed(
        self,
        phrase: Phrase,
        seqs: Mapping[int, Matched],
        *,
        facts: Mapping[int, Matched] | None = None,
        relations: Mapping[int, Matched] | None = None,
        units: Mapping[int, Matched] | None = None,
        texts: Mapping[tuple[str, Ref], Matched] | None = None,
        all_of_it: bool = False,
    ) -> Followed:
        states = {seq: state for seq in seqs if (state := self._state(seq)) is not None}
        return Followed(
            phrase=phrase,
            messages={seq: (state.record, seqs[seq]) for seq, state in states.items()},
            left={
                seq: self._history.upto(state.left)[-1]
                for seq, state in states.items()
                if state.left is not None and state.left <= self._history.position
            },
            facts=facts or {},
            relations=relations or {},
            units=units or {},
            texts=texts or {},
            all_of_it=all_of_it,
        )

    # -- the trace -------------------------------------------------------------------------------

    def life(self, *followed: Followed) -> Life:
        """What the log tells of these."""
        records: Iterable[EventRecord] = self._history.records
        if elsewhere := self._elsewhere:
            records = merge(records, elsewhere, key=lambda record: record.position)
        seqs = {seq for each in followed for seq in each.messages}
        units = {number for each in followed for number in each.units}
        return read_life(records, seqs, units=units, session_id=self._session.id)

    def tracks(self, followed: Followed, target: Ref | None, life: Life) -> tuple[Track, ...]:
        """Every track of what is followed, the furthest first."""
        worded = self._worded
        made = Tracing(
            self._history, life, self._moment, followed, self.words, worded, self._message, self._relation,
            self.versions, tuple(self._answers()),
        )  # fmt: skip
        # Records first: of what is as far, the one that was found and not sent says more than a message left out.
        return ranked([*self._record_tracks(followed), *made.tracks()], target)

    def _record_tracks(self, followed: Followed) -> Iterable[Track]:
        """Those of an attached agent's memory; empty for any other session."""
        if not self._history.attached or not followed.phrase.text:
            return ()
        return Records(self._history, self._moment, self.words, self.all_said).tracks(followed.phrase)

    def trace(self, followed: Followed, asked: str, target: Ref | None, nearest: Nearest | None, life: Life) -> Trace:
        """Everything put together."""
        tracks = self.tracks(followed, target, life)
        more = len(self._beyond - {track.carrier.ref for track in tracks}) + len(tracks[MAX_TRACKS:])
        found = self._trace(asked, target, self._said(followed), tracks[:MAX_TRACKS], life)
        return replace(found, nearest=nearest, more=more, scattered=self._scattered)

    def cut(self, target: Ref, cut: FoundCut) -> Trace:
        """A cut: each of its entries followed, with what else carries it."""
        followed: list[tuple[Ref, Followed | None, str]] = []
        for ref in cut.refs[:MAX_ENTRIES]:
            try:
                followed.append((ref, self.picked(ref, None if cut.part == QUEUE else cut.part), self.asked))
            except NotFoundError:  # nothing of it is known any more
                followed.append((ref, None, ""))
        life = self.life(*(each for _, each, _ in followed if each is not None))
        entries = tuple(self._entry(ref, each, words, life) for ref, each, words in followed)
        its_own = self._moment.record is not None and self._moment.record.position == cut.record.position
        shown_cut = cut.trace(entries, self._moment.prompt, its_own=its_own)
        tracks = [track for each in entries for track in (each.own, *each.others) if track is not None]
        different = tuple({track.carrier.key: track for track in tracks}.values())
        said = {each.seq: each for entry in entries for each in entry.said}
        asked = "\n".join(entry.words for entry in entries)
        shown = ranked(different, target)[:MAX_TRACKS]
        found = self._trace(asked, target, tuple(said[seq] for seq in sorted(said, reverse=True)), shown, life)
        return replace(found, cut=shown_cut, more=len(different) - len(shown))

    def _entry(self, ref: Ref, followed: Followed | None, words: str, life: Life) -> CutEntry:
        tracks = self.tracks(followed, ref, life) if followed is not None else ()
        own = next((track for track in tracks if track.carrier.ref == ref), None)
        said = self._said(followed) if followed is not None else ()
        return CutEntry(ref, "" if words == "(erased)" else words, said, own, tuple(t for t in tracks if t is not own))

    def _trace(
        self, asked: str, target: Ref | None, said: tuple[Said, ...], tracks: tuple[Track, ...], life: Life
    ) -> Trace:
        moment = self._moment
        return Trace(
            asked=asked,
            target=target,
            turn=moment.turn,
            prompt_turn=moment.record.turn if moment.record is not None else None,
            position=moment.position,
            prompt_position=moment.record.position if moment.record is not None else None,
            question=self._question(),
            said=said,
            tracks=tracks,
            known_from=life.reset.position if life.reset is not None else None,
        )

    def _question(self) -> str | None:
        """What the prompt was built for: its input, else the newest message of the user in it."""
        built = self._moment.built
        if built is not None and built.input:
            return self.words(built.input)
        for seq in sorted(self._moment.queue, reverse=True):
            state = self._state(seq)
            if state is not None and state.added.role == MessageRole.USER:
                return self._message(seq)
        return None

    def _said(self, followed: Followed) -> tuple[Said, ...]:
        found: list[tuple[EventRecord, Matched]] = [*followed.messages.values()]
        found += [(record, "read") for record in followed.read]
        said = []
        for record, matched in found:
            event: Any = record.event
            said.append(Said(event.seq, record.turn, event.role, matched))
        return tuple(sorted(said, key=lambda said: -said.seq))

    def _answers(self) -> Collection[tuple[EventRecord, str]]:
        """What the assistant said after the prompt, in its turn."""
        record, found = self._moment.record, []
        for later in self._history.after(record.position) if record is not None else ():
            if record is None or later.turn != record.turn or later.kind == record.kind:
                break
            if getattr(later.event, "role", None) == MessageRole.ASSISTANT:
                text = self._message(getattr(later.event, "seq", 0))
                found += [(later, text)] if text else []
        return found
