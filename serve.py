"""The app behind security headers: `streamlit run serve.py`, which is what `make run` starts."""

import streamlit as st
from starlette.middleware import Middleware

from ui.security import SecurityHeaders

app = st.App("app.py", middleware=[Middleware(SecurityHeaders)])
