"""The machine of a run, and the queries of its samples: rarely more than a count."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from lab.bench.clickhouse_metrics import RowAges
from lab.bench.processes import machine_info
from lab.bench.render_report import report_lines
from tests.fixtures.bench_reports import LOAD, report


def test_a_machine_is_one_line_whatever_it_does_not_tell(tmp_path: Path) -> None:
    """Cores, model and memory from /proc; without these files the memory is unknown."""
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: Example CPU @ 2.0GHz\nmodel name\t: other\n")
    (tmp_path / "meminfo").write_text("MemTotal:       25165824 kB\nMemFree: 1 kB\n")
    assert "cores of Example CPU @ 2.0GHz, 24.0 GiB, Linux " in machine_info(tmp_path)
    assert "memory unknown" in machine_info(tmp_path / "none")


class Counting:
    """ClickHouse with one partition, of which each look finds what was stored since."""

    def __init__(self) -> None:
        self.rows = self.looks = 0

    def query(self, sql: str) -> Sequence[Sequence[Any]]:
        if sql.startswith("SELECT count()"):
            return [(self.rows,)]
        self.looks += 1
        return [(0, 7, self.rows, self.rows)]


def test_the_ages_of_rows_are_asked_for_when_there_are_more_of_them() -> None:
    """Three looks at one block are one question for ages; the next block is another."""
    clickhouse, freshness = Counting(), RowAges()
    for rows in (0, 5, 5, 5, 9):
        clickhouse.rows = rows
        freshness.sample(clickhouse)  # type: ignore[arg-type]
    assert clickhouse.looks == 2
    assert sum(freshness.ages.values()) == 14


def test_a_report_names_the_assumed_senders() -> None:
    """Batches of one message are another load than batches of many."""
    line = list(report_lines(report(load=replace(LOAD, senders=3, messages_per_batch=12.25))))
    assert any("assumed: 3 producers send for all devices, 12.2 messages per batch" in line for line in line)
