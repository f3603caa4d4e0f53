"""A block with one running summary of the flushed messages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from pydantic import Field

from memory_core.blocks.base import (
    BaseMemoryBlock,
    Batch,
    Content,
    Imagined,
    Item,
    PendingWrite,
    ReadContext,
    call_pieces,
)
from memory_core.blocks.former_marks import FormerMarks
from memory_core.blocks.nothing_learned import NothingRead, reasons_given, record_reasons, unread_among, without_reason
from memory_core.errors import ModelAnswerError
from memory_core.events import Ref
from memory_core.messages import content_hash, recites_memory
from memory_core.models.protocols import ChatModel, ModelCall, Summariser, model_name
from memory_core.planning.former_values import FormerMark
from memory_core.planning.learning_outcomes import Outcome, Reason, plan_reasons
from memory_core.planning.rendering import marked_text, sentence_parts
from memory_core.planning.running_summary import cut_order, fit, losses, sentences
from memory_core.services import Services
from memory_core.store.block_rows import StoredSummary, read_summary, write_summary
from memory_core.store.message_rows import StoredMessage
from memory_core.store.writing import Writing
from memory_core.tokens import TokenCounter

FEW = 3
"""Minimum number of names, numbers and dates in a summary for refusing a new one that keeps none of them."""


@dataclass(frozen=True, slots=True)
class WrittenSummary:
    """A new text within its token limit, not stored yet."""

    text: str
    shortened: int
    """Tokens left out to stay within the limit."""
    broken: int
    """Number of truncated sentences: those longer than the limit by themselves."""
    reasons: Mapping[int, Reason]
    """Reasons why messages added nothing, by sequence number, as far as the summariser gave any."""
    calls: tuple[ModelCall, ...]


class SummaryMemoryBlock(BaseMemoryBlock[str]):
    """Summary of flushed messages, bounded in size; recent turns stay whole in the queue.

    A delivery reads the former text and the new messages, never older ones. `llm` is a chat model, or any `Summariser`;
    without one the services' default is used.
    """

    kind: ClassVar[str] = "summary"
    kind_is_built_in: ClassVar[bool] = True
    kind_has_text: ClassVar[bool] = True
    kind_in_pieces: ClassVar[bool] = True
    kind_model_calls: ClassVar[int] = 1
    kind_when_removed: ClassVar[str] = "Its text is deleted; the messages it was made of stay in the archive."
    outside: ClassVar[Mapping[str, tuple[Any, ...]]] = {"llm": (ChatModel, Summariser)}

    name: str = "Summary"
    llm: Any = Field(default=None, exclude=True)
    max_tokens: int = Field(default=300, ge=1)
    """Maximum tokens of the text."""
    former_values: Literal["mark", "leave_out", "show"] = "mark"
    """Treatment of sentences that repeat what a fact or relation has replaced since: `mark` them with the present
    value, `leave_out` them, or `show` them as they are."""

    def settings(self) -> dict[str, Any]:
        return super().settings() | {"max_tokens": self.max_tokens, "former_values": self.former_values}

    def learner(self, services: Services) -> str | None:
        return model_name(self.summariser(services))

    def summariser(self, services: Services) -> Summariser:
        """Summariser in use: the block's own, its chat model wrapped as one, or the services' default."""
        if self.llm is None:
            return services.summariser
        if isinstance(self.llm, Summariser):
            return self.llm
        from memory_core.models.summarising import ModelSummariser

        return ModelSummariser(self.llm)

    def read(self, reading: ReadContext, state: str | None) -> Content:
        # Pieces are named by the hash of their words, so two equal sentences would be one piece.
        shown = list(dict.fromkeys(sentences(reading.quarantine.shown(state or ""))))
        marks: dict[str, FormerMark] = {}
        if shown and self.former_values != "show":
            former = FormerMarks.read(reading)
            marks = {one: mark for one in shown if (mark := former.of_sentence(one)) is not None}
        if self.former_values == "leave_out":
            shown, marks = [sentence for sentence in shown if sentence not in marks], {}
        refs = {sentence: Ref.of("text", content_hash(sentence)) for sentence in shown}
        texts = {sentence: marks[sentence].text() if sentence in marks else "" for sentence in shown}
        items = tuple(
            Item(refs[sentence], marked_text(sentence, mark), sentence_parts(sentence, reading.safe, mark))
            for sentence, mark in texts.items()
        )
        return Content(
            items=items,
            cut_order=cut_order(shown, reading.question),
            keep=tuple(shown),
            marks=tuple(mark.as_stored(refs[sentence]) for sentence, mark in marks.items()),
        )

    def imagined(self, batch: Batch, numbers: Iterator[int]) -> Imagined | None:
        summariser, heard, text = self.summariser(batch.services), _heard(batch), batch.state or ""
        if not summariser.offline:
            return None
        read = batch.quarantine.shown(text)
        return Imagined(self, self.write(read, heard, summariser, batch.counter).text if heard else text)

    def prepare_write(self, batch: Batch) -> PendingWrite:
        heard, summariser = _heard(batch), self.summariser(batch.services)
        with batch.database.read() as connection:
            before = read_summary(connection, batch.session_id, self.name)
        # The block was removed meanwhile.
        if before is None:
            return PendingWrite()
        if not heard:
            return NothingRead(self.name, summariser.name, batch)
        # Sentences in quarantine are neither read nor lost: they are kept before the new text until they are released.
        withheld, read = batch.quarantine.held_back(before.text), batch.quarantine.shown(before.text)
        written = self.write(read, heard, summariser, batch.counter)
        if withheld:
            text = before.text if written.text == read else " ".join(filter(None, [*withheld, written.text]))
            written = replace(written, text=text)
        # An unchanged text has taken nothing from any message.
        taken = [message.seq for message in heard if message.seq not in written.reasons]
        outcomes = [Outcome(tuple(taken))] if written.text != before.text else []
        unread = {**unread_among(batch, heard), **written.reasons}
        reasons = plan_reasons([m.seq for m in batch.messages], outcomes, unread, without_reason(summariser))
        return _LearnedSummary(self, before, heard, summariser.name, written, reasons, batch.counter)

    def write(
        self, text: str, messages: Sequence[StoredMessage], summariser: Summariser, counter: TokenCounter
    ) -> WrittenSummary:
        """Summarise `messages` into `text`, or rewrite `text` if there are none; at most `max_tokens`.

        Raises:
            ModelError: the summariser failed, or its answer would have lost the summary.
        """
        shortened = broken = 0
        calls: list[ModelCall] = []
        reasons: dict[int, Reason] = {}
        for piece in call_pieces(messages):
            chat = [message.message for message in piece]
            proposed = summariser.summarise(text, chat, max_tokens=self.max_tokens, count=counter.text)
            calls += proposed.calls
            reasons |= reasons_given(proposed.nothing, piece, {})
            # A model may write more than it was asked for: that is cut here, not refused.
            fitted = fit(_storable(proposed.text), self.max_tokens, counter.text)
            self._check(text, proposed.text, fitted.text, summariser)
            shortened += proposed.shortened + fitted.shortened
            broken += proposed.broken + fitted.broken
            # Each piece is summarised into the result of the one before.
            text = fitted.text
        return WrittenSummary(text, shortened, broken, reasons, tuple(calls))

    def _check(self, before: str, proposed: str, after: str, summariser: Summariser) -> None:
        if not after and (before.strip() or proposed.strip()):
            raise ModelAnswerError(f"{summariser.name} answered with an empty summary. The former summary stays.")
        # All that could be lost. A text that keeps none of it is more likely a failed answer than a summary.
        had = losses(before, "")
        if not summariser.offline and len(had) >= FEW and losses(before, after) == had:
            raise ModelAnswerError(
                f"{summariser.name} answered with a summary that keeps none of the {len(had)} names, numbers and "
                "dates of the former one. The former summary stays."
            )


@dataclass
class _LearnedSummary(PendingWrite):
    """Pending write of a summary block."""

    block: SummaryMemoryBlock
    before: StoredSummary
    heard: Sequence[StoredMessage]
    summariser: str
    written: WrittenSummary
    reasons: Mapping[int, Reason]
    counter: TokenCounter

    def __post_init__(self) -> None:
        self.calls = self.written.calls

    def save(self, w: Writing) -> None:
        """Store the summary.

        Raises:
            ConflictError: the summary was changed since it was read; the next attempt summarises into the new text.
        """
        last = max(self.heard, key=lambda message: message.seq)
        before = self.before
        # A block that is filled from the archive gets old messages after new ones: the position never decreases.
        covered = (last.seq, last.turn) if last.seq > before.covers else (before.covers, before.turn_covered)
        write_summary(
            w,
            before,
            self.written.text,
            summariser=self.summariser,
            covers=covered[0],
            turn_covered=covered[1],
            seqs=[message.seq for message in self.heard],
            max_tokens=self.block.max_tokens,
            count=self.counter.text,
            shortened=self.written.shortened,
            broken=self.written.broken,
        )
        record_reasons(w, self.block.name, self.summariser, self.reasons)


def _heard(batch: Batch) -> list[StoredMessage]:
    """Return the messages to be summarised."""
    # Pinned messages are instructions, and recited memory is summarised already.
    return [m for m in batch.readable if not m.pinned and not recites_memory(m.message)]


def _storable(text: str) -> str:
    """Remove control characters and invalid Unicode from a model's text, which databases cannot store."""
    printable = "".join(character for character in text if character >= " " or character in "\n\t")
    return printable.encode("utf-8", "replace").decode()
