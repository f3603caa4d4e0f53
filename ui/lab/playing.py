"""Background plays and their results, shared by all tabs: one job for each configuration played by rules, one job for
all configurations played with a model. Pages draw their progress, and offer a play with the connected model.
"""

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial

import streamlit as st

from memory_core import ConfigError, Memory, MemoryInspectorError
from memory_core.events import ModelCalled, Ref
from memory_core.models.openai_client import OpenAIChat
from memory_core.models.protocols import ChatModel
from memory_core.tracing.watched import Presence
from memory_inspector.lab.bisecting import smallest_limit
from memory_inspector.lab.comparing import PlayOutcome, outcome_of
from memory_inspector.lab.failure_patterns import MIN_CASES, Patterns, cases_of, compare
from memory_inspector.lab.linting import Finding, findings
from memory_inspector.lab.playing import CallCount, CountedModel, KeptOutputs, Played, PlayedModel, Player
from memory_inspector.lab.probes import InPrompt, Probe, Verdict, evaluate
from memory_inspector.lab.script import Script, script_of
from memory_inspector.lab.striking import without
from memory_inspector.lab.variants import Variant
from memory_inspector.reading.lru_cache import LruCache
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import count, plain, tokens
from ui.tab import state
from ui.tab.model import chosen_model
from ui.tab.services import engine

MAX_KEPT = 8
"""Maximum number of cached plays of one session, the latest used; each holds the whole conversation in memory."""

LOOK_SECONDS = 0.3
"""Interval, in seconds, between updates of the progress on the page."""


class StoppedError(MemoryInspectorError):
    """A play, a count or a search was stopped, or its result is no longer cached."""


@dataclass
class Result:
    """The result of playing one configuration."""

    played: Played
    outcome: PlayOutcome
    seconds: float
    """Seconds that the play took."""
    calls_made: int = 0
    """Model calls made for the play; answers reused from earlier plays do not count."""
    cost: float | None = None
    """US dollars of these calls; None where a price is not known."""
    findings: tuple[Finding, ...] = ()
    """Problems under this configuration."""
    presences: dict[str, Presence] = field(default_factory=dict)
    """Outcome of each watched phrase, turn by turn."""
    verdicts: dict[Probe, Verdict] = field(default_factory=dict)
    patterns: Patterns | None = None
    """Comparison of the probes that fail with those that hold; None for few probes."""

    def tells(self, phrases: Sequence[str], probes: Sequence[Probe]) -> bool:
        return all(phrase in self.presences for phrase in phrases) and all(probe in self.verdicts for probe in probes)


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """A request to play configurations, and what to measure in their prompts."""

    memory: Memory
    position: int
    variants: Mapping[str, Variant]
    phrases: Sequence[str]
    probes: Sequence[Probe]


