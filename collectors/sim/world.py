"""How the fabric stands at a moment: what each port counts and whether it is up. Pure: time is an argument.

The world is a function of (inventory, faults, seed, time), so both ends of a link always agree, and asking twice or
in any order gives the same. What a device counts begins at zero when it boots.
"""

import random
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from collectors.sim.faults import (
    AdminDown,
    Collapse,
    Degrading,
    Fault,
    GpuFault,
    Incast,
    LinkDown,
    LinkFlap,
    NarrowPcie,
    OtherVersion,
    PauseStorm,
    Reboot,
    SlowRail,
    Span,
    Swapped,
    Uneven,
)
from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link

_S = 1_000_000_000
_CNPS = 8_000
"""A second, at a host that sends to a crowded port: DCQCN tells each flow so 20,000 times at most."""
_DAY = 86_400 * _S
_FRAME_BYTES = 4096
_LOAD = (0.46, 0.48)
"""Of its speed that a link carries each way: a healthy fabric stays within three hundredths (DETECTION 3)."""
_FULL = 0.97
"""And a full one: headers and gaps take the rest."""
_FCS_A_DOWN = 3
"""Frames lost to a bad checksum each time that a signal goes: the last ones before it does."""


@dataclass(frozen=True, slots=True)
class PortState:
    """One port at a moment; counters since the device booted."""

    name: str
    speed_bps: int
    admin_up: bool
    oper_up: bool
    last_change_ns: int
    transitions: int
    rx_bytes: int
    tx_bytes: int
    fcs_errors: int
    corrected_bits: int = 0
    """By FEC."""
    worst_lane: int = 0
    """On which they are."""
    pauses_us: int = 0
    """For how long it has paused the far side, and below, the far side it."""
    paused_us: int = 0
    marked_packets: int = 0
    """Received with the mark of congestion."""
    slowed: int = 0
    """How often it was told to send less."""

    def pause_frames(self, useconds: int) -> int:
        """Each stops the far side for 65535 quanta of 512 bit times (IEEE 802.1Qbb), and is sent again before."""
        return useconds * self.speed_bps // (10**6 * 65535 * 512)

    @property
    def rx_packets(self) -> int:
        """Frames of one size, as training traffic mostly is."""
        return self.rx_bytes // _FRAME_BYTES

    @property
    def tx_packets(self) -> int:
        """See rx_packets."""
        return self.tx_bytes // _FRAME_BYTES


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device at a moment; `boot_ns` is when it last came up."""

    name: str
    is_up: bool
    boot_ns: int


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The spans in order, those that touch made one."""
    found: list[Span] = []
    for span in sorted(spans):
        if found and span.start_ns <= found[-1].end_ns:
            found[-1] = Span(found[-1].start_ns, max(found[-1].end_ns, span.end_ns))
        else:
            found.append(span)
    return tuple(found)


def covers(spans: Sequence[Span], at_ns: int) -> bool:
    """Whether one of the ordered spans holds this moment."""
    i = bisect_right(spans, at_ns, key=lambda span: span.start_ns)
    return i > 0 and at_ns < spans[i - 1].end_ns


def length_ns(spans: Sequence[Span], from_ns: int, until_ns: int) -> int:
    """How much of [from, until) the spans hold."""
    return sum(max(0, min(span.end_ns, until_ns) - max(span.start_ns, from_ns)) for span in spans)


def _up_ns(down: Sequence[Span], within: Span, from_ns: int, until_ns: int) -> int:
    """How much of [from, until) lies within a span while none of the others holds it."""
    begin_ns, end_ns = max(within.start_ns, from_ns), min(within.end_ns, until_ns)
    return max(0, end_ns - begin_ns) - length_ns(down, begin_ns, end_ns) if end_ns > begin_ns else 0


@dataclass(frozen=True, slots=True)
class _Cable:
    """A link with all that ever takes it down, and the bytes a second that go each way while it is up."""

    link: Link
    down: tuple[Span, ...]
    signal_lost: tuple[Span, ...]
    a_to_z: int
    z_to_a: int


