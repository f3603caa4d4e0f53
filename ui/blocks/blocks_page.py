"""The Blocks page of one session: a card for each block, their cutting order above, and an attached agent's stores."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import streamlit as st

from memory_core import Holding, Memory
from memory_core.blocks import WITH_TEXT
from memory_core.blocks.base import stored_item
from memory_core.events import BlockAdded, BlockEdited, BlockRemoved, BlocksOrdered, ContextBuilt, Ref
from memory_core.history.contexts import context_of
from memory_core.history.stores import RecordVersion, Store, StoreRecord, stores_of
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
from memory_inspector.wording.event_sentences import NOT_CAPTURED
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.marked_text import diff_pieces, markdown
from ui.blocks import recipe_section
from ui.blocks.block_settings import change_dialog, changes_for, order_dialog, settings_of_dialog
from ui.blocks.block_text import REWRITE, history_dialog, rewrite_dialog, rewriting
from ui.blocks.editor import add_dialog, edit_dialog, remove_dialog
from ui.parts.components import choose_view, empty, error_noticed, heading
from ui.parts.facts_limit import draw_limit
from ui.parts.struck import draw_without, greyed, reason, struck
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
        _agent_stores(view)
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


WRITES = 12
"""Maximum number of writes of a record that are drawn, the newest first."""

READS = 6
"""Maximum number of searches named below a record, the newest first."""

NAMED = 3
"""Maximum number of records named in a sentence."""

MAX_COMPARED = 20_000
"""Maximum characters of a record that is compared word by word; a longer one is shown whole."""

ROWS = 14

_TABLE = "stores__records"

_HOW = {"create": "created", "update": "updated", "upsert": "written"}

WordsOf = Callable[[str | None], str]
"""Function that returns the text stored under a hash, or a note such as `(erased)`."""


def _agent_stores(view: View) -> None:
    """Draw the records of the agent's memory, as its spans reported them up to this moment."""
    stores = stores_of(view.history.upto(view.position))
    if not stores:
        text = "Memory operations in an attached agent’s spans are listed here: see Connect your agent."
        empty("No memory operation was reported.", text, icon="view_agenda")
        return
    st.markdown(sentence(stores))
    store = _picked(stores)
    words = _words_of(view, store)
    _draw_notes(store)
    if not store.records:
        st.markdown("No records were reported. Searches are listed on the Retrieval page.")
        return
    record = _draw_records(store, words)
    if record is None:
        st.markdown(":small[:gray[Select a record to see its writes and the searches that found it.]]")
    else:
        _draw_record(record, words)


def sentence(stores: Mapping[str, Store]) -> str:
    """Return the number of records and searches, as markdown."""
    held = sum(len(store.held) for store in stores.values())
    searches = sum(len(store.searches) for store in stores.values())
    where = f"in {count(len(stores), 'store')}" if len(stores) > 1 else f"in {plain(next(iter(stores)))}"
    return (
        f"**{count(held, 'record')} {where}** and {count(searches, 'search')}, reported by the agent’s spans. "
        ":gray[Other operations are not known.]"
    )


def record_rows(records: Sequence[StoreRecord], words: WordsOf) -> list[dict[str, Any]]:
    """Return a row per record."""
    return [
        {
            "Record": short(record.id, 40) if record.id is not None else "(without an id)",
            "Words": short(" ".join(words(record.words).split()), 200),
            "Tokens": record.versions[-1].tokens if record.versions and record.words is not None else None,
            "Writes": len(record.versions),
            "Found": len(record.found),
            "State": _state(record),
        }
        for record in records
    ]


def _state(record: StoreRecord) -> str:
    if record.deleted is not None:
        return f"deleted in turn {tokens(record.deleted.turn)}"
    if record.last_write is None:
        return "only found: written before, or by others"
    return f"written in turn {tokens(record.last_write.turn)}"


def _picked(stores: Mapping[str, Store]) -> Store:
    if len(stores) == 1:
        return next(iter(stores.values()))
    name = st.segmented_control(
        "Store", list(stores), default=next(iter(stores)), format_func=lambda option: plain(short(option, 40)),
        required=True, key="stores__store", label_visibility="collapsed",
    )  # fmt: skip
    # The picked store may have vanished at an earlier turn.
    return stores.get(str(name)) or next(iter(stores.values()))


def _words_of(view: View, store: Store) -> WordsOf:
    keys = {version.words for record in store.records for version in record.versions}
    keys |= {record.found_words for record in store.records}
    keys |= {getattr(search.event, "query", None) for search in store.searches}
    # One query for the words of all records and searches.
    texts = view.memory.log.texts(key for key in keys if key is not None)
    return lambda key: f"({NOT_CAPTURED})" if key is None else texts.get(key, "(erased)")


