"""The page Graph: the relations between entities."""

from ui.frame import header
from ui.graph.graph_page import draw
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
