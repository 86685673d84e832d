"""A pod's rails in one window, each against its peers: which is slower than it should be, and why.

A rail is compared with its host's other rails (its share of their median), and that share with the share of the same
rail at other hosts of its job (of its pod, where no job is known). So an idle host, a job that slows as a whole, rails
that fall together and a rail that carries less everywhere say nothing. `measure` tells only of hosts that have a rail
in doubt; a host that is read and not told of has all its rails alike. A pod is judged as arrays, because in a fabric
whose hosts do not use their rails alike every host is in doubt.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.detect.detectors.rail_degraded.params import RailParams
from streams.detect.detectors.rail_degraded.screening import (
    PCIE,
    RETRANSMITS,
    SLOW,
    TRAINED_LOW,
    TRAINED_SHARE,
    RailPort,
    RailVerdict,
    Values,
    limits_of,
    median_of,
)
from streams.detect.measure.monitors.port_interval import PCIE_STALLS
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import PeerWindow

_MAD_TO_SIGMA = 1.4826
"""Of a normal distribution."""


@dataclass(frozen=True, slots=True)
class _Pod:
    """What was read of a pod's rails, shape (hosts, rails): hosts that were told of first, then the other ones.

    A host that is read and not told of is as its peers: its share is 1, it sends nothing again and is not stalled.
    """

    hosts: tuple[str, ...]
    ports: dict[tuple[int, int], RailPort]
    """(host, rail) of the told -> its port."""
    rate: Values
    typical: Values
    """The median of the host's other rails; NaN where there are too few, or of hosts that were not told of."""
    trained: Values
    speed: Values
    share: Values
    again: Values
    stalled: Values


def compare_rails(
    params: RailParams,
    topology: Topology,
    windows: Mapping[str, PeerWindow],
    hosts: Collection[str],
    watched: Collection[str],
) -> dict[tuple[str, int], tuple[RailPort, RailVerdict]]:
    """Of a pod in one window: the rails that are bad, and those of the told that are `watched` (`host/rail`).

    `windows` are of the hosts that were told of, `hosts` all of the pod that are read.
    """
    begin_ns, end_ns = next((w.begin_ns, w.end_ns) for w in windows.values())
    pod = _pod(params, topology, windows, hosts)
    jobs: dict[str, list[int]] = {}
    for place, host in enumerate(pod.hosts):
        jobs.setdefault(next(iter(topology.jobs_on([host], begin_ns)), ""), []).append(place)
    read, found = set(hosts), _Verdicts(pod)
    for own in jobs.values():
        peers = [place for place in own if pod.hosts[place] in read]
        found.judge(params, peers)
        for place in own:
            if place < len(windows) and pod.hosts[place] not in read:  # it has peers, and is none
                found.judge(params, [*peers, place], only=place)
    found.trained_low()
    marks: dict[tuple[str, int], tuple[RailPort, RailVerdict]] = {}
    for (place, rail), port in pod.ports.items():
        why = _WHY[found.why[place, rail]]
        if why or f"{port.host}/{port.rail}" in watched:
            observed, expected = float(found.observed[place, rail]), float(found.expected[place, rail])
            peers_count = 0 if why == TRAINED_LOW else int(found.peers[place])
            if why or (port.host, port.rail) not in marks:  # of two planes the one that is bad
                marks[port.host, port.rail] = (
                    port,
                    RailVerdict(begin_ns, end_ns, why, observed if why else 0.0, expected if why else 0.0, peers_count),
                )
    return marks


_METRICS = (Metric.TX_BYTES, Metric.RX_BYTES, Metric.SPEED_BPS)
_AGAIN = (Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS)


