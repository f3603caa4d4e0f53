"""Recognise the prompt after an agent's compaction: a text stands in place of earlier messages. Pure.

Seen 2026-11-29 in Claude Code 2.1.332, Codex 0.171.0, Gemini CLI 0.61.0, Qwen Code 0.24.4, OpenCode 1.18.33 and pi
0.73.1: a call asks for the summary, and the next prompt holds its words. Of a prompt that merely left messages out, as
a sliding window does, nothing is claimed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher

from memory_core.messages import ChatMessage, MessageRole

SUMMARISE = "summarise"
"""Purpose of a call that asks for a summary, as in `ModelCalled`."""
MAX_SUMMARIES = 4
"""Number of recent summaries that a prompt may hold in place of earlier messages."""
READ_CHARACTERS = 8_000
"""Characters at each end of a text in which a request for a summary is looked for."""
OPENING_CHARACTERS = 400
"""Characters at the beginning of a text that says of itself that it is a summary."""
LEAST_CHARACTERS = 8
"""Shorter lines of a summary say nothing: any text may hold them."""
LEAST_GONE = 3
"""Least messages that a text stands for, where only the place of the text shows it."""

_SUMMARY = re.compile(
    r"(?<![/\\])(?:summar|condens|compact|distil|checkpoint|snapshot|hand-?off)|<overview>|continued from",
    re.IGNORECASE,
)
"""Words of a summary's introduction, where they begin no folder's name."""
_ASKS = re.compile(
    r"\b(?:create|write|produce|generate|provide|prepare|perform\w*|give)\b[^.\n]{0,80}"
    r"(?:summar|snapshot|checkpoint|hand-?off)"
    r"|\bsummari[sz]es?\b|\b(?:condens|distil)\w*|\bcompact(?:ion|ing|s)?\b",
    re.IGNORECASE,
)
_OF_A_TALK = re.compile(
    r"\b(conversation|history|context|session|chat|transcript|dialog(ue)?)\b|so far|state_snapshot"
    r"|(another|other) (language )?(llm|model|agent)",
    re.IGNORECASE,
)
_ASIDE = re.compile(r"<analysis>.*?</analysis>|</?[\w-]+>", re.DOTALL)
"""Parts of an answer that an agent takes off to make it its summary: the draft before it, and tags."""


def is_about_summary(text: str) -> bool:
    """Return whether a text speaks of the summary of a conversation, as the introduction of one does."""
    return bool(_SUMMARY.search(text) and _OF_A_TALK.search(text))


def asks_for_summary(prompt: Sequence[ChatMessage]) -> bool:
    """Return whether the last message of a prompt asks for a summary of the conversation."""
    if not prompt or prompt[-1].role is not MessageRole.USER:
        return False
    text = prompt[-1].content or ""
    ends = text if len(text) <= 2 * READ_CHARACTERS else text[:READ_CHARACTERS] + text[-READ_CHARACTERS:]
    return bool(_ASKS.search(ends) and _OF_A_TALK.search(ends))


def holds_summary(text: str, summary: str) -> bool:
    """Return whether a text holds the words of a summary: its lines, without tags and what was drafted before it."""
    lines = [" ".join(line.split()) for line in _ASIDE.sub("\n", summary).splitlines()]
    lines = [line for line in lines if len(line) >= LEAST_CHARACTERS]
    whole = " ".join(_ASIDE.sub(" ", text).split())
    return 2 * sum(len(line) for line in lines if line in whole) > sum(map(len, lines))


def summaries_in(
    former: Sequence[int],
    prompt: Mapping[int, ChatMessage],
    by_seq: Mapping[int, ChatMessage],
    summaries: Iterable[str],
    *,
    reported: bool = False,
) -> list[int]:
    """Return the messages that a prompt has in place of what it left out of the former one; none: it has no such text.

    `former` and `prompt`: the messages of both in order, by sequence number; `by_seq` has those that the prompt left
    out, and `summaries` are answers to requests for one. `reported`: the agent said that it compacted the prompt.
    """
    if asks_for_summary(messages := list(prompt.values())):
        return []
    front = next((n for n, message in enumerate(messages) if message.role is not MessageRole.SYSTEM), len(messages))
    fresh = [
        (n, seq, message.content or "")
        for n, (seq, message) in enumerate(prompt.items())
        if seq not in former and n >= front and message.role is not MessageRole.TOOL
    ]
    written = list(summaries)
    if holding := [seq for _, seq, text in fresh if any(holds_summary(text, summary) for summary in written)]:
        return holding
    places = list(prompt)
    last = max((n for n, seq in enumerate(places) if seq in former), default=-1)
    roles = {message.role for message in by_seq.values()}
    if not reported and (last < 0 or not {MessageRole.USER, MessageRole.ASSISTANT} <= roles):
        return []
    # A text that introduces itself as a summary. As the last message it may be a request for one, and so it may be
    # behind the former prompt's end: it stands for nothing there.
    end = places.index(former[-1]) if former[-1] in prompt else len(places) - 1
    if about := [seq for n, seq, text in fresh if n < end and is_about_summary(text[:OPENING_CHARACTERS])]:
        return about
    # The agent said so: what is new before the last known message stands for the rest.
    if reported:
        return [seq for n, seq, _ in fresh if n < last]
    return _standing_between(former, places, {seq: by_seq.get(seq, prompt.get(seq)) for seq in {*by_seq, *prompt}})


def _standing_between(former: Sequence[int], places: list[int], by_seq: Mapping[int, ChatMessage | None]) -> list[int]:
    """Return the new texts that stand in a former prompt for a stretch of it, with the former's end behind them."""
    if former[-1] not in places:
        return []
    for kind, start, end, place, until in SequenceMatcher(None, former, places, autojunk=False).get_opcodes():
        gone, new = (
            [message for seq in part if (message := by_seq.get(seq))]
            for part in (former[start:end], places[place:until])
        )
        if kind == "replace" and until < len(places) and len(gone) >= max(LEAST_GONE, len(new) + 1):
            texts = "\n".join(message.content or "" for message in new if message.role is not MessageRole.TOOL)
            # Messages that were joined into one are still there.
            joined = sum((message.content or "") in texts for message in gone)
            if texts and 2 * joined < len(gone):
                return places[place:until]
    return []
