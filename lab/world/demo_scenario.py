"""Plans the faults of a demo, spread over its duration, and the bad links of a demo of remediation.

Random numbers are an argument.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from lab.world.bad_links import BURST, BURST_NS, LOSS_NS, BadLink, Part, losses_of_episode
from lab.world.effects import Interval
from lab.world.fabric_arrays import fabric_arrays
from lab.world.fault_placement import FaultPlacer
from lab.world.faults import FAULT_OF
from lab.world.faults.congestion import PauseStorm
from lab.world.faults.devices import Reboot, SilentDevice
from lab.world.faults.hosts import GpuFault
from lab.world.faults.links import AdminDown, Degrading, LinkDown, LinkFlap
from lab.world.ground_truth import InjectedFault, PlacedFault
from lab.world.host_agents import GPUS_PER_HOST, gpu_address
from lab.world.traffic import SteadyTraffic
from streams.fabric.inventory import Inventory, Link

_S = 1_000_000_000
_LINK_DOWN_S = 38.0
"""`link/down` opens after 30 s down (DETECTION 3): a detectable fault lasts longer."""
_MIN_FOR_DOWNS_S = 50.0
_REBOOT_S = 8.0
_SILENT_S = 45.0
"""`telemetry/stale` opens after 30 s without a reading (DETECTION 3)."""
_STORM_S = 20.0
"""`congestion/pfc-storm` opens after 3 s (DETECTION 3), which is two readings of the demo."""
_GPU_S = 30.0
_LONGEST_S = 600.0
_GPU_OFF_THE_BUS_XID = 79
_MIN_FOR_DEGRADING_S = 1200.0
"""`link/degrading` needs three bad minutes to open, and five or ten good minutes to resolve."""
_FIRST_S = 2.0
_AGAIN_S = 17.0
"""Longer than the quiet time of `link/flap` (8 s in the demo), so that the next flap is another episode."""
_SECOND_LINK_S = 12.0
"""The time from the second episode of a switch's first link to that of its second link, while the first is drained."""


def inject(inventory: Inventory, slugs: Sequence[str], within: Interval, seed: int) -> list[InjectedFault]:
    """Return one fault for each of these slugs, placed randomly in an interval; raise KeyError and NoRoom."""
    placer = FaultPlacer(inventory, fabric_arrays(inventory), SteadyTraffic(), np.random.default_rng(seed))
    return [FAULT_OF[slug].inject(placer, within) for slug in slugs]


def plan(
    inventory: Inventory, start_ns: int, duration_s: float, rng: random.Random, *, more_kinds: bool = False
) -> tuple[PlacedFault, ...]:
    """Return two flaps, two downs, two shut ports, and reboots of a leaf and a spine; no two share a link.

    `more_kinds` adds a leaf that does not answer and a storm, if the fabric has another leaf for each, and a broken GPU
    of the first host. From 20 minutes on a link degrades. No rail is slow: the demo reads switches, and rails are
    compared by the counters of NICs. Faults start in the first half of `duration_s`, so that there is time to find
    them. Below 50 s the downs, the shut ports and the silence are left out, because they could not last long enough.
    """
    draw = _Draw(inventory, rng)
    leaf, spine = draw.reboots()
    flap_host, down_host = draw.host_links(2)
    flap_fabric, down_fabric, shut_low, shut_high = draw.fabric_links(4)
    share = duration_s / 60.0
    faults: list[PlacedFault] = [
        LinkFlap(flap_host, _downs(start_ns, 4 * share, rng)),
        LinkFlap(flap_fabric, _downs(start_ns, 9 * share, rng)),
        Reboot(leaf, _interval(start_ns, 13 * share, _REBOOT_S)),
        Reboot(spine, _interval(start_ns, 25 * share, _REBOOT_S)),
    ]
    if duration_s >= _MIN_FOR_DOWNS_S:
        lasting_s = min(max(_LINK_DOWN_S, 38 * share), _LONGEST_S)
        faults += [
            LinkDown(down_host, _interval(start_ns, 5 * share, lasting_s)),
            LinkDown(down_fabric, _interval(start_ns, 7 * share, lasting_s)),
            AdminDown(shut_low, shut_low.a, _interval(start_ns, 6 * share, lasting_s)),
            AdminDown(shut_high, shut_high.z, _interval(start_ns, 8 * share, lasting_s)),
        ]
    if duration_s >= _MIN_FOR_DEGRADING_S:
        (worse,) = draw.fabric_links(1)
        bad = _interval(start_ns, 3 * share, 300.0)
        faults.append(Degrading(worse, worse.z, bad, lost_ratio=1e-6, ber=2e-5, lane=3))
    if more_kinds:
        faults += _more_kinds(draw, start_ns, duration_s)
    return tuple(faults)


