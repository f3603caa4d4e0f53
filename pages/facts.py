"""The page Facts: what a facts block has learned, to review and edit."""

from ui.facts.facts_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
