"""Settings of sessions and blocks in words: each is declared here once, for forms, sentences and changes in the Lab.

Bounds and defaults are the engine's: `memory_core.config` and the classes of blocks. Pure; no Streamlit.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from memory_core.config import MAX_TOKENS
from memory_core.recipes import CATEGORIES, RECIPES
from memory_core.text import capitalised, listed
from memory_inspector.wording.formatting import short, tokens
from memory_inspector.wording.terms import HELP


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in words, and as a field of a form if it has a title."""

    name: str
    """Name of the setting in the engine."""
    noun: str
    """Name of the setting in the middle of a sentence."""
    title: str = ""
    """Label of its field; empty for a setting that no form offers."""
    help: str = ""
    sort: Literal["whole", "share", "percent", "toggle", "choice", "labels", "text"] = "whole"
    """Form of its values: `share` is shown from 0 to 1, `percent` from 0 to 100; both are stored from 0 to 1."""
    optional: bool = False
    """True if the setting may be None."""
    without: str = "the default"
    """Meaning of None or of an empty list: in its empty field, and in sentences."""
    choices: Mapping[str, str] | None = None
    """Labels by value, for a choice."""
    values: Mapping[str, str] | None = None
    """Values in the middle of a sentence, where the value itself does not say it."""
    offered: tuple[str, ...] = ()
    """Labels that are suggested; others can be typed."""
    group: str = ""
    """Title of the expander that contains the field; empty: always visible."""
    when: tuple[str, object] | None = None
    """Name of another setting, and the value that it must have for this one to take effect."""
    step: int = 1
    """Step of the field, for whole numbers."""

    @property
    def is_number(self) -> bool:
        """Tell whether its field is one of numbers."""
        return self.sort in ("whole", "share", "percent")

    def in_field(self, value: Any) -> Any:
        """Return a stored value as its field holds it."""
        if self.sort == "text":
            return value or ""
        if self.sort == "labels":
            return list(value)
        if self.sort == "toggle":
            return bool(value)
        # Value, step and bounds of a number field must have one type.
        if not self.is_number or value is None:
            return value
        return round(value * 100) if self.sort == "percent" else float(value) if self.sort == "share" else int(value)

    def from_field(self, value: Any) -> Any:
        """Return the value to store for what its field holds."""
        if self.sort == "text":
            return str(value).strip() or None
        if not self.is_number or value is None:
            return value
        # Steps of 0.01 add up to numbers such as 0.30000000000000004.
        return value / 100 if self.sort == "percent" else round(value, 4) if self.sort == "share" else value


DELIVER_ON = Setting(
    "deliver_on",
    "learning",
    "Learn",
    "`deliver_on`: when messages are given to the block.",
    "choice",
    choices={
        "flush": "When messages leave the queue",
        "turn": "After every turn",
        "session_end": "When the session ends",
    },
    values={"flush": "at each flush", "turn": "after each turn", "session_end": "at the end of the session"},
)
FORMER_VALUES = Setting(
    "former_values",
    "the display of former values",
    "Former values",
    "`former_values`: a sentence with a value that a fact or relation has replaced since.",
    "choice",
    choices={"mark": "Marked with the present value", "leave_out": "Left out", "show": "As they are"},
)
SCOPE = Setting(
    "scope",
    "the scope",
    "Whose facts",
    "`scope`: the user's facts are read in all sessions of that user.",
    "choice",
    choices={"session": "This session's", "user": "The user's, in all sessions"},
    values={"session": "the session", "user": "the user"},
)

