"""Stores the state of the selection of windows by device and port: readings beyond a limit, and the last sent values.

The last reading of a window does not show a gauge's value for most of it. A BER is evaluated by its mean over the time
of the window and by its maximum, optical power and SNR also by their minimum, so each reading beyond the limit is
retained until its window is final. Readings within the limits cost one comparison of arrays.
"""

from bisect import insort
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from streams.detect.measure.storage.array_codec import ArrayCodec, ArrayDecoder, Numbers
from streams.detect.measure.storage.column_store import (
    NONE,
    Cells,
    Column,
    ColumnMapping,
    DeviceArrays,
    Indices,
    MappingCache,
    TableDelta,
    Times,
)
from streams.detect.measure.storage.reading_history import ReadingHistory
from streams.fabric.catalogue import Metric
from streams.wire.models import NO_INDEX, LevelExtreme, Table

BER: Column = (Metric.PRE_FEC_BER, NO_INDEX)


class BeyondReading(NamedTuple):
    """A reading beyond the limit, and the previous reading of its port (0 for none)."""

    at_ns: int
    since_ns: int
    value: float


class Excursions(DeviceArrays):
    """The retained readings of a block, by device, level and row.

    `levels` are gauges of the block: the BER, which is beyond `ber_limit`, and those that dip below their bound.
    """

    usual: npt.NDArray[np.float32]
    """The levels last sent before the previous window, which do not depend on the order of arrival."""
    bounds: npt.NDArray[np.float32]
    """Readings below these bounds are retained: a dip below the higher of the usual and the last sent level."""

    def __init__(self, levels: Sequence[Column], rows: int, ber_limit: float, dip: float) -> None:
        self.dipping = tuple(level for level in levels if level != BER)
        """The levels that can dip, in the order of `set_levels`."""
        super().__init__(self.dipping, rows)
        self._ber_limit, self._dip = ber_limit, dip
        self._ber = BER in levels
        self._array("usual", "cr", np.float32, np.nan)
        self._array("bounds", "cr", np.float32, np.nan)
        self.readings: dict[int, dict[tuple[Column, int], list[BeyondReading]]] = {}
        """Device -> level and row -> readings, in order of time."""
        self._positions = MappingCache(self._find_positions)

    def clear(self, device: int) -> None:
        super().clear(device)
        self.readings.pop(device, None)

    def move_in(self, device: int, other: Any, former: int) -> None:
        super().move_in(device, other, former)
        if (own := other.readings.pop(former, None)) is not None:
            self.readings[device] = own

    def set_levels(self, devices: Indices, before: Cells, sent: Cells) -> None:
        """Set the last sent levels, and those before, of levels that can dip; shape (devices, levels, rows)."""
        self.usual[devices] = before
        self.bounds[devices] = np.fmax(before, sent) - self._dip

    def dips(self, device: int, level: Column, row: int, readings: Sequence[BeyondReading]) -> list[BeyondReading]:
        """Return the readings of a window that dip below the usual level."""
        usual = self.usual[device, self.dipping.index(level), row]
        return [reading for reading in readings if reading.value <= usual - self._dip]

    def observe(self, delta: TableDelta) -> None:
        """Retain the readings of messages that are beyond the limits."""
        ber, dipping, places = self._positions[delta.mapping]
        if ber is not None:
            self._retain(delta, BER, ber, delta.values[:, ber] >= self._ber_limit)
        if len(dipping):
            low = delta.values[:, dipping] <= self.bounds[delta.devices[:, None], places]
            if np.count_nonzero(low):
                for position, place in zip(dipping.tolist(), places.tolist(), strict=True):
                    self._retain(delta, self.dipping[place], position, delta.values[:, position] <=
                                 self.bounds[delta.devices, place])  # fmt: skip

    def observe_late(self, device: int, at_ns: int, table: Table, rows: Indices, history: ReadingHistory) -> None:
        """Retain late readings of a device; each also divides the interval of the reading after it."""
        for column, values in zip(zip(table.metric, table.index, strict=True), table.values, strict=True):
            if column == BER and self._ber:
                beyond = values >= self._ber_limit
            elif column in self.dipping:
                beyond = values <= self.bounds[device, self.dipping.index(column), rows]
            else:
                continue
            times = [read[0] for read in history.reads if read[0] < at_ns and column[0] in read[2]]
            own = self.readings.get(device, {})
            for row, value, is_beyond in zip(rows.tolist(), values.tolist(), beyond.tolist(), strict=True):
                if value != value:  # NaN: not read
                    continue
                known = own.get((column, row), [])
                if any(one.at_ns == at_ns for one in known):
                    continue
                since_ns = max(times, default=0)
                for place, one in enumerate(known):
                    if one.since_ns < at_ns < one.at_ns:
                        since_ns = max(since_ns, one.since_ns)
                        known[place] = one._replace(since_ns=at_ns)
                if is_beyond:
                    self._add(device, column, row, BeyondReading(at_ns, since_ns, value))

    def take(self, device: int, until_ns: int) -> Iterator[tuple[Column, int, list[BeyondReading]]]:
        """Remove and yield the readings of a device before a time, by level and row, each in order of time."""
        own = self.readings.get(device)
        if own is None:
            return
        for (level, row), readings in list(own.items()):
            taken = [reading for reading in readings if reading.at_ns < until_ns]
            if len(taken) == len(readings):
                del own[level, row]
            else:
                own[level, row] = readings[len(taken) :]
            if taken:
                yield level, row, taken
        if not own:
            del self.readings[device]

    def dump(self, number_of: dict[int, int]) -> list[Any]:
        """Return the readings as JSON values, by the number of the device in the snapshot."""
        return sorted(
            [number_of[device], *level, row, [list(reading) for reading in readings]]
            for device, own in self.readings.items()
            if device in number_of
            for (level, row), readings in own.items()
        )

    def other_usual(self, devices: Indices, sent: Cells) -> list[Any]:
        """Return the usual levels that differ from the last sent ones, as JSON values: (number, level, row, value)."""
        usual = self.usual[devices]
        differs = (usual != sent) & ~(np.isnan(usual) & np.isnan(sent))
        return [[*cell, float(usual[cell])] for cell in zip(*(w.tolist() for w in np.nonzero(differs)), strict=True)]

    def load(self, data: Sequence[Any]) -> None:
        for device, metric, index, row, readings in data:
            own = self.readings.setdefault(device, {})
            own[(Metric(metric), index), row] = [BeyondReading(*reading) for reading in readings]

    def _find_positions(self, mapping: ColumnMapping) -> tuple[int | None, Indices, Indices]:
        ber = mapping.position_of.get(BER) if self._ber else None
        read = [(mapping.position_of[level], n) for n, level in enumerate(self.dipping)
                if level in mapping.position_of]  # fmt: skip
        return ber, np.array([p for p, _ in read], np.intp), np.array([n for _, n in read], np.intp)

    def _retain(self, delta: TableDelta, level: Column, position: int, beyond: npt.NDArray[np.bool_]) -> None:
        if not np.count_nonzero(beyond):
            return
        for message, row in zip(*(where.tolist() for where in np.nonzero(beyond)), strict=True):
            reading = BeyondReading(
                int(delta.at_ns[message]), delta.since_ns(position, message, row),
                float(delta.values[message, position, row]),
            )  # fmt: skip
            self._add(int(delta.devices[message]), level, row, reading)

    def _add(self, device: int, level: Column, row: int, reading: BeyondReading) -> None:
        insort(self.readings.setdefault(device, {}).setdefault((level, row), []), reading)


