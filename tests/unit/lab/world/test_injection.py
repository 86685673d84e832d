"""Every fault of the list can be injected into the benchmark and a test, those of the network also in demo and load."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from lab.bench.detection.session import TrialSpec
from lab.bench.load.fleet import COLLECTORS, Fleet
from lab.servers.serve import Params, world_of
from lab.world import demo_fabric, demo_scenario, ground_truth
from lab.world.demo_world import DemoProbes, DemoWorld
from lab.world.effects import Effect, GaugeOverride, Interval, VersionChange
from lab.world.fabric_arrays import fabric_arrays
from lab.world.faults import FAULT_OF, FAULTS, Fault
from lab.world.probe_mesh import with_addresses
from lab.world.scenario import START_NS, ScenarioSpec, build
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import Port
from streams.replay.driver import drive
from streams.wire.codec import from_bytes
from streams.wire.errors import Misconfigured
from streams.wire.models import CollectorStatus, Finding, Samples
from tests.worlds.simulated_world import S, SimulatedWorld
from tests.worlds.small_world import stages

INVENTORY = with_addresses(generate(GenerateParams(gpus=256, jobs=0)))
SMALL = generate(GenerateParams(gpus=128, radix=64, jobs=0))
CADENCE_S, LAST_S = 10.0, 1900
DAY_NS = 86_400 * S
every_fault_of_the_network = pytest.mark.parametrize(
    "fault", [fault for fault in FAULTS if not fault.is_of_trial], ids=lambda fault: fault.slug
)
every_fault = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.slug)


@every_fault
def test_a_fault_is_injected_into_the_benchmark(fault: Fault) -> None:
    """A day with one fault of one condition has its ground truth."""
    day = build(
        ScenarioSpec(gpus=256, each=1, faults=(fault,), planes=fault.min_planes, is_sprayed=fault.needs_spraying)
    )
    assert fault.condition in {truth.condition for injected in day.faults for truth in injected.truths}
    assert fault in TrialSpec().faults


@every_fault_of_the_network
def test_a_fault_is_injected_into_the_demo(fault: Fault) -> None:
    """The fabric behind the protocol servers differs from the healthy one, and the truth file names the fault."""
    inventory = demo_fabric.inventory(demo_fabric.DemoShape(pods=2, hosts=8), START_NS)
    within = Interval(START_NS, START_NS + LAST_S * S)
    faults = demo_scenario.inject(inventory, [fault.slug], within, seed=3)
    assert fault.condition.name.lower() in {row.condition for row in ground_truth.truth_rows(faults)}
    healthy, faulty = (DemoWorld(inventory, own, 1, START_NS) for own in ((), faults))
    assert _readings(healthy, faults[0].effects) != _readings(faulty, faults[0].effects)


def _readings(world: DemoWorld, effects: Sequence[Effect]) -> list[object]:
    """Return everything that the servers read, at the middle and at the end of each effect, and what probers report."""
    moments = {sum(effect.interval) // 2 for effect in effects} | {START_NS + LAST_S * S}
    gauges = [effect.metric for effect in effects if isinstance(effect, GaugeOverride)]
    found: list[object] = [*DemoProbes(world, 1, START_NS).due(START_NS + LAST_S * S)]
    for at_ns in sorted(moments):
        for device, names in world.ports.items():
            found += [world.device(device, at_ns), world.version(device, "", at_ns), len(world.gpu_events(device))]
            found.append(world.clock_ns(device, at_ns))
            for name in names:
                found += [world.port(device, name, at_ns), world.neighbor(device, name, at_ns)]
                found += [world.gauge(Port(device, name), metric, at_ns, 1.0) for metric in gauges]
    return found


@every_fault_of_the_network
def test_a_fault_is_injected_into_the_load(fault: Fault) -> None:
    """The load sends other messages than if the fault came a day later."""
    fabric = fabric_arrays(INVENTORY)
    (injected,) = demo_scenario.inject(INVENTORY, [fault.slug], Interval(0, LAST_S * S), seed=3)
    delayed = replace(injected, effects=tuple(map(_a_day_later, injected.effects)))
    now, later = (
        Fleet(fabric, CADENCE_S, np.random.default_rng(5), dict.fromkeys(COLLECTORS, 1), [fault], INVENTORY)
        for fault in (injected, delayed)
    )
    assert _sent(now) != _sent(later)


def _a_day_later(effect: Effect) -> Effect:
    interval = Interval(effect.interval.start_ns + DAY_NS, effect.interval.end_ns + DAY_NS)
    if isinstance(effect, VersionChange):
        return replace(effect, interval=interval, polled_at_ns=interval)
    return replace(effect, interval=interval)


def _sent(fleet: Fleet) -> list[object]:
    sent: list[object] = []
    for step in range(1, int(LAST_S / CADENCE_S) + 1):
        until_s, now_ns = step * CADENCE_S, START_NS + step * S
        sent += fleet.injected(until_s, now_ns)
        for encoded in fleet.readings(until_s, now_ns):
            samples = from_bytes(Samples, encoded.value)
            values = samples.counters.values.tobytes() + samples.gauges.values.tobytes()
            sent.append((samples.device, samples.boot_id, samples.sampled_at_ns - samples.received_at_ns, values))
        sent += [from_bytes(CollectorStatus, encoded.value) for encoded in fleet.statuses(until_s, now_ns)]
    return sent


@every_fault
def test_a_fault_is_injected_into_a_test(fault: Fault) -> None:
    """The stages find the fault in the messages of the simulated world."""
    world = SimulatedWorld(SMALL, fault, (300.0, LAST_S), LAST_S + 300.0)
    found = [f for f in drive(stages(), world.topology, world.messages(), 30 * S) if isinstance(f, Finding)]
    assert fault.condition in {finding.condition for finding in found}


def test_the_demo_refuses_a_fault_that_only_gpus_show() -> None:
    """Its servers have no values of GPUs, so that nothing would be found."""
    with pytest.raises(Misconfigured, match="what shows host/power-capped these servers do not have"):
        world_of(Params(inject=("link/flap", "host/power-capped")), START_NS)


def test_the_list_is_keyed_by_slug() -> None:
    """Each consumer finds the first fault of a detector by its slug."""
    first: dict[str, Fault] = {}
    for fault in FAULTS:
        first.setdefault(fault.slug, fault)
    assert first == FAULT_OF
