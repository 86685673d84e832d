"""Tests of the messages of the simulated fabric: in order of arrival, late and duplicate ones, runs of collectors."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from lab.world.delivery_model import Cadence, DeliveryModel
from lab.world.effects import (
    CablesSwapped,
    CollectorRestart,
    Effect,
    GpuGaugeOverride,
    Interval,
    NotPolled,
    Rebooting,
    SignalLoss,
    VersionChange,
)
from lab.world.fabric_arrays import fabric_arrays
from lab.world.facts_source import NIC, VERSIONS
from lab.world.fault_placement import FaultPlacer
from lab.world.faults import FAULTS, Fault
from lab.world.scenario import START_NS
from lab.world.telemetry import Telemetry, collector_of
from lab.world.traffic import Traffic
from lab.world.world import World
from streams.fabric.catalogue import Metric
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire.models import CollectorStatus, Event, EventKind, Facts, Message, RowKind, Samples, Source

S = 10**9
INVENTORY = generate(GenerateParams(gpus=256, jobs=0))
FABRIC = fabric_arrays(INVENTORY)
PODS = {device.name: device.pod for device in INVENTORY.devices}
TOPOLOGY = Topology(INVENTORY)
HOUR = Interval(START_NS, START_NS + 3600 * S)
IMMEDIATE = DeliveryModel(late_ratio=0, duplicate_ratio=0, poll_only_ratio=0)
SWITCH = len(FABRIC.devices) - 1


def interval(start_s: float, end_s: float) -> Interval:
    return Interval(START_NS + round(start_s * S), START_NS + round(end_s * S))


def sent(
    effects: Sequence[Effect], until_s: float, model: DeliveryModel = IMMEDIATE, seed: int = 5, of_nics_s: float = 10.0
) -> list[Message]:
    """Return all messages of a fabric with these effects, in order of arrival."""
    rng = np.random.default_rng(seed)
    world = World(INVENTORY, FABRIC, Traffic(32, 8, HOUR, rng), effects, START_NS, rng)
    delivery = Telemetry(world, TOPOLOGY, effects, Cadence(10.0, of_nics_s), model, rng)
    slices = delivery.batches(START_NS, START_NS + round(until_s * S), S)
    return [message for _, came in slices for message in came]


def test_one_seed_gives_the_same_messages() -> None:
    """In the same order; another seed gives others."""
    once, again, other = (sent((), 60, DeliveryModel(), seed) for seed in (5, 5, 6))
    keys = [[(m.device, m.sampled_at_ns) for m in own if isinstance(m, Samples)] for own in (once, again, other)]
    assert keys[0] == keys[1] != keys[2]


def test_some_messages_are_late_and_some_arrive_twice() -> None:
    """In the configured ratios; a late message arrives after a newer one of its device."""
    own = [m for m in sent((), 600, DeliveryModel(late_ratio=0.05, duplicate_ratio=0.05)) if isinstance(m, Samples)]
    readings = Counter((m.device, m.source, m.sequence) for m in own)
    assert 0.02 < sum(count == 2 for count in readings.values()) / len(readings) < 0.08
    newest: dict[tuple[str, Source], int] = {}
    behind = 0
    for message in own:
        key = message.device, message.source
        behind += message.sequence < newest.get(key, 0)
        newest[key] = max(newest.get(key, 0), message.sequence)
    assert behind > 50


def test_both_ends_send_events_of_a_signal_loss() -> None:
    """A switch that refuses ON_CHANGE sends none."""
    down = SignalLoss(0, interval(31, 34))
    events = [m for m in sent([down], 60) if isinstance(m, Event)]
    kinds = Counter((m.device, m.source, m.kind) for m in events)
    host, leaf = (FABRIC.devices[int(end)] for end in (0, np.repeat(np.arange(len(FABRIC.devices)),
                  [len(own) for own in FABRIC.ports])[FABRIC.links[0][1]]))  # fmt: skip
    for kind in (EventKind.LINK_DOWN, EventKind.LINK_UP):
        assert kinds[host, Source.SOURCE_NIC, kind] == kinds[leaf, Source.SOURCE_GNMI, kind] == 1
    polled = [
        m
        for m in sent([down], 60, DeliveryModel(late_ratio=0, duplicate_ratio=0, poll_only_ratio=1))
        if isinstance(m, Event)
    ]
    assert {m.device for m in polled} == {host}


def test_a_device_that_is_not_polled_sends_nothing() -> None:
    """The collector of a switch reports it at each cadence; a host's agent that has ended reports nothing."""
    own = sent(
        [NotPolled(SWITCH, interval(60, 200), is_reported=True), NotPolled(0, interval(60, 200), is_reported=False)],
        200,
    )
    after = [m for m in own if isinstance(m, Samples | CollectorStatus) and _at(m) > START_NS + 75 * S]
    assert not [m for m in after if m.device == FABRIC.devices[0]]
    of_switch = [m for m in after if m.device == FABRIC.devices[SWITCH]]
    assert len(of_switch) > 10
    assert all(isinstance(m, CollectorStatus) and not m.reachable for m in of_switch)


