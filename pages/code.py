"""The page Coding agents: what sessions of eight programs were sent, and what their compactions lost."""

from ui.coding.coding_page import draw
from ui.tab.nav import require_shell

require_shell()

# Without `header.page`: these sessions are files of other programs, not sessions of the database.
draw()
