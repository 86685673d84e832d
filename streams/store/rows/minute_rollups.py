"""Aggregates the readings of each port by minute of event time: growth of counters, extremes and average of gauges.

A minute is complete with the first reading of a later minute. The increase of a counter is the difference between that
reading and the minute's first one, so that no growth is lost between minutes; after a gap, `observed_s` is longer than
a minute. Readings that arrive out of order are ignored.

A stream has the messages of one device and source with the same rows and columns. After a restart its state is restored
by reading its open minute from Kafka (persisted_topics.py). The open minutes of streams with the same columns are side
by side in one array, so that the messages of a block are aggregated together.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streams.store.rows.column_stacking import stack_counters, stack_gauges
from streams.store.rows.native_format import TIMESTAMP_S, Column, NumericColumn
from streams.store.rows.row_builder import StringDictionary, TableRows, message_origin_columns
from streams.store.rows.sample_layout import (
    LaneColumn,
    LayoutKey,
    PendingSamples,
    SampleLayout,
    has_extremes,
    sender_columns,
)
from streams.wire.models import ABSENT_COUNTER, RowKind, Samples, Source

MINUTE_NS = 60_000_000_000
MAX_GAP_NS = 3_600_000_000_000
"""After a longer gap, the increase of the minute is absent."""

MAX_STREAMS = 16
"""The limit of streams per device; a device with different columns in each message has no minutes."""

_Words = npt.NDArray[np.uint64]
_Integers = npt.NDArray[np.int64]
_Values = npt.NDArray[np.float32]
_Indices = npt.NDArray[np.intp]
_Number = TypeVar("_Number", np.int64, np.uint64, np.float32)


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream; its open minute is at a place of its group's arrays (-1: no place, because it is new or evicted)."""

    group: "_Group"
    device: str
    source: Source
    row_kind: RowKind
    row: tuple[str, ...]
    place: int = -1
    arrived_ms: int = 0
    is_evicted: bool = False


class _Minutes(NamedTuple):
    """Complete minutes of streams with one layout; a column of the arrays is a row of a stream.

    `last` has the reading that completes each minute; `grown` has ABSENT_COUNTER for an unknown increase.
    """

    layout: SampleLayout
    last: Sequence[PendingSamples]
    minute: _Integers
    readings: _Integers
    observed_s: npt.NDArray[np.float64]
    grown: _Words
    resets: npt.NDArray[np.bool_]
    lowest: _Values
    highest: _Values
    mean: _Values


_Turn = tuple[_Stream, PendingSamples]


