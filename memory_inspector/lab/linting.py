"""Configuration linter: findings with numbers, each with a change that fixes it.

    for finding in findings(variant_of(memory), script_of(memory)):
        print(finding.severity, finding.sentence)

Pure: reads only settings, fixed texts and message sizes. A fix is offered only if the rules, run again with it, no
longer report the finding and report no new error.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from memory_core.agent.tools import definition_tokens, tool_specs
from memory_core.blocks import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    StaticMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.blocks.base import frame_tokens, item_tokens
from memory_core.blocks.static import static_content
from memory_core.config import MemoryConfig
from memory_core.engine.context import share_tokens
from memory_core.errors import ConfigError
from memory_core.messages import ChatMessage, MessageRole
from memory_core.planning.context_plan import RESERVED_WORDS, Part, cut_first
from memory_core.planning.fact_merging import condense_target, limit_for
from memory_core.planning.rendering import InsertMethod, neutralise
from memory_core.planning.retrieval_plan import budget_for
from memory_core.text import capitalised, listed
from memory_core.tokens import MESSAGE_OVERHEAD, MessageTokens, TokenCounter, Tokenizer, counter_for
from memory_inspector.lab.script import Script
from memory_inspector.lab.sizes import FACT_TOKENS, queued_sizes, replay_flushes
from memory_inspector.lab.variants import Variant, VariantChange

Severity = Literal["error", "warning", "note"]
"""An error affects every prompt, a warning is probably a mistake, a note is informative."""

LARGE_RECALL = 8_000
"""Tokens of recalled turns that suffice per prompt: they include 98.6 % of the messages that answer the question
(benchmarks/README.md)."""

CACHED_FROM = 1_024
"""Minimum prefix in tokens that OpenAI caches."""

HISTORY_RATIO = 0.7
"""Suggested queue share of the limit; LlamaIndex's default."""

TOP_K = 10
"""Suggested number of results where a block asks for as many as fit."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem or probable mistake in a configuration."""

    rule: str
    severity: Severity
    sentence: str
    """The finding in plain text; may contain block names."""
    evidence: Mapping[str, int] = field(default_factory=dict)
    """Numbers that the sentence states, by name; in tokens unless the name says otherwise."""
    changes: tuple[VariantChange, ...] = ()
    """Changes that together fix the finding (`Variant.with_changes`); empty if no such fix is known."""
    block: str | None = None
    """Block concerned, if any."""


def findings(
    variant: Variant, script: Script | None = None, *, tokenizer_fn: Tokenizer | None = None
) -> tuple[Finding, ...]:
    """Return problems of a configuration, most severe first.

    With a conversation, its opening system messages and its first flush are considered as well. `tokenizer_fn` is the
    memory's custom tokenizer, if any.

    Raises:
        ConfigError: The configuration is invalid.
    """
    counter = variant.config.counting(counter_for(tokenizer_fn, encoding=variant.config.encoding))
    conversation = _Conversation.of(script, counter)
    before = _errors(_Measured(variant, counter, conversation))

    def mends(rule: "_Rule", finding: Finding, remedy: Sequence[VariantChange]) -> bool:
        try:
            # A candidate is tried on the whole configuration: it may mend its finding and break something else.
            measured = _Measured(variant.with_changes(variant.name, remedy), counter, conversation)
        except ConfigError:
            return False
        # Errors that existed before may remain; only new ones rule a candidate out.
        remaining = {(other.rule, other.block) for other, _ in rule(measured)}
        return (finding.rule, finding.block) not in remaining and _errors(measured) <= before

    results = []
    measured = _Measured(variant, counter, conversation)
    for rule in _RULES:
        for finding, remedies in rule(measured):
            changes = next((tuple(remedy) for remedy in remedies if mends(rule, finding, remedy)), ())
            results.append(replace(finding, changes=changes))
    return tuple(sorted(results, key=lambda finding: ("error", "warning", "note").index(finding.severity)))


_Remedy = Sequence[VariantChange]
_Fixable = tuple[Finding, Sequence[_Remedy]]
"""A finding with candidate fixes, least invasive first."""
_Rule = Callable[["_Measured"], Iterator[_Fixable]]


def _report(
    rule: str,
    severity: Severity,
    sentence: str,
    evidence: Mapping[str, int],
    *remedies: _Remedy,
    block: str | None = None,
) -> _Fixable:
    return Finding(rule, severity, sentence, evidence, block=block), remedies


