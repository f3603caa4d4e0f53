"""Try extraction: preview what a text would teach the block. Only ticked facts are stored, on request."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.curation.fact_desk import TriedFact
from memory_core.planning import curation as plans
from memory_inspector.wording.formatting import count, plain, short
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_snapshot import FactSnapshot
from ui.parts.components import closing_buttons, dialog
from ui.tab.people import allowed

FIELD_PIXELS = 140
LONGEST = 20_000

_OUTCOMES = {
    "added": "New",
    "proposed": "New",
    "confirmed": "Known already",
    "held_back": "Held back: rejected before",
    "repeated": "Found twice",
    "updated": "Updates a known fact",
    "ended": "Ends a known fact",
}


@dataclass(frozen=True, slots=True)
class Tries:
    """Facts found in a text."""

    text: str
    facts: tuple[TriedFact, ...]


def outcome(tried: TriedFact) -> str:
    """Describe the outcome for a fact: `Known already (0.94): Ana likes jazz`."""
    label = _OUTCOMES[tried.outcome]
    if tried.conflicts_with and tried.outcome in ("added", "proposed"):
        return f"{label}, contradicts: {short(tried.conflicts_with[0].text, 80)}"
    if tried.fact is not None and tried.outcome in ("confirmed", "held_back", "updated", "ended"):
        alike = f" ({tried.similarity:.2f})" if tried.similarity is not None else ""
        return f"{label}{alike}: {short(tried.fact.text, 80)}"
    return label


@dialog("Try extraction", "science", width=720)
def try_dialog(desk: FactSnapshot) -> None:
    """Paste a text, preview the facts found in it, and add some of them."""
    key = fact_tab.key(desk.place, "try_words")
    st.text_area("Text, as if the user had said it", key=key, height=FIELD_PIXELS, max_chars=LONGEST)
    extractor = desk.memory.session.services.extractor.name
    with st.container(horizontal=True, vertical_alignment="center"):
        # Not a closing button: what was found is shown in the same dialog.
        st.button("Try", key="facts__try", on_click=_try, args=(desk, key))
        st.markdown(f":small[:gray[Read by {plain(extractor)}. Nothing is stored.]]", width="content")
    tries = _tries(desk)
    if tries is None:
        return
    if not tries.facts:
        st.markdown("No fact was found in it.")
        return
    rows = [
        {
            # Ticked are those that a flush would add; whoever wants a repeated or suppressed one ticks it by hand.
            "Take": tried.outcome in ("added", "proposed"),
            "Fact": tried.text,
            "Outcome": outcome(tried),
        }
        for tried in tries.facts
    ]
    # Another text finds other rows: ticks of the text before must not apply to them.
    ticks = fact_tab.key(desk.place, f"try_rows_{zlib.crc32(tries.text.encode())}")
    taken = st.data_editor(
        rows,
        key=ticks,
        hide_index=True,
        disabled=["Fact", "Outcome"],
        column_config={"Take": st.column_config.CheckboxColumn("Take", width=60)},
        height="content",
        alt="Facts found in the text",
    )
    chosen = [tried for tried, row in zip(tries.facts, taken, strict=True) if row["Take"]]
    closing_buttons(
        f"Add {count(len(chosen), 'fact')}",
        _take,
        (desk, [(tried.text, tried.category) for tried in chosen]),
        on_cancel=partial(forget, desk.place),
        **allowed(disabled=not chosen or desk.read_only),
    )


def forget(place: fact_tab.ListPosition) -> None:
    """Clear the results of a trial."""
    fact_tab.keep(place, "tries", None)
    fact_tab.redraw(place)


def _tries(desk: FactSnapshot) -> Tries | None:
    failed = fact_tab.remembered(desk.place, "try_failed")
    if failed:
        st.error(plain(failed))
    tries: Tries | None = fact_tab.remembered(desk.place, "tries")
    return tries


def _try(desk: FactSnapshot, key: str) -> None:
    text = str(st.session_state.get(key, "")).strip()
    if not text:
        return
    # The text is tried anew: an error of the last try is over, also if this one finds nothing.
    fact_tab.keep(desk.place, "try_failed", None)
    try:
        tries = desk.curation.try_extraction(text, services=desk.memory.session.services)
        fact_tab.keep(desk.place, "tries", Tries(text, tuple(tries)))
    except MemoryInspectorError as error:
        fact_tab.keep(desk.place, "try_failed", f"{error} Nothing was stored.")


def _take(desk: FactSnapshot, facts: Sequence[tuple[str, str]]) -> None:
    # One change set, so that one Undo takes all of them back.
    made = [plans.add(text, category=category) for text, category in facts]
    fact_changes.apply(desk, lambda: plans.together("add", *made))
    forget(desk.place)
