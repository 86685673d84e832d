"""A finding's alert: its labels, its words, its times."""

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


def test_labels_say_what_where_and_who_hears_of_it() -> None:
    """The labels are exactly these, so that routes and silences can be written against them."""
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


def test_what_may_change_in_an_episode_changes_no_label() -> None:
    """A revision with more evidence, other words and a later time is the same alert to Alertmanager."""
    later = finding(
        revision=7,
        status=Status.UPDATED,
        summary="other words",
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


def test_a_child_carries_its_cause() -> None:
    """What a parent explains is grouped with it and says so."""
    labels = alert(finding(parent_id="p1"), page=False).labels
    assert (labels["cause_id"], labels["explained"], labels["page"]) == ("p1", "true", "false")


def test_a_place_without_rail_or_pod_has_no_empty_labels() -> None:
    """Alertmanager drops empty labels, so an alert with them would not be found again by its labels."""
    assert location_labels(finding(subject=Subject("device:leaf-2"))) == {"subject": "device:leaf-2"}


def test_rail_0_is_a_rail() -> None:
    """Rail and plane 0 are values, not absences."""
    place = location_labels(finding(subject=Subject("rail:host-1/0", rail=0, plane=0)))
    assert (place["rail"], place["plane"]) == ("0", "0")


def test_the_words_hold_summary_evidence_and_blast_radius() -> None:
    """What a person needs at night is in the alert itself."""
    said = build_annotations(finding(), params())
    assert said == {
        "summary": "host-1 rail 4 has no link",
        "cause": "cable",
        "evidence": "- host-1/eth4 lost carrier\n- leaf-2/Ethernet1/1 is down as well",
        "blast_radius": "jobs llama-7; hosts host-1; 8 GPUs; 12% of their capacity lost",
        "confidence": "0.90",
        "team": "fabric",
        "explain": "railsight explain f1",
    }


def test_links_lead_to_runbook_dashboard_and_finding() -> None:
    """With addresses configured, the alert links to the condition's page, the pod's board and the JSON."""
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


def test_a_finding_with_links_of_its_own_keeps_them() -> None:
    """A detector that knows the better page wins over the configured base."""
    said = build_annotations(finding(runbook_url="https://x/a", dashboard_url="https://x/b"), params(runbooks_url="y"))
    assert (said["runbook_url"], said["dashboard_url"]) == ("https://x/a", "https://x/b")


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("https://docs.example/runbooks/", "https://docs.example/runbooks/link-down.md"),
        ("", "docs/runbooks/link-down.md"),
    ],
)
def test_a_page_of_the_repository_is_linked_where_it_is_served(base: str, expected: str) -> None:
    """Findings name the page in the repository; the pager's link is one that opens."""
    said = build_annotations(finding(runbook_url="docs/runbooks/link-down.md"), params(runbooks_url=base))
    assert said["runbook_url"] == expected


def test_much_evidence_is_cut_and_counted() -> None:
    """A pager shows the first lines and how many are left."""
    many = tuple(Evidence(f"statement {i}") for i in range(12))
    lines = build_annotations(finding(evidence=many), params(evidence_lines=3))["evidence"].splitlines()
    assert lines == ["- statement 0", "- statement 1", "- statement 2", "- and 9 more"]


def test_what_could_not_be_seen_is_said() -> None:
    """Missing sources are in the alert, because a verdict without them is less worth."""
    assert build_annotations(finding(coverage=Coverage(1, 2, ("leaf-2/gnmi",))), params())["unseen"] == "leaf-2/gnmi"


def test_a_retraction_says_that_it_was_not_so() -> None:
    """Who was paged for a retracted finding reads in the resolution that it was none."""
    said = build_annotations(finding(status=Status.RETRACTED), params())
    assert said["summary"] == "Retracted, it was not so: host-1 rail 4 has no link"


@pytest.mark.parametrize(("started_ns", "expected_ns"), [(T0, T0), (NOW + 5 * S, NOW)])
def test_an_alert_never_starts_in_the_future(started_ns: int, expected_ns: int) -> None:
    """A device's clock ahead of ours must not give an alert that Alertmanager refuses."""
    made = alert(finding(started_at_ns=started_ns))
    assert made.starts_at_ns == expected_ns
    assert made.ends_at_ns == NOW + 600 * S


def test_an_end_before_the_beginning_is_put_right() -> None:
    """An episode that resolved at its own start has an end that Alertmanager takes."""
    assert alert(finding()).ended(T0 - S).ends_at_ns == T0


def test_the_dashboard_that_alerts_link_to_exists() -> None:
    """The uid in the links is that of the dashboard."""
    assert DASHBOARD_UID == UID


@pytest.mark.skipif(not OPENAPI.exists(), reason="Alertmanager's API description is not on this machine")
@pytest.mark.parametrize("severity", [Severity.INFO, Severity.CRITICAL])
def test_what_is_posted_fits_the_api(severity: Severity) -> None:
    """The JSON of an open and of an ended alert is valid against Alertmanager's own description."""
    definitions = yaml.safe_load(OPENAPI.read_text())["definitions"]
    schema = {"definitions": definitions, "$ref": "#/definitions/postableAlerts"}
    made = alert(finding(severity=severity), finding_url="https://api.example/findings/{id}")
    posted = json.loads(json.dumps([made.to_api(), made.ended(NOW).to_api()]))
    Draft4Validator(schema, format_checker=FormatChecker()).validate(posted)
    assert set(posted[0]) <= {"startsAt", "endsAt", "annotations", "labels", "generatorURL"}
    assert posted[1]["endsAt"] == "2027-01-15T08:00:40.000Z"