@dataclass(frozen=True)
class _Conversation:
    """Messages of a conversation with their sizes; empty if no conversation is passed."""

    messages: tuple[ChatMessage, ...] = ()
    sizes: tuple[MessageTokens, ...] = ()
    protected: Mapping[str, int] = field(default_factory=dict)
    """Number of active facts written or changed by people, by block."""

    @classmethod
    def of(cls, script: Script | None, counter: TokenCounter) -> "_Conversation":
        messages = tuple(script.messages) if script is not None else ()
        sizes = tuple(counter.message(message) for message in messages)
        return cls(messages, sizes, _protected(script) if script is not None else {})

    @property
    def opening(self) -> Sequence[MessageTokens]:
        """Sizes of the opening system messages, which are pinned."""
        users = [place for place, message in enumerate(self.messages) if message.role is MessageRole.USER]
        # Without a user's message, everything is opening.
        before = zip(self.messages[: users[0] if users else None], self.sizes, strict=False)
        return [size for message, size in before if message.role is MessageRole.SYSTEM]


def _protected(script: Script) -> dict[str, int]:
    texts: dict[str, set[str]] = {}
    for curated in (step.curated for step in script.steps if step.curated is not None):
        of_block = texts.setdefault(curated.block, set())
        for change in curated.changes:
            # By text: a change set names the version before and after, and a fact that was confirmed twice counts once.
            if change.before is not None:
                of_block.discard(change.before.text)
            if change.after is not None and change.after.state == "active":
                of_block.add(change.after.text)
    return {block: len(protected) for block, protected in texts.items()}


class _Measured:
    """A configuration with the token sizes that are the same in every prompt."""

    def __init__(self, variant: Variant, counter: TokenCounter, conversation: _Conversation) -> None:
        self.config: MemoryConfig = variant.config
        # Disabled blocks are in no prompt, so no rule looks at them.
        self.blocks = [block for block in variant.make_blocks() if block.enabled]
        self.conversation = conversation
        self.counter = counter
        names = [block.name for block in self.blocks]
        self._sizes = {
            block.name: self._static(block, names) for block in self.blocks if isinstance(block, StaticMemoryBlock)
        }

    def _static(self, block: StaticMemoryBlock, names: Sequence[str]) -> int:
        # Escaped as in a prompt, since escaping adds tokens.
        content = static_content(block.static_content, block.text, lambda text: neutralise(text, names))
        accounting = self.config.accounting
        items = sum(item_tokens(item, self.counter, accounting) for item in content.items)
        return items + frame_tokens(block.name, self.counter, accounting)

    @property
    def limit(self) -> int:
        return self.config.limit

    @property
    def queue_tokens(self) -> int:
        """Tokens of a full queue just before it is flushed, at most the limit."""
        return int(min(self.config.history_budget, self.config.room))

    @property
    def never_cut(self) -> dict[str, int]:
        """Tokens of the static texts that are in every prompt, by block."""
        # A static text is cut whole, so only with priority 0 is it in every prompt.
        return {block.name: self._sizes[block.name] for block in self.blocks if _fixed(block)}

    @property
    def pinned(self) -> int:
        return sum(size.by(self.config.accounting) for size in self.conversation.opening)

    @property
    def certain(self) -> int:
        """Minimum tokens of every prompt."""
        outer = 0
        # Markup around all blocks counts only if billed. Without a system message of the session, one is made for it.
        if self.never_cut and self.config.accounting == "billed":
            made = self.config.insert_method is InsertMethod.SYSTEM and not self.pinned
            outer = frame_tokens("memory", self.counter, "billed") + (MESSAGE_OVERHEAD if made else 0)
        return self.config.reserved_tokens + self.pinned + sum(self.never_cut.values()) + outer

    def size(self, block: StaticMemoryBlock) -> int:
        return self._sizes[block.name]

    @property
    def cut_first(self) -> list[BaseMemoryBlock[Any]]:
        """Blocks that may be cut, in order."""
        blocks = {block.name: block for block in self.blocks}
        parts = [Part(block.name, block.priority, ()) for block in self.blocks]
        return [blocks[part.name] for part in cut_first(parts, self.config.truncation_order)]

    @property
    def core(self) -> list[StaticMemoryBlock]:
        """Static blocks whose text an agent may edit with tools."""
        return [
            block
            for block in self.blocks
            if isinstance(block, StaticMemoryBlock) and not block.read_only and isinstance(block.static_content, str)
        ]

    @property
    def archive(self) -> BaseMemoryBlock[Any] | None:
        """The facts block that agent tools write to: the first that does not learn by itself."""
        candidates = (
            b for b in self.blocks if isinstance(b, FactExtractionMemoryBlock) and not b.accept_short_term_memory
        )
        return next(candidates, None) if self.core else None

    def set(self, name: str, value: Any) -> VariantChange:
        return VariantChange(name, self.config.model_dump(mode="json")[name], value)

    def set_limit(self, limit: int) -> list[VariantChange]:
        """Return the changes to a new token limit; a flush size above it becomes a tenth of it."""
        changes = [self.set("token_limit", limit)]
        size = self.config.token_flush_size
        # None stands for a tenth of the limit.
        return [*changes, self.set("token_flush_size", None)] if size is not None and size > limit else changes

    def limit_leaving(self, tokens: int) -> list[VariantChange]:
        """Return the changes to a token limit, a multiple of 100, with room for these tokens beside a full queue.

        `tokens` include those reserved.
        """
        # The queue takes `ratio` of the room and the rest must hold the tokens; a ratio of 1 leaves no rest.
        ratio, reserved = self.config.chat_history_token_ratio, self.config.reserved_tokens
        least = reserved + (tokens - reserved) / (1 - ratio) if ratio < 1 else 2 * tokens - reserved
        # Rounded first, as a binary fraction just above a whole hundred would add another hundred.
        return self.set_limit(100 * math.ceil(round(least / 100, 6)))


