"""The same conversations through this engine and through LlamaIndex's `Memory`: the same memory, step by step.

Settings that differ on purpose are set to the reference's behaviour in the long drive; each deliberate difference
has a test of its own below, with both engines side by side.
"""

import asyncio
import functools
import random
from dataclasses import dataclass, field
from enum import Enum, auto

import banks.prompt
import pytest
from llama_index.core.base.llms.types import ToolCallBlock as TheirToolCall
from llama_index.core.llms import ChatMessage as TheirMessage
from llama_index.core.memory import BaseMemoryBlock as TheirBlock
from llama_index.core.memory import InsertMethod as TheirInsertMethod
from llama_index.core.memory import Memory as TheirMemory
from llama_index.core.memory import StaticMemoryBlock as TheirStaticBlock
from llama_index.core.storage.chat_store.base_db import MessageStatus as TheirStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    ConfigError,
    Database,
    Memory,
    StaticMemoryBlock,
    ToolCallPart,
    lint,
)

CONVERSATIONS = 100
STEPS = 9


# -- blocks, once for each engine ------------------------------------------------------------------


def remembered(seen, messages):
    """What both recording blocks put into a context: how much they learned, and what they were read for."""
    if not seen:
        return ""
    last = f"{messages[-1].role.value} {messages[-1].content}" if messages else "nothing"
    return f"{len(seen)} seen, the last {seen[-1]}; read for {len(messages)} up to {last}"


def first_words(content, surplus):
    """Shorter by `surplus` words; every third time not at all, so that the second pass has to drop it."""
    words = content.split() if content else []  # the reference hands an empty list to a block that had nothing
    return " ".join(words[:-surplus] if surplus % 3 else words)


def lines(messages):
    return [f"{message.role.value}:{message.content}" for message in messages]


class Recorder(BaseMemoryBlock[str]):
    seen: list[str] = []

    async def _aget(self, messages=None, **kwargs):
        return remembered(self.seen, messages)

    async def _aput(self, messages):
        self.seen = [*self.seen, *lines(messages)]


class Shortener(Recorder):
    async def atruncate(self, content, tokens_to_truncate):
        return first_words(content, tokens_to_truncate)


class Quoter(Recorder):
    """Returns messages: they stand in front of the queue."""

    async def _aget(self, messages=None, **kwargs):
        return [ChatMessage(role="assistant", content=text) for text in self.seen[-2:]]


class TheirRecorder(TheirBlock[str]):
    seen: list[str] = []
    batches: int = 0

    async def _aget(self, messages=None, **kwargs):
        return remembered(self.seen, messages)

    async def _aput(self, messages):
        self.seen = [*self.seen, *lines(messages)]
        self.batches += 1


class TheirShortener(TheirRecorder):
    async def atruncate(self, content, tokens_to_truncate):
        return first_words(content, tokens_to_truncate)


class TheirQuoter(TheirRecorder):
    async def _aget(self, messages=None, **kwargs):
        return [TheirMessage(role="assistant", content=text) for text in self.seen[-2:]]


OURS = {"recorder": Recorder, "shortener": Shortener, "quoter": Quoter}
THEIRS = {"recorder": TheirRecorder, "shortener": TheirShortener, "quoter": TheirQuoter}


class Reference(TheirMemory):
    """The reference, saying which blocks it cut."""

    cut: set = set()

    async def _truncate_memory_blocks(self, content, *sizes):
        left = await super()._truncate_memory_blocks(dict(content), *sizes)
        self.cut = {name for name in content if (left.get(name) or None) != (content[name] or None)}
        return left


# -- one conversation in both engines --------------------------------------------------------------


