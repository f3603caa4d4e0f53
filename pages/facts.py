"""Facts: what does it believe, and is it true?"""

from ui.facts.facts_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
