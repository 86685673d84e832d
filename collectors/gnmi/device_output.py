"""Publishes what one device reports: its samples, events and facts, and whether it is reachable.

The device's identity, clock offset and last sample outlive its connections here.
"""

import asyncio
from collections.abc import Iterable

import structlog

from collectors.core.columns import Reading
from collectors.core.context import Emitter
from collectors.core.metrics import CollectorMetrics
from collectors.core.poll import StatusSchedule, log_reachability
from collectors.gnmi.device_identity import DeviceIdentity, facts_fields
from collectors.gnmi.parse import Output
from streams.instrument.clock import Clock
from streams.wire.models import CollectorStatus, Facts, Neighbor

_log = structlog.get_logger("railsight.gnmi")

_SILENT_CADENCES = 3
_SILENT_AT_LEAST_S = 15.0


def silent_after_s(cadence_s: float) -> float:
    """Return the time without a sample after which a connected device is silent."""
    return max(_SILENT_CADENCES * cadence_s, _SILENT_AT_LEAST_S)


class DeviceOutput:
    """The published side of one device."""

    def __init__(
        self, name: str, cadence_s: float, status_every_s: float, emitter: Emitter, metrics: CollectorMetrics,
        clock: Clock,
    ) -> None:  # fmt: skip
        self.name = name
        self.identity = DeviceIdentity()
        self.reachable = False
        self._error = "not connected yet"
        self._cadence_s = cadence_s
        self._emitter = emitter
        self._metrics = metrics
        self._clock = clock
        self._statuses = StatusSchedule(name, cadence_s, status_every_s)

    def emit(self, outputs: Iterable[Output], received_ns: int) -> None:
        """Publish readings and events."""
        for output in outputs:
            if isinstance(output, Reading):
                self._emitter.samples(self.name, output)
                self._statuses.sampled(asyncio.get_running_loop().time())
            else:
                self._emitter.event(self.name, output, received_ns)

    def emit_facts(self) -> None:
        """Publish the facts if they have changed since the last time."""
        if not self.identity.facts_changed:
            return
        self.identity.facts_changed = False
        fields = facts_fields(self.identity)
        fields["neighbors"] = tuple(Neighbor(*neighbor) for neighbor in fields["neighbors"])
        self._emitter.facts(Facts(self.name, self._clock.now_ns(), self._emitter.source, **fields))

    def set_reachable(self, *, reachable: bool, error: str = "") -> None:
        """Log and publish a change of the reachability, or of the reason why there is none."""
        if reachable == self.reachable and error == self._error:
            return
        log_reachability(_log, self.name, self.reachable, reachable=reachable, error=error)
        self.reachable, self._error = reachable, error
        self._publish_status()

    async def report_status(self, phase: float) -> None:
        """Publish the status when it is due, until cancelled; `phase` (0 to 1) spreads devices over the cadence."""
        await asyncio.sleep(self._cadence_s * phase)
        while True:
            self._publish_status()
            await asyncio.sleep(self._cadence_s)

    def _publish_status(self) -> None:
        error = "" if self.reachable else self._error
        if not self._statuses.is_due(asyncio.get_running_loop().time(), reachable=self.reachable, error=error):
            return
        offset_ns = self.identity.skew.offset_ns
        if self.reachable:
            self._metrics.set("clock_offset_seconds", offset_ns / 1e9, self.name)
        self._emitter.status(
            CollectorStatus(
                self._emitter.collector, self._emitter.run, self._emitter.source, self.name, self._clock.now_ns(),
                self.reachable, error, self.identity.last_sample_at_ns, offset_ns if self.reachable else 0,
                int(self._cadence_s * 1e9),
            )
        )  # fmt: skip
