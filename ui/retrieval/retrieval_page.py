"""The Retrieval page: try a question on the stored turns of one block, follow them from stored to granted,
and list an attached agent's searches with what was missing in the prompt that followed."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from memory_core import Memory, MessageStatus, list_sessions
from memory_core.events import EventRecord, MemorySearched
from memory_core.history.stores import found_nothing, store_name
from memory_core.messages import MessageRole, message_text
from memory_core.retrieval.explain import Elsewhere, Search
from memory_core.retrieval.ranked import Ranked
from memory_core.text import capitalised
from memory_core.tracing.overlooked import OmittedResults
from memory_core.tracing.rule_words import SEARCH
from memory_inspector.reading.search_rows import (
    ADDED,
    ROWS,
    boosts_shown,
    degraded,
    headline,
    holding,
    missed,
    rows,
    stages,
    within,
    without_effect,
)
from memory_inspector.server.jobs import Job
from memory_inspector.wording.block_kinds import TURN, from_turn, stored, stored_plural, unit_of
from memory_inspector.wording.event_sentences import NOT_CAPTURED
from memory_inspector.wording.formatting import count, plain, plural, session_name, short, tokens
from ui.parts import toasts
from ui.parts.components import empty, filled_rows, heading, more_line, unseen_heading
from ui.parts.listing import pick_row
from ui.parts.overlooked import draw_overlooked
from ui.parts.struck import greyed
from ui.retrieval import tried_search
from ui.retrieval.detail import draw_detail
from ui.tab import nav, state
from ui.tab.services import engine
from ui.tab.view import View

BOOST_PIXELS = {"neighbours": 92, "episode": 104, "speaker": 72, "date": 56, "informativeness": 92, "length": 66}
"""Width in pixels of each term's column, which its title needs."""

FIXED = {
    "Turn": st.column_config.NumberColumn(
        format="%d", width=52, pinned=True, help="Turn of the conversation it is from; 0: before the first."
    ),
    "Score": st.column_config.NumberColumn(
        format="%.2f",
        width=66,
        pinned=True,
        help="How well it fits the question (similarity): the match and what is added.",
    ),
    "Text": st.column_config.TextColumn(width=470),
    "Outcome": st.column_config.TextColumn(width=140),
}
"""Columns that are always shown. Pinned ones keep their width, so that the text gets most of the remaining space; more
pinned ones would leave none on a phone."""
SEARCHES = {
    "Vector": ("%.2f", 70, "Nearness in meaning (cosine similarity)."),
    "Keyword": ("%.2f", 80, "Shared words, rare ones most (BM25)."),
}
BOOSTS = {
    "Match": ("%.2f", 66, "How well the text itself fits the question: weighted mean of vector and keyword scores."),
    **{signal.label: ("%+.2f", BOOST_PIXELS[term], signal.means) for term, signal in ADDED.items()},
}
"""Columns for the terms of a score, by title: number format, width in pixels, help text."""
STAGE = "retrieval__stage"
"""Widget key of the stage that filters the list."""
ELSEWHERE_SHOWN = 8
"""Maximum number of results listed from other sessions, the best."""
WORDS_SHOWN = 220
EACH_TERM = "retrieval__each_term"
"""Widget key of the toggle that shows each term of a score in its own column."""

BESIDE_PIXELS, LOW_PIXELS = 520, 332
"""Pixels around the table, and its minimum height in a low window: nine rows."""
DETAIL_PIXELS, LOW_BESIDE_DETAIL = 300, 232
"""Pixels around the table, and its minimum height, while a row is selected: the beginning of its details is visible."""


def draw(view: View) -> None:
    """Draw the page, live or at an earlier moment."""
    names = view.blocks_of("vector")
    # An attached agent searches a memory of its own, of which only its reports are known.
    if view.attached and not names:
        _agent_searches(view)
        return
    if not names:
        empty(
            "No block stores earlier turns.",
            "Turns that leave the queue can be stored and found again by the question. Add a block for them.",
            icon="manage_search",
        )
        nav.link("blocks", "Add a block", icon=":material/view_agenda:")
        return
    name = _picked(view, names)
    unit = _unit(view, name)
    if view.past:
        _draw_past(view, name, unit)
    else:
        _draw_live(view, name, unit)
    draw_overlooked(view, searches_only=True)


