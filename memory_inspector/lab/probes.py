"""Probes: unit tests of a memory configuration, checked against every prompt of a replayed or live session.

Questions with expected evidence are asked after the whole conversation, as in the recall benchmark. Evidence counts if
the prompt has it literally, or has all its stems in one sentence (`planning.phrase_matching`).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from memory_core.bundles.bundle_checks import first_problem
from memory_core.errors import ConfigError, FormatError, NotFoundError
from memory_core.events import EventRecord, Ref, expand
from memory_core.memory import Memory
from memory_core.messages import message_text
from memory_core.planning.phrase_matching import Phrase

MAX_QUESTIONS = 200
"""Maximum lines in a list of questions; each adds a prompt to every replayed configuration."""

MAX_LINE = 2_000
"""Maximum characters of a line."""

_ARROW = re.compile(r"\s*(?:→|->|\t)\s*")


@dataclass(frozen=True, slots=True)
class Question:
    """A question with one piece of evidence."""

    words: str
    evidence: str


def read_questions(text: str) -> tuple[Question, ...]:
    """Parse a list with a line per question: `question → words of evidence`; the arrow may be `->` or a tab.

    A question with several pieces of evidence has several lines.

    >>> read_questions("Who sings? -> Ana sings in a choir")
    (Question(words='Who sings?', evidence='Ana sings in a choir'),)

    Raises:
        FormatError: A line has no arrow or an empty side, or there are too many.
    """
    questions = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE:
            raise FormatError(f"Line {number} has {len(line):,} characters; {MAX_LINE:,} are the most.")
        # Only the first arrow divides the line, so evidence may contain one.
        words, *evidence = _ARROW.split(line.strip("\ufeff "), maxsplit=1)
        if not evidence:
            raise FormatError(f"Line {number} has no arrow: write “question → words of evidence”.")
        if not words.strip() or not evidence[0].strip():
            raise FormatError(f"Line {number} needs a question before its arrow, and words of evidence after it.")
        questions.append(Question(words.strip(), evidence[0].strip()))
    if len(questions) > MAX_QUESTIONS:
        raise FormatError(f"{len(questions):,} lines are too many; {MAX_QUESTIONS} are the most.")
    return tuple(questions)


def evidence_found(memory: Memory, questions: Sequence[Question]) -> int:
    """Count the questions whose current prompt contains their evidence.

    Only for replayed memories: each question adds a prompt to the log.
    """
    prompts: dict[str, list[str]] = {}
    for question in questions:
        # A question with several lines is asked once, as each prompt costs a search and an entry in the log.
        if question.words not in prompts:
            messages = memory.build_context(question.words, reserved_tokens=memory.session.measured_tokens()).messages
            prompts[question.words] = [message_text(message) for message in messages]
    wanted = [(Phrase.of(question.evidence), prompts[question.words]) for question in questions]
    return sum(any(phrase.said_in(text) for text in texts) for phrase, texts in wanted)


Turn = Annotated[int, Field(ge=1)]
Words = Annotated[str, Field(min_length=1, max_length=300, pattern=r"\S")]


def _span(first_turn: int, last_turn: int | None, *, first: bool = False) -> str:
    """Describe a range of turns, for the end of a sentence; empty for all turns, unless `first` asks to name turn 1."""
    if first_turn == last_turn:
        return f" in turn {first_turn}"
    if last_turn is not None:
        return f" from turn {first_turn} to {last_turn}"
    return f" from turn {first_turn} on" if first or first_turn > 1 else ""


class _Probe(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class InPrompt(_Probe):
    """Expect a phrase in every prompt from a turn on, literally or in a fact or summary made of it."""

    expect: Literal["in_prompt"] = "in_prompt"
    phrase: Words
    from_turn: Turn
    to_turn: Turn | None = None

    def __str__(self) -> str:
        return f"“{self.phrase}” is in the prompt{_span(self.from_turn, self.to_turn, first=True)}"


class NeverInPrompt(_Probe):
    """Expect a phrase in no prompt from a turn on: no sentence contains all its words."""

    expect: Literal["never_in_prompt"] = "never_in_prompt"
    phrase: Words
    from_turn: Turn = 1
    to_turn: Turn | None = None

    def __str__(self) -> str:
        return f"“{self.phrase}” is in no prompt{_span(self.from_turn, self.to_turn)}"


class BlockTokens(_Probe):
    """Expect a block to get at least `at_least` tokens in every prompt from a turn on."""

    expect: Literal["block_tokens"] = "block_tokens"
    block: Words
    at_least: Annotated[int, Field(ge=1)]
    from_turn: Turn = 1
    to_turn: Turn | None = None

    def __str__(self) -> str:
        return f"{self.block} has at least {self.at_least:,} tokens{_span(self.from_turn, self.to_turn, first=True)}"


class EvidenceInPrompt(_Probe):
    """Expect the prompt of a turn to cover these messages: in its queue, or as a stored turn, fact, relation or summary
    made of them."""

    expect: Literal["evidence_in_prompt"] = "evidence_in_prompt"
    turn: Turn
    messages: Annotated[tuple[Turn, ...], Field(min_length=1, strict=False)]

    def __str__(self) -> str:
        return f"{_messages(self.messages)} in the prompt of turn {self.turn}"


class FactCites(_Probe):
    """Expect, at the end of the conversation, an active fact that was learned from a message."""

    expect: Literal["fact_cites"] = "fact_cites"
    message: Turn

    def __str__(self) -> str:
        return f"a fact cites message {self.message}"


Probe = InPrompt | NeverInPrompt | BlockTokens | EvidenceInPrompt | FactCites
AnyProbe = Annotated[Probe, Field(discriminator="expect")]
"""A probe, as a field of a pydantic model."""

_PROBES = TypeAdapter(list[AnyProbe])

MAX_PROBES = 100
"""Maximum probes per session or file."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Outcome of a probe."""

    probe: Probe
    held: bool
    turn: int | None
    """First turn in which the probe failed; None if it held, is about no turn, or had no prompt to be checked on."""
    why: str
    """Plain-text sentence; may quote the conversation."""


