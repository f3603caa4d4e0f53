"""Graph: how are these connected?"""

from ui import frame
from ui.graph.page import draw
from ui.nav import require_shell

require_shell()

frame.page(draw, follows=True)
