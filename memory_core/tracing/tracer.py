"""`Memory.trace`: read log, texts and prompt, and run the pure modules on them."""

import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from memory_core.blocks import WITH_TEXT
from memory_core.blocks.base import origin_of, stored_item
from memory_core.engine.session import Session
from memory_core.errors import MemoryInspectorError, MessageError, NotFoundError
from memory_core.events import KINDS, EventRecord, Ref, RefKind, expand, spread
from memory_core.history.by_turn import History, history_of
from memory_core.history.context_pieces import Pieces
from memory_core.history.contexts import context_of, places_of
from memory_core.history.learned_slices import FACT_EVENTS, adds_fact, rewords_fact, state_at
from memory_core.history.message_slice import MessageState
from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.planning.context_plan import QUEUE
from memory_core.planning.phrase_matching import Phrase
from memory_core.process import collector_paused
from memory_core.retrieval import explain
from memory_core.sessions.handle import SessionLog
from memory_core.store.fact_rows import read_scope_events
from memory_core.store.message_rows import texts_that_hold
from memory_core.store.writing import user_scope
from memory_core.text import stems
from memory_core.tracing import watched
from memory_core.tracing.effects import Effects
from memory_core.tracing.exported_page import Page, shown_page
from memory_core.tracing.fixes import Fix, Fixes, apply_fix, find_fixes
from memory_core.tracing.item_events import ItemEvents
from memory_core.tracing.overlooked import OmittedResults, Overlooked, omitted_results, overlooked
from memory_core.tracing.stages import FoundCut, find_cut
from memory_core.tracing.texts import (
    Version,
    content_text,
    first_version,
    pieces_of,
    plain_text,
    possible_sources,
    saying,
    versions,
    with_words,
)
from memory_core.tracing.trace_time import Moment, moment_at
from memory_core.tracing.tracks import Followed, Records, Tracing
from memory_core.tracing.values import CutEntry, Matched, Nearest, Said, Trace, Track, ranked
from memory_core.tracing.watched import MAX_TURNS, Presence, TurnPresence, presence_in

MAX_SAID = 12
"""Maximum messages followed for a phrase: the newest before the prompt first, then later ones."""

MAX_SAID_EVER = 300
"""Maximum messages matched for a presence strip; each of its turns follows at most `MAX_SAID` of them."""

MIN_PARAPHRASE_SIMILARITY = 0.8
"""Minimum cosine similarity at which a reworded message counts as saying a phrase; below it, it is only suggested."""

MIN_SUGGESTION_SIMILARITY = 0.3
"""Minimum cosine similarity to suggest a message for a phrase that nobody said."""

MAX_SPREAD, MAX_COMPARED = 12, 1_000
"""Maximum words of a phrase searched one by one if no text has all of them, and messages compared for each."""

MAX_CHARACTERS = 2_000
"""Maximum characters of a phrase searched by meaning."""

MAX_CARRIERS = 200
"""Maximum facts, and relations, followed for a phrase; a common word matches 10,000, which would take two seconds.
Those in the prompt or cut from it come first, then the newest."""

MAX_ENTRIES = 50
"""Maximum entries followed for a cut, in the order cut."""

MAX_READ = 300
"""Maximum source messages of a summary compared with a sentence: the newest."""

MAX_TRACKS = 50
"""Maximum tracks of a trace: those that came furthest; every stage of each is rendered."""

_FACT_KINDS = tuple(kind for kind, event in KINDS.items() if event in FACT_EVENTS)

_ERASING = frozenset({"session_reset", "fact_erased", "entity_erased", "relation_erased", "vectors_removed"})
"""Events after which texts of earlier turns may be erased."""

_BEST = 50
"""Maximum stored units compared by meaning, best score first."""


