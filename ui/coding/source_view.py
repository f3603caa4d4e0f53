"""The views of a session's sources: memory files, records of its file, and subagents."""

from collections.abc import Iterator
from time import time
from typing import Any

import streamlit as st

from memory_core.tracing.showing.replacements import mask_keys
from memory_inspector.coding.coding_session import Branch, CodingSession, Lane
from memory_inspector.coding.memory_files import CLAUDE_NAMES, NAMES, MemoryFile, contradictions
from memory_inspector.server.coding_sessions import OpenSession
from memory_inspector.wording.formatting import ago, count, plain, short, size, tokens
from ui.coding.keep_dialog import files_of, quoted
from ui.parts.components import empty, heading
from ui.tab import appearance

MAX_BAD_LINES, MAX_CONFLICTS, MAX_VERSIONS, MAX_LINES = 20, 20, 10, 200


def draw_records(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw how many records of each file are shown, why the others are not, and what each subagent did."""
    lane = session.main
    read = sum(file.size for file in lane.files)
    st.markdown(
        f"{count(lane.records, 'record')} in {size(read)}: {tokens(lane.shown)} shown, "
        f"{tokens(lane.records - lane.shown)} left out"
    )
    if left_out := list(_left_out(session)):
        st.dataframe(left_out, hide_index=True, key="code__left_out")
    for bad in lane.bad_lines[:MAX_BAD_LINES]:
        st.warning(f"Line {bad.line:,} {plain(bad.problem)}.")
    # Happens in files that were cut, or copied from a running session.
    if lane.orphans:
        st.warning(f"{count(lane.orphans, 'record')} name a record before them that is not in the file.")
    for name, problem in session.problems.items():
        st.warning(f"Subagent {plain(name)}: {plain(problem)}")
    if session.lanes:
        heading("Subagents", level=3)
        for other in session.lanes.values():
            _subagent(session, other)


def _left_out(session: CodingSession) -> Iterator[dict[str, Any]]:
    for lane in session.all_lanes:
        for reason, number in lane.left_out.most_common():
            yield {"File": lane.name or "session", "Reason": reason, "Records": number}


def _subagent(session: CodingSession, lane: Lane) -> None:
    usage = [step.usage for step in lane.steps.values() if step.usage is not None]
    asked, answer = session.started_by(lane), session.given_back(lane)
    # Subagents have prompts of their own, which the session's limit does not bound.
    largest = max((used.prompt for used in usage), default=0)
    with st.expander(
        f"{plain(lane.name)} · {count(len(usage), 'call')} · largest prompt {tokens(largest)}", key=f"code__{lane.name}"
    ):
        st.markdown(
            f":gray[Given:] {quoted(asked.text, 1_000)}" if asked else ":gray[The session names no call of it.]"
        )
        if answer is not None:
            st.markdown(f":gray[Gave back:] {quoted(answer.text, 1_000)}")
        read = [item for item in session.items(lane, "tool_result") if item.path]
        if read:
            st.dataframe(
                [
                    {"File": short(mask_keys(item.path), 120), "Tool": item.tool, "Characters": item.characters}
                    for item in read
                ],
                hide_index=True,
                key=f"code__read_{lane.name}",
            )


def draw_memory_files(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw the memory files of the session's project, and what the session contradicted in them."""
    with st.spinner("Reading the project's memory files …"):
        files = files_of(opened)
        conflicts = opened.once("contradictions", lambda: contradictions(files, session))
    # Sessions from another machine have no project here.
    if not files:
        empty(
            "No memory file on this machine.",
            f"{session.program} loads {' or '.join(NAMES.get(session.program, CLAUDE_NAMES[:1]))} from "
            f"{session.main.about.get('folder', 'its folder')} and the folders above: these are looked for.",
        )
        return
    st.dataframe(
        [_file_row(file) for file in files],
        hide_index=True,
        key="code__memory_files",
        placeholder="–",
        column_config={
            "Tokens": st.column_config.NumberColumn(format="localized", help="Loaded with every call"),
            "Loaded": st.column_config.TextColumn(help="Reported: the session's file has it. Observed: by its place"),
        },
    )
    if conflicts:
        heading("Contradicted in this session", level=3)
    for conflict in conflicts[:MAX_CONFLICTS]:
        with st.container(border=True, gap="xsmall"):
            st.markdown(f":small[:gray[{plain(conflict.file.name)}:]] {quoted(conflict.sentence, 300)}")
            st.markdown(f":small[:gray[The user, line {conflict.item.line:,}:]] {quoted(conflict.statement, 300)}")
    for number, file in enumerate(files):
        if file.problem:
            st.warning(plain(file.problem))
        else:
            _file(file, number)


def _file_row(file: MemoryFile) -> dict[str, Any]:
    return {
        "File": file.name,
        "Of": file.owner,
        "Tokens": file.tokens,
        "When": "start" if file.when == "start" else "with files in its folder",
        "Loaded": file.loaded,
        "Versions": len(file.versions),
        "Changed since": "" if file.at_start is None or file.at_start.text == file.text else "yes",
    }


def _file(file: MemoryFile, number: int) -> None:
    with st.expander(plain(file.name), key=f"code__memory_file_{number}"):
        for version in reversed(file.versions[-MAX_VERSIONS:]):
            written = version.written
            if written is not None and written.at is not None:
                note = quoted(written.note or "", 160)
                st.markdown(f":small[:gray[{ago(written.at, time(), appearance.zone())}: {note}]]")
        if file.note:
            st.markdown(f":small[:gray[{plain(file.note)}]]")
        for line in filter(str.strip, file.text.splitlines()[:MAX_LINES]):
            st.markdown(quoted(line, 1_000))
