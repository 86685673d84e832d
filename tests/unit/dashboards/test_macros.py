"""The expander of Grafana's macros, which every query of the board goes through in tests."""

import pytest

from lab.preview.reading import View

VIEW = View(1000, 2000, 10, {"pod": ["a", "b'c"], "finding": ["x'y"]})


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("$__timeFilter(at)", "at >= toDateTime(1000) AND at <= toDateTime(2000)"),
        ("$__timeInterval(at)", "toStartOfInterval(toDateTime(at), INTERVAL 10 second)"),
        ("x < $__toTime AND y > $__fromTime", "x < toDateTime(2000) AND y > toDateTime(1000)"),
        ("n / $__interval_s", "n / 10"),
        ("-- $__adHocFilters('one')", "-- additional_table_filters={}"),
        ("IN (${pod:singlequote})", "IN ('a','b\\'c')"),
        ("= ${finding:sqlstring}", "= 'x''y'"),
        ("no macro, 5 $ and {braces}", "no macro, 5 $ and {braces}"),
    ],
)
def test_each_macro_becomes_what_the_data_source_makes_of_it(sql: str, expected: str) -> None:
    """Times are seconds, values are quoted as Grafana's formats do."""
    assert VIEW.expand(sql) == expected


@pytest.mark.parametrize("sql", ["$__timeFilterX(at)", "$__nothing", "${pod}", "${pod:csv}", "${other:singlequote}"])
def test_what_is_not_known_is_refused(sql: str) -> None:
    """A query that relies on it fails its test."""
    with pytest.raises(LookupError):
        VIEW.expand(sql)
