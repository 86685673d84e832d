"""Builds the rows of `sample_lanes`: one for each present value of a lane, queue, priority or bin.

An absent value has no row: most ports have fewer lanes than the widest, and NULLs would be most of the table.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.store.enum_labels import row_kind_name, source_name
from streams.store.rows.native_format import TIMESTAMP_NS, Column, NumericColumn
from streams.store.rows.pending_samples import PendingSamples
from streams.store.rows.row_builder import StringDictionary, TableRows, message_origin_columns
from streams.store.sample_layout import LaneColumn
from streams.wire.models import ABSENT_COUNTER

_LaneValues = tuple[PendingSamples, LaneColumn, npt.NDArray[Any], npt.NDArray[np.intp]]
"""A column of one message: its present values, and the indices of their rows."""


def build(samples: Sequence[PendingSamples]) -> list[TableRows]:
    """Return the rows of all lanes of these messages."""
    parts = [part for pending in samples for part in _lane_values(pending)]
    if not parts:
        return []
    heights = np.array([len(values) for _, _, values, _ in parts])
    pending = [part[0] for part in parts]
    messages = [one.message for one in pending]
    sources = [source_name(message.source) for message in messages]
    row_kinds = [row_kind_name(message.row_kind) for message in messages]
    lane_index = np.array([lane.index for _, lane, *_ in parts], np.int32)
    times = np.concatenate([_times(one, present) for one, _, _, present in parts])
    columns = [
        StringDictionary().repeated_column("device", [message.device for message in messages], heights),
        StringDictionary().repeated_column("source", sources, heights),
        StringDictionary().repeated_column("row_kind", row_kinds, heights),
        StringDictionary().repeated_column("metric", [lane.name for _, lane, *_ in parts], heights),
        _row_names(parts),
        NumericColumn("index", "Int32", np.repeat(lane_index, heights)),
        NumericColumn("sampled_at", TIMESTAMP_NS, times),
        *_value_columns(parts, heights),
        *message_origin_columns([one.origin for one in pending], heights),
    ]
    return [TableRows("sample_lanes", columns)]


def _lane_values(pending: PendingSamples) -> Sequence[_LaneValues]:
    out = []
    for lane in pending.layout.lanes:
        if lane.counter:
            values: npt.NDArray[Any] = pending.message.counters.values[lane.position]
            present = np.flatnonzero(values != ABSENT_COUNTER)
        else:
            values = pending.message.gauges.values[lane.position]
            present = np.flatnonzero(~np.isnan(values))
        if len(present):
            out.append((pending, lane, values[present], present))
    return out


def _row_names(parts: Sequence[_LaneValues]) -> Column:
    dictionary = StringDictionary()
    codes = dictionary.list_codes([pending.message.row for pending, *_ in parts])
    return dictionary.column("row", np.concatenate([codes[i][part[3]] for i, part in enumerate(parts)]))


def _times(pending: PendingSamples, present: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    times = np.full(len(present), pending.message.sampled_at_ns, np.int64)
    if pending.message.row_delay_us:
        times += np.array(pending.message.row_delay_us, np.int64)[present] * 1000
    return times


def _value_columns(parts: Sequence[_LaneValues], heights: npt.NDArray[Any]) -> list[Column]:
    """Return the columns counter and gauge, of which each row has one."""
    is_counter = np.repeat(np.array([lane.counter for _, lane, *_ in parts]), heights)
    counter = np.zeros(len(is_counter), np.uint64)
    gauge = np.zeros(len(is_counter), np.float64)
    for out, kind in ((counter, True), (gauge, False)):
        values = [part[2] for part in parts if part[1].counter is kind]
        if values:
            out[is_counter == kind] = np.concatenate(values)
    return [
        NumericColumn("counter", "UInt64", counter, ~is_counter),
        NumericColumn("gauge", "Float64", gauge, is_counter),
    ]
