"""Retains reported restarts of switches until a reading with counters confirms them.

A restart of a device excuses the downs of its links. Its report, or another boot id, is one sign: an agent that was
restarted has it, and so has a device after its clock was stepped. The counters of a device that restarted begin at 0,
and a device that is restarting is not read.
"""

from dataclasses import dataclass
from typing import Any

from streams.detect.measure.liveness import SourceState
from streams.detect.thresholds import ns
from streams.wire.models import Source, Symptom
from streams.wire.symptoms import Restart

POLLED = frozenset({Source.SOURCE_GNMI, Source.SOURCE_SNMP, Source.SOURCE_BRIDGE, Source.SOURCE_OTLP})
"""The sources whose boots are concluded from a distance; a host's agent reads its kernel's boot id."""
_WAIT_NS, _CADENCES = ns(60), 2
"""The longest wait for a reading: twice the cadence of SNMP polls, or of the source if that is longer."""
_BOOT_NS = ns(90)
"""A device that was read again within this time did not restart between the readings: a switch boots for minutes, and
sends nothing meanwhile (choice)."""
_MOST = 4096
"""The most pending restarts: one switch has one."""


@dataclass(slots=True)
class _Pending:
    restart: Symptom
    until_ns: int
    """The time of arrival after which it is not retained."""
    was_read: bool = False
    """True if the device was read all the time, without counters."""


class PendingRestarts:
    """The restarts of the devices of one partition that no reading has confirmed or refuted yet."""

    def __init__(self) -> None:
        self.pending: dict[tuple[str, Source], _Pending] = {}
        """The restarts by device and source."""

    def add(self, restart: Symptom, arrived_ns: int, state: SourceState) -> bool:
        """Retain a restart; return False if no reading of its source can confirm it."""
        key = restart.device, restart.source
        if restart.source not in POLLED or not state.last_ns or len(self.pending) >= _MOST:
            return False
        wait_ns = max(_WAIT_NS, _CADENCES * state.known_cadence_ns)
        self.pending.setdefault(key, _Pending(restart, arrived_ns + wait_ns))
        return True

    def before(self, device: str, source: Source, at_ns: int) -> Symptom | None:
        """Return the restart of a device before a reading of this time, which decides if it has counters."""
        known = self.pending.get((device, source))
        return None if known is None or at_ns < known.restart.at_ns else known.restart

    def add_reading(self, restart: Symptom, at_ns: int) -> None:
        """Add a reading after a pending restart that lacks the counters to confirm or refute it."""
        if at_ns - restart.since_ns <= _BOOT_NS:
            self.pending[restart.device, restart.source].was_read = True

    def remove(self, restart: Symptom) -> None:
        """Remove a restart that a reading has confirmed or refuted."""
        del self.pending[restart.device, restart.source]

    def due(self, arrival_ns: int) -> list[Symptom]:
        """Remove the restarts that no reading decided in time; return those during which the device was not read."""
        found = [key for key, own in self.pending.items() if own.until_ns < arrival_ns]
        return [own.restart for own in map(self.pending.pop, found) if not own.was_read]

    def dump(self) -> list[list[Any]]:
        return [
            [*key, restart.at_ns, restart.since_ns, restart.payload.ended_boot_id, own.until_ns, restart.by_event,
             own.was_read]
            for key, own in self.pending.items()
            if isinstance((restart := own.restart).payload, Restart)
        ]  # fmt: skip

    def load(self, data: list[list[Any]]) -> None:
        for device, number, at_ns, since_ns, boot_id, until_ns, *signs in data:  # earlier versions: by events alone
            source, is_event = Source(number), signs[:1] != [False]
            restart = Symptom(device, "", Restart(boot_id), at_ns, since_ns, source, by_event=is_event)
            self.pending[device, source] = _Pending(restart, until_ns, was_read=signs[1:] == [True])
