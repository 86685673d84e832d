"""Tracks which ports carry traffic, from the readings of ports with a recent fault.

A port that is drained by routing policy stays up, so its state does not show the drain. Its traffic does, if it had
any. `unanswered.py` uses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any

from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.errors import Reject
from streams.wire.models import PortQuality, PortReadings, Source

_RETAINED_NS = 86_400_000_000_000
"""The traffic of a port that is no longer read is dropped after a day."""


@dataclass(frozen=True, slots=True)
class TrafficRun:
    """Consecutive readings of one port, all with traffic (`is_busy`) or all without."""

    is_busy: bool
    begin_ns: int
    first_end_ns: int
    """The end of the first reading, during which the traffic may have begun or stopped."""
    end_ns: int
    busy_ns: int = 0
    """The end of the newest reading with traffic, also before this run; 0 if there was none."""


_run_fields = attrgetter(*(own.name for own in fields(TrafficRun)))


def extend_traffic(run: TrafficRun | None, readings: PortReadings, idle_bps: float) -> TrafficRun | None:
    """Return the run extended by the next readings of its port; None if no frame counter is read."""
    if run is not None and readings.end_ns <= run.end_ns:
        return run
    if readings.rx_bytes is None:
        return None
    is_busy = readings.rx_bytes * 8 >= idle_bps * (readings.end_ns - readings.begin_ns) / 1e9
    busy_ns = readings.end_ns if is_busy else run.busy_ns if run is not None else 0
    if run is not None and run.is_busy is is_busy and run.end_ns == readings.begin_ns:
        return TrafficRun(is_busy, run.begin_ns, run.first_end_ns, readings.end_ns, busy_ns)
    return TrafficRun(is_busy, readings.begin_ns, readings.end_ns, readings.end_ns, busy_ns)


class LinkTraffic:
    """The newest run of each port of the inventory, by source and the source's port name."""

    def __init__(self, idle_bps: float) -> None:
        self._idle_bps = idle_bps
        self._runs: dict[str, dict[tuple[Source, str], TrafficRun]] = {}
        self._pruned_ns = 0

    def update(self, message: PortQuality) -> None:
        """Process the readings of a device."""
        own = self._runs.setdefault(message.device, {})
        for readings in message.readings:
            key = message.source, readings.port
            run = extend_traffic(own.get(key), readings, self._idle_bps)
            if run is not None:
                own[key] = run
            else:
                own.pop(key, None)

    def runs(self, end: Port, topology: Topology, after_ns: int) -> list[TrafficRun]:
        """Return the runs of a link's end that continue after a time, one for each source."""
        return [
            run
            for (_, name), run in self._runs.get(end.device, {}).items()
            if run.end_ns > after_ns and (name == end.port or topology.resolve_port(end.device, name) == end)
        ]

    def advance(self, now_ns: int, topology: Topology) -> None:
        """Once an hour, drop the runs that ended a day ago and those of devices that the inventory does not name."""
        if now_ns - self._pruned_ns < _RETAINED_NS // 24:
            return
        self._pruned_ns = now_ns
        self._runs = {
            device: retained
            for device, runs in self._runs.items()
            if device in topology.devices
            and (retained := {key: run for key, run in runs.items() if now_ns - run.end_ns < _RETAINED_NS})
        }

    def dump(self) -> list[list[Any]]:
        """Return the runs for a snapshot, in JSON types."""
        return [[device, *key, *_run_fields(run)] for device, runs in self._runs.items() for key, run in runs.items()]

    def load(self, rows: Sequence[Sequence[Any]]) -> None:
        """Restore the runs that `dump` returned; raises Reject on invalid data."""
        try:
            for device, source, port, *run in rows:
                self._runs.setdefault(device, {})[Source(source), port] = TrafficRun(*run)
        except (ValueError, TypeError) as error:
            raise Reject(f"the data is not the traffic of links: {error}") from error
