"""What the tests of the adapters share: a model that calls a tool, and a memory small enough to flush."""

import json
import re
import zlib

from models.scripted_server import completion

from memory_core import Database, FactExtractionMemoryBlock, Memory, Services
from memory_core.formats.openai_message import to_openai

QUESTIONS = ("I live in Faro. How is the weather?", "And how is it tomorrow?", "Where do I live?")
RESULT = "sunny, twenty degrees, and hardly any wind from the west at all"


def script(turns=3):
    """Answers of a model that calls `forecast` once in every turn, and then says what came back."""
    for number in range(turns):
        function = {"name": "forecast", "arguments": json.dumps({"place": "Faro"})}
        call = {"id": f"c{number}", "type": "function", "function": function}
        yield completion(None, finish="tool_calls", tool_calls=[call])
        yield completion(f"It is sunny, answer {number}.")


def memory(uri, **given):
    """The agent's memory, small enough for a flush within three turns."""
    block = FactExtractionMemoryBlock(name="facts", priority=1)
    given = {"token_limit": 110, "token_flush_size": 40, "memory_blocks": [block], **given}
    return Memory.from_defaults(session_id="agent", database_uri=uri, **given)


def restarted(uri):
    """The same session as another process opens it."""
    return Memory.open("agent", Database.open(uri), services=Services())


def assert_prompts_are_on_record(kept, server):
    """Three turns with a tool are stored, and each recorded prompt is what the endpoint was sent, over a flush."""
    said = kept.get_all()
    assert [message.role for message in said] == ["user", "assistant", "tool", "assistant"] * 3
    assert kept.events(kinds=["flush_planned"])
    built = kept.events(kinds=["context_built"])
    assert [record.turn for record in built] == [1, 2, 3]
    for number, record in enumerate(built):
        prompt = list(kept.log.prompt(record).messages)
        first, second = (words(body["messages"]) for body in server.bodies[2 * number : 2 * number + 2])
        assert first == words(to_openai(prompt))
        assert second == words(to_openai([*prompt, *said[4 * number + 1 : 4 * number + 3]]))
    assert "lives in Faro" in str(server.bodies[4]["messages"][0]), "the fact of what was flushed is in the prompt"


def words(messages):
    """Messages of chat completions as what counts of them: who says what, calls what, answers what."""
    return [
        (
            message["role"],
            message.get("content") or None,
            [call["function"]["name"] for call in message.get("tool_calls") or ()],
        )
        for message in ({**message, "content": text(message.get("content"))} for message in messages)
    ]


def text(content):
    """Content as one text, in whichever form a client sends it."""
    return content if not isinstance(content, list) else "\n".join(part["text"] for part in content)


def hashed(text):
    """A vector of a text by its words: what shares words is near."""
    vector = [0.001] * 64
    for word in re.findall(r"\w+", text.lower()):
        vector[zlib.crc32(word.encode()) % 64] += 1
    return vector
