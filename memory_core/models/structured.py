"""Reading an answer in an asked form out of what a model wrote. Pure."""

import json
import re
from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from memory_core.errors import MessageError, ModelAnswerError
from memory_core.messages import storable
from memory_core.models.base import Answer, json_schema

SCAN_CHARACTERS = 200_000
"""Of a wordy answer that are searched for a JSON object."""
CANDIDATES = 50
"""Opening braces tried in a wordy answer."""
_THINK, _THOUGHT = "<think>", "</think>"


def instruction(answer: type[BaseModel]) -> str:
    """Instruction for a model whose endpoint does not accept a schema."""
    schema = json.dumps(json_schema(answer), ensure_ascii=False)
    return f"Answer with one JSON object and nothing else. It must follow this JSON schema:\n{schema}"


def as_data(text: str, tags: str) -> str:
    """`text` in such a form that it cannot pose as one of these tags (`|` between them) or as another message."""
    text = re.sub(rf"<(?=\s{{0,3}}/?\s{{0,3}}(?:{tags})\b)", "&lt;", text, flags=re.IGNORECASE)
    return re.sub(r"\s*\n", "\n    ", text)


def parse_answer(text: str, answer: type[Answer]) -> Answer:
    """The first JSON object in `text` that has the form of `answer`; prose and code fences around it are left out.

    Raises:
        ModelAnswerError: there is none.
    """
    text = without_thinking(text).strip()
    if not text:
        raise ModelAnswerError("The model gave an empty answer.")
    problem = "it holds no JSON object"
    for value in _objects(text):
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
    """`text` without what a model thought aloud; with `unfinished`, also without a thought that has no end.

    >>> without_thinking("<think>Hm.</think>Yes. <think>Or"), without_thinking("Yes. <think>Or", unfinished=True)
    ('Yes. <think>Or', 'Yes. ')
    """
    kept, start = [], 0
    while (begin := text.find(_THINK, start)) >= 0:
        end = text.find(_THOUGHT, begin)  # once: where there is none, nor is there for a later beginning
        if end < 0:
            break
        kept.append(text[start:begin])
        start = end + len(_THOUGHT)
    return "".join(kept) + (text[start:begin] if unfinished and begin >= 0 else text[start:])


def _objects(text: str) -> Iterator[object]:
    """JSON objects in `text`, outermost first."""
    decoder = json.JSONDecoder()
    text = text[:SCAN_CHARACTERS]
    position = text.find("{")
    for _ in range(CANDIDATES):
        if position < 0:
            return
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)
