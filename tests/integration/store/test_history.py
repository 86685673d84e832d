"""Tests that stored rows are restored as the messages that made them."""

import asyncio
from dataclasses import replace

import numpy as np

from streams.store.queries import history
from streams.wire import topics
from streams.wire.models import (
    CollectorStatus,
    Component,
    Control,
    ControlKind,
    Event,
    EventKind,
    Facts,
    Message,
    Neighbor,
    Samples,
    Source,
    Table,
)
from tests.integration.store.rig import NS, Database, Rig, until

Messages = list[tuple[topics.Topic, Message]]


def _cells(table: Table, rows: tuple[str, ...]) -> dict[tuple[str, str, int], float]:
    """Return the present cells by row and column, because the order of columns may differ."""
    absent = np.isnan(table.values) if table.values.dtype.kind == "f" else table.values == 2**64 - 1
    return {
        (row, metric.name, index): float(table.values[column, place])
        for column, (metric, index) in enumerate(zip(table.metric, table.index, strict=True))
        for place, row in enumerate(rows)
        if not absent[column, place]
    }


async def test_history_has_the_messages_that_were_sent(rig: Rig, database: Database) -> None:
    """Samples with lanes and absent cells, events and statuses are restored completely."""
    [sent] = rig.samples(1)
    at_ns = sent.sampled_at_ns
    event = Event(
        "leaf-0", "Ethernet3", EventKind.LINK_DOWN, at_ns + 1, at_ns + 1, Source.SOURCE_GNMI, "rig", 5, 1, "x"
    )
    status = CollectorStatus("rig", 5, Source.SOURCE_GNMI, "leaf-0", at_ns + 2, True, cadence_ns=10**10)
    messages: list[tuple[topics.Topic, Message]] = [
        (topics.SAMPLES, sent),
        (topics.EVENTS, event),
        (topics.COLLECTOR_STATUS, status),
    ]
    await database.hold(messages, dict.fromkeys(("samples", "events", "collector_status"), 1))
    found = await asyncio.to_thread(lambda: list(history.messages(database.client, at_ns, at_ns + 10)))
    samples = [m for m in found if isinstance(m, Samples) and m.collector_run == sent.collector_run]
    assert event in found
    assert status in found
    [restored] = samples
    assert (restored.device, restored.source, restored.sequence, restored.boot_id, restored.row_kind) == (
        sent.device, sent.source, sent.sequence, sent.boot_id, sent.row_kind,
    )  # fmt: skip
    assert set(restored.row) == set(sent.row)
    assert _cells(restored.counters, restored.row) == _cells(sent.counters, sent.row)
    assert _cells(restored.gauges, restored.row) == _cells(sent.gauges, sent.row)
    assert not list(history.messages(database.client, NS - 100, NS - 50))


async def test_rows_later_than_their_message_belong_to_it(rig: Rig, database: Database) -> None:
    """A slow walk reads its last rows seconds after the first; they stay in one message, even at a window's end."""
    one, other = rig.samples(2)
    delays = tuple(range(0, 500_000 * len(one.row), 500_000))
    slow = replace(one, row_delay_us=delays)
    await database.hold([(topics.SAMPLES, message) for message in (slow, other)], {})
    sent = {(message.device, message.sequence) for message in (one, other)}
    assert await until(lambda: sent <= set(database.stored()))
    begin, end = sorted(message.sampled_at_ns for message in (one, other))
    found = await asyncio.to_thread(lambda: list(history.messages(database.client, begin, end + 10**9)))
    samples = {m.device: m for m in found if isinstance(m, Samples) and (m.device, m.sequence) in sent}
    assert set(samples) == {one.device, other.device}
    restored = samples[slow.device]
    assert dict(zip(restored.row, restored.row_delay_us, strict=True)) == dict(zip(slow.row, delays, strict=True))
    assert _cells(restored.counters, restored.row) == _cells(slow.counters, slow.row)
    assert _cells(restored.gauges, restored.row) == _cells(slow.gauges, slow.row)


async def test_facts_and_controls_in_effect_at_the_start_come_first(rig: Rig, database: Database) -> None:
    """The newest facts of each device before the start, and the exclusions, precede the history."""
    fan = Component("e1", "optic", "PN1", "S1", "4.2", ("Ethernet1",), {"rx_power_dbm": -9.5})
    facts = [
        Facts(
            "leaf-0", NS - 20 + n, Source.SOURCE_GNMI, "v", "m", f"4.{n}", 7, "s", (fan,), (Neighbor("e1", "x", "y"),)
        )
        for n in range(2)
    ]
    exclusion = Control("ban", ControlKind.EXCLUDE, "device:leaf-0", NS - 10, None, "me", "why")
    messages: list[tuple[topics.Topic, Message]] = [
        *((topics.FACTS, fact) for fact in facts),
        (topics.CONTROLS, exclusion),
    ]
    await database.hold(messages, {"facts": 2, "controls": 1})
    found = await asyncio.to_thread(lambda: list(history.messages(database.client, NS, NS + 1)))
    assert [m for m in found if isinstance(m, Facts | Control)] == [facts[1], exclusion]
