"""Decisions about facts one at a time, each made with a key: Review, Still true?, and contradictions."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import streamlit as st

from memory_core import MemoryInspectorError
from memory_core.history.fact_evidence import Flag
from memory_core.planning import curation as plans
from memory_core.planning.curation import SuppressedFact
from memory_core.planning.fact_merging import Fact, to_ask
from memory_core.text import similarity
from memory_inspector.reading.fact_rows import (
    CHECK_AFTER,
    CHECK_FIRST,
    REASONS,
    SIMILAR_AS_SAME,
    ShownFact,
    to_check,
    unconfirmed,
    used,
)
from memory_inspector.wording.formatting import ago, plain, short, tokens
from ui.facts import fact_tab
from ui.facts.fact_tab import FactSnapshot, sources_of
from ui.parts.components import empty, heading, more_line
from ui.parts.listing import draw_source

Listed = TypeVar("Listed", Fact, ShownFact)

LONGEST = 300
FIELD_PIXELS = 92
HELD_SHOWN = 5
_AGE = "check_after"
"""Name under which the tab remembers the age chosen in Still true?"""


def in_turn(waiting: Sequence[Listed], skipped: Sequence[int], first: int | None = None) -> list[Listed]:
    """Return the facts in order of review: the one that a link asked for first, skipped ones last, as skipped."""
    # What was skipped overrides the link: a linked fact that was skipped must not come back at once.
    # All others share place 0 and keep their order, as the sort is stable.
    places = {first: -1} | {fact: place for place, fact in enumerate(skipped, start=1)}
    return sorted(waiting, key=lambda fact: places.get(fact.id, 0))


def draw_review(desk: FactSnapshot) -> None:
    """Draw the first fact to review, and below it the found facts that were suppressed."""
    waiting = in_turn(
        desk.review.facts if desk.review else (),
        fact_tab.at(desk.place).skipped,
        fact_tab.remembered(desk.place, "asked_for"),
    )
    if waiting:
        _card(desk, waiting[0])
    elif desk.held:
        st.markdown("All reviewed.")
    else:
        empty(
            "All reviewed.",
            "New facts that contradict or repeat others, lack a source or are too vague wait here.",
            icon="done_all",
        )
    if desk.held:
        _held_back(desk)
    if desk.approval:
        st.markdown(":small[:gray[Approval is on: new facts wait here and are in no prompt before you accept them.]]")


def nearest_of(desk: FactSnapshot, fact: Fact, flags: Sequence[Flag]) -> tuple[Fact, float] | None:
    """The fact to compare with, and its similarity: the most similar, else one that a flag names; None without one."""
    nearest = desk.review.nearest(fact) if desk.review else None
    if nearest is not None:
        return nearest
    named = next(
        (desk.facts[flag.other] for flag in flags if flag.other is not None and flag.other in desk.facts), None
    )
    return None if named is None else (named, similarity(named.text, fact.text))


def _card(desk: FactSnapshot, fact: Fact) -> None:
    asked = fact_tab.at(desk.place).asks
    # The question belongs to one fact: when another comes up, it starts with the buttons.
    asks = asked[0] if asked and asked[1] == fact.id else None
    with st.container(border=True, gap="small", key="facts__review"):
        waiting = [listed.id for listed in desk.review.facts] if desk.review else [fact.id]
        _head(fact, f"{tokens(waiting.index(fact.id) + 1)} of {tokens(len(waiting))}", plain(when_new(fact)))
        flags = desk.review.flags.get(fact.id, ()) if desk.review else ()
        for flag in flags:
            st.markdown(f":small[:orange[:material/warning:] {plain(flag.sentence)}]")
        for source in sources_of(desk, fact.id)[:1]:
            draw_source(source, elsewhere=source.session_id != desk.memory.session_id)
        nearest = nearest_of(desk, fact, flags)
        if nearest is not None:
            _nearest(*nearest)
        others = others_of(desk, fact.id)
        if asks == "edit":
            _write(desk, fact, fact.text, None)
        elif asks == "merge" and nearest is not None:
            _write(desk, fact, nearest[0].text, nearest[0])
        elif asks == "reject":
            _why(desk, fact)
        else:
            if others:
                draw_choices(desk, fact, others, keys=True)
            _actions(desk, fact, contradicts=bool(others), mergeable=nearest is not None)
        # Where facts contradict each other, each choice shows its effect already.
        if not others:
            _effect(desk, fact)


def _head(fact: Fact, number: str, when: str) -> None:
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.markdown(f":small[:gray[{number}]]", width="content")
        st.markdown(f":small[:gray[{when}]]", width="content")
    st.markdown(f"**{plain(short(fact.text, LONGEST))}**")


def when_new(fact: Fact) -> str:
    """Return since when a fact is there: `Learned in turn 3`, `Added before the first turn`."""
    new = "Proposed" if fact.state == "proposed" else "Added" if fact.origin == "written" else "Learned"
    return f"{new} in turn {tokens(fact.turn)}" if fact.turn else f"{new} before the first turn"


def _nearest(other: Fact, alike: float) -> None:
    same = " same" if alike >= SIMILAR_AS_SAME else ""
    st.markdown(f":small[:gray[Nearest] {plain(short(other.text, 120))} :gray[{alike:.2f}{same}]]")


def _actions(desk: FactSnapshot, fact: Fact, *, contradicts: bool, mergeable: bool) -> None:
    place, id = desk.place, fact.id
    with st.container(horizontal=True, gap="small"):
        if not contradicts:
            accept = partial(fact_tab.make, desk, partial(plans.accept, [fact]), quiet=True)
            st.button("Accept", key="facts__accept", type="primary", shortcut="Alt+A", on_click=accept)
        st.button(
            "Merge",
            key="facts__merge",
            shortcut="Alt+M",
            disabled=not mergeable,
            on_click=fact_tab.ask,
            args=(place, "merge", id),
            help="Merge into the nearest fact" if mergeable else "No similar fact",
        )
        st.button("Edit", key="facts__edit", shortcut="Alt+E", on_click=fact_tab.ask, args=(place, "edit", id))
        st.button("Reject", key="facts__reject", shortcut="Alt+X", on_click=fact_tab.ask, args=(place, "reject", id))
        st.button("Skip", key="facts__skip", shortcut="Alt+S", on_click=fact_tab.skip, args=(place, id))


def _write(desk: FactSnapshot, fact: Fact, words: str, other: Fact | None) -> None:
    """Draw a field for a new text; with `other`, for the merged text of both facts."""
    key = f"facts__review_words_{fact.id}_{fact.version}_{other.id if other else 0}"
    st.text_area("Words of both" if other else "Words", value=words, key=key, height=FIELD_PIXELS, max_chars=4_000)
    with st.container(horizontal=True, gap="small"):
        done = "Merge" if other else "Save" if others_of(desk, fact.id) else "Save and accept"
        st.button(
            done,
            key="facts__write",
            type="primary",
            shortcut="Enter",
            on_click=_written,
            args=(desk, fact, other, key),
        )
        st.button("Cancel", key="facts__cancel", shortcut="Esc", on_click=fact_tab.ask, args=(desk.place, None))


def _why(desk: FactSnapshot, fact: Fact) -> None:
    """Draw the reasons for rejecting, each with a number as its shortcut."""
    st.markdown(":small[Reject it, and hold back near copies. Why?]")
    with st.container(horizontal=True, gap="small"):
        for number, reason in enumerate(REASONS, start=1):
            st.button(
                reason,
                key=f"facts__why_{number}",
                shortcut=str(number),
                on_click=_reject,
                args=(desk, fact, reason),
            )
        st.button(
            "Cancel",
            key="facts__cancel",
            type="tertiary",
            shortcut="Esc",
            on_click=fact_tab.ask,
            args=(desk.place, None),
        )


def _effect(desk: FactSnapshot, fact: Fact) -> None:
    """Draw the effect of a decision: accepting adds a proposed fact to the prompt, rejecting removes a doubtful one."""
    if fact.state == "proposed":
        fact_tab.draw_effect(desk, lambda: plans.accept([fact]), before="Accepting it: ")
    else:
        fact_tab.draw_effect(desk, lambda: plans.reject([fact]), before="It is in the prompt already. Rejecting it: ")


def _reject(desk: FactSnapshot, fact: Fact, reason: str) -> None:
    fact_tab.apply(desk, lambda: plans.reject([fact], reason.lower()), quiet=True)
    fact_tab.ask(desk.place, None)


def _written(desk: FactSnapshot, fact: Fact, other: Fact | None, key: str) -> None:
    text = str(st.session_state.get(key, "")).strip()
    contradicts = bool(others_of(desk, fact.id))

    def plan() -> plans.ChangeSet:
        if other is not None:
            return plans.merge([fact, other], text)
        # Nothing was edited: a plain acceptance, and no new version with the same words.
        if text == fact.text and not contradicts:
            return plans.accept([fact])
        return plans.together("edit" if contradicts else "accept", plans.edit(fact, text), plans.accept([fact]))

    if fact_tab.apply(desk, plan):
        fact_tab.ask(desk.place, None)


def _held_back(desk: FactSnapshot) -> None:
    """Draw found facts that were suppressed, each with the rejected fact that it resembles."""
    heading("Held back")
    for held in desk.held[:HELD_SHOWN]:
        with (
            st.container(border=True),
            st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"),
        ):
            st.markdown(
                f"{plain(short(held.draft.text, LONGEST))}  \n:small[:gray[{plain(why_held(held, time.time()))}]]"
            )
            allow = partial(fact_tab.make, desk, partial(plans.allow, held))
            st.button("Allow", key=f"facts__allow_{held.position}", on_click=allow)
    more_line(len(desk.held) - HELD_SHOWN)


def why_held(held: SuppressedFact, now: float) -> str:
    """Return the reason why a found fact was suppressed: `Held back: you rejected a near copy on 12 May (0.95).`"""
    when = ago(held.near.updated_at, now)
    when = f"on {when}" if when[0].isdigit() and not when.endswith("ago") else when
    return f'Held back: you rejected a near copy {when} ({held.similarity:.2f}): "{short(held.near.text, 80)}".'


# -- still true? -----------------------------------------------------------------------------------


def chosen_age(place: fact_tab.ListPosition) -> str:
    """Minimum age of the listed facts, as a key of `CHECK_AFTER`."""
    return str(fact_tab.remembered(place, _AGE) or CHECK_FIRST)


def draw_check(desk: FactSnapshot) -> None:
    """Draw the choice of an age, and the first fact not confirmed for that long."""
    key = fact_tab.key(desk.place, "check_after")
    st.segmented_control(
        "Not confirmed for",
        list(CHECK_AFTER),
        default=chosen_age(desk.place),
        required=True,
        key=key,
        on_change=lambda: fact_tab.keep(desk.place, _AGE, st.session_state[key]),
    )
    old = to_check(desk.rows, now=time.time(), older=CHECK_AFTER[chosen_age(desk.place)])
    # Skips are shared with Review: a fact put off there is put off here too.
    rows = in_turn(old, fact_tab.at(desk.place).skipped)
    if not rows:
        empty("Nothing to check.", "Facts not confirmed for this long are listed here.", icon="done_all")
        return
    _check_card(desk, rows[0], len(rows))


def _check_card(desk: FactSnapshot, row: ShownFact, listed: int) -> None:
    fact = desk.facts[row.id]
    with st.container(border=True, gap="small", key="facts__check"):
        _head(fact, f"1 of {tokens(listed)}", unconfirmed(row, time.time()))
        for source in sources_of(desk, fact.id)[:1]:
            draw_source(source, elsewhere=source.session_id != desk.memory.session_id)
        st.markdown(f":small[:gray[{used(row.carried, row.cut)}]]")
        asks = to_ask(fact.metadata)
        if asks:
            st.markdown(":small[:blue[:material/help:] The agent will ask about it.]")
        _answers(desk, fact, asks=asks)
        fact_tab.draw_effect(desk, lambda: plans.retire([fact]), before="Retiring it: ")


def _answers(desk: FactSnapshot, fact: Fact, *, asks: bool) -> None:
    with st.container(horizontal=True, gap="small"):
        st.button(
            "Still true",
            key="facts__confirm",
            type="primary",
            shortcut="Alt+T",
            on_click=partial(fact_tab.make, desk, partial(plans.confirm, [fact]), quiet=True),
        )
        st.button(
            "Retire",
            key="facts__retire_old",
            shortcut="Alt+X",
            on_click=partial(fact_tab.make, desk, partial(plans.retire, [fact], "outdated"), quiet=True),
        )
        why_not = "A program keeps it." if fact.key is not None else "The agent will ask already." if asks else None
        st.button(
            "Ask",
            key="facts__ask",
            shortcut="Alt+A",
            disabled=why_not is not None,
            on_click=_ask,
            args=(desk, fact),
            help=why_not or "The prompt tells the agent to ask the user whether it is still true.",
        )
        st.button("Skip", key="facts__skip_old", shortcut="Alt+S", on_click=fact_tab.skip, args=(desk.place, fact.id))


def _ask(desk: FactSnapshot, fact: Fact) -> None:
    if fact_tab.apply(desk, lambda: plans.ask([fact])):
        fact_tab.skip(desk.place, fact.id)


# -- a contradiction, resolved by choosing one of a pair; the choices show the effect -------------


LONGEST_LABEL = 60
SHOWN_PAIRS = 4


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to resolve a contradiction."""

    says: str
    """Label of the choice's button. Not escaped: the label quotes a fact."""
    goes: str
    """Sentence on the superseded facts, without a full stop. Not escaped."""
    plan: fact_tab.Plan


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
    one, this = len(others) == 1, f"“{short(fact.text, LONGEST_LABEL)}”"
    result = []
    for other in others[:SHOWN_PAIRS]:
        that = f"“{short(other.text, LONGEST_LABEL)}”"
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
                st.markdown(f":small[:gray[{plain(_choice_effect(desk, choice))}]]", width="content")
            elif place:  # a panel is narrow, and the first button says itself what it retires
                st.markdown(f":small[:gray[{plain(choice.goes)}]]", width="content")


def _choice_effect(desk: FactSnapshot, choice: Choice) -> str:
    try:
        return f"{choice.goes}. {fact_tab.foreseen(desk, choice.plan())}"
    except MemoryInspectorError as error:
        return str(error)


def _choose(desk: FactSnapshot, choice: Choice) -> None:
    fact_tab.apply(desk, choice.plan)
    # A half-written edit of this fact in Review is over with the choice.
    fact_tab.ask(desk.place, None)
