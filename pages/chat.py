"""The page Chat: the conversation, and what memory did in each turn."""

from ui.chat.chat_page import draw
from ui.frame import header
from ui.tab.nav import require_shell

# First of all: a deep link to a new server runs this file alone, without the frame of app.py.
require_shell()

header.page(draw, follows=True)
