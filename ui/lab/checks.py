"""The view Tests of the Lab: watched phrases turn by turn, tests, and problems of a configuration."""

from functools import partial
from typing import Any

import streamlit as st
from pydantic import ValidationError

from memory_core import MemoryInspectorError
from memory_core.events import MessageAdded, Ref
from memory_core.text import listed
from memory_inspector.figures.lab_figures import MAX_PATTERNS, pattern_figure
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.failure_patterns import Patterns
from memory_inspector.lab.linting import Finding
from memory_inspector.lab.probes import (
    BlockTokens,
    EvidenceInPrompt,
    FactCites,
    InPrompt,
    NeverInPrompt,
    Probe,
    Verdict,
    keep_probes,
    kept_probes,
    write_probes,
)
from memory_inspector.lab.variants import Variant
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.lab import playing, tried_variants
from ui.lab.playing import Result
from ui.lab.tried_variants import OWN, Tried
from ui.parts import watching
from ui.parts.components import chart, conclusion, error_noticed, heading, open_view
from ui.tab import nav, state
from ui.tab.drawing import mode
from ui.tab.people import allowed
from ui.tab.view import View, memory_of


def draw(
    view: View,
    position: int,
    tried: Tried,
    variant: Variant,
    results: dict[str, Result],
    probes: tuple[Probe, ...],
) -> None:
    """Draw the three kinds of tests, and how many of the first two each configuration passes."""
    if any(result.presences or result.verdicts for result in results.values()):
        conclusion(f"{listed(f'{name} passes {_passed(result)}' for name, result in results.items())}.")
    # The example is read only where a list is still empty.
    example = _example(view) if not probes or not results[OWN].presences else ""
    _draw_watched(view, position, tried, variant, results, example)
    draw_probes(view, results, probes, example)
    _draw_findings(view.memory.session_id, tried.name, results[tried.name])


def _passed(result: Result) -> str:
    passed = [one.in_last for one in result.presences.values()] + [one.held for one in result.verdicts.values()]
    return f"{passed.count(True)} of {count(len(passed), 'test')}"


def draw_summary(result: Result) -> None:
    """Draw a button with the number of findings; a click shows them. Nothing if there are none."""
    if result.findings:
        st.button(
            f":{_SEVERITIES[result.findings[0].severity]} {count(len(result.findings), 'check')}",
            key="lab__to_checks",
            type="tertiary",
            help=plain(result.findings[0].sentence),
            on_click=open_view,
            args=(tried_variants.VIEW, "tests"),
        )


def _example(view: View) -> str:
    """Return an example phrase: the session's oldest fact, else the start of its first user message; empty if none."""
    for block in view.memory.blocks:
        # A fact is a whole sentence, and so a better example than the beginning of a message.
        facts = view.memory.facts.read(block.name) if block.kind == "facts" else []
        if facts:
            return short(facts[0].text, EXAMPLE_CHARACTERS).rstrip("…").rstrip()
    added = (record.event for record in view.history.records)
    first = next((event for event in added if isinstance(event, MessageAdded) and event.role == "user"), None)
    ref = Ref.of("message", first.seq) if first is not None else None
    return " ".join(view.memory.trace.words([ref]).get(ref, "").split()[:6]) if ref is not None else ""


def _draw_watched(
    view: View,
    position: int,
    tried: Tried,
    variant: Variant,
    results: dict[str, Result],
    example: str,
) -> None:
    heading("Watched", " :small[:gray[In the prompt or lost, turn by turn.]]")
    phrases = list(results[OWN].presences)
    for number, phrase in enumerate(phrases):
        st.markdown(f":small[“{plain(short(phrase, 100))}”]")
        # One strip under the other: the same turn of two configurations stands in one column.
        for name, result in results.items():
            presence = result.presences.get(phrase)
            if presence is not None:
                watching.draw_strip(f"lab-{number}-{name}", name, presence, view)
    if phrases:
        _draw_limit(view, position, tried, variant, phrases)
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if example:
            st.button(
                f"Watch “{plain(example)}”",
                key="lab__watch_example",
                icon=":material/visibility:",
                on_click=watching.start,
                args=(view.memory.session_id, example),
                **allowed(),
            )
        nav.link("trace", ":small[Something else]", icon=":material/route:")


def _draw_limit(view: View, position: int, tried: Tried, variant: Variant, phrases: list[str]) -> None:
    """Draw the smallest token limit that keeps the watched phrases in the prompts, or a button to search for it."""
    memory = view.memory
    job = playing.limit_job(memory, position, variant, phrases)
    # 1. Not asked for, cancelled or failed: each limit that is tried is a whole play, so a person decides.
    if job is None or (job.done and job.error is not None):
        st.button(
            "Find the smallest limit that keeps it" if len(phrases) == 1 else "Find the smallest limit that keeps them",
            key="lab__limit",
            icon=":material/compress:",
            help=f"Plays {tried.name} by rules under several limits: all watched phrases must stay in the prompts",
            on_click=playing.find_limit,
            args=(memory, position, variant, phrases),
        )
    elif not job.done:
        playing.follow_jobs([job], holds=True)
    # 2. Found nothing: even the limit of this configuration loses it.
    elif not job.text:
        st.markdown(f"Not even {tokens(variant.config.token_limit)} tokens keep what is watched in the prompts.")
    else:
        limit = int(job.text)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"Smallest limit of {plain(tried.name)} that keeps what is watched: **{tokens(limit)}**.",
                        width="content")  # fmt: skip
            st.button(
                f"Try {plain(tried_variants.value_named('token_limit', limit))}",
                key="lab__limit_try",
                on_click=tried_variants.set_limit,
                args=(memory, tried.name, limit),
            )


