"""A pod's rails in one window, each against its peers: which is slower than it should be, and why.

A rail is compared with its host's other rails (its share of their median), and that share with the share of the same
rail at other hosts of its job (of its pod, where no job is known). So an idle host, a job that slows as a whole, rails
that fall together and a rail that carries less everywhere say nothing. `measure` tells only of hosts that have a rail
in doubt; a host that is read and not told of has all its rails alike.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from streams.detect.params import RailParams
from streams.fabric.catalogue import Metric
from streams.fabric.ids import Port
from streams.fabric.topology import Topology
from streams.wire.models import Rails

Values = npt.NDArray[np.float64]

SLOW, TRAINED_LOW, RETRANSMITS, PCIE = "slow", "trained-low", "retransmits", "pcie"
_MAD_TO_SIGMA = 1.4826
"""Of a normal distribution."""

_TRAINED = 0.99
"""Below this share of its speed a port has trained low; devices round."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What one window says of one rail of a host; `why` is empty where it was well."""

    begin_ns: int
    end_ns: int
    why: str = ""
    observed: float = 0.0
    expected: float = 0.0
    peers: int = 0


@dataclass(frozen=True, slots=True)
class RailPort:
    """Where a rail of a host is: its port, and what it should be trained to."""

    host: str
    rail: int
    plane: int | None
    port: str
    speed_bps: float


_MARGIN = 0.03
"""`measure` doubts a rail so much earlier than it would be bad, so that peers that are nearly as slow are told of."""


def doubted(
    params: RailParams, read: Mapping[Metric, Values], seconds: Values, speeds: Values
) -> npt.NDArray[np.bool_]:
    """Which hosts have a rail in doubt; each value has shape (hosts, ports), `speeds` NaN where a port is no rail."""
    is_rail = ~np.isnan(speeds)
    none = np.full(speeds.shape, np.nan)
    rate = np.fmax(read.get(Metric.TX_BYTES, none), read.get(Metric.RX_BYTES, none)) * 8 / seconds[:, None]
    rate[~is_rail] = np.nan
    trained = read.get(Metric.SPEED_BPS, none)
    line = np.fmax(speeds, trained)  # the inventory may not know it
    typical = _median(rate)
    found = (rate < (params.slow + _MARGIN) * typical) & (typical >= params.busy * np.nan_to_num(line, nan=1.0))
    found |= (trained > 0) & (trained < _TRAINED * speeds)
    for metric, limit in _limits(params).items():
        if metric in read:
            found |= read[metric] / seconds[:, None] >= limit / 2
    doubts: npt.NDArray[np.bool_] = np.any(found & is_rail, axis=1)
    return doubts


def _median(values: Values) -> Values:
    """Of each row, by what was read in it, as a column; NaN where nothing was."""
    if not values.shape[1]:
        return np.full((len(values), 1), np.nan)
    ordered, rows = np.sort(values, axis=1), np.arange(len(values))  # NaN last
    count = (~np.isnan(values)).sum(axis=1)
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[1] - 1)
    medians: Values = (ordered[rows, low] + ordered[rows, high]) / 2
    return medians[:, None]


