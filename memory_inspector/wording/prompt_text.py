"""Texts of the Context page: sentences and rows made from a prompt, and the whole prompt. Pure; no Streamlit.

Everything returned is markdown in which quoted words are escaped, unless its docstring says that it is plain text.
"""

import json
from collections.abc import Sequence
from typing import Any

from memory_core.formats.openai_message import to_openai
from memory_core.history.prompt import MARKUP, PART_NAMES, PINNED, RESERVED, Entry, Prompt, PromptCut, PromptPart
from memory_core.messages import ChatMessage, FilePart, ImagePart
from memory_core.planning.context_plan import QUEUE, RESERVED_LABEL
from memory_core.planning.speakers import parse_message
from memory_core.text import listed
from memory_core.tracing.rule_words import CUTS
from memory_inspector.palette import Mode, block_colour
from memory_inspector.wording.block_kinds import TURN, by_score, from_turn, kind_of, score_note
from memory_inspector.wording.event_sentences import KNOWN
from memory_inspector.wording.formatting import count, plain, plural, short, tokens

NAMED_TURNS = 6
"""Maximum number of turns listed by number in one line; beyond it they are counted."""

NAMED_FACTS = 3
FACT_CHARACTERS = 44

QUESTION_CHARACTERS = 300

NOT_WRITTEN = "The agent's own system prompt and its tools. Memory counts their tokens and does not keep their words."

BILL_LABELS = {
    "content": "Content",
    "tool_calls": "Tool calls",
    "markup": "Markup of the memory section",
    "overhead": "Message overhead",
    "reserved": RESERVED_LABEL,
}


def part_name(part: PromptPart) -> str:
    """The display name of a part. Plain text."""
    return part.title if part.kind in PART_NAMES else short(part.title)


def inline_name(part: PromptPart) -> str:
    """The display name of a part within a sentence."""
    return "the queue" if part.kind == QUEUE else plain(part_name(part))


def colour_kind(part: PromptPart) -> str:
    """Block kind that determines the colour; system messages and prompts have none of their own."""
    return "custom" if part.kind in (PINNED, RESERVED) else part.kind


def square(part: PromptPart, mode: Mode) -> str:
    return f':color[■]{{foreground="{block_colour(colour_kind(part), mode)}"}}'


def headline(prompt: Prompt) -> str:
    """The prompt in one sentence: tokens counted, the limit, requested and cut. What is billed: `billed_beside`."""
    built = prompt.built
    # Another program's prompt was observed, so neither a limit nor cuts are known.
    if built.known != "built":
        billed = prompt.call.input_tokens if prompt.call else None
        tools = ", definitions of tools included" if built.reserved_tokens else ""
        counted = f" The endpoint counted {tokens(billed)}{tools}." if billed is not None else ""
        if prompt.call and prompt.call.cached_tokens is not None:
            counted += f" Its cache had {tokens(prompt.call.cached_tokens)} of them."
        return f"**{count(built.total, 'token')} sent**, {KNOWN[built.known]}.{counted}"
    sent = f"**{tokens(built.total)} of {tokens(built.token_limit)} tokens sent.**"
    if not prompt.cuts:
        over = built.over_by
        fitted = f"Everything fitted. {tokens(prompt.free)} {'token was' if prompt.free == 1 else 'tokens were'} free."
        return f"{sent} {'Nothing could be cut.' if over else fitted}"
    (first, cut), *rest = _lost(prompt)
    lost = [f"{tokens(cut)} {'was' if cut == 1 else 'were'} cut from {inline_name(first)}"]
    lost += [f"{tokens(more)} from {inline_name(part)}" for part, more in rest]
    asked = f"Parts asked for {tokens(built.asked)}, {tokens(built.asked - built.token_limit)} over the limit"
    return f"{sent} {asked}, so {listed(lost)}."


def billed_beside(prompt: Prompt) -> str | None:
    """Sentence on what is billed for the prompt beside what the limit counts; None if both are the same."""
    built = prompt.built
    if built.known != "built" or built.billed == built.total:
        return None
    if built.accounting == "billed":
        return f"{tokens(built.billed)} billed: tokens span markup and text."
    return f"{tokens(built.billed)} billed, with {_uncounted(prompt)}, which the limit does not count."


def _uncounted(prompt: Prompt) -> str:
    # Each accounting leaves out something else, and the sentence names only that.
    calls = prompt.built.accounting == "reference" and prompt.tool_call_tokens
    return f"{'tool calls, ' if calls else ''}markup and message overhead"


