"""Separate text that a user pasted, or gave to work on, from their own words. Pure.

A document may contain "remember that ...", and who says "translate this" or "pretend that I am a doctor" states
nothing. By form alone: tags, triple quotes, the text of a request such as "Summarise this article:", the headers of a
mail, a transcript. Facts from text that seems pasted wait for a person: a wrong guess costs a review, loses nothing.
"""

import re
from collections.abc import Sequence
from functools import lru_cache

from memory_core.messages import ChatMessage, MessageRole, message_text
from memory_core.planning.fact_merging import relevance
from memory_core.text import stems

SPOKEN_SHARE = 0.5
"""Minimum share (0 to 1) of a statement's stems in the speakers' own words for it to count as said by them."""

MAX_TAGS = 50
"""Maximum number of opening tags of a message that are paired, as a page of HTML may have thousands."""

_TAG = re.compile(r"<([A-Za-z][\w-]{0,40})(?:\s[^<>]{0,300})?>")
# Quotes that are never closed count up to the end of the message.
_QUOTED = re.compile(r"\"{3}.*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)", re.DOTALL)
_DOCUMENT = (
    r"(?:(?<![^\W\d_])(?:articles?|e-?mails?|mails?|texts?|documents?|docs?|pages?|reviews?|messages?|letters?|posts?|logs?|chats?|"
    r"transcripts?|conversations?|reports?|papers?|story|stories|essays?|contracts?|outputs?|results?|responses?|"
    r"threads?|paragraphs?|excerpts?|comments?|tickets?|passages?|following|below|artículo|correo|texto|documento|"
    r"artikel|nachricht|dokument|bericht)(?![^\W\d_])|文章|邮件|文本|文档|文書|メール|記事)"
)
_HANDLE = (
    r"(?:(?<![^\W\d_])(?:summari[sz]e|translate|proofread|rewrite|paraphrase|answer|reply|respond|review|edit|correct|explain|"
    r"analy[sz]e|classify|extract|shorten|improve|read|check|look at|here (?:is|are)|here's|this is|resume|traduce|lee|"
    r"fasse?|übersetze?|lies|korrigiere?)(?![^\W\d_])|总结|翻译|阅读|要約|翻訳)"
)
# The colon tells a request from talk: "I read an article about jazz" has the same words and pastes nothing.
_INTRODUCED = re.compile(rf"^[^\n:：]{{0,80}}?{_HANDLE}[^\n:：]{{0,80}}?{_DOCUMENT}[^\n:：]{{0,60}}[:：]", re.I | re.M)
_WRITING = (
    r"(?:sentences?|essays?|grammar|spelling|English|paragraphs?|translation|drafts?|bio|speech|cover letter|cv|resume|"
    rf"{_DOCUMENT})"
)
_FICTION = (
    r"(?:stor(?:y|ies)|tales?|poems?|songs?|lyrics|novels?|books?|dialogues?|scenes?|scripts?|chapters?|monologues?|"
    r"screenplays?|plays?|limericks?|diary|fan ?fiction|role-?play|game|character|hero|protagonist)"
)
_THIS = r"(?:this|that|these|those|the (?:following|above|text|next)|following|below|all of)\b"
_WORK = (
    r"(?:translate|summari[sz]e|sum up|proof-?read|paraphrase|rephrase|reword|re-?write|shorten|simplify|polish|"
    r"spell-?check)"
)
_MEND = r"(?:correct|fix|edit|improve|check|review|continue|finish|complete|transcribe)"
_REST = r"[^\n:：.!?\"“']{0,80}"
_AS_ANOTHER = r"(?:as (?:an?|the|if)|from the (?:perspective|point of view|viewpoint)|in the (?:voice|role|person))\b"
_DRAFT = (
    r"(?:drafts?|essays?|sentences?|paragraphs?|grammar|spelling|translation|wording|bio|speech|cover letter|poem|song|"
    r"lyrics|chapter|scene|script|novel|dialogue|monologue)"
)
_BEING = r" ?(?:'m|'re| am| are|(?:'ll|will)? ?(?:be|play|act as)) (?:the|an?|my|your)\b"
_POLITE = (
    r"(?:(?:hi|hello|hey|ok|okay|now|please|pls|and|then|so|next|just|kindly|(?:can|could|would|will) (?:you|we)|"
    r"help me(?: to| with)?|let's|let us|I (?:want|need) you to|I'd like you to)[ ,]+){0,4}"
)
# What follows is the text: after a colon or line break, or after a sentence that asks for work on "this", on a kind of
# writing, or on nothing that it names. "Translate 'good morning' into Italian" names its text, and ends with it.
_REQUESTED = re.compile(
    rf"(?:^|(?<=[.!?,;–—])\s{{1,9}}|(?<=\n))[ \t>*-]{{0,5}}{_POLITE}(?:"
    rf"{_WORK}\b(?:{_REST}[:：]|(?: (?:(?:my|our|the|an?) )?(?:\w+ ){{0,2}}{_WRITING}\b| {_THIS}|(?= (?:in)?to [A-Z])|"
    rf"(?=[ \t]*[:：.!?\n])){_REST}(?:[.!?\n]|\Z))"
    rf"|{_MEND}\b (?:(?:my|our|the|an?) (?:\w+ ){{0,2}}?(?:{_WRITING}|{_FICTION})\b|{_THIS}(?! out\b)){_REST}"
    rf"(?:[:：.!?\n]|\Z)|(?:make|turn|put) {_THIS} (?:sound|into|in|more|less|shorter|better)\b{_REST}[:：.!?\n]"
    r"|(?:write|tell|compose|draft|create|invent|make up|begin|start)\b (?:me |us )?(?:(?:an?|the|my|our|some) )?"
    rf"(?:[\w-]+ ){{0,3}}?(?:{_FICTION}\b{_REST}[:：.!?\n]|\w+{_REST}\b{_AS_ANOTHER}|{_WRITING}\b{_REST}[:：])"
    r"|(?:pretend|imagine|suppose|assume)(?: that)? (?:I|we|you|he|she|my|an?|to be)\b"
    r"|(?:role-?play|play (?:a game|the (?:role|part))|act (?:as if|as though|like) (?:I|we)|hypothetically|"
    r"for the sake of (?:the )?argument|what if (?:I|we)|(?:let's|let us) (?:say|assume|imagine|suppose))\b"
    rf"|you{_BEING} .{{1,60}}?(?:,| and)? I{_BEING}"
    rf"|(?:let me|I(?:'ll| will)) (?:be|play|act as) .{{1,60}}?(?:,| and)? you{_BEING}"
    rf"|(?:how|what) (?:do|does|did|would|should|could) (?:{_THIS}|it) (?:sound|read|look|mean|say)\b{_REST}[:：.!?\n]"
    rf"|(?:is|are|does|do|(?:tell me )?(?:if|whether)) (?:{_THIS}|my) (?!an? |the ){_REST}\b(?:correct|right|ok|"
    rf"okay|fine|good|clear|natural|polite|grammatical|sounds?|reads?|means?|makes? sense)\b{_REST}[:：.!?\n]"
    rf"|(?:here(?:'s| is| are)|this is|below is|attached is) (?:my|our|the|an?) (?:\w+ ){{0,3}}?{_DRAFT}\b{_REST}"
    rf"[:：.!?\n]|(?:which|what|what's|is|are|mark|find|spot|give|any)\b{_REST}\b(?:{_DRAFT}|mistakes?|errors?)\b{_REST}[:：]"
    rf"|(?!I\b|we\b)[\w'’ -]{{2,40}}? (?:says?|said|wrote|writes|texted|tells? (?:me|us)|told (?:me|us)|replie[sd]|"
    rf"asks?|asked|claims?|claimed)(?: to me)?[:：]"
    rf"|(?:how (?:do|would|can) (?:you|I|we) say|say|repeat|quote)\b{_REST}[:：]"
    rf"|(?:for|in|from) (?:my|our|an?|this) (?:\w+ ){{0,2}}?{_FICTION}\b{_REST}[:：,]|my {_FICTION}\b{_REST}[:：]"
    r")(?!\s*(?:by the way|btw)\b)",
    re.I,
)
_POINTS_BACK = re.compile(
    rf"(?:{_WORK}|{_MEND}) (?:this|that|these|the above|the text above)\b{_REST}[.!?]?\s*\Z", re.I
)
_HEADER = re.compile(r"^(?:from|to|subject|date|sent|cc|von|an|betreff|de|para|asunto): \S", re.I | re.M)
_LABEL = re.compile(
    r"^(?:\*\*)?(user|human|customer|me|assistant|ai|bot|agent|chatgpt|claude|system)(?:\*\*)?: ", re.I | re.M
)
_FORWARDED = re.compile(r"^-{2,} ?(?:forwarded|original) message|^begin forwarded message", re.I | re.M)


