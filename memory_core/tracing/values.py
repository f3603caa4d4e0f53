"""Values of a trace: stages with verdicts, one track per carrier, and a final sentence. Pure."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from memory_core.events import Ref
from memory_core.formats.notebooks import repr_html
from memory_core.text import listed, shortened

StageName = Literal["said", "queue", "flush", "delivery", "learned", "kept", "found", "prompt", "answer"]
"""Stages in order of passage."""
STAGES: tuple[StageName, ...] = (
    "said", "queue", "flush", "delivery", "learned", "kept", "found", "prompt", "answer",
)  # fmt: skip

Verdict = Literal["passed", "lost", "waiting", "not_reached", "unknown"]
"""`waiting`: may still pass; `not_reached`: an earlier stage decided; `unknown`: nothing recorded."""

MARKS: Mapping[Verdict, str] = {"passed": "+", "lost": "x", "waiting": "…", "not_reached": "-", "unknown": "?"}
"""Sign of a verdict in a printed trace."""

Knowledge = Literal["decided", "reported", "observed"]
"""Source of a verdict. `decided`: this engine recorded the rule; `reported`: by an imported file or an agent's span;
`observed`: inferred by comparing texts, so no rule is claimed."""

CarrierKind = Literal["message", "fact", "relation", "unit", "text", "block", "record"]
"""`text`: a static text or summary; `block`: a block that received the message and derived nothing; `record`: of an
attached agent's store."""

Matched = Literal["id", "words", "meaning", "read"]
"""Kind of match. `read`: a message from which the summary sentence was written in other words."""


@dataclass(frozen=True, slots=True)
class Stage:
    name: StageName
    verdict: Verdict
    text: str
    """Sentence: what happened, by which rule, with numbers. Plain text; may contain a block's name."""
    position: int | None = None
    """Log position of the deciding event, if any."""
    turn: int | None = None
    """Turn of the deciding event."""
    rule: str = ""
    """Code of the rule that lost the carrier: `below_threshold`, `trimmed`, `question`, ..."""
    numbers: Mapping[str, float] = field(default_factory=dict)
    """Numbers of the sentence by name, as in the event."""
    knowledge: Knowledge = "decided"


@dataclass(frozen=True, slots=True)
class Carrier:
    """Carrier of the information on one track."""

    kind: CarrierKind
    block: str | None = None
    """Name of the block (or of an agent's store); None for a message in the queue."""
    ref: Ref | None = None
    words: str = ""
    matched: Matched = "id"
    seq: int | None = None
    """Source message; None if written by hand, or from another session."""
    record: str | None = None
    """Id of a record; None if its spans omit it."""
    number: int | None = None
    """Number of a fact or relation in its block, from 1; `ref` has the database id."""

    @property
    def key(self) -> Hashable:
        """Return the carrier's identity."""
        return self.kind, self.ref or (self.block, self.seq, self.record)


@dataclass(frozen=True, slots=True)
class Track:
    """The stages of one carrier."""

    carrier: Carrier
    stages: tuple[Stage, ...]

    @property
    def reached(self) -> bool:
        """Return whether the carrier is in the prompt."""
        return any(stage.name == "prompt" and stage.verdict == "passed" for stage in self.stages)

    @property
    def decisive(self) -> Stage | None:
        """Return the stage that lost the carrier or holds it up; the prompt stage if it arrived; None if undecided."""
        if self.reached:
            return self.stage("prompt")
        return next((stage for stage in self.stages if stage.verdict in ("lost", "waiting")), None)

    def stage(self, name: StageName) -> Stage | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    @property
    def progress(self) -> tuple[bool, int, bool]:
        """Return a sort key, larger is further: in the prompt, else by deciding stage, then by whether it may still
        pass. Removed contents of a block sort below existing ones."""
        decided = self.decisive
        place = STAGES.index(decided.name) if decided is not None and decided.rule != "block_removed" else -1
        return self.reached, place, decided is not None and decided.verdict == "waiting"


