"""Alertmanager's configurations, read by its own tool: receivers by alert."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from streams.notify.alert import build_alert, explained_alert, location_labels, page_alert
from streams.notify.params import NotifyParams
from streams.notify.remediation_alerts import RemediationAlerts
from streams.notify.watchdog import Watchdog
from streams.wire.models import Progress, RemediationState, Subject
from tests.fixtures.external_programs import output_of, program
from tests.fixtures.notify_examples import finding, remediation

FOLDER = Path(__file__).parents[3] / "deploy/alertmanager"
CONFIGS = (FOLDER / "alertmanager.yml", FOLDER / "receivers-example.yml")

pytestmark = pytest.mark.peer("amtool")


def read(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text()))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_alertmanagers_own_tool_finds_nothing_wrong(config: Path) -> None:
    """The file is one that Alertmanager starts with."""
    assert "SUCCESS" in output_of(program("amtool"), "check-config", str(config))


def test_the_example_has_the_shipped_routes_and_a_use_for_each_receiver() -> None:
    """The example differs in its receivers only: e-mail, Slack, PagerDuty and webhooks, with secrets in files."""
    shipped, example = map(read, CONFIGS)
    assert (shipped["route"], shipped["inhibit_rules"]) == (example["route"], example["inhibit_rules"])
    names = [receiver["name"] for receiver in shipped["receivers"]]
    assert names == [receiver["name"] for receiver in example["receivers"]]
    assert [receiver["name"] for receiver in example["receivers"] if len(receiver) == 1] == ["none"]
    kinds = {key for receiver in example["receivers"] for key in receiver} - {"name"}
    assert kinds == {"email_configs", "slack_configs", "pagerduty_configs", "webhook_configs"}
    text = CONFIGS[1].read_text()
    assert not [key for key in ("routing_key:", "api_url:", "password:", "credentials:") if f" {key}" in text]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({"kind": "page", "page": "true", "condition": "link/flap"}, "on-call"),
        ({"kind": "finding", "condition": "link/down"}, "digest,noc"),
        ({"kind": "finding", "condition": "link/flap"}, "digest,repair-desk,noc"),
        ({"kind": "finding", "condition": "fleet/version-drift"}, "digest,repair-desk,noc"),
        ({"kind": "explained"}, "none"),
        ({"kind": "watchdog", "alertname": "RailsightWatchdog"}, "watchdog"),
        ({"kind": "remediation", "alertname": "RemediationWaiting", "action": "drain_link"}, "approvals"),
        ({"kind": "remediation", "alertname": "RemediationDenied", "action": "drain_link"}, "noc"),
        ({"kind": "remediation", "alertname": "RemediationUnanswered", "action": "drain_link"}, "noc"),
        ({"kind": "remediation", "alertname": "RemediationFailed", "action": "drain_link"}, "repair-desk,noc"),
        ({"kind": "remediation", "alertname": "RemediationFailed", "action": "cordon_host"}, "noc"),
        (
            {"kind": "remediation", "alertname": "RemediationEscalated", "action": "restore_link", "page": "true"},
            "on-call,repair-desk,noc",
        ),
        ({"alertname": "RailsightWatermarkStill", "page": "true"}, "on-call,noc"),
        ({"alertname": "RailsightRejects"}, "noc"),
    ],
)
def test_each_alert_has_its_receivers(config: Path, labels: dict[str, str], receivers: str) -> None:
    """Pages go to on-call, parts to the repair desk, decisions to who approves, and all causes to the NOC."""
    given = [f"{name}={value}" for name, value in labels.items()]
    command = [program("amtool"), "config", "routes", "test", f"--config.file={config}", *given]
    assert output_of(*command).strip() == receivers


def test_the_noc_waits_longer_than_the_hold() -> None:
    """Else it would receive an alert that is muted a moment later because its finding got a parent."""
    route = read(CONFIGS[0])["route"]
    assert float(route["group_wait"].removesuffix("s")) > NotifyParams().hold_s


def test_ends_are_repeated_for_longer_than_any_group_waits() -> None:
    """Until the next message of its group Alertmanager has an end in memory only, and a kill would lose it."""
    route = read(CONFIGS[0])["route"]
    units = {"s": 1, "m": 60, "h": 3600}
    waits = [one.get("group_interval", route["group_interval"]) for one in (route, *route["routes"])]
    longest_s = max(int(wait[:-1]) * units[wait[-1]] for wait in waits)
    # The last repetition is at four fifths of the time.
    assert longest_s == 3600 < NotifyParams().resolved_s * 4 / 5


def test_the_watchdog_is_repeated_before_the_outside_alarm_and_expires_first() -> None:
    """It is repeated each minute, against the 5 minutes of its receiver."""
    (route,) = (one for one in read(CONFIGS[0])["route"]["routes"] if one["receiver"] == "watchdog")
    assert (route["group_wait"], route["group_interval"], route["repeat_interval"]) == ("0s", "1m", "1m")
    assert NotifyParams().watchdog_s <= 300


def known_labels() -> set[str]:
    """Return the labels of alerts of every kind."""
    params, one = NotifyParams(cluster="x"), finding()
    alert = build_alert(one, location_labels(one), now_ns=one.observed_at_ns, params=params)
    remediations, watchdog = RemediationAlerts(params), Watchdog(params)
    remediations.process(remediation(state=RemediationState.ESCALATED, target=Subject("x", site="ams")), 1)
    for watermark_ns in (1, 2):
        watchdog.process(Progress("attribute", 0, 1, watermark_ns), 1)
    made = [alert, page_alert(alert, 1), explained_alert(alert), remediations.alert("r1", 2), watchdog.alert(2)]
    return {label for one_alert in made if one_alert is not None for label in one_alert.labels}


def test_the_labels_that_routes_ask_for_are_those_of_alerts() -> None:
    """A misspelt label in a matcher would match nothing, for ever."""
    known = known_labels()
    assert {"team", "site", "job", "rail", "plane", "action"} <= known
    config = read(CONFIGS[0])
    routes = [config["route"], *config["route"]["routes"]]
    matchers = [matcher for route in routes for matcher in route.get("matchers", [])]
    matchers += [m for rule in config["inhibit_rules"] for m in rule["source_matchers"] + rule["target_matchers"]]
    asked = {matcher.split("=")[0] for matcher in matchers}
    asked |= {label for route in routes for label in route.get("group_by", [])}
    asked |= {label for rule in config["inhibit_rules"] for label in rule["equal"]}
    assert asked <= known
    assert {"page", "kind", "condition", "finding_id", "action"} <= asked


def test_a_page_and_the_finding_that_it_is_of_are_never_entries_of_one_message() -> None:
    """A page that ends would be a resolved entry beside its firing finding, where one receiver gets both."""
    for config in CONFIGS:
        assert {"finding_id", "kind"} <= set(read(config)["route"]["group_by"])
