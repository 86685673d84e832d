"""Defines the rollup of messages by hour: a row for each device, source, hour of sampling and hour of arrival.

It is made an hour of arrival at a time, by the broker's clock: an hour is complete also where the clocks of devices are
wrong, and a message that arrives late changes no earlier hour. hour_rollups.py runs the statements.
"""

_KEY = "device, source, row_kind, collector, bucket, arrived_hour"

COLUMNS = f"{_KEY}, messages, rows, minutes, last_sampled_at, delay_p99_s, runs, arrived_at"
"""The columns that SELECT fills."""

SELECT = (
    "SELECT device, source, row_kind, collector, toStartOfHour(sampled_at) AS sampled_hour,"
    " toDateTime({hour}, 'UTC') AS hour, count() AS messages, sum(rows) AS row_count,"
    " groupBitOr(bitShiftLeft(toUInt64(1), toMinute(sampled_at))) AS minutes, max(sampled_at) AS newest,"
    " quantile(0.99)(dateDiff('millisecond', sampled_at, arrived_at)) / 1000 AS delay_s,"
    " groupUniqArray(collector_run) AS runs, max(arrived_at) AS latest FROM sample_messages"
    " WHERE arrived_at >= toDateTime({hour}, 'UTC') AND arrived_at < toDateTime({hour} + 3600, 'UTC')"
    " GROUP BY device, source, row_kind, collector, sampled_hour"
)
"""The rows of the hour of arrival that begins at {hour} (Unix seconds)."""

INCOMPLETE = """SELECT toUnixTimestamp(hour) AS hour_s, sum(stored) AS expected, sum(by_hour) AS found FROM (
    SELECT toStartOfHour(arrived_at) AS hour, count() AS stored, 0 AS by_hour FROM {table}
    WHERE arrived_at >= toStartOfHour(now('UTC')) - INTERVAL {window} HOUR
        AND arrived_at < toStartOfHour(now('UTC') - {over})
    GROUP BY hour
    UNION ALL
    SELECT arrived_hour AS hour, 0 AS stored, sum(messages) AS by_hour FROM {table}_1h FINAL
    WHERE arrived_hour >= toStartOfHour(now('UTC')) - INTERVAL {window} HOUR GROUP BY hour
) GROUP BY hour HAVING expected != found ORDER BY hour"""
"""The hours of arrival of which other messages are stored than are in the rollup."""
