"""Context: what exactly did the model get, and what was left out?"""

from ui import frame
from ui.context.page import draw
from ui.nav import require_shell

require_shell()

frame.page(draw, follows=True)
