"""Tests of the outcome of a simulated day: from when on a fault could be detected, also if the score merges two."""

from collections import Counter
from dataclasses import replace

import pytest

from lab.bench.detection.hidden_faults import HiddenFault
from lab.bench.detection.outcome import CriticalFinding, Outcome, TrialSpec
from lab.bench.detection.render import lines
from lab.bench.detection.results import shares_of
from lab.world.delivery_model import Cadence
from lab.world.ground_truth import GroundTruth, InjectedFault
from streams.fabric.ids import Port
from streams.replay.score import Match, Score, ScoredFinding, Truth
from streams.wire.models import Condition, Endpoint, Finding, Severity, Status, Subject

S = 10**9


def fault(start_s: int, end_s: int, known_s: int) -> InjectedFault:
    """Return a slow rail of one host."""
    truth = Truth(start_s * S, end_s * S, Condition.RAIL_DEGRADED, "host-1", "mlx5_0", 60.0)
    return InjectedFault((GroundTruth(truth, known_s * S),), (), "slow")


def test_merged_faults_are_detectable_with_the_first() -> None:
    """The score merges consecutive faults of one place; the merged truth begins with the first."""
    first, second = fault(1000, 1100, 1010), fault(1130, 1200, 1140)
    joined = Truth(1000 * S, 1200 * S, Condition.RAIL_DEGRADED, "host-1", "mlx5_0", 60.0)
    seen = ScoredFinding(
        Condition.RAIL_DEGRADED, "port:host-1/mlx5_0", frozenset({Port("host-1", "mlx5_0")}), 1000 * S, None, 1015 * S,
        excused=False,
    )  # fmt: skip
    score = Score((Match(joined, seen),), (), ())
    outcome = Outcome(TrialSpec(), [second, first], score, {}, {}, {}, {}, Counter(), 1.0)
    assert outcome.delays_s(Condition.RAIL_DEGRADED) == [5.0]


def test_a_fault_at_several_devices_is_at_the_device_of_its_finding() -> None:
    """A finding at another device changes nothing."""
    truth = Truth(1000 * S, 2000 * S, Condition.FLEET_VERSION_DRIFT, "leaf-1", "", 180.0)
    known = GroundTruth(truth, 1010 * S, devices=("leaf-1", "leaf-2"))
    there, elsewhere = (
        Finding(
            "f", 1, final=False, condition=Condition.FLEET_VERSION_DRIFT, severity=Severity.INFO, status=Status.OPEN,
            subject=Subject("cohort:os", Endpoint(device)), started_at_ns=1020 * S, observed_at_ns=1030 * S,
            detector="fleet/version-drift", detector_version="1", summary="",
        )
        for device in ("leaf-2", "leaf-3")
    )  # fmt: skip
    assert known.at_reported_device([elsewhere, there]).truth.device == "leaf-2"
    assert known.at_reported_device([elsewhere]) == known


def test_tolerances_follow_the_cadence_of_the_source_that_dates_a_fault() -> None:
    """Read every 60 s, a host's agent polls every 180 s: its last poll may be that long before it ends."""
    truth = Truth(1000 * S, 2000 * S, Condition.TELEMETRY_STALE, "host-1", "", 40.0)
    known = GroundTruth(truth, 1030 * S), GroundTruth(truth, 1030 * S, by_agent=True)
    stale = InjectedFault(known, (), "no agent")
    for cadence, expected in ((Cadence(), [40.0, 40.0]), (Cadence(60.0, 60.0), [90.0, 190.0])):
        tolerant = TrialSpec(cadence=cadence).with_tolerances(stale)
        assert [own.tolerance_s for own in tolerant.truths] == expected


def test_a_page_for_a_port_that_was_shut_unread_is_counted_apart() -> None:
    """It is no fault, and NICs alone cannot distinguish it from one: its page is neither false nor for a fault."""
    finding = Finding(
        "f", 1, final=False, condition=Condition.LINK_DOWN, severity=Severity.CRITICAL, status=Status.OPEN,
        subject=Subject("link:x", Endpoint("host-1", "mlx5_0"), Endpoint("leaf-1", "d1")), started_at_ns=1000 * S,
        observed_at_ns=1030 * S, detector="link/down", detector_version="1", summary="", confidence=0.6,
    )  # fmt: skip
    shut = HiddenFault(Truth(1000 * S, 1300 * S, Condition.LINK_DOWN, "leaf-1", "d1", 20.0), frozenset())
    spec, score = TrialSpec(), Score((), (), ())
    for shut_ports, expected in ([shut], ([], ["f"])), ([], (["f"], [])):
        pages = {"f": 1045 * S}
        outcome = Outcome(spec, [], score, {"f": finding}, {}, pages, {}, Counter(), 1.0, shut_ports=shut_ports)
        assert (outcome.false_pages, outcome.shut_pages) == expected
        assert [(share.confidence, share.findings, share.true) for share in shares_of(outcome)] == [(0.6, 1, 0)]


