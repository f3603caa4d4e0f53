"""A contradiction between facts, resolved by choosing one of a pair; the choices show what leaves the prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_inspector.wording.formatting import plain, short
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_snapshot import FactSnapshot

LONGEST = 60
SHOWN_PAIRS = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to resolve a contradiction."""

    says: str
    """Label of the choice's button. Not escaped: the label quotes a fact."""
    goes: str
    """Sentence on the superseded facts, without a full stop. Not escaped."""
    plan: fact_changes.Plan


def others_of(desk: FactSnapshot, fact: int) -> list[Fact]:
    """Active or proposed facts that contradict a fact."""
    flags = desk.review.flags.get(fact, ()) if desk.review else ()
    named = [flag.other for flag in flags if flag.kind == "contradiction" and flag.other is not None]
    # A fact can be flagged twice for the same other one; `fromkeys` keeps the first and the order.
    return desk.picked(dict.fromkeys(named))


def choices(fact: Fact, others: Sequence[Fact]) -> tuple[Choice, ...]:
    """Ways to resolve the contradictions between a fact and the others: two for each pair, and to keep all.

    Each retires one fact at most, and names it: a fact that stands beside a false one may be true.
    """
    one, this = len(others) == 1, f"“{short(fact.text, LONGEST)}”"
    result = []
    for other in others[:SHOWN_PAIRS]:
        that = f"“{short(other.text, LONGEST)}”"
        instead = "Keep the other" if one else f"Keep {that}, retire this"
        result.append(
            Choice(f"Keep this, retire {that}", f"{that} is superseded", partial(plans.supersede, other, fact))
        )
        result.append(Choice(instead, f"{this} is superseded", partial(plans.supersede, fact, other)))
    both, stay = ("Keep both", "Both stay") if one else ("Keep all", "All stay")
    return (*result, Choice(both, stay, partial(plans.keep_both, [fact, *others])))


def draw_choices(desk: FactSnapshot, fact: Fact, others: Sequence[Fact], *, keys: bool) -> None:
    """Draw one button for each choice, with what it removes. `keys` enables shortcuts, as in Review: Alt+A and Alt+O
    decide on the first pair, Alt+B keeps all facts."""
    offered = choices(fact, others)
    shortcuts = {0: "Alt+A", 1: "Alt+O", len(offered) - 1: "Alt+B"} if keys else {}
    for place, choice in enumerate(offered):
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.button(
                plain(choice.says),
                key=f"facts__choice_{place}",
                # No button that retires a fact is highlighted: rules may take two true facts for a contradiction.
                type="primary" if keys and choice is offered[-1] else "secondary",
                # The keys would collide with those of other panels, so only Review has them.
                shortcut=shortcuts.get(place),
                on_click=_choose,
                args=(desk, choice),
            )
            # Each effect plans two prompts: worth it for the one card of Review, and not whenever a fact is opened.
            if place in shortcuts:
                st.markdown(f":small[:gray[{plain(_effect(desk, choice))}]]", width="content")
            elif place:  # a panel is narrow, and the first button says itself what it retires
                st.markdown(f":small[:gray[{plain(choice.goes)}]]", width="content")


def _effect(desk: FactSnapshot, choice: Choice) -> str:
    try:
        return f"{choice.goes}. {fact_changes.foreseen(desk, choice.plan())}"
    except MemoryInspectorError as error:
        return str(error)


def _choose(desk: FactSnapshot, choice: Choice) -> None:
    fact_changes.apply(desk, choice.plan)
    # A half-written edit of this fact in Review is over with the choice.
    fact_tab.ask(desk.place, None)
