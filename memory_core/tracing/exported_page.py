"""A page of some turns as a standalone HTML file, with keys masked and optionally words replaced.

Conversations are untrusted: their text is in one JSON block, escaped so that nothing can end it, and the script inserts
it as text only. The content security policy allows the page's own script and style, by hash, and no requests.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from memory_core.blocks import BUILT_IN
from memory_core.engine.session import Session
from memory_core.history.by_turn import History, TurnRecord
from memory_core.history.message_slice import adds_message
from memory_core.history.prompt import PART_NAMES, Entry, Prompt, PromptPart, remarks
from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.planning.speakers import parse_message
from memory_core.sessions.handle import SessionHandle, SessionLog
from memory_core.tracing.replacements import Replacements, mask_keys
from memory_core.tracing.rule_words import CUTS
from memory_core.tracing.values import Stage, Trace, Track
from memory_core.tracing.watched import presence_in
from memory_core.tracing.words import KNOWLEDGE, STAGES, VERDICTS, brief, carrier_name, matched, prompt_of

if TYPE_CHECKING:
    from jinja2 import Environment


MAX_CHARACTERS = 20_000
"""Maximum characters of a text; longer ones, such as tool output, are truncated."""

MAX_TRACKS = 6
"""Maximum tracks per turn: those that came furthest; the rest is only counted."""

ERASED = "(These words have been erased since.)"

_KINDS = {*PART_NAMES, *BUILT_IN}
_ROLES = {str(role) for role in MessageRole}


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """A turn as exported."""

    record: TurnRecord
    messages: tuple[tuple[str, str | None], ...]
    """Role and text of each message in order; None if erased."""
    prompt: Prompt | None
    """Last prompt of the turn; None without one."""
    trace: Trace | None = None


def contents(title: str, turns: Sequence[ShownTurn], *, start: int | None = None) -> dict[str, Any]:
    """Build a page's value. `start`: turn to open at; default: the last."""
    writing = _PageWriting()
    shown = [writing.turn(turn) for turn in turns]
    places = [place for place, turn in enumerate(turns) if turn.record.turn == start]
    asked = next((turn.trace.asked for turn in turns if turn.trace is not None), None)
    return {
        "title": writing.text(title),
        "asked": None if asked is None else writing.text(asked),
        "words": {
            "stages": dict(STAGES),
            "verdicts": dict(VERDICTS),
            "knowledge": dict(KNOWLEDGE),
            "cuts": {code: rule.removed for code, rule in CUTS.items()},
        },
        "start": places[0] if places else len(turns) - 1,
        "turns": shown,
        "entries": writing.entries.values,
        "stages": writing.stages.values,
        "texts": writing.texts.values,
    }


@dataclass(slots=True)
class _Numbered:
    """Interned values, referenced by index."""

    values: list[Any] = field(default_factory=list)
    _places: dict[str, int] = field(default_factory=dict)

    def place(self, value: Any) -> int:
        # A list cannot be a key. Each table holds values of one type, so a text is never taken for a list.
        key = value if isinstance(value, str) else json.dumps(value)
        if key not in self._places:
            self._places[key] = len(self.values)
            self.values.append(value)
        return self._places[key]


@dataclass(slots=True)
class _PageWriting:
    """Builds turns with shared texts, entries and stages."""

    texts: _Numbered = field(default_factory=_Numbered)
    entries: _Numbered = field(default_factory=_Numbered)
    """Text, tokens, turn and role of prompt entries and messages."""
    stages: _Numbered = field(default_factory=_Numbered)

    def text(self, words: str | None) -> int:
        return self.texts.place(ERASED if words is None else shortened(words))

    def turn(self, turn: ShownTurn) -> dict[str, Any]:
        record, prompt = turn.record, turn.prompt
        return {
            "turn": record.turn,
            "said": [self._entry(words, None, record.turn, role) for role, words in turn.messages],
            "queue": [record.queue_tokens, int(record.history_budget)],
            "flushed": sum(int(getattr(flush.event, "messages", 0)) for flush in record.flushes),
            "learned": record.facts_added + record.relations_added,
            "prompt": None if prompt is None else self._prompt(prompt),
            "trace": None if turn.trace is None else self._trace(turn.trace, record.turn),
        }

    # -- the prompt --------------------------------------------------------------------------------

    def _prompt(self, prompt: Prompt) -> dict[str, Any]:
        built = prompt.built
        names = [part.name for part in prompt.parts]
        return {
            "limit": built.token_limit,
            "asked": built.asked,
            "sent": built.total,
            "billed": built.billed,
            "around": prompt.around,
            "parts": [self._part(part) for part in prompt.parts],
            "cuts": [
                {
                    "part": names.index(cut.part.name),
                    "rule": cut.rule,
                    "tokens": cut.tokens,
                    "over": cut.over_before,
                    "entries": self._entries(cut.entries),
                }
                for cut in prompt.cuts
            ],
            "notes": [self.text(remark.text) for remark in remarks(prompt)],
        }

    def _part(self, part: PromptPart) -> dict[str, Any]:
        return {
            "name": self.text(part.title),
            "kind": part.kind if part.kind in _KINDS else "custom",
            "priority": part.priority,
            "asked": part.asked,
            "granted": part.granted,
            "kept": self._entries(part.included),
            "cut": self._entries(part.left_out),
        }

    def _entries(self, entries: Iterable[Entry]) -> list[Any]:
        """Return the index of each entry, with its score if it has one."""
        places: list[Any] = []
        for entry in entries:
            place = self._entry(_words(entry), entry.tokens, entry.turn, entry.role)
            places.append(place if entry.score is None else [place, round(entry.score, 3)])
        return places

    def _entry(self, words: str | None, tokens: int | None, turn: int | None, role: str | None) -> int:
        return self.entries.place([self.text(words), tokens, turn, role if role in _ROLES else None])

    # -- the trace ---------------------------------------------------------------------------------

    def _trace(self, trace: Trace, turn: int) -> dict[str, Any]:
        best = trace.decisive
        return {
            "state": presence_in(trace, turn).state,
            "sentence": self.text(trace.sentence),
            "verdict": best.verdict if best is not None else "lost" if not trace.tracks else "unknown",
            "notes": [self.text(note) for note in (trace.origin, matched(trace), prompt_of(trace)) if note],
            "tracks": [self._track(track) for track in trace.tracks[:MAX_TRACKS]],
            "more": trace.more + len(trace.tracks[MAX_TRACKS:]),
        }

    def _track(self, track: Track) -> dict[str, Any]:
        decisive = track.decisive
        return {
            "name": self.text(carrier_name(track.carrier)),
            "words": self.text(track.carrier.words) if track.carrier.words else None,
            "stages": [self._stage(stage) for stage in track.stages],
            "decisive": track.stages.index(decisive) if decisive is not None else None,
        }

    def _stage(self, stage: Stage) -> int:
        numbers = {name: round(number, 4) for name, number in stage.numbers.items()}
        return self.stages.place(
            [stage.name, stage.verdict, self.text(stage.text), self.text(brief(stage)), stage.rule, numbers,
             stage.knowledge, stage.turn]
        )  # fmt: skip


