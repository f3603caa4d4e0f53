"""The page Sessions: the list of conversations, and the health of the system."""

from ui.sessions.sessions_page import draw
from ui.tab.nav import require_shell

require_shell()

# Without `header.page`: this page shows all sessions, not one session at a turn.
draw()
