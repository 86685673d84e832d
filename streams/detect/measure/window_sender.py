"""Converts final windows of event time to the messages to send: of ports, of rails and of uplinks."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.comparison import HostRows
from streams.detect.measure.peer_selection import (
    PeerReport,
    RailReadings,
    host_rates,
    read_rails,
    retransmitting_ports,
    select_rails,
    select_uplinks,
)
from streams.detect.measure.storage.message_batch import ClosedWindows, DeviceSlot
from streams.detect.measure.storage.plausibility import Plausibility
from streams.detect.measure.storage.selection_state import PortWindowReport
from streams.detect.measure.storage.window_store import WindowSpec
from streams.detect.measure.window_selection import WindowSelector
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.inventory import Inventory
from streams.fabric.link_table import ABSENT
from streams.fabric.topology import Topology
from streams.wire.models import HostRates, PeerGroup, PeerWindow, Source, Window

Retries = Sequence[tuple[str, str, float]]
"""Host, port, and the rate of its retransmits as a multiple of the limit."""


class HostRatesBuffer:
    """The windows that are not emitted yet."""

    def __init__(self, width_ns: int, lateness_ns: int) -> None:
        self._width_ns, self._lateness_ns = width_ns, lateness_ns
        self.windows: dict[tuple[int, int], tuple[list[str], npt.NDArray[np.float64], Retries]] = {}
        """Number of the window and of the source -> hosts, one row for each field of HostRows, and the retransmits."""

    def add(self, number: int, source: Source, hosts: Sequence[str], rows: HostRows, retries: Retries) -> None:
        names, known, before = self.windows.get((number, source.value), ([], np.empty((len(rows), 0)), ()))
        joined = np.concatenate([known, np.array(rows)], axis=1)
        self.windows[number, source.value] = [*names, *hosts], joined, [*before, *retries]

    def due(self, watermark_ns: int) -> Iterator[HostRates]:
        """Yield and drop the complete windows, with the hosts by name."""
        for number, source in sorted(self.windows):
            begin_ns = number * self._width_ns
            if begin_ns + self._width_ns + self._lateness_ns > watermark_ns:
                break
            names, rows, retries = self.windows.pop((number, source))
            order = sorted(range(len(names)), key=names.__getitem__)
            rate, speed, *counts = rows[:, order].tolist()
            rails, stalled, retransmitting = (tuple(map(int, one)) for one in counts)
            hosts = tuple(names[n] for n in order)
            place = {host: n for n, host in enumerate(hosts)} if retries else {}
            yield HostRates(
                Source(source), begin_ns, begin_ns + self._width_ns, hosts, tuple(rate), tuple(speed), rails, stalled,
                retransmitting, tuple(place[host] for host, _, _ in retries), tuple(port for _, port, _ in retries),
                tuple(ratio for _, _, ratio in retries),
            )  # fmt: skip

    def dump(self) -> list[list[Any]]:
        return [
            [number, source, names, rows.tolist(), list(retries)]
            for (number, source), (names, rows, retries) in self.windows.items()
        ]

    def load(self, data: list[list[Any]]) -> None:
        self.windows = {  # released versions had no retransmits
            (number, source): (names, np.array(rows, np.float64), [tuple(one) for of in retries for one in of])
            for number, source, names, rows, *retries in data
        }


NumberedWindow = tuple[int, Window | PeerWindow]
"""The number of the message that makes a window final, and the window."""

_Array = npt.NDArray[np.float64]


class _Peers(NamedTuple):
    """The peers of a device."""

    group: PeerGroup
    speeds: _Array
    """The speeds of its ports: NaN for other ports, 0 if unknown."""
    rails: _Array | None = None
    """The numbers of the rails of a host's ports; NaN for other ports."""
    sprayed: _Array | None = None
    """As `rails`, of the ports below switches that spray packets; None if it has none."""


