"""Context: what exactly did the model get, and what was left out?"""

from ui.context.context_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
