"""Selection of what is known against a subject: findings, remediations, controls, maintenance."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from streams.detect.detector import Placement
from streams.fabric.inventory import Device
from streams.locality.impairments import of_controls, of_devices, of_findings, of_remediations
from streams.wire.models import (
    Action,
    BlastRadius,
    Condition,
    Control,
    ControlKind,
    Finding,
    Remediation,
    RemediationState,
    Severity,
    Status,
    Subject,
    Verdict,
)
from tests.worlds.localities import NOW_NS

FINDING = Finding(
    "f1", 1, False, Condition.RAIL_DEGRADED, Status.OPEN, Severity.WARNING, Subject("rail:h/3"), NOW_NS, NOW_NS,
    summary="slow",
)  # fmt: skip
REMEDIATION = Remediation(
    "r1", 1, ("f1",), Action.DRAIN_LINK, Verdict.APPROVED, Subject("link:a/0--b/0"), state=RemediationState.DRAINED
)


def effects(*findings: Finding) -> list[tuple[str, Placement]]:
    """Return the subjects and the effects of findings."""
    return [(each.subject_id, each.effect) for each in of_findings(findings)]


def test_an_open_finding_makes_its_subject_doubtful_or_takes_it_out() -> None:
    """A link that is down carries nothing; a slow rail is doubtful."""
    down = replace(FINDING, condition=Condition.LINK_DOWN, subject=Subject("link:a/0--b/0"))
    assert effects(FINDING, down) == [("rail:h/3", Placement.DOUBTFUL), ("link:a/0--b/0", Placement.OUT)]
    assert str(of_findings([FINDING])[0]) == "rail:h/3: slow (rail/degraded f1)"


@pytest.mark.parametrize(
    "finding",
    [
        replace(FINDING, status=Status.RESOLVED),
        replace(FINDING, status=Status.RETRACTED),
        replace(FINDING, shadow=True),
        replace(FINDING, condition=Condition.CONGESTION_INCAST),
        replace(FINDING, condition=Condition.FLEET_VERSION_DRIFT),
    ],
)
def test_other_findings_have_no_effect(finding: Finding) -> None:
    """Closed ones, those in shadow, and those about traffic or versions."""
    assert effects(finding) == []


def test_a_dead_collector_makes_its_hosts_doubtful() -> None:
    """Nothing is known of them: unknown is not permission."""
    stale = replace(
        FINDING, condition=Condition.TELEMETRY_STALE, subject=Subject("collector:c"), blast_radius=BlastRadius(("h",))
    )
    assert effects(stale) == [("device:h", Placement.DOUBTFUL)]


def test_an_isolated_target_is_out_until_it_is_restored() -> None:
    """From the approval on; proposals, shadows and other actions have no effect."""
    states = {
        state
        for state in RemediationState
        if of_remediations([replace(REMEDIATION, state=state)]) != []
    }  # fmt: skip
    assert {RemediationState.APPROVED, RemediationState.DRAINED, RemediationState.ESCALATED} <= states
    assert states.isdisjoint({RemediationState.PROPOSED, RemediationState.SHADOW, RemediationState.CLOSED})
    assert of_remediations([replace(REMEDIATION, action=Action.OBSERVE)]) == []


def test_maintenance_is_out_while_it_lasts() -> None:
    """By a control, also of the whole fabric, and by the inventory."""
    control = Control("m1", ControlKind.MAINTENANCE, "device:h", NOW_NS - 1, NOW_NS + 1)
    assert [each.subject_id for each in of_controls([control, replace(control, subject_id="")], NOW_NS)] == [
        "device:h", "fabric:",
    ]  # fmt: skip
    assert of_controls([control], NOW_NS + 1) == of_controls([replace(control, kind=ControlKind.EXCLUDE)], NOW_NS) == []
    until = datetime.fromtimestamp(NOW_NS / 1e9, UTC) + timedelta(hours=1)
    device = Device("h", "host", "host", maintenance_until=until)
    assert [each.effect for each in of_devices([device, Device("i", "host", "host")], NOW_NS)] == [Placement.OUT]
    assert of_devices([device], NOW_NS + 2 * 3600 * 10**9) == []
