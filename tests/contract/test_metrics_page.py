"""docs/metrics.md has every metric as it is exposed, and alert rules refer to nothing else."""

import re
from typing import get_args

import pytest
import yaml
from railsight_automation.status import Status

from collectors.core import metrics as collector_metrics
from streams.instrument import metrics
from tests.contract.metrics_page import PAGE, ROOT

NAMES = {found[1]: found[2] for found in re.finditer(r"^\| `(\w+)` \| (\w+) \|", PAGE.read_text(), re.MULTILINE)}
"""Every metric of the page, with its type."""
_AUTOMATION = Status(lambda: 0.0).registry.collect()
KINDS = NAMES | {f"{one.name}_total" if one.type == "counter" else one.name: one.type for one in _AUTOMATION}
"""Those of the page and of the automation."""

FUNCTIONS_OF_COUNTERS = re.compile(r"\b(?:rate|irate|increase)\((railsight_\w+)")
GROUPS = yaml.safe_load((ROOT / "deploy/prometheus/rules.yml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]


def test_every_metric_has_a_unit_a_label_and_a_help_text() -> None:
    """And a unit in the name is the unit of the page."""
    named = {*get_args(metrics.Counter), *get_args(metrics.Gauge)}
    assert set(metrics.UNIT) == set(metrics.HELP) == named
    of_collectors = {*get_args(collector_metrics.Name), *get_args(collector_metrics.Gauge)}
    assert set(collector_metrics.MEANINGS) == of_collectors
    for name, unit in metrics.UNIT.items():
        for base in ("seconds", "bytes", "records"):
            assert not name.removesuffix("_total").endswith(f"_{base}") or unit == base, name


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_an_alert_refers_to_metrics_of_the_page(rule: dict[str, str]) -> None:
    """`up` is Prometheus's own, and the automation has a page of its own; a rate is taken of counters only."""
    asked = set(re.findall(r"\brailsight_\w+", rule["expr"]))
    assert asked <= KINDS.keys() and (asked or "up{" in rule["expr"])
    assert all(KINDS[name] == "counter" for name in FUNCTIONS_OF_COUNTERS.findall(rule["expr"]))
