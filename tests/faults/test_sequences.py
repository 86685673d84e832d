"""Fixed sequences of faults on real processes; `railsight chaos` runs any other (docs/reliability.md)."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lab.chaos.plan import make_plan
from lab.chaos.run import run_chaos
from lab.chaos.stack import ChaosParams

if TYPE_CHECKING:
    from lab.chaos.report import Report

SEQUENCES = {
    "zombie": (27, ("worker-paused", "clickhouse-cutting", "poison")),
    "power-failure": (37, ("power-failure",)),
    "retention": (1, ("records-deleted",)),
}
"""The seed and the faults of each sequence; each fault occurs in it."""


@pytest.mark.timeout(400)
@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_of_faults_breaks_no_promise(name: str, tmp_path: Path) -> None:
    """Nothing acknowledged is lost or stored twice, every finding is right, and the lag is zero again."""
    seed, faults = SEQUENCES[name]
    params = ChaosParams(seed, faults, seconds=5)
    assert {step.fault for step in make_plan(seed, faults, params.seconds)} == set(faults)
    lines: list[str] = []
    reports: list[Report] = []
    assert run_chaos(tmp_path, [params], lines.append, reports.append)
    (report,) = reports
    assert report.is_passed, "\n".join((*lines, *report.lines()))
    assert report.acknowledged > 500
    assert all(one.recovered_after_s is not None for one in report.steps)