def time_mean(readings: Sequence[BeyondReading], since_ns: int, until_ns: int, rest: float) -> float:
    """Return the mean from `since_ns` (0: unknown) to `until_ns`; `rest` is the value outside the readings.

    A reading represents the time since the previous one.
    """
    spans = [(r.at_ns - (r.since_ns or since_ns or r.at_ns), r.value) for r in readings]
    beyond_ns = sum(span for span, _ in spans)
    whole_ns = max(until_ns - (since_ns or min(r.since_ns or r.at_ns for r in readings)), beyond_ns)
    if not whole_ns:
        return max(value for _, value in spans)
    return (sum(span * value for span, value in spans) + rest * (whole_ns - beyond_ns)) / whole_ns


def beyond_s(readings: Sequence[BeyondReading]) -> float:
    """Return the seconds that the readings represent."""
    return sum(r.at_ns - (r.since_ns or r.at_ns) for r in readings) / 1e9


class PortWindowReport(NamedTuple):
    """One window of one port; `message` is its number among the final windows."""

    message: int
    row: int
    number: int
    since_ns: int
    at_ns: int
    values: dict[Column, tuple[float, float]]
    """Column -> growth and 0, or the level and the last sent value."""
    extremes: tuple[LevelExtreme, ...] = ()


class SelectionState(DeviceArrays):
    """The state of the selection of windows for the devices of a block; its columns are levels."""

    sent_levels: npt.NDArray[np.float32]
    """The last sent value of each level; NaN before the first reading."""
    watch_until: npt.NDArray[np.int32]
    """The last window of a port that is sent because of an earlier notable one."""
    isolated_error_at: npt.NDArray[np.int32]
    """The window of a port in which errors grew and that was not sent, because no others were near it."""
    peers_watch_until: Times
    """The last window of a device whose peers (rails or uplinks) are sent because of an earlier suspect one."""

    def __init__(self, levels: tuple[Column, ...], rows: int, excursions: Excursions) -> None:
        super().__init__(levels, rows)
        self.excursions = excursions
        self.dipping = [levels.index(level) for level in excursions.dipping]
        self._array("sent_levels", "cr", np.float32, np.nan)
        self._array("watch_until", "r", np.int32, NONE)
        self._array("isolated_error_at", "r", np.int32, NONE)
        self._array("peers_watch_until", "", np.int64, NONE)
        self.isolated_errors: dict[tuple[int, int], PortWindowReport] = {}
        """(device, row) -> the report of that window, sent if another follows."""

    def clear(self, device: int) -> None:
        for row in np.flatnonzero(self.isolated_error_at[device] != NONE).tolist():
            self.pop_isolated_error(device, row)
        super().clear(device)

    def move_in(self, device: int, other: Any, former: int) -> None:
        super().move_in(device, other, former)
        for row in np.flatnonzero(other.isolated_error_at[former] != NONE).tolist():
            self.hold_isolated_error(device, other.isolated_errors[former, row])

    def pop_isolated_error(self, device: int, row: int) -> PortWindowReport:
        """Remove and return the isolated errors of a port, which are sent now or were followed by none in time."""
        self.isolated_error_at[device, row] = NONE
        return self.isolated_errors.pop((device, row))

    def set_sent_levels(self, devices: Indices, levels: npt.NDArray[np.float64]) -> None:
        if self.dipping:
            self.excursions.set_levels(devices, self.sent_levels[devices][:, self.dipping], levels[:, self.dipping])
        self.sent_levels[devices] = levels

    def hold_isolated_error(self, device: int, report: PortWindowReport) -> None:
        """Retain errors that are sent only if others follow."""
        self.isolated_error_at[device, report.row] = report.number
        self.isolated_errors[device, report.row] = report

    def exchange(self, codec: ArrayCodec, places: Numbers) -> None:
        """Write or fill the devices at these indices; only ports with notable state are stored."""
        codec.exchange(self.peers_watch_until, places)
        codec.exchange_sparse(self.watch_until, places, NONE)
        codec.exchange_sparse(self.isolated_error_at, places, NONE)
        sparse = codec.exchange_bytes(lambda: self._sparse(places))
        for level in range(len(self.columns)):
            codec.exchange(self.sent_levels, (places, level))
        if isinstance(codec, ArrayDecoder):
            self._load(places, orjson.loads(sparse))

    def _sparse(self, places: Numbers) -> bytes:
        """Return isolated errors and readings beyond limits as JSON, by the number of the device in the snapshot."""
        is_empty = not (self.isolated_errors or self.excursions.readings)
        number_of = {} if is_empty else {place: number for number, place in enumerate(places.tolist())}
        own: list[Any] = [
            [number_of[place], *report[1:5], [[*column, *values] for column, values in report.values.items()]]
            for (place, _), report in self.isolated_errors.items()
            if place in number_of
        ]
        usual = self.excursions.other_usual(places, self.sent_levels[places][:, self.dipping])
        return orjson.dumps({"isolated": sorted(own), "beyond": self.excursions.dump(number_of), "usual": usual})

    def _load(self, places: Numbers, sparse: dict[str, Any]) -> None:
        """Restore the state that `_sparse` returned; the last sent levels must be restored before."""
        self.excursions.load(sparse["beyond"])
        for place, row, number, since_ns, at_ns, values in sparse["isolated"]:
            read = {(Metric(metric), index): (now, before) for metric, index, now, before in values}
            self.isolated_errors[place, row] = PortWindowReport(NONE, row, number, since_ns, at_ns, read)
        before = self.sent_levels[places][:, self.dipping]
        for device, level, row, usual in sparse["usual"]:
            before[device, level, row] = np.nan if usual is None else usual
        self.excursions.set_levels(places, before, self.sent_levels[places][:, self.dipping])
