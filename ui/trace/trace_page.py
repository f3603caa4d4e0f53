"""The page Where did it go?: a phrase or an item, its outcome in one sentence, its track, and possible fixes."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import streamlit as st

from memory_core import MemoryInspectorError, NotFoundError
from memory_core.events import BlockEdited, ConfigurationChanged, Ref, Retrieved, is_target
from memory_core.messages import MessageRole, content_hash, message_text
from memory_core.tracing.fixes import MAX_TAUGHT, Fix, Fixes
from memory_core.tracing.rule_words import REMEDIES, SEARCH, UNKNOWN
from memory_core.tracing.values import STAGES as ORDER
from memory_core.tracing.values import CutTrace, Stage, Trace, Track, said_by
from memory_core.tracing.words import (
    KNOWLEDGE,
    KNOWLEDGE_HELP,
    STAGES,
    brief,
    carrier_name,
    matched,
    prompt_of,
)
from memory_inspector.lab.probes import Probe
from memory_inspector.wording.formatting import count, plain, short, tokens
from memory_inspector.wording.trace_text import ICONS, QUOTED, quoted, rows, says, target_name, title
from ui.parts import forgetting, probing, toasts, watching
from ui.parts.components import empty, error_noticed, heading
from ui.parts.effect import effect_sentence
from ui.parts.saved_page import page_dialog
from ui.tab import nav, state
from ui.tab.people import allowed
from ui.tab.view import View, memory_of
from ui.trace import trace_page as asking

SUGGESTED, NEWEST = 5, 3
"""Maximum numbers of losses and of messages that are suggested to follow."""

MAX_ENTRIES = 20
"""Maximum number of entries drawn of a cut."""

NOWHERE = "No message, fact, relation or text of a block contains all of these words."

MAX_ASKED = 10_000
"""Maximum characters of a phrase."""


def draw(view: View) -> None:
    """Draw the page, live or at an earlier moment."""
    session_id = view.memory.session_id
    asking.take_link(session_id)
    target = asking.asked(session_id).target
    st.text_input(
        "What should the agent have known?",
        key=asking.BOX,
        placeholder="What should the agent have known? For example: allergic to nuts",
        icon=":material/search:",
        max_chars=MAX_ASKED,
        on_change=asking.typed,
        args=(session_id,),
        label_visibility="collapsed",
    )
    # After the field: its callback has changed what is followed.
    asking.write_link(session_id)
    # Facts that a person wrote can be followed before anything is said.
    if target is None and not view.history.turns:
        empty("Nothing was said yet.", "After the first message, follow here what was said.", icon="route")
        return
    if target is None:
        _draw_start(view)
        return
    try:
        trace = _trace(view)
    except NotFoundError as error:
        st.warning(f"{plain(str(error))} It may have been forgotten since.")
        _draw_start(view)
        return
    _draw_trace(view, trace)


def _trace(view: View) -> Trace:
    """Return the trace of what this tab follows, to the shown turn's prompt.

    Raises:
        NotFoundError: the session does not have it any more.
    """
    asked, follow = asking.asked(view.memory.session_id), view.memory.trace
    target, turn = asked.target or "", view.shown_turn or None
    if asked.words is not None:
        # A part of a prompt is first looked for by the words that were clicked.
        with suppress(NotFoundError):  # the words were the prompt's own markup
            return follow(target, words=asked.words, turn=turn, upto=view.position)
    return follow(target, turn=turn, upto=view.position)


def _draw_trace(view: View, trace: Trace) -> None:
    word = asking.asked(view.memory.session_id).word
    # A phrase stands in the field already; a reference has no words there.
    if isinstance(trace.target, Ref):
        st.markdown(f":gray[Following] {plain(target_name(trace))} {quoted(trace, word)}")
        if word and not says(trace, word):
            st.markdown(f":small[:gray[“{plain(short(word, 40))}” is part of the prompt’s markup, not of this item.]]")
    verdict = trace.decisive.verdict if trace.decisive is not None else "lost"
    with st.container(border=True, gap="xsmall", key=f"trace__sentence_{verdict}"):
        if trace.origin:
            st.markdown(f"**{plain(trace.origin)}**")
        st.markdown(f"## {plain(trace.sentence)}", anchors=False)
        notes = " ".join(filter(None, [matched(trace), prompt_of(trace).removeprefix(trace.sentence)]))
        with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
            st.markdown(f":small[:gray[{plain(notes if trace.tracks else notes or NOWHERE)}]]", width="content")
            with st.container(horizontal=True, width="content", gap="small"):
                now = asking.asked(view.memory.session_id)
                followed = now.words or now.target or trace.asked
                # A cut belongs to one prompt: there is nothing to test in later ones.
                if trace.tracks and trace.cut is None:
                    watch = partial(watching.draw_button, view, followed)
                    probing.draw(view.memory.session_id, partial(_probes, view, trace), "trace", first=watch)
                if trace.cut is None and st.button(
                    "Save as page", key="trace__save", type="tertiary", icon=":material/ios_share:"
                ):
                    page_dialog(view.memory.session_id, followed, view.shown_turn, view.position)
                chosen = _chosen(now.words, now.target)
                if chosen is not None and trace.tracks and not view.read_only:
                    forgetting.draw_buttons(view.memory.session_id, chosen, "trace")
    if not view.past:
        forgetting.draw_quarantine(view)
    if trace.cut is not None:
        _draw_entries(view, trace.cut)
        _draw_watched(view)
        return
    # Nothing contains the phrase: the nearest message may be what was meant.
    if not trace.tracks:
        _draw_nearest(view, trace)
        # An attached agent's memory is only read here: nothing can be taught.
        if not view.attached:
            _draw_teaching(view, trace)
        _draw_watched(view)
        return
    # The tracer puts the track that got furthest first.
    draw_track(trace.tracks[0], 0)
    draw_details(trace.tracks[0])
    if view.attached and not trace.reached:
        st.markdown("The agent decides what its prompts contain. To try changes, branch this session.")
    elif not trace.reached:
        _draw_fixes(view, trace)
    if others := trace.tracks[1:]:
        number = len(others) + trace.more
        copies = st.expander(count(number, "other copy"), key="trace__others", on_change="rerun", type="compact")
        if copies.open:
            with copies:
                draw_others(others, trace.tracks[0])
                if trace.more:
                    st.markdown(f":small[:gray[And {tokens(trace.more)} more, which got no further than these.]]")
    _draw_watched(view)


def _chosen(words: str | None, target: str | None) -> str | Ref | None:
    """Return the phrase, message or fact that can be forgotten; None for any other item."""
    if words or not isinstance(target, Ref):
        return words or target
    return target if target.kind in ("message", "fact") else None


def _probes(view: View, trace: Trace) -> list[Probe]:
    """Return probes for the followed phrase, from the shown turn on, and for the newest message that says it."""
    turn = max(1, view.shown_turn)
    return [*probing.of_words(trace.asked, turn), *probing.of_messages([m.seq for m in trace.said[:1]], turn)]


def _draw_entries(view: View, cut: CutTrace) -> None:
    """Draw the items that were cut, each with its speaker and its other copies."""
    heading("What was cut", "\n:small[:gray[Follow one to see every copy of it, and what would bring it back.]]")
    for number, entry in enumerate(cut.entries[:MAX_ENTRIES]):
        with st.container(border=True, gap="xsmall", key=f"trace__entry_{number}"):
            st.markdown(f"“{plain(short(' '.join(entry.words.split()), QUOTED) or '(erased)')}”")
            otherwise = " ".join(filter(None, [said_by(entry.said), entry.otherwise]))
            st.markdown(f":small[:gray[{plain(otherwise)}]]")
            st.button(
                "Follow",
                key=f"trace__follow_{number}",
                type="tertiary",
                icon=":material/route:",
                on_click=asking.follow,
                args=(view.memory.session_id, entry.ref),
            )
    if more := cut.more + len(cut.entries[MAX_ENTRIES:]):
        st.markdown(f":small[:gray[And {tokens(more)} more.]]")


def _draw_watched(view: View) -> None:
    if view.memory.trace.watched:
        st.space("small")
        heading("Watched", "\n:small[:gray[One cell per turn. A click goes to the last turn whose prompt had it.]]")
        watching.draw_watched(view)


def _draw_nearest(view: View, trace: Trace) -> None:
    near = trace.nearest
    if near is None:
        return
    # Without an embedding model the nearest is by words, and has no similarity to name.
    close = f"nearest message in meaning ({near.similarity:.2f})" if near.similarity is not None else "nearest message"
    words = short(" ".join(near.words.replace("*", "").replace("`", "").split()), QUOTED)
    st.markdown(f"The {close} is in turn {tokens(near.turn)}: “{plain(words)}”")
    st.button(
        "Follow that one",
        key="trace__nearest",
        icon=":material/route:",
        on_click=asking.follow,
        args=(view.memory.session_id, Ref.of("message", near.seq)),
    )


# -- fixes -----------------------------------------------------------------------------------------


def _draw_fixes(view: View, trace: Trace) -> None:
    fixes = _fixes(view, trace)
    if fixes is None or _draw_held(fixes, trace):
        return
    heading("What would bring it into the next prompt")
    if not fixes.offered:
        st.markdown("No single change of a setting, a fact or a text would do it.")
        return
    # The first takes the fewest tokens from other content, so it is the one that is suggested.
    for number, fix in enumerate(fixes.offered):
        _draw_fix(view, fixes, fix, number, first=number == 0)
    st.markdown(f":small[:gray[Preview for {_next_message(trace)}. Past prompts don’t change.]]")


def _draw_teaching(view: View, trace: Trace) -> None:
    """Draw the form that teaches a sentence as a fact."""
    with st.expander("Teach as a fact", key="trace__teaching", icon=":material/school:"):
        sentence = st.text_input(
            "The fact, as a sentence",
            key=f"trace__teach_{content_hash(trace.asked)[:12]}",
            placeholder="For example: Rui stays off meat.",
            max_chars=MAX_TAUGHT,
        )
        # Each fix plans a prompt: not before there is a sentence.
        fixes = _fixes(view, trace, sentence.strip()) if sentence.strip() else None
        if fixes is None or _draw_held(fixes, trace):
            return
        for number, fix in enumerate(fixes.offered):
            _draw_fix(view, fixes, fix, number, first=False)
        if not fixes.offered:
            st.markdown("No block of this session takes facts, or the fact would be cut from the prompt.")


def _fixes(view: View, trace: Trace, words: str | None = None) -> Fixes | None:
    try:
        return view.memory.trace.fixes(trace, words=words)
    except MemoryInspectorError as error:
        st.markdown(f":small[:gray[Fixes cannot be previewed: {plain(str(error))}]]")
        return None


def _draw_held(fixes: Fixes, trace: Trace) -> bool:
    """Draw that the next prompt has the followed phrase or item; return whether it has."""
    if fixes.held:
        with st.container(border=True, gap="xsmall", key="trace__sentence_passed"):
            st.markdown("## In the next prompt, as the session stands now.", anchors=False)
            st.markdown(f":small[:gray[Preview for {_next_message(trace)}.]]")
    return fixes.held


def _next_message(trace: Trace) -> str:
    return "the same question asked now" if trace.question else "the next message"


def _draw_fix(view: View, fixes: Fixes, fix: Fix, number: int, *, first: bool) -> None:
    with st.container(border=True, horizontal=True, vertical_alignment="center", key=f"trace__fix_{number}"):
        st.button(
            plain(fix.label),
            key=f"trace__apply_{number}",
            type="primary" if first else "secondary",
            wrap=True,
            on_click=_apply,
            args=(view.memory.session_id, fix),
            **allowed(
                *([BlockEdited, ConfigurationChanged] if fix.settings or fix.session else []),
                disabled=view.locked is not None,
                help=view.locked.sentence if view.locked is not None else None,
            ),
        )
        if fix.foretold is not None and fixes.now is not None:
            st.markdown(f":small[{effect_sentence(fixes.now.context, fix.foretold.context)}]", width="stretch")
        else:
            st.markdown(":small[:gray[Its effect is known only afterwards.]]", width="stretch")


@error_noticed
def _apply(session_id: str, fix: Fix) -> None:
    # Not every fix can be taken back: then the toast has no Undo.
    undo: Callable[[], object] | None = memory_of(session_id).trace.fix(fix)
    toasts.done(f"Done: {fix.label}.", undo=undo, session_id=session_id)


# -- where to start --------------------------------------------------------------------------------


def _draw_start(view: View) -> None:
    """Draw suggestions to follow: the losses of the last prompt, and the user's last messages."""
    # Without a prompt nothing can be lost in one.
    lost, newest = _lost(view)[:SUGGESTED] if view.contexts else [], _newest(view)
    if lost:
        heading("Lost in the last prompt")
        _draw_links(lost, "lost")
    elif view.contexts:
        st.markdown(f":small[:gray[Nothing was lost in the prompt of turn {tokens(view.contexts[-1].turn)}.]]")
    if newest:
        heading("Said last")
        _draw_links(newest, "said")
    st.markdown(":small[:gray[Or type a few words. Every message, fact, relation and cut has **Follow**, too.]]")
    forgetting.draw_quarantine(view)
    _draw_watched(view)


