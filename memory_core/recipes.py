"""Recipes: every memory system as a named configuration of the same parts.

memory = Memory.from_recipe("summary", session_id="demo", token_limit=2000)

A recipe consists of settings and blocks only: a session created with it records the same events, appears on the same
screens and can be changed in the same way as any other.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from memory_core.blocks import (
    BaseMemoryBlock,
    FactExtractionMemoryBlock,
    GraphMemoryBlock,
    StaticMemoryBlock,
    SummaryMemoryBlock,
    VectorMemoryBlock,
)
from memory_core.config import MemoryConfig
from memory_core.errors import ConfigError

Block = BaseMemoryBlock[Any]

WINDOW_TURNS = 6
"""Default number of turns that a sliding window keeps."""

CATEGORIES = ("episodic", "semantic", "procedural")
"""Categories of consolidated facts: events, knowledge and procedures."""

CORE_CHARACTERS = 2_000
"""Size limit of a core block, in characters: Letta's older default, some 400 words."""


@dataclass(frozen=True, slots=True)
class RecipeSpec:
    """Result of a recipe: settings of `MemoryConfig`, and blocks in prompt order."""

    settings: dict[str, Any]
    blocks: list[Block]


@dataclass(frozen=True, slots=True)
class Recipe:
    """Memory system as a ready configuration.

    `key` is its name in Python, `title` its name on screen; `tagline` describes it in one line, `when` says when to use
    it, `strengths` and `limits` take one line each.
    """

    key: str
    title: str
    tagline: str
    when: str
    strengths: str
    limits: str
    make: Callable[..., RecipeSpec]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Accepted parameters with their defaults."""
    of_user: bool = False
    """True if the recipe's facts are user-scoped; the memory then needs a `user_id`."""

    def made(self, **parameters: Any) -> RecipeSpec:
        """Create new settings and blocks; the settings include the recipe's name and parameters.

        Raises:
            ConfigError: there is no such parameter, or a value is impossible.
        """
        unknown = sorted(set(parameters) - set(self.parameters))
        if unknown:
            takes = f"it takes {', '.join(self.parameters)}" if self.parameters else "it takes none"
            raise ConfigError(f'the recipe "{self.key}" has no parameter called {unknown[0]!r}: {takes}')
        made = self.make(**{**self.parameters, **parameters})
        changed = {name: _as_json(value) for name, value in parameters.items() if name not in _TEXTS}
        changed = {name: value for name, value in changed.items() if value != _as_json(self.parameters[name])}
        settings = {**_PLAIN, **made.settings, "recipe": self.key, "recipe_parameters": changed}
        # A parameter may give an impossible setting: refused here, before blocks or rows exist.
        MemoryConfig(**settings)
        return RecipeSpec(settings, made.blocks)


_TEXTS = frozenset({"instructions", "persona", "human"})
"""Parameters that only give a block's initial text, which is stored with the block and not with the recipe."""

_PLAIN: dict[str, Any] = {"queue_turns": None}
"""Settings that every recipe resets, since another one may have changed them."""


def _as_json(value: Any) -> Any:
    """Return a parameter in its stored form."""
    return list(value) if isinstance(value, tuple) else value


def recipe(key: str) -> Recipe:
    """Return the recipe of that name.

    Raises:
        ConfigError: there is none; the message lists the existing ones.
    """
    if key not in RECIPES:
        raise ConfigError(f"there is no recipe called {key!r}: choose one of {', '.join(RECIPES)}")
    return RECIPES[key]


def _buffer() -> RecipeSpec:
    # The queue may use the whole limit, and flushes no more than necessary.
    return RecipeSpec({"chat_history_token_ratio": 1.0, "token_flush_size": 1}, [])


def _window(turns: int) -> RecipeSpec:
    # Turns decide what leaves; the token limit matters only where so few turns exceed it.
    return RecipeSpec({"chat_history_token_ratio": 1.0, "token_flush_size": 1, "queue_turns": turns}, [])


def _blocks(instructions: str) -> RecipeSpec:
    return RecipeSpec(
        _SHARED,
        [
            *_instructions(instructions),
            # A share, so that neither facts nor recalled turns push the other out of a full prompt.
            FactExtractionMemoryBlock(name="Facts", priority=1, prompt_share=0.3),
            VectorMemoryBlock(name="Earlier turns", priority=2),
        ],
    )