@dataclass(frozen=True, slots=True)
class SentTurn:
    """The data of a turn's last prompt that probes need. Sizes are in tokens."""

    turn: int
    texts: tuple[str, ...]
    """Text of every item."""
    granted: dict[str, int]
    """Granted tokens by block."""
    seqs: frozenset[int]
    """Sequence numbers of the messages in the prompt, whether from the queue or as stored turns."""


def sent_turns(memory: Memory) -> list[SentTurn]:
    """Return the last prompt of each turn."""
    turns = sorted(memory.log.history().turns.items())
    return [_sent(memory, number, turn.built) for number, turn in turns if turn.built is not None]


def _sent(memory: Memory, turn: int, built: EventRecord) -> SentTurn:
    prompt, pieces = memory.log.prompt(built), memory.log.pieces()
    entries = [entry for part in prompt.parts for entry in part.included]
    seqs = {entry.ref.number for entry in entries if entry.ref.kind == "message"}
    for entry in entries:
        # A stored unit brings the words of its messages into the prompt, so they count as sent.
        unit = pieces.unit(entry.ref.number) if entry.ref.kind == "unit" else None
        seqs.update(expand(unit.seqs) if unit is not None else ())
    texts = tuple(entry.words for entry in entries if entry.words)
    return SentTurn(turn, texts, {part.name: part.granted for part in prompt.parts}, frozenset(seqs))


def evaluate(memory: Memory, probes: Iterable[Probe]) -> list[Verdict]:
    """Check each probe against a session's prompts; failures cite the deciding rule, as a trace does."""
    sent = sent_turns(memory)
    return [_verdict(memory, sent, probe) for probe in probes]


def read_probes(text: str, name: str) -> tuple[Probe, ...]:
    """Parse probes from the JSON of `write_probes`; errors call the text by `name`.

    Raises:
        FormatError: The text holds no valid probes.
    """
    try:
        probes = _PROBES.validate_json(text)
    except ValidationError as error:
        raise FormatError(f"{name} holds no probes ({first_problem(error)}).") from error
    if len(probes) > MAX_PROBES:
        raise FormatError(f"{name} holds {len(probes):,} probes; {MAX_PROBES} are the most.")
    return tuple(probes)


