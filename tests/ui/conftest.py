"""Makes the app's own modules importable: they are no installed package, Streamlit finds them beside app.py."""

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[2])
if _ROOT not in sys.path:
    sys.path.insert(0, _ROOT)
