"""Folds the readings of each port into minutes of event time: growth of counters, extremes and average of gauges.

A minute is complete with the first reading of a later one. The increases of its counters go from its own first reading
to that one, so that no growth is lost between minutes; where a reading is missing for longer, `observed_s` is longer
than a minute. Readings that arrive out of order are not folded.

A stream is the messages of one device and source that have the same rows and columns. Its state is restored after a
restart by reading its open minute in Kafka again (persisted_topics.py). The open minutes of streams with the same
columns are side by side in one array, so that the messages of a block are folded at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streams.store.enum_labels import row_kind_name, source_name
from streams.store.rows.column_stacking import stack_counters, stack_gauges
from streams.store.rows.native_format import TIMESTAMP_S, Column, NumericColumn
from streams.store.rows.pending_samples import PendingSamples
from streams.store.rows.row_builder import StringDictionary, TableRows, message_origin_columns
from streams.store.sample_layout import LaneColumn, LayoutKey, SampleLayout
from streams.wire.models import ABSENT_COUNTER, RowKind, Samples, Source

MINUTE_NS = 60_000_000_000
MAX_GAP_NS = 3_600_000_000_000
"""Growth over a longer gap has no place in a minute: its increase is absent."""

MAX_STREAMS = 16
"""Limit of one device: a device whose messages differ in their columns each time has no minutes."""

_Words = npt.NDArray[np.uint64]
_Values = npt.NDArray[np.float32]
_Indices = npt.NDArray[np.intp]


@dataclass(slots=True, eq=False)
class _Stream:
    """The open minute of a stream: columns `begin` to `end` of the arrays of its group."""

    group: "_Group"
    device: str
    source: Source
    row_kind: RowKind
    row: tuple[str, ...]
    begin: int = 0
    end: int = 0
    boot_id: int = 0
    first_ns: int = 0
    end_ns: int = 0
    newest_ns: int = -1
    readings: int = 0
    arrived_ms: int = 0
    is_evicted: bool = False

    def start(self, message: Samples) -> None:
        """Begin a minute with its first reading."""
        self.boot_id, self.first_ns = message.boot_id, message.sampled_at_ns
        self.end_ns = (self.first_ns // MINUTE_NS + 1) * MINUTE_NS
        self.newest_ns, self.readings = self.first_ns, 1


class _Minutes(NamedTuple):
    """Complete minutes of streams with one layout: a column of the arrays is a row of a stream.

    `last` has the reading that completes each minute; `grown` has ABSENT_COUNTER where the increase is not known.
    """

    layout: SampleLayout
    last: Sequence[PendingSamples]
    minute: Sequence[int]
    readings: Sequence[int]
    observed_s: Sequence[float]
    grown: _Words
    resets: npt.NDArray[np.bool_]
    lowest: _Values
    highest: _Values
    mean: _Values


_Turn = tuple[_Stream, PendingSamples]


@dataclass(slots=True, eq=False)
class _Group:
    """The streams with one layout, in the order of the table, and their open minutes: (columns of the layout, rows)."""

    layout: SampleLayout
    streams: list[_Stream] = field(default_factory=list)
    new: list[_Stream] = field(default_factory=list)
    counters: _Words = field(default_factory=lambda: np.empty((0, 0), np.uint64))
    gauges: _Values = field(default_factory=lambda: np.empty((3, 0, 0), np.float32))
    """Lowest, highest, and sum; of the type that the table has."""

    @property
    def is_empty(self) -> bool:
        """True if all of its streams were evicted."""
        return all(stream.is_evicted for stream in (*self.streams, *self.new))

    def arrange(self) -> None:
        """Give the new streams their columns, and remove those of the streams that were evicted."""
        if not self.new and not any(stream.is_evicted for stream in self.streams):
            return
        streams = [stream for stream in (*self.streams, *self.new) if not stream.is_evicted]
        streams.sort(key=lambda stream: (stream.device, stream.source))
        ends = list(accumulate((len(stream.row) for stream in streams), initial=0))
        counters = np.full((len(self.layout.counters), ends[-1]), ABSENT_COUNTER, np.uint64)
        gauges = np.full((3, len(self.layout.gauges), ends[-1]), np.nan, np.float32)
        for stream, (begin, end) in zip(streams, pairwise(ends), strict=True):
            if stream.readings:
                counters[:, begin:end] = self.counters[:, stream.begin : stream.end]
                gauges[:, :, begin:end] = self.gauges[:, :, stream.begin : stream.end]
            stream.begin, stream.end = begin, end
        self.streams, self.new, self.counters, self.gauges = streams, [], counters, gauges

    def fold(self, turns: list[_Turn]) -> Iterator[_Minutes]:
        """Add one reading of each of these streams; yield the minutes that they complete."""
        folded, completing = [], []
        for turn in turns:
            stream, (_, message, _) = turn
            at_ns = message.sampled_at_ns
            if stream.is_evicted or at_ns <= stream.newest_ns:
                continue
            if at_ns < stream.end_ns:
                stream.newest_ns = at_ns
                stream.readings += 1
                folded.append(turn)
            else:
                completing.append(turn)
        for columns, run in _runs(folded):
            lowest, highest, total = self.gauges[:, :, columns]
            gauges = _gauges_of(run)
            np.fmin(lowest, gauges, out=lowest)
            np.fmax(highest, gauges, out=highest)
            total += gauges
        for columns, run in _runs(completing):
            counters = np.concatenate([pending.message.counters.values for _, pending in run], axis=1)
            if run[0][0].readings:
                yield self._complete(columns, run, counters)
            self.counters[:, columns] = counters
            self.gauges[:, :, columns] = _gauges_of(run)
            for stream, pending in run:
                stream.start(pending.message)

    def _complete(self, columns: slice, run: Sequence[_Turn], now: _Words) -> _Minutes:
        was = self.counters[:, columns]
        lowest, highest, total = self.gauges[:, :, columns]
        heights = [len(stream.row) for stream, _ in run]
        readings = [stream.readings for stream, _ in run]
        gaps_ns = [pending.message.sampled_at_ns - stream.first_ns for stream, pending in run]
        same_boot = [pending.message.boot_id == stream.boot_id for stream, pending in run]
        known = [same and gap_ns <= MAX_GAP_NS for same, gap_ns in zip(same_boot, gaps_ns, strict=True)]
        grown, resets = now - was, now < was
        unknown = now == ABSENT_COUNTER
        if resets.any() or unknown.any() or not all(known):
            unknown |= was == ABSENT_COUNTER
            resets = (resets | ~np.repeat(same_boot, heights)) & ~unknown
            grown[unknown | resets | ~np.repeat(known, heights)] = ABSENT_COUNTER
        mean = np.clip(total / np.repeat(np.array(readings, np.float32), heights), lowest, highest)
        return _Minutes(
            self.layout,
            [pending for _, pending in run],
            [stream.first_ns // MINUTE_NS for stream, _ in run],
            readings,
            [gap_ns / 1e9 if is_known else 0.0 for gap_ns, is_known in zip(gaps_ns, known, strict=True)],
            grown, resets, lowest.copy(), highest.copy(), mean,
        )  # fmt: skip


def _runs(turns: list[_Turn]) -> Iterator[tuple[slice, list[_Turn]]]:
    """Yield readings of adjacent streams with their columns; streams without a reading before are apart from others."""
    turns.sort(key=lambda turn: turn[0].begin)
    begin = 0
    for end, ((left, _), (right, _)) in enumerate(pairwise(turns), start=1):
        if left.end != right.begin or (not left.readings) is not (not right.readings):
            yield _columns_of(turns[begin:end]), turns[begin:end]
            begin = end
    if turns:
        yield _columns_of(turns[begin:]), turns[begin:]


def _columns_of(run: Sequence[_Turn]) -> slice:
    return slice(run[0][0].begin, run[-1][0].end)


def _gauges_of(run: Sequence[_Turn]) -> _Values:
    """Return the gauges of readings side by side; values beyond the type are infinite, as the table stores them."""
    return np.concatenate([pending.message.gauges.values for _, pending in run], axis=1, dtype=np.float32)


class MinuteRollups:
    """The streams of one partition, and the minutes that a block completes."""

    def __init__(self) -> None:
        self._groups: dict[LayoutKey, _Group] = {}
        self._streams: dict[str, list[_Stream]] = {}  # by device
        self._pending: list[PendingSamples] = []

    def add(self, pending: PendingSamples) -> None:
        """Add a message to the block; one that was folded before is older than its stream's newest: it is ignored."""
        self._pending.append(pending)

    @np.errstate(over="ignore", invalid="ignore")
    def finish(self) -> list[TableRows]:
        """Fold the block; return the rows of the minutes that it completes."""
        pending, self._pending = self._pending, []
        minutes: list[_Minutes] = []
        for group, rounds in self._rounds(pending).items():
            group.arrange()
            for turns in rounds:
                minutes += group.fold(turns)
        return [*_scalar_rows(minutes), *_lane_rows(minutes)]

    def _rounds(self, pending: Sequence[PendingSamples]) -> dict[_Group, list[list[_Turn]]]:
        """Return the messages by group; the n-th list has the n-th message of each stream in the order of arrival."""
        rounds: dict[_Group, list[list[_Turn]]] = {}
        group_of: dict[int, _Group] = {}  # by the layout's identity: a block has one object for equal columns
        turns_of: dict[_Stream, int] = {}
        for one in pending:
            origin, message, layout = one
            group = group_of.get(id(layout))
            if group is None:
                group = group_of[id(layout)] = self._groups.setdefault(layout.key, _Group(layout))
            own = rounds.setdefault(group, [])
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
            number = turns_of[stream] = turns_of.get(stream, -1) + 1
            if number == len(own):
                own.append([])
            own[number].append((stream, one))
        for group in [group for group in self._groups.values() if group.is_empty]:
            del self._groups[group.layout.key]
        return rounds

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
    grown = stack_counters(layouts, [[one.grown for one in group] for group in groups])
    columns = [
        *_identity_columns(ordered, slice(None)),
        NumericColumn("resets", "UInt16", np.concatenate([_scalar_resets(one) for one in ordered])),
        *(replace(column, name=f"{column.name}_increase") for column in grown),
    ]
    for suffix, gauge in _GAUGES:
        stacked = stack_gauges(layouts, [[gauge(one) for one in group] for group in groups], "Float32")
        columns += [replace(column, name=f"{column.name}_{suffix}") for column in stacked]
    return [TableRows("samples_1m", columns)]