def write_probes(probes: Sequence[Probe]) -> str:
    """Serialise probes to JSON, for a file or a session."""
    return _PROBES.dump_json(list(probes), indent=2, exclude_none=True).decode() + "\n"


def kept_probes(memory: Memory) -> tuple[Probe, ...]:
    """Return the probes stored with a session.

    Raises:
        FormatError: The stored text is invalid, as in a foreign bundle.
    """
    text = memory.session.probes
    return read_probes(text, "This session") if text is not None else ()


def keep_probes(memory: Memory, probes: Sequence[Probe]) -> None:
    """Store probes with a session, replacing earlier ones.

    Raises:
        ConfigError: There are too many.
    """
    if len(probes) > MAX_PROBES:
        raise ConfigError(f"{MAX_PROBES} probes are the most that a session keeps")
    memory.session.keep_probes(write_probes(probes) if probes else None)


def _verdict(memory: Memory, sent: Sequence[SentTurn], probe: Probe) -> Verdict:
    if isinstance(probe, FactCites):
        # Facts are as they are at the end of the log, so the verdict names no turn.
        facts = (fact for block in memory.blocks if block.kind == "facts" for fact in memory.facts.read(block.name))
        cited = any((memory.session_id, probe.message) in fact.sources for fact in facts)
        why = (
            f"A fact cites message {probe.message}." if cited else _why(memory, Ref.of("message", probe.message), None)
        )
        return Verdict(probe, cited, None, why)
    first = probe.turn if isinstance(probe, EvidenceInPrompt) else probe.from_turn
    last = probe.turn if isinstance(probe, EvidenceInPrompt) else getattr(probe, "to_turn", None)
    asked = [turn for turn in sent if first <= turn.turn and (last is None or turn.turn <= last)]
    # A failure, not a success: a probe that checked nothing must not pass in a test run.
    if not asked:
        return Verdict(probe, False, None, f"No prompt was made from turn {first} on: there is nothing to check.")
    # The first failure is enough; looking at the others may cost a trace each.
    failing = next((turn for turn in asked if not _holds(memory, probe, turn)), None)
    if failing is None:
        return Verdict(probe, True, None, f"Held in {len(asked):,} prompt{'s' if len(asked) > 1 else ''}.")
    return Verdict(probe, False, failing.turn, _reason(memory, probe, failing))


def _holds(memory: Memory, probe: Probe, turn: SentTurn) -> bool:
    match probe:
        case InPrompt():  # literal, or reworded, which requires a trace
            return _says(probe.phrase, turn) or memory.trace(probe.phrase, turn=turn.turn).reached
        case NeverInPrompt():
            return not _says(probe.phrase, turn)
        case BlockTokens():
            return turn.granted.get(probe.block, 0) >= probe.at_least
        case EvidenceInPrompt():
            return not _missing(memory, probe, turn)
        case FactCites():
            raise AssertionError("is about no prompt")


def _says(phrase: str, turn: SentTurn) -> bool:
    wanted = Phrase.of(phrase)
    return any(wanted.said_in(text) for text in turn.texts)


def failure_in(memory: Memory, probe: Probe, turn: int) -> str | None:
    """Explain in one sentence why a probe fails on the prompt of a turn; None if it holds.

    Raises:
        NotFoundError: The turn has no prompt.
    """
    record = memory.log.history().turns.get(turn)
    if record is None or record.built is None:
        raise NotFoundError(f"There is no prompt in turn {turn}.")
    sent = _sent(memory, turn, record.built)
    return None if _holds(memory, probe, sent) else _reason(memory, probe, sent)


def missing_messages(memory: Memory, probe: EvidenceInPrompt) -> list[int]:
    """Return the messages of a probe that its turn's prompt has neither as they are nor as items learned from them."""
    record = memory.log.history().turns.get(probe.turn)
    if record is None or record.built is None:
        return list(probe.messages)
    return _missing(memory, probe, _sent(memory, probe.turn, record.built))