def _fixed(block: BaseMemoryBlock[Any]) -> bool:
    return isinstance(block, StaticMemoryBlock) and block.priority == 0


def _set(block: BaseMemoryBlock[Any], name: str, value: Any) -> VariantChange:
    return VariantChange(f"{block.name}.{name}", block.settings()[name], value)


def _errors(measured: _Measured) -> set[tuple[str, str | None]]:
    return {(finding.rule, finding.block) for rule in _ERRORS for finding, _ in rule(measured)}


# -- the rules --------------------------------------------------------------------------------------


def _over_limit(measured: _Measured) -> Iterator[_Fixable]:
    """Report texts that are never cut and leave no room for the conversation."""
    needed, limit = measured.certain, measured.limit
    # With the limit itself used up, no message fits either, so equality is an error.
    if needed < limit:
        return
    # The largest text first: giving up one block may be enough.
    largest = sorted(measured.never_cut.items(), key=lambda size: -size[1])
    blocks = {block.name: block for block in measured.blocks}
    reserved = measured.config.reserved_tokens
    several = len(largest) + bool(measured.pinned) > 1 or bool(reserved)
    names = [RESERVED_WORDS] if reserved else []
    names += ["the system messages"] if measured.pinned else []
    # With a larger limit, a text that is cut whole may turn out not to fit either: one fix makes room for both.
    whole = [measured.size(b) for b in measured.blocks if isinstance(b, StaticMemoryBlock) and b.priority]
    who = listed([*names, *(f"{name} (priority 0)" for name in measured.never_cut)])
    yield _report(
        "over_limit",
        "error",
        f"{capitalised(who)} {'need' if several else 'needs'} {needed:,} of {limit:,} tokens and {_is(several)} never "
        "cut: every prompt is over the limit.",
        {"needed": needed, "limit": limit, "priority": 0},
        measured.limit_leaving(needed),
        measured.set_limit(needed + 1),
        measured.set_limit(needed + max(whole, default=0) + 1),
        *([_set(blocks[name], "priority", 1) for name, _ in largest[:n]] for n in range(1, len(largest) + 1)),
        *([_set(blocks[name], "enabled", False) for name, _ in largest[:n]] for n in range(1, len(largest) + 1)),
    )


def _too_large(measured: _Measured) -> Iterator[_Fixable]:
    """Report static texts that are cut whole and do not fit into the limit beside the texts that are never cut."""
    certain, limit = measured.certain, measured.limit
    for block in measured.blocks:
        # Texts that are never cut and pass the limit by themselves are reported by `over_limit`.
        if not isinstance(block, StaticMemoryBlock) or block.priority == 0 or certain >= limit:
            continue
        size = measured.size(block)
        if size + certain < limit:
            continue
        beside = f" beside {certain:,} that are never cut" if certain else ""
        yield _report(
            "too_large",
            "error",
            f"{block.name} can never be granted anything: it is cut whole, and its {size:,} tokens do not fit into "
            f"the limit of {limit:,}{beside}.",
            {"size": size, "certain": certain, "limit": limit},
            measured.limit_leaving(size + certain),
            measured.set_limit(size + certain + 1),
            [_set(block, "enabled", False)],
            block=block.name,
        )


