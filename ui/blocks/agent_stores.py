"""An attached agent's stores, on Blocks: each record with what every write changed, and the searches that found it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import streamlit as st

from memory_core.history.stores import RecordVersion, Store, StoreRecord, stores_of
from memory_inspector.wording.event_sentences import NOT_CAPTURED
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.marked_text import diff_pieces, markdown
from ui.parts.components import empty, heading
from ui.parts.struck import greyed
from ui.tab import nav
from ui.tab.view import View

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


def draw(view: View) -> None:
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