class _KeptPlays:
    """Cached results of one session, with the player that holds the embedded texts."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.player: Player | None = None
        self.results = LruCache[Result](MAX_KEPT)
        self.evicted: Counter[str] = Counter()
        """Number of times that the result of a finished job was evicted, by request."""
        self.paid = 0
        """Calls that plays made with models in this process."""


def phrases_of(memory: Memory) -> list[str]:
    """Return the watched phrases as words: fact ids differ under another configuration."""
    moments = []
    for target in memory.trace.watched:
        try:
            moments.append(memory.trace.words_of(target) if isinstance(target, Ref) else target)
        except MemoryInspectorError:  # erased since: there is nothing left to look for
            continue
    return moments


def result(memory: Memory, position: int, variant: Variant, model: str = "") -> Result | None:
    """Return the result of a configuration at a log position, played with a model or by rules; None if not cached."""
    return _cache(memory).results.get(key_of(position, variant, model))


def job_of(
    memory: Memory, position: int, variant: Variant, phrases: Sequence[str], probes: Sequence[Probe], model: str = ""
) -> Job:
    """Return the job that plays a configuration and measures phrases and probes; started if there is none.

    A play with a model is only measured here, and not started.
    """
    key = key_of(position, variant, model)
    asked = json.dumps([memory.session_id, key, [*phrases], [str(probe) for probe in probes]])
    # What is measured is part of the id: another watched phrase is another job on the same play. A job that succeeded
    # is not run again under its id, so a result that was evicted since gets a new one.
    request = PlayRequest(memory, position, {variant.name: variant}, phrases, probes)
    cache = _cache(memory)
    result, job = cache.results.get(key), engine().reading(f"lab/{asked}/{cache.evicted[asked]}")
    if job is not None and job.done and job.error is None and (result is None or not result.tells(phrases, probes)):
        cache.evicted[asked] += 1
    return engine().read(f"lab/{asked}/{cache.evicted[asked]}", lambda job: _work(job, request, variant, model))


def count_job(request: PlayRequest, model: str) -> Job | None:
    """Return the job whose text is the counted model calls of a play, as JSON by configuration; None if not started."""
    return engine().reading(_count_key(request, model))


def count_calls(request: PlayRequest, model: str) -> None:
    """Count the model calls of a play in the background; a cancelled count starts again."""
    memory = request.memory

    def work(job: Job) -> None:
        counted = CountedModel(model, KeptOutputs(memory), encoding=memory.session.config.encoding)
        results = {}
        for name, variant in request.variants.items():
            job.add_progress(f"Counting the calls of {name} to {model}")
            played = player_of(memory).play(
                _script(memory, request.position, variant), variant, by=counted, cancelled=job.cancel.is_set
            )
            if played is None:
                raise StoppedError(f"The calls of a play with {model} were not counted.")
            # Only the counts matter: a played session holds the whole conversation in memory.
            played.close()
            results[name] = asdict(counted.counted())
        job.add_text(json.dumps(results))

    engine().read(_count_key(request, model), work)


def _count_key(request: PlayRequest, model: str) -> str:
    # Answers that were paid for are kept, and are no new calls: each paid play makes the old counts out of date.
    tried = [f"{name} {key_of(request.position, variant)}" for name, variant in request.variants.items()]
    return f"lab-count/{json.dumps([request.memory.session_id, model, _cache(request.memory).paid, *tried])}"


def play_with_model(job_key: str, request: PlayRequest, chat: ChatModel, calls: int) -> Job:
    """Play configurations one after another with a model, in at most `calls` calls; equal requests are made once."""

    def work(job: Job) -> None:
        # One for all configurations, so that the agreed number of calls is for them together.
        by = PlayedModel(chat, KeptOutputs(request.memory), calls=calls)
        try:
            for variant in request.variants.values():
                _work(job, request, variant, chat.name, by)
        finally:
            by.close()
            if isinstance(chat, OpenAIChat):  # made for the drawing that offered the play: nobody else calls it
                chat.close()
            # Also after a failure: calls that were made were answered, and are kept.
            _cache(request.memory).paid += len(by.made)

    return engine().read(job_key, work)


def keeping(memory: Memory, phrases: Sequence[str]) -> list[Probe]:
    """Return a probe for each phrase, which requires it in every prompt from the turn in which it was first said."""
    probes: list[Probe] = []
    for phrase in phrases:
        turns = [message.turn for message in memory.trace(phrase).said]
        # 300 characters are the most that a probe's phrase may have.
        probes.append(InPrompt(phrase=phrase[:300], from_turn=max(1, min(turns, default=1))))
    return probes


def limit_job(memory: Memory, position: int, variant: Variant, phrases: Sequence[str]) -> Job | None:
    """Return the job that searches for the smallest limit with the phrases, running or done; None if not started."""
    return engine().reading(_limit_key(memory, position, variant, phrases))


def find_limit(memory: Memory, position: int, variant: Variant, phrases: Sequence[str]) -> None:
    """Search for the smallest token limit that keeps the phrases in the prompts, in the background."""

    def work(job: Job) -> None:
        player, probes = player_of(memory), keeping(memory, phrases)
        smallest = smallest_limit(
            player,
            _script(memory, position, variant),
            variant,
            probes,
            progress=job.add_progress,
            cancelled=job.cancel.is_set,
        )
        if job.cancel.is_set():
            raise StoppedError("Cancelled: nothing was kept.")
        # An empty text says that the search has ended and found none.
        job.add_text("" if smallest is None else str(smallest))

    engine().read(_limit_key(memory, position, variant, phrases), work)


def _limit_key(memory: Memory, position: int, variant: Variant, phrases: Sequence[str]) -> str:
    return f"lab-limit/{json.dumps([memory.session_id, key_of(position, variant), [*phrases]])}"


def _script(memory: Memory, position: int, variant: Variant) -> Script:
    return without(script_of(memory, position), memory.log.history(), variant.struck)


def player_of(memory: Memory) -> Player:
    """The player that all plays of a session share."""
    cache = _cache(memory)
    with cache.lock:
        # Shared, because it keeps the vectors of all texts that were embedded once.
        cache.player = cache.player or Player(memory.session.services, tokenizer_fn=memory.session.tokenizer_fn)
        return cache.player


def _work(job: Job, request: PlayRequest, variant: Variant, model: str, by: PlayedModel | None = None) -> None:
    """Play a configuration unless its result is cached, by rules or `by` a model; measure phrases and probes."""
    memory, cache, key = request.memory, _cache(request.memory), key_of(request.position, variant, model)
    # 1. Play, unless an equal configuration was played before, under whatever name.
    result = cache.results.get(key)
    if result is None:
        if model and by is None:
            raise StoppedError(f"The play with {model} is no longer cached. Play it again: its answers are stored.")
        script, percent = _script(memory, request.position, variant), -1
        # `by` counts over all configurations of the play: only the calls after this number are of this one.
        before = len(by.made) if by is not None else 0

        def progress(done: int, of: int) -> None:
            nonlocal percent
            if 100 * done // of != percent:  # one line a percent: all lines are kept
                percent = 100 * done // of
                turn = f"turn {tokens(script.turns * done // of)} of {tokens(script.turns)}"
                paid = f" with {model}, {len(by.made)} of {count(by.agreed, 'call')}" if by is not None else ""
                job.add_progress(f"Playing {variant.name}{paid}: {turn}")

        begun = time.monotonic()
        played = player_of(memory).play(
            script,
            variant,
            by=by,
            progress=progress,
            cancelled=job.cancel.is_set,
        )
        if played is None:
            raise StoppedError(_stopped(by))
        # 2. What the play shows by itself; looking for phrases and probes is not part of its time.
        seconds = time.monotonic() - begun
        warnings = findings(variant, script, tokenizer_fn=memory.session.tokenizer_fn)
        result = Result(played, outcome_of(played.memory), seconds, findings=warnings)
        if by is not None:
            made = by.made[before:]
            # A sum of some known prices would look like the whole.
            costs = [call.cost for call in made if call.cost is not None]
            result.calls_made, result.cost = len(made), sum(costs) if len(costs) == len(made) else None
            result.outcome = replace(result.outcome, calls=len(played.memory.events(kinds=(ModelCalled.kind,))))
    # 3. The phrases and probes that the cached result does not cover yet.
    for phrase in request.phrases:
        if phrase not in result.presences:
            job.add_progress(f"Looking for “{phrase[:40]}” in the prompts of {variant.name}")
            result.presences[phrase] = result.played.memory.trace.presence(phrase)
        if job.cancel.is_set():
            raise StoppedError("Cancelled: nothing was kept.")
    for verdict in evaluate(result.played.memory, [probe for probe in request.probes if probe not in result.verdicts]):
        result.verdicts[verdict.probe] = verdict
    if len(result.verdicts) > MIN_CASES:
        result.patterns = compare(cases_of(result.played.memory, result.verdicts.values()))
    # Only now: a play that is cancelled while it is looked at counts as cancelled.
    cache.results.put(key, result)


def _stopped(by: PlayedModel | None) -> str:
    """Return in a sentence why a play ended early."""
    if by is None or (by.stopped is None and not by.made):
        return "Cancelled: nothing was kept."
    if by.stopped is not None:
        return by.stopped
    made = len(by.made)
    return f"Cancelled. {count(made, 'answer')} {'was' if made == 1 else 'were'} paid for, and kept for the next play."


def key_of(position: int, variant: Variant, model: str = "") -> str:
    """Return the cache key of a tried configuration; configurations with equal settings have the same key."""
    blocks = [block.model_dump(mode="json") for block in variant.blocks]
    try:
        # The recipe's name changes no prompt: equal settings are one play.
        settings = variant.config.model_dump(mode="json", exclude={"recipe", "recipe_parameters"})
    except ConfigError:
        settings = dict(variant.settings)
    # `default=str`: a value of an impossible configuration may be anything.
    return json.dumps([position, settings, blocks, variant.struck, model], sort_keys=True, default=str)


def _cache(memory: Memory) -> _KeptPlays:
    return engine().services.cached(("lab", memory.session.database.id, memory.session_id), _KeptPlays)


# -- progress of the Lab's jobs; the page is drawn again when all have ended ----------------------


@st.fragment(run_every=LOOK_SECONDS)
def follow_jobs(
    jobs: Sequence[Job], key: str = "lab__cancel", stopped: Callable[[], object] = lambda: None, *, holds: bool = False
) -> None:
    """Show the progress of jobs. `stopped` is called when they are cancelled; with `holds`, a failed job starts again
    only when a button is pressed."""
    if all(job.done for job in jobs):
        problem = next((job.error for job in jobs if job.error is not None), None)
        # A job that failed and is begun again by the page itself would fail again, and again.
        if problem is None or not holds:
            st.rerun()
        st.warning(plain(problem))
        # A click in a fragment redraws only that, and it is the page that begins the job once more.
        if st.button("Play", key="lab__play_again", icon=":material/science:"):
            st.rerun()
        return
    draw_progress(jobs, key, stopped)


def draw_progress(jobs: Sequence[Job], key: str, stopped: Callable[[], object] = lambda: None) -> None:
    """Draw the progress of the first job that has not ended."""
    job = next((job for job in jobs if not job.done), jobs[-1])
    with st.container(horizontal=True, vertical_alignment="center"):
        words = plain(job.progress[-1]) if job.progress else "Reading the conversation"
        st.markdown(f":shimmer[{'Cancelling' if job.cancel.is_set() else words}]", width="content")
        if not job.cancel.is_set():
            st.button("Cancel", key=key, on_click=_cancel, args=(jobs, stopped))


def _cancel(jobs: Sequence[Job], stopped: Callable[[], object]) -> None:
    for job in jobs:
        job.cancel.set()
    stopped()


# -- plays with the connected model: calls are counted and shown before a person starts one -------


MAX_CALLS = 10_000
"""Maximum number of calls that a person can agree to for one play."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A request of a tab to play with a model."""

    model: str = ""
    """Name of the model whose play is shown; empty: the play by rules."""
    job: str = ""
    """Key of the last play that this tab started."""


