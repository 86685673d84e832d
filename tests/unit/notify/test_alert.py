"""Tests a finding's alert: labels, annotations, times."""

import json
from dataclasses import replace
from typing import Any

import pytest
import yaml
from jsonschema import Draft4Validator, FormatChecker

from dashboards.links import FINDING
from streams.notify.alert import (
    DASHBOARD_UID,
    Alert,
    allowed_link,
    build_alert,
    build_annotations,
    explained_alert,
    first_steps,
    location_labels,
    page_alert,
)
from streams.wire.models import (
    UPLINKS,
    BlastRadius,
    Cause,
    Condition,
    Coverage,
    Endpoint,
    Evidence,
    Finding,
    Severity,
    Status,
    Subject,
)
from tests.fixtures.notify_examples import LINK, T0, S, finding, params
from tests.recordings import DATA

OPENAPI = DATA / "interop/alertmanager-api-v2-openapi.yaml"
NOW = T0 + 40 * S


def alert(of: Finding, *, now_ns: int = NOW, **settings: Any) -> Alert:
    return build_alert(of, location_labels(of), now_ns=now_ns, params=params(**settings))


def test_labels_identify_condition_location_and_routing() -> None:
    """The labels are exactly these, so that routes and silences can use them."""
    assert alert(finding(), cluster="ams-1").labels == {
        "alertname": "LinkDown",
        "kind": "finding",
        "source": "railsight",
        "cluster": "ams-1",
        "condition": "link/down",
        "subject": LINK,
        "role": "host-link",
        "team": "fabric",
        "pod": "pod-1",
        "rail": "4",
        "plane": "0",
        "job": "llama-7",
        "finding_id": "f1",
    }


def test_site_and_several_jobs_are_labels() -> None:
    """A route selects one of several jobs by a regular expression; the label has at most five."""
    radius = BlastRadius(jobs=tuple(f"j{i}" for i in range(7)))
    labels = location_labels(finding(subject=Subject("device:leaf-2", site="ams"), blast_radius=radius))
    assert labels == {"subject": "device:leaf-2", "site": "ams", "job": "j0,j1,j2,j3,j4"}


def test_a_page_and_a_mark_are_alerts_of_their_own() -> None:
    """Both have the finding's id; neither can have the identity of the finding's alert."""
    one = alert(finding(), cluster="ams-1")
    assert page_alert(one, T0).labels == {**one.labels, "kind": "page", "severity": "critical", "page": "true"}
    assert explained_alert(one).labels == {
        "alertname": "FindingExplained",
        "kind": "explained",
        "source": "railsight",
        "cluster": "ams-1",
        "finding_id": "f1",
    }


def test_fields_that_change_in_an_episode_are_not_labels() -> None:
    """A revision with more evidence, another summary and a later time is the same alert to Alertmanager."""
    later = finding(
        revision=7,
        status=Status.UPDATED,
        summary="another summary",
        cause=Cause.OPTIC,
        confidence=0.2,
        severity=Severity.WARNING,
        parent_id="p1",
        observed_at_ns=T0 + 500 * S,
        evidence=(Evidence("more"),),
        detector_version="2",
        occurrences=4,
        inventory_digest="d",
        settings_digest="e",
    )
    assert alert(later, now_ns=NOW + S).identity == alert(finding()).identity


@pytest.mark.parametrize(
    ("subject", "labels"),
    [
        (Subject("device:leaf-2"), {"subject": "device:leaf-2"}),
        (Subject("rail:h/0", rail=0, plane=0), {"subject": "rail:h/0", "rail": "0", "plane": "0"}),
    ],
)
def test_a_location_has_no_empty_labels(subject: Subject, labels: dict[str, str]) -> None:
    """Alertmanager drops empty labels, so an alert with them could not be found by its labels; 0 is a value."""
    assert location_labels(finding(subject=subject, blast_radius=None)) == labels