class SessionTracer:
    """Traces of one session, as `Memory.trace`: where information went, what lost it and what would bring it back."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._log = SessionLog(session)

    @collector_paused()
    def __call__(
        self, target: str | Ref, *, words: str | None = None, turn: int | None = None, upto: int | None = None
    ) -> Trace:
        """Follow one piece of information through every stage, to a prompt or the rule that lost it.

        `target`: a phrase, or the `Ref` of a message, fact, relation, stored unit, text, summary sentence or cut:
        `Ref.of("fact", 7)`. `words`: the relevant part of its text; default: all. `turn`: turn of the prompt; default:
        the latest, or the cut's own. `upto`: log position of the view. Changes nothing.

        Raises:
            MessageError: The phrase is empty.
            NotFoundError: The turn or target does not exist, or lacks the words.
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
            # Nobody may have said these words: the nearest message, or one with all of them, is followed instead.
            followed, nearest = gathering.search(_typed(target))
            asked, ref = gathering.asked or followed.phrase.text, gathering.instead
        return gathering.trace(followed, asked, ref, nearest)

    def _cut(self, history: History, ref: Ref) -> FoundCut:
        if not history.records:
            raise NotFoundError("Nothing was said in this session yet.")
        return find_cut(history, self._log.pieces(), ref)

    @property
    def watched(self) -> tuple[str | Ref, ...]:
        """Return the watched items of this session, oldest first."""
        return watched.watched(self._session)

    def watch(self, target: str | Ref) -> None:
        """Watch a phrase or ref from now on, in every process; no event is recorded.

        Raises:
            MessageError: The target is a cut, the phrase is empty or too long, or the limit is reached.
        """
        watched.watch(self._session, target)

    def unwatch(self, target: str | Ref) -> None:
        """Stop watching a phrase or ref; no error if it was not watched."""
        watched.unwatch(self._session, target)

    def presence(self, target: str | Ref, *, upto: int | None = None, earlier: Presence | None = None) -> Presence:
        """Return the presence of a phrase or ref in each turn's prompt, up to a log position. Changes nothing.

        `earlier`: a former result to extend; its turns, except the last, are reused unless something was erased.

        Raises:
            MessageError: The phrase is empty, or the ref is that of a cut.
            NotFoundError: The log lacks this ref.
        """
        history = self._log.history()
        end = history.position if upto is None else upto
        # Turns that have begun: the last one may still lack its prompt.
        turns = sorted(number for number, turn in history.turns.items() if turn.first_position <= end)[-MAX_TURNS:]
        asked, trace = self._through(target, history, turns, end)
        moment = moment_at(history, turns[-1] if turns else 0, end)
        erased = max((record.position for record in _elsewhere(self._session, moment, _ERASING)), default=0)
        cells, presences = _still_valid(history, earlier, end, erased), []
        for turn in turns:
            # Finished turns never change, so only new ones are traced.
            if turn not in cells:
                cells[turn] = presence_in(trace(turn), turn)
            presences.append(cells[turn])
        return Presence(target, asked, tuple(presences), end)

    def carriers(self, target: str | Ref) -> frozenset[Ref]:
        """Return all messages, facts, relations, stored units and texts that ever carried the target.

        Raises:
            MessageError: The phrase is empty, or the ref is that of a cut.
            NotFoundError: The log lacks this ref.
        """
        gathering = self._gathering(self._log.history())
        followed = gathering.ever(target)
        tracks = gathering.tracks(followed, None)
        refs = {track.carrier.ref for track in tracks if track.carrier.ref is not None}
        versions = gathering.versions_saying(_typed(target)) if isinstance(target, str) else set()
        return frozenset(refs | versions | {Ref.of("message", seq) for seq in followed.messages})

    def page(
        self,
        target: str | Ref | None = None,
        *,
        turns: Iterable[int] | None = None,
        start: int | None = None,
        upto: int | None = None,
    ) -> Page:
        """Build an HTML page of some turns (default: all), with a trace in each. Changes nothing.

        `start`: turn to open at; default: the last. `upto`: log position of the view.

            Path("nuts.html").write_text(memory.trace.page("allergic to nuts").to_html(), encoding="utf-8")

        Raises:
            MessageError: The phrase is empty.
            NotFoundError: The turn or ref does not exist, or the session is empty.
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
        # Includes messages said only later: a trace reports that, as in `__call__`.
        trace = None if target is None else self._through(target, whole, wanted, history.position)[1]
        return shown_page(self._session, self._log, history, wanted, trace, start)

    def _through(
        self, target: str | Ref, history: History, turns: Sequence[int], end: int
    ) -> tuple[str, Callable[[int], Trace]]:
        """Return the text of the target, and a function tracing it to the prompt of each turn, called in ascending
        order.

        Data read for one turn is reused for the others.
        """
        gathering = _Gathering(self._session, self._log, history, moment_at(history, turns[-1] if turns else 0, end))
        # The target is found once, at the latest prompt, and narrowed for each turn.
        followed = gathering.ever(target)
        asked, ref = gathering.asked or followed.phrase.text, gathering.instead
        ref = target if isinstance(target, Ref) else ref

        def trace(turn: int) -> Trace:
            then = gathering.at(moment_at(history, turn, end))
            return then.trace(then.narrowed(followed), asked, ref, None)

        return asked, trace

    def _gathering(self, history: History, upto: int | None = None) -> "_Gathering":
        """Create a reader for the latest prompt, up to a log position."""
        end = history.position if upto is None else upto
        return _Gathering(self._session, self._log, history, moment_at(history, history.latest_turn, end))

    def overlooked(self, *, upto: int | None = None) -> Overlooked:
        """Return questions without results, unused memory, facts that flip, and retrieved items that were cut.

        `upto`: log position of the view; default: now. Changes nothing.
        """
        history = self._log.history()
        return overlooked(history, history.position if upto is None else upto, self._log.usage(upto))

    def effects(self, *, turn: int | None = None, upto: int | None = None) -> Effects:
        """Return the outcome for each fact, relation and retrieved unit in the prompt that a trace would use.

        `turn` and `upto` as in a trace. Changes nothing. Takes 3 ms in a session of 10,000 messages, plus 13 ms for the
        first look-up of 1,000 facts.
        """
        history = self._log.history()
        end = history.position if upto is None else upto
        moment = moment_at(history, history.latest_turn if turn is None else turn, end)
        session, items = self._session, self._log.follow(ItemEvents)
        # Not cached: facts of other sessions change without an event in this log.
        if elsewhere := _elsewhere(session, moment):
            return Effects(items.with_others(elsewhere), moment, end)
        key = "effects", session.database.id, session.id, moment.position, end, history.position
        return session.services.cached(key, lambda: Effects(items, moment, end))

    def omitted_results(
        self, searches: Iterable[EventRecord], *, upto: int | None = None, prompt: EventRecord | None = None
    ) -> Mapping[int, OmittedResults]:
        """Return searches of an attached agent's memory with results missing from the prompt that followed.

        Keys are the searches' log positions; `prompt`: only searches for this prompt. `upto`: log position of the view;
        default: now. Changes nothing.
        """
        history = self._log.history()
        gathering, end = self._gathering(history, upto), history.position if upto is None else upto
        return omitted_results(history.upto(end), searches, gathering.words, gathering.all_said, prompt=prompt)

    def words(self, refs: Iterable[Ref], *, upto: int | None = None) -> dict[Ref, str]:
        """Return the texts of refs, at a log position or now; erased ones are omitted."""
        history = self._log.history()
        return self._gathering(history, upto).words_at(refs, history.position if upto is None else upto)

    def words_of(self, ref: Ref) -> str:
        """Return the text of a ref as of now; empty if erased.

        Raises:
            NotFoundError: The log lacks this ref.
        """
        gathering = self._gathering(self._log.history())
        gathering.picked(ref)
        return gathering.asked

    def fixes(self, trace: Trace, *, words: str | None = None) -> Fixes:
        """Return changes that would bring the information into the next prompt for the traced question, simulated.

        `words`: text to add as a fact; default: the traced phrase. Changes nothing.
        """
        self._session.open()
        return find_fixes(self._session, trace, words=words)

    def fix(self, fix: Fix) -> Callable[[], object] | None:
        """Apply a fix; return a function that undoes it, or None.

        Raises:
            MemoryInspectorError: The fix is no longer possible; nothing was changed.
        """
        self._session.open()
        return apply_fix(self._session, fix)


def _typed(phrase: str) -> str:
    if not phrase.strip():
        raise MessageError("Type what the agent should have known.")
    return phrase


def _still_valid(history: History, prior: Presence | None, end: int, erased: int) -> dict[int, TurnPresence]:
    """Return reusable turns of an earlier result: all but its last, unless something was erased since.

    `erased`: position of the last erasure of a shared fact in another session; 0 for none.
    """
    if prior is None or prior.position > end or prior.position < erased:
        return {}
    if any(item.kind in _ERASING for item in history.after(prior.position)):
        return {}
    # The last turn may have gone on since, so it is traced again.
    return {cell.turn: cell for cell in prior.turns[:-1]}


def _elsewhere(session: Session, moment: Moment, kinds: Collection[str] = _FACT_KINDS) -> list[EventRecord]:
    """Return fact events of these kinds of the user's other sessions in blocks that this session shares."""
    names = [block.name for block in moment.blocks.values() if block.kind == "facts" and block.scope == "user"]
    if not names or session.user_id is None:
        return []
    scope = user_scope(session.user_id)
    with session.database.read() as connection:
        records = [record for name in names for record in read_scope_events(connection, scope, name, [*kinds])]
    others = [record for record in records if record.session_id != session.id]
    # In order of position, as `merge` needs it.
    return sorted(others, key=lambda record: record.position)


