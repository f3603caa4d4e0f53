"""The view Tests of the Lab: watched phrases turn by turn, tests, and problems of a configuration."""

import streamlit as st

from memory_core.events import MessageAdded, Ref
from memory_core.text import listed
from memory_inspector.files.configuration import StoredBlock
from memory_inspector.lab.linting import Finding
from memory_inspector.lab.probes import Probe
from memory_inspector.lab.variants import Variant
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.lab import knobs, playing, progress, tried_variants
from ui.lab.playing import Result
from ui.lab.probes import draw_probes
from ui.lab.tried_variants import OWN, Tried
from ui.parts import watching
from ui.parts.components import conclusion, heading, open_view
from ui.tab import nav
from ui.tab.people import allowed
from ui.tab.view import View

_SEVERITIES = {
    "error": "red[:material/error:]",
    "warning": "orange[:material/warning:]",
    "note": "gray[:material/info:]",
}

EXAMPLE_CHARACTERS = 60


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
        progress.follow([job], holds=True)
    # 2. Found nothing: even the limit of this configuration loses it.
    elif not job.text:
        st.markdown(f"Not even {tokens(variant.config.token_limit)} tokens keep what is watched in the prompts.")
    else:
        limit = int(job.text)
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(f"Smallest limit of {plain(tried.name)} that keeps what is watched: **{tokens(limit)}**.",
                        width="content")  # fmt: skip
            st.button(
                f"Try {plain(knobs.value_named('token_limit', limit))}",
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
                    help=", ".join(map(knobs.chip, finding.changes)),
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
        knobs.value_named(f"{places[0]}.{setting}" if len(places) == 1 and places[0] else setting, value)
        for (setting, value), places in blocks.items()
    ]
    return f"Try {plain(listed(tried))}"
