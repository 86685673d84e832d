"""congestion/incast: what it is not, then what it is, and when the host is at fault."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from lab.world import demo_fabric
from lab.world.demo_fabric import DemoShape
from streams.detect.evidence.episodes import BOTH_ENDS, ONE_END
from streams.fabric.catalogue import Metric
from streams.fabric.topology import Topology
from streams.wire.models import Cause, Condition, Finding, Samples, Severity, Status
from streams.wire.symptoms import SymptomKind
from tests.worlds.observations import GNMI, NIC, Cells, after, at, samples
from tests.worlds.small_world import findings, measured, play

SPEED = 400e9
FULL = SPEED / 8
TOP = Topology(demo_fabric.inventory(DemoShape(pods=1, hosts=5, planes=1, spines=1, uplinks=1), at(0)))
HOST, LEAF = "pod1-host2", "pod1-leaf4"


@dataclass(frozen=True)
class Into:
    """The load of a host's port in `spans`, per second; otherwise it is half full and healthy."""

    fill: float = 0.5
    marked: float = 0
    dropped: float = 0
    dropped_by_host: float = 0
    paused: float = 0
    stalls: float = 0
    spans: tuple[tuple[float, float], ...] = ((120, 420),)
    by_switch: bool = False
    depth: float | None = None
    """The highest depth of queue 3 in each reading."""


def readings(
    own: Into, host: str = HOST, last_s: float = 900, phase: float = 0, cadence: float = 10
) -> Iterator[Samples]:
    """Yield readings of the NIC's end or of the switch's."""
    for turn in range(int(last_s / cadence)):
        t = turn * cadence + phase
        during = sum(max(0.0, min(t, end) - begin) for begin, end in own.spans)
        octets = 1e13 + FULL * (0.5 * (t - during) + own.fill * during)
        number = int(host[-1])
        port = f"Ethernet{number}/1" if own.by_switch else "mlx5_3"
        ways = (Metric.TX_BYTES, Metric.TX_PACKETS) if own.by_switch else (Metric.RX_BYTES, Metric.RX_PACKETS)
        marks = Metric.PORT_ECN_MARKED_PACKETS if own.by_switch else Metric.ROCE_ECN_MARKED_PACKETS
        counts = {
            (ways[0], -1): octets, (ways[1], -1): octets / 4096,
            (marks, -1): own.marked * own.fill * FULL / 4096 * during,
            (Metric.TX_DISCARDS, -1): own.dropped * during,
            (Metric.RX_DISCARDS, -1): own.dropped_by_host * during,
            (Metric.PFC_TX_PAUSE_USECONDS, 3): own.paused * 1e6 * during,
            (Metric.PCIE_STALLED_WRITE_SECONDS, -1): own.stalls * during,
        }  # fmt: skip
        cells: Cells = {column: {port: value} for column, value in counts.items()}
        if own.depth is not None:
            cells |= {(Metric.QUEUE_WATERMARK_BYTES, queue): {port: own.depth * (queue == 3)} for queue in (0, 3)}
        device, source = (LEAF, GNMI) if own.by_switch else (host, NIC)
        yield samples(device, t, {}, source=source, indexed=cells, sequence=turn)


def incasts(rows: Iterable[Samples]) -> list[Finding]:
    """Return the incasts that are published."""
    ordered = sorted(rows, key=lambda row: row.sampled_at_ns)
    return [f for f in findings(play(ordered, TOP)) if f.condition is Condition.CONGESTION_INCAST]


NOT_AN_INCAST = {
    "bursts into a deep queue of a link that is half full": Into(fill=0.5, by_switch=True, depth=9e6),
    "a full link without marks": Into(fill=0.99),
    "an all-reduce at full load, marked now and then": Into(fill=0.97, marked=0.01),
    "a burst of forty seconds": Into(fill=0.97, marked=0.5, spans=((120, 160),)),
    "marks on a link that is not full": Into(fill=0.7, marked=0.3),
    "low CNP and no marks, where DCQCN is off": Into(fill=0.95),
    "a host that pauses now and then": Into(fill=0.9, paused=0.03),
    "a job's end": Into(fill=0.0),
    "an idle host whose NIC stalls on PCIe": Into(fill=0.01, stalls=0.8),
    "a host that pauses for a part of a minute": Into(fill=0.4, paused=0.9, spans=((120, 150),)),
    "single drops of a NIC": Into(fill=0.4, dropped_by_host=5),
    "drops of a NIC within a minute": Into(fill=0.4, dropped_by_host=9000, spans=((120, 150),)),
    "single drops": Into(fill=0.97, dropped=5, by_switch=True),
}


@pytest.mark.parametrize("case", NOT_AN_INCAST)
def test_it_is_not(case: str) -> None:
    """Similar conditions open nothing."""
    assert incasts(readings(NOT_AN_INCAST[case])) == []


