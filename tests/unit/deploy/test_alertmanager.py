"""Alertmanager's configuration, read by its own tool: receivers by alert."""

from pathlib import Path

import pytest
import yaml

from tests.fixtures.external_programs import output_of, program
from tests.fixtures.notify_examples import finding

CONFIG = Path(__file__).parents[3] / "deploy/alertmanager/alertmanager.yml"

pytestmark = pytest.mark.peer("amtool")


def test_alertmanagers_own_tool_finds_nothing_wrong() -> None:
    """The file is one that Alertmanager starts with."""
    assert "SUCCESS" in output_of(program("amtool"), "check-config", str(CONFIG))


@pytest.mark.parametrize(
    ("labels", "receivers"),
    [
        ({"page": "true", "condition": "link/down", "explained": "false"}, "pager,board"),
        ({"page": "true", "condition": "link/flap", "explained": "false"}, "pager,repair-desk,board"),
        ({"page": "false", "condition": "link/flap", "explained": "false"}, "repair-desk,board"),
        ({"page": "false", "condition": "link/flap", "explained": "true"}, "board"),
        ({"page": "false", "condition": "telemetry/stale", "explained": "false"}, "board"),
    ],
)
def test_each_alert_reaches_who_should_hear_of_it(labels: dict[str, str], receivers: str) -> None:
    """Pages go to the pager, repeat offenders to the repair desk, and all of it to the board."""
    given = [f"{name}={value}" for name, value in labels.items()]
    command = [program("amtool"), "config", "routes", "test", f"--config.file={CONFIG}", *given]
    assert output_of(*command).strip() == receivers


def test_the_board_waits_longer_than_a_page_is_active() -> None:
    """Else it would receive an alert that ends a moment later because it became a page."""
    from streams.notify.params import NotifyParams

    route = yaml.safe_load(CONFIG.read_text())["route"]
    assert float(route["group_wait"].removesuffix("s")) > NotifyParams().hold_s


def test_the_labels_that_routes_ask_for_are_those_of_alerts() -> None:
    """A misspelt label in a matcher would match nothing, for ever."""
    from streams.notify.alert import build_alert, location_labels
    from streams.notify.params import NotifyParams

    one = finding()
    known = build_alert(
        one, location_labels(one), page=True, now_ns=one.observed_at_ns, params=NotifyParams(cluster="x")
    ).labels
    config = yaml.safe_load(CONFIG.read_text())
    routes = [config["route"], *config["route"]["routes"]]
    matchers = [matcher for route in routes for matcher in route.get("matchers", [])]
    matchers += [m for rule in config["inhibit_rules"] for m in rule["source_matchers"] + rule["target_matchers"]]
    asked = {matcher.split("=")[0] for matcher in matchers}
    asked |= {label for route in routes for label in route.get("group_by", [])}
    asked |= {label for rule in config["inhibit_rules"] for label in rule["equal"]}
    assert asked <= set(known)
    assert {"page", "condition", "cause_id", "explained"} <= asked
