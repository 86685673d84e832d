"""Collects the metrics and the health of the automation, which status_http.py serves."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from prometheus_client import CollectorRegistry, Counter, Gauge, disable_created_metrics

from railsight_automation.errors import Misconfigured
from streams.health.status_http import REQUEST_S, StatusHttp

PROBE_S = 5.0
_ANSWER_S = 10.0


@dataclass(frozen=True)
class StatusParams:
    """Settings of `[status]`."""

    port: float = 9100
    host: str = "127.0.0.1"
    stuck_s: float = 60.0
    """Not live after this time with a blocked loop, or without a read while records wait and the brokers answer."""


class Offsets(Protocol):
    """The methods of aiokafka's consumer that the probe uses."""

    def assignment(self) -> set[Any]: ...

    async def end_offsets(self, partitions: Any) -> dict[Any, int]: ...


class Status:
    """Collects the metrics and the health of this process."""

    def __init__(self, now_s: Callable[[], float], stuck_s: float = 60.0) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        self._stuck_s, self._now_s = stuck_s, now_s

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"railsight_automation_{name}", text, labels, registry=self.registry)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"railsight_automation_{name}", text, registry=self.registry)

        self.records = counter("records", "Records of remediations that were read.")
        self.unreadable = counter("unreadable", "Records that could not be read, and were skipped.")
        self.lost = counter("input_lost_records", "Records that were deleted before they were read.")
        self.answers = counter("answers", "Results that Kafka has acknowledged, by outcome.", "outcome")
        self.retries = counter("send_retries", "Attempts to send a result that failed and were repeated.")
        self.open = gauge("open", "Remediations that are accepted and not answered yet.")
        self._lag = gauge("lag_records", "Records of remediations that are not read yet.")
        self._is_caught_up = False
        self._turned_s = self._moved_s = now_s()
        self._answered_s: float | None = None
        self._position = 0

    def caught_up(self) -> None:
        """Record that the topic was read to its end once; from now on remediations are carried out."""
        self._is_caught_up = True

    def read(self, positions: Iterable[int]) -> None:
        """Record a pass of the loop, with the positions up to which it has read."""
        self._turned_s = self._now_s()
        if (position := sum(positions)) != self._position:
            self._position, self._moved_s = position, self._turned_s

    def answered(self, end: int) -> None:
        """Record that the brokers answered, with the sum of the ends of the topic's partitions."""
        lag = max(0, end - self._position)
        self._answered_s = self._now_s()
        self._lag.set(lag)
        if not lag:
            self._moved_s = self._answered_s

    async def watch(self, consumer: Offsets) -> None:
        """Request the end of the topic from the brokers until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_ANSWER_S):
                    self.answered(sum((await consumer.end_offsets(consumer.assignment())).values()))
            except Exception:  # noqa: BLE001 — of any kind: without an answer it is not ready, which has a line
                pass
            await asyncio.sleep(PROBE_S)

    def liveness_problem(self) -> str:
        """Return why the process needs a restart; empty if it is live, as during the start and without brokers."""
        now_s = self._now_s()
        if not self._is_caught_up:
            return ""
        if (since_s := now_s - self._turned_s) > self._stuck_s:
            return f"loop: has not turned for {since_s:.0f} s"
        if not self._brokers_problem() and (since_s := now_s - self._moved_s) > self._stuck_s:
            return f"input: processed no record for {since_s:.0f} s though records wait"
        return ""

    def readiness_problem(self) -> str:
        """Return why the process is not working now; empty if it is ready."""
        starting = "" if self._is_caught_up else "start: the remediations are not read to their end"
        return self.liveness_problem() or starting or self._brokers_problem()

    def _brokers_problem(self) -> str:
        if self._answered_s is None:
            return "brokers: no answer yet"
        since_s = self._now_s() - self._answered_s
        return f"brokers: no answer for {since_s:.0f} s" if since_s > PROBE_S + _ANSWER_S else ""


def serve(status: Status, params: StatusParams, request_s: float = REQUEST_S) -> Callable[[], None]:
    """Start serving and return a function that stops it; raise Misconfigured if the address is not usable."""
    problems = status.liveness_problem, status.readiness_problem
    try:
        return StatusHttp(params.host, int(params.port), status.registry, *problems, request_s).close
    except OSError as error:
        raise Misconfigured(
            f"status: cannot listen on {params.host}:{params.port:g}: {error.strerror}; choose another port"
        ) from error
