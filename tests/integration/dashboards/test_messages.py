"""Tests that boards over a week show the same from messages by the hour as from the messages one by one.

Two hosts and two leaves are read every minute. One leaf is silent for five hours, and later sends what it sampled in
two of them; another is silent since a day; the clock of one is seven hours behind; a collector restarted.
"""

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest

from dashboards.queries import fabric, host, job, pipeline
from dashboards.queries.messages import MESSAGES_UP_TO_S
from dashboards.queries.query import NONE, Query
from streams.store.clickhouse import ClickHouse as Store
from streams.store.persist.hour_rollups import IN_ORDER, hour_of
from tests.integration.dashboards.fabric import NOW, Board, Rows, at
from tests.integration.fixtures_clickhouse import ClickHouse

MINUTE, HOUR, DAY = 60, 3600, 86_400
SINCE = NOW - 6 * DAY - 23 * MINUTE
"""Within an hour, as the range's end is."""
UNTIL = NOW // HOUR * HOUR - HOUR
"""The newest hour that is over is not rolled up yet."""
PAST = NOW - 2 * DAY - 40 * MINUTE
SILENT = range(NOW - 3 * DAY - 20 * MINUTE, NOW - 3 * DAY + 5 * HOUR)
SENT_LATER = range(SILENT.start, SILENT.start + 2 * HOUR)
DEVICES = [("host-1", "pod-1", "host"), ("leaf-1", "pod-1", "switch"), ("host-2", "pod-2", "host"),
           ("leaf-2", "pod-2", "switch")]  # fmt: skip
QUERIES: dict[str, Query] = {
    "observed": fabric.COVERAGE_COUNT, "not collected": fabric.UNCOLLECTED, "health": fabric.HEALTH,
    "by pod": fabric.COVERAGE, "silent": fabric.STALE, "about": host.ABOUT, "job": job.COVERAGE, "verdict": job.VERDICT,
    "hosts": job.HOSTS, "places": job.PLACES, "collectors": pipeline.COLLECTORS,
}  # fmt: skip
CHARTS: dict[str, tuple[Query, str]] = {
    "sampled": (pipeline.ROW_RATE, "source"), "delay": (pipeline.ARRIVAL_DELAY, "source"),
    "stored": (pipeline.STORED_RATE, "kind"),
}  # fmt: skip


def _inventory() -> dict[str, Rows]:
    new = {"digest": "one", "effective_at": at(9 * DAY), "arrived_at": at(9 * DAY)}
    link = {**new, "a_port": "eth0", "z_port": "p1", "role": "host-link", "rail": 0, "speed_bps": 10**9}
    return {
        "inventory_devices": [{**new, "name": name, "pod": pod, "kind": kind} for name, pod, kind in DEVICES],
        "inventory_links": [
            {**link, "id": pod, "pod": pod, "a_device": f"host-{pod[-1]}", "z_device": f"leaf-{pod[-1]}"}
            for pod in ("pod-1", "pod-2")
        ],
        "inventory_jobs": [
            {**new, "job": "train", "device": name, "start": at(5 * DAY + 17 * MINUTE), "end": at(DAY - 13 * MINUTE)}
            for name in ("host-1", "host-2")
        ],
        "progress": [{"stage": "measure", "partition": 0, "epoch": 1, "records": 1, "arrived_at": at(5)}],
        "collector_status": [
            {
                "device": name,
                "source": "gnmi",
                "collector": f"c-{pod}",
                "at": at(8 * DAY),
                "reachable": True,
                "error": "",
            }
            | {"cadence_ns": 60 * 10**9, "arrived_at": at(8 * DAY)}
            for name, pod, _ in DEVICES
        ],
    }


