"""Technical terms, each explained in one line: shown as a tooltip wherever the term occurs.

A term is marked as a link without target whose title is the explanation: browsers show it under the pointer,
static/app.css under the keyboard's focus, and static/keys.js suppresses the click. Pure: no Streamlit.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from html import escape

from memory_inspector.wording.formatting import plain, short

HELP: Mapping[str, str] = {
    "token": "The unit in which models count text. About four letters of English.",
    "prompt": "Everything the model gets for one turn: memory and recent messages.",
    "turn": "A user message and everything that follows until the next.",
    "queue": "The recent messages, kept word for word (short-term memory). The oldest leave first.",
    "limit": "Queue and blocks together, and what is reserved, must fit in this many tokens (`token_limit`).",
    "reserved": "Tokens of the agent's own system prompt and tools, taken off the limit (`reserved_tokens`). What an "
    "adapter measures in a call replaces them there.",
    "learning_context": "Tokens of earlier messages, and again of known facts, that a learner sees beside the messages "
    "it learns from (`learning_context`). 0: none.",
    "flush_line": "When the queue grows above it, the oldest messages leave (`chat_history_token_ratio`).",
    "flush": "The oldest messages leave the queue and are handed to the blocks. None is deleted.",
    "flush_size": "A flush moves at least this many tokens (`token_flush_size`).",
    "block": "A named piece of long-term memory: fixed text, facts, earlier turns and more.",
    "delivery": "One flush handed to one block. Repeated until it is done.",
    "priority": "0 is never cut. Of the rest, the largest number is cut first.",
    "priority_smallest": "0 is never cut. Of the rest, the smallest number is cut first.",
    "asked": "What a block wanted to put in the prompt, and what fitted.",
    "cut": "Left out of this one prompt. What is stored does not change.",
    "score": "How well a stored turn fits the question. Below the threshold it is not used.",
    "retired": "Replaced by a newer fact, or retired by a person. Both can be restored.",
}
"""Explanation of each term: an English sentence or two, markdown without quoted words."""

_SAID: Mapping[str, str] = {
    "flush line": "flush_line",
    "flush size": "flush_size",
    "flush": "flush",
    "flushes": "flush",
    "flushed": "flush",
    "queue": "queue",
    "priority": "priority",
    "cut": "cut",
    "block": "block",
    "blocks": "block",
    "delivery": "delivery",
    "deliveries": "delivery",
    "retired": "retired",
    "threshold": "score",
}
"""Key of a term by each form in which sentences use it; longer forms come first."""

_WORD = re.compile(rf"\b(?:{'|'.join(_SAID)})\b", re.IGNORECASE)


def term(key: str, word: str, *, whole: str = "") -> str:
    """Return `word` (safe HTML) with a term's explanation as its tooltip, which begins with `whole` if given."""
    title = f"{whole}: {_title(key)}" if whole else _title(key)
    return f'<a href="#{key}" title="{escape(title)}">{word}</a>'


def marked_html(text: str, *, smallest_first: bool = False) -> str:
    """A text of the app's own as HTML, with each technical term explained once."""
    return _marked(text, escape, term, smallest_first)


def explained(text: str) -> str:
    """A text of the app's own as markdown, with each technical term explained once."""
    return _marked(text, _piece, _link, smallest_first=False)


def marked(text: str, *, names: Iterable[str] = (), smallest_first: bool = False) -> str:
    """A sentence about an event as markdown that shows it literally, with the technical terms explained.

    Quoted words are never marked: marking stops at the first quotation mark or colon, after which they occur, and at
    the first of `names`, the blocks' names.
    """
    named = [re.escape(short(name)) for name in names if name.strip()]
    head = re.split("|".join(["“", ": ", *named]), text, maxsplit=1)[0]
    return _marked(head, _piece, _link, smallest_first) + _piece(text[len(head) :])


def _piece(text: str) -> str:
    """`plain` for a part of a line: leading and trailing spaces are kept."""
    escaped = plain(text)
    return f"{' ' * (text[:1].isspace())}{escaped}{' ' * (bool(escaped) and text[-1:].isspace())}" if text else ""


def _marked(text: str, safe: Callable[[str], str], link: Callable[[str, str], str], smallest_first: bool) -> str:
    parts, end, seen = [], 0, set()
    for match in _WORD.finditer(text):
        key = _SAID[match[0].lower()]
        if key in seen:
            continue
        seen.add(key)
        term = "priority_smallest" if key == "priority" and smallest_first else key
        parts += [safe(text[end : match.start()]), link(term, match[0])]
        end = match.end()
    return "".join([*parts, safe(text[end:])])


def _link(key: str, word: str) -> str:
    return f'[{word}](#{key} "{_title(key)}")'


def _title(key: str) -> str:
    return HELP[key].replace("`", "")
