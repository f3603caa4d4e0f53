"""Timeline: when did it change?"""

from ui import frame
from ui.nav import require_shell
from ui.timeline.page import draw

require_shell()

frame.page(draw, follows=True)
