"""Texts and data of the recipes section: rows, sentences, the effects of a switch, the parts of two prompts. Pure.

Sizes are tokens. Sentences are markdown in which quoted words are escaped, unless said otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memory_core import ConfigError, Context, Holding, Memory
from memory_core.blocks import WITH_TEXT
from memory_core.events import ContextBuilt
from memory_core.history.by_turn import History
from memory_core.messages import ChatMessage, message_text
from memory_core.planning.context_plan import QUEUE, RESERVED_LABEL
from memory_core.recipes import RECIPES, Recipe
from memory_core.sessions.switch_recipe import LeftBlock, NewBlock, SwitchPlan
from memory_core.systems.compare_recipes import Trial
from memory_core.text import listed
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.settings import setting_of, value_words
from memory_inspector.wording.unit_names import TURN, stored

NO_RECIPE = "a custom setup"
"""Name for the setup of a session that no recipe made."""

SPARK_POINTS = 120
"""Maximum points of the small line in a row."""

NAMED_CHANGES = 3
"""Maximum number of changed settings of a block listed by name; beyond it they are counted."""


@dataclass(frozen=True, slots=True)
class Tried:
    """Trial of the recipes on one conversation, as of a position of the log."""

    position: int
    turns: int
    """Number of turns at that time."""
    trials: tuple[Trial, ...]
    now: Context
    """The session's own next prompt at that time."""
    stopped: bool = False
    """True if the trial was cancelled: the recipes that had not been tried by then are missing."""

    @property
    def first_turn(self) -> int:
        """The first turn tried: for a long conversation only the newest are tried."""
        # The same turns are tried for every recipe; one that failed has none.
        return max(1, self.turns - max((len(trial.turns) for trial in self.trials), default=0) + 1)

    def of(self, key: str | None) -> Trial | None:
        """The successful trial of a recipe, if there is one."""
        return next((t for t in self.trials if t.recipe == key and t.error is None), None)

    def refused(self, key: str | None) -> str | None:
        """The error of a recipe that could not be tried."""
        return next((trial.error for trial in self.trials if trial.recipe == key), None)


def title_of(key: str | None, *, changed: bool = False) -> str:
    """Display name of a recipe: `Short-term + blocks, changed since`. Plain text."""
    if key is None:
        return NO_RECIPE
    recipe_chosen = RECIPES.get(key)
    title = recipe_chosen.title if recipe_chosen is not None else short(key)
    return f"{title}, changed since" if changed else title


# -- the opening ---------------------------------------------------------------------------------


def opening(running: str, turns: int, blocks: int, tried: Tried | None) -> str:
    """The section's opening sentence, in numbers. `running` is plain text: the name of the session's setup."""
    on = f"This session runs on **{plain(running)}**"
    # Before a trial, or if no recipe could be tried, there are no numbers to open with.
    if tried is None or not _averages(tried):
        size = f"{count(turns, 'turn')} so far" if turns else "nothing said yet"
        return f"{on}: {count(blocks, 'block')}, {size}. Try {len(RECIPES)} memory designs on this conversation."
    least, most = _averages(tried)[0], _averages(tried)[-1]
    spread = f"from **{tokens(least[0])}** tokens a turn ({plain(_name(least[1]))})"
    spread += f" to **{tokens(most[0])}** ({plain(_name(most[1]))})"
    return f"{on}. On {_span(tried)} prompts would take {spread}."


def _averages(tried: Tried) -> list[tuple[int, str]]:
    return sorted((trial.average, trial.recipe) for trial in tried.trials if trial.error is None and trial.turns)


def _span(tried: Tried) -> str:
    if tried.first_turn > 1:
        return f"its newest {count(tried.turns - tried.first_turn + 1, 'turn')}"
    return f"its {count(tried.turns, 'turn')}"


def _name(key: str) -> str:
    return RECIPES[key].title if key in RECIPES else key


def last(trial: Trial) -> int:
    """Tokens of the last turn's prompt."""
    return trial.turns[-1].sent if trial.turns else 0


def freshness(tried: Tried, turns: int) -> str:
    """Return the note above the table: the turns that were tried, and the meaning of the column *Calls to learn*."""
    since = turns - tried.turns
    when = f"Tried on turns {tokens(tried.first_turn)} to {tokens(tried.turns)}"
    when += f", {count(since, 'turn')} ago" if since > 0 else ""
    return f"{when}, using rules only: no model was called. *Calls to learn*: those that a model would take to learn."


