"""A page that is ready to be written, with its keys masked, and words replaced if a person asks for it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from memory_core.tracing.showing.contents import with_texts
from memory_core.tracing.showing.html import page_html
from memory_core.tracing.showing.replacements import Replacements, mask_keys


@dataclass(frozen=True, slots=True)
class Page:
    """Some turns of a session, and the trace of what was followed in each, to be written as one file of HTML.

    The file opens anywhere, without a network; nothing in it can become markup or run.
    """

    contents: Mapping[str, Any]
    """See `memory_core.tracing.showing.contents`."""

    @property
    def texts(self) -> list[str]:
        """All texts on the page, with keys, passwords and tokens masked."""
        return [mask_keys(text) for text in self.contents["texts"]]

    def to_html(self, replace: Mapping[str, str] | None = None) -> str:
        """Return the file, with keys masked and each of these words replaced by another.

            page.to_html({"Teresa": "Eva"})

        Which word stood for which is not in it.

        Raises:
            FormatError: a word is there twice, nothing stands in its place, or it could still be read.
        """
        words = replace or {}
        texts = Replacements(words).replace_all(self.texts)
        return page_html({**with_texts(self.contents, texts), "replaced": len(words)})
