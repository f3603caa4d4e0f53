"""The view Value of the Lab: what a memory and each of its blocks add on this conversation, and what they cost."""

import json
from dataclasses import dataclass
from functools import partial
from typing import Any

import streamlit as st

from memory_core import Memory, MemoryInspectorError
from memory_core.planning.context_plan import QUEUE
from memory_inspector.lab.probes import Question
from memory_inspector.lab.script import script_of
from memory_inspector.lab.value import Arm, Value, percent, value_of
from memory_inspector.lab.variants import Variant
from memory_inspector.reading.lru_cache import LruCache
from memory_inspector.server.jobs import Job
from memory_inspector.wording.formatting import count, plain
from ui.lab import playing
from ui.lab.checks import draw_patterns
from ui.lab.playing import StoppedError
from ui.lab.sweeping import draw_questions
from ui.parts.components import conclusion, heading
from ui.tab.services import engine
from ui.tab.view import View

MAX_KEPT = 4
"""Maximum number of cached values of one session; the latest used stay."""

MAX_FACTS = 100
"""Maximum facts listed: those that prompts spent most tokens on."""

AUTOMATIC_TURNS = 60
"""Maximum turns of a conversation that is measured without a request; each block costs a replay."""

_SCORED = {
    "evidence": "share of the evidence that was in the prompt. No model is asked.",
    "support": "share of each recorded answer's words that were in the prompt. No model is asked.",
}


@dataclass(frozen=True, slots=True)
class _Request:
    """A configuration and questions to measure it by."""

    memory: Memory
    position: int
    variant: Variant
    questions: tuple[Question, ...]

    @property
    def key(self) -> str:
        tried = playing.key_of(self.position, self.variant)
        return json.dumps([self.memory.session_id, tried, repr(self.questions)])

    @property
    def job_key(self) -> str:
        """Id of the job; it changes when a cached value is evicted, because a job that succeeded does not run again."""
        return f"lab-value/{_cache(self.memory).dropped}/{self.key}"


def draw(view: View, position: int, variant: Variant) -> None:
    """Draw the value of a configuration on the conversation up to a log position."""
    if variant.struck:
        st.markdown(":small[:gray[Value cannot leave out events: put the struck events back first.]]")
        return
    request = _Request(view.memory, position, variant, draw_questions(view.memory.session_id))
    value = _cache(view.memory).get(request.key)
    if value is not None:
        _draw_value(view.memory, value)
        return
    job = engine().reading(request.job_key)
    if job is None and len(view.history.turns) > AUTOMATIC_TURNS:
        number = len(variant.blocks) + 2
        st.button(
            f"Play {count(number, 'time')}",
            key="lab__value_go",
            type="primary",
            icon=":material/science:",
            help="With the memory, without it, and with each block alone. No model is called, and nothing is stored.",
            on_click=_begin,
            args=(request,),
        )
        return
    if job is None or job.error is not None:
        _begin(request)
        job = engine().reading(request.job_key)
    assert job is not None
    playing.follow_jobs([job], "lab__value_cancel", holds=True)


def _begin(request: _Request) -> None:
    """Start the replays in the background; once for equal requests."""

    def work(job: Job) -> None:
        memory = request.memory
        value = value_of(
            playing.player_of(memory),
            script_of(memory, request.position),
            request.variant,
            request.questions,
            progress=job.add_progress,
            cancelled=job.cancel.is_set,
        )
        if value is None:
            raise StoppedError("Cancelled: nothing was kept.")
        _cache(memory).put(request.key, value)

    engine().read(request.job_key, work)


def _cache(memory: Memory) -> LruCache[Value]:
    key = ("lab-values", memory.session.database.id, memory.session_id)
    return engine().services.cached(key, partial(LruCache[Value], MAX_KEPT))


