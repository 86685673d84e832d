"""What the trial's sources read and how it travels: in order of arrival, late and twice, in runs of collectors."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from streams.fabric.topology import Topology
from streams.simulation.clos import GenerateParams, generate
from streams.simulation.delivery_model import Cadence, DeliveryModel
from streams.simulation.effects import (
    CablesSwapped,
    CollectorRestart,
    Effect,
    Interval,
    NotPolled,
    Rebooting,
    SignalLoss,
    VersionChange,
)
from streams.simulation.fabric_arrays import fabric_arrays
from streams.simulation.facts_source import NIC, VERSIONS
from streams.simulation.fault_placement import FaultPlacer
from streams.simulation.faults import FAULTS, Fault
from streams.simulation.scenario import START_NS
from streams.simulation.telemetry import Telemetry, collector_of
from streams.simulation.traffic import Traffic
from streams.simulation.world import World
from streams.wire.models import CollectorStatus, Event, EventKind, Facts, Message, RowKind, Samples, Source

S = 10**9
INVENTORY = generate(GenerateParams(gpus=256, jobs=0))
PLANT = fabric_arrays(INVENTORY)
PODS = {device.name: device.pod for device in INVENTORY.devices}
TOPOLOGY = Topology(INVENTORY)
HOUR = Interval(START_NS, START_NS + 3600 * S)
PROMPT = DeliveryModel(late_ratio=0, duplicate_ratio=0, poll_only_ratio=0)
SWITCH = len(PLANT.devices) - 1


def span(start_s: float, end_s: float) -> Interval:
    return Interval(START_NS + round(start_s * S), START_NS + round(end_s * S))


def sent(
    effects: Sequence[Effect], until_s: float, travel: DeliveryModel = PROMPT, seed: int = 5, of_nics_s: float = 10.0
) -> list[Message]:
    """All messages of a fabric in which this happens, as they come."""
    chance = np.random.default_rng(seed)
    world = World(INVENTORY, PLANT, Traffic(32, 8, HOUR, chance), effects, START_NS, chance)
    delivery = Telemetry(world, TOPOLOGY, effects, Cadence(10.0, of_nics_s), travel, chance)
    slices = delivery.batches(START_NS, START_NS + round(until_s * S), S)
    return [message for _, came in slices for message in came]


def test_one_seed_is_one_trial() -> None:
    """The same messages in the same order; another seed makes others."""
    once, again, other = (sent((), 60, DeliveryModel(), seed) for seed in (5, 5, 6))
    said = [[(m.device, m.sampled_at_ns) for m in own if isinstance(m, Samples)] for own in (once, again, other)]
    assert said[0] == said[1] != said[2]


def test_some_come_late_and_some_twice() -> None:
    """In the share that was asked for; what is late comes after a newer one of its device."""
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


def test_both_ends_tell_of_a_signal_that_goes_and_comes() -> None:
    """By events of both devices; a switch that refuses ON_CHANGE tells nothing."""
    down = SignalLoss(0, span(31, 34))
    told = [m for m in sent([down], 60) if isinstance(m, Event)]
    kinds = Counter((m.device, m.source, m.kind) for m in told)
    host, leaf = (PLANT.devices[int(end)] for end in (0, np.repeat(np.arange(len(PLANT.devices)),
                  [len(own) for own in PLANT.ports])[PLANT.links[0][1]]))  # fmt: skip
    for kind in (EventKind.LINK_DOWN, EventKind.LINK_UP):
        assert kinds[host, Source.SOURCE_NIC, kind] == kinds[leaf, Source.SOURCE_GNMI, kind] == 1
    polled = [
        m
        for m in sent([down], 60, DeliveryModel(late_ratio=0, duplicate_ratio=0, poll_only_ratio=1))
        if isinstance(m, Event)
    ]
    assert {m.device for m in polled} == {host}


def test_who_is_silent_says_nothing_and_its_collector_says_so() -> None:
    """A switch that is not read is told of at each cadence; a host's agent that is dead is told of by nobody."""
    own = sent(
        [NotPolled(SWITCH, span(60, 200), is_reported=True), NotPolled(0, span(60, 200), is_reported=False)], 200
    )
    after = [m for m in own if isinstance(m, Samples | CollectorStatus) and _at(m) > START_NS + 75 * S]
    assert not [m for m in after if m.device == PLANT.devices[0]]
    of_switch = [m for m in after if m.device == PLANT.devices[SWITCH]]
    assert len(of_switch) > 10
    assert all(isinstance(m, CollectorStatus) and not m.reachable for m in of_switch)


