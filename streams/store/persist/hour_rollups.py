"""Fills the rollups by hour from the rollups by minute after the end of an hour, and again if minutes arrive later.

The owner of partition 0 of samples does it. An hour is complete when it has as many readings as the rollup by minute,
or as many messages as are stored of it; otherwise it is replaced. Two concurrent sinks (a suspended owner resumes)
insert the same rows with the same token, and rows of the same port and hour replace each other.

Messages are rolled up by hour of arrival, by the broker's clock, so that an hour is complete even with wrong device
clocks, and a late message does not change an earlier hour.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

import structlog

from streams.fabric.catalogue import Metric
from streams.store.clickhouse import ClickHouse, QueryClient
from streams.store.params import SinkParams, StoreParams
from streams.store.persist.block_writer import MAX_TOKENS
from streams.store.persist.group_rollups import Hourly, changed_hours, group_hours
from streams.store.persist.partition_offsets import retry_forever
from streams.store.rows.sample_layout import column_name, has_extremes, is_scalar
from streams.store.schema_form import delete_from

INTERVAL_S = 600.0
"""Interval of rollups; counting the minutes of six hours takes 0.5 s of CPU at the largest fabric: 0.1 % of a core."""

OVER_AFTER_S = 300
"""The wait after an hour's end; its last minute is complete with the next reading, and stored within 10 s."""

WINDOW_HOURS = 6
"""Minutes that arrive later than this are not in the rollup by hour; Kafka retains samples for the same time."""

_KEY = "device, row, row_kind, source"
_LANE_KEY = f"{_KEY}, metric, `index`"

_log = structlog.get_logger("railsight.persist")


def _weighted(column: str) -> str:
    """Return the average of averages, weighted by the readings of each minute."""
    return f"sum({column} * readings) / nullIf(sumIf(readings, {column} IS NOT NULL), 0)"


def _scalar_columns(metrics: Iterable[Metric]) -> list[tuple[str, str]]:
    columns = []
    for metric in metrics:
        name = column_name(metric)
        if metric.counter:
            columns.append((f"{name}_increase", f"sum({name}_increase)"))
        else:
            if has_extremes(metric):
                columns += [(f"{name}_{one}", f"{one}({name}_{one})") for one in ("min", "max")]
            columns.append((f"{name}_avg", _weighted(f"{name}_avg")))
    return columns


_LANE_COLUMNS = [
    ("increase", "sum(increase)"),
    ("value_min", "min(value_min)"),
    ("value_max", "max(value_max)"),
    ("value_avg", _weighted("value_avg")),
]
_MINUTES = "bitCount(groupBitOr(bitShiftLeft(toUInt64(1), toMinute(bucket))))"
_COMMON = [
    ("minutes", _MINUTES),
    ("readings", "sum(readings)"),
    # A port with two messages, for counters and for optics, has two rows per minute.
    ("observed_s", f"sum(observed_s) * {_MINUTES} / count()"),
    ("resets", "sum(resets)"),
    ("arrived_at", "max(arrived_at)"),
]


class Hour(NamedTuple):
    """The statement of a table: the filled columns, and the query of one hour's rows; {hour} is its Unix seconds."""

    columns: str
    select: str


# There is a row for each device, source, hour of sampling and hour of arrival.
_MESSAGES = Hour(
    "device, source, row_kind, collector, bucket, arrived_hour, messages, rows, minutes, last_sampled_at, delay_p99_s,"
    " runs, arrived_at",
    "SELECT device, source, row_kind, collector, toStartOfHour(sampled_at) AS sampled_hour,"
    " toDateTime({hour}, 'UTC') AS hour, count() AS messages, sum(rows) AS row_count,"
    " groupBitOr(bitShiftLeft(toUInt64(1), toMinute(sampled_at))) AS minutes, max(sampled_at) AS newest,"
    " quantile(0.99)(dateDiff('millisecond', sampled_at, arrived_at)) / 1000 AS delay_s,"
    " groupUniqArray(collector_run) AS runs, max(arrived_at) AS latest FROM sample_messages"
    " WHERE arrived_at >= toDateTime({hour}, 'UTC') AND arrived_at < toDateTime({hour} + 3600, 'UTC')"
    " GROUP BY device, source, row_kind, collector, sampled_hour",
)


