"""Tests that a constant rate is constant on boards of an hour, a day and five days, up to the last bucket.

A host's rail sends at a known rate to its leaf. The last 90 minutes are stored as readings, the last six hours as
minutes, and the hours before them by the hour only, as after the retention of minutes. Ports are read one after another
within ten seconds, so that the picker's end falls between them.
"""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from dashboards.queries import congestion, job, link, pipeline, rails
from dashboards.queries.query import MINUTES_UP_TO_S, NONE, RAW_UP_TO_S, Query
from streams.store.clickhouse import ClickHouse as Store
from streams.store.persist.group_rollups import group_hours
from streams.store.persist.hour_rollups import IN_ORDER, hour_of
from tests.integration.dashboards.fabric import NOW, Board, at
from tests.integration.fixtures_clickhouse import ClickHouse

HOUR, DAY = 3600, 86_400
HOURS_FROM = (NOW - 6 * DAY) // HOUR * HOUR
MINUTES_FROM = NOW // HOUR * HOUR - 6 * HOUR
BITS_PER_S = 8e9
FRAMES_PER_S = 40.0
POWER_DBM = -2.0
LANES = 4
SUBJECT = "link:host-1/eth0--leaf-1/p1"
PORTS = "(SELECT arrayJoin([('host-1', 'eth0', 'nic', 0), ('leaf-1', 'p1', 'gnmi', 7)]) AS one)"
IDENTITY = "one.1 AS device, one.2 AS row, 'port' AS row_kind, one.3 AS source"


def _inventory() -> dict[str, list[dict[str, Any]]]:
    new = {"digest": "one", "effective_at": at(7 * DAY), "arrived_at": at(7 * DAY), "pod": "pod-1"}
    ends = {"a_device": "host-1", "a_port": "eth0", "z_device": "leaf-1", "z_port": "p1"}
    return {
        "inventory_devices": [{**new, "name": "host-1", "kind": "host"}, {**new, "name": "leaf-1", "kind": "switch"}],
        "inventory_links": [
            {**new, **ends, "id": "l", "role": "host-link", "rail": 0, "speed_bps": 16_000_000_000},
        ],
    }


