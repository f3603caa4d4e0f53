"""Graph: how are these connected?"""

from ui.frame import header
from ui.graph.graph_page import draw
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
