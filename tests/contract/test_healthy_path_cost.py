"""Bounds the cost of a healthy message by counts, not times: calls, objects made, and parses of the same bytes.

A message of 128 rows must cost as many calls as one of 8, because nothing on this path may run for a row; and a batch
must cost little more than its messages, because what it needs beside them is paid once. The bounds are today's counts
with some headroom: a commit that raises one states what it gains.
"""

import gc
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from streams.detect.measure.stage import Measure
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.store.rows.deduplication import SequenceDedup
from streams.store.rows.row_builder import SourcedMessage
from streams.store.rows.sample_rows import SampleBuilder
from streams.wire import topics
from streams.wire.batch_fetch import drain_fetched
from streams.wire.models import CollectorStatus, Message, RowKind, Samples, Source, Table
from tests.fakes.kafka_fetcher import IN, Consumer, batch
from tests.fixtures.call_counting import counting
from tests.worlds.measure_stage import detected

ROWS = (8, 128)
SMALL, LARGE = 16, 64
"""Messages in a batch."""

_KNOWN = 9
"""Readings after which it is known that a port's counters are refreshed for each reading."""

SECOND = 10**9
SCALARS = [metric for metric in Metric if metric.index is None]
COUNTERS = tuple(metric for metric in SCALARS if metric.counter)[:20]
GAUGES = (Metric.OPER_UP, Metric.ADMIN_UP, Metric.SPEED_BPS, Metric.MODULE_TEMPERATURE_C)

DECODE_CALLS = 20
DECODE_OBJECTS = 9
OTHER_DECODE_CALLS = 12
"""Of them 4 for the bounds of all fields (0.5 of 2.8 µs): a value beyond them ended a stage at its next snapshot."""

FETCHED_CALLS_A_BATCH = 40
MEASURE_CALLS = 40
MEASURE_CALLS_A_BATCH = 174
"""Two of them compare gauges with the limits beyond which a reading counts for its window, not only its last. Eight
are the heartbeat of the states of ports: one in 10 s of event time, so one in every batch here. Three find gauges
beyond all bounds. Four compare what NICs drop with the limit of congestion/incast. Three find timeouts of senders.
Sixteen find full links: with the times of probes they are incasts that no other counter shows. Eight find counters
that were not refreshed, and states and levels that other readings of the port refute. Eleven are those of a device
that has been read for longer than `_KNOWN` readings. One asks whether several collectors read the devices.
"""

CLOSING_CALLS = 40
CLOSING_CALLS_A_BATCH = 284
"""In a batch in which a minute of each of its devices is final: one in six at a cadence of 10 s.

What a message costs more then is to know which of its ports are rails.
"""
SINK_CALLS = 45
SINK_CALLS_A_BLOCK = 1100


def reading(device: int, rows: int, turn: int) -> Samples:
    """Bytes and packets that grow, errors that do not, ports that are up."""
    moving = [metric in (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_PACKETS, Metric.TX_PACKETS) for metric in COUNTERS]
    counters = np.where(np.array(moving)[:, None], np.uint64(turn * 10**4), np.uint64(7)).repeat(rows, axis=1)
    at_ns = (1_000_000 + 10 * turn) * SECOND + device
    return Samples(
        f"device-{rows}-{device}", Source.SOURCE_GNMI, "guard", 1, turn, at_ns, at_ns, 1, RowKind.ROW_KIND_PORT,
        tuple(f"Ethernet{port}" for port in range(rows)), rows, Table(COUNTERS, (-1,) * len(COUNTERS), counters),
        Table(GAUGES, (-1,) * len(GAUGES), np.ones((len(GAUGES), rows))),
    )  # fmt: skip


def records(rows: int, count: int, turn: int) -> list[bytes]:
    """The values of one round's records."""
    values = (topics.encode(topics.SAMPLES, reading(device, rows, turn)).value for device in range(count))
    return [value for value in values if value is not None]


def decoded(values: Sequence[bytes]) -> list[Message]:
    return [topics.decode(topics.SAMPLES, value) for value in values]


