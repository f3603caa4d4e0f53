"""Spans of agents that the receiver refused, for the log and the page Sessions: exporters do not read it."""

import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass

MAX_REASONS = 50
"""Maximum different reasons that are remembered, of all senders; the oldest is forgotten."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Refused:
    """Spans of one sender that were refused for one reason."""

    sender: str
    reason: str
    requests: int = 0
    """Number of requests that held such spans."""


class RefusedSpans:
    """Reasons of refusals since the server started, for each tenant. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: dict[tuple[str, str, str], Refused] = {}

    def add(self, tenant: str, sender: str, reasons: Iterable[str]) -> None:
        """Count a refusal for each of these reasons; each is logged once for a sender."""
        for reason in reasons:
            key = tenant, sender, reason
            with self._lock:
                new = key not in self._refused
                self._refused.setdefault(key, Refused(sender, reason)).requests += 1
                if len(self._refused) > MAX_REASONS:
                    del self._refused[next(iter(self._refused))]
            # Each once: an exporter sends the same again every five seconds.
            if new:
                _log.warning("Spans of %r are not recorded: %s", sender, reason)

    def of(self, tenant: str) -> list[Refused]:
        """Return what was refused of a tenant's agents, the latest reason first."""
        with self._lock:
            return [refused for (whose, _, _), refused in self._refused.items() if whose == tenant][::-1]

    def forget(self, tenant: str) -> None:
        """Forget what was refused of a tenant's agents, once somebody has read it."""
        with self._lock:
            self._refused = {key: refused for key, refused in self._refused.items() if key[0] != tenant}


refused_spans = RefusedSpans()
"""Refusals of this server."""