class World:
    """The fabric with its faults, at any moment."""

    def __init__(self, inventory: Inventory, faults: Sequence[Fault], seed: int, start_ns: int) -> None:
        self.inventory = inventory
        self.faults = tuple(faults)
        chance = random.Random(seed)  # noqa: S311 — a simulated world
        self._booted = {device.name: start_ns - chance.randint(3, 90) * _DAY for device in inventory.devices}
        self._away: dict[str, tuple[Span, ...]] = defaultdict(tuple)
        self._degrading: dict[Port, list[Degrading]] = defaultdict(list)
        self._slow: dict[Port, list[SlowRail]] = defaultdict(list)
        self._shut: dict[Port, tuple[Span, ...]] = defaultdict(tuple)
        self._pauses: dict[Port, tuple[Span, ...]] = {}
        self._uneven: dict[Port, list[tuple[Span, float]]] = defaultdict(list)
        self._crowds: dict[Port, list[Incast]] = {}
        self._stifled: dict[Port, list[Collapse]] = defaultdict(list)
        self._senders: dict[Port, list[Incast]] = defaultdict(list)
        self._narrow = [fault for fault in faults if isinstance(fault, NarrowPcie)]
        self._swapped = [fault for fault in faults if isinstance(fault, Swapped)]
        self._versions = [fault for fault in faults if isinstance(fault, OtherVersion)]
        self._gpus = [fault for fault in faults if isinstance(fault, GpuFault)]
        signal: dict[Port, list[Span]] = defaultdict(list)
        for fault in faults:
            match fault:
                case Reboot(device, span):
                    self._away[device] = union((*self._away[device], span))
                case AdminDown(_, port, span):
                    self._shut[port] = union((*self._shut[port], span))
                case Degrading(port=port):
                    self._degrading[port].append(fault)
                case SlowRail(link=link):
                    self._slow[link.a].append(fault)
                case PauseStorm(port=port, span=span, spread=spread):
                    for own in (port, *spread):
                        self._pauses[own] = union((*self._pauses.get(own, ()), span))
                case Uneven(uplinks=uplinks, span=span):
                    for own in uplinks:
                        self._uneven[own].append((span, fault.shift_of(own)))
                case LinkDown(link, span):
                    signal[link.a].append(span)
                case LinkFlap(link, downs):
                    signal[link.a] += downs
        self._cables: dict[Port, _Cable] = {}
        for link in inventory.links:
            cable = self._cable(link, union(signal.get(link.a, ())), chance)
            self._cables[link.a] = self._cables[link.z] = cable
        self._crowd(fault for fault in faults if isinstance(fault, Incast))
        self._stifle(fault for fault in faults if isinstance(fault, Collapse))

    def _stifle(self, collapses: Iterable[Collapse]) -> None:
        """What goes over these links is as little as if they were slow, and their hosts are paused."""
        for collapse in collapses:
            for link in collapse.links:
                self._slow[link.a].append(SlowRail(link, collapse.span, collapse.share))
                self._stifled[link.a].append(collapse)

    def _crowd(self, crowds: Iterable[Incast]) -> None:
        """What comes to these ports is as much as goes in, or less where the host pauses."""
        for crowd in crowds:
            cable = self._cables[crowd.link.a]
            full = _FULL * (crowd.link.speed_bps or 0) / 8 / max(cable.z_to_a, 1) - 1
            self._uneven[crowd.link.z].append((crowd.span, -crowd.paused if crowd.paused else full))
            self._crowds.setdefault(crowd.link.a, []).append(crowd)
            for link in crowd.senders:
                self._senders[link.a].append(crowd)

    def _cable(self, link: Link, signal_lost: tuple[Span, ...], chance: random.Random) -> _Cable:
        away = (*self._away.get(link.a_device, ()), *self._away.get(link.z_device, ()))
        shut = (*self._shut.get(link.a, ()), *self._shut.get(link.z, ()))
        full = (link.speed_bps or 0) // 8
        return _Cable(
            link, union((*signal_lost, *away, *shut)), signal_lost,
            int(full * chance.uniform(*_LOAD)), int(full * chance.uniform(*_LOAD)),
        )  # fmt: skip

    @cached_property
    def ports(self) -> dict[str, tuple[str, ...]]:
        """The ports of each device that have a cable, in the order of their numbers."""
        found: dict[str, list[str]] = defaultdict(list)
        for port in self._cables:
            found[port.device].append(port.port)
        return {device: tuple(sorted(names, key=lambda n: (len(n), n))) for device, names in found.items()}

    @property
    def switches(self) -> tuple[str, ...]:
        """The devices that speak gNMI and SNMP."""
        return tuple(device.name for device in self.inventory.devices if device.kind == "switch")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts, whose NICs are the lower ends of links."""
        return tuple(device.name for device in self.inventory.devices if device.kind == "host")

    def device(self, name: str, at_ns: int) -> DeviceState:
        """A device at a moment."""
        away = self._away.get(name, ())
        boots = [span.end_ns for span in away if span.end_ns <= at_ns]
        return DeviceState(name, not covers(away, at_ns), boots[-1] if boots else self._booted[name])

    def away(self, name: str) -> tuple[Span, ...]:
        """When a device is away."""
        return self._away.get(name, ())

    def port(self, device: str, name: str, at_ns: int) -> PortState:
        """A port at a moment."""
        port = Port(device, name)
        cable = self._cables[port]
        boot_ns = self.device(device, at_ns).boot_ns
        edges = [edge for span in cable.down for edge in span if boot_ns < edge <= at_ns]
        up_ns = at_ns - boot_ns - length_ns(cable.down, boot_ns, at_ns)
        for slow in self._slow.get(cable.link.a, ()):
            up_ns -= int((1 - slow.share) * _up_ns(cable.down, slow.span, boot_ns, at_ns))
        out, back = (cable.a_to_z, cable.z_to_a) if port == cable.link.a else (cable.z_to_a, cable.a_to_z)
        lost = sum(1 for span in cable.signal_lost if boot_ns < span.start_ns <= at_ns) * _FCS_A_DOWN
        corrected = 0
        for fault in (own := self._degrading.get(port, ())):
            frames = back // _FRAME_BYTES * _up_ns(cable.down, fault.span, boot_ns, at_ns) / _S
            lost += int(frames * fault.lost)
            corrected += int(frames * _FRAME_BYTES * 8 * fault.ber)
        far = cable.link.z if port == cable.link.a else cable.link.a
        stifled_ns = sum(
            int(one.paused * _up_ns(cable.down, one.span, boot_ns, at_ns))
            for one in self._stifled.get(cable.link.a, ())
        )
        pauses_ns, paused_ns = (
            sum(_up_ns(cable.down, span, boot_ns, at_ns) for span in self._pauses.get(end, ())) for end in (port, far)
        )
        shifted_ns = [
            sum(int(shift * _up_ns(cable.down, span, boot_ns, at_ns)) for span, shift in self._uneven.get(end, ()))
            for end in (far, port)
        ]
        crowds = [
            (crowd, _up_ns(cable.down, crowd.span, boot_ns, at_ns)) for crowd in self._crowds.get(cable.link.a, ())
        ]
        briefly_ns = sum(int(crowd.paused * ns) for crowd, ns in crowds)
        frames = _FULL * (cable.link.speed_bps or 0) / 8 / _FRAME_BYTES
        marked = sum(int(crowd.marked * frames * ns / _S) for crowd, ns in crowds) if port == cable.link.a else 0
        at_host = port == cable.link.a
        slowed_ns = sum(_up_ns(cable.down, crowd.span, boot_ns, at_ns) for crowd in self._senders.get(port, ()))
        return PortState(
            name, cable.link.speed_bps or 0, not covers(self._shut.get(port, ()), at_ns), not covers(cable.down, at_ns),
            edges[-1] if edges else boot_ns, len(edges), back * (up_ns - pauses_ns + shifted_ns[0]) // _S,
            out * (up_ns - paused_ns + shifted_ns[1]) // _S, lost, corrected, own[-1].lane if own else 0,
            (pauses_ns + (briefly_ns if at_host else stifled_ns)) // 1000,
            (paused_ns + (stifled_ns if at_host else briefly_ns)) // 1000, marked, _CNPS * slowed_ns // _S,
        )  # fmt: skip

    def lanes(self, device: str, name: str, at_ns: int) -> int:
        """Of the PCIe link of a host's port."""
        port = Port(device, name)
        return 8 if any(own.link.a == port and covers((own.span,), at_ns) for own in self._narrow) else 16

    def gpu_faults(self, host: str) -> Sequence[GpuFault]:
        """What the driver of a host's GPUs has to say."""
        return [fault for fault in self._gpus if fault.host == host]

    def neighbor(self, device: str, name: str, at_ns: int) -> Port:
        """The far end of the cable that is in a port."""
        port = Port(device, name)
        link = self._cables[port].link
        is_near = link.a == port
        for swap in self._swapped:
            if link in (swap.link, swap.other) and covers((swap.span,), at_ns):
                link = swap.other if link == swap.link else swap.link
                break
        return link.z if is_near else link.a

    def version(self, device: str, usual: str, at_ns: int) -> str:
        """What a device runs, that usually runs this."""
        own = (fault.version for fault in self._versions if fault.device == device and covers((fault.span,), at_ns))
        return next(own, usual)

    def changes(self, device: str) -> tuple[int, ...]:
        """Every moment at which a state of one of the device's ports changes, in order."""
        moments: set[int] = set()
        for name in self.ports.get(device, ()):
            port = Port(device, name)
            for span in (*self._cables[port].down, *self._shut.get(port, ())):
                moments.update(span)
        return tuple(sorted(moments))
