"""Compares the rails of a pod in one window with their peers, and finds slow rails and the reasons.

A rail is compared with its host's other rails (its share of their median). That share is compared with the share of the
same rail at other hosts of its job, or of its pod if no job is known. Therefore an idle host, a job that slows as a
whole, rails that slow together and a rail that carries less everywhere do not count. `measure` emits only hosts with a
suspect rail; on a host that is read and not emitted all rails are equal. A pod is compared as arrays, because in a
fabric whose hosts use their rails unequally every host is suspect.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import Field

from streams.detect.thresholds import Ratio, Thresholds
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import PeerWindow


class RailParams(Thresholds):
    """`[detect.rail]`: DETECTION 3, "Rails, against peers"."""

    slow: Ratio = 0.9
    """Ratio to the median of both kinds of peers: Greyhound's 10 %. Healthy is within 3 % (`a100-roce-leaf`)."""
    sigmas: ClassVar[float] = 3
    """The least number of robust deviations (MAD) below its peers: peers that differ much prove little."""
    peers: ClassVar[int] = 3
    """The fewest other hosts with the same rail: with two NICs under a switch one is always 50 %."""
    other_rails: ClassVar[int] = 2
    """The fewest other rails of the same host with which a rail is compared."""
    busy: ClassVar[float] = 0.05
    """Share of speed that both kinds of peers must carry: below it a host is idle, and a share of nothing is noise."""
    stalled: ClassVar[float] = 0.3
    """Share of seconds in which the NIC stalled on PCIe; the counter means more than 30 % of such a second."""
    timeouts_per_s: Annotated[float, Field(gt=0)] = 1
    """local_ack_timeout of a NIC: more are evidence of loss (DETECTION 3)."""
    restarts_per_s: ClassVar[float] = 10
    """local_ack_timeout and slow_restart (DETECTION 3)."""
    bad_windows: ClassVar[int] = 3
    """Minder waits 4 min, Aegis 10 (reported); three windows and the lateness stay within five minutes."""
    start_windows: ClassVar[int] = 5
    """The first windows of a job with traffic. A host that carries less in them has another role in the job, such as a
    stage of a pipeline or a store; as many windows as close a finding (choice)."""
    good_windows: ClassVar[int] = 5
    """Consecutive windows without a deviation that close it."""


Values = npt.NDArray[np.float64]

TRAINED_SHARE = 0.99
"""Below this share of its speed a port has trained low; devices round."""

RETRANSMITS = (Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS)

PCIE_STALLS = (Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS)
"""Seconds in which a NIC stalled on PCIe."""


class RailReason(IntEnum):
    """The reason why a rail is bad in a window. A later reason replaces an earlier one."""

    NONE = 0
    SLOW = 1
    TRAINED_LOW = 2
    RETRANSMITS = 3
    PCIE = 4


@dataclass(frozen=True, slots=True)
class RailVerdict:
    """One rail of a host in one window; `reason` is NONE if it was healthy."""

    begin_ns: int
    end_ns: int
    reason: RailReason = RailReason.NONE
    observed: float = 0.0
    expected: float = 0.0
    peers: int = 0
    port: str = ""
    """The port of the bad rail: with several planes a rail has one port on each."""

    @property
    def is_bad(self) -> bool:
        return self.reason is not RailReason.NONE


@dataclass(frozen=True, slots=True)
class RailPort:
    """The port of a rail, and the speed to which it should train."""

    host: str
    rail: int
    plane: int | None
    port: str
    speed_bps: float


_MARGIN = 0.03
"""The margin within which a rail is suspect but not bad, so that peers that are nearly as slow are also emitted."""