@lru_cache(maxsize=32)  # asked for each found fact of a delivery, which has about as many messages
def own_words(text: str) -> str:
    """Return a message without what seems to be pasted.

    >>> own_words("I like jazz. Summarise this article: I live in Vaduz.")
    'I like jazz. '
    >>> own_words("Remember this: I live in Porto.")
    'Remember this: I live in Porto.'
    """
    text = _QUOTED.sub("", _without_tagged(text))
    begins = [len(text)]
    if introduced := _INTRODUCED.search(text):
        # The sentences before the request, on its line, are the user's own.
        sentence_ends = [end.end() for end in re.finditer(r"[.!?。！？]\s*", introduced[0])]
        begins.append(introduced.start() + max(sentence_ends, default=0))
    if requested := _REQUESTED.search(text):
        # Where nothing follows a request to work on "this", the text stands before it.
        blanks = len(requested[0]) - len(requested[0].lstrip())
        begins.append(0 if _POINTS_BACK.search(text) else requested.start() + blanks)
    headers = list(_HEADER.finditer(text))
    labels = list(_LABEL.finditer(text))
    # One such line may be the user's own words; two are the head of a mail.
    if len(headers) > 1:
        begins.append(headers[0].start())
    # Likewise one label; two different ones are a transcript.
    if len({label[1].lower() for label in labels}) > 1:
        begins.append(labels[0].start())
    if forwarded := _FORWARDED.search(text):
        begins.append(forwarded.start())
    # Nothing marks the end of what was pasted, so everything after its first sign counts as pasted.
    return text[: min(begins)]


