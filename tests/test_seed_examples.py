"""Programs written for LlamaIndex's memory run here with only their import lines changed, and give the same results.

Each program is run twice: as it stands, with the real library, and with its `from llama_index...` lines pointing here.
What differs on purpose stands in `docs/how-to/coming-from-llamaindex.md`.
"""

import asyncio
import gc
import re
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest
from llama_index.core.base.llms.types import ChatMessage as TheirMessage
from llama_index.core.base.llms.types import ChatResponse
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.llms.mock import MockLLM
from llama_index.core.prompts import RichPromptTemplate
from pydantic import Field

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
"""Of the real library, which leaves its connections open."""

MEMORIES = {"VectorMemory", "ChatMemoryBuffer", "ChatSummaryMemoryBuffer"}

VECTOR_MEMORY = """
from llama_index.core.memory import VectorMemory
from llama_index.core.llms import ChatMessage

async def program(given):
    memory = VectorMemory.from_defaults(
        vector_store=None, embed_model=given.embed_model, retriever_kwargs={"similarity_top_k": 1}
    )
    for text in ("Jerry likes juice.", "Bob likes burgers.", "Alice likes apples."):
        memory.put(ChatMessage.from_str(text, "user"))
    first = [str(message) for message in memory.get("What does Jerry like?")]
    memory.reset()
    memory.set(
        [
            ChatMessage.from_str("Jerry likes burgers.", "user"),
            ChatMessage.from_str("Bob likes apples.", "user"),
            ChatMessage.from_str("Indeed, Bob likes apples.", "assistant"),
            ChatMessage.from_str("Alice likes juice.", "user"),
        ]
    )
    return first, [str(message) for message in memory.get("What does Bob like?")]
"""

QUEUE = """
from llama_index.core.memory import Memory
from llama_index.core.llms import ChatMessage

async def program(given):
    memory = Memory.from_defaults(
        session_id="my_session", token_limit=50, chat_history_token_ratio=0.7, token_flush_size=10, insert_method="user"
    )
    for _ in range(100):
        await memory.aput_messages(
            [
                ChatMessage(role="user", content="Hello, world!"),
                ChatMessage(role="assistant", content="Hello, world to you too!"),
                ChatMessage(role="user", content="What is the capital of France?"),
                ChatMessage(role="assistant", content="The capital of France is Paris."),
            ]
        )
    queue = [str(message) for message in await memory.aget()]
    everything = len(await memory.aget_all())
    await memory.areset()
    return queue, everything, len(await memory.aget_all())
"""

BLOCKS = """
from llama_index.core.memory import FactExtractionMemoryBlock, Memory, StaticMemoryBlock
from llama_index.core.llms import ChatMessage

async def program(given):
    memory = Memory.from_defaults(
        session_id="my_session",
        token_limit=300,
        chat_history_token_ratio=0.1,
        token_flush_size=10,
        insert_method="system",
        memory_blocks=[
            StaticMemoryBlock(name="core_info", static_content="My name is Logan. I live in Saskatoon.", priority=0),
            FactExtractionMemoryBlock(name="extracted_info", llm=given.llm, max_facts=50, priority=1),
        ],
    )
    for number in range(8):
        await memory.aput(ChatMessage(role="user", content=f"I have been to {number} towns, and I drink tea."))
        await memory.aput(ChatMessage(role="assistant", content="Good to know, I will keep that in mind."))
    history = await memory.aget()
    lines = [line.strip() for line in history[0].content.splitlines() if line.strip()]
    return history[0].role.value, [line for line in lines if "fact" not in line], "tea" in history[0].content
"""

