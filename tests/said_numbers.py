"""Numbers as a person reads them in the sentences of pages: parsed from the words."""

import re

NUMBER = r"([\d,]+)"
CHANGED = re.compile(rf"([^.;,:]*?) {NUMBER} → \**{NUMBER}\b(?!\** (?:tokens|free))")
"""A part in two sizes: `Earlier turns 743 → 0`."""


def as_said(sentence):
    """Return a sentence without its escapes and with spaces that are all alike."""
    return sentence.replace("\\", "").replace("\N{NO-BREAK SPACE}", " ")


def whole(text):
    return int(text.replace(",", ""))


def found(pattern, sentence):
    """Return the numbers of the only place where a pattern with `#` for numbers matches; None if it does not."""
    matches = re.findall(pattern.replace("#", NUMBER), as_said(sentence).replace("*", ""))
    assert len(matches) < 2, sentence
    if not matches:
        return None
    return [whole(each) for each in (matches[0] if isinstance(matches[0], tuple) else matches)]


def all_of(pattern, sentence):
    return [whole(number) for number in re.findall(pattern.replace("#", NUMBER), as_said(sentence))]


def growth(sentence):
    """Return by how much the parts of a sentence grow together; None if it names none."""
    changed = CHANGED.findall(as_said(sentence))
    return sum(whole(new) - whole(old) for _, old, new in changed) if changed else None
