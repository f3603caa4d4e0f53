"""The page Blocks: what each block holds, and which is cut first."""

from ui.blocks.blocks_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