def test_a_page_for_a_silence_that_a_fault_explains_is_not_false() -> None:
    """The last sample of a source that is read seldom is older than the fault; detection is later than it."""
    restart = Truth(1200 * S, 1600 * S, Condition.DEVICE_DOWN, "host-1", "", 90.0)
    injected = [InjectedFault((GroundTruth(restart, 1200 * S),), (), "restart")]
    silence = Finding(
        "f", 1, final=False, condition=Condition.TELEMETRY_STALE, severity=Severity.CRITICAL, status=Status.OPEN,
        subject=Subject("device:host-1", Endpoint("host-1")), started_at_ns=1000 * S, detected_at_ns=1540 * S,
        observed_at_ns=1540 * S, detector="telemetry/stale", detector_version="1", summary="",
    )  # fmt: skip
    before = replace(silence, detected_at_ns=1100 * S)
    other = replace(silence, condition=Condition.LINK_DOWN)
    for finding, expected in ((silence, []), (before, ["f"]), (other, ["f"])):
        outcome = Outcome(
            TrialSpec(), injected, Score((), (), ()), {"f": finding}, {}, {"f": 1600 * S}, {}, Counter(), 1.0
        )
        assert outcome.false_pages == expected


def at(identity: str, condition: Condition, device: str, parent: str = "", start_s: int = 1210) -> Finding:
    return Finding(
        identity, 1, final=False, condition=condition, severity=Severity.CRITICAL, status=Status.OPEN,
        subject=Subject(f"device:{device}", Endpoint(device)), started_at_ns=start_s * S, observed_at_ns=start_s * S,
        parent_id=parent, detector=condition.slug, detector_version="1", summary="",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("own", "parents", "paged_s", "is_muted", "parent_paged_s"),
    [
        ("link", {""}, 1300, False, None),
        ("link", {""}, 1316, True, None),
        ("link", {""}, 0, False, None),
        ("link", {"silence"}, 0, True, 1256),
        ("link", {"silence", ""}, 1500, True, None),
        ("link", {"silence", ""}, 1310, False, None),
        ("link", {"invented"}, 0, True, 1256),
        ("link", {"outage"}, 0, False, None),
        ("link", {"silence", "outage"}, 0, False, None),
        ("other silence", {"silence"}, 0, False, 1256),
        ("other silence", {"silence"}, 0, False, 0),
        ("other silence", {"silence"}, 0, True, None),
        ("other silence", {"invented"}, 0, True, 1256),
    ],
)
def test_a_muted_page_is_one_that_no_fault_explains(
    own: str, parents: set[str], paged_s: int, is_muted: bool, parent_paged_s: int | None
) -> None:
    """The page of a fault is missing or late; its hold, and the outage of a device, are reasons for that."""
    faults = [
        InjectedFault((GroundTruth(Truth(1200 * S, 1600 * S, condition, device, "", 90.0), 1200 * S),), (), "fault")
        for condition, device in (
            (Condition.LINK_DOWN, "l1"), (Condition.TELEMETRY_STALE, "l1"), (Condition.TELEMETRY_STALE, "l2"),
            (Condition.DEVICE_DOWN, "l3"),
        )
    ]  # fmt: skip
    findings = [
        at("link", Condition.LINK_DOWN, "l1"), at("other silence", Condition.TELEMETRY_STALE, "l1"),
        at("silence", Condition.TELEMETRY_STALE, "l2"),
        at("outage", Condition.DEVICE_DOWN, "l3"), at("invented", Condition.DEVICE_DOWN, "l4"),
    ]  # fmt: skip
    criticals = {own: CriticalFinding(1240 * S, parents, paged_s * S)}
    if parent_paged_s is not None:
        criticals |= {parent: CriticalFinding(1240 * S, {""}, parent_paged_s * S) for parent in parents}
    outcome = Outcome(
        TrialSpec(), faults, Score((), (), ()), {one.id: one for one in findings}, {}, {}, {}, Counter(), 1.0,
        criticals=criticals,
    )  # fmt: skip
    assert outcome.muted_pages == [own] * is_muted
    assert ("muted pages" in "".join(lines(outcome))) is is_muted
