"""Columns, buffer and self-metrics of the core."""

from typing import get_args

import numpy as np
import orjson
from hypothesis import given
from hypothesis import strategies as st

from collectors.core.buffer import MemoryQueue
from collectors.core.columns import CellKey, Layout, json_lines, rows_digest
from collectors.core.metrics import MEANINGS, CollectorMetrics, Gauge, Name
from collectors.core.spool import BufferedRecord
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, RowKind, Samples, Source
from streams.wire.topics import EVENTS, Record


def record(size: int = 100) -> Record:
    return Record(EVENTS, b"leaf1", b"x" * size)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 500))))
def test_the_buffer_never_exceeds_its_limit(steps: list[tuple[bool, int]]) -> None:
    """For any sequence of records and sizes."""
    buffer = MemoryQueue(2000, CollectorMetrics())
    for is_offer, size in steps:
        if is_offer:
            buffer.offer(BufferedRecord(record(size)))
        else:
            buffer.drop(min(1, len(buffer)))
        assert buffer.size_bytes == sum(buffered.size for buffered in buffer.oldest()) <= 2000


def test_a_layout_puts_each_value_into_its_row_and_column() -> None:
    """Each lane has its own column; a column without values is left out."""
    layout = Layout(
        [
            CellKey("e2", Metric.RX_BYTES), CellKey("e1", Metric.RX_BYTES), CellKey("e1", Metric.RX_POWER_DBM, 1),
            CellKey("e2", Metric.RX_POWER_DBM, 0), CellKey("e1", Metric.TX_BYTES),
        ]
    )  # fmt: skip
    counters, gauges = layout.tables([2**64 - 2, None, -3.5, None, None])
    assert layout.row == ("e2", "e1")
    assert counters.metric == (Metric.RX_BYTES,)
    assert counters.values.tolist() == [[2**64 - 2, ABSENT_COUNTER]]
    assert (gauges.metric, gauges.index) == ((Metric.RX_POWER_DBM,), (1,))
    assert np.isnan(gauges.values[0, 0]) and gauges.values[0, 1] == -3.5


def test_the_digest_of_rows_depends_on_their_names_and_order() -> None:
    """Names with equal concatenations differ."""
    assert len({rows_digest(rows) for rows in (("a", "b"), ("b", "a"), ("ab",), ("a", "b", ""))}) == 4


def test_a_printed_reading_leaves_out_absent_values() -> None:
    """One JSON object per row, as in DESIGN 6; lanes in brackets."""
    places = [CellKey("e1", Metric.RX_BYTES), CellKey("e2", Metric.TX_BYTES), CellKey("e1", Metric.RX_POWER_DBM, 0)]
    layout = Layout(places)
    counters, gauges = layout.tables([7, 8, -2.5])
    samples = Samples(
        "leaf1", Source.SOURCE_GNMI, "c", 1, 1, 5, 6, 0, RowKind.ROW_KIND_PORT, layout.row, layout.rows_digest,
        counters, gauges, (0, 3),
    )  # fmt: skip
    assert [orjson.loads(line) for line in json_lines(samples)] == [
        {
            "time": 5,
            "device": "leaf1",
            "source": "gnmi",
            "port": "e1",
            "metrics": {"rx_bytes": 7, "rx_power_dbm[0]": -2.5},
        },
        {"time": 3005, "device": "leaf1", "source": "gnmi", "port": "e2", "metrics": {"tx_bytes": 8}},
    ]


def test_metrics_are_returned_by_label_and_to_prometheus() -> None:
    """The count of each topic is one sample of one family."""
    metrics = CollectorMetrics()
    metrics.add("offered", "a")
    metrics.add("offered", "b", 2)
    assert (metrics.value("offered"), metrics.value("offered", "b"), metrics.value("refused")) == (3, 2, 0)
    families = {family.name: family for family in metrics.collect()}
    offered = families["railsight_collector_offered"].samples
    assert {sample.labels["of"]: sample.value for sample in offered} == {"a": 1, "b": 2}
    assert [sample.value for sample in families["railsight_collector_refused"].samples] == [0]
    assert len(families) == len(get_args(Name))
    metrics.set("clock_offset_seconds", -2.5, "leaf1")
    metrics.set("waiting", 3)
    metrics.unset("waiting")
    families = {family.name: family for family in metrics.collect()}
    assert "railsight_collector_waiting" not in families
    assert [sample.value for sample in families["railsight_collector_clock_offset_seconds"].samples] == [-2.5]


def test_every_metric_has_a_help_text() -> None:
    """A name without one would fail at the first scrape."""
    assert MEANINGS.keys() == {*get_args(Name), *get_args(Gauge)}
