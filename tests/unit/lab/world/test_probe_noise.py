"""The probes that a healthy fabric loses: as many as its links' noise, and those of hosts that stall."""

from itertools import islice

import numpy as np

from lab.world.probe_times import LINK_NOISE, STALLED, ProbedPath, ProbeNoise
from lab.world.scenario import ScenarioSpec, build
from streams.fabric.ids import Port
from streams.wire.models import Condition, ProbeReport

S = 10**9
PORTS = [Port("leaf1", f"Ethernet{n}") for n in range(40)]
SENT, WINDOWS = 10, 4000


def noise() -> ProbeNoise:
    """Return that of two hosts, each with ten flows of two links forward and back to the other."""
    own = ProbeNoise(PORTS, np.random.default_rng(4))
    paths = [(tuple(PORTS[2 * n : 2 * n + 2]), tuple(PORTS[20 + 2 * n : 22 + 2 * n])) for n in range(10)]
    targets = {"host1": "host2", "host2": "host1"}
    own.add_probers({host: [ProbedPath(*both, target) for both in paths] for host, target in targets.items()})
    return own


def test_healthy_links_lose_as_much_as_their_noise() -> None:
    """Each crossing of a link loses 10^-5 to 10^-4 of the probes, forward as well as back."""
    own, lost = noise(), np.zeros(2, np.int64)
    for window in range(WINDOWS):
        for host in ("host1", "host2"):
            stalls, found = own.losses(host, window, SENT)
            if not stalls and not any(forward > 1 for forward, _ in found.values()):
                lost += np.array(list(found.values()), np.int64).reshape(-1, 2).sum(axis=0)
    crossings = 2 * WINDOWS * 10 * SENT * 2
    low, high = LINK_NOISE
    assert (lost > low * crossings).all()
    assert (lost < high * crossings).all()


def test_a_host_that_stalls_loses_its_probes_and_those_to_it() -> None:
    """Its report counts a stall; the report of the other host does not."""
    own, stalled = noise(), 0
    for window in range(WINDOWS):
        stalls, found = own.losses("host1", window, SENT)
        of_other, at_other = own.losses("host2", window, SENT)
        if stalls and not of_other:
            stalled += 1
            (lost,) = {min(5, forward) for forward, _ in found.values()} or {0}
            assert 1 <= lost <= 5
            assert len(found) == len(at_other) == 10
    assert STALLED / 2 < stalled / WINDOWS < STALLED * 2


def test_days_have_probes_and_restarts_of_leaves() -> None:
    """All hosts report from the first minute on; each leaf restarts once a month, as a device/down."""
    scenario = build(ScenarioSpec(gpus=128, seed=2, days=30.0))
    batches = scenario.telemetry.batches(scenario.whole.start_ns, scenario.whole.end_ns, 15 * S)
    first = [message for _, batch in islice(batches, 4) for message in batch]
    assert len({message.device for message in first if isinstance(message, ProbeReport)}) == 16
    restarts = [fault for fault in scenario.faults if fault.kind == "restart of a T0"]
    assert restarts
    assert {truth.condition for fault in restarts for truth in fault.truths} == {Condition.DEVICE_DOWN}
