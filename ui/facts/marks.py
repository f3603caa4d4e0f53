"""Words with marks on them, as markdown: the source of a fact, and what an edit changed. Pure; no Streamlit.

Everything goes through `plain`, piece by piece, so that nothing in the words formats, loads or links.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ui.text import plain

AROUND = 90
"""Characters shown before the first and after the last marked word of a source."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of words with one mark: `same`, `lit`, `gone` or `new`."""

    text: str
    mark: str = "same"


def source_pieces(text: str, spans: Iterable[Span], *, around: int = AROUND) -> list[Piece]:
    """A message's words with those of the fact lit, cut down to what stands around them.

    Without spans the message's beginning. A piece that begins or ends in mid-message has an ellipsis there.

    >>> [piece.text for piece in source_pieces("I think Ana likes jazz a lot", [(8, 22)], around=4)]
    ['… ', 'Ana likes jazz', ' a …']
    """
    merged = _merged(spans, len(text))
    start, end = (merged[0][0], merged[-1][1]) if merged else (0, 0)
    first, last = _word_start(text, max(0, start - around)), _word_end(text, min(len(text), end + around))
    if not merged:
        last = _word_end(text, min(len(text), 2 * around))
    pieces: list[Piece] = []
    at = first
    for lit_start, lit_end in merged:
        pieces += [Piece(text[at:lit_start]), Piece(text[lit_start:lit_end], "lit")]
        at = lit_end
    pieces.append(Piece(text[at:last]))
    if first > 0:
        pieces.insert(0, Piece("… "))
    if last < len(text):
        pieces.append(Piece(" …"))
    return _joined(pieces)


def markdown_lines(text: str, spans: Iterable[Span]) -> str:
    """A whole text as markdown, line by line, with these words lit."""
    merged, lines, start = _merged(spans, len(text)), [], 0
    for line in text.splitlines(keepends=True):
        within = [(a - start, b - start) for a, b in merged if a < start + len(line) and b > start]
        pieces = source_pieces(line, within, around=len(line)) if within else [Piece(line)]
        lines.append(markdown(pieces))
        start += len(line)
    return "  \n".join(lines)


def diff_pieces(before: str, after: str) -> list[Piece]:
    """What became of a text, word by word.

    >>> [(piece.text, piece.mark) for piece in diff_pieces("on 14 March", "on 15 March")]
    [('on ', 'same'), ('14', 'gone'), ('15', 'new'), (' March', 'same')]
    """
    old, new = re.findall(r"\s+|[^\s]+", before), re.findall(r"\s+|[^\s]+", after)
    pieces: list[Piece] = []
    for change, a, b, c, d in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if change == "equal":
            pieces.append(Piece("".join(old[a:b])))
            continue
        pieces += [Piece("".join(old[a:b]), "gone"), Piece("".join(new[c:d]), "new")]
    return _joined(pieces)


def markdown(pieces: Sequence[Piece]) -> str:
    """Pieces as markdown: lit words on blue, gone ones struck through, new ones on blue with a plus before them."""
    said = ""
    for before, piece in zip([None, *pieces], pieces, strict=False):
        apart = before is not None and (before.mark, piece.mark) == ("gone", "new") and said[-1:] != " "
        said += f"{' ' * apart}{_marked(piece)}"
    return said.strip()


def _marked(piece: Piece) -> str:
    inner = piece.text.strip()
    if not inner:
        return " " if piece.text else ""
    before = " " if piece.text[:1].isspace() else ""
    after = " " if piece.text[-1:].isspace() else ""
    shown = plain(inner)
    marked = {
        "same": shown,
        "lit": f":blue-background[{shown}]",
        "gone": f":orange[~~{shown}~~]",
        "new": f":blue[**{shown}**]",
    }[piece.mark]
    return f"{before}{marked}{after}"


def _joined(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours with the same mark as one, empty ones left out."""
    found: list[Piece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if found and found[-1].mark == piece.mark:
            found[-1] = Piece(found[-1].text + piece.text, piece.mark)
        else:
            found.append(piece)
    return found


def _merged(spans: Iterable[Span], length: int) -> list[Span]:
    """Spans in order, inside the text, those that touch or have only a space between them as one."""
    merged: list[Span] = []
    for start, end in sorted((max(0, start), min(length, end)) for start, end in spans):
        if start >= end:
            continue
        if merged and start <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _word_start(text: str, at: int) -> int:
    """The first place from `at` on where a word begins."""
    if at == 0 or text[at - 1].isspace():
        return at
    space = re.search(r"\s", text[at:])
    return at + space.end() if space else at


def _word_end(text: str, at: int) -> int:
    """The last place up to `at` where a word ends."""
    if at >= len(text) or text[at].isspace():
        return at
    space = re.search(r"\s(?=\S*$)", text[:at])
    return space.start() if space else at