def suspect_rails(
    params: RailParams, read: Mapping[Metric, Values], seconds: Values, speeds: Values
) -> npt.NDArray[np.bool_]:
    """Return the hosts with a suspect rail; values have shape (hosts, ports); `speeds` is NaN without a rail."""
    is_rail, none = ~np.isnan(speeds), np.full(speeds.shape, np.nan)
    rate = _rates(read, seconds, speeds)
    trained = read.get(Metric.SPEED_BPS, none)
    line = np.fmax(speeds, trained)  # the inventory may lack the speed
    typical = median_of(rate)
    found = (rate < (params.slow + _MARGIN) * typical) & (typical >= params.busy * np.nan_to_num(line, nan=1.0))
    found |= (trained > 0) & (trained < TRAINED_SHARE * speeds)
    for metric, limit in limits_of(params).items():
        if metric in read:
            found |= read[metric] / seconds[:, None] >= limit / 2
    suspect: npt.NDArray[np.bool_] = np.any(found & is_rail, axis=1)
    return suspect


def _rates(read: Mapping[Metric, Values], seconds: Values, speeds: Values) -> Values:
    """Return the rate of each rail in the direction with more bytes, bit/s; NaN for other ports."""
    none = np.full(speeds.shape, np.nan)
    octets = np.fmax(read.get(Metric.TX_BYTES, none), read.get(Metric.RX_BYTES, none))
    return np.where(np.isnan(speeds), np.nan, octets * 8 / seconds[:, None])


class HostRows(NamedTuple):
    """The rates of hosts in one window and the rails that counters single out; one value per host."""

    rate: Values
    """The upper median of the rails, bit/s; NaN if none was read. It is low if more than half of the rails are low. If
    fewer are, the median of the other rails shows it (`compare_rails`)."""
    speed: Values
    """The median speed of the rails, bit/s; 0 if unknown."""
    rails: Values
    stalled: Values
    retransmitting: Values


