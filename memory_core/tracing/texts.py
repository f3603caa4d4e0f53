"""The versions of a block's text, and its pieces: of a summary each sentence, of any other text the whole. Pure."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from memory_core.blocks.base import stored_item
from memory_core.blocks.static import decode
from memory_core.events import EventRecord, Ranges, Ref, expand
from memory_core.history.slices.block_slice import PastBlock
from memory_core.messages import TextPart, content_hash
from memory_core.planning.running_summary import sentences
from memory_core.text import stems
from memory_core.tracing.matching import Phrase, carries
from memory_core.tracing.stages import by_whom, stage
from memory_core.tracing.values import Stage

MAX_RANGES = 4
"""Ranges of messages that a sentence lists."""


@dataclass(frozen=True, slots=True)
class Version:
    """One text that a block had."""

    revision: int
    text: str
    """Its hash."""
    record: EventRecord
    """What wrote it: `SummaryRewritten`, or `BlockEdited` by a person or an agent."""
    seqs: Ranges = ()
    """Messages that were read for it; none where it was written by hand, or rewritten from its own words."""
    later: Ranges = ()
    """Messages that were read afterwards, and changed nothing."""
    pieces: Mapping[Ref, str] = field(default_factory=dict)
    """Its pieces by the names that prompts give them, in order; empty if the words were erased."""
    known: bool = True
    """Whether its words are still there: of one whose words were erased, nobody can say what it left out."""


def versions(records: Iterable[EventRecord], block: str) -> list[Version]:
    """Every text that a block of this name had, oldest first, without the words."""
    found: list[Version] = []
    for record in records:
        event: Any = record.event
        if event.about != block:
            continue
        if record.kind == "block_edited" and event.after and event.after != event.before:
            found.append(Version(event.revision, event.after, record))
        elif record.kind == "summary_rewritten" and found:
            last = found[-1]
            if last.revision == event.revision and last.record.kind == "block_edited" and last.record.actor == "engine":
                found[-1] = replace(last, record=record, seqs=event.seqs)  # the change of its text precedes it
            else:
                found[-1] = replace(last, later=(*last.later, *event.seqs))
    return found


def pieces_of(kind: str, text: str, stored: str | None) -> dict[Ref, str]:
    """A text's pieces by the names that prompts give them; `text` is the hash of what is stored."""
    words = plain_text(stored)
    if kind == "summary":
        return {Ref.of("text", content_hash(sentence)): sentence for sentence in sentences(words)}
    return {Ref.of("text", text): words} if words else {}


def plain_text(stored: str | None) -> str:
    """Words of a static text or a summary as stored; empty if they were erased."""
    if stored is None:
        return ""
    content = decode(stored)
    return content if isinstance(content, str) else "\n".join(p.text for p in content if isinstance(p, TextPart))


def content_text(ref: Ref, stored: str | None) -> str:
    """Words of a custom block's content as stored; empty if they were erased."""
    return stored_item(ref, stored, lambda text: text).words if stored is not None else ""


def with_words(found: Sequence[Version], kind: str, words: Callable[[str], str | None]) -> list[Version]:
    """The same with their pieces."""
    stored = [(version, words(version.text)) for version in found]
    return [
        replace(
            version,
            pieces=pieces_of(kind, version.text, text),
            known=text is not None or version.text == content_hash(""),  # an empty text is stored nowhere
        )
        for version, text in stored
    ]


def saying(phrase: Phrase, pieces: Mapping[Ref, str]) -> list[Ref]:
    """Pieces that say a phrase, or that say it together; none where the text does not."""
    if not phrase.said_in("\n".join(pieces.values())):
        return []
    alone = [ref for ref, words in pieces.items() if phrase.said_in(words)]
    if alone:
        return alone
    there = {ref: set(stems(words)) for ref, words in pieces.items()}
    parts = [ref for ref, own in there.items() if any(part <= own for part in phrase.sentences)]
    return parts or [max(there, key=lambda ref: len(phrase.stems & there[ref]))]


def carrying(phrase: Phrase, pieces: Mapping[Ref, str], *, all_of_it: bool = False) -> list[Ref]:
    """Pieces that carry a phrase; of a whole message (`all_of_it`) also those that are made of its words."""
    said = saying(phrase, pieces)
    if said or not phrase.stems:
        return said
    there = {ref: frozenset(stems(words)) for ref, words in pieces.items()}
    return [
        ref
        for ref, own in there.items()
        if carries(own, phrase.stems) or (all_of_it and own and carries(phrase.stems, own))
    ]


def came_in(found: Sequence[Version], ref: Ref) -> Version | None:
    """The first version that had a piece."""
    return next((version for version in found if ref in version.pieces), None)


