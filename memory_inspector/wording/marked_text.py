"""Text with marks as markdown: the source of a fact, and the changes of an edit, also as a unified diff. Pure.

Every piece is escaped by `plain`, so that the text cannot format, load or link anything; a diff is plain text.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from memory_inspector.wording.formatting import plain

AROUND = 90
"""Characters shown before the first and after the last highlighted span of a source."""

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class MarkedPiece:
    """A piece of text with one mark: `same`, `lit` (highlighted), `gone` or `new`."""

    text: str
    mark: str = "same"


def source_pieces(text: str, spans: Iterable[Span], *, around: int = AROUND) -> list[MarkedPiece]:
    """A message's text with the words of the fact highlighted, shortened to their surroundings.

    Without spans, the beginning of the message. An ellipsis marks text cut off at either end.

    >>> [piece.text for piece in source_pieces("I think Ana likes jazz a lot", [(8, 22)], around=4)]
    ['… ', 'Ana likes jazz', ' a …']
    """
    merged = _merged(spans, len(text))
    start, end = (merged[0][0], merged[-1][1]) if merged else (0, 0)
    # The excerpt begins and ends at word boundaries.
    first, last = _word_start(text, max(0, start - around)), _word_end(text, min(len(text), end + around))
    if not merged:
        # Nothing is highlighted: as much is shown as would be around a highlight.
        last = _word_end(text, min(len(text), 2 * around))
    pieces: list[MarkedPiece] = []
    at = first
    for lit_start, lit_end in merged:
        pieces += [MarkedPiece(text[at:lit_start]), MarkedPiece(text[lit_start:lit_end], "lit")]
        at = lit_end
    pieces.append(MarkedPiece(text[at:last]))
    if first > 0:
        pieces.insert(0, MarkedPiece("… "))
    if last < len(text):
        pieces.append(MarkedPiece(" …"))
    return _joined(pieces)


def markdown_lines(text: str, spans: Iterable[Span]) -> str:
    """A whole text as markdown, line by line, with these spans highlighted."""
    merged, lines, start = _merged(spans, len(text)), [], 0
    for line in text.splitlines(keepends=True):
        # Spans count from the start of the text, and here from the start of the line.
        within = [(a - start, b - start) for a, b in merged if a < start + len(line) and b > start]
        pieces = source_pieces(line, within, around=len(line)) if within else [MarkedPiece(line)]
        lines.append(markdown(pieces))
        start += len(line)
    # Two blanks before a line break make it a line break in markdown.
    return "  \n".join(lines)


def diff_pieces(before: str, after: str) -> list[MarkedPiece]:
    """Word-by-word difference of two texts.

    >>> [(piece.text, piece.mark) for piece in diff_pieces("on 14 March", "on 15 March")]
    [('on ', 'same'), ('14', 'gone'), ('15', 'new'), (' March', 'same')]
    """
    # White space is compared, too, so that both texts can be put together again.
    old, new = re.findall(r"\s+|[^\s]+", before), re.findall(r"\s+|[^\s]+", after)
    pieces: list[MarkedPiece] = []
    # Without the heuristic for long texts, which ignores frequent words.
    for change, a, b, c, d in difflib.SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        if change == "equal":
            pieces.append(MarkedPiece("".join(old[a:b])))
            continue
        pieces += [MarkedPiece("".join(old[a:b]), "gone"), MarkedPiece("".join(new[c:d]), "new")]
    return _joined(pieces)


def markdown(pieces: Sequence[MarkedPiece]) -> str:
    """Convert pieces to markdown: highlights on blue, removed words struck through, new words bold and blue."""
    # Piece by piece, because the blank between two depends on what was written before.
    marked_so_far = ""
    for before, piece in zip([None, *pieces], pieces, strict=False):
        # A removed and an added word would run together: neither brings the blank between them.
        apart = before is not None and (before.mark, piece.mark) == ("gone", "new") and marked_so_far[-1:] != " "
        marked_so_far += f"{' ' * apart}{_marked(piece)}"
    return marked_so_far.strip()


def _marked(piece: MarkedPiece) -> str:
    inner = piece.text.strip()
    # Markdown has no mark around blanks alone.
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


def _joined(pieces: Iterable[MarkedPiece]) -> list[MarkedPiece]:
    """Join neighbouring pieces with the same mark; drop empty ones."""
    result: list[MarkedPiece] = []
    for piece in pieces:
        if not piece.text:
            continue
        if result and result[-1].mark == piece.mark:
            result[-1] = MarkedPiece(result[-1].text + piece.text, piece.mark)
        else:
            result.append(piece)
    return result


def _merged(spans: Iterable[Span], length: int) -> list[Span]:
    """Sort spans, clip them to the text, and merge those that touch or are one character apart."""
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
    """The first start of a word from `at` on."""
    if at == 0 or text[at - 1].isspace():
        return at
    space = re.search(r"\s", text[at:])
    return at + space.end() if space else at


def _word_end(text: str, at: int) -> int:
    """The last end of a word up to `at`."""
    if at >= len(text) or text[at].isspace():
        return at
    space = re.search(r"\s(?=\S*$)", text[:at])
    return space.start() if space else at


# -- whole texts -----------------------------------------------------------------------------------

MAX_LINES = 2_000
"""Maximum lines of a text; longer ones are not compared, as that takes seconds."""

CONTEXT_LINES = 2


def difference(before: str, after: str) -> str | None:
    """Return removed lines with −, added ones with + and their context; empty if equal, None if a text is too long."""
    old, new = before.splitlines(), after.splitlines()
    if max(len(old), len(new)) > MAX_LINES:
        return None
    lines = list(difflib.unified_diff(old, new, lineterm="", n=CONTEXT_LINES))[2:]  # without the two header lines
    shown = [" …" if line.startswith("@@") else line for line in lines]  # where lines were left out
    # At the top of the text nothing was left out before the first lines shown.
    return "\n".join(shown[1:] if lines and re.match(r"@@ -[01][ ,]", lines[0]) else shown)
