"""The app in this process: a data folder of its own per test, models loaded once, the demo made once and copied."""

import functools
import shutil

import pytest
import streamlit as st
from pages_driver import opened
from streamlit.components.v2 import manifest_scanner
from streamlit.runtime.pages_manager import PagesManager

from memory_core import Services
from memory_core.models.embedding import MiniLMEmbedder
from memory_inspector.recorder.attaching import refused_spans
from memory_inspector.server.shipped_demo import ensure_demo
from ui.tab import drawing, services

MODEL_SETTINGS = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_MODEL")


@pytest.fixture(autouse=True)
def a_server_that_has_drawn_before(monkeypatch):
    """In a running server every page is drawn inside app.py; AppTest begins each run as the very first request."""
    begin = PagesManager.__init__

    def begin_again(self, *given, **named):
        PagesManager.uses_pages_directory = False
        begin(self, *given, **named)

    monkeypatch.setattr(PagesManager, "__init__", begin_again)


@pytest.fixture(scope="session", autouse=True)
def packages_searched_once():
    """A server looks through the installed packages for components at its start; AppTest at each, 0.3 s of it."""
    with pytest.MonkeyPatch.context() as patch:
        scan = manifest_scanner.scan_component_manifests
        patch.setattr(manifest_scanner, "scan_component_manifests", functools.cache(scan))
        yield


@pytest.fixture(autouse=True)
def elements_in_the_order_they_are_drawn(monkeypatch):
    """AppTest lists elements as they come; the order in which a browser gets them is tests/ui/test_drawing.py's."""
    monkeypatch.setattr(drawing, "by_change", lambda messages, before: ([], messages))


@pytest.fixture(autouse=True)
def never_the_users_own_folder(monkeypatch, tmp_path):
    """What a test keeps that asks for no folder, it keeps in one of its own."""
    monkeypatch.setenv("MEMORY_INSPECTOR_HOME", str(tmp_path / "unasked"))


@pytest.fixture(scope="session")
def embedder():
    """The app's own embedding model, loaded once for all tests."""
    return MiniLMEmbedder()


@pytest.fixture(scope="session")
def made_demo(embedder, tmp_path_factory):
    """A data folder with the demo as the app opens on it."""
    home = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        opened = start_clean(patch, home, embedder)
        ensure_demo(services.engine())
        st.cache_resource.clear()
        for each in opened:
            each.close()
    return home


@pytest.fixture
def home(monkeypatch, tmp_path, embedder):
    """An empty data folder."""
    folder = tmp_path / "home"
    opened = start_clean(monkeypatch, folder, embedder)
    yield folder
    st.cache_resource.clear()
    for each in opened:
        each.close()


@pytest.fixture
def demo_home(home, made_demo):
    """A data folder with the demo in it."""
    shutil.copytree(made_demo, home)
    return home


@pytest.fixture
def app(demo_home):
    """The app as it opens on the demo."""
    return opened()


def start_clean(patch, folder, embedder):
    """Point the app at `folder`, away from any model that this machine may be set up for; the services it opens."""
    st.cache_resource.clear()
    # A receiver that another test asked in this process remembers what it refused.
    refused_spans.forget("")
    patch.setenv("MEMORY_INSPECTOR_HOME", str(folder))
    for name in ("MEMORY_INSPECTOR_DATABASE_URL", "MEMORY_INSPECTOR_CHROMA_URL", *MODEL_SETTINGS):
        patch.delenv(name, raising=False)
    opened = []

    def open_services(index=None):
        opened.append(Services(index=index, embedder=embedder))
        return opened[-1]

    patch.setattr("memory_inspector.server.engine.Services", open_services)
    patch.setattr("ui.sessions.health.keep_loaded", lambda: None)  # half a second of a test process
    return opened
