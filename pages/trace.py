"""Where did it go?: what became of this, and which rule decided."""

from ui import frame
from ui.nav import require_shell
from ui.trace.page import draw

require_shell()

frame.page(draw, follows=True)
