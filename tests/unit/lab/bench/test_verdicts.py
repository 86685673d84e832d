"""Verdicts on a run, and its report as text."""

from dataclasses import replace
from typing import Any

import pytest

from lab.bench.render_report import report_lines
from lab.bench.report import FaultScore, PartCost, StageRate, WorkerKill
from lab.bench.statistics import Spread
from tests.fixtures.bench_reports import LOAD, report


def test_a_run_in_which_all_holds_is_fine() -> None:
    """Every verdict holds."""
    assert report().is_passed
    assert all(verdict.holds for verdict in report().verdicts)


@pytest.mark.parametrize(
    ("other", "statement"),
    [
        ({"load": replace(LOAD, late_max_s=0.6)}, "schedule"),
        ({"load": replace(LOAD, refused=1)}, "schedule"),
        ({"load": replace(LOAD, port_samples_sent=4_800_001)}, "nothing lost"),
        ({"load": replace(LOAD, messages_sent=129_999)}, "nothing lost"),
        ({"load": replace(LOAD, events_sent=41)}, "nothing lost"),
        ({"faults": FaultScore(30, 29, ("link/flap a",), (), (), 0)}, "fault found"),
        ({"faults": FaultScore(30, 30, (), (), ("link/down b",), 0)}, "fault found"),
        ({"faults": FaultScore(30, 30, (), (), (), 1)}, "fault found"),
    ],
)
def test_a_broken_promise_is_named_and_makes_the_run_fail(other: dict[str, Any], statement: str) -> None:
    """Exactly the verdict in question fails, and the command exits with 1."""
    made = report(**other)
    broken = [verdict.statement for verdict in made.verdicts if not verdict.holds]
    assert len(broken) == 1
    assert statement in broken[0]
    assert not made.is_passed


def test_a_fault_that_was_not_read_yet_is_named_and_not_missed() -> None:
    """The run ended while its samples waited, which is a problem of its own."""
    made = report(faults=FaultScore(30, 29, (), ("link/down c",), (), 0))
    (verdict,) = (one for one in made.verdicts if "fault found" in one.statement)
    assert verdict.holds and "29 of 30, 1 not read yet when the run ended" in verdict.statement
    assert "not read yet: link/down c" in list(report_lines(made))


def test_a_lag_that_grows_is_named_and_makes_the_cost_no_cost() -> None:
    """A pipeline that falls behind did not do the work to which its CPU is compared."""
    made = report(stages=(StageRate("measure", 1.0, 1.0, 1.0, 1.0, grows=True),))
    broken = [verdict.statement for verdict in made.verdicts if not verdict.holds]
    assert [word for word in ("that of measure", "had it kept up") if any(word in line for line in broken)] == [
        "that of measure",
        "had it kept up",
    ]
    assert len(broken) == 2
    assert not made.is_passed
    assert any("did not keep up" in line for line in report_lines(made))


@pytest.mark.parametrize(
    ("other", "statement"),
    [
        ({"parts": (PartCost("process", 29.0, 0, 0.0),)}, "CPU s per million"),
        ({"sample_to_row_s": Spread(2_000_000, 0.7, 1.2, 1.9)}, "had it kept up"),
        ({"seconds": 20.0}, "cores used"),
        ({"flap_to_finding_s": Spread(300, 0.1, 0.26, 0.3)}, "p99"),
        ({"flap_to_finding_s": Spread(0)}, "p99 none"),
        ({"flap_to_finding_s": Spread(300, 0.1, 0.15, 0.3), "load": replace(LOAD, port_samples_per_s=7000.0)}, "p99"),
    ],
)
def test_a_missed_target_is_named_but_does_not_fail_a_run(other: dict[str, Any], statement: str) -> None:
    """Targets are made for the largest fabric; a small one on a busy machine need not meet them."""
    made = report(**other)
    missed = [verdict.statement for verdict in made.verdicts if not verdict.holds]
    assert len(missed) == 1
    assert statement in missed[0]
    assert made.is_passed


def test_anything_else_that_went_wrong_makes_the_run_fail() -> None:
    """A part that ended on its own is reported even if all figures are right."""
    made = report(problems=("persist ended by itself",))
    assert not made.is_passed
    assert "problem: persist ended by itself" in list(report_lines(made))


@pytest.mark.parametrize(("owned_s", "holds"), [(12.4, True), (30.5, False), (None, False)])
def test_a_kill_is_judged_by_how_long_partitions_had_no_owner(owned_s: float | None, holds: bool) -> None:
    """The slowest of all kills counts, and one without a takeover is the slowest."""
    made = report(kills=(WorkerKill("process", 10.0, 1.0, 6.0, 9.0), WorkerKill("process", 40.0, 1.0, owned_s, 35.0)))
    (verdict,) = [verdict for verdict in made.verdicts if "2 killed workers" in verdict.statement]
    assert verdict.holds is holds
