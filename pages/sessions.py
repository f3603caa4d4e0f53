"""Sessions: which conversation, and is everything working?"""

from ui.sessions.sessions_page import draw
from ui.tab.nav import require_shell

require_shell()

# Without `header.page`: this page shows all sessions, and no moment of one.
draw()