def _lost(prompt: Prompt) -> list[tuple[PromptPart, int]]:
    """Parts that were cut, with the tokens they lost, in the order of the cuts."""
    refs: dict[str, tuple[PromptPart, int]] = {}
    for cut in prompt.cuts:
        # A block can be cut more than once; the dictionary keeps the order of its first cut.
        refs[cut.part.name] = (cut.part, refs.get(cut.part.name, (cut.part, 0))[1] + cut.tokens)
    return list(refs.values())


def cut_title(number: int, cut: PromptCut) -> str:
    rank = f" · priority {cut.part.priority}" if cut.part.priority else ""
    return f"**{number} {plain(part_name(cut.part))}**{rank}"


def cut_lines(cut: PromptCut) -> list[str]:
    """A cut in words: tokens requested, what was removed by which rule, and how much more than needed."""
    part = cut.part
    # The three lines of a cut: sizes, what went, and how that compares with what was needed.
    return [
        f"asked {tokens(part.asked)}, granted {tokens(part.granted)}",
        f"{_what_went(cut)}, {count(cut.tokens, 'token')}",
        _proportion(cut),
    ]


def _what_went(cut: PromptCut) -> str:
    if cut.rule == "oldest_turns":
        # Entries of the queue are messages; turns are counted by their numbers.
        turns = len({entry.turn for entry in cut.entries})
        return f"{CUTS[cut.rule].removed}: {count(turns, 'turn')}, {count(len(cut.entries), 'message')}"
    rule = CUTS[cut.rule]
    if rule.whole:
        return rule.removed
    kind = kind_of(cut.part.kind)
    if cut.part.kind == "vector":
        pieces = _turns(cut.entries)
    elif kind.quoted:
        pieces = _named(cut.entries, kind.noun)
    else:
        pieces = count(len(cut.entries), kind.noun)
    if not rule.by_priority:
        pieces = f"{rule.removed}, {pieces}"
    return f"{kind.cut}: {pieces}" if kind.cut else pieces


def _turns(entries: Sequence[Entry]) -> str:
    unit = _unit(entries)
    if len(entries) > NAMED_TURNS:
        return count(len(entries), unit)
    return by_score([(from_turn(unit, turn_number(entry)), entry.score) for entry in entries])


def _unit(entries: Sequence[Entry]) -> str:
    """Return the noun for entries of a vector block: `message` if each consists of one message, otherwise `turn`."""
    return "message" if entries and all(len(entry.messages) == 1 for entry in entries) else TURN


def _noun(kind: str, entries: Sequence[Entry]) -> str:
    if kind in (QUEUE, PINNED):
        return "message"
    return _unit(entries) if kind == "vector" else kind_of(kind).noun


def turn_number(entry: Entry) -> str:
    """The conversation turn of an entry."""
    return "?" if entry.turn is None else tokens(entry.turn)


def _named(entries: Sequence[Entry], noun: str) -> str:
    # Erased words cannot be quoted, so fewer may be named than were cut.
    named = [f"“{plain(short(entry.words, FACT_CHARACTERS))}”" for entry in entries if entry.words][:NAMED_FACTS]
    if len(entries) > len(named):
        return count(len(entries), noun) + (f", {', '.join(named)} among them" if named else "")
    return ", ".join(named)


def _proportion(cut: PromptCut) -> str:
    needed = f"{tokens(cut.over_before)} too many; {tokens(cut.tokens)} removed"
    # This cut did not suffice: others followed, or the prompt stayed over.
    if cut.tokens < cut.over_before:
        return f"{needed}: the rest had to come from elsewhere."
    if cut.tokens == cut.over_before:
        return f"{needed}."
    # All other rules cut whole pieces, whose name depends on the block.
    because = CUTS[cut.rule].whole or f"{plural(_noun(cut.part.kind, cut.entries))} are cut whole"
    return f"{needed}, because {because}."


def never_cut(prompt: Prompt) -> str | None:
    """Name the blocks that are never cut; None without one."""
    names = [plain(part_name(part)) for part in prompt.parts if part.priority == 0]
    return f"Never cut: {listed(names)}." if names else None


def cut_next(prompt: Prompt) -> str | None:
    """Name the blocks that would be cut next if more were requested, in order; None without one."""
    # Reversed: the prompt lists parts from never cut to cut first.
    names = [f"{plain(part_name(part))} (priority {part.priority})" for part in reversed(prompt.parts) if part.priority]
    return f"Cut next: {', then '.join(names)}." if names else None


def amount(part: PromptPart) -> str:
    """Format granted tokens: `279 of 335`, or `212` if nothing was cut."""
    return sizes(part.granted, part.asked)


def sizes(granted: int, asked: int) -> str:
    return tokens(granted) + (f" of {tokens(asked)}" if asked > granted else "")


