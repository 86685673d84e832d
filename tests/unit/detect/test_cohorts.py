"""The shares of a fleet and the ratio of two fault rates: known cases and properties."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.detect.detectors.fleet_version_drift import FleetState, add_published
from streams.detect.detectors.fleet_version_drift.cohorts import (
    AllowedVersions,
    Cohort,
    DriftParams,
    Fault,
    RunningVersion,
    assess,
    compare_fault_rates,
    merge_counts,
    ratio_interval,
)
from streams.detect.thresholds import ns
from streams.wire.models import (
    Condition,
    Endpoint,
    Finding,
    Severity,
    Source,
    Status,
    Subject,
    VersionCensus,
    VersionCount,
)

NIC = Cohort("nic", "", "MCX755106AS", Source.SOURCE_NIC)
PARAMS = DriftParams()
DAY = ns(86_400)


def runs(**counts: int) -> dict[str, RunningVersion]:
    """Return versions with these numbers of devices."""
    return {version: RunningVersion(version, devices=count) for version, count in counts.items()}


@pytest.mark.parametrize(
    ("counts", "drifting"),
    [
        ({"new": 90, "old": 10}, ("old",)),
        ({"new": 80, "old": 15, "older": 5}, ("old", "older")),
        ({"new": 79, "old": 21}, ()),
        ({"new": 50, "old": 50}, ()),
        ({"new": 6, "old": 1}, ()),
        ({"new": 100}, ()),
        ({"new": 0}, ()),
    ],
    ids=["a few", "two of them", "no clear majority", "half way through a rollout", "too few", "all alike", "none"],
)
def test_a_clear_majority_of_enough_devices_decides(counts: dict[str, int], drifting: tuple[str, ...]) -> None:
    """Without a clear majority nothing drifts."""
    assert assess(PARAMS, NIC, runs(**counts)).drifting == drifting


def test_an_allow_list_decides_before_the_majority() -> None:
    """A listed version is right on any number of devices, an unlisted one is wrong on any number."""
    rule = AllowedVersions(kind="nic", model="mcx7*", versions=("28.41.*", "28.42.1000"))
    params = DriftParams(allowed=(rule, AllowedVersions(versions=("*",))))
    assessment = assess(params, NIC, runs(**{"28.39.1002": 99, "28.41.1000": 1}))
    assert (assessment.drifting, assessment.expected, assessment.by_list) == (
        ("28.39.1002",),
        "28.41.* or 28.42.1000",
        True,
    )
    other = NIC._replace(model="BCM57608")
    assert assess(params, other, runs(a=99, b=1)).drifting == ()


def test_partitions_are_added_up() -> None:
    """Devices of one version in several partitions are counted together."""

    def count(version: str, devices: int, member: str) -> VersionCount:
        return VersionCount("nic", "", "MCX755106AS", Source.SOURCE_NIC, version, devices, devices, 5, (member,), (7,))

    shards = [
        VersionCensus(0, 1, (count("new", 3, "a"), count("old", 1, "b"))),
        VersionCensus(1, 1, (count("new", 4, "c"),)),
    ]
    (versions,) = merge_counts(shards).values()
    assert {v: (r.devices, r.members) for v, r in versions.items()} == {
        "new": (7, {"a": 7, "c": 7}),
        "old": (1, {"b": 7}),
    }


@pytest.mark.parametrize(
    ("count", "other", "low", "high"),
    [(10, 0, 0.6915, 1.0), (0, 10, 0.0, 0.3085), (5, 5, 0.1871, 0.8129), (20, 2, 0.7084, 0.9888)],
)
def test_the_interval_is_clopper_and_pearsons(count: int, other: int, low: float, high: float) -> None:
    """At equal times the ratio is the odds of a share with a known 95 % interval (10 of 10: 0.025 ** 0.1)."""
    shares = [1.0 if ratio == math.inf else ratio / (1 + ratio) for ratio in ratio_interval(count, 9, other, 9, 0.95)]
    assert shares == [pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4)]


@given(st.integers(0, 60), st.integers(0, 60), st.floats(1, 1e4), st.floats(1, 1e4))
def test_the_interval_contains_the_ratio_and_inverts(count: int, other: int, days: float, others: float) -> None:
    """The observed ratio lies in the interval, and exchanging the two gives its inverse."""
    low, high = ratio_interval(count, days, other, others, 0.99)
    if count and other:
        assert low < (count / days) / (other / others) < high
        back = ratio_interval(other, others, count, days, 0.99)
        assert list(back) == [pytest.approx(1 / high, rel=1e-6), pytest.approx(1 / low, rel=1e-6)]
    else:
        assert low <= high


def _versions() -> dict[str, RunningVersion]:
    old = RunningVersion("old", 10, members={f"o{n}": 0 for n in range(10)})
    return {"old": old, "new": RunningVersion("new", 100, members={f"n{n}": 0 for n in range(100)})}


def _faults(prefix: str, count: int, *, links: int = 100) -> list[Fault]:
    return [Fault(f"link:{prefix}{n % links}", 20 * DAY, (f"{prefix}{n % links}",)) for n in range(count)]


def test_failed_links_are_counted_once_each() -> None:
    """Five of ten against five of a hundred: ten times as often, and significantly so."""
    found = compare_fault_rates(PARAMS, "old", _versions(), [*_faults("o", 5), *_faults("n", 5)], 0, 28 * DAY)
    assert found is not None
    assert (found.faults, found.others, round(found.ratio)) == (5, 5, 10)
    assert found.low > 1


def test_one_lemon_is_no_versions_fault() -> None:
    """A link that fails twenty times is one link."""
    found = compare_fault_rates(PARAMS, "old", _versions(), [*_faults("o", 20, links=1), *_faults("n", 5)], 0, 28 * DAY)
    assert found is not None and found.faults == 1 and found.low < 1


def test_faults_before_the_update_do_not_count() -> None:
    """A fault of the day before the update does not count for the new version."""
    versions = _versions()
    versions["old"].members = dict.fromkeys(versions["old"].members, 25 * DAY)
    found = compare_fault_rates(PARAMS, "old", versions, _faults("o", 5), 0, 28 * DAY)
    assert found is not None and (found.faults, round(found.days)) == (0, 30)


def test_rates_are_compared_over_the_time_of_the_known_faults() -> None:
    """Of 5,000 failed links the oldest are dropped: the time of their faults counts for no version."""
    state = FleetState()
    for number in range(5_000):
        at_ns = number * 60 * 10**9
        subject = Subject(f"link:{number}", Endpoint(f"n{number % 100}", "e0"), Endpoint("leaf", f"d{number}"))
        add_published(
            state,
            Finding(
                f"{number:032}", 1, False, Condition.LINK_DOWN, Status.OPEN, Severity.WARNING, subject, at_ns, at_ns,
                detector="link/down",
            ),
        )  # fmt: skip
    first_known, last = 5_000 - len(state.faults), 4_999
    assert state.complete_from_ns == (first_known - 1) * 60 * 10**9 + 1
    found = compare_fault_rates(
        PARAMS, "old", _versions(), state.faults.values(), state.complete_from_ns, last * 60 * 10**9
    )
    assert found is not None and found.others == len(state.faults)
    assert found.other_days == pytest.approx(100 * (last - first_known + 1) / (24 * 60), rel=1e-3)


def test_rates_need_one_device_day() -> None:
    """Rates over half a day are not compared."""
    versions = {"old": RunningVersion("old", 1, members={"o": 0}), "new": RunningVersion("new", 9, members={"n": 0})}
    assert compare_fault_rates(PARAMS, "old", versions, [], 0, DAY // 2) is None
