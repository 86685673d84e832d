"""Tests the rollups by minute: growth between minutes, absence, resets, gaps, disorder and lanes."""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.fabric.catalogue import Metric
from streams.store.rows.deduplication import SequenceDedup
from streams.store.rows.minute_rollups import MinuteRollups
from streams.store.rows.row_builder import SourcedMessage, TableRows
from streams.store.rows.sample_rows import SampleBuilder
from streams.wire.models import ABSENT_COUNTER, RowKind, Samples, Source, Table
from tests.fixtures.table_rows import table

START = 1_749_999_960_000_000_000
"""The begin of a minute."""

S = 10**9


def reading(
    second: float,
    rx: list[int],
    gauge: list[float],
    *,
    boot: int = 1,
    lanes: tuple[int, float] = (0, -2.0),
    metric: Metric = Metric.MODULE_TEMPERATURE_C,
) -> Samples:
    """Return a reading of two ports: a counter, a counter by lane, a gauge and a gauge by lane."""
    counters = np.array([rx, [lanes[0], lanes[0]]], np.uint64)
    gauges = np.array([gauge, [lanes[1], np.nan]])
    at_ns = START + int(second * S)
    return Samples(
        "leaf", Source.SOURCE_GNMI, "c", 1, int(second * 10), at_ns, at_ns, boot, RowKind.ROW_KIND_PORT,
        ("p0", "p1"), 1,
        Table((Metric.RX_BYTES, Metric.PFC_RX_FRAMES), (-1, 3), counters),
        Table((metric, Metric.RX_POWER_DBM), (-1, 0), gauges),
    )  # fmt: skip


def rolled(*messages: Samples, rollups: MinuteRollups | None = None) -> dict[str, TableRows]:
    """Return the rows of one block, by table."""
    builder = SampleBuilder(SequenceDedup(10**9), rollups or MinuteRollups())
    for offset, one in enumerate(messages):
        builder.add(SourcedMessage(3, offset, 1000 + offset, one))
    return {rows.table: rows for rows in builder.finish()}


def ports(*messages: Samples) -> list[dict[str, object]]:
    """Return the rows of samples_1m."""
    return table(rolled(*messages)["samples_1m"])


