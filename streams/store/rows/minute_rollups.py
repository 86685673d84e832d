"""Folds the readings of each port into minutes of event time: growth of counters, extremes and average of gauges.

A minute is complete with the first reading of a later one. The increases of its counters go from its own first reading
to that one, so that no growth is lost between minutes; where a reading is missing for longer, `observed_s` is longer
than a minute. Readings that arrive out of order are not folded.

A stream is the messages of one device and source that have the same rows and columns. Its state is restored after a
restart by reading its open minute in Kafka again (persisted_topics.py).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streams.store.enum_labels import row_kind_name, source_name
from streams.store.rows.column_stacking import stack_counters, stack_gauges
from streams.store.rows.native_format import TIMESTAMP_S, Column, NumericColumn
from streams.store.rows.pending_samples import PendingSamples
from streams.store.rows.row_builder import StringDictionary, TableRows, message_origin_columns
from streams.store.sample_layout import LaneColumn
from streams.wire.models import ABSENT_COUNTER, Samples, Table

MINUTE_NS = 60_000_000_000
MAX_GAP_NS = 3_600_000_000_000
"""Growth over a longer gap has no place in a minute: its increase is absent."""

MAX_STREAMS = 16
"""Limit of one device: a device whose messages differ in their columns each time has no minutes."""

_NO_VALUES = Table((), (), np.empty((0, 0)))

_Words = npt.NDArray[np.uint64]
_Values = npt.NDArray[np.float64]


class _Minute(NamedTuple):
    """A complete minute of a stream; `grown` has ABSENT_COUNTER where the increase is not known."""

    last: PendingSamples
    minute: int
    readings: int
    observed_s: float
    grown: _Words
    resets: npt.NDArray[np.bool_]
    lowest: _Values
    highest: _Values
    mean: _Values


@dataclass(slots=True)
class _Stream:
    """The open minute of a stream, from its first reading on."""

    first: PendingSamples
    counters: _Words
    lowest: _Values
    highest: _Values
    total: _Values
    newest_ns: int
    readings: int = 1

    def matches(self, pending: PendingSamples) -> bool:
        """Return whether a message has the rows and columns of the stream."""
        first, message = self.first.message, pending.message
        return (
            first.source == message.source
            and first.row_kind == message.row_kind
            and first.row == message.row
            and self.first.layout.matches(message)
        )

    def fold(self, message: Samples) -> None:
        """Add a reading of the open minute."""
        gauges = message.gauges.values
        np.fmin(self.lowest, gauges, out=self.lowest)
        np.fmax(self.highest, gauges, out=self.highest)
        self.total += gauges
        self.newest_ns = message.sampled_at_ns
        self.readings += 1

    def complete(self, last: PendingSamples) -> _Minute:
        """Return the minute that a reading of a later one completes."""
        message, first = last.message, self.first.message
        now, was = message.counters.values, self.counters
        gap_ns = message.sampled_at_ns - first.sampled_at_ns
        is_known = message.boot_id == first.boot_id and gap_ns <= MAX_GAP_NS
        present = (now != ABSENT_COUNTER) & (was != ABSENT_COUNTER)
        resets = present & (now < was) if message.boot_id == first.boot_id else present
        grown = np.where(present & ~resets, now - was, np.uint64(ABSENT_COUNTER))
        if not is_known:
            grown[:] = ABSENT_COUNTER
        return _Minute(
            last, first.sampled_at_ns // MINUTE_NS, self.readings, gap_ns / 1e9 if is_known else 0.0, grown, resets,
            self.lowest, self.highest, self.total / self.readings,
        )  # fmt: skip


def _start(pending: PendingSamples) -> _Stream:
    """Return the stream of its first reading in a minute; copies what it retains, so that the message can be freed."""
    message = pending.message
    gauges = np.asarray(message.gauges.values, np.float64)
    header = replace(message, counters=_NO_VALUES, gauges=_NO_VALUES)
    return _Stream(
        PendingSamples(pending.origin._replace(message=header), header, pending.layout),
        np.array(message.counters.values, np.uint64),
        gauges.copy(), gauges.copy(), gauges.copy(), message.sampled_at_ns,
    )  # fmt: skip


class MinuteRollups:
    """The streams of one partition, and the minutes that the block completes."""

    def __init__(self) -> None:
        self._streams: dict[str, list[_Stream]] = {}  # by device
        self._complete: list[_Minute] = []

    def add(self, pending: PendingSamples) -> None:
        """Fold a message; one that was folded before is older than its stream's newest, and so is ignored."""
        message = pending.message
        streams = self._streams.setdefault(message.device, [])
        for number, stream in enumerate(streams):
            if not stream.matches(pending):
                continue
            if message.sampled_at_ns <= stream.newest_ns:
                return
            if message.sampled_at_ns // MINUTE_NS == stream.newest_ns // MINUTE_NS:
                stream.fold(message)
            else:
                self._complete.append(stream.complete(pending))
                streams[number] = _start(pending)
            return
        if len(streams) == MAX_STREAMS:
            streams.remove(min(streams, key=lambda stream: stream.newest_ns))
        streams.append(_start(pending))

    def finish(self) -> list[TableRows]:
        """Return the rows of the complete minutes, and forget these."""
        complete, self._complete = self._complete, []
        return [*_scalar_rows(complete), *_lane_rows(complete)]