def _draw_findings(session_id: str, name: str, result: Result) -> None:
    """Draw the problems of a configuration, each with a button that tries its fix."""
    heading(f"Checks of {plain(name)}")
    if not result.findings:
        st.markdown(":small[:gray[No problems found.]]")
    for number, finding in enumerate(result.findings):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f":small[:{_SEVERITIES[finding.severity]} {plain(finding.sentence)}]", width="stretch")
            # A missing or surplus block is no setting: it is mended on Blocks.
            if finding.changes and not any(isinstance(change.after, StoredBlock) for change in finding.changes):
                st.button(
                    _try_label(finding),
                    key=f"lab__mend_{number}",
                    help=", ".join(map(tried_variants.chip, finding.changes)),
                    on_click=tried_variants.mend,
                    args=(session_id, name, finding.changes),
                )


def _try_label(finding: Finding) -> str:
    """Return the label of a fix; blocks that get the same value of one setting are named together."""
    blocks: dict[tuple[str, object], list[str]] = {}
    for change in finding.changes:
        # From the right, as a block's name may hold dots.
        place, _, setting = change.setting.rpartition(".")
        blocks.setdefault((setting, change.after), []).append(place)
    tried = [
        tried_variants.value_named(f"{places[0]}.{setting}" if len(places) == 1 and places[0] else setting, value)
        for (setting, value), places in blocks.items()
    ]
    return f"Try {plain(listed(tried))}"


# -- tests (probes): a grid, why each fails, and a form to add one ---------------------------------

_KINDS = {
    "in_prompt": "A phrase is in every prompt",
    "never_in_prompt": "A phrase is in no prompt",
    "block_tokens": "A block has at least a number of tokens",
    "evidence_in_prompt": "What a message says is in one turn's prompt",
    "fact_cites": "A fact was learned from a message",
}


def draw_probes(view: View, results: dict[str, Result], probes: tuple[Probe, ...], example: str) -> None:
    """Draw the grid, the failures with reasons, and the buttons; `example`: phrase of a first probe, empty if none."""
    heading("Tests: what every prompt must contain")
    if probes:
        rows = [_row(probe, results) for probe in probes]
        st.dataframe(
            rows,
            hide_index=True,
            key="lab__probes",
            column_config={"Test": st.column_config.TextColumn(width=420)}
            | {name: st.column_config.TextColumn(width=130) for name in results},
            alt="Which test holds under which configuration, or the first turn in which it fails",
        )
        for probe in probes:
            _draw_failures(probe, results)
        for name, result in results.items():
            if result.patterns is not None:
                draw_patterns(result.patterns, f"tests of {name}", f"lab__patterns_{name}")
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if example and not probes:
            # From the first prompt that has it, so that the example holds for a start.
            prompts = (at.turn for at in view.memory.trace.presence(example).turns if at.state == "prompt")
            probe = InPrompt(phrase=example, from_turn=next(prompts, 1))
            st.button(
                f"Add “{plain(example)}”",
                key="lab__probe_example",
                icon=":material/add:",
                on_click=_keep,
                args=(view.memory.session_id, (probe,)),
                **allowed(help=plain(str(probe))),
            )
        with st.popover("Add a test", icon=":material/add:", key="lab__probe", **allowed()):
            _draw_form(view)
        if probes:
            with st.popover("Remove", icon=":material/delete:", key="lab__probe_remove", **allowed()):
                for number, probe in enumerate(probes):
                    st.button(
                        plain(str(probe)), key=f"lab__probe_remove_{number}", icon=":material/close:", type="tertiary",
                        on_click=_keep, args=(view.memory.session_id, probes[:number] + probes[number + 1 :]),
                        **allowed(),
                    )  # fmt: skip
            st.download_button(
                "Download",
                lambda: write_probes(probes),
                file_name="probes.json",
                mime="application/json",
                icon=":material/download:",
                on_click="ignore",
                key="lab__probes_file",
                help="For `memory-inspector check` in a terminal or in CI",
            )


def _row(probe: Probe, results: dict[str, Result]) -> dict[str, str]:
    return {"Test": str(probe), **{name: _mark(result.verdicts[probe]) for name, result in results.items()}}


def _mark(verdict: Verdict) -> str:
    if verdict.held:
        return "✓ holds"
    return f"✗ first fails in turn {verdict.turn}" if verdict.turn is not None else "✗ fails"


