"""Baselines: a session, or a configuration that was played on it, whose numbers others are compared with."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from pydantic import TypeAdapter, ValidationError

from memory_core.errors import NotFoundError
from memory_core.history.by_turn import History
from memory_core.history.numbers import TurnNumbers, turn_numbers
from memory_core.lab.comparing import outcome_of, reused_by_turn
from memory_core.lab.playing import Played
from memory_core.memory import Memory
from memory_core.messages import content_hash
from memory_core.store.baselines import read_baseline, rewrite_baseline, write_baseline
from memory_core.store.database import Database


@dataclass(frozen=True, slots=True)
class Numbers:
    """All that a baseline is compared by."""

    turns: Mapping[int, TurnNumbers]
    average: int
    """Tokens of a prompt, on average over the turns."""
    cut: int
    """Tokens, over all turns."""
    calls: int
    """Calls that a model would have been asked for while it learned."""
    reused: Mapping[int, int]
    """By turn: billed tokens with which its last prompt begins as that of the turn before; none until `keep_reused`."""

    @property
    def last(self) -> TurnNumbers | None:
        """The last turn; None if there is none."""
        return self.turns[max(self.turns)] if self.turns else None


@dataclass(frozen=True, slots=True)
class KeptBaseline:
    """The numbers of a configuration, as they were kept."""

    id: str
    session_id: str
    """The session that it was played on."""
    name: str
    """In what it differs from the session's own configuration. Plain text."""
    numbers: Numbers


_NUMBERS = TypeAdapter(Numbers)


def numbers_of(memory: Memory) -> Numbers:
    """The numbers of a session that was lived or played, but for `reused`, for which all its prompts must be read."""
    told = outcome_of(memory)
    cut = sum(turn.cut for turn in told.turns)
    return Numbers(turn_numbers(memory.log.history()), told.average, cut, told.calls, {})


def reused_tokens(memory: Memory, history: History, turn: int) -> int | None:
    """Billed tokens with which a turn's last prompt begins as that of the last turn before it that has one."""
    built = history.turns[turn].built if turn in history.turns else None
    earlier = (history.turns[number].built for number in sorted(history.turns, reverse=True) if number < turn)
    before = next((each for each in earlier if each is not None), None)
    return None if built is None or before is None else memory.log.shared_prefix_tokens(before, built)


def keep_baseline(memory: Memory, played: Played, name: str, *, at: float) -> str:
    """Keep the numbers of a configuration that was played on a session; the id that `kept_baseline` takes.

    `name` says in what it differs, `at` is the time in seconds since the epoch.
    """
    text = _NUMBERS.dump_json(numbers_of(played.memory), exclude_defaults=True)
    id = content_hash(f"{memory.session_id}\n{name}\n{text.decode()}")
    write_baseline(memory.session.database, id, memory.session_id, name, zlib.compress(text), at)
    return id


def keep_reused(database: Database, played: Played, id: str) -> KeptBaseline:
    """Keep, with a baseline, what a prompt cache can reuse in each turn: all prompts that were played are read for it.

    Raises:
        NotFoundError: it is not kept any more.
    """
    kept = kept_baseline(database, id)
    numbers = replace(kept.numbers, reused=reused_by_turn(played.memory))
    rewrite_baseline(database, id, zlib.compress(_NUMBERS.dump_json(numbers, exclude_defaults=True)))
    return replace(kept, numbers=numbers)


def kept_baseline(database: Database, id: str) -> KeptBaseline:
    """A baseline that was kept.

    Raises:
        NotFoundError: it is not kept any more; its session may have been deleted.
    """
    found = read_baseline(database, id)
    try:
        if found is not None:
            return KeptBaseline(id, found[0], found[1], _NUMBERS.validate_json(zlib.decompress(found[2])))
    except (ValidationError, zlib.error) as error:  # of a version whose pages showed other numbers
        raise NotFoundError("This baseline was kept by another version.") from error
    raise NotFoundError("This baseline is not kept any more.")