def _limits(params: RailParams) -> dict[Metric, float]:
    """What is too much of a counter, a second."""
    return {
        Metric.LOCAL_ACK_TIMEOUTS: params.timeouts_a_second, Metric.ROCE_SLOW_RESTARTS: params.restarts_a_second,
        Metric.PCIE_STALLED_READ_SECONDS: params.stalled, Metric.PCIE_STALLED_WRITE_SECONDS: params.stalled,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Read:
    """One rail of a host that was told of."""

    rail: RailPort
    rate: float
    typical: float
    """The median of its host's other rails; NaN where there are too few."""
    trained: float
    again: float
    stalled: float

    @property
    def share(self) -> float:
        """Of its host's other rails."""
        return self.rate / self.typical if self.typical else float("nan")


def marks_of(
    params: RailParams,
    topology: Topology,
    windows: Mapping[str, Rails],
    hosts: Collection[str],
    watched: Collection[str],
) -> dict[tuple[str, int], tuple[RailPort, Mark]]:
    """Of a pod in one window: the rails that are bad, and those of the told that are `watched` (`host/rail`).

    `windows` are of the hosts that were told of, `hosts` all of the pod that are read.
    """
    begin_ns, end_ns = next((w.begin_ns, w.end_ns) for w in windows.values())
    reads = {(r.rail.host, r.rail.rail, r.rail.plane): r for w in windows.values() for r in _reads(params, topology, w)}
    jobs = {host: next(iter(topology.jobs_on([host], begin_ns)), "") for host in {*hosts, *windows}}
    found: dict[tuple[str, int], tuple[RailPort, Mark]] = {}
    for (host, number, plane), own in reads.items():
        peers = [p for p in hosts if p != host and jobs[p] == jobs[host]]
        told = [reads.get((peer, number, plane)) for peer in peers]
        why, observed, expected = _verdict(params, own, told)
        if why or f"{host}/{number}" in watched:
            mark = Mark(begin_ns, end_ns, why, observed, expected, 0 if why == TRAINED_LOW else len(peers))
            if why or (host, number) not in found:  # of two planes the one that is bad
                found[host, number] = own.rail, mark
    return found


def _reads(params: RailParams, topology: Topology, window: Rails) -> Iterator[_Read]:
    seconds = max(window.at_ns - window.since_ns, 1) / 1e9
    columns = {metric: _column(window, metric) for metric in (*_limits(params), *_METRICS)}
    rails = {}
    for row, name in enumerate(window.port):
        cable = topology.cable_at(Port(window.device, name))
        if cable is not None and cable.rail is not None:
            rails[row] = RailPort(window.device, cable.rail, cable.plane, name, float(cable.speed_bps or 0))
    rates = {row: _largest(columns[m][row] for m in (Metric.TX_BYTES, Metric.RX_BYTES)) * 8 / seconds for row in rails}
    over = {m: limit for m, limit in _limits(params).items() if m in _AGAIN}
    for row, rail in rails.items():
        others = [rate for other, rate in rates.items() if other != row and rate == rate]
        yield _Read(
            rail, rates[row], float(np.median(others)) if len(others) >= params.other_rails else float("nan"),
            columns[Metric.SPEED_BPS][row], _largest(columns[m][row] / limit for m, limit in over.items()) / seconds,
            _largest(columns[m][row] for m in _STALLS) / seconds,
        )  # fmt: skip


_METRICS = (Metric.TX_BYTES, Metric.RX_BYTES, Metric.SPEED_BPS)
_AGAIN = (Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS)
_STALLS = (Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS)


def _column(window: Rails, metric: Metric) -> list[float]:
    """A metric of every port; NaN where it was not read."""
    count = len(window.port)
    if metric not in window.metric:
        return [float("nan")] * count
    first = window.metric.index(metric) * count
    return [value if value >= 0 else float("nan") for value in window.value[first : first + count]]


def _largest(values: Iterable[float]) -> float:
    """Of what was read; NaN where nothing was."""
    return max((value for value in values if value == value), default=float("nan"))


def _verdict(params: RailParams, own: _Read, told: list[_Read | None]) -> tuple[str, float, float]:
    """Why a rail is bad ("" where it is not), what was observed, and what is expected."""
    speed = own.rail.speed_bps
    if 0 < own.trained < _TRAINED * speed:
        return TRAINED_LOW, own.trained, speed
    if len(told) < params.peers or not own.typical >= params.busy * max(speed, own.trained if own.trained > 0 else 1.0):
        return "", 0.0, 0.0
    shares = [1.0 if peer is None else peer.share for peer in told]
    shares = [share for share in shares if share == share]
    usual = float(np.median(shares)) if shares else float("nan")
    spread = _MAD_TO_SIGMA * float(np.median([abs(share - usual) for share in shares])) if shares else 0.0
    slow = own.share < params.slow * min(usual, 1.0) and usual - own.share > params.sigmas * spread
    if slow and own.stalled >= params.stalled and _most(told, "stalled") < params.stalled / 2:
        return PCIE, own.stalled, params.stalled
    if slow:
        return SLOW, own.rate, own.typical * min(usual, 1.0)
    if own.again >= 1 and _most(told, "again") < 0.5:
        return RETRANSMITS, own.again, 1.0
    return "", 0.0, 0.0


def _most(told: list[_Read | None], what: str) -> float:
    """The median of the peers, of whom those not told of have none."""
    values = [0.0 if peer is None else getattr(peer, what) for peer in told]
    return float(np.median([0.0 if value != value else value for value in values]))
