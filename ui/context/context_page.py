"""The Context page: the exact prompt of a turn, what was left out of it, and why. Read-only."""

from functools import partial

import streamlit as st

from memory_core.agent.tools import MemoryTools
from memory_core.events import ConfigurationChanged, EventRecord, MemorySearched, Ref
from memory_core.history.contexts import context_of, places_of
from memory_core.history.prompt import Prompt, Remark, diff_prompts, remarks
from memory_core.history.stores import store_name
from memory_core.messages import message_text
from memory_core.planning.rendering import InsertMethod
from memory_inspector.figures.prompt_figure import describe, waterfall
from memory_inspector.wording import prompt_text
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.terms import HELP
from ui.context import ablation
from ui.context.parts import HINT, draw_changes, draw_parts, listen
from ui.parts.components import chart, empty, heading, numbers_table, unseen_heading
from ui.parts.watching import draw_watched
from ui.settings_drawer import settings_dialog
from ui.tab import nav
from ui.tab.drawing import mode
from ui.tab.people import allowed
from ui.tab.view import View

PROMPT, CHANGES, BILL = "Prompt", "Changes", "Counted, billed"

SHOW = "show"
"""URL parameter: `changes` opens the changes since the previous prompt."""

_SHOWN = "context__show"

SEARCHES = 300
"""Number of newest searches among which the searches for a prompt are looked up."""

LEFT_OUT = 6
"""Maximum number of messages or results listed that are not in a prompt."""

CODE_PIXELS = 360
BILL_PIXELS = 470


def draw(view: View) -> None:
    """Draw the page of one session at one turn."""
    contexts = view.contexts
    if not contexts:
        empty(
            "No prompt yet.",
            "Send a message: everything the model gets is kept here, turn by turn.",
            icon="stacks",
        )
        nav.link("chat", "Go to Chat", icon=":material/forum:")
        return
    # Reserved here and filled later: the sentence needs the prompt, which is picked beside the figure.
    sentence = st.container(gap="xsmall")
    draw_watched(view)
    picture, detail = st.columns([0.58, 0.42], gap="medium")
    with picture.container(border=True, gap="xsmall"):
        sent = view.memory.log.prompt(_chosen(contexts))
        _draw_figure(view, sent)
    notes = remarks(sent, named=short)
    with sentence:
        _draw_sentence(view, sent, notes)
    with detail.container(border=True, gap="xsmall", height="stretch"):
        _draw_cuts(view, sent, notes)
    _draw_detail(view, sent)


def _chosen(contexts: tuple[EventRecord, ...]) -> EventRecord:
    """Return the last prompt of the turn, unless another one is selected beside the figure's title."""
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        # What another program's parts asked for is not known: it sent what it sent.
        heading("Requested and sent" if context_of(contexts[-1]).known == "built" else "Sent", width="content")
        if len(contexts) == 1:
            return contexts[0]
        number = st.selectbox(
            "Prompts of this turn",
            range(1, len(contexts) + 1),
            index=len(contexts) - 1,
            format_func=lambda number: f"Prompt {tokens(number)} of {tokens(len(contexts))}",
            # Turn and number of prompts are in the key, so that another turn starts with its last prompt.
            key=f"context__which_{contexts[0].turn}_{len(contexts)}",
            label_visibility="collapsed",
            width=170,
        )
        return contexts[number - 1]


def _draw_sentence(view: View, sent: Prompt, notes: tuple[Remark, ...]) -> None:
    over = [remark for remark in notes if remark.rule == "over_limit"]
    for remark in over:
        st.error(plain(remark.text))
    # Over the limit without cuts, the error has said all there is to say.
    if not over or sent.cuts:
        st.markdown(prompt_text.headline(sent), help=prompt_text.billed_beside(sent))
    # A turn can have no prompt of its own, such as an imported one.
    if sent.turn != view.shown_turn:
        shown, has = tokens(view.shown_turn), tokens(sent.turn)
        by_then = " up to this step" if view.step is not None else ""
        st.markdown(f":small[:gray[No prompt was built in turn {shown}{by_then}. This is the prompt of turn {has}.]]")
    for remark in notes:
        if remark.rule in ("unreadable", "degraded", "erased"):
            st.warning(plain(remark.text))
        elif remark.rule == "neutralised":
            st.markdown(f":small[:gray[{plain(remark.text)}]]")


def _draw_figure(view: View, sent: Prompt) -> None:
    chart(waterfall(sent, mode()), "context__waterfall", describe(sent))
    numbers_table(lambda: prompt_text.number_rows(sent), key="context__numbers")


