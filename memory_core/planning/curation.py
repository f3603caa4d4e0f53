"""Changes by a person to facts, as change sets: one request, one undo.

Pure. A change set is made of steps on facts as they were read; `settle` computes the state of each fact
after all of them. Versions are compared when it is stored (`memory_core.curation.fact_desk`).
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, overload

from memory_core.errors import ConflictError, MessageError
from memory_core.messages import storable
from memory_core.planning.fact_merging import ASK, Fact, metadata_text, prompt_words, same_words, to_ask, without_ask
from memory_core.planning.former_values import says_false
from memory_core.text import shortened

Action = Literal[
    "add", "edit", "merge", "split", "pin", "unpin", "retire", "restore", "reject", "accept",
    "supersede", "keep_both", "allow", "import", "refuse", "label", "put", "confirm", "ask",
]  # fmt: skip

EMPTY = "A fact cannot be empty. Retire it instead?"


@dataclass(frozen=True, slots=True)
class FactDraft:
    """A fact that is not stored: found, written by hand, imported, or kept by a program under a key.

    In a change set `FactChange.by` names it by a negative number: -1 is the first new fact.
    """

    text: str
    state: str = "active"
    pinned: bool = False
    category: str = "other"
    slot: str | None = None
    origin: str = "written"
    sources: tuple[tuple[str, int], ...] = ()
    topics: tuple[str, ...] = ()
    key: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    instead_of: tuple[int, ...] = ()
    """Ids of the facts that the new fact supersedes if a person accepts it."""

    def as_fact(self, id: int, *, scope: str, block: str, tokens: int, turn: int, at: float) -> Fact:
        """Return the fact in its first version; `tokens` is the size of its text, `at` the time when it is added."""
        return Fact(
            id=id,
            scope=scope,
            block=block,
            text=self.text,
            tokens=tokens,
            category=self.category,
            slot=self.slot,
            state=self.state,
            pinned=self.pinned,
            origin=self.origin,
            turn=turn,
            created_at=at,
            confirmed_at=at,
            updated_at=at,
            version=1,
            sources=tuple(sorted(set(self.sources))),
            topics=self.topics,
            key=self.key,
            metadata=self.metadata,
        )


class FactValues(TypedDict, total=False):
    """Values of a fact that a change sets; the others stay."""

    text: str
    state: str
    """The present state again records that a person reviewed the fact and kept it."""
    pinned: bool
    category: str
    topics: tuple[str, ...]
    metadata: Mapping[str, Any]


VALUES = frozenset(FactValues.__annotations__)


@dataclass(frozen=True, slots=True)
class FactChange:
    """Change to one fact: a step of a change set, or all of its steps on the fact together."""

    fact: Fact
    """The fact as it was read."""
    values: FactValues = field(default_factory=FactValues, hash=False)
    by: int | None = None
    """Id of the fact that supersedes this one; negative for a new fact (see `FactDraft`)."""
    sources: tuple[tuple[str, int], ...] = ()
    """Further messages that state the fact, each as session and sequence number."""
    lost: tuple[tuple[str, int], ...] = ()
    """Sources that the fact loses."""
    confirms: bool = False
    """True if a person confirms that the fact still holds: its date of confirmation is renewed."""
    restores: float | None = None
    """If a confirmation is undone, the time of the former one, in seconds since 1970; else None."""

    @property
    def after(self) -> Fact:
        """The fact with the new values; its tokens, sources and version are those of before."""
        return replace(self.fact, **self.values)

    @property
    def same(self) -> bool:
        """True if nothing but the fact's sources changes."""
        after = self.after
        as_text = metadata_text(after.metadata), metadata_text(self.fact.metadata)
        return as_text[0] == as_text[1] and replace(after, metadata=self.fact.metadata) == self.fact

    def counted(self, count_tokens: Callable[[str], int]) -> Fact:
        """Return the fact with the new values, and the size of its text in a prompt."""
        before, after = (prompt_words(fact.text, fact.metadata) for fact in (self.fact, self.after))
        return self.after if after == before else replace(self.after, tokens=count_tokens(after))


Step = FactDraft | FactChange


@dataclass(frozen=True, slots=True)
class ChangeSet:
    """Steps that are applied together or not at all, and undone together."""

    action: Action
    steps: tuple[Step, ...]
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SuppressedFact:
    """Found fact that was not stored because it is like a fact that a person rejected."""

    draft: FactDraft
    near: Fact
    """The rejected fact."""
    similarity: float
    turn: int
    at: float
    position: int
    """Log position of the event that recorded the fact as suppressed."""


