"""What goes wrong in the simulated fabric, when, and the truth of it.

A Fault is a fact about the world; its truth is what a perfect detector would say. A person who shuts a port is no
failure, so that has no truth. `plan` spreads the faults of a demo over its duration; chance is an argument.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streams.fabric.ids import Port
from streams.fabric.inventory import Inventory, Link

_S = 1_000_000_000
TOLERANCE_S = 15
_LINK_DOWN_S = 38.0
"""`link/down` opens after 30 s down (DETECTION 3): a fault that is to be found lasts longer."""
_SHORTEST_FOR_DOWNS_S = 50.0
_REBOOT_S = 8.0
_SHORTEST_FOR_DEGRADING_S = 1200.0
"""`link/degrading` and `rail/degraded` need three bad minutes, and five or ten good ones to be over."""
_FACTS_S = 3600
"""How often collectors read what devices say of themselves: nobody sees it sooner."""
_WINDOWS_S = 120
"""It is dated by minutes."""


class Span(NamedTuple):
    """From `start_ns` until before `end_ns`."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class LinkFlap:
    """The signal of a link goes and comes back several times."""

    link: Link
    downs: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class LinkDown:
    """The signal of a link goes and stays away for a while."""

    link: Link
    span: Span


@dataclass(frozen=True, slots=True)
class AdminDown:
    """A person shuts a port, and enables it later."""

    link: Link
    port: Port
    span: Span


@dataclass(frozen=True, slots=True)
class Reboot:
    """A device is away, and comes back with its counters at zero."""

    device: str
    span: Span


@dataclass(frozen=True, slots=True)
class Degrading:
    """One end of a link receives badly while it stays up: frames are lost, and FEC corrects more, most on one lane.

    `port` is the end that counts it; `lost` is the share of its frames, `ber` that of its bits before FEC.
    """

    link: Link
    port: Port
    span: Span
    lost: float
    ber: float = 0.0
    lane: int = 0


@dataclass(frozen=True, slots=True)
class SlowRail:
    """A host's link carries only a share of what it should, both ways, and counts no error."""

    link: Link
    span: Span
    share: float


@dataclass(frozen=True, slots=True)
class PauseStorm:
    """A port pauses the far side without end; for its sake others (`spread`) pause theirs, and nothing goes through."""

    link: Link
    port: Port
    span: Span
    spread: tuple[Port, ...] = ()


@dataclass(frozen=True, slots=True)
class Incast:
    """More comes to a host's port than goes in: its link is full, and of its packets a share is marked.

    Or the host takes no more (`paused`, a share of the time in which its NIC pauses the leaf), and nothing is marked.
    """

    link: Link
    span: Span
    marked: float = 0.0
    paused: float = 0.0
    senders: tuple[Link, ...] = ()
    """Of hosts that send to it, and are told to slow down."""


@dataclass(frozen=True, slots=True)
class Collapse:
    """Hosts of a pod are paused for a part of the time (`paused`) and carry only a `share` of what they did."""

    pod: str
    links: tuple[Link, ...]
    span: Span
    paused: float
    share: float


@dataclass(frozen=True, slots=True)
class Uneven:
    """A switch spreads its traffic badly: of its uplinks the first carries `shift` more than it should, others less."""

    device: str
    uplinks: tuple[Port, ...]
    span: Span
    shift: float

    def shift_of(self, port: Port) -> float:
        """By what share of its load an uplink carries more; nothing is lost in all."""
        return self.shift if port == self.uplinks[0] else -self.shift / (len(self.uplinks) - 1)


@dataclass(frozen=True, slots=True)
class NarrowPcie:
    """The PCIe link of a host's NIC trains with eight lanes of its sixteen."""

    link: Link
    span: Span


@dataclass(frozen=True, slots=True)
class GpuFault:
    """The driver of a host says an Xid of a GPU, and at the end of `span` that the GPU needs nothing any more."""

    host: str
    gpu: str
    """Its PCI address."""
    span: Span
    code: int


@dataclass(frozen=True, slots=True)
class Swapped:
    """The cables of two links have changed places at their far ends, and everything works."""

    link: Link
    other: Link
    span: Span