def _draw_cuts(view: View, sent: Prompt, notes: tuple[Remark, ...]) -> None:
    # Another program built this prompt: its cuts are not known, only what is missing in it.
    if sent.built.known != "built":
        _draw_left_out(view, sent)
        return
    smallest = sent.built.truncation_order == "smallest_first"
    rule = f"{HELP['cut']} Priority: {HELP['priority_smallest' if smallest else 'priority']}"
    heading("Cuts (truncation)" if sent.cuts else "Cuts", help=rule, width="content")
    if not sent.cuts:
        st.markdown("Nothing could be cut." if sent.built.over_by else "Nothing was cut.")
        # Over the limit already, nothing is left that could be cut next.
        if (later := prompt_text.cut_next(sent)) and not sent.built.over_by:
            st.markdown(f":small[:gray[{later}]]")
    for number, cut in enumerate(sent.cuts, start=1):
        asked, went, proportion = prompt_text.cut_lines(cut)
        st.markdown(f"{prompt_text.cut_title(number, cut)}  \n:small[{asked}  \n{went}  \n{proportion}]")
        nav.follow_link(Ref.of_cut(sent.record.position, number), ":small[Follow this cut]")
        for remark in notes:
            if remark.rule == "dropped_whole" and remark.block == cut.part.name:
                st.markdown(f":small[:orange[:material/lightbulb: {plain(remark.text)}]]")
    if never := prompt_text.never_cut(sent):
        st.markdown(f":small[:gray[{never}]]")
    _draw_next_steps(view, sent)


def _draw_left_out(view: View, sent: Prompt) -> None:
    """Draw the earlier messages that are not in an attached agent's prompt; the agent's reason is not known."""
    _draw_unsent(view, sent)
    in_prompt = set(places_of(sent.built))
    earlier = [r.event for r in view.history.upto(sent.record.position) if r.event.kind == "message_added"]
    seqs = {seq for event in earlier if (seq := getattr(event, "seq", None)) not in in_prompt}
    heading("Messages not in this prompt", width="content")
    if not seqs:
        st.markdown("None: the prompt has every message seen so far.")
        return
    st.markdown(f"{count(len(seqs), 'message')} of this session. The agent left them out.")
    left_out = [message for message in view.memory.session.messages() if message.seq in seqs]
    for message in left_out[-LEFT_OUT:]:
        words = f":gray[{plain(str(message.message.role))}] {plain(short(message_text(message.message), 90))}"
        with st.container(horizontal=True, gap="small"):
            st.markdown(f":small[{words}]", width="content")
            nav.follow_link(Ref.of("message", message.seq))
    if len(left_out) > LEFT_OUT:
        st.markdown(f":small[:gray[and {tokens(len(left_out) - LEFT_OUT)} before them]]")


def _draw_unsent(view: View, sent: Prompt) -> None:
    """Draw the results of searches of the agent's memory that are not in this prompt."""
    # A long log may have many searches; those of a prompt are among the newest before it.
    searches = [r for r in view.history.upto(view.position) if r.kind == MemorySearched.kind][-SEARCHES:]
    omitted = view.memory.trace.omitted_results(searches, upto=view.position, prompt=sent.record).values()
    results = [(search, search.search.event.results[n]) for search in omitted for n in search.missing]  # type: ignore[attr-defined]
    if not results:
        return
    heading("Found, but not in this prompt", width="content")
    texts = view.memory.log.texts(key for _, (_, key, _, _) in results)
    for search, (_, key, _, _) in results[:LEFT_OUT]:
        text, store = " ".join(texts.get(key, "").split()), plain(short(store_name(search.search.event)))
        nav.follow_link(text, f":small[:red[{plain(short(text, 120))}]]")
        st.markdown(f":small[:gray[found in {store}, turn {tokens(search.search.turn)}]]")
    if len(results) > LEFT_OUT:
        st.markdown(f":small[:gray[and {tokens(len(results) - LEFT_OUT)} more: see Retrieval]]")


def _draw_next_steps(view: View, sent: Prompt) -> None:
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        nav.link("blocks", ":small[Blocks]", icon=":material/view_agenda:")
        if any(part.kind == "vector" for part in sent.parts):
            nav.link("retrieval", ":small[Retrieval]", icon=":material/manage_search:", query=prompt_text.asked(sent))
        short_of_room = bool(sent.cuts or sent.built.over_by)
        if (
            short_of_room
            and not view.read_only
            and st.button(
                ":small[Change the limit]",
                icon=":material/tune:",
                type="tertiary",
                key="context__limit",
                **allowed(ConfigurationChanged),
            )
        ):
            settings_dialog(view.memory.session_id)


