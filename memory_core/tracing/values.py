"""What a trace tells: stages with their verdicts, one track per carrier, and the sentence they end in. Pure."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memory_core.events import Ref
from memory_core.text import listed, shortened

StageName = Literal["said", "queue", "flush", "delivery", "learned", "kept", "found", "prompt", "answer"]
"""In the order in which a piece of information passes them."""
STAGES: tuple[StageName, ...] = (
    "said", "queue", "flush", "delivery", "learned", "kept", "found", "prompt", "answer",
)  # fmt: skip

Verdict = Literal["passed", "lost", "waiting", "not_reached", "unknown"]
"""`waiting`: it may still come through; `not_reached`: an earlier stage decided; `unknown`: nothing on record."""

MARKS: Mapping[Verdict, str] = {"passed": "+", "lost": "x", "waiting": "…", "not_reached": "-", "unknown": "?"}
"""A stage's verdict where a trace is printed."""

Knowledge = Literal["decided", "reported", "observed"]
"""How a verdict is known. `decided`: this engine recorded the rule; `reported`: somebody's record says so, such as an
imported file or a span of an attached agent; `observed`: only seen by comparing words, so that no rule is claimed."""

CarrierKind = Literal["message", "fact", "relation", "unit", "text", "block", "record"]
"""`text`: a static text or a summary; `block`: one that was given the message and made nothing of it; `record`: one of
an attached agent's store, which `block` then names."""

Matched = Literal["id", "words", "meaning", "read"]
"""How the carrier was found to carry what is followed. `read`: a summary's sentence was written from this message, and
has other words."""


@dataclass(frozen=True, slots=True)
class Stage:
    name: StageName
    verdict: Verdict
    text: str
    """One sentence: what happened, by which rule, with its numbers. Plain text; it may contain a block's name."""
    position: int | None = None
    """Log position of the event that decided; None if there is none."""
    turn: int | None = None
    """Turn of that event."""
    rule: str = ""
    """Code of the rule that lost it: `below_threshold`, `trimmed`, `question`, ..."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the sentence by what they are, as in the event."""
    knowledge: Knowledge = "decided"


@dataclass(frozen=True, slots=True)
class Carrier:
    """What carries the information on one track."""

    kind: CarrierKind
    block: str | None = None
    """None for a message in the queue."""
    ref: Ref | None = None
    words: str = ""
    matched: Matched = "id"
    seq: int | None = None
    """Message it came from; None if it was written, or comes from another session."""
    record: str | None = None
    """Id of a record; None where its spans give it none."""
    number: int | None = None
    """Number of a fact or a relation in its block, 1 for the first: `ref` has the database's id."""

    @property
    def key(self) -> Hashable:
        """The same for tracks of one carrier."""
        return self.kind, self.ref or (self.block, self.seq, self.record)


@dataclass(frozen=True, slots=True)
class Track:
    """The way of one carrier, stage by stage."""

    carrier: Carrier
    stages: tuple[Stage, ...]

    @property
    def reached(self) -> bool:
        """Whether it is in the prompt."""
        return any(stage.name == "prompt" and stage.verdict == "passed" for stage in self.stages)

    @property
    def decisive(self) -> Stage | None:
        """The stage that lost it, or where it waits; in the prompt, that stage. None if nothing decided."""
        if self.reached:
            return self.stage("prompt")
        return next((stage for stage in self.stages if stage.verdict in ("lost", "waiting")), None)

    def stage(self, name: StageName) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    @property
    def progress(self) -> tuple[bool, int, bool]:
        """Larger is further: in the prompt, else the stage that decided; of equals, what may still come first. What a
        block held that is not there any more is behind everything that still is."""
        decided = self.decisive
        place = STAGES.index(decided.name) if decided is not None and decided.rule != "block_removed" else -1
        return self.reached, place, decided is not None and decided.verdict == "waiting"


