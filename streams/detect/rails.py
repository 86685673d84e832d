"""A pod's rails in one window, each against its peers: which is slower than it should be, and why.

A rail is compared with the same rail of other hosts of its job (of its pod, where no job is known) and with its host's
other rails; both must be faster. So an idle host, a job that slows as a whole and rails that fall together say nothing.
"""

from collections.abc import Collection, Iterator, Mapping
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


@dataclass(frozen=True, slots=True)
class Mark:
    """What one window says of one rail of a host; `why` is empty where it was well."""

    begin_ns: int
    end_ns: int
    why: str = ""
    observed: float = 0.0
    expected: float = 0.0
    peers: int = 0
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class RailPort:
    """Where a rail of a host is: its port, and what it should be trained to."""

    host: str
    rail: int
    plane: int | None
    port: str
    speed_bps: float


def marks_of(
    params: RailParams, topology: Topology, windows: Mapping[str, Rails], watched: Collection[str]
) -> dict[tuple[str, int], tuple[RailPort, Mark]]:
    """Of the hosts of a pod in one window: the rails that are bad, and those that are `watched` (`host/rail`)."""
    own = [(rail, window, row) for window in windows.values() for rail, row in _rails(topology, window)]
    if not own:
        return {}
    read = {metric: _column(own, metric) for metric in _METRICS}
    seconds = np.array([max(w.at_ns - w.since_ns, 1) / 1e9 for _, w, _ in own])
    groups = _groups(topology, own)
    rate = np.fmax(read[Metric.TX_BYTES], read[Metric.RX_BYTES]) * 8 / seconds
    speed = np.array([rail.speed_bps for rail, _, _ in own])
    begin_ns, end_ns = own[0][1].begin_ns, own[0][1].end_ns
    found: dict[tuple[str, int], tuple[RailPort, Mark]] = {}
    judged = _judged(params, own, groups, rate, speed, read, seconds)
    for i, (rail, _, _) in enumerate(own):
        why, observed, expected, peers = judged.get(i, ("", 0.0, 0.0, 0))
        if why or f"{rail.host}/{rail.rail}" in watched:
            mark = Mark(begin_ns, end_ns, why, observed, expected, peers, float(np.nan_to_num(rate[i])))
            if why or (rail.host, rail.rail) not in found:  # of two planes the one that is bad
                found[rail.host, rail.rail] = rail, mark
    return found


_METRICS = (
    Metric.TX_BYTES, Metric.RX_BYTES, Metric.SPEED_BPS, Metric.LOCAL_ACK_TIMEOUTS, Metric.ROCE_SLOW_RESTARTS,
    Metric.PCIE_STALLED_READ_SECONDS, Metric.PCIE_STALLED_WRITE_SECONDS,
)  # fmt: skip

_Own = list[tuple[RailPort, Rails, int]]
_Group = tuple[str, int, int | None]


def _rails(topology: Topology, window: Rails) -> Iterator[tuple[RailPort, int]]:
    """The ports of a host that are rails, and their places in the window."""
    for row, name in enumerate(window.port):
        cable = topology.cable_at(Port(window.device, name))
        if cable is not None and cable.rail is not None:
            yield RailPort(window.device, cable.rail, cable.plane, name, float(cable.speed_bps or 0)), row


def _column(own: _Own, metric: Metric) -> Values:
    """A metric of every rail; NaN where it was not read."""
    values = []
    for _, window, row in own:
        value = -1.0
        if metric in window.metric:
            value = window.value[window.metric.index(metric) * len(window.port) + row]
        values.append(np.nan if value < 0 else value)
    return np.array(values)


def _groups(topology: Topology, own: _Own) -> list[_Group]:
    """Whom each rail is compared with: those of the same job, or of no job, on the same rail and plane."""
    jobs: dict[str, str] = {}
    for rail, window, _ in own:
        if rail.host not in jobs:
            jobs[rail.host] = next(iter(topology.jobs_on([rail.host], window.begin_ns)), "")
    return [(jobs[rail.host], rail.rail, rail.plane) for rail, _, _ in own]


_Verdict = tuple[str, float, float, int]


def _judged(
    params: RailParams, own: _Own, groups: list[_Group], rate: Values, speed: Values,
    read: dict[Metric, Values], seconds: Values,
) -> dict[int, _Verdict]:  # fmt: skip
    """The rails that are bad, by place: why, observed, expected, peers."""
    verdicts: dict[int, _Verdict] = {}
    by_group: dict[_Group, list[int]] = {}
    by_host: dict[str, list[int]] = {}
    for i, (rail, _, _) in enumerate(own):
        by_group.setdefault(groups[i], []).append(i)
        by_host.setdefault(rail.host, []).append(i)
    stalls = np.fmax(read[Metric.PCIE_STALLED_READ_SECONDS], read[Metric.PCIE_STALLED_WRITE_SECONDS]) / seconds
    timeouts = read[Metric.LOCAL_ACK_TIMEOUTS] / params.timeouts_a_second
    again = np.fmax(timeouts, read[Metric.ROCE_SLOW_RESTARTS] / params.restarts_a_second) / seconds
    for i, (rail, _, _) in enumerate(own):
        trained = read[Metric.SPEED_BPS][i]
        if speed[i] and 0 < trained < 0.99 * speed[i]:
            verdicts[i] = TRAINED_LOW, float(trained), float(speed[i]), 0
            continue
        peers = [j for j in by_group[groups[i]] if j != i and not np.isnan(rate[j])]
        others = [j for j in by_host[rail.host] if j != i and not np.isnan(rate[j])]
        if len(peers) < params.peers or len(others) < params.other_rails:
            continue
        verdict = _verdict(params, i, rate, speed, stalls, again, peers, others)
        if verdict is not None:
            verdicts[i] = verdict
    return verdicts


def _verdict(
    params: RailParams, i: int, rate: Values, speed: Values, stalls: Values, again: Values,
    peers: list[int], others: list[int],
) -> _Verdict | None:  # fmt: skip
    same, own = float(np.median(rate[peers])), float(np.median(rate[others]))
    if min(same, own) < params.busy * max(speed[i], 1.0):
        return None
    spread = _MAD_TO_SIGMA * float(np.median(np.abs(rate[peers] - same)))
    slow = rate[i] < params.slow * min(same, own) and same - rate[i] > params.sigmas * spread
    if slow and stalls[i] >= params.stalled and not _typical(stalls[peers]) >= params.stalled / 2:
        return PCIE, float(stalls[i]), params.stalled, len(peers)
    if slow:
        return SLOW, float(rate[i]), same, len(peers)
    if again[i] >= 1 and not _typical(again[peers]) >= 0.5:
        return RETRANSMITS, float(again[i]), 1.0, len(peers)
    return None


def _typical(values: Values) -> float:
    """The median of what was read; NaN where nothing was."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan
