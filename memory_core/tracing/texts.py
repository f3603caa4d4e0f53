"""Versions of a block's text and their pieces: sentences of a summary, or any other text as a whole. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core.blocks.base import stored_item
from memory_core.blocks.static import decode
from memory_core.events import EventRecord, Ranges, Ref, expand
from memory_core.history.block_slice import PastBlock, edits_text
from memory_core.messages import TextPart, content_hash
from memory_core.planning.phrase_matching import Phrase, carries
from memory_core.planning.running_summary import sentences
from memory_core.text import stems
from memory_core.tracing.stages import author, in_turn, stage
from memory_core.tracing.values import Stage

MAX_RANGES = 4
"""Maximum message ranges listed for a sentence."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a block's text."""

    revision: int
    text: str
    """Hash of the text."""
    record: EventRecord
    """Event that wrote this version: `SummaryRewritten`, or `BlockEdited` by a person or an agent."""
    seqs: Ranges = ()
    """Messages that the version was written from; empty if written by hand, or from the former text alone."""
    later: Ranges = ()
    """Messages that were read later and did not change the text."""
    pieces: Mapping[Ref, str] = field(default_factory=dict)
    """Pieces by their refs in prompts, in order; empty if erased."""
    readable: bool = True
    """True if the version's text still exists; it is unknown what an erased version left out."""


def versions(records: Iterable[EventRecord]) -> list[Version]:
    """Return all texts of a block, oldest first, without their words; `records`: events that wrote or read them."""
    history: list[Version] = []
    for record in records:
        event: Any = record.event
        if edits_text(event) and event.after is not None:
            history.append(Version(event.revision, event.after, record))
        elif event.family == "summaries" and history:
            last = history[-1]
            if last.revision == event.revision and edits_text(last.record.event) and last.record.actor == "engine":
                history[-1] = replace(last, record=record, seqs=event.seqs)  # the event of its text change came first
            else:
                history[-1] = replace(last, later=(*last.later, *event.seqs))
    return history


def pieces_of(kind: str, text: str, stored: str | None) -> dict[Ref, str]:
    """Return a text's pieces by their refs in prompts; `text` is the hash of the stored value."""
    words = plain_text(stored)
    if kind == "summary":
        return {Ref.of("text", content_hash(sentence)): sentence for sentence in sentences(words)}
    return {Ref.of("text", text): words} if words else {}


def plain_text(stored: str | None) -> str:
    """Return the text of a stored static text or summary; empty if erased."""
    if stored is None:
        return ""
    content = decode(stored)
    return content if isinstance(content, str) else "\n".join(p.text for p in content if isinstance(p, TextPart))


def content_text(ref: Ref, stored: str | None) -> str:
    """Return the text of a custom block's stored content; empty if erased."""
    return stored_item(ref, stored, lambda text: text).words if stored is not None else ""


def with_words(history: Sequence[Version], kind: str, words: Callable[[str], str | None]) -> list[Version]:
    """Return the versions with their pieces."""
    stored = [(version, words(version.text)) for version in history]
    return [
        replace(
            version,
            pieces=pieces_of(kind, version.text, text),
            readable=text is not None or version.text == content_hash(""),  # empty texts are not stored
        )
        for version, text in stored
    ]


def saying(phrase: Phrase, pieces: Mapping[Ref, str]) -> list[Ref]:
    """Return the pieces that say a phrase, alone or together; empty if the text does not."""
    if not phrase.said_in("\n".join(pieces.values())):
        return []
    alone = [ref for ref, words in pieces.items() if phrase.said_in(words)]
    if alone:
        return alone
    stems_of = {ref: set(stems(words)) for ref, words in pieces.items()}
    parts = [ref for ref, present in stems_of.items() if any(part.stems <= present for part in phrase.sentences)]
    # Only the pieces together say it: the one with most of its words represents them.
    return parts or [max(stems_of, key=lambda ref: len(phrase.stems & stems_of[ref]))]


def carrying(phrase: Phrase, pieces: Mapping[Ref, str], *, all_of_it: bool = False) -> list[Ref]:
    """Return the pieces that carry a phrase; of a whole message (`all_of_it`), also those made of its words."""
    literal = saying(phrase, pieces)
    if literal or not phrase.stems:
        return literal
    stems_of = {ref: frozenset(stems(words)) for ref, words in pieces.items()}
    return [
        ref
        for ref, present in stems_of.items()
        if carries(present, phrase.stems) or (all_of_it and present and carries(phrase.stems, present))
    ]


def first_version(history: Sequence[Version], ref: Ref) -> Version | None:
    """Return the first version with a piece."""
    return next((version for version in history if ref in version.pieces), None)


def removed_by(history: Sequence[Version], ref: Ref) -> Version | None:
    """Return the version that last removed a piece; None if the newest has it, or none ever did.

    Erased versions are ignored.
    """
    history = [version for version in history if version.readable]
    place = next((place for place in reversed(range(len(history))) if ref in history[place].pieces), None)
    return history[place + 1] if place is not None and place + 1 < len(history) else None


def possible_sources(history: Sequence[Version], ref: Ref) -> Iterator[list[int]]:
    """Yield possible source messages of a sentence: those read for its first version, then all earlier ones."""
    came = first_version(history, ref)
    if came is None or came.record.event.family != "summaries":
        return  # written by hand, or unknown
    if came.seqs:
        yield expand(came.seqs)
    place = history.index(came)
    before = {seq for version in history[:place] for seq in expand((*version.seqs, *version.later))}
    if before:
        yield sorted(before | set(expand(came.seqs)))


def stretch(seqs: Ranges) -> str:
    """Format ranges: `message 7`, or `messages 5 to 8 and 11`; long lists are abbreviated."""
    ranges = [str(first) if first == last else f"{first} to {last}" for first, last in seqs[:MAX_RANGES]]
    if len(seqs) > MAX_RANGES:
        ranges.append("others")
    noun = "message" if len(seqs) == 1 and seqs[0][0] == seqs[0][1] else "messages"
    return f"{noun} {' and '.join(filter(None, [', '.join(ranges[:-1]), ranges[-1]]))}"


# -- stages ----------------------------------------------------------------------------------------


def read_into(block: PastBlock, read: EventRecord) -> Stage:
    """Return the stage of a message that a summary read, with others."""
    event: Any = read.event
    text = f"Read into {block.name} {in_turn(read)}, version {event.revision}, from {stretch(event.seqs)}."
    return stage("learned", "passed", text, read, revision=event.revision)


def written_into(block: PastBlock, history: Sequence[Version], ref: Ref) -> Stage:
    """Return the stage of a piece without a source message: written by hand, or worded unlike the messages."""
    came = first_version(history, ref)
    if came is None and block.text != ref.hash:
        return stage("learned", "passed", f"Was in {block.name}; its text has been erased since.", knowledge="observed")
    if came is None:
        text = f"In {block.name}, version {block.revision}."
        return stage("learned", "passed", text, knowledge="observed", revision=block.revision)
    record, turn = came.record, came.record.turn
    if edits_text(record.event) and record.actor == "engine":  # it came with the block
        since = f"since turn {turn:,}" if turn else "from the beginning"
        text = f"In {block.name} {since}, version {came.revision}."
    elif edits_text(record.event):
        text = f"Written into {block.name} by {author(record)} {in_turn(record)}, version {came.revision}."
    elif came.seqs:
        text = f"Written into {block.name} {in_turn(record)}, version {came.revision}, from {stretch(came.seqs)}."
    else:
        text = f"Written into {block.name} {in_turn(record)}, version {came.revision}, from its own earlier text."
    return stage("learned", "passed", text, record, revision=came.revision)


def kept_in(block: PastBlock, history: Sequence[Version], ref: Ref) -> Stage | None:
    """Return the stage saying since when a text has a piece, or which version dropped or reworded it.

    None if all versions with the piece were erased.
    """
    gone, came = removed_by(history, ref), first_version(history, ref)
    if came is None:
        return None
    if gone is None:
        newest = next(version for version in reversed(history) if version.readable)
        first, last = came.revision, newest.revision
        text = f"Version {last} of {block.name} has its words"
        if first < last and all(ref in version.pieces for version in history[history.index(came) :]):
            text = f"In each version of {block.name} from {first} to {last}"
        elif first < last:
            text = f"{text}, as version {first} had"
        return stage("kept", "passed", f"{text}.", newest.record, knowledge="observed", revision=last)
    before = next(version.pieces for version in reversed(history[: history.index(gone)]) if version.readable)
    phrase, new = Phrase.of(before[ref]), [words for piece, words in gone.pieces.items() if piece not in before]
    # A new piece with most of the words says the same in another wording.
    instead = next((words for words in new if phrase.carried_by(words)), None)
    if instead is not None:
        text = f'Reworded {in_turn(gone.record)}, version {gone.revision} of {block.name}: "{instead}"'
        return stage("kept", "lost", text, gone.record, rule="reworded", knowledge="observed", revision=gone.revision)
    text = f"Left out {in_turn(gone.record)}: version {gone.revision} of {block.name} does not have its words."
    return stage("kept", "lost", text, gone.record, rule="left_out", knowledge="observed", revision=gone.revision)
