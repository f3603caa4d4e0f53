"""The Blocks page of one session: one card for each block, with the cutting order above them."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal

import streamlit as st

from memory_core import Holding, Memory
from memory_core.blocks import WITH_TEXT
from memory_core.blocks.base import stored_item
from memory_core.events import BlockAdded, BlockEdited, BlockRemoved, BlocksOrdered, ContextBuilt, Ref
from memory_core.history.contexts import context_of
from memory_core.history.usage import BlockUse
from memory_core.planning.context_plan import QUEUE, CutOrder, cut_order
from memory_core.tracing.stages import AWAY
from memory_inspector.server.jobs import Job
from memory_inspector.wording.block_kinds import kind_of, settings_of
from memory_inspector.wording.block_text import (
    Card,
    Freshness,
    GrantedInPrompt,
    Standing,
    card,
    card_order,
    freshness_then,
    sentence_refs,
    shown_sentences,
    square,
    strip,
)
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.blocks import agent_stores, recipe_section
from ui.blocks.block_settings import change_dialog, changes_for, order_dialog, settings_of_dialog
from ui.blocks.block_text import REWRITE, history_dialog, rewrite_dialog, rewriting
from ui.blocks.editor import add_dialog, edit_dialog, remove_dialog
from ui.parts.components import choose_view, empty, error_noticed, heading
from ui.parts.facts_limit import draw_limit
from ui.parts.struck import draw_without, reason, struck
from ui.tab import nav
from ui.tab.drawing import mode
from ui.tab.model import chosen_model, services_for
from ui.tab.people import allowed, obstacle
from ui.tab.services import engine
from ui.tab.view import View

Drawer = Callable[[], None]

_TONES = {"plain": ":gray[{}]", "waiting": ":orange[{}]", "loss": ":red[{}]"}

VIEWS = {"blocks": "Blocks", "recipes": "Recipes"}

PIECES = 3
"""Maximum number of pieces listed on a card as missing in the prompt shown; the block's own page lists all."""


def draw(view: View) -> None:
    """Draw the page of one session, at its latest turn or an earlier one."""
    if choose_view(VIEWS, "blocks__view") == "recipes":
        recipe_section.draw(view)
        return
    # The address names a picked recipe, which this view does not show.
    recipe_section.link.put(None)
    drawer = _draw(view)
    # A run opens at most one dialog: it is returned, and opened after the page is drawn.
    if drawer is not None:
        drawer()


def _draw(view: View) -> Drawer | None:
    """Draw the page; return the dialog to open, if any."""
    built = _shown_prompt(view)
    standings = _then(view, built) if view.past else _now(view, built)
    if not standings:
        return _empty(view)
    # The order of cutting is a setting too, so a past turn is drawn with the settings of that turn.
    config = view.history.config_at(view.position) if view.past else view.memory.session.config
    priorities = {shown.name: shown.priority for shown in standings}
    order = cut_order(priorities, config.truncation_order)
    drawer = _head(view, standings, order, priorities)
    # Turns with a cut are marked above the page: those in which no block was cut are the queue's.
    built_in = [context_of(turn.built) for n, turn in view.history.turns.items() if turn.built and n <= view.shown_turn]
    if cut := sum(any(one["part"] == QUEUE for one in event.cuts) for event in built_in):
        st.markdown(f":small[:red[The queue was cut in {tokens(cut)} of {count(len(built_in), 'turn')}.]]")
    usage = view.memory.log.usage(view.position if view.past else None)
    by_name = {shown.name: shown for shown in standings}
    with_tools = any(shown.agent_edits for shown in standings)
    cards = [
        card(
            by_name[name],
            _part(built, name),
            usage.of(name),
            _held_then(usage.of(name), view) if view.past else view.memory.blocks.holding(name),
            with_tools=with_tools,
        )
        for name in card_order(order)
    ]
    # Row by row, so that two cards side by side stretch to the same height.
    for start in range(0, len(cards), 2):
        for column, drawn in zip(st.columns(2, gap="medium"), cards[start : start + 2], strict=False):
            with column:
                drawer = _card(view, drawn, by_name[drawn.name]) or drawer
    return drawer


