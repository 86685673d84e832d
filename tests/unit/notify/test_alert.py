"""Tests a finding's alert: labels, annotations, times."""

import json
from typing import Any

import pytest
import yaml
from jsonschema import Draft4Validator, FormatChecker

from dashboards.fabric import UID
from streams.notify.alert import DASHBOARD_UID, Alert, build_alert, build_annotations, location_labels
from streams.wire.models import Cause, Coverage, Evidence, Finding, Severity, Status, Subject
from tests.fixtures.notify_examples import LINK, T0, S, finding, params
from tests.recordings import DATA

OPENAPI = DATA / "interop/alertmanager-api-v2-openapi.yaml"
NOW = T0 + 40 * S


def alert(of: Finding, *, page: bool = True, now_ns: int = NOW, **settings: Any) -> Alert:
    return build_alert(of, location_labels(of), page=page, now_ns=now_ns, params=params(**settings))


def test_labels_identify_condition_location_and_routing() -> None:
    """The labels are exactly these, so that routes and silences can use them."""
    assert alert(finding(), cluster="ams-1").labels == {
        "alertname": "LinkDown",
        "source": "railsight",
        "cluster": "ams-1",
        "condition": "link/down",
        "severity": "critical",
        "subject": LINK,
        "pod": "pod-1",
        "rail": "4",
        "plane": "0",
        "finding_id": "f1",
        "cause_id": "f1",
        "explained": "false",
        "page": "true",
    }


def test_fields_that_change_in_an_episode_are_not_labels() -> None:
    """A revision with more evidence, another summary and a later time is the same alert to Alertmanager."""
    later = finding(
        revision=7,
        status=Status.UPDATED,
        summary="another summary",
        cause=Cause.OPTIC,
        confidence=0.2,
        observed_at_ns=T0 + 500 * S,
        evidence=(Evidence("more"),),
        detector_version="2",
        occurrences=4,
        inventory_digest="d",
        settings_digest="e",
    )
    assert alert(later, now_ns=NOW + S).identity == alert(finding()).identity


def test_a_child_has_the_id_of_its_parent() -> None:
    """A child is grouped with its parent and labeled as explained."""
    labels = alert(finding(parent_id="p1"), page=False).labels
    assert (labels["cause_id"], labels["explained"], labels["page"]) == ("p1", "true", "false")


def test_a_location_without_rail_or_pod_has_no_empty_labels() -> None:
    """Alertmanager drops empty labels, so an alert with them could not be found by its labels."""
    assert location_labels(finding(subject=Subject("device:leaf-2"))) == {"subject": "device:leaf-2"}


def test_rail_0_is_a_rail() -> None:
    """Rail and plane 0 are values, not absent."""
    labels = location_labels(finding(subject=Subject("rail:host-1/0", rail=0, plane=0)))
    assert (labels["rail"], labels["plane"]) == ("0", "0")


def test_annotations_have_summary_evidence_and_blast_radius() -> None:
    """The alert itself has what on-call needs."""
    annotations = build_annotations(finding(), params())
    assert annotations == {
        "summary": "host-1 rail 4 has no link",
        "cause": "cable",
        "evidence": "- host-1/eth4 lost carrier\n- leaf-2/Ethernet1/1 is down as well",
        "blast_radius": "jobs llama-7; hosts host-1; 8 GPUs; 12% of their capacity lost",
        "confidence": "0.90",
        "team": "fabric",
        "explain": "railsight explain f1",
    }


def test_links_to_runbook_dashboard_and_finding() -> None:
    """With URLs configured, the alert links to the condition's runbook, the pod's dashboard and the JSON."""
    settings: dict[str, Any] = {
        "dashboard_url": "https://grafana.example/",
        "runbooks_url": "https://docs.example/runbooks",
        "finding_url": "https://api.example/findings/{id}",
    }
    made = alert(finding(), **settings)
    assert made.annotations["runbook_url"] == "https://docs.example/runbooks/link-down.md"
    assert made.annotations["dashboard_url"] == (
        f"https://grafana.example/d/railsight-fabric?from={(T0 - 600 * S) // 1_000_000}&to=now&var-pod=pod-1"
    )
    assert made.generator_url == made.annotations["finding_url"] == "https://api.example/findings/f1"


