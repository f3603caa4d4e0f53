"""Parse a model's text into an answer of a pydantic class. Pure."""

import json
import re
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from memory_core.errors import MessageError, ModelAnswerError
from memory_core.messages import storable
from memory_core.models.protocols import Answer, json_schema

SCAN_CHARACTERS = 200_000
"""Maximum characters of a wordy answer that are searched for a JSON object."""
CANDIDATES = 200
"""Maximum opening braces that are tried in a wordy answer."""

_TAGS = "(?:seed:)?think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratchpad|analysis|antthinking"
_THOUGHTS = re.compile(
    rf"(?P<begin><\s?(?:{_TAGS})\s?>|\[THINK\]|◁think▷|<\|begin_of_thought\|>"
    r"|<\|channel\|>(?:analysis|commentary).{0,80}?<\|message\|>)"
    rf"|<\s?/\s?(?:{_TAGS})\s?>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|channel\|>final.{{0,80}}?<\|message\|>",
    re.IGNORECASE,
)
"""Marks at the beginning and end of a model's visible thinking: of DeepSeek and its kin, Mistral, Kimi, Seed,
Skywork and gpt-oss, and tags that prompts ask for."""


def instruction(answer: type[BaseModel]) -> str:
    """Return the instruction for a model whose endpoint does not accept a schema."""
    schema = json.dumps(json_schema(answer), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must follow this JSON schema:\n{schema}"


def as_data(text: str, tags: str) -> str:
    """Return `text` so that it cannot pose as one of these tags (`|` between them) or as another message."""
    text = re.sub(rf"<(?=\s{{0,3}}/?\s{{0,3}}(?:{tags})\b)", "&lt;", text, flags=re.IGNORECASE)
    # Indented, so that no line of the text can begin like a numbered message.
    return re.sub(r"\s*\n", "\n    ", text)


def parse_answer(text: str, answer: type[Answer]) -> Answer:
    """Return the last JSON object in `text` that fits `answer`: after all thinking, else anywhere outside of thoughts.

    Prose and code fences around the object are ignored; an object within a thought is a draft, and is never the answer.

    Raises:
        ModelAnswerError: there is no such object.
    """
    # An answer of thoughts alone is empty, and not one of a wrong form.
    if not without_thinking(text).strip():
        raise ModelAnswerError("The model gave an empty answer.")
    problem = "it holds no JSON object"
    # Most models answer after their thinking; some think once more after the answer.
    for part in (_behind_thinking(text), without_thinking(text, unfinished=True)):
        # The last object counts: models repeat the schema or a draft before the answer.
        for value in reversed(list(_objects(part))):
            try:
                return answer.model_validate(storable(value)[0])
            except ValidationError as error:
                first = error.errors(include_url=False)[0]
                where = ".".join(str(step) for step in first["loc"]) or "the object"
                problem = f"{where}: {first['msg']}"
            except MessageError as error:
                problem = str(error).rstrip(".")
    raise ModelAnswerError(f"The model's answer is not in the asked form ({problem}).")


def without_thinking(text: str, *, unfinished: bool = False) -> str:
    """Return `text` without the model's thoughts; with `unfinished`, also without a thought that has no end.

    Where only the end of a thought is marked, everything before it counts as thought.

    >>> without_thinking("<think>Hm.</think>Yes. <think>Or"), without_thinking("Yes. [THINK]Or", unfinished=True)
    ('Yes. <think>Or', 'Yes. ')
    >>> without_thinking("Hm. Or not?</think>Yes.")
    'Yes.'
    """
    lines: list[str] = []
    start, begun = 0, -1
    for mark in _THOUGHTS.finditer(text):
        if mark["begin"]:
            # A mark within an open thought does not begin another one.
            begun = mark.start() if begun < 0 else begun
            continue
        if begun < 0:
            # Only the end is marked: the template had opened the thought, so all before it was thought.
            lines.clear()
        else:
            lines.append(text[start:begun])
        start, begun = mark.end(), -1
    return "".join(lines) + (text[start:begun] if unfinished and begun >= 0 else text[start:])


def _behind_thinking(text: str) -> str:
    """Return the text after the last closed thought, up to the next thought."""
    start = max((mark.end() for mark in _THOUGHTS.finditer(text) if not mark["begin"]), default=0)
    begun = next((mark.start() for mark in _THOUGHTS.finditer(text, start) if mark["begin"]), len(text))
    return text[start:begun]


_DECODER = json.JSONDecoder(strict=False)
"""Decoder that accepts line breaks and tabs in texts, which some models write unescaped."""


def _objects(text: str) -> Iterator[object]:
    """Yield the JSON objects in `text`, in order, without those nested in another one."""
    # Bounds the work for an answer of many braces, each of which is tried.
    text = text[:SCAN_CHARACTERS]
    position = text.find("{")
    for _ in range(CANDIDATES):
        if position < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            # No object begins here; one may begin at the next brace.
            end = position + 1
        else:
            yield value
        # After an object its inner braces are skipped, so that no part of it is taken for the answer.
        position = text.find("{", end)
