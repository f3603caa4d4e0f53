"""Sessions: which conversation, and is everything working?"""

from ui.sessions.sessions_page import draw
from ui.tab.nav import require_shell

require_shell()

draw()
