"""Plays with the connected model: their calls are counted and shown before a person starts one."""

import json
import uuid
from dataclasses import dataclass
from functools import partial

import streamlit as st

from memory_core import ConfigError
from memory_core.models.protocols import ChatModel
from memory_inspector.lab.model_plays import CallCount
from memory_inspector.wording.formatting import count, plain, tokens
from ui.lab import playing, progress
from ui.lab.playing import PlayRequest, Result
from ui.tab import state
from ui.tab.model import chosen_model
from ui.tab.services import engine

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


def draw(request: PlayRequest, *, at_once: bool) -> dict[str, Result] | None:
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
        progress.follow([job], "lab__model_cancel")
        return None
    # 2. Its results, if they are wanted and cover all configurations that are shown.
    if wanted.model and (results := _stored_results(request, wanted.model)) is not None:
        return results
    if job is not None and job.error is not None:
        st.warning(plain(job.error))
    # 3. Otherwise an offer. Counting asks no model, so that a short conversation is counted unasked.
    if not chosen.offline:
        if playing.count_job(request, chosen.name) is None and (at_once or wanted.model == chosen.name):
            playing.count_calls(request, chosen.name)
        _draw_offer(request, chosen, wanted, failed=job is not None and job.error is not None)
    return None


def _stored_results(request: PlayRequest, model: str) -> dict[str, Result] | None:
    """Return a model's results; None if one is missing, an empty dict while phrases and probes are measured."""
    results = {
        name: playing.result(request.memory, request.position, variant, model)
        for name, variant in request.variants.items()
    }
    done = {name: result for name, result in results.items() if result is not None}
    # Rows learned by rules and rows learned by a model would not be comparable: all or none.
    if len(done) < len(results):
        return None
    jobs = [  # something is watched since: the prompts are read, and nothing is called
        playing.job_of(request.memory, request.position, request.variants[name], request.phrases, request.probes, model)
        for name, result in done.items()
        if not result.tells(request.phrases, request.probes)
    ]
    if jobs:
        job = next((job for job in jobs if not job.done), jobs[0])
        progress.follow([job], "lab__model_reading", partial(_want_rules, request.memory.session_id))
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
    job = playing.count_job(request, model.name)
    if job is not None and not job.done:
        progress.follow([job], "lab__count_cancel")
        return
    # Not counted, or cancelled: calls are never offered without their number.
    if job is None or job.error is not None:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(
                f":small[Learned by rules. To learn with {plain(model.name)}, count its calls first.]",
                width="content",
            )
            st.button("Count its calls", key="lab__count", on_click=playing.count_calls, args=(request, model.name))
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
    playing.play_with_model(key, request, model, calls)


def _want_rules(session_id: str) -> None:
    """Show the play by rules again; the play with the model stays cached."""
    _WANTED.change(session_id, model="")
