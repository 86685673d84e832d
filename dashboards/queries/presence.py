"""Defines the queries that show whether anything fills a folded row, or a board, without the queries of its panels."""

from collections.abc import Sequence

from dashboards.queries.query import Query

_LAST_HOUR = """sampled_at >= greatest($__fromTime, $__toTime - INTERVAL 1 HOUR) AND sampled_at <= $__toTime
        AND arrived_at >= greatest($__fromTime, $__toTime - INTERVAL 1 HOUR)"""


PAUSE_IS_READ = """(
    SELECT count() > 0 FROM (
        SELECT 1 FROM samples WHERE {0} AND sampled_at <= $__toTime
            AND (pause_rx_frames IS NOT NULL OR pause_tx_frames IS NOT NULL OR tx_wait_bytes IS NOT NULL)
        UNION ALL SELECT 1 FROM sample_lanes WHERE {0} AND sampled_at <= $__toTime AND startsWith(metric, 'pfc_')
        LIMIT 1
    )
)""".format("arrived_at > $__toTime - INTERVAL 120 SECOND")
"""True if a collector reads pause, or waits for credits; if none does, no port is known to be free of a storm."""


def filled_by(count: str, found: str, hint: str) -> Query:
    """Return the line of a board: `found` with the count, or `hint`, which states what would fill the board."""
    return Query(
        f"SELECT if(counted = 0, '{hint}', concat('{found}: ', toString(counted), '.')) AS note FROM ({count})",
        ("note",),
    )


def presence(columns: Sequence[str], metrics: Sequence[str], where: str) -> Query:
    """Return one text: whether readings of the range's last hour have any of the columns, or of the indexed metrics.

    Without any reading it is unknown: nothing is read, or the readings of a range in the past have expired.
    """
    is_given = " OR ".join(f"{column} IS NOT NULL" for column in columns)
    indexed = f"""
    UNION ALL SELECT true AS is_given FROM sample_lanes
    WHERE metric IN ({", ".join(f"'{metric}'" for metric in metrics)}) AND {where} AND {_LAST_HOUR}"""
    return Query(
        f"""SELECT multiIf(count() = 0, 'unknown', max(is_given), 'has data', 'no data') AS state FROM (
    SELECT {is_given} AS is_given FROM samples WHERE {where} AND {_LAST_HOUR}{indexed if metrics else ""}
)""",
        ("state",),
    )
