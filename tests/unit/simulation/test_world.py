"""The simulated fabric of the detection trial: both ends agree, and what happens shows at all who would notice."""

import numpy as np
import pytest

from streams.fabric.catalogue import Metric
from streams.simulation.clos import GenerateParams, generate
from streams.simulation.columns import COUNTER_INDEX, GAUGE_INDEX
from streams.simulation.effects import (
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
from streams.simulation.fabric_arrays import fabric_arrays
from streams.simulation.fault_placement import SEPARATION_NS, FaultPlacer, NoRoom
from streams.simulation.negative_cases import hosts_in_maintenance
from streams.simulation.scenario import START_NS
from streams.simulation.traffic import Traffic
from streams.simulation.world import World
from streams.wire.models import NO_INDEX

S = 10**9
INVENTORY = generate(GenerateParams(gpus=256, jobs=0))
PLANT = fabric_arrays(INVENTORY)
PODS = {device.name: device.pod for device in INVENTORY.devices}
HOUR = Interval(START_NS, START_NS + 3600 * S)


def span(start_s: float, end_s: float) -> Interval:
    return Interval(START_NS + round(start_s * S), START_NS + round(end_s * S))


def made(*effects: Effect) -> World:
    chance = np.random.default_rng(5)
    return World(INVENTORY, PLANT, Traffic(32, 8, HOUR, chance), effects, START_NS, chance)


def read(world: World, at_s: float) -> None:
    world.advance(np.full(len(PLANT.devices), START_NS + round(at_s * S), np.int64))


def count(world: World, metric: Metric, port: int, index: int = NO_INDEX) -> int:
    return int(world.counters[COUNTER_INDEX[metric, index], port])


def gauge(world: World, metric: Metric, port: int) -> float:
    return float(world.gauges[GAUGE_INDEX[metric], port])


def test_what_one_end_sends_the_other_receives() -> None:
    """Both directions of every link, to a thousandth, where both ends are read at one moment."""
    world = made()
    read(world, 10)
    before = world.counters.copy()
    for at_s in range(20, 120, 10):
        read(world, at_s)
    grown = (world.counters - before).astype(np.float64)
    a, z = PLANT.links[:, 0], PLANT.links[:, 1]
    sent, received = grown[COUNTER_INDEX[Metric.TX_BYTES, NO_INDEX]], grown[COUNTER_INDEX[Metric.RX_BYTES, NO_INDEX]]
    assert sent[a] == pytest.approx(received[z], rel=1e-3)
    assert sent[z] == pytest.approx(received[a], rel=1e-3)
    assert sent.max() > 1e12


def test_a_link_that_is_away_shows_at_both_ends() -> None:
    """State, counted downs and transitions, and no traffic while it lasts; a port in the dark gets no light."""
    nic, leaf = PLANT.links[0].tolist()
    world = made(SignalLoss(0, span(31, 52), dark_port=leaf))
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


def test_a_restart_is_another_boot_and_a_reset_is_not() -> None:
    """Counters begin at zero in both; only a device that was away has another boot, and its links were dead."""
    first, second = (int(world_first) for world_first in PLANT.first_port[:2])
    world = made(Rebooting(0, span(31, 75)), CounterReset(1, span(31, 36)))
    read(world, 30)
    boots = list(world.boot_id)
    for at_s in range(40, 100, 10):
        read(world, at_s)
    assert world.boot_id[0] == boots[0] + 1
    assert world.boot_id[1] == boots[1]
    assert count(world, Metric.RX_BITS, first) < count(world, Metric.RX_BITS, second) < 1 << 45
    assert len([down for down in world.signal_losses if 0 in PLANT.owner[PLANT.links[down.link]]]) == 8


def test_effects_on_a_port_are_counted_where_they_are() -> None:
    """A slow link by its share, lost frames by theirs, a gauge by what it should say, and nothing elsewhere."""
    nic = int(PLANT.links[0][0])
    lossy = CounterIncrement(nic, Metric.RX_FCS_ERRORS, span(0, 3600), per_s=2.0)
    world = made(
        lossy, GaugeOverride(nic, Metric.SPEED_BPS, span(0, 3600), value=2e11), TrafficReduction(0, span(0, 3600), 0.5)
    )
    plain = made()
    for at_s in range(10, 310, 10):
        read(world, at_s)
        read(plain, at_s)
    assert 400 < count(world, Metric.RX_FCS_ERRORS, nic) - count(plain, Metric.RX_FCS_ERRORS, nic) < 800
    assert gauge(world, Metric.SPEED_BPS, nic) == 2e11
    assert gauge(world, Metric.SPEED_BPS, nic + 1) == 4e11


def test_a_port_carries_what_it_is_said_to_carry() -> None:
    """That share of its line to its far end, not what its job sends; the other direction goes on as before."""
    nic, leaf = PLANT.links[0].tolist()
    world, plain = made(TrafficShift(0, span(0, 3600), 0.95, sent_by=leaf)), made()
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


def placed(seed: int = 3) -> FaultPlacer:
    """All free."""
    chance = np.random.default_rng(seed)
    tiers = {device.name: device.tier for device in INVENTORY.devices}
    return FaultPlacer(PLANT, [tiers[name] for name in PLANT.devices], Traffic(32, 8, HOUR, chance), chance, PODS)


def test_an_uneven_leaf_is_uneven_for_long_enough() -> None:
    """Nothing else happens then to its uplinks, and what happened before leaves enough windows to compare."""
    places = placed()
    leaf, own = places.imbalanced_leaf(HOUR, (600, 700))
    assert not any(places.claim(link, own) for link in places.uplinks_of(leaf))
    busy = placed()
    for each in busy.devices("T0"):
        assert busy.claim(busy.uplinks_of(each)[0], HOUR)
    with pytest.raises(NoRoom):
        busy.imbalanced_leaf(HOUR, (600, 700))


def test_a_rail_collapses_with_most_of_its_hosts() -> None:
    """All at one leaf, of hosts at work, at which nothing else happens; another rail of the pod waits."""
    places = placed()
    first, second = (places.collapsing_rail(HOUR, (100, 160)) for _ in range(2))
    for pod, links, own in (first, second):
        assert pod in PODS.values()
        assert len({places.ends[link][1] for link in links}) == 1
        assert len(links) > 16
        assert all(places.is_busy(link, own) for link in links)
        assert not any(places.claim(link, own) for link in links)
    assert not first[2].overlaps(second[2].widened(60 * S))


def test_few_run_another_version_at_once() -> None:
    """So few that what all others run is still what most run; where there is no room, that is said."""
    places = placed()
    hosts = places.devices("host")
    with pytest.raises(NoRoom):
        _ = [places.drifting_devices("nic", hosts, HOUR, (3500, 3600)) for _ in range(100)]
    taken = {device for device, _ in places._drifting["nic"]}
    assert 1 <= len(taken) <= len(hosts) // 8


def test_nothing_happens_by_chance_at_a_host_on_which_people_work() -> None:
    """What they do there is known to the inventory, until when it says."""
    places = placed()
    until, effects = hosts_in_maintenance(places, HOUR)
    ((name, at),) = until.items()
    own = PLANT.devices.index(name)
    assert effects
    assert all(effect.interval.end_ns < at.timestamp() * S for effect in effects)
    assert places.is_device_claimed(own, Interval(START_NS, round(at.timestamp()) * S - 1))


def test_nothing_else_happens_at_a_link_at_about_the_same_time() -> None:
    """Two at one link are a quarter of an hour apart; where there is no room, that is said and not passed over."""
    places = placed()
    taken = [places.link([0, 1, 2], HOUR, (60, 120)) for _ in range(4)]
    for i, (link, own) in enumerate(taken):
        assert not any(other == link and own.widened(SEPARATION_NS).overlaps(at) for other, at in taken[:i])
    with pytest.raises(NoRoom):
        _ = [places.link([0, 1, 2], HOUR, (60, 120)) for _ in range(20)]
