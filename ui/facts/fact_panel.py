"""The right side of Facts: one fact with its text, sources, use and history, or several ticked facts."""

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from memory_core.curation.fact_desk import Curation
from memory_core.events import Ref
from memory_core.history.fact_evidence import made_by
from memory_core.planning import curation as plans
from memory_core.planning.fact_merging import Fact
from memory_inspector.lab.probes import Probe
from memory_inspector.reading.fact_history import Step, steps, who_wrote
from memory_inspector.reading.fact_rows import (
    BADGES,
    PUT_AWAY,
    REASONS,
    SOURCES,
    ShownFact,
    categories_count,
    merged_words,
    selected,
    states_of,
    topics_count,
    used,
)
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from memory_inspector.wording.marked_text import markdown
from ui.facts import fact_dialogs, fact_tab
from ui.facts.fact_tab import FactSnapshot, UnsavedWords, sources_of
from ui.facts.review import draw_choices, others_of
from ui.parts import probing
from ui.parts.components import heading, more_line
from ui.parts.listing import draw_source
from ui.parts.struck import reason, struck
from ui.tab import nav
from ui.tab.people import allowed, obstacle
from ui.tab.view import View

LONGEST_TITLE = 160
LONGEST_METADATA = 4_000
"""Characters shown of a fact's metadata."""
METADATA_LINES = 6
"""Number of lines above which metadata scrolls."""
SHOWN_SOURCES = 2
SHOWN_SELECTED = 8
FIELD_PIXELS = 80


def draw_panel(view: View, desk: FactSnapshot, row: ShownFact) -> None:
    """Draw all information on one fact, with its actions."""
    fact = row.fact
    effect = view.effects.of(Ref.of("fact", row.id))
    with st.container(border=True, gap="xsmall", key="facts__panel"):
        heading(struck(short(row.fact.text, LONGEST_TITLE), effect), help=plain(reason(effect)) or None)
        _states(row)
        _labels(desk, fact)
        _draw_given(fact)
        for flag in desk.review.flags.get(row.id, ()) if desk.review else ():
            st.markdown(f":small[:orange[:material/warning:] {plain(flag.sentence)}]")
        if not desk.read_only and (others := others_of(desk, fact.id)):
            draw_choices(desk, fact, others, keys=False)
        _sources(desk, row)
        st.markdown(f":small[:gray[{plain(used(row.carried, row.cut))}]]")
        if not desk.read_only:
            _edit(desk, fact)
        stage_text = plain(effect.stage.text) if effect is not None else "Where did it go?"
        nav.follow_link(Ref.of("fact", row.id), f":small[{stage_text}]", help=stage_text)
        probing.draw(desk.memory.session_id, partial(_probes, view, desk, row), f"facts__{row.id}")
        if not desk.past:
            _past_of(view, desk, fact)


def _probes(view: View, desk: FactSnapshot, row: ShownFact) -> list[Probe]:
    """Return probes for a fact: for its text, and for the first message of this session that it was learned from."""
    turn, here = max(1, view.shown_turn), desk.memory.session_id
    seqs = [source.seq for source in sources_of(desk, row.id) if source.session_id == here]
    return [*probing.of_words(row.fact.text, turn), *probing.of_messages(seqs[:1], turn)]


def draw_selection(desk: FactSnapshot, rows: Sequence[ShownFact]) -> None:
    """Draw the actions for several facts."""
    facts = desk.picked(row.id for row in rows)
    with st.container(border=True, gap="xsmall", key="facts__panel"):
        heading(plain(selected(rows)))
        for row in rows[:SHOWN_SELECTED]:
            st.markdown(f":small[{plain(short(row.fact.text, 80))}]")
        more_line(len(rows) - SHOWN_SELECTED)
        if all(row.fact.state in PUT_AWAY for row in rows):
            _put_away_actions(desk, facts)
        else:
            _which_holds(desk, facts)
            _bulk_actions(desk, facts)
        unselect = partial(fact_tab.unselect, desk.place)
        st.button("Clear selection", key="facts__unselect", type="tertiary", on_click=unselect)


