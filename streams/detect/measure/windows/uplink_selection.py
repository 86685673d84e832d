"""Selects the windows of switches whose uplinks to send, compared as one array.

A switch is sent that has an uplink almost as far from the others as the detector's threshold, in what it sends or in
what it receives from the tier above, and so are its next `watch` windows, so that the detector sees it become even. An
uplink with almost no traffic is down, drained or standby.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from streams.detect.evidence.uplinks import DIRECTIONS, Values, deviations
from streams.detect.measure.storage.plausibility import Plausibility
from streams.detect.measure.storage.window_store import ClosedWindows
from streams.detect.measure.windows.selection_state import SelectedWindows
from streams.detect.measure.windows.window_report import PeerWindowReport
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX

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
