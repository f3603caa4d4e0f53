"""Facts: what does it believe, and is it true?"""

from ui import frame
from ui.facts.page import draw
from ui.nav import require_shell

require_shell()

frame.page(draw, follows=True)
