"""Sends the self-metrics of a process to a receiver of OTLP, from its own thread, at a fixed interval.

Names are those of a scrape. Counters are cumulative sums since the start of the process, so a failed request loses
nothing: the next one has the later values.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from streams.wire.errors import Misconfigured, Reject, Retry
from streams.wire.otlp_messages import Series, Value, encode_metrics
from streams.wire.otlp_params import OtlpParams

log = logging.getLogger(__name__)

_UCUM = {"bytes": "By", "seconds": "s", "number": "", "0 or 1": ""}
"""The code of a unit; any other is a count, whose unit is an annotation (semantic conventions, "Metrics")."""


def resource(part: str, cluster: str, instance: str | None = None) -> dict[str, Value]:
    """Return the resource of a process; Prometheus makes `job` and `instance` of it."""
    host = socket.gethostname()
    return {
        "service.namespace": "railsight",
        "service.name": part,
        "service.instance.id": instance or f"{host}:{os.getpid()}",
        "host.name": host,
        "railsight.cluster": cluster,
    }


def series(families: Iterable[Metric], units: Callable[[str], str]) -> list[Series]:
    """Return the counters and gauges of a registry; `units` returns the unit of a metric by its scraped name."""
    found: dict[str, Series] = {}
    points: dict[str, list[tuple[Mapping[str, str], float]]] = {}
    for family in families:
        if family.type not in ("counter", "gauge"):
            continue
        for sample in family.samples:
            if sample.name not in found:
                unit = units(sample.name)
                code = _UCUM.get(unit, f"{{{unit.replace(' ', '_')}}}")
                own = points[sample.name] = []
                found[sample.name] = Series(sample.name, family.documentation, code, family.type == "counter", own)
            points[sample.name].append((sample.labels, sample.value))
    return list(found.values())


@dataclass(frozen=True, slots=True)
class Sender:
    """The receiver of a process's self-metrics, its description of itself, and its clock in Unix nanoseconds."""

    params: OtlpParams
    resource: Mapping[str, Value]
    now_ns: Callable[[], int]


class MetricsExport:
    """The thread of one process; it ends with the process, or at `close`. Raises Misconfigured like OtlpClient."""

    def __init__(self, sender: Sender, registry: CollectorRegistry, units: Callable[[str], str]) -> None:
        from streams.wire.otlp_client import OtlpClient  # imports gRPC, which most processes do not need

        self._client, self._interval_s = OtlpClient(sender.params, "metrics"), sender.params.interval_s
        self._resource, self._registry, self._units, self._now_ns = sender.resource, registry, units, sender.now_ns
        self._start_ns = self._now_ns()
        self._problem = ""
        self._closed = threading.Event()
        threading.Thread(target=self._run, name="metrics-export", daemon=True).start()

    def close(self) -> None:
        """Stop sending."""
        self._closed.set()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._send()
            self._closed.wait(self._interval_s)

    def _send(self) -> None:
        found = series(self._registry.collect(), self._units)
        try:
            refused = self._client.send(encode_metrics(self._resource, found, self._start_ns, self._now_ns()))
        except (Retry, Reject, Misconfigured) as error:
            problem = str(error)
        else:
            problem = "" if refused is None else f"{refused.count} points refused: {refused.reason}"
        if problem and problem != self._problem:
            log.warning("self-metrics not sent, the next interval has them: %s", problem)
        self._problem = problem
