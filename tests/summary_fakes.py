"""A summariser for tests: what it is asked is kept, and what it answers is told to it or computed."""

from memory_core.errors import ModelUnreachableError
from memory_core.messages import message_text
from memory_core.models.protocols import ModelCall, Summarised


class Scribe:
    """Answers with the former text and every new message as a sentence, or as `answer` says."""

    name = "scribe"
    offline = False

    def __init__(self, answer=None, *, fails=0):
        self.answer = answer
        """`answer(summary, texts)` gives the text, in place of everything there was."""
        self.fails = fails
        """How many of the next calls fail."""
        self.asked = []
        """Former text and texts of the messages of each call."""

    def summarise(self, summary, messages, *, max_tokens, count):
        texts = [message_text(message) for message in messages]
        self.asked.append((summary, texts))
        if self.fails:
            self.fails -= 1
            raise ModelUnreachableError("Nothing answers at the model's address.")
        text = self.answer(summary, texts) if self.answer else " ".join([summary, *(f"{t}." for t in texts)]).strip()
        return Summarised(text, (ModelCall("summarise", self.name, 10, 5, 0.0),))

    @property
    def heard(self):
        """Every message it was ever given, in order."""
        return [text for _, texts in self.asked for text in texts]