def _draw_value(memory: Memory, value: Value) -> None:
    conclusion(value.verdict)
    st.markdown(f":small[:gray[Score of {count(value.questions, 'question')}: {_SCORED[value.measure]}]]")
    score: Any = partial(st.column_config.ProgressColumn, format="%.0f %%", min_value=0, max_value=100)
    whole: Any = partial(st.column_config.NumberColumn, format="localized")
    st.dataframe(
        [_arm_row(arm, value.arms[0]) for arm in value.arms],
        hide_index=True,
        key="lab__value_arms",
        placeholder="–",
        column_config={
            "": st.column_config.TextColumn(width=150),
            "Score": score(width=110),
            "Difference": st.column_config.TextColumn(
                width=150,
                help="From the score with memory, in percentage points, with its 95 % interval over the questions",
            ),
            "p": st.column_config.NumberColumn(
                format="%.3f",
                width=60,
                help="Probability that chance alone makes as uneven a difference (sign test). Measured: below 0.05",
            ),
            "Tokens a turn": whole(width=88, help="Tokens of a prompt, on average"),
            "Billed in full": whole(
                width=100,
                help="Tokens of all prompts that a prompt cache cannot reuse: those after the beginning that a prompt "
                "shares with the one before. The provider bills them in full.",
            ),
        },
        alt="One row for each configuration: score, difference from the whole memory, tokens",
    )
    price = value.arms[0].price
    heading("Blocks", " :small[:gray[What each block costs, and the tokens that a cache loses because it changed.]]")
    alone = {arm.name.removeprefix("only "): arm for arm in value.arms[2:]}
    usage = memory.log.usage()
    names = [block.name for block in memory.blocks if block.name in price.sent]
    st.dataframe(
        [
            {
                "": "Queue" if name == QUEUE else name,
                "Score alone": 100 * alone[name].score if name in alone else None,
                "Tokens a turn": price.sent.get(name, 0) / max(1, price.prompts + 1),
                "In prompts": usage.of(name).prompts if name != QUEUE else None,
                "Cache lost": price.by_part.get(name, 0),
            }
            for name in [QUEUE, *names]
        ],
        hide_index=True,
        key="lab__value_blocks",
        placeholder="–",
        column_config={
            "": st.column_config.TextColumn(width=150),
            "Score alone": score(width=110),
            "Tokens a turn": st.column_config.NumberColumn(format="%.0f", width=88),
            "In prompts": whole(width=80, help="Prompts of this session with something from this block"),
            "Cache lost": whole(
                width=80,
                help="Tokens that the prompt before had, too, but that a cache cannot reuse, because this part changed "
                "in front of them",
            ),
        },
        alt="One row for each block: its score alone, tokens, prompts, tokens a cache loses",
    )
    if price.move is not None:
        st.markdown(f":material/lightbulb: {plain(price.move.words)}")
    if value.patterns is not None:
        draw_patterns(value.patterns, "questions", "lab__value_patterns")
    _draw_facts(memory)


def _arm_row(arm: Arm, whole: Arm) -> dict[str, Any]:
    change = arm.difference
    # From the scores as they are shown, so that the numbers add up.
    points = percent(arm.score) - percent(whole.score)
    return {
        "": arm.name,
        "Score": 100 * arm.score,
        "Difference": f"{_signed(points)} ({_signed(percent(change.low))} to {_signed(percent(change.high))})"
        if change
        else None,
        "p": change.p if change else None,
        "Tokens a turn": round(arm.tokens),
        "Billed in full": arm.price.uncached,
    }


def _signed(points: int) -> str:
    return f"{points:+d}".replace("-", "−") if points else "0"


def _draw_facts(memory: Memory) -> None:
    """Draw the facts that this session's prompts spent most tokens on."""
    uses = memory.log.usage().facts
    rows: list[dict[str, Any]] = []
    for block in memory.blocks:
        try:
            facts = memory.facts.read(block.name) if block.kind == "facts" else []
        except MemoryInspectorError:  # removed meanwhile
            continue
        for fact in facts:
            use, size = uses.get(fact.id), memory.session.count_tokens(fact.text)
            prompts, cut = (use.carried, use.cut) if use is not None else (0, 0)
            rows.append(
                {"Fact": fact.text, "Tokens": size, "In prompts": prompts, "Cut": cut, "Tokens sent": size * prompts}
            )
    if not rows:
        return
    rows.sort(key=lambda row: -row["Tokens sent"])
    shown = f"the {MAX_FACTS} with most tokens sent, of {len(rows):,}" if len(rows) > MAX_FACTS else "by tokens sent"
    heading("Facts", f" :small[:gray[In the prompts of this session, {shown}.]]")
    whole: Any = partial(st.column_config.NumberColumn, format="localized")
    st.dataframe(
        rows[:MAX_FACTS],
        hide_index=True,
        key="lab__value_facts",
        column_config={
            "Fact": st.column_config.TextColumn(width="large"),
            "Tokens": whole(width=70),
            "In prompts": whole(width=80),
            "Cut": whole(width=60, help="Prompts from which the fact was cut"),
            "Tokens sent": whole(width=90, help="Tokens of the fact in all prompts that had it"),
        },
        alt="One row for each fact: tokens, prompts, cuts, tokens in all prompts",
    )
