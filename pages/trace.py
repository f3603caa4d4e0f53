"""The page Where did it go?: follows a phrase to the prompt, or to the rule that lost it."""

from ui.frame import header
from ui.tab.nav import require_shell
from ui.trace.trace_page import draw

require_shell()

header.page(draw, follows=True)
