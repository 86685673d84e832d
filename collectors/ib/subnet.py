"""Converts the ports of an answer to one reading for each device, and reports the devices that an answer lacks.

An answer has the last sample of each port, and its time shows whether it is new. Without times, an answer that equals
the one before is not new: an older sample would look like a port without traffic, and the next like twice the traffic.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator

import structlog

from collectors.core.columns import RowComposer, RowReading
from collectors.core.context import CollectorContext, Emitter, StatusReporter
from collectors.core.poll import log_reachability
from collectors.ib.formats import PortReading
from collectors.ib.nodes import Nodes, Place
from collectors.ib.params import Params
from collectors.ib.signals import values_of
from streams.wire.bounds import NAME_CHARACTERS
from streams.wire.models import NO_INDEX, Samples

_log = structlog.get_logger("railsight.ib")

_MISSING_CADENCES = 1.5
"""As of StatusSchedule: a sample that is this late is missing."""


class SubnetDevice:
    """One device of one input."""

    def __init__(
        self, name: str, cadence_s: float, emitter: Emitter, context: CollectorContext, params: Params
    ) -> None:
        self.name = name
        self.composer = RowComposer()
        self.newest_ns: dict[str, int] = {}
        """The time of the newest sample of each port."""
        self.statuses = StatusReporter(emitter, name, cadence_s, params.status_every_s, context.clock)
        self.sampled_s = asyncio.get_running_loop().time()
        self._reachable, self._error = False, "not read yet"

    def report(self, error: str = "") -> None:
        """Report that the device was read, or why it was not."""
        reachable = not error
        if reachable != self._reachable or error != self._error:
            log_reachability(_log, self.name, self._reachable, reachable=reachable, error=error)
        self._reachable, self._error = reachable, error
        self.statuses.report(reachable=reachable, error=error)


class Subnet:
    """The devices of one input."""

    def __init__(
        self, cadence_s: float, params: Params, context: CollectorContext, emitter: Emitter, nodes: Nodes
    ) -> None:
        self.nodes = nodes
        self._cadence_s, self._params, self._context, self._emitter = cadence_s, params, context, emitter
        self._devices: dict[str, SubnetDevice] = {}
        self._left_out: Counter[str] = Counter()

    def add(self, ports: Iterable[PortReading], read_ns: int) -> Iterator[Samples]:
        """Publish the ports with newer values; `read_ns` is the time of those that have none. Yield the messages."""
        now_s = asyncio.get_running_loop().time()
        received_ns = self._context.clock.now_ns()
        for name, rows in self._rows(ports, read_ns).items():
            device = self._device(name)
            if device is None:
                continue
            fresh = {port: row for port, row in rows.items() if row.at_ns > device.newest_ns.get(port, 0)}
            if not fresh:
                continue
            device.newest_ns |= {port: row.at_ns for port, row in fresh.items()}
            samples = self._emitter.samples(name, device.composer.compose(fresh, received_ns, 0))
            self._context.metrics.add("updates", name, sum(len(row.values) for row in fresh.values()))
            device.sampled_s = now_s
            device.statuses.sampled(samples.sampled_at_ns)
            device.report()
            yield samples

    def report_missing(self, error: str) -> None:
        """Report the devices without a new sample since one and a half cadences."""
        now_s = asyncio.get_running_loop().time()
        for device in self._devices.values():
            if now_s - device.sampled_s > _MISSING_CADENCES * self._cadence_s:
                device.report(error)

    def _device(self, name: str) -> SubnetDevice | None:
        found = self._devices.get(name)
        if found is None:
            if len(self._devices) >= self._params.max_devices:
                self._context.metrics.add("out_of_bounds")
                return None
            found = self._devices[name] = SubnetDevice(
                name, self._cadence_s, self._emitter, self._context, self._params
            )
        return found

    def _rows(self, ports: Iterable[PortReading], read_ns: int) -> dict[str, dict[str, RowReading]]:
        found: dict[str, dict[str, RowReading]] = {}
        owners: dict[tuple[str, str], str] = {}
        left_out: Counter[str] = Counter()
        for one in ports:
            place = self.nodes.place(one)
            if isinstance(place, str):
                left_out[place] += 1
                continue
            if owners.setdefault((place.device, place.port), one.node_guid) != one.node_guid:
                left_out[f"a second node with the ports of {place.device}: set devices.id to its GUID"] += 1
                continue
            if (row := _row(one, place, read_ns)) is not None:
                found.setdefault(place.device, {})[place.port] = row
        self._report_left_out(left_out)
        return found

    def _report_left_out(self, left_out: Counter[str]) -> None:
        for reason, count in left_out.items():
            self._context.metrics.add("passed_over", reason, count)
        if left_out.keys() != self._left_out.keys():
            for reason in left_out.keys() - self._left_out.keys():
                _log.warning("ports left out", why=reason, ports=left_out[reason])
        self._left_out = left_out


def _row(reading: PortReading, place: Place, read_ns: int) -> RowReading | None:
    """Return the values of a port; None if it has none, or no name that fits a message."""
    if not place.port or max(len(place.port), len(place.device)) > NAME_CHARACTERS:
        return None
    values = dict(values_of(reading.values, place.kind))
    if not values:
        return None
    slots = tuple((metric, NO_INDEX) for metric in values)
    return RowReading(reading.at_ns or read_ns, slots, tuple(values.values()))
