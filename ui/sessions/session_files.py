"""Dialogs for files of sessions: import one after a preview, and export a session in several forms."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import streamlit as st

from memory_core import Memory, MemoryInspectorError
from memory_core.bundles.bundle import Bundle, import_bundle, write_bundle
from memory_core.text import capitalised
from memory_core.tokens import default_counter
from memory_inspector.files.configuration import Configuration
from memory_inspector.files.files import (
    Preview,
    export_chat_store,
    export_configuration,
    export_llamaindex_python,
    export_messages,
    export_python,
    read_file,
)
from memory_inspector.files.graph_files import Form, write_graph
from memory_inspector.files.openai_format import Conversation, Skipped
from memory_inspector.files.stored import import_with_state, token_limit
from memory_inspector.lab.sizes import PlayCost, play_cost
from memory_inspector.server import chat_turns
from memory_inspector.server.engine import Engine, new_config, recorded_session
from memory_inspector.server.jobs import Job
from memory_inspector.wording.block_kinds import common, stored, unit_of
from memory_inspector.wording.formatting import count, file_stem, plain, short, tokens
from ui.parts.components import dialog
from ui.sessions import session_dialogs
from ui.sessions.session_dialogs import one
from ui.sessions.session_rows import named
from ui.tab import drawing, model
from ui.tab.services import engine

# -- import: a preview of the file's contents, skipped parts and cost; then it becomes a session ---


MAX_MEGABYTES = 20
"""Maximum size of a file of messages, or of a conversation of an export, as the engine reads it."""

TAKEN_MEGABYTES = 500
"""Maximum size of a bundle or export. Others up to this size are accepted too, to be refused with an explanation."""

SHOWN_SKIPPED = 5
SHOWN_NOTES = 5
SHOWN_BLOCKS = 6

ENDINGS = ["json", "jsonl", "af", "txt", "zip", "db", "sqlite", "sqlite3"]
"""File name endings offered by the picker; the actual type is detected from the content."""

Found = TypeVar("Found")


@dataclass(slots=True)
class Reading(Generic[Found]):
    """A file being read or already read: the job, and its result if it succeeded."""

    job: Job
    result: Found | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """A conversation and the tokens of each of its messages."""

    conversation: Conversation
    sizes: tuple[int, ...]


@dialog("Import a conversation", "upload_file", width="medium", on_dismiss=session_dialogs.forget_making)
def import_dialog() -> None:
    """Let the user choose a file, show its contents, import it."""
    if session_dialogs.follow_making("Importing"):
        return
    upload = st.file_uploader(
        "A file of messages, or a session exported here",
        type=ENDINGS,
        max_upload_size=TAKEN_MEGABYTES,
        key="import__file",
    )
    if upload is None:
        st.markdown(
            ":small[:gray[Messages of any library as JSON or JSONL · exports of ChatGPT and Claude (.json or .zip) · "
            "stores of LlamaIndex, OpenAI Agents, LangChain, LangGraph, Agno and Google ADK (JSON, SQLite) · "
            "Letta agent file (.af) · folder of notes (.zip, with its .git) · "
            f"this app’s configuration (JSON), at most {MAX_MEGABYTES} MB · exports, and bundles of this app (.zip), "
            f"at most {TAKEN_MEGABYTES} MB]]"
        )
        st.markdown(
            ":small[:gray[To follow a store in place, read only: "
            "`memory-inspector open` with its path, in a terminal of this machine.]]"
        )
        return
    # Read as a job, since a large file takes seconds and the dialog must stay usable.
    name, data = upload.name, upload.getvalue()
    preview = _follow(_read(upload.file_id, name, data), f"Reading {short(name, 40)}")
    if preview is None:
        return
    if preview.bundle is not None:
        _bundle(preview.bundle)
    elif preview.configuration is not None:
        _configuration(preview.configuration, preview.name)
    else:
        _conversation(upload.file_id, preview)


@st.cache_resource(show_spinner=False, max_entries=4)
def _read(file_id: str, _name: str, _data: bytes) -> Reading[Preview]:
    """Start reading a file, once per upload however often the dialog is redrawn."""

    def work(job: Job) -> Preview:
        # Only a large export is read in steps. Every line of progress is kept, so one is written for each tenth.
        tenths = 0

        def step(share: float) -> None:
            nonlocal tenths
            if job.cancel.is_set():
                raise MemoryInspectorError(session_dialogs.CANCELLED)
            if share * 10 >= tenths + 1:
                tenths = int(share * 10)
                job.add_progress(f"Reading {short(_name, 40)}: {tenths * 10} %")

        return read_file(_name, _data, step=step)

    return _begin(work)


@st.cache_resource(show_spinner=False, max_entries=4)
def _size(file_id: str, pick: int, _preview: Preview) -> Reading[Sized]:
    """Start counting the message sizes of one of a file's conversations."""

    def work(job: Job) -> Sized | None:
        conversation = _preview.conversation(pick)
        # Counting tokens takes its time in a long file: turns are counted along for the progress line.
        counter, users = default_counter(), 0
        sizes: list[int] = []
        for message in conversation.messages:
            if job.cancel.is_set():
                return None
            users += message.role == "user"
            # Every line of progress is kept, so that there are few of them.
            if len(sizes) % 500 == 499:
                job.add_progress(f"Reading {short(_preview.name, 40)}: {count(users, 'turn')} so far")
            sizes.append(counter.message(message).content)
        return Sized(conversation, tuple(sizes))

    return _begin(work)