def _fill(store: Store) -> None:
    begin, readings = NOW - 5400, 540
    read = f"toDateTime64({begin} + number * 10 + one.4, 9, 'UTC')"
    store.command(
        "INSERT INTO samples (device, row, row_kind, source, boot_id, sampled_at, arrived_at, rx_bytes, tx_bytes,"
        f" rx_discards, roce_ecn_marked_packets) SELECT {IDENTITY}, 1, {read} AS read, read,"
        f" (number * 10 + one.4) * {BITS_PER_S / 8:.0f} AS bytes, bytes, (number * 10 + one.4) * {FRAMES_PER_S:.0f} AS"
        f" frames, frames FROM {PORTS} AS ports CROSS JOIN numbers({readings}) AS n"
    )
    store.command(
        "INSERT INTO sample_messages (device, source, row_kind, rows, sampled_at, received_at, arrived_at)"
        f" SELECT one.1, one.3, 'port', 1, {read} AS read, read, read"
        f" FROM {PORTS} AS ports CROSS JOIN numbers({readings}) AS n WHERE number * 10 + one.4 <= 5370"
    )
    lane = f"(SELECT toInt32(number) AS lane FROM numbers({LANES})) AS lanes"
    lanes = f"(SELECT one, lane FROM {PORTS} AS ports CROSS JOIN {lane})"
    for metric, counter, gauge in (
        ("rx_power_dbm", "NULL", f"{POWER_DBM} - lane"),
        ("pfc_rx_frames", f"(number * 10 + one.4) * {FRAMES_PER_S:.0f}", "NULL"),
    ):
        store.command(
            "INSERT INTO sample_lanes (device, row, row_kind, source, metric, `index`, sampled_at, arrived_at, counter,"
            f" gauge) SELECT {IDENTITY}, '{metric}', lane, {read} AS read, read, {counter}, {gauge}"
            f" FROM {lanes} AS ports CROSS JOIN numbers({readings}) AS n"
        )
    # A minute is stored with the first reading after it.
    for size, first, step, until in (("1h", HOURS_FROM, HOUR, MINUTES_FROM), ("1m", MINUTES_FROM, 60, NOW - 60)):
        bucket = f"toDateTime({first} + number * {step}, 'UTC')"
        counted = "minutes, readings" if size == "1h" else "readings"
        counts = "60, 360" if size == "1h" else "6"
        rows = f"numbers({(until - first) // step}) AS n"
        store.command(
            f"INSERT INTO samples_{size} (device, row, row_kind, source, bucket, {counted}, observed_s, arrived_at,"
            f" rx_bytes_increase, tx_bytes_increase, rx_discards_increase, roce_ecn_marked_packets_increase)"
            f" SELECT {IDENTITY}, {bucket} AS bucket, {counts}, {step}, toDateTime64(bucket, 3, 'UTC'),"
            f" {BITS_PER_S / 8 * step:.0f} AS bytes, bytes, {FRAMES_PER_S * step:.0f} AS frames, frames"
            f" FROM {PORTS} AS ports CROSS JOIN {rows}"
        )
        for metric, increase, value in (
            ("rx_power_dbm", "NULL", f"{POWER_DBM} - lane"),
            ("pfc_rx_frames", f"{FRAMES_PER_S * step:.0f}", "NULL"),
        ):
            store.command(
                f"INSERT INTO sample_lanes_{size} (device, row, row_kind, source, metric, `index`, bucket, {counted},"
                f" observed_s, arrived_at, increase, value_min, value_max, value_avg) SELECT {IDENTITY}, '{metric}',"
                f" lane, {bucket} AS bucket, {counts}, {step}, toDateTime64(bucket, 3, 'UTC'), {increase}, {value} AS"
                f" value, value, value FROM {lanes} AS ports CROSS JOIN {rows}"
            )
    # The hours that are over come from their minutes, as the sink rolls them up.
    for hour in range(MINUTES_FROM, MINUTES_FROM + 5 * HOUR, HOUR):
        for table in ("samples", "sample_lanes"):
            rolled = hour_of(store, table, hour)
            store.command(f"INSERT INTO {table}_1h ({rolled.columns}) {rolled.select} SETTINGS {IN_ORDER}")


def _filled(made: Board) -> Board:
    made.fill(_inventory())
    made.with_store(_fill)
    made.with_store(lambda store: group_hours(store, store.params, window_hours=7 * 24))
    return made


@pytest.fixture(scope="module")
def steady(clickhouse: ClickHouse) -> Iterator[Board]:
    """Return the boards over the constant rate, for tests that change nothing."""
    name = f"steady_{uuid.uuid4().hex[:12]}"
    clickhouse.execute(f"CREATE DATABASE {name}")
    yield _filled(Board(clickhouse, name))
    clickhouse.execute(f"DROP DATABASE IF EXISTS {name} SYNC")


SERIES: dict[str, tuple[Query, dict[str, float]]] = {
    "traffic": (link.TRAFFIC, {"A receives": BITS_PER_S, "A sends": BITS_PER_S, "Z receives": BITS_PER_S}),
    "light": (link.LIGHT, {f"A received lane {lane}": POWER_DBM - lane for lane in range(LANES)}),
    "paused": (congestion.PAUSED, {"host is paused": LANES * FRAMES_PER_S, "switch is paused": LANES * FRAMES_PER_S}),
    "marked": (congestion.MARKED, {"ECN marked, received by NICs": 2 * FRAMES_PER_S}),
    "discards": (congestion.DISCARDS, {"host discards in": FRAMES_PER_S, "switch discards in": FRAMES_PER_S}),
    "delivered": (rails.DELIVERED, {"rail 0": 0.5}),
    "job": (job.AGAINST_FABRIC, {"other hosts": 0.5}),
}


OF_GROUPS = {"paused", "marked", "discards", "delivered", "job"}
"""A range of days ends with the newest hour where it has all ports of a fabric."""


