"""Compare recipes on one conversation: each gets the same messages in a temporary memory.

Nothing is stored and no model is called: model calls are counted, and the offline rules learn instead. Vectors are
made once for all recipes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from memory_core.engine.context import Context
from memory_core.errors import MemoryInspectorError
from memory_core.lab.comparing import PlayedTurn, average, outcome_of
from memory_core.lab.playing import Player, undelivered
from memory_core.lab.script import script_from
from memory_core.lab.variants import variant_after_switch
from memory_core.memory import Memory
from memory_core.planning.context_plan import turns_of

MAX_TURNS = 300
"""Maximum turns of a conversation that are tried, the newest; more adds time and no insight."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of one recipe on the conversation so far."""

    recipe: str
    turns: tuple[PlayedTurn, ...]
    calls: int
    """Number of model calls that the recipe would have made; in the trial, the offline rules replaced them."""
    call_tokens: int
    """Tokens of the messages that a model would have read in the recipe's calls, without instructions."""
    prompt: Context | None
    """Next prompt under the recipe; None if the recipe cannot be tried."""
    error: str | None = None
    """Sentence that says why the recipe cannot be tried, or learned less than it would."""

    @property
    def average(self) -> int:
        """Average tokens of a prompt over the turns."""
        return average(self.turns)


def compare_recipes(
    memory: Memory,
    keys: Sequence[str],
    *,
    progress: Callable[[int, int], object] = lambda done, of: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Trial]:
    """Try each recipe on the conversation so far, as the session would be after switching to it.

    At most the newest 300 turns are tried. `progress` is called with the turns done and their total; once
    `cancelled`, finished results are returned. A recipe that cannot be tried has an `error`.
    """
    memory.session.refresh()
    # Whole turns, so that the first one played has its question.
    turns = turns_of(memory.get_all())[-MAX_TURNS:]
    script = script_from(message for turn in turns for message in turn)
    player = Player(memory.session.services, tokenizer_fn=memory.session.tokenizer_fn)
    trials: list[Trial] = []
    for number, key in enumerate(keys):

        def tell(done: int, of: int, before: int = number) -> None:
            progress(before * script.turns + done * script.turns // of, script.turns * len(keys))

        try:
            played = player.play(script, variant_after_switch(memory, key), progress=tell, cancelled=cancelled)
        # An impossible recipe must not take the others' results away.
        except MemoryInspectorError as error:
            trials.append(Trial(key, (), 0, 0, None, str(error)))
            continue
        if played is None:
            # Cancelled within a recipe: only finished results are returned.
            break
        trials.append(_trial(key, played.memory))
    return trials


def _trial(key: str, memory: Memory) -> Trial:
    outcome, prompt = outcome_of(memory), memory.build_context(record=False)
    return Trial(key, outcome.turns, outcome.calls, outcome.call_tokens, prompt, undelivered(memory))
