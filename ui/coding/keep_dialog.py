"""The dialog with the sentence that would have kept a statement, to copy into a memory file. It writes nothing."""

from time import time
from typing import TYPE_CHECKING

import streamlit as st

from memory_core.tokens import default_counter
from memory_core.tracing.showing.replacements import mask_keys
from memory_inspector.coding.coding_session import Branch
from memory_inspector.coding.transcript import quotable
from memory_inspector.server.coding_sessions import OpenSession
from memory_inspector.wording.formatting import ago, count, plain, tokens
from ui.parts.components import dialog
from ui.tab import appearance

if TYPE_CHECKING:
    from memory_inspector.coding.memory_files import MemoryFile, Suggestion


def files_of(opened: OpenSession) -> "list[MemoryFile]":
    """Return the memory files of the session's project, read once while the page is open."""
    from memory_inspector.coding.memory_files import memory_files  # loads git and the engine

    return opened.once("memory files", lambda: memory_files(opened.session, default_counter().text))


def draw_button(statement: str, key: str, opened: OpenSession, branch: Branch) -> None:
    """Draw the button that opens the dialog for a statement."""
    if st.button("Keep it", icon=":material/bookmark_add:", key=f"code__keep_{key}", type="tertiary"):
        _dialog(statement, opened, branch)


@dialog("What would have kept it", "bookmark_add", width=640)
def _dialog(statement: str, opened: OpenSession, branch: Branch) -> None:
    from memory_inspector.coding.memory_files import suggestion

    # Reads the git history of the project, which takes seconds if it is long.
    with st.spinner("Reading the project's memory files …"), opened.held() as session:
        line = suggestion(statement, files_of(opened), session, branch, default_counter().text)
    # A second copy would not help: the line was there and was not followed, or not loaded.
    if line.already is not None:
        file, quote, version = line.already
        st.warning(f"{plain(file.name)} says it already: {quoted(quote, 200)}", icon=":material/info:")
        if version.written is not None and version.written.at is not None:
            since, note = ago(version.written.at, time(), appearance.zone()), quoted(version.written.note or "", 120)
            st.markdown(f":gray[Since {since}: {note}]")
    st.markdown(f"A line for **{plain(line.name)}**:")
    st.code(mask_keys(line.line), language=None, wrap_lines=True)
    st.markdown(_cost(line))
    st.markdown(":small[:gray[Copy it: nothing is ever written into your project.]]")


def _cost(line: "Suggestion") -> str:
    dollars = ""
    if line.dollars is not None:
        price = f"some ${line.dollars:,.2f}" if line.dollars >= 0.01 else "less than $0.01"
        dollars = f", {price} from the cache"
    size, total = count(line.tokens, "token"), line.tokens * line.calls
    if not line.calls:
        return f"{size} a call: none was made since it was said."
    # The tokenizer is not the program's own: a sum over many calls is rounded to what it can tell.
    about = tokens(round(total, 2 - len(str(total)))) if total >= 100 else tokens(total)
    return f"{size} a call: about {about} in the {count(line.calls, 'call')} since{plain(dollars)}."


# -- texts of a session as they are drawn ---------------------------------------------------------


def quoted(text: str, most: int = 200) -> str:
    """Return markdown that shows a text literally, at most so many characters of it."""
    return plain(quotable(text, most))
