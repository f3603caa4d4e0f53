"""Retrieval: what would this question find?"""

from ui import frame
from ui.nav import require_shell
from ui.retrieval.page import draw

require_shell()

frame.page(draw, follows=True)
