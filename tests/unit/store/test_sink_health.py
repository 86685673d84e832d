"""The liveness of a sink: what does not move although everything around it answers."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiokafka import TopicPartition

from streams.health.health import Health, HealthParams
from streams.store.params import SinkParams
from streams.store.persist.sink_health import SinkHealth, Storing

AT = TopicPartition("in", 0)


class Process:
    """A sink with one partition, and the brokers' answers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.writer = SimpleNamespace(is_restored=True, position=7, storing_s=0.0, is_compacted=False, attempts=0)
        self.sink = SimpleNamespace(writers={AT: self.writer}, is_joining=False)
        self.health = Health(HealthParams(stuck_s=10, undelivered_s=5), lambda: self.now)
        params = SinkParams(linger_s=1, linger_max_s=1, linger_background_s=1)
        self.ends = SinkHealth(cast(Storing, self.sink), {}, params, self.health, request_s=20)._ends
        self.health.started()

    def answer(self, end: int = 7) -> None:
        self.ends._ends, self.ends._answered_s = {("in", 0): end}, self.now

    def liveness_after(self, seconds: float, act: Callable[[], Any] | None = None) -> str:
        for _ in range(round(seconds)):
            self.now += 1
            self.answer() if act is None else act()
            self.health.beat()
        return self.health.liveness_problem()


@pytest.fixture
def process() -> Process:
    return Process()


def test_a_sink_that_reads_nothing_while_records_wait_is_not_live(process: Process) -> None:
    """An idle one is."""
    assert process.liveness_after(60) == ""
    assert process.liveness_after(13, lambda: process.answer(9)).startswith("input: in/0 processed no record for 13 s")


def test_a_rebalance_that_does_not_end_is_not_live(process: Process) -> None:
    """Only while the brokers answer: without them no restart helps."""
    process.sink.writers, process.sink.is_joining = {}, True
    assert process.liveness_after(60, lambda: None) == ""
    assert process.liveness_after(12) == "group: in a rebalance for 12 s"
    process.sink.is_joining = False
    assert process.liveness_after(60) == ""


@pytest.mark.parametrize(
    ("is_restored", "storing_s", "what"), [(False, 0.0, "is not restored"), (True, 3.0, "a block is not stored")]
)
def test_an_attempt_that_does_not_even_fail_is_not_live(
    process: Process, is_restored: bool, storing_s: float, what: str
) -> None:
    """ClickHouse may be away for days: each attempt that fails is a sign of life."""
    process.writer.is_restored, process.writer.storing_s = is_restored, storing_s

    def retry() -> None:
        process.writer.attempts += 1
        process.answer(9)

    assert process.liveness_after(500, retry) == ""
    assert process.liveness_after(60, lambda: process.answer(9)) == ""
    assert process.liveness_after(12, lambda: process.answer(9)).startswith(f"attempt: in/0: {what} for 7")