@dataclass(frozen=True, slots=True)
class Said:
    """A message that says what is followed."""

    seq: int
    turn: int
    role: str
    matched: Matched
    similarity: float | None = None
    """Of meaning, 0 to 1; None if it was matched by id or words."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The message closest to a phrase that nobody said: in meaning, or by most of its words."""

    seq: int
    turn: int
    words: str
    similarity: float | None
    """Cosine, -1 to 1; None for the one with most words."""
    held: tuple[int, int] | None = None
    """Number of the phrase's words that it has, of how many; every word was said somewhere. None: not counted."""


@dataclass(frozen=True, slots=True)
class CutEntry:
    """One thing that was cut, and where its information is otherwise."""

    ref: Ref
    words: str
    """Empty if they were erased."""
    said: tuple[Said, ...]
    own: Track | None
    """Its own way to the prompt looked at; None if its words are not there to be followed any more."""
    others: tuple[Track, ...]
    """Other carriers of the same, the furthest first."""

    @property
    def otherwise(self) -> str:
        """Where the same information is besides, in one sentence. Plain text."""
        found = [track.decisive for track in self.others]
        kept = next((stage for stage in found if stage is not None and stage.name in ("found", "prompt")), None)
        if kept is not None:
            return kept.text
        own = self.own.decisive if self.own is not None else None
        stays = (
            f" It stays in {self.own.carrier.block or 'the queue'}."
            if self.own and own and own.name == "prompt"
            else ""
        )
        return f"Nothing else in memory carries it.{stays}"


@dataclass(frozen=True, slots=True)
class CutTrace:
    """A cut that is followed: one decision to leave something out of one prompt."""

    part: str
    """Block, or `queue`."""
    rule: str
    tokens: int
    """Tokens it freed."""
    stage: Stage
    """The decision, with its sentence and its numbers."""
    entries: tuple[CutEntry, ...]
    prompt: str
    """The prompt looked at, for the middle of a sentence."""
    its_own: bool
    """Whether that is the prompt that it was cut from."""
    more: int = 0
    """Things cut that are not among the entries, because there are too many of them."""

    @property
    def sentence(self) -> str:
        """By which rule and numbers it was cut, and how much of it a prompt says all the same. Plain text."""
        shown, otherwise = len(self.entries), " otherwise" if self.its_own else ""
        held = sum(any(track.reached for track in (each.own, *each.others) if track) for each in self.entries)
        alone = shown + self.more == 1
        whole = "it" if alone else f"the first {shown}" if self.more else "them"
        says = f"{self.prompt} says {whole}{otherwise}"
        if held == 0:
            says = f"nothing{' else' if self.its_own else ''} in {self.prompt} says {whole}"
        elif held < shown:
            says = f"{self.prompt} says {held} of {whole}{otherwise}"
        things = "1 entry" if alone else f"{shown + self.more:,} entries"
        size = "1 token" if self.tokens == 1 else f"{self.tokens:,} tokens"
        return f"{self.stage.text} {things} with {size} went: {says}."


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """What became of one piece of information, as of one prompt."""

    asked: str
    """The phrase, or the words of what was picked."""
    target: Ref | None
    """What was picked; None for a phrase."""
    turn: int
    """Turn asked about."""
    prompt_turn: int | None
    """Turn of the prompt looked at: the last one built up to `turn`; None if there was none."""
    position: int
    """Log position as of which everything is told: that of the prompt, or the end of the turn."""
    prompt_position: int | None
    question: str | None
    """What that prompt was built for: its input, or the user's newest message in it; None if erased, or if none was."""
    said: tuple[Said, ...]
    """Messages that say it, newest first."""
    tracks: tuple[Track, ...]
    """The furthest first: those in the prompt, then those lost latest."""
    known_from: int | None = None
    """Position of the last reset: what was before it is not known any more; None if nothing was forgotten."""
    nearest: Nearest | None = None
    """Suggested instead if nobody said it."""
    scattered: str = ""
    """Where all words of a phrase are that was said nowhere word for word: what has them is the target. A sentence."""
    more: int = 0
    """Carriers that are not among the tracks, because there are too many of them."""
    cut: CutTrace | None = None
    """What was cut, if a cut was picked: the tracks are those of its entries."""

    def __str__(self) -> str:
        """Return the sentence, then each track with its stages."""
        lines = [self.sentence]
        for track in self.tracks:
            lines.append(f"\n{track.carrier.kind} {track.carrier.block or ''}".rstrip())
            lines += [f"  {MARKS[stage.verdict]} {stage.name:<9} {stage.text}" for stage in track.stages]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Trace of {shortened(self.asked, 40)!r}: {self.sentence}>"

    @property
    def origin(self) -> str:
        """Who said it and in which turn, or how else it came in; empty for what nobody said. Plain text.

        First, that it was not said word for word, where that is so.
        """
        own = next((track for track in self.tracks if track.carrier.ref == self.target), None)
        by_itself = own is not None and own.carrier.kind in ("text", "block") and own.carrier.seq is None
        learned = own if by_itself else self.tracks[0] if self.tracks and not self.said else None
        first = next((each.text for each in learned.stages if each.name == "learned"), "") if learned else ""
        return " ".join(filter(None, [self.scattered, first, said_by(self.said)]))

    @property
    def reached(self) -> bool:
        """Whether any carrier is in the prompt."""
        return any(track.reached for track in self.tracks)

    @property
    def decisive(self) -> Stage | None:
        """The stage of the best track that decided."""
        return self.tracks[0].decisive if self.tracks else None

    @property
    def sentence(self) -> str:
        """The one sentence a trace ends in, with the rule and the number. Plain text."""
        if self.cut is not None:
            return self.cut.sentence
        if not self.tracks:
            gap = " What was said before the last reset is not known any more." if self.known_from else ""
            if self.nearest is not None and self.nearest.held is not None:
                number, of = self.nearest.held
                return (
                    f"Never said together: a message of turn {self.nearest.turn:,} has {number} of the {of} words.{gap}"
                )
            return f"Never said in this session.{gap}"
        decided = self.decisive
        if decided is None:
            return self.tracks[0].stages[-1].text
        answer = self.tracks[0].stage("answer") if self.reached else None
        return f"{decided.text} {answer.text}" if answer is not None else decided.text