def _pod(params: RailParams, topology: Topology, windows: Mapping[str, PeerWindow], hosts: Collection[str]) -> _Pod:
    told = tuple(windows.values())
    names = (*windows, *(host for host in hosts if host not in windows))
    found = [_rails_of(topology, window) for window in told]
    keys = sorted({(r.rail, -1 if r.plane is None else r.plane) for own in found for r in own.values()})
    column = {key: n for n, key in enumerate(keys)}
    shape = len(names), len(keys)
    ports: dict[tuple[int, int], RailPort] = {}
    rows = np.full((len(told), len(keys)), -1)
    speed = np.zeros(shape)
    for place, own in enumerate(found):
        for row, rail in own.items():
            rail_n = column[rail.rail, -1 if rail.plane is None else rail.plane]
            ports[place, rail_n] = rail
            rows[place, rail_n], speed[place, rail_n] = row, rail.speed_bps
    seconds = np.array([max(w.at_ns - w.since_ns, 1) / 1e9 for w in told])[:, None]
    read = {metric: _cells(told, rows, metric) for metric in (*_METRICS, *_AGAIN, *PCIE_STALLS)}
    limits = limits_of(params)
    rate = np.fmax(read[Metric.TX_BYTES], read[Metric.RX_BYTES]) * 8 / seconds
    typical = _others(rate, params.other_rails)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(typical == 0, np.nan, rate / typical)
    share[rows < 0] = 1.0  # a host without that rail says nothing of it
    again = np.fmax(*(read[metric] / limits[metric] for metric in _AGAIN)) / seconds
    stalled = np.fmax(*(read[metric] for metric in PCIE_STALLS)) / seconds
    return _Pod(
        names, ports, _padded(rate, shape, np.nan), _padded(typical, shape, np.nan),
        _padded(read[Metric.SPEED_BPS], shape, np.nan), speed, _padded(share, shape, 1.0),
        _padded(np.nan_to_num(again), shape, 0.0), _padded(np.nan_to_num(stalled), shape, 0.0),
    )  # fmt: skip


def _rails_of(topology: Topology, window: PeerWindow) -> dict[int, RailPort]:
    """Which of a host's ports are rails, by their places in the window."""
    rails = {}
    for row, name in enumerate(window.port):
        cable = topology.link_at(Port(window.device, name))
        if cable is not None and cable.rail is not None:
            rails[row] = RailPort(window.device, cable.rail, cable.plane, name, float(cable.speed_bps or 0))
    return rails


def _cells(told: Sequence[PeerWindow], rows: npt.NDArray[np.intp], metric: Metric) -> Values:
    """A metric of every rail; NaN where it was not read. Hosts of one kind are taken as one array."""
    cells = np.full(rows.shape, np.nan)
    alike: dict[tuple[tuple[Metric, ...], int], list[int]] = {}
    for place, window in enumerate(told):
        if metric in window.metric:
            alike.setdefault((window.metric, len(window.port)), []).append(place)
    for (metrics, count), places in alike.items():
        first = metrics.index(metric) * count
        values = np.array([told[place].value[first : first + count] for place in places], np.float64)
        values[values < 0] = np.nan
        own = rows[places]
        cells[places] = np.where(own >= 0, np.take_along_axis(values, np.maximum(own, 0), axis=1), np.nan)
    return cells


def _others(rate: Values, at_least: int) -> Values:
    """Of each rail, the median of its host's other ones; NaN where fewer than `at_least` were read."""
    typical = np.full(rate.shape, np.nan)
    for rail in range(rate.shape[1]):
        others = np.delete(rate, rail, axis=1)
        enough = (~np.isnan(others)).sum(axis=1) >= at_least
        typical[enough, rail] = median_of(others[enough])[:, 0]
    return typical


def _padded(values: Values, shape: tuple[int, int], default: float) -> Values:
    """With those that were not told of."""
    return np.concatenate([values, np.full((shape[0] - len(values), shape[1]), default)])


_WHY = ("", SLOW, TRAINED_LOW, RETRANSMITS, PCIE)


