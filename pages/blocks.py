"""Blocks: what does each block hold, and which is cut first?"""

from ui import frame
from ui.blocks.page import draw
from ui.nav import require_shell

require_shell()

frame.page(draw, follows=True)