def _no_room(measured: _Measured) -> Iterator[_Fixable]:
    """Report texts that are never cut and leave less room than one fact or stored turn needs."""
    remaining, fixed = measured.limit - measured.certain, sorted(measured.never_cut.items(), key=lambda size: -size[1])
    names = [block.name for block in measured.cut_first if not isinstance(block, StaticMemoryBlock)]
    # No room at all is reported by `over_limit`.
    if not names or not 0 < remaining < FACT_TOKENS:
        return
    blocks = {block.name: block for block in measured.blocks}
    yield _report(
        "no_room",
        "warning",
        f"{listed(names)} can hardly be granted anything: {measured.certain:,} of {measured.limit:,} tokens are never "
        f"cut, and the {remaining:,} that are left are less than one fact ({FACT_TOKENS}), without any message.",
        {"certain": measured.certain, "limit": measured.limit, "left": remaining, "fact_tokens": FACT_TOKENS},
        measured.limit_leaving(measured.certain + FACT_TOKENS),
        *([_set(blocks[name], "priority", 1)] for name, _ in fixed[:1]),
    )


def _window(measured: _Measured) -> Iterator[_Fixable]:
    """Report a token limit or history budget above what the model's context window leaves."""
    config, limit = measured.config, measured.limit
    if config.context_window is None or limit >= config.token_limit:
        return
    yield _report(
        "window",
        "warning",
        f"The model's window leaves {limit:,} of the token limit of {config.token_limit:,}: contexts are cut to that.",
        {"limit": limit, "token_limit": config.token_limit},
        measured.set_limit(limit),
    )
    # The queue is flushed by its share of the token limit, not of what the window leaves.
    if config.history_budget > config.room:
        budget = round(config.history_budget)
        yield _report(
            "window_queue",
            "warning",
            f"The history budget of {budget:,} is above what the model's window leaves ({config.room:,}): queued turns "
            "are left out before they are flushed.",
            {"history_budget": budget, "limit": config.room},
            *([[measured.set("chat_history_token_ratio", r)] for r in _ratios(HISTORY_RATIO * config.room, config)]),
        )


def _ratios(budget: float, config: MemoryConfig) -> list[float]:
    """Return the ratio for this history budget, in a list of one; rounded down to whole percent unless that gives 0."""
    ratio = budget / max(1, config.token_limit - config.reserved_tokens)
    # Rounded down, so that the budget stays within what was asked for.
    return [whole] if (whole := math.floor(ratio * 100) / 100) > 0 else [ratio]


def _flush_size(measured: _Measured) -> Iterator[_Fixable]:
    """Report a flush size above the history budget."""
    config = measured.config
    size, budget = config.flush_size, round(config.history_budget)
    if size <= config.history_budget:
        return
    yield _report(
        "flush_size",
        "warning",
        f"Flush size {size:,} is above the history budget of {budget:,}: every flush empties the queue down to one "
        "turn.",
        {"flush_size": size, "history_budget": budget},
        [measured.set("token_flush_size", None)],
        [measured.set("token_flush_size", max(1, int(config.history_budget)))],
        [measured.set("chat_history_token_ratio", 1.0)],
    )


def _queue_fills(measured: _Measured) -> Iterator[_Fixable]:
    """Report a queue that may fill the whole limit and leave no room for blocks."""
    config = measured.config
    names = [block.name for block in measured.cut_first]
    # A number of turns bounds the queue as well.
    if not names or config.chat_history_token_ratio < 1 or config.queue_turns is not None:
        return
    yield _report(
        "queue_fills",
        "warning",
        f"The queue may fill the whole limit of {measured.limit:,}: then every block with a priority is cut "
        f"({listed(names)}).",
        {"limit": measured.limit},
        [measured.set("chat_history_token_ratio", HISTORY_RATIO)],
    )


