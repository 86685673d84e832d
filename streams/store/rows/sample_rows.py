"""Samples as rows, column by column: no Python runs for a row or a value, only for a message and a column.

Messages of the same columns stand together in a block, so that their tables are stacked as they came (stacked.py). What
is absent is NULL. Lanes and queues are in lanes.py.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.store.enum_labels import row_kind_name, source_name
from streams.store.rows.column_stacking import stack_columns
from streams.store.rows.deduplication import SequenceDedup
from streams.store.rows.native_format import Column, NumericColumn
from streams.store.rows.pending_samples import PendingSamples
from streams.store.rows.row_builder import SourcedMessage, StringDictionary, TableRows, origin_columns
from streams.store.rows.sample_lanes import build
from streams.store.sample_layout import SampleLayoutCache
from streams.wire.models import Samples

_T9 = "DateTime64(9, 'UTC')"


class SampleBuilder:
    """Collects messages; a message whose identity was stored before makes no rows."""

    def __init__(self, seen: SequenceDedup) -> None:
        self._seen = seen
        self._layouts = SampleLayoutCache()
        self._readings: list[PendingSamples] = []

    def add(self, taken: SourcedMessage) -> int:
        message = taken.message
        assert isinstance(message, Samples)
        run = (message.device, source_name(message.source), message.collector, message.collector_run)
        if not self._seen.is_new(run, message.sequence, taken.arrived_ms):
            return 0
        self._readings.append(PendingSamples(taken, message, self._layouts.layout_of(message)))
        return len(message.row)

    def finish(self) -> list[TableRows]:
        readings, self._readings, self._layouts = self._readings, [], SampleLayoutCache()
        if not readings:
            return []
        # The order of the tables is that of their insertion: sample_messages says that all before it is there.
        return [*_wide(readings), *build(readings), _messages(readings)]


def _wide(readings: Sequence[PendingSamples]) -> list[TableRows]:
    """Rows of `samples`, for the messages that have any scalar."""
    alike: dict[int, list[PendingSamples]] = {}
    for reading in sorted(readings, key=_as_stored):
        if reading.layout.has_scalars and reading.message.row:
            alike.setdefault(id(reading.layout), []).append(reading)
    if not alike:
        return []
    # Met in the order of the table: hosts before switches, where their names have it so.
    groups = list(alike.values())
    ordered = [reading for group in groups for reading in group]
    heights = np.array([len(reading.message.row) for reading in ordered])
    columns = [
        *_identity_columns([reading.message for reading in ordered], heights),
        *origin_columns(
            ordered[0].origin.partition,
            [reading.origin.offset for reading in ordered],
            [reading.origin.arrived_ms for reading in ordered],
            heights,
        ),
        *stack_columns(groups),
    ]
    return [TableRows("samples", columns)]


def _as_stored(reading: PendingSamples) -> tuple[str, int, int]:
    """The order of the table, by message: what comes sorted the server need not sort by row (0.75 of 1.18 s/M)."""
    message = reading.message
    return message.device, message.source, message.sampled_at_ns


def _identity_columns(messages: Sequence[Samples], heights: npt.NDArray[Any]) -> list[Column]:
    """What identifies a row of `samples`: device, row, times and the message's own identity."""
    numbers = (
        ("received_at", _T9, np.int64, [message.received_at_ns for message in messages]),
        ("boot_id", "UInt64", np.uint64, [message.boot_id for message in messages]),
        ("collector_run", "UInt64", np.uint64, [message.collector_run for message in messages]),
        ("sequence", "UInt64", np.uint64, [message.sequence for message in messages]),
    )
    names = StringDictionary()
    return [
        StringDictionary().repeated_column("device", [message.device for message in messages], heights),
        StringDictionary().repeated_column("source", [source_name(message.source) for message in messages], heights),
        StringDictionary().repeated_column(
            "row_kind", [row_kind_name(message.row_kind) for message in messages], heights
        ),
        StringDictionary().repeated_column("collector", [message.collector for message in messages], heights),
        *(
            NumericColumn(name, type_, np.repeat(np.array(values, dtype), heights))
            for name, type_, dtype, values in numbers
        ),
        names.column("row", np.concatenate(names.list_codes([message.row for message in messages]))),
        NumericColumn("sampled_at", _T9, _row_times(messages, heights)),
    ]


def _row_times(messages: Sequence[Samples], heights: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    times = np.repeat(np.array([message.sampled_at_ns for message in messages], np.int64), heights)
    if any(message.row_delay_us for message in messages):
        delays = [message.row_delay_us or (0,) * len(message.row) for message in messages]
        times = times + np.concatenate([np.array(delay, np.int64) for delay in delays]) * 1000
    return times


def _messages(readings: Sequence[PendingSamples]) -> TableRows:
    messages = [reading.message for reading in readings]
    columns: list[Column] = [
        StringDictionary().plain_column("device", [message.device for message in messages]),
        StringDictionary().plain_column("source", [source_name(message.source) for message in messages]),
        StringDictionary().plain_column("row_kind", [row_kind_name(message.row_kind) for message in messages]),
        StringDictionary().plain_column("collector", [message.collector for message in messages]),
        _numbers("collector_run", "UInt64", np.uint64, [message.collector_run for message in messages]),
        _numbers("sequence", "UInt64", np.uint64, [message.sequence for message in messages]),
        _numbers("rows", "UInt32", np.uint32, [len(message.row) for message in messages]),
        _numbers("boot_id", "UInt64", np.uint64, [message.boot_id for message in messages]),
        _numbers("sampled_at", _T9, np.int64, [message.sampled_at_ns for message in messages]),
        _numbers("received_at", _T9, np.int64, [message.received_at_ns for message in messages]),
    ]
    at = [reading.origin for reading in readings]
    offsets, arrived = [taken.offset for taken in at], [taken.arrived_ms for taken in at]
    return TableRows("sample_messages", columns + origin_columns(at[0].partition, offsets, arrived))


def _numbers(name: str, type_: str, kind: type[np.generic], values: Sequence[int]) -> NumericColumn:
    return NumericColumn(name, type_, np.fromiter(values, kind, len(values)))
