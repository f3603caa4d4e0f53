"""Requests to forget, such as "please forget the Tucson detail", and the facts that they name. Pure, by rules."""

import re
from collections.abc import Iterable, Sequence

from memory_core.text import stems

MAX_FORGOTTEN = 25
"""A request that names more facts than this is too vague to follow: a person decides."""

# The lookaheads refuse words that name nothing: "forget it and go on", and "forget that, please", but not "forget that
# trip". A fact that is named by mistake is retired, so missing a request is the smaller mistake.
_REQUEST = re.compile(
    r"(?:\b(?:forget|remove|delete|erase|drop|scratch|discard)\b"
    r"|\bdon't (?:keep|store|track|need you to (?:keep|track))\b)"
    r"(?! (?:it|them|me)\b)"
    r"(?! (?:that|this|all|to|by|off|out|in|on)\b(?! (?!(?:and|but|or|for|please|then|too|okay|ok)\b)[a-z]))"
    r"(?: (?:about|anything about|everything about|anything related to|everything related to|the information about|"
    r"any record of|track of|what))* (?P<what>[^.?!;\n]{3,160})",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\b(?:please|can you|could you|you can|go ahead|i'd like you to|i want you to|want you to)\b|"
    r"^(?:actually,? )?(?:forget|remove|delete|erase|scratch|don't keep)\b",
    re.IGNORECASE,
)
# "Don't forget the milk" asks for the opposite.
_NOT = re.compile(
    r"\b(?:never|don't|do not|can't|won't|didn't) (?:ever )?(?:forget|remove|delete|drop)\b", re.IGNORECASE
)
# Reasons and circumstances after the named thing: as words of the request they would lower every fact's share.
_END = re.compile(
    r" (?:from (?:your|my|the|what|anything|any)\b.*|at all.*|entirely.*|completely.*|anymore.*|because .*|since .*|"
    r"so .*|now.*|i mentioned.*|on file.*)$|[,—–] ?(?:i|it|that|because|since|so|my|all|just)\b.*$|[—–].*$",
    re.IGNORECASE,
)
_EMPTY = "detail details info information thing stuff fact data note notes bit part memory record list whole that one"
"""Words that name nothing by themselves, such as "detail" in "the Tucson detail"."""


def forget_requests(text: str) -> list[str]:
    """Return the things that a message asks to forget, in its own words; empty if it has no such request.

    >>> forget_requests("Please forget the Tucson detail. I moved.")
    ['the Tucson detail']
    >>> forget_requests("Don't forget the Tucson trip.")
    []
    """
    requests = []
    # Sentence by sentence, so that "please" in one does not turn another into a request.
    for sentence in re.split(r"(?<=[.?!])\s+|\n", text):
        if _ASKS.search(sentence) and not _NOT.search(sentence):
            match = _REQUEST.search(sentence)
            if match is not None and (what := _END.sub("", match["what"]).strip(" ,")):
                requests.append(what)
    return requests


def named_facts(request: str, facts: Iterable[tuple[int, str]]) -> list[int]:
    """Return the ids of the facts that a request names; none if it names more than `MAX_FORGOTTEN`."""
    named = [id for id, text in facts if names_fact(request, text)]
    return named if len(named) <= MAX_FORGOTTEN else []


def names_fact(request: str, fact: str) -> bool:
    """Return whether a fact has over 60 % of a request's content words, or half with a name or number among them."""
    wanted = set(stems(request)) - set(stems(_EMPTY))
    shared = wanted & set(stems(fact))
    share = len(shared) / len(wanted) if wanted else 0.0
    # Names and numbers are in few facts, so fewer shared words suffice if one of them is among these.
    return share > 0.6 or (share >= 0.5 and not shared.isdisjoint(_exact(request)))


def _exact(request: str) -> set[str]:
    """Return the stems of the names and numbers in a request."""
    # The first word is left out: it may have a capital only because it begins the sentence.
    words: Sequence[str] = re.findall(r"(?<!^)\b(?:[A-ZÀ-Þ][\w'-]+|\d[\w.,/]*)", request)
    return set(stems(" ".join(words)))
