"""The views of what calls were sent, and where it came from: Prompts, Memory files, Records.

Loaded when one of them is shown: figures and git take half a second.
"""

from collections.abc import Iterator
from time import time
from typing import Any

import streamlit as st

from memory_core.tracing.replacements import mask_keys
from memory_inspector.coding.coding_session import Branch, CodingSession, Lane
from memory_inspector.coding.context_parts import CallParts, SizedItem, model_limit, parts_over_calls, sized_items
from memory_inspector.coding.memory_files import CLAUDE_NAMES, NAMES, MemoryFile, contradictions
from memory_inspector.figures.coding_figures import item_name, largest_figure, prompts_figure, prompts_legend
from memory_inspector.server.coding_sessions import OpenSession
from memory_inspector.wording.formatting import ago, count, plain, short, size, tokens
from ui.coding.statement_views import files_of, quoted
from ui.parts.components import chart, empty, heading, numbers_table
from ui.tab import drawing

# -- each call's prompt by part, from the API's own numbers, and the largest things in it ---------


MAX_ROWS = 100


def draw_prompts(opened: OpenSession, session: CodingSession, branch: Branch) -> None:
    """Draw the prompts of a branch."""
    if not branch.calls:
        empty("No call of a model yet.", "The file has no answer with its tokens so far.")
        return
    # Worked out once for each revision: a rerun of the page only draws.
    sizes = opened.sizes(branch)
    calls = opened.once(("parts", branch.number), lambda: parts_over_calls(branch, sizes))
    items = opened.once(("items", branch.number), lambda: sized_items(branch, sizes))
    compactions = [window.calls[0].number for window in branch.compactions if window.calls]
    chosen = _call(len(calls), compactions)
    limit = model_limit(branch.calls, session.main.about.get("limit"))
    chart(
        prompts_figure(calls, drawing.mode(), limit=limit, chosen=chosen, compactions=compactions),
        key="code__prompts",
        alt=f"Prompts of {count(len(calls), 'call')} by part, the largest with "
        f"{tokens(max(call.usage.prompt for call in branch.calls))} tokens",
    )
    st.markdown(f":small[{prompts_legend(calls, drawing.mode())}]")
    parts, largest = st.columns([2, 3], gap="large")
    with parts:
        _parts(calls[chosen - 1])
    with largest:
        _largest(items)


def _call(last: int, compactions: list[int]) -> int:
    """Draw the choice of a call; at first the fullest one before a compaction, or the last."""
    if last == 1:  # a slider needs two ends
        return 1
    # The fullest prompt is the one that a person asks about.
    first = compactions[0] - 1 if compactions and compactions[0] > 1 else last
    return int(st.slider("Call", 1, last, first, key="code__call"))


def _parts(parts: CallParts) -> None:
    usage = parts.call.usage
    heading(f"Call {tokens(parts.call.number)}", f"\n:small[:gray[{tokens(usage.prompt)} tokens, as the API counted]]")
    total = max(usage.prompt, 1)  # some endpoints report no tokens
    st.dataframe(
        [
            {"Part": part, "Tokens": size, "Share": size / total}
            for part, size in sorted(parts.parts.items(), key=lambda part: -part[1])
        ],
        hide_index=True,
        key="code__parts",
        column_config={
            "Part": st.column_config.TextColumn(help="Other: what the session's file does not hold"),
            "Tokens": st.column_config.NumberColumn(format="localized", width="small"),
            "Share": st.column_config.ProgressColumn(format="percent", min_value=0, max_value=1, width="small"),
        },
    )
    st.markdown(
        f":small[:gray[Cache: {tokens(usage.cache_read)} read, {tokens(usage.cache_write)} written, "
        f"{tokens(usage.input)} neither. Answer: {tokens(usage.output)} tokens.]]"
    )
    if parts.call.lacks_messages:
        st.markdown(":small[:gray[Put together from its records: the file does not have the whole request.]]")


def _largest(items: list[SizedItem]) -> None:
    unused = [one for one in items if one.referred is False]
    heading(
        "Largest",
        f"\n:small[:gray[Hatched: {count(len(unused), 'result')} with {tokens(sum(one.tokens for one in unused))} "
        "tokens that nothing refers to later, judged by words that only they brought]]",
    )
    chart(
        largest_figure(items, drawing.mode()),
        key="code__largest",
        alt=f"The largest of {count(len(items), 'item')}, by part",
    )
    numbers_table(lambda: [_row(one) for one in items[:MAX_ROWS]], "code__largest_table")


def _row(one: SizedItem) -> dict[str, object]:
    return {
        "Item": item_name(one),
        "Part": one.part,
        "Tokens": one.tokens,
        "Calls": one.calls,
        "Referred to": {None: "", True: "yes", False: "never"}[one.referred],
        "Line": one.item.line,
    }


# -- memory files, records of the file, and subagents ---------------------------------------------


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
                st.markdown(f":small[:gray[{ago(written.at, time(), drawing.zone())}: {note}]]")
        if file.note:
            st.markdown(f":small[:gray[{plain(file.note)}]]")
        for line in filter(str.strip, file.text.splitlines()[:MAX_LINES]):
            st.markdown(quoted(line, 1_000))
