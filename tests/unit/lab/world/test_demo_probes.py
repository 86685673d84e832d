"""The probers of the demo and of the load: the stages find in their reports what was injected, and no other fault."""

import numpy as np
import pytest

from lab.bench.load.fleet import COLLECTORS, Fleet
from lab.world import demo_fabric, demo_scenario
from lab.world.demo_world import DemoProbes, DemoWorld
from lab.world.effects import Interval
from lab.world.fabric_arrays import fabric_arrays
from lab.world.faults.devices import Reboot
from lab.world.ground_truth import InjectedFault
from lab.world.probe_mesh import REPORTED_AFTER_NS, WINDOW_NS, with_addresses
from lab.world.scenario import START_NS
from streams.fabric.topology import Topology
from streams.replay.driver import drive
from streams.wire.models import Finding, ProbeReport
from tests.worlds.small_world import stages

S = 10**9
LAST_S = 1500
WITHIN = Interval(START_NS + 120 * S, START_NS + LAST_S * S)
INVENTORY = with_addresses(demo_fabric.inventory(demo_fabric.DemoShape(pods=2, hosts=4), START_NS))
TOPOLOGY = Topology(INVENTORY)
every_slug = pytest.mark.parametrize("slug", ["path/loss", "rail/unreachable"])


def injected(slug: str, within: Interval = WITHIN) -> InjectedFault:
    (fault,) = demo_scenario.inject(INVENTORY, [slug], within, seed=3)
    return fault


def found(reports: list[ProbeReport]) -> set[str]:
    """Return the slugs of all findings."""
    return {one.condition.slug for one in drive(stages(), TOPOLOGY, reports, 30 * S) if isinstance(one, Finding)}


@every_slug
def test_the_demo_shows_the_fault(slug: str) -> None:
    """The reports of its probers, a second at a time as it sends them, have the fault and no other."""
    probes = DemoProbes(DemoWorld(INVENTORY, [injected(slug)], 1, START_NS), 1, START_NS)
    reports = [one for second in range(LAST_S) for one in probes.due(START_NS + second * S)]
    assert found(reports) == {slug}


@every_slug
def test_the_load_shows_the_fault(slug: str) -> None:
    """Its reports carry the times of its clock; the effects have those of the load."""
    faults, runs = [injected(slug, Interval(120 * S, LAST_S * S))], dict.fromkeys(COLLECTORS, 1)
    fleet = Fleet(fabric_arrays(INVENTORY), 10.0, np.random.default_rng(5), runs, faults, INVENTORY)
    reports: list[ProbeReport] = []
    for second in range(LAST_S):
        sent = fleet.injected(float(second), START_NS + second * S)
        reports += [one for _, one in sent if isinstance(one, ProbeReport)]
    assert found(reports) == {slug}


def test_each_window_is_reported_once_by_each_host_that_is_up() -> None:
    """A report follows its window and the last replies; a host that reboots sends none."""
    host = INVENTORY.links[0].a_device
    down = Interval(START_NS + 95 * S, START_NS + 155 * S)
    world = DemoWorld(INVENTORY, [Reboot(host, down)], 1, START_NS)
    probes = DemoProbes(world, 1, START_NS + 1)
    first_ns = START_NS + WINDOW_NS + REPORTED_AFTER_NS
    assert [*probes.due(first_ns)] == []
    assert {one.device for one in probes.due(first_ns + 1)} == set(world.hosts)
    assert [*probes.due(first_ns + 1)] == []
    later = [*probes.due(START_NS + 200 * S)]
    windows = range(START_NS + 2 * WINDOW_NS, START_NS + 199 * S, WINDOW_NS)
    others = len(world.hosts) - 1
    assert len(later) == len(windows) * others + sum(not down.contains(end_ns) for end_ns in windows)
    to_host = [sum(one.flow_unanswered) for one in later if one.end_ns == START_NS + 120 * S]
    assert any(to_host)
