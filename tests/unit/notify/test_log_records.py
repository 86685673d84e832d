"""A revision of a finding or remediation becomes one log record with OpenTelemetry's names."""

from typing import Any

import pytest

from streams.notify.log_records import log_row
from streams.wire.models import Action, Finding, Remediation, RemediationState, Severity, Verdict
from streams.wire.otlp_messages import encode_logs
from streams.wire.v1 import otlp_pb2
from tests.fakes.otlp_receiver import attributes
from tests.fixtures.notify_examples import LINK, T0, S, finding, remediation, resolved

ARRIVED = T0 + 31 * S


def sent(message: Finding | Remediation) -> Any:
    """Return the record as a receiver reads it."""
    request = otlp_pb2.ExportLogsServiceRequest.FromString(encode_logs({}, [log_row(message, ARRIVED)]))
    (record,) = request.resource_logs[0].scope_logs[0].log_records
    return record


def test_a_finding_has_its_identity_place_and_times() -> None:
    """The time is that of the newest evidence; absent values are left out."""
    record = sent(finding(revision=5))
    assert (record.event_name, record.body.string_value) == ("railsight.finding", "host-1 rail 4 has no link")
    assert (record.time_unix_nano, record.observed_time_unix_nano) == (T0 + 30 * S, ARRIVED)
    assert attributes(record) == {
        "log.record.uid": "f1/5",
        "railsight.id": "f1",
        "railsight.revision": 5,
        "railsight.class": "link/down",
        "railsight.state": "open",
        "hw.type": "network",
        "hw.id": LINK,
        "host.name": "host-1",
        "network.interface.name": "eth4",
        "railsight.peer.host.name": "leaf-2",
        "railsight.peer.network.interface.name": "Ethernet1/1",
        "railsight.role": "host-link",
        "railsight.rail": 4,
        "railsight.plane": 0,
        "railsight.pod": "pod-1",
        "railsight.team": "fabric",
        "railsight.cause": "cable",
        "railsight.confidence": 0.9,
        "railsight.final": False,
        "railsight.started_at_unix_nano": T0,
        "railsight.evidence": ["host-1/eth4 lost carrier", "leaf-2/Ethernet1/1 is down as well"],
        "railsight.affected.hosts": ["host-1"],
        "railsight.affected.jobs": ["llama-7"],
        "railsight.affected.gpus": 8,
        "railsight.affected.capacity_lost_ratio": 0.125,
    }


def test_a_remediation_has_its_state_and_an_old_one_its_verdict() -> None:
    """Without a time of the decision, the time is the arrival."""
    new = sent(remediation(state=RemediationState.ESCALATED, decided_at_ns=T0, action=Action.REPAIR_LINK))
    old = sent(remediation(verdict=Verdict.DENIED))
    assert [(one.event_name, one.body.string_value, one.time_unix_nano) for one in (new, old)] == [
        ("railsight.remediation", f"repair_link of {LINK}: escalated", T0),
        ("railsight.remediation", f"drain_link of {LINK}: denied", ARRIVED),
    ]
    found = attributes(new)
    names = ("log.record.uid", "railsight.class", "railsight.state", "railsight.finding_ids", "railsight.verdict")
    assert [found[name] for name in names] == ["r1/1", "repair_link", "escalated", ["f1"], "approved"]
    assert "railsight.attempt" not in found


@pytest.mark.parametrize(
    ("message", "severity"),
    [
        (finding(severity=Severity.INFO), (9, "INFO")),
        (finding(severity=Severity.WARNING), (13, "WARN")),
        (finding(severity=Severity.CRITICAL), (21, "FATAL")),
        (resolved(severity=Severity.CRITICAL), (21, "FATAL")),
        (remediation(state=RemediationState.APPROVED), (9, "INFO")),
        (remediation(state=RemediationState.WAITING), (13, "WARN")),
    ],
)
def test_the_severity_is_a_number_of_opentelemetry(message: Finding | Remediation, severity: tuple[int, str]) -> None:
    record = sent(message)
    assert (record.severity_number, record.severity_text) == severity


def test_the_end_of_a_finding_is_dated_by_its_end() -> None:
    record = sent(resolved())
    assert record.time_unix_nano == T0 + 90 * S and attributes(record)["railsight.state"] == "resolved"
