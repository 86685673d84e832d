"""Tests of the load: what it reads and when, and what its faults change."""

import numpy as np
import pytest

from collectors.core.poll import EVERY_S
from lab.bench.load.fault_plan import BURST_DOWNS, plan
from lab.bench.load.fleet import STATUS_INTERVAL_S, Fleet
from lab.world.effects import Interval, Rebooting, SignalLoss
from lab.world.fabric_arrays import FabricArrays
from lab.world.faults.devices import Reboot
from lab.world.ground_truth import InjectedFault, injected
from streams.wire.codec import from_bytes
from streams.wire.models import CollectorStatus, Samples, Source

HOSTS, LEAVES = 40, 4


def plant() -> FabricArrays:
    """Return forty hosts of two ports, each port at another of four switches, which have twenty."""
    devices = tuple([f"host{i}" for i in range(HOSTS)] + [f"leaf{i}" for i in range(LEAVES)])
    host_ports, leaf_ports = ("n0", "n1"), tuple(f"e{i}" for i in range(20))
    ports = (host_ports,) * HOSTS + (leaf_ports,) * LEAVES
    links, used = [], [0] * LEAVES
    for host in range(HOSTS):
        for nic in range(2):
            leaf = 2 * (host % 2) + nic
            links.append((2 * host + nic, 2 * HOSTS + 20 * leaf + used[leaf]))
            used[leaf] += 1
    return FabricArrays(devices, (True,) * HOSTS + (False,) * LEAVES, ports, np.array(links, np.int64))


CADENCE_S = 10.0


def fleet_with(*faults: InjectedFault) -> Fleet:
    runs = {Source.SOURCE_NIC: 3, Source.SOURCE_GNMI: 5}
    return Fleet(plant(), CADENCE_S, np.random.default_rng(7), runs, faults)


@pytest.fixture
def fleet() -> Fleet:
    return fleet_with()


def _read(fleet: Fleet, until_s: float, now_ns: int = 1) -> dict[str, Samples]:
    messages = [from_bytes(Samples, encoded.value) for encoded in fleet.readings(until_s, now_ns)]
    assert len({message.device for message in messages}) == len(messages)
    return {message.device: message for message in messages}


def test_each_device_is_read_once_a_cadence_evenly_spread(fleet: Fleet) -> None:
    """In each tenth of a cadence a tenth of the devices is read, in each cadence every device once."""
    for cadence in range(3):
        counts = [len(_read(fleet, CADENCE_S * (cadence + tenth / 10) - 1e-6)) for tenth in range(1, 11)]
        assert sum(counts) == HOSTS + LEAVES
        assert max(counts) - min(counts) <= 1


def _statuses(fleet: Fleet, until_s: float) -> list[CollectorStatus]:
    list(fleet.readings(until_s, 5))
    return [from_bytes(CollectorStatus, encoded.value) for encoded in fleet.statuses(until_s, 9)]


def test_the_status_of_a_device_is_reported_at_first_contact_and_once_a_minute(fleet: Fleet) -> None:
    """Each status has the cadence; those of a minute are evenly spread over it."""
    first = _statuses(fleet, CADENCE_S - 1e-6)
    assert len({status.device for status in first}) == len(first) == HOSTS + LEAVES
    assert all(status.reachable and status.cadence_ns == 10**10 for status in first)
    later = [_statuses(fleet, CADENCE_S * round_ - 1e-6) for round_ in range(2, 8)]
    assert sorted(status.device for part in later for status in part) == sorted(s.device for s in first)
    assert max(len(part) for part in later) <= 1 + (HOSTS + LEAVES) // 6 + 1
    assert STATUS_INTERVAL_S == EVERY_S


@pytest.mark.parametrize(("device", "is_reported"), [("leaf0", 1), ("host3", 0)])
def test_an_unreachable_switch_is_reported_and_an_unreachable_host_is_not(device: str, is_reported: int) -> None:
    """At once and at each failed reading; a host's collector stops with it, and reports when it is up again."""
    began_s, ended_s = 8 * CADENCE_S, 9 * CADENCE_S - 1e-6
    gone = Reboot(device, Interval(round(began_s * 1e9), round(ended_s * 1e9)))
    fleet = fleet_with(injected(gone, plant(), "gone"))
    _statuses(fleet, began_s - 1e-6)
    list(fleet.injected(began_s, 1))
    assert [s.reachable for s in _statuses(fleet, began_s) if s.device == device] == [False] * is_reported
    again = _statuses(fleet, ended_s)
    assert [s.error for s in again if s.device == device] == ["no answer"] * is_reported
    list(fleet.injected(ended_s, 2))
    assert [s.reachable for s in _statuses(fleet, ended_s) if s.device == device] == [True]
    assert fleet.played[0].at_ns == [1, 2]


def test_faults_are_drawn_apart_and_by_the_seed() -> None:
    """No link has two faults, none ends at a faulty device, and a seed draws the same faults again."""

    def drawn(seed: int) -> list[InjectedFault]:
        return plan(plant(), 0.0, 600.0, CADENCE_S, np.random.default_rng(seed))

    whole = drawn(1)
    assert whole == drawn(1)
    assert whole != drawn(2)
    losses = [[e for e in fault.effects if isinstance(e, SignalLoss)] for fault in whole]
    links = [own[0].link for own in losses if own]
    assert len(set(links)) == len(links)
    gone = {effect.device for fault in whole for effect in fault.effects if isinstance(effect, Rebooting)}
    assert gone
    assert not gone & set(plant().ends[links].ravel().tolist())
    assert all(len(fault.effects) == BURST_DOWNS for fault in whole if fault.kind == "burst")
    assert all(bool(fault.truths) is (fault.kind != "single") for fault in whole)
    edges = [[edge for loss in own for edge in loss.interval] for own in losses]
    assert edges == [sorted(own) for own in edges]
