"""The page Context: the exact prompt of a turn, and what was left out of it."""

from ui.context.context_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