# -- what there is ---------------------------------------------------------------------------------


def _now(view: View, built: ContextBuilt | None) -> list[Standing]:
    memory = view.memory
    return [
        Standing(
            name=attached.name,
            kind=attached.kind,
            type=attached.record.type,
            settings=memory.blocks.settings(attached.name),
            text=attached.state or "" if attached.kind in WITH_TEXT else _custom_words(view, built, attached.name),
            text_ref=Ref.of("text", attached.record.text or "") if attached.kind == "static" else None,
            text_tokens=memory.session.count_tokens(attached.state or "") if attached.kind in WITH_TEXT else None,
            made_here=attached.block is not None,
            fresh=_freshness(memory, attached.name) if attached.kind == "summary" else None,
            sentences=sentence_refs(attached.state or "") if attached.kind == "summary" else None,
            waits_for=attached.waits_for(memory.session.services),
        )
        for attached in memory.blocks
    ]


def _then(view: View, built: ContextBuilt | None) -> list[Standing]:
    past = view.history.blocks_at(view.position)
    # Texts may have been erased since, so one can be missing.
    texts = view.memory.log.texts(block.text for block in past if block.text)
    log = view.history.upto(view.position)
    return [
        Standing(
            name=block.name,
            kind=block.kind,
            type=block.type,
            settings=block.settings,
            text=texts.get(block.text or "") if block.kind in WITH_TEXT else _custom_words(view, built, block.name),
            text_ref=Ref.of("text", block.text or "") if block.kind == "static" else None,
            text_tokens=view.memory.session.count_tokens(texts.get(block.text or "", ""))
            if block.kind in WITH_TEXT
            else None,
            fresh=freshness_then(log, block.name, view.shown_turn) if block.kind == "summary" else None,
            sentences=sentence_refs(texts.get(block.text or "", "")) if block.kind == "summary" else None,
        )
        for block in past
    ]


def _freshness(memory: Memory, name: str) -> Freshness:
    now = memory.blocks.summary(name).state()
    return Freshness(now.covers_turn, now.latest_turn)


def _shown_prompt(view: View) -> ContextBuilt | None:
    """The last prompt of the turn shown or before it; None if there is none."""
    newest = view.contexts[-1].event if view.contexts else None
    return newest if isinstance(newest, ContextBuilt) else None


def _part(built: ContextBuilt | None, name: str) -> GrantedInPrompt | None:
    for part in built.parts if built is not None else ():
        if built is not None and part["name"] == name:
            return GrantedInPrompt(int(part["asked"]), int(part["granted"]), built.token_limit, tuple(part["refs"]))
    return None


def _custom_words(view: View, built: ContextBuilt | None, name: str) -> str:
    """Text a custom block put into the prompt shown; empty for other kinds."""
    part = _part(built, name)
    refs = [ref for ref in map(Ref, part.refs if part is not None else ()) if ref.kind == "content"]
    stored = view.memory.log.texts(ref.hash for ref in refs)
    items = [stored_item(ref, stored[ref.hash], str) for ref in refs if ref.hash in stored]
    return "\n".join(item.words for item in items)


def _held_then(use: BlockUse, view: View) -> Holding:
    """Contents of a block at the turn shown, counted from the log alone."""
    newest = view.memory.log.texts([use.newest_fact]).get(use.newest_fact) if use.newest_fact else None
    return Holding(
        turns=use.stored_turns,
        facts={"active": use.facts},
        newest=newest,
        waiting=len(use.waiting),
        entities={"active": use.entities},
        relations={"active": use.relations},
    )


# -- drawing ---------------------------------------------------------------------------------------