# -- the table -----------------------------------------------------------------------------------


def word_rows(current: str | None) -> list[dict[str, str]]:
    """Return a row per recipe, in words."""
    return [
        {
            "Recipe": _row_name(recipe, current),
            "In one line": recipe.tagline,
            "Good at": recipe.strengths,
            "Weak at": recipe.limits,
        }
        for recipe in RECIPES.values()
    ]


def number_rows(tried: Tried, current: str | None) -> list[dict[str, Any]]:
    """Return a row per recipe, in numbers; None in every column if the recipe could not be tried."""
    rows: list[dict[str, Any]] = []
    for recipe in RECIPES.values():
        trial = tried.of(recipe.key)
        row: dict[str, Any] = {"Recipe": _row_name(recipe, current)}
        if trial is None:
            row |= dict.fromkeys(
                ("Tokens by turn", "Tokens per turn", "Last prompt", "Flushes", "Cut", "Calls to learn")
            )
        else:
            row |= {
                "Tokens by turn": thinned([turn.sent for turn in trial.turns]),
                "Tokens per turn": trial.average,
                "Last prompt": last(trial),
                "Flushes": sum(bool(turn.flushed) for turn in trial.turns),
                "Cut": sum(turn.cut for turn in trial.turns),
                "Calls to learn": trial.calls,
            }
        rows.append(row)
    return rows


def _row_name(recipe: Recipe, current: str | None) -> str:
    return f"✓ {recipe.title}" if recipe.key == current else recipe.title


def thinned(values: Sequence[int], most: int = SPARK_POINTS) -> list[int]:
    """At most `most` of the values, evenly spaced, including the last.

    >>> thinned([1, 2, 3, 4, 5], 3)
    [1, 3, 5]
    """
    if len(values) <= most:
        return list(values)
    # Evenly from the first to the last value, both included.
    return [values[round(place * (len(values) - 1) / (most - 1))] for place in range(most)]


def highest(tried: Tried) -> int:
    """Common scale of all small lines: tokens of the largest prompt."""
    return max((turn.sent for trial in tried.trials for turn in trial.turns), default=1)


def sent_by_turn(history: History) -> dict[int, int]:
    """Tokens of the last prompt that the session itself sent in each turn, by turn."""
    return {
        turn: record.built.event.total
        for turn, record in history.turns.items()
        if record.built is not None and isinstance(record.built.event, ContextBuilt)
    }


def running_on(memory: Memory) -> tuple[str | None, bool]:
    """The recipe that the session names or else matches (None: neither), and whether the session was changed since."""
    named = memory.session.config.recipe
    if named in RECIPES:
        # If a switch to the same recipe would change something, the session was changed since.
        return named, bool(plan_for(memory, named)[0])
    # A session that names no recipe may still be set up exactly like one.
    return next((key for key in RECIPES if _fits(memory, key)), None), False


def _fits(memory: Memory, key: str) -> bool:
    plan, refused = plan_for(memory, key)
    return refused is None and not plan


def plan_for(memory: Memory, key: str, **parameters: Any) -> tuple[SwitchPlan | None, str | None]:
    """The plan of a switch, or the reason why it is impossible."""
    try:
        return memory.preview.switch(key, **parameters), None
    except ConfigError as error:
        return None, str(error)


# -- the switch ----------------------------------------------------------------------------------


def plan_lines(plan: SwitchPlan, units: Mapping[str, str]) -> list[str]:
    """Lines on what a switch keeps, adds, removes and changes; empty categories are omitted.

    `units`: nouns for the stored units of vector blocks, from `memory_inspector.wording.unit_names.units`.
    """
    lines = []
    if plan.kept:
        lines.append(f"**Keeps** {listed([plain(short(name)) for name in plan.kept])}.")
    if plan.added:
        lines.append(f"**Adds** {listed([_added(block) for block in plan.added])}.")
    if plan.removed:
        lines.append(f"**Removes** {listed([_removed(block, units.get(block.name, TURN)) for block in plan.removed])}.")
    lines += [f"**Changes** {plain(short(name))}: {_changes(changes)}." for name, changes in plan.changed.items()]
    if plan.settings:
        lines.append(f"**Changes** {_changes(plan.settings)}.")
    return lines