_SESSION = (
    Setting("token_limit", "the token limit", "Token limit", HELP["limit"], step=100),
    Setting("chat_history_token_ratio", "the history share", "History share, %", HELP["flush_line"], "percent", step=5),
    Setting(
        "token_flush_size",
        "the flush size",
        "Flush size",
        f"{HELP['flush_size']} Empty: a tenth of the limit.",
        optional=True,
    ),
    Setting(
        "queue_turns",
        "the turns in the queue",
        "Turns in the queue",
        "Maximum number of turns in the queue, however short they are (`queue_turns`). Empty: only its tokens count.",
        optional=True,
        without="no limit",
    ),
    Setting(
        "reserved_tokens", "the tokens kept for system prompt and tools", "System prompt and tools", HELP["reserved"]
    ),
    Setting(
        "learning_context",
        "the context shown to learners",
        "Context for learning",
        HELP["learning_context"],
        step=100,
    ),
    Setting(
        "truncation_order",
        "what is cut first",
        "Cut first",
        HELP["priority"],
        "choice",
        choices={"largest_first": "Largest priority number", "smallest_first": "Smallest priority number"},
        values={"largest_first": "the largest priority number", "smallest_first": "the smallest priority number"},
    ),
    Setting(
        "insert_method",
        "where memory is inserted",
        "Insert memory into",
        "Where the blocks are put in the prompt: into the system message, or into the newest user message "
        "(`insert_method`).",
        "choice",
        choices={"system": "System message", "user": "User message"},
        values={"system": "the system message", "user": "the user message"},
    ),
    Setting(
        "accounting",
        "how tokens are counted",
        "Count with",
        "Content counts the tokens of the texts alone; billed adds markup, and what an endpoint adds for each message "
        "(`accounting`).",
        "choice",
        choices={"content": "Content", "billed": "Billed", "reference": "As LlamaIndex does"},
        values={"content": "content only", "billed": "as billed", "reference": "as LlamaIndex does"},
    ),
    Setting(
        "when_over",
        "what happens over the limit",
        sort="choice",
        values={
            "shrink_queue": "leave out the oldest turns",
            "return": "send it anyway",
            "raise": "stop with an error",
        },
    ),
    Setting("split_long_turns", "the splitting of long turns"),
    Setting("recipe", "the recipe"),
    Setting("recipe_parameters", "the parameters of the recipe"),
    Setting("encoding", "the tokenizer"),
    Setting("context_window", "the model's window"),
    Setting("reply_reserve", "the tokens kept for the reply"),
    *(
        Setting(f"{kind}_token_size_estimate", f"the size of {what}")
        for kind, what in (
            ("image", "an image"),
            ("audio", "an audio file"),
            ("video", "a video"),
            ("document", "a document"),
        )
    ),
    Setting("delivery_timeout", "the time limit of a delivery"),
    Setting("delivery_attempts", "the number of attempts of a delivery"),
)

_ANY_BLOCK = (
    Setting(
        "enabled", "use in prompts", "In use", "`enabled`: if off, it receives nothing and is in no prompt.", "toggle"
    ),
    Setting(
        "priority",
        "the priority",
        "Priority",
        "`priority`: 0 is never cut. The order of the others is the session's (`truncation_order`).",
    ),
    Setting("truncation", "cutting", sort="choice", values={"trim": "piece by piece", "drop": "whole"}),
    Setting("accept_short_term_memory", "learning from flushed messages"),
    DELIVER_ON,
    FORMER_VALUES,
    SCOPE,
)

STATIC_SETTINGS = (
    Setting(
        "read_only",
        "read only for the agent",
        "Read only for the agent",
        "`read_only`: if off, the agent may edit the text through tools. People always may.",
        "toggle",
    ),
    Setting(
        "description",
        "the description",
        "What it is for",
        "`description`: tells the agent what to write here, and when to change it.",
        "text",
        optional=True,
        when=("read_only", False),
    ),
    Setting(
        "limit",
        "the maximum number of characters",
        "Maximum characters",
        "`limit`: the agent cannot make the text longer. People may write more.",
        optional=True,
        without="no limit",
        when=("read_only", False),
    ),
)