OWN_BLOCK = """
from llama_index.core.memory import Memory
from llama_index.core.memory.memory import BaseMemoryBlock
from llama_index.core.llms import ChatMessage

class MentionCounter(BaseMemoryBlock[str]):
    mention_name: str = "Logan"
    mention_count: int = 0

    async def _aget(self, messages=None, **block_kwargs):
        return f"Logan was mentioned {self.mention_count} times."

    async def _aput(self, messages):
        for message in messages:
            if self.mention_name in message.content:
                self.mention_count += 1

    async def atruncate(self, content, tokens_to_truncate):
        return ""

async def program(given):
    counter = MentionCounter(name="mention_counter")
    memory = Memory.from_defaults(
        session_id="mine", token_limit=200, chat_history_token_ratio=0.1, token_flush_size=5, memory_blocks=[counter]
    )
    for number in range(9):
        await memory.aput(ChatMessage(role="user", content=f"Logan came {number} times."))
        await memory.aput(ChatMessage(role="assistant", content="He was told."))
    said = (await memory.aget())[0].content
    return "was mentioned" in said, counter.mention_count, f"Logan was mentioned {counter.mention_count} times." in said
"""

OWN_PROMPTS = """
from llama_index.core.memory import FactExtractionMemoryBlock, Memory
from llama_index.core.llms import ChatMessage

async def program(given):
    block = FactExtractionMemoryBlock(
        name="facts",
        llm=given.llm,
        max_facts=3,
        fact_extraction_prompt_template=given.template("Drinks alone, not again: {{ existing_facts }}"),
        fact_condense_prompt_template=given.template("At most {{ max_facts }} of {{ existing_facts }}, drinks first."),
    )
    memory = Memory.from_defaults(
        session_id="prompts", token_limit=60, chat_history_token_ratio=0.5, token_flush_size=10, memory_blocks=[block]
    )
    for number in range(10):
        await memory.aput(ChatMessage(role="user", content=f"I drink tea number {number}, and I sleep little."))
        await memory.aput(ChatMessage(role="assistant", content="So I see."))
    told = "\\n".join(given.llm.told)
    return "Drinks alone" in told, "drinks first" in told, "existing_facts" in told, "max_facts" in told
"""

DATABASE = """
from llama_index.core.memory import Memory
from llama_index.core.llms import ChatMessage, MessageRole

async def program(given):
    def opened():
        return Memory.from_defaults(session_id="kept", token_limit=1000, async_database_uri=given.database)

    await opened().aput(ChatMessage(role=MessageRole.USER, content="Hello"))
    await opened().aput(ChatMessage(role=MessageRole.ASSISTANT, content="Hello to you"))
    return [f"{message.role.value}: {message.content}" for message in await opened().aget()]
"""

BUFFERS = """
from llama_index.core.memory import ChatMemoryBuffer, ChatSummaryMemoryBuffer
from llama_index.core.llms import ChatMessage

async def program(given):
    history = [ChatMessage(role="user", content="Hello"), ChatMessage(role="assistant", content="Hello to you")]
    buffer = ChatMemoryBuffer.from_defaults(chat_history=history, token_limit=40)
    for number in range(10):
        buffer.put(ChatMessage(role="user", content=f"This is question number {number}."))
        buffer.put(ChatMessage(role="assistant", content="And this is its answer."))
    newest, everything = [str(message) for message in buffer.get()], len(buffer.get_all())
    buffer.reset()
    summary = ChatSummaryMemoryBuffer.from_defaults(token_limit=60, llm=given.llm)
    for number in range(10):
        summary.put(ChatMessage(role="user", content=f"This is question number {number}, and I drink tea."))
        summary.put(ChatMessage(role="assistant", content="And this is its answer."))
    first = summary.get()[0]
    return newest[-2:], everything, buffer.get_all(), first.role.value, "tea" in first.content
"""


class HashEmbedding(BaseEmbedding):
    """A bag of hashed words, as an embedding model of LlamaIndex."""

    model_name: str = "hashed"

    def _get_text_embedding(self, text):
        row = [0.0] * 256
        for word in re.findall(r"[a-z]+", text.lower()):
            row[zlib.crc32(word.encode()) % 256] += 1
        return row

    def _get_query_embedding(self, query):
        return self._get_text_embedding(query)

    async def _aget_query_embedding(self, query):
        return self._get_text_embedding(query)


class Noting(MockLLM):
    """A model of LlamaIndex that answers with one fact, whatever it is asked, and keeps what it was told."""

    told: list = Field(default_factory=list)

    def chat(self, messages, **options):
        self.told.append("\n".join(str(message.content) for message in messages))
        return ChatResponse(message=TheirMessage(role="assistant", content=self.answer))

    async def achat(self, messages, **options):
        return self.chat(messages, **options)

    def stream_chat(self, messages, **options):
        response = self.chat(messages, **options)
        return iter([ChatResponse(message=response.message, delta=response.message.content)])

    @property
    def answer(self):
        return f"<facts><fact>The user drinks tea number {len(self.told)}</fact></facts>"


