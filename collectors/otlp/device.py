"""One device: its series, its readings, and what is published of it."""

import asyncio
import contextlib
import math
from collections.abc import Iterable

from collectors.core.columns import Reading
from collectors.core.context import CollectorContext, DeviceEvent, Emitter
from collectors.core.device_share import DeviceShare
from collectors.gnmi.device_output import DeviceOutput, silent_after_s
from collectors.otlp.cell import Total
from collectors.otlp.params import Params
from collectors.otlp.points import attributes, split
from collectors.otlp.readings import Batches, Readings
from collectors.otlp.tables import LONGEST_NAME
from streams.wire.errors import Reject
from streams.wire.models import RowKind

_NEIGHBOR = ("interface", "system_name", "port_id")
_NEIGHBOR_S = 90.0
"""The age of a neighbor that is removed: three times the longest usual interval of LLDP, 30 s."""


class OtlpDevice:
    """One device; its readings are gathered from all requests that have values of it."""

    def __init__(
        self, name: str, params: Params, context: CollectorContext, emitter: Emitter, share: DeviceShare
    ) -> None:
        self.name = name
        self._params = params
        self._metrics = context.metrics
        self._clock = context.clock
        self.output = DeviceOutput(name, params, emitter, context.metrics, self._clock, share)
        self.units: dict[str, float] = {}
        self._readings: dict[RowKind, Readings] = {}
        self._totals: dict[tuple[Readings, int], Total] = {}
        self._neighbor_s: dict[str, float] = {}
        self._series = 0
        self._newest_s = float("-inf")

    def readings(self, kind: RowKind) -> Readings:
        """Return the readings of a kind of row."""
        found = self._readings.get(kind)
        if found is None:
            found = self._readings[kind] = Readings(self.name, kind, self._params)
        return found

    def total(self, readings: Readings, slot: int) -> Total:
        """Return the sum of the series of a slot."""
        return self._totals.setdefault((readings, slot), Total())

    def remembers(self) -> bool:
        """Take room for one more series; return False, and count it, past the limit."""
        if self._series >= self._params.max_series:
            self.left_out()
            return False
        self._series += 1
        return True

    def left_out(self) -> None:
        """Count a series past the limits."""
        self._metrics.add("out_of_bounds", self.name)

    def add_unit(self, name: str, points: Iterable[bytes]) -> None:
        """Record the newest value of a metric that is the unit of others."""
        for data in points:
            with contextlib.suppress(Reject):
                value = split(data).value
                if value is not None and 0 < value < math.inf:
                    self.units[name] = value

    def add_neighbors(self, points: Iterable[bytes], now_s: float) -> None:
        """Record the LLDP neighbors in the attributes of points."""
        for data in points:
            with contextlib.suppress(Reject):
                found = attributes(split(data).rest)[0].texts
                port, system, far_port = (found.get(name, "") for name in _NEIGHBOR)
                if not (port and system and far_port) or max(map(len, (port, system, far_port))) > LONGEST_NAME:
                    continue
                if port not in self._neighbor_s and len(self._neighbor_s) >= self._params.max_ports:
                    self.left_out()
                    continue
                self._neighbor_s[port] = now_s
                self.output.identity.add_facts(("neighbor/system-name", port), system)
                self.output.identity.add_facts(("neighbor/port-id", port), far_port)

    def _forget_neighbors(self) -> None:
        """Remove the neighbors that are missing while others are sent."""
        newest_s = max(self._neighbor_s.values(), default=0.0)
        for port in [port for port, seen_s in self._neighbor_s.items() if newest_s - seen_s > _NEIGHBOR_S]:
            del self._neighbor_s[port]
            identity = self.output.identity
            identity.facts.pop(("neighbor/system-name", port), None)
            identity.facts.pop(("neighbor/port-id", port), None)
            identity.facts_changed = True

    def add(self, readings: Readings, times: Batches, received_ns: int, now_s: float) -> bool:
        """Add values of a request; return whether there are any."""
        if not times:
            return False
        self._newest_s = now_s
        self._metrics.add("updates", self.name, sum(map(len, times.values())))
        self._emit(readings, readings.add(times, received_ns))
        self.output.set_reachable(reachable=True)
        return True

    async def report_facts(self) -> None:
        """Publish changed facts once per cadence, until cancelled."""
        while True:
            await asyncio.sleep(self._params.cadence_s)
            self._forget_neighbors()
            self.output.emit_facts()

    def report_silence(self, now_s: float) -> None:
        """Publish that a device without samples for too long is unreachable."""
        silent_s = silent_after_s(self._params.cadence_s)
        if self.output.reachable and now_s - self._newest_s > silent_s:
            self.output.set_reachable(reachable=False, error=f"no samples for {silent_s:.0f} s")

    def end(self) -> None:
        """Publish all values that wait."""
        for readings in self._readings.values():
            if readings.is_gathering:
                self._emit(readings, readings.end())

    def _emit(self, readings: Readings, outputs: Iterable[Reading | DeviceEvent]) -> None:
        found = list(outputs)
        for output in found:
            if isinstance(output, Reading):
                self.output.identity.add_sample(output)
        self.output.emit(found, self._clock.now_ns(), readings.kind)
        if readings.replaced:
            self._metrics.add("clock_replaced", self.name, readings.replaced)
            readings.replaced = 0