@dataclass
class Pair:
    """Both engines with the same settings and blocks."""

    ours: Memory
    theirs: Reference
    runner: asyncio.Runner

    def put(self, spoken):
        """Messages as (role, text, extra): one by one is a bulk of one."""
        self.runner.run(self.theirs.aput_messages([their_message(m) for m in spoken]))
        return self.ours.put_messages([our_message(m) for m in spoken])

    def state(self):
        """Queue, archive and what every learning block was given: ours, theirs."""
        ours = {
            "active": lines(self.ours.get_all("active")),
            "archived": lines(self.ours.get_all("archived")),
            "received": {b.name: b.seen for b in self.ours.memory_blocks if isinstance(b, Recorder)},
        }
        theirs = {
            "active": lines(self.runner.run(self.theirs.aget_all(status=TheirStatus.ACTIVE))),
            "archived": lines(self.runner.run(self.theirs.aget_all(status=TheirStatus.ARCHIVED))),
            "received": {b.name: b.seen for b in self.theirs.memory_blocks if isinstance(b, TheirRecorder)},
        }
        return ours, theirs

    def contexts(self, method, question):
        """The context under an insert method: (its plan, ours, theirs)."""
        self.ours.configure(insert_method=method)
        self.theirs.insert_method = TheirInsertMethod(method)
        self.theirs.cut = set()
        made = self.ours.build_context(question)
        theirs = self.runner.run(self.theirs.aget(question))
        cut = {cut.part for cut in made.plan.cuts}
        return made, (lines(made.messages), cut), (lines(theirs), self.theirs.cut)


def our_message(spoken):
    role, text, extra = spoken
    return ChatMessage(role=role, content=text, additional_kwargs=extra)


def their_message(spoken):
    role, text, extra = spoken
    return TheirMessage(role=role, content=text, additional_kwargs=dict(extra))


