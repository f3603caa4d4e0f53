"""The view Compactions: each compaction as a flush, and what became of each statement that was said before it."""

from collections import Counter
from collections.abc import Sequence

import streamlit as st

from memory_inspector.coding.coding_session import Branch, CodingSession, Window
from memory_inspector.coding.statement_fates import Fate, UserStatement, has_summary, statements_at
from memory_inspector.server.coding_sessions import OpenSession
from memory_inspector.wording.coding_text import kept_words
from memory_inspector.wording.formatting import count, tokens
from ui.coding import keep_dialog, phrase_view
from ui.coding.keep_dialog import quoted
from ui.parts.components import empty, heading

MAX_ROWS = 60
"""Statements that are drawn; the rules come first."""

FATES: dict[Fate, tuple[str, str, str, str]] = {
    "gone": ("gone", "red", "remove_selection", "Not in the summary, and in no later prompt of this window"),
    "subagent": ("only in a subagent", "orange", "account_tree", "Not in the summary; a subagent has it"),
    "read_again": ("read again", "orange", "description", "Not in the summary; a tool's result had it later"),
    "said_again": ("said again", "orange", "replay", "Not in the summary; it was said again later"),
    "reworded": ("reworded", "blue", "edit_note", "One sentence of the summary has all its words, in other forms"),
    "kept": ("kept", "green", "check", "Its words stand in the summary in their order, or it stayed as it was"),
}
"""Fates with title, colour, icon and meaning, the worst first."""

SPEAKERS = {"user": "User", "injected": "Added by the program", "assistant": "Assistant"}


def draw(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw one of a branch's compactions."""
    compactions = branch.compactions
    if not compactions:
        empty(
            "No compaction so far.", "Everything that was said is still in the prompt, unless the program cleared it."
        )
        return
    window = _chosen(compactions)

    def said_by(speaker: str) -> list[UserStatement]:
        place = ("statements", branch.number, window.number, speaker)
        return opened.once(place, lambda: statements_at(session, branch, window, (speaker,)))

    # The verdict is on the user's words whoever's are listed below.
    if has_summary(window):
        heading(kept_words(said_by("user")), level=3)
    _numbers(branch, window)
    speaker = st.segmented_control(
        "Said by",
        list(SPEAKERS),
        default="user",
        required=True,
        format_func=lambda kind: SPEAKERS[kind],
        key="code__speaker",
        label_visibility="collapsed",
    )
    statements = said_by(speaker or "user")
    if not statements:
        st.markdown(":gray[Nothing of at least three words was said before this compaction.]")
        return
    _statements(_filtered(statements), opened, branch)
    st.markdown(":small[:gray[Found by comparing texts: the program does not say what its summary leaves out.]]")


def _chosen(compactions: Sequence[Window]) -> Window:
    if len(compactions) == 1:
        return compactions[0]
    number = st.segmented_control(
        "Compaction",
        range(len(compactions)),
        default=0,
        required=True,
        format_func=lambda n: f"{n + 1}",
        key="code__compaction",
    )
    return compactions[number or 0]


def _numbers(branch: Branch, window: Window) -> None:
    """Draw the sizes before and after, and the summary."""
    step = window.boundary
    boundary = step.boundary if step is not None else None
    if boundary is None:
        return
    before = branch.windows[window.number - 1]
    # Codex does not report the size: then it is that of the last prompts before.
    largest = max((call.usage.prompt for call in before.calls), default=0)
    reported = boundary.tokens_before
    after = window.calls[0].usage.prompt if window.calls else None
    with st.container(horizontal=True, gap="medium", key="code__numbers"):
        st.metric("Before", tokens(reported or largest), help="Tokens of the prompt, as the program reports it")
        st.metric("First prompt after", "–" if after is None else tokens(after))
        st.metric("Call", f"{before.calls[-1].number if before.calls else 0:,}", help="Last call before it")
        st.metric("Asked for by", {"auto": "Automatic", "manual": "The user"}.get(boundary.trigger, "–"))
    # Programs were seen to write a boundary and fail before its summary.
    if not has_summary(window):
        st.warning("The file has no readable summary of this compaction, so what it kept is unknown.")
        return
    summary = window.of("summary")
    characters = sum(item.characters for item in summary)
    with st.expander(f"Summary, {tokens(characters)} characters", key=f"code__summary_{window.number}"):
        for item in summary:
            for paragraph in filter(str.strip, item.text.splitlines()):
                st.markdown(quoted(paragraph, 2_000))


def _filtered(statements: Sequence[UserStatement]) -> Sequence[UserStatement]:
    """Draw how many there are of each fate; return those of the chosen one."""
    counts = Counter(statement.fate for statement in statements)
    # Only fates that occur, so that no choice leads to an empty list.
    options: list[Fate] = [fate for fate in FATES if counts[fate]]
    chosen = st.pills(
        "Fate",
        options,
        format_func=lambda fate: f"{FATES[fate][0]} {counts[fate]:,}",
        key="code__fate",
        label_visibility="collapsed",
    )
    return [statement for statement in statements if chosen in (None, statement.fate)]


def _statements(statements: Sequence[UserStatement], opened: OpenSession, branch: Branch) -> None:
    for number, statement in enumerate(statements[:MAX_ROWS]):
        title, color, icon, meaning = FATES[statement.fate]
        with st.container(border=True, gap="xsmall", key=f"code__statement_{number}"):
            st.markdown(quoted(statement.text, 400))
            if statement.quote and statement.fate != "kept":
                what = "In the summary" if statement.fate == "reworded" else "Nearest in the summary"
                st.markdown(f":small[:gray[{what}: {quoted(statement.quote, 300)}]]")
            with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"code__fate_{number}"):
                # Talk of the agent that a summary leaves out is no loss.
                paint = "gray" if statement.item.kind == "assistant" else color
                st.badge(title, icon=f":material/{icon}:", color=paint, help=meaning)  # type: ignore[arg-type]
                if statement.is_rule:
                    st.badge("rule", color="gray", help="It tells the agent how to work, judged by its words")
                st.markdown(f":small[:gray[line {statement.item.line:,}{_back(statement)}]]", width="content")
                phrase_view.follow_button(statement.text, f"{number}")
                # A statement that is in the prompt needs no line in a memory file, and the agent's talk deserves none.
                if statement.item.instructs and statement.fate not in ("kept", "reworded"):
                    keep_dialog.draw_button(statement.text, f"{number}", opened, branch)
    if len(statements) > MAX_ROWS:
        st.markdown(f":gray[{count(len(statements) - MAX_ROWS, 'further statement')} not drawn.]")


def _back(statement: UserStatement) -> str:
    if statement.back_after is None or statement.fate in ("kept", "reworded"):
        return ""
    return f" · back after {count(statement.back_after, 'call')}"
