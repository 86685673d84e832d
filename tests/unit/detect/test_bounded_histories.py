"""Histories are bounded: they keep the count, the onset and the extremes of what they drop; readers get few revisions.

Each case overflows one history; its finding stays one, with few revisions.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pytest

from streams.detect.attribute.stage import Attribute
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import (
    Condition,
    EventKind,
    Finding,
    InputLoss,
    Message,
    Remediation,
    Severity,
    Source,
    Status,
    Symptom,
)
from streams.wire.symptoms import GpuXid
from tests.worlds.observations import HOST, LEAF, after, at, correlated, event, flaps, last, samples
from tests.worlds.small_world import play

if TYPE_CHECKING:
    from streams.wire.stage import Output

UP, BER, FCS, PACKETS = Metric.OPER_UP, Metric.PRE_FEC_BER, Metric.RX_FCS_ERRORS, Metric.RX_PACKETS
MOST_REVISIONS = 10


def readings(until: float, values: Callable[[int], dict[Metric, float]]) -> list[Message]:
    """Return a reading of both ends of one link every 10 s; `values` are those of the host."""
    rows: list[Message] = []
    for t in range(0, round(until), 10):
        own: dict[Metric, dict[str, float | None]] = {UP: {"e0": 1.0}}
        own |= {metric: {"e0": value} for metric, value in values(t).items()}
        rows += [samples("p1-h1", t, own), samples("p1-l0", t, {UP: {"d1": 1.0}})]
    return rows


def flapping(port: str, count: int, seconds: float, begin: float = 600) -> list[Message]:
    """Return evenly spaced downs, each for half of its time, by events."""
    step = seconds / count
    return [
        event(port, begin + n * step + half * step / 2, kind)
        for n in range(count)
        for half, kind in enumerate((EventKind.LINK_DOWN, EventKind.LINK_UP))
    ]


def revisions(published: Iterable[Finding | Remediation], condition: Condition) -> list[list[Finding]]:
    """Return the revisions of each finding of a condition, by start."""
    by_id: dict[str, list[Finding]] = {}
    for finding in (f for f in published if isinstance(f, Finding) and f.condition is condition):
        by_id.setdefault(finding.id, []).append(finding)
    assert max(map(len, by_id.values()), default=0) <= MOST_REVISIONS
    return sorted(by_id.values(), key=lambda own: own[0].started_at_ns)


def test_a_long_intermittent_degradation_is_one_finding() -> None:
    """A BER fails for 59 s of every 302 s for more than two hours: no twin when the finding becomes final."""
    own = readings(10_800, lambda t: {BER: 1.5e-4 if 600 <= t < 8_520 and (t - 600) % 302 < 59 else 2e-7})
    (found,) = revisions(play(own), Condition.LINK_DEGRADING)
    assert (found[-1].status, found[-1].final, after(found[-1].started_at_ns)) == (Status.RESOLVED, True, 560)
    assert after(found[-1].resolved_at_ns) == pytest.approx(8_520, abs=60)


def test_two_degradations_hours_apart_are_two_findings() -> None:
    """The evidence of the first, which is retained for trends, does not swallow the second."""
    own = readings(20_000, lambda t: {BER: 1.5e-4 if 600 <= t < 2_400 or 15_000 <= t < 17_000 else 2e-7})
    assert [after(one[-1].started_at_ns) for one in revisions(play(own), Condition.LINK_DEGRADING)] == [560, 14_960]


def test_the_worst_minutes_of_a_long_degradation_stay_its_evidence() -> None:
    """Ten minutes lose 20 frames a second, four hours one: the finding names the worst at its end."""
    lost_s = [20 if 5_000 <= t < 5_600 else int(600 <= t < 14_000) for t in range(0, 16_000, 10)]
    totals = [10 * sum(lost_s[:n]) for n in range(len(lost_s) + 1)]
    own = readings(16_000, lambda t: {FCS: totals[t // 10 + 1], PACKETS: 1e9 + 1000 * t})
    (found,) = revisions(play(own), Condition.LINK_DEGRADING)
    assert found[-1].final
    assert found[-1].evidence[0].observed == pytest.approx(12_000, rel=0.05)


@pytest.mark.parametrize(
    ("count", "seconds", "ports"),
    [(255, 116, (HOST,)), (255, 116, (HOST, LEAF)), (360, 36, (HOST,)), (300, 2_400, (HOST,))],
    ids=["255 in 116 s", "seen by both ends", "ten a second", "for 40 minutes"],
)
def test_all_downs_of_a_flap_are_counted(count: int, seconds: float, ports: Sequence[str]) -> None:
    """More transitions than a link retains: the count, the onset and the outage are those of all of them."""
    events = [one for port in ports for one in flapping(port, count, seconds)]
    published = play([*readings(600 + seconds + 800, lambda _: {}), *events])
    (found,) = revisions(published, Condition.LINK_FLAP)
    assert found[-1].summary.endswith(f"went down {count} times")
    assert {one.observed for one in found[-1].evidence} == {float(count)}
    assert (after(found[-1].started_at_ns), found[-1].final) == (600, True)
    (down,) = revisions(published, Condition.LINK_DOWN)
    assert (after(down[-1].started_at_ns), down[-1].status) == (600, Status.RESOLVED)
    assert after(down[-1].resolved_at_ns) == pytest.approx(600 + seconds, abs=seconds / count)


def test_a_down_after_a_flap_is_no_flap_and_inherits_no_count() -> None:
    """One down 100 minutes later is a transient; three are another flap, which counts its own downs from its first."""
    storm, read = flapping(HOST, 255, 116), readings(10_000, lambda _: {})
    assert len(revisions(play([*read, *storm, *flapping(HOST, 1, 4, 6_716)]), Condition.LINK_FLAP)) == 1
    _, second = revisions(play([*read, *storm, *flapping(HOST, 3, 60, 6_716)]), Condition.LINK_FLAP)
    assert (second[-1].summary.rpartition("went")[2], after(second[-1].started_at_ns)) == (" down 3 times", 6_716)


def test_repeated_transitions_count_once_after_they_were_dropped() -> None:
    """A restart of `measure` repeats the newest symptoms, and older ones that the link no longer retains."""
    own = flaps(HOST, *(n / 2 for n in range(255)), lasting=0.25)
    (found,) = last(f for f in correlated([*own, *own[-400:]], 2_000) if f.condition is Condition.LINK_FLAP)
    assert found.summary.endswith("went down 255 times")


def test_repeated_xids_are_counted_and_the_worst_stays() -> None:
    """One that needs a reset among hundreds of contained errors; the evidence counts every report."""
    codes = [79 if n == 40 else 94 for n in range(500)]
    own = [
        Symptom("p1-h1", "0000:9b:00.0", GpuXid(code, False, ""), at(n), source=Source.SOURCE_HOST, by_event=True)
        for n, code in enumerate(codes)
    ]
    found = correlated([*own, *own[-100:]], 100_000)
    assert len({one.id for one in found}) == 1
    assert len(found) <= MOST_REVISIONS
    assert found[-1].severity is Severity.CRITICAL
    assert [(e.observed, after(e.window_start_ns)) for e in found[-1].evidence] == [(1, 40), (499, 0)]


def test_all_lost_records_of_a_consumer_are_counted() -> None:
    """A consumer that is always behind reports 1,500 losses in five minutes: one finding, with all of their records."""
    stage = Attribute(DetectParams())
    stage.start_epoch(1)
    outputs: list[Output] = []
    for n in range(1_500):
        outputs += stage.process([InputLoss("measure", "railsight.samples.v1", 3, 1_000 * n, 700, at(n / 5))])
        outputs += stage.advance_watermark(at(n / 5))
    outputs += stage.advance_watermark(at(2_000))
    published = [o.message for o in outputs if isinstance(o.message, Finding) and o.topic.retention_s is not None]
    (found,) = last(published)
    assert (found.evidence[0].observed, after(found.started_at_ns), found.final) == (1_500 * 700, 0, True)
    assert len(published) <= 2 * MOST_REVISIONS
