"""Answer from memory without a model: quote one or two sentences of the prompt, or say that none answers. Pure.

Where tools are offered, it edits its blocks and searches by calling them, each at most once a turn; nothing is written
that the block already says.
"""

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from memory_core.errors import ModelRequestError
from memory_core.messages import ChatMessage, MessageRole, ToolCallPart
from memory_core.models.deciding import RuleDecider
from memory_core.models.offline.fact_extraction import RuleExtractor, facts_in, slot_in
from memory_core.models.offline.grammar import MONTH, NUMBER, WEEKDAY, pattern, strip_lead_in
from memory_core.models.offline.sentences import sentences
from memory_core.models.protocols import Answer, ExtractedFact, FactCandidate, ModelCall, Proposal, ToolSpec
from memory_core.planning.fact_merging import KnownFact, plan_additions
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


# -- calls of tools --------------------------------------------------------------------------------


MEMORY = pattern(r"<memory>\n?(.*?)\n?</memory>\n?", re.DOTALL)
"""The memory section of a context."""

MAX_FACTS = 8
"""Maximum facts written down from one message."""

_APPEND, _REPLACE = "core_memory_append", "core_memory_replace"
_ARCHIVE, _LOOK_UP, _SEARCH = "archival_memory_insert", "archival_memory_search", "conversation_search"
_HUMAN = pattern(r"\b(?:human|user|person|about (?:you|me|the user))\b", re.IGNORECASE)
_ABOUT_USER = pattern(r"\bwhat you know about\b|\babout the (?:user|human|person)\b", re.IGNORECASE)
_FOR_LATER = pattern(
    r"\s*(?:please )?(?:(?:remember|keep|save|note)(?: this| that)? for later|archive(?: this| that)?)\s*[:,–-]?\s+"
    r"(?P<what>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
_ASKED = (
    (_LOOK_UP, r"(?:please )?(?:search|look in|check) (?:your|the|my) archives? (?:for|about) (?P<what>.+)"),
    (_LOOK_UP, r"what (?:is|do you have|did you keep) in (?:your|the) archives? (?:on|about) (?P<what>.+)"),
    (_SEARCH, r"(?:please )?search (?:our|the|this) (?:conversation|chat) (?:for|about) (?P<what>.+)"),
    (_SEARCH, r"what (?:did|have) (?:I|we) (?:say|said|tell you|told you|talk|talked) about (?P<what>.+)"),
)
_FOUND = pattern(r"- Turn (?P<turn>\d+), (?P<role>user|assistant): (?P<words>.+)")


def tool_calls(messages: Sequence[ChatMessage], tools: Sequence[ToolSpec]) -> tuple[ToolCallPart, ...]:
    """Return tool calls for what the last user message asks to note or look up; none once tools have answered."""
    offered = {tool.name: tool for tool in tools}
    users = [index for index, message in enumerate(messages) if message.role is MessageRole.USER]
    # A result after the request means that the calls were made: a second round would repeat them.
    if not users or any(message.role is MessageRole.TOOL for message in messages[users[-1] :]):
        return ()
    # The memory section may be in the same message, and is not what the user asks.
    request = MEMORY.sub("", messages[users[-1]].content or "")
    if _ARCHIVE in offered and (later := _FOR_LATER.fullmatch(request)):
        return (_call(_ARCHIVE, content=later["what"].strip()),)
    for name, asking in _ASKED:
        if name in offered and (asked := re.fullmatch(asking, request.strip(" ?.!\n"), re.IGNORECASE)):
            return (_call(name, query=asked["what"].strip()),)
    if _APPEND in offered:
        return _edits(request, _block(offered[_APPEND], messages), _REPLACE in offered)
    return ()


def reply_about_tool_calls(messages: Sequence[ChatMessage]) -> str | None:
    """Return a reply about the tools called since the last user message; None if there is nothing to report."""
    users = [index for index, message in enumerate(messages) if message.role is MessageRole.USER]
    turn = messages[users[-1] :] if users else ()
    calls = {call.tool_call_id: call for message in turn for call in message.tool_calls}
    lines = []
    for message in turn:
        call = calls.get(message.tool_call_id) if message.role is MessageRole.TOOL else None
        if call is None:
            continue
        result = message.content or ""
        if message.additional_kwargs.get("is_error"):
            lines.append(f"I could not write that down: {result}")
        elif call.tool_name == _SEARCH:
            lines.append(_found_in_conversation(result))
        elif call.tool_name == _LOOK_UP:
            entries = [line.removeprefix("- ") for line in result.splitlines()[1:]]
            lines.append(f"In my archive: {'; '.join(entries)}." if entries else "My archive has nothing about that.")
        elif call.tool_name == _ARCHIVE and isinstance(call.tool_kwargs, dict):
            lines.append(f"Archived for later: {str(call.tool_kwargs.get('content', '')).rstrip('. ')}.")
    return " ".join(lines) or None


@dataclass(frozen=True, slots=True)
class _ToolBlock:
    label: str
    lines: tuple[str, ...]


def _block(append: ToolSpec, messages: Iterable[ChatMessage]) -> _ToolBlock | None:
    """Return the block about the user, else the first that may be edited, with its lines as the context shows them."""
    labels = [str(label) for label in append.parameters["properties"]["label"].get("enum", ())]
    listed = append.description.splitlines()
    about = {label: next((line for line in listed if line.startswith(f"- {label}")), "") for label in labels}
    # Chosen by its label, else by its description, else the first: an agent's blocks may have any names.
    named = [label for label in labels if _HUMAN.search(label)]
    described = [label for label in labels if _ABOUT_USER.search(about[label])]
    chosen = next(iter([*named, *described, *labels]), None)
    return _ToolBlock(chosen, _lines(chosen, messages)) if chosen is not None else None


def _lines(label: str, messages: Iterable[ChatMessage]) -> tuple[str, ...]:
    element = pattern(rf"<{re.escape(label)}>\n(.*?)\n</{re.escape(label)}>", re.DOTALL)
    for message in messages:
        # The block's lines are read from the prompt, as the rules have no other access to it.
        for section in MEMORY.finditer(message.content or ""):
            if match := element.search(section[1]):
                return tuple(line for line in match[1].splitlines() if line.strip())
    return ()


def _edits(request: str, block: _ToolBlock | None, replacing: bool) -> tuple[ToolCallPart, ...]:
    """Return the edits: one call for each line with an outdated value, and one call that appends everything else."""
    if block is None:
        return ()
    message = ChatMessage(role=MessageRole.USER, content=request)
    facts = list(islice(RuleExtractor().extract([message], known=block.lines).facts, MAX_FACTS))
    lines = [KnownFact(place, line, slot_in(line)) for place, line in enumerate(block.lines)]
    plan = plan_additions(lines, facts)
    calls: list[ToolCallPart] = []
    new: list[str] = []
    gone: set[int] = set()
    for addition in plan.add:
        fact = facts[addition.index]
        # A known slot shows which lines are outdated; `_outdated` finds other changes.
        old = [*addition.conflicts_with, *_outdated(fact, lines)] if replacing else []
        # A line is replaced once, and only if its text is unique: the tool refuses an ambiguous one.
        place = next((place for place in old if place not in gone and _once(block.lines, place)), None)
        if place is None:
            new.append(fact.text)
        else:
            gone.add(place)
            calls.append(_call(_REPLACE, label=block.label, old_content=block.lines[place], new_content=fact.text))
    if new:
        calls.append(_call(_APPEND, label=block.label, content="\n".join(new)))
    return tuple(calls)


def _outdated(fact: ExtractedFact, lines: Sequence[KnownFact]) -> list[int]:
    """Return the index of the line that the fact changes or ends, by the rules for facts; empty if there is none."""
    near = [FactCandidate(line.id, line.text, similarity(line.text, fact.text), line.slot) for line in lines]
    near = sorted((c for c in near if c.similarity > 0), key=lambda c: -c.similarity)[:5]
    (decision,) = RuleDecider().decide([Proposal(fact, tuple(near))]).decisions
    return [decision.target] if decision.act in ("update", "delete") and decision.target is not None else []


def _once(lines: Sequence[str], place: int) -> bool:
    """Return whether the line's text occurs exactly once in the block, without escapes."""
    # Escaped text differs from what the block holds, so the tool would not find it.
    return "&lt;" not in lines[place] and "\n".join(lines).count(lines[place]) == 1


def _found_in_conversation(result: str) -> str:
    matches = [match for line in result.splitlines() if (match := _FOUND.fullmatch(line))]
    # The user asks what they said; the assistant's messages count only if none of the user's match.
    theirs = [match for match in matches if match["role"] == "user"]
    results = [
        f"in turn {match['turn']} {'you' if theirs else 'I'} said “{match['words'].rstrip(' .')}”"
        for match in theirs or matches
    ]
    if not results:
        return "I searched our conversation and found nothing about that."
    return f"I searched our conversation: {'; '.join(results[:3])}."


def _call(name: str, **arguments: str) -> ToolCallPart:
    return ToolCallPart(tool_name=name, tool_kwargs=arguments)