def host_rows(
    params: RailParams, read: Mapping[Metric, Values], seconds: Values, speeds: Values, rails: Values
) -> HostRows:
    """Return the rates of each host; arguments as in `suspect_rails`, and the number of each port's rail."""
    is_rail, per_s = ~np.isnan(speeds), seconds[:, None]
    none = np.full(speeds.shape, np.nan)
    rate = _rates(read, seconds, speeds)
    line = np.fmax(speeds, read.get(Metric.SPEED_BPS, none))
    line[~is_rail | ~(line > 0)] = np.nan
    count = (~np.isnan(rate)).sum(axis=1)
    ordered = np.sort(rate, axis=1)  # NaN last
    upper = ordered[np.arange(len(rate)), np.minimum(count // 2, max(0, rate.shape[1] - 1))]
    beyond = {
        metric: is_rail & (_of_whole_rails(read.get(metric, none), rails) / per_s >= limit)
        for metric, limit in limits_of(params).items()
    }
    stalled = np.any([beyond[metric] for metric in PCIE_STALLS], axis=0).sum(axis=1)
    retransmitting = np.any([beyond[metric] for metric in RETRANSMITS], axis=0).sum(axis=1)
    return HostRows(upper, np.nan_to_num(median_of(line)[:, 0]), count, stalled, retransmitting)


def _of_whole_rails(counted: Values, rails: Values) -> Values:
    """Return a counter of all ports: one that only one port of a rail with several planes has is the whole rail's."""
    missing = np.isnan(counted) & ~np.isnan(rails)
    if not missing.any() or missing.all():
        return counted
    found = counted.copy()
    for rail in np.unique(rails[missing]).tolist():
        own = np.where(rails == rail, counted, np.nan)
        is_single = (~np.isnan(own)).sum(axis=1) == 1
        whole = np.fmax.reduce(own, axis=1, initial=np.nan)
        found = np.where(missing & (rails == rail) & is_single[:, None], whole[:, None], found)
    return found


def median_of(values: Values) -> Values:
    """Return the median of each row over the values that were read, as a column; NaN if there are none."""
    if not values.shape[1]:
        return np.full((len(values), 1), np.nan)
    ordered, rows = np.sort(values, axis=1), np.arange(len(values))  # NaN last
    count = (~np.isnan(values)).sum(axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)
    medians: Values = (ordered[rows, low] + ordered[rows, high]) / 2
    return medians[:, None]


def limits_of(params: RailParams) -> dict[Metric, float]:
    """Return the limit of each counter, per second."""
    return {
        Metric.LOCAL_ACK_TIMEOUTS: params.timeouts_per_s, Metric.ROCE_SLOW_RESTARTS: params.restarts_per_s,
        Metric.PCIE_STALLED_READ_SECONDS: params.stalled, Metric.PCIE_STALLED_WRITE_SECONDS: params.stalled,
    }  # fmt: skip


MAD_TO_SIGMA = 1.4826
"""The factor for a normal distribution."""


@dataclass(frozen=True, slots=True)
class _Pod:
    """The rails of a pod, shape (hosts, rails): emitted hosts first, then the others.

    A host that is read and not emitted equals its peers: its share is 1, it retransmits nothing and is not stalled.
    """

    hosts: tuple[str, ...]
    ports: dict[tuple[int, int], RailPort]
    """(host, rail) of the emitted hosts -> its port."""
    rate: Values
    typical: Values
    """The median of the host's other rails; NaN if there are too few, or for hosts that were not emitted."""
    trained: Values
    speed: Values
    share: Values
    retransmits: Values
    stalled: Values

    def has_counted(self, params: RailParams, place: int) -> bool:
        return bool((self.stalled[place] >= params.stalled).any() or (self.retransmits[place] >= 1).any())


def compare_rails(
    params: RailParams,
    topology: Topology,
    windows: Mapping[str, PeerWindow],
    hosts: Collection[str],
    watched: Collection[str],
) -> dict[tuple[str, int], tuple[RailPort, RailVerdict]]:
    """Return the rails of a pod that are bad in one window, and the `watched` rails (`host/rail`).

    `windows` has the emitted hosts, `hosts` all hosts of the pod that are read.

    A job with too few hosts in the pod has no peers for its traffic. Its counters that single out a rail are then
    compared with all hosts of the pod.
    """
    begin_ns, end_ns = next((w.begin_ns, w.end_ns) for w in windows.values())
    pod = _pod(params, topology, windows, hosts)
    jobs: dict[str, list[int]] = {}
    for place, host in enumerate(pod.hosts):
        jobs.setdefault(next(iter(topology.jobs_on([host], begin_ns)), ""), []).append(place)
    read, found = set(hosts), _Verdicts(pod)
    everywhere = [place for place, host in enumerate(pod.hosts) if host in read]
    for own in jobs.values():
        peers = [place for place in own if pod.hosts[place] in read]
        found.compare(params, peers)
        for place in own:
            if place < len(windows) and pod.hosts[place] not in read:  # it has peers, but is itself no peer
                found.compare(params, [*peers, place], only=place)
        if len(peers) <= params.peers:
            for place in own:
                if place < len(windows) and pod.has_counted(params, place):
                    found.compare(params, [*(n for n in everywhere if n != place), place], only=place, counters=True)
    found.trained_low()
    marks: dict[tuple[str, int], tuple[RailPort, RailVerdict]] = {}
    for (place, rail), port in pod.ports.items():
        reason = _REASONS[found.reason[place, rail]]
        if reason or (found.judged[place] and f"{port.host}/{port.rail}" in watched):
            observed, expected = float(found.observed[place, rail]), float(found.expected[place, rail])
            peers_count = 0 if reason is RailReason.TRAINED_LOW else int(found.peers[place])
            if reason or (port.host, port.rail) not in marks:  # with two planes the bad one
                if not reason:
                    observed = expected = 0.0
                verdict = RailVerdict(begin_ns, end_ns, reason, observed, expected, peers_count, port.port)
                marks[port.host, port.rail] = port, verdict
    return marks


_REASONS = tuple(RailReason)
"""Reasons by number, because a call of the enum for each rail of a pod costs more."""

_METRICS = (Metric.TX_BYTES, Metric.RX_BYTES, Metric.SPEED_BPS)


def _pod(params: RailParams, topology: Topology, windows: Mapping[str, PeerWindow], hosts: Collection[str]) -> _Pod:
    emitted = tuple(windows.values())
    names = (*windows, *(host for host in hosts if host not in windows))
    found = [_rails_of(topology, window) for window in emitted]
    keys = sorted({(r.rail, -1 if r.plane is None else r.plane) for own in found for r in own.values()})
    column = {key: n for n, key in enumerate(keys)}
    shape = len(names), len(keys)
    ports: dict[tuple[int, int], RailPort] = {}
    rows = np.full((len(emitted), len(keys)), -1)
    speed = np.zeros(shape)
    for place, own in enumerate(found):
        for row, rail in own.items():
            rail_n = column[rail.rail, -1 if rail.plane is None else rail.plane]
            ports[place, rail_n] = rail
            rows[place, rail_n], speed[place, rail_n] = row, rail.speed_bps
    seconds = np.array([max(w.at_ns - w.since_ns, 1) / 1e9 for w in emitted])[:, None]
    read = {metric: _cells(emitted, rows, metric) for metric in (*_METRICS, *RETRANSMITS, *PCIE_STALLS)}
    limits = limits_of(params)
    rate = np.fmax(read[Metric.TX_BYTES], read[Metric.RX_BYTES]) * 8 / seconds
    typical = _others(rate, params.other_rails)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(typical == 0, np.nan, rate / typical)
    share[rows < 0] = 1.0  # a host without that rail is not a peer
    retransmits = np.fmax(*(read[metric] / limits[metric] for metric in RETRANSMITS)) / seconds
    stalled = np.fmax(*(read[metric] for metric in PCIE_STALLS)) / seconds
    return _Pod(
        names, ports, _padded(rate, shape, np.nan), _padded(typical, shape, np.nan),
        _padded(read[Metric.SPEED_BPS], shape, np.nan), speed, _padded(share, shape, 1.0),
        _padded(np.nan_to_num(retransmits), shape, 0.0), _padded(np.nan_to_num(stalled), shape, 0.0),
    )  # fmt: skip


def _rails_of(topology: Topology, window: PeerWindow) -> dict[int, RailPort]:
    """Return the ports of a host that are rails, by their index in the window."""
    rails = {}
    for row, name in enumerate(window.port):
        cable = topology.link_at(Port(window.device, name))
        if cable is not None and cable.rail is not None:
            rails[row] = RailPort(window.device, cable.rail, cable.plane, name, float(cable.speed_bps or 0))
    return rails


def _cells(emitted: Sequence[PeerWindow], rows: npt.NDArray[np.intp], metric: Metric) -> Values:
    """Return a metric of every rail; NaN if it was not read. Hosts of one kind are one array."""
    cells = np.full(rows.shape, np.nan)
    alike: dict[tuple[tuple[Metric, ...], int], list[int]] = {}
    for place, window in enumerate(emitted):
        if metric in window.metric:
            alike.setdefault((window.metric, len(window.port)), []).append(place)
    for (metrics, count), places in alike.items():
        first = metrics.index(metric) * count
        values = np.array([emitted[place].value[first : first + count] for place in places], np.float64)
        values[values < 0] = np.nan
        own = rows[places]
        cells[places] = np.where(own >= 0, np.take_along_axis(values, np.maximum(own, 0), axis=1), np.nan)
    return cells


def _others(rate: Values, at_least: int) -> Values:
    """Return, for each rail, the median of its host's other rails; NaN if fewer than `at_least` were read."""
    typical = np.full(rate.shape, np.nan)
    for rail in range(rate.shape[1]):
        others = np.delete(rate, rail, axis=1)
        enough = (~np.isnan(others)).sum(axis=1) >= at_least
        typical[enough, rail] = median_of(others[enough])[:, 0]
    return typical


def _padded(values: Values, shape: tuple[int, int], default: float) -> Values:
    """Return the values with rows for the hosts that were not emitted."""
    return np.concatenate([values, np.full((shape[0] - len(values), shape[1]), default)])


class _Verdicts:
    """The reason why each rail of a pod is bad, with the observed and the expected value."""

    def __init__(self, pod: _Pod) -> None:
        self.pod = pod
        self.reason = np.zeros(pod.rate.shape, np.int8)
        self.observed, self.expected = np.zeros(pod.rate.shape), np.zeros(pod.rate.shape)
        self.peers = np.zeros(len(pod.hosts), np.intp)
        self.judged = np.zeros(len(pod.hosts), np.bool_)
        """Hosts with enough peers; with too few, a rail is neither bad nor healthy."""

    def compare(self, params: RailParams, group: list[int], only: int | None = None, *, counters: bool = False) -> None:
        """Compare the hosts of a group, which are peers of each other; record only the result of `only` if given.

        With `counters` the group spans several jobs: only results of counters are recorded, and none of it is healthy.
        """
        pod, places = self.pod, np.array(group, np.intp)
        compared = places if only is None else np.array([only], np.intp)
        self.peers[compared] = len(group) - 1
        if len(group) - 1 < params.peers:
            return
        self.judged[compared] |= not counters
        own = np.arange(len(group)) if only is None else np.array([len(group) - 1])
        share, retransmits, typical = pod.share[compared], pod.retransmits[compared], pod.typical[compared]
        trained = np.nan_to_num(pod.trained[compared])
        line = np.maximum(pod.speed[compared], np.where(trained > 0, trained, 1.0))
        busy = typical >= params.busy * line
        usual = median_of_others(pod.share[places])[own]
        behind = busy & (share < params.slow * np.minimum(usual, 1.0))
        apart = (usual - share) / max(params.sigmas * MAD_TO_SIGMA, 1e-9)
        slow = behind & spread_within(pod.share[places], own, usual, apart, behind)
        stalls = slow & (pod.stalled[compared] >= params.stalled)
        stalls &= median_of_others(pod.stalled[places])[own] < params.stalled / 2
        retransmitting = ~slow & busy & (retransmits >= 1) & (median_of_others(pod.retransmits[places])[own] < 0.5)
        for reason, where, observed, expected in (
            (RailReason.SLOW, slow & (not counters), pod.rate[compared], typical * np.minimum(usual, 1.0)),
            (RailReason.PCIE, stalls, pod.stalled[compared], np.full_like(share, params.stalled)),
            (RailReason.RETRANSMITS, retransmitting, retransmits, np.ones_like(share)),
        ):
            self._record(compared, where, reason, observed, expected)

    def trained_low(self) -> None:
        """Record the rails that trained below their speed; they are bad whatever their peers do."""
        trained, speed = self.pod.trained, self.pod.speed
        low = (trained > 0) & (trained < TRAINED_SHARE * speed)
        self._record(np.arange(len(speed)), low, RailReason.TRAINED_LOW, trained, speed)

    def _record(
        self,
        places: npt.NDArray[np.intp],
        where: npt.NDArray[np.bool_],
        reason: RailReason,
        observed: Values,
        expected: Values,
    ) -> None:
        if not np.count_nonzero(where):
            return
        self.reason[places] = np.where(where, reason, self.reason[places])
        self.observed[places] = np.where(where, observed, self.observed[places])
        self.expected[places] = np.where(where, expected, self.expected[places])


def median_of_others(values: Values) -> Values:
    """Return, for each cell, the median of the other read values of its column; NaN if there are none."""
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


def spread_within(
    values: Values, own: npt.NDArray[np.intp], middle: Values, limit: Values, asked: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Return the `asked` cells in which the median deviation (MAD) of the column's others is below a limit.

    Counts the values within the limit in one pass over each column, and computes the median only if half of them are.
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
