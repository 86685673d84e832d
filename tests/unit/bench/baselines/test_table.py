"""From what processes used to the lines of the table."""

from dataclasses import replace

from streams.bench.baselines.comparison import BaselineRun
from streams.bench.baselines.crossing_check import difference
from streams.bench.baselines.registry import BASELINES, Baseline
from streams.bench.baselines.table import table_lines

OURS, THEIRS = Baseline("ours", "ours", "here"), Baseline("theirs", "theirs", "there")
SINK = Baseline("sink", "sink", "rows", table="t")
ROWS = Baseline("rows", "rows", "more rows", table="t", share=0.1)
SMALL = BaselineRun(10, port_samples=100_000, cpu_s=1.0, wall_s=2.0, peak_bytes=1 << 20)
WHOLE = BaselineRun(210, port_samples=2_100_000, cpu_s=5.0, wall_s=6.0, peak_bytes=300 << 20)


def test_the_start_is_not_in_the_price() -> None:
    """The additional cost of two million port-samples is divided by them; ratios are to the first line."""
    ours, theirs = table_lines([OURS, THEIRS], [SMALL, SMALL], [WHOLE, replace(WHOLE, cpu_s=11.0)], 2_100_000)
    assert (ours.cpu_s, ours.ratio, ours.port_samples_per_s, ours.peak_mib) == (2.0, 1.0, 500_000, 300)
    assert (theirs.cpu_s, theirs.ratio) == (5.0, 2.5)
    assert ours.server_cpu_s is None
    assert ours.remark == ""


def test_who_stores_is_compared_with_the_server_and_by_bytes() -> None:
    """For those that store, the ratio is of client and server; bytes are of the whole run; a partial run is marked."""
    stored = replace(WHOLE, server_cpu_s=4.0, disk_bytes=21_000_000)
    part = replace(WHOLE, port_samples=210_000, cpu_s=1.11, server_cpu_s=1.1, disk_bytes=21_000_000)
    few = replace(SMALL, port_samples=10_000)
    ours, sink, rows = table_lines([OURS, SINK, ROWS], [SMALL, SMALL, few], [WHOLE, stored, part], 2_100_000)
    assert (sink.cpu_s, sink.server_cpu_s, sink.ratio, sink.bytes_per_port_sample) == (2.0, 2.0, 1.0, 10.0)
    assert (rows.cpu_s, rows.server_cpu_s, rows.ratio) == (0.55, 5.5, 1.51)
    assert (rows.bytes_per_port_sample, rows.bytes_ratio) == (100.0, 10.0)
    assert rows.remark == "measured on 10% of the data"
    assert ours.bytes_per_port_sample is None


def test_a_wrong_answer_has_no_price() -> None:
    """A baseline that missed a port in either run gets that remark and no number."""
    _, theirs = table_lines([OURS, THEIRS], [SMALL, replace(SMALL, wrong="1 missed")], [WHOLE, WHOLE], 2_100_000)
    assert (theirs.cpu_s, theirs.ratio) == (None, None)
    assert theirs.remark == "WRONG: 1 missed"


def test_a_baseline_that_is_not_installed_is_missing() -> None:
    """A peer that is not here is no failure of it."""
    _, theirs = table_lines(
        [OURS, THEIRS],
        [SMALL, BaselineRun(0, missing="no index")],
        [WHOLE, BaselineRun(0, missing="no index")],
        2_100_000,
    )
    assert theirs.remark == "not installed: no index"


def test_without_ours_there_is_no_ratio_to_ours() -> None:
    """If railsight's own line is wrong, the others have their costs and no ratio."""
    ours, theirs = table_lines([OURS, THEIRS], [SMALL, SMALL], [replace(WHOLE, wrong="died"), WHOLE], 2_100_000)
    assert ours.remark == "WRONG: died"
    assert (theirs.cpu_s, theirs.ratio) == (2.0, None)


def test_answers_are_compared_one_by_one() -> None:
    """Missed, invented and repeated answers are distinguished."""
    wanted = frozenset({("a", "1", 1), ("a", "2", 1)})
    assert difference([("a", "2", 1), ("a", "1", 1)], wanted) == ""
    assert difference([("a", "1", 1), ("a", "1", 1), ("b", "1", 1)], wanted) == (
        "of 2 crossings 1 missed, 1 invented, 1 duplicated"
    )


def test_railsight_is_the_first_of_each_kind() -> None:
    """The table compares with railsight, and every contender has a program of its own."""
    assert next(one for one in BASELINES if not one.stores).program == "railsight_measure"
    assert next(one for one in BASELINES if one.stores).program == "railsight_sink"
    assert len({one.program for one in BASELINES}) == len(BASELINES)
