"""Tests of the simulated fabric: both ends of a link agree, effects show at all affected ports, faults stay apart."""

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from lab.world.columns import COUNTER_INDEX, GAUGE_INDEX
from lab.world.effects import (
    CounterIncrement,
    CounterReset,
    Effect,
    GaugeOverride,
    Interval,
    Rebooting,
    SignalLoss,
    TrafficReduction,
    TrafficShift,
)
from lab.world.fabric_arrays import fabric_arrays
from lab.world.fault_placement import SEPARATION_NS, FaultPlacer, NoRoom
from lab.world.faults.congestion import CONGESTION_INCAST
from lab.world.negative_cases import hosts_in_maintenance
from lab.world.scenario import START_NS, ScenarioSpec, build
from lab.world.traffic import Traffic, over_two_pods
from lab.world.world import World
from streams.fabric.catalogue import Metric
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.ids import Port
from streams.wire.models import NO_INDEX

S = 10**9
INVENTORY = generate(GenerateParams(gpus=256, jobs=0))
FABRIC = fabric_arrays(INVENTORY)
PODS = {device.name: device.pod for device in INVENTORY.devices}
HOUR = Interval(START_NS, START_NS + 3600 * S)


def interval(start_s: float, end_s: float) -> Interval:
    return Interval(START_NS + round(start_s * S), START_NS + round(end_s * S))


def world_with(*effects: Effect) -> World:
    rng = np.random.default_rng(5)
    return World(INVENTORY, FABRIC, Traffic(32, 8, HOUR, rng), effects, START_NS, rng)


def read(world: World, at_s: float) -> None:
    world.advance(np.full(len(FABRIC.devices), START_NS + round(at_s * S), np.int64))


def count(world: World, metric: Metric, port: int, index: int = NO_INDEX) -> int:
    return int(world.counters[COUNTER_INDEX[metric, index], port])


def gauge(world: World, metric: Metric, port: int) -> float:
    return float(world.gauges[GAUGE_INDEX[metric], port])


def test_one_end_receives_what_the_other_sends() -> None:
    """In both directions of every link, to a thousandth, if both ends are read at one moment."""
    world = world_with()
    read(world, 10)
    before = world.counters.copy()
    for at_s in range(20, 120, 10):
        read(world, at_s)
    grown = (world.counters - before).astype(np.float64)
    a, z = FABRIC.links[:, 0], FABRIC.links[:, 1]
    sent, received = grown[COUNTER_INDEX[Metric.TX_BYTES, NO_INDEX]], grown[COUNTER_INDEX[Metric.RX_BYTES, NO_INDEX]]
    assert sent[a] == pytest.approx(received[z], rel=1e-3)
    assert sent[z] == pytest.approx(received[a], rel=1e-3)
    assert sent.max() > 1e12


def test_a_signal_loss_shows_at_both_ends() -> None:
    """In states, counted downs and transitions, and as missing traffic; a dark port receives no light."""
    nic, leaf = FABRIC.links[0].tolist()
    world = world_with(SignalLoss(0, interval(31, 52), dark_port=leaf))
    for at_s in (10, 20, 30):
        read(world, at_s)
    downs = count(world, Metric.LINK_DOWN_EVENTS, nic), count(world, Metric.LINK_TRANSITIONS, leaf)
    read(world, 40)
    assert gauge(world, Metric.OPER_UP, nic) == gauge(world, Metric.OPER_UP, leaf) == 0.0
    assert gauge(world, Metric.RX_POWER_DBM, leaf) < -30 < gauge(world, Metric.RX_POWER_DBM, nic)
    sent = count(world, Metric.TX_BYTES, nic)
    read(world, 50)
    assert count(world, Metric.TX_BYTES, nic) - sent <= 1
    read(world, 60)
    assert gauge(world, Metric.OPER_UP, nic) == 1.0
    assert count(world, Metric.LINK_DOWN_EVENTS, nic) == downs[0] + 1
    assert count(world, Metric.LINK_TRANSITIONS, leaf) == downs[1] + 2


