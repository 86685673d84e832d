"""link/miscabled and fleet/version-drift over the simulated fabric: all faults are found, and nothing else."""

import random
from collections.abc import Iterator, Sequence

import numpy as np
import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import SOFTWARE, DemoShape
from lab.world.demo_world import DemoWorld
from lab.world.effects import Interval
from lab.world.faults.devices import OtherVersion
from lab.world.faults.links import SwappedCables
from lab.world.ground_truth import AnyFault, truth_rows
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.replay.driver import drive
from streams.replay.score import Truth, score
from streams.wire.models import (
    NO_INDEX,
    Cause,
    Component,
    Condition,
    Facts,
    Finding,
    Message,
    Neighbor,
    RowKind,
    Samples,
    Source,
    Table,
)
from tests.worlds.small_world import stages

S = 10**9
START = 1_700_000_000 * S
INVENTORY = demo_fabric.inventory(DemoShape(pods=2, hosts=8, planes=1, spines=2, uplinks=2), START)
MINUTES = 150
FIRMWARE = "28.42.1000"


def readings(world: DemoWorld) -> Iterator[Message]:
    """Yield a reading of each device every minute and its Facts every ten, each device at its own offset."""
    nothing = Table((), (), np.zeros((0, 0), np.uint64))
    for number, device in enumerate(world.inventory.devices):
        ports, is_host = world.ports[device.name], device.kind == "host"
        for minute in range(MINUTES):
            at_ns = START + 60 * S * minute + number * S // 7
            yield Samples(
                device.name, Source.SOURCE_GNMI, "c", 1, minute, at_ns, at_ns, 1, RowKind.ROW_KIND_PORT, ports, 0,
                nothing, Table((Metric.OPER_UP,), (NO_INDEX,), np.ones((1, len(ports)))),
            )  # fmt: skip
            if minute % 10:
                continue
            runs = world.version(device.name, FIRMWARE if is_host else SOFTWARE, at_ns)
            nics = tuple(Component(port, "nic", "MT4129", firmware=runs) for port in ports) if is_host else ()
            advertised = ((port, *world.neighbor(device.name, port, at_ns)) for port in ports)
            yield Facts(
                device.name, at_ns, Source.SOURCE_GNMI, device.vendor, device.model, "" if is_host else runs,
                components=nics, neighbors=tuple(Neighbor(*each) for each in advertised),
            )  # fmt: skip


def found_in(made: Sequence[AnyFault], seed: int, condition: Condition) -> list[Finding]:
    """Return the findings of a condition in a world with these faults."""
    outputs = drive(stages(), Topology(INVENTORY), readings(DemoWorld(INVENTORY, made, seed, START)), 30 * S)
    return [f for f in outputs if isinstance(f, Finding) and f.condition is condition]


def _span(chance: random.Random) -> Interval:
    begin = START + int(chance.uniform(600, 3600) * S)
    return Interval(begin, begin + int(chance.uniform(1500, 4200) * S))


@pytest.mark.parametrize("seed", [31, 32, 33])
def test_swapped_cables_are_found_and_both_are_named(seed: int) -> None:
    """Eight pairs anywhere, of hosts and of leaves: each once, as a swap, and nothing beside."""
    chance = random.Random(seed)
    links = [link for link in INVENTORY.links if link.role == "host-link"]
    chance.shuffle(links)
    uplinks = [link for link in INVENTORY.links if link.role == "fabric-link"]
    chance.shuffle(uplinks)
    pairs = [(links[2 * n], links[2 * n + 1]) for n in range(6)] + [
        (uplinks[2 * n], uplinks[2 * n + 1]) for n in (0, 1)
    ]
    made = [SwappedCables(one, other, _span(chance)) for one, other in pairs]
    own = found_in(made, seed, Condition.LINK_MISCABLED)
    rows = [Truth(r.start, r.end, Condition.LINK_MISCABLED, r.device, r.port, r.tolerance_s) for r in truth_rows(made)]
    result = score(own, rows)
    assert (result.precision, result.recall) == (1.0, 1.0), (result.missed, result.invented)
    parents = {f.id: f for f in own if not f.parent_id and f.is_closed}
    assert len(parents) == len(pairs)
    assert {f.cause for f in parents.values()} == {Cause.CABLES_SWAPPED}
    assert len({f.id for f in own if f.parent_id in parents and f.is_closed}) == len(pairs)


@pytest.mark.parametrize("seed", [41, 42, 43])
def test_versions_that_differ_are_found(seed: int) -> None:
    """A host's NICs and a leaf's software: one finding each, INFO, with the device named."""
    chance = random.Random(seed)
    hosts = [d.name for d in INVENTORY.devices if d.kind == "host"]
    leaves = [d.name for d in INVENTORY.devices if d.tier == "T0"]
    made = [
        OtherVersion((chance.choice(hosts),), _span(chance), "28.39.1002"),
        OtherVersion((chance.choice(leaves),), _span(chance), "4.32.0F"),
    ]
    own = found_in(made, seed, Condition.FLEET_VERSION_DRIFT)
    rows = [
        Truth(r.start, r.end, Condition.FLEET_VERSION_DRIFT, r.device, r.port, r.tolerance_s) for r in truth_rows(made)
    ]
    result = score(own, rows)
    assert (result.precision, result.recall) == (1.0, 1.0), (result.missed, result.invented)
    assert len({f.id for f in own}) == len(made)
