"""The app behind security headers: `streamlit run serve.py`, which is what `make run` starts."""

import contextlib
import sys
import threading
from collections.abc import AsyncIterator

import streamlit as st
from starlette.middleware import Middleware

from memory_inspector.recorder.attaching import is_loopback
from memory_inspector.recorder.recording_proxy import RecordingProxy
from memory_inspector.recorder.span_receiver import SpanReceiver
from memory_inspector.server.metrics import Metrics
from ui.server import security
from ui.server.shell import Assets, Shell
from ui.server.start import AgentTokens, host_allowed, leave_out, open_receiver, session_of, tenant_databases, warm_up
from ui.tab.entry_point import started_whole

leave_out()
started_whole()
tokens = AgentTokens()


@contextlib.asynccontextmanager
async def lifespan(_: st.App) -> AsyncIterator[None]:
    """Load what the first visitor will need, while the server starts to answer."""
    if security.only_this_machine() and not is_loopback(str(st.get_option("server.address"))):
        print(security.NO_SIGN_IN, file=sys.stderr, flush=True)
    address, port = st.get_option("server.address"), st.get_option("server.port")
    print(f"Memory Inspector runs at http://{address}:{port}", flush=True)
    # A daemon thread: a server that is stopped early does not wait for imports and models.
    threading.Thread(target=warm_up, name="warm-up", daemon=True).start()
    yield


app = st.App(
    "app.py",
    lifespan=lifespan,
    middleware=[
        # These three come first, since requests of agents must not reach the pages.
        Middleware(RecordingProxy, session=session_of, host_allowed=host_allowed, tokens=tokens),
        Middleware(SpanReceiver, open_receiver=open_receiver, host_allowed=host_allowed, tokens=tokens),
        Middleware(Metrics, databases=tenant_databases, tokens=tokens),
        # Before the four below, so that their answers carry the headers too.
        Middleware(security.SecurityHeaders),
        Middleware(security.ThisMachineOnly),
        Middleware(security.OwnPagesOnly),
        Middleware(security.SignedInFiles),
        Middleware(Assets),
        Middleware(Shell),
    ],
)
