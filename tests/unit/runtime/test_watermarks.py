"""The watermark of a stage is the least of those that the upstream partitions report."""

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


def test_there_is_no_watermark_until_every_partition_has_reported() -> None:
    """A partition without a Progress delays the watermark, however far the others are."""
    assert watermarks_after().watermark_ns is None
    assert watermarks_after(progress(0, 9)).watermark_ns is None
    assert watermarks_after(progress(0, 9), progress(1, 7)).watermark_ns == 7


def test_an_idle_partition_does_not_delay_the_watermark() -> None:
    """A partition without live data is not in the minimum; if all are idle, there is no watermark."""
    assert watermarks_after(progress(0, 9), progress(1, IDLE_NS)).watermark_ns == 9
    assert watermarks_after(progress(0, IDLE_NS), progress(1, IDLE_NS)).watermark_ns is None


def test_a_partition_that_was_idle_resumes_with_its_own_watermark() -> None:
    """The newest Progress of an owner counts, also if its watermark is less than the previous one."""
    assert watermarks_after(progress(0, 9), progress(1, IDLE_NS), progress(1, 4)).watermark_ns == 4


def test_progress_of_a_replaced_owner_is_ignored() -> None:
    """Progress of a lower epoch is ignored; Progress of a higher epoch replaces the previous one."""
    assert (
        watermarks_after(
            progress(0, 9, epoch=2), progress(1, 9, epoch=2), progress(1, 99, epoch=1), progress(0, 99)
        ).watermark_ns
        == 9
    )
    assert watermarks_after(progress(0, 9, epoch=2), progress(1, 9, epoch=2), progress(1, 5, epoch=3)).watermark_ns == 5


def test_other_stages_and_unknown_partitions_are_ignored() -> None:
    """Progress of another stage, or of a partition that is not expected, changes nothing."""
    upstreams = watermarks_after(progress(0, 9), progress(1, 7), progress(2, 1), progress(0, 3, stage="other"))
    upstreams.update("elsewhere", progress(0, 1, epoch=9))
    assert upstreams.watermark_ns == 7


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
