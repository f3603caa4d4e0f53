"""Block kinds on screen: for each its labels, the page that shows it, which settings people may change,
and nouns for the units of a vector block.

Pure; no Streamlit. The behaviour of a kind is in its class, its colour in `memory_inspector.palette`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memory_core import BaseMemoryBlock, Memory
from memory_core.blocks import BUILT_IN
from memory_core.blocks.plugins import Plugin
from memory_inspector.wording.formatting import count, plural, tokens
from memory_inspector.wording.settings import (
    DELIVER_ON,
    FACTS_SETTINGS,
    FORMER_VALUES,
    GRAPH_SETTINGS,
    SCOPE,
    STATIC_SETTINGS,
    SUMMARY_SETTINGS,
    VECTOR_SETTINGS,
    Setting,
)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of block."""

    key: str
    """A built-in kind, or `module:class` of a plug-in."""
    label: str
    help: str
    """Sentence on what such a block does."""
    name: str
    """Default name of a new block."""
    priority: int
    plugin: Plugin | None = None
    page: str | None = None
    """The page that shows what such a block holds."""
    holds_nothing: str = "It added nothing to the prompt."
    """Text on a block's card while the block is empty."""
    asks_nothing: str = "Nothing in it for this prompt."
    """Text shown for a prompt to which the block added nothing."""
    noun: str = "piece"
    """Noun for an item that such a block puts into a prompt."""
    quoted: bool = False
    """True if the block's items are counted, and quoted where some are cut."""
    cut: str = ""
    """Order in which the block's items are cut, in words."""
    settings: tuple[Setting, ...] = (DELIVER_ON,)
    """Its own settings that people may change, in the order in which they are shown."""

    @property
    def learns(self) -> bool:
        """Tell whether blocks of this kind receive messages to learn from."""
        # A custom class may learn; only built-in kinds are known not to.
        return self.key not in BUILT_IN or BUILT_IN[self.key].kind_learns

    @property
    def asks_model(self) -> bool:
        """Tell whether filling such a block calls the chosen model."""
        return self.key in BUILT_IN and BUILT_IN[self.key].kind_model_calls > 0


def _offered(own: Iterable[Setting], **behind: Setting) -> tuple[Setting, ...]:
    """Return the settings of a kind that forms offer: its own with a title, and `behind` some of these, shared ones."""
    titled = [setting for setting in own if setting.title]
    both = (one for setting in titled for one in (setting, behind.get(setting.name)))
    return (*filter(None, both), DELIVER_ON)


CUSTOM = Kind("custom", "Custom", "", "", 1)
"""Kind for custom block classes, and for parts of a prompt that are no block."""

STATIC = Kind(
    "static",
    "Fixed text",
    "Text that is in every prompt.",
    "Instructions",
    0,
    holds_nothing="No text.",
    settings=STATIC_SETTINGS,
)

FACTS = Kind(
    "facts",
    "Facts",
    "Learned from messages when they leave the queue.",
    "Facts",
    1,
    page="facts",
    asks_nothing="No facts yet: they are learned from messages that leave the queue.",
    noun="fact",
    quoted=True,
    cut="least relevant first",
    settings=_offered(
        FACTS_SETTINGS,
        prompt_share=replace(
            FORMER_VALUES,
            title="Contradicted facts",
            help="`former_values`: an active fact that a later one contradicts, until you decide, or that has another "
            "value in another block.",
            choices={"mark": "Marked as contradicted", "leave_out": "Left out", "show": "As they are"},
        ),
        categories=SCOPE,
    ),
)

VECTOR = Kind(
    "vector",
    "Earlier turns",
    "Turns that left the queue, retrieved when they fit the question.",
    "Earlier turns",
    2,
    page="retrieval",
    asks_nothing="Nothing stored fitted the question well enough, or nothing is stored yet.",
    cut="lowest score first",
    settings=_offered(
        VECTOR_SETTINGS,
        unit=replace(
            SCOPE,
            title="Found by",
            help="`scope`: what is said in one session of the user can be found in all of them. Deleting a session "
            "deletes what was said in it.",
            choices={"session": "This session", "user": "All sessions of the user"},
        ),
        layout=replace(
            FORMER_VALUES,
            help="`former_values`: a message with a value that a fact or relation has replaced since.",
            choices={"mark": "Marked with the present one", "leave_out": "Left out", "show": "As they are"},
        ),
    ),
)

SUMMARY = Kind(
    "summary",
    "Summary",
    "One short text that is updated with what leaves the queue.",
    "Summary",
    1,
    holds_nothing="Nothing yet. It is written when messages leave the queue.",
    asks_nothing="Nothing in it yet: it is written when messages leave the queue.",
    noun="sentence",
    cut="least relevant first",
    settings=_offered(SUMMARY_SETTINGS, max_tokens=FORMER_VALUES),
)