@dataclass(frozen=True, slots=True)
class Said:
    """A message that says the target."""

    seq: int
    turn: int
    role: str
    matched: Matched
    similarity: float | None = None
    """Similarity of meaning, 0 to 1; None if matched by id or words."""


@dataclass(frozen=True, slots=True)
class Nearest:
    """The message closest to an unsaid phrase: in meaning, or by number of shared words."""

    seq: int
    turn: int
    words: str
    similarity: float | None
    """Cosine similarity, -1 to 1; None if matched by words."""
    held: tuple[int, int] | None = None
    """Number of the phrase's words in the message, and of all words of the phrase; None if matched by meaning."""


@dataclass(frozen=True, slots=True)
class CutEntry:
    """A cut item, and other carriers of its information."""

    ref: Ref
    words: str
    """Text of the item; empty if erased."""
    said: tuple[Said, ...]
    own: Track | None
    """The item's own track to the viewed prompt; None if its text was erased."""
    others: tuple[Track, ...]
    """Other carriers of the same information, furthest first."""

    @property
    def otherwise(self) -> str:
        """Describe in one sentence which other carriers the information has. Plain text."""
        stages = [track.decisive for track in self.others]
        stored = next((stage for stage in stages if stage is not None and stage.name in ("found", "prompt")), None)
        if stored is not None:
            return stored.text
        own_stage = self.own.decisive if self.own is not None else None
        stays = (
            f" It stays in {self.own.carrier.block or 'the queue'}."
            if self.own and own_stage and own_stage.name == "prompt"
            else ""
        )
        return f"Nothing else in memory carries it.{stays}"


@dataclass(frozen=True, slots=True)
class CutTrace:
    """A traced cut: one decision to drop something from one prompt."""

    part: str
    """Block, or `queue`."""
    rule: str
    tokens: int
    """Tokens freed by the cut."""
    stage: Stage
    """The decision, with sentence and numbers."""
    entries: tuple[CutEntry, ...]
    prompt: str
    """The viewed prompt, for the middle of a sentence."""
    its_own: bool
    """True if `prompt` is the prompt that the entries were cut from."""
    more: int = 0
    """Number of cut items beyond the listed entries."""

    @property
    def sentence(self) -> str:
        """Describe the cut's rule and numbers, and how many of the cut items the prompt says anyway. Plain text."""
        shown, otherwise = len(self.entries), " elsewhere" if self.its_own else ""
        held = sum(any(track.reached for track in (entry.own, *entry.others) if track) for entry in self.entries)
        alone = shown + self.more == 1
        whole = "it" if alone else f"the first {shown}" if self.more else "them"
        says = f"{self.prompt} says {whole}{otherwise}"
        if held == 0:
            says = f"nothing{' else' if self.its_own else ''} in {self.prompt} says {whole}"
        elif held < shown:
            says = f"{self.prompt} says {held} of {whole}{otherwise}"
        things = "1 entry" if alone else f"{shown + self.more:,} entries"
        size = "1 token" if self.tokens == 1 else f"{self.tokens:,} tokens"
        return f"{self.stage.text} Left out: {things} with {size}; {says}."


