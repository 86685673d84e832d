"""The report at the end of a demo, and the conditions under which it passes."""

from pathlib import Path

import pytest

from lab.demo.player import find_recording
from lab.demo.report import build_report
from lab.demo.state import TABLES, TABLES_OF_A_RECORDING, DemoState, count_rows, empty_tables
from streams.replay.score import Score, Truth
from streams.runtime.supervise import PartState
from streams.wire.errors import Misconfigured
from streams.wire.models import Condition
from tests.fixtures.findings import finding

MISSED = Score((), (Truth(0, 1, Condition.LINK_DOWN, "leaf1", "e1"),), ())
PERFECT = Score((), (), ())


@pytest.mark.parametrize(
    ("score", "is_passed", "line"),
    [(PERFECT, True, ""), (MISSED, False, "missed: link/down leaf1/e1"), (None, True, "")],
    ids=["perfect", "missed", "a recording without a truth"],
)
def test_a_report_without_problems_passes_with_a_perfect_score_or_none(
    score: Score | None, is_passed: bool, line: str
) -> None:
    """It names what was missed."""
    report = build_report(DemoState(0.0), score, (), ())
    assert report.is_passed is is_passed
    assert line in "\n".join(report.lines())
    assert (report.as_dict()["score"] is None) is (score is None)


def test_a_problem_is_not_fine_however_good_the_score() -> None:
    """An episode with two ids is wrong although each of them matches."""
    board = DemoState(0.0)
    board.update(finding("a"), 1.0)
    board.update(finding("b"), 1.0)
    report = build_report(board, PERFECT, (), ("no rows in events",))
    assert not report.is_passed
    assert report.as_dict()["fine"] is False
    lines = "\n".join(report.lines())
    assert "problem: no rows in events" in lines
    assert "has the ids a and b" in lines


def test_restarts_are_listed() -> None:
    """A part that was killed is listed with its restarts."""
    parts = (PartState("process", True, 1, 2, "log"), PartState("persist", True, 2, 0, "log"))
    report = build_report(DemoState(0.0), PERFECT, parts, ())
    assert "restarted: process 2×" in list(report.lines())


class Counting:
    """A ClickHouse that has one row in each table it is asked of, but one."""

    def query(self, sql: str) -> list[tuple[str, int]]:
        return [(table, int(table != "events")) for table in TABLES if f"FROM {table}" in sql]


def test_tables_without_rows_are_named() -> None:
    """All are asked at once; a recording needs fewer."""
    rows = count_rows(Counting())
    assert set(rows) == set(TABLES)
    assert empty_tables(rows) == ["events"]
    assert empty_tables(rows, TABLES_OF_A_RECORDING) == []
    assert empty_tables({}) == list(TABLES)


def test_a_folder_is_a_recording_by_the_names_in_it(tmp_path: Path) -> None:
    """Samples must be there, events may be; without samples the folder is refused by name."""
    with pytest.raises(Misconfigured, match=r"no samples\.csv\.gz"):
        find_recording(tmp_path, tmp_path)
    (tmp_path / "samples.csv").touch()
    (tmp_path / "events.parquet").touch()
    recording = find_recording(tmp_path, tmp_path)
    assert [path.name for path in (*recording.samples, *recording.events)] == ["samples.csv", "events.parquet"]
    assert find_recording(tmp_path / "samples.csv", tmp_path).samples == (tmp_path / "samples.csv",)
