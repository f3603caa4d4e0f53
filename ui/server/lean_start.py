"""Disable what Streamlit does at its start, or with the first page, that this app does not need.

There is no public switch for these steps; a test fails if Streamlit renames any of the attributes set here.
"""

from streamlit import delta_generator
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.runtime.pages_manager import PagesManager


def leave_out() -> None:
    """Disable these steps of Streamlit; must be called before the server is created."""
    # Otherwise the first browser shows the files of `pages/` in Streamlit's own menu, in a width of its own, until
    # app.py has declared the pages.
    PagesManager.uses_pages_directory = False
    # Otherwise every installed package is searched for components, 0.3 s with 150 packages. This app draws only with
    # its own.
    BidiComponentManager.discover_and_register_components = _nothing_installed  # type: ignore[method-assign]
    # Otherwise the first element makes Streamlit check whether this is a Python prompt, by the source files of all
    # loaded modules: 0.1 s.
    delta_generator._use_warning_has_been_displayed = True


def _nothing_installed(self: BidiComponentManager, *, start_file_watching: bool = True) -> None:
    pass
