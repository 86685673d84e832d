"""Which job is on which hosts at a time: as if every moment were looked at by itself."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from streams.fabric.job_placement import FOREVER, Change, JobAllocation, JobPlacement, unix_ns
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

_STAYS = st.lists(
    st.builds(
        lambda job, device, start, length: JobAllocation(job, device, start, FOREVER if length > 8 else start + length),
        st.sampled_from("jk"), st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 9),
    ),
    max_size=8,
)  # fmt: skip


def _held(stays: Sequence[JobAllocation], at: int) -> set[tuple[str, str]]:
    """Who is where, by looking at each stay."""
    return {(stay.job, stay.device) for stay in stays if stay.start_ns <= at < stay.end_ns}


def test_a_job_that_grows_shrinks_and_comes_back_is_followed() -> None:
    """From the start on, up to but not at the end; other jobs on the same host are others."""
    assert [GROWING.hosts_of("j", at) for at in (9, 10, 29, 30, 39, 40, 50, 60)] == [
        (), ("a", "b"), ("a", "b", "c"), ("a", "c"), ("a", "c"), ("a",), ("a", "b"), ("a",),
    ]  # fmt: skip
    assert GROWING.jobs_on(["a", "b", "nobody"], 12) == ("j", "k")
    assert GROWING.jobs_on(["a"], 15) == ("j",)
    assert (GROWING.jobs, GROWING.lifetime("j"), GROWING.lifetime("k")) == (("j", "k"), (10, FOREVER), (5, 15))
    assert (GROWING.lifetime("x"), GROWING.hosts_of("x", 10), GROWING.allocations_of("x", 0, 9)) == (None, (), ())


def test_changes_say_who_joined_and_who_left() -> None:
    """Between two times, the first included."""
    assert GROWING.changes("j", 10, 60) == (
        Change(10, ("a", "b"), ()), Change(20, ("c",), ()), Change(30, (), ("b",)), Change(40, (), ("c",)),
        Change(50, ("b",), ()),
    )  # fmt: skip
    assert GROWING.changes("j", 60, 61) == (Change(60, (), ("b",)),)
    assert GROWING.changes("j", 31, 40) == GROWING.changes("x", 0, 99) == ()


def test_stays_between_two_times_are_cut_to_them() -> None:
    """What the job had before and after is not said."""
    assert GROWING.allocations_of("j", 25, 35) == (
        JobAllocation("j", "a", 25, 35),
        JobAllocation("j", "b", 25, 30),
        JobAllocation("j", "c", 25, 35),
    )
    assert GROWING.allocations_of("j", 35, 35) == ()


def test_news_replace_what_was_known_of_a_stay() -> None:
    """An end that comes later closes it; the placement before knows nothing of that; a stay may be taken back."""
    ended = GROWING.apply([JobAllocation("j", "a", 10, 25), JobAllocation("j", "d", 12)])
    assert (ended.hosts_of("j", 26), GROWING.hosts_of("j", 26)) == (("b", "c", "d"), ("a", "b", "c"))
    assert ended.apply([JobAllocation("j", "d", 12, 12)]).hosts_of("j", 26) == ("b", "c")


def test_an_inventory_is_read_to_the_nanosecond() -> None:
    """A microsecond before its start a job is not there, which a float of today's time would not know."""
    start = "2026-11-21T20:00:00.000001+00:00"
    own = JobPlacement([job("j", "h", start, "2026-11-21T20:00:00.000002+00:00"), job("k", "h", start)])
    at = unix_ns(datetime(2026, 11, 21, 20, 0, 0, 1, tzinfo=UTC))
    assert at % 1_000_000_000 == 1000
    assert [own.jobs_on(["h"], at + more) for more in (-1, 0, 999, 1000)] == [(), ("j", "k"), ("j", "k"), ("k",)]
    assert unix_ns(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1000


@given(_STAYS, st.integers(-1, 31))
def test_every_moment_is_as_the_stays_say(stays: list[JobAllocation], at: int) -> None:
    """By host, by job and between two times; overlapping stays of one job on one host are one."""
    own, held = JobPlacement(stays), _held(stays, at)
    assert {name: own.jobs_on([name], at) for name in "abc"} == {
        name: tuple(sorted(j for j, device in held if device == name)) for name in "abc"
    }
    assert {name: own.hosts_of(name, at) for name in "jk"} == {
        name: tuple(sorted(device for j, device in held if j == name)) for name in "jk"
    }
    for name in "jk":
        within = {
            (stay.device, t) for stay in own.allocations_of(name, at, at + 3) for t in range(stay.start_ns, stay.end_ns)
        }
        assert within == {(device, t) for t in range(at, at + 3) for j, device in _held(stays, t) if j == name}


@given(_STAYS, st.integers(-1, 15), st.integers(0, 20))
def test_changes_lead_from_one_moment_to_the_other(stays: list[JobAllocation], begin: int, length: int) -> None:
    """The hosts before, with all changes applied, are the hosts after; nobody joins who is there."""
    own = JobPlacement(stays)
    hosts = set(own.hosts_of("j", begin - 1))
    for change in own.changes("j", begin, begin + length):
        assert hosts.isdisjoint(change.joined) and hosts.issuperset(change.left)
        hosts = (hosts | set(change.joined)) - set(change.left)
        assert hosts == set(own.hosts_of("j", change.at_ns))
    assert hosts == set(own.hosts_of("j", begin + length - 1))


@given(_STAYS, st.randoms(use_true_random=False), st.integers(-50, 50))
def test_order_and_a_shift_of_time_change_nothing(stays: list[JobAllocation], chance: object, shift: int) -> None:
    """The same stays in another order, or told twice, are the same placement; later by a while, later by that."""
    shuffled = [*stays, *stays]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert JobPlacement(shuffled).allocations == JobPlacement(stays).allocations
    ended = [stay for stay in stays if stay.end_ns != FOREVER]
    later = [JobAllocation(s.job, s.device, s.start_ns + shift, s.end_ns + shift) for s in ended]
    assert JobPlacement(later).allocations == tuple(
        JobAllocation(s.job, s.device, s.start_ns + shift, s.end_ns + shift) for s in JobPlacement(ended).allocations
    )
