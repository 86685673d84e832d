"""rail/degraded of a host: negative cases first, then what is found, what explains it, and what it explains."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.detector import JobDomain
from streams.detect.detectors.rail_degraded import DETECTOR
from streams.detect.detectors.rail_degraded.hosts import HostsState, add_host_rates, evaluate_hosts
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.detect.thresholds import ns
from streams.fabric.catalogue import Metric
from streams.fabric.clos import PlanesAt
from streams.fabric.topology import Topology, TopologyLink
from streams.report.job.impact import domain_of
from streams.wire.models import Cause, Condition, Finding, HostRates, Samples, Severity, Source, Status
from tests.worlds.observations import after, at, last, samples
from tests.worlds.small_world import findings, play

TOP = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=6, planes=1, spines=1, uplinks=1), at(0)))
EIGHT_PLANES = Topology(
    demo_fabric.inventory(
        DemoShape(pods=1, hosts=6, planes=8, spines=1, uplinks=1, planes_at=PlanesAt.NICS), at(0)
    )
)  # fmt: skip
"""Each host has 64 NIC ports, more than a small switch."""
HOSTS = tuple(f"pod1-host{n}" for n in range(1, 7))
JOB, OTHER = HOSTS[:5], HOSTS[5]
"""The demo's jobs: five hosts of one, and one host of another."""
BAD = HOSTS[1]
RATE, SPEED = 2e11, 4e11
RATES = ("host", "rate_bps", "speed_bps", "rails", "stalled", "retransmitting")
Row = dict[str, float]
RowsOf = Callable[[str, int], Row]
"""Host, window -> what differs from a healthy host."""


def is_bad(host: str, n: int) -> bool:
    """The host BAD from the eighth to the thirteenth minute."""
    return host == BAD and 7 <= n < 13


def rates(rows_of: RowsOf, count: int = 30) -> Iterator[HostRates]:
    """Yield the windows of all hosts, minute after minute."""
    usual = {"rate": RATE, "rails": 8, "stalled": 0, "retransmitting": 0}
    for n in range(count):
        rows = [usual | {"rate": RATE * (1 + HOSTS.index(host) % 3 / 100)} | rows_of(host, n) for host in HOSTS]
        begin = at(20 + 60 * n)
        yield HostRates(
            Source.SOURCE_NIC, begin, begin + ns(60), HOSTS, tuple(row["rate"] for row in rows),
            (SPEED,) * len(HOSTS), tuple(int(row["rails"]) for row in rows), tuple(int(row["stalled"]) for row in rows),
            tuple(int(row["retransmitting"]) for row in rows),
        )  # fmt: skip


def emitted(windows: Iterator[HostRates], top: Topology = TOP) -> list[Finding]:
    """Return all revisions; each window comes when it is complete."""
    params, state, found = DetectParams(), HostsState(), []
    for window in windows:
        add_host_rates(state, window)
        for watermark_ns in (window.end_ns + ns(30) - 1, window.end_ns + ns(30)):
            found += evaluate_hosts(params.rail, DETECTOR.ledger(params.shared, watermark_ns), state, top)
    found += evaluate_hosts(params.rail, DETECTOR.ledger(params.shared, at(36_000)), state, top)
    return [replace(episode.finding, revision=n) for n, episode in enumerate(found)]


def slow(share: float, when: Callable[[str, int], bool] = is_bad) -> RowsOf:
    """Some hosts carry a share of the others."""
    return lambda host, n: {"rate": RATE * share} if when(host, n) else {}