_WANTED = state.ByPlace("lab_model", _Wanted())


def draw_with_model(request: PlayRequest, *, at_once: bool) -> dict[str, Result] | None:
    """Draw the cost of a play with the connected model, before or after it; return its results if they are shown.

    `at_once`: count the calls although nobody asked for it, as for a short conversation.
    """
    session_id = request.memory.session_id
    wanted = _WANTED.at(session_id)
    try:
        chosen = chosen_model().model
    except ConfigError:  # the sidebar says so
        return None
    # 1. A play that was started here comes first, whatever else has changed since.
    job = engine().reading(wanted.job) if wanted.job else None
    if job is not None and not job.done:
        follow_jobs([job], "lab__model_cancel")
        return None
    # 2. Its results, if they are wanted and cover all configurations that are shown.
    if wanted.model and (results := _stored_results(request, wanted.model)) is not None:
        return results
    if job is not None and job.error is not None:
        st.warning(plain(job.error))
    # 3. Otherwise an offer. Counting asks no model, so that a short conversation is counted unasked.
    if not chosen.offline:
        if count_job(request, chosen.name) is None and (at_once or wanted.model == chosen.name):
            count_calls(request, chosen.name)
        _draw_offer(request, chosen, wanted, failed=job is not None and job.error is not None)
    return None