def here(program):
    """The program with its import lines changed, and nothing else."""

    def changed(line):
        names = [name.strip() for name in line["names"].split(",")]
        systems = [name for name in names if name in MEMORIES]
        return f"from memory_core{'.systems' if systems else ''} import {', '.join(names)}"

    return re.sub(r"^from llama_index\S* import (?P<names>.+)$", changed, program, flags=re.MULTILINE)


def run(program, tmp_path, kind):
    given = SimpleNamespace(
        embed_model=HashEmbedding(),
        llm=Noting(),
        template=RichPromptTemplate,
        database=f"sqlite+aiosqlite:///{tmp_path}/{kind}.db",
    )
    names = {}
    exec(compile(program, f"the program of {kind}", "exec"), names)
    return asyncio.run(names["program"](given))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "result"),
    [
        pytest.param(
            VECTOR_MEMORY,
            (["user: Jerry likes juice."], ["user: Bob likes apples.", "assistant: Indeed, Bob likes apples."]),
            id="vector memory",
        ),
        pytest.param(
            QUEUE,
            (
                [
                    "user: Hello, world!",
                    "assistant: Hello, world to you too!",
                    "user: What is the capital of France?",
                    "assistant: The capital of France is Paris.",
                ],
                400,
                0,
            ),
            id="the queue",
        ),
        pytest.param(
            BLOCKS,
            (
                "system",
                [
                    "<memory>",
                    "<core_info>",
                    "My name is Logan. I live in Saskatoon.",
                    "</core_info>",
                    "<extracted_info>",
                    "</extracted_info>",
                    "</memory>",
                ],
                True,
            ),
            id="blocks",
        ),
        pytest.param(OWN_BLOCK, None, id="a block of one's own"),
        pytest.param(OWN_PROMPTS, (True, True, False, False), id="prompts of one's own"),
        pytest.param(DATABASE, ["user: Hello", "assistant: Hello to you"], id="a database"),
        pytest.param(
            BUFFERS,
            (
                ["user: This is question number 9.", "assistant: And this is its answer."],
                22,
                [],
                "system",
                True,
            ),
            id="chat buffers",
        ),
    ],
)
def test_a_program_of_llamaindex_runs_with_its_import_lines_changed(program, result, tmp_path):
    theirs, ours = (run(text, tmp_path, kind) for text, kind in ((program, "theirs"), (here(program), "ours")))
    gc.collect()  # the real library's connections, here and not in another test
    assert ours == theirs
    assert result is None or ours == result


def test_every_exception_of_the_parity_tests_has_its_row_and_every_row_names_a_test_that_exists():
    root = Path(__file__).resolve().parent.parent
    page = (root / "docs" / "how-to" / "coming-from-llamaindex.md").read_text(encoding="utf-8")
    table = page.partition("## What differs")[2].partition("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")][1:]
    tests = re.findall(
        r"^def (test_\w+)", (root / "tests" / "test_parity.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    exceptions = {test for test in tests if test != "test_random_conversations_give_the_same_memory_in_both_engines"}
    assert exceptions == set(re.findall(r"`tests/test_parity\.py::(\w+)`", "\n".join(rows)))
    assert all(len(row.split(" | ")) == 3 or row.endswith(" | |") for row in rows)
    assert page.count("| there (") == 1, "one table"
    promise = (root / "docs" / "promises.md").read_text(encoding="utf-8")
    assert "coming-from-llamaindex.md#what-differs" in promise


def test_every_name_of_the_page_of_differences_is_one_that_can_be_imported():
    page = Path(__file__).resolve().parent.parent / "docs" / "how-to" / "coming-from-llamaindex.md"
    lines = re.findall(r"`(from memory_core[\w.]* import [\w, ]+)`", page.read_text(encoding="utf-8"))
    assert len(lines) >= 4
    for line in lines:
        exec(line, {})
