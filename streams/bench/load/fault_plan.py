"""What goes wrong under the load, where and when: drawn by a seed, no two at one place.

Flap bursts (three downs within seconds), links that stay down, reboots and hosts that are gone have a truth; single
downs at the base rate have none, because one down is no finding. Times are seconds from the start of the window.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import chain, repeat

import numpy as np

from streams.simulation.fabric_arrays import FabricArrays

SINGLE_PER_LINK_S = 1 / (2000 * 3600.0)
"""One down in 2,000 hours of a link, the order that published fleets report."""
BURST_DOWNS = 3
"""What the preset `burst` of link/flap needs."""
_LAST_START = 0.95
_DOWN_S = (34.0, 42.0)
"""link/down opens after 30 s."""
_REBOOT_S = (6.0, 10.0)
_GONE_S = (50.0, 60.0)
"""Silent for longer than max(3 cadences, 30 s) at a cadence of 10 s."""


class Kind(Enum):
    """What sort of fault it is."""

    BURST = "burst"
    SINGLE = "single"
    DOWN = "down"
    REBOOT = "reboot"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `place` is a link's number, or a device's; `changes` are when it goes, comes, goes …"""

    kind: Kind
    place: int
    changes: tuple[float, ...]

    @property
    def at_device(self) -> bool:
        """Whether a device goes, and not a link."""
        return self.kind in (Kind.REBOOT, Kind.GONE)


def plan(plant: FabricArrays, seconds: float, cadence_s: float, chance: np.random.Generator) -> list[Fault]:
    """The faults of a window of so many seconds; a small fabric has fewer, so that they stay apart."""
    links = len(plant.links)
    wanted = {
        Kind.REBOOT: min(max(1, round(seconds / 120)), len(plant.devices) // 20),
        Kind.GONE: min(max(1, round(seconds / 300)), len(plant.devices) // 20),
        Kind.BURST: min(max(6, round(seconds / 2.5)), max(1, links // 20)),
        Kind.DOWN: min(max(2, round(seconds / 20)), max(1, links // 50)),
        Kind.SINGLE: max(2, int(chance.poisson(SINGLE_PER_LINK_S * links * seconds))),
    }
    kinds = list(chain.from_iterable(repeat(kind, count) for kind, count in wanted.items()))
    return [
        Fault(kind, place, tuple(_changes(kind, seconds, cadence_s, chance)))
        for kind, place in zip(kinds, _places(plant, kinds, chance), strict=False)
    ]


def _places(plant: FabricArrays, kinds: list[Kind], chance: np.random.Generator) -> Iterator[int]:
    """Devices for the first kinds, then links that touch none of them; each once."""
    owner = np.repeat(np.arange(len(plant.devices)), [len(ports) for ports in plant.ports])
    ends = owner[plant.links]
    taken = np.zeros(len(plant.devices), bool)
    hosts = np.array(plant.is_host)
    devices = chance.permutation(len(plant.devices))
    free = np.ones(len(plant.links), bool)
    order = iter(chance.permutation(len(plant.links)))
    for kind in kinds:
        if kind in (Kind.REBOOT, Kind.GONE):
            # A host that is gone takes 8 links with it, a switch up to 128: one of those is enough for a reboot.
            place = next(int(d) for d in devices if not taken[d] and (hosts[d] or kind is Kind.REBOOT))
            touching = (ends == place).any(axis=1)
            neighbours = np.unique(ends[touching])
            taken[neighbours] = True
            free &= ~touching
            yield place
        else:
            link = next((int(i) for i in order if free[i]), None)
            if link is None:
                return
            yield link


def _changes(kind: Kind, seconds: float, cadence_s: float, chance: np.random.Generator) -> Iterator[float]:
    at = float(chance.uniform(0.02, _LAST_START)) * seconds
    if kind is Kind.BURST:
        for _ in range(BURST_DOWNS):
            yield at
            yield (at := at + float(chance.uniform(0.4, 0.9)))
            at += float(chance.uniform(0.6, 1.6))
        return
    gone_s = max(_GONE_S[0], 5 * cadence_s), max(_GONE_S[1], 6 * cadence_s)
    lasting = {Kind.SINGLE: (0.5, 8.0), Kind.DOWN: _DOWN_S, Kind.REBOOT: _REBOOT_S, Kind.GONE: gone_s}[kind]
    yield at
    yield at + float(chance.uniform(*lasting))
