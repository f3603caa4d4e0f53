"""Chat: what is memory doing right now?"""

from ui.chat.chat_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
