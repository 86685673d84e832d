"""Measures the locality service of a large fabric with open findings: distances, placements, exports, and a new state.

The findings are random by a seed: links that are down, rails that are degraded, hosts without telemetry.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from lab.bench.timing import Timing, timed, timing_lines
from streams.detect.detector import Placement
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.locality.distance import Distances
from streams.locality.export.write import FORMATS, export_text
from streams.locality.fabric_state import FabricState
from streams.locality.groups import Groups
from streams.locality.impairments import Impairment
from streams.locality.params import LocalityParams
from streams.locality.placement import place

LIMITS_MS = {"distance": 1.0, "placement": 1000.0, "export": 10_000.0}
"""The limits of the 99th percentile of CPU time for 131,072 GPUs; other processes lengthen the duration."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of the command."""

    gpus: int
    placed_gpus: int
    queries: int
    impaired: float
    seed: int = 1


@dataclass(frozen=True, slots=True)
class LocalityCost:
    """The results of one run."""

    hosts: int
    links: int
    findings: int
    units: int
    timings: tuple[Timing, ...]

    @property
    def is_passed(self) -> bool:
        """Return True if every kind of query is within its limit."""
        return all(timing.is_passed for timing in self.timings)


def measure(options: Options) -> LocalityCost:
    """Build the fabric and time all queries."""
    chance = random.Random(options.seed)  # noqa: S311 — random by a seed, no cryptography
    topology = Topology(generate(GenerateParams(gpus=options.gpus, jobs=0)))
    _ = topology.graph
    built, (groups,) = timed("groups of a new inventory", [partial(Groups, topology)])
    impaired = _impairments(topology, options, chance)
    changed, (*_, state) = timed("state after a finding changed", [partial(FabricState, groups, impaired)] * 5)
    hosts = [groups.graph.names[host] for host in groups.hosts.tolist()]
    return LocalityCost(
        len(hosts), len(topology.links), len(impaired), len(groups.units.names),
        (built, changed, *_query_timings(Distances(state), hosts, options, chance), *_export_timings(state)),
    )  # fmt: skip


def _query_timings(distances: Distances, hosts: list[str], options: Options, chance: random.Random) -> Iterator[Timing]:
    state, limit_ms = distances.state, LIMITS_MS["distance"]
    pairs = [chance.sample(hosts, 2) for _ in range(options.queries)]
    yield timed("distance of two hosts", [partial(distances.between, *pair) for pair in pairs], limit_ms)[0]
    ends = [[(host, chance.randrange(8)) for host in pair] for pair in pairs]
    yield timed("distance of two GPUs", [partial(distances.between_gpus, *pair) for pair in ends], limit_ms)[0]
    some = chance.sample(hosts, min(100, len(hosts)))
    yield timed("20 hosts near one", [partial(distances.near, host) for host in some])[0]
    for gpus in (options.placed_gpus, options.gpus // 2):
        yield timed(f"placement of {gpus:,} GPUs", [partial(place, state, gpus)] * 10, LIMITS_MS["placement"])[0]


def _export_timings(state: FabricState) -> Iterator[Timing]:
    params = LocalityParams()
    for form in FORMATS:
        yield timed(f"export {form}", [partial(export_text, state, form, "tree", params)], LIMITS_MS["export"])[0]


def _impairments(topology: Topology, options: Options, chance: random.Random) -> list[Impairment]:
    links = list(topology.links)
    hosts = [name for name, device in topology.devices.items() if device.kind == "host"]
    down = chance.sample(links, round(len(links) * options.impaired))
    slow = chance.sample(hosts, max(1, round(len(hosts) * options.impaired)))
    silent = chance.sample(hosts, max(1, round(len(hosts) * options.impaired)))
    return [
        *(Impairment(link, Placement.OUT, "link/down", "is down", f"{n:032x}") for n, link in enumerate(down)),
        *(Impairment(f"rail:{host}/0", Placement.DOUBTFUL, "rail/degraded", "is slow") for host in slow),
        *(Impairment(f"device:{host}", Placement.DOUBTFUL, "telemetry/stale", "is silent") for host in silent),
    ]


def table_lines(cost: LocalityCost, load_s: float = 1.0) -> Iterator[str]:
    """Yield the results as a table."""
    yield f"{cost.hosts:,} hosts in {cost.units:,} units, {cost.links:,} links, {cost.findings:,} findings"
    yield from timing_lines(cost.timings, load_s)
