"""Tests of the messages of the simulated fabric: in order of arrival, late and duplicate ones, runs of collectors."""

from collections import Counter
from collections.abc import Sequence

import numpy as np

from lab.world.delivery_model import Cadence, DeliveryModel
from lab.world.effects import CollectorRestart, Effect, Interval, NotPolled, SignalLoss
from lab.world.fabric_arrays import fabric_arrays
from lab.world.scenario import START_NS
from lab.world.telemetry import Telemetry, collector_of
from lab.world.traffic import Traffic
from lab.world.world import World
from streams.fabric.clos import GenerateParams, generate
from streams.fabric.topology import Topology
from streams.wire.models import CollectorStatus, Event, EventKind, Message, Samples, Source

S = 10**9
INVENTORY = generate(GenerateParams(gpus=256, jobs=0))
FABRIC = fabric_arrays(INVENTORY)
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


def test_all_messages_of_a_collector_have_the_run_of_their_time() -> None:
    """Its events too: their run is that of the readings, before and after it was killed."""
    leaf = FABRIC.device_of(int(FABRIC.links[0][1]))
    killed = CollectorRestart(collector_of(leaf), interval(60, 120))
    own = sent([killed, *(SignalLoss(0, interval(at_s, at_s + 3)) for at_s in (31, 181))], 240)
    of_leaf = [m for m in own if getattr(m, "device", "") == FABRIC.devices[leaf]]
    for kind in (Samples, Event, CollectorStatus):
        runs = {(m.received_at_ns if isinstance(m, Event) else _at(m)) >= killed.interval.end_ns: m.collector_run
                for m in of_leaf if isinstance(m, kind)}  # fmt: skip
        assert runs == {False: 1, True: 2}, kind


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
