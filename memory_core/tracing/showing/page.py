"""An exportable page, with keys masked and optionally words replaced. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_core.tracing.showing.contents import with_texts
from memory_core.tracing.showing.html import page_html
from memory_core.tracing.showing.replacements import Replacements, mask_keys


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