def _begin(work: Callable[[Job], Found | None]) -> Reading[Found]:
    key = f"\x00reading-{uuid.uuid4().hex}"  # in place of a session id: there is none yet
    ready = threading.Event()
    reading: Reading[Found]

    def run(job: Job) -> None:
        # The worker may start before `reading` is assigned here: the event lets it write its result there.
        ready.wait()
        reading.result = work(job)

    reading = Reading(engine().start(key, key, run))
    ready.set()
    return reading


def _follow(reading: Reading[Found], says: str) -> Found | None:
    """The contents of a file; None if there are none, or not yet: the dialog is then redrawn when they are there."""
    job = reading.job
    # 1. Small files are read within this wait, and are shown without a flicker of progress.
    if not (job.cancel.is_set() or job.wait(session_dialogs.SHOWN_AFTER_SECONDS)):
        _watch(job, says)
        return None
    # 2. It ended: with an error, which is drawn once more at each redraw, or with a result.
    if job.error is not None:
        st.error(plain(job.error))
    elif job.cancel.is_set():  # even if it was read completely meanwhile
        st.markdown(":gray[Reading was cancelled. Choose the file again to read it.]")
        return None
    return reading.result


def _watch(job: Job, says: str) -> None:
    """Show the reading progress and refresh it until it has ended."""
    # Asked here, in the dialog: inside `look` it would be the id of the inner fragment.
    dialog = drawing.fragment()

    def look() -> None:
        if job.done or job.cancel.is_set():
            drawing.again_in(dialog)
        lines = job.progress
        st.markdown(f":shimmer[{plain(lines[-1] if lines else says)}]")
        st.button("Cancel", key=f"import__cancel_{job.id[-8:]}", on_click=job.cancel.set)

    st.fragment(look, run_every=session_dialogs.LOOK_SECONDS)()


def _conversation(file_id: str, preview: Preview) -> None:
    listed, pick = preview.conversations, 0
    st.markdown(f":small[:gray[{plain(preview.label)}]]")
    if len(listed) > 1:
        pick = st.selectbox(
            f"The file holds {count(len(listed), 'conversation')}",
            range(len(listed)),
            index=next((i for i, entry in enumerate(listed) if not entry.problem), 0),
            format_func=lambda i: (
                f"{i + 1}: {short(listed[i].title, 60)}, "
                + ("cannot be read" if listed[i].problem else count(listed[i].messages, "message"))
            ),
            # The file is part of the key: another file starts at its first conversation.
            key=f"import__pick_{file_id}",
        )
    sized = _follow(_size(file_id, pick, preview), f"Reading {short(preview.name, 40)}")
    if sized is None:
        return
    conversation = sized.conversation
    st.markdown(f"**{plain(conversation.title)}**")
    if sized.sizes or sized.conversation.skipped:
        st.markdown(plain(conversation_sentence(sized)))
    # A store with a state of memory can be imported as it is; playing its messages would not restore that state.
    if conversation.has_memory_state:
        _shown_state(conversation, preview.name)
        return
    _notes(conversation)
    # Counted under the settings of a new session, by the planner that will play it; no model is asked.
    cost = play_cost(conversation.messages, sized.sizes, new_config())
    st.markdown(plain(_cost_sentence(cost)))
    shared, chosen = engine(), model.chosen_model()
    with st.container(horizontal=True, vertical_alignment="center"):
        _import_button(
            lambda job: _recorded(shared, conversation).session_id,
            says="Step through",
            disabled=not conversation.messages,
        )
        st.button(
            "Play it all now",
            key="import__played",
            on_click=session_dialogs.begin_making,
            args=(lambda job: _played(shared, conversation, chosen),),
            disabled=not conversation.messages,
        )
    st.markdown(":small[:gray[Step through: turn by turn. Play it all now: without pauses.]]")


