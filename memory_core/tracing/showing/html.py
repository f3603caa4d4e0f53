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
from html import escape
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


_OUTER_STYLE = (
    ":root{color-scheme:light dark}body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2rem auto;"
    "padding:0 1rem}summary{cursor:pointer;font-weight:600;margin:.75rem 0}iframe{width:100%;height:80vh;"
    "border:1px solid #8884;border-radius:8px}"
)


def document(title: str, body: str) -> str:
    """Return an HTML file around pages of `page_html` in frames; `title` is plain text, `body` is safe markup."""
    # Frames inherit this policy, so it allows the page's own script and style too.
    policy = (
        f"default-src 'none'; script-src '{_hash(_read('page.js'))}'; "
        f"style-src '{_hash(_OUTER_STYLE)}' '{_hash(_read('page.css'))}'"
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}"><style>{_OUTER_STYLE}</style></head>'
        f"<body><h1>{escape(title)}</h1>{body}</body></html>\n"
    )


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