class _Gathering:
    """Reads the data of one trace."""

    def __init__(self, session: Session, log: SessionLog, history: History, moment: Moment) -> None:
        self._session, self._log, self._history, self._moment = session, log, history, moment
        self._pieces: Pieces | None = log.pieces() if history.records else None
        self._texts: dict[str, str | None] = {}
        self._versions: dict[str, list[Version]] = {}
        self.asked = ""
        self.instead: Ref | None = None
        """Substitute target: has all words of a phrase that nobody said."""
        self._scattered = ""
        self._beyond: set[Ref] = set()
        """Facts and relations that match but exceed `MAX_CARRIERS`: counted, not traced."""

    def at(self, moment: Moment) -> "_Gathering":
        """Return a reader at another moment, sharing what was read."""
        # Shallow: both share the caches of what was read, and the index, which is read first.
        assert self.items is not None
        other = copy.copy(self)
        other._moment = moment
        return other

    # -- texts ---------------------------------------------------------------------------------------

    def words(self, key: str) -> str | None:
        """Return the text of a hash; None if erased."""
        if key not in self._texts:
            self._load([key])
        return self._texts[key]

    def _load(self, keys: Iterable[str]) -> None:
        wanted = {key for key in keys if key not in self._texts}
        texts = self._log.texts(wanted) if wanted else {}
        self._texts.update((key, texts.get(key)) for key in wanted)

    def words_at(self, refs: Iterable[Ref], position: int) -> dict[Ref, str]:
        """Return the texts of refs, with one read of the database; the text of a unit is that of its messages."""
        keys = {ref: self._keys(ref, position) for ref in refs}
        self._load(key for hashes in keys.values() for key in hashes)
        texts = {
            ref: self._joined(ref, [text for key in parts if (text := self.words(key))]) for ref, parts in keys.items()
        }
        return {ref: words for ref, words in texts.items() if words}

    def _keys(self, ref: Ref, position: int) -> list[str]:
        """Return the hashes of a ref's texts."""
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
        # A unit has no text of its own: its messages have.
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
        """Return a message's text; None if erased."""
        state = self._state(seq)
        text = self.words(state.added.content) if state is not None else None
        return None if text is None else message_text(ChatMessage.from_json(text))

    def all_said(self, prompt: EventRecord) -> str:
        """Return the text of all messages of a prompt."""
        states = [state for seq in places_of(context_of(prompt)) if (state := self._state(seq)) is not None]
        self._load(state.added.content for state in states)
        return "\n".join(self._message(state.added.seq) or "" for state in states)

    def _state(self, seq: int) -> MessageState | None:
        """Return a message; None if it does not exist, or is newer than this trace's log."""
        state = self._pieces.message(seq) if self._pieces is not None else None
        return state if state is not None and state.record.position <= self._history.position else None

    def _relation(self, id: int, position: int) -> str | None:
        words = self._pieces.relation(id, position) if self._pieces is not None else None
        if words is None:
            return None
        parts = [self.words(key) for key in (words.subject, words.predicate, words.object)]
        return " ".join(part for part in parts if part) or None

    def versions(self, name: str) -> list[Version]:
        """Return all versions of a block's text, with pieces."""
        if name not in self._versions:
            kind = self._history.kinds(self._history.position).get(name, "custom")
            history = versions(self.items.texts.get(name, ()))
            self._load(version.text for version in history)
            self._versions[name] = with_words(history, kind, self.words)
        return self._versions[name]

    def versions_saying(self, phrase: str) -> set[Ref]:
        """Return the pieces that say a phrase, in all versions of all blocks."""
        wanted, names = Phrase.of(phrase), self._history.blocks_ever(self._history.position)
        return {ref for name in names for version in self.versions(name) for ref in saying(wanted, version.pieces)}

    # -- targets --------------------------------------------------------------------------------------

    def ever(self, target: str | Ref) -> Followed:
        """Return the target of a ref, or everything that says a phrase at any time of the session."""
        if isinstance(target, Ref):
            return self.picked(target)
        return self.search(_typed(target), most=MAX_SAID_EVER)[0]

    def search(self, phrase: str, *, most: int = MAX_SAID) -> tuple[Followed, Nearest | None]:
        """Return items that say a phrase (up to `most` messages); else one with all its words, or a near message."""
        wanted = Phrase.of(phrase)
        followed = self._matching(wanted, most)
        if self._carries(followed):
            return followed, None
        # Inside longer words last: "rush" also stands in "toothbrush".
        for looser in (wanted.scattered, wanted.in_compounds):
            if (all_words := self._with_all_words(looser)) is not None:
                return all_words, None
        nearest = self._nearest(wanted.text)
        # A message this close says the same in other words and is followed; others are only suggested.
        if nearest is not None and (nearest.similarity or 0.0) >= MIN_PARAPHRASE_SIMILARITY:
            close = f"close to them in meaning ({nearest.similarity:.2f})"
            self._scattered = f"Never said in these words; a message of turn {nearest.turn:,} is {close}."
            self.asked = nearest.words
            return self._followed(wanted, {nearest.seq: "meaning"}), None
        return followed, self._nearest_by_words(wanted) or nearest

    def _carries(self, followed: Followed) -> bool:
        items = followed.messages or followed.facts or followed.relations or followed.texts
        return bool(items) or any(True for _ in self._record_tracks(followed))

    def _with_all_words(self, wanted: Phrase) -> Followed | None:
        """Return one item with all words of a phrase in any order, preferring the newest message up to the prompt."""
        if self._pieces is None:
            return None
        ref, block = self._piece_with_all_words(wanted)
        if ref is not None:
            followed, self.instead = self.picked(ref, block), ref
            where = f"the text of {block}" if block is not None else f"one {ref.kind}"
            if ref.kind == "message" and (state := self._state(ref.number)) is not None:
                where += f" of turn {state.record.turn:,}"
        else:
            # Records of an attached agent have no ref, so they are followed by the words.
            followed, where = self._followed(wanted, {}), "one record of the agent's memory"
            if not self._carries(followed):
                return None
        as_parts = ", some only as part of a longer word" if wanted.parts else ""
        self._scattered = f"Not word for word; all these words are in {where}{as_parts}."
        return followed

    def _piece_with_all_words(self, wanted: Phrase) -> tuple[Ref | None, str | None]:
        """Return one item that contains all words of a phrase as a ref, with its block if it is part of a text."""
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
        # Contents of custom blocks and other sessions have no versions: only prompts name them.
        parts = {
            ref: str(part["name"])
            for turn in self._history.turns.values()
            for record in turn.contexts
            for part in context_of(record).parts
            for ref in spread(part["refs"])
            if ref.kind == "content"
        }
        self._load(ref.hash for ref in parts)
        holding = (ref for ref in reversed(parts) if wanted.said_in(content_text(ref, self.words(ref.hash))))
        ref = next(holding, None)
        return ref, parts[ref] if ref is not None else None

    def _nearest_by_words(self, wanted: Phrase) -> Nearest | None:
        """Return the message with most words of a phrase; None unless each word occurs in some message."""
        words = sorted(wanted.all_words, key=len, reverse=True)  # longest first, as rare words decide most often
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
        """Return everything that says a phrase by its words."""
        if self._pieces is None:
            return self._followed(wanted, {})
        messages: dict[int, Matched] = dict.fromkeys(self._saying(wanted, most), "words")
        facts = dict.fromkeys(self._facts_saying(wanted), "words")
        relations = dict.fromkeys(self._relations_saying(wanted), "words")
        few, related = self._nearest_to_prompt("fact", facts), self._nearest_to_prompt("relation", relations)
        # Counted, not traced: "and 40 more" needs no tracks.
        self._beyond = {Ref.of("fact", id) for id in facts.keys() - few.keys()}
        self._beyond |= {Ref.of("relation", id) for id in relations.keys() - related.keys()}
        texts = self._texts_saying(wanted)
        return self._followed(wanted, messages, facts=few, relations=related, texts=texts)  # type: ignore[arg-type]

    def narrowed(self, followed: Followed) -> Followed:
        """Limit a target found at another moment to the items that would be found at this moment."""
        then = self._moment.position
        order = sorted(followed.messages.items(), key=lambda pair: (pair[1][0].position > then, -pair[1][0].position))
        by_id: dict[tuple[str, Ref], Matched] = {piece: how for piece, how in followed.texts.items() if how == "id"}
        # A picked text is the same at every moment; texts matched by words are those of the moment.
        texts = by_id or self._texts_saying(followed.phrase)
        return replace(followed, messages=dict(order[:MAX_SAID]), texts=texts)

    def _texts_saying(self, wanted: Phrase) -> dict[tuple[str, Ref], Matched]:
        """Return pieces of current block texts, and requested contents of other sessions, that say a phrase."""
        matches: dict[tuple[str, Ref], Matched] = {
            (block.name, ref): "words"
            for block in self._moment.blocks.values()
            if block.text
            for ref in saying(wanted, pieces_of(block.kind, block.text, self.words(block.text)))
        }
        contents = {ref: name for ref, name in self._moment.held.items() if ref.kind == "content"}
        contents |= {ref: cut.part for ref, cut in self._moment.cut.items() if ref.kind == "content"}
        self._load(ref.hash for ref in contents)
        for ref, name in contents.items():
            stored = self.words(ref.hash)
            if stored is not None and origin_of(stored) is not None and wanted.said_in(content_text(ref, stored)):
                matches[name, ref] = "words"
        return matches

    def _nearest_to_prompt(self, kind: RefKind, matched: Mapping[int, str]) -> dict[int, str]:
        """Return at most `MAX_CARRIERS` matched ids: in the prompt first, then cut from it, then newest."""
        moment = self._moment

        def place(id: int) -> tuple[bool, bool, int]:
            ref = Ref.of(kind, id)
            return ref in moment.held, ref in moment.cut, id

        return {id: matched[id] for id in sorted(matched, key=place, reverse=True)[:MAX_CARRIERS]}

    def picked_words(self, ref: Ref, words: str) -> Followed:
        """Return a ref's target limited to some of its words.

        Raises:
            NotFoundError: The log lacks this ref, or its text lacks the words.
        """
        whole = self.picked(ref)
        read = (words, words.partition(": ")[2])  # a stored line of a prompt starts with its speaker
        wanted = next((phrase for phrase in map(Phrase.of, read) if phrase.said_in(self.asked)), None)
        if wanted is None:
            raise NotFoundError("The followed text does not contain these words.")
        self.asked = wanted.text
        # A text that came from no message: copies are searched by its words.
        if ref.kind == "content" or (ref.kind == "text" and not (whole.messages or whole.read)):
            copies = self._matching(wanted, MAX_SAID)
            return replace(copies, texts={**copies.texts, **whole.texts})
        saying = {seq: entry for seq, entry in whole.messages.items() if wanted.said_in(self._message(seq) or "")}
        messages = saying or whole.messages
        return replace(whole, phrase=wanted, messages=messages, all_of_it=False, parts=True)

    def picked(self, ref: Ref, part: str | None = None) -> Followed:
        """Return a ref's target with its source messages; `part`: block of a piece, if known.

        Raises:
            MessageError: The ref names a cut.
            NotFoundError: The log lacks this ref.
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
        sources = self._sources(self.items.relations.get(number, ()))
        return self._followed(Phrase.of(self.asked), dict.fromkeys(sources, "id"), relations={number: "id"})

    def _fact(self, number: int) -> Followed:
        worded = self._worded
        if number not in worded:
            raise NotFoundError("There is no such fact in this session.")
        # The text at the prompt; for a fact that was learned later, its newest text.
        then = [words for position, words in worded[number] if position <= self._moment.position]
        self.asked = self.words((then or [words for _, words in worded[number]])[-1]) or "(erased)"
        sources = self._sources(self.items.facts.get(number, ()))
        return self._followed(Phrase.of(self.asked), dict.fromkeys(sources, "id"), facts={number: "id"})

    def _sources(self, records: Sequence[EventRecord]) -> set[int]:
        """Return the source messages of a fact or relation up to the moment; if it was learned later, all of them."""
        here = [record for record in records if record.session_id == self._session.id]
        then = [record for record in here if record.position <= self._moment.position]
        return {seq for record in then or here for seq in expand(getattr(record.event, "sources", ()))}

    def _text(self, ref: Ref, part: str | None) -> Followed:
        """Return the target for a piece of a block's text; for a summary sentence, with its source messages."""
        here = part or self._moment.held.get(ref) or getattr(self._moment.cut.get(ref), "part", None)
        # A custom block's content is in no version: only the prompt says which block gave it.
        name = here if ref.kind == "content" else self._holder(ref, here)
        if name is None:
            raise NotFoundError("This text is in no block of this session.")
        came = first_version(self.versions(name), ref)
        stored = None if came is not None else self.words(ref.hash)
        words = came.pieces[ref] if came is not None else plain_text(stored)
        if ref.kind == "content":
            words = content_text(ref, stored)
        self.asked = words or "(erased)"
        phrase = Phrase.of(self.asked)
        texts: dict[tuple[str, Ref], Matched] = {(name, ref): "id"}
        # A summary does not say which message a sentence is from: each version read a stretch of them.
        stretches = list(possible_sources(self.versions(name), ref)) if words else []
        for seqs in stretches:
            if saying := self._carried(phrase, seqs[-MAX_READ:]):
                return replace(self._followed(phrase, dict.fromkeys(saying, "words"), texts=texts), parts=True)
        # No message has its words, so the messages that it was written from are shown instead.
        states = [state for seq in stretches[0][-MAX_SAID:] if (state := self._state(seq))] if stretches else []
        followed = self._followed(phrase, {}, texts=texts)
        return replace(followed, read=tuple(state.record for state in states))

    def _holder(self, ref: Ref, here: str | None) -> str | None:
        """Return the block with a text or sentence: in the prompt, else at that time, else ever; None without one."""
        if here is not None:
            return here
        now, ever = self._moment.blocks, self._history.blocks_ever(self._history.position)
        named = [*(name for name, block in now.items() if block.text == ref.hash), *now, *ever]
        with_text = (name for name in dict.fromkeys(named) if ever[name].kind in WITH_TEXT)
        return next((name for name in with_text if first_version(self.versions(name), ref) is not None), None)

    def _carried(self, phrase: Phrase, seqs: Sequence[int]) -> list[int]:
        """Return messages with the words of a sentence, best overlap first."""
        states = [state for seq in seqs if (state := self._state(seq)) is not None]
        self._load(state.added.content for state in states)
        texts = {state.added.seq: self._message(state.added.seq) or "" for state in states}
        carriers = [seq for seq, text in texts.items() if phrase.carried_by(text)]
        return sorted(carriers, key=lambda seq: -len(phrase.stems & set(stems(texts[seq]))))[:MAX_SAID]

    def _saying(self, wanted: Phrase, most: int) -> list[int]:
        """Return up to `most` messages that say a phrase: those before the prompt first, newest first."""
        # The database filters by these; the remaining texts are matched exactly below.
        with self._session.database.read() as connection:
            holding = texts_that_hold(connection, self._session.id, wanted.needles, wanted.may_be_in)
        then = self._moment.position
        states = [] if self._pieces is None else self._pieces.messages_with(holding)
        states.sort(key=lambda state: (state.record.position > then, -state.record.position))
        seqs: list[int] = []
        # In pieces, since the newest messages usually suffice.
        for start in range(0, len(states), 200):
            part = [state.added for state in states[start : start + 200]]
            self._load(added.content for added in part)
            for added in part:
                if wanted.said_in(self._message(added.seq) or ""):
                    seqs.append(added.seq)
                    if len(seqs) == most:
                        return seqs
        return seqs

    @cached_property
    def _worded(self) -> dict[int, list[tuple[int, str]]]:
        """Text hashes of each fact, by id, with the positions they apply from; includes the user's other sessions."""
        own_words = self._pieces.fact_words if self._pieces is not None else {}
        hashes = {id: [(position, words.content) for position, words in worded] for id, worded in own_words.items()}
        for record in self._elsewhere:
            event = record.event
            if adds_fact(event):
                hashes.setdefault(event.fact, []).append((record.position, event.content))
            elif rewords_fact(event):
                hashes.setdefault(event.fact, []).append((record.position, event.after))
        return hashes

    def _facts_saying(self, wanted: Phrase) -> list[int]:
        worded = self._worded
        # One read for the texts of all facts.
        self._load(key for words in worded.values() for _, key in words)
        return [id for id, words in worded.items() if any(self._says(wanted, key) for _, key in words)]

    def _relations_saying(self, wanted: Phrase) -> list[int]:
        # copied, as another thread may add
        snapshot = tuple(self._pieces.relations) if self._pieces is not None else ()
        # 2**62 is beyond the end of any log.
        then, ever = self._moment.position, 2**62
        return [id for id in snapshot if wanted.said_in(self._relation(id, then) or self._relation(id, ever) or "")]

    def _says(self, wanted: Phrase, key: str) -> bool:
        return wanted.said_in(self.words(key) or "")

    @cached_property
    def _elsewhere(self) -> list[EventRecord]:
        return _elsewhere(self._session, self._moment)

    def _nearest(self, phrase: str) -> Nearest | None:
        """Return the message closest in meaning; None without stored vectors or an embedder."""
        if self._pieces is None:
            return None
        try:
            search = explain.search(self._session, phrase[:MAX_CHARACTERS])
        except MemoryInspectorError:  # no vector block or no embedder: meanings cannot be compared
            return None
        # By meaning alone: the search also scores shared words, and here there are none.
        close = max(search.found[:_BEST], key=lambda hit: hit.vector or 0.0, default=None)
        unit = self._pieces.unit(close.number) if close is not None else None
        if close is None or unit is None or (close.vector or 0.0) < MIN_SUGGESTION_SIMILARITY:
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
            # The record at a position is the last one up to it. `pieces` may know events after this history's end.
            removals={
                seq: self._history.upto(state.left_at)[-1]
                for seq, state in states.items()
                if state.left_at is not None and state.left_at <= self._history.position
            },
            facts=facts or {},
            relations=relations or {},
            units=units or {},
            texts=texts or {},
            all_of_it=all_of_it,
        )

    # -- the trace -------------------------------------------------------------------------------

    @cached_property
    def items(self) -> ItemEvents:
        """Events about the items of the session, and about the facts that it shares with others."""
        items = self._log.follow(ItemEvents)
        return items.with_others(self._elsewhere) if self._elsewhere else items

    def tracks(self, followed: Followed, target: Ref | None) -> tuple[Track, ...]:
        """Return all tracks of a target, furthest first."""
        worded = self._worded
        made = Tracing(
            self._history, self.items, self._moment, followed, self.words, worded, self._message, self._relation,
            self.versions, tuple(self._answers()),
        )  # fmt: skip
        # records first: equally far, an unsent retrieved record is more informative than a dropped message
        return ranked([*self._record_tracks(followed), *made.tracks()], target)

    def _record_tracks(self, followed: Followed) -> Iterable[Track]:
        """Yield tracks in an attached agent's memory; none for other sessions."""
        # Records of an agent's stores are matched by words, and an erased ref has none.
        if not self._history.attached or not followed.phrase.text:
            return ()
        return Records(self._history, self._moment, self.words, self.all_said).tracks(followed.phrase)

    def trace(self, followed: Followed, asked: str, target: Ref | None, nearest: Nearest | None) -> Trace:
        """Assemble the trace."""
        tracks = self.tracks(followed, target)
        # A carrier beyond the limits may have a track all the same, as the successor of another.
        more = len(self._beyond - {track.carrier.ref for track in tracks}) + len(tracks[MAX_TRACKS:])
        trace = self._trace(asked, target, self._said_messages(followed), tracks[:MAX_TRACKS])
        return replace(trace, nearest=nearest, more=more, scattered=self._scattered)

    def cut(self, target: Ref, cut: FoundCut) -> Trace:
        """Trace a cut: each of its entries, and other carriers of the same information."""
        followed: list[tuple[Ref, Followed | None, str]] = []
        # Each entry is a trace of its own, so a cut of a thousand pieces is not followed in full.
        for ref in cut.refs[:MAX_ENTRIES]:
            try:
                followed.append((ref, self.picked(ref, None if cut.part == QUEUE else cut.part), self.asked))
            except NotFoundError:  # fully erased
                followed.append((ref, None, ""))
        entries = tuple(self._entry(ref, target, words) for ref, target, words in followed)
        its_own = self._moment.record is not None and self._moment.record.position == cut.record.position
        shown_cut = cut.trace(entries, self._moment.prompt, its_own=its_own)
        tracks = [track for entry in entries for track in (entry.own, *entry.others) if track is not None]
        # Two entries may share a source message.
        different = tuple({track.carrier.key: track for track in tracks}.values())
        messages = {message.seq: message for entry in entries for message in entry.said}
        asked = "\n".join(entry.words for entry in entries)
        shown = ranked(different, target)[:MAX_TRACKS]
        trace = self._trace(asked, target, tuple(messages[seq] for seq in sorted(messages, reverse=True)), shown)
        return replace(trace, cut=shown_cut, more=len(different) - len(shown))

    def _entry(self, ref: Ref, followed: Followed | None, words: str) -> CutEntry:
        tracks = self.tracks(followed, ref) if followed is not None else ()
        own_track = next((track for track in tracks if track.carrier.ref == ref), None)
        sources = self._said_messages(followed) if followed is not None else ()
        return CutEntry(
            ref,
            "" if words == "(erased)" else words,
            sources,
            own_track,
            tuple(t for t in tracks if t is not own_track),
        )

    def _trace(self, asked: str, target: Ref | None, messages: tuple[Said, ...], tracks: tuple[Track, ...]) -> Trace:
        moment = self._moment
        return Trace(
            asked=asked,
            target=target,
            turn=moment.turn,
            prompt_turn=moment.record.turn if moment.record is not None else None,
            position=moment.position,
            prompt_position=moment.record.position if moment.record is not None else None,
            question=self._question(),
            said=messages,
            tracks=tracks,
            known_from=self.items.reset.position if self.items.reset is not None else None,
        )

    def _question(self) -> str | None:
        """Return the prompt's question: its input, else its newest user message."""
        built = self._moment.built
        if built is not None and built.input:
            return self.words(built.input)
        # The question of a prompt without an input is its newest user message.
        for seq in sorted(self._moment.queue, reverse=True):
            state = self._state(seq)
            if state is not None and state.added.role == MessageRole.USER:
                return self._message(seq)
        return None

    def _said_messages(self, followed: Followed) -> tuple[Said, ...]:
        sources: list[tuple[EventRecord, Matched]] = [*followed.messages.values()]
        sources += [(record, "read") for record in followed.read]
        messages = []
        for record, matched in sources:
            event: Any = record.event
            messages.append(Said(event.seq, record.turn, event.role, matched))
        return tuple(sorted(messages, key=lambda message: -message.seq))

    def _answers(self) -> Collection[tuple[EventRecord, str]]:
        """Return the assistant messages after the prompt, in its turn."""
        record, answers = self._moment.record, []
        for later in self._history.after(record.position) if record is not None else ():
            # Later answers belong to the next prompt of the same turn.
            if record is None or later.turn != record.turn or later.kind == record.kind:
                break
            if getattr(later.event, "role", None) == MessageRole.ASSISTANT:
                text = self._message(getattr(later.event, "seq", 0))
                answers += [(later, text)] if text else []
        return answers
