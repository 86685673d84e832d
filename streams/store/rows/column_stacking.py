"""Stacks the scalar columns of a block from the tables of its messages, copying each value once.

Messages with the same columns form a group; a metric that a group lacks is absent in its rows. The groups' tables are
copied directly into one array: joining them by group and then by column copied everything twice, into pages that the
kernel had to clear.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streams.fabric.catalogue import Metric
from streams.store.rows.native_format import NumericColumn
from streams.store.rows.sample_layout import PendingSamples, column_name
from streams.wire.models import ABSENT_COUNTER

_Scalars = Sequence[tuple[int, Metric]]
"""Columns of a group's tables, by position."""


@dataclass(frozen=True, slots=True)
class _GroupTables:
    """One group's part of the columns: the tables of its messages, their scalar columns, and the group's rows."""

    tables: Sequence[npt.NDArray[Any]]
    scalars: _Scalars
    rows: slice


def stack_columns(groups: Sequence[Sequence[PendingSamples]]) -> list[NumericColumn]:
    """Return the scalar columns of these groups of messages, one group below the other."""
    layouts = [group[0].layout for group in groups]
    counters = [[pending.message.counters.values for pending in group] for group in groups]
    gauges = [[pending.message.gauges.values for pending in group] for group in groups]
    return [
        *stack_counters([layout.scalar_counters for layout in layouts], counters),
        *stack_gauges([layout.scalar_gauges for layout in layouts], gauges),
    ]


def stack_counters(
    scalars: Sequence[_Scalars], tables: Sequence[Sequence[npt.NDArray[Any]]]
) -> Iterator[NumericColumn]:
    """Yield these scalar counters of groups; `tables` has the counters of each group's messages."""
    return _columns(*_grouped(scalars, tables), "UInt64")


def stack_gauges(
    scalars: Sequence[_Scalars], tables: Sequence[Sequence[npt.NDArray[Any]]], type_: str = "Float64"
) -> Iterator[NumericColumn]:
    """Yield these scalar gauges of groups as columns of this type; `tables` has the gauges of each group's messages."""
    return _columns(*_grouped(scalars, tables), type_)


def _grouped(
    scalars: Sequence[_Scalars], tables: Sequence[Sequence[npt.NDArray[Any]]]
) -> tuple[list[_GroupTables], int]:
    """Return the groups with their rows, and the number of all rows."""
    groups, start = [], 0
    for own_scalars, own_tables in zip(scalars, tables, strict=True):
        end = start + sum(table.shape[1] for table in own_tables)
        groups.append(_GroupTables(own_tables, own_scalars, slice(start, end)))
        start = end
    return groups, start


def _columns(groups: Sequence[_GroupTables], rows: int, type_: str) -> Iterator[NumericColumn]:
    """Yield the columns of counters (UInt64) or of gauges; a column without absent values has no mask."""
    metrics = sorted({metric for group in groups for _, metric in group.scalars})
    if not metrics:
        return
    place_of = {metric: place for place, metric in enumerate(metrics)}
    counter = type_ == "UInt64"
    values = np.empty((len(metrics), rows), type_.lower())
    missing: dict[Metric, list[slice]] = {}
    for group in groups:
        for first, last, place in _adjacent_columns(group.scalars, place_of):
            out = values[place : place + last - first, group.rows]
            np.concatenate([table[first:last] for table in group.tables], axis=1, out=out)
        for metric in place_of.keys() - {metric for _, metric in group.scalars}:
            values[place_of[metric], group.rows] = 0
            missing.setdefault(metric, []).append(group.rows)
    for metric, column, largest in zip(metrics, values, values.max(axis=1), strict=True):
        # The largest value shows whether one is absent: an absent counter is the largest number, and NaN is maximal.
        has_absent = largest == ABSENT_COUNTER if counter else np.isnan(largest)
        absent = None
        if has_absent or metric in missing:
            absent = column == ABSENT_COUNTER if counter else np.isnan(column)
            for group_rows in missing.get(metric, ()):
                absent[group_rows] = True
        yield NumericColumn(column_name(metric), type_, column, absent)


def _adjacent_columns(scalars: _Scalars, place_of: Mapping[Metric, int]) -> Iterator[tuple[int, int, int]]:
    """Yield (first, last, place) of columns that are adjacent both in the messages and in the block."""
    first = last = place = 0
    for position, metric in scalars:
        if last > first and position == last and place_of[metric] == place + last - first:
            last += 1
            continue
        if last > first:
            yield first, last, place
        first, last, place = position, position + 1, place_of[metric]
    if last > first:
        yield first, last, place
