"""Tests `railsight bench detection` on a small fabric: all faults of every condition are found, none is invented."""

import json

import pytest

from lab.world.faults import FAULT_OF
from tests.e2e.processes import once

pytestmark = pytest.mark.timeout(180)
EACH = 3


def test_faults_of_every_condition_are_found_and_nothing_is_invented() -> None:
    """With late, duplicate and skewed messages, and negative cases."""
    command = ("bench", "detection", "--gpus", "256", "--each", str(EACH), "--seed", "104", "--json")
    ended = once(*command, timeout_s=150)
    result = json.loads(ended.stdout)
    assert result["conditions"].keys() == FAULT_OF.keys()
    assert (result["missed"], result["invented"]) == ([], [])
    for row in result["conditions"].values():
        assert row["injected"] >= EACH
        assert (row["recall"], row["precision"]) == (1.0, 1.0)
    assert result["pages"] > 0
    assert result["false_pages"] == []
    assert result["counts"]["late"] > 100
    assert result["counts"]["duplicates"] > 100
    assert sum(result["negative_cases"].values()) > 0


def test_a_condition_that_no_one_makes_is_refused() -> None:
    """The error lists the existing ones."""
    ended = once("bench", "detection", "--only", "link/lost")
    assert ended.returncode == 2
    assert "link/flap" in ended.stderr


def test_a_source_that_no_one_reads_is_refused() -> None:
    """The error lists the existing ones."""
    ended = once("bench", "detection", "--without", "snmp")
    assert ended.returncode == 2
    assert "gnmi" in ended.stderr
