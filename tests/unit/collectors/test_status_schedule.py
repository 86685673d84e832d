"""The times at which a collector reports the status of a target."""

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.core.poll import StatusSchedule

CADENCE_S = 10.0


def played(
    looks: Iterable[tuple[float, bool, str]], samples: Iterable[float] = (), device: str = "leaf1"
) -> list[float]:
    """Return the times of the statuses, for checks of (time, reached, error) and samples at given times."""
    schedule = StatusSchedule(device, CADENCE_S)
    steps: list[tuple[float, tuple[bool, str] | None]] = [
        *((at_s, None) for at_s in samples), *((at_s, (reached, error)) for at_s, reached, error in looks),
    ]  # fmt: skip
    sent = []
    for at_s, look in sorted(steps, key=lambda step: step[0]):
        if look is None:
            schedule.sampled(at_s)
        elif schedule.is_due(at_s, reachable=look[0], error=look[1]):
            sent.append(at_s)
    return sent


def healthy(until_s: float, phase_s: float = 3.0) -> list[tuple[float, bool, str]]:
    """Return a check at each cadence of a reachable target."""
    return [(phase_s + CADENCE_S * n, True, "") for n in range(int((until_s - phase_s) / CADENCE_S) + 1)]


def readings(until_s: float) -> list[float]:
    """Return the times of a sample at each cadence."""
    return [CADENCE_S * n for n in range(int(until_s / CADENCE_S) + 1)]


def test_the_status_of_a_target_with_samples_is_sent_once_a_minute() -> None:
    """At first contact, at a random offset within the first minute, then each 60 s: its samples imply the rest."""
    sent = played(healthy(3600), readings(3600))
    assert sent[0] == 3
    assert sent[1] - sent[0] <= 70
    assert {later - earlier for earlier, later in pairwise(sent[1:])} == {60}


def test_each_change_is_sent_at_once() -> None:
    """Lost, another error, reached again; not the same twice within half a cadence."""
    looks = [(3.0, True, ""), (14.0, False, "refused"), (14.1, False, "refused"), (15.0, False, "timeout"),
             (16.0, True, "")]  # fmt: skip
    assert played(looks, [2, 13, 15.9]) == [3, 14, 15, 16]


def test_the_status_of_an_unreachable_target_is_sent_at_each_cadence() -> None:
    """So that its silence is never taken for its collector's, however the checks jitter."""
    looks = [(3 + CADENCE_S * n + (-1) ** n, False, "refused") for n in range(20)]
    assert played(looks) == [at_s for at_s, _, _ in looks]


@given(st.floats(0, 9.99), st.floats(0.3, 3600), st.floats(0, 9.9))
def test_the_status_of_a_reached_target_without_samples_is_sent_before_its_silence_is_reported(
    phase_s: float, last_s: float, jitter_s: float
) -> None:
    """A stream that hangs: three cadences after the last sample the newest status is younger than half of them."""
    last_s = CADENCE_S * round(last_s / CADENCE_S)
    sent = played(healthy(last_s + 60, phase_s), [*readings(last_s - 10), last_s + jitter_s * 0.01])
    reported_s = last_s + jitter_s * 0.01 + 3 * CADENCE_S
    assert reported_s - max(at_s for at_s in sent if at_s <= reported_s) < 1.5 * CADENCE_S


@given(st.floats(0, 9.99), st.integers(1, 100), st.floats(0, 9.99))
def test_the_newest_status_of_a_dead_collector_is_old_when_the_silence_is_reported(
    phase_s: float, rounds: int, lives_s: float
) -> None:
    """It died before the next sample: its newest status is older than half of three cadences by then."""
    last_s = CADENCE_S * rounds
    looks = [look for look in healthy(last_s + 20, phase_s) if look[0] <= last_s + lives_s]
    sent = played(looks, readings(last_s))
    assert last_s + 3 * CADENCE_S - max(sent, default=0.0) > 1.5 * CADENCE_S


def test_a_sample_that_is_a_little_late_is_not_missing() -> None:
    """Checks in step with the samples find one missing by milliseconds."""
    late = [at_s + 0.4 * (n % 2) for n, at_s in enumerate(readings(600))]
    steady = played(healthy(600, 0.2), readings(600))
    assert len(played(healthy(600, 0.2), late)) == len(steady) == pytest.approx(11, abs=1)


def test_targets_that_become_reachable_together_are_not_reported_together() -> None:
    """The statuses of 6,000 targets that began at once fill each cadence of a minute about equally."""
    metrics = [0] * 6
    for n in range(6000):
        for at_s in played(healthy(239), readings(239), f"pod{n // 64}-host{n % 64}"):
            if 120 <= at_s < 180:
                metrics[int((at_s - 120) // CADENCE_S)] += 1
    assert sum(metrics) == 6000
    assert min(metrics) > 700 and max(metrics) < 1300