def left_with(found: Sequence[Version], ref: Ref) -> Version | None:
    """The version that left a piece out for the last time; None where the newest has it, or none ever had.

    Versions whose words were erased say nothing.
    """
    found = [version for version in found if version.known]
    place = next((place for place in reversed(range(len(found))) if ref in found[place].pieces), None)
    return found[place + 1] if place is not None and place + 1 < len(found) else None


def made_of(found: Sequence[Version], ref: Ref) -> Iterator[list[int]]:
    """Messages that a sentence can be made of: those read for the version it came in with, then all read before."""
    came = came_in(found, ref)
    if came is None or came.record.kind != "summary_rewritten":
        return  # written by hand, or not known
    if came.seqs:
        yield expand(came.seqs)
    place = found.index(came)
    before = {seq for version in found[:place] for seq in expand((*version.seqs, *version.later))}
    if before:
        yield sorted(before | set(expand(came.seqs)))


def stretch(seqs: Ranges) -> str:
    """`message 7`, or `messages 5 to 8 and 11`; of very many ranges the first."""
    said = [str(first) if first == last else f"{first} to {last}" for first, last in seqs[:MAX_RANGES]]
    if len(seqs) > MAX_RANGES:
        said.append("others")
    noun = "message" if len(seqs) == 1 and seqs[0][0] == seqs[0][1] else "messages"
    return f"{noun} {' and '.join(filter(None, [', '.join(said[:-1]), said[-1]]))}"


# -- stages ----------------------------------------------------------------------------------------


def read_into(block: PastBlock, read: EventRecord) -> Stage:
    """That a summary read a message, and what it read with it."""
    event: Any = read.event
    text = f"Read into {block.name} in turn {read.turn:,}, version {event.revision}, from {stretch(event.seqs)}."
    return stage("learned", "passed", text, read, revision=event.revision)


def written_into(block: PastBlock, found: Sequence[Version], ref: Ref) -> Stage:
    """How a piece came into a text by itself: by hand, or from messages that it does not repeat."""
    came = came_in(found, ref)
    if came is None and block.text != ref.hash:
        return stage("learned", "passed", f"Stood in {block.name}; its words were erased since.", knowledge="observed")
    if came is None:
        text = f"Stands in {block.name}, version {block.revision}."
        return stage("learned", "passed", text, knowledge="observed", revision=block.revision)
    record, turn = came.record, came.record.turn
    if record.kind == "block_edited" and record.actor == "engine":  # it came with the block
        since = f"since turn {turn:,}" if turn else "from the beginning"
        text = f"Stands in {block.name} {since}, version {came.revision}."
    elif record.kind == "block_edited":
        text = f"Written into {block.name} by {by_whom(record)} in turn {turn:,}, version {came.revision}."
    elif came.seqs:
        text = f"Written into {block.name} in turn {turn:,}, version {came.revision}, from {stretch(came.seqs)}."
    else:
        text = f"Written into {block.name} in turn {turn:,}, version {came.revision}, from its own earlier words."
    return stage("learned", "passed", text, record, revision=came.revision)


def kept_in(block: PastBlock, found: Sequence[Version], ref: Ref) -> Stage | None:
    """Whether a text still has a piece: since when, or by which version it was left out or worded otherwise.

    None where no version with the piece is known any more.
    """
    gone, came = left_with(found, ref), came_in(found, ref)
    if came is None:
        return None
    if gone is None:
        newest = next(version for version in reversed(found) if version.known)
        first, last = came.revision, newest.revision
        text = f"Version {last} of {block.name} has its words"
        if first < last and all(ref in version.pieces for version in found[found.index(came) :]):
            text = f"In each version of {block.name} from {first} to {last}"
        elif first < last:
            text = f"{text}, as version {first} had"
        return stage("kept", "passed", f"{text}.", newest.record, knowledge="observed", revision=last)
    before = next(version.pieces for version in reversed(found[: found.index(gone)]) if version.known)
    phrase, new = Phrase.of(before[ref]), [words for each, words in gone.pieces.items() if each not in before]
    instead = next((words for words in new if phrase.carried_by(words)), None)
    if instead is not None:
        text = f'Worded otherwise in turn {gone.record.turn:,}, version {gone.revision} of {block.name}: "{instead}"'
        return stage("kept", "lost", text, gone.record, rule="reworded", knowledge="observed", revision=gone.revision)
    text = f"Left out in turn {gone.record.turn:,}: version {gone.revision} of {block.name} does not have its words."
    return stage("kept", "lost", text, gone.record, rule="left_out", knowledge="observed", revision=gone.revision)