def _vector(top_k: int | None) -> RecipeSpec:
    return RecipeSpec(_SHARED, [VectorMemoryBlock(name="Earlier turns", priority=1, similarity_top_k=top_k)])


def _summary(max_tokens: int) -> RecipeSpec:
    return RecipeSpec(_SHARED, [SummaryMemoryBlock(name="Summary", priority=1, max_tokens=max_tokens)])


def _hybrid(overflow: str, top_k: int | None) -> RecipeSpec:
    if overflow not in ("verbatim", "summarised"):
        raise ConfigError(f"overflow must be 'verbatim' or 'summarised', not {overflow!r}")
    kept_block: Block = (
        VectorMemoryBlock(name="Earlier turns", priority=2, similarity_top_k=top_k)
        if overflow == "verbatim"
        else SummaryMemoryBlock(name="Summary", priority=2)
    )
    return RecipeSpec(_SHARED, [GraphMemoryBlock(name="Relations", priority=1), kept_block])


def _graph(hops: int) -> RecipeSpec:
    return RecipeSpec(_SHARED, [GraphMemoryBlock(name="Relations", priority=1, hops=hops)])


def _user_memories(summaries: bool) -> RecipeSpec:
    # After every turn, as the next session may begin before any flush of this one.
    blocks: list[Block] = [
        FactExtractionMemoryBlock(
            name="User memories", priority=1, scope="user", deliver_on="turn", on_change="decide", max_facts=200
        )
    ]
    if summaries:
        blocks.append(SummaryMemoryBlock(name="Session summary", priority=2, deliver_on="turn"))
    return RecipeSpec(_SHARED, blocks)


def _consolidating(
    categories: Sequence[str], top_k: int, scope: Literal["session", "user"], on_change: Literal["add", "decide"]
) -> RecipeSpec:
    return RecipeSpec(
        _SHARED,
        [
            FactExtractionMemoryBlock(
                name="Memories",
                priority=1,
                scope=scope,
                deliver_on="turn",
                on_change=on_change,
                categories=list(categories),
                show="relevant",
                top_k=top_k,
                # Many, as only the most relevant are shown; in `user_memories` all are.
                max_facts=1_000,
            )
        ],
    )


def _self_editing(limit: int, persona: str, human: str) -> RecipeSpec:
    return RecipeSpec(
        _SHARED,
        [
            StaticMemoryBlock(
                name="Persona",
                description="Who you are and how you speak. Change it when the user asks you to be different.",
                static_content=persona,
                limit=limit,
                read_only=False,
            ),
            StaticMemoryBlock(
                name="Human",
                description="What you know about the user: name, people, likes, plans. Keep it current.",
                static_content=human,
                limit=limit,
                read_only=False,
            ),
            # Written and searched by the agent's tools alone: it learns from no message and shows nothing by itself.
            FactExtractionMemoryBlock(
                name="Archival", priority=2, accept_short_term_memory=False, show="none", max_facts=10_000
            ),
            VectorMemoryBlock(name="Earlier turns", priority=1),
        ],
    )


def _instructions(text: str) -> list[Block]:
    return [StaticMemoryBlock(name="Instructions", static_content=text, priority=0)] if text else []


_SHARED: dict[str, Any] = {"chat_history_token_ratio": 0.7, "token_flush_size": None}
"""Settings by which the queue leaves room for blocks: 0.7 of the limit, as in LlamaIndex, and flushes of a tenth."""

