"""Selects the windows of hosts whose rails to send: those with a suspect rail, and the next `watch` windows of them.

Of all hosts it adds up what they carried (host_rates.py).
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.comparison import HostRows, host_rows, suspect_rails
from streams.detect.measure.storage.plausibility import Plausibility
from streams.detect.measure.storage.window_store import ClosedWindows
from streams.detect.measure.windows.retained_columns import RAILS
from streams.detect.measure.windows.selection_state import SelectedWindows
from streams.detect.measure.windows.window_report import PeerWindowReport
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX

_Values = npt.NDArray[np.float64]
_Times = npt.NDArray[np.int64]


class RailReadings(NamedTuple):
    """The final windows of some hosts, as arrays of shape (hosts, ports); NaN for what was not read."""

    devices: npt.NDArray[np.intp]
    messages: npt.NDArray[np.intp]
    numbers: _Times
    since_ns: _Times
    at_ns: _Times
    read: dict[Metric, _Values]
    """Growth of RAILS, and the speed."""
    speeds: _Values
    """The speeds that the inventory gives the ports: 0 where unknown, NaN of a port that is no rail."""

    @property
    def seconds(self) -> _Values:
        """Return how long each window lasted."""
        seconds: _Values = np.maximum(self.at_ns - self.since_ns, 1) / 1e9
        return seconds

    @property
    def is_known(self) -> npt.NDArray[np.bool_]:
        """Return which windows have two readings."""
        known: npt.NDArray[np.bool_] = (self.at_ns > self.since_ns) & (self.since_ns > 0)
        return known


def read_rails(
    windows: SelectedWindows, closed: ClosedWindows, hosts: Sequence[int], speeds: _Values, plausibility: Plausibility
) -> RailReadings:
    """Return the readings of some hosts, given by their indices in `closed`."""
    devices, counters = closed.devices[hosts], windows.counters
    own = [place for place, (metric, _) in enumerate(counters.columns) if metric in RAILS]
    now, before = counters.closed[devices][:, own], counters.base[devices][:, own]
    ended, begun = counters.closed_ns[devices][:, own], counters.base_ns[devices][:, own]
    known = (now >= before) & (now != ABSENT_COUNTER) & ((ended > begun) & (begun > 0))[:, :, None]
    read = {counters.columns[place][0]: np.where(known[:, n], now[:, n] - before[:, n], np.nan)
            for n, place in enumerate(own)}  # fmt: skip
    place = windows.gauges.index_of.get((Metric.SPEED_BPS, NO_INDEX))
    since_ns, at_ns = begun.max(axis=1, initial=0), ended.max(axis=1, initial=0)
    if place is not None:
        read[Metric.SPEED_BPS] = windows.gauges.closed[devices, place]
        if not own:  # a speed needs no counter: a rail that trained low shows it alone
            since_ns, at_ns = windows.gauges.base_ns[devices, place], windows.gauges.closed_ns[devices, place]
    found = RailReadings(devices, closed.messages[hosts], closed.numbers[hosts], since_ns, at_ns, read, speeds)
    fastest = np.fmax(speeds, read.get(Metric.SPEED_BPS, 0.0))
    fastest[~(fastest > 0)] = np.nan
    for metric in (Metric.RX_BYTES, Metric.TX_BYTES):
        if metric in read:
            plausibility.reject(read[metric], found.seconds, fastest)
    return found


def select_rails(params: DetectParams, windows: SelectedWindows, rails: RailReadings) -> Iterator[PeerWindowReport]:
    """Yield the windows to send. Sent are all ports of such a host: growth of RAILS and the speed, -1 for none."""
    suspect = suspect_rails(params.rail, rails.read, rails.seconds, rails.speeds)
    devices, numbers = rails.devices, rails.numbers
    until = np.where(suspect, numbers + params.window.watch, windows.attached.peers_watch_until[devices])
    windows.attached.peers_watch_until[devices] = until
    for i in np.flatnonzero((until >= numbers) & rails.is_known).tolist():
        values = tuple(-1.0 if v != v else v for of in rails.read.values() for v in of[i].tolist())
        yield PeerWindowReport(
            int(rails.messages[i]), int(numbers[i]), int(rails.since_ns[i]), int(rails.at_ns[i]), tuple(rails.read),
            values,
        )  # fmt: skip


def host_rates(params: DetectParams, rails: RailReadings) -> Iterator[tuple[int, HostRows, Sequence[int]]]:
    """Yield what hosts carried, by number of the window, with the message of each; hosts without bytes are left out."""
    rows = host_rows(params.rail, rails.read, rails.seconds, rails.speeds)
    known = rails.is_known & ~np.isnan(rows.rate)
    for number in np.unique(rails.numbers[known]).tolist():
        own = known & (rails.numbers == number)
        yield number, HostRows(*(values[own] for values in rows)), rails.messages[own].tolist()
