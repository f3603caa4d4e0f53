"""A contradiction between facts, resolved by choosing one; each choice shows what leaves the prompt."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_inspector.wording.formatting import count, plain, short
from ui.facts import fact_changes, fact_tab
from ui.facts.fact_snapshot import Desk

LONGEST = 60


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to resolve a contradiction."""

    says: str
    """Label of the choice's button. Not escaped: the label quotes a fact."""
    goes: str
    """Sentence on the superseded facts, without a full stop. Not escaped."""
    key: str
    """Keyboard shortcut in Review."""
    plan: fact_changes.Plan


def others_of(desk: Desk, fact: int) -> list[Fact]:
    """Active or proposed facts that contradict a fact."""
    flags = desk.review.flags.get(fact, ()) if desk.review else ()
    named = [flag.other for flag in flags if flag.kind == "contradiction" and flag.other is not None]
    # A fact can be flagged twice for the same other one; `fromkeys` keeps the first and the order.
    return desk.picked(dict.fromkeys(named))


def choices(fact: Fact, others: Sequence[Fact]) -> tuple[Choice, ...]:
    """Ways to resolve the contradiction between a fact and the others."""
    one = len(others) == 1
    gone = f"“{short(others[0].text, LONGEST)}”" if one else f"the {count(len(others), 'other')}"
    return (
        Choice(
            f"Keep this, retire {gone}",
            f"{gone[:1].upper()}{gone[1:]} {'is' if one else 'are'} superseded",
            "A",
            partial(keep, fact, others),
        ),
        Choice(
            "Keep the other" if one else "Keep the others",
            f"“{short(fact.text, LONGEST)}” is superseded",
            "O",
            # A fact is replaced by one other: with several, the last of them stands for all.
            partial(plans.supersede, fact, others[-1]),
        ),
        Choice(
            "Keep both" if one else "Keep all",
            "Both stay" if one else "All stay",
            "B",
            partial(plans.keep_both, [fact, *others]),
        ),
    )


def keep(fact: Fact, others: Sequence[Fact]) -> plans.ChangeSet:
    """Return a change set that replaces the other facts with `fact`.

    Raises:
        MessageError: one of the facts is retired, rejected or superseded already.
    """
    return plans.together("supersede", *(plans.supersede(other, fact) for other in others))


def draw_choices(desk: Desk, fact: Fact, others: Sequence[Fact], *, keys: bool) -> None:
    """Draw one button for each choice, with what it removes. `keys` enables shortcuts, as in Review."""
    for place, choice in enumerate(choices(fact, others)):
        with st.container(horizontal=True, gap="small", vertical_alignment="center"):
            st.button(
                plain(choice.says),
                key=f"facts__choice_{place}",
                type="primary" if keys and place == 0 else "secondary",
                # The keys would collide with those of other panels, so only Review has them.
                shortcut=choice.key if keys else None,
                on_click=_choose,
                args=(desk, choice),
            )
            # Each effect plans two prompts: worth it for the one card of Review, and not whenever a fact is opened.
            if keys:
                st.markdown(f":small[:gray[{plain(_effect(desk, choice))}]]", width="content")
            elif place:  # a panel is narrow, and the first button says itself what it retires
                st.markdown(f":small[:gray[{plain(choice.goes)}]]", width="content")


def _effect(desk: Desk, choice: Choice) -> str:
    try:
        return f"{choice.goes}. {fact_changes.foreseen(desk, choice.plan())}"
    except MemoryInspectorError as error:
        return str(error)


def _choose(desk: Desk, choice: Choice) -> None:
    fact_changes.apply(desk, choice.plan)
    # A half-written edit of this fact in Review is over with the choice.
    fact_tab.ask(desk.place, None)
