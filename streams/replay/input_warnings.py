"""Recognises recordings from which no finding can be expected: times in another unit, devices of another fabric."""

from collections.abc import Sequence
from datetime import UTC, datetime

from streams.fabric.topology import Topology
from streams.replay.driver import event_time
from streams.wire.models import Message

_UNITS = (("seconds", 10**11), ("milliseconds", 10**14), ("microseconds", 10**17))
"""A time of our days in this unit, read as nanoseconds, is below the number."""
_SHOWN = 5


class InputWarnings:
    """Examines the messages of a run as they pass."""

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._devices: set[str] = set()
        self._last_ns = 0

    def examine(self, batch: Sequence[Message]) -> None:
        """Take a batch in the order of event time."""
        self._last_ns = event_time(batch[-1])[0]
        self._devices.update(getattr(message, "device", "") for message in batch)

    def lines(self) -> list[str]:
        """Return one line for each warning."""
        found = []
        devices = self._devices - {""}
        if devices and 0 < self._last_ns < _UNITS[-1][1]:
            unit = next(unit for unit, below in _UNITS if self._last_ns < below)
            at = datetime.fromtimestamp(self._last_ns / 1e9, UTC)
            found.append(
                f"the recording ends at {at:%Y-%m-%d %H:%M:%S}: its times look like {unit}; times are Unix nanoseconds"
                " or RFC 3339"
            )
        if unknown := sorted(devices - self._topology.devices.keys()):
            names = ", ".join(unknown[:_SHOWN]) + (", …" if len(unknown) > _SHOWN else "")
            found.append(f"{len(unknown)} of {len(devices)} devices are not in the inventory: {names}")
        return found