def ranked(tracks: Sequence[Track], target: Ref | None = None) -> tuple[Track, ...]:
    """Tracks, the furthest first; of equals what was picked, then in the given order."""
    return tuple(sorted(tracks, key=lambda track: (track.progress, track.carrier.ref == target), reverse=True))


SPEAKERS = {"user": "the user", "assistant": "the assistant", "tool": "a tool", "system": "a system message"}
"""Who says something, by role."""

MAX_TURNS_NAMED = 6
"""Turns that are named; of more, the first ones."""


def said_by(said: Sequence[Said]) -> str:
    """Who said it, and in which turns: `Said by the user in turns 3 and 9.` Plain text; empty for nobody."""
    if said and all(each.matched == "read" for each in said):
        by = listed(SPEAKERS.get(role, role) for role in dict.fromkeys(each.role for each in reversed(said)))
        return f"Its messages were said by {by} in {_turns(said)}."
    turns: dict[str, list[Said]] = {}
    for each in reversed(said):  # whoever said it first comes first
        turns.setdefault(SPEAKERS.get(each.role, each.role), []).append(each)
    speakers: dict[str, list[str]] = {}
    for who, own in turns.items():
        speakers.setdefault(_turns(own), []).append(who)
    return f"Said {listed(f'by {listed(who)} in {where}' for where, who in speakers.items())}." if said else ""


def _turns(said: Sequence[Said]) -> str:
    turns = sorted({each.turn for each in said})
    named = [f"{turn:,}" for turn in turns[:MAX_TURNS_NAMED]]
    if len(turns) > len(named):
        named.append(f"{len(turns) - len(named)} more")
    return f"turn{'s' * (len(turns) > 1)} {listed(named)}"
