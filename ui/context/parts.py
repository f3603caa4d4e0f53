"""The parts of a prompt, each in an expander whose contents are drawn only while it is open.

A click on a word, or a key, follows its sentence to where it came from: the sentence of one entry, as a copy of it in
another part of the prompt is a different carrier.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from memory_core.blocks import WITH_TEXT
from memory_core.events import Ref, is_target
from memory_core.history.prompt import PART_NAMES, PINNED, RESERVED, Difference, Entry, PartDiff, Prompt, PromptPart
from memory_core.messages import MessageRole, content_hash
from memory_core.planning.context_plan import QUEUE
from memory_core.tracing.effects import Effects
from memory_inspector.palette import Mode
from memory_inspector.wording import prompt_text
from memory_inspector.wording.block_kinds import kind_of
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.prompt_text import asked, cut_note, entry_note, entry_words, part_label, part_name, square
from ui.parts import probing
from ui.parts.components import more_line
from ui.parts.struck import WordsOf, draw_without, reason
from ui.tab import nav

PAGE = 20
"""Entries of a part drawn per page."""

NOT_SENT = 8
"""Maximum number of items listed that a block did not request; the rest is counted."""

PAGER_PIXELS = 300

ENTRY_CHARACTERS = 6_000
"""Characters of a text drawn initially."""


def draw_parts(
    session_id: str,
    sent: Prompt,
    mode: Mode,
    effects: Effects,
    words: WordsOf,
    *,
    read_only: bool,
) -> None:
    """Draw all parts, the queue first; those that were cut are expanded.

    `effects`: what is in this prompt and why the rest is not; `words`: returns the texts of items outside it.
    """
    for part in sent.parts:
        # Losses are what people look for, so these parts start expanded.
        lost = bool(part.left_out) or part.failure is not None
        opened = st.expander(part_label(part, mode), expanded=lost, key=_key(part, lost), on_change="rerun")
        if opened.open:
            with opened:
                _draw_part(sent, part, effects, read_only=read_only)
                _draw_not_sent(effects, part, words)
                # A probe looks for something of the block in the prompt.
                if part.kind not in PART_NAMES and part.granted:
                    probes = partial(probing.of_block, part.name, part.granted, sent.turn)
                    probing.draw(session_id, probes, f"context__{_short_hash(part)}")


def _key(part: PromptPart, lost: bool) -> str:
    """Key that stays the same from turn to turn, except for parts that were cut, which start expanded."""
    return f"context__part_{_short_hash(part)}{'_cut' * lost}"


def _short_hash(part: PromptPart) -> str:
    # Hex digits, because the key becomes part of a CSS class.
    return content_hash(f"{part.kind}/{part.name}")[:10]


def _draw_part(sent: Prompt, part: PromptPart, effects: Effects, *, read_only: bool) -> None:
    if part.failure is not None:
        st.error(plain(part.failure))
    if not part.entries:
        nothing = prompt_text.NOT_WRITTEN if part.kind == RESERVED else kind_of(part.kind).asks_nothing
        st.markdown(f":gray[{nothing}]")
        return
    entries = _page_of(part)
    with st.container(gap="xsmall"):
        for entry in entries:
            if entry.ref.kind in _OPENED:
                _draw_opened(part, entry, effects, read_only=read_only)
            elif entry.cut:
                _draw_struck(part, entry)
                _follow(entry, effects)
            else:
                _draw_entry(part, entry)
    if part.kind == "vector":
        nav.link("retrieval", ":small[See what was searched]", icon=":material/manage_search:", query=asked(sent))
    elif part.kind in WITH_TEXT:
        nav.link("blocks", f":small[{'Open' if read_only else 'Edit'} in Blocks]", icon=":material/view_agenda:")


def _follow(entry: Entry, effects: Effects) -> None:
    nav.follow_link(entry.ref, help=plain(reason(effects.of(entry.ref))) or None)


def _draw_not_sent(effects: Effects, part: PromptPart, words: WordsOf) -> None:
    """Draw items that the block holds, or its search found, but did not request; cut items are among the entries."""
    not_sent = [effect for effect in effects.without(part.name) if effect.stage.name == "found"]
    if not_sent:
        title = "Found, not sent" if part.kind == "vector" else "Kept, not sent"
        with st.container(gap="xxsmall"):
            st.markdown(f":small[:gray[{title}: {tokens(len(not_sent))}]]")
            draw_without(not_sent, words, most=NOT_SENT)


def _page_of(part: PromptPart) -> Sequence[Entry]:
    """The entries of one page: cut ones first, then those that were included."""
    # Cut entries are what people look for, and could be on a later page otherwise.
    entries = [*part.left_out, *part.included]
    if len(entries) <= PAGE:
        return entries
    # Rounded up: the last page may be short.
    pages = -(-len(entries) // PAGE)
    with st.container(horizontal=True, vertical_alignment="center"):
        slot = st.container(width="content")
        key = f"context__pages_{_short_hash(part)}_{pages}"
        number = st.pagination(pages, key=key, max_visible_pages=5, width=PAGER_PIXELS)
        first = (number - 1) * PAGE
        slot.markdown(
            f":small[:gray[{tokens(first + 1)} to {tokens(min(first + PAGE, len(entries)))} of {tokens(len(entries))}]]"
        )
    return entries[first : first + PAGE]


def _draw_entry(part: PromptPart, entry: Entry) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if part.kind in (QUEUE, PINNED, "vector"):
            st.markdown(f":small[:gray[{entry_note(entry)}]]", width="content")
        nav.follow_link(entry.ref)
    # Words are clickable, to be traced.
    with words_of(_short_hash(part), entry.ref):
        _draw_words(part, entry)


def _draw_words(part: PromptPart, entry: Entry) -> None:
    key = f"context__whole_{_short_hash(part)}_{entry.ref}"
    # One message is shown with its calls or as a result; several are shown as text.
    alone = entry.messages[0] if len(entry.messages) == 1 else None
    if alone is not None and alone.tool_calls:
        if alone.content:
            draw_text(alone.content, most=ENTRY_CHARACTERS, key=key)
        for number, call in enumerate(alone.tool_calls):
            draw_json(f"Call of {call.tool_name}", call.arguments, key=f"{key}_{number}")
    elif alone is not None and alone.role is MessageRole.TOOL and indented(alone.content or ""):
        draw_json("Result", alone.content or "", key=key)
    else:
        draw_text(entry_words(entry), most=ENTRY_CHARACTERS, key=key)


_OPENED = {"fact": ("facts", "fact"), "relation": ("graph", "relation")}
"""Page and URL parameter that open a reference, by its kind."""


def _draw_opened(part: PromptPart, entry: Entry, effects: Effects, *, read_only: bool) -> None:
    page, parameter = _OPENED[entry.ref.kind]
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        if entry.cut:
            with st.container(gap=None, width="content"):
                _draw_struck(part, entry)
        else:
            with words_of(_short_hash(part), entry.ref, width="content"):
                st.markdown(plain(entry_words(entry)))
            if entry.tokens is not None:
                st.markdown(f":small[:gray[{count(entry.tokens, 'token')}]]", width="content")
        says = "Edit" if page == "facts" and not read_only else "Open"
        query: Any = {parameter: str(entry.ref.number)}
        nav.link(page, f":small[{says}]", **query)
        _follow(entry, effects)


def _draw_struck(part: PromptPart, entry: Entry) -> None:
    """Draw a cut entry: a line that says so, and its words struck through."""
    words = entry_words(entry)
    more = len(words) - ENTRY_CHARACTERS
    lines = [line for line in words[:ENTRY_CHARACTERS].splitlines() if line.strip()]
    # Struck line by line, as markdown does not strike through a line break.
    struck = "  \n".join(f":red[~~{plain(line)}~~]" for line in lines)
    rest = f" :small[:red[… and {count(more, 'character')} more]]" if more > 0 else ""
    st.markdown(f":small[:red[:material/content_cut: {cut_note(entry)}]]")
    with words_of(_short_hash(part), entry.ref):
        st.markdown(f"{struck}{rest}")


def draw_changes(diff: Sequence[PartDiff], since: int, mode: Mode) -> None:
    """Draw what was removed and added since another prompt, part by part; removed first."""
    # A part that says the same in another size is drawn as well.
    for change in (change for change in diff if change.changed or change.before != change.after):
        with st.container(border=True, gap="xsmall"):
            size = f"{tokens(change.before)} → {tokens(change.after)}"
            size = tokens(change.after) if change.before == change.after else size
            st.markdown(f"{square(change.part, mode)} **{plain(part_name(change.part))}** :small[:gray[{size} tokens]]")
            _draw_differences("−", "orange", change.removed)
            _draw_differences("\\+", "blue", change.added)
            if change.reordered:
                what = "The other items are" if change.removed or change.added else "The same items,"
                st.markdown(f":small[:gray[{what} in a different order.]]")
    if not any(change.changed for change in diff):
        st.markdown(f":gray[The prompt says the same as in turn {tokens(since)}, word for word.]")


def _draw_differences(sign: str, colour: str, differences: Sequence[Difference]) -> None:
    lines = [f":{colour}[{sign}] {_difference(difference)}" for difference in differences[:PAGE]]
    if lines:
        st.markdown("  \n".join(lines))
    more_line(len(differences) - PAGE)


def _difference(difference: Difference) -> str:
    words = "(erased since)" if difference.words is None else difference.words
    shown = "  \n".join(plain(line) for line in words[:ENTRY_CHARACTERS].splitlines() if line.strip())
    shown += "…" if len(words) > ENTRY_CHARACTERS else ""
    notes = [
        note for note in (difference.role, f"turn {difference.turn}" if difference.turn is not None else None) if note
    ]
    note = f":small[:gray[{' · '.join(notes)}]] " if notes else ""
    return f"{note}{shown}{' :small[:red[cut]]' * difference.cut}"


# -- expandable texts on screen -------------------------------------------------------------------


NAME_CHARACTERS = 60


def draw_text(text: str, *, most: int, key: str) -> None:
    """Draw a text literally; of one longer than `most` characters the beginning, with the rest in an expander."""
    st.text(text[:most])
    if len(text) > most:
        # The rest is sent to the browser only once it is opened: such texts can be very long.
        rest = st.expander(
            f"Show all ({count(len(text) - most, 'more character')})", key=key, on_change="rerun", type="compact"
        )
        if rest.open:
            rest.text(text[most:])


def draw_json(title: str, text: str, *, key: str) -> None:
    """Draw JSON indented in an expander with a title; it can be copied. `title` is plain text."""
    folded = st.expander(
        f":material/data_object: {plain(short(title, NAME_CHARACTERS))} :small[:gray[{count(len(text), 'character')}]]",
        key=key,
        on_change="rerun",
        type="compact",
    )
    if folded.open:
        folded.code(indented(text) or text, language="json", wrap_lines=True)


def indented(text: str) -> str | None:
    """JSON with its lines indented; None if the text is not a JSON object or list.

    >>> print(indented('{"seats": 2}'))
    {
      "seats": 2
    }
    """
    try:
        decoded = json.loads(text)
    # Nested deep enough, JSON exhausts the parser; such text is shown as it came.
    except (ValueError, RecursionError):
        return None
    # A number or a string is valid JSON too, and gains nothing from indenting.
    return json.dumps(decoded, ensure_ascii=False, indent=2) if isinstance(decoded, dict | list) else None


# -- words that can be clicked ---------------------------------------------------------------------


HINT = "Click a word to trace it (F)"

_SELF_CONTAINED = ("fact", "relation")
"""Kinds of entries that are followed as a whole, not sentence by sentence."""

_watch = st.components.v2.component("prompt-words", js=(nav.STATIC / "prompt.js").read_text(encoding="utf-8"))


def words_of(part: str, ref: Ref, **options: Any) -> DeltaGenerator:
    """Return the container of an entry's words; `part`: hex digits that tell apart parts with the same entry."""
    return st.container(key=f"context__said_{part}_{ref}", gap=None, **options)


def listen() -> None:
    """Open the trace of a word that was clicked, or chosen with the keyboard."""
    with st.container(key="context__pointing"):
        heard = _watch(key="context-prompt-words", on_follow_change=lambda: None)
    if heard.follow:
        query = followed(heard.follow)
        if query:
            nav.go("trace", **query)


def followed(asked: Any) -> dict[str, Any]:
    """Return URL parameters for the trace that the browser requests; empty if its reference is invalid."""
    ref, words, word = (str(asked.get(name) or "").strip() for name in ("ref", "words", "word"))
    # A browser may send anything, so only the form of a ref is trusted.
    if not is_target(ref):
        return {}
    query: dict[str, Any] = nav.followed(Ref(ref))
    # A fact or a relation is followed as a whole; of a longer text, only the sentence.
    if words and Ref(ref).kind not in _SELF_CONTAINED:
        query[nav.WORDS] = words[: nav.MAX_WORDS]
    return query | ({nav.WORD: word[:40]} if word else {})
