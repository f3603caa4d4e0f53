"""Render a page's value as a standalone HTML file, by a template that is read once.

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
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment

_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
"""Characters that could end the JSON block or open another, end a script line, or are invalid in a file."""


@cache
def templates(package: str) -> "Environment":
    """Return a package's templates, which escape every text and fail where a value is missing.

    Their filter `digest` names a script or a style in a content security policy.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # here: an agent's program seldom draws

    made = Environment(
        loader=PackageLoader(package, ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["digest"] = _digest
    return made


def page_html(value: Mapping[str, Any]) -> str:
    """Return the page, to be saved as UTF-8."""
    page = templates("memory_core.tracing.showing").get_template("page.html")
    return page.render(data=safe_json(value), **page_sources())


@cache
def page_sources() -> Mapping[str, str]:
    """Return the script and the style of a page."""
    # normalised like browsers do before hashing, whatever a checkout made of the line ends
    sources = {name: files(__package__) / f"page.{ending}" for name, ending in (("script", "js"), ("style", "css"))}
    return {name: source.read_text(encoding="utf-8").replace("\r\n", "\n") for name, source in sources.items()}


def safe_json(value: Any) -> str:
    """Serialise a value to JSON that is safe inside a script element and in UTF-8.

    >>> safe_json("</script>")
    '"\\\\u003c/script\\\\u003e"'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda match: f"\\u{ord(match.group()):04x}", text)


def _digest(source: str) -> str:
    return f"sha256-{b64encode(sha256(source.encode()).digest()).decode()}"