@dataclass(frozen=True, slots=True)
class FactPlan:
    """Rows to store for a change set or its undo, all or nothing."""

    changed: tuple[FactChange, ...]
    added: tuple[FactDraft, ...] = ()
    reason: str = ""
    removed: tuple[Fact, ...] = ()
    """Facts that an undo removes, with their text."""
    undoes: bool = False
    """True for an undo: a fact that already has the values to restore gets no new version, as nobody reviewed it."""


# -- requested changes ---- ----------------------------------------------------------------------


def add(
    text: str,
    pinned: bool = False,
    category: str = "other",
    topics: Sequence[str] = (),
    *,
    key: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> ChangeSet:
    """Add a fact in a person's own words.

    Raises:
        MessageError: there are no words, the key cannot be stored, or the metadata is no JSON object.
    """
    new = FactDraft(_words(text), pinned=pinned, category=category, topics=each_topic(topics))
    return ChangeSet("add", (replace(new, key=_key(key), metadata=_checked(metadata or {})),))


def edit(fact: Fact, text: str, metadata: Mapping[str, Any] | None = None) -> ChangeSet:
    """Reword a fact or change its metadata; without `metadata`, the new text also replaces the old in the present one.

    Raises:
        MessageError: there are no words, both are the same, or the metadata is no JSON object.
    """
    text = _words(text)
    # A new wording also answers whether the former one still holds.
    metadata = without_ask(_reworded(fact, text)) if metadata is None else _checked(metadata)
    other = metadata if metadata_text(metadata) != metadata_text(fact.metadata) else None
    values: FactValues = {"text": text} if other is None else {"text": text, "metadata": other}
    return _some("edit", [FactChange(fact, values)] if (text, other) != (fact.text, None) else [])


def put(key: str, kept: FactDraft, known: Fact | None) -> Step:
    """Return the step that stores a fact under a key: it changes the active fact with that key (`known`) or adds one.

    Raises:
        MessageError: there are no words, the key cannot be stored, or the metadata is no JSON object.
    """
    # A program cannot be asked to correct a text, so what no database stores is replaced in it.
    text, metadata, topics = _words(storable(kept.text)[0]), _checked(kept.metadata), each_topic(kept.topics)
    if known is None:
        return replace(kept, text=text, topics=topics, key=_key(key), metadata=metadata)
    return FactChange(known, {"text": text, "category": kept.category, "topics": topics, "metadata": metadata})


def merge(facts: Sequence[Fact], text: str) -> ChangeSet:
    """Merge several facts into one that has the sources of all.

    The fact that has this text already is kept, else a pinned one, else an active one, else the first.
    It becomes active, pinned if any of the facts was, and supersedes the others.

    Raises:
        MessageError: fewer than two facts, one that is neither active nor proposed, or no words.
    """
    text = _words(text)
    facts = _each_once(facts)
    if len(facts) < 2:
        raise MessageError("Choose at least two facts to merge.")
    _of_states(facts, ("active", "proposed"), "merged")
    stays = max(facts, key=lambda f: (same_words(f.text) == same_words(text), f.pinned, f.state == "active"))
    others = [fact for fact in facts if fact.id != stays.id]
    steps: list[Step] = []
    if stays.text != text:
        steps += edit(stays, text).steps
    if stays.state != "active":
        steps.append(FactChange(stays, {"state": "active"}))
    if not stays.pinned and any(fact.pinned for fact in others):
        steps.append(FactChange(stays, {"pinned": True}))
    handed = {source for fact in others for source in fact.sources}
    # With the sources of all, erasing one message does not leave the merged fact without a source.
    steps.append(FactChange(stays, sources=tuple(sorted(handed.difference(stays.sources)))))
    steps += [FactChange(fact, {"state": "superseded"}, by=stays.id) for fact in others]
    return ChangeSet("merge", tuple(steps))


def split(fact: Fact, texts: Sequence[str]) -> ChangeSet:
    """Replace a fact by several new ones, each with all its sources; the first new one supersedes the fact.

    Raises:
        MessageError: fewer than two texts, one without words, or two that are the same.
    """
    texts = [_words(text) for text in texts]
    if len(texts) < 2:
        raise MessageError("Give at least two texts to split a fact into.")
    _of_states([fact], ("active", "proposed"), "split")
    if len({same_words(text) for text in texts}) < len(texts):
        raise MessageError("Two parts say the same, word for word. Change or leave out one of them.")
    parts = [
        FactDraft(
            text,
            pinned=fact.pinned,
            category=fact.category,
            origin=fact.origin,
            sources=fact.sources,
            topics=fact.topics,
        )
        for text in texts
    ]
    return ChangeSet("split", (*parts, FactChange(fact, {"state": "superseded"}, by=-1)))


def pin(facts: Sequence[Fact], pinned: bool = True) -> ChangeSet:
    """Pin facts, so that they are cut last and stay word for word when facts are condensed; or unpin them.

    Raises:
        MessageError: it would change nothing.
    """
    steps = [FactChange(fact, {"pinned": pinned}) for fact in _each_once(facts) if fact.pinned != pinned]
    return _some("pin" if pinned else "unpin", steps)


def label(facts: Sequence[Fact], category: str | None = None, topics: Sequence[str] | None = None) -> ChangeSet:
    """Change the category or topics of facts; None leaves either unchanged.

    Raises:
        MessageError: it would change nothing.
    """
    wished = None if topics is None else each_topic(topics)
    steps = []
    for fact in _each_once(facts):
        labels = (category or fact.category, fact.topics if wished is None else wished)
        if labels != (fact.category, fact.topics):
            steps.append(FactChange(fact, {"category": labels[0], "topics": labels[1]}))
    return _some("label", steps)


def retire(facts: Sequence[Fact], reason: str = "") -> ChangeSet:
    """Put facts away; they can be restored, and learned again.

    Raises:
        MessageError: none of them is active or proposed.
    """
    return _to_state("retire", "retired", facts, ("active", "proposed"), reason)


def reject(facts: Sequence[Fact], reason: str = "") -> ChangeSet:
    """Put facts away for good: neither they nor near copies of them are learned again.

    Raises:
        MessageError: all of them are rejected already.
    """
    return _to_state("reject", "rejected", facts, ("active", "proposed", "superseded", "retired"), reason)


def restore(facts: Sequence[Fact]) -> ChangeSet:
    """Restore facts that were superseded, retired or rejected.

    Raises:
        MessageError: none of them is superseded, retired or rejected.
    """
    return _to_state("restore", "active", facts, ("superseded", "retired", "rejected"))


def restore_vanished(facts: Sequence[Fact], pinned: bool = True) -> ChangeSet:
    """Restore facts that condensing lost; pinned, so that the next condensing keeps them.

    Raises:
        MessageError: none of them is put away.
    """
    change = restore(facts)
    back = [step.fact for step in change.steps if isinstance(step, FactChange)]
    pins = (FactChange(fact, {"pinned": True}) for fact in back if pinned and not fact.pinned)
    return replace(change, steps=(*change.steps, *pins))


def accept(facts: Sequence[Fact]) -> ChangeSet:
    """Accept proposed facts, which become active; active facts are recorded as reviewed.

    Raises:
        MessageError: none of them is proposed or active.
    """
    return _to_state("accept", "active", facts, ("proposed", "active"))


def confirm(facts: Sequence[Fact]) -> ChangeSet:
    """Confirm that active facts still hold, which renews the date of their confirmation.

    Raises:
        MessageError: none of them is active.
    """
    steps = [
        FactChange(fact, {"state": "active", "metadata": without_ask(fact.metadata)}, confirms=True)
        for fact in _each_once(facts)
        if fact.state == "active"
    ]
    return _some("confirm", steps)


def ask(facts: Sequence[Fact]) -> ChangeSet:
    """Let the agent ask the user whether active facts still hold, until they are confirmed, changed or put away.

    Facts with a program's key are left out: their metadata is the program's.

    Raises:
        MessageError: none of the facts can be asked about, or the agent is to ask about all of them already.
    """
    asked = [fact for fact in _each_once(facts) if fact.state == "active" and fact.key is None]
    not_yet = (fact for fact in asked if not to_ask(fact.metadata))
    return _some("ask", [FactChange(fact, {"metadata": {**fact.metadata, ASK: True}}) for fact in not_yet])


def supersede(old: Fact, by: Fact) -> ChangeSet:
    """Resolve a contradiction: `old` is superseded by `by`.

    Raises:
        MessageError: they are the same fact, or one of them is put away already.
    """
    if old.id == by.id:
        raise MessageError("A fact cannot replace itself.")
    _of_states([old], ("active", "proposed"), "replaced")
    _of_states([by], ("active", "proposed"), "used instead of another")
    # The winner may still wait for review: this decision accepts it as well.
    return ChangeSet(
        "supersede", (FactChange(old, {"state": "superseded"}, by=by.id), FactChange(by, {"state": "active"}))
    )


def keep_both(facts: Sequence[Fact]) -> ChangeSet:
    """Resolve a contradiction by keeping all of these facts.

    Raises:
        MessageError: fewer than two facts, or one that is put away.
    """
    facts = _each_once(facts)
    if len(facts) < 2:
        raise MessageError("It takes two facts to contradict each other.")
    _of_states(facts, ("active", "proposed"), "kept beside another")
    return _to_state("keep_both", "active", facts, ("active", "proposed"))


def allow(held: SuppressedFact) -> ChangeSet:
    """Add a found fact that was suppressed for its similarity to a rejected fact; that one stays rejected."""
    return ChangeSet("allow", (replace(held.draft, text=_words(held.draft.text)),))


def together(action: Action, *changes: ChangeSet, reason: str = "") -> ChangeSet:
    """Join change sets into one; new facts are numbered anew, -1 being the first of all.

    Raises:
        MessageError: they would change nothing.
    """
    steps: list[Step] = []
    for change in changes:
        # Each change set counts its own new facts from -1, so those of the earlier ones come in front.
        before = sum(isinstance(step, FactDraft) for step in steps)
        steps += [
            replace(step, by=step.by - before) if isinstance(step, FactChange) and step.by is not None and step.by < 0
            else step
            for step in change.steps
        ]  # fmt: skip
    return _some(action, steps, reason or next((change.reason for change in changes if change.reason), ""))


def for_review(change: ChangeSet) -> ChangeSet:
    """Return an agent's change set as it is stored where a person must approve: its new texts become proposals.

    A fact that would be reworded, or superseded by a new text, stays as it is until a person decides. Facts with a key
    belong to a program, which may reword them; proposals may be reworded, too.
    """
    plan = settle(change)
    reworded = {
        step.fact.id: step
        for step in plan.changed
        if step.after.text != step.fact.text and step.fact.key is None and step.fact.state != "proposed"
    }
    # A negative number is the place of a new fact: -1 is the first one.
    replaced: dict[int, list[int]] = {}
    for step in plan.changed:
        if step.fact.id not in reworded and step.by is not None and (step.by < 0 or step.by in reworded):
            replaced.setdefault(step.by, []).append(step.fact.id)
    waiting = [
        replace(new, state="proposed", instead_of=tuple(replaced.get(-place, ()))) if new.state == "active" else new
        for place, new in enumerate(plan.added, start=1)
    ]
    for id, step in reworded.items():
        after = step.after
        waiting.append(
            FactDraft(
                after.text,
                state="proposed",
                pinned=after.pinned,
                category=after.category,
                sources=(*after.sources, *step.sources),
                topics=after.topics,
                metadata=after.metadata,
                instead_of=(id, *replaced.get(id, ())),
            )
        )
    if not waiting:
        return change
    stay = {*reworded, *(id for ids in replaced.values() for id in ids)}
    rest = (step for step in change.steps if isinstance(step, FactChange) and step.fact.id not in stay)
    return ChangeSet("add", (*waiting, *rest), change.reason)


# -- resulting plans ----------------------------------------------------------------------------


def settle(change: ChangeSet) -> FactPlan:
    """Compute the state of each fact after all steps, in order of first mention.

    Raises:
        ConflictError: two steps read the same fact in different versions.
    """
    changed: dict[int, FactChange] = {}
    added: list[FactDraft] = []
    for step in change.steps:
        if isinstance(step, FactDraft):
            added.append(step)
            continue
        fact = step.fact
        now = changed.get(fact.id) or FactChange(fact)
        # One change set may hold a fact read before and after another person's change.
        if now.fact.version != fact.version:
            raise changed_elsewhere(fact)
        gained = [source for source in step.sources if source not in (*fact.sources, *now.sources)]
        changed[fact.id] = replace(
            now,
            values={**now.values, **step.values},
            # A later state replaces the earlier decision whole, with the fact that superseded it.
            by=step.by if "state" in step.values else now.by,
            sources=(*now.sources, *gained),
            confirms=now.confirms or step.confirms,
        )
    return FactPlan(tuple(changed.values()), tuple(added), change.reason)


@dataclass(frozen=True, slots=True)
class Clash:
    """Value shared by two active facts: a key, or without one the words."""

    text: str
    key: str | None = None

    @property
    def sentence(self) -> str:
        shared = f'says "{self.text}"' if self.key is None else f'has the key "{shortened(self.key, _QUOTED)}"'
        return f"Another fact {shared}"

    @property
    def same(self) -> str:
        """Value by which two facts clash if it is equal: the key, or without a key the words."""
        return f"key {self.key}" if self.key is not None else f"words {same_words(self.text)}"


def find_clash(plan: FactPlan, known: Iterable[Fact]) -> Clash | None:
    """Return the clash of two active facts that the plan would cause; None if it causes none.

    `known` are all facts before the change; duplicates that existed before are ignored.
    """
    after = {change.fact.id: change.after for change in plan.changed}
    present: set[str] = set()
    fresh = [Clash(new.text, new.key) for new in plan.added if new.state == "active"]
    # Facts that an undo removes leave their words and keys free.
    gone = {fact.id for fact in plan.removed}
    for fact in known:
        if fact.id in gone:
            continue
        now = after.get(fact.id, fact)
        if now.state != "active":
            continue
        if now.text != fact.text or fact.state != "active":
            fresh.append(Clash(now.text, fact.key))
        else:
            # Duplicates that were there before are no clash: a person may be about to merge them.
            present.add(Clash(now.text, fact.key).same)
    for clash in fresh:
        if clash.same in present:
            return clash
        present.add(clash.same)
    return None


FIRST_ADDED = 2**39
"""Id of the first fact that a previewed change adds: above those of all stored facts, which a mark may name."""


def active_after(facts: Sequence[Fact], change: ChangeSet, count_tokens: Callable[[str], int]) -> list[Fact]:
    """Return the active facts after the change, oldest first; `facts` are those that are active now.

    New ones have ids from `FIRST_ADDED` on, and dates like the newest.
    """
    plan = settle(change)
    active_facts = {fact.id: fact for fact in facts if fact.state == "active"}
    for step in plan.changed:
        sources = tuple(sorted({*step.fact.sources, *step.sources}))
        after = replace(step.counted(count_tokens), sources=sources, version=step.fact.version + 1)
        active_facts[after.id] = after
    everything = [*facts, *(step.fact for step in plan.changed)]
    active = sorted((fact for fact in active_facts.values() if fact.state == "active"), key=lambda fact: fact.id)
    now = max((fact.confirmed_at for fact in everything), default=0.0)
    scope, block = (everything[0].scope, everything[0].block) if everything else ("", "")
    turn = max((fact.turn for fact in everything), default=0)
    for id, new in enumerate(plan.added, start=FIRST_ADDED):
        if new.state == "active":
            tokens = count_tokens(new.text)
            active.append(new.as_fact(id, scope=scope, block=block, tokens=tokens, turn=turn, at=now))
    return active


@dataclass(frozen=True, slots=True)
class FactsAfter(Sequence[Fact]):
    """Active facts of a block as they will be after a change set, and the facts that it retires as untrue."""

    active: Sequence[Fact]
    ended: Sequence[Fact] = ()
    turn: int = 0
    """Turn of the change."""
    added: Mapping[int, tuple[int, ...]] = field(default_factory=dict, hash=False)
    """Ids of the facts that each added fact contradicts, by its id."""

    @overload
    def __getitem__(self, index: int) -> Fact: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Fact]: ...
    def __getitem__(self, index: int | slice) -> Fact | Sequence[Fact]:
        return self.active[index]

    def __len__(self) -> int:
        return len(self.active)