def _draw_detail(view: View, sent: Prompt) -> None:
    earlier = _earlier(view, sent)
    # Without an earlier prompt there is nothing to compare with.
    options = [PROMPT, CHANGES, BILL] if earlier else [PROMPT, BILL]
    _take_link(options)
    unseen_heading("Prompt")
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        shown = st.segmented_control("What to show", options, required=True, key=_SHOWN, label_visibility="collapsed")
        since = earlier[0] if earlier else None
        if shown == CHANGES:
            since = st.selectbox(
                "Changes since",
                earlier,
                format_func=lambda turn: f"since turn {tokens(turn)}",
                key=f"context__since_{sent.turn}",
                label_visibility="collapsed",
                width=180,
            )
    before = None if since is None else view.history.turns[since].built
    if shown == CHANGES and before is not None:
        draw_changes(diff_prompts(view.memory.log.prompt(before), sent), before.turn, mode())
    elif shown == BILL:
        _draw_bill(view, sent)
    else:
        st.markdown(f":small[:gray[{HINT}]]")
        with st.container(gap="xsmall"):
            position, trace = sent.record.position, view.memory.trace
            effects = trace.effects(turn=sent.turn, upto=position)
            words = partial(trace.words, upto=position)
            read_only = view.read_only is not None
            draw_parts(view.memory.session_id, sent, mode(), effects, words, read_only=read_only)
        listen()
    if before is not None and shown != PROMPT:
        st.markdown(f":small[{_same_start(view, before, sent)}]")
    ablation.draw(view, sent)
    _draw_take_along(sent)


def _take_link(options: list[str]) -> None:
    """Show the view that the URL requests, once; the parameter is then removed."""
    # Taken out of the address, so that it does not override a later choice.
    asked = st.query_params.pop(SHOW, None)
    wanted = CHANGES if asked == CHANGES.lower() else st.session_state.get(_SHOWN)
    st.session_state[_SHOWN] = wanted if wanted in options else PROMPT


def _earlier(view: View, sent: Prompt) -> list[int]:
    """Earlier turns that have a prompt, nearest first."""
    return [
        turn for turn in range(sent.turn - 1, 0, -1) if turn in view.history.turns and view.history.turns[turn].built
    ]


def _draw_bill(view: View, sent: Prompt) -> None:
    numbers = st.column_config.NumberColumn(format="localized", width=110)
    st.dataframe(
        prompt_text.bill_rows(sent),
        hide_index=True,
        width=BILL_PIXELS,
        placeholder="–",
        column_config={
            "": st.column_config.TextColumn(width=240),
            "Counted": numbers,
            "Billed": numbers,
        },
        key="context__bill",
        alt="Tokens counted and billed, line by line",
    )
    st.markdown(f":small[:gray[{prompt_text.bill_sentence(sent)}]]")
    # Tools are those offered now; what was offered with a past prompt is not known here.
    if not view.past and view.memory.blocks.editable_by_agents:
        offered = MemoryTools(view.memory)
        st.markdown(f":small[:gray[{prompt_text.tools_sentence(len(offered.specs()), offered.tokens())}]]")


def _same_start(view: View, before: EventRecord, sent: Prompt) -> str:
    """Return a sentence on the prefix that two prompts share: as sent, and if memory were in the other message."""
    memory = view.memory
    # The other place for memory, to show what a prompt cache would save there.
    other = InsertMethod.USER if sent.insert_method is InsertMethod.SYSTEM else InsertMethod.SYSTEM
    as_sent = memory.log.shared_prefix_tokens(before, sent.record)
    elsewhere = (
        memory.log.shared_prefix_tokens(before, sent.record, insert_method=other) if sent.layout.memory else None
    )
    in_user = sent.insert_method is InsertMethod.USER
    return prompt_text.same_start_sentence(before.turn, as_sent, sent.built.billed, elsewhere, in_user=in_user)


def _draw_take_along(sent: Prompt) -> None:
    name = f"prompt-turn-{sent.turn}"
    with st.container(horizontal=True, gap="small"):
        st.download_button(
            "Download as text",
            # A function: the text of the whole prompt is made on a click, not at every drawing.
            lambda: prompt_text.as_text(sent),
            file_name=f"{name}.txt",
            mime="text/plain",
            icon=":material/download:",
            on_click="ignore",
            key="context__text",
        )
        st.download_button(
            "As JSON",
            lambda: prompt_text.as_json(sent),
            file_name=f"{name}.json",
            mime="application/json",
            icon=":material/download:",
            on_click="ignore",
            key="context__json",
        )
    opened = st.expander("Raw prompt", key="context__copy", icon=":material/content_copy:", on_change="rerun")
    if opened.open:
        opened.code(prompt_text.as_text(sent), language=None, wrap_lines=True, height=CODE_PIXELS)