@dataclass(frozen=True, slots=True, repr=False)
class Trace:
    """Path of one piece of information to one prompt, or to the rule that lost it."""

    asked: str
    """The phrase, or the text of the picked ref."""
    target: Ref | None
    """The picked ref; None for a phrase."""
    turn: int
    """Requested turn."""
    prompt_turn: int | None
    """Turn of the viewed prompt: the last one up to `turn`; None without one."""
    position: int
    """Log position of the view: the prompt's, or the end of the turn."""
    prompt_position: int | None
    question: str | None
    """The prompt's question: its input, or its newest user message; None if erased, or without a prompt."""
    said: tuple[Said, ...]
    """Messages that say the target, newest first."""
    tracks: tuple[Track, ...]
    """Tracks, furthest first: those that reached the prompt, then those lost at the latest stage."""
    known_from: int | None = None
    """Position of the last reset, before which nothing is known; None without one."""
    nearest: Nearest | None = None
    """Suggested message if nobody said the phrase; None otherwise, or without a similar message."""
    scattered: str = ""
    """Sentence on the item with all words of a phrase that nobody said as such; the item is then the target."""
    more: int = 0
    """Number of carriers beyond the listed tracks."""
    cut: CutTrace | None = None
    """The picked cut, if any; `tracks` are then those of its entries."""

    _repr_html_ = repr_html

    def __str__(self) -> str:
        """Format the sentence, then each track with its stages."""
        lines = [self.sentence]
        for track in self.tracks:
            lines.append(f"\n{track.carrier.kind} {track.carrier.block or ''}".rstrip())
            lines += [f"  {MARKS[stage.verdict]} {stage.name:<9} {stage.text}" for stage in track.stages]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<Trace of {shortened(self.asked, 40)!r}: {self.sentence}>"

    @property
    def origin(self) -> str:
        """Describe who said the target in which turn, or its other origin; empty for an unsaid phrase. Plain text.

        Starts with a note if the phrase was not said literally.
        """
        picked = next((track for track in self.tracks if track.carrier.ref == self.target), None)
        by_itself = picked is not None and picked.carrier.kind in ("text", "block") and picked.carrier.seq is None
        learned = picked if by_itself else self.tracks[0] if self.tracks and not self.said else None
        first = next((stage.text for stage in learned.stages if stage.name == "learned"), "") if learned else ""
        return " ".join(filter(None, [self.scattered, first, said_by(self.said)]))

    @property
    def reached(self) -> bool:
        """Return whether any carrier is in the prompt."""
        return any(track.reached for track in self.tracks)

    @property
    def decisive(self) -> Stage | None:
        """Return the deciding stage of the best track."""
        return self.tracks[0].decisive if self.tracks else None

    @property
    def sentence(self) -> str:
        """Return the trace's conclusion, with rule and number. Plain text."""
        if self.cut is not None:
            return self.cut.sentence
        if not self.tracks:
            gap = " What was said before the last reset is no longer known." if self.known_from else ""
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
    """Sort tracks, furthest first; of equal ones the picked one first, then in given order."""
    # Sorting in reverse keeps the given order of equal tracks.
    return tuple(sorted(tracks, key=lambda track: (track.progress, track.carrier.ref == target), reverse=True))


SPEAKERS = {"user": "the user", "assistant": "the assistant", "tool": "a tool", "system": "a system message"}
"""Speaker's name by role."""

MAX_TURNS_NAMED = 6
"""Maximum turns listed in a sentence, the first ones; the rest is counted."""


def said_by(messages: Sequence[Said]) -> str:
    """Describe speakers and turns: `Said by the user in turns 3 and 9.` Plain text; empty for nobody."""
    if messages and all(message.matched == "read" for message in messages):
        by = listed(SPEAKERS.get(role, role) for role in dict.fromkeys(message.role for message in reversed(messages)))
        return f"Written from messages by {by} {_turns(messages)}."
    turns: dict[str, list[Said]] = {}
    for message in reversed(messages):  # in order of the first mention
        turns.setdefault(SPEAKERS.get(message.role, message.role), []).append(message)
    speakers: dict[str, list[str]] = {}
    for who, spoken in turns.items():
        speakers.setdefault(_turns(spoken), []).append(who)
    return f"Said {listed(f'by {listed(who)} {where}' for where, who in speakers.items())}." if messages else ""


def _turns(messages: Sequence[Said]) -> str:
    turns = sorted({message.turn for message in messages} - {0})
    before = ["before the first turn"] if any(not message.turn for message in messages) else []
    named = [f"{turn:,}" for turn in turns[:MAX_TURNS_NAMED]]
    if len(turns) > len(named):
        named.append(f"{len(turns) - len(named)} more")
    return listed([*before, *([f"in turn{'s' * (len(turns) > 1)} {listed(named)}"] if turns else [])])