def _unit(view: View, name: str) -> str:
    """Return the noun for one item that the block stores at the moment shown: turn, message or batch."""
    blocks = view.history.blocks_at(view.position) if view.past else view.memory.blocks
    return next((unit_of(block.settings) for block in blocks if block.name == name), TURN)


def _picked(view: View, names: list[str]) -> str:
    """The block to search; a picker is drawn only if there are several."""
    session_id = view.memory.session_id
    asked_block = tried_search.asked(session_id).block
    # The block that was picked may be removed, or not be there yet at an earlier moment.
    name = asked_block if asked_block in names else names[0]
    if len(names) > 1:
        chosen = st.segmented_control(
            "Block", names, default=name, format_func=lambda option: plain(short(option)), required=True
        )
        name = chosen if chosen is not None else name
        if name != asked_block:
            # Numbers of stored units are of one block.
            tried_search.ask(session_id, block=name, number=None)
    return name


# -- now -------------------------------------------------------------------------------------------


def _draw_live(view: View, name: str, unit: str) -> None:
    memory, session_id = view.memory, view.memory.session_id
    # 1. The question: a link first, since it fills the box that is drawn next.
    tried_search.take_link(session_id)
    top = st.container()
    offline = memory.session.services.embedder.offline
    query = _search_box(view, offline)
    tried_search.write_link(session_id)
    # 2. Where a search costs a call, none is made by merely opening the page.
    if not offline and not tried_search.asked(session_id).sent:
        top.markdown("What would this question find? **Search** makes one embedding call to answer.")
        return
    block = next(attached for attached in memory.blocks if attached.name == name)
    # 3. Search with the trial settings; meanwhile the line above the box shows the progress.
    tried = tried_search.tried(session_id, block)
    line = top.empty()
    line.markdown(f":shimmer[Searching the {stored_plural(unit)}]")
    search = tried_search.searched(memory, view.status.position, name, query, tried)
    if not search.stored:
        line.empty()
        _nothing_stored(view, unit)
        _draw_other_sessions(search, unit)
        return
    # 4. What was found, what it lacks, and what is in the user's other sessions.
    line.markdown(
        headline(search, unit=unit) + _also_found(search)
        if query
        else f"**{stored(search.stored, unit)}.** Ask a question to search them."
    )
    _warn(search)
    draw_others(session_id, search, unit, offline=offline, may_embed=not view.read_only)
    if not _draw_found(view, search, unit):
        st.markdown(
            f":small[:gray[Select a row to see the whole {unit}, why it ended there, and what would change that.]]"
        )
    _draw_other_sessions(search, unit)
    # 5. The same question under the stored settings, to say what the tried ones change.
    before = tried_search.searched(memory, view.status.position, name, query, {}) if tried else search
    tried_search.draw_settings(view, block, before, search, unit)


def _search_box(view: View, offline: bool) -> str:
    session_id = view.memory.session_id
    query = tried_search.asked(session_id).query or _latest_question(view.memory)
    tried_search.fill_box(session_id, query)
    with (
        st.form("retrieval__form", border=False, enter_to_submit=True),
        st.container(horizontal=True, vertical_alignment="center", gap="small"),
    ):
        st.text_input(
            "Question",
            key=tried_search.BOX,
            placeholder="What would the agent be asked?",
            label_visibility="collapsed",
            width="stretch",
        )
        st.form_submit_button("Search", type="primary", on_click=tried_search.search_now, args=(session_id,))
        costs = "Uses no model call, changes nothing" if offline else "Makes one embedding call, changes nothing"
        st.markdown(f":small[:gray[{costs}]]", width="content")
    return query


def _latest_question(memory: Memory) -> str:
    """The user's latest question, so that the page shows results at once."""
    # A dozen messages reach back to the last user's, even if tools have answered in between.
    messages = [
        stored.message for stored in memory.session.messages(last=12) if stored.message.role is MessageRole.USER
    ]
    return message_text(messages[-1]).strip() if messages else ""


def _nothing_stored(view: View, unit: str) -> None:
    status = view.status
    if status.in_transit_messages:
        # A delivery is on its way: the next drawing may find something.
        more = f"{count(status.in_transit_messages, 'message')} left the queue and will be stored soon."
    else:
        more = f"The queue has room for {count(status.to_next_flush, 'token')} before the oldest leave."
    empty(
        "Nothing is stored yet.",
        f"{capitalised(plural(unit))} are stored when they leave the queue. {more}",
        icon="manage_search",
    )