def _missing(memory: Memory, probe: EvidenceInPrompt, turn: SentTurn) -> list[int]:
    return [seq for seq in probe.messages if seq not in turn.seqs and not _carried(memory, seq, turn.turn)]


def _carried(memory: Memory, seq: int, turn: int) -> bool:
    try:
        return memory.trace(Ref.of("message", seq), turn=turn).reached
    # A message that this session does not have is in no prompt.
    except NotFoundError:
        return False


def _reason(memory: Memory, probe: Probe, turn: SentTurn) -> str:
    match probe:
        case InPrompt():
            return _why(memory, probe.phrase, turn.turn)
        case NeverInPrompt():
            return f"It is in the prompt of turn {turn.turn}."
        case BlockTokens():
            granted = turn.granted.get(probe.block)
            if granted is None:
                return f"There is no block called {probe.block} in turn {turn.turn}."
            return f"It has {granted:,} tokens in turn {turn.turn}, {probe.at_least - granted:,} too few."
        case EvidenceInPrompt():
            missing = _missing(memory, probe, turn)[0]
            return f"Message {missing}: {_why(memory, Ref.of('message', missing), turn.turn)}"
        case FactCites():
            raise AssertionError("is about no prompt")


def _why(memory: Memory, target: str | Ref, turn: int | None) -> str:
    try:
        return memory.trace(target, turn=turn).sentence
    except NotFoundError as error:
        return str(error)


def _messages(seqs: Sequence[int]) -> str:
    numbers = ", ".join(str(seq) for seq in seqs)
    return f"message {numbers} is" if len(seqs) == 1 else f"messages {numbers} are"


# -- probe files ----------------------------------------------------------------------------------


SUFFIX = ".probes.json"
"""End of a probe file's name; tests and CI servers find the files of a folder by it."""

VERSION = 1
"""Version of the format that this release reads."""


@dataclass(frozen=True, slots=True)
class ProbeFile:
    """A parsed probe file."""

    path: Path
    conversation: Path
    configuration: Path | None
    """Path of the configuration; None: that of the bundle."""
    probes: tuple[Probe, ...]
    """The probes to check; empty: those of the bundle."""


class _Stored(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    version: int
    conversation: str
    configuration: str | None = None
    probes: list[AnyProbe] = []


def is_probe_file(path: Path) -> bool:
    """Return whether a path has the name of a probe file."""
    return path.name.endswith(SUFFIX)


def find_probe_files(path: Path) -> list[Path]:
    """Return the probe files of a folder and its subfolders in alphabetical order, or the given file itself.

    Raises:
        FormatError: There is no such file or folder, or the folder has no probe file.
    """
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise FormatError(f"{path.name} cannot be read: there is no such file or folder.")
    files = sorted(file for file in path.rglob(f"*{SUFFIX}") if file.is_file())
    if not files:
        raise FormatError(f"{path.name or path} has no probe file: none of its files ends in {SUFFIX}.")
    return files


def read_probe_file(path: Path, text: str) -> ProbeFile:
    """Parse a probe file.

    Raises:
        FormatError: The text is not a probe file, or has another version.
    """
    try:
        stored = _Stored.model_validate_json(text)
    except ValidationError as error:
        if text.lstrip().startswith("["):
            raise FormatError(
                f"{path.name} is a list of probes. Name their conversation: "
                f'{{"version": {VERSION}, "conversation": "session.zip", "probes": [...]}}.'
            ) from error
        raise FormatError(f"{path.name} is not a probe file ({first_problem(error)}).") from error
    if stored.version != VERSION:
        raise FormatError(
            f"{path.name} has version {stored.version} of probe files, and this release reads version {VERSION}."
            + (" Install a newer release of memory-inspector." if stored.version > VERSION else "")
        )
    if len(stored.probes) > MAX_PROBES:
        raise FormatError(f"{path.name} holds {len(stored.probes):,} probes; {MAX_PROBES} are the most.")
    folder = path.parent
    configuration = folder / stored.configuration if stored.configuration is not None else None
    return ProbeFile(path, folder / stored.conversation, configuration, tuple(stored.probes))
