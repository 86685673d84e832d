"""The report at the end of a demo, and the conditions under which it passes."""

from pathlib import Path

import pytest
from rich.console import Console

from lab.demo.player import POISON, control_record, find_recording, poison_record, result_record
from lab.demo.process_specs import DemoPlan, write_config
from lab.demo.report import build_report
from lab.demo.screen import pipeline
from lab.demo.state import TABLES, TABLES_OF_A_RECORDING, DemoState, count_rows, empty_tables
from streams.config.settings import load
from streams.replay.score import Score, Truth
from streams.runtime.local_pipeline import ServerAddresses
from streams.runtime.supervise import PartState
from streams.wire.errors import Misconfigured, Reject
from streams.wire.models import Action, Condition, Control, Progress, Remediation, RemediationResult, Subject, Verdict
from streams.wire.topics import decode
from tests.fixtures.findings import NS, finding

MISSED = Score((), (Truth(0, 1, Condition.LINK_DOWN, "leaf1", "e1"),), ())
PERFECT = Score((), (), ())


def test_a_perfect_score_without_problems_is_fine() -> None:
    """Nothing missed, nothing invented, nothing else wrong."""
    assert build_report(DemoState(0.0), PERFECT, (), ()).is_passed


def test_a_missed_fault_is_not_fine() -> None:
    """The report names what was missed."""
    report = build_report(DemoState(0.0), MISSED, (), ())
    assert not report.is_passed
    assert "missed: link/down leaf1/e1" in "\n".join(report.lines())


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


def test_a_recording_without_a_truth_has_no_score() -> None:
    """Then only what is wrong with the run itself counts."""
    report = build_report(DemoState(0.0), None, (), ())
    assert report.is_passed
    assert report.as_dict()["score"] is None


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


def test_the_demo_answers_a_remediation_that_it_saw() -> None:
    """One result, one control, and one record that no reader of samples can read."""
    seen = Remediation("r1", 1, ("f",), Action.DRAIN_LINK, Verdict.SHADOW, Subject("link:x"))
    result = result_record([seen], 1000 * NS)
    control, poison = control_record(1000 * NS), poison_record()
    records = decode(result.topic, result.value)
    assert isinstance(records, RemediationResult)
    assert records.remediation_id == "r1"
    assert isinstance(decode(control.topic, control.value), Control)
    assert poison.value == POISON
    with pytest.raises(Reject):
        decode(poison.topic, poison.value)


def test_without_a_remediation_the_result_names_none() -> None:
    """A short demo may decide nothing; the path is shown all the same."""
    result = result_record([], 1000 * NS)
    records = decode(result.topic, result.value)
    assert isinstance(records, RemediationResult)
    assert records.remediation_id == "demo/none-seen"


def test_the_demo_writes_a_configuration_that_a_user_could_have_written(tmp_path: Path) -> None:
    """Its file passes the same check as anybody's."""
    secret = tmp_path / "password"
    secret.write_text("of the demo\n")
    path = write_config(
        tmp_path,
        ServerAddresses("127.0.0.1:9", {}, "", "http://127.0.0.1:8", str(secret)),
        DemoPlan(tmp_path, alertmanager="http://a:1"),
    )
    settings = load(path, None, {})
    assert settings.kafka.bootstrap == "127.0.0.1:9"
    assert settings.store.url == "http://127.0.0.1:8"
    assert settings.store.secret() == "of the demo"
    assert settings.notify.alertmanagers == ("http://a:1",)


def test_a_folder_is_a_recording_by_the_names_in_it(tmp_path: Path) -> None:
    """Samples must be there, events may be; without samples the folder is refused by name."""
    with pytest.raises(Misconfigured, match=r"no samples\.csv\.gz"):
        find_recording(tmp_path, tmp_path)
    (tmp_path / "samples.csv").touch()
    (tmp_path / "events.parquet").touch()
    recording = find_recording(tmp_path, tmp_path)
    assert [path.name for path in (*recording.samples, *recording.events)] == ["samples.csv", "events.parquet"]
    assert find_recording(tmp_path / "samples.csv", tmp_path).samples == (tmp_path / "samples.csv",)


def test_the_pipeline_has_its_stages_rows_and_parts() -> None:
    """Each stage's distance from now, the parts with their restarts; one that ended is named also without colors."""
    board = DemoState(0.0)
    board.update(Progress("measure", 0, 1, 130 * NS, records=5, lag=7), 1.0)
    parts = (PartState("process", True, 1, 1, ""), PartState("persist", False, None, 0, ""))
    console = Console(width=80, height=24, force_terminal=True, color_system=None)
    with console.capture() as captured:
        console.print(pipeline(board.view, parts, 2.0, 131 * NS))
    text = captured.get()
    assert "1.0 s" in text
    assert "process×2 persist (ended)" in text
    assert "no rows yet" in text