def ended_by(change: ChangeSet) -> list[Fact]:
    """Return the facts that a change set retires because they do not hold; prompts mark the messages that say them."""
    if not says_false(change.reason):
        return []
    return [step.fact for step in settle(change).changed if step.after.state == "retired"]


def each_topic(topics: Sequence[str]) -> tuple[str, ...]:
    """Return topics stripped and without duplicates, ignoring case."""
    named = (" ".join(topic.split()) for topic in topics)
    return tuple({topic.casefold(): topic for topic in named if topic}.values())


def changed_elsewhere(fact: Fact) -> ConflictError:
    """Return the error for a fact that was changed since it was read."""
    return ConflictError(f"The fact {quoted(fact)} was changed elsewhere. Nothing was overwritten.")


def quoted(fact: Fact) -> str:
    """Return a fact's text in quotes, as a sentence shows it; a long text is shortened."""
    return f'"{shortened(fact.text, _QUOTED)}"'


_QUOTED = 80
"""Maximum characters of a text that a sentence quotes."""

_SAID = {
    "add": "added {}",
    "edit": "edited {}",
    "merge": "merged {} into one",
    "split": "split a fact into {}",
    "pin": "pinned {}",
    "unpin": "unpinned {}",
    "retire": "retired {}",
    "restore": "restored {}",
    "reject": "rejected {}",
    "accept": "accepted {}",
    "supersede": "replaced a fact by another",
    "keep_both": "kept {} that contradict each other",
    "allow": "allowed {} that had been held back",
    "import": "imported {}",
    "refuse": "refused a rewrite",
    "label": "labelled {}",
    "put": "put {} under a key",
    "confirm": "confirmed {}",
    "ask": "marked {} to ask about",
}


