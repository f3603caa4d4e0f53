"""Render a page's value as a standalone HTML file. Pure except for its template, which is read once.

Conversations are untrusted: their text is in one JSON block, escaped so that nothing can end it, and the script inserts
it as text only. The content security policy allows the page's own script and style, by hash, and no requests.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
"""Characters that could end the JSON block or open another, end a script line, or are invalid in a file."""

_PLACES = re.compile(r"\{\{(\w+)\}\}")


def page_html(value: Mapping[str, Any]) -> str:
    """Return the page, to be saved as UTF-8."""
    filled = _fixed() | {"data": safe_json(value)}
    return _PLACES.sub(lambda place: filled[place[1]], _read("page.html"))


def safe_json(value: Any) -> str:
    """Serialise a value to JSON that is safe inside a script element and in UTF-8.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


@cache
def _fixed() -> dict[str, str]:
    style, script = _read("page.css"), _read("page.js")
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return {"policy": policy, "style": style, "script": script}


def _hash(source: str) -> str:
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode()}"


def _read(name: str) -> str:
    # normalised like browsers do before hashing, whatever a checkout made of the line ends
    return (files(__package__) / name).read_text(encoding="utf-8").replace("\r\n", "\n")