NONE: dict[str, RowsOf] = {
    "all alike": lambda _host, _n: {},
    "five per cent less": slow(0.95),
    "two slow minutes": slow(0.5, lambda host, n: host == BAD and 7 <= n < 9),
    "the whole job slows": slow(0.4, lambda host, n: host in JOB and n >= 7),
    "the whole job stalls on PCIe": lambda host, n: {"stalled": 8} if host in JOB and n >= 7 else {},
    "an idle host": slow(0.001, lambda host, n: host == BAD and n >= 7),
    "a host that carries less since the job began: a store, or a stage of a pipeline": slow(
        0.5, lambda host, _n: host == BAD),
    "a host of another job": slow(0.3, lambda host, n: host == OTHER and n >= 7),
    "half of the rails stall": lambda host, n: {"stalled": 4} if is_bad(host, n) else {},
    "two rails are read": lambda host, n: {"rails": 2, "stalled": 2} if is_bad(host, n) else {},
    "peers that differ as much": lambda host, _n: {"rate": RATE * (0.4 + HOSTS.index(host) % 5 * 0.2)},
}  # fmt: skip


@pytest.mark.parametrize("rows_of", NONE.values(), ids=NONE)
def test_what_is_no_slow_host(rows_of: RowsOf) -> None:
    """Whole jobs, idle hosts, hosts with another part in their job, short spells."""
    assert emitted(rates(rows_of)) == []


def test_a_host_without_a_job_has_no_peers() -> None:
    """Hosts that wait for a job, and stores, carry what they are asked for."""
    without = Topology(replace(demo_fabric.inventory(DemoShape(pods=1, hosts=6, planes=1, spines=1, uplinks=1), at(0)),
                               jobs=()))  # fmt: skip
    assert emitted(rates(slow(0.5)), without) == []
    assert emitted(rates(slow(0.5)), TOP) != []


def test_a_host_that_slows_after_others_of_its_job_were_not_read_has_no_role() -> None:
    """They were compared in three windows of the first five, and the host was like them."""

    def rows_of(host: str, n: int) -> Row:
        return {"rails": 0} if host in JOB[2:4] and 3 <= n < 7 else slow(0.6)(host, n)

    (found,) = last(emitted(rates(rows_of)))
    assert found.summary.startswith(f"{BAD} is slow on all rails")


SOME: dict[str, tuple[RowsOf, Cause, Severity, str]] = {
    "it carries less": (
        slow(0.6), Cause.HOST, Severity.INFO, "is slow on all rails: 120.0 Gb/s a rail, 60% of the 201.0 Gb/s"),
    "its NICs stall, and its job waits for it": (
        lambda host, n: ({"stalled": 7} if is_bad(host, n) else {}) | ({"rate": RATE / 2} if 7 <= n < 13 else {}),
        Cause.PCIE, Severity.WARNING, "stalls on PCIe at 7 of its 8 rails, unlike 4 other hosts"),
    "it retransmits": (
        lambda host, n: {"retransmitting": 8} if is_bad(host, n) else {}, Cause.HOST, Severity.WARNING,
        "retransmits on 8 of its 8 rails"),
}  # fmt: skip


@pytest.mark.parametrize(("rows_of", "cause", "severity", "summary"), SOME.values(), ids=SOME)
def test_what_is_a_slow_host(rows_of: RowsOf, cause: Cause, severity: Severity, summary: str) -> None:
    """One finding of the host, from its first bad minute to the end of its last, which is no fault of the network."""
    revisions = emitted(rates(rows_of))
    (final,) = last(revisions)
    assert (final.condition, final.subject.id, final.subject.role) == (
        Condition.RAIL_DEGRADED, f"device:{BAD}", "host",
    )  # fmt: skip
    assert (final.status, final.final, final.cause, final.severity) == (Status.RESOLVED, True, cause, severity)
    assert (after(final.started_at_ns), after(final.resolved_at_ns)) == (20 + 60 * 7, 20 + 60 * 13)
    assert after(revisions[0].detected_at_ns) == 20 + 60 * 10 + 30
    assert summary in final.summary
    assert domain_of(final) is JobDomain.HOST