def _draw_notes(store: Store) -> None:
    """Draw the number of records that were never found, and of questions that found nothing."""
    notes = []
    if store.deleted is not None:
        notes.append(f":orange[The store was deleted in turn {tokens(store.deleted.turn)}.]")
    if store.searches and store.never_found:
        ids = [plain(short(record.id)) for record in store.never_found if record.id is not None][:NAMED]
        which = f": {', '.join(ids)}{' …' * (len(store.never_found) > len(ids))}" if ids else ""
        notes.append(f"**{count(len(store.never_found), 'record')}** never found by a search{which}.")
    if store.unanswered:
        notes.append(f"**{count(len(store.unanswered), 'question')}** found nothing.")
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(" ".join(notes) or "Every record was found by a search.", width="content")
        nav.link("retrieval", ":small[Its searches]", icon=":material/manage_search:")


def _draw_records(store: Store, words: WordsOf) -> StoreRecord | None:
    rows = record_rows(store.records, words)
    gone = [place for place, record in enumerate(store.records) if record.deleted is not None]
    chosen: Any = st.dataframe(
        greyed(rows, gone, "Record", "Words", "State"),
        hide_index=True,
        # Rows are 35 pixels high; one more for the header.
        height="content" if len(rows) <= ROWS else 35 * (ROWS + 1),
        column_config={
            "Record": st.column_config.TextColumn(width=150),
            "Words": st.column_config.TextColumn(width="large"),
            "Tokens": st.column_config.NumberColumn(width=60, format="localized"),
            "Writes": st.column_config.NumberColumn(width=60, format="localized"),
            "Found": st.column_config.NumberColumn(width=60, help="Number of searches that returned the record."),
            "State": st.column_config.TextColumn(width=150),
        },
        placeholder="–",
        key=_TABLE,
        on_select="rerun",
        selection_mode="single-row",
        alt="Records of the store",
    )
    picked = chosen["selection"]["rows"]
    # The selection may be left over from a longer table.
    return store.records[picked[0]] if picked and picked[0] < len(store.records) else None


def _draw_record(record: StoreRecord, words: WordsOf) -> None:
    with st.container(border=True, gap="small", key="stores__record"):
        heading(plain(short(record.id or "A record without an id", 80)))
        # Numbered from the first write, drawn from the last.
        writes = list(enumerate(record.versions, start=1))[::-1]
        for number, version in writes[:WRITES]:
            before = record.versions[number - 2] if number > 1 else None
            _draw_write(number, version, before, words)
        if len(writes) > WRITES:
            st.markdown(f":small[:gray[and {count(len(writes) - WRITES, 'write')} before them]]")
        if not writes:
            st.text(words(record.found_words))
        _draw_reads(record, words)
        # Erased words cannot be followed.
        if record.words is not None and (text := words(record.words)) != "(erased)":
            nav.follow_link(" ".join(text.split()), ":small[Where did it go?]")


def _draw_write(number: int, version: RecordVersion, before: RecordVersion | None, words: WordsOf) -> None:
    how, size = _HOW.get(version.how, "written"), count(version.tokens, "token") if version.words else NOT_CAPTURED
    with st.container(gap=None):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            turn = tokens(version.record.turn)
            st.markdown(f":small[**Write {number}** :gray[{how} in turn {turn}, {size}]]", width="content")
            nav.link(
                "timeline", ":small[Event]", icon=":material/timeline:", turn=version.record.turn or None,
                **{nav.EVENT: str(version.record.position)},
            )  # fmt: skip
        st.markdown(difference(words(before.words) if before is not None else None, words(version.words)))


def difference(before: str | None, after: str) -> str:
    """Return the change of a write, word by word, as markdown; the whole text where there is nothing to compare."""
    if before is None or max(len(before), len(after)) > MAX_COMPARED:
        return plain(short(after, MAX_COMPARED))
    return markdown(diff_pieces(before, after))


def _draw_reads(record: StoreRecord, words: WordsOf) -> None:
    if not record.found:
        st.markdown(":small[:gray[No search returned it.]]")
        return
    searches = record.found[::-1]
    sentences = [
        f":gray[turn {tokens(search.turn)}] “{plain(short(words(getattr(search.event, 'query', None)), 80))}”"
        for search in searches[:READS]
    ]
    sentences += [f"and {tokens(len(searches) - READS)} before them"] if len(searches) > READS else []
    lines = "  \n".join([f"**Found by {count(len(searches), 'search')}**", *sentences])
    st.markdown(f":small[{lines}]")