def _warn(search: Search) -> None:
    reason = degraded(search)
    if reason is not None:
        kind, sentence = reason
        {"warning": st.warning, "error": st.error}[kind](sentence)


# -- the past --------------------------------------------------------------------------------------


def _draw_past(view: View, name: str, unit: str) -> None:
    turn = view.shown_turn
    searches = view.memory.retrieval.recorded(turn, name, upto=view.position)
    if not searches:
        by_then = " up to this step" if view.step is not None else ""
        empty(
            f"Nothing was searched in turn {tokens(turn)}{by_then}.",
            "A search is recorded whenever a prompt is built, once this block has stored something. "
            "Questions can be tried on the latest turn.",
            icon="manage_search",
        )
        return
    place = _recorded_place(view.memory.session_id, turn, len(searches))
    search = searches[place]
    st.markdown(headline(search, past=True, unit=unit) + _also_found(search))
    st.text(search.query if search.query is not None else "(The question was erased.)")
    notes = ["Recorded search. Questions can be tried on the latest turn."]
    # The log keeps the best candidates only, or each prompt would record the whole store.
    if search.candidates > len(search.found):
        notes.append(f"The best {tokens(len(search.found))} are listed; of the rest only the counts were recorded.")
    st.markdown(f":small[:gray[{' '.join(notes)}]]")
    _warn(search)
    _draw_found(view, search, unit)
    _draw_other_sessions(search, unit)


def _recorded_place(session_id: str, turn: int, searches: int) -> int:
    """Index of the recorded search shown; a picker is drawn only if there are several."""
    shown = tried_search.asked(session_id).place
    # A place that was picked counts for its own turn; elsewhere the last search is the one behind the prompt.
    place = min(shown[1], searches - 1) if shown is not None and shown[0] == turn else searches - 1
    if searches == 1:
        return 0
    chosen = st.selectbox(
        "Searches of this turn",
        range(searches),
        index=place,
        format_func=lambda number: f"Search {tokens(number + 1)} of {tokens(searches)} in turn {tokens(turn)}",
        label_visibility="collapsed",
        width=230,
    )
    if chosen != place:
        tried_search.ask(session_id, place=(turn, chosen))
    return chosen


# -- the funnel and the list -------------------------------------------------------------------------


def _draw_found(view: View, search: Search, unit: str) -> bool:
    """Draw the funnel, the list, and the details of the selected turn; turns looked up by words come first."""
    labels, session_id = stages(search), view.memory.session_id
    if st.session_state.get(STAGE) not in labels:  # a stage that this search does not have
        st.session_state[STAGE] = "candidates"
    unseen_heading("Search results")
    stage = st.segmented_control(
        "Stage",
        list(labels),
        key=STAGE,
        format_func=lambda value: labels.get(value, value),
        required=True,
        label_visibility="collapsed",
        width="content",
    )
    words, each_term = "", False
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        if not view.past:
            words = st.text_input(
                "Did it miss something?",
                key=tried_search.MISSED,
                placeholder="Did it miss something? Type words that should have been found",
                icon=":material/search:",
                label_visibility="collapsed",
                width="stretch",
            ).strip()
        if search.weights is not None or boosts_shown(search):
            each_term = st.toggle(
                "Score details", key=EACH_TERM, help="The components of each score, each in its own column."
            )
    # Sought words overrule the stage: they are looked for among all candidates.
    candidates = within(search, stage or "candidates")
    if words:
        candidates = holding(search, words)
        st.markdown(f":small[{missed(candidates, words, search, unit=unit)}]")
        if not candidates:
            _elsewhere(view, words, unit)
    picked = tried_search.asked(session_id).number
    if words and candidates and picked not in candidates.numbers:
        picked = candidates[0].number  # details are about the turn that was looked up
    # A recorded search may not hold the unit that is selected now.
    selected = picked is not None and (not view.past or search.one(picked) is not None)
    if words and candidates and picked is not None:
        # Above the list, because the words ask about this one unit.
        draw_detail(view, search, picked, unit, sought=words)
    _draw_list(session_id, search, candidates, unit, picked, sought=words, each_term=each_term)
    if picked is not None and selected and not (words and candidates):
        draw_detail(view, search, picked, unit)
    return selected