def _which_holds(desk: FactSnapshot, facts: Sequence[Fact]) -> None:
    """Draw the choices between two facts that contradict only each other; "this" is the newer one."""
    # By id, because ids grow: the fact that was learned later is "this" one.
    if len(facts) == 2:
        older, newer = sorted(facts, key=lambda fact: fact.id)
        # With a third one involved, choosing between two would leave a conflict.
        if others_of(desk, newer.id) == [older]:
            draw_choices(desk, newer, [older], keys=False)


def _bulk_actions(desk: FactSnapshot, facts: Sequence[Fact]) -> None:
    # Another selection starts with another suggestion. Twenty ids tell selections apart, and keep the key short.
    mark = f"{fact_tab.at(desk.place).generation}_{'_'.join(str(fact.id) for fact in facts[:20])}"
    key = f"facts__merged_{mark}"
    text = st.text_area(
        "Merge into",
        value=merged_words([fact.text for fact in facts]),
        height=FIELD_PIXELS,
        key=key,
        max_chars=4_000,
        placeholder="One sentence that says what all of them say",
    )
    with st.container(horizontal=True, gap="small"):
        st.button("Merge", key="facts__merge", icon=":material/merge:", on_click=_merge, args=(desk, facts, key))
        pinned = all(fact.pinned for fact in facts)
        st.button(
            "Unpin" if pinned else "Pin",
            key="facts__pin",
            icon=":material/keep:",
            on_click=fact_tab.make,
            args=(desk, partial(plans.pin, facts, not pinned)),
        )
        retire_popover(desk, facts, mark)
    if text.strip():
        fact_tab.draw_effect(desk, lambda: plans.merge(facts, text), before="Merging them: ")


def _put_away_actions(desk: FactSnapshot, facts: Sequence[Fact]) -> None:
    with st.container(horizontal=True, gap="small"):
        _restore(desk, facts)
        if st.button("Delete for good", key="facts__delete", icon=":material/delete:", **allowed(Curation.erase)):
            fact_dialogs.delete_dialog(desk, [fact.id for fact in facts])


def _restore(desk: FactSnapshot, facts: Sequence[Fact]) -> None:
    change = desk, partial(plans.restore, facts)
    st.button("Restore", key="facts__restore", icon=":material/undo:", on_click=fact_tab.make, args=change)


def _merge(desk: FactSnapshot, facts: Sequence[Fact], key: str) -> None:
    if fact_tab.apply(desk, lambda: plans.merge(facts, str(st.session_state.get(key, "")))):
        fact_tab.redraw(desk.place)


def _states(row: ShownFact) -> None:
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        for name in states_of(row):
            colour, icon = BADGES[name]
            st.badge(plain(name), color=colour, icon=f":material/{icon}:")
        st.markdown(f":small[:gray[{count(row.fact.tokens, 'token')}]]", width="content")


def _labels(desk: FactSnapshot, fact: Fact) -> None:
    """Draw a fact's category and topics, with a popover to change them."""
    with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
        # A category that is also a topic is shown once, as the topic.
        if fact.category and fact.category not in fact.topics:
            st.markdown(f":small[:gray[{plain(short(fact.category))}]]", width="content")
        for topic in fact.topics:
            st.badge(plain(short(topic)), color="gray", icon=":material/sell:")
        if desk.read_only or fact.state in PUT_AWAY:
            return
        # A new version closes the popover, whose fields would still hold the labels of the old one.
        mark = f"{fact.id}_{fact.version}_{fact_tab.at(desk.place).generation}"
        opened = st.popover(
            "Label", icon=":material/sell:", type="tertiary", key=f"facts__label_{mark}", on_change="rerun"
        )
        if opened.open:
            with opened:
                _label(desk, fact, mark)


def _draw_given(fact: Fact) -> None:
    """Draw the key and the metadata that a program stored with a fact."""
    if fact.key is not None:
        st.markdown(f":small[:gray[Under the key] {plain(short(fact.key, LONGEST_TITLE))}]")
    if fact.metadata:
        text = json.dumps(fact.metadata, ensure_ascii=False, indent=2)
        st.code(
            text[:LONGEST_METADATA],
            language="json",
            height=FIELD_PIXELS * 2 if text.count("\n") > METADATA_LINES else "content",
        )


