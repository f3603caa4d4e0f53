"""The page Lab: the session's conversation under other configurations, beside its own.

Four views, each with a question as its title: *Compare* tries settings, *Tests* follows what is watched and checks
tests, *Sweep* varies two settings, *Value* measures what the memory and each block add.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import streamlit as st

from memory_core import ConfigError, Memory, MemoryInspectorError
from memory_core.events import BlockEdited, ConfigurationChanged
from memory_core.history.prompt import diff_prompts
from memory_core.recipes import RECIPES
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.comparing import divergence, verdict
from memory_inspector.lab.probes import Probe, kept_probes
from memory_inspector.lab.variants import (
    Variant,
    VariantChange,
    variant_json,
    variant_llamaindex_python,
    variant_python,
)
from memory_inspector.wording.formatting import count, plain, tokens
from ui.context.parts import draw_changes
from ui.lab import checks, planned, playing, sweeping, tried_variants, value_view
from ui.lab.playing import PlayRequest, Result
from ui.lab.tried_variants import OWN, Desk
from ui.parts import toasts
from ui.parts.components import choose_view, conclusion, empty, error_noticed, heading
from ui.tab import nav, state
from ui.tab.drawing import mode
from ui.tab.people import allowed
from ui.tab.view import View, memory_of, turn_at

VIEWS = {"compare": "Compare", "tests": "Tests", "sweep": "Sweep", "value": "Value"}

_QUESTIONS = {
    "compare": ("What would other settings change?", "This conversation again, by rules. Nothing is stored."),
    "tests": ("Is everything in the prompt that must be?", ""),
    "sweep": ("Which values are best?", "Two settings, each value with each."),
    "value": ("Did memory help?", "The same questions with it, without it, and with each block alone."),
}
"""The question that each view answers, and how it does."""

AUTOMATIC_TURNS = 60
"""Maximum turns of a conversation that is played at once after a change; a longer one is played on request."""


def draw(view: View) -> None:
    """Draw the page: results for the whole session, and the prompts of the shown turn."""
    memory = view.memory
    if not view.history.turns:
        empty(
            "No turn yet.",
            "After the first turn, the conversation can be played under other settings.",
            icon="science",
        )
        return
    # 1. The address is taken before it is written, so that a reloaded tab gets back what it tried.
    tried_variants.take_address(memory.session_id)
    tried_variants.write_address(memory.session_id)
    # The position is held while things are tried, so that all columns are about the same conversation.
    now = tried_variants.hold(memory.session_id, view.newest)
    try:
        # 2. All configurations; an impossible value is said once, and its fields stay to be corrected.
        variants = {OWN: tried_variants.own_variant(memory)}
        for tried in now.tried:
            variants[tried.name] = tried_variants.variant(memory, tried)
        problem = None
    except ConfigError as error:
        problem = str(error)
    # 3. The views; Compare has its fields at the left, the others take the whole width.
    probes = _probes(memory)
    chosen = choose_view(VIEWS, tried_variants.VIEW)
    question, about = _QUESTIONS[chosen]
    heading(question, f" :small[:gray[{about}]]" if about else "")
    area = st.container()
    if chosen == "compare":
        controls, area = st.columns([0.32, 0.68], gap="medium")
        with controls:
            _draw_tabs(memory.session_id, now)
            with st.container(border=True, key="lab__knobs"):
                tried_variants.draw_fields(memory, now.current)
    with area:
        if problem is not None:
            st.error(plain(problem))
            return
        _draw_news(view, now)
        if chosen == "sweep":
            if len(now.tried) > 1:
                _draw_tabs(memory.session_id, now)
            sweeping.draw(view, _upto(now), now.current, variants[now.current.name], playing.phrases_of(memory), probes)
            return
        if chosen == "value":
            if len(now.tried) > 1:
                _draw_tabs(memory.session_id, now)
            value_view.draw(view, _upto(now), variants[now.current.name])
            return
        if chosen == "compare" or now.current.struck or tried_variants.changes(memory, now.current):
            _draw_tried(memory, now)
        # 4. Results played by rules, or those played with a model if they were chosen.
        results = _played(view, now, variants, probes)
        if results is None:
            return
        request = PlayRequest(memory, view.history.position, variants, playing.phrases_of(memory), probes)
        results = playing.draw_with_model(request, at_once=len(view.history.turns) <= AUTOMATIC_TURNS) or results
        if chosen == "tests":
            checks.draw(view, _upto(now), now.current, variants[now.current.name], results, probes)
        else:
            _draw_results(view, now, variants, results)


def _upto(now: Desk) -> int:
    """Position of the log up to which everything on the page is tried."""
    return now.upto or 0


def _draw_news(view: View, now: Desk) -> None:
    """Draw how much has happened since the trial, and the button that includes it; nothing is played again unasked."""
    newest = view.newest
    if newest == now.upto:
        return
    # Other changes than turns count as news, too: an edited fact, say.
    turns = view.latest_turn - turn_at(view.history, _upto(now))
    change = f"{count(turns, 'new turn')} since." if turns > 0 else "The session has changed since."
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="lab__news"):
        st.markdown(f":small[:material/update: {change}]", width="content")
        st.button(
            "Try all of it",
            key="lab__go_on",
            type="tertiary",
            icon=":material/replay:",
            help=f"Results are for the conversation up to turn {tokens(turn_at(view.history, _upto(now)))}",
            on_click=tried_variants.go_on,
            args=(view.memory.session_id,),
        )


def _probes(memory: Memory) -> tuple[Probe, ...]:
    try:
        return kept_probes(memory)
    except MemoryInspectorError as error:
        st.warning(plain(str(error)))
        return ()


def _draw_tabs(session_id: str, now: Desk) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="lab__tabs"):
        names = [tried.name for tried in now.tried]
        # The tab can change by a link or a click on a cell, too.
        st.session_state["lab__shown"] = now.current.name
        st.segmented_control(
            "Configuration",
            names,
            key="lab__shown",
            required=True,
            label_visibility="collapsed",
            on_change=lambda: tried_variants.show(session_id, st.session_state["lab__shown"]),
        )
        if len(names) < len(tried_variants.NAMES):
            st.button(
                "",
                key="lab__add",
                icon=":material/add:",
                help="Add a copy of this configuration",
                on_click=tried_variants.add,
                args=(session_id,),
            )
        if len(names) > 1:
            st.button(
                "",
                key="lab__remove",
                icon=":material/delete:",
                help=f"Remove {now.current.name}",
                on_click=tried_variants.remove,
                args=(session_id, now.current.name),
            )


# -- playing -----------------------------------------------------------------------------------------


def _played(view: View, now: Desk, variants: dict[str, Variant], probes: tuple[Probe, ...]) -> dict[str, Result] | None:
    """Return the results of all configurations by name; None while they are played, or before they are requested."""
    memory, position = view.memory, _upto(now)
    phrases = playing.phrases_of(memory)
    results = {name: playing.result(memory, position, variant) for name, variant in variants.items()}
    # A result is incomplete if a phrase or a probe was added since.
    done = {name: result for name, result in results.items() if result is not None and result.tells(phrases, probes)}
    if len(done) == len(variants):
        return done
    # A plan is made of sizes in the log, and cannot take an event out.
    plannable = [name for name in (OWN, now.current.name) if not variants[name].struck]
    turns = len(view.history.turns)
    at_once = turns <= AUTOMATIC_TURNS
    planned.draw(
        view,
        position,
        {name: variants[name] for name in plannable},
        phrases,
        at_once=at_once,
        plays=now.asked or at_once,
    )
    # A long conversation takes seconds to play: the estimate above is all until somebody asks.
    if not now.asked and not at_once:
        st.button(
            f"Play all {count(turns, 'turn')}",
            key="lab__play",
            type="primary",
            icon=":material/science:",
            help="No model is called, and nothing is stored.",
            on_click=tried_variants.ask,
            args=(memory.session_id,),
        )
        return None
    missing = [variants[name] for name in variants if name not in done]
    jobs = [playing.job_of(memory, position, variant, phrases, probes) for variant in missing]
    playing.follow_jobs(jobs, holds=True)
    return None


# -- results -----------------------------------------------------------------------------------------


def _without(memory: Memory, now: Desk) -> list[str]:
    """Return the events that are struck in the shown configuration, in words."""
    return [f"without {tried_variants.struck_words(memory, position)}" for position in now.current.struck]


def _draw_tried(memory: Memory, now: Desk) -> None:
    """Draw the names of the two compared configurations, with their changes."""
    changes = map(tried_variants.chip, tried_variants.changes(memory, now.current))
    chips = " · ".join([*changes, *map(plain, _without(memory, now))]) or "no change yet"
    st.markdown(f"**A** this session  \n**{plain(now.current.name)}** {chips}")


def _draw_results(view: View, now: Desk, variants: dict[str, Variant], results: dict[str, Result]) -> None:
    memory, current = view.memory, now.current.name
    changes = tried_variants.changes(memory, now.current)
    if changes or now.current.struck:
        conclusion(_verdict((OWN, current), results[OWN], results[current]))
    _draw_numbers(now, results)
    same = _draw_divergence(view, current, results[OWN], results[current])
    checks.draw_summary(results[current])
    # What a play cannot know is often the same under both: said once.
    for sentence in dict.fromkeys((*results[OWN].played.unknown, *results[current].played.unknown)):
        st.markdown(f":small[:gray[:material/info: {plain(sentence)}]]")
    with st.container(horizontal=True, gap="small", vertical_alignment="center", key="lab__use_row"):
        draw_taking(
            view,
            variants[current],
            changes,
            recipe=now.current.recipe,
            apply=partial(_apply, memory.session_id, changes),
        )
    if not same:
        _draw_prompts(view, current, results[OWN], results[current])


def _verdict(names: tuple[str, str], own_result: Result, other: Result) -> str:
    """Return what another configuration saves and loses; only what both results have measured is compared."""
    watched = [
        (presence.in_last, other.presences[phrase].in_last)
        for phrase, presence in own_result.presences.items()
        if phrase in other.presences
    ]
    tests = [
        (checked.held, other.verdicts[probe].held)
        for probe, checked in own_result.verdicts.items()
        if probe in other.verdicts
    ]
    return verdict(names, own_result.outcome, other.outcome, watched, tests)


def _draw_numbers(now: Desk, results: dict[str, Result]) -> None:
    # One scale for all lines, or they could not be compared by eye.
    highest = max(turn.sent for result in results.values() for turn in result.outcome.turns)
    # Letters alone would not tell recipes apart; without any there is nothing to tell.
    recipes = {tried.name: RECIPES[tried.recipe].title for tried in now.tried if tried.recipe}
    whole: Callable[..., Any] = partial(st.column_config.NumberColumn, format="localized")
    st.dataframe(
        [
            {"": name, **({"Begins with": recipes.get(name, "This session")} if recipes else {}), **_numbers(result)}
            for name, result in results.items()
        ],
        hide_index=True,
        key="lab__numbers",
        placeholder="–",
        column_config={
            "": st.column_config.TextColumn(width=32),
            "Begins with": st.column_config.TextColumn(width=120),
            "Tokens by turn": st.column_config.LineChartColumn(width=100, y_min=0, y_max=highest),
            "Tokens a turn": whole(width=88, help="Tokens of a prompt, on average"),
            "Cut": whole(width=52, help="Tokens that did not fit, over all turns"),
            "Flushes": whole(width=58),
            "Facts": whole(width=46, help="Active facts in the end"),
            "Calls to learn": whole(width=92, help="Calls that learning with a model would take; rules take none"),
            "Watched": st.column_config.TextColumn(width=62, help="Watched items in the last prompt"),
            "Tests": st.column_config.TextColumn(width=58, help="Tests that hold"),
        },
        alt="One row for each configuration: tokens, cuts, flushes, facts, calls, what is watched, tests",
    )


def _numbers(result: Result) -> dict[str, Any]:
    outcome = result.outcome
    in_prompt = sum(presence.in_last for presence in result.presences.values())
    held = sum(checked.held for checked in result.verdicts.values())
    return {
        "Tokens by turn": [turn.sent for turn in outcome.turns],
        "Tokens a turn": outcome.average,
        "Cut": sum(turn.cut for turn in outcome.turns),
        "Flushes": outcome.flushes,
        "Facts": outcome.facts,
        "Calls to learn": outcome.calls,
        **({"Watched": f"{in_prompt} of {len(result.presences)}"} if result.presences else {}),
        **({"Tests": f"{held} of {len(result.verdicts)}"} if result.verdicts else {}),
    }


def _draw_divergence(view: View, name: str, own_result: Result, other: Result) -> bool:
    """Draw in which turn two configurations first differ, and why; return True if they never differ."""
    difference = divergence(own_result.played, other.played, (OWN, name))
    if difference is None:
        st.markdown(f"**The prompts of A and {plain(name)} are the same in every turn.**")
        return True
    causes = "  \n".join(plain(cause) for cause in difference.causes[:4])
    st.markdown(f"**The prompts first differ in turn {tokens(difference.turn)}.**  \n{causes}")
    # The last turn is shown as None, so that the page goes on following.
    if difference.turn != view.shown_turn and difference.turn <= view.latest_turn:
        st.button(
            f"Show turn {tokens(difference.turn)}",
            key="lab__diverged",
            type="tertiary",
            icon=":material/arrow_forward:",
            on_click=state.show_turn,
            args=(difference.turn if difference.turn < view.latest_turn else None,),
        )
    return False


def _draw_prompts(view: View, name: str, own_result: Result, other: Result) -> None:
    turn = view.shown_turn
    before, after = own_result.played.prompt(turn), other.played.prompt(turn)
    size = f"{tokens(before.built.total)} → {count(after.built.total, 'token')}; " if before and after else ""
    heading(f"The prompt of turn {tokens(turn)}", f" :small[:gray[{size}− only under A, + only under {plain(name)}]]")
    if before is None or after is None:
        # Turns after the moment that is held were not played; others had no prompt in the session either.
        later = turn > max(own_result.played.turns(), default=0)
        reason = "came after the played turns" if later else "has no prompt"
        st.markdown(f":small[:gray[Turn {tokens(turn)} {reason}.]]")
        return
    changed = diff_prompts(before, after)
    if not any(diff.changed or diff.before != diff.after for diff in changed):
        st.markdown(f":small[:gray[The same under A and {plain(name)}, word for word.]]")
        return
    draw_changes(changed, turn, mode())


# -- using it ----------------------------------------------------------------------------------------


@error_noticed
def _apply(session_id: str, changes: tuple[VariantChange, ...]) -> None:
    """Apply the tried changes to the settings of the session and of its blocks."""
    before = _set(session_id, changes)
    toasts.done(f"From the next turn: {count(len(changes), 'setting')} changed.", undo=before, session_id=session_id)


def _set(session_id: str, changes: tuple[VariantChange, ...]) -> Any:
    memory = memory_of(session_id)
    settings = {change.setting: change.after for change in changes if "." not in change.setting}
    was = {change.setting: change.before for change in changes if "." not in change.setting}
    blocks: dict[str, dict[str, Any]] = {}
    opened: dict[str, dict[str, Any]] = {}
    for change in changes:
        # Settings of the session have no dot, those of a block begin with its name.
        name, dot, setting = change.setting.rpartition(".")
        if dot and not isinstance(change.after, StoredBlock):
            blocks.setdefault(name, {})[setting] = change.after
            opened.setdefault(name, {})[setting] = change.before
    # `opened` refuses the change if somebody else has set one of these since it was tried.
    if settings:
        memory.configure(opened=was, **settings)
    if blocks:
        try:
            memory.blocks.configure_all(blocks, opened=opened)
        except MemoryInspectorError:
            # Both or neither: what was tried was tried together.
            if settings:
                memory.configure(opened=settings, **was)
            raise
    # Undo is the same change the other way round, with the same check.
    back = tuple(VariantChange(change.setting, change.after, change.before) for change in changes)
    return partial(_set, session_id, back)


# -- use a tried configuration in the session, or export it as a file or as Python for this engine or LlamaIndex


_PYTHON = "text/x-python"


def draw_taking(
    view: View, variant: Variant, changes: tuple[VariantChange, ...], *, recipe: str | None, apply: Callable[[], None]
) -> None:
    """Draw the buttons that use or export a tried configuration. `recipe`: the one that it begins with."""
    memory, read_only = view.memory, view.read_only
    # Whole blocks come or go with a recipe: only the switch on Blocks plans what becomes of what they hold.
    blocks = any(isinstance(value, StoredBlock) for change in changes for value in (change.before, change.after))
    if blocks:
        query = {"view": "recipes"} | ({"recipe": recipe} if recipe else {})
        nav.link("blocks", "Switch the recipe on Blocks", icon=":material/arrow_forward:", turn=..., **query)
    else:
        st.button(
            f"Use {plain(variant.name)} from the next turn",
            key="lab__use",
            type="primary",
            on_click=apply,
            **allowed(
                ConfigurationChanged,
                BlockEdited,
                disabled=not changes or read_only is not None,
                help=read_only.sentence if read_only else None if changes else "Nothing is changed yet.",
            ),
        )
    with st.popover("Export", icon=":material/download:", type="tertiary", key="lab__export"):
        files: tuple[tuple[str, Callable[[], str], str, str], ...] = (
            ("Configuration as JSON", lambda: variant_json(variant), "config.json", "application/json"),
            ("As Python", lambda: variant_python(variant, user_id=memory.session.user_id), "memory.py", _PYTHON),
            ("As Python for LlamaIndex", lambda: variant_llamaindex_python(variant), "memory.llamaindex.py", _PYTHON),
        )
        for label, text, name, mime in files:
            st.download_button(
                label, text, file_name=name, mime=mime, icon=":material/download:", type="tertiary",
                on_click="ignore", key=f"lab__{name}",
            )  # fmt: skip
