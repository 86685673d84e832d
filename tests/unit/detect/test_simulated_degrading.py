"""link/degrading and rail/degraded over the simulated fabric: what it makes worse is found, and nothing else is."""

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.hosts import SlowRail
from lab.world.faults.links import AdminDown, Degrading, LinkFlap
from lab.world.ground_truth import AnyFault, truth_rows
from streams.fabric.catalogue import Metric
from streams.fabric.inventory import Inventory, Link
from streams.fabric.topology import Topology
from streams.replay.driver import drive
from streams.replay.score import Truth, score
from streams.wire.models import NO_INDEX, Condition, Finding, RowKind, Samples, Source, Table
from tests.worlds.small_world import stages

S = 10**9
START = 1_700_000_000 * S
INVENTORY = demo_fabric.inventory(DemoShape(pods=1, hosts=2, planes=1, uplinks=1), START)
MINUTES = 26
COUNTERS = (
    Metric.RX_FCS_ERRORS,
    Metric.RX_PACKETS,
    Metric.RX_BYTES,
    Metric.TX_BYTES,
    Metric.FEC_CORRECTED_BITS,
    Metric.RX_BITS,
    Metric.LINK_TRANSITIONS,
)


def readings(world: DemoWorld) -> Iterator[Samples]:
    """Yield the counters of all ports every 20 s, each device at its own offset."""
    for number, (device, ports) in enumerate(world.ports.items()):
        for turn in range(MINUTES * 3):
            at_ns = START + 20 * S * turn + number * S // 7
            own = [world.port(device, port, at_ns) for port in ports]
            counts = [
                [p.fcs_errors for p in own], [p.rx_packets for p in own], [p.rx_bytes for p in own],
                [p.tx_bytes for p in own], [p.corrected_bits for p in own],
                [8 * p.rx_bytes for p in own], [p.transitions for p in own],
            ]  # fmt: skip
            yield Samples(
                device, Source.SOURCE_GNMI, "c", 1, turn, at_ns, at_ns, 1, RowKind.ROW_KIND_PORT, ports, 0,
                Table(COUNTERS, (NO_INDEX,) * len(COUNTERS), np.array(counts, np.uint64)),
                Table((Metric.OPER_UP,), (NO_INDEX,), np.array([[float(p.oper_up) for p in own]])),
            )  # fmt: skip


def faults(chance: random.Random) -> list[AnyFault]:
    """Twelve links that degrade at either end, by loss, by BER or by both; four that flap; four with one bad burst."""
    links = list(INVENTORY.links)
    chance.shuffle(links)
    made: list[AnyFault] = []
    for n, link in enumerate(links[:12]):
        span = _span(chance.uniform(30, 300), chance.uniform(270, 600))
        lost = (0.0, 10 ** chance.uniform(-6.5, -3))[n % 3 > 0]
        ber = (0.0, 10 ** chance.uniform(-4.8, -4))[n % 3 < 2]
        made.append(Degrading(link, chance.choice([link.a, link.z]), span, lost, ber))
    made += [_flapping(link, chance.uniform(60, 600)) for link in links[12:16]]
    made += [Degrading(link, link.a, _span(chance.uniform(60, 600), 5), 1e-4) for link in links[16:20]]
    return made


def _span(after_s: float, lasting_s: float) -> Interval:
    return Interval(START + int(after_s * S), START + int((after_s + lasting_s) * S))


def _flapping(link: Link, after_s: float) -> LinkFlap:
    return LinkFlap(link, tuple(_span(after_s + 25 * n, 21) for n in range(4)))


def found_in(inventory: Inventory, made: Sequence[AnyFault], seed: int, condition: Condition) -> list[Finding]:
    """Return the findings of a condition in a world with these faults."""
    world = DemoWorld(inventory, made, seed, START)
    result = drive(stages(), Topology(inventory), readings(world), 30 * S)
    return [f for f in result if isinstance(f, Finding) and f.condition is condition]


def truths_of(made: Sequence[AnyFault], condition: Condition) -> list[Truth]:
    """The faults of a condition that are no mere bursts."""
    return [
        Truth(row.start, row.end, condition, row.device, row.port, row.tolerance_s)
        for row in truth_rows(made)
        if row.condition == condition.name.lower() and row.end - row.start > 60 * S
    ]


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_what_degrades_is_found_and_bursts_and_flaps_are_not(seed: int) -> None:
    """Precision and recall are 1; each is found within five minutes."""
    made = faults(random.Random(seed))
    own = found_in(INVENTORY, made, seed, Condition.LINK_DEGRADING)
    truths = truths_of(made, Condition.LINK_DEGRADING)
    assert len(truths) == 12
    found = score(own, truths)
    assert (found.precision, found.recall) == (1.0, 1.0), found
    for row in truths:
        (first, *_) = [
            f
            for f in own
            if row.port in {end.port for end in (f.subject.a, f.subject.z) if end and end.device == row.device}
        ]
        assert first.detected_at_ns is not None
        assert first.detected_at_ns - row.start_ns < 300 * S


RAILS = demo_fabric.inventory(DemoShape(pods=1, hosts=6, planes=1, spines=1, uplinks=1), START)


def slow_rails(chance: random.Random) -> list[AnyFault]:
    """A slow rail at four hosts of a job or two; one slow for a minute; two links that flap and two that are shut."""
    links = [link for link in RAILS.links if link.role == "host-link"]
    chance.shuffle(links)
    rails = chance.sample(range(8), 4)  # each its own: the same rail slow at most hosts of a job is a leaf's fault
    hosts = [f"pod1-host{n}" for n in range(1, 5)]
    by_host = {
        a: link
        for a, rail in zip(hosts, rails, strict=True)
        for link in links
        if (link.a_device, link.rail) == (a, rail)
    }
    made: list[AnyFault] = [
        SlowRail(
            by_host[f"pod1-host{n}"],
            _span(chance.uniform(30, 300), chance.uniform(270, 600)),
            chance.uniform(0.2, 0.85),
        )
        for n in range(1, 5)
    ]
    rest = [link for link in links if link not in by_host.values()]
    made.append(SlowRail(rest[0], _span(chance.uniform(60, 900), 55), 0.3))
    made += [_flapping(link, chance.uniform(60, 600)) for link in rest[1:3]]
    return made + [AdminDown(link, link.z, _span(chance.uniform(60, 300), 400)) for link in rest[3:5]]


@pytest.mark.parametrize("seed", [21, 22, 23])
def test_slow_rails_are_found_and_spells_flaps_and_shut_ports_are_not(seed: int) -> None:
    """Precision and recall are 1; each is found within five minutes."""
    made = slow_rails(random.Random(seed))
    own = found_in(RAILS, made, seed, Condition.RAIL_DEGRADED)
    truths = truths_of(made, Condition.RAIL_DEGRADED)
    assert len(truths) == 4
    found = score(own, truths)
    assert (found.precision, found.recall) == (1.0, 1.0), found
    assert {f.subject.id.partition("/")[0] for f in own} == {f"rail:pod1-host{n}" for n in range(1, 5)}
    for row in truths:
        (first, *_) = [
            f for f in own if f.subject.a and (f.subject.a.device, f.subject.a.port) == (row.device, row.port)
        ]
        assert first.detected_at_ns is not None
        assert first.detected_at_ns - row.start_ns < 300 * S