def test_annotations_have_summary_evidence_and_blast_radius() -> None:
    """The alert itself has what on-call needs."""
    annotations = build_annotations(finding(), params())
    assert annotations == {
        "summary": "host-1 rail 4 has no link",
        "severity": "critical",
        "started_at": "2027-01-15T08:00:00.000Z",
        "cause": "cable",
        "evidence": "- host-1/eth4 lost carrier\n- leaf-2/Ethernet1/1 is down as well",
        "blast_radius": "jobs llama-7; hosts host-1; 8 GPUs; 12% of their capacity lost",
        "confidence": "0.90",
        "explain": "railsight explain f1",
        "what_to_do": first_steps("link/down"),
        "page": PAGE,
    }


PAGE = """\
CRITICAL: host-1 rail 4 has no link
Where: host-1 eth4 to leaf-2 Ethernet1/1, rail 4, plane 0, pod-1
Hit: jobs llama-7; hosts host-1; 8 GPUs; 12% of their capacity lost
Since: 2027-01-15 08:00:00Z
Cause: cable
First: A host has lost a rail. Inform the owners of its jobs, and move them or cordon the host.
Acknowledge: railsight ack f1
More: railsight explain f1"""
GRAFANA, RUNBOOKS = "https://grafana.example", "https://docs.example/runbooks"


@pytest.mark.parametrize(
    ("changes", "no_page", "first", "has_step"),
    [
        ({}, "", "CRITICAL: host-1 rail 4 has no link", True),
        ({}, "acknowledged by anna", "NO PAGE ANY MORE, acknowledged by anna: host-1 rail 4 has no link", False),
        (
            {"resolved_at_ns": T0 + 90 * S, "status": Status.RESOLVED},
            "",
            "OVER after 1m30s: host-1 rail 4 had no link",
            False,
        ),
        ({"status": Status.RETRACTED}, "", "RETRACTED, it was no fault: host-1 rail 4 has no link", False),
    ],
)
def test_a_page_begins_with_its_state_and_ends_with_its_links(
    changes: dict[str, Any], no_page: str, first: str, has_step: bool
) -> None:
    """A fault that is over, or needs no page any more, has no step."""
    found = finding(**changes)
    found = replace(found, subject=replace(found.subject, location="host-1 in rack A12, label PP3/12"))
    made = build_annotations(found, params(dashboard_url=GRAFANA, runbooks_url=RUNBOOKS), no_page)["page"]
    assert made.startswith(first) and "plane 0, pod-1, host-1 in rack A12, label PP3/12\n" in made
    assert ("\nFirst: " in made, "\nAcknowledge: " in made) == (has_step, has_step)
    assert [line.partition(": ")[0] for line in made.splitlines()[-3:]] == ["More", "Board", "Runbook"]


def test_a_page_has_its_cause_in_words() -> None:
    """The name of a cause in topics and tables is not one for a phone."""
    made = build_annotations(replace(finding(), cause=Cause.GPU_OFF_BUS), params())
    assert "\nCause: gpu off bus\n" in made["page"] and made["cause"] == "gpu_off_bus"


@pytest.mark.parametrize(
    ("condition", "cause", "expected"),
    [
        (Condition.TELEMETRY_STALE, Cause.COLLECTOR, "Restart it"),
        (Condition.TELEMETRY_STALE, Cause.PATH, "path, login refused"),
        (Condition.TELEMETRY_STALE, Cause.UNKNOWN, "collector: "),
        (Condition.HOST_GPU_FAULT, Cause.GPU_OFF_BUS, "Xid 79: cordon the host"),
        (Condition.HOST_GPU_FAULT, Cause.GPU_MEMORY, "Uncorrectable (48"),
        (Condition.HOST_GPU_FAULT, Cause.NVLINK, "Xid 74"),
        (Condition.LINK_MISCABLED, Cause.WRONG_RAIL, "wrong_plane, wrong_rail: the cable"),
        (Condition.FLEET_VERSION_DRIFT, Cause.VERSION_ROLLOUT, "No action"),
        (Condition.DEVICE_DOWN, Cause.REBOOT, "It runs again"),
        (Condition.RAIL_DEGRADED, Cause.HOST, "host, or pcie of a whole host: the network is not at fault"),
    ],
)
def test_the_first_step_is_the_one_of_the_cause(condition: Condition, cause: Cause, expected: str) -> None:
    """A runbook has a step for a cause, or one for several, else its first step counts."""
    found = finding(condition=condition, cause=cause)
    assert f"\nFirst: {expected}" in build_annotations(found, params())["page"]