def test_a_reboot_changes_the_boot_id_and_a_reset_does_not() -> None:
    """Both set the counters to zero; only a reboot changes the boot id and takes the links down."""
    first, second = (int(world_first) for world_first in FABRIC.first_port[:2])
    world = world_with(Rebooting(0, interval(31, 75)), CounterReset(1, interval(31, 36)))
    read(world, 30)
    boots = list(world.boot_id)
    for at_s in range(40, 100, 10):
        read(world, at_s)
    assert world.boot_id[0] == boots[0] + 1
    assert world.boot_id[1] == boots[1]
    assert count(world, Metric.RX_BITS, first) < count(world, Metric.RX_BITS, second) < 1 << 45
    assert len([down for down in world.signal_losses if 0 in FABRIC.owner[FABRIC.links[down.link]]]) == 8


def test_effects_show_at_their_port_only() -> None:
    """Increments in the counter, overrides in the gauge, and nothing at other ports."""
    nic = int(FABRIC.links[0][0])
    lossy = CounterIncrement(nic, Metric.RX_FCS_ERRORS, interval(0, 3600), per_s=2.0)
    world = world_with(
        lossy,
        GaugeOverride(nic, Metric.SPEED_BPS, interval(0, 3600), value=2e11),
        TrafficReduction(0, interval(0, 3600), 0.5),
    )
    plain = world_with()
    for at_s in range(10, 310, 10):
        read(world, at_s)
        read(plain, at_s)
    assert 400 < count(world, Metric.RX_FCS_ERRORS, nic) - count(plain, Metric.RX_FCS_ERRORS, nic) < 800
    assert gauge(world, Metric.SPEED_BPS, nic) == 2e11
    assert gauge(world, Metric.SPEED_BPS, nic + 1) == 4e11


def test_shifted_traffic_replaces_that_of_the_job() -> None:
    """A port sends its share of the line rate to the far end; the other direction does not change."""
    nic, leaf = FABRIC.links[0].tolist()
    world, plain = world_with(TrafficShift(0, interval(0, 3600), 0.95, sent_by=leaf)), world_with()
    for at_s in (10, 20):
        read(world, at_s)
        read(plain, at_s)
    sent, received = count(world, Metric.TX_BYTES, leaf), count(world, Metric.RX_BYTES, nic)
    for at_s in (30, 40):
        read(world, at_s)
        read(plain, at_s)
    full = 20 * 400e9 / 8
    assert count(world, Metric.TX_BYTES, leaf) - sent == pytest.approx(0.95 * full, rel=0.02)
    assert count(world, Metric.RX_BYTES, nic) - received == pytest.approx(0.95 * full, rel=0.02)
    assert count(world, Metric.TX_BYTES, nic) == pytest.approx(count(plain, Metric.TX_BYTES, nic), rel=0.02)


def new_placer(seed: int = 3) -> FaultPlacer:
    """Return a placer without claims."""
    rng = np.random.default_rng(seed)
    return FaultPlacer(INVENTORY, FABRIC, Traffic(32, 8, HOUR, rng), rng)


def test_an_imbalance_lasts_long_enough_to_be_compared() -> None:
    """Its uplinks have no other faults then, and earlier ones leave enough windows to compare."""
    placer = new_placer()
    leaf, drawn = placer.imbalanced_leaf(HOUR, (600, 700))
    assert not any(placer.claim(link, drawn) for link in placer.uplinks_of(leaf))
    busy = new_placer()
    for each in busy.devices("T0"):
        assert busy.claim(busy.uplinks_of(each)[0], HOUR)
    with pytest.raises(NoRoom):
        busy.imbalanced_leaf(HOUR, (600, 700))