def _scalar_rows(minutes: Sequence[_Minute]) -> list[TableRows]:
    by_layout: dict[tuple[Any, ...], list[_Minute]] = {}
    for one in sorted(minutes, key=lambda one: (one.last.message.device, one.last.message.source)):
        layout = one.last.layout
        if layout.has_scalars and one.last.message.row:
            by_layout.setdefault(
                (layout.counters, layout.counters_index, layout.gauges, layout.gauges_index), []
            ).append(one)
    if not by_layout:
        return []
    groups = list(by_layout.values())
    ordered = [one for group in groups for one in group]
    heights = np.array([len(one.last.message.row) for one in ordered])
    names = StringDictionary()
    columns: list[Column] = [
        *_identity_columns(ordered, heights),
        names.column("row", np.concatenate(names.list_codes([one.last.message.row for one in ordered]))),
        NumericColumn("resets", "UInt16", np.concatenate([_scalar_resets(one) for one in ordered]).astype(np.uint16)),
    ]
    layouts = [group[0].last.layout for group in groups]
    grown = stack_counters(layouts, [[one.grown for one in group] for group in groups])
    columns += [replace(column, name=f"{column.name}_increase") for column in grown]
    for suffix, gauge in _GAUGES:
        stacked = stack_gauges(layouts, [[gauge(one) for one in group] for group in groups])
        columns += [replace(column, name=f"{column.name}_{suffix}") for column in stacked]
    return [TableRows("samples_1m", columns)]


_GAUGES: tuple[tuple[str, Callable[[_Minute], _Values]], ...] = (
    ("min", lambda one: one.lowest),
    ("max", lambda one: one.highest),
    ("avg", lambda one: one.mean),
)


def _scalar_resets(one: _Minute) -> npt.NDArray[np.int64]:
    resets: npt.NDArray[np.int64] = one.resets[[position for position, _ in one.last.layout.scalar_counters]].sum(
        axis=0
    )
    return resets


def _identity_columns(minutes: Sequence[_Minute], heights: npt.NDArray[Any]) -> list[Column]:
    messages = [one.last.message for one in minutes]
    numbers = (
        ("bucket", TIMESTAMP_S, np.uint32, [one.minute * 60 for one in minutes]),
        ("readings", "UInt32", np.uint32, [one.readings for one in minutes]),
        ("observed_s", "Float32", np.float32, [one.observed_s for one in minutes]),
    )
    return [
        StringDictionary().repeated_column("device", [message.device for message in messages], heights),
        StringDictionary().repeated_column("source", [source_name(message.source) for message in messages], heights),
        StringDictionary().repeated_column(
            "row_kind", [row_kind_name(message.row_kind) for message in messages], heights
        ),
        *(
            NumericColumn(name, type_, np.repeat(np.array(values, kind), heights))
            for name, type_, kind, values in numbers
        ),
        *message_origin_columns([one.last.origin for one in minutes], heights),
    ]


class _Lane(NamedTuple):
    """The rows of a lane in a minute: those that have a value."""

    minute: _Minute
    column: LaneColumn
    rows: npt.NDArray[np.intp]


def _lane_rows(minutes: Sequence[_Minute]) -> list[TableRows]:
    lanes = [lane for one in minutes for lane in _lanes(one)]
    if not lanes:
        return []
    heights = np.array([len(lane.rows) for lane in lanes])
    names = StringDictionary()
    codes = names.list_codes([lane.minute.last.message.row for lane in lanes])
    metrics = [lane.column.name for lane in lanes]
    columns: list[Column] = [
        *_identity_columns([lane.minute for lane in lanes], heights),
        names.column("row", np.concatenate([code[lane.rows] for code, lane in zip(codes, lanes, strict=True)])),
        StringDictionary().repeated_column("metric", metrics, heights),
        NumericColumn("index", "Int32", np.repeat(np.array([lane.column.index for lane in lanes], np.int32), heights)),
        *_lane_values(lanes),
    ]
    return [TableRows("sample_lanes_1m", columns)]


def _lanes(one: _Minute) -> list[_Lane]:
    out = []
    for column in one.last.layout.lanes:
        if column.counter:
            rows = np.flatnonzero((one.grown[column.position] != ABSENT_COUNTER) | one.resets[column.position])
        else:
            rows = np.flatnonzero(~np.isnan(one.lowest[column.position]))
        if len(rows):
            out.append(_Lane(one, column, rows))
    return out


def _lane_values(lanes: Sequence[_Lane]) -> list[Column]:
    """Return the values of counters and of gauges; a lane has one of both."""

    def stacked(counter: bool, values: Callable[[_Minute], npt.NDArray[Any]], blank: Any) -> npt.NDArray[Any]:
        parts = [
            values(lane.minute)[lane.column.position, lane.rows]
            if lane.column.counter is counter
            else np.full(len(lane.rows), blank)
            for lane in lanes
        ]
        return np.concatenate(parts)

    grown = stacked(True, lambda one: one.grown, np.uint64(ABSENT_COUNTER))
    resets = stacked(True, lambda one: one.resets, False)
    gauges = [(suffix, stacked(False, gauge, np.nan)) for suffix, gauge in _GAUGES]
    return [
        NumericColumn("resets", "UInt16", resets.astype(np.uint16)),
        NumericColumn("increase", "UInt64", grown, grown == ABSENT_COUNTER),
        *(NumericColumn(f"value_{suffix}", "Float64", values, np.isnan(values)) for suffix, values in gauges),
    ]
