"""Fakes of what the engine asks of models: each computed from what it is given, or answering what it was told to."""

from hashlib import sha256

import numpy as np

from memory_core.messages import ToolCallPart, message_text
from memory_core.models.protocols import Condensation, CondensedFact, ExtractedFact, Extraction, ModelCall


class FakeExtractor:
    """Finds "The user <words>" in every sentence "I <words>"; condenses as it was told, or drops the oldest."""

    name = "fake extractor"
    offline = True

    def __init__(self, *, condensed=None):
        self.condensed = condensed
        """`(text, *indexes it stands for)` for each fact of the shorter list."""
        self.heard = []
        """Texts of each call's messages."""

    def extract(self, messages, *, known):
        self.heard.append([message_text(message) for message in messages])
        facts = [
            ExtractedFact(f"The user {sentence.strip().removeprefix('I ')}", source=index)
            for index, message in enumerate(messages)
            for sentence in message_text(message).split(".")
            if sentence.strip().startswith("I ")
        ]
        return Extraction(tuple(facts), (ModelCall("extract", self.name, 10, 2, 0.0),))

    def condense(self, facts, *, pinned, target):
        if self.condensed is not None:
            return Condensation(tuple(CondensedFact(text, stands_for=ids) for text, *ids in self.condensed))
        loose = [index for index in range(len(facts)) if index not in pinned]
        kept = sorted([*pinned, *loose[len(loose) - max(0, target - len(pinned)) :]])
        return Condensation(tuple(CondensedFact(facts[index], stands_for=(index,)) for index in kept))


class FakeReply:
    """A `ReplyStream` of one text, or of tool calls."""

    def __init__(self, text, *calls):
        self.text = text
        self.call = None
        self.tool_calls = ()
        self._calls = calls

    def __iter__(self):
        yield self.text
        self.tool_calls = self._calls
        self.call = ModelCall("reply", "fake chat", 10, 2, 0.0)

    def close(self):
        return None


class FakeChat:
    """A chat model that answers every question with the next of its answers, given as dicts of the asked form."""

    name = "fake chat"
    offline = False

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []
        """The messages of each question."""
        self.offered = []
        """Names of the tools offered with each reply."""

    def stream(self, messages, tools=()):
        """The next answer as a text; a tool call, or a list of text and tool calls, is said as such."""
        self.asked.append(list(messages))
        self.offered.append([tool.name for tool in tools])
        answer = self.answers.pop(0)
        said = answer if isinstance(answer, list) else [answer]
        calls = [item for item in said if isinstance(item, ToolCallPart)]
        return FakeReply("".join(str(item) for item in said if not isinstance(item, ToolCallPart)), *calls)

    def ask(self, messages, answer, *, purpose):
        self.asked.append(list(messages))
        return answer.model_validate(self.answers.pop(0)), ModelCall(purpose, self.name, 10, 2, 0.0)


class FakeEmbedder:
    """A bag of hashed words: texts that share words are near each other."""

    id = "fake-64"
    dimensions = 64
    offline = True

    def embed(self, texts):
        rows = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.lower().split() or [""]:
                row[int.from_bytes(sha256(word.strip(".,?!").encode()).digest()[:4]) % self.dimensions] += 1
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)