class _Group:
    """The streams with one layout, in the order of the table, and their open minutes."""

    def __init__(self, layout: SampleLayout) -> None:
        self.layout = layout
        self.streams: list[_Stream] = []
        self.new: list[_Stream] = []
        # Per stream: the time of its first and newest reading, and their number (0: none yet).
        self._first_ns: _Integers = np.empty(0, np.int64)
        self._boot_id: _Words = np.empty(0, np.uint64)
        self._newest_ns: _Integers = np.empty(0, np.int64)
        self._readings: _Integers = np.empty(0, np.int64)
        # A stream's rows are the columns from `_begins[place]` to the next one's.
        self._begins: _Integers = np.zeros(1, np.int64)
        self._counters: _Words = np.empty((len(layout.counters), 0), np.uint64)  # of the first reading
        self._gauges: _Values = np.empty(
            (3, len(layout.gauges), 0), np.float32
        )  # lowest, highest, sum; as in the table

    @property
    def is_empty(self) -> bool:
        """True if all its streams were evicted."""
        return all(stream.is_evicted for stream in (*self.streams, *self.new))

    def arrange(self) -> None:
        """Assign places to new streams, and remove evicted streams."""
        if not self.new and not any(stream.is_evicted for stream in self.streams):
            return
        streams = [stream for stream in (*self.streams, *self.new) if not stream.is_evicted]
        streams.sort(key=lambda stream: (stream.device, stream.source))
        places = np.array([stream.place for stream in streams], np.intp)
        columns = np.concatenate([np.empty(0, np.intp), *(self._columns_of(stream) for stream in streams)])
        self._first_ns, self._boot_id = _moved(self._first_ns, places, 0), _moved(self._boot_id, places, 0)
        self._newest_ns, self._readings = _moved(self._newest_ns, places, -1), _moved(self._readings, places, 0)
        self._begins = np.array([0, *accumulate(len(stream.row) for stream in streams)])
        self._counters = _moved(self._counters, columns, ABSENT_COUNTER)
        self._gauges = _moved(self._gauges, columns, np.nan)
        for stream in self.streams:
            stream.place = -1
        for place, stream in enumerate(streams):
            stream.place = place
        self.streams, self.new = streams, []

    def _columns_of(self, stream: _Stream) -> _Indices:
        if stream.place < 0:
            return np.full(len(stream.row), -1, np.intp)
        return np.arange(self._begins[stream.place], self._begins[stream.place + 1], dtype=np.intp)

    def rounds(self, turns: Sequence[_Turn]) -> Iterator[list[PendingSamples | None]]:
        """Yield the first message of each stream by its place, then the second ones, and so on."""
        while turns:
            round_: list[PendingSamples | None] = [None] * len(self.streams)
            later: list[_Turn] = []
            for turn in turns:
                stream, pending = turn
                if stream.place < 0:
                    continue  # evicted in this block
                if round_[stream.place] is None:
                    round_[stream.place] = pending
                else:
                    later.append(turn)
            yield round_
            turns = later

    def fold(self, round_: Sequence[PendingSamples | None]) -> Iterator[_Minutes]:
        """Add at most one reading of each stream; yield the completed minutes."""
        at_ns = np.array([-1 if pending is None else pending.message.sampled_at_ns for pending in round_], np.int64)
        is_newer = at_ns > self._newest_ns
        is_first = is_newer & (self._readings == 0)
        continues = is_newer & ~is_first & (at_ns // MINUTE_NS == self._first_ns // MINUTE_NS)
        self._readings[continues] += 1
        self._newest_ns[is_newer] = at_ns[is_newer]
        for streams in _runs(continues):
            lowest, highest, total = self._gauges[:, :, self._columns(streams)]
            gauges = _gauges_of(_present(round_[streams]))
            np.fmin(lowest, gauges, out=lowest)
            np.fmax(highest, gauges, out=highest)
            total += gauges
        for chosen in (is_newer & ~is_first & ~continues, is_first):
            for streams in _runs(chosen):
                run = _present(round_[streams])
                now = np.concatenate([pending.message.counters.values for pending in run], axis=1)
                if chosen is not is_first:
                    yield self._complete(streams, run, at_ns[streams], now)
                self._start(streams, run, at_ns[streams], now)

    def _columns(self, streams: slice) -> slice:
        return slice(self._begins[streams.start], self._begins[streams.stop])

    def _start(self, streams: slice, run: Sequence[PendingSamples], at_ns: _Integers, now: _Words) -> None:
        """Begin a minute of each stream with its first reading."""
        columns = self._columns(streams)
        self._first_ns[streams], self._boot_id[streams], self._readings[streams] = at_ns, _boots_of(run), 1
        self._counters[:, columns], self._gauges[:, :, columns] = now, _gauges_of(run)

    def _complete(self, streams: slice, run: Sequence[PendingSamples], at_ns: _Integers, now: _Words) -> _Minutes:
        columns = self._columns(streams)
        was, (lowest, highest, total) = self._counters[:, columns], self._gauges[:, :, columns]
        heights = np.diff(self._begins[streams.start : streams.stop + 1])
        first_ns, readings = self._first_ns[streams].copy(), self._readings[streams].copy()
        same_boot = _boots_of(run) == self._boot_id[streams]
        is_known = same_boot & (at_ns - first_ns <= MAX_GAP_NS)
        grown, resets = now - was, now < was
        absent = now == ABSENT_COUNTER
        if resets.any() or absent.any() or not is_known.all():
            absent |= was == ABSENT_COUNTER
            resets = (resets | ~np.repeat(same_boot, heights)) & ~absent
            grown[absent | resets | ~np.repeat(is_known, heights)] = ABSENT_COUNTER
        mean = np.clip(total / np.repeat(readings.astype(np.float32), heights), lowest, highest)
        return _Minutes(
            self.layout, run, first_ns // MINUTE_NS, readings, np.where(is_known, (at_ns - first_ns) / 1e9, 0.0),
            grown, resets, lowest.copy(), highest.copy(), mean,
        )  # fmt: skip


def _moved(values: npt.NDArray[_Number], origins: _Indices, blank: float) -> npt.NDArray[_Number]:
    """Reorder the last axis: each origin is a former place, or -1 for a new one, which gets `blank`."""
    moved = np.full((*values.shape[:-1], len(origins)), blank, values.dtype)
    is_old = origins >= 0
    moved[..., is_old] = values[..., origins[is_old]]
    return moved


def _runs(chosen: npt.NDArray[np.bool_]) -> Iterator[slice]:
    """Yield the runs of adjacent chosen streams."""
    edges = np.flatnonzero(np.diff(chosen, prepend=False, append=False)).tolist()
    for begin, end in zip(edges[::2], edges[1::2], strict=True):
        yield slice(begin, end)


def _present(run: Sequence[PendingSamples | None]) -> list[PendingSamples]:
    return [pending for pending in run if pending is not None]


def _boots_of(run: Sequence[PendingSamples]) -> _Words:
    return np.array([pending.message.boot_id for pending in run], np.uint64)


def _gauges_of(run: Sequence[PendingSamples]) -> _Values:
    """Return the gauges of readings side by side; values beyond the type become infinite, as in the table."""
    return np.concatenate([pending.message.gauges.values for pending in run], axis=1, dtype=np.float32)


class MinuteRollups:
    """Aggregates the streams of one partition, and returns the minutes that a block completes."""

    def __init__(self) -> None:
        self._groups: dict[LayoutKey, _Group] = {}
        self._streams: dict[str, list[_Stream]] = {}  # by device
        self._pending: list[PendingSamples] = []

    def add(self, pending: PendingSamples) -> None:
        """Add a message to the block; a repeated one is ignored, because it is older than its stream's newest."""
        self._pending.append(pending)

    @np.errstate(over="ignore", invalid="ignore")
    def finish(self) -> list[TableRows]:
        """Aggregate the block; return the rows of the completed minutes."""
        pending, self._pending = self._pending, []
        minutes: list[_Minutes] = []
        for group, turns in self._turns(pending).items():
            group.arrange()
            for round_ in group.rounds(turns):
                minutes += group.fold(round_)
        return [*_scalar_rows(minutes), *_lane_rows(minutes)]

    def _turns(self, pending: Sequence[PendingSamples]) -> dict[_Group, list[_Turn]]:
        """Return the messages and their streams by group, in the order of arrival."""
        turns: dict[_Group, list[_Turn]] = {}
        group_of: dict[int, _Group] = {}  # by the layout's identity: a block has one object for equal columns
        for one in pending:
            origin, message, layout = one
            group = group_of.get(id(layout))
            if group is None:
                group = group_of[id(layout)] = self._groups.setdefault(layout.key, _Group(layout))
                turns.setdefault(group, [])
            for stream in self._streams.get(message.device, ()):
                if (
                    stream.group is group
                    and (stream.row is message.row or stream.row == message.row)
                    and stream.source is message.source
                    and stream.row_kind is message.row_kind
                ):
                    break
            else:
                stream = self._new_stream(group, message)
            stream.arrived_ms = origin.arrived_ms
            turns[group].append((stream, one))
        for group in [group for group in self._groups.values() if group.is_empty]:
            del self._groups[group.layout.key]
        return turns

    def _new_stream(self, group: _Group, message: Samples) -> _Stream:
        streams = self._streams.setdefault(message.device, [])
        if len(streams) == MAX_STREAMS:
            oldest = min(streams, key=lambda one: one.arrived_ms)
            oldest.is_evicted = True
            streams.remove(oldest)
        stream = _Stream(group, message.device, message.source, message.row_kind, message.row)
        streams.append(stream)
        group.new.append(stream)
        return stream


def _scalar_rows(minutes: Sequence[_Minutes]) -> list[TableRows]:
    by_layout: dict[int, list[_Minutes]] = {}
    for one in minutes:
        if one.layout.has_scalars and one.grown.shape[1]:
            by_layout.setdefault(id(one.layout), []).append(one)
    if not by_layout:
        return []
    groups = list(by_layout.values())
    ordered = [one for group in groups for one in group]
    layouts = [group[0].layout for group in groups]
    resets = [
        one.resets[[position for position, _ in one.layout.scalar_counters]].sum(axis=0, dtype=np.uint16)
        for one in ordered
    ]
    grown = stack_counters(
        [layout.scalar_counters for layout in layouts], [[one.grown for one in group] for group in groups]
    )
    columns = [
        *_identity_columns(ordered, slice(None)),
        NumericColumn("resets", "UInt16", np.concatenate(resets)),
        *(replace(column, name=f"{column.name}_increase") for column in grown),
    ]
    averaged = [layout.scalar_gauges for layout in layouts]
    with_extremes = [[one for one in scalars if has_extremes(one[1])] for scalars in averaged]
    for suffix, gauge in _GAUGES:
        scalars = averaged if suffix == "avg" else with_extremes
        stacked = stack_gauges(scalars, [[gauge(one) for one in group] for group in groups], "Float32")
        columns += [replace(column, name=f"{column.name}_{suffix}") for column in stacked]
    return [TableRows("samples_1m", columns)]


_GAUGES: tuple[tuple[str, Callable[[_Minutes], _Values]], ...] = (
    ("min", lambda one: one.lowest),
    ("max", lambda one: one.highest),
    ("avg", lambda one: one.mean),
)


def _identity_columns(minutes: Sequence[_Minutes], rows: _Indices | slice) -> list[Column]:
    """Return the columns that identify rows; row numbers count over all these minutes."""
    last = [pending for one in minutes for pending in one.last]
    messages = [pending.message for pending in last]
    message_of = np.repeat(np.arange(len(messages)), [len(message.row) for message in messages])[rows]
    numbers = [
        NumericColumn("bucket", TIMESTAMP_S, np.concatenate([one.minute for one in minutes]) * 60),
        NumericColumn("readings", "UInt32", np.concatenate([one.readings for one in minutes])),
        NumericColumn("observed_s", "Float32", np.concatenate([one.observed_s for one in minutes])),
        *message_origin_columns([pending.origin for pending in last]),
    ]
    names = StringDictionary()
    return [
        *(replace(column, codes=column.codes[message_of]) for column in sender_columns(messages)),
        names.column("row", np.concatenate(names.list_codes([message.row for message in messages]))[rows]),
        *(replace(column, values=column.values[message_of]) for column in numbers),
    ]


class _Lane(NamedTuple):
    """The rows of a lane with a value: `rows` are indices within the minutes, which begin at row `first` of all."""

    minutes: _Minutes
    column: LaneColumn
    rows: _Indices
    first: int


def _lane_rows(minutes: Sequence[_Minutes]) -> list[TableRows]:
    firsts = accumulate((one.grown.shape[1] for one in minutes), initial=0)
    lanes = [lane for one, first in zip(minutes, firsts, strict=False) for lane in _lanes(one, first)]
    if not lanes:
        return []
    heights = np.array([len(lane.rows) for lane in lanes])
    metrics = StringDictionary()
    columns: list[Column] = [
        *_identity_columns(minutes, np.concatenate([lane.first + lane.rows for lane in lanes])),
        metrics.column("metric", np.repeat([metrics.code(lane.column.name) for lane in lanes], heights)),
        NumericColumn("index", "Int32", np.repeat(np.array([lane.column.index for lane in lanes], np.int32), heights)),
        *_lane_values(lanes),
    ]
    return [TableRows("sample_lanes_1m", columns)]


def _lanes(minutes: _Minutes, first: int) -> Iterator[_Lane]:
    for column in minutes.layout.lanes:
        if column.counter:
            rows = np.flatnonzero((minutes.grown[column.position] != ABSENT_COUNTER) | minutes.resets[column.position])
        else:
            rows = np.flatnonzero(~np.isnan(minutes.lowest[column.position]))
        if len(rows):
            yield _Lane(minutes, column, rows, first)


def _lane_values(lanes: Sequence[_Lane]) -> list[Column]:
    """Return the columns of counters and gauges; a lane has a value in one of them."""

    def stacked(counter: bool, values: Callable[[_Minutes], npt.NDArray[Any]], blank: Any) -> npt.NDArray[Any]:
        parts = [
            values(lane.minutes)[lane.column.position, lane.rows]
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
        *(NumericColumn(f"value_{suffix}", "Float32", values, np.isnan(values)) for suffix, values in gauges),
    ]
