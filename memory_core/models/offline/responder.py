"""Answer from memory without a model: quote one or two sentences of the prompt, or say that none answers. Pure."""

import re
import time
from collections.abc import Iterator, Sequence

from memory_core.errors import ModelRequestError
from memory_core.messages import ChatMessage, MessageRole, ToolCallPart
from memory_core.models.offline.fact_extraction import facts_in
from memory_core.models.offline.grammar import MONTH, NUMBER, WEEKDAY, pattern, strip_lead_in
from memory_core.models.offline.sentences import sentences
from memory_core.models.offline.tool_calls import MEMORY, reply_about_tool_calls, tool_calls
from memory_core.models.protocols import Answer, ModelCall, ToolSpec
from memory_core.text import similarity, stems

NAME = "Offline: rules, not a language model"
MANY_CHARACTERS = 100_000
"""Maximum characters that are read of one message or memory section; nobody types more."""

_NO_EVIDENCE = pattern(r"(?m)^.*<former>.*$|<message role='(?!user')\w+'>(?s:.*?)</message>")
"""Former values, and what others than the user said."""
_QUESTION = pattern(
    r"(?i)(?:wh(?:at|ich|om?|ose|en|ere|y)(?:'s)?|how|is|are|am|was|were|do|does|did|can|could|will|would|should|has|"
    r"have|any|tell me|remind me)\b"
)
_SELF = pattern(r"\b(?:do|am|did|have|can|should|was|will|would) I\b|\b(?:about me|my)\b")
_FIRST = pattern(r"(?i)\b(?:I|my|me|we|our|us|mine|the user)\b")
_NAME = pattern(r"(?<!^)(?<![.!?] )\b[A-ZÀ-Þ][\w'’-]+")
_WHEN = pattern(r"(?i)\b(?:when|(?:what|which) (?:date|day|time)|how soon)\b")
_DATED = pattern(rf"\b(?:{MONTH}|{WEEKDAY}|\d{{4}}|\d\d?[:.]\d\d|\d\d? ?[ap]\.?m|tomorrow|tonight|noon|midnight)\b")
_AMOUNT = pattern(r"(?i)\bhow (?:much|many|old|long|big)\b")
_EMPTY = pattern(
    r"(?i)\b(?:know|remember|tell|say|said|told|remind|anything|something|again|please|much|many)\b|"
    r"\b(?:before|until|while|because|since|so) (?:I|we|you|he|she|they)\b.*"
)
"""Words of a question that no answer needs to repeat: those of asking, and its occasion ("before I fix the menu")."""
_GROUPS = (
    "budget spend cost price money limit afford pay expens",
    "eat food diet vegetarian vegan allerg meal dish menu meat",
    "live home hous address move",
    "work job employ compani profess",
)
_SAME = {stem: group.split()[0] for group in _GROUPS for stem in group.split()}
"""Stems that count as one when a question is matched, by the first of them."""


class OfflineResponder:
    """Responder that answers from the memory section and the recent messages, without a language model."""

    name = NAME
    offline = True

    def stream(self, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()) -> "OfflineStream":
        """Start a reply; with `tools` offered and something to write down or look up, it consists of tool calls."""
        started = time.monotonic()
        calls = tool_calls(messages, tools) if tools else ()
        return OfflineStream("" if calls else compose_reply(messages), started, calls)

    def ask(self, messages: Sequence[ChatMessage], answer: type[Answer], *, purpose: str) -> tuple[Answer, ModelCall]:
        """Raise `ModelRequestError`: a structured answer is not possible by rules."""
        raise ModelRequestError("Structured answers need a language model. Set OPENAI_API_KEY or OPENAI_BASE_URL.")


