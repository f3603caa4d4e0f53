"""The page Lab: the conversation under other settings."""

from ui.frame import header
from ui.lab.lab_page import draw
from ui.tab.nav import require_shell

require_shell()

header.page(draw, follows=True)
