"""The scalar columns of a block: the tables of its messages one beside the other, each value copied once.

Messages of the same columns stand in groups; a metric that a group lacks is absent in its rows. The groups' tables go
into one array straight away: to put them together by group and then by column copied all of it twice, into pages that
the kernel had to clear.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.store.rows.native_format import NumericColumn
from streams.store.rows.pending_samples import PendingSamples
from streams.store.sample_layout import column_name
from streams.wire.models import ABSENT_COUNTER


@dataclass(frozen=True, slots=True)
class _Piece:
    """One group's part of the columns: the tables of its messages, and which of their columns are scalars."""

    tables: Sequence[npt.NDArray[Any]]
    scalars: Sequence[tuple[int, Metric]]
    rows: slice


def stack_columns(groups: Sequence[Sequence[PendingSamples]]) -> list[NumericColumn]:
    """The scalar columns of these groups of messages, one group under the other."""
    counters, gauges, start = [], [], 0
    for group in groups:
        end = start + sum(len(reading.message.row) for reading in group)
        rows, layout = slice(start, end), group[0].layout
        counters.append(_Piece([reading.message.counters.values for reading in group], layout.scalar_counters, rows))
        gauges.append(_Piece([reading.message.gauges.values for reading in group], layout.scalar_gauges, rows))
        start = end
    return [*_columns(counters, start, counter=True), *_columns(gauges, start, counter=False)]


def _columns(pieces: Sequence[_Piece], rows: int, *, counter: bool) -> Iterator[NumericColumn]:
    """The columns of counters, or those of gauges; a mask is made only where something is absent."""
    metrics = sorted({metric for piece in pieces for _, metric in piece.scalars})
    if not metrics:
        return
    places = {metric: place for place, metric in enumerate(metrics)}
    values = np.empty((len(metrics), rows), np.uint64 if counter else np.float64)
    lacking: dict[Metric, list[slice]] = {}
    for piece in pieces:
        for first, last, place in _runs(piece.scalars, places):
            out = values[place : place + last - first, piece.rows]
            np.concatenate([table[first:last] for table in piece.tables], axis=1, out=out)
        for metric in places.keys() - {metric for _, metric in piece.scalars}:
            values[places[metric], piece.rows] = 0
            lacking.setdefault(metric, []).append(piece.rows)
    for metric, column, most in zip(metrics, values, values.max(axis=1), strict=True):
        # Of the largest: a counter that is absent is the largest there is, and no number is larger than none.
        some = most == ABSENT_COUNTER if counter else np.isnan(most)
        absent = None
        if some or metric in lacking:
            absent = column == ABSENT_COUNTER if counter else np.isnan(column)
            for where in lacking.get(metric, ()):
                absent[where] = True
        yield NumericColumn(column_name(metric), "UInt64" if counter else "Float64", column, absent)


def _runs(scalars: Sequence[tuple[int, Metric]], places: Mapping[Metric, int]) -> Iterator[tuple[int, int, int]]:
    """(first, last, place) of columns that stand side by side in the messages and in the block."""
    first = last = place = 0
    for position, metric in scalars:
        if last > first and position == last and places[metric] == place + last - first:
            last += 1
            continue
        if last > first:
            yield first, last, place
        first, last, place = position, position + 1, places[metric]
    if last > first:
        yield first, last, place