GRAPH = Kind(
    "graph",
    "Relations",
    "How people and things are related, over several steps.",
    "Relations",
    1,
    page="graph",
    asks_nothing="No relation involves what was mentioned, or none is known yet.",
    noun="relation",
    quoted=True,
    cut="farthest from the question first",
    settings=_offered(GRAPH_SETTINGS),
)

KINDS = {kind.key: kind for kind in (STATIC, FACTS, VECTOR, SUMMARY, GRAPH)}
"""Built-in kinds by key, in the order in which they are offered."""


def kinds(plugins: Iterable[Plugin]) -> dict[str, Kind]:
    """Return every kind that can be added, by key: built-in kinds, then working plug-ins of packages."""
    offered = [
        # Priority 1 and not 0, so that the block of a plug-in may be cut.
        Kind(plugin.target, plugin.name, _described(plugin), plugin.name, 1, plugin)
        for plugin in plugins
        if plugin.block is not None
    ]
    # A plug-in cannot replace a built-in kind by accident: its key is `module:class`.
    return KINDS | {kind.key: kind for kind in offered}


def kind_of(key: str) -> Kind:
    """Return a kind by its key; `CUSTOM` for custom classes and parts that are no block."""
    return KINDS.get(key, CUSTOM)


def make(kind: Kind, name: str, priority: int, text: str = "") -> BaseMemoryBlock[Any]:
    """A block of this kind, not stored yet.

    Raises:
        ConfigError: the name or the priority is invalid, or a plug-in's class fails.
    """
    if kind.plugin is not None:
        return kind.plugin.make(name, priority=priority)
    # Only a block of fixed text can begin with a text; other kinds learn from the conversation.
    extra = {"static_content": text} if kind.key == "static" else {}
    return BUILT_IN[kind.key](name=name, priority=priority, **extra)


def free_name(wanted: str, taken: Iterable[str]) -> str:
    """Return `wanted`, or if it is taken, `wanted` with the first number that is not: `Facts 2`."""
    used = set(taken)
    if wanted not in used:
        return wanted
    # Among one more number than there are names, one is free.
    return next(name for number in range(2, len(used) + 3) if (name := f"{wanted} {number}") not in used)


def _described(plugin: Plugin) -> str:
    offered = f"Offered by {plugin.package}." if plugin.package else "Offered by a package installed on this machine."
    return f"{plugin.description} {offered}".strip()


def settings_of(kind: str, *, has_user: bool) -> tuple[Setting, ...]:
    """The settings of a block of this kind that can be changed on screen."""
    # Without a user, facts and turns can only belong to the session, so there is nothing to choose.
    return tuple(setting for setting in kind_of(kind).settings if has_user or setting.name != "scope")


TURN = "turn"
"""Noun used if the stored unit is unknown, or differs between blocks: every message belongs to a turn."""


def unit_of(settings: Mapping[str, Any]) -> str:
    """Noun for the stored units of a vector block with these settings: `message`, `turn` or `batch`."""
    return str(settings.get("unit", TURN))


def units(memory: Memory) -> dict[str, str]:
    """Noun for the stored units of each vector block of a session, by the block's name."""
    return {attached.name: unit_of(attached.settings) for attached in memory.blocks if attached.kind == "vector"}


def common(units: Iterable[str]) -> str:
    """Noun for the stored units of several blocks; `turn` if they differ."""
    names = set(units)
    return names.pop() if len(names) == 1 else TURN


def stored(n: int, unit: str) -> str:
    """A count of stored units: `62 stored messages`, `1 stored turn`, `3 stored batches`."""
    return count(n, f"stored {unit}")


def stored_plural(unit: str) -> str:
    """Plural of a stored unit: `stored messages`."""
    return plural(f"stored {unit}")


def from_turn(unit: str, turn: int | str, article: str = "") -> str:
    """Name a stored unit by its turn: `turn 4`, or `message of turn 4` for other units; these take the `article`:
    `a message of turn 4`."""
    number = turn if isinstance(turn, str) else tokens(turn)
    if unit == TURN:
        return f"turn {number}"
    return f"{article} {unit} of turn {number}".lstrip()


def by_score(scored: Sequence[tuple[str, float | None]]) -> str:
    """Units cut from one search, lowest score first: `turn 3, turn 4 (scores not recorded), turn 9 (0.31)`.

    Only the best candidates of a search are recorded with their scores, so those without one come first.
    """
    ranked = sorted(((name, score) for name, score in scored if score is not None), key=lambda pair: pair[1])
    # The names keep the order they came in: without scores, there is no other.
    unknown = [name for name, score in scored if score is None]
    scores = "scores" if len(unknown) > 1 else "score"
    parts = [f"{', '.join(unknown)} ({scores} not recorded)"] if unknown else []
    return ", ".join([*parts, *(f"{name} ({score:.2f})" for name, score in ranked)])


def score_note(score: float | None) -> str:
    """The score in words: `score 0.23`, or that it was not recorded."""
    return "score not recorded" if score is None else f"score {score:.2f}"
