"""The app behind security headers: `streamlit run serve.py`, which is what `make run` starts."""

import contextlib
import threading
from collections.abc import AsyncIterator

import streamlit as st
from starlette.middleware import Middleware

from ui.security import SecurityHeaders
from ui.warm_up import warm_up

AFTER_SECONDS = 0.5
"""Loading takes the processor from the server's own start, so it begins a little later."""


@contextlib.asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Once the server answers, load what the first visitor will need."""
    soon = threading.Timer(AFTER_SECONDS, warm_up)
    soon.daemon = True
    soon.start()
    yield


app = st.App("app.py", lifespan=lifespan, middleware=[Middleware(SecurityHeaders)])
