"""The tests of the Helm chart (deploy/helm/suites), by helm-unittest where `make chart` built it."""

import shutil
from pathlib import Path

import pytest

from deploy.helm import __main__ as chart

pytestmark = pytest.mark.skipif(
    not chart.is_built("helm-unittest"), reason="helm-unittest is not built: run `make chart`, which takes minutes"
)


def test_the_suites_of_the_chart_pass() -> None:
    """Parts that a value switches on, and values that are refused by name."""
    done = chart.run_suites()
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_chart_that_permits_more_is_found(tmp_path: Path) -> None:
    """Without its schema the chart accepts values that the suites expect it to refuse."""
    copy = tmp_path / "helm"
    shutil.copytree(chart.FOLDER, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "railsight/values.schema.json").unlink()
    done = chart.run_suites(copy)
    assert done.returncode != 0 and "names an unknown value" in done.stdout