def _words(entry: Entry) -> str | None:
    """Return an entry's text; of a stored turn, with its speakers."""
    if entry.words is None or len(entry.messages) < 2:
        return entry.words
    lines = [(parse_message(message).speaker or str(message.role), message_text(message)) for message in entry.messages]
    return "\n".join(f"{who}: {words}" for who, words in lines if words)


def shortened(text: str) -> str:
    """Truncate a text to `MAX_CHARACTERS`; a note at its end says how many characters were cut."""
    if len(text) <= MAX_CHARACTERS:
        return text
    beginning = text[:MAX_CHARACTERS].rsplit(maxsplit=1)[0]
    return f"{beginning} … ({len(text) - len(beginning):,} more characters are not on this page.)"


# -- the file ------------------------------------------------------------------------------------

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
"""Characters that could end the JSON block or open another, end a script line, or are invalid in a file."""


@cache
def templates(package: str) -> "Environment":
    """Return a package's templates, which escape every text and fail where a value is missing.

    Their filter `digest` names a script or a style in a content security policy.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # here: an agent's program seldom draws

    made = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["digest"] = _digest
    return made


def page_html(value: Mapping[str, Any]) -> str:
    """Return the page, to be saved as UTF-8."""
    page = templates("memory_core.tracing").get_template("page.html")
    return page.render(data=safe_json(value), **page_sources())


@cache
def page_sources() -> Mapping[str, str]:
    """Return the script and the style of a page."""
    # normalised like browsers do before hashing, whatever a checkout made of the line ends
    sources = {name: files(__package__) / f"page.{ending}" for name, ending in (("script", "js"), ("style", "css"))}
    return {name: source.read_text(encoding="utf-8").replace("\r\n", "\n") for name, source in sources.items()}


def safe_json(value: Any) -> str:
    """Serialise a value to JSON that is safe inside a script element and in UTF-8.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _digest(source: str) -> str:
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode()}"


@dataclass(frozen=True, slots=True)
class Page:
    """Some turns of a session, with a trace in each, exportable as one HTML file.

    The file works offline; nothing in it can become markup or run.
    """

    contents: Mapping[str, Any]
    """See `contents`."""

    @property
    def texts(self) -> list[str]:
        """Return all texts, with keys, passwords and tokens masked."""
        return [mask_keys(text) for text in self.contents["texts"]]

    def to_html(self, replace: Mapping[str, str] | None = None) -> str:
        """Return the HTML file, with keys masked and the given words replaced.

            page.to_html({"Teresa": "Eva"})

        The mapping of words is not included.

        Raises:
            FormatError: A word is repeated, has no replacement, or would still be readable.
        """
        words = replace or {}
        texts = Replacements(words).replace_all(self.texts)
        return page_html({**self.contents, "texts": list(texts), "replaced": len(words)})


# -- turns with their messages, prompts and traces -------------------------------------------------


def shown_page(
    session: Session,
    log: SessionLog,
    history: History,
    turns: Sequence[int],
    trace: Callable[[int], Trace] | None,
    start: int | None,
) -> Page:
    """Build the page of some turns of a history; `trace` returns the trace to a turn's prompt."""
    messages = _messages(log, history, set(turns))
    shown = [
        ShownTurn(
            record=history.turns[turn],
            messages=tuple(
                (role, None if message is None else message_text(message)) for role, message in messages.get(turn, ())
            ),
            prompt=log.prompt(built) if (built := history.turns[turn].built) is not None else None,
            trace=trace(turn) if trace is not None else None,
        )
        for turn in turns
    ]
    title = SessionHandle(session).status().title or session.id
    return Page(contents(title, shown, start=start))


def _messages(log: SessionLog, history: History, turns: set[int]) -> Mapping[int, list[tuple[str, ChatMessage | None]]]:
    """Return role and message of everything said in these turns; None for erased messages."""
    added: list[tuple[int, Any]] = [
        (record.turn, record.event) for record in history.records if adds_message(record.event) and record.turn in turns
    ]
    texts = log.texts(event.content for _, event in added)
    by_turn: dict[int, list[tuple[str, ChatMessage | None]]] = {}
    for turn, event in added:
        text = texts.get(event.content)
        message = None if text is None else ChatMessage.from_json(text)
        by_turn.setdefault(turn, []).append((event.role, message))
    return by_turn
