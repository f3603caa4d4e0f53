"""Find answers that admit not to know what the user had said: by rules, in any conversation."""

from dataclasses import dataclass

from memory_core import Memory, MessageRole
from memory_core.messages import message_text
from memory_core.models.offline.responder import admits, answering
from memory_core.planning.phrase_matching import Phrase

MAX_READ = 1_000
"""Maximum messages before an answer that are searched for what it lacked."""


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
        before = memory.session.messages(upto=answer.seq - 1, last=MAX_READ)
        for words in answering([stored.message for stored in before]):
            if Phrase.of(words).carried_by(message_text(answer.message)):
                continue
            trace = memory.trace(words, turn=answer.turn)
            if trace.said and trace.prompt_turn == answer.turn and not trace.reached:
                return Forgotten(words, min(message.turn for message in trace.said))
    return None