INCASTS = {
    "the receiver sees marks": (Into(fill=0.97, marked=0.4), Cause.CONGESTION),
    "the switch marks": (Into(fill=0.97, marked=0.4, by_switch=True), Cause.CONGESTION),
    "the switch drops": (Into(fill=0.97, dropped=5000, by_switch=True), Cause.CONGESTION),
    "the host drops": (Into(fill=0.4, dropped_by_host=5000), Cause.NIC),
    "the host pauses the fabric": (Into(fill=0.4, paused=0.4), Cause.NIC),
    "the host pauses because it stalls": (Into(fill=0.4, paused=0.4, stalls=0.7), Cause.PCIE),
}


@pytest.mark.parametrize("depth", [None, 4.2e6])
def test_the_deepest_queue_is_evidence_where_it_is_read(depth: float | None) -> None:
    """High-frequency telemetry, reduced to the watermark of each reading, shows bursts that counters do not."""
    (found,) = incasts(readings(Into(fill=0.97, dropped=5000, by_switch=True, depth=depth)))
    lines = [line for line in found.evidence if line.metric == "queue_watermark_bytes"]
    assert [line.observed for line in lines] == ([] if depth is None else [depth])
    assert all(f"up to 4.2 MB wait in a queue of {LEAF}/Ethernet2/1" in line.statement for line in lines)


@pytest.mark.parametrize("case", INCASTS)
def test_it_is_found_after_a_minute(case: str) -> None:
    """At one of the pod's hosts; the cause is the fabric or the host."""
    own, cause = INCASTS[case]
    (found,) = incasts(readings(own))
    assert (found.severity, found.status, found.final) == (Severity.WARNING, Status.RESOLVED, True)
    assert (found.cause, found.confidence) == (cause, ONE_END)
    assert (after(found.started_at_ns), after(found.detected_at_ns), after(found.resolved_at_ns)) == (120, 180, 420)
    assert found.subject.id == "link:pod1-host2/mlx5_3--pod1-leaf4/Ethernet2/1"
    assert found.blast_radius is not None
    assert found.blast_radius.jobs == ("pretrain-70b",)
    assert "job pretrain-70b receives on pod1-host2" in found.evidence[-1].statement


def test_both_ends_are_one_finding() -> None:
    """The switch marks what the receiver counts."""
    rows = [*readings(Into(fill=0.97, marked=0.4)), *readings(Into(fill=0.97, marked=0.4, by_switch=True))]
    (found,) = incasts(rows)
    assert found.confidence == BOTH_ENDS


@pytest.mark.parametrize("hosts", [(1, 2, 3, 4, 5), (1, 2, 3)])
def test_congestion_of_half_of_the_peers_is_no_incast(hosts: Sequence[int]) -> None:
    """All-to-all over a rail: every host receives at line rate."""
    rows = [r for n in hosts for r in readings(Into(fill=0.97, marked=0.4), f"pod1-host{n}", phase=n)]
    assert incasts(rows) == []


@pytest.mark.parametrize("cadence", [10, 20, 60])
@pytest.mark.parametrize(("pause", "count"), [(60, 1), (100, 1), (120, 1), (200, 2)])
def test_what_comes_back_within_two_minutes_is_the_same_and_nothing_is_lost(
    pause: float, count: int, cadence: float
) -> None:
    """However late the second is reported after its begin."""
    own = Into(fill=0.97, marked=0.4, spans=((120, 420), (420 + pause, 720 + pause)))
    found = incasts(readings(own, last_s=1500, cadence=cadence))
    assert [after(one.resolved_at_ns) for one in found][-1] == pytest.approx(720 + pause, abs=cadence)
    assert (len(found), found[0].started_at_ns) == (count, at(120))


def test_two_of_five_receivers_at_different_times_are_two_incasts() -> None:
    """An incast that ended before the other began is not a common load."""
    late = Into(fill=0.97, marked=0.4)
    rows = [*readings(late), *(
        samples(r.device.replace("2", "4"), r.sampled_at_ns / 1e9 - 1e6 + 1000, {}, source=NIC, sequence=r.sequence,
                indexed={(m, i): {"mlx5_3": float(v)} for m, i, (v,) in zip(
                    r.counters.metric, r.counters.index, r.counters.values.tolist(), strict=True)})
        for r in readings(late)
    )]  # fmt: skip
    assert len(incasts(rows)) == 2


def test_it_stays_open_without_readings() -> None:
    """A missing reading is not an end."""
    (found,) = incasts(readings(Into(fill=0.97, marked=0.4, spans=((120, 1e9),)), last_s=300))
    assert found.resolved_at_ns is None


def test_its_begin_and_its_end_are_emitted() -> None:
    emitted = measured(TOP, readings(Into(fill=0.97, marked=0.4)))
    assert [s.kind for s in emitted] == [SymptomKind.INCAST_BEGAN, SymptomKind.INCAST_ENDED]


def test_a_storm_within_one_poll_of_a_minute_is_no_incast() -> None:
    """It pauses a part of the interval in which it begins, and traffic passes in the rest; then nothing passes."""
    storm = Into(fill=0.0, paused=0.99, spans=((150, 330),))
    assert incasts(readings(storm, last_s=1800, cadence=60)) == []
    lasting = Into(fill=0.4, paused=0.4, spans=((150, 630),))
    assert len(incasts(readings(lasting, last_s=1800, cadence=60))) == 1
