"""Plans the faults of the load (kind, place and time), drawn by a seed, with no two at one place.

Flap bursts (three downs within seconds), links that stay down, reboots and unreachable hosts have a truth. Single downs
at the base rate have none, because one down is no finding.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat

import numpy as np

from lab.world.effects import Interval
from lab.world.fabric_arrays import FabricArrays
from lab.world.faults.devices import Reboot
from lab.world.faults.links import LinkDown, LinkFlap
from lab.world.ground_truth import InjectedFault, PlacedFault, injected

SINGLE_PER_LINK_S = 1 / (2000 * 3600.0)
"""One down per link in 2,000 hours, the order of magnitude of published fleets."""
BURST_DOWNS = 3
"""The number of downs that the preset `burst` of link/flap needs."""
_LAST_START = 0.95
_LASTING_S = {"single": (0.5, 8.0), "down": (34.0, 42.0), "reboot": (6.0, 10.0), "gone": (50.0, 60.0)}
"""A link/down opens after 30 s. A host is unreachable for longer than max(3 cadences, 30 s) at a cadence of 10 s."""
_AT_DEVICE = ("reboot", "gone")


def plan(
    fabric: FabricArrays, start_s: float, seconds: float, cadence_s: float, rng: np.random.Generator
) -> list[InjectedFault]:
    """Return the faults of a window, in ns of the load; a small fabric has fewer, so that they stay apart."""
    links, devices = len(fabric.links), len(fabric.devices)
    wanted = {
        "reboot": min(max(1, round(seconds / 120)), devices // 20),
        "gone": min(max(1, round(seconds / 300)), devices // 20),
        "burst": min(max(6, round(seconds / 2.5)), max(1, links // 20)),
        "down": min(max(2, round(seconds / 20)), max(1, links // 50)),
        "single": max(2, int(rng.poisson(SINGLE_PER_LINK_S * links * seconds))),
    }
    kinds = list(chain.from_iterable(repeat(kind, count) for kind, count in wanted.items()))
    faults = []
    for kind, place in zip(kinds, _places(fabric, kinds, rng), strict=False):
        edges_ns = [round((start_s + at_s) * 1e9) for at_s in _changes(kind, seconds, cadence_s, rng)]
        intervals = tuple(map(Interval, edges_ns[::2], edges_ns[1::2]))
        fault = injected(_fault(fabric, kind, place, intervals), fabric, kind)
        faults.append(replace(fault, ground_truths=()) if kind == "single" else fault)
    return faults


def _fault(fabric: FabricArrays, kind: str, place: int, intervals: tuple[Interval, ...]) -> PlacedFault:
    if kind in _AT_DEVICE:
        return Reboot(fabric.devices[place], intervals[0])
    link = fabric.link(place)
    return LinkFlap(link, intervals) if kind == "burst" else LinkDown(link, intervals[0])


def _places(fabric: FabricArrays, kinds: list[str], rng: np.random.Generator) -> Iterator[int]:
    """Yield devices for the first kinds, then links that do not end at these devices; each place once."""
    taken = np.zeros(len(fabric.devices), bool)
    devices = rng.permutation(len(fabric.devices))
    free = np.ones(len(fabric.links), bool)
    order = iter(rng.permutation(len(fabric.links)))
    for kind in kinds:
        if kind in _AT_DEVICE:
            # An unreachable host affects 8 links, a switch up to 128: a switch only reboots.
            place = next(int(d) for d in devices if not taken[d] and (fabric.is_host[d] or kind == "reboot"))
            touching = (fabric.ends == place).any(axis=1)
            taken[np.unique(fabric.ends[touching])] = True
            free &= ~touching
            yield place
        else:
            link = next((int(i) for i in order if free[i]), None)
            if link is None:
                return
            yield link


def _changes(kind: str, seconds: float, cadence_s: float, rng: np.random.Generator) -> Iterator[float]:
    """Yield the times at which a fault starts and ends, in seconds from the start of the window."""
    at = float(rng.uniform(0.02, _LAST_START)) * seconds
    if kind == "burst":
        for _ in range(BURST_DOWNS):
            yield at
            yield (at := at + float(rng.uniform(0.4, 0.9)))
            at += float(rng.uniform(0.6, 1.6))
        return
    low_s, high_s = _LASTING_S[kind]
    if kind == "gone":
        low_s, high_s = max(low_s, 5 * cadence_s), max(high_s, 6 * cadence_s)
    yield at
    yield at + float(rng.uniform(low_s, high_s))
