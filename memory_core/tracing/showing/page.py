"""A page that is ready to be written: what stands on it, and what could be replaced in it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from memory_core.tracing.showing.contents import with_texts
from memory_core.tracing.showing.html import page_html
from memory_core.tracing.showing.pseudonyms import Original, Pseudonyms, find_originals


@dataclass(frozen=True)
class Page:
    """Some turns of a session, and the trace of what was followed in each, to be written as one file of HTML.

    The file opens anywhere, without a network; nothing in it can become markup or run.
    """

    contents: Mapping[str, Any]
    """See `memory_core.tracing.showing.contents`."""
    people: frozenset[str] = frozenset()
    """Names of speakers, and of persons that a graph knows."""
    known: frozenset[str] = frozenset()
    """Names of everything else that a graph knows."""
    facts: tuple[str, ...] = ()

    @cached_property
    def originals(self) -> tuple[Original, ...]:
        """Names, mails, numbers and keys on the page, each with a pseudonym that could stand in its place."""
        texts = self.contents["texts"]
        said = [texts[place] for place in sorted({entry[0] for entry in self.contents["entries"]})]
        people, known = sorted(self.people), sorted(self.known)
        return find_originals(texts, said=said, people=people, known=known, facts=self.facts)

    @property
    def pseudonyms(self) -> dict[str, str]:
        """The pseudonym of each original, for `to_html`."""
        return {original.text: original.pseudonym for original in self.originals}

    def replaced(self, pseudonyms: Mapping[str, str]) -> Mapping[str, Any]:
        """What stands on the page, with these originals replaced.

        Raises:
            FormatError: a pseudonym is empty, the same as another, or lets an original be read again.
        """
        return with_texts(self.contents, Pseudonyms.checked(pseudonyms).replace_all(self.contents["texts"]))

    def to_html(self, pseudonyms: Mapping[str, str] | None = None) -> str:
        """The file, with these originals replaced; None replaces nothing. Which stood for which is not in it.

        Raises:
            FormatError: as `replaced`.
        """
        return page_html({**self.replaced(pseudonyms or {}), "replaced": len(pseudonyms or {})})
