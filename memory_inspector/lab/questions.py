"""Questions with expected evidence, and a count of those whose prompt contains the evidence.

As in the recall benchmark, questions are asked after the whole conversation. Evidence counts if the prompt has it
literally, or has all its stems in one sentence (`planning.phrase_matching`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from memory_core.errors import FormatError
from memory_core.memory import Memory
from memory_core.messages import message_text
from memory_core.planning.phrase_matching import Phrase

MAX_QUESTIONS = 200
"""Maximum lines in a list of questions; each adds a prompt to every replayed configuration."""

MAX_LINE = 2_000
"""Maximum characters of a line."""

_ARROW = re.compile(r"\s*(?:→|->|\t)\s*")


@dataclass(frozen=True, slots=True)
class Question:
    """A question with one piece of evidence."""

    words: str
    evidence: str


def read_questions(text: str) -> tuple[Question, ...]:
    """Parse a list with a line per question: `question → words of evidence`; the arrow may be `->` or a tab.

    A question with several pieces of evidence has several lines.

    >>> read_questions("Who sings? -> Ana sings in a choir")
    (Question(words='Who sings?', evidence='Ana sings in a choir'),)

    Raises:
        FormatError: A line has no arrow or an empty side, or there are too many.
    """
    questions = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        if len(line) > MAX_LINE:
            raise FormatError(f"Line {number} has {len(line):,} characters; {MAX_LINE:,} are the most.")
        # Only the first arrow divides the line, so evidence may contain one.
        words, *evidence = _ARROW.split(line.strip("\ufeff "), maxsplit=1)
        if not evidence:
            raise FormatError(f"Line {number} has no arrow: write “question → words of evidence”.")
        if not words.strip() or not evidence[0].strip():
            raise FormatError(f"Line {number} needs a question before its arrow, and words of evidence after it.")
        questions.append(Question(words.strip(), evidence[0].strip()))
    if len(questions) > MAX_QUESTIONS:
        raise FormatError(f"{len(questions):,} lines are too many; {MAX_QUESTIONS} are the most.")
    return tuple(questions)


def evidence_found(memory: Memory, questions: Sequence[Question]) -> int:
    """Count the questions whose current prompt contains their evidence.

    Only for replayed memories: each question adds a prompt to the log.
    """
    prompts: dict[str, list[str]] = {}
    for question in questions:
        # A question with several lines is asked once, as each prompt costs a search and an entry in the log.
        if question.words not in prompts:
            messages = memory.build_context(question.words, reserved_tokens=memory.session.measured_tokens()).messages
            prompts[question.words] = [message_text(message) for message in messages]
    wanted = [(Phrase.of(question.evidence), prompts[question.words]) for question in questions]
    return sum(any(phrase.said_in(text) for text in texts) for phrase, texts in wanted)
