"""What ClickHouse holds comes back as the messages that made it."""

import asyncio

import numpy as np

from streams.store import history
from streams.wire import topics
from streams.wire.models import CollectorStatus, Event, EventKind, Samples, Source, Table
from tests.integration.store.rig import NS, Database, Rig, producing, until


def _cells(table: Table, rows: tuple[str, ...]) -> dict[tuple[str, str, int], float]:
    """The cells that are there, by row and column: the order of columns is not kept."""
    absent = np.isnan(table.values) if table.values.dtype.kind == "f" else table.values == 2**64 - 1
    return {
        (row, metric.name, index): float(table.values[column, place])
        for column, (metric, index) in enumerate(zip(table.metric, table.index, strict=True))
        for place, row in enumerate(rows)
        if not absent[column, place]
    }


async def test_a_backtest_of_the_past_sees_what_was_sent(rig: Rig, database: Database) -> None:
    """Samples with lanes and absent cells, events and status come back whole, in the order of event time."""
    [sent] = rig.samples(1)
    at_ns = sent.sampled_at_ns
    event = Event(
        "leaf-0", "Ethernet3", EventKind.LINK_DOWN, at_ns + 1, at_ns + 1, Source.SOURCE_GNMI, "rig", 5, 1, "x"
    )
    status = CollectorStatus("rig", 5, Source.SOURCE_GNMI, "leaf-0", at_ns + 2, True, cadence_ns=10**10)
    async with producing(rig.kafka.bootstrap) as producer:
        for topic, message in (
            (topics.SAMPLES, sent),
            (topics.EVENTS, event),
            (topics.COLLECTOR_STATUS, status),
        ):
            await rig.send(producer, topics.encode(topic, message))
    database.start_sink()
    tables = ("samples", "events", "collector_status")
    assert await until(lambda: all(database.count(table) for table in tables))
    found = await asyncio.to_thread(lambda: list(history.messages(database.client, at_ns, at_ns + 10)))
    samples = [m for m in found if isinstance(m, Samples) and m.collector_run == sent.collector_run]
    assert event in found
    assert status in found
    [back] = samples
    assert (back.device, back.source, back.sequence, back.boot_id, back.row_kind) == (
        sent.device, sent.source, sent.sequence, sent.boot_id, sent.row_kind,
    )  # fmt: skip
    assert set(back.row) == set(sent.row)
    assert _cells(back.counters, back.row) == _cells(sent.counters, sent.row)
    assert _cells(back.gauges, back.row) == _cells(sent.gauges, sent.row)
    assert not list(history.messages(database.client, NS - 100, NS - 50))