class _Verdicts:
    """Why each rail of a pod is bad (a place in `_WHY`), what was observed, and what is expected."""

    def __init__(self, pod: _Pod) -> None:
        self.pod = pod
        self.why = np.zeros(pod.rate.shape, np.int8)
        self.observed, self.expected = np.zeros(pod.rate.shape), np.zeros(pod.rate.shape)
        self.peers = np.zeros(len(pod.hosts), np.intp)

    def judge(self, params: RailParams, group: list[int], only: int | None = None) -> None:
        """Compare the hosts of a group, which are peers of each other; say so of one of them where it is given."""
        pod, places = self.pod, np.array(group, np.intp)
        judged = places if only is None else np.array([only], np.intp)
        self.peers[judged] = len(group) - 1
        if len(group) - 1 < params.peers:
            return
        own = np.arange(len(group)) if only is None else np.array([len(group) - 1])
        share, again, typical = pod.share[judged], pod.again[judged], pod.typical[judged]
        trained = np.nan_to_num(pod.trained[judged])
        line = np.maximum(pod.speed[judged], np.where(trained > 0, trained, 1.0))
        busy = typical >= params.busy * line
        usual = _without(pod.share[places])[own]
        behind = busy & (share < params.slow * np.minimum(usual, 1.0))
        apart = (usual - share) / max(params.sigmas * _MAD_TO_SIGMA, 1e-9)
        slow = behind & _spread_within(pod.share[places], own, usual, apart, behind)
        stalls = slow & (pod.stalled[judged] >= params.stalled)
        stalls &= _without(pod.stalled[places])[own] < params.stalled / 2
        again_ = ~slow & busy & (again >= 1) & (_without(pod.again[places])[own] < 0.5)
        for why, where, observed, expected in (
            (SLOW, slow, pod.rate[judged], typical * np.minimum(usual, 1.0)),
            (PCIE, stalls, pod.stalled[judged], np.full_like(share, params.stalled)),
            (RETRANSMITS, again_, again, np.ones_like(share)),
        ):
            self._say(judged, where, why, observed, expected)

    def trained_low(self) -> None:
        """Below its speed a rail is bad whatever its peers are."""
        trained, speed = self.pod.trained, self.pod.speed
        low = (trained > 0) & (trained < TRAINED_SHARE * speed)
        self._say(np.arange(len(speed)), low, TRAINED_LOW, trained, speed)

    def _say(
        self, places: npt.NDArray[np.intp], where: npt.NDArray[np.bool_], why: str, observed: Values, expected: Values
    ) -> None:
        if not np.count_nonzero(where):
            return
        self.why[places] = np.where(where, _WHY.index(why), self.why[places])
        self.observed[places] = np.where(where, observed, self.observed[places])
        self.expected[places] = np.where(where, expected, self.expected[places])


def _without(values: Values) -> Values:
    """Of each cell, the median of its column's others that were read; NaN where there are none."""
    count = (~np.isnan(values)).sum(axis=0)
    order = np.argsort(values, axis=0)  # NaN last
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.arange(len(values))[:, None], axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    own = place < count
    rest = count - own
    low, high = (np.maximum(rest - 1, 0) // 2, np.minimum(rest // 2, len(values) - 1))
    found = [np.take_along_axis(ordered, np.minimum(at + (own & (at >= place)), len(values) - 1), axis=0)
             for at in (low, high)]  # fmt: skip
    medians: Values = np.where(rest > 0, (found[0] + found[1]) / 2, np.nan)
    return medians


def _spread_within(
    values: Values, own: npt.NDArray[np.intp], middle: Values, limit: Values, asked: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Whether the others of a column are spread about its middle by less than a limit, as a median (MAD), where asked.

    By how many of them are nearer than the limit, in one look at each column; where that is half of them, exactly.
    """
    within = np.zeros_like(asked)
    for rail in np.flatnonzero(asked.any(axis=0)).tolist():
        rows = np.flatnonzero(asked[:, rail])
        column, about, least = values[:, rail], middle[rows, rail], limit[rows, rail]
        ordered = np.sort(column[~np.isnan(column)])
        near = np.searchsorted(ordered, about + least) - np.searchsorted(ordered, about - least, "right")
        mine = column[own[rows]]
        near -= np.abs(mine - about) < least
        others = len(ordered) - ~np.isnan(mine)
        within[rows, rail] = 2 * near > others
        for row in rows[2 * near == others].tolist():
            rest = np.delete(column, own[row])
            within[row, rail] = float(np.nanmedian(np.abs(rest - middle[row, rail]))) < limit[row, rail]
    return within