def _empty(view: View) -> Drawer | None:
    attachment = view.history.attachment
    if attachment is not None and attachment.source == "file":
        empty("No blocks.", "The store holds none.", icon="view_agenda")
        return None
    if attachment is not None:  # its memory is not made of blocks
        agent_stores.draw(view)
        return None
    if view.past:
        empty("No blocks at this turn.", "They were added later.", icon="view_agenda")
        return None
    empty(
        "No blocks yet.",
        "Messages that leave the queue are kept, but never reach the prompt again.",
        icon="view_agenda",
    )
    if view.read_only:
        return None
    chosen = None
    with st.container(horizontal=True, horizontal_alignment="center"):
        for kind, says in (("static", "instructions"), ("facts", "facts"), ("vector", "earlier turns")):
            look: Literal["primary", "secondary"] = "primary" if kind == "static" else "secondary"
            if st.button(f"Add {says}", key=f"blocks__empty_{kind}", type=look, **allowed(BlockAdded)):
                chosen = kind
    return partial(add_dialog, view.memory.session_id, chosen) if chosen is not None else None


def _head(view: View, standings: Sequence[Standing], order: CutOrder, priorities: Mapping[str, int]) -> Drawer | None:
    """Draw the cutting order and the buttons to change it or to add a block."""
    session_id = view.memory.session_id
    kinds = {shown.name: shown.kind for shown in standings}
    off = [shown.name for shown in standings if not shown.enabled]
    with st.container(
        horizontal=True, horizontal_alignment="distribute", vertical_alignment="center", key="blocks__head"
    ):
        st.markdown(
            strip(order, priorities, kinds, mode(), off),
            width="stretch",
            help="The numbers are priorities (`priority`): 0 is never cut. `truncation_order` says whether large or "
            "small ones are cut first. Facts above their share of a prompt (`prompt_share`) are cut before all else.",
        )
        if view.read_only:
            return None
        with st.container(horizontal=True, width="content", gap="small"):
            ordering = st.button(
                "Change order", key="blocks__order", icon=":material/format_list_numbered:", **allowed(BlocksOrdered)
            )
            adding = st.button(
                "Add block", key="blocks__add", icon=":material/add:", type="primary", **allowed(BlockAdded)
            )
    if ordering:
        return partial(order_dialog, session_id)
    return partial(add_dialog, session_id) if adding else None


def _card(view: View, card: Card, shown: Standing) -> Drawer | None:
    with st.container(border=True, height="stretch", gap="small", key=f"blocks__card_{card.name}"):
        with st.container(horizontal=True, horizontal_alignment="distribute", gap="small"):
            title = f"{square(card.kind, mode())}\N{NO-BREAK SPACE}{plain(short(card.name))}"
            sort = kind_of(card.kind).label
            beside = f"  :small[:gray[{sort}]]" if sort.lower() != card.name.lower() else ""
            heading(title, beside, width="stretch")
            st.markdown(card.size, width="content")
        _holds(view, card, shown)
        with st.container(gap="xxsmall"):
            st.markdown(f":small[:gray[{card.lines}]]")
            rewriting_now = (
                rewriting(view.memory.session_id, card.name) if card.kind == "summary" and not view.past else None
            )
            if rewriting_now:
                st.markdown(f":small[{rewriting_now}]")
            for line in card.states:
                st.markdown(f":small[{_TONES[line.tone].format(f':material/{line.icon}: {line.says}')}]")
        if card.kind == "facts" and shown.made_here and shown.enabled and not view.past:
            effect = view.memory.facts.desk(card.name).limit_effect()
            draw_limit(view.memory, card.name, effect, key=f"blocks_{card.name}", changeable=not view.read_only)
        # An empty row of buttons would still take its gap.
        if view.read_only and kind_of(card.kind).page is None and not _shows_versions(view, card):
            return None
        with st.container(horizontal=True, gap="small"):
            return _actions(view, card, shown)


