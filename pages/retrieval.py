"""The page Retrieval: what a question finds among the stored turns."""

from ui.frame import header
from ui.retrieval.retrieval_page import draw
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
