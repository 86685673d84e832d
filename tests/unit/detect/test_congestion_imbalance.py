"""congestion/imbalance: what it is not, then what it is."""

from dataclasses import dataclass, field

import pytest

from streams.detect.correlate.stage import Correlate
from streams.detect.detector import Context
from streams.detect.detectors.congestion_imbalance import DETECTOR, ImbalanceState, evaluate, mark_of, with_mark
from streams.detect.evidence.shared import SharedEvidence
from streams.detect.evidence.windows import Marks
from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.wire.models import Condition, Endpoint, Finding, PeerGroup, PeerWindow, Severity, Source, Status, Subject
from tests.worlds.observations import SNMP, after, at, episodes, last, samples
from tests.worlds.other_fabrics import ASIDE, LEAF, OTHERS, SPEED, UPLINKS, fabric
from tests.worlds.small_fabric import begun, topology


@dataclass(frozen=True)
class Case:
    """The relative load of each uplink from 120 s to `until` and from `again` on; otherwise all are equal."""

    fill: tuple[float, ...] = (0.6, 0.6, 0.6, 0.6)
    until: float = 900
    usual: float = 0.5
    speeds: tuple[float, ...] = (SPEED,) * 4
    down: dict[str, tuple[float, float]] = field(default_factory=dict)
    boots: float = 1e9
    trained: float | None = None
    again: float = 1e9
    received: bool = False
    """The load is what the uplinks receive; what they send is even."""


def published(case: Case, last_s: float = 1800, source: Source = SNMP, balancing: str = "") -> list[Finding]:
    """Return the last revisions by measure and correlate."""
    top = fabric(case.speeds if case.trained is None else (0,) * 4)
    devices = {name: one._replace(load_balancing=balancing) for name, one in top.devices.items()}  # type: ignore[arg-type]
    top.devices.update(devices)
    measure, correlate = begun(Measure(DetectParams()), top), begun(Correlate(DetectParams()), top)
    outputs = []
    for turn in range(int(last_s / 20)):
        t = turn * 20.0
        during = max(0.0, min(t, case.until) - 120) + max(0.0, t - case.again)
        since = 0.0 if t < case.boots else case.boots
        full = case.speeds if case.trained is None else (case.trained,) * 4
        sent: dict[str, float | None] = {
            port: speed / 8 * (case.usual * (t - during) + fill * during - case.usual * since * (since > 0)) + 1e9
            for port, fill, speed in zip(UPLINKS, case.fill, full, strict=True)
        }
        sent |= dict.fromkeys(OTHERS, SPEED / 8 * 0.9 * t) | dict.fromkeys(ASIDE, SPEED / 8 * 0.05 * t)
        up: dict[str, float | None] = {
            port: float(not (port in case.down and case.down[port][0] <= t < case.down[port][1])) for port in sent
        }
        even: dict[str, float | None] = dict.fromkeys(sent, SPEED / 8 * 0.5 * t)
        even |= {port: speed / 8 * 0.5 * t for port, speed in zip(UPLINKS, full, strict=True)}
        ways = (even, sent) if case.received else (sent, even)
        values = {Metric.TX_BYTES: ways[0], Metric.RX_BYTES: ways[1], Metric.OPER_UP: up}
        if case.trained is not None:
            values[Metric.SPEED_BPS] = dict.fromkeys(sent, case.trained)
        row = samples(LEAF, t, values, source=source, boot_id=1 + (t >= case.boots), sequence=turn)
        for output in measure.process([row]):
            outputs += correlate.process([output.message]) if output.message is not None else []
        outputs += correlate.advance_watermark(at(t) - 1)
    outputs += correlate.advance_watermark(at(last_s + 300))
    return [f for f in last(episodes(outputs)) if f.condition is Condition.CONGESTION_IMBALANCE]