@pytest.mark.parametrize(
    ("range_s", "interval_s"), [(HOUR, 10), (HOUR, 30), (DAY // 4, 60), (DAY, 120), (5 * DAY, 600)]
)
def test_a_constant_rate_does_not_dip_at_the_end(steady: Board, range_s: int, interval_s: int) -> None:
    """Neither in the last bucket, which is incomplete, nor where hours, minutes and readings meet."""
    for end in (NOW - 60, NOW - 64):  # between the readings of both ports
        for name, (query, expected) in SERIES.items():
            rows = steady.ask(
                query, pods=("pod-1", NONE), interval_s=interval_s, to=end, since=end - range_s,
                texts={"subject": SUBJECT},
            )  # fmt: skip
            for series, level in expected.items():
                found = [row for row in rows if row["series"] == series]
                values = [float(list(row.values())[-1]) for row in found]
                assert values and values == pytest.approx([level] * len(values), rel=0.001), (name, series, end)
                first, last = found[0]["time"], found[-1]["time"]
                if range_s == DAY and name not in OF_GROUPS:
                    continue  # in minutes, of which there are six hours
                begun_s = 2 * HOUR if range_s >= DAY else 150
                assert first <= at(NOW - end + range_s - begun_s), name
                behind_s = 3 * HOUR if range_s > MINUTES_UP_TO_S and name in OF_GROUPS else 60
                assert last >= at(NOW - end + 2 * max(interval_s, 60) + behind_s), (name, last)


def test_rows_counted_over_time_do_not_dip(steady: Board) -> None:
    """The newest rows are not stored yet: the sink waits up to 30 s."""
    for interval_s in (10, 60):
        for end in (NOW, NOW - 4):
            rows = steady.ask(pipeline.ROW_RATE, interval_s=interval_s, to=end, since=end - HOUR)
            assert rows and {row["rate"] for row in rows} == {0.1}, (interval_s, end)


def test_a_range_is_read_from_the_table_of_its_length(empty: Board) -> None:
    """Of hours a board over days reads few rows; between, minutes; readings up to three hours."""
    empty.fill(_inventory())
    empty.with_store(_fill)
    empty.execute("TRUNCATE TABLE samples")
    empty.execute("TRUNCATE TABLE sample_lanes")

    def points(range_s: int, query: Query) -> int:
        return len(empty.ask(query, to=NOW - 60, since=NOW - 60 - range_s, interval_s=20, texts={"subject": SUBJECT}))

    for query, series in ((link.TRAFFIC, 4), (link.LIGHT, 2 * LANES)):
        assert points(RAW_UP_TO_S, query) == 0
        assert points(RAW_UP_TO_S + 60, query) > series * 170
        hours = MINUTES_UP_TO_S // HOUR
        assert series * (hours + 40) < points(MINUTES_UP_TO_S + 60, query) < series * (hours + 120), (
            "and two in minutes"
        )
    empty.execute("TRUNCATE TABLE samples_1h")
    assert points(MINUTES_UP_TO_S + 60, link.TRAFFIC) > 4 * 300, "minutes alone, where no hour was rolled up"


def test_a_fabric_over_days_is_read_in_groups(empty: Board) -> None:
    """Of ports nothing is read, unless no groups were made: then their minutes."""
    _filled(empty)

    def found(range_s: int) -> dict[str, int]:
        end = NOW - 60
        return {
            name: len(empty.ask(SERIES[name][0], pods=("pod-1", NONE), to=end, since=end - range_s, interval_s=600))
            for name in sorted(OF_GROUPS)
        }

    before = found(5 * DAY), found(DAY)
    for table in ("samples_1h", "sample_lanes_1h", "samples", "sample_lanes"):
        empty.execute(f"TRUNCATE TABLE {table}")
    assert found(5 * DAY) == before[0]
    assert found(DAY) == before[1]
    for table in ("samples_1m", "sample_lanes_1m"):
        empty.execute(f"TRUNCATE TABLE {table}")
    assert found(5 * DAY) == before[0]
    assert all(0 < rows < more for rows, more in zip(found(DAY).values(), before[1].values(), strict=True))
    empty.execute("TRUNCATE TABLE port_groups_1h")
    empty.with_store(_fill)
    groups, minutes = before[0], found(5 * DAY)
    assert set(minutes) == set(groups)
    assert all(minutes.values()), "minutes alone, where no group was made"
