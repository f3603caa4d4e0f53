"""Find answers that admit not to know what the user had said: by rules, in any conversation."""

import re
from dataclasses import dataclass

from memory_core import Memory, MessageRole
from memory_core.messages import message_text
from memory_core.models.offline.grammar import pattern
from memory_core.models.offline.responder import answering
from memory_core.planning.phrase_matching import Phrase

MAX_READ = 1_000
"""Maximum messages before an answer that are searched for what it lacked."""
MAX_CHARACTERS = 100_000
"""Maximum characters that are read of an answer."""
_ADMITS = pattern(
    r"\b(?:I (?:don't|do not|can't|cannot) (?:\w+ )?(?:know|have|remember|recall|find)|"
    r"I have (?:nothing|no (?:\w+ )?(?:information|record|note|memory|idea|details?))|I(?:'m| am) not (?:sure|aware)|"
    r"you (?:haven't|have not|never|didn't|did not) (?:\w+ )?(?:told|tell|mention|said|say|share|specif)\w*|"
    r"(?:was|were|been) (?:not|never) mentioned)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Words of the user that answer a later question, and were not in its prompt."""

    words: str
    turn: int
    """Turn in which the user said them."""


def forgotten(memory: Memory, *, last: int) -> Forgotten | None:
    """Return what the newest of the last answers lacked that admits not to know; None if none of them does.

    Three things must hold of the words: the rules that answer offline find in them an answer to the question, the
    answer does not say them, and the trace finds them in no part of its prompt.
    """
    for answer in reversed(memory.session.messages(role=MessageRole.ASSISTANT, last=last)):
        if not admits(message_text(answer.message)):
            continue
        # The rules read the conversation as it was when the answer was given.
        before = memory.session.messages(upto=answer.seq - 1, last=MAX_READ)
        for words in answering([stored.message for stored in before]):
            # An answer may admit one thing and say another.
            if Phrase.of(words).carried_by(message_text(answer.message)):
                continue
            # What was in the prompt is no fault of memory's.
            trace = memory.trace(words, turn=answer.turn)
            if trace.said and trace.prompt_turn == answer.turn and not trace.reached:
                return Forgotten(words, min(message.turn for message in trace.said))
    return None


def admits(reply: str) -> bool:
    """Tell whether a reply, of rules or a model, says that it does not know something.

    >>> admits("As for the menu, I have nothing about what Rui eats."), admits("Rui eats no meat.")
    (True, False)
    """
    return bool(_ADMITS.search(reply[:MAX_CHARACTERS].replace("’", "'")))