def _at(message: Samples | CollectorStatus) -> int:
    return message.sampled_at_ns if isinstance(message, Samples) else message.at_ns


def test_a_restarted_collector_has_another_run() -> None:
    """Only the samples of its own switches have it."""
    own = [m for m in sent([CollectorRestart(collector_of(SWITCH), interval(31, 45))], 90) if isinstance(m, Samples)]
    runs = {m.device: m.collector_run for m in own}
    assert {device for device, run in runs.items() if run == 2} == {
        name for i, name in enumerate(FABRIC.devices)
        if not FABRIC.is_host[i] and collector_of(i) == collector_of(SWITCH)
    }  # fmt: skip


def test_a_rebooted_device_has_another_boot_id() -> None:
    """It sends nothing meanwhile."""
    own = [
        m
        for m in sent([Rebooting(0, interval(31, 85))], 150)
        if isinstance(m, Samples) and m.device == FABRIC.devices[0]
    ]
    assert len({m.boot_id for m in own}) == 2
    assert not [m for m in own if START_NS + 36 * S < m.sampled_at_ns < START_NS + 80 * S]


def test_nics_are_polled_more_often_than_switches() -> None:
    """Each at its own cadence, and so is the agent of the host."""
    own = [m for m in sent((), 120, of_nics_s=1.0) if isinstance(m, Samples)]
    count = Counter((m.device, m.source, m.row_kind) for m in own)
    assert 118 <= count[FABRIC.devices[0], Source.SOURCE_NIC, RowKind.ROW_KIND_PORT] <= 120
    assert 11 <= count[FABRIC.devices[SWITCH], Source.SOURCE_GNMI, RowKind.ROW_KIND_PORT] <= 12
    of_agents = [count[name, Source.SOURCE_HOST, RowKind.ROW_KIND_GPU] for name in FABRIC.devices[:32]]
    assert set(of_agents) <= {3, 4}
    for name in FABRIC.devices[:32]:
        times = [m.sampled_at_ns for m in own if m.device == name and m.source is Source.SOURCE_NIC]
        assert times == sorted(times)


def test_a_changed_version_shows_once_facts_are_polled() -> None:
    """So does the common one after the change is undone."""
    polled = START_NS + 80 * S, START_NS + 320 * S
    facts = [
        m for m in sent([VersionChange((0, 3), NIC, "0.1", interval(60, 300), polled)], 400) if isinstance(m, Facts)
    ]
    for device in (0, 3):
        own = [m for m in facts if m.device == FABRIC.devices[device]]
        versions = [{part.firmware for part in m.components} for m in own]
        assert versions == [{VERSIONS[NIC]}, {"0.1"}, {VERSIONS[NIC]}]
    assert len([m for m in facts if m.device == FABRIC.devices[1]]) == 1


def test_lldp_shows_swapped_cables_once_facts_are_polled() -> None:
    """Until the facts are polled after the cables were put back."""
    first, second = 0, 8
    facts = [m for m in sent([CablesSwapped((first, second), interval(60, 300), 20.0)], 400) if isinstance(m, Facts)]
    host = [m for m in facts if m.device == FABRIC.devices[0]]
    neighbors = [next(n for n in m.neighbors if n.port == FABRIC.ports[0][0]) for m in host]
    assert len(neighbors) == 3
    assert neighbors[0] == neighbors[2] != neighbors[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.slug)
def test_each_fault_has_truth_and_effects_of_its_condition(fault: Fault) -> None:
    """The truth lies within the time and at an existing device, and there are effects."""
    rng = np.random.default_rng(3)
    day = Interval(START_NS, START_NS + 8 * 3600 * S)
    placer = FaultPlacer(INVENTORY, FABRIC, Traffic(32, 8, day, rng), rng)
    for _ in range(3):
        made = fault.inject(placer, day)
        assert made.effects
        assert fault.condition in {truth.condition for truth in made.truths}
        for truth in made.truths:
            assert truth.device in {*FABRIC.devices, *PODS.values()}
            assert day.start_ns <= truth.start_ns < truth.end_ns <= day.end_ns


def test_a_gauge_of_one_gpu_is_overridden_during_its_interval() -> None:
    """Other GPUs of the host, and the same one before, read their usual value."""
    hot = GpuGaugeOverride(0, 2, Metric.GPU_TEMPERATURE_C, interval(60, 200), 95.0)
    rows = [m for m in sent([hot], 200) if isinstance(m, Samples) and m.row_kind is RowKind.ROW_KIND_GPU]
    readings = [
        (m.sampled_at_ns, m.gauges.values[m.gauges.metric.index(Metric.GPU_TEMPERATURE_C)])
        for m in rows
        if m.device == FABRIC.devices[0]
    ]
    assert {value[2] for at_ns, value in readings if at_ns > START_NS + 61 * S} == {95.0}
    assert all(value[2] < 95.0 for at_ns, value in readings if at_ns < START_NS + 59 * S)
    assert all(value[3] < 95.0 for _, value in readings)
