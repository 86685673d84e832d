"""`railsight bench locality` on a small fabric: every kind of query is timed, and a slow one fails."""

from dataclasses import replace

from lab.bench.locality_cost import LIMITS_MS, Options, measure, table_lines
from lab.bench.statistics import spread_of
from lab.bench.timing import Timing


def test_every_kind_of_query_is_timed() -> None:
    """With findings on the fabric; the table has a line for each."""
    cost = measure(Options(gpus=1024, placed_gpus=64, queries=5, impaired=0.001))
    assert (cost.hosts, cost.units) == (128, 2) and cost.findings > 0
    assert len(list(table_lines(cost))) == 3 + len(cost.timings) + 1
    assert {timing.limit_ms for timing in cost.timings} == {None, *LIMITS_MS.values()}


def test_a_query_over_its_limit_fails() -> None:
    """By the 99th percentile of CPU time."""
    cost = measure(Options(gpus=128, placed_gpus=64, queries=1, impaired=0.001))
    fast = Timing("distance", spread_of([0.5]), spread_of([9.0]), 1.0)
    assert replace(cost, timings=(fast,)).is_passed
    slow = replace(cost, timings=(fast._replace(cpu=spread_of([1.5])),))
    assert not slow.is_passed and list(table_lines(slow))[-1].startswith("NO")