def past_tense(action: str) -> str:
    """Return the verb of an action as a sentence begins with it: `Pinned`."""
    return _SAID[action].partition(" ")[0].capitalize() if action in _SAID else action


def words_for(action: str, *, changed: int, added: int) -> str:
    """Describe a change set, to follow "Undo:". `changed` and `added` count facts.

    >>> words_for("retire", changed=2, added=0), words_for("split", changed=1, added=2)
    ('retired 2 facts', 'split a fact into 2')
    """
    if action == "split":
        return _SAID["split"].format(added)
    count = added + changed if action == "put" else added if action in ("add", "allow", "import") else changed
    facts = "a fact" if count == 1 else f"{count:,} facts"
    return _SAID.get(action, "changed {}").format(facts)


# -- inside --------------------------------------------------------------------------------------


def _words(text: str) -> str:
    text = " ".join(text.split())
    if not text:
        raise MessageError(EMPTY)
    return text


def _reworded(fact: Fact, text: str) -> Mapping[str, Any]:
    """Return a reworded fact's metadata: where it repeats the old text, as a value or as JSON, it gets the new one."""
    # A program that stores JSON as a fact's text reads it back, so the new words must be JSON, too.
    if fact.text == " ".join(json.dumps(fact.metadata, sort_keys=True, ensure_ascii=False).split()):
        try:
            read = json.loads(text)
            return _checked(read)
        except (ValueError, RecursionError) as error:
            raise MessageError(f"A program reads this fact as a JSON object, and this is none: {error}") from error

    def reworded(value: Any) -> Any:
        if isinstance(value, str) and " ".join(value.split()) == fact.text:
            return text
        if isinstance(value, dict):
            return {name: reworded(item) for name, item in value.items()}
        return [reworded(entry) for entry in value] if isinstance(value, list) else value

    return {name: reworded(value) for name, value in fact.metadata.items()}