NOT_AN_IMBALANCE = {
    "a healthy fabric, within 3 %": Case((0.78, 0.80, 0.82, 0.80)),
    "no uplink is half full": Case((0.10, 0.45, 0.30, 0.30)),
    "an idle fabric with one flow": Case((0.001, 0.02, 0.001, 0.001), usual=0.001),
    "a burst of three minutes": Case((0.9, 0.5, 0.5, 0.5), until=300),
    "an uplink that is drained": Case((0.0, 0.8, 0.8, 0.8)),
    "an uplink that is down": Case((0.0, 0.8, 0.8, 0.8), down={"u0": (120, 900)}),
    "a job's end: all fall together": Case((0.01, 0.01, 0.01, 0.01)),
    "all in use but one": Case((0.9, 0.0, 0.0, 0.0)),
    "uplinks of two speeds, filled alike": Case((0.7, 0.7, 0.7, 0.7), speeds=(SPEED, SPEED, 2 * SPEED, 2 * SPEED)),
    "counters that restart, each at its own value": Case(boots=600),
    "received within 3 %": Case((0.78, 0.80, 0.82, 0.80), received=True),
    "no downlink is half full": Case((0.10, 0.45, 0.30, 0.30), received=True),
    "a burst of three minutes from above": Case((0.9, 0.5, 0.5, 0.5), until=300, received=True),
    "a spine that sends nothing down": Case((0.0, 0.8, 0.8, 0.8), received=True),
    "little traffic to another leaf and to storage": Case((0.7, 0.7, 0.7, 0.7), trained=SPEED),
}


@pytest.mark.parametrize("case", NOT_AN_IMBALANCE)
def test_it_is_not(case: str) -> None:
    """Similar conditions open nothing."""
    assert published(NOT_AN_IMBALANCE[case]) == []


@pytest.mark.parametrize("trained", [None, SPEED])
def test_an_uplink_that_carries_more_for_minutes_is_found(trained: float | None) -> None:
    """Opens after five windows, names the deviant and the full uplink, and closes after five even ones."""
    (found,) = published(Case((0.9, 0.6, 0.6, 0.6), trained=trained))
    assert (found.severity, found.status, found.final) == (Severity.WARNING, Status.RESOLVED, True)
    assert found.subject.id == f"device:{LEAF}"
    assert after(found.started_at_ns) == pytest.approx(120, abs=60)
    assert found.detected_at_ns is not None
    assert found.detected_at_ns - found.started_at_ns == 330e9
    assert after(found.resolved_at_ns) == pytest.approx(900, abs=60)
    off, full = found.evidence
    assert (off.at, off.peers) == (Endpoint(LEAF, "u0"), 3)
    assert off.observed == pytest.approx(0.9 * SPEED, rel=0.01)
    assert off.expected == pytest.approx(0.675 * SPEED, rel=0.01)
    assert full.observed == pytest.approx(0.9, rel=0.01)


def test_one_that_carries_too_little_is_found() -> None:
    """A bundle that lost a member carries half."""
    (found,) = published(Case((0.35, 0.7, 0.7, 0.7)))
    assert found.evidence[0].at == Endpoint(LEAF, "u0")


@pytest.mark.parametrize("balancing", ["adaptive", "sprayed"])
def test_an_uneven_uplink_of_sprayed_packets_is_a_path_that_is_avoided(balancing: str) -> None:
    """Not a collision of flows: the emptiest uplink is the symptom of its path."""
    (found,) = published(Case((0.6, 0.6, 0.3, 0.6)), balancing=balancing)
    assert found.evidence[0].at == Endpoint(LEAF, "u2")
    assert found.summary.endswith("packets are sprayed: the path of u2 is slower or avoided")
    (full,) = published(Case((0.9, 0.5, 0.5, 0.5)), balancing=balancing)
    assert full.evidence[0].at is not None and full.evidence[0].at.port in ("u1", "u2", "u3")
    (by_flow,) = published(Case((0.6, 0.6, 0.3, 0.6)), balancing="ecmp")
    assert "sprayed" not in by_flow.summary