def _fill(store: Store) -> None:
    """Insert a message a minute; 30 s after it was sampled it arrives, of the hosts in the next hour once an hour."""
    late_s = SILENT.stop - SILENT.start
    sampled = {  # when, since when, until when, clock offset, delay, run
        "host-1": ("1", 0, 30, 7),
        "host-2": (f"at < {NOW - DAY}", 0, 30, 7),
        "leaf-1": ("1", -7 * HOUR, 30, f"if(at < {NOW - 2 * DAY}, 7, 9)"),
        "leaf-2": (f"NOT (at BETWEEN {SILENT.start} AND {SILENT.stop})", 0, 30, 7),
        "leaf-2 late": (f"at BETWEEN {SENT_LATER.start} AND {SENT_LATER.stop}", 0, late_s, 7),
    }
    for name, (when, offset_s, delay_s, run) in sampled.items():
        device = name.split()[0]
        store.command(
            "INSERT INTO sample_messages (device, source, row_kind, collector, collector_run, rows, sampled_at,"
            f" arrived_at) SELECT '{device}', 'gnmi', 'port', 'c-pod-{device[-1]}', {run}, 8,"
            f" toDateTime64(at + {offset_s}, 9, 'UTC'), toDateTime64(at + {delay_s}, 3, 'UTC')"
            f" FROM (SELECT {NOW - 7 * DAY} + number * 60 + 1 AS at FROM numbers({7 * DAY // MINUTE}))"
            f" WHERE {when} AND at + {delay_s} <= {NOW}"
        )


