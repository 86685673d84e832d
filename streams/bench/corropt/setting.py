"""The fabric, faults and repairs of CorrOpt's evaluation (SIGCOMM 2017), with the numbers of LinkGuardian's simulator.

261 pods of 48 ToRs with 4 uplinks, one to the aggregation switch of each plane; 48 uplinks of each of those, one to
each spine of its plane: 100,224 links, and 192 paths from a ToR to the spines.
"""

from dataclasses import dataclass
from itertools import product

import numpy as np

from streams.fabric.graph import Floats
from streams.fabric.inventory import Device, Inventory, Link
from streams.fabric.topology import Topology

TORS, PLANES, SPINES = 48, 4, 48
DAY_S = 86_400.0

MTTF_HOURS = 10_000.0
"""Mean time to failure of a link; exponential. 100,224 links have 240 faults a day."""

LOSS_BUCKETS = ((0.4723, 1e-8, 9e-6), (0.1843, 1e-5, 9.9e-5), (0.2167, 1e-4, 9.99e-4), (0.1267, 1e-3, 1e-2))
"""Share of the faults, lowest and highest loss rate; uniform within."""

QUICK_REPAIRS, QUICK_REPAIR_S, SLOW_REPAIR_S = 0.8, 2 * DAY_S, 4 * DAY_S
"""Share of the repairs that take two days; the others take four. A repair always succeeds."""

_FAULTS_PER_LINK = 12
"""Faults that are drawn for each link; a link has 0.2 in 90 days."""


def fabric(pods: int = 261) -> Topology:
    """Return the topology; the links of a pod's ToRs come before those of its aggregation switches."""
    spines = {(plane, n): f"spine-{plane}-{n:02d}" for plane, n in product(range(PLANES), range(SPINES))}
    devices = [Device(name, "switch", "T2", plane=plane) for (plane, _), name in spines.items()]
    links: list[Link] = []
    for pod in (f"pod-{number:03d}" for number in range(pods)):
        aggs = [f"{pod}-agg-{plane}" for plane in range(PLANES)]
        tors = [f"{pod}-tor-{n:02d}" for n in range(TORS)]
        devices += [Device(tor, "switch", "T0", pod=pod) for tor in tors]
        devices += [Device(agg, "switch", "T1", pod=pod, plane=plane) for plane, agg in enumerate(aggs)]
        links += [
            Link(tor, f"up{plane}", agg, f"down{n}", "fabric-link", None, plane)
            for n, tor in enumerate(tors)
            for plane, agg in enumerate(aggs)
        ]
        links += [
            Link(agg, f"up{n}", spines[plane, n], pod, "fabric-link", None, plane)
            for plane, agg in enumerate(aggs)
            for n in range(SPINES)
        ]
    return Topology(Inventory(devices=tuple(devices), links=tuple(links)))


@dataclass(frozen=True)
class Faults:
    """The faults of each link in turn (first axis): the time in service before each, its loss rate and its repair."""

    in_service_s: Floats
    loss: Floats
    repair_s: Floats


def faults(links: int, seed: int, mttf_hours: float = MTTF_HOURS) -> Faults:
    """Return the faults; they do not depend on the policy, so that all policies meet the same."""
    random = np.random.default_rng(seed)
    shape = (_FAULTS_PER_LINK, links)
    shares, lowest, highest = (np.array(column) for column in zip(*LOSS_BUCKETS, strict=True))
    bucket = random.choice(len(shares), size=shape, p=shares / shares.sum())
    return Faults(
        random.exponential(mttf_hours * 3600, shape),
        random.uniform(lowest[bucket], highest[bucket]),
        np.where(random.random(shape) < QUICK_REPAIRS, QUICK_REPAIR_S, SLOW_REPAIR_S),
    )
