"""Chat: what is memory doing right now?"""

from ui import frame
from ui.chat.page import draw
from ui.nav import require_shell

require_shell()

frame.page(draw, follows=True)
