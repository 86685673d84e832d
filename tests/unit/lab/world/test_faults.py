"""The list of faults: one for each detector, each with ground truth and effects of its own condition."""

from itertools import pairwise

import pytest

from lab.world.delivery_model import Cadence
from lab.world.faults import FAULT_OF, FAULTS
from lab.world.faults.congestion import AVOIDED_PATH, STALLED_CREDITS, STOPPED_QUEUE, TRIMMED_PACKETS
from lab.world.faults.hosts import SLOW_HOST
from lab.world.faults.links import BROKEN_PART, LINK_FLAP, LOST_NIC, REPLAYED_FRAMES
from lab.world.scenario import ScenarioSpec, build
from streams.fabric.catalogue import Metric
from streams.wire.codec import to_bytes
from streams.wire.models import Condition, Samples


def test_every_condition_has_a_fault_and_a_second_one_has_a_stream_of_its_own() -> None:
    """A detector without a fault cannot be measured."""
    conditions = [fault.condition for fault in FAULTS]
    assert set(conditions) == {condition for condition in Condition if condition}
    assert {fault.slug for fault in FAULTS} == set(FAULT_OF)
    assert all(fault.own_stream for fault in FAULTS if fault is not FAULT_OF[fault.slug])


def test_a_fault_with_a_stream_of_its_own_leaves_the_rest_of_the_day_unchanged() -> None:
    """With and without it, a seed gives the same other faults, negative cases and first messages."""
    shared = tuple(fault for fault in FAULTS if not fault.own_stream)
    assert len(shared) < len(FAULTS)
    days = [build(ScenarioSpec(gpus=256, seed=104, each=1, faults=faults)) for faults in (FAULTS, shared)]
    faults, others = (day.faults for day in days)
    assert [fault.ground_truths for fault in faults[: len(others)]] == [fault.ground_truths for fault in others]
    assert len(faults) == len(others) + sum(fault.own_stream and ScenarioSpec().has(fault) for fault in FAULTS)
    assert days[0].negative_cases == days[1].negative_cases
    batches = (next(day.telemetry.batches(day.whole.start_ns, day.whole.end_ns, 10**10)) for day in days)
    first, second = ([to_bytes(message) for message in messages] for _, messages in batches)
    assert first == second != []


def test_a_lost_nic_takes_all_planes_of_one_rail_only_where_a_nic_has_many() -> None:
    """Its eight links fail at the same time; a fabric of two planes has no such fault."""
    lost, few = (build(ScenarioSpec(gpus=64, each=1, faults=(LOST_NIC,), planes=planes)).faults for planes in (8, 2))
    assert few == []
    truths = [truth for fault in lost for truth in fault.truths]
    rail = truths[0].port.split("_p")[0]
    assert [(truth.device, truth.port) for truth in sorted(truths, key=lambda one: one.port)] == [
        (truths[0].device, f"{rail}_p{plane}") for plane in range(8)
    ]
    assert len({(truth.start_ns, truth.end_ns) for truth in truths}) == 1


def test_a_broken_part_takes_its_links_at_once_and_is_in_the_inventory() -> None:
    """It is drawn apart from a lost NIC of the same day; the stages know the part, and that packets are sprayed."""
    spec = ScenarioSpec(gpus=64, each=1, faults=(LOST_NIC, BROKEN_PART), planes=4, is_sprayed=True)
    day = build(spec)
    lost, broken = day.faults
    assert lost.truths[0].start_ns != broken.truths[0].start_ns
    (part,) = day.topology.parts
    ends = {(link.lower.device, link.lower.port) for link in day.topology.links_of_part[part]}
    assert ends == {(truth.device, truth.port) for truth in broken.truths} and len(ends) > 1
    assert len({(truth.start_ns, truth.end_ns) for truth in broken.truths}) == 1
    assert {device.is_sprayed for device in day.topology.devices.values() if device.kind == "switch"} == {True}


def test_only_sprayed_packets_avoid_an_uplink() -> None:
    """Without spraying, a day does not have the fault."""
    days = [
        build(ScenarioSpec(gpus=256, each=1, faults=(AVOIDED_PATH,), planes=4, is_sprayed=is_sprayed))
        for is_sprayed in (True, False)
    ]
    assert [[fault.kind for fault in day.faults] for day in days] == [["avoided path"], []]


FURTHER = {
    Metric.LLR_RX_BAD, Metric.LLR_TX_REPLAYS, Metric.TRIMMED_PACKETS, Metric.CREDITS_USED, Metric.PFC_WATCHDOG_STORMED,
    Metric.PFC_WATCHDOG_STORMS,
}  # fmt: skip


@pytest.mark.parametrize(("planes", "is_sprayed", "expected"), [(4, True, FURTHER), (1, False, set())])
def test_replays_trimmed_packets_credits_and_watchdogs_are_read_where_they_have_a_fault(
    planes: int, is_sprayed: bool, expected: set[Metric]
) -> None:
    """Their columns begin at zero, grow at the ports of a fault, and are absent from a day without one."""
    own = (REPLAYED_FRAMES, TRIMMED_PACKETS, STALLED_CREDITS, STOPPED_QUEUE)
    day = build(
        ScenarioSpec(gpus=64, each=1, faults=own, planes=planes, is_sprayed=is_sprayed, cadence=Cadence(60, 60))
    )
    grown: set[Metric] = set()
    read: set[Metric] = set()
    for _, messages in day.telemetry.batches(day.whole.start_ns, day.whole.end_ns, 60 * 10**9):
        for samples in (message for message in messages if isinstance(message, Samples)):
            for table in (samples.counters, samples.gauges):
                read |= {*table.metric} & FURTHER
                grown |= {m for m, row in zip(table.metric, table.values, strict=True) if m in FURTHER and row.any()}
    assert (read, grown) == (expected, expected)


def test_a_recovery_of_a_flap_is_clearly_shorter_or_longer_than_the_hold_time_of_link_down() -> None:
    """Both ends report it within a second: one of five seconds may end a link/down or not."""
    recoveries_ns = [
        after.interval.start_ns - loss.interval.end_ns
        for seed in range(3)
        for flap in build(ScenarioSpec(gpus=256, seed=seed, each=20, faults=(LINK_FLAP,))).faults
        for loss, after in pairwise(flap.effects)
    ]
    assert len(recoveries_ns) > 150
    assert min(recoveries_ns) > 0
    assert min(abs(recovery_ns - 5 * 10**9) for recovery_ns in recoveries_ns) >= 10**9


def test_a_slow_host_was_seen_as_fast_as_the_others_before() -> None:
    """It is found by comparison with its own first windows, which the trial must have observed."""
    for seed in range(3):
        day = build(ScenarioSpec(gpus=256, seed=seed, each=6, faults=(SLOW_HOST,)))
        starts_ns = [fault.ground_truths[0].truth.start_ns for fault in day.faults]
        assert len(starts_ns) == 6
        assert min(starts_ns) >= day.whole.start_ns + 420 * 10**9
