"""The time of arrival is that of the brokers, never goes back, and heals where a broker's clock stepped."""

import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.runtime.event_time import ArrivalClock, dated_by_arrival, within_arrival
from streams.runtime.inventory_versions import Versions
from streams.runtime.partition_processor import PartitionProcessor
from streams.wire.models import IDLE_NS, CollectorStatus, Event, EventKind, Facts, Progress, Source
from tests.fixtures.runtime_bindings import FIRST, IN, PARTITIONS, CountedMetrics, FixedClock, PartitionLog

SECOND = 10**9


def times(appended_s: list[float], now_s: float = 1e6) -> list[float]:
    clock = ArrivalClock(lambda: round(now_s * SECOND))
    return [clock.arrived_ns(round(at * 1000)) / SECOND for at in appended_s]


@pytest.mark.parametrize(
    ("appended_s", "expected"),
    [
        ([10, 10.5, 10.5, 12, 900], [10, 10.5, 10.5, 12, 900]),
        ([100, 100.5, 100.2], [100, 100.5, 100.5]),
        ([4000, 400, 401, 460, 4070], [4000, 4000, 4001, 4060, 4070]),
    ],
    ids=["after a pause of the input", "a leader that is behind", "far behind"],
)
def test_the_time_of_the_brokers_is_used_and_never_goes_back(appended_s: list[float], expected: list[float]) -> None:
    """A leader whose clock is behind continues from the newest time, until it has reached that."""
    assert times(appended_s) == expected


def test_a_time_after_that_of_this_process_is_refused() -> None:
    """A leader whose clock is an hour ahead does not hold the time there when another takes over."""
    now = [1000 * SECOND]
    clock = ArrivalClock(lambda: now[0])
    assert clock.arrived_ns(1000_000) == 1000 * SECOND
    assert clock.arrived_ns(4600_000) == 1000 * SECOND
    now[0] = 1010 * SECOND
    assert clock.arrived_ns(4610_000) == 1010 * SECOND
    assert clock.refused == 2
    assert clock.arrived_ns(1012_000) == 1012 * SECOND


def test_no_message_is_dated_by_its_sender() -> None:
    """Of events and statuses the time of arrival is replaced; facts and watermarks are not later than it."""
    event = dated_by_arrival(Event("d", "", EventKind.LOG, 99, 99, Source.SOURCE_GNMI), 7)
    assert isinstance(event, Event)
    assert (event.at_ns, event.received_at_ns) == (99, 7)
    status = dated_by_arrival(CollectorStatus("c", 1, Source.SOURCE_GNMI, "d", 99, reachable=True), 7)
    assert isinstance(status, CollectorStatus)
    assert status.at_ns == 7
    assert dated_by_arrival(Facts("d", 99, Source.SOURCE_GNMI), 7) == Facts("d", 7, Source.SOURCE_GNMI)
    assert dated_by_arrival(Progress("s", 0, 1, 99), 7) == Progress("s", 0, 1, 7)
    assert dated_by_arrival(Progress("s", 0, 1, IDLE_NS), 7) == Progress("s", 0, 1, IDLE_NS)


def test_a_watermark_far_ahead_of_its_arrival_is_bounded() -> None:
    """Of a worker that believed a clock of a year ahead; IDLE is no time."""
    ahead = Progress("s", 0, 1, 365 * 86400 * SECOND)
    assert within_arrival(ahead, SECOND).watermark_ns == SECOND
    assert within_arrival(Progress("s", 0, 1, 2 * SECOND), SECOND).watermark_ns == 2 * SECOND
    assert within_arrival(Progress("s", 0, 1, IDLE_NS), SECOND).watermark_ns == IDLE_NS


def test_clocks_that_are_ahead_are_counted_once() -> None:
    """An event an hour ahead of its arrival, then two records whose broker is an hour ahead of this host."""
    counted = CountedMetrics()
    processor = PartitionProcessor(
        FIRST, 0, lambda _: Measure(DetectParams()), PARTITIONS, Versions(),
        clock=FixedClock(1000 * SECOND), metrics=counted,
    )  # fmt: skip
    processor.begin(1, (), {"in": 0, "retained": 0}, {"in": 0, "retained": 0})
    log = PartitionLog(IN)
    log.add(Event("d", "", EventKind.LOG, 4600 * SECOND, 4600 * SECOND, Source.SOURCE_GNMI), at_ms=1000_000)
    processor.on_chunk(log.chunk())
    log.add(*(Event("d", "", EventKind.LOG, 9, 9, Source.SOURCE_GNMI) for _ in range(2)), at_ms=4600_000)
    processor.on_chunk(log.chunk(1))
    processor.on_chunk(log.chunk(3))
    assert counted.counts["railsight_clock_ahead_total"] == 1
    assert counted.counts["railsight_append_times_refused_total"] == 2