UPLINK = finding(
    subject=Subject("link:l/u0--s/d0", Endpoint("l", "u0"), Endpoint("s", "d0"), "fabric-link"), cause=Cause.UNKNOWN
)
LOST = Evidence("2 of the 4 uplinks of l are down", UPLINKS)


def test_a_page_states_the_lost_uplinks_that_its_newest_finding_has() -> None:
    """The newest of the findings on a page counts; a fault without such evidence, or none, has no line."""
    worse = replace(LOST, statement="3 of the 4 uplinks of l are down")
    first = replace(UPLINK, revision=3, evidence=(*UPLINK.evidence, LOST))
    third = replace(UPLINK, id="f3", revision=4, evidence=(worse,))
    assert "\nPaths: 2 of the 4 uplinks of l are down\n" in build_annotations(first, params())["page"]
    both = build_annotations(first, params(), others=[third])["page"]
    assert both.count("Paths: ") == 1 and "\nPaths: 3 of the 4 uplinks of l are down\n" in both
    for one in (UPLINK, replace(first, status=Status.RETRACTED)):
        assert "Paths: " not in build_annotations(one, params())["page"]


def test_links_to_runbook_dashboard_and_finding() -> None:
    """With URLs configured, the alert links to the condition's runbook, the finding's dashboard and the JSON."""
    settings: dict[str, Any] = {
        "dashboard_url": "https://grafana.example/",
        "runbooks_url": "https://docs.example/runbooks",
        "finding_url": "https://api.example/findings/{id}",
    }
    made = alert(finding(), **settings)
    assert made.annotations["runbook_url"] == "https://docs.example/runbooks/link-down.md"
    assert made.annotations["dashboard_url"] == (
        f"https://grafana.example/d/railsight-finding?var-finding=f1&from={(T0 - 600 * S) // 1_000_000}&to=now"
    )
    assert made.generator_url == made.annotations["finding_url"] == "https://api.example/findings/f1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<!channel> down", "\u2039!channel> down"),
        ("<https://evil.example|open the runbook>", "\u2039https: //evil.example|open the runbook>"),
        ("[runbook](https://evil.example)", "[runbook] (https: //evil.example)"),
        ("<img src=x onerror=y>", "\u2039img src=x onerror=y>"),
        ("@here look", "\uff20here look"),
        ("BER 3e-5 < 1e-4, et-0/0/1 <-> e1", "BER 3e-5 < 1e-4, et-0/0/1 <-> e1"),
    ],
)
def test_text_of_devices_is_no_markup(text: str, expected: str) -> None:
    """Summary, evidence and labels have neither links nor mentions nor tags of a device."""
    made = alert(finding(summary=text, evidence=(Evidence(text),), subject=Subject(text, pod=text)))
    assert made.annotations["summary"] == expected
    assert made.annotations["evidence"] == f"- {expected}"
    assert made.labels["subject"] == made.labels["pod"] == expected


@pytest.mark.parametrize(
    ("link", "is_allowed"),
    [
        ("https://docs.example/run", True),
        ("https://docs.example/run/link-down.md?a=1#b", True),
        ("https://docs.example:443/run/x", True),
        ("https://DOCS.example/run/x", True),
        ("https://docs.example/runner", False),
        ("https://docs.example/", False),
        ("http://docs.example/run/x", False),
        ("https://docs.example:8443/run/x", False),
        ("https://docs.example.evil.example/run/x", False),
        ("https://docs.example@evil.example/run/x", False),
        ("https://docs.example/run/../admin", False),
        ("https://docs.example/run/%2e%2E/admin", False),
        ("https://docs.example/run/..%2fadmin", False),
        ("https://docs.example\\@evil.example/run/x", False),
        ("https://docs.example/run/x y", False),
        ("https://docs.example/run/x\nhttps://evil.example", False),
        ("https://docs.example:99999/run/x", False),
        ("//docs.example/run/x", False),
        ("javascript://docs.example/run/x", False),
        ("", False),
    ],
)
def test_a_link_is_allowed_below_a_prefix_only(link: str, is_allowed: bool) -> None:
    """Scheme, host, port and path are compared, not characters."""
    assert allowed_link(link, params(link_prefixes=["https://docs.example/run/"])) == (link if is_allowed else "")


