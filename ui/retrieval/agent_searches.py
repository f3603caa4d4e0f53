"""An attached agent's searches, on Retrieval: the results of each, and those missing in the prompt that followed."""

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from memory_core.events import EventRecord, MemorySearched
from memory_core.history.stores import found_nothing, store_name
from memory_core.tracing.overlooked import OmittedResults
from memory_inspector.wording.event_sentences import NOT_CAPTURED
from memory_inspector.wording.formatting import count, plain, short, tokens
from ui.parts.components import empty, heading, more_line
from ui.parts.listing import pick_row
from ui.tab import nav
from ui.tab.view import View

SHOWN = 200
"""Maximum number of searches listed, the newest; each is compared with a prompt."""

RESULTS = 30

ROWS = 12

_PICKED = "reported__picked"


def draw(view: View) -> None:
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
        height="content" if len(searches) <= ROWS else 35 * (ROWS + 1),
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
