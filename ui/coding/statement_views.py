"""The views of what was said in a session, which open at once: Compactions, and Follow a phrase.

A button at a statement opens the dialog with the line that would have kept it, to copy into a memory file. Nothing is
written.
"""

from collections import Counter
from collections.abc import Sequence
from time import time
from typing import TYPE_CHECKING

import streamlit as st

from memory_core.tokens import default_counter
from memory_core.tracing.replacements import mask_keys
from memory_inspector.coding.coding_session import Branch, CodingSession, Window
from memory_inspector.coding.session_answers import phrase_stages
from memory_inspector.coding.statement_fates import Fate, UserStatement, follow_phrase, has_summary, statements_at
from memory_inspector.coding.transcript import quotable
from memory_inspector.server.coding_sessions import OpenSession
from memory_inspector.wording.coding_text import OBSERVED, conclusion, kept_words, stage_name, stage_text
from memory_inspector.wording.formatting import ago, count, plain, short, tokens
from memory_inspector.wording.trace_text import ICONS
from ui.parts.components import chart, dialog, empty, heading, open_view
from ui.tab import drawing, state

if TYPE_CHECKING:
    from memory_inspector.coding.memory_files import MemoryFile, Suggestion


# -- compactions: each as a flush, and what became of each statement before it --------------------


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


def draw_compactions(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw one of a branch's compactions."""
    compactions = branch.compactions
    if not compactions:
        empty(
            "No compaction so far.", "Everything that was said is still in the prompt, unless the program cleared it."
        )
        return
    window = _compaction(compactions)

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


def _compaction(compactions: Sequence[Window]) -> Window:
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
                follow_button(statement.text, f"{number}")
                # A statement that is in the prompt needs no line in a memory file, and the agent's talk deserves none.
                if statement.item.instructs and statement.fate not in ("kept", "reworded"):
                    _keep_button(statement.text, f"{number}", opened, branch)
    if len(statements) > MAX_ROWS:
        st.markdown(f":gray[{count(len(statements) - MAX_ROWS, 'further statement')} not drawn.]")


def _back(statement: UserStatement) -> str:
    if statement.back_after is None or statement.fate in ("kept", "reworded"):
        return ""
    return f" · back after {count(statement.back_after, 'call')}"


# -- a phrase's way over compactions, forks and subagents to each call ----------------------------


WORDS = "words"
"""URL parameter with the phrase."""

MAX_CHARACTERS = 300

_PHRASE = "code__phrase"


def draw_phrase(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw the field for a phrase, and its way."""
    # The address wins where it was changed by a button or a person, else the field.
    asked = st.query_params.get(WORDS, "")
    if asked != st.session_state.get(f"{_PHRASE}_written"):
        st.session_state[_PHRASE] = asked[:MAX_CHARACTERS]
    phrase = st.text_input(
        "Phrase",
        key=_PHRASE,
        max_chars=MAX_CHARACTERS,
        placeholder="never touch the lockfile",
        label_visibility="collapsed",
        icon=":material/search:",
    )
    st.session_state[f"{_PHRASE}_written"] = phrase
    state.write_address(WORDS, phrase or None)
    if not phrase.strip():
        empty("Which words?", "Type what somebody said in this session, in their words.")
        return
    trail = opened.once(("phrase", branch.number, phrase), lambda: follow_phrase(session, phrase, branch))
    # Only the user's words are worth a line in a memory file, and not what the agent said in passing.
    lost = not trail.reached and any(one.item.instructs and not one.in_other_words for one in trail.occurrences)
    ended = conclusion(trail)
    heading(plain(f"{ended[0].upper()}{ended[1:]}"), level=3)
    if trail.in_prompt and trail.occurrences:
        from memory_inspector.figures.coding_figures import strip_figure  # loads slowly

        compactions = [window.calls[0].number for window in branch.compactions if window.calls]
        had = [(call.number, has) for call, has in trail.in_prompt]
        chart(
            strip_figure(had, compactions, drawing.mode()),
            key="code__strip",
            alt=f"{count(sum(has for _, has in had), 'call')} of {len(had):,} were sent it",
        )
    for number, stage in enumerate(phrase_stages(trail)):
        with st.container(horizontal=True, gap="small", key=f"code__stage_{number}_{stage.verdict}"):
            st.markdown(f":material/{ICONS[stage.verdict]}: **{plain(stage_name(stage))}**", width=170)
            st.markdown(plain(stage_text(stage)), width="stretch")
    st.markdown(f":small[:gray[{OBSERVED}]]")
    if lost:
        _keep_button(phrase, "followed", opened, branch)


def follow_button(text: str, key: str) -> None:
    """Draw the button that follows a statement here; none for one with a key, which the address would show."""
    if mask_keys(text) != text:
        return
    st.button(
        "Follow",
        icon=":material/route:",
        key=f"code__follow_{key}",
        type="tertiary",
        on_click=_follow,
        args=(text,),
    )


def _follow(text: str) -> None:
    # Cut, as browsers limit the length of an address.
    state.write_address(WORDS, short(" ".join(text.split()), MAX_CHARACTERS))
    open_view("code__view", "follow")


# -- the line that would have kept a statement ----------------------------------------------------


def files_of(opened: OpenSession) -> "list[MemoryFile]":
    """Return the memory files of the session's project, read once while the page is open."""
    from memory_inspector.coding.memory_files import memory_files  # loads git and the engine

    return opened.once("memory files", lambda: memory_files(opened.session, default_counter().text))


def _keep_button(statement: str, key: str, opened: OpenSession, branch: Branch) -> None:
    """Draw the button that opens the dialog for a statement."""
    if st.button("Keep it", icon=":material/bookmark_add:", key=f"code__keep_{key}", type="tertiary"):
        _keep_dialog(statement, opened, branch)


@dialog("What would have kept it", "bookmark_add", width=640)
def _keep_dialog(statement: str, opened: OpenSession, branch: Branch) -> None:
    from memory_inspector.coding.memory_files import suggestion

    # Reads the git history of the project, which takes seconds if it is long.
    with st.spinner("Reading the project's memory files …"), opened.held() as session:
        line = suggestion(statement, files_of(opened), session, branch, default_counter().text)
    # A second copy would not help: the line was there and was not followed, or not loaded.
    if line.already is not None:
        file, quote, version = line.already
        st.warning(f"{plain(file.name)} says it already: {quoted(quote, 200)}", icon=":material/info:")
        if version.written is not None and version.written.at is not None:
            since, note = ago(version.written.at, time(), drawing.zone()), quoted(version.written.note or "", 120)
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
