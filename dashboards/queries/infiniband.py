"""Defines the queries of the InfiniBand dashboard: ports that wait for credits, and ports with errors, worst first."""

from dashboards.limits import DETECT
from dashboards.queries.presence import filled_by
from dashboards.queries.query import (
    IN_PODS,
    PORTS,
    WORKS,
    Query,
    port_gauges,
    readings,
    recent_readings,
    usable,
)

_RECENT_S = 300
"""Waits are ranked by the last five minutes: a port is read every 30 s."""
_IS_READ = f"source = 'ib' AND {IN_PODS}"
_SINCE = f"$__toTime - INTERVAL {_RECENT_S} SECOND"
_NOW = f"""
    SELECT readings.device AS device, readings.row AS port, ports.subject AS subject,
        8 * grown_tx_wait_bytes / elapsed_s AS bps, bps / nullIf(ports.speed_bps, 0) AS waits,
        grown_hoq_lifetime_discards AS discards, grown_uncorrected_symbols AS uncorrected
    FROM {recent_readings(["tx_wait_bytes", "hoq_lifetime_discards", "uncorrected_symbols"], _IS_READ, _SINCE)}
        AS readings LEFT JOIN ({PORTS}
    ) AS ports ON ports.device = readings.device AND ports.port = readings.row
    WHERE elapsed_s > 0 AND sampled_at > {_SINCE} ORDER BY sampled_at DESC LIMIT 1 BY device, port"""
_UNKNOWN = f"count() = 0 OR NOT {WORKS}"
NOTE = filled_by(
    "SELECT uniqExact(device) AS counted FROM collector_status WHERE source = 'ib' AND at <= $__toTime",
    "Devices of InfiniBand that a collector reads",
    "No collector reads InfiniBand. railsight collect ib fills this board, from UFM Telemetry or files of ibdiagnet.",
)
COUNTS = Query(
    f"""SELECT if({_UNKNOWN}, NULL, countIf(waits >= {DETECT.storm.paused})) AS waiting,
    if({_UNKNOWN}, NULL, countIf(uncorrected > 0)) AS losing, if({_UNKNOWN}, NULL, countIf(discards > 0)) AS discarding,
    if({_UNKNOWN}, NULL, count()) AS read
FROM ({_NOW}
)""",
    ("waiting", "losing", "discarding", "read"),
)
WAITS = Query(
    f"""SELECT device, port, waits, bps, discards, subject FROM ({_NOW}
) WHERE bps IS NOT NULL OR discards IS NOT NULL ORDER BY ifNull(waits, -1) DESC, ifNull(bps, -1) DESC, device, port
LIMIT 50""",
    ("device", "port", "waits", "bps", "discards", "subject"),
)


_READ_WIDE = usable(wide=True)


def _worst(rows: str, value: str, ranked: str) -> Query:
    """Return the time series of the ten ports that `ranked` selects; `rows` has time, device, row and the value.

    Only the rows of these ports are put into buckets and joined; `{0}` in `rows` is their condition.
    """
    top = f"""{_IS_READ} AND (device, row) IN (
            SELECT device, row FROM ({ranked}
            ) ORDER BY score DESC, device, row LIMIT 10
        )"""
    return Query(
        f"""SELECT time, concat(device, ' ', row) AS series, {value} FROM ({rows.replace("{0}", top)}
) ORDER BY time, series""",
        ("time", "series", value),
        series=True,
    )


def _grown(column: str) -> str:
    """Return the ports with the growth of a counter per second over the whole range."""
    return f"""
                SELECT device, row, sum(grown_{column}) / sum(elapsed_s) AS score
                FROM {readings([column], _IS_READ, wide=True)}
                WHERE {_READ_WIDE} AND grown_{column} >= 0 GROUP BY device, row"""


def _rate(column: str) -> Query:
    return _worst(
        f"""
    SELECT $__timeInterval(sampled_at) AS time, device, row, sum(grown_{column}) / sum(elapsed_s) AS rate
    FROM {readings([column], "{0}", wide=True)}
    WHERE {_READ_WIDE} AND grown_{column} >= 0 GROUP BY time, device, row""",
        "rate",
        _grown(column),
    )


WAITING = _worst(
    f"""
    SELECT $__timeInterval(sampled_at) AS time, readings.device AS device, readings.row AS row,
        8 * sum(grown_tx_wait_bytes) / sum(elapsed_s) / any(ports.speed_bps) AS waits
    FROM {readings(["tx_wait_bytes"], "{0}", wide=True)} AS readings INNER JOIN ({PORTS}
    ) AS ports ON ports.device = readings.device AND ports.port = readings.row
    WHERE {_READ_WIDE} AND grown_tx_wait_bytes >= 0 AND ports.speed_bps > 0 GROUP BY time, device, row""",
    "waits",
    f"""
                SELECT ports.device AS device, ports.port AS row, grown.score / ports.speed_bps AS score
                FROM ({_grown("tx_wait_bytes")}
                ) AS grown INNER JOIN ({PORTS}
                ) AS ports ON ports.device = grown.device AND ports.port = grown.row WHERE ports.speed_bps > 0""",
)
UNCORRECTED = _rate("uncorrected_symbols")
RETRIES = _rate("plr_tx_retries")
_BER = (("raw", "pre_fec_ber"), ("effective", "post_fec_ber"))
BER = _worst(
    f"""
    SELECT $__timeInterval(at) AS time, device, row, max(metric.2) AS ber
    FROM {port_gauges(_BER[:1], "{0}", wide=True)}
    WHERE metric.2 > 0 AND at >= $__fromTime GROUP BY time, device, row""",
    "ber",
    f"""
                SELECT device, row, max(metric.2) AS score FROM {port_gauges(_BER[:1], _IS_READ, wide=True)}
                WHERE metric.2 > 0 AND at >= $__fromTime GROUP BY device, row""",
)
_COUNTED = {
    "uncorrected": "uncorrected_symbols", "damaged": "plr_rx_errors", "beyond": "plr_rx_uncorrectable",
    "retries": "plr_tx_retries",
}  # fmt: skip
ERRORS = Query(
    f"""SELECT errors.device AS device, errors.row AS port, {", ".join(_COUNTED)}, raw, effective, subject
FROM (
    SELECT device, row, {", ".join(f"sumIf(grown_{column}, grown_{column} >= 0) AS {name}"
                                   for name, column in _COUNTED.items())}
    FROM {readings(list(_COUNTED.values()), _IS_READ, wide=True)} WHERE {_READ_WIDE} GROUP BY device, row
) AS errors
LEFT JOIN (
    SELECT device, row, maxIf(metric.2, metric.1 = 'raw') AS raw, maxIf(metric.2, metric.1 = 'effective') AS effective
    FROM {port_gauges(_BER, _IS_READ, wide=True)} WHERE at >= $__fromTime GROUP BY device, row
) AS ber ON ber.device = errors.device AND ber.row = errors.row
LEFT JOIN ({PORTS}
) AS ports ON ports.device = errors.device AND ports.port = errors.row
ORDER BY ifNull(uncorrected, -1) DESC, ifNull(effective, -1) DESC, ifNull(retries, -1) DESC, ifNull(raw, -1) DESC,
    device, port LIMIT 1 BY device, port LIMIT 50""",
    ("device", "port", *_COUNTED, "raw", "effective", "subject"),
)  # fmt: skip
