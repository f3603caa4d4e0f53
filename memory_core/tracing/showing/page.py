"""A page of some turns as a standalone HTML file, with keys masked and optionally words replaced.

Conversations are untrusted: their text is in one JSON block, escaped so that nothing can end it, and the script inserts
it as text only. The content security policy allows the page's own script and style, by hash, and no requests.
"""

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from memory_core.tracing.showing.contents import with_texts
from memory_core.tracing.showing.replacements import Replacements, mask_keys

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


@dataclass(frozen=True, slots=True)
class Page:
    """Some turns of a session, with a trace in each, exportable as one HTML file.

    The file works offline; nothing in it can become markup or run.
    """

    contents: Mapping[str, Any]
    """See `memory_core.tracing.showing.contents`."""

    @property
    def texts(self) -> list[str]:
        """Return all texts, with keys, passwords and tokens masked."""
        return [mask_keys(text) for text in self.contents["texts"]]

    def to_html(self, replace: Mapping[str, str] | None = None) -> str:
        """Return the HTML file, with keys masked and the given words replaced.

            page.to_html({"Teresa": "Eva"})

        The mapping of words is not included.

        Raises:
            FormatError: A word is repeated, has no replacement, or would still be readable.
        """
        words = replace or {}
        texts = Replacements(words).replace_all(self.texts)
        return page_html({**with_texts(self.contents, texts), "replaced": len(words)})