def _shown_state(conversation: Conversation, source: str) -> None:
    """Offer to import a conversation with its state of memory, or only its messages to be played."""
    shared, chosen = engine(), model.chosen_model()
    st.markdown(plain(standing_sentence(conversation)))
    _notes(conversation)
    learn = False
    if conversation.archived:
        learn = st.checkbox(
            f"Let the blocks learn from the {count(len(conversation.archived), 'archived message')}",
            value=True,
            key="import__learn",
            help="Facts and earlier turns are not imported: they are learned from these messages. "
            + ("Offline rules learn; no model is called." if chosen.offline else "Learning calls the chosen model."),
        )
    with st.container(horizontal=True, vertical_alignment="center"):
        _import_button(
            lambda job: _stood(shared, conversation, source, chosen, learn=learn),
            says="Import as it stands",
            page="chat" if conversation.messages else "blocks",
        )
        st.button(
            "Step through",
            key="import__to_play",
            on_click=session_dialogs.begin_making,
            args=(lambda job: _recorded(shared, conversation).session_id,),
            disabled=not conversation.messages,
        )
    st.markdown(
        ":small[:gray[As it stands: queue, archive and blocks are imported as they are; nothing is played. "
        "Step through: only the messages, under the limits of a new session.]]"
    )


def standing_sentence(conversation: Conversation) -> str:
    """Describe the state to import: `3 messages in the queue, 12 archived. 2 memory blocks: human, persona.`"""
    # `messages` holds all: `archived` are the places of the messages that have left the queue.
    queued = len(conversation.messages) - len(conversation.archived)
    sentences = []
    if conversation.messages:
        sentences.append(f"{count(queued, 'message')} in the queue, {tokens(len(conversation.archived))} archived.")
    if conversation.blocks:
        names = [short(block.name) for block in conversation.blocks]
        more = f" and {len(names) - SHOWN_BLOCKS} more" if len(names) > SHOWN_BLOCKS else ""
        sentences.append(f"{count(len(names), 'memory block')}: {', '.join(names[:SHOWN_BLOCKS])}{more}.")
        versions = sum(len(block.versions) for block in conversation.blocks)
        # One version a block is only its present text.
        if versions > len(names):
            sentences.append(f"{count(versions, 'version')} of their texts.")
    note = "" if conversation.token_limit is not None else ", the default"
    return " ".join([*sentences, f"Token limit {tokens(token_limit(conversation))}{note}."])


def conversation_sentence(sized: Sized) -> str:
    """A summary: `400 messages, 212 turns, about 18,300 tokens. 3 will be skipped: lines 17, 44, 90 have no text.`"""
    conversation = sized.conversation
    sentence = (
        f"{count(len(sized.sizes), 'message')}, {count(conversation.turns, 'turn')}, "
        f"about {count(sum(sized.sizes), 'token')}."
    )
    return " ".join([sentence, *skipped_sentences(conversation.skipped)])


def skipped_sentences(skipped: tuple[Skipped, ...]) -> list[str]:
    """Return a sentence per reason for skipping, with the first few line or message numbers."""
    sentences = []
    for reason, number in Counter(entry.reason for entry in skipped).most_common():
        entries = [entry for entry in skipped if entry.reason == reason]
        # 1. Places by line where the file has lines, otherwise by the number of the message, from 1.
        lines = [entry.line for entry in entries if entry.line is not None]
        noun = "line" if len(lines) == len(entries) else "message"
        numbers = lines if noun == "line" else [entry.index + 1 for entry in entries]
        # 2. A few of them are enough to find the kind of fault in the file.
        places = [tokens(place) for place in numbers[:SHOWN_SKIPPED]]
        where = ", ".join(places) + (", …" if number > SHOWN_SKIPPED else "")
        verb = "has" if number == 1 else "have"
        why = f"{verb} no text" if reason == "no text" else f"({reason})"
        sentences.append(f"{tokens(number)} will be skipped: {noun if number == 1 else noun + 's'} {where} {why}.")
    return sentences


def _notes(conversation: Conversation) -> None:
    for note in conversation.notes[:SHOWN_NOTES]:
        message = f"Message {note.index + 1}: " if note.index is not None else ""
        where = message if note.line is None else f"Line {note.line}: "
        st.markdown(f":small[:gray[{plain(capitalised(where + note.text))}]]")
    if len(conversation.notes) > SHOWN_NOTES:
        st.markdown(f":small[:gray[And {count(len(conversation.notes) - SHOWN_NOTES, 'more note')}.]]")


