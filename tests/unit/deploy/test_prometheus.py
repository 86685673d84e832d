"""Prometheus's configuration and rules, as its own tool reads and runs them."""

from pathlib import Path

import pytest
import yaml

from tests.fixtures.external_programs import output_of, program

FOLDER = Path(__file__).parents[3] / "deploy/prometheus"


def rules() -> list[dict[str, str]]:
    (group,) = yaml.safe_load((FOLDER / "rules.yml").read_text())["groups"]
    return list(group["rules"])


@pytest.mark.peer("promtool")
def test_prometheus_own_tool_finds_nothing_wrong() -> None:
    """The files are ones that Prometheus starts with."""
    assert "SUCCESS" in output_of(program("promtool"), "check", "config", str(FOLDER / "prometheus.yml"))


@pytest.mark.peer("promtool")
def test_each_rule_fires_on_its_fault_and_on_nothing_else() -> None:
    """Promtool runs rules_test.yml, in which every rule has a case of its own."""
    assert "SUCCESS" in output_of(program("promtool"), "test", "rules", str(FOLDER / "rules_test.yml"))
    tested = (FOLDER / "rules_test.yml").read_text()
    assert [rule["alert"] for rule in rules() if f'"{rule["alert"]}"' not in tested] == []