def _stored_results(request: PlayRequest, model: str) -> dict[str, Result] | None:
    """Return a model's results; None if one is missing, an empty dict while phrases and probes are measured."""
    results = {
        name: result(request.memory, request.position, variant, model) for name, variant in request.variants.items()
    }
    done = {name: result for name, result in results.items() if result is not None}
    # Rows learned by rules and rows learned by a model would not be comparable: all or none.
    if len(done) < len(results):
        return None
    jobs = [  # something is watched since: the prompts are read, and nothing is called
        job_of(request.memory, request.position, request.variants[name], request.phrases, request.probes, model)
        for name, result in done.items()
        if not result.tells(request.phrases, request.probes)
    ]
    if jobs:
        job = next((job for job in jobs if not job.done), jobs[0])
        follow_jobs([job], "lab__model_reading", partial(_want_rules, request.memory.session_id))
        return {}
    _draw_shown(request.memory.session_id, model, done)
    return done


def _draw_shown(session_id: str, model: str, results: dict[str, Result]) -> None:
    played = {id(result): result for result in results.values()}.values()  # of equal configurations there is one
    made = sum(result.calls_made for result in played)
    costs = [result.cost for result in played if result.calls_made]
    prices = [cost for cost in costs if cost is not None]
    # A sum in which one price is missing would look too cheap.
    price = f", ${sum(prices):.4f}" if made and len(prices) == len(costs) else ""
    calls = f"{count(made, 'call')}{price}" if made else "no call was needed"
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="lab__by_model"):
        st.markdown(f"Learned by **{plain(model)}**: {calls}.", width="content")
        st.button("Show it by rules", key="lab__by_rules", type="tertiary", on_click=_want_rules, args=(session_id,))