@pytest.fixture(scope="module", autouse=True)
def template_compiled_once():
    """The reference compiles its one template anew for every context: a third of this file's time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(banks.prompt.env, "from_string", functools.cache(banks.prompt.env.from_string))
        yield


@pytest.fixture(scope="module")
def runner():
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def their_store(runner):
    store = SQLAlchemyChatStore(table_name="parity")
    yield store
    runner.run(store._async_engine.dispose())


@pytest.fixture(scope="module")
def our_database():
    return Database.open()


@pytest.fixture
def pair(runner, their_store, our_database):
    """Makes a pair: `blocks` as (kind, name, priority, static text)."""
    made = 0

    def make(blocks=(), *, insert_method="system", ours=None, **settings):
        nonlocal made
        made += 1
        session = f"{id(make)}-{made}"
        static = [StaticMemoryBlock(name=n, static_content=t, priority=p) for k, n, p, t in blocks if k == "static"]
        custom = [OURS[k](name=n, priority=p) for k, n, p, _ in blocks if k != "static"]
        by_name = {block.name: block for block in [*static, *custom]}
        parity = {
            "split_long_turns": False,
            "truncation_order": "smallest_first",
            "when_over": "return",
            "accounting": "reference",
        }
        mine = Memory.from_defaults(
            session_id=session,
            memory_blocks=[by_name[name] for _, name, _, _ in blocks],
            tokenizer_fn=str.split,
            insert_method=insert_method,
            engine=our_database.engine,
            **{**parity, **settings, **(ours or {})},
        )
        reference = Reference.from_defaults(
            session_id=session,
            memory_blocks=[
                TheirStaticBlock(name=n, static_content=t, priority=p)
                if k == "static"
                else THEIRS[k](name=n, priority=p)
                for k, n, p, t in blocks
            ],
            tokenizer_fn=str.split,
            insert_method=insert_method,
            chat_store=their_store,
            **settings,
        )
        return Pair(mine, reference, runner)

    return make


# -- the long drive --------------------------------------------------------------------------------


class Boundary(Enum):
    """The rules of SEMANTICS §5 and §6; the drive fails unless it reaches each of them."""

    EQUALITY_DOES_NOT_FLUSH = auto()
    BUDGET_IS_NOT_ROUNDED = auto()
    FLUSH_SIZE_IS_OVERSHOT = auto()
    NON_USER_HEADS_ARE_SWEPT = auto()
    NEWEST_TURN_IS_KEPT_WHOLE = auto()
    HUGE_MESSAGE_IS_KEPT = auto()
    GREETING_STAYS_UNTIL_THE_FIRST_FLUSH = auto()
    GREETING_LEAVES_WITH_THE_FIRST_FLUSH = auto()
    SEVERAL_BATCHES_AT_ONCE = auto()
    FLUSH_OF_A_BULK = auto()
    MESSAGE_WITHOUT_TOKENS_LEAVES = auto()
    TOOL_RESULT_LEAVES_WITH_ITS_CALL = auto()
    CONTEXT_FITS_EXACTLY = auto()
    CUT_BY_PRIORITY = auto()
    TIE_IS_CUT_IN_LIST_ORDER = auto()
    OWN_TRUNCATION_IS_ENOUGH = auto()
    SECOND_PASS_DROPS = auto()
    PRIORITY_0_ALONE_IS_OVER_THE_LIMIT = auto()
    QUEUE_ALONE_IS_OVER_THE_LIMIT = auto()
    EMPTY_BLOCK_IS_SKIPPED = auto()
    EMPTY_STATIC_TEXT_IS_PRINTED = auto()
    BLOCK_MESSAGES_STAND_IN_FRONT = auto()
    CUT_BLOCK_MESSAGES = auto()
    NO_USER_MESSAGE_TO_INSERT_INTO = auto()
    INPUT_IS_EMPTY_TEXT = auto()


@dataclass
class Reached:
    """Which boundaries the drive has met, judged from what happened and not from what should have."""

    counts: dict = field(default_factory=lambda: dict.fromkeys(Boundary, 0))

    def see(self, boundary, condition):
        self.counts[boundary] += bool(condition)

    def put(self, spoken, receipt, memory, batches):
        status, config = memory.status(), memory.config
        queue = memory.messages("active")
        plan = receipt.flushed
        self.see(Boundary.EQUALITY_DOES_NOT_FLUSH, not plan and status.queue_tokens == config.history_budget)
        self.see(
            Boundary.BUDGET_IS_NOT_ROUNDED,
            not plan and int(config.history_budget) == status.queue_tokens < config.history_budget,
        )
        self.see(Boundary.SEVERAL_BATCHES_AT_ONCE, batches > 1)
        self.see(Boundary.FLUSH_OF_A_BULK, plan and len(spoken) > 1)
        greeting = queue[0].message.role != "user"
        self.see(Boundary.GREETING_STAYS_UNTIL_THE_FIRST_FLUSH, greeting and len(queue) > 1)
        over = status.queue_tokens > config.history_budget
        self.see(Boundary.NEWEST_TURN_IS_KEPT_WHOLE, over and len(queue) > 1)
        self.see(Boundary.HUGE_MESSAGE_IS_KEPT, over and len(queue) == 1)
        if not plan:
            return
        sizes = [message.tokens for message in plan.leave]
        roles = [str(message.role) for message in plan.leave]
        self.see(Boundary.FLUSH_SIZE_IS_OVERSHOT, batches == 1 and plan.tokens > config.flush_size)
        self.see(Boundary.NON_USER_HEADS_ARE_SWEPT, roles[-1] != "user" and sum(sizes[:-1]) >= config.flush_size)
        self.see(Boundary.GREETING_LEAVES_WITH_THE_FIRST_FLUSH, status.flushes == 1 and roles[0] != "user")
        self.see(Boundary.MESSAGE_WITHOUT_TOKENS_LEAVES, 0 in sizes)
        self.see(Boundary.TOOL_RESULT_LEAVES_WITH_ITS_CALL, "tool" in roles)

    def context(self, made, question, config):
        plan, texts = made.plan, "\n".join(lines(made.messages))
        asked = {part.name: part for part in plan.granted}
        cut = {one.part for one in plan.cuts}
        losers = [asked[name] for name in cut]
        winners = [part for part in plan.granted if part.priority and part.asked and part.name not in cut]
        self.see(Boundary.CONTEXT_FITS_EXACTLY, plan.asked == plan.token_limit and asked)
        self.see(Boundary.CUT_BY_PRIORITY, any(a.priority < b.priority for a in losers for b in winners))
        self.see(Boundary.TIE_IS_CUT_IN_LIST_ORDER, any(a.priority == b.priority for a in losers for b in winners))
        own = [one for one in plan.cuts if one.rule == "own_truncation"]
        self.see(Boundary.OWN_TRUNCATION_IS_ENOUGH, own and not plan.over_by and asked[own[-1].part].granted)
        twice = {one.part for one in own} & {one.part for one in plan.cuts if one.rule == "dropped"}
        self.see(Boundary.SECOND_PASS_DROPS, twice)
        zero = sum(part.granted for part in plan.granted if part.priority == 0)
        self.see(Boundary.PRIORITY_0_ALONE_IS_OVER_THE_LIMIT, zero > plan.token_limit)
        self.see(Boundary.QUEUE_ALONE_IS_OVER_THE_LIMIT, plan.queue_granted > plan.token_limit)
        self.see(Boundary.EMPTY_BLOCK_IS_SKIPPED, texts and any(not p.pieces for p in plan.granted if p.name not in cut))
        self.see(Boundary.EMPTY_STATIC_TEXT_IS_PRINTED, "<empty>\n\n</empty>" in texts)
        self.see(Boundary.BLOCK_MESSAGES_STAND_IN_FRONT, "quotes" in asked and asked["quotes"].granted)
        self.see(Boundary.CUT_BLOCK_MESSAGES, "quotes" in cut)
        appended = config.insert_method == "user" and made.messages[-1].content.startswith("<memory>")
        self.see(Boundary.NO_USER_MESSAGE_TO_INSERT_INTO, appended and len(made.messages) > 1 and texts.count("user:") == 1)
        self.see(Boundary.INPUT_IS_EMPTY_TEXT, question == "" and "read for" in texts)


def spoken_text(rng, size, number):
    """A text of `size` words, different every time."""
    return " ".join([f"w{number}", *("x" for _ in range(size - 1))]) if size else ""


def a_size(rng, limit):
    return rng.choice([0, 1, 2, 3, 4, 5, 6, 7, rng.randint(1, 12), rng.randint(1, max(1, limit // 3)), limit + 5])


def a_script(rng, limit, budget):
    """Steps of messages; no system message, and never a queue above the budget without a user message."""
    messages, number = [], 0

    def say(role, size=None):
        nonlocal number
        number += 1
        extra = {"tool_call_id": f"c{number}"} if role == "tool" else {}
        messages.append((role, spoken_text(rng, a_size(rng, limit) if size is None else size, number), extra))

    greeting = rng.random() < 0.35
    if greeting:
        say("assistant", rng.randint(0, max(1, int(budget) // 2)))
    for _ in range(rng.randint(STEPS // 2, 2 * STEPS)):
        say("user")
        for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
            say("assistant")
            say("tool")
        if rng.random() < 0.85:
            say("assistant")
    steps = []
    while messages:
        first = bool(not steps and greeting and rng.random() < 0.6)
        count = 1 if first or rng.random() < 0.6 else rng.randint(2, 9)
        steps.append(messages[:count])
        messages = messages[count:]
    return steps[:STEPS]


def some_blocks(rng, limit):
    text = " ".join("s" for _ in range(rng.randint(1, max(2, limit // 4))))
    long = " ".join("l" for _ in range(limit + rng.randint(0, 9)))
    choices = [
        ("static", "core", rng.randint(0, 3), text),
        ("static", "other", rng.randint(1, 2), text + " more"),
        ("static", "empty", rng.randint(0, 2), ""),
        ("recorder", "notes", rng.randint(0, 3), None),
        ("recorder", "more notes", rng.randint(0, 3), None),
        ("shortener", "digest", rng.randint(1, 3), None),
        ("quoter", "quotes", rng.randint(0, 3), None),
    ]
    chosen = rng.sample(choices, rng.randint(0, 4))
    if rng.random() < 0.08:
        chosen.append(("static", "rules", 0, long))
    return chosen


def test_random_conversations_give_the_same_memory_in_both_engines(pair):
    rng = random.Random(20260922)
    reached = Reached()
    for _ in range(CONVERSATIONS):
        limit = rng.choice([rng.randint(8, 40), rng.randint(20, 80), 200])
        ratio = rng.choice([0.05, 0.3, 0.5, 0.55, 0.7, 0.9, 1.0])
        size = rng.choice([1, rng.randint(1, limit), max(1, limit // 10), limit])
        settings = {"token_limit": limit, "chat_history_token_ratio": ratio, "token_flush_size": size}
        blocks = some_blocks(rng, limit)
        both = pair(blocks, **settings)
        method = rng.choice(["system", "user"])
        for step in a_script(rng, limit, limit * ratio):
            what = f"{settings} {blocks} {step}"
            before = their_batches(both)
            receipt = both.put(step)
            ours, theirs = both.state()
            assert ours == theirs, what
            reached.put(step, receipt, both.ours, their_batches(both) - before)
            question = rng.choice([None, "", "what was it", "a question of six words here"])
            # Both methods at every step: the next one begins with the method this one ended with.
            for method in (method, "user" if method == "system" else "system"):
                made, mine, reference = both.contexts(method, question)
                assert mine == reference, (what, method, question)
                reached.context(made, question, both.ours.config)
    print({b.name:n for b,n in reached.counts.items()})
    assert [boundary.name for boundary, count in reached.counts.items() if not count] == []


def their_batches(both):
    return max((block.batches for block in both.theirs.memory_blocks if isinstance(block, TheirRecorder)), default=0)
