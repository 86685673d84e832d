"""Selects the windows of hosts whose rails to send: those with a suspect rail, and the next `watch` windows of them."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded import screening
from streams.detect.measure.storage.plausibility import Plausibility
from streams.detect.measure.storage.window_store import ClosedWindows
from streams.detect.measure.windows.retained_columns import RAILS
from streams.detect.measure.windows.selection_state import SelectedWindows
from streams.detect.measure.windows.window_report import PeerWindowReport
from streams.detect.params import DetectParams
from streams.fabric.catalogue import Metric
from streams.wire.models import ABSENT_COUNTER, NO_INDEX


def select_rails(
    params: DetectParams,
    windows: SelectedWindows,
    closed: ClosedWindows,
    hosts: Sequence[int],
    speeds: npt.NDArray[np.float64],
    plausibility: Plausibility,
) -> Iterator[PeerWindowReport]:
    """Yield the windows to send of some hosts, given by their indices in `closed`.

    `speeds` are the speeds that the inventory gives their ports: 0 where unknown, NaN of a port that is no rail. Sent
    are all ports of such a host: growth of RAILS and the speed, -1 for none.
    """
    devices, counters, numbers = closed.devices[hosts], windows.counters, closed.numbers[hosts]
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
    seconds = np.maximum(at_ns - since_ns, 1) / 1e9
    fastest = np.fmax(speeds, read.get(Metric.SPEED_BPS, 0.0))
    fastest[~(fastest > 0)] = np.nan
    for metric in (Metric.RX_BYTES, Metric.TX_BYTES):
        if metric in read:
            plausibility.reject(read[metric], seconds, fastest)
    suspect = screening.suspect_rails(params.rail, read, seconds, speeds)
    until = np.where(suspect, numbers + params.window.watch, windows.attached.peers_watch_until[devices])
    windows.attached.peers_watch_until[devices] = until
    for i in np.flatnonzero((until >= numbers) & (at_ns > since_ns) & (since_ns > 0)).tolist():
        values = tuple(-1.0 if v != v else v for of in read.values() for v in of[i].tolist())
        yield PeerWindowReport(
            int(closed.messages[hosts[i]]), int(numbers[i]), int(since_ns[i]), int(at_ns[i]), tuple(read), values
        )