def test_a_rail_collapses_with_most_of_its_hosts() -> None:
    """All links end at one leaf, their hosts are busy and have no other faults; another rail of the pod waits."""
    placer = new_placer()
    first, second = (placer.collapsing_rail(HOUR, (100, 160)) for _ in range(2))
    for pod, links, drawn in (first, second):
        assert pod in PODS.values()
        assert len({placer.ends[link][1] for link in links}) == 1
        assert len(links) > 16
        assert all(placer.is_busy(link, drawn) for link in links)
        assert not any(placer.claim(link, drawn) for link in links)
    assert not first[2].overlaps(second[2].widened(60 * S))


def test_few_devices_run_another_version_at_once() -> None:
    """The others remain a majority; if there is no room, NoRoom is raised."""
    placer = new_placer()
    hosts = placer.devices("host")
    taken: set[int] = set()
    with suppress(NoRoom):
        while len(taken) < len(hosts):
            taken.update(placer.drifting_devices("nic", hosts, HOUR, (3500, 3600))[0])
    assert 1 <= len(taken) <= len(hosts) // 8


def test_a_host_in_maintenance_has_no_random_faults() -> None:
    """All effects of the maintenance end before the time in the inventory."""
    placer = new_placer()
    until, effects = hosts_in_maintenance(placer, HOUR)
    ((name, at),) = until.items()
    drawn = FABRIC.devices.index(name)
    assert effects
    assert all(effect.interval.end_ns < at.timestamp() * S for effect in effects)
    assert placer.is_device_claimed(drawn, Interval(START_NS, round(at.timestamp()) * S - 1))


def test_faults_of_one_link_are_apart() -> None:
    """By a quarter of an hour; if there is no room, NoRoom is raised."""
    placer = new_placer()
    taken = [placer.link([0, 1, 2], HOUR, (60, 120)) for _ in range(4)]
    for i, (link, drawn) in enumerate(taken):
        assert not any(other == link and drawn.widened(SEPARATION_NS).overlaps(at) for other, at in taken[:i])
    with pytest.raises(NoRoom):
        _ = [placer.link([0, 1, 2], HOUR, (60, 120)) for _ in range(20)]


@pytest.mark.parametrize("hosts_per_job", [1, 8, 16])
def test_jobs_of_a_fabric_of_several_pods_are_in_two_of_them(hosts_per_job: int) -> None:
    """Half of a job's hosts in each; the last of an odd number of pods has jobs of its own, as one pod has."""
    pods = ["a"] * 16 + ["b"] * 16 + ["c"] * 16
    order = over_two_pods(pods, hosts_per_job)
    assert sorted(order) == list(range(48))
    groups = [[pods[host] for host in order[first : first + hosts_per_job]] for first in range(0, 32, hosts_per_job)]
    assert all(group.count("a") == group.count("b") for group in groups if hosts_per_job > 1)
    assert over_two_pods(pods[:16], hosts_per_job) == tuple(range(16))


def test_a_marked_incast_has_senders_in_another_pod_and_changes_no_other_fault() -> None:
    """Hosts of the receiver's job, on its rail, without a fault of their own; a fabric of one pod has none."""
    spec = ScenarioSpec(gpus=1024, seed=4, each=8, faults=(CONGESTION_INCAST,))
    day = build(spec)
    marked = [fault for fault in day.faults if fault.kind == "marked"]
    assert {fault.kind for fault in day.faults if fault.senders} == {"marked"}
    assert sum(bool(fault.senders) for fault in marked) >= len(marked) / 2 > 0
    for fault in marked:
        receiver = day.topology.link_at(Port(fault.truths[0].device, fault.truths[0].port))
        assert receiver is not None
        for sender in fault.senders:
            assert day.topology.pod_of(sender) != receiver.pod
            jobs = (day.topology.jobs_on([one], fault.truths[0].start_ns) for one in (sender, receiver.lower.device))
            assert len(set(jobs)) == 1
        ports = [
            (effect.port, effect.metric)
            for effect in fault.effects
            if isinstance(effect, CounterIncrement) and effect.metric is Metric.CNP_HANDLED
        ]
        assert len(set(ports)) == len(fault.senders)
    assert not any(fault.senders for fault in build(replace(spec, gpus=256)).faults)
