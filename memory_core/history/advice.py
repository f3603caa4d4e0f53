"""Warnings about a prompt, in words. Pure.

Most of them say what happened, its size in tokens and a remedy.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from memory_core.blocks import BUILT_IN
from memory_core.history.prompt import PART_NAMES, Prompt, PromptCut
from memory_core.text import listed

Rule = Literal["over_limit", "dropped_whole", "unreadable", "degraded", "erased", "neutralised"]

OUT_OF_PROPORTION = 2
"""Report a block dropped whole if it freed more than this many times the tokens needed."""


@dataclass(frozen=True, slots=True)
class Remark:
    """Warning, with the block it concerns."""

    rule: Rule
    text: str
    """Plain text; it may contain block names and a block's error message."""
    block: str | None = None


def remarks(prompt: Prompt, *, named: Callable[[str], str] = str) -> tuple[Remark, ...]:
    """Warnings about a prompt, most severe first. `named` formats the name of a block."""
    return (
        *_over_limit(prompt, named),
        *(remark for cut in prompt.cuts for remark in _dropped(cut, named)),
        *_unreadable(prompt, named),
        *_words(prompt),
    )


def _over_limit(prompt: Prompt, named: Callable[[str], str]) -> Iterator[Remark]:
    built = prompt.built
    if not built.over_by:
        return
    # Only parts that are never cut leave a prompt over the limit: these, and the queue or its newest turn.
    never = [part for part in prompt.parts if part.priority == 0 and part.granted]
    names = [PART_NAMES.get(part.kind) or named(part.name) for part in never]
    blocks = [named(part.name) for part in never if part.kind not in PART_NAMES]
    needed = sum(part.granted for part in never)
    if needed > built.token_limit:
        verb = "exceeds" if len(never) == 1 else "exceed"
        alone = f"{listed(names)} (priority 0) alone {verb} the limit by {needed - built.token_limit:,}"
    elif names:
        alone = f"{listed(names)} (priority 0) and the queue alone need it, and neither is ever cut"
    else:
        alone = "The newest turn alone needs it, and it is never cut"
    sent = f"Sent {built.total:,} of {built.token_limit:,}: {built.over_by:,} over."
    yield Remark("over_limit", f"{sent} {alone}. Raise the limit or shorten {listed(blocks) or 'the messages'}.")


def _dropped(cut: PromptCut, named: Callable[[str], str]) -> Iterator[Remark]:
    # A drop of about the size that was needed is no waste.
    if cut.rule != "dropped" or cut.tokens <= OUT_OF_PROPORTION * cut.over_before:
        return
    name, kind = named(cut.part.name), BUILT_IN.get(cut.part.kind)
    # Only a setting drops a block with pieces whole; a text cannot be cut in part.
    if cut.part.truncation == "drop" and kind is not None and kind.kind_in_pieces:
        end = f"{name} is dropped whole; trim instead?"
    else:
        end = f"{name} can only be cut whole. Shorten it, or give it a priority that is cut later."
    yield Remark("dropped_whole", f"{cut.over_before:,} tokens over, {cut.tokens:,} removed: {end}", cut.part.name)


def _unreadable(prompt: Prompt, named: Callable[[str], str]) -> Iterator[Remark]:
    for part in prompt.parts:
        if part.failure is not None:
            what = f"{named(part.name)} could not be read, and the prompt went out without it: {part.failure}"
            yield Remark("unreadable", what, part.name)
    for part in prompt.parts:
        if part.degraded is not None:
            yield Remark("degraded", f"{named(part.name)}: {part.degraded}", part.name)


def _words(prompt: Prompt) -> Iterator[Remark]:
    if count := len(prompt.missing):
        texts = "1 text of this prompt was" if count == 1 else f"{count:,} texts of this prompt were"
        yield Remark("erased", f"{texts} erased since, and cannot be shown.")
    if count := prompt.built.neutralised:
        texts = "1 text" if count == 1 else f"{count:,} texts"
        yield Remark("neutralised", f"In {texts}, words that posed as memory's own markup were made harmless.")