FACTS_SETTINGS = (
    Setting(
        "max_facts",
        "the maximum number of facts",
        "Maximum facts",
        "Above this many, the list is condensed (`max_facts`).",
    ),
    Setting(
        "approval",
        "the approval of new facts",
        "Review new facts first",
        "`approval`: in no prompt until you accept them.",
        "toggle",
    ),
    Setting(
        "on_change",
        "the comparison of new facts with known ones",
        "Compare new facts with known ones",
        "`on_change`: what to do with a found fact that is similar to a known one. Every decision is recorded.",
        "choice",
        choices={"add": "No: both stay, contradictions are marked", "decide": "Yes: add, update, delete or nothing"},
        values={"add": "keep them", "decide": "compare and decide"},
    ),
    Setting(
        "nearest",
        "the number of facts that a new one is compared with",
        "Known facts to compare with",
        "`nearest`: number of most similar known facts that each found fact is compared with.",
        when=("on_change", "decide"),
    ),
    Setting(
        "show",
        "the facts in the prompt",
        "Facts in the prompt",
        "`show`: other facts stay stored and can be searched.",
        "choice",
        choices={
            "all": "All",
            "relevant": "The most relevant to the question",
            "none": "None: they are only searched",
        },
        values={"relevant": "the most relevant"},
    ),
    Setting(
        "top_k",
        "the maximum number of facts in the prompt",
        "Maximum facts in one prompt",
        "`top_k`: maximum number of facts requested, the most relevant first.",
        when=("show", "relevant"),
    ),
    Setting(
        "prompt_share",
        "the share of a full prompt that the facts keep",
        "Share of a full prompt",
        "`prompt_share`: share of the token limit that the facts keep when a prompt is full. Those above it are cut "
        "before any other block, least relevant first. Empty: by priority alone.",
        "share",
        optional=True,
        without="by priority alone",
    ),
    Setting(
        "show_dates",
        "the dates of facts in the prompt",
        "Show when a fact was confirmed",
        "`show_dates`: each fact in the prompt is followed by the day on which it was last stated or confirmed.",
        "toggle",
        group="Old facts",
    ),
    Setting(
        "expire_after_days",
        "the days until a fact expires",
        "Days until a fact expires",
        "`expire_after_days`: learned facts that nobody stated again or confirmed are retired after this time. What "
        "you wrote, changed or pinned stays. Empty: never.",
        optional=True,
        without="never",
        group="Old facts",
    ),
    Setting(
        "expire_categories",
        "the categories that expire",
        "Categories that expire",
        "`expire_categories`: only facts under these expire. Empty: all.",
        "labels",
        offered=CATEGORIES,
        group="Old facts",
        without="all",
    ),
    Setting(
        "categories",
        "the categories",
        "Categories",
        "`categories`: labels that facts are given. Empty: the extractor's own.",
        "labels",
        offered=CATEGORIES,
        without="the extractor's own",
    ),
    Setting("fact_extraction_prompt_template", "the prompt for extracting"),
    Setting("fact_condense_prompt_template", "the prompt for condensing"),
)

_WEIGHTS = tuple(
    Setting(
        name,
        f"the {weight}",
        capitalised(weight),
        f"`{name}`: {means} 0 switches it off.",
        "share",
        group="What counts in the score",
    )
    for name, weight, means in (
        ("vector_weight", "weight of meaning", "how much nearness in meaning counts in the match."),
        ("keyword_weight", "weight of keywords", "how much shared words count in the match."),
        ("neighbour_weight", "weight of neighbours", "part of the neighbouring messages' match is added."),
        ("episode_weight", "weight of the episode", "part of the same episode's best matches is added."),
        ("speaker_weight", "weight of the speaker", "added for the person asked about; less for other people."),
        ("date_weight", "weight of dates", "added for a date that the question names."),
        ("informativeness_weight", "weight of informativeness", "added for informative messages."),
        ("length_weight", "weight against length", "taken away for each doubling beyond 100 tokens."),
    )
)
VECTOR_SETTINGS = (
    Setting(
        "unit",
        "the stored unit",
        "Stored unit",
        "`unit`: what is found and recalled as a whole. Units that are already stored do not change.",
        "choice",
        choices={
            "message": "Each message by itself",
            "turn": "A user message with its replies",
            "batch": "All messages of one flush",
        },
        values={
            "message": "each message",
            "turn": "a user message with its replies",
            "batch": "all messages of one flush",
        },
    ),
    Setting(
        "similarity_top_k",
        "the number of results",
        "Results",
        "`similarity_top_k`: maximum number recalled. Empty: as many as fit into the tokens that are left.",
        optional=True,
        without="as many as fit",
    ),
    Setting(
        "similarity_threshold",
        "the threshold",
        "Threshold",
        "`similarity_threshold`: minimum score to be recalled. Empty: no threshold.",
        "share",
        optional=True,
        without="none",
    ),
    Setting(
        "layout",
        "the layout in the prompt",
        "In the prompt",
        "`layout`: lines take the fewest tokens, in the order they were said. Messages have LlamaIndex's markup, best "
        "match first.",
        "choice",
        choices={"lines": "A date, then speaker: words", "messages": "As marked-up messages"},
        values={"lines": "compact lines", "messages": "LlamaIndex's messages"},
    ),
    Setting(
        "retrieval_context_window",
        "the messages in a search's question",
        "Messages in the question",
        "`retrieval_context_window`: a short question is completed by the messages before it, up to this many in all. "
        "1: never.",
    ),
    *_WEIGHTS,
    Setting("postprocessed_by", "the postprocessors", sort="labels", without="none"),
)

