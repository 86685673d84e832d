"""The watermark of a stage is the least of those that the upstream partitions report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.runtime.event_time import UpstreamWatermarks
from streams.wire.models import IDLE_NS, Progress


def progress(partition: int, watermark_ns: int, epoch: int = 1, after_offset: int = 0, stage: str = "up") -> Progress:
    return Progress(stage, partition, epoch, watermark_ns, after_offset)


def watermarks_after(*messages: Progress, partitions: int = 2, topics: tuple[str, ...] = ("t",)) -> UpstreamWatermarks:
    upstreams = UpstreamWatermarks("up", partitions, topics)
    for message in messages:
        upstreams.update("t", message)
    return upstreams


CASES: dict[str, tuple[list[Progress], int | None]] = {
    "no partition has reported": ([], None),
    "one has not reported": ([progress(0, 9)], None),
    "the least of all": ([progress(0, 9), progress(1, 7)], 7),
    "an idle partition does not count": ([progress(0, 9), progress(1, IDLE_NS)], 9),
    "all are idle": ([progress(0, IDLE_NS), progress(1, IDLE_NS)], None),
    "one that was idle goes on, also earlier": ([progress(0, 9), progress(1, IDLE_NS), progress(1, 4)], 4),
    "a replaced owner is ignored": (
        [progress(0, 9, epoch=2), progress(1, 9, epoch=2), progress(1, 99, epoch=1), progress(0, 99)], 9,
    ),
    "a new owner replaces the last one": ([progress(0, 9, 2), progress(1, 9, 2), progress(1, 5, 3)], 5),
    "another partition and another stage": (
        [progress(0, 9), progress(1, 7), progress(2, 1), progress(0, 3, stage="other")], 7,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("messages", "expected"), CASES.values(), ids=CASES)
def test_the_watermark_is_the_least_of_the_newest_owners(messages: list[Progress], expected: int | None) -> None:
    """Progress in another topic changes nothing."""
    upstreams = watermarks_after(*messages)
    upstreams.update("elsewhere", progress(0, 1, epoch=9))
    assert upstreams.watermark_ns == expected


def test_progress_in_one_topic_does_not_count_for_another() -> None:
    """If Progress arrives in two topics, the least of both counts: the other topic may have unread records."""
    upstreams = UpstreamWatermarks("up", 1, ("a", "b"))
    upstreams.update("a", progress(0, 9))
    assert upstreams.watermark_ns is None
    upstreams.update("b", progress(0, 5))
    assert upstreams.watermark_ns == 5


def test_a_barrier_delays_progress_until_the_covered_records_are_read() -> None:
    """Progress that covers another topic counts once that topic is read up to the given offset, and in order."""
    upstreams = UpstreamWatermarks("up", 1, ("progress",), barrier="findings")
    upstreams.update("progress", progress(0, 5, after_offset=10), barrier_offset=10)
    assert upstreams.watermark_ns == 5
    upstreams.update("progress", progress(0, 7, after_offset=12), barrier_offset=11)
    upstreams.update("progress", progress(0, 9, after_offset=14), barrier_offset=11)
    assert upstreams.watermark_ns == 5
    upstreams.reached(13)
    assert upstreams.watermark_ns == 7
    upstreams.reached(14)
    assert upstreams.watermark_ns == 9


def test_restored_watermarks_include_the_epochs() -> None:
    """After a restore the watermark is the same, replaced owners are ignored, and unknown partitions are dropped."""
    snapshot = watermarks_after(progress(0, 9, epoch=4), progress(1, IDLE_NS, epoch=2)).snapshot()
    restored = UpstreamWatermarks("up", 2, ("t",))
    restored.restore(snapshot | {"t/other/0/9": 1, "t/up/7/9": 1, "with/slash/up/0/9": 1})
    assert restored.watermark_ns == 9
    restored.update("t", progress(0, 99, epoch=3))
    assert restored.watermark_ns == 9


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 50)), max_size=40), st.integers(0, 39))
def test_a_restart_at_any_point_changes_nothing(stream: list[tuple[int, int, int]], cut: int) -> None:
    """A restore after any prefix gives the same watermark as an uninterrupted run."""
    messages = [progress(partition, watermark_ns, epoch) for partition, epoch, watermark_ns in stream]
    uninterrupted = watermarks_after(*messages, partitions=3)
    restarted = UpstreamWatermarks("up", 3, ("t",))
    restarted.restore(watermarks_after(*messages[:cut], partitions=3).snapshot())
    for message in messages[cut:]:
        restarted.update("t", message)
    assert restarted.watermark_ns == uninterrupted.watermark_ns