class WindowSender:
    """Selects final windows, and converts them to messages under one version of the inventory."""

    def __init__(self, params: DetectParams) -> None:
        self._params = params
        self._selector = WindowSelector(params)
        self.plausibility = Plausibility()
        self.spec = WindowSpec(
            ns(params.window.width_s), ns(params.lateness_s), params.window.ber_report, params.window.optics_dip_db
        )
        self.host_rates = HostRatesBuffer(self.spec.width_ns, self.spec.lateness_ns)
        self._topology, self._is_sprayed = Topology(Inventory()), np.empty(0, np.bool_)
        self._peers: dict[tuple[str, Source], tuple[tuple[str, ...], _Peers | None]] = {}
        """Device and source -> its rows and its peers."""

    def set_topology(self, topology: Topology) -> None:
        self._topology = topology
        self._is_sprayed = np.array([device.is_sprayed for device in topology.devices.values()], np.bool_)
        self._peers = {}

    def process(self, closed: ClosedWindows) -> list[NumberedWindow]:
        found: list[NumberedWindow] = []
        messages = closed.messages
        for report in self._selector.select(closed):
            message = messages[report.message]
            found.append((message.number, self._window(message.slot, report)))
        peers_of, unknown = self._peers, []
        for message in messages:
            slot = message.slot
            if (one := peers_of.get((slot.device, slot.source))) is None or one[0] is not slot.rows:
                unknown.append(slot)
        if unknown:  # after a takeover or a new inventory every device
            self._find_peers(unknown)
        known = [
            (i, peers)
            for i, message in enumerate(messages)
            if (peers := peers_of[message.slot.device, message.slot.source][1]) is not None
        ]
        for group in (PeerGroup.HOST_RAILS, PeerGroup.SWITCH_UPLINKS) if known else ():
            own = [i for i, peers in known if peers.group is group]
            if not own:
                continue
            of_group = [peers for _, peers in known if peers.group is group]
            speeds = np.stack([peers.speeds for peers in of_group])
            if group is PeerGroup.HOST_RAILS:
                rails = read_rails(closed, own, speeds, self.plausibility)
                self._add_host_rates(closed, rails, of_group)
                reports = select_rails(self._params, closed, rails)
            else:
                reports = select_uplinks(self._params, closed, own, speeds, self.plausibility)
            for peer in reports:
                number = int(closed.numbers[peer.window])
                message = messages[peer.window]
                found.append((message.number, self._peer_window(message.slot, number, peer, group)))
        return found

    def _add_host_rates(self, closed: ClosedWindows, rails: RailReadings, of_hosts: Sequence[_Peers]) -> None:
        place = {window: n for n, window in enumerate(rails.hosts)}
        numbers = np.stack([peers.rails for peers in of_hosts if peers.rails is not None])
        for number, rows, own in host_rates(self._params, closed, rails, numbers):
            slots = [closed.messages[window].slot for window in own]
            for source in {slot.source for slot in slots}:
                of_source = [n for n, slot in enumerate(slots) if slot.source is source]
                hosts = [slots[n].device for n in of_source]
                retries: list[tuple[str, str, float]] = []
                for n in of_source:
                    planes = of_hosts[place[own[n]]].sprayed
                    if planes is not None and rows.retransmitting[n]:
                        found = retransmitting_ports(self._params, rails, place[own[n]], planes)
                        retries += [(slots[n].device, self._port(slots[n], row), ratio) for row, ratio in found]
                self.host_rates.add(number, source, hosts, HostRows(*(values[of_source] for values in rows)), retries)

    def _port(self, slot: DeviceSlot, row: int) -> str:
        return self._topology.resolve_port(slot.device, slot.rows[row]).port

    def _window(self, slot: DeviceSlot, report: PortWindowReport) -> Window:
        port = self._port(slot, report.row)
        begin_ns, values = report.number * self.spec.width_ns, report.values.values()
        return Window(
            slot.device, port, slot.source, begin_ns, begin_ns + self.spec.width_ns, report.since_ns, report.at_ns,
            tuple(metric for metric, _ in report.values), tuple(index for _, index in report.values),
            tuple(value for value, _ in values), tuple(before for _, before in values), report.extremes,
        )  # fmt: skip

    def _peer_window(self, slot: DeviceSlot, number: int, report: PeerReport, group: PeerGroup) -> PeerWindow:
        begin_ns = number * self.spec.width_ns
        ports = tuple(self._topology.resolve_ports(slot.device, slot.rows))
        return PeerWindow(
            slot.device, slot.source, group, begin_ns, begin_ns + self.spec.width_ns, report.since_ns, report.at_ns,
            ports, report.metrics, report.values,
        )  # fmt: skip

    def _find_peers(self, slots: Sequence[DeviceSlot]) -> None:
        """Store the peers of devices with as many rows each; None for a device without peers to compare."""
        topology, table = self._topology, self._topology.table
        devices = [topology.devices.get(slot.device) for slot in slots]
        links = table.numbers_at(
            [slot.device for slot in slots], [topology.resolve_ports(slot.device, slot.rows) for slot in slots]
        )
        own, rows = np.nonzero(links != ABSENT)
        links = links[own, rows]
        is_host = np.array([device is not None and device.kind == "host" for device in devices])
        numbers = np.array([table.number.get(slot.device, ABSENT) for slot in slots])
        is_uplink = table.is_uplink[links] & (table.lower[links] == numbers[own])
        is_peer = np.where(is_host[own], table.rail[links] != ABSENT, is_uplink)
        own, rows, links = own[is_peer], rows[is_peer], links[is_peer]
        speeds, rails, sprayed = np.full((3, len(slots), len(slots[0].rows)), np.nan)
        speeds[own, rows] = table.bps_of_speed[table.speed[links]]
        rails[own, rows] = table.rail[links]
        sprayed[own, rows] = np.where(self._is_sprayed[table.upper[links]], rails[own, rows], np.nan)
        is_sprayed = ~np.isnan(sprayed).all(axis=1)
        peers = np.bincount(own, minlength=len(slots))
        for n, (slot, device) in enumerate(zip(slots, devices, strict=True)):
            found = None
            if is_host[n]:
                found = _Peers(PeerGroup.HOST_RAILS, speeds[n], rails[n], sprayed[n] if is_sprayed[n] else None)
            elif device is not None and device.kind == "switch" and peers[n] > 1:
                found = _Peers(PeerGroup.SWITCH_UPLINKS, speeds[n])
            self._peers[slot.device, slot.source] = slot.rows, found
