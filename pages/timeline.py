"""The page Timeline: tokens by turn, and every event in plain words."""

from ui.frame import header
from ui.tab.nav import require_shell
from ui.timeline.timeline_page import draw

require_shell()

header.page(draw, follows=True)
