"""What an answer reports beside its words: the tokens it took. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memory_core.attach.streamed_answer import objects_in
from memory_core.tokens import reported

_NAMES = ("prompt_tokens", "input_tokens"), ("completion_tokens", "output_tokens")


def reported_tokens(answers: Iterable[Mapping[str, Any]]) -> tuple[int | None, int | None]:
    """Tokens of the prompt and of the answer, as the last of some answers or events to count them says."""
    found: list[int | None] = [None, None]
    for usage in (usage for answer in answers for usage in _usages(answer)):
        for n, names in enumerate(_NAMES):
            counts = [reported(usage.get(name)) for name in names]
            count = next((each for each in counts if each is not None), None)
            found[n] = count or found[n] or count  # some events count nothing yet, or nothing any more
    return found[0], found[1]


def _usages(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Every place for it: the answer, what it wraps, an extension such as Groq's, and its choices, as of Moonshot."""
    extensions = [value for name, value in answer.items() if str(name).startswith("x_")]
    for holder in objects_in([answer, answer.get("response"), answer.get("message"), *extensions]):
        yield from objects_in(holder.get("usage"))
    for choice in objects_in(answer.get("choices")):
        for holder in objects_in([choice, choice.get("delta"), choice.get("message")]):
            yield from objects_in(holder.get("usage"))
