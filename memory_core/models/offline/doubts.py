"""Open questions about facts that rules found: a person reviews these facts before a model sees them. Pure.

`sense` drops facts that make no sense alone. Facts here make sense but leave a question open: which project, which
tour. A person can answer it, or reject the fact.
"""

import re

from memory_core.models.offline.patterns import pattern
from memory_core.models.offline.relative_dates import relative_words

_NAMED = pattern(r"(?<!^)\b(?!I\b)[A-ZÀ-Þ][\w'’-]+|[\"“\d]")
"""A name, title or number after the first word: the fact can be found by it."""

_THINGS = (
    "stuff|things?|projects?|leads?|items?|essentials|places?|tours?|trips?|road trips?|books?|movies?|films?|shows?|"
    "games?|card games?|events?|snacks?|series|pieces?|ideas?|plans?|techniques|lessons|skills|"
    "(?:programming )?languages?"
)
_OF_NO_HELP = (
    "new|newly released|old|good|great|nice|cool|fun|interesting|amazing|awesome|possible|pretty|really|short|long|big"
)
_WHICH = pattern(
    rf"\b(?:an?|some|any|several|a few|a couple of|lots of|a lot of|abstract) (?:(?:{_OF_NO_HELP}) ){{0,2}}"
    rf"(?P<what>{_THINGS})(?: (?:in the works|lately|recently|today|yesterday|(?:last|this) \w+|\w+ \w+ ago))?$",
    re.IGNORECASE,
)
_SOME_PLACE = pattern(r"\b(?:went to|visited|was at|has been to) (?:a|some) (?P<what>places?)\b")
_THE_GROUP = pattern(r"\b(?:for|on|in|to|with) the (?P<what>team|group|company|class|band|project|club|event)$")
_PLAYED = pattern(
    r"\bplay(?:s|ed|ing)? (?:professionally|competitively|regularly|together|for (?:just |about |over )?\w+)\b"
)
_PRAISE = pattern(r"(?!The user\b)(?P<of>\S.*?) (?:is|are|was|were) an? (?:must\b|must-\w+|treat\b|blast\b|classic\b)")
PLANNED_PAST = pattern(
    r"\b(?:decided|plans?|planning|going|wants?|hopes?|intends?) to\b.*\b(?:yesterday|last (?:week|month|night|year))\b"
)
TENTATIVE = pattern(
    r"\b(?:thinking (?:of|about)|considering|toying with|debating|leaning towards?) (?:just |maybe |also )?"
    r"(?:becom|mov|switch|chang|leav|quit|push|postpon|renam|replac|sell|cancel|giv|retir|return|go)\w*ing\b"
    r"|\b(?:might|may) (?!\d)"
)
"""Changes that are only considered: the former value holds until the change is decided."""


LONG = 200
"""Maximum characters of a fact that rules find without a doubt: longer statements are mostly stories."""


def doubt(text: str) -> str | None:
    """Return an open question about a fact as a sentence; None if there is none.

    >>> doubt("The user got some possible leads")
    'Does not say which leads.'
    >>> doubt("The user got a lead at Meta") is None
    True
    """
    # Order of the checks: no fact at all, then not true yet, then incomplete.
    if praised := _PRAISE.match(text):
        return f"An opinion on {praised['of']}, told as a fact."
    if TENTATIVE.search(text):
        return "Only considered so far, not decided."
    if PLANNED_PAST.search(text):
        return "A plan for a time that is past."
    if day := relative_words(text):
        return f'Does not say which day "{day}" is.'
    if len(text) > LONG:
        return "Long: more a story than a fact."
    # "Went to a place" is vague even with a name elsewhere in the sentence.
    match = _SOME_PLACE.search(text)
    if match is None and _NAMED.search(text):
        return None
    match = match or _WHICH.search(text) or _THE_GROUP.search(text)
    if match is not None:
        return f"Does not say which {match['what'].lower()}."
    return "Does not say what is played." if _PLAYED.search(text) else None
