"""Tests the placement of jobs on hosts against a scan of all allocations at each time."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.job_placement import FOREVER, JobAllocation, JobPlacement, unix_ns
from tests.worlds.small_fabric import job

GROWING = JobPlacement(
    [
        JobAllocation("j", "a", 10),
        JobAllocation("j", "b", 10, 30),
        JobAllocation("j", "c", 20, 40),
        JobAllocation("k", "a", 5, 15),
        JobAllocation("j", "b", 50, 60),
    ]
)

_ALLOCATIONS = st.lists(
    st.builds(
        lambda job, device, start, length: JobAllocation(job, device, start, FOREVER if length > 8 else start + length),
        st.sampled_from("jk"), st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 9),
    ),
    max_size=8,
)  # fmt: skip


def _scan(allocations: Sequence[JobAllocation], at: int) -> set[tuple[str, str]]:
    """Return the pairs of job and device at a time from a scan of all allocations."""
    return {
        (allocation.job, allocation.device)
        for allocation in allocations
        if allocation.start_ns <= at < allocation.end_ns
    }


def test_a_job_that_grows_shrinks_and_returns_is_tracked() -> None:
    """An allocation covers its start and not its end; other jobs on the same host are independent."""
    assert [GROWING.hosts_of("j", at) for at in (9, 10, 29, 30, 39, 40, 50, 60)] == [
        (), ("a", "b"), ("a", "b", "c"), ("a", "c"), ("a", "c"), ("a",), ("a", "b"), ("a",),
    ]  # fmt: skip
    assert GROWING.jobs_on(["a", "b", "unknown"], 12) == ("j", "k")
    assert GROWING.jobs_on(["a"], 15) == ("j",)
    assert [GROWING.all_hosts_of(name) for name in "jkx"] == [{"a", "b", "c"}, {"a"}, set()]
    assert GROWING.hosts_of("x", 10) == ()


def test_an_update_replaces_an_allocation() -> None:
    """A later end closes it; the previous placement is unchanged; an update can delete an allocation."""
    ended = GROWING.apply([JobAllocation("j", "a", 10, 25), JobAllocation("j", "d", 12)])
    assert (ended.hosts_of("j", 26), GROWING.hosts_of("j", 26)) == (("b", "c", "d"), ("a", "b", "c"))
    assert ended.apply([JobAllocation("j", "d", 12, 12)]).hosts_of("j", 26) == ("b", "c")


def test_an_inventory_is_read_to_the_nanosecond() -> None:
    """A microsecond before its start a job is absent, which a float of a present time cannot resolve."""
    start = "2026-11-21T20:00:00.000001+00:00"
    own = JobPlacement([job("j", "h", start, "2026-11-21T20:00:00.000002+00:00"), job("k", "h", start)])
    at = unix_ns(datetime(2026, 11, 21, 20, 0, 0, 1, tzinfo=UTC))
    assert at % 1_000_000_000 == 1000
    assert [own.jobs_on(["h"], at + offset) for offset in (-1, 0, 999, 1000)] == [(), ("j", "k"), ("j", "k"), ("k",)]
    assert unix_ns(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1000


@given(_ALLOCATIONS, st.integers(-1, 31))
def test_every_time_equals_the_scan(allocations: list[JobAllocation], at: int) -> None:
    """Look-ups by host, by job and between two times agree; overlapping allocations of one job on one host are one."""
    own, expected = JobPlacement(allocations), _scan(allocations, at)
    assert {name: own.jobs_on([name], at) for name in "abc"} == {
        name: tuple(sorted(j for j, device in expected if device == name)) for name in "abc"
    }
    assert {name: own.hosts_of(name, at) for name in "jk"} == {
        name: tuple(sorted(device for j, device in expected if j == name)) for name in "jk"
    }
    assert {name: own.jobs_between([name], at, at + 3) for name in "abc"} == {
        name: tuple(sorted({j for t in range(at, at + 3) for j, device in _scan(allocations, t) if device == name}))
        for name in "abc"
    }


@given(_ALLOCATIONS, st.randoms(use_true_random=False), st.integers(-50, 50))
def test_order_and_a_shift_of_time_change_nothing(allocations: list[JobAllocation], chance: object, shift: int) -> None:
    """The same allocations in another order, or duplicated, are the same placement; shifted times shift the result."""
    shuffled = [*allocations, *allocations]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert JobPlacement(shuffled).allocations == JobPlacement(allocations).allocations
    ended = [allocation for allocation in allocations if allocation.end_ns != FOREVER]
    later = [JobAllocation(s.job, s.device, s.start_ns + shift, s.end_ns + shift) for s in ended]
    assert JobPlacement(later).allocations == tuple(
        JobAllocation(s.job, s.device, s.start_ns + shift, s.end_ns + shift) for s in JobPlacement(ended).allocations
    )