def test_a_minute_grows_to_the_first_reading_after_it() -> None:
    """Its own readings give the extremes of gauges, and the next minute begins where it ends."""
    rows = ports(
        reading(0, [100, 7], [1, 1]), reading(30, [150, 7], [0, 1]), reading(61, [220, 9], [1, np.nan]),
        reading(121, [230, 9], [1, 1]),
    )  # fmt: skip
    first, other, second, _ = rows
    assert first == {
        "device": "leaf", "source": "gnmi", "row_kind": "port", "row": "p0", "bucket": START // S, "readings": 2,
        "observed_s": 61.0, "resets": 0, "rx_bytes_increase": 120,
        "module_temperature_c_min": 0.0, "module_temperature_c_max": 1.0,
        "module_temperature_c_avg": 0.5, "kafka_partition": 3, "kafka_offset": 2, "arrived_at": 1002,
    }  # fmt: skip
    assert (other["row"], other["rx_bytes_increase"], other["module_temperature_c_avg"]) == ("p1", 2, 1.0)
    assert (second["rx_bytes_increase"], second["observed_s"], second["bucket"]) == (10, 60.0, START // S + 60)


def test_a_bool_has_its_average_alone() -> None:
    """The table computes its extremes from that."""
    gauges = [[1, 0], [0, 0], [1, 1]]
    messages = [
        reading(30 * place, [0, 0], [float(one) for one in gauge], metric=Metric.OPER_UP)
        for place, gauge in enumerate(gauges)
    ]
    rows = ports(*messages)
    assert [row["oper_up_avg"] for row in rows] == [0.5, 0.0]
    assert not {"oper_up_min", "oper_up_max"} & set(rows[0])


def test_an_open_minute_has_no_row() -> None:
    """Nothing is known of its growth before the first reading after it."""
    assert "samples_1m" not in rolled(reading(0, [1, 1], [1, 1]), reading(59, [2, 2], [1, 1]))


def test_another_boot_or_a_long_gap_has_no_increase() -> None:
    """Counters of another boot count from zero; growth over hours belongs to no minute."""
    rebooted, *_ = ports(reading(0, [100, 1], [1, 1]), reading(60, [500, 1], [1, 1], boot=2))
    assert (rebooted["rx_bytes_increase"], rebooted["observed_s"]) == (None, 0.0)
    late, *_ = ports(reading(0, [100, 1], [1, 1]), reading(3700, [500, 1], [1, 1]))
    assert (late["rx_bytes_increase"], late["observed_s"], late["resets"]) == (None, 0.0, 0)
    gap, *_ = ports(reading(0, [100, 1], [1, 1]), reading(1800, [500, 1], [1, 1]))
    assert (gap["rx_bytes_increase"], gap["observed_s"]) == (400, 1800.0)


def test_lanes_have_a_row_each() -> None:
    """A counter has its increase, a gauge its extremes; a port without a value has none."""
    tables = rolled(
        reading(0, [1, 1], [1, 1], lanes=(10, -2.0)), reading(30, [1, 1], [1, 1], lanes=(12, -4.0)),
        reading(60, [1, 1], [1, 1], lanes=(25, -2.0)),
    )  # fmt: skip
    rows = table(tables["sample_lanes_1m"])
    chosen = ("row", "metric", "index", "increase", "value_min", "value_max", "value_avg", "resets")
    assert [tuple(row[name] for name in chosen) for row in rows] == [
        ("p0", "pfc_rx_frames", 3, 15, None, None, None, 0),
        ("p1", "pfc_rx_frames", 3, 15, None, None, None, 0),
        ("p0", "rx_power_dbm", 0, None, -4.0, -2.0, -3.0, 0),
    ]


def test_a_state_that_is_restored_continues_the_minute() -> None:
    """The readings of the open minute are read again after a restart, and their rows discarded."""
    first, second, third = reading(0, [1, 1], [1, 1]), reading(30, [2, 2], [0, 1]), reading(60, [4, 4], [1, 1])
    restarted = MinuteRollups()
    builder = SampleBuilder(SequenceDedup(10**9), restarted)
    for one in (first, second):
        builder.add(SourcedMessage(3, 0, 1000, one))
    builder.finish()
    rows = table(rolled(third, rollups=restarted)["samples_1m"])
    assert [(row["rx_bytes_increase"], row["module_temperature_c_min"]) for row in rows] == [(3, 0.0), (3, 1.0)]


@given(st.lists(st.floats(width=64), min_size=1, max_size=20))
def test_an_average_is_between_the_extremes(values: list[float]) -> None:
    """Rounded sums of equal values would be beside them; values beyond Float32 are infinite, as in the table."""
    readings = [reading(second, [0, 0], [value, value]) for second, value in enumerate(values)]
    (row, _) = table(rolled(*readings, reading(60, [0, 0], [0, 0]))["samples_1m"])
    found: list[Any] = [row[f"module_temperature_c_{one}"] for one in ("min", "avg", "max")]
    assert None in found or found == sorted(found)


class PortMinute:
    """The open minute of one port, one reading at a time: what the arrays are compared with."""

    def __init__(self, first: Samples, port: int) -> None:
        self.first, self.port = first, port
        self.gauges = [float(first.gauges.values[0, port])]
        self.newest_ns = first.sampled_at_ns

    def row(self, last: Samples) -> tuple[object, ...]:
        """Return what the table has once `last`, of a later minute, is read."""
        now, was = int(last.counters.values[0, self.port]), int(self.first.counters.values[0, self.port])
        gap_ns = last.sampled_at_ns - self.first.sampled_at_ns
        same_boot = last.boot_id == self.first.boot_id
        is_present = ABSENT_COUNTER not in (now, was)
        is_reset = is_present and (now < was or not same_boot)
        is_observed = same_boot and gap_ns <= 3600 * S
        is_known = is_present and not is_reset and is_observed
        present = [value for value in self.gauges if value == value]
        complete = len(present) == len(self.gauges)
        return (
            last.device, last.row[self.port], self.first.sampled_at_ns // (60 * S) * 60, len(self.gauges),
            now - was if is_known else None, int(is_reset), gap_ns / S if is_observed else 0.0,
            min(present, default=None), max(present, default=None),
            float(np.float32(sum(present) / len(present))) if complete else None,
        )  # fmt: skip


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=60, deadline=None)
def test_blocks_of_many_devices_are_folded_as_port_by_port(seed: int) -> None:
    """Devices that come late, miss readings, restart or send again; blocks of any length; two sets of columns."""
    chance = np.random.default_rng(seed)
    rollups, expected, found = MinuteRollups(), [], []
    opened: dict[tuple[str, int, int], PortMinute] = {}
    block: list[Samples] = []
    for step in range(60):
        for name in ("leaf-a", "leaf-b", "leaf-c"):
            if chance.random() < 0.4:
                continue
            second = 100 + step * 7 - (20 if chance.random() < 0.1 else 0) + (4000 if step > 50 else 0)
            rx = [ABSENT_COUNTER if chance.random() < 0.1 else int(chance.integers(1000)) for _ in range(2)]
            up = [float("nan") if chance.random() < 0.1 else float(chance.integers(9)) for _ in range(2)]
            one = replace(reading(second, rx, up, boot=1 + int(step > 30)), device=name)
            if chance.random() < 0.3:
                one = replace(one, gauges=Table(one.gauges.metric[:1], one.gauges.index[:1], one.gauges.values[:1]))
            block.append(one)
            for port in range(2):
                stream = (name, len(one.gauges.metric), port)
                minute = opened.setdefault(stream, PortMinute(one, port))
                if minute.first is one or one.sampled_at_ns <= minute.newest_ns:
                    continue
                if one.sampled_at_ns // (60 * S) == minute.first.sampled_at_ns // (60 * S):
                    minute.gauges.append(float(one.gauges.values[0, port]))
                    minute.newest_ns = one.sampled_at_ns
                else:
                    expected.append(minute.row(one))
                    opened[stream] = PortMinute(one, port)
        if chance.random() < 0.3:
            rows = rolled(*block, rollups=rollups).get("samples_1m")
            found += table(rows) if rows else []
            block = []
    rows = rolled(*block, rollups=rollups).get("samples_1m")
    found += table(rows) if rows else []
    names = (
        "device",
        "row",
        "bucket",
        "readings",
        "rx_bytes_increase",
        "resets",
        "observed_s",
        "module_temperature_c_min",
        "module_temperature_c_max",
        "module_temperature_c_avg",
    )
    assert Counter(tuple(row[name] for name in names) for row in found) == Counter(expected)