def test_links_of_the_finding_take_precedence() -> None:
    """A link that the detector sets overrides the configured base URL."""
    annotations = build_annotations(
        finding(runbook_url="https://x/a", dashboard_url="https://x/b"), params(runbooks_url="y")
    )
    assert (annotations["runbook_url"], annotations["dashboard_url"]) == ("https://x/a", "https://x/b")


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("https://docs.example/runbooks/", "https://docs.example/runbooks/link-down.md"),
        ("", "docs/runbooks/link-down.md"),
    ],
)
def test_a_runbook_of_the_repository_is_linked_under_the_base_url(base: str, expected: str) -> None:
    """Findings name the page in the repository; the alert links to the served page."""
    annotations = build_annotations(finding(runbook_url="docs/runbooks/link-down.md"), params(runbooks_url=base))
    assert annotations["runbook_url"] == expected


def test_long_evidence_is_truncated_with_a_count() -> None:
    """The alert has the first lines and the number of the others."""
    many = tuple(Evidence(f"statement {i}") for i in range(12))
    lines = build_annotations(finding(evidence=many), params(evidence_lines=3))["evidence"].splitlines()
    assert lines == ["- statement 0", "- statement 1", "- statement 2", "- and 9 more"]


def test_missing_sources_are_annotated() -> None:
    """Missing sources are in the alert, because they lower the confidence."""
    assert build_annotations(finding(coverage=Coverage(1, 2, ("leaf-2/gnmi",))), params())["unseen"] == "leaf-2/gnmi"


def test_a_retraction_is_named_in_the_summary() -> None:
    """The resolution shows the person who was paged that the finding was retracted."""
    annotations = build_annotations(finding(status=Status.RETRACTED), params())
    assert annotations["summary"] == "Retracted: host-1 rail 4 has no link"


@pytest.mark.parametrize(("started_ns", "expected_ns"), [(T0, T0), (NOW + 5 * S, NOW)])
def test_an_alert_never_starts_in_the_future(started_ns: int, expected_ns: int) -> None:
    """A device's clock ahead of ours must not give an alert that Alertmanager refuses."""
    made = alert(finding(started_at_ns=started_ns))
    assert made.starts_at_ns == expected_ns
    assert made.ends_at_ns == NOW + 600 * S


def test_an_end_before_the_start_is_corrected() -> None:
    """An episode that resolved at its start has an end that Alertmanager accepts."""
    assert alert(finding()).ended(T0 - S).ends_at_ns == T0


def test_the_linked_dashboard_exists() -> None:
    """The uid in the links is that of the dashboard."""
    assert DASHBOARD_UID == UID


@pytest.mark.skipif(not OPENAPI.exists(), reason="Alertmanager's API description is not on this machine")
@pytest.mark.parametrize("severity", [Severity.INFO, Severity.CRITICAL])
def test_posted_alerts_match_the_api_schema(severity: Severity) -> None:
    """The JSON of an open and of an ended alert is valid against Alertmanager's API description."""
    definitions = yaml.safe_load(OPENAPI.read_text())["definitions"]
    schema = {"definitions": definitions, "$ref": "#/definitions/postableAlerts"}
    made = alert(finding(severity=severity), finding_url="https://api.example/findings/{id}")
    posted = json.loads(json.dumps([made.to_api(), made.ended(NOW).to_api()]))
    Draft4Validator(schema, format_checker=FormatChecker()).validate(posted)
    assert set(posted[0]) <= {"startsAt", "endsAt", "annotations", "labels", "generatorURL"}
    assert posted[1]["endsAt"] == "2027-01-15T08:00:40.000Z"