def test_sprayed_packets_are_compared_within_their_plane() -> None:
    """A plane with half of the load of another is no path that is avoided."""
    window = PeerWindow(
        LEAF, SNMP, PeerGroup.SWITCH_UPLINKS, at(0), at(60), at(-10), at(50), UPLINKS,
        (Metric.TX_BYTES, Metric.SPEED_BPS), (2e12, 2e12, 1e12, 1e12, SPEED, SPEED, SPEED, SPEED),
    )  # fmt: skip
    params = DetectParams().section(DETECTOR)
    assert mark_of(params, window).is_bad and not mark_of(params, window, (0, 0, 1, 1)).is_bad
    assert mark_of(params, window, (0, 1, 0, 1)).off == pytest.approx(-1 / 3)


def test_elephants_that_collide_on_one_link_down_to_a_leaf_are_found() -> None:
    """The tier above hashes them onto one of the parallel links; the leaf's own traffic is even."""
    (found,) = published(Case((0.9, 0.4, 0.4, 0.4), received=True))
    assert found.subject.id == f"device:{LEAF}"
    assert found.summary.startswith(f"the 4 uplinks of {LEAF} receive unevenly: u0 +")
    off, full = found.evidence
    assert (off.metric, off.at, off.peers) == ("rx_bytes", Endpoint(LEAF, "u0"), 3)
    cable = fabric((SPEED,) * 4).link_at(Port(LEAF, "u0"))
    assert cable is not None
    assert full.statement == f"{cable.upper.device}/{cable.upper.port} is 90% full"
    assert after(found.resolved_at_ns) == pytest.approx(900, abs=60)


def test_it_stays_open_without_readings() -> None:
    """A missing window is not an even window."""
    (found,) = published(Case((0.9, 0.6, 0.6, 0.6), until=1e9), last_s=700)
    assert found.resolved_at_ns is None


def test_two_sources_are_one_window() -> None:
    """The first source by number counts, whichever arrives first."""

    def window(n: int, source: Source, first: float) -> PeerWindow:
        values = (first, 2e12, 2e12, 2e12, SPEED, SPEED, SPEED, SPEED)
        metrics = (Metric.TX_BYTES, Metric.SPEED_BPS)
        begin = at(60 * n)
        return PeerWindow(
            LEAF,
            source,
            PeerGroup.SWITCH_UPLINKS,
            begin,
            begin + 60 * 10**9,
            begin,
            begin + 60 * 10**9,
            UPLINKS,
            metrics,
            values,
        )

    params, emitted = DetectParams(), []
    rows = [window(n, source, 2.9e12 if source is Source.SOURCE_GNMI else 2e12) for n in range(6)
            for source in (Source.SOURCE_GNMI, Source.SOURCE_SNMP)]  # fmt: skip
    for order in (rows, rows[::-1]):
        own: ImbalanceState = Marks(Subject(f"device:{LEAF}", Endpoint(LEAF)))
        for row in order:
            own = with_mark(own, mark_of(params.imbalance, row))
        context = Context(DETECTOR.ledger(params.shared, at(600)), topology(), SharedEvidence(), {})
        _, episodes_, due = evaluate(params.imbalance, LEAF, own, context)
        emitted.append((episodes_, due))
    assert emitted[0] == emitted[1]
    assert len(emitted[0][0]) == 1
    assert emitted[0][1] == at(990), "ten minutes after the last bad window, and the lateness"


def test_it_is_over_though_an_uplink_is_down_ever_since() -> None:
    """No window can be compared any more, and none was bad for ten minutes: it closes by itself."""
    (found,) = published(Case((0.9, 0.6, 0.6, 0.6), down={"u3": (840, 7200)}), last_s=3600)
    assert (found.status, found.final) == (Status.RESOLVED, True)
    assert found.resolved_at_ns is not None
    assert after(found.resolved_at_ns) == pytest.approx(840, abs=60)


def test_a_switch_that_is_uneven_once_more_is_another_finding() -> None:
    """An hour later, and none of the windows between them could be compared."""
    uneven = Case((0.9, 0.6, 0.6, 0.6), down={"u3": (840, 4500)}, again=4800)
    assert len(published(uneven, last_s=5400)) == 2
