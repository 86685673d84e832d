"""Reads the hourly groups of ports, which boards use for a whole fabric over a long range."""

from collections.abc import Sequence

from dashboards.queries.query import WHOLE, is_by_hour


def groups(statistic: str, where: str) -> str:
    """Return the FROM and WHERE for the groups in the range; selects no rows if the range is not read by the hour."""
    return f"""port_groups_1h FINAL
    WHERE {is_by_hour(wide=True)} AND statistic = '{statistic}' AND {where} AND {WHOLE.format("bucket")}"""


def group_rates(statistic: str, series: Sequence[tuple[str, str]], where: str) -> str:
    """Return the rows (time, series, rate) of `series`; each series is its name (SQL) and its column of rates."""
    listed = ", ".join(f"({name}, {column})" for name, column in series)
    return f"""
    SELECT $__timeInterval(bucket) AS time, series, avg(total) AS rate FROM (
        SELECT bucket, one.1 AS series, sum(one.2) AS total FROM (
            SELECT bucket, arrayJoin([{listed}]) AS one FROM {groups(statistic, where)}
        ) WHERE one.2 IS NOT NULL GROUP BY bucket, series
    ) GROUP BY time, series"""
