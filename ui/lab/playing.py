"""Plays in the background: one job a configuration, and its result, shared by all tabs that try the same."""

import json
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from memory_core import Memory, MemoryInspectorError
from memory_core.errors import ConfigError
from memory_core.events import Ref
from memory_core.lab.bisecting import smallest_limit
from memory_core.lab.comparing import Outcome, outcome_of
from memory_core.lab.linting import Finding, findings
from memory_core.lab.playing import Played, Player
from memory_core.lab.probes import InPrompt, Probe, Verdict, evaluate
from memory_core.lab.script import Script, script_of
from memory_core.lab.striking import without
from memory_core.lab.variants import Variant
from memory_core.tracing.presence import Presence
from ui.jobs import Job
from ui.services import engine
from ui.text import tokens

MAX_KEPT = 8
"""Played sessions that are kept for one session, the latest used: each holds the conversation once more in memory."""

LOOK_SECONDS = 0.3
"""Interval, in seconds, between updates of the progress on the page."""


class StoppedError(MemoryInspectorError):
    """A person cancelled a play; nothing of it is kept."""


@dataclass
class Result:
    """A configuration, played."""

    played: Played
    outcome: Outcome
    seconds: float
    """How long the play took."""
    findings: tuple[Finding, ...] = ()
    """What goes wrong under it."""
    presences: dict[str, Presence] = field(default_factory=dict)
    """What became of each watched phrase, turn by turn."""
    verdicts: dict[Probe, Verdict] = field(default_factory=dict)

    def tells(self, phrases: Sequence[str], probes: Sequence[Probe]) -> bool:
        return all(phrase in self.presences for phrase in phrases) and all(probe in self.verdicts for probe in probes)


class _Kept:
    """The results of one session, and what was embedded for them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.player: Player | None = None
        self.results: OrderedDict[str, Result] = OrderedDict()

    def get(self, key: str) -> Result | None:
        with self.lock:
            if key in self.results:
                self.results.move_to_end(key)
            return self.results.get(key)

    def put(self, key: str, result: Result) -> None:
        with self.lock:
            self.results[key] = result
            while len(self.results) > MAX_KEPT:
                self.results.popitem(last=False)


def phrases_of(memory: Memory) -> list[str]:
    """What is watched, in words: ids of facts are others under another configuration."""
    found = []
    for target in memory.trace.watched:
        try:
            found.append(memory.trace.words_of(target) if isinstance(target, Ref) else target)
        except MemoryInspectorError:  # erased since: there is nothing left to look for
            continue
    return found


def result(memory: Memory, position: int, variant: Variant) -> Result | None:
    """A configuration as played up to a position of the session's log; None if it was not yet."""
    return _kept(memory).get(_key(position, variant))


def job_of(memory: Memory, position: int, variant: Variant, phrases: Sequence[str], probes: Sequence[Probe]) -> Job:
    """The job that plays a configuration and looks at what is watched; started if it is not there yet."""
    key = _key(position, variant)
    asked = json.dumps([memory.session_id, key, [*phrases], [str(probe) for probe in probes]])
    return engine().read(f"lab/{asked}", lambda job: _work(job, memory, position, variant, phrases, probes))


def keeping(memory: Memory, phrases: Sequence[str]) -> list[Probe]:
    """Probes that ask for each phrase in every prompt from the turn on in which it was first said."""
    found: list[Probe] = []
    for phrase in phrases:
        said = [said.turn for said in memory.trace(phrase).said]
        found.append(InPrompt(phrase=phrase[:300], from_turn=max(1, min(said, default=1))))
    return found


def limit_job(memory: Memory, position: int, variant: Variant, phrases: Sequence[str]) -> Job | None:
    """The search for the smallest limit of a configuration that keeps phrases, running or done."""
    return engine().reading(_limit_key(memory, position, variant, phrases))


def find_limit(memory: Memory, position: int, variant: Variant, phrases: Sequence[str]) -> None:
    """Search for it in the background."""

    def work(job: Job) -> None:
        player, probes = player_of(memory), keeping(memory, phrases)
        found = smallest_limit(
            player,
            _script(memory, position, variant),
            variant,
            probes,
            progress=job.add_progress,
            cancelled=job.cancel.is_set,
        )
        if job.cancel.is_set():
            raise StoppedError("Cancelled: nothing was kept.")
        job.add_text("" if found is None else str(found))

    engine().read(_limit_key(memory, position, variant, phrases), work)


def _limit_key(memory: Memory, position: int, variant: Variant, phrases: Sequence[str]) -> str:
    return f"lab-limit/{json.dumps([memory.session_id, _key(position, variant), [*phrases]])}"


def _script(memory: Memory, position: int, variant: Variant) -> Script:
    return without(script_of(memory, position), memory.log.history(), variant.struck)


def player_of(memory: Memory) -> Player:
    """The player that all plays of a session share."""
    kept = _kept(memory)
    with kept.lock:
        kept.player = kept.player or Player(memory.session.services, tokenizer_fn=memory.session.tokenizer_fn)
        return kept.player


def _work(
    job: Job, memory: Memory, position: int, variant: Variant, phrases: Sequence[str], probes: Sequence[Probe]
) -> None:
    kept, key = _kept(memory), _key(position, variant)
    found = kept.get(key)
    if found is None:
        script, told = _script(memory, position, variant), -1

        def progress(done: int, of: int) -> None:
            nonlocal told
            if 100 * done // of != told:  # one line a percent: all lines are kept
                told = 100 * done // of
                job.add_progress(
                    f"Playing {variant.name}: turn {tokens(script.turns * done // of)} of {tokens(script.turns)}"
                )

        begun = time.monotonic()
        played = player_of(memory).play(script, variant, progress=progress, cancelled=job.cancel.is_set)
        if played is None:
            raise StoppedError("Cancelled: nothing was kept.")
        seconds = time.monotonic() - begun
        said = findings(variant, script, tokenizer_fn=memory.session.tokenizer_fn)
        found = Result(played, outcome_of(played.memory), seconds, said)
    for phrase in phrases:
        if phrase not in found.presences:
            job.add_progress(f"Looking for “{phrase[:40]}” in the prompts of {variant.name}")
            found.presences[phrase] = found.played.memory.trace.presence(phrase)
        if job.cancel.is_set():
            raise StoppedError("Cancelled: nothing was kept.")
    for verdict in evaluate(found.played.memory, [probe for probe in probes if probe not in found.verdicts]):
        found.verdicts[verdict.probe] = verdict
    kept.put(key, found)


def _key(position: int, variant: Variant) -> str:
    blocks = [block.model_dump(mode="json") for block in variant.blocks]
    try:
        settings = variant.config.model_dump(mode="json", exclude={"recipe", "recipe_parameters"})
    except ConfigError:
        settings = dict(variant.settings)
    return json.dumps([position, settings, blocks, variant.struck], sort_keys=True, default=str)


def _kept(memory: Memory) -> _Kept:
    return engine().services.cached(("lab", memory.session.database.id, memory.session_id), _Kept)