def _draw_offer(request: PlayRequest, model: ChatModel, wanted: _Wanted, *, failed: bool) -> None:
    """Draw the cost of a play, and the button that starts it."""
    job = count_job(request, model.name)
    if job is not None and not job.done:
        follow_jobs([job], "lab__count_cancel")
        return
    # Not counted, or cancelled: calls are never offered without their number.
    if job is None or job.error is not None:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(
                f":small[Learned by rules. To learn with {plain(model.name)}, count its calls first.]",
                width="content",
            )
            st.button("Count its calls", key="lab__count", on_click=count_calls, args=(request, model.name))
        return
    counted = {name: CallCount(**values) for name, values in json.loads(job.text).items()}
    new = sum(values.new for values in counted.values())
    if not new and not any(values.kept for values in counted.values()):
        return  # nothing here is learned with a model
    if not new and wanted.model == model.name and not failed:  # a setting was changed that changes no question
        # No call is agreed to: all answers are kept already.
        _play(request, model, 0)
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small", key="lab__offer"):
        st.markdown(f":small[{offer(plain(model.name), counted)}]", width="stretch")
        calls = 0
        if new:
            # Keyed by the number: a field keeps what was typed, and another count is another offer.
            most = st.number_input(
                "Calls, at most", 1, MAX_CALLS, min(new, MAX_CALLS), key=f"lab__calls_{new}", width=150
            )
            calls = int(most)
        st.button(
            f"Play with {plain(model.name)}",
            key="lab__play_model",
            icon=":material/smart_toy:",
            help="Stops at that number of calls. Answers are stored with this session and not asked again.",
            on_click=_play,
            args=(request, model, calls),
        )


def offer(model: str, counted: dict[str, CallCount]) -> str:
    """Return the calls and tokens that a play with a model would take, in words.

    >>> offer("gpt", {"A": CallCount(0, 0, 4), "B": CallCount(3, 2100, 1)})
    'Learned by rules. With gpt, **B** needs about 3 new calls: 2,100 tokens in. 5 answers are kept already.'
    >>> offer("gpt", {"A": CallCount(0, 0, 4)})
    'Learned by rules. gpt answered all of this before: a play with it needs no calls.'
    """
    needs = {name: need for name, need in counted.items() if need.new}
    if not needs:
        return f"Learned by rules. {model} answered all of this before: a play with it needs no calls."
    calls = ", ".join(f"**{plain(name)}** needs about {count(need.new, 'new call')}" for name, need in needs.items())
    sent, stored = sum(need.input_tokens for need in needs.values()), sum(need.kept for need in counted.values())
    already = f" {count(stored, 'answer')} {'is' if stored == 1 else 'are'} kept already." if stored else ""
    return f"Learned by rules. With {model}, {calls}: {tokens(sent)} tokens in.{already}"


def _play(request: PlayRequest, model: ChatModel, calls: int) -> None:
    key = f"lab-model/{uuid.uuid4().hex}"
    _WANTED.put(request.memory.session_id, _Wanted(model.name, key))
    play_with_model(key, request, model, calls)


def _want_rules(session_id: str) -> None:
    """Show the play by rules again; the play with the model stays cached."""
    _WANTED.change(session_id, model="")