def _elsewhere(view: View, words: str, unit: str) -> None:
    """Show where the words occur if no stored turn contains them."""
    message = tried_search.said_elsewhere(view.memory, view.status.position, words)
    if message is None:
        st.markdown(":small[:gray[No message in this session contains it.]]")
        return
    who = capitalised(from_turn(unit, message.turn, "a"))
    if message.status is MessageStatus.ACTIVE:
        st.markdown(f":small[{who} contains it and is still in the queue, so the prompt has it.]")
    else:
        st.markdown(f":small[{who} contains it and left the queue, but is not stored here.]")


def _draw_list(
    session_id: str,
    search: Search,
    ranked: Ranked,
    unit: str,
    picked: int | None,
    *,
    sought: str,
    each_term: bool,
) -> None:
    if not ranked:
        if not sought:
            st.markdown(f":small[:gray[No stored {unit} is at this stage.]]")
        return
    page = 0
    if len(ranked) > ROWS:
        # Division rounded up.
        pages = -(-len(ranked) // ROWS)
        page = (st.pagination(pages, key="retrieval__pages") or 1) - 1
        st.markdown(
            f":small[:gray[{tokens(page * ROWS + 1)} to {tokens(min(len(ranked), (page + 1) * ROWS))} "
            f"of {tokens(len(ranked))}, best first]]"
        )
    part = ranked[page * ROWS : (page + 1) * ROWS]
    beside = BESIDE_PIXELS + DETAIL_PIXELS * (picked is not None)
    # With a row selected, the table gives room to its details.
    least = LOW_PIXELS if picked is None else LOW_BESIDE_DETAIL
    pick_row(
        greyed(rows(part, search, each_term=each_term, sought=sought), without_effect(part, search), "Outcome", "Text"),
        [one.number for one in part],
        "retrieval__rows",
        lambda number: tried_search.ask(session_id, number=number),
        picked=picked,
        column_config=_columns(),
        slot=filled_rows("retrieval__rows", len(part), minus=beside, least=least),
        height="stretch",
        alt=f"{capitalised(stored_plural(unit))}, best first, with their scores and what became of them",
    )


def _columns() -> dict[str, Any]:
    numbers = {
        title: st.column_config.NumberColumn(format=form, width=width, help=says)
        for title, (form, width, says) in {**SEARCHES, **BOOSTS}.items()
    }
    return {**FIXED, **numbers}


# -- results in the user's other sessions ----------------------------------------------------------


def _also_found(search: Search) -> str:
    """Return the headline's part about results from other sessions; empty if there are none."""
    return f" **{tokens(len(search.elsewhere))} from other sessions.**" if search.elsewhere else ""


def _draw_other_sessions(search: Search, unit: str) -> None:
    """Draw the best results from other sessions; nothing if there are none."""
    units = search.elsewhere
    if not units:
        return
    sent = sum(other.outcome == "granted" for other in units)
    heading("From other sessions", f" :small[:gray[{tokens(sent)} of {stored(len(units), unit)} in the prompt]]")
    # What was found is kept in the prompt by its text: the session it came from may be gone.
    titles = {other.session_id: other.title for other in list_sessions(engine().database)}
    with st.container(gap="xsmall", key="retrieval__elsewhere"):
        for other in units[:ELSEWHERE_SHOWN]:
            _draw_other(other, titles)
    more_line(len(units) - ELSEWHERE_SHOWN)


def _draw_other(unit: Elsewhere, titles: dict[str, str]) -> None:
    st.markdown(plain(short(" ".join(unit.words.split()), WORDS_SHOWN) or "(erased)"))
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        turn = f"Turn {tokens(unit.turn)}"
        if unit.session_id in titles:
            title = session_name(titles[unit.session_id], unit.session_id)
            label = f":small[{turn} of {plain(short(title, 40))}]"
            nav.link("chat", label, icon="", turn=unit.turn, **{state.SESSION: unit.session_id})
        else:
            st.markdown(f":small[:gray[{turn} of a session that has been deleted since]]", width="content")
        st.markdown(f":small[:gray[score {unit.score:.2f} · {plain(SEARCH[unit.outcome].label())}]]", width="content")


# -- stored turns without a vector of the current embedding model ---------------------------------


FOLLOW_SECONDS = 0.5
"""Interval, in seconds, between progress updates; shorter work is waited for."""


def draw_others(session_id: str, search: Search, unit: str, *, offline: bool, may_embed: bool) -> None:
    """Warn about stored units that can be found by keyword only, and draw the button that re-embeds them."""
    # 1. Somebody embeds them already, in whichever tab.
    if engine().running(_key(session_id, search.block)) is not None:
        st.fragment(_follow, run_every=FOLLOW_SECONDS)(session_id, search.block, unit)
    # 2. Words are stored first, and their vectors follow: no reason to warn.
    elif engine().open(session_id).retrieval.vectors_pending(search.block):
        st.fragment(_coming, run_every=FOLLOW_SECONDS)(session_id, search.block, unit)
    # 3. Only a person can decide this, as it may cost something.
    elif search.other_embedder:
        costs = "" if offline or not may_embed else " Embedding them again calls the embedding model."
        st.warning(
            f"{stored(search.other_embedder, unit)} can be found by keyword only: no vector from the current "
            f"embedding model.{costs}"
        )
        if may_embed:
            args = (session_id, search.block, unit)
            st.button("Embed them again", key="retrieval__embed", on_click=_embed, args=args)


def _key(session_id: str, block: str) -> str:
    """Key of the job, separate from the session's own job so that chatting can continue meanwhile."""
    return f"embed/{session_id}/{block}"


def _embed(session_id: str, block: str, unit: str) -> None:
    shared = engine()

    def work(job: Job) -> None:
        def describe(done: int, of: int) -> None:
            job.add_progress(f"Embedding again: {tokens(done)} of {stored(of, unit)}")

        job.add_text(str(shared.open(session_id).retrieval.reembed(block, progress=describe)))

    job = shared.start(_key(session_id, block), f"embed-{uuid.uuid4().hex}", work)
    # Reported here, because no fragment follows a job that has ended already.
    if job.wait(FOLLOW_SECONDS):
        _tell(job, unit)


def _follow(session_id: str, block: str, unit: str) -> None:
    job = engine().job(_key(session_id, block))
    if job is None or job.done:
        if job is not None:
            _tell(job, unit)
        st.rerun()
    lines = job.progress
    st.markdown(f":shimmer[{plain(lines[-1] if lines else 'Embedding again')}]")


def _coming(session_id: str, block: str, unit: str) -> None:
    """Show the number of units that wait for their vectors, while they are being embedded."""
    memory = engine().open(session_id)
    if not memory.retrieval.vectors_pending(block):
        st.rerun()
    remaining = memory.retrieval.under_other_embedders(block)
    st.markdown(f":shimmer[{stored(remaining, unit)} can be found by keyword only so far: vectors follow]")


def _tell(job: Job, unit: str) -> None:
    if job.error is not None:
        state.say("error", f"Not all were embedded: {job.error}")
    else:
        toasts.done(f"Embedded {stored(int(job.text or 0), unit)} again.")


SHOWN = 200
"""Maximum number of searches listed, the newest; each is compared with a prompt."""

RESULTS = 30

LISTED_SEARCHES = 12
"""Number of listed searches that are drawn without a scroll bar."""

_PICKED = "reported__picked"


def _agent_searches(view: View) -> None:
    """Draw the searches that the agent's spans report up to this moment."""
    records = view.history.upto(view.position)
    every = [record for record in records if isinstance(record.event, MemorySearched)]
    if not every:
        text = "Memory searches in an attached agent’s spans are listed here."
        empty("No search was reported.", text, icon="manage_search")
        return
    # The newest, and these first; the sentence above the table counts all.
    searches = every[-SHOWN:][::-1]
    omitted = view.memory.trace.omitted_results(searches, upto=view.position)
    st.markdown(sentence(every, searches, omitted))
    # One query for questions and results of all rows. What was not captured has no key.
    texts = view.memory.log.texts(
        key
        for search in searches
        if isinstance(search.event, MemorySearched)
        for key in (search.event.query, *(key for _, key, _, _ in search.event.results))
        if key is not None
    )
    # A new search moves the rows: the table then begins without a selection, and what was picked stays.
    pick_row(
        search_rows(searches, omitted, texts),
        [search.position for search in searches],
        "reported__searches",
        _pick,
        height="content" if len(searches) <= LISTED_SEARCHES else 35 * (LISTED_SEARCHES + 1),
        column_config={
            "Turn": st.column_config.NumberColumn(width=52, format="localized"),
            "Store": st.column_config.TextColumn(width=120),
            "Question": st.column_config.TextColumn(width="large"),
            "Found": st.column_config.NumberColumn(width=60, format="localized"),
            "Best": st.column_config.NumberColumn(width=60, format="%.2f", help="Highest score."),
            "Not in the prompt": st.column_config.TextColumn(
                width=170, help="Results whose words are not in the prompt that followed."
            ),
        },
        placeholder="–",
        alt="Searches, the newest first",
    )
    # Found by its position in the log, which stays the same when new rows come.
    picked = next((search for search in searches if search.position == st.session_state.get(_PICKED)), None)
    if picked is not None:
        _draw_search(picked, omitted, texts)
    else:
        st.markdown(":small[:gray[Select a search to see its results.]]")


def _pick(position: int | None) -> None:
    st.session_state[_PICKED] = position


def sentence(every: Sequence[EventRecord], listed: Sequence[EventRecord], omitted: Mapping[int, OmittedResults]) -> str:
    """Return the numbers of searches, of those without results, and of results not in the prompt, as markdown."""
    nothing = sum(found_nothing(search.event) for search in every)
    missing = sum(len(results.missing) for results in omitted.values())
    among = "" if len(listed) == len(every) else f" of the last {tokens(len(listed))}"
    parts = [f"**{count(len(every), 'search')}**, reported by the agent’s spans."]
    if nothing:
        parts.append(f"{count(nothing, 'question')} found nothing.")
    if missing:
        is_not = "is not" if missing == 1 else "are not"
        parts.append(f":red[{count(missing, 'record')} found{among} {is_not} in the prompt that followed.]")
    return " ".join(parts)


def search_rows(
    searches: Sequence[EventRecord], omitted: Mapping[int, OmittedResults], texts: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return a row per search."""
    rows = []
    for search in searches:
        event: Any = search.event
        missing = omitted.get(search.position)
        rows.append(
            {
                "Turn": search.turn or None,
                "Store": short(store_name(event), 40),
                "Question": short(_words(event.query, texts), 200),
                "Found": event.count,
                "Best": event.best,
                "Not in the prompt": _missing(missing) if missing is not None else "",
            }
        )
    return rows


def _missing(missing: OmittedResults) -> str:
    event: Any = missing.search.event
    return f"{tokens(len(missing.missing))} of {tokens(len(event.results))}, turn {tokens(missing.prompt.turn)}"


def _words(key: str | None, texts: Mapping[str, str]) -> str:
    return f"({NOT_CAPTURED})" if key is None else " ".join(texts.get(key, "(erased)").split())


def _draw_search(search: EventRecord, omitted: Mapping[int, OmittedResults], texts: Mapping[str, str]) -> None:
    event: Any = search.event
    missing = omitted.get(search.position)
    with st.container(border=True, gap="small", key="reported__search"):
        heading(f"“{plain(short(_words(event.query, texts), 120))}”")
        if event.error:
            st.markdown(f":orange[{plain(event.error)}]")
        # Agents report different parts of a result: its id, its score or its words may be missing.
        for place, (id, key, size, score) in enumerate(event.results[:RESULTS]):
            gone = missing is not None and place in missing.missing
            parts = [plain(short(id, 40))] if id is not None else []
            parts += [f"score {score:.2f}"] if score is not None else []
            parts += [count(size, "token")] if key is not None else []
            quoted = plain(short(_words(key, texts), 300))
            mark = ":red[:material/cancel: not in the prompt that followed]" if gone else ""
            st.markdown(f"{quoted}  \n:small[:gray[{', '.join(parts)}] {mark}]")
            # Followed by its words: records of an agent's own store have no id here. Erased words cannot be followed.
            if gone and key in texts:
                nav.follow_link(" ".join(texts[key].split()), ":small[Where did it go?]")
        if not event.results:
            # A span may give the number of results without the results.
            st.markdown("It found nothing." if event.count == 0 else f"Results not known: {NOT_CAPTURED}.")
        more_line(len(event.results) - RESULTS)
        if missing is not None:
            label = f":small[The prompt of turn {tokens(missing.prompt.turn)}]"
            nav.link("context", label, icon=":material/stacks:", turn=missing.prompt.turn)