def _cost_sentence(cost: PlayCost) -> str:
    """The cost of playing the conversation, shown beforehand."""
    flushes = f"Playing it makes {count(cost.flushes, 'flush')} at the default settings."
    if model.chosen_model().offline:
        return f"{flushes} No model is called: rules learn, and the recorded replies are used."
    return (
        f"{flushes} That is about {count(cost.calls, 'model call')} and {count(cost.input_tokens, 'input token')} "
        "for learning facts. The recorded replies are used, so no reply is paid for."
    )


def _recorded(shared: Engine, conversation: Conversation) -> Memory:
    """Create a session with the conversation ready to be played."""
    return recorded_session(shared, conversation.messages, title=conversation.title, skipped=len(conversation.skipped))


def _played(shared: Engine, conversation: Conversation, chosen: model.Chosen) -> str:
    """Create a session and play the conversation to its end in the session's own job; return its id."""
    session_id = _recorded(shared, conversation).session_id
    memory = shared.open(session_id, model.services_for(chosen))
    shared.start(
        session_id,
        # The session is new: no other job can have this id.
        f"play-{session_id}",
        lambda job: chat_turns.play(job, memory, turns=None, pace=0),
        browser_model=chosen.pasted,
    )
    return session_id


def _stood(shared: Engine, conversation: Conversation, source: str, chosen: model.Chosen, *, learn: bool) -> str:
    """Import a conversation with its store's state; with `learn`, blocks learn in a job. Return the session's id."""
    services = model.services_for(chosen)
    memory = import_with_state(conversation, shared.database, services=services, source=source, learn=learn)
    # Learning may ask a model for each delivery: a job of its own, which a person can watch and stop.
    if learn:
        session_id = memory.session_id
        shared.start(session_id, f"learn-{session_id}", lambda job: memory.deliver(), browser_model=chosen.pasted)
    return memory.session_id


def _bundle(bundle: Bundle) -> None:
    st.markdown(":small[:gray[A session of this app, with everything it remembers]]")
    st.markdown(plain(bundle_sentence(bundle)))
    st.markdown(f":small[:gray[{plain('Blocks: ' + ', '.join(short(block.name) for block in bundle.blocks))}]]")
    for warning in bundle.warnings:
        st.warning(plain(warning), icon=":material/warning:")
    title = st.text_input("Title", value=bundle.title, max_chars=80, key="import__title")
    # Only asked where the bundle has facts of a user, which other sessions here would read too.
    with_user_facts = True
    if bundle.user_id and bundle.user_facts:
        with_user_facts = st.checkbox(
            plain(f"Also add {count(bundle.user_facts, 'fact')} of {short(bundle.user_id)} that are not here yet"),
            value=True,
            key="import__user_facts",
            help="Facts that belong to the user, not to this session. Existing facts are not changed.",
        )
    st.markdown(":small[:gray[It opens as a new session; existing ones are not changed.]]")
    database = engine().database

    def work(job: Job) -> str:
        step = session_dialogs.counted(job, "Importing", about=bundle.lines)
        # An emptied title means the title of the bundle.
        named = title.strip() or bundle.title
        return import_bundle(database, bundle, title=named, user_facts=with_user_facts, step=step)

    _import_button(work)


def bundle_sentence(bundle: Bundle) -> str:
    """Contents of a bundle, in numbers."""
    unit = common(unit_of(block.settings) for block in bundle.blocks if block.type == "vector")
    parts = [
        count(bundle.turns, "turn"),
        count(bundle.messages, "message"),
        f"about {count(bundle.tokens, 'token')}",
        count(bundle.facts, "fact"),
        stored(bundle.stored_turns, unit),
        count(bundle.events, "event"),
    ]
    whose = f" It belongs to {short(bundle.user_id)}." if bundle.user_id else ""
    return ", ".join(parts) + f". Token limit {tokens(bundle.token_limit)}.{whose}"


def _configuration(configuration: Configuration, name: str) -> None:
    st.markdown(":small[:gray[Settings and blocks of a session, without messages and facts]]")
    limit = configuration.settings.get("token_limit")
    limit_text = f" Token limit {tokens(int(limit))}." if limit is not None else ""
    st.markdown(plain(f"{count(len(configuration.blocks), 'block')}.{limit_text}"))
    for skipped in configuration.skipped:
        st.warning(plain(skipped), icon=":material/warning:")
    title = st.text_input("Title", value="New session", max_chars=80, key="import__title")
    shared = engine()
    _import_button(lambda job: _configured(shared, configuration, title.strip()), says="Start a session with it")