@dataclass(frozen=True, slots=True)
class OtherVersion:
    """A switch runs another software, or the NICs of a host another firmware, than its like."""

    device: str
    span: Span
    version: str


Fault = (
    LinkFlap | LinkDown | AdminDown | Reboot | Degrading | SlowRail | PauseStorm | Uneven | Incast | NarrowPcie
    | GpuFault | Swapped | OtherVersion | Collapse
)  # fmt: skip


class Truth(NamedTuple):
    """A row of a truth file (DESIGN 6); `port` is empty for a device."""

    start: int
    end: int
    condition: str
    device: str
    port: str
    tolerance_s: int = TOLERANCE_S


def truth(faults: Sequence[Fault]) -> list[Truth]:
    """What a perfect detector would find."""
    rows = []
    for fault in faults:
        match fault:
            case LinkFlap(link, downs):
                rows.append(Truth(downs[0].start_ns, downs[-1].end_ns, "link_flap", link.a_device, link.a_port))
            case LinkDown(link, span):
                rows.append(Truth(span.start_ns, span.end_ns, "link_down", link.a_device, link.a_port))
            case Reboot(device, span):
                rows.append(Truth(span.start_ns, span.end_ns, "device_down", device, ""))
            case Degrading(_, port, span):
                row = Truth(span.start_ns, span.end_ns, "link_degrading", port.device, port.port, _WINDOWS_S)
                rows.append(row)
            case SlowRail(link, span):
                row = Truth(span.start_ns, span.end_ns, "rail_degraded", link.a_device, link.a_port, _WINDOWS_S)
                rows.append(row)
            case PauseStorm(_, port, span):
                rows.append(Truth(span.start_ns, span.end_ns, "congestion_pfc_storm", port.device, port.port))
            case Incast(link, span):
                rows.append(
                    Truth(span.start_ns, span.end_ns, "congestion_incast", link.a_device, link.a_port, _WINDOWS_S)
                )
            case Uneven(device=place, span=span) | Collapse(pod=place, span=span):
                name = "congestion_imbalance" if isinstance(fault, Uneven) else "congestion_collapse"
                rows.append(Truth(span.start_ns, span.end_ns, name, place, "", _WINDOWS_S))
            case NarrowPcie(link, span):
                row = Truth(span.start_ns, span.end_ns, "host_pcie_degraded", link.a_device, link.a_port)
                rows.append(row)
            case GpuFault(host, gpu, span):
                rows.append(Truth(span.start_ns, span.end_ns, "host_gpu_fault", host, gpu))
            case Swapped() | OtherVersion():
                rows += _told_by_facts(fault)
            case AdminDown():
                pass
    return rows


def _told_by_facts(fault: Swapped | OtherVersion) -> list[Truth]:
    start_ns, end_ns = fault.span
    if isinstance(fault, OtherVersion):
        return [Truth(start_ns, end_ns, "fleet_version_drift", fault.device, "", _FACTS_S)]
    links = (fault.link, fault.other)
    return [Truth(start_ns, end_ns, "link_miscabled", link.a_device, link.a_port, _FACTS_S) for link in links]


def storm(inventory: Inventory, link: Link, span: Span, hops: int = 3) -> PauseStorm:
    """A host's NIC that pauses its leaf; the leaf then all others at it, its spines their other leaves, and so on.

    Pause goes where the traffic to the paused port comes from: down from a spine only to leaves of the same rail, told
    by their number at the end of their names.
    """
    ends = [(own, far) for each in inventory.links for own, far in ((each.a, each.z), (each.z, each.a))]
    rail = link.z_device.rpartition("-")[2]
    held, spread, seen = {link.z_device}, [], {link.a_device, link.z_device}
    for _ in range(hops):
        ports = [
            (own, far)
            for own, far in ends
            if own.device in held and far.device not in seen
            and ("leaf" not in far.device or far.device.rpartition("-")[2] == rail)
        ]  # fmt: skip
        spread += [own for own, _ in ports]
        held = {far.device for _, far in ports if "host" not in far.device}
        seen |= held
    return PauseStorm(link, link.a, span, tuple(spread))


