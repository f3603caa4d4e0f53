"""The same conversations through this engine and through LlamaIndex's `Memory`: the same memory, step by step.

Settings that differ on purpose are set to the reference's behaviour in the long drive; each deliberate difference
has a test of its own below, with both engines side by side.
"""

import asyncio
import functools
import itertools
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
from pydantic import Field
from sqlalchemy.exc import IntegrityError

from memory_core import (
    BaseMemoryBlock,
    ChatMessage,
    ConfigError,
    Database,
    Memory,
    StaticMemoryBlock,
    ToolCallPart,
)
from memory_inspector.lab.linting import findings
from memory_inspector.lab.variants import variant_of

pytestmark = pytest.mark.slow

_numbers = itertools.count(1)

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
    seen: list[str] = Field(default_factory=list)

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
    seen: list[str] = Field(default_factory=list)
    batches: list[int] = Field(default_factory=list)
    """Messages in each batch it was handed."""

    async def _aget(self, messages=None, **kwargs):
        return remembered(self.seen, messages)

    async def _aput(self, messages):
        self.seen = [*self.seen, *lines(messages)]
        self.batches = [*self.batches, len(messages)]


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

    cut: set = Field(default_factory=set)

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

    def make(blocks=(), *, insert_method="system", ours=None, **settings):
        session = f"session {next(_numbers)}"
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
    FURTHER_BATCH_IS_A_WHOLE_FLUSH_SIZE_TOO = auto()
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
        status, config = memory.session.status(), memory.session.config
        queue = memory.session.messages("active")
        plan = receipt.flushed
        self.see(Boundary.EQUALITY_DOES_NOT_FLUSH, not plan and status.queue_tokens == config.history_budget)
        self.see(
            Boundary.BUDGET_IS_NOT_ROUNDED,
            not plan and int(config.history_budget) == status.queue_tokens < config.history_budget,
        )
        self.see(Boundary.SEVERAL_BATCHES_AT_ONCE, len(batches) > 1)
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
        self.see(Boundary.FLUSH_SIZE_IS_OVERSHOT, len(batches) == 1 and plan.tokens > config.flush_size)
        self.see(Boundary.NON_USER_HEADS_ARE_SWEPT, roles[-1] != "user" and sum(sizes[:-1]) >= config.flush_size)
        if len(batches) > 1:
            later = list(plan.leave)[-batches[-1] :]
            starts = [index for index, message in enumerate(later) if str(message.role) == "user"]
            without_the_rest = status.queue_tokens + sum(m.tokens for m in later[starts[1] :]) if starts[1:] else None
            enough = without_the_rest is not None and without_the_rest <= config.history_budget
            self.see(Boundary.FURTHER_BATCH_IS_A_WHOLE_FLUSH_SIZE_TOO, enough)
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
        self.see(
            Boundary.EMPTY_BLOCK_IS_SKIPPED, texts and any(not p.pieces for p in plan.granted if p.name not in cut)
        )
        self.see(Boundary.EMPTY_STATIC_TEXT_IS_PRINTED, "<empty>\n\n</empty>" in texts)
        self.see(Boundary.BLOCK_MESSAGES_STAND_IN_FRONT, "quotes" in asked and asked["quotes"].granted)
        self.see(Boundary.CUT_BLOCK_MESSAGES, "quotes" in cut)
        appended = config.insert_method == "user" and made.messages[-1].content.startswith("<memory>")
        self.see(
            Boundary.NO_USER_MESSAGE_TO_INSERT_INTO, appended and len(made.messages) > 1 and texts.count("user:") == 1
        )
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
        count = 1 if first or rng.random() < 0.6 else rng.choice([rng.randint(2, 9), 30])
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
        size = rng.choice([1, rng.randint(1, limit), max(1, limit // 10), max(1, limit // 4), limit])
        settings = {"token_limit": limit, "chat_history_token_ratio": ratio, "token_flush_size": size}
        blocks = some_blocks(rng, limit)
        both = pair(blocks, **settings)
        methods = rng.sample(["system", "user"], 2)
        for step in a_script(rng, limit, limit * ratio):
            what = f"{settings} {blocks} {step}"
            before = len(their_batches(both))
            receipt = both.put(step)
            ours, theirs = both.state()
            assert ours == theirs, what
            reached.put(step, receipt, both.ours, their_batches(both)[before:])
            question = rng.choice([None, "", "what was it", "a question of six words here"])
            for method in methods:
                made, mine, reference = both.contexts(method, question)
                assert mine == reference, (what, method, question)
                reached.context(made, question, both.ours.session.config)
            methods.reverse()  # the next step begins with the method this one ended with
    assert [boundary.name for boundary, count in reached.counts.items() if not count] == []


def their_batches(both):
    """Messages in each batch that the reference has handed to its blocks so far."""
    blocks = (block for block in both.theirs.memory_blocks if isinstance(block, TheirRecorder))
    return next((block.batches for block in blocks), [])


# -- the deliberate differences, one by one ------------------------------------------------------------


def say(role, words, name="x", **extra):
    return (role, " ".join([name, *(["x"] * (words - 1))]) if words else "", extra)


def active(both):
    ours, theirs = both.state()
    return ours["active"], theirs["active"]


def roles(texts):
    return [text.partition(":")[0] for text in texts]


def test_system_messages_before_the_first_user_message_stay_where_the_reference_flushes_them(pair):
    both = pair(token_limit=20, token_flush_size=1)
    both.put([say("system", 2, "rules"), say("user", 5), say("assistant", 5), say("user", 5), say("assistant", 3)])
    ours, theirs = active(both)
    assert ours == ["system:rules x", "user:x x x x x", "assistant:x x x"]
    assert theirs == ["user:x x x x x", "assistant:x x x"]


def test_pinned_system_messages_are_outside_the_history_budget(pair):
    both = pair(token_limit=20, token_flush_size=1)
    both.put([say("system", 6, "rules"), say("user", 5), say("assistant", 4), say("user", 5)])
    ours, theirs = active(both)
    rest = ["user", "assistant", "user"]
    assert (roles(ours), roles(theirs)) == (["system", *rest], rest)


def test_a_queue_of_assistant_messages_keeps_its_newest_where_the_reference_is_emptied(pair):
    both = pair(token_limit=14, token_flush_size=1)
    both.put([say("assistant", 4, "a"), say("assistant", 4, "b"), say("assistant", 4, "c")])
    assert active(both) == (["assistant:b x x x", "assistant:c x x x"], [])


def test_a_long_turn_is_thinned_between_tool_steps_where_the_reference_lets_it_grow(pair):
    both = pair(token_limit=50, token_flush_size=1, ours={"split_long_turns": True})
    both.put([say("user", 5, "question")])
    for number in range(50):
        both.put([say("assistant", 5, f"a{number}"), say("tool", 5, f"t{number}", tool_call_id=f"c{number}")])
    ours, theirs = active(both)
    assert len(theirs) == 101
    assert ours == ["user:question x x x x", "assistant:a48 x x x x", "tool:t48 x x x x", *ours[3:]]
    assert roles(ours) == ["user", *["assistant", "tool"] * 2]
    assert both.ours.session.status().queue_tokens <= both.ours.session.config.history_budget


def test_tool_calls_are_counted_where_the_reference_takes_them_for_nothing(pair):
    both = pair(token_limit=100, token_flush_size=1, ours={"accounting": "content"})
    arguments = {"text": " ".join(["x"] * 100)}
    for number in range(10):
        both.put([say("user", 1, "q")])
        call = {"tool_call_id": str(number), "tool_name": "look", "tool_kwargs": arguments}
        both.ours.put(ChatMessage(role="assistant", parts=[ToolCallPart(**call)]))
        both.runner.run(both.theirs.aput(TheirMessage(role="assistant", blocks=[TheirToolCall(**call)])))
    ours, theirs = active(both)
    assert (len(ours), len(theirs)) == (2, 20)


def test_the_largest_number_is_cut_first_where_the_reference_cuts_1_first(pair):
    blocks = [("static", "most", 1, "m m m"), ("static", "least", 2, "l l l")]
    both = pair(blocks, token_limit=10, token_flush_size=1, ours={"truncation_order": "largest_first"})
    both.put([say("user", 6)])
    _, (_, ours), (_, theirs) = both.contexts("system", None)
    assert (ours, theirs) == ({"least"}, {"most"})


def test_the_archive_is_by_identity_where_the_reference_archives_whatever_is_oldest(pair):
    both = pair([("recorder", "notes", 0, None)], token_limit=20, token_flush_size=1)
    both.put([say("user", 5, "one"), say("assistant", 5, "two")])
    # Another writer of the reference's table removes the oldest message while a flush is decided upon.
    store, session = both.theirs.sql_store, both.theirs.session_id

    original = type(store).archive_oldest_messages

    async def late(self, key, n):
        await self.delete_oldest_messages(key, 1)
        return await original(self, key, n)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store), "archive_oldest_messages", late)
        both.put([say("user", 5, "three")])
    archived = both.runner.run(store.get_messages(session, status=TheirStatus.ARCHIVED))
    assert "three x x x x" in [message.content for message in archived]  # it had never been chosen to leave
    assert [m.message.content for m in both.ours.session.messages("archived")] == ["one x x x x", "two x x x x"]
    events = both.ours.events(kinds=["flush_planned"])
    assert [event.event.seqs for event in events] == [((1, 2),)]
    assert lines(both.ours.get_all("active")) == ["user:three x x x x"]


def test_set_keeps_the_archive_and_flushes_where_the_reference_wipes_and_does_not(pair):
    both = pair(token_limit=20, token_flush_size=1)
    both.put([say("user", 8, "old"), say("assistant", 2), say("user", 3), say("assistant", 2)])
    new = [say("user", 8, "one"), say("assistant", 2), say("user", 8, "two"), say("assistant", 2)]
    both.ours.set([our_message(m) for m in new])
    both.runner.run(both.theirs.aset([their_message(m) for m in new]))
    ours, theirs = both.state()
    assert [text.split()[0] for text in ours["archived"]] == ["user:old", "assistant:x", "user:one", "assistant:x"]
    assert (len(ours["active"]), theirs["archived"], len(theirs["active"])) == (2, [], 4)


@pytest.mark.parametrize(("size", "effective"), [(200, 70), (0, 10), (-1, 10)])
def test_an_impossible_flush_size_is_an_error_where_the_reference_changes_it(pair, their_store, size, effective):
    theirs = TheirMemory.from_defaults(token_limit=100, token_flush_size=size, chat_store=their_store)
    assert theirs.token_flush_size == effective
    with pytest.raises(ConfigError, match=f"not {size}"):
        Memory.from_defaults(token_limit=100, token_flush_size=size)


def test_an_impossible_ratio_is_an_error_where_the_reference_takes_it(their_store):
    for ratio in (0.0, -1.0, 5.0):
        theirs = TheirMemory.from_defaults(chat_history_token_ratio=ratio, chat_store=their_store)
        assert theirs.chat_history_token_ratio == ratio
        with pytest.raises(ConfigError, match=str(ratio)):
            Memory.from_defaults(chat_history_token_ratio=ratio)


def test_the_default_flush_size_is_a_tenth_of_the_limit_where_the_reference_empties_small_queues(their_store):
    for limit, reference in ((1000, 700), (4000, 3000), (30_000, 3000)):
        theirs = TheirMemory.from_defaults(token_limit=limit, chat_store=their_store)
        assert theirs.token_flush_size == reference
        assert Memory.from_defaults(token_limit=limit).session.config.flush_size == limit // 10
    odd = Memory.from_defaults(token_limit=1000, token_flush_size=750)
    assert [finding.sentence for finding in findings(variant_of(odd))] == [
        "Flush size 750 is above the history budget of 700: every flush empties the queue down to one turn."
    ]


def test_chat_history_on_a_session_with_messages_is_an_error_where_the_reference_replaces_it_all(tmp_path):
    ours, theirs = f"sqlite:///{tmp_path}/ours.db", f"sqlite+aiosqlite:///{tmp_path}/theirs.db"
    Memory.from_defaults("s", database_uri=ours).put(ChatMessage(content="old"))
    with pytest.raises(ConfigError, match="has messages already"):
        Memory.from_defaults("s", database_uri=ours, chat_history=[ChatMessage(content="new")])
    assert lines(Memory.from_defaults("s", database_uri=ours).get_all()) == ["user:old"]

    async def drive():
        store = SQLAlchemyChatStore(table_name="t", async_database_uri=theirs)
        await store.add_message("s", TheirMessage(content="old"))
        # What `from_defaults(chat_history=...)` does, without its own event loop.
        await store.set_messages("s", [TheirMessage(content="new")])
        found = await store.get_messages("s")
        await store._async_engine.dispose()
        return lines(found)

    assert asyncio.run(drive()) == ["user:new"]


def test_putting_no_messages_is_nothing_where_the_reference_fails(pair):
    both = pair(token_limit=20, token_flush_size=1)
    assert both.ours.put_messages([]).seqs == ()
    with pytest.raises(IntegrityError):
        both.runner.run(both.theirs.aput_messages([]))


def test_blocks_see_an_input_that_is_a_message_where_the_reference_ignores_it(pair):
    both = pair([("recorder", "notes", 0, None)], token_limit=20, token_flush_size=1)
    both.put([say("user", 9, "one"), say("assistant", 5), say("user", 3)])
    ours = both.ours.get(ChatMessage(role="user", content="what?"))
    theirs = both.runner.run(both.theirs.aget(TheirMessage(role="user", content="what?")))
    assert "read for 2 up to user what?" in ours[0].content
    assert "read for 1 up to user x x x" in theirs[0].content


def test_many_batches_are_one_delivery_where_the_reference_hands_them_over_one_by_one(pair):
    both = pair([("recorder", "notes", 0, None)], token_limit=50, token_flush_size=1)
    both.put([say("user", 5, f"m{number}") for number in range(40)])
    assert (len(their_batches(both)), len(both.ours.session.deliveries())) == (33, 1)
    ours, theirs = both.state()
    assert ours == theirs


def test_a_reading_that_fails_costs_one_block_where_the_reference_fails_whole(pair):
    def broken(self, messages=None, **kwargs):
        raise RuntimeError("no such luck")

    both = pair([("recorder", "notes", 0, None), ("static", "core", 0, "Logan")], token_limit=20, token_flush_size=1)
    both.put([say("user", 3)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Recorder, "_aget", broken)
        patch.setattr(TheirRecorder, "_aget", broken)
        assert "Logan" in both.ours.get()[0].content
        with pytest.raises(RuntimeError, match="no such luck"):
            both.runner.run(both.theirs.aget())
