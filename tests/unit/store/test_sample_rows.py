"""Tests samples messages as columns, compared with a plain loop over their rows."""

import numpy as np
import pytest

from streams.fabric.catalogue import Metric
from streams.store.rows.deduplication import SequenceDedup
from streams.store.rows.row_builder import SourcedMessage, TableRows
from streams.store.rows.sample_rows import SampleBuilder
from streams.wire.models import ABSENT_COUNTER, RowKind, Samples, Source, Table
from tests.fixtures.table_rows import table

NS = 1_750_000_000_000_000_000


def message(device: str, sequence: int, ports: int, counters: tuple[Metric, ...], *, delays: bool = False) -> Samples:
    """Return a message whose counters encode their place, every third absent, with a gauge and two lanes of another."""
    values = np.arange(len(counters) * ports, dtype=np.uint64).reshape(len(counters), ports) + np.uint64(
        sequence * 1000
    )
    values[values % np.uint64(3) == 0] = ABSENT_COUNTER
    gauges = np.array([[1.0] * ports, [-3.5] * ports, [np.nan] * (ports - 1) + [-9.0]])
    return Samples(
        device, Source.SOURCE_GNMI, "c", 1, sequence, NS + sequence, NS, 4, RowKind.ROW_KIND_PORT,
        tuple(f"Ethernet{port}" for port in range(ports)), 1,
        Table(counters, (-1,) * len(counters), values),
        Table((Metric.OPER_UP, Metric.RX_POWER_DBM, Metric.RX_POWER_DBM), (-1, 0, 1), gauges),
        tuple(range(ports)) if delays else (),
    )  # fmt: skip


TWO = (Metric.RX_BYTES, Metric.TX_BYTES)
OTHER = (Metric.TX_BYTES, Metric.RX_ERRORS)
SENT = (
    message("leaf-1", 0, 4, TWO),
    message("leaf-2", 0, 2, OTHER, delays=True),
    message("leaf-1", 1, 4, TWO, delays=True),
)


def build(messages: tuple[Samples, ...]) -> dict[str, TableRows]:
    """Return the rows of one block, by table."""
    builder = SampleBuilder(SequenceDedup(10**9))
    for offset, one in enumerate(messages):
        builder.add(SourcedMessage(3, offset, 1000 + offset, one))
    return {rows.table: rows for rows in builder.finish()}


def expected_rows(metrics: tuple[Metric, ...]) -> dict[tuple[object, ...], dict[str, object]]:
    """Return the expected rows of `samples`, by device, sequence and row."""
    out: dict[tuple[object, ...], dict[str, object]] = {}
    for offset, one in enumerate(SENT):
        for position, row in enumerate(one.row):
            found: dict[str, object] = {metric.name.lower(): None for metric in metrics}
            for part in (one.counters, one.gauges):
                for metric, values in zip(part.metric, part.values.tolist(), strict=True):
                    if metric.index is None and values[position] != ABSENT_COUNTER:
                        found[metric.name.lower()] = values[position]
            delay = one.row_delay_us[position] if one.row_delay_us else 0
            found |= {"sampled_at": one.sampled_at_ns + delay * 1000, "kafka_offset": offset, "kafka_partition": 3}
            out[one.device, one.sequence, row] = found | {"boot_id": 4, "source": "gnmi", "row_kind": "port"}
    return out


def test_rows_are_those_of_a_plain_loop() -> None:
    """A block has messages of two layouts and two sizes: every value is in its row, and absent ones are absent."""
    metrics = (Metric.RX_BYTES, Metric.TX_BYTES, Metric.RX_ERRORS, Metric.OPER_UP)
    found = table(build(SENT)["samples"])
    expected = expected_rows(metrics)
    assert len(found) == len(expected) == 10
    for row in found:
        values = expected[row["device"], row["sequence"], row["row"]]
        assert {name: row[name] for name in values} == values


def test_messages_with_the_same_columns_are_in_table_order() -> None:
    """They are sorted by device and time, whatever order they arrived in, so the server need not sort."""
    messages = tuple(message(device, turn, 2, TWO) for turn in (1, 0) for device in ("leaf-2", "leaf-1"))
    found = [(row["device"], row["sequence"], row["row"]) for row in table(build(messages)["samples"])]
    assert found == [
        (device, turn, f"Ethernet{port}") for device in ("leaf-1", "leaf-2") for turn in (0, 1) for port in (0, 1)
    ]


def test_groups_with_other_columns_are_ordered_by_their_first_device() -> None:
    """Hosts come before switches where their names sort so, even if a switch reported first."""
    messages = (message("pod-1-t0", 0, 2, TWO), message("host-2", 0, 1, OTHER), message("host-1", 0, 1, OTHER))
    found = [row["device"] for row in table(build(messages)["samples"])]
    assert found == ["host-1", "host-2", "pod-1-t0", "pod-1-t0"]


def test_lanes_have_a_row_for_each_present_value() -> None:
    """A lane that a port lacks has no row; a counter is in `counter`, a gauge in `gauge`."""
    found = table(build(SENT)["sample_lanes"])
    values = sorted(
        (row["device"], row["row"], row["metric"], row["index"], row["gauge"], row["counter"]) for row in found
    )
    expected = [
        (one.device, row, "rx_power_dbm", index, level, None)
        for one in SENT
        for index, level, rows in ((0, -3.5, one.row), (1, -9.0, one.row[-1:]))
        for row in rows
    ]
    assert values == sorted(expected)


def test_a_repeated_message_makes_no_rows() -> None:
    """The same run and sequence at another offset are the same message."""
    assert table(build((*SENT, SENT[0]))["samples"]) == table(build(SENT)["samples"])
    assert len(table(build((*SENT, SENT[0]))["sample_messages"])) == len(SENT)


@pytest.mark.parametrize("ports", [0, 1])
def test_a_message_without_rows_is_recorded(ports: int) -> None:
    """A device without ports sends a message without rows; sample_messages has its identity."""
    rows = build((message("new", 0, ports, TWO),)) if ports else build((_empty(),))
    assert ("samples" in rows) is bool(ports)
    assert table(rows["sample_messages"])[0]["rows"] == ports


def _empty() -> Samples:
    counters = Table((), (), np.zeros((0, 0), np.uint64))
    gauges = Table((), (), np.zeros((0, 0)))
    kind = RowKind.ROW_KIND_PORT
    return Samples("new", Source.SOURCE_SNMP, "c", 1, 0, NS, NS, 0, kind, (), 0, counters, gauges)