def _draw_links(links: list[tuple[Ref, str, str]], place: str) -> None:
    for number, (ref, why, words) in enumerate(links):
        key = f"trace__start_{place}_{number}"
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=key):
            nav.follow_link(ref, f"“{plain(short(words, 90))}”")
            st.markdown(f":small[:gray[{plain(why)}]]", width="content")


def _newest(view: View) -> list[tuple[Ref, str, str]]:
    """The user's last messages."""
    # The last 40 messages hold some of the user's, even with many of tools in between.
    messages = [message for message in view.memory.session.messages(last=40) if message.seq <= view.last_seq]
    users = [message for message in reversed(messages) if message.message.role is MessageRole.USER][:NEWEST]
    return [(Ref.of("message", m.seq), f"turn {tokens(m.turn)}", message_text(m.message)) for m in users]


def _lost(view: View) -> list[tuple[Ref, str, str]]:
    """Return what the last prompt cut, and what its searches found and left out, as reference, reason and words."""
    prompt = view.memory.log.prompt(view.contexts[-1])
    links: list[tuple[Ref, str, str]] = []
    for cut in prompt.cuts:
        # Blocks have a priority, the queue has none.
        name = "the queue" if cut.part.priority is None else cut.part.name
        # Erased words cannot be followed.
        links += [(entry.ref, f"cut from {name}", entry.words) for entry in cut.entries if entry.words]
    searches = [record.event for record in view.history.recorded_with(prompt.record)[0].values()]
    left_out = [
        (Ref.of("unit", number), f"{UNKNOWN.filled(SEARCH[outcome].phrase)} in {event.block}, {score:.2f}")
        for event in searches
        if isinstance(event, Retrieved)
        for number, _, _, score, outcome in event.candidates
        if REMEDIES.get(outcome) in ("search", "room")
    ]
    # Read together: one query for all that the searches left out.
    words = view.memory.trace.words((ref for ref, _ in left_out), upto=view.position)
    return links + [(ref, why, words[ref]) for ref, why in left_out if ref in words]


