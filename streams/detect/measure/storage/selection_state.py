"""State of the window selection, by device and port: levels sent last, windows watched, and isolated errors."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from streams.detect.measure.storage.array_codec import ArrayCodec, ArrayDecoder, Numbers
from streams.detect.measure.storage.column_store import NONE, Column, DeviceArrays, Indices, Times
from streams.detect.measure.storage.excursions import Excursions
from streams.fabric.catalogue import Metric
from streams.wire.models import LevelExtreme


class PortWindowReport(NamedTuple):
    """One window of one port; `message` is its number among the final windows."""

    message: int
    row: int
    number: int
    since_ns: int
    at_ns: int
    values: dict[Column, tuple[float, float]]
    """Column -> growth and 0, or the level and the value that was sent last."""
    extremes: tuple[LevelExtreme, ...] = ()


class SelectionState(DeviceArrays):
    """Retains what the selection of windows needs of the devices of a block; its columns are levels."""

    sent_levels: npt.NDArray[np.float32]
    """The value of each level that was sent last; NaN before the first reading."""
    watch_until: npt.NDArray[np.int32]
    """The last window of a port that is sent because of an earlier notable one."""
    isolated_error_at: npt.NDArray[np.int32]
    """The window of a port in which errors grew and that was not sent, because none were near it."""
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
        """Reset the state of an index that another device takes."""
        for row in np.flatnonzero(self.isolated_error_at[device] != NONE).tolist():
            self.pop_isolated_error(device, row)
        super().clear(device)

    def move_in(self, device: int, other: Any, former: int) -> None:
        """Take over a device from a block with some of these levels and the first of these rows."""
        super().move_in(device, other, former)
        for row in np.flatnonzero(other.isolated_error_at[former] != NONE).tolist():
            self.hold_isolated_error(device, other.isolated_errors[former, row])

    def pop_isolated_error(self, device: int, row: int) -> PortWindowReport:
        """Remove and return the isolated errors of a port: they are sent now, or are so old that none followed."""
        self.isolated_error_at[device, row] = NONE
        return self.isolated_errors.pop((device, row))

    def set_sent_levels(self, devices: Indices, levels: npt.NDArray[np.float64]) -> None:
        """Record the levels that were sent last."""
        if self.dipping:
            self.excursions.set_levels(devices, self.sent_levels[devices][:, self.dipping], levels[:, self.dipping])
        self.sent_levels[devices] = levels

    def hold_isolated_error(self, device: int, report: PortWindowReport) -> None:
        """Retain errors that are sent only if others follow."""
        self.isolated_error_at[device, report.row] = report.number
        self.isolated_errors[device, report.row] = report

    def exchange(self, codec: ArrayCodec, places: Numbers) -> None:
        """Write or fill the devices at these indices: of ports only those with something notable."""
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
        """Restore what `_sparse` returned; the levels that were sent last are restored already."""
        self.excursions.load(sparse["beyond"])
        for place, row, number, since_ns, at_ns, values in sparse["isolated"]:
            read = {(Metric(metric), index): (now, before) for metric, index, now, before in values}
            self.isolated_errors[place, row] = PortWindowReport(NONE, row, number, since_ns, at_ns, read)
        before = self.sent_levels[places][:, self.dipping]
        for device, level, row, usual in sparse["usual"]:
            before[device, level, row] = np.nan if usual is None else usual
        self.excursions.set_levels(places, before, self.sent_levels[places][:, self.dipping])