def test_counters_of_a_host_of_a_small_job_are_compared_with_the_hosts_of_other_jobs() -> None:
    """A job of one host; its bytes alone have no peers."""

    def stalling(host: str, n: int) -> Row:
        return {"stalled": 8} if host == OTHER and 7 <= n < 13 else {}

    (final,) = last(emitted(rates(stalling)))
    assert (final.subject.id, final.cause, final.status) == (f"device:{OTHER}", Cause.PCIE, Status.RESOLVED)
    assert "unlike 5 other hosts" in final.summary


def test_it_stays_open_while_the_host_is_not_read() -> None:
    """Missing is not healthy."""
    windows = list(rates(slow(0.6, lambda host, n: host == BAD and n >= 7)))
    silent = [
        replace(window, **{name: getattr(window, name)[:1] + getattr(window, name)[2:] for name in RATES})
        if n >= 12 else window
        for n, window in enumerate(windows)
    ]  # fmt: skip
    assert {one.status for one in emitted(iter(silent))} <= {Status.OPEN, Status.UPDATED}


def test_a_minute_without_the_hosts_of_a_job_does_not_begin_the_job_again() -> None:
    """The collectors of one job's hosts restart while another job is read; the slow host gets no role in its job."""
    windows = list(rates(slow(0.6, lambda host, n: host == BAD and n >= 7)))
    others = {name: getattr(windows[14], name)[5:] for name in RATES}
    windows[14] = replace(windows[14], **others)
    assert windows[14].host == (OTHER,)
    assert [one.status for one in last(emitted(iter(windows)))] == [Status.UPDATED]


def test_order_and_repetition_decide_nothing() -> None:
    """All windows at once, backwards and twice."""
    params, state = DetectParams(), HostsState()
    windows = list(rates(slow(0.6)))
    for window in (*reversed(windows), *windows):
        add_host_rates(state, window)
    found = evaluate_hosts(params.rail, DETECTOR.ledger(params.shared, at(36_000)), state, TOP)
    (straight,) = last(emitted(iter(windows)))
    (shuffled,) = last([replace(episode.finding, revision=n) for n, episode in enumerate(found)])
    assert replace(shuffled, revision=0) == replace(straight, revision=0)


Growth = Mapping[Metric, float]
"""Of a counter of all ports of the host: of bytes as a share of the usual rate, of others a second."""

BYTES = (Metric.TX_BYTES, Metric.RX_BYTES)


def readings(
    growth: Growth, top: Topology = TOP, counted: Callable[[TopologyLink], bool] = lambda _: True, until: int = 1500
) -> Iterator[Samples]:
    """Yield the readings of the NICs of all hosts, at half of their speed; BAD has other growth within seven minutes.

    Ports that are not `counted` have counters of bytes alone.
    """
    speed = float(top.links_of[BAD][0].speed_bps or 0)
    usual: dict[Metric, float] = {
        Metric.TX_BYTES: speed / 16, Metric.RX_BYTES: speed / 16, Metric.LOCAL_ACK_TIMEOUTS: 0.0,
        Metric.PCIE_STALLED_READ_SECONDS: 0.0,
    }  # fmt: skip
    slow_by = {metric: share * usual[metric] for metric, share in growth.items() if metric in BYTES}
    during_per_s = {**usual, **growth, **slow_by}
    for t in range(0, until, 10):
        for host in HOSTS:
            during = max(0.0, min(t, 900) - 480) if host == BAD else 0.0
            links = top.links_of[host]
            ports = [link.lower.port for link in links]
            cells: dict[Metric, dict[str, float | None]] = {
                metric: {
                    link.lower.port: float(int(1e6 + per_s * (t - during) + during_per_s[metric] * during))
                    if metric in BYTES or counted(link) else None
                    for link in links
                }
                for metric, per_s in usual.items()
            }  # fmt: skip
            gauges: dict[Metric, dict[str, float | None]] = {
                Metric.SPEED_BPS: dict.fromkeys(ports, speed), Metric.OPER_UP: dict.fromkeys(ports, 1.0),
                Metric.ADMIN_UP: dict.fromkeys(ports, 1.0),
            }  # fmt: skip
            yield samples(host, t, cells | gauges, source=Source.SOURCE_NIC)


