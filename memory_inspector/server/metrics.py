"""Metrics in Prometheus' text format at `/metrics`, for programs on this machine.

All agents that use the database are counted, whichever process they run in. Figures are read when they are asked for.
"""

import logging
import threading
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio

from memory_inspector.server.attaching import forbidden

if TYPE_CHECKING:
    from prometheus_client import Histogram
    from starlette.types import ASGIApp, Receive, Scope, Send

    from memory_core import Database
    from memory_core.sessions.load import Load, LoadMeter

PATH = "/metrics"

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

    def __init__(self, app: "ASGIApp", databases: "Callable[[], Iterator[Database]]") -> None:
        """Measure the databases that `databases` opens, one for each tenant; each is closed again."""
        self.app = app
        self._databases = databases
        self._meters: dict[str, LoadMeter] = {}
        """Meter by database: a tenant that was deleted and made again has another."""
        self._durations: Histogram | None = None
        self._lock = threading.Lock()

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        if scope["type"] != "http" or scope["path"] != PATH:
            await self.app(scope, receive, send)
            return
        from starlette.responses import PlainTextResponse, Response

        from memory_core.errors import MemoryInspectorError  # here, as all engine modules: the app starts without them

        # Not under the host names that visitors use: behind a proxy all of them seem to be on this machine.
        if problem := forbidden(scope):
            await PlainTextResponse(problem, 403)(scope, receive, send)
            return
        try:
            body, media_type = await anyio.to_thread.run_sync(self._text)
        except MemoryInspectorError as error:
            _log.warning("metrics could not be read: %s", error)
            await PlainTextResponse("The database cannot be read.", 503)(scope, receive, send)
            return
        await Response(body, media_type=media_type)(scope, receive, send)

    def _text(self) -> tuple[bytes, str]:
        from prometheus_client import CollectorRegistry, Histogram, generate_latest
        from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

        from memory_core.engine.durations import observe
        from memory_core.sessions.load import LoadMeter

        loads: dict[str, Load] = {}
        # One request at a time, as each continues where the last one ended.
        with self._lock:
            if self._durations is None:
                name, labels = "memory_inspector_operation_seconds", ("tenant", "operation")
                self._durations = histogram = Histogram(name, DURATIONS, labels, registry=None, buckets=BUCKETS)
                observe(lambda operation, tenant, seconds: histogram.labels(tenant, operation).observe(seconds))
            for database in self._databases():
                with database:
                    meter = self._meters.setdefault(database.id, LoadMeter())
                    loads[database.tenant] = meter.measure(database)
        registry = CollectorRegistry()
        registry.register(_Collected(loads))
        registry.register(self._durations)
        return generate_latest(registry), CONTENT_TYPE_PLAIN_0_0_4


class _Collected:
    """The measured figures, as a collector of the client library."""

    def __init__(self, loads: "dict[str, Load]") -> None:
        self._loads = loads

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