def _added(block: NewBlock) -> str:
    filled = f" (filled from {count(block.fills, 'message')})" if block.fills else ""
    return f"{plain(short(block.name))}{filled}"


def _removed(block: LeftBlock, unit: str) -> str:
    return f"{plain(short(block.name))} ({stays(block.kind, block.holds, unit)})"


def stays(kind: str, holds: Holding, unit: str = TURN) -> str:
    """Clause on what becomes of the contents of a removed block: `its 9 facts stay stored`.

    `unit`: noun for the stored units of a vector block.
    """
    if kind == "facts":
        facts = sum(holds.facts.values())
        return (
            f"its {count(facts, 'fact')} {'stays' if facts == 1 else 'stay'} stored" if facts else "it holds no facts"
        )
    if kind == "vector":
        goes = "is deleted" if holds.turns == 1 else "are deleted"
        return f"its {stored(holds.turns, unit)} {goes}; the messages stay" if holds.turns else "nothing is stored"
    if kind == "graph":
        return "its relations stay stored"
    if kind in WITH_TEXT:
        return "its text is deleted; the messages stay"
    return "its contents are deleted"


def _changes(changes: Mapping[str, tuple[Any, Any]]) -> str:
    parts = [_setting(name, before, after) for name, (before, after) in list(changes.items())[:NAMED_CHANGES]]
    # The first few by name, the others as a number, so that the line stays short.
    more = len(changes) - NAMED_CHANGES
    return ", ".join([*parts, *([count(more, "other setting")] if more > 0 else [])])


def _setting(name: str, before: object, after: object) -> str:
    return f"{plain(setting_of(name).noun)} {plain(value_words(name, before))} → {plain(value_words(name, after))}"


def switched(plan: SwitchPlan) -> str:
    """Message shown after the switch. Plain text."""
    filling = [block for block in plan.added if block.fills]
    done = f"The session now runs on {plan.recipe.title}."
    if not filling:
        return done
    names = " and ".join(short(block.name) for block in filling)
    verb = "is" if len(filling) == 1 else "are"
    # Blocks read the same messages, so their numbers overlap and are not added up.
    return f"{done} {names} {verb} being filled from {count(max(block.fills for block in filling), 'message')}."


# -- two prompts ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PartShown:
    """A part of a prompt with its text."""

    name: str
    kind: str
    asked: int
    granted: int
    entries: tuple[str, ...]
    """Included items, in order. Plain text."""

    @property
    def size(self) -> str:
        """Granted tokens: `126`, or `279 of 335` if the part was cut."""
        return tokens(self.granted) if self.asked == self.granted else f"{tokens(self.granted)} of {tokens(self.asked)}"


def parts_of(context: Context) -> tuple[PartShown, ...]:
    """The parts of a prompt: the queue first, pinned messages, then the blocks in their order."""
    plan = context.plan
    # Messages of the queue come last in the prompt.
    messages = context.messages[len(context.messages) - len(plan.queue) :] if plan.queue else ()
    queue = PartShown(
        "Queue", QUEUE, plan.queue_asked, plan.queue_granted, tuple(_message_line(message) for message in messages)
    )
    parts = [queue]
    if plan.pinned_tokens:
        parts.append(PartShown("System messages", "custom", plan.pinned_tokens, plan.pinned_tokens, ()))
    if plan.reserved_tokens:
        parts.append(PartShown(RESERVED_LABEL, "custom", plan.reserved_tokens, plan.reserved_tokens, ()))
    for part in plan.granted:
        # Pieces whose words are unknown are left out.
        words = tuple(context.words[piece.ref] for piece in part.pieces if piece.ref in context.words)
        kind = context.kinds.get(part.name, "custom")
        parts.append(PartShown(part.name, kind, part.asked, part.granted, words))
    return tuple(parts)


def _message_line(message: ChatMessage) -> str:
    return f"{str(message.role).capitalize()}: {' '.join(message_text(message).split())}"


def prompt_sentence(title: str, now: Context, then: Context) -> str:
    """Two prompts compared in one line: `The next prompt: 1,106 tokens now, 512 with Sliding window, 594 fewer.`"""
    before, after = now.plan.total, then.plan.total
    difference = after - before
    change = "the same size" if not difference else f"{tokens(abs(difference))} {'more' if difference > 0 else 'fewer'}"
    return f"The next prompt: **{tokens(before)}** tokens now, **{tokens(after)}** with {plain(title)}, {change}."
