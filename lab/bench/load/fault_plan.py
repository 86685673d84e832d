"""Plans the faults of the load (kind, place and time), drawn by a seed, with no two at one place.

Flap bursts (three downs within seconds), links that stay down, reboots and unreachable hosts have a truth. Single downs
at the base rate have none, because one down is no finding. Times are seconds from the start of the window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain, repeat

import numpy as np

from lab.world.effects import Interval
from lab.world.fabric_arrays import FabricArrays
from lab.world.faults.devices import Reboot
from lab.world.faults.links import LinkDown, LinkFlap
from lab.world.ground_truth import PlacedFault

SINGLE_PER_LINK_S = 1 / (2000 * 3600.0)
"""One down per link in 2,000 hours, the order of magnitude of published fleets."""
BURST_DOWNS = 3
"""The number of downs that the preset `burst` of link/flap needs."""
_LAST_START = 0.95
_DOWN_S = (34.0, 42.0)
"""link/down opens after 30 s."""
_REBOOT_S = (6.0, 10.0)
_GONE_S = (50.0, 60.0)
"""Silent for longer than max(3 cadences, 30 s) at a cadence of 10 s."""


class Kind(Enum):
    """The kinds of faults."""

    BURST = "burst"
    SINGLE = "single"
    DOWN = "down"
    REBOOT = "reboot"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `place` is the number of a link or a device; `changes` has the times at which it starts and ends."""

    kind: Kind
    place: int
    changes: tuple[float, ...]

    @property
    def at_device(self) -> bool:
        """Return True if a device becomes unreachable; False for a fault of a link."""
        return self.kind in (Kind.REBOOT, Kind.GONE)

    def placed(self, fabric: FabricArrays) -> PlacedFault:
        """Return the fault as a fault of the simulation, in ns since the start of the window."""
        edges_ns = [round(change * 1e9) for change in self.changes]
        intervals = tuple(map(Interval, edges_ns[::2], edges_ns[1::2]))
        if self.at_device:
            return Reboot(fabric.devices[self.place], intervals[0])
        link = fabric.link(self.place)
        return LinkFlap(link, intervals) if self.kind is Kind.BURST else LinkDown(link, intervals[0])


def plan(fabric: FabricArrays, seconds: float, cadence_s: float, rng: np.random.Generator) -> list[Fault]:
    """Return the faults of a window; a small fabric has fewer, so that they stay apart."""
    links = len(fabric.links)
    wanted = {
        Kind.REBOOT: min(max(1, round(seconds / 120)), len(fabric.devices) // 20),
        Kind.GONE: min(max(1, round(seconds / 300)), len(fabric.devices) // 20),
        Kind.BURST: min(max(6, round(seconds / 2.5)), max(1, links // 20)),
        Kind.DOWN: min(max(2, round(seconds / 20)), max(1, links // 50)),
        Kind.SINGLE: max(2, int(rng.poisson(SINGLE_PER_LINK_S * links * seconds))),
    }
    kinds = list(chain.from_iterable(repeat(kind, count) for kind, count in wanted.items()))
    return [
        Fault(kind, place, tuple(_changes(kind, seconds, cadence_s, rng)))
        for kind, place in zip(kinds, _places(fabric, kinds, rng), strict=False)
    ]


def _places(fabric: FabricArrays, kinds: list[Kind], rng: np.random.Generator) -> Iterator[int]:
    """Yield devices for the first kinds, then links that do not end at these devices; each place once."""
    owner = np.repeat(np.arange(len(fabric.devices)), [len(ports) for ports in fabric.ports])
    ends = owner[fabric.links]
    taken = np.zeros(len(fabric.devices), bool)
    hosts = np.array(fabric.is_host)
    devices = rng.permutation(len(fabric.devices))
    free = np.ones(len(fabric.links), bool)
    order = iter(rng.permutation(len(fabric.links)))
    for kind in kinds:
        if kind in (Kind.REBOOT, Kind.GONE):
            # An unreachable host affects 8 links, a switch up to 128: a switch only reboots.
            place = next(int(d) for d in devices if not taken[d] and (hosts[d] or kind is Kind.REBOOT))
            touching = (ends == place).any(axis=1)
            neighbors = np.unique(ends[touching])
            taken[neighbors] = True
            free &= ~touching
            yield place
        else:
            link = next((int(i) for i in order if free[i]), None)
            if link is None:
                return
            yield link


def _changes(kind: Kind, seconds: float, cadence_s: float, rng: np.random.Generator) -> Iterator[float]:
    at = float(rng.uniform(0.02, _LAST_START)) * seconds
    if kind is Kind.BURST:
        for _ in range(BURST_DOWNS):
            yield at
            yield (at := at + float(rng.uniform(0.4, 0.9)))
            at += float(rng.uniform(0.6, 1.6))
        return
    gone_s = max(_GONE_S[0], 5 * cadence_s), max(_GONE_S[1], 6 * cadence_s)
    lasting = {Kind.SINGLE: (0.5, 8.0), Kind.DOWN: _DOWN_S, Kind.REBOOT: _REBOOT_S, Kind.GONE: gone_s}[kind]
    yield at
    yield at + float(rng.uniform(*lasting))
