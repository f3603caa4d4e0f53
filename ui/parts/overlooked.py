"""The section Possibly lost at the end of Timeline and Retrieval; each row links to its trace."""

from collections.abc import Iterable

import streamlit as st

from memory_core.errors import NotFoundError
from memory_core.events import Ref, RefKind
from memory_core.text import told_apart
from memory_core.tracing.overlooked import EmptySearch, Overlooked
from memory_core.tracing.rule_words import SEARCH
from memory_inspector.wording.block_kinds import stored, unit_of
from memory_inspector.wording.formatting import count, plain, plural, short, tokens
from ui.parts.components import more_line
from ui.tab import nav
from ui.tab.view import View

SHOWN = 5
"""Maximum number of rows drawn of each kind; counts include all."""

LONGEST = 90


def draw_overlooked(view: View, *, searches_only: bool = False) -> None:
    """Draw the section Possibly lost, computed only while it is open; `searches_only`: without facts and relations."""
    # Finding these reads the whole log up to the moment: only for somebody who asks.
    opened = st.expander(
        "Possibly lost", key="overlooked", on_change="rerun", icon=":material/tips_and_updates:", type="compact"
    )
    if not opened.open:
        return
    overlooked = view.memory.trace.overlooked(upto=view.position)
    # A unit is what a vector block stores; Retrieval is about these alone.
    kinds: tuple[RefKind, ...] = ("unit",) if searches_only else ("fact", "unit", "relation")
    cut = [cut_item for cut_item in overlooked.cut if cut_item[0].kind in kinds]
    unused = {kind: overlooked.unused[kind] for kind in kinds if overlooked.unused[kind]}
    with opened:
        if not (overlooked.empty_searches or cut or unused or (overlooked.flipped and not searches_only)):
            st.markdown("Every search found something, everything kept was in a prompt, and nothing found was cut.")
            return
        _draw_searches(view, overlooked.empty_searches)
        for kind, refs in unused.items():
            _draw_unused(view, kind, refs, overlooked)
        if not searches_only and overlooked.flipped:
            _draw_rows(
                "Facts that went back and forth",
                "set aside and restored, or learned again",
                view,
                [(ref, f"{count(times, 'time')}") for ref, times in overlooked.flipped],
            )
        if cut:
            _draw_rows(
                "Found, but not in the prompt",
                "found for a prompt and cut from it",
                view,
                [(ref, f"cut from {tokens(gone)} of {count(asked, 'prompt')}") for ref, asked, gone in cut],
            )


def _draw_searches(view: View, searches: tuple[EmptySearch, ...]) -> None:
    if not searches:
        return
    _title("Questions that found nothing", f"{count(len(searches), 'search')}")
    # One query for the words of all rows that are shown.
    words = view.memory.log.texts(search.query for search in searches[:SHOWN])
    for search in searches[:SHOWN]:
        question = short(words.get(search.query, "(erased)"), LONGEST)
        label = f":small[Turn {tokens(search.turn)} “{plain(question)}”]"
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            if search.best is None:
                nav.link("retrieval", label, icon=":material/manage_search:", turn=search.turn)
            else:
                # the trace of the best candidate, which shows where it was lost
                nav.link("trace", label, icon=":material/route:", turn=search.turn, **nav.followed(search.best))
            st.markdown(f":small[:gray[{plain(_why_nothing(search))}]]", width="content")
    more_line(len(searches) - SHOWN)


def _why_nothing(search: EmptySearch) -> str:
    """Return in words what became of a search's candidates."""
    if search.score is None:
        return f"{search.block} had nothing stored for it."
    fates = ", ".join(SEARCH[outcome].counted(number) for outcome, number in search.outcomes.items())
    # The best was found and lost for another reason: the threshold does not explain it.
    if search.threshold is None or search.score >= search.threshold:
        return f"{fates}."
    # With enough digits that the two differ on screen.
    best, threshold = told_apart(search.score, search.threshold)
    return f"{fates}; the best scored {best}, the threshold is {threshold}."


def _draw_unused(view: View, kind: RefKind, refs: tuple[Ref, ...], overlooked: Overlooked) -> None:
    # `stored(2, …)` words a count; without its number it is the plural of what this block stores.
    noun = {"fact": "fact", "relation": "relation", "unit": stored(2, _unit(view)).split(" ", 1)[1]}[kind]
    nouns = noun if kind == "unit" else plural(noun)
    share = 100 * len(refs) / overlooked.kept[kind]
    about = f"{tokens(len(refs))} of {tokens(overlooked.kept[kind])} {nouns}, {share:.0f} %"
    _draw_rows(
        "Stored, but never recalled" if kind == "unit" else "Never in any prompt",
        about,
        view,
        [(ref, "") for ref in refs],
    )


def _draw_rows(title: str, about: str, view: View, rows: Iterable[tuple[Ref, str]]) -> None:
    _title(title, about)
    listed = list(rows)
    for ref, note in listed[:SHOWN]:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            nav.follow_link(ref, f":small[“{plain(short(_words(view, ref), LONGEST))}”]")
            if note:
                st.markdown(f":small[:gray[{note}]]", width="content")
    more_line(len(listed) - SHOWN)


def _title(title: str, about: str) -> None:
    st.markdown(f"**{title}** :small[:gray[{about}]]")


def _words(view: View, ref: Ref) -> str:
    try:
        return view.memory.trace.words_of(ref) or "(erased)"
    # A thing can be erased between the reading of the list and of its words.
    except NotFoundError:
        return "(erased)"


def _unit(view: View) -> str:
    blocks = [block for block in view.history.blocks_at(view.position) if block.kind == "vector"]
    return unit_of(blocks[0].settings) if blocks else "turn"