def _at(message: Samples | CollectorStatus) -> int:
    return message.sampled_at_ns if isinstance(message, Samples) else message.at_ns


def test_a_collector_that_starts_anew_has_another_run() -> None:
    """Only of its own switches."""
    own = [m for m in sent([CollectorRestart(collector_of(SWITCH), span(31, 45))], 90) if isinstance(m, Samples)]
    runs = {m.device: m.collector_run for m in own}
    assert {device for device, run in runs.items() if run == 2} == {
        name for i, name in enumerate(PLANT.devices)
        if not PLANT.is_host[i] and collector_of(i) == collector_of(SWITCH)
    }  # fmt: skip


def test_a_device_that_was_away_is_in_another_boot() -> None:
    """And brought nothing meanwhile."""
    own = [
        m for m in sent([Rebooting(0, span(31, 85))], 150) if isinstance(m, Samples) and m.device == PLANT.devices[0]
    ]
    assert len({m.boot_id for m in own}) == 2
    assert not [m for m in own if START_NS + 36 * S < m.sampled_at_ns < START_NS + 80 * S]


def test_nics_are_read_oftener_than_switches() -> None:
    """Each at its own cadence, and the agent beside the NIC at its own."""
    own = [m for m in sent((), 120, of_nics_s=1.0) if isinstance(m, Samples)]
    count = Counter((m.device, m.source, m.row_kind) for m in own)
    assert 118 <= count[PLANT.devices[0], Source.SOURCE_NIC, RowKind.ROW_KIND_PORT] <= 120
    assert 11 <= count[PLANT.devices[SWITCH], Source.SOURCE_GNMI, RowKind.ROW_KIND_PORT] <= 12
    of_agents = [count[name, Source.SOURCE_HOST, RowKind.ROW_KIND_GPU] for name in PLANT.devices[:32]]
    assert set(of_agents) <= {3, 4}
    for name in PLANT.devices[:32]:
        times = [m.sampled_at_ns for m in own if m.device == name and m.source is Source.SOURCE_NIC]
        assert times == sorted(times)


def test_who_runs_another_version_says_so_when_asked() -> None:
    """And the usual one after it was changed back."""
    asked = START_NS + 80 * S, START_NS + 320 * S
    facts = [m for m in sent([VersionChange((0, 3), NIC, "0.1", span(60, 300), asked)], 400) if isinstance(m, Facts)]
    for device in (0, 3):
        own = [m for m in facts if m.device == PLANT.devices[device]]
        versions = [{part.firmware for part in m.components} for m in own]
        assert versions == [{VERSIONS[NIC]}, {"0.1"}, {VERSIONS[NIC]}]
    assert len([m for m in facts if m.device == PLANT.devices[1]]) == 1


def test_ends_hear_who_is_in_the_other_place() -> None:
    """From when they are asked after the cables were swapped until they are asked after they were put back."""
    first, second = 0, 8
    facts = [m for m in sent([CablesSwapped((first, second), span(60, 300), 20.0)], 400) if isinstance(m, Facts)]
    host = [m for m in facts if m.device == PLANT.devices[0]]
    heard = [next(n for n in m.neighbors if n.port == PLANT.ports[0][0]) for m in host]
    assert len(heard) == 3
    assert heard[0] == heard[2] != heard[1]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.slug)
def test_each_condition_makes_what_it_says(fault: Fault) -> None:
    """A truth of that condition within the time, at a device that there is, and something that happens for it."""
    chance = np.random.default_rng(3)
    tiers = {device.name: device.tier for device in INVENTORY.devices}
    day = Interval(START_NS, START_NS + 8 * 3600 * S)
    places = FaultPlacer(PLANT, [tiers[name] for name in PLANT.devices], Traffic(32, 8, day, chance), chance, PODS)
    for _ in range(3):
        made = fault.inject(places, day)
        assert made.effects
        assert fault.condition in {truth.condition for truth in made.truths}
        for truth in made.truths:
            assert truth.device in {*PLANT.devices, *PODS.values()}
            assert day.start_ns <= truth.start_ns < truth.end_ns <= day.end_ns