FABRICS = pytest.mark.parametrize("top", [TOP, EIGHT_PLANES], ids=["one plane", "eight planes"])


@FABRICS
def test_a_host_that_sends_half_and_receives_as_before_is_not_slow(top: Topology) -> None:
    """The direction with more bytes counts."""
    assert findings(play(readings({Metric.TX_BYTES: 0.5}, top), top)) == []


@pytest.mark.parametrize(
    ("growth", "cause", "severity"),
    [
        ({Metric.TX_BYTES: 0.5, Metric.RX_BYTES: 0.5}, Cause.HOST, Severity.INFO),
        ({Metric.PCIE_STALLED_READ_SECONDS: 0.6}, Cause.PCIE, Severity.CRITICAL),
        ({Metric.LOCAL_ACK_TIMEOUTS: 5.0}, Cause.HOST, Severity.CRITICAL),
    ],
    ids=["bytes", "pcie", "retransmits"],
)
@FABRICS
def test_all_stages_find_it_and_blame_the_host_alone(
    top: Topology, growth: Growth, cause: Cause, severity: Severity
) -> None:
    """From counters of the NICs; rails that count the same are its children, and no fault of the network is found."""
    found = findings(play(readings(growth, top), top))
    (root,) = (one for one in found if not one.parent_id)
    assert (root.condition, root.subject.id, root.cause, root.severity) == (
        Condition.RAIL_DEGRADED, f"device:{BAD}", cause, severity,
    )  # fmt: skip
    assert {one.condition for one in found} == {Condition.RAIL_DEGRADED}
    assert {one.parent_id for one in found if one is not root} <= {root.id}
    assert root.status is Status.RESOLVED


RELEASED = Path(__file__).parents[2] / "contract" / "upgrade" / "states"
TIMEOUTS: Growth = {Metric.LOCAL_ACK_TIMEOUTS: 5.0}


def test_counters_of_a_rail_count_for_all_of_its_planes() -> None:
    """A NIC has them at one of its ports: eight such rails are a slow host, one of them is a rail."""
    eight = findings(play(readings(TIMEOUTS, EIGHT_PLANES, lambda link: link.plane == 0), EIGHT_PLANES))
    (root,) = (one for one in eight if one.subject.role == "host")
    assert (root.subject.id, root.cause, root.severity) == (f"device:{BAD}", Cause.HOST, Severity.CRITICAL)
    one_rail = readings(TIMEOUTS, EIGHT_PLANES, lambda link: link.plane == 0 and link.rail == 1)
    assert {one.subject.role for one in findings(play(one_rail, EIGHT_PLANES))} == {"rail"}


def test_a_snapshot_without_counters_of_hosts_with_many_nics_is_restored() -> None:
    """Written by version 0.2.0 in a minute with retransmits: its traffic is continued, the next minute has them."""
    own = Measure(DetectParams())
    own.start_epoch(1)
    own.set_topology(EIGHT_PLANES)
    own.restore((RELEASED / "0.2.0" / "measure-of-64-nics.bin").read_bytes())
    assert own.watermark_ns == at(540)
    later = [
        sample for sample in readings(TIMEOUTS, EIGHT_PLANES) if sample.device == BAD and sample.sampled_at_ns > at(540)
    ]
    sent = [output.message for sample in later[:30] for output in own.process([sample])]
    rates_of = [one for one in sent if isinstance(one, HostRates)]
    assert [(after(one.begin_ns), one.retransmitting) for one in rates_of[:3]] == [
        (500, (0,)),
        (560, (64,)),
        (620, (64,)),
    ]
    speed = float(EIGHT_PLANES.links_of[BAD][0].speed_bps or 0)
    assert [one.rate_bps for one in rates_of[:3]] == [pytest.approx((speed / 2,))] * 3