def _configured(shared: Engine, configuration: Configuration, title: str) -> str:
    """Create an empty session with these settings and blocks."""
    memory = Memory.from_defaults(
        uuid.uuid4().hex[:12],
        title=title,
        memory_blocks=list(configuration.blocks),
        engine=shared.database.engine,
        services=shared.services,
        **configuration.settings,
    )
    return memory.session_id


def _import_button(
    work: Callable[[Job], str], *, says: str = "Import", disabled: bool = False, page: str = "chat"
) -> None:
    st.button(
        says,
        type="primary",
        on_click=session_dialogs.begin_making,
        args=(work, page),
        disabled=disabled,
        key="import__go",
    )


# -- export: a bundle, messages, a configuration, and graphs --------------------------------------


EXPORT_PIXELS = 232
"""Width for the longest label, so that the buttons form one column."""


@dataclass(frozen=True, slots=True)
class Export:
    """An export format of a session."""

    label: str
    text: str
    file_name: str
    mime: str
    make: Callable[[], bytes]
    """Called on download: a large session takes a second."""


def exports(session_id: str, title: str) -> list[Export]:
    """The files to which a session can be written."""
    shared, stem = engine(), file_stem(title)
    return [
        Export(
            "Whole session",
            "Everything, as a bundle. Importing it opens the session again.",
            f"{stem}.zip",
            "application/zip",
            lambda: write_bundle(shared.database, session_id),
        ),
        Export(
            "Messages",
            "OpenAI format, one message a line.",
            f"{stem}.messages.jsonl",
            "application/jsonl",
            lambda: export_messages(shared.open(session_id)).encode(),
        ),
        Export(
            "Messages for LlamaIndex",
            "A chat store in its JSON form.",
            f"{stem}.chat_store.json",
            "application/json",
            lambda: export_chat_store(shared.open(session_id)).encode(),
        ),
        Export(
            "Configuration",
            "Settings and blocks, without messages and facts.",
            f"{stem}.configuration.json",
            "application/json",
            lambda: export_configuration(shared.open(session_id)).encode(),
        ),
        Export(
            "As Python",
            "The same configuration as code, ready to paste.",
            f"{stem}.py",
            "text/x-python",
            lambda: export_python(shared.open(session_id)).encode(),
        ),
        Export(
            "As Python for LlamaIndex",
            "Python code for LlamaIndex, with notes on what LlamaIndex lacks.",
            f"{stem}.llamaindex.py",
            "text/x-python",
            lambda: export_llamaindex_python(shared.open(session_id)).encode(),
        ),
        *graph_exports(session_id, stem),
    ]


GRAPH_FORMS: tuple[tuple[Form, str, str, str], ...] = (
    ("json", "Graph", "Entities and relations as JSON. The Graph page reads it again.", "application/json"),
    ("cypher", "Graph as Cypher", "Statements that create it in a graph database.", "text/plain"),
)
"""Form, label, purpose and media type."""


def graph_exports(session_id: str, stem: str) -> list[Export]:
    """The files to which each graph of a session can be written."""
    shared = engine()
    blocks = [attached.name for attached in shared.open(session_id).blocks if attached.kind == "graph"]

    def text(block: str, form: Form) -> bytes:
        # Opened again on download: the session may have changed since the dialog was drawn.
        return write_graph(shared.open(session_id).blocks.graph(block).graph(), form).encode()

    return [
        Export(
            # A single graph needs no name to be told apart.
            label if len(blocks) == 1 else f"{label}: {short(block)}",
            says,
            f"{stem}{'' if len(blocks) == 1 else f'.{file_stem(block)}'}.graph.{form}",
            mime,
            partial(text, block, form),
        )
        for block in blocks
        for form, label, says, mime in GRAPH_FORMS
    ]


@dialog("Export", "download", width="medium")
def export_dialog(session_id: str) -> None:
    """Offer a session for download, whole or in part."""
    title = named(one(session_id))
    st.markdown(f"**{plain(title)}**")
    # The files are made only when they are downloaded.
    for number, export in enumerate(exports(session_id, title)):
        with st.container(horizontal=True, vertical_alignment="center", gap="small", key=f"export__row_{number}"):
            st.download_button(
                plain(export.label),
                export.make,
                file_name=export.file_name,
                mime=export.mime,
                key=f"export__{number}",
                on_click="ignore",
                icon=":material/download:",
                help=plain(export.file_name),
                width=EXPORT_PIXELS,
            )
            st.markdown(f":small[:gray[{plain(export.text)}]]", width="content")
