"""Holds which ports the sources of each device read, so that a healthy end of a link counts as read.

`measure` sends a symptom or a window only for a port with something notable. It also sends PortReaders whenever the
linked ports change that a source does not read with a state and a fresh counter; it reads the device's others.
"""

from dataclasses import dataclass, field, replace

import orjson

from streams.detect.evidence.episodes import confidence_of
from streams.detect.evidence.subjects import subject_ends
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Coverage, Endpoint, Finding, PortReaders, Source

_MAX_DEVICES = 65_536
"""Three times the largest fabric; beyond it, the devices whose ports changed longest ago are dropped."""


@dataclass(frozen=True, slots=True)
class UnreadPorts:
    """The ports of the inventory's links that one source of a device does not read."""

    source: Source
    first_ns: int
    silent_since_ns: int
    """The time of the last reading of a silent source; 0 while it reports."""
    ports: tuple[str, ...] = ()


@dataclass(slots=True)
class ReadersByDevice:
    """The ports that are read, in the whole fabric: device -> its sources."""

    devices: dict[str, list[UnreadPorts]] = field(default_factory=dict)
    _json: bytes = field(default=b"", init=False, repr=False, compare=False)
    """The encoded devices, until one changes: a quarter of the time of all snapshots of the largest fabric."""

    def dump(self) -> orjson.Fragment:
        """Return the value for a snapshot in JSON."""
        if not self._json:
            self._json = orjson.dumps({"devices": self.devices})
        return orjson.Fragment(self._json)

    def add(self, message: PortReaders) -> None:
        """Replace what is known of the sources of a message."""
        self._json = b""
        unread: dict[int, list[str]] = {}
        for place, port in zip(message.unread_source, message.unread_port, strict=True):
            unread.setdefault(place, []).append(port)
        of_sources = zip(message.devices, message.sources, message.first_ns, message.silent_since_ns, strict=True)
        for place, (device, source, first_ns, silent_since_ns) in enumerate(of_sources):
            others = [one for one in self.devices.pop(device, ()) if one.source is not source]
            own = UnreadPorts(source, first_ns, silent_since_ns, tuple(unread.get(place, ())))
            self.devices[device] = [*others, own]
        while len(self.devices) > _MAX_DEVICES:
            del self.devices[next(iter(self.devices))]

    def is_read(self, topology: Topology, end: Endpoint, at_ns: int) -> bool:
        """Return whether a source that reported at a time reads a port, which must be in the inventory."""
        return topology.table.number_at(Port(end.device, end.port)) is not None and any(
            one.first_ns <= at_ns and (not one.silent_since_ns or one.silent_since_ns >= at_ns)
            for one in self.devices.get(end.device, ())
            if end.port not in one.ports
        )


def count_read_ends(state: ReadersByDevice, finding: Finding, topology: Topology) -> Finding:
    """Return a finding of a link whose coverage counts the ends that are read, also those that show no fault.

    An end is read if a source reads its port and has reported since the newest evidence. An unknown coverage stays.
    """
    coverage, ends = finding.coverage, subject_ends(finding.subject)
    if coverage is None or coverage.seen is None or not coverage.missing or len(ends) < 2:
        return finding
    at_ns = max((one.window_end_ns or 0 for one in finding.evidence), default=0)
    silent = [end for end in ends if f"{end.device}/{end.port}" in coverage.missing]
    silent = [end for end in silent if not state.is_read(topology, end, at_ns)]
    read = [end for end in ends if end not in silent]
    missing = tuple(f"{end.device}/{end.port}" for end in silent)
    return replace(finding, coverage=Coverage(len(read), len(ends), missing), confidence=confidence_of(read))