def measuring(stage: Measure, rows: int, count: int) -> Counter[str]:
    """The calls of one batch, of devices that the stage knows well."""
    for turn in range(_KNOWN):
        assert detected(stage.process(decoded(records(rows, count, turn)))) == []
    batch = decoded(records(rows, count, _KNOWN))
    with counting() as counted:
        stage.process(batch)
    return counted


def closing(rows: int, count: int) -> Counter[str]:
    """The calls of one batch with which a window of event time is final for each device."""
    own = stage()
    for turn in range(_KNOWN + 2):
        assert detected(own.process(decoded(records(rows, count, turn)))) == []
    batch = decoded(records(rows, count, _KNOWN + 2))
    with counting() as counted:
        own.process(batch)
    assert counted["WindowSelector.select"] >= 1
    return counted


def stage(kind: type[Measure] = Measure) -> Measure:
    """A stage that is ready."""
    made = kind(DetectParams())
    made.start_epoch(1)
    return made


def sinking(rows: int, count: int) -> Counter[str]:
    """The calls of one block of the sink, as far as its builder goes."""
    builder = SampleBuilder(SequenceDedup(3_600_000))
    for turn in (0, 1):
        batch = decoded(records(rows, count, turn))
        with counting() as counted:
            for offset, message in enumerate(batch):
                builder.add(SourcedMessage(0, offset, 1_700_000_000_000, message))
            builder.finish()
    return counted


def a_message_and_a_batch(counts: Callable[[int], int]) -> tuple[float, float]:
    """Return the cost of one more message, and the fixed cost of a batch."""
    small, large = counts(SMALL), counts(LARGE)
    marginal = (large - small) / (LARGE - SMALL)
    return marginal, small - SMALL * marginal


def hold_measure_to_its_bounds(kind: type[Measure] = Measure) -> None:
    """Raise AssertionError where a message or a batch costs more than it may, or a row costs anything."""
    costs = {
        rows: a_message_and_a_batch(lambda count, rows=rows: measuring(stage(kind), rows, count).total())  # type: ignore[misc]
        for rows in ROWS
    }
    assert len(set(costs.values())) == 1, costs
    for marginal, fixed in costs.values():
        assert marginal <= MEASURE_CALLS, costs
        assert fixed <= MEASURE_CALLS_A_BATCH, costs


def test_no_row_is_met_in_decoding() -> None:
    """A message of 128 rows is decoded with the calls of one of 8, and they are few."""
    calls = {}
    for rows in ROWS:
        decoded(records(rows, LARGE, 0))
        values = records(rows, LARGE, 1)
        with counting() as counted:
            decoded(values)
        calls[rows] = counted.total() / LARGE
    assert calls[8] == calls[128] <= DECODE_CALLS, calls


def test_no_field_is_met_in_decoding_a_status() -> None:
    """A message without tables is read by a few calls, however many fields it has."""
    statuses = [
        CollectorStatus("collector", 1, Source.SOURCE_GNMI, f"device-{i}", SECOND, True, cadence_ns=10 * SECOND)
        for i in range(LARGE)
    ]
    values = [topics.encode(topics.COLLECTOR_STATUS, status).value for status in statuses]
    with counting() as counted:
        read = [topics.decode(topics.COLLECTOR_STATUS, value) for value in values]
    assert read == statuses
    assert counted.total() / LARGE <= OTHER_DECODE_CALLS, counted


@pytest.mark.parametrize("count", [SMALL, LARGE])
async def test_no_record_is_met_in_taking_what_was_fetched(count: int) -> None:
    """A batch of many records is taken with the calls of one of few."""
    consumer = Consumer()
    consumer.fetched(IN, batch(0, *range(count)), 0)
    with counting() as counted:
        ((_, taken),) = drain_fetched(consumer)
    assert len(taken) == count
    assert counted.total() <= FETCHED_CALLS_A_BATCH, counted


