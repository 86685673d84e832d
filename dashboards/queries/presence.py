"""Defines the queries that show whether anything fills a folded row, or a board, without the queries of its panels."""

from collections.abc import Sequence

from dashboards.queries.query import RECENT_IN, Query

_LAST_HOUR = """sampled_at >= greatest($__fromTime, $__toTime - INTERVAL 1 HOUR) AND sampled_at <= $__toTime
        AND arrived_at >= greatest($__fromTime, $__toTime - INTERVAL 1 HOUR)"""
_PAUSE = ("pause_rx_frames", "pause_tx_frames", "tx_wait_bytes")
_LOSSES = ("packet_sequence_errors", "adaptive_retransmits", "local_ack_timeouts", "roce_slow_restarts")


def _any_given(columns: Sequence[str]) -> str:
    """Return the condition that a reading has any of the columns."""
    return " OR ".join(f"{column} IS NOT NULL" for column in columns)


def _is_read(*columns: str) -> str:
    """Return the condition that a collector has read pause by priority, or one of the columns, in two minutes."""
    recent = RECENT_IN.format("$__toTime")
    return f"""(
    SELECT count() > 0 FROM (
        SELECT 1 FROM samples WHERE {recent} AND ({_any_given(columns)})
        UNION ALL SELECT 1 FROM sample_lanes WHERE {recent} AND startsWith(metric, 'pfc_') LIMIT 1
    )
)"""


SHOWS_STORMS = _is_read(*_PAUSE)
"""True if ports without a storm are known: a collector reads pause, or waits for credits."""
SHOWS_COLLAPSE = _is_read(*_PAUSE, "cnp_handled", *_LOSSES)
"""True if hosts that nothing throttles are known: a collector reads pause, CNPs or retransmissions."""


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
    indexed = f"""
    UNION ALL SELECT true AS is_given FROM sample_lanes
    WHERE metric IN ({", ".join(f"'{metric}'" for metric in metrics)}) AND {where} AND {_LAST_HOUR}"""
    return Query(
        f"""SELECT multiIf(count() = 0, 'unknown', max(is_given), 'has data', 'no data') AS state FROM (
    SELECT {_any_given(columns)} AS is_given FROM samples WHERE {where} AND {_LAST_HOUR}{indexed if metrics else ""}
)""",
        ("state",),
    )