def part_label(part: PromptPart, mode: Mode) -> str:
    """Label of a part's expander: its colour and name, its tokens, its contents."""
    lost = part.asked - part.granted
    notes = [held(part)]
    if part.priority:
        notes.append(f"priority {part.priority}")
    elif part.priority == 0:
        notes.append("never cut")
    cut = f" · :red[cut {tokens(lost)}]" if lost > 0 else ""
    return f"{square(part, mode)} {plain(part_name(part))} **{amount(part)}** :small[:gray[{' · '.join(notes)}]{cut}]"


def held(part: PromptPart) -> str:
    """Number and kind of items a part contributed: `13 messages`."""
    if part.failure is not None:
        return "could not be read"
    if part.kind == RESERVED:
        return "not written by memory"
    if not part.entries:
        return "empty"
    # Of fixed text and summaries, a number of pieces says nothing.
    counted = part.kind in (QUEUE, PINNED, "vector") or kind_of(part.kind).quoted
    return count(len(part.included), _noun(part.kind, part.entries)) if counted else "text"


def number_rows(prompt: Prompt) -> list[dict[str, Any]]:
    """The figure as a table, its last row the sum of the others. Plain text; names as they were typed."""
    built = prompt.built
    rows = []
    for part in prompt.parts:
        is_block = part.kind not in PART_NAMES
        # Names of blocks are the user's; all others are named here.
        rows.append(
            _number_row(
                part.name if is_block else part_name(part),
                "–" if part.priority is None else str(part.priority),
                part.asked,
                part.granted,
                built.token_limit,
            )
        )
    if prompt.around_asked:
        rows.append(_number_row(MARKUP, "–", prompt.around_asked, prompt.around, built.token_limit))
    rows.append(_number_row("Sent", "", built.asked, built.total, built.token_limit))
    # What another program's parts asked for, and its limit, are not known.
    return rows if built.known == "built" else [{name: row[name] for name in ("Part", "Sent")} for row in rows]


def _number_row(name: str, priority: str, asked: int, granted: int, limit: int) -> dict[str, Any]:
    share = _percent(granted, limit)
    return {
        "Part": name,
        "Priority": priority,
        "Requested": asked,
        "Sent": granted,
        "Cut": asked - granted,
        "Of the limit": share,
    }


def bill_rows(prompt: Prompt) -> list[dict[str, Any]]:
    """Counted and billed tokens, line by line; each column adds up to its last row but one. None: not counted."""
    rows: list[dict[str, Any]] = [
        {
            "": BILL_LABELS[line.what],
            # A line that only a provider bills was not counted, which is not the same as 0.
            "Counted": line.counted if line.counted or not line.billed else None,
            "Billed": line.billed,
        }
        for line in prompt.bill
    ]
    rows.append({"": "Total", "Counted": prompt.built.total, "Billed": prompt.built.billed})
    reported = prompt.call.input_tokens if prompt.call else None
    return [*rows, {"": "Reported by provider", "Counted": None, "Billed": reported}]


def bill_sentence(prompt: Prompt) -> str:
    """Explanation of the difference between counted and billed tokens."""
    built = prompt.built
    more = built.billed - built.total
    if built.accounting == "billed":
        return (
            "The limit is compared with what a provider bills; the two differ only where tokens span markup and text."
        )
    kinds = _uncounted(prompt)
    calls = "" if built.accounting == "reference" else ", tool calls included"
    return (
        f"The limit is compared with the content alone{calls}. {kinds[0].upper()}{kinds[1:]} are added: "
        f"{tokens(more)} more, {_percent(more, built.total)} of what was counted."
    )


def tools_sentence(tools: int, size: int) -> str:
    """Note on the tools sent along with the prompt when the agent edits memory."""
    return (
        f"A model that calls tools also receives {count(tools, 'memory tool')}, about {count(size, 'token')}: "
        "they count towards the token limit only as tokens reserved in the settings, but an endpoint bills them."
    )


def same_start_sentence(turn: int, same: int, billed: int, other: int | None, *, in_user: bool) -> str:
    """Sentence on the tokens that a prompt cache can reuse, as sent, and if memory were in the other message.

    `in_user`: the memory section is in the user message now. `other` is None if there is no memory section to move.
    """
    first = (
        f"Prompt cache: **{tokens(same)}** of {count(billed, 'billed token')} ({_percent(same, billed)}) "
        f"can be reused from turn {tokens(turn)}."
    )
    if other is None:
        return first
    place = "system" if in_user else "user"
    return f"{first} With memory in the {place} message instead: {tokens(other)}."


def asked(prompt: Prompt) -> str:
    """The query used to search stored turns, cut to the length that a URL allows. Plain text."""
    # Without an input the block asked with the latest user message of the queue.
    # The queue is the first part of every prompt.
    users = [entry.words for entry in prompt.parts[0].entries if entry.role == "user" and entry.words]
    question = prompt.question or (users[-1] if users else "")
    return " ".join(question.split())[:QUESTION_CHARACTERS]


