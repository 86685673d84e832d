"""Tests the rollups by hour: filled once an hour is over, and again where minutes or messages of it come later."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from streams.store.persist.hour_rollups import roll_up_hours
from tests.integration.fixtures_clickhouse import ClickHouse as Server
from tests.integration.store.tables import Row, Tables


@pytest.fixture
def tables(clickhouse: Server, clickhouse_database: Callable[[], str]) -> Tables:
    return Tables(clickhouse, clickhouse_database())


def hour(back: int) -> datetime:
    """Return the begin of an hour before the present one; that before it is rolled up five minutes after its end."""
    now = datetime.fromtimestamp(time.time(), UTC).replace(minute=0, second=0, microsecond=0, tzinfo=None)
    return now - timedelta(hours=back)


def minute(begin: datetime, offset_min: int, **others: Any) -> Row:
    """Return a minute of a port, in minutes since a time."""
    bucket = str(begin + timedelta(minutes=offset_min))
    return {
        "device": "host-0", "row": "eth1", "row_kind": "port", "source": "nic", "bucket": bucket, "readings": 6,
        "observed_s": 60, "arrived_at": bucket,
    } | others  # fmt: skip


def roll_up(tables: Tables) -> int:
    """Return how many hours were written."""
    return roll_up_hours(tables.client, tables.client.params)


def test_hours_are_rolled_up_once_and_again_with_late_minutes(tables: Tables) -> None:
    """An hour is the sum of its minutes; the averages of gauges count by their readings; the present hour waits."""
    begin = hour(2)

    def of(offset_min: int, grown: int, **others: Any) -> Row:
        return minute(begin, offset_min, tx_bytes_increase=grown, **others)

    tables.fill("samples_1m", [
        of(0, 10, pre_fec_ber_min=1, pre_fec_ber_max=3, pre_fec_ber_avg=2, oper_up_avg=0.5), of(59, 5, resets=1),
        of(30, 0, readings=2, pre_fec_ber_min=0, pre_fec_ber_max=9, pre_fec_ber_avg=6), of(120, 99),
    ])  # fmt: skip
    select = (
        "SELECT minutes, readings, observed_s, resets, tx_bytes_increase, pre_fec_ber_min, pre_fec_ber_max,"
        " pre_fec_ber_avg, oper_up_min, oper_up_avg, oper_up_max, rx_errors_increase FROM samples_1h"
    )
    assert roll_up(tables) == 1
    assert tables.rows(select) == [(3, 14, 180, 1, 15, 0, 9, 3, 0, 0.5, 1, None)]
    assert roll_up(tables) == 0
    tables.fill("samples_1m", [of(31, 7)])
    assert roll_up(tables) == 1
    assert [row[:5] for row in tables.rows(select)] == [(4, 20, 240, 1, 22)]


@pytest.mark.parametrize(
    ("table", "key"),
    [("samples", {"row_kind": "device", "row": ""}), ("sample_lanes", {"metric": "rx_power_dbm", "index": 0})],
)
def test_an_hour_with_only_a_default_in_its_key_is_replaced(tables: Tables, table: str, key: Row) -> None:
    """Rows of devices alone have no name of a port, and one lane is lane 0: that column of the part is empty."""
    begin = hour(2)
    for offset_min in range(2):
        tables.fill(f"{table}_1m", [minute(begin, offset_min, **key)])
        assert roll_up(tables) == 1
    assert tables.rows(f"SELECT minutes, readings FROM {table}_1h") == [(2, 12)]


def test_an_hour_is_rolled_up_if_the_server_has_only_its_token(tables: Tables) -> None:
    """A server that is killed between recording a token and storing its rows skips the token ever after."""
    begin = hour(2)
    tables.fill("samples_1m", [minute(begin, 0, readings=6)])
    key = "device, row, row_kind, source"
    tables.client.command(
        f"INSERT INTO samples_1h ({key}, bucket, readings, arrived_at)"
        f" SETTINGS insert_deduplication_token = 'samples_1h/{round(begin.replace(tzinfo=UTC).timestamp())}/6'"
        f" SELECT {key}, bucket - INTERVAL 1 DAY, readings, arrived_at FROM samples_1m"
    )
    assert roll_up(tables) == 1
    assert tables.rows("SELECT bucket, readings FROM samples_1h ORDER BY bucket DESC LIMIT 1") == [(begin, 6)]


def test_messages_are_rolled_up_by_their_hour_of_arrival_and_again_with_what_is_stored_later(tables: Tables) -> None:
    """A late message is in its own hour of sampling, and changes no earlier row; the present hour waits.

    No row has a collector, and the hour is deleted before it is replaced: a column of the order has only defaults.
    """
    begin = hour(3)

    def message(sampled_s: float, delay_s: float, rows: int, run: int = 7, device: str = "leaf-0") -> Row:
        sampled = begin + timedelta(seconds=sampled_s)
        return {
            "device": device, "source": "gnmi", "row_kind": "port", "collector_run": run, "rows": rows,
            "sampled_at": str(sampled), "arrived_at": str(sampled + timedelta(seconds=delay_s)),
        }  # fmt: skip

    def hours() -> list[tuple[Any, ...]]:
        return tables.rows(
            "SELECT device, dateDiff('hour', arrived_hour, bucket), messages, rows, minutes,"
            f" dateDiff('second', toDateTime('{begin}', 'UTC'), last_sampled_at), delay_p99_s, arraySort(runs),"
            " arrived_at FROM sample_messages_1h FINAL ORDER BY device, arrived_hour, bucket"
        )

    tables.fill("sample_messages", [
        message(0, 1, 8), message(59, 1, 8), message(3599, 0.5, 8, run=9), message(-3600, 3700, 4),
        message(9, 0, 2, device="leaf-1"), message(3 * 3600, 1, 8),
    ])  # fmt: skip
    assert roll_up(tables) == 1
    late = ("leaf-0", -1, 1, 4, 1, -3600, 3700, [7], begin + timedelta(seconds=100))
    other = ("leaf-1", 0, 1, 2, 1, 9, 0, [7], begin + timedelta(seconds=9))
    newest = begin + timedelta(seconds=3599.5)
    assert hours() == [
        late, ("leaf-0", 0, 3, 24, 1 | 1 << 59, 3599, pytest.approx(1), [7, 9], newest), other,
    ]  # fmt: skip
    assert roll_up(tables) == 0
    tables.fill("sample_messages", [message(120, 2, 8), message(3590, 20, 5)])
    assert roll_up(tables) == 2, "that of the message, and that in which one arrived"
    assert [row[:5] for row in hours()] == [
        late[:5], ("leaf-0", 0, 4, 32, 1 | 1 << 2 | 1 << 59), ("leaf-0", -1, 1, 5, 1 << 59), other[:5],
    ]  # fmt: skip
    assert roll_up(tables) == 0


def test_messages_of_a_device_with_a_wrong_clock_are_rolled_up(tables: Tables) -> None:
    """Hours are those of arrival: a clock that is days behind or ahead loses no message."""
    arrived = hour(2)
    tables.fill("sample_messages", [
        {"device": "leaf-0", "source": "gnmi", "sampled_at": str(arrived + timedelta(days=days)), "rows": 8,
         "arrived_at": str(arrived)}
        for days in (-900, -1, 1)
    ])  # fmt: skip
    assert roll_up(tables) == 1
    assert tables.rows("SELECT count(), sum(messages), sum(rows) FROM sample_messages_1h") == [(3, 3, 24)]
    assert roll_up(tables) == 0