def _label(desk: FactSnapshot, fact: Fact, mark: str) -> None:
    # The fact's own category first, as the field's value; then those set for the block, then those in use.
    categories = [fact.category, *desk.categories, *categories_count(desk.rows)]
    topics = [*fact.topics, *topics_count(desk.rows)]
    keys = f"facts__category_{mark}", f"facts__topics_{mark}"
    st.selectbox(
        "Category",
        list(dict.fromkeys(category for category in categories if category)),
        key=keys[0],
        accept_new_options=True,
    )
    st.multiselect(
        "Topics",
        list(dict.fromkeys(topics)),
        default=list(fact.topics),
        key=keys[1],
        accept_new_options=True,
        placeholder="none",
    )
    st.button("Apply labels", key=f"facts__save_labels_{mark}", on_click=fact_tab.label, args=(desk, fact, *keys))


def _sources(desk: FactSnapshot, row: ShownFact) -> None:
    """Draw the source messages, with the fact's words highlighted."""
    sources = sources_of(desk, row.id)
    for source in sources[:SHOWN_SOURCES]:
        draw_source(source, elsewhere=source.session_id != desk.memory.session_id)
    if len(sources) > SHOWN_SOURCES:
        st.markdown(f":small[:gray[and in {count(len(sources) - SHOWN_SOURCES, 'more message')}]]")
    if not sources and not row.here:
        st.markdown(":small[:gray[Learned in another session.]]")
    elif not sources:
        # Facts without a source message are no error: people, programs and condensing write some.
        written = "Written by a person" if row.fact.key is None else "Kept by a program"
        learned = {"person": written, "condensed": "Written when facts were condensed"}.get(row.source)
        turn = f" in turn {row.fact.turn}" if learned and row.fact.turn else ""
        sentence = f"{learned or SOURCES['unknown']}{turn}."
        st.markdown(f":small[:gray[{plain(sentence)}]]")


def _edit(desk: FactSnapshot, fact: Fact) -> None:
    """Draw the editor of the text, and the buttons under it."""
    place = desk.place
    if fact.state in PUT_AWAY:
        with st.container(horizontal=True, gap="small"):
            _restore(desk, [fact])
            _menu(desk, fact)
        return
    draft = fact_tab.at(place).drafts.get(fact.id)
    # The words were typed back to what they were: nothing is unsaved.
    if draft is not None and not draft.changed:
        fact_tab.keep_draft(place, fact.id, None)
        draft = None
    if draft is not None and draft.version != fact.version:
        _changed_elsewhere(desk, fact, draft)
    # The version that was opened, so that saving over a newer one is refused.
    opened = replace(fact, version=draft.version, text=draft.opened) if draft else fact
    # Without a draft, a newer version is a new field that shows the stored words; with one, the field stays.
    key = f"facts__words_{fact.id}_{opened.version}_{fact_tab.at(place).generation}"
    text = st.text_area(
        "Words",
        value=draft.text if draft else fact.text,
        height=FIELD_PIXELS,
        key=key,
        max_chars=4_000,
        label_visibility="collapsed",
        on_change=_keep_words,
        args=(place, opened, key),
    )
    with st.container(horizontal=True, gap="small"):
        st.button("Save", key="facts__save", on_click=fact_tab.save_words, args=(desk, opened, key))
        pins = "Unpin" if fact.pinned else "Pin"
        st.button(
            pins,
            key="facts__pin",
            help="A pinned fact is cut last, and stays word for word when facts are condensed.",
            on_click=fact_tab.make,
            args=(desk, partial(plans.pin, [fact], not fact.pinned)),
        )
        retire_popover(desk, [fact], f"{fact.id}_{fact_tab.at(place).generation}")
        _menu(desk, fact)
    if text.strip() == opened.text:
        st.markdown(":small[:gray[Edit to preview the next prompt.]]")
    else:
        size = f"{tokens(fact.tokens)} → {count(desk.memory.session.count_tokens(text.strip()), 'token')}. "
        fact_tab.draw_effect(desk, lambda: plans.edit(fact, text), before=size)


