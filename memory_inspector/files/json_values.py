"""JSON of other programs, with values that cannot be stored replaced by text. Pure."""

import json
import math
from typing import Any

from memory_core.errors import UNSTORABLE
from memory_core.limits import MAX_VALUES, Budget
from memory_core.messages import MAX_DEPTH

_DEPTH = MAX_DEPTH - 10
"""Maximum nesting of a value; the remaining levels are for the message around it."""


def read_json(data: bytes, most: int = MAX_VALUES) -> Any:
    """Parse a JSON text; None if it is invalid or has more than `most` values. Undecodable bytes become U+FFFD."""
    try:
        # Counted before parsing, as each parsed value takes far more memory than its text.
        if len(data) > most:  # a shorter text holds fewer
            Budget("request", items=most).take_json(data)
        return json.loads(data.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):
        return None


def storable_value(value: Any, depth: int = _DEPTH) -> Any:
    r"""Return a storable JSON value: values nested too deeply and infinite numbers become their JSON text.

    Objects without a JSON form become their text.

    Surrogate pairs are joined; a lone surrogate becomes U+FFFD.

    >>> storable_value(["\ud83d" + "\ude00", "\ud83d", float("inf")])
    ['😀', '�', 'Infinity']
    """
    if isinstance(value, str):
        return _whole_characters(value)
    # JSON has no infinity, and a database refuses it.
    if isinstance(value, float) and not math.isfinite(value):
        return json.dumps(value)
    if not isinstance(value, dict | list | tuple):
        return value if value is None or isinstance(value, int | float) else _whole_characters(str(value))
    # Deeper values would make the message around them unstorable.
    if depth == 0:
        try:
            return _whole_characters(json.dumps(value, ensure_ascii=False, default=str, skipkeys=True))
        except (RecursionError, ValueError):  # an object that holds itself
            return "(nested too deep to be kept)"
    if not isinstance(value, dict):
        return [storable_value(item, depth - 1) for item in value]
    return {_whole_characters(str(key)): storable_value(inner, depth - 1) for key, inner in value.items()}


def _whole_characters(text: str) -> str:
    if UNSTORABLE.search(text) is None:
        return text
    # Decoding UTF-16 joins a surrogate pair to one character.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return UNSTORABLE.sub("\ufffd", text)
