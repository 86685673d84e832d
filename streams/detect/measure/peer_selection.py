"""Selects the windows of devices whose peers to send: the rails of hosts, and the uplinks of switches.

Sent is a host with a suspect rail, or a switch with an uplink almost as far from the others as the detector's
threshold, and the next `watch` windows of it, so that the detector sees it recover. Of all hosts it adds up what they
carried. An uplink with almost no traffic is down, drained or standby.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.comparison import HostRows, host_rows, suspect_rails
from streams.detect.evidence.uplinks import DIRECTIONS, Values, deviations
from streams.detect.measure.storage.plausibility import Plausibility
from streams.detect.measure.storage.retained_columns import RAILS
from streams.detect.measure.storage.selection_state import PeerWindowReport, SelectedWindows
from streams.detect.measure.storage.window_store import ClosedWindows
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


MARGIN = 0.03
"""Of the mean: the deviation in a healthy fabric, by which a switch is sent before it reaches the threshold."""


def select_uplinks(
    params: DetectParams,
    windows: SelectedWindows,
    closed: ClosedWindows,
    switches: Sequence[int],
    speeds: Values,
    plausibility: Plausibility,
) -> Iterator[PeerWindowReport]:
    """Yield the windows to send of some switches, given by their indices in `closed`.

    `speeds` are the speeds of their uplinks, NaN of other ports.
    """
    counters, own = windows.counters, params.imbalance
    places = {metric: counters.index_of.get((metric, NO_INDEX)) for metric in DIRECTIONS}
    if places[Metric.TX_BYTES] is None:
        return
    devices, numbers = closed.devices[switches], closed.numbers[switches]
    trained = _trained(windows, devices)
    fastest = np.fmax(speeds, trained)
    rated = np.where(speeds > 0, speeds, trained)
    suspect: npt.NDArray[np.bool_] = np.zeros(len(switches), np.bool_)
    carried: dict[Metric, Values] = {}
    for metric, place in places.items():
        if place is None:
            continue
        now, before = counters.closed[devices, place], counters.base[devices, place]
        at_ns, since_ns = counters.closed_ns[devices, place], counters.base_ns[devices, place]
        known = (now >= before) & (now != ABSENT_COUNTER) & ((at_ns > since_ns) & (since_ns > 0))[:, None]
        grown = carried[metric] = np.where(known & ~np.isnan(speeds), now - before, np.nan)
        seconds = np.maximum(at_ns - since_ns, 1) / 1e9
        plausibility.reject(grown, seconds, np.where(fastest > 0, fastest, np.nan))
        off, fill = deviations(grown * 8 / seconds[:, None], rated, own.unused)
        far, full = np.abs(off) >= own.uneven - MARGIN, fill >= own.busy - MARGIN
        suspect |= np.any(far, axis=1) & np.any(full, axis=1)
    at_ns, since_ns = (times[devices, places[Metric.TX_BYTES]] for times in (counters.closed_ns, counters.base_ns))
    until = np.where(suspect, numbers + params.window.watch, windows.attached.peers_watch_until[devices])
    windows.attached.peers_watch_until[devices] = until
    metrics = (*carried, Metric.SPEED_BPS)
    for i in np.flatnonzero((until >= numbers) & (at_ns > since_ns) & (since_ns > 0)).tolist():
        rows = (values[i].tolist() for values in (*carried.values(), rated))
        values = tuple(-1.0 if v != v else v for row in rows for v in row)
        yield PeerWindowReport(
            int(closed.messages[switches[i]]), int(numbers[i]), int(since_ns[i]), int(at_ns[i]), metrics, values
        )


def _trained(windows: SelectedWindows, devices: npt.NDArray[np.intp]) -> Values | float:
    """Return the speeds to which ports trained, for ports without a speed in the inventory."""
    place = windows.gauges.index_of.get((Metric.SPEED_BPS, NO_INDEX))
    if place is None:
        return float("nan")
    trained = windows.gauges.closed[devices, place].astype(np.float64)
    return np.where(trained > 0, trained, np.nan)
