"""Block kinds on screen: for each its labels, the page that shows it, and the settings that people may change.

Pure; no Streamlit. The behaviour of a kind is in its class, its colour in `memory_inspector.palette`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_core import BaseMemoryBlock
from memory_core.blocks import BUILT_IN
from memory_core.blocks.plugins import Plugin
from memory_core.recipes import CATEGORIES


@dataclass(frozen=True, slots=True)
class Field:
    """A setting of a block kind, as a widget."""

    setting: str
    """Name of the setting in the engine."""
    title: str
    help: str
    sort: Literal["whole", "share", "toggle", "choice", "labels", "text"]
    optional: bool = False
    """True if the setting may be None."""
    without: str = "none"
    """Placeholder shown in the empty field if the setting is None."""
    choices: Mapping[str, str] | None = None
    """Labels by value, for a choice."""
    offered: tuple[str, ...] = ()
    """Labels that are suggested; others can be typed."""
    group: str = ""
    """Title of the expander that contains the field; empty: always visible."""
    when: tuple[str, object] | None = None
    """Name of another setting, and the value that it must have for this one to take effect."""


_DELIVER_ON = Field(
    "deliver_on",
    "Learn",
    "`deliver_on`: when messages are given to the block.",
    "choice",
    choices={
        "flush": "When messages leave the queue",
        "turn": "After every turn",
        "session_end": "When the session ends",
    },
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
    fields: tuple[Field, ...] = (_DELIVER_ON,)

    @property
    def learns(self) -> bool:
        """Tell whether blocks of this kind receive messages to learn from."""
        # A custom class may learn; only built-in kinds are known not to.
        return self.key not in BUILT_IN or BUILT_IN[self.key].kind_learns

    @property
    def asks_model(self) -> bool:
        """Tell whether filling such a block calls the chosen model."""
        return self.key in BUILT_IN and BUILT_IN[self.key].kind_model_calls > 0


CUSTOM = Kind("custom", "Custom", "", "", 1)
"""Kind for custom block classes, and for parts of a prompt that are no block."""

STATIC = Kind(
    "static",
    "Fixed text",
    "Text that is in every prompt.",
    "Instructions",
    0,
    holds_nothing="No text.",
    fields=(
        Field(
            "read_only",
            "Read only for the agent",
            "`read_only`: if off, the agent may edit the text through tools. People always may.",
            "toggle",
        ),
        Field(
            "description",
            "What it is for",
            "`description`: tells the agent what to write here, and when to change it.",
            "text",
            when=("read_only", False),
        ),
        Field(
            "limit",
            "Maximum characters",
            "`limit`: the agent cannot make the text longer. People may write more.",
            "whole",
            optional=True,
            when=("read_only", False),
        ),
    ),
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
    fields=(
        Field("max_facts", "Maximum facts", "Above this many, the list is condensed (`max_facts`).", "whole"),
        Field("approval", "Review new facts first", "`approval`: in no prompt until you accept them.", "toggle"),
        Field(
            "on_change",
            "Compare new facts with known ones",
            "`on_change`: what to do with a found fact that is similar to a known one. Every decision is recorded.",
            "choice",
            choices={
                "add": "No: both stay, contradictions are marked",
                "decide": "Yes: add, update, delete or nothing",
            },
        ),
        Field(
            "nearest",
            "Known facts to compare with",
            "`nearest`: number of most similar known facts that each found fact is compared with.",
            "whole",
            when=("on_change", "decide"),
        ),
        Field(
            "show",
            "Facts in the prompt",
            "`show`: other facts stay stored and can be searched.",
            "choice",
            choices={
                "all": "All",
                "relevant": "The most relevant to the question",
                "none": "None: they are only searched",
            },
        ),
        Field(
            "top_k",
            "Maximum facts in one prompt",
            "`top_k`: maximum number of facts requested, the most relevant first.",
            "whole",
            when=("show", "relevant"),
        ),
        Field(
            "prompt_share",
            "Share of a full prompt",
            "`prompt_share`: share of the token limit that the facts keep when a prompt is full. Those above it are "
            "cut before any other block, least relevant first. Empty: by priority alone.",
            "share",
            optional=True,
            without="by priority alone",
        ),
        Field(
            "former_values",
            "Contradicted facts",
            "`former_values`: an active fact that a later one contradicts, until you decide, or that has "
            "another value in another block.",
            "choice",
            choices={
                "mark": "Marked as contradicted",
                "leave_out": "Left out",
                "show": "As they are",
            },
        ),
        Field(
            "show_dates",
            "Show when a fact was confirmed",
            "`show_dates`: each fact in the prompt is followed by the day on which it was last stated or confirmed.",
            "toggle",
            group="Old facts",
        ),
        Field(
            "expire_after_days",
            "Days until a fact expires",
            "`expire_after_days`: learned facts that nobody stated again or confirmed are retired after this time. "
            "What you wrote, changed or pinned stays. Empty: never.",
            "whole",
            optional=True,
            without="never",
            group="Old facts",
        ),
        Field(
            "expire_categories",
            "Categories that expire",
            "`expire_categories`: only facts under these expire. Empty: all.",
            "labels",
            offered=CATEGORIES,
            group="Old facts",
            without="all",
        ),
        Field(
            "categories",
            "Categories",
            "`categories`: labels that facts are given. Empty: the extractor's own.",
            "labels",
            offered=CATEGORIES,
            without="the extractor's own",
        ),
        Field(
            "scope",
            "Whose facts",
            "`scope`: the user's facts are read in all sessions of that user.",
            "choice",
            choices={"session": "This session's", "user": "The user's, in all sessions"},
        ),
        _DELIVER_ON,
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
    fields=(
        Field(
            "unit",
            "Stored unit",
            "`unit`: what is found and recalled as a whole. Units that are already stored do not change.",
            "choice",
            choices={
                "message": "Each message by itself",
                "turn": "A user message with its replies",
                "batch": "All messages of one flush",
            },
        ),
        Field(
            "scope",
            "Found by",
            "`scope`: what is said in one session of the user can be found in all of them. Deleting a session "
            "deletes what was said in it.",
            "choice",
            choices={"session": "This session", "user": "All sessions of the user"},
        ),
        Field(
            "similarity_top_k",
            "Results",
            "`similarity_top_k`: maximum number recalled. Empty: as many as fit into the tokens that are left.",
            "whole",
            optional=True,
            without="as many as fit",
        ),
        Field(
            "similarity_threshold",
            "Threshold",
            "`similarity_threshold`: minimum score to be recalled.",
            "share",
            optional=True,
        ),
        Field(
            "layout",
            "In the prompt",
            "`layout`: lines take the fewest tokens, in the order they were said. Messages have LlamaIndex's "
            "markup, best match first.",
            "choice",
            choices={"lines": "A date, then speaker: words", "messages": "As marked-up messages"},
        ),
        Field(
            "former_values",
            "Former values",
            "`former_values`: a message with a value that a fact or relation has replaced since.",
            "choice",
            choices={
                "mark": "Marked with the present one",
                "leave_out": "Left out",
                "show": "As they are",
            },
        ),
        Field(
            "retrieval_context_window",
            "Messages in the question",
            "`retrieval_context_window`: a short question is completed by the messages before it, up to this many in "
            "all. 1: never.",
            "whole",
        ),
        *(
            Field(setting, title, f"`{setting}`: {means} 0 switches it off.", "share", group="What counts in the score")
            for setting, title, means in (
                ("vector_weight", "Weight of meaning", "how much nearness in meaning counts in the match."),
                ("keyword_weight", "Weight of keywords", "how much shared words count in the match."),
                ("neighbour_weight", "Weight of neighbours", "part of the neighbouring messages' match is added."),
                ("episode_weight", "Weight of the episode", "part of the same episode's best matches is added."),
                ("speaker_weight", "Weight of the speaker", "added for the person asked about; less for other people."),
                ("date_weight", "Weight of dates", "added for a date that the question names."),
                ("informativeness_weight", "Weight of informativeness", "added for informative messages."),
                ("length_weight", "Weight against length", "taken away for each doubling beyond 100 tokens."),
            )
        ),
        _DELIVER_ON,
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
    fields=(
        Field(
            "max_tokens",
            "Maximum tokens",
            "`max_tokens`: maximum length of the text. What does not fit is left out by whole sentences.",
            "whole",
        ),
        Field(
            "former_values",
            "Former values",
            "`former_values`: a sentence with a value that a fact or relation has replaced since.",
            "choice",
            choices={
                "mark": "Marked with the present value",
                "leave_out": "Left out",
                "show": "As they are",
            },
        ),
        _DELIVER_ON,
    ),
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
    fields=(
        Field(
            "hops",
            "Steps from what is mentioned",
            "`hops`: how far from what the question mentions a relation may be.",
            "whole",
        ),
        Field(
            "most_relations",
            "Maximum relations in one prompt",
            "`most_relations`: those nearest to what the question mentions come first.",
            "whole",
        ),
        _DELIVER_ON,
    ),
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


def fields_of(kind: str, *, has_user: bool) -> tuple[Field, ...]:
    """The settings of a block of this kind that can be changed on screen."""
    # Without a user, facts and turns can only belong to the session, so there is nothing to choose.
    return tuple(field for field in kind_of(kind).fields if has_user or field.setting != "scope")
