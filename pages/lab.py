"""Lab: what if the memory were set differently?"""

from ui import frame
from ui.lab.page import draw
from ui.nav import require_shell

require_shell()

frame.page(draw, follows=True)