class OfflineStream:
    """Stream of one reply's words."""

    def __init__(self, text: str, started: float, calls: tuple[ToolCallPart, ...]) -> None:
        self.call: ModelCall | None = None
        self.tool_calls: tuple[ToolCallPart, ...] = ()
        self._text, self._started, self._calls, self._closed = text, started, calls, False

    def close(self) -> None:
        self._closed = True

    def __iter__(self) -> Iterator[str]:
        for match in re.finditer(r"\S+\s*", self._text):
            if self._closed:
                return
            yield match.group()
        # Only after the last word, as for a model: a stopped reply makes no calls.
        self.tool_calls = self._calls
        self.call = ModelCall("reply", NAME, None, None, time.monotonic() - self._started)


def compose_reply(messages: Sequence[ChatMessage]) -> str:
    """Return the reply to the last user message; after tool calls, a reply about their results."""
    if reported := reply_about_tool_calls(messages):
        return reported
    question, evidence, stated = _read(messages)
    if question is not None:
        if chosen := _choose(question, evidence):
            return f"From memory: {_quoted(chosen)}"
        return "I don't know. Nothing in memory answers that."
    if learned := [fact.text for fact in facts_in(stated)]:
        return f"Noted: {_quoted(learned[:3])}"
    return "Without a language model, I only answer questions, from memory."


def answering(messages: Sequence[ChatMessage]) -> list[str]:
    """Return the user's sentences that answer the last user message, by the rules of a reply."""
    question, evidence, _ = _read(messages)
    return [] if question is None else _choose(question, evidence)


def _read(messages: Sequence[ChatMessage]) -> tuple[str | None, list[str], str]:
    """Return the question asked last, the sentences that may answer it, newest last, and the last message's text."""
    evidence: list[str] = []
    question, last = None, ""
    for message in messages:
        text = (message.content or "") if message.role in (MessageRole.SYSTEM, MessageRole.USER) else ""
        # Memory goes to the front, since what is said in the same message is newer.
        for section in MEMORY.finditer(text):
            pieces = re.split(r"<[^>]*>|\n", _NO_EVIDENCE.sub("", section[1][-MANY_CHARACTERS:]))
            evidence[:0] = [sentence for piece in pieces for sentence in sentences(piece)]
        if message.role is MessageRole.USER:
            last = MEMORY.sub("", text)[:MANY_CHARACTERS]
            stated = list(sentences(last))
            question = next(filter(_asks, reversed(stated)), None)
            evidence += stated
    # An earlier question would match a repeated one best, and answers nothing.
    return question, [sentence for sentence in evidence[-2000:] if not _asks(sentence)], last


def _asks(sentence: str) -> bool:
    return sentence.rstrip("\"”') ").endswith("?") or bool(_QUESTION.match(strip_lead_in(sentence)))


def _choose(question: str, evidence: Sequence[str]) -> list[str]:
    """Return the one or two sentences that hold most of the question's words; none if half of them are lacking."""
    terms, names = _bag(_EMPTY.sub("", question)), _bag(" ".join(_NAME.findall(question)))
    about_self = bool(_SELF.search(question)) and not names
    kinds = [answer for asked, answer in ((_WHEN, _DATED), (_AMOUNT, NUMBER)) if asked.search(question)]
    scored = []
    for sentence in evidence:
        bag = _bag(sentence)
        fits = all(kind.search(sentence) for kind in kinds) and (not names or names & bag)
        if fits and (not about_self or _FIRST.search(sentence)):
            scored.append((len(terms & bag) / len(terms) if terms else float(about_self), sentence))
    best = max((share for share, _ in scored), default=0.0)
    # Of equals the newest first, as it is more current.
    newest = [sentence for share, sentence in reversed(scored) if share == best > 0.5]
    return newest[:1] + [sentence for sentence in newest if similarity(sentence, newest[0]) < 0.5][:1]


def _bag(text: str) -> set[str]:
    return {_SAME.get(stem, stem) for stem in stems(text)}


def _quoted(texts: Sequence[str]) -> str:
    return "; ".join(f"“{text.strip(' .')}”" for text in texts) + "."