def _facts_fill(measured: _Measured) -> Iterator[_Fixable]:
    """Report fact blocks that may take all room beside a full queue, so that blocks cut earlier get nothing."""
    room = measured.limit - measured.queue_tokens - measured.certain
    for block in measured.blocks:
        if not isinstance(block, FactExtractionMemoryBlock) or block.show == "none" or room <= 0:
            continue
        facts = min(block.max_facts, block.top_k) if block.show == "relevant" else block.max_facts
        share = share_tokens(block.settings(), measured.limit)
        # A block with a share gives up what is above it before any other is cut.
        takes, bound = facts * FACT_TOKENS, f"{facts:,} × {FACT_TOKENS}"
        if share is not None and share < takes:
            takes, bound = share, f"its share of the prompt; {bound} would be {takes:,}"
        first = measured.cut_first
        # Only blocks that are cut before this one suffer; a facts block that is never cut may displace all.
        behind = first[: first.index(block)] if block in first else first
        names = [other.name for other in behind if not isinstance(other, StaticMemoryBlock)]
        if not names or takes <= room:
            continue
        # Half of the room, so that the blocks behind get the other half.
        fitting = max(1, room // 2 // FACT_TOKENS)
        relevant = _set(block, "show", "relevant")
        yield _report(
            "facts_fill",
            "warning",
            f"{block.name} may take {takes:,} tokens ({bound}); a full queue leaves {room:,}, so "
            f"{listed(names)} may get none.",
            {"takes": takes, "facts": facts, "fact_tokens": FACT_TOKENS, "room": room, "limit": measured.limit},
            [relevant],
            [relevant, _set(block, "top_k", fitting)],
            [_set(block, "max_facts", fitting)],
            measured.limit_leaving(measured.certain + takes),
            block=block.name,
        )


def _facts_limit(measured: _Measured) -> Iterator[_Fixable]:
    """Report blocks in which facts that people wrote or confirmed fill the length that condensing aims at."""
    for block in measured.blocks:
        protected = measured.conversation.protected.get(block.name, 0)
        # Protected facts are never condensed: once they reach the target length, condensing cannot shorten the list.
        if not isinstance(block, FactExtractionMemoryBlock) or protected < condense_target(block.max_facts):
            continue
        yield _report(
            "facts_limit",
            "warning",
            f"People wrote or confirmed {protected:,} facts of {block.name}, and its limit is {block.max_facts:,} "
            "(max_facts): these stay, and nothing is condensed.",
            {"protected": protected, "max_facts": block.max_facts},
            [_set(block, "max_facts", limit_for(protected))],
            block=block.name,
        )


def _hidden(measured: _Measured) -> Iterator[_Fixable]:
    """Report fact blocks that no prompt and no tool reads."""
    for block in measured.blocks:
        if isinstance(block, FactExtractionMemoryBlock) and block.show == "none" and block is not measured.archive:
            yield _report(
                "hidden",
                "warning",
                f"{block.name} asks for nothing (show is none), and is not the archive that an agent's tools "
                "search: no prompt ever has its facts.",
                {},
                [_set(block, "show", "relevant")],
                block=block.name,
            )


def _unfed(measured: _Measured) -> Iterator[_Fixable]:
    """Report blocks that get no messages to learn from, or only when the session is closed."""
    for block in measured.blocks:
        # A user's facts come from other sessions as well, so they may have contents without this one's messages.
        if not block.kind_learns or block.settings().get("scope") == "user":
            continue
        if not block.accept_short_term_memory:
            # The archive is filled by an agent's tools instead.
            if block is not measured.archive:
                yield _report(
                    "unfed",
                    "warning",
                    f"{block.name} is given no messages (accept_short_term_memory is off): it stays empty unless "
                    "somebody fills it by hand.",
                    {},
                    [_set(block, "accept_short_term_memory", True)],
                    block=block.name,
                )
        elif block.deliver_on == "session_end":
            yield _report(
                "too_late",
                "warning",
                f"{block.name} learns when the session is closed and belongs to this session alone: it is empty in "
                "every prompt before.",
                {},
                [_set(block, "deliver_on", "flush")],
                block=block.name,
            )


def _asks_for_all(measured: _Measured) -> Iterator[_Fixable]:
    """Report vector blocks without a limit of results at a large token limit."""
    budget = budget_for(measured.limit, measured.certain)
    for block in measured.blocks:
        if isinstance(block, VectorMemoryBlock) and block.fills_budget and budget > LARGE_RECALL:
            yield _report(
                "asks_for_all",
                "note",
                f"{block.name} asks for as much as fits, up to {budget:,} tokens a turn, because the limit is "
                f"{measured.limit:,} and no number of results is set.",
                {"budget": budget, "limit": measured.limit},
                [_set(block, "similarity_top_k", TOP_K)],
                block=block.name,
            )


def _tools(measured: _Measured) -> Iterator[_Fixable]:
    """Report the tokens of tool definitions, which the model reads beside the prompt and no limit counts."""
    core = [(block.name, block.settings(), block.text) for block in measured.core]
    specs = tool_specs(core, archive=measured.archive is not None)
    tokens, limit, config = definition_tokens(specs, measured.counter.text), measured.limit, measured.config
    window = config.context_window
    if tokens <= config.reserved_tokens or (window is not None and limit + tokens + config.reply_reserve <= window):
        return
    sentence = (
        f"The definitions of {len(specs)} memory tools, some {tokens:,} tokens, are counted under no accounting: "
        f"beside a prompt at the limit of {limit:,} the model reads {limit + tokens:,}"
    )
    evidence = {"tools": len(specs), "definitions": tokens, "limit": limit, "read": limit + tokens}
    # Without a known window there is nothing to exceed; the size is then only worth a note.
    if window is None:
        yield _report("tools", "note", f"{sentence}.", evidence)
        return
    reserve = config.reply_reserve
    reserved = f", {reserve:,} of it kept for the reply" if reserve else ""
    fitting = window - reserve - tokens
    yield _report(
        "tools",
        "warning",
        f"{sentence}, and its window is {window:,}{reserved}.",
        {**evidence, "window": window, "reserve": reserve},
        *([measured.set_limit(fitting)] if fitting > 0 else []),
    )


def _cache(measured: _Measured) -> Iterator[_Fixable]:
    """Report blocks that change with the question and precede the queue, which defeats prompt caching."""
    names = [block.name for block in measured.blocks if _differs(block)]
    queue = measured.queue_tokens
    # In the system message, memory precedes the queue; in the newest user message, it follows the cached part.
    if measured.config.insert_method is not InsertMethod.SYSTEM or not names or queue < CACHED_FROM:
        return
    several = len(names) > 1
    yield _report(
        "cache",
        "note",
        f"{listed(names)} {'change every turn and come' if several else 'changes every turn and comes'} first, so "
        f"up to {queue:,} tokens can't be cached.",
        {"queue": queue},
        [measured.set("insert_method", "user")],
    )


def _differs(block: BaseMemoryBlock[Any]) -> bool:
    relevant = isinstance(block, FactExtractionMemoryBlock) and block.show == "relevant"
    return relevant or isinstance(block, VectorMemoryBlock | GraphMemoryBlock)


def _first_flush(measured: _Measured) -> Iterator[_Fixable]:
    """Report blocks that learn only from flushed messages and stay empty until the first flush."""
    waiting = [b for b in measured.blocks if b.kind_learns and b.accept_short_term_memory and b.deliver_on == "flush"]
    conversation, config = measured.conversation, measured.config
    users = sum(message.role is MessageRole.USER for message in conversation.messages)
    if not waiting or not users:
        return
    sizes = queued_sizes(conversation.messages, [size.by(config.accounting) for size in conversation.sizes])
    first = next(iter(replay_flushes(sizes, config)), None)
    seq = first.seq if first is not None else len(conversation.messages)
    turn = sum(message.role is MessageRole.USER for message in conversation.messages[:seq])
    several, budget = len(waiting) > 1, round(config.history_budget)
    empty = f"{listed([block.name for block in waiting])} {_is(several)} empty"
    if first is None:
        turns = "The 1 turn" if users == 1 else f"The {users:,} turns"
        sentence = f"{turns} of this conversation never fill the history budget of {budget:,}: {empty} throughout."
    elif turn > 1:
        sentence = f"{empty} until the first flush in turn {turn:,}."
    # A flush in the first turn leaves no later prompt waiting.
    else:
        return
    evidence = {"turns": users, "history_budget": budget} if first is None else {"turn": turn}
    yield _report("first_flush", "note", sentence, evidence, [_set(block, "deliver_on", "turn") for block in waiting])


# Errors first: only these rules are checked for new errors that a fix would cause.
_ERRORS: tuple[_Rule, ...] = (_over_limit, _too_large)
_RULES: tuple[_Rule, ...] = (
    *_ERRORS,
    _no_room,
    _window,
    _flush_size,
    _queue_fills,
    _facts_fill,
    _facts_limit,
    _hidden,
    _unfed,
    _first_flush,
    _tools,
    _asks_for_all,
    _cache,
)


def _is(several: bool) -> str:
    return "are" if several else "is"