def _without_tagged(text: str) -> str:
    """Return a text without its tagged passages, from each opening tag to the closing one."""
    result, at = [], 0
    for _ in range(MAX_TAGS):
        opening = _TAG.search(text, at)
        if opening is None:
            break
        closing = text.find(f"</{opening[1]}>", opening.end())
        result.append(text[at : opening.start() if closing >= 0 else opening.end()])
        # A tag without a closing one is markup in the user's own words, and stays.
        at = closing + len(opening[1]) + 3 if closing >= 0 else opening.end()
    return "".join([*result, text[at:]])


def said_by_others(statement: str, source: int | None, heard: Sequence[ChatMessage]) -> bool:
    """Return whether a statement comes from the output of a tool, or from text that a user pasted.

    `source` is the index of its message in `heard`; None: all messages are compared. True if the messages have such
    text, and less than half of the statement's stems are in the rest of them.
    """
    named = source is not None and 0 <= source < len(heard)
    read = [heard[source]] if named and source is not None else heard
    spoken, others = [], False
    for message in read:
        text = message_text(message)
        typed = own_words(text) if message.role is MessageRole.USER else text
        tool = message.role is MessageRole.TOOL
        others = others or tool or typed != text
        spoken.append("" if tool else typed)
    # Only if there is text of others: an extractor also rewords what the user typed, which lowers the share.
    return others and relevance(statement, frozenset(stems("\n".join(spoken)))) < SPOKEN_SHARE