SUMMARY_SETTINGS = (
    Setting(
        "max_tokens",
        "the maximum length",
        "Maximum tokens",
        "`max_tokens`: maximum length of the text. What does not fit is left out by whole sentences.",
    ),
)

GRAPH_SETTINGS = (
    Setting(
        "hops",
        "the steps from what is mentioned",
        "Steps from what is mentioned",
        "`hops`: how far from what the question mentions a relation may be.",
    ),
    Setting(
        "most_relations",
        "the maximum number of relations in the prompt",
        "Maximum relations in one prompt",
        "`most_relations`: those nearest to what the question mentions come first.",
    ),
)

_OF_KINDS = STATIC_SETTINGS, FACTS_SETTINGS, VECTOR_SETTINGS, SUMMARY_SETTINGS, GRAPH_SETTINGS

SETTINGS: Mapping[str, Setting] = {
    setting.name: setting for settings in (_SESSION, _ANY_BLOCK, *_OF_KINDS) for setting in settings
}
"""Every setting of a session and of the built-in blocks, by name. `block_kinds` says which a kind of block has."""


def setting_of(name: str) -> Setting:
    """Return a setting by its name; one of a plug-in is called by its name alone."""
    return SETTINGS.get(name) or Setting(name, name.replace("_", " "))


def named(name: str) -> str:
    """Return a setting's name for the beginning of a line: `Token limit`."""
    return capitalised(setting_of(name).noun.removeprefix("the "))


def setting_words(name: str, value: object, *before: object) -> str:
    """Describe a changed setting: `the token limit to 1,240`, and with its value before `... from 1,200 to 1,240`."""
    former = "".join(f" from {value_words(name, value)}" for value in before)
    return f"{setting_of(name).noun}{former} to {value_words(name, value)}"


def value_words(name: str, value: object) -> str:
    """Return a setting's value: numbers with separators, a percentage as such, choices in words."""
    setting = setting_of(name)
    if name == "token_limit" and value == MAX_TOKENS:
        return "none"  # of an attached agent, which cuts its prompts itself
    if name == "recipe":
        return recipe_title(str(value)) if value else "none"
    if isinstance(value, dict):
        return listed(f"{short(str(key))} {value_words(key, item)}" for key, item in value.items()) or "nothing"
    if isinstance(value, list | tuple) and value:
        return listed(short(str(item)) for item in value)
    if value is None or isinstance(value, list | tuple):
        return setting.without
    # Before whole numbers: True is an int too.
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return tokens(value)
    if isinstance(value, float):
        return f"{100 * value:g} %" if setting.sort == "percent" else f"{value:g}"
    label = (setting.choices or {}).get(str(value), "")
    return (setting.values or {}).get(str(value)) or f"{label[:1].lower()}{label[1:]}" or short(str(value))


def recipe_title(key: str) -> str:
    """Return the title of a recipe; for a recipe that this version does not know, its key."""
    recipe_named = RECIPES.get(key)
    return recipe_named.title if recipe_named is not None else short(key.replace("_", " "))
