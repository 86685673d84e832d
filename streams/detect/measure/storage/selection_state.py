"""State of the window selection, by device and port: levels sent last, windows watched, isolated errors, excursions.

It is attached to the windows of a block, so that it grows and moves with them.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from streams.detect.measure.storage.array_codec import ArrayDecoder, ArrayEncoder, Numbers
from streams.detect.measure.storage.column_store import Column, Indices, Times
from streams.detect.measure.storage.excursions import Excursions
from streams.detect.measure.storage.window_store import NONE, DeviceState, WindowStore
from streams.fabric.catalogue import Metric
from streams.wire.models import LevelExtreme


class PortWindowReport(NamedTuple):
    """One window of one port; `message` is the message of the batch that makes it final."""

    message: int
    row: int
    number: int
    since_ns: int
    at_ns: int
    values: dict[Column, tuple[float, float]]
    """Column -> growth and 0, or the level and the value that was sent last."""
    extremes: tuple[LevelExtreme, ...] = ()


class PeerWindowReport(NamedTuple):
    """One window of all ports of a device, metric after metric; -1 for no reading."""

    message: int
    number: int
    since_ns: int
    at_ns: int
    metrics: tuple[Metric, ...]
    values: tuple[float, ...]


class SelectionState:
    """The state that WindowSelector and the comparison of peers retain of the devices of a block."""

    def __init__(self, levels: tuple[Column, ...], rows: int, excursions: Excursions) -> None:
        self.levels = levels
        self.excursions = excursions
        self.observe, self.observe_late = excursions.observe, excursions.observe_late
        self.sent_levels: npt.NDArray[np.float32] = np.empty((0, len(levels), rows), np.float32)
        """The value of each level that was sent last; NaN before the first reading."""
        self.watch_until: npt.NDArray[np.int32] = np.empty((0, rows), np.int32)
        """The last window of a port that is sent because of an earlier notable one."""
        self.isolated_error_at: npt.NDArray[np.int32] = np.empty((0, rows), np.int32)
        """The window of a port in which errors grew and that was not sent, because none were near it."""
        self.isolated_errors: dict[tuple[int, int], PortWindowReport] = {}
        """(device, row) -> the report of that window, sent if another follows."""
        self.peers_watch_until: Times = np.empty(0, np.int64)
        """The last window of a device whose peers (rails or uplinks) are sent because of an earlier suspect one."""

    def grow(self, devices: int) -> None:
        """Make room."""
        more, rows = devices - len(self.peers_watch_until), self.watch_until.shape[1]
        self.peers_watch_until = np.concatenate([self.peers_watch_until, np.full(more, NONE, np.int64)])
        unsent = np.full((more, len(self.levels), rows), np.nan, np.float32)
        self.sent_levels = np.concatenate([self.sent_levels, unsent])
        never = np.full((more, rows), NONE, np.int32)
        self.watch_until = np.concatenate([self.watch_until, never])
        self.isolated_error_at = np.concatenate([self.isolated_error_at, never])
        self.excursions.grow(devices)

    def clear(self, device: int) -> None:
        """Reset the state of an index that another device takes."""
        for row in np.flatnonzero(self.isolated_error_at[device] != NONE).tolist():
            self.pop_isolated_error(device, row)
        self.watch_until[device] = self.peers_watch_until[device] = NONE
        self.sent_levels[device] = np.nan
        self.excursions.clear(device)

    def move_in(self, device: int, other: DeviceState, former: int) -> None:
        """Take over a device from a block with some of these levels and the first of these rows."""
        assert isinstance(other, SelectionState)
        self.peers_watch_until[device] = other.peers_watch_until[former]
        rows = other.watch_until.shape[1]
        self.watch_until[device, :rows] = other.watch_until[former]
        for was, column in enumerate(other.levels):
            self.sent_levels[device, self.levels.index(column), :rows] = other.sent_levels[former, was]
        self.excursions.move_in(device, other.excursions, former)
        for row in np.flatnonzero(other.isolated_error_at[former] != NONE).tolist():
            self.hold_isolated_error(device, other.isolated_errors[former, row])

    def pop_isolated_error(self, device: int, row: int) -> PortWindowReport:
        """Remove and return the isolated errors of a port: they are sent now, or are so old that none followed."""
        self.isolated_error_at[device, row] = NONE
        return self.isolated_errors.pop((device, row))

    def set_sent_levels(self, devices: Indices, levels: npt.NDArray[np.float64]) -> None:
        """Record the levels that were sent last."""
        if self.excursions.dipping:
            places = [self.levels.index(level) for level in self.excursions.dipping]
            self.excursions.set_levels(devices, self.sent_levels[devices][:, places], levels[:, places])
        self.sent_levels[devices] = levels

    def hold_isolated_error(self, device: int, report: PortWindowReport) -> None:
        """Retain errors that are sent only if others follow."""
        self.isolated_error_at[device, report.row] = report.number
        self.isolated_errors[device, report.row] = report

    def pack(self, places: Numbers, encoder: ArrayEncoder) -> None:
        """Write the devices at these indices: of ports only those with something notable."""
        encoder.put(self.peers_watch_until[places])
        for notable in (self.watch_until[places], self.isolated_error_at[places]):
            cells = np.flatnonzero(notable != NONE)
            encoder.put(np.array([len(cells)]))
            encoder.put(cells)
            encoder.put(notable.reshape(-1)[cells].astype(np.int64))
        encoder.put_bytes(self._sparse(places))
        for level in range(len(self.levels)):
            encoder.put(_paired(self.sent_levels[places, level]))

    def unpack(self, count: int, decoder: ArrayDecoder) -> None:
        """Read what `pack` wrote into a block that is empty otherwise."""
        rows = self.watch_until.shape[1]
        self.peers_watch_until[:] = decoder.take("i8", count)
        for notable in (self.watch_until, self.isolated_error_at):
            found = int(decoder.take("i8", 1)[0])
            cells = decoder.take("i8", found)
            notable.reshape(-1)[cells] = decoder.take("i8", found)
        sparse = orjson.loads(decoder.take_bytes())
        self.excursions.load(sparse["beyond"])
        for place, row, number, since_ns, at_ns, values in sparse["isolated"]:
            read = {(Metric(metric), index): (now, before) for metric, index, now, before in values}
            self.isolated_errors[place, row] = PortWindowReport(NONE, row, number, since_ns, at_ns, read)
        for level in range(len(self.levels)):
            words = (count * rows + 1) // 2
            self.sent_levels[:, level] = decoder.take("u8", words).view("f4")[: count * rows].reshape(count, rows)
        places = [self.levels.index(level) for level in self.excursions.dipping]
        before = self.sent_levels[:, places]
        for device, level, row, usual in sparse["usual"]:
            before[device, level, row] = np.nan if usual is None else usual
        self.excursions.set_levels(np.arange(count), before, self.sent_levels[:, places])

    def _sparse(self, places: Numbers) -> bytes:
        """Return isolated errors and readings beyond limits as JSON, by the number of the device in the snapshot."""
        is_empty = not (self.isolated_errors or self.excursions.readings)
        number_of = {} if is_empty else {place: number for number, place in enumerate(places.tolist())}
        own: list[Any] = [
            [number_of[place], *report[1:5], [[*column, *values] for column, values in report.values.items()]]
            for (place, _), report in self.isolated_errors.items()
            if place in number_of
        ]
        levels = [self.levels.index(level) for level in self.excursions.dipping]
        usual = self.excursions.other_usual(places, self.sent_levels[places][:, levels])
        return orjson.dumps({"isolated": sorted(own), "beyond": self.excursions.dump(number_of), "usual": usual})


SelectedWindows = WindowStore[SelectionState]


def _paired(values: Numbers) -> Numbers:
    """Pad numbers of four bytes to words of eight."""
    flat = values.reshape(-1)
    return np.concatenate([flat, np.zeros(len(flat) % 2, flat.dtype)])