def test_a_message_is_parsed_once_for_all_like_it() -> None:
    """The first of a device goes through the parser; those after it are read by its template, once each."""
    own = stage()
    batches = [[value.replace(b"device-8", b"device-9") for value in records(8, LARGE, turn)] for turn in (1, 2, 3)]
    with counting() as counted:
        for values in batches:
            own.process(decoded(values))
    assert sum(calls for name, calls in counted.items() if name.endswith("FromString")) == LARGE
    assert counted["TemplateDecoder.decode"] == 3 * LARGE


def test_no_row_makes_an_object() -> None:
    """A decoded message retains as many objects for 128 rows as for 8: the names are shared with the last one."""
    objects = {}
    for rows in ROWS:
        messages = decoded(records(rows, LARGE, 0))
        values = records(rows, LARGE, 1)
        gc.collect()
        before = sys.getallocatedblocks()
        messages += decoded(values)
        objects[rows] = (sys.getallocatedblocks() - before) / LARGE
    assert max(objects.values()) <= DECODE_OBJECTS, objects
    assert abs(objects[128] - objects[8]) < 1, objects


@pytest.mark.parametrize("rows", ROWS)
def test_measuring_leaves_nothing_behind(rows: int) -> None:
    """Round after round the stage holds as many objects as before: only numbers in its arrays change."""
    own = stage()
    for turn in range(5):  # the lateness is full: the times of readings are retained for so long
        own.process(decoded(records(rows, LARGE, turn)))
    gc.collect()
    before = sys.getallocatedblocks()
    for turn in range(5, 25):
        own.process(decoded(records(rows, LARGE, turn)))
    gc.collect()
    # Up to 16 intervals between readings are retained per source while no collector reports the cadence.
    assert (sys.getallocatedblocks() - before) / LARGE <= 20


def test_no_row_is_met_in_measuring() -> None:
    """A message of 128 rows is measured with the calls of one of 8; a batch costs little beside its messages."""
    hold_measure_to_its_bounds()


def test_no_row_is_met_in_closing_a_window() -> None:
    """Rates over a minute of all ports cost the calls of one port, and those of the batch, not of its messages."""
    costs = {rows: a_message_and_a_batch(lambda count, rows=rows: closing(rows, count).total()) for rows in ROWS}  # type: ignore[misc]
    assert len(set(costs.values())) == 1, costs
    for marginal, fixed in costs.values():
        assert marginal <= CLOSING_CALLS, costs
        assert fixed <= CLOSING_CALLS_A_BATCH, costs


def test_a_batch_is_folded_as_one() -> None:
    """All messages of one shape make one wave, however many they are."""
    for count in (SMALL, LARGE):
        assert measuring(stage(), 8, count)["TransitionMonitor.process"] == 1


class _LookupPerRow(Measure):
    """Looks up every port of every message: what the guard is there to refuse."""

    def process(self, batch: Sequence[Message]) -> list[Any]:
        for message in batch:
            assert isinstance(message, Samples)
            for row in message.row:
                self._topology.resolve_port(message.device, row)
        return super().process(batch)


class _ScanOfAllSources(Measure):
    """Looks at all sources for each message, as the watermark once did."""

    def process(self, batch: Sequence[Message]) -> list[Any]:
        for _ in batch:
            for source in self._liveness.sources.values():
                assert source.known_cadence_ns >= 0
        return super().process(batch)


@pytest.mark.parametrize("kind", [_LookupPerRow, _ScanOfAllSources])
def test_the_guard_refuses_what_it_is_there_for(kind: type[Measure]) -> None:
    """A stage that asks once a row, or of each source once a message, is beyond the bounds."""
    with pytest.raises(AssertionError):
        hold_measure_to_its_bounds(kind)


def test_no_row_is_met_in_building_blocks() -> None:
    """The sink builds a block with the calls of its messages; a name costs once a block, not once a row."""
    costs = {rows: a_message_and_a_batch(lambda count, rows=rows: sinking(rows, count).total()) for rows in ROWS}  # type: ignore[misc]
    assert costs[8][0] == costs[128][0] <= SINK_CALLS, costs
    assert max(fixed for _, fixed in costs.values()) <= SINK_CALLS_A_BLOCK, costs
