"""Rows of `sample_lanes`: one for each value of a lane, queue, priority or bin that is there.

An absent value has no row: most ports have fewer lanes than the widest, and NULLs would be most of the table.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.store.enum_labels import row_kind_name, source_name
from streams.store.rows.native_format import Column, NumericColumn
from streams.store.rows.pending_samples import PendingSamples
from streams.store.rows.row_builder import StringDictionary, TableRows, origin_columns
from streams.store.sample_layout import LaneColumn
from streams.wire.models import ABSENT_COUNTER

_T9 = "DateTime64(9, 'UTC')"

_Piece = tuple[PendingSamples, LaneColumn, npt.NDArray[Any], npt.NDArray[np.intp]]
"""A column of one message: its values that are there, and the rows that they stand in."""


def build(readings: Sequence[PendingSamples]) -> list[TableRows]:
    """The rows of all lanes of these messages."""
    pieces = [piece for reading in readings for piece in _pieces(reading)]
    if not pieces:
        return []
    heights = np.array([len(values) for _, _, values, _ in pieces])
    sent = [reading for reading, *_ in pieces]
    columns = [
        StringDictionary().repeated_column("device", [reading.message.device for reading in sent], heights),
        StringDictionary().repeated_column(
            "source", [source_name(reading.message.source) for reading in sent], heights
        ),
        StringDictionary().repeated_column(
            "row_kind", [row_kind_name(reading.message.row_kind) for reading in sent], heights
        ),
        StringDictionary().repeated_column("metric", [lane.name for _, lane, *_ in pieces], heights),
        _row_names(pieces),
        NumericColumn("index", "Int32", np.repeat(np.array([lane.index for _, lane, *_ in pieces], np.int32), heights)),
        NumericColumn(
            "sampled_at", _T9, np.concatenate([_times(reading, present) for reading, _, _, present in pieces])
        ),
        *_values(pieces, heights),
        *origin_columns(
            sent[0].origin.partition,
            [reading.origin.offset for reading in sent],
            [reading.origin.arrived_ms for reading in sent],
            heights,
        ),
    ]
    return [TableRows("sample_lanes", columns)]


def _pieces(reading: PendingSamples) -> Sequence[_Piece]:
    out = []
    for lane in reading.layout.lanes:
        if lane.counter:
            values: npt.NDArray[Any] = reading.message.counters.values[lane.position]
            present = np.flatnonzero(values != ABSENT_COUNTER)
        else:
            values = reading.message.gauges.values[lane.position]
            present = np.flatnonzero(~np.isnan(values))
        if len(present):
            out.append((reading, lane, values[present], present))
    return out


def _row_names(pieces: Sequence[_Piece]) -> Column:
    vocabulary = StringDictionary()
    codes = vocabulary.list_codes([reading.message.row for reading, *_ in pieces])
    return vocabulary.column("row", np.concatenate([codes[i][piece[3]] for i, piece in enumerate(pieces)]))


def _times(reading: PendingSamples, present: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    times = np.full(len(present), reading.message.sampled_at_ns, np.int64)
    if reading.message.row_delay_us:
        times += np.array(reading.message.row_delay_us, np.int64)[present] * 1000
    return times


def _values(pieces: Sequence[_Piece], heights: npt.NDArray[Any]) -> list[Column]:
    """The columns counter and gauge, of which each row has one."""
    counts = np.repeat(np.array([lane.counter for _, lane, *_ in pieces]), heights)
    counter = np.zeros(len(counts), np.uint64)
    gauge = np.zeros(len(counts), np.float64)
    for out, kind in ((counter, True), (gauge, False)):
        parts = [values for _, lane, values, _ in pieces if lane.counter is kind]
        if parts:
            out[counts == kind] = np.concatenate(parts)
    return [NumericColumn("counter", "UInt64", counter, ~counts), NumericColumn("gauge", "Float64", gauge, counts)]
