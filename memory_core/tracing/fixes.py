"""Changes that would bring lost information into the next prompt, each simulated before it is applied.

Candidates follow from the rule that lost a track. Each is simulated with the planners of the next prompt, for the
traced prompt's question, and offered only if the simulated prompt has the information.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from math import floor
from typing import Any, Literal

from memory_core.curation import settings as editing
from memory_core.curation.block_desks import SessionBlocks
from memory_core.curation.known_facts import SessionFacts
from memory_core.engine.next_prompt import NextPrompt
from memory_core.engine.session import Session
from memory_core.errors import MemoryInspectorError
from memory_core.messages import ChatMessage
from memory_core.planning import curation as plans
from memory_core.planning.context_plan import QUEUE, Granted
from memory_core.planning.curation import ChangeSet
from memory_core.retrieval import explain
from memory_core.retrieval.retrieval import SessionRetrieval
from memory_core.sessions.handle import SessionHandle
from memory_core.sessions.preview import SessionPreview
from memory_core.text import capitalised, listed
from memory_core.tracing.rule_words import REMEDIES
from memory_core.tracing.values import Stage, Trace, Track
from memory_core.tracing.words import short

FixKind = Literal["threshold", "results", "show", "enable", "pin", "restore", "accept", "retry", "priority", "limit",
                  "teach", "write", "embed", "release"]  # fmt: skip

MAX_TAUGHT = 300
"""Maximum characters of a fact that a fix adds."""

LIMITS = (1.0, 1.1, 1.25, 1.5, 2.0)
"""Factors of the token limit to try, in addition to the missing tokens."""

MAX_FIXES, MAX_TRIED = 4, 6
"""Maximum fixes offered, and number of sufficient fixes after which only fixes that add text are tried."""


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that brings the information into the next prompt."""

    kind: FixKind
    label: str
    """Button label. Plain text; may contain a block's name or a fact's text."""
    block: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Changed settings of the block."""
    session: Mapping[str, Any] = field(default_factory=dict)
    """Changed settings of the session."""
    change: ChangeSet | None = None
    """Changed facts of the block."""
    text: str | None = None
    """New text of the block, or the text to add as a fact."""
    fact: int | None = None
    number: int | None = None
    """Number of the set in quarantine that is released."""
    deliveries: tuple[int, ...] = ()
    foretold: NextPrompt | None = None
    """Simulated next prompt; None if the outcome depends on a model."""
    losses: Mapping[str, int] = field(default_factory=dict)
    """Tokens lost by each other part of the next prompt."""

    def same_as(self, other: "Fix") -> bool:
        """Return whether both change the same thing."""
        keys = [(fix.kind, fix.block, fix.fact, fix.number) for fix in (self, other)]
        return keys[0] == keys[1]


@dataclass(frozen=True, slots=True)
class Fixes:
    """Available fixes of a trace."""

    now: NextPrompt | None
    """Next prompt without a fix, for the same question; None if it cannot be built."""
    held: bool
    """True if the next prompt has the information even without a fix."""
    offered: tuple[Fix, ...]
    """Fixes by the tokens that other parts lose, then least invasive first; empty if `held`."""


def find_fixes(session: Session, trace: Trace, *, words: str | None = None) -> Fixes:
    """Return changes under which the next prompt, for the trace's question, has the information.

    `words`: text to add as a fact; default: the traced phrase, if anybody said it. Changes nothing.
    """
    if trace.decisive is not None and trace.decisive.rule == "not_sent":  # an attached agent decides what it sends
        return Fixes(None, False, ())
    trying = _Trying(session, trace, (words or (trace.asked if trace.tracks else "")).strip()[:MAX_TAUGHT])
    # A change of nothing: the next prompt as it would be now.
    now = trying.foretell(Fix("limit", ""))
    if now is None or trying.holds(now):
        return Fixes(now, now is not None, ())
    offered: list[Fix] = []
    for fix in trying.candidates():
        # Several tracks may lead to the same change, which is offered once.
        if any(other.same_as(fix) for other in offered):
            continue
        if fix.kind not in ("teach", "write") and len(offered) >= MAX_TRIED:
            continue
        # What a model or an embedder makes of a repetition cannot be simulated.
        if fix.kind in ("retry", "embed"):
            offered.append(fix)
        else:
            offered += [_with_losses(enough, now) for enough in islice(trying.enough(fix), 1)]
    # A repeated delivery or search is unpredictable: after fixes without losses, before the others.
    offered.sort(key=lambda fix: (sum(fix.losses.values()), fix.foretold is None))
    return Fixes(now, False, tuple(offered[:MAX_FIXES]))


def _with_losses(fix: Fix, now: NextPrompt) -> Fix:
    """Return a copy of the fix with the losses of other parts, which are also added to its label."""
    assert fix.foretold is not None
    before, after = now.context.plan, fix.foretold.context.plan
    losses = {part.name: lost for part in before.granted if (lost := _lost(part, after.granted))}
    remaining = {message.seq for message in after.queue}
    if left_out := sum(message.tokens for message in before.queue if message.seq not in remaining):
        losses[QUEUE] = left_out
    if not losses:
        return fix
    named = [
        f"{'the queue' if name == QUEUE else name} loses {size:,} token{'s' * (size > 1)}"
        for name, size in losses.items()
    ]
    return replace(fix, label=f"{fix.label}; {listed(named)}", losses=losses)


def _lost(part: Granted, after: Sequence[Granted]) -> int:
    """Return the tokens of a part's pieces missing from a later prompt; a text's new version replaces its old one."""
    old = {piece.ref for piece in part.pieces}
    then = {piece.ref: piece for other in after if other.name == part.name for piece in other.pieces}
    reworded = sum(then[ref].tokens for ref in then.keys() - old if ref.kind in ("text", "content"))
    return max(0, sum(piece.tokens for piece in part.pieces if piece.ref not in then) - reworded)


def apply_fix(session: Session, fix: Fix) -> Callable[[], object] | None:
    """Apply a fix as the user; return a function that undoes it, or None.

    Raises:
        MemoryInspectorError: The fix is no longer possible; nothing was changed.
    """
    if fix.kind == "embed":
        SessionRetrieval(session).reembed(fix.block)
        return None
    if fix.kind == "retry":
        SessionHandle(session).retry(fix.deliveries)
        return None
    if fix.number is not None:
        handle = SessionHandle(session)
        released = handle.release(fix.number)
        return lambda: handle.quarantine_again(released)
    if fix.change is not None and fix.block is not None:
        desk = SessionFacts(session).desk(fix.block)
        number = desk.apply(fix.change).number
        return lambda: desk.undo(number)
    if fix.kind == "write" and fix.block is not None and fix.text is not None:
        name, words = fix.block, session.block(fix.block).state or ""
        blocks = SessionBlocks(session)
        # Undoing refuses if somebody edited the text after this change.
        revision = blocks.edit(name, fix.text)
        return lambda: blocks.edit(name, words, revision=revision)
    before = {name: getattr(session.config, name) for name in fix.session}
    former = {name: session.block(fix.block).settings.get(name) for name in fix.settings} if fix.block else {}
    _configure(session, fix.block, fix.settings, former, fix.session, before)
    return lambda: _configure(session, fix.block, former, fix.settings, before, fix.session)


def _configure(
    session: Session,
    block: str | None,
    settings: Mapping[str, Any],
    opened: Mapping[str, Any],
    of_session: Mapping[str, Any],
    opened_of_session: Mapping[str, Any],
) -> None:
    """Set a block's and the session's settings, if the values in `opened` are still current."""
    if block is not None:
        SessionBlocks(session).configure(block, opened=opened, **settings)
    if of_session:
        editing.configure(session, of_session, opened_of_session, "user")


class _Trying:
    """Simulates changes on the next prompt."""

    def __init__(self, session: Session, trace: Trace, words: str) -> None:
        self._session, self._trace, self._words = session, trace, words
        self._preview = SessionPreview(session)
        self._facts = SessionFacts(session)
        self._question = ChatMessage(role="user", content=trace.question) if trace.question else None
        self._here = {attached.name: attached for attached in session.blocks}

    def foretell(self, fix: Fix) -> NextPrompt | None:
        """Return the next prompt after a fix; None if it is invalid or cannot be built."""
        # Nothing is sent here, so a prompt over the limit is looked at instead of refused.
        shown = {"when_over": "return"} if self._session.config.when_over == "raise" else {}
        try:
            if fix.change is not None and fix.block is not None:
                after = self._facts.desk(fix.block).after(fix.change)
                return self._preview.next_prompt(shown, message=self._question, facts={fix.block: after})
            if fix.kind == "write" and fix.block is not None and fix.text is not None:
                return self._preview.next_prompt(shown, message=self._question, texts={fix.block: fix.text})
            if fix.number is not None:
                return self._preview.release(fix.number, message=self._question)
            blocks = {fix.block: fix.settings} if fix.block is not None else {}
            return self._preview.next_prompt({**shown, **fix.session}, message=self._question, blocks=blocks)
        except MemoryInspectorError:  # invalid in the session's current state: not offered
            return None

    def holds(self, foretold: NextPrompt, fix: Fix | None = None) -> bool:
        """Return whether a prompt has a carrier of the information, or the text that the fix adds."""
        context = foretold.context
        # Blocks in `read_elsewhere` run the program's own code, so the preview does not show what they will send.
        here = [part for part in context.plan.granted if part.name not in foretold.read_elsewhere]
        granted = {piece.ref for part in here for piece in part.pieces}
        carriers = {track.carrier.ref for track in self._trace.tracks if track.carrier.ref is not None}
        if granted & carriers:
            return True
        if any(ref.kind == "message" and ref.number in context.queue_seqs for ref in carriers):
            return True
        # By words, as a taught text has no ref yet.
        wanted = " ".join((fix.text if fix is not None and fix.kind == "teach" and fix.text else self._words).split())
        return any(wanted and wanted in " ".join(context.words.get(ref, "").split()) for ref in granted)

    def enough(self, fix: Fix) -> Iterator[Fix]:
        """Yield the fix if it suffices, then its sufficient combinations from `_with_room`; each with its prompt."""
        for tried in (fix, *self._with_room(fix)):
            foretold = self.foretell(tried)
            if foretold is not None and self.holds(foretold, tried):
                yield replace(tried, foretold=foretold)

    def _with_room(self, fix: Fix) -> Iterator[Fix]:
        """Yield a block's fix combined with a larger limit or no cutting, as retrieved items may still be cut."""
        if fix.block is None or not fix.settings or "priority" in fix.settings:
            return
        for limit in self._limits(0):
            label = f"{fix.label}, and raise the token limit to {limit:,}"
            yield replace(fix, label=label, session={"token_limit": limit})
        if self._here[fix.block].priority:
            label = f"{fix.label}, and never cut it"
            yield replace(fix, label=label, settings={**fix.settings, "priority": 0})

    def _limits(self, missing: int) -> Iterator[int]:
        """Yield larger token limits to try, smallest first."""
        now = self._session.config.limit
        yield from (limit for share in LIMITS if (limit := floor(now * share) + missing) > now)

    # -- candidates ------------------------------------------------------------------------------

    def candidates(self) -> Iterator[Fix]:
        """Yield fixes to try, least invasive first; fixes that add text last."""
        lost = [(track, track.decisive) for track in self._trace.tracks]
        for by in (self._by_rule, self._by_room):
            for track, stage in lost:
                if stage is not None and stage.verdict in ("lost", "waiting"):
                    yield from by(track, stage)
        yield from self._new_words()

    def _by_rule(self, track: Track, stage: Stage) -> Iterator[Fix]:
        name, rule = track.carrier.block, stage.rule
        remedy = REMEDIES.get(rule)
        if remedy == "release":
            yield from self._by_release(track)
            return
        if name is None or name not in self._here:
            return
        ref = track.carrier.ref
        if remedy == "search" and ref is not None and ref.kind == "unit":
            yield from self._by_search(name, ref.number)
        elif rule == "no_vector":
            yield Fix("embed", f"Embed the stored turns of {name} again", name)
        elif rule in ("show_none", "not_relevant"):
            yield Fix("show", f"Put all facts of {name} into the prompt", name, {"show": "all"})
        elif rule == "block_off":
            yield Fix("enable", f"Switch {name} on", name, {"enabled": True})
        elif rule in ("delivery_failed", "delivery_parked"):
            ids = tuple(
                delivery.id
                for delivery in SessionHandle(self._session).deliveries(states=("pending", "parked"))
                if delivery.block == name
            )
            if ids:
                yield Fix("retry", f"Deliver to {name} again", name, deliveries=ids)
        yield from self._about_facts(track, stage)

    def _by_release(self, track: Track) -> Iterator[Fix]:
        """Yield the release of each quarantined set that holds the track's item or its message."""
        ref, seq = track.carrier.ref, track.carrier.seq
        for one in SessionHandle(self._session).quarantined():
            by_id = {"fact": one.facts, "relation": one.relations, "message": one.seqs}
            holds = ref is not None and ref.kind in by_id and ref.number in by_id[ref.kind]
            if holds or seq in one.seqs or (ref is not None and ref.kind == "text" and ref.hash in one.sentences):
                yield Fix("release", f"Release set {one.number:,} from quarantine", number=one.number)

    def _by_search(self, name: str, number: int) -> Iterator[Fix]:
        """Yield the smallest change of search settings that retrieves a unit, if any suffices. Larger ones
        are tried, too, as scores differ slightly once the repeated question is in the queue."""
        try:
            search = explain.search(self._session, self._trace.question or "", block=name)
        except MemoryInspectorError:  # search is unavailable: other fixes remain
            return
        changes = search.settings_to_ask_for(number)
        threshold = changes.get("similarity_threshold")
        results = changes.get("similarity_top_k", search.settings.similarity_top_k)
        for slack in (0, 1, 2):
            settings: dict[str, Any] = {}
            if threshold is not None:
                settings["similarity_threshold"] = round(max(0.0, threshold - 0.03 * slack), 2)
            if results is not None and (slack or "similarity_top_k" in changes):
                settings["similarity_top_k"] = results + 3 * slack
            fix = Fix("threshold" if threshold is not None else "results", _label(name, settings), name, settings)
            # This only checks that the fix suffices; `find_fixes` simulates it again to find its losses.
            if settings and next(self.enough(fix), None) is not None:
                yield fix
                return

    def _about_facts(self, track: Track, stage: Stage) -> Iterator[Fix]:
        name, rule = track.carrier.block, stage.rule
        ref = track.carrier.ref
        number = ref.number if ref is not None and ref.kind == "fact" else int(stage.numbers.get("fact", 0))
        if name is None or self._here[name].kind != "facts" or not number:
            return
        fact = next((fact for fact in self._facts.desk(name).facts() if fact.id == number), None)
        if fact is None:
            return
        shown = track.carrier.number if ref is not None and ref.kind == "fact" else int(stage.numbers.get("number", 0))
        words = f"fact {shown:,}" if shown else "a fact"
        text = short(fact.text, 60)
        words, pinned = f"{words}: {text}", f"{words}, pinned: {text}"
        if fact.state in ("superseded", "retired", "rejected"):
            change = plans.restore_vanished([fact]) if rule == "condensed" else plans.restore([fact])
            label = f"Restore {pinned if rule == 'condensed' else words}"
            yield Fix("restore", label, name, change=change, fact=number)
        elif fact.state == "proposed":
            yield Fix("accept", f"Accept {words}", name, change=plans.accept([fact]), fact=number)
        elif stage.name == "prompt" and not fact.pinned:
            yield Fix("pin", f"Pin {words}", name, change=plans.pin([fact]), fact=number)

    def _by_room(self, track: Track, stage: Stage) -> Iterator[Fix]:
        if REMEDIES.get(stage.rule) != "room":
            return
        name = track.carrier.block
        if name is not None and name in self._here and self._here[name].priority:
            yield Fix("priority", f"Never cut {name} (priority 0)", name, {"priority": 0})
        for limit in self._limits(int(stage.numbers.get("over_before", 0))):
            fix = Fix("limit", f"Raise the token limit to {limit:,}", session={"token_limit": limit})
            if next(self.enough(fix), None) is not None:
                yield fix
                return

    def _new_words(self) -> Iterator[Fix]:
        """Yield fixes that add the text: as a fact, and to a static text."""
        if not self._words:
            return
        for name, attached in self._here.items():
            if attached.kind == "facts" and attached.block is not None:
                change = plans.add(self._words, pinned=True)
                yield Fix("teach", f"Add it as a fact to {name}", name, change=change, text=self._words)
                break
        for name, attached in self._here.items():
            if attached.kind == "static" and isinstance(attached.state, str):
                text = f"{attached.state.rstrip()}\n{self._words}".strip()
                yield Fix("write", f"Write it into {name}", name, text=text)
                break


def _label(name: str, settings: Mapping[str, Any]) -> str:
    """Format search settings for a button."""
    clauses = []
    if "similarity_threshold" in settings:
        clauses.append(f"lower the threshold of {name} to {settings['similarity_threshold']:.2f}")
    if "similarity_top_k" in settings:
        clauses.append(f"recall {settings['similarity_top_k']} results{'' if clauses else f' in {name}'}")
    return capitalised(" and ".join(clauses))
