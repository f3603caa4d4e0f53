"""Sessions: which conversation, and is everything working?"""

from ui.nav import require_shell
from ui.sessions.page import draw

require_shell()

draw()