def _scalar_resets(minutes: _Minutes) -> npt.NDArray[np.uint16]:
    """Return how many scalar counters of each row decreased; adding up many zeros would take a while."""
    if not minutes.resets.any():
        return np.zeros(minutes.resets.shape[1], np.uint16)
    scalars = [position for position, _ in minutes.layout.scalar_counters]
    resets: npt.NDArray[np.uint16] = minutes.resets[scalars].sum(axis=0, dtype=np.uint16)
    return resets


_GAUGES: tuple[tuple[str, Callable[[_Minutes], _Values]], ...] = (
    ("min", lambda one: one.lowest),
    ("max", lambda one: one.highest),
    ("avg", lambda one: one.mean),
)


def _identity_columns(minutes: Sequence[_Minutes], rows: _Indices | slice) -> list[Column]:
    """Return the columns that identify rows, which are counted over all of these minutes."""
    last = [pending for one in minutes for pending in one.last]
    messages = [pending.message for pending in last]
    message_of = np.repeat(np.arange(len(messages)), [len(message.row) for message in messages])[rows]
    strings = (
        StringDictionary().plain_column("device", [message.device for message in messages]),
        StringDictionary().plain_column("source", [source_name(message.source) for message in messages]),
        StringDictionary().plain_column("row_kind", [row_kind_name(message.row_kind) for message in messages]),
    )
    numbers = [
        NumericColumn("bucket", TIMESTAMP_S, np.array([minute * 60 for one in minutes for minute in one.minute])),
        NumericColumn("readings", "UInt32", np.array([count for one in minutes for count in one.readings])),
        NumericColumn("observed_s", "Float32", np.array([seconds for one in minutes for seconds in one.observed_s])),
        *message_origin_columns([pending.origin for pending in last]),
    ]
    names = StringDictionary()
    return [
        *(replace(column, codes=column.codes[message_of]) for column in strings),
        names.column("row", np.concatenate(names.list_codes([message.row for message in messages]))[rows]),
        *(replace(column, values=column.values[message_of]) for column in numbers),
    ]


class _Lane(NamedTuple):
    """The rows of a lane that have a value: `rows` of the minutes, which begin at row `first` of all."""

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
    """Return the values of counters and of gauges; a lane has one of both."""

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