def _draw_failures(probe: Probe, results: dict[str, Result]) -> None:
    failed = {name: result.verdicts[probe] for name, result in results.items() if not result.verdicts[probe].held}
    if failed:
        st.markdown(f":small[{plain(str(probe))}]")
    for name, verdict in failed.items():
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f":small[**{plain(name)}** {plain(verdict.why)}]", width="stretch")
            # Only the session itself can be followed: the others were played in memory.
            if name == OWN and isinstance(probe, InPrompt | NeverInPrompt):
                nav.link(
                    "trace", ":small[Follow]", icon=":material/route:", turn=verdict.turn, **nav.followed(probe.phrase)
                )


def _draw_form(view: View) -> None:
    expect = st.selectbox("What", list(_KINDS), format_func=lambda kind: _KINDS[kind], key=f"{_FORM}expect")
    fields = _FIELDS[str(expect)][1]
    if "phrase" in fields:
        st.text_input("Phrase", key=f"{_FORM}phrase", max_chars=300)
    if "block" in fields:
        st.selectbox("Block", [block.name for block in view.memory.blocks], key=f"{_FORM}block")
    if "at_least" in fields:
        st.number_input("Tokens", min_value=1, value=100, key=f"{_FORM}at_least")
    # The form takes one message, also where a probe may name several.
    if "message" in fields or "messages" in fields:
        name = "message" if "message" in fields else "messages"
        st.number_input("Message", min_value=1, max_value=max(1, view.last_seq), key=f"{_FORM}{name}")
    if "turn" in fields:
        st.number_input("Turn", min_value=1, value=max(1, view.latest_turn), key=f"{_FORM}turn")
    if "from_turn" in fields:
        st.number_input("From turn", min_value=1, value=max(1, view.shown_turn), key=f"{_FORM}from_turn")
    st.button("Add", key=f"{_FORM}add", type="primary", on_click=_add, args=(view.memory.session_id,), **allowed())


_FORM = "lab__probe_"

_FIELDS: dict[str, tuple[type[Probe], tuple[str, ...]]] = {
    "in_prompt": (InPrompt, ("phrase", "from_turn")),
    "never_in_prompt": (NeverInPrompt, ("phrase", "from_turn")),
    "block_tokens": (BlockTokens, ("block", "at_least", "from_turn")),
    "evidence_in_prompt": (EvidenceInPrompt, ("messages", "turn")),
    "fact_cites": (FactCites, ("message",)),
}


def _add(session_id: str) -> None:
    """Store the probe in the form, read at the click: the last keystrokes may not have been drawn yet."""
    kind, fields = _FIELDS[st.session_state[f"{_FORM}expect"]]
    values = {name: st.session_state[f"{_FORM}{name}"] for name in fields}
    if "messages" in values:
        values["messages"] = (values["messages"],)
    try:
        probe = kind(**values)
        memory = memory_of(session_id)
        stored = kept_probes(memory)
        if probe not in stored:
            keep_probes(memory, (*stored, probe))
    # Number fields keep to their bounds, so that it is the phrase that is missing.
    except ValidationError:
        state.say("error", "Enter a phrase for the test.")
    except MemoryInspectorError as error:
        state.say("error", str(error))


@error_noticed
def _keep(session_id: str, probes: tuple[Probe, ...]) -> None:
    keep_probes(memory_of(session_id), probes)


# -- the section *Why do these fail?* of the Lab --------------------------------------------------


def draw_patterns(patterns: Patterns, what: str, key: str) -> None:
    """Draw what distinguishes failures from the rest; nothing if all fail or none. `what`: plural noun of the cases."""
    if not 0 < patterns.failed < patterns.cases or not patterns.patterns:
        return
    share = f"{tokens(patterns.failed)} of {tokens(patterns.cases)} {what} fail"
    heading("Why do these fail?", f" :small[:gray[{share}. Dot: cases with the property; ring: all others.]]")
    chart(
        pattern_figure(patterns.patterns, mode()),
        f"{key}_figure",
        "Failure rate of the cases with each property, and of all other cases",
    )
    rate: Any = partial(st.column_config.TextColumn, width=90)
    st.dataframe(
        [
            {
                "Property": pattern.name,
                "Value": pattern.value,
                "Fail": f"{pattern.failed} of {pattern.cases}",
                "Others": f"{pattern.others_failed} of {pattern.others}",
                "p": pattern.p,
            }
            for pattern in patterns.patterns[:MAX_PATTERNS]
        ],
        hide_index=True,
        key=f"{key}_table",
        column_config={
            "Fail": rate(),
            "Others": rate(),
            "p": st.column_config.NumberColumn(
                format="%.3f", width=70, help="Fisher's exact test, corrected for the number of properties compared"
            ),
        },
        alt="One row for each property: failures among its cases, failures among all others, p",
    )
    if patterns.rules:
        st.markdown(f":small[:gray[{plain(patterns.lost_by)}]]")


_SEVERITIES = {
    "error": "red[:material/error:]",
    "warning": "orange[:material/warning:]",
    "note": "gray[:material/info:]",
}

EXAMPLE_CHARACTERS = 60
