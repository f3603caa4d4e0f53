"""Chat: what is memory doing right now?"""

from ui.chat.chat_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

# First of all: a deep link to a new server runs this file alone, without the frame of app.py.
require_shell()

header.page(draw, follows=True)
