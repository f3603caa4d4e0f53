"""Metrics in Prometheus' text format at `/metrics`, for programs on this machine.

While people sign in, a program needs a token instead, and gets the figures of the token's tenant: behind a reverse
proxy every visitor seems to be on this machine, under any host name. Streamlit's own metrics are refused then.

All agents that use the database are counted, whichever process they run in. Figures are read when they are asked for.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio

from memory_inspector.recorder.attaching import Tokens, admit, no_other_host
from memory_inspector.recorder.span_receiver import bearer

if TYPE_CHECKING:
    from prometheus_client import Histogram
    from starlette.types import ASGIApp, Receive, Scope, Send

    from memory_core import Database
    from memory_inspector.upkeep.health import Load, LoadMeter

PATH = "/metrics"

STREAMLITS_PATH = "/_stcore/metrics"
"""Path of Streamlit's own metrics, of all sessions and caches of the server."""

QUANTILES = (0.5, 0.95)

GAUGES: "dict[str, tuple[str, Callable[[Load], float]]]" = {
    "sessions": ("Sessions in the database.", lambda load: load.sessions),
    "deliveries_waiting": ("Deliveries that wait to be learned.", lambda load: load.waiting),
    "deliveries_parked": ("Deliveries that failed too often and wait for a person.", lambda load: load.parked),
    "learning_lag_seconds": ("Age of the oldest delivery that waits.", lambda load: load.oldest_seconds),
}
"""Name, help and value of each gauge; each name begins with `memory_inspector_`."""

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds, in seconds, of the durations that are counted together."""

DURATIONS = (
    "Seconds of what this server itself did since it was first asked; agents elsewhere are not in it. put: messages "
    "stored, without learning. context: a prompt built and recorded. record: a call, or a batch of spans, stored."
)

_log = logging.getLogger(__name__)


class Metrics:
    """ASGI middleware that answers `/metrics` and leaves everything else alone."""

    def __init__(
        self, app: "ASGIApp", databases: "Callable[[], Iterator[Database]]", *, tokens: Tokens | None = None
    ) -> None:
        """Measure the databases that `databases` opens, one for each tenant; each is closed again.

        `tokens`: those of agents; None: all programs on this machine are served.
        """
        self.app = app
        self._databases, self._tokens = databases, tokens
        self._meters: dict[str, LoadMeter] = {}
        """Meter by database: a tenant that was deleted and made again has another."""
        self._durations: Histogram | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        path = scope["path"].rstrip("/") if scope["type"] == "http" else ""
        streamlits = path.endswith(STREAMLITS_PATH) and self._tokens is not None and self._tokens.required()
        if path != PATH and not streamlits:
            await self.app(scope, receive, send)
            return
        from starlette.datastructures import Headers
        from starlette.responses import PlainTextResponse, Response

        from memory_core.errors import MemoryInspectorError  # here, as all engine modules: the app starts without them

        # Not under the host names that visitors use: behind a proxy all of them seem to be on this machine.
        token = bearer(Headers(scope=scope))
        admitted = await admit(scope, token, self._tokens, no_other_host)
        if streamlits or admitted.problem is not None:
            problem = "Not served while people sign in." if streamlits else admitted.problem
            status = 403 if streamlits else admitted.status
            headers = {"www-authenticate": "Bearer"} if status == 401 else {}
            await PlainTextResponse(problem, status, headers)(scope, receive, send)
            return
        try:
            tenant = None if token is None else admitted.tenant
            body, media_type = await anyio.to_thread.run_sync(self._text, tenant)
        except MemoryInspectorError as error:
            _log.warning("metrics could not be read: %s", error)
            await PlainTextResponse("The database cannot be read.", 503)(scope, receive, send)
            return
        await Response(body, media_type=media_type)(scope, receive, send)

    def _text(self, tenant: str | None) -> tuple[bytes, str]:
        """Return the figures of a tenant, or of all (None), and their content type."""
        from prometheus_client import CollectorRegistry, Histogram, generate_latest
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

        from memory_core.process import observe
        from memory_inspector.upkeep.health import LoadMeter

        loads: dict[str, Load] = {}
        # One request at a time, as each continues where the last one ended.
        with self._lock:
            if self._durations is None:
                name, labels = "memory_inspector_operation_seconds", ("tenant", "operation")
                self._durations = histogram = Histogram(name, DURATIONS, labels, registry=None, buckets=BUCKETS)
                observe(lambda operation, tenant, seconds: histogram.labels(tenant, operation).observe(seconds))
            for database in self._databases():
                with database:
                    if tenant not in (None, database.tenant):
                        continue
                    meter = self._meters.setdefault(database.id, LoadMeter())
                    loads[database.tenant] = meter.measure(database)
        registry = CollectorRegistry()
        registry.register(_Collected(loads, self._durations, tenant))
        return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class _Collected:
    """The measured figures, as a collector of the client library."""

    def __init__(self, loads: "dict[str, Load]", durations: "Histogram", tenant: str | None) -> None:
        self._loads, self._durations, self._tenant = loads, durations, tenant

    def collect(self) -> Iterator[Any]:
        import numpy as np
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, (text, value) in GAUGES.items():
            gauge = GaugeMetricFamily(f"memory_inspector_{name}", text, labels=["tenant"])
            for tenant, load in self._loads.items():
                gauge.add_metric([tenant], value(load))
            yield gauge
        learning = GaugeMetricFamily(
            "memory_inspector_learning_seconds",
            "Time from due to learned, of the deliveries of the last 15 minutes.",
            labels=["tenant", "quantile"],
        )
        for tenant, load in self._loads.items():
            for quantile in QUANTILES if load.learned_after else ():
                learning.add_metric([tenant, str(quantile)], float(np.quantile(load.learned_after, quantile)))
        yield learning
        text = "Events in the logs of all sessions, since this server was first asked."
        events = CounterMetricFamily("memory_inspector_events", text, labels=["tenant", "kind"])
        for tenant, load in self._loads.items():
            for kind, count in load.events.items():
                events.add_metric([tenant, kind], count)
        yield events
        for durations in self._durations.collect():
            durations.samples = [s for s in durations.samples if self._tenant in (None, s.labels["tenant"])]
            yield durations
