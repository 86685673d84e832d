"""How far event time has come, told by several upstream partitions."""

from hypothesis import given
from hypothesis import strategies as st

from streams.runtime.watermarks import UpstreamWatermarks
from streams.wire.models import IDLE_NS, Progress


def said(partition: int, watermark_ns: int, epoch: int = 1, after_offset: int = 0, stage: str = "up") -> Progress:
    return Progress(stage, partition, epoch, watermark_ns, after_offset)


def heard(*progress: Progress, partitions: int = 2, topics: tuple[str, ...] = ("t",)) -> UpstreamWatermarks:
    upstreams = UpstreamWatermarks("up", partitions, topics)
    for one in progress:
        upstreams.update("t", one)
    return upstreams


def test_nothing_is_known_until_every_partition_has_spoken() -> None:
    """A partition that has said nothing holds time back, however far the others are."""
    assert heard().watermark_ns is None
    assert heard(said(0, 9)).watermark_ns is None
    assert heard(said(0, 9), said(1, 7)).watermark_ns == 7


def test_an_idle_partition_holds_nobody_back() -> None:
    """A partition in which nothing is live leaves the minimum; where all are idle, time stands still."""
    assert heard(said(0, 9), said(1, IDLE_NS)).watermark_ns == 9
    assert heard(said(0, IDLE_NS), said(1, IDLE_NS)).watermark_ns is None


def test_a_partition_that_was_idle_comes_back_with_its_own_time() -> None:
    """The newest Progress of an owner holds, also where it is less than the one before."""
    assert heard(said(0, 9), said(1, IDLE_NS), said(1, 4)).watermark_ns == 4


def test_a_replaced_owner_says_nothing_any_more() -> None:
    """Progress of a lower epoch is ignored, that of a higher one replaces what was."""
    assert heard(said(0, 9, epoch=2), said(1, 9, epoch=2), said(1, 99, epoch=1), said(0, 99)).watermark_ns == 9
    assert heard(said(0, 9, epoch=2), said(1, 9, epoch=2), said(1, 5, epoch=3)).watermark_ns == 5


def test_other_stages_and_unknown_partitions_say_nothing() -> None:
    """Progress of another stage, or of a partition that is not expected, changes nothing."""
    upstreams = heard(said(0, 9), said(1, 7), said(2, 1), said(0, 3, stage="other"))
    upstreams.update("elsewhere", said(0, 1, epoch=9))
    assert upstreams.watermark_ns == 7


def test_progress_through_one_topic_says_nothing_of_another() -> None:
    """Where Progress comes in two topics, the least of both holds: the other topic's records may be under way."""
    upstreams = UpstreamWatermarks("up", 1, ("a", "b"))
    upstreams.update("a", said(0, 9))
    assert upstreams.watermark_ns is None
    upstreams.update("b", said(0, 5))
    assert upstreams.watermark_ns == 5


def test_a_barrier_holds_progress_back_until_what_it_covers_was_read() -> None:
    """Progress beside a topic counts once that topic has been read up to the offset it names, and in order."""
    upstreams = UpstreamWatermarks("up", 1, ("beside",), barrier="findings")
    upstreams.update("beside", said(0, 5, after_offset=10), barrier_offset=10)
    assert upstreams.watermark_ns == 5
    upstreams.update("beside", said(0, 7, after_offset=12), barrier_offset=11)
    upstreams.update("beside", said(0, 9, after_offset=14), barrier_offset=11)
    assert upstreams.watermark_ns == 5
    upstreams.reached(13)
    assert upstreams.watermark_ns == 7
    upstreams.reached(14)
    assert upstreams.watermark_ns == 9


def test_a_restart_knows_what_was_heard_and_from_whom() -> None:
    """A restored one has the same watermark, still ignores owners that were replaced, and forgets strangers."""
    kept = heard(said(0, 9, epoch=4), said(1, IDLE_NS, epoch=2)).snapshot()
    again = UpstreamWatermarks("up", 2, ("t",))
    again.restore(kept | {"t/other/0/9": 1, "t/up/7/9": 1, "with/slash/up/0/9": 1})
    assert again.watermark_ns == 9
    again.update("t", said(0, 99, epoch=3))
    assert again.watermark_ns == 9


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.integers(0, 50)), max_size=40), st.integers(0, 39))
def test_a_restart_anywhere_changes_nothing(stream: list[tuple[int, int, int]], cut: int) -> None:
    """Whatever came before, restoring in between gives the watermark that going on would have given."""
    progress = [said(partition, watermark_ns, epoch) for partition, epoch, watermark_ns in stream]
    through = heard(*progress, partitions=3)
    restarted = UpstreamWatermarks("up", 3, ("t",))
    restarted.restore(heard(*progress[:cut], partitions=3).snapshot())
    for one in progress[cut:]:
        restarted.update("t", one)
    assert restarted.watermark_ns == through.watermark_ns