# -- a track as a row of stages; only the stage where the information was lost is red -------------


def draw_track(track: Track, place: int, *, without: int = 0) -> None:
    """Draw the stages of a track, except the first `without`, which another track has shown already."""
    shown = track.stages[without:]
    with st.container(horizontal=True, gap="small", key=f"trace__track_{place}"):
        for number, stage in enumerate(shown):
            _draw_stage(stage, f"{place}_{number}")
        # A row that ends in red before the prompt would look unfinished.
        if shown[-1].verdict == "lost" and shown[-1].name != "prompt":
            _draw_never(f"{place}_end")


def _draw_stage(stage: Stage, place: str) -> None:
    with st.container(border=True, gap=None, key=f"trace__{stage.verdict}_{place}"):
        st.markdown(title(stage))
        st.markdown(f":small[{plain(brief(stage))}]")
        if stage.knowledge == "reported":
            st.markdown(f":small[:gray[{KNOWLEDGE[stage.knowledge]}]]")


def _draw_never(place: str) -> None:
    """Draw the stage of the prompt, which a lost track does not reach."""
    with st.container(border=True, gap=None, key=f"trace__not_reached_{place}"):
        st.markdown(f":material/{ICONS['not_reached']}: **{STAGES['prompt']}**")
        st.markdown(":small[no]")