def _holds(view: View, card: Card, shown: Standing) -> None:
    """Draw a block's contents; those missing in the prompt shown are struck through, as a whole or piece by piece."""
    past = next((block for block in view.history.blocks_at(view.position) if block.name == card.name), None)
    without = view.effects.without(card.name)
    whole = view.effects.of_text(past) if past is not None and past.kind in WITH_TEXT else None
    whole = whole or next((effect for effect in without if effect.stage.rule in AWAY), None)
    if card.kind == "summary" and shown.text:  # sentences that the prompt's older version had too count as sent
        between = " "
        held = [(sentence, view.effects.of(ref) or whole) for sentence, ref in shown_sentences(shown.text)]
    else:
        between, held = "  \n", [(line, whole) for line in card.holds.splitlines() if line.strip()]
    if marked := [effect for _, effect in held if effect is not None and not effect.shown]:
        st.markdown(between.join(struck(sentence, effect) for sentence, effect in held), help=plain(reason(marked[0])))
    else:
        st.text(card.holds)
    pieces = [effect for effect in without if effect.stage.rule not in AWAY]
    if pieces and (whole is None or whole.shown):
        with st.container(gap="xxsmall"):
            st.markdown(f":small[:gray[Not in this prompt: {tokens(len(pieces))}]]")
            draw_without(pieces, partial(view.memory.trace.words, upto=view.position), most=PIECES)


def _actions(view: View, card: Card, shown: Standing) -> Drawer | None:
    session_id, name = view.memory.session_id, card.name
    page = kind_of(card.kind).page
    if page is not None and st.button("Open", key=f"blocks__open_{name}"):
        nav.go(page)
    if _shows_versions(view, card) and st.button("History", key=f"blocks__history_{name}"):
        return partial(history_dialog, session_id, name)
    if view.read_only:
        return None
    editing = card.kind in WITH_TEXT and st.button("Edit", key=f"blocks__edit_{name}")
    if card.waiting:
        here = (
            "rules"
            if view.memory.session.services.extractor.offline
            else short(view.memory.session.services.extractor.name)
        )
        st.button(
            "Try now" if card.waits_for is None else f"Learn with {plain(here)} instead",
            key=f"blocks__try_{name}",
            icon=":material/refresh:",
            disabled=view.running is not None,
            on_click=_deliver,
            args=(session_id, name),
            help=card.waits_for and "For this block, until your program opens the session again.",
        )
    chosen = _menu(view, shown)
    return partial(edit_dialog, session_id, name) if editing else chosen


def _shows_versions(view: View, card: Card) -> bool:
    """Return whether a block of an attached session has versions to browse, from its store."""
    return view.attached and view.turn is None and card.kind in WITH_TEXT


def _menu(view: View, shown: Standing) -> Drawer | None:
    """Draw the menu of further actions on a block."""
    session_id, name = view.memory.session_id, shown.name
    configures = obstacle(BlockEdited) is None
    changes = {change.says: change for change in changes_for(shown.kind, shown.settings)} if configures else {}
    offered = ["History"] if shown.kind in WITH_TEXT else []
    if shown.kind == "summary":
        offered.append(REWRITE)
    if configures and settings_of(shown.kind, has_user=view.memory.session.user_id is not None):
        offered.append("Settings")
    offered += [*changes, *([] if obstacle(BlockRemoved) else ["Remove"])]
    if not offered:
        return None
    chosen = st.menu_button(
        "More",
        offered,
        key=f"blocks__menu_{name}",
        type="tertiary",
        icon=":material/more_horiz:",
        help=f"More for {plain(name)}",
    )
    drawers: dict[str, Drawer] = {
        "History": partial(history_dialog, session_id, name),
        REWRITE: partial(rewrite_dialog, session_id, name),
        "Settings": partial(settings_of_dialog, session_id, name),
        "Remove": partial(remove_dialog, session_id, name),
        **{says: partial(change_dialog, session_id, name, change) for says, change in changes.items()},
    }
    return drawers[chosen] if chosen is not None else None


@error_noticed
def _deliver(session_id: str, name: str) -> None:
    """Attempt a block's due and parked deliveries at once, with the learner of this app."""
    chosen = chosen_model()
    memory = engine().open(session_id, services_for(chosen))

    def work(job: Job) -> None:
        parked = [delivery.id for delivery in memory.session.deliveries(states=("parked",)) if delivery.block == name]
        # Deliveries that were given up are not tried until they are pending again.
        if parked:
            memory.session.retry(parked)
        memory.session.learn_here([name])

    # A new id each time: a job that has ended is not started again under its own.
    engine().start(session_id, f"retry-{uuid.uuid4().hex}", work, browser_model=chosen.pasted)
