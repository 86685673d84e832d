"""The fabric of a run: its inventory, the links that go down, and the messages that its collectors send.

Thirty-two host links, each of which goes down in every tenth sequence or so. Every port carries the same traffic, and
only the links of `Truth` go down, so that any other open finding at the end is a breach.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from lab.world.fabric_arrays import rows_digest
from streams.fabric.catalogue import Metric
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import link_id
from streams.fabric.inventory import Inventory, Link
from streams.wire.models import (
    NO_INDEX,
    CollectorStatus,
    Event,
    EventKind,
    RowKind,
    Samples,
    Source,
    Table,
)

COLLECTOR = "chaos"
CADENCE_S = 0.5
_BYTES_PER_READING = 5_000_000_000
_COUNTERS = (Metric.RX_BYTES, Metric.TX_BYTES)
_GAUGES = (Metric.OPER_UP, Metric.ADMIN_UP)


@dataclass
class Truth:
    """The links of the run that go down: one early and for good, one for a while, one after the last fault."""

    stays_down: Link
    recovers: Link
    down_at_end: Link
    begun_ns: int
    """No finding of these links is older."""
    clock_device: str
    """A device without any of these links, whose clock a fault may change."""


@dataclass
class Fabric:
    """The devices with their counters and the states of their links."""

    run: int
    inventory: Inventory = field(
        default_factory=lambda: generate(GenerateParams(gpus=64, radix=16, rails=2, gpus_per_host=4, jobs=1))
    )
    down: set[str] = field(default_factory=set)
    """Ids of the links that are down now."""
    clock_offset_ns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ports: dict[str, list[tuple[str, Link]]] = {}
        for link in self.inventory.links:
            ports.setdefault(link.a_device, []).append((link.a_port, link))
            ports.setdefault(link.z_device, []).append((link.z_port, link))
        self._ports = {device: sorted(of, key=lambda port: port[0]) for device, of in ports.items()}
        self._sources = {
            device.name: Source.SOURCE_NIC if device.kind == "host" else Source.SOURCE_GNMI
            for device in self.inventory.devices
        }
        self._sequences: dict[tuple[str, str], int] = {}
        self._readings: dict[str, int] = {}
        self._host_links = [link for link in self.inventory.links if link.role == "host-link"]
        self._used = 0
        self.truth = self.next_truth(0)

    def next_truth(self, at_ns: int) -> Truth:
        """Choose the links of the next sequence: the next ones, each in another part of the fabric."""
        links, used = self._host_links, self._used
        self._used += 1
        third = len(links) // 3
        chosen = [links[(used + third * number) % len(links)] for number in range(3)]
        hosts = {link.a_device for link in chosen}
        clock_device = next(link.a_device for link in links if link.a_device not in hosts)
        self.truth = Truth(chosen[0], chosen[1], chosen[2], at_ns, clock_device)
        return self.truth

    @property
    def devices(self) -> tuple[str, ...]:
        """The names of all devices."""
        return tuple(self._ports)

    def samples(self, device: str, at_ns: int) -> Samples:
        """Return the next reading of a device."""
        ports = self._ports[device]
        rows = tuple(port for port, _ in ports)
        up = np.array([subject_id(link) not in self.down for _, link in ports], np.float64)
        reading = self._readings[device] = self._readings.get(device, 0) + 1
        counters = np.full((len(_COUNTERS), len(rows)), reading * _BYTES_PER_READING, np.uint64)
        return Samples(
            device=device,
            source=self._sources[device],
            collector=COLLECTOR,
            collector_run=self.run,
            sequence=self._next("samples", device),
            sampled_at_ns=at_ns + self.clock_offset_ns.get(device, 0),
            received_at_ns=at_ns,
            boot_id=1,
            row_kind=RowKind.ROW_KIND_PORT,
            row=rows,
            rows_digest=rows_digest(rows),
            counters=Table(_COUNTERS, (NO_INDEX,) * len(_COUNTERS), counters),
            gauges=Table(_GAUGES, (NO_INDEX,) * len(_GAUGES), np.vstack([up, np.ones(len(rows))])),
        )

    def status(self, device: str, at_ns: int) -> CollectorStatus:
        """Return the status of a device that answers."""
        return CollectorStatus(
            COLLECTOR, self.run, self._sources[device], device, at_ns, reachable=True,
            last_sample_at_ns=at_ns, cadence_ns=round(CADENCE_S * 1e9),
        )  # fmt: skip

    def log_event(self, device: str, at_ns: int) -> Event:
        """Return an event that no detector uses, to be counted."""
        return self._event(device, "", EventKind.LOG, at_ns)

    def change(self, link: Link, at_ns: int, *, down: bool) -> Iterator[Event]:
        """Change a link's state; yield the events of both ends."""
        (self.down.add if down else self.down.discard)(subject_id(link))
        kind = EventKind.LINK_DOWN if down else EventKind.LINK_UP
        for end in (link.a, link.z):
            yield self._event(end.device, end.port, kind, at_ns)

    def _event(self, device: str, port: str, kind: EventKind, at_ns: int) -> Event:
        return Event(
            device, port, kind, at_ns, at_ns, self._sources[device],
            collector=COLLECTOR, collector_run=self.run, sequence=self._next("events", device),
        )  # fmt: skip

    def _next(self, kind: str, device: str) -> int:
        number = self._sequences[kind, device] = self._sequences.get((kind, device), 0) + 1
        return number


def subject_id(link: Link) -> str:
    """Return the subject id of a host link, whose first end is the host."""
    return link_id(link.a, link.z)
