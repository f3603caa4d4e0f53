"""The toolkit of a list beside a panel: a table in which one row is picked."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from zlib import crc32

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

Id = TypeVar("Id")


def pick_row(
    rows: Any,
    ids: Sequence[Id],
    key: str,
    on_pick: Callable[[Id | None], None],
    *,
    picked: Id | None = None,
    slot: DeltaGenerator | None = None,
    **options: Any,
) -> None:
    """Draw a table in which one row at a time is picked. `ids`: of the items in its rows; `key` begins its widget key.

    `on_pick` is called with the id of the row that was clicked, or with None when the picked row was clicked again.
    `options` are those of `st.dataframe`.
    """
    # A row is picked by its number: other rows are another table, or the pick would move to another item.
    table = f"{key}_{crc32(repr(tuple(ids)).encode()):x}"

    def pick() -> None:
        chosen = st.session_state[table]["selection"]["rows"]
        # A click may come for a longer list than the one that is drawn now.
        on_pick(ids[chosen[0]] if chosen and chosen[0] < len(ids) else None)

    (slot or st).dataframe(
        rows,
        key=table,
        hide_index=True,
        on_select=pick,
        selection_mode="single-row",
        # A filter may hide the picked item: it stays picked, and no row is marked.
        selection_default={"selection": {"rows": [ids.index(picked)] if picked in ids else []}},
        **options,
    )