@pytest.mark.parametrize(
    ("runbook", "dashboard", "base", "expected"),
    [
        ("docs/runbooks/link-down.md", "", "https://y/runbooks/", ("https://y/runbooks/link-down.md", None)),
        ("docs/runbooks/link-down.md", "", "", (None, None)),
        ("https://x/a", "https://x/b", "https://y", ("https://x/a", "https://x/b")),
        ("https://evil.example/a", "javascript:alert(1)", "https://y", ("https://y/link-down.md", None)),
    ],
    ids=["page of the repository", "no base URL", "below an allowed prefix", "not allowed"],
)
def test_links_of_the_finding_reach_a_person_only_below_a_configured_url(
    runbook: str, dashboard: str, base: str, expected: tuple[str | None, str | None]
) -> None:
    """An allowed link overrides the base URL; the alert links to the served page of the repository's runbook."""
    annotations = build_annotations(
        finding(runbook_url=runbook, dashboard_url=dashboard), params(runbooks_url=base, link_prefixes=["https://x/"])
    )
    assert (annotations.get("runbook_url"), annotations.get("dashboard_url")) == expected
    assert ("what_to_do" in annotations) == (expected[0] is None)


def test_without_a_link_an_alert_has_the_steps_of_its_runbook() -> None:
    """A person with a phone reads what to do first for every condition."""
    for condition in Condition:
        if condition is not Condition.CONDITION_UNSPECIFIED:
            steps = build_annotations(finding(condition=condition), params())["what_to_do"]
            assert steps.startswith("1. ") and "## " not in steps, condition


def test_long_evidence_is_truncated_with_a_count() -> None:
    """The alert has the first lines and the number of the others."""
    many = tuple(Evidence(f"statement {i}") for i in range(12))
    lines = build_annotations(finding(evidence=many), params(evidence_lines=3))["evidence"].splitlines()
    assert lines == ["- statement 0", "- statement 1", "- statement 2", "- and 9 more"]


def test_missing_sources_are_annotated() -> None:
    """Missing sources are in the alert, because they lower the confidence."""
    assert build_annotations(finding(coverage=Coverage(1, 2, ("leaf-2/gnmi",))), params())["unseen"] == "leaf-2/gnmi"


@pytest.mark.parametrize(("started_ns", "expected_ns"), [(T0, T0), (NOW + 5 * S, NOW)])
def test_a_page_never_starts_in_the_future(started_ns: int, expected_ns: int) -> None:
    """A device's clock ahead of ours must not give an alert that Alertmanager refuses."""
    made = page_alert(alert(finding(started_at_ns=started_ns)), started_ns)
    assert made.starts_at_ns == expected_ns
    assert made.ends_at_ns == NOW + 7200 * S


def test_an_alert_starts_when_it_is_posted() -> None:
    """Alertmanager would not wait for `group_wait` with an alert that is older, and its mark would be too late."""
    assert alert(finding()).starts_at_ns == NOW


def test_an_end_before_the_first_post_moves_the_start() -> None:
    """The end has the event time, and Alertmanager accepts it."""
    ended = alert(finding()).ended(T0 - S)
    assert (ended.starts_at_ns, ended.ends_at_ns) == (T0 - S, T0 - S)


def test_the_linked_dashboard_exists() -> None:
    """The uid in the links is that of the dashboard."""
    assert DASHBOARD_UID == FINDING


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
