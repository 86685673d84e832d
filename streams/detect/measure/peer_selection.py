"""Selects the windows to send of devices whose peers are compared: the rails of hosts, and the uplinks of switches.

Sends a host with a suspect rail, or a switch with an uplink that deviates almost by the detector's threshold, and the
next `watch` windows of it, so that the detector sees it recover. Sums up the traffic of all hosts. An uplink with
almost no traffic is down, drained or standby.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.congestion_imbalance import DIRECTIONS, Values, deviations
from streams.detect.detectors.rail_degraded.comparison import (
    RETRANSMITS,
    HostRows,
    host_rows,
    limits_of,
    suspect_rails,
)
from streams.detect.measure.storage.column_store import Indices, Times
from streams.detect.measure.storage.message_batch import ClosedWindows
from streams.detect.measure.storage.plausibility import Plausibility
from streams.detect.measure.storage.window_store import RAILS
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX

MARGIN = 0.03
"""Share of the mean: the deviation in a healthy fabric, by which a switch is sent before it reaches the threshold."""


class RailReadings(NamedTuple):
    """The final windows of some hosts, as arrays of shape (hosts, ports); NaN for values that were not read."""

    hosts: Sequence[int]
    """Their indices in the closed windows."""
    since_ns: Times
    at_ns: Times
    read: dict[Metric, Values]
    """The growth of RAILS, and the speed."""
    speeds: Values
    """The speeds of the ports in the inventory: 0 if unknown, NaN for a port that is not a rail."""

    @property
    def seconds(self) -> Values:
        return _seconds(self.since_ns, self.at_ns)


class PeerReport(NamedTuple):
    """One window of all ports of a device, metric after metric; -1 for no reading."""

    window: int
    """The index in the closed windows."""
    since_ns: int
    at_ns: int
    metrics: tuple[Metric, ...]
    values: tuple[float, ...]


def read_rails(closed: ClosedWindows, hosts: Sequence[int], speeds: Values, plausibility: Plausibility) -> RailReadings:
    """Return the readings of some hosts, given by their indices in `closed`."""
    devices, counters, gauges = closed.devices[hosts], closed.windows.counters, closed.windows.gauges
    own = [place for place, (metric, _) in enumerate(counters.columns) if metric in RAILS]
    now, before = counters.closed[devices][:, own], counters.base[devices][:, own]
    ended, begun = counters.closed_ns[devices][:, own], counters.base_ns[devices][:, own]
    known = (now >= before) & (now != ABSENT_COUNTER) & _is_known(begun, ended)[:, :, None]
    for n, cells in counters.unread(devices, own):
        known[:, n] &= ~cells
    read = {counters.columns[place][0]: np.where(known[:, n], now[:, n] - before[:, n], np.nan)
            for n, place in enumerate(own)}  # fmt: skip
    place = gauges.index_of.get((Metric.SPEED_BPS, NO_INDEX))
    since_ns, at_ns = begun.max(axis=1, initial=0), ended.max(axis=1, initial=0)
    if place is not None:
        read[Metric.SPEED_BPS] = gauges.closed[devices, place]
        if not own:  # a speed needs no counter, and alone shows a rail that trained low
            since_ns, at_ns = gauges.base_ns[devices, place], gauges.closed_ns[devices, place]
    found = RailReadings(hosts, since_ns, at_ns, read, speeds)
    fastest = np.fmax(speeds, read.get(Metric.SPEED_BPS, 0.0))
    fastest[~(fastest > 0)] = np.nan
    for metric in (Metric.RX_BYTES, Metric.TX_BYTES):
        if metric in read:
            plausibility.reject(read[metric], found.seconds, fastest)
    return found


def select_rails(params: DetectParams, closed: ClosedWindows, rails: RailReadings) -> Iterator[PeerReport]:
    """Yield the windows to send, with all ports of each host: growth of RAILS and the speed, -1 for none."""
    suspect = suspect_rails(params.rail, rails.read, rails.seconds, rails.speeds)
    return _to_send(params, closed, rails.hosts, suspect, (rails.since_ns, rails.at_ns), rails.read)


def host_rates(
    params: DetectParams, closed: ClosedWindows, rails: RailReadings, numbers_of_rails: Values
) -> Iterator[tuple[int, HostRows, list[int]]]:
    """Yield the traffic of hosts by number of the window, with the index of each; omits hosts without bytes."""
    rows = host_rows(params.rail, rails.read, rails.seconds, rails.speeds, numbers_of_rails)
    known = _is_known(rails.since_ns, rails.at_ns) & ~np.isnan(rows.rate)
    numbers = closed.numbers[rails.hosts]
    for number in np.unique(numbers[known]).tolist():
        own = known & (numbers == number)
        yield number, HostRows(*(values[own] for values in rows)), np.array(rails.hosts)[own].tolist()


def retransmitting_ports(
    params: DetectParams, rails: RailReadings, host: int, planes: Values
) -> list[tuple[int, float]]:
    """Return the ports of a host that retransmit, with their rate as a multiple of the limit.

    `planes` has the number of the rail for its ports on fabrics that spray packets, and NaN for the others. A counter
    that only one port of a rail with several planes has is the rail's, and shows no plane.
    """
    limits = limits_of(params.rail)
    found: dict[int, float] = {}
    for metric in RETRANSMITS:
        if metric not in rails.read:
            continue
        rates = rails.read[metric][host] / rails.seconds[host] / limits[metric]
        counted = np.where(np.isnan(rates), np.nan, planes)
        for port in np.flatnonzero((rates >= 1) & ~np.isnan(planes)).tolist():
            of_rail = np.count_nonzero(planes == planes[port])
            if of_rail == 1 or np.count_nonzero(counted == planes[port]) > 1:
                found[port] = max(found.get(port, 0.0), float(rates[port]))
    return sorted(found.items())


def select_uplinks(
    params: DetectParams, closed: ClosedWindows, switches: Sequence[int], speeds: Values, plausibility: Plausibility
) -> Iterator[PeerReport]:
    """Yield the windows to send of some switches, given by their indices in `closed`.

    `speeds` has the speeds of their uplinks, and NaN for other ports.
    """
    counters, own = closed.windows.counters, params.imbalance
    places = {metric: counters.index_of.get((metric, NO_INDEX)) for metric in DIRECTIONS}
    if places[Metric.TX_BYTES] is None:
        return
    devices = closed.devices[switches]
    trained = _trained(closed, devices)
    fastest = np.fmax(speeds, trained)
    rated = np.where(speeds > 0, speeds, trained)
    suspect: npt.NDArray[np.bool_] = np.zeros(len(switches), np.bool_)
    carried: dict[Metric, Values] = {}
    for metric, place in places.items():
        if place is None:
            continue
        now, before = counters.closed[devices, place], counters.base[devices, place]
        at_ns, since_ns = counters.closed_ns[devices, place], counters.base_ns[devices, place]
        known = (now >= before) & (now != ABSENT_COUNTER) & _is_known(since_ns, at_ns)[:, None]
        for _, cells in counters.unread(devices, (place,)):
            known &= ~cells
        grown = carried[metric] = np.where(known & ~np.isnan(speeds), now - before, np.nan)
        seconds = _seconds(since_ns, at_ns)
        plausibility.reject(grown, seconds, np.where(fastest > 0, fastest, np.nan))
        off, fill = deviations(grown * 8 / seconds[:, None], rated, own.unused)
        far, full = np.abs(off) >= own.uneven - MARGIN, fill >= own.busy - MARGIN
        suspect |= np.any(far, axis=1) & np.any(full, axis=1)
    at_ns, since_ns = (times[devices, places[Metric.TX_BYTES]] for times in (counters.closed_ns, counters.base_ns))
    yield from _to_send(params, closed, switches, suspect, (since_ns, at_ns), {**carried, Metric.SPEED_BPS: rated})


def _trained(closed: ClosedWindows, devices: Indices) -> Values | float:
    """Return the speeds to which ports trained, for ports without a speed in the inventory."""
    gauges = closed.windows.gauges
    place = gauges.index_of.get((Metric.SPEED_BPS, NO_INDEX))
    if place is None:
        return float("nan")
    trained = gauges.closed[devices, place].astype(np.float64)
    return np.where(trained > 0, trained, np.nan)


def _to_send(
    params: DetectParams,
    closed: ClosedWindows,
    own: Sequence[int],
    suspect: npt.NDArray[np.bool_],
    times: tuple[Times, Times],
    read: dict[Metric, Values],
) -> Iterator[PeerReport]:
    """Yield the windows of suspect devices, and the next `watch` windows of each; `times` are their starts and ends."""
    devices, numbers, selection, (since_ns, at_ns) = (
        closed.devices[own], closed.numbers[own], closed.windows.selection, times,
    )  # fmt: skip
    until = np.where(suspect, numbers + params.window.watch, selection.peers_watch_until[devices])
    selection.peers_watch_until[devices] = until
    for i in np.flatnonzero((until >= numbers) & _is_known(since_ns, at_ns)).tolist():
        values = tuple(-1.0 if v != v else v for of in read.values() for v in of[i].tolist())
        yield PeerReport(own[i], int(since_ns[i]), int(at_ns[i]), tuple(read), values)


def _seconds(since_ns: Times, at_ns: Times) -> Values:
    seconds: Values = np.maximum(at_ns - since_ns, 1) / 1e9
    return seconds


def _is_known(since_ns: Times, at_ns: Times) -> npt.NDArray[np.bool_]:
    """Return a mask of the windows with two readings."""
    known: npt.NDArray[np.bool_] = (at_ns > since_ns) & (since_ns > 0)
    return known
