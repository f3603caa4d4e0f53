"""Token counts and failures that an endpoint's answer reports. Pure."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from memory_core.tokens import reported
from memory_inspector.recorder.streamed_answer import objects_in

_CODE = re.compile(r"[a-z0-9_.]{1,60}")
_NAMES = (
    ("prompt_tokens", "input_tokens"),
    ("completion_tokens", "output_tokens"),
    ("cached_tokens", "cache_read_input_tokens", "prompt_cache_hit_tokens"),
)
"""Names of each count: tokens of the prompt, of the answer, and of the prompt's part that a cache had."""


def reported_tokens(answers: Iterable[Mapping[str, Any]]) -> tuple[int | None, int | None, int | None]:
    """Return the tokens of the prompt, of the answer, and of the prompt's part that was read from a cache.

    Each is as reported last; None for a count that nothing reports.
    """
    tokens: list[int | None] = [None, None, None]
    for usage in (usage for answer in answers for usage in _usages(answer)):
        details = objects_in([usage.get(name) for name in ("prompt_tokens_details", "input_tokens_details")])
        usage = {**usage, **{name: count for entry in details for name, count in entry.items() if name in _NAMES[2]}}
        for n, names in enumerate(_NAMES):
            counts = [reported(usage.get(name)) for name in names]
            count = next((value for value in counts if value is not None), None)
            tokens[n] = count or tokens[n] or count  # some events report zero before or after the real count
    return tokens[0], tokens[1], tokens[2]


def _usages(answer: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the `usage` objects of the answer, of an object it wraps, an extension (Groq) or choices (Moonshot)."""
    extensions = [value for name, value in answer.items() if str(name).startswith("x_")]
    for holder in objects_in([answer, answer.get("response"), answer.get("message"), *extensions]):
        yield from objects_in(holder.get("usage"))
    for choice in objects_in(answer.get("choices")):
        for holder in objects_in([choice, choice.get("delta"), choice.get("message")]):
            yield from objects_in(holder.get("usage"))


def reported_failure(answer: Mapping[str, Any]) -> str | None:
    """Return the code of a failure reported by an answer or event: "" without a code, None without a failure.

    The message is dropped, as some endpoints repeat the API key in it.
    """
    response = answer.get("response")
    if isinstance(response, dict) and (code := reported_failure(response)) is not None:
        return code
    if error := answer.get("error"):
        return failure_code(error)
    if "error" in (answer.get("type"), answer.get("object")):
        return failure_code(answer)
    if answer.get("type") == "response.failed" or answer.get("status") == "failed":
        return ""
    of_minimax = answer.get("base_resp")
    if isinstance(of_minimax, dict) and of_minimax.get("status_code"):
        return failure_code({"code": of_minimax["status_code"]})
    for choice in objects_in(answer.get("choices")):
        if choice.get("error") or choice.get("finish_reason") == "error":
            return failure_code(choice.get("error"))
    return None


def failure_code(error: Any) -> str:
    """Return an error's code or type; "" if it is not a number or a short word."""
    named = [str(error.get(key)) for key in ("code", "type") if error.get(key)] if isinstance(error, Mapping) else []
    return next((name for name in named if _CODE.fullmatch(name) and name != "error"), "")