def _of_minutes(table: str, key: str, columns: list[tuple[str, str]]) -> Hour:
    """Return the statement of a table; `key` is the table's order, so that the groups take little memory."""
    chosen = [*_COMMON, *columns]
    values = ", ".join(f"{value} AS rolled_{number}" for number, (_, value) in enumerate(chosen))
    return Hour(
        ", ".join([key, "bucket", *(name for name, _ in chosen)]),
        f"SELECT {key}, toDateTime({{hour}}, 'UTC') AS hour, {values} FROM {table}_1m"  # noqa: S608 — all are ours
        " WHERE bucket >= toDateTime({hour}, 'UTC') AND bucket < toDateTime({hour} + 3600, 'UTC')"
        f" GROUP BY {key}",
    )


def _own_column(metric: Metric) -> str:
    return f"{column_name(metric)}_{'increase' if metric.counter else 'avg'}"


_SCALARS = tuple(filter(is_scalar, Metric))
# The columns with values; grouping the empty ones too takes three times as long. A Distributed table has no parts, so
# all its columns are grouped.
_STORED = (
    "SELECT DISTINCT column FROM system.parts_columns"
    " WHERE active AND database = currentDatabase() AND table = 'samples_1m'"
)
IN_ORDER = "optimize_aggregation_in_order = 1"
_ROLLUPS = {
    "samples": (Hourly("samples_1m", "bucket"), Hourly("samples_1h FINAL", "bucket")),
    "sample_lanes": (Hourly("sample_lanes_1m", "bucket"), Hourly("sample_lanes_1h FINAL", "bucket")),
    "sample_messages": (
        Hourly("sample_messages", "arrived_at", "count()"),
        Hourly("sample_messages_1h FINAL", "arrived_hour", "sum(messages)"),
    ),
}
"""The source of each rollup and the rollup; both must have the same number for each hour."""


def roll_up_hours(client: ClickHouse, params: StoreParams) -> int:
    """Update the rollups by hour; return the number of written hours. Blocks."""
    written = 0
    for table, (source, rollup) in _ROLLUPS.items():
        over = f"{source.time} < toStartOfHour(now('UTC') - {OVER_AFTER_S})"
        for hour, expected, found in changed_hours(client, source._replace(condition=over), rollup, WINDOW_HOURS):
            rows = f"{rollup.time} = toDateTime({hour}, 'UTC')"
            if found:
                client.command(delete_from(f"{table}_1h", rows, params))
            token = f"{table}_1h/{hour}/{expected}"
            _roll_up(client, table, hour, token)
            for retry in range(1, MAX_TOKENS):
                if client.query(f"SELECT count() FROM {table}_1h WHERE {rows}")[0][0]:  # noqa: S608 — all are ours
                    break
                # A server that was killed between recording a token and storing its rows (block_writer.py).
                _log.warning("ClickHouse has the token of an hour without its rows", token=token, table=f"{table}_1h")
                _roll_up(client, table, hour, f"{token}#{retry}")
            _log.info("hour rolled up", table=f"{table}_1h", hour=hour, readings=expected)
            written += 1
    return written


def hour_of(client: QueryClient, table: str, hour_s: int) -> Hour:
    """Return the statement for the hour that begins at these Unix seconds; run it with IN_ORDER."""
    if table == "sample_messages":
        hour = _MESSAGES
    elif table == "sample_lanes":
        hour = _of_minutes(table, _LANE_KEY, _LANE_COLUMNS)
    else:
        stored = {column for (column,) in client.query(_STORED)}
        metrics = [metric for metric in _SCALARS if _own_column(metric) in stored] or _SCALARS
        hour = _of_minutes(table, _KEY, _scalar_columns(metrics))
    return hour._replace(select=hour.select.replace("{hour}", str(hour_s)))


def _roll_up(client: ClickHouse, table: str, hour_s: int, token: str) -> None:
    hour = hour_of(client, table, hour_s)
    client.command(
        f"INSERT INTO {table}_1h ({hour.columns}) SETTINGS insert_deduplication_token = '{token}'"
        f" {hour.select} SETTINGS {IN_ORDER}"
    )


class HourRollups:
    """Runs while this sink owns partition 0 of samples."""

    def __init__(
        self, client: ClickHouse, store: StoreParams, params: SinkParams, is_owner: Callable[[], bool]
    ) -> None:
        self._client = client
        self._store = store
        self._params = params
        self._is_owner = is_owner

    async def run(self) -> None:
        """Roll hours up at intervals until cancelled; waits while ClickHouse is unavailable."""
        while True:
            if self._is_owner():
                await retry_forever(self._params, "rollups by hour", lambda _: self._roll_up())
            await asyncio.sleep(INTERVAL_S)

    async def _roll_up(self) -> int:
        def roll_up() -> int:
            return roll_up_hours(self._client, self._store) + group_hours(self._client, self._store, WINDOW_HOURS)

        return await asyncio.to_thread(roll_up)
