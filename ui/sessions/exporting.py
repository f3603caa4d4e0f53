"""The export dialog: a session as a bundle, as messages, as a configuration, and its graphs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import streamlit as st

from memory_core.bundles.bundle import write_bundle
from memory_inspector.files.files import (
    export_chat_store,
    export_configuration,
    export_llamaindex_python,
    export_messages,
    export_python,
)
from memory_inspector.files.graph_files import Form, write_graph
from memory_inspector.wording.formatting import file_stem, plain, short
from ui.parts.components import dialog
from ui.sessions.session_dialogs import one
from ui.sessions.session_rows import named
from ui.tab.services import engine

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