def plan(inventory: Inventory, start_ns: int, duration_s: float, chance: random.Random) -> tuple[Fault, ...]:
    """The faults of a demo: two flaps, two downs, two shut ports, a leaf's reboot and a spine's; none share a link.

    From 20 minutes on a link degrades and a rail is slow. They begin in the first half of `duration_s`, so that there
    is time to find them. In less than 50 s the downs and the shut ports are left out: nobody could tell that they last.
    """
    draw = _Draw(inventory, chance)
    leaf, spine = draw.reboots()
    flap_host, down_host = draw.host_links(2)
    flap_fabric, down_fabric, shut_low, shut_high = draw.fabric_links(4)
    share = duration_s / 60.0
    faults: list[Fault] = [
        LinkFlap(flap_host, _downs(start_ns, 4 * share, chance)),
        LinkFlap(flap_fabric, _downs(start_ns, 9 * share, chance)),
        Reboot(leaf, _span(start_ns, 13 * share, _REBOOT_S)),
        Reboot(spine, _span(start_ns, 25 * share, _REBOOT_S)),
    ]
    if duration_s >= _SHORTEST_FOR_DOWNS_S:
        lasting_s = min(max(_LINK_DOWN_S, 38 * share), 600.0)
        faults += [
            LinkDown(down_host, _span(start_ns, 5 * share, lasting_s)),
            LinkDown(down_fabric, _span(start_ns, 7 * share, lasting_s)),
            AdminDown(shut_low, shut_low.a, _span(start_ns, 6 * share, lasting_s)),
            AdminDown(shut_high, shut_high.z, _span(start_ns, 8 * share, lasting_s)),
        ]
    if duration_s >= _SHORTEST_FOR_DEGRADING_S:
        (worse,) = draw.fabric_links(1)
        faults.append(Degrading(worse, worse.z, _span(start_ns, 3 * share, 300.0), lost=1e-6, ber=2e-5, lane=3))
        (slow,) = draw.host_links(1)
        faults.append(SlowRail(slow, _span(start_ns, 4 * share, 300.0), 0.6))
    return tuple(faults)


def _span(start_ns: int, after_s: float, lasting_s: float) -> Span:
    start = start_ns + int(after_s * _S)
    return Span(start, start + int(lasting_s * _S))


def _downs(start_ns: int, after_s: float, chance: random.Random) -> tuple[Span, ...]:
    """Four downs of about a second, as an optic that loses its signal does."""

    def spans() -> Iterator[Span]:
        at_s = after_s
        for _ in range(4):
            lasting_s = chance.uniform(0.5, 1.1)
            yield _span(start_ns, at_s, lasting_s)
            at_s += lasting_s + chance.uniform(0.8, 1.4)

    return tuple(spans())


class _Draw:
    """Draws devices and links so that none is drawn twice and no drawn link touches a drawn device."""

    def __init__(self, inventory: Inventory, chance: random.Random) -> None:
        self._inventory = inventory
        self._chance = chance
        self._taken: set[str] = set()

    def reboots(self) -> tuple[str, str]:
        """A leaf, and a spine."""
        leaf, spine = (
            self._chance.choice([d.name for d in self._inventory.devices if d.tier == tier]) for tier in ("T0", "T1")
        )
        self._taken |= {leaf, spine}
        return leaf, spine

    def host_links(self, count: int) -> list[Link]:
        """Links of hosts, each at another leaf and host."""
        return self._links("host-link", count, lambda link: {link.a_device, link.z_device})

    def fabric_links(self, count: int) -> list[Link]:
        """Links between leaves and spines, each at another leaf."""
        return self._links("fabric-link", count, lambda link: {link.a_device})

    def _links(self, role: str, count: int, claims: Callable[[Link], set[str]]) -> list[Link]:
        links = [link for link in self._inventory.links if link.role == role]
        self._chance.shuffle(links)
        chosen: list[Link] = []
        claimed: set[str] = set()
        for link in links:
            if not ({link.a_device, link.z_device} & self._taken) and not (claims(link) & claimed):
                chosen.append(link)
                claimed |= claims(link)
            if len(chosen) == count:
                break
        self._taken |= {link.a_device for link in chosen if role == "fabric-link"} | {
            link.z_device for link in chosen if role == "host-link"
        }
        return chosen
