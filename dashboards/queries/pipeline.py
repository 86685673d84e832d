"""Defines the queries of the Pipeline dashboard: delay, rejected records, collectors, storage and cost."""

from dashboards.queries.messages import ARRIVED, LONG, NEWEST_ARRIVAL, messages
from dashboards.queries.query import NONE, WHOLE, WORKS, Query

# Only this query compares with the clock, because a stopped sink has no newer row to compare with.
SINK_DELAY = Query(
    f"""SELECT dateDiff('millisecond', max(newest), now64(3)) / 1000 AS delay FROM (
    SELECT max(arrived_at) AS newest FROM progress WHERE arrived_at >= $__fromTime
    UNION ALL {NEWEST_ARRIVAL}
) WHERE newest > toDateTime64(0, 3, 'UTC') HAVING count() > 0""",
    ("delay",),
)
REJECTED_COUNT = Query(
    f"SELECT if({WORKS}, count(), NULL) AS rejected FROM rejected WHERE $__timeFilter(arrived_at)", ("rejected",)
)
# The newest watermark of each stage; a stage without input has a watermark of zero.
WORST_LAG = Query(
    f"""SELECT if({WORKS}, max(lag), NULL) AS lag FROM (
    SELECT stage, dateDiff('millisecond', assumeNotNull(argMax(watermark, arrived_at)), max(arrived_at)) / 1000 AS lag
    FROM progress
    WHERE arrived_at > $__toTime - INTERVAL 120 SECOND AND arrived_at <= $__toTime
        AND watermark > toDateTime64('1971-01-01', 9, 'UTC')
    GROUP BY stage
)""",
    ("lag",),
)
# The findings are as of the oldest watermark of a stage's partition. Like SINK_DELAY it compares with the clock.
FINDINGS_LAG = Query(
    """SELECT greatest(0, dateDiff('millisecond', min(newest), now64(3)) / 1000) AS behind FROM (
    SELECT stage, partition, argMax(watermark, arrived_at) AS newest FROM progress
    WHERE arrived_at > (SELECT max(arrived_at) FROM progress WHERE arrived_at >= $__fromTime) - INTERVAL 120 SECOND
        AND watermark > toDateTime64('1971-01-01', 9, 'UTC')
    GROUP BY stage, partition
) HAVING count() > 0""",
    ("behind",),
)
COLLECTOR_COUNT = Query(
    f"""SELECT if({WORKS}, countIf(answers), NULL) AS reachable, if({WORKS}, countIf(NOT answers), NULL) AS failing
FROM (
    SELECT device, source, argMax(reachable, at) AS answers FROM collector_status WHERE at <= $__toTime
        AND arrived_at >= $__toTime - INTERVAL 1 DAY
    GROUP BY device, source
)""",
    ("reachable", "failing"),
)
WATERMARK_LAG = Query(
    """SELECT $__timeInterval(arrived_at) AS time, stage,
    max(dateDiff('millisecond', assumeNotNull(watermark), arrived_at)) / 1000 AS lag
FROM progress WHERE $__timeFilter(arrived_at) AND watermark > toDateTime64('1971-01-01', 9, 'UTC')
GROUP BY time, stage ORDER BY time""",
    ("time", "stage", "lag"),
    series=True,
)
BEHIND = Query(
    """SELECT time, stage, sum(most) AS behind FROM (
    SELECT $__timeInterval(arrived_at) AS time, stage, partition, max(lag) AS most
    FROM progress WHERE $__timeFilter(arrived_at) GROUP BY time, stage, partition
) GROUP BY time, stage ORDER BY time""",
    ("time", "stage", "behind"),
    series=True,
)
# `records` counts from an owner's start, so only values of one epoch are compared.
STAGE_RATE = Query(
    f"""SELECT $__timeInterval(arrived_at) AS time, stage, sum(grown) / $__interval_s AS rate FROM (
    SELECT arrived_at, stage, toInt64(records) - toInt64(lagInFrame(records, 1, records) OVER (
        PARTITION BY stage, partition, epoch ORDER BY arrived_at ROWS BETWEEN 1 PRECEDING AND CURRENT ROW
    )) AS grown
    FROM progress WHERE $__timeFilter(arrived_at)
) WHERE {WHOLE.format("arrived_at")}
GROUP BY time, stage ORDER BY time""",
    ("time", "stage", "rate"),
    series=True,
)
ROW_RATE = Query(
    f"""SELECT $__timeInterval(at) AS time, source, sum(sent) / max(width_s) AS rate
FROM {messages(("source", "at", "sent", "width_s"), ARRIVED)} WHERE {WHOLE.format("at")}
GROUP BY time, source ORDER BY time""",
    ("time", "source", "rate"),
    series=True,
)
ARRIVAL_DELAY = Query(
    f"""SELECT $__timeInterval(at) AS time, source, quantile(0.99)(delay_ms) / 1000 AS delay
FROM {messages(("source", "at", "delay_ms"), ARRIVED)} WHERE at >= $__fromTime
GROUP BY time, source ORDER BY time""",
    ("time", "source", "delay"),
    series=True,
)
REJECTED = Query(
    """SELECT topic, stage, reason, count() AS times, max(arrived_at) AS last
FROM rejected WHERE $__timeFilter(arrived_at)
GROUP BY topic, stage, reason ORDER BY times DESC, last DESC LIMIT 100""",
    ("topic", "stage", "reason", "times", "last"),
)
COLLECTORS = Query(
    f"""SELECT collector, source, uniqExact(device) AS devices, sum(sent) / greatest(dateDiff('second',
    $__fromTime, $__toTime), 1) AS row_rate, dateDiff('second', max(arrived), $__toTime) AS silent_s,
    uniqExactArray(runs) AS runs
FROM {messages(("collector", "source", "device", "sent", "arrived", "runs"), ARRIVED)}
GROUP BY collector, source ORDER BY silent_s DESC, collector LIMIT 200""",
    ("collector", "source", "devices", "row_rate", "silent_s", "runs"),
)
UNREACHABLE = Query(
    f"""SELECT device, source, collector, error, last_sample_at AS last_sample FROM (
    SELECT device, source, argMax(collector, at) AS collector, argMax(reachable, at) AS reachable,
        argMax(error, at) AS error, argMax(last_sample_at, at) AS last_sample_at
    FROM collector_status WHERE at <= $__toTime AND arrived_at >= $__toTime - INTERVAL 1 DAY GROUP BY device, source
) WHERE NOT reachable AND {WORKS} ORDER BY device LIMIT 200""",
    ("device", "source", "collector", "error", "last_sample"),
)
# The reader's rights are limited to its database; system.parts has the present state, not that of the time range.
STORAGE = Query(
    f"""SELECT table, sum(rows) AS stored, sum(bytes_on_disk) AS bytes, count() AS parts,
    if(stored = 0, NULL, bytes / stored) AS bytes_per_row, min(min_time) AS oldest
FROM system.parts WHERE active AND database = currentDatabase() AND table != '{NONE}'
GROUP BY table ORDER BY bytes DESC LIMIT 100""",
    ("table", "stored", "bytes", "parts", "bytes_per_row", "oldest"),
)
# In long ranges rows are grouped by the hour, as messages are, because points at other times would break the lines.
_STORED = f"""if({LONG}, toDateTime64(toStartOfHour(arrived_at), 3, 'UTC'), arrived_at) AS at, toFloat64(1) AS sent,
        if({LONG}, greatest($__interval_s, 3600), $__interval_s) AS width_s"""
STORED_RATE = Query(
    f"""SELECT $__timeInterval(at) AS time, kind, sum(sent) / max(width_s) AS rate FROM (
    SELECT 'port samples' AS kind, at, toFloat64(sent) AS sent, width_s
    FROM {messages(("at", "sent", "width_s"), ARRIVED)}
    UNION ALL SELECT 'events' AS kind, {_STORED} FROM events WHERE $__timeFilter(arrived_at)
    UNION ALL SELECT 'symptoms' AS kind, {_STORED} FROM symptoms WHERE $__timeFilter(arrived_at)
    UNION ALL SELECT 'findings' AS kind, {_STORED} FROM findings WHERE $__timeFilter(arrived_at)
) WHERE {WHOLE.format("at")}
GROUP BY time, kind ORDER BY time""",
    ("time", "kind", "rate"),
    series=True,
)
