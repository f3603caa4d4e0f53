"""What Streamlit does at its start, or with the first page, that this app has no use for: left out.

None of it has a public switch; a test says when Streamlit calls one of these names by another.
"""

from streamlit import delta_generator
from streamlit.components.v2.component_manager import BidiComponentManager
from streamlit.runtime.pages_manager import PagesManager


def leave_out() -> None:
    """To be called before the server is made."""
    # Or the first browser is shown the files of `pages/` as a menu of Streamlit's own, as wide as that likes it, until
    # app.py has said which pages there are.
    PagesManager.uses_pages_directory = False
    # Or every installed package is asked whether it brings components, 0.3 s with 150 of them. Those that this app
    # draws with are its own.
    BidiComponentManager.discover_and_register_components = _nothing_installed  # type: ignore[method-assign]
    # Or the first element has Streamlit find out whether this is a Python prompt, by the source files of all modules
    # that are loaded: 0.1 s.
    delta_generator._use_warning_has_been_displayed = True


def _nothing_installed(self: BidiComponentManager, *, start_file_watching: bool = True) -> None:
    pass