def _more_kinds(draw: "_Draw", start_ns: int, duration_s: float) -> Iterator[PlacedFault]:
    share = duration_s / 60.0

    def interval(after_s: float, lasting_s: float) -> Interval:
        return _interval(start_ns, after_s * share, min(lasting_s * max(1.0, share), _LONGEST_S))

    if duration_s >= _MIN_FOR_DOWNS_S:
        yield from (SilentDevice(link.a_device, interval(6, _SILENT_S)) for link in draw.fabric_links(1))
    yield from (PauseStorm(link, link.a, interval(10, _STORM_S), is_global=True) for link in draw.host_links(1))
    yield GpuFault(*draw.gpu(), interval(15, _GPU_S), _GPU_OFF_THE_BUS_XID)


def _interval(start_ns: int, after_s: float, lasting_s: float) -> Interval:
    start = start_ns + int(after_s * _S)
    return Interval(start, start + int(lasting_s * _S))


def _downs(start_ns: int, after_s: float, rng: random.Random) -> tuple[Interval, ...]:
    """Return four downs of about a second, like those of an optic that loses its signal."""

    def intervals() -> Iterator[Interval]:
        at_s = after_s
        for _ in range(4):
            lasting_s = rng.uniform(0.5, 1.1)
            yield _interval(start_ns, at_s, lasting_s)
            at_s += lasting_s + rng.uniform(0.8, 1.4)

    return tuple(intervals())


class _Draw:
    """Draws devices and links so that none is drawn twice and no drawn link ends at a drawn device."""

    def __init__(self, inventory: Inventory, rng: random.Random) -> None:
        self._inventory = inventory
        self._rng = rng
        self._taken: set[str] = set()

    def reboots(self) -> tuple[str, str]:
        """Draw a leaf and a spine."""
        leaf, spine = (
            self._rng.choice([d.name for d in self._inventory.devices if d.tier == tier]) for tier in ("T0", "T1")
        )
        self._taken |= {leaf, spine}
        return leaf, spine

    def gpu(self) -> tuple[str, str]:
        """Return the first host, and draw one of its GPUs."""
        host = next(device.name for device in self._inventory.devices if device.kind == "host")
        return host, gpu_address(self._rng.randrange(GPUS_PER_HOST))

    def host_links(self, count: int) -> list[Link]:
        """Draw links of hosts, each at a different leaf and host."""
        return self._links("host-link", count, lambda link: {link.a_device, link.z_device})

    def fabric_links(self, count: int) -> list[Link]:
        """Draw links between leaves and spines, each at a different leaf."""
        return self._links("fabric-link", count, lambda link: {link.a_device})

    def _links(self, role: str, count: int, claims: Callable[[Link], set[str]]) -> list[Link]:
        links = [link for link in self._inventory.links if link.role == role]
        self._rng.shuffle(links)
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


@dataclass(frozen=True, slots=True)
class RepairScenario:
    """The bad links, and a healthy link that flaps once."""

    repaired: BadLink
    same_switch: BadLink
    not_cured: BadLink
    of_host: BadLink
    once: LinkFlap

    @property
    def bad_links(self) -> tuple[BadLink, ...]:
        """Return all bad links."""
        return self.repaired, self.same_switch, self.not_cured, self.of_host


def plan_repairs(inventory: Inventory, start_ns: int, duration_s: float, rng: random.Random) -> RepairScenario:
    """Return the bad links, each at a different switch except `same_switch`; they flap until `duration_s` is over.

    The fabric needs four leaves, each with at least two uplinks. Raises ValueError if it is smaller.
    """
    uplinks: dict[str, list[Link]] = {}
    for link in inventory.links:
        if link.role == "fabric-link":
            uplinks.setdefault(link.a_device, []).append(link)
    leaves = sorted(device for device, links in uplinks.items() if len(links) > 1)
    if len(leaves) < 4:
        raise ValueError(f"four leaves with two uplinks or more are needed, and the fabric has {len(leaves)}")
    first, second, third, fourth = rng.sample(leaves, 4)
    repaired, same_switch = rng.sample(uplinks[first], 2)
    host_links = [link for link in inventory.links if link.role == "host-link" and link.z_device == third]
    end_ns = start_ns + round(duration_s * _S)

    def bad(link: Link, part: Part, later_s: float = 0.0) -> BadLink:
        again_ns = start_ns + round((_AGAIN_S + later_s) * _S)
        return BadLink(link, part, (_first(start_ns), Interval(again_ns, max(end_ns, again_ns + LOSS_NS))))

    return RepairScenario(
        bad(repaired, Part.CONNECTOR),
        bad(same_switch, Part.CONNECTOR, _SECOND_LINK_S),
        bad(rng.choice(uplinks[second]), Part.PORT),
        bad(rng.choice(host_links), Part.CONNECTOR),
        LinkFlap(rng.choice(uplinks[fourth]), losses_of_episode(_first(start_ns))),
    )


def _first(start_ns: int) -> Interval:
    begin_ns = start_ns + round(_FIRST_S * _S)
    return Interval(begin_ns, begin_ns + (BURST - 1) * BURST_NS + LOSS_NS)