def entry_words(entry: Entry) -> str:
    """The words of one message or stored turn, as the model reads them. Plain text."""
    if entry.words is None:
        # Words may be erased while the record that names them stays.
        return "(These words have been erased since.)"
    # One message has its speaker in its note; of several, each line names its own.
    if len(entry.messages) > 1:
        lines = [
            f"{_who(message)}: {words}"
            for message in entry.messages
            if (words := _message_words(message.content, message))
        ]
        return "\n".join(lines)
    return entry.words or "(no words)"


def _who(message: ChatMessage) -> str:
    """The speaker's name stored with a message, otherwise the message's role."""
    return parse_message(message).speaker or str(message.role)


def _message_words(content: str | None, message: Any) -> str:
    calls = [f"{call.tool_name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(part for part in [content or "", *calls] if part)


def entry_note(entry: Entry) -> str:
    """A message or a stored turn in short: role, turn, size, score."""
    # A stored turn of several messages has no single speaker.
    alone = entry.messages[0] if entry.ref.kind == "unit" and len(entry.messages) == 1 else None
    who = entry.role or (_who(alone) if alone is not None else None)
    notes = [part for part in (_message_number(entry), who) if part]
    if entry.stands_for:
        notes.append(f"summary in place of {count(entry.stands_for, 'message')}")
    if entry.turn is not None:
        notes.append(f"turn {tokens(entry.turn)}")
    if entry.origin is not None:
        notes.append(f"turn {tokens(entry.origin[1])} of another session")
    notes += _score(entry)
    if entry.tokens is not None:
        notes.append(count(entry.tokens, "token"))
    # Each type of attachment once, however many there are.
    notes += [f"with {kind}" for kind in dict.fromkeys(entry.attached)]
    return plain(" · ".join(notes))


def cut_note(entry: Entry) -> str:
    """A cut entry in short: turn, role, size, score."""
    notes = [] if entry.turn is None else [f"turn {turn_number(entry)}"]
    notes += [plain(entry.role)] if entry.role else []
    return " · ".join([*notes, _cut_size(entry)])


def _cut_size(entry: Entry) -> str:
    notes = ["cut"]
    if entry.tokens is not None:
        notes.append(count(entry.tokens, "token"))
    return ", ".join([*notes, *_score(entry)])


def _score(entry: Entry) -> list[str]:
    """The score of a stored turn, or a note that it is unknown; empty for anything else."""
    return [score_note(entry.score)] if entry.ref.kind == "unit" else []


def _message_number(entry: Entry) -> str:
    return f"message {entry.ref.number}" if entry.ref.kind == "message" else ""


def _percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole) if whole else 0} %"


# -- the whole prompt, for download ----------------------------------------------------------------


def as_text(prompt: Prompt) -> str:
    """All messages in order, each under its role. Plain text."""
    return "\n\n".join(f"[{message.role}]\n{_message_text(message)}" for message in prompt.messages) + "\n"


def _message_text(message: ChatMessage) -> str:
    # Markers in brackets stand for what is not text: attachments and tool calls.
    lines = [message.content or ""]
    lines += [f"[{part.type}: {part.url}]" for part in message.parts if isinstance(part, ImagePart | FilePart)]
    lines += [f"[tool call] {call.tool_name}({call.arguments})" for call in message.tool_calls]
    return "\n".join(line for line in lines if line)


def as_json(prompt: Prompt) -> str:
    """JSON: the messages as a chat endpoint accepts them, with the numbers of the plan that chose them."""
    built = prompt.built
    data: dict[str, Any] = {
        "session": prompt.record.session_id,
        "turn": prompt.turn,
        "built_at": prompt.record.at,
        "tokens": {
            "limit": built.token_limit,
            "asked": built.asked,
            "sent": built.total,
            "billed": built.billed,
            "markup": built.markup_tokens,
            "message_overhead": built.overhead_tokens,
            "over_limit_by": built.over_by,
            "counted_by": built.accounting,
        },
        "insert_method": built.insert_method,
        "parts": [
            {"name": p.name, "kind": p.kind, "priority": p.priority, "asked": p.asked, "granted": p.granted}
            for p in prompt.parts
        ],
        "cuts": [
            {
                "part": cut.part.name,
                "rule": cut.rule,
                "over_before": cut.over_before,
                "tokens": cut.tokens,
                "words": [entry.words for entry in cut.entries],
            }
            for cut in prompt.cuts
        ],
        "messages": to_openai(prompt.messages),
    }
    return json.dumps(data, ensure_ascii=False, indent=2) + "\n"