def _key(key: str | None) -> str | None:
    # Refused, not repaired: the program looks the fact up by exactly this key.
    if key is not None and (not key or storable(key)[0] != key):
        raise MessageError(f"{key[:80]!r} cannot be the key of a fact: it is empty, or holds what no database stores.")
    return key


def _checked(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata_text(metadata)
    return metadata


def _some(action: Action, steps: Sequence[Step], reason: str = "") -> ChangeSet:
    if not steps:
        raise MessageError("This would change nothing.")
    return ChangeSet(action, tuple(steps), " ".join(reason.split()))


def _to_state(
    action: Action, state: str, facts: Sequence[Fact], come_from: tuple[str, ...], reason: str = ""
) -> ChangeSet:
    # Facts in other states are passed over, as a selection may be mixed; it is an error only if none is left.
    return _some(
        action, [FactChange(fact, {"state": state}) for fact in _each_once(facts) if fact.state in come_from], reason
    )


def _of_states(facts: Sequence[Fact], states: tuple[str, ...], done: str) -> None:
    for fact in facts:
        if fact.state not in states:
            raise MessageError(f'"{shortened(fact.text, _QUOTED)}" is {fact.state}. Restore it before it is {done}.')


def _each_once(facts: Sequence[Fact]) -> list[Fact]:
    return list({fact.id: fact for fact in facts}.values())