RECIPES: dict[str, Recipe] = {
    listed.key: listed
    for listed in (
        Recipe(
            key="buffer",
            title="Conversation buffer",
            tagline="The whole conversation, up to the token limit.",
            when=(
                "Short conversations that fit the model's window, and the baseline for every other recipe: the oldest "
                "messages are dropped first, and completely."
            ),
            strengths="Exact, no model calls, nothing to set.",
            limits="Dropped messages never return; every turn costs the whole history.",
            make=_buffer,
        ),
        Recipe(
            key="window",
            title="Sliding window",
            tagline="Only the last turns.",
            when=(
                "Assistants whose turns are independent, a form filler or a command line: the prompt stays small and "
                "its size is predictable."
            ),
            strengths="Small prompts of steady size, no model calls.",
            limits="Knows nothing from before the window.",
            make=_window,
            parameters={"turns": WINDOW_TURNS},
        ),
        Recipe(
            key="blocks",
            title="Short-term + blocks",
            tagline="Recent turns, learned facts and recalled turns share one limit by priority.",
            when=(
                "The all-round choice, and what LlamaIndex's Memory does: fixed instructions, facts that are learned "
                "as turns leave the queue, and the earlier turns that fit the question."
            ),
            strengths="Keeps names and details; every part has a priority.",
            limits="Learns only when the queue is flushed; parts compete for the limit.",
            make=_blocks,
            parameters={"instructions": ""},
        ),
        Recipe(
            key="vector",
            title="Vector memory",
            tagline="Earlier turns that match the question are recalled word for word.",
            when=(
                "Long conversations with lookups: a question is answered from the original turn, together with the "
                "reply to it."
            ),
            strengths="Word for word, question and answer together.",
            limits="Finds only what resembles the question; summarises nothing.",
            make=_vector,
            parameters={"top_k": None},
        ),
        Recipe(
            key="summary",
            title="Summary buffer",
            tagline="Recent turns whole, older ones as one running summary.",
            when=(
                "Long conversations whose course matters more than their details, coaching or support: the model "
                "always knows the story so far."
            ),
            strengths="The whole story in a bounded size.",
            limits="Details fade with every rewriting; a model writes better summaries than the rules.",
            make=_summary,
            parameters={"max_tokens": 300},
        ),
        Recipe(
            key="hybrid",
            title="Composable (hybrid)",
            tagline="Recent turns, recalled turns and relations merged into one prompt.",
            when=(
                "Questions of both kinds, who belongs to whom and what was said about it; with "
                'overflow="summarised" older turns are kept as a summary instead of word for word.'
            ),
            strengths="Answers lookups and connections alike.",
            limits="Every prompt pays for two kinds of memory.",
            make=_hybrid,
            parameters={"overflow": "verbatim", "top_k": None},
        ),
        Recipe(
            key="graph",
            title="Knowledge graph",
            tagline="Entities and relations, for questions that need several steps.",
            when=(
                "Teams, families, projects: who manages what, what depends on what, and since when. Former "
                "relations are kept, marked as ended."
            ),
            strengths="Connects statements made far apart; few tokens.",
            limits="Knows only what fits into a relation; the rules find few, a model finds many.",
            make=_graph,
            parameters={"hops": 2},
        ),
        Recipe(
            key="user_memories",
            title="User memories (Agno)",
            tagline="Facts about the user, shared by all their sessions.",
            when=(
                "Assistants that people come back to: a name said once is known in the next session, because learning "
                "happens after every turn. As in Agno 3.1."
            ),
            strengths="Remembers people across sessions, at once.",
            limits="Needs a user id; every turn costs an extraction.",
            make=_user_memories,
            parameters={"summaries": True},
            of_user=True,
        ),
        Recipe(
            key="consolidating",
            title="Consolidating memory (Mem0)",
            tagline="Each new fact is compared with similar ones: it is added or dropped, or updates or ends one.",
            when=(
                "Facts that change over months, preferences and circumstances: the list stays short and current, and "
                "every decision is in the log with what it was compared with. As in Mem0 1; Mem0 2 only adds."
            ),
            strengths="No duplicates, current values, scored search.",
            limits="A wrong decision overwrites a fact: review decisions now and then.",
            make=_consolidating,
            parameters={"categories": CATEGORIES, "top_k": 10, "scope": "session", "on_change": "decide"},
        ),
        Recipe(
            key="self_editing",
            title="Self-editing memory (Letta)",
            tagline="The agent keeps its own notes through tools.",
            when=(
                "Agents that should decide for themselves what matters: small core blocks are always in the prompt, "
                "the rest is archived and searched. Needs a model that calls tools. As in Letta's server up to 0.16."
            ),
            strengths="The agent decides what is kept, and every edit is a diff.",
            limits="Only as good as the model that edits; several calls a turn.",
            make=_self_editing,
            parameters={
                "limit": CORE_CHARACTERS,
                "persona": "I am a helpful assistant. I keep what I know about the user current.",
                "human": "",
            },
        ),
    )
}
"""Recipes by key, in display order."""