def draw_others(tracks: tuple[Track, ...], first: Track) -> None:
    """Draw the other carriers below the first, each with its name, how it ended, and the stages it does not share."""
    for place, track in enumerate(tracks, start=1):
        with st.container(gap="xsmall", key=f"trace__other_{place}"):
            words = f" :gray[“{plain(track.carrier.words[:90])}”]" if track.carrier.words else ""
            st.markdown(f"**{plain(carrier_name(track.carrier))}**{words}")
            st.markdown(f":small[{plain((track.decisive or track.stages[-1]).text)}]")
            draw_track(track, place, without=_shared(track, first))


def _shared(track: Track, first: Track) -> int:
    """Return the number of first stages that two tracks share, at most all but one of `track`'s."""
    alike = 0
    for one, other in zip(track.stages, first.stages, strict=False):
        # From the delivery on, stages belong to a block, even where they look alike.
        if one != other or ORDER.index(one.name) >= ORDER.index("delivery"):
            break
        alike += 1
    return min(alike, len(track.stages) - 1)


def draw_details(track: Track) -> None:
    """Draw a toggle for every stage in words, and a link to the event that decided."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        shown = st.toggle("Every stage in words", key="trace__in_words")
        if track.decisive is not None:
            _draw_event_link(track.decisive)
    if shown:
        st.dataframe(
            rows(track),
            hide_index=True,
            height="content",
            key="trace__rows",
            column_config={
                "Stage": st.column_config.TextColumn(width=90),
                "Verdict": st.column_config.TextColumn(width=90),
                "What happened": st.column_config.TextColumn(width="large"),
                "Turn": st.column_config.NumberColumn(width=60),
                "Known": st.column_config.TextColumn(width=130, help=KNOWLEDGE_HELP),
            },
            alt="Every stage of the first track, with what happened there",
        )


def _draw_event_link(stage: Stage) -> None:
    if stage.position is not None and stage.turn:
        nav.link(
            "timeline", "The event on the Timeline", icon=":material/timeline:", turn=stage.turn,
            **{nav.EVENT: str(stage.position)},
        )  # fmt: skip


# -- the phrase or item that a tab follows in each session, as its URL says -----------------------


BOX = "trace__words"
"""Widget key of the phrase."""

_LINKED = "trace_linked"


@dataclass(frozen=True, slots=True)
class Asked:
    """The phrase or item that is followed in a session."""

    target: str | Ref | None = None
    words: str | None = None
    """The words of the item that matter; None: all of it."""
    word: str | None = None
    """The word that was clicked; None if none was."""


_ASKED = state.ByPlace("trace_asked", Asked())
asked, ask = _ASKED.at, _ASKED.change
"""The followed phrase or item in a session, and its setter."""


def take_link(session_id: str) -> None:
    """Follow what the URL asks for, unless this page wrote it there itself."""
    ref, words, word = (st.query_params.get(name) for name in (nav.FOLLOW, nav.WORDS, nav.WORD))
    linked = (session_id, ref, words)
    # Without this the page would follow its own link again after each click.
    if (ref is None and words is None) or linked == st.session_state.get(_LINKED):
        return
    st.session_state[_LINKED] = linked
    if ref is not None and is_target(ref):
        follow(session_id, Ref(ref), words=(words or "").strip() or None, word=word)
    elif words is not None and words.strip():
        follow(session_id, words.strip())


def write_link(session_id: str) -> None:
    """Put what is followed in the URL, so that the page can be reloaded and linked to."""
    now = asked(session_id)
    ref = str(now.target) if isinstance(now.target, Ref) else None
    words = now.words if ref is not None else now.target
    # Browsers and proxies cut long addresses.
    words = words if words is not None and len(words) <= nav.MAX_WORDS else None
    state.write_address(nav.FOLLOW, ref)
    state.write_address(nav.WORDS, words)
    state.write_address(nav.WORD, now.word)
    st.session_state[_LINKED] = (session_id, ref, words)


def follow(session_id: str, target: str | Ref | None, *, words: str | None = None, word: str | None = None) -> None:
    """Follow another phrase or item (None: nothing). For callbacks, and before the field is drawn."""
    ask(session_id, target=target, words=words, word=word)
    # A `Ref` is a string too, but an id is no phrase to show in the field.
    st.session_state[BOX] = target if isinstance(target, str) and not isinstance(target, Ref) else ""


def typed(session_id: str) -> None:
    """Follow the phrase in the field. The field's callback."""
    words = str(st.session_state.get(BOX) or "").strip()
    ask(session_id, target=words or None, words=None, word=None)