def _roll_up(store: Store) -> None:
    for begin in range((NOW - 7 * DAY) // HOUR * HOUR, UNTIL, HOUR):
        hour = hour_of(store, "sample_messages", begin)
        store.command(f"INSERT INTO sample_messages_1h ({hour.columns}) {hour.select} SETTINGS {IN_ORDER}")


def _rolled_up(store: Store) -> None:
    """Leave no message that is rolled up."""
    _fill(store)
    _roll_up(store)
    store.command(f"DELETE FROM sample_messages WHERE arrived_at < toDateTime({UNTIL}, 'UTC')")


def _partly_rolled_up(store: Store) -> None:
    """Leave some hours and the first two days out, as if rollups began then."""
    _fill(store)
    _roll_up(store)
    begin, gap = NOW // DAY * DAY - 4 * DAY, NOW // HOUR * HOUR - 50 * HOUR
    store.command(
        f"DELETE FROM sample_messages_1h WHERE arrived_hour < toDateTime({begin}, 'UTC')"
        f" OR arrived_hour >= toDateTime({gap}, 'UTC') AND arrived_hour < toDateTime({gap + 3 * HOUR}, 'UTC')"
    )


Made = Callable[[Callable[[Store], None]], Board]


@pytest.fixture(scope="module")
def made(clickhouse: ClickHouse) -> Iterator[Made]:
    """Return a function that makes the boards of a filled database, once for each filling."""
    boards: dict[str, Board] = {}

    def make(fill: Callable[[Store], None]) -> Board:
        name = f"messages{fill.__name__}"
        if name not in boards:
            clickhouse.execute(f"CREATE DATABASE {name}")
            boards[name] = Board(clickhouse, name)
            boards[name].with_store(fill)
            boards[name].fill(_inventory())
        return boards[name]

    yield make
    for name in boards:
        clickhouse.execute(f"DROP DATABASE {name} SYNC")


def ask(board: Board, query: Query, interval_s: int = 600, **given: int) -> Rows:
    texts = {"job": "train", "host": "host-2"}
    return board.ask(query, ("pod-1", "pod-2", NONE), interval_s, texts=texts, **{"since": SINCE, "to": NOW, **given})


def _seconds(clock: str) -> float:
    return datetime.fromisoformat(f"{clock[:26]}+00:00").timestamp()


# The last hour of a range in the past is read by message.
@pytest.mark.parametrize(("rolled", "end"), [(_rolled_up, NOW), (_partly_rolled_up, NOW), (_partly_rolled_up, PAST)])
@pytest.mark.parametrize("name", QUERIES)
def test_hours_and_messages_give_the_same_answer(
    made: Made, rolled: Callable[[Store], None], end: int, name: str
) -> None:
    """From the minute in which the range begins to its end, also where hours are missing."""
    expected = ask(made(_fill), QUERIES[name], to=end)
    found = ask(made(rolled), QUERIES[name], to=end)
    assert expected or (name, end) == ("silent", PAST)
    for row in expected:
        if "row_rate" in row:  # of the first hour by its share
            row["row_rate"] = pytest.approx(row["row_rate"], rel=0.001)
    if end != NOW:  # the newest of what arrived hours after the range's end is known to the range's end
        for row in (*expected, *found):
            if row.get("last_sample"):
                row["last_sample"] = _seconds(row["last_sample"])
        for row in expected:
            if row.get("last_sample"):
                row["last_sample"] = pytest.approx(row["last_sample"], abs=MINUTE)
    assert found == expected


@pytest.mark.parametrize("rolled", [_rolled_up, _partly_rolled_up])
@pytest.mark.parametrize("name", CHARTS)
def test_charts_by_the_hour_have_the_same_points(made: Made, rolled: Callable[[Store], None], name: str) -> None:
    """From the first whole hour; with steps below an hour, a point for each hour until the messages begin."""
    query, series = CHARTS[name]

    def points(board: Board, interval_s: int) -> dict[tuple[Any, Any], Any]:
        return {(row["time"], row[series]): list(row.values())[-1] for row in ask(board, query, interval_s)}

    expected, found = points(made(_fill), HOUR), points(made(rolled), HOUR)
    first = min(found)[0]
    assert first <= at(NOW - SINCE - HOUR)
    # A percentile of percentiles: of four devices one is hours late.
    rel = 0.05 if name == "delay" else 1e-6
    assert found == pytest.approx({key: value for key, value in expected.items() if key[0] >= first}, rel=rel)
    fine, raw = points(made(rolled), 600), points(made(_fill), 600)
    until = at(NOW - UNTIL)[:19]
    """As the rows' times are, which have no fraction."""
    if rolled is _rolled_up:
        hours = {key: value for key, value in fine.items() if key[0] < until}
        assert hours == pytest.approx({key: value for key, value in found.items() if key[0] < until})
    after = {key: value for key, value in fine.items() if key[0] >= until}
    assert after == pytest.approx({key: value for key, value in raw.items() if key[0] >= until})
    assert len(after) > 4


@pytest.mark.parametrize("fill", [_fill, _rolled_up])
def test_a_host_is_observed_while_its_leaf_is_read(made: Made, fill: Callable[[Store], None]) -> None:
    """The second host is silent since a day; its leaf is read to the end."""
    rows = [row for row in ask(made(fill), job.HOSTS) if row["host"] == "host-2"]
    assert len(rows) > 6 * 144 and {row["health"] for row in rows} == {0}
    if fill is _fill:
        rows = ask(made(fill), job.HOSTS, interval_s=60, since=NOW - DAY, to=NOW - DAY + HOUR)
        assert {(row["host"], row["health"]) for row in rows} == {("host-1", 0), ("host-2", 0)}


def test_the_age_of_the_newest_row_is_that_of_the_newest_message(made: Made) -> None:
    """It is against the clock, and found without reading what is rolled up."""
    for board in (made(_fill), made(_rolled_up)):
        board.execute("TRUNCATE TABLE progress")
        since_s = time.time() - NOW
        (row,) = ask(board, pipeline.SINK_DELAY)
        board.fill({"progress": _inventory()["progress"]})
        assert since_s <= row["delay"] + 1 <= time.time() - NOW + 2 * MINUTE


def test_short_ranges_read_messages_alone(made: Made) -> None:
    """Up to twelve hours the hours are not read; beyond, nothing but the hours and what they lack."""
    for fill, short, long in ((_rolled_up, False, True), (_fill, True, True)):
        board = made(fill)
        for range_s, expected in ((MESSAGES_UP_TO_S, short), (MESSAGES_UP_TO_S + 60, long)):
            (row,) = ask(board, job.COVERAGE, since=NOW - DAY - range_s, to=NOW - DAY)
            assert (row["seen"] > 0.9) is expected, (fill.__name__, range_s)
