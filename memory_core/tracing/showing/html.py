"""A page's value as one file of HTML. Pure but for its template, which is read once.

Conversations are untrusted: their words stand in one block of JSON in which nothing can end the block, and the script
puts them on the page as text only. The policy of the page allows its own script and style, by their hashes, and not a
single request.
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
"""What could end the block or open another one, ends a line of a script, or is no character of a file."""

_PLACES = re.compile(r"\{\{(\w+)\}\}")


def page_html(value: Mapping[str, Any]) -> str:
    """The file, to be stored as UTF-8."""
    filled = _fixed() | {"data": safe_json(value)}
    return _PLACES.sub(lambda place: filled[place[1]], _read("page.html"))


def safe_json(value: Any) -> str:
    """A value as JSON that may stand inside a script element, and in a file of UTF-8 whatever text it holds.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)


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
    # Line ends as a browser reads them before it compares the hash, whatever a checkout made of them.
    return (files(__package__) / name).read_text(encoding="utf-8").replace("\r\n", "\n")