def _changed_elsewhere(desk: FactSnapshot, fact: Fact, draft: UnsavedWords) -> None:
    st.warning("This fact was changed elsewhere. Your text is kept below; nothing was overwritten.")
    st.markdown(f":small[Theirs: {plain(short(fact.text, LONGEST_TITLE))}]")
    with st.container(horizontal=True, gap="small"):
        st.button("Show theirs", key="facts__theirs", on_click=fact_tab.keep_draft, args=(desk.place, fact.id, None))
        st.button(
            "Keep editing",
            key="facts__mine",
            on_click=fact_tab.keep_draft,
            args=(desk.place, fact.id, UnsavedWords(fact.version, fact.text, draft.text)),
        )


def _keep_words(place: fact_tab.ListPosition, opened: Fact, key: str) -> None:
    fact_tab.keep_draft(place, opened.id, UnsavedWords(opened.version, opened.text, str(st.session_state.get(key, ""))))


def retire_popover(desk: FactSnapshot, facts: Sequence[Fact], mark: str) -> None:
    """Draw the button Retire, with a choice of reasons."""
    key = f"facts__retire_{mark}"
    with st.popover("Retire", icon=":material/archive:"):
        st.pills("Why?", REASONS, key=key, on_change=fact_tab.put_away, args=(desk, list(facts), key))
        st.markdown(":small[:gray[It leaves the prompt and can be restored.]]")


def _menu(desk: FactSnapshot, fact: Fact) -> None:
    """Draw the menu of less frequent actions, each with a dialog."""
    blocks = [a.name for a in desk.memory.blocks if a.kind == "facts" and a.name != desk.block]
    # What is put away is restored before it is split or merged.
    options = ["Split", "Merge with…"] if fact.state not in PUT_AWAY else []
    options += ["Reject"] if fact.state != "rejected" else []
    # A menu reports the chosen label: with names that are alike when shortened, each is written in full.
    shortened = [short(name) for name in blocks]
    copies = {
        f"Copy to {name if shortened.count(label) > 1 else label}": name
        for name, label in zip(blocks, shortened, strict=True)
    }
    options += [*copies, *([] if obstacle(Curation.erase) else ["Delete for good"])]
    if not options:
        return
    chosen = st.menu_button(
        "More for this fact",
        options,
        key=f"facts__menu_{fact.id}",
        icon=":material/more_horiz:",
        type="tertiary",
        format_func=plain,
        help="More for this fact",
    )
    if chosen == "Split":
        fact_dialogs.split_dialog(desk, fact.id)
    elif chosen == "Merge with…":
        fact_dialogs.merge_dialog(desk, fact.id)
    elif chosen == "Reject":
        fact_dialogs.reject_dialog(desk, fact.id)
    elif chosen == "Delete for good":
        fact_dialogs.delete_dialog(desk, [fact.id])
    elif chosen:
        fact_dialogs.copy_dialog(desk, fact.id, copies[chosen])


def _past_of(view: View, desk: FactSnapshot, fact: Fact) -> None:
    """Draw history and origin, each read only when expanded."""
    # Both read the log, so only once they are open.
    history = st.expander("History", key=f"facts__history_{fact.id}", on_change="rerun", type="compact")
    if history.open:
        with history:
            decided = desk.decisions.of_fact(fact.id)
            for step in reversed(steps(desk.memory.facts.history(fact), decided)):
                _step(step)
    made = st.expander("Source", key=f"facts__made_{fact.id}", on_change="rerun", type="compact")
    if made.open:
        with made:
            for line in who_wrote(made_by(view.history.records, fact.id)):
                st.markdown(f":small[{plain(line)}]")


def _step(step: Step) -> None:
    st.markdown(f":small[**{plain(step.what)}** · :gray[{plain(step.who)} · {ago(step.at, time.time())}]]")
    if step.pieces:
        st.markdown(f":small[{markdown(step.pieces)}]")
    if step.why:
        st.markdown(f":small[:gray[{plain(step.why)}]]")
