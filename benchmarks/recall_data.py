"""Conversations with questions whose answers are known to stand in them: LoCoMo, BEAM and our own set.

Everything is read into one form. What is odd about the files is dealt with here: evidence ids that are
malformed or lead nowhere, dates without a session, dates that only the first message of a day carries,
marks at the end of a text.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from memory_core import ChatMessage

LOCOMO, BEAM, OWN = "LoCoMo", "BEAM", "paraphrases"

PARAPHRASES = Path(__file__).parent / "paraphrases.json"
"""Our own set: small talks, and questions that ask in other words than the message used."""

_ID = re.compile(r"D:?(\d+):(\d+)")
_SESSION = re.compile(r"session_(\d+)")
_DAY = re.compile(r"\d{1,2} \w+,? \d{4}")
_MARK = re.compile(r"\s*->->\s*\d+,\d+\s*$")

Audit = Mapping[tuple[str, tuple[str, ...]], tuple[str, ...]]
"""Corrected evidence ids, by question and the ids that were cited."""


class DataError(Exception):
    """What is wrong with a file, in one sentence."""


@dataclass(frozen=True)
class Line:
    """One message of a conversation."""

    role: str
    words: str
    """What evidence is compared with."""
    speaker: str = ""
    time: str = ""
    caption: str = ""
    """Of a picture that was shared with it."""

    @property
    def text(self) -> str:
        return f"{self.words} [shares {self.caption}]" if self.caption else self.words

    def message(self, *, inline: bool) -> ChatMessage:
        """As it is put: speaker and time as metadata, or `inline` as a pasted chat has them."""
        if inline:
            day = _DAY.search(self.time)
            time = f"[{day[0].replace(',', '') if day else self.time}] " if self.time else ""
            return ChatMessage(role=self.role, content=f"{time}{self.speaker or self.role.title()}: {self.text}")
        about = {"name": self.speaker, "time": self.time}
        known = {key: value for key, value in about.items() if value}
        return ChatMessage(role=self.role, content=self.text, additional_kwargs=known)


@dataclass(frozen=True)
class Question:
    """What is asked, and the messages that answer it, by their place in the conversation (from 0)."""

    words: str
    category: str
    evidence: tuple[int, ...]
    audited: tuple[int, ...]
    """The evidence as an audit corrected it; the same where it did not."""
    answer: str = ""
    """The gold answer; empty where none is given."""


@dataclass(frozen=True)
class Conversation:
    suite: str
    name: str
    lines: tuple[Line, ...]
    questions: tuple[Question, ...]

    def sampled(self, most: int | None) -> "Conversation":
        """With so many questions, evenly spread over all."""
        count = len(self.questions)
        if most is None or count <= most:
            return self
        return replace(self, questions=tuple(self.questions[number * count // most] for number in range(most)))


# -- files ---------------------------------------------------------------------------------------


def read_conversations(files: Sequence[Path], audit: Audit | None = None) -> list[Conversation]:
    """Every conversation of LoCoMo and BEAM files, told apart by their shape.

    Raises:
        DataError: a file is missing, no JSON, or of neither shape; or two conversations have one name.
    """
    found = [conversation for file in files for conversation in _conversations(file, audit or {})]
    for name, times in Counter(conversation.name for conversation in found).items():
        if times > 1:
            raise DataError(f'{times} conversations are called "{name}": give each file once.')
    return found


def read_audit(file: Path) -> Audit:
    """Corrections of LoCoMo's evidence.

    Raises:
        DataError: the file is missing, no JSON, or not such a list.
    """
    entries = _json(file)
    if not isinstance(entries, list):
        raise DataError(f"{file} is no list of corrections with `question`, `cited_evidence` and `correct_evidence`.")
    return _checked(
        file,
        lambda: {(e["question"], ids(e["cited_evidence"])): ids(e["correct_evidence"] or ()) for e in entries},
    )


def read_paraphrases(file: Path) -> list[Conversation]:
    """Our own set, or another of its shape.

    Raises:
        DataError: the file is missing, no JSON, or of another shape.
    """
    talks = _json(file)
    if not _all_have(talks, "messages", "questions"):
        raise DataError(f"{file} is no list of talks with `name`, `messages` and `questions`.")
    return _checked(file, lambda: [_own(talk) for talk in talks])


def ids(given: Iterable[Any]) -> tuple[str, ...]:
    """LoCoMo's evidence ids in their usual form, each once.

    >>> ids(["D8:6; D9:17", "D:11:26", "D30:05", "D"])
    ('D8:6', 'D9:17', 'D11:26', 'D30:5')
    """
    found = (f"D{int(a)}:{int(b)}" for text in given for a, b in _ID.findall(str(text)))
    return tuple(dict.fromkeys(found))


def _conversations(file: Path, audit: Audit) -> list[Conversation]:
    data = _json(file)
    if _all_have(data, "conversation", "qa"):
        return _checked(file, lambda: [_locomo(entry, number, audit) for number, entry in enumerate(data)])
    if _all_have([data], "messages", "probing_questions"):
        return _checked(file, lambda: [_beam(data, file.stem)])
    raise DataError(
        f"{file} is neither a LoCoMo file (a list of conversations with `qa`) nor a BEAM file (one conversation with "
        "`messages` and `probing_questions`)."
    )


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error.strerror}.") from error
    except ValueError as error:  # JSON and UTF-8 errors both
        raise DataError(f"{file} is not JSON: {error}.") from error


def _all_have(entries: Any, *keys: str) -> bool:
    return (
        isinstance(entries, list)
        and bool(entries)
        and all(isinstance(entry, dict) and all(key in entry for key in keys) for entry in entries)
    )


def _checked(file: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise DataError(f"{file} is not complete: {type(error).__name__} at {error}.") from error


# -- shapes --------------------------------------------------------------------------------------


def _locomo(entry: dict[str, Any], number: int, audit: Audit) -> Conversation:
    told = entry["conversation"]
    lines: list[Line] = []
    places: dict[str, int] = {}
    # A date may stand there without its session.
    sessions = sorted((int(match[1]), key) for key in told if (match := _SESSION.fullmatch(key)))
    for _, session in sessions:
        time = told.get(f"{session}_date_time") or ""
        for said in told[session]:
            places[ids([said["dia_id"]])[0]] = len(lines)
            role = "user" if said["speaker"] == told.get("speaker_a") else "assistant"
            lines.append(Line(role, said["text"], said["speaker"], time, said.get("blip_caption") or ""))
    questions = []
    for qa in entry["qa"]:
        cited = ids(qa.get("evidence") or ())
        correct = audit.get((qa["question"], cited)) or cited
        answer = str(qa.get("answer", ""))
        questions.append(
            Question(qa["question"], str(qa["category"]), _at(cited, places), _at(correct, places), answer)
        )
    asked = tuple(question for question in questions if question.evidence or question.audited)
    return Conversation(LOCOMO, str(entry.get("sample_id", number)), tuple(lines), asked)


def _at(cited: Iterable[str], places: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(places[id] for id in cited if id in places))


def _beam(data: dict[str, Any], name: str) -> Conversation:
    lines: list[Line] = []
    places: dict[str, int] = {}
    day = ""
    for message in data["messages"]:
        day = message.get("time_anchor") or day  # only the first message of a day has it
        places[str(message["id"])] = len(lines)
        lines.append(Line(message["role"], _MARK.sub("", message["content"]), time=day))
    questions = []
    for kind, several in data["probing_questions"].items():
        for asked in several:
            evidence = _at(_flat(asked.get("source_chat_ids")), places)
            answers = (asked.get(key) for key in ("answer", "ideal_answer", "ideal_summary", "ideal_response"))
            answer = next((str(answer) for answer in answers if answer), "")
            if evidence and all(lines[place].role == "user" for place in evidence):
                questions.append(Question(asked["question"], kind, evidence, evidence, answer))
    return Conversation(BEAM, name, tuple(lines), tuple(questions))


def _flat(given: Any) -> list[str]:
    """Ids of messages, however deeply they are listed."""
    if isinstance(given, dict):
        given = list(given.values())
    if isinstance(given, list):
        return [id for item in given for id in _flat(item)]
    return [str(given)] if given is not None else []


def _own(talk: dict[str, Any]) -> Conversation:
    lines = tuple(Line(role, words) for role, words in talk["messages"])
    questions = [
        Question(asked["question"], OWN, tuple(asked["evidence"]), tuple(asked["evidence"]))
        for asked in talk["questions"]
    ]
    return Conversation(OWN, talk["name"], lines, tuple(questions))
